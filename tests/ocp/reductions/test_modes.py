"""Rates and costs that jump where the state crosses a surface: sequences of modes against closed forms."""

import casadi as ca
import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize, minimize_scalar

from ocp.app.files.load import load_text
from ocp.methods import solve
from ocp.problem import At, Kind, Trajectory
from ocp.reductions.modes import Mode, Modes, Surfaces

MOVE = """
name: move
system: {{states: {{x: m, v: m/s}}, controls: {{u: N}}, dynamics: {{x: v, v: "{rate}"}}}}
phase: {{duration: 1, start: {{x: 0, v: 0}}, final: {{x: 1, v: 0}}, costs: [{{name: effort, running: "{cost}"}}]}}
"""


def toll(w, c):
    """x'' = u from rest to rest, a second above the speed w costs c: up to w in tau over a distance d, above it, and down again."""
    def J(z):
        tau, d = np.abs(z)
        above = 1 - 2 * tau
        low = w**2 / tau + 12 * (d - w * tau / 2) ** 2 / tau**3
        return 2 * low + 12 * (1 - 2 * d - w * above) ** 2 / above**3 + c * above

    starts = [(tau, share * w * tau) for tau in (1e-3, 0.01, 0.1, 0.2) for share in (0.5, 0.7)]
    found = min((minimize(J, z, method="Nelder-Mead", options={"xatol": 1e-13, "fatol": 1e-13, "maxiter": 4000}) for z in starts),
                key=lambda one: one.fun)
    return MOVE.format(rate="u", cost=f"u**2 + if_else(v > {w}, {c}, 0)"), found.fun


def waits(mu, c=0.0):
    """Dry friction mu and a price c of moving: of a second only tau is used, int (a + mu)^2 + c = 12 / tau^3 + (mu^2 + c) tau."""
    tau = min(1.0, (36 / (mu**2 + c)) ** 0.25)
    text = MOVE.format(rate=f"u - {mu}*sign(v)" if mu else "u", cost=f"u**2 + if_else(v > 0, {c}, 0)" if c else "u**2")
    return text, 12 / tau**3 + (mu**2 + c) * tau


def refraction(fast):
    """Least effort from (0, -1) to (2, 1) in a second, in a medium of speed 1 below and another above the line y = 0: the square of
    the optical length (Snell)."""
    speed = f"if_else(y < 0, 1, {fast})"
    text = f"""
name: refraction
system: {{states: {{x: m, y: m}}, controls: {{u: "", w: ""}}, dynamics: {{x: "{speed}*u", y: "{speed}*w"}}}}
phase: {{duration: 1, start: {{x: 0, y: -1}}, final: {{x: 2, y: 1}}, costs: [{{name: effort, running: u**2 + w**2}}]}}
"""
    found = minimize_scalar(lambda x: np.hypot(x, 1) + np.hypot(2 - x, 1) / fast, bounds=(0, 2), method="bounded",
                            options={"xatol": 1e-13})
    return text, found.fun**2


def quickest(fast):
    """The quickest way between the same points, by a heading, which has the same effect a whole turn on."""
    speed, (_, J) = f"if_else(y < 0, 1, {fast})", refraction(fast)
    return f"""
name: quickest
system: {{states: {{x: m, y: m}}, controls: {{h: rad}}, dynamics: {{x: "{speed}*cos(h)", y: "{speed}*sin(h)"}}}}
phase:
  duration: {{lower: 0.1, upper: 10, guess: 2.5}}
  start: {{x: 0, y: -1}}
  final: {{x: 2, y: 1}}
  costs: [{{name: time, final: t}}]
  guess: {{controls: {{h: 0.8}}}}
""", np.sqrt(J)


def mud(drag, edge, far=1.0):
    """x'' = u from rest to rest, with drag behind an edge: the energies by Gramians, least over when and how fast."""
    def energy(a, T, before, behind):
        A = np.array([[0.0, 1.0], [0.0, -a]])
        # blocks of the exponential of [[A, b b'], [0, -A']] (Van Loan)
        E = expm(np.block([[A, np.diag([0.0, 1.0])], [np.zeros((2, 2)), -A.T]]) * T)
        missing = behind - E[:2, :2] @ before
        return missing @ np.linalg.solve(E[:2, 2:] @ E[:2, :2].T, missing)

    def J(z):
        tau, v = np.clip(z[0], 0.05, 0.95), z[1]
        crossing, end = np.array([edge, v]), np.array([far, 0.0])
        return energy(0.0, tau, np.zeros(2), crossing) + energy(drag, 1 - tau, crossing, end)

    found = min((minimize(J, z, method="Nelder-Mead", options={"xatol": 1e-12, "fatol": 1e-12, "maxiter": 4000})
                 for z in ([0.3, 1.0], [0.5, 1.5], [0.7, 1.0])), key=lambda one: one.fun)
    return MOVE.format(rate=f"u - if_else(x > {edge}, {drag}, 0)*v", cost="u**2"), found.fun


