"""``ocp export``: MuJoCo at the exported qpos has the bodies where we have them, C gives what NumPy gives, torques are those of the
equations of motion."""

import ctypes
import subprocess

import mujoco
import numpy as np
import pytest
from commands import call
from mujoco_twin import mjcf
from repository import ROOT
from scipy.interpolate import interp1d
from scipy.spatial.transform import Rotation, Slerp

import dynamics
from dynamics.kernels import find_compiler
from ocp.app.c_code import motion_code
from ocp.app.export import Motion, arrays, export, motions
from ocp.app.files.load import load_problem
from ocp.app.pages.results import read_run
from ocp.app.pipeline import run_loaded
from ocp.errors import ProblemError

PROBLEMS = ROOT / "problems"
INVERSE = """
name: arm
system: {robot: ROBOT, formulation: inverse_dynamics}
phase:
  duration: 1
  start: {joints: {panda_joint1: 0.3, panda_joint4: -1, panda_joint6: 1}, others: neutral}
  final: {joints: {panda_joint1: 1.0, panda_joint4: -1.5}, rest: true}
  costs: [{name: effort, control_error: 0, weights: 1}]
solve: {method: collocation, collocation: {scheme: trapezoid, intervals: 8, refine: none}}
"""


@pytest.fixture(scope="module")
def quadrotor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "quadrotor"
    quick = {"solve.ilqr.intervals": "20", "solve.ilqr.max_iterations": "5", "solve.ilqr.kernels": "interpreted"}
    return run_loaded(load_problem(PROBLEMS / "quadrotor.yaml", quick), "quadrotor", method_name="ilqr", out=folder, draw=False)


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arm")
    (folder / "arm.yaml").write_text(INVERSE.replace("ROBOT", str(PROBLEMS / "models" / "panda.urdf")))
    return run_loaded(load_problem(folder / "arm.yaml"), "arm", out=folder / "run", draw=False)


def replayed(model, archive, row):
    """Poses [bodies, 3, 4] of MuJoCo at the row of an export, and its velocity of every body's origin [bodies, 6] (world axes)."""
    twin = mujoco.MjModel.from_xml_string(mjcf(model))
    names = [mujoco.mj_id2name(twin, mujoco.mjtObj.mjOBJ_JOINT, j) for j in range(twin.njnt)]
    data = mujoco.MjData(twin)
    assert [name.split(".")[0] for name in archive["qpos_names"].tolist()] == [
        name for j, name in enumerate(names) for _ in range({0: 7, 1: 4}.get(int(twin.jnt_type[j]), 1))]
    data.qpos[:], data.qvel[:] = archive["qpos"][row], archive["qvel"][row]
    mujoco.mj_forward(twin, data)
    poses, speeds = [], []
    for body in model.bodies:
        at = twin.body(body.name).id
        poses.append(np.column_stack([data.xmat[at].reshape(3, 3), data.xpos[at]]))
        speed = np.zeros(6)
        mujoco.mj_objectVelocity(twin, data, mujoco.mjtObj.mjOBJ_XBODY, at, speed, 0)
        speeds.append(speed)
    return np.array(poses), np.array(speeds)


