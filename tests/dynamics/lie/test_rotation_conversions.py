"""Conversions between all parameterisations of rotations: every pair, printed numbers, half turns, gimbal lock."""

import itertools

import casadi as ca
import numpy as np
import pytest
from arrays import close, column, number
from scipy.spatial.transform import Rotation

from dynamics.lie import angle_axis, euler, quaternion, rotation, rpy, so3

KINDS = list(rotation.PARAMETERISATIONS)
SEQUENCES = list(euler.SEQUENCES)
DEGREE = np.pi / 180.0
S2 = np.sqrt(0.5)


def singular(q):
    """The middle angles where a sequence is singular."""
    return (0.0, np.pi) if q.proper else (np.pi / 2, -np.pi / 2)


def samples():
    """Random rotations, the identity, half turns about axes of all signs, gimbal lock of all sequences, near both."""
    rng = np.random.default_rng(31)
    turns = [Rotation.from_rotvec(v) for v in rng.normal(size=(8, 3))] + [Rotation.identity()]
    axes = [np.array(a, dtype=float) / np.linalg.norm(a) for a in itertools.product((-1, 0, 1), repeat=3) if any(a)]
    turns += [Rotation.from_rotvec(angle * axis) for axis in axes for angle in (np.pi, np.pi - 1e-9, 1e-9)]
    return [turn.as_matrix() for turn in turns] + [
        euler_matrix(q, [0.4, middle - distance * np.sign(middle - 1), 1.3])
        for q in euler.SEQUENCES.values()
        for middle in singular(q)
        for distance in (0.0, 1e-15, 1e-9, 1e-4)
    ]


def euler_matrix(q, angles):
    axes = (q.i, q.j, q.i if q.proper else q.l)
    parts = [Rotation.from_rotvec(angle * np.eye(3)[axis]) for axis, angle in zip(axes, angles, strict=True)]
    return (parts[0] * parts[1] * parts[2]).as_matrix()


@pytest.fixture(scope="module")
def rotations():
    return samples()


@pytest.mark.row("000:X-076", "000:X-078", "000:X-083", "000:X-084", "000:K-070", "000:K-071", "000:K-072", "000:K-073",
                 "000:K-077")
@pytest.mark.parametrize("source", KINDS)
def test_every_ordered_pair_keeps_the_rotation(source, rotations):
    """All 240 conversions: C(convert(a -> b)) = C(a), for C from the closed forms checked against SciPy below."""
    every = np.hstack(rotations)  # functions are evaluated for all of them side by side
    c, x = ca.SX.sym("c", 3, 3), ca.SX.sym("x", *rotation.PARAMETERISATIONS[source].shape)
    elements = ca.Function("e", [c], [rotation.convert(c, "matrix", source)])(every)
    for target in KINDS:
        back = rotation.convert(rotation.convert(x, source, target), target, "matrix")
        close(number(ca.Function("c", [x], [back])(elements)), every, 5e-15)


@pytest.mark.row("000:X-076", "001:K20")
@pytest.mark.parametrize("sign", [s for s in itertools.product((-1, 0, 1), repeat=3) if any(s)])
def test_matrix_to_quaternion_at_and_next_to_half_turns(sign):
    """Where the form with sqrt and sgn finds the wrong axis: axes of mixed signs at π."""
    axis = np.array(sign) / np.linalg.norm(sign)
    for angle in (np.pi, np.pi - 1e-9, np.pi - 1e-4):
        c = Rotation.from_rotvec(angle * axis).as_matrix()
        q = column(quaternion.from_matrix(c))
        close(number(quaternion.to_matrix(q)), c, 2e-15)
        assert abs(q[1:] @ axis) == pytest.approx(np.sin(angle / 2), abs=1e-15)
    # (1, -1, 0)/√2 at π must not become (1, 1, 0)/√2
    q = column(quaternion.canonical(quaternion.from_matrix(Rotation.from_rotvec(np.pi * np.array([S2, -S2, 0])).as_matrix())))
    assert q[1] * q[2] == pytest.approx(-0.5)


