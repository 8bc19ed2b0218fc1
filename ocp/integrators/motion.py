"""Implicit steps by the equations of motion: BDF1, SDIRK2 and BDF2 of robots, without an inverse of the mass matrix.

The equations F(t, q, v, a, lambda, u) = 0 of ``System.motion`` hold at the end of every stage, whose velocity and place follow from
its acceleration alone, the unknown of Newton's method beside the multipliers of constraints:

    v_s = v + gamma a        q_s = q_n [+] (d + gamma v_s)        F(t_s, q_s, v_s, a, lambda, u) = 0

with what is known of earlier stages in v and d. Its matrix is ``M - gamma D - gamma^2 K`` in the words of the source. Places are
seen in the chart of q_n, where rates differ from velocities by brackets that are of the order of the method's own error, so that
quaternions keep order and length. Source: Sueda, "Analytically differentiable articulated rigid body dynamics", section 3.4.

Systems without equations of motion take the same methods by their rate; on flat spaces the numbers agree.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import casadi as ca
import numpy as np

from ocp.implicit import implicit
from ocp.integrators.integrator import Expr, Node
from ocp.integrators.runge_kutta import runge_kutta
from ocp.integrators.tableaus import IMPLICIT_EULER, SDIRK2
from ocp.problem import System
from ocp.spaces import Space

ALPHA = SDIRK2.c[0]
Solve = Callable[..., tuple[Expr, Expr]]


def moves(system: System) -> bool:
    """Whether steps take the equations of motion: of robots, unless derivatives of their rate come from differences."""
    return system.motion is not None and system.derivatives in ("ad", "analytic")


def bdf1(system: System, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> tuple[Expr, tuple[Node, ...]]:
    """Implicit Euler."""
    return moved(system, t, x, u, p, h, "bdf1")[:2] if moves(system) else runge_kutta(IMPLICIT_EULER)(system, t, x, u, p, h)


def sdirk2(system: System, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> tuple[Expr, tuple[Node, ...]]:
    """Two stages at alpha h and h, alpha = 1 - 1 / sqrt 2."""
    return moved(system, t, x, u, p, h, "sdirk2")[:2] if moves(system) else runge_kutta(SDIRK2)(system, t, x, u, p, h)


def moved(system: System, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr, method: str, start: Expr | None = None,
          before: tuple[Expr, Expr] | None = None, solve: Solve | None = None) -> tuple[Expr, tuple[Node, ...], Expr]:
    """(state after a step [nx], quadrature nodes, accelerations and multipliers there). start: a guess of the latter, None: 0;
    before, of bdf2: the state one step ago, and h over the length of that step; solve: of a stage, default: :func:`stage`."""
    q, v = split(system, x)
    solve, still = solve or stage(system), ca.DM.zeros(v.shape[0])
    if method == "sdirk2":
        gamma, rest = ALPHA * h, (1 - ALPHA) * h
        between, w = solve(t + gamma, q, v, still, gamma, u, p, start)
        after, w = solve(t + h, q, v + rest * w[:v.shape[0]], rest * split(system, between)[1], gamma, u, p, w)
        return after, ((1 - ALPHA, t + gamma, between), (ALPHA, t + h, after)), w
    known, d, gamma = (v, still, h) if before is None else looked_back(system, before[0], x, h, before[1])
    after, w = solve(t + h, q, known, d, gamma, u, p, start)
    return after, ((1.0, t + h, after),), w


def bdf2(system: System, t: Expr, before: Expr, x: Expr, u: Expr, p: Expr, h: Expr, w: Expr) -> tuple[Expr, tuple[Node, ...]]:
    """The step of ``ocp.integrators.multistep`` by the equations of motion; before: the state one step ago, w: h over its
    length."""
    return moved(system, t, x, u, p, h, "bdf2", before=(before, w))[:2]


def looked_back(system: System, before: Expr, x: Expr, h: Expr, w: Expr) -> tuple[Expr, Expr, Expr]:
    """v, d [nv] and gamma of a step of BDF2."""
    nv = system.space.ndx // 2
    back, share = system.space.minus(x, before), w**2 / (1 + 2 * w)
    return split(system, x)[1] - share * back[nv:], -share * back[:nv], h * (1 + w) / (1 + 2 * w)


def reached(space: Space, q: Expr, v: Expr, d: Expr, gamma: Expr, a: Expr) -> Expr:
    """The state [nx] of a stage with the acceleration a [nv]."""
    speed = v + gamma * a
    x, still = ca.vertcat(q, speed), ca.DM.zeros(speed.shape[0])
    return space.plus(x, ca.vertcat(d + gamma * speed, still))


def split(system: System, x: Expr) -> tuple[Expr, Expr]:
    """Configuration and velocity of a state."""
    nq = system.nx - system.space.ndx // 2
    return x[:nq], x[nq:]


def stage(system: System) -> Solve:
    """``(t, q, v, d, gamma, u, p, start) -> (x [nx], w)`` of a stage, SX or MX: w are accelerations [nv] and multipliers, start a
    guess of them (None: 0); NaN where Newton's method finds none."""
    return _stage(system.motion, system.space)


