"""Published and independently reproduced optima of exact discretisations, digit by digit."""

from __future__ import annotations

from dataclasses import replace

import control_problems as known
import direct_problems as direct
import free_problems
import numpy as np
import pytest
from scipy.optimize import fsolve
from uncertified import by_collocation

from ocp.problem import Guess, Status
from ocp.transcription.collocation import CollocationOptions

#: objective of the trapezoid scheme with 50, 100, 200 and 400 equal intervals
TRAPEZOID = {
    "cart-pole": (known.cart_pole, (59.147757, 58.896710, 58.830379, 58.813398), 1, 6e-7),
    "particle": (free_problems.particle_steering, (0.55466876, 0.55459540, 0.55457702, 0.55457241), 1, 6e-9),
    "goddard": (direct.goddard, (1.01281711, 1.01283202, 1.01283569, 1.01283661), -1, 6e-9),
    "chain": (direct.hanging_chain, (5.07226149, 5.06978461, 5.06891734, 5.06862169), 1, 6e-9),
    "arm": (direct.robot_arm, (9.146878, 9.142685, 9.141395, 9.141026), 1, 6e-7),
}


def on(problem, n, scheme="trapezoid", **options):
    found = by_collocation(problem, CollocationOptions(**{"scheme": scheme, "intervals": n, "tolerance": 1e-9, **options}))
    assert found.status is Status.CONVERGED, found.ending
    return found


def refined(problem, found):
    """The problem with a solution as its guess."""
    s, path = np.linspace(0, 1, 801), found.trajectory
    at = path.t[-1] * s
    phase = problem.phase
    guess = Guess(s, path.state(at), path.control(at))
    return known.problem(replace(phase, duration=replace(phase.duration, guess=path.t[-1]), guess=guess))


def objectives(name, meshes):
    make, _, sign, _ = TRAPEZOID[name]
    problem, values = make(), []
    for n in meshes:
        found = on(problem, n, tolerance=1e-11 if name == "goddard" else 1e-9)
        values.append(sign * found.objective)
        problem = refined(problem, found)
    return values


@pytest.mark.parametrize("name", TRAPEZOID)
def test_trapezoid_up_to_four_hundred_intervals(name):
    _, published, _, digits = TRAPEZOID[name]
    assert objectives(name, (50, 100, 200, 400)) == pytest.approx(published, abs=digits)


@pytest.mark.parametrize(("make", "options", "value", "close"), [
    (free_problems.particle_steering, {"scheme": "gauss", "degree": 4, "n": 12}, 0.5545708783, 2e-10),
    (free_problems.particle_steering, {"scheme": "radau", "degree": 4, "n": 20}, 0.5545708783, 2e-10),
    (known.cart_pole, {"scheme": "gauss", "degree": 4, "n": 60}, 58.80766746, 2e-8),
    (known.cart_pole, {"scheme": "radau", "degree": 5, "n": 60}, 58.80766746, 2e-8),
    (known.cart_pole, {"scheme": "lobatto", "degree": 5, "n": 60}, 58.80766746, 2e-8),
    (direct.hanging_chain, {"scheme": "gauss", "degree": 5, "n": 40}, 5.0684801, 6e-8),
    (direct.hanging_chain, {"scheme": "radau", "degree": 5, "n": 40, "form": "differential"}, 5.0684801, 6e-8)],
    ids=lambda part: getattr(part, "__name__", str(part)))
def test_schemes_of_high_order_reach_the_optimum_itself(make, options, value, close):
    options = dict(options)
    assert on(make(), options.pop("n"), **options).objective == pytest.approx(value, abs=close)


def test_the_chain_hangs_in_a_catenary():
    """x = c cosh((t - s) / c) + m with three conditions: ends and length; the integral constraint's multiplier is -m."""
    found = on(direct.hanging_chain(), 30, "gauss", degree=5)
    def gaps(z):
        c, s, m = z
        return (c * np.cosh(s / c) + m - 1, c * np.cosh((1 - s) / c) + m - 3, c * (np.sinh((1 - s) / c) + np.sinh(s / c)) - 4)

    c, s, m = fsolve(gaps, (0.2, 0.4, -0.2), xtol=1e-13)
    t = np.linspace(0, 1, 41)
    np.testing.assert_allclose(found.trajectory.state(t)[:, 0], c * np.cosh((t - s) / c) + m, atol=1e-5)
    row = found.optimality.nlp.constraints.index("length @ whole phase")
    assert found.extra["lam_g"][row] == pytest.approx(-m, abs=1e-4)
