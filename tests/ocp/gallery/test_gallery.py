"""Problems with known answers: each file solves by its own options, is certified and reaches its reference; where the optimum is
known in closed form, the trajectory, the control and the number in the file are compared with it."""

import re

import mpmath as mp
import numpy as np
import pytest
from repository import ROOT
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.optimize import brentq

from ocp.app.files.load import load_problem
from ocp.certify import Tolerances
from ocp.methods import solve

FOLDER = ROOT / "problems"

CLOSED = ("brachistochrone_flat", "bryson_denham", "dubins_car", "flexible_joint", "free_floating_robot_goal_cost",
          "free_floating_robot_transfer", "goddard_rocket", "hanging_chain", "hypersensitive_long", "jerk_limited_move",
          "lqr_scalar", "moon_landing", "nonholonomic_integrator", "zermelo")
CONVERGED = ("cannonball", "car_obstacles", "catalyst_mixing", "container_crane", "ducted_fan", "free_floating_robot_min_time",
             "free_flying_robot", "hang_glider", "hypersensitive", "particle_steering", "pendulum_min_time", "quadrotor_min_time",
             "quadrotor_slalom", "rayleigh", "rayleigh_mixed", "robot_arm_min_time", "rocket_landing", "satellite_reorientation",
             "shuttle_reentry", "space_robot", "truck_trailer", "two_link_arm_min_time", "van_der_pol", "van_der_pol_limited")
SLOW = ("hypersensitive", "hypersensitive_long", "jerk_limited_move", "free_flying_robot", "free_floating_robot_min_time")
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in sorted(CLOSED + CONVERGED)]


@pytest.fixture(scope="module")
def solved():
    """Loaded file and solution by name; each file is solved once."""
    found = {}

    def run(name):
        if name not in found:
            loaded = load_problem(FOLDER / f"{name}.yaml")
            found[name] = loaded, solve(loaded.problem, "collocation", loaded.options_for("collocation"),
                                        tolerances=Tolerances(**loaded.accept))
        return found[name]

    return run


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sample(11)
def test_certified_at_its_reference(solved, name):
    loaded, solution = solved(name)
    assert solution.ok, (solution.status, solution.ending, solution.certificate.failures)
    reference = loaded.problem.reference
    assert solution.objective == pytest.approx(reference.objective, rel=reference.tolerance)


@pytest.mark.parametrize("name", sorted(CLOSED + CONVERGED))
def test_says_what_it_is(name):
    """A description in prose, a source, a reference with a source of its own and a tolerance that would notice a wrong answer."""
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    problem = load_problem(FOLDER / f"{name}.yaml").problem
    assert len(problem.description.split()) >= 15
    assert problem.source
    assert re.search("closed form|converged|optimised|integrated", problem.reference.source)
    assert problem.reference.tolerance <= 1e-3
    assert "accept:" not in text or re.search(r"^accept: .*#", text, flags=re.M), "looser tolerances need a reason beside them"


# ---- closed forms: the number in the file ---------------------------------------------------------------------------------
def reference(name):
    return load_problem(FOLDER / f"{name}.yaml").problem.reference.objective


def cycloid(dx, dy, g):
    """(radius, final angle) of the cycloid from rest through (dx, dy down)."""
    angle = brentq(lambda p: (p - np.sin(p)) / (1 - np.cos(p)) - dx / dy, 1e-3, 2 * np.pi - 1e-3, xtol=1e-15)
    return dy / (1 - np.cos(angle)), angle


def chain():
    """(C, s0, k) of the catenary x = k + C cosh((s - s0)/C) of length 4 from (0, 1) to (1, 3)."""
    C = brentq(lambda C: 2 * C * np.sinh(1 / (2 * C)) - np.sqrt(16 - 4), 0.05, 5, xtol=1e-16)
    s0 = (1 - 2 * C * np.arcsinh(2 / (2 * C * np.sinh(1 / (2 * C))))) / 2
    return C, s0, 1 - C * np.cosh(s0 / C)


def gramian():
    """(A, B, W) of the flexible joint over one second, W = int exp(A s) B B' exp(A' s) ds."""
    J, inertia, k, d = 0.1, 0.2, 20.0, 0.1
    spring = np.array([-k, k, -d, d])
    A = np.vstack([[0, 0, 1, 0], [0, 0, 0, 1], spring / J, -spring / inertia])
    B = np.array([[0], [0], [1 / J], [0]])
    nodes, weights = np.polynomial.legendre.leggauss(60)
    parts = [w / 2 * (e := expm(A * (s + 1) / 2) @ B) @ e.T for s, w in zip(nodes, weights, strict=True)]
    return A, B, np.sum(parts, axis=0)


