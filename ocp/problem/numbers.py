"""The numbers of a problem apart from its functions: what a program that was built once takes anew from case to case.

Numbers: values of parameters, durations, prescribed states, bounds, limits of constraints and linkages, ranges of free parameters.
Everything else but the guess is structure: functions, weights of residuals and of soft constraints, which components are
prescribed, where a limit is none. Objects whose numbers do not change are kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import casadi as ca
import numpy as np

from ocp.problem.problem import Boundary, Linkage, Phase, Problem
from ocp.problem.terms import Constraint

Array = np.ndarray
T = TypeVar("T")
#: from the numbers that stand somewhere to those that shall stand there, as many
Take = Callable[[tuple[float, ...]], tuple[float, ...]]


def numbers_of(problem: Problem) -> Array:
    """All numbers [k], in the order of :func:`with_numbers`."""
    found: list[float] = []

    def take(values: tuple[float, ...]) -> tuple[float, ...]:
        found.extend(values)
        return values

    _walked(problem, take)
    return np.array(found, dtype=float)


def with_numbers(problem: Problem, numbers: Array) -> Problem:
    """The problem with other numbers [k]; its functions are the same objects. Raises ValueError where there are more or fewer."""
    given, at = np.asarray(numbers, dtype=float).tolist(), 0

    def take(values: tuple[float, ...]) -> tuple[float, ...]:
        nonlocal at
        own, at = tuple(given[at:at + len(values)]), at + len(values)
        if at > len(given):
            raise ValueError(f"{len(given)} numbers are too few for the problem")
        return values if own == values else own

    found = _walked(problem, take)
    if at < len(given):
        raise ValueError(f"{len(given)} numbers are {len(given) - at} more than the problem has")
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
    return _with(problem, phases=_each(problem.phases, lambda phase: _phase(phase, take)),
                 linkages=_each(problem.linkages, lambda linkage: _limited(linkage, take)))


def _phase(phase: Phase, take: Take) -> Phase:
    duration, free = phase.duration, phase.free_parameters
    system = _with(phase.system, parameter_values=take(phase.system.parameter_values))
    lower, upper, guess = take((duration.lower, duration.upper, duration.guess))
    ends = tuple(end for _, *pair in free for end in pair)
    if (new := take(ends)) is not ends:
        free = tuple((index, new[2 * k], new[2 * k + 1]) for k, (index, _, _) in enumerate(free))
    bounds: dict[str, Any] = {name: take(getattr(phase, name)) for name in ("x_lower", "x_upper", "u_lower", "u_upper")}
    return _with(phase, **bounds, system=system, duration=_with(duration, lower=lower, upper=upper, guess=guess),
                 start=_boundary(phase.start, take), final=_boundary(phase.final, take),
                 constraints=_each(phase.constraints, lambda own: _limited(own, take)), free_parameters=free)


def _with(item: T, **fields: object) -> T:
    """With these fields; the item itself where none of them is another."""
    new = {name: value for name, value in fields.items() if value is not getattr(item, name)}
    return replace(item, **new) if new else item  # type: ignore[type-var]


def _each(items: tuple[T, ...], change: Callable[[T], T]) -> tuple[T, ...]:
    found = tuple(change(item) for item in items)
    return items if all(new is old for new, old in zip(found, items, strict=True)) else found


def _boundary(boundary: Boundary | None, take: Take) -> Boundary | None:
    return None if boundary is None else _with(boundary, value=take(boundary.value))


def _limited(item: Any, take: Take) -> Any:
    """A constraint or linkage; soft limits stand in a penalty, and are not finite."""
    if getattr(item, "soft", None) is not None:
        return item
    return _with(item, lower=take(item.lower), upper=take(item.upper))


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
