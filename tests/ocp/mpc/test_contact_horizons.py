"""Receding horizons of robots on contacts: steps against the saddle point written out, kinds of stages by the time, plants with
contacts, and a quadruped that stands and trots."""

from dataclasses import replace
from importlib import metadata

import casadi as ca
import numpy as np
import pytest
from repository import ROOT

from dynamics import algorithms as alg
from ocp.app.files.load import load_problem, load_text
from ocp.app.mpc.run import prepare_loaded
from ocp.errors import ProblemError
from ocp.mpc.options import STEP, MPCOptions, solver_options
from ocp.plants import Disturbances, Kick, PlantSpec, Push
from ocp.plants.table import Measured, plant_of
from ocp.shooting.stages.by_time import Timetable

PROBLEMS = ROOT / "problems"
LEG = """
name: leg
constants: {squat: 0.9}
system:
  robot: models/hopper.urdf
  actuated: [hip, knee]
  limits: {position: false, velocity: false}
  constraints:
    - {name: foot, contact: {frame: foot, friction: 0.7, gains: [0, 40]}}
phases:
  - name: stance
    contacts: [foot]
    duration: 0.2
    start: {joints: {base_pitch: 0, hip: "-squat/2", knee: squat}, rest: true, others: assembled}
    costs: &COSTS
  - name: flight
    contacts: []
    duration: 0.1
    reset: {consistent: false}
    costs: &COSTS
mpc: {rate: 100, duration: 0.3, horizon: 0.4, intervals: 20, repeat: stance, start_iterations: 20}
""".replace("&COSTS", """
      - {name: posture, state_error: {joints: {base_pitch: 0, hip: "-squat/2", knee: squat}, rest: true}, weights: 5}
      - {name: effort, running: "1e-3*(hip**2 + knee**2)"}""")


def leg(**changes):
    return load_text(LEG, PROBLEMS, "leg.yaml", changes)


@pytest.fixture(scope="module")
def loop():
    return prepare_loaded(leg())


def parts_of(model):
    """M, bias, J of the foot and q [+] v."""
    s, w = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
    J = alg.frame_jacobian(model, s, "foot", "world_aligned")[:3, :]
    return ca.Function("parts", [s, w], [alg.mass_matrix(model, s), alg.bias_force(model, s, w), J, alg.integrate(model, s, w)])


def by_hand(mechanism, parts, q, v, tau, held, h):
    """A step of symplectic Euler from the saddle point, J dot v by a difference, and the force of the foot."""
    M, bias, J, _ = (np.asarray(part) for part in parts(q, v))
    rows = [0, 2]  # the leg moves in the plane x, z
    J = J[rows]
    n, m = mechanism.model.nv, len(rows)
    f = np.array(mechanism.motor_effort(ca.DM(tau))).ravel() - bias.ravel()
    if not held:
        a, force = np.linalg.solve(M, f), np.zeros(m)
    else:
        e = 1e-6
        near = [np.asarray(parts(np.asarray(parts(q, side * e * v)[3]).ravel(), v)[2])[rows] for side in (1, -1)]
        drift = (near[0] - near[1]) @ v / (2 * e)
        K = np.block([[M, -J.T], [J, np.zeros((m, m))]])
        found = np.linalg.solve(K, np.r_[f, -drift - 40 * J @ v])
        a, force = found[:n], found[n:]
    after = v + h * a
    return np.r_[np.asarray(parts(q, h * after)[3]).ravel(), after], force


def test_a_timetable_repeats_its_phases():
    table = Timetable((0.4, 0.6, 0.9), again=1)
    t = np.array([0.0, 0.39, 0.41, 0.61, 0.89, 0.91, 1.11, 1.39, 1.41])
    assert table.numbers(t).tolist() == [0, 0, 1, 2, 2, 1, 2, 2, 1]
    assert replace(table, again=None).numbers(t).tolist() == [0, 0, 1, 2, 2, 2, 2, 2, 2]
    assert table.within(np.array([1.95]))[0] == pytest.approx(0.45)


