"""Hybrid, periodic and multi-phase problems of the gallery: certified, at their references, and right by independent roads."""

import functools

import casadi as ca
import numpy as np
import pytest
from planar_walkers import collocate, compass, least_effort, rabbit, solved
from repository import ROOT
from scipy.integrate import quad, solve_bvp, solve_ivp
from scipy.optimize import fsolve

from dynamics import algorithms as alg
from ocp.app.files.load import load_problem
from ocp.certify import Tolerances
from ocp.methods import solve

FOLDER = ROOT / "problems"
QUICK = ("biped_walking", "compass_gait", "compass_passive", "dynamic_soaring", "goddard_arcs",
         "slip_hopper", "two_burn_orbit_raise", "van_der_pol_periodic")
SLOW = ("biped_inverse_dynamics", "drone_gates", "launch_vehicle", "leg_leap", "monopod_hopping", "space_manipulator")


@functools.cache
def run(name, **options):
    """The file as it stands, or with other options."""
    loaded = load_problem(FOLDER / f"{name}.yaml")
    given = {**loaded.options_for("collocation"), **options}
    return loaded, solve(loaded.problem, "collocation", given, tolerances=Tolerances(**loaded.accept))


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
@pytest.mark.sample(3)
def test_certified_and_at_its_reference(name):
    loaded, solution = run(name)
    assert solution.ok, (solution.status, solution.ending, solution.certificate.failures)
    reference = loaded.problem.reference
    assert solution.objective == pytest.approx(reference.objective, rel=reference.tolerance)


# ---- walking: the floating chain in absolute angles, by Lagrange's equations and Gauss collocation ----------------------
def absolute(x):
    """Absolute angles and rates from those of the joints."""
    n = len(x) // 2
    return np.r_[np.cumsum(x[:n]), np.cumsum(x[n:])]


@pytest.mark.parametrize("name", ["biped_walking", pytest.param("biped_inverse_dynamics", marks=pytest.mark.slow)])
def test_the_impact_of_the_biped(name):
    """The step starts as the floating robot, pushed at the landing foot alone, leaves the impact at its end."""
    _, solution = run(name)
    states = solution.trajectory.x
    after = np.asarray(rabbit().impact()(absolute(states[-1]))).ravel()
    assert absolute(states[0]) == pytest.approx(after, abs=2e-6)
    assert np.asarray(rabbit().foot()(absolute(states[-1]))).ravel() == pytest.approx([0.5, 0], abs=1e-6)


def test_the_effort_of_the_biped():
    ends = np.array([[0.09, 0.49, -0.13, -0.35, -0.36], [-0.36, -0.35, -0.13, 0.49, 0.09]])
    effort, start = least_effort(rabbit(), 0.5, 0.7, ends, 15, 4, 100, knees=((1, 0), (3, 4)))
    _, solution = run("biped_walking")
    assert effort == pytest.approx(solution.objective, rel=1e-6)
    assert start == pytest.approx(absolute(solution.trajectory.x[0]), abs=1e-3)


def test_the_effort_of_the_compass():
    effort, start = least_effort(compass(), 0.5, (0.3, 1.5), np.array([[0.25, -0.25], [-0.25, 0.25]]), 20, 4, 50)
    _, solution = run("compass_gait")
    assert effort == pytest.approx(solution.objective, rel=1e-6)
    assert start == pytest.approx(solution.trajectory.x[0], abs=1e-5)


def test_the_passive_gait_is_the_fixed_point_of_its_return_map():
    rate, impact, slope = compass().rate(), compass().impact(), np.deg2rad(3)

    def strike(t, x):
        return x[0] + x[1] + 2 * slope

    strike.terminal, strike.direction = True, -1

    def step(z):
        x = np.r_[z[0], -2 * slope - z[0], z[1:]]
        flow = functools.partial(solve_ivp, lambda t, x: np.asarray(rate(x, 0)).ravel(), rtol=1e-11, atol=1e-12)
        past_scuffing = flow((0, 0.3), x).y[:, -1]
        end = flow((0.3, 1.5), past_scuffing, events=strike)
        return end.t[-1], np.asarray(impact(end.y[:, -1])).ravel() - x

    z = fsolve(lambda z: step(z)[1][[0, 2, 3]], [0.22, -1.09, -0.38], xtol=1e-12)
    assert step(z)[0] == pytest.approx(run("compass_passive")[1].objective, abs=1e-8)


