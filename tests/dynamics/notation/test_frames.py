"""Frames, transforms, twists and wrenches: every relation against its definition on random motions, NumPy and SciPy only."""

import casadi as ca
import numpy as np
import pytest
import se3_trajectories as ref
from arrays import num
from scipy.linalg import expm

from dynamics import spatial
from dynamics.algorithms.moving_frames import rigid_body_velocity
from dynamics.errors import FrameMismatchError, ModelError
from dynamics.lie import se3, so3
from dynamics.model.synthetic import random_rotation
from dynamics.notation import differentials, tagged, twists, wrenches
from dynamics.notation import representation as rep

NAMES = list(rep.REPRESENTATIONS)
SEEDS = range(4)


def close(a, b, tol=1e-9):
    np.testing.assert_allclose(num(a) if isinstance(a, ca.DM) else a, num(b) if isinstance(b, ca.DM) else b, atol=tol, rtol=0)


def pose(rng):
    H = np.eye(4)
    H[:3, :3], H[:3, 3] = random_rotation(rng), rng.standard_normal(3)
    return H


# ------------------------------------------------------------------------------------------------ preliminaries
@pytest.mark.row("004:T-003", "004:T-005")
def test_groups_are_closed_and_recognised():
    rng = np.random.default_rng(0)
    for _ in range(5):
        G, H = pose(rng), pose(rng)
        for product in (se3.to_matrix(se3.compose(se3.from_matrix(G), se3.from_matrix(H))), se3.to_matrix(
                se3.inverse(se3.from_matrix(G)))):
            assert rep.is_SE3(product)
            assert rep.is_SO3(product[:3, :3])
        close(se3.to_matrix(se3.compose(se3.from_matrix(G), se3.from_matrix(H))), G @ H)
        mirrored = G[:3, :3] @ np.diag([1.0, 1.0, -1.0])
        assert not rep.is_SO3(mirrored)  # orthogonal, determinant -1
        assert not rep.is_SO3(1.01 * G[:3, :3])
        broken = G.copy()
        broken[3, 0] = 0.1
        assert not rep.is_SE3(broken)
        with pytest.raises(ModelError, match="right-handed"):
            rep.as_pose((mirrored, np.zeros(3)))


@pytest.mark.row("004:T-004", "004:T-006", "004:T-007", "004:T-008", "003:M02")
def test_algebras_their_hats_and_commutators():
    rng = np.random.default_rng(1)
    a, b, u, w = rng.standard_normal(3), rng.standard_normal(3), rng.standard_normal(6), rng.standard_normal(6)
    A, B = num(so3.hat(a)), num(so3.hat(b))
    close(A, ref.skew(a))
    close(A, -A.T)
    close(so3.vee(A), a)
    close(A @ B - B @ A, num(so3.hat(np.cross(a, b))))
    U, W = num(se3.hat(u)), num(se3.hat(w))
    close(U, ref.hat6(u))
    close(se3.vee(U), u)
    close(se3.vee(U @ W - W @ U), num(spatial.cross_motion(ca.DM(u), ca.DM(w))))
    # the linear part comes first: a pure translation is the one without rotation
    close(expm(num(se3.hat([1, 0, 0, 0, 0, 0])))[:3, 3], [1, 0, 0])
    close(expm(num(se3.hat([1, 0, 0, 0, 0, 0])))[:3, :3], np.eye(3))


