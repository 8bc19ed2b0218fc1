"""The set of constrained problems: iLQR against IPOPT and FATROP on the same discrete problem, one start each."""

import casadi as ca
import numpy as np
import pytest
from constrained_problems import PROBLEMS, start_guess, with_guess
from shooting_nlp import staged_nlp

from ocp.methods import solve

OPTIONS = {"kernels": "interpreted", "tolerance": 1e-7, "constraint_tolerance": 1e-8}


NEARBY = {"mu_init": 1e-9, "bound_push": 1e-9, "slack_bound_push": 1e-9, "bound_frac": 1e-9, "slack_bound_frac": 1e-9}


def by_ipopt(nlp, x, u, **options):
    solver = ca.nlpsol("ipopt", "ipopt", nlp.nlp,
                       {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes", "tol": 1e-9, **options}})
    found = solver(x0=nlp.join(x, u), lbx=nlp.w_lower, ubx=nlp.w_upper, lbg=nlp.g_lower, ubg=nlp.g_upper)
    assert solver.stats()["success"]
    return float(found["f"]), np.array(found["x"]).ravel()


@pytest.mark.parametrize("name", ["double_integrator", "planar_cone", "chain"])
def test_convex_problems_have_one_optimum_from_any_start(name):
    c = PROBLEMS[name]()
    nlp = staged_nlp(c.problem.phase, **c.options)
    guess = start_guess(c, 3, "line")
    found = solve(with_guess(c.problem, guess), "ilqr", {**OPTIONS, **c.options})
    optimum, w = by_ipopt(nlp, guess.x[::2], guess.u[1::2])
    x, u = found.trajectory.x, found.trajectory.u
    assert found.objective == pytest.approx(optimum, rel=1e-6)
    assert nlp.cost(x, u) == pytest.approx(found.objective, rel=1e-10)
    assert nlp.defect(x, u) < 1e-12
    assert max(nlp.violations(x, u).values()) < 1e-6
    np.testing.assert_allclose(x, nlp.split(w)[0], atol=1e-3)


@pytest.mark.parametrize("name", ["pendulum", "three_obstacles"])
def test_an_interior_point_method_stays_where_ilqr_ends(name):
    """Started from the solution, IPOPT finds nothing better and nothing else; the constraints bind, so that they matter."""
    c = PROBLEMS[name]()
    nlp = staged_nlp(c.problem.phase, **c.options)
    found = solve(with_guess(c.problem, start_guess(c, 1, "line")), "ilqr", {**OPTIONS, **c.options})
    x, u = found.trajectory.x, found.trajectory.u
    assert max(nlp.violations(x, u).values()) < 1e-6
    optimum, w = by_ipopt(nlp, x, u, **NEARBY)
    assert found.objective == pytest.approx(optimum, rel=1e-6)
    np.testing.assert_allclose(nlp.split(w)[0], x, atol=5e-3)
    if name == "three_obstacles":
        centres = np.array([[k, k] for k in (0.75, 1.5, 2.25)])
        nearest = np.linalg.norm(x[:, None, :2] - centres, axis=2).min()
        assert nearest == pytest.approx(0.425, abs=1e-6)
    else:
        assert np.abs(u).max() == pytest.approx(3.0, abs=1e-9)


def test_fatrop_reads_the_stages():
    """The stated structure is the true one: the same optimum as without any."""
    c = PROBLEMS["planar_cone"]()
    nlp = staged_nlp(c.problem.phase, **c.options)
    if not ca.has_nlpsol("fatrop"):
        pytest.skip("this CasADi has no FATROP")
    guess = start_guess(c, 1, "line")
    x, u = guess.x[::2], guess.u[1::2]
    options = {**nlp.structure, "print_time": False, "fatrop": {"print_level": 0, "tol": 1e-8}}
    solver = ca.nlpsol("fatrop", "fatrop", nlp.nlp, options)
    found = solver(x0=nlp.join(x, u), lbx=nlp.w_lower, ubx=nlp.w_upper, lbg=nlp.g_lower, ubg=nlp.g_upper)
    assert solver.stats()["return_status"] == 0
    assert float(found["f"]) == pytest.approx(by_ipopt(nlp, x, u)[0], rel=1e-6)
    states, controls = nlp.split(np.array(found["x"]).ravel())
    residual = nlp.stationarity()(found["x"], found["lam_g"], found["lam_x"])
    assert float(residual) < 1e-6
    assert max(nlp.violations(states, controls).values()) < 1e-6


def test_every_problem_can_be_started():
    """Guesses stay inside the bounds, differ by seed, and repeat with it."""
    for name, make in PROBLEMS.items():
        if name == "ur5_reach":  # its inverse kinematics takes seconds
            continue
        c = make()
        phase = c.problem.phase
        first, again, other = (start_guess(c, seed, "line") for seed in (4, 4, 5))
        np.testing.assert_array_equal(first.u, again.u)
        assert np.abs(first.u - other.u).max() > 1e-3
        assert np.all(first.u >= np.array(phase.u_lower))
        assert np.all(first.u <= np.array(phase.u_upper))
        np.testing.assert_allclose(first.x[0], phase.start.value, atol=1e-9)
        assert len(first.s) == 2 * c.intervals + 1