# ---- the others ---------------------------------------------------------------------------------------------------------
def test_the_hopper_in_polar_coordinates():
    opti = ca.Opti()
    stance, flight = opti.variable(), opti.variable()

    def rate(x, u):  # length of the leg, angle from the vertical, their rates
        r, angle, dr, spin = ca.vertsplit(x)
        force = 1000 * (20 * (1 - r) - 0.3 * dr + u) / 80
        return ca.vertcat(dr, spin, r * spin**2 - 9.81 * ca.cos(angle) + force, (9.81 * ca.sin(angle) - 2 * dr * spin) / r)

    def cartesian(z):
        r, angle, dr, spin = ca.vertsplit(z)
        s, c = ca.sin(angle), ca.cos(angle)
        return r * s, r * c, dr * s + r * spin * c, dr * c - r * spin * s

    ends, x, u, weights = collocate(opti, rate, 4, 1, stance, 20, 4)
    for states in (ends, x):
        share = np.linspace(0, 1, states.shape[1])
        for row, guess in ((0, 1 - 0.15 * np.sin(np.pi * share)), (1, 0.7 * share - 0.35), (3, 3)):
            opti.set_initial(states[row, :], guess)
    opti.set_initial(stance, 0.25)
    opti.set_initial(flight, 0.3)
    opti.subject_to(opti.bounded(0.05, stance, 0.6))
    opti.subject_to(opti.bounded(0.02, flight, 1.2))
    a, b = cartesian(ends[:, 0]), cartesian(ends[:, -1])
    opti.subject_to(ends[0, 0] == 1)
    opti.subject_to(ends[0, -1] == 1)
    opti.subject_to(ca.vec(20 * (1 - x[0, :]) - 0.3 * x[2, :] + u) >= 0)
    opti.subject_to(b[2] == a[2])
    opti.subject_to(b[3] - 9.81 * flight == a[3])
    opti.subject_to(b[1] + b[3] * flight - 9.81 * flight**2 / 2 == a[1])
    opti.subject_to(b[1] + b[3] ** 2 / 2 / 9.81 == 1.05)
    opti.subject_to(b[0] + b[2] * flight - a[0] == 3 * (stance + flight))
    cost = stance * ca.dot(ca.DM(weights), (u**2).T)
    opti.minimize(cost)
    assert float(solved(opti).value(cost)) == pytest.approx(run("slip_hopper")[1].objective, rel=1e-6)


def test_the_forced_oscillator_by_the_maximum_principle():
    """H = u^2 + p v + q ((1 - x^2) v - x + u): u = -q / 2, p' = -H_x, q' = -H_v."""
    def rate(t, y):
        x, v, p, q = y
        return np.vstack([v, (1 - x**2) * v - x - q / 2, q * (2 * x * v + 1), -p - q * (1 - x**2)])

    t = np.linspace(0, 5, 200)
    guess = np.vstack([2 * np.cos(2 * np.pi * t / 5), -2 * np.sin(2 * np.pi * t / 5), 0 * t, 0 * t])
    found = solve_bvp(rate, lambda a, b: np.array([a[0] - 2, a[1], b[0] - 2, b[1]]), t, guess, tol=1e-8, max_nodes=50_000)
    assert found.status == 0
    effort = quad(lambda s: (found.sol(s)[3] / 2) ** 2, 0, 5, epsabs=1e-10, limit=500)[0]
    assert run("van_der_pol_periodic")[1].objective == pytest.approx(effort, rel=1e-8)


def test_the_singular_arc_starts_where_it_must():
    """Nothing in the file asks for (1 + v/c) D = m g at the switch; the best durations bring it about."""
    _, solution = run("goddard_arcs")
    for x in (solution.parts[1].x[0], solution.parts[1].x[-1]):
        h, v, m = x
        drag = 310 * v**2 * np.exp(-500 * (h - 1))
        assert (1 + v / 0.5) * drag == pytest.approx(m / h**2, rel=1e-6)


