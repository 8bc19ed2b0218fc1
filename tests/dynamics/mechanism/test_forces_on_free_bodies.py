"""Forces on free bodies in maximal coordinates: the closed forms of K and D block by block, momentum, work, laws of contact."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from arrays import number
from force_harness import along_tangent, check, functions, state
from scipy.integrate import solve_ivp

from dynamics import ModelError, spatial
from dynamics import algorithms as alg
from dynamics.forces import Bushing, Cable, Drag, Ground, JointStop, Place, PointForce, Spring
from dynamics.mechanism import Mechanism
from dynamics.model import BodyInertia, Builder, Joint
from dynamics.model.shapes import box
from dynamics.redmax.equations import body_wrenches, redmax
from dynamics.redmax.implicit import simulate, system
from dynamics.steps.march import Newton


def bodies(count, gravity=(0.0, 0.0, 0.0), inertia=None):
    """Free bodies: their velocities are the twists of maximal coordinates."""
    b = Builder("free", gravity=gravity)
    for k in range(count):
        b.body(f"b{k}", parent="world", joint=Joint(f"j{k}", "free_flyer"), inertia=inertia or box(1.0, (0.5, 0.7, 0.9)))
    return b.build()


ONE, TWO, THREE = (bodies(n) for n in (1, 2, 3))
X1, X2, X3 = (0.1, -0.2, 0.3), (-0.3, 0.1, 0.2), (0.2, 0.2, -0.1)


def hat(a):
    return number(ca.skew(ca.DM(np.asarray(a, float).ravel())))


def gamma(x):
    """Velocity of a body's point by its twist [linear; angular]."""
    return np.hstack([np.eye(3), -hat(x)])


def values(model, force, q, v):
    force.check(model)
    return [number(f(q, v)) for f in functions(model, force)]


def rotation(model, q, name):
    pose = alg.frame_pose(model, q, name)
    return number(pose.R), number(pose.p).ravel()


def world_resultant(model, q, f):
    """Sum of all wrenches at the world's origin."""
    total = np.zeros(6)
    for k, body in enumerate(model.bodies):
        pose = alg.frame_pose(model, q, body.name)
        total += number(spatial.force_to_parent(pose, ca.DM(f[6 * k:6 * k + 6]))).ravel()
    return total


@pytest.mark.row("003:F01")
def test_viscous_damping():
    q, v = state(ONE, 0)
    f, K, D, _ = values(ONE, Drag("d", "b0", (0.4,) * 6), q, v)
    np.testing.assert_allclose(f.ravel(), -0.4 * v, atol=1e-14)
    np.testing.assert_allclose(D, -0.4 * np.eye(6), atol=1e-14)
    np.testing.assert_allclose(K, 0, atol=1e-13)
    assert f.ravel() @ v == pytest.approx(-0.4 * v @ v)


@pytest.mark.row("003:F02")
def test_a_point_force():
    """``f = k G' R' a``, ``K``: the rows of G' times ``[R' a]`` in the columns of turns; the gradient of ``-k x . a``."""
    q, v = state(ONE, 1)
    a = np.array([0.6, -1.0, 2.0])
    force = PointForce("p", Place("b0", X1), tuple(a))
    f, K, _, _ = values(ONE, force, q, v)
    R, _ = rotation(ONE, q, "b0")
    G = gamma(X1)
    np.testing.assert_allclose(f.ravel(), G.T @ R.T @ a, atol=1e-14)
    np.testing.assert_allclose(K, np.hstack([np.zeros((6, 3)), G.T @ hat(R.T @ a)]), atol=1e-13)
    check(ONE, force, q, v)


