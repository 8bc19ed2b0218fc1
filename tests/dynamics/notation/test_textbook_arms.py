"""The textbook robots: closed forms of Hutter et al., Robot Dynamics lecture notes, and general serial chains."""

import casadi as ca
import numpy as np
import pytest
import reference_kinematics as reference
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

import dynamics
from dynamics import algorithms as alg
from dynamics.errors import ModelError
from dynamics.model import Builder, Joint, Placement
from dynamics.model.synthetic import random_tree
from dynamics.notation import textbook_robots as textbook

LENGTHS, HEIGHT = (0.7, 0.5, 0.3), 0.4


def jacobian(model, q, reference_axes="world_aligned"):
    return np.array(dynamics.make_frame(model, "jacobian", "end_effector", reference_axes)(q))


def pose(model, q, frame="end_effector"):
    R, p = dynamics.make_frame(model, "pose", frame)(q)
    return np.array(R), np.array(p).ravel()


def arm_sums(q):
    """sin and cos of q1, q1 + q2, q1 + q2 + q3."""
    s = np.cumsum(q)
    return np.sin(s), np.cos(s)


# ---------------------------------------------------------------------------------------------- planar arm
@pytest.mark.row("001:K42", "001:K41")
def test_planar_arm_forward_kinematics():
    """Eqs. 2.141, 2.142 at random angles, the straight arm, and a worked posture."""
    arm = textbook.planar_arm(LENGTHS, HEIGHT)
    for q in np.random.default_rng(1).uniform(-3, 3, (5, 3)):
        s, c = arm_sums(q)
        R, p = pose(arm, q)
        np.testing.assert_allclose(p, [s @ LENGTHS, 0, HEIGHT + c @ LENGTHS], atol=1e-14)
        np.testing.assert_allclose(R, Rotation.from_rotvec([0, q.sum(), 0]).as_matrix(), atol=1e-14)
    np.testing.assert_allclose(pose(arm, np.zeros(3))[1], [0, 0, HEIGHT + sum(LENGTHS)], atol=1e-15)
    unit = textbook.planar_arm((1, 1, 1), 0.25)
    np.testing.assert_allclose(pose(unit, [np.pi / 6, np.pi / 3, np.pi / 3])[1], [2, 0, 0.25], atol=1e-15)


@pytest.mark.row("001:K47")
def test_planar_arm_basic_jacobian_is_the_five_step_result():
    """Eqs. 2.186 and 2.188, row by row, and the Jacobian of Example 2.9.1 with its singular values."""
    arm = textbook.planar_arm(LENGTHS, HEIGHT)
    q = np.array([0.3, -0.8, 1.1])
    s, c = arm_sums(q)
    tail = [sum(LENGTHS[i] * c[i] for i in range(k, 3)) for k in range(3)]
    drop = [-sum(LENGTHS[i] * s[i] for i in range(k, 3)) for k in range(3)]
    expected = np.array([tail, [0] * 3, drop, [0] * 3, [1] * 3, [0] * 3], float)
    np.testing.assert_allclose(jacobian(arm, q), expected, atol=1e-14)

    J = jacobian(textbook.planar_arm(), [np.pi / 6, np.pi / 3, np.pi / 3])[[0, 2]]
    np.testing.assert_allclose(J, [[0, -np.sqrt(3) / 2, -np.sqrt(3) / 2], [-2, -1.5, -0.5]], atol=1e-15)
    np.testing.assert_allclose(np.linalg.svd(J, compute_uv=False), [2.653560, 0.979091], atol=5e-7)
    assert np.linalg.det(J @ J.T) == pytest.approx(6.75, abs=1e-13)


@pytest.mark.row("001:K44")
def test_planar_arm_analytical_jacobian():
    """The derivative of (x, z, q1 + q2 + q3), Eqs. 2.149 and 2.150; planar, so it equals the basic Jacobian's rows."""
    arm = textbook.planar_arm(LENGTHS, HEIGHT)
    q = ca.SX.sym("q", 3)
    H = alg.frame_pose(arm, q, "end_effector")
    chi = ca.vertcat(H.p[0], H.p[2], ca.atan2(H.R[0, 2], H.R[2, 2]))
    J_A = np.array(ca.Function("J", [q], [ca.jacobian(chi, q)])([0.4, 0.2, -0.9]))
    s, c = arm_sums([0.4, 0.2, -0.9])
    closed = [[sum(LENGTHS[i] * c[i] for i in range(k, 3)) for k in range(3)],
              [-sum(LENGTHS[i] * s[i] for i in range(k, 3)) for k in range(3)], [1, 1, 1]]
    np.testing.assert_allclose(J_A, closed, atol=1e-14)
    np.testing.assert_allclose(jacobian(arm, [0.4, 0.2, -0.9])[[0, 2, 4]], closed, atol=1e-14)


