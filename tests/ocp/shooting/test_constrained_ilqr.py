"""Hard constraints in iLQR and DDP: closed forms, another method, multipliers, infeasibility, and what the certificate says."""


import casadi as ca
import numpy as np
import pytest
from control_problems import block_move, cart_pole
from direct_problems import with_phase
from free_problems import late_start
from shooting_problems import function, make

from ocp.app.files.load import load_problem, load_text
from ocp.errors import ProblemError
from ocp.guesses.inverse_dynamics import inverse_dynamics_motion
from ocp.methods import solve
from ocp.problem import INF, At, Boundary, Constraint, Kind, Sense, Status
from ocp.spaces import euclidean

FAST = {"kernels": "interpreted"}


def double_integrator(**more):
    """Unit mass from rest to rest over unit distance in unit time at least effort int u^2, by steps that are exact for it."""
    return make("block", euclidean(("x", "v")), ("u",), lambda t, x, u: ca.vertcat(x[1], u), (0.0, 0.0), 1.0,
                running=[("effort", lambda t, x, u: u**2, None)], **more)


@pytest.mark.parametrize("hessian", ["gauss_newton", "full"])
def test_prescribed_final_state_in_closed_form(hessian):
    """Held controls: min sum h u^2 under two linear conditions, solved by its normal equations."""
    N = 20
    h, k = 1 / N, np.arange(N)
    A = np.vstack([h * h * (N - k - 0.5), np.full(N, h)])
    u = A.T @ np.linalg.solve(A @ A.T, [1.0, 0.0])
    found = solve(block_move(), "ilqr", {**FAST, "intervals": N, "hessian": hessian})
    assert found.ok, (found.ending, found.certificate.failures)
    np.testing.assert_allclose(found.trajectory.u.ravel(), u, atol=1e-5)
    # the multipliers are the derivatives of the optimum by the goal
    optimum = np.array([h * (A.T @ np.linalg.solve(A @ A.T, g)) @ (A.T @ np.linalg.solve(A @ A.T, g))
                        for g in ([1 + 1e-5, 0.0], [1 - 1e-5, 0.0])])
    # final rows are minus(goal, x): moving the goal ahead costs minus the multiplier
    assert found.extra["multipliers_final"][0] == pytest.approx(-(optimum[0] - optimum[1]) / 2e-5, rel=1e-4)


def test_bryson_denham_from_below():
    """A bound on the position, known optimum 4 / (9 l) = 4 for l = 1/9; held controls can only do worse."""
    half = make("block", euclidean(("x", "v")), ("u",), lambda t, x, u: ca.vertcat(x[1], u), (0.0, 1.0), 1.0,
                running=[("effort", lambda t, x, u: u**2 / 2, None)])
    constrained = with_phase(half, final=Boundary((0.0, -1.0), (True, True)), x_upper=(1 / 9, INF))
    coarse, fine = (solve(constrained, "ilqr", {**FAST, "intervals": n}).objective for n in (40, 160))
    assert 4.0 < fine < coarse < 4.05
    assert fine - 4 < 0.3 * (coarse - 4)


def test_cart_pole_against_direct_multiple_shooting():
    """The published optimum of the same discrete problem (RK4, held controls, N = 100) is 58.888336; there is a better one."""
    found = solve(cart_pole(), "ilqr", {"intervals": 100, "hessian": "full"})
    assert found.ok, (found.ending, found.certificate.failures)
    assert found.objective == pytest.approx(58.888336, rel=1e-7) or found.objective == pytest.approx(58.0434054, rel=1e-7)
    assert max(v.at_knots for v in found.certificate.violations) < 1e-7


