"""Rates of every parameterisation of rotations to and from angular velocity, in both frames, and their second order."""

import casadi as ca
import numpy as np
import pytest
from arrays import column, number
from scipy.spatial.transform import Rotation

from dynamics.errors import ChartSingularityError
from dynamics.lie import angle_axis, euler, quaternion, rotation, rotation_matrix, rotation_vector, so3
from dynamics.notation.tagged import TaggedRotation, TaggedVector

KINDS = list(rotation.PARAMETERISATIONS)
SEQUENCES = list(euler.SEQUENCES)
every_kind = pytest.mark.parametrize("kind", KINDS)
every_sequence = pytest.mark.parametrize("kind", SEQUENCES)
both_frames = pytest.mark.parametrize("frame", rotation.FRAMES)


def close(actual, expected, tolerance=1e-12):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=0, atol=tolerance)


def hat(v):
    return np.cross(np.eye(3), v)


def skewed(m):
    """Vector of a symbolic skew matrix."""
    return ca.vertcat(m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]) / 2


MOTIONS = ([0.4, -0.9, 0.6], [1.1, 0.7, -1.3]), ([-1.9, 0.5, 1.2], [-0.3, 1.4, 0.8]), ([0.9, 1.6, -2.0], [0.6, -0.2, 0.5])


def motion(kind, base, slope):
    """x, ẋ, ẍ and ω, ω̇ in both frames of a smooth motion at t = 0, all by differentiating in t.

    The matrix is a product of two exponentials, so that ω is neither constant nor along the rotation vector.
    """
    t = ca.SX.sym("t")
    spin = ca.vertcat(0.3 * t - t * t, 0.8 * ca.sin(t), 0.5 * t)
    c = ca.mtimes(so3.exp(ca.DM(base) + t * ca.DM(slope) + t * t * ca.DM([0.2, -0.6, 0.4])), so3.exp(spin))
    x = rotation.convert(c, "matrix", kind)
    rate = ca.jacobian(ca.vec(c), t)
    rate = ca.reshape(rate, 3, 3)
    world, body = skewed(ca.mtimes(rate, c.T)), skewed(ca.mtimes(c.T, rate))
    x_rate = ca.jacobian(ca.vec(x), t)
    outputs = [c, x, ca.reshape(x_rate, x.shape), ca.reshape(ca.jacobian(x_rate, t), x.shape)]
    outputs += [world, ca.jacobian(world, t), body, ca.jacobian(body, t)]
    values = ca.Function("m", [t], outputs)(0.0)
    c, x, x_rate, x_second, world, world_rate, body, body_rate = (number(v) for v in values)
    return {
        "C": c, "x": x, "rate": x_rate, "second": x_second,
        "world": world.ravel(), "world_rate": world_rate.ravel(), "body": body.ravel(), "body_rate": body_rate.ravel(),
    }  # fmt: skip


@pytest.mark.row("000:K-130", "000:K-131", "000:K-132", "000:K-133", "000:K-136", "000:K-137", "000:K-138", "000:K-139",
                 "000:K-140", "000:K-141", "000:K-142", "000:K-143", "000:K-180", "000:X-148", "001:K27", "001:K33", "001:K34")
@every_kind
@both_frames
def test_first_order_maps_against_a_motion(kind, frame):
    for base, slope in MOTIONS:
        m = motion(kind, base, slope)
        close(column(rotation.angular_velocity(kind, m["x"], m["rate"], frame)), m[frame])
        close(number(rotation.rate(kind, m["x"], m[frame], frame)), m["rate"], 5e-12)


@pytest.mark.row("000:X-149")
@every_kind
@both_frames
def test_second_order_maps_against_a_motion(kind, frame):
    for base, slope in MOTIONS:
        m = motion(kind, base, slope)
        got = rotation.angular_acceleration(kind, m["x"], m["rate"], m["second"], frame)
        close(column(got), m[f"{frame}_rate"], 1e-11)
        got = rotation.second_rate(kind, m["x"], m["rate"], m[f"{frame}_rate"], frame)
        close(number(got), m["second"], 1e-10)


@pytest.mark.row("000:X-149")
def test_second_order_of_a_quaternion_in_closed_form():
    m = motion("quaternion", *MOTIONS[0])
    q, body = m["x"], m["body"]
    expected = 0.5 * number(quaternion.body_matrix(q)).T @ m["body_rate"] - 0.25 * (body @ body) * q.ravel()
    close(column(rotation.second_rate("quaternion", q, m["rate"], m["body_rate"])), expected)