def test_controls_stay_in_their_phase_as_the_horizon_moves():
    """A cycle of four steps, AABB, moved on by half a step and by one: no step takes over the control of the other phase."""
    table = Timetable((2.0, 4.0), again=0)
    before = np.arange(8.0)
    old = table.numbers(before + 0.5)
    for moved, ahead in (((0, 0.5), 0.5), ((1, 0.0), 1.0)):
        now = before + ahead
        new = table.numbers(now + 0.5)
        found = dict(table.sources(old, new, moved, (before, now)))
        assert all(old[m] == new[k] for k, m in found.items())
        mixed = [k for k in range(7) if old[k + moved[0]] != new[k] or (moved[1] and old[k + 1] != new[k])]
        assert set(mixed) <= set(found) <= {*mixed, 7}
        assert found[7] == 4  # its middle, one cycle ago


def test_plans_obey_the_saddle_point_of_the_phase_they_are_in(loop):
    horizon, spec = loop.controller.horizon, loop.spec
    program, parts = horizon.program, parts_of(spec.robot.model)
    loop.controller.reset(loop.phase.start.value)
    for k in range(4):
        loop.controller.update(horizon.x[1] if k else loop.phase.start.value, 0.02 * k)
        assert horizon.program is program
        force_seen = False
        for i in range(len(horizon.u)):
            t = horizon.time + horizon.t[i]
            held = ((t + 0.5 * horizon.step) % 0.3) < 0.2
            nq = spec.robot.model.nq
            after, force = by_hand(spec.robot, parts, horizon.x[i, :nq], horizon.x[i, nq:], horizon.u[i], held, horizon.step)
            assert horizon.x[i + 1] == pytest.approx(after, abs=1e-6), (k, i)
            if held and i:
                force_seen = True
                assert abs(force[0]) <= 0.7 * force[1] + 1e-6
        assert force_seen


def test_half_steps_keep_the_plan_too(loop):
    """The plant is the model for half a step: the improved plan costs next to nothing more."""
    mpc = loop.controller
    mpc.reset(loop.phase.start.value)
    costs = []
    for k in range(10):
        assert mpc.update(loop.phase.start.value if not k else mpc.horizon.x[0], 0.01 * k) == 0
        costs.append(mpc.horizon.cost)
    assert np.isfinite(costs).all()
    assert max(costs) < 3 * min(costs) + 1


def test_prepare_and_feedback_change_phases_as_steps_do(loop):
    mpc, x = loop.controller, np.array(loop.phase.start.value)
    mpc.reset(x)
    for k in range(12):
        mpc.prepare(0.02 * k)
        u = mpc.feedback(x)
        assert np.isfinite(u).all()
        assert mpc.report.ok
        x = mpc.horizon.x[1].copy()
        middles = mpc.horizon.time + mpc.horizon.t[:-1] + 0.5 * mpc.horizon.step
        assert mpc.horizon._store.plan.which[:-1].tolist() == [int(t % 0.3 >= 0.2) for t in middles]


def test_defaults_of_robots_on_contacts():
    loaded = leg()
    own = solver_options(loaded.problem, MPCOptions(horizon=0.4), {})
    assert (own.integrator, own.hessian, own.intervals) == ("semi_implicit_euler", "gauss_newton", round(0.4 / STEP))
    assert solver_options(loaded.problem, MPCOptions(), {"integrator": "euler"}).integrator == "euler"
    assert loaded.mpc.plant.kind == "hybrid"


@pytest.mark.parametrize(("changes", "words"), [
    ({"phases.stance.final": "{rest: true}"}, "does not support conditions at their ends; make them costs"),
    ({"phases.flight.duration": "{lower: 0.1, upper: 0.2}"}, "fixed durations"),
    ({"mpc.repeat": "stence"}, "no phase named 'stence'; did you mean 'stance'"),
    ({"mpc.plant": "{kind: integrated}"}, "use plant hybrid or mujoco"),
    ({"mpc.track": "[{name: force, quantity: 'constraint_force(\"foot\")[2]'}]"}, "depends on accelerations or forces"),
])
def test_what_cannot_be_served_is_named(changes, words):
    with pytest.raises(ProblemError, match=words):
        leg(**changes)


