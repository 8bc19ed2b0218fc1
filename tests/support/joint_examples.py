"""Joints of every kind with parameters that hide nothing, and kinds that only tests have, given by little more than a pose."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import casadi as ca
import numpy as np

import dynamics.joints
from dynamics.joints import KINDS
from dynamics.joints.kind import Family, JointKind, sample_box, vector_space
from dynamics.joints.moving import from_pose
from dynamics.joints.one_dof import rotation_about
from dynamics.lie import quaternion
from dynamics.model import Joint, Model, Placement
from dynamics.model.synthetic import as_tuple, random_rotation, random_tree
from dynamics.spatial import Transform

POINTS = ((0.0, 0.0, 0.0), (0.3, 0.2, -0.1), (0.7, 0.1, 0.3), (0.9, -0.4, 0.2), (1.4, -0.2, 0.5))


def _flat(name, nq, transform):
    return Family(name, 0, lambda joint: JointKind(
        name=name, nq=nq, nv=nq, q_names=tuple(f"q{i}" for i in range(nq)), v_names=tuple(f"v{i}" for i in range(nq)),
        neutral=(0.0,) * nq, random=lambda rng, lower, upper: sample_box(rng, lower, upper, 1.0), angular=(False,) * nq,
        **from_pose(transform, nq, nq), **vector_space(nq)))


def _bead(q):
    return Transform(ca.DM.eye(3), ca.vertcat(q, ca.sin(q), 0))


def _cam(q):
    """Turns and moves, neither evenly."""
    return Transform(rotation_about((0.0, 0.6, 0.8), ca.sin(q) + q**2 / 3), ca.vertcat(ca.cos(q), q**2, 0.3 * q))


def _surface(q):
    x, y = q[0], q[1]
    return Transform(rotation_about((1.0, 0.0, 0.0), x * y) @ rotation_about((0.0, 0.6, 0.8), y), ca.vertcat(x, y, ca.sin(x) * y))


def _wobble(q):
    """A ball that also moves as it turns: a curved manifold with S(q)."""
    return Transform(quaternion.to_matrix(q), ca.vertcat(q[0] * q[1], q[2] ** 2, 0.2 * q[3]))


def _ball(joint):
    other = KINDS["spherical"].make(joint)
    return replace(other, name="wobble", group="", **from_pose(_wobble, 4, 3, quaternion.rate_map))


def _screw(joint):
    axis, pitch = np.array(joint.axes[0]), 0.2
    S = ca.sparsify(ca.DM(np.r_[pitch * axis, axis]))
    turn = KINDS["revolute"].make(joint)
    return replace(turn, name="screw", subspace=lambda q: S,
                   transform=lambda q: Transform(rotation_about(joint.axes[0], q), ca.DM(pitch * axis) * q))


TEST_KINDS = {f.name: f for f in (
    _flat("bead", 1, _bead), _flat("cam", 1, _cam), _flat("surface", 2, _surface), Family("wobble", 0, _ball),
    Family("screw", 1, _screw))}
GENERAL = ("spline_curve", "bead", "cam", "surface", "wobble")  # known by pose and S(q) alone
ALL = MappingProxyType({**KINDS, **TEST_KINDS})
_ROTATED = Placement(as_tuple(random_rotation(np.random.default_rng(3))), (0.1, -0.2, 0.15))
_PARTS = (Joint("ball", "spherical", _ROTATED), Joint("weld", "fixed", _ROTATED), Joint("arm", "universal", _ROTATED, (
    (0.6, 0.0, 0.8), (0.0, 1.0, 0.0))), Joint("rail", "spline_curve", _ROTATED, points=POINTS))

_GRID_RNG = np.random.default_rng(11)
GRID = tuple(tuple((x + a, y + b, c, *small) for y, a, b, c, *small in zip(
    np.arange(5.0), *_GRID_RNG.uniform(-0.3, 0.3, (6, 5)), strict=True)) for x in np.arange(4.0))
FRAMES = tuple(Placement(as_tuple(random_rotation(_GRID_RNG)), tuple(p)) for p in _GRID_RNG.uniform(-1, 1, (6, 3)))


def teach(monkeypatch) -> None:
    """Let models use the kinds of this file."""
    monkeypatch.setattr(dynamics.joints, "KINDS", ALL)


def example(joint: Joint, kind: str) -> Joint:
    """The joint as one of that kind; its axes are used as far as the kind has any."""
    axes = (*joint.axes, (0.0, 0.6, 0.8), (1.0, 0.0, 0.0))[:ALL[kind].n_axes]
    extra = {"chart": {"chart": "yzx"}, "points": {"points": POINTS}, "parts": {"parts": _PARTS},
             "frames": {"frames": FRAMES}, "grid": {"grid": GRID}}
    more = {k: v for field in ALL[kind].takes for k, v in extra[field].items()}
    return replace(joint, kind=kind, axes=axes, armature=(), damping=(), **more)


def tree_of_kinds(*kinds: str, seed: int = 0, branching: float = 0.4, damping: bool = True) -> Model:
    """Bodies with these joint kinds in this order."""
    rng = np.random.default_rng(seed)
    model = random_tree(len(kinds), rng, kinds=["universal"], branching=branching)
    bodies = []
    for body, kind in zip(model.bodies, kinds, strict=True):
        joint = example(body.joint, kind)
        n = dynamics.joints.record(joint).nv
        if damping:
            joint = replace(joint, armature=tuple(rng.uniform(0.01, 0.1, n)), damping=tuple(rng.uniform(0.1, 1.0, n)))
        bodies.append(replace(body, joint=joint))
    return replace(model, bodies=tuple(bodies))
