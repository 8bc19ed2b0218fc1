"""Rotation algebra: operators, active and passive, box operators, integration, interpolation, quaternions, frames."""

import itertools

import casadi as ca
import numpy as np
import pytest
import scipy.linalg
from arrays import close, column, number
from scipy.spatial.transform import Rotation, Slerp

from dynamics.errors import FrameMismatchError
from dynamics.lie import operators, position, quaternion, rotation, rotation_matrix, se3, so3
from dynamics.notation.tagged import TaggedRotation, TaggedVector

KINDS = list(rotation.PARAMETERISATIONS)
every_kind = pytest.mark.parametrize("kind", KINDS)
EX, EY, EZ = np.eye(3)


def matrix_of(kind, x):
    return number(rotation.convert(x, kind, "matrix"))


def element(kind, scipy_rotation):
    return number(rotation.convert(scipy_rotation.as_matrix(), "matrix", kind))


def random_rotations(count, seed):
    return [Rotation.from_rotvec(r) for r in np.random.default_rng(seed).normal(size=(count, 3))]


# ------------------------------------------------------------------------------------------------ operators
@pytest.mark.row("000:K-010", "000:K-011", "000:K-012", "001:K01")
def test_skew_and_cross_product_identities():
    rng = np.random.default_rng(1)
    for a, b in rng.normal(size=(5, 2, 3)):
        skew_a, skew_b = number(so3.hat(a)), number(so3.hat(b))
        np.testing.assert_array_equal(skew_a, number(ca.skew(a)))
        close(skew_a @ b, np.cross(a, b), 1e-15)
        close(skew_a @ b, -skew_b @ a, 1e-15)
        np.testing.assert_array_equal(skew_a, -skew_a.T)
        np.testing.assert_array_equal(column(so3.vee(skew_a)), a)
        np.testing.assert_array_equal(column(so3.vee(skew_a)), column(ca.inv_skew(skew_a)))
        turn = Rotation.from_rotvec(b).as_matrix()
        close(number(so3.hat(turn @ a)), turn @ skew_a @ turn.T)
        close(number(so3.hat(np.cross(a, b))), skew_a @ skew_b - skew_b @ skew_a)
        close(number(so3.hat(np.cross(a, b))), np.outer(b, a) - np.outer(a, b))
        close(skew_a @ skew_a, np.outer(a, a) - (a @ a) * np.eye(3))
        close(skew_a @ skew_a @ skew_a, -(a @ a) * skew_a)


@pytest.mark.row("000:K-013", "001:K01")
@pytest.mark.parametrize("symbol", [ca.SX, ca.MX])
def test_norm_and_its_derivative_at_zero(symbol):
    a = symbol.sym("a", 3)
    length = operators.norm(a)
    evaluate = ca.Function("n", [a], [length, ca.jacobian(length, a)])
    value, slope = evaluate([3.0, -4.0, 12.0])
    assert float(value) == pytest.approx(13.0, abs=1e-15)
    close(number(slope), [[3 / 13, -4 / 13, 12 / 13]], 1e-15)
    value, slope = evaluate(np.zeros(3))
    assert float(value) == 0.0
    assert np.isfinite(number(slope)).all()
    assert float(operators.norm([3.0, 4.0])) == pytest.approx(5.0)


@pytest.mark.row("001:K01")
def test_null_space_projector_of_full_and_deficient_matrices():
    rng = np.random.default_rng(2)
    wide = rng.normal(size=(3, 7))
    deficient = np.vstack([wide, wide[0] + wide[1]])
    for jacobian, dimension in ((wide, 4), (deficient, 4), (wide.T, 0), (np.zeros((2, 7)), 7)):
        n = operators.null_space_projector(jacobian)
        close(jacobian @ n, 0.0)
        close(n @ n, n)
        close(n, n.T)
        assert np.trace(n) == pytest.approx(dimension)
        close(n, np.eye(len(n)) - np.linalg.pinv(jacobian, 1e-9) @ jacobian, 1e-12)


