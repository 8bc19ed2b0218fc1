"""Gaits in problem files: what they expand to, beside files written by hand, and what is refused where it stands."""

import casadi as ca
import numpy as np
import pytest

from dynamics import algorithms as alg
from dynamics.errors import ModelError
from dynamics.model.robots import robot_paths
from ocp.app.files.load import load_text
from ocp.errors import ProblemError
from ocp.problem import At
from tests.support.repository import ROOT

try:
    EXTRA = robot_paths()
except ModelError:
    EXTRA = {}
installed = pytest.mark.skipif(not EXTRA, reason="the robots extra is not installed")

LEGS = "FL", "FR", "HL", "HR"
SOLO = """
name: Solo12 trots
system:
  robot: robots:solo12
  root: free_flyer
  constraints:""" + "".join(f"\n    - {{name: {leg}, contact: {{frame: {leg}_FOOT, friction: 0.7, clearance: 0}}}}" for leg in LEGS)
STANDS = '{configuration: straight_standing, base: {position: [0, 0, "0.32*cos(0.8)"], rpy: [0, 0, 0]}, rest: true}'
TROT = SOLO + f"""
gait: {{pattern: trot, advance: [0.1, 0]}}
phase:
  start: {STANDS}
  final: {{rest: true}}
  bounds: {{joints: {{FL_KFE: [-2.5, 0]}}}}
  costs: [{{name: effort, running: "dot(tau, tau)"}}, {{name: close, final: '(q["base.pz"] - 0.2)**2'}}]
"""


def stretch(name, contacts, duration, extra="", costs="", constraints=()):
    rows = "".join(f"\n      - {row}" for row in constraints)
    return f"""
  - name: {name}
    contacts: [{contacts}]
    duration: {duration}{extra}
    bounds: {{joints: {{FL_KFE: [-2.5, 0]}}}}
    costs: [{{name: effort, running: "dot(tau, tau)"}}{costs}]
""" + (f"    constraints:{rows}\n" if rows else "")


def up(leg):
    return f"{{name: {leg} swings, at: final, expression: 'position(\"{leg}_FOOT\")[2]', lower: 0.05}}"


BY_HAND = SOLO + "\nphases:" + "".join((
    stretch("stand", "FL, FR, HL, HR", 0.2, f"\n    start: {STANDS}"),
    stretch("swing FL HR", "FR, HL", 0.125, constraints=[up("FL"), up("HR")]), stretch("swing FL HR 2", "FR, HL", 0.125),
    stretch("stand 2", "FL, FR, HL, HR", 0.05),
    stretch("swing FR HL", "FL, HR", 0.125, constraints=[up("FR"), up("HL")]), stretch("swing FR HL 2", "FL, HR", 0.125),
    stretch("stand 3", "FL, FR, HL, HR", 0.2, "\n    final: {rest: true}", ", {name: close, final: '(q[\"base.pz\"] - 0.2)**2'}"),
)) + """
linkages:
  - name: advances
    expression: ['final["stand 3.q.root_joint.px"] - start["stand.q.root_joint.px"]',
                 'final["stand 3.q.root_joint.py"] - start["stand.q.root_joint.py"]']
    equal: [0.1, 0]
"""


def said(problem):
    """Everything that a problem says, apart from its guess."""
    rng = np.random.default_rng(0)
    found = []
    for phase in problem.phases:
        at = [0.3, rng.standard_normal(phase.system.nx), rng.standard_normal(phase.system.nu), []]
        found.append((phase.name, phase.duration, phase.start, phase.final, phase.state_bounds, phase.control_bounds, phase.reset,
                      tuple(c.name for c in phase.system.robot.constraints)))
        found += [(c.name, c.at, np.array(c.function(*at)).tolist()) for c in phase.costs]
        found += [(c.name, c.at, c.lower, c.upper, c.sense, c.met, np.array(c.function(*at)).tolist()) for c in phase.constraints]
    return found, [(one.name, one.ends, one.lower, one.upper) for one in problem.linkages]


@pytest.mark.slow
@installed
def test_a_trot_is_what_one_would_write_by_hand():
    loaded = load_text(TROT)
    assert said(loaded.problem) == said(load_text(BY_HAND).problem)
    feet_stand_and_swing(loaded.problem)


