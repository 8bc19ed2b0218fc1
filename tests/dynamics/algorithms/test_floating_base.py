"""Floating bases in the hybrid velocity u = [I_v_B; B_w_IB; joints]: maps, Jacobians, their rates and Hessians."""

import casadi as ca
import numpy as np
import pytest
from row_trees import coupled, moved, numbers, state, tree_of
from states import tip

import dynamics
from dynamics.algorithms import floating_base, kinematic_hessian
from dynamics.errors import ModelError
from dynamics.notation import textbook_robots as textbook

MODELS = [
    pytest.param(textbook.quadruped(), id="quadruped"),
    pytest.param(tree_of("free_flyer", "universal", "planar", "spherical", "prismatic", seed=1, branching=0.4), id="mixed"),
    pytest.param(coupled(1), id="mimic"),
    pytest.param(tree_of("free_flyer", seed=2), id="base-only"),
]


def u_of(model, q, v):
    return numbers(floating_base.hybrid_from_body, model, q) @ v


def base_motion(model, q, v, h=1e-6):
    """World velocity of the base origin and base-axes angular velocity, by differences of the pose."""
    name = model.bodies[floating_base.base_index(model)].name
    pose = dynamics.make_frame(model, "pose", name)
    (Ra, pa), (Rb, pb), (R, _) = (map(np.array, pose(moved(model, q, s * h * v))) for s in (1, -1, 0))
    spin = R.T @ (Ra - Rb) / (2 * h)
    return np.r_[(pa - pb).ravel() / (2 * h), spin[2, 1], spin[0, 2], spin[1, 0]]


# ---------------------------------------------------------------------------------------------- u and its rate
@pytest.mark.row("001:K71", "000:K-162")
@pytest.mark.parametrize("model", MODELS)
def test_hybrid_velocity(model):
    """u is the world velocity of the base origin, the base-axes angular velocity and the joint velocities; n_u = 6 + n_j."""
    q, v, _ = state(model)
    u = u_of(model, q, v)
    assert u.shape == (model.nv,)
    np.testing.assert_allclose(u[:6], base_motion(model, q, v), atol=1e-8)
    np.testing.assert_array_equal(u[6:], v[6:])
    B, back = numbers(floating_base.hybrid_from_body, model, q), numbers(floating_base.body_from_hybrid, model, q)
    np.testing.assert_allclose(back @ B, np.eye(model.nv), atol=1e-14)
    # power: a world force and a base-axes moment on the base give u^T [f; tau], the same as the wrench of this package on v
    R = np.array(dynamics.make_frame(model, "pose", model.bodies[0].name)(q)[0])
    f, m = np.array([1.0, -2.0, 0.5]), np.array([0.3, 0.7, -1.1])
    assert u[:3] @ f + u[3:6] @ m == pytest.approx(v[:6] @ np.r_[R.T @ f, m], abs=1e-12)


@pytest.mark.row("001:K71", "000:K-163")
@pytest.mark.parametrize("model", MODELS)
def test_hybrid_acceleration(model):
    """du/dt holds the world acceleration of the base origin (second difference of its position) and d/dt B_w."""
    q, v, a = state(model, 1)
    u_dot = numbers(floating_base.hybrid_acceleration, model, q, v, a)
    h = 1e-5
    ahead, behind = (u_of(model, moved(model, q, t * v + t * t / 2 * a), v + t * a) for t in (h, -h))
    np.testing.assert_allclose(u_dot, (ahead - behind) / (2 * h), atol=1e-7)
    pose, h = dynamics.make_frame(model, "pose", model.bodies[0].name), 1e-4
    p = [np.array(pose(moved(model, q, t * v + t * t / 2 * a))[1]).ravel() for t in (h, 0.0, -h)]
    np.testing.assert_allclose(u_dot[:3], (p[0] - 2 * p[1] + p[2]) / h**2, atol=1e-6)
    np.testing.assert_allclose(numbers(floating_base.body_acceleration, model, q, u_of(model, q, v), u_dot), a, atol=1e-12)
    if model.nv > 6:
        np.testing.assert_array_equal(u_dot[6:], a[6:])


def test_hybrid_velocity_is_that_of_mujoco():
    """The free joint of MuJoCo: qvel = u, and integrating it moves the base as our integrate does with v = B^-1 u."""
    mujoco = pytest.importorskip("mujoco")
    other = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><freejoint/><geom size='.1 .2 .3' type='box'/></body></worldbody></mujoco>")
    model = textbook.quadruped()
    q, v, _ = state(model, 2)
    u = u_of(model, q, v)
    qpos, h = q[:7].copy(), 1e-4
    mujoco.mj_integratePos(other, qpos, u[:6], h)
    ours = moved(model, q, h * v)[:7]
    np.testing.assert_allclose(ours[3:], qpos[3:] * np.sign(ours[3] * qpos[3]), atol=1e-12)
    np.testing.assert_allclose(ours[:3], qpos[:3], atol=1e-7)  # MuJoCo moves the position along a line, we along a screw


