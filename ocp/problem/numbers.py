"""The numbers of a problem apart from its functions: what a program that was built once takes anew from case to case.

Numbers: values of parameters, durations, prescribed states, bounds, limits of constraints and linkages, ranges of free parameters.
Everything else but the guess is structure: functions, weights of residuals and of soft constraints, which components are
prescribed, where a limit is none. Objects whose numbers do not change are kept.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from operator import itemgetter
from typing import Any

import casadi as ca
import numpy as np

from ocp.pickles import Portable
from ocp.problem.problem import Linkage, Problem
from ocp.problem.terms import Constraint

Array = np.ndarray
Keys = tuple[Any, ...]
Own = tuple[float, ...] | float


@dataclass(frozen=True, eq=False)
class Numbers(Portable):
    """A problem, its numbers ``values`` [k], and their locations: (index of the first, count, 0 for a scalar; attributes and
    indices from the problem down)."""

    problem: Problem
    values: Array
    locations: tuple[tuple[int, int, Keys], ...]

    def moved(self, numbers: Array) -> Problem:
        """The problem with other numbers [k]; its functions, and whatever has the same numbers, are the same objects. Raises
        ValueError where there are more or fewer."""
        if (excess := len(numbers) - len(self.values)):
            raise ValueError(f"{len(numbers)} numbers are {abs(excess)} {'more' if excess > 0 else 'fewer'} than the problem has")
        changes: dict[Any, Any] = {}
        done = 0
        for at in (numbers != self.values).nonzero()[0].tolist():
            if at < done:
                continue
            first, count, (*way, last) = self.locations[bisect_right(self.locations, at, key=itemgetter(0)) - 1]
            below, done = changes, first + (count or 1)
            for key in way:
                below = below.setdefault(key, {})
            below[last] = tuple(numbers[first:done].tolist()) if count else float(numbers[first])
        return _rebuilt(self.problem, changes) if changes else self.problem


def numbers_in(problem: Problem) -> Numbers:
    """The numbers of a problem with their locations."""
    locations, values = [], list[float]()
    for keys, own in _locations(problem):
        if own != ():
            locations.append((len(values), len(own) if isinstance(own, tuple) else 0, keys))
            values.extend(_tuple(own))
    return Numbers(problem, np.array(values, dtype=float), tuple(locations))


def numbers_of(problem: Problem) -> Array:
    """All numbers [k], in the order of :func:`with_numbers`."""
    return np.array([value for _, own in _locations(problem) for value in _tuple(own)], dtype=float)


def with_numbers(problem: Problem, numbers: Array) -> Problem:
    """The problem with other numbers [k]; its functions are the same objects. Raises ValueError where there are more or fewer."""
    return numbers_in(problem).moved(np.asarray(numbers, dtype=float))


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


# ---- locations --------------------------------------------------------------------------------------------------------
def _locations(problem: Problem) -> Iterator[tuple[Keys, Own]]:
    """Attributes and indices from the problem down to numbers, and these."""
    for k, phase in enumerate(problem.phases):
        at, duration = ("phases", k), phase.duration
        yield (*at, "system", "parameter_values"), phase.system.parameter_values
        yield from (((*at, "duration", name), getattr(duration, name)) for name in ("lower", "upper", "guess"))
        yield from (((*at, "free_parameters", j, i), own[i]) for j, own in enumerate(phase.free_parameters) for i in (1, 2))
        yield from (((*at, name), getattr(phase, name)) for name in ("x_lower", "x_upper", "u_lower", "u_upper"))
        for name, boundary in (("start", phase.start), ("final", phase.final)):
            if boundary is not None:
                yield (*at, name, "value"), boundary.value
        yield from _limits(phase.constraints, (*at, "constraints"))
    yield from _limits(problem.linkages, ("linkages",))


def _tuple(own: Own) -> tuple[float, ...]:
    return own if isinstance(own, tuple) else (own,)


def _limits(items: Sequence[Any], at: Keys) -> Iterator[tuple[Keys, Own]]:
    """Of constraints or linkages; soft limits stand in a penalty, and are not finite."""
    for k, item in enumerate(items):
        if getattr(item, "soft", None) is None:
            yield from (((*at, k, name), getattr(item, name)) for name in ("lower", "upper"))


def _rebuilt(item: Any, changes: Mapping[Any, Any]) -> Any:
    """A record, or a tuple, with changes by field, or by index, each a value or again such changes."""
    def new(key: Any, own: Any) -> Any:
        change = changes[key]
        return _rebuilt(own, change) if isinstance(change, dict) else change

    if isinstance(item, tuple):
        return tuple(new(k, own) if k in changes else own for k, own in enumerate(item))
    kind: Any = type(item)
    found, own = object.__new__(kind), vars(item)
    vars(found).update({name: own[name] for name in _fields(kind)}, **{name: new(name, own[name]) for name in changes})
    if (check := getattr(found, "__post_init__", None)) is not None:  # as ``dataclasses.replace``, in half the time
        check()
    return found


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(own.name for own in fields(kind))


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