@pytest.mark.row("000:K-014", "000:K-015")
def test_matrix_exponential_and_logarithm_of_any_matrix():
    rng = np.random.default_rng(3)
    a = ca.SX.sym("a", 3, 3)
    exponential = ca.Function("e", [a], [operators.matrix_exponential(a)])
    for sample in rng.normal(size=(10, 3, 3)):
        value = number(exponential(sample))
        close(value, scipy.linalg.expm(sample), 1e-12 * np.abs(value).max())
        well = scipy.linalg.expm(0.7 * sample)
        close(operators.matrix_logarithm(well), scipy.linalg.logm(well), 1e-12)
    for turn in random_rotations(5, 4):
        log = operators.matrix_logarithm(turn.as_matrix())
        close(scipy.linalg.expm(log), turn.as_matrix())
        close(column(so3.vee(log)), column(so3.log(turn.as_matrix())), 1e-12)
    with pytest.raises(ValueError, match="no principal logarithm"):
        operators.matrix_logarithm(np.diag([1.0, -1.0, -1.0]))


@pytest.mark.row("000:K-004")
@every_kind
def test_identity_is_neutral_in_every_parameterisation(kind):
    identity = rotation.neutral(kind)
    np.testing.assert_array_equal(matrix_of(kind, identity), np.eye(3))
    x = element(kind, random_rotations(1, 5)[0])
    if kind in ("zyz", "zxz", "xyx", "xzx", "yxy", "yzy"):  # the identity is singular there, its rotation is not
        close(matrix_of(kind, rotation.compose(kind, identity, x)), matrix_of(kind, x))
    else:
        close(number(rotation.compose(kind, identity, x)), x)


# ------------------------------------------------------------------------------------------------ frames
@pytest.mark.row("000:K-001")
def test_frames_are_right_handed_orthonormal_triads():
    turn = random_rotations(1, 6)[0].as_matrix()
    basis = rotation_matrix.from_basis(*turn.T)
    np.testing.assert_array_equal(basis, turn)
    assert np.linalg.det(basis) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="left-handed"):
        rotation_matrix.from_basis(EX, EZ, EY)
    with pytest.raises(ValueError, match="orthonormal"):
        rotation_matrix.from_basis(EX, EY, 2.0 * EZ)


@pytest.mark.row("000:K-020", "000:K-021", "001:K00")
def test_vectors_know_their_points_and_frames():
    turn = TaggedRotation("I", "B", rotation_matrix.about_z(np.pi / 2))
    op = TaggedVector("B", "O", "P", [1.0, 2.0, 3.0])
    pq = TaggedVector("B", "P", "Q", [0.5, 0.0, -1.0])
    total = op + pq
    assert (total.A, total.P, total.Q) == ("B", "O", "Q")
    close(column(total.value), [1.5, 2.0, 2.0])
    back = -op
    assert (back.P, back.Q) == ("P", "O")
    close(column((op + back).value), 0.0)
    world = turn @ op
    assert world.A == "I"
    close(column(world.value), [-2.0, 1.0, 3.0])
    close(column((turn.inverse() @ world).value), [1.0, 2.0, 3.0])
    with pytest.raises(FrameMismatchError, match=r"B_r_PQ \+ I_r_OP, coordinates: frame 'B' meets frame 'I'"):
        pq + world
    with pytest.raises(FrameMismatchError, match="chain: frame 'P' meets frame 'O'"):
        op + op
    with pytest.raises(FrameMismatchError, match="I_R_B times TaggedVector: frame 'B' meets frame 'I'"):
        turn @ world
    with pytest.raises(FrameMismatchError, match="I_R_B times TaggedRotation"):
        turn @ turn


@pytest.mark.row("001:K00")
def test_velocity_is_the_derivative_of_the_components():
    t = ca.SX.sym("t")
    r = TaggedVector("A", "O", "P", ca.vertcat(ca.sin(t), t * t, 1.0))
    velocity = r.derivative(t)
    assert (velocity.A, velocity.P, velocity.Q) == ("A", "O", "P")
    close(column(ca.Function("v", [t], [velocity.value])(0.3)), [np.cos(0.3), 0.6, 0.0], 1e-15)