@pytest.mark.row("000:X-149")
def test_the_second_order_by_finite_differences_of_the_first():
    """χ'' = d/dt (E⁻¹ ω) for constant world-frame ω, stepping the chart itself."""
    omega, h = np.array([0.4, -0.7, 1.1]), 1e-5
    for kind in KINDS:
        x = rotation.convert(Rotation.from_rotvec([0.5, 0.9, -0.4]).as_matrix(), "matrix", kind)
        rates = [rotation.rate(kind, rotation.advance(kind, x, omega, s, "world"), omega, "world") for s in (-h, h)]
        expected = number(rates[1] - rates[0]) / (2 * h)
        got = rotation.second_rate(kind, x, rotation.rate(kind, x, omega, "world"), np.zeros(3), "world")
        close(number(got), expected, 2e-8)


@pytest.mark.row("001:K24")
@every_kind
def test_angular_velocity_is_the_limit_of_rotation_vectors(kind):
    def attitude(t):
        return Rotation.from_rotvec([0.3 + 0.5 * t, 0.9 - 0.2 * t * t, 0.6 - t]) * Rotation.from_rotvec([0, t, t * t])

    t, h = 0.3, 1e-4
    x = rotation.convert(attitude(t).as_matrix(), "matrix", kind)
    before, after = (rotation.convert(attitude(s).as_matrix(), "matrix", kind) for s in (t - h, t + h))
    world = (attitude(t + h) * attitude(t - h).inv()).as_rotvec() / (2 * h)
    body = (attitude(t - h).inv() * attitude(t + h)).as_rotvec() / (2 * h)
    close(column(rotation.mean_velocity(kind, after, before, 2 * h, "world")), world, 1e-11)
    close(column(rotation.mean_velocity(kind, after, before, 2 * h, "body")), body, 1e-11)
    rate = (number(after) - number(before)) / (2 * h)
    close(column(rotation.angular_velocity(kind, x, rate, "world")), world, 2e-7)
    # ω of A relative to B is the negative: the inverse motion
    back, forth = (rotation.inverse(kind, e) for e in (before, after))
    close(column(rotation.mean_velocity(kind, forth, back, 2 * h, "world")), -body, 1e-11)


@pytest.mark.row("001:K25", "000:K-130", "000:K-131")
def test_angular_velocity_from_the_rate_of_the_matrix():
    """C_x(α(t)) has ω = (α̇, 0, 0), the lecture notes' example 2.5.1; in general the residual of ĊCᵀ is 0."""
    t = ca.SX.sym("t")
    c = rotation_matrix.about_x(ca.sin(3 * t))
    rate = ca.reshape(ca.jacobian(ca.vec(c), t), 3, 3)
    for frame in rotation.FRAMES:
        omega = ca.Function("w", [t], [rotation.angular_velocity("matrix", c, rate, frame)])
        close(column(omega(0.2)), [3 * np.cos(0.6), 0, 0], 1e-15)
    m = motion("matrix", *MOTIONS[1])
    close(m["rate"] @ m["C"].T + m["C"] @ m["rate"].T, 0.0)
    close(hat(m["world"]), m["rate"] @ m["C"].T)
    close(hat(m["body"]), m["C"].T @ m["rate"])
    close(number(rotation.rate("matrix", m["C"], m["world"], "world")), hat(m["world"]) @ m["C"])
    close(number(rotation.rate("matrix", m["C"], m["body"])), m["C"] @ hat(m["body"]))


@pytest.mark.row("001:K26")
def test_angular_velocities_change_frame_and_add():
    ab, bc = motion("matrix", *MOTIONS[0]), motion("matrix", *MOTIONS[1])
    close(hat(ab["body"]), ab["C"].T @ hat(ab["world"]) @ ab["C"])
    close(ab["world"], ab["C"] @ ab["body"])
    # the motion of C in A is the product of both
    rate = ab["rate"] @ bc["C"] + ab["C"] @ bc["rate"]
    whole = column(rotation.angular_velocity("matrix", ab["C"] @ bc["C"], rate, "world"))
    first = TaggedVector("A", "A", "B", ab["world"])
    second = TaggedRotation("A", "B", ab["C"]) @ TaggedVector("B", "B", "C", bc["world"])
    total = first + second
    assert str(total) == "A_r_AC"
    close(column(total.value), whole)
    inverse_rate = ab["rate"].T
    close(column(rotation.angular_velocity("matrix", ab["C"].T, inverse_rate, "world")), -ab["body"])


