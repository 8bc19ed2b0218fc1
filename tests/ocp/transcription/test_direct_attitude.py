"""Attitudes: several turns, ends that are open about an axis, bounds on components of quaternions; in both forms of the states."""

from __future__ import annotations

import direct_problems as direct
import numpy as np
import pytest
from direct_problems import solved

from ocp.methods import solve
from ocp.problem import INF, Boundary, Guess, Status


@pytest.mark.parametrize(("states", "sign"), [
    ("tangent", -1), ("coordinates", -1), pytest.param("tangent", 1, marks=pytest.mark.slow)])
def test_several_turns(states, sign):
    """20.7 rad about the third axis in a second: 1/2 * 12 (I angle)^2; the goal may be written as q or as -q."""
    angle, s = 20.7, np.linspace(0, 1, 31)
    guess = Guess(s, np.array([direct.pose((0, 0, 0), (0, 0, angle * r), (0, 0, 0, 0, 0, angle)) for r in s]), np.zeros((31, 6)))
    goal = np.array(direct.pose((0, 0, 0), (0, 0, angle)))
    goal[3:7] *= sign
    problem = direct.body_transfer(guess=guess, final=Boundary(tuple(goal), (True,) * 12))
    found = solved(problem, states=states, scheme="gauss", intervals=20)
    assert found.objective == pytest.approx(6 * (3 * angle) ** 2, rel=1e-5)
    t = np.linspace(0, 1, 33)
    np.testing.assert_allclose(found.trajectory.state(t)[:, 12], angle * 6 * (t - t**2), atol=2e-3)
    turned = np.array([direct.attitude((0, 0, a)) for a in angle * (3 * t**2 - 2 * t**3)])
    np.testing.assert_allclose(np.abs(np.sum(found.trajectory.state(t)[:, 3:7] * turned, axis=1)), 1, atol=1e-6)


@pytest.mark.parametrize("options", [
    {"scheme": "radau"}, pytest.param({"method": "multiple_shooting", "integrator": "rkmk4"}, marks=pytest.mark.slow)], ids=str)
def test_partly_fixed_attitude_at_both_ends(options):
    """Free about one axis at the start and about another at the end; both forms find the same and hold what is prescribed."""
    first = Boundary(direct.pose(), (True,) * 3 + (True, True, False) + (True,) * 6)
    last = Boundary(direct.pose((0, 0, 0), (0.9, 0, 0.5)), (True,) * 3 + (True, False, True) + (True,) * 6)
    problem = direct.body_transfer(start=first, final=last)
    found = [solved(problem, states=states, intervals=8, **options) for states in ("tangent", "coordinates")]
    assert found[0].objective == pytest.approx(found[1].objective, rel=2e-4)
    full = solved(direct.with_phase(problem, start=Boundary(first.value, (True,) * 12), final=Boundary(last.value, (True,) * 12)),
                  states="tangent", intervals=8, **options)
    assert found[0].objective < 0.8 * full.objective


@pytest.mark.parametrize("options", [pytest.param({"form": "compressed"}, marks=pytest.mark.slow), {"scheme": "gauss"},
                                     pytest.param({"method": "multiple_shooting", "integrator": "rkmk4", "controls": "linear"},
                                                  marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("states", ["tangent", "coordinates"])
def test_a_bound_on_a_quaternion_component(states, options):
    """Bryson and Denham's bead as a turn about the third axis: angle <= 1/9 costs 4 I^2, as a bound on the quaternion."""
    limit = 1 / 9
    first, last = (direct.pose((0, 0, 0), (0, 0, 0), (0, 0, 0, 0, 0, w)) for w in (1.0, -1.0))
    upper = (INF,) * 6 + (np.sin(limit / 2),) + (INF,) * 6
    problem = direct.body_transfer(start=Boundary(first, (True,) * 12), final=Boundary(last, (True,) * 12), x_upper=upper,
                                   guess=Guess(np.array([0.0, 1.0]), np.array([first, last]), np.zeros((2, 6))))
    found = solve(problem, options.get("method", "collocation"),
                  {"states": states, "intervals": 18, **{k: v for k, v in options.items() if k != "method"}})
    assert found.status is Status.CONVERGED, found.ending
    assert found.objective == pytest.approx(36, rel=6e-3)
    bound = next(v for v in found.certificate.violations if v.name == "bound q.root_joint.z")
    assert bound.holds
    free = solve(direct.with_phase(problem, x_upper=(INF,) * 13), "collocation", {"states": states, "intervals": 10})
    assert free.objective == pytest.approx(18, rel=1e-6)


@pytest.mark.parametrize(("options", "close"), [({"scheme": "radau"}, 1e-4),
                                                pytest.param({"method": "multiple_shooting", "integrator": "rkmk4"}, 6e-2,
                                                             marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("states", ["tangent", "coordinates"])
def test_a_bound_on_a_rate(states, options, close):
    """0.9 rad in a second at no more than 1.1 rad/s: parabolas for tau = 3/2 (1 - 0.9/1.1) s at both ends, 4 (I w)^2 / (3 tau)."""
    turn, limit = 0.9, 1.1
    upper = (INF,) * 12 + (limit,)
    found = solved(direct.body_transfer((0, 0, 0), (0, 0, turn), x_upper=upper), states=states, intervals=11, **options)
    tau = 1.5 * (1 - turn / limit)
    assert found.objective == pytest.approx(4 * (3 * limit) ** 2 / (3 * tau), rel=close)
    assert found.trajectory.x[:, 12].max() == pytest.approx(limit, abs=1e-7)