@pytest.mark.row("000:K-022", "000:K-090", "000:K-091", "000:X-092", "001:K35")
def test_homogeneous_coordinates_under_transforms():
    """T_IB of the lecture notes' example: a quarter turn about x at (0, 3, 1) takes (0, 1, 1) to (0, 2, 2)."""
    pose = se3.Pose(rotation_matrix.about_x(np.pi / 2), ca.DM([0.0, 3.0, 1.0]))
    printed = [[1, 0, 0, 0], [0, 0, -1, 3], [0, 1, 0, 1], [0, 0, 0, 1]]
    close(number(se3.to_matrix(pose)), printed, 1e-15)
    moved = number(se3.to_matrix(pose)) @ column(position.homogeneous([0.0, 1.0, 1.0]))
    close(moved, [0.0, 2.0, 2.0, 1.0], 1e-15)
    close(column(position.from_homogeneous(2.0 * moved)), [0.0, 2.0, 2.0], 1e-15)
    close(number(se3.to_matrix(se3.inverse(pose))), np.linalg.inv(printed), 1e-15)
    other = se3.Pose(ca.DM(random_rotations(1, 7)[0].as_matrix()), ca.DM([0.4, -1.0, 2.0]))
    close(number(se3.to_matrix(se3.compose(pose, other))), number(se3.to_matrix(pose)) @ number(se3.to_matrix(other)))


# ------------------------------------------------------------------------------------------------ elementary rotations
@pytest.mark.row("000:K-032", "000:K-033", "000:K-034", "001:K08")
def test_elementary_rotations():
    a, b = 0.7, -2.3
    for axis, (unit, about) in enumerate(
        ((EX, rotation_matrix.about_x), (EY, rotation_matrix.about_y), (EZ, rotation_matrix.about_z))
    ):
        close(number(about(a)), scipy.linalg.expm(a * np.cross(np.eye(3), unit)))
        close(number(about(a)), Rotation.from_rotvec(a * unit).as_matrix())
        close(number(about(a)) @ number(about(b)), number(about(a + b)))
        following, last = np.eye(3)[(axis + 1) % 3], np.eye(3)[(axis + 2) % 3]
        close(number(about(np.pi / 2)) @ following, last)
    with pytest.raises(ValueError, match="expected 0, 1 or 2"):
        rotation_matrix.about(3, 0.1)


@pytest.mark.row("000:K-050", "001:K06")
def test_matrix_columns_are_the_axes_of_the_inner_frame():
    for turn in random_rotations(5, 8):
        c = number(rotation_matrix.checked(turn.as_matrix()))
        close(c.T @ c, np.eye(3))
        assert np.linalg.det(c) == pytest.approx(1.0)
        for k, unit in enumerate(np.eye(3)):
            close(column(rotation.rotate("matrix", c, unit)), c[:, k])
        close(number(rotation.inverse("matrix", c)), c.T, 0)


@pytest.mark.row("000:K-050")
def test_projection_returns_a_drifted_matrix_to_the_group():
    rng = np.random.default_rng(9)
    for turn in random_rotations(5, 9):
        r = turn.as_matrix()
        drifted = r + 1e-3 * rng.normal(size=(3, 3))
        nearest = rotation_matrix.project(drifted)
        rotation_matrix.checked(nearest)
        here = np.linalg.norm(nearest - drifted)
        for d in 0.01 * rng.normal(size=(20, 3)):
            assert np.linalg.norm(nearest @ Rotation.from_rotvec(d).as_matrix() - drifted) > here
        close(rotation_matrix.project(r), r)
    with pytest.raises(ValueError, match="positive determinant"):
        rotation_matrix.project(-np.eye(3))


