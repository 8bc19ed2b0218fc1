"""Pinocchio beside us: the same URDF read by the C++ library, where its Python package is installed. Nothing else imports it.

It has the recursive algorithms and their first derivatives in Python, no second ones. It is called from Python, so that its time
includes some tenths of a microsecond for entering it, which small robots notice. Joint damping, which it leaves out of its
algorithms, is added; a follower of a mimic joint has coordinates of its own there, so that results are projected on ours.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from dynamics.algorithms import tree
from dynamics.model.model import Model
from ocp.app.derivatives.points import Point
from ocp.app.derivatives.stopwatch import Effort, from_python, microseconds
from ocp.app.derivatives.target import Target

Array = np.ndarray
KNOWN = ("inverse_dynamics", "forward_dynamics", "inverse_first", "forward_first")


@dataclass(frozen=True)
class Peer:
    """Their model and data, and the constant map P [their nv, our nv] of velocities; damping: ours [nv]."""

    pin: Any = field(repr=False)
    ours: Model = field(repr=False)
    model: Any = field(repr=False)
    data: Any = field(repr=False)
    P: Array = field(repr=False)
    damping: Array = field(repr=False)

    def values(self, function: str, point: Point) -> tuple[Array, ...]:
        """The outputs of a function of KNOWN in our coordinates."""
        call, P, D = self.call(function, point), self.P, np.diag(self.damping)
        result = call()
        if function == "inverse_dynamics":
            return (P.T @ result + D @ point.v,)
        if function == "forward_dynamics":
            return (P.T @ result,)
        if function == "inverse_first":
            by_q, by_v, M = result
            M = np.triu(M) + np.triu(M, 1).T
            return P.T @ by_q @ P, P.T @ by_v @ P + D, P.T @ M @ P
        by_q, by_v, inverse = result
        inverse = np.triu(inverse) + np.triu(inverse, 1).T
        inverse = P.T @ inverse @ P
        return P.T @ by_q @ P, P.T @ by_v @ P - inverse @ D, inverse

    def call(self, function: str, point: Point) -> Callable[[], Any]:
        """Their function on their arguments, converted once."""
        pin, model, data = self.pin, self.model, self.data
        q, v, a = self.configuration(point.q), self.P @ point.v, self.P @ point.a
        tau = self.P @ (point.tau - self.damping * point.v)
        return {
            "inverse_dynamics": lambda: pin.rnea(model, data, q, v, a),
            "forward_dynamics": lambda: pin.aba(model, data, q, v, tau),
            "inverse_first": lambda: pin.computeRNEADerivatives(model, data, q, v, a),
            "forward_first": lambda: pin.computeABADerivatives(model, data, q, v, tau),
        }[function]

    def time(self, function: str, point: Point, effort: Effort) -> float:
        return microseconds(from_python(self.call(function, point)), effort)

    def configuration(self, q: Array) -> Array:
        """Theirs: quaternions (x, y, z, w), unbounded angles as cosine and sine, followers by themselves."""
        out = self.pin.neutral(self.model)
        for i, body in enumerate(self.ours.bodies):
            if body.joint.kind == "fixed":
                continue
            joint = self.model.joints[self.model.getJointId(body.joint.name)]
            part = np.array(ca.DM(tree.joint_configuration(self.ours, i, ca.DM(q)))).ravel()
            if body.joint.kind == "free_flyer":
                part = np.array([*part[:3], *part[4:], part[3]])
            elif body.joint.kind == "planar":
                part = np.array([*part[:2], np.cos(part[2]), np.sin(part[2])])
            elif joint.nq == 2 and joint.nv == 1:
                part = np.array([np.cos(part[0]), np.sin(part[0])])
            out[joint.idx_q:joint.idx_q + joint.nq] = part
        return out


def find_peer(target: Target) -> tuple[Peer | None, str]:
    """The robot in Pinocchio, or None and why not."""
    if importlib.util.find_spec("pinocchio") is None:
        return None, "Pinocchio is not installed (pip install lieocp[peers])"
    if target.urdf is None:
        return None, "Pinocchio reads URDF files only here"
    import pinocchio as pin  # type: ignore[import-untyped, import-not-found, unused-ignore]

    ours = target.model
    theirs = (pin.buildModelFromUrdf(str(target.urdf), pin.JointModelFreeFlyer()) if target.root == "free_flyer"
              else pin.buildModelFromUrdf(str(target.urdf)))
    theirs.gravity = pin.Motion(np.array([*ours.gravity, 0.0, 0.0, 0.0]))
    P = np.zeros((theirs.nv, ours.nv))
    for i, body in enumerate(ours.bodies):
        if not ours.kind(i).nv:
            continue
        if not theirs.existJointName(body.joint.name):
            return None, f"Pinocchio reads the file without the joint {body.joint.name!r}"
        joint, own = theirs.joints[theirs.getJointId(body.joint.name)], ours.v_slice(i)
        if joint.nv != own.stop - own.start:
            return None, f"Pinocchio gives the joint {body.joint.name!r} {joint.nv} degrees of freedom"
        scale = 1.0 if body.joint.mimic is None else body.joint.mimic.multiplier
        P[joint.idx_v:joint.idx_v + joint.nv, own] = scale * np.eye(joint.nv)
    if not P.any(axis=1).all():
        return None, "Pinocchio reads joints from the file that our model does not have"
    armature, damping = (np.array(ca.densify(tree.diagonal(ours, x))).ravel() for x in ("armature", "damping"))
    theirs.armature = P @ armature
    return Peer(pin, ours, theirs, theirs.createData(), P, damping), ""


def obstacle(peer: Peer, function: str) -> str:
    """Why Pinocchio has no such function for this robot, or nothing."""
    if function not in KNOWN:
        return "Pinocchio's Python package has no second derivatives"
    if function.startswith("forward") and peer.ours.has_coupling:
        return "Pinocchio reads the followers of mimic joints as joints of their own, so its forward dynamics is another one"
    return ""
