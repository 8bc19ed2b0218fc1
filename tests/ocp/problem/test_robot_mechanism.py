"""Mechanisms as systems: limits from Python, gears, forces in files, and every road to their derivatives."""

from dataclasses import replace
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

from dynamics import ModelError, forces, spatial
from dynamics import algorithms as alg
from dynamics.constraints import Closure
from dynamics.mechanism import Mechanism, Motor, Thruster, direct_motors, read_mechanism
from dynamics.model import read_urdf
from ocp.app.files.load import load_problem
from ocp.bridge import effort_constraints, inverse_dynamics_system, inverse_effort, residual_dynamics_system, robot_system
from ocp.certify.motion import Motion
from ocp.derivatives import choose, differentiated
from ocp.errors import ProblemError
from ocp.problem import At, Boundary, Cost, Duration, Guess, Phase, Problem
from ocp.shooting.stages.symplectic import robot_step
from tests.support.row_trees import tree_of

PISTON = Thruster("piston", "f4", (0.2, -0.4, 0.6), 0.1, (0.1, 0.0, 0.2), (0.1, 0.2, -0.3), against="f1")
A, B = forces.Place("f1", (0.1, 0.0, 0.2)), forces.Place("f4", (0.0, 0.3, 0.1))


def pulled(seed=0, flat=False):
    """A branching tree with a floating base on which all kinds of forces act."""
    first, third = ("revolute", "prismatic") if flat else ("free_flyer", "spherical")
    model = tree_of(first, "revolute", third, "prismatic", "universal", seed=seed, branching=0.5)
    names = [body.joint.name for body in model.bodies]
    thrusters = () if flat else (Thruster("jet", "f2", (0.0, 0.6, 0.8), 0.3), PISTON)
    return Mechanism(model, direct_motors(model, names[1:]), thrusters, (
        forces.JointSpring("knee", names[1], 3.0, (0.2,)), forces.JointDamper("oil", names[3], 0.5, 0.2),
        forces.JointFriction("dry", names[4], 0.3, 0.4),
        forces.Spring("band", (A, B), 30.0, 0.2, 1.5), forces.Cable("rope", (A, forces.Place("world", (3.0, 2.0, 1.0))), 10.0, 0.1),
        forces.Bushing("pad", forces.Place("world"), B, 5.0, 0.3), forces.PointForce("wind", A, (1.0, -2.0, 0.5)),
        forces.Drag("water", "f3", (1.0, 1.2, 1.4, 0.1, 0.1, 0.1), (0.3,) * 6)))


def point(mechanism, seed=1):
    rng, model = np.random.default_rng(seed), mechanism.model
    return np.r_[alg.random_configuration(model, rng), rng.standard_normal(model.nv)], rng.standard_normal(mechanism.nu)


# ---- forces in the dynamics ---------------------------------------------------------------------------------------------
def test_forces_act_like_efforts_of_their_own():
    mechanism = pulled()
    model, system, (x, u) = mechanism.model, robot_system(mechanism), point(mechanism)
    q, v = ca.DM(x[:model.nq]), ca.DM(x[model.nq:])
    tau = mechanism.selection @ ca.DM(u[:-2])
    for force in mechanism.forces:
        tau += force.effort(model, q, v)
    for k, thruster in enumerate(mechanism.thrusters):
        push = thruster.unit_wrench() * u[len(mechanism.motors) + k]
        tau += alg.frame_jacobian(model, q, thruster.frame, "body").T @ push
        if thruster.against:  # the same wrench, carried through the world to where it is borne
            there = spatial.force_to_parent(alg.frame_pose(model, q, thruster.frame), push)
            borne = spatial.force_to_parent(spatial.inverse(alg.frame_pose(model, q, thruster.against)), there)
            tau -= alg.frame_jacobian(model, q, thruster.against, "body").T @ borne
    expected = alg.forward_dynamics(model, q, v, tau)
    np.testing.assert_allclose(np.array(system.rate(0, x, u, []))[model.nv:], np.array(expected), atol=1e-9)


