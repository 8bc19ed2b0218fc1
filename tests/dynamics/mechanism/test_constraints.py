"""Constraints as records: Jacobians and drifts against differences, and constrained dynamics by independent roads."""

import casadi as ca
import numpy as np
import pytest
from linkages import assembled, four_bar
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import dynamics
from dynamics import ModelError
from dynamics import algorithms as alg
from dynamics.constraints import CLOSURES, Closure, Coupling, Rod
from dynamics.forces import Place
from dynamics.lie import se3
from dynamics.mechanism import Mechanism, direct_motors
from dynamics.model import Builder, Joint
from dynamics.model.model import BodyInertia
from dynamics.model.synthetic import random_tree
from dynamics.redmax.programs import equality
from tests.support.force_harness import along_tangent, state

TREE = random_tree(7, np.random.default_rng(4), kinds=["revolute", "spherical", "universal", "prismatic"], root="free_flyer",
                   branching=0.5)
simple = [body.joint.name for body in TREE.bodies if body.joint.kind in ("revolute", "prismatic")]
RECORDS = {joint: Closure("loop", "f2", "f5", joint, (0.3, -0.5, 0.8)) for joint in CLOSURES} | {
    "to the world": Closure("loop", "world", "f6", "fixed"),
    "rod": Rod("rod", Place("f1", (0.1, 0.0, 0.0)), Place("f4", (0.0, 0.2, 0.0)), 0.4),
    "coupling": Coupling("belt", ((simple[0], 2.0), (simple[1], -0.5)), 0.3)}
ROWS = {"fixed": 6, "revolute": 5, "prismatic": 5, "cylindrical": 4, "spherical": 3, "planar": 3, "to the world": 6, "rod": 1,
        "coupling": 1}


def functions(model, record):
    q, v = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
    return [ca.Function(name, [q, v], [ca.densify(ca.SX(x))]) for name, x in (
        ("g", record.value(model, q)), ("J", record.jacobian(model, q)), ("drift", record.drift(model, q, v)))]


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.sample(3)
def test_jacobian_and_drift_of_every_record(record):
    RECORDS[record].check(TREE)
    g, J, drift = functions(TREE, RECORDS[record])
    q, v = state(TREE, 1)
    assert g.size1_out(0) == ROWS[record]
    np.testing.assert_allclose(np.array(J(q, v)), along_tangent(TREE, g, q, v), atol=1e-8)
    move, h = dynamics.make(TREE, "integrate"), 1e-6
    numeric = (np.array(J(move(q, h * v), v)) - np.array(J(move(q, -h * v), v))) @ v / (2 * h)
    np.testing.assert_allclose(np.array(drift(q, v)).ravel(), numeric, atol=1e-7)


def test_a_coupling_holds_the_weighted_sum_of_its_joints():
    """``2 a - b / 2 + 0.3 = 0`` by the coordinates themselves."""
    q, v = state(TREE, 1)
    a, b = (TREE.coordinate_names.index(name) for name in simple[:2])
    g, _, drift = functions(TREE, RECORDS["coupling"])
    assert float(g(q, v)) == pytest.approx(2.0 * q[a] - 0.5 * q[b] + 0.3, abs=1e-14)
    q[a] = (0.5 * q[b] - 0.3) / 2.0
    assert float(g(q, v)) == pytest.approx(0.0, abs=1e-14)
    assert float(drift(q, v)) == 0.0


