"""The arm on a bent rail, tied to a four-bar linkage, by an independent road: Lagrange's equations in the five coordinates that are
left when the linkage is closed by hand, from nothing but homogeneous transforms, and an own transcription."""

from functools import cache

import casadi as ca
import numpy as np
import pytest
from repository import ROOT
from scipy.interpolate import CubicSpline

from dynamics.derivatives.complex_step import complex_step_jacobian
from dynamics.loops import LoopDynamics
from ocp.app.files.load import load_problem
from ocp.methods import solve

PATH = ROOT / "problems" / "rail_arm_linkage.yaml"
RAIL = np.array([[-0.3, -0.2, 0.8], [0.0, -0.3, 0.9], [0.3, -0.25, 0.85], [0.6, -0.05, 0.8]])
START, FINAL = (0.0, 0.05, 0.3, 0.0, -0.5), (-np.pi / 2, 0.8, -0.3, 0.4, -0.2)
WEIGHTS = np.array([1.0, 0.02, 1.0, 1.0, 1.0])


def linkage(crank):
    """Angles of coupler (on the crank) and rocker about y: the apex of the triangle over the line from crank to pivot."""
    end = ca.vertcat(0.2 * ca.cos(crank), -0.2 * ca.sin(crank))
    span = ca.vertcat(0.5, 0.0) - end
    length = ca.norm_2(span)
    along = (length**2 + 0.5**2 - 0.4**2) / (2 * length)
    up = ca.sqrt(0.5**2 - along**2)
    apex = end + along * span / length + up * ca.vertcat(-span[1], span[0]) / length
    angle = [ca.atan2(-(apex - foot)[1], (apex - foot)[0]) for foot in (end, ca.vertcat(0.5, 0.0))]
    return angle[0] - crank, angle[1]


def turn(axis, angle):
    hat = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]], float)
    return ca.DM.eye(3) + ca.sin(angle) * ca.DM(hat) + (1 - ca.cos(angle)) * ca.DM(hat @ hat)


def rail(s):
    """The natural cubic spline through the points over the length of the chords; inside its ends."""
    knots = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(RAIL, axis=0), axis=1))])
    pieces = CubicSpline(knots, RAIL, bc_type="natural")
    value = ca.SX(3, 1)
    for k in range(3):
        here = sum((ca.DM(pieces.c[i, k]) * (s - knots[k]) ** (3 - i) for i in range(4)), ca.DM(3, 1))
        lower, upper = (-np.inf if k == 0 else knots[k]), (np.inf if k == 2 else knots[k + 1])
        value = value + ca.if_else(ca.logic_and(s >= lower, s < upper), 1, 0) * here
    return value