# ---------------------------------------------------------------------------------------------- F and F_bar
@pytest.mark.row("000:K-161", "000:K-164", "000:K-165")
@pytest.mark.parametrize("model", MODELS)
def test_configuration_rate_and_its_left_inverse(model):
    """dq/dt = F u, u = F_bar dq/dt: F_bar F = 1, F F_bar = 1 - q q^T on the quaternion and 1 elsewhere."""
    q, v, _ = state(model, 3)
    assert model.nq == 7 + sum(model.kind(i).nq for i, b in enumerate(model.bodies) if i and not b.joint.mimic)
    assert np.linalg.norm(q[3:7]) == pytest.approx(1, abs=1e-14)
    F, F_bar = numbers(floating_base.rate_from_hybrid, model, q), numbers(floating_base.hybrid_from_rate, model, q)
    u, h = u_of(model, q, v), 1e-6
    numeric = (moved(model, q, h * v) - moved(model, q, -h * v)) / (2 * h)
    np.testing.assert_allclose(F @ u, numeric, atol=1e-9)
    np.testing.assert_allclose(F_bar @ numeric, u, atol=1e-8)
    np.testing.assert_allclose(F_bar @ F, np.eye(model.nv), atol=1e-13)
    projector = F @ F_bar
    np.testing.assert_allclose(projector[3:7, 3:7], np.eye(4) - np.outer(q[3:7], q[3:7]), atol=1e-13)
    np.testing.assert_allclose(projector @ projector, projector, atol=1e-13)
    assert np.linalg.matrix_rank(projector, tol=1e-9) == model.nv < model.nq


@pytest.mark.row("000:K-164")
def test_f_is_the_printed_block_diagonal():
    """F = diag(1, H_bar^T / 2, 1) with the printed H_bar, for a base joint placed at the world frame."""
    model = textbook.quadruped()
    q, _, _ = state(model, 4)
    w, x, y, z = q[3:7]
    H_bar = np.array([[-x, w, z, -y], [-y, -z, w, x], [-z, y, -x, w]])
    expected = np.zeros((19, 18))
    expected[:3, :3], expected[3:7, 3:6], expected[7:, 6:] = np.eye(3), H_bar.T / 2, np.eye(12)
    np.testing.assert_allclose(numbers(floating_base.rate_from_hybrid, model, q), expected, atol=1e-14)
    expected_bar = np.zeros((18, 19))
    expected_bar[:3, :3], expected_bar[3:6, 3:7], expected_bar[6:, 7:] = np.eye(3), 2 * H_bar, np.eye(12)
    np.testing.assert_allclose(numbers(floating_base.hybrid_from_rate, model, q), expected_bar, atol=1e-14)


# ---------------------------------------------------------------------------------------------- kinematics from the base
@pytest.mark.row("001:K73", "000:K-190", "000:K-192")
@pytest.mark.parametrize("model", MODELS)
def test_forward_kinematics_through_the_base(model):
    """I_r_IQ = I_r_IB + C_IB B_r_BQ and C_IQ = C_IB C_BQ, with B_r_BQ and C_BQ functions of the joints alone."""
    q, _, _ = state(model, 9)
    other = q.copy()
    other[:7] = state(model, 10)[0][:7]  # another base pose, the same joints
    frame = tip(model)
    B_r = numbers(floating_base.relative_position, model, q, frame)
    np.testing.assert_allclose(numbers(floating_base.relative_position, model, other, frame), B_r, atol=1e-12)
    C_BQ = []
    for at in (q, other):
        C_IB, r_IB = (np.array(x) for x in dynamics.make_frame(model, "pose", model.bodies[0].name)(at))
        C_IQ, r_IQ = (np.array(x) for x in dynamics.make_frame(model, "pose", frame)(at))
        np.testing.assert_allclose(r_IQ.ravel(), r_IB.ravel() + C_IB @ B_r, atol=1e-12)
        C_BQ.append(C_IB.T @ C_IQ)
    np.testing.assert_allclose(C_BQ[0], C_BQ[1], atol=1e-12)


