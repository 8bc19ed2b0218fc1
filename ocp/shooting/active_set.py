"""Which constraints a Newton step holds, and how: bounds and rows as they are, cones by the derivative of the projection.

For an inequality ``c <= 0`` with multiplier w the conditions are ``w = max(0, w + c)``: the semismooth Newton step holds the
constraint (``c + C z = 0``) where w + c > 0 and drops it (w = 0) elsewhere. That is the primal-dual active-set strategy
(Hintermueller, Ito, Kunisch 2002); repeated on one quadratic model, rows of wrong sign leave and violated rows enter.

A cone has the same form, ``l = P(l - c)`` with l = -w and P the projection. Its derivative D at v = l - c has the orthonormal
eigenvectors (1, e)/sqrt 2, (1, -e)/sqrt 2 and (0, orthogonal to e), e = v[1:]/|v[1:]|, with eigenvalues 1, 0 and
``d = (1 + v[0]/|v[1:]|)/2`` where v lies neither in the cone nor opposite to it, else all 1 or all 0. Linearised in that basis,
``d (c + C z) - (1 - d) w = ...`` is enforced where d = 1, dropped where d = 0, and softened by (1 - d)/d in between, which at a
solution is c[0] / |w|: the curvature of the cone. Unlike the smooth form ``|c[1:]| - c[0] = 0`` it stays regular at the
apex, where that form has no derivative and the multiplier is no longer along its gradient; the system stays symmetric, and because
the projection is strongly semismooth (Chen, Sun, Sun 2003) Newton's method keeps its quadratic convergence.

Active constraints may contradict one another where a state cannot be moved at several knots in turn. Each therefore carries a small
proximal term about a centre, ``c + C z = PROXIMAL (w - centre)``, and the centre follows once the set has settled: the proximal
method of multipliers (Rockafellar 1976), whose fixed points satisfy the constraints exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ocp.shooting.kkt import ActiveConstraints, Array, Indices, Knot, Multipliers, lagrangian_gradients, project_cone
from ocp.shooting.stages.rows import BELOW, CONE, EQUAL, IN_CONE

FREE, SURFACE, APEX = 0, 1, 2
"""Cases of a cone: the constraint is not felt; its surface is; all of it vanishes."""

ENTER = 1e-12
"""A row that a step would violate by more than this, relative to ``1 + |c|``, is active."""

PROXIMAL = 1e-6
"""Softness of an active constraint beside that which the constraint has anyway, relative to the square of its derivative over the
Hessian."""

PATIENCE = 3
"""Exchanges of all constraints that are wrong which may pass without leaving fewer of them wrong."""


class ActiveSet:
    """The active set of every knot. ``held`` is what the system needs; ``exchange`` changes the set after a solve of it.
    proximal: softness of active constraints, 0 to hold them exactly."""

    def __init__(self, knots: Sequence[Knot], multipliers: Multipliers, proximal: float = PROXIMAL):
        self.knots, self.proximal = knots, proximal
        self.side: list[NDArray[np.int8]] = []
        self.on: list[Indices] = []
        # cones are linearised where they last changed their case
        self.base = [(knot.c.copy(), w.copy()) for knot, w in zip(knots, multipliers.rows, strict=True)]
        for knot, gradient, w in zip(knots, lagrangian_gradients(knots, multipliers), multipliers.rows, strict=True):
            push = gradient[knot.n:]
            low = (push - (knot.u - knot.lower) > 0) | (knot.lower == knot.upper)
            self.side.append(np.where(low, -1, np.where(-push - (knot.upper - knot.u) > 0, 1, 0)).astype(np.int8))
            on = np.zeros(len(knot.c), dtype=np.int64)
            if not len(on):
                self.on.append(on)
                continue
            on[(knot.kind == EQUAL) | ((knot.kind == BELOW) & (w + knot.c > 0))] = 1
            for part in knot.cones():
                on[part] = cone_case(-w[part] - knot.c[part])
            self.on.append(on)
        self._least, self._patience = 1 << 60, PATIENCE
        self.centre = list(multipliers.rows)
        self._near = [np.zeros(0) for _ in knots]
        self.conditions = [self._hold(k) for k in range(len(knots))]

    @property
    def count(self) -> int:
        """Active constraints and bounds."""
        return sum(len(have.b) + int(np.count_nonzero(side)) for have, side in zip(self.conditions, self.side, strict=True))

    def key(self) -> bytes:
        """Equal for equal sets."""
        return b"".join([side.tobytes() + on.tobytes() for side, on in zip(self.side, self.on, strict=True)])

    def exchange(self, steps: Sequence[Array], multipliers: Multipliers) -> int:
        """Change the set by what a solve with it gave: steps z [n+m] and new multipliers. Returns how many constraints were wrong.

        All that are wrong change at once, until that has failed to reduce their number three times; then one at a time, the
        last first, until their number has fallen below the least so far (block principal pivoting; Judice, Pires 1994).
        """
        leave = 1e-12 * max(1.0, max((float(np.max(np.abs(w), initial=0.0)) for w in multipliers.rows), default=0.0))
        wanted = [(self._sides(k, steps[k], multipliers), self._cases(k, knot.c + knot.C @ steps[k], multipliers.rows[k], leave))
                  for k, knot in enumerate(self.knots)]
        first = [self.knots[k].kind != IN_CONE for k in range(len(self.knots))]  # a cone counts once
        wrong = [(np.flatnonzero(side != self.side[k]), np.flatnonzero((on != self.on[k]) & first[k]))
                 for k, (side, on) in enumerate(wanted)]
        count = sum(len(sides) + len(rows) for sides, rows in wrong)
        if count < self._least:
            self._least, self._patience = count, PATIENCE
        else:
            self._patience -= 1
        for k in range(len(self.knots) - 1, -1, -1):
            sides, rows = wrong[k]
            if not len(sides) and not len(rows):
                continue
            if self._patience < 0:
                sides, rows = (sides[-1:], rows[:0]) if len(sides) else (sides, rows[-1:])
            self.side[k][sides] = wanted[k][0][sides]
            for r in rows:
                part = slice(int(r), int(r + self.knots[k].size[r])) if self.knots[k].kind[r] == CONE else slice(int(r), int(r) + 1)
                self.on[k][part] = wanted[k][1][part]
                self.base[k][0][part] = (self.knots[k].c[part] + self.knots[k].C[part] @ steps[k])
                self.base[k][1][part] = multipliers.rows[k][part]
            self.conditions[k] = self._hold(k)
            if self._patience < 0:
                break
        return count

    def _sides(self, k: int, z: Array, multipliers: Multipliers) -> NDArray[np.int8]:
        knot, side = self.knots[k], self.side[k]
        if not len(side) or not (np.isfinite(knot.lower).any() or np.isfinite(knot.upper).any()):
            return side
        push = knot.g[knot.n:] + knot.H[knot.n:] @ z + knot.F[:, knot.n:].T @ multipliers.costate[k + 1]
        if len(knot.c):
            push = push + knot.C[:, knot.n:].T @ multipliers.rows[k]
        after = knot.u + z[knot.n:]
        room = ENTER * (1 + np.abs(knot.u))
        noise = 1e-13 * (1 + float(np.max(np.abs(push))))
        new = np.where((side == -1) & (push > -noise), -1, np.where((side == 1) & (push < noise), 1, 0))
        free = side == 0
        new[free & (after < knot.lower - room)] = -1
        new[free & (after > knot.upper + room)] = 1
        new[knot.lower == knot.upper] = -1
        return new.astype(np.int8)

    def _cases(self, k: int, c: Array, w: Array, leave: float) -> Indices:
        knot, on = self.knots[k], self.on[k]
        if not len(on):
            return on
        below = knot.kind == BELOW
        new = on.copy()
        new[below] = np.where(on[below] == 1, w[below] > -leave, c[below] > ENTER * (1 + np.abs(knot.c[below])))
        for part in knot.cones():
            l, here = -w[part], c[part]
            room = ENTER * (1 + float(np.max(np.abs(knot.c[part]))))
            case = cone_case(l - here)
            new[part] = FREE if on[part.start] == FREE and np.linalg.norm(here[1:]) <= here[0] + room else case
        return new

    def recentre(self, multipliers: Multipliers) -> float:
        """Put the centre of the proximal terms at these multipliers. Returns by how much constraints have been missed for their
        sake."""
        missed = 0.0
        for k, have in enumerate(self.conditions):
            if len(have.b):
                y, old = have.T.T @ multipliers.rows[k], have.T.T @ self.centre[k]
                missed = max(missed, float(np.max(np.abs(self._near[k] * (y - old)))))
                self.centre[k] = multipliers.rows[k]
                self.conditions[k] = replace(have, b=have.b + self._near[k] * (old - y))
        return missed

    def _hold(self, k: int) -> ActiveConstraints:
        knot, on, side = self.knots[k], self.on[k], self.side[k]
        r = len(knot.c)
        if not r:  # the common case, and Python's time counts here
            none = np.zeros(0)
            return ActiveConstraints(knot.C, none, none, np.zeros((0, 0)), none, none, side)
        flat = np.flatnonzero((knot.kind <= BELOW) & (on == 1))
        a = len(flat)
        T = np.zeros((r, a))
        T[flat, np.arange(a)] = 1.0
        R, share, b, rest = knot.C[flat], np.ones(a), -knot.c[flat], np.zeros(r)
        for part in knot.cones():
            c, w = self.base[k][0][part], self.base[k][1][part]
            basis, d = cone_derivative(-w - c, int(on[part.start]))
            away = cone_residual(c, w, int(on[part.start]))
            kept = d > 1e-12
            E, dropped = basis[:, kept], basis[:, ~kept]
            # d (c + C (z - z0)) - (1 - d) (w' - w) = -away, c at the base z0, in the basis of eigenvectors
            b = np.concatenate([b, -(E.T @ away + (1 - d[kept]) * (E.T @ w)) / d[kept] + E.T @ (c - knot.c[part])])
            R, share = np.vstack([R, E.T @ knot.C[part]]), np.concatenate([share, d[kept]])
            T = np.hstack([T, np.zeros((r, E.shape[1]))])
            T[part, T.shape[1] - E.shape[1]:] = E
            rest[part] = dropped @ (dropped.T @ (w + away))
        scale = float(np.max(np.abs(np.diagonal(knot.H)), initial=0.0)) or 1.0
        self._near[k] = self.proximal * np.max(np.abs(R), axis=1, initial=0.0) ** 2 / scale
        return ActiveConstraints(R.reshape(len(b), knot.n + knot.m), (1 - share) / share + self._near[k],
                    b - self._near[k] * (T.T @ self.centre[k]), T, rest, share, side)

    def miss(self, k: int, knot: Knot, w: Array) -> Array:
        """Residuals [a] of the active constraints of knot k at other values c and multipliers w, as the right-hand side of their
        constraints."""
        have, on, away = self.conditions[k], self.on[k], knot.c.copy()
        for part in knot.cones():
            away[part] = cone_residual(knot.c[part], w[part], int(on[part.start]))
        return -(have.T.T @ away) / have.share


def cone_residual(c: Array, w: Array, case: int) -> Array:
    """``l - P(l - c)``, l = -w, with P in the given case."""
    return -w - project_cone(-w - c) if case == SURFACE else (c if case == APEX else -w)


def cone_case(v: Array) -> int:
    """FREE, SURFACE or APEX for the point v that is projected."""
    norm = float(np.linalg.norm(v[1:]))
    if norm <= v[0]:
        return APEX
    return FREE if norm <= -v[0] else SURFACE


def cone_derivative(v: Array, case: int) -> tuple[Array, Array]:
    """Orthonormal eigenvectors, in columns, and eigenvalues of the derivative of the projection at v."""
    q = len(v)
    if case != SURFACE or q == 1:
        return np.eye(q), np.full(q, 0.0 if case == FREE else 1.0)
    norm = float(np.linalg.norm(v[1:]))
    e = v[1:] / norm
    # Householder: an orthonormal basis that begins with e
    u = e.copy()
    u[0] += 1.0 if e[0] >= 0 else -1.0
    reflection = np.eye(q - 1) - 2.0 / (u @ u) * np.outer(u, u)
    basis = np.zeros((q, q))
    basis[0, :2] = np.sqrt(0.5)
    basis[1:, 0], basis[1:, 1] = np.sqrt(0.5) * e, -np.sqrt(0.5) * e
    basis[1:, 2:] = reflection[:, 1:]
    return basis, np.concatenate([[1.0, 0.0], np.full(q - 2, 0.5 * (1.0 + v[0] / norm))])