# ------------------------------------------------------------------------------------------------ printed maps
@pytest.mark.row("000:K-132", "000:K-133", "000:K-134", "000:K-135", "001:K32")
def test_quaternion_matrices():
    rng = np.random.default_rng(51)
    for _ in range(5):
        q = quaternion.random(rng)
        a, b, c, d = q
        h, bar = number(quaternion.world_matrix(q)), number(quaternion.body_matrix(q))
        np.testing.assert_array_equal(h, [[-b, a, -d, c], [-c, d, a, -b], [-d, -c, b, a]])
        np.testing.assert_array_equal(bar, [[-b, a, d, -c], [-c, -d, a, b], [-d, c, -b, a]])
        close(h[:, 1:], hat(q[1:]) + a * np.eye(3))
        close(bar[:, 1:], -hat(q[1:]) + a * np.eye(3))
        for m in (h, bar):
            close(m @ m.T, np.eye(3))
            close(m @ q, 0.0)
            close(m.T @ m, np.eye(4) - np.outer(q, q))
        close(h @ bar.T, number(quaternion.to_matrix(q)))
        omega = rng.normal(size=3)
        for frame, m in (("world", h), ("body", bar)):
            rate = column(rotation.rate("quaternion", q, omega, frame))
            close(rate, 0.5 * m.T @ omega)
            assert q @ rate == pytest.approx(0.0, abs=1e-15)  # the norm stays
            close(column(rotation.angular_velocity("quaternion", q, rate, frame)), 2 * m @ rate)
        close(column(quaternion.product([0, *omega], q)) / 2, number(quaternion.rate_map_world(q)) @ omega)
        close(column(quaternion.product(q, [0, *omega])) / 2, number(quaternion.rate_map(q)) @ omega)


def printed_maps(kind, x):
    """(E world, E body, inverse world, inverse body) as printed; None where the documents have none."""
    (c1, c2, c3), (s1, s2, s3) = np.cos(x), np.sin(x)
    if kind == "zyx":
        cz, cy, cx, sz, sy, sx = c1, c2, c3, s1, s2, s3
        return (
            [[0, -sz, cy * cz], [0, cz, cy * sz], [1, 0, -sy]],
            [[-sy, 0, 1], [cy * sx, cx, 0], [cx * cy, -sx, 0]],
            [[cz * sy / cy, sy * sz / cy, 1], [-sz, cz, 0], [cz / cy, sz / cy, 0]],
            [[0, sx / cy, cx / cy], [0, cx, -sx], [1, sx * sy / cy, cx * sy / cy]],
        )
    if kind == "xyz":
        cx, cy, cz, sx, sy, sz = c1, c2, c3, s1, s2, s3
        return (
            [[1, 0, sy], [0, cx, -sx * cy], [0, sx, cx * cy]],
            [[cy * cz, sz, 0], [-cy * sz, cz, 0], [sy, 0, 1]],
            [[1, sx * sy / cy, -cx * sy / cy], [0, cx, sx], [0, -sx / cy, cx / cy]],
            [[cz / cy, -sz / cy, 0], [sz, cz, 0], [-cz * sy / cy, sz * sy / cy, 1]],
        )
    if kind == "zyz":
        return (
            [[0, -s1, c1 * s2], [0, c1, s1 * s2], [1, 0, c2]], None,
            [[-c2 * c1 / s2, -c2 * s1 / s2, 1], [-s1, c1, 0], [c1 / s2, s1 / s2, 0]], None,
        )  # fmt: skip
    return (
        [[0, c1, s1 * s2], [0, s1, -c1 * s2], [1, 0, c2]], None,
        [[-c2 * s1 / s2, c2 * c1 / s2, 1], [c1, s1, 0], [s1 / s2, -c1 / s2, 0]], None,
    )  # fmt: skip


@pytest.mark.row("000:K-144", "000:K-145", "000:K-146", "000:K-147", "000:K-182", "000:K-184", "000:X-148", "001:K28", "001:K29",
                 "001:K30", "001:K31")
@pytest.mark.parametrize("kind", ["zyx", "xyz", "zyz", "zxz"])
def test_printed_maps_of_four_sequences(kind):
    for x in np.random.default_rng(52).uniform([-3, 0.1, -3], [3, 1.4, 3], size=(8, 3)):
        maps = (euler.angular_velocity_map_world, euler.angular_velocity_map, euler.rate_map_world, euler.rate_map)
        for function, printed in zip(maps, printed_maps(kind, x), strict=True):
            if printed is not None:
                close(number(function(kind, x)), printed)


