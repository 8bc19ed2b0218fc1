"""Constraints of every kind: rates, Jacobians and drifts against differences in time, and motions with known answers."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dynamics
from dynamics import ModelError
from dynamics import algorithms as alg
from dynamics import constraints as con
from dynamics.errors import UnknownNameError
from dynamics.mechanism import Mechanism, Thruster, direct_motors
from dynamics.model import Builder, Joint, Placement
from dynamics.model.model import BodyInertia
from dynamics.model.synthetic import random_tree
from tests.support.force_harness import along_tangent, state

t = ca.SX.sym("t")
TREE = random_tree(6, np.random.default_rng(4), kinds=["revolute", "spherical", "universal", "prismatic"], root="free_flyer",
                   branching=0.5)
SIMPLE = [body.joint.name for body in TREE.bodies if body.joint.kind in ("revolute", "prismatic")]
PATH = ca.Function("path", [t], [ca.vertcat(ca.sin(t), t**2, ca.cos(2 * t))])
TURN = ca.Function("turn", [t], [ca.blockcat([[ca.cos(t**2), -ca.sin(t**2), 0], [ca.sin(t**2), ca.cos(t**2), 0], [0, 0, 1]])])
q_, v_ = ca.SX.sym("q", TREE.nq), ca.SX.sym("v", TREE.nv)
PATCH = con.PointContact("patch", "f2", ((0.1, 0.2, 0.3), (0.0, 0.0, 0.2), (0.3, 0.0, 0.0)), (0.2, 0.1, 1.0), 0.3)
RECORDS = {
    "point": con.PointContact("foot", "f2", ((0.1, 0.2, 0.3),), (0.2, 0.1, 1.0), 0.3), "patch": PATCH,
    "reduced patch": PATCH.reduced, "held points": replace(PATCH, places=((0.3, 0.1, 0.2),) * 3),
    "sliding": replace(PATCH, slides=True), "reduced sliding": replace(PATCH, slides=True).reduced,
    "sole": con.FlatContact("sole", "f3", (0.1, 0.0, -0.2), (0.0, 0.6, 0.8)),
    "wheel": con.RollingContact("wheel", "f1", 0.3, (1.0, 0.0, 0.2)), "ball": con.RollingContact("ball", "f4", 0.2),
    "skate": con.Skate("skate", "f3", (0.0, 1.0, 0.2), (0.1, 0.0, 0.3)),
    "guided joint": con.JointMotion("driven", SIMPLE[0], ca.Function("p", [t], [ca.sin(3 * t)])),
    "guided frame": con.FrameMotion("guided", "f2", PATH, TURN), "guided turn": con.FrameMotion("guided", "f2", rotation=TURN),
    "position": con.PositionEquation("surface", ca.Function("g", [q_, t], [q_[0]**2 + ca.sin(t) * q_[8] - q_[4]])),
    "velocity": con.VelocityEquation("gear", ca.Function("r", [q_, v_, t], [q_[0] * v_[7] + ca.sin(t) * v_[1] - q_[4] * t]))}


def functions(model, record):
    q, v, s = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("t")
    return {name: ca.Function(name, [q, v, s], [ca.densify(ca.SX(x))]) for name, x in (
        ("g", record.value(model, q, s)), ("J", record.jacobian(model, q, s)), ("rate", record.rate(model, q, v, s)),
        ("drift", record.drift(model, q, v, s)))}


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.sample(3)
def test_rate_jacobian_and_drift_against_differences_in_time(name):
    record = RECORDS[name]
    record.check(TREE)
    f, (q, v), now, h = functions(TREE, record), state(TREE, 1), 0.7, 1e-6
    move = dynamics.make(TREE, "integrate")
    positions = [i for i in range(f["g"].size1_out(0)) if i not in record.velocity_rows]
    if not name.startswith("reduced patch"):  # the basis turns with the body: g and rate agree where g vanishes
        slope = (np.array(f["g"](move(q, h * v), v, now + h)) - np.array(f["g"](move(q, -h * v), v, now - h))).ravel() / (2 * h)
        np.testing.assert_allclose(np.array(f["rate"](q, v, now)).ravel()[positions], slope[positions], atol=1e-7)
        if positions:
            along = along_tangent(TREE, lambda x, w: f["g"](x, w, now), q, v)
            np.testing.assert_allclose(np.array(f["J"](q, v, now))[positions], along[positions], atol=1e-7)
    assert not np.array(f["g"](q, v, now)).ravel()[list(record.velocity_rows)].any()
    # affine in v with the Jacobian as slope
    w = np.random.default_rng(2).standard_normal(TREE.nv)
    np.testing.assert_allclose(np.array(f["rate"](q, v + w, now) - f["rate"](q, v, now)), np.array(f["J"](q, v, now)) @ w[:, None],
                               atol=1e-12)
    pace = (np.array(f["rate"](move(q, h * v), v, now + h)) - np.array(f["rate"](move(q, -h * v), v, now - h))) / (2 * h)
    np.testing.assert_allclose(np.array(f["drift"](q, v, now)), pace, atol=2e-7)


def test_points_of_contacts_move_as_the_kinematics_say():
    (q, v), record = state(TREE, 3), RECORDS["point"]
    R, p = (np.array(x) for x in dynamics.make_frame(TREE, "pose", "f2")(q))
    twist = np.array(dynamics.make_frame(TREE, "velocity", "f2")(q, v)).ravel()
    arm = R @ np.array(record.points[0])
    axes, velocity = np.array(record.axes), twist[:3] + np.cross(twist[3:], arm)
    np.testing.assert_allclose(np.array(functions(TREE, record)["rate"](q, v, 0)).ravel(), axes @ velocity, atol=1e-12)
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-14)
    n = np.array(record.normal) / np.linalg.norm(record.normal)
    np.testing.assert_allclose(axes[2], n, atol=1e-14)
    assert float(ca.DM(record.gap(TREE, ca.DM(q)))) == pytest.approx(n @ (p.ravel() + arm) - 0.3)


# ---- single bodies with known motions -------------------------------------------------------------------------------------
def body(mass=2.0, inertia=(0.1, 0.2, 0.3)):
    b = Builder("body")
    b.body("body", parent="world", joint=Joint("base", "free_flyer", Placement(), ()),
           inertia=BodyInertia(mass, (0.0, 0.0, 0.0), tuple(tuple(x) for x in np.diag(inertia).tolist())))
    return b.build()


def rolled(mechanism, x0, seconds, samples=2):
    model = mechanism.model
    q, v, s = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("t")
    f = ca.Function("f", [q, v, s], [alg.rate_matrix(model, q) @ v, mechanism.forward_dynamics(q, v, ca.SX(mechanism.nu, 1), s)])
    return solve_ivp(lambda s, x: np.concatenate([np.array(y).ravel() for y in f(x[:model.nq], x[model.nq:], s)]), (0, seconds), x0,
                     rtol=1e-9, atol=1e-11, t_eval=np.linspace(0, seconds, samples)).y.T


def test_a_ball_rolls_down_a_slope_as_in_the_textbook():
    radius, angle = 0.2, 0.3
    normal = (np.sin(angle), 0.0, np.cos(angle))
    model = body(inertia=(0.4 * 2.0 * radius**2,) * 3)
    mechanism = Mechanism(model, constraints=(con.RollingContact("ball", "body", radius, normal=normal),))
    start = np.r_[radius * np.array(normal), 1, 0, 0, 0, np.zeros(6)]
    end = rolled(mechanism, start, 1.0)[-1]
    way = end[:3] - start[:3]
    assert np.linalg.norm(way) == pytest.approx(9.81 * np.sin(angle) / (1 + 0.4) / 2, rel=1e-7)
    assert way @ normal == pytest.approx(0, abs=1e-9)
    force = mechanism.constraint_forces(ca.DM(start[:7]), ca.DM(6, 1), ca.DM(0, 1))["ball"]
    tangent, _, push = np.array(ca.DM(force)).ravel()
    assert push == pytest.approx(2 * 9.81 * np.cos(angle), rel=1e-7)
    assert abs(tangent) == pytest.approx(2 * 9.81 * np.sin(angle) * 0.4 / 1.4, rel=1e-7)


def test_a_disc_rolls_in_a_circle_that_its_tilt_and_speed_ask_for():
    """Steady rolling of a thin disc: the spin that belongs to a tilt and a rate of turning, by momentum and angular momentum."""
    radius, mass, tilt, turn = 0.3, 1.5, 0.35, 2.0
    I = mass * radius**2 * np.array([0.25, 0.25, 0.5])  # axis z is the disc's
    model = body(mass, tuple(I))
    mechanism = Mechanism(model, constraints=(con.RollingContact("disc", "body", radius, (0.0, 0.0, 1.0)),))
    # z of the disc tilted from horizontal -y towards the vertical; e: up in its plane
    axis, up = np.array([0, -np.cos(tilt), np.sin(tilt)]), np.array([0, np.sin(tilt), np.cos(tilt)])
    R = np.column_stack([np.cross(up, axis), up, axis])
    spin = np.linspace(-40, 40, 4001)

    def residual(s):
        """Change of angular momentum of the steady motion less the moment of the contact force, about the centre."""
        w = turn * np.array([0, 0, 1]) + s * axis
        arm = -radius * up
        v = -np.cross(w, arm)
        acceleration = turn * np.cross([0, 0, 1], v)
        force = mass * (acceleration + np.array([0, 0, 9.81]))
        H = R @ (I * (R.T @ w))
        return (turn * np.cross([0, 0, 1], H) - np.cross(arm, force))[0]

    values = np.array([residual(s) for s in spin])
    k = np.flatnonzero(np.diff(np.sign(values)))[0]
    s = np.interp(0, sorted(values[k:k + 2]), spin[k:k + 2][np.argsort(values[k:k + 2])])
    w = turn * np.array([0, 0, 1]) + s * axis
    v = -np.cross(w, -radius * up)
    from scipy.spatial.transform import Rotation
    quaternion = Rotation.from_matrix(R).as_quat()[[3, 0, 1, 2]]
    x0 = np.r_[0, 0, radius * up[2], quaternion, R.T @ v, R.T @ w]
    path = rolled(mechanism, x0, 2 * np.pi / turn, 5)
    np.testing.assert_allclose(path[:, 2], x0[2], atol=2e-6)
    np.testing.assert_allclose(path[-1, :3], x0[:3], atol=2e-5)
    assert np.ptp(path[:, 0]) + np.ptp(path[:, 1]) > 0.1


def test_a_skate_on_a_slope_moves_on_a_cycloid():
    """The classical knife edge: v = g sin(a) / w sin(w t) along the blade, which turns evenly; it climbs back."""
    slope, w = 0.4, 1.7
    model = replace(body(), gravity=(9.81 * np.sin(slope), 0.0, 0.0))
    mechanism = Mechanism(model, constraints=(con.Skate("blade", "body", (0.0, 1.0, 0.0)),))
    x0 = np.r_[0, 0, 0, 1, 0, 0, 0, np.zeros(5), w]
    path = rolled(mechanism, x0, 3.0, 7)
    times, g = np.linspace(0, 3.0, 7), 9.81 * np.sin(slope)
    np.testing.assert_allclose(path[:, 0], g / (2 * w**2) * np.sin(w * times)**2, atol=1e-6)
    np.testing.assert_allclose(path[:, 1], g / (2 * w**2) * (w * times - np.sin(2 * w * times) / 2), atol=1e-6)


@pytest.mark.row("003:R24", "003:R26")
def test_prescribed_motions_take_the_effort_that_inverse_dynamics_says():
    model = random_tree(4, np.random.default_rng(0), kinds=["revolute"], branching=0.3)
    rng, now = np.random.default_rng(1), 0.4
    amplitudes = rng.uniform(0.2, 0.8, 4)
    records = tuple(con.JointMotion(f"j{i}", f"j{i}", ca.Function("p", [t], [a * ca.sin((i + 1) * t)]))
                    for i, a in enumerate(amplitudes))
    k = np.arange(1, 5)
    q, v, a = amplitudes * np.sin(k * now), amplitudes * k * np.cos(k * now), -amplitudes * k**2 * np.sin(k * now)
    tau = np.array(dynamics.make(model, "inverse_dynamics")(q, v, a)).ravel()
    mechanism = Mechanism(model, (), constraints=records)
    found, multipliers = (np.array(ca.DM(x)).ravel() for x in mechanism.constrained_dynamics(
        ca.DM(q), ca.DM(v), ca.DM(0, 1), now))
    np.testing.assert_allclose(found, a, atol=1e-8)
    np.testing.assert_allclose(multipliers, tau, atol=1e-7)
    # the same by accelerations of two joints in, efforts out; the others move freely
    free = Mechanism(model, direct_motors(model, ["j0", "j2"]))
    u = rng.standard_normal(2)
    a2, efforts = free.hybrid_dynamics(ca.DM(q), ca.DM(v), ca.DM(u), {"j1": ca.DM(0.7), "j3": ca.DM(-1.2)})
    a2 = np.array(ca.DM(a2)).ravel()
    np.testing.assert_allclose(a2[[1, 3]], [0.7, -1.2], atol=1e-9)
    back = np.zeros(4)
    back[[0, 2]], back[1], back[3] = u, float(efforts["j1"]), float(efforts["j3"])
    np.testing.assert_allclose(np.array(dynamics.make(model, "forward_dynamics")(q, v, back)).ravel(), a2, atol=1e-8)


def test_a_guided_frame_is_followed_and_its_forces_do_the_work():
    model = body()
    mechanism = Mechanism(model, constraints=(con.FrameMotion("hand", "body", PATH, TURN),))
    x0 = np.r_[0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0]  # the path begins at (0, 0, 1) with speed (1, 0, 0)
    end = rolled(mechanism, x0, 1.2)[-1]
    np.testing.assert_allclose(end[:3], np.array(PATH(1.2)).ravel(), atol=1e-7)
    R = np.array(ca.DM(alg.body_poses(model, ca.DM(end[:7]))[0].R))
    np.testing.assert_allclose(R, np.array(TURN(1.2)), atol=1e-7)
    assert mechanism.prescribed
    assert not Mechanism(model, constraints=(con.PointContact("foot", "body"),)).prescribed
    # power of the guide = change of the energy
    q, v, none, now, h = ca.DM(end[:7]), ca.DM(end[7:]), ca.DM(0, 1), 1.2, 1e-6
    power = float(mechanism.constraint_power(q, v, none, now))
    a = mechanism.forward_dynamics(q, v, none, now)
    later, before = (mechanism.energy(alg.integrate(model, q, s * h * v), v + s * h * a) for s in (1, -1))
    assert power == pytest.approx(float((later - before) / (2 * h)), rel=1e-5)


# ---- impacts --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("e", [0.0, 0.35, 1.0])
def test_an_impact_balances_momentum_and_loses_what_restitution_takes(e):
    q, v = state(TREE, 5)
    mechanism = Mechanism(TREE, constraints=(RECORDS["point"], replace(RECORDS["sliding"], name="heel", frame="f4")))
    names = {"foot": e, "heel": e}
    pushed = {TREE.bodies[3].name: ca.DM([1.0, -2.0, 0.5, 0.1, 0.2, -0.3])}
    found = mechanism.impact(ca.DM(q), ca.DM(v), names)
    after, impulse = (np.array(ca.DM(x)).ravel() for x in found[:2])
    M = np.array(dynamics.make(TREE, "mass_matrix")(q))
    J = np.vstack([np.array(functions(TREE, c)["J"](q, v, 0)) for c in mechanism.constraints])
    np.testing.assert_allclose(M @ (after - v), J.T @ impulse, atol=1e-8)
    np.testing.assert_allclose(J @ after, -e * J @ v, atol=1e-8)
    lost = (after @ M @ after - v @ M @ v) / 2
    assert float(found.energy) == pytest.approx(lost, abs=1e-9)
    A = J @ np.linalg.solve(M, J.T)
    assert lost == pytest.approx(-(1 - e**2) / 2 * (J @ v) @ np.linalg.lstsq(A, J @ v, rcond=1e-9)[0], abs=1e-8)
    # an impulse from outside adds to the momentum, and the contacts still stop
    driven = mechanism.impact(ca.DM(q), ca.DM(v), names, impulses=pushed)
    b = np.array(ca.DM(driven.v_after)).ravel()
    J_b = np.array(dynamics.make_frame(TREE, "jacobian", TREE.bodies[3].name, "body")(q))
    outside = J_b.T @ np.array(pushed[TREE.bodies[3].name]).ravel()
    np.testing.assert_allclose(M @ (b - v), J.T @ np.array(ca.DM(driven.impulse)).ravel() + outside, atol=1e-8)
    np.testing.assert_allclose(J @ b, -e * J @ v, atol=1e-8)


def test_restitution_row_by_row():
    q, v = state(TREE, 5)
    mechanism = Mechanism(TREE, constraints=(RECORDS["point"],))
    after = np.array(ca.DM(mechanism.impact(ca.DM(q), ca.DM(v), {"foot": (0.0, 0.0, 0.6)}).v_after)).ravel()
    rate = functions(TREE, RECORDS["point"])["rate"]
    np.testing.assert_allclose(np.array(rate(q, after, 0)).ravel(), [0, 0, -0.6 * float(rate(q, v, 0)[2])], atol=1e-9)
    for wrong, words in (({"foot": 1.5}, "between 0 and 1"), ({"foot": (0.1, 0.2)}, "2 restitutions for 3"), ({"fot": 0}, "foot")):
        with pytest.raises((ModelError, UnknownNameError), match=words):
            mechanism.impact(ca.DM(q), ca.DM(v), wrong)


# ---- forces ---------------------------------------------------------------------------------------------------------------
def test_forces_by_name_balance_and_serve_inverse_dynamics():
    """Wrenches on a welded body, a thruster and contact forces: forward and inverse dynamics agree."""
    b = Builder("welded")
    solid = BodyInertia(1.0, (0.1, 0.0, 0.05), ((0.02, 0, 0), (0, 0.03, 0), (0, 0, 0.025)))
    b.body("base", parent="world", joint=Joint("base", "free_flyer", Placement(), ()), inertia=solid)
    b.body("arm", parent="base", joint=Joint("arm", "revolute", Placement(position=(0.2, 0, 0)), ((0.0, 0.6, 0.8),)), inertia=solid)
    b.body("tool", parent="arm", joint=Joint("weld", "fixed", Placement(position=(0.1, 0.3, -0.2)), ()), inertia=solid)
    b.body("leg", parent="base", joint=Joint("leg", "spherical", Placement(position=(-0.2, 0, 0)), ()), inertia=solid)
    model = b.build()
    mechanism = Mechanism(model, direct_motors(model, ["arm"]), (Thruster("jet", "tool", (0.0, 0.0, 1.0)),),
                          constraints=(con.PointContact("foot", "leg", ((0.0, 0.1, -0.3),)),
                                       con.PointContact("skid", "tool", ((0.1, 0.0, 0.0), (0.0, 0.2, 0.0)), slides=True)))
    (q, v), u, f_ext = state(model, 2), ca.DM([0.5, 3.0]), {"tool": ca.DM([3.0, -2.0, 5.0, 0.5, -0.4, 0.3])}
    a, _ = mechanism.constrained_dynamics(ca.DM(q), ca.DM(v), u, f_ext=f_ext)
    forces = mechanism.constraint_forces(ca.DM(q), ca.DM(v), u, f_ext=f_ext)
    assert {name: x.shape[0] for name, x in forces.items()} == {"foot": 3, "skid": 2}
    tau = mechanism.inverse_dynamics(ca.DM(q), ca.DM(v), a, u[1:], f_ext, forces)
    np.testing.assert_allclose(np.array(tau).ravel(), np.r_[np.zeros(6), 0.5, np.zeros(3)], atol=1e-7)
    # the wrench acts where the tool is: on its carrier it would be another
    elsewhere = mechanism.inverse_dynamics(ca.DM(q), ca.DM(v), a, u[1:], {"arm": f_ext["tool"]}, forces)
    assert np.abs(np.array(elsewhere - tau)).max() > 0.1
    with pytest.raises(UnknownNameError, match="foot"):
        mechanism.inverse_dynamics(ca.DM(q), ca.DM(v), a, None, None, {"fot": ca.DM(3, 1)})
    with pytest.raises(ModelError, match="2 forces for 3 rows"):
        mechanism.inverse_dynamics(ca.DM(q), ca.DM(v), a, None, None, {"foot": ca.DM(2, 1)})


def test_a_table_stands_on_four_legs_and_each_carries_its_share():
    """Twelve rows of rank six: the smallest forces of a table with its load in the middle are equal; J' lambda is the weight."""
    legs = tuple((x, y, -0.5) for x in (0.4, -0.4) for y in (0.3, -0.3))
    mechanism = Mechanism(body(10.0), constraints=(con.PointContact("legs", "body", legs, height=0.0, friction=0.5),))
    q = ca.DM([0, 0, 0.5, 1, 0, 0, 0])
    a, force = mechanism.constrained_dynamics(q, ca.DM(6, 1), ca.DM(0, 1))
    np.testing.assert_allclose(np.array(a), 0, atol=1e-9)
    np.testing.assert_allclose(np.array(force).reshape(4, 3), np.tile([0, 0, 10 * 9.81 / 4], (4, 1)), atol=1e-7)
    legs_ = mechanism.constraints[0]
    assert [float(x) for x in ca.vertsplit(legs_.pushes(force))] == pytest.approx([24.525] * 4)
    for cone in legs_.cones(force):
        assert np.array(cone).ravel() == pytest.approx([0.5 * 24.525, 0, 0], abs=1e-7)


