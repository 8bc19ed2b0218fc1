"""Sentences for findings of the search for an answer, and of reformulations of the problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ocp.app.sentences.wording import Wording, status_word
from ocp.problem.finding import Finding, Kind

#: reasons for an early end, by their key in findings
CAUSES = {"limit": "the time limit", "interrupt": "the interrupt"}


def _left_out(found: Finding) -> str:
    parts = ", ".join(found.data["parts"])
    return f"left out because of {CAUSES[found.data['by']]}: {found.name}{f' ({parts})' if parts else ''}"


def _intervals(data: Mapping[str, Any]) -> str:
    """The size of a mesh."""
    if "intervals" not in data:
        return "the program"
    low, high = data["lowest_degree"], data["highest_degree"]
    return f"{data['intervals']} intervals of degree {low}" + ("" if low == high else f" to {high}")


def _pass(found: Finding) -> str:
    from ocp.app.sentences import sentence

    data = found.data
    change = "" if data["change"] is None else f", change {data['change']:+.2g}"
    return (f"pass {data['pass']}: {_intervals(data)}, {data['unknowns']} unknowns, objective {found.value:.10g} "
            f"(discretisation error about {data['objective_error']:+.2g}{change}), {sentence(data['verdict'])}, "
            f"{data['seconds']:.2f} s")


def _not_certified(found: Finding) -> str:
    from ocp.app.sentences import sentence

    more = found.data["failures"] - 1
    return f"not certified: {sentence(found.data['first'])}" + (f" and {more} more" if more else "")


def _error(record: Mapping[str, Any]) -> str:
    """The largest error of an interval."""
    phase = f" of phase {record['phase']}" if record.get("phase") else ""
    return f"{record['value']:.2g} in {record['name']}, interval {record['data']['interval']}{phase}"


def _pass_not_solved(found: Finding) -> str:
    guess = "" if found.name == "given" else f" from guess {found.name}"
    return f"pass {found.data['pass']}: {_intervals(found.data)}{guess}: {status_word(found.data['status'])}"


def _guess_served(found: Finding) -> str:
    failed = "; ".join(f"{name}: {status_word(status)}" for name, status in found.data["failed"].items())
    return f"initial guess: {found.name} (failed before: {failed})"


def _until(reason: str) -> Wording:
    """The sentence for a refinement that ended early."""
    def worded(found: Finding) -> str:
        error = found.data.get("error")
        where = f" The largest error is {_error(error)}." if error else ""
        return f"Mesh refinement ended after pass {found.data.get('passes', found.data.get('pass', 1))}: {reason}.{where}"

    return worded


def _by_phase(times: Mapping[str, Sequence[float]], digits: int) -> str:
    return "; ".join(f"{name}: " * bool(name) + ", ".join(f"{t:.{digits}g}" for t in own) for name, own in times.items())


def _jumps(rest: str) -> Wording:
    """The sentence for controls that jump at some times."""
    def worded(found: Finding) -> str:
        at = _by_phase(found.data["times"], 6)
        to = _by_phase(found.data["to"], 9) if "to" in found.data else ""
        status = status_word(found.data.get("status", ""))
        number = f"pass {found.data['pass']}: " if "pass" in found.data else ""
        return f"{number}controls jump near t = {at} s: {rest.format(to=to, status=status)}"

    return worded


def _singular(rest: str) -> Wording:
    def worded(found: Finding) -> str:
        number = f"pass {found.data['pass']}: " if "pass" in found.data else ""
        return f"{number}singular arc of {', '.join(found.data['controls'])}: {rest.format(**found.data)}"

    return worded


def _unbounded(found: Finding) -> str:
    whose = f" of {' and '.join(map(repr, found.data['phases']))}" if found.data["phases"] else ""
    costs = ", ".join(f"{c:.4g} at {T:.4g} s" for c, T in zip(found.data["costs"], found.data["durations"], strict=True))
    return (f"The duration{whose} grows without bound, because longer motions always cost less: {costs}. Give the duration an "
            "upper bound, or put a cost on time.")


def _last_pass(found: Finding) -> str:
    limit = "The time limit was reached. " if found.data["limit"] else ""
    return f"{limit}Pass {found.data['pass']}, the last completed one, is returned."


def _would_jump(found: Finding) -> str:
    times = ", ".join(f"{t:.6g}" for t in found.data["times"])
    return (f"the optimal controls jump near t = {times} s, and linear controls cannot: the objective is slightly higher; use "
            "controls: polynomial or 'held' (zero-order hold)")


#: kinds of points that the search leaves
POINTS = {Kind.SADDLE: "a saddle", Kind.MAXIMUM: "a maximum", Kind.FLAT_MINIMUM: "a minimum, flat along some directions"}


def _falls(found: Finding) -> str:
    point = POINTS[found.data["point"]] if "point" in found.data else "a point"
    return f"From {point} at {found.value:.6g} the objective decreased to {found.data['objective']:.3g} without limit."


SENTENCES: Mapping[Kind, Wording] = {
    Kind.PASS: _pass,
    Kind.PASS_NOT_SOLVED: _pass_not_solved,
    Kind.TOO_COARSE: "too coarse: {value:.2g} times the certificate's tolerance",
    Kind.CERTIFIED: "certified",
    Kind.NOT_CERTIFIED: _not_certified,
    Kind.MESH_ERROR: lambda found: f"error {_error(found.record())}",
    Kind.MESH_TOLERANCE_MISSED: lambda found: (
        f"tolerance_mesh {found.tolerance:.3g} was not reached: the error estimate is {_error(found.record())}. States are "
        f"accurate to {found.data['motion']:.2g}; the objective is insensitive to the remaining error, and finer meshes do not "
        "change it"),
    Kind.ACCURATE: "",
    Kind.INTERRUPTED: "interrupted",
    Kind.LAST_PASS_RETURNED: _last_pass,
    Kind.PROGRAM_NOT_SOLVED: lambda found: f"not solved: {status_word(found.data['status'])}",
    Kind.REFINED_MESH_NOT_SOLVED: "A refined mesh was not solved; the last pass that converged is returned.",
    Kind.NO_RULE_LEFT: "Every remedy that applies was tried.",
    Kind.PASSES_USED_UP: _until("the limit of passes was reached; raise max_passes"),
    Kind.REFINEMENT_STALLED: _until("the last passes hardly reduced the error and did not change the objective"),
    Kind.NO_FINER_MESH: _until("the limits allow no finer mesh; raise max_degree, or use refine hp or h"),
    Kind.GUESS_SERVED: _guess_served,
    Kind.GUESSES_FAILED: lambda found: f"initial guesses {', '.join(found.data['guesses'])}: all failed",
    Kind.LOCALLY_INFEASIBLE: (
        "Other initial guesses were tried on a coarse mesh only: on {intervals} intervals the constraint violation is the same, "
        "and none of {guesses} other guesses reduces it."),
    Kind.QUASI_NEWTON_STALLED: (
        "initial guess: {name}; no other was tried: the point is feasible, and the limited-memory Hessian lacks curvature; use "
        "hessian exact"),
    Kind.UNBOUNDED_DURATION: _unbounded,
    Kind.BADLY_SCALED: (
        "pass {pass}: the solver stopped before the optimum (stationarity {value:.2g} > {tolerance:.2g}): unknowns, constraints "
        "and cost are scaled by the solution from here on"),
    Kind.BOUNDS_TIGHTENED: (
        "bounds and constraints that motions overshot between nodes are tightened there, which costs about {value:.2g} of the "
        "objective (multipliers times tightening)"),
    Kind.CHATTERING_CONTROLS: _until("controls chatter along arcs on which the objective hardly depends on them"),
    Kind.SINGULAR_SMOOTHED: _singular(
        "smoothed, roughness {before:.2g} before and {after:.2g} after, stationarity {stationarity:.2g}"),
    Kind.SINGULAR_NEARLY_SMOOTH: _singular("nearly smooth"),
    Kind.SINGULAR_CHATTERS: _singular("no smooth controls solve the program on this mesh"),
    Kind.HARD_PROGRAM: lambda found: f"the program converges slowly ({status_word(found.data['status'])})",
    Kind.PATH_CONSTRAINTS_OVERSHOT: "path constraints were violated between nodes in {passes} passes",
    Kind.ZERO_ORDER_HOLD: lambda found: ("programs with polynomial controls converged slowly" if found.data["early"] else
                                         "polynomial controls gave no certified answer")
    + ": from here on controls are piecewise constant (zero-order hold)",
    Kind.JUMP_AT_AN_END: "at t = {time:.6g} s a phase begins or ends on a surface across which rates or costs jump: Gauss nodes "
                         "avoid its ends",
    Kind.JUMP_NOT_ON_MESH: _until("the remaining error is the time at which the motion crosses a discontinuity, which no mesh "
                                  "determines"),
    Kind.COSTS_TOO_FAST: _until("running costs oscillate too fast for intervals to follow"),
    Kind.EDGES_AT_JUMPS: _jumps("mesh edges placed there"),
    Kind.EDGES_MOVED: _jumps("mesh edges moved to {to} s"),
    Kind.EDGES_NOT_MOVED: _jumps("mesh edges placed there; they could not be moved ({status})"),
    Kind.EDGES_STAY: _jumps("mesh edges stay there"),
    Kind.NO_JUMP_AT_EDGES: "controls no longer jump at the mesh edges placed for that; these are ordinary edges again",
    Kind.NO_SWITCH: _jumps("a fast transition, not a switch"),
    Kind.LINEAR_CONTROLS_WOULD_JUMP: _would_jump,
    Kind.LOBATTO_ORDER: (
        "scheme lobatto of degree {value:.0f} and more has states of order 4 at knots, not 2 K - 2, with polynomial controls, "
        "because two intervals share the control at a knot; gauss and radau keep orders 2 K and 2 K - 1"),
    Kind.NOT_A_MINIMUM: lambda found: f"the point of objective {found.value:.9g} is {POINTS[found.data['point']]}",
    Kind.ESCAPED: lambda found: f"left {POINTS[found.data['point']]} of objective {found.value:.9g} along negative curvature",
    Kind.BETTER_CONTROLS: "at {objective:.9g}, other admissible controls have a smaller Hamiltonian (most at t = {time:.6g} s)",
    Kind.CONTROLS_IMPROVED: "left the point of objective {objective:.9g}: other controls have a smaller Hamiltonian",
    Kind.NONCONVEX_HAMILTONIAN: "at {value:.9g}: the Hamiltonian is not convex in the controls, and there may be several minima",
    Kind.RANDOM_GUESS: "at {value:.9g}: found from the random guess {name}, and others may lead to lower objectives",
    Kind.ERRORS_PAY: "at {objective:.9g}: the optimum exploits discretisation errors worth {value:.2g}",
    Kind.LOWER_START: "left the point of objective {objective:.9g}: the guess {name} led to a lower one on a few intervals",
    Kind.CONTROLS_SWITCH_FAST: "controls chatter: {turns} reversals",
    Kind.RELAXED_IS_LOWER: _until("controls that switch ever faster between two values approach an objective of {value:.6g} or "
                                  "less, which no motion attains"),
    Kind.INSTANTS_MEET: "at t = {time:.6g} s an instant at which rates or costs jump meets the end of a phase, or another instant",
    Kind.INSTANTS_SWAPPED: "left the point of objective {objective:.9g}: instants that meet at t = {time:.6g} s are better in the "
                           "other order",
    Kind.STARTS_DISAGREE: "{starts} initial guesses led to different local optima, of which this is the best found: a better one "
                          "may exist",
    Kind.FALLS_WITHOUT_BOUND: _falls,
    Kind.NO_ITERATE: "No iterate was found; the trajectory is the guess.",
    Kind.NO_ERROR_BOUND: "the objective has no error bound yet",
    Kind.WIDE_ERROR_BOUND: "the relative error bound of the objective {objective:.9g} is {value:.2g}",
    Kind.REFINED_FURTHER: "refined further: the relative error bound of the objective {objective:.9g} was {value:.2g}",
    Kind.LEFT_OUT: _left_out,
    Kind.STOPPED_IN: lambda found: f"{CAUSES[found.data['by']]} ended this stage: {found.name}",
    # how a problem was formulated
    Kind.ABSOLUTE_VALUE_AS_SUM: "{name}: solved as the difference of two nonnegative controls, whose sum is its absolute value in "
                                "the cost",
    Kind.SURFACE_MET: "the motion crosses or touches a switching surface, across which rates or costs jump",
    Kind.OTHER_MODES: "left the point of objective {objective:.9g}: phases that end on switching surfaces, or one more that waits "
                      "there, are better",
    Kind.PIECES_AT_SURFACES: "{name}: solved in {value:.0f} phases that end where the state crosses a switching surface",
    Kind.PIECES_AT_JUMPS: "{name}: solved in {value:.0f} phases that end where rates, costs or constraints jump in time",
    Kind.NORM_AS_SLACK: "{name}: solved as a slack control that is at least the norm, and stands for it in the cost",
}
