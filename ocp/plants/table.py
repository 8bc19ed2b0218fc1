"""Plants by name, as files of whole-body control ask for them. A further one is a class with the methods of a plant, and a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dynamics.constraints import Cone, Contact
from dynamics.errors import near
from dynamics.mechanism import Mechanism
from dynamics.tables import Table
from ocp.errors import ProblemError
from ocp.plants.hybrid import HybridOptions, HybridPlant
from ocp.plants.integrated import Push
from ocp.plants.mujoco import MujocoPlant
from ocp.plants.plant import Plant


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
        raise ProblemError(f"the plane of contact {ends[0]!r} ends ('within'), which this plant does not know; "
                           "take the hybrid plant", where="plant 'mujoco'")
    if setting.cone.sides:
        raise ProblemError("knows the exact cone alone; take the hybrid plant for pyramids", where="plant 'mujoco'")
    return MujocoPlant(setting.mechanism, setting.contacts, pushes=setting.pushes)


PLANTS: Table[PlantKind] = Table("a plant", (PlantKind("hybrid", hybrid), PlantKind("mujoco", mujoco)), ProblemError)


def plant_named(name: str) -> str:
    """The name. Raises ProblemError, with near misses, where there is no such plant."""
    if name not in PLANTS:
        raise ProblemError(f"no plant named {name!r}{near(name, PLANTS)}", where="plant")
    return name
