"""Accelerations as controls: efforts by inverse dynamics, what has no motor, and the same optima as the forward formulation."""


import casadi as ca
import numpy as np
import pytest
from repository import ROOT
from states import energy_rate
from uncertified import by_collocation, by_multiple_shooting

import dynamics
from dynamics import algorithms as alg
from dynamics.constraints import Closure, Coupling, Rod
from dynamics.forces import Place
from dynamics.mechanism import Mechanism, Thruster, direct_motors, drivable_joints
from dynamics.mechanism.constrained import accelerations
from dynamics.model.synthetic import random_tree
from dynamics.model.urdf import read_urdf
from ocp.app.files.load import load_problem, load_text
from ocp.bridge import effort_constraints, inverse_dynamics_system, inverse_effort, robot_system
from ocp.errors import ProblemError
from ocp.methods import solve
from ocp.problem import At, Sense
from ocp.transcription import collocation, multiple_shooting

FOLDER = ROOT / "problems"
INVERSE = {"system.formulation": "inverse_dynamics"}


@pytest.fixture(scope="module")
def robot():
    return random_tree(6, np.random.default_rng(4), root="free_flyer", damping=True)


def point(model, controls, seed=0):
    rng = np.random.default_rng(seed)
    return np.r_[alg.random_configuration(model, rng), rng.standard_normal(model.nv)], rng.standard_normal(controls)


def value(function, x, u):
    return np.asarray(function(0, x, u, [])).ravel()


# ---- the system -----------------------------------------------------------------------------------------------------------
def test_forward_dynamics_of_the_efforts_gives_the_accelerations_back(robot):
    """Efforts and thrusts together accelerate the robot, by the articulated-body algorithm, exactly as the controls say."""
    thrusters = (Thruster("jet", robot.frames[-1].name, (0.0, 0.6, 0.8), 0.3),)
    system = inverse_dynamics_system(robot, thrusters=thrusters)
    assert system.controls == (*robot.velocity_names, "jet")
    assert system.mechanism is None
    x, u = point(robot, system.nu)
    X, U = ca.SX.sym("x", system.nx), ca.SX.sym("u", system.nu)
    tau = np.asarray(ca.Function("tau", [X, U], [inverse_effort(robot, X, U, thrusters)])(x, u)).ravel()
    q, v = x[:robot.nq], x[robot.nq:]
    J = np.array(dynamics.make_frame(robot, "jacobian", thrusters[0].frame, "body")(q))
    wrench = u[-1] * np.r_[0.0, 0.6, 0.8, 0.0, 0.18, 0.24]
    a = np.array(dynamics.make(robot, "forward_dynamics")(q, v, tau + J.T @ wrench)).ravel()
    np.testing.assert_allclose(a, u[:robot.nv], atol=1e-9)
    np.testing.assert_allclose(value(system.rate, x, u), np.r_[v, u[:robot.nv]])


def test_energy_changes_by_the_power_of_the_efforts(robot):
    system = inverse_dynamics_system(robot, thrusters=(Thruster("jet", robot.frames[-1].name),))
    x, u = point(robot, system.nu, 5)
    assert energy_rate(system, x, u) == pytest.approx(float(system.power(0, x, u, [])), rel=1e-6)


def test_components_without_a_motor_are_named_equalities(robot):
    driven = drivable_joints(robot)[1:]
    limits = dict.fromkeys(robot.velocity_names, (-3.0, 5.0))
    limited, free = effort_constraints(robot, driven, limits=limits)
    passive = [n for n in robot.velocity_names if n.split(".")[0] not in driven]
    assert (limited.name, limited.at, limited.sense, free.name, free.at, free.sense) == (
        "effort limits", At.PATH, Sense.BOX, "no motor", At.PATH, Sense.EQUAL)
    assert free.labels == tuple(passive)
    assert free.components()[0] == f"no motor[{passive[0]}]"
    assert set(limited.lower) == {-3.0}
    assert set(limited.upper) == {5.0}
    # where forward dynamics are free of efforts in these components, so is the constraint
    system = robot_system(robot, actuated=driven)
    x, u = point(robot, system.nu, 2)
    a = value(system.rate, x, u)[robot.nv:]
    np.testing.assert_allclose(value(free.function, x, a), 0, atol=1e-9)
    np.testing.assert_allclose(value(limited.function, x, a), u, atol=1e-9)


def test_robot_files_give_the_limits_and_units_say_acceleration():
    ur5 = read_urdf(FOLDER / "models" / "ur5.urdf")
    (limited,) = effort_constraints(ur5)
    np.testing.assert_allclose(limited.upper, ur5.limit("effort"))
    np.testing.assert_allclose(limited.lower, -ur5.limit("effort"))
    system = inverse_dynamics_system(ur5)
    assert {system.units[name] for name in system.controls} == {"rad/s^2"}
    assert len(effort_constraints(ur5, limits={})) == 0


# ---- the same optimum -----------------------------------------------------------------------------------------------------
def solved(name, method, overrides, options):
    loaded = load_problem(FOLDER / f"{name}.yaml", overrides)
    return loaded.problem, solve(loaded.problem, method, {**loaded.options_for(method), **options})


