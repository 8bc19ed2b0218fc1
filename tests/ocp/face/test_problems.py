"""Problems in Python and in files are two faces of one thing."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ocp
from ocp.app.files.load import load_problem
from ocp.app.files.syntax.yaml_source import parse_source, read_source
from ocp.app.verify.records import NEEDS_ROBOTS, not_a_problem
from ocp.errors import ProblemError

PROBLEMS = Path(__file__).parents[3] / "problems"
TREES = {path: read_source(path).tree or {} for path in sorted(PROBLEMS.rglob("*.yaml"))}
GALLERY = [path for path, tree in TREES.items() if not {"tasks", "wbc"} & set(tree)]


def block():
    p = ocp.Problem("Block move", duration=1.0)
    x, v = p.state("x", "m"), p.state("v", "m/s")
    force = p.control("force", "N")
    p.dynamics({x: v, v: force})
    p.start(x=0, v=0)
    p.final(x=1, v=0)
    p.cost(force**2, name="effort")
    return p, x, v, force


def functions(problem):
    """Every function of a problem as text, bounds and ends."""
    found = []
    for phase in problem.phases:
        made = [phase.system.rate, *(c.function for c in phase.costs), *(c.function for c in phase.constraints)]
        made += [f for f in (phase.system.residual, phase.reset, phase.system.energy) if f is not None]
        found.append(([f.serialize() for f in made], phase.start, phase.final, phase.duration, phase.x_lower, phase.u_upper,
                      phase.guess.s.tolist(), phase.guess.x.tolist(), phase.guess.u.tolist(),
                      [(c.name, c.at, c.lower, c.upper) for c in phase.constraints], [(c.name, c.weights) for c in phase.costs]))
    return found


def orders(tree):
    """Where order means something: names of states, controls and parameters, wherever they are declared."""
    if not isinstance(tree, dict | list):
        return []
    pairs = list(tree.items() if isinstance(tree, dict) else enumerate(tree))
    declared = [list(value) for key, value in pairs if key in ("states", "controls", "parameters") and isinstance(value, dict)]
    return sorted(declared) + [order for _, value in sorted(pairs, key=str) for order in orders(value)]


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
@pytest.mark.sample(6)
def test_every_gallery_file_comes_back_from_python(path):
    if not_a_problem(path) == NEEDS_ROBOTS:
        pytest.skip(NEEDS_ROBOTS)
    problem = ocp.load(path)
    again = parse_source(problem.to_yaml(), path.name).tree
    assert again == problem.tree == TREES[path]
    assert orders(again) == orders(TREES[path])


def test_a_problem_is_moved_on_under_constant_controls():
    motion = block()[0].simulate("rk4", until=0.5, force=2.0)
    assert motion.ok
    assert np.allclose(motion["x"], motion.t**2)
    assert np.allclose(motion["v"], 2.0 * motion.t)
    with pytest.raises(ocp.ProblemError, match="no state or control named 'speed'"):
        motion["speed"]
    with pytest.raises(ocp.ProblemError, match="forces"):
        block()[0].simulate(forces=1.0)


@pytest.mark.parametrize(("folder", "command"), [("ik", "ocp ik"), ("wbc", "ocp wbc")])
def test_files_of_other_commands_are_distinguished(folder, command):
    with pytest.raises(ocp.ProblemError, match=command):
        ocp.load(next((PROBLEMS / folder).glob("*.yaml")))


@pytest.mark.parametrize("name", ["cartpole_swingup", "goddard_arcs", "panda_reach_obstacle", "lqr80", "four_bar"])
def test_the_mathematics_that_comes_back_is_the_same(name, tmp_path):
    path = PROBLEMS / f"{name}.yaml"
    place = ocp.load(path).save(tmp_path / "elsewhere.yaml")
    assert functions(load_problem(place).problem) == functions(load_problem(path).problem)


@pytest.mark.parametrize("name", ["block_move", "brachistochrone"])
def test_what_comes_back_has_the_same_solution(name, tmp_path):
    place = ocp.load(PROBLEMS / f"{name}.yaml").save(tmp_path / "again.yaml")
    mine, theirs = ocp.solve(place), ocp.solve(PROBLEMS / f"{name}.yaml")
    assert mine.ok
    assert mine.objective == theirs.objective
    np.testing.assert_array_equal(mine.solution.trajectory.x, theirs.solution.trajectory.x)


def test_a_block_is_moved():
    p, x, v, force = block()
    p.constraint(v <= 2, name="speed limit")
    result = p.solve()
    assert result.ok
    assert abs(result.objective - 12) < 1e-6
    np.testing.assert_allclose(result("force", np.array([0.25])), 3.0, atol=1e-6)  # 6 - 12 t
    np.testing.assert_allclose(result(x, [0.0, 1.0]), [0, 1], atol=1e-9)
    np.testing.assert_allclose(result.value(x + v**2, [0.5]), 0.5 + 1.5**2, atol=1e-6)
    np.testing.assert_allclose(result.value([x, v], [0.5]), [[0.5, 1.5]], atol=1e-6)
    assert "certified" in repr(result)
    assert "stationarity" in result._repr_html_()
    assert "force**2" in p._repr_html_()


def test_the_tree_is_what_a_file_says(tmp_path):
    p, *_ = block()
    text = """