def test_the_centre_of_pressure_of_a_sole():
    """A block with its mass off the middle of its sole: pressure under the mass; past the edge a row turns negative."""
    sole = con.FlatContact("sole", "body", (0.0, 0.0, -0.2), half_sizes=(0.1, 0.05))
    for x, y in ((0.03, -0.02), (0.12, 0.0), (0.0, 0.07)):
        b = Builder("block")
        b.body("body", parent="world", joint=Joint("base", "free_flyer", Placement(), ()),
               inertia=BodyInertia(2.0, (x, y, 0.0), ((0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1))))
        mechanism = Mechanism(b.build(), constraints=(sole,))
        force = mechanism.constraint_forces(ca.DM([0, 0, 0.2, 1, 0, 0, 0]), ca.DM(6, 1), ca.DM(0, 1))["sole"]
        f = np.array(ca.DM(force)).ravel()
        assert (-f[4] / f[2], f[3] / f[2]) == pytest.approx((x, y), abs=1e-9)
        rows = np.array(ca.DM(sole.pushes(force))).ravel()
        assert (rows > 0).all() == (abs(x) < 0.1 and abs(y) < 0.05)
        np.testing.assert_allclose(rows[1:] / f[2], [0.1 + x, 0.1 - x, 0.05 - y, 0.05 + y], atol=1e-9)


