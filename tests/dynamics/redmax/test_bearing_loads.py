"""Friction of the joints of a branching tree: loads by the momentum of what a joint carries, slips by differences of poses,
Coulomb's law joint by joint; the same with two branches tied to each other."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from arrays import number
from joint_examples import tree_of_kinds
from row_trees import moved

import dynamics
from dynamics import algorithms as alg
from dynamics.constraints import Closure
from dynamics.forces import JointSpring, Place, PointForce
from dynamics.mechanism import Mechanism
from dynamics.model import Placement
from dynamics.model.records import Frame
from dynamics.redmax.free_bodies import in_maximal_coordinates, maximal_state
from dynamics.redmax.friction import Bearing, BearingStep
from ocp.solvers.qp import QP, solve_qp

H = 1e-3
KINDS = ("spherical", "revolute", "spherical", "prismatic", "exponential", "revolute", "prismatic", "continuous")
RUBBING = ("j1", "j2", "j5")  # revolute under all, a ball, and one far out on another branch
ENDS = (7, 5)
PUSH = np.array([3.0, -2.0, 5.0])
POSES = {}


def box_program(P, g, lower, upper):
    """A small weight chooses where friction has nothing to slow down."""
    weight = 1e-12 * np.trace(P) / len(P) * np.eye(len(P))
    return np.asarray(solve_qp(QP((P + P.T) / 2 + weight, g, np.eye(len(P)), lower, upper)).x)


@pytest.fixture(scope="module")
def tree():
    """Two branches and more, with and without bearings, and a frame on each of two branches that meet at the configuration."""
    model = tree_of_kinds(*KINDS, seed=11, branching=0.5, damping=False)
    assert len({body.parent for body in model.bodies}) < len(KINDS) - 1
    rng = np.random.default_rng(5)
    q, v = alg.random_configuration(model, rng), 0.4 * rng.standard_normal(model.nv)
    (R, p), (S, r) = (poses(model, q)[k] for k in ENDS)
    meet = p + R @ np.array([0.1, 0.2, -0.1])
    frames = [Frame(f"end {k}", i, Placement(position=tuple(at))) for k, (i, at) in enumerate(zip(ENDS, (
        R.T @ (meet - p), S.T @ (meet - r)), strict=True))]
    return replace(model, frames=(*model.frames, *frames)), [Bearing(name, 0.03, 0.1, 0.05) for name in RUBBING], q, v


def poses(model, q):
    if model.fingerprint not in POSES:
        x = ca.SX.sym("q", model.nq)
        parts = [ca.densify(ca.SX(part)) for pose in alg.body_poses(model, x) for part in (pose.R, pose.p)]
        POSES[model.fingerprint] = ca.Function("poses", [x], parts)
    found = POSES[model.fingerprint](q)
    return [(number(R), number(p).ravel()) for R, p in zip(found[::2], found[1::2], strict=True)]


def cross(p, f):
    return np.r_[f, np.cross(p, f)]


def momenta(model, q, v):
    """[n, 6] linear momentum, and angular about the world's origin."""
    found = []
    for body, (R, p), twist in zip(model.bodies, poses(model, q), alg.body_velocities(model, q, v), strict=True):
        speed, spin = number(twist).ravel()[:3], number(twist).ravel()[3:]
        m, c, I = body.inertia.mass, np.array(body.inertia.com), np.array(body.inertia.inertia)
        linear = m * R @ (speed + np.cross(spin, c))
        found.append(np.r_[linear, R @ I @ spin + np.cross(p + R @ c, linear)])
    return np.array(found)


def carried(model, q, v, x, impulses, e=1e-5):
    """[n, 6] what each joint gives to its body (body axes and origin): the change of momentum of all that hangs on it over a step
    to the velocities x, less gravity and the impulses [n, 6] on its bodies."""
    a = (x - v) / H
    rate = (momenta(model, moved(model, q, e * v), v + e * a) - momenta(model, moved(model, q, -e * v), v - e * a)) / (2 * e)
    weights = [cross(p + R @ np.array(b.inertia.com), b.inertia.mass * np.array(model.gravity))
               for b, (R, p) in zip(model.bodies, poses(model, q), strict=True)]
    total = H * (rate - weights) - impulses
    for i in reversed(range(len(total))):
        if (parent := model.bodies[i].parent) >= 0:
            total[parent] += total[i]
    return np.array([np.r_[R.T @ w[:3], R.T @ (w[3:] - np.cross(p, w[:3]))]
                     for (R, p), w in zip(poses(model, q), total, strict=True)])


def slips(model, q, bearings, e=1e-6):
    """[t, nv] velocities along the tangents of all bearings, by differences of the pose of the body in its parent."""
    def inside(i, at):
        (R, p), (S, r) = poses(model, at)[i], (np.eye(3), np.zeros(3))
        if model.bodies[i].parent >= 0:
            S, r = poses(model, at)[model.bodies[i].parent]
        return S.T @ R, S.T @ (p - r)

    rows = []
    for bearing in bearings:
        i = model.joint_index(bearing.joint)
        joint = model.bodies[i].joint
        R, columns = inside(i, q)[0], []
        for unit in np.eye(model.nv):
            (A, a), (B, b) = inside(i, moved(model, q, e * unit)), inside(i, moved(model, q, -e * unit))
            spin = R.T @ (A - B) / (2 * e)
            columns.append(np.r_[R.T @ (a - b) / (2 * e), spin[2, 1], spin[0, 2], spin[1, 0]])
        rows.append(bearing.rows(joint.kind, joint.axes)[1] @ np.column_stack(columns))
    return np.vstack(rows)


