"""Projected Newton-Euler equations and contact equations: against the recursions, energies and textbook impacts."""

import casadi as ca
import numpy as np
import pytest
from numerical_symbols import NumericalSymbols
from row_trees import coupled, numbers, state, tree_of

import dynamics
from dynamics import algorithms as alg
from dynamics.algorithms import contact_kinematics, floating_base, jacobians
from dynamics.algorithms.contact_kinematics import Contact
from dynamics.errors import ModelError
from dynamics.model import BodyInertia, Builder, Joint
from dynamics.model.synthetic import random_tree
from dynamics.notation import contact_equations as equations
from dynamics.notation import moving_base
from dynamics.notation import projected_newton_euler as pne
from dynamics.notation import textbook_robots as textbook

FLOATING = [
    pytest.param(textbook.quadruped(), id="quadruped"),
    pytest.param(random_tree(5, np.random.default_rng(2), root="free_flyer", damping=True), id="tree"),
    pytest.param(coupled(3), id="mimic"),
]
MODELS = [*FLOATING, pytest.param(tree_of("universal", "spherical", "prismatic", "planar", seed=1, branching=0.5), id="fixed"),
          pytest.param(random_tree(4, np.random.default_rng(3), kinds=["revolute"], damping=True), id="arm")]


def made(model, name, *args):
    out = np.array(dynamics.make(model, name)(*args))
    return out.ravel() if out.shape[1] == 1 else out


# ---------------------------------------------------------------------------------------------- M, g, f
@pytest.mark.row("000:K-167")
@pytest.mark.parametrize("model", MODELS)
def test_mass_matrix(model):
    """The projected mass matrix is that of the composite-rigid-body algorithm, symmetric positive definite, and holds the
    kinetic energies of all bodies."""
    q, v, _ = state(model)
    M = numbers(pne.mass_matrix, model, q)
    np.testing.assert_allclose(M, made(model, "mass_matrix", q), atol=1e-12 * np.abs(M).max())
    np.testing.assert_allclose(M, M.T, atol=1e-13 * np.abs(M).max())
    assert np.linalg.eigvalsh(M).min() > 0
    energy = sum(float(ca.DM(e)) for e in pne.body_kinetic_energies(model, q, v).values())
    rotors = sum(x * v[model.v_slice(i)][k] ** 2 for i, b in enumerate(model.bodies) for k, x in enumerate(b.joint.armature))
    assert v @ M @ v / 2 == pytest.approx(energy + rotors / 2, rel=1e-12)


