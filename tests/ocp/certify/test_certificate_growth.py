"""Open-loop gaps are judged by how errors grow, and motions by accelerations through forward dynamics."""

from dataclasses import replace

import numpy as np
import pytest
from repository import ROOT
from scipy.integrate import solve_ivp

from ocp.app.files.load import load_problem, load_text
from ocp.certify import certify, dynamics, objective
from ocp.certify.motion import Motion
from ocp.methods import solve
from ocp.problem import Kind
from ocp.thresholds import REINTEGRATION

FOLDER = ROOT / "problems"


def unstable(rate):
    return load_text(f"""
name: unstable
system: {{states: {{x: m}}, controls: {{u: m/s}}, dynamics: {{x: "{rate}*x + u"}}}}
phase: {{duration: 2, start: {{x: 1}}, final: {{x: 0.5}}, costs: [{{name: effort, running: "u**2 + x**2"}}]}}
""").problem


@pytest.fixture(params=["few states", "many"])
def states(request, monkeypatch):
    """The open-loop gap by derivatives of all segments, and by integration of a few deviations beside the motion."""
    if request.param == "many":
        monkeypatch.setattr(dynamics, "REINTEGRATION", replace(REINTEGRATION, max_stacked_work=0.0))


@pytest.mark.usefixtures("states")
def test_an_unstable_motion_is_not_refused_for_being_unstable():
    """Errors grow by e^16: the open-loop gap says so, the verdict does not."""
    found = solve(unstable(8.0), "collocation", {"scheme": "hermite_simpson", "intervals": 60})
    gaps = dynamics.gaps(Motion(found.problem.phase, found.trajectory))
    assert gaps.growth == pytest.approx(np.exp(16), rel=0.05)
    assert gaps.open_loop > 0.05
    assert gaps.total < 0.05
    assert found.ok, found.certificate.failures


@pytest.mark.usefixtures("states")
def test_growth_is_that_of_the_linear_system():
    for rate in (-3.0, 0.0, 1.5):
        found = solve(unstable(rate), "collocation", {"intervals": 20})
        gaps = dynamics.gaps(Motion(found.problem.phase, found.trajectory))
        assert gaps.growth == pytest.approx(max(1.0, np.exp(2 * rate)), rel=1e-3)


@pytest.mark.usefixtures("states")
def test_a_drift_that_no_instability_explains_is_refused():
    """A stable motion whose states drift by a hundredth of their range in every segment."""
    found = solve(unstable(0.0), "collocation", {"intervals": 20})
    path = found.trajectory
    drift = 0.01 * np.ptp(path.x) * np.arange(len(path.t))[:, None]
    moved = replace(path, x=path.x + drift, state=lambda t: path.state(t) + np.interp(t, path.t, drift[:, 0])[:, None])
    gaps = dynamics.gaps(Motion(found.problem.phase, moved))
    assert gaps.total > 0.05
    failures = certify(replace(found, trajectory=moved)).certificate.failures
    assert Kind.GAP_TOTAL in [one.kind for one in failures]


def test_gaps_grow_as_the_motion_integrated_from_its_start(monkeypatch):
    """A pendulum that falls over, its knots off by a little: the open-loop gap by either road is that of one long integration."""
    problem = load_text("""
name: fall
system: {states: {q: rad, v: rad/s}, dynamics: {q: v, v: "9*sin(q)"}}
phase: {duration: 1.2, start: {q: 0.1, v: 0}, costs: []}
""").problem
    found = solve(problem, "collocation", {"scheme": "radau", "degree": 2, "intervals": 8})
    path = found.trajectory
    whole = solve_ivp(lambda t, y: [y[1], 9 * np.sin(y[0])], (0.0, 1.2), path.x[0], t_eval=path.t, rtol=1e-11, atol=1e-13).y.T
    motion = Motion(problem.phase, path)
    expected = np.max(np.abs(path.x - whole) / motion.scale)
    assert expected > 1e-6
    for stacked in (REINTEGRATION.max_stacked_work, 0.0):
        monkeypatch.setattr(dynamics, "REINTEGRATION", replace(REINTEGRATION, max_stacked_work=stacked))
        assert dynamics.gaps(motion).open_loop == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize(("intervals", "holds"), [(30, False), (100, True)])
def test_accelerations_are_integrated_as_efforts(intervals, holds):
    """A light wrist: its accelerations, integrated twice, arrive anywhere; the efforts do not on a coarse mesh."""
    loaded = load_problem(FOLDER / "arm_inverse_dynamics.yaml")
    found = solve(loaded.problem, "collocation", {"scheme": "hermite_simpson", "intervals": intervals})
    assert found.certificate.gap_segment.holds == holds
    motion = Motion(found.problem.phase, found.trajectory)
    rate = np.asarray(motion.driven(0.3, motion.state(np.array([0.3]))[0], motion.drive(np.array([0.3]))[0], [])).ravel()
    a = rate[len(rate) // 2:]
    np.testing.assert_allclose(a, motion.control(np.array([0.3]))[0], rtol=1e-8, atol=1e-8)


def test_rates_that_are_not_finite_for_a_moment_are_found():
    """The root of a number that is negative for a tenth of a millisecond."""
    problem = load_text("""
name: hole
system: {states: {x: m}, controls: {u: m/s}, dynamics: {x: "u + 1e-9*sqrt((t - 0.61234)**2 - 2.5e-9)"}}
phase: {duration: 1, start: {x: 0}, final: {x: 1}, costs: [{name: effort, running: "u**2"}]}
""").problem
    found = solve(problem, "collocation", {"intervals": 20})
    assert not found.ok
    gap = found.certificate.gap_segment
    assert gap.cause is Kind.RATES_NOT_FINITE
    assert gap.time == pytest.approx(0.61234, abs=5e-5)
    assert gap.finding in found.certificate.failures


@pytest.mark.parametrize("factor", [1e-9, 1.0, 1e9])
def test_the_scale_of_the_objective_follows_the_cost(factor):
    """And a constant that nothing changes is no part of it."""
    sizes = [objective.size([Motion(phase, found.trajectory)])[0] for phase, found in (
        (scaled(f"{factor}*u**2").phase, solve(scaled("u**2"), "collocation", {"intervals": 10})),
        (scaled(f"{factor}*(u**2 + 1e6)").phase, solve(scaled("u**2"), "collocation", {"intervals": 10})))]
    assert sizes[0] == pytest.approx(12 * factor, rel=0.3)
    assert sizes[1] < 10 * sizes[0]


def scaled(cost):
    return load_text(f"""
name: move
system: {{states: {{x: m, v: m/s}}, controls: {{u: N}}, dynamics: {{x: v, v: u}}}}
phase: {{duration: 1, start: {{x: 0, v: 0}}, final: {{x: 1, v: 0}}, costs: [{{name: effort, running: "{cost}"}}]}}
""").problem
