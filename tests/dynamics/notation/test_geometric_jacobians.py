"""Geometric Jacobians with every output and base representation: against differentiated poses, Pinocchio, and power."""

import casadi as ca
import numpy as np
import pytest
import se3_trajectories as ref
from arrays import num
from row_trees import coupled, tree_of
from scipy.linalg import logm
from states import state

from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.algorithms import floating_base
from dynamics.errors import ModelError
from dynamics.lie import se3
from dynamics.model import BodyInertia, Builder, Joint
from dynamics.model.synthetic import random_tree
from dynamics.notation import differentials, jacobians, moving_base
from dynamics.notation.representation import REPRESENTATIONS, convert_twist

NAMES = list(REPRESENTATIONS)


def close(a, b, tol=1e-9):
    np.testing.assert_allclose(a, b, atol=tol, rtol=0)


def floating(seed, n=6):
    return random_tree(n, np.random.default_rng(seed), root="free_flyer")


def coupled_with_tips():
    from dataclasses import replace

    from dynamics.model import Frame

    model = coupled()
    return replace(model, frames=(*model.frames, Frame("f2", 2), Frame("f4", 4)))


MODELS = {
    "floating0": lambda: floating(0), "floating1": lambda: floating(1),
    "every_kind": lambda: tree_with_frames("free_flyer", "universal", "planar", "spherical", "prismatic", "continuous"),
    "mimic": coupled_with_tips,
}


def tree_with_frames(*kinds):
    return tree_of(*kinds, seed=3)


def motion_of(model, q, v, a=None):
    """s -> state moved along v (and a) from q, on the manifold."""
    Q, D = ca.SX.sym("q", model.nq), ca.SX.sym("d", model.nv)
    step = ca.Function("step", [Q, D], [alg.integrate(model, Q, D)])
    half = np.zeros(model.nv) if a is None else a / 2
    return lambda s: num(step(q, s * v + s * s * half))


def pose_function(model, frame):
    Q = ca.SX.sym("q", model.nq)
    pose = alg.frame_pose(model, Q, frame)
    return ca.Function("H", [Q], [se3.to_matrix(se3.Pose(pose.R, pose.p))])


# ------------------------------------------------------------------------------------------------ the Jacobian itself
@pytest.mark.row("004:T-110", "004:T-111", "004:T-112", "004:T-113", "004:T-114")
@pytest.mark.parametrize("which", MODELS)
def test_doubly_left_trivialised_jacobian_is_the_differential_of_forward_kinematics(which):
    model = MODELS[which]()
    q, v, _ = state(model, 1)
    base = floating_base.base_index(model)
    assert model.kind(base).name == "free_flyer"
    assert model.nq == 7 + sum(model.kind(i).nq for i, b in enumerate(model.bodies) if i != base and not b.joint.mimic)
    J = num(jacobians.jacobian(model, q, "f4"))
    assert J.shape == (6, model.nv)
    # algorithmic differentiation of the 4x4 pose, no frame algebra
    differential = differentials.trivialised_pose_differential(model, "f4")
    close(num(differential(q, v)), J @ v)
    # base and shape perturbations separately add up
    only_base, only_shape = v.copy(), v.copy()
    only_base[6:], only_shape[:6] = 0, 0
    close(num(differential(q, only_base)) + num(differential(q, only_shape)), J @ v)
    # finite motion: log of the relative pose
    H, along = pose_function(model, "f4"), motion_of(model, q, v)
    relative = lambda s: ref.vee6(np.real(logm(np.linalg.inv(num(H(q))) @ num(H(along(s))))))  # noqa: E731
    close(ref.derivative(relative, 0.0, 1e-3), J @ v, 1e-8)
    # base block: E_X_B
    E_H_B = np.linalg.inv(num(H(q))) @ num(se3.to_matrix(se3.Pose(*moving_base.base_pose(model, q))))
    close(J[:, :6], ref.adjoint(E_H_B))


