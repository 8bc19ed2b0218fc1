"""Closed-form derivatives of every joint against complex steps, differences, the Maurer-Cartan identity; splines; free joints."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from arrays import column, number
from joint_examples import ALL, FRAMES, GRID, example, teach
from scipy.integrate import solve_ivp

import dynamics
from dynamics import ModelError, spatial
from dynamics import algorithms as alg
from dynamics.derivatives.complex_step import complex_step_jacobian
from dynamics.derivatives.manifold import structure_constants
from dynamics.joints import exponential, record
from dynamics.joints.derivatives import joint_derivatives, slices
from dynamics.joints.splines import basis, cumulative
from dynamics.lie import euler, so3
from dynamics.model import BodyInertia, Builder, Joint, Model, Placement
from dynamics.model.records import Body
from dynamics.model.rigid import merged, moved
from dynamics.model.synthetic import random_inertia

CHARTS = tuple(euler.SEQUENCES)
KINDS = [k for k in ALL if k not in ("fixed", "euler", "free_3d", "free_3d_reversed")] + [f"euler-{c}" for c in CHARTS] + [
    f"{name}-{c}" for name in ("free_3d", "free_3d_reversed") for c in ("xyz", "zxz", "rotation_vector")]


@pytest.fixture(autouse=True)
def _kinds(monkeypatch):
    teach(monkeypatch)


def joint_record(kind):
    name, _, chart = kind.partition("-")
    joint = example(Joint("j", "revolute"), name)
    return replace(joint, chart=chart) if chart else joint


def point(kind, seed=5):
    joint, rng = record(joint_record(kind)), np.random.default_rng(seed)
    q = joint.random(rng, np.full(joint.nq, -np.inf), np.full(joint.nq, np.inf))
    return joint, q, *rng.uniform(-1, 1, (2, joint.nv))


def jacobian(kind, f, q, v):
    """Along every velocity component, by complex steps: [entries, nv] of a function of (q, v)."""
    x, y = ca.SX.sym("q", kind.nq), ca.SX.sym("v", kind.nv)
    function = ca.Function("f", [x, y], [ca.vec(ca.densify(ca.SX(f(x, y))))])
    return number(complex_step_jacobian(function)(q, v)) @ number(kind.rate(ca.DM(q)))


def stacked(parts):
    return np.column_stack([number(x).ravel(order="F") for x in parts])


# each row on its own joints; the other charts and the joints that only tests have are sampled
OWN = {"revolute": ["003:D06"], "prismatic": ["003:D07"], "planar": ["003:D08"], "translation": ["003:D09"],
       "euler-xyz": ["003:D10"], "universal": ["003:D12"], "exponential": ["003:D13", "003:D14"], "free_2d": ["003:D15"],
       "free_3d-xyz": ["003:D16"], "free_3d-rotation_vector": ["003:D16"], **dict.fromkeys(
           ("composite", "free_3d_reversed-xyz", "free_3d_reversed-rotation_vector", "spline_curve", "frame_spline"), ["003:D17"])}


def own_rows(kind):
    if kind in ("spline_surface", "wobble"):
        return pytest.param(kind, marks=pytest.mark.slow)
    rows = OWN.get(kind, ["003:D11"] if kind.startswith("euler") else [])
    return pytest.param(kind, marks=[pytest.mark.row(row) for row in rows] + ([] if kind in OWN else [pytest.mark.sample(5)]))


@pytest.mark.parametrize("kind", [own_rows(kind) for kind in KINDS])
def test_family_of_derivatives_by_complex_steps(kind):
    joint, q, v, _ = point(kind)
    found = joint_derivatives(joint, ca.DM(q), ca.DM(v))

    def term(name):
        return lambda x, y: getattr(joint_derivatives(joint, x, y), name)

    size = 1 + max(np.abs(number(x)).max() for x in found.dS_dot)
    tolerance = {"atol": 3e-12 * size}
    np.testing.assert_allclose(stacked(found.dS), jacobian(joint, lambda x, y: joint.subspace(x), q, v), **tolerance)
    np.testing.assert_allclose(stacked(found.dS_dot), jacobian(joint, term("S_dot"), q, v), **tolerance)
    np.testing.assert_allclose(stacked(found.dA), jacobian(joint, term("A"), q, v), **tolerance)
    np.testing.assert_allclose(stacked(found.dA_dot), jacobian(joint, term("A_dot"), q, v), **tolerance)
    along = jacobian(joint, lambda x, y: joint.subspace(x), q, v) @ v
    np.testing.assert_allclose(stacked([found.S_dot]).ravel(), along, **tolerance)
    np.testing.assert_allclose(stacked([found.A_dot]).ravel(), jacobian(joint, term("A"), q, v) @ v, **tolerance)
    # D_l D_k S, one derivative at a time
    known = slices(joint, ca.DM(q))
    for k in range(joint.nv):
        second = [known.second(k, l) for l in range(joint.nv)]
        np.testing.assert_allclose(stacked(second), jacobian(joint, lambda x, y, k=k: slices(joint, x).first[k], q, v), **tolerance)


@pytest.mark.parametrize(("kind", "axes", "velocities"), [
    pytest.param("prismatic", 1, [[0.0, 0.6, 0.8]], marks=pytest.mark.row("003:D07")),
    pytest.param("planar_translation", 0, np.eye(3)[:2], marks=pytest.mark.row("003:D08")),
    pytest.param("translation", 0, np.eye(3), marks=pytest.mark.row("003:D09"))])
def test_what_only_slides_as_printed(kind, axes, velocities):
    """``dA_k = (0, [e_k]; 0, 0)`` over twists [linear; angular], dA/dt the same along v, and nothing else changes."""
    joint, rng = record(Joint("j", kind, axes=tuple(map(tuple, velocities))[:axes])), np.random.default_rng(0)
    q, v = rng.uniform(-1, 1, (2, joint.nv))
    found = joint_derivatives(joint, ca.DM(q), ca.DM(v))

    def shift(x):
        return np.block([[np.zeros((3, 3)), number(so3.hat(ca.DM(np.asarray(x, float))))], [np.zeros((3, 6))]])

    np.testing.assert_allclose(number(found.A), np.eye(6) + shift(q @ velocities), atol=1e-15)
    np.testing.assert_allclose(number(found.A_dot), shift(v @ velocities), atol=1e-15)
    for k, e in enumerate(np.array(velocities)):
        np.testing.assert_allclose(number(found.dA[k]), shift(e), atol=1e-15)
        for still in (found.dA_dot[k], found.dS[k], found.dS_dot[k]):
            assert not number(still).any()


@pytest.mark.row("003:J00", "003:D02")
@pytest.mark.parametrize("kind", KINDS)
def test_maurer_cartan(kind):
    """``D_b S_a - D_a S_b = S_a x S_b - S [a, b]``; the bracket [a, b] of velocity components vanishes where they are rates."""
    joint, q, _, _ = point(kind, 2)
    S, first = number(joint.subspace(ca.DM(q))), [number(x) for x in slices(joint, ca.DM(q)).first]
    if joint.is_vector_space:
        bracket = np.zeros((joint.nv,) * 3)
    else:
        model = Model("one", (Body("b", -1, joint_record(kind)),))
        bracket = np.asarray(structure_constants(model))
    for a in range(joint.nv):
        for b in range(joint.nv):
            left = first[b][:, a] - first[a][:, b]
            right = column(spatial.cross_motion(ca.DM(S[:, a]), ca.DM(S[:, b]))) - S @ bracket[:, a, b]
            np.testing.assert_allclose(left, right, atol=1e-11)


# ------------------------------------------------------------------------------------------------ rotation vectors
@pytest.mark.row("003:J12", "003:D13", "003:D14")
@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-8, 1e-4, 0.1, 1.0, 2.0, np.pi, 6.0])
def test_rotation_vectors_near_zero_and_far(angle):
    """Limits at zero, the quotient form of Gallego and Yezzi where it has digits, and no NaN anywhere."""
    joint, axis = record(Joint("j", "exponential")), np.array([0.48, -0.6, 0.64])
    q, v = angle * axis, np.array([0.3, -0.7, 0.5])
    d = joint_derivatives(joint, ca.DM(q), ca.DM(v))
    S, S_dot = number(spatial.angular(d.S)), number(spatial.angular(d.S_dot))
    hat = lambda x: number(so3.hat(x))  # noqa: E731
    if angle < 1e-6:
        np.testing.assert_allclose(S, np.eye(3) - hat(q) / 2, atol=1e-12)
        np.testing.assert_allclose(S_dot, -hat(v) / 2, atol=1e-7)
        for k in range(3):
            np.testing.assert_allclose(number(spatial.angular(d.dS[k])), -hat(np.eye(3)[k]) / 2, atol=1e-7)
            assert np.all(np.isfinite(number(d.dS_dot[k])))
        return
    R, eye = number(joint.transform(ca.DM(q)).R), np.eye(3)
    for j in range(3):
        dR = (q[j] * hat(q) + hat(np.cross(q, (eye - R) @ eye[j]))) / (q @ q) @ R
        np.testing.assert_allclose(R.T @ dR, hat(S[:, j]), atol=1e-15 / angle + 1e-13)
    assert np.linalg.det(S) == pytest.approx(2 * (1 - np.cos(angle)) / angle**2, abs=1e-7)
    step = jacobian(joint, lambda x, y: joint_derivatives(joint, x, y).S_dot, q, v)
    np.testing.assert_allclose(stacked(d.dS_dot), step, atol=1e-12)


@pytest.mark.row("003:J13")
@pytest.mark.parametrize("turns", [0.6, 0.9, 1.4, 2.3])
def test_reparametrisation_keeps_the_motion(turns):
    joint = record(Joint("j", "exponential"))
    q, v = turns * 2 * np.pi * np.array([0.48, -0.6, 0.64]), np.array([0.3, -0.7, 0.5])
    new, rate = exponential.reparametrised(q, v)
    assert np.linalg.norm(new) <= np.pi
    assert np.linalg.norm(new - q) > 1.0
    for f in (lambda x, y: joint.transform(ca.DM(x)).R, lambda x, y: joint.subspace(ca.DM(x)) @ y):
        np.testing.assert_allclose(number(f(new, rate)), number(f(q, v)), atol=1e-13)
    kept = exponential.reparametrised(new, rate)
    np.testing.assert_allclose(kept[0], new, atol=0)


def test_a_full_turn_has_no_other_parameters():
    with pytest.raises(ValueError, match="full turn"):
        exponential.reparametrised(2 * np.pi * np.array([0.0, 1.0, 0.0]), np.ones(3))


# ------------------------------------------------------------------------------------------------ splines
@pytest.mark.row("003:J18")
def test_the_cubic_basis():
    """Partition of unity, cumulative sums, derivatives; the polynomials of the printed matrix on one segment."""
    u = np.linspace(0, 0.999, 7)
    value = lambda f, x, order=0: float(f(ca.DM(x), order))  # noqa: E731
    printed = [(1 - u) ** 3 / 6, (3 * u**3 - 6 * u**2 + 4) / 6, (-3 * u**3 + 3 * u**2 + 3 * u + 1) / 6, u**3 / 6]
    for i in range(4):
        np.testing.assert_allclose([value(basis, x + 3 - i) for x in u], printed[i], atol=1e-15)
    for x in (0.1, 0.7, 1.3, 2.5, 3.4):
        assert sum(value(basis, x - k) for k in range(-5, 5)) == pytest.approx(1.0, abs=1e-15)
        assert value(cumulative, x) == pytest.approx(sum(value(basis, x - k) for k in range(5)), abs=1e-15)
        for f in (basis, cumulative):
            for order in range(3):
                slope = (value(f, x + 1e-5, order) - value(f, x - 1e-5, order)) / 2e-5
                assert value(f, x, order + 1) == pytest.approx(slope, abs=1e-8)
    assert [value(cumulative, x) for x in (-0.5, 0.0, 3.0, 50.0)] == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.row("003:J19")
def test_a_curve_of_frames_is_twice_continuously_differentiable_and_moves_with_its_frames():
    joint = record(Joint("j", "frame_spline", frames=FRAMES))
    for s in (1.0, 2.0):
        left, right = (joint_derivatives(joint, ca.DM(s + e), ca.DM(1.0)) for e in (-1e-9, 1e-9))
        for x, y in ((left.S, right.S), (left.dS[0], right.dS[0])):
            np.testing.assert_allclose(number(x), number(y), atol=1e-6)
        assert np.abs(number(left.dS_dot[0] - right.dS_dot[0])).max() > 1e-3  # the third derivative jumps
    # a spline through equal steps of one screw is that screw
    screw = np.array([0.2, 0.1, -0.3, 0.1, 0.4, 0.2])
    from dynamics.lie import se3

    frames = [se3.exp(k * screw) for k in range(5)]
    even = record(Joint("j", "frame_spline", frames=tuple(
        Placement(tuple(map(tuple, number(f.R))), tuple(column(f.p))) for f in frames)))
    for s in (0.0, 0.4, 1.7):
        expected = se3.exp((s + 1) * screw)  # the middle of the first four frames is reached at s = 1/2
        pose = even.transform(ca.DM(s))
        np.testing.assert_allclose(number(pose.R), number(expected.R), atol=1e-13)
        np.testing.assert_allclose(number(pose.p), number(expected.p), atol=1e-13)
        np.testing.assert_allclose(column(even.subspace(ca.DM(s))), screw, atol=1e-13)


@pytest.mark.row("003:J20")
def test_a_surface_is_its_splines():
    joint, grid = record(Joint("j", "spline_surface", grid=GRID)), np.array(GRID)
    s, t = 0.4, 1.3
    one = np.array([(1 - s) ** 3, 3 * s**3 - 6 * s**2 + 4, -3 * s**3 + 3 * s**2 + 3 * s + 1, s**3]) / 6
    u = t - 1
    two = np.array([(1 - u) ** 3, 3 * u**3 - 6 * u**2 + 4, -3 * u**3 + 3 * u**2 + 3 * u + 1, u**3]) / 6
    x = np.einsum("i,j,ijk->k", one, two, grid[:, 1:5])
    pose = joint.transform(ca.DM([s, t]))
    np.testing.assert_allclose(column(pose.p), x[:3], atol=1e-14)
    turned = euler.to_matrix("xyz", x[3:])
    np.testing.assert_allclose(number(pose.R), number(turned), atol=1e-14)


@pytest.mark.parametrize(("joint", "words"), [
    (Joint("j", "frame_spline", frames=FRAMES[:3]), r"joint 'j'.*at least four frames, got 3"),
    (Joint("j", "frame_spline", frames=(*FRAMES[:3], Placement(((1.0, 0.0, 0.0),) * 3))), r"frame 3 of the curve has no rotation"),
    (Joint("j", "frame_spline"), r"'frame_spline' needs frames"),
    (Joint("j", "spline_surface", grid=GRID[:3]), r"joint 'j'.*4 x 4 points of six finite numbers, got shape \(3, 5, 6\)"),
    (Joint("j", "spline_surface", grid=(*GRID, GRID[0][:4])), r"differ in length"),
    (Joint("j", "free_3d", chart="xyx "), r"joint 'j'.*no Euler sequence"),
    (Joint("j", "exponential", chart="xyz"), r"'exponential' takes no chart"),
])
def test_wrong_splines_and_charts_are_named(joint, words):
    with pytest.raises(ModelError, match=words):
        record(joint)


# ------------------------------------------------------------------------------------------------ one body on each
def _body(joint, inertia, gravity=(0.0, 0.0, -9.81)):
    b = Builder("body", gravity=gravity)
    b.body("body", parent="world", joint=joint, inertia=inertia)
    return b.build()


def _flight(model, q, v, until):
    """Pose and world twist at the end."""
    x = ca.SX.sym("q", model.nq)
    f, N = dynamics.make(model, "forward_dynamics"), ca.Function("N", [x], [ca.densify(ca.SX(alg.rate_matrix(model, x)))])

    def slope(t, s):
        q, v = s[:model.nq], s[model.nq:]
        return np.r_[number(N(q)) @ v, column(f(q, v, np.zeros(model.nv)))]

    end = solve_ivp(slope, (0, until), np.r_[q, v], rtol=1e-11, atol=1e-12).y[:, -1]
    pose = alg.frame_pose(model, end[:model.nq], "body")
    return np.r_[column(pose.p), number(pose.R).ravel(), column(
        alg.frame_velocity(model, end[:model.nq], end[model.nq:], "body", "world_aligned"))]


@pytest.mark.row("003:J16", "003:J17")
@pytest.mark.parametrize(("kind", "chart"), [("free_3d", "xyz"), ("free_3d_reversed", "zyx"), ("free_3d", "rotation_vector"),
                                             ("free_3d_reversed", "rotation_vector")])
def test_free_joints_fly_like_a_free_flyer(kind, chart):
    rng = np.random.default_rng(3)
    inertia = random_inertia(rng)
    reference = _body(Joint("j", "free_flyer"), inertia)
    model = _body(Joint("j", kind, chart=chart), inertia)
    q = np.r_[0.2, -0.1, 0.3, 0.4, 0.5, -0.3]
    v = rng.uniform(-1, 1, 6)
    pose = alg.frame_pose(model, q, "body")
    from dynamics.lie import quaternion

    theirs = np.r_[column(pose.p), column(quaternion.from_matrix(pose.R))]
    twist = column(model.kind(0).subspace(ca.DM(q)) @ v)
    np.testing.assert_allclose(_flight(model, q, v, 0.6), _flight(reference, theirs, twist, 0.6), atol=1e-8)


@pytest.mark.row("003:J15")
def test_a_free_body_in_the_plane_moves_like_a_planar_joint():
    rng = np.random.default_rng(4)
    inertia = BodyInertia(1.3, (0.2, -0.1, 0.0), ((0.1, 0.0, 0.0), (0.0, 0.1, 0.0), (0.0, 0.0, 0.2)))
    q, v = rng.uniform(-1, 1, (2, 3))
    free, planar = (_body(Joint("j", kind), inertia, (0.0, -9.81, 0.0)) for kind in ("free_2d", "planar"))
    twist = column(free.kind(0).subspace(ca.DM(q)) @ v)
    body = np.r_[twist[:2], twist[5]]
    np.testing.assert_allclose(_flight(free, q, v, 1.0), _flight(planar, q, body, 1.0), atol=1e-8)


@pytest.mark.row("003:J01")
def test_welded_bodies_are_one_body():
    rng = np.random.default_rng(6)
    one, two = random_inertia(rng), random_inertia(rng)
    place = example(Joint("w", "fixed"), "fixed").placement
    place = replace(place, position=(0.3, -0.2, 0.1))
    b = Builder("welded")
    b.body("first", parent="world", joint=Joint("j", "exponential"), inertia=one)
    b.body("second", parent="first", joint=Joint("w", "fixed", place), inertia=two)
    welded, whole = b.build(), _body(Joint("j", "exponential"), merged([one, moved(place, two)]))
    q, v, a = rng.uniform(-1, 1, (3, 3))
    assert record(Joint("w", "fixed")).subspace(ca.DM(0, 1)).shape == (6, 0)
    for name, arguments in (("inverse_dynamics", (q, v, a)), ("mass_matrix", (q,)), ("forward_dynamics", (q, v, a))):
        np.testing.assert_allclose(number(dynamics.make(welded, name)(*arguments)), number(dynamics.make(whole, name)(*arguments)),
                                   atol=1e-10)
