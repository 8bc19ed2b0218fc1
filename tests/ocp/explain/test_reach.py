"""What bounds alone rule out: boxes that hold every motion, problems that end before they are solved; and ends by themselves."""

from dataclasses import replace
from importlib import metadata

import casadi as ca
import control_problems as known
import numpy as np
import pytest
from repository import ROOT

from ocp.app import cli
from ocp.app.files.load import load_problem, load_text
from ocp.app.sentences import message, sentence
from ocp.methods import METHODS, solve
from ocp.problem import At, Boundary, Constraint, Duration, Finding, Kind, Sense, Status
from ocp.reach import end_findings, first_findings
from ocp.reach.tube import enclosed, tube
from ocp.thresholds import REACH

BY = "by the bounds of states and controls alone"
FOLDER = ROOT / "problems"
INF = float("inf")


def told(problem):
    found = first_findings(problem)
    assert all(one.data["sure"] for one in found)
    return [sentence(one) for one in found]


def block(constraints=(), **changes):
    return known.problem(replace(known.block_move().phase, constraints=constraints, **changes))


# ---- interval arithmetic
FUNCTIONS = [
    lambda a, b: a * b, lambda a, b: a / b, lambda a, b: a / (b * b + 1), lambda a, b: ca.sin(a) * ca.cos(b), lambda a, b: a**2 - b,
    lambda a, b: a**3 + 2 * b, lambda a, b: ca.exp(a) - ca.sqrt(ca.fabs(b)), lambda a, b: ca.fmin(a, b) + ca.fmax(a, 0.3),
    lambda a, b: ca.if_else(a < b, a, -b), lambda a, b: ca.atan2(a, b), lambda a, b: ca.tanh(a) / (1 + b * b),
    lambda a, b: ca.log(1 + a * a) * b**-2, lambda a, b: (a * a + 1)**0.5 - b**4, lambda a, b: ca.erf(a) + b,
]


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_values_lie_within_their_intervals(number):
    a, b = ca.SX.sym("a"), ca.SX.sym("b")
    function = ca.Function("f", [a, b], [FUNCTIONS[number](a, b)])
    rng = np.random.default_rng(number)
    low = rng.uniform(-4, 3, (2, 40))
    high = low + rng.uniform(0, 3, (2, 40)) * rng.integers(0, 2, (2, 40))
    ((least, most),) = enclosed(function, [[(low[0], high[0])], [(low[1], high[1])]])
    for r in rng.uniform(0, 1, (200, 2, 40)):
        x = low + r * (high - low)
        values = function(x[:1], x[1:]).full().ravel()
        ok = np.isfinite(values)
        room = 1e-9 * (1 + np.abs(values))
        assert np.all((least <= values + room)[ok])
        assert np.all((most >= values - room)[ok])


def test_intervals_of_simple_functions_are_tight():
    a, b = ca.SX.sym("a"), ca.SX.sym("b")
    cases = [(a * b, (-1.0, 2.0), (3.0, 4.0), (-4.0, 8.0)), (ca.sin(a) + 0 * b, (0.0, 2.0), (0.0, 1.0), (0.0, 1.0)),
             (a * a - b, (-2.0, 1.0), (0.0, 1.0), (-1.0, 4.0)), (a / b, (1.0, 2.0), (2.0, 4.0), (0.25, 1.0)),
             (ca.cos(a) * b, (3.0, 3.5), (1.0, 1.0), (-1.0, np.cos(3.5))), (ca.fabs(a) + b, (-3.0, 1.0), (0.0, 0.0), (0.0, 3.0))]
    for value, of_a, of_b, wanted in cases:
        ((low, high),) = enclosed(ca.Function("f", [a, b], [value]), [[tuple(np.array([v]) for v in of_a)],
                                                                      [tuple(np.array([v]) for v in of_b)]])
        assert (float(low[0]), float(high[0])) == pytest.approx(wanted, abs=1e-12)


# ---- tubes
def test_the_tube_of_a_double_integrator_is_its_reach():
    found = tube(block(u_lower=(-5.0,), u_upper=(5.0,)).phase, (0.0, 0.0))
    half = REACH.slices // 2
    assert found.empty is None
    assert found.high[half, 1] == pytest.approx(2.5, rel=1e-9)  # full force from rest, for half a second
    assert 0.5 <= found.high[half, 0] <= 0.5 * 5 * 0.25 + 0.05
    assert found.low[-1, 0] == found.high[-1, 0] == 1.0


@pytest.mark.parametrize(("force", "impossible"), [(3.8, True), (4.1, False)])  # four newtons carry it there and stop it
def test_forces_too_small_for_the_distance_are_ruled_out(force, impossible):
    words = told(block(u_lower=(-force,), u_upper=(force,)))
    assert bool(words) is impossible
    if impossible:
        assert words == [f"x can only be between -0.9797 and 0.9797 at the end, 1 s after the start, {BY}; required is 1"]


def test_free_durations_count_with_their_longest():
    changes = {"u_lower": (-1.0,), "u_upper": (1.0,)}  # two seconds are needed
    assert told(block(**changes, duration=Duration(0.5, 1.9, 1.0)))
    assert not told(block(**changes, duration=Duration(0.5, 2.1, 1.0)))


@pytest.mark.parametrize(("at", "height", "words"), [
    (At.PATH, 0.8, f"somewhere on the way, {BY}; required is at most 0.8"),
    (At.FINAL, 0.5, f"wall can only be 1 at the end, {BY}; required is at most 0.5"), (At.FINAL, 1.0, None)])
