"""Files with free durations, free parameters, several phases, windows of time, and quantities of frames as costs."""

import json

import numpy as np
import pytest
from repository import ROOT

import dynamics
from dynamics import algorithms as alg
from ocp.app.files.load import load_problem, load_text
from ocp.app.files.problem.schema import SymbolicPhases, problem_json_schema
from ocp.app.files.robot.schema import RobotPhases
from ocp.errors import ProblemError
from ocp.methods import solve
from ocp.problem import At, Kind, with_parameters

FOLDER = ROOT / "problems"

HOP = """\
name: Ball
constants: {g: 9.81}
parameters: {e: {value: 0.8, optimise: [0.5, 0.9]}, w: 2.0}
system:
  states: {y: m, v: m/s}
  controls: {f: N}
  dynamics: {y: v, v: f - g}
phases:
  - name: fall
    duration: {lower: 0.1, upper: 2, guess: 0.4}
    start: {y: 1, v: 0}
    final: {y: 0}
    costs: [{name: effort, control_error: 0, weights: 2}]
  - name: rise
    duration: 0.4
    reset: {v: -e*v}
    final: {v: 0}
    costs: [{name: effort, running: w*f**2, between: [0.1, 0.3]}, {name: top, at: final, state_error: {y: 1}}]
"""


def price(cost, t, x, u, p=()):
    return float(cost.expression(t, x, u, list(p)))


# ---- phases ---------------------------------------------------------------------------------------------------------------
def test_phases_are_joined_by_resets():
    loaded = load_text(HOP)
    fall, rise = loaded.problem.phases
    assert isinstance(loaded.file, SymbolicPhases)
    assert (fall.name, rise.name, fall.reset) == ("fall", "rise", None)
    np.testing.assert_allclose(np.array(rise.reset([0.0, -3.0], [0.5, 2])).ravel(), [0, 1.5])
    assert fall.duration.free
    assert not rise.duration.free
    assert rise.start is None
    assert fall.final.fixed == (True, False)
    for phase in (fall, rise):
        assert phase.system.parameters == ("e", "w")
        assert phase.free_parameters == ((0, 0.5, 0.9),)
    again = load_text(loaded.expanded())
    assert again.file.phases == loaded.file.phases


def test_other_systems_may_follow_each_other():
    system = ('    system:\n      states: {v: m/s, y: m, n: ""}\n      controls: {f: N}\n'
              "      dynamics: {v: f, y: v, n: 0}\n")
    text = HOP.replace("    duration: 0.4\n", "    duration: 0.4\n" + system).replace("{v: -e*v}", "{v: -e*v, n: y + 7}")
    rise = load_text(text).problem.phases[1]
    np.testing.assert_allclose(np.array(rise.reset([0.25, -3.0], [0.5, 2])).ravel(), [1.5, 0.25, 7.25])
    with pytest.raises(ProblemError, match="the phase before has no 'n'; give a value under 'reset'"):
        load_text(text.replace(", n: y + 7", ""))


def test_phases_without_a_reset_are_continuous():
    text = HOP.replace("    reset: {v: -e*v}\n", "").replace("control_error: 0, weights: 2", "running: e*f**2")
    assert load_text(text).problem.phases[1].reset is None


def test_phases_by_collocation_and_by_shooting():
    problem = load_text(HOP).problem
    found = [solve(problem, name) for name in ("collocation", "multiple_shooting")]
    assert [(s.status.name, len(s.parts)) for s in found] == [("CONVERGED", 2)] * 2
    assert found[1].objective == pytest.approx(found[0].objective, rel=2e-3)


def test_robots_in_phases_keep_their_state_by_name():
    text = """
name: Kick
system: {robot: models/acrobot.urdf, limits: {position: false, velocity: false}}
phases:
  - {name: before, duration: 1, start: {joints: {shoulder: 0.1}, others: neutral}, costs: []}
  - name: after
    duration: 1
    system: {robot: models/acrobot.urdf, actuated: [elbow], limits: {position: false, velocity: false}}
    reset: {velocities: {elbow: 'v["elbow"] - 2*v["shoulder"]'}}
    final: {rest: true}
    costs: [{name: e, running: elbow**2}]
"""
    loaded = load_text(text, FOLDER)
    before, after = loaded.problem.phases
    assert isinstance(loaded.file, RobotPhases)
    assert (before.system.nu, after.system.nu) == (2, 1)
    np.testing.assert_allclose(np.array(after.reset([1, 2, 3, 4], [])).ravel(), [1, 2, 3, -2])


