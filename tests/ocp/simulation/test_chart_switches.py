"""Simulations through gimbal lock and whole turns: the same poses and twists as in quaternions, whatever chart the file is in."""

import json

import casadi as ca
import numpy as np
import pytest
from repository import ROOT

from dynamics import algorithms as alg
from dynamics.joints import charts
from dynamics.lie import euler
from ocp.app import cli
from ocp.app.files.load import load_problem, load_text
from ocp.app.simulate import findings
from ocp.errors import ProblemError
from ocp.simulation import Constant, Ending, Guessed, simulate, stepper, with_steps_halved

NAMES = (*euler.SEQUENCES, charts.VECTOR)
TOP = """
name: A top about a point
system:
  gravity: [0, 0, -9.81]
  actuated: {actuated}
  bodies:
    top: {{mass: 1, com: {com}, inertia: {{xx: 0.1, yy: {yy}, zz: {zz}}}, joint: {{{joint}}}}}
  forces: [{forces}]
phase:
  duration: {duration}
  start: {{joints: {{top: {q}}}, velocities: {{top: {v}}}, others: neutral}}
  costs: {costs}
"""


def joint(chart):
    return {"": "kind: spherical", charts.VECTOR: "kind: exponential"}.get(chart, f"kind: euler, chart: {chart}")


def lock(chart):
    return 0.0 if euler.sequence(chart).proper else np.pi / 2


def start(chart):
    """Coordinates and rates that lead past the singular place within a fifth of a second or so."""
    if chart == charts.VECTOR:
        return np.array([0.5, 2.5, -0.4]), np.array([0.3, 6.0, 0.5])
    return np.array([0.4, lock(chart) - 0.9, -0.7]), np.array([0.15, 5.0, -0.1])


def motion_of(chart, q, v):
    """Rotation matrix and angular velocity in body axes."""
    kind = charts.joint_of(chart)
    return np.array(kind.transform(ca.DM(q)).R), np.array(kind.subspace(ca.DM(q)))[3:] @ v


def text(chart, state=None, **more):
    """A file; without a chart in quaternions, the state then a rotation matrix and an angular velocity."""
    q, v = start(chart) if state is None else state
    z, y, x = euler.from_matrix_numeric("zyx", q) if not chart else np.zeros(3)
    given = {"actuated": [], "com": [0.1, 0, -0.3], "yy": 0.14, "zz": 0.05, "joint": joint(chart), "forces": "", "duration": 1.6,
             "costs": [], "q": np.asarray(q).tolist() if chart else f"{{rpy: [{x}, {y}, {z}]}}", "v": np.asarray(v).tolist()}
    return TOP.format(**given | more)


def top(chart, state=None, **more):
    return load_text(text(chart, state, **more)).problem


def twin(chart, **more):
    return top("", motion_of(chart, *start(chart)), **more)


def move(problem, integrator="rk4", controls=None, **how):
    return simulate(problem, integrator, controls or Guessed(problem), kernels="interpreted", **how)


def seen(motion):
    """Rotations, places and body twists [k, 3 * 3 + 3 + 6] of all bodies along a motion."""
    leg = motion.legs[0]
    model = leg.phase.system.model
    q, v = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
    parts = []
    for pose, twist in zip(alg.body_poses(model, q), alg.body_velocities(model, q, v), strict=True):
        parts += [ca.vec(ca.densify(ca.SX(pose.R))), ca.densify(ca.SX(pose.p)), ca.densify(ca.SX(twist))]
    return np.array(ca.Function("seen", [q, v], [ca.vertcat(*parts)])(leg.x[:, :model.nq].T, leg.x[:, model.nq:].T)).T


@pytest.mark.row("003:J10", "003:J13")
@pytest.mark.parametrize("chart", [name if name in ("zyx", "xyz", "yxy", "zxz", charts.VECTOR) else pytest.param(
    name, marks=pytest.mark.slow) for name in NAMES])
