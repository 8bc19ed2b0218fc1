"""Contacts of floating robots: stacked Jacobians, their rates, and the rank cases of the lecture notes."""

import casadi as ca
import numpy as np
import pytest
import standing
from row_trees import moved

import dynamics
from dynamics import algorithms as alg
from dynamics.algorithms import contact_kinematics as contacts
from dynamics.algorithms import floating_base
from dynamics.algorithms.contact_kinematics import Contact
from dynamics.errors import ModelError
from dynamics.model.synthetic import random_tree
from dynamics.notation import textbook_robots as textbook

LEGS = ("LF", "RF", "LH", "RH")
CORNERS = ((0.11, 0.05, 0.0), (0.11, -0.05, 0.0), (-0.11, 0.05, 0.0), (-0.11, -0.05, 0.0))


def crouched(seed=0):
    """A quadruped in a general crouched posture with a tilted trunk."""
    robot = standing.quadruped(4, seed)
    return robot.model, robot.q


def feet(count):
    return [Contact(f"{leg}_FOOT") for leg in LEGS[:count]]


def evaluate(function, model, *args):
    """function(model, q[, v], contacts) at numbers, through an SX graph."""
    *numbers, where = args
    symbols = [ca.SX.sym("x", len(x)) for x in numbers]
    return np.array(ca.Function("f", symbols, [ca.densify(ca.SX(function(model, *symbols, where)))])(*numbers))


def mixed(seed):
    """A random floating tree of every joint kind and contacts anywhere on it, one of them a held rotation."""
    rng = np.random.default_rng(seed)
    model = random_tree(7, rng, root="free_flyer", branching=0.5)
    where = [Contact("f6", tuple(rng.uniform(-1, 1, 3))), Contact("b3", tuple(rng.uniform(-1, 1, 3)), rotation=True),
             Contact("f6"), Contact("b0", (0.1, 0.2, 0.3))]
    return model, alg.random_configuration(model, rng), rng.standard_normal(model.nv), where


# ---------------------------------------------------------------------------------------------- stacking
@pytest.mark.row("001:K75")
@pytest.mark.parametrize("seed", range(3))
def test_stacked_jacobian_moves_the_contact_points(seed):
    """J_c v is the velocity of every point (finite differences of its position) and the spin of every held frame."""
    model, q, v, where = mixed(seed)
    J = evaluate(contacts.contact_jacobian, model, q, where)
    assert J.shape == (sum(c.rows for c in where), model.nv) == (15, model.nv)
    move, h = dynamics.make(model, "integrate"), 1e-6
    ahead, behind = np.array(move(q, h * v)).ravel(), np.array(move(q, -h * v)).ravel()
    speed = (evaluate(contacts.contact_positions, model, ahead, where)
             - evaluate(contacts.contact_positions, model, behind, where)) / (2 * h)
    got = J @ v
    np.testing.assert_allclose(np.r_[got[0:6], got[9:15]], speed.T.ravel(), atol=1e-8)
    R = dynamics.make_frame(model, "pose", "b3")
    spin = (np.array(R(ahead)[0]) - np.array(R(behind)[0])) / (2 * h) @ np.array(R(q)[0]).T
    np.testing.assert_allclose(got[6:9], [spin[2, 1], spin[0, 2], spin[1, 0]], atol=1e-8)


@pytest.mark.row("001:K75")
@pytest.mark.parametrize("seed", range(3))
def test_contact_acceleration(seed):
    """J_c a + dJ_c/dt v is the second derivative of the position; the drift, the matrix rate and differences of J agree."""
    model, q, v, where = mixed(seed)
    rate = evaluate(contacts.contact_jacobian_rate, model, q, v, where)
    drift = evaluate(contacts.contact_drift, model, q, v, where).ravel()
    np.testing.assert_allclose(rate @ v, drift, atol=1e-12 * (1 + np.abs(drift).max()))
    move, h = dynamics.make(model, "integrate"), 1e-6
    at = [np.array(move(q, s * h * v)).ravel() for s in (1, -1)]
    numeric = (evaluate(contacts.contact_jacobian, model, at[0], where)
               - evaluate(contacts.contact_jacobian, model, at[1], where)) / (2 * h)
    np.testing.assert_allclose(rate, numeric, atol=1e-7)
    # an independent road: q(t) = q [+] (t v + t^2/2 a) has velocity v + t a + O(t^2)
    a = np.random.default_rng(50 + seed).standard_normal(model.nv)
    h = 1e-4
    p = [evaluate(contacts.contact_positions, model, np.array(move(q, t * v + t * t / 2 * a)).ravel(), where)
         for t in (h, 0.0, -h)]
    second = ((p[0] - 2 * p[1] + p[2]) / h**2).T
    total = evaluate(contacts.contact_jacobian, model, q, where) @ a + drift
    np.testing.assert_allclose(np.r_[total[0:6], total[9:15]], second.ravel(), atol=2e-6 * (1 + np.abs(second).max()))