@pytest.mark.slow
def test_the_launch_reaches_its_orbit():
    """Orbital elements of the last state, by the textbook; booster by booster, the mass that the phases lose."""
    _, solution = run("launch_vehicle")
    *position_velocity, mass = solution.parts[3].x[-1]
    r, v = np.split(np.array(position_velocity), 2)
    mu = 398.6012
    H = np.cross(r, v)
    node, e = np.cross([0, 0, 1], H), np.cross(v, H) / mu - r / np.linalg.norm(r)
    assert 1 / (2 / np.linalg.norm(r) - v @ v / mu) == pytest.approx(24.361140, rel=1e-7)
    assert np.linalg.norm(e) == pytest.approx(0.7308, abs=1e-8)
    assert np.rad2deg(np.arccos(H[2] / np.linalg.norm(H))) == pytest.approx(28.5, abs=1e-6)
    assert np.rad2deg(np.arctan2(node[1], node[0])) % 360 == pytest.approx(269.8, abs=1e-6)
    assert np.rad2deg(np.arccos(node @ e / np.linalg.norm(node) / np.linalg.norm(e))) == pytest.approx(130.5, abs=1e-6)
    burned = 16.820 * (solution.parts[3].t[-1] - 261) / 700
    assert mass == pytest.approx(19.300 + 4.164 - burned, abs=1e-8)
    assert solution.parts[3].t[-1] == pytest.approx(924.139, abs=2e-3)  # as published


def test_no_thrust_between_the_burns():
    _, solution = run("two_burn_orbit_raise")
    coast = solution.parts[1].x
    r, _, vr, vt = coast[:, :4].T
    assert np.ptp(r * vt) == pytest.approx(0, abs=1e-7)
    assert np.ptp((vr**2 + vt**2) / 2 - 1 / r) == pytest.approx(0, abs=1e-7)
    acceleration, spent = solution.parts[2].x[-1, 4:]
    assert spent == pytest.approx(1.5 * np.log(acceleration / 0.1), rel=1e-9)  # Tsiolkovsky


@pytest.mark.slow
def test_soaring_on_other_meshes():
    _, solution = run("dynamic_soaring")
    for other in ({"scheme": "trapezoid", "intervals": 300}, {"scheme": "radau", "degree": 3, "controls": "polynomial"}):
        assert run("dynamic_soaring", **other)[1].objective == pytest.approx(solution.objective, rel=1e-5)


@pytest.mark.slow
def test_the_drone_flies_through_its_gates():
    _, solution = run("drone_gates")
    first, second = solution.parts[0].x[-1], solution.parts[1].x[-1]
    assert first[0] == pytest.approx(2, abs=1e-7)
    assert second[1] == pytest.approx(3, abs=1e-7)
    assert np.hypot(first[1] - 0.5, first[2] - 1.5) <= 0.15 + 1e-6
    assert np.hypot(second[0] - 3, second[2] - 1) <= 0.15 + 1e-6
    assert run("drone_gates", states="coordinates")[1].objective == pytest.approx(solution.objective, rel=1e-6)


@pytest.mark.slow
def test_the_ground_pushes_the_foot_of_the_monopod_alone():
    """By the mass matrix: the impulse has no component but at the foot, and it pushes; the foot never pulls, nor in the air."""
    loaded, solution = run("monopod_hopping")
    model, (stance, flight) = loaded.model, solution.parts
    before, after = flight.x[-1], stance.x[0]
    assert after[2:5] == pytest.approx(before[2:5], abs=1e-6)
    impulse = np.array(ca.DM(alg.mass_matrix(model, ca.DM(before[:5])))) @ (after[5:] - before[5:])
    assert impulse[2:] == pytest.approx(np.zeros(3), abs=1e-5)
    assert impulse[1] > 1
    forces = [np.array([np.array(ca.DM(alg.inverse_dynamics(model, ca.DM(x[:5]), ca.DM(x[5:]), ca.DM(phase.control(t))))).ravel()
                        for t, x in zip(phase.t, phase.x, strict=True)]) for phase in (stance, flight)]
    inside = slice(1, -1)
    assert (forces[0][inside, 1] >= -1e-3).all()
    assert (np.abs(forces[0][inside, 0]) <= 0.8 * forces[0][inside, 1] + 1e-3).all()
    assert forces[1][inside, :3] == pytest.approx(np.zeros_like(forces[1][inside, :3]), abs=1e-3)
    assert flight.t[-1] - flight.t[0] == pytest.approx(0.4 * flight.t[-1], abs=1e-7)