@pytest.mark.row("000:K-167", "000:K-168", "000:K-174", "000:K-175")
@pytest.mark.parametrize("model", FLOATING)
def test_equations_in_another_velocity(model):
    """M = B^T M_bar B, h = B^T h_bar - B^T M_bar dB/dt u, W = B^T W_bar: the same motion from either velocity.

    Three roads to the hybrid M and h: projected with the hybrid Jacobians, the equations of this package transformed, and the
    accelerations they give.
    """
    q, v, tau = state(model, 4)
    B, B_rate = (numbers(floating_base.body_from_hybrid, model, q), numbers(floating_base.body_from_hybrid_rate, model, q, v))
    u = numbers(floating_base.hybrid_from_body, model, q) @ v
    M_bar, M = numbers(pne.mass_matrix, model, q), numbers(pne.mass_matrix, model, q, "hybrid")
    h_bar = numbers(lambda m, x, w, t: pne.combined_force(m, x, w, (), t), model, q, v, tau)
    h = numbers(lambda m, x, w, t: pne.combined_force(m, x, w, (), t, "hybrid"), model, q, u, tau)
    np.testing.assert_allclose(M, B.T @ M_bar @ B, atol=1e-11 * np.abs(M).max())
    np.testing.assert_allclose(h, B.T @ h_bar - B.T @ M_bar @ B_rate @ u, atol=1e-11 * (1 + np.abs(h).max()))
    # the package's transformation has the opposite sign of h
    M_t, h_t = moving_base.transform_dynamics(ca.DM(M_bar), ca.DM(-h_bar), ca.DM(B), ca.DM(B_rate), u)
    np.testing.assert_allclose(np.array(M_t), M, atol=1e-11 * np.abs(M).max())
    np.testing.assert_allclose(-np.array(h_t).ravel(), h, atol=1e-11 * (1 + np.abs(h).max()))
    # and the accelerations agree: with the forward dynamics, and through the kinematic map from a to du/dt
    a = made(model, "forward_dynamics", q, v, tau)
    np.testing.assert_allclose(np.linalg.solve(M_bar, h_bar), a, atol=1e-8 * (1 + np.abs(a).max()))
    u_dot = numbers(floating_base.hybrid_acceleration, model, q, v, a)
    np.testing.assert_allclose(np.linalg.solve(M, h), u_dot, atol=1e-8 * (1 + np.abs(u_dot).max()))
    assert np.abs(B.T @ h_bar - h).max() > 1e-2  # without dB/dt the equations are wrong
    # contact directions: W = B^T W_bar is the transpose of the contact Jacobian for u
    contacts = [Contact(model.frames[-1].name, (0.1, 0.2, -0.1))]
    W_bar = numbers(contact_kinematics.contact_jacobian, model, q, contacts).T
    direct = numbers(floating_base.spatial_jacobian, model, q, model.frames[-1].name)
    R = np.array(dynamics.make_frame(model, "pose", model.frames[-1].name)(q)[0])
    arm = R @ [0.1, 0.2, -0.1]
    W = (direct[:3] - np.cross(arm, direct[3:].T).T @ np.eye(model.nv)).T
    np.testing.assert_allclose(B.T @ W_bar, W, atol=1e-12)


def test_velocity_names_are_checked():
    with pytest.raises(ModelError, match="hybird"):
        pne.mass_matrix(textbook.quadruped(), alg.neutral(textbook.quadruped()), "hybird")
    with pytest.raises(ModelError, match="free_flyer"):
        pne.mass_matrix(textbook.planar_arm(), np.zeros(3), "hybrid")


# ---------------------------------------------------------------------------------------------- contacts
@pytest.mark.row("000:K-170")
def test_motion_with_contacts():
    """M du/dt - h = W lambda on a quadruped with three feet held: feet do not accelerate, and the same contact forces as
    external wrenches give the same motion through the articulated-body algorithm."""
    model = textbook.quadruped()
    q, v, tau = state(model, 5)
    tau[:6] = 0
    contacts = [Contact(f"{leg}_FOOT") for leg in ("LF", "RF", "LH")]
    J = numbers(contact_kinematics.contact_jacobian, model, q, contacts)
    drift = numbers(contact_kinematics.contact_drift, model, q, v, contacts)
    M, W = numbers(pne.mass_matrix, model, q), J.T
    h = numbers(lambda m, x, w, t: pne.combined_force(m, x, w, (), t), model, q, v, tau)
    force = np.linalg.solve(J @ np.linalg.solve(M, W), -drift - J @ np.linalg.solve(M, h))
    a = np.array(equations.solve_acceleration(ca.DM(M), h, ca.DM(W), force)).ravel()
    np.testing.assert_allclose(J @ a + drift, 0, atol=1e-9)
    wrenches = {}
    for k, leg in enumerate(("LF", "RF", "LH")):
        R = np.array(dynamics.make_frame(model, "pose", f"{leg}_SHANK")(q)[0])
        f = R.T @ force[3 * k:3 * k + 3]
        wrenches[f"{leg}_SHANK"] = ca.DM(np.r_[f, np.cross([0, 0, -0.3], f)])
    # sign of h: the package's bias is tau - h, so inverse dynamics of a with these wrenches gives back tau
    back = np.array(ca.DM(alg.inverse_dynamics(model, q, v, a, wrenches))).ravel()
    np.testing.assert_allclose(back, tau, atol=1e-9 * (1 + np.abs(force).max()))
    forward = np.array(ca.DM(alg.forward_dynamics(model, q, v, tau, wrenches))).ravel()
    np.testing.assert_allclose(forward, a, atol=1e-8 * (1 + np.abs(a).max()))
    np.testing.assert_allclose(tau - h, made(model, "bias_force", q, v), atol=1e-10)