@pytest.mark.parametrize("flat", [True, False])
def test_energy_changes_by_the_power(flat):
    mechanism = pulled(flat=flat)
    system, (x, u) = robot_system(mechanism), point(mechanism)
    X, D = ca.SX.sym("x", system.nx), ca.SX.sym("d", system.space.ndx)
    E = ca.Function("E", [X, D], [system.energy(0, system.space.plus(X, D), u, [])])
    xi, h = np.array(system.rate(0, x, u, [])).ravel(), 1e-6
    rate = (float(E(x, h * xi)) - float(E(x, -h * xi))) / (2 * h)
    assert rate == pytest.approx(float(system.power(0, x, u, [])), rel=1e-6)


def test_what_acts_between_bodies_changes_no_momentum():
    """A floating tree without gravity under a piston and a torque between links that are no neighbours."""
    model = replace(pulled().model, gravity=(0.0, 0.0, 0.0))
    robot = Mechanism(model, (), (PISTON, Thruster("twist", "f3", (0.0, 0.0, 0.0), moment=(1.0, 2.0, -1.0), against="f0")))
    x, u = point(robot)
    q, v = ca.DM(x[:model.nq]), ca.DM(x[model.nq:])
    a = robot.forward_dynamics(q, v, u)
    move, h = ca.DM(1e-6), 1e-6

    def momentum(s):
        return np.array(alg.momentum(model, alg.integrate(model, q, s * move * v), v + s * h * a)).ravel()

    assert np.abs(np.array(a)).max() > 1
    np.testing.assert_allclose((momentum(1) - momentum(-1)) / (2 * h), 0, atol=1e-6)


def test_a_drive_between_frames_of_one_body_is_refused():
    with pytest.raises(ModelError, match="'piston'.*fixed to the same body"):
        Mechanism(pulled().model, (), (replace(PISTON, against="f4"),))


@pytest.mark.parametrize("source", ["analytic", "fd", pytest.param("complex_step", marks=pytest.mark.slow)])
def test_derivatives_by_every_source(source):
    # complex step knows no |x|: of the forces those without one
    mechanism = pulled()
    kept = tuple(f for f in mechanism.forces if source == "analytic" or f.name in ("knee", "dry", "band", "pad", "wind"))
    system = robot_system(Mechanism(mechanism.model, mechanism.motors, mechanism.thrusters, kept))
    x, u = point(mechanism)
    lam = np.random.default_rng(3).standard_normal(system.space.ndx)

    def at(system, kind):
        y, z, w = (kind.sym(n, k) for n, k in (("x", system.nx), ("z", system.space.ndx + system.nu), ("w", system.nu)))
        n = system.space.ndx
        rate = system.rate(0, system.space.jet(y, z[:n]), w + z[n:], kind(0, 1))
        f = ca.Function("d", [z, y, w], [rate, ca.jacobian(rate, z), ca.hessian(ca.dot(ca.DM(lam), rate), z)[0]])
        return [np.array(part) for part in f(0, x, u)]

    exact, found = at(system, ca.SX), at(differentiated(system, source), ca.MX)
    for a, b, tolerance in zip(exact, found, (1e-10, 1e-6 if source == "fd" else 1e-9, 1e-3 if source == "fd" else 1e-6),
                               strict=True):
        np.testing.assert_allclose(b, a, atol=tolerance * (1 + np.abs(a).max()))


def test_a_wrong_force_would_change_closed_forms():
    # poison: the closed forms of the tree alone are not the derivatives of the whole
    mechanism = pulled()
    x, u = point(mechanism)
    bare = Mechanism(mechanism.model, mechanism.motors, mechanism.thrusters)

    def jacobian(m):
        system = differentiated(robot_system(m), "analytic")
        y, w = ca.MX.sym("x", system.nx), ca.MX.sym("u", system.nu)
        return np.array(ca.Function("J", [y, w], [ca.jacobian(system.rate(0, y, w, []), y)])(x, u))

    assert np.abs(jacobian(mechanism) - jacobian(bare)).max() > 1e-2


