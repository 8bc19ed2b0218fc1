"""Implicit steps: BDF1, SDIRK2 and BDF2 on state manifolds; of robots by their equations of motion, without an inverse of M.

A stage of ``dynamics.steps.schemes`` is solved in the chart of the state x_n where the step begins, with points y of the tangent
space and what is known of them from other nodes:

    x_s = x_n [+] (y + gamma k)        k = rate of the chart's coordinates at x_s

Of robots k are velocity and acceleration, ``v_s = v_n + y_v + gamma a``, and the equations F(t, q_s, v_s, a, lambda, u) = 0 of
``System.motion`` hold there, with the acceleration and the multipliers of constraints as unknowns of Newton's method. Its matrix is
``M - gamma D - gamma^2 K`` in the words of the source. Rates of points differ there from velocities by brackets that are of the
order of the method's own error, so that quaternions keep order and length. Source: Sueda, "Analytically differentiable articulated
rigid body dynamics", section 3.4.

Of systems without equations of motion k is the unknown; on flat spaces the numbers agree.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import casadi as ca
import numpy as np

from dynamics.kernels import compile_many
from dynamics.steps import schemes
from dynamics.steps.march import Equations, March
from ocp.implicit import implicit
from ocp.integrators.integrator import Expr, Node
from ocp.integrators.stage_equations import INLINE_LIMIT
from ocp.problem import System
from ocp.spaces import Space

#: (t, x, y known, gamma, u, p, start) -> (state [nx], y' [ndx], unknowns)
Solve = Callable[..., tuple[Expr, Expr, Expr]]
Motion = Callable[[], ca.Function]


def moves(system: System) -> bool:
    """Whether steps take the equations of motion: of robots, unless derivatives of their rate come from differences."""
    return system.motion is not None and system.derivatives in ("ad", "analytic")


def moved(system: System, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr, method: str,
          before: tuple[Expr, Expr] | None = None) -> tuple[Expr, tuple[Node, ...]]:
    """(state after a step [nx], quadrature nodes). before, of bdf2: the state one step ago, and h over the length of that step."""
    solve, w = stage(system), None
    places, slopes, nodes = known_places(system.space, x, before), dict[int, Expr](), list[Node]()
    own = schemes.stages(method, None if before is None else before[1])
    for number, (one, share) in enumerate(zip(own, shares(own), strict=True), 1):
        gamma, y, now = one.gamma * h, known(one, h, places, slopes), t + one.time * h
        after, slopes[number], w = solve(now, x, y, gamma, u, p, w)
        places[number] = y + gamma * slopes[number]
        nodes.append((share, now, after))
    return after, tuple(nodes)


def shares(own: tuple[schemes.Stage, ...]) -> list[float]:
    """How much of the rise over a step, beyond what comes from steps before, is that of each stage."""
    if len(own) == 1:
        return [1.0]
    inner = {term.node: term.b for term in own[-1].terms}
    return [*(inner.get(number, 0.0) for number in range(1, len(own))), own[-1].gamma]


def known_places(space: Space, x: Expr, before: tuple[Expr, Expr] | None) -> dict[int, Expr]:
    """Coordinates of the nodes where a step begins, in the chart of x."""
    return {0: ca.DM.zeros(space.ndx)} | ({} if before is None else {-1: space.minus(x, before[0])})


def known(one: schemes.Stage, h: Expr, positions: Mapping[int, Expr], rates: Mapping[int, Expr]) -> Expr:
    """Knowledge of the node of a stage."""
    found: Expr = ca.DM.zeros(positions[0].shape[0])
    for node, a, b in one.terms:
        found = found + a * positions[node] if node else found
        found = found + h * b * rates[node] if node > 0 else found
    return found


def reached(space: Space, x: Expr, y: Expr, gamma: Expr, speed: Expr) -> Expr:
    """The state [nx] of a stage of a robot with the velocity ``speed`` [nv]."""
    nv = space.ndx // 2
    return space.plus(ca.vertcat(split(space, x)[0], speed), ca.vertcat(y[:nv] + gamma * speed, ca.DM.zeros(nv)))


def split(space: Space, x: Expr) -> tuple[Expr, Expr]:
    """Configuration and velocity of a state."""
    nq = space.nx - space.ndx // 2
    return x[:nq], x[nq:]


class StageEquations(NamedTuple):
    """Symbols (z, t, x, y, gamma, u, p), the equations of a stage, and the state and rate that it reaches."""

    symbols: list[Expr]
    equations: Expr
    reached: tuple[Expr, Expr]


def _equations(space: Space, motion: Motion, rate: ca.Function | None) -> StageEquations:
    """Symbols (z, t, x, y, gamma, u, p), the equations of a stage, and the state and rate that it reaches; by the equations of
    motion, or by the rate where that is given."""
    F = motion() if rate is None else rate
    scalar, shift = rate is None or (F.is_a("SXFunction") and F.n_instructions() <= INLINE_LIMIT), int(rate is None)
    sizes = (F.size1_in(2) if rate is None else space.ndx, 1, space.nx, space.ndx, 1, F.size1_in(2 + shift), F.size1_in(3 + shift))
    z, t, x, y, gamma, u, p = inputs = [(ca.SX if scalar else ca.MX).sym(name, n) for name, n in zip("ztxygup", sizes, strict=True)]
    if rate is None:
        nv = space.ndx // 2
        speed = split(space, x)[1] + y[nv:] + gamma * z[:nv]
        after = reached(space, x, y, gamma, speed)
        return StageEquations(inputs, ca.cse(F(t, after, z, u, p)), (after, ca.vertcat(speed, z[:nv])))
    c, X, xi = ca.SX.sym("c", space.nx), ca.SX.sym("X", space.nx), ca.SX.sym("xi", space.ndx)
    plus = ca.Function("plus", [c, xi], [ca.densify(space.plus(c, xi))])
    seen = ca.Function("seen", [c, X, xi], [ca.densify(ca.jtimes(space.minus(c, X), X, ca.mtimes(space.rate(X), xi)))])
    after = plus(x, y + gamma * z)
    return StageEquations(inputs, z - seen(x, after, rate(t, after, u, p)), (after, z))


def stage(system: System) -> Solve:
    """The stage as expressions, SX or MX; start: a guess of the unknowns (None: 0). NaN where Newton's method finds none."""
    return _stage(system.space, system.motion, None if moves(system) else system.rate)


