"""Recursions of linear cost against dense matrices, programmes with rows, and each other; operations that grow linearly."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from arrays import column, number
from joint_examples import tree_of_kinds
from row_trees import coupled
from states import state

import dynamics
from dynamics import ModelError, UnknownNameError, spatial
from dynamics import algorithms as alg
from dynamics.mechanism import Mechanism
from dynamics.model.synthetic import serial_chain
from dynamics.redmax import maximal, redmax
from dynamics.redmax.equations import body_inertias, body_wrenches
from dynamics.redmax.programs import dual_contact, equality, recovered
from dynamics.redmax.recursive import delassus, efforts, hybrid_dynamics, preconditioner, twist_drift, twists
from ocp.solvers.qp import QP, solve_qp

TREE = tree_of_kinds("revolute", "spherical", "prismatic", "universal", "fixed", "exponential", "free_2d", seed=3)


@pytest.mark.row("003:L01", "003:L02")
@pytest.mark.parametrize("model", [TREE, coupled()], ids=["tree", "mimic"])
def test_products_with_the_jacobian(model):
    q, v, x = state(model)
    at, wrenches = maximal(model, q, v), np.random.default_rng(1).standard_normal(6 * len(model.bodies))
    np.testing.assert_allclose(column(twists(model, q, ca.DM(x))), number(at.J) @ x, atol=1e-13)
    np.testing.assert_allclose(column(twist_drift(model, ca.DM(q), ca.DM(v))), number(at.J_dot) @ v, atol=1e-12)
    np.testing.assert_allclose(column(efforts(model, q, ca.DM(wrenches))), number(at.J).T @ wrenches, atol=1e-12)


@pytest.mark.row("003:L01", "003:L02", "003:L11", "003:L14")
def test_operations_grow_linearly():
    counts = []
    for n in (8, 16, 32):
        model = serial_chain(n)
        q, v, x, y = (ca.SX.sym(name, size) for name, size in zip("qvxy", (n, n, n, 6 * n), strict=True))
        values = (twists(model, q, x), twist_drift(model, q, v), efforts(model, q, y),
                  hybrid_dynamics(model, q, v, x, [model.bodies[1].joint.name]).a, preconditioner(model, q).times(x))
        counts.append([ca.Function("f", [q, v, x, y], [value]).n_nodes() for value in values])
    growth = np.diff(np.array(counts), axis=0)
    np.testing.assert_allclose(growth[1] / growth[0], 2.0, rtol=0.02)


@pytest.mark.row("003:L14", "003:D19")
def test_the_inverse_of_the_mass_matrix():
    q, _, x = state(TREE, 2)
    M = number(dynamics.make(TREE, "mass_matrix")(q))
    found = preconditioner(TREE, ca.DM(q))
    np.testing.assert_allclose(column(found.times(ca.DM(x))), np.linalg.solve(M, x), atol=1e-9)
    np.testing.assert_allclose(number(found.times(ca.DM.eye(TREE.nv))), np.linalg.inv(M), atol=1e-8)


@pytest.mark.row("003:L15")
def test_a_preconditioner_with_damping_and_stiffness():
    """Of bodies, not symmetric, and of joints; as the matrix of a linearly implicit step."""
    q, v, x = state(TREE, 3)
    rng, n = np.random.default_rng(4), len(TREE.bodies)
    P_m, P_r = [0.1 * rng.standard_normal((6, 6)) for _ in range(n)], rng.uniform(0, 1, TREE.nv)
    J = number(maximal(TREE, q, v).J)
    matrix = number(dynamics.make(TREE, "mass_matrix")(q)) + J.T @ number(ca.diagcat(*map(ca.DM, P_m))) @ J + np.diag(P_r)
    found = preconditioner(TREE, ca.DM(q), list(map(ca.DM, P_m)), ca.DM(P_r))
    np.testing.assert_allclose(column(found.times(ca.DM(x))), np.linalg.solve(matrix, x), atol=1e-9)
    # the true matrix has K and D of loads as well; the rounds of a Krylov method fall
    from scipy.sparse.linalg import LinearOperator, gmres

    h, robot = 0.1, Mechanism(TREE)
    at = redmax(robot, q, v)
    true = number(at.M) - h * number(at.D_forces) - h**2 * number(at.K_forces)
    w = body_wrenches(robot, ca.DM(q), ca.DM(J @ v), ca.DM(0, 1))
    parts = [-h * w.D[6 * i:6 * i + 6, 6 * i:6 * i + 6] - h**2 * w.K[6 * i:6 * i + 6, 6 * i:6 * i + 6] for i in range(n)]
    close = preconditioner(TREE, ca.DM(q), parts, h * alg.tree.diagonal(TREE, "damping"))
    rounds = []
    for M in (None, LinearOperator(true.shape, matvec=lambda y: column(close.times(ca.DM(y))))):
        seen = []
        y, failed = gmres(true, x, M=M, rtol=1e-10, restart=50, callback=seen.append, callback_type="pr_norm")
        assert failed == 0
        np.testing.assert_allclose(true @ y, x, atol=1e-7)
        rounds.append(len(seen))
    assert rounds[1] <= 2 < rounds[0]


@pytest.mark.row("003:L11")
@pytest.mark.parametrize("held", [(), (0, 2), (1, 5), tuple(range(7))])
def test_hybrid_dynamics(held):
    """Any joints prescribed: the programme with their rows, other recursions at both ends, joint wrenches with ``S' F = tau``."""
    q, v, given = state(TREE, 5)
    names = [TREE.bodies[i].joint.name for i in held]
    found = hybrid_dynamics(TREE, ca.DM(q), ca.DM(v), ca.DM(given), names)
    rows = np.concatenate([np.eye(TREE.nv)[TREE.v_slice(i)] for i in held]) if held else np.zeros((0, TREE.nv))
    at = redmax(Mechanism(TREE), q, v)
    applied = given - rows.T @ rows @ given
    a, torque = equality(number(at.M), column(at.f) + applied, rows, rows @ given)
    np.testing.assert_allclose(column(found.a), a, atol=1e-7)
    np.testing.assert_allclose(column(found.tau), applied + rows.T @ torque, atol=1e-7)
    np.testing.assert_allclose(column(dynamics.make(TREE, "inverse_dynamics")(q, v, found.a)), column(found.tau), atol=1e-7)
    if not held:
        np.testing.assert_allclose(a, column(dynamics.make(TREE, "forward_dynamics")(q, v, given)), atol=1e-7)


