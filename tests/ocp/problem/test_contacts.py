"""Contacts and other constraints of robots in problems: files, phases that name their contacts, impacts, derivatives."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from row_trees import tree_of

from dynamics import algorithms as alg
from dynamics.constraints import FlatContact, FrameMotion, JointMotion, PointContact, RollingContact, Skate
from dynamics.loops import LoopDynamics
from dynamics.mechanism import Mechanism, direct_motors
from dynamics.model.synthetic import random_tree
from ocp.app.files.load import load_problem, load_text
from ocp.app.sentences import sentences
from ocp.bridge import equations_of_motion, residual_dynamics_system, robot_system, start_constraints
from ocp.contacts import clear_constraint, contact_constraints, impact_map, with_contacts
from ocp.derivatives import choose, differentiated
from ocp.errors import ProblemError
from ocp.guesses.silent import bridged
from ocp.methods import method
from ocp.problem import At, Duration, Guess, Phase, Sense
from ocp.shooting.stages.costs import quadratic
from ocp.transcription.collocation import CollocationOptions, transcribe
from ocp.transcription.conditions import hard_rows

HEAD = """name: Leg
system:
  robot: hopper.urdf
  actuated: [hip, knee]
  constraints:
    - %s
phase:
  duration: 1.0
  start: %s
  costs: [{name: effort, running: "hip**2 + knee**2"}]
