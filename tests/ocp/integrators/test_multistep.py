"""BDF2 on state manifolds: order, the recurrence of linear algebra, stiff systems, and the defects of multiple shooting."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from integrator_systems import INERTIA, SCALAR, TOP, order, stepper, symbols, symmetric_top, system, top_start
from repository import ROOT

from ocp.app.files.load import load_problem
from ocp.errors import ProblemError
from ocp.integrators import INTEGRATORS, MULTISTEP
from ocp.methods import solve
from ocp.plants import PlantSpec
from ocp.problem import At, Boundary, Cost, Duration, Guess, Phase, Problem
from ocp.spaces import euclidean
from ocp.transcription.multiple_shooting import MultipleShootingOptions, transcribe


def onward(sys, name="bdf2", kind=ca.SX):
    """(t, before, x, u, h, ratio) -> x_next, integral of x[0] over the step."""
    t, x, u, p = symbols(sys.nx, sys.nu, kind)
    before, h, w = kind.sym("before", sys.nx), kind.sym("h"), kind.sym("w")
    after, nodes = MULTISTEP[name].advance(sys, t, before, x, u, p, h, w)
    return ca.Function("onward", [t, before, x, u, h, w], [after, h * sum(c * xi[0] for c, _, xi in nodes)])


def march(sys, x, u, steps):
    """The state after steps of these lengths from t = 0, and the integral of x[0]."""
    first, on = stepper(sys, MULTISTEP["bdf2"].first, lambda t, x, u: x[0]), onward(sys)
    weights = MULTISTEP["bdf2"].weights(np.r_[0.0, np.cumsum(steps)])
    t, before, (x, total) = steps[0], np.asarray(x), first(0.0, x, u, steps[0])
    total = weights[0] * total[0]
    for last, h, weight in zip(steps[:-1], steps[1:], weights[1:], strict=True):
        after, part = (np.asarray(one).ravel() for one in on(t, before, x, u, h, h / last))
        t, before, x, total = t + h, x, after, total + weight * part[0]
    return x, total


def lengths(n, duration, uneven):
    """n steps; uneven: of lengths that swing by half, smoothly."""
    h = 1 + 0.5 * uneven * np.sin(np.arange(n) * 2 * np.pi / 16)
    return h * duration / h.sum()


COUNTS = np.array([32, 64, 128, 256])


@pytest.mark.parametrize("uneven", [0, 1])
def test_order_on_a_time_varying_system(uneven):
    exact = np.exp(np.sin(2.0)) * (0.7 + 0.4 * 2.0)
    errors = [abs(march(SCALAR, [0.7], [0.4], lengths(n, 2.0, uneven))[0][0] - exact) for n in COUNTS]
    assert order(errors, COUNTS) == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize("uneven", [0, 1])
def test_running_costs_are_one_more_state(uneven):
    decay = system(euclidean(("x",)), 1, lambda t, x, u: -x)
    both = system(euclidean(("x", "integral")), 1, lambda t, x, u: ca.vertcat(-x[0], x[0]))
    for n in (1, 2, 7):
        steps = lengths(n, 2.0, uneven)
        assert march(decay, [1.0], [0.0], steps)[1] == pytest.approx(march(both, [1.0, 0.0], [0.0], steps)[0][1], abs=1e-13)
    errors = [abs(march(decay, [1.0], [0.0], lengths(n, 2.0, uneven))[1] - (1 - np.exp(-2.0))) for n in COUNTS]
    assert order(errors, COUNTS) == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize("uneven", [0, 1])
def test_order_on_a_tumbling_body(uneven):
    start = top_start()
    attitude, velocity = symmetric_top(start[:4], start[4:], 1.5)
    errors = []
    for n in COUNTS:
        x, _ = march(TOP, start, np.zeros(3), lengths(n, 1.5, uneven))
        assert abs(np.linalg.norm(x[:4]) - 1) < 1e-13
        errors.append(np.linalg.norm(np.r_[min(np.linalg.norm(x[:4] - s * attitude) for s in (1, -1)), x[4:] - velocity]))
    assert order(errors, COUNTS) == pytest.approx(2, abs=0.2)
    assert len(INERTIA) == 3


def test_the_recurrence_is_that_of_linear_algebra():
    """On x' = A x: (a0 - h A) x_{n+1} = a1 x_n - a2 x_{n-1} with the coefficients of the parabola's slope, by NumPy."""
    A = np.array([[-0.3, 2.0], [-1.5, -0.1]])
    sys = system(euclidean(("a", "b")), 0, lambda t, x, u: ca.mtimes(ca.DM(A), x))
    rng = np.random.default_rng(0)
    before, x = rng.normal(size=2), rng.normal(size=2)
    for last, h in ((0.1, 0.1), (0.1, 0.17), (0.2, 0.05)):
        times = np.array([-last, 0.0, h])
        slopes = np.linalg.solve(np.vander(times, increasing=True).T, [0.0, 1.0, 2 * h])  # weights of the derivative at h
        exact = np.linalg.solve(slopes[2] * np.eye(2) - A, -slopes[1] * x - slopes[0] * before)
        assert np.asarray(onward(sys)(0, before, x, [], h, h / last)[0]).ravel() == pytest.approx(exact, abs=1e-14)


def test_derivatives_are_those_of_differences():
    on = onward(TOP, kind=ca.MX)
    x = top_start()
    before = np.asarray(TOP.space.plus(ca.DM(x), ca.DM([-0.05, 0.03, -0.1, 0.01, -0.02, 0.03]))).ravel()
    u, direction = np.array([0.1, -0.2, 0.3]), np.random.default_rng(1).normal(size=3)
    J = np.asarray(on.jacobian()(0, before, x, u, 0.05, 1.2, np.zeros(7), 0)[3])
    ahead, behind = (np.asarray(on(0, before, x, u + s * 1e-6 * direction, 0.05, 1.2)[0]).ravel() for s in (1, -1))
    assert J @ direction == pytest.approx((ahead - behind) / 2e-6, abs=1e-9)


def test_a_stiff_system_is_followed_with_long_steps():
    stiff = system(euclidean(("x",)), 1, lambda t, x, u: -1e6 * (x - ca.cos(t)) - ca.sin(t))
    x, _ = march(stiff, [1.0], [0.0], lengths(20, 2.0, 0))
    assert x[0] == pytest.approx(np.cos(2.0), abs=1e-5)


# ---- multiple shooting ------------------------------------------------------------------------------------------------------
def regulator():
    A, B = np.array([[0.0, 1.0], [-2.0, 0.3]]), np.array([0.0, 1.0])
    sys = system(euclidean(("a", "b")), 1, lambda t, x, u: ca.mtimes(ca.DM(A), x) + ca.DM(B) * u)
    t, x, u, p = symbols(2, 1)
    cost = Cost("effort", At.PATH, ca.Function("c", [t, x, u, p], [u**2]))
    guess = Guess(np.array([0.0, 1.0]), np.zeros((2, 2)), np.zeros((2, 1)))
    return A, B, Problem("regulator", (Phase("way", sys, Duration(1, 1, 1), guess, start=Boundary((1.0, 0.0), (True, True)),
                                             final=Boundary((0.0, 0.0), (True, True)), costs=(cost,)),))


@pytest.mark.parametrize("method", ["multiple_shooting", "ilqr"])
def test_steps_are_the_recurrence_over_two_intervals(method):
    """The least cost of held controls, by the linear recurrence and a least-norm solution in NumPy."""
    A, B, problem = regulator()
    n, h, eye = 12, 1 / 12, np.eye(2)
    g = 2 - np.sqrt(2)
    R = np.linalg.inv(eye - g * h / 2 * A)
    # TR-BDF2 as its name says: trapezoid to g h, then BDF2 through both
    middle = np.hstack([R @ (eye + g * h / 2 * A), (R @ (g * h * B))[:, None]])
    inverse = np.linalg.inv(eye - (1 - g) / (2 - g) * h * A)
    first = inverse @ (middle / (g * (2 - g)) - np.hstack([(1 - g) ** 2 / (g * (2 - g)) * eye, np.zeros((2, 1))])
                       + np.hstack([np.zeros((2, 2)), ((1 - g) / (2 - g) * h * B)[:, None]]))
    states = [np.hstack([eye, np.zeros((2, n))])]  # each as [by x_0, by u]
    own = np.zeros((2, n))
    own[:, 0] = first[:, 2]
    states.append(np.hstack([first[:, :2], own]))
    for k in range(1, n):
        push = np.zeros((2, 2 + n))
        push[:, 2 + k] = h * B
        states.append(np.linalg.solve(1.5 * eye - h * A, 2 * states[-1] - 0.5 * states[-2] + push))
    end = states[-1]
    # what a step adds to an integral goes on by a third of itself: 3/2 of the first in the end, less of the last ones
    weights = np.array([1.0] + [2 / 3] * (n - 1)) * np.array([sum(3.0**-j for j in range(n - k)) for k in range(n)])
    pulled = end[:, 2:] / np.sqrt(weights)
    u = np.linalg.lstsq(pulled, -end[:, :2] @ [1.0, 0.0], rcond=None)[0] / np.sqrt(weights)
    exactly = {"constraint_tolerance": 1e-11} if method == "ilqr" else {}
    found = solve(problem, method, {"integrator": "bdf2", "intervals": n, **exactly})
    assert found.trajectory.u[:, 0] == pytest.approx(u, abs=2e-7)
    assert found.objective == pytest.approx(h * weights @ u**2, rel=1e-9)
    exact = np.array([state @ np.r_[1.0, 0.0, u] for state in states])
    assert found.trajectory.x == pytest.approx(exact, abs=1e-7)


@pytest.mark.parametrize("states", ["coordinates", pytest.param("tangent", marks=pytest.mark.slow)])
def test_an_attitude_is_certified(states):
    t, x, u, p = symbols(7, 3)
    cost = Cost("effort", At.PATH, ca.Function("c", [t, x, u, p], [ca.sumsqr(u)]))
    start, end = (1.0,) + (0.0,) * 6, (np.cos(0.6), 0.0, np.sin(0.6), 0.0, 0.0, 0.0, 0.0)
    guess = Guess(np.array([0.0, 1.0]), np.array([start, end]), np.zeros((2, 3)))
    problem = Problem("turn", (Phase("way", TOP, Duration(1, 1, 1), guess, start=Boundary(start, (True,) * 6),
                                     final=Boundary(end, (True,) * 6), costs=(cost,)),))
    found = solve(problem, "multiple_shooting", {"integrator": "bdf2", "controls": "linear", "intervals": 60, "states": states})
    assert found.ok, found.certificate.failures
    # about a principal axis it is a double integrator: 12 J^2 angle^2 / T^3
    assert found.objective == pytest.approx(12 * 0.5**2 * 1.2**2, rel=5e-3)
    middle = found.trajectory.state(np.linspace(0, 1, 77))
    assert np.abs(np.linalg.norm(middle[:, :4], axis=1) - 1).max() < 1e-12
    assert middle[1:, 2] == pytest.approx(middle[:-1, 2], abs=0.03)  # no jumps between intervals


@pytest.mark.slow
def test_algebraic_unknowns_and_looking_back_go_together():
    loaded = load_problem(ROOT / "problems" / "valve.yaml")
    found = solve(loaded.problem, "multiple_shooting", {"integrator": "bdf2", "intervals": 20})
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(0.625, rel=1e-8)


@pytest.mark.slow
def test_the_interior_point_method_takes_the_program_as_it_is():
    _, _, problem = regulator()
    options = {"integrator": "bdf2", "intervals": 12, "guess": "given"}
    mine, theirs = (solve(problem, "multiple_shooting", {**options, "solver": solver}) for solver in ("interior_point", "ipopt"))
    assert mine.objective == pytest.approx(theirs.objective, rel=1e-8)
    assert transcribe(problem, MultipleShootingOptions(**options)).nlp.timeline is None


@pytest.mark.parametrize(("make", "words"), [
    (lambda: PlantSpec(SCALAR, integrator="bdf2"), "is a multistep method.*sdirk2"),
    (lambda: MultipleShootingOptions(integrator="bdf2", steps=2), "one step in an interval"),
    (lambda: MultipleShootingOptions(integrator="bdf3"), "bdf2"),
], ids=["plant", "steps", "near miss"])
def test_what_it_cannot_do_is_refused_by_name(make, words):
    with pytest.raises(ProblemError, match=words):
        make()


def test_every_first_step_has_the_order():
    for name, method in MULTISTEP.items():
        assert name not in INTEGRATORS
        assert INTEGRATORS[method.first].order >= method.order
        assert replace(method).name == name
