"""Systems in discrete time against Riccati's recursion, a program of its own in every knot, and the published optimum of acados."""

from pathlib import Path

import casadi as ca
import numpy as np
import pytest

import ocp
from ocp.app.files.load import load_problem, load_text
from ocp.errors import ProblemError, UnsupportedError
from ocp.integrators import INTEGRATORS, sampled
from ocp.methods import METHODS, solve
from ocp.problem import Duration, Kind, System, whole_steps
from ocp.spaces import euclidean
from tests.support.repository import ROOT
from tests.support.shooting_problems import quadrotor

A, B = np.array([[1.0, 0.1], [-0.2, 0.95]]), np.array([[0.005], [0.1]])
Q, R, END, X0, N = np.diag([1.0, 0.1]), 0.05, np.diag([20.0, 2.0]), np.array([1.0, -0.5]), 25
REGULATOR = """
name: Regulator
system: {linear: {period: 0.1, A: [[1, 0.1], [-0.2, 0.95]], B: [[0.005], [0.1]], states: {x: m, v: m/s}, controls: {f: N}}}
phase:
  duration: 2.5
  start: {x: 1, v: -0.5}
  costs:
    - {name: state, stage_residual: [x, v], weights: [1, 0.1]}
    - {name: effort, stage: 0.025*f**2}
    - {name: end, final: 10*x**2 + v**2}
"""
STOCK = """
name: Stock
system: {states: {stock: items}, controls: {order: items}, next: {stock: stock + order - 10 - 3*t}}
phase:
  duration: 6
  start: {stock: 20}
  bounds: {stock: [0, 30], order: [0, 22]}
  costs: [{name: holding, stage: 0.05*stock**2}, {name: ordering, stage: order + 0.1*order**2*(1 + 0.2*t)}]
  constraints: [{name: room, expression: stock + order, upper: 40}]
"""


def riccati():
    """Cost to go and gains of the regulator: P = Q + A'PA - A'PB (R + B'PB)^-1 B'PA, backwards."""
    P, gains = END, []
    for _ in range(N):
        gains.append(np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A))
        P = Q + A.T @ P @ A - A.T @ P @ B @ gains[-1]
    return X0 @ P @ X0 / 2, gains[::-1]


@pytest.mark.parametrize("method", ["multiple_shooting", "ilqr"])
def test_a_regulator_is_riccatis(method):
    problem = load_text(REGULATOR).problem
    cost, gains = riccati()
    found = solve(problem, method)
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(cost, rel=1e-9)
    x = X0
    for k in range(N):
        u = -gains[k] @ x
        np.testing.assert_allclose(found.trajectory.u[k], u, atol=1e-8)
        x = A @ x + B @ u
    np.testing.assert_allclose(found.trajectory.x[-1], x, atol=1e-8)
    assert found.certificate.error_estimate.cause is Kind.DISCRETE_TIME
    assert found.certificate.resolution is None
    assert not {"integrator", "intervals"} & set(found.options)


def test_bounds_and_time_are_those_of_a_program_by_hand():
    stock, order = [ca.SX(20)], ca.SX.sym("order", 6)
    cost, rows = 0, []
    for k in range(6):
        cost += 0.05 * stock[-1]**2 + order[k] + 0.1 * order[k]**2 * (1 + 0.2 * k)
        rows.append(stock[-1] + order[k])
        stock.append(stock[-1] + order[k] - 10 - 3 * k)
    nlp = {"x": order, "f": cost, "g": ca.vertcat(*stock[1:], *rows)}
    H, g = ca.hessian(cost, order)
    form = ca.Function("qp", [order], [H, g, nlp["g"], ca.jacobian(nlp["g"], order)])
    H, g, c, C = (np.asarray(v) for v in form(0))
    qp = ca.conic("qp", "qrqp", {"h": ca.DM(H).sparsity(), "a": ca.DM(C).sparsity()}, {"print_iter": False, "print_header": False})
    lower, upper = np.r_[np.zeros(6), np.full(6, -np.inf)] - c.ravel(), np.r_[np.full(6, 30.0), np.full(6, 40.0)] - c.ravel()
    best = qp(h=ca.DM(H), g=g, a=ca.DM(C), lbx=0, ubx=22, lba=lower, uba=upper)
    value = float(ca.Function("f", [order], [cost])(best["x"]))
    for method in ("multiple_shooting", "ilqr"):
        found = solve(load_text(STOCK).problem, method)
        assert found.ok, found.certificate.failures
        assert found.objective == pytest.approx(value, rel=1e-8)
        np.testing.assert_allclose(found.trajectory.u.ravel(), np.asarray(best["x"]).ravel(), atol=1e-4)


def test_the_published_optimum_of_acados():
    problem = load_problem(ROOT / "problems" / "cartpole_sampled.yaml").problem
    found = solve(problem, "multiple_shooting", {"tolerance": 1e-12})
    assert found.ok
    assert found.objective == pytest.approx(2242.166372615175, rel=3e-12)


