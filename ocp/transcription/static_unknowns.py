"""Unknowns that belong to no node: free durations of the phases and free parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from ocp.problem import Phase, Problem
from ocp.spaces import Expr


@dataclass(frozen=True, eq=False)
class StaticUnknowns:
    """Numbers of the static unknowns: of each phase's duration (None where it is fixed) and of parameters by name;
    ``bounds`` [k, 3]: lower, upper, guess; ``names`` [k]."""

    durations: tuple[int | None, ...]
    parameters: Mapping[str, int]
    bounds: np.ndarray
    names: tuple[str, ...]

    @property
    def count(self) -> int:
        """Number of unknowns."""
        return len(self.names)


def static_unknowns(problem: Problem) -> StaticUnknowns:
    """The static unknowns of a problem; a parameter of the same name is one unknown in all phases."""
    rows: list[tuple[float, float, float]] = []
    names: list[str] = []
    durations: list[int | None] = []
    for phase in problem.phases:
        duration = phase.duration
        durations.append(len(rows) if duration.free else None)
        if duration.free:
            rows.append((duration.lower, duration.upper, duration.guess))
            names.append("duration" if len(problem.phases) == 1 else f"{phase.name}: duration")
    parameters: dict[str, int] = {}
    for phase in problem.phases:
        for i, low, high in phase.free_parameters:
            name = phase.system.parameters[i]
            if name in parameters:
                at = parameters[name]
                rows[at] = (max(low, rows[at][0]), min(high, rows[at][1]), rows[at][2])
                continue
            parameters[name] = len(rows)
            rows.append((low, high, phase.system.parameter_values[i]))
            names.append(f"p.{name}")
    return StaticUnknowns(tuple(durations), parameters, np.array(rows, dtype=float).reshape(-1, 3), tuple(names))


@dataclass(frozen=True, eq=False)
class Clock:
    """The static part of a function of one phase.

    start, T: time [s] at which the phase begins, and its duration; p: parameters of its system; variable: the unknowns among these,
    whose numbers are ``columns``; data: what is fixed, with its ``values``.
    """

    start: Expr
    T: Expr
    p: Expr
    variable: Expr
    columns: tuple[int, ...]
    data: Expr
    values: tuple[float, ...]

    def beside(self, *data: np.ndarray) -> np.ndarray:
        """Data [k, ..] of a function at k places, and behind them the values of what is fixed."""
        return np.column_stack([*data, np.tile(self.values, (len(data[0]), 1))])


def clock(kind: Any, problem: Problem, number: int, static: StaticUnknowns, parameters: bool = True) -> Clock:
    """Symbols of the static part of phase ``number``. parameters: whether the function may depend on them."""
    phase = problem.phases[number]
    earlier = range(number) if timed(phase) else range(0)
    variables: list[Expr] = []
    data: list[Expr] = []
    columns: list[int] = []
    values: list[float] = []

    def duration(i: int) -> Expr:
        symbol, at = kind.sym(f"T{i}"), static.durations[i]
        if at is None:
            data.append(symbol)
            values.append(problem.phases[i].duration.lower)
        else:
            variables.append(symbol)
            columns.append(at)
        return symbol

    T = duration(number)
    begins = [duration(i) for i in earlier]
    start = sum(begins[1:], start=begins[0]) if begins else kind(0)
    p = []
    system = phase.system
    for name, value in zip(system.parameters if parameters else (), system.parameter_values, strict=False):
        symbol = kind.sym(f"p_{name}")
        p.append(symbol)
        if name in static.parameters:
            variables.append(symbol)
            columns.append(static.parameters[name])
        else:
            data.append(symbol)
            values.append(value)
    if not parameters:
        p = [kind(value) for value in system.parameter_values]
    return Clock(start, T, stack(kind, p), stack(kind, variables), tuple(columns), stack(kind, data), tuple(values))


def stack(kind: Any, parts: Sequence[Expr]) -> Expr:
    """Scalars as a column."""
    return ca.vertcat(*parts) if len(parts) > 1 else parts[0] if parts else kind(0, 1)


def timed(phase: Phase) -> bool:
    """Whether a function of the phase depends on time."""
    functions = [phase.system.rate, *(c.function for c in phase.costs), *(c.function for c in phase.constraints)]
    return any(f.jac_sparsity(0, 0).nnz() for f in functions)
