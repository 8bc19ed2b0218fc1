"""A robot by name: its description under ``system`` of a problem file, and its quantities as expressions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynamics.errors import near
from ocp.app.face.document import Document, plain, written_at
from ocp.app.face.expression import Expr, call, compared
from ocp.errors import ProblemError

if TYPE_CHECKING:
    from dynamics.mechanism import Mechanism
    from dynamics.model import Model


class FrameError:
    """The difference of a frame from a target, for costs and constraints: ``constraint(error == 0, at="final")``."""

    def __init__(self, form: str, value: Mapping[str, Any]):
        self.form, self.value = form, dict(value)

    def __repr__(self) -> str:
        return f"{self.form} of {self.value['frame']}"

    __le__, __ge__ = map(compared, ("<=", ">="))
    __eq__ = compared("==")  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


class Robot:
    """A robot from a URDF or MJCF file, or ``robots:NAME`` from the robots extra, with its quantities as expressions.

    ``q``, ``v``, ``a``, ``tau`` are its configuration, velocity, acceleration and efforts, whole or by joint: ``q["elbow"]``;
    ``u`` is what drives it. ``position("tool")`` is a point in the world. Options are the keys of ``system`` in files: root, lock,
    joints, gravity, formulation, actuated, motors, limits, thrusters, forces, constraints, packages ...

    Raises ProblemError and ModelError where the file cannot be read, with near misses.
    """

    def __init__(self, file: str | Path | None = None, /, **options: Any):
        from ocp.app.files.robot.schema import RobotSystem

        self._written = options.pop("_written", None) or written_at()
        for name in options:
            if name not in RobotSystem.model_fields:
                raise ProblemError(f"unknown option {name!r}{near(name, set(RobotSystem.model_fields) - {'robot'}, most=20)}",
                                   where=f"{self._written}: Robot")
        self.tree: dict[str, Any] = {**({} if file is None else {"robot": str(file)}), **plain(options)}
        self.folder = Path()
        _ = self.mechanism  # errors are raised here

    @classmethod
    def _of(cls, document: Document) -> Robot:
        robot = object.__new__(cls)
        robot._written, robot.tree, robot.folder = document.name, document.tree["system"], document.folder
        return robot

    @cached_property
    def mechanism(self) -> Mechanism:
        """The robot with its drives and forces, as ``dynamics`` has it."""
        from ocp.app.files.robot.model import mechanism_of_file, read_mechanism, robot_numbers
        from ocp.app.files.robot.schema import RobotSystem
        from ocp.app.files.syntax.findings import Findings
        from ocp.app.files.syntax.readable import validated
        from ocp.app.files.syntax.reader import Section
        from ocp.app.files.syntax.scope import Scope
        from ocp.app.files.syntax.yaml_source import Source

        findings = Findings(Source(self._written, "", {"system": self.tree}, {}, {("system",): self._written}))
        inside = Findings(Source(self._written, "", self.tree, {}, {(): self._written}))
        given = validated(inside, RobotSystem)
        inside.raise_any()
        numbers = robot_numbers(findings, Scope(), ())
        base = read_mechanism(Section(numbers, given, ("system",)), self.folder, configurations=True)
        found = None if base is None else mechanism_of_file(numbers, given, base)
        findings.raise_any()
        assert found is not None
        return found

    @property
    def model(self) -> Model:
        """The tree of bodies and joints."""
        return self.mechanism.model

    @property
    def name(self) -> str:
        """The name of the robot."""
        return self.model.name

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the velocity components: joints, or joint.component."""
        return self.model.velocity_names

    @property
    def frames(self) -> tuple[str, ...]:
        """Names of frames and bodies."""
        return tuple(dict.fromkeys([*(f.name for f in self.model.frames), *(b.name for b in self.model.bodies)]))

    @property
    def configurations(self) -> tuple[str, ...]:
        """Names of the configurations that the robot file or the SRDF file beside it gives."""
        return tuple(self.model.configurations)

    @property
    def actuators(self) -> tuple[str, ...]:
        """Names of what drives it: motors, then thrusters."""
        return (*(m.name for m in self.mechanism.motors), *(th.name for th in self.mechanism.thrusters))

    @property
    def q(self) -> Expr:
        """The configuration: ``q["joint"]`` [rad or m]."""
        return Expr("q", size=self.model.nq, entries=self.model.coordinate_names)

    @property
    def v(self) -> Expr:
        """The velocity: ``v["joint"]`` [rad/s or m/s]."""
        return Expr("v", size=self.model.nv, entries=self.model.velocity_names)

    @property
    def a(self) -> Expr:
        """The acceleration: ``a["joint"]`` [rad/s^2 or m/s^2]."""
        return Expr("a", size=self.model.nv, entries=self.model.velocity_names)

    @property
    def tau(self) -> Expr:
        """The efforts of drives and the thrusts: ``tau["joint"]`` [N m or N]."""
        return Expr("tau", size=len(self.actuators), entries=self.actuators)

    @property
    def u(self) -> Expr:
        """Efforts of the drives: another name of ``tau``."""
        return self.tau

    def position(self, frame: str) -> Expr:
        """The origin of a frame in the world [m]: three components."""
        return call("position", _quoted(self._frame(frame)), size=3)

    def velocity(self, frame: str) -> Expr:
        """The velocity of the origin of a frame, world axes [m/s]: three components."""
        return call("velocity", _quoted(self._frame(frame)), size=3)

    def com(self) -> Expr:
        """The centre of mass in the world [m]: three components."""
        return Expr("com()", size=3)

    def energy(self) -> Expr:
        """Kinetic and potential energy [J]."""
        return Expr("energy()")

    def angular_momentum(self, frame: str, about: str) -> Expr:
        """Angular momentum of the part of the robot that a frame carries, about the origin of another: three components."""
        return Expr(f"angular_momentum({_quoted(self._frame(frame))}, {_quoted(self._frame(about))})", size=3)

    def constraint_force(self, name: str) -> Expr:
        """The force of a constraint or contact that is active."""
        return Expr(f"constraint_force({_quoted(name)})", size=None)

    def pose_error(self, frame: str, *, position: object, **rotation: Any) -> FrameError:
        """A frame's difference from a pose: ``rpy=``, ``quaternion=`` or ``axis_angle=``; six components."""
        return FrameError("pose_error", {"frame": self._frame(frame), "position": plain(position), **plain(rotation)})

    def position_error(self, frame: str, position: object) -> FrameError:
        """A frame's difference from a point of the world: three components."""
        return FrameError("position_error", {"frame": self._frame(frame), "position": plain(position)})

    def orientation_error(self, frame: str, **rotation: Any) -> FrameError:
        """A frame's rotation from a target: ``rpy=``, ``quaternion=`` or ``axis_angle=``; three components."""
        return FrameError("orientation_error", {"frame": self._frame(frame), **plain(rotation)})

    def configuration(self, q: object) -> dict[str, Any]:
        """Coordinates [nq] in the order of the model as joints and base by name, for start, final and guess."""
        from ocp.app.files.robot.states import configuration_by_name

        values, model = np.asarray(q, dtype=float).ravel(), self.model
        if len(values) != model.nq:
            raise ProblemError(f"{len(values)} coordinates for a robot of nq = {model.nq}: {', '.join(model.coordinate_names)}",
                               where=written_at())
        return configuration_by_name(model, values)

    def _frame(self, name: str) -> str:
        self.model.frame(name)  # raises with near misses
        return name

    def __repr__(self) -> str:
        model = self.model
        return (f"Robot {model.name!r}: {len(model.bodies)} bodies, nq = {model.nq}, nv = {model.nv}, nu = {len(self.actuators)}, "
                f"{model.mass:.4g} kg")

    def _repr_html_(self) -> str:
        from ocp.app.face.shown import as_printed
        from ocp.app.robot import print_robot

        return as_printed(lambda console: print_robot(self.mechanism, str(self.tree.get("robot", "of bodies")), console))


def _quoted(name: str) -> Expr:
    return Expr(f'"{name}"')