@cache
def rates():
    """(y, w, u) -> accelerations [5] of crank, carriage, shoulder, elbow."""
    y, w, u = ca.SX.sym("y", 5), ca.SX.sym("w", 5), ca.SX.sym("u", 5)
    coupler, rocker = linkage(y[0])
    Y, Z = (0, 1, 0), ca.vertcat(0, 0, 1)
    crank_R = turn(Y, y[0])
    coupler_R, rocker_R = crank_R @ turn(Y, coupler), turn(Y, rocker)
    carriage_p = rail(y[1])
    upper_R = turn(Y, y[2]) @ turn((1, 0, 0), y[3])
    elbow_p = carriage_p - 0.25 * upper_R @ Z
    forearm_R = upper_R @ turn(Y, y[4])
    ends = (elbow_p - 0.2 * forearm_R @ Z, crank_R @ ca.DM([0.2, 0, 0]) + coupler_R @ ca.DM([0.25, 0, 0]))
    bodies = (  # mass, inertia, rotation, centre
        (0.5, (1e-4, 0.00167, 0.00167), crank_R, crank_R @ ca.DM([0.1, 0, 0])), (1.0, (1e-4, 0.0208, 0.0208), coupler_R, ends[1]),
        (0.8, (1e-4, 0.0107, 0.0107), rocker_R, ca.DM([0.5, 0, 0]) + rocker_R @ ca.DM([0.2, 0, 0])),
        (0.8, (0, 0, 0), ca.DM.eye(3), carriage_p), (0.5, (2.5e-3, 2.5e-3, 2e-4), upper_R, carriage_p - 0.12 * upper_R @ Z),
        (0.3, (1e-3, 1e-3, 1e-4), forearm_R, elbow_p - 0.1 * forearm_R @ Z))
    kinetic, potential = ca.SX(0), ca.SX(0)
    for mass, inertia, R, p in bodies:
        velocity, rate = ca.jtimes(p, y, w), ca.SX(ca.reshape(ca.jtimes(ca.vec(ca.SX(R)), y, w), 3, 3))
        spin = ca.inv_skew(ca.SX(R).T @ rate)
        kinetic += mass * ca.dot(velocity, velocity) / 2 + ca.dot(ca.DM(inertia) * spin, spin) / 2
        potential += 9.81 * mass * p[2]
    length = ca.norm_2(ends[1] - ends[0])
    potential += 15 * (length - 0.2) ** 2 / 2
    rocking = ca.jtimes(rocker, y, w)
    lost = 0.3 * ca.jtimes(length, y, w) ** 2 / 2 + 0.02 * (w[0] ** 2 + rocking**2 + w[2] ** 2 + w[3] ** 2 + w[4] ** 2) / 2
    momentum = ca.gradient(kinetic, w)
    force = u + ca.gradient(kinetic - potential, y) - ca.gradient(lost, w) - ca.jtimes(momentum, y, w)
    return ca.Function("rates", [y, w, u], [ca.densify(ca.solve(ca.jacobian(momentum, w), force))])


def embedded(y, w):
    """(q, v) of the robot, in the order of its file, from the five coordinates and their rates."""
    s, r = ca.SX.sym("y", 5), ca.SX.sym("w", 5)
    q = ca.vertcat(s[0], *linkage(s[0]), s[1:])
    place = ca.Function("place", [s, r], [q, ca.jtimes(q, s, r)])
    return [np.array(x).ravel() for x in place(y, w)]


@pytest.fixture(scope="module")
def loaded():
    return load_problem(PATH)


@pytest.fixture(scope="module")
def robot(loaded):
    return loaded.problem.phases[0].system.mechanism


def states(count=4):
    rng = np.random.default_rng(7)
    for _ in range(count):
        share = rng.uniform(0, 1, 5)
        yield (1 - share) * START + share * FINAL, rng.uniform(-3, 3, 5), rng.uniform(-5, 5, 5)


def test_it_holds_what_it_shall_show(robot):
    kinds = {body.joint.name: body.joint.kind for body in robot.model.bodies}
    assert kinds["carriage"] == "spline_curve"
    assert kinds["shoulder"] == "universal"
    assert robot.model.children(robot.model.body_index("upper"))  # inside the tree
    assert [c.name for c in robot.constraints] == ["pin"]
    assert {place.frame for place in robot.forces[0].places} == {"forearm", "coupler"}


def test_lagrange_in_five_coordinates_moves_it_alike(robot):
    loops = LoopDynamics(robot)
    for y, w, u in states():
        q, v = embedded(y, w)
        tau = np.array(robot.motor_effort(ca.DM(u))).ravel()
        by_hand = np.array(rates()(y, w, u)).ravel()
        for a in (loops.forward_dynamics(q, v, tau), np.array(robot.forward_dynamics(q, v, u)).ravel()):
            np.testing.assert_allclose(a[[0, 3, 4, 5, 6]], by_hand, rtol=1e-8, atol=1e-8 * np.abs(by_hand).max())