@pytest.mark.row("004:T-002", "004:T-009", "004:T-010", "004:T-011", "004:T-012")
def test_differentials_of_vector_and_matrix_maps():
    rng = np.random.default_rng(2)
    x, y = ca.SX.sym("x", 3), ca.SX.sym("y", 2, 2)
    f = ca.vertcat(x[0] * x[1], ca.sin(x[2]), ca.dot(x, x), x[0] ** 3)
    G = ca.blockcat([[x[0] * y[0, 0], ca.sin(y[1, 0]) + x[1], 1], [x[2] * y[1, 1], y[0, 1] ** 2, x[0] * x[2]]])
    z, zy = ca.SX.sym("z", 3), ca.SX.sym("zy", 2, 2)
    Df = ca.Function("Df", [x, z], [differentials.differential(f, x, z), ca.jacobian(f, x) @ z])
    parts = differentials.differentials(G, [x, y], [z, zy])
    DG = ca.Function("DG", [x, y, z, zy], [*parts])
    value = ca.Function("G", [x, y], [G])
    fx = ca.Function("f", [x], [f])
    a, d, b, e = rng.standard_normal(3), rng.standard_normal(3), rng.standard_normal((2, 2)), rng.standard_normal((2, 2))
    close(num(Df(a, d)[0]), num(Df(a, d)[1]))
    close(num(Df(a, d)[0]), ref.derivative(lambda t: num(fx(a + t * d)), 0.0))
    first, second = map(num, DG(a, b, d, e))
    assert first.shape == (2, 3)
    close(first, ref.derivative(lambda t: num(value(a + t * d, b)), 0.0))
    close(second, ref.derivative(lambda t: num(value(a, b + t * e)), 0.0))
    close(first + second, ref.derivative(lambda t: num(value(a + t * d, b + t * e)), 0.0))
    # the remainder is small against the step, in the Frobenius norm: the defining limit
    moved = lambda s: num(value(a + s * d, b + s * e)) - num(value(a, b)) - s * (first + second)  # noqa: E731
    remainder = [np.linalg.norm(moved(s)) / s for s in (1e-2, 1e-4)]
    assert remainder[1] < 0.02 * remainder[0]


# ------------------------------------------------------------------------------------------------ points and poses
@pytest.mark.row("004:T-023", "004:T-024", "004:T-025", "004:T-026", "000:K-090")
def test_coordinates_of_a_point():
    """World triads of two frames; coordinates are dot products with the axes, the pose maps one set to the other."""
    rng = np.random.default_rng(3)
    axes_A, axes_B, o_A, o_B, p = random_rotation(rng), random_rotation(rng), *rng.standard_normal((3, 3))
    A_p = np.array([(p - o_A) @ axes_A[:, k] for k in range(3)])
    B_p = np.array([(p - o_B) @ axes_B[:, k] for k in range(3)])
    A_R_B = np.array([[axes_A[:, i] @ axes_B[:, j] for j in range(3)] for i in range(3)])
    A_o_B = np.array([(o_B - o_A) @ axes_A[:, k] for k in range(3)])
    A_H_B = rep.as_pose((A_R_B, A_o_B))  # orientation from the axes alone, whatever the origins
    close(num(spatial.act_point(A_H_B, ca.DM(B_p))), A_p)
    matrix = num(se3.to_matrix(se3.Pose(*A_H_B)))
    close(matrix @ [*B_p, 1], [*A_p, 1])


@pytest.mark.row("000:X-027", "000:K-091", "000:X-092")
def test_inverse_and_composition_of_poses():
    rng = np.random.default_rng(4)
    G, H = pose(rng), pose(rng)
    inverse = spatial.inverse(rep.as_pose(G))
    close(num(se3.to_matrix(se3.Pose(*inverse))), np.linalg.inv(G))
    close(G[:3, 3], -G[:3, :3] @ num(inverse.p))
    close(num(se3.to_matrix(se3.Pose(*spatial.compose(rep.as_pose(G), rep.as_pose(H))))), G @ H)
    symbolic = se3.to_matrix(se3.inverse(se3.from_matrix(ca.SX.sym("H", 4, 4))))
    close(np.array(ca.evalf(symbolic[3, :])).ravel(), [0, 0, 0, 1])  # the structure survives symbolically: no general inverse


