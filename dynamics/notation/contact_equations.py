"""Equations of motion with contact forces and impulses, in the form of the Kindr cheat sheet: directions W, no contact law.

    smooth             M du/dt - h = W lambda
    over a step        M du - h dt = W P,  P = lambda dt + Lambda   (Moreau's time stepping)
    at an impact       M (u+ - u-) = W Lambda

M [n, n] mass matrix, h [n] what pushes (applied minus gyroscopic forces), W [n, m] generalised force directions, the transpose
of a contact Jacobian; lambda [m] (N) contact forces, Lambda [m] (N s) impulses, P [m] (N s) percussions. Any velocity, as long
as all quantities are of the same one.
"""

from __future__ import annotations

import casadi as ca

from dynamics.algorithms import tree
from dynamics.lie.expression import Expr


def solve_acceleration(M: Expr, h: Expr, W: Expr, contact_force: Expr) -> Expr:
    """``du/dt`` [n] of the smooth equation."""
    return ca.solve(M, tree.as_column(h) + W @ tree.as_column(contact_force))


def percussion(contact_force: Expr, dt: Expr, impulse: Expr) -> Expr:
    """``P = lambda dt + Lambda`` [m]: what the contacts give over a step, the impulses of its impacts included."""
    return tree.as_column(contact_force) * dt + tree.as_column(impulse)


def velocity_step(M: Expr, h: Expr, W: Expr, percussions: Expr, dt: Expr) -> Expr:
    """``Delta u = M^-1 (h dt + W P)`` [n] over a step of dt (s)."""
    return ca.solve(M, tree.as_column(h) * dt + W @ tree.as_column(percussions))


def momentum_residual(M: Expr, h: Expr, W: Expr, velocity_change: Expr, percussions: Expr, dt: Expr) -> Expr:
    """``M Delta u - h dt - W P`` [n]: zero when the step balances; with dt = 0 the impact equation."""
    return M @ tree.as_column(velocity_change) - tree.as_column(h) * dt - W @ tree.as_column(percussions)


def impact(M: Expr, W: Expr, impulse: Expr, u_before: Expr) -> Expr:
    """``u+ = u- + M^-1 W Lambda`` [n]."""
    return tree.as_column(u_before) + ca.solve(M, W @ tree.as_column(impulse))


def delassus(M: Expr, W: Expr) -> Expr:
    """``G = W^T M^-1 W`` [m, m]: contact velocity per contact impulse."""
    return W.T @ ca.solve(M, W)


def stopping_impulse(M: Expr, W: Expr, u_before: Expr, restitution: float = 0.0) -> Expr:
    """``Lambda = -(1 + e) G^-1 W^T u-`` [m]: perfectly inelastic for e = 0 (``W^T u+ = 0``), elastic for e = 1.

    Every direction of W is taken as closing; W needs independent columns (repeated contacts make G singular).
    """
    return -(1.0 + restitution) * ca.solve(delassus(M, W), W.T @ tree.as_column(u_before))


def impact_energy(M: Expr, W: Expr, impulse: Expr, u_before: Expr) -> Expr:
    """Change of kinetic energy (J) at an impact: ``Lambda^T W^T (u- + u+) / 2``; negative where energy is lost."""
    u_after = impact(M, W, impulse, u_before)
    return ca.dot(tree.as_column(impulse), W.T @ (tree.as_column(u_before) + u_after)) / 2