def test_a_pendulum_goes_through_gimbal_lock_in_every_chart(chart):
    """Poses and twists of the run in quaternions; energy, and the angular momentum about the vertical, stay."""
    motion, other = (move(problem, dt=0.0025) for problem in (top(chart), twin(chart)))
    assert motion.ok
    assert [(s.joint, s.chart, s.event) for s in motion.legs[0].switches] == [("top", chart, "leaves")]
    assert any(f"joint 'top' left its chart {chart} for a quaternion once, at t = " in note for note in motion.notes)
    assert not any("nearly singular" in note for note in motion.notes)
    assert min(abs(float(charts.measure(chart, ca.DM(x[:3])))) for x in motion.legs[0].x) < 0.3
    path = seen(motion)
    np.testing.assert_allclose(path, seen(other), atol=1e-6)
    assert abs(findings.energies(motion).unexplained) < 1e-7
    com = np.array([0.1, 0, -0.3])
    inertia = np.diag([0.1, 0.14, 0.05]) + com @ com * np.eye(3) - np.outer(com, com)
    assert np.ptp([row[:9].reshape(3, 3).T[2] @ inertia @ row[-3:] for row in path]) < 1e-7


@pytest.mark.parametrize("chart", ["xyz", "zxz", charts.VECTOR])
def test_a_chart_alone_loses_what_switching_keeps(chart):
    problem = top(chart)
    mover = stepper(problem.phase.system, "rk4", mode="interpreted")
    mover.reset(np.concatenate(start(chart)))
    for _ in range(640):
        x = mover.step(np.zeros(0), 0.0025)
    R, own, exact = (np.array(charts.joint_of(chart).transform(ca.DM(x[:3])).R),
                     *(seen(move(p, dt=0.0025))[-1, :9].reshape(3, 3).T for p in (problem, twin(chart))))
    assert np.abs(R - exact).max() > 100 * np.abs(own - exact).max()


@pytest.mark.parametrize("chart", ["zyx", pytest.param("yxy", marks=pytest.mark.slow), charts.VECTOR])
@pytest.mark.parametrize(("integrator", "order"), [("rk4", 4), ("bdf1", 1), ("sdirk2", 2), ("bdf2", 2)])
@pytest.mark.sample(3)
def test_orders_are_kept_through_switches(chart, integrator, order):
    exact = seen(move(twin(chart, duration=0.6), dt=1e-3))[-1]
    problem, errors = top(chart, duration=0.6), []
    for n in (60, 120) if order == 4 else (240, 480):
        motion = move(problem, integrator, dt=0.6 / n)
        assert motion.ok
        assert motion.legs[0].switches
        errors.append(np.linalg.norm(seen(motion)[-1] - exact))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.5)


@pytest.mark.parametrize("chart", euler.SEQUENCES)
@pytest.mark.sample(3)
def test_straight_through_gimbal_lock_the_angles_go_on(chart):
    """A ball that turns about the middle axis: the outer angles stay, the middle one rises evenly. A step ends at the lock."""
    first, name = lock(chart), euler.sequence(chart).components[1]
    ends = [[0.3, first - 1.0, -0.2], [0.3, first + 1.0, -0.2]]
    problem = top(chart, (ends[0], [0.0, 1.0, 0.0]), com=[0, 0, 0], yy=0.1, zz=0.1, duration=2,
                  costs=f"[{{name: square, running: \"q['top.{name}']**2\"}}]")
    for integrator in ("rk4", "bdf2"):
        motion = move(problem, integrator, dt=0.02)
        leg = motion.legs[0]
        assert float(charts.measure(chart, ca.DM(leg.x[50, :3]))) == pytest.approx(0, abs=1e-6)
        np.testing.assert_allclose(leg.x[:, :3], np.linspace(*ends, 101), atol=1e-7)
        np.testing.assert_allclose(leg.x[:, 3:], np.tile([0.0, 1.0, 0.0], (101, 1)), atol=1e-6)
        whole = ((first + 1) ** 3 - (first - 1) ** 3) / 3
        assert findings.costs(motion)["square"] == pytest.approx(whole, abs=4e-4)


def test_a_rotation_vector_grows_beyond_whole_turns():
    """Three turns about one axis, in closed form."""
    axis = np.array([0.6, 0.0, 0.8])
    problem = top(charts.VECTOR, (0.1 * axis, 2 * np.pi * axis), com=[0, 0, 0], yy=0.1, zz=0.1, duration=3)
    motion = move(problem, dt=0.01)
    np.testing.assert_allclose(motion.legs[0].x[:, :3], np.outer(0.1 + 2 * np.pi * motion.t, axis), atol=1e-7)
    np.testing.assert_allclose(motion.legs[0].x[:, 3:], np.tile(2 * np.pi * axis, (301, 1)), atol=1e-6)