@pytest.mark.row("004:T-001", "004:T-020", "004:T-021", "004:T-022")
def test_frames_have_names_and_only_what_meets_composes():
    rng = np.random.default_rng(5)
    A_H_B, B_H_C = tagged.TaggedPose("A", "B", pose(rng)), tagged.TaggedPose("B", "C", pose(rng))
    A_H_C = A_H_B @ B_H_C
    assert (A_H_C.A, A_H_C.B) == ("A", "C")
    close(num(se3.to_matrix(se3.Pose(*A_H_C.transform))), A_H_B.H @ B_H_C.H)
    with pytest.raises(FrameMismatchError, match="'B' meets frame 'A'"):
        A_H_B @ A_H_C
    with pytest.raises(FrameMismatchError, match="a pose acts on"):
        A_H_B @ 3.0
    # the composite frame: origin of B, axes of A
    BA = A_H_B.composite()
    assert BA.B == tagged.at_with_axes("B", "A") == "B[A]"
    close(num(BA.transform.R), np.eye(3))
    close(num(BA.transform.p), A_H_B.H[:3, 3])

    p, v, u, f = rng.standard_normal(3), *rng.standard_normal((3, 6))
    close(num((A_H_B @ tagged.TaggedPoint("B", p)).value), (A_H_B.H @ [*p, 1])[:3])
    twist = tagged.TaggedTwist("B", "A", "B", v)
    moved = A_H_B @ twist
    assert str(moved) == "A_v_{A,B}"
    close(num(moved.value), ref.adjoint(A_H_B.H) @ v)
    with pytest.raises(FrameMismatchError, match="'C' meets frame 'B'"):
        tagged.TaggedPose("A", "C", pose(rng)) @ twist
    total = twist + tagged.TaggedTwist("B", "B", "D", u)
    assert (total.C, total.A, total.B) == ("B", "A", "D")
    close(num(total.value), v + u)
    assert ((-twist).A, (-twist).B) == ("B", "A")
    with pytest.raises(FrameMismatchError, match="chain"):
        twist + tagged.TaggedTwist("B", "C", "D", u)
    with pytest.raises(FrameMismatchError, match="coordinates"):
        twist + tagged.TaggedTwist("A", "B", "D", u)
    with pytest.raises(FrameMismatchError, match="coordinates"):
        twist.cross(tagged.TaggedTwist("A", "B", "D", u))
    wrench = tagged.TaggedWrench("B", f)
    assert float(wrench.power(twist)) == pytest.approx(f @ v)
    assert float((A_H_B @ wrench).power(moved)) == pytest.approx(f @ v)
    with pytest.raises(FrameMismatchError, match="power"):
        wrench.power(moved)
    with pytest.raises(FrameMismatchError, match="sum of wrenches"):
        wrench + tagged.TaggedWrench("A", f)
    M = np.diag([2.0, 2, 2, 1, 3, 2])
    inertia = tagged.TaggedInertia("B", "B", M)
    momentum = inertia @ twist
    close(num((A_H_B @ momentum).value), num(((A_H_B @ inertia) @ moved).value))
    with pytest.raises(FrameMismatchError, match="body"):
        inertia @ tagged.TaggedTwist("B", "A", "D", v)
    J = tagged.TaggedJacobian("B", "A", "E", "B", np.eye(6))
    close(num((A_H_B @ J).velocity(v, "B").value), ref.adjoint(A_H_B.H) @ v)
    with pytest.raises(FrameMismatchError, match="base coordinates"):
        J.velocity(v, "B[A]")
    a = tagged.TaggedAcceleration("B", "A", "B", u)
    close(num((A_H_B @ a).value), ref.adjoint(A_H_B.H) @ u)


# ------------------------------------------------------------------------------------------------ twists
@pytest.mark.row("004:T-030")
@pytest.mark.parametrize("seed", SEEDS)
def test_the_derivative_of_coordinates_depends_on_the_frame(seed):
    rng = np.random.default_rng(seed)
    H, B_p = ref.motion(rng), ref.motion(rng)
    t = 0.3
    A_pdot = ref.derivative(lambda s: (H(s) @ [*B_p(s)[:3, 3], 1])[:3], t)
    B_pdot = ref.derivative(lambda s: B_p(s)[:3, 3], t)
    R, v, p = H(t)[:3, :3], ref.left(H, t), B_p(t)[:3, 3]
    assert np.abs(A_pdot - R @ B_pdot).max() > 1e-2
    close(A_pdot, R @ num(rigid_body_velocity(v[:3], v[3:], p)) + R @ B_pdot)


