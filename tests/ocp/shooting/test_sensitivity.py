"""Sensitivities of optima against differences of problems solved again."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from repository import ROOT

from ocp.app.files.load import load_problem
from ocp.errors import ProblemError
from ocp.methods import solve
from ocp.problem import INF, At, Boundary, Constraint, Cost, Duration, Guess, Phase, Problem, Sense, System
from ocp.shooting import ilqr
from ocp.shooting.sensitivity import sensitivities
from ocp.spaces import euclidean

TIGHT = {"kernels": "interpreted", "hessian": "full", "tolerance": 1e-10, "constraint_tolerance": 1e-10}


def function(build, nx, nu, np_):
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", nx), ca.SX.sym("u", nu), ca.SX.sym("p", np_)
    return ca.Function("f", [t, x, u, p], [ca.densify(ca.SX(build(t, x, u, p)))])


def solved(problem, options):
    """Without a certificate."""
    return ilqr.solve(problem, ilqr.ILQROptions(**options))


def guess(start, controls):
    return Guess(np.array([0.0, 1.0]), np.tile(start, (2, 1)), np.tile(controls, (2, 1)))


def pendulum(start=(0.3, -0.2), values=(1.0, 0.1), duration=2.0, **more):
    """A pendulum with parameters mass and damping (in dynamics, costs and a row), its speed bounded, to rest at an angle."""
    def rate(t, x, u, p):
        return ca.vertcat(x[1], (u - p[1] * x[1]) / p[0] - 3.0 * ca.sin(x[0]))

    system = System("pendulum", euclidean(("th", "w")), ("u",), function(rate, 2, 1, 2), ("mass", "damping"), tuple(values))
    costs = (Cost("effort", At.PATH, function(lambda t, x, u, p: u**2 / p[0] + 0.1 * x[0] ** 4, 2, 1, 2)),
             Cost("begin", At.START, function(lambda t, x, u, p: x[0] ** 2 * x[1] * p[1], 2, 1, 2)),
             Cost("end", At.FINAL, function(lambda t, x, u, p: p[0] ** 2 * (x[0] - 1.5) ** 2 + 0.3 * x[1] ** 2, 2, 1, 2)))
    row = Constraint("speed", At.PATH, function(lambda t, x, u, p: x[1] * p[0] + 0.05 * x[0] ** 2, 2, 1, 2), (-INF,), (0.85,))
    phase = Phase("move", system, Duration(duration, duration, duration), guess(start, [1.0]),
                  start=Boundary(tuple(start), (True, True)), final=Boundary((1.2, 0.0), (True, False)), costs=costs,
                  constraints=(row,), u_lower=(-2.2,), u_upper=(2.2,))
    return Problem("pendulum", (replace(phase, **more),))


def differences(make, points, step):
    """Central differences of states (coordinates), controls and objective, over pairs of problems ``make(+-step e_i)``."""
    found = []
    for i in range(points):
        one, other = (solved(make(i, sign * step), make.options) for sign in (1, -1))
        assert one.status.name == other.status.name == "CONVERGED", one.ending + other.ending
        found.append(((one.trajectory.x - other.trajectory.x) / (2 * step), (one.trajectory.u - other.trajectory.u) / (2 * step),
                      (one.objective - other.objective) / (2 * step)))
    x, u, J = zip(*found, strict=True)
    return np.stack(x, axis=-1), np.stack(u, axis=-1), np.array(J)


def test_start_and_parameters_with_active_constraints():
    options = {**TIGHT, "intervals": 25}
    solution = solved(pendulum(), options)
    found = sensitivities(solution)
    weights = solution.optimality.weights
    assert np.sum(weights[:-1] > 1e-6) >= 3  # the row binds somewhere
    assert np.sum(np.abs(solution.trajectory.u) == 2.2) >= 1
    assert found.margin > 1e-3
    assert found.active >= 5

    def moved(i, step):
        if i < 2:
            return pendulum(start=np.array([0.3, -0.2]) + step * np.eye(2)[i])
        return pendulum(values=np.array([1.0, 0.1]) + step * np.eye(2)[i - 2])

    moved.options = options
    x, u, J = differences(moved, 4, 1e-4)
    phase = found.phase
    np.testing.assert_allclose(np.concatenate([phase.dx_dx0, phase.dx_dp], axis=2), x, atol=2e-5)
    np.testing.assert_allclose(np.concatenate([phase.du_dx0, phase.du_dp], axis=2), u, atol=2e-5)
    np.testing.assert_allclose(np.concatenate([found.dJ_dx0, found.dJ_dp]), J, atol=1e-5)
    assert found.start_names == ("th", "w")
    assert found.parameter_names == ("mass", "damping")
    assert phase.dx_dx0.shape == (26, 2, 2)
    assert phase.du_dp.shape == (25, 1, 2)
    np.testing.assert_allclose(phase.dx_dx0[0], np.eye(2), atol=1e-12)
    np.testing.assert_allclose(phase.dx_dx0[-1][0], 0.0, atol=1e-9)  # the end is prescribed
    held = np.abs(solution.trajectory.u[:, 0]) == 2.2
    np.testing.assert_array_equal(phase.du_dx0[held], 0.0)


def test_cone_and_gauss_newton_solutions():
    """Exact second derivatives whatever the solve used, and the curvature of a cone in the answer."""
    def rate(t, x, u, p):
        return ca.vertcat(x[2:], p[0] * u - 0.3 * x[2:] * ca.sqrt(1 + ca.dot(x[2:], x[2:])))

    def make(start=(0.0, 0.0, 0.3, 0.0), value=1.0):
        system = System("point", euclidean(("x", "y", "vx", "vy")), ("ux", "uy"), function(rate, 4, 2, 1), ("gain",), (value,))
        costs = (Cost("effort", At.PATH, function(lambda t, x, u, p: u, 4, 2, 1), weights=(1.0, 1.0)),)
        inside = function(lambda t, x, u, p: ca.vertcat(1.5, u), 4, 2, 1)
        row = Constraint("thrust", At.PATH, inside, (-INF,) * 3, (INF,) * 3, Sense.CONE)
        phase = Phase("move", system, Duration(2.0, 2.0, 2.0), guess(start, [0.0, 0.0]),
                      start=Boundary(tuple(start), (True,) * 4), final=Boundary((1.0, 1.0, 0.0, 0.0), (True,) * 4), costs=costs,
                      constraints=(row,))
        return Problem("point", (phase,))

    options = {**TIGHT, "hessian": "gauss_newton", "intervals": 20}
    solution = solved(make(), options)
    found = sensitivities(solution)
    assert np.sum(np.linalg.norm(solution.trajectory.u, axis=1) > 1.5 - 1e-8) >= 3

    def moved(i, step):
        return make(start=np.array([0.0, 0.0, 0.3, 0.0]) + step * np.eye(4)[i]) if i < 4 else make(value=1.0 + step)

    moved.options = options
    x, u, J = differences(moved, 5, 1e-4)
    np.testing.assert_allclose(np.concatenate([found.phase.dx_dx0, found.phase.dx_dp], axis=2), x, atol=5e-5)
    np.testing.assert_allclose(np.concatenate([found.phase.du_dx0, found.phase.du_dp], axis=2), u, atol=2e-4)
    np.testing.assert_allclose(np.concatenate([found.dJ_dx0, found.dJ_dp]), J, atol=1e-5)


@pytest.mark.slow
def test_a_floating_robot_moves_in_its_tangent_space():
    loaded = load_problem(ROOT / "problems" / "quadrotor.yaml")
    problem = loaded.problem
    space = problem.phase.system.space
    a, b = ca.SX.sym("a", space.nx), ca.SX.sym("b", space.nx)
    d = ca.SX.sym("d", space.ndx)
    plus, minus = ca.Function("plus", [a, d], [space.plus(a, d)]), ca.Function("minus", [a, b], [space.minus(a, b)])
    options = {**TIGHT, "intervals": 12, "derivatives": "ad"}
    solution = solved(problem, options)
    found = sensitivities(solution)
    assert found.phase.dx_dx0.shape == (13, 12, 12)
    start = np.array(problem.phase.start.value)
    step = 1e-4
    for i in (1, 4, 9):  # a position, the attitude, a rate
        ends = []
        for sign in (1, -1):
            moved = Boundary(tuple(np.asarray(plus(start, sign * step * np.eye(12)[i])).ravel()), (True,) * 12)
            ends.append(solved(replace(problem, phases=(replace(problem.phase, start=moved),)), options))
        dx = np.array([np.asarray(minus(q, r)).ravel() for q, r in zip(ends[1].trajectory.x, ends[0].trajectory.x, strict=True)])
        np.testing.assert_allclose(found.phase.dx_dx0[:, :, i], dx / (2 * step), atol=3e-5)
        du = ends[0].trajectory.u - ends[1].trajectory.u
        np.testing.assert_allclose(found.phase.du_dx0[:, :, i], du / (2 * step), atol=3e-5)
        assert found.dJ_dx0[i] == pytest.approx((ends[0].objective - ends[1].objective) / (2 * step), abs=1e-6)


def test_the_best_duration_moves_too():
    """Minimum of time plus effort for a unit mass: the free duration is a constant with derivatives of its own."""
    def make(start=(0.0, 0.2), gain=1.0):
        rate = function(lambda t, x, u, p: ca.vertcat(x[1], p[0] * u), 2, 1, 1)
        system = System("block", euclidean(("x", "v")), ("u",), rate, ("gain",), (gain,))
        costs = (Cost("effort", At.PATH, function(lambda t, x, u, p: 1 + u**2, 2, 1, 1)),)
        phase = Phase("move", system, Duration(0.3, 5.0, 1.5), guess(start, [0.0]),
                      start=Boundary(tuple(start), (True, True)), final=Boundary((1.0, 0.0), (True, True)), costs=costs)
        return Problem("block", (phase,))

    options = {**TIGHT, "intervals": 20}
    solution = solved(make(), options)
    found = sensitivities(solution)
    assert found.constant_names == ("duration",)
    for i, (one, other) in enumerate([(make((1e-4, 0.2)), make((-1e-4, 0.2))), (make((0.0, 0.2001)), make((0.0, 0.1999))),
                                      (make(gain=1.0001), make(gain=0.9999))]):
        ends = [solved(p, options) for p in (one, other)]
        T = (ends[0].trajectory.t[-1] - ends[1].trajectory.t[-1]) / 2e-4
        u = (ends[0].trajectory.u - ends[1].trajectory.u) / 2e-4
        J = (ends[0].objective - ends[1].objective) / 2e-4
        by = (found.dconstants_dx0[0, i], found.phase.du_dx0[:, :, i], found.dJ_dx0[i]) if i < 2 else \
            (found.dconstants_dp[0, 0], found.phase.du_dp[:, :, 0], found.dJ_dp[0])
        assert by[0] == pytest.approx(T, abs=1e-5)
        np.testing.assert_allclose(by[1], u, atol=1e-4)
        assert by[2] == pytest.approx(J, abs=1e-5)


def test_what_cannot_be_differentiated_is_refused():
    with pytest.raises(ProblemError, match="by 'collocation'"):
        sensitivities(solve(pendulum(), "collocation", {"intervals": 10}))
    with pytest.raises(ProblemError, match="ITERATION_LIMIT"):
        sensitivities(solved(pendulum(), {"kernels": "interpreted", "intervals": 10, "max_iterations": 1}))