FREE = """
name: A thrown box
system:
  gravity: [0, 0, -9.81]
  actuated: []
  bodies:
    arm: {{mass: 1, inertia: {{xx: 0.1, yy: 0.1, zz: 0.1}}, joint: {{kind: revolute, axis: [1, 0, 0]}}}}
    box: {{parent: arm, mass: 1, com: [0.1, 0, -0.1], inertia: {{xx: 0.1, yy: 0.14, zz: 0.05}}, joint: {{{joint}}}}}
  forces: [{{drag: {{frame: box, linear: [0.1, 0.2, 0.3, 0.01, 0.02, 0.03]}}}}]
phase:
  duration: 1.5
  start: {{joints: {{}}, velocities: {{box: {v}}}, others: neutral}}
  costs: []
"""


@pytest.mark.parametrize("kind", [
    "kind: free_3d, chart: zyx", "kind: free_3d_reversed, chart: xyz", "kind: free_3d, chart: rotation_vector",
    "kind: composite, parts: [{name: a, kind: translation}, {name: b, kind: euler, chart: zyx}]"])
@pytest.mark.sample(2)
def test_parts_of_joints_switch(kind):
    """Against a free-flyer; drag, which is a force of the body, takes its energy."""
    spin, away = [1.0, 6.0, 0.5], [0.3, -0.2, 4.0]
    own = spin[::-1] if "zyx" in kind else spin
    rates = own + away if "reversed" in kind else away + own
    other = move(load_text(FREE.format(joint="kind: free_flyer", v=away + spin)).problem, dt=0.0025)
    motion = move(load_text(FREE.format(joint=kind, v=rates)).problem, dt=0.0025)
    assert motion.ok
    assert [s.event for s in motion.legs[0].switches] == ["leaves"]
    np.testing.assert_allclose(seen(motion), seen(other), atol=2e-6)
    assert abs(findings.energies(motion).unexplained) < 1e-5


TREE = """
name: Two tops on a beam
system:
  gravity: [0, 0, -9.81]
  actuated: all
  bodies:
    beam: {{mass: 2, com: [0, 0, 0.1], inertia: {{xx: 1, yy: 1, zz: 1}}, joint: {{kind: revolute, axis: [0, 1, 0]}}}}
    left: {{parent: beam, mass: 1, com: [0, 0, -0.3], inertia: {{xx: 0.1, yy: 0.14, zz: 0.05}},
           joint: {{{left}, position: [0.5, 0, 0]}}}}
    right: {{parent: beam, mass: 1, com: [0.1, 0, -0.3], inertia: {{xx: 0.1, yy: 0.14, zz: 0.05}},
            joint: {{{right}, position: [-0.5, 0, 0]}}}}
  forces: [{{spring: {{points: [{{frame: left, position: [0, 0, -0.5]}}, {{frame: right, position: [0, 0, -0.5]}}], length: 1,
            stiffness: 20}}}}]
phase:
  duration: 0.6
  start: {{joints: {{}}, velocities: {{left: [0.3, 12, 0.5], right: [-1, {b}, {c}]}}, others: neutral}}
  costs: []
"""


@pytest.mark.parametrize(("integrator", "size"), [("rk4", 2e-6), ("bdf2", 4e-2), *(
    pytest.param(*case, marks=pytest.mark.slow) for case in (("bdf1", 0.5), ("sdirk2", 2e-2)))])
def test_joints_of_a_tree_switch_one_by_one(integrator, size):
    """Motors at the joints are idle, one drives the beam all the time."""
    at, far = [], ("xyz", charts.VECTOR)
    for left, right, b, c in ((*map(joint, far), -12, 0.2), ("kind: spherical", "kind: spherical", -12, 0.2)):
        problem = load_text(TREE.format(left=left, right=right, b=b, c=c)).problem
        at.append(move(problem, integrator, Constant({"beam": 0.5}, problem), dt=0.0025 if integrator == "rk4" else 0.005))
    motion, other = at
    events = [(s.joint, s.event) for s in motion.legs[0].switches]
    assert sorted(events) == [("left", "leaves"), ("right", "leaves")]
    assert motion.legs[0].switches[0].t < motion.legs[0].switches[1].t
    assert {note.split("'")[1] for note in motion.notes if "left its chart" in note} == {"left", "right"}
    np.testing.assert_allclose(seen(motion), seen(other), atol=size)


