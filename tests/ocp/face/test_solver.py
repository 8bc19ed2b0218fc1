"""Solvers and callbacks in Python: against problems that are solved from scratch, and the equations of the motion."""

import copy
import logging
import pickle
import sys
import threading
import time

import numpy as np
import pytest

import ocp
from ocp.problem import Kind, Status


@pytest.fixture(scope="module")
def pendulum():
    p = ocp.Problem("pendulum", duration=1.0)
    theta, omega = p.state("theta", "rad"), p.state("omega", "rad/s")
    torque = p.control("torque", "N*m")
    mass, g = p.parameter("mass", 1.0), p.constant("g", 9.81)
    p.dynamics({theta: omega, omega: torque / mass - g * ocp.sin(theta)})
    p.start(theta=0, omega=0)
    p.final(theta=1.0, omega=0)
    p.bounds(torque=(-20, 20))
    p.cost(torque**2)
    return p


@pytest.fixture(scope="module")
def solver(pendulum):
    return pendulum.vary("constants.g", scheme="hermite_simpson", intervals=30)


@pytest.mark.parametrize("case", [
    {"x0": {"theta": 0.3}}, {"goal": {"theta": 1.5}}, {"parameters": {"mass": 1.4}}, {"parameters": {"g": 1.6}},
    {"bounds": {"torque": (-8, 8)}, "x0": {"omega": 0.5}}], ids=str)
def test_cases_are_those_of_a_solve_from_scratch(pendulum, solver, case):
    found = solver.solve(**case)
    alone = pendulum.copy()
    for path, value in solver.by_path(**case).items():
        alone.set(path, value)
    whole = alone.solve(scheme="hermite_simpson", intervals=30)
    assert found.ok
    assert found.objective == pytest.approx(whole.objective, rel=1e-7)
    np.testing.assert_allclose(found["theta"], whole["theta"], atol=1e-5)
    assert found.alone().document.load().problem.phase.start == whole.loaded.problem.phase.start


def test_a_solve_again_takes_hardly_more_than_its_program(solver):
    """Nothing is built: of the time of a case without certificate the solver has most."""
    solver.solve(x0={"theta": 0.1}, certify=False)
    found = solver.solve(x0={"theta": 0.12}, certify=False)
    assert "transcription" not in found.solution.seconds
    assert not found.ok
    assert found.solution.status is Status.CONVERGED
    with_neighbour = solver.solve(x0={"theta": 0.121}, guess=found, certify=False)
    assert len(with_neighbour.solution.iterations) <= len(found.solution.iterations)


def test_paths_and_values_are_checked(solver, pendulum):
    with pytest.raises(ocp.ProblemError, match="did you mean 'theta'"):
        solver.solve(x0={"thetta": 1.0})
    with pytest.raises(ocp.ProblemError, match="is a constant of the compiled"):
        solver.solve({"phase.costs[0].running": 1.0})
    limited = pendulum.copy()
    limited.bounds(theta=(-1, 4))
    made = limited.compile(scheme="hermite_simpson", intervals=10)
    with pytest.raises(ocp.ProblemError, match="outside its bounds"):
        made.solve(goal={"theta": 5.0})


@pytest.mark.parametrize(("given", "where", "says"), [
    ({"values": {"phase.start.theta": "up"}}, "phase.start.theta", "expected a finite number, got 'up'"),
    ({"x0": {"theta": float("nan")}}, "phase.start.theta", "expected a finite number, got nan"),
    ({"x0": {"theta": True}}, "phase.start.theta", "expected a finite number"),
    ({"x0": 0.1}, "x0", "expected a mapping of names"), ({"parameters": [1.0]}, "parameters", "expected a mapping of names"),
    ({"x0": [0.1, 0.0, 0.0]}, "x0", r"needs 2 values \(theta, omega\), got 3"),
    ({"goal": [1.0]}, "goal", "needs 2 values"),
    ({"parameters": {"mas": 1.0}}, "parameters.mas", "did you mean 'mass'"),
    ({"bounds": {"torque": (5.0, -5.0)}}, None, "lower bound 5 is not below upper bound -5"),
    ({"bounds": {"torque": (-5.0, 5.0, 9.0)}}, r"phase.bounds.torque\[2\]", "has 2 entries"),
    ({"guess": 3}, "guess", "expected a result"), ({"callback": 3}, "callback", "expected a function"),
    ({"time_limit": -1.0}, "time_limit", "expected seconds")], ids=str)
def test_bad_input_is_named(solver, given, where, says):
    given = dict(given)
    values = given.pop("values", None)
    with pytest.raises(ocp.ProblemError, match=f"^{where}.*{says}" if where else says):
        solver.solve(values, **given)


def test_states_may_be_listed_in_their_order(solver):
    """By position or by name, the same case."""
    assert solver.by_path(x0=np.array([0.3, -0.1])) == solver.by_path(x0={"theta": 0.3, "omega": -0.1})
    assert solver.solve(goal=(1.2, 0.0)).objective == solver.solve(goal={"theta": 1.2, "omega": 0.0}).objective