name: Block move
system:
  states: {x: m, v: m/s}
  controls: {force: N}
  dynamics: {x: v, v: force}
phase:
  duration: 1.0
  start: {x: 0, v: 0}
  final: {x: 1, v: 0}
  costs: [{name: effort, running: force**2}]
"""
    assert p.tree == ocp.load(write(tmp_path, text)).tree


def write(folder, text):
    path = folder / "p.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_phases_and_linkages_in_python():
    """Free fall and one bounce: closed form 2 sqrt(2 h / g) for the fall and the rise after a loss-free bounce."""
    p = ocp.Problem("Bounce")
    h, w = p.state("h", "m"), p.state("w", "m/s")
    p.dynamics(h=w, w=-9.81)
    down = p.phase("down", duration=(0.1, 2, 0.5))
    down.start(h=1, w=0)
    down.final(h=0)
    up = p.phase("up", duration=(0.1, 2, 0.4))
    up.reset(w=-w)
    up.final(w=0)
    up.cost(ocp.t, at="final", name="time")
    p.linkage(up.at_final(h) == down.at_start(h), name="as high as before")
    down_up = p.solve()
    assert down_up.ok
    assert abs(down_up.objective - 2 * np.sqrt(2 / 9.81)) < 1e-6


def test_ilqr_has_gains_and_sensitivities():
    p, *_ = block()
    result = p.solve("ilqr", intervals=40)
    assert result.ok
    assert result.gains.shape == (40, 1, 2)
    np.testing.assert_allclose(result.sensitivities().dJ_dx0, [-24, -12], rtol=2e-3)  # of 12 (1 - x)^2 and its companion in v
    again = p.solve("ilqr", guess=result, intervals=40)
    assert again.ok
    assert again.solution.iterations[0]["cost"] == pytest.approx(result.objective, rel=0.01)  # it begins where that one ended


def test_a_run_folder_and_pages_come_from_a_result(tmp_path):
    result = ocp.load(PROBLEMS / "block_move.yaml").solve()
    folder = result.save(tmp_path / "run")
    assert (folder / "report.html").is_file()
    assert "<canvas" in result.animate().html
    assert "iframe" in result.animate()._repr_html_()
    assert "states" in repr(result.plot())
    assert result.plot()["states"]._repr_png_().startswith(b"\x89PNG")
    assert ocp.solve(PROBLEMS / "block_move.yaml", guess=folder).ok


def test_a_robot_by_name(tmp_path):
    robot = ocp.Robot(PROBLEMS / "models" / "ur5.urdf")
    assert "nq = 6" in repr(robot)
    assert "elbow_joint" in robot._repr_html_()
    p = ocp.Problem("Lift", robot, duration=1.0)
    p.start(joints=dict.fromkeys(robot.joints, 0.3), rest=True)
    p.final(rest=True)
    p.constraint(robot.position("tool0").z >= 0.1, name="table")
    p.constraint(robot.position_error("tool0", [0.4, 0.1, 0.5]) == 0, at="final")
    p.cost(robot.tau, weights=1e-3)
    p.cost(robot.v["elbow_joint"] ** 2)
    system = p.load().problem.phase.system
    assert system.controls == robot.actuators
    assert len(p.load().problem.phase.costs) == 2
    place = p.save(tmp_path / "lift.yaml")
    assert functions(load_problem(place).problem) == functions(p.load().problem)
    assert list(robot.configuration(np.arange(6.0))["joints"].values()) == [0, 1, 2, 3, 4, 5]


def test_coordinates_of_a_floating_base_get_names():
    robot = ocp.Robot(PROBLEMS / "models" / "quadrotor.urdf", root="free_flyer")
    found = robot.configuration([1, 2, 3, 1, 0, 0, 0])
    assert found["base"] == {"position": [1, 2, 3], "quaternion": {"w": 1, "x": 0, "y": 0, "z": 0}}


def mistake(build):
    p, x, v, force = block()
    build(p, x, v, force)
    return p


HERE = Path(__file__).name
ROBOT_FREE = "a robot brings"


@pytest.mark.parametrize(("build", "words"), [
    (lambda p, x, v, f: p.cost(lambda t, x, u: 1), rf"{HERE}:\d+: cost: expected an expression, got the function"),
    (lambda p, x, v, f: p.cost(x <= 1), "is a comparison, not a cost"),
    (lambda p, x, v, f: p.cost(), "takes one expression"),
    (lambda p, x, v, f: p.cost(x, at="end"), "counts along the 'path'"),
    (lambda p, x, v, f: p.constraint(1 <= 2), "evaluated by Python"),
    (lambda p, x, v, f: p.constraint(x <= 1, upper=3), "has its limit already"),
    (lambda p, x, v, f: p.constraint(0 <= x <= 1), "lower <= x <= upper"),
    (lambda p, x, v, f: p.constraint(x).load(), "has no bound|load"),
    (lambda p, x, v, f: p.bounds(force=10), "is a pair"),
    (lambda p, x, v, f: p.guess(force2=1), "did you mean 'force'"),
    (lambda p, x, v, f: p.state("x"), "already among the states"),
    (lambda p, x, v, f: p.phase("a", duration=1), "has one phase"),
    (lambda p, x, v, f: p.start([0, 0], x=1), "either a list"),
    (lambda p, x, v, f: p.equation(x <= v), "an equation needs =="),
])
def test_mistakes_are_reported_where_they_are_made(build, words):
    p, x, v, force = block()
    with pytest.raises((ProblemError, AttributeError), match=words):
        build(p, x, v, force)


@pytest.mark.parametrize(("build", "words"), [
    (lambda p, x, v, f: p.cost("forse**2"), rf"{HERE}:\d+: phase.costs\[1\].running: unknown name 'forse'; did you mean 'force'"),
    (lambda p, x, v, f: p.constraint(ocp.vector([x, v]), upper=[1, 2, 3]), "3 values for 2 components"),
    (lambda p, x, v, f: p.constraint(x), "has no bound"),
    (lambda p, x, v, f: p.final(z=1), "z"),
    (lambda p, x, v, f: p.set("phase.durration", 1), "unknown key; did you mean 'duration'"),
])
def test_the_compiler_of_files_names_the_line_of_python(build, words):
    with pytest.raises(ProblemError, match=words):
        mistake(build).load()


def test_names_that_a_robot_lacks_are_reported_at_once():
    robot = ocp.Robot(PROBLEMS / "models" / "ur5.urdf")
    for build in (lambda: robot.position("tool"), lambda: robot.q["elbow"], lambda: ocp.Robot("models/ur6.urdf"),
                  lambda: ocp.Robot(PROBLEMS / "models" / "ur5.urdf", rot="fixed")):
        with pytest.raises(ValueError, match="did you mean|does not exist"):
            build()
    with pytest.raises(ProblemError, match="a robot brings its states"):
        ocp.Problem("p", robot, duration=1).state("x")


def test_the_import_loads_nothing_heavy_and_the_interface_is_listed():
    code = ("import sys, ocp; heavy = [m for m in ('casadi', 'numpy', 'pydantic', 'matplotlib') if m in sys.modules]; "
            "print(heavy, sorted(dir(ocp)) == sorted(ocp.__all__), all(hasattr(ocp, n) for n in dir(ocp)))")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROBLEMS.parent)
    assert found.stdout == "[] True True\n"
    with pytest.raises(AttributeError, match="did you mean 'Problem'"):
        _ = ocp.Problm


def test_fewer_than_25_lines_from_a_robot_file_to_a_certified_motion():
    lines = f"""
import ocp
robot = ocp.Robot(r"{PROBLEMS / 'models' / 'ur5.urdf'}")
p = ocp.Problem("Reach", robot, duration=1.5)
p.start(joints=dict(zip(robot.joints, [0, -1.2, 1.5, -1, -1.57, 0])), rest=True)
p.final(rest=True)
goal = robot.pose_error("tool0", position=[0.4, 0.3, 0.4], rpy=[3.14, 0, 0])
p.constraint(goal == 0, at="final")
p.cost(robot.tau, weights=1e-3)
p.cost(robot.v, weights=0.1)
p.guess(states=[{{}}, {{"ik": [{{"pose": goal.value}}], "rest": True}}])
result = p.solve()
"""
    found = {}
    exec(lines, found)  # as a user types it
    assert found["result"].ok
    assert len(lines.strip().splitlines()) < 25
