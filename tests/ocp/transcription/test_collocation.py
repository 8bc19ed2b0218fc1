"""Direct collocation against closed forms and published optima, and what it says when there is no solution."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import control_problems as known
import numpy as np
import pytest
from uncertified import by_collocation

from ocp.app.sentences import message
from ocp.nlp import IpoptOptions, kkt, solve_nlp
from ocp.problem import INF, At, Boundary, Constraint, Cost, Duration, Guess, Kind, Phase, Sense, Status, System
from ocp.spaces import Space
from ocp.transcription.charts import NORM_GAIN
from ocp.transcription.collocation import CollocationOptions, transcribe

HS, TRAPEZOID = "hermite_simpson", "trapezoid"


def solved(problem, **options):
    found = by_collocation(problem, CollocationOptions(**options))
    assert found.status is Status.CONVERGED, found.ending
    return found


# --- closed forms -------------------------------------------------------------------------------------------

def test_block_move_is_exact_with_hermite_simpson():
    found = solved(known.block_move(), intervals=4)
    assert found.objective == pytest.approx(12, abs=1e-12)
    t = np.linspace(0, 1, 23)
    np.testing.assert_allclose(found.trajectory.control(t)[:, 0], 6 - 12 * t, atol=1e-11)
    np.testing.assert_allclose(found.trajectory.state(t)[:, 0], 3 * t**2 - 2 * t**3, atol=1e-12)
    np.testing.assert_allclose(found.trajectory.state(t)[:, 1], 6 * t - 6 * t**2, atol=1e-12)
    assert found.ok is False  # no certificate yet
    assert set(found.seconds) == {"transcription", "compile", "solve", "functions", "total"}


def test_costate_of_the_block_move():
    """H = u^2 + p_x v + p_v u: p_v = -2 u = -12 + 24 t, p_x = -d/dt p_v = -24; also on a horizon other than 1."""
    found = solved(known.block_move(), intervals=6)
    t = found.trajectory.t_u
    np.testing.assert_allclose(found.extra["costate"], np.column_stack([np.full_like(t, -24), -12 + 24 * t]), atol=1e-9)
    longer = solved(known.block_move(2.0), intervals=6)  # u = (6 - 6 t) / 4
    np.testing.assert_allclose(longer.extra["costate"][:, 1], -2 * (6 - 6 * longer.trajectory.t_u) / 4, atol=1e-9)


@pytest.mark.parametrize("scheme", [HS, TRAPEZOID])
def test_minimum_time_with_bounded_force(scheme):
    """From rest to rest over 1 m with |a| <= 1: accelerate for one second, brake for one."""
    found = solved(known.bang_bang(), scheme=scheme, intervals=40)
    assert found.objective == pytest.approx(2, abs=2e-3)
    assert found.trajectory.t[-1] == pytest.approx(found.objective, rel=1e-12)
    np.testing.assert_allclose(found.trajectory.control([0.2, 0.7, 1.3, 1.8])[:, 0], [1, 1, -1, -1], atol=1e-6)


def test_time_dependent_tracking_by_quadrature():
    """min int (x - sin t)^2 with dx/dt = u, |u| free, no price on u and x(0) = 0: x follows and the cost vanishes."""
    system = known.flat_system("integrator", ("x",), ("u",), lambda t, x, u, p: p * u, ("gain",), (2.0,))
    cost = Cost("track", At.PATH, known.function(1, 1, lambda t, x, u, p: x - ca.sin(t), 1), weights=(2.0,))
    phase = Phase("track", system, Duration(3.0, 3.0, 3.0), known.line([0.0], [0.0], 1), start=known.fixed(0.0), costs=(cost,))
    found = solved(known.problem(phase), intervals=20)
    assert found.objective < 1e-12
    np.testing.assert_allclose(found.trajectory.x[:, 0], np.sin(found.trajectory.t), atol=1e-7)
    u = found.trajectory.u[::2, 0]
    assert np.abs(u - np.cos(found.trajectory.t) / 2).max() < 0.05  # the parameter is used


def test_optimality_is_left_for_the_certificate():
    found = solved(known.cart_pole(), intervals=30)
    left = found.optimality
    residual = kkt(left.nlp, left.x, left.lam_x, left.lam_g)
    assert residual.stationarity < 1e-8
    assert residual.complementarity < 1e-8
    assert residual.violation.max() < 1e-9
    assert residual.bound_violation.max() < 1e-7
    assert kkt(left.nlp, left.x, left.lam_x, 1.01 * left.lam_g).stationarity > 1e-4


@pytest.mark.parametrize("option", [{"hessian": "limited_memory"}, {"tolerance": 1e-4}, {"max_iterations": 3}])
def test_options_reach_the_solver(option):
    default = by_collocation(known.cart_pole(), CollocationOptions(intervals=15))
    other = by_collocation(known.cart_pole(), CollocationOptions(intervals=15, **option))
    assert len(other.iterations) != len(default.iterations)
    assert other.options[next(iter(option))] == next(iter(option.values()))


# --- constraints --------------------------------------------------------------------------------------------

def test_path_constraint_with_closed_form():
    """Bryson and Ho 1975, Sec. 3.11: min 1/2 int u^2, x(0) = x(1) = 0, v(0) = -v(1) = 1 and x <= l.

    For l < 1/6 the cost is 4 / (9 l), here 4.
    """
    system = known.block_move().phase.system
    cost = Cost("effort", At.PATH, known.function(2, 1, lambda t, x, u, p: u), weights=(1.0,))
    ceiling = Constraint("ceiling", At.PATH, known.function(2, 1, lambda t, x, u, p: x[0]), (-INF,), (1 / 9,))
    phase = Phase("ceiling", system, Duration(1.0, 1.0, 1.0), known.line([0, 1], [0, -1], 1), known.fixed(0, 1),
                  known.fixed(0, -1), costs=(cost,), constraints=(ceiling,))
    held = solved(known.problem(phase), intervals=60)
    assert held.objective == pytest.approx(4, abs=2e-3)
    assert held.trajectory.x[:, 0].max() == pytest.approx(1 / 9, abs=1e-7)
    bounded = solved(known.problem(replace(phase, constraints=(), x_upper=(1 / 9, INF))), intervals=60)
    assert bounded.objective == pytest.approx(held.objective, abs=1e-6)
    # without the ceiling x = t (1 - t), which costs 1/2 * 2^2; a soft ceiling lies between, the nearer the heavier it is
    free = solved(known.problem(replace(phase, constraints=())), intervals=60)
    assert free.objective == pytest.approx(2, abs=1e-9)
    soft = [known.problem(replace(phase, constraints=(replace(ceiling, soft=weight),))) for weight in (1e2, 1e6)]
    peaks = [solved(problem, intervals=60).trajectory.x[:, 0].max() for problem in soft]
    assert 1 / 4 > peaks[0] > peaks[1] > 1 / 9
    assert peaks[1] == pytest.approx(1 / 9, abs=2e-3)


def test_cone_constraint_at_the_end():
    """Three integrators go to the point of the cone |(y, z)| <= x - 3 that is nearest to (0, 4, 0)."""
    system = known.flat_system("point", ("x", "y", "z"), ("a", "b", "c"), lambda t, x, u, p: u)

    def fn(f):
        return known.function(3, 3, f)

    nearest = Cost("nearest", At.FINAL, fn(lambda t, x, u, p: x - ca.DM([0, 4, 0])), weights=(2.0, 2.0, 2.0))
    cone = Constraint("cone", At.FINAL, fn(lambda t, x, u, p: x - ca.DM([3, 0, 0])), (-INF,) * 3, (INF,) * 3, Sense.CONE)
    phase = Phase("cone", system, Duration(1.0, 1.0, 1.0), known.line([0, 0, 0], [5, 1, 0.5], 3), known.fixed(0, 0, 0),
                  costs=(nearest,), constraints=(cone,))
    # on the ray (3 + s, s): s = 1/2 of ((0, 4) - (3, 0)) . (1, 1) = 1/2
    found = solved(known.problem(phase), intervals=2)
    np.testing.assert_allclose(found.trajectory.x[-1], [3.5, 0.5, 0], atol=1e-6)
    assert found.objective == pytest.approx(3.5**2 * 2, rel=1e-7)


def test_free_initial_state_and_start_constraint():
    """The start is chosen on the circle a^2 + b^2 = 4, b does not move and a must reach 3: the best start is (2, 0)."""
    system = known.flat_system("drift", ("a", "b"), ("u",), lambda t, x, u, p: ca.vertcat(u, 0))
    circle = Constraint("circle", At.START, known.function(2, 1, lambda t, x, u, p: ca.sumsqr(x)), (4.0,), (4.0,), Sense.EQUAL)
    effort = known.control_effort(2)
    guess = Guess(np.array([0.0, 1.0]), np.array([[1.5, 0.5], [3.0, 0.5]]), np.array([[1.5], [1.5]]))
    phase = Phase("drift", system, Duration(1.0, 1.0, 1.0), guess, final=Boundary((3.0, 0.0), (True, False)),
                  costs=(effort,), constraints=(circle,))
    found = solved(known.problem(phase), intervals=5)
    assert found.objective == pytest.approx(1, abs=1e-9)  # from a = 2 to 3 in one second
    np.testing.assert_allclose(found.trajectory.x[0], [2, 0], atol=1e-4)


# --- failures, in the user's words --------------------------------------------------------------------------

def test_infeasible_problem_names_the_constraint():
    phase = known.block_move().phase
    fence = Constraint("fence", At.PATH, known.function(2, 1, lambda t, x, u, p: x[0]), (-INF,), (0.8,))
    found = by_collocation(known.problem(replace(phase, constraints=(fence,))), CollocationOptions(intervals=10))
    assert found.status is Status.INFEASIBLE
    assert found.ending.kind is Kind.LOCALLY_INFEASIBLE
    program = found.ending.data["program"]  # how that ended
    assert program.kind is Kind.LARGEST_VIOLATION
    assert dict(program.data["violations"])["fence @ knot 10"] == pytest.approx(0.2, rel=1e-3)


def test_not_a_number_names_the_function_and_the_place(capfd):
    phase = known.block_move().phase
    root = Constraint("root", At.PATH, known.function(2, 1, lambda t, x, u, p: ca.sqrt(x[0] - 0.35)), (-INF,), (5.0,))
    found = by_collocation(known.problem(replace(phase, constraints=(root,))), CollocationOptions(intervals=10))
    assert found.status is Status.NOT_A_NUMBER
    (first, *_) = found.ending.data["found"]
    assert (first.kind, first.name, first.time) == (Kind.FUNCTION_NOT_FINITE, "root", 0.0)
    assert np.isnan(first.value)
    assert first.data == {"term": "constraint", "node": "knot 0", "values": {"x": 0.0, "v": 0.0, "u": 0.0}}
    work = Cost("work", At.PATH, known.function(2, 1, lambda t, x, u, p: ca.sqrt(u[0])))
    found = by_collocation(known.problem(replace(phase, costs=(work,))), CollocationOptions(intervals=10))
    assert found.status is Status.NOT_A_NUMBER
    (first, *_) = found.ending.data["found"]
    assert (first.name, first.value) == ("work", np.inf)
    assert [first.data[key] for key in ("term", "by", "node")] == ["cost", "u", "knot 0"]
    system = known.flat_system("block", ("x", "v"), ("u",), lambda t, x, u, p: ca.vertcat(x[1], u[0] / (x[0] - 1)))
    found = by_collocation(known.problem(replace(phase, system=system)), CollocationOptions(intervals=10))
    assert "the rate of v is nan at knot 10" in message(found)
    assert "WARNING" not in "".join(capfd.readouterr())


def test_interrupted_solve_returns_its_iterate():
    def progress(row):
        if row["iteration"] == 5:
            raise KeyboardInterrupt

    found = by_collocation(known.cart_pole(), CollocationOptions(intervals=20), progress)
    assert found.status is Status.INTERRUPTED
    assert len(found.iterations) == 6
    assert np.all(np.isfinite(found.trajectory.x))
    assert np.ptp(found.trajectory.u) > 1
    assert found.objective == pytest.approx(found.iterations[-1]["objective"])


# --- a manifold: attitude of a free rigid body --------------------------------------------------------------

def quaternion_product(a, b):
    w, v = a[0] * b[0] - ca.dot(a[1:], b[1:]), a[0] * b[1:] + b[0] * a[1:] + ca.cross(a[1:], b[1:])
    return ca.vertcat(w, v)


def quaternion_exp(d):
    """Rotation vector to unit quaternion; the series near zero keeps two derivatives."""
    s = ca.sumsqr(d)
    angle = ca.sqrt(ca.if_else(s < 1e-8, 1.0, s))
    scale = ca.if_else(s < 1e-8, 0.5 - s / 48, ca.sin(angle / 2) / angle)
    return ca.vertcat(ca.if_else(s < 1e-8, 1 - s / 8, ca.cos(angle / 2)), scale * d)


def quaternion_log(q):
    """Quaternion of any length to rotation vector of length below pi."""
    q = ca.if_else(q[0] < 0, -q, q)
    s = ca.sumsqr(q[1:])
    n = ca.sqrt(ca.if_else(s < 1e-12, 1.0, s))
    return ca.if_else(s < 1e-12, 2 / q[0], 2 * ca.atan2(n, q[0]) / n) * q[1:]


def attitude_space():
    names = ("qw", "qx", "qy", "qz", "wx", "wy", "wz")

    def rate(x):
        q = x[:4]
        columns = [quaternion_product(q, ca.vertcat(0, *(1.0 if i == j else 0.0 for i in range(3)))) / 2 for j in range(3)]
        return ca.diagcat(ca.horzcat(*columns), ca.DM.eye(3))

    def conjugate(q):
        return ca.vertcat(q[0], -q[1:])

    return Space(
        names=names, tangent_names=("rx", "ry", "rz", "wx", "wy", "wz"),
        plus=lambda x, d: ca.vertcat(quaternion_product(x[:4], quaternion_exp(d[:3])), x[4:] + d[3:]),
        minus=lambda a, b: ca.vertcat(quaternion_log(quaternion_product(conjugate(a[:4]), b[:4])), b[4:] - a[4:]),
        rate=rate, rate_inverse=lambda x: ca.DM(0, 0), jet=lambda x, d: x, neutral=(1.0,) + (0.0,) * 6,
        tangent_index=(-1, -1, -1, -1, 3, 4, 5), quaternions=(0,),
    )


INERTIA = np.array([1.0, 2.0, 3.0])


def slew(turn, start_fixed=True, inertia=INERTIA):
    """From rest to rest through a rotation vector in one second, min 1/2 int |moment|^2; x = (quaternion, body rates)."""
    def rate(t, x, u, p):
        w = x[4:]
        return ca.vertcat(w, (u - ca.cross(w, ca.DM(inertia) * w)) / ca.DM(inertia))

    system = System(name="body", space=attitude_space(), controls=("mx", "my", "mz"), rate=known.function(7, 3, rate))
    angle = np.linalg.norm(turn)
    target = np.array([np.cos(angle / 2), *(np.sin(angle / 2) * np.array(turn) / angle)])
    first, last = (1.0, 0, 0, 0, 0, 0, 0), (*target, 0, 0, 0)
    guess = Guess(np.array([0.0, 1.0]), np.array([first, last]), np.zeros((2, 3)))
    start = Boundary(first, (True,) * 6) if start_fixed else Boundary(first, (False, True, True, True, True, True))
    effort = Cost("effort", At.PATH, known.function(7, 3, lambda t, x, u, p: u), weights=(1.0, 1.0, 1.0))
    return known.problem(Phase("slew", system, Duration(1.0, 1.0, 1.0), guess, start, Boundary(last, (True,) * 6),
                               costs=(effort,)))


def test_slew_about_a_principal_axis_is_the_block_move():
    """Angle phi in one second about an axis with inertia I: half of 12 (I phi)^2."""
    found = solved(slew([0, 0, 2.0]), intervals=20)
    assert found.objective == pytest.approx(12 * (3 * 2.0) ** 2 / 2, rel=1e-6)
    t = np.linspace(0, 1, 9)
    angle = 2 * (3 * t**2 - 2 * t**3)
    expected = np.column_stack([np.cos(angle / 2), np.sin(angle / 2)])
    np.testing.assert_allclose(found.trajectory.state(t)[:, [0, 3]], expected, atol=2e-5)
    np.testing.assert_allclose(np.linalg.norm(found.trajectory.state(t)[:, :4], axis=1), 1, atol=1e-14)


def test_general_slew_reaches_its_attitude_and_keeps_the_norm():
    problem = slew([1.2, -0.8, 0.9])
    objectives, drifts = [], []
    for n in (10, 20, 40):
        found = solved(problem, intervals=n)
        objectives.append(found.objective)
        x = found.optimality.x.reshape(2 * n + 1, 10)
        drifts.append(np.abs(np.linalg.norm(x[:, :4], axis=1) - 1).max())
        last = found.trajectory.x[-1]
        assert np.abs(np.abs(last[:4] @ np.array(problem.phase.final.value[:4])) - 1) < 1e-12
    assert drifts[-1] < 1e-6
    assert drifts[1] / drifts[2] > 8
    assert abs(objectives[1] - objectives[2]) < abs(objectives[0] - objectives[1]) / 8
    # a rotation that costs less than turning about each axis in turn, more than the lightest axis would
    assert 12 * np.dot([1.2, -0.8, 0.9], [1.2, -0.8, 0.9]) / 2 < objectives[-1]


def test_norm_of_a_quaternion_returns_to_one():
    """m = |q|^2 obeys dm/ds = 2 gain (1 - m) m over the fraction s of the phase, a logistic curve, whatever the motion."""
    phase = slew([0, 0, 1.0]).phase
    spin = (1.0, 0, 0, 0, 0.5, 0.3, 4.0)
    guess = Guess(np.array([0.0]), np.array([spin]), np.zeros((1, 3)))
    still = replace(phase, start=Boundary(spin, (True,) * 6), final=None, guess=guess, u_lower=(0.0,) * 3, u_upper=(0.0,) * 3,
                    duration=Duration(1.3, 1.3, 1.3))
    nlp = transcribe(known.problem(still), CollocationOptions(scheme="hermite_simpson")).nlp
    off = [np.array(bound) for bound in (nlp.x_lower, nlp.x_upper)]
    for bound in off:
        bound[0] = 1.2  # the first component of the quaternion at the start
    found = solve_nlp(replace(nlp, x_lower=off[0], x_upper=off[1]), IpoptOptions())
    assert found.status is Status.CONVERGED
    squared = np.sum(found.x.reshape(-1, 10)[:, :4] ** 2, axis=1)
    s = np.linspace(0, 1, 101)
    np.testing.assert_allclose(squared, 1 / (1 + (1 / 1.2**2 - 1) * np.exp(-2 * NORM_GAIN * s)), atol=1e-4)
    assert abs(squared[-1] - 1) < 1e-3


def test_start_attitude_may_be_partly_free():
    """With the angle about x left open at the start, a turn about x costs nothing; rows hold the rest and the norm."""
    problem = slew([0.9, 0, 0], start_fixed=False)
    nlp = transcribe(problem, CollocationOptions(intervals=10)).nlp
    ends = [name for name in nlp.constraints if "defect" not in name]
    assert ends == ["start value of ry", "start value of rz", "unit norm of qw ... @ start",
                    "final value of rx", "final value of ry", "final value of rz"]
    assert nlp.x_lower[nlp.variables.index("x.qw @ knot 0")] == -INF
    assert nlp.x_upper[nlp.variables.index("x.wx @ knot 0")] == 0
    found = solved(problem, intervals=10)
    assert found.objective == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(found.trajectory.x[0], found.trajectory.x[-1], atol=1e-6)
    # guesses between attitudes lie on the manifold: half of the turn is the quaternion of half of the angle
    middle = transcribe(slew([0.9, 0, 0]), CollocationOptions(intervals=1)).nlp.x0[10:14]
    np.testing.assert_allclose(middle, [np.cos(0.225), np.sin(0.225), 0, 0], atol=1e-14)