@pytest.mark.row("003:F03")  # steps that take the symmetric part: test_implicit_steps.py
def test_stiffness_is_exact_and_its_symmetric_part_is_another_matrix():
    """K of a force on a body is not symmetric; the mean with its transpose, as for conjugate gradients, is not the derivative."""
    q, v = state(TWO, 2)
    spring = Bushing("s", Place("b0", X1), Place("b1", X2), 4.0)
    _, K, _, _ = values(TWO, spring, q, v)
    symmetric = (K + K.T) / 2
    exact = along_tangent(TWO, functions(TWO, spring)[0], q, v)
    np.testing.assert_allclose(K, exact, atol=1e-7)
    assert np.abs(K - K.T).max() > 0.1
    assert np.abs(symmetric - exact).max() > 0.1
    # at the rest of a spring of zero length the two agree: there K is a Hessian
    _, K, _, _ = values(ONE, Bushing("s", Place("b0"), Place("world", tuple(q[:3])), 4.0), q[:7], v[:6])
    np.testing.assert_allclose(K, K.T, atol=1e-12)


@pytest.mark.row("003:F04", "003:F05")
def test_gravity_and_gyroscopic_wrenches_with_their_derivatives():
    """``-phi x* M phi`` with its derivative by phi, ``R' m g`` with its derivative by turns: printed blocks and differences."""
    model = bodies(1, (0.3, -0.2, -9.81), BodyInertia(1.7, (0.0, 0.0, 0.0), ((0.2, 0.01, 0.0), (0.01, 0.3, 0.0), (0.0, 0.0, 0.4))))
    q, v = state(model, 3)
    robot, I, m = Mechanism(model), np.array(model.bodies[0].inertia.inertia), 1.7
    w = body_wrenches(robot, ca.DM(q), ca.DM(v), ca.DM(0, 1))
    R, _ = rotation(model, q, "b0")
    g, speed, spin = np.array(model.gravity), v[:3], v[3:]
    np.testing.assert_allclose(number(w.f).ravel(), np.r_[R.T @ g * m - m * np.cross(spin, speed), -np.cross(spin, I @ spin)],
                               atol=1e-12)
    turns = np.vstack([np.hstack([np.zeros((3, 3)), hat(R.T @ g * m)]), np.zeros((3, 6))])
    np.testing.assert_allclose(number(w.K), turns, atol=1e-12)
    D = number(w.D)
    np.testing.assert_allclose(D[:3], np.hstack([-m * hat(spin), m * hat(speed)]), atol=1e-12)
    np.testing.assert_allclose(D[3:], np.hstack([np.zeros((3, 3)), hat(I @ spin) - hat(spin) @ I]), atol=1e-12)
    # an offset of the centre of mass has no such blocks: differences
    other = bodies(1, (0.3, -0.2, -9.81), BodyInertia(1.7, (0.1, -0.2, 0.3), model.bodies[0].inertia.inertia))
    x, y = ca.SX.sym("q", 7), ca.SX.sym("v", 6)
    f = ca.Function("f", [x, y], [body_wrenches(Mechanism(other), x, y, ca.SX(0, 1)).f])
    w, step = body_wrenches(Mechanism(other), ca.DM(q), ca.DM(v), ca.DM(0, 1)), 1e-6 * np.eye(6)
    np.testing.assert_allclose(number(w.K), along_tangent(other, f, q, v), atol=1e-8)
    slopes = np.hstack([number(f(q, v + d) - f(q, v - d)) / 2e-6 for d in step])
    np.testing.assert_allclose(number(w.D), slopes, atol=1e-8)
    still = replace(other, gravity=(0.0, 0.0, 0.0))
    assert v @ number(body_wrenches(Mechanism(still), ca.DM(q), ca.DM(v), ca.DM(0, 1)).f).ravel() == pytest.approx(0, abs=1e-12)


