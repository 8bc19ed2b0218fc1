"""Moving frames, rates and Hessians of Jacobians: against differences on the manifold and closed forms."""

import casadi as ca
import numpy as np
import pytest
from made import made
from row_trees import coupled, numbers, state, tree_of
from states import tip

import dynamics
from dynamics import algorithms as alg
from dynamics.algorithms import jacobian_rate, jacobians, kinematic_hessian, moving_frames
from dynamics.joints import KINDS
from dynamics.model.synthetic import random_tree

REFERENCES = ("body", "world", "world_aligned")


MODELS = [
    pytest.param(tree_of("revolute", "prismatic", "continuous", "revolute", "prismatic", "revolute"), id="1-dof-chain"),
    pytest.param(tree_of("universal", "spherical", "planar", "universal", "revolute"), id="multi-dof-chain"),
    pytest.param(tree_of("free_flyer", "universal", "prismatic", "spherical"), id="floating-chain"),
    pytest.param(tree_of("revolute", "free_flyer", "universal"), id="free-flyer-inside"),
    pytest.param(random_tree(9, np.random.default_rng(4), root="free_flyer"), id="floating-tree"),
    pytest.param(tree_of(*KINDS, seed=5, branching=0.4), id="every-kind"), pytest.param(coupled(), id="mimic"),
]


def differences_along(model, q, frame, reference, direction, h=1e-6):
    J, move = made(dynamics.make_frame, model, "jacobian", frame, reference), made(dynamics.make, model, "integrate")
    return (np.array(J(move(q, h * direction))) - np.array(J(move(q, -h * direction)))) / (2 * h)


# ---------------------------------------------------------------------------------------------- moving bodies and frames
def spinning(t, seed=2):
    """C_AB(t), A_r_AB(t) of a body, and B_r(t) of a point, all smooth; derivatives by CasADi along t."""
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((3, 3)), rng.standard_normal((3, 3))
    phi = ca.vertcat(*(a[i, 0] + a[i, 1] * t + a[i, 2] * t**2 for i in range(3)))
    r_AB = ca.vertcat(*(ca.sin(b[i, 0] * t) + b[i, 1] * t + b[i, 2] for i in range(3)))
    B_r = ca.vertcat(ca.cos(t), t**2, ca.sin(2 * t) + 1)
    from dynamics.lie import so3

    return so3.exp(phi), r_AB, B_r


def along(t, expression):
    return ca.reshape(ca.jacobian(ca.vec(expression), t), *expression.shape)


@pytest.mark.row("001:K36")
def test_rigid_body_velocity_and_acceleration():
    """v_P and a_P of a point fixed to a moving body are the derivatives of its position in the inertial frame."""
    t = ca.SX.sym("t")
    C, r_AB, _ = spinning(t)
    B_r_BP = ca.DM([0.3, -0.7, 0.5])
    position = r_AB + C @ B_r_BP
    W = along(t, C) @ C.T
    omega = ca.vertcat(W[2, 1], W[0, 2], W[1, 0])
    v_B, omega_dot = along(t, r_AB), along(t, omega)
    v = moving_frames.rigid_body_velocity(v_B, omega, C @ B_r_BP)
    a = moving_frames.rigid_body_acceleration(along(t, v_B), omega, omega_dot, C @ B_r_BP)
    f = ca.Function("f", [t], [v, along(t, position), a, along(t, along(t, position))])
    for at in (0.0, 0.4, -1.1):
        mine, exact, mine_a, exact_a = (np.array(x) for x in f(at))
        np.testing.assert_allclose(mine, exact, atol=1e-13)
        np.testing.assert_allclose(mine_a, exact_a, atol=1e-11)
        assert np.abs(exact_a).max() > 1e-2


@pytest.mark.row("001:K36", "001:D03")
def test_acceleration_of_points_of_a_robot():
    """The same formulas on a tree: second differences of a point's position along q [+] (t v + t^2/2 a)."""
    model = random_tree(6, np.random.default_rng(3), root="free_flyer")
    q, v, _ = state(model, 4)
    a = np.random.default_rng(5).standard_normal(model.nv)
    point = ca.DM([0.2, -0.4, 0.9])
    move, h = dynamics.make(model, "integrate"), 1e-4
    x = ca.SX.sym("q", model.nq)
    where = ca.Function("p", [x], [moving_frames.point_position(model, x, "f5", point)])
    at = [np.array(where(move(q, t * v + t * t / 2 * a))).ravel() for t in (h, 0.0, -h)]
    velocity = np.array(ca.DM(moving_frames.point_velocity(model, q, v, "f5", point))).ravel()
    acceleration = np.array(ca.DM(moving_frames.point_acceleration(model, q, v, a, "f5", point))).ravel()
    np.testing.assert_allclose(velocity, (at[0] - at[2]) / (2 * h), atol=1e-6)
    np.testing.assert_allclose(acceleration, (at[0] - 2 * at[1] + at[2]) / h**2, atol=1e-5 * (1 + np.abs(acceleration).max()))