@functools.lru_cache(maxsize=16)  # of all steps of a solve
def _stage(space: Space, motion: Motion, rate: ca.Function | None) -> Solve:
    inputs, G, (after, slope) = _equations(space, motion, rate)
    z, _, x, y, gamma, _, _ = inputs
    right = -ca.horzcat(*(ca.jacobian(G, one) for one in inputs[1:]))
    solve = implicit("motion", inputs, ca.densify(G), ca.densify(ca.jacobian(G, z)), ca.densify(right), search=rate is None)
    end = ca.Function("reached", [x, y, gamma, z], [after, slope])

    def found(t: Expr, x: Expr, y: Expr, gamma: Expr, u: Expr, p: Expr, start: Expr | None = None) -> tuple[Expr, Expr, Expr]:
        w = solve(ca.DM.zeros(z.shape[0]) if start is None else start, (t, x, y, gamma, u, p))
        return *end(x, y, gamma, w), w

    return found


def equations(system: System, running: Sequence[ca.Function] = ()) -> Equations:
    """Inputs of ``dynamics.steps.march``; running: scalar Functions of (t, x, u, p) that are integrated along."""
    inputs, G, (after, slope) = _equations(system.space, system.motion, None if moves(system) else system.rate)
    z, _, x, y, gamma, _, _ = inputs
    now = [ca.MX.sym(name, n) for name, n in zip("txup", (1, system.nx, system.nu, system.np), strict=True)]
    here, before = ca.SX.sym("x", system.nx), ca.SX.sym("before", system.nx)
    return Equations(ca.Function("stage", inputs, ca.cse([ca.densify(G), ca.densify(ca.jacobian(G, z))])),
                     ca.Function("reached", [z, x, y, gamma], [ca.densify(after), ca.densify(slope)]),
                     ca.Function("back", [here, before], [ca.densify(system.space.minus(here, before))]),
                     ca.Function("running", now, [ca.densify(ca.vertcat(ca.MX(0, 1), *(f(*now) for f in running)))]))


class Failure(NamedTuple):
    """Why a stage has no solution that Newton's method finds, the time of the stage [s], the joint (or row of a constraint) whose
    equation is left by most, and by how much: its residual over its entry on the diagonal of the Newton matrix, in the unit of the
    acceleration."""

    why: str
    t: float
    joint: str
    residual: float


def row_name(system: System, row: int) -> str:
    """Names of the equations of a stage."""
    names, half = system.space.tangent_names, system.space.ndx // 2
    if not moves(system):
        return names[row]
    return names[half + row].removeprefix("v.") if row < half else f"constraint {row - half}"


def failure(system: System, method: str, t: float, x: np.ndarray, u: np.ndarray, p: np.ndarray, h: float,
            before: tuple[np.ndarray, float] | None = None) -> Failure | None:
    """Why a step from x [nx] at t fails; None where it finds a solution. before: as of :func:`moved`. Raises nothing for what is
    not finite."""
    march = March(compile_many(equations(system), mode="interpreted"), method)
    if before is not None:
        march.begin(before[0], h / before[1])
    found = march.run(x, np.array([t, t + h]), np.reshape(u, (1, -1)), p).failure
    return None if found is None else Failure(found.why, found.time, row_name(system, found.row), found.residual)
