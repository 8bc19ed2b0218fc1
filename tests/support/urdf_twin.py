"""The same URDF in Pinocchio, with its coordinates matched to ours by joint name."""

from __future__ import annotations

import numpy as np


def build(pin, path, free_flyer: bool):
    if free_flyer:
        return pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    return pin.buildModelFromUrdf(str(path))


def configuration(pin, twin, model, q) -> np.ndarray:
    """Pinocchio's configuration for our q: quaternions x y z w, continuous joints as cosine and sine."""
    out = pin.neutral(twin)
    for i, body in enumerate(model.bodies):
        kind, name = body.joint.kind, body.joint.name
        if kind == "fixed":
            continue
        assert twin.existJointName(name), name
        joint = twin.joints[twin.getJointId(name)]
        part = np.asarray(q)[model.q_slice(i)]
        if body.joint.mimic is not None:
            part = body.joint.mimic.multiplier * part + body.joint.mimic.offset
        if kind == "free_flyer":
            part = np.array([*part[:3], *part[4:], part[3]])
        elif joint.nq == 2 and joint.nv == 1:
            part = np.array([np.cos(part[0]), np.sin(part[0])])
        assert joint.nq == len(part), name
        out[joint.idx_q:joint.idx_q + joint.nq] = part
    return out


class UrdfTwin:
    """A URDF file read by both: our model with independent mimic joints, Pinocchio's model, joints matched by name."""

    def __init__(self, path, root: str):
        import pinocchio as pin

        from dynamics.model.urdf import read_urdf

        self.pin = pin
        self.ours = read_urdf(path, root=root, mimic="independent")
        self.theirs = build(pin, path, root == "free_flyer")
        self.data = self.theirs.createData()
        ours, theirs = self.ours, self.theirs
        self.order = np.full(ours.nv, -1)  # our velocity component -> theirs
        for i, body in enumerate(ours.bodies):
            if ours.kind(i).nv:
                j = theirs.getJointId(body.joint.name)
                assert j < theirs.njoints, f"Pinocchio has no joint {body.joint.name}"
                vs, start = ours.v_slice(i), theirs.joints[j].idx_v
                self.order[vs] = np.arange(start, start + vs.stop - vs.start)
        assert ours.nv == theirs.nv, (ours.nv, theirs.nv)

    def configuration(self, q: np.ndarray) -> np.ndarray:
        """Our q in Pinocchio's order and coordinates."""
        return configuration(self.pin, self.theirs, self.ours, q)

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

        pin = self.pin
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
                J = pin.getFrameJacobian(other, data, index, pin.ReferenceFrame.LOCAL).reshape(6, -1)[:, order]
                out["jacobian"] = max(out["jacobian"], gap(dynamics.make_frame(model, "jacobian", str(name), "body")(q), J))
        return out
