"""Re-integration of stiff systems: closed forms, another implicit method, and how much work it is."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import control_problems as known
import numpy as np
import pytest
from control_problems import fixed, function
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from ocp.certify import dynamics, stiff
from ocp.certify.motion import Motion
from ocp.methods import solve
from ocp.problem import At, Cost, Kind, Trajectory
from ocp.thresholds import REINTEGRATION

RATES = (1e3, 1e4, 1e6, 1e8)


def relaxation(rate, off=0.0, wrong=0.0, intervals=40, end=2.0):
    """x' = -rate (x - cos t) - sin t, y' = x in closed form: x = cos t + off exp(-rate t); ``wrong`` bends the slow motion."""
    system = known.flat_system("relaxation", ("x", "y"), ("u",), lambda t, x, u, p: ca.vertcat(
        -rate * (x[0] - ca.cos(t)) - ca.sin(t) + 0 * u[0], x[0]))

    def state(t):
        t = np.asarray(t, float)
        fast = off * np.exp(-rate * t)
        return np.stack([np.cos(t) + fast, np.sin(t) + (off - fast) / rate + wrong * t**2], axis=-1)

    knots = np.linspace(0, end, intervals + 1)
    path = Trajectory(knots, state(knots), np.zeros((intervals, 1)), knots[:-1], state, lambda t: np.zeros((*np.shape(t), 1)))
    return Motion(replace(known.block_move().phase, system=system), path)


def counted(monkeypatch):
    """Evaluations of the right side at one point, counted."""
    calls = [0, 0]
    field, jacobian = dynamics._Again.field, dynamics._Again.jacobian

    def count(which, function):
        def run(self, rows, *at):
            calls[which] += len(rows)
            return function(self, rows, *at)
        return run

    monkeypatch.setattr(dynamics._Again, "field", count(0, field))
    monkeypatch.setattr(dynamics._Again, "jacobian", count(1, jacobian))
    return calls


@pytest.mark.parametrize("off", [0.0, 1.0], ids=["slow", "transient"])
@pytest.mark.parametrize("rate", RATES)
def test_a_true_motion_has_no_gap(rate, off, monkeypatch):
    """However stiff: gaps as small as those of the explicit method where it can go, and work that does not grow."""
    calls = counted(monkeypatch)
    found = dynamics.gaps(relaxation(rate, off))
    assert found.implicit
    assert found.segment < 1e-9
    assert found.total < 1e-9
    explicit = REINTEGRATION.explicit_calls * 40
    assert calls[0] < 2 * (explicit + 30_000)  # every segment twice: the motion, and a deviation that shows how errors grow
    assert calls[1] < 30_000


def test_the_explicit_method_serves_where_nothing_is_stiff(monkeypatch):
    calls = counted(monkeypatch)
    found = dynamics.gaps(relaxation(1.0, 1.0))
    assert not found.implicit
    assert found.total < 1e-11
    assert calls[1] == 0


@pytest.mark.parametrize("rate", RATES)
def test_a_false_motion_is_seen_as_well(rate):
    """A slow component that is off by 1e-3 t^2, and a fast one that is off at one knot."""
    bent = dynamics.gaps(relaxation(rate, wrong=1e-3))
    h, scale = 2.0 / 40, np.ptp(np.sin(np.linspace(0, 2, 41)) + 1e-3 * np.linspace(0, 2, 41) ** 2)
    assert bent.implicit
    assert bent.total == pytest.approx(4e-3 / scale, rel=5e-3)
    assert bent.segment == pytest.approx(1e-3 * (4 - (2 - h) ** 2) / scale, rel=1e-3)
    true = relaxation(rate)
    x = true.trajectory.x.copy()
    x[17, 0] += 0.01
    moved = Motion(true.phase, replace(true.trajectory, x=x))
    found = dynamics.gaps(moved)
    assert found.by_segment[16] == pytest.approx(0.01 / true.scale[0], rel=1e-6)
    assert np.delete(found.by_segment, [16, 17]).max() < 1e-9


def test_rows_with_steps_of_their_own_agree_with_the_matrix_exponential():
    """Linear systems of very different stiffness side by side, with complex and real eigenvalues."""
    rng = np.random.default_rng(3)
    matrices = []
    for size in (1.0, 30.0, 1e3, 1e5):
        V = rng.normal(size=(3, 3))
        matrices.append(V @ np.array([[-size, 2 * size, 0], [-2 * size, -size, 0], [0, 0, -0.5]]) @ np.linalg.inv(V))
    M, y = np.array(matrices), rng.normal(size=(4, 3))
    found = stiff.integrate(lambda i, s, y: np.einsum("kab,kb->ka", M[i], y), lambda i, s, y: M[i], y, 1e-10, 1e-12)
    expected = np.array([expm(m) @ v for m, v in zip(M, y, strict=True)])
    np.testing.assert_allclose(found, expected, atol=2e-9)


def test_derivatives_of_the_ends_agree_with_the_matrix_exponential_and_with_differences():
    M = np.array([[[-1e4, 3.0], [2.0, -0.5]], [[0.0, 1.0], [-4.0, -0.1]]])
    end, slopes = stiff.grown(lambda i, s, y: np.einsum("kab,kb->ka", M[i], y), lambda i, s, y: M[i], np.ones((2, 2)), 1e-6, 1e-8)
    np.testing.assert_allclose(slopes, [expm(m) for m in M], atol=1e-6)
    np.testing.assert_allclose(end, [expm(m) @ np.ones(2) for m in M], atol=1e-5)

    def field(i, s, y):
        return np.stack([-200 * (y[:, 0] ** 3 - np.cos(3 * s)) + y[:, 1], y[:, 0] * y[:, 1]], axis=1)

    def slope(i, s, y):
        rows = [[-600 * y[:, 0] ** 2, np.ones(len(y))], [y[:, 1], y[:, 0]]]
        return np.stack([np.stack(row, axis=1) for row in rows], axis=1)

    start, step = np.array([[1.3, 0.4]]), 1e-5
    _, found = stiff.grown(field, slope, start, 1e-9, 1e-11)
    for k in range(2):
        moved = [stiff.integrate(field, slope, start + sign * step * np.eye(2)[k], 1e-12, 1e-13) for sign in (1, -1)]
        np.testing.assert_allclose(found[0][:, k], (moved[0] - moved[1])[0] / (2 * step), atol=1e-5)


def test_errors_grow_along_stiff_motions_as_their_derivatives_tell():
    """y' = a y beside a fast component, and a break on the way: the largest growth is exp(2 a)."""
    a = 1.7
    system = known.flat_system("growing", ("x", "y"), ("u",), lambda t, x, u, p: ca.vertcat(
        -1e5 * (x[0] - ca.cos(t)) - ca.sin(t) + 0 * u[0], a * x[1] + 1e-3 * ca.fabs(t - 0.777)))
    knots = np.linspace(0, 2, 21)
    exact = solve_ivp(lambda t, y: a * y + 1e-3 * abs(t - 0.777), (0, 2), [1.0], rtol=1e-12, atol=1e-13, max_step=0.01,
                      dense_output=True)

    def state(t):
        y = exact.sol(np.atleast_1d(np.asarray(t, float)))[0].reshape(np.shape(t))
        return np.stack([np.cos(t), y], axis=-1)

    path = Trajectory(knots, state(knots), np.zeros((20, 1)), knots[:-1], state, lambda t: np.zeros((*np.shape(t), 1)))
    found = dynamics.gaps(Motion(replace(known.block_move().phase, system=system), path))
    assert found.implicit
    assert found.growth == pytest.approx(np.exp(2 * a), rel=1e-3)


