"""Rates of a system with algebraic unknowns, computed by the certificate: the equations are solved at every evaluation point.
Newton's method in NumPy, many points at once, from the unknowns of the motion; derivatives by the implicit-function theorem. If the
unknowns are a robot's accelerations and constraint forces, they come from its forward dynamics in machine code, which is
independent of the equations that the method has solved.

"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.derivatives.constrained import dependent
from dynamics.kernels import operations
from dynamics.mechanism.constrained import reduced
from ocp.interrupts import Activity, check
from ocp.problem import System
from ocp.reductions.algebraic_elimination import forward_dynamics
from ocp.thresholds import QUADRATURE, ROUNDING

Array = np.ndarray
#: (function of (t, x, u, p), t [k], x [k, nx], u [k, nu]) -> [k, n]
Call = Callable[[ca.Function, Array, Array, Array], Array]


class Graphs(NamedTuple):
    """Symbols (t, x, u, p), dx/dt, and the equations of these."""

    symbols: list[Any]
    rate: Any
    equations: Any


class Consistent:
    """dx/dt [k, nx] of a system with algebraic unknowns at arbitrary states, z solved for; and its derivative with respect to x."""

    def __init__(self, system: System, call: Call | None = None):
        """call: evaluates functions at many points; None: one after the other."""
        self.system, self.call, self.first = system, call, len(system.controls)

    @cached_property
    def closed(self) -> ca.Function | None:
        """The unknowns in closed form, where they are a robot's; redundant equations are regularised, and have none."""
        robot = self.system.implicit
        soft = robot is not None and robot.constraints and dependent(robot.model, reduced(robot.constraints))
        return None if soft else forward_dynamics(self.system)

    @cached_property
    def rate(self) -> ca.Function:
        """dx/dt."""
        arguments, field, _ = self._graphs
        return ca.Function("rate", arguments, [ca.densify(field)])

    @cached_property
    def _graphs(self) -> Graphs:
        """Symbols (t, x, u, p), dx/dt and the equations of these."""
        system = self.system
        sym = ca.SX.sym if system.residual.is_a("SXFunction") and system.rate.is_a("SXFunction") else ca.MX.sym
        t, x, w, p = arguments = [sym(n, size) for n, size in zip("txup", (1, system.nx, system.nu, system.np), strict=True)]
        return Graphs(arguments, ca.mtimes(system.space.rate(x), system.rate(t, x, w, p)), ca.densify(system.residual(t, x, w, p)))

    @cached_property
    def equations(self) -> ca.Function:
        """The equations, and their derivative with respect to the unknowns."""
        arguments, _, F = self._graphs
        return ca.Function("equations", arguments, [F, ca.densify(ca.jacobian(F, arguments[2])[:, self.first:])])

    @cached_property
    def gradients(self) -> ca.Function:
        """Derivatives of dx/dt with respect to x and the unknowns, and of the equations."""
        arguments, field, F = self._graphs
        _, x, w, _ = arguments
        return ca.Function("slopes", arguments, [ca.densify(part) for part in (
            ca.jacobian(field, x), ca.jacobian(field, w)[:, self.first:], ca.jacobian(F, x), ca.jacobian(F, w)[:, self.first:])])

    def solved(self, t: Array, x: Array, w: Array, p: Array) -> Array:
        """Inputs [k, nu] whose unknowns solve the equations, from those of w; NaN where Newton's method does not converge."""
        w, k = w.copy(), len(t)
        if self.closed is not None:
            w[:, self.first:] = self._at(self.closed, t, x, w, p)
            return w
        last = np.full(k, np.inf)
        for _ in range(QUADRATURE.newton_steps):
            F, J = evaluated(self.equations, t, x, w, p)
            step = _solve(_blocks(J, k), -F.T[:, :, None])[:, :, 0]
            w[:, self.first:] += step
            size = np.max(np.abs(step), axis=1, initial=0.0) / (1.0 + np.max(np.abs(w[:, self.first:]), axis=1, initial=0.0))
            stuck = size >= 0.5 * last  # rounding is all that is left
            last = np.minimum(size, last)
            if np.all((size <= ROUNDING.rounding) | ~np.isfinite(size) | (stuck & (size <= QUADRATURE.newton_step))):
                break
        w[~(size <= QUADRATURE.newton_step), self.first:] = np.nan
        return w

    def field(self, t: Array, x: Array, w: Array, p: Array) -> Array:
        """dx/dt [k, nx]; t [k], x [k, nx], w [k, nu]: controls, and unknowns to begin with; p [np, k]."""
        return self._at(self.rate, t, x, self.solved(t, x, w, p), p)

    def _at(self, function: ca.Function, t: Array, x: Array, w: Array, p: Array) -> Array:
        return evaluated(function, t, x, w, p)[0].T if self.call is None else self.call(function, t, x, w)

    def jacobian(self, t: Array, x: Array, w: Array, p: Array) -> Array:
        """d(dx/dt)/dx [k, nx, nx]: ``f_x - f_z F_z^-1 F_x``."""
        parts = evaluated(self.gradients, t, x, self.solved(t, x, w, p), p)
        f_x, f_z, F_x, F_z = (_blocks(part, len(t)) for part in parts)
        return np.asarray(f_x - f_z @ _solve(F_z, F_x))


def in_pieces(function: ca.Function, count: int) -> Iterator[slice]:
    """The points in batches, each small enough for one call."""
    length = int(np.clip(QUADRATURE.max_batch_operations / max(1, operations(function)), 1, QUADRATURE.max_batch))
    for i in range(0, max(1, count), length):
        check(Activity.EVALUATION)
        yield slice(i, i + length)


def evaluated(function: ca.Function, t: Array, x: Array, w: Array, p: Array) -> list[Array]:
    """The outputs of a function at points t [k], x [k, nx], w [k, nu], p [np, k], side by side."""
    pieces = [[np.asarray(part) for part in function.call([t[None, here], x[here].T, w[here].T, p[:, here]])]
              for here in in_pieces(function, len(t))]
    return [np.concatenate(parts, axis=1) for parts in zip(*pieces, strict=True)]


def _blocks(stacked: Array, k: int) -> Array:
    """Matrices [k, m, n] from a horizontal stack."""
    return stacked.reshape(stacked.shape[0], k, -1).transpose(1, 0, 2)


def _solve(A: Array, b: Array) -> Array:
    """``A^-1 b`` of each; NaN where one is singular or not finite."""
    good = np.isfinite(A).all(axis=(1, 2))
    found = np.full(b.shape, np.nan)
    try:
        found[good] = np.linalg.solve(A[good], b[good])
    except np.linalg.LinAlgError:
        for i in np.flatnonzero(good):
            if np.linalg.matrix_rank(A[i]) == len(A[i]):
                found[i] = np.linalg.solve(A[i], b[i])
    return found