@pytest.mark.row("000:K-144", "000:K-145", "000:K-146", "000:K-147", "000:K-181", "000:K-182", "000:K-183", "000:K-184",
                 "000:K-185", "001:K28", "001:K29", "001:K30", "001:K31")
@every_sequence
def test_columns_inverses_and_determinants_of_all_sequences(kind):
    q = euler.sequence(kind)
    axes = (q.i, q.j, q.i if q.proper else q.l)
    units = [np.eye(3)[axis] for axis in axes]
    for x in np.random.default_rng(53).uniform([-3, 0.1, -3], [3, 1.4, 3], size=(8, 3)):
        turns = [number(rotation_matrix.about(axis, angle)) for axis, angle in zip(axes, x, strict=True)]
        c = turns[0] @ turns[1] @ turns[2]
        world, body = number(euler.angular_velocity_map_world(kind, x)), number(euler.angular_velocity_map(kind, x))
        # successive axes, each carried by the turns before it
        successive = [units[0], turns[0] @ units[1], turns[0] @ turns[1] @ units[2]]
        close(world, np.transpose(successive))
        close(body, c.T @ world)
        back, back_body = number(euler.rate_map_world(kind, x)), number(euler.rate_map(kind, x))
        close(world @ back, np.eye(3))
        close(body @ back_body, np.eye(3))
        close(back_body, back @ c)
        expected = -np.sin(x[1]) if q.proper else q.sign * np.cos(x[1])
        assert np.linalg.det(world) == pytest.approx(expected)
    sign = {"zyx": -1.0, "xyz": 1.0}.get(kind)
    assert sign is None or sign == q.sign


@pytest.mark.row("000:K-183", "001:K28")
@every_sequence
def test_singular_euler_angles_are_a_named_error_for_numbers_and_not_finite_in_graphs(kind):
    q = euler.sequence(kind)
    for turn in range(-2, 3):
        x = np.array([0.3, np.pi * turn + (0.0 if q.proper else np.pi / 2), 0.4])
        for function in (euler.rate_map, euler.rate_map_world):
            with pytest.raises(ChartSingularityError, match=f"Euler angles {kind}: singular") as caught:
                function(kind, x)
            assert caught.value.quantity == ("sin β" if q.proper else "cos β")
        with pytest.raises(ChartSingularityError):
            rotation.rate(kind, x, [1.0, 2.0, 3.0])
        assert np.isfinite(number(euler.angular_velocity_map(kind, x))).all()
        assert np.linalg.det(number(euler.angular_velocity_map_world(kind, x))) == pytest.approx(0.0, abs=1e-15)
    s = ca.SX.sym("x", 3)
    evaluate = ca.Function("e", [s], [euler.rate_map_world(kind, s)])
    entries = number(evaluate([0.3, 0.0 if q.proper else np.pi / 2, 0.4]))
    assert not np.isfinite(entries).all() or np.abs(entries).max() > 1e15
    close_by = np.array([0.3, (0.0 if q.proper else np.pi / 2) + 1e-6, 0.4])  # still a good inverse there
    close(number(euler.rate_map(kind, close_by)) @ number(euler.angular_velocity_map(kind, close_by)), np.eye(3), 1e-9)


@pytest.mark.row("000:K-136", "000:K-137", "000:K-138", "000:K-139", "001:K33")
@pytest.mark.parametrize("theta", [1e-3, 0.7, 2.0, np.pi, 4.5])
def test_angle_axis_maps_as_printed(theta):
    rng = np.random.default_rng(54)
    n, omega = rng.normal(size=(2, 3))
    n /= np.linalg.norm(n)
    rate = np.array([0.8, *np.cross(n, rng.normal(size=3))])  # the axis stays of unit length
    x = np.array([theta, *n])
    for frame, sign, forward, backward in (
        ("world", 1.0, angle_axis.angular_velocity_map_world, angle_axis.rate_map_world),
        ("body", -1.0, angle_axis.angular_velocity_map, angle_axis.rate_map),
    ):
        turn = rate[1:] * np.sin(theta) + sign * np.cross(n, rate[1:]) * (1 - np.cos(theta))
        close(number(forward(x)) @ rate, n * rate[0] + turn)
        half = np.sin(theta) / (1 - np.cos(theta)) / 2
        expected = np.vstack([n, -half * hat(n) @ hat(n) - sign * 0.5 * hat(n)])
        np.testing.assert_allclose(number(backward(x)), expected, rtol=1e-9, atol=1e-11)
        close(number(forward(x)) @ number(backward(x)), np.eye(3))
        got = column(rotation.rate("angle_axis", x, omega, frame))
        assert got[1:] @ n == pytest.approx(0.0, abs=1e-9)
        assert got[0] == pytest.approx(n @ omega)