def test_a_nonlinear_oscillator_agrees_with_another_implicit_method():
    """Van der Pol with mu = 1000 (Hairer and Wanner II, IV.10), over a stretch with a jump."""
    mu, length = 1e3, 1200.0

    def field(i, s, y):
        return length * np.stack([y[:, 1], mu * (1 - y[:, 0] ** 2) * y[:, 1] - y[:, 0]], axis=1)

    def slope(i, s, y):
        one = np.zeros(len(y))
        second = np.stack([-2 * mu * y[:, 0] * y[:, 1] - 1, mu * (1 - y[:, 0] ** 2)], axis=1)
        return length * np.stack([np.stack([one, one + 1], axis=1), second], axis=1)

    start = np.array([[2.0, 0.0]])
    found = stiff.integrate(field, slope, start, 1e-9, 1e-11)
    other = solve_ivp(lambda t, y: field(0, t, y[None])[0], (0, 1), start[0], method="Radau", rtol=1e-9, atol=1e-12,
                      jac=lambda t, y: slope(0, t, y[None])[0])
    np.testing.assert_allclose(found[0], other.y[:, -1], atol=1e-6)


def test_the_order_is_nine():
    """One pendulum-like equation, whole steps without error control: 2^9 per halving."""
    def field(i, s, y):
        return 4 * np.stack([y[:, 1], -np.sin(y[:, 0])], axis=1)

    def slope(i, s, y):
        J = np.zeros((len(y), 2, 2))
        J[:, 0, 1], J[:, 1, 0] = 4, -4 * np.cos(y[:, 0])
        return J

    exact = solve_ivp(lambda t, y: field(0, t, y[None])[0], (0, 1), [1.0, 0.5], method="DOP853", rtol=1e-13, atol=1e-14).y[:, -1]
    errors = []
    for steps in (4, 8):
        y = np.array([[1.0, 0.5]])
        for k in range(steps):
            z, good = stiff._step(field, slope, np.zeros(1, dtype=int), np.array([k / steps]), np.array([1 / steps]), y,
                                  np.zeros((1, stiff.STAGES, 2)), np.full((1, 2), 1e-12))
            assert good.all()
            y = y + z[:, -1]
        errors.append(np.abs(y[0] - exact).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(9, abs=0.7)


def test_what_cannot_be_integrated_is_none():
    """y' = y^2 from 2 is infinite at s = 1/2."""
    def field(i, s, y):
        return y**2

    def slope(i, s, y):
        return 2 * y[:, :, None]

    assert stiff.integrate(field, slope, np.array([[2.0]]), 1e-10, 1e-12) is None
    assert stiff.integrate(field, slope, np.array([[0.5]]), 1e-10, 1e-12)[0, 0] == pytest.approx(1, rel=1e-9)


def test_a_solution_of_a_stiff_problem_is_certified():
    """A valve that follows its command at a rate of 1e4: solved by an L-stable scheme, certified by an implicit re-integration."""
    system = known.flat_system("valve", ("valve", "level"), ("command",), lambda t, x, u, p: ca.vertcat(
        1e4 * (u[0] - x[0]), x[0] - 0.5 * x[1]))
    effort = Cost("effort", At.PATH, function(2, 1, lambda t, x, u, p: u[0] ** 2 + x[1] ** 2))
    problem = known.problem(replace(known.block_move().phase, system=system, start=fixed(0, 1), costs=(effort,),
                                    final=replace(fixed(0, 0.2), fixed=(False, True))))
    solution = solve(problem, "collocation", {"scheme": "radau", "degree": 3, "intervals": 30})
    assert Kind.STIFF in [one.kind for one in solution.findings]
    certificate = solution.certificate
    assert certificate.gap_total.holds
    assert 0 < certificate.gap_total.value < 1e-2
    assert np.isfinite(certificate.gap_segment.value)
    assert certificate.objective.holds


@pytest.mark.parametrize("rate", [1.0, -1e5], ids=["explicit", "implicit"])
def test_segments_are_integrated_in_the_pieces_between_breaks_of_the_rates(rate):
    """x' = x + sign(sin 2 pi t / 0.3), beside a stiff component: no, one or several breaks in a segment, exponentials between. The
    cost breaks elsewhere, which is none of the dynamics' business."""
    system = known.flat_system("switched", ("x", "y"), ("u",), lambda t, x, u, p: ca.vertcat(
        x[0] + ca.sign(ca.sin(2 * np.pi * t / 0.3)) + 0 * u[0], rate * (x[1] - ca.cos(t)) - ca.sin(t)))
    ends = [0.0]
    for k in range(10):
        ends.append(ends[-1] * np.exp(0.15) + (-1) ** k * np.expm1(0.15))

    def state(t):
        k = np.clip((np.asarray(t) / 0.15).astype(int), 0, 9)
        s = np.asarray(t) - 0.15 * k
        x = np.asarray(ends)[k] * np.exp(s) + np.where(k % 2, -1, 1) * np.expm1(s)
        return np.stack([x, np.cos(t)], axis=-1)

    t = np.array([0.0, 0.1, 0.2, 0.5, 1.1, 1.2, 1.5])
    cost = Cost("cost", At.PATH, function(2, 1, lambda t, x, u, p: ca.fabs(ca.sin(100 * t))))
    phase = replace(known.block_move(1.5).phase, system=system, start=None, final=None, costs=(cost,))
    path = Trajectory(t, state(t), np.zeros((6, 1)), t[:-1], state, lambda t: np.zeros((*np.shape(t), 1)))
    motion = Motion(phase, path)
    np.testing.assert_allclose(motion.look.rate_breaks[-9:], 0.15 * np.arange(1, 10), atol=1e-9)
    assert len(motion.look.breaks) - len(motion.look.rate_breaks) == 47
    found = dynamics.gaps(motion)
    assert found.implicit == (rate < -1e4)
    np.testing.assert_allclose(found.ends, state(t[1:]), atol=1e-6)
    assert found.growth == pytest.approx(np.exp(1.5), rel=1e-3)
