"""Closed-form derivatives of constrained dynamics and of impacts, to second order, with wrenches, redundant rows and time."""

from dataclasses import replace

import casadi as ca
import complex_dynamics as cd
import numpy as np
import pytest
from joint_examples import teach
from row_trees import tree_of

from dynamics import algorithms as alg
from dynamics import constraints as con
from dynamics.derivatives import constrained as closed
from dynamics.derivatives import (
    constrained_dynamics_derivatives,
    constrained_dynamics_hessian,
    impact_derivatives,
    impact_hessian,
)
from dynamics.forces import Place
from dynamics.mechanism import constrained as equations
from dynamics.model.synthetic import random_tree

t = ca.SX.sym("t")
PATH = ca.Function("path", [t], [ca.vertcat(ca.sin(t), t**2, ca.cos(2 * t))])
TURN = ca.Function("turn", [t], [ca.blockcat([[ca.cos(t), -ca.sin(t), 0], [ca.sin(t), ca.cos(t), 0], [0, 0, 1]])])
SWING = ca.Function("swing", [t], [ca.sin(3 * t)])
TREE = random_tree(5, np.random.default_rng(4), kinds=["revolute", "prismatic"], root="free_flyer", branching=0.5)
SIMPLE = [body.joint.name for body in TREE.bodies if body.joint.kind != "free_flyer"]
q_, v_ = ca.SX.sym("q", TREE.nq), ca.SX.sym("v", TREE.nv)
FOOT = con.PointContact("foot", "f2", ((0.1, 0.2, 0.3),), normal=(0.2, 0.1, 1.0))
PATCH = con.PointContact("patch", "f2", ((0.1, 0.2, 0.3), (0.0, 0.0, 0.2), (0.3, 0.0, 0.0), (0.2, -0.2, -0.1)))
RECORDS = {
    "foot": [FOOT], "patch": [PATCH], "line": [replace(PATCH, points=PATCH.points[:2])],
    "sliding patch": [replace(PATCH, slides=True)], "held points": [replace(FOOT, places=((0.3, -0.2, 0.1),))],
    "sole": [con.FlatContact("sole", "f3", (0.1, 0.0, -0.2), (0.0, 0.6, 0.8))],
    "wheel": [con.RollingContact("wheel", "f1", 0.3, (1.0, 0.0, 0.2))], "ball": [con.RollingContact("ball", "f4", 0.2)],
    "skate": [con.Skate("skate", "f3", (0.0, 1.0, 0.2), (0.1, 0.0, 0.3))],
    "pin to the world": [con.Closure("pin", "world", "f4", "spherical")],
    "rod": [con.Rod("rod", Place("f1", (0.1, 0.0, 0.0)), Place("f4", (0.0, 0.2, 0.0)), 0.4)],
    "guided frame": [con.FrameMotion("guided", "f2", PATH, TURN)],
    "guided joint and belt": [con.JointMotion("driven", SIMPLE[0], SWING),
                              con.Coupling("belt", ((SIMPLE[1], 1.0), (SIMPLE[2], 2.0)))],
    "equations": [con.PositionEquation("surface", ca.Function("g", [q_, t], [q_[0]**2 + ca.sin(t) * q_[8] - q_[4]])),
                  con.VelocityEquation("gear", ca.Function("r", [q_, v_, t], [q_[0] * v_[7] + ca.sin(t) * v_[1] - q_[4] * t]))],
    "foot and rod": [FOOT, con.Rod("rod", Place("f3", (0.1, 0.0, 0.0)), Place("f4", (0.0, 0.2, 0.0)), 0.4)]}


def close(a, b, tolerance=1e-10):
    a, b = np.array(a), np.array(b)
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.abs(b).max()))


def arguments(model, seed, wrenched):
    """Symbols q, v, tau, t, w (wrenches [6] on two bodies) and values of them."""
    rng, n = np.random.default_rng(seed), model.nv
    q = alg.random_configuration(model, rng)
    symbols = [ca.SX.sym(name, size) for name, size in (("q", model.nq), ("v", n), ("tau", n), ("t", 1), ("w", 6 * len(wrenched)))]
    f_ext = {body: symbols[4][6 * i:6 * i + 6] for i, body in enumerate(wrenched)}
    return symbols, [q, *rng.standard_normal((2, n)), 0.3, 5 * rng.standard_normal(6 * len(wrenched))], f_ext, rng


