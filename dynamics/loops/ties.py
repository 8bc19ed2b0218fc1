"""Constraints that are relations between frames as tables and generated functions: what ``dynamics.loops.relations`` runs on.

A relation with m rows between k moving frames (K = 6 k) is a function of their poses, twists, accelerations and W = J psi, in the
coordinates of the frames (``dynamics.constraints.relation``). Of each the three functions of ``dynamics.loops.acting``
give, matrices row by row,

    VALUES  dk/dA [m K], k [m]              JACOBIANS dk/dxi, dk/dV [m K each], d(force)/dxi [K K]
    HESSIANS derivatives of s by xi, V, A [K each]; second ones, half of xi xi, then xi V, V V, xi A, xi W [K K each];
            d(dk/dA W)/dxi [m K]

with a displacement xi of the frames along their own axes and s as in ``dynamics.loops.acting``. Accelerations are those of the
loops, whose base accelerates against gravity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.algorithms import tree
from dynamics.constraints import Constraint
from dynamics.constraints.constraint import FrameConstraint
from dynamics.constraints.relation import Relation, relation
from dynamics.lie.expression import Expr
from dynamics.loops import layout as at
from dynamics.model.model import Model, Placement
from dynamics.model.rigid import compose

#: numbers of a frame: R by columns [9], p [3], V, A, W [6 each]
MOTION = 30


class Parts(NamedTuple):
    """The results of each of the three functions for all relations, as lists of columns."""

    values: list[Expr]
    first: list[Expr]
    second: list[Expr]


@dataclass(frozen=True)
class Tie:
    """One relation: its record, how many rows it has, its first row, its first moving frame, and which of its frames move."""

    constraint: FrameConstraint
    rows: int
    first_row: int
    first_frame: int
    moving: tuple[int, ...]

    @property
    def size(self) -> int:
        """K."""
        return 6 * len(self.moving)


def ties(model: Model, constraints: Sequence[Constraint]) -> tuple[Tie, ...]:
    """The relations between frames among reduced constraints, whose equations are numbered consecutively."""
    found, row, frame = [], 0, 0
    for c in constraints:
        rows = c.size(model)
        if isinstance(c, FrameConstraint):
            moving = tuple(i for i, name in enumerate(c.frames) if model.frame(name).body >= 0)
            found.append(Tie(c, rows, row, frame, moving))
            frame += len(moving)
        row += rows
    return tuple(found)


def functions(model: Model, relations: Sequence[Tie], motions: Expr, multipliers: Expr, nu: Expr, t: Expr) -> Parts:
    """Results of the three functions; motions [30 frames]."""
    out = Parts([], [], [])
    for tie in relations:
        made = relation(tie.constraint, False, model.gravity)
        arguments = [*_arguments(model, tie, motions), t]
        own = slice(tie.first_row, tie.first_row + tie.rows)
        _add(out, tie, made, arguments, multipliers[own], nu[own])
    return out


def _add(out: Parts, tie: Tie, made: Relation, arguments: list[Expr], multipliers: Expr, nu: Expr) -> None:
    k = 6 * len(tie.constraint.frames)
    mine = [6 * i + c for i in tie.moving for c in range(6)]

    def at_columns(kind: int) -> list[int]:
        return [kind * k + i for i in mine]

    xi, V, A, W = (at_columns(kind) for kind in range(4))
    by_z, turned = made.rows(*arguments)
    _, by_xi, _ = made.effort(*arguments, multipliers)
    gradient, H = made.curvature(*arguments, nu, multipliers)
    out.values.extend([_rows(by_z[:, A]), made.value(*arguments)])
    out.first.extend([_rows(by_z[:, xi]), _rows(by_z[:, V]), _rows(by_xi[mine, mine])])
    out.second.extend([gradient[xi], gradient[V], gradient[A], _rows(H[xi, xi] / 2), _rows(H[xi, V]), _rows(H[V, V]),
                      _rows(H[xi, A]), _rows(H[xi, W]), _rows(turned[:, xi])])


def _arguments(model: Model, tie: Tie, motions: Expr) -> list[Expr]:
    """R [3, 3 k], p [3, k], V, A, W [6 k] of all frames, those of the world among them."""
    found = []
    for i, name in enumerate(tie.constraint.frames):
        if i in tie.moving:
            start = MOTION * (tie.first_frame + tie.moving.index(i))
            R, *motion = ca.vertsplit(motions[start:start + MOTION], [0, 9, 12, 18, 24, 30])
            found.append([ca.reshape(R, 3, 3), *motion])
        else:
            still = tree.placement_transform(model.frame(name).placement)
            falls = ca.vertcat(-ca.SX(still.R).T @ ca.DM(model.gravity), ca.SX(3, 1))
            found.append([ca.SX(still.R), ca.SX(still.p), ca.SX(6, 1), falls, ca.SX(6, 1)])
    R, p, *others = zip(*found, strict=True)
    return [ca.horzcat(*R), ca.horzcat(*p), *(ca.vertcat(*x) for x in others)]


def records(model: Model, relations: Sequence[Tie], carriers: Sequence[tuple[int, Placement]], bodies: Sequence[Sequence[int]],
            parents: Sequence[int], reals: int, starts: Sequence[int]) -> tuple[list[int], list[int], np.ndarray]:
    """(records of frames, records of relations, placements [12 frames]); bodies: records of the tables; reals: where the placements
    will be; starts: where the results of the three functions begin that belong to relations."""
    frames: list[int] = []
    placements: list[float] = []
    table: list[int] = []
    ends = list(starts)
    for tie in relations:
        for i in tie.moving:
            found = model.frame(tie.constraint.frames[i])
            body, place = carriers[found.body]
            pose, root = compose(place, found.placement), body
            while parents[root] >= 0:
                root = parents[root]
            frames += [bodies[body][at.ADDRESS], bodies[body][at.COLUMN], bodies[root][at.ADDRESS], reals + len(placements)]
            placements += [*np.asarray(pose.rotation).T.ravel(), *pose.position]
        m, K = tie.rows, tie.size
        table += [m, K, tie.first_row, tie.first_frame, *ends]
        ends = [x + n for x, n in zip(ends, (m * K + m, 2 * m * K + K * K, 3 * K + 5 * K * K + m * K), strict=True)]
    return frames, table, np.array(placements, dtype=float)


def _rows(matrix: Any) -> Expr:
    return ca.vec(ca.densify(ca.SX(matrix)).T)