# ------------------------------------------------------------------------------------------------ one object, many faces
@pytest.mark.row("000:K-002")
@every_kind
def test_every_parameterisation_turns_vectors_alike(kind):
    v = np.array([0.3, -1.2, 2.0])
    for a, b in itertools.pairwise(random_rotations(6, 10)):
        x, y = element(kind, a), element(kind, b)
        close(column(rotation.rotate(kind, x, v)), a.apply(v))
        close(column(rotation.rotate_frame(kind, x, v)), a.inv().apply(v))
        close(matrix_of(kind, rotation.compose(kind, x, y)), (a * b).as_matrix())
        close(matrix_of(kind, rotation.inverse(kind, x)), a.inv().as_matrix())
        close(column(rotation.log(kind, x)), a.as_rotvec())
        close(matrix_of(kind, rotation.exp(kind, a.as_rotvec())), a.as_matrix())


@pytest.mark.row("000:K-002")
def test_unknown_names_are_errors_with_near_misses():
    with pytest.raises(ValueError, match="did you mean 'quaternion'"):
        rotation.convert([1, 0, 0, 0], "quaternoin", "matrix")
    with pytest.raises(ValueError, match="no frame named 'bdy'; did you mean 'body'"):
        rotation.rate("quaternion", [1, 0, 0, 0], EX, "bdy")
    with pytest.raises(ValueError, match=r"quaternion: expected shape \(4, 1\), got \(3, 1\)"):
        rotation.convert([1, 0, 0], "quaternion", "quaternion")


@pytest.mark.parametrize("kind", ["matrix", "quaternion", "rotation_vector", "zyz"])
@pytest.mark.row("000:K-002")
def test_random_elements_are_uniform_over_rotations(kind):
    """For uniform rotations the mean of R is 0 and the mean angle π/2 + 2/π."""
    rng = np.random.default_rng(11)
    samples = [matrix_of(kind, rotation.random(kind, rng)) for _ in range(400)]
    assert np.abs(np.mean(samples, axis=0)).max() < 4.0 / np.sqrt(3 * 400)
    angles = [np.linalg.norm(Rotation.from_matrix(r).as_rotvec()) for r in samples]
    assert np.mean(angles) == pytest.approx(np.pi / 2 + 2 / np.pi, abs=4 * 0.65 / np.sqrt(400))


@pytest.mark.row("000:K-030", "000:K-031", "000:K-035", "001:K07")
@every_kind
def test_active_and_passive_rotations(kind):
    """A quarter turn about z takes e_x to e_y; seen from a frame turned like that, e_x is -e_y."""
    quarter = element(kind, Rotation.from_rotvec([0, 0, np.pi / 2]))
    close(column(rotation.rotate(kind, quarter, EX)), EY)
    close(column(rotation.rotate_frame(kind, quarter, EX)), -EY)
    r = np.array([0.2, 1.0, -0.4])
    for turn in random_rotations(3, 12):
        x = element(kind, turn)
        close(column(rotation.rotate(kind, rotation.inverse(kind, x), r)), column(rotation.rotate_frame(kind, x, r)))
        inner = turn.as_matrix().T @ r  # the same arrow, components in the turned frame
        close(column(rotation.rotate(kind, x, inner)), r)


@pytest.mark.row("000:K-036", "000:K-037", "001:K09")
@every_kind
def test_concatenation_of_active_and_passive_rotations(kind):
    r = np.array([0.2, 1.0, -0.4])
    one, two, three = random_rotations(3, 13)
    x, y, z = (element(kind, t) for t in (one, two, three))
    inverse = [rotation.inverse(kind, e) for e in (x, y)]
    # active: first x, then y
    twice = rotation.rotate(kind, y, rotation.rotate(kind, x, r))
    close(column(rotation.rotate(kind, rotation.compose(kind, y, x), r)), column(twice))
    undone = rotation.inverse(kind, rotation.compose(kind, inverse[0], inverse[1]))
    close(column(rotation.rotate(kind, undone, r)), column(twice))
    # passive: A to B by x, B to C by y; C_CB C_BA = C_CA
    seen = rotation.rotate_frame(kind, y, rotation.rotate_frame(kind, x, r))
    close(column(rotation.rotate_frame(kind, rotation.compose(kind, x, y), r)), column(seen))
    close(column(seen), two.as_matrix().T @ one.as_matrix().T @ r)
    left = rotation.compose(kind, rotation.compose(kind, x, y), z)
    right = rotation.compose(kind, x, rotation.compose(kind, y, z))
    close(matrix_of(kind, left), matrix_of(kind, right))


