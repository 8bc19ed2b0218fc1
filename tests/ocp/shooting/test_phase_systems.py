"""Phases with systems of their own: other states, other parameters, and a problem that has everything, by plain rollouts."""

import dataclasses
import itertools

import casadi as ca
import numpy as np
import pytest
from control_problems import fixed, flat_system
from free_problems import constant, cost
from plain_shooting import advance, of_solution, rollout
from rich_horizon import RICH
from shooting_problems import held, options, reset

from ocp.errors import ProblemError
from ocp.problem import At, Guess, Phase, Problem, Status, join
from ocp.shooting.ilqr import solve


def test_a_phase_may_have_another_system():
    """A body with two coordinates hands one of them on: the second phase has one state and two controls, in closed form."""
    slide = flat_system("slide", ("x", "v"), ("u",), lambda t, x, u, p: ca.vertcat(x[1], u[0]))
    tank = flat_system("tank", ("level",), ("in_", "out"), lambda t, x, u, p: u[0] - u[1])
    effort = cost("effort", At.PATH, lambda t, x, u, p: u, 2, weights=(1.0,))
    pumps = cost("pumps", At.PATH, lambda t, x, u, p: u, 1, nu=2, weights=(1.0, 1.0))
    one = Phase("slide", slide, held(1.0), constant((0, 0), (0.0,)), fixed(0, 0), costs=(effort,))
    two = Phase("fill", tank, held(2.0), constant((0,), (0.0, 0.0)), final=fixed(1), costs=(pumps,),
                reset=reset(lambda x, p: x[0] + 2 * x[1], 2))
    found = solve(Problem("handed on", (one, two)), options(intervals=20))
    assert found.status is Status.CONVERGED, found.ending
    # u(t) pushes the level by 3 - t, each pump by 1: least squares for a level of 1
    h = 1 / 20
    push = h * (3 - (np.arange(20) + 0.5) * h)
    multiplier = 1 / (push @ push / h + 2 * 2.0)
    np.testing.assert_allclose(found.parts[0].u.ravel(), multiplier * push / h, atol=1e-5)
    np.testing.assert_allclose(found.parts[1].u, multiplier * np.array([[1, -1]] * 20), atol=1e-5)
    assert found.objective == pytest.approx(multiplier / 2, rel=1e-6)
    assert found.parts[0].x.shape == (21, 2)
    assert found.parts[1].x.shape == (21, 1)
    assert found.parts[1].u.shape == (20, 2)
    whole = found.trajectory  # as wide as the widest phase
    np.testing.assert_array_equal(np.isnan(whole.x).sum(axis=0), [0, 21])
    np.testing.assert_array_equal(np.isnan(whole.u).sum(axis=0), [0, 20])
    np.testing.assert_array_equal(whole.state(2.0)[:1], found.parts[1].state(2.0))
    np.testing.assert_array_equal(join(found.parts).x, whole.x)


def unconstrained():
    """The problem that has everything, without its rows."""
    def free(phase):
        soft = tuple(c for c in phase.constraints if c.soft is not None)
        return dataclasses.replace(phase, constraints=soft, final=None, x_lower=(), x_upper=(),
                                   start=phase.start if phase.reset is None else None)
    return dataclasses.replace(RICH, phases=tuple(free(phase) for phase in RICH.phases))


@pytest.mark.parametrize("hessian", ["gauss_newton", "full"])
def test_the_gradient_of_everything_at_once_against_differences(hessian):
    """Quaternions, a reset map to another system, free durations, a parameter, free components of the start: by plain rollouts."""
    base = unconstrained()
    rng = np.random.default_rng(3)
    wild = [Guess(np.linspace(0, 1, 5), np.tile(phase.guess.x[0], (5, 1)), phase.guess.u[0] + rng.normal(size=(5, phase.system.nu)))
            for phase in base.phases]
    phases = tuple(dataclasses.replace(phase, guess=guess) for phase, guess in zip(base.phases, wild, strict=True))
    found = solve(dataclasses.replace(base, phases=phases), options(intervals=4, max_iterations=0, hessian=hessian))
    gradient, (flown, slid) = found.optimality.gradient(), found.parts
    start, controls, durations = flown.x[0], [flown.u, slid.u], [1.1, 0.7]

    def total(start=start, controls=controls, durations=durations, drag=0.4):
        motion = rollout(base, start, controls, durations, {"drag": drag})
        return motion.cost + _soft(base.phases[0], start, controls[0], durations[0], drag)

    assert total() == pytest.approx(found.objective, rel=1e-12)

    def slope(change):
        return (total(**change(1e-5)) - total(**change(-1e-5))) / 2e-5

    def moved(i):
        space = base.phases[0].system.space
        return lambda d: {"start": np.asarray(ca.DM(space.plus(ca.DM(start), ca.DM(d * np.eye(12)[i])))).ravel()}

    expected = [slope(moved(i)) for i in (0, 4, 8)]
    expected += [slope(lambda d: {"durations": [1.1 + d, 0.7]}), slope(lambda d: {"durations": [1.1, 0.7 + d]}),
                 slope(lambda d: {"drag": 0.4 + d})]
    np.testing.assert_allclose(gradient[0], expected, rtol=1e-6, atol=1e-8)
    for phase, first, k in itertools.product((0, 1), (1,), (0, 3)):
        for i in range(controls[phase].shape[1]):
            def pushed(d, phase=phase, k=k, i=i):
                both = [u.copy() for u in controls]
                both[phase][k, i] += d
                return {"controls": both}
            row = first + k if phase == 0 else first + 5 + k
            assert gradient[row, i] == pytest.approx(slope(pushed), rel=1e-6, abs=1e-8)
    assert found.iterations[0]["gradient"] == pytest.approx(np.abs(found.optimality.projected(gradient)).max(), rel=1e-9)


