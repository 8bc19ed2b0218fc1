"""A robot that touches planes, simulated from event to event: touch-down, lift-off, stick and slip, impacts.

Between events every point is open, sticks or slips, and the motion is smooth: accelerations and forces solve

    M a = f + J' lambda       J_n a + drift = 0 (slip: lambda_t = -mu lambda_n v_t/|v_t|)       J a + drift = 0 (stick)

by the classical Runge-Kutta method. A step that ends with an open point below its plane, a force outside its cone or a slip that
has turned back is bisected to the instant where that begins; there Coulomb's law decides anew, by the exact cone or a pyramid
(`coulomb`). Impacts follow Newton's restitution in the normal and Coulomb's law for the impulses. Hutter et al., Robot Dynamics
lecture notes (ETH Zurich, HS 2023), section 3.7.3; Stewart 2000, "Rigid-body dynamics with friction and impact".

Where rigid bodies have no consistent acceleration (Painleve's paradox), or events come too fast, one step is taken for velocities
as a whole (Moreau 1988): that has a solution always, and the log names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics.algorithms.mass_matrix import check_inertia
from dynamics.constraints import Contact
from dynamics.constraints.friction_cone import EXACT, Cone
from dynamics.errors import near
from dynamics.mechanism import Mechanism
from dynamics.mechanism.assembly import least_step, onto
from ocp.errors import ProblemError, positive
from ocp.plants.coulomb import Law, coulomb
from ocp.plants.integrated import Push
from ocp.plants.smooth import OPEN, SLIP, STICK, Modes, Motion, Rows, Smooth, possible
from ocp.plants.touching import Box, Terms, compile_touching

Array = NDArray[np.float64]

STABILISATIONS = ("projection", "baumgarte", "none")
GAP = 1e-11  # m; below its plane by more, a point has touched
TOUCH = 1e-9  # m; nearer than this, a point takes part in what happens
REST = 1e-8  # m/s; slower, a point does not approach its plane
CREEP = 1e-5  # m/s; slower than this, what happens next decides whether a contact parts or slides, not its velocity
DRIFT = 1e-12  # m, m/s; what is missed by less is rounding
REST_SPEED = 1e-4  # m/s; slower impacts do not rebound, so that bouncing comes to an end
CROWD = 10  # events within the longest step after which one is taken as a whole


@dataclass(frozen=True)
class HybridOptions:
    """max_step (s) between events. stabilisation: of what contacts and loops hold, "projection" after steps, "baumgarte" at rate
    [1/s], or "none". cone: of friction,
    exact or a pyramid."""

    max_step: float = 2e-3
    stabilisation: str = "projection"
    rate: float = 20.0
    cone: Cone = EXACT

    def __post_init__(self) -> None:
        if self.stabilisation not in STABILISATIONS:
            raise ProblemError(f"no stabilisation {self.stabilisation!r}{near(self.stabilisation, STABILISATIONS)}",
                               where="HybridOptions.stabilisation")
        for key in ("max_step", "rate"):
            positive(getattr(self, key), f"HybridOptions.{key}")


@dataclass(frozen=True)
class Event:
    """An event at ``time`` (s) of a contact: "touch", "lift", "stick", "slip"; of all: "impact" with the energy it lost (J)
    and the sum of its normal impulses (N s), "painleve" and "crowded" where a step was taken as a whole."""

    time: float
    kind: str
    contact: str = ""
    impulse: float = 0.0
    energy: float = 0.0


class HybridPlant:
    """A plant (`ocp.plants.Plant`) with x = (q, v) of a mechanism and its controls u.

    contacts: points, flat soles with half_sizes, balls and wheels, each with friction. restitution, within: override theirs,
    for all or by name. events: log since ``reset``. work: J
    that friction, impacts and pushes did, and the controls. t, q, v, modes [points] as they are now.
    Raises ProblemError, ModelError, UnknownNameError.
    """

    def __init__(self, mechanism: Mechanism, contacts: Sequence[Contact], *, restitution: float | Mapping[str, float] | None = None,
                 options: HybridOptions | None = None, pushes: Sequence[Push] = (), mode: str = "auto",
                 within: Mapping[str, Box] | None = None):
        self.options, self.pushes = options or HybridOptions(), tuple(pushes)
        if unfit := [push for push in self.pushes if not push.frame or push.rate or push.controls]:
            raise ProblemError(f"the push at {unfit[0].time:g} s must be a force on a frame", where="hybrid plant")
        self.touching = compile_touching(mechanism, contacts, restitution, [push.frame for push in self.pushes], mode, within)
        self.points, self.nq = self.touching.points, mechanism.model.nq
        self.names = tuple(point.name for point in self.points)
        self._low, self._high = (np.array([point.box[:, k] for point in self.points]).reshape(-1, 3) for k in (0, 1))
        self._ends = bool(np.isfinite(self._low).any() or np.isfinite(self._high).any())
        self._axes = np.array([point.plane for point in self.points]).reshape(-1, 3, 3)
        self._heights = np.array([point.height for point in self.points])
        friction = np.array([point.friction for point in self.points])
        rate = self.options.rate if self.options.stabilisation == "baumgarte" else 0.0
        self._smooth = Smooth(self.touching, friction, rate, lambda: self._acting, self.options.cone)
        self._bounce = np.array([point.restitution for point in self.points])
        self._edges = sorted({edge for push in self.pushes for edge in (push.time, push.time + push.duration)})
        self.u, self._acting = np.zeros(mechanism.nu), np.zeros(3 * len(self.pushes))
        self.t, self.events, self._recent = 0.0, list[Event](), list[float]()
        self.work = dict.fromkeys(("controls", "friction", "pushes", "impacts"), 0.0)

    # ---- the protocol -----------------------------------------------------------------------------------------------
    def reset(self, x: ArrayLike, t: float = 0.0) -> None:
        """Begins at x [nq + nv] and t (s). Raises ProblemError for a point more than a micrometre below its plane."""
        x = np.asarray(x, float)
        self.q, self.v, self.t = x[: self.nq].copy(), x[self.nq:].copy(), float(t)
        self.events, self._recent = [], []
        self.work = dict.fromkeys(self.work, 0.0)
        n = len(self.points)
        self.modes = Modes(np.zeros(n, np.int8), np.tile([1.0, 0.0], (n, 1)), np.zeros((n, 2)))
        depth = np.where(self._there(self._terms()), self._terms().at[:, 2], np.inf)
        if (depth < -1e-6).any():
            k = int(depth.argmin())
            raise ProblemError(f"begins {-depth[k]:.3g} m below its plane", where=f"contact {self.names[k]!r}")
        self.modes.mode[depth <= 1e-6] = STICK  # a start by hand is as near as that
        self.modes.anchor[:] = self._terms().at[:, :2]
        self._project(velocities=False)
        self._decide()

    def measure(self) -> Array:
        """The state [nq + nv], without noise."""
        return np.concatenate([self.q, self.v])

    def step(self, u: ArrayLike, dt: float) -> Array:
        """Holds u [nu] for dt (s); the state afterwards. Forces are decided anew when u changes."""
        end = self.t + dt
        u = np.array(u, float)
        changed = not np.array_equal(u, self.u)
        self.u = u if changed else self.u
        while self.t < end - 1e-13 and np.isfinite(self.v).all():
            ahead = [edge for edge in self._edges if self.t + 1e-12 < edge < end]
            stop = min([end, *ahead])
            h = min(self.options.max_step, stop - self.t)
            if h > 0.999999 * (stop - self.t):
                h = stop - self.t
            acting = self._pushing(self.t + h / 2)
            if changed or not np.array_equal(acting, self._acting):
                self._acting, changed = acting, False
                self._forget()
                self._decide()
            try:
                self._advance(h)
            except np.linalg.LinAlgError:  # numbers beyond all bounds, unless the robot cannot be moved at all
                check_inertia(self.touching.mechanism.model, self.q)
                self.v[:] = np.nan
        self.t = end
        return self.measure()

    @property
    def forces(self) -> dict[str, Array]:
        """Force [3] (N, world axes, on the robot) at every point now, by name: the smallest ones, or where these leave their cones
        others with the same motion."""
        motion = self._motion()
        local = motion.force
        if not self._inside(local, self.modes.mode):
            law, rows = self._law(motion.terms, self.v, motion.a_free, motion.W, motion.modes)
            local = self._smooth.forces(law.x, rows, motion.modes) if law.holds else local
        return {point.name: point.plane.T @ local[k] for k, point in enumerate(self.points)}

    @property
    def gaps(self) -> dict[str, float]:
        """Height (m) of every point above its plane, by name."""
        return dict(zip(self.names, self._terms().at[:, 2].tolist(), strict=True))

    @property
    def energy(self) -> float:
        """Kinetic and potential energy (J)."""
        return self._terms().energy

    # ---- steps ------------------------------------------------------------------------------------------------------
    def _advance(self, h: float) -> None:
        """Up to the next event, at most h."""
        motion = self._motion()
        modes = self._smooth.followed(motion, h)
        if modes is not self.modes:
            self.modes, motion = modes, self._smooth.motion(self.q, self.v, self.u, modes)
        trial = self._smooth.integrate(self.q, self.v, self.u, self.modes, motion, h)
        if not (broken := self._broken(trial)) and possible(motion, trial):
            self._accept(trial, h)
            self._project()
            return
        low, high = 0.0, h
        for _ in range(50 if broken else 0):
            if high - low <= 1e-14 + 1e-13 * self.t:
                break
            middle = (low + high) / 2
            found = self._smooth.integrate(self.q, self.v, self.u, self.modes, motion, middle)
            if self._broken(found):
                high, trial = middle, found
            else:
                low = middle
        if not possible(motion, trial):  # forces grow without bound: no step follows them
            self._whole(1e-2 * self.options.max_step, "crowded")
            return
        self._recent = [t for t in self._recent if t > self.t - self.options.max_step] + [self.t + high]
        if len(self._recent) > CROWD:
            self._recent = []
            self._whole(min(h, self.options.max_step), "crowded")
            return
        self._accept(trial, high)
        self._decide()

    def _accept(self, end: Motion, h: float) -> None:
        self.t, self.q, self.v = self.t + h, end.q, end.v
        for key, value in end.work.items():
            self.work[key] += value
        self.modes = end.modes
        self._smooth.remember(end)

    def _broken(self, end: Motion) -> bool:
        """Whether an event lies between the beginning of a step and its end."""
        if not np.isfinite(end.v).all():
            return False
        mode, force, there = self.modes.mode, end.force, self._there(end.terms)
        if (end.terms.at[(mode == OPEN) & there, 2] < -GAP).any() or ((mode != OPEN) & ~there).any():
            return True
        slips = mode == SLIP
        if slips.any():
            across = (end.terms.J @ end.v).reshape(-1, 3)[slips, :2]
            if (np.einsum("ij,ij->i", across, self.modes.slip[slips]) < -1e-13).any():
                return True
        if self._inside(force, mode):
            return False
        # the smallest forces leave their cones; others with the same motion may not
        modes = self.modes if self.modes.frozen else end.modes  # the directions of these forces
        law, rows = self._law(end.terms, end.v, end.a_free, end.W, modes)
        if not law.holds:
            return True
        moved = np.abs(law.u - self._smooth.rows(end.terms, modes, rows, mode != OPEN)[0] @ end.a - rows.drift)
        return bool((moved > 1e-7 * (1.0 + np.abs(rows.drift).max(initial=0.0))).any())

    def _inside(self, force: Array, mode: NDArray[np.int8]) -> bool:
        closed = mode != OPEN
        slack = 1e-10 * (1.0 + float(np.abs(force).max(initial=0.0)))
        if (force[closed, 2] < -slack).any():
            return False
        sticks = mode == STICK
        across = self.options.cone.size(force[sticks, :2])
        return bool((across <= self._smooth.friction[sticks] * force[sticks, 2] + slack).all())

    # ---- events -----------------------------------------------------------------------------------------------------
    def _decide(self) -> None:
        """Impacts, then who is open, sticks and slips from here on."""
        self._strike()
        terms, old = self._terms(), self.modes
        u = (terms.J @ self.v).reshape(-1, 3)
        near_by = ((terms.at[:, 2] <= TOUCH) | (old.mode != OPEN)) & self._there(terms)
        closed = near_by & (u[:, 2] <= CREEP)
        speed = np.hypot(u[:, 0], u[:, 1])
        slides = closed & (speed > CREEP)
        start = Modes(np.where(slides, SLIP, np.where(closed, STICK, OPEN)).astype(np.int8), old.slip.copy(), old.anchor.copy())
        start.slip[slides] = u[slides, :2] / speed[slides, None]
        a_free, W = self._smooth.free(terms, self.v)
        law, rows = self._law(terms, self.v, a_free, W, start, 1.0 / self.options.max_step)
        if not law.holds:
            self._paradox(rows, start)
            return
        tiny = 1e-9 * (1.0 + float(np.abs(law.u).max(initial=0.0)))
        for k, at in rows.at.items():
            x, a = law.x[at], law.u[at]
            if a[-1] > tiny and x[-1] <= 1e-9 * (1.0 + float(np.abs(law.x).max())):
                start.mode[k] = OPEN
            elif start.mode[k] == STICK and np.hypot(a[0], a[1]) > tiny:
                start.mode[k] = SLIP
                start.slip[k] = a[:2] / np.hypot(a[0], a[1])
        fresh = (start.mode == STICK) & (old.mode != STICK)
        start.anchor[fresh] = terms.at[fresh, :2]
        self._log(old.mode, start.mode)
        self.modes = start
        self._forget()
        self._project()

    def _strike(self) -> None:
        """An impact, where a point on its plane approaches it."""
        terms = self._terms()
        on = np.flatnonzero(((terms.at[:, 2] <= TOUCH) | (self.modes.mode != OPEN)) & self._there(terms))
        if not on.size:
            return
        J = terms.J.reshape(len(self.points), 3, -1)[on].reshape(3 * on.size, -1)
        before = (J @ self.v).reshape(-1, 3)
        if not (before[:, 2] < -REST).any():
            return
        _, W = self._smooth.free(terms, self.v)
        G, e = J @ W @ J.T, np.where(-before[:, 2] > REST_SPEED, self._bounce[on], 0.0)
        for _ in range(30):
            b = before.copy()
            b[:, 2] += e * np.minimum(before[:, 2], 0.0)
            law = coulomb(G, b.ravel(), self._smooth.friction[on].tolist(), self.options.cone)
            change = W @ (J.T @ law.x)
            energy = float(change @ terms.M @ (2 * self.v + change)) / 2
            if energy <= 1e-12 * (1.0 + terms.energy) or not e.any():
                break
            e = 0.5 * e  # Newton's restitution with friction may make energy; nature does not
        self.v = self.v + change
        self.work["impacts"] += energy
        self._forget()
        self.events.append(Event(self.t, "impact", ", ".join(self.names[k] for k in on[before[:, 2] < -REST]),
                                 float(law.x[2::3].sum()), -energy))

    def _law(self, terms: Terms, v: Array, a_free: Array, W: Array, modes: Modes, pace: float = 0.0) -> tuple[Law, Rows]:
        """Coulomb's law for the accelerations of the closed points, those that slip in the direction that they have. pace [1/s]:
        what is left of a velocity counts as an acceleration that would have made it in 1 / pace."""
        rows = Rows.of(modes.mode)
        R, B = self._smooth.rows(terms, modes, rows, modes.mode != OPEN)
        rows.drift = self._smooth.demanded(terms, v, modes, rows)
        friction = [None if modes.mode[k] == SLIP else float(self._smooth.friction[k]) for k in rows.at]
        rows.G = R @ W @ B.T
        return coulomb(rows.G, R @ (a_free + pace * v) + rows.drift, friction, self.options.cone), rows

    def _paradox(self, rows: Rows, modes: Modes) -> None:
        """Sliding points whose normal force pulls them down: no acceleration is consistent, or several are."""
        down = [self.names[k] for k, at in rows.at.items() if modes.mode[k] == SLIP and rows.G[at.start, at.start] <= 0.0]
        self._whole(1e-2 * self.options.max_step, "painleve" if down else "crowded", ", ".join(down))

    def _whole(self, h: float, kind: str, contact: str = "") -> None:
        """One step of velocities as a whole: ``M (v' - v) = h f + J' p`` and Coulomb's law between p and J v'."""
        self.events.append(Event(self.t, kind, contact))
        terms = self._terms()
        a_free, W = self._smooth.free(terms, self.v)
        v = self.v + h * a_free
        low = terms.at[:, 2] + h * np.minimum((terms.J @ v).reshape(-1, 3)[:, 2], 0.0) <= TOUCH
        on = np.flatnonzero((low | (self.modes.mode != OPEN)) & self._there(terms))
        energy, J = terms.energy, terms.J.reshape(len(self.points), 3, -1)[on].reshape(3 * on.size, self.v.size)
        if on.size:
            b = (J @ v + h * terms.drift.reshape(-1, 3)[on].ravel()).reshape(-1, 3)
            b[:, 2] += np.maximum(terms.at[on, 2], 0.0) / h
            v = v + W @ (J.T @ coulomb(J @ W @ J.T, b.ravel(), self._smooth.friction[on].tolist(), self.options.cone).x)
        self.q, self.v, self.t = np.asarray(self.touching.plus(self.q, h * v)), v, self.t + h
        self._forget()
        modes = np.full(len(self.points), OPEN, np.int8)
        u = (self._terms().J @ v).reshape(-1, 3)[on]
        stands = (np.hypot(u[:, 0], u[:, 1]) <= CREEP) & (u[:, 2] <= CREEP)
        modes[on[u[:, 2] <= CREEP]] = SLIP
        modes[on[stands]] = STICK
        self.modes = Modes(modes, self.modes.slip, self._terms().at[:, :2].copy())
        self._project(velocities=False)
        self.work["impacts"] += self._terms().energy - energy
        if kind not in [event.kind for event in self.events[-3:-1]]:  # else decided by the next step
            self._decide()

    def _log(self, old: NDArray[np.int8], new: NDArray[np.int8]) -> None:
        for k in np.flatnonzero(old != new):
            kind = "lift" if new[k] == OPEN else "touch" if old[k] == OPEN else "stick" if new[k] == STICK else "slip"
            self.events.append(Event(self.t, kind, self.names[k]))

    # ---- drift ------------------------------------------------------------------------------------------------------
    def _project(self, *, velocities: bool = True) -> None:
        """Correct the drift of contacts and loops by rounding and the integrator: positions first, then velocities."""
        if self.options.stabilisation != "projection":
            return
        onto(self._misses, self._moved, self.q, near=DRIFT, steps=3)
        _, J, M = self._misses(self.q)
        rate = J @ self.v
        if velocities and np.abs(rate).max(initial=0.0) > DRIFT:
            self.v = self.v + least_step(J, rate, M)
            self._forget()

    def _misses(self, q: Array) -> tuple[Array, ...]:
        """(misses, Jacobian, mass matrix) of the constraints that act in the present configuration, which is ``q``."""
        terms = self._terms()
        J, off = self._smooth.constraint_rows(terms, self.modes)
        return off, J, terms.M

    def _moved(self, q: Array, step: Array) -> Array:
        self.q = np.asarray(self.touching.plus(q, step))
        self._forget()
        return self.q

    # ---- what is known of the present state -------------------------------------------------------------------------
    def _pushing(self, t: float) -> Array:
        """Forces [3 k] of the pushes at a time (N, world axes)."""
        now = [np.asarray(p.force) if p.time <= t < p.time + p.duration else np.zeros(3) for p in self.pushes]
        return np.concatenate([np.zeros(0), *now])

    def _there(self, terms: Terms) -> NDArray[np.bool_]:
        """Which points are where their planes are, and not beyond an end of them."""
        if not self._ends:
            return np.ones(len(self.points), bool)
        at = terms.at.copy()
        at[:, 2] += self._heights
        place = np.einsum("kij,ki->kj", self._axes, at)
        return np.asarray(((place >= self._low) & (place <= self._high)).all(axis=1))

    def _terms(self) -> Terms:
        return self._smooth.terms(self.q, self.v, self.u)

    def _motion(self) -> Motion:
        return self._smooth.motion(self.q, self.v, self.u, self.modes)

    def _forget(self) -> None:
        self._smooth.remember(None)