def obstacle(kind):
    """A point mass in the plane around a disc, or with its thrust in a cone."""
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", 4), ca.SX.sym("u", 2), ca.SX.sym("p", 0)
    system = make("point", euclidean(("x", "y", "vx", "vy")), ("ux", "uy"), lambda t, x, u: ca.vertcat(x[2:], u),
                  (0.0, 0.0, 0.0, 0.0), 2.0, running=[("effort", lambda t, x, u: u, (1.0, 1.0))])
    if kind == "disc":
        row = Constraint("disc", At.PATH, ca.Function("c", [t, x, u, p], [(x[0] - 0.5)**2 + (x[1] - 0.05)**2]), (0.04,), (INF,))
    else:
        row = Constraint("cone", At.PATH, ca.Function("c", [t, x, u, p], [ca.vertcat(1.2 + 0 * u[0], u[0], u[1])]), (-INF,) * 3,
                         (INF,) * 3, Sense.CONE)
    return with_phase(system, final=Boundary((1.0, 0.3, 0.0, 0.0), (True,) * 4), constraints=(row,))


@pytest.mark.parametrize("kind", ["disc", "cone"])
def test_path_constraints_agree_with_collocation_and_bind(kind):
    problem = obstacle(kind)
    found = solve(problem, "ilqr", {**FAST, "intervals": 200})
    other = solve(problem, "collocation", {"intervals": 100, "kernels": "interpreted"})
    assert found.status is Status.CONVERGED, found.ending
    assert found.objective == pytest.approx(other.objective, rel=2e-3)
    x, u = found.trajectory.x, found.trajectory.u
    if kind == "disc":
        gap = np.hypot(x[:, 0] - 0.5, x[:, 1] - 0.05) - 0.2
        assert -1e-6 < gap.min() < 1e-4
    else:
        size = np.hypot(*u.T)
        assert 1.2 - 1e-6 < size.max() < 1.2 + 1e-6
        assert (size > 1.19).sum() > 10


def test_the_robot_guess_comes_from_inverse_dynamics():
    loaded = load_problem("problems/panda_reach.yaml")
    _, u = inverse_dynamics_motion(loaded.problem.phase, 100)
    system = loaded.problem.phase.system
    assert u.shape == (100, system.nu)
    # the arm starts from rest: its first torques hold it up
    held, let_go = (np.linalg.norm(np.array(system.rate(0, loaded.problem.phase.start.value, w, []))) for w in (u[0], -u[0]))
    assert held < 0.5 * let_go
    found = solve(loaded.problem, "ilqr", {"intervals": 100})
    assert found.ok, (found.ending, found.certificate.failures)
    assert found.objective == pytest.approx(loaded.problem.reference.objective, rel=loaded.problem.reference.tolerance)
    assert Kind.GUESS_FROM_INVERSE_DYNAMICS in [one.kind for one in found.findings]
    assert inverse_dynamics_motion(cart_pole().phase, 10) is None


def test_a_small_cost_is_no_infeasibility():
    """The pendulum of the ALTRO set, a cost of 0.02 beside a torque bound; multiple shooting with IPOPT finds 0.018404626."""
    problem = make("pendulum", euclidean(("th", "w")), ("u",),
                   lambda t, x, u: ca.vertcat(x[1], (u - 4.905 * ca.sin(x[0]) - 0.1 * x[1]) / 0.25), (0.0, 0.0), 3.0,
                   running=[("stage", lambda t, x, u: ca.vertcat(x[0] - np.pi, x[1], u), (1e-3,) * 3)],
                   final=[("end", lambda t, x, u: ca.vertcat(x[0] - np.pi, x[1]), (1.0, 1.0))], u_max=3.0, u_guess=[[0.1], [0.1]])
    found = solve(with_phase(problem, final=Boundary((np.pi, 0.0), (True, True))), "ilqr",
                  {**FAST, "intervals": 50, "cost_quadrature": "rectangle", "tolerance": 1e-7})
    assert found.status is Status.CONVERGED, found.ending
    assert found.objective == pytest.approx(0.01840462615, rel=1e-5)


def test_nothing_changes_without_constraints():
    free = double_integrator()
    found = solve(free, "ilqr", {**FAST, "intervals": 10})
    assert "violation" not in found.iterations[0]
    assert "multipliers_path" not in found.extra


