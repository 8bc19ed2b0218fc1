"""The public regression scenes 0 to 4, 10 and 12 to 14 of the RedMax reference implementation (github.com/sueda/redmax, commit
40f89b2): geometry, units cm, g, s, and final energies ``T + V - V0`` by BDF1 and BDF2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynamics.forces import Bushing, Cable, JointDamper, JointSpring, JointStop, Place, Spring
from dynamics.mechanism import Mechanism
from dynamics.model import BodyInertia, Builder, Joint, Placement
from dynamics.model.rigid import moved, rotation_axis_angle
from dynamics.model.shapes import box
from dynamics.model.synthetic import as_tuple

X, Y, Z = ((1.0, 0.0, 0.0),), ((0.0, 1.0, 0.0),), ((0.0, 0.0, 1.0),)
LINK, ROD = (10.0, 1.0, 1.0), (1.0, 1.0, 10.0)
HALF, DOWN = (5.0, 0.0, 0.0), (0.0, 0.0, -5.0)


@dataclass(frozen=True)
class Scene:
    mechanism: Mechanism
    q: tuple[float, ...]
    v: tuple[float, ...]
    bdf1: float
    bdf2: float
    h: float = 1e-2
    steps: int = 100


def _tree(*rows, gravity=(0.0, 0.0, -980.0)):
    """Rows: parent (0: world), kind, axes, sides, centre of the body in its joint, then the joint's place in that of its parent."""
    b = Builder("scene", gravity=gravity)
    for k, (parent, kind, axes, sides, at, place) in enumerate(rows, 1):
        place = place if isinstance(place, Placement) else Placement(position=place)
        b.body(f"b{k}", parent=f"b{parent}" if parent else "world", joint=Joint(f"j{k}", kind, place, axes),
               inertia=moved(Placement(position=at), box(1.0, sides)))
        b.frame(f"c{k}", body=f"b{k}", placement=Placement(position=at))
    return b.build()