@pytest.mark.slow
def test_the_leg_leaps_by_its_foot_alone():
    """By the momentum of the whole robot, which knows no constraint: the ground's force is its change less the weight, in a cone;
    the foot stands, flies and stops, and the touch-down is an impulse at the foot that takes energy."""
    loaded, solution = run("leg_leap")
    model, (stance, flight, landing) = loaded.model, solution.parts
    x, d = ca.SX.sym("x", 10), ca.SX.sym("d", 10)
    momentum = alg.momentum(model, x[:5], x[5:])[:3]
    foot = alg.frame_pose(model, x[:5], "foot").p
    f = ca.Function("f", [x, d], [foot, ca.jtimes(foot, x, ca.vertcat(x[5:], ca.SX(5, 1))), ca.jtimes(momentum, x, d)])
    weight = np.array([0, 0, -9.81 * sum(body.inertia.mass for body in model.bodies)])

    def forces(part, phase):
        rate = phase.system.rate
        return np.array([np.array(f(a, rate(s, a, part.control(s), []))[2]).ravel() - weight for s, a in zip(
            part.t[1:-1], part.x[1:-1], strict=True)])

    for part, phase in zip((stance, landing), (loaded.problem.phases[0], loaded.problem.phases[2]), strict=True):
        places = np.array([np.array(f(a, np.zeros(10))[0]).ravel() for a in part.x])
        assert np.ptp(places, axis=0) == pytest.approx(np.zeros(3), abs=1e-5)
        assert places[:, 2] == pytest.approx(np.zeros(len(places)), abs=1e-5)
        push = forces(part, phase)
        assert (push[:, 2] > 0).all()
        assert (np.abs(push[:, 0]) <= 0.7 * push[:, 2] + 0.1).all()
    assert forces(flight, loaded.problem.phases[1]) == pytest.approx(np.zeros((len(flight.t) - 2, 3)), abs=1e-6)
    assert min(float(f(a, np.zeros(10))[0][2]) for a in flight.x) >= -0.00201
    before, after = flight.x[-1], landing.x[0]
    assert after[:5] == pytest.approx(before[:5], abs=1e-8)
    M = np.array(ca.DM(alg.mass_matrix(model, ca.DM(before[:5]))))
    J = np.array(ca.DM(alg.frame_jacobian(model, ca.DM(before[:5]), "foot", "world_aligned")))[[0, 2]]
    impulse, *_ = np.linalg.lstsq(J.T, M @ (after - before)[5:], rcond=None)
    assert J.T @ impulse == pytest.approx(M @ (after - before)[5:], abs=1e-6)
    assert impulse[1] > 0
    assert J @ after[5:] == pytest.approx([0, 0], abs=1e-6)
    assert after[5:] @ M @ after[5:] < before[5:] @ M @ before[5:]


@pytest.mark.slow
def test_the_free_floating_robot_keeps_its_momentum():
    loaded, solution = run("space_manipulator")
    nq = loaded.model.nq
    for x in solution.trajectory.x[::5]:
        momentum = alg.momentum(loaded.model, ca.DM(x[:nq]), ca.DM(x[nq:]))
        assert np.asarray(momentum).ravel() == pytest.approx(np.zeros(6), abs=2e-4)
    other = run("space_manipulator", states="coordinates")[1]
    assert other.objective == pytest.approx(solution.objective, rel=1e-6)