def test_constraints_that_no_motion_meets_are_named(at, height, words):
    wall = Constraint("wall", at, known.function(2, 1, lambda t, x, u, p: x[0]), (-INF,), (height,))
    found = told(block((wall,)))
    assert bool(found) is (words is not None)
    if words is not None:
        assert words in found[0]
        assert "wall" in found[0]
    assert not told(block((replace(wall, soft=1.0),)))


@pytest.mark.parametrize("belt", ["if_else(x > 0.2, 5, 0)", "max(0, 5*(t - 0.1))", "5*min(1, max(0, 10*x))*k"])
def test_what_carries_a_body_along_somewhere_is_no_speed_limit(belt):
    """x' = v plus a belt that begins after the start, or is idle as the parameters stand: v is not all that x has."""
    text = """
name: belt
PARAMETERS
system: {states: {x: m, v: m/s}, controls: {u: N}, dynamics: {x: "v + BELT", v: u}}
phase:
  duration: 1
  start: {x: 0, v: 0}
  final: {x: 2}
  bounds: {v: [-1, 1], u: [-9, 9]}
  costs: [{name: effort, running: u**2}]
"""
    chosen = "parameters: {k: {value: 0, optimise: [0, 1]}}" if "k" in belt else ""
    carried = load_text(text.replace("PARAMETERS", chosen).replace("BELT", belt)).problem
    assert not first_findings(carried)
    still = load_text(text.replace("PARAMETERS", "").replace("BELT", "0")).problem
    assert [(one.kind, one.data["fastest"]) for one in first_findings(still) if one.data["sure"]] == [(Kind.DISTANCE_TOO_LONG, 1.0)]


@pytest.mark.slow
def test_the_gallery_is_not_ruled_out():
    """Whatever is solved elsewhere was not either; this asks all files."""
    for file in sorted(FOLDER.glob("*.yaml")):
        if "robots:" in file.read_text(encoding="utf-8") and not list(metadata.distributions(name="example-robot-data")):
            continue  # the robots extra is not installed
        assert not [one for one in first_findings(load_problem(file).problem) if one.data["sure"]], file.name


# ---- what becomes of it
@pytest.mark.parametrize("name", [name for name in METHODS if name != "adjoint"])  # which refuses prescribed ends
def test_every_method_ends_before_it_begins(name):
    problem = block(u_lower=(-1.0,), u_upper=(1.0,))
    rows = []
    found = solve(problem, name, progress=rows.append)
    assert found.status is Status.INFEASIBLE
    assert found.findings == (*first_findings(problem), Finding(Kind.NOTHING_SOLVED))
    assert message(found) == f"No motion exists, whatever the method: {told(problem)[0]}."
    assert not rows
    assert not found.ok
    np.testing.assert_allclose(found.trajectory.state(np.array([0.0, 1.0])), problem.phase.guess.x[[0, -1]])


def test_the_command_says_so_and_exits_with_one(tmp_path, capsys):
    folder = tmp_path / "run"
    with pytest.raises(SystemExit) as ended:
        cli.main(["solve", str(FOLDER / "block_move.yaml"), "--set", "phase.bounds.v=[-0.5, 0.5]", "--quiet", "--out", str(folder)])
    assert ended.value.code == 1
    assert "v is at most 0.5 in that direction: at most 0.5 in 1 s; it needs 2 s" in capsys.readouterr().out
    assert (folder / "report.html").is_file()


# ---- ends by themselves
def reaching(goal, **changes):
    """A block whose square distance from 2 is asked of its end."""
    near = Constraint("near", At.FINAL, known.function(2, 1, lambda t, x, u, p: (x[0] - 2) ** 2), (goal,), (goal,), Sense.EQUAL)
    return block((near,), **{"final": None, **changes})


def test_ends_that_can_be_met_are_left_alone():
    assert not end_findings(reaching(0.25))
    assert not end_findings(reaching(9.0))      # from the other side of the start, too
    assert not end_findings(block())


@pytest.mark.parametrize("changes", [{"x_lower": (-0.5, -INF), "x_upper": (0.5, INF)},
                                     {"final": Boundary((0.5, 0.0), (True, False))}], ids=["bounds", "prescribed"])
def test_an_end_out_of_reach_is_named_with_what_is_missed(changes):
    """At most 0.5 away from the start, the square distance from 2 is at least 2.25."""
    (found,) = end_findings(reaching(0.25, **changes))
    assert (found.kind, found.name, found.data["sure"]) == (Kind.END_OUT_OF_REACH, "end", False)
    assert found.data["missed"] == {"near": pytest.approx(2.0, abs=0.01)}
    assert sentence(found).endswith("misses near by 2")


def test_a_hand_out_of_reach_is_reported_by_axes(tmp_path):
    """The UR5 reaches less than a metre, from a shoulder 0.09 m up."""
    text = """
name: Reach
system: {robot: FOLDER/models/ur5.urdf}
phase:
  duration: 1
  start: {others: neutral}
  constraints: [{name: hand, at: final, position_error: {frame: tool0, position: [GOAL, 0.1, 0.4]}, equal: 0}]
  costs: [{name: effort, control_error: 0}]
""".replace("FOLDER", str(FOLDER))
    (file := tmp_path / "reach.yaml").write_text(text.replace("GOAL", "0.5"), encoding="utf-8")
    assert not end_findings(load_problem(file).problem)
    file.write_text(text.replace("GOAL", "2.0"), encoding="utf-8")
    (found,) = end_findings(load_problem(file).problem)
    missed = list(found.data["missed"].values())
    assert 1.0 < np.linalg.norm(missed) < 1.3