@pytest.mark.row("003:F06", "003:F07")
def test_springs_and_dampers_between_two_points():
    """The 12 x 12 blocks: ``+- k G_i' R_i' R_j G_j``, and in the columns of turns ``[R' F]`` of the force on the point."""
    q, v = state(TWO, 4)
    k, c = 3.0, 0.7
    force = Bushing("s", Place("b0", X1), Place("b1", X2), k, c)
    f, K, D, V = values(TWO, force, q, v)
    (R1, p1), (R2, p2) = rotation(TWO, q, "b0"), rotation(TWO, q, "b1")
    G1, G2 = gamma(X1), gamma(X2)
    dx, speed = p2 + R2 @ X2 - p1 - R1 @ X1, R2 @ G2 @ v[6:] - R1 @ G1 @ v[:6]
    F = k * dx + c * speed
    np.testing.assert_allclose(f.ravel(), np.r_[G1.T @ R1.T @ F, -G2.T @ R2.T @ F], atol=1e-12)
    assert V.item() == pytest.approx(k / 2 * dx @ dx)
    B = np.hstack([-R1 @ G1, R2 @ G2])
    np.testing.assert_allclose(D, -c * B.T @ B, atol=1e-12)
    assert np.linalg.eigvalsh(D).max() < 1e-12
    assert f.ravel() @ v <= k * dx @ -speed + 1e-9  # what is not the spring's power is lost
    turns = np.zeros((12, 12))
    turns[:6, 3:6], turns[6:, 9:] = G1.T @ hat(R1.T @ F), -G2.T @ hat(R2.T @ F)
    slopes = np.zeros((3, 12))  # of the damper's force by turns at constant twists
    slopes[:, 3:6], slopes[:, 9:] = R1 @ hat(G1 @ v[:6]), -R2 @ hat(G2 @ v[6:])
    np.testing.assert_allclose(K, -k * B.T @ B + turns - c * B.T @ slopes, atol=1e-11)
    # the spring pulls along the line of the points; the damper need not, and leaves the moment dx x F
    spring = values(TWO, replace(force, c=0.0), q, v)[0].ravel()
    np.testing.assert_allclose(world_resultant(TWO, q, spring), 0, atol=1e-12)
    np.testing.assert_allclose(world_resultant(TWO, q, f.ravel()), np.r_[np.zeros(3), -np.cross(dx, F)], atol=1e-12)


@pytest.mark.row("003:F13", "003:F14", "003:F16")
def test_the_law_of_strain():
    """``f = k eps + d epsdot`` with eps = (l - L)/L is our spring with k / L and d / L; its K in the document's parts."""
    q, v = state(TWO, 5)
    k, d, L = 30.0, 4.0, 0.4
    force = Spring("s", (Place("b0", X1), Place("b1", X2)), k / L, L, d / L)
    f, K, D, _ = values(TWO, force, q, v)
    (R1, p1), (R2, p2) = rotation(TWO, q, "b0"), rotation(TWO, q, "b1")
    G1, G2 = gamma(X1), gamma(X2)
    dx, B = p2 + R2 @ X2 - p1 - R1 @ X1, np.hstack([-R1 @ G1, R2 @ G2])
    l = np.linalg.norm(dx)
    rate = dx @ B @ v / l
    tension = k * (l - L) / L + d * rate / L
    assert tension > 0
    np.testing.assert_allclose(f.ravel(), -tension * B.T @ dx / l, atol=1e-12)
    # K = u (x) d(f/l)/dq + (f/l) K of the spring of zero length and unit stiffness
    unit = values(TWO, Bushing("u", Place("b0", X1), Place("b1", X2), 1.0), q, v)
    turned = np.zeros((3, 12))
    turned[:, 3:6], turned[:, 9:] = R1 @ hat(G1 @ v[:6]), -R2 @ hat(G2 @ v[6:])
    by_x = (l**2 * np.eye(3) - np.outer(dx, dx)) / l**3 @ (B @ v)
    dl, dldot = dx @ B / l, by_x @ B + dx @ turned / l
    slope = (k / L * dl + d / L * dldot) / l - tension / l**2 * dl
    np.testing.assert_allclose(K, np.outer(-B.T @ dx, slope) + tension / l * unit[1], atol=1e-10)
    np.testing.assert_allclose(D, np.outer(-B.T @ dx, d / L * dl / l), atol=1e-11)
    np.testing.assert_allclose(world_resultant(TWO, q, f.ravel()), 0, atol=1e-12)
    near = replace(force, length=l, c=0.0)
    np.testing.assert_allclose(values(TWO, near, q, v)[0], 0, atol=1e-12)


