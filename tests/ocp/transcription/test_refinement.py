"""Mesh refinement: error estimates against closed forms, policies, the loop, and meshes as text."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import control_problems as known
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from uncertified import by_collocation

from ocp.app.sentences import message
from ocp.certify import certify
from ocp.errors import ProblemError
from ocp.problem import INF, At, Boundary, Constraint, Cost, Duration, Guess, Kind, Phase, Problem, Status, System
from ocp.spaces import Space
from ocp.transcription.charts import form
from ocp.transcription.collocation import CollocationOptions, uniform_meshes
from ocp.transcription.refine.error import Estimator, PhaseErrors
from ocp.transcription.refine.plan import Plan, plan_mesh, plans_text, read_plans, uniform_plan
from ocp.transcription.refine.policy import POLICIES, Rules, halved, next_plan

EVERYWHERE = ("trapezoid", "hermite_simpson", "gauss", "radau", "radau_left", "lobatto")


def estimated(problem, **options):
    chosen = CollocationOptions(**options)
    found = by_collocation(problem, chosen)
    assert found.status is Status.CONVERGED
    forms = [form(phase.system.space, chosen.states) for phase in problem.phases]
    return found, Estimator(problem, forms).estimate(found, uniform_meshes(problem, chosen))


def regulator():
    """min 1/2 int x^2 + u^2, xdot = u, x(0) = 1, T = 2, free end: x = cosh(2 - t)/cosh 2, objective tanh(2)/2."""
    system = known.flat_system("regulator", ("x",), ("u",), lambda t, x, u, p: u)
    cost = Cost("regulation", At.PATH, known.function(1, 1, lambda t, x, u, p: (x[0]**2 + u[0]**2) / 2))
    return known.problem(Phase("regulator", system, Duration(2.0, 2.0, 2.0), known.line([1], [0], 1), start=known.fixed(1),
                               costs=(cost,)))


def bead(l=1 / 9):
    """Bryson and Denham: objective 4/(9 l), on the stop x = l from 3 l to 1 - 3 l."""
    system = known.flat_system("bead", ("x", "v"), ("u",), lambda t, x, u, p: ca.vertcat(x[1], u[0]))
    cost = Cost("effort", At.PATH, known.function(2, 1, lambda t, x, u, p: u[0]**2 / 2))
    return known.problem(Phase("bead", system, Duration(1.0, 1.0, 1.0), known.line([0, 1], [0, -1], 1), known.fixed(0, 1),
                               known.fixed(0, -1), x_upper=(l, INF), costs=(cost,)))


def cycloid():
    """(T, x, y, v) of time along the curve of fastest descent of ``known.brachistochrone``, whose end is (2, 2)."""
    end = brentq(lambda s: (s - np.sin(s)) - (1 - np.cos(s)), 1e-3, 2 * np.pi - 1e-3)
    R = 2 / (1 - np.cos(end))
    g = 9.81
    rate = np.sqrt(g / R)
    return end / rate, lambda t: np.column_stack([R * (rate * t - np.sin(rate * t)), R * (1 - np.cos(rate * t)),
                                                  np.sqrt(2 * g * R * (1 - np.cos(rate * t)))])


# ---- estimates -----------------------------------------------------------------------------------------------------

def moved(problem, found, t):
    """States at times t of the true motion under the controls of a solution, clipped to their bounds."""
    phase, path = problem.phase, found.trajectory

    def rate(s, x):
        return np.asarray(phase.system.rate(s, x, np.clip(path.control(s), phase.u_lower, phase.u_upper), [])).ravel()

    states, x = [path.x[:1]], path.x[0]
    for a, b in zip(path.t[:-1], path.t[1:], strict=True):
        inside = t[(t > a) & (t <= b)]
        end = b - 1e-12 * (b - a)
        run = solve_ivp(rate, (a, end), x, method="DOP853", rtol=1e-11, atol=1e-13, dense_output=True)
        states.append(run.sol(np.minimum(inside, end)).T)
        x = run.y[:, -1]
    return np.vstack(states)


@pytest.mark.parametrize("scheme", EVERYWHERE)
@pytest.mark.parametrize(("name", "intervals"), [("brachistochrone", 8), ("cart_pole", 20)])
@pytest.mark.sample(3)
def test_estimate_brackets_the_distance_from_the_true_motion(scheme, name, intervals):
    problem = getattr(known, name)()
    found, estimate = estimated(problem, scheme=scheme, intervals=intervals, tolerance=1e-11)
    t = np.linspace(0, found.trajectory.t[-1], 301)
    x = found.trajectory.state(t)
    error = np.max(np.abs(moved(problem, found, t) - x) / (1 + np.max(np.abs(x), axis=0)))
    assert 0.1 < estimate.accumulated / error < 30


@pytest.mark.parametrize("scheme", EVERYWHERE)
@pytest.mark.parametrize("intervals", [6, 20])
def test_estimate_brackets_the_distance_from_the_cycloid(scheme, intervals):
    found, estimate = estimated(known.brachistochrone(), scheme=scheme, intervals=intervals, tolerance=1e-12)
    T, curve = cycloid()
    s = np.linspace(0, 1, 1001)
    error = np.abs(found.trajectory.state(s * found.trajectory.t[-1]) - curve(s * T)) / (1 + np.max(np.abs(curve(s * T)), axis=0))
    assert 0.3 < estimate.accumulated / np.max(error) < 30


@pytest.mark.parametrize("scheme", ["trapezoid", "gauss", "radau", "radau_left"])
@pytest.mark.parametrize("intervals", [6, 20])
def test_controls_that_a_polynomial_does_not_hold_are_seen(scheme, intervals):
    """The motion of an integrator has no defect whatever the control is: all error is that of the control's shape."""
    found, estimate = estimated(regulator(), scheme=scheme, intervals=intervals, tolerance=1e-12)
    assert estimate.motion < 1e-12
    t = np.linspace(0, 2, 2001)
    error = np.max(np.abs(found.trajectory.state(t)[:, 0] - np.cosh(2 - t) / np.cosh(2))) / 2
    assert 0.1 < estimate.accumulated / error < 30