@pytest.mark.row("000:K-171")
def test_impulse_momentum_over_a_step():
    """M Delta u - h dt = W P: dt -> 0 gives the smooth equation, dt = 0 the impact equation, and in between both add up."""
    model = textbook.quadruped()
    q, v, _ = state(model, 6)
    M = ca.DM(numbers(pne.mass_matrix, model, q))
    h = numbers(pne.combined_force, model, q, v)
    W = ca.DM(numbers(contact_kinematics.contact_jacobian, model, q, [Contact("LF_FOOT"), Contact("RH_FOOT")]).T)
    force, impulse = np.random.default_rng(7).standard_normal((2, 6))
    for dt in (0.1, 1e-3):
        P = np.array(equations.percussion(force, dt, np.zeros(6))).ravel()
        step = np.array(equations.velocity_step(M, h, W, P, dt)).ravel()
        np.testing.assert_allclose(step / dt, np.array(equations.solve_acceleration(M, h, W, force)).ravel(), atol=1e-9)
    jump = np.array(equations.velocity_step(M, h, W, impulse, 0.0)).ravel()
    np.testing.assert_allclose(v + jump, np.array(equations.impact(M, W, impulse, v)).ravel(), atol=1e-12)
    P = np.array(equations.percussion(force, 0.1, impulse)).ravel()
    both = np.array(equations.velocity_step(M, h, W, P, 0.1)).ravel()
    np.testing.assert_allclose(np.array(M) @ both - h * 0.1, np.array(W) @ (force * 0.1 + impulse), atol=1e-10)
    np.testing.assert_allclose(np.array(equations.momentum_residual(M, h, W, both, P, 0.1)), 0, atol=1e-10)
    assert np.abs(np.array(equations.momentum_residual(M, h, W, both, P, 0.0))).max() > 1e-2


@pytest.mark.row("000:K-172")
def test_impacts():
    """M (u+ - u-) = W Lambda. A rod struck at its end: Lambda = m v / 4, energy -m v^2 / 8; a falling quadruped: two feet
    stop, the energy change is -(W^T u-)^T G^-1 (W^T u-) / 2 <= 0; elastic impacts keep the energy."""
    rod = Builder("rod")
    m, length, speed = 2.0, 0.8, 3.0
    moment = m * length**2 / 12
    rod.body("rod", parent="world", joint=Joint("base", "free_flyer"),
             inertia=BodyInertia(m, (0.0, 0.0, 0.0), ((1e-4, 0.0, 0.0), (0.0, moment, 0.0), (0.0, 0.0, moment))))
    model = rod.build()
    q, v = np.array([0, 0, 0, 1.0, 0, 0, 0]), np.array([0, 0, -speed, 0, 0, 0])
    W = ca.DM(numbers(contact_kinematics.contact_jacobian, model, q, [Contact("rod", (length / 2, 0.0, 0.0))])[2:3].T)
    M = ca.DM(numbers(pne.mass_matrix, model, q))
    impulse = equations.stopping_impulse(M, W, v)
    assert float(impulse) == pytest.approx(m * speed / 4, rel=1e-12)
    assert float(equations.impact_energy(M, W, impulse, v)) == pytest.approx(-m * speed**2 / 8, rel=1e-12)

    model = textbook.quadruped()
    q, v, _ = state(model, 8)
    M_ = numbers(pne.mass_matrix, model, q)
    W_ = numbers(contact_kinematics.contact_jacobian, model, q, [Contact("LF_FOOT"), Contact("RH_FOOT")]).T
    M, W = ca.DM(M_), ca.DM(W_)
    impulse = equations.stopping_impulse(M, W, v)
    after = np.array(equations.impact(M, W, impulse, v)).ravel()
    np.testing.assert_allclose(W_.T @ after, 0, atol=1e-11)
    np.testing.assert_allclose(M_ @ (after - v), W_ @ np.array(impulse).ravel(), atol=1e-10)
    before = W_.T @ v
    lost = -before @ np.linalg.solve(W_.T @ np.linalg.inv(M_) @ W_, before) / 2
    change = made(model, "kinetic_energy", q, after).item() - made(model, "kinetic_energy", q, v).item()
    assert change == pytest.approx(lost, rel=1e-10)
    assert change == pytest.approx(float(equations.impact_energy(M, W, impulse, v)), rel=1e-10)
    assert change < 0
    elastic = equations.stopping_impulse(M, W, v, restitution=1.0)
    assert float(equations.impact_energy(M, W, elastic, v)) == pytest.approx(0, abs=1e-11)


