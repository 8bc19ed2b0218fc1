"""Laws in joint space: what they do to a robot whose motion other algorithms compute."""

import numpy as np
import pytest
from cascade import solve_cascade

import dynamics
from dynamics.model.synthetic import random_tree
from dynamics.notation.textbook_robots import planar_arm
from ocp.control.notation.joint_space import joint_space
from ocp.control.notation.task_space import Gains
from ocp.errors import ProblemError
from ocp.solvers.hqp import Level, solve_hqp


def branching(seed=0, root=None):
    """A tree of mixed joints, spherical ones among them."""
    return random_tree(6, np.random.default_rng(seed), root=root, branching=0.5, damping=True,
                       kinds=["revolute", "prismatic", "spherical", "universal"])


def settled(model, law, q, seconds=4.0, dt=1e-3):
    """Where the robot comes to rest under tau = law(q, v); accelerations by the articulated-body algorithm."""
    forward, plus, v = dynamics.make(model, "forward_dynamics"), dynamics.make(model, "integrate"), np.zeros(model.nv)
    for _ in range(int(seconds / dt)):
        v = v + dt * np.array(forward(q, v, law(q, v))).ravel()
        q = np.array(plus(q, dt * v)).ravel()
    assert np.abs(v).max() < 1e-3
    return q


@pytest.fixture(scope="module")
def spring_arm():
    """An arm of three links, a target, and gains that overdamp it."""
    model = planar_arm((0.4, 0.4, 0.4), density=2.0)
    return model, np.array([0.4, 0.5, -0.3]), Gains(30.0, 6.0)


@pytest.mark.row("001:C01")
def test_impedance_gives_way_until_it_carries_the_weight(spring_arm):
    model, target, gains = spring_arm
    control, gravity = joint_space(model), dynamics.make(model, "gravity_force")
    q = settled(model, lambda q, v: control.impedance(gains, q, v, target), target.copy())
    g = np.array(gravity(q)).ravel()
    assert np.abs(g).max() > 0.3
    np.testing.assert_allclose(g, gains.stiffness * (target - q), atol=2e-3 * np.abs(g).max())


@pytest.mark.row("001:C01")
@pytest.mark.parametrize("seed", range(2))
def test_impedance_on_any_joint_is_a_spring_along_the_manifold(seed):
    """Also on spherical joints and floating bases: one unit of the motion that it pushes along leads to the target."""
    model, rng = branching(seed, "free_flyer" if seed else None), np.random.default_rng(seed)
    control = joint_space(model)
    minus, plus = dynamics.make(model, "difference"), dynamics.make(model, "integrate")
    target = np.array(dynamics.algorithms.random_configuration(model, rng)).ravel()
    d, v = 0.3 * rng.standard_normal(model.nv), rng.standard_normal(model.nv)
    q = np.array(plus(target, d)).ravel()
    at_rest = control.impedance(Gains(7.0, 3.0), q, 0 * v, target)
    np.testing.assert_allclose(control.impedance(Gains(7.0, 3.0), q, v, target, 0.2 * v), at_rest - 3.0 * 0.8 * v, atol=1e-12)
    move = at_rest / 7.0
    np.testing.assert_allclose(np.array(minus(target, np.array(plus(q, move)).ravel())).ravel(), 0, atol=1e-9)


@pytest.mark.row("001:C02")
def test_gravity_compensation_leaves_no_error_unless_the_model_is_wrong(spring_arm):
    model, target, gains = spring_arm
    control = joint_space(model)
    q = settled(model, lambda q, v: control.compensated(gains, q, v, target), target - 0.2)
    np.testing.assert_allclose(q, target, atol=1e-4)
    lighter = joint_space(planar_arm((0.4, 0.4, 0.4), density=1.4))
    q = settled(model, lambda q, v: lighter.compensated(gains, q, v, target), target.copy())
    missing = 0.3 * np.array(dynamics.make(model, "gravity_force")(q)).ravel()  # g is linear in the density
    assert np.abs(q - target).max() > 5e-3
    np.testing.assert_allclose(gains.stiffness * (target - q), missing, atol=5e-3 * np.abs(missing).max())


