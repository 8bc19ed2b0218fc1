"""Motions that whole-body control follows: interpolation on the manifold, contacts by schedule, forces, and the closed loop."""

from pathlib import Path

import casadi as ca
import numpy as np
import pytest

from dynamics import algorithms as alg
from dynamics.constraints import PointContact
from dynamics.mechanism import Mechanism
from dynamics.model.urdf import read_urdf
from ocp.app.cli import main
from ocp.app.files.control.wbc import load_wbc_text
from ocp.app.pages.results import read_run
from ocp.app.wbc.follow import followed, motion_of
from ocp.app.wbc.run import run_loaded
from ocp.errors import ProblemError
from ocp.wbc import ContactPlan, Setup
from ocp.wbc.follow import Following, Motion, Stretch, follow

MODELS = "problems/models"
REACH = """
name: two links reach
system: {robot: ROBOT}
phase:
  duration: 1.0
  start: {joints: {shoulder: 0.2, elbow: 0.4}, rest: true}
  final: {joints: {shoulder: 1.1, elbow: -0.5}, rest: true}
  costs: [{name: effort, running: "dot(tau, tau) + dot(v, v)"}]
solve: {method: collocation, collocation: {scheme: gauss, degree: 4, intervals: 20, refine: none}}
"""
ROBOT = """<robot name="two"><link name="world"/><link name="upper"><inertial><origin xyz="0 0 -0.2"/><mass value="1"/>
<inertia ixx="0.01" iyy="0.01" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial></link><link name="lower"><inertial>
<origin xyz="0 0 -0.2"/><mass value="0.7"/><inertia ixx="0.01" iyy="0.01" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="shoulder" type="revolute"><parent link="world"/><child link="upper"/><axis xyz="0 1 0"/>
<limit effort="50" velocity="90" lower="-9" upper="9"/></joint><joint name="elbow" type="revolute"><parent link="upper"/>
<child link="lower"/><origin xyz="0 0 -0.4"/><axis xyz="0 1 0"/><limit effort="50" velocity="90" lower="-9" upper="9"/></joint>
</robot>"""


def solved(file, folder):
    """The exit code of a solve that writes its folder."""
    with pytest.raises(SystemExit) as ended:
        main(["solve", str(file), "--out", str(folder), "-q"])
    return ended.value.code


def tumbling(model, count):
    """A smooth motion of a floating robot, integrated finely from velocities in closed form: (t, q, v)."""
    t, fine = np.linspace(0.0, 1.0, count), 64
    rng = np.random.default_rng(1)
    size, pace = rng.uniform(-1.5, 1.5, model.nv), rng.uniform(1.0, 4.0, model.nv)
    start, along = ca.SX.sym("q", model.nq), ca.SX.sym("d", model.nv)
    integrate = ca.Function("integrate", [start, along], [alg.integrate(model, start, along)])
    q = [np.asarray(alg.neutral(model)).ravel()]
    for a, b in zip(t, t[1:], strict=False):
        at = q[-1]
        for s in a + (b - a) * (np.arange(fine) + 0.5) / fine:
            at = integrate(at, (b - a) / fine * size * np.sin(pace * s + 0.3))
        q.append(np.asarray(at).ravel())
    speed = size * np.sin(np.outer(t, pace) + 0.3)
    return t, np.array(q), speed, lambda s: size * pace * np.cos(np.outer(s, pace) + 0.3)


def test_samples_lie_on_the_motion_and_their_rates_are_its_rates():
    model = read_urdf(f"{MODELS}/quadruped.urdf", root="free_flyer")
    t, q, v, bend = tumbling(model, 33)
    at, to = ca.SX.sym("a", model.nq), ca.SX.sym("b", model.nq)
    apart = ca.Function("apart", [at, to], [alg.difference(model, at, to)])
    wrong = []
    for every in (4, 2):
        motion = Motion(model, [Stretch(t[::every], q[::every], v[::every], bend(t[::every]))])
        found, rate, second = motion.sample(t)
        wrong.append([float(abs(part).max()) for part in (np.asarray(apart(q.T, found.T)), rate - v, second - bend(t))])
        assert abs(np.linalg.norm(found[:, 3:7], axis=1) - 1.0).max() < 1e-12
    coarse, fine = np.array(wrong)
    assert (fine < coarse / [8, 8, 3]).all()
    assert (fine < [2e-4, 2e-4, 1e-1]).all()
    h = 1e-4
    around, (_, middle, _) = motion.sample(np.array([0.43 - h, 0.43 + h]))[0], motion.sample(np.array([0.43]))
    slope = np.asarray(apart(*around)).ravel() / (2 * h)
    assert abs(slope - middle[0]).max() < 1e-3 * abs(middle).max()


