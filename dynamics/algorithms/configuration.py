"""The configuration manifold of a robot: integrate, difference, neutral, random, and the rate map dq/dt = N(q) v."""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np

from dynamics.algorithms import tree
from dynamics.algorithms.built import built_once
from dynamics.joints import JointKind
from dynamics.joints.kind import part
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


def _stack(model: Model, pieces: Callable[[JointKind, slice, slice], Expr]) -> Expr:
    parts = [pieces(*item) for item in model.factors]
    return ca.vertcat(*parts) if parts else ca.DM(0, 1)


@built_once
def integrate(model: Model, q: Expr, d: Expr) -> Expr:
    """q [+] d: move from q [nq] along the body-frame tangent d [nv] for unit time."""
    q, d = tree.as_column(q), tree.as_column(d)
    tree.check_sizes(model, q=(q, model.nq), d=(d, model.nv))
    return _stack(model, lambda kind, qs, vs: kind.plus(part(q, qs), part(d, vs)))


@built_once
def difference(model: Model, q0: Expr, q1: Expr) -> Expr:
    """The d [nv] with integrate(q0, d) = q1 (q1 [-] q0).

    The coordinate of a continuous joint counts turns: from 0 to 2 pi is a whole turn and not the short way, so that motions may
    wind. Rotations in quaternions do not count turns; they take the short way.
    """
    q0, q1 = tree.as_column(q0), tree.as_column(q1)
    tree.check_sizes(model, q0=(q0, model.nq), q1=(q1, model.nq))
    return _stack(model, lambda kind, qs, vs: kind.minus(part(q0, qs), part(q1, qs)))


def jet(model: Model, q: Expr, d: Expr) -> Expr:
    """A polynomial in d equal to ``integrate`` up to second order: for exact derivatives at d = 0."""
    q, d = tree.as_column(q), tree.as_column(d)
    return _stack(model, lambda kind, qs, vs: kind.jet(part(q, qs), part(d, vs)))


def integrate_partials(model: Model, d: Expr) -> tuple[Expr, Expr]:
    """Derivatives [nv, nv] of ``integrate(q, d)`` by q and by d, in tangent spaces; the same for every q.

    Joints on a Lie group: ``Ad(exp(-d))`` and the right Jacobian of d (Sola, Deray, Atchuthan 2018, Eqs. 82 and 83).
    """
    d = tree.as_column(d)
    tree.check_sizes(model, d=(d, model.nv))
    parts = [(kind.transport(part(d, vs)), kind.right_jacobian(part(d, vs))) for kind, _, vs in model.factors]
    return tuple(ca.diagcat(*blocks) for blocks in zip(*parts, strict=True)) if parts else (ca.DM(0, 0), ca.DM(0, 0))


def rate_matrix(model: Model, q: Expr) -> Expr:
    """N(q) [nq, nv] with dq/dt = N v; also the derivative of ``integrate`` with respect to d at d = 0."""
    q = tree.as_column(q)
    blocks = [kind.rate(part(q, qs)) for kind, qs, _ in model.factors]
    return ca.diagcat(*blocks) if blocks else ca.DM(0, 0)


def rate_matrix_inverse(model: Model, q: Expr) -> Expr:
    """Left inverse [nv, nq] of N on the tangent space: v = N^+ dq/dt."""
    q = tree.as_column(q)
    blocks = [kind.rate_inverse(part(q, qs)) for kind, qs, _ in model.factors]
    return ca.diagcat(*blocks) if blocks else ca.DM(0, 0)


def neutral(model: Model) -> np.ndarray:
    """The configuration [nq] with every joint at zero and identity rotations."""
    out = np.zeros(model.nq)
    for kind, qs, _ in model.factors:
        out[qs] = kind.neutral
    return out


def random_configuration(model: Model, rng: np.random.Generator) -> np.ndarray:
    """A configuration [nq] inside the joint limits (within one turn or one metre where there are none).

    Rotations are uniform. The generator is explicit: same seed, same configuration.
    """
    lower, upper = model.limit("lower"), model.limit("upper")
    out = np.zeros(model.nq)
    for kind, qs, _ in model.factors:
        out[qs] = kind.random(rng, lower[qs], upper[qs])
    return out


def velocity_kinds(model: Model) -> tuple[bool, ...]:
    """Per component of v: True where it is an angular rate (rad/s), False where it is linear (m/s)."""
    return tuple(angular for kind, _, _ in model.factors for angular in kind.angular)
