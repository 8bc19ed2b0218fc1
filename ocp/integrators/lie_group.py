"""Methods whose points move by ``x [+] d``: no point leaves the manifold, quaternions keep their length to rounding.

On a group whose ``[+]`` is the exponential, ``x exp(d)``, with the tangent rate ``x' = x xi(t, x)`` (velocities in body axes).
Products in the sources, which let fields act from the left, stand here in the opposite order.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.integrators.integrator import Expr, Node
from ocp.problem import System
from ocp.spaces import Space

Step = tuple[Expr, tuple[Node, ...]]


def euler(system: System, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> Step:
    """Lie-Euler: ``x [+] h xi``."""
    return system.space.plus(x, h * system.rate(t, x, u, p)), ((1.0, t, x),)


def semi_implicit_euler(system: System, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> Step:
    """Symplectic Euler: positions move with the velocity after the step."""
    half = system.space.ndx // 2
    acceleration = system.rate(t, x, u, p)[half:]
    moved = x[system.nx - half:] + h * acceleration
    return system.space.plus(x, ca.vertcat(h * moved, h * acceleration)), ((1.0, t, x),)


def second_order(system: System) -> None:
    """Raise ProblemError unless x = (q, v) and the first half of the rate is v itself."""
    space, where = system.space, f"system {system.name!r}"
    half = space.ndx // 2
    if space.ndx % 2 or space.tangent_index[space.nx - half:] != tuple(range(half, space.ndx)):
        raise ProblemError("the semi-implicit Euler step needs a second-order state (q, v) whose last components are "
                           f"the velocities; this state is ({', '.join(space.names)})", where=where)
    rng = np.random.default_rng(0)
    # the rate is asked at points on the manifold: random where it is flat, neutral elsewhere, random velocity and control
    flat = np.array(space.tangent_index[:space.nx - half]) >= 0
    for _ in range(3):
        x = np.array(space.neutral)
        x[:space.nx - half][flat] = rng.normal(size=int(flat.sum()))
        x[space.nx - half:] = rng.normal(size=half)
        p = np.array(system.parameter_values)
        rate = np.asarray(system.rate(0.0, x, rng.normal(size=system.nu), p)).ravel()
        wrong = [i for i in range(half) if rate[i] != x[space.nx - half + i]]
        if wrong:
            raise ProblemError(
                f"the semi-implicit Euler step needs the rate of {space.tangent_names[wrong[0]]!r} to be "
                f"{space.names[space.nx - half + wrong[0]]!r} itself (state (q, v)); use another integrator",
                where=where)


def cf4(system: System, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> Step:
    """The commutator-free method of order 4 with five exponentials: Celledoni, Marthinsen, Owren 2003, "Commutator-free Lie
    group methods", section 3. On a flat space it is the classical Runge-Kutta method."""
    plus, middle, end = system.space.plus, t + h / 2, t + h
    k1 = h * system.rate(t, x, u, p)
    x2 = plus(x, k1 / 2)
    k2 = h * system.rate(middle, x2, u, p)
    x3 = plus(x, k2 / 2)
    k3 = h * system.rate(middle, x3, u, p)
    x4 = plus(x2, k3 - k1 / 2)
    k4 = h * system.rate(end, x4, u, p)
    both = (k2 + k3) / 6
    after = plus(plus(x, k1 / 4 + both - k4 / 12), both - k1 / 12 + k4 / 4)
    return after, ((1 / 6, t, x), (1 / 3, middle, x2), (1 / 3, middle, x3), (1 / 6, end, x4))


def rkmk4(system: System, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> Step:
    """The Runge-Kutta-Munthe-Kaas method of order 4: the classical tableau applied to ``s' = dexp_s^-1 xi(x exp(s))`` in the Lie
    algebra (Munthe-Kaas 1999, "High order Runge-Kutta methods on manifolds"). One exponential a stage, one at the end."""
    plus, middle, end = system.space.plus, t + h / 2, t + h
    ad = _bracket(system.space)

    def pulled(s: Expr, k: Expr) -> Expr:
        # dexp^-1 in body axes; the next term of the series, of order |s|^4, is beyond the order of the method
        first = ad(x, s, k)
        return k + first / 2 + ad(x, s, first) / 12

    k1 = h * system.rate(t, x, u, p)
    x2 = plus(x, k1 / 2)
    k2 = pulled(k1 / 2, h * system.rate(middle, x2, u, p))
    x3 = plus(x, k2 / 2)
    k3 = pulled(k2 / 2, h * system.rate(middle, x3, u, p))
    x4 = plus(x, k3)
    k4 = pulled(k3, h * system.rate(end, x4, u, p))
    after = plus(x, (k1 + 2 * k2 + 2 * k3 + k4) / 6)
    return after, ((1 / 6, t, x), (1 / 3, middle, x2), (1 / 3, middle, x3), (1 / 6, end, x4))


def _bracket(space: Space) -> ca.Function:
    """(x, a, b) -> [a, b], the bracket of the tangent space as a Lie algebra; the same at every x.

    The fields ``N(x) a`` are those that the group keeps as they are, and the bracket of two of them as fields is the field of
    the bracket (Marsden, Ratiu, Introduction to Mechanics and Symmetry, section 9.1).
    """
    x, a, b = ca.SX.sym("x", space.nx), ca.SX.sym("a", space.ndx), ca.SX.sym("b", space.ndx)
    along_a, along_b = ca.mtimes(space.rate(x), a), ca.mtimes(space.rate(x), b)
    change = ca.jtimes(along_b, x, along_a) - ca.jtimes(along_a, x, along_b)
    return ca.Function("bracket", [x, a, b], [ca.cse(ca.densify(ca.mtimes(space.rate_inverse(x), change)))])