@pytest.mark.row("000:K-071")
def test_quaternions_of_either_sign_have_the_short_rotation_vector():
    rng = np.random.default_rng(32)
    for _ in range(5):
        q = quaternion.random(rng)
        expected = Rotation.from_quat(np.roll(q, -1)).as_rotvec()
        close(column(quaternion.log(q)), expected)
        close(column(quaternion.log(-q)), expected)
        close(column(quaternion.log(-q)), column(so3.log(number(quaternion.to_matrix(q)))))
    small = np.array([3e-9, -4e-9, 1e-9])
    close(column(quaternion.log([-1.0, *(-small / 2)])), small, 1e-24)


@pytest.mark.row("000:K-052", "000:K-072", "000:K-073", "001:K15", "001:K16", "001:K18")
def test_angle_axis_against_scipy_and_by_elements():
    rng = np.random.default_rng(33)
    for v in rng.normal(size=(6, 3)):
        angle = np.linalg.norm(v)
        n = v / angle
        x = np.array([angle, *n])
        c = number(angle_axis.to_matrix(x))
        close(c, Rotation.from_rotvec(v).as_matrix())
        close(c @ n, n)
        assert np.trace(c) == pytest.approx(1 + 2 * np.cos(angle))
        for i in range(3):
            assert c[i, i] == pytest.approx(n[i] ** 2 * (1 - np.cos(angle)) + np.cos(angle))
        assert c[0, 1] == pytest.approx(n[0] * n[1] * (1 - np.cos(angle)) - n[2] * np.sin(angle))
        close(column(angle_axis.from_matrix(c)), x)
        close(column(angle_axis.to_quaternion(x)), [np.cos(angle / 2), *(np.sin(angle / 2) * n)])
        for sign in (1.0, -1.0):
            q = sign * column(angle_axis.to_quaternion(x))
            assert np.linalg.norm(q) == pytest.approx(1.0)
            close(number(quaternion.to_matrix(q)), c)
            close(column(angle_axis.from_quaternion(q)), x)


@pytest.mark.row("000:K-073", "001:K16")
@pytest.mark.parametrize("angle", [1e-100, 1e-12, 1e-9, 1e-4, np.pi - 1e-9, np.pi])
def test_angle_keeps_all_digits_near_zero_and_near_a_half_turn(angle):
    """acos of the scalar part or of the trace would lose half of them."""
    n = np.array([2.0, -3.0, 6.0]) / 7.0
    x = column(angle_axis.from_matrix(so3.exp(angle * n)))
    assert x[0] == pytest.approx(angle, rel=1e-15)
    close(x[1:], n, 1e-15)


@pytest.mark.row("000:K-073", "001:K16")
def test_the_identity_has_the_axis_of_convention():
    for q in ([1.0, 0, 0, 0], [-1.0, 0, 0, 0]):
        np.testing.assert_array_equal(column(angle_axis.from_quaternion(q)), [0, 1, 0, 0])
    np.testing.assert_array_equal(column(angle_axis.from_rotation_vector(np.zeros(3))), [0, 1, 0, 0])
    np.testing.assert_array_equal(column(angle_axis.from_matrix(np.eye(3))), [0, 1, 0, 0])


@pytest.mark.row("000:K-052", "000:K-053")
@pytest.mark.parametrize("angle", [-7.0, -np.pi, -0.3, 0.0, 0.5, np.pi, 3.5, 2 * np.pi, 9.0])
def test_canonical_angle_axis_and_rotation_vector(angle):
    n = np.array([-2.0, 3.0, 6.0]) / 7.0
    matrix = Rotation.from_rotvec(angle * n).as_matrix()
    x = column(rotation.canonical("angle_axis", [angle, *n]))
    phi = column(rotation.canonical("rotation_vector", angle * n))
    assert 0.0 <= x[0] <= np.pi
    assert np.linalg.norm(x[1:]) == pytest.approx(1.0)
    assert np.linalg.norm(phi) <= np.pi + 1e-15
    close(number(angle_axis.to_matrix(x)), matrix, 1e-14)
    close(number(so3.exp(phi)), matrix, 1e-14)
    # one element for each rotation
    close(column(rotation.canonical("angle_axis", [-angle, *(-n)])), x, 1e-14)
    close(column(rotation.canonical("angle_axis", [angle + 2 * np.pi, *n])), x, 1e-14)
    if angle:
        other = (angle - 2 * np.pi * np.sign(angle)) * n
        close(column(rotation.canonical("rotation_vector", other)), phi, 1e-14)
    # routes that keep turns
    close(column(angle_axis.to_rotation_vector([angle, *n])), angle * n)
    close(column(angle_axis.from_rotation_vector(abs(angle) * n))[0], abs(angle), 1e-14)