@pytest.mark.row("000:K-173")
def test_measure_balance_of_a_bouncing_mass():
    """M du - h dt = W dP over an interval with one impact: momentum change = integral of h + impulse, nothing else."""
    mass = Builder("mass")
    mass.body("m", parent="world", joint=Joint("z", "prismatic", axes=((0.0, 0.0, 1.0),)), inertia=BodyInertia(1.7))
    model = mass.build()
    height, restitution, total = 0.9, 0.6, 0.7
    h = numbers(pne.combined_force, model, np.array([height]), np.array([0.0]))
    M = ca.DM(numbers(pne.mass_matrix, model, np.array([height])))
    W = ca.DM([[1.0]])
    assert float(M) == pytest.approx(1.7)
    assert h.item() == pytest.approx(-1.7 * 9.81)
    hit = np.sqrt(2 * height / 9.81)  # closed form of the flight
    before = -9.81 * hit
    impulse = float(equations.stopping_impulse(M, W, [before], restitution))
    after = float(equations.impact(M, W, [impulse], [before]))
    assert after == pytest.approx(-restitution * before)
    end = after - 9.81 * (total - hit)
    assert hit < total < hit + 2 * after / 9.81  # exactly one impact inside
    residual = equations.momentum_residual(M, h.ravel(), W, [end], equations.percussion([0.0], total, [impulse]), total)
    assert float(residual) == pytest.approx(0, abs=1e-12)
    smooth_only = equations.momentum_residual(M, h.ravel(), W, [end], [0.0], total)
    assert float(smooth_only) == pytest.approx(impulse, abs=1e-12)  # the jump is what the smooth equation lacks


# ---------------------------------------------------------------------------------------------- the symbols
SYMBOLS = [pytest.param(random_tree(7, np.random.default_rng(61), root="free_flyer", branching=0.6, damping=True), id="floating"),
           pytest.param(tree_of("free_flyer", "spherical", "prismatic", "universal", "revolute", "planar", "continuous", seed=62,
                                branching=0.7), id="floating, every kind"),
           pytest.param(tree_of("universal", "spherical", "prismatic", "planar", "continuous", "revolute", seed=63, branching=0.7),
                        id="fixed")]
#: kind -> (coordinates, velocities)
NUMBERS_OF = {"revolute": (1, 1), "continuous": (1, 1), "prismatic": (1, 1), "universal": (2, 2), "spherical": (4, 3),
              "planar": (3, 3), "free_flyer": (7, 6), "fixed": (0, 0)}