"""


@pytest.fixture
def written(tmp_path, robot="problems/models/hopper.urdf"):
    def write(text, head=HEAD, start="{joints: {base_pitch: 0, hip: -0.4, knee: 0.8}, rest: true, others: assembled}"):
        from pathlib import Path
        (tmp_path / "hopper.urdf").write_text(Path(robot).read_text(encoding="utf-8"), encoding="utf-8")
        path = tmp_path / "file.yaml"
        path.write_text(head % (text, start) if "%s" in head else head, encoding="utf-8")
        return load_problem(path)
    return write


@pytest.mark.parametrize(("text", "kind"), [
    ("{name: foot, contact: {frame: foot, friction: 0.6, points: [[0, 0, 0], [0.1, 0, 0]]}}", PointContact),
    ("{name: sole, flat_contact: {frame: foot, friction: 0.6, half_sizes: [0.1, 0.05]}}", FlatContact),
    ("{name: wheel, rolling: {frame: foot, radius: 0.1, axis: [0, 1, 0]}}", RollingContact),
    ("{name: blade, skate: {frame: foot, axis: [1, 0, 0]}}", Skate),
    ("{name: drive, joint_motion: {joint: base_x, path: 0.2*sin(t)}}", JointMotion),
    ("{name: hand, frame_motion: {frame: torso, position: [0.1*t, 0, 0.5], rpy: [0, 0.2*t, 0]}}", FrameMotion)])
def test_files_say_every_kind(written, text, kind):
    loaded = written(text, start="{others: free}")
    (record,) = loaded.problem.phase.system.robot.constraints
    assert isinstance(record, kind)
    if kind is JointMotion:
        assert float(record.path(0.5)) == pytest.approx(0.2 * np.sin(0.5))
    if kind is FrameMotion:
        np.testing.assert_allclose(np.array(record.position(2.0)).ravel(), [0.2, 0, 0.5])
        np.testing.assert_allclose(np.array(record.rotation(2.0))[0], [np.cos(0.4), 0, np.sin(0.4)])


def test_a_sole_without_edges_is_refused(written):
    with pytest.raises(ProblemError, match="needs half_sizes"):
        written("{name: sole, flat_contact: {frame: foot, friction: 0.6}}", start="{others: free}")


def test_equations_of_files(written):
    loaded = written('{name: gait, equation: {position: \'q["hip"] + 0.5*q["knee"] - 0.1*sin(t)\'}}', start="{others: free}")
    system = loaded.problem.phase.system
    record, model = system.robot.constraints[0], system.model
    q = np.arange(5.0)
    assert float(record.value(model, ca.DM(q), 0.3)) == pytest.approx(3 + 2 - 0.1 * np.sin(0.3))
    rolled = written('{name: roll, equation: {velocity: \'v["base_x"] - 0.3*v["hip"]\'}}', start="{others: free}")
    record = rolled.problem.phase.system.robot.constraints[0]
    np.testing.assert_allclose(np.array(ca.DM(record.jacobian(model, ca.DM(q)))).ravel(), [1, 0, 0, -0.3, 0])


@pytest.mark.parametrize(("text", "words"), [
    ("{contact: {frame: foott}}", "foott"), ("{contact: {frame: foot, friction: -1}}", "friction: must be positive"),
    ("{contact: {frame: foot, slides: true, friction: 1}}", "neither friction nor"),
    ("{rolling: {frame: foot, radius: 0}}", "radius"),
    ("{joint_motion: {joint: kne, path: 0}}", "kne"), ('{joint_motion: {joint: knee, path: \'q["hip"]\'}}', "q"),
    ("{frame_motion: {frame: foot}}", "neither position nor rotation"),
    ('{equation: {position: \'v["hip"]\'}}', "depends on velocities"),
    ('{equation: {velocity: \'v["hip"]**2\'}}', "not affine in v"),
    ("{equation: {}}", "needs exactly one of"), ("{contact: {frame: foot}, skate: {frame: foot, axis: [1, 0, 0]}}", "exactly one"),
    ("{contact: {frame: foot, fricton: 1}}", "fricton")])
def test_what_does_not_fit_is_refused_at_its_place(written, text, words):
    with pytest.raises(ProblemError, match="file.yaml:6") as caught:
        written(text, start="{others: free}")
    assert words in str(caught.value)


def test_a_start_is_assembled_on_the_ground_and_moves_with_the_guide(written):
    loaded = written("{name: foot, contact: {frame: foot, height: 0.1}}")
    phase = loaded.problem.phase
    x, model = np.array(phase.start.value), phase.system.model
    foot = np.array(ca.DM(alg.frame_pose(model, ca.DM(x[:5]), "foot").p)).ravel()
    assert foot[2] == pytest.approx(0.1, abs=1e-9)
    guided = written("{name: drive, joint_motion: {joint: base_x, path: 0.2 + 0.7*t}}", start=(
        "{joints: {base_z: 1, base_pitch: 0, hip: -0.4, knee: 0.8}, velocities: {base_z: 0, base_pitch: 0, hip: 0, knee: 0}, "
        "others: assembled}"))
    x = np.array(guided.problem.phase.start.value)
    assert (x[0], x[5]) == pytest.approx((0.2, 0.7))


def test_a_start_that_does_not_keep_a_moving_constraint_is_refused(written):
    with pytest.raises(ProblemError, match="velocities do not keep it"):
        written("{name: drive, joint_motion: {joint: base_x, path: 0.7*t}}",
                start="{joints: {base_x: 0, base_z: 1, base_pitch: 0, hip: -0.4, knee: 0.8}, rest: true, others: neutral}")


# ---- phases ---------------------------------------------------------------------------------------------------------------
def leap():
    return load_problem("problems/leg_leap.yaml").problem


def test_phases_name_their_contacts():
    stance, flight, landing = leap().phases
    assert [[c.name for c in phase.system.robot.constraints] for phase in (stance, flight, landing)] == [["foot"], [], ["foot"]]
    named = [[(c.name, c.at, c.sense) for c in phase.constraints if c.name != "equations"] for phase in (stance, flight, landing)]
    assert named[0] == [("foot friction", At.PATH, Sense.CONE)]
    assert named[1] == [("foot clear", At.PATH, Sense.BOX)]
    assert named[2] == [("foot friction", At.PATH, Sense.CONE), ("foot begins", At.START, Sense.EQUAL)]
    # the touch-down: momentum goes on but for the impulse at the foot, which stops there
    model, x = landing.system.model, np.array([0.3, 0.65, 0.1, -0.5, 0.7, 1.0, -1.4, 0.2, -0.5, 0.8])
    after = np.array(landing.reset(x, [])).ravel()
    np.testing.assert_array_equal(after[:5], x[:5])
    q = ca.DM(x[:5])
    J = np.array(ca.DM(alg.frame_jacobian(model, q, "foot", "world_aligned")))[[0, 2]]
    M = np.array(ca.DM(alg.mass_matrix(model, q)))
    np.testing.assert_allclose(J @ after[5:], 0, atol=1e-9)
    impulse = np.linalg.lstsq(J.T, M @ (after - x)[5:], rcond=None)[0]
    np.testing.assert_allclose(J.T @ impulse, M @ (after - x)[5:], atol=1e-9)
    assert impulse[1] > 1.0
    # height alone at the start of the landing: the impact sees to the velocity
    begins = next(c.function for c in landing.constraints if c.name == "foot begins")
    foot = np.array(ca.DM(alg.frame_pose(model, q, "foot").p)).ravel()
    np.testing.assert_allclose(np.array(begins(0, x, np.zeros(landing.system.nu), [])).ravel(), [foot[2]], atol=1e-12)


PHASES = """name: Leg
system:
  robot: hopper.urdf
  actuated: [hip, knee]
  constraints: [{name: foot, contact: {frame: foot}}, {name: heel, contact: {frame: shank, clearance: 0.1}}]
phases:
  - {name: air, contacts: [], duration: 1, costs: [], start: {others: neutral, joints: {base_z: 2, knee: 0.5}}}
  - {name: ground, contacts: [foot], duration: 1, costs: []%s}