@pytest.mark.parametrize("which", ["quadrotor", "arm"])
def test_mujoco_replays_the_motion(which, request, tmp_path):
    outcome = request.getfixturevalue(which)
    system = outcome.solution.problem.phase.system
    export(outcome.folder, ["npz"], out=tmp_path)
    with np.load(tmp_path / "motion.npz", allow_pickle=False) as found:
        archive = dict(found)
    x = outcome.solution.trajectory.x
    assert archive["x"].tobytes() == x.tobytes()
    for row in (0, len(x) // 2, len(x) - 1):
        poses, speeds = replayed(system.model, archive, row)
        q, v = x[row, :system.model.nq], x[row, system.model.nq:]
        ours = np.asarray(dynamics.make(system.model, "body_poses")(q)).reshape(3, -1, 4).transpose(1, 0, 2)
        np.testing.assert_allclose(poses, ours, atol=1e-12)
        h, first = 1e-6, ours[:, :, 3]
        moved = np.asarray(system.space.plus(x[row], h * np.r_[v, 0 * v])).ravel()[:system.model.nq]
        after = np.asarray(dynamics.make(system.model, "body_poses")(moved)).reshape(3, -1, 4).transpose(1, 0, 2)[:, :, 3]
        np.testing.assert_allclose(speeds[:, 3:], (after - first) / h, atol=1e-4)


def test_urdf_files_have_the_same_order_in_mujoco(tmp_path):
    """Of robot files that MuJoCo reads by itself."""
    from dynamics.notation.adapters import coordinate_names

    for name in ("humanoid", "panda", "space_manipulator", "quadruped"):
        text = (PROBLEMS / "models" / f"{name}.urdf").read_text()
        (tmp_path / "robot.urdf").write_text(text.replace("<robot ", "<robot ", 1))
        twin = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.urdf"))
        theirs = [mujoco.mj_id2name(twin, mujoco.mjtObj.mjOBJ_JOINT, j) for j in range(twin.njnt)]
        assert list(coordinate_names(dynamics.load(PROBLEMS / "models" / f"{name}.urdf").model, "mujoco")[0]) == theirs


def test_torques_are_those_of_the_equations_of_motion(arm):
    """Controls are accelerations: the torques beside them are inverse dynamics, in the archive and in the export."""
    read = read_run(arm.folder)
    system, arrays_ = arm.solution.problem.phase.system, read.arrays
    model = system.model
    q, v = arrays_["x"][:, :model.nq], arrays_["x"][:, model.nq:]
    a = np.asarray(arm.solution.trajectory.control(arrays_["t"]))
    M, h = (dynamics.make(model, name) for name in ("mass_matrix", "bias_force"))
    for k in range(len(q)):
        wanted = np.asarray(M(q[k])) @ a[k] + np.asarray(h(q[k], v[k])).ravel()
        np.testing.assert_allclose(arrays_["tau"][k], wanted, atol=1e-9)
    motion, = motions(arm.folder)
    np.testing.assert_allclose(motion.tau, arrays_["tau"], atol=1e-9)
    assert motion.drives == tuple(arrays_["tau_names"].tolist())
    assert set(motion.units[2]) == {"N m"}
    assert set(motion.units[1]) == {"rad/s^2"}


def compiled(folder, sizes):
    """The C function of an export, as t -> (x, u, tau)."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C compiler")
    subprocess.run([str(compiler), "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o",
                    str(folder / "motion.so"), str(folder / "motion.c"), "-lm"], check=True, capture_output=True)
    function = ctypes.CDLL(str(folder / "motion.so")).motion
    vector = np.ctypeslib.ndpointer(dtype=float, flags="C_CONTIGUOUS")
    function.argtypes, function.restype = [ctypes.c_double, vector, vector, vector], None

    def call(t):
        found = [np.zeros(max(1, n)) for n in sizes]
        function(t, *found)
        return [values[:n] for values, n in zip(found, sizes, strict=True)]

    return call


def test_c_interpolates_as_scipy_does(quadrotor, tmp_path):
    motion, = motions(quadrotor.folder)
    export(quadrotor.folder, ["c", "npz"], rate=333.0, out=tmp_path)
    export(quadrotor.folder, ["c"], out=tmp_path, overwrite=True)
    t, x, u = motion.t, motion.x, motion.u
    call = compiled(tmp_path, (x.shape[1], u.shape[1], motion.tau.shape[1]))
    with np.load(tmp_path / "motion.npz") as archive:
        often, states, controls = archive["t"], archive["x"], archive["u"]
    assert motion.zero_order_hold
    assert np.diff(often) == pytest.approx(1 / 333.0)
    turned = Slerp(t, Rotation.from_quat(np.roll(x[:, 3:7], -1, axis=1)))
    straight = interp1d(t, x, axis=0)
    for k in range(0, len(often), 7):
        own = call(often[k])
        wanted = straight(often[k])
        wanted[3:7] = np.roll(turned(often[k]).as_quat(), 1)
        wanted[3:7] *= np.sign(wanted[3:7] @ own[0][3:7])
        np.testing.assert_allclose(own[0], wanted, atol=1e-9)
        np.testing.assert_allclose(states[k], own[0], atol=1e-9)
        np.testing.assert_array_equal(own[1], u[np.searchsorted(t, often[k], side="right") - 1])
        np.testing.assert_array_equal(own[1], controls[k])
        np.testing.assert_array_equal(own[2], own[1])
    for early, last in ((t[0] - 1, 0), (t[-1] + 1, -1)):
        np.testing.assert_allclose(call(early)[0], x[last], atol=1e-12)


def test_a_closed_loop_and_whole_body_control_are_exported(tmp_path, capsys):
    for kind, file, changes in (("mpc", "cartpole_balance", ["mpc.duration=0.1"]),
                                ("wbc", "box_slides", ["wbc.duration=0.02", "expect={}"])):
        words = [word for change in changes for word in ("--set", change)]
        assert call(kind, PROBLEMS / kind / f"{file}.yaml", *words, "--out", tmp_path / kind, "-q") in (0, 1)
    for kind in ("mpc", "wbc"):
        assert call("export", tmp_path / kind, "--formats", "npz", "csv") == 0
        with np.load(tmp_path / kind / "export" / "motion.npz") as archive, \
                np.load(tmp_path / kind / "trajectory.npz") as before:
            np.testing.assert_array_equal(archive["x"], before["x"])
            assert bool(archive["held"])
    with np.load(tmp_path / "wbc" / "export" / "motion.npz") as archive:
        assert archive["qpos"].shape[1] == 7
    assert "motion.csv" in capsys.readouterr().out


def test_several_phases_are_one_motion_where_their_names_are_the_same(tmp_path):
    two = """
name: two
system: {states: {x: m, v: m/s}, controls: {u: N}, dynamics: {x: v, v: u}}
phases:
  - {name: there, duration: 1, start: {x: 0, v: 0}, final: {x: 1, v: 0}, costs: [{name: effort, running: u**2}]}
  - {name: back, duration: 1, final: {x: 0, v: 0}, costs: [{name: effort, running: u**2}]}
solve: {method: collocation, collocation: {scheme: hermite_simpson, intervals: 6}}
"""
    (tmp_path / "two.yaml").write_text(two)
    outcome = run_loaded(load_problem(tmp_path / "two.yaml"), "two", out=tmp_path / "run", draw=False)
    motion, = motions(outcome.folder)
    assert np.all(np.diff(motion.t) > 0)
    k = int(np.searchsorted(motion.t, 1.0))
    assert motion.u[k, 0] == pytest.approx(-6.0, abs=1e-6)  # the force jumps from -6 to -6: 6 - 12 s, then its opposite
    assert motion.u[0, 0] == pytest.approx(6.0, abs=1e-6)


def test_a_motion_of_names_that_no_identifier_can_have_is_written(tmp_path):
    motion = Motion("a */ b", np.array([0.0, 1.0]), np.zeros((2, 1)), np.zeros((2, 0)), np.zeros((2, 0)), ("x */",), (), (),
                    (("m",), (), ()), False)
    for name, text in motion_code(motion, "motion").items():
        assert "*/ b" not in text.replace("/* ", "")
        (tmp_path / name).write_text(text)
    assert compiled(tmp_path, (1, 0, 0))(0.5)[0] == pytest.approx(0.0)
    assert "qpos" not in arrays(motion)


@pytest.mark.parametrize(("words", "message"), [
    (["--formats", "npy"], "did you mean 'npz'"), (["--rate", "-1"], "must be positive")])
def test_bad_input_is_named(arm, capsys, words, message):
    assert call("export", arm.folder, *words) == 2
    assert message in capsys.readouterr().err


def test_what_is_no_run_and_files_that_are_there_are_refused(arm, tmp_path):
    with pytest.raises(ProblemError, match="not the folder of a run"):
        export(tmp_path)
    export(arm.folder, ["csv"], out=tmp_path / "out")
    with pytest.raises(ProblemError, match="already holds motion.csv"):
        export(arm.folder, ["csv"], out=tmp_path / "out")
