"""The comparison of derivatives: it agrees where all is well and names what is wrong, rough or undefined."""

import io
from dataclasses import replace
from importlib import metadata

import casadi as ca
import numpy as np
import pytest
from control_problems import cart_pole, flat_system, function, line
from repository import ROOT, shipped
from rich.console import Console

from dynamics.derivatives import analytic
from dynamics.derivatives.injection import with_derivatives
from dynamics.errors import ModelError
from dynamics.mechanism import Thruster
from dynamics.model.synthetic import random_tree
from ocp import derivatives
from ocp.app.pages.derivative_check import print_derivative_check, sentence, term_places
from ocp.bridge import robot_system
from ocp.derivative_check import Kind, check_derivatives, terms
from ocp.derivative_check.compare import central, sides
from ocp.derivative_check.terms import path_points
from ocp.derivatives import differentiated
from ocp.errors import ProblemError
from ocp.problem import INF, At, Constraint, Cost, Duration, Guess, Phase, Problem

FILES = sorted((ROOT / "problems").glob("*.yaml"))
try:
    metadata.distribution("example-robot-data")
except metadata.PackageNotFoundError:  # some robots come with the robots extra
    FILES = [path for path in FILES if "robot: robots:" not in path.read_text(encoding="utf-8")]
LONG = ("anymal_trot", "anymal_trot_cones", "anymal_walk", "panda_reach", "panda_reach_obstacle", "quadruped_righting", "leg_leap",
        "rail_arm_linkage", "four_bar", "hexacopter_arm", "kinova_reach", "drone_gates", "tendon_finger")


def of_terms(*costs, states=("x", "y"), guess=None, constraints=(), **options):
    """A problem with a plain system that holds these costs and constraints; guess: values of the states, held."""
    system = flat_system("plain", states, ("force",), lambda t, x, u, p: ca.vertcat(*([u[0]] * len(states))))
    at = np.array([guess if guess is not None else [0.7] * len(states)])
    phase = Phase("phase", system, Duration(1.0, 1.0, 1.0), Guess(np.zeros(1), at, np.array([[0.3]])), costs=costs,
                  constraints=constraints, **options)
    return Problem("made", (phase,))


def cost(expression, states=2, name="cost", at=At.PATH):
    return Cost(name, at, function(states, 1, lambda t, x, u, p: expression(x, u)))


def only(check, kind):
    assert {f.kind for f in check.findings} == {kind}
    return list(check.findings)


def with_wrong_jacobian(value, jacobian, nx=2, nu=1):
    """A term (t, x, u, p) -> value(x) in which MX graphs see the Jacobian ``jacobian(x)``."""
    s, x = ca.SX.sym("x", nx), ca.MX.sym("x", nx)
    size = ca.SX(value(s)).shape[0]
    wrong = ca.Function("jac_inner", [s, ca.SX(size, 1)], [ca.densify(ca.SX(jacobian(s)))])
    inner = ca.Function("inner", [s], [value(s)], {"custom_jacobian": wrong, "enable_forward": False, "enable_reverse": False,
                                                   "never_inline": True})
    t, u, p = ca.MX.sym("t"), ca.MX.sym("u", nu), ca.MX.sym("p", 0)
    return ca.Function("term", [t, x, u, p], [inner(x)], ["t", "x", "u", "p"], ["y"])


# ---- everything agrees ----------------------------------------------------------------------------------------------------
# numbers of many magnitudes: a drag that vanishes at a random height is not resolved by differences, and of millions of metres
# differences resolve less, as of accelerations of a linkage far from closed, of stiff tendons and walls and of steps that solve
# equations; the verdict of the check itself counts there
WIDE = ("cartpole_sampled", "four_bar_residual", "goddard_arcs", "launch_vehicle", "tendon_finger", "chain_on_wall")


@pytest.mark.parametrize("file", [
    pytest.param(f, marks=[pytest.mark.slow] * (i % 2 or f.stem in LONG), id=f.stem) for i, f in enumerate(FILES)])
@pytest.mark.sample(20)
def test_every_problem_of_the_gallery_agrees(file):
    check = check_derivatives(shipped(file).problem, points=1)
    assert check.findings == ()
    for term in check.terms if file.stem not in WIDE else ():
        for order in (term.first, term.second):
            assert order.difference < 1e-11
            assert order.error_bound < 1e-8
            assert order.unresolved == 0
            assert order.entries > 0
            assert all(road.available for road in order.methods if road.name != "closed form")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_every_problem_agrees_at_many_points(file, seed):
    assert check_derivatives(shipped(file).problem, points=4, seed=seed).findings == ()