def test_a_long_step_is_made_again_without_the_chart():
    """Free balls that turn straight through gimbal lock: the second one within a step, the first in a quaternion already."""
    found = load_text("""
name: Two balls
system:
  actuated: []
  gravity: [0, 0, 0]
  bodies:
    hub: {mass: 1, joint: {kind: prismatic, axis: [1, 0, 0]}}
    one: {parent: hub, mass: 1, inertia: {xx: 1, yy: 1, zz: 1}, joint: {kind: euler, chart: xyz}}
    two: {parent: hub, mass: 1, inertia: {xx: 1, yy: 1, zz: 1}, joint: {kind: euler, chart: zyz}}
phase:
  duration: 2
  start:
    joints: {hub: 0, one: [0.3, 0.9, -0.2], two: [0.3, 1.2, 0.2]}
    velocities: {hub: 0, one: [0, 2, 0], two: [0, -2, 0]}
  costs: []
""").problem
    motion = move(found, dt=0.25)
    assert [(s.joint, s.t, s.event) for s in motion.legs[0].switches] == [("one", 0.0, "leaves"), ("two", 0.25, "leaves")]
    np.testing.assert_allclose(motion.legs[0].x[:, 2], 0.9 + 2 * motion.t, atol=2e-3)
    np.testing.assert_allclose(motion.legs[0].x[:, 5], 1.2 - 2 * motion.t, atol=2e-3)
    np.testing.assert_allclose(motion.legs[0].x[:, [1, 3, 4, 6]], np.tile([0.3, -0.2, 0.3, 0.2], (9, 1)), atol=2e-3)


# ---- what is written in coordinates -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(("force", "why"), [
    ("{name: bearing, joint_damper: {joint: top, linear: 0.1}}", "'bearing' at joint 'top': acts on its coordinates"),
    ("{name: stop, joint_stop: {joint: top, lower: [-20, -20, -20], upper: [20, 20, 20], stiffness: 9}}",
     "'stop' at joint 'top': acts on its coordinates"),
    ("{name: mine, efforts: {top.dx: \"-v['top.dx']\"}}", "mine"),
])
def test_forces_on_coordinates_keep_their_chart(force, why):
    """The motion is that of the chart alone; the joint, the time, the determinant and the reason are named."""
    problem = top("xyz", forces=force, duration=0.4)
    motion = move(problem, dt=0.005)
    kept, = motion.legs[0].switches
    worst = np.array([float(charts.measure("xyz", ca.DM(x[:3]))) for x in motion.legs[0].x[:-1]])
    assert (kept.joint, kept.event, kept.det) == ("top", "stays", worst[np.argmin(np.abs(worst))])
    note = next(note for note in motion.notes if "stays in its chart xyz" in note)
    assert f"joint 'top' stays in its chart xyz, nearest to singular at t = {kept.t:.6g} s (det S = {kept.det:.2g}): " in note
    assert why in note
    mover = stepper(problem.phase.system, "rk4", mode="interpreted")
    mover.reset(motion.legs[0].x[0])
    for k, t in enumerate(motion.t[:-1]):
        np.testing.assert_array_equal(mover.step(np.zeros(0), motion.t[k + 1] - t), motion.legs[0].x[k + 1])


def test_armature_keeps_its_chart():
    problem = top("xyz", joint="kind: euler, chart: xyz, armature: 0.02", duration=0.4)
    assert any("stays in its chart xyz" in note and "armature" in note for note in move(problem, dt=0.005).notes)


class Late(Constant):
    """A motor that sets in at a time."""

    def __init__(self, name, since, problem):
        super().__init__({name: 0.3}, problem)
        self.since = since

    def ahead(self, phase, t):
        return super().ahead(phase, t) * (t[:-1, None] > self.since - 1e-9)


