"""Sentences for findings of the certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ocp.app.sentences.wording import Wording, status_word
from ocp.problem.finding import Finding, Kind
from ocp.problem.solution import MINIMA

#: names of the checks
CHECKS: Mapping[Kind, str] = {
    Kind.STATIONARITY: "stationarity",
    Kind.COMPLEMENTARITY: "complementarity",
    Kind.GAP_SEGMENT: "segment re-integration gap",
    Kind.GAP_TOTAL: "total re-integration gap",
    Kind.ERROR_ESTIMATE: "defect between knots",
    Kind.ENERGY: "energy balance",
    Kind.OBJECTIVE: "objective against its quadrature",
    Kind.POINT: "consistency of the multipliers",
    Kind.MINIMUM_PRINCIPLE: "minimum principle: Hamiltonian gap",
    Kind.OBJECTIVE_ERROR: "error of the objective",
}
#: clauses for the data of a check, by key
NUMBERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "kkt_residuals": lambda data: f"unscaled KKT residuals: {', '.join(f'{value:.1e}' for value in data['kkt_residuals'])}",
    "reported": lambda data: f"{data['reported']:.9g} reported, {data['integrated']:.9g} integrated along the trajectory",
    "quantity": lambda data: f"in the {data['quantity']}",
    "finer_objective": lambda data: f"{data['finer_objective']:.9g} on a finer mesh",
}


def where(finding: Finding) -> str:
    """The location and cause of the largest value of a check; "" if unknown."""
    if "where" in finding.data:  # a run of an earlier version, which stored text
        return str(finding.data["where"])
    data, place, clauses = finding.data, "", [tell(finding.data) for key, tell in NUMBERS.items() if key in finding.data]
    if "span" in data:
        place = "on [{:.6g}, {:.6g}] s".format(*data["span"]) + (f" of phase {finding.phase}" if finding.phase else "")
    elif finding.phase:
        clauses.insert(0, f"in phase {finding.phase}")
    if "cause" in data:
        wording = SENTENCES[data["cause"]]
        clauses.append(wording.format(time=finding.time, **data) if isinstance(wording, str) else wording(finding))
    return " ".join(part for part in (place, f"({'; '.join(clauses)})" if clauses else "") if part)


def _check(finding: Finding) -> str:
    value, more = finding.value, where(finding)
    size = "could not be computed" if value is None or value != value else f"{value:.3g} > {finding.tolerance:.3g}"
    return f"{CHECKS[finding.kind]} {size}{' ' + more if more else ''}"


def _violation(finding: Finding) -> str:
    label = f"{finding.phase}: {finding.name}" if finding.phase else finding.name
    size = f"constraint {label!r} violated by {finding.value:.3g} > {finding.tolerance:.3g}"
    if finding.kind is Kind.VIOLATION:
        return f"{size} at t = {finding.time:.6g} s ({finding.component})"
    when = f" at t = {finding.time:.9g} s" if finding.time is not None else ""
    return f"{size} between knots{when}; a finer mesh helps: more intervals, or refine: hp"


POINTS: Mapping[Kind, str] = {
    Kind.STRICT_MINIMUM: "a strict local minimum",
    Kind.FLAT_MINIMUM: "a local minimum, flat along some directions",
    Kind.SADDLE: "a saddle point",
    Kind.MAXIMUM: "a local maximum",
    Kind.POINT_NOT_EXAMINED: "a point of unknown kind: second-order conditions were not examined",
}


def _point(finding: Finding) -> str:
    if "words" in finding.data:  # a run of an earlier version, which stored text
        return str(finding.data["words"])
    reasons = ", ".join(str(SENTENCES[reason]) for reason in finding.data["discrete"])
    words = POINTS[finding.kind] + (f" of the discrete problem ({reasons})" if reasons else "")
    words = words.replace("local minimum", "local (weak) minimum") if finding.data.get("weak") else words
    if finding.kind in (*MINIMA, Kind.POINT_NOT_EXAMINED):
        return words
    if not finding.data["below"]:
        return f"{words}: the objective decreases along a direction of zero curvature, by terms of higher order"
    return f"{words}: {finding.data['below']} of {finding.data['free']} free directions have negative curvature"


def _not_attained(finding: Finding) -> str:
    if "before" not in finding.data:
        return ("no minimum exists: controls that switch ever faster between two values approach an objective of "
                f"{finding.data['infimum']:.6g} or less")
    return (f"no minimum seems to exist: on halved intervals {finding.data['name']} grows from {finding.data['before']:.3g} to "
            f"{finding.data['after']:.3g} at t = {finding.time:.6g} s, and the objective tends to "
            f"{finding.data['infimum']:.6g}. Bound {finding.data['name']}, or give it a superlinear cost")


def _finer(finding: Finding) -> str:
    if "error" in finding.data:
        return f"the solve on a finer mesh failed: {finding.data['error']}"
    return f"the solve on a finer mesh ended: {status_word(finding.data['status'])}"


def _oscillating(finding: Finding) -> str:
    listed = ", ".join(f"{one['name']} ({100 * one['turning']:.0f} % of its points reverse, by {100 * one['amplitude']:.0f} % of "
                       "its range)" for one in finding.data["controls"])
    ((option, value),) = finding.data["option"].items()
    return f"controls oscillate: {listed}, in fast modes that hardly affect the cost; {option}: {value} or more intervals may help"


def _kinks(finding: Finding) -> str:
    terms = finding.data["terms"]
    listed = "; ".join(f"{one['term']} {one['name']!r}, for {100 * one['share']:.0f} % of the time" for one in terms)
    return (f"the motion lies on a kink (abs, min, max or a comparison) of {listed}: the gradient is undefined there. Write |u| as "
            "a + b with controls a, b >= 0 and u = a - b")


SENTENCES: Mapping[Kind, Wording] = {
    **dict.fromkeys(CHECKS, _check),
    Kind.VIOLATION: _violation,
    Kind.VIOLATION_BETWEEN: _violation,
    **dict.fromkeys(POINTS, _point),
    Kind.ACTIVE_CONSTRAINTS: "active constraints",
    Kind.PIECEWISE_CONSTANT_CONTROLS: "piecewise constant controls",
    Kind.FLAT_DIRECTIONS: "flat directions",
    # causes: clauses within brackets
    Kind.STATE_DEPENDENT_JUMP: "at t = {time:.6g} s rates or costs jump where the state crosses a surface: end a phase there",
    Kind.CONVEX_HAMILTONIAN: "convex in the controls",
    Kind.BETTER_PARAMETER: "the same motion costs less with another value of {name}",
    Kind.WAITING: "waiting at t = {time:.6g} s and moving faster afterwards costs less",
    Kind.MOVING_JUMP: "at t = {time:.6g} s rates or costs jump in time, and {unknown} moves that instant past nodes of the "
                      "mesh: end a phase there",
    Kind.OSCILLATING_COST: "running costs have {turns} extrema along the motion, which needs as many intervals: use their mean "
                           "over a period, or shorten the motion",
    Kind.ERROR_GROWTH: "open loop {open_loop:.2g}, errors grow {growth:.3g}-fold",
    Kind.NOT_ATTAINED: _not_attained,
    Kind.NOT_EXAMINED: "was not examined",
    Kind.RATES_NOT_FINITE: "the rates are not finite at t = {time:.9g} s",
    Kind.REINTEGRATION_FAILED: "the re-integration failed",
    Kind.DISCRETE_TIME: "in discrete time nothing lies between steps, and there is no finer mesh",
    Kind.SIZES_DIFFER: "their numbers differ",
    Kind.FINER_SOLVE_FAILED: _finer,
    # advice
    Kind.VIOLATED_BETWEEN_KNOTS: "It holds at the knots, where the method imposes it, and not between them.",
    Kind.VIOLATED_AT_KNOTS: "It does not hold at the knots, where the method imposes it: the solve ended too early.",
    Kind.DESCENT_FAILED: "The point is stationary but not a minimum, and the search along negative curvature failed. Try another "
                         "initial guess.",
    Kind.PHASE_MISSING: "The time at which the motion crosses the jump is no unknown of the program. Use a phase on either side, "
                        "each with a free duration.",
    Kind.POINT_INACCURATE: "The point is not optimal to this accuracy: scales differ widely, or the solve ended early.",
    Kind.MESH_TOO_COARSE: "The mesh is too coarse for this motion: the solution is inaccurate between its knots.",
    Kind.UNSTABLE_MOTION: "Every segment is accurate; the motion is unstable, so that small errors grow from start to end.",
    Kind.INACCURATE_SEGMENTS: "It is the sum of the errors of the segments.",
    Kind.OBJECTIVE_NOT_CONVERGED: "The objective has not converged with the mesh.",
    Kind.DIFFERENT_POINTS: "Trajectory and multipliers belong to different points: solve again.",
    # beside the checks
    Kind.STIFF: "certificate: the motion is stiff and was re-integrated by an implicit method (Radau IIA, order 9)",
    Kind.OSCILLATING_CONTROLS: _oscillating,
    Kind.PHASE_VANISHES: lambda found: (f"{'phase ' + found.phase if found.phase else 'the phase'} vanishes: its duration is at "
                                        f"{found.value:.2g} s, the bound used instead of zero"),
    Kind.MOTION_ON_KINKS: _kinks,
}