@pytest.mark.row("004:T-031", "004:T-032", "004:T-033", "004:T-034", "004:T-035", "004:T-036", "004:T-037", "004:T-044",
                 "004:T-050")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", SEEDS)
def test_twists_from_pose_rates_and_back(seed, name):
    H, t = ref.motion(np.random.default_rng(seed)), 0.2
    now, rate = H(t), ref.derivative(H, t)
    expected = ref.BY_DEFINITION[name](H, t)
    close(num(twists.twist_from_pose_rate(now[:3, :3], now[:3, 3], rate[:3, :3], rate[:3, 3], name)), expected)
    close(num(twists.homogeneous_rate(now, expected, name)), rate)
    # right-trivialised linear velocity is that of the body point now at A's origin, not the velocity of o_B
    if name == "right":
        point = (np.linalg.inv(now) @ [0, 0, 0, 1])[:3]
        close(expected[:3], ref.derivative(lambda s: (H(s) @ [*point, 1])[:3], t))
        assert np.abs(expected[:3] - rate[:3, 3]).max() > 1e-2


@pytest.mark.row("004:T-038", "004:T-039", "004:T-040", "004:T-041")
@pytest.mark.parametrize("seed", SEEDS)
def test_velocity_transform_is_the_conjugation(seed):
    rng = np.random.default_rng(seed)
    G, H, xi = pose(rng), pose(rng), rng.standard_normal(6)
    close(num(twists.A_X_B(G)), ref.adjoint(G))
    close(num(twists.adjoint_action(G, xi)), num(twists.A_X_B(G)) @ xi)
    close(num(twists.B_X_A(G)), np.linalg.inv(ref.adjoint(G)))
    close(num(twists.A_X_B(G @ H)), num(twists.A_X_B(G)) @ num(twists.A_X_B(H)))
    close(num(se3.adjoint(se3.from_matrix(G))), num(twists.A_X_B(G)))
    M = ref.motion(rng)
    close(ref.right(M, 0.1), num(twists.A_X_B(M(0.1))) @ ref.left(M, 0.1))


@pytest.mark.row("004:T-042", "004:T-043", "000:X-045", "000:K-106")
@pytest.mark.parametrize("seed", SEEDS)
def test_twists_in_a_third_frame_and_their_chain(seed):
    rng = np.random.default_rng(seed)
    A_H_B, B_H_D, A_H_C = (ref.motion(rng) for _ in range(3))
    t = 0.4
    C_H_A, C_H_B = np.linalg.inv(A_H_C(t)), np.linalg.inv(A_H_C(t)) @ A_H_B(t)

    def in_C(through, twist):
        return num(twists.express(through, twist))

    C_v_AB = in_C(C_H_B, ref.left(A_H_B, t))
    close(C_v_AB, in_C(C_H_A, ref.right(A_H_B, t)))
    close(C_v_AB[3:], num(twists.angular_velocity_in(C_H_B[:3, :3], ref.left(A_H_B, t)[3:])))
    close(C_v_AB[3:], num(twists.angular_velocity_in(C_H_A[:3, :3], ref.right(A_H_B, t)[3:])))
    C_H_D = C_H_B @ B_H_D(t)
    C_v_BD = in_C(C_H_D, ref.left(B_H_D, t))
    C_v_AD = in_C(C_H_D, ref.left(lambda s: A_H_B(s) @ B_H_D(s), t))
    close(C_v_AB + C_v_BD, C_v_AD)
    close(in_C(C_H_A, ref.left(lambda s: np.linalg.inv(A_H_B(s)), t)), -C_v_AB)
    close(num(twists.opposite_twist(A_H_B(t), ref.left(A_H_B, t))), ref.left(lambda s: np.linalg.inv(A_H_B(s)), t))
    # relative twist of two frames known in the world
    close(num(twists.relative_twist(B_H_D(t), ref.left(lambda s: A_H_B(s) @ B_H_D(s), t), ref.left(A_H_B, t))),
          ref.left(B_H_D, t))
    # angular velocities: three in a row, each in its own axes
    D_H_E = ref.motion(rng)
    E_R = {"B": (B_H_D(t) @ D_H_E(t))[:3, :3].T, "D": D_H_E(t)[:3, :3].T}
    total = twists.composed_angular_velocity(E_R["B"], ref.left(A_H_B, t)[3:], E_R["D"], ref.left(B_H_D, t)[3:],
                                             ref.left(D_H_E, t)[3:])
    close(num(total), ref.left(lambda s: A_H_B(s) @ B_H_D(s) @ D_H_E(s), t)[3:])