@pytest.mark.parametrize(("name", "intervals"), [("pendulum_swingup", 60), ("acrobot", 150), ("quadrotor", 40),
                                                 pytest.param("ur5_reach", 20, marks=pytest.mark.slow)])
@pytest.mark.sample(2)
def test_collocation_finds_the_same_optimum(name, intervals):
    """An arm, an arm with a passive joint and a floating base with thrusters: the discrete problems have the same solutions,
    because efforts and accelerations determine each other at every node."""
    _, forward = solved(name, "collocation", {}, {"intervals": intervals, "derivatives": "ad"})
    problem, inverse = solved(name, "collocation", INVERSE, {"intervals": intervals})
    assert forward.status.name == inverse.status.name == "CONVERGED"
    assert inverse.objective == pytest.approx(forward.objective, rel=1e-7)
    np.testing.assert_allclose(inverse.trajectory.x, forward.trajectory.x, atol=2e-4)
    # accelerations are those of the forward dynamics under the torques of the other solution
    system, path = forward.problem.phase.system, forward.trajectory
    t = path.t[1:-1]
    expected = np.array([value(system.rate, path.state(s), path.control(s)) for s in t])[:, system.model.nv:]
    own = np.array([inverse.trajectory.control(s) for s in t])[:, :system.model.nv]
    np.testing.assert_allclose(own, expected, atol=1e-3 * (1 + np.abs(expected).max()))
    assert problem.phase.system.nu == system.model.nv + len(system.mechanism.thrusters)


def test_ilqr_costs_agree_as_the_mesh_is_refined():
    """Held accelerations and held torques are different motions; the difference goes with the step."""
    _, exact = solved("pendulum_swingup", "collocation", {}, {"intervals": 200})
    errors = []
    for intervals in (50, 100, 200):
        _, found = solved("pendulum_swingup", "ilqr", INVERSE, {"intervals": intervals})
        assert found.status.name == "CONVERGED"
        errors.append(abs(found.objective - exact.objective))
    assert errors[0] > 1.8 * errors[1] > 3 * errors[2]
    assert errors[2] < 1e-2 * exact.objective


# ---- files ----------------------------------------------------------------------------------------------------------------
ACROBOT = """\
name: Acrobot
system:
  robot: models/acrobot.urdf
  actuated: [elbow]
  formulation: inverse_dynamics
  limits: {position: false, velocity: false}
phase:
  duration: 1.0
  start: {joints: {shoulder: 0.3, elbow: 0.2}, rest: true}
  bounds: {controls: {elbow: [-2, 4]}, accelerations: {shoulder: [-50, 50]}}
  costs:
    - {name: torque, running: elbow**2}
    - {name: both, running: 'tau["shoulder"]**2 + a["elbow"]'}
    - {name: effort, control_error: {elbow: 1}, weights: 4}
  guess:
    controls: {elbow: 1.5}
"""


def test_names_mean_the_same_in_both_formulations():
    inverse = load_text(ACROBOT, FOLDER).problem.phase
    text = ACROBOT.replace("  formulation: inverse_dynamics\n", "").replace(", accelerations: {shoulder: [-50, 50]}", "")
    text = text.replace('tau["shoulder"]**2 + ', "")
    forward = load_text(text, FOLDER).problem.phase
    model = forward.system.model
    x = np.array([0.4, -0.3, 1.0, -2.0])
    for u in ([0.7], [-1.1]):
        a = value(forward.system.rate, x, u)[2:]
        for own, other in zip(inverse.costs, forward.costs, strict=True):
            assert float(own.expression(0, x, a, [])) == pytest.approx(float(other.expression(0, x, u, [])), abs=1e-9)
    limits, free = inverse.constraints
    assert (limits.labels, limits.lower, limits.upper, free.labels) == (("elbow",), (-2,), (4,), ("shoulder",))
    assert inverse.u_lower == (-50, -np.inf)
    # a guess of torques is turned into accelerations by forward dynamics
    expected = value(forward.system.rate, [0.3, 0.2, 0, 0], [1.5])[2:]
    np.testing.assert_allclose(inverse.guess.u[0], expected, atol=1e-9)
    assert model.velocity_names == inverse.system.controls


def test_mistakes_are_named():
    for old, new, words in (
        ("  formulation: inverse_dynamics\n", "", "accelerations are controls in system.formulation: inverse_dynamics"),
        ("inverse_dynamics", "inverse", "expected one of auto, forward_dynamics, inverse_dynamics"),
        ("accelerations: {shoulder", "accelerations: {shouldr", "did you mean 'shoulder'"),
        ("controls: {elbow: [-2, 4]}", "controls: {shoulder: [-2, 4]}", "no control named 'shoulder'"),
        ("control_error: {elbow: 1}", "control_error: {elbw: 1}", "did you mean 'elbow'"),
    ):
        assert old in ACROBOT
        with pytest.raises(ProblemError) as caught:
            load_text(ACROBOT.replace(old, new), FOLDER)
        assert words in str(caught.value)


