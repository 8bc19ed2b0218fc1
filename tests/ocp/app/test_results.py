"""A run folder: what it holds, that it comes back, and that no half-written or foreign folder is taken for one."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_solutions import DURATION, INTERVALS, cart, cart_state, certificate

from ocp.app.pages import folders, plots, results
from ocp.app.pages.folders import jsonable, restore
from ocp.app.pages.iterations import columns, iteration_table
from ocp.app.pages.legs import legs
from ocp.app.pages.report import CAPTIONS
from ocp.app.pages.results import read_run, write_data, write_run
from ocp.app.pages.sheet import round_numbers
from ocp.errors import ProblemError
from ocp.problem import At, Constraint, Kind, Residual, Sense, Status, Violation

YAML = "name: cart swing\n# every default written out\nphase: {duration: 2.0}\n"
PROVENANCE = {"versions": {"casadi": "3.8.2"}, "machine": "a machine", "seed": 3, "command": "ocp solve cart.yaml"}
FILES = {"problem.yaml", "trajectory.npz", "trajectory.csv", "summary.json", "iterations.jsonl", "report.html",
         "states.png", "controls.png", "constraints.png", "certificate.png", "convergence.png"}


def write(folder: Path, solution=None, **options) -> Path:
    return write_run(solution or cart(), folder, problem_yaml=YAML, provenance=PROVENANCE, **options)


def written(folder: Path, solution=None, **options) -> Path:
    """Without pictures, which take time."""
    return write_data(solution or cart(), folder, problem_yaml=YAML, provenance=PROVENANCE, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("results") / "cart" / "collocation")


def strict(text: str) -> object:
    """JSON as the standard has it: no NaN, no Infinity."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


# ------------------------------------------------------------------------------------------------ contents
def test_a_run_holds_exactly_its_files_and_leaves_nothing_beside_it(run: Path) -> None:
    assert {p.name for p in run.iterdir()} == FILES
    assert [p.name for p in run.parent.iterdir()] == [run.name]
    assert (run / "problem.yaml").read_text() == YAML


def test_arrays_come_back_bit_by_bit_without_pickle(run: Path) -> None:
    solution, record = cart(), read_run(run)
    for name in ("t", "x", "u", "t_u"):
        assert np.array_equal(record.arrays[name], getattr(solution.trajectory, name))
    assert np.array_equal(record.arrays["K"], solution.extra["K"])
    assert record.arrays["state_names"].tolist() == ["position", "angle", "velocity", "spin"]
    assert record.arrays["control_names"].tolist() == ["force"]
    assert set(record.arrays) == {"t", "x", "u", "t_u", "state_names", "control_names", *solution.extra}


def test_the_certificate_comes_back_as_data(run: Path) -> None:
    assert read_run(run).certificate == certificate()


def test_summary_says_what_was_solved_how_and_with_what(run: Path) -> None:
    summary = read_run(run).summary
    assert summary["status"] == {"name": "CONVERGED", "sentence": "The method reached its tolerances.", "message": ""}
    assert summary["ok"] is True
    assert summary["objective"] == 60.3
    assert summary["provenance"] == PROVENANCE
    assert summary["options"] == {"scheme": "trapezoid", "intervals": INTERVALS}
    assert summary["seconds"] == {"solve": 0.4, "total": 0.5}
    assert summary["reference"]["relative_difference"] == pytest.approx(0.3 / 60.0)
    assert summary["reference"]["agrees"] is True
    assert summary["certificate"]["violations"][0] == {
        "name": "rail", "phase": "", "label": "rail", "at_knots": 2e-9, "between_knots": 3e-4, "time": 0.8, "component": "rail",
        "tolerance": 1e-6, "soft": False, "tolerance_between": "Infinity", "time_between": None, "holds": True}


def test_a_reference_beyond_its_tolerance_does_not_agree(tmp_path: Path) -> None:
    summary = read_run(written(tmp_path / "run", cart(objective=61.0))).summary
    assert summary["reference"]["agrees"] is False