# ---------------------------------------------------------------------------------------------- SCARA
@pytest.mark.row("001:K39")
def test_scara_operational_coordinates_rank_and_singularities():
    """q = (alpha, beta, gamma, zeta), chi_o = (x, y, z, alpha + beta + gamma): rank 4, lost where sin(beta) = 0."""
    arm = textbook.scara((0.4, 0.3), 0.5)
    assert arm.coordinate_names == ("alpha", "beta", "gamma", "zeta")
    q = np.array([0.7, -1.1, 0.4, -0.15])
    R, p = pose(arm, q)
    a, ab = q[0], q[0] + q[1]
    np.testing.assert_allclose(p, [0.4 * np.cos(a) + 0.3 * np.cos(ab), 0.4 * np.sin(a) + 0.3 * np.sin(ab), 0.35], atol=1e-14)
    np.testing.assert_allclose(R, Rotation.from_rotvec([0, 0, q[:3].sum()]).as_matrix(), atol=1e-14)

    J = jacobian(arm, q)
    assert np.linalg.matrix_rank(J) == 4
    np.testing.assert_array_equal(J[3:5], 0)  # it can only turn about the vertical: four operational coordinates
    for beta in (0.0, np.pi):
        assert np.linalg.matrix_rank(jacobian(arm, [0.7, beta, 0.4, -0.15]), tol=1e-12) == 3
    # the four operational coordinates lose rank exactly with the determinant l1 l2 sin(beta)
    assert np.linalg.det(J[[0, 1, 2, 5]]) == pytest.approx(-0.4 * 0.3 * np.sin(q[1]), abs=1e-14)


@pytest.mark.row("001:K41", "001:K38")
def test_forward_kinematics_is_the_product_of_joint_transforms():
    """T_IE = T_I0 prod T_(k-1,k)(q_k) T_nE for chains of revolute and prismatic joints; n bodies move on n coordinates."""
    rng = np.random.default_rng(2)
    for n in (1, 4, 7):
        model = random_tree(n, rng, kinds=["revolute", "prismatic"], branching=0.0)
        assert len(model.bodies) == n == model.nq == model.nv  # with the fixed root: n + 1 links
        q = rng.uniform(-1, 1, n)
        T = np.eye(4)
        for body, x in zip(model.bodies, q, strict=True):
            axis = np.asarray(body.joint.axes[0])
            motion = np.zeros((4, 4))
            if body.joint.kind == "revolute":
                motion[:3, :3] = np.cross(np.eye(3), axis)
                np.testing.assert_allclose(motion[:3, :3] @ [1, 2, 3], np.cross(axis, [1, 2, 3]), atol=1e-14)
            else:
                motion[:3, 3] = axis
            T = T @ reference.matrix(body.joint.placement) @ expm(motion * x)
        T = T @ reference.matrix(model.frames[-1].placement)
        R, p = pose(model, q, model.frames[-1].name)
        np.testing.assert_allclose(np.c_[R, p], T[:3], atol=1e-12)


# ---------------------------------------------------------------------------------------------- general serial chains
@pytest.mark.row("001:K46")
@pytest.mark.parametrize("seed", range(4))
def test_geometric_jacobian_from_axes_and_arms(seed):
    """Columns [n_k x r_k,E; n_k] of revolute and [n_k; 0] of prismatic joints, and the derivative of the pose."""
    rng = np.random.default_rng(seed)
    model = random_tree(6, rng, kinds=["revolute", "prismatic", "continuous"], branching=0.0)
    q, frame = rng.uniform(-1, 1, 6), model.frames[-1].name
    J = np.array(dynamics.make_frame(model, "jacobian", frame, "world_aligned")(q))
    poses, tip = reference.body_poses(model, q), reference.frame_pose(model, q, frame)
    for k, body in enumerate(model.bodies):
        n = poses[k][:3, :3] @ np.asarray(body.joint.axes[0])  # C_I(k-1) n_k = C_Ik n_k: an axis does not turn itself
        arm = tip[:3, 3] - poses[k][:3, 3]
        column = np.r_[n, 0, 0, 0] if body.joint.kind == "prismatic" else np.r_[np.cross(n, arm), n]
        np.testing.assert_allclose(J[:, k], column, atol=1e-12)
        h, e = 1e-6, np.eye(6)[k]
        ahead, behind = (reference.frame_pose(model, q + s * h * e, frame) for s in (1, -1))
        spin = (ahead - behind)[:3, :3] / (2 * h) @ tip[:3, :3].T
        np.testing.assert_allclose(J[:3, k], (ahead - behind)[:3, 3] / (2 * h), atol=1e-8)
        np.testing.assert_allclose(J[3:, k], [spin[2, 1], spin[0, 2], spin[1, 0]], atol=1e-8)
    assert {b.joint.kind for b in model.bodies} & {"prismatic"} or seed  # at least the first chain slides