@pytest.mark.row("004:T-115", "004:T-116", "004:T-117", "004:T-118")
@pytest.mark.parametrize("output", NAMES)
@pytest.mark.parametrize("base", NAMES)
def test_grid_of_output_and_base_representations(output, base):
    for which in MODELS:
        model = MODELS[which]()
        q, v, _ = state(model, 2)
        H, along = pose_function(model, "f2"), motion_of(model, q, v)
        B = lambda s: num(se3.to_matrix(se3.Pose(*moving_base.base_pose(model, along(s)))))  # noqa: B023, E731
        nu = np.r_[ref.BY_DEFINITION[base](B, 0.0), v[6:]]  # the base twist from the moving base pose itself
        J = num(jacobians.jacobian(model, q, "f2", output, base))
        expected = ref.BY_DEFINITION[output](lambda s: num(H(along(s))), 0.0)  # noqa: B023
        close(J @ nu, expected, 1e-8)
        # composed by hand: D_X_E J B_Y_C
        if output == base == "mixed":
            o = num(alg.frame_pose(model, q, "f2").p) - num(moving_base.base_pose(model, q).p)
            close(J[:, :6], np.block([[np.eye(3), -ref.skew(o)], [np.zeros((3, 3)), np.eye(3)]]))
        if base != "kindr":
            R, p = num(moving_base.base_pose(model, q).R), moving_base.base_pose(model, q).p
            C = {"left": np.eye(6), "mixed": np.kron(np.eye(2), R.T), "right": np.linalg.inv(ref.adjoint(matrix(R, num(p))))}[base]
            Y = num(moving_base.twist_joint_transform(model, C))
            close(num(jacobians.jacobian(model, q, "f2", output)) @ Y, J)
            close(Y[6:, 6:], np.eye(model.nv - 6))


def matrix(R, p):
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = R, p
    return out


@pytest.mark.row("004:T-115")
def test_output_in_an_arbitrary_frame():
    model = floating(4)
    q, v, _ = state(model, 3)
    rng = np.random.default_rng(0)
    A_H_D = ref.motion(rng)(0.3)
    H, along = pose_function(model, "f3"), motion_of(model, q, v)
    A_v = ref.right(lambda s: num(H(along(s))), 0.0)
    close(num(jacobians.jacobian_in(model, q, "f3", A_H_D)) @ v, ref.adjoint(np.linalg.inv(A_H_D)) @ A_v, 1e-8)
    u = num(moving_base.convert_velocity(model, q, v, "left", "kindr"))
    close(num(jacobians.jacobian_in(model, q, "f3", A_H_D, "kindr")) @ u, ref.adjoint(np.linalg.inv(A_H_D)) @ A_v, 1e-8)


@pytest.mark.row("004:T-118")
def test_fixed_base_manipulator():
    for seed in range(3):
        model = random_tree(7, np.random.default_rng(90 + seed), branching=0.6)
        assert len({body.parent for body in model.bodies}) < 7
        q, v, _ = state(model, 4)
        for frame in ("b4", "f6"):
            H, along = pose_function(model, frame), motion_of(model, q, v)
            for name in NAMES:
                expected = ref.BY_DEFINITION[name](lambda s, H=H, along=along: num(H(along(s))), 0.0)
                close(num(jacobians.jacobian(model, q, frame, name)) @ v, expected, 1e-8)
    with pytest.raises(ModelError, match="hanging from the world by a free_flyer joint, found none"):
        jacobians.jacobian(model, q, "b4", "left", "mixed")
    assert not moving_base.has_base(model)


