"""Multiple shooting against dense linear algebra, FATROP against IPOPT, stiff systems, and what lies between the knots."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import control_problems as known
import direct_problems as direct
import numpy as np
import pytest
from control_problems import fixed, flat_system, function, line
from repository import ROOT
from scipy.integrate import solve_ivp
from uncertified import by_multiple_shooting

from ocp.app.files.load import load_problem
from ocp.errors import ProblemError
from ocp.methods import solve
from ocp.nlp import SolverOptions, solve_nlp
from ocp.problem import INF, At, Boundary, Constraint, Cost, Phase, Status
from ocp.transcription.mesh import Grid
from ocp.transcription.multiple_shooting import MultipleShootingOptions, transcribe

FOLDER = ROOT / "problems"
S6 = np.sqrt(6)
#: A, b, c of the methods, from Hairer, Norsett, Wanner I, Sec. II.1, and Hairer, Wanner II, Secs. IV.3 and IV.5
TABLEAUS = {
    "euler": ([[0]], [1], [0]),
    "heun": ([[0, 0], [1, 0]], [1 / 2, 1 / 2], [0, 1]),
    "rk4": ([[0, 0, 0, 0], [1 / 2, 0, 0, 0], [0, 1 / 2, 0, 0], [0, 0, 1, 0]], [1 / 6, 1 / 3, 1 / 3, 1 / 6], [0, 1 / 2, 1 / 2, 1]),
    "implicit_euler": ([[1]], [1], [1]),
    "gauss_legendre_1": ([[1 / 2]], [1], [1 / 2]),
    "radau_iia_2": ([[5 / 12, -1 / 12], [3 / 4, 1 / 4]], [3 / 4, 1 / 4], [1 / 3, 1]),
    "radau_iia_3": ([[(88 - 7 * S6) / 360, (296 - 169 * S6) / 1800, (-2 + 3 * S6) / 225],
                     [(296 + 169 * S6) / 1800, (88 + 7 * S6) / 360, (-2 - 3 * S6) / 225], [(16 - S6) / 36, (16 + S6) / 36, 1 / 9]],
                    [(16 - S6) / 36, (16 + S6) / 36, 1 / 9], [(4 - S6) / 10, (4 + S6) / 10, 1]),
}


def rollout(u, integrator, steps, linear, edges):
    """Cost and last state of the regulator under controls u at the knots, by stages solved as one linear system."""
    a, b, c = (np.array(part, dtype=float) for part in TABLEAUS[integrator])
    s, x, total = len(b), direct.X0, 0.0
    for k, (first, last) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        h = (last - first) * direct.HORIZON / steps
        for i in range(steps):
            at = (i + c) / steps
            own = u[k] + at * (u[k + 1] - u[k]) if linear else np.full(s, u[k])
            right = np.concatenate([direct.A @ x + direct.B[:, 0] * v for v in own])
            rates = np.linalg.solve(np.eye(2 * s) - h * np.kron(a, direct.A), right).reshape(s, 2)
            points = x + h * a @ rates
            total += h * b @ (np.einsum("si,ij,sj->s", points, direct.Q, points) + direct.R[0, 0] * own**2) / 2
            x = x + h * b @ rates
    return total + x @ direct.S @ x / 2, x


def dense(integrator, steps, linear, edges, goal=None):
    """The best controls: the cost is quadratic in them, the end affine; its coefficients by unit steps, which are exact."""
    n = len(edges) - 1 + int(linear)

    def cost(u):
        return rollout(u, integrator, steps, linear, edges)

    zero, eye = np.zeros(n), np.eye(n)
    base, end = cost(zero)
    g = np.array([(cost(e)[0] - cost(-e)[0]) / 2 for e in eye])
    H = np.array([[cost(e + f)[0] - cost(e)[0] - cost(f)[0] + base for f in eye] for e in eye])
    if goal is None:
        u = np.linalg.solve(H, -g)
    else:
        M = np.array([cost(e)[1] - end for e in eye]).T
        u = np.linalg.solve(np.block([[H, M.T], [M, np.zeros((2, 2))]]), np.r_[-g, goal - end])[:n]
    return u, cost(u)[0]


@pytest.mark.parametrize("goal", [None, (0.3, -0.1)])
@pytest.mark.parametrize(("integrator", "steps", "linear"), [
    *((name, 1, False) for name in TABLEAUS), ("rk4", 3, True), ("rk4", 2, False), ("heun", 2, True), ("radau_iia_2", 2, True),
    ("gauss_legendre_1", 3, True)])
@pytest.mark.sample(4)
def test_regulator_equals_a_dense_solution(integrator, steps, linear, goal):
    edges = np.array([0, 0.1, 0.3, 0.45, 0.8, 1.0])
    problem = direct.regulator()
    if goal is not None:
        problem = direct.with_phase(problem, final=fixed(*goal))
    program = transcribe(problem, MultipleShootingOptions(), [Grid(edges, integrator, steps, linear)])
    found = solve_nlp(program.nlp, SolverOptions(tolerance=1e-11))
    assert found.status is Status.CONVERGED
    u, least = dense(integrator, steps, linear, edges, goal)
    assert found.f == pytest.approx(least, rel=1e-9)
    np.testing.assert_allclose(program.invert(found.x).u[:, 0], u, atol=1e-7)


def test_published_cart_pole():
    """RK4, held controls, 100 intervals: four other solvers agree on 58.888336."""
    found = solve(known.cart_pole(), "multiple_shooting", {"intervals": 100})
    assert found.objective == pytest.approx(58.888336, abs=6e-7)
    assert found.ok, found.certificate.failures


def walled():
    """A swing-up with a path constraint on state and control, one on the state, an end constraint, bounds and a soft wish."""
    def fn(f):
        return function(4, 1, f)

    constraints = (Constraint("power", At.PATH, fn(lambda t, x, u, p: u[0] * x[2]), (-30.0,), (25.0,)),
                   Constraint("speed", At.PATH, fn(lambda t, x, u, p: x[2] ** 2 + x[3] ** 2 / 9), (-INF,), (16.0,)),
                   Constraint("still", At.FINAL, fn(lambda t, x, u, p: x[2:]), (-0.1,) * 2, (0.1,) * 2),
                   Constraint("calm", At.PATH, fn(lambda t, x, u, p: x[3]), (-6.0,), (6.0,), soft=0.1))
    final = Boundary((1, np.pi, 0, 0), (True, True, False, False))
    return direct.with_phase(known.cart_pole(), constraints=constraints, final=final)


@pytest.mark.parametrize(("problem", "options"), [
    (walled(), {"intervals": 30}), (direct.regulator(), {"intervals": 12, "integrator": "radau_iia_2"}),
    (known.cart_pole(), {"intervals": 40, "steps": 2}),
    pytest.param(direct.body_transfer(), {"intervals": 8, "integrator": "rkmk4", "states": "tangent"}, marks=pytest.mark.slow),
    pytest.param(direct.body_transfer(), {"intervals": 8, "integrator": "rkmk4"}, marks=pytest.mark.slow)],
    ids=["walled", "regulator", "cart-pole", "tangent", "quaternion"])
@pytest.mark.sample(2)
def test_fatrop_equals_ipopt(problem, options):
    found = [solve(problem, "multiple_shooting", {**options, "solver": solver}) for solver in ("ipopt", "fatrop")]
    assert [one.status for one in found] == [Status.CONVERGED] * 2, found[1].ending
    assert found[0].objective == pytest.approx(found[1].objective, rel=1e-7)
    np.testing.assert_allclose(found[1].trajectory.x, found[0].trajectory.x, atol=1e-4)
    assert found[0].certificate.stationarity.holds
    assert found[1].certificate.stationarity.holds
    assert found[1].certificate.complementarity.holds


def stiff(rate=2e3):
    """A slow state driven by a valve that follows its command within 1/rate seconds; min int slow^2 + u^2 / 2 + slow(T)^2."""
    system = flat_system("valve", ("slow", "valve"), ("u",), lambda t, x, u, p: ca.vertcat(x[1] - 0.5 * x[0], rate * (u[0] - x[1])))
    run = Cost("run", At.PATH, function(2, 1, lambda t, x, u, p: x[0] ** 2 + u[0] ** 2 / 2))
    return known.problem(Phase("valve", system, direct.held(2.0), line([1, 0], [0, 0], 1), start=fixed(1, 0), costs=(run,)))


@pytest.mark.parametrize("integrator", ["implicit_euler", "radau_iia_2", "radau_iia_3", "tr_bdf2"])
def test_stiff_systems_want_implicit_integrators(integrator):
    """The valve is as good as its command: then Riccati's equation of the slow state alone gives the least cost."""
    found = by_multiple_shooting(stiff(), MultipleShootingOptions(integrator=integrator, intervals=40))
    assert found.status is Status.CONVERGED, found.ending
    # min int s^2 + u^2/2, s' = u - s/2: -P' = 2 - P - P^2 with cost P s^2 / 2
    back = solve_ivp(lambda t, P: 2 - P - P**2, (0, 2), [0.0], rtol=1e-11, atol=1e-12)
    order = {"implicit_euler": 6e-2, "radau_iia_2": 3e-3, "tr_bdf2": 3e-3, "radau_iia_3": 3e-3}[integrator]
    assert found.objective == pytest.approx(back.y[0, -1] / 2, rel=order)
    np.testing.assert_allclose(found.trajectory.x[2:, 1], found.trajectory.u[1:, 0], atol=1e-2)