@pytest.mark.row("001:K75")
def test_joint_motion_that_respects_the_contacts_leaves_the_feet_where_they_are():
    model, q = crouched()
    J = evaluate(contacts.contact_jacobian, model, q, feet(3))
    N = contacts.null_space_projector(J)
    v = N @ np.random.default_rng(1).standard_normal(model.nv)
    np.testing.assert_allclose(J @ v, 0, atol=1e-12)
    np.testing.assert_allclose(N @ N, N, atol=1e-13)
    moved = np.array(dynamics.make(model, "integrate")(q, 1e-4 * v)).ravel()
    gap = evaluate(contacts.contact_positions, model, moved, feet(3)) - evaluate(contacts.contact_positions, model, q, feet(3))
    assert np.abs(gap).max() < 1e-6 < 1e-3 * np.linalg.norm(v)  # second order in the step, while the robot did move


def test_symbolic_types_agree():
    model, q, v, where = mixed(1)
    x, y = ca.MX.sym("q", model.nq), ca.MX.sym("v", model.nv)
    graph = ca.Function("g", [x, y], [contacts.contact_jacobian_rate(model, x, y, where)])
    np.testing.assert_allclose(np.array(graph(q, v)), evaluate(contacts.contact_jacobian_rate, model, q, v, where), atol=1e-13)
    number = contacts.contact_jacobian(model, ca.DM(q), where)
    np.testing.assert_allclose(np.array(number), evaluate(contacts.contact_jacobian, model, q, where), atol=1e-13)


# ---------------------------------------------------------------------------------------------- ranks
@pytest.mark.row("001:K76", "001:K77")
@pytest.mark.parametrize(("count", "rank", "base_rank", "internal", "free", "torque_rank"), [
    (0, 0, 0, 0, 18, 12), (1, 3, 3, 0, 15, 12), (2, 6, 5, 1, 12, 11), (3, 9, 6, 3, 9, 9), (4, 12, 6, 6, 6, 6)])
def test_quadruped_rank_table(count, rank, base_rank, internal, free, torque_rank):
    """The table of stance feet: ranks, internal constraints, and what joint torques reach of the free motions."""
    for seed in range(3):
        model, q = crouched(seed)
        out = contacts.contact_ranks(model, q, feet(count))
        assert (out.rank, out.base_rank, out.internal, out.free) == (rank, base_rank, internal, free)
        assert out.base_controllable == (base_rank == 6)
        assert out.uncontrolled == 6 - base_rank
        # an independent road: joint torques projected into the free motions, rank(N_c^T S^T)
        J = evaluate(contacts.contact_jacobian, model, q, feet(count))
        N = np.eye(18) - np.linalg.pinv(J, rcond=1e-9) @ J if count else np.eye(18)
        S = np.eye(18)[6:]
        assert np.linalg.matrix_rank(N.T @ S.T, tol=1e-8) == torque_rank
        assert np.linalg.matrix_rank(N, tol=1e-8) - torque_rank == out.uncontrolled


