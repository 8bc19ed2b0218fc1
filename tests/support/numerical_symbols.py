"""The quantities of a tree's dynamics from poses of its bodies alone, by differences and by sums over bodies: no recursion, no
Jacobian and no energy of the package on this side."""

from __future__ import annotations

import casadi as ca
import numpy as np

import dynamics


class NumericalSymbols:
    """The symbols of the sheet's table from poses of the bodies alone: Jacobians and accelerations are differences, everything else
    are sums over bodies, written down as the sheet defines them. World axes."""

    def __init__(self, model, q):
        self.model, self.n = model, model.nv
        names = [b.name for b in model.bodies] + [f.name for f in model.frames]
        x, d = ca.SX.sym("q", model.nq), ca.SX.sym("d", model.nv)
        at = dynamics.make(model, "integrate")(x, d)
        parts = [ca.densify(y) for name in names for y in dynamics.make_frame(model, "pose", name)(at)]
        poses = ca.Function("poses", [x, d], parts)

        def of(d):
            values = [np.array(y) for y in poses(q, d)]
            return {name: (R, p.ravel()) for name, R, p in zip(names, values[::2], values[1::2], strict=True)}

        h = 1e-6
        self.at, self.here, self.around = of, of(np.zeros(self.n)), [(of(h * e), of(-h * e)) for e in np.eye(self.n)]

    def J_P(self, frame, at):
        return np.array([(point(ahead, frame, at) - point(behind, frame, at)) / 2e-6 for ahead, behind in self.around]).T

    def J_R(self, frame):
        R0 = self.here[frame][0]
        return np.array([unhat((ahead[frame][0] - behind[frame][0]) / 2e-6 @ R0.T) for ahead, behind in self.around]).T

    def bodies(self):
        """(m, Theta in world axes, J_P of the centre of mass, J_R, name, com) of every body."""
        for body in self.model.bodies:
            R = self.here[body.name][0]
            yield (body.inertia.mass, R @ np.array(body.inertia.inertia) @ R.T, self.J_P(body.name, body.inertia.com),
                   self.J_R(body.name), body.name, body.inertia.com)

    def rotors(self):
        total = np.zeros(self.n)
        for i, body in enumerate(self.model.bodies):
            if body.joint.armature:
                total[self.model.v_slice(i)] += np.array(body.joint.armature)
        return total

    def M(self):
        return np.diag(self.rotors()) + sum(m * J.T @ J + L.T @ theta @ L for m, theta, J, L, _, _ in self.bodies())

    def newton_euler(self, v, a):
        """sum J_P' m dv_S/dt + J_R' (Theta dw/dt + w x Theta w) of a motion: M a + g."""
        h, total = 1e-4, self.rotors() * a
        along = self.at(h * v + h * h / 2 * a), self.here, self.at(-h * v + h * h / 2 * a)
        for m, theta, J, L, name, com in self.bodies():
            ahead, here, behind = (point(x, name, com) for x in along)
            turned = [x[name][0] for x in along]
            omega = L @ v
            spin = unhat((turned[0] - 2 * turned[1] + turned[2]) / h**2 @ turned[1].T)  # skew part of dR^2/dt^2 R'
            total = total + J.T @ (m * (ahead - 2 * here + behind) / h**2) + L.T @ (theta @ spin + np.cross(omega, theta @ omega))
        return total

    def weight(self):
        return sum(J.T @ (m * np.array(self.model.gravity)) for m, _, J, _, _, _ in self.bodies())

    def kinetic_energy(self, v):
        bodies = sum(m * (J @ v) @ (J @ v) + (L @ v) @ theta @ (L @ v) for m, theta, J, L, _, _ in self.bodies())
        return (bodies + v @ (self.rotors() * v)) / 2

    def potential_energy(self):
        """-sum m g' r_S: zero where the centre of mass is level with the origin."""
        gravity = np.array(self.model.gravity)
        return -sum(b.inertia.mass * gravity @ point(self.here, b.name, b.inertia.com) for b in self.model.bodies)

    def momentum(self, v):
        """Linear, and angular about the origin of the world."""
        return np.sum([np.r_[m * J @ v, theta @ L @ v + np.cross(point(self.here, name, com), m * J @ v)]
                       for m, theta, J, L, name, com in self.bodies()], axis=0)

    def com(self):
        masses = np.array([b.inertia.mass for b in self.model.bodies])
        return masses @ np.array([point(self.here, b.name, b.inertia.com) for b in self.model.bodies]) / masses.sum()


def point(poses, frame, at):
    R, p = poses[frame]
    return R @ np.asarray(at) + p


def unhat(S):
    return np.array([S[2, 1] - S[1, 2], S[0, 2] - S[2, 0], S[1, 0] - S[0, 1]]) / 2