@pytest.mark.row("001:K09")
def test_chains_of_tagged_rotations():
    a, b = random_rotations(2, 14)
    chained = TaggedRotation("A", "B", a.as_matrix()) @ TaggedRotation("B", "C", b.as_matrix())
    assert (chained.A, chained.B) == ("A", "C")
    close(number(chained.value), (a * b).as_matrix())


# ------------------------------------------------------------------------------------------------ exp, log, boxes
@pytest.mark.row("000:K-038", "000:K-039", "001:K17", "003:M04")
@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-4, 1.0, np.pi - 1e-9, np.pi])
def test_exponential_and_logarithm(angle):
    rng = np.random.default_rng(15)
    for direction in rng.normal(size=(5, 3)):
        v = angle * direction / np.linalg.norm(direction)
        r = number(so3.exp(v))
        close(r, scipy.linalg.expm(np.cross(np.eye(3), v)), 2e-15)
        close(r, Rotation.from_rotvec(v).as_matrix(), 2e-15)
        back = column(so3.log(r))
        close(number(so3.exp(back)), r, 2e-15)
        if angle < np.pi - 1e-8:
            close(back, v, 1e-14)
        close(r @ number(so3.exp(-v)), np.eye(3), 1e-15)


@pytest.mark.row("001:K17")
def test_rotation_vectors_do_not_add():
    a, b = np.array([1.2, 0.0, 0.0]), np.array([0.0, 0.9, 0.0])
    both = column(rotation.compose("rotation_vector", a, b))
    assert np.abs(both - (a + b)).max() > 0.3
    close(both, (Rotation.from_rotvec(a) * Rotation.from_rotvec(b)).as_rotvec())
    close(column(rotation.compose("rotation_vector", a, 0.5 * a)), 1.5 * a)  # about one axis they do


@pytest.mark.row("000:K-040", "000:K-041", "000:X-046")
@every_kind
def test_box_operators_on_both_sides(kind):
    rng = np.random.default_rng(16)
    one, two = random_rotations(2, 16)
    x, y = element(kind, one), element(kind, two)
    for v in rng.normal(size=(3, 3)):
        turn = Rotation.from_rotvec(v)
        left, right = rotation.box_plus_left(kind, x, v), rotation.box_plus(kind, x, v)
        close(matrix_of(kind, left), (turn * one).as_matrix())
        close(matrix_of(kind, right), (one * turn).as_matrix())
        close(column(rotation.box_minus_left(kind, left, x)), v)
        close(column(rotation.box_minus(kind, right, x)), v)
        world = one.as_matrix() @ v
        close(matrix_of(kind, rotation.box_plus_left(kind, x, world)), matrix_of(kind, right))
    for plus, minus in (
        (rotation.box_plus_left, rotation.box_minus_left),
        (rotation.box_plus, rotation.box_minus),
    ):
        close(matrix_of(kind, plus(kind, x, np.zeros(3))), one.as_matrix())
        close(matrix_of(kind, plus(kind, x, minus(kind, y, x))), two.as_matrix())
        close(column(minus(kind, x, y)), -column(minus(kind, y, x)))
    close(column(rotation.box_minus_left(kind, x, y)), (one * two.inv()).as_rotvec())
    close(column(rotation.box_minus(kind, x, y)), (two.inv() * one).as_rotvec())