@pytest.mark.parametrize("joint", CLOSURES)
def test_a_closure_lets_its_joint_move_and_nothing_else(joint):
    # two bodies that float: the second is placed on the first by a motion of the joint, then by others
    model = random_tree(2, np.random.default_rng(0), kinds=["free_flyer"], root="free_flyer")
    record = Closure("loop", "b0", "b1", joint, (0.0, 0.0, 1.0))
    g = functions(model, record)[0]
    free = {"fixed": [], "revolute": [5], "prismatic": [2], "cylindrical": [2, 5], "spherical": [3, 4, 5],
            "planar": [0, 1, 5]}[joint]
    A = alg.random_configuration(model, np.random.default_rng(1))[:7]
    poses = ca.Function("p", [q := ca.SX.sym("q", model.nq)], [ca.vec(x) for pose in alg.body_poses(model, q) for x in pose])

    def placed(twist):
        """The configuration where the second body stands at exp(twist) of the first."""
        move = se3.exp(ca.DM(twist))
        q0 = np.r_[A, alg.neutral(model)[7:]]
        R0, p0, R1, p1 = (np.array(x) for x in poses(q0))
        first, seen = R0.reshape(3, 3, order="F"), (R1.reshape(3, 3, order="F"), p1.ravel())
        there = (first @ np.array(move[0]), first @ np.array(move[1]).ravel() + p0.ravel())
        # in the joint frame of the second body
        Rj = seen[0].T @ there[0]
        quat = Rotation.from_matrix(Rj).as_quat()[[3, 0, 1, 2]]
        return np.r_[A, seen[0].T @ (there[1] - seen[1]), quat]

    v = np.zeros(model.nv)
    for k in range(6):
        twist = np.zeros(6)
        twist[k] = 2.5 if k > 2 else 0.7
        size = np.abs(np.array(g(placed(twist), v))).max(initial=0.0)
        assert (size < 1e-12) == (k in free), (joint, k, size)


# ---- a four-bar linkage ---------------------------------------------------------------------------------------------------
def reduced_acceleration(angle, speed, torque, h=1e-5):
    """Lagrange's equation in the crank's angle alone: bodies along the assembled linkage by differences, without any constraint."""
    masses = ((0.5, 0.2), (1.0, 0.5), (0.8, 0.4))

    def places(s):
        coupler, rocker = assembled(s)
        angles = (s, s + coupler, rocker)
        starts = (np.zeros(2), np.array([0.2 * np.cos(s), -0.2 * np.sin(s)]), np.array([0.5, 0.0]))
        return [(start + length / 2 * np.array([np.cos(a), -np.sin(a)]), a) for start, a, (_, length) in zip(
            starts, angles, masses, strict=True)]

    def inertia(s):
        total = 0.0
        for (p1, a1), (p0, a0), (m, length) in zip(places(s + h), places(s - h), masses, strict=True):
            velocity, rate = (p1 - p0) / (2 * h), (a1 - a0) / (2 * h)
            total += m * velocity @ velocity + m * length**2 / 12 * rate**2
        return total

    def potential(s):
        return sum(9.81 * m * place[0][1] for place, (m, _) in zip(places(s), masses, strict=True))

    k = 1e-3
    slope = (inertia(angle + k) - inertia(angle - k)) / (2 * k)
    force = -(potential(angle + k) - potential(angle - k)) / (2 * k)
    return (torque + force - slope * speed**2 / 2) / inertia(angle)


@pytest.mark.row("003:R17")
@pytest.mark.parametrize("closed", ["revolute", "spherical", "cylindrical"])
@pytest.mark.parametrize(("angle", "speed", "torque"), [(0.4, 0.0, 1.0), (1.5, 3.0, -0.5), (2.9, -2.0, 0.2), (4.4, 1.0, 0.0)])
def test_a_four_bar_moves_as_lagrange_says(closed, angle, speed, torque):
    # the revolute pin has rows that the plane repeats: three of five
    mechanism = four_bar(closed)
    model, pin = mechanism.model, mechanism.constraints[0]
    q = np.array([angle, *assembled(angle)])
    g, J, _ = functions(model, pin)
    assert np.abs(np.array(g(q, q))).max() < 1e-12
    A = np.array(J(q, q))
    rest = np.linalg.lstsq(A[:, 1:], -A[:, 0] * speed, rcond=None)[0]
    v = np.array([speed, *rest])
    assert np.abs(A @ v).max() < 1e-12
    a = np.array(mechanism.forward_dynamics(ca.DM(q), ca.DM(v), ca.DM([torque]))).ravel()
    assert a[0] == pytest.approx(reduced_acceleration(angle, speed, torque), rel=2e-6, abs=2e-5)