def test_a_motor_brings_its_chart_back_where_it_can():
    problem = top("xyz", actuated="all")
    names = problem.phase.system.controls
    motion = move(problem, controls=Late(names[1], 0.8, problem), dt=0.0025)
    assert motion.ok
    assert [s.event for s in motion.legs[0].switches][:2] == ["leaves", "returns"]
    returned = motion.legs[0].switches[1]
    assert returned.t == pytest.approx(0.8)
    at = int(round(0.8 / 0.0025))
    mover = stepper(problem.phase.system, "rk4", mode="interpreted")
    mover.reset(motion.legs[0].x[at])
    np.testing.assert_allclose(mover.step(np.array([0.0, 0.3, 0.0]), 0.0025), motion.legs[0].x[at + 1], atol=1e-12)
    always = move(problem, controls=Constant({names[1]: 0.3}, problem), dt=0.0025)
    assert [s.event for s in always.legs[0].switches] == ["stays"]
    assert any("stays in its chart xyz" in note and "a motor acts on its rates" in note for note in always.notes)


def test_a_motor_at_gimbal_lock_is_refused():
    """It sets in where the top goes straight through: the joint, the time and the determinant are named."""
    problem = top("xyz", ([0.3, np.pi / 2 - 1.0, -0.2], [0.0, 1.0, 0.0]), com=[0, 0, 0], yy=0.1, zz=0.1, duration=2, actuated="all")
    motion = move(problem, controls=Late(problem.phase.system.controls[0], 1.0, problem), dt=0.02)
    assert motion.ending is Ending.FAILED
    assert motion.t[-1] == pytest.approx(1.0)
    assert "a motor acts on the coordinates of joint 'top', whose chart is singular at t = 1 s (det S = " in motion.message


# ---- what is said -----------------------------------------------------------------------------------------------------------
def test_accuracy_is_that_of_poses():
    """Steps half as long tell by how much poses and twists differ, however large rates of angles get."""
    found = with_steps_halved(motion := move(top("zyx"), dt=0.005), Guessed(motion.problem), kernels="interpreted")
    assert found[0] < 1e-4
    assert found[1] in ("q.top.wx", "q.top.wy", "q.top.wz", "v.top.wx", "v.top.wy", "v.top.wz")


def test_the_summary_tells(tmp_path, capsys):
    file = tmp_path / "top.yaml"
    file.write_text(text("zyx"), encoding="utf-8")
    with pytest.raises(SystemExit) as stop:
        cli.main(["simulate", str(file), "--out", str(tmp_path / "out"), "--quiet"])
    assert stop.value.code == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    switch, = summary["charts"]
    assert (switch["joint"], switch["chart"], switch["event"]) == ("top", "zyx", "leaves")
    assert 0.25 < abs(switch["det"]) < 0.5
    assert summary["halved"]["difference"] < 1e-4
    said = "joint 'top' left its chart zyx for a quaternion once, at t = "
    assert any(said in note for note in summary["notes"])
    assert said in capsys.readouterr().out


@pytest.mark.row("003:J07", "003:J10", "003:I06")
def test_bars_on_balls_change_their_charts():
    """The published energy of BDF2 on the way through two other charts, far from what quaternions give; the same way all along."""
    problem = load_problem(ROOT / "problems" / "redmax" / "balls.yaml").problem
    switched, left = (move(problem, "bdf2", dt=2e-3, charts_by=how) for how in ("switch", "quaternion"))
    assert [(s.joint, s.chart, s.why) for s in switched.legs[0].switches] == [("b2", "xyz", "xyx"), ("b2", "xyx", "yxz")]
    assert findings.energies(switched).change == pytest.approx(8.6544602745403390e3, rel=2e-8)
    assert abs(findings.energies(left).change - 8654.46) > 10
    np.testing.assert_allclose(seen(switched)[:150], seen(left)[:150], atol=0.2)
    steps = np.abs(np.diff(switched.legs[0].x[:, :6], axis=0)).max()
    assert steps < 0.5  # angles go on in the chart of the file


def test_an_unknown_way_out_of_a_chart_is_named():
    with pytest.raises(ProblemError, match="one of quaternion, switch, got 'quaternions'.*did you mean 'quaternion'"):
        move(top("xyz"), charts_by="quaternions")