def test_csv_carries_names_and_the_interpolated_controls_at_knots(run: Path) -> None:
    rows = list(csv.reader(io.StringIO((run / "trajectory.csv").read_text())))
    assert rows[0] == ["t", "position", "angle", "velocity", "spin", "force"]
    table = np.array(rows[1:], float)
    knots = np.linspace(0.0, DURATION, INTERVALS + 1)
    assert np.array_equal(table[:, 0], knots)
    assert np.array_equal(table[:, 1:5], cart_state(knots))
    # a held control: at a knot the value of the interval that begins there, at the end that of the last
    assert np.array_equal(table[:, 5], np.append(np.linspace(-3, 3, INTERVALS), 3.0))


def test_csv_names_of_states_and_controls_stay_apart(tmp_path: Path) -> None:
    solution = cart()
    phase = solution.problem.phase
    system = replace(phase.system, controls=("angle",))
    problem = replace(solution.problem, phases=(replace(phase, system=system),))
    header = (written(tmp_path / "run", cart(problem=problem)) / "trajectory.csv").read_text().splitlines()[0]
    assert header == "t,position,x.angle,velocity,spin,u.angle"


def test_equal_solutions_give_equal_archives(run: Path, tmp_path: Path) -> None:
    again = written(tmp_path / "run")
    assert (again / "trajectory.npz").read_bytes() == (run / "trajectory.npz").read_bytes()


def test_extra_arrays_never_hide_the_trajectory(tmp_path: Path) -> None:
    record = read_run(written(tmp_path / "run", cart(extra={"x": np.array([7.0])})))
    assert np.array_equal(record.arrays["x"], cart().trajectory.x)
    assert np.array_equal(record.arrays["extra_x"], [7.0])


def test_an_array_that_needs_pickle_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="'gains' holds Python objects"):
        written(tmp_path / "run", cart(extra={"gains": np.array([{}, None], dtype=object)}))
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------ not finite
def test_not_finite_numbers_are_valid_json_and_come_back(tmp_path: Path) -> None:
    broken = certificate(stationarity=Residual(Kind.STATIONARITY, math.nan, 1e-6),
                         violations=(Violation("rail", math.inf, 0.0, 0.1, "rail", 1e-6),))
    solution = cart(certificate=broken, objective=-math.inf, status=Status.NOT_A_NUMBER,
                    iterations=({"iteration": 0, "objective": math.nan, "inf_pr": math.inf},))
    folder = written(tmp_path / "run", solution)
    summary = strict((folder / "summary.json").read_text())
    assert summary["objective"] == "-Infinity"  # type: ignore[index]
    record = read_run(folder)
    assert math.isnan(record.certificate.stationarity.value)  # type: ignore[union-attr]
    assert record.certificate.violations == broken.violations  # type: ignore[union-attr]
    (row,) = record.iterations
    assert math.isnan(row["objective"])
    assert row["inf_pr"] == math.inf
    for line in (folder / "iterations.jsonl").read_text().splitlines():
        strict(line)


def test_plain_data_of_everything_an_option_may_hold() -> None:
    value = {"path": Path("a/b"), "at": At.PATH, "n": np.int64(3), "flag": np.True_, "x": np.float32(0.5), "v": np.eye(2),
             "deep": ({"y": math.nan},), 3: None, "set": {"b", "a"}}
    assert jsonable(value) == {"path": "a/b", "at": "PATH", "n": 3, "flag": True, "x": 0.5, "v": [[1.0, 0.0], [0.0, 1.0]],
                               "deep": [{"y": "NaN"}], "3": None, "set": ["a", "b"]}
    assert [restore(v) for v in ("Infinity", "-Infinity", "infinite", 2)] == [math.inf, -math.inf, "infinite", 2]


@pytest.mark.parametrize("poison", [math.nan, math.inf, 1e300])
def test_a_diverged_solution_is_still_written_and_drawn(tmp_path: Path, poison: float) -> None:
    solution = cart()
    states = solution.trajectory.x.copy()
    states[8:] = poison
    trajectory = replace(
        solution.trajectory, x=states, state=lambda t: np.where(np.asarray(t)[:, None] > 0.7, poison, cart_state(t)))
    record = read_run(write(tmp_path / "run", cart(
        trajectory=trajectory, status=Status.DIVERGED, certificate=None, iterations=(), extra={})))
    assert np.array_equal(record.arrays["x"], states, equal_nan=True)
    assert record.summary["certificate"] is None
    assert record.certificate is None
    assert record.summary["ok"] is False