@pytest.mark.parametrize(("table", "says"), [
    ({"phase.start.theta": [0.1, float("nan")]}, "row 1: expected a finite number"),
    ([{"phase.start.thet": 0.1}], "did you mean 'theta'"), ([3.0], "expected a list of mappings"), (3, "expected a list")], ids=str)
def test_bad_tables_are_named(solver, table, says):
    with pytest.raises(ocp.ProblemError, match=says):
        solver.solve_many(table)


def test_solvers_and_cases_travel(solver):
    """Copies know the same paths, and solve a case to the same bits."""
    found = solver.solve(x0={"theta": 0.2}, parameters={"g": 3.0})
    for other in (pickle.loads(pickle.dumps(solver)), copy.deepcopy(solver), copy.copy(solver)):
        assert repr(other) == repr(solver)
        again = other.solve(x0={"theta": 0.2}, parameters={"g": 3.0})
        np.testing.assert_array_equal(again["theta"], found["theta"])
    kept = pickle.loads(pickle.dumps(found))
    assert kept.ok
    assert kept.document.tree == found.document.tree
    np.testing.assert_array_equal(kept["theta"], found["theta"])
    near = solver.solve(x0={"theta": 0.21}, guess=kept)
    assert near.ok


def test_a_table_is_solved_from_neighbours(solver):
    table = {"phase.start.theta": [0.0, 0.1, 0.2, 0.3], "parameters.mass": [1.0, 1.1, 1.2, 1.3]}
    found = solver.solve_many(table)
    assert found.ok
    for theta, mass, objective in zip(*table.values(), found["objective"], strict=True):
        assert objective == pytest.approx(solver.solve(x0={"theta": theta}, parameters={"mass": mass}).objective, rel=1e-7)
    with pytest.raises(ocp.ProblemError, match="columns of different lengths"):
        solver.solve_many({"phase.start.theta": [0.0], "parameters.mass": [1.0, 2.0]})
    with pytest.raises(ocp.ProblemError, match="did you mean 'objective'"):
        found["objectiv"]


@pytest.mark.parametrize("how", [{"by": "threads"}, {"by": "threads", "certify": False}, {"certify": False}], ids=str)
def test_threads_make_the_same_rows_from_the_program_that_stands_ready(solver, monkeypatch, how):
    """To the last bit; nothing is compiled again, and more than one thread works, in loops that leave the lock to others."""
    from ocp.app.batch import work

    seen, inner = set(), work.Work.solved

    def solved(self):
        seen.add(threading.current_thread().name)
        return inner(self)

    monkeypatch.setattr(work.Work, "solved", solved)
    monkeypatch.setattr(work, "_made", None)
    table = {"phase.start.theta": np.linspace(0.0, 0.5, 9), "parameters.mass": np.linspace(1.0, 1.5, 9)}
    alone = solver.solve_many(table, **{**how, "by": "auto"})
    found = solver.solve_many(table, workers=2, **how)
    assert found.rows == alone.rows
    assert set(found["by"]) == {"program"}
    assert len(seen - {"MainThread"}) == 2
    assert set(found["status"]) == {"CONVERGED"}


def test_loops_release_the_lock_of_the_interpreter(solver, monkeypatch):
    """Another thread gets on within them, though the interpreter itself would let nobody else in for an hour."""
    from ocp.nlp.interior_point import prepare

    inner, count, within, done = prepare.advance, [0], [0], threading.Event()

    def counting():
        while not done.is_set():
            count[0] += 1
            time.sleep(0)

    def watched(*given):
        before = count[0]
        inner(*given)
        within[0] += count[0] - before

    solver.solve(x0={"theta": 0.1}, certify=False)
    monkeypatch.setattr(prepare, "advance", watched)
    before, thread = sys.getswitchinterval(), threading.Thread(target=counting)
    sys.setswitchinterval(3600.0)
    try:
        thread.start()
        for k in range(500):
            if not within[0]:
                solver.solve(x0={"theta": 1e-3 * k}, certify=False)
    finally:
        done.set()
        sys.setswitchinterval(before)
        thread.join()
    assert within[0] > 0


def test_an_error_in_a_thread_ends_all(solver, monkeypatch):
    """What is no mistake of the user ends the others, too; the next table is solved as if nothing had been."""
    from ocp.app.batch import work

    inner = work.Work.solved

    def broken(self):
        if self.number == 2:
            raise RuntimeError("ours")
        return inner(self)

    table = {"phase.start.theta": np.linspace(0.0, 0.5, 9)}
    with monkeypatch.context() as patch:
        patch.setattr(work.Work, "solved", broken)
        with pytest.raises(RuntimeError, match="ours"):
            solver.solve_many(table, workers=2, by="threads", certify=False)
    assert threading.active_count() == 1
    assert set(solver.solve_many(table, workers=2, by="threads", certify=False)["status"]) == {"CONVERGED"}


