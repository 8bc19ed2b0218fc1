"""The numbers of a problem apart from its functions: what a program that was built once takes anew from case to case.

Numbers: values of parameters, durations, prescribed states, bounds, limits of constraints and linkages, ranges of free parameters.
Everything else but the guess is structure: functions, weights of residuals and of soft constraints, which components are
prescribed, where a limit is none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from ocp.problem.problem import Boundary, Linkage, Phase, Problem
from ocp.problem.terms import Constraint

Array = np.ndarray
#: from the numbers that stand somewhere to those that shall stand there, of the same shape
Take = Callable[[Array], Array]


def numbers_of(problem: Problem) -> Array:
    """All numbers [k], in the order of :func:`with_numbers`."""
    found: list[Array] = []

    def take(values: Array) -> Array:
        found.append(values.ravel())
        return values

    _walked(problem, take)
    return np.concatenate([np.zeros(0), *found])


def with_numbers(problem: Problem, numbers: Array) -> Problem:
    """The problem with other numbers [k]; its functions are the same objects. Raises ValueError where there are more or fewer."""
    rest = [np.asarray(numbers, dtype=float)]

    def take(values: Array) -> Array:
        if len(rest[0]) < values.size:
            raise ValueError(f"{len(numbers)} numbers are fewer than the problem has")
        own, rest[0] = rest[0][:values.size], rest[0][values.size:]
        return own.reshape(values.shape)

    found = _walked(problem, take)
    if len(rest[0]):
        raise ValueError(f"{len(numbers)} numbers are {len(rest[0])} more than the problem has")
    return found


def with_guess(problem: Problem, other: Problem) -> Problem:
    """The problem with the guess of another, phase by phase; durations and parameters stay."""
    return replace(problem, phases=tuple(replace(phase, guess=one.guess)
                                         for phase, one in zip(problem.phases, other.phases, strict=True)))


def structure_of(problem: Problem) -> str:
    """A digest of everything but numbers: problems with the same one differ in numbers alone, so that one program serves both."""
    digest = hashlib.sha256()
    for part in _parts(problem):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


# ---- the walk ---------------------------------------------------------------------------------------------------------
def _walked(problem: Problem, take: Take) -> Problem:
    """The problem with what ``take`` makes of its numbers."""
    return replace(problem, phases=tuple(_phase(phase, take) for phase in problem.phases),
                   linkages=tuple(_limited(linkage, take) for linkage in problem.linkages))


def _phase(phase: Phase, take: Take) -> Phase:
    system, duration = phase.system, phase.duration
    values = _tuple(system.parameter_values, take)
    length = _tuple((duration.lower, duration.upper, duration.guess), take)
    ranges = take(np.array([pair[1:] for pair in phase.free_parameters], dtype=float).reshape(-1, 2))
    bounds: dict[str, Any] = {name: _tuple(getattr(phase, name), take) for name in ("x_lower", "x_upper", "u_lower", "u_upper")}
    return replace(
        phase, **bounds, system=replace(system, parameter_values=values),
        duration=replace(duration, lower=length[0], upper=length[1], guess=length[2]),
        start=_boundary(phase.start, take), final=_boundary(phase.final, take),
        constraints=tuple(_limited(c, take) for c in phase.constraints),
        free_parameters=tuple((index, *pair) for (index, _, _), pair in zip(phase.free_parameters, ranges.tolist(), strict=True)))


def _tuple(values: Sequence[float], take: Take) -> tuple[float, ...]:
    return tuple(take(np.array(values, dtype=float)).tolist())


def _boundary(boundary: Boundary | None, take: Take) -> Boundary | None:
    return None if boundary is None else replace(boundary, value=_tuple(boundary.value, take))


def _limited(item: Any, take: Take) -> Any:
    """A constraint or linkage; soft limits stand in a penalty, and are not finite."""
    if getattr(item, "soft", None) is not None:
        return item
    return replace(item, lower=_tuple(item.lower, take), upper=_tuple(item.upper, take))


# ---- the rest ---------------------------------------------------------------------------------------------------------
def _parts(problem: Problem) -> Iterator[str]:
    yield from (f"{len(problem.phases)} phases", f"{len(problem.linkages)} linkages")
    for phase in problem.phases:
        system = phase.system
        yield repr((phase.name, system.name, system.space.names, system.controls, system.parameters, system.algebraic,
                    system.period, phase.duration.free, phase.duration.vanishing,
                    [index for index, _, _ in phase.free_parameters]))
        if system.mechanism is not None:
            yield str(system.model.fingerprint)
        for function in (system.rate, system.residual, system.energy, system.power, phase.reset):
            yield _written(function)
        for boundary in (phase.start, phase.final):
            yield repr(None if boundary is None else boundary.fixed)
        for name in ("x", "u"):
            yield _kinds(getattr(phase, f"{name}_lower"), getattr(phase, f"{name}_upper"))
        for cost in phase.costs:
            yield repr((cost.name, cost.at, cost.weights))
            yield _written(cost.function)
        for item in phase.constraints:
            yield from _of_condition(item)
            yield repr((item.at, item.sense, item.soft, item.labels, (item.lower, item.upper) if item.soft is not None else ()))
    for linkage in problem.linkages:
        yield from _of_condition(linkage)
        yield repr((linkage.ends, linkage.parameters))


def _of_condition(item: Constraint | Linkage) -> Iterator[str]:
    yield item.name
    yield _written(item.function)
    yield _kinds(item.lower, item.upper)


def _kinds(lower: Sequence[float], upper: Sequence[float]) -> str:
    """Which limits there are, and which of them are equal."""
    low, high = np.array(lower, dtype=float), np.array(upper, dtype=float)
    return repr((np.isfinite(low).tolist(), np.isfinite(high).tolist(), (low == high).tolist()))


def _written(function: ca.Function | None) -> str:
    return "none" if function is None else str(function.serialize())
