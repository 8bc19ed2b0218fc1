"""Sweeps: which cases, the same table whoever works, nothing lost when killed."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from block_file import SOLVED_BLOCK as BLOCK
from simulated_cluster import Timed

from ocp.app.batch.plan import Axis, axis_of, cases, fractions, read_axis, table_of
from ocp.app.batch.recipe import Range, recipe_of
from ocp.app.batch.run import Sweep, local_optima, swept
from ocp.app.batch.schedule import Done
from ocp.app.batch.store import Store, read_rows
from ocp.app.files.load import load_problem
from ocp.batch.order import parents
from ocp.errors import ProblemError


def block(*words, **more):
    axes = [read_axis(word) for word in words]
    return Sweep(BLOCK, ".", "block.yaml", tuple(axis.path for axis in axes), tuple(cases(axes)), **more)


# ---- cases ------------------------------------------------------------------------------------------------------------
def test_axes():
    assert read_axis("a.b=0:1:3").grid() == (0.0, 0.5, 1.0)
    np.testing.assert_allclose(read_axis("a=log(1:100:3)").grid(), [1, 10, 100])
    assert read_axis("solve.method=[ilqr, collocation]").grid() == ("ilqr", "collocation")
    assert axis_of("a", "1:3:2").grid() == (1.0, 3.0)
    assert cases([Axis("a", (1, 2)), Axis("b", ("x", "y"))]) == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]


@pytest.mark.parametrize(("words", "message"), [
    ("a", "expected path=a:b:n"), ("a=2:1:3", "must increase"), ("a=log(-1:1:3)", "must be positive"), ("a=x:1:3", "not a number"),
    ("a=log(1:2:3", "bracket is missing"), ("a=0:1:1", "one value"), ("a=nan:1:3", "not finite")])
def test_what_is_no_axis(words, message):
    with pytest.raises(ProblemError, match=message):
        read_axis(words)


@pytest.mark.parametrize("design", ["random", "latin", "sobol"])
def test_designs(design):
    """Latin hypercubes have one point in each of n slices of every axis, Sobol's of 2^k points in each of 2^k; a seed says all."""
    points = np.array(fractions(design, 3, 16, seed=4))
    assert points.shape == (16, 3)
    assert points.min() >= 0
    assert points.max() < 1
    np.testing.assert_array_equal(points, fractions(design, 3, 16, seed=4))
    assert abs(points - fractions(design, 3, 16, seed=5)).max() > 1e-3
    slices = [sorted(set(np.floor(16 * column).astype(int).tolist())) for column in points.T]
    assert (slices == [list(range(16))] * 3) == (design != "random")
    mixed = cases([Axis("a", lower=1.0, upper=3.0), Axis("b", ("p", "q"))], design, 8, 0)
    assert {b for _, b in mixed} == {"p", "q"}
    assert all(1 <= a <= 3 for a, _ in mixed)


def test_a_table_of_cases(tmp_path):
    file = tmp_path / "cases.csv"
    file.write_text("parameters.mass,solve.method\n1.5,ilqr\n2,collocation\n")
    assert table_of(file) == (("parameters.mass", "solve.method"), [(1.5, "ilqr"), (2, "collocation")])
    file.write_text("parameters.mass,solve.method\n1.5\n")
    with pytest.raises(ProblemError, match=r"cases.csv:2: has 1 values for 2 paths"):
        table_of(file)


def test_neighbours():
    """Every case but the first of its group starts from one of a batch before; no way is longer than the logarithm of the number,
    and of those before none is nearer."""
    rng = np.random.default_rng(1)
    points, groups = rng.random((100, 2)), np.array([f"{i % 3}" for i in range(100)])
    found = parents(points, groups)
    assert sum(found < 0) == 3
    for i in range(100):
        depth, at = 0, i
        while found[at] >= 0:
            assert groups[found[at]] == groups[at]
            at, depth = found[at], depth + 1
        assert depth <= 7
    line = parents(np.linspace(0, 1, 9)[:, None], np.zeros(9))
    assert line[4] == -1
    assert abs(np.flatnonzero(line >= 0) - line[line >= 0]).max() <= 4
    np.testing.assert_array_equal(found, parents(points, groups))