@pytest.mark.row("003:F15", "003:F17")
def test_paths_over_three_bodies_and_cables():
    q, v = state(THREE, 6)
    places = (Place("b0", X1), Place("b1", X2), Place("b2", X3))
    long = Spring("s", places, 20.0, 0.3, 1.5)
    check(THREE, long, q, v)
    f = values(THREE, long, q, v)[0].ravel()
    np.testing.assert_allclose(world_resultant(THREE, q, f), 0, atol=1e-11)
    # all of the path pulls alike: the point in between is pulled by two forces of the same size
    (R0, p0), (R1, p1), (R2, p2) = (rotation(THREE, q, f"b{k}") for k in range(3))
    at = [p + R @ x for R, p, x in ((R0, p0, X1), (R1, p1, X2), (R2, p2, X3))]
    ends = [(at[1] - at[0]) / np.linalg.norm(at[1] - at[0]), (at[2] - at[1]) / np.linalg.norm(at[2] - at[1])]
    size = np.linalg.norm(f[:3])
    np.testing.assert_allclose(R1 @ f[6:9], size * (ends[1] - ends[0]), atol=1e-11)
    length = sum(np.linalg.norm(b - a) for a, b in zip(at[:-1], at[1:], strict=True))
    cables = {L: values(THREE, Cable("c", places, 20.0, L, 0.5), q, 0 * v) for L in (length - 1e-9, length + 1e-9, 0.3)}
    np.testing.assert_allclose(cables[0.3][0].ravel(), values(THREE, replace(long, c=0.5), q, 0 * v)[0].ravel(), atol=1e-12)
    for L in (length - 1e-9, length + 1e-9):
        np.testing.assert_allclose(cables[L][0], 0, atol=1e-7)  # without speed the force is continuous
    for part in cables[length + 1e-9]:
        np.testing.assert_allclose(part, 0, atol=0)
    # a taut cable that shortens fast does nothing; it never pushes
    faster = -1e3 * np.r_[R0.T @ -ends[0], np.zeros(3), np.zeros(6), R2.T @ ends[1], np.zeros(3)]
    for part in values(THREE, Cable("c", places, 20.0, 0.3, 1.5), q, faster)[:3]:
        np.testing.assert_allclose(part, 0, atol=0)


# ------------------------------------------------------------------------------------------------ ground
def block(mu, slope=0.0, k_t=1e6, k=1e5, c=1e2):
    """A cube of one kilogram on a slope, in two dimensions with coordinates x, y, theta; its corners touch."""
    b = Builder("block", gravity=(9.81 * np.sin(slope), -9.81 * np.cos(slope), 0.0))
    b.body("b", parent="world", joint=Joint("j", "free_2d"), inertia=box(1.0, (1.0, 1.0, 1.0)))
    corners = tuple(Place("b", (x, -0.5, z)) for x in (-0.5, 0.5) for z in (-0.5, 0.5))
    return Mechanism(b.build(), forces=(Ground("ground", corners, k, c, mu, k_t, (0.0, 1.0, 0.0)),))


def resting(robot):
    """Height at which the corners carry the weight."""
    ground = robot.forces[0]
    return 0.5 + robot.model.gravity[1] / (len(ground.places) * ground.k)


