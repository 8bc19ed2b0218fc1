"""Newton's order near the solution: full Hessians square the residual, Gauss-Newton's divide it by a constant.

Both go on from the same iterate of Gauss-Newton, so the bounds hold for the step itself and not for the way to the solution.
"""

import dataclasses

import casadi as ca
import numpy as np
import pytest
from shooting_problems import make, pendulum

from dynamics.model.synthetic import serial_chain
from ocp.bridge import robot_system
from ocp.problem import INF, At, Boundary, Cost, Duration, Guess, Phase, Problem
from ocp.shooting import ilqr
from ocp.shooting.ilqr import ILQROptions
from ocp.shooting.options import Tuning
from ocp.spaces import euclidean

INTERVALS = 30
ORDER, CONSTANT = 1.7, 20.0


def unicycle():
    """To a pose beside the start, with forward speed and turning rate as controls."""
    return make("unicycle", euclidean(("x", "y", "theta")), ("v", "omega"),
                lambda t, x, u: ca.vertcat(u[0] * ca.cos(x[2]), u[0] * ca.sin(x[2]), u[1]), (0.0, 0.0, 0.0), 2.0,
                running=[("effort", lambda t, x, u: u, (0.5, 0.5))],
                final=[("goal", lambda t, x, u: x - ca.DM([1.0, 0.8, 0.3]), (50.0,) * 3)], u_guess=[[0.5, 0.2], [0.5, -0.2]])


def arm():
    """Three joints in space, from rest to a configuration at rest."""
    model = serial_chain(3)
    system = robot_system(model)
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", 6), ca.SX.sym("u", 3), ca.SX.sym("p", 0)
    costs = (Cost("effort", At.PATH, ca.Function("effort", [t, x, u, p], [u]), weights=(1.0,) * 3),
             Cost("goal", At.FINAL, ca.Function("goal", [t, x, u, p], [x - ca.DM([0.8, -0.6, 0.5, 0, 0, 0])]), weights=(20.0,) * 6))
    guess = Guess(np.array([0.0, 1.0]), np.zeros((2, 6)), np.zeros((2, 3)))
    start = Boundary((0.0,) * 6, (True,) * 6)
    return Problem("arm", (Phase("move", system, Duration(1.0, 1.0, 1.0), guess, start=start, costs=costs),))


PROBLEMS = {"pendulum": (lambda: pendulum(u_max=INF, duration=1.5, weight=20.0), {}), "unicycle": (unicycle, {}),
            "arm": (arm, {"derivatives": "analytic", "execution": "generated"})}


def residuals(solution):
    return np.array([row["gradient"] / max(1.0, abs(row["cost"])) for row in solution.iterations])


def after_gauss_newton(problem, options, level):
    """The problem from the first iterate of Gauss-Newton whose residual is at most level."""
    options = dataclasses.replace(options, hessian="gauss_newton", max_iterations=300)
    r = residuals(ilqr.solve(problem, options))
    k = int(np.argmax(r <= level))
    assert k > 0
    u = ilqr.solve(problem, dataclasses.replace(options, max_iterations=k)).trajectory.u[:INTERVALS]
    guess = Guess(np.r_[0.0, (np.arange(INTERVALS) + 0.5) / INTERVALS, 1.0], np.tile(problem.phase.guess.x[0], (INTERVALS + 2, 1)),
                  u[np.r_[0, :INTERVALS, -1]])
    return dataclasses.replace(problem, phases=(dataclasses.replace(problem.phase, guess=guess),))


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_full_hessian_squares_the_residual_and_gauss_newton_divides_it(name):
    build, more = PROBLEMS[name]
    options = ILQROptions(intervals=INTERVALS, tuning=Tuning(polish="never"), tolerance=1e-13, **more)
    near = after_gauss_newton(build(), options, 1e-4)
    full, coarse = (residuals(ilqr.solve(near, dataclasses.replace(options, hessian=h, max_iterations=4)))
                    for h in ("full", "gauss_newton"))
    assert full[0] == pytest.approx(coarse[0], rel=1e-9)
    for before, after in zip(full[:2], full[1:3], strict=True):
        assert after <= CONSTANT * before**ORDER + 1e-13
    assert full[2] < 1e-7
    assert np.all(coarse[1:4] > 0.05 * coarse[:3])