def differentiated(build, model, symbols, numbers, weights):
    """Value, Jacobian and gradient of ``build(q [+] d, ...)`` at d = 0 by algorithmic differentiation, and the Hessian by
    differences of the gradient."""
    z = [ca.SX.sym("d", model.nv), *(ca.SX.sym("z", *x.shape) for x in symbols[1:])]
    y = build(alg.jet(model, symbols[0], z[0]), *z[1:])
    values = [y, ca.jacobian(y, ca.vertcat(*z)), ca.gradient(ca.dot(weights, y), ca.vertcat(*z))]
    f = ca.Function("f", [symbols[0], ca.vertcat(*z)], values)
    at = np.r_[np.zeros(model.nv), *numbers[1:]]
    slope = ca.Function("g", [symbols[0], ca.vertcat(*z)], values[2:])
    h, eye = 1e-3, np.eye(len(at))
    columns = [sum(c * np.array(slope(numbers[0], at + k * h * e)).ravel() for k, c in (
        (1, 3 / 4), (-1, -3 / 4), (2, -3 / 20), (-2, 3 / 20), (3, 1 / 60), (-3, -1 / 60))) / h for e in eye]
    return [*map(np.array, f(numbers[0], at)), np.array(columns)]


def compare_dynamics(model, records, seed=0):
    wrenched = [model.bodies[-1].name, model.bodies[1].name]
    symbols, numbers, f_ext, rng = arguments(model, seed, wrenched)
    for record in records:
        record.check(model)
    rows = equations.stacked(model, equations.reduced(records), "jacobian", symbols[0]).shape[0]
    mu = ca.DM(rng.standard_normal(model.nv)), ca.DM(rng.standard_normal(rows))
    expected = differentiated(lambda q, v, tau, s, w: ca.vertcat(*equations.accelerations(
        model, records, q, v, tau, s, {b: w[6 * i:6 * i + 6] for i, b in enumerate(wrenched)})), model, symbols, numbers,
        ca.vertcat(*mu))
    q, v, tau, s, _ = symbols
    found = closed.constrained_dynamics_partials(model, records, q, v, tau, t=s, f_ext=f_ext, bodies=wrenched)
    second = closed.contracted_constrained_dynamics(model, records, q, v, tau, mu, t=s, f_ext=f_ext, bodies=wrenched)
    ours = ca.Function("f", symbols, [ca.vertcat(found.a, found.force), found.Y, *second])(*numbers)
    for x, y, tolerance in zip(ours, expected, (1e-10, 1e-10, 1e-10, 1e-7), strict=True):
        close(x, y, tolerance)


def compare_impact(model, records, restitution, seed=0):
    wrenched = [model.bodies[-1].name, model.bodies[1].name]
    symbols, numbers, f_ext, rng = arguments(model, seed, wrenched)
    del symbols[2], numbers[2]
    rows = equations.stacked(model, equations.reduced(records), "jacobian", symbols[0]).shape[0]
    mu = ca.DM(rng.standard_normal(model.nv)), ca.DM(rng.standard_normal(rows))
    expected = differentiated(lambda q, v, s, w: ca.vertcat(*equations.impact(
        model, records, q, v, restitution, s, {b: w[6 * i:6 * i + 6] for i, b in enumerate(wrenched)})[:2]), model, symbols,
        numbers, ca.vertcat(*mu))
    q, v, s, _ = symbols
    found = closed.impact_partials(model, records, q, v, restitution, t=s, impulses=f_ext, bodies=wrenched)
    second = closed.contracted_impact(model, records, q, v, mu, restitution, t=s, impulses=f_ext, bodies=wrenched)
    ours = ca.Function("f", symbols, [ca.vertcat(found.v_after, found.impulse), found.Y, *second])(*numbers)
    for x, y, tolerance in zip(ours, expected, (1e-10, 1e-10, 1e-10, 1e-7), strict=True):
        close(x, y, tolerance)


@pytest.mark.row("002:H18", "002:H19")
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in ("patch", "foot and rod") else name
                                  for name in RECORDS])
@pytest.mark.sample(3)
def test_dynamics_of_every_record(name):
    """A branching tree on a floating base, with wrenches on two bodies, against differentiation of the whole solve."""
    compare_dynamics(TREE, RECORDS[name])