@pytest.mark.row("001:C03")
@pytest.mark.parametrize("root", [None, "free_flyer"])
def test_computed_torque_gives_the_acceleration(root):
    """On branching trees of every kind, by the articulated-body algorithm."""
    for seed in range(3):
        model, rng = branching(10 + seed, root), np.random.default_rng(seed)
        q, target = (np.array(dynamics.algorithms.random_configuration(model, rng)).ravel() for _ in range(2))
        v, speed, push = (rng.standard_normal(model.nv) for _ in range(3))
        gains = Gains(30.0, 4.0)
        tau = joint_space(model).computed_torque(gains, q, v, target, speed, push)
        a = np.array(dynamics.make(model, "forward_dynamics")(q, v, tau)).ravel()
        error = np.array(dynamics.make(model, "difference")(q, target)).ravel()
        np.testing.assert_allclose(a, push + 30.0 * error + 4.0 * (speed - v), rtol=1e-8, atol=1e-8)


@pytest.mark.row("001:C04")
@pytest.mark.parametrize("ratio", [0.3, 1.0])
def test_frequency_and_damping_are_those_of_every_joint(ratio):
    """A moving arm under computed torque swings in each joint as the linear oscillator of these gains does."""
    gains = Gains.tuned(1.5, ratio)
    model, target = planar_arm((0.4, 0.3, 0.2)), np.array([0.5, -0.4, 0.9])
    control, forward = joint_space(model), dynamics.make(model, "forward_dynamics")
    error = np.array([0.3, -0.5, 0.2])
    q, v, dt, omega = target - error, np.zeros(3), 1e-3, 3 * np.pi

    def rate(x):
        tau = control.computed_torque(gains, x[:3], x[3:], target)
        return np.r_[x[3:], np.array(forward(x[:3], x[3:], tau)).ravel()]

    x = np.r_[q, v]
    for k in range(1, 501):
        k1 = rate(x)
        k2 = rate(x + dt / 2 * k1)
        k3 = rate(x + dt / 2 * k2)
        x = x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + rate(x + dt * k3))
        if k % 100 == 0:
            t = k * dt
            if ratio == 1.0:
                shape = (1 + omega * t) * np.exp(-omega * t)  # never beyond the target
            else:
                swing = omega * np.sqrt(1 - ratio**2)
                shape = np.exp(-ratio * omega * t) * (np.cos(swing * t) + ratio * omega / swing * np.sin(swing * t))
            np.testing.assert_allclose(target - x[:3], shape * error, atol=1e-8)


@pytest.mark.row("001:C04")
def test_three_hertz():
    gains = Gains.tuned(3.0)
    assert gains.stiffness == pytest.approx((2 * np.pi * 3) ** 2) == pytest.approx(355.3057584)
    assert gains.damping == pytest.approx(37.69911184)
    assert Gains(350.0, 37.0).frequency == pytest.approx(2.978, abs=1e-3)  # the rounded gains of the notes
    assert Gains(350.0, 37.0).damping_ratio == pytest.approx(0.989, abs=1e-3)
    with pytest.raises(ProblemError, match="frequency"):
        Gains.tuned(0.0)
    with pytest.raises(ProblemError, match="negative"):
        Gains(-1.0, 0.0)


@pytest.mark.row("001:C26")
@pytest.mark.parametrize("solve", [solve_hqp, solve_cascade])
def test_two_levels_are_computed_torque(solve):
    """Equations of motion above a wanted acceleration, x = (a, tau), on a fixed base: tau is that of Eq. 3.76."""
    model, rng = branching(3), np.random.default_rng(3)
    q, (v, wanted) = dynamics.algorithms.random_configuration(model, rng), rng.standard_normal((2, model.nv))
    M, h = np.array(dynamics.make(model, "mass_matrix")(q)), np.array(dynamics.make(model, "bias_force")(q, v)).ravel()
    eye, none = np.eye(model.nv), np.zeros((model.nv, model.nv))
    answer = solve([Level("equations", np.hstack([M, -eye]), -h), Level("motion", np.hstack([eye, none]), wanted)])
    tau = joint_space(model).computed_torque(Gains(0.0, 0.0), q, v, q, v, wanted)
    np.testing.assert_allclose(answer.x[model.nv:], tau, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(answer.x[:model.nv], wanted, atol=1e-10)