# ------------------------------------------------------------------------------------------------ folders
def test_an_interrupted_write_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(results, "solution_csv", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_the_folder_appears_only_when_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    original = folders._put_in_place

    def watch(partial: Path, target: Path) -> None:
        seen.append(target.exists())
        assert {p.name for p in partial.iterdir()} == FILES
        original(partial, target)

    monkeypatch.setattr(folders, "_put_in_place", watch)
    write(tmp_path / "run")
    assert seen == [False]


def test_an_earlier_run_is_replaced_only_when_asked_and_survives_a_failure(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "run")
    with pytest.raises(ProblemError, match="already holds a run"):
        write(folder)
    (folder / "stale.txt").write_text("from the earlier run")
    write(folder, cart(objective=1.0), overwrite=True)
    assert read_run(folder).summary["objective"] == 1.0
    assert {p.name for p in folder.iterdir()} == FILES
    monkeypatch.setattr(results, "solution_csv", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write(folder, overwrite=True)
    assert read_run(folder).summary["objective"] == 1.0
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_an_earlier_run_comes_back_when_the_new_one_cannot_take_its_place(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "run")
    rename, calls = os.rename, []

    def fail_second(a: Path, b: Path) -> None:
        calls.append((a, b))
        if len(calls) == 2:
            raise OSError("disk on fire")
        rename(a, b)

    monkeypatch.setattr(folders.os, "rename", fail_second)
    with pytest.raises(OSError, match="disk on fire"):
        written(folder, cart(objective=1.0), overwrite=True)
    assert read_run(folder).summary["objective"] == 60.3
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_what_a_killed_process_leaves_is_not_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders.shutil, "rmtree", lambda *_, **__: None)  # a killed process does not tidy up
    monkeypatch.setattr("ocp.app.pages.report.render_report", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "run")
    (left,) = tmp_path.iterdir()
    assert any(left.iterdir())
    assert not folders.is_run(left)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_is_not_a_run_is_never_touched(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    (tmp_path / "summary.json").write_text('{"format": "something else"}')
    with pytest.raises(ProblemError, match="holds no earlier run"):
        written(tmp_path, overwrite=overwrite)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_file_in_the_way_is_refused_and_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProblemError, match="is not a folder"):
        written(tmp_path / "file", overwrite=True)
    (tmp_path / "empty").mkdir()
    assert read_run(written(tmp_path / "empty")).summary["ok"] is True


def test_reading_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="not the folder of a run"):
        read_run(tmp_path / "absent")
    folder = written(tmp_path / "run")
    (folder / "trajectory.npz").unlink()
    with pytest.raises(ProblemError, match=r"trajectory\.npz missing"):
        read_run(folder)


# ------------------------------------------------------------------------------------------------ plots
def test_samples_follow_the_interpolant_and_touch_both_sides_of_every_jump() -> None:
    solution = cart()
    samples = legs(solution)[0].samples
    assert np.allclose(samples.x, cart_state(samples.t), rtol=0, atol=0)
    jump = DURATION / INTERVALS
    near = np.abs(samples.t - jump) < 1e-7
    assert sorted(samples.u[near, 0].tolist()) == solution.trajectory.u[:2, 0].tolist()
    assert samples.t[0] == 0.0
    assert samples.t[-1] == DURATION


def test_constraint_values_are_those_of_the_problem() -> None:
    phase = cart().problem.phase
    t = np.array([0.5, 1.0])
    x, u = cart_state(t), np.zeros((2, 1))
    rail, cone, goal = (plots.constraint_values(c, phase.system, t, x, u) for c in phase.constraints)
    assert np.array_equal(rail[0], [[0.5], [1.0]])
    # |(position, length)| - 5, not above zero
    assert np.allclose(cone[0][:, 0], [math.hypot(0.5, 0.5) - 5, math.hypot(1.0, 0.5) - 5])
    assert cone[1].pairs() == [(-math.inf, 0.0)]
    assert np.array_equal(goal[0], [[0.5, 0.25], [1.0, 1.0]])
    assert goal[2] == ("[0]", "[1]")


def test_every_picture_is_a_png_whatever_the_names(tmp_path: Path) -> None:
    solution = cart()
    phase = solution.problem.phase
    names = Constraint(r"$\frac{$ 角度 _x", At.PATH, phase.constraints[0].function, (0.0,), (1.0,), sense=Sense.BOX, soft=1.0)
    problem = replace(solution.problem, phases=(replace(phase, constraints=(names,)),))
    for name, data in plots.plot_run(replace(solution, problem=problem)).items():
        assert name in CAPTIONS
        assert data.startswith(b"\x89PNG\r\n")


