"""Actuators, springs and tendons of an MJCF file as drives and forces (MuJoCo documentation, "Computation", actuation model).

A control here is the force of the actuator before its gear, u = gain ctrl, so that limits are in N m or N. Feedback inside an
actuator (position and velocity servos) and its activation are not imported: a note names each, and u drives the joint directly.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.constraints import Closure
from dynamics.forces import Bushing, Cable, Expression, Force, JointSpring, Place, PointForce, Spring, Torsion
from dynamics.lie import quaternion, so3
from dynamics.mechanism.drives import INF, Motor, Thruster, reflected
from dynamics.mechanism.mechanism import Mechanism
from dynamics.model.mjcf import MjModel, compile_mjcf, model_of, names_of
from dynamics.model.model import Model
from dynamics.model.xmltree import Notes

FREE, BALL = 0, 1  # of mjtJoint


def read_mjcf_mechanism(path_or_text: str | os.PathLike[str], *, gravity: tuple[float, ...] | None = None) -> Mechanism:
    """The tree of ``read_mjcf`` with its actuators as motors and thrusters, its springs, tendons and gravity compensation as
    forces, its connections and welds as constraints.

    A file without actuators has no drives. What is not imported is in ``model.notes``. Raises ModelError as ``read_mjcf`` does.
    """
    m, source, mujoco = compile_mjcf(path_or_text)
    notes = Notes()
    model, sites, loops = model_of(m, source, mujoco, notes, gravity, closed=True)
    joints = names_of(m, mujoco, "JOINT", m.njnt)
    forces = [*_springs(m, model, joints), *_rotors(model), *_tendons(m, mujoco, model, joints, sites, notes),
              *_compensation(m, mujoco, model)]
    motors, thrusters, armature = _drives(m, mujoco, model, joints, sites, notes)
    held = tuple(_closures(model, loops, notes))
    model = replace(reflected(model, armature), notes=(*model.notes, *(n for n in notes.lines() if n not in model.notes)))
    return Mechanism(model, tuple(motors), tuple(thrusters), tuple(forces), held)


def _closures(model: Model, loops: Sequence[tuple[str, str, str, str]], notes: Notes) -> Iterator[Closure]:
    """Elements that close loops; the joint of a mechanism holds exactly."""
    for name, joint, first, second in loops:
        if model.frame(first).body == model.frame(second).body:
            notes.tell(f"equality {name!r} connects a body to itself; ignored")
            continue
        notes.tell("soft connect and weld constraints of MuJoCo are rigid here")
        yield Closure(name, first, second, joint)


class Drives(NamedTuple):
    """Motors, thrusters, and what rotors add to the armature of velocities by name."""

    motors: list[Motor]
    thrusters: list[Thruster]
    armature: dict[str, float]


# ---- actuators ----------------------------------------------------------------------------------------------------------
def _drives(m: MjModel, mujoco: ModuleType, model: Model, joints: list[str], sites: tuple[str, ...], notes: Notes
            ) -> Drives:
    """Motors, thrusters, and what rotors add to the armature of velocities by name."""
    kind = mujoco.mjtTrn
    motors: list[Motor] = []
    thrusters: list[Thruster] = []
    armature: dict[str, float] = {}
    disabled = int(m.opt.disableflags) & int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)
    if m.nu and disabled:
        notes.tell("the file's flags disable its actuators; the robot has no drives")
        return Drives(motors, thrusters, armature)
    for a, name in enumerate(names_of(m, mujoco, "ACTUATOR", m.nu)):
        what, target, gear = int(m.actuator_trntype[a]), int(m.actuator_trnid[a][0]), np.array(m.actuator_gear[a])
        group = int(m.actuator_group[a])
        if 0 <= group < 31 and int(m.opt.disableactuator) >> group & 1:
            notes.tell(f"actuator {name!r} is not imported: the file disables its group {group}")
            continue
        low, high = _range(m, mujoco, a, name, notes)
        gears: list[tuple[str, float]] = []
        if what in (kind.mjTRN_JOINT, kind.mjTRN_JOINTINPARENT) and int(m.jnt_type[target]) not in (FREE, BALL):
            gears = [(_leader(model, joints[target]), float(gear[0]) * _ratio(model, joints[target]))]
        elif what in (kind.mjTRN_JOINT, kind.mjTRN_JOINTINPARENT) and int(m.jnt_type[target]) == BALL \
                and what == kind.mjTRN_JOINT:
            gears = [(f"{joints[target]}.{c}", float(x)) for c, x in zip(("wx", "wy", "wz"), gear[:3], strict=True) if x]
        elif what == kind.mjTRN_TENDON and (fixed := _combination(m, mujoco, model, joints, target)) is not None:
            gears = [(velocity, float(gear[0]) * ratio) for velocity, ratio in fixed.items() if ratio]
        elif what == kind.mjTRN_SITE and int(m.actuator_trnid[a][1]) >= 0:
            if (twist := _twist_between(model, name, sites[target], sites[int(m.actuator_trnid[a][1])], gear)) is not None:
                thrusters.append(replace(twist, lower=low, upper=high))
                continue
        elif what == kind.mjTRN_SITE and int(m.actuator_trnid[a][1]) < 0:
            length = float(np.linalg.norm(gear[:3])) or 1.0
            axis, moment = tuple(gear[:3] / length), tuple(gear[3:] / length)
            thrusters.append(Thruster(name, sites[target], (axis[0], axis[1], axis[2]), 0.0, (0.0, 0.0, 0.0),
                                      (moment[0], moment[1], moment[2]), low * length, high * length))
            continue
        if not gears or any(ratio == 0.0 for _, ratio in gears):
            notes.tell(f"actuator {name!r} is not imported: its transmission ({kind(what).name.removeprefix('mjTRN_').lower()}) "
                       "is neither a joint, a fixed tendon, a site, nor a torque between sites of two bodies")
            continue
        rotor = float(getattr(m, "actuator_armature", np.zeros(m.nu))[a])
        if rotor and what in (kind.mjTRN_JOINT, kind.mjTRN_JOINTINPARENT):
            ball = int(m.jnt_type[target]) == BALL  # MuJoCo takes its first gear for all three velocities
            for velocity in ([f"{joints[target]}.{c}" for c in ("wx", "wy", "wz")] if ball else [gears[0][0]]):
                armature[velocity] = armature.get(velocity, 0.0) + rotor * (float(gear[0]) if ball else gears[0][1]) ** 2
        elif rotor:
            notes.tell(f"actuator {name!r}: the armature of a transmission to several joints is not imported")
        if np.any(getattr(m, "actuator_damping", np.zeros(m.nu))[a]):
            notes.tell(f"actuator {name!r}: its damping is not imported")
        motors.append(Motor(name, tuple(gears), low, high))
    return Drives(motors, thrusters, armature)


def _twist_between(model: Model, name: str, site: str, reference: str, gear: np.ndarray) -> Thruster | None:
    """The torque on a site against its site of reference, whose axes are those of the gear; None for what is anything else."""
    body, other = (model.frame(frame).body for frame in (site, reference))
    if gear[:3].any() or not gear[3:].any() or other < 0 or body == other:
        return None
    return Thruster(name, reference, (0.0, 0.0, 0.0), moment=(-float(gear[3]), -float(gear[4]), -float(gear[5])), against=site)


def _range(m: MjModel, mujoco: ModuleType, a: int, name: str, notes: Notes) -> tuple[float, float]:
    """Limits of the force of an actuator, [N m or N] before its gear."""
    low, high = -INF, INF
    gain, plain = float(m.actuator_gainprm[a][0]), int(m.actuator_gaintype[a]) == int(mujoco.mjtGain.mjGAIN_FIXED)
    servo = int(m.actuator_biastype[a]) != int(mujoco.mjtBias.mjBIAS_NONE)
    if servo or not plain:
        notes.tell(f"actuator {name!r}: its gain and bias are not imported; the control is its force")
    elif m.actuator_ctrllimited[a]:
        low, high = sorted(gain * x for x in m.actuator_ctrlrange[a])
    if int(m.actuator_dyntype[a]) != int(mujoco.mjtDyn.mjDYN_NONE):
        notes.tell(f"actuator {name!r}: its activation is not imported; the control is its force")
    if m.actuator_forcelimited[a]:
        low, high = max(low, float(m.actuator_forcerange[a][0])), min(high, float(m.actuator_forcerange[a][1]))
    least, most = _transmitted(m, mujoco, a, name, notes)
    return float(max(low, least)), float(min(high, most))


def _transmitted(m: MjModel, mujoco: ModuleType, a: int, name: str, notes: Notes) -> tuple[float, float]:
    """Effort limits of all actuators of a hinge, a slide or a tendon together: of joints behind the gears, of tendons before them;
    [N m or N] before the gear of this one."""
    kind, what, target, gear = mujoco.mjtTrn, int(m.actuator_trntype[a]), int(m.actuator_trnid[a][0]), float(m.actuator_gear[a][0])
    of = ""
    if what == kind.mjTRN_TENDON:
        of, gear = "tendon", 1.0
    elif what in (kind.mjTRN_JOINT, kind.mjTRN_JOINTINPARENT) and int(m.jnt_type[target]) not in (FREE, BALL):
        of = "jnt"
    if not of or not gear or not np.any(getattr(m, f"{of}_actfrclimited", np.zeros(m.njnt + m.ntendon))[target]):
        return -INF, INF
    low, high = (float(x) for x in getattr(m, f"{of}_actfrcrange")[target])
    if np.count_nonzero((m.actuator_trntype == what) & (m.actuator_trnid[:, 0] == target)) > 1:
        if of == "tendon" or low != -high:
            notes.tell(f"actuator {name!r}: the range {low:g} to {high:g} that it shares with others is not imported")
        return -INF, INF
    return min(low / gear, high / gear), max(low / gear, high / gear)


def _leader(model: Model, joint: str) -> str:
    mimic = model.bodies[model.joint_index(joint)].joint.mimic
    return joint if mimic is None else mimic.leader


def _ratio(model: Model, joint: str) -> float:
    mimic = model.bodies[model.joint_index(joint)].joint.mimic
    return 1.0 if mimic is None else mimic.multiplier


def _combination(m: MjModel, mujoco: ModuleType, model: Model, joints: list[str], tendon: int) -> dict[str, float] | None:
    """The velocities that a fixed tendon adds up, with their coefficients; None for a spatial one."""
    out: dict[str, float] = {}
    first = int(m.tendon_adr[tendon])
    for w in range(first, first + int(m.tendon_num[tendon])):
        if int(m.wrap_type[w]) != int(mujoco.mjtWrap.mjWRAP_JOINT):
            return None
        joint = joints[int(m.wrap_objid[w])]
        out[_leader(model, joint)] = out.get(_leader(model, joint), 0.0) + float(m.wrap_prm[w]) * _ratio(model, joint)
    return out


# ---- springs, tendons, compensation --------------------------------------------------------------------------------------
def _springs(m: MjModel, model: Model, joints: list[str]) -> list[Force]:
    out: list[Force] = []
    for j in np.flatnonzero(m.jnt_stiffness):
        name, k, at = joints[j], float(m.jnt_stiffness[j]), int(m.jnt_qposadr[j])
        mimic = model.bodies[model.joint_index(name)].joint.mimic
        if int(m.jnt_type[j]) == FREE:
            out += _free_spring(m, model, name, k, at)
        elif int(m.jnt_type[j]) == BALL:
            out.append(JointSpring(f"spring of {name}", name, k, tuple(float(x) for x in m.qpos_spring[at:at + 4])))
        elif mimic is None:
            out.append(JointSpring(f"spring of {name}", name, k, (float(m.qpos_spring[at]),)))
        elif mimic.multiplier:
            rest = (float(m.qpos_spring[at]) - mimic.offset) / mimic.multiplier
            out.append(JointSpring(f"spring of {name}", mimic.leader, k * mimic.multiplier**2, (rest,)))
    return out


def _free_spring(m: MjModel, model: Model, name: str, k: float, at: int) -> list[Force]:
    """Of MuJoCo's free joint: the springs of position and of rotation act in the world, each by itself."""
    body = model.bodies[model.joint_index(name)].name
    rest = [float(x) for x in m.qpos_spring[at:at + 7]]
    turned = np.asarray(ca.DM(so3.log(quaternion.to_matrix(ca.DM(rest[3:]))))).ravel()
    return [Bushing(f"spring of {name}", Place("world", (rest[0], rest[1], rest[2])), Place(body), k),
            Torsion(f"spring of {name} (rotation)", "world", body, k, rest=(float(turned[0]), float(turned[1]), float(turned[2])))]


