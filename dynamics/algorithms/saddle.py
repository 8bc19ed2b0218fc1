"""The linear system of everything that is constrained: accelerations and forces, velocities and impulses, and their derivatives.

    M x - J' y = f        J x = c

M is symmetric positive definite, rows of J may depend on each other: ``(J M^-1 J' + eps) y = c - J M^-1 f`` is refined, so that eps
leaves nothing behind where rows are independent, and y is the smallest one where they are not (the proximal-point iteration of
Rockafellar 1976). x is unique as long as the rows do not contradict each other.
"""

from __future__ import annotations

from typing import Any

import casadi as ca

from dynamics.algorithms.forward_dynamics import solve_mass
from dynamics.lie.expression import Expr

EPSILON = 1e-8
"""What is added to the diagonal of ``J M^-1 J'``, relative to its mean."""


class Saddle:
    """M [n, n] and J [m, n], SX, MX or DM; what does not depend on right-hand sides is computed once."""

    def __init__(self, M: Expr, J: Expr, refinements: int = 2) -> None:
        self.M, self.J, self._refinements = M, J, refinements
        self._across = solve_mass(M, ca.densify(J.T))
        self._schur = ca.densify(J @ self._across)
        count = J.shape[0]
        self._solve = _symmetric(self._schur + EPSILON * ca.trace(self._schur) / count * ca.DM.eye(count))

    def solve(self, f: Expr, c: Expr) -> tuple[Expr, Expr]:
        """x [n, k] and y [m, k]; f: [n, k]; c: [m, k]."""
        free = solve_mass(self.M, ca.densify(f))
        b = ca.densify(c - self.J @ free)
        y = self._solve(b)
        for _ in range(self._refinements):
            y = y + self._solve(b - self._schur @ y)
        return free + self._across @ y, y

    def inverse(self) -> tuple[Expr, Expr, Expr]:
        """P [n, n], G [m, n] and H [m, m] of ``x = P f + G' c`` and ``y = H c - G f``: for right-hand sides that are many, or
        sparse."""
        n, m = self.J.shape[1], self.J.shape[0]
        free, one = solve_mass(self.M, ca.DM.eye(n)), ca.DM.eye(m)
        H = self._solve(one)
        for _ in range(self._refinements):
            H = H + self._solve(one - self._schur @ H)
        G = H @ self._across.T
        return free - self._across @ G, G, H


def _symmetric(A: Expr) -> Any:
    """b -> A^-1 b of a symmetric positive definite matrix."""
    if isinstance(A, ca.MX):
        return lambda b: ca.solve(A, b)
    D, LT, p = ca.ldl(A)
    return lambda b: ca.ldl_solve(b, D, LT, p)
