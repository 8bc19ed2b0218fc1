"""Systems whose rates are implicit in their equations."""

from __future__ import annotations

from typing import Any

import casadi as ca

from ocp.errors import ProblemError
from ocp.problem.system import System
from ocp.spaces import Space


def implicit_system(name: str, space: Space, controls: tuple[str, ...], equations: ca.Function, algebraic: tuple[str, ...] = (),
                    **fields: Any) -> System:
    """The system ``F(t, x, xi, u, z, p) = 0`` with F [ndx + nz] rows: its tangent rates xi are algebraic unknowns ``der(...)``
    before z. fields: the others of ``System``. Raises ProblemError for other numbers of equations or arguments."""
    ndx, nz, nu = space.ndx, len(algebraic), len(controls)
    sizes = (1, space.nx, ndx, nu, nz, len(fields.get("parameters", ())))
    found = tuple(equations.numel_in(i) for i in range(equations.n_in()))
    if found != sizes:
        raise ProblemError(f"F(t, x, xi, u, z, p) has arguments of sizes {found}, expected {sizes}", where=f"system {name!r}")
    sym = ca.SX.sym if equations.is_a("SXFunction") else ca.MX.sym
    t, x, w, p = sym("t"), sym("x", space.nx), sym("u", nu + ndx + nz), sym("p", sizes[-1])
    xi, z = w[nu:nu + ndx], w[nu + ndx:]
    arguments, names = [t, x, w, p], list("txup")
    residual = ca.Function("residual", arguments, [ca.densify(equations(t, x, xi, w[:nu], z, p))], names, ["F"])
    return System(name, space, controls, ca.Function("rate", arguments, [xi], names, ["xi"]), residual=residual,
                  algebraic=(*(f"der({n})" for n in space.tangent_names), *algebraic), **fields)