@pytest.mark.row("001:K37")
def test_differentiation_in_a_moving_frame():
    """B_v = dB_r/dt + B_w x B_r is C_BA d/dt (C_AB B_r), and alike for the second derivative (Coriolis and Euler terms)."""
    t = ca.SX.sym("t")
    C, _, B_r = spinning(t, seed=6)
    W = C.T @ along(t, C)
    omega = ca.vertcat(W[2, 1], W[0, 2], W[1, 0])
    first, omega_dot = along(t, B_r), along(t, omega)
    mine = moving_frames.derivative_in_moving_frame(B_r, first, omega)
    mine2 = moving_frames.second_derivative_in_moving_frame(B_r, first, along(t, first), omega, omega_dot)
    exact = C.T @ along(t, C @ B_r)
    exact2 = C.T @ along(t, along(t, C @ B_r))
    f = ca.Function("f", [t], [mine, exact, mine2, exact2, first])
    for at in (0.1, -0.8):
        got, want, got2, want2, naive = (np.array(x) for x in f(at))
        np.testing.assert_allclose(got, want, atol=1e-13)
        np.testing.assert_allclose(got2, want2, atol=1e-11)
        assert np.abs(got - naive).max() > 0.1  # the derivative of the components is not the velocity


# ---------------------------------------------------------------------------------------------- dJ/dt
@pytest.mark.row("000:K-206", "001:D04")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("reference", REFERENCES)
def test_jacobian_rate(model, reference):
    """dJ/dt is the difference quotient of J along the motion; dJ/dt v is the drift of the acceleration recursion."""
    q, v, _ = state(model)
    rate = numbers(alg.frame_jacobian_rate, model, q, v, tip(model), reference)
    np.testing.assert_allclose(rate, differences_along(model, q, tip(model), reference, v), atol=1e-7)
    drift = np.array(dynamics.make_frame(model, "drift", tip(model), reference)(q, v)).ravel()
    np.testing.assert_allclose(rate @ v, drift, atol=1e-12 * (1 + np.abs(drift).max()))


@pytest.mark.row("000:K-206")
@pytest.mark.parametrize("model", [pytest.param(*m.values, id=m.id, marks=pytest.mark.slow) if m.id == "every-kind" else m
                                   for m in MODELS])
def test_all_bodies_in_one_recursion(model):
    """The Jacobians and rates of all bodies, by recursion, are those of each body's frame, column by column."""
    q, v, _ = state(model, 10)
    J = numbers(lambda m, x: tuple(jacobians.body_jacobians(m, x)), model, q)
    rates = numbers(lambda m, x, w: tuple(jacobian_rate.body_jacobian_rates(m, x, w)), model, q, v)
    for body, own, rate in zip(model.bodies, J, rates, strict=True):
        np.testing.assert_allclose(own, numbers(alg.frame_jacobian, model, q, body.name, "body"), atol=1e-12)
        np.testing.assert_allclose(rate, numbers(alg.frame_jacobian_rate, model, q, v, body.name, "body"), atol=1e-12)


def test_rate_and_hessian_of_a_world_frame_are_zero():
    model = random_tree(3, np.random.default_rng(1))
    q, v, _ = state(model)
    assert not numbers(alg.frame_jacobian_rate, model, q, v, "world", "world_aligned").any()
    assert not kinematic_hessian.tensor(alg.frame_hessian(model, q, "world")).any()
    with pytest.raises(ValueError, match="world_alined"):
        alg.frame_jacobian_rate(model, q, v, "f1", "world_alined")
    with pytest.raises(ValueError, match="world_alined"):
        alg.frame_hessian(model, q, "f1", "world_alined")


# ---------------------------------------------------------------------------------------------- Hessian
@pytest.mark.row("000:K-204", "000:K-205", "000:X-203")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("reference", REFERENCES)
def test_hessian_slices(model, reference):
    """Every slice is the derivative of J along its direction of the tangent space, and sum_k H_k v_k is dJ/dt."""
    q, v, _ = state(model, 1)
    slices = alg.frame_hessian(model, q, tip(model), reference)
    assert len(slices) == model.nv
    for k, direction in enumerate(np.eye(model.nv)):
        np.testing.assert_allclose(np.array(ca.DM(slices[k])), differences_along(model, q, tip(model), reference, direction),
                                   atol=1e-8)
    H = kinematic_hessian.tensor(slices)
    assert H.shape == (6, model.nv, model.nv)
    np.testing.assert_array_equal(H[:, :, 0], np.array(ca.DM(slices[0])))  # layout: [row, column of J, direction]
    rate = numbers(alg.frame_jacobian_rate, model, q, v, tip(model), reference)
    np.testing.assert_allclose(np.einsum("rik,k->ri", H, v), rate, atol=1e-12)
    np.testing.assert_allclose(np.array(ca.DM(kinematic_hessian.contract(slices, v))), rate, atol=1e-12)