def test_numbers_of_the_closed_forms():
    radius, angle = cycloid(10, 5, 9.80665)
    assert reference("brachistochrone_flat") == pytest.approx(angle * np.sqrt(radius / 9.80665), abs=1e-9)
    C, s0, k = chain()
    energy = mp.quad(lambda s: (k + C * mp.cosh((s - s0) / C)) * mp.cosh((s - s0) / C), [0, 0.5, 1])
    assert reference("hanging_chain") == pytest.approx(float(energy), abs=1e-9)
    assert mp.quad(lambda s: mp.cosh((s - s0) / C), [0, 0.5, 1]) == pytest.approx(4, abs=1e-12)
    _, _, W = gramian()
    ends = np.array([1, 1, 0, 0])
    assert reference("flexible_joint") == pytest.approx(ends @ np.linalg.solve(W, ends) / 2, abs=1e-9)
    root = np.sqrt(2)
    assert reference("lqr_scalar") == pytest.approx(np.sinh(root) / (root * np.cosh(root) - np.sinh(root)), abs=1e-12)
    # endless horizon: the Hamiltonian is zero, so that the value function's slope is -x^3 +- sqrt(x^6 + x^2)
    value = mp.quad(lambda x: mp.sqrt(x**6 + x**2) - x**3, [0, 1.5]) + mp.quad(lambda x: mp.sqrt(x**6 + x**2) + x**3, [0, 1])
    assert reference("hypersensitive_long") == pytest.approx(float(value), abs=1e-11)
    assert reference("free_floating_robot_goal_cost") == pytest.approx(768 / 59, abs=1e-12)


def test_jumps_of_the_moon_lander(solved):
    """Coasting, then full thrust: the two durations follow from height and speed at touchdown."""
    exhaust, most = mp.mpf("2.349"), mp.mpf("1.227")

    def touchdown(coast, burn):
        share = most / exhaust * burn  # of the mass that is burnt
        height = 1 - mp.mpf("0.783") * coast - coast**2 / 2 + (-mp.mpf("0.783") - coast) * burn - burn**2 / 2
        return (height + exhaust**2 / most * ((1 - share) * mp.log(1 - share) + share),
                -mp.mpf("0.783") - coast - burn - exhaust * mp.log(1 - share))

    coast, burn = mp.findroot(touchdown, (0.2, 1.2))
    assert reference("moon_landing") == pytest.approx(float(-(1 - most / exhaust * burn)), abs=1e-10)
    path = solved("moon_landing")[1].trajectory
    assert path.t[-1] == pytest.approx(float(coast + burn), abs=1e-4)
    assert np.allclose(path.control(np.array([0.1, float(coast) - 0.02]))[:, 0], 0, atol=1e-4)
    assert np.allclose(path.control(np.array([float(coast) + 0.02, 1.2]))[:, 0], 1.227, atol=1e-4)


def test_height_of_goddards_rocket(solved):
    """Full thrust until D (1 + v/c) = m g, thrust that stays there until the fuel is spent, coasting to the top."""
    c, drag, decay, most = 0.5, 310.0, 500.0, 3.5

    def D(h, v):
        return drag * v**2 * np.exp(-decay * (h - 1))

    def surface(h, v, m):
        return D(h, v) * (1 + v / c) - m / h**2

    def rate(h, v, m, thrust):
        return np.array([v, (thrust - D(h, v)) / m - 1 / h**2, -thrust / c])

    def singular(y):
        # the surface is linear in thrust along the motion: its rate without thrust over that with unit thrust
        h, v, m = y
        slope = np.array([-decay * D(h, v) * (1 + v / c) + 2 * m / h**3, 2 * D(h, v) / v * (1 + v / c) + D(h, v) / c, -1 / h**2])
        return -slope @ rate(h, v, m, 0) / (slope @ (rate(h, v, m, 1) - rate(h, v, m, 0)))

    def fly(y, thrust, event):
        event.terminal = True
        out = solve_ivp(lambda t, y: rate(*y, thrust(y)), (0, 1), y, events=event, rtol=1e-12, atol=1e-14, method="DOP853")
        return out.t_events[0][0], out.y_events[0][0]

    first, y = fly([1, 0, 1], lambda y: most, lambda t, y: surface(*y))
    arc, y = fly(y, singular, lambda t, y: y[2] - 0.6)
    coast, top = fly(y, lambda y: 0.0, lambda t, y: y[1])
    assert reference("goddard_rocket") == pytest.approx(-top[0], abs=2e-10)
    path = solved("goddard_rocket")[1].trajectory
    assert path.t[-1] == pytest.approx(first + arc + coast, abs=1e-4)
    at = first + np.linspace(0.2, 0.8, 7) * arc
    assert np.max(np.abs([surface(*x) for x in path.state(at)])) < 2e-2   # of terms of order one


