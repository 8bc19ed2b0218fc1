"""Result of a closed loop of whole-body control: motion, torques, forces, outcome of every level, and events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocp.mpc.result import Ending, StepTimes
from ocp.problem import Finding

EQUATION = 1e-6
"""Residual (N, N m) of the equations of motion, and of forces and torques at their limits (shares of them), that counts as none."""


@dataclass(frozen=True)
class Note:
    """Something that happened at ``time`` (s), in words; what: the contact or task, or empty."""

    time: float
    what: str
    text: str


@dataclass(frozen=True, eq=False)
class ContactRecord:
    """One contact over n steps. state [n]: 0 not taken, 1 taken, 2 force ramped; commanded, actual [n, 3]: sums over its points of
    the force on the robot (N, world; NaN where the plant does not tell); share [n, 2]: of the friction that the worst point uses,
    commanded and in the plant (1: at the limit of its cone); gap [n] (m) of its lowest point; drift (m): farthest that a standing
    point moved."""

    name: str
    state: np.ndarray
    commanded: np.ndarray
    actual: np.ndarray
    share: np.ndarray
    gap: np.ndarray
    drift: float


@dataclass(frozen=True, eq=False)
class WholeBodyRun:
    """A run of n steps: t [n + 1], x [n + 1, nx] of the plant, torque [n, driven], its limits [driven], levels: name to norms of
    residuals and slacks [n] (NaN where the level was not there), errors: name of a task to |e| [n], seconds [n] of the controller,
    solved [n]: whether a step had an answer; findings: why it fell, does not stand at its end, or what was not kept on the way."""

    setup: Any
    ending: Ending
    t: np.ndarray
    x: np.ndarray
    torque: np.ndarray
    efforts: np.ndarray
    driven: tuple[str, ...]
    levels: Mapping[str, np.ndarray]
    errors: Mapping[str, np.ndarray]
    contacts: tuple[ContactRecord, ...]
    seconds: np.ndarray
    solved: np.ndarray
    times: StepTimes
    notes: tuple[Note, ...]
    plant: str
    findings: tuple[Finding, ...] = ()

    @property
    def failures(self) -> int:
        """Steps without a solution; joints were braked in these."""
        return int((~self.solved).sum())

    @property
    def equations(self) -> float:
        """Largest residual of the equations of motion."""
        return float(np.nanmax(self.levels.get("equations", np.zeros(0)), initial=0.0))

    @property
    def within_limits(self) -> bool:
        """Equations hold in every step, and no commanded force or torque leaves its limits."""
        share = max((float(np.nanmax(c.share[:, 0], initial=0.0)) for c in self.contacts), default=0.0)
        return self.equations <= EQUATION and share <= 1.0 + EQUATION and self.effort_share <= 1.0 + EQUATION

    @property
    def effort_share(self) -> float:
        """Largest torque as a share of its limit."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(np.nanmax(np.abs(self.torque) / self.efforts, initial=0.0)) if self.torque.size else 0.0

    @property
    def ok(self) -> bool:
        """It reached its end standing, every step was solved, and limits were kept (no ``findings``). Deadlines are a matter of the
        machine: see ``times``."""
        return self.ending is Ending.FINISHED and not self.failures and self.within_limits and not self.findings
