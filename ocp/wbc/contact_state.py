"""State of a contact in a closed loop: open, landing (its force grows), standing, sliding, leaving (its force shrinks).

It is taken where it is wanted and its points touch, given up where they have left the plane, and released when its force has
shrunk to nothing. A point that slips is counted on for less friction until it stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dynamics.constraints import Contact, PointContact
from ocp.control.stance import stances_of
from ocp.wbc.result import Note

Array = NDArray[np.float64]
MAX_TOUCHING_GAP, MAX_SOLE_GAP = 1e-4, 1e-3  # m: of one point of a contact that is to be taken, and of the others of its sole
LOST = 5e-3  # m: one that was taken has left its plane
SLIPS = 0.03  # m/s
STANDS = 0.2  # s of standing after which a point is trusted again
CREEP = 5e-3  # m/s: slower, the direction of a sliding point is not known well enough to count on its friction


@dataclass(eq=False)
class ContactState:
    """A contact as it is now: whether it is wanted and taken, which share of its force is allowed, when it slipped, where its
    points came to stand, and how far they moved since. rows: of its points among all."""

    contact: Contact
    first: int
    full: float = 1.0
    slipped: float = -np.inf
    anchors: Array = field(default_factory=lambda: np.zeros((0, 3)))
    drift: float = 0.0

    def __post_init__(self) -> None:
        self.stances = stances_of(self.contact)
        self.rows = slice(self.first, self.first + len(self.stances))
        self.wanted = self.taken = self.contact.taken
        self.slides = self.contact.slip is not None
        self.now = list(self.stances)  # those of the last step: what does not change stays the same object

    @property
    def name(self) -> str:
        """Name of the contact."""
        return self.contact.name

    @property
    def code(self) -> int:
        """0 not taken, 1 taken, 2 with its force ramped."""
        return 0 if not self.taken else 1 if self.full >= 1.0 else 2

    def feel(self, t: float, gap: Array, points: Array, speeds: Array, dt: float) -> list[Note]:
        """On by dt (s), by what is measured at its points: gap [k] (m), points, speeds [k, 3] (world). The event."""
        notes, ramp = list[Note](), self.contact.ramp
        if self.wanted and not self.taken and gap.min() <= MAX_TOUCHING_GAP and gap.max() <= MAX_SOLE_GAP:
            self.taken, self.full = True, 0.0 if ramp else 1.0
            notes.append(Note(t, self.name, "touches, and is taken"))
        elif self.taken and gap.min() > LOST:
            self.taken = False
            notes.append(Note(t, self.name, "has left its plane, and is given up" if self.wanted else "is off its plane"))
        if not self.taken:
            return notes
        step = dt / ramp if ramp else 1.0
        self.full = min(1.0, self.full + step) if self.wanted else self.full - step
        if self.full <= 0.0 and not self.wanted:
            self.taken = False
            return [*notes, Note(t, self.name, "is released")]
        if not self.anchors.size:
            self.anchors = points.copy()
        if not self.slides:
            if np.linalg.norm(speeds @ self.contact.plane[:2].T, axis=1).max() > SLIPS:
                if self.slipped < t - STANDS:
                    notes.append(Note(t, self.name, "slips; its friction coefficient is reduced"))
                self.slipped = t
            self.drift = max(self.drift, float(np.linalg.norm(points - self.anchors, axis=1).max()))
        return notes

    def standing(self, t: float, speeds: Array, trust: float, caution: float, weight: float) -> list[PointContact]:
        """Its points as the controller may count on them: none where it is not taken. speeds [k, 3] (m/s, world); trust, caution:
        shares of friction; weight (N): of the robot."""
        if not self.taken:
            self.anchors = np.zeros((0, 3))
            return []
        most = self.contact.most if self.full >= 1.0 else min(self.contact.most, self.full * 2.0 * weight)
        share = (1.0 if self.slides else trust) * (caution if self.slipped > t - STANDS else 1.0)
        least, friction = min(self.contact.least, 0.5 * most), share * (self.stances[0].friction or 0.0)
        for i, stance in enumerate(self.now):
            slip = stance.slip
            if self.slides:
                u = stance.plane[:2].T @ (stance.plane[:2] @ speeds[i])
                along = u / max(float(np.linalg.norm(u)), CREEP)
                slip = float(along[0]), float(along[1]), float(along[2])
            if (most, least, friction, slip) != (stance.most, stance.least, stance.friction, stance.slip):
                self.now[i] = stance.but(most=most, least=least, friction=friction, slip=slip)
        return self.now