@pytest.mark.parametrize(("problem", "exact"), [(regulator(), np.tanh(2) / 2), (known.block_move(), 12.0),
                                                (known.brachistochrone(), cycloid()[0])])
def test_weighted_defects_are_the_error_of_the_objective(problem, exact):
    found, estimate = estimated(problem, scheme="trapezoid", intervals=30, tolerance=1e-12)
    assert estimate.objective == pytest.approx(exact - found.objective, rel=0.15)


def test_what_a_scheme_holds_exactly_has_no_error():
    _, estimate = estimated(known.block_move(), scheme="hermite_simpson", intervals=7)
    assert estimate.largest < 1e-12
    assert abs(estimate.objective) < 1e-11


def test_a_stop_passed_between_nodes_is_seen():
    """The trap of coarse meshes: better than the optimum, because the bead passes the stop between the nodes."""
    found, estimate = estimated(bead(), scheme="gauss", degree=10, intervals=1)
    assert found.objective < 4 - 1e-2
    t = np.linspace(0, 1, 4001)
    passed = np.max(found.trajectory.state(t)[:, 0]) - 1 / 9
    assert estimate.phases[0].path.max() == pytest.approx(passed / (1 + 1 / 9), rel=0.5)
    assert "between nodes" in "".join(estimate.phases[0].worst)


def test_controls_beyond_their_bounds_between_nodes_are_seen():
    """The true motion under clipped controls misses the state by the impulse that the overshoot holds."""
    found, estimate = estimated(known.bang_bang(), scheme="radau", degree=5, intervals=3)
    mesh, = uniform_meshes(found.problem, CollocationOptions(scheme="radau", degree=5, intervals=3))
    r = np.linspace(0, 1, 6667)
    u = np.concatenate([mesh.shapes[k].basis(r) @ found.trajectory.u[mesh.point(k), 0] for k in range(3)])
    t = np.concatenate([np.linspace(*found.trajectory.t[k:k + 2], 6667) for k in range(3)])
    assert np.max(np.abs(found.trajectory.control(t))) <= 1  # what the polynomial stands for
    lost = np.trapezoid(np.abs(u - np.clip(u, -1, 1)), t)
    assert lost > 1e-3
    assert 0.2 * lost / 2 < np.sum(estimate.phases[0].state) < 2 * lost
    assert estimate.phases[0].clipped.any()


