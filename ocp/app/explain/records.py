"""What is to be explained, and what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ocp.app.explain.places import Spot
from ocp.app.files.load import LoadedProblem
from ocp.explain import Advice, Conditioning, Dependence, Infeasibility, Origin, Price, Program, advice
from ocp.problem import SOLVED, Certificate, Status


@dataclass(frozen=True)
class Subject:
    """What is to be explained.

    name: of the file, for places in it; status, message: how the run ended, None where it has to be solved; method: that made it;
    arrays: of its trajectory, and of its checkpoint with the prefix "checkpoint."; certificate, options: of a run that ended
    """

    loaded: LoadedProblem
    name: str
    status: Status | None
    message: str
    method: str
    arrays: Mapping[str, np.ndarray]
    certificate: Certificate | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def advice(self) -> tuple[Advice, ...]:
        """About a certificate that fails though the method converged."""
        if self.certificate is None or self.status not in SOLVED:
            return ()
        return advice(self.certificate, self.method, self.options)


@dataclass(frozen=True)
class Explanation:
    """What was found; parts that do not apply are empty.

    x: the point that was looked at; mesh: words about the program; solved: whether a solve led there; spots: places in the file,
    beside ``origins``
    """

    subject: Subject
    program: Program
    status: Status
    message: str
    x: np.ndarray
    cost: float
    mesh: str
    solved: bool
    origins: tuple[Origin, ...] = ()
    spots: tuple[Spot | None, ...] = ()
    infeasibility: Infeasibility | None = None
    conditioning: Conditioning | None = None
    dependences: tuple[Dependence, ...] = ()
    hints: tuple[str, ...] = ()
    prices: tuple[Price, ...] = ()
    interrupted: bool = False

    @property
    def explained(self) -> bool:
        """Whether a cause was named."""
        remedies = self.infeasibility is not None and (self.infeasibility.feasible or any(
            r.verified for r in self.infeasibility.remedies))
        return bool(self.status is Status.CONVERGED or self.origins or remedies or self.dependences or self.hints)
