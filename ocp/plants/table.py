"""Plants by name, as files ask for them. A further one is a class with the methods of a plant, and a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics.constraints import Cone, Contact
from dynamics.errors import near
from dynamics.kernels import compile_kernel
from dynamics.mechanism import Mechanism
from dynamics.tables import Table
from ocp.contacts import with_contacts
from ocp.errors import ProblemError
from ocp.plants.hybrid import HybridOptions, HybridPlant
from ocp.plants.integrated import INTEGRATED, IntegratedPlant, PlantSpec, Push
from ocp.plants.mujoco import MujocoPlant
from ocp.plants.plant import Plant
from ocp.problem import Cost
from ocp.spaces import Space


@dataclass(frozen=True)
class Setting:
    """Parts of a plant: a robot, its contacts, forces that push it, and the friction model."""

    mechanism: Mechanism
    contacts: tuple[Contact, ...] = ()
    pushes: tuple[Push, ...] = ()
    cone: Cone = Cone()


@dataclass(frozen=True)
class PlantKind:
    """make(setting): raises ProblemError for what the plant does not know."""

    name: str
    make: Callable[[Setting], Plant]


def hybrid(setting: Setting) -> Plant:
    """Our simulator of events."""
    return HybridPlant(setting.mechanism, setting.contacts, options=HybridOptions(cone=setting.cone),
                       pushes=setting.pushes)


def mujoco(setting: Setting) -> Plant:
    """MuJoCo, of the extra of that name."""
    if ends := [one.name for one in setting.contacts if one.within is not None]:
        raise ProblemError(f"the plane of contact {ends[0]!r} ends ('within'), which this plant does not support; "
                           "use the hybrid plant", where="plant 'mujoco'")
    if setting.cone.sides:
        raise ProblemError("supports only the exact cone; use the hybrid plant for pyramids", where="plant 'mujoco'")
    return MujocoPlant(setting.mechanism, setting.contacts, pushes=setting.pushes)


PLANTS: Table[PlantKind] = Table("a plant", (PlantKind("hybrid", hybrid), PlantKind("mujoco", mujoco)), ProblemError)


def plant_named(name: str) -> str:
    """The name. Raises ProblemError, with near misses, where there is no such plant."""
    if name not in PLANTS:
        raise ProblemError(f"no plant named {name!r}{near(name, PLANTS)}", where="plant")
    return name


class Measured:
    """A plant whose measurements are noisy: Gaussian, of these standard deviations [ndx] in the tangent space."""

    def __init__(self, plant: Plant, space: Space, deviations: Sequence[float], seed: int):
        x, dx = ca.SX.sym("x", space.nx), ca.SX.sym("dx", space.ndx)
        self.plant, self._deviations, self._random = plant, np.array(deviations, float), np.random.default_rng([seed, 1])
        self._plus = compile_kernel(ca.Function("plus", [x, dx], [ca.densify(ca.SX(space.plus(x, dx)))]))

    def reset(self, x: ArrayLike, t: float = 0.0) -> None:
        """As the plant's."""
        self.plant.reset(x, t)

    def measure(self) -> NDArray[np.float64]:
        """The state [nx] with noise."""
        noise = self._deviations * self._random.standard_normal(self._deviations.size)
        return np.asarray(self._plus(self.plant.measure(), noise))

    def step(self, u: ArrayLike, dt: float) -> NDArray[np.float64]:
        """As the plant's."""
        return self.plant.step(u, dt)


def plant_of(spec: PlantSpec, costs: Sequence[Cost] = (), kernels: str = "auto") -> Plant:
    """The plant of a spec, ready to run; costs, kernels: of an integrated one. Raises ProblemError for disturbances that it does
    not know, and what its kind raises."""
    given = spec.disturbances
    if spec.kind == INTEGRATED:
        return IntegratedPlant(spec, costs, kernels=kernels)
    where = f"plant {plant_named(spec.kind)!r}"
    if spec.robot is None:
        raise ProblemError("simulates only robots", where=where)
    if given.process or given.kicks or any(push.rate or push.controls for push in given.pushes):
        raise ProblemError(f"supports only forces on frames and measurement noise; process noise, kicks, and pushes of rates and "
                           f"controls are of the plant {INTEGRATED!r}", where=where)
    pushes = tuple(replace(push, force=tuple((push.scale * np.array(push.force)).tolist()), scale=1.0) for push in given.pushes)
    contacts = tuple(one for one in spec.robot.constraints if isinstance(one, Contact))
    made = PLANTS[spec.kind].make(Setting(with_contacts(spec.robot, ()), contacts, pushes))
    return Measured(made, spec.system.space, given.measurement, given.seed) if given.measurement else made