@pytest.mark.parametrize(("old", "new", "words"), [
    ("reset: {v: -e*v}", "reset: {w: 1}", "no state named 'w'"),
    ("reset: {v: -e*v}", "reset: {v: t}", "depends on time or on controls"),
    ("    start: {y: 1, v: 0}\n", "    reset: {y: 1}\n", "nothing comes before the first phase"),
    ("name: rise", "name: fall", "the name 'fall' is already used by phases[0]"),
    ("e: {value: 0.8", "e: {value: 0.4", "the guess of 'e' is 0.4, outside its bounds [0.5, 0.9]"),
    ("w: 2.0}", "w: {value: 1, optimise: [0, 3]}, z: {value: 1, optimise: [0, 2]}}", "nothing depends on 'z'"),
    ("constants: {g: 9.81}", "constants: {g: 9.81, h: 2*e}", "unknown name 'e'"),
    ("start: {y: 1, v: 0}", "start: {y: w, v: 0}", "'w' cannot be used here: it is a parameter"),
    ("w: 2.0}", "g: 2.0}", "the name 'g' is already used by constants.g"),
    ("between: [0.1, 0.3]", "between: [0.3, 0.1]", "lower (0.3) is above upper (0.1)"),
    ("state_error: {y: 1}", "state_error: {y: 1}, between: [0, 1]", "'between' belongs to running costs"),
    ("  - name: rise\n", "  - name: rise\n    phase: 1\n", "unknown key"),
])
def test_mistakes_are_named(old, new, words):
    assert old in HOP
    with pytest.raises(ProblemError) as caught:
        load_text(HOP.replace(old, new))
    assert words in str(caught.value)


def test_the_json_schema_knows_phases_and_parameters():
    schema = json.dumps(problem_json_schema())
    for word in ("SymbolicPhases", "RobotPhases", "optimise", "formulation", "state_error", "LinearSystem"):
        assert f'"{word}"' in schema


# ---- time in costs --------------------------------------------------------------------------------------------------------
def test_windows_and_interpolation_are_functions_of_absolute_time():
    text = """
name: T
constants: {peak: 3}
system: {states: {x: m}, controls: {u: N}, dynamics: {x: u}}
phase:
  duration: 2
  start: {x: 0}
  costs:
    - {name: wave, running: "interpolate(t, [0, 1, 1.5], [1, peak, -x])"}
    - {name: window, state_error: {x: 1}, weights: 4, between: [1.6, 1.7]}
"""
    wave, window = load_text(text).problem.phase.costs
    for t, expected in ((-1, 1), (0, 1), (0.25, 1.5), (1, 3), (1.25, 2.5), (1.5, 2), (9, 2)):
        assert price(wave, t, [-2.0], [0]) == pytest.approx(expected)
    for t, expected in ((1.59, 0), (1.6, 18), (1.65, 18), (1.7, 18), (1.71, 0)):
        assert price(window, t, [-2.0], [0]) == pytest.approx(expected)
    for old, new, words in (("[0, 1, 1.5]", "[0, 1]", "as many points as values"),
                            ("[0, 1, 1.5]", "[0, 1, 1]", "points must increase"),
                            ("[0, 1, 1.5]", "[0, x, 2]", "points must be numbers"),
                            ("interpolate(t, ", "interpolate(", "takes 3 arguments")):
        with pytest.raises(ProblemError) as caught:
            load_text(text.replace(old, new))
        assert words in str(caught.value)


