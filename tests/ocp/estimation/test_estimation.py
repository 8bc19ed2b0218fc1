"""Estimators against the textbook Kalman filter, against least squares, against each other on a cart-pole; parameters recovered."""

import casadi as ca
import numpy as np
import pytest

from ocp.errors import ProblemError
from ocp.estimation import EstimatedParameter, EstimationModel, KalmanFilter, MovingHorizon, Sensor
from ocp.problem import System
from ocp.spaces import euclidean


def system(names, rate, controls=("u",), parameters=(), values=()):
    t, x, u, p = (ca.SX.sym(n, s) for n, s in (("t", 1), ("x", len(names)), ("u", len(controls)), ("p", len(parameters))))
    return System("plant", euclidean(names), controls, ca.Function("rate", [t, x, u, p], [ca.densify(ca.SX(rate(x, u, p)))]),
                  parameters, values)


def sensor(made, build, deviation, name="sensor"):
    t, x, u, p = (ca.SX.sym(n, s) for n, s in (("t", 1), ("x", made.nx), ("u", made.nu), ("p", made.np)))
    return Sensor(name, ca.Function("seen", [t, x, u, p], [ca.densify(ca.SX(build(x, u, p)))]), tuple(deviation))


SPRING = system(("q", "v"), lambda x, u, p: ca.vertcat(x[1], u - 0.5 * x[0] - 0.1 * x[1]))


def measured(model, x, steps, seed, control, p=None):
    """Controls, measurements and true states of a motion with the noise that the model expects."""
    rng = np.random.default_rng(seed)
    X, u, y = [np.array(x, float)], [None], []
    for k in range(steps):
        if k:
            u.append(np.atleast_1d(control(k * model.period)))
            there = model.at(0.0, X[-1], u[-1])[0]
            X.append(model.plus(there, model.noise * rng.standard_normal(model.space.ndx)))
        seen = model.at(0.0, X[-1], np.zeros(model.system.nu))[2]
        y.append(seen + model.blur * rng.standard_normal(model.outputs))
    return u, y, np.array(X)


# ---- linear and Gaussian ------------------------------------------------------------------------------------------------
def textbook(model, u, y):
    """The Kalman filter with matrices from the exponential's series, and nothing of ours."""
    A0, h = np.array([[0, 1], [-0.5, -0.1]]), model.period
    S, term = np.eye(3), np.eye(3)
    M = np.zeros((3, 3))
    M[:2, :2], M[1, 2] = h * A0, h
    for k in range(1, 5):  # RK4 of a linear system is the series up to the fourth power
        term = term @ M / k
        S = S + term
    A, B = S[:2, :2], S[:2, 2]
    Q, R, H = np.diag(model.noise**2), model.blur[0] ** 2, np.array([[1.0, 0.0]])
    x, P, found = np.zeros(2), np.diag(model.first_deviation**2), []
    for control, one in zip(u, y, strict=True):
        if control is not None:
            x, P = A @ x + B * control[0], A @ P @ A.T + Q
        K = P @ H.T / (H @ P @ H.T + R)
        x, P = x + (K * (one - H @ x)).ravel(), P - K @ H @ P
        found.append(x)
    return np.array(found)


def test_a_linear_gaussian_problem_is_the_kalman_filter_whatever_the_window():
    model = EstimationModel(SPRING, (sensor(SPRING, lambda x, u, p: x[0], (0.1,)),), 0.1, (0.05, 0.3), (1.0, 1.0))
    u, y, truth = measured(model, [0.5, 0.2], 60, 0, lambda t: np.sin(3 * t))
    wanted = textbook(model, u, y)
    one, other = KalmanFilter(model), MovingHorizon(model, window=5)
    for estimator in (one, other):
        for _ in range(2):  # begun anew it does the same
            estimator.reset([0.0, 0.0])
            found = np.array([estimator.step(b, a) for a, b in zip(u, y, strict=True)])
            assert found == pytest.approx(wanted, abs=1e-8)
    assert other.t == one.t == pytest.approx(5.9)
    assert len(other.states) == 6
    assert np.sqrt(np.mean((wanted - truth)[20:, 0] ** 2)) < 0.1  # better than the sensor


def test_the_window_is_a_least_squares_problem_of_all_its_unknowns():
    """Before anything leaves the window: every smoothed state against dense normal equations."""
    model = EstimationModel(SPRING, (sensor(SPRING, lambda x, u, p: x[0], (0.1,)),), 0.1, (0.05, 0.3), (1.0, 2.0))
    u, y, _ = measured(model, [0.5, 0.2], 6, 3, lambda t: 1.0)
    mhe = MovingHorizon(model, window=8)
    mhe.reset([0.1, -0.1])
    for a, b in zip(u, y, strict=True):
        mhe.step(b, a)
    n, rows, right = len(y), [], []
    A = model.at(0.0, np.zeros(2), np.zeros(1))[1]
    B = model.at(0.0, np.zeros(2), np.ones(1))[0]
    for k in range(n):
        row = np.zeros((1, 2 * n))
        row[0, 2 * k] = 1 / 0.1
        rows.append(row)
        right.append(y[k] / 0.1)
        if k:
            row = np.zeros((2, 2 * n))
            row[:, 2 * k:2 * k + 2], row[:, 2 * k - 2:2 * k] = np.eye(2), -A
            rows.append(row / model.noise[:, None])
            right.append(B * u[k][0] / model.noise)
    first = np.zeros((2, 2 * n))
    first[:, :2] = np.diag([1 / 1.0, 1 / 2.0])
    solution = np.linalg.lstsq(np.vstack([*rows, first]), np.concatenate([*right, [0.1, -0.05]]), rcond=None)[0]
    assert mhe.states.ravel() == pytest.approx(solution, abs=1e-8)