def spread(model, bearing, wrench):
    """The smallest normal impulses that come nearest to the wrench, in the norm of the inverse inertia of the body: by an SVD."""
    body = model.bodies[model.joint_index(bearing.joint)]
    m, c, I = body.inertia.mass, np.array(body.inertia.com), np.array(body.inertia.inertia)
    hat = np.cross(c, np.eye(3))  # of -c
    M = np.block([[m * np.eye(3), m * hat], [m * hat.T, I + m * hat.T @ hat]])
    L = np.linalg.cholesky(np.linalg.inv(M)).T
    return np.linalg.lstsq(L @ bearing.rows(body.joint.kind, body.joint.axes)[0].T, L @ wrench, rcond=1e-9)[0]


def check(model, bearings, q, found, loads):
    """Every bearing by itself: its limits are mu times the impulses that share its load, and friction is Coulomb's."""
    slip, first = slips(model, q, bearings) @ found.x, 0
    for bearing in bearings:
        i = model.joint_index(bearing.joint)
        tangents = bearing.rows(model.bodies[i].joint.kind, model.bodies[i].joint.axes)[1]
        own = slice(first, first + len(tangents))
        first += len(tangents)
        b, limits = found.friction[own], found.limits[own]
        expected = bearing.mu * np.abs(spread(model, bearing, loads[i] - tangents.T @ b))
        size = expected.max()
        np.testing.assert_allclose(limits / size, np.repeat(expected, 2) / size, atol=1e-5, err_msg=bearing.joint)
        moves = np.abs(slip[own]) > 1e-6
        np.testing.assert_allclose(b[moves], -np.sign(slip[own][moves]) * limits[moves], atol=1e-5 * size, err_msg=bearing.joint)
        assert moves.any()


def change(model, q, v, found, bearings):
    """[nv] of generalised momentum that neither gravity nor friction makes."""
    M, free = dynamics.make(model, "mass_matrix")(q), dynamics.make(model, "forward_dynamics")(q, v, np.zeros(model.nv))
    made = number(M) @ (found.x - v - H * number(free).ravel())
    return made - (slips(model, q, bearings).T @ found.friction if bearings else 0)


@pytest.mark.row("003:L07", "003:L08", "003:L09")
def test_every_joint_of_a_tree_rubs_by_what_it_carries(tree):
    model, bearings, q, v = tree
    robot = Mechanism(model, forces=(PointForce("push", Place("end 0"), tuple(PUSH)), JointSpring("spring", "j3", 40.0)))
    found = BearingStep(robot, bearings, box_program)(q, v, H)
    assert found.converged
    at = number(alg.frame_pose(model, q, "end 0").p).ravel()
    impulses = np.zeros((len(KINDS), 6))
    impulses[ENDS[0]] = cross(at, H * PUSH)
    check(model, bearings, q, found, carried(model, q, v, found.x, impulses))
    J = number(alg.frame_jacobian(model, q, "end 0", "world_aligned"))[:3]
    outer = H * J.T @ PUSH
    outer[model.v_slice(3)] -= H * 40.0 * q[model.q_slice(3)]
    np.testing.assert_allclose(change(model, q, v, found, bearings), outer, atol=1e-8)
    smooth = BearingStep(robot, [replace(b, mu=0.0) for b in bearings], box_program)(q, v, H)
    np.testing.assert_allclose(change(model, q, v, smooth, []), outer, atol=1e-9)
    assert np.abs(found.x - smooth.x).max() > 1e-4


@pytest.mark.row("003:L10")
def test_two_branches_tied_to_each_other_rub_by_what_tree_and_tie_leave(tree):
    """The impulses of the tie follow from the change of momentum alone, and load the joints between its ends."""
    model, bearings, q, v = tree
    tie, free, x = Closure("tie", "end 0", "end 1", "spherical"), in_maximal_coordinates(model), ca.SX.sym("q", model.nq)
    loops = ca.Function("loops", [x], [ca.densify(tie.jacobian(free.model, maximal_state(model, x, ca.SX(model.nv, 1))[0]))])
    found = BearingStep(Mechanism(model), bearings, box_program, loops)(q, v, H)
    assert found.converged
    J = np.subtract(*(number(alg.frame_jacobian(model, q, f"end {k}", "world_aligned"))[:3] for k in (0, 1)))
    np.testing.assert_allclose(J @ found.x, 0, atol=1e-9)
    made = change(model, q, v, found, bearings)
    tied = np.linalg.lstsq(J.T, made, rcond=None)[0]
    np.testing.assert_allclose(J.T @ tied, made, atol=1e-8)
    at = number(alg.frame_pose(model, q, "end 0").p).ravel()
    impulses = np.zeros((len(KINDS), 6))
    impulses[ENDS[0]], impulses[ENDS[1]] = cross(at, tied), -cross(at, tied)
    check(model, bearings, q, found, carried(model, q, v, found.x, impulses))
    openly = BearingStep(Mechanism(model), bearings, box_program)(q, v, H)
    untied = BearingStep(Mechanism(model), bearings, box_program, ca.Function("none", [x], [ca.SX(0, 6 * len(KINDS))]))(q, v, H)
    np.testing.assert_allclose(untied.x, openly.x, atol=1e-12)
    assert np.abs(found.limits - openly.limits).max() > 1e-3