def test_contacts_come_and_go_with_the_motion():
    model = read_urdf(f"{MODELS}/box.urdf", root="free_flyer")
    contacts = {name: PointContact(name, "box", ((x, 0.0, -0.05),), friction=0.5) for name, x in (("a", 0.1), ("b", -0.1))}
    q, v = np.tile([0, 0, 0.05, 1, 0, 0, 0], (2, 1)), np.zeros((2, 6))
    held = (("a", "b"), ("b",), ("a",))
    motion = Motion(model, [Stretch(np.array([2.0 + k, 3.0 + k]), q, v, v, tuple(contacts[name] for name in names))
                            for k, names in enumerate(held)])
    setup = Setup(Mechanism(model), np.r_[q[0], v[0]], [ContactPlan(contacts["a"], most=40.0)], [], duration=3.0)
    made = follow(setup, motion, Following(forces=False))
    assert [(plan.name, plan.taken, plan.most) for plan in made.contacts] == [("a", True, 40.0), ("b", True, np.inf)]
    assert [(s.time, s.what, s.name) for s in made.switches] == [
        (1.0, "release", "a"), (2.0, "take", "a"), (2.0, "release", "b")]


@pytest.fixture(scope="module")
def reached(tmp_path_factory):
    """A solved reach of an arm of two links, and a file that follows it."""
    folder = tmp_path_factory.mktemp("follow")
    (folder / "arm.urdf").write_text(ROBOT)
    (folder / "reach.yaml").write_text(REACH.replace("ROBOT", "arm.urdf"))
    assert solved(folder / "reach.yaml", folder / "run") in (0, 1)
    return folder, "name: follow\nrobot: arm.urdf\nfollow: {run: run}\nwbc: {rate: 500}\n"


def test_an_arm_follows_a_solved_motion(reached):
    folder, text = reached
    loaded = followed(load_wbc_text(text, folder))
    run = run_loaded(loaded).run
    motion = motion_of(read_run(folder / "run"), loaded.mechanism.model)
    off = abs(run.x[:, :2] - motion.sample(run.t)[0])
    assert run.t[-1] == pytest.approx(1.0)
    assert run.solved.all()
    assert off.max() < 2e-3
    # the torques are those of the run: feedforward, not feedback, moves the arm
    arrays = read_run(folder / "run").arrays
    planned = np.column_stack([np.interp(run.t[5:-6], arrays["t_u"], column) for column in arrays["u"].T])
    assert abs(run.torque[5:-5] - planned).max() < 0.05 * abs(planned).max()
    again = followed(load_wbc_text(loaded.expanded(), folder))  # every default written out, it is the same loop
    assert again.setup.duration == loaded.setup.duration
    assert np.array_equal(again.setup.start, loaded.setup.start)
    # pushed off its start the arm comes back as 20 rad/s says: (1 + 20 t) exp(-20 t)
    away = followed(load_wbc_text(text + "start: {joints: {shoulder: 0.3, elbow: 0.4}}\n", folder))
    error = run_loaded(away).run.x[:, 0] - run.x[:, 0]
    t = run.t[:150]
    assert error[:150] == pytest.approx(0.1 * (1 + 20 * t) * np.exp(-20 * t), abs=4e-3)


HORIZON = """
name: two links go to a pose
system: {robot: ROBOT}
phase:
  duration: 0.6
  start: {joints: {shoulder: 0.2, elbow: 0.4}, rest: true}
  costs:
    - {name: pose, running: '20*(q["shoulder"] - 0.5)**2 + 20*(q["elbow"] + 0.3)**2 + 0.5*dot(v, v) + 0.1*dot(tau, tau)'}
mpc: {rate: 50, horizon: 0.6, intervals: 30}
solve: {method: ilqr}
"""


