"""One-step maps on a state manifold, as CasADi expressions.

Every record integrates ``xi = rate(t, x, u, p)`` over one step h with the control held. Besides the next state it hands
back the nodes ``(weight, t, x)`` of the quadrature that the same tableau applies to an integral over the step, so that
a running cost is integrated exactly as if it were one more state (``int l dt = h sum_i w_i l(t_i, x_i, u)``).

Runge-Kutta methods run in the ambient coordinates with ``dx/dt = N(x) rate(x)``; every point at which rate or cost is
evaluated is first projected onto the manifold (unit quaternions). Composing the vector field with that projection is
one smooth extension of it to the ambient space, so the order of the tableau is kept (Hairer, Lubich, Wanner,
Geometric Numerical Integration, section IV.4, projection methods).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.problem import System
from ocp.spaces import Space

Expr = Any
Node = tuple[float, Expr, Expr]
"""Weight, time and state at which a running cost is evaluated."""

Advance = Callable[[System, Expr, Expr, Expr, Expr, Expr], tuple[Expr, tuple[Node, ...]]]


@dataclass(frozen=True)
class Integrator:
    """A one-step map: ``advance(system, t, x, u, p, h) -> (x_next [nx], quadrature nodes)``.

    ``order``: global order of the state for a smooth system and a held control.
    ``check(system)`` raises ProblemError for a system that the method is not defined for.
    """

    name: str
    order: int
    advance: Advance
    check: Callable[[System], None] = lambda system: None

    def step(self, system: System, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> Expr:
        """State [nx] after the step."""
        return self.advance(system, t, x, u, p, h)[0]


def project(space: Space, x: Expr) -> Expr:
    """The nearest point of the manifold: unit quaternions, every other coordinate as it is."""
    if not space.quaternions:
        return x
    parts: list[Expr] = []
    done = 0
    for start in sorted(space.quaternions):
        q = x[start:start + 4]
        parts += [x[done:start], q / ca.sqrt(ca.dot(q, q))]
        done = start + 4
    return ca.vertcat(*parts, x[done:])


def _velocity(system: System, t: Expr, x: Expr, u: Expr, p: Expr) -> Expr:
    return ca.mtimes(system.space.rate(x), system.rate(t, x, u, p))


def _euler(system: System, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> tuple[Expr, tuple[Node, ...]]:
    return system.space.plus(x, h * system.rate(t, x, u, p)), ((1.0, t, x),)


def _semi_implicit_euler(system: System, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> tuple[Expr, tuple[Node, ...]]:
    half = system.space.ndx // 2
    acceleration = system.rate(t, x, u, p)[half:]
    velocity = x[system.nx - half:] + h * acceleration
    return system.space.plus(x, ca.vertcat(h * velocity, h * acceleration)), ((1.0, t, x),)


def _midpoint(system: System, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> tuple[Expr, tuple[Node, ...]]:
    middle = project(system.space, x + h / 2 * _velocity(system, t, x, u, p))
    after = x + h * _velocity(system, t + h / 2, middle, u, p)
    return project(system.space, after), ((1.0, t + h / 2, middle),)


def _rk4(system: System, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> tuple[Expr, tuple[Node, ...]]:
    k1 = _velocity(system, t, x, u, p)
    x2 = project(system.space, x + h / 2 * k1)
    k2 = _velocity(system, t + h / 2, x2, u, p)
    x3 = project(system.space, x + h / 2 * k2)
    k3 = _velocity(system, t + h / 2, x3, u, p)
    x4 = project(system.space, x + h * k3)
    k4 = _velocity(system, t + h, x4, u, p)
    after = project(system.space, x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
    return after, ((1 / 6, t, x), (1 / 3, t + h / 2, x2), (1 / 3, t + h / 2, x3), (1 / 6, t + h, x4))


def _second_order(system: System) -> None:
    """Raise ProblemError unless x = (q, v) and the first half of the rate is v itself."""
    space, where = system.space, f"system {system.name!r}"
    half = space.ndx // 2
    if space.ndx % 2 or space.tangent_index[space.nx - half:] != tuple(range(half, space.ndx)):
        raise ProblemError("the semi-implicit Euler step needs a second-order state (q, v) whose last components are "
                           f"the velocities; this state is ({', '.join(space.names)})", where=where)
    rng = np.random.default_rng(0)
    # the velocities enter the rate at points on the manifold only: neutral configuration, random velocity and control
    for _ in range(3):
        x = np.array(space.neutral)
        x[space.nx - half:] = rng.normal(size=half)
        p = np.array(system.parameter_values)
        rate = np.asarray(system.rate(0.0, x, rng.normal(size=system.nu), p)).ravel()
        wrong = [i for i in range(half) if rate[i] != x[space.nx - half + i]]
        if wrong:
            raise ProblemError(
                f"the semi-implicit Euler step needs the rate of {space.tangent_names[wrong[0]]!r} to be "
                f"{space.names[space.nx - half + wrong[0]]!r} itself (state (q, v)); use another integrator",
                where=where)


INTEGRATORS = MappingProxyType({i.name: i for i in (
    Integrator("euler", 1, _euler),
    Integrator("semi_implicit_euler", 1, _semi_implicit_euler, _second_order),
    Integrator("midpoint", 2, _midpoint),
    Integrator("rk4", 4, _rk4),
)})
