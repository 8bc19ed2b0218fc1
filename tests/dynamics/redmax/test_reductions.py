"""Fewer coordinates and more: hyper-reduced chains against mimic joints and constraints, mass-spring bodies on a robot."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from arrays import column, number
from joint_examples import tree_of_kinds
from states import state

import dynamics
from dynamics import ModelError
from dynamics import algorithms as alg
from dynamics.forces import JointDamper, JointSpring, Place
from dynamics.mechanism import Mechanism
from dynamics.model import BodyInertia, Builder, Joint, Mimic, Placement
from dynamics.redmax import maximal, redmax
from dynamics.redmax.deformable import Edge, Vertex, with_mass_springs
from dynamics.redmax.equations import body_inertias, body_wrenches, hyper_reduced
from dynamics.redmax.implicit import simulate, system
from dynamics.redmax.programs import equality


def chain(n, mimic=False):
    b = Builder("chain")
    for k in range(n):
        joint = Joint(f"j{k}", "revolute", Placement(position=(0.0 if k == 0 else 0.5, 0.0, 0.0)), ((0.0, 1.0, 0.0),),
                      mimic=Mimic("j0") if mimic and k else None)
        b.body(f"b{k}", parent=f"b{k - 1}" if k else "world", joint=joint, inertia=BodyInertia(1.0 + k, (0.25, 0.0, 0.1), (
            (0.01, 0.0, 0.0), (0.0, 0.02, 0.0), (0.0, 0.0, 0.02))))
    return b.build()


@pytest.mark.row("003:R13")
def test_a_chain_that_curls_with_one_coordinate():
    """All angles equal: the chain of mimic joints, and the chain with rows of equality; nothing else moves."""
    n, z, w = 4, 0.6, -0.8
    robot, one = Mechanism(chain(n)), Mechanism(chain(n, mimic=True))
    x = ca.SX.sym("z")
    curl = ca.Function("curl", [x], [ca.repmat(x, n, 1)])
    M, f = (float(y) for y in hyper_reduced(robot, curl, ca.DM(z), ca.DM(w)))
    assert pytest.approx(float(dynamics.make(one.model, "mass_matrix")(z)), rel=1e-12) == M
    assert f == pytest.approx(-float(dynamics.make(one.model, "bias_force")(z, w)), rel=1e-11)
    at = redmax(robot, np.full(n, z), np.full(n, w))
    G = np.eye(n)[:-1] - np.eye(n)[1:]
    a, _ = equality(number(at.M), column(at.f), G)
    np.testing.assert_allclose(a, f / M, rtol=1e-9)


@pytest.mark.row("003:R13")
def test_curved_coordinates_keep_their_drift():
    """``q_i = i z0 + z1^2 sin z0``: the acceleration is that of Lagrange's equations in z, from energies alone."""
    n, robot = 3, Mechanism(chain(3))
    x = ca.SX.sym("z", 2)
    curve = ca.Function("curve", [x], [ca.vertcat(*((i + 1) * x[0] + x[1] ** 2 * ca.sin(x[0]) for i in range(n)))])
    z, w = np.array([0.4, 0.7]), np.array([-0.5, 0.9])
    M, f = hyper_reduced(robot, curve, ca.DM(z), ca.DM(w))
    y = ca.SX.sym("w", 2)
    q = curve(x)
    T, V = alg.kinetic_energy(robot.model, q, ca.jtimes(q, x, y)), alg.potential_energy(robot.model, q)
    p = ca.gradient(T, y)
    theirs = ca.Function("f", [x, y], [ca.jacobian(p, y), ca.gradient(T - V, x) - ca.jtimes(p, x, y)])(z, w)
    np.testing.assert_allclose(number(M), number(theirs[0]), atol=1e-12)
    np.testing.assert_allclose(column(f), column(theirs[1]), atol=1e-11)
    with pytest.raises(ModelError, match="needs a Function to 4 coordinates whose rates"):
        hyper_reduced(Mechanism(tree_of_kinds("spherical")), curve, ca.DM(z), ca.DM(w))


# ------------------------------------------------------------------------------------------------ mass-spring bodies
TREE = tree_of_kinds("revolute", "exponential", "prismatic", seed=3, damping=False)
VERTICES = (Vertex("a", 0.2, Place("b1", (0.3, 0.1, 0.0))), Vertex("b", 0.1, Place("world", (0.5, 0.4, 0.2))),
            Vertex("c", 0.3, Place("world", (0.9, 0.1, -0.2))), Vertex("d", 0.15, Place("b2", (0.0, 0.2, 0.1))))