def feet_stand_and_swing(problem):
    """The guess: feet stay where they stand and never sink; those that swing are half a hand high in the middle."""
    model = problem.phases[0].system.model
    x, q = problem.phases[0].guess.x[0], ca.SX.sym("q", model.nq)
    place = {leg: ca.Function("p", [q], [alg.frame_pose(model, q, f"{leg}_FOOT").p]) for leg in LEGS}
    for phase in problem.phases:
        first, last = phase.guess.x[0, :model.nq], phase.guess.x[-1, :model.nq]
        np.testing.assert_allclose(first, x[:model.nq], atol=1e-6)
        x = phase.guess.x[-1]
        stands = {c.name for c in phase.system.robot.constraints}
        rises = {c.name.split()[0] for c in phase.constraints if c.name.endswith("swings")}
        for leg in LEGS:
            begin, end = (np.array(place[leg](at)).ravel() for at in (first, last))
            if leg in stands:
                np.testing.assert_allclose([begin[2], *(end - begin)], 0, atol=5e-6)
            assert end[2] == pytest.approx(0.05 if leg in rises else 0.0, abs=5e-6)
    assert x[0] == pytest.approx(0.1, abs=1e-5)


# ---- the quadruped and the humanoid of the gallery ----------------------------------------------------------------------
FEET = "lf", "rf", "lh", "rh"
QUADRUPED = """
name: Quadruped
system:
  robot: quadruped.urdf
  root: free_flyer
  constraints:""" + "".join(
    f"\n    - {{name: {leg}, contact: {{frame: {leg}_foot, friction: 0.6, clearance: 0}}}}" for leg in FEET) + """
gait: GAIT
phase:
  start:
    base: {position: [0, 0, "2*0.22*cos(0.6)"], rpy: [0, 0, 0]}
    joints: {lf_thigh: 0.6, rf_thigh: 0.6, lh_thigh: 0.6, rh_thigh: 0.6, lf_knee: -1.2, rf_knee: -1.2, lh_knee: -1.2, rh_knee: -1.2,
             lf_abduction: 0, rf_abduction: 0, lh_abduction: 0, rh_abduction: 0}
    rest: true
  costs: [{name: effort, running: "dot(tau, tau)"}]
"""


def quadruped(gait, more=()):
    text = QUADRUPED.replace("GAIT", gait)
    for old, new in more:
        assert old in text
        text = text.replace(old, new)
    return load_text(text, ROOT / "problems" / "models")


def names(problem):
    return [phase.name for phase in problem.phases]


