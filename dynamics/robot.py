"""A robot's functions by name: numbers in, numbers out; symbols in, expressions out, also inside one's own ``casadi.Opti``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics.errors import ModelError, near
from dynamics.functions import make, make_frame
from dynamics.mechanism import Mechanism, read_mechanism
from dynamics.model import Model

Values = Any  # NumPy arrays and lists, or CasADi's DM, SX and MX
DERIVATIVES = {"inverse_dynamics": "inverse_dynamics_derivatives", "forward_dynamics": "forward_dynamics_derivatives"}


def load(file: str | os.PathLike[str], /, **options: Any) -> Robot:
    """The robot of a .urdf or .xml (MJCF) file, or ``robots:NAME`` from the robots extra.

    options: of URDF files root ("fixed", "free_flyer", "planar"), mimic, packages, gravity ...; of MJCF files gravity. Raises
    ModelError with file and line, and near misses.
    """
    words = os.fspath(file)
    if words.startswith("robots:"):
        from dynamics.model.robots import find_robot

        return Robot(read_mechanism(find_robot(words.removeprefix("robots:")), **options))
    path = Path(words)
    if not path.is_file():
        beside = [p.name for p in path.parent.iterdir() if p.suffix in (".urdf", ".xml")] if path.parent.is_dir() else []
        raise ModelError(f"no such file{near(path.name, beside)}", source=words)
    return Robot(read_mechanism(path, **options))


class Robot:
    """Functions of a robot: ``robot.inverse_dynamics(q, v, a)``, ``robot.mass_matrix(q)``, ``robot.pose("tool0", q)``.

    q [nq], v, a, tau [nv]; numbers give NumPy arrays, CasADi's symbols expressions. Functions are built once, when first called.
    They are those of the tree; drives, springs and constraints of the file are in ``mechanism``.
    """

    def __init__(self, robot: Mechanism | Model):
        self.mechanism = robot if isinstance(robot, Mechanism) else Mechanism(robot)
        self._made: dict[tuple[str, ...], ca.Function] = {}

    # ---- what there is --------------------------------------------------------------------------------------------------
    @property
    def model(self) -> Model:
        """The tree of bodies and joints."""
        return self.mechanism.model

    @property
    def nq(self) -> int:
        """Number of configuration components."""
        return self.model.nq

    @property
    def nv(self) -> int:
        """Number of velocity components."""
        return self.model.nv

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the velocity components."""
        return self.model.velocity_names

    @property
    def frames(self) -> tuple[str, ...]:
        """Names of frames and bodies."""
        return tuple(dict.fromkeys([*(f.name for f in self.model.frames), *(b.name for b in self.model.bodies)]))

    @cached_property
    def neutral(self) -> np.ndarray:
        """The neutral configuration [nq]."""
        return np.array(alg.neutral(self.model), dtype=float)

    def random(self, seed: int) -> np.ndarray:
        """A configuration [nq] drawn within the limits."""
        return np.asarray(alg.random_configuration(self.model, np.random.default_rng(seed)), dtype=float)

    def __repr__(self) -> str:
        model = self.model
        return f"Robot {model.name!r}: {len(model.bodies)} bodies, nq = {self.nq}, nv = {self.nv}, {model.mass:.4g} kg"

    # ---- functions as CasADi has them -----------------------------------------------------------------------------------
    def function(self, name: str) -> ca.Function:
        """One of ``dynamics.FUNCTIONS`` as a CasADi Function. Raises ModelError with near misses."""
        return self._cached((name,), lambda: make(self.model, name))

    def frame_function(self, name: str, frame: str, reference: str = "world_aligned") -> ca.Function:
        """``pose``, ``jacobian``, ``velocity`` or ``drift`` of a frame as a CasADi Function."""
        return self._cached((name, frame, reference), lambda: make_frame(self.model, name, frame, reference))

    def derivatives(self, name: str, source: str = "analytic") -> ca.Function:
        """First derivatives of ``inverse_dynamics`` or ``forward_dynamics`` as a CasADi Function, along the tangent of q.

        source: analytic (closed form), ad, complex_step or fd. Second order: ``dynamics.derivatives``.
        """
        from dynamics import derivatives

        if name not in DERIVATIVES:
            raise ModelError(f"no derivatives of {name!r}{near(name, DERIVATIVES)}")
        return self._cached(("d", name, source), lambda: getattr(derivatives, DERIVATIVES[name])(self.model, source))

    def _cached(self, key: tuple[str, ...], build: Any) -> ca.Function:
        if key not in self._made:
            self._made[key] = build()
        return self._made[key]

    # ---- the same, called -------------------------------------------------------------------------------------------------
    def inverse_dynamics(self, q: Values, v: Values, a: Values) -> Values:
        """Efforts [nv] that accelerations need (RNEA)."""
        return _called(self.function("inverse_dynamics"), q, v, a)

    def forward_dynamics(self, q: Values, v: Values, tau: Values) -> Values:
        """Accelerations [nv] under efforts (ABA)."""
        return _called(self.function("forward_dynamics"), q, v, tau)

    def mass_matrix(self, q: Values) -> Values:
        """M [nv, nv] (CRBA)."""
        return _called(self.function("mass_matrix"), q)

    def bias_force(self, q: Values, v: Values) -> Values:
        """Efforts [nv] without acceleration: Coriolis, centrifugal, gravity and damping."""
        return _called(self.function("bias_force"), q, v)

    def gravity_force(self, q: Values) -> Values:
        """Efforts [nv] that hold the robot still."""
        return _called(self.function("gravity_force"), q)

    def centre_of_mass(self, q: Values) -> Values:
        """[3] m in the world."""
        return _called(self.function("centre_of_mass"), q)

    def momentum(self, q: Values, v: Values) -> Values:
        """Centroidal momentum [6], [linear; angular]."""
        return _called(self.function("momentum"), q, v)

    def kinetic_energy(self, q: Values, v: Values) -> Values:
        """J."""
        return _called(self.function("kinetic_energy"), q, v)

    def potential_energy(self, q: Values) -> Values:
        """J."""
        return _called(self.function("potential_energy"), q)

    def integrate(self, q: Values, d: Values) -> Values:
        """The configuration [nq] that a tangent step d [nv] leads to."""
        return _called(self.function("integrate"), q, d)

    def difference(self, q0: Values, q1: Values) -> Values:
        """The tangent step [nv] from one configuration to another."""
        return _called(self.function("difference"), q0, q1)

    def pose(self, frame: str, q: Values) -> tuple[Values, Values]:
        """Rotation [3, 3] and origin [3] m of a frame in the world."""
        rotation, origin = _called(self.frame_function("pose", frame), q)
        return rotation, origin

    def position(self, frame: str, q: Values) -> Values:
        """The origin [3] m of a frame in the world."""
        return self.pose(frame, q)[1]

    def jacobian(self, frame: str, q: Values, reference: str = "world_aligned") -> Values:
        """J [6, nv] of a frame, [linear; angular]; reference: world_aligned, body or world."""
        return _called(self.frame_function("jacobian", frame, reference), q)

    def velocity(self, frame: str, q: Values, v: Values, reference: str = "world_aligned") -> Values:
        """The twist [6] of a frame, [linear; angular]."""
        return _called(self.frame_function("velocity", frame, reference), q, v)


def _called(function: ca.Function, *arguments: Values) -> Any:
    """The outputs for numbers as arrays (columns flat, one number a float), for symbols as expressions."""
    symbolic = any(isinstance(a, (ca.SX, ca.MX)) for a in arguments)
    given = [a if isinstance(a, (ca.SX, ca.MX, ca.DM)) else np.asarray(a, dtype=float) for a in arguments]
    for i, value in enumerate(given):
        size, wanted = (value.numel() if hasattr(value, "numel") else value.size), function.numel_in(i)
        if size != wanted:
            raise ModelError(f"{function.name()}: {function.name_in(i)} has {size} components; {wanted} are expected")
    found: Sequence[Any] = function.call(given)
    made = [value if symbolic else _plain(np.asarray(value, dtype=float)) for value in found]
    return made[0] if len(made) == 1 else tuple(made)


def _plain(value: np.ndarray) -> Any:
    return float(value[0, 0]) if value.size == 1 else value[:, 0] if value.shape[1] == 1 else value
