"""Motions with known invariants: free fall, torque-free spin, and the order of an integrator's energy drift."""

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ellipj
from states import free_body

import dynamics
from dynamics import algorithms as alg
from dynamics.model import BodyInertia
from dynamics.model.synthetic import random_tree, serial_chain


def motion(model, q0, v0, duration, rtol=1e-11):
    """Unforced motion by a high-order integrator in coordinates, dq/dt = N v."""
    q, v = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
    rate = ca.vertcat(alg.rate_matrix(model, q) @ v, alg.forward_dynamics(model, q, v, ca.DM(model.nv, 1)))
    field = ca.Function("f", [q, v], [rate])
    flow = solve_ivp(lambda t, y: np.array(field(y[:model.nq], y[model.nq:])).ravel(), (0, duration), np.r_[q0, v0],
                     method="DOP853", rtol=rtol, atol=1e-13)
    return flow.y[:model.nq, -1], flow.y[model.nq:, -1]


def test_free_fall_is_a_parabola_and_keeps_the_spin():
    com = (0.1, -0.2, 0.3)
    model = free_body(BodyInertia(2.0, com, ((0.3, 0.0, 0.0), (0.0, 0.3, 0.0), (0.0, 0.0, 0.3))), (0.0, 0.0, -9.81))
    q0 = alg.neutral(model)
    v0 = np.array([1.0, 2.0, 3.0, 0.4, -0.5, 0.6])
    T = 1.3
    q, v = motion(model, q0, v0, T)
    c0, c = (np.array(dynamics.make(model, "centre_of_mass")(x)).ravel() for x in (q0, q))
    speed = v0[:3] + np.cross(v0[3:], com)
    np.testing.assert_allclose(c, c0 + speed * T + np.array([0, 0, -9.81]) * T**2 / 2, atol=1e-9)
    # a ball keeps its angular velocity in the world, hence also its magnitude in the body
    np.testing.assert_allclose(np.linalg.norm(v[3:]), np.linalg.norm(v0[3:]), atol=1e-10)


def test_torque_free_spin_follows_jacobis_elliptic_functions():
    """Euler's equations of an asymmetric top: closed form with sn, cn, dn (Landau and Lifshitz, Mechanics, section 37)."""
    I1, I2, I3 = 1.0, 2.0, 3.5
    model = free_body(BodyInertia(1.0, (0.0, 0.0, 0.0), ((I1, 0.0, 0.0), (0.0, I2, 0.0), (0.0, 0.0, I3))))
    w = np.array([0.4, 0.0, 1.0])
    E2, M2 = I1 * w[0] ** 2 + I3 * w[2] ** 2, (I1 * w[0]) ** 2 + (I3 * w[2]) ** 2
    assert M2 > E2 * I2  # rotation about the axis of largest inertia
    k2 = (I2 - I1) * (E2 * I3 - M2) / ((I3 - I2) * (M2 - E2 * I1))
    rate = np.sqrt((I3 - I2) * (M2 - E2 * I1) / (I1 * I2 * I3))
    T = 2.7
    sn, cn, dn, _ = ellipj(rate * T, k2)
    expected = [np.sqrt((E2 * I3 - M2) / (I1 * (I3 - I1))) * cn, np.sqrt((E2 * I3 - M2) / (I2 * (I3 - I2))) * sn,
                np.sqrt((M2 - E2 * I1) / (I3 * (I3 - I1))) * dn]
    q, v = motion(model, alg.neutral(model), np.r_[0, 0, 0, w], T)
    np.testing.assert_allclose(v[3:], expected, atol=1e-9)
    momentum = [np.array(dynamics.make(model, "momentum")(*s)).ravel() for s in ((alg.neutral(model), np.r_[0, 0, 0, w]), (q, v))]
    np.testing.assert_allclose(momentum[1], momentum[0], atol=1e-9)


@pytest.mark.parametrize("seed", range(2))
def test_unforced_tree_conserves_energy_and_momentum(seed):
    rng = np.random.default_rng(seed)
    model = random_tree(4, rng, root="free_flyer", armature=False)
    from dataclasses import replace

    model = replace(model, gravity=(0.0, 0.0, 0.0))
    q0, v0 = alg.random_configuration(model, rng), 0.5 * rng.standard_normal(model.nv)
    q, v = motion(model, q0, v0, 0.8)
    energy = dynamics.make(model, "kinetic_energy")
    assert float(energy(q, v)) == pytest.approx(float(energy(q0, v0)), rel=1e-8)
    momentum = dynamics.make(model, "momentum")
    np.testing.assert_allclose(np.array(momentum(q, v)), np.array(momentum(q0, v0)), atol=1e-8)


@pytest.mark.parametrize(("name", "order"), [("euler", 1), ("midpoint", 2), ("rk4", 4)])
def test_energy_drift_has_the_order_of_the_integrator(name, order):
    from ocp.bridge import robot_system
    from ocp.integrators import INTEGRATORS

    model = serial_chain(3)
    system = robot_system(model)
    x, u, h = ca.SX.sym("x", system.nx), ca.SX.sym("u", system.nu), ca.SX.sym("h")
    step = ca.Function("step", [x, u, h], [INTEGRATORS[name].step(system, ca.SX(0), x, u, ca.SX(0, 1), h)])
    x0 = np.r_[0.3, 0.5, -0.2, 0.4, -0.3, 0.6]

    def drift(steps):
        state = x0
        for _ in range(steps):
            state = np.array(step(state, np.zeros(system.nu), 0.4 / steps)).ravel()
        E = [float(system.energy(0, s, np.zeros(system.nu), [])) for s in (x0, state)]
        return abs(E[1] - E[0])

    coarse, fine = drift(100), drift(200)
    assert np.log2(coarse / fine) == pytest.approx(order, abs=0.35)