def test_explicit_integrators_do_not_certify_stiff_systems():
    found = solve(stiff(), "multiple_shooting", {"intervals": 40})
    assert not found.ok


@pytest.mark.parametrize(("options", "close"), [
    ({}, 2e-5), ({"controls": "linear"}, 2e-5), ({"steps": 3, "controls": "linear"}, 1e-6),
    ({"integrator": "gauss_legendre_2"}, 2e-5), ({"integrator": "radau_iia_3", "controls": "linear"}, 3e-5),
    ({"integrator": "semi_implicit_euler", "steps": 20}, 2e-2)], ids=str)
@pytest.mark.sample(2)
def test_between_the_knots_the_system_is_integrated(options, close):
    """States at any time against an integration of high order from the knot before, under the control that is returned."""
    found = solve(known.cart_pole(), "multiple_shooting", {"intervals": 30, **options})
    assert found.status is Status.CONVERGED
    path, rng = found.trajectory, np.random.default_rng(0)
    for t in rng.uniform(0, 2, 12):
        k = int(np.searchsorted(path.t, t, side="right")) - 1
        ends = path.u[k], path.u[min(k + 1, len(path.u) - 1)] if options.get("controls") == "linear" else path.u[k]

        def control(s, k=k, ends=ends):
            return ends[0] + (s - path.t[k]) / (path.t[k + 1] - path.t[k]) * (ends[1] - ends[0])

        np.testing.assert_allclose(path.control(t), control(t), atol=1e-10)
        there = solve_ivp(lambda s, x, control=control: np.array(known.cart_pole_rate(s, x, control(s), None), dtype=float).ravel(),
                          (path.t[k], t), path.x[k], rtol=1e-10, atol=1e-12).y[:, -1]
        np.testing.assert_allclose(path.state(t), there, atol=close * max(1, np.abs(there).max()))
    np.testing.assert_allclose(path.state(path.t), path.x, atol=1e-8)
    np.testing.assert_allclose(path.state(path.t[1:] - 1e-10), path.x[1:], atol=1e-7)