def test_a_symplectic_step_in_closed_form():
    mechanism = pulled()
    mechanism = Mechanism(mechanism.model, mechanism.motors, mechanism.thrusters[:1], mechanism.forces)
    system, (x, u), h = robot_system(mechanism), point(mechanism), 0.02
    X, U, Z = ca.SX.sym("x", system.nx), ca.SX.sym("u", system.nu), ca.SX.sym("z", system.space.ndx)
    step = robot_step(system, X, U, h)
    moved = ca.substitute(system.space.minus(step.after, robot_step(system, system.space.plus(X, Z), U, h).after), Z, Z)
    by_x = ca.Function("d", [X, U, Z], [ca.jacobian(moved, Z)])(x, u, np.zeros(system.space.ndx))
    found = ca.Function("f", [X, U], [step.by_x])(x, u)
    np.testing.assert_allclose(np.array(found), np.array(by_x), atol=1e-7)


# ---- limits -------------------------------------------------------------------------------------------------------------
def phase_of(system, **more):
    x = np.array([system.space.neutral])
    cost = Cost("none", At.PATH, ca.Function("c", [ca.SX.sym("t"), ca.SX.sym("x", system.nx), ca.SX.sym("u", system.nu),
                                                   ca.SX.sym("p", 0)], [ca.SX(0)]))
    guess = Guess(np.array([0.0]), x, np.zeros((1, system.nu)))
    return Phase("move", system, Duration(1.0, 1.0, 1.0), guess, costs=(cost,), **more)


def test_a_robot_built_in_python_has_its_limits():
    model = read_urdf("problems/models/ur5.urdf")
    phase = phase_of(robot_system(model))
    np.testing.assert_array_equal(phase.u_upper, model.limit("effort"))
    np.testing.assert_array_equal(phase.u_lower, -model.limit("effort"))
    np.testing.assert_array_equal(phase.x_lower, np.r_[model.limit("lower"), -model.limit("velocity")])
    np.testing.assert_array_equal(phase.x_upper, np.r_[model.limit("upper"), model.limit("velocity")])
    assert np.isfinite(phase.u_upper).all()
    own = phase_of(robot_system(model), u_upper=(1.0,) * 6)
    assert own.u_upper == (1.0,) * 6
    assert own.u_lower == phase.u_lower
    free = phase_of(inverse_dynamics_system(model))
    assert np.isinf(free.u_upper).all()
    assert free.x_upper == phase.x_upper


def test_files_and_python_have_the_same_limits():
    phase = load_problem("problems/ur5_reach.yaml").problem.phase
    other = phase_of(robot_system(phase.system.model))
    assert (phase.x_lower, phase.x_upper, phase.u_lower, phase.u_upper) == \
        (other.x_lower, other.x_upper, other.u_lower, other.u_upper)


@pytest.mark.parametrize("form", [robot_system, residual_dynamics_system])
def test_what_no_bound_expresses_comes_with_the_system(form):
    """A transmission over two limited joints, and a loop that a start has to close."""
    model = read_urdf("problems/models/four_bar.urdf")
    mechanism = Mechanism(model, (Motor("belt", (("crank", 1.0), ("coupler", -0.5))),),
                          constraints=(Closure("pin", "end", "tip", "revolute", (0.0, 1.0, 0.0)),))
    phase = phase_of(form(mechanism))
    (shared,) = phase.constraints
    assert (shared.name, shared.labels, shared.upper) == ("joint efforts", ("crank",), (6.0,))
    assert [c.name for c in Problem("p", (phase,)).phase.constraints][-1] == "pin"
    again = Problem("p", Problem("p", (phase,)).phases)  # taken over once
    assert [c.name for c in again.phase.constraints].count("pin") == 1
    without = replace(again.phase, constraints=())
    assert Problem("p", (without,)).phase.constraints == ()
    off = replace(phase, start=Boundary((0.3,) * 6, (True,) * 6))
    with pytest.raises(ProblemError, match="breaks the constraint 'pin' of the system by"):
        Problem("p", (off,))


# ---- gears and the inverse form -----------------------------------------------------------------------------------------
def geared():
    model = tree_of("revolute", "prismatic", "revolute", seed=3)
    names = model.velocity_names
    return Mechanism(model, (Motor("m1", ((names[0], 20.0),), -2.0, 3.0), Motor("m2", ((names[2], -0.5),), -1.0, 1.0)), (),
                     (forces.JointSpring("coil", names[1], 40.0, (0.1,)),))


