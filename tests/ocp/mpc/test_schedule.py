"""Several phases in a receding horizon: the merged problem against a transcription written once more, and across the instants."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from repository import ROOT
from scipy.optimize import minimize

from ocp.app.files.load import load_text
from ocp.app.mpc.run import prepare_loaded
from ocp.errors import ProblemError
from ocp.methods import method
from ocp.mpc.controller import controller
from ocp.mpc.options import MPCOptions
from ocp.mpc.schedule import scheduled
from ocp.problem import INF, At, Boundary, Constraint, Cost, Duration, Guess, Phase, Problem, System
from ocp.shooting import ilqr
from ocp.shooting.options import ILQROptions
from ocp.spaces import euclidean

h = 0.05
SOLVER = ILQROptions(cost_quadrature="rectangle")


def function(build, nx=2, nu=1):
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", nx), ca.SX.sym("u", nu), ca.SX.sym("p", 0)
    return ca.Function("f", [t, x, u, p], [ca.densify(ca.SX(build(t, x, u)))])


def phase(name, mass, duration, goal, reset=None, start=None, final=None, **more):
    system = System(name, euclidean(("q", "v")), ("u",), function(lambda t, x, u: ca.vertcat(x[1], u / mass)))
    costs = (Cost("run", At.PATH, function(lambda t, x, u: ca.vertcat(x[0] - goal, 0.3 * x[1], 0.1 * u)), (5.0, 1.0, 1.0)),
             Cost("end", At.FINAL, function(lambda t, x, u: ca.vertcat(x[0] - goal, x[1])), (30.0, 2.0)))
    x, p = ca.SX.sym("x", 2), ca.SX.sym("p", 0)
    jump = None if reset is None else ca.Function("reset", [x, p], [ca.vertcat(x[0], reset * x[1])])
    bounds = {"u_lower": (-20.0,), "u_upper": (20.0,), **more}
    guess = Guess(np.array([0.0, 1.0]), np.zeros((2, 2)), np.zeros((2, 1)))
    lasting = Duration(duration, duration, duration)
    return Phase(name, system, lasting, guess, start=start, final=final, costs=costs, reset=jump, **bounds)


def catch(first=0.5, **more):
    start = Boundary((0.0, 0.0), (True, True))
    return Problem("catch", (phase("reach", 1.0, first, 1.0, start=start, **more), phase("carry", 3.0, 0.75, -0.5, reset=1 / 3)))


def moved(x, u, mass, share):
    return np.array([x[0] + share * x[1] + share**2 / 2 * u / mass, x[1] + share * u / mass])


@pytest.mark.parametrize("first", [0.5, 0.53], ids=["on a knot", "between knots"])
def test_the_merged_problem_is_the_one_written_by_hand(first):
    """Sums over knots, a step in two parts across the catch, costs of both ends; minimised by L-BFGS over the controls alone."""
    problem, steps = catch(first), 25
    merged = method("ilqr").reduce(scheduled(problem, steps * h, h), SOLVER)
    assert len(merged.phases) == 1
    solution = ilqr.solve(merged, SOLVER)

    def by_hand(controls):
        x, total = np.zeros(2), 0.0
        for k, u in enumerate(controls):
            t, early = k * h, k * h < first - 1e-9
            goal, mass = (1.0, 1.0) if early else (-0.5, 3.0)
            total += h * 0.5 * (5 * (x[0] - goal) ** 2 + (0.3 * x[1]) ** 2 + (0.1 * u) ** 2)
            share = first - t
            if early and share <= h + 1e-9:
                x = moved(x, u, 1.0, share)
                total += 0.5 * (30 * (x[0] - 1) ** 2 + 2 * x[1] ** 2)
                x = moved([x[0], x[1] / 3], u, 3.0, h - share)
            else:
                x = moved(x, u, mass, h)
        return total + 0.5 * (30 * (x[0] + 0.5) ** 2 + 2 * x[1] ** 2)

    known = minimize(by_hand, solution.trajectory.u.ravel() * 0.9, method="L-BFGS-B", bounds=[(-20, 20)] * steps,
                     options={"maxiter": 5000, "maxfun": 500000, "ftol": 1e-15, "gtol": 1e-9})
    assert solution.objective == pytest.approx(by_hand(solution.trajectory.u.ravel()), rel=1e-12)
    assert solution.objective == pytest.approx(known.fun, rel=1e-7)


def test_a_horizon_moves_across_the_catch_with_one_program():
    """Where the plant is the model the closed loop keeps its plan: the reset is foreseen, and happens once."""
    problem = catch(0.53)
    mpc = controller(problem, MPCOptions(rate=1 / h, horizon=0.6), SOLVER)
    program, x, passed = mpc.horizon.program, np.zeros(2), []
    mpc.reset(x)
    for k in range(30):
        t = k * h
        u = mpc.step(x, t)
        assert len(mpc.plan.u) == 12
        assert mpc.horizon.program is program
        plan = mpc.plan.x[1]
        if t < 0.53 <= t + h:
            x = moved(x, u[0], 1.0, 0.53 - t)
            passed.append(x.copy())
            x = moved([x[0], x[1] / 3], u[0], 3.0, t + h - 0.53)
        else:
            x = moved(x, u[0], 1.0 if t < 0.53 else 3.0, h)
        assert plan == pytest.approx(x, abs=1e-10)
    assert len(passed) == 1
    assert x[0] == pytest.approx(-0.5, abs=0.1)


def test_bounds_constraints_and_final_states_hold_in_their_phase_alone():
    wall = Constraint("slow", At.PATH, function(lambda t, x, u: x[1]), (-INF,), (1.5,))
    problem = catch(0.5, x_lower=(-0.1, -INF), x_upper=(INF, INF), constraints=(wall,), final=Boundary((0.5, 0.0), (True, False)))
    merged = method("ilqr").reduce(scheduled(problem, 1.25, h), SOLVER)
    solution = ilqr.solve(merged, SOLVER)
    x = solution.trajectory.x
    assert x[10, 0] == pytest.approx(0.5, abs=1e-6)  # the reset leaves the place as it was
    assert x[:11, 0].min() >= -0.1
    assert x[:10, 1].max() <= 1.5 + 1e-6
    assert x[11:, 0].min() < -0.3  # where the bound of the other phase is none
    free = ilqr.solve(method("ilqr").reduce(scheduled(catch(0.5), 1.25, h), SOLVER), SOLVER)
    assert free.trajectory.x[:10, 1].max() > 1.6


def test_a_file_with_phases_runs_in_closed_loop(tmp_path):
    text = (ROOT / "problems" / "mpc" / "pick_and_place.yaml").read_text()
    loop = prepare_loaded(load_text(text)).run()
    assert loop.ok
    assert loop.x[-1] == pytest.approx([-0.5, 0.0, 3.0], abs=5e-3)
    k = int(np.flatnonzero(np.diff(loop.x[:, 2]))[0])
    assert loop.t[k] < 1.03 < loop.t[k + 1]
    q, v = moved(loop.x[k, :2], loop.u[k, 0], 1.0, 1.03 - loop.t[k])
    assert loop.x[k + 1, :2] == pytest.approx(moved([q, v / 3], loop.u[k, 0], 3.0, loop.t[k + 1] - 1.03), abs=1e-9)
    assert q == pytest.approx(1.0, abs=0.1)


def test_phases_that_do_not_fit_are_named():
    one, other = catch().phases
    for phases, words in (
            ((one, replace(other, duration=Duration(0.5, 1.0, 0.75))), "fixed durations"),
            ((one, replace(other, duration=Duration(0.02, 0.02, 0.02))), "less than a sampling period"),
            ((one, replace(other, system=replace(other.system, controls=("w",)))), "same states, controls and parameters"),
            ((replace(one, start=None), other), "whole initial state")):
        with pytest.raises(ProblemError, match=words):
            scheduled(Problem("wrong", phases), 1.0, h)