def test_panels_keep_quaternions_together_and_stay_few() -> None:
    names = ["base.x", "base.qw", "base.qx", "base.qy", "base.qz", *(f"j{k}" for k in range(40))]
    groups = plots.bundle(names, range(len(names)), {}, (1,), 8)
    assert [1, 2, 3, 4] in groups
    assert sorted(i for g in groups for i in g) == list(range(45))
    assert len(groups) <= 8 + 2
    assert plots.stem([names[i] for i in (1, 2, 3, 4)]) == ("base", ("qw", "qx", "qy", "qz"))


@pytest.mark.parametrize(("low", "high"), [(-1.0, 2.0), (0.0, 1e-7), (-3e5, 4e5), (0.31, 0.34)])
def test_ticks_are_round_numbers_within_the_axis(low: float, high: float) -> None:
    ticks = round_numbers(low, high, 4, "linear")
    assert 2 <= len(ticks) <= 6
    assert all(low - 1e-6 * (high - low) <= v <= high + 1e-6 * (high - low) for v in ticks)
    step = ticks[1] - ticks[0]
    lead = step / 10 ** math.floor(math.log10(step * (1 + 1e-9)))
    assert min(abs(lead - m) for m in (1, 2, 2.5, 5)) < 1e-6
    assert all(float(v).is_integer() for v in round_numbers(-8.3, 2.1, 4, "log"))


# ------------------------------------------------------------------------------------------------ iteration table
def test_a_column_that_comes_late_gets_a_new_header() -> None:
    out = io.StringIO()
    with iteration_table("collocation", stream=out) as show:
        show({"iteration": 0, "objective": math.nan})
        show({"iteration": 1, "objective": 2.0, "inf_pr": 1e-2})
    assert [line.split() for line in out.getvalue().splitlines()] == [
        ["iter", "objective"], ["0", "nan"], ["iter", "objective", "inf_pr"], ["1", "2.00000000e+00", "1.00e-02"]]


def test_a_terminal_shows_the_last_rows_and_their_number() -> None:
    out = io.StringIO()
    with iteration_table("ilqr", stream=out, live=True) as show:
        for k in range(50):
            show({"iteration": k, "cost": 1000.0 + k})
    text = out.getvalue()
    assert "1.04900000e+03" in text
    assert "50 iterations" in text
    assert "1.00000000e+03" not in text.splitlines()[-3]


def test_methods_order_their_columns_and_lose_none() -> None:
    rows = [{"gradient": 1.0, "other": 2.0, "cost": 3.0, "iteration": 0}]
    assert [c.key for c in columns("ilqr", rows)] == ["iteration", "cost", "gradient", "other"]
    assert [c.key for c in columns("a method of tomorrow", rows)] == ["iteration", "gradient", "other", "cost"]


def test_the_summary_has_its_version_findings_and_units(run):
    summary = json.loads((run / "summary.json").read_text())
    assert summary["format_version"] == results.FORMAT_VERSION == 2
    assert summary["units"]["time"] == "s"
    assert {name: unit for name, unit in summary["units"].items() if name != "time"} == dict(cart().problem.phase.system.units)
    assert isinstance(summary["findings"], list)


def test_runs_of_earlier_versions_are_read(run, tmp_path):
    """Version 1 had no units, and before that no findings beside the notes; a later version is refused by its number."""
    import shutil

    for name, change in (("one", {"format_version": 1}), ("older", {"format_version": 1, "findings": None}),
                         ("later", {"format_version": 3})):
        shutil.copytree(run, tmp_path / name)
        summary = json.loads((run / "summary.json").read_text()) | change
        summary = {key: value for key, value in summary.items() if value is not None and (key != "units" or name == "later")}
        (tmp_path / name / "summary.json").write_text(json.dumps(summary))
    for name in ("one", "older"):
        found = read_run(tmp_path / name)
        assert found.summary["objective"] == read_run(run).summary["objective"]
        assert found.certificate == read_run(run).certificate
        np.testing.assert_array_equal(found.arrays["x"], read_run(run).arrays["x"])
    with pytest.raises(ProblemError, match="format version 3; this version reads up to 2"):
        read_run(tmp_path / "later")