@pytest.mark.row("002:H18", "002:H19")
@pytest.mark.parametrize("name", ["foot", "wheel", "guided frame", "equations"] + [
    pytest.param(name, marks=pytest.mark.slow) for name in ("patch", "foot and rod")])
def test_impacts_of_records(name):
    compare_impact(TREE, RECORDS[name], {RECORDS[name][0].name: 0.4})


MIXED = tree_of("free_flyer", "universal", "spherical", "fixed", seed=3)


@pytest.mark.row("002:H18", "002:H20")
def test_joints_of_several_degrees_and_a_wrench_on_a_welded_body():
    """The last body is welded to a spherical joint's: a wrench on it acts at its place, turned and moved."""
    records = [con.PointContact("foot", "f3", ((0.1, 0.2, 0.3),)), con.FlatContact("sole", "f0")]
    compare_dynamics(MIXED, records)
    compare_impact(MIXED, records, 0.2)
    # put where it does not act, the wrench gives other derivatives
    x = [ca.SX.sym(name, size) for name, size in (("q", MIXED.nq), ("v", MIXED.nv), ("tau", MIXED.nv))]
    _, numbers, _, _ = arguments(MIXED, 0, [])
    w, welded, carrier = ca.DM([3.0, -2.0, 5.0, 0.5, -0.4, 0.3]), MIXED.bodies[3].name, MIXED.bodies[2].name
    there, elsewhere = (np.array(ca.Function("f", x, [closed.constrained_dynamics_partials(
        MIXED, records[:1], *x, f_ext={body: w}).Y])(*numbers[:3])) for body in (welded, carrier))
    assert np.abs(there - elsewhere).max() > 1e-2


@pytest.mark.row("002:H20")
@pytest.mark.parametrize("kind", ["spline_curve", pytest.param("wobble", marks=pytest.mark.slow)])
def test_joints_whose_subspace_moves(kind, monkeypatch):
    teach(monkeypatch)
    model = tree_of("planar", kind, "revolute", seed=5)
    compare_dynamics(model, [con.PointContact("foot", "f2", ((0.1, 0.2, 0.3),))])
    compare_impact(model, [con.PointContact("foot", "f2", ((0.1, 0.2, 0.3),))], 0.5)


@pytest.mark.row("002:H19")
def test_rows_that_repeat_each_other():
    """One foot said twice beside a rod: accelerations as with one foot, forces shared in halves, and so are their derivatives."""
    once, twice = RECORDS["foot and rod"], [FOOT, replace(FOOT, name="again"), RECORDS["foot and rod"][1]]
    _, (q, v, tau, s, _), _, rng = arguments(TREE, 2, [])
    n = TREE.nv
    mu_a, mu_f = rng.standard_normal(n), rng.standard_normal(4)
    a, f, Y = (np.array(x) for x in constrained_dynamics_derivatives(TREE, once)(q, v, tau, s))
    a2, f2, Y2 = (np.array(x) for x in constrained_dynamics_derivatives(TREE, twice)(q, v, tau, s))
    share = np.zeros((7, 4))
    share[:3, :3] = share[3:6, :3] = np.eye(3) / 2
    share[6, 3] = 1.0
    close(a2, a, 1e-8)
    close(f2, share @ f, 1e-6)
    close(Y2[:n], Y[:n], 1e-8)
    close(Y2[n:], share @ Y[n:], 1e-6)
    # weights of forces in the range of J: equal for both
    both = np.r_[mu_f[:3], mu_f]
    _, H = constrained_dynamics_hessian(TREE, once)(q, v, tau, s, mu_a, share.T @ both)
    _, H2 = constrained_dynamics_hessian(TREE, twice)(q, v, tau, s, mu_a, both)
    close(H2, H, 1e-6)