EDGES = (Edge("a", "b", 3.0, 0.4), Edge("b", "c", 2.0, 0.6), Edge("c", "d", 4.0, 0.5), Edge("a", "c", 1.0, 0.7))


@pytest.mark.row("003:R14")
def test_an_edge_by_its_energy():
    soft = with_mass_springs(Mechanism(TREE), VERTICES, EDGES)
    q, v, _ = state(soft.model)
    spring, edge = soft.forces[1], EDGES[1]
    x = [np.array([0.5, 0.4, 0.2]) + q[TREE.nq:TREE.nq + 3], np.array([0.9, 0.1, -0.2]) + q[TREE.nq + 3:]]
    dx = x[1] - x[0]
    l = np.linalg.norm(dx)
    strain = (l - edge.length) / edge.length
    assert float(spring.energy(soft.model, ca.DM(q))) == pytest.approx(edge.K / 2 * strain**2, rel=1e-12)
    f = column(spring.effort(soft.model, ca.DM(q), ca.DM(v)))
    pull = edge.K * strain / edge.length * dx / l
    np.testing.assert_allclose(f, np.r_[np.zeros(TREE.nv), pull, -pull], atol=1e-12)


@pytest.mark.row("003:R15")
def test_attached_vertices_ride_on_their_bodies():
    """``xd = R G(x) phi`` and ``d(R G)/dt = R [w] G``, by differences."""
    q, v, _ = state(TREE, 1)
    place, h = VERTICES[0].place, 1e-5
    at = maximal(TREE, q, v)
    i = TREE.body_index("b1")
    R, twist = number(alg.frame_pose(TREE, q, "b1").R), number(at.J)[6 * i:6 * i + 6] @ v
    G = np.hstack([np.eye(3), -number(ca.skew(ca.DM(place.position)))])
    ends = [moved_by(q, s * h * v) for s in (1, -1)]
    speed = column(place.at(TREE, ends[0]) - place.at(TREE, ends[1])) / (2 * h)
    np.testing.assert_allclose(R @ G @ twist, speed, atol=1e-8)
    slope = (number(alg.frame_pose(TREE, ends[0], "b1").R) - number(alg.frame_pose(TREE, ends[1], "b1").R)) / (2 * h) @ G
    np.testing.assert_allclose(R @ number(ca.skew(ca.DM(twist[3:]))) @ G, slope, atol=1e-8)


def moved_by(q, d):
    return dynamics.make(TREE, "integrate")(q, d)


@pytest.mark.row("003:R16")
def test_the_coupled_equations_as_the_document_stacks_them():
    """``J_MR' M_M J_MR a = J_MR' (f_M - M_M dJ_MR/dt v)`` with bodies, attached and free vertices one above the other."""
    soft = with_mass_springs(Mechanism(TREE), VERTICES, EDGES)
    q, v, _ = state(soft.model, 2)
    n, own = TREE.nv, q[:TREE.nq]
    at = maximal(TREE, own, v[:n])
    J, J_dot = number(at.J), number(at.J_dot)
    attached = [(k, x) for k, x in enumerate(VERTICES) if x.place.frame != "world"]
    blocks, blocks_dot = [], []
    for _, vertex in attached:
        i = TREE.body_index(vertex.place.frame)
        R, rows = number(alg.frame_pose(TREE, own, vertex.place.frame).R), slice(6 * i, 6 * i + 6)
        G = np.hstack([np.eye(3), -number(ca.skew(ca.DM(vertex.place.position)))])
        spin = number(ca.skew(ca.DM((J[rows] @ v[:n])[3:])))
        blocks.append(R @ G @ J[rows])
        blocks_dot.append(R @ G @ J_dot[rows] + R @ spin @ G @ J[rows])
    free = [(k, x) for k, x in enumerate(VERTICES) if x.place.frame == "world"]
    m_a, m_f = ([x.mass for _, x in part for _ in range(3)] for part in (attached, free))
    J_MR = np.block([[J, np.zeros((len(J), 6))], [np.vstack(blocks), np.zeros((6, 6))], [np.zeros((6, n)), np.eye(6)]])
    drift = np.concatenate([J_dot @ v[:n], np.vstack(blocks_dot) @ v[:n], np.zeros(6)])
    M_M = np.block([[number(body_inertias(TREE)), np.zeros((len(J), 12))], [np.zeros((12, len(J))), np.diag(m_a + m_f)]])
    x = {vertex.name: column(vertex.place.at(TREE, ca.DM(own))) for vertex in VERTICES}
    for k, (_, vertex) in enumerate(free):
        x[vertex.name] = x[vertex.name] + q[TREE.nq + 3 * k:TREE.nq + 3 * k + 3]
    push = {vertex.name: vertex.mass * np.array(TREE.gravity) for vertex in VERTICES}
    for edge in EDGES:
        dx = x[edge.second] - x[edge.first]
        l = np.linalg.norm(dx)
        pull = edge.K * (l - edge.length) / edge.length**2 * dx / l
        push[edge.first], push[edge.second] = push[edge.first] + pull, push[edge.second] - pull
    f_m = column(body_wrenches(Mechanism(TREE), ca.DM(own), ca.DM(J @ v[:n]), ca.DM(0, 1)).f)
    f_M = np.concatenate([f_m, *(push[vertex.name] for _, vertex in (*attached, *free))])
    a = np.linalg.solve(J_MR.T @ M_M @ J_MR, J_MR.T @ (f_M - M_M @ drift))
    np.testing.assert_allclose(column(soft.forward_dynamics(ca.DM(q), ca.DM(v), ca.DM(0, 1))), a, atol=1e-8)