@pytest.mark.row("003:R17")
def test_two_rows_across_the_hinge_close_the_loop():
    """``G = V (R_B G(x_B) J_B - R_A G(x_A) J_A)`` with V orthonormal across the axis: rank 2, one degree of freedom is left. All
    three rows of the point have rank 2, too: no unique multipliers, and a KKT matrix that is singular in one direction."""
    mechanism = four_bar("cylindrical")
    model, q, v = mechanism.model, np.array([0.7, *assembled(0.7)]), np.array([0.3, -0.2, 0.4])
    rows = 0
    for sign, frame in ((1, "tip"), (-1, "end")):
        R = np.array(ca.DM(alg.frame_pose(model, q, frame).R))
        rows = rows + sign * R @ np.array(ca.DM(alg.frame_jacobian(model, q, frame, "body")))[:3]
    V = np.linalg.svd((R @ [0.0, 1.0, 0.0])[None, :])[2][1:]  # R: of the body that has the axis
    ours = np.array(functions(model, mechanism.constraints[0])[1](q, v))[:2]
    np.testing.assert_allclose(ours.T @ ours, (V @ rows).T @ (V @ rows), atol=1e-12)  # whatever basis
    assert [np.linalg.matrix_rank(G) for G in (ours, rows)] == [2, 2]
    M = np.array(dynamics.make(model, "mass_matrix")(q))
    smallest = [np.linalg.svd(np.block([[M, G.T], [G, np.zeros((len(G), len(G)))]]), compute_uv=False)[-2:] for G in (ours, rows)]
    assert smallest[0][1] > 1e-3
    assert smallest[1][1] < 1e-14 < 1e-3 < smallest[1][0]
    f, drift = -np.array(dynamics.make(model, "bias_force")(q, v)).ravel(), np.array(functions(
        model, mechanism.constraints[0])[2](q, v)).ravel()[:2]
    rates = ours @ v
    a, _ = equality(M, f, ours, -drift - 20.0 * rates)  # the mechanism's own return to the constraint
    np.testing.assert_allclose(np.array(mechanism.forward_dynamics(ca.DM(q), ca.DM(v), ca.DM(1, 1))).ravel(), a, atol=1e-7)
    with pytest.raises(ModelError, match="3 rows of rank 2"):
        equality(M, f, rows)


def test_redundant_rows_change_nothing():
    mechanism = four_bar()
    once = mechanism.constraints[0]
    twice = Mechanism(mechanism.model, mechanism.motors, constraints=(once, Closure("again", "end", "tip", "spherical")))
    q, u = np.array([0.7, *assembled(0.7)]), ca.DM([0.3])
    a, b = (np.array(m.forward_dynamics(ca.DM(q), ca.DM(3, 1), u)).ravel() for m in (mechanism, twice))
    np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.row("003:R19")
def test_constraint_forces_satisfy_the_whole_equation():
    mechanism = Mechanism(TREE, direct_motors(TREE), constraints=(RECORDS["spherical"], RECORDS["rod"], RECORDS["coupling"]))
    q, v = state(TREE, 3)
    u = np.random.default_rng(5).standard_normal(mechanism.nu)
    a, multipliers = (np.array(x) for x in mechanism.constrained_dynamics(ca.DM(q), ca.DM(v), ca.DM(u)))
    J = np.vstack([np.array(functions(TREE, c)[1](q, v)) for c in mechanism.constraints])
    tau = np.array(dynamics.make(TREE, "inverse_dynamics")(q, v, a)).ravel()
    np.testing.assert_allclose(tau, (np.array(mechanism.selection) @ u) + J.T @ multipliers.ravel(), atol=1e-7)
    g, drift = (np.vstack([np.array(functions(TREE, c)[k](q, v)) for c in mechanism.constraints]).ravel() for k in (0, 2))
    np.testing.assert_allclose(J @ a.ravel(), -drift - 20.0 * J @ v - 100.0 * g, atol=1e-6 * (1 + np.abs(g).max()))


