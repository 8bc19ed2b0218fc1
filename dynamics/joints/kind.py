"""Joints: one record of functions with its parameters bound. Every algorithm works through this record only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dynamics.lie.expression import Expr
from dynamics.spatial import Transform

Axes = tuple[tuple[float, ...], ...]


class Pose(NamedTuple):
    """A constant pose as plain numbers: rotation [3, 3], position [3] (m)."""

    rotation: Axes = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    position: tuple[float, ...] = (0.0, 0.0, 0.0)


class Slices(NamedTuple):
    """Derivatives of S along velocity components: first[k] is ``D_k S`` [6, nv], second(k, l) is ``D_l D_k S`` [6, nv]. D_k is the
    derivative along the right perturbation by component k; where velocities are the rates of coordinates it is d/dq_k."""

    first: list[Expr]
    second: Callable[[int, int], Expr]


@dataclass(frozen=True, eq=False)
class JointKind:
    """One joint between a parent body P and a child body C (joint frames coincide at ``neutral``, unless its text says otherwise).

    The velocity v [nv] lives in the tangent of the configuration manifold; ``plus`` is its right perturbation.

    transform(q):         pose ``P_H_C`` of the child in the joint frame
    subspace(q):          S [6, nv], twist of C relative to P in child coordinates is ``S v``
    bias(q, v):           [6] ``dS/dt v`` in child coordinates, or None where S is constant
    slices(q):            dS/dq in closed form: see :class:`Slices`; None where S is constant
    plus(q, d):           q [+] d, [nq], [nv] -> [nq]
    minus(q0, q1):        the d with ``q0 [+] d = q1``
    rate(q):              N [nq, nv] with ``dq/dt = N v``, also the derivative of ``plus`` at d = 0
    rate_inverse(q):      [nv, nq] left inverse of N on the tangent space
    jet(q, d):            polynomial equal to ``plus`` up to second order in d: exact second derivatives, no branch
    transport(d):         [nv, nv] derivative of ``q [+] d`` by q, tangent spaces on both sides: ``Ad(exp(-d))`` on a group
    right_jacobian(d):    [nv, nv] derivative of ``q [+] d`` by d, in the tangent space of the result
    random(rng, lower, upper): a configuration inside finite limits, otherwise within one turn or one metre

    Two fields tell the reduction of the tree (``dynamics.algorithms.reduced_tree``) what the joint is made of:

    group:  motions that form a group, in coordinates that compiled loops know by heart: "line" (one degree of freedom and constant
            S; any), "spherical", "planar", "free". Empty for all others, of which only transform and S are used.
    steps:  a joint that is a chain of others names them; itself it is then nothing but their sequence.
    """

    name: str
    nq: int
    nv: int
    q_names: tuple[str, ...]
    v_names: tuple[str, ...]
    neutral: tuple[float, ...]
    transform: Callable[[Expr], Transform]
    subspace: Callable[[Expr], Expr]
    bias: Callable[[Expr, Expr], Expr] | None
    plus: Callable[[Expr, Expr], Expr]
    minus: Callable[[Expr, Expr], Expr]
    rate: Callable[[Expr], Expr]
    rate_inverse: Callable[[Expr], Expr]
    jet: Callable[[Expr, Expr], Expr]
    transport: Callable[[Expr], Expr]
    right_jacobian: Callable[[Expr], Expr]
    random: Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]
    is_vector_space: bool = True
    angular: tuple[bool, ...] = ()  # per velocity component: measured in rad (True) or m (False)
    quaternion: slice | None = None  # which components of q form a unit quaternion (w, x, y, z)
    coordinate_units: tuple[str, ...] = ()  # unit of each component of q where they differ from those of ``angular``
    group: str = ""
    steps: tuple[Step, ...] = ()
    slices: Callable[[Expr], Slices] | None = None

    @property
    def q_units(self) -> tuple[str, ...]:
        """Unit of each component of q: rad, m, or nothing for a quaternion."""
        return self.coordinate_units or tuple("rad" if angular else "m" for angular in self.angular)

    @property
    def chain(self) -> tuple[Step, ...]:
        """The steps, or the joint itself as the only one: none of them is a chain."""
        return self.steps or (Step(self),)


class Step(NamedTuple):
    """One joint of a chain: placed in the frame of the step before, its coordinates and velocities from these indices on."""

    kind: JointKind
    pose: Pose = Pose()
    q: int = 0
    v: int = 0

    @property
    def coordinates(self) -> slice:
        """The joint's part of q."""
        return slice(self.q, self.q + self.kind.nq)

    @property
    def velocities(self) -> slice:
        """The joint's part of v."""
        return slice(self.v, self.v + self.kind.nv)


@dataclass(frozen=True)
class Family:
    """A kind of joint before its parameters are bound. n_axes: how many unit vectors ``Joint.axes`` it needs; takes: further
    fields of a Joint that it needs; make(joint): the record. ``make`` raises ValueError for parameters it cannot use."""

    name: str
    n_axes: int
    make: Callable[[Any], JointKind]
    takes: tuple[str, ...] = ()


def part(x: Expr, which: slice) -> Expr:
    """Rows of a column: plain slices of a column of one row would be read as columns."""
    return x[which, :]


def vector_space(nv: int) -> dict[str, Any]:
    """The manifold fields of a joint whose coordinates are a vector space and whose velocity is their rate."""
    import casadi as ca

    return {
        "plus": lambda q, d: q + d,
        "minus": lambda q0, q1: q1 - q0,
        "rate": lambda q: ca.DM.eye(nv),
        "rate_inverse": lambda q: ca.DM.eye(nv),
        "jet": lambda q, d: q + d,
        "transport": lambda d: ca.DM.eye(nv),
        "right_jacobian": lambda d: ca.DM.eye(nv),
    }


def sample_box(rng: np.random.Generator, lower: np.ndarray, upper: np.ndarray, span: float) -> np.ndarray:
    """Uniform sample in [lower, upper], each infinite end replaced by a window of width ``2 span``."""
    lo = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper - 2 * span, -span))
    hi = np.where(np.isfinite(upper), upper, np.where(np.isfinite(lower), lower + 2 * span, span))
    return np.asarray(rng.uniform(lo, hi + 0.0))  # NumPy refuses a range from 0 to -0
