"""Absolute values and norms of controls in which a running cost is linear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.kernels.tape import codes, operation, replay
from ocp.problem import INF, At, Cost, Phase

#: stands before the names of the controls in a norm
NORM_OF = "norm of "


class Norm(NamedTuple):
    """``sqrt(u' Q u + offset)``; Q by matrix rows."""

    rows: tuple[tuple[float, ...], ...]
    offset: float

    def squared(self, u: Any) -> Any:
        """``u' Q u + offset`` of controls [nu]."""
        return sum((self.rows[i][j] * u[i] * u[j] for i in range(len(self.rows)) for j in range(len(self.rows)) if self.rows[i][j]),
                   self.offset)

    def name(self, controls: Sequence[str]) -> str:
        """The norm in terms of control names."""
        return NORM_OF + ", ".join(controls[i] for i, row in enumerate(self.rows) if any(row))


def weights_of_norms(cost: Cost) -> dict[int | Norm, float]:
    """Constant positive weights of the absolute values (by number of the control) and norms in which a running cost is linear."""
    if cost.at is not At.PATH or cost.weights is not None or not uses(cost.function, {ca.OP_FABS, ca.OP_SQRT}):
        return {}
    _, norms, value = opened(cost.function)
    gradients = [ca.simplify(ca.jacobian(value, symbol)) for symbol in norms.values()]
    return {norm: float(gradient) for norm, gradient in zip(norms, gradients, strict=True)
            if gradient.is_constant() and float(gradient) > 0}


def uses(function: ca.Function, wanted: set[int]) -> bool:
    """Whether a function has one of these operations and calls no other function."""
    if not function.is_a("SXFunction"):
        return False
    used = codes(function)
    return bool(used & wanted) and ca.OP_CALL not in used


class Opened(NamedTuple):
    """Arguments, symbols of absolute values by number of their control and of norms, and the value in both."""

    arguments: list[ca.SX]
    norms: dict[int | Norm, ca.SX]
    value: ca.SX


def opened(function: ca.Function) -> Opened:
    """(arguments, symbols of absolute values by number of their control and of norms, the value in both)."""
    arguments = function.sx_in()
    norms: dict[int | Norm, ca.SX] = {}
    controls = {symbol.element_hash(): j for j, symbol in enumerate(arguments[2].nonzeros())}

    def apply(code: int, operands: list[ca.SX]) -> ca.SX:
        norm: int | Norm | None = None
        if code == ca.OP_FABS and operands[0].is_symbolic():
            norm = controls.get(operands[0].element_hash())
        elif code == ca.OP_SQRT:
            norm = norm_in(arguments, operands[0])
        return operation(code, operands) if norm is None else norms.setdefault(norm, ca.SX.sym(f"norm_{len(norms)}"))

    (values,) = replay(function, lambda i, j: arguments[i].nz[j], ca.SX, apply)
    return Opened(arguments, norms, ca.SX(function.sparsity_out(0), ca.vertcat(*values)))


def norm_in(arguments: list[ca.SX], inside: ca.SX) -> Norm | None:
    """The norm whose square is ``inside``; None unless it is a positive semidefinite form of controls plus a number."""
    u = arguments[2]
    if not all(ca.depends_on(u, symbol) for symbol in ca.symvar(inside)):  # of states, say, or of other norms
        return None
    H, gradient = ca.hessian(inside, u)
    H = ca.simplify(H)
    if not H.is_constant():
        return None
    at_rest = ca.Function("at_rest", [u], [inside, gradient])(0)
    Q = 0.5 * np.array(ca.DM(H))
    if np.any(np.array(at_rest[1])) or float(at_rest[0]) < 0 or not Q.any() or np.linalg.eigvalsh(Q)[0] < 0:
        return None
    return Norm(tuple(map(tuple, Q.tolist())), float(at_rest[0]))


def magnitude(phase: Phase, norm: Norm) -> float:
    """The bound of the norm by a path constraint, else the largest bound of a control in it; 1 without one."""
    for c in phase.constraints:
        if c.at is At.PATH and uses(c.function, {ca.OP_SQ, ca.OP_MUL}):
            rows = ca.vertsplit(c.function(*(given := c.function.sx_in())))
            for value, upper in zip(rows, c.upper, strict=True):
                if 0 < upper < INF and (found := norm_in(given, value)) is not None and found.rows == norm.rows:
                    return float(np.sqrt(upper))
    used = [any(row) for row in norm.rows]
    return float(phase.control_bounds[used].magnitude.max(initial=0.0)) or 1.0