@pytest.mark.row("003:R16")
def test_a_mass_on_a_spring_sags_and_a_floating_pair_keeps_its_momentum():
    b = Builder("bar", gravity=(0.0, 0.0, -9.81))
    b.body("bar", parent="world", joint=Joint("j", "prismatic", axes=((0.0, 0.0, 1.0),)), inertia=BodyInertia(1.0))
    bar = Mechanism(b.build(), forces=(JointSpring("hold", "j", 200.0), JointDamper("slow", "j", 20.0)))
    soft = with_mass_springs(bar, (Vertex("top", 0.1, Place("bar")), Vertex("low", 0.5, Place("world", (0.0, 0.0, -1.0)))),
                             (Edge("top", "low", 50.0, 1.0, 3.0),))
    run = simulate(system(soft, mode="interpreted"), "bdf1", (np.zeros(4), np.zeros(4)), 0.05, 400)
    np.testing.assert_allclose(run.q[-1, 0], -1.6 * 9.81 / 200, atol=1e-6)
    np.testing.assert_allclose(run.q[-1, 3] - run.q[-1, 0], -0.5 * 9.81 / 50, atol=1e-6)
    b = Builder("floating", gravity=(0.0, 0.0, 0.0))
    b.body("b", parent="world", joint=Joint("j", "free_3d", chart="rotation_vector"), inertia=BodyInertia(1.0, (0.0, 0.0, 0.0), (
        (0.1, 0.0, 0.0), (0.0, 0.2, 0.0), (0.0, 0.0, 0.3))))
    pair = with_mass_springs(Mechanism(b.build()), (Vertex("on", 0.1, Place("b", (0.2, 0.0, 0.0))), Vertex(
        "off", 0.5, Place("world", (1.0, 0.2, 0.0)))), (Edge("on", "off", 5.0, 0.5),))
    rng = np.random.default_rng(3)
    x, w = ca.SX.sym("q", 9), ca.SX.sym("v", 9)
    momentum = ca.Function("h", [x, w], [alg.momentum(pair.model, x, w)[:3]])
    run = simulate(system(pair, mode="interpreted"), "sdirk2", (0.1 * rng.standard_normal(9), rng.standard_normal(9)), 1e-2, 100)
    np.testing.assert_allclose(column(momentum(run.q[-1], run.v[-1])), column(momentum(run.q[0], run.v[0])), atol=1e-3)
    assert np.abs(run.v[-1] - run.v[0]).max() > 0.1


@pytest.mark.parametrize(("vertices", "edges", "words"), [
    ((replace(VERTICES[0], name="b1"),), (), r"vertex 'b1': name is already used"),
    ((replace(VERTICES[0], mass=0.0),), (), r"vertex 'a': mass must be positive"),
    ((replace(VERTICES[0], place=Place("b9")),), (), r"no frame named 'b9'"),
    (VERTICES, (replace(EDGES[0], second="e"),), r"edge 0: no vertex named 'e'"),
    (VERTICES, (replace(EDGES[0], length=0.0),), r"edge 0: length must be positive"),
    (VERTICES, (replace(EDGES[0], K=-1.0),), r"stiffness must be finite and at least 0"),
])
def test_wrong_mass_springs_are_named(vertices, edges, words):
    with pytest.raises(ModelError, match=words):
        with_mass_springs(Mechanism(TREE), vertices, edges)
