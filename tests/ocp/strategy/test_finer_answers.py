"""Answers of iLQR on finer grids, where shorter intervals mend all that fails."""

import numpy as np
import pytest
from scipy.integrate import quad_vec
from scipy.linalg import expm

import ocp

FREQUENCY, DURATION = 30.0, 2.0


def oscillator(frequency=FREQUENCY):
    p = ocp.Problem("Oscillator", duration=DURATION)
    x, v, u = p.state("x", "m"), p.state("v", "m/s"), p.control("u", "N")
    p.dynamics({x: v, v: u - frequency**2 * x})
    p.start(x=0, v=0)
    p.final(x=1, v=0)
    p.cost(u**2)
    return p


def least_energy(frequency=FREQUENCY):
    """By the Gramian of controllability."""
    A, B = np.array([[0.0, 1.0], [-frequency**2, 0.0]]), np.array([[0.0], [1.0]])
    gramian, _ = quad_vec(lambda s: expm(A * s) @ B @ B.T @ expm(A * s).T, 0.0, DURATION, epsabs=1e-10)
    return float(np.linalg.solve(gramian, [1.0, 0.0])[0])


def test_held_controls_that_are_too_coarse_for_an_oscillation_are_held_shorter():
    found = oscillator().solve("ilqr", kernels="interpreted")
    times = sum(one.taken and one.rule == "finer_mesh" for one in found.solution.strategy)
    assert found.ok
    assert times > 0
    assert found.solution.freeze["intervals"] == len(found.solution.trajectory.u) == 100 * 2**times
    assert found.objective == pytest.approx(least_energy(), rel=0.01)
    again = oscillator().solve("ilqr", kernels="interpreted", **found.solution.freeze)
    assert again.ok
    assert again.objective == pytest.approx(found.objective, rel=1e-6)


def test_a_number_of_intervals_that_is_asked_for_stays():
    found = oscillator().solve("ilqr", intervals=101, kernels="interpreted")
    assert not found.ok
    assert len(found.solution.trajectory.u) == 101
    assert not any(one.rule == "finer_mesh" for one in found.solution.strategy)


@pytest.mark.slow
def test_intervals_are_halved_as_often_as_the_order_asks_for():
    """Steps a radian long: halving them once leaves errors above their tolerance."""
    found = oscillator(2 * FREQUENCY).solve("ilqr", kernels="interpreted")
    assert found.ok
    assert found.solution.freeze["intervals"] >= 400
    assert found.objective == pytest.approx(least_energy(2 * FREQUENCY), rel=0.01)