def test_a_violation_decays_as_a_critically_damped_oscillator():
    model = random_tree(2, np.random.default_rng(0), kinds=["prismatic"])
    mechanism = Mechanism(model, constraints=(Coupling("belt", (("j0", 1.0), ("j1", -2.0))),))
    x = [ca.SX.sym(n, 2) for n in "qv"]
    f = ca.Function("f", x, [mechanism.forward_dynamics(*x, ca.SX(0, 1))])
    found = solve_ivp(lambda t, y: np.r_[y[2:], np.array(f(y[:2], y[2:])).ravel()], (0, 0.5), [0.3, 0, 0, 0], rtol=1e-10,
                      atol=1e-12, t_eval=[0.1, 0.3, 0.5])
    for t, y in zip(found.t, found.y.T, strict=True):
        assert y[0] - 2 * y[1] == pytest.approx(0.3 * (1 + 10 * t) * np.exp(-10 * t), rel=1e-7)


@pytest.mark.parametrize(("record", "words"), [
    (Closure("c", "f1", "f9"), "f9"), (Closure("c", "f1", "b1"), "same body"), (Closure("c", "f1", "f2", "hinge"), "no closure by"),
    (Rod("r", Place("f1"), Place("f2"), 0.0), "length must be positive"), (Coupling("b", ()), "couples no joints"),
    (Coupling("b", (("jx", 1.0),)), "no joint of one coordinate named 'jx'")])
def test_constraints_that_do_not_fit_are_refused(record, words):
    with pytest.raises(ModelError, match=words):
        Mechanism(TREE, constraints=(record,))


@pytest.mark.parametrize("joint", ["fixed", "revolute"])
def test_half_a_turn_is_as_far_from_closed_as_can_be(joint):
    """The sine of the angle between the frames is zero there; what is held is twice the sine of its half, and its rate is that."""
    b = Builder("turn")
    for name in ("first", "second"):
        b.body(name, parent="world", joint=Joint(name, "spherical"), inertia=BodyInertia(1.0, (0, 0, 0), np.eye(3).tolist()))
    model, record = b.build(), Closure("loop", "first", "second", joint)
    across = np.array([0.6, 0.8, 0.0])
    for angle in (1e-9, 0.3, 1.7, 2.5, 3.0):
        q = np.r_[1.0, 0, 0, 0, np.cos(angle / 2), np.sin(angle / 2) * across]
        g = np.array(ca.DM(record.value(model, ca.DM(q)))).ravel()[3:]
        assert np.linalg.norm(g) == pytest.approx(2 * np.sin(angle / 2), rel=1e-2 if angle < 2.9 else 0.1)
        assert float(record.facing(model, ca.DM(q))) == pytest.approx(np.cos(angle))
        v = np.r_[np.zeros(3), across]  # so that the angle grows by one a second
        rate = np.array(ca.DM(record.rate(model, ca.DM(q), ca.DM(v)))).ravel()[3:]
        later = np.r_[q[:4], np.cos((angle + 1e-6) / 2), np.sin((angle + 1e-6) / 2) * across]
        sooner = np.r_[q[:4], np.cos((angle - 1e-6) / 2), np.sin((angle - 1e-6) / 2) * across]
        change = [np.array(ca.DM(record.value(model, ca.DM(x)))).ravel()[3:] for x in (later, sooner)]
        assert rate == pytest.approx((change[0] - change[1]) / 2e-6, abs=1e-7)