# ---- closed forms: trajectory and control -----------------------------------------------------------------------------------
def test_bryson_denham_rests_on_its_stop(solved):
    path, stop = solved("bryson_denham")[1].trajectory, 1 / 9
    t = np.linspace(0, 1, 101)
    before = 1 - t / (3 * stop)
    after = 1 - (1 - t) / (3 * stop)
    u = np.select([t < 3 * stop, t > 1 - 3 * stop], [-2 / (3 * stop) * before, -2 / (3 * stop) * after], 0)
    x = np.select([t < 3 * stop, t > 1 - 3 * stop], [stop * (1 - before**3), stop * (1 - after**3)], stop)
    assert np.allclose(path.control(t)[:, 0], u, atol=5e-4)
    assert np.allclose(path.state(t)[:, 0], x, atol=5e-6)


def test_flat_brachistochrone_is_a_cycloid(solved):
    path = solved("brachistochrone_flat")[1].trajectory
    radius, angle = cycloid(10, 5, 9.80665)
    t = np.linspace(0, path.t[-1], 41)
    p = angle * t / path.t[-1]
    assert np.allclose(path.state(t)[:, :2], np.column_stack([radius * (p - np.sin(p)), 10 - radius * (1 - np.cos(p))]), atol=1e-5)
    assert np.allclose(path.control(t[5:])[:, 0], p[5:] / 2, atol=1e-3)


def test_steering_is_linear_in_the_tangent(solved):
    path = solved("particle_steering")[1].trajectory
    tangent = np.tan(path.control(np.linspace(0, path.t[-1], 21))[:, 0])
    assert np.allclose(np.diff(tangent, 2), 0, atol=1e-3)
    assert abs(tangent[-1] - tangent[0]) > 1


def test_scalar_regulator_follows_riccati(solved):
    path, root = solved("lqr_scalar")[1].trajectory, np.sqrt(2)
    t = np.linspace(0, 1, 31)

    def shape(s):
        return root * np.cosh(root * s) - np.sinh(root * s)

    x = shape(1 - t) / shape(1)
    assert np.allclose(path.state(t)[:, 0], x, atol=1e-6)
    assert np.allclose(path.control(t)[:, 0], -np.sinh(root * (1 - t)) / shape(1), atol=5e-4)


def test_chain_is_a_catenary(solved):
    path, (C, s0, k) = solved("hanging_chain")[1].trajectory, chain()
    s = np.linspace(0, 1, 41)
    assert np.allclose(path.state(s)[:, 0], k + C * np.cosh((s - s0) / C), atol=2e-2)   # slopes of the trapezoid alternate a little


def test_floating_robot_flies_straight(solved):
    path = solved("free_floating_robot_transfer")[1].trajectory
    t = np.linspace(0, 5, 21)
    force = 10 * 4 * (6 / 25 - 12 * t / 125)  # of each pair
    assert np.allclose(path.control(t), force[:, None] / 2, atol=1e-7)
    assert np.allclose(path.state(t)[:, 4:], 0, atol=1e-9)


def test_flexible_joint_follows_its_gramian(solved):
    path, (A, B, W) = solved("flexible_joint")[1].trajectory, gramian()
    weight = np.linalg.solve(W, np.array([1, 1, 0, 0]))
    t = np.linspace(0, 1, 25)
    u = [float((B.T @ expm(A.T * (1 - s)) @ weight)[0]) for s in t]
    assert np.allclose(path.control(t)[:, 0], u, atol=2e-3 * np.max(np.abs(u)))


def test_nonholonomic_motion_is_a_semicircle(solved):
    path = solved("nonholonomic_integrator")[1].trajectory
    t = np.linspace(0, 1, 21)
    assert np.allclose(path.state(t)[:, :2], np.column_stack([(1 - np.cos(np.pi * t)) / 2, -np.sin(np.pi * t) / 2]), atol=1e-6)
    assert np.allclose(path.control(t), np.pi / 2 * np.column_stack([np.sin(np.pi * t), -np.cos(np.pi * t)]), atol=5e-4)