@pytest.mark.row("001:K76")
def test_base_and_joint_columns():
    """J_c = [J_c,b J_c,j]; with locked joints and three feet the base cannot move, whatever representation it has."""
    model, q = crouched()
    J = evaluate(contacts.contact_jacobian, model, q, feet(3))
    base, joints = contacts.split_base(model, ca.DM(J))
    np.testing.assert_array_equal(np.array(base), J[:, :6])
    np.testing.assert_array_equal(np.array(joints), J[:, 6:])
    hybrid = np.array(base) @ np.array(ca.DM(floating_base.body_from_hybrid(model, q)))[:6, :6]
    assert np.linalg.matrix_rank(hybrid) == np.linalg.matrix_rank(np.array(base)) == 6
    # Eq. 2.268 for a point: velocity of the base in world axes passes unchanged
    np.testing.assert_allclose(hybrid[:, :3], np.tile(np.eye(3), (3, 1)), atol=1e-14)
    # base columns of any contact see only where it is: the base follows from the joints, v_b = -J_cb^+ J_cj v_j
    internal = contacts.contact_ranks(model, q, feet(3)).internal
    left_null = np.linalg.svd(np.array(base).T)[2][6:]
    assert np.linalg.matrix_rank(left_null @ np.array(joints), tol=1e-9) == internal == 3


@pytest.mark.row("001:K77")
def test_two_feet_leave_the_turn_about_their_line():
    """The unsupported direction of two point feet is the rotation about the line of support."""
    for seed in range(3):
        model, q = crouched(seed)
        out = contacts.contact_ranks(model, q, feet(2))
        (direction,) = out.unsupported.T
        first, second = evaluate(contacts.contact_positions, model, q, feet(2)).T
        R, p = (np.array(x) for x in dynamics.make_frame(model, "pose", "trunk")(q))
        v_B, w = R @ direction[:3], R @ direction[3:]
        line = (second - first) / np.linalg.norm(second - first)
        np.testing.assert_allclose(np.cross(w, line), 0, atol=1e-10)
        np.testing.assert_allclose(v_B, np.cross(w, p.ravel() - first), atol=1e-10)
        assert np.linalg.norm(w) > 0.1


def numerical_jacobian(model, q, where):
    """dp/dq of the contact points by differences of their positions, [3 n, nv]."""
    h = 1e-6
    columns, x = [], ca.SX.sym("q", model.nq)
    positions = ca.Function("p", [x], [contacts.contact_positions(model, x, where)])
    for e in np.eye(model.nv):
        ahead, behind = (np.array(positions(moved(model, q, s * h * e))) for s in (1, -1))
        columns.append((ahead - behind).T.ravel() / (2 * h))
    return np.array(columns).T


@pytest.mark.row("001:K77")
@pytest.mark.parametrize("seed", [0, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 3))])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.sample(3)
def test_point_feet_of_any_floating_tree(seed, count):
    """Feet on different branches of trees of mixed joints: the base is held as a rigid body held at these points is, 3, 5, 6;
    ranks and null spaces by differences of positions; what stays free of the base is the turn about the line of support."""
    robot = standing.tree(count, seed)
    model, q, where = robot.model, robot.q, list(robot.where)
    assert len(where) == count
    out, J = contacts.contact_ranks(model, q, where), numerical_jacobian(model, q, where)
    np.testing.assert_allclose(evaluate(contacts.contact_jacobian, model, q, where), J, atol=1e-8)
    assert out.base_rank == (3, 5, 6, 6)[count - 1] == np.linalg.matrix_rank(J[:, :6], tol=1e-6)
    assert out.rank == np.linalg.matrix_rank(J, tol=1e-6)
    assert out.internal == np.linalg.matrix_rank(np.linalg.svd(J[:, :6])[0][:, out.base_rank:].T @ J[:, 6:], tol=1e-6)
    assert (out.free, out.uncontrolled) == (model.nv - out.rank, 6 - out.base_rank)
    # with the joints locked, the unsupported twists move no contact: positions do not change to second order
    for direction in out.unsupported.T:
        d = np.r_[direction, np.zeros(model.nv - 6)]
        ahead, behind = (evaluate(contacts.contact_positions, model, moved(model, q, s * 1e-5 * d), where) for s in (1, -1))
        assert np.abs(ahead - behind).max() / 2e-5 < 1e-8
    if count == 2:
        (direction,) = out.unsupported.T
        first, second = evaluate(contacts.contact_positions, model, q, where).T
        R, p = (np.array(x) for x in dynamics.make_frame(model, "pose", model.bodies[0].name)(q))
        w = R @ direction[3:]
        np.testing.assert_allclose(np.cross(w, second - first), 0, atol=1e-9 * np.linalg.norm(second - first))
        np.testing.assert_allclose(R @ direction[:3], np.cross(w, p.ravel() - first), atol=1e-9 * (1 + np.linalg.norm(first)))


