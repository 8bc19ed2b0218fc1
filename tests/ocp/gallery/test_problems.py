"""Every shipped problem file: solved from its defaults, certified, and at its reference; by iLQR too where that can serve."""

from importlib import metadata
from pathlib import Path

import pytest
from repository import ROOT, shipped

from ocp.certify import Tolerances
from ocp.errors import UnsupportedError
from ocp.methods import METHODS, solve

FOLDER = ROOT / "problems"
FILES = sorted(FOLDER.glob("*.yaml"))
try:
    metadata.distribution("example-robot-data")
except metadata.PackageNotFoundError:  # some robots come with the robots extra
    FILES = [path for path in FILES if "robot: robots:" not in path.read_text(encoding="utf-8")]
# the problems with published answers are solved, and looked at more closely, by test_gallery.py and test_gallery_hybrid.py
ELSEWHERE = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_gallery*.py"))
# long by their own method; each is of a kind that others, or the tests of its room, have
LONG = ("quadruped_righting", "lqr80", "kinova_reach", "spring_arm_design", "rail_arm_linkage", "four_bar_residual",
        "hexacopter_arm", "tendon_finger", "chain_on_wall", "mobile_manipulator", "car_parking", "anymal_trot",
        "anymal_trot_cones", "anymal_walk", "humanoid_squat")
# by their other methods
MINUTES = ("ur5_reach", "panda_reach", "panda_reach_obstacle", "arm_inverse_dynamics", "long_horizon", "spring_arm_design",
           "quadrotor", "quadrotor_obstacles", "anymal_trot", "anymal_trot_cones", "anymal_walk")
HERE = [path for path in FILES if f'"{path.stem}"' not in ELSEWHERE]


def cases(paths, long):
    return [pytest.param(path, marks=[pytest.mark.slow] * (path.stem in long), id=path.stem) for path in paths]


def run(path, method):
    loaded = shipped(path)
    return loaded, solve(loaded.problem, method, loaded.options_for(method), tolerances=Tolerances(**loaded.accept))


@pytest.mark.parametrize("path", cases(HERE, LONG))
def test_solves_to_its_reference(path):
    loaded, solution = run(path, shipped(path).method)
    assert solution.ok, (solution.status, solution.ending, solution.certificate.failures)
    reference = loaded.problem.reference
    assert reference is not None
    assert solution.objective == pytest.approx(reference.objective, rel=reference.tolerance)


@pytest.mark.parametrize("path", cases(FILES, MINUTES))
@pytest.mark.sample(20)
def test_the_other_methods_agree_or_refuse_by_name(path):
    """A method that a file gives options for solves it too; one that cannot enforce a constraint names it."""
    loaded = shipped(path)
    for name, method in METHODS.items():
        if name == loaded.method:
            continue
        reasons = method.unsupported(loaded.problem)
        if reasons:
            with pytest.raises(UnsupportedError) as caught:
                solve(loaded.problem, name)
            assert loaded.method in caught.value.able
            assert all(reason in str(caught.value) for reason in reasons)
        elif name in loaded.options and loaded.options[name]:
            _, solution = run(path, name)
            assert solution.ok, (name, solution.status, solution.ending, solution.certificate.failures)
            assert solution.objective == pytest.approx(loaded.problem.reference.objective, rel=loaded.problem.reference.tolerance)


def test_the_gallery_is_what_it_claims_to_be():
    """Named problems are there, several can be solved both ways, and each says where it comes from."""
    names = {p.stem for p in FILES}
    assert {"block_move", "double_integrator_min_time", "cartpole_swingup", "brachistochrone", "pendulum_swingup", "acrobot",
            "planar_quadrotor", "quadrotor", "ur5_reach", "double_pendulum_swingup", "car_parking", "unicycle",
            "quadrotor_obstacles", "kinova_reach", "panda_reach_obstacle", "arm_inverse_dynamics", "long_horizon", "lqr80",
            "cartpole_free_time", "bouncing_ball", "gear_ratio"} <= names
    problems = [shipped(p).problem for p in FILES]
    both = [p for p in FILES if all(shipped(p).options.get(name) for name in ("collocation", "ilqr"))]
    assert len(both) >= 7
    for problem in problems:
        assert problem.source
        assert problem.description
        assert "replaced" not in problem.reference.source
