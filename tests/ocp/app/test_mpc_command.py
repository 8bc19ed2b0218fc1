"""``ocp mpc`` as a user meets it: the folder, the table, the page, the same file twice, and what it says of mistakes."""

import csv
import json
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from commands import call
from repository import ROOT

from ocp.app.files.load import load_problem, load_text
from ocp.app.files.problem.schema import problem_json_schema
from ocp.app.files.syntax.findings import ProblemFileError
from ocp.app.mpc.run import load_mpc_file
from ocp.mpc import MPCOptions

FOLDER = ROOT / "problems"
BALANCE = FOLDER / "mpc" / "cartpole_balance.yaml"


@pytest.fixture(scope="module")
def balance(tmp_path_factory):
    """The folder of a short run with noise, mismatch and a kick, written once."""
    out = tmp_path_factory.mktemp("mpc") / "balance"
    assert call("mpc", BALANCE, "--out", out, "--quiet", "--set", "mpc.duration=1.2", "--set",
                "mpc.disturbances.kicks[0].time=0.5") == 0
    return out


def test_the_folder_is_complete(balance):
    names = {p.name for p in balance.iterdir()}
    assert names == {"problem.yaml", "trajectory.npz", "trajectory.csv", "steps.csv", "summary.json", "tracking.png", "states.png",
                     "controls.png", "times.png", "report.html"}
    summary = json.loads((balance / "summary.json").read_text())
    assert summary["ok"] is True
    assert summary["format"] == "lieocp closed loop"
    assert summary["sizes"] == {"states": 4, "controls": 1, "intervals": 20, "steps": 600}
    assert [k["name"] for k in summary["tracking"]] == ["cart", "pole"]
    assert summary["plant"]["changes"] == ["constants.m2 = 0.4"]
    assert summary["cost"] == pytest.approx(sum(summary["costs"].values()))
    assert summary["step_times"]["deadline"] == pytest.approx(2e-3)
    assert summary["step_times"]["steps"] == 600
    assert [v["name"] for v in summary["violations"]] == ["control bounds"]
    assert summary["provenance"]["seed"] == 1
    for name in ("tracking", "states", "controls", "times"):
        assert (balance / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_archive_and_tables_agree(balance):
    with np.load(balance / "trajectory.npz", allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    assert arrays["x"].shape == (601, 4)
    assert arrays["u"].shape == (600, 1)
    assert arrays["fine_x"].shape == (1201, 4)
    assert arrays["tracking_names"].tolist() == ["cart", "pole"]
    # the kick of 1 rad/s at half a second is in the trajectory, where nothing else comes near it
    jump = np.abs(np.diff(arrays["fine_x"][:, 3]))
    assert 0.5 <= arrays["fine_t"][jump.argmax() + 1] <= 0.5 + 2e-3
    rows = list(csv.DictReader((balance / "trajectory.csv").read_text().splitlines()))
    assert [float(row["x.theta"]) for row in rows] == arrays["x"][:, 1].tolist()
    assert rows[-1]["u.force"] == ""
    steps = list(csv.DictReader((balance / "steps.csv").read_text().splitlines()))
    assert len(steps) == 600
    assert all(float(row["microseconds"]) > 0 for row in steps)
    summary = json.loads((balance / "summary.json").read_text())
    error = arrays["tracking_value"][:, 0] - 0.3 * np.sin(2 * arrays["fine_t"])  # the reference of the file, written again
    assert np.abs(error).max() == pytest.approx(summary["tracking"][0]["largest"], rel=1e-12)
    assert np.abs(error).max() < 0.3


def test_the_report_stands_alone(balance):
    page = (balance / "report.html").read_text(encoding="utf-8")
    assert "Cart-pole balancing on a moving target" in page
    assert "Every step kept the deadline" in page or "missed the deadline" in page
    assert not re.findall(r"(?:src|href)=\"(?!data:)", page)
    assert page.count("<img") == 4
    assert 'id="scene"' in page
    assert "constants.m2 = 0.4" in page


def test_the_same_file_gives_the_same_run_bit_by_bit(balance, tmp_path):
    """From the expanded file of the first run, so that nothing is left to the command line."""
    assert call("mpc", balance / "problem.yaml", "--out", tmp_path / "again", "--quiet") == 0
    for name in ("trajectory.npz", "trajectory.csv", "problem.yaml"):
        assert (tmp_path / "again" / name).read_bytes() == (balance / name).read_bytes(), name


def test_what_the_terminal_says(tmp_path, capsys):
    assert call("mpc", BALANCE, "--out", tmp_path / "run", "--set", "mpc.duration=0.3") == 0
    printed = capsys.readouterr().out
    for words in ("finished", "tracking error", "cart", "cost of the closed loop", "control bounds", "99.9 %", "deadline", "of 150",
                  "constants.m2 = 0.4"):
        assert words in printed, words


def test_a_run_that_diverges_exits_with_one_and_is_kept(tmp_path, capsys):
    """A pole hit so hard that no force of the cart catches it, in a plant that explodes."""
    assert call("mpc", BALANCE, "--out", tmp_path / "run", "--quiet", "--set", "mpc.duration=1", "--set",
                "mpc.disturbances.kicks=[{time: 0.5, state: {omega: 1e160}}]") == 1
    assert "finite" in capsys.readouterr().out
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["status"]["name"] == "DIVERGED" or summary["failed_steps"]
    assert (tmp_path / "run" / "report.html").stat().st_size > 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ on Windows")
def test_interrupting_a_run_keeps_what_it_has(tmp_path):
    """Ctrl-C in the middle: the folder is written with what ran, and the exit code says that it did not finish."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from ocp.app.cli import main; main()", "mpc", str(BALANCE), "--out", str(tmp_path / "run"), "--set",
         "mpc.duration=2000"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=FOLDER.parent)
    for line in process.stdout:
        if "t = " in line:  # the clock of the run has begun
            process.send_signal(signal.SIGINT)
            break
    printed = process.communicate(timeout=120)[0]
    assert process.returncode == 1, printed
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["status"]["name"] == "INTERRUPTED"
    assert 0 < summary["sizes"]["steps"] < 1_000_000


@pytest.mark.parametrize("name", ["cartpole_swingup", *(
    pytest.param(name, marks=pytest.mark.slow) for name in ("quadrotor_track", "panda_track"))])
def test_shipped_files_run(name, tmp_path):
    out = tmp_path / name
    assert call("mpc", FOLDER / "mpc" / f"{name}.yaml", "--out", out, "--quiet", "--set", "mpc.duration=2.5") == 0
    summary = json.loads((out / "summary.json").read_text())
    with np.load(out / "trajectory.npz", allow_pickle=False) as archive:
        t, value, reference = archive["fine_t"], archive["tracking_value"], archive["tracking_reference"]
    late = t > 2.0
    error = np.linalg.norm((value - reference)[late], axis=1).max()
    limits = {"cartpole_swingup": 10.0, "quadrotor_track": 0.15, "panda_track": 0.05}
    assert error < limits[name]
    assert {v["name"]: v["largest"] for v in summary["violations"]}["control bounds"] == 0.0
    assert summary["failed_steps"] == 0


def test_the_swing_up_ends_upright(tmp_path):
    out = tmp_path / "up"  # the way up depends on rounding, the rest that it ends at does not
    assert call("mpc", FOLDER / "mpc" / "cartpole_swingup.yaml", "--out", out, "--quiet", "--set", "mpc.duration=8") == 0
    with np.load(out / "trajectory.npz", allow_pickle=False) as archive:
        assert archive["x"][-1] == pytest.approx([0.0, np.pi, 0.0, 0.0], abs=0.01)


# ---- mistakes -----------------------------------------------------------------------------------------------------------
TEXT = BALANCE.read_text(encoding="utf-8")
ROBOT = (FOLDER / "mpc" / "quadrotor_track.yaml").read_text(encoding="utf-8")
MISTAKES = {
    "unknown key": (TEXT, "  rate: 500", "  rat: 500", "mpc.rat", "did you mean 'rate'"),
    "rate": (TEXT, "rate: 500", "rate: -5", "mpc.rate", "must be positive"),
    "iterations": (TEXT, "  intervals: 20\n  track", "  iterations: 0\n  track", "mpc.iterations", "greater than or equal to 1"),
    "delay": (TEXT, "  horizon: 1.0\n", "  delay: late\n", "mpc.delay", "expected one of none, predicted, ignored"),
    "twice": (TEXT, "  intervals: 20\n  track", "  intervals: 20\n  ilqr: {intervals: 30}\n  track", "mpc.intervals",
              "give one of them"),
    "option": (TEXT, "  intervals: 20\n  track", "  ilqr: {penality: 3}\n  track", "mpc.ilqr.penality", "did you mean 'penalty'"),
    "track name": (TEXT, "quantity: x,", "quantity: y,", "mpc.track[0].quantity", "unknown name 'y'"),
    "reference of the state": (TEXT, "reference: ref,", "reference: ref + v,", "mpc.track[0].reference", "function of the time t"),
    "sizes": (TEXT, "quantity: theta, reference: pi", "quantity: [theta, omega, x], reference: [pi, 0]", "mpc.track[1].reference",
              "has 2 components, the quantity 3"),
    "noise name": (TEXT, "process_noise: {v: 0.02", "process_noise: {vv: 0.02", "mpc.disturbances.process_noise.vv",
                   "no state named"),
    "negative noise": (TEXT, "measurement_noise: {x: 0.001", "measurement_noise: {x: -1", "mpc.disturbances.measurement_noise.x",
                       "must not be negative"),
    "kick in the past": (TEXT, "time: 3,", "time: -3,", "mpc.disturbances.kicks[0].time", "must not be negative"),
    "empty push": (TEXT, "duration: 0.5, controls: {force: 3}", "duration: 0.5", "mpc.disturbances.pushes[0]", "has no effect"),
    "push control": (TEXT, "controls: {force: 3}", "controls: {torque: 3}", "mpc.disturbances.pushes[0].controls.torque",
                     "no control named"),
    "no frames": (TEXT, "controls: {force: 3}", "force: {frame: a, force: [1, 0, 0]}", "mpc.disturbances.pushes[0].force",
                  "only a robot has frames"),
    "set elsewhere": (TEXT, "constants.m2: 0.4", "phase.duration: 2", 'mpc.plant.set["phase.duration"]',
                      "does not belong to the plant"),
    "set unknown": (TEXT, "constants.m2: 0.4", "constants.m9: 0.4", 'mpc.plant.set["constants.m9"]', "has no 'm9'"),
    "set wrong": (TEXT, "constants.m2: 0.4", "constants.m2: heavy", "mpc.plant.set", "unknown name 'heavy'"),
    "masses": (TEXT, "    set: {constants.m2: 0.4}", "    masses: {pole: 1}", "mpc.plant.masses.pole", "only a robot has bodies"),
    "body": (ROBOT, "masses: {body: 0.55}", "masses: {boby: 0.55}", "mpc.plant.masses.boby", "did you mean 'body'"),
    "joint": (ROBOT, "masses: {body: 0.55}", "damping: {knee: 0.1}", "mpc.plant.damping.knee", "no joint that moves named 'knee'"),
    "frame": (ROBOT, "frame: body, force", "frame: bod, force", "mpc.disturbances.pushes[0].force.frame", "did you mean 'body'"),
    "definition": (ROBOT, 'z_ref: "1 -', 'z_ref: "zz -', "system.define.z_ref", "unknown name 'zz'"),
    "definition of a control": (ROBOT, "    x_ref:", "    front: 1\n    x_ref:", "system.define.front",
                                "already used by the controls"),
}


@pytest.mark.parametrize(("text", "old", "new", "where", "words"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_have_a_place(text, old, new, where, words):
    assert text.count(old) == 1
    changed = text.replace(old, new)
    with pytest.raises(ProblemFileError) as caught:
        load_text(changed, FOLDER / "mpc", "file.yaml")
    message = str(caught.value)
    assert f": {where}: " in message, message
    assert words in message, message
    line = int(re.search(rf"file\.yaml:(\d+):\d+: {re.escape(where)}", message)[1])
    assert new.strip().splitlines()[0][:12] in "\n".join(changed.splitlines()[line - 1:line + 1])


def test_a_file_without_the_section_takes_every_default(capsys):
    loaded = load_mpc_file(FOLDER / "block_move.yaml", {"phase.duration": "1.5"})
    assert "has no section 'mpc'" in capsys.readouterr().err
    assert loaded.mpc.options == MPCOptions()


def test_free_durations_need_a_horizon():
    text = TEXT.replace("  horizon: 1.0\n", "").replace("duration: 1.0", "duration: {lower: 0.5, upper: 2}")
    with pytest.raises(ProblemFileError, match="set 'horizon'"):
        load_text(text, FOLDER / "mpc", "file.yaml")


def test_plants_are_read():
    loaded = load_problem(FOLDER / "mpc" / "quadrotor_track.yaml")
    system, plant = loaded.problem.phase.system, loaded.mpc.plant
    assert plant.changed == ("mass of body = 0.55 kg",)
    assert plant.system.model.mass == pytest.approx(0.55)
    assert system.model.mass == pytest.approx(0.5)
    # inertia about the centre of mass goes with the mass
    old, new = (np.array(s.model.bodies[0].inertia.inertia) for s in (system, plant.system))
    assert new == pytest.approx(1.1 * old)
    x, u = np.array(loaded.problem.phase.start.value), np.full(4, 0.5 * 9.81 / 4)
    fall = np.array(plant.system.rate(0, x, u, []) - system.rate(0, x, u, [])).ravel()
    assert fall[8] == pytest.approx(0.5 * 9.81 / 0.55 - 9.81)
    noise = plant.disturbances
    assert noise.process == (0.0,) * 6 + (0.05,) * 3 + (0.0,) * 3
    assert noise.measurement == (0.002,) * 6 + (0.01,) * 6


def test_damping_of_a_joint_of_the_plant():
    loaded = load_problem(FOLDER / "mpc" / "panda_track.yaml", {"mpc.plant": "{damping: {panda_joint1: 0.5}}"})
    x = np.array(loaded.problem.phase.start.value)
    x[7] = 1.0
    import dynamics

    model = loaded.problem.phase.system.model
    a, b = (np.array(s.rate(0, x, np.zeros(7), [])).ravel()[7:] for s in (loaded.problem.phase.system, loaded.mpc.plant.system))
    M = np.array(dynamics.make(model, "mass_matrix")(x[:7]))
    old = model.bodies[0].joint.damping[0]
    assert M @ (b - a) == pytest.approx([old - 0.5, 0, 0, 0, 0, 0, 0], abs=1e-10)


def test_the_schema_knows_the_section():
    schema = problem_json_schema()
    for kind in ("SymbolicProblem", "RobotProblem"):
        assert "mpc" in schema["$defs"][kind]["properties"]
    assert "delay" in schema["$defs"]["MPC"]["properties"]