"""


def test_without_an_impact_velocities_have_to_vanish_before_touch_down(written):
    problem = written("", PHASES % "").problem
    (begins,) = [c for c in problem.phases[1].constraints if c.at is At.START]
    assert begins.size == 3  # height, and two velocities of the plane
    assert [c.name for c in problem.phases[0].constraints if c.name != "equations"] == ["heel clear"]


TWO = PHASES.replace("{name: air, contacts: []", "{name: one, contacts: [foot]").replace(
    "{name: ground, contacts: [foot]", "{name: ground, contacts: [foot, heel]")
STANDS = "start: {joints: {hip: -0.4, knee: 0.5}, rest: true, others: assembled}"


def two(more):
    return (TWO % more).replace("start: {others: neutral, joints: {base_z: 2, knee: 0.5}}", STANDS)


def test_an_impact_of_some_contacts_leaves_the_others_without_an_impulse(written):
    """The momentum that goes lies in the span of forces of the contact that lands; the one that stood must not move then."""
    stand, both = written("", two(", reset: {impact: [heel]}")).problem.phases
    model, rng = both.system.model, np.random.default_rng(3)
    before = np.array(stand.start.value) + np.r_[np.zeros(5), rng.standard_normal(5)]
    after, q = np.array(both.reset(before, [])).ravel(), ca.DM(before[:5])
    M = np.array(ca.DM(alg.mass_matrix(model, q)))
    foot, heel = (np.array(ca.DM(alg.frame_jacobian(model, q, f, "world_aligned")))[[0, 2]] for f in ("foot", "shank"))
    taken = M @ (after - before)[5:]
    np.testing.assert_allclose(heel.T @ np.linalg.lstsq(heel.T, taken, rcond=None)[0], taken, atol=1e-10)
    np.testing.assert_allclose(heel @ after[5:], 0, atol=1e-10)
    begins = {c.name: c for c in both.constraints if c.at is At.START}
    assert {name: c.size for name, c in begins.items()} == {"foot begins": 2, "heel begins": 1}
    moved = np.array(begins["foot begins"].function(0, after, np.zeros(both.system.nu), [])).ravel()
    np.testing.assert_allclose(moved, foot @ after[5:], atol=1e-12)
    assert np.abs(moved).max() > 0.1
    everything = written("", two(", reset: {impact: true}")).problem.phases[1]
    np.testing.assert_allclose(foot @ np.array(everything.reset(before, [])).ravel()[5:], 0, atol=1e-10)
    with pytest.raises(ProblemError, match="no contact that is active in this phase named 'hel'"):
        written("", two(", reset: {impact: [hel]}"))


def test_a_phase_may_begin_where_stabilisation_takes_its_contacts(written):
    """No condition is left at its start, and its impact is the same."""
    stand, hard = written("", two(", reset: {impact: [heel]}")).problem.phases
    _, soft = written("", two(", reset: {impact: [heel], consistent: false}")).problem.phases
    assert [c for c in hard.constraints if c.at is At.START]
    assert not [c for c in soft.constraints if c.at is At.START]
    before = np.array(stand.start.value) + np.r_[np.zeros(5), np.random.default_rng(4).standard_normal(5)]
    np.testing.assert_array_equal(soft.reset(before, []), hard.reset(before, []))
    np.testing.assert_array_equal(soft.guess.x, np.tile(stand.guess.x[-1], (len(soft.guess.x), 1)))  # it stays where it was


def test_costs_at_the_end_may_be_of_the_state_after_an_impact(written):
    """Value and derivatives of what the velocities become by the range of forces of the heel, and by differences."""
    cost = "{name: calm, final_residual: ['v[\"hip\"]', 'q[\"knee\"]*v[\"knee\"]'], weights: [2, 3], impact: [heel]}"
    limit = "{name: knee, expression: 'v[\"knee\"]', upper: 1, at: final, impact: [heel]}"
    text = two("").replace("contacts: [foot, heel], duration: 1, costs: []",
                           f"contacts: [foot], duration: 1, costs: [{cost}], constraints: [{limit}]")
    phase = written("", text.replace("actuated", "formulation: forward_dynamics\n  actuated")).problem.phases[1]
    (cost,), (limit,) = phase.costs, [c for c in phase.constraints if c.name == "knee"]
    space, model, rng = phase.system.space, phase.system.model, np.random.default_rng(5)
    x, u, t = rng.standard_normal(10), np.zeros(phase.system.nu), 0.0
    J = np.array(ca.DM(alg.frame_jacobian(model, ca.DM(x[:5]), "shank", "world_aligned")))[[0, 2]]
    Minv = np.linalg.inv(np.array(ca.DM(alg.mass_matrix(model, ca.DM(x[:5])))))
    v = x[5:] - Minv @ J.T @ np.linalg.solve(J @ Minv @ J.T, J @ x[5:])
    hip, knee = (model.velocity_names.index(name) for name in ("hip", "knee"))
    np.testing.assert_allclose(np.array(cost.function(t, x, u, [])).ravel(), [v[hip], x[knee] * v[knee]], rtol=1e-9)
    assert float(limit.function(t, x, u, [])) == pytest.approx(v[knee], rel=1e-9)
    assert cost.jumps is not None

    def residual(d):
        return np.array(cost.function(t, x + d, u, [])).ravel()  # coordinates are flat

    by_x = np.array([(residual(1e-6 * e) - residual(-1e-6 * e)) / 2e-6 for e in np.eye(10)]).T
    X = ca.SX.sym("x", 10)
    local = ca.Function("local", [X],
                        quadratic(space, len(u), 0, (cost,), ca.SX.sym)(ca.SX(0), X, ca.SX.zeros(len(u)), ca.SX(0, 1)))
    gradient, H = (np.array(y)[:10] for y in local(x))
    np.testing.assert_allclose(gradient.ravel(), by_x.T @ (np.array([2, 3]) * residual(np.zeros(10))), atol=1e-6)
    np.testing.assert_allclose(H[:, :10], by_x.T @ np.diag([2, 3]) @ by_x, atol=1e-6)


def test_the_derivative_of_an_impact_between_phases_is_that_of_differences(written):
    _, both = written("", two(", reset: {impact: [heel], consistent: false}")).problem.phases
    x = np.random.default_rng(6).standard_normal(10)
    after, slope = (np.array(y) for y in both.reset_derivative()(x))
    np.testing.assert_allclose(after, both.reset(x, []), atol=1e-10)
    moved = [np.array(both.reset(x + s * 1e-6 * e, [])).ravel() for e in np.eye(10) for s in (1, -1)]
    np.testing.assert_allclose(slope.T, (np.array(moved[::2]) - moved[1::2]) / 2e-6, atol=1e-6)
    _, jointly = written("", two(", reset: {impact: [heel], consistent: false, joints: {knee: 0.5}}")).problem.phases
    assert jointly.reset_derivative is None


def test_impacts_of_costs_that_cannot_be_are_refused(written):
    def with_cost(cost):
        return written("", (PHASES % "").replace("costs: []}", f"costs: [{cost}]}}"))

    with pytest.raises(ProblemError, match="no contact in system.constraints named 'hel'"):
        with_cost("{name: a, final: 'v[\"hip\"]**2', impact: [hel]}")
    with pytest.raises(ProblemError, match="'impact' belongs to costs at the end"):
        with_cost("{name: a, running: 'v[\"hip\"]**2', impact: [heel]}")


@pytest.mark.parametrize(("more", "words"), [
    (", reset: {impact: true, velocities: {hip: 0}}", "an impact says what all velocities become"),
    (", reset: {impact: true, restitution: 2}", "between 0 and 1"), (", reset: {impacts: true}", "impacts")])
def test_impacts_that_cannot_be_are_refused(written, more, words):
    with pytest.raises(ProblemError) as caught:
        written("", PHASES % more)
    assert words in str(caught.value)


def test_contacts_that_a_phase_cannot_have_are_refused(written):
    with pytest.raises(ProblemError, match="file.yaml:8") as caught:
        written("", (PHASES % "").replace("contacts: [foot]", "contacts: [fot]"))
    assert "'foot'" in str(caught.value)
    with pytest.raises(ProblemError, match="nothing strikes"):
        written("", (PHASES % ", reset: {impact: true}").replace("contacts: []", "contacts: [foot]"))
    with pytest.raises(ProblemError, match="no contact named 'leg'"):
        with_contacts(leap().phases[0].system.robot, ["leg"])


def test_files_read_forces_of_constraints_by_name(written):
    head = HEAD.replace("  actuated", "  formulation: forward_dynamics\n  actuated")
    loaded = written("{name: foot, contact: {frame: foot}}", head.replace("costs: [", "constraints: [{name: push, expression: "
                     "'constraint_force(\"foot\")[2]', lower: 5}]\n  costs: ["))
    phase = loaded.problem.phase
    push = next(c for c in phase.constraints if c.name == "push").function
    x, u = np.array(phase.start.value), [3.0, -10.0]
    mechanism = phase.system.mechanism  # None in the residual form, whose forces are inputs
    force = mechanism.constraint_forces(ca.DM(x[:5]), ca.DM(x[5:]), ca.DM(u))["foot"]
    assert float(push(0, x, u, [])) == pytest.approx(float(force[2]), rel=1e-10)
    assert float(force[2]) > 20
    with pytest.raises(ProblemError, match="no constraint that is active in this phase named 'fot'"):
        written("{name: foot, contact: {frame: foot}}", HEAD.replace("costs: [", "constraints: [{name: push, expression: "
                "'constraint_force(\"fot\")[2]', lower: 5}]\n  costs: ["))


def test_robots_with_contacts_have_their_forces_among_the_unknowns(written):
    """auto: also in phases without any of them; other constraints, and what needs forward dynamics, leave it."""
    assert all(phase.system.implicit is not None for phase in leap().phases)
    assert [len(phase.system.algebraic) for phase in leap().phases] == [8, 5, 8]
    other = written("{name: drive, joint_motion: {joint: base_x, path: 0.2*sin(t)}}", start="{others: free}")
    assert other.problem.phase.system.mechanism is not None
    head = HEAD.replace("  actuated", "  formulation: forward_dynamics\n  actuated")
    loaded = written("{name: foot, contact: {frame: foot}}", head)
    assert loaded.problem.phase.system.mechanism is not None


def test_a_flight_that_says_nothing_goes_from_the_phase_before_to_the_next(written):
    """Its base falls on the way: the parabola through both ends."""
    head, ground = PHASES[:PHASES.index("  - {name: air")], "  - {name: %s, contacts: [foot], duration: 1, costs: [], %s}\n"
    text = head + ground % ("push", "start: {joints: {base_pitch: 0, hip: -0.3, knee: 0.5}, rest: true, others: assembled}") + \
        "  - {name: air, contacts: [], duration: 0.4, costs: []}\n" + ground % ("land", "final: {joints: {base_x: 0.3, knee: 0.7}}")
    push, flight, land = written("", text).problem.phases
    x, begin, end = flight.guess.x, push.guess.x[-1], land.guess.x[0]
    np.testing.assert_allclose(x[[0, -1], :5], [begin[:5], end[:5]], atol=1e-12)
    np.testing.assert_allclose(x[20, :5], (begin + end)[:5] / 2, atol=1e-12)  # the base is guided: no parabola
    np.testing.assert_allclose(x[20, 5:], (end - begin)[:5] / 0.4, atol=1e-9)
    free = tree_of("free_flyer", "revolute", seed=3)
    system, n = residual_dynamics_system(free), free.nq + free.nv
    ends = np.zeros((3, n))
    ends[:, 3:7] = [0.0, 0.0, 0.0, 1.0] if free.coordinate_names[6].endswith("w") else [1.0, 0.0, 0.0, 0.0]
    phases = [Phase(name, system, Duration(0.5, 0.5, 0.5), Guess(np.array([0.0]), row[None], np.zeros((1, system.nu))))
              for name, row in zip("abc", ends, strict=True)]
    x = bridged(phases, [False, True, False])[1].guess.x
    assert x[20, 2] == pytest.approx(9.81 * 0.25 / 8, rel=1e-9)
    np.testing.assert_allclose(x[[0, -1], 2], 0, atol=1e-12)


@pytest.mark.parametrize("scheme", ["lobatto", "radau", "gauss"])
def test_a_foot_in_contact_needs_no_clearance_at_the_same_instant(scheme):
    """The phases beside the flight hold its foot at the ground with equality: an inequality beside it leaves no interior."""
    problem = leap()
    clear = next(c for c in problem.phases[1].constraints if c.name == "foot clear")
    assert clear.met == (True, True)

    def rows(problem):
        options = CollocationOptions(intervals=4, scheme=scheme, kernels="interpreted")
        nlp = transcribe(method("collocation").reduce(problem, options), options).nlp
        return [name for name in nlp.constraints if "foot clear" in name]

    flight = replace(problem.phases[1], constraints=tuple(replace(c, met=(False, False)) for c in problem.phases[1].constraints))
    every, kept = rows(replace(problem, phases=(problem.phases[0], flight, problem.phases[2]))), rows(problem)
    assert set(kept) < set(every)
    assert len(kept) == len(every) - 2


# ---- what the ground allows -----------------------------------------------------------------------------------------------
def test_pyramids_lie_inside_cones():
    model = random_tree(3, np.random.default_rng(1), root="free_flyer", kinds=["revolute"])
    foot = PointContact("foot", "f2", ((0.0, 0.1, 0.2),), friction=0.7)
    mechanism = Mechanism(model, direct_motors(model), constraints=(foot, replace(foot, name="tip", frame="f1", friction=None)))
    cone, tip = contact_constraints(mechanism)
    assert (cone.sense, tip.name, tip.sense) == (Sense.CONE, "tip pushes", Sense.BOX)
    pyramid = contact_constraints(mechanism, cone="pyramid", bilateral=["tip"])
    assert [c.name for c in pyramid] == ["foot friction"]
    rng, inside = np.random.default_rng(0), 0
    for _ in range(200):
        x = np.r_[alg.random_configuration(model, rng), rng.standard_normal(model.nv)]
        u = 30 * rng.standard_normal(mechanism.nu)
        c, sides = (np.array(f.function(0, x, u, [])).ravel() for f in (cone, pyramid[0]))
        assert c[0] / np.sqrt(2) - np.abs(c[1:]).max() == pytest.approx(sides.min())
        if sides.min() >= 0:
            assert np.linalg.norm(c[1:]) <= c[0] + 1e-9
            inside += 1
    assert 0 < inside < 200
    with pytest.raises(ProblemError, match="no cone named 'piramid'"):
        contact_constraints(mechanism, cone="piramid")
    clear = clear_constraint(mechanism, foot, 0.2)
    gap = float(ca.DM(foot.gap(model, ca.DM(x[:model.nq]))))
    assert float(clear.function(0, x, u, [])) == pytest.approx(gap - 0.2)


def test_cones_of_a_heavier_robot_are_the_same_constraints_of_a_program():
    """Their squares are measured by the weight: a robot five times as heavy, under five times the force, has the same numbers."""
    rows = []
    for times in (1.0, 5.0):
        model = random_tree(4, np.random.default_rng(3), root="free_flyer")
        model = replace(model, bodies=tuple(replace(body, inertia=replace(body.inertia, mass=times * body.inertia.mass))
                                            for body in model.bodies))
        robot = Mechanism(model, direct_motors(model), constraints=(PointContact("foot", model.bodies[-1].name, friction=0.6),))
        system = residual_dynamics_system(robot)
        (cone,) = contact_constraints(robot, 0, system.nu - robot.nu)
        force = np.zeros(system.nu)
        force[-3:] = times * np.array([2.0, 3.0, 40.0])
        rows.append(hard_rows(cone, [0.0, ca.DM(system.nx, 1), ca.DM(force), ca.DM(0, 1)]).expression[0])
        np.testing.assert_allclose(rows[-1] * cone.unit**2, times**2 * ((0.6 * 40)**2 - 2.0**2 - 3.0**2))
    assert float(rows[0]) == pytest.approx(float(rows[1]), rel=1e-12)


def test_impacts_need_constraints_that_are_constant():
    model, t = random_tree(2, np.random.default_rng(0), kinds=["revolute"]), ca.SX.sym("t")
    mechanism = Mechanism(model, constraints=(JointMotion("m", "j0", ca.Function("p", [t], [ca.sin(t)])),))
    with pytest.raises(ProblemError, match="do not depend on time"):
        impact_map(mechanism, ca.SX.sym("x", 4))
    (start,) = start_constraints(mechanism)
    np.testing.assert_allclose(np.array(start.function(0, [0.3, 0, 1.2, 0], [], [])).ravel(), [0.3, 0.2])


# ---- derivatives for solvers ----------------------------------------------------------------------------------------------
def guided_system():
    """A branching tree on a floating base with a foot on the ground, a guided joint, a motor and a mechanism that does work."""
    t = ca.SX.sym("t")
    model = random_tree(4, np.random.default_rng(3), root="free_flyer", kinds=["revolute"], branching=0.5)
    return robot_system(Mechanism(model, direct_motors(model, ["j1", "j2"]), constraints=(
        PointContact("foot", "f2", ((0.0, 0.1, 0.2),)), JointMotion("m", "j3", ca.Function("p", [t], [ca.sin(2 * t)])))))


def all_derivatives(system, kind):
    t, x, u, lam = kind.sym("t"), kind.sym("x", system.nx), kind.sym("u", system.nu), kind.sym("lam", system.space.ndx)
    rate = system.rate(t, x, u, kind(0, 1))
    z = ca.vertcat(t, x, u)
    H, g = ca.hessian(ca.dot(lam, rate), z)
    return ca.Function("f", [t, x, u, lam], [rate, ca.jacobian(rate, z), g, H])


@pytest.mark.row("002:H21")
def test_closed_forms_of_constrained_mechanisms_reach_solvers():
    system = guided_system()
    rng = np.random.default_rng(2)
    x = np.r_[alg.random_configuration(system.model, rng), rng.standard_normal(system.model.nv)]
    point = 0.4, x, rng.standard_normal(system.nu), rng.standard_normal(system.space.ndx)
    assert choose(system, "analytic", "generated", exact=True)[:2] == ("analytic", False)
    assert choose(system, "auto", "auto", exact=True)[0] == "analytic"
    assert choose(system, "analytic", "loops", exact=True)[:2] == ("analytic", True)
    source, by_loops, told = choose(system, "analytic", "loops", exact=True, fixed=False)
    assert (source, by_loops) == ("analytic", False)
    reason = "instead of loops, because constraints of the robot depend on time, times are free"
    assert any(reason in note for note in sentences(told))
    analytic = all_derivatives(differentiated(system, "analytic"), ca.MX)
    expected = all_derivatives(system, ca.SX)(*point)
    # the quaternion of the base is of unit length, where both read it alike; along it they need not
    value, J, g, H = (np.array(y) for y in analytic(*point))
    N = np.array(ca.DM(ca.diagcat(1, system.space.rate(ca.DM(x)), ca.DM.eye(system.nu))))
    for ours, theirs in ((value, expected[0]), (J @ N, expected[1] @ N), (N.T @ g, N.T @ expected[2])):
        np.testing.assert_allclose(ours, np.array(theirs), atol=1e-9 * max(1, np.abs(ours).max()))
    flat = [i for i in range(H.shape[0]) if not 4 <= i <= 7]  # coordinates that are no quaternion's: no curvature of the sphere
    theirs = np.array(expected[3])
    np.testing.assert_allclose(H[np.ix_(flat, flat)], theirs[np.ix_(flat, flat)], atol=1e-8 * np.abs(theirs).max())
    called = [analytic.instruction_MX(k).which_function().name() for k in range(analytic.n_instructions())
              if analytic.instruction_id(k) == ca.OP_CALL]
    wanted = "constrained_dynamics"
    assert sorted(called) == sorted([wanted, f"adj1_{wanted}", f"jac_{wanted}", f"jac_adj1_{wanted}"])


def test_the_energy_balance_counts_the_work_of_guides():
    system = guided_system()
    rng = np.random.default_rng(4)
    model, h = system.model, 1e-6
    x = np.r_[alg.random_configuration(model, rng), rng.standard_normal(model.nv)]
    u = rng.standard_normal(system.nu)
    xi = np.array(system.rate(0.4, x, u, [])).ravel()
    plus = ca.Function("plus", [d := ca.SX.sym("d", system.space.ndx)], [system.space.plus(ca.DM(x), d)])
    energies = [float(system.energy(0, plus(s * h * xi), u, [])) for s in (1, -1)]
    assert float(system.power(0.4, x, u, [])) == pytest.approx((energies[0] - energies[1]) / (2 * h), rel=1e-6)


def test_loops_hold_contacts_and_skates():
    """Rows that repeat each other in a patch, velocities alone in a skate: loops accelerate as the expressions do."""
    from dynamics.loops import LoopDynamics

    model = random_tree(3, np.random.default_rng(5), root="free_flyer", kinds=["revolute"])
    mechanism = Mechanism(model, direct_motors(model), constraints=(
        PointContact("patch", "f0", ((0.1, 0.2, 0.0), (0.0, -0.1, 0.0), (0.2, 0.0, 0.0), (0.3, 0.3, 0.0))),
        Skate("blade", "f2", (0.0, 1.0, 0.0))))
    rng = np.random.default_rng(6)
    q, v, u = alg.random_configuration(model, rng), rng.standard_normal(model.nv), rng.standard_normal(mechanism.nu)
    a, forces = mechanism.constrained_dynamics(ca.DM(q), ca.DM(v), ca.DM(u))
    found, multipliers = LoopDynamics(mechanism).constrained_dynamics(q, v, np.array(mechanism.motor_effort(ca.DM(u))).ravel())
    np.testing.assert_allclose(found, np.array(ca.DM(a)).ravel(), atol=1e-7 * np.abs(found).max())
    assert (forces.shape[0], multipliers.shape[0]) == (13, 7)
    timed = replace(mechanism, constraints=(JointMotion("m", "j1", ca.Function("p", [t := ca.SX.sym("t")], [ca.sin(t)])),))
    expected = np.array(timed.forward_dynamics(ca.DM(q), ca.DM(v), ca.DM(u), 0.3)).ravel()
    found = LoopDynamics(timed).forward_dynamics(q, v, np.array(timed.motor_effort(ca.DM(u))).ravel(), t=0.3)
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(found).max())


@pytest.mark.parametrize("formulation", ["auto", "forward_dynamics", "residual", "inverse_dynamics"])
def test_a_guess_without_efforts_stands(formulation):
    """A quadruped on four feet: inputs of the guess hold it still, its weight in the feet, every force inside its cone."""
    feet = "".join(f"\n    - {{name: {leg}, contact: {{frame: {leg}_foot, friction: 0.6}}}}" for leg in ("lf", "rf", "lh", "rh"))
    joints = ", ".join(f"{leg}_thigh: 0.6, {leg}_knee: -1.2, {leg}_abduction: 0" for leg in ("lf", "rf", "lh", "rh"))
    loaded = load_text(f"""