@pytest.mark.row("003:F08", "003:F09", "003:F10", "003:F11")
@pytest.mark.parametrize("k_t", [1e3, 0.05])
def test_the_law_of_contact(k_t):
    """Out of the ground, against the motion, friction of the size that the normal force allows; the slopes by differences."""
    ground = Ground("g", (Place("b0"),), 30.0, 2.0, 0.4, k_t, (0.2, -0.1, 1.0), (0.0, 0.0, 0.1))
    n = np.array(ground.normal) / np.linalg.norm(ground.normal)
    x, speed, h = np.array([0.3, -0.2, -0.3]), np.array([0.5, 0.8, 0.3]), 1e-6
    F, by_x, by_speed = (number(y) for y in ground.law(ca.DM(x), ca.DM(speed)))
    d, slip = n @ (x - [0, 0, 0.1]), speed - n * (n @ speed)
    assert n @ F.ravel() == pytest.approx(-30.0 * d - 2.0 * n @ speed)
    assert -30.0 * d > 0
    friction = F.ravel() - n * (n @ F.ravel())
    np.testing.assert_allclose(friction, -slip * min(k_t, 0.4 * 30.0 * abs(d) / np.linalg.norm(slip)), atol=1e-13)
    for slopes, moved in ((by_x, lambda e: (x + e, speed)), (by_speed, lambda e: (x, speed + e))):
        ends = [[number(ground.law(*map(ca.DM, moved(s * h * e)))[0]).ravel() for s in (1, -1)] for e in np.eye(3)]
        np.testing.assert_allclose(slopes, np.column_stack([(a - b) / (2 * h) for a, b in ends]), atol=1e-7)
    for part in ground.law(ca.DM(x + n), ca.DM(speed)):
        np.testing.assert_allclose(number(part), 0, atol=0)
    for part in ground.law(ca.DM(x), ca.DM.zeros(3)):
        assert np.all(np.isfinite(number(part)))


def test_dissipation_takes_the_energy_that_its_law_says():
    """A drop of a mass on one point: the force starts from nothing, never pulls, and the rebound solves the ordinary differential
    equation of Hunt and Crossley in closed form: ``(v0 + v1) e + log((1 - e v1) / (1 + e v0)) = 0`` without gravity."""
    ground, v0 = Ground("g", (Place("b"),), 1e4, e=0.3), 2.0
    n = np.array([0.0, 0.0, 1.0])
    np.testing.assert_allclose(number(ground.law(ca.DM([0, 0, -1e-9]), ca.DM(-v0 * n))[0]).ravel(), 1e-5 * 1.6 * n, rtol=1e-9)
    for part in ground.law(ca.DM([0, 0, -0.1]), ca.DM(4.0 * n)):  # it would pull
        assert number(part).ravel()[-1] == 0.0

    def law(_, y):
        return [y[1], float(number(ground.law(ca.DM([0, 0, y[0]]), ca.DM([0, 0, y[1]]))[0])[2, 0]) / 0.5]

    up = solve_ivp(law, (0, 1), [-1e-12, -v0], rtol=1e-9, atol=1e-12, events=leaves).y_events[0][0][1]
    assert 0 < up < v0
    assert (v0 + up) * 0.3 + np.log((1 - 0.3 * up) / (1 + 0.3 * v0)) == pytest.approx(0.0, abs=1e-6)


def leaves(_, y):
    return y[0]


leaves.terminal, leaves.direction = True, 1


@pytest.mark.row("003:F12")
def test_the_smaller_law_acts_and_the_force_is_continuous():
    ground = Ground("g", (Place("b0"),), 30.0, 0.0, 0.4, 5.0)
    switch = 0.4 * 30.0 * 0.1 / 5.0  # k_t |a| = mu k |d|
    sizes = [np.linalg.norm(number(ground.law(ca.DM([0, 0, -0.1]), ca.DM([s, 0, 0]))[0])[:2]) for s in (
        0.5 * switch, switch * (1 - 1e-9), switch * (1 + 1e-9), 3 * switch)]
    assert sizes[1] == pytest.approx(sizes[2], rel=1e-8)
    assert sizes[0] == pytest.approx(sizes[1] / 2, rel=1e-8)
    assert sizes[3] == pytest.approx(sizes[2], rel=1e-8)