def test_accelerations_as_controls_of_a_geared_robot_with_forces():
    mechanism = geared()
    model, rng = mechanism.model, np.random.default_rng(0)
    x = np.r_[alg.random_configuration(model, rng), rng.standard_normal(model.nv)]
    u = np.array([1.5, -0.7])
    a = np.array(robot_system(mechanism).rate(0, x, u, []))[model.nv:].ravel()
    system = inverse_dynamics_system(mechanism)
    np.testing.assert_allclose(np.array(ca.DM(inverse_effort(mechanism, ca.DM(x), ca.DM(a)))).ravel(), [30.0, 0.0, 0.35], atol=1e-9)
    limited, free = effort_constraints(mechanism)
    assert limited.labels == ("m1", "m2")
    assert (limited.lower, limited.upper) == ((-2.0, -1.0), (3.0, 1.0))
    np.testing.assert_allclose(np.array(limited.function(0, x, a, [])).ravel(), u, atol=1e-9)
    assert free.labels == (model.velocity_names[1],)
    np.testing.assert_allclose(float(free.function(0, x, a, [])), 0, atol=1e-9)
    assert system.inverse is mechanism
    assert system.mechanism is None


def test_motors_whose_share_is_open_need_forward_dynamics():
    model = tree_of("revolute", "prismatic", "revolute", seed=3)
    names = model.velocity_names
    with pytest.raises(ProblemError, match="'both' drives several joints"):
        effort_constraints(Mechanism(model, (Motor("both", ((names[0], 1.0), (names[1], 2.0))),)))
    with pytest.raises(ProblemError, match="'one' drives several joints or shares one"):
        effort_constraints(Mechanism(model, (Motor("one", ((names[0], 1.0),)), Motor("two", ((names[0], 2.0),)))))


def test_motions_of_the_inverse_form_are_integrated_under_their_forces():
    mechanism = geared()
    system = inverse_dynamics_system(mechanism)
    phase = phase_of(system)
    rng, model = np.random.default_rng(2), mechanism.model
    x, a = np.r_[alg.random_configuration(model, rng), rng.standard_normal(model.nv)], rng.standard_normal(model.nv)

    class Still:
        t, x, u, t_u, t_path = np.array([0.0, 1.0]), np.zeros((2, 6)), np.zeros((1, 3)), np.array([0.0]), None

    motion = Motion(phase, Still())
    tau = motion._efforts(0, x, a, [])
    np.testing.assert_allclose(np.array(motion.driven(0, x, tau, [])).ravel()[model.nv:], a, atol=1e-9)
    # the effort is that of motors: a spring's part is not in it
    motors = np.array(ca.DM(inverse_effort(mechanism, ca.DM(x), ca.DM(a)))).ravel()
    np.testing.assert_allclose(np.array(tau).ravel(), motors, atol=1e-12)


@pytest.mark.parametrize(("motors", "words"), [
    ((Motor("m", ()),), "has no gear ratios: it drives nothing"), ((Motor("m", (("b9", 1.0),)),), "no velocity named 'b9'"),
    ((Motor("m", (("j0", 0.0),)),), "gear ratio"), ((Motor("m", (("j0", 1.0),), 2.0, 1.0),), "limits must be in order"),
    ((Motor("m", (("j0", 1.0),)), Motor("m", (("j1", 1.0),))), "'m' is used twice")])
def test_motors_that_do_not_fit_are_refused(motors, words):
    with pytest.raises(ValueError, match=words):
        Mechanism(tree_of("revolute", "prismatic"), motors)


def test_locking_a_joint_takes_its_drives_and_forces_along():
    mechanism = geared()
    names = mechanism.model.velocity_names
    left = mechanism.locked({names[1]: 0.2, names[2]: 0.0})
    assert left.controls == ("m1",)
    assert left.forces == ()
    assert left.fingerprint != mechanism.fingerprint