@pytest.mark.row("003:L06", "003:L07")
def test_constraint_forces_of_joints():
    """``f = M_m (J a + dJ/dt v) - f_m`` is what joints put on bodies: ``J' f = tau``, no work beyond that of tau; and shared
    out from leaves to root it is the wrench through every joint."""
    model = replace(TREE, bodies=tuple(replace(b, joint=replace(b.joint, armature=(), damping=())) for b in TREE.bodies))
    q, v, tau = state(model, 6)
    for load in (0 * tau, tau):
        found = hybrid_dynamics(model, ca.DM(q), ca.DM(v), ca.DM(load))
        at, M_m = maximal(model, q, v), number(body_inertias(model))
        f_m = column(body_wrenches(Mechanism(model), ca.DM(q), at.J @ v, ca.DM(0, 1)).f)
        total = M_m @ (number(at.J) @ column(found.a) + number(at.J_dot) @ v) - f_m
        np.testing.assert_allclose(number(at.J).T @ total, load, atol=1e-8)
        without = M_m @ (number(at.J) @ column(found.a)) - f_m
        assert np.abs(number(at.J).T @ without - load).max() > 0.1  # the centripetal part belongs to it
        through = [ca.DM(total[6 * i:6 * i + 6]) for i in range(len(model.bodies))]
        for i in reversed(range(len(model.bodies))):
            np.testing.assert_allclose(column(through[i]), column(found.wrenches[i]), atol=1e-8)
            S = number(alg.tree.coupled_subspace(model, i, ca.DM(q)))
            np.testing.assert_allclose(S.T @ column(through[i]), load[model.v_slice(i)], atol=1e-8)
            if (parent := model.bodies[i].parent) >= 0:
                through[parent] += spatial.force_to_parent(alg.tree.parent_transform(model, i, ca.DM(q)), through[i])


@pytest.mark.row("003:L12", "003:L13")
def test_constraints_on_top_of_the_recursion():
    """Multipliers from ``G M^-1 G'`` and the free acceleration: equations, and inequalities by the dual programme."""
    q, v, tau = state(TREE, 7)
    at = redmax(Mechanism(TREE), q, v)
    M, f = number(at.M), column(at.f) + tau
    G, drift = np.random.default_rng(8).standard_normal((3, TREE.nv)), np.array([0.3, -0.2, 0.5])
    free = column(hybrid_dynamics(TREE, ca.DM(q), ca.DM(v), ca.DM(tau)).a)
    W = number(delassus(TREE, ca.DM(q), ca.DM(G)))
    force = np.linalg.solve(W, -drift - G @ free)
    a = free + column(preconditioner(TREE, ca.DM(q)).times(ca.DM(G.T @ force)))
    theirs, multipliers = equality(M, f, G, -drift)
    np.testing.assert_allclose(a, theirs, atol=1e-8)
    np.testing.assert_allclose(force, multipliers, atol=1e-8)
    up = np.full(3, np.inf)
    dual = solve_qp(QP(W, G @ free + drift, np.eye(3), np.zeros(3), up))
    primal = solve_qp(QP(M, -f, G, -drift, up))
    a = free + column(preconditioner(TREE, ca.DM(q)).times(ca.DM(G.T @ dual.x)))
    np.testing.assert_allclose(a, primal.x, atol=1e-7 * np.abs(a).max())
    assert np.all(np.asarray(dual.x) > -1e-10)
    same = dual_contact(M, f, G, -drift)
    np.testing.assert_allclose(W, same.P, atol=1e-9)
    np.testing.assert_allclose(G @ free + drift, same.g, atol=1e-7)
    np.testing.assert_allclose(recovered(M, f, G, dual.x), a, atol=1e-7)


@pytest.mark.parametrize(("make", "words"), [
    (lambda: preconditioner(coupled(), alg.neutral(coupled())), r"joint 'slide'.*follows 'drive'"),
    (lambda: hybrid_dynamics(TREE, *state(TREE), ["j99"]), r"no joint named 'j99'"),
])
def test_what_a_recursion_cannot_do_is_named(make, words):
    with pytest.raises((ModelError, UnknownNameError), match=words):
        make()