@pytest.mark.parametrize(("duration", "begin"), [(1.3, 0.0), (0.7, 0.0), (1.9, 0.3), (2.2, 1.7)])
@pytest.mark.parametrize("way", [("multiple_shooting", {}), ("collocation", {"controls": "held", "scheme": "radau", "degree": 2})],
                         ids=["shooting", "held"])
@pytest.mark.sample(3)
def test_a_knot_belongs_to_the_interval_that_it_begins(duration, begin, way):
    """The held control at every knot is the new one, to the bit, also in a later phase: rounding must not choose the old."""
    move = known.block_move(duration).phase
    phases = (replace(move, name="later"),)
    if begin:
        phases = (replace(known.block_move(begin).phase, name="first", final=None), replace(move, name="later", start=None))
    found = solve(replace(known.problem(move), phases=phases), way[0], {"intervals": 47, **way[1]})
    path = found.parts[-1] if found.parts else found.trajectory
    np.testing.assert_array_equal(path.control(path.t[:-1]), path.u)
    assert np.abs(np.diff(path.u[:, 0])).min() > 1e-3
    assert found.ok, found.certificate.failures


@pytest.mark.parametrize("way", [
    ("multiple_shooting", {"integrator": "rk4"}), ("collocation", {"form": "compressed"}), ("collocation", {"scheme": "gauss"}),
    pytest.param(("multiple_shooting", {"integrator": "gauss_legendre_1"}), marks=pytest.mark.slow)], ids=str)
@pytest.mark.sample(2)
def test_constraints_on_the_state_of_a_robot_with_analytic_derivatives(way):
    """Matrix graphs: what holds at the last knot, or where no control is, must not ask for one."""
    problem = load_problem(FOLDER / "double_pendulum_swingup.yaml").problem
    speed = Constraint("speed", At.PATH, function(4, problem.phase.system.nu, lambda t, x, u, p: x[2] ** 2), (-INF,), (1e4,))
    problem = direct.with_phase(problem, constraints=(speed,))
    values = []
    for derivatives in ("analytic", "ad"):
        found = solve(problem, way[0], {**way[1], "derivatives": derivatives, "intervals": 8, "max_iterations": 3})
        assert found.status is Status.ITERATION_LIMIT
        values.append([row["objective"] for row in found.iterations])
        assert "speed @ knot 8" in found.optimality.nlp.constraints
    np.testing.assert_allclose(values[0], values[1], rtol=1e-6)


def test_refusals():
    for wrong in ({"integrator": "rk5"}, {"steps": 0}, {"intervals": 0}, {"controls": "polynomial"}, {"states": "angles"},
                  {"solver": "x"}):
        with pytest.raises(ProblemError, match=next(iter(wrong))):
            MultipleShootingOptions(**wrong)
    with pytest.raises(ProblemError, match="semi-implicit"):
        solve(known.brachistochrone(), "multiple_shooting", {"integrator": "semi_implicit_euler"})