def robot_problem(system, rng):
    d = 0.5 * rng.standard_normal(system.space.ndx)
    x = np.array(ca.DM(system.space.plus(ca.DM(system.space.neutral), ca.DM(d)))).T
    guess = Guess(np.zeros(1), x, rng.standard_normal((1, system.nu)))
    return Problem("robot", (Phase("phase", system, Duration(1, 1, 1), guess),))


@pytest.mark.parametrize("root", ["free_flyer", "revolute"])
def test_a_robot_of_mixed_joints_agrees_with_its_closed_form(root):
    rng = np.random.default_rng(2)
    model = random_tree(3, rng, root=root, damping=True)
    check = check_derivatives(robot_problem(robot_system(model), rng), points=1)
    assert check.findings == ()
    assert [r.name for r in check.terms[0].second.methods if r.available] == ["ad", "complex step", "differences", "closed form"]


def test_thrusters_on_moving_links_bend_the_closed_form():
    """The generalised force of a thrust depends on the configuration twice over."""
    rng = np.random.default_rng(7)
    model = random_tree(3, rng, kinds=["revolute", "spherical"], branching=0.0)
    system = robot_system(model, actuated=[model.bodies[0].joint.name], thrusters=[
        Thruster("nozzle", "f2", (0.3, -0.5, 0.8), 0.2), Thruster("fan", "f1", (0.0, 1.0, 0.0))])
    check = check_derivatives(robot_problem(system, rng), points=1)
    assert check.findings == ()
    assert check.terms[0].second.methods[-1].available


def test_a_rate_that_brings_analytic_derivatives_agrees():
    rng = np.random.default_rng(3)
    system = differentiated(robot_system(random_tree(2, rng, root="free_flyer")), "analytic")
    check = check_derivatives(robot_problem(system, rng), points=1)
    assert check.findings == ()
    assert all(road.available for road in check.terms[0].first.methods + check.terms[0].second.methods)


# ---- a wrong derivative -----------------------------------------------------------------------------------------------------
def test_a_wrong_derivative_of_a_cost_is_named():
    """d/dy (x^2 y) = x^2 is off by one part in a million."""
    wrong = with_wrong_jacobian(lambda s: s[0] ** 2 * s[1], lambda s: ca.horzcat(2 * s[0] * s[1], (1 + 1e-6) * s[0] ** 2))
    check = check_derivatives(of_terms(Cost("effort", At.PATH, wrong)), locations={"cost effort": "file.yaml:7:5: phase.costs[0]"})
    assert not check.ok
    first = [f for f in only(check, Kind.DISAGREEMENT) if f.order == 1]
    assert [(f.component, f.by, f.location) for f in first] == [("effort", ("y",), "file.yaml:7:5: phase.costs[0]")]
    numbers = {n.method: n for n in first[0].numbers}
    x = first[0].point.values["x"]
    np.testing.assert_allclose(numbers["ad"].value, (1 + 1e-6) * x**2, rtol=1e-13)
    np.testing.assert_allclose(numbers["complex step"].value, x**2, rtol=1e-13)
    assert abs(numbers["differences"].value - x**2) <= 10 * numbers["differences"].error
    assert "by y: ad" in sentence(first[0])


def test_a_wrong_derivative_of_a_rate_is_named():
    good = cart_pole()
    system = good.phase.system
    s = ca.SX.sym("s", 4)
    exact = ca.Function("f", [s], [system.rate(0, s, 0.5, [])])
    J = ca.Function("J", [s], [ca.jacobian(exact(s), s)])

    def jacobian(x):
        out = ca.densify(J(x))
        out[3, 1] *= 1 + 1e-5
        return out

    wrong = replace(system, rate=with_wrong_jacobian(exact, jacobian, 4))
    check = check_derivatives(Problem("wrong", (replace(good.phase, system=wrong),)), points=2, second=False)
    finding, = only(check, Kind.DISAGREEMENT)
    assert (finding.term, finding.component, finding.by) == ("rate 'cart-pole'", "rate of pole_rate", ("pole",))
    assert set(finding.point.values) == {"cart", "pole", "cart_rate", "pole_rate", "force", "t"}
    assert [t.ok for t in check.terms] == [False, True]