@pytest.mark.row("000:K-100", "000:K-101", "000:K-102", "000:K-103", "000:K-104", "000:K-105")
@pytest.mark.parametrize("seed", SEEDS)
def test_velocities_of_points_and_of_orientations(seed):
    rng = np.random.default_rng(seed)
    I_H_B, A, P = (ref.motion(rng) for _ in range(3))  # A, P: two points that wander
    t = 0.3
    C, w = I_H_B(t)[:3, :3], ref.left(I_H_B, t)[3:]
    B_r_AP = lambda s: I_H_B(s)[:3, :3].T @ (P(s)[:3, 3] - A(s)[:3, 3])  # noqa: E731
    v_A, v_P = (C.T @ ref.derivative(lambda s, X=X: X(s)[:3, 3], t) for X in (A, P))
    close(num(twists.velocity_of_moving_point(v_A, B_r_AP(t), ref.derivative(B_r_AP, t), w)), v_P)
    # two points fixed to the body
    p1, p2 = rng.standard_normal((2, 3))
    v1, v2 = (C.T @ ref.derivative(lambda s, p=p: (I_H_B(s) @ [*p, 1])[:3], t) for p in (p1, p2))
    close(num(rigid_body_velocity(v1, w, p2 - p1)), v2)
    # local, inverse, global angular velocity and its skew form, from the rates of C and of its transpose
    Cdot = ref.derivative(lambda s: I_H_B(s)[:3, :3], t)
    close(w, ref.unskew(C.T @ Cdot))
    B_w_BI = ref.unskew(ref.derivative(lambda s: I_H_B(s)[:3, :3].T, t) @ C)  # of the inverse rotation, right-trivialised
    close(w, -B_w_BI)
    close(num(twists.angular_velocity_in(C, w)), ref.unskew(Cdot @ C.T))
    close(num(twists.skew_in(C, ref.skew(w))), Cdot @ C.T)


# ------------------------------------------------------------------------------------------------ the table of representations
@pytest.mark.row("004:T-039", "004:T-044")
@pytest.mark.parametrize("source", NAMES)
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.sample(3)
def test_every_representation_becomes_every_other(source, target):
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        H, t, f = ref.motion(rng), 0.1, rng.standard_normal(6)
        v = {name: ref.BY_DEFINITION[name](H, t) for name in NAMES}
        close(num(rep.convert_twist(H(t), v[source], source, target)), v[target])
        g = num(rep.convert_wrench(H(t), f, source, target))
        assert g @ v[target] == pytest.approx(f @ v[source], abs=1e-9)
        for through in NAMES:  # path independence
            close(num(rep.convert_wrench(H(t), rep.convert_wrench(H(t), f, source, through), through, target)), g)
        close(num(rep.motion_map(H(t), target)) @ num(rep.motion_map_inverse(H(t), target)), np.eye(6))
        close(num(rep.force_map(H(t), target)), np.linalg.inv(num(rep.motion_map(H(t), target))).T)


@pytest.mark.row("004:T-051")
@pytest.mark.parametrize("name", NAMES)
def test_rates_of_the_maps(name):
    for seed in SEEDS:
        H, t = ref.motion(np.random.default_rng(seed)), 0.2
        v = ref.left(H, t)
        close(num(rep.motion_map_rate(H(t), v, name)), ref.derivative(lambda s, H=H: num(rep.motion_map(H(s), name)), t), 1e-8)
        back = lambda s, H=H: num(rep.motion_map_inverse(H(s), name))  # noqa: E731
        close(num(rep.motion_map_inverse_rate(H(t), v, name)), ref.derivative(back, t), 1e-8)