def test_the_smallest_forces_turn_with_the_null_space(monkeypatch):
    """Two feet on one body, which can turn about the line between them: six rows of rank five, forces by differences."""
    model = random_tree(1, np.random.default_rng(2), root="free_flyer")
    line, rng = np.array([0.3, -0.2, 0.1]), np.random.default_rng(3)
    points = np.array([[0.1, 0.2, 0.3], np.array([0.1, 0.2, 0.3]) + line])
    q, tau = alg.random_configuration(model, rng), rng.standard_normal(6)
    x, d = ca.SX.sym("q", 7), ca.SX.sym("d", 6)
    R, p = (np.array(y) for y in ca.Function("p", [x], list(alg.body_poses(model, x)[0]))(q))
    normal = np.cross(R @ line, [0.3, 0.5, -0.8])
    normal /= np.linalg.norm(normal)
    height = float(normal @ (R @ points[0] + p.ravel()))
    records = [con.PointContact(name, "b0", (tuple(at),), tuple(normal), height) for name, at in zip("ab", points, strict=True)]
    spin = 0.8 * line / np.linalg.norm(line)
    v = np.r_[-np.cross(spin, points[0]), spin]
    force = ca.Function("f", [x], [equations.accelerations(model, records, x, ca.DM(v), ca.DM(tau))[1]])
    move, h = ca.Function("m", [x, d], [alg.integrate(model, x, d)]), 0.05
    _, f, Y = (np.array(y) for y in constrained_dynamics_derivatives(model, records)(q, v, tau, 0.0))
    close(f, force(q), 1e-6)
    # turning about the normal of the plane keeps both feet on it, and turns the line: the null space in the axes of the plane
    turn = R.T @ normal
    direction = np.r_[-np.cross(turn, points[0]), turn]
    expected = sum(c * np.array(force(move(q, k * h * direction)) - force(move(q, -k * h * direction))).ravel() for k, c in (
        (1, 3 / 4), (2, -3 / 20), (3, 1 / 60))) / h
    close(Y[6:, :6] @ direction, expected, 1e-5)
    monkeypatch.setattr(closed._System, "_turning", lambda self: 0)
    still = np.array(constrained_dynamics_derivatives(model, records)(q, v, tau, 0.0)[2])
    assert np.abs(still[6:, :6] @ direction - expected).max() > 1e-2


@pytest.mark.row("002:H19")
def test_first_order_by_complex_steps_of_the_solve():
    """A foot at the origin of a body, world axes: the whole system in complex arithmetic, sharing no code with ours."""
    rng = np.random.default_rng(6)
    model = random_tree(4, rng, root="free_flyer", kinds=["revolute", "prismatic"], branching=0.0)
    q, (v, tau) = alg.random_configuration(model, rng), rng.standard_normal((2, model.nv))
    tree, foot = cd.read(model, q), len(model.bodies) - 1
    rate = con.constraint.RATE

    def solved(t, v, tau):
        n = t.n
        w = cd.world(t, v, np.zeros(n))
        R, p = np.eye(3), np.zeros(3)
        for i in reversed(t.way(foot)):
            p, R = p + R @ t.p[i], R @ t.R[i]
        J = np.zeros((6, n), complex)
        for i in t.way(foot):
            J[:, t.columns[i]] = w.S[i]
        at = np.hstack([np.eye(3), -cd.hat(p)])  # twist at the world origin -> velocity of the point at p
        spatial_acceleration = w.a[foot] + np.r_[t.gravity, np.zeros(3)]
        velocity = at @ w.v[foot]
        drift = at @ spatial_acceleration + cd.hat(w.v[foot][3:]) @ velocity
        Jc, M = at @ J, cd.first_order(t, 0 * v, np.zeros(n))[2]
        K = np.block([[M, -Jc.T], [Jc, np.zeros((3, 3))]])
        demanded = -drift - 2 * rate * velocity - rate**2 * p * np.array([0, 0, 1])
        return np.linalg.solve(K, np.r_[tau - cd.rnea(t, v, np.zeros(n)), demanded])

    expected = np.hstack([cd.derivative_q(lambda t: solved(t, v, tau), tree), cd.derivative_x(lambda x: solved(tree, x, tau), v),
                          cd.derivative_x(lambda x: solved(tree, v, x), tau)])
    a, f, Y = (np.array(x) for x in constrained_dynamics_derivatives(model, [con.PointContact("foot", model.bodies[foot].name)])(
        q, v, tau, 0.0))
    close(np.r_[a, f].ravel(), np.real(solved(tree, v, tau)))
    close(Y[:, :-1], expected)


