"""Sentences for findings of shooting methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ocp.app.sentences.wording import Wording, of_phase
from ocp.problem.finding import Finding, Kind

#: advice if a search missed constraints
COLLOCATION = "; try --method collocation, which has the states as unknowns"


def _ending(how: str | Callable[[Finding], str]) -> Wording:
    """How a search ended, the largest violation, and advice."""
    def words(found: Finding) -> str:
        data, number = found.data, {"value": found.value, "tolerance": found.tolerance}
        own = how.format(name=found.name, **number, **data) if isinstance(how, str) else how(found)
        violated = f"; largest violation {data['violation']:.3g} ({data['constraint']})" if "violation" in data else ""
        return f"{own}{violated}{COLLOCATION if 'missed' in data else ''}"

    return words


def _at(found: Finding) -> str:
    """Where a knot stands."""
    return f"t = {found.time:.6g} s" + (f" of phase {found.phase!r}" if found.phase else "")


def _of_phase(words: str) -> Wording:
    return lambda found: of_phase(found) + words


def _gradient(found: Finding) -> str:
    """The projected gradient with its tolerance, the expected decrease and the cost, as far as known."""
    data = found.data
    parts = [f"projected gradient {found.value:.3g}"]
    parts += [] if found.tolerance is None else [f"tolerance {found.tolerance:.3g}"]
    parts += [f"expected decrease {data['decrease']:.3g}"] if "decrease" in data else []
    return ", ".join([*parts, *([f"cost {data['cost']:.9g}"] if "cost" in data else [])])


def _no_decrease(found: Finding) -> str:
    why = "; the last trial rollout diverged" if found.data["diverged"] else ""
    return f"no step decreases the cost with regularisation {found.data['regularisation']:.3g}; {_gradient(found)}{why}"


def _failure(data: Mapping[str, object]) -> str:
    """Why an implicit step has no solution."""
    return (f"Newton's method finds no solution at t = {data['t']:.6g} s: {data['why']}; the residual is {data['residual']:.3g} at "
            f"joint {data['joint']!r}; a shorter step may help")


def _state(found: Finding) -> str:
    data = found.data
    step = f"step {data['step']}: {_failure(data['failure'])}; " if "failure" in data else ""
    start = ", ".join(f"{name} = {value:.6g}" for name, value in data["from"].items())
    return (f"{step}state {', '.join(map(repr, data['states']))} becomes {found.value} in the step from {_at(found)} (rollout of "
            f"the initial guess), from {start}")


def _step(found: Finding) -> str:
    why = _failure(found.data["failure"]) if "failure" in found.data else "states or costs are not finite"
    return f"step {found.data['step']} ({_at(found)}) of the simulation of the guess fails: {why}"


def _hessian(found: Finding) -> str:
    what = "cost with respect to the controls" if found.data["controls"] else "cost"
    names = " and ".join(map(repr, found.data["by"]))
    return f"the second derivative of the {what} is {found.value} at {_at(found)}, components {names}"


def _in_section(found: Finding) -> str:
    """The present spelling of options given in an old one."""
    own = found.data["sections"]
    keys = {name: ", ".join(f"{option}: ..." for option in own if own[option] == name) for name in dict.fromkeys(own.values())}
    written = ", ".join(f"{name}: {{{inside}}}" for name, inside in keys.items())
    return f"these options of {found.name} moved to a section of their own, {written}; the old spelling still works"


SENTENCES: Mapping[Kind, Wording] = {
    Kind.OPTIONS_IN_SECTION: _in_section,
    Kind.GUESS_FROM_INVERSE_DYNAMICS: _of_phase(
        "the guess of the controls comes from inverse dynamics along the guess of the states"),
    Kind.GUESS_MOVED_INTO_BOUNDS: lambda found: (
        f"{of_phase(found)}the guess of control {', '.join(map(repr, found.data['controls']))} was moved into its bounds"),
    Kind.GUESS_STATIONARY: (
        "the initial guess is a stationary point; a symmetric problem may need a guess that breaks the symmetry"),
    # how a search ended
    Kind.GRADIENT_CONVERGED: _ending(_gradient),
    Kind.POLISHED: "polished: projected gradient {value:.3g}, largest violation {feasibility:.3g}, cost {cost:.9g}",
    Kind.COST_AT_ROUNDING: _ending(
        "the cost is at its rounding level, cost {cost:.9g}; projected gradient {value:.3g} relative to the scale of the controls"),
    Kind.NOTHING_FREE: "there are no free unknowns",
    Kind.ITERATIONS_USED_UP: _ending(lambda found: f"{_gradient(found)} after {found.data['iterations']} iterations"),
    Kind.SEARCH_INTERRUPTED: "after {iterations} iterations, cost {cost:.9g}",
    Kind.GRADIENT_ABOVE_ROUNDING: _ending(
        "the cost is at its rounding level and the projected gradient stays at {value:.3g}, above its tolerance {tolerance:.3g}"),
    Kind.NO_DECREASE: _ending(_no_decrease),
    Kind.HESSIAN_INDEFINITE: _ending(lambda found: (
        f"Quu is not positive definite at {_at(found)} even with regularisation {found.data['regularisation']:.3g}")),
    Kind.VIOLATION_NOT_HALVED: _ending("violation and gaps did not halve within {iterations} iterations"),
    Kind.VIOLATION_STAYS: _ending("the largest violation stays at {value:.3g} ({name}) for any penalty"),
    Kind.MULTIPLIER_UPDATES_USED_UP: _ending("largest violation {value:.3g} ({name}) after {updates} updates of the multipliers"),
    Kind.LINE_SEARCH_STOPPED: _ending(lambda found: f"{_gradient(found)}; {found.data['solver']}: {found.data['status']}"),
    # rollouts and derivatives that are not finite
    Kind.STATE_NOT_FINITE: _state,
    Kind.STATE_TOO_LARGE: lambda found: (
        f"state {found.name!r} exceeds {found.tolerance:.3g} in the step from {_at(found)} (rollout of the initial guess)"),
    Kind.RUNNING_COST_NOT_FINITE: lambda found: (
        f"the running cost is {found.value} in the step from {_at(found)} (rollout of the initial guess)"),
    Kind.FINAL_COST_NOT_FINITE: lambda found: f"the final cost is {found.value} at {_at(found)} (rollout of the guess)",
    Kind.PATH_CONSTRAINT_NOT_FINITE: lambda found: (
        f"the constraint {found.name!r} is not finite at {_at(found)} (rollout of the guess)"),
    Kind.STEP_FAILED: _step,
    Kind.DYNAMICS_DERIVATIVE_NOT_FINITE: lambda found: (
        f"the derivative of the dynamics is {found.value} at {_at(found)}, component {found.component!r} with respect to "
        f"{found.data['by']!r}"),
    Kind.CONSTRAINT_DERIVATIVE_NOT_FINITE: lambda found: (
        f"the derivative of constraint {found.name!r} is {found.value} at {_at(found)}, with respect to {found.data['by']!r}"),
    Kind.COST_DERIVATIVE_NOT_FINITE: lambda found: (
        f"the derivative of the cost is {found.value} at {_at(found)}, component {found.data['by']!r}"),
    Kind.COST_HESSIAN_NOT_FINITE: _hessian,
    Kind.COSTATES_OVERFLOW: "the costates overflow: the rollout is too sensitive; shorten the horizon",
}