@pytest.mark.parametrize(("given", "says"), [
    ({"by": "thread"}, "did you mean 'threads'"), ({"workers": -1}, "number of workers, got -1"),
    ({"workers": 1.5}, "number of workers"), ({"keep": "bst"}, "did you mean 'best'")], ids=str)
def test_bad_ways_of_working_are_named(solver, given, says):
    with pytest.raises(ocp.ProblemError, match=says):
        solver.solve_many({"phase.start.theta": [0.1]}, **given)


@pytest.mark.parametrize("written", [{"deg": 10}, "10*pi/180", 0.2, 1])
def test_values_are_those_that_are_asked_for_however_the_file_writes_its_own(written):
    """Least effort ``12 (m d)^2``, from a start that the file gives in degrees, as an expression, or as a number."""
    p = ocp.Problem("block", duration=1.0)
    x, v, force = p.state("x", "rad"), p.state("v", "rad/s"), p.control("force", "N")
    p.dynamics({x: v, v: force / 2})
    p.start(x=written, v=0)
    p.final(x=3, v=0)
    p.cost(force**2, name="effort")
    solver = p.compile()
    for start in (0.5, 0.0, -1.0):
        assert solver.solve(x0={"x": start}).objective == pytest.approx(12 * (2 * (3 - start)) ** 2, rel=1e-6)
    table = solver.solve_many({"phase.start.x": [0.5, 0.0, -1.0]})
    assert table["objective"] == pytest.approx([12 * (2 * (3 - start)) ** 2 for start in (0.5, 0.0, -1.0)], rel=1e-6)


def test_a_callback_sees_iterates(pendulum):
    """Their last one is the solution; each row is one of the log."""
    seen = []
    found = pendulum.solve(callback=lambda it: seen.append(
        (it.number, it.number_of_pass, it.objective, it["theta"], it("theta", 0.5))))
    assert [number for number, *_ in seen] == list(range(len(found.solution.iterations)))
    assert {number for _, number, *_ in seen} == {int(row["pass"]) for row in found.solution.iterations}
    np.testing.assert_allclose(seen[-1][3], found["theta"], atol=1e-6)
    assert seen[-1][4] == pytest.approx(float(found("theta", 0.5)), abs=1e-6)
    assert abs(seen[1][3] - found["theta"]).max() > 1e-3


@pytest.mark.parametrize(("method", "options"), [("collocation", {}), ("ilqr", {"intervals": 30})])
def test_a_callback_stops_a_solve(pendulum, method, options):
    found = pendulum.solve(method, callback=lambda it: it.number >= 3, **options)
    assert found.solution.status is Status.INTERRUPTED
    assert len(found.solution.iterations) <= 6
    assert np.all(np.isfinite(found["theta"]))


def test_an_error_of_a_callback_is_raised(pendulum):
    def broken(iterate):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        pendulum.solve(callback=broken)


def test_the_log_of_python_hears_iterations_and_outcome(pendulum, caplog):
    with caplog.at_level(logging.DEBUG, logger="ocp"):
        found = pendulum.solve()
    rows = [record for record in caplog.records if record.levelno == logging.DEBUG]
    assert len(rows) == len(found.solution.iterations)
    assert caplog.records[-1].levelno == logging.INFO
    assert "CONVERGED by collocation" in caplog.records[-1].getMessage()


def test_problems_results_and_errors_travel(pendulum):
    found = pendulum.solve(scheme="hermite_simpson", intervals=10)
    for copied in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert copied.ok
        assert copied.objective == found.objective
        np.testing.assert_array_equal(copied("theta", [0.3, 0.7]), found("theta", [0.3, 0.7]))
    again = pickle.loads(pickle.dumps(pendulum))
    assert again.to_yaml() == pendulum.to_yaml()
    assert copy.copy(pendulum).to_yaml() == pendulum.to_yaml()
    broken = pendulum.copy()
    broken.start(y=0)
    with pytest.raises(ocp.ProblemError) as raised:
        broken.solve()
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    assert str(copy.deepcopy(raised.value)) == str(raised.value)


def test_the_status_is_data_and_its_words_are_beside_it(pendulum, tmp_path):
    """Names of Python, of the summary and of the log are the same; a limit of iterations is one, whatever its sentence says."""
    import json

    good, short = (pendulum.solve(scheme="hermite_simpson", intervals=10, **more) for more in ({}, {"max_iterations": 1}))
    assert (good.status, short.status) == (Status.CONVERGED, Status.ITERATION_LIMIT) == ("CONVERGED", "ITERATION_LIMIT")
    assert good.ending == "The method reached its tolerances."
    assert short.ending.startswith("The iteration limit was reached; raise it")
    assert pickle.loads(pickle.dumps(short.status)) is short.status
    for number, found in enumerate((good, short)):
        summary = json.loads((found.save(tmp_path / str(number)) / "summary.json").read_text())
        assert summary["format_version"] >= 1
        assert summary["status"]["name"] == found.status
        assert summary["status"]["sentence"] in found.ending
        assert [one["kind"] for one in summary["findings"]] == [one.kind.value for one in found.solution.findings]
    assert all(isinstance(one.kind, Kind) for one in short.findings)