def test_two_rates_move_the_arm_as_the_plan_alone_does(reached):
    """The plan is made fifty times a second and followed five hundred times; between its knots it is the dynamics' own motion, so
    that the arm moves as under the plan's controls."""
    from ocp.app.files.load import load_problem
    from ocp.methods import make_options
    from ocp.mpc.controller import controller

    folder, _ = reached
    (folder / "horizon.yaml").write_text(HORIZON.replace("ROBOT", "arm.urdf"))
    text = ("name: follow\nrobot: arm.urdf\nstart: {joints: {shoulder: 0.2, elbow: 0.4}}\nfollow: {mpc: horizon.yaml, gain: 40}\n"
            "wbc: {rate: 500, duration: 0.8}\n")
    loaded = followed(load_wbc_text(text, folder))
    run = run_loaded(loaded).run
    assert len(loaded.setup.planner.seconds) == 40
    assert loaded.setup.planner.failed == 0
    problem = load_problem(folder / "horizon.yaml")
    solver = make_options("ilqr", {**problem.options_for("ilqr"), **problem.mpc.ilqr})
    alone, x = controller(problem.problem, problem.mpc.options, solver), run.x[0].copy()
    alone.reset(x)
    rate, h = problem.problem.phase.system.rate, 0.002
    for k in range(400):  # the plan's controls, held between its samples, on the same arm
        if k % 10 == 0:
            u = alone.step(x, k * h)
        assert run.x[k, :2] == pytest.approx(x[:2], abs=5e-3)
        half = x + h / 2 * np.asarray(rate(0, x, u, [])).ravel()
        x = x + h * np.asarray(rate(0, half, u, [])).ravel()
    assert abs(run.x[-1, :2] - [0.5, -0.3]).max() < 0.05


@pytest.mark.slow
def test_forces_of_a_motion_are_those_that_carry_it(tmp_path):
    """A leg that moves from rest to rest: the impulse of the ground is that of its weight."""
    (tmp_path / "stand.yaml").write_text(f"""
name: a leg stands
system:
  robot: {Path(MODELS).resolve() / 'hopper.urdf'}
  actuated: [hip, knee]
  constraints:
    - {{name: foot, contact: {{frame: foot, friction: 0.7}}}}
phase:
  contacts: [foot]
  duration: 0.2
  start: {{joints: {{base_pitch: 0, hip: -0.45, knee: 0.9}}, rest: true, others: assembled}}
  final: {{joints: {{base_pitch: 0, hip: -0.45, knee: 0.9}}, rest: true}}
  costs: [{{name: effort, running: "hip**2 + knee**2"}}]
solve: {{method: collocation, collocation: {{intervals: 5, refine: none}}}}
""")
    solved(tmp_path / "stand.yaml", tmp_path / "run")
    model = read_urdf(f"{MODELS}/hopper.urdf")
    motion = motion_of(read_run(tmp_path / "run"), model)
    t = motion.stretches[0].t
    force = motion.force("foot", t)
    impulse = np.trapezoid(force, t, axis=0)  # from rest to rest
    assert impulse == pytest.approx([0, 0, 9.81 * model.mass * 0.2], abs=2e-2 * 9.81 * model.mass * 0.2)
    assert np.ptp(force[:, 2]) > 1.0


@pytest.mark.parametrize(("change", "words"), [
    (("run: run", "run: ruin"), "ruin"), (("arm.urdf", "other.urdf"), "has the coordinates"),
    (("run: run", "run: run, gain: -1"), r"follow\.gain: must not be negative"),
    (("run: run", "run: run, mpc: horizon.yaml"), "either a run or a file for mpc"),
    (("run: run", "mpc: reach.yaml"), "has no section 'mpc'"),
    (("rate: 500", "rate: 20"), None),
])
def test_what_cannot_be_followed_is_named(reached, change, words):
    folder, text = reached
    if words is None:  # plans at 50 Hz cannot be followed at 20
        (folder / "horizon.yaml").write_text(HORIZON.replace("ROBOT", "arm.urdf"))
        text, words = text.replace("run: run", "mpc: horizon.yaml"), "faster than they are followed"
    (folder / "other.urdf").write_text(ROBOT.replace('"elbow"', '"knee"'))
    with pytest.raises(ProblemError, match=words):
        followed(load_wbc_text(text.replace(*change), folder))