# ---- robot errors as costs ------------------------------------------------------------------------------------------------
def test_errors_of_states_are_tangent_differences():
    """A floating base a small rotation away from the reference costs the square of that rotation vector."""
    text = """
name: Q
system: {robot: models/quadrotor.urdf, root: free_flyer, thrusters: [{name: f, frame: rotor_front}]}
phase:
  duration: 1
  start: {others: free}
  costs:
    - name: all
      state_error: {base: {position: [1, 2, 3], rpy: [0.1, 0.2, 0.3], linear_velocity: [0, 0, 1], angular_velocity: [0, 0, 0]}}
      weights: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    - {name: attitude, at: final, state_error: {base: {rpy: [0.1, 0.2, 0.3]}}, weights: [1, 10, 100]}
    - {name: hover, control_error: 2, weights: 6}
"""
    phase = load_text(text, FOLDER).problem.phase
    model, space = phase.system.model, phase.system.space
    everything, attitude, hover = phase.costs
    reference = load_text(text.replace("start: {others: free}", "start: {base: {position: [1, 2, 3], rpy: [0.1, 0.2, 0.3], "
                          "linear_velocity: [0, 0, 1], angular_velocity: [0, 0, 0]}}"), FOLDER).problem.phase.start.value
    q, v = np.array(reference[:7]), np.array(reference[7:])
    d = np.array([0.5, -0.4, 0.3, 0.2, -0.5, 0.6, 1, 2, 3, 4, 5, 6])
    moved = np.array(dynamics.make(model, "integrate")(q, d[:6])).ravel()
    x = np.r_[moved, v + d[6:]]
    assert price(everything, 0, x, [0]) == pytest.approx(0.5 * np.arange(1, 13) @ d**2)
    assert attitude.at is At.FINAL
    assert price(attitude, 0, x, [0]) == pytest.approx(0.5 * np.array([1, 10, 100]) @ d[3:6]**2)
    assert price(hover, 0, x, [5.0]) == pytest.approx(0.5 * 6 * 9)
    assert space.ndx == 12


def test_errors_of_frames_measure_the_way_to_their_target():
    loaded = load_problem(FOLDER / "kinova_reach.yaml")
    hand, _, _, goal = loaded.problem.phase.costs
    model = loaded.model
    q = alg.random_configuration(model, np.random.default_rng(1))
    R, p = (np.array(m) for m in dynamics.make_frame(model, "pose", "j2s6s200_end_effector")(q))
    # the angle of the rotation from its trace, the translation turned by half of it and back: the norm of the logarithm
    angle = np.arccos((np.trace(R) - 1) / 2)
    residual = np.asarray(hand.function(0, np.r_[q, np.zeros(6)], np.zeros(6), [])).ravel()
    assert np.linalg.norm(residual[3:]) == pytest.approx(angle)
    axis = residual[3:] / angle
    K = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    V = np.eye(3) + (1 - np.cos(angle)) / angle * K + (1 - np.sin(angle) / angle) * K @ K
    np.testing.assert_allclose(V @ residual[:3], p.ravel() - [0.6, 0.2, 0.5], atol=1e-9)
    assert goal.weights == (1000,) * 6
    assert goal.at is At.FINAL


# ---- free parameters ------------------------------------------------------------------------------------------------------
def test_collocation_chooses_parameters():
    loaded = load_problem(FOLDER / "gear_ratio.yaml")
    found = solve(loaded.problem, "collocation", loaded.options_for("collocation"))
    assert found.ok, found.certificate.failures
    assert found.extra["parameters"] == pytest.approx([10.0], abs=1e-5)
    assert found.problem.phase.system.parameter_values == pytest.approx([10.0], abs=1e-5)
    assert [(one.name, one.value) for one in found.findings if one.kind is Kind.PARAMETER_CHOSEN] == [
        ("ratio", pytest.approx(10.0, abs=1e-5))]
    # at a fixed ratio the optimum is 12 (m + J n^2)^2 / n^2, and the curve over n is lowest where the solver went
    for n in (4.0, 9.0, 11.0):
        fixed = load_problem(FOLDER / "gear_ratio.yaml", {"parameters.ratio": str(n)})
        other = solve(fixed.problem, "collocation", fixed.options_for("collocation"))
        assert other.objective == pytest.approx(12 * (1 + 0.01 * n**2) ** 2 / n**2, rel=1e-7)
        assert other.objective > found.objective
        assert "parameters" not in other.extra
    bound = load_problem(FOLDER / "gear_ratio.yaml", {"parameters.ratio.optimise": "[1, 8]"})
    assert solve(bound.problem, "collocation", {"intervals": 20}).extra["parameters"] == pytest.approx([8.0], abs=1e-6)