def attitude(turn):
    """A body of inertia 2 turned about its third axis in one second, min 1/2 int u^2: block move of the angle."""
    def product(a, b):
        return ca.vertcat(a[0] * b[0] - ca.dot(a[1:], b[1:]), a[0] * b[1:] + b[0] * a[1:] + ca.cross(a[1:], b[1:]))

    def log(q):
        s = ca.sqrt(ca.sumsqr(q[1:]) + 1e-32)
        return 2 * ca.atan2(s, q[0]) / s * q[1:]

    def exp(r):
        a = ca.sqrt(ca.sumsqr(r) + 1e-32)
        return ca.vertcat(ca.cos(a / 2), ca.sin(a / 2) / a * r)

    names = ("qw", "qx", "qy", "qz", "w")
    space = Space(
        names, ("rx", "ry", "rz", "w"), lambda x, d: ca.vertcat(product(x[:4], exp(d[:3])), x[4] + d[3]),
        lambda a, b: ca.vertcat(log(product(ca.vertcat(a[0], -a[1:4]), b[:4])), b[4] - a[4]),
        lambda x: ca.diagcat(ca.horzcat(*(product(x[:4], ca.vertcat(0, *(float(i == j) for i in range(3)))) / 2 for j in range(3))),
                             ca.DM.eye(1)),
        lambda x: ca.DM(0, 0), lambda x, d: x, (1.0, 0, 0, 0, 0), (-1, -1, -1, -1, 3), (0,))
    system = System("body", space, ("m",), known.function(5, 1, lambda t, x, u, p: ca.vertcat(0, 0, x[4], u[0] / 2)))
    last = (np.cos(turn / 2), 0.0, 0.0, np.sin(turn / 2), 0.0)
    guess = Guess(np.array([0.0, 1.0]), np.array([(1.0, 0, 0, 0, 0), last]), np.zeros((2, 1)))
    cost = Cost("effort", At.PATH, known.function(5, 1, lambda t, x, u, p: u[0]**2 / 2))
    return known.problem(Phase("turn", system, Duration(1.0, 1.0, 1.0), guess, Boundary((1.0, 0, 0, 0, 0), (True,) * 4),
                               Boundary(last, (True,) * 4), costs=(cost,)))


@pytest.mark.parametrize("states", ["coordinates", "tangent"])
def test_estimate_on_attitudes(states):
    # an odd number: an even one leaves controls that alternate free, and whether IPOPT gets to 1e-12 to rounding
    found, estimate = estimated(attitude(2.0), scheme="trapezoid", intervals=21, states=states, tolerance=1e-12)
    t = np.linspace(0, 1, 1001)
    q = found.trajectory.state(t)
    angle = 2 * np.arctan2(q[:, 3], q[:, 0])
    error = np.max(np.abs(angle - 2 * (3 * t**2 - 2 * t**3)))
    assert 0.1 < estimate.accumulated / error < 10


def test_quadrature_of_integral_constraints_is_estimated():
    """The least effort with a given fuel int sqrt(1 + u^2): an integrand that quadrature of degree 3 does not hold."""
    move = known.block_move().phase
    fuel = Constraint("fuel", At.INTEGRAL, known.function(2, 1, lambda t, x, u, p: ca.sqrt(1 + u[0]**2)), (0.0,), (100.0,))
    found, estimate = estimated(known.problem(replace(move, constraints=(fuel,))), scheme="gauss", degree=2, intervals=3)
    fine = np.linspace(0, 1, 200001)
    true = np.trapezoid(np.sqrt(1 + (6 - 12 * fine)**2), fine)
    mesh = uniform_meshes(known.block_move(), CollocationOptions(scheme="gauss", degree=2, intervals=3))[0]
    coarse = mesh.weights @ np.sqrt(1 + found.trajectory.u[:, 0]**2)
    errors = estimate.phases[0].integral
    assert np.max(errors) <= abs(true - coarse) / (1 + true) * 1.05 + 1e-12 <= 3.2 * np.max(errors)