# ---- a cart-pole --------------------------------------------------------------------------------------------------------
def cartpole(x, u, p):
    m1, m2, length, g = 1.0, p[0], 0.5, 9.81
    theta, v, omega = x[1], x[2], x[3]
    s, c = ca.sin(theta), ca.cos(theta)
    return ca.vertcat(v, omega, (length * m2 * s * omega**2 + u + m2 * g * c * s) / (m1 + m2 * (1 - c**2)),
                      -(length * m2 * c * s * omega**2 + u * c + (m1 + m2) * g * s) / (length * m1 + length * m2 * (1 - c**2)))


CART = system(("x", "theta", "v", "omega"), cartpole, parameters=("m2",), values=(0.3,))
SEEN = sensor(CART, lambda x, u, p: ca.vertcat(x[0], ca.sin(x[1]), ca.cos(x[1])), (0.02, 0.1, 0.1))


def errors(estimators, model, start, u, y, truth):
    found = []
    for estimator in estimators:
        estimator.reset(start)
        estimates = np.array([estimator.step(b, a) for a, b in zip(u, y, strict=True)])
        found.append(float(np.sqrt(np.mean(((estimates - truth)[10:, :4] / [0.02, 0.1, 0.1, 0.5]) ** 2))))
    return found


def test_a_swinging_cart_pole_is_estimated_at_least_as_well_as_by_the_extended_kalman_filter():
    """A pole that turns over, a start half a turn off, noisy sensors without rates; eight motions."""
    model = EstimationModel(CART, (SEEN,), 0.05, (0.01, 0.01, 0.2, 0.4), (0.5, 2.0, 0.5, 3.0))
    both, total = (KalmanFilter(model), MovingHorizon(model, window=10, iterations=3)), np.zeros(2)
    for seed in range(8):
        rng = np.random.default_rng(100 + seed)
        begin = [0.0, rng.uniform(-3, 3), 0.0, rng.uniform(-4, 4)]
        u, y, truth = measured(model, begin, 80, seed, lambda t: 5 * np.sin(2 * t))
        total += errors(both, model, [0.0, 0.0, 0.0, 0.0], u, y, truth)
    kalman, moving = total / 8
    assert moving <= kalman
    assert moving < 1.0  # within what the sensors tell


def test_a_payload_is_recovered():
    """The pole's mass twice that of the model: its estimate ends near, within its bounds all the way."""
    model = EstimationModel(CART, (SEEN,), 0.05, (1e-3, 1e-3, 0.02, 0.02), (0.1, 0.2, 0.1, 0.1),
                            (EstimatedParameter("m2", 0.4, 0.01, 0.05, 2.0),))
    other = system(("x", "theta", "v", "omega"), cartpole, parameters=("m2",), values=(0.6,))
    heavy = EstimationModel(other, (SEEN,), 0.05, model.process, model.initial)
    u, y, truth = measured(heavy, [0.0, 2.5, 0.0, 0.0], 160, 5, lambda t: 8 * np.sin(3 * t))
    for estimator in (KalmanFilter(model), MovingHorizon(model, window=15, iterations=3)):
        estimator.reset(truth[0] + [0.05, 0.1, 0.0, 0.0])
        found = np.array([estimator.step(b, a)[4] for a, b in zip(u, y, strict=True)])
        assert found[0] == pytest.approx(0.3, abs=0.05)
        assert found[-1] == pytest.approx(0.6, abs=0.06)
    assert found.min() > 0.05


def test_bounds_hold_where_noise_pulls_beyond_them():
    """A level that cannot fall below empty, seen through large noise: the filter believes in negative levels, the window does
    not."""
    tank = system(("level",), lambda x, u, p: u - 0.2 * x)
    model = EstimationModel(tank, (sensor(tank, lambda x, u, p: x, (0.5,)),), 0.2, (0.1,), (1.0,))
    u, y, _ = measured(model, [0.0], 60, 2, lambda t: 0.0)
    found = []
    for estimator in (KalmanFilter(model), MovingHorizon(model, 8, 3, state_bounds=([0.0], [np.inf]))):
        estimator.reset([0.2])
        found.append(np.array([estimator.step(b, a)[0] for a, b in zip(u, y, strict=True)]))
    assert found[0].min() < -0.02
    assert found[1].min() > -1e-3


def test_mistakes_are_named():
    seen = sensor(SPRING, lambda x, u, p: x[0], (0.1,))
    for change, words in (({"sensors": ()}, "nothing is measured"), ({"process": (1.0,)}, "process needs 2 standard deviations"),
                          ({"initial": (1.0, -1.0)}, "initial needs 2"), ({"period": 0.0}, "period must be positive"),
                          ({"parameters": (EstimatedParameter("m", 1.0),)}, "no parameter named 'm'"),
                          ({"sensors": (Sensor("s", seen.function, (0.0,)),)}, "needs 1 positive")):
        given = {"system": SPRING, "sensors": (seen,), "period": 0.1, "process": (0.1, 0.1), "initial": (1.0, 1.0), **change}
        with pytest.raises(ProblemError, match=words):
            EstimationModel(**given)
    model = EstimationModel(SPRING, (seen,), 0.1, (0.1, 0.1), (1.0, 1.0))
    with pytest.raises(ProblemError, match="window and iterations"):
        MovingHorizon(model, window=0)
    with pytest.raises(ProblemError, match="the first measurement comes without a control"):
        MovingHorizon(model, window=2).step(np.zeros(1), np.zeros(1))