def injected(wrong):
    """sin(x) y and x y^2 of an MX graph; ``wrong`` is added to one entry of the second derivatives of the second."""
    s, seed = ca.SX.sym("s", 2), ca.SX.sym("seed", 2)
    value = ca.vertcat(ca.sin(s[0]) * s[1], s[0] * s[1] ** 2)
    H = ca.hessian(ca.dot(seed, value), s)[0]
    H[0, 1] += wrong * seed[1]
    f = with_derivatives("f", {"s": s}, "y", value, seed, jacobian=[ca.jacobian(value, s)],
                         gradient=[ca.gradient(ca.dot(seed, value), s)], hessian=[[H]])
    t, x, u, p = ca.MX.sym("t"), ca.MX.sym("x", 2), ca.MX.sym("u"), ca.MX.sym("p", 0)
    term = ca.Function("term", [t, x, u, p], [f(x)])
    return Constraint("reach", At.FINAL, term, (0.0, 0.0), (1.0, 1.0), where="file.yaml:9:7: phase.constraints[0]")


def test_a_wrong_second_derivative_is_named_by_component():
    assert check_derivatives(of_terms(constraints=(injected(0.0),))).ok
    check = check_derivatives(of_terms(constraints=(injected(1e-4),)))
    finding, = only(check, Kind.DISAGREEMENT)
    assert (finding.order, finding.component, finding.by) == (2, "reach[1]", ("x", "y"))
    assert finding.location == "file.yaml:9:7: phase.constraints[0]"
    numbers = {n.method: n.value for n in finding.numbers}
    np.testing.assert_allclose(numbers["ad"] - numbers["complex step"], 1e-4, rtol=1e-8)
    assert check_derivatives(of_terms(constraints=(injected(1e-4),)), second=False).ok


def test_a_wrong_closed_form_is_caught(monkeypatch):
    first = analytic.forward_dynamics_partials

    def negated(*arguments):
        x = first(*arguments)
        return x._replace(da_dv=-x.da_dv)

    monkeypatch.setattr(analytic, "remembered", lambda words, build: build())  # a wrong one is for nobody's cache
    monkeypatch.setattr(analytic, "forward_dynamics_partials", negated)
    rng = np.random.default_rng(5)
    system = robot_system(random_tree(2, rng, kinds=["revolute"]))
    check = check_derivatives(robot_problem(system, rng), points=1)
    assert {f.by[0] for f in only(check, Kind.DISAGREEMENT) if f.order == 1} == set(system.space.tangent_names[2:])
    numbers = {n.method: n.value for n in check.findings[0].numbers}
    np.testing.assert_allclose(numbers["closed form"], -numbers["ad"], rtol=1e-9)


def test_efforts_in_costs_and_constraints_have_a_closed_form(monkeypatch):
    """Where accelerations are controls, what is differentiated in closed form are functions of efforts."""
    def checked():
        phase = shipped(next(f for f in FILES if f.stem == "biped_inverse_dynamics")).problem.phases[0]
        return check_derivatives(Problem("first", (phase,)), points=1, second=False)

    right = checked()
    closed = [term for term in right.terms if term.kind != "rate" and term.first.methods[-1].name == "closed form"]
    assert closed
    assert right.ok
    first = derivatives.analytic_function

    def doubled(model, name):
        f = first(model, name)
        q, v, a = (ca.SX.sym(f.name_in(k), f.sparsity_in(k)) for k in range(3))
        return ca.Function("doubled", [q, v, a], [2 * ca.SX(f.expand()(q, v, a))])

    monkeypatch.setattr(derivatives, "analytic_function", doubled)
    wrong = {finding.term for finding in only(checked(), Kind.DISAGREEMENT)}
    assert wrong == {f"{term.kind} {term.name!r}" for term in closed}


def test_a_robot_without_closed_form_says_so(monkeypatch):
    def unknown(model):
        raise ModelError("no chain of simple joints is known", element="joint 'j0'")

    monkeypatch.setattr(derivatives, "analytic_function", lambda model, name: unknown(model))
    rng = np.random.default_rng(5)
    check = check_derivatives(robot_problem(robot_system(random_tree(2, rng, kinds=["revolute"])), rng), points=1, second=False)
    assert check.ok
    road, = (r for r in check.terms[0].first.methods if not r.available)
    assert (road.name, road.note) == ("closed form", "joint 'j0': no chain of simple joints is known")