def pose_differences(model, q, v, frame, h=1e-6):
    """[I_v_Q; I_w_IQ] by differences of the pose along a motion."""
    pose = dynamics.make_frame(model, "pose", frame)
    (Ra, pa), (Rb, pb), (R, _) = (map(np.array, pose(moved(model, q, s * h * v))) for s in (1, -1, 0))
    spin = (Ra - Rb) / (2 * h) @ R.T
    return np.r_[(pa - pb).ravel() / (2 * h), spin[2, 1], spin[0, 2], spin[1, 0]]


@pytest.mark.row("001:K74", "000:K-166", "000:K-191", "000:K-193", "000:K-194", "000:K-195")
@pytest.mark.parametrize("model", MODELS)
def test_spatial_jacobian(model):
    """[I_v_Q; I_w_IQ] = I_J_Q u by differences along every u = e_k, and the mixed Jacobian behind a hybrid velocity."""
    q, _, _ = state(model, 11)
    J = numbers(floating_base.spatial_jacobian, model, q, tip(model))
    back = numbers(floating_base.body_from_hybrid, model, q)
    for k in range(model.nv):
        np.testing.assert_allclose(J[:, k], pose_differences(model, q, back[:, k], tip(model)), atol=1e-8)
    mixed = np.array(dynamics.make_frame(model, "jacobian", tip(model), "world_aligned")(q))
    np.testing.assert_allclose(J, mixed @ back, atol=1e-12)
    # translating the base turns nothing and moves everything alike; the first block of the angular rows is zero
    np.testing.assert_array_equal(J[:3, :3], np.eye(3))
    np.testing.assert_array_equal(J[3:, :3], 0)


def test_frames_off_the_base_have_no_base_columns():
    model = tree_of("revolute", "free_flyer", seed=3)  # this free-flyer hangs from a link: no floating base
    with pytest.raises(ModelError, match="free_flyer joint, found none"):
        floating_base.base_index(model)
    two = tree_of("free_flyer", "revolute", seed=4)
    from dataclasses import replace

    apart = replace(two, bodies=(two.bodies[0], replace(two.bodies[1], parent=-1)))
    q, _, _ = state(apart)
    J = numbers(floating_base.spatial_jacobian, apart, q, "f1")
    np.testing.assert_allclose(J, np.array(dynamics.make_frame(apart, "jacobian", "f1", "world_aligned")(q)), atol=0)
    assert not J[:, :6].any()
    assert np.abs(J[:, 6]).max() > 0.5
    both = replace(two, bodies=(two.bodies[0], replace(two.bodies[0], name="c", joint=replace(two.bodies[0].joint, name="k"))))
    with pytest.raises(ModelError, match="found 'b0', 'c'"):
        floating_base.base_index(both)


# ---------------------------------------------------------------------------------------------- rate and Hessian for u
@pytest.mark.row("000:K-206", "000:X-202")
@pytest.mark.parametrize("model", MODELS)
def test_rate_and_hessian_of_the_spatial_jacobian(model):
    """dI_J_Q/dt along a motion and its slices along every u = e_k, by differences; J du/dt + dJ/dt u is the acceleration."""
    q, v, a = state(model, 14)
    u, back, frame, h = u_of(model, q, v), numbers(floating_base.body_from_hybrid, model, q), tip(model), 1e-6

    def difference(direction):
        return (numbers(floating_base.spatial_jacobian, model, moved(model, q, h * direction), frame)
                - numbers(floating_base.spatial_jacobian, model, moved(model, q, -h * direction), frame)) / (2 * h)

    rate = numbers(floating_base.spatial_jacobian_rate, model, q, u, frame)
    np.testing.assert_allclose(rate, difference(v), atol=1e-7)
    slices = floating_base.spatial_hessian(model, q, frame)
    for k in range(0, model.nv, 3 if model.nv > 12 else 1):
        np.testing.assert_allclose(np.array(ca.DM(slices[k])), difference(back[:, k]), atol=1e-8)
    H = kinematic_hessian.tensor(slices)
    np.testing.assert_allclose(np.einsum("rik,k->ri", H, u), rate, atol=1e-12)
    assert not H[:, :, :3].any()  # no derivative along base translations
    u_dot = numbers(floating_base.hybrid_acceleration, model, q, v, a)
    J = numbers(floating_base.spatial_jacobian, model, q, frame)
    ahead, behind = (pose_differences(model, moved(model, q, t * v + t * t / 2 * a), v + t * a, frame, 1e-5)
                     for t in (1e-3, -1e-3))
    np.testing.assert_allclose(J @ u_dot + rate @ u, (ahead - behind) / 2e-3, atol=1e-4 * (1 + np.abs(rate @ u).max()))
