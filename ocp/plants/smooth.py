"""The smooth motion between two events of a hybrid simulation: every point is open, sticks or slips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dynamics.constraints.friction_cone import EXACT, Cone
from ocp.plants.coulomb import coulomb
from ocp.plants.touching import Terms, Touching

Array = NDArray[np.float64]
OPEN, STICK, SLIP = 0, 1, 2
FOLLOWED = 0.2  # of a slip's direction that one step may turn
STILL = 1e-12  # m/s; slower, the direction of a slip is the one it had
_RANK = 1e-10  # share of the largest singular value below which equations repeat each other
MADE = 1e-6  # share of the energy at hand that friction gives at most within a step; it takes no more than all of it


@dataclass(frozen=True, eq=False)
class Modes:
    """By point: mode [n]; slip [n, 2], direction of its velocity in the plane; anchor [n, 2] (m), where it sticks. frozen: the
    directions stay for a step, because they turn too fast to be followed."""

    mode: NDArray[np.int8]
    slip: Array
    anchor: Array
    frozen: bool = False


@dataclass(eq=False)
class Rows:
    """Equations of the closed points, three of one that sticks, one (the normal) of one that slips: ``at`` by point; what their
    accelerations are without a; G [rows, rows]."""

    at: dict[int, slice]
    drift: Array = field(default_factory=lambda: np.zeros(0))
    G: Array = field(default_factory=lambda: np.zeros((0, 0)))

    @staticmethod
    def of(mode: NDArray[np.int8]) -> Rows:
        """Equations of every closed contact: three where it sticks, one where it slips."""
        found, start = {}, 0
        for k in np.flatnonzero(mode != OPEN):
            count = 3 if mode[k] == STICK else 1
            found[int(k)] = slice(start, start + count)
            start += count
        return Rows(found)


@dataclass(frozen=True, eq=False)
class Motion:
    """A state (q, v) with its terms, acceleration a, forces [n, 3] by point (N, axes of the planes: tangents, normal), a_free and W
    (``a = a_free + W J' lambda``), and the work (J) since the step began."""

    q: Array
    v: Array
    terms: Terms
    a: Array
    force: Array
    a_free: Array
    W: Array
    modes: Modes
    power: dict[str, float]
    work: dict[str, float] = field(default_factory=dict)


def possible(start: Motion, end: Motion) -> bool:
    """Whether friction makes no energy in a step and takes no more than there is: of the motion, of what drives it, of its fall."""
    moving = [0.5 * float(m.v @ m.terms.M @ m.v) for m in (start, end)]
    fall = (start.terms.energy - moving[0]) - (end.terms.energy - moving[1])
    room = 1.0 + moving[0] + sum(abs(work) for name, work in end.work.items() if name != "friction") + abs(fall)
    return not (end.work["friction"] < -room or end.work["friction"] > MADE * room)  # NaN is reported elsewhere


class Smooth:
    """Accelerations and steps under given modes. friction [n]; rate [1/s]: of Baumgarte's stabilisation, 0: none; pushing: forces
    [3 k] (N) that act now."""

    def __init__(self, touching: Touching, friction: Array, rate: float, pushing: Callable[[], Array], cone: Cone = EXACT) -> None:
        self.touching, self.friction, self.rate, self.pushing, self.cone = touching, friction, rate, pushing, cone
        model = touching.mechanism.model
        self._unit = [slice(qs.start + kind.quaternion.start, qs.start + kind.quaternion.stop)
                      for kind, qs, _ in model.factors if kind.quaternion is not None]
        self._S = np.array(touching.mechanism.selection.full() if touching.mechanism.motors else np.zeros((model.nv, 0)))
        self._known: Motion | None = None
        self._at: tuple[Array, Array, Array, Terms] | None = None

    def remember(self, motion: Motion | None) -> None:
        """What is known of the state that follows; None: nothing."""
        self._known = motion

    def terms(self, q: Array, v: Array, u: Array) -> Terms:
        """The kernel's terms, those of the last state anew only where it differs."""
        if self._at is None or self._at[0] is not q or self._at[1] is not v or self._at[2] is not u:
            self._at = q, v, u, self.touching.terms(q, v, u)
        return self._at[3]

    def motion(self, q: Array, v: Array, u: Array, modes: Modes) -> Motion:
        """Acceleration and forces at a state."""
        known = self._known
        if known is None or known.q is not q or known.v is not v or known.modes is not modes:
            known = self._known = self._motion(q, v, self.terms(q, v, u), u, modes)
        return known

    def integrate(self, q: Array, v: Array, u: Array, modes: Modes, start: Motion, h: float) -> Motion:
        """The state after h (s) under these modes, by the classical Runge-Kutta method in the coordinates."""
        nodes, at = [start], start
        for share in (0.5, 0.5, 1.0):
            x, w = self._normal(q + share * h * at.terms.rate), v + share * h * at.a
            at = self._motion(x, w, self.touching.terms(x, w, u), u, modes)
            nodes.append(at)
        weights = np.array([1.0, 2.0, 2.0, 1.0]) * h / 6
        x = self._normal(q + sum(w * n.terms.rate for w, n in zip(weights, nodes, strict=True)))
        w = v + sum(w * n.a for w, n in zip(weights, nodes, strict=True))
        work = {key: float(sum(weight * n.power[key] for weight, n in zip(weights, nodes, strict=True))) for key in start.power}
        terms = self.touching.terms(x, w, u)
        self._at = x, w, u, terms
        end = self._motion(x, w, terms, u, modes)
        turned = Modes(modes.mode, self._directions(terms, w, Modes(modes.mode, modes.slip, modes.anchor)), modes.anchor)
        return Motion(x, w, terms, end.a, end.force, end.a_free, end.W, turned, end.power, work)

    def followed(self, motion: Motion, h: float) -> Modes:
        """The modes for a step of h: where friction would turn a slip faster than steps can follow, all directions are those of the
        velocities at its end, by Coulomb's law for the step as a whole, and frozen."""
        modes, terms = motion.modes, motion.terms
        slips = np.flatnonzero(modes.mode == SLIP)
        if not slips.size:
            return modes
        J = terms.J.reshape(-1, 3, terms.M.shape[0])
        speed = np.hypot(*(J[slips, :2] @ motion.v).T)
        turning = [float(np.linalg.norm(motion.force[k, :2])) * float(np.trace(J[k, :2] @ motion.W @ J[k, :2].T)) for k in slips]
        if (h * np.array(turning) <= FOLLOWED * speed).all():
            return modes
        closed = np.flatnonzero(modes.mode != OPEN)
        rows = J[closed].reshape(-1, J.shape[2])
        drift = terms.drift.reshape(-1, 3)[closed].ravel()
        law = coulomb(rows @ motion.W @ rows.T, rows @ (motion.v + h * motion.a_free) + h * drift, self.friction[closed].tolist(),
                      self.cone)
        slip = modes.slip.copy()
        for at, k in enumerate(closed):
            u, x = law.u[3 * at:3 * at + 2], law.x[3 * at:3 * at + 2]
            towards = u if np.hypot(u[0], u[1]) > 1e-9 else -x
            if modes.mode[k] == SLIP and towards.any() and law.holds:
                slip[k] = towards / np.hypot(towards[0], towards[1])
        return Modes(modes.mode, slip, modes.anchor, frozen=True)

    def free(self, terms: Terms, v: Array) -> tuple[Array, Array]:
        """(a_free [nv], W [nv, nv]): the acceleration is ``a_free + W J' lambda``, closed loops included in both."""
        M_inv = np.asarray(np.linalg.inv(terms.M), float)
        f = terms.f + terms.J_p.T @ self.pushing() if terms.J_p.size else terms.f
        if not terms.J_b.size:
            return M_inv @ f, M_inv
        J = terms.J_b
        across = M_inv @ J.T
        reach = across @ np.linalg.pinv(J @ across, rcond=_RANK, hermitian=True)
        W = M_inv - reach @ across.T
        return W @ f - reach @ (terms.drift_b + 2 * self.rate * (J @ v) + self.rate**2 * terms.g), W

    def rows(self, terms: Terms, modes: Modes, rows: Rows, closed: NDArray[np.bool_]) -> tuple[Array, Array]:
        """(R, B) [rows, nv] of the closed points: accelerations R a, and forces B' x with the friction of what slips in them."""
        J = terms.J.reshape(-1, 3, terms.M.shape[0])
        R, B = [np.zeros((0, J.shape[2]))], [np.zeros((0, J.shape[2]))]
        for k in rows.at:
            if modes.mode[k] == STICK:
                R.append(J[k])
                B.append(J[k])
            else:
                R.append(J[k, 2:])
                B.append(J[k, 2:] - self.friction[k] * (self.cone.against(modes.slip[k]) @ J[k, :2])[None, :])
        return np.concatenate(R), np.concatenate(B)

    def demanded(self, terms: Terms, v: Array, modes: Modes, rows: Rows) -> Array:
        """Right-hand side [rows] of ``R a = -..``: the drift, and Baumgarte's terms."""
        drift = terms.drift.reshape(-1, 3)
        rate = (terms.J @ v).reshape(-1, 3) if self.rate else None
        parts = [np.zeros(0)]
        for k in rows.at:
            own = slice(0, 3) if modes.mode[k] == STICK else slice(2, 3)
            value = drift[k, own]
            if rate is not None:
                off = np.concatenate([terms.at[k, :2] - modes.anchor[k], terms.at[k, 2:]])
                value = value + 2 * self.rate * rate[k, own] + self.rate**2 * off[own]
            parts.append(value)
        return np.concatenate(parts)

    def forces(self, x: Array, rows: Rows, modes: Modes) -> Array:
        """[n, 3] by point (N, axes of the planes) from what the rows carry."""
        force = np.zeros((modes.mode.size, 3))
        for k, at in rows.at.items():
            slides = np.append(-self.friction[k] * self.cone.against(modes.slip[k]), 1.0)
            force[k] = x[at] if modes.mode[k] == STICK else x[at] * slides
        return force

    def constraint_rows(self, terms: Terms, modes: Modes) -> tuple[Array, Array]:
        """(J [rows, nv], g [rows]) of all constraints: loops, normals of closed points, tangents of those that stick."""
        J = terms.J.reshape(-1, 3, terms.M.shape[0])
        slides, sticks = modes.mode == SLIP, modes.mode == STICK
        off = terms.at[sticks].copy()
        off[:, :2] -= modes.anchor[sticks]
        return (np.concatenate([terms.J_b, J[slides, 2], J[sticks].reshape(-1, J.shape[2])]),
                np.concatenate([terms.g, terms.at[slides, 2], off.ravel()]))

    # ---- parts --------------------------------------------------------------------------------------------------------
    def _motion(self, q: Array, v: Array, terms: Terms, u: Array, modes: Modes) -> Motion:
        now = Modes(modes.mode, self._directions(terms, v, modes), modes.anchor)
        a_free, W = self.free(terms, v)
        rows, force = Rows.of(modes.mode), np.zeros((modes.mode.size, 3))
        a = a_free
        if rows.at:
            R, B = self.rows(terms, now, rows, modes.mode != OPEN)
            across = W @ B.T
            x = np.linalg.lstsq(R @ across, -(R @ a_free + self.demanded(terms, v, modes, rows)), rcond=_RANK)[0]
            a = a_free + across @ x
            force = self.forces(np.asarray(x, float), rows, now)
        power = {"controls": float(v @ (self._S @ u[: self._S.shape[1]])) if self._S.size else 0.0,
                 "friction": float(force.ravel() @ (terms.J @ v)) if rows.at else 0.0,
                 "pushes": float(self.pushing() @ (terms.J_p @ v)) if terms.J_p.size else 0.0}
        return Motion(q, v, terms, a, force, a_free, W, modes, power)

    def _directions(self, terms: Terms, v: Array, modes: Modes) -> Array:
        """Where points slip: along their velocities, as long as these have not turned back since the step began."""
        slips = np.flatnonzero(modes.mode == SLIP)
        if not slips.size or modes.frozen:
            return modes.slip
        found = modes.slip.copy()
        across = (terms.J @ v).reshape(-1, 3)[:, :2]
        for k in slips:
            speed = float(np.hypot(across[k, 0], across[k, 1]))
            if speed > STILL and across[k] @ modes.slip[k] > 0.0:
                found[k] = across[k] / speed
        return found

    def _normal(self, q: Array) -> Array:
        for part in self._unit:
            q[part] /= np.linalg.norm(q[part])
        return q