@pytest.mark.parametrize("hessian", ["auto", "gauss_newton"])
def test_bounds_of_controls_as_rows_find_the_same_optimum(hessian):
    """Clamped or by the augmented Lagrangian, a control limit that acts over some of the time; its multipliers are the gradients
    that clamping leaves."""
    problem = with_phase(block_move(), u_lower=(-5.0,), u_upper=(INF,))
    ways = {way: solve(problem, "ilqr", {**FAST, "intervals": 20, "hessian": hessian, "control_bounds": way})
            for way in ("clamped", "rows")}
    for found in ways.values():
        assert found.status is Status.CONVERGED, found.ending
        assert found.problem.phase.u_lower == (-5.0,)
    clamped, rows = ways["clamped"], ways["rows"]
    assert rows.objective == pytest.approx(clamped.objective, rel=1e-6)
    np.testing.assert_allclose(rows.trajectory.u, clamped.trajectory.u, atol=1e-4)
    assert rows.trajectory.u.min() == pytest.approx(-5.0, abs=1e-6)
    acting = rows.extra["multipliers_path"][:, -1] > 1e-6
    assert 1 <= acting.sum() < 19
    gradient = clamped.optimality.gradient()[:, 0]
    np.testing.assert_allclose(rows.extra["multipliers_path"][:, -1], np.where(acting, gradient, 0.0), atol=1e-4)
    with pytest.raises(ProblemError, match="control_bounds"):
        solve(problem, "ilqr", {"control_bounds": "row"})


def test_the_multiplier_of_a_constraint_on_a_free_start_is_its_price():
    """J(c) = (c - 1)^2 + 5 c^2 / 32 for a start held at c or above: dJ/dc = 2 (c - 1) + 5 c / 16."""
    floor = Constraint("floor", At.START, function(1, 1, lambda t, x, u: x), (1.4,), (INF,))
    found = solve(with_phase(late_start(), constraints=(floor,)), "ilqr", {**FAST, "intervals": 7})
    assert found.status is Status.CONVERGED, found.ending
    assert found.trajectory.x[0, 0] == pytest.approx(1.4, abs=1e-6)
    np.testing.assert_allclose(found.extra["multipliers_start"], [2 * 0.4 + 5 * 1.4 / 16], rtol=1e-5)
    without = solve(late_start(), "ilqr", {**FAST, "intervals": 7})
    assert "multipliers_start" not in without.extra


def test_an_unstable_motion_between_states_at_rest_is_certified():
    """A body that balances on a wheel: over two seconds errors grow so far that the penalties of the search drown the cost, and a
    minimum is told by small ones alone. Reference: held controls of 100 intervals by multiple shooting."""
    problem = load_text("""
name: Segway
system:
  bodies:
    frame: {mass: 10, com: [0, 0.5, 0], inertia: {xx: 1.0, yy: 1.0, zz: 0.3}, joint: {kind: planar, name: root, rpy: [pi/2, 0, 0]}}
    wheel: {parent: frame, mass: 2, inertia: {xx: 0.01, yy: 0.02, zz: 0.01},
            joint: {name: axle, kind: revolute, axis: [0, 0, 1], effort: 20}}
  formulation: forward_dynamics
  actuated: [axle]
  constraints:
    - {name: tyre, rolling: {frame: wheel, radius: 0.2, axis: [0, 0, 1], friction: 0.8}}
phase:
  duration: 2.0
  start: {joints: {root: [0, 0.2, 0], axle: 0}, rest: true}
  final: {joints: {root: [1, 0.2, 0]}, rest: true}
  costs: [{name: effort, running: "axle**2"}]
""").problem
    found = solve(problem, "ilqr")
    assert found.ok, found.ending
    assert found.objective == pytest.approx(solve(problem, "multiple_shooting", {"intervals": 100}).objective, rel=1e-8)