def scene(number: int) -> Scene:
    o, turn = (0.0, 0.0, 0.0), np.pi
    if number == 0:
        model = _tree(*((k, "fixed" if k % 2 else "revolute", () if k % 2 else Y, LINK, HALF, (10.0 * (k > 0), 0.0, 0.0))
                        for k in range(5)))
        return Scene(Mechanism(model), (turn / 4,) * 3, (0.0,) * 3, -1.2705398823489915e5, 2.6058008179021417e3)
    if number == 1:
        model = _tree((0, "revolute", Z, LINK, HALF, o), (1, "revolute", Y, LINK, HALF, (10.0, 0.0, 0.0)),
                      (2, "revolute", Z, LINK, HALF, (10.0, 0.0, 0.0)))
        return Scene(Mechanism(model), (0.0, turn / 2, turn / 2), (0.0,) * 3, -3.8359074258588909e4, -9.7138545812971279e2)
    if number == 2:
        model = _tree((0, "revolute", X, ROD, DOWN, (0.0, 0.0, 15.0)), (1, "revolute", Z, (1.0, 20.0, 1.0), o, (0.0, 0.0, -10.0)),
                      (2, "revolute", X, ROD, DOWN, (0.0, -10.0, 0.0)), (2, "revolute", Y, ROD, DOWN, (0.0, 10.0, 0.0)))
        return Scene(Mechanism(model), (0.0, 0.0, turn / 4, turn / 4), (0.0,) * 4, -2.2826101928480086e4, -2.4159349151742754e2)
    if number == 3:
        model = _tree((0, "prismatic", X, (20.0, 1.0, 1.0), o, o), (1, "revolute", Y, ROD, DOWN, (-10.0, 0.0, 0.0)))
        return Scene(Mechanism(model), (0.0, turn / 2), (0.0,) * 2, -3.7579402399569808e4, -6.1132876082600706e2)
    if number == 4:
        model = _tree((0, "planar_translation", (), (10.0, 10.0, 1.0), o, o), (1, "revolute", Y, ROD, DOWN, (-5.0, 0.0, 0.0)),
                      (1, "revolute", X, ROD, DOWN, (0.0, -5.0, 0.0)))
        return Scene(Mechanism(model), (0.0, 0.0, turn / 2, turn / 4), (0.0,) * 4, -4.5738939646068720e4, -4.7000178355609387e2)
    if number == 10:
        model = _tree((0, "fixed", (), (20.0, 1.0, 1.0), o, o), (1, "revolute", Y, ROD, DOWN, (-10.0, 0.0, 0.0)),
                      (1, "revolute", Y, ROD, DOWN, (10.0, 0.0, 0.0)),
                      (2, "revolute", Y, (20.0, 1.0, 1.0), (10.0, 0.0, 0.0), (0.0, 0.0, -10.0)),
                      (4, "revolute", Y, ROD, DOWN, (10.0, 0.0, 0.0)))
        closed = Bushing("loop", Place("c3", DOWN), Place("c4", (10.0, 0.0, 0.0)), 1e7)
        return Scene(Mechanism(model, forces=(closed,)), (0.0,) * 4, (0.0, 0.0, 0.0, 5.0), 1.2376477982839792e3,
                     4.1146190850293169e3)
    if number == 12:
        model, long = _tree((0, "revolute", Y, LINK, HALF, o), (1, "revolute", Y, LINK, HALF, (10.0, 0.0, 0.0))), 409.0**0.5
        forces = (Spring("one", (Place("world", (-5.0, 0.0, -5.0)), Place("c2", (0.0, 0.0, -2.0))), 1e6 / long, long, 1e3 / long),
                  Spring("two", (Place("c1", (0.0, 0.0, 2.0)), Place("c2", (0.0, 0.0, 2.0))), 1e5, 10.0, 1e2))
        return Scene(Mechanism(model, forces=forces), (0.0,) * 2, (0.0,) * 2, -2.2145412057327565e4, -8.9887693524038732e3)
    if number == 13:
        model, long = _tree((0, "fixed", (), (0.1, 0.1, 0.1), o, o), (1, "revolute", Y, LINK, HALF, o),
                            (2, "revolute", Y, LINK, HALF, (10.0, 0.0, 0.0)),
                            (1, "prismatic", X, (1.0, 1.0, 1.0), o, (10.0, 0.0, 0.0))), 82.0**0.5 + 8.0
        path = (Place("c4"), Place("c2", (-4.0, 0.0, 1.0)), Place("c3", (-4.0, 0.0, 1.0)))
        cable = Cable("cable", path, 1e6 / long, long, 1e3 / long)
        forces = (cable, JointSpring("spring", "j4", 1e4), JointDamper("damper", "j4", 1e3))
        return Scene(Mechanism(model, forces=forces), (turn / 2, -turn / 2, 0.0), (0.0,) * 3, -3.1874892332895153e4,
                     -2.7872894793863266e4)
    down = Placement(as_tuple(rotation_axis_angle((0.0, 1.0, 0.0), turn / 2)))
    model = _tree((0, "revolute", Y, LINK, HALF, down), (1, "revolute", Y, LINK, HALF, (10.0, 0.0, 0.0)),
                  (2, "revolute", Y, LINK, HALF, (10.0, 0.0, 0.0)))
    forces = tuple(force for k in (1, 2, 3) for force in (
        JointStop(f"stop{k}", f"j{k}", (-turn / 2,), (0.0,), 1e5, 1e2), JointDamper(f"damper{k}", f"j{k}", 1e2)))
    return Scene(Mechanism(model, forces=forces), (0.0, -turn / 6, -turn / 6), (0.0,) * 3, -2.5928305306546572e4,
                 -1.8476279319765570e4, 5e-3, 200)


def four_bar():
    """Three links about y with a tip that can close a loop, not yet built."""
    b = Builder("four bar")
    for k, (parent, at) in enumerate((("world", 0.0), ("l0", 1.0), ("l1", 1.2))):
        b.body(f"l{k}", parent=parent, joint=Joint(f"j{k}", "revolute", Placement(position=(at, 0.0, 0.0)), ((0.0, 1.0, 0.0),)),
               inertia=BodyInertia(1.0 + k, (0.5, 0.0, 0.1), ((0.1, 0.0, 0.0), (0.0, 0.2, 0.0), (0.0, 0.0, 0.2))))
    b.frame("tip", body="l2", placement=Placement(position=(0.9, 0.0, 0.0)))
    return b


NUMBERS = (0, 1, 2, 3, 4, 10, 12, 13, 14)
