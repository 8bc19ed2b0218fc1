"""Charts of rotations: determinants, inverse maps, the same motion in all of them, singular places, the generator."""

import casadi as ca
import numpy as np
import pytest
from arrays import column, number
from scipy.integrate import solve_ivp

import dynamics
from dynamics import spatial
from dynamics.errors import ChartSingularityError
from dynamics.joints import charts
from dynamics.joints.charts import ChartState, switch
from dynamics.joints.derivatives import joint_derivatives
from dynamics.joints.kind import sample_box
from dynamics.lie import euler
from dynamics.model import BodyInertia, Builder, Joint

NAMES = (*euler.SEQUENCES, charts.VECTOR)
ANGLES = np.array([0.4, 0.9, -0.7])


def angular(chart, q, *rest):
    """R, S and dS/dt."""
    d = joint_derivatives(charts.joint_of(chart), ca.DM(q), ca.DM(rest[0] if rest else np.zeros(3)))
    return number(charts.joint_of(chart).transform(ca.DM(q)).R), number(spatial.angular(d.S)), number(spatial.angular(d.S_dot))


@pytest.mark.row("003:J08")
@pytest.mark.parametrize("chart", NAMES)
def test_measure_is_the_determinant(chart):
    for q in (ANGLES, -2.1 * ANGLES, 1e-9 * ANGLES):
        assert np.linalg.det(angular(chart, q)[1]) == pytest.approx(float(charts.measure(chart, ca.DM(q))), abs=1e-14)


def test_signs_of_the_measure():
    at = {c: float(charts.measure(c, ca.DM(ANGLES))) for c in euler.SEQUENCES}
    assert {c for c, x in at.items() if x == -np.sin(0.9)} == {"xyx", "xzx", "yzy", "yxy", "zxz", "zyz"}
    assert {c for c, x in at.items() if x == np.cos(0.9)} == {"xyz", "yzx", "zxy"}


@pytest.mark.row("003:J09")
@pytest.mark.parametrize("chart", NAMES)
def test_coordinates_of_a_rotation(chart):
    R = angular(chart, ANGLES)[0]
    np.testing.assert_allclose(charts.coordinates(chart, R), ANGLES, atol=1e-14)
    if chart == "xyz":
        np.testing.assert_allclose([np.arctan2(-R[1, 2], R[2, 2]), np.arcsin(R[0, 2]), np.arctan2(-R[0, 1], R[0, 0])], ANGLES)


@pytest.mark.row("003:J10")
@pytest.mark.parametrize("new", NAMES)
def test_a_motion_is_the_same_in_every_chart(new):
    """Rotation, angular velocity, angular acceleration; and the rates are those of the coordinates along the motion."""
    rng = np.random.default_rng(0)
    old = ChartState("xyz", ANGLES, *rng.standard_normal((2, 3)))
    found = switch(old, new)
    for state in (old, found):
        R, S, S_dot = angular(state.chart, state.q, state.v)
        values = np.r_[R.ravel(), S @ state.v, S @ state.a + S_dot @ state.v]
        if state is old:
            reference = values
    np.testing.assert_allclose(values, reference, atol=1e-12)
    h = 1e-4
    path = [charts.coordinates(new, angular("xyz", old.q + t * old.v + t * t / 2 * old.a)[0]) for t in (-h, 0, h)]
    np.testing.assert_allclose((path[2] - path[0]) / (2 * h), found.v, atol=1e-5)
    np.testing.assert_allclose((path[2] - 2 * path[1] + path[0]) / h**2, found.a, atol=1e-5)


def _turned(chart, q):
    return column(charts.to_quaternion(chart, ca.DM(q)))