def test_samples_are_steps_of_the_integrator_on_a_manifold():
    system = quadrotor().phase.system
    rng = np.random.default_rng(0)
    space = system.space
    x0 = np.asarray(ca.DM(space.plus(ca.DM(space.neutral), ca.DM(rng.normal(size=space.ndx)))))
    u, p, h = rng.normal(size=system.nu), np.array(system.parameter_values), 0.2
    made = sampled(system, h, "rk4", 2)
    after = ca.DM(x0)
    for _ in range(2):
        after = ca.DM(INTEGRATORS["rk4"].step(system, 0.0, after, ca.DM(u), p, h / 2))
    got = space.plus(ca.DM(x0), h * made.rate(0.0, x0, u, p))
    np.testing.assert_allclose(np.asarray(ca.DM(got)), np.asarray(after), atol=1e-12)


def test_a_closed_loop_of_samples_is_the_regulator_itself():
    from ocp.app.mpc.run import run_loaded

    loaded = load_text(REGULATOR + "mpc: {duration: 1.0}\n")
    loop = run_loaded(loaded).loop
    x, gain = X0, riccati()[1][0]  # every horizon begins anew, with the first gain
    for k in range(10):
        u = -gain @ x
        np.testing.assert_allclose(loop.u[k], u, atol=1e-7)
        x = A @ x + B @ u
    np.testing.assert_allclose(loop.x[-1], x, atol=1e-7)


def test_what_has_no_meaning_is_refused():
    problem = load_text(STOCK).problem
    for method in ("collocation", "adjoint"):
        with pytest.raises(UnsupportedError, match="'Stock' is in discrete time"):
            solve(problem, method)
        assert METHODS[method].unsupported(problem)
    with pytest.raises(ProblemError, match=r"solve.ilqr.intervals: says nothing"):
        solve(problem, "ilqr", {"intervals": 10})
    for words, told in ((("next: {", "dynamics: {"), r"costs\[0\].stage: is summed over steps"),
                        (("duration: 6", "duration: 6.5"), "6.5 s; a system in discrete time makes whole steps, of 1 s"),
                        (("duration: 6", "duration: {lower: 1, upper: 9}"), "duration is free"),
                        (("next: {", "dynamics: {stock: order}, next: {"), "cannot stand beside"),
                        (("- 3*t}}", "- 3*t}, period: -1}"), "period: must be positive, got -1 s"),
                        (("next: {stock:", "next: {stok:"), "stok")):
        with pytest.raises(ProblemError, match=told):
            load_text(STOCK.replace(*words))
    with pytest.raises(ProblemError, match="solve.multiple_shooting.intervals"):
        load_text(STOCK + "solve: {multiple_shooting: {intervals: 9}}\n")
    with pytest.raises(ProblemError, match=r"mpc.rate: must be 1, one sample"):
        load_text(STOCK + "mpc: {rate: 10}\n")
    with pytest.raises(ProblemError, match="whole steps"):
        whole_steps(Duration(1.0, 1.0, 1.0), 0.3)
    x, z = ca.SX.sym("x"), ca.SX.sym("z")
    arguments = [ca.SX.sym("t"), x, z, ca.SX.sym("p", 0)]
    with pytest.raises(ProblemError, match="algebraic"):
        System("s", euclidean(("x",)), (), ca.Function("rate", arguments, [z]), algebraic=("z",),
               residual=ca.Function("r", arguments, [z - x]), period=1.0)


def test_python_says_the_same_as_files(tmp_path):
    p = ocp.Problem("Stock", duration=6)
    stock, order = p.state("stock", "items"), p.control("order", "items")
    p.next({stock: stock + order - 10 - 3 * ocp.t})
    p.start(stock=20)
    p.bounds(stock=(0, 30), order=(0, 22))
    p.cost(0.05 * stock**2, name="holding", at="stage")
    p.cost(order + 0.1 * order**2 * (1 + 0.2 * ocp.t), name="ordering", at="stage")
    p.constraint(stock + order <= 40, name="room")
    again = load_text(p.to_yaml())
    assert again.expanded() == p.load().expanded()
    assert again.method == "multiple_shooting"
    assert load_text(again.expanded()).expanded() == again.expanded()
    assert p.solve().objective == pytest.approx(solve(load_text(STOCK).problem, "ilqr").objective, rel=1e-8)
    q = ocp.Problem("Pendulum", duration=1)
    angle, rate, torque = q.state("angle"), q.state("rate"), q.control("torque")
    q.dynamics({angle: rate, rate: torque - ocp.sin(angle)})
    q.sampled(0.1, steps=2)
    q.start(angle=1, rate=0)
    q.cost(angle**2 + torque**2)
    assert q.load().problem.phase.steps == 10
    assert q.solve().ok
    assert Path(q.save(tmp_path / "q.yaml")).is_file()


def test_a_simulation_makes_the_given_steps(tmp_path):
    place = tmp_path / "stock.yaml"
    place.write_text(STOCK, encoding="utf-8")
    motion = ocp.load(place).simulate(order=15.0)
    stock, at = 20.0, [20.0]
    for k in range(6):
        stock += 15 - 10 - 3 * k
        at.append(stock)
    np.testing.assert_allclose(motion["stock"], at)