@pytest.mark.row("000:X-203")
def test_hessian_by_algorithmic_differentiation():
    """The same tensor as the CasADi Jacobian of J with respect to q, through dq/dt = N(q) v."""
    model = tree_of("free_flyer", "universal", "spherical", "prismatic")
    q, _, _ = state(model, 2)
    x = ca.SX.sym("q", model.nq)
    for reference in REFERENCES:
        J = ca.densify(alg.frame_jacobian(model, x, "f3", reference))
        exact = ca.Function("H", [x], [ca.jacobian(ca.vec(J), x) @ alg.rate_matrix(model, x)])
        H = kinematic_hessian.tensor(alg.frame_hessian(model, q, "f3", reference))
        np.testing.assert_allclose(H.reshape(6 * model.nv, model.nv, order="F"), np.array(exact(q)), atol=1e-12)


def printed_rule(J, support):
    """Kindr Eq. 15 with its cases by column index: [6, n, n] indexed [row, i, j], columns outside the chain zero."""
    n = J.shape[1]
    H = np.zeros((6, n, n))
    for i in support:
        for j in support:
            if i >= j:
                H[:, i, j] = np.r_[np.cross(J[3:, j], J[:3, i]), np.cross(J[3:, j], J[3:, i])]
            else:
                H[:3, i, j] = np.cross(J[3:, i], J[:3, j])
    return H


@pytest.mark.row("000:K-200", "000:K-201")
@pytest.mark.parametrize("seed", range(3))
def test_column_rule_on_single_degree_of_freedom_chains(seed):
    """Eq. 15 on branching trees of revolute and prismatic joints: both cases, and zero off the chain to the frame."""
    model = random_tree(8, np.random.default_rng(seed), kinds=["revolute", "prismatic"], branching=0.6)
    (q, _, _), gaps = state(model, seed), []
    for frame in ("f7", "f4"):
        body = model.frame(frame).body
        chain = set(jacobians.support(model, body))
        # the support set, by another road: the joints that move the frame
        J = np.array(dynamics.make_frame(model, "jacobian", frame, "world_aligned")(q))
        assert chain == {i for i in range(8) if np.abs(J[:, i]).max() > 1e-12}
        assert len(chain) < 8
        H = kinematic_hessian.tensor(alg.frame_hessian(model, q, frame, "world_aligned"))
        np.testing.assert_allclose(H, printed_rule(J, sorted(chain)), atol=1e-13)
        off = sorted(set(range(8)) - chain)
        assert not H[:, off].any()
        assert not H[:, :, off].any()
        # an older edition has J_R,j x J_P,i in the second case as well: that is another tensor
        wrong = np.cross(J[3:].T[None, :], J[:3].T[:, None])
        gaps.append(np.triu(np.abs(H[:3].transpose(1, 2, 0) - wrong).max(2), 1).max())
    assert max(gaps) > 1e-2


@pytest.mark.row("000:X-202")
def test_column_rule_fails_inside_joints_of_several_degrees_of_freedom():
    """Spherical joints and floating bases: Eq. 15 by column index is wrong by O(1); ordered by joints it is right."""
    for kinds in (("spherical", "revolute"), ("free_flyer", "revolute", "prismatic")):
        model = tree_of(*kinds, seed=3)
        q, v, _ = state(model, 4)
        J = np.array(dynamics.make_frame(model, "jacobian", tip(model), "world_aligned")(q))
        H = kinematic_hessian.tensor(alg.frame_hessian(model, q, tip(model), "world_aligned"))
        printed = printed_rule(J, range(model.nv))
        assert np.abs(H - printed).max() > 0.1
        drift = np.array(dynamics.make_frame(model, "drift", tip(model), "world_aligned")(q, v)).ravel()
        assert np.abs(np.einsum("rik,k,i->r", printed, v, v) - drift).max() > 0.05
        np.testing.assert_allclose(np.einsum("rik,k,i->r", H, v, v), drift, atol=1e-12)
        # where the two differ, both columns belong to one joint
        joint = np.repeat(np.arange(len(kinds)), [model.kind(i).nv for i in range(len(kinds))])
        different = np.argwhere(np.abs(H - printed).max(0) > 1e-12)
        assert len(different)
        assert all(joint[i] == joint[k] for i, k in different)
