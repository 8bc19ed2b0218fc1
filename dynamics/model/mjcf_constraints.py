"""Couplings of an MJCF file beyond bodies and joints: joint couplings become mimics, connections and welds pairs of frames for a
mechanism to hold together; the rest is named in the notes."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynamics.model.model import Mimic, Placement
from dynamics.model.rigid import placement, rotation_quaternion
from dynamics.model.xmltree import Notes

#: equalities that close loops of the tree, and the joint between their two frames (``dynamics.constraints.Closure``)
CLOSING = {"connect": "spherical", "weld": "fixed"}
_SINGLE_AXIS = (2, 3)  # mjtJoint: slide, hinge


def couplings(m: Any, mujoco: Any, names: list[str], notes: Notes) -> dict[int, Mimic]:
    """Followers of the linear ``<equality><joint>`` couplings by joint index, each tied to its independent leader.

    MuJoCo's coupling is ``q1 - q1_0 = c0 + c1 (q2 - q2_0) + ...`` with the reference coordinates ``q_0``; as a mimic,
    multiplier c1 and offset ``q1_0 + c0 - c1 q2_0``. MuJoCo enforces it softly, a mimic joint exactly.
    """
    direct: dict[int, tuple[int, float, float]] = {}
    for e in range(m.neq):
        what = mujoco.mjtEq(int(m.eq_type[e])).name.removeprefix("mjEQ_").lower()
        name = mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_EQUALITY, e) or str(e)
        if not m.eq_active0[e]:
            notes.tell(f"equality {name!r} ({what}) is not active at the start; not imported")
            continue
        follower, leader, poly = int(m.eq_obj1id[e]), int(m.eq_obj2id[e]), m.eq_data[e][:5]
        if what in CLOSING:
            continue
        if what != "joint":
            notes.tell(f"equality {name!r} ({what}) is not imported: the robot is read without this constraint")
        elif leader < 0 or np.any(poly[2:]):
            notes.tell(f"equality {name!r} is not imported: only a linear coupling of two joints is")
        elif int(m.jnt_type[follower]) not in _SINGLE_AXIS or int(m.jnt_type[leader]) not in _SINGLE_AXIS:
            notes.tell(f"equality {name!r} is not imported: only hinge and slide joints can be coupled")
        elif follower in direct:
            notes.tell(f"equality {name!r} is not imported: joint {names[follower]!r} is coupled already")
        elif follower in _followed(leader, direct):
            notes.tell(f"equality {name!r} is not imported: the couplings would form a cycle")
        else:
            q1, q2 = (float(m.qpos0[m.jnt_qposadr[j]]) for j in (follower, leader))
            direct[follower] = (leader, float(poly[1]), q1 + float(poly[0]) - float(poly[1]) * q2)
    out: dict[int, Mimic] = {}
    for follower in direct:
        leader, multiplier, offset = direct[follower]
        while leader in direct:
            leader, inner, shift = direct[leader]
            multiplier, offset = multiplier * inner, multiplier * shift + offset
        out[follower] = Mimic(names[leader], multiplier, offset)
        notes.tell("soft joint couplings of MuJoCo are rigid here")
    return out


def _followed(joint: int, direct: dict[int, tuple[int, float, float]]) -> list[int]:
    """The joint and all that it follows, through the chain."""
    chain = [joint]
    while chain[-1] in direct:
        chain.append(direct[chain[-1]][0])
    return chain


def closing(m: Any, mujoco: Any) -> list[tuple[str, str, list[tuple[str, int, Placement]]]]:
    """(name, joint, two ends) of each equality that closes a loop; an end is ("SITE", site, identity) or ("BODY", body, placement).

    MuJoCo holds both ends together softly: a connection ``x_1 + R_1 a_1 = x_2 + R_2 a_2``, a weld also ``R_2 = R_1 R``.
    """
    found = []
    for e in range(m.neq):
        what = mujoco.mjtEq(int(m.eq_type[e])).name.removeprefix("mjEQ_").lower()
        if what not in CLOSING or not m.eq_active0[e]:
            continue
        name = mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_EQUALITY, e) or f"{what} {e}"
        data, numbers = np.array(m.eq_data[e]), (int(m.eq_obj1id[e]), int(m.eq_obj2id[e]))
        if int(m.eq_objtype[e]) == int(mujoco.mjtObj.mjOBJ_SITE):
            ends = [("SITE", number, Placement()) for number in numbers]
        elif what == "connect":
            ends = [("BODY", number, placement(None, data[3 * k:3 * k + 3])) for k, number in enumerate(numbers)]
        else:
            ends = [("BODY", numbers[0], placement(rotation_quaternion(data[6:10] / np.linalg.norm(data[6:10])), data[3:6])),
                    ("BODY", numbers[1], placement(None, data[:3]))]
        found.append((name, CLOSING[what], ends))
    return found


def beyond_the_tree(m: Any, mujoco: Any) -> list[str]:
    """Elements that a Model leaves out and a mechanism carries, as sentences."""
    found = [f"{count} {what} are not imported by a tree; read_mechanism reads them"
             for count, what in ((m.nu, "actuators"), (m.ntendon, "tendons")) if count]
    found += [f"equality {name!r} closes a loop, and a tree is read without this constraint; read_mechanism reads it"
              for name, _, _ in closing(m, mujoco)]
    if np.any(m.jnt_stiffness):
        found.append("springs of joints are not imported by a tree; read_mechanism reads them")
    if np.any(m.body_gravcomp):
        found.append("gravity compensation of bodies is not imported by a tree; read_mechanism reads it")
    return found


def tell_the_rest(m: Any, notes: Notes) -> None:
    """Note everything that has an effect in MuJoCo and none in a Model or a Mechanism."""
    for count, what in ((m.nmocap, "mocap bodies"), (m.nflex, "flexes"),
                        (m.nplugin, "plugins"), (m.npair, "explicit contact pairs"), (m.nsensor, "sensors")):
        if count:
            notes.tell(f"{count} {what} are not imported")
    if np.any(m.geom_contype) or np.any(m.geom_conaffinity):
        notes.tell("contacts between shapes are not imported")
    if m.opt.density or m.opt.viscosity:
        notes.tell("forces of the surrounding fluid are not imported")
    if m.nkey and (np.any(m.key_qvel) or np.any(m.key_act) or np.any(m.key_ctrl)):
        notes.tell("velocities, activations and controls of keyframes are not imported")
