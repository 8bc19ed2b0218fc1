"""Friction by staggered projections: normal impulses for given friction, friction for given normal impulses, until both agree.

Contacts of points have normal impulses a from a program of their own. Joints need none: what a joint carries follows from the
motion that the tree allows, and is shared out over points of its bearing, with the smallest impulses that carry it (bilateral
staggered projections). Impulses of friction b satisfy ``|b| <= mu |a|`` and oppose the motion as far as they can:

    min 1/2 b' T W T' b + b' T W f,  W = M^-1, or that of the motions that rows G leave

Sources: Kaufman, Sueda, James and Pai 2008; Sueda, sections 2.12 and 2.12.1. Programs in boxes are solved by whoever calls.

>>> def solve(P, g, lower, upper): return np.clip(-g / np.diag(P), lower, upper)  # of programs without coupling
>>> normal = contacts(np.eye(2), np.array([[0.0, 1.0]]), [0], [0.5], solve)  # a unit mass in a plane, friction 0.5
>>> staggered(np.eye(2), np.array([3.0, -2.0]), np.array([[1.0, 0.0]]), normal, solve).x  # falls and slides: loses 0.5 * 2
array([2., 0.])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.errors import ModelError
from dynamics.mechanism import Mechanism
from dynamics.redmax.equations import body_inertias, body_wrenches, redmax
from dynamics.redmax.free_bodies import apart, maximal_state
from dynamics.redmax.kinematics import maximal

Array = np.ndarray
#: (P, g, lower, upper) -> x of ``min 1/2 x' P x + g' x`` with lower <= x <= upper
BoxSolver = Callable[[Array, Array, Array, Array], Array]
#: (momentum with friction [n], friction b [t]) -> (push [n] of contacts, limits [t] of friction)
Normal = Callable[[Array, Array], tuple[Array, Array]]
BALLS, CYLINDERS = ("spherical", "exponential", "euler"), ("revolute", "continuous", "prismatic")


class Projected(NamedTuple):
    """x [n]: velocities; friction b [t]: its impulses; limits [t]: what they may be; how many rounds, and whether they came to an
    end."""

    x: Array
    friction: Array
    limits: Array
    rounds: int
    converged: bool


@dataclass(frozen=True)
class Rounds:
    """tolerance: change of x from round to round in the norm of M, which is that of impulses in the norm of M^-1; most: rounds."""

    tolerance: float = 1e-10
    most: int = 100


def staggered(W: Array, f: Array, T: Array, normal: Normal, solve: BoxSolver,
              start: Array | None = None, rounds: Rounds | None = None) -> Projected:
    """The rounds. f [n]: momentum; start [t]: friction of the step before, which saves rounds."""
    rounds = rounds or Rounds()
    b = np.zeros(len(T)) if start is None else np.asarray(start, float)
    x_before, before, A = np.full(len(W), np.inf), np.zeros(len(W)), T @ W @ T.T
    for count in range(1, rounds.most + 1):
        push, limits = normal(f + T.T @ b, b)
        if len(b):
            b = np.clip(solve(A, T @ W @ (f + push), -limits, limits), -limits, limits)
        impulses = push + T.T @ b
        x = W @ (f + impulses)
        # the change of x in the norm of M, by impulses: W need not have an inverse
        if count > 1 and np.sqrt(max((x - x_before) @ (impulses - before), 0.0)) <= rounds.tolerance:
            return Projected(x, b, limits, count, True)
        x_before, before = x, impulses
    return Projected(x, b, limits, rounds.most, False)


def contacts(W: Array, N: Array, owner: Sequence[int], friction: Sequence[float], solve: BoxSolver) -> Normal:
    """The normal part of contacts between points: N [k, nv] apart, friction [k]; owner [t]: contact of each row of T."""
    A, mu, rows = N @ W @ N.T, np.asarray(friction, float), np.asarray(owner, int)

    def normal(f: Array, b: Array) -> tuple[Array, Array]:
        a = np.maximum(solve(A, N @ W @ f, np.zeros(len(N)), np.full(len(N), np.inf)), 0.0)
        return N.T @ a, (mu * a)[rows]

    return normal


@dataclass(frozen=True)
class Bearing:
    """Where a joint rubs: eight points on a cylinder about its axis (revolute, prismatic), six on a ball about its centre.

    radius, half_length [m]; mu."""

    joint: str
    radius: float
    mu: float
    half_length: float = 0.0

    def rows(self, kind: str, axes: Sequence[Sequence[float]]) -> tuple[Array, Array]:
        """Normal and tangential rows [p, 6] and [2 p, 6] over the twist of the body relative to its parent, body coordinates."""
        if kind in BALLS:
            radial = np.vstack([np.eye(3), -np.eye(3)])
            points, along = self.radius * radial, np.roll(radial, 1, axis=1)
        elif kind in CYLINDERS:
            axis = np.asarray(axes[0], float)
            across = np.linalg.svd(axis[None, :])[2][1:]
            round_ = np.vstack([across, -across])
            radial = np.vstack([round_, round_])
            points = self.radius * radial + np.repeat([self.half_length, -self.half_length], 4)[:, None] * axis
            along = np.tile(axis, (8, 1))
        else:
            raise ModelError(f"kind {kind!r} has no bearing model; known: {', '.join((*BALLS, *CYLINDERS))}",
                             element=f"joint {self.joint!r}")
        tangents = np.stack([along, np.cross(along, radial)], axis=1).reshape(-1, 3)
        return _rows(radial, points), _rows(tangents, np.repeat(points, 2, axis=0))


def _rows(directions: Array, points: Array) -> Array:
    """``d . (v + w x p)`` as rows over twists."""
    return np.array(spatial.motion(ca.DM(directions).T, ca.DM(np.cross(points, directions)).T)).T


class BearingStep:
    """Velocity steps of a mechanism whose joints rub. loops: rows G_m(q) [m, 6n] over all twists, as a Function of q.

    Raises ModelError for joints without bearings, UnknownNameError for unknown ones.
    """

    def __init__(self, mechanism: Mechanism, bearings: Sequence[Bearing], solve: BoxSolver, loops: ca.Function | None = None,
                 epsilon: float = 1e-9):
        model = mechanism.model
        self.mechanism, self.bearings, self.solve, self.epsilon = mechanism, tuple(bearings), solve, epsilon
        self.where = [model.joint_index(b.joint) for b in bearings]
        for b in bearings:
            if min(b.radius, b.mu, b.half_length) < 0:
                raise ModelError("radius, half length and friction must not be negative", element=f"joint {b.joint!r}")
        joints = [model.bodies[i].joint for i in self.where]
        self.rows = [b.rows(joint.kind, joint.axes) for b, joint in zip(bearings, joints, strict=True)]
        q, v, u = (ca.SX.sym(name, size) for name, size in (("q", model.nq), ("v", model.nv), ("u", mechanism.nu)))
        at, found = maximal(model, q, v), redmax(mechanism, q, v, u)
        f_m = body_wrenches(mechanism, q, at.J @ v, u).f + _borne(mechanism, q, v)
        S = ca.vertcat(*(_placed(mechanism, i, q) for i in self.where)) if self.where else ca.SX(0, model.nv)
        poses = (tree.parent_transform(model, i, q) for i in range(len(model.bodies)))
        X = ca.vertcat(*(spatial.force_to_parent(pose, ca.SX.eye(6)) for pose in poses))
        G = ca.SX(0, 6 * len(model.bodies)) if loops is None else loops(q)
        self.terms = ca.Function("terms", [q, v, u], [ca.densify(x) for x in (
            found.M, found.f, at.J, at.J_dot @ v, f_m, S, X, G, G @ at.J)])
        self.inertias = np.array(ca.densify(body_inertias(model)))

    def __call__(self, q: Array, v: Array, h: float, u: Array | None = None, start: Array | None = None,
                 rounds: Rounds | None = None) -> Projected:
        """The velocities after h [s]; joints move on with them."""
        controls = np.zeros(self.mechanism.nu) if u is None else u
        M, f, J, drift, f_m, S, X, G_m, G = (np.array(x) for x in self.terms(q, v, controls))
        f, drift, f_m = f.ravel(), drift.ravel(), f_m.ravel()
        momentum = M @ v + h * f
        W, multipliers = np.linalg.inv(M), np.zeros((0, len(M)))
        if len(G):
            inner = np.linalg.solve(G @ W @ G.T, G @ W)
            W, multipliers = W - W @ G.T @ inner, -inner
        T = np.vstack([t @ S[6 * k:6 * k + 6] for k, (_, t) in enumerate(self.rows)]) if self.rows else np.zeros((0, len(M)))

        def normal(push: Array, b: Array) -> tuple[Array, Array]:
            x = W @ push
            impulses = self.inertias @ (J @ (x - v) + h * drift) - h * f_m - G_m.T @ (multipliers @ push)
            through, limits, first = self._through(impulses, X), [np.zeros(0)], 0
            for k, (bearing, i) in enumerate(zip(self.bearings, self.where, strict=True)):
                tangents = self.rows[k][1]
                rubs, first = b[first:first + len(tangents)], first + len(tangents)
                limits.append(bearing.mu * np.repeat(np.abs(self._shared(k, through[i] - tangents.T @ rubs)), 2))
            return np.zeros(len(M)), np.concatenate(limits)

        return staggered(W, momentum, T, normal, self.solve, start, rounds)

    def _through(self, impulses: Array, X: Array) -> Array:
        """Wrenches that every joint carries [n, 6], from leaves to roots."""
        carried = impulses.reshape(-1, 6).copy()
        for i in reversed(range(len(carried))):
            parent = self.mechanism.model.bodies[i].parent
            if parent >= 0:
                carried[parent] += X[6 * i:6 * i + 6] @ carried[i]
        return carried

    def _shared(self, k: int, wrench: Array) -> Array:
        """Normal impulses [p] at the points of a bearing: the smallest that carry the wrench."""
        N, i = self.rows[k][0], self.where[k]
        near = np.linalg.inv(self.inertias[6 * i:6 * i + 6, 6 * i:6 * i + 6])
        A = N @ near @ N.T
        return np.linalg.solve(A + self.epsilon * np.trace(A) * np.eye(len(N)), N @ near @ wrench)


def _borne(mechanism: Mechanism, q: Any, v: Any) -> Any:
    """Wrenches [6n] of the forces on bodies; what a force at a joint gives stays between a body and its parent."""
    bodies, at = apart(mechanism.model), maximal_state(mechanism.model, q, v)
    total = ca.SX(6 * len(bodies.bodies), 1)
    for force in mechanism.forces:
        try:
            force.check(bodies)
        except ModelError:  # it needs the joints
            continue
        total += force.effort(bodies, *at)
    return total


def _placed(mechanism: Mechanism, i: int, q: Any) -> Any:
    out = ca.SX(6, mechanism.model.nv)
    out[:, mechanism.model.v_slice(i)] = tree.coupled_subspace(mechanism.model, i, q)
    return out