def test_the_corners_of_a_tilted_sole_are_what_may_touch():
    """Rolled by a, the corners of a sole lie at z - d cos a +- b sin a; without half sizes its origin counts."""
    b = Builder("block")
    b.body("body", parent="world", joint=Joint("base", "free_flyer", Placement(), ()),
           inertia=BodyInertia(1.0, (0, 0, 0), np.eye(3)))
    model, a = b.build(), 0.3
    q = ca.DM([0.4, 0.1, 0.5, np.cos(a / 2), np.sin(a / 2), 0, 0])
    sole = con.FlatContact("sole", "body", (0.0, 0.0, -0.2), height=0.1, half_sizes=(0.1, 0.05))
    middle, side = 0.4 - 0.2 * np.cos(a), 0.05 * np.sin(a)
    assert sorted(np.array(ca.DM(sole.gap(model, q))).ravel()) == pytest.approx([middle - side] * 2 + [middle + side] * 2)
    assert float(replace(sole, half_sizes=None).gap(model, q)) == pytest.approx(middle)


@pytest.mark.parametrize(("record", "words"), [
    (con.PointContact("c", "world"), "needs a moving frame"), (con.PointContact("c", "f1", ()), "has no points"),
    (con.PointContact("c", "f1", normal=(0, 0, 0)), "normal must be three"),
    (con.PointContact("c", "f1", friction=-1.0), "friction must be"),
    (con.PointContact("c", "f1", places=((0, 0, 0),) * 2), "2 positions for 1 points"),
    (con.PointContact("c", "f1", ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))), "not coplanar"),
    (con.PointContact("c", "f1", slides=True, friction=0.3), "neither friction nor fixed positions"),
    (con.PointContact("c", "f9"), "f9"),
    (con.FlatContact("c", "f1", half_sizes=(0.1, -0.1)), "two positive lengths"),
    (con.RollingContact("c", "f1", 0.0), "radius must be"),
    (con.Skate("c", "world", (1, 0, 0)), "does not move"), (con.JointMotion("c", "j99", PATH), "no independent joint named 'j99'"),
    (con.JointMotion("c", SIMPLE[0], PATH), "t -> coordinates"), (con.JointMotion("c", "j0", PATH), "no vector"),
    (con.FrameMotion("c", "f1"), "neither position nor rotation"), (con.FrameMotion("c", "f1", TURN), "t -> position"),
    (con.FrameMotion("c", "f1", rotation=ca.Function("R", [t], [2 * ca.DM.eye(3) + 0 * t])), "not a rotation matrix"),
    (con.PositionEquation("c", ca.Function("g", [t], [t])), "(q, t) -> g"),
    (con.VelocityEquation("c", ca.Function("g", [q_, v_, t], [v_[0]**2])), "not affine in v"),
    (con.VelocityEquation("c", ca.Function("g", [q_, v_, t], [q_[0]])), "does not depend on v"),
    (con.Closure("c", "f1", "f9"), "f9")])
def test_records_that_do_not_fit_are_refused(record, words):
    import re
    with pytest.raises(ModelError, match=re.escape(words)):
        Mechanism(TREE, constraints=(record,))


def test_records_compare_by_what_they_say():
    def motion(k):
        s = ca.SX.sym("t")
        return con.JointMotion("driven", SIMPLE[0], ca.Function("p", [s], [ca.sin(k * s)]))

    assert motion(3) == motion(3)
    assert hash(motion(3)) == hash(motion(3))
    assert motion(3) != motion(4)
    one, two = (Mechanism(TREE, constraints=(motion(k),)).fingerprint for k in (3, 4))
    assert one == Mechanism(TREE, constraints=(motion(3),)).fingerprint != two
    locked = Mechanism(TREE, constraints=(motion(3), RECORDS["point"])).locked({SIMPLE[0]: 0.1})
    assert [c.name for c in locked.constraints] == ["foot"]
