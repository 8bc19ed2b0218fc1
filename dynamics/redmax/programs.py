"""Constrained dynamics as programs over velocities or accelerations x, in any coordinates: ``min 1/2 x' M x - x' f`` with rows.

At the level of velocities f is the momentum ``M v + h f`` and multipliers are impulses; at the level of accelerations they are
forces. Forces on the constraint are ``+ rows' multipliers`` everywhere. Solvers of quadratic programs live elsewhere:
here is their data. Source: Sueda, sections 1.10 to 1.13, with the signs that push bodies apart.

>>> fall = dual_contact(np.eye(1), np.array([-2.0]), np.eye(1))  # a unit mass with momentum -2 onto the ground: the impulse is 2
>>> fall.P.item(), fall.g.item(), recovered(np.eye(1), np.array([-2.0]), np.eye(1), np.array([2.0])).item()
(1.0, -2.0, 0.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import casadi as ca
import numpy as np

from dynamics import spatial
from dynamics.constraints import PointContact
from dynamics.constraints.contact import plane_axes
from dynamics.errors import ModelError
from dynamics.forces import Place
from dynamics.lie.expression import Expr
from dynamics.model.model import Model

Array = np.ndarray


class Touch(NamedTuple):
    """Two points of bodies that touch: the first must not move against the normal [3] (unit, world axes, out of the second) seen
    from the second."""

    first: Place
    second: Place
    normal: tuple[float, float, float]

    def jacobian(self, model: Model, q: Expr) -> Expr:
        """[3, nv]: velocities apart along two tangents and the normal."""
        return spatial.constant(plane_axes(self.normal)) @ (self.first.jacobian(model, q) - self.second.jacobian(model, q))


class Program(NamedTuple):
    """``min 1/2 x' P x + g' x`` subject to ``A x >= 0``."""

    P: Array
    g: Array
    A: Array


def touch_rows(model: Model, q: Expr, touches: Sequence[Touch | PointContact]) -> tuple[Expr, Expr]:
    """N [k, nv], so that ``N v >= 0`` keeps the points apart, and T [4 k, nv]: velocities along ``t1, -t1, t2, -t2`` of each. A
    contact's points touch a plane of the world."""
    rows = ca.vertcat(ca.DM(0, model.nv), *(touch.jacobian(model, q) for touch in touches))
    first = range(0, rows.shape[0], 3)
    across = [sign * rows[i + k, :] for i in first for k in (0, 1) for sign in (1, -1)]
    return rows[2::3, :], ca.vertcat(ca.DM(0, model.nv), *across)


def equality(M: Array, f: Array, G: Array, rhs: Array | None = None) -> tuple[Array, Array]:
    """(x [n], lambda [m]) with ``M x - G' lambda = f`` and ``G x = rhs`` (None: 0). Raises ModelError for dependent constraints."""
    n, m = len(M), len(G)
    K = np.block([[M, -G.T], [G, np.zeros((m, m))]])
    if np.linalg.matrix_rank(G) < m:
        raise ModelError(f"{m} rows of rank {np.linalg.matrix_rank(G)}: multipliers are not unique", element="constraint Jacobian")
    found = np.linalg.solve(K, np.concatenate([f, np.zeros(m) if rhs is None else rhs]))
    return found[:n], found[n:]


def dual_contact(M: Array, f: Array, N: Array, least: Array | None = None) -> Program:
    """Of the multipliers: ``min 1/2 a' N M^-1 N' a + a' (N M^-1 f - least)``, ``a >= 0``; then :func:`recovered` gives x. It is the
    dual of ``min 1/2 x' M x - x' f`` subject to ``N x >= least`` [k] (None: 0), such as ``- dN/dt v`` of accelerations.
    Multipliers of equations have any sign."""
    across = np.linalg.solve(M, N.T)
    return Program(N @ across, across.T @ f - (0 if least is None else least), np.eye(len(N)))


def pyramid(friction: Sequence[float]) -> Array:
    """E [k, 5 k] over all normal, then all tangential multipliers, four to a contact: ``mu a - sum b >= 0``."""
    k = len(friction)
    return np.hstack([np.diag(np.asarray(friction, float)), -np.kron(np.eye(k), np.ones((1, 4)))])


def friction_program(M: Array, f: Array, N: Array, T: Array, friction: Sequence[float]) -> Program:
    """One convex program over normal and tangential multipliers, all >= 0 and inside the pyramid (Anitescu and Hart 2004).

    It is a relaxation: a sliding contact lifts off with ``N x = mu |T x|``, and loses less speed than by Coulomb's law.
    """
    C = np.vstack([N, T])
    dual = dual_contact(M, f, C)
    return Program(dual.P, dual.g, np.vstack([np.eye(len(C)), pyramid(friction)]))


def recovered(M: Array, f: Array, rows: Array, multipliers: Array) -> Array:
    """x [n] from ``M x = f + rows' multipliers``."""
    return np.linalg.solve(M, f + rows.T @ multipliers)