def test_parameters_of_robots_serve_costs_beside_a_free_duration():
    """The shoulder stops where the solver likes best: the goal and the duration are chosen together."""
    text = """
name: P
parameters: {ratio: 2, goal: {value: 1, optimise: [0, 3]}}
system: {robot: models/pendulum.urdf, gravity: [0, 0, 0], limits: {position: false, velocity: false, effort: false}}
phase:
  duration: {lower: 0.5, upper: 3, guess: 1}
  start: {joints: {JOINT: 0}, rest: true}
  final: {rest: true}
  costs:
    - {name: effort, running: JOINT**2}
    - {name: wish, final: 'ratio*(goal - 2)**2 + t'}
  constraints: [{name: there, at: final, expression: 'q["JOINT"] - goal', equal: 0}]
"""
    from dynamics.model.urdf import read_urdf
    pendulum = read_urdf(FOLDER / "models" / "pendulum.urdf")
    loaded = load_text(text.replace("JOINT", pendulum.velocity_names[0]), FOLDER)
    found = solve(loaded.problem, "collocation", {"intervals": 20, "derivatives": "ad"})
    assert found.ok, found.certificate.failures
    goal = found.extra["parameters"][0]
    assert found.trajectory.x[-1, 0] == pytest.approx(goal, abs=1e-7)
    moved = with_parameters(loaded.problem, {"goal": goal + 0.05}).phase.system.parameter_values
    assert moved == (2, pytest.approx(goal + 0.05))
    for other in (goal - 0.05, goal + 0.05):
        words = text.replace("JOINT", pendulum.velocity_names[0]).replace("{value: 1, optimise: [0, 3]}", str(other))
        fixed = solve(load_text(words, FOLDER).problem, "collocation", {"intervals": 20, "derivatives": "ad"})
        assert fixed.objective > found.objective + 1e-6


VANISHING = """
name: two engines
system: {states: {x: m}, controls: {u: m/s}, dynamics: {x: u}}
phases:
  - {name: one, duration: {lower: 0, upper: 5}, start: {x: 0}, costs: [{name: effort, running: ONE}]}
  - {name: two, duration: {lower: 0, upper: 5}, final: {x: 1}, costs: [{name: effort, running: u**2 + 1}]}
"""


def test_durations_may_be_bounded_by_zero():
    """A distance d at the price ``u^2 + c`` costs 2 d sqrt(c) at its best duration d / sqrt(c): the dearer phase vanishes, at least
    cost 2; where both cost the same there is nothing between them, and neither need vanish."""
    found = solve(load_text(VANISHING.replace("ONE", "u**2 + 4")).problem)
    assert found.ok, found.certificate.failures
    assert found.objective > 2.0
    assert abs(found.objective - 2.0) <= found.certificate.error_bound < 1e-4
    (told,) = [one for one in found.findings if one.kind is Kind.PHASE_VANISHES]
    assert told.phase == "one"
    assert told.value == pytest.approx(2.5e-6, rel=0.1)
    both = solve(load_text(VANISHING.replace("ONE", "2*u**2 + 0.25")).problem)  # 2 d sqrt(2 * 0.25)
    assert abs(both.objective - np.sqrt(2)) <= max(both.certificate.error_bound, 1e-8)
    assert [one.phase for one in both.findings if one.kind is Kind.PHASE_VANISHES] == ["two"]


@pytest.mark.parametrize("duration", ["{lower: -1, upper: 2}", "{lower: 0, upper: 0}", "0"])
def test_durations_that_cannot_be_positive_are_refused(duration):
    with pytest.raises(ProblemError, match="a duration must be positive|must not be negative, got -1 s"):
        load_text(VANISHING.replace("ONE", "u**2").replace("{lower: 0, upper: 5}", duration, 1))
