"""Exported feedback policies: compiled C against NumPy written here, the archive read back, and runs that have none."""

import csv
import ctypes
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
from repository import ROOT
from scipy.spatial.transform import Rotation

from dynamics.kernels import find_compiler
from ocp.app import cli
from ocp.app.c_code import function_source, policy_code
from ocp.app.pipeline import run
from ocp.app.runs import export_policy
from ocp.errors import ProblemError
from ocp.shooting.export import policy, policy_arrays, read_policy

QUICK = {"solve.ilqr.intervals": "20", "solve.ilqr.kernels": "interpreted"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of runs: a flat robot and a floating one."""
    folder = tmp_path_factory.mktemp("runs")
    return {name: run(ROOT / "problems" / f"{name}.yaml", method_name="ilqr", overrides=QUICK, out=folder / name,
                      command=["ocp", "solve", str(ROOT / "problems" / f"{name}.yaml")]) for name in ("acrobot", "quadrotor")}


def compiled(folder):
    """The C function of an export, as (t, x) -> u."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C compiler")
    library = folder / "policy.so"
    command = [str(compiler), "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", str(library),
               str(folder / "policy.c"), "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    function = ctypes.CDLL(str(library)).policy
    vector = np.ctypeslib.ndpointer(dtype=float, flags="C_CONTIGUOUS")
    function.argtypes, function.restype = [ctypes.c_double, vector, vector], None

    def call(t, x, nu):
        u = np.empty(nu)
        function(t, np.ascontiguousarray(x, dtype=float), u)
        return u

    return call


def away(system, a, b):
    """b seen from a: differences, and for a floating base the logarithm of the relative pose, by matrices."""
    if system.space.is_vector_space:
        return b - a
    poses = []
    for x in (a, b):
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = Rotation.from_quat(np.roll(x[3:7], -1)).as_matrix(), x[:3]
        poses.append(pose)
    log = np.real(scipy.linalg.logm(np.linalg.inv(poses[0]) @ poses[1]))
    return np.concatenate([log[:3, 3], [log[2, 1], log[0, 2], log[1, 0]], b[7:] - a[7:]])


def disturbed(x, rng, size):
    y = x + size * rng.standard_normal(len(x))
    if len(x) == 13:
        turned = Rotation.from_quat(np.roll(x[3:7], -1)) * Rotation.from_rotvec(size * rng.standard_normal(3))
        y[3:7] = np.roll(turned.as_quat(), 1)
    return y


@pytest.mark.parametrize("name", [pytest.param("acrobot", marks=pytest.mark.slow), "quadrotor"])
def test_c_and_archive_against_the_formula(runs, name, tmp_path):
    outcome = runs[name]
    solution, phase = outcome.solution, outcome.solution.problem.phase
    K, x, u, t = solution.extra["K"], solution.trajectory.x, solution.trajectory.u, solution.trajectory.t
    found, place = export_policy(outcome.folder, out=tmp_path / name)
    call, N = compiled(place), len(u)
    with np.load(place / "policy.npz", allow_pickle=False) as archive:
        again = read_policy(archive)
        assert [str(n) for n in archive["state_names"]] == list(phase.system.space.names)
        assert "Hamilton" in str(archive["conventions"])
    rng = np.random.default_rng(5)
    clipped = 0
    for trial in range(60):
        k = int(rng.integers(N))
        when = t[k] + rng.uniform(0.0, 0.999) * (t[k + 1] - t[k])
        state = disturbed(x[k], rng, [0.0, 1e-9, 0.02, 1.0][trial % 4])
        raw = u[k] + K[k] @ away(phase.system, x[k], state)
        right = np.clip(raw, phase.u_lower, phase.u_upper)
        clipped += int(np.any(raw != right))
        for value in (call(when, state, len(right)), found(when, state), again(when, state)):
            np.testing.assert_allclose(value, right, rtol=1e-9, atol=1e-9)
    assert name == "acrobot" or 3 <= clipped <= 40


@pytest.mark.parametrize("name", ["acrobot", "quadrotor"])
def test_time_before_at_and_after_the_horizon(runs, name, tmp_path):
    solution = runs[name].solution
    found, place = export_policy(runs[name].folder, out=tmp_path / name)
    call, x, u, t = compiled(place), solution.trajectory.x, solution.trajectory.u, solution.trajectory.t
    N, nu = u.shape
    h = t[-1] / N
    for k in range(N):  # k h may lie a rounding error before t_k
        np.testing.assert_allclose(call(k * h * (1 - 1e-15), x[k], nu), u[k], atol=1e-12)
        np.testing.assert_allclose(found(k * h * (1 - 1e-15), x[k]), u[k], atol=1e-12)
        np.testing.assert_allclose(call(t[k + 1] - 1e-6, x[k], nu), u[k], atol=1e-12)
    np.testing.assert_allclose(call(-3.0, x[0], nu), u[0], atol=1e-12)
    for after in (t[-1], t[-1] + 10.0):
        np.testing.assert_allclose(call(after, x[-1], nu), u[-1], atol=1e-12)
        np.testing.assert_allclose(found(after, x[-1]), u[-1], atol=1e-12)
    assert np.all(np.isnan(call(0.0, np.full(x.shape[1], np.nan), nu)))


def test_the_policy_holds_the_motion_against_a_disturbance(runs):
    """In closed loop with the solver's own step, a disturbed start ends nearer to the motion than in open loop."""
    solution = runs["quadrotor"].solution
    made = policy(solution)
    system, stage = solution.problem.phase.system, solution.optimality.horizon.kind(0)
    t, x = solution.trajectory.t, solution.trajectory.x
    ends = []
    for closed in (True, False):
        state = disturbed(x[0], np.random.default_rng(0), 0.03)
        for k in range(len(t) - 1):
            control = made(t[k], state) if closed else solution.trajectory.u[k]
            state = np.asarray(stage.step(t[k], state, control, np.zeros(0), t[k + 1] - t[k])[0]).ravel()
        ends.append(np.linalg.norm(away(system, x[-1], state)))
    assert ends[0] < 0.2 * ends[1]


def test_arrays_are_complete_and_checked(runs):
    made = policy(runs["quadrotor"].solution)
    arrays = policy_arrays(made)
    assert not any(value.dtype.hasobject for value in arrays.values())
    again = read_policy(arrays)
    for name in ("t", "x", "u", "K", "lower", "upper"):
        np.testing.assert_array_equal(getattr(again, name), getattr(made, name))
    assert again.quaternions == (3,)
    assert again.tangent_names == made.tangent_names
    with pytest.raises(ProblemError, match="not an archive"):
        read_policy({"t": made.t})


ROD = """
name: Rod
constants: {m: 2, l: 0.8}
system:
  bodies:
    rod:
      joint: {name: shoulder, kind: revolute, axis: [0, 1, 0], damping: 0.3, effort: 9, velocity: 50}
      mass: m
      com: [0, 0, -l/2]
      inertia: {xx: m*l*l/12, yy: m*l*l/12, zz: 0}
  formulation: inverse_dynamics
phase:
  duration: 1.0
  start: {joints: {shoulder: 0}, rest: true}
  costs:
    - {name: place, running: "5*(q['shoulder'] - 1)**2 + 0.1*v['shoulder']**2"}
    - {name: effort, running: "1e-3*tau['shoulder']**2"}
solve: {method: ilqr, ilqr: {intervals: 20, kernels: interpreted}}
"""


def test_where_accelerations_are_controls_efforts_are_exported(tmp_path):
    """tau = m l^2/3 a + d v + m g l/2 sin q of a rod, clipped to its drive; in the archive, in C, and along the trajectory."""
    (tmp_path / "rod.yaml").write_text(ROD)
    outcome = run(tmp_path / "rod.yaml", method_name="ilqr", out=tmp_path / "run")
    found, place = export_policy(outcome.folder)
    with np.load(place / "policy.npz", allow_pickle=False) as archive:
        again = read_policy(archive)
        assert [archive[f"effort_{key}"].tolist() for key in ("names", "units", "kinds")] == [["shoulder"], ["N m"], ["effort"]]
    assert "u[0]  shoulder: effort [N m], between -9 and 9" in (place / "policy.h").read_text()
    call, rng = compiled(place), np.random.default_rng(2)

    def effort(x, a):
        return 2 * 0.8**2 / 3 * a + 0.3 * x[1] + 2 * 9.81 * 0.4 * np.sin(x[0])

    clipped = 0
    for _ in range(40):
        k = int(rng.integers(20))
        x = found.x[k] + rng.normal(0.0, 0.3, 2)
        a = np.clip(found.u[k] + found.K[k] @ (x - found.x[k]), found.lower, found.upper)[0]
        right = np.clip(effort(x, a), -9, 9)
        clipped += abs(right) == 9
        for value in (found(found.t[k], x), again(found.t[k], x), call(found.t[k], x, 1)):
            assert value == pytest.approx([right], abs=1e-9)
        assert found.law(found.t[k], x) == pytest.approx([a])
    assert 0 < clipped < 40
    rows = list(csv.DictReader((outcome.folder / "trajectory.csv").read_text().splitlines()))
    for row in rows:
        x, a = [float(row["q.shoulder"]), float(row["v.shoulder"])], float(row["shoulder"])
        assert float(row["tau.shoulder"]) == pytest.approx(effort(x, a), abs=1e-12)


def test_archives_of_the_first_version_are_read(runs):
    made = policy(runs["acrobot"].solution)
    arrays = {key: value for key, value in policy_arrays(made).items() if not key.startswith("effort")}
    again = read_policy({**arrays, "version": np.array(1)})
    assert again.effort_names == made.control_names
    np.testing.assert_array_equal(again(0.3, made.x[2]), made(0.3, made.x[2]))


def test_names_cannot_break_out_of_a_comment(runs):
    made = replace(policy(runs["acrobot"].solution), name="evil */ int main(void) {")
    assert "evil * / int" in policy_code(made)["policy.c"]


def test_an_operation_without_c_is_an_error():
    import casadi as ca
    a, b = ca.SX.sym("a"), ca.SX.sym("b")
    with pytest.raises(ProblemError, match="cannot be written in C"):
        function_source(ca.Function("d", [a, b], [ca.erf(b - a)]))


def test_command_and_its_errors(runs, tmp_path, capsys):
    assert cli.guarded(lambda: cli.policy(runs["quadrotor"].folder)) == cli.CERTIFIED
    assert "gains 4 x 12" in capsys.readouterr().out
    assert {f.name for f in (runs["quadrotor"].folder / "policy").iterdir()} == {"policy.npz", "policy.h", "policy.c"}
    assert cli.guarded(lambda: cli.policy(runs["quadrotor"].folder)) == cli.CERTIFIED  # its own folder is replaced
    out = tmp_path / "out"
    assert cli.guarded(lambda: cli.policy(runs["quadrotor"].folder, out=out)) == cli.CERTIFIED
    assert cli.guarded(lambda: cli.policy(runs["quadrotor"].folder, out=out)) == cli.BAD_INPUT
    assert "already holds policy.npz" in capsys.readouterr().err
    assert cli.guarded(lambda: cli.policy(runs["quadrotor"].folder, out=out, overwrite=True)) == cli.CERTIFIED
    assert cli.guarded(lambda: cli.policy(tmp_path)) == cli.BAD_INPUT
    assert "is not the folder of a run" in capsys.readouterr().err
    collocated = run(ROOT / "problems" / "block_move.yaml", out=tmp_path / "block").folder
    assert cli.guarded(lambda: cli.policy(collocated)) == cli.BAD_INPUT
    assert "'collocation' has no feedback gains" in capsys.readouterr().err


def test_the_robot_must_be_the_one_of_the_run(runs, tmp_path):
    with pytest.raises(ProblemError, match="no file"):
        export_policy(runs["quadrotor"].folder, models=tmp_path)
    (tmp_path / "models").mkdir()
    text = (ROOT / "problems" / "models" / "quadrotor.urdf").read_text()
    (tmp_path / "models" / "quadrotor.urdf").write_text(text.replace('mass value="0.5"', 'mass value="0.6"'))
    assert text != (tmp_path / "models" / "quadrotor.urdf").read_text()
    with pytest.raises(ProblemError, match="fingerprint"):
        export_policy(runs["quadrotor"].folder, models=tmp_path)
    assert export_policy(runs["quadrotor"].folder, models=ROOT / "problems", out=tmp_path / "good")[0].K.shape == (20, 4, 12)


def test_gains_are_needed(runs):
    solution = runs["acrobot"].solution
    with pytest.raises(ProblemError, match="ended before a sweep"):
        policy(replace(solution, extra={}))
    with pytest.raises(ProblemError, match="not finite"):
        policy(replace(solution, extra={"K": np.full_like(solution.extra["K"], np.nan)}))