def gears(low, way):
    """The quickest way from rest to rest with a force that is ``low`` times as strong below unit speed: up to the speed v and down
    again, ``1/low + v^2 - 1 = way``, which takes ``2/low + 2 (v - 1)``."""
    v = np.sqrt(way - 1 / low + 1)
    return f"""
name: gears
system: {{states: {{x: m, v: m/s}}, controls: {{u: N}}, dynamics: {{x: v, v: "u*if_else(v < 1, {low}, 1)"}}}}
phase:
  duration: {{lower: 0.1, upper: 10}}
  start: {{x: 0, v: 0}}
  final: {{x: {way}, v: 0}}
  bounds: {{u: [-1, 1]}}
  costs: [{{name: time, final: t}}]
""", 2 / low + 2 * (v - 1)


PROBLEMS = {"gears": gears(2.0, 3.0), "toll": toll(1e-3, 30), "toll of high speeds": toll(0.4, 30), "friction": waits(10.0),
            "price of moving": waits(0, 100),
            "both": waits(5.0, 60), "refraction": refraction(2.0), "quickest": quickest(2.0),
            "mud": mud(3.0, 0.5), "deep mud": mud(12.0, 0.7)}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in ("toll", "price of moving") else [pytest.mark.slow])
                                  for name in PROBLEMS])
def test_the_minimum_over_crossings_and_rests_is_certified(name):
    text, true = PROBLEMS[name]
    found = solve(load_text(text).problem)
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(true, rel=1e-6)
    assert abs(found.objective - true) <= found.certificate.objective_error.value * found.certificate.objective_size + 1e-7
    assert Kind.PIECES_AT_SURFACES in {one.kind for one in found.findings}


def test_costates_jump_along_the_gradient_of_the_surface():
    """Where light is refracted, the costate along the line goes on, across it jumps, and the Hamiltonian is the same on both sides:
    u = -c p / 2, H = -c^2 |p|^2 / 4 = -J."""
    text, J = refraction(2.0)
    found = solve(load_text(text).problem)
    y, p = found.trajectory.state(found.trajectory.t_u)[:, 1], found.extra["costate"]
    assert np.ptp(p[:, 0]) < 1e-5
    assert abs(p[y > 1e-3, 1].mean() - p[y < -1e-3, 1].mean()) > 0.1
    speed = np.where(y < 0, 1.0, 2.0)
    assert np.allclose((speed**2 * np.sum(p**2, axis=1) / 4)[np.abs(y) > 1e-3], J, rtol=1e-5)


def test_pieces_have_the_values_of_their_side_and_lie_on_the_surface_where_they_meet():
    problem = load_text(toll(0.3, 7.0)[0]).problem
    below, above = Mode((1,), (0.0, 0.2), 0.2), Mode((-1,), (0.2, 1.0), 0.8)
    sides = Surfaces(problem.phases[0]).sides(np.zeros(2), np.array([[0.0, 0.0], [0.0, 1.0]]))
    assert sides[:, 0].tolist() == [1, -1]  # v > w is w - v < 0
    reduced, data = Modes(((below, above),)).apply(problem)
    assert [phase.duration.free for phase in reduced.phases] == [True, True]
    assert data.numbers == ((0, 1),)
    for phase, price in zip(reduced.phases, (0.0, 7.0), strict=True):
        for v in (0.1, 0.9):
            assert float(phase.costs[0].function(0, [0, v], 2.0, [])) == pytest.approx(4.0 + price)
    meets = next(c for c in reduced.phases[0].constraints if c.at is At.FINAL)
    assert float(meets.function(0, [5.0, 0.3], 1.0, [])) == pytest.approx(0.0)
    length = reduced.linkages[-1]
    assert float(length.function(np.zeros(2), ca.DM([0.4, 0.5]), [])) == pytest.approx(0.9)
    assert (length.lower, length.upper) == ((1.0,), (1.0,))


