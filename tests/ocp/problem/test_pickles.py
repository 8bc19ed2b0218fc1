"""Errors and results between processes: what arrives says and computes the same."""

import importlib
import inspect
import pickle
import pkgutil

import numpy as np
import pytest

import dynamics
import ocp
from dynamics.errors import ModelError, Picklable, UnknownNameError
from ocp.errors import ProblemError, UnsupportedError
from ocp.interrupts import Activity, Stopped
from ocp.pickles import Portable
from ocp.simulation.one_step import StepError


def again(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("error", [
    ModelError("no axis", source="a.urdf", line=3, element="joint"), UnknownNameError("body", "b", ["a"]),
    ProblemError("no", where="x"),
    UnsupportedError("ilqr", ["a cone"], ["collocation"]), Stopped(Activity.SOLVING), StepError("q", 1.0, "no step")])
def test_errors_arrive_whole(error):
    found = again(error)
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))


def test_every_error_with_its_own_arguments_is_picklable():
    known = set()
    for package in (dynamics, ocp):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(("__main__", "conf")):
                known |= {c for _, c in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
                          if issubclass(c, BaseException) and c.__module__ == module.name and "__init__" in vars(c)}
    assert len(known) > 5
    plain = [c for c in known if not issubclass(c, Picklable) and "__reduce__" not in vars(c)]
    assert [c for c in plain if not c.__name__.startswith("_")] == []


def mover(**solve):
    problem = ocp.Problem("move", duration=1.0, **solve)
    x, v, u = problem.state("x", "m"), problem.state("v", "m/s"), problem.control("u", "N")
    problem.dynamics({x: v, v: u})
    problem.cost(u**2)
    problem.start(x=0, v=0)
    return problem, x, v


def test_results_arrive_whole(tmp_path):
    problem, *_ = mover()
    problem.final(x=1, v=0)
    result = problem.solve()
    found = again(result)
    times = np.linspace(0, 1, 37)
    assert np.array_equal(found("x", times), result("x", times))
    assert np.allclose(found("x", times), 3 * times**2 - 2 * times**3, atol=1e-6)  # what the minimum is
    assert (found.ok, found.objective, repr(found)) == (True, result.objective, repr(result))
    assert (found.save(tmp_path / "run") / "report.html").is_file()
    assert np.array_equal(again(found.solution).trajectory.control(times), result.solution.trajectory.control(times))
    assert again(found.solution.problem).phases[0].system.rate(0, [1, 2], 3, []).full().ravel().tolist() == [2, 3]


class Ring(Portable):
    def __init__(self, n):
        def count(k, *, by=1):
            return n if k == 0 else by + count(k - by)

        self.count, self.itself = count, self


def test_functions_that_hold_themselves_arrive():
    found = again(Ring(5))
    assert found.count(3) == 8
    assert found.itself is found
