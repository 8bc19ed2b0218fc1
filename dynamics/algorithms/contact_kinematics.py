"""Kinematics of contacts: stacked Jacobians of points and feet on any link, their rates, and what their ranks mean.

A contact is a point fixed to a frame; all its rows are in world axes. Points at rest satisfy ``J_c v = 0`` and
``J_c a + dJ_c/dt v = 0`` (Hutter et al., Robot Dynamics lecture notes, ETH Zurich, HS 2023, Eqs. 2.269-2.272). An extended foot
is several points of one link (:func:`patch`), or one contact that also holds the rotation (``rotation=True``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dynamics import spatial
from dynamics.algorithms import configuration, floating_base, jacobian_rate, jacobians, moving_frames, tree
from dynamics.errors import ModelError
from dynamics.lie.expression import Expr
from dynamics.model.model import Model

RANK_TOLERANCE = 1e-8
"""Singular values below this share of the largest count as zero (coordinates are known to about 1e-12)."""


@dataclass(frozen=True)
class Contact:
    """A point [3] (m, coordinates of ``frame``) fixed to ``frame`` and at rest in the world; ``rotation=True`` also holds
    the orientation of the frame, which adds three equations."""

    frame: str
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rotation: bool = False

    @property
    def rows(self) -> int:
        """Number of constraint rows: 3 or 6."""
        return 6 if self.rotation else 3


def patch(frame: str, points: Iterable[Sequence[float]]) -> tuple[Contact, ...]:
    """An extended contact: one :class:`Contact` for every point [3] (m) of the patch."""
    out = []
    for p in points:
        x, y, z = (float(c) for c in p)
        out.append(Contact(frame, (x, y, z)))
    return tuple(out)


# ------------------------------------------------------------------------------------------------ stacked quantities
def contact_positions(model: Model, q: Expr, contacts: Sequence[Contact]) -> Expr:
    """World positions [3, n] (m) of the contact points."""
    columns = [moving_frames.point_position(model, q, c.frame, ca.DM(c.point)) for c in contacts]
    return ca.horzcat(*columns) if columns else ca.DM(3, 0)


def contact_jacobian(model: Model, q: Expr, contacts: Sequence[Contact]) -> Expr:
    """J_c [rows, nv], the contacts' rows in the order given: linear first, then angular if the contact fixes the rotation."""
    q = tree.as_column(q)
    blocks = []
    for c in contacts:
        blocks.append(moving_frames.point_jacobian(model, q, c.frame, ca.DM(c.point)))
        if c.rotation:
            blocks.append(spatial.angular(jacobians.frame_jacobian(model, q, c.frame, "world_aligned")))
    return ca.vertcat(*blocks) if blocks else tree.zeros(0, model.nv, q)


def contact_jacobian_rate(model: Model, q: Expr, v: Expr, contacts: Sequence[Contact]) -> Expr:
    """``dJ_c/dt`` [rows, nv] along the motion v."""
    q, v = tree.as_column(q), tree.as_column(v)
    blocks = []
    for c in contacts:
        blocks.append(moving_frames.point_jacobian_rate(model, q, v, c.frame, ca.DM(c.point)))
        if c.rotation:
            blocks.append(spatial.angular(jacobian_rate.frame_jacobian_rate(model, q, v, c.frame, "world_aligned")))
    return ca.vertcat(*blocks) if blocks else tree.zeros(0, model.nv, q, v)


def contact_drift(model: Model, q: Expr, v: Expr, contacts: Sequence[Contact]) -> Expr:
    """``dJ_c/dt v`` [rows]: acceleration of the contacts when a = 0; without the matrix, at the cost of one recursion."""
    blocks = []
    for c in contacts:
        blocks.append(moving_frames.point_acceleration(model, q, v, ca.DM(model.nv, 1), c.frame, ca.DM(c.point)))
        if c.rotation:
            blocks.append(spatial.angular(jacobians.frame_jacobian_drift(model, q, v, c.frame, "world_aligned")))
    return ca.vertcat(*blocks) if blocks else ca.DM(0, 1)


def split_base(model: Model, J: Expr) -> tuple[Expr, Expr]:
    """(J_b [rows, 6], J_j [rows, nv - 6]): columns of the floating base and of the joints, Eq. 2.272. Raises ModelError for a
    robot without a floating base."""
    base = model.v_slice(floating_base.base_index(model))
    return J[:, base], ca.horzcat(J[:, :base.start], J[:, base.stop:])