def test_on_a_surface_the_state_stays_there():
    """v - sin(x) = 0 is kept by u = cos(x) v, whatever the rate of x; states are moved onto it along its gradient."""
    text = MOVE.format(rate="u", cost="u**2 + if_else(v > sin(x), 1, 0)")
    surfaces = Surfaces(load_text(text).problem.phases[0])
    stays = surfaces.keep((0,), load_text(text).problem.phases[0].system.rate)
    assert stays.lower == stays.upper == (0.0,)
    for x in (0.3, -1.2):
        v = np.sin(x)
        assert float(stays.function(0, [x, v], np.cos(x) * v, [])) == pytest.approx(0.0, abs=1e-15)
        assert abs(float(stays.function(0, [x, v], np.cos(x) * v + 1, []))) == pytest.approx(1.0)


def test_a_surface_that_moves_is_followed():
    phase = load_text(MOVE.format(rate="u", cost="u**2 + if_else(v > sin(3*t), 1, 0)")).problem.phases[0]
    stays = Surfaces(phase).keep((0,), phase.system.rate)
    for t in (0.2, 1.3):
        assert float(stays.function(t, [0.4, np.sin(3 * t)], 3 * np.cos(3 * t), [])) == pytest.approx(0.0, abs=1e-14)


def test_states_of_a_mode_on_a_surface_are_moved_onto_it():
    """To first order along the gradient: what is left is quadratic in the distance."""
    surfaces = Surfaces(load_text(MOVE.format(rate="u", cost="u**2 + if_else(v > sin(x), 1, 0)")).problem.phases[0])
    t, x = np.linspace(0.0, 1.0, 5), np.column_stack([np.linspace(0.2, 0.9, 5)] * 2)
    x[:, 1] = np.sin(x[:, 0]) + 1e-6
    moved = surfaces.on((0,), Trajectory(t=t, x=x, t_u=t, u=np.zeros((5, 1)), state=lambda s: np.array([0.5, np.sin(0.5) - 1e-6]),
                                         control=lambda s: np.zeros((len(s), 1))))
    assert np.abs(moved.x[:, 1] - np.sin(moved.x[:, 0])).max() < 1e-11
    ahead = moved.x - x
    assert np.allclose(ahead[:, 0] * 1.0 + ahead[:, 1] * np.cos(x[:, 0]), 0.0, atol=1e-11)  # along (-cos x, 1)
    at = moved.state(0.3)
    assert at.shape == (2,)
    assert abs(at[1] - np.sin(at[0])) < 1e-11


@pytest.mark.parametrize(("condition", "on"), [("v > 0", 0.0), ("v >= 0", 3.0), ("v < 0", 0.0), ("v <= 0", 3.0)])
def test_on_a_surface_functions_have_the_value_that_they_have_there(condition, on):
    phase = load_text(MOVE.format(rate="u", cost=f"u**2 + if_else({condition}, 3, 0)")).problem.phases[0]
    cost, surfaces = phase.costs[0].function, Surfaces(phase)
    assert float(surfaces.in_mode((0,))[cost.__hash__()](0, [0, 5.0], 0.0, [])) == on == float(cost(0, [0, 0.0], 0.0, []))


def test_without_jumps_in_the_state_there_are_no_surfaces():
    for cost in ("u**2", "u**2 + abs(v)", "u**2 + if_else(t > 0.5, 1, 0)", "max(u, v)"):
        assert Surfaces(load_text(MOVE.format(rate="u", cost=cost)).problem.phases[0]).w == []


def test_one_surface_for_functions_that_are_proportional():
    text = MOVE.format(rate="u - sign(2*v)", cost="u**2 + if_else(v > 0, 3, 0)")
    phase = load_text(text).problem.phases[0]
    surfaces = Surfaces(phase)
    assert len(surfaces.w) == 1
    for v in (0.7, -0.7):
        modes = surfaces.in_mode(surfaces.sides(np.zeros(1), np.array([[0.0, v]]))[0])
        own = [modes[f.__hash__()] for f in (phase.system.rate, phase.costs[0].function)]
        assert float(own[0](0, [0, 5.0], 0.0, [])[1]) == pytest.approx(-np.sign(v))
        assert float(own[1](0, [0, 5.0], 0.0, [])) == pytest.approx(3.0 * (v > 0))
    on = surfaces.in_mode((0,))
    assert float(on[phase.system.rate.__hash__()](0, [0, 5.0], 0.25, [])[1]) == pytest.approx(0.25)


def test_without_the_rule_the_certificate_says_what_waiting_would_gain():
    found = solve(load_text(waits(0, 100)[0]).problem, without=("order_of_modes",))
    assert not found.ok
    assert Kind.WAITING in found.certificate.causes