# ---- constraints of the mechanism -------------------------------------------------------------------------------------------
def linkage():
    model = read_urdf(FOLDER / "models" / "four_bar.urdf")
    return Mechanism(model, direct_motors(model, ["crank"]),
                     constraints=(Closure("pin", "end", "tip", "revolute", (0.0, 1.0, 0.0)),))


def belted():
    """A floating base with a thruster, motors, and a rod and a belt whose rows are independent."""
    model = read_urdf(FOLDER / "models" / "quadruped.urdf", root="free_flyer")
    joints = [n for n in model.velocity_names if n in model.coordinate_names]
    feet = [body.name for i, body in enumerate(model.bodies) if not any(other.parent == i for other in model.bodies)]
    return Mechanism(model, direct_motors(model, joints), (Thruster("jet", model.bodies[0].name, (0.0, 0.0, 1.0)),), constraints=(
        Rod("rod", Place(feet[0]), Place(feet[1]), 0.5), Coupling("belt", ((joints[0], 1.0), (joints[4], -2.0)))))


@pytest.mark.parametrize(("make", "off"), [(linkage, 1e-5), (belted, 1e-9)], ids=["redundant rows", "floating, with a thruster"])
def test_forces_of_constraints_are_controls_of_the_inverse_form(make, off):
    """Forward dynamics with its multipliers satisfy every row, and its efforts come back: two roads to the same equations."""
    mechanism = make()
    model, rng = mechanism.model, np.random.default_rng(3)
    system, nt = inverse_dynamics_system(mechanism), len(mechanism.thrusters)
    assert system.controls[:model.nv] == model.velocity_names
    rows = {c.name: c for c in system.constraints}
    for _ in range(3):
        q = np.asarray(alg.integrate(model, ca.DM(alg.neutral(model)), ca.DM(0.5 * rng.normal(size=model.nv)))).ravel()
        v, u = rng.normal(size=model.nv), rng.normal(size=mechanism.nu)
        a, tau = ca.DM(0), mechanism.motor_effort(ca.DM(u)) + mechanism.force(ca.DM(q), ca.DM(v))
        thrusts = u[mechanism.nu - nt:]
        a, lam = accelerations(model, mechanism.constraints, ca.DM(q), ca.DM(v), tau, 0.0, mechanism.wrenches(ca.DM(thrusts)))
        w = np.concatenate([np.asarray(ca.evalf(part)).ravel() for part in (a, ca.DM(thrusts), lam)])
        x, size = np.concatenate([q, v]), np.abs(w).max()
        for name in ("no motor", "constraints"):
            assert np.abs(np.asarray(rows[name].function(0, x, w, []))).max() < off * (1 + size)
        effort = np.asarray(ca.evalf(inverse_effort(mechanism, ca.DM(x), ca.DM(w)))).ravel()
        assert effort == pytest.approx(np.asarray(mechanism.motor_effort(ca.DM(u))).ravel(), abs=off * (1 + size))
        w[0] += 0.1  # another acceleration breaks them
        assert np.abs(np.asarray(rows["constraints"].function(0, x, w, []))).max() + np.abs(
            np.asarray(rows["no motor"].function(0, x, w, []))).max() > 1e-3


def test_a_linkage_has_one_optimum_in_every_form_and_every_method():
    found = {}
    for form in ("inverse_dynamics", "residual"):
        problem = load_problem(FOLDER / "four_bar.yaml", {"system.formulation": form}).problem
        found[form] = by_collocation(problem, collocation.CollocationOptions(scheme="radau", degree=3, intervals=20))
    inverse, residual = found["inverse_dynamics"], found["residual"]
    assert inverse.objective == pytest.approx(residual.objective, rel=1e-9)
    assert inverse.trajectory.x == pytest.approx(residual.trajectory.x, abs=1e-6)
    names = inverse.problem.phase.system.controls
    mine = inverse.trajectory.u[:, [names.index(f"pin[{i}]") for i in range(5)]]
    theirs = residual.trajectory.u[:, [residual.problem.phase.system.inputs.index(f"pin[{i}]") for i in range(5)]]
    assert mine == pytest.approx(theirs, abs=1e-4 * np.abs(theirs).max())
    shot = by_multiple_shooting(inverse.problem, multiple_shooting.MultipleShootingOptions(intervals=60, controls="linear"))
    assert shot.objective == pytest.approx(inverse.objective, rel=1e-3)


def test_files_name_forces_of_constraints_in_the_inverse_form():
    text = (FOLDER / "four_bar.yaml").read_text(encoding="utf-8")
    limit = "constraints: [{name: pin force, expression: \"multiplier['pin[0]']\", upper: 40}]\n  costs:"
    phase = load_text(text.replace("costs:", limit, 1), FOLDER, overrides=INVERSE).problem.phase
    held = next(c for c in phase.constraints if c.name == "pin force")
    w = np.random.default_rng(0).normal(size=phase.system.nu)
    x = np.random.default_rng(1).normal(size=phase.system.nx)
    assert float(held.function(0, x, w, [])) == pytest.approx(w[phase.system.controls.index("pin[0]")])
    assert [c.name for c in phase.constraints if c.sense is Sense.EQUAL][:2] == ["no motor", "constraints"]