def _rotors(model: Model) -> list[Force]:
    """The armature of free joints beyond its entry on the diagonal in MuJoCo: its velocity is that of the world, whose
    rate is ``R (dv/dt + w x v)``. No power comes of it."""
    out: list[Force] = []
    for i, body in enumerate(model.bodies):
        if body.joint.kind == "free_flyer" and any(body.joint.armature):
            q, v, total = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX(model.nv, 1)
            first = model.v_slice(i).start
            total[first:first + 3] = -body.joint.armature[0] * ca.cross(v[first + 3:first + 6], v[first:first + 3])
            out.append(Expression(f"armature of {body.joint.name}", ca.Function("armature", [q, v], [ca.densify(total)])))
    return out


def _tendons(m: MjModel, mujoco: ModuleType, model: Model, joints: list[str], sites: tuple[str, ...], notes: Notes) -> list[Force]:
    out: list[Force] = []
    for t, name in enumerate(names_of(m, mujoco, "TENDON", m.ntendon)):
        for array, what in (("tendon_armature", "armature"), ("tendon_frictionloss", "dry friction"), ("tendon_limited", "limit"),
                            ("tendon_stiffnesspoly", "nonlinear spring"), ("tendon_dampingpoly", "nonlinear damper"),
                            ("tendon_springyield", "yielding spring")):
            if np.any(getattr(m, array, np.zeros(m.ntendon))[t]):  # older versions have no such array
                notes.tell(f"tendon {name!r}: its {what} is not imported")
        k, c, (short, long) = float(m.tendon_stiffness[t]), float(m.tendon_damping[t]), m.tendon_lengthspring[t]
        if not (k or c):
            continue
        fixed = _combination(m, mujoco, model, joints, t)
        if fixed is not None:
            out.append(_fixed_tendon(model, name, fixed, _length_at_zero(m, model, joints, t), k, c, float(short), float(long)))
            continue
        first = int(m.tendon_adr[t])
        wraps = range(first, first + int(m.tendon_num[t]))
        if any(int(m.wrap_type[w]) != int(mujoco.mjtWrap.mjWRAP_SITE) for w in wraps) or (k and short not in (0.0, long)):
            notes.tell(f"tendon {name!r} is not imported: only straight segments between sites with one rest length are")
            continue
        places = tuple(Place(sites[int(m.wrap_objid[w])]) for w in wraps)
        if short == long:
            out.append(Spring(name, places, k, float(long), c))
            continue
        out += [Cable(name, places, k, float(long))] if k else []
        out += [Spring(f"{name} (damper)", places, 0.0, 0.0, c)] if c else []
    return out


