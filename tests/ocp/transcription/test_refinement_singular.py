"""Singular arcs: controls smoothed there, switches found beside them, and plain words where the mesh tolerance is not reached."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import control_problems as known
import numpy as np
import pytest
from repository import ROOT
from scipy.integrate import quad
from scipy.optimize import brentq
from uncertified import by_collocation

from ocp.app.files.load import load_problem
from ocp.app.sentences import message
from ocp.certify import certify
from ocp.nlp import kkt
from ocp.problem import INF, At, Constraint, Cost, Duration, Kind, Phase, Status
from ocp.transcription.collocation import CollocationOptions
from ocp.transcription.mesh import uniform_mesh
from ocp.transcription.refine.arcs import arcs_of, cut_into
from ocp.transcription.refine.plan import Plan, read_plans
from ocp.transcription.refine.smooth import linear_controls, roughness
from ocp.transcription.schemes import make_scheme

PROBLEMS = ROOT / "problems"


def follower():
    """min 1/2 int (x - sin t)^2, xdot = u, |u| <= 1, x(0) = 1, T = 2: down at full speed until x = sin t, then singular, u = cos t.
    """
    system = known.flat_system("follower", ("x",), ("u",), lambda t, x, u, p: u)
    cost = Cost("distance", At.PATH, known.function(1, 1, lambda t, x, u, p: (x[0] - ca.sin(t))**2 / 2))
    return known.problem(Phase("follower", system, Duration(2.0, 2.0, 2.0), known.line([1], [0], 1), start=known.fixed(1),
                               u_lower=(-1.0,), u_upper=(1.0,), costs=(cost,)))


def met():
    return brentq(lambda t: 1 - t - np.sin(t), 0, 1)


@pytest.mark.parametrize("scheme", ["gauss", "radau"])
def test_a_singular_arc_in_closed_form(scheme):
    found = by_collocation(follower(), CollocationOptions(scheme=scheme, intervals=12, refine="hp"))
    switch = met()
    assert found.status is Status.CONVERGED
    assert found.objective == pytest.approx(quad(lambda t: (1 - t - np.sin(t))**2 / 2, 0, switch)[0], abs=1e-8)
    t = np.linspace(switch + 0.1, 1.9, 301)
    np.testing.assert_allclose(found.trajectory.control(t)[:, 0], np.cos(t), atol=1e-2)


@pytest.mark.parametrize("options", [{"scheme": "gauss", "refine": "hp"}, {"scheme": "radau", "refine": "hp"}])
@pytest.mark.parametrize(("name", "value", "arc"), [("goddard_rocket", -1.0128369183, (0.03, 0.065)),
                                                    ("catalyst_mixing", -0.04805568, (0.2, 0.65))])
@pytest.mark.sample(2)
def test_singular_arcs_of_the_gallery(name, value, arc, options):
    problem = load_problem(PROBLEMS / f"{name}.yaml").problem
    found = certify(by_collocation(problem, CollocationOptions(intervals=20, **options)))
    assert found.status is Status.CONVERGED
    assert found.certificate.holds
    assert found.objective == pytest.approx(value, rel=1e-7)
    assert any(one.kind is Kind.SINGULAR_SMOOTHED for one in found.findings)
    # what was added to the program is gone: the point solves the program itself
    o = found.optimality
    assert kkt(o.nlp, o.x, o.lam_x, o.lam_g).stationarity < 2e-7
    rows = dict(zip(found.extra["refinement_columns"], found.extra["refinement"].T, strict=True))
    assert rows["error"][-1] < 5e-6
    assert rows["intervals"][-1] < 100
    # and the control does not chatter, up and down by ones: its path is hardly longer than its rise
    u = found.trajectory.control(np.linspace(*arc, 400))[:, 0]
    assert np.sum(np.abs(np.diff(u))) < 1.1 * np.ptp(u) + 0.01


def test_a_tolerance_that_was_missed_is_in_the_message():
    """Where the program is solved but the estimate stays above the tolerance, the message names both."""
    found = by_collocation(follower(), CollocationOptions(scheme="gauss", intervals=12, refine="hp", tolerance_mesh=1e-7))
    error = found.extra["refinement"][-1, list(found.extra["refinement_columns"]).index("error")]
    assert error > 1e-7
    assert found.ending.kind is Kind.MESH_TOLERANCE_MISSED
    assert (found.ending.value, found.ending.tolerance) == (error, 1e-7)
    assert found.ending in found.findings
    assert "1e-07" in message(found)
    assert f"{error:.2g}" in message(found)


@pytest.mark.parametrize("scheme", ["gauss", "radau", "lobatto", "trapezoid"])
def test_roughness_vanishes_for_smooth_controls_alone(scheme):
    record = make_scheme(scheme, None if scheme == "trapezoid" else 4)
    mesh = replace(uniform_mesh(record, 4), edges=np.array([0.0, 0.2, 0.5, 0.6, 1.0]))
    s = mesh.control_fractions
    matrix, h = roughness(mesh, frozenset(), np.ones(1))

    def rough(u):
        return float(h @ (matrix @ u) ** 2)

    if scheme != "trapezoid":
        assert rough(2 + s - 3 * s**2) < 1e-24
    assert rough(np.cos(np.arange(len(s)) * np.pi)) > 0.1
    step = np.where(s < 0.45, 0.0, 1.0)
    if scheme in ("gauss", "radau"):
        assert rough(np.where(s <= 0.5, 0.0, 1.0)) > 0.01
        free, weights = roughness(mesh, frozenset({2}), np.ones(1))
        assert float(weights @ (free @ np.where(s <= 0.5, 0.0, 1.0)) ** 2) < 1e-24
    assert rough(step) > 0.01
    none, _ = roughness(mesh, frozenset(), np.zeros(1))
    assert none.shape[0] == 0


def test_linear_controls_by_differences():
    def rate(t, x, u, p):
        return ca.vertcat(x[1] * u[0] + ca.sin(u[1]), u[2] + u[0] * x[0], u[3] * u[4])

    names = tuple("abcde")
    system = known.flat_system("many", ("x", "y", "z"), names, rate)
    effort = Cost("effort", At.PATH, known.function(3, 5, lambda t, x, u, p: u[2]**2))
    phase = Phase("many", system, Duration(1.0, 1.0, 1.0), known.line([0] * 3, [1] * 3, 5), costs=(effort,))
    rng = np.random.default_rng(3)
    x, u = rng.normal(size=3), rng.normal(size=5)

    def value(v):
        return np.append(np.asarray(system.rate(0, x, v, [])).ravel(), float(effort.function(0, x, v, [])))

    def curved(i):
        second = [value(u + 0.1 * (a * np.eye(5)[i] + b * np.eye(5)[j])) * a * b
                  for j in range(5) for a in (1, -1) for b in (1, -1)]
        return np.max(np.abs(np.sum(np.reshape(second, (5, 4, -1)), axis=1))) > 1e-9

    assert linear_controls(phase).tolist() == [not curved(i) for i in range(5)] == [True, False, False, False, False]
    wall = Constraint("wall", At.PATH, known.function(3, 5, lambda t, x, u, p: u[0]**2), (0.0,), (1.0,))
    assert not linear_controls(replace(phase, constraints=(wall,))).any()


@pytest.mark.parametrize(("cost", "alone"), [
    (lambda u: (u[0] + u[1])**2 - (u[0] - u[1])**2, True),  # four times their product
    (lambda u: u[0] * u[1], True), (lambda u: (u[0] + u[1])**2, False), (lambda u: ca.fabs(u[0] + u[1]), False),
    (lambda u: ca.fmax(u[0], u[1]), False)])
def test_factors_of_a_product_are_linear_one_by_one_between_bounds(cost, alone):
    system = known.flat_system("two", ("x",), ("a", "b"), lambda t, x, u, p: u[0])
    phase = Phase("two", system, Duration(1.0, 1.0, 1.0), known.line([0], [1], 2), u_lower=(-1.0, -2.0), u_upper=(1.0, 2.0),
                  costs=(Cost("product", At.PATH, known.function(1, 2, lambda t, x, u, p: cost(u))),))
    assert linear_controls(phase).tolist() == [alone] * 2
    assert not linear_controls(phase, together=True).any()
    assert linear_controls(replace(phase, u_upper=(1.0, INF))).tolist() == [alone, False]
    assert linear_controls(replace(phase, u_lower=(1.0, -2.0))).tolist() == [False, alone]


def test_active_bounds_of_states_are_held_along_arcs():
    """Of a move with limits on speed and acceleration, one arc runs at full acceleration: held there, not in the others."""
    problem = load_problem(PROBLEMS / "jerk_limited_move.yaml").problem
    mesh = "0:3*4 0.0384615384615!:3*6 0.1923076923077!:3*4 0.2307692307692!:3*8 1"
    found = by_collocation(problem, CollocationOptions(scheme="gauss", mesh=mesh))
    plan = read_plans(found.options["mesh"], ["p"], "gauss", "mesh")[0]
    arcs = arcs_of(Plan(plan.edges, plan.degrees, plan.jumps))
    cut = cut_into(problem, found, (found.trajectory,), [arcs], [[]])
    held = [[i for i in range(3) if p.x_lower[i] == p.x_upper[i]] for p in cut.phases]
    assert held == [[], [2], [], []]
    assert cut.phases[1].x_upper[2] == 4.0