@pytest.mark.row("003:F11", "003:F12")
def test_a_sliding_block_is_slowed_by_friction():
    robot = block(0.3)
    run = simulate(system(robot, mode="interpreted"), "bdf2", ([0.0, resting(robot), 0.0], [2.0, 0.0, 0.0]), 2e-3, 100)
    # the block tips a little at first; on the whole it loses mu g t
    assert run.v[-1, 0] == pytest.approx(2.0 - 0.3 * 9.81 * 0.2, rel=2e-3)


@pytest.mark.row("003:F10")
def test_a_block_on_a_slope_creeps():
    """Below the limit of friction there is no rest: ``v = m g sin / (points k_t)``."""
    robot = block(0.9, slope=0.2, k_t=50.0)
    run = simulate(system(robot, mode="interpreted"), "bdf1", ([0.0, resting(robot), 0.0], [0.0] * 3), 1e-2, 200)
    assert run.v[-1, 0] == pytest.approx(9.81 * np.sin(0.2) / (4 * 50.0), rel=1e-6)


@pytest.mark.row("003:F08", "003:J15")
def test_a_thrown_box_comes_to_rest_where_it_must():
    """Scene 11 of the reference implementation by BDF1: corners carry the weight, ``T + V - V0`` is known in closed form."""
    b = Builder("box", gravity=(0.0, -980.0, 0.0))
    b.body("b", parent="world", joint=Joint("j", "free_2d"), inertia=box(1.0, (3.0, 1.0, 1.0)))
    corners = tuple(Place("b", (x, y, z)) for x in (-1.5, 1.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5))
    robot = Mechanism(b.build(), forces=(Ground("ground", corners, 1e5, 3e1, 0.5, 1e2, (0.0, 1.0, 0.0)),))
    run = simulate(system(robot, mode="interpreted"), "bdf1", ([-1.0, 2.0, 0.0], [5.0, 70.0, 2.0]), 5e-4, 1200,
                   options=Newton(iterations=100))
    q, v = ca.SX.sym("q", 3), ca.SX.sym("v", 3)
    energy = ca.Function("E", [q, v], [robot.energy(q, v)])
    found = float(energy(run.q[-1], run.v[-1])) - float(energy(run.q[0], np.zeros(3)))
    assert found == pytest.approx(-4.4208045e3, rel=1e-8)
    assert run.q[-1, 1] == pytest.approx(0.5 - 3 * 980 / 4e5, rel=1e-8)


@pytest.mark.row("003:D24")
def test_contact_enters_redmax_with_its_derivatives():
    model = bodies(2, (0.0, 0.0, -9.81))
    ground = Ground("g", (Place("b0", X1), Place("b1", X2)), 30.0, 2.0, 0.4, 1e2, origin=(0.0, 0.0, 9.0))
    q, v = state(model, 7)
    plain, touched = redmax(Mechanism(model), q, v), redmax(Mechanism(model, forces=(ground,)), q, v)
    f, K, D, _ = values(model, ground, q, v)
    for name, part in (("f", f), ("K", K), ("D", D)):
        np.testing.assert_allclose(number(getattr(touched, name) - getattr(plain, name)), part, atol=1e-9)
    assert np.abs(f).max() > 1.0


@pytest.mark.parametrize(("force", "words"), [
    (Ground("g", (), 1.0), r"force 'g': needs at least one point"),
    (Ground("g", (Place("b0"),), -1.0), r"stiffness must be finite and at least 0"),
    (Ground("g", (Place("b0"),), 1.0, normal=(0.0, 0.0, 0.0)), r"normal must be three finite numbers"),
    (Ground("g", (Place("b7"),), 1.0), r"no frame named 'b7'"),
    (JointStop("s", "j0", (0.0,), (1.0,), 1.0), r"'free_flyer' has no coordinates to limit"),
])
def test_wrong_contacts_are_named(force, words):
    with pytest.raises(ModelError, match=words):
        Mechanism(ONE, forces=(force,))