def _length_at_zero(m: MjModel, model: Model, joints: list[str], tendon: int) -> float:
    """Contribution of followers to the length of a fixed tendon when their leaders are at zero."""
    first, total = int(m.tendon_adr[tendon]), 0.0
    for w in range(first, first + int(m.tendon_num[tendon])):
        mimic = model.bodies[model.joint_index(joints[int(m.wrap_objid[w])])].joint.mimic
        total += float(m.wrap_prm[w]) * (mimic.offset if mimic else 0.0)
    return total


def _fixed_tendon(model: Model, name: str, ratios: dict[str, float], offset: float, k: float, c: float, short: float, long: float
                  ) -> Expression:
    """Spring with a band where it is slack, and damper, of the length ``sum ratio q + offset``."""
    q, v = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
    g = ca.SX(model.nv, 1)
    length: Any = ca.SX(offset)
    for velocity, ratio in ratios.items():
        g[model.velocity_names.index(velocity)] = ratio
        length = length + ratio * q[model.coordinate_names.index(velocity)]
    stretch = length - long if short == long else ca.fmax(length - long, 0) + ca.fmin(length - short, 0)
    return Expression(name, ca.Function("tendon", [q, v], [ca.densify(-g * (k * stretch + c * ca.dot(g, v)))]))


def _compensation(m: MjModel, mujoco: ModuleType, model: Model) -> list[Force]:
    """Lifts at the centres of mass of bodies whose weight MuJoCo takes away."""
    out: list[Force] = []
    names = names_of(m, mujoco, "BODY", m.nbody)
    known = {body.name for body in model.bodies} | {frame.name for frame in model.frames}
    for b in np.flatnonzero(m.body_gravcomp):
        if names[b] in known and model.frame(names[b]).body >= 0:
            lift = -float(m.body_gravcomp[b] * m.body_mass[b]) * np.array(model.gravity)
            at = tuple(float(x) for x in m.body_ipos[b])
            out.append(PointForce(f"gravity compensation of {names[b]}", Place(names[b], (at[0], at[1], at[2])),
                                  (float(lift[0]), float(lift[1]), float(lift[2]))))
    return out
