"""The certificate catches wrong answers: tampered trajectories, coarse meshes, violations between knots, false optima."""

from dataclasses import replace

import numpy as np
import pytest
from repository import ROOT

from dynamics.kernels.mapped import mapped
from ocp.app.files.load import load_problem
from ocp.certify import Tolerances, along, certify
from ocp.errors import ProblemError
from ocp.methods import solve
from ocp.problem import Kind, Status, Trajectory
from ocp.thresholds import QUADRATURE

FOLDER = ROOT / "problems"


@pytest.fixture(scope="module")
def cartpole():
    return solve(load_problem(FOLDER / "cartpole_swingup.yaml").problem, "collocation", {"intervals": 60})


@pytest.fixture(scope="module")
def quadrotor():
    return solve(load_problem(FOLDER / "quadrotor.yaml").problem, "ilqr", {"intervals": 100})


def tampered(solution, *, dx=None, du=0.0):
    """The same solution with its states and controls shifted, interpolants included."""
    path = solution.trajectory
    shift = np.zeros(path.x.shape[1]) if dx is None else np.asarray(dx, float)
    weight = np.sin(np.pi * path.t / path.t[-1])[:, None]  # leaves both ends alone

    def state(t):
        return path.state(t) + np.sin(np.pi * np.asarray(t) / path.t[-1])[..., None] * shift

    return replace(solution, trajectory=Trajectory(path.t, path.x + weight * shift, path.u + du, path.t_u, state,
                                                   lambda t: path.control(t) + du))


def test_honest_solutions_hold(cartpole, quadrotor):
    assert cartpole.ok
    assert quadrotor.ok
    assert cartpole.certificate.failures == ()


def test_shifted_states_break_the_dynamics(cartpole):
    wrong = certify(tampered(cartpole, dx=[0.0, 0.2, 0.0, 0.0]))
    assert not wrong.ok
    assert not wrong.certificate.gap_segment.holds
    assert not wrong.certificate.error_estimate.holds


def test_shifted_controls_break_dynamics_and_energy(cartpole):
    wrong = certify(tampered(cartpole, du=0.5))
    assert not wrong.certificate.gap_total.holds
    assert not wrong.certificate.energy.holds
    assert Kind.GAP_TOTAL in [one.kind for one in wrong.certificate.failures]


def test_tampered_attitude_is_seen(quadrotor):
    x = quadrotor.trajectory.x.copy()
    start = quadrotor.problem.phase.system.space.quaternions[0]
    x[50, start:start + 4] *= 1.01
    wrong = certify(replace(quadrotor, trajectory=replace(quadrotor.trajectory, x=x)))
    broken = [v for v in wrong.certificate.violations if not v.holds]
    assert [v.name for v in broken] == [f"unit quaternion {quadrotor.problem.phase.system.space.names[start]}"]
    assert broken[0].at_knots == pytest.approx(0.01, rel=1e-3)
    assert broken[0].time == pytest.approx(quadrotor.trajectory.t[50])


def test_violated_bounds_are_named_with_size_and_time(cartpole):
    phase = cartpole.problem.phases[0]
    tighter = replace(phase, x_upper=(0.9, *phase.x_upper[1:]), u_upper=(5.0,))
    wrong = certify(replace(cartpole, problem=replace(cartpole.problem, phases=(tighter,))))
    broken = {v.name: v for v in wrong.certificate.violations if not v.holds}
    assert set(broken) == {"bound x", "bound force"}
    worst = int(np.argmax(cartpole.trajectory.x[:, 0]))
    assert broken["bound x"].at_knots == pytest.approx(cartpole.trajectory.x[worst, 0] - 0.9)
    assert broken["bound x"].time == pytest.approx(cartpole.trajectory.t[worst])


def test_boundary_states_are_checked(cartpole):
    phase = cartpole.problem.phases[0]
    moved = replace(phase, final=replace(phase.final, value=(1.1, *phase.final.value[1:])))
    wrong = certify(replace(cartpole, problem=replace(cartpole.problem, phases=(moved,))))
    final = next(v for v in wrong.certificate.violations if v.name == "final state")
    assert final.at_knots == pytest.approx(0.1, abs=1e-6)
    assert final.component == "x"
    assert not wrong.ok