def test_loops_and_generated_code_agree_and_so_do_derivatives(robot):
    """Closed forms in loops against complex steps of generated code."""
    loops, model = LoopDynamics(robot), robot.model
    z = [ca.SX.sym(name, n) for name, n in (("q", model.nq), ("v", model.nv), ("u", robot.nu))]
    generated = ca.Function("a", z, [ca.densify(robot.forward_dynamics(*z))])
    slopes = [complex_step_jacobian(generated, i) for i in range(3)]
    for y, w, u in states(2):
        q, v = embedded(y, w)
        tau = np.array(robot.motor_effort(ca.DM(u))).ravel()
        a, first = loops.forward_dynamics_derivatives(q, v, tau)
        there = np.array(generated(q, v, u)).ravel()
        np.testing.assert_allclose(a, there, rtol=1e-9, atol=1e-9 * np.abs(there).max())
        by_u = first[2] @ np.array(robot.selection)
        for ours, slope in zip((first[0], first[1], by_u), slopes, strict=True):
            theirs = np.array(slope(q, v, u))
            np.testing.assert_allclose(ours, theirs, atol=1e-9 * np.abs(theirs).max())


def by_hand(intervals):
    """The least effort by Hermite and Simpson's rule in the five coordinates."""
    opti, h = ca.Opti(), 1.0 / intervals
    y, w, u = (opti.variable(5, n) for n in (intervals + 1, intervals + 1, 2 * intervals + 1))
    f, cost = rates(), 0
    for k in range(intervals):
        a0, a1 = f(y[:, k], w[:, k], u[:, 2 * k]), f(y[:, k + 1], w[:, k + 1], u[:, 2 * k + 2])
        ym = (y[:, k] + y[:, k + 1]) / 2 + h / 8 * (w[:, k] - w[:, k + 1])
        wm = (w[:, k] + w[:, k + 1]) / 2 + h / 8 * (a0 - a1)
        am = f(ym, wm, u[:, 2 * k + 1])
        opti.subject_to(y[:, k + 1] == y[:, k] + h / 6 * (w[:, k] + 4 * wm + w[:, k + 1]))
        opti.subject_to(w[:, k + 1] == w[:, k] + h / 6 * (a0 + 4 * am + a1))
        for i, share in enumerate((1, 4, 1)):
            cost += h / 6 * share * ca.dot(ca.DM(WEIGHTS) * u[:, 2 * k + i], u[:, 2 * k + i])
    opti.minimize(cost)
    for at, ends in ((0, START), (intervals, FINAL)):
        opti.subject_to(y[:, at] == ca.DM(ends))
        opti.subject_to(w[:, at] == 0)
    for k in range(intervals + 1):
        opti.set_initial(y[:, k], np.array(START) + k * h * (np.array(FINAL) - START))
    opti.solver("ipopt", {"print_time": False}, {"print_level": 0, "sb": "yes", "tol": 1e-10})
    return float(opti.solve().value(cost))


@pytest.mark.slow
def test_reference_is_the_optimum_of_the_equations_by_hand(loaded):
    reference = loaded.problem.reference
    coarse, fine = by_hand(20), by_hand(40)
    assert fine == pytest.approx(reference.objective, rel=5e-5)
    assert abs(fine - reference.objective) < abs(coarse - reference.objective) / 4


@pytest.mark.parametrize("method", ["collocation", pytest.param("ilqr", marks=pytest.mark.slow)])
def test_optima_by_loops_are_those_of_generated_code(method):
    """Of the linkage alone, with its spring: the same discrete problem, by other derivatives and another execution."""
    problem = load_problem(ROOT / "problems" / "four_bar.yaml").problem
    coarse = {"collocation": {"scheme": "hermite_simpson", "intervals": 12}, "ilqr": {"intervals": 24}}[method]
    ways = ({"derivatives": "ad"}, {"derivatives": "analytic", "execution": "loops"})
    generated, loops = (solve(problem, method, {**coarse, **way}) for way in ways)
    assert "loops" in [one.data.get("execution") for one in loops.findings]
    assert loops.objective == pytest.approx(generated.objective, rel=1e-7)
    np.testing.assert_allclose(loops.trajectory.x, generated.trajectory.x, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["collocation", "multiple_shooting", "ilqr"])
def test_every_method_certifies_it_without_options(loaded, method):
    solution, reference = solve(loaded.problem, method), loaded.problem.reference
    assert solution.ok, solution.certificate.failures
    bound = solution.certificate.error_bound + reference.tolerance * reference.objective
    assert abs(solution.objective - reference.objective) <= bound