def test_dubins_goes_left_straight_left(solved):
    path = solved("dubins_car")[1].trajectory
    arcs, line = np.array([0.1, 0.4, 0.7, 5.1, 5.4, 5.7]), np.linspace(np.pi / 4 + 0.05, np.pi / 4 + 3 * np.sqrt(2) - 0.05, 15)
    assert np.allclose(path.control(arcs)[:, 0], 1, atol=1e-4)
    x, y, theta = path.state(line).T
    assert np.allclose(x - y, np.sqrt(2) - 1, atol=1e-3)
    assert np.allclose(theta, np.pi / 4, atol=2e-2)   # the turn of the trapezoid alternates on the singular line


def test_zermelo_turns_its_tangent_at_unit_rate(solved):
    path = solved("zermelo")[1].trajectory
    start, time = mp.findroot(lambda a, T: _boat(a, T), (-3.7, 5.4))
    assert reference("zermelo") == pytest.approx(float(time), abs=1e-9)
    t = np.linspace(0, path.t[-1], 31)
    assert np.allclose(path.control(t)[:, 0], np.pi + np.arctan(float(start) + t), atol=1e-5)


def _boat(start, time):
    """Where the boat is when its tangent has gone from ``start`` to ``start + time`` with the bow to the left."""
    def y(q):
        return mp.mpf("-1.86") - (mp.sqrt(1 + q**2) - mp.sqrt(1 + start**2))

    return mp.mpf("3.66") - mp.quad(lambda q: 1 / mp.sqrt(1 + q**2) + y(q), [start, 0, start + time]), y(start + time)


@pytest.mark.slow
def test_profile_with_seven_pieces(solved):
    path = solved("jerk_limited_move")[1].trajectory
    states = path.state(np.array([0.1, 0.5, 0.6, 1.3, 2.0, 2.1, 2.5]))
    assert np.allclose(states[:, 2], [4, 4, 0, 0, 0, -4, -4], atol=0.2)
    assert np.allclose(states[:, 1], [0.2, 1.8, 2, 2, 2, 1.8, 0.2], atol=0.01)


# ---- physics that no reference shows ----------------------------------------------------------------------------------------
def test_space_robot_keeps_its_momentum(solved):
    """Angular momentum from positions and velocities of the three bodies, built without the file's formulas: zero, and the base
    has turned while the joints are where they were."""
    path = solved("space_robot")[1].trajectory
    mass, inertia, a, l1, l2 = np.array([40.0, 4.0, 3.0]), np.array([6.667, 0.333, 0.25]), 0.5, 1.0, 1.0
    for x in path.state(np.linspace(0, 10, 41)):
        phi, rate = x[:3], x[3:]
        e, de = np.column_stack([np.cos(phi), np.sin(phi)]), np.column_stack([-np.sin(phi), np.cos(phi)]) * rate[:, None]
        places, speeds = (np.array([0 * v[0], a * v[0] + l1 / 2 * v[1], a * v[0] + l1 * v[1] + l2 / 2 * v[2]]) for v in (e, de))
        places, speeds = places - mass @ places / mass.sum(), speeds - mass @ speeds / mass.sum()
        spin = inertia @ rate + mass @ (places[:, 0] * speeds[:, 1] - places[:, 1] * speeds[:, 0])
        assert abs(spin) < 1e-5
    end = path.x[-1]
    assert end[:3] == pytest.approx(np.array([0, np.pi / 2, np.pi]) + np.pi / 6, abs=1e-8)
    assert np.allclose(end[3:], 0, atol=1e-5)


def test_satellite_keeps_its_quaternion_and_beats_the_plain_turn(solved):
    path = solved("satellite_reorientation")[1].trajectory
    assert np.allclose(np.linalg.norm(path.x[:, :4], axis=1), 1, atol=1e-4)
    assert path.t[-1] < 2 * np.sqrt(np.deg2rad(150) * 5621 / 50) - 5   # about the first axis alone


def test_rocket_burns_at_its_limits(solved):
    loaded, solution = solved("rocket_landing")
    u = solution.trajectory.u
    thrust = np.linalg.norm(u[:, :3], axis=1)
    assert np.allclose(thrust, u[:, 3], atol=1e-3)                        # the relaxation of the thrust's length is tight
    at_limits = np.minimum(abs(u[:, 3] - 4.971), abs(u[:, 3] - 13.258)) < 1e-3
    assert at_limits.mean() > 0.95
    assert np.min(u[:, 2] / thrust) > np.cos(np.deg2rad(40)) - 1e-4


def test_best_cannonball_has_a_radius_inside_its_range(solved):
    radius = solved("cannonball")[1].extra["parameters"][0]
    assert radius == pytest.approx(0.04186759, abs=2e-6)