@pytest.mark.row("002:H19")
def test_first_order_against_pinocchio():
    pin = pytest.importorskip("pinocchio")
    import pinocchio_twin as twin

    model = random_tree(5, np.random.default_rng(8), root="free_flyer", kinds=["revolute", "prismatic"], branching=0.5,
                        depth_first=True)
    rng = np.random.default_rng(9)
    q, (v, tau) = alg.random_configuration(model, rng), rng.standard_normal((2, model.nv))
    v *= 0  # Pinocchio stabilises in the axes of the contact: compare where nothing moves, and its gains are ours
    theirs = twin.build(model)
    q_pin = twin.configuration(model, q)
    body = model.bodies[-1].name
    joint = model.bodies[-1].joint.name
    assert theirs.existJointName(joint)
    place = np.array(alg.body_poses(model, ca.DM(q))[-1].p).ravel()
    contact = pin.RigidConstraintModel(pin.ContactType.CONTACT_3D, theirs, theirs.getJointId(joint), pin.SE3.Identity(), 0,
                                       pin.SE3(np.eye(3), place), pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
    data, contacts = theirs.createData(), pin.StdVec_RigidConstraintModel()
    contacts.append(contact)
    datas = pin.StdVec_RigidConstraintData()
    datas.append(contact.createData())
    pin.initConstraintDynamics(theirs, data, contacts, datas)
    settings = pin.ProximalSettings(1e-14, 0.0, 10)
    a_pin = pin.constraintDynamics(theirs, data, q_pin, v, tau, contacts, datas, settings).copy()
    pin.computeConstraintDynamicsDerivatives(theirs, data, contacts, datas, settings)
    record = con.PointContact("foot", body, places=(tuple(place),))
    a, _, Y = (np.array(x) for x in constrained_dynamics_derivatives(model, [record])(q, v, tau, 0.0))
    n = model.nv
    close(a.ravel(), a_pin)
    close(Y[:n, 2 * n:3 * n], data.ddq_dtau)
    # ours brings the foot back to its place: take that pull out
    x = ca.SX.sym("q", model.nq)
    J = np.array(ca.Function("J", [x], [record.jacobian(model, x)])(q))
    M = np.array(ca.Function("M", [x], [alg.mass_matrix(model, x)])(q))
    back = np.linalg.solve(M, J.T @ np.linalg.solve(J @ np.linalg.solve(M, J.T), J))
    close(Y[:n, :n] + con.constraint.RATE**2 * back, data.ddq_dq, 1e-8)


@pytest.mark.row("002:H21")
@pytest.mark.parametrize("part", ["inverse", "frames"])
def test_poison_in_a_closed_form_reaches_the_result(part, monkeypatch):
    """What is called analytic holds the closed forms: spoil one, and the Hessian is wrong."""
    from dynamics.derivatives import frame_motions

    _, (q, v, tau, s, _), _, rng = arguments(TREE, 3, [])
    mu = rng.standard_normal(TREE.nv), rng.standard_normal(3)
    right = np.array(constrained_dynamics_hessian(TREE, [FOOT])(q, v, tau, s, *mu)[1])
    if part == "inverse":
        honest = closed.contracted_inverse_dynamics
        monkeypatch.setattr(closed, "contracted_inverse_dynamics", lambda *x: (y := honest(*x))._replace(vv=2 * y.vv))
    else:
        honest = frame_motions.FrameJet.contracted
        monkeypatch.setattr(frame_motions.FrameJet, "contracted", lambda self, *F: tuple(
            -x if i == 3 else x for i, x in enumerate(honest(self, *F))))
    wrong = np.array(constrained_dynamics_hessian(TREE, [FOOT])(q, v, tau, s, *mu)[1])
    assert np.abs(wrong - right).max() > 1e-3 * np.abs(right).max()


def test_functions_of_impacts_agree_with_the_equations():
    _, (q, v, _, s, _), _, rng = arguments(TREE, 4, [])
    after, impulse, _ = (np.array(x) for x in impact_derivatives(TREE, [FOOT], 0.3)(q, v, s))
    x = [ca.SX.sym("q", TREE.nq), ca.SX.sym("v", TREE.nv)]
    M, J = (np.array(y) for y in ca.Function("f", x, [alg.mass_matrix(TREE, x[0]), FOOT.jacobian(TREE, x[0])])(q, v))
    close(M @ (after.ravel() - v), (J.T @ impulse).ravel())
    close(J @ after.ravel(), -0.3 * J @ v)
    gradient, _ = impact_hessian(TREE, [FOOT], 0.3)(q, v, s, np.zeros(TREE.nv), [1.0, 0, 0])
    close(gradient, impact_derivatives(TREE, [FOOT], 0.3)(q, v, s)[2][TREE.nv, :].T)
