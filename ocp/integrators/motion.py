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

import casadi as ca
import numpy as np

from ocp.implicit import implicit
from ocp.integrators.integrator import Expr, Node
from ocp.integrators.runge_kutta import runge_kutta
from ocp.integrators.tableaus import IMPLICIT_EULER, SDIRK2
from ocp.problem import System
from ocp.spaces import Space

ALPHA = SDIRK2.c[0]


def moves(system: System) -> bool:
    """Whether steps take the equations of motion: of robots, unless derivatives of their rate come from differences."""
    return system.motion is not None and system.derivatives in ("ad", "analytic")


def bdf1(system: System, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> tuple[Expr, tuple[Node, ...]]:
    """Implicit Euler."""
    if not moves(system):
        return runge_kutta(IMPLICIT_EULER)(system, t, x, u, p, h)
    q, v = split(system, x)
    after, _ = stage(system)(t + h, q, v, ca.DM.zeros(v.shape[0]), h, u, p)
    return after, ((1.0, t + h, after),)


def sdirk2(system: System, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> tuple[Expr, tuple[Node, ...]]:
    """Two stages at alpha h and h, alpha = 1 - 1 / sqrt 2."""
    if not moves(system):
        return runge_kutta(SDIRK2)(system, t, x, u, p, h)
    q, v = split(system, x)
    solve, gamma, rest = stage(system), ALPHA * h, (1 - ALPHA) * h
    between, a = solve(t + gamma, q, v, ca.DM.zeros(v.shape[0]), gamma, u, p)
    middle = split(system, between)[1]
    after, _ = solve(t + h, q, v + rest * a, rest * middle, gamma, u, p)
    return after, ((1 - ALPHA, t + gamma, between), (ALPHA, t + h, after))


def bdf2(system: System, t: Expr, before: Expr, x: Expr, u: Expr, p: Expr, h: Expr, w: Expr) -> tuple[Expr, tuple[Node, ...]]:
    """The step of ``ocp.integrators.multistep`` by the equations of motion; before: the state one step ago, w: h over its
    length."""
    q, v = split(system, x)
    known, d, gamma = looked_back(system, before, x, h, w)
    after, _ = stage(system)(t + h, q, known, d, gamma, u, p)
    return after, ((1.0, t + h, after),)


def looked_back(system: System, before: Expr, x: Expr, h: Expr, w: Expr) -> tuple[Expr, Expr, Expr]:
    """v, d [nv] and gamma of a step of BDF2."""
    nv = system.space.ndx // 2
    back, share = system.space.minus(x, before), w**2 / (1 + 2 * w)
    return split(system, x)[1] - share * back[nv:], -share * back[:nv], h * (1 + w) / (1 + 2 * w)


def split(system: System, x: Expr) -> tuple[Expr, Expr]:
    """Configuration and velocity of a state."""
    nq = system.nx - system.space.ndx // 2
    return x[:nq], x[nq:]


def reached(space: Space, q: Expr, v: Expr, d: Expr, gamma: Expr, a: Expr) -> Expr:
    """The state [nx] of a stage with the acceleration a [nv]."""
    speed = v + gamma * a
    x, still = ca.vertcat(q, speed), ca.DM.zeros(speed.shape[0])
    return space.plus(x, ca.vertcat(d + gamma * speed, still))


def stage(system: System) -> Callable[..., tuple[Expr, Expr]]:
    """``(t, q, v, d, gamma, u, p) -> (x [nx], a [nv])`` of a stage, SX or MX; NaN where Newton's method finds none."""
    return _stage(system.motion, system.space)


def _equations(motion: Callable[[], ca.Function], space: Space) -> tuple[list[Expr], Expr]:
    """Symbols (w, t, q, v, d, gamma, u, p), and the equations of a stage."""
    F, nv = motion(), space.ndx // 2
    sizes = (F.size1_in(2), 1, space.nx - nv, nv, nv, 1, F.size1_in(3), F.size1_in(4))
    w, t, q, v, d, gamma, u, p = inputs = [ca.SX.sym(name, size) for name, size in zip("wtqvdgup", sizes, strict=True)]
    return inputs, ca.cse(F(t, reached(space, q, v, d, gamma, w[:nv]), w, u, p))


def failure(system: System, t: float, x: np.ndarray, u: np.ndarray, p: np.ndarray, h: float) -> str | None:
    """Why a step of BDF1 from x [nx] at t has no solution that Newton's method finds, in words; None where it has one. The inner
    stage of SDIRK2 is such a step, of length alpha h."""
    inputs, G = _equations(system.motion, system.space)
    f, nv = ca.Function("stage", inputs, [G, ca.densify(ca.jacobian(G, inputs[0]))]), system.space.ndx // 2
    rest = (t + h, *split(system, x), np.zeros(nv), h, u, p)
    w = np.zeros(inputs[0].shape[0])
    for _ in range(60):
        value, slope = (np.asarray(part) for part in f(w, *rest))
        value = value.ravel()
        if not (np.all(np.isfinite(value)) and np.all(np.isfinite(slope))):
            break
        move = np.linalg.lstsq(slope, -value, rcond=None)[0]
        if np.max(np.abs(move)) <= 1e-8 * max(1.0, float(np.max(np.abs(w)))):
            return None
        shares = 0.5 ** np.arange(12)
        sizes = np.array([np.linalg.norm(np.asarray(f(w + share * move, *rest)[0])) for share in shares])
        passing = np.flatnonzero(sizes < (1 - shares / 4) * np.linalg.norm(value))
        w = w + shares[passing[0] if len(passing) else -1] * move
    names = [*system.space.tangent_names[nv:], *(f"constraint row {i}" for i in range(len(value) - nv))]
    worst = int(np.argmax(np.where(np.isfinite(value), np.abs(value), np.inf)))
    where = names[worst].removeprefix("v.")
    return (f"Newton's method finds no step of {h:.6g} s; the equations of motion are left by {abs(value[worst]):.3g} at joint "
            f"{where!r}; a shorter step may help")


@functools.lru_cache(maxsize=16)  # of all steps of a solve
def _stage(motion: Callable[[], ca.Function], space: Space) -> Callable[..., tuple[Expr, Expr]]:
    inputs, G = _equations(motion, space)
    w, _, q, v, d, gamma, _, _ = inputs
    nv = v.shape[0]
    right = -ca.horzcat(*(ca.jacobian(G, one) for one in inputs[1:]))
    solve = implicit("motion", inputs, ca.densify(G), ca.densify(ca.jacobian(G, w)), ca.densify(right), search=True)
    end = ca.Function("reached", [q, v, d, gamma, w], [reached(space, q, v, d, gamma, w[:nv])])

    def found(t: Expr, q: Expr, v: Expr, d: Expr, gamma: Expr, u: Expr, p: Expr) -> tuple[Expr, Expr]:
        w = solve(ca.DM.zeros(inputs[0].shape[0]), (t, q, v, d, gamma, u, p))
        return end(q, v, d, gamma, w), w[:nv]

    return found