# ---- policies ------------------------------------------------------------------------------------------------------

def errors(state, decay, path=None):
    n = len(state)
    zeros = np.zeros(n)
    return PhaseErrors(np.array(state, float), zeros, zeros if path is None else np.array(path, float), zeros, 0.0,
                       np.array(decay, float), np.zeros(n, bool), ("x",) * n)


PLAN = Plan((0.0, 0.25, 0.5, 0.75, 1.0), (3, 3, 3, 3))


def test_h_cuts_as_the_order_asks():
    """A smooth error of 1e-4 at degree 3 needs (1e-4/3e-7)^(1/4) = 4.3 pieces, a kink (order 2) as many as one pass may make."""
    after = next_plan(PLAN, errors([1e-9, 1e-4, 1e-9, 1e-4], [2, 2, 2, 0.1]), Rules(POLICIES["h"], 1e-6, 3, 10))
    assert [sum(1 for e in after.edges if a < e <= b) for a, b in zip(PLAN.edges[:-1], PLAN.edges[1:], strict=True)] == [1, 5, 1, 4]
    assert set(after.degrees) == {3}


def test_p_raises_degrees_up_to_the_limit():
    after = next_plan(PLAN, errors([1e-9, 1e-4, 1e-2, 1e-4], [2, 2, 2, 0.1]), Rules(POLICIES["p"], 1e-6, 3, 6))
    assert after.edges == PLAN.edges
    assert after.degrees == (3, 5, 6, 6)


def test_hp_cuts_kinks_raises_degrees_elsewhere_and_joins_what_is_too_fine():
    given = errors([1e-14, 1e-14, 1e-4, 1e-4], [3, 3, 2, 0.1])
    after = next_plan(PLAN, given, Rules(POLICIES["hp"], 1e-6, 3, 10))
    assert after.edges[:3] == (0.0, 0.5, 0.75)
    assert after.degrees[:2] == (3, 5)
    assert len(after.degrees) == 6
    broken = next_plan(PLAN, errors([0, 0, 0, 0], [3] * 4, path=[0, 1e-3, 0, 0]), Rules(POLICIES["hp"], 1e-6, 3, 10))
    assert sum(0.25 < e < 0.5 for e in broken.edges) >= 1


def test_pieces_keep_the_degree_of_a_motion_that_is_smooth_where_a_constraint_is_broken():
    plan = Plan((0.0, 0.5, 1.0), (7, 7))
    after = next_plan(plan, errors([0, 0], [2, 0.1], path=[1e-3, 1e-3]), Rules(POLICIES["certificate"], 1e-6, 3, 10))
    assert {d for a, d in zip(after.edges, after.degrees, strict=False) if a < 0.5} == {7}
    assert {d for a, d in zip(after.edges, after.degrees, strict=False) if a >= 0.5} == {4}


def test_edges_where_controls_jump_stay():
    marked = replace(PLAN, jumps=frozenset({1}))
    after = next_plan(marked, errors([1e-14] * 4, [3] * 4), Rules(POLICIES["hp"], 1e-6, 3, 10))
    assert [after.edges[k] for k in after.jumps] == [0.25]
    assert after.edges == (0.0, 0.25, 0.75, 1.0)


# ---- meshes as text ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("text", ["0:3 1", "0:3*7 1", "0:3 0.1!:5*3 0.3:2 1", "0:4*2 0.123456789:3 1; 0:3*50 1"])
def test_meshes_as_text_and_back(text):
    names = ["a", "b"][:text.count(";") + 1]
    plans = read_plans(text, names, "radau", "mesh")
    assert plans_text(plans) == text
    assert read_plans(plans_text(plans), names, "radau", "mesh") == plans