def _equations(motion: Callable[[], ca.Function], space: Space) -> tuple[list[Expr], Expr]:
    """Symbols (w, t, q, v, d, gamma, u, p), and the equations of a stage."""
    F, nv = motion(), space.ndx // 2
    sizes = (F.size1_in(2), 1, space.nx - nv, nv, nv, 1, F.size1_in(3), F.size1_in(4))
    w, t, q, v, d, gamma, u, p = inputs = [ca.SX.sym(name, size) for name, size in zip("wtqvdgup", sizes, strict=True)]
    return inputs, ca.cse(F(t, reached(space, q, v, d, gamma, w[:nv]), w, u, p))


class Failure(NamedTuple):
    """Why a stage has no solution that Newton's method finds, the time of the stage [s], the joint (or row of a constraint) whose
    equation is left by most, and by how much: its residual over its entry on the diagonal of the Newton matrix, in the unit of the
    acceleration."""

    why: str
    t: float
    joint: str
    residual: float


class _StageError(Exception):
    def __init__(self, why: str, t: float, residual: np.ndarray):
        self.why, self.t, self.residual = why, t, residual


def failure(system: System, method: str, t: float, x: np.ndarray, u: np.ndarray, p: np.ndarray, h: float,
            before: tuple[np.ndarray, float] | None = None) -> Failure | None:
    """Why a step from x [nx] at t fails, by Newton's method step by step; None where it finds a solution. before: as of
    :func:`moved`. Raises nothing for what is not finite."""
    inputs, G = _equations(system.motion, system.space)
    J, nv = ca.jacobian(G, inputs[0]), system.space.ndx // 2
    f = ca.Function("stage", inputs, [G, ca.densify(J)])

    def solve(*rest: Expr) -> tuple[Expr, Expr]:
        w = _newton(f, [np.asarray(part, float) for part in rest[:7]])
        _, q, v, d, gamma, _, _ = rest[:7]
        return reached(system.space, q, v, d, gamma, ca.DM(w)[:nv]), ca.DM(w)

    past = None if before is None else (ca.DM(before[0]), ca.DM(before[1]))
    try:
        moved(system, t, ca.DM(x), ca.DM(u), ca.DM(p), h, method, None, past, solve)
    except _StageError as failed:
        names = [*system.space.tangent_names[nv:], *(f"constraint row {i}" for i in range(len(failed.residual) - nv))]
        sizes = np.where(np.isfinite(failed.residual), np.abs(failed.residual), np.inf)
        worst = int(np.argmax(sizes))
        return Failure(failed.why, failed.t, names[worst].removeprefix("v."), float(sizes[worst]))
    return None


def _newton(f: ca.Function, rest: list[np.ndarray]) -> np.ndarray:
    """Accelerations and multipliers of one stage, from 0. Raises _StageError."""
    w = np.zeros(f.size1_in(0))
    for _ in range(60):
        value, slope = (np.asarray(part) for part in f(w, *rest))
        value, own = value.ravel(), np.abs(np.diag(slope))
        weighed = value / np.where(own > 0, own, 1.0)
        if not (np.all(np.isfinite(value)) and np.all(np.isfinite(slope))):
            raise _StageError("the residual is not finite", float(rest[0]), weighed)
        move = np.linalg.lstsq(slope, -value, rcond=None)[0]
        if np.max(np.abs(move), initial=0.0) <= 1e-8 * max(1.0, float(np.max(np.abs(w), initial=0.0))):
            return w
        shares = 0.5 ** np.arange(12)
        sizes = np.array([np.linalg.norm(np.asarray(f(w + share * move, *rest)[0])) for share in shares])
        passing = np.flatnonzero(sizes < (1 - shares / 4) * np.linalg.norm(value))
        w = w + shares[passing[0] if len(passing) else -1] * move
    raise _StageError("no convergence in 60 iterations", float(rest[0]), weighed)


@functools.lru_cache(maxsize=16)  # of all steps of a solve
def _stage(motion: Callable[[], ca.Function], space: Space) -> Solve:
    inputs, G = _equations(motion, space)
    w, _, q, v, d, gamma, _, _ = inputs
    nv = v.shape[0]
    right = -ca.horzcat(*(ca.jacobian(G, one) for one in inputs[1:]))
    solve = implicit("motion", inputs, ca.densify(G), ca.densify(ca.jacobian(G, w)), ca.densify(right), search=True)
    end = ca.Function("reached", [q, v, d, gamma, w], [reached(space, q, v, d, gamma, w[:nv])])

    def found(t: Expr, q: Expr, v: Expr, d: Expr, gamma: Expr, u: Expr, p: Expr, start: Expr | None = None) -> tuple[Expr, Expr]:
        w = solve(ca.DM.zeros(inputs[0].shape[0]) if start is None else start, (t, q, v, d, gamma, u, p))
        return end(q, v, d, gamma, w), w

    return found