name: Quadruped on four feet
system:
  robot: models/quadruped.urdf
  root: free_flyer
  formulation: {formulation}
  constraints: {feet}
phase:
  duration: 0.6
  start: {{base: {{rpy: [0, 0, 0]}}, joints: {{{joints}}}, rest: true, others: assembled}}
  final: {{rest: true}}
  costs: [{{name: effort, running: "dot(tau, tau)"}}]
""", "problems")
    phase = loaded.problem.phase
    system, x, u = phase.system, phase.guess.x[0], phase.guess.u[0]
    mechanism = system.robot
    assert np.max(np.abs(np.array(system.rate(0, x, u, [])))) < 1e-9
    if system.residual is not None:
        assert np.max(np.abs(np.array(system.residual(0, x, u, [])))) < 1e-9
    cones = [c for c in phase.constraints if c.sense is Sense.CONE]
    values = [np.array(c.function(0, x, u, [])).ravel() for c in cones]
    assert len(cones) == 4
    assert all(np.linalg.norm(value[1:]) < 0.9 * value[0] for value in values)
    weight = 9.81 * float(np.sum([body.inertia.mass for body in mechanism.model.bodies]))
    assert sum(value[0] for value in values) / 0.6 == pytest.approx(weight)
    for c in phase.constraints:
        if c.at is At.PATH and c.sense is Sense.EQUAL:
            assert np.max(np.abs(np.array(c.function(0, x, u, [])))) < 1e-9


# ---- gains, limits of forces, contacts that ask too much ------------------------------------------------------------------
GROUND = "start: {joints: {base_pitch: 0, hip: -0.4, knee: 0.8}, rest: true, others: assembled}"


def test_a_violation_decays_by_the_gains_of_its_contact(written):
    """g'' + d g' + k g = 0 along the motion, whose accelerations solve the residual form as well; the loops agree."""
    loaded = written("{name: foot, contact: {frame: foot, gains: [70, 3]}}", start="{others: free}")
    robot, (model, rng, h) = loaded.problem.phase.system.robot, (loaded.model, np.random.default_rng(2), 1e-4)
    assert robot.constraints[0].gains == (70.0, 3.0)
    q, v, tau = rng.standard_normal(5), rng.standard_normal(5), rng.standard_normal(2)
    a = np.array(robot.forward_dynamics(ca.DM(q), ca.DM(v), ca.DM(tau))).ravel()

    def height(s):  # the robot moves along q + s v + s^2 a / 2
        return np.array(ca.DM(alg.frame_pose(model, ca.DM(q + s * v + s * s * a / 2), "foot").p)).ravel()[2]

    g, rate, bend = height(0), (height(h) - height(-h)) / (2 * h), (height(h) - 2 * height(0) + height(-h)) / h**2
    assert bend + 3 * rate + 70 * g == pytest.approx(0, abs=2e-5)
    rows = np.array(equations_of_motion(robot)(0, np.r_[q, v], np.r_[a, np.zeros(3)], tau, [])).ravel()[5:]
    np.testing.assert_allclose(rows, 0, atol=1e-9)
    full = np.array(robot.selection) @ tau  # of every velocity
    np.testing.assert_allclose(LoopDynamics(robot).forward_dynamics(q, v, full), a, rtol=1e-9)