# ---- files --------------------------------------------------------------------------------------------------------------
FILE = """\
name: Acrobot with springs
constants: {k: 12}
system:
  robot: acrobot.urdf
  actuated: [elbow]
  forces:
%s
phase:
  duration: 1
  start: {joints: {shoulder: 0.3, elbow: 0.2}, rest: true}
  costs: [{name: effort, running: "tau['elbow']**2"}]
"""


def _load(text, tmp_path):
    path = tmp_path / "file.yaml"
    (tmp_path / "acrobot.urdf").write_text(Path("problems/models/acrobot.urdf").read_text(encoding="utf-8"), encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    return load_problem(path)


def test_forces_of_a_file(tmp_path):
    loaded = _load(FILE % """\
    - joint_spring: {joint: shoulder, stiffness: k, rest: {deg: 30}}
    - {name: oil, joint_damper: {joint: elbow, linear: 0.4, quadratic: 0.1}}
    - spring:
        points: [{position: [1, 0, 0]}, {position: [1, 0, 1]}, {frame: upper, position: [0, 0, 0.2]}]
        stiffness: 30
        length: 0.5
        damping: 2
    - efforts: {elbow: "-3*q['shoulder']**2*v['elbow'] + k*velocity('upper')[0]"}
""".replace("upper", _links()[0]), tmp_path)
    system = loaded.problem.phase.system
    names = [force.name for force in system.mechanism.forces]
    assert names == ["joint spring 1", "oil", "spring 3", "efforts 4"]
    spring, oil, band, written = system.mechanism.forces
    assert spring == forces.JointSpring("joint spring 1", "shoulder", 12.0, (np.pi / 6,))
    assert oil == forces.JointDamper("oil", "elbow", 0.4, 0.1)
    assert (band.k, band.length, band.c, len(band.places)) == (30.0, 0.5, 2.0, 3)
    q, v = np.array([0.3, -0.4]), np.array([0.5, 0.7])
    assert np.array(written.effort(system.model, ca.DM(q), ca.DM(v))).ravel()[0] == 0
    speed = float(alg.frame_velocity(system.model, ca.DM(q), ca.DM(v), _links()[0], "world_aligned")[0])
    assert float(written.effort(system.model, ca.DM(q), ca.DM(v))[1]) == pytest.approx(-3 * 0.09 * 0.7 + 12 * speed)


def _links():
    model = read_mechanism("problems/models/acrobot.urdf").model
    return [body.name for body in model.bodies]


@pytest.mark.parametrize(("text", "line", "words"), [
    ("    - joint_spring: {joint: shoulde, stiffness: 1}", 7, "no joint named 'shoulde'; did you mean 'shoulder'"),
    ("    - joint_spring: {joint: elbow, stiffness: -1}", 7, "stiffness must be finite and at least 0"),
    ("    - spring: {points: [{frame: nowhere}, {}], stiffness: 1, length: 1}", 7, "nowhere"),
    ("    - {name: a, joint_damper: {joint: elbow, linear: 1}, drag: {frame: world}}", 7, "needs exactly one of"),
    ("    - {name: a, joint_damper: {joint: elbow, linear: 1}}\n    - {name: a, joint_damper: {joint: elbow}}", 8, "'a'"),
    ("    - efforts: {elbow: 't'}", 7, "depends on time or parameters"),
    ("    - efforts: {elbw: 1}", 7, "did you mean 'elbow'"),
    ("    - joint_spring: {joint: elbow, stifness: 1}", 7, "stiffness"),
])
def test_forces_that_are_wrong_are_refused_with_their_place(text, line, words, tmp_path):
    with pytest.raises(ProblemError) as caught:
        _load(FILE % text, tmp_path)
    assert words in str(caught.value)
    assert f"file.yaml:{line}" in str(caught.value)


def test_thrusters_are_placed_by_coordinates(tmp_path):
    loaded = load_problem("problems/hexacopter_arm.yaml")
    system = loaded.problem.phase.system
    model = system.model
    x = np.array(system.space.neutral)
    # one rotor alone: force up, moments of its arm about the base's x and y, and its drag about z
    one = system.mechanism.wrenches(ca.DM([0, 5.0, 0, 0, 0, 0]))["base"]
    c, s = 0.15, 0.3 * np.sin(np.pi / 3)
    np.testing.assert_allclose(np.array(one).ravel(), [0, 0, 5, 5 * s, -5 * c, -5 * 0.016], atol=1e-12)
    hover = np.full(6, model.mass * 9.81 / 6)
    u = np.r_[np.zeros(2), hover]
    assert system.controls[:2] == ("shoulder", "elbow")
    rate = np.array(system.rate(0, x, u, [])).ravel()[model.nv:]
    assert abs(rate[2]) < 1.0  # the arm hangs off centre: nearly a hover


def test_a_planar_root_drives_in_its_plane():
    problem = load_problem("problems/mobile_manipulator.yaml").problem
    system = problem.phase.system
    assert system.controls[:3] == ("root_joint.vx", "root_joint.vy", "root_joint.omega")
    x, u = np.array(system.space.neutral), np.zeros(system.nu)
    x[2], u[0] = np.pi / 2, 10.0  # it looks along y and pushes ahead
    rate = np.array(system.rate(0, x, u, [])).ravel()
    assert rate[system.model.nv] > 0.1  # forward in its own axes
    moved = np.array(system.space.plus(ca.DM(x), ca.DM(np.r_[1.0, np.zeros(2 * system.model.nv - 1)]))).ravel()
    np.testing.assert_allclose(moved[:2], [0.0, 1.0], atol=1e-12)


MJCF = """<mujoco><compiler autolimits="true"/><worldbody>
  <body pos="0 0 2"><geom type="capsule" fromto="0 0 0 0 0 -1" size="0.05" mass="1" contype="0" conaffinity="0"/>
    <joint name="shoulder" axis="0 1 0" damping="0.05"/>
    <body pos="0 0 -1"><geom type="capsule" fromto="0 0 0 0 0 -1" size="0.05" mass="1" contype="0" conaffinity="0"/>
      <joint name="elbow" axis="0 1 0" stiffness="2" damping="0.05"/></body></body></worldbody>
  <actuator><motor name="motor" joint="elbow" gear="4" ctrlrange="-3 3"/></actuator></mujoco>"""


def test_an_acrobot_of_mjcf_has_one_control_with_its_limits(tmp_path):
    pytest.importorskip("mujoco")
    (tmp_path / "acrobot.xml").write_text(MJCF, encoding="utf-8")
    path = tmp_path / "swing.yaml"
    text = """\
name: Swing
system: {robot: acrobot.xml}
phase:
  duration: 1
  start: {joints: {shoulder: 0.3, elbow: 0.2}, rest: true}
  final: {rest: true}
  costs: [{name: effort, running: "motor**2"}]
"""
    path.write_text(text, encoding="utf-8")
    phase = load_problem(path).problem.phase
    assert phase.system.controls == ("motor",)
    assert (phase.u_lower, phase.u_upper) == ((-3.0,), (3.0,))
    assert [force.name for force in phase.system.mechanism.forces] == ["spring of elbow"]
    path.write_text(text.replace("acrobot.xml}", "acrobot.xml, actuated: joints}").replace('"motor**2"', "\"tau['elbow']**2\""),
                    encoding="utf-8")
    assert load_problem(path).problem.phase.system.controls == ("shoulder", "elbow")
    path.write_text(text.replace("acrobot.xml}", "acrobot.xml, actuated: [moto]}"), encoding="utf-8")
    with pytest.raises(ProblemError, match="did you mean 'motor'"):
        load_problem(path)


# ---- closed loops -------------------------------------------------------------------------------------------------------
LINKAGE = """\
name: Linkage
system:
  robot: four_bar.urdf
  actuated: [crank]
  constraints: [{name: pin, closure: {first: end, second: tip, joint: %s, axis: [0, 1, 0]}}]
phase:
  duration: 0.5
  start: %s
  final: {joints: {crank: -0.6}}
  costs: [{name: effort, running: "crank**2"}]
  guess: {states: [{joints: {coupler: -0.5, rocker: -1.5}}]}
solve: {collocation: {scheme: hermite_simpson, intervals: 15, refine: none}}
"""


def linkage(tmp_path, start, joint="revolute"):
    (tmp_path / "four_bar.urdf").write_text(Path("problems/models/four_bar.urdf").read_text(encoding="utf-8"), encoding="utf-8")
    path = tmp_path / "file.yaml"
    path.write_text(LINKAGE % (joint, start), encoding="utf-8")
    return load_problem(path)


def test_joints_that_nobody_names_are_assembled(tmp_path):
    phase = linkage(tmp_path, "{joints: {crank: -0.4}, velocities: {crank: 2}, others: assembled}").problem.phase
    pin, model, x = phase.system.mechanism.constraints[0], phase.system.model, np.array(phase.start.value)
    assert all(phase.start.fixed)
    assert x[0] == -0.4
    assert x[3] == 2
    assert np.abs(np.array(ca.DM(pin.value(model, ca.DM(x[:3]))))).max() < 1e-9
    assert np.abs(np.array(ca.DM(pin.jacobian(model, ca.DM(x[:3])))) @ x[3:]).max() < 1e-9
    assert np.abs(x[4:]).min() > 0.1


@pytest.mark.parametrize(("start", "words"), [
    ("{joints: {crank: 0, coupler: 0.1, rocker: 0.2}, rest: true}", "breaks a constraint of the mechanism: 'pin' by"),
    ("{joints: {crank: 0, coupler: 3.1}, rest: true, others: assembled}", "cannot be assembled from these joints: 'pin'"),
    ("{joints: {crank: -0.4}, velocities: {crank: 2, coupler: 0, rocker: 0}, others: assembled}", "velocities do not keep it")])
def test_starts_that_do_not_close_are_refused(start, words, tmp_path):
    with pytest.raises(ProblemError, match="file.yaml:8") as caught:
        linkage(tmp_path, start)
    assert words in str(caught.value)


def test_a_free_start_is_closed_by_conditions(tmp_path):
    from ocp.methods import solve

    loaded = linkage(tmp_path, "{joints: {crank: 0}, velocities: {crank: 0}, others: free}")
    (closed,) = [c for c in loaded.problem.phase.constraints if c.at is At.START]
    assert closed.name == "pin"
    assert closed.size == 4  # x and z of the pin and of its velocity; what the plane keeps anyway is left out
    free = solve(loaded.problem, "collocation", loaded.options_for("collocation"))
    held = linkage(tmp_path, "{joints: {crank: 0}, velocities: {crank: 0}, others: assembled}")
    found = solve(held.problem, "collocation", held.options_for("collocation"))
    assert free.status.name == found.status.name == "CONVERGED"
    model, pin = loaded.problem.phase.system.model, loaded.problem.phase.system.mechanism.constraints[0]
    for solution in (free, found):
        for x in solution.trajectory.x:
            assert np.abs(np.array(ca.DM(pin.value(model, ca.DM(x[:3]))))).max() < 1e-5
    assert free.objective == pytest.approx(found.objective, rel=1e-5)


def test_closed_loops_have_closed_derivatives_in_both_executions(tmp_path):
    system = linkage(tmp_path, "{joints: {crank: 0}, rest: true, others: assembled}").problem.phase.system
    assert differentiated(system, "analytic").derivatives == "analytic"
    assert choose(system, "analytic", "generated")[:2] == ("analytic", False)
    assert choose(system, "analytic", "loops")[:2] == ("analytic", True)


@pytest.mark.parametrize(("text", "words"), [
    ("{closure: {first: end, second: tipp}}", "tipp"), ("{closure: {first: end, second: tip, joint: hinge}}", "no closure by"),
    ("{rod: {points: [{frame: end}, {frame: tip}], length: -1}}", "length must be positive"),
    ("{coupling: {ratios: {crank: 1, rockr: 2}}}", "rockr"), ("{closure: {first: end, second: coupler}}", "same body"),
    ("{name: a}", "needs exactly one of")])
def test_constraints_of_files_that_are_wrong_are_refused(text, words, tmp_path):
    (tmp_path / "four_bar.urdf").write_text(Path("problems/models/four_bar.urdf").read_text(encoding="utf-8"), encoding="utf-8")
    path = tmp_path / "file.yaml"
    path.write_text((LINKAGE % ("fixed", "{others: free}")).replace(
        "{name: pin, closure: {first: end, second: tip, joint: fixed, axis: [0, 1, 0]}}", text), encoding="utf-8")
    with pytest.raises(ProblemError, match="file.yaml:5") as caught:
        load_problem(path)
    assert words in str(caught.value)


def test_limits_of_joints_that_motors_share_hold_along_the_path(tmp_path):
    """A differential: two motors, two joints; no bound of a motor says what a joint may bear."""
    pytest.importorskip("mujoco")
    from ocp.methods import solve

    differential = MJCF.replace('damping="0.05"', 'damping="0.05" actuatorfrcrange="-4 4"').replace("<actuator>", """<tendon>
      <fixed name="sum"><joint joint="shoulder" coef="1"/><joint joint="elbow" coef="1"/></fixed>
      <fixed name="gap"><joint joint="shoulder" coef="1"/><joint joint="elbow" coef="-1"/></fixed></tendon><actuator>
      <motor name="one" tendon="sum" ctrlrange="-40 40"/><motor name="two" tendon="gap" ctrlrange="-40 40"/>""").replace(
        '<motor name="motor" joint="elbow" gear="4" ctrlrange="-3 3"/>', "")
    (tmp_path / "arm.xml").write_text(differential, encoding="utf-8")
    text = """\
name: Lift
system: {robot: arm.xml%s}
phase:
  duration: 0.6
  start: {joints: {shoulder: 0, elbow: 0}, rest: true}
  final: {joints: {shoulder: 0.15, elbow: 0.15}}
  costs: [{name: effort, running: "one**2 + two**2"}]
solve: {collocation: {scheme: hermite_simpson, intervals: 15, refine: none}}
"""
    path = tmp_path / "lift.yaml"
    efforts = []
    for more in ("", ", limits: {effort: false}"):
        path.write_text(text % more, encoding="utf-8")
        loaded = load_problem(path)
        named = [c for c in loaded.problem.phase.constraints if c.name == "joint efforts"]
        assert bool(named) == (not more)
        found = solve(loaded.problem, "collocation", loaded.options_for("collocation"))
        assert found.status.name == "CONVERGED"
        S = np.array(loaded.problem.phase.system.mechanism.selection)
        efforts.append(np.abs(found.trajectory.u @ S.T).max(axis=0))
    assert named == []
    assert efforts[0].max() < 4 + 1e-6
    assert efforts[1].max() > 4.5


def test_a_torsion_spring_and_a_drive_between_links_from_a_file(tmp_path):
    text = Path("problems/hexacopter_arm.yaml").read_text(encoding="utf-8")
    text = text.replace("models/", f"{Path('problems/models').resolve()}/")
    text = text.replace("  thrusters:\n", """  thrusters:
    - {name: gaze, frame: forearm, axis: [0, 0, 0], moment: [0, 1, 0], against: base}
""").replace("  forces:\n", """  forces:
    - joint_stop: {joint: elbow, lower: -2, upper: {deg: 45}, stiffness: 50, damping: 0.2}
    - torsion: {first: base, second: forearm, stiffness: 2, damping: 0.1, rest: [0, 0.3, 0]}
""")
    path = tmp_path / "file.yaml"
    path.write_text(text, encoding="utf-8")
    mechanism = load_problem(path).problem.phase.system.mechanism
    assert mechanism.thrusters[0] == Thruster("gaze", "forearm", (0.0, 0.0, 0.0), moment=(0.0, 1.0, 0.0), against="base")
    assert mechanism.forces[0] == forces.JointStop("joint stop 1", "elbow", (-2.0,), (np.pi / 4,), 50.0, 0.2)
    assert mechanism.forces[1] == forces.Torsion("torsion 2", "base", "forearm", 2.0, 0.1, (0.0, 0.3, 0.0))
    path.write_text(text.replace("against: base", "against: bas"), encoding="utf-8")
    with pytest.raises(ProblemError, match=r"thrusters\[0\].against: no frame named 'bas'; did you mean 'base'"):
        load_problem(path)
