"""Linearly implicit steps of robots (``dynamics.redmax.implicit``): one linear solve with stiffness and damping of the forces.

Of first order, stable with stiff springs and dampers where explicit steps are not, and without an iteration that could fail.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca

from dynamics.errors import ModelError
from dynamics.redmax.implicit import linearly_implicit
from ocp.errors import ProblemError
from ocp.problem import System

NAME = "linearly_implicit"


def step_of(system: System, integrands: Sequence[ca.Function] = ()) -> ca.Function:
    """(t, x, u, p, h) -> next state, rises of integrals by their value at the end. Raises ProblemError for systems that are no
    robots in flat coordinates, or have constraints."""
    if system.mechanism is None:
        raise ProblemError(f"integrator {NAME!r} is for robots, by their mechanism", where=f"system {system.name!r}")
    try:
        step = linearly_implicit(system.mechanism)
    except ModelError as error:
        raise ProblemError(f"integrator {NAME!r}: {error}", where=f"system {system.name!r}") from None
    t, x, u, p, h = (ca.MX.sym(name, size) for name, size in zip("txuph", (1, system.nx, system.nu, system.np, 1), strict=True))
    n = system.nx // 2
    after = ca.vertcat(*step(x[:n], x[n:], u, h))
    rises = [h * f(t + h, after, u, p) for f in integrands]
    return ca.Function("linearly_implicit_step", [t, x, u, p, h], [ca.densify(after), ca.densify(ca.vertcat(ca.MX(0, 1), *rises))])