@pytest.mark.row("000:K-160", "000:K-168", "000:K-169")
@pytest.mark.parametrize("model", SYMBOLS)
def test_every_symbol_is_what_the_table_says(model):
    """n, n_q, n_u, M, g, f, h, J_P, J_R, f_Q, t, m, Theta, W, lambda, Lambda, P, COM of branching trees of every joint kind, each
    against its definition by differences of poses: no recursion and no Jacobian of the package on the other side."""
    q, v, a = state(model, 64)
    rng, by_hand = np.random.default_rng(65), NumericalSymbols(model, q)
    kinds = [b.joint.kind for b in model.bodies]
    assert len({b.parent for b in model.bodies}) < len(kinds)  # it branches
    assert (model.nq, model.nv) == tuple(np.sum([NUMBERS_OF[k] for k in kinds], axis=0))
    assert (len(q), len(v)) == (model.nq, model.nv)

    def close(ours, theirs, tolerance):
        np.testing.assert_allclose(ours, theirs, atol=tolerance * (1 + np.abs(theirs).max()))

    frame, body = model.frames[-1].name, model.bodies[2].name
    place, force, torque = rng.standard_normal((3, 3))
    # J_P, J_R and COM
    J = numbers(jacobians.frame_jacobian, model, q, frame, "world_aligned")
    close(J[:3], by_hand.J_P(frame, np.zeros(3)), 1e-8)
    close(J[3:], by_hand.J_R(frame), 1e-8)
    close(made(model, "centre_of_mass", q), by_hand.com(), 1e-12)
    # M with m and Theta, g, and M a + g of any acceleration
    M, g = numbers(pne.mass_matrix, model, q), numbers(pne.gyroscopic_force, model, q, v)
    close(M, by_hand.M(), 1e-8)
    close(g, by_hand.newton_euler(v, np.zeros(model.nv)), 2e-6)
    close(M @ a + g, by_hand.newton_euler(v, a), 2e-6)
    assert np.abs(g).max() > 0.1
    # f: the weight, a force at a point, a torque, and joint forces; h = f - g less the damping
    applied = [pne.Applied(frame, force, place), pne.Applied(body, torque=torque)]
    tau = rng.standard_normal(model.nv)
    f = by_hand.weight() + by_hand.J_P(frame, place).T @ force + by_hand.J_R(body).T @ torque + tau
    close(numbers(lambda m, x, t: pne.applied_force(m, x, applied, t), model, q, tau), f, 1e-7)
    damping = np.concatenate([b.joint.damping or (0.0,) * model.kind(i).nv for i, b in enumerate(model.bodies)])
    h = numbers(lambda m, x, w, t: pne.combined_force(m, x, w, applied, t), model, q, v, tau)
    close(h, f - by_hand.newton_euler(v, np.zeros(model.nv)) - damping * v, 4e-6)
    # W: contact forces push as forces at the contact points do
    contacts = [Contact(frame, tuple(place)), Contact(body)]
    W = numbers(contact_kinematics.contact_jacobian, model, q, contacts).T
    W_by_hand = np.vstack([by_hand.J_P(frame, place), by_hand.J_P(body, np.zeros(3))]).T
    close(W, W_by_hand, 1e-8)
    # lambda, Lambda and P: the motion they give, by solving with what was made by hand
    contact_force, impulse = rng.standard_normal((2, 6))
    dt = 0.03
    P = equations.percussion(contact_force, dt, impulse)
    step = np.array(equations.velocity_step(ca.DM(M), h, ca.DM(W), P, dt)).ravel()
    expected = np.linalg.solve(by_hand.M(), h * dt + W_by_hand @ (contact_force * dt + impulse))
    close(step, expected, 1e-6)
    smooth = np.array(equations.solve_acceleration(ca.DM(M), h, ca.DM(W), contact_force)).ravel()
    balance = by_hand.newton_euler(v, smooth) + damping * v - f - W_by_hand @ contact_force
    close(balance, np.zeros(model.nv), 1e-5 * (1 + np.abs(smooth).max()))