@pytest.mark.row("001:K77")
def test_feet_in_one_line_support_no_better_than_two():
    """Three points count as three only when they span a plane: the arrangement matters, not the number."""
    model, q = crouched()
    in_line = contacts.patch("trunk", [(x, 0.1, -0.2) for x in (-0.3, 0.0, 0.4)])
    assert contacts.contact_ranks(model, q, in_line).base_rank == 5
    triangle = contacts.patch("trunk", [(-0.3, 0.1, 0), (0, 0.2, 0), (0.4, 0.1, 0)])
    assert contacts.contact_ranks(model, q, triangle).base_rank == 6


@pytest.mark.row("001:K78")
@pytest.mark.parametrize(("points", "rank"), [(1, 3), (2, 5), (3, 6), (4, 6)])
def test_points_on_one_foot(points, rank):
    """1, 2, 3, 4 points of one foot: rank J_c = rank J_c,b = 3, 5, 6, 6 however many rows."""
    model = textbook.biped()
    q = alg.random_configuration(model, np.random.default_rng(2))
    out = contacts.contact_ranks(model, q, contacts.patch("L_SOLE", CORNERS[:points]))
    assert (out.rows, out.rank, out.base_rank, out.internal) == (3 * points, rank, rank, 0)
    assert out.redundant == 3 * points - rank


@pytest.mark.row("001:K78")
def test_biped_on_two_extended_feet():
    """Two feet of four points: 24 rows, rank 12, so J_c M^-1 J_c^T is singular; a held rotation says the same in 12 rows."""
    model = textbook.biped()
    q = alg.random_configuration(model, np.random.default_rng(3))
    patches = contacts.patch("L_SOLE", CORNERS) + contacts.patch("R_SOLE", CORNERS)
    out = contacts.contact_ranks(model, q, patches)
    assert (out.rows, out.nv, out.rank, out.base_rank, out.internal, out.redundant) == (24, 18, 12, 6, 6, 12)
    J = evaluate(contacts.contact_jacobian, model, q, patches)
    M = np.array(dynamics.make(model, "mass_matrix")(q))
    eigenvalues = np.linalg.eigvalsh(J @ np.linalg.solve(M, J.T))
    assert np.sum(eigenvalues > 1e-9 * eigenvalues[-1]) == 12
    held = [Contact("L_SOLE", rotation=True), Contact("R_SOLE", rotation=True)]
    rotation = contacts.contact_ranks(model, q, held)
    assert (rotation.rows, rotation.rank, rotation.base_rank, rotation.redundant) == (12, 12, 6, 0)
    # both descriptions forbid the same motions: equal null spaces
    held_J = evaluate(contacts.contact_jacobian, model, q, held)
    np.testing.assert_allclose(contacts.null_space_projector(J), contacts.null_space_projector(held_J), atol=1e-10)


@pytest.mark.row("001:K76")
def test_tolerance_and_length_scale():
    """Two points 1e-10 m apart are one point; a rank does not depend on the unit of length."""
    model, q = crouched()
    near = contacts.patch("LF_FOOT", [(0, 0, 0), (1e-10, 0, 0)])
    assert contacts.contact_ranks(model, q, near).rank == 3
    assert contacts.contact_ranks(model, q, near, tolerance=1e-13).rank == 5
    for length in (1e-2, 1.0, 1e2):
        out = contacts.contact_ranks(model, q, feet(2), length=length)
        assert (out.rank, out.base_rank) == (6, 5)
        J_b = evaluate(contacts.contact_jacobian, model, q, feet(2))[:, :6]
        np.testing.assert_allclose(J_b @ out.unsupported, 0, atol=1e-12)
        np.testing.assert_allclose(out.unsupported.T @ out.unsupported, np.eye(1), atol=1e-13)
    with pytest.raises(ModelError, match="tolerance must lie between"):
        contacts.contact_ranks(model, q, feet(1), tolerance=0.0)
    with pytest.raises(ModelError, match="free_flyer"):
        contacts.contact_ranks(textbook.planar_arm(), np.zeros(3), [Contact("end_effector")])
    with pytest.raises(KeyError, match="LF_FOOT"):
        contacts.contact_ranks(model, q, [Contact("LF_FOT")])
