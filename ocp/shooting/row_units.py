"""Units of hard constraints, so that no tolerance and no penalty depends on the unit a file writes them in.

A row is measured by what it changes along the guess when states and controls move by their sizes. Units are powers of 1024:
constraints in ordinary numbers stay as they are written, and none loses a digit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from ocp.guesses.sampling import sample_guess
from ocp.problem import Bounds, Phase
from ocp.shooting.stages.horizon import Horizon, Leg
from ocp.shooting.stages.rows import IN_CONE, Rows
from ocp.shooting.stages.stage import Stage
from ocp.thresholds import SCALES

Array = np.ndarray
BASE = 10
"""Units are whole powers of 2 to this."""
DIFFERENCE = 1e-7  # of forward differences: a unit is nothing finer than a power of 1024
SAMPLES = 5
"""Evaluation points along the guess of a phase."""


def in_own_units(horizon: Horizon) -> Horizon:
    """The horizon with every row of its stages in a unit of its own."""
    if not any(stage.rows.count for stage in horizon.kinds):
        return horizon
    sizes = [np.zeros(stage.rows.count) for stage in horizon.kinds]
    for k, x, u, moves in _guess(horizon):
        kind, rows, space = horizon.which[k], horizon.kind(k).rows, horizon.kind(k).space
        if rows.count:
            n = len(moves) - len(u)
            x, moves = np.r_[x, x[:space.nx - len(x)]], np.r_[moves[:n], np.zeros(space.ndx - n), moves[n:]]
            p = horizon.p[k, :rows.outer.size1_in(3)]
            size = np.abs(_gradients(horizon.kind(k), horizon.t[k], x, u, p)) @ moves
            sizes[kind] = np.maximum(sizes[kind], np.where(np.isfinite(size), size, 0.0))
    kinds = tuple(replace(stage, rows=_measured(stage.rows, own, horizon.width))
                  for stage, own in zip(horizon.kinds, sizes, strict=True))
    return replace(horizon, kinds=kinds)


def _gradients(stage: Stage, t: float, x: Array, u: Array, p: Array) -> Array:
    """Derivatives [r, ndx + nu] of the rows of a stage, of values of the dynamics that they hold by differences."""
    rows, z, k = stage.rows, stage.space.ndx + len(u), stage.rows.inner(t, x, u)
    _, C, B = (np.asarray(one) for one in rows.jacobian(t, x, u, p, k))
    if rows.sought is None:
        return C.T[:, :z]
    near = stage.plus(x, DIFFERENCE * np.eye(stage.space.ndx, z)), u[:, None] + DIFFERENCE * np.eye(len(u), z, stage.space.ndx)
    return np.asarray(C.T[:, :z] + B.T @ np.asarray(rows.inner(t, *near) - k) / DIFFERENCE)


def _guess(horizon: Horizon) -> Iterator[tuple[int, Array, Array, Array]]:
    """Points of the guess: number of the stage, state, control, and how far both move [ndx + nu]; these ignore earlier states,
    which rest."""
    theta = np.array(horizon.constants.guess)
    for leg in horizon.legs:
        phase = leg.stretch.phase
        x, u = sample_guess(phase.guess, phase.system.space, np.linspace(0.0, 1.0, SAMPLES))
        own = np.r_[_state_sizes(phase, x), np.where(theta != 0, np.abs(theta), 1.0)]
        moves, x = np.r_[own, _sizes(phase.control_bounds, np.abs(u).max(axis=0))], np.hstack([x, np.tile(theta, (len(x), 1))])
        if leg is horizon.legs[0] and leg.first:
            count = leg.stretch.phase.system.space.ndx + horizon.constants.chosen
            yield 0, horizon.start, horizon.chosen, np.r_[own, _of_choice(leg, own[:count])]
        for i, k in enumerate(np.linspace(leg.first, leg.last - 1, SAMPLES).astype(int)):
            yield int(k), x[i], u[i], moves
        yield leg.last, x[-1], np.zeros(0), own


def _of_choice(leg: Leg, own: Array) -> Array:
    """How far what is free at the start moves."""
    start, ndx = leg.stretch.phase.start, leg.stretch.phase.system.space.ndx
    free = np.ones(len(own), dtype=bool)
    if start is not None:
        free[:ndx] = ~np.array(start.fixed)
    return own[free]


def own_unit(sizes: Array) -> Array:
    """The nearest power of 1024; 1 for nothing."""
    return np.asarray(2.0 ** (BASE * np.round(np.log2(np.where(sizes > 0, sizes, 1.0)) / BASE)))


def _measured(rows: Rows, sizes: Array, width: int) -> Rows:
    if not rows.count:
        return rows
    first = np.flatnonzero(rows.kind != IN_CONE)
    sizes = np.repeat(np.maximum.reduceat(sizes, first), np.diff(np.append(first, rows.count)))  # a cone has one unit
    unit = own_unit(sizes)
    return rows if (unit == 1.0).all() else in_units(rows, unit, width)


def in_units(rows: Rows, unit: Array, width: int) -> Rows:
    """The constraints divided by these units [r]."""
    def made(function: ca.Function, weighted: bool, *by: Any) -> ca.Function:
        kind = ca.SX if function.is_a("SXFunction") else ca.MX
        given = [kind.sym(function.name_in(i), function.sparsity_in(i)) for i in range(function.n_in())]
        found = function.call([*given[:-1], given[-1] / unit] if weighted else given)
        parts = [ca.densify(one / each) for one, each in zip(found, by or (1.0,), strict=True)]
        return ca.Function(function.name(), given, parts)  # what is shared was found before: a division adds nothing

    jacobian = made(rows.jacobian, False, unit, np.tile(unit, (width, 1)), np.tile(unit, (len(rows.value_indices), 1)))
    return replace(rows, outer=made(rows.outer, False, unit), jacobian=jacobian, curvature=made(rows.curvature, True), unit=unit)


def _state_sizes(phase: Phase, x: Array) -> Array:
    """How far each tangent component of the state moves [ndx]: its size along x [k, nx] and at prescribed ends, where bounds leave
    room for more at least the middle, by ratio, of half their width and the part of it at which a certificate counts what rests;
    no more than half their width; 1 where none is known, or the space is curved."""
    space, own = phase.system.space, np.abs(x).max(axis=0)
    for end in (phase.start, phase.final):
        if end is not None:
            fixed = [k >= 0 and end.fixed[k] for k in space.tangent_index]
            own = np.maximum(own, np.where(fixed, np.abs(end.value), 0.0))
    half = _sizes(phase.state_bounds, own)
    return space.by_tangent(np.minimum(half, np.maximum(own, np.sqrt(SCALES.constant) * half)))


def _sizes(bounds: Bounds, own: Array) -> Array:
    """Half the width [n] of the bounds, or the magnitude where they are open or equal; 1 for none."""
    half = 0.5 * bounds.width
    return np.where(np.isfinite(half) & (half > 0), half, np.where(own == 0, 1.0, own))