@pytest.mark.row("000:K-042", "000:K-043", "000:K-044")
@every_kind
def test_discrete_integration_and_differentiation_of_both_directions(kind):
    """x stands for I_R_B, y for B_R_I; ω is that of B relative to I, in I or in B."""
    omega, step, count = np.array([0.4, -1.1, 0.7]), 0.05, 20
    start = random_rotations(1, 17)[0]
    world, body = Rotation.from_rotvec(omega * step * count) * start, start * Rotation.from_rotvec(omega * step * count)
    for frame, end in (("world", world), ("body", body)):
        x, y = element(kind, start), element(kind, start.inv())
        for _ in range(count):
            x_next = rotation.advance(kind, x, omega, step, frame)
            y_next = rotation.advance_inverse(kind, y, omega, step, frame)
            close(column(rotation.mean_velocity(kind, x_next, x, step, frame)), omega, 1e-12)
            close(column(rotation.mean_velocity_inverse(kind, y_next, y, step, frame)), omega, 1e-12)
            x, y = x_next, y_next
        close(matrix_of(kind, x), end.as_matrix())
        close(matrix_of(kind, y), end.as_matrix().T)
    # ω in I and ω in B step alike when they are one vector
    x = element(kind, start)
    by_world = rotation.advance(kind, x, start.as_matrix() @ omega, step, "world")
    close(matrix_of(kind, by_world), matrix_of(kind, rotation.advance(kind, x, omega, step)))


@pytest.mark.row("000:K-045")
@every_kind
def test_spherical_interpolation(kind):
    one, two = random_rotations(2, 18)
    x, y = element(kind, one), element(kind, two)
    times = np.linspace(0.0, 1.0, 11)
    reference = Slerp([0.0, 1.0], Rotation.concatenate([one, two]))(times)
    path = [matrix_of(kind, rotation.interpolate(kind, x, y, t)) for t in times]
    for got, expected in zip(path, reference, strict=True):
        close(got, expected.as_matrix())
    close(path[0], one.as_matrix(), 2e-15)
    close(path[-1], two.as_matrix(), 4e-15)
    steps = [Rotation.from_matrix(b @ a.T).as_rotvec() for a, b in itertools.pairwise(path)]
    close(steps, np.tile((two * one.inv()).as_rotvec() / 10, (10, 1)))
    # (Φ1 Φ0⁻¹)^t Φ0 by a fractional matrix power
    power = scipy.linalg.fractional_matrix_power((two * one.inv()).as_matrix(), 0.3)
    close(matrix_of(kind, rotation.interpolate(kind, x, y, 0.3)), power.real @ one.as_matrix(), 1e-12)


# ------------------------------------------------------------------------------------------------ quaternions
def dot_cross_product(q, p):
    """The product in scalar and vector parts."""
    return np.concatenate([[q[0] * p[0] - q[1:] @ p[1:]], q[0] * p[1:] + p[0] * q[1:] + np.cross(q[1:], p[1:])])


@pytest.mark.row("000:K-060")
def test_hamilton_units():
    one, i, j, k = np.eye(4)
    table = {(1, 1): -one, (2, 2): -one, (3, 3): -one, (1, 2): k, (2, 3): i, (3, 1): j, (2, 1): -k, (3, 2): -i, (1, 3): -j}
    for (a, b), expected in table.items():
        np.testing.assert_array_equal(column(quaternion.product(np.eye(4)[a], np.eye(4)[b])), expected)
    np.testing.assert_array_equal(column(quaternion.product(quaternion.product(i, j), k)), -one)


@pytest.mark.row("000:K-051", "000:K-061")
def test_storage_is_scalar_first_and_converts_to_scalar_last():
    q = quaternion.random(np.random.default_rng(19))
    assert np.linalg.norm(q) == pytest.approx(1.0, abs=1e-15)
    close(column(quaternion.normalise(3.0 * q)), q, 1e-15)
    xyzw = column(quaternion.to_xyzw(q))
    close(Rotation.from_quat(xyzw).as_matrix(), number(quaternion.to_matrix(q)))
    np.testing.assert_array_equal(column(quaternion.from_xyzw(xyzw)), q)
    np.testing.assert_array_equal(rotation.neutral("quaternion"), [1, 0, 0, 0])