@pytest.mark.parametrize("chart", NAMES)
@pytest.mark.sample(3)
def test_coordinates_go_on_from_those_before(chart):
    """However far they are wound up: the triple that is next to the one before, with rates that give the spin."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        q, v = rng.uniform(-9, 9, 3), rng.standard_normal(3)
        R, S, _ = angular(chart, q)
        np.testing.assert_allclose(angular(chart, charts.continued(chart, _turned(chart, q), S @ v, (q, v))[0])[0], R, atol=1e-12)
        found = charts.continued(chart, rng.choice([-1, 1]) * _turned(chart, q), S @ v, (q + rng.uniform(-0.05, 0.05, 3), v))
        np.testing.assert_allclose(found, (q, v), atol=1e-8)


@pytest.mark.parametrize("chart", euler.SEQUENCES)
@pytest.mark.sample(3)
def test_angles_at_gimbal_lock_are_shared_as_before(chart):
    """Only a sum or difference of the outer ones is given: the other stays, whole turns and all, and so does its rate."""
    lock = np.array([0.3, 0.0 if euler.sequence(chart).proper else np.pi / 2, -0.2])
    R, S, _ = angular(chart, lock)
    still = np.linalg.svd(S)[2][-1]
    across = np.array([-still[2], 0.0, still[0]])
    for turns in ((0, 0, 0), (1, 0, 0), (-2, 1, 1), (1, -1, 3)):
        q = lock + 2 * np.pi * np.array(turns) + 1.7 * still  # the same rotation
        np.testing.assert_allclose(angular(chart, q)[0], R, atol=1e-12)
        before = q + 0.1 * across + np.array([0.0, 0.05, 0.0])
        v = np.array([0.4, 1.2, -0.3])
        at = angular(chart, q)[1]
        found, rates = charts.continued(chart, _turned(chart, lock), at @ v, (before, v + 0.3 * across))
        np.testing.assert_allclose(found, q, atol=1e-9)
        np.testing.assert_allclose(rates, v, atol=1e-9)
        other = charts.continued(chart, _turned(chart, lock), at @ v + np.cross(*at[:, :2].T), (before, v))[1]
        np.testing.assert_allclose(other, v, atol=1e-9)  # of what no rates give nothing is seen


def test_a_rotation_vector_at_a_whole_turn_stays_on_its_axis():
    axis = np.array([0.6, 0.0, -0.8])
    q, v = charts.continued(charts.VECTOR, [-1.0, 0.0, 0.0, 0.0], 3 * axis, (6.2 * axis, 3 * axis))
    np.testing.assert_allclose(q, 2 * np.pi * axis, atol=1e-12)
    np.testing.assert_allclose(v, 3 * axis, atol=1e-12)


def test_a_singular_chart_is_refused():
    state = ChartState("zxz", np.array([0.3, np.pi / 2, 0.0]), np.ones(3), np.ones(3))
    assert charts.measure("zxz", ca.DM(state.q)) == -1
    with pytest.raises(ChartSingularityError, match=r"xyz: singular, det S"):
        switch(ChartState("yxz", np.array([np.pi / 2, 0.0, 0.0]), np.ones(3), np.ones(3)), "xyz")


def _spinning(kind, chart=""):
    b = Builder("body", gravity=(0.0, 0.0, -9.81))
    b.body("body", parent="world", joint=Joint("j", kind, chart=chart), inertia=BodyInertia(
        1.0, (0.1, 0.0, -0.3), ((0.10, 0.0, 0.0), (0.0, 0.14, 0.0), (0.0, 0.0, 0.05))))
    model = b.build()
    f, N = dynamics.make(model, "forward_dynamics"), model.kind(0).rate

    def slope(t, s):
        q, v = s[:model.nq], s[model.nq:]
        return np.r_[number(N(ca.DM(q))) @ v, column(f(q, v, np.zeros(3)))]

    return model, slope


@pytest.mark.row("003:J10")
def test_a_pendulum_swings_through_gimbal_lock():
    """Charts are changed on the way where det S gets small; poses are those of a joint without charts."""
    omega, until = np.array([0.3, 7.0, 0.5]), 1.6
    ball, slope = _spinning("spherical")
    run = solve_ivp(slope, (0, until), np.r_[1.0, 0.0, 0.0, 0.0, omega], rtol=1e-10, atol=1e-12, dense_output=True)
    state = ChartState("xyz", np.zeros(3), np.linalg.solve(angular("xyz", np.zeros(3))[1], omega), np.zeros(3))
    used, smallest, t = ["xyz"], 1.0, 0.0
    while t < until:
        model, slope = _spinning("euler", state.chart)
        end = solve_ivp(slope, (t, t + 0.05), np.r_[state.q, state.v], rtol=1e-10, atol=1e-12).y[:, -1]
        t += 0.05
        state = ChartState(state.chart, end[:3], end[3:], np.zeros(3))
        R, reference = angular(state.chart, state.q)[0], ball.kind(0).transform(ca.DM(run.sol(t)[:4])).R
        np.testing.assert_allclose(R, number(reference), atol=1e-6)
        smallest = min(smallest, abs(np.cos(charts.coordinates("xyz", R)[1])))
        if abs(float(charts.measure(state.chart, ca.DM(state.q)))) < 0.5:
            state = switch(state, charts.best([R]))
            used.append(state.chart)
    assert len(used) > 1
    assert smallest < 0.1  # the first chart alone would have come close to its singular place


@pytest.mark.row("003:A16", "003:D11")
@pytest.mark.parametrize("chart", NAMES)
def test_generated_formulas(chart):
    """Every block against differences of R and S alone; the body's angular velocity is that of ``dynamics.lie``; C is written."""
    f, v, h = charts.formulas(chart), np.array([0.3, -0.8, 0.6]), 1e-5
    names = f.name_out()
    at = {name: number(x) for name, x in zip(names, f(ANGLES, v), strict=True)}
    if chart != charts.VECTOR:
        np.testing.assert_allclose(at["S"], number(euler.angular_velocity_map(chart, ANGLES)), atol=1e-15)
        np.testing.assert_allclose(at["R"], number(euler.to_matrix(chart, ANGLES)), atol=1e-15)

    def slope(name, d):
        ends = [number(f(ANGLES + s * h * d, v)[names.index(name)]) for s in (1, -1)]
        return (ends[0] - ends[1]) / (2 * h)

    for base, derivative in (("R", "dR"), ("S", "dS"), ("R_dot", "dR_dot"), ("S_dot", "dS_dot")):
        for k in range(3):
            np.testing.assert_allclose(at[derivative][:, k].reshape(3, 3).T, slope(base, np.eye(3)[k]), atol=1e-9)
    for base in ("R", "S"):
        np.testing.assert_allclose(at[f"{base}_dot"], slope(base, v), atol=1e-9)
    assert at["det_S"].item() == pytest.approx(np.linalg.det(at["S"]))
    generator = ca.CodeGenerator(f"{chart}.c")
    generator.add(f)
    assert f"chart_{chart}(" in generator.dump()


def test_a_range_of_no_width_has_a_sample():
    """Also from 0 to -0, as mirrored joints have it, which NumPy takes for a negative range."""
    assert sample_box(np.random.default_rng(0), np.zeros(1), -np.zeros(1), 1.0) == 0.0
