"""The same robot in Pinocchio, and states in its order: quaternions (x, y, z, w), unbounded angles as (cos, sin)."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from dynamics.model import Model


def build(model: Model) -> pin.Model:
    """Body by body through Pinocchio's own joints (it has no universal joint, and mimic joints are left out here)."""
    twin = pin.Model()
    twin.gravity = pin.Motion(np.array(model.gravity), np.zeros(3))
    ids: list[int] = []
    for body in model.bodies:
        joint = body.joint
        make = {
            "revolute": lambda j: pin.JointModelRevoluteUnaligned(np.array(j.axes[0])),
            "continuous": lambda j: pin.JointModelRevoluteUnaligned(np.array(j.axes[0])),
            "prismatic": lambda j: pin.JointModelPrismaticUnaligned(np.array(j.axes[0])),
            "spherical": lambda j: pin.JointModelSpherical(),
            "planar": lambda j: pin.JointModelPlanar(),
            "free_flyer": lambda j: pin.JointModelFreeFlyer(),
        }[joint.kind]
        placement = pin.SE3(np.array(joint.placement.rotation), np.array(joint.placement.position))
        index = twin.addJoint(0 if body.parent < 0 else ids[body.parent], make(joint), placement, joint.name)
        inertia = body.inertia
        twin.appendBodyToJoint(
            index, pin.Inertia(inertia.mass, np.array(inertia.com), np.array(inertia.inertia)), pin.SE3.Identity())
        twin.addFrame(pin.Frame(body.name, index, 0, pin.SE3.Identity(), pin.FrameType.BODY))
        ids.append(index)
    for frame in model.frames:
        placement = pin.SE3(np.array(frame.placement.rotation), np.array(frame.placement.position))
        index = ids[frame.body] if frame.body >= 0 else 0
        twin.addFrame(pin.Frame(frame.name, index, 0, placement, pin.FrameType.OP_FRAME))
    armature = [x for b in model.bodies for x in (b.joint.armature or (0.0,) * model.kind(model.body_index(b.name)).nv)]
    twin.armature = np.array(armature)
    return twin


def configuration(model: Model, q: np.ndarray) -> np.ndarray:
    """Our q in Pinocchio's coordinates, for twins made by :func:`build`."""
    parts = []
    for i, body in enumerate(model.bodies):
        x, kind = np.asarray(q)[model.q_slice(i)], body.joint.kind
        if kind == "spherical":
            x = x[[1, 2, 3, 0]]
        elif kind == "free_flyer":
            x = np.r_[x[:3], x[[4, 5, 6, 3]]]
        elif kind == "planar":
            x = np.r_[x[:2], np.cos(x[2]), np.sin(x[2])]
        parts.append(x)
    return np.concatenate(parts)