def test_bryson_denham_on_a_coarse_mesh_is_below_the_true_optimum_and_flagged(tmp_path):
    """min 1/2 int u^2 with x <= 1/9 has the optimum 4; a coarse mesh goes below it by leaving the constraint between knots."""
    text = """
name: Bryson-Denham
system:
  states: {x: m, v: m/s}
  controls: {u: N}
  dynamics: {x: v, v: u}
phase:
  duration: 1.0
  start: {x: 0, v: 1}
  final: {x: 0, v: -1}
  costs: [{name: effort, running: "u**2/2"}]
  constraints: [{name: ceiling, expression: x, upper: "1/9"}]
"""
    file = tmp_path / "bryson_denham.yaml"
    file.write_text(text, encoding="utf-8")
    problem = load_problem(file).problem
    coarse, fine = (solve(problem, "collocation", {"intervals": n}) for n in (7, 90))
    assert fine.objective == pytest.approx(4.0, rel=1e-4)
    ceiling = [next(v for v in s.certificate.violations if v.name == "ceiling") for s in (coarse, fine)]
    assert coarse.objective < 4.0 - 5e-4
    assert ceiling[0].at_knots < 1e-8 < 1e-4 < ceiling[0].between_knots
    assert ceiling[1].between_knots < ceiling[0].between_knots / 50
    assert coarse.status is Status.CONVERGED
    assert not coarse.ok
    assert fine.ok
    (broken,) = [one for one in coarse.certificate.failures if one.name == "ceiling"]
    assert broken == ceiling[0].finding
    assert (broken.kind, broken.value) == (Kind.VIOLATION_BETWEEN, ceiling[0].between_knots)
    assert coarse.trajectory.state(broken.time)[0] - 1 / 9 == pytest.approx(broken.value, rel=1e-3)


def test_a_stopped_shooting_solution_is_not_certified():
    stopped = solve(load_problem(FOLDER / "cartpole_to_goal.yaml").problem, "ilqr", {"max_iterations": 3})
    assert stopped.status is Status.ITERATION_LIMIT
    assert not stopped.certificate.stationarity.holds
    assert stopped.certificate.gap_segment.holds  # a rollout satisfies the dynamics at every iterate


def test_nan_holds_nothing(cartpole):
    x = cartpole.trajectory.x.copy()
    x[3, 1] = np.nan
    wrong = certify(replace(cartpole, trajectory=replace(cartpole.trajectory, x=x)))
    assert not wrong.ok
    assert not wrong.certificate.gap_segment.holds


def test_error_estimate_follows_the_order_of_the_method():
    problem = load_problem(FOLDER / "cartpole_swingup.yaml").problem
    for scheme, order in (("trapezoid", 2), ("hermite_simpson", 4)):
        gaps = [solve(problem, "collocation", {"scheme": scheme, "intervals": n}).certificate.gap_segment.value for n in (60, 120)]
        # one segment has the local order, one more than the global one
        assert np.log2(gaps[0] / gaps[1]) == pytest.approx(order + 1, abs=0.5)


def test_tolerances_are_checked():
    with pytest.raises(ProblemError, match="accept.violation"):
        Tolerances(violation=0.0)


def test_each_tolerance_has_an_effect(cartpole):
    base = cartpole.certificate
    for kind in (Kind.STATIONARITY, Kind.COMPLEMENTARITY, Kind.GAP_SEGMENT, Kind.GAP_TOTAL, Kind.ERROR_ESTIMATE, Kind.ENERGY):
        strict = certify(cartpole, Tolerances(**{kind: 1e-300}))
        assert kind in [one.kind for one in strict.certificate.failures]
    assert certify(cartpole, Tolerances(violation=1e-300)).certificate.violations != base.violations


def test_machine_code_changes_no_number(cartpole, monkeypatch):
    """Functions that are evaluated often become machine code, which rounds as the interpreter does."""
    certificates = []
    for often in (0, np.inf):
        made = []
        monkeypatch.setattr(along, "QUADRATURE", replace(QUADRATURE, compiled_from=often))
        monkeypatch.setattr(along, "mapped", lambda *given, made=made: made.append(given[0].name) or mapped(*given))
        certificates.append(str(certify(cartpole).certificate))
        assert bool(made) == (often == 0)
    assert certificates[0] == certificates[1]
