"""Costs of a problem file turned into mathematics, the same for symbolic systems and robots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import casadi as ca

from ocp.app.files import schema_parts as parts
from ocp.app.files.load_parts import Reader, controls_in, read_bound, unique_names, unknown
from ocp.app.files.yaml_source import KeyPath
from ocp.problem import At, Cost

SX = Any
ReadError = Callable[[Any, str, KeyPath], SX | None]


def read_costs(reader: Reader, costs: Sequence[parts.Cost], error: ReadError, period: float | None = None) -> tuple[Cost, ...]:
    """The costs of a phase. error(cost, form, path): residuals of the .._error that the key ``form`` at ``path`` describes; period
    [s]: of a system in discrete time, else None."""
    path: KeyPath = (*reader.phase, "costs")
    found = [_cost(reader, cost, (*path, i), error, period) for i, cost in enumerate(costs)]
    unique_names(reader.findings, [c.name for c in costs], path)
    return tuple(cost for cost in found if cost is not None)


def _cost(reader: Reader, cost: parts.Cost, path: KeyPath, error: ReadError, period: float | None) -> Cost | None:
    form = cost.form()
    at = At.FINAL if cost.is_final() else At.PATH
    place, given = (*path, form), getattr(cost, form)
    if form.endswith("error"):
        value = error(cost, form, place)
    else:
        value = reader.column(given, place) if form.endswith("residual") else reader.expression(given, place)
    if value is None:
        return None
    if at is At.FINAL and reader.depends(value, reader.u):
        reader.findings.add(place, f"depends on {controls_in(reader, value)}; a cost at the end cannot depend on controls")
    weights = None if form in ("running", "stage", "final") else _weights(reader, cost, value.numel(), path)
    if form.startswith("stage"):  # costs along the path are sums over steps, times the period
        if period is None:
            instead = form.replace("stage", "running")
            reader.findings.add(place, f"is summed over steps, and time is continuous here; write {instead}", at_key=True)
            return None
        weights = None if weights is None else tuple(weight / period for weight in weights)
        value = value / period if weights is None else value
    if cost.between is not None:
        value = _window(reader, cost.between, (*path, "between")) * value
    return Cost(cost.name, at, reader.function(cost.name, value), weights)


def _weights(reader: Reader, cost: parts.Cost, size: int, path: KeyPath) -> tuple[float, ...]:
    weights = reader.vector(1.0 if cost.weights is None else cost.weights, size, (*path, "weights"), "residuals")
    for i, weight in enumerate(weights):
        if weight < 0:
            spot: KeyPath = (*path, "weights", i) if isinstance(cost.weights, tuple) else (*path, "weights")
            reader.findings.add(spot, f"a weight must not be negative, got {weight:g}")
            break
    return weights


def _window(reader: Reader, between: Any, path: KeyPath) -> SX:
    """1 in the window, 0 outside."""
    begin, end = read_bound(reader, between, path)
    if begin == end:
        reader.findings.add(path, f"a window without length, at {begin:g} s; give it one, or end a phase there")
    return ca.if_else(reader.t >= begin, 1, 0) * ca.if_else(reader.t <= end, 1, 0)


def named_error(reader: Reader, given: Any, names: Sequence[str], values: SX, path: KeyPath, what: str) -> SX | None:
    """``values`` less the given ones: a number for all, a list in order, or numbers by name for those that count."""
    if isinstance(given, Mapping):
        chosen = []
        for name, number in given.items():
            if name not in names:
                unknown(reader.findings, name, names, (*path, name), what)
            else:
                chosen.append((names.index(name), reader.number(number, (*path, name))))
        if not given:
            reader.findings.add(path, f"names no {what}")
        if len(chosen) < len(given) or not given:
            return None
        chosen.sort()
        return ca.vertcat(*(values[i] - number for i, number in chosen))
    if not names:
        reader.findings.add(path, f"the system has no {what}")
        return None
    return values - ca.DM(reader.vector(given, len(names), path, f"{what}s"))