@pytest.mark.row("000:K-074", "000:K-075", "001:K19")
def test_forms_of_the_matrix_of_a_quaternion():
    rng = np.random.default_rng(34)
    for _ in range(5):
        q = quaternion.random(rng)
        w, v = q[0], q[1:]
        skew = np.cross(np.eye(3), v)
        c = number(quaternion.to_matrix(q))
        close(c, np.eye(3) + 2 * w * skew + 2 * skew @ skew)
        close(c, (2 * w * w - 1) * np.eye(3) + 2 * w * skew + 2 * np.outer(v, v))
        a, b, e, d = q
        printed = [
            [a * a + b * b - e * e - d * d, 2 * (b * e - a * d), 2 * (a * e + b * d)],
            [2 * (a * d + b * e), a * a - b * b + e * e - d * d, 2 * (e * d - a * b)],
            [2 * (b * d - a * e), 2 * (a * b + e * d), a * a - b * b - e * e + d * d],
        ]
        close(c, printed)
        inverse = np.eye(3) - 2 * w * skew + 2 * skew @ skew
        close(number(quaternion.to_matrix(quaternion.conjugate(q))), inverse)
        close(inverse, c.T)
        close(number(quaternion.to_matrix(1.2 * q)), c)  # the forms differ off the unit sphere; the code is a rotation there, too


# ------------------------------------------------------------------------------------------------ Euler angles
FIGURE_1 = np.array([50.0, 25.0, 30.0]) * DEGREE
FIGURE_1_MATRIX = [[.582563, -.527587, .618281], [.694272, .718543, -.041023], [-.422618, .453154, .784886]]
FIGURE_1_QUATERNION = [.878350, .140655, .296266, .347771]
FIGURE_2_MATRIX = [[.784886, -.453154, .422618], [.601765, .394798, -.694272], [.147763, .799241, .582563]]
FIGURE_2_QUATERNION = [.831000, .449312, .082688, .317364]


@pytest.mark.row("000:K-079", "000:K-081", "000:X-083", "000:X-084")
@pytest.mark.parametrize(
    ("kind", "matrix", "quat"),
    [("zyx", FIGURE_1_MATRIX, FIGURE_1_QUATERNION), ("xyz", FIGURE_2_MATRIX, FIGURE_2_QUATERNION)],
)
def test_printed_numbers_of_both_figures(kind, matrix, quat):
    close(number(euler.to_matrix(kind, FIGURE_1)), matrix, 6e-7)
    close(column(euler.to_quaternion(kind, FIGURE_1)), quat, 6e-7)
    close(column(rotation.convert(matrix, "matrix", kind)), FIGURE_1, 2e-6)
    close(column(rotation.convert(quat, "quaternion", kind)), FIGURE_1, 2e-6)


def closed_form(kind, x):
    """Matrix and quaternion as printed for four sequences."""
    (a, b, c), (d, e, f) = np.cos(x), np.sin(x)  # cosines and sines in the order of the angles
    if kind == "zyx":
        cz, cy, cx, sz, sy, sx = a, b, c, d, e, f
        return [
            [cy * cz, cz * sx * sy - cx * sz, sx * sz + cx * cz * sy],
            [cy * sz, cx * cz + sx * sy * sz, cx * sy * sz - cz * sx],
            [-sy, cy * sx, cx * cy],
        ]
    if kind == "xyz":
        cx, cy, cz, sx, sy, sz = a, b, c, d, e, f
        return [
            [cy * cz, -cy * sz, sy],
            [cx * sz + sx * sy * cz, cx * cz - sx * sy * sz, -sx * cy],
            [sx * sz - cx * sy * cz, sx * cz + cx * sy * sz, cx * cy],
        ]
    c1, c2, c3, s1, s2, s3 = a, b, c, d, e, f
    if kind == "zyz":
        return [
            [c1 * c2 * c3 - s1 * s3, -c3 * s1 - c1 * c2 * s3, c1 * s2],
            [c1 * s3 + c2 * c3 * s1, c1 * c3 - c2 * s1 * s3, s1 * s2],
            [-c3 * s2, s2 * s3, c2],
        ]
    return [
        [c1 * c3 - c2 * s1 * s3, -c1 * s3 - c2 * c3 * s1, s1 * s2],
        [c3 * s1 + c1 * c2 * s3, c1 * c2 * c3 - s1 * s3, -c1 * s2],
        [s2 * s3, c3 * s2, c2],
    ]