@pytest.mark.row("000:K-138", "000:K-139", "001:K33")
def test_the_axis_has_no_rate_at_full_turns():
    for turns in (0, 1, -3):
        for frame in rotation.FRAMES:
            with pytest.raises(ChartSingularityError, match=r"angle_axis: singular, sin\(θ/2\)"):
                rotation.rate("angle_axis", [2 * np.pi * turns, 0, 0, 1], [1, 2, 3], frame)
    omega = column(rotation.angular_velocity("angle_axis", [0, 0, 0, 1], [0.7, 0.2, -0.1, 0]))
    close(omega, [0, 0, 0.7], 0)  # the other way is regular


@pytest.mark.row("000:K-140", "000:K-141", "000:K-142", "000:K-143", "001:K34")
@pytest.mark.parametrize("size", [0.0, 1e-9, 0.5, 3.0])
def test_rotation_vector_maps_are_gamma_and_its_transpose(size):
    rng = np.random.default_rng(55)
    phi, rate = size * np.array([2.0, -3.0, 6.0]) / 7.0, rng.normal(size=3)
    gamma = number(rotation_vector.gamma(phi))
    close(column(rotation.angular_velocity("rotation_vector", phi, rate, "world")), gamma @ rate)
    close(column(rotation.angular_velocity("rotation_vector", phi, rate)), gamma.T @ rate)
    close(column(rotation.rate("rotation_vector", phi, rate, "world")), np.linalg.solve(gamma, rate))
    close(column(rotation.rate("rotation_vector", phi, rate)), np.linalg.solve(gamma.T, rate))
    if size == 0.0:
        close(column(rotation.rate("rotation_vector", phi, rate)), rate, 0)
    for frame in rotation.FRAMES:
        with pytest.raises(ChartSingularityError):
            rotation.rate("rotation_vector", [0, 2 * np.pi, 0], rate, frame)


@pytest.mark.row("001:K27")
@every_kind
def test_maps_are_the_same_on_matrix_graphs(kind):
    """MX graphs, as NLPs are built of, against numbers."""
    m = motion(kind, *MOTIONS[2])
    shape = rotation.parameterisation(kind).shape
    x, rate, omega = ca.MX.sym("x", *shape), ca.MX.sym("rate", *shape), ca.MX.sym("w", 3)
    for frame in rotation.FRAMES:
        outputs = [
            rotation.angular_velocity(kind, x, rate, frame), rotation.rate(kind, x, omega, frame),
            rotation.second_rate(kind, x, rate, omega, frame),
        ]  # fmt: skip
        got = ca.Function("f", [x, rate, omega], outputs)(m["x"], m["rate"], m[frame])
        close(column(got[0]), m[frame])
        close(number(got[1]), m["rate"], 1e-11)
        close(number(got[2]), number(rotation.second_rate(kind, m["x"], m["rate"], m[frame], frame)), 1e-11)


@pytest.mark.row("001:K27")
@every_kind
def test_integrating_the_rates_turns_the_body(kind):
    """RK4 on ẋ = E⁺ ω with constant body-frame ω ends at exp(ω t); constraints of x drift with the error only."""
    omega, count = np.array([0.4, -0.3, 0.5]), 50
    start = Rotation.from_rotvec([0.4, 0.9, -0.3])
    x = number(rotation.convert(start.as_matrix(), "matrix", kind))
    entry = rotation.parameterisation(kind)
    s = ca.SX.sym("x", *entry.shape)
    f = ca.Function("f", [s], [rotation.rate(kind, s, omega)])
    h = 1.0 / count
    for _ in range(count):
        k1 = number(f(x))
        k2 = number(f(x + h / 2 * k1))
        k3 = number(f(x + h / 2 * k2))
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + number(f(x + h * k3)))
    end = (start * Rotation.from_rotvec(omega)).as_matrix()
    close(number(rotation.convert(x, kind, "matrix")), end, 1e-8)