class UrdfTwin:
    """A URDF file read by both: our model with independent mimic joints, Pinocchio's model, joints matched by name."""

    def __init__(self, path, root: str):
        from dynamics.model.urdf import read_urdf

        self.ours = read_urdf(path, root=root, mimic="independent")
        if root == "free_flyer":
            self.theirs = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
        else:
            self.theirs = pin.buildModelFromUrdf(str(path))
        self.data = self.theirs.createData()
        ours, theirs = self.ours, self.theirs
        self.order = np.full(ours.nv, -1)  # our velocity component -> theirs
        self.joints: list[tuple[int, int]] = []
        for i, body in enumerate(ours.bodies):
            if ours.kind(i).nv:
                j = theirs.getJointId(body.joint.name)
                assert j < theirs.njoints, f"Pinocchio has no joint {body.joint.name}"
                vs, start = ours.v_slice(i), theirs.joints[j].idx_v
                self.order[vs] = np.arange(start, start + vs.stop - vs.start)
                self.joints.append((i, j))
        assert ours.nv == theirs.nv, (ours.nv, theirs.nv)

    def configuration(self, q: np.ndarray) -> np.ndarray:
        """Our q in Pinocchio's order and coordinates."""
        out = pin.neutral(self.theirs)
        for i, j in self.joints:
            joint, x = self.theirs.joints[j], np.asarray(q)[self.ours.q_slice(i)]
            if self.ours.bodies[i].joint.kind in ("spherical", "free_flyer"):
                x = np.r_[x[:-4], x[[-3, -2, -1, -4]]]
            elif self.ours.bodies[i].joint.kind == "planar":
                x = np.r_[x[:2], np.cos(x[2]), np.sin(x[2])]
            elif joint.nq == 2:  # an unbounded angle is (cos, sin) there
                x = np.array([np.cos(x[0]), np.sin(x[0])])
            out[joint.idx_q:joint.idx_q + joint.nq] = x
        return out

    def velocity(self, v: np.ndarray) -> np.ndarray:
        out = np.zeros(self.theirs.nv)
        out[self.order] = v
        return out

    def compare(self, rng: np.random.Generator, frames: int = 3) -> dict[str, float]:
        """Largest difference of each quantity at one random state, over 1 + its largest entry."""
        import casadi as ca

        import dynamics
        from dynamics import algorithms as alg
        from dynamics.algorithms import tree

        model, other, data, order = self.ours, self.theirs, self.data, self.order
        q = alg.random_configuration(model, rng)
        v, a = rng.standard_normal(model.nv), rng.standard_normal(model.nv)
        x, vv, aa = self.configuration(q), self.velocity(v), self.velocity(a)
        damping = np.array(ca.densify(tree.diagonal(model, "damping"))).ravel() * v  # Pinocchio leaves damping out
        rotors = np.array(ca.densify(tree.diagonal(model, "armature"))).ravel()
        other.armature = self.velocity(rotors)

        def call(name, *args):
            return np.array(dynamics.make(model, name)(*args))

        def gap(mine, ref):
            mine, ref = np.asarray(mine).ravel(), np.asarray(ref).ravel()
            return float(np.abs(mine - ref).max(initial=0.0) / (1 + np.abs(ref).max(initial=0.0)))

        M = np.triu(pin.crba(other, data, x))
        M = (M + np.triu(M, 1).T)[np.ix_(order, order)]
        tau = pin.rnea(other, data, x, vv, aa)
        out = {
            "mass_matrix": gap(call("mass_matrix", q), M),
            "inverse_dynamics": gap(call("inverse_dynamics", q, v, a).ravel() - damping, tau[order]),
            "bias_force": gap(call("bias_force", q, v).ravel() - damping, pin.nonLinearEffects(other, data, x, vv)[order]),
            "gravity_force": gap(call("gravity_force", q), pin.computeGeneralizedGravity(other, data, x)[order]),
            "potential_energy": 0.0, "kinetic_energy": 0.0, "centre_of_mass": 0.0, "jacobian": 0.0, "pose": 0.0,
        }
        if model.nv and np.linalg.eigvalsh(M).min() > 1e-12 * np.abs(M).max():
            torque = call("inverse_dynamics", q, v, a).ravel()
            ours = call("forward_dynamics", q, v, torque).ravel()
            theirs = pin.aba(other, data, x, vv, self.velocity(torque - damping))[order]
            # accelerations of massless fingers are ill conditioned for both: compare the forces they stand for
            out["forward_dynamics"] = gap(M @ ours, M @ theirs)
        other.armature = np.zeros(other.nv)
        if model.mass > 0:
            mass = sum(inertia.mass for inertia in other.inertias[1:])
            out["kinetic_energy"] = gap(call("kinetic_energy", q, v) - v @ (rotors * v) / 2,
                                        np.array(pin.computeKineticEnergy(other, data, x, vv)))
            # Pinocchio counts a welded root link's weight in neither, but the two may place it differently
            out["centre_of_mass"] = gap(call("centre_of_mass", q).ravel() * model.mass, pin.centerOfMass(other, data, x) * mass)
            out["potential_energy"] = gap(call("potential_energy", q), np.array(pin.computePotentialEnergy(other, data, x)))
        pin.computeJointJacobians(other, data, x)
        pin.framesForwardKinematics(other, data, x)
        names = [body.name for body in model.bodies if other.existFrame(body.name)]
        names += [frame.name for frame in model.frames if other.existFrame(frame.name)]
        for name in rng.permutation(names)[:frames]:
            index = other.getFrameId(str(name), pin.FrameType.BODY) if other.existFrame(str(name), pin.FrameType.BODY) \
                else other.getFrameId(str(name))
            R, p = dynamics.make_frame(model, "pose", str(name))(q)
            out["pose"] = max(out["pose"], gap(R, data.oMf[index].rotation), gap(p, data.oMf[index].translation))
            if model.nv:  # Pinocchio crashes on the Jacobian of a robot that cannot move
                J = pin.getFrameJacobian(other, data, index, pin.ReferenceFrame.LOCAL)[:, order]
                out["jacobian"] = max(out["jacobian"], gap(dynamics.make_frame(model, "jacobian", str(name), "body")(q), J))
        return out