def test_normal_forces_keep_their_limits_and_pyramids_hold_the_cone(written):
    text = "{name: foot, contact: {frame: foot, friction: 0.5, min_force: 2, max_force: 90, cone: %s}}"
    by = {cone: {c.name: c for c in written(text % cone, start=GROUND[7:]).problem.phase.constraints}
          for cone in ("second_order", "pyramid", "outer_pyramid")}
    limit = by["pyramid"]["foot force"]
    assert (limit.lower, limit.upper) == ((2.0,), (90.0,))
    x, rng = np.zeros(10), np.random.default_rng(4)
    for _ in range(50):
        u = np.r_[np.zeros(7), 10 * rng.standard_normal(3)]
        exact, inner, outer = (np.array(by[cone]["foot friction"].function(0, x, u, [])).ravel() for cone in by)
        inside = exact[0] >= np.hypot(*exact[1:])
        assert bool((inner >= 0).all()) <= inside <= bool((outer >= -1e-12).all())
        assert float(limit.function(0, x, u, [])) == pytest.approx(u[-1])


@pytest.mark.parametrize(("text", "words"), [
    ("{name: foot, contact: {frame: foot, friction: 0}}", "friction: must be positive, got 0; what glides takes slides: true"),
    ("{name: foot, contact: {frame: foot, friction: -0.3}}", "friction: must be positive"),
    ("{name: foot, contact: {frame: foot, min_force: 5, max_force: 2}}", "least <= most"),
    ("{name: foot, contact: {frame: foot, gains: [1, -2]}}", "gains[1]: must not be negative"),
    ("{name: foot, contact: {frame: foot, height: 0.1}}", "breaks a constraint of the mechanism: 'foot' by 0.1"),
    ("{name: foot, flat_contact: {frame: foot}}", "needs half_sizes")])
def test_contacts_that_cannot_be_are_named(written, text, words):
    stands = "{joints: {base_x: 0, base_z: \"0.5*cos(0.4) + 0.5*cos(0.4)\", base_pitch: 0, hip: -0.4, knee: 0.8}, rest: true}"
    with pytest.raises(ProblemError) as caught:
        written(text, start=stands)
    assert words in str(caught.value)
