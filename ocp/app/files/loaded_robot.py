"""What reading makes of the section ``system`` of a robot problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dynamics.constraints import Contact
from dynamics.mechanism import Mechanism
from dynamics.model.model import Model
from dynamics.redmax.parameters import Varied
from ocp.app.files import load_parts as lp
from ocp.app.files.schema_robot import RobotSystem
from ocp.problem import System

SX = Any


@dataclass(frozen=True)
class LoadedRobot:
    """A robot as a system of a file.

    base: as its own file has it; mechanism: with what the problem file adds.
    idle: contacts that are not active in this phase. wide: the robot as expressions of its free numbers, where it has some.
    inputs: names of efforts of driven joints, then of thrusts; effort [ni]: these as expressions of ``reader``. forward: the system
    whose controls they are, which is ``system`` itself unless the formulation is inverse.
    """

    base: Mechanism
    mechanism: Mechanism
    given: RobotSystem
    system: System
    forward: System
    reader: lp.Reader
    effort: SX
    idle: tuple[Contact, ...] = ()
    wide: Varied | None = None

    @property
    def places(self) -> tuple[Model, SX]:
        """The model and the configuration by which frames stand where they do, also where lengths are parameters."""
        return (self.model, self.reader.x[:self.model.nq]) if self.wide is None else (self.wide.mechanism.model, self.wide.q)

    @property
    def model(self) -> Model:
        return self.mechanism.model

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.forward.controls

    @property
    def inverse(self) -> bool:
        return self.given.formulation == "inverse_dynamics"

    @property
    def residual(self) -> bool:
        return self.given.formulation == "residual"

    @property
    def unknowns(self) -> int:
        """Inputs of the system beyond its drives; the multipliers of constraints, where they are inputs, are the last."""
        return self.system.nu - self.mechanism.nu