@pytest.mark.row("000:K-062", "000:K-063", "000:K-064", "001:K21")
def test_product_conjugate_and_inverse():
    rng = np.random.default_rng(20)
    for q, p, s in rng.normal(size=(5, 3, 4)):
        close(column(quaternion.product(q, p)), dot_cross_product(q, p))
        close(column(quaternion.product(q, quaternion.conjugate(q))), [q @ q, 0, 0, 0])
        left = quaternion.product(quaternion.product(q, p), s)
        close(column(left), column(quaternion.product(q, quaternion.product(p, s))))
        assert np.linalg.norm(column(left)) == pytest.approx(np.prod([np.linalg.norm(e) for e in (q, p, s)]))
        q, p = q / np.linalg.norm(q), p / np.linalg.norm(p)
        close(column(quaternion.product(q, quaternion.conjugate(q))), [1, 0, 0, 0])
        c, d = number(quaternion.to_matrix(q)), number(quaternion.to_matrix(p))
        close(number(quaternion.to_matrix(quaternion.product(q, p))), c @ d)
        close(number(quaternion.to_matrix(quaternion.conjugate(q))), c.T)


@pytest.mark.row("000:K-065", "000:K-066", "001:K22")
def test_left_and_right_product_matrices():
    rng = np.random.default_rng(21)
    for q, p in rng.normal(size=(5, 2, 4)):
        left, right = number(quaternion.left_matrix(q)), number(quaternion.right_matrix(p))
        skew = np.cross(np.eye(3), q[1:])
        close(left, np.block([[q[0], -q[1:]], [q[1:, None], q[0] * np.eye(3) + skew]]))
        close(left @ p, dot_cross_product(q, p))
        close(right @ q, dot_cross_product(q, p))
        close(left.T, number(quaternion.left_matrix(quaternion.conjugate(q))))
        close(right.T, number(quaternion.right_matrix(quaternion.conjugate(p))))
        close(left @ right, right @ left)
        close(left @ left.T, (q @ q) * np.eye(4))
        close(number(quaternion.left_matrix(quaternion.product(q, p))), left @ number(quaternion.left_matrix(p)))


@pytest.mark.row("000:K-067")
def test_double_cover_is_invisible_to_distances_and_differences():
    rng = np.random.default_rng(22)
    q, p = quaternion.random(rng), quaternion.random(rng)
    expected = min(np.linalg.norm(p - q), np.linalg.norm(p + q)) ** 2
    for a, b in itertools.product((1.0, -1.0), repeat=2):
        assert float(quaternion.squared_distance(a * q, b * p)) == pytest.approx(expected, abs=1e-15)
        close(column(rotation.box_minus("quaternion", a * q, b * p)), column(rotation.box_minus("quaternion", q, p)))
        close(number(quaternion.to_matrix(a * q)), number(quaternion.to_matrix(q)))
        np.testing.assert_array_equal(column(quaternion.canonical(a * q)), q)
    half_turn = np.array([0.0, 0.0, -0.6, 0.8])
    np.testing.assert_array_equal(column(quaternion.canonical(half_turn)), -half_turn)
    np.testing.assert_array_equal(column(quaternion.canonical(-half_turn)), -half_turn)


@pytest.mark.row("000:X-068", "001:K23")
def test_vectors_between_two_quaternions():
    """Lecture notes, example 2.4.1: ξ_AB = ½ (√3, 1, 0, 0), A_r = e_y, B_r = (0, ½, -√3/2)."""
    q = 0.5 * np.array([np.sqrt(3), 1.0, 0.0, 0.0])
    close(column(quaternion.exp([np.pi / 3, 0, 0])), q, 1e-15)
    close(column(rotation.rotate_frame("quaternion", q, EY)), [0, 0.5, -np.sqrt(3) / 2], 1e-15)
    rng = np.random.default_rng(23)
    for r in rng.normal(size=(4, 3)):
        p = quaternion.random(rng)
        sandwich = dot_cross_product(dot_cross_product(p, np.array([0.0, *r])), p * [1, -1, -1, -1])
        close(column(quaternion.rotate(p, r)), sandwich[1:])
        close(sandwich[0], 0.0)
        matrices = number(quaternion.left_matrix(p)) @ number(quaternion.right_matrix(quaternion.conjugate(p)))
        close(matrices @ [0.0, *r], sandwich)
        close(column(quaternion.rotate(p, r)), number(quaternion.to_matrix(p)) @ r)