@pytest.mark.row("000:K-054", "000:K-055", "000:K-079", "000:X-080", "000:K-081", "000:X-082", "001:K10", "001:K11", "001:K12",
                 "001:K13", "001:K14", "001:M03")
@pytest.mark.parametrize("kind", SEQUENCES)
def test_all_twelve_sequences_against_scipy_and_closed_forms(kind):
    """SciPy's upper-case names are turns about the moving axes, lower-case ones about the fixed axes."""
    q = euler.sequence(kind)
    rng = np.random.default_rng(36)
    lowest, highest = singular(q) if q.proper else singular(q)[::-1]
    for x in rng.uniform([-np.pi, lowest, -np.pi], [np.pi, highest, np.pi], size=(8, 3)):
        turn = Rotation.from_euler(kind.upper(), x)
        matrix = turn.as_matrix()
        close(number(euler.to_matrix(kind, x)), matrix)
        close(Rotation.from_euler(kind[::-1], x[::-1]).as_matrix(), matrix)
        close(column(euler.from_matrix(kind, matrix)), x, 1e-12)
        close(euler.from_matrix_numeric(kind, matrix), x, 1e-12)
        quat = column(euler.to_quaternion(kind, x))
        close(number(quaternion.to_matrix(quat)), matrix)
        for scale in (1.0, -1.0, 3.0):
            close(column(euler.from_quaternion(kind, scale * quat)), x, 1e-12)
        if kind in ("zyx", "xyz", "zyz", "zxz"):
            close(number(euler.to_matrix(kind, x)), closed_form(kind, x))
        # XYZ angles of C are the reversed, negated ZYX angles of Cᵀ, and so for every sequence
        mirrored = -x[::-1] if not q.proper else np.array([np.pi - x[2], x[1], np.pi - x[0]])
        close(number(euler.to_matrix(kind[::-1], mirrored)), matrix.T)


@pytest.mark.row("000:K-055", "001:K13")
def test_roll_pitch_yaw_of_robot_files_is_zyx_backwards_and_not_xyz():
    x = np.array([0.3, -0.4, 1.1])  # roll, pitch, yaw
    fixed = Rotation.from_euler("xyz", x).as_matrix()
    close(number(rpy.to_matrix(x)), fixed)
    close(number(euler.to_matrix("zyx", x[::-1])), fixed)
    close(column(euler.from_matrix("zyx", fixed))[::-1], column(rpy.from_matrix(fixed)))
    assert np.abs(number(euler.to_matrix("xyz", x)) - fixed).max() > 0.2


@pytest.mark.row("000:K-054", "000:K-055")
@pytest.mark.parametrize("kind", SEQUENCES)
def test_canonical_angles_are_unique_and_in_range(kind):
    q = euler.sequence(kind)
    rng = np.random.default_rng(37)
    for x in rng.uniform(-15, 15, size=(15, 3)):
        reduced = column(rotation.canonical(kind, x))
        assert (-np.pi <= reduced[[0, 2]]).all()
        assert (reduced[[0, 2]] < np.pi).all()
        assert (0.0 if q.proper else -np.pi / 2) <= reduced[1] <= (np.pi if q.proper else np.pi / 2)
        matrix = number(euler.to_matrix(kind, x))
        close(number(euler.to_matrix(kind, reduced)), matrix, 1e-14)
        close(column(euler.from_matrix(kind, matrix)), reduced, 1e-12)
    ends = column(rotation.canonical(kind, [np.pi, 0.5, -np.pi]))
    close(ends, [-np.pi, 0.5, -np.pi], 0)
    middle = np.pi if q.proper else np.pi / 2  # the ends of the middle range are two different rotations
    assert column(rotation.canonical(kind, [0.1, middle, 0.2]))[1] == middle