def test_quaternions_are_varied_in_their_tangent_space():
    """For w of the quaternion dw/d(delta) = -1/2 (x, y, z); the wrong road is the only one that says otherwise."""
    problem = shipped(next(f for f in FILES if f.stem == "quadrotor")).problem
    system = problem.phase.system
    start, = system.space.quaternions
    wrong = with_wrong_jacobian(lambda s: s[start], lambda s: ca.horzcat(*(2.0 * (k == start) for k in range(13))), 13, 4)
    tilted = Problem("tilt", (replace(problem.phase, costs=(Cost("w", At.PATH, wrong),)),))
    check = check_derivatives(tilted, points=2, second=False)
    found = only(check, Kind.DISAGREEMENT)
    turned = system.space.tangent_names[3:6]
    assert {f.by[0] for f in found} == set(turned)
    for f in found:
        numbers, values = {n.method: n.value for n in f.numbers}, list(f.point.x[start + 1:start + 4])
        np.testing.assert_allclose(numbers["complex step"], -values[turned.index(f.by[0])] / 2, atol=1e-12)
        np.testing.assert_allclose(numbers["ad"], 2 * numbers["complex step"], atol=1e-12)
        np.testing.assert_allclose(np.linalg.norm(f.point.x[start:start + 4]), 1, rtol=1e-14)


# ---- kinks, jumps, what is not finite ---------------------------------------------------------------------------------------
ROUGH = [("abs", lambda x, u: ca.fabs(x[0]) * x[1], -0.7, 0.7), ("min", lambda x, u: ca.fmin(2 * x[0], 0.5 * x[0]), 2.0, 0.5),
         ("max", lambda x, u: ca.fmax(x[0], 0) + x[1], 0.0, 1.0),
         ("branch", lambda x, u: ca.if_else(x[0] > 0, 3 * x[0], ca.sin(x[0])), 1.0, 3.0)]


@pytest.mark.parametrize(("name", "expression", "left", "right"), ROUGH, ids=[r[0] for r in ROUGH])
def test_a_kink_is_reported_as_a_kink(name, expression, left, right):
    check = check_derivatives(of_terms(cost(expression), guess=[0.0, 0.7]))
    assert check.ok
    finding = only(check, Kind.KINK)[0]
    assert (finding.component, finding.by, finding.order) == ("cost", ("x",), 1)
    assert finding.point.guess
    numbers = {n.method: n for n in finding.numbers}
    np.testing.assert_allclose([numbers["left"].value, numbers["right"].value], [left, right], atol=1e-8)
    if name != "branch":
        assert any(f"uses {name}" in remark for remark in check.terms[-1].remarks)


def test_a_wrong_derivative_at_a_kink_is_still_wrong():
    wrong = with_wrong_jacobian(lambda s: ca.fabs(s[0]), lambda s: ca.horzcat(1.5, 0))
    check = check_derivatives(of_terms(Cost("cost", At.PATH, wrong), guess=[0.0, 0.7]), second=False)
    assert not check.ok


@pytest.mark.parametrize("distance", [1e-7, 1e-5, 3e-4, 1e-2])
def test_a_kink_nearby_is_no_false_alarm(distance):
    check = check_derivatives(of_terms(cost(lambda x, u: ca.fabs(x[0]) + x[1] ** 2), guess=[distance, 0.7]), points=1)
    assert check.ok
    assert all(f.kind is Kind.KINK and f.by[0] == "x" for f in check.findings)
    if distance > 1e-6:
        assert check.findings == ()


def test_a_kink_of_the_first_derivative():
    check = check_derivatives(of_terms(cost(lambda x, u: ca.fmax(x[0], 0) ** 2 + x[1]), guess=[0.0, 0.7]))
    assert check.ok
    finding, = only(check, Kind.KINK)
    assert (finding.order, finding.by) == (2, ("x", "x"))


@pytest.mark.parametrize("expression", [lambda x, u: ca.floor(x[0]) + x[1], lambda x, u: ca.if_else(x[0] >= 1, 2.0, x[1])])
def test_a_jump_is_reported_as_a_jump(expression):
    check = check_derivatives(of_terms(cost(expression), guess=[1.0, 0.7]))
    assert check.ok
    assert {(f.order, f.by) for f in only(check, Kind.JUMP)} == {(1, ("x",))}