# ---- numbers of one program -------------------------------------------------------------------------------------------
def test_paths_are_numbers_parameters_or_structure():
    loaded = load_problem("problems/cartpole_swingup.yaml")
    ranges = {"constants.m2": Range(0.2, 0.4, 0.3), "phase.start.theta": Range(-0.1, 0.1, 0.0),
              "phase.bounds.force[1]": Range(15.0, 20.0, 20.0), "phase.duration": Range(1.8, 2.2, 2.0),
              "solve.collocation.intervals": Range(20.0, 30.0, 20.0)}
    recipe, left = recipe_of(loaded.text, "problems", "cartpole.yaml", ranges)
    assert set(recipe.rates) == {"phase.start.theta", "phase.bounds.force[1]", "phase.duration"}
    assert recipe.parameters == {"constants.m2": "m2"}
    assert left == ("solve.collocation.intervals",)
    case = recipe.problem(recipe.load(), {**recipe.base, "phase.start.theta": 0.07, "constants.m2": 0.35})
    assert case.phase.start.value[1] == pytest.approx(0.07)
    assert case.phase.system.parameter_values == (0.35,)


def test_unknown_paths_are_named():
    for path, message in (("parameters.mas", "did you mean 'mass'"), ("phase.start.y", "no state named 'y'"),
                          ("start.x", r"the file has phase\.start\.x"), ("strat.mass", r"the file has parameters\.mass"),
                          ("solve.intervalls", r"the file has solve\.collocation\.intervals"),
                          ("solve.max_iteratons", r"did you mean solve\.collocation\.max_iterations or solve\.multiple_shooting"),
                          ("phase.final[0]", "no state named"), ("solve.collocation.interval", "did you mean 'intervals'")):
        with pytest.raises(ProblemError, match=message):
            swept(block(f"{path}=[1, 2, 3]"), processes=0)


def test_a_path_that_no_solve_reads_is_named():
    """Sections of other commands, options of another method; not where one of several methods reads them, or one value is used."""
    text = BLOCK + "mpc: {rate: 10.0, horizon: 0.5}\n"
    for path, values in (("mpc.rate", "10:20:2"), ("solve.ilqr.max_iterations", "[50, 60, 70]")):
        sweep = replace(block(f"{path}={values}", "parameters.mass=[1, 2]"), text=text)
        with pytest.raises(ProblemError, match=rf"^{path}: has no effect"):
            swept(sweep, processes=0)
    assert swept(block("solve.ilqr.max_iterations=[500, 600]", "solve.method=[collocation, ilqr]"), processes=0).ok
    assert swept(block("solve.ilqr.max_iterations=[50]", "phase.final.x=[1, 2]"), processes=0).ok
    assert swept(block("phase.guess.states.x=[1, 1.5]"), processes=0).ok


@pytest.mark.parametrize(("file", "units"), [
    ("panda_reach", {"phase.start.joints.panda_joint1": "rad", "phase.bounds.velocities.panda_joint2": "rad/s",
                     "phase.bounds.controls.panda_joint2[1]": "N m", "phase.duration": "s", "constants.k": None}),
    ("cartpole_swingup", {"phase.bounds.force[1]": "N", "phase.start.theta": "rad", "constants.m2": None})])
def test_axes_have_the_units_of_what_they_vary(file, units):
    text = Path(f"problems/{file}.yaml").read_text()
    assert Sweep(text, "problems", f"{file}.yaml", tuple(units), ()).units == {path: unit for path, unit in units.items() if unit}


# ---- tables -----------------------------------------------------------------------------------------------------------
def test_what_cannot_be_planned_leaves_the_folder_as_it_is(tmp_path):
    out = tmp_path / "sweep"
    with pytest.raises(ProblemError, match=r"case phase\.mass=1: phase\.mass: unknown key.*; the file has parameters\.mass"):
        swept(block("phase.mass=[1, 2]"), out, processes=0)
    assert not out.exists()
    swept(block("parameters.mass=[1, 2]"), out, processes=0)
    held = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    with pytest.raises(ProblemError, match="unknown key"):
        swept(block("phase.mass=[1, 2]"), out, processes=0, overwrite=True)
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == held