def _soft(phase, start, u, duration, drag):
    """Integral of the soft constraint of the flight, 3/2 (y - 0.1)^2, by the nodes of RK4."""
    x, value, h, p = start, 0.0, duration / len(u), np.array([9.0, drag])
    for k, control in enumerate(u):
        x, nodes = advance(phase.system, "rk4", k * h, x, control, p, h)
        value += h * sum(w * 1.5 * (node[1] - 0.1)**2 for w, _, node in nodes)
    return value


def test_phases_that_do_not_fit_are_refused():
    ball = flat_system("ball", ("z", "v"), ("push",), lambda t, x, u, p: ca.vertcat(x[1], u[0] - 9.81))
    one = Phase("fall", ball, held(0.3), constant((1, 0), (0.0,)), fixed(1, 0))
    other = flat_system("tank", ("level",), ("u",), lambda t, x, u, p: u[0])
    alien = Phase("alien", other, held(1.0), constant((0,), (0.0,)))
    with pytest.raises(ProblemError, match="'alien' has other states than 'fall'; a reset must say how they begin"):
        solve(Problem("broken", (one, alien)), options(intervals=2))
    more = flat_system("ball", ("z", "v"), ("push",), lambda t, x, u, p: ca.vertcat(x[1], u[0] - p[0]), ("g",), (9.81,))
    with pytest.raises(ProblemError, match="same parameters"):
        solve(Problem("broken", (one, dataclasses.replace(one, name="rise", system=more, start=None))), options(intervals=2))


def leaking(k_one, k_two, more=()):
    """Two phases of x' = u - k x with a k of their own, and what else the second one asks for."""
    def phase(name, k, **given):
        system = flat_system("leak", ("x",), ("u",), lambda t, x, u, p: u[0] - p[0] * x[0], ("k",), (k,))
        track = cost("track", At.PATH, lambda t, x, u, p: p[0] * x[0]**2 + u[0]**2, 1, np_=1)
        end = cost("end", At.FINAL, lambda t, x, u, p: p[0] * x[0], 1, np_=1)
        return Phase(name, system, held(1.0), constant((1.0,), (0.3,)), costs=(track, end, *given.pop("costs", ())), **given)

    return Problem("leak", (phase("one", k_one, start=fixed(1.0)), phase("two", k_two, **dict(more))))


def test_values_of_parameters_may_differ_by_phase_but_not_across_a_passage():
    jump = {"reset": reset(lambda x, p: x + 1, 1, 1)}
    found = solve(leaking(1.0, 2.0, jump), options(intervals=5))
    assert found.status is Status.CONVERGED
    assert of_solution(found).cost == pytest.approx(found.objective, rel=1e-12)
    assert found.parts[1].x[0, 0] == pytest.approx(found.parts[0].x[-1, 0] + 1)
    opening = cost("open", At.START, lambda t, x, u, p: 100 * p[0] * x[0], 1, np_=1)
    for more in ({"reset": reset(lambda x, p: x + 10 * p, 1, 1)}, {"costs": (opening,)}):
        with pytest.raises(ProblemError, match="'k' is 1 in phase 'one' and 2 here"):
            solve(leaking(1.0, 2.0, more), options(intervals=5))
        same = solve(leaking(2.0, 2.0, more), options(intervals=5))
        assert same.status is Status.CONVERGED
        assert of_solution(same).cost == pytest.approx(same.objective, rel=1e-12)