def test_the_text_of_a_fine_mesh_takes_time_linear_in_its_intervals_but_for_a_logarithm(monkeypatch):
    written, own = [], np.linspace
    monkeypatch.setattr(np, "linspace", lambda a, b, count: written.append(count) or own(a, b, count))
    for count in (300, 3000):
        cut = halved(uniform_plan(count, 3))  # its edges are rounded: no long stretch is cut evenly
        written.clear()
        text = plans_text([cut])
        assert sum(written) < 2 * count * (np.log2(2 * count) + 2)
        assert read_plans(text, ["a"], "radau", "mesh") == (cut,)


def test_edges_with_an_exclamation_mark_have_no_node_beside_them():
    plan = read_plans("0:3 0.25:3 0.5!:3 0.75:3 1", ["a"], "lobatto", "mesh")[0]
    mesh = plan_mesh(plan, "lobatto", "integral", "polynomial", False)
    assert [s.name for s in mesh.schemes] == ["lobatto", "gauss", "gauss", "lobatto"]
    assert not np.any(np.isclose(mesh.control_fractions, 0.5))
    np.testing.assert_allclose(mesh.edges, [0, 0.25, 0.5, 0.75, 1])


@pytest.mark.parametrize(("text", "said"), [
    ("", "at least one interval"), ("0:3", "at least one interval"), ("0:3 0.5 1", "'0.5' should be an edge and a degree"),
    ("0:3 1:3", "'1:3' should be an edge alone"), ("0.1:3 1", "from 0 to 1"), ("0:3 0.9", "from 0 to 1"),
    ("0:3 0.5:3 0.5:3 1", "edges must increase"), ("0:x 1", "'x' is not a positive integer"), ("0:3 a:3 1", "'a' is not a number"),
    ("0:1 1", "degrees from 2"), ("0!:3 1", "inner edges only"), ("0:3*0 1", "'0' is not a positive integer"),
    ("0:3 1; 0:3 1", "2 phases"),
])
def test_malformed_meshes(text, said):
    with pytest.raises(ProblemError, match="mesh") as error:
        read_plans(text, ["only"], "lobatto", "collocation.mesh")
    assert said in str(error.value)


@pytest.mark.parametrize(("options", "said"), [
    ({"scheme": "hermite_simpson", "refine": "hp"}, "hermite_simpson has only one"),
    ({"refine": "x"}, "no refine named 'x'"),
    ({"tolerance_mesh": 0.0}, "between 0 and 1"), ({"max_passes": 0}, "max_passes must be a whole number >= 1"),
    ({"scheme": "gauss", "degree": 5, "refine": "p", "max_degree": 4}, "degree of the first mesh, 5"),
    ({"form": "compressed", "refine": "h"}, "form integral"),
])
def test_options_are_checked(options, said):
    with pytest.raises(ProblemError, match=said):
        CollocationOptions(**options)


# ---- the loop ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("options", "most"), [
    ({"scheme": "gauss", "refine": "hp"}, 250), ({"scheme": "radau", "refine": "hp"}, 250),
    ({"scheme": "radau", "refine": "p", "max_degree": 20}, 250), ({"scheme": "lobatto", "refine": "hp"}, 250),
    ({"scheme": "hermite_simpson", "refine": "h"}, 1000)])
def test_refined_brachistochrone_is_as_accurate_as_asked(options, most):
    chosen = CollocationOptions(intervals=5, tolerance=1e-12, tolerance_mesh=1e-8, **options)
    found = by_collocation(known.brachistochrone(), chosen)
    assert found.status is Status.CONVERGED
    T, curve = cycloid()
    assert found.objective == pytest.approx(T, abs=1e-9)
    s = np.linspace(0, 1, 1001)
    error = np.abs(found.trajectory.state(s * found.trajectory.t[-1]) - curve(s * T)) / (1 + np.max(np.abs(curve(s * T)), axis=0))
    assert np.max(error) < 1e-7
    rows = dict(zip(found.extra["refinement_columns"], found.extra["refinement"].T, strict=True))
    assert rows["error"][-1] <= 1e-7 < 1e-6 < rows["error"][0]
    assert rows["unknowns"][-1] < most
    assert {row["pass"] for row in found.iterations} == set(rows["pass"])


