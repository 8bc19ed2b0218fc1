"""Equations of motion as defects of multiple shooting: the motions of the same steps with Newton inside, orders, loops, solvers."""

from dataclasses import replace
from functools import cache

import casadi as ca
import numpy as np
import pytest
from repository import ROOT
from uncertified import by_multiple_shooting

from ocp.app.files.load import load_problem
from ocp.integrators import INTEGRATORS, MULTISTEP
from ocp.methods import solve
from ocp.problem import replaced_systems
from ocp.transcription.multiple_shooting import MultipleShootingOptions, transcribe

METHODS = ("bdf1", "sdirk2", "bdf2")


def problem_of(name):
    return load_problem(ROOT / f"problems/{name}.yaml").problem


def solved(problem, **options):
    """Without a certificate."""
    found = by_multiple_shooting(problem, MultipleShootingOptions(**{"intervals": 40, **options}))
    assert found.status.name == "CONVERGED", found.ending
    return found


@cache
def by_fine_steps(name, intervals):
    """The least cost with a control that is held in so many intervals."""
    return solved(problem_of(name), integrator="rk4", intervals=intervals).objective


def without_motion(problem):
    return replaced_systems(problem, [replace(phase.system, formulation=replace(phase.system.formulation, motion=None))
                                      for phase in problem.phases])


@pytest.mark.parametrize("method", ["sdirk2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("bdf1", "bdf2"))])
def test_the_optimum_is_that_of_steps_by_the_rate(method):
    """On flat spaces the rate, with its inverse of M and Newton's method inside, leads to the same optimum by another road."""
    problem = problem_of("four_bar")
    one, other = (solved(one, integrator=method, intervals=20) for one in (problem, without_motion(problem)))
    assert one.objective == pytest.approx(other.objective, rel=1e-7)
    np.testing.assert_allclose(one.trajectory.x, other.trajectory.x, atol=1e-5)


@pytest.mark.parametrize("name", ["quadrotor", "four_bar"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.sample(2)
def test_knots_are_those_of_steps_with_newton_inside(method, name):
    """With quaternions, free or tangent, and with the multipliers of a closed loop."""
    problem = problem_of(name)
    sys = problem.phase.system
    t, x, before, u, h = (ca.MX.sym(s, size) for s, size in zip("txbuh", (1, sys.nx, sys.nx, sys.nu, 1), strict=True))
    first = MULTISTEP[method].first if method in MULTISTEP else method
    step = ca.Function("step", [t, x, u, h], [INTEGRATORS[first].step(sys, t, x, u, [], h)])
    onward = ca.Function("onward", [t, before, x, u, h], [MULTISTEP[method].advance(sys, t, before, x, u, [], h, ca.MX(1))[0]]) \
        if method in MULTISTEP else None
    forms = ("coordinates",) if name == "four_bar" else ("coordinates", "tangent")
    for states in forms if method == "sdirk2" else forms[-1:]:
        found = solved(problem, integrator=method, states=states, intervals=20).trajectory
        length = found.t[1] - found.t[0]
        for k in range(20):
            here = found.t[k], found.x[k], found.u[k], length
            after = step(*here) if onward is None or not k else onward(here[0], found.x[k - 1], *here[1:])
            np.testing.assert_allclose(np.asarray(after).ravel(), found.x[k + 1], atol=2e-7)


@pytest.mark.parametrize(("method", "order"), [("bdf1", 1), ("sdirk2", 2), ("bdf2", 2)])
@pytest.mark.sample(2)
def test_objectives_converge_at_the_order_of_the_steps(method, order):
    problem = problem_of("four_bar")
    errors = [abs(solved(problem, integrator=method, intervals=n).objective - by_fine_steps("four_bar", n)) for n in (40, 160)]
    assert errors[1] < 1.6 * 4.0**-order * errors[0]


@pytest.mark.parametrize("solver", ["fatrop", pytest.param("interior_point", marks=pytest.mark.slow)])
def test_other_solvers_take_unknowns_of_intervals(solver):
    problem = problem_of("four_bar")
    one, other = (solved(problem, integrator="sdirk2", intervals=20, solver=which) for which in ("ipopt", solver))
    assert one.objective == pytest.approx(other.objective, rel=1e-6)


def test_rows_and_unknowns_are_named():
    problem = problem_of("four_bar")
    made = transcribe(problem, MultipleShootingOptions(integrator="sdirk2", intervals=3))
    names = list(made.nlp.constraints)
    assert sum("motion of crank" in name for name in names) == 6
    assert sum("motion of crank inside @ interval 1" in name for name in names) == 1
    assert any("multiplier 0 inside @ interval 2" in name for name in made.nlp.variables)
    assert len(set(made.nlp.variables)) == len(list(made.nlp.variables))


def test_first_order_is_judged_honestly():
    """Forty steps of BDF1 miss the dynamics by percents, and the certificate says so; SDIRK2 keeps it."""
    problem = problem_of("four_bar")
    coarse, fine = (solve(problem, "multiple_shooting", {"integrator": name, "intervals": n}) for name, n in (
        ("bdf1", 40), ("sdirk2", 80)))
    assert not coarse.ok
    assert fine.ok
    assert coarse.objective != pytest.approx(fine.objective, rel=1e-2)


@pytest.mark.slow
def test_a_chain_on_a_hard_wall_that_explicit_steps_cannot_take():
    """The wall's fastest mode lies far outside the stability of RK4 at this step; SDIRK2 takes it, and comes near the optimum that
    Radau collocation finds."""
    problem, steps = problem_of("chain_on_wall"), 80
    system, guess = problem.phase.system, problem.phase.guess
    x, u = ca.SX.sym("x", system.nx), ca.SX.sym("u", system.nu)
    slope = ca.Function("slope", [x, u], [ca.jacobian(system.rate(0, x, u, []), x)])
    z = np.linalg.eigvals(np.array(slope(guess.x[0], guess.u[0]))) / steps
    assert np.abs(1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24).max() > 3  # growth of RK4 at every step
    found = solved(problem, integrator="sdirk2", intervals=steps)
    assert found.objective == pytest.approx(problem.reference.objective, rel=5e-3)