def test_plants_by_kind_refuse_what_they_do_not_know_and_measure_with_noise():
    spec = leg().mpc.plant
    x = np.array(leg().problem.phases[0].start.value)
    noisy = plant_of(replace(spec, disturbances=Disturbances(seed=3, measurement=(0.01,) * 10)))
    assert isinstance(noisy, Measured)
    noisy.reset(x)
    seen = np.array([noisy.measure() - x for _ in range(2000)])
    assert seen.std(axis=0) == pytest.approx(0.01, rel=0.1)
    assert noisy.step(np.zeros(2), 0.01)[: spec.robot.model.nq] == pytest.approx(x[:5], abs=0.01)
    for given in (Disturbances(kicks=(Kick(0.1, (0.0,) * 10),)), Disturbances(pushes=(Push(0.0, 0.1, controls=(1.0, 0.0)),))):
        with pytest.raises(ProblemError, match="only forces on frames and measurement noise"):
            plant_of(replace(spec, disturbances=given))
    with pytest.raises(ProblemError, match="only robots"):
        plant_of(PlantSpec(spec.system, kind="hybrid"))


@pytest.mark.slow
@pytest.mark.skipif(not list(metadata.distributions(name="example-robot-data")), reason="robots of the extra robots")
@pytest.mark.parametrize(("name", "changes", "moved"), [
    ("quadruped_stand", {"mpc.duration": "1.5"}, 0.0),
    ("quadruped_stand", {"mpc.duration": "1.5", "mpc.plant.kind": "hybrid"}, 0.0),
    ("quadruped_trot", {"mpc.duration": "3.5"}, 0.3)])
def test_a_quadruped_stands_and_trots(name, changes, moved):
    pytest.importorskip("mujoco")
    run = prepare_loaded(load_problem(PROBLEMS / "mpc" / f"{name}.yaml", changes)).run()
    assert run.ok
    assert not run.failures
    assert run.x[:, 2].min() > 0.2
    assert run.x[-1, 0] >= moved


@pytest.mark.slow
def test_a_humanoid_balances_on_flat_feet():
    """Pushed twice on MuJoCo: the mass centre is over the feet when it ends, upright, and no sole has moved by a millimetre."""
    pytest.importorskip("mujoco")
    loaded = load_problem(PROBLEMS / "mpc" / "humanoid_balance.yaml", {"mpc.duration": "1.2"})
    run = prepare_loaded(loaded).run()
    assert run.ok
    assert not run.failures
    assert [push.recovered for push in run.recoveries][0]
    model, ends = loaded.model, run.fine_x[[0, -1]]
    for frame in ("l_sole", "r_sole"):
        before, after = (alg.frame_pose(model, ca.DM(x[:model.nq]), frame) for x in ends)
        assert np.array(ca.DM(after.p - before.p)).ravel() == pytest.approx(0.0, abs=1e-3)
    com = np.array(ca.DM(alg.centre_of_mass(model, ca.DM(ends[1, :model.nq])))).ravel()
    assert com[:2] == pytest.approx([0.03, 0.0], abs=0.02)
    assert np.abs(run.fine_x[:, 4:7]).max() < 0.1  # vector part of the quaternion of the base
    assert np.ptp(np.array([np.array(ca.DM(alg.centre_of_mass(model, ca.DM(x[:model.nq])))).ravel()[1] for x in run.x])) > 2e-3


@pytest.mark.slow
@pytest.mark.skipif(not list(metadata.distributions(name="example-robot-data")), reason="robots of the extra robots")
def test_a_quadruped_wipes_a_wall():
    """The tool slides on the wall along an ellipse, and MuJoCo's wall pushes it back with what the file asks for."""
    pytest.importorskip("mujoco")
    loaded = load_problem(PROBLEMS / "mpc" / "quadruped_wipes.yaml", {"mpc.duration": "0.8"})
    loop = prepare_loaded(loaded)
    run, model = loop.run(), loaded.model
    assert run.ok
    assert not run.failures
    assert loop.solver_options.intervals == 14
    tool = np.array([np.array(ca.DM(alg.frame_pose(model, ca.DM(x[:model.nq]), "gripperMover").p)).ravel() for x in run.x])
    phi = 2 * run.t - 1 + np.exp(-2 * run.t)
    assert np.abs(tool[:, 0] - 0.644705).max() < 1e-4
    assert np.abs(tool[:, 1] - 0.12 * np.sin(phi)).max() < 0.01
    assert np.abs(tool[:, 2] - 1.1066 - 0.08 * (np.cos(phi) - 1)).max() < 0.01
    forces = loop.plant.forces
    assert len(forces) == 5
    (wall,) = (force for name, force in forces.items() if "wall" in name)
    assert wall[0] == pytest.approx(-10, abs=3)
    assert sum(force[2] for force in forces.values()) == pytest.approx(model.mass * 9.81, rel=0.05)