def test_bead_on_a_stop_comes_to_its_closed_form():
    found = certify(by_collocation(bead(), CollocationOptions(scheme="gauss", intervals=4, refine="hp", tolerance_mesh=1e-7)))
    assert found.ok
    assert found.objective == pytest.approx(4, abs=1e-5)
    assert found.extra["refinement"][0, 5] < 4 - 1e-3  # where it began: the trap


def test_kinks_of_controls_that_the_objective_no_longer_feels_are_reported():
    found = by_collocation(bead(), CollocationOptions(scheme="radau", intervals=5, refine="hp", tolerance_mesh=1e-8))
    rows = dict(zip(found.extra["refinement_columns"], found.extra["refinement"].T, strict=True))
    told = any(one.kind is Kind.MESH_TOLERANCE_MISSED for one in found.findings)
    assert told == (found.status is Status.CONVERGED and rows["error"][-1] > 1e-8)
    assert told
    assert abs(rows["objective"][-1] - rows["objective"][-2]) < 1e-7


def test_passes_that_do_not_suffice_are_reported():
    found = by_collocation(known.brachistochrone(), CollocationOptions(intervals=3, refine="h", tolerance_mesh=1e-12, max_passes=2))
    assert found.status is Status.MESH_TOLERANCE
    assert found.ending.kind is Kind.PASSES_USED_UP
    assert "max_passes" in message(found)
    stuck = by_collocation(known.brachistochrone(), CollocationOptions(
        scheme="gauss", intervals=2, refine="p", tolerance_mesh=1e-13, max_degree=4))
    assert stuck.status is Status.MESH_TOLERANCE
    assert stuck.ending.kind is Kind.NO_FINER_MESH
    assert "max_degree" in message(stuck)
    assert stuck.objective == pytest.approx(cycloid()[0], abs=1e-5)


def test_interrupt_returns_the_last_finished_pass():
    seen = []

    def progress(row):
        seen.append(row)
        if row["pass"] == 2:
            raise KeyboardInterrupt

    found = by_collocation(known.brachistochrone(), CollocationOptions(intervals=4, refine="h", tolerance_mesh=1e-9), progress)
    assert found.status is Status.INTERRUPTED
    assert len(found.extra["refinement"]) == 1
    assert len(found.trajectory.t) == 5
    assert (found.ending.kind, found.ending.data["pass"]) == (Kind.LAST_PASS_RETURNED, 1)
    assert [row["iteration"] for row in seen] == list(range(len(seen)))


def test_several_phases_have_meshes_of_their_own():
    """A block pushed for a second, then one of a fast rate: only the second phase is refined; frozen, both come back."""
    slow = known.flat_system("s", ("x",), ("u",), lambda t, x, u, p: u)
    fast = known.flat_system("f", ("x",), ("u",), lambda t, x, u, p: u - 12 * ca.sin(3 * x[0]))
    cost = Cost("c", At.PATH, known.function(1, 1, lambda t, x, u, p: u[0]**2 / 2))
    one = Phase("one", slow, Duration(1.0, 1.0, 1.0), known.line([0], [0.2], 1), start=known.fixed(0), costs=(cost,))
    two = Phase("two", fast, Duration(1.0, 1.0, 1.0), known.line([0.2], [1], 1), final=known.fixed(1), costs=(cost,))
    problem = Problem("both", (one, two))
    found = by_collocation(problem, CollocationOptions(scheme="gauss", intervals=4, refine="hp", tolerance_mesh=1e-7))
    assert found.status is Status.CONVERGED
    assert certify(found).certificate.holds
    plans = read_plans(str(found.extra["refinement_mesh"][0]), ["one", "two"], "gauss", "mesh")
    assert sum(plans[0].degrees) < sum(plans[1].degrees)
    reference = by_collocation(problem, CollocationOptions(scheme="radau", degree=12, intervals=30))
    assert found.objective == pytest.approx(reference.objective, rel=1e-7)
    again = by_collocation(problem, CollocationOptions(scheme="gauss", mesh=str(found.extra["refinement_mesh"][0])))
    assert again.objective == pytest.approx(found.objective, rel=1e-7)