@pytest.mark.parametrize(("expression", "names"), [
    (lambda x, u: ca.norm_2(x), ("x", "y")), (lambda x, u: ca.asin(1 - x[0]), ("x",)), (lambda x, u: ca.sqrt(x[0]), ("x",)),
])
def test_a_derivative_that_is_not_finite_is_named(expression, names):
    check = check_derivatives(of_terms(cost(expression, name="distance"), guess=[0.0, 0.0], x_lower=(0.0, 0.0), x_upper=(1.0, 1.0)),
                              points=1)
    assert not check.ok
    found = only(check, Kind.NON_FINITE)
    assert {(f.component, *f.by) for f in found} == {("distance", name) for name in names}
    assert all(f.point.guess and f.order == 1 for f in found)
    assert not np.isfinite(found[0].numbers[0].value)


def test_an_undefined_value_counts_where_the_solver_starts():
    check = check_derivatives(of_terms(cost(lambda x, u: ca.log(x[0])), guess=[-1.0, 0.0]), points=1)
    finding = only(check, Kind.UNDEFINED)[0]
    assert finding.fails
    assert sentence(finding) == "value not finite: value of cost"
    rare = check_derivatives(of_terms(cost(lambda x, u: ca.log(x[0])), guess=[0.01, 0.0]), points=12)
    assert only(rare, Kind.UNDEFINED)
    assert rare.ok


def test_smooth_but_difficult_functions_raise_no_alarm():
    hard = [lambda x, u: ca.tanh(300 * (x[0] - 0.7)), lambda x, u: ca.exp(8 * x[0]) * ca.sin(40 * x[1]),
            lambda x, u: 1e8 + x[0] ** 3, lambda x, u: 1 / (1e-4 + (x[0] - 0.7) ** 2), lambda x, u: 1e-7 * x[0] * x[1],
            lambda x, u: 1e9 * ca.sin(x[0]) * u[0]]
    check = check_derivatives(of_terms(*(cost(f, name=f"cost {k}") for k, f in enumerate(hard))), points=4)
    assert check.findings == ()


def test_a_black_box_has_no_complex_step():
    table = ca.interpolant("table", "bspline", [np.linspace(-3, 3, 20).tolist()], np.sin(np.linspace(-3, 3, 20)).tolist())
    t, x, u, p = ca.MX.sym("t"), ca.MX.sym("x", 2), ca.MX.sym("u"), ca.MX.sym("p", 0)
    lookup = Cost("lookup", At.PATH, ca.Function("lookup", [t, x, u, p], [table(x[0]) * x[1]]))
    check = check_derivatives(of_terms(lookup))
    assert check.ok
    road, = (r for r in check.terms[-1].first.methods if not r.available)
    assert road.name == "complex step"
    assert "function 'table': cannot be expanded" in road.note


# ---- finite differences and their error bars ---------------------------------------------------------------------------------
@pytest.mark.parametrize("fine", [False, True])
def test_error_bounds_hold_the_error(fine):
    """Ten bars cover the true error everywhere, and for smooth functions the bars are small."""
    rng = np.random.default_rng(8)
    cases = [(np.sin, np.cos), (np.exp, np.exp), (lambda x: np.sin(60 * x), lambda x: 60 * np.cos(60 * x)),
             (lambda x: np.tanh(1e3 * x), lambda x: 1e3 / np.cosh(np.minimum(1e3 * x, 300)) ** 2),
             (lambda x: 1 / x, lambda x: -1 / x**2), (np.abs, np.sign),
             (lambda x: 1e6 + x**2, lambda x: 2 * x), (np.sqrt, lambda x: 0.5 / np.sqrt(x))]
    for k, (f, slope) in enumerate(cases):
        for x in rng.uniform(1e-3, 2.0, 40):
            estimate, _ = central(lambda d, x=x, f=f: f(x + d), np.ones(1), fine=fine)
            assert abs(estimate.value[0, 0] - slope(x)) <= 10 * estimate.error[0, 0]
            if k < 3 and not fine:
                assert estimate.error[0, 0] < 1e-8


def test_sides_of_a_corner_and_of_a_step():
    corner = sides(lambda d: np.abs(d[:1]) + 2 * d[:1] + np.cos(d[:1]), 2, 0, 1.0)
    np.testing.assert_allclose([corner.left.value[0], corner.right.value[0]], [1, 3], atol=1e-8)
    assert corner.jump[0] == 0
    step = sides(lambda d: np.sign(d[1:]) * 0.5, 2, 1, 1.0)
    np.testing.assert_allclose(step.jump, [1.0])