@pytest.mark.row("000:X-080", "000:X-082", "001:K11", "001:K12", "001:K13", "001:K14", "001:M04")
@pytest.mark.parametrize("kind", SEQUENCES)
def test_gimbal_lock_gives_the_rotation_with_the_last_angle_zero(kind):
    q = euler.sequence(kind)
    for middle in singular(q):
        matrix = euler_matrix(q, [0.3, middle, 0.4])
        x = euler.from_matrix_numeric(kind, matrix)
        assert x[2] == 0.0
        close(x[1], middle, 1e-12)
        close(number(euler.to_matrix(kind, x)), matrix, 2e-15)
        # only the sum or the difference is determined
        sign = (1.0 if middle == 0.0 else -1.0) if q.proper else q.sign * np.sign(middle)
        assert x[0] == pytest.approx(0.3 + sign * 0.4, abs=1e-14)
        close(number(euler.to_matrix(kind, euler.from_matrix(kind, matrix))), matrix, 2e-15)
    for distance in (1e-13, 1e-11, 1e-8, 1e-5):
        near = euler_matrix(q, [0.3, singular(q)[0] + (distance if q.proper else -distance), 0.4])
        for angles in (euler.from_matrix_numeric(kind, near), euler.from_matrix(kind, near)):
            close(number(euler.to_matrix(kind, angles)), near, 1e-12)


@pytest.mark.row("000:X-080")
def test_what_is_no_rotation_or_no_sequence_is_refused():
    with pytest.raises(ValueError, match="orthonormal"):
        euler.from_matrix_numeric("zyx", 1.1 * np.eye(3))
    with pytest.raises(ValueError, match="no Euler sequence named 'zyy'"):
        euler.to_matrix("zyy", np.zeros(3))
    assert euler.ZYX.components == ("z", "y", "x")
    assert euler.ZYZ.components == ("z1", "y", "z2")


@pytest.mark.row("000:X-078", "001:K13", "001:K14", "001:K17")
def test_numbers_of_the_wrist_of_the_lecture_notes():
    """Start and goal of example 2.9.7, a z-y-x wrist at (-0.7, 0, 1.5), goal ZYX (0.7, 1.5, -0.5)."""
    start, goal = np.array([-0.7, 0.0, 1.5]), np.array([0.7, 1.5, -0.5])
    turn = column(rotation.box_minus_left("zyx", goal, start))
    close(turn, [1.85570962, -1.11003206, -2.08984764], 1e-8)
    assert np.linalg.norm(turn) == pytest.approx(3.00720677, abs=1e-8)
    close(column(rotation.convert(start, "zyx", "rotation_vector")), [1.43338992, -0.52322817, -0.56164679], 1e-8)
    close(column(rotation.convert(goal, "zyx", "rotation_vector")), [-0.91615672, 1.29004795, 0.92770167], 1e-8)
    close(column(rotation.convert(start, "zyx", "xyz")), [1.47834, -0.69789, -0.05951], 5e-6)
    close(column(rotation.convert(goal, "zyx", "xyz")), [-1.50419, 0.36899, 1.51276], 5e-6)


def jacobian_along_the_group(kind, matrix):
    d = ca.SX.sym("d", 3)
    value = rotation.convert(so3.integrate(matrix, d), "matrix", kind)
    return number(ca.Function("j", [d], [ca.jacobian(ca.vec(value), d)])(np.zeros(3)))


@pytest.mark.row("000:X-080", "000:X-082")
@pytest.mark.parametrize("kind", SEQUENCES)
def test_derivatives_at_a_singularity_are_not_numbers_rather_than_wrong_numbers(kind):
    q = euler.sequence(kind)
    # exactly singular: signed permutations of the axes
    locked = np.round(euler_matrix(q, [0.0, singular(q)[0], 0.0]))
    assert np.isnan(jacobian_along_the_group(kind, locked)).any()
    close(number(euler.to_matrix(kind, euler.from_matrix(kind, locked))), locked, 1e-15)
    regular = euler_matrix(q, [0.3, 0.8, -0.5])
    close(jacobian_along_the_group(kind, regular), number(euler.rate_map(kind, [0.3, 0.8, -0.5])), 1e-12)


@pytest.mark.row("000:K-073")
def test_derivatives_of_the_axis():
    assert np.isfinite(jacobian_along_the_group("angle_axis", np.eye(3))).all()
    v = np.array([0.4, -0.2, 1.3])
    x = angle_axis.from_rotation_vector(v)
    close(jacobian_along_the_group("angle_axis", Rotation.from_rotvec(v).as_matrix()), number(angle_axis.rate_map(x)), 1e-12)