def test_a_word_is_a_gait():
    loaded = quadruped("jump")
    problem = loaded.problem
    for text in (loaded.written_out, loaded.expanded()):  # as plain files
        again = load_text(text, ROOT / "problems" / "models").problem
        assert said(again) == said(problem)
        for one, other in zip(again.phases, problem.phases, strict=True):
            np.testing.assert_array_equal(one.guess.x, other.guess.x)
    assert names(problem) == ["stand", "flight", "stand 2"]
    assert [phase.duration.guess for phase in problem.phases] == [0.4, 0.25, 0.4]
    assert [len(phase.system.robot.constraints) for phase in problem.phases] == [4, 0, 4]
    # the guess of a flight is the parabola through both ends: it rises by g T^2 / 8
    x = problem.phases[1].guess.x
    assert x[len(x) // 2, 2] - x[0, 2] == pytest.approx(9.81 * 0.25**2 / 8, rel=1e-6)


@pytest.mark.slow
def test_times_of_a_table_steps_of_the_ground_and_free_durations():
    """One foot steps on a box, another into a region; contacts at other heights, landings, and shares of times."""
    gait = ("{swings: {lf: [[0.2, 0.5], [0.8, 1.0]], rh: [[0.2, 0.4]]}, duration: 1.2, height: 0.04, shares: [0.5, 2], "
            "touchdown: impact, landings: {lf: [{height: 0.05, place: [0.3, 0.12]}, {height: 0}], rh: [{region: [[-0.3, -0.1], "
            "[-0.2, null]]}]}}")
    problem = quadruped(gait).problem
    on = [[c.name for c in phase.system.robot.constraints] for phase in problem.phases]
    assert on == [["lf", "rf", "lh", "rh"], ["rf", "lh"], ["rf", "lh"], ["rf", "lh"], ["rf", "lh", "rh"],
                  ["rf", "lh", "rh", "lf at 0.05 m"], ["rf", "lh", "rh"], ["rf", "lh", "rh"], ["lf", "rf", "lh", "rh"]]
    assert [phase.duration.guess for phase in problem.phases] == pytest.approx([0.2, 0.1, 0.05, 0.05, 0.1, 0.3, 0.1, 0.1, 0.2])
    assert problem.phases[0].duration.lower == pytest.approx(0.1)
    assert problem.phases[0].duration.upper == pytest.approx(0.4)
    box = problem.phases[5].system.robot.constraints[3]
    assert (box.height, box.frame) == (0.05, "lf_foot")
    rows = {(i, c.name): c for i, phase in enumerate(problem.phases) for c in phase.constraints}
    assert rows[2, "lf swings"].lower == pytest.approx((0.09,))
    assert rows[1, "rh swings"].lower == pytest.approx((0.04,), abs=1e-9)
    assert rows[6, "lf swings"].lower == pytest.approx((0.09,))
    assert (rows[4, "lf lands"].lower, rows[4, "lf lands"].at) == ((0.3, 0.12), At.FINAL)
    assert (rows[3, "rh lands"].lower, rows[3, "rh lands"].upper) == ((-0.3, -0.2), (-0.1, np.inf))
    # a foot that strikes takes momentum; the others stand
    assert [phase.reset is not None for phase in problem.phases] == [False, False, False, False, True, True, False, False, True]
    assert "rf begins" in {name for i, name in rows if i == 4}
    guess, model = problem.phases[5].guess.x[0], problem.phases[5].system.model
    foot = np.array(ca.DM(alg.frame_pose(model, ca.DM(guess[:model.nq]), "lf_foot").p)).ravel()
    np.testing.assert_allclose(foot, [0.3, 0.12, 0.05], atol=1e-5)


@pytest.mark.slow
def test_a_periodic_gait_ends_as_it_began():
    problem = quadruped("{pattern: pace, periodic: true, height: 0}").problem
    assert names(problem) == ["stand", "swing lf lh", "stand 2", "swing rf rh", "stand 3"]
    (link,) = problem.linkages
    model = problem.phases[0].system.model
    assert len(link.lower) == model.nq - 3 + model.nv  # but for x, y and the scalar part of the quaternion
    x = np.array(problem.phases[0].guess.x[0])
    moved = x + np.r_[0.3, -0.2, np.zeros(len(x) - 2)]
    turned = moved + np.r_[np.zeros(model.nq), 0.1, np.zeros(model.nv - 1)]
    values = [np.array(link.function(*(x if at is At.START else end for _, at in link.ends), np.ones(5), [])).ravel()
              for end in (moved, turned)]
    np.testing.assert_allclose(values[0], 0, atol=1e-12)
    assert np.abs(values[1]).max() == pytest.approx(0.1)


@pytest.mark.slow
def test_a_biped_steps_on_flat_feet():
    feet = "".join(f"\n    - {{name: {side}, flat_contact: {{frame: {side}_sole, half_sizes: [0.1, 0.045], friction: 0.7}}}}"
                   for side in "lr")
    joints = ", ".join(f"{side}_{joint}: {value}" for side in "lr"
                       for joint, value in (("hip_pitch", -0.4), ("knee", 0.8), ("ankle_pitch", -0.4)))
    text = f"""
name: Humanoid
system:
  robot: humanoid.urdf
  root: free_flyer
  constraints:{feet}
gait: {{pattern: walk, advance: [0.2, 0]}}
phase:
  start: {{base: {{rpy: [0, 0, 0]}}, joints: {{{joints}}}, rest: true, others: assembled}}
  costs: []
"""
    problem = load_text(text, ROOT / "problems" / "models").problem
    assert names(problem) == ["stand", "swing l", "swing l 2", "stand 2", "swing r", "swing r 2", "stand 3"]
    model, x = problem.phases[0].system.model, problem.phases[-1].guess.x[-1]
    start = problem.phases[0].guess.x[0]
    for side in "lr":  # soles stay flat, and each is where its step took it
        pose, origin = (alg.frame_pose(model, ca.DM(at[:model.nq]), f"{side}_sole") for at in (x, start))
        np.testing.assert_allclose(np.array(ca.DM(pose.R)), np.array(ca.DM(origin.R)), atol=1e-5)
        np.testing.assert_allclose(np.array(ca.DM(pose.p - origin.p)).ravel(), [0.2, 0, 0], atol=1e-5)


# ---- in a receding horizon ----------------------------------------------------------------------------------------------
def receding(gait, more=()):
    text = QUADRUPED.replace("GAIT", gait).replace(", clearance: 0", "") + "mpc: {horizon: 0.4}\n"
    for old, new in more:
        assert old in text
        text = text.replace(old, new)
    return load_text(text, ROOT / "problems" / "models")


def test_a_gait_repeats_in_a_receding_horizon():
    """Feet of a trot follow lift cos^2 of the time from the middle of their swings, whichever cycle it is."""
    loaded = receding("{pattern: trot, swing: 0.2, stance: 0.1, end: 0.3, height: 0.04, weight: 300}")
    first, *rest = loaded.problem.phases
    assert names(loaded.problem) == ["stand", "swing lf rh", "stand 2", "swing rf lh", "stand 3"]
    table, model = loaded.mpc.problem.table, loaded.model
    assert table.ends == pytest.approx([0.3, 0.5, 0.6, 0.8, 0.9])
    assert table.again == 1
    assert not any(phase.reset for phase in loaded.problem.phases)
    assert not any(c.at is not At.PATH for phase in rest for c in phase.constraints)
    x = np.array(first.start.value)
    ground = float(alg.frame_pose(model, ca.DM(x[:model.nq]), "lf_foot").p[2])
    x += np.r_[0.02, -0.01, 0.03, np.zeros(4), 0.1 * np.sin(np.arange(30.0))]
    for phase, feet, middle in zip(rest[::2], (("lf", "rh"), ("rf", "lh")), (0.4, 0.7), strict=True):
        assert [c.name for c in phase.system.robot.constraints] == [leg for leg in FEET if leg not in feet]
        (swing,) = (cost for cost in phase.costs if cost.name == "swing")
        assert swing.weights == (300.0, 300.0)
        z = np.array([float(alg.frame_pose(model, ca.DM(x[:model.nq]), f"{foot}_foot").p[2]) for foot in feet])
        for cycle in (0, 1, 7):
            for ahead in (-0.1, -0.03, 0.0, 0.08):
                value = np.array(swing.function(middle + 0.6 * cycle + ahead, x, np.zeros(phase.system.nu), [])).ravel()
                assert value == pytest.approx(z - ground - 0.04 * np.cos(np.pi * ahead / 0.2) ** 2, abs=1e-9)


def test_a_table_of_swings_repeats_as_a_whole():
    loaded = receding("{swings: {lf: [[0.2, 0.3]], rh: [[0.2, 0.3]]}, duration: 0.3}")
    assert names(loaded.problem) == ["stand", "swing lf rh"]
    assert loaded.mpc.problem.table.again == 0
    assert "repeat: stand" in loaded.written_out


@pytest.mark.parametrize(("gait", "more", "words"), [
    ("{pattern: trot, advance: [0.1, 0]}", (), "gait.advance: with a section 'mpc' the gait repeats"),
    ("{pattern: trot, touchdown: impact}", (), "gait.touchdown: with a section 'mpc'"),
    ("trot", [("  costs: [", "  final: {rest: true}\n  costs: [")], "phase.final: with a section 'mpc' the gait repeats")])
def test_what_a_receding_gait_cannot_keep_is_refused(gait, more, words):
    with pytest.raises(ProblemError) as caught:
        receding(gait, more)
    assert words in str(caught.value)
    assert "ocp init ROBOT --gait trot --mpc" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


# ---- what is refused ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("gait", "more", "words"), [
    ("gallop", (), "problem.yaml:11:7: gait: expected one of stand, step, walk, trot, pace, bound, jump"),
    ("{pattern: trot, swings: {lf: [[0, 1]]}}", (), "problem.yaml:11:7: gait: needs a pattern, or 'swings'"),
    ("{swings: {lf: [[0.1, 0.5]]}}", (), "'duration' goes with 'swings'"),
    ("{swings: {lf: [[0.1, 0.5]]}, duration: 1, cycles: 2}", (), "'cycles' is of patterns"),
    ("{swings: {fl: [[0.1, 0.5]]}, duration: 1}", (), "no contact in system.constraints named 'fl'; did you mean"),
    ("{swings: {lf: [[0, 1]]}, duration: 1}", (), "problem.yaml:11:7: gait: the foot 'lf' never stands"),
    ("{pattern: trot, feet: {LF: rightfront}}", (), "problem.yaml:11:30: gait.feet.LF: no contact in system.constraints named"),
    ("{pattern: trot, landings: {lf: [{place: [9, 0]}]}}", (), "the foot 'lf' does not reach [4.59, 0.07, 0.05] m at 0.325 s"),
    ("{pattern: trot, landings: {lf: [{}, {}]}}", (), "gait.landings.lf: 2 landings, but the foot 'lf' swings 1 times"),
    ("trot", (("running: \"dot(tau, tau)\"", "running: \"dot(tau, taus)\""),), "phase.costs[0].running: unknown name 'taus'"),
    ("trot", (("  costs: [", "  duration: 2\n  costs: ["),), "the gait says the duration")])
def test_impossible_values_are_reported_once_at_their_key(gait, more, words):
    with pytest.raises(ProblemError) as caught:
        quadruped(gait, more)
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