# ---- points, remarks, page ---------------------------------------------------------------------------------------------------
def test_points_are_inside_bounds_on_the_manifold_and_reproducible():
    phase = shipped(next(f for f in FILES if f.stem == "panda_reach")).problem.phase
    points = path_points(phase, 0.0, 20, np.random.default_rng(1))
    again = path_points(phase, 0.0, 20, np.random.default_rng(1))
    assert [p.guess for p in points] == [True, False] * 20
    for p, q in zip(points, again, strict=True):
        assert np.all(p.x >= phase.x_lower)
        assert np.all(p.x <= phase.x_upper)
        assert np.all(p.u >= phase.u_lower)
        assert np.all(p.u <= phase.u_upper)
        np.testing.assert_array_equal(np.r_[p.x, p.u, p.t], np.r_[q.x, q.u, q.t])
    spread = np.array([p.x for p in points if not p.guess]).std(axis=0)
    assert np.all(spread > 1e-2)


def test_parameters_and_time_are_varied_and_phases_follow_each_other():
    system = flat_system("spring", ("x",), ("force",), lambda t, x, u, p: u - p[0] * x * ca.cos(t), ("stiffness",), (3.0,))
    phases = tuple(Phase(name, system, Duration(2, 2, 2), line([0], [1], 1)) for name in ("push", "glide"))
    check = check_derivatives(Problem("two", phases), points=2)
    assert check.ok
    assert [t.phase for t in check.terms] == ["push", "glide"]
    assert terms.variables(system) == ("x", "force", "stiffness", "t")
    moved = list(terms.terms_of(phases[1], 2.0, 2, np.random.default_rng(0)))[0].points
    assert all(2.0 <= p.t <= 4.0 for p in moved)
    assert {p.p[0] == 3.0 for p in moved if p.guess} == {True}
    assert all(2.7 <= p.p[0] <= 3.3 and p.p[0] != 3.0 for p in moved if not p.guess)


def test_structure_is_remarked_upon():
    constant = Constraint("pair", At.PATH, function(2, 1, lambda t, x, u, p: ca.vertcat(x[0], 5.0)), (0.0, 0.0), (1.0, INF))
    late = cost(lambda x, u: u[0] * x[0], name="late", at=At.FINAL)
    check = check_derivatives(of_terms(late, constraints=(constant,), states=("x", "y")), points=1)
    remarks = {t.name: t.remarks for t in check.terms}
    assert remarks["pair"] == ("pair[1] depends on nothing: it is constant",)
    assert remarks["late"] == ("depends on controls (force), which have no value at the final",)
    assert check.remarks == ("'y' enters no function: only bounds and boundary conditions can act on it",)


@pytest.mark.parametrize("options", [{"points": 0}, {"tolerance": 0.0}, {"tolerance": 2.0}])
def test_bad_options_are_refused(options):
    with pytest.raises(ProblemError, match=next(iter(options))):
        check_derivatives(of_terms(), **options)


def printed(check, **options):
    stream = io.StringIO()
    print_derivative_check(check, Console(width=140, file=stream, highlight=False), **options)
    return stream.getvalue()


def test_the_page_names_everything():
    wrong = with_wrong_jacobian(lambda s: ca.vertcat(s[0] ** 2, s[1]), lambda s: ca.DM([[3, 0], [1, 1]]))
    constraint = Constraint("box", At.PATH, wrong, (0.0, 0.0), (1.0, 1.0), where="file.yaml:9:7: phase.constraints[0]")
    rough = cost(lambda x, u: ca.fabs(x[0] - 0.7) + ca.norm_2(x - 0.7), name="rough [m]")
    check = check_derivatives(of_terms(rough, constraints=(constraint,)), points=1)
    text = printed(check)
    for words in ("path constraint box", "running cost rough [m]", "not ok", "file.yaml:9:7: phase.constraints[0]",
                  "disagreement: first derivative of box[0] by x: ad 3, complex step 1.4, differences 1.4", "x = 0.7, y = 0.7",
                  "derivative not finite", "uses abs", "derivatives are not ok"):
        assert words in text
    assert "more of path constraint" in printed(check, most=1)


def test_the_page_of_a_file_that_agrees():
    file = next(f for f in FILES if f.stem == "block_move")
    loaded = shipped(file)
    places = term_places(loaded, str(file))
    line = 1 + next(i for i, text in enumerate(file.read_text().splitlines()) if "name: effort" in text)
    assert places["cost effort"].startswith(f"{file}:{line}:")
    text = printed(check_derivatives(loaded.problem, points=1, locations=places))
    assert "all methods agree" in text
    assert "no closed form for rate 'Block move': closed-form derivatives exist for the dynamics of a robot only" in text