def test_table_of_the_three_frames_is_the_printed_one():
    """left, mixed and right as velocity transforms between the frames B, B[A] and A."""
    rng = np.random.default_rng(7)
    H = pose(rng)
    R, o = H[:3, :3], ref.skew(H[:3, 3])
    one, zero = np.eye(3), np.zeros((3, 3))
    expected = {
        ("left", "mixed"): [[R, zero], [zero, R]], ("left", "right"): [[R, o @ R], [zero, R]],
        ("mixed", "left"): [[R.T, zero], [zero, R.T]], ("mixed", "right"): [[one, o], [zero, one]],
        ("right", "left"): [[R.T, -R.T @ o], [zero, R.T]], ("right", "mixed"): [[one, -o], [zero, one]],
    }
    for (source, target), blocks in expected.items():
        close(num(rep.convert_twist(H, np.eye(6), source, target)), np.block(blocks))
        close(num(rep.convert_wrench(H, np.eye(6), source, target)), np.linalg.inv(np.block(blocks)).T)


def test_unknown_representation_is_refused_with_a_hint():
    with pytest.raises(ModelError, match="did you mean 'mixed'"):
        rep.motion_map(np.eye(4), "mixd")


def test_symbolic_graphs_give_the_same_numbers():
    rng = np.random.default_rng(8)
    H, v = pose(rng), rng.standard_normal(6)
    for kind in (ca.SX, ca.MX):
        h, x = kind.sym("H", 4, 4), kind.sym("v", 6)
        f = ca.Function("f", [h, x], [rep.convert_twist(h, x, "kindr", "right"), twists.A_X_B_rate(h, x),
                                     wrenches.A_Xf_B_rate(h, x)])
        for got, expected in zip(f(H, v), (rep.convert_twist(H, v, "kindr", "right"), twists.A_X_B_rate(H, v),
                                           wrenches.A_Xf_B_rate(H, v)), strict=True):
            close(num(got), num(expected), 1e-13)


# ------------------------------------------------------------------------------------------------ cross products
@pytest.mark.row("004:T-051", "004:T-052", "004:T-055", "004:T-056")
@pytest.mark.parametrize("seed", SEEDS)
def test_derivative_of_the_velocity_transform(seed):
    H, t = ref.motion(np.random.default_rng(seed)), 0.25
    rate = ref.derivative(lambda s: ref.adjoint(H(s)), t)
    X, v, A_v = ref.adjoint(H(t)), ref.left(H, t), ref.right(H, t)
    close(num(twists.A_X_B_rate(H(t), v)), rate, 1e-8)
    close(num(spatial.cross_motion_matrix(ca.DM(A_v))) @ X, rate, 1e-8)  # Ad ad_left = ad_right Ad
    close(X @ num(spatial.cross_motion_matrix(ca.DM(v))), num(spatial.cross_motion_matrix(ca.DM(X @ v))) @ X)
    close(num(spatial.cross_motion_matrix(ca.DM(v))), num(se3.ad(v)))
    # the left twist, not the right one, belongs behind the transform
    assert np.abs(X @ num(spatial.cross_motion_matrix(ca.DM(A_v))) - rate).max() > 1e-2


@pytest.mark.row("004:T-053", "000:X-054", "003:M09")
def test_cross_product_is_a_lie_bracket():
    rng = np.random.default_rng(9)
    u, v, w = rng.standard_normal((3, 6))
    x = lambda a: num(spatial.cross_motion_matrix(ca.DM(a)))  # noqa: E731
    close(x(u) @ v, -x(v) @ u)
    close(x(u) @ u, np.zeros(6))
    close(x(u) @ x(v) @ w + x(v) @ x(w) @ u + x(w) @ x(u) @ v, np.zeros(6))
    close(x(x(u) @ v), x(u) @ x(v) - x(v) @ x(u))
    close(x(u) @ v, num(spatial.cross_motion(ca.DM(u), ca.DM(v))))