@pytest.mark.row("004:T-114", "004:T-117")
@pytest.mark.parametrize("seed", range(3))
def test_against_pinocchio_jacobians(seed):
    pin = pytest.importorskip("pinocchio")
    import pinocchio_twin

    kinds = ["revolute", "prismatic", "spherical", "planar"]
    model = random_tree(7, np.random.default_rng(seed), root="free_flyer", kinds=kinds, depth_first=True)
    q, v, _ = state(model, seed)
    twin = pinocchio_twin.build(model)
    data = twin.createData()
    x = pinocchio_twin.configuration(model, q)
    pin.computeJointJacobiansTimeVariation(twin, data, x, v)
    pin.updateFramePlacements(twin, data)
    at = twin.getFrameId("f5")
    for name, frame in (("left", pin.LOCAL), ("right", pin.WORLD), ("mixed", pin.LOCAL_WORLD_ALIGNED)):
        close(num(jacobians.jacobian(model, q, "f5", name)), pin.getFrameJacobian(twin, data, at, frame))
        close(num(jacobians.jacobian_rate(model, q, v, "f5", name)), pin.getFrameJacobianTimeVariation(twin, data, at, frame))


@pytest.mark.row("000:X-129")
@pytest.mark.parametrize("output", NAMES)
@pytest.mark.parametrize("base", NAMES)
def test_rates_of_jacobians(output, base):
    for which in MODELS:
        model = MODELS[which]()
        q, v, a = state(model, 5)
        Q = ca.SX.sym("q", model.nq)
        J = ca.Function("J", [Q], [jacobians.jacobian(model, Q, "f4", output, base)])
        along = motion_of(model, q, v, a)
        rate = num(jacobians.jacobian_rate(model, q, v, "f4", output, base))
        close(rate, ref.derivative(lambda s: num(J(along(s))), 0.0, 1e-3), 1e-7)  # noqa: B023
    # J dnu/dt + dJ/dt nu is the derivative of the twist in that representation
    from dynamics.notation.accelerations import frame_acceleration

    nu = num(moving_base.convert_velocity(model, q, v, "left", base))
    nu_dot = num(moving_base.convert_acceleration(model, q, v, a, "left", base))
    close(num(J(q)) @ nu_dot + rate @ nu, num(frame_acceleration(model, q, v, a, "f4", output)))


# ------------------------------------------------------------------------------------------------ relative Jacobians
@pytest.mark.row("000:X-045")
@pytest.mark.parametrize("output", NAMES)
@pytest.mark.parametrize("pair", [("f1", "f4"), ("f4", "f1"), ("f2", "f3"), ("world", "f3"), ("f3", "world")])
def test_relative_jacobians_and_their_rates(output, pair):
    A, E = pair
    for seed in range(2):
        model = floating(seed)
        q, v, a = state(model, 6)
        HA, HE, along = pose_function(model, A), pose_function(model, E), motion_of(model, q, v, a)
        A_H_E = lambda s: np.linalg.inv(num(HA(along(s)))) @ num(HE(along(s)))  # noqa: B023, E731
        J = num(jacobians.relative_jacobian(model, q, A, E, output))
        close(J @ v, ref.BY_DEFINITION[output](A_H_E, 0.0), 1e-8)
        close(num(se3.to_matrix(se3.Pose(*jacobians.relative_pose(model, q, A, E)))), A_H_E(0.0))
        if "world" not in pair:
            close(J[:, :6], np.zeros((6, 6)))  # the base carries both
        Q = ca.SX.sym("q", model.nq)
        f = ca.Function("J", [Q], [jacobians.relative_jacobian(model, Q, A, E, output)])
        close(num(jacobians.relative_jacobian_rate(model, q, v, A, E, output)),
              ref.derivative(lambda s: num(f(along(s))), 0.0, 1e-3), 1e-7)  # noqa: B023


