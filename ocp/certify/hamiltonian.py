"""The Hamiltonian of a phase along a motion, with the costates of the program.

    H(t, x, u, p) = L(t, x, u) + p . f(t, x, u) + nu . q(t, x, u)

with running costs and penalties L, rates f and, of constraints on integrals of q, the constant multipliers nu; p [ndx] or [nx], as
the method leaves them, stands on tangent rates or on rates of coordinates (direct adjoining: multipliers of path constraints are
not part of p; Hartl, Sethi and Vickson 1995, A survey of the maximum principles for optimal control problems with state
constraints, theorem 4.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from dynamics.kernels.tape import codes
from ocp.certify.motion import Motion
from ocp.certify.objective import running
from ocp.problem import At, Constraint, Cost, Solution

Array = np.ndarray


class Hamiltonian:
    """t [k] s: times of the costates p [k, ndx or nx]; nu: multipliers of the integral constraints."""

    def __init__(self, motion: Motion, t: Array, p: Array, nu: Array):
        self.motion, self.t, self.p, self.nu = motion, t, p, nu

    def costate(self, t: Array) -> Array:
        """[k, n], linear between the times at which it is known."""
        return np.column_stack([np.interp(t, self.t, own) for own in self.p.T])

    def charged(self, t: Array, x: Array, u: Array) -> Array:
        """L + nu . q [k]."""
        values = [self.motion.call(c.function, t, x, u) for c in integrals(self.motion)]
        return np.asarray(running(self.motion, t, x, u) + (np.hstack(values) @ self.nu if values else 0.0))

    def __call__(self, t: Array, x: Array, u: Array, p: Array | None = None) -> Array:
        """H [k] at times t [k], states x [k, nx], inputs u [k, nu]; p: costates there, where they are at hand."""
        rates = self.motion.call(self.motion.field, t, x, u)
        p = self.costate(t) if p is None else p
        if p.shape[1] != rates.shape[1]:
            rates = np.asarray(self.motion.tangent(x.T, rates.T)).T
        return np.asarray(self.charged(t, x, u) + np.sum(p * rates, axis=1))

    def worth(self, ends: Array) -> float:
        """The change of the objective, to first order, if segments end at these states [N, nx] instead of their knots."""
        t, x = self.motion.trajectory.t[1:], self.motion.trajectory.x[1:]
        p = self.costate(t)
        apart = ends - x if p.shape[1] == x.shape[1] else np.asarray(self.motion.minus(x.T, ends.T)).T
        return float(np.sum(p * apart))

    def nonlinear_inputs(self) -> tuple[int, ...]:
        """Inputs on which H or a path constraint does not depend affinely."""
        phase = self.motion.phase
        squared = [c.function for c in phase.costs if c.at is At.PATH and c.weights is not None]
        squared += [c.function for c in phase.constraints if c.at is At.PATH and c.soft is not None]
        items: tuple[Cost | Constraint, ...] = (*phase.costs, *phase.constraints)
        others = [phase.system.rate, *(c.function for c in items if c.at in (At.PATH, At.INTEGRAL))]
        found = np.zeros(phase.system.nu, dtype=bool)
        for function in squared:
            found |= depends(function, order=1)
        for function in others:
            found |= depends(function)
        return tuple(np.flatnonzero(found).tolist())


def depends(function: ca.Function, order: int = 2) -> Array:
    """Which inputs [nu] a function of (t, x, u, p) depends on; of order 2, more than affinely."""
    kind = ca.SX if function.is_a("SXFunction") else ca.MX
    t, x, u, p = (kind.sym(name, function.size1_in(i)) for i, name in enumerate("txup"))
    if not u.numel():
        return np.zeros(0, dtype=bool)
    value = function(t, x, u, p)
    first = np.asarray(ca.which_depends(value, u, 1, False), dtype=bool)
    if order == 1 or not first.any():
        return first
    return np.asarray(ca.which_depends(value, u, 2, False), dtype=bool) | (first & kinked(function))


def kinked(function: ca.Function) -> bool:
    """Whether a function has comparisons or kinks, so that second derivatives do not show whether it is affine."""
    kinks = {ca.OP_FABS, ca.OP_SIGN, ca.OP_FMIN, ca.OP_FMAX, ca.OP_LT, ca.OP_LE, ca.OP_EQ, ca.OP_NE, ca.OP_IF_ELSE_ZERO,
             ca.OP_FLOOR, ca.OP_CEIL}
    return function.is_a("SXFunction") and bool(codes(function) & kinks)


def hamiltonians(solution: Solution, motions: Sequence[Motion]) -> list[Hamiltonian | None]:
    """Of all phases; None where the method left no costates, time is discrete, or unknowns are determined by equations."""
    def left(name: str, motion: Motion) -> Array | None:
        return solution.extra.get(f"{motion.phase.name}.{name}" if len(motions) > 1 else name)

    return [_of_phase(motion, left("costate", motion), left("integral_multipliers", motion)) for motion in motions]


def integrals(motion: Motion) -> list[Constraint]:
    """The integral constraints of the phase of a motion."""
    return [c for c in motion.phase.constraints if c.at is At.INTEGRAL]


def _of_phase(motion: Motion, p: Array | None, nu: Array | None) -> Hamiltonian | None:
    t = motion.trajectory.t_u if motion.trajectory.t_path is None else motion.trajectory.t_path
    if p is not None and len(motion.trajectory.t) == len(t) + 1:  # zero-order hold sees the mean costate of an interval
        p = np.vstack([2 * p[:1] - p[1:2], p]) if len(p) == len(t) > 1 else p
        p = (p[1:] + p[:-1]) / 2
    space = motion.phase.system.space
    if p is not None and p.shape[1] > space.nx:  # of constants that shooting carries along as states: they have no rates
        p = p[:, :space.ndx]
    if motion.stepped or p is None or len(p) != len(t) or p.shape[1] not in (space.nx, space.ndx) or not motion.finite:
        return None
    nu = np.zeros(0) if nu is None else np.asarray(nu, dtype=float)
    if len(nu) != sum(c.size for c in integrals(motion)):
        return None
    return Hamiltonian(motion, np.asarray(t, dtype=float), np.asarray(p, dtype=float), nu)