# ------------------------------------------------------------------------------------------------ wrenches
@pytest.mark.row("004:T-080", "004:T-081", "004:T-082", "004:T-086")
@pytest.mark.parametrize("seed", SEEDS)
def test_wrench_transform_moves_the_moment_and_keeps_the_power(seed):
    rng = np.random.default_rng(seed)
    H, B_f = pose(rng), rng.standard_normal(6)
    R, o = H[:3, :3], H[:3, 3]
    A_f = num(wrenches.express(H, B_f))
    close(A_f, [*(R @ B_f[:3]), *(R @ B_f[3:] + np.cross(o, R @ B_f[:3]))])
    close(num(wrenches.A_Xf_B(H)), np.linalg.inv(ref.adjoint(H)).T)
    close(num(wrenches.A_Xf_B(H)), num(se3.coadjoint(se3.from_matrix(H))))
    close(num(wrenches.B_Xf_A(H)), ref.adjoint(H).T)
    B_o_A = -R.T @ o  # the two printed forms of the same block
    close(num(wrenches.A_Xf_B(H))[3:, :3], -R @ ref.skew(B_o_A))
    v = rng.standard_normal(6)
    assert float(wrenches.power(A_f, ref.adjoint(H) @ v)) == pytest.approx(B_f @ v)
    # a force at a point, and a couple: moment about the origin of the frame
    point, force, couple = rng.standard_normal((3, 3))
    close(num(wrenches.wrench_of_force(point, force, couple)), [*force, *(np.cross(point, force) + couple)])
    close(num(wrenches.wrench_of_force(point, force))[3:], np.cross(point, force))


@pytest.mark.row("004:T-083", "004:T-084", "004:T-085", "004:T-086", "000:X-087")
@pytest.mark.parametrize("seed", SEEDS)
def test_dual_cross_product(seed):
    rng = np.random.default_rng(seed)
    H, t = ref.motion(rng), 0.15
    v, A_v, Xf = ref.left(H, t), ref.right(H, t), np.linalg.inv(ref.adjoint(H(t))).T
    rate = ref.derivative(lambda s: np.linalg.inv(ref.adjoint(H(s))).T, t)
    crf = lambda a: num(spatial.cross_force_matrix(ca.DM(a)))  # noqa: E731
    crm = lambda a: num(spatial.cross_motion_matrix(ca.DM(a)))  # noqa: E731
    close(num(wrenches.A_Xf_B_rate(H(t), v)), rate, 1e-8)
    close(Xf @ crf(v), crf(A_v) @ Xf)
    close(crf(v), -crm(v).T)
    close(crf(v), -num(se3.ad(v)).T)
    u, w, f = rng.standard_normal((3, 6))
    assert (crm(u) @ w) @ f == pytest.approx(-w @ (crf(u) @ f))
    close(num(spatial.cross_force(ca.DM(u), ca.DM(f))), crf(u) @ f)
    icrf = num(spatial.cross_swapped_matrix(ca.DM(f)))
    close(icrf @ u, crf(u) @ f)
    close(icrf, -icrf.T)


def test_component_order_trap_is_real_and_power_catches_it():
    """The angular-first motion operators look exactly like linear-first force operators."""
    rng = np.random.default_rng(10)
    H, v = pose(rng), rng.standard_normal(6)
    exchanged = num(spatial.exchange_operator(twists.A_X_B(H)))
    close(exchanged, num(wrenches.A_Xf_B(H)))
    close(num(spatial.exchange_operator(spatial.cross_motion_matrix(ca.DM(v)))), num(spatial.cross_force_matrix(ca.DM(v))))
    f, u = rng.standard_normal((2, 6))
    right, wrong = num(twists.A_X_B(H)), exchanged
    A_f = num(wrenches.express(H, f))
    assert A_f @ (right @ u) == pytest.approx(f @ u)
    assert abs(A_f @ (wrong @ u) - f @ u) > 1e-2
    close(num(spatial.exchange(spatial.exchange(ca.DM(v)))), v)
    icrf = num(spatial.exchange_operator(spatial.cross_swapped_matrix(ca.DM(f))))  # angular first: [[-n, -f], [-f, 0]]
    close(icrf, np.block([[-ref.skew(f[3:]), -ref.skew(f[:3])], [-ref.skew(f[:3]), np.zeros((3, 3))]]))