def test_a_column_of_numbers_and_text_has_one_type(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    store = Store(tmp_path / "sweep", {"paths": [], "cases": []}, False)
    store.add([Done(0, {"ok": True}, 1.0), Done(1, {"ok": False}, 1.0)])
    store.close(("mass", "goal"), [{"mass": 0.25, "goal": 1}, {"mass": "heavy", "goal": 2.5}], False)
    store.leave()
    found = parquet.read_table(tmp_path / "sweep" / "cases.parquet").to_pydict()
    assert found == {"case": [0, 1], "mass": ["0.25", "heavy"], "goal": [1.0, 2.5], "ok": [True, False]}


def test_a_sweep_has_the_objectives_in_closed_form():
    """``12 (m d)^2 / T^3`` [N^2 s] from rest to rest over d in the time T; by the program, and where the method differs."""
    found = swept(block("parameters.mass=1:2:3", "phase.start.x=0:0.5:2", "phase.duration=[1, 2]"), processes=0)
    assert found.ok
    assert set(found["by"]) == {"program"}
    for row in found.rows:
        wanted = 12 * (row["parameters.mass"] * (1 - row["phase.start.x"])) ** 2 / row["phase.duration"] ** 3
        assert row["objective"] == pytest.approx(wanted, rel=1e-6)
    methods = swept(block("solve.method=[collocation, ilqr]", "phase.final.x=[1, 2, 3]"), processes=0)
    assert methods.ok
    for row in methods.rows:
        assert row["objective"] == pytest.approx(12 * (2 * row["phase.final.x"]) ** 2, rel=2e-3)


def test_failed_and_refused_cases_are_rows(tmp_path):
    sweep = block("phase.bounds.force[1]=[-200, 1, 100]", keep="failed")
    found = swept(sweep, tmp_path / "sweep", processes=0)
    assert [row["ok"] for row in found.rows] == [False, False, True]
    assert found.rows[0]["status"] == "REFUSED"
    assert "lower" in found.rows[0]["message"]
    assert found.rows[1]["status"] == "INFEASIBLE"
    assert found.rows[1]["findings"] != "[]"
    assert [place.name for place in (tmp_path / "sweep" / "runs").iterdir()] == ["000001"]
    assert found.best()["case"] == 2


def table_with(tmp_path, name, sweep, **how):
    swept(sweep, tmp_path / name, **how)
    return (tmp_path / name / "cases.csv").read_bytes()


@pytest.mark.slow
def test_the_table_is_the_same_whoever_works(tmp_path):
    sweep = block("parameters.mass=1:2:4", "phase.start.x=0:0.5:4")
    one = table_with(tmp_path, "one", sweep, processes=0)
    assert table_with(tmp_path, "two", sweep, processes=2) == one
    assert not list((tmp_path / "two" / "points").iterdir())


def test_a_journal_cut_anywhere_goes_on(tmp_path):
    """Whatever a killed process left of the last line, the sweep ends with the same table, and solves no case twice."""
    sweep = block("parameters.mass=1:2:3", "phase.start.x=0:0.5:2")
    whole = table_with(tmp_path, "whole", sweep, processes=0)
    lines = (tmp_path / "whole" / "journal.jsonl").read_bytes().splitlines(keepends=True)

    class Killed(BaseException):
        pass

    for after in (1, 3, 5):
        def stop(done, certified, total, after=after):
            if done >= after:
                raise Killed

        with pytest.raises(Killed):
            swept(sweep, tmp_path / f"cut {after}", processes=0, tell=stop)
        journal = tmp_path / f"cut {after}" / "journal.jsonl"
        with journal.open("ab") as file:
            file.write(lines[-1][:10 * after])
        seen = []
        swept(sweep, tmp_path / f"cut {after}", processes=0, tell=lambda done, certified, total, seen=seen: seen.append(done))
        assert seen == list(range(after + 1, 7))
        assert (tmp_path / f"cut {after}" / "cases.csv").read_bytes() == whole


@pytest.mark.slow
def test_kills_lose_nothing(tmp_path):
    """kill -9 at odd moments, of the whole session: the table in the end is that of a sweep nobody disturbed."""
    file = tmp_path / "block.yaml"
    file.write_text(BLOCK)
    words = [sys.executable, "-m", "ocp.app.cli", "sweep", str(file), "--over", "parameters.mass=1:2:5", "--over",
             "phase.start.x=0:0.5:5", "-q", "-j", "2"]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    subprocess.run([*words, "--out", str(tmp_path / "whole")], check=True, env=environment, stdout=subprocess.DEVNULL)
    journal = tmp_path / "killed" / "journal.jsonl"
    for kill in range(10):
        process = subprocess.Popen([*words, "--out", str(tmp_path / "killed")], env=environment, start_new_session=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wanted, end = 2 * (kill + 1), time.monotonic() + 120
        while process.poll() is None and time.monotonic() < end:
            if journal.exists() and journal.read_bytes().count(b"\n") >= wanted:
                break
            time.sleep(0.01)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = subprocess.run([*words, "--out", str(tmp_path / "killed")], env=environment, stdout=subprocess.DEVNULL, check=False)
    assert done.returncode == 0
    assert (tmp_path / "killed" / "cases.csv").read_bytes() == (tmp_path / "whole" / "cases.csv").read_bytes()
    numbers = [line.split(b",")[0] for line in journal.read_bytes().splitlines()]
    assert len(numbers) == len(set(numbers)) == 25


@pytest.mark.slow
def test_ctrl_c_says_what_is_kept_and_how_to_go_on(tmp_path):
    """SIGINT to the command as a terminal sends it, to all of its processes: the cases that are done are rows, none is marked as
    interrupted, and the same command ends with the table of a sweep nobody disturbed."""
    file, out = tmp_path / "block.yaml", tmp_path / "stopped"
    file.write_text(BLOCK)
    words = [sys.executable, "-m", "ocp.app.cli", "sweep", str(file), "--over", "parameters.mass=1:2:5", "--over",
             "phase.start.x=0:0.5:5", "-q"]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    for processes, wanted in (("0", 3), ("2", 9)):
        process = subprocess.Popen([*words, "-j", processes, "--out", str(out)], env=environment, start_new_session=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        end, journal = time.monotonic() + 120, out / "journal.jsonl"
        while process.poll() is None and time.monotonic() < end:
            if journal.exists() and journal.read_bytes().count(b"\n") >= wanted:
                break
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate(timeout=120)[1]
        assert process.returncode == 1
        done = journal.read_bytes().count(b"\n")
        assert f"interrupted: {done} of 25 cases are done and kept in {out}" in said
        assert b"INTERRUPTED" not in journal.read_bytes()
        assert (out / "cases.csv").read_text().count("\n") == done + 1
        assert wanted <= done < 25
    subprocess.run([*words, "-j", "2", "--out", str(out)], check=True, env=environment, stdout=subprocess.DEVNULL)
    whole = table_with(tmp_path, "whole", block("parameters.mass=1:2:5", "phase.start.x=0:0.5:5"), processes=0)
    assert (out / "cases.csv").read_bytes() == whole


def test_another_sweep_does_not_go_on_in_a_folder(tmp_path):
    swept(block("parameters.mass=[1, 2]"), tmp_path / "sweep", processes=0)
    with pytest.raises(ProblemError, match="holds another sweep"):
        swept(block("parameters.mass=[1, 3]"), tmp_path / "sweep", processes=0)
    swept(block("parameters.mass=[1, 3]"), tmp_path / "sweep", processes=0, overwrite=True)
    head, rows = read_rows(tmp_path / "sweep")
    assert [row["parameters.mass"] for row in rows] == [1, 3]
    (tmp_path / "sweep" / "journal.jsonl").write_bytes(b"")  # of a sweep that never had a case, nothing is lost
    assert swept(block("parameters.mass=[1, 2]"), tmp_path / "sweep", processes=0).ok
    assert head["version"] == 1
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    with pytest.raises(ProblemError, match="holds no sweep"):
        swept(block("parameters.mass=[1, 2]"), tmp_path / "other", processes=0, overwrite=True)
    with pytest.raises(ProblemError, match=r"no sweep\.json"):
        read_rows(tmp_path / "other")


def test_a_full_disk_leaves_whole_lines(tmp_path, monkeypatch):
    store = Store(tmp_path / "sweep", {"paths": [], "cases": []}, False)
    store.add([Done(0, {"ok": True}, 1.0)])
    write = os.write
    monkeypatch.setattr(os, "write", lambda where, data: write(where, data[:7]))
    with pytest.raises(OSError, match="No space left"):
        store.add([Done(1, {"ok": True}, 1.0)])
    monkeypatch.undo()
    store.add([Done(2, {"ok": True}, 1.0)])
    store.leave()
    assert set(Store(tmp_path / "sweep", {"paths": [], "cases": []}, False).done) == {0, 2}


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path):
    """A file system of 64 kB: the sweep ends by name with what fitted, twice; on a larger one the table becomes whole."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, check=False).returncode:
        pytest.skip("only root mounts a small file system")
    try:
        sweep = block("parameters.mass=1:2:4", "phase.start.x=0:0.5:6")
        done = 0
        for _ in range(2):
            with pytest.raises(OSError, match=r"No space left on device: \d+ of 24 cases are done and kept in .*; the same"):
                swept(sweep, disk / "sweep", processes=0)
            numbers = [json.loads(line)["case"] for line in (disk / "sweep" / "journal.jsonl").read_bytes().splitlines()]
            assert len(numbers) == len(set(numbers)) >= max(1, done)
            done = len(numbers)
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        seen = []
        assert swept(sweep, disk / "sweep", processes=0, tell=lambda count, good, total: seen.append(count)).ok
        assert seen == list(range(done + 1, 25))
        assert (disk / "sweep" / "cases.csv").read_bytes() == table_with(tmp_path, "whole", sweep, processes=0)
    finally:
        subprocess.run(["umount", str(disk)], check=False)


def test_writes_that_fail_at_random_moments_lose_nothing(tmp_path, monkeypatch):
    """Half of all writes and renames fail: rows that were told are there, none twice, points as their cases left them."""
    rng, place = np.random.default_rng(0), tmp_path / "sweep"
    kinds = {"write": os.write, "replace": os.replace, "fsync": os.fsync}

    def failing(name, real):
        def call(*given):
            if rng.random() < 0.25:
                if name == "write":
                    real(given[0], given[1][:len(given[1]) // 2])
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*given)
        return call

    store, kept = Store(place, {"paths": [], "cases": []}, False), set()
    failed = 0
    for number in range(60):
        with monkeypatch.context() as patch:
            for name, real in kinds.items():
                patch.setattr(os, name, failing(name, real))
            try:
                store.add([Done(number, {"ok": True}, 1.0, {"x": np.full(3, float(number))})])
                kept.add(number)
            except OSError:
                failed += 1
        if number % 7 == 0:
            store.leave()
            store = Store(place, {"paths": [], "cases": []}, False)
            assert set(store.done) == kept
    assert failed > 10
    assert set(store.done) == kept
    assert all(store.point(number)["x"][0] == number for number in kept)
    store.leave()


def test_local_optima():
    rows = [{"case": k, "ok": ok, "objective": value} for k, (ok, value) in enumerate(
        [(True, 2.0), (True, 1.0), (False, 0.5), (True, 2.0000001), (True, 1.0)])]
    assert [(one["objective"], one["starts"], one["case"]) for one in local_optima(rows)] == [(1.0, 2, 1), (2.0, 2, 0)]


# ---- workers ----------------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_worker_that_dies_becomes_a_row(monkeypatch, tmp_path):
    """A case that takes its process down twice says so; the others are solved."""
    from ocp.app.batch import workers
    from ocp.app.batch.work import Work

    made = workers.Processes(2)
    try:
        for number in range(4):
            made.submit(Work(number, {"phase.duration": 1.0 + number}, BLOCK if number != 2 else DEADLY, ".", "block.yaml"))
        found, end = [], time.monotonic() + 120
        while len(found) < 4 and time.monotonic() < end:
            for process in made.pool._processes.values() if any(w.number == 2 for w in made.running.values()) else ():
                os.kill(process.pid, signal.SIGKILL)
                break
            found += made.finished(0.2)
    finally:
        made.close(False)
    rows = {one.number: one.row for one in found}
    assert rows[2]["status"] == "WORKER_DIED"
    assert [rows[k]["status"] for k in (0, 1, 3)] == ["CONVERGED"] * 3


def test_threads_that_are_stopped_end_at_their_next_look_at_the_time():
    """Of a Ctrl-C, which only the main thread hears: budgets within the one of the task are up, too."""
    from ocp.app.batch.workers import Threads
    from ocp.interrupts import limited, time_is_up

    began = threading.Barrier(3)

    class Endless:
        number = 0

        def solved(self):
            with limited(1e6), limited():
                began.wait(60)
                while not time_is_up():
                    time.sleep(0.001)
            raise KeyboardInterrupt

    made = Threads(2)
    for _ in range(3):
        made.submit(Endless())
    began.wait(60)
    made.close(False)
    assert sum(future.cancelled() for future in made.running) == 1
    assert all(isinstance(one.exception(), KeyboardInterrupt) for one in made.running if not one.cancelled())


DEADLY = BLOCK.replace("intervals: 10", "intervals: 400")


def test_a_dead_scheduler_is_named(monkeypatch):
    pytest.importorskip("distributed")
    from ocp.app.batch import workers

    monkeypatch.setattr(workers, "ANSWERS", 1)
    with pytest.raises(ProblemError, match=r"tcp://127\.0\.0\.1:9.*no scheduler answers"), \
            workers.workers(0, "tcp://127.0.0.1:9"):
        pass


class KilledWorker(Exception):
    """Named as the error of Dask."""


@dataclass(frozen=True)
class Deadly(Timed):
    """A task that takes its process down with it."""

    def solved(self):
        raise KilledWorker


class Promise:
    """A future of Dask that is known at once."""

    def __init__(self, function, data):
        self.status, self.failure = "finished", None
        try:
            self.found = function(data)
        except KilledWorker as error:
            self.status, self.failure = "error", error

    def done(self):
        return True

    def exception(self):
        return self.failure


class Machines:
    """The client of a scheduler with two workers, which have done at once what they are given."""

    status = "running"

    def __init__(self):
        self.sent = []

    def submit(self, function, data, pure):
        assert function.__module__ == "_pickle"  # nothing that a scheduler would import
        assert isinstance(data, bytes)
        self.sent.append(Promise(function, data))
        return self.sent[-1]

    def gather(self, promises):
        return [one.found for one in promises]

    def nthreads(self):
        return {"tcp://one": 1, "tcp://two": 1}

    def run(self, function):
        pass


def test_cases_travel_in_batches_of_a_second(monkeypatch):
    """First alone, for nobody knows how long they take; every place of a worker gets a share; a deadly case is found by itself."""
    distributed = pytest.importorskip("distributed")
    from ocp.app.batch.schedule import WINDOW
    from ocp.app.batch.workers import Cluster

    machines = Machines()
    monkeypatch.setattr(distributed, "Client", lambda *given, **options: machines)
    cluster, found = Cluster("tcp://any"), []
    for number in range(40):
        cluster.submit((Deadly if number == 13 else Timed)(number, 0.25))
    while len(found) < 40:
        found += cluster.finished(1.0)
    sizes = [len(one.found) for one in machines.sent if not one.failure]
    assert sizes[:WINDOW * 2] == [1, 1, 1, 1]
    assert max(sizes) == 4  # of a quarter of a second
    assert cluster.count == 2 * 4
    rows = {one.number: one.row for one in found}
    assert sorted(rows) == list(range(40)) == sorted(one.number for one in found)
    assert [number for number, row in rows.items() if not row["ok"]] == [13]
    assert rows[13]["status"] == "WORKER_DIED"
    assert sum(one.failure is not None for one in machines.sent) == 2
    assert not cluster.batches


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_makes_the_same_table(tmp_path):
    """A scheduler and two workers, each a process of its own; one worker is killed on the way."""
    pytest.importorskip("distributed")
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    here = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": Path.cwd()}
    file = tmp_path / "scheduler.json"
    processes = [subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard",
                                   "--host", "127.0.0.1", "--scheduler-file", str(file)], **here)]
    try:
        processes += [subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file),
                                        "--nthreads", "1", "--no-nanny", "--no-dashboard"], **here) for _ in range(2)]
        end = time.monotonic() + 60
        while not file.exists() and time.monotonic() < end:
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        from distributed import Client

        with Client(address, timeout=30) as client:
            client.wait_for_workers(2, timeout=60)
        sweep = block("parameters.mass=1:2:4", "phase.start.x=0:0.5:4")
        one = table_with(tmp_path, "one", sweep, processes=0)
        assert table_with(tmp_path, "cluster", sweep, scheduler=address) == one
        killed = []

        def kill(done, certified, total):
            if done >= 4 and not killed:
                killed.append(processes[-1].kill())

        assert table_with(tmp_path, "killed", sweep, scheduler=address, tell=kill) == one
        assert killed
    finally:
        for process in processes:
            process.kill()
            process.wait()