# ------------------------------------------------------------------------------------------------ contacts
@pytest.mark.row("004:T-166", "004:T-167")
def test_rolling_sphere_needs_the_velocity_of_the_link():
    """A sphere of radius 0.2 rolls along x: its material contact point rests, the contact frame moves with the sphere."""
    r, speed = 0.2, 0.7
    builder = Builder("ball")
    inertia = BodyInertia(1.0, (0.0, 0.0, 0.0), ((0.016, 0, 0), (0, 0.016, 0), (0, 0, 0.016)))
    builder.body("ball", parent="world", joint=Joint("root", "free_flyer"), inertia=inertia)
    model = builder.build()
    rng = np.random.default_rng(0)
    q = alg.random_configuration(model, rng)
    q[:3] = [0.3, -0.1, r]
    nu = np.array([speed, 0, 0, 0, speed / r, 0])  # mixed: [odot; A_w], w = z x v / r
    A_o_C = q[:3] - [0, 0, r]
    twist = num(jacobians.contact_jacobian(model, q, "ball", A_o_C, "mixed")) @ nu
    close(twist, [0, 0, 0, 0, speed / r, 0], 1e-12)
    contact_frame_velocity = np.array([speed, 0, 0, 0, 0, 0])  # C[A] travels with the centre and does not turn
    assert np.abs(twist - contact_frame_velocity).max() > 0.5
    # only the link's version gives the power: friction at a rolling contact does no work
    f = np.array([3.0, -1.0, 10.0, 0, 0, 0])
    assert f @ twist == pytest.approx(0.0, abs=1e-12)
    assert abs(f @ contact_frame_velocity) > 1
    # C_v_AC = C_v_AL + C_v_LC
    close(contact_frame_velocity - twist, [speed, 0, 0, 0, -speed / r, 0], 1e-12)


@pytest.mark.row("004:T-166", "004:T-167", "004:T-168")
@pytest.mark.parametrize("base", NAMES)
def test_contact_power(base):
    for seed in range(3):
        model = floating(seed)
        q, v, _ = state(model, 7)
        rng = np.random.default_rng(seed)
        A_o_C, f = rng.standard_normal(3), rng.standard_normal(6)
        nu = num(moving_base.convert_velocity(model, q, v, "left", base))
        J = num(jacobians.contact_jacobian(model, q, "b3", A_o_C, base))
        # the same power on the link's side: wrench moved to L, twist of L
        A_H_L = alg.frame_pose(model, q, "b3")
        C_H_L = spatial.Transform(A_H_L.R, A_H_L.p - ca.DM(A_o_C))
        L_f = num(spatial.force_to_child(C_H_L, ca.DM(f)))
        assert f @ J @ nu == pytest.approx(L_f @ num(alg.frame_velocity(model, q, v, "b3")), abs=1e-9)
        # three forms of the pairing
        L_J = num(jacobians.jacobian(model, q, "b3", "left", base))
        assert f @ (num(spatial.motion_to_parent(C_H_L, ca.DM(L_J @ nu)))) == pytest.approx(f @ J @ nu, abs=1e-9)
        # J^T f is what inverse dynamics calls the generalised force of the wrench, summed over contacts
        contacts = [("b3", A_o_C, f), ("b1", A_o_C + 0.2, -f), ("b1", -A_o_C, 2 * f)]
        tau = num(jacobians.contact_force(model, q, contacts, base))
        to_body = lambda link, o, g: spatial.force_to_child(  # noqa: E731
            spatial.Transform(alg.frame_pose(model, q, link).R, alg.frame_pose(model, q, link).p - ca.DM(o)), ca.DM(g))  # noqa: B023
        external = {"b3": to_body(*contacts[0]), "b1": to_body(*contacts[1]) + to_body(*contacts[2])}
        zero = np.zeros(model.nv)
        expected = num(alg.inverse_dynamics(model, q, v, zero)) - num(alg.inverse_dynamics(model, q, v, zero, external))
        close(tau, num(moving_base.convert_force(model, q, expected, "left", base)))
        assert tau @ nu == pytest.approx(expected @ v, abs=1e-9)


def test_conversion_used_by_the_definitions_is_not_the_one_under_test():
    """Guard of the oracle: the representations by definition really differ from one another."""
    H = ref.motion(np.random.default_rng(0))
    values = [ref.BY_DEFINITION[n](H, 0.1) for n in NAMES]
    for i in range(4):
        for j in range(i):
            assert np.abs(values[i] - values[j]).max() > 1e-2
    close(num(convert_twist(H(0.1), values[0], "left", "right")), ref.right(H, 0.1))