@pytest.mark.row("001:K45")
def test_geometric_jacobians_add_and_change_axes():
    """J_C = J_B + J_BC, and A_J = blkdiag(C, C) B_J for two choices of axes at one point."""
    rng = np.random.default_rng(3)
    model = random_tree(8, rng, branching=0.3, root="free_flyer")
    q = alg.random_configuration(model, rng)
    sym = ca.SX.sym("q", model.nq)
    for base, frame in (("f2", "f7"), ("f5", "f6"), ("f7", "f1"), ("world", "f4"), ("f3", "f3")):
        W_J_C = alg.frame_jacobian(model, sym, frame, "world_aligned")
        W_J_B = alg.frame_jacobian(model, sym, base, "world_aligned")
        B_J_BC = alg.relative_jacobian(model, sym, base, frame)
        H_B, H_C = alg.frame_pose(model, sym, base), alg.frame_pose(model, sym, frame)
        f = ca.Function("f", [sym], [ca.densify(x) for x in (
            W_J_C + ca.SX(0), W_J_B + ca.SX(0), B_J_BC + ca.SX(0), ca.SX(H_B.R), ca.SX(H_B.p), ca.SX(H_C.p))])
        C, B, rel, R, o_B, o_C = (np.array(x) for x in f(q))
        # velocity of C = velocity of the point of B's body that is at C + relative velocity, in world axes
        arm = np.cross((o_C - o_B).ravel(), B[3:].T).T  # (o_C - o_B) x omega
        moved = np.r_[B[:3] - arm, B[3:]]
        np.testing.assert_allclose(C, moved + np.kron(np.eye(2), R) @ rel, atol=1e-12)
        # what the observer on B sees is the derivative of B_o_C
        seen = ca.Function("s", [sym], [ca.jacobian(ca.SX(H_B.R.T @ (H_C.p - H_B.p)), sym) @ alg.rate_matrix(model, sym)])
        np.testing.assert_allclose(rel[:3], np.array(seen(q)), atol=1e-12)
    J_body = np.array(dynamics.make_frame(model, "jacobian", "f7", "body")(q))
    R = pose(model, q, "f7")[0]
    np.testing.assert_allclose(np.kron(np.eye(2), R) @ J_body,
                               np.array(dynamics.make_frame(model, "jacobian", "f7", "world_aligned")(q)), atol=1e-13)


def test_wrist_rotation_is_the_product_of_its_turns():
    q = [-0.7, 0.3, 1.5]
    wrist = textbook.wrist_zyx()
    np.testing.assert_allclose(pose(wrist, q)[0], Rotation.from_euler("ZYX", q).as_matrix(), atol=1e-14)
    np.testing.assert_allclose(pose(wrist, q)[1], 0, atol=1e-15)
    # its axes are the columns of the Euler rate map: singular where the middle angle is a quarter turn
    assert np.linalg.det(jacobian(wrist, q)[3:]) == pytest.approx(-np.cos(q[1]), abs=1e-14)


def test_textbook_robots_have_masses_that_move():
    for model in (textbook.planar_arm((0.2, 0.3, 0.4, 0.1)), textbook.scara(), textbook.wrist_zyx(), textbook.quadruped(),
                  textbook.biped()):
        q = alg.random_configuration(model, np.random.default_rng(4))
        M = np.array(dynamics.make(model, "mass_matrix")(q))
        assert np.linalg.eigvalsh(M).min() > 0, model.name
    assert textbook.quadruped().nv == textbook.biped().nv == 18
    with pytest.raises(ModelError, match="lengths must be positive"):
        textbook.planar_arm((1.0, 0.0))
    with pytest.raises(ModelError, match="expected 2 values, got 3"):
        textbook.scara((1.0, 1.0, 1.0))


@pytest.mark.row("001:K38")
def test_both_joint_types_move_as_they_say():
    """One revolute and one prismatic joint: T(q) turns about, or slides along, its axis."""
    b = Builder("pair")
    b.body("turn", parent="world", joint=Joint("a", "revolute", Placement(position=(1.0, 0, 0)), ((0.0, 0.0, 1.0),)))
    b.body("slide", parent="turn", joint=Joint("b", "prismatic", axes=((1.0, 0.0, 0.0),)))
    b.frame("end_effector", body="slide")
    R, p = pose(b.build(), [np.pi / 2, 0.3])
    np.testing.assert_allclose(p, [1, 0.3, 0], atol=1e-15)
    np.testing.assert_allclose(R, [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-15)