# ------------------------------------------------------------------------------------------------ ranks
@dataclass(frozen=True)
class ContactRanks:
    """Motions and forces of a set of contacts, from the singular values of J_c and of its base columns."""

    rows: int
    """Constraint rows written down, 3 a point."""
    rank: int
    """Independent constraints, rank J_c."""
    base_rank: int
    """Constraints on the base, rank J_c,b: with the joints locked, how much of the base motion is stopped."""
    nv: int
    unsupported: np.ndarray
    """[6, 6 - base_rank] orthonormal base velocities (the base's slice of v) that the contacts leave free when the joints are
    locked: no joint motion can command them."""
    singular_values: np.ndarray
    base_singular_values: np.ndarray

    @property
    def internal(self) -> int:
        """Internal constraints: loops closed through the ground that joint motion has to respect; also the number of internal
        forces that move nothing."""
        return self.rank - self.base_rank

    @property
    def redundant(self) -> int:
        """Rows that repeat others: ``J_c M^-1 J_c^T`` has this many zero eigenvalues."""
        return self.rows - self.rank

    @property
    def base_controllable(self) -> bool:
        """True when joint motion can move the base in all six directions."""
        return self.base_rank == 6

    @property
    def free(self) -> int:
        """Dimension of the motions that respect the contacts, nv - rank."""
        return self.nv - self.rank

    @property
    def uncontrolled(self) -> int:
        """How many of the free motions the joints cannot drive, 6 - base_rank."""
        return 6 - self.base_rank


def numerical_rank(matrix: np.ndarray, tolerance: float = RANK_TOLERANCE) -> int:
    """Number of singular values above ``tolerance`` times the largest."""
    if not np.all(np.isfinite(matrix)):
        raise ModelError("the rank is undefined: the matrix has entries that are not finite")
    values = np.linalg.svd(matrix, compute_uv=False) if min(matrix.shape) else np.zeros(0)
    return int(np.sum(values > tolerance * values[0])) if values.size and values[0] > 0 else 0


def contact_ranks(model: Model, q: Any, contacts: Sequence[Contact], *, tolerance: float = RANK_TOLERANCE,
                  length: float = 1.0) -> ContactRanks:
    """Rank analysis at a numeric configuration q [nq].

    length: a length of the robot (m) by which linear rows and columns are divided, so that metres and radians weigh alike
    in the tolerance; it changes no rank in exact arithmetic. Raises ModelError without a floating base, or for a tolerance
    outside (0, 1) or a length that is not positive.
    """
    if not 0.0 < tolerance < 1.0 or not 0.0 < length < np.inf:
        raise ModelError(f"tolerance must lie between 0 and 1 and length be positive, got {tolerance} and {length}")
    rows = np.array([kind for c in contacts for kind in (False,) * 3 + (True,) * (c.rows - 3)], dtype=bool)
    columns = np.array(configuration.velocity_kinds(model))
    J = np.array(ca.DM(contact_jacobian(model, ca.DM(q), contacts)))
    J = np.where(rows, 1.0, 1 / length)[:, None] * J * np.where(columns, 1.0, length)
    J_b = J[:, model.v_slice(floating_base.base_index(model))]
    rank, base_rank = numerical_rank(J, tolerance), numerical_rank(J_b, tolerance)
    _, values_b, rows_b = np.linalg.svd(J_b) if J_b.size else (None, np.zeros(0), np.eye(6))
    free = rows_b[base_rank:].T
    free[:3] *= length
    unsupported = np.linalg.qr(free)[0] if free.shape[1] else np.zeros((6, 0))
    values = np.linalg.svd(J, compute_uv=False) if J.size else np.zeros(0)
    return ContactRanks(J.shape[0], rank, base_rank, model.nv, unsupported, values, values_b)


def null_space_projector(J: np.ndarray, tolerance: float = RANK_TOLERANCE) -> np.ndarray:
    """Orthogonal projector [n, n] onto the null space of J [m, n], singular values below the tolerance counted as zero."""
    n = J.shape[1]
    if not J.size:
        return np.eye(n)
    _, _, rows = np.linalg.svd(J)
    kept = rows[:numerical_rank(J, tolerance)]
    return np.asarray(np.eye(n) - kept.T @ kept)
