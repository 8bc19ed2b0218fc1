"""The minimum principle: gaps of the Hamiltonian against closed forms, and answers that first and second order let pass."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from ocp.app.files.load import load_text
from ocp.certify import minimum_principle
from ocp.certify.hamiltonian import Hamiltonian, hamiltonians
from ocp.certify.minimum_principle import better_controls, waiting
from ocp.certify.motion import Motion
from ocp.methods import METHODS, solve
from ocp.problem import Duration, Kind, Trajectory
from ocp.strategy.table import RULES
from ocp.thresholds import MINIMUM_PRINCIPLE

TEXT = """
name: one
system: {states: {x: m}, controls: {CONTROLS}, dynamics: {x: "RATE"}}
phase:
  duration: 1
  start: {x: 0}
  BOUNDS
  costs: [{name: effort, running: "COST"}FINAL]
  CONSTRAINTS
"""
MESH = {"scheme": "radau", "intervals": 10}


def problem(cost, rate="u", controls="u: ''", bounds="bounds: {u: [-1, 1]}", final="", constraints=""):
    text = TEXT
    for key, value in {"CONTROLS": controls, "RATE": rate, "BOUNDS": bounds, "COST": cost, "FINAL": final,
                       "CONSTRAINTS": constraints}.items():
        text = text.replace(key, value)
    return load_text(text).problem


def stationary(own, method="collocation", options=MESH):
    """The solution without rules that leave it."""
    return solve(own, method, options, without=[rule.name for rule in RULES if rule.optional])


def compared(found):
    motion = Motion(found.problem.phase, found.trajectory)
    (hamiltonian,) = hamiltonians(found, [motion])
    return hamiltonian, better_controls(hamiltonian)


@pytest.mark.parametrize("method", ["collocation", "multiple_shooting", "ilqr"])
def test_a_better_valley_is_found_where_the_point_is_stationary(method):
    """-u^4 at its degenerate maximum 0: H falls from 0 to -1 at both bounds, all the time."""
    found = stationary(problem("-u**4"), method, {"intervals": 10} if method != "collocation" else MESH)
    assert found.objective == pytest.approx(0.0, abs=1e-12)
    _, better = compared(found)
    assert np.allclose(np.abs(better.u), 1.0)
    assert better.gap == pytest.approx(np.ones(len(better.t)), rel=2e-2)  # less what the motion's own neighbourhood explains
    assert not found.certificate.minimum_principle.holds


@pytest.mark.parametrize("most", [pytest.param(1.0, marks=pytest.mark.slow), 0.5])
def test_the_gap_weighs_rates_by_costates(most):
    """x' = u |u| to the farthest point: p = -1, H = -u |u| is 0 at u = 0 and -1 at 1, and -1/4 where u must not exceed 1/2."""
    found = stationary(problem("0*u", "u*abs(u)", bounds=f"bounds: {{u: [-1, {most}]}}", final=", {name: far, final: -x}"))
    _, better = compared(found)
    assert better.u == pytest.approx(np.full_like(better.u, most))
    assert better.gap == pytest.approx(np.full(len(better.t), most**2), rel=5e-2)
    assert better.gain == pytest.approx(most**2 * (better.t[-1] - better.t[0]), rel=5e-2)


FLAT = {"quartic": {"cost": "-u**4"}, "cubic": {"cost": "u**3"},
        "rate": {"cost": "0*u", "rate": "u*abs(u)", "final": ", {name: far, final: -x}"}}


@pytest.mark.parametrize(("method", "name"), [
    pytest.param(method, name, marks=[pytest.mark.slow] * (name == "rate" and method != "ilqr"))
    for name in FLAT for method in ("collocation", "multiple_shooting", "ilqr")])
def test_the_search_goes_on_with_better_controls(method, name):
    """All have the optimum -1."""
    text, objective = FLAT[name], -1.0
    found = solve(problem(**text), method, {"intervals": 10})
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(objective, abs=1e-6)
    assert "better_controls" in [one.rule for one in found.strategy]
    assert not found.certificate.second_order.weak
    assert [one.data["starts"] for one in found.findings if one.kind is Kind.STARTS_DISAGREE] == [2]


def test_convex_hamiltonians_need_no_comparison():
    found = solve(problem("u**2 + 3*x**2", final=", {name: far, final: (x - 1)**2}"), "collocation", MESH)
    assert found.certificate.minimum_principle.cause is Kind.CONVEX_HAMILTONIAN
    assert compared(found)[1] is None
    concave = stationary(problem("-u**2 + 3*x**2"))
    assert compared(concave)[1] is not None


def test_corners_are_tried():
    """-(u v w) at 0, where the axes and the diagonals of two are flat: only corners are lower."""
    own = problem("-u*v*w", "u + v + w", "u: '', v: '', w: ''", "bounds: {u: [-1, 1], v: [-1, 1], w: [-1, 1]}")
    _, better = compared(stationary(own))
    assert better.gap == pytest.approx(np.ones(len(better.t)))
    assert np.prod(better.u, axis=1) == pytest.approx(np.ones(len(better.t)))


def test_points_inside_the_box_are_tried():
    """A hole at (0.6, 0.6) in a flat Hamiltonian, which neither axes nor corners meet."""
    hole = "-max(0, 1 - 4*((u - 0.6)**2 + (v - 0.6)**2))"
    own = problem(hole, "u + v", "u: '', v: ''", "bounds: {u: [-1, 1], v: [-1, 1]}")
    _, better = compared(stationary(own))
    assert better.gap == pytest.approx(np.ones(len(better.t)), abs=1e-3)
    assert better.u == pytest.approx(np.full_like(better.u, 0.6), abs=0.02)


def test_the_best_control_is_polished():
    """The lower of two wells of a quartic, by its closed form: u (u^2 - 1)^2-like wells tilted by the cost."""
    own = problem("(u**2 - 1)**2 - 0.1*u", "u", bounds="bounds: {u: [-2, 2]}\n  guess: {controls: {u: -1}}")
    found = stationary(own)
    _, better = compared(found)
    roots = np.roots([4, 0, -4, -0.1]).real
    values = (roots**2 - 1) ** 2 - 0.1 * roots
    left, right = values[np.argmin(roots)], values.min()
    assert found.objective == pytest.approx(left, rel=1e-6)
    assert better.gap == pytest.approx(np.full(len(better.t), left - right), rel=1e-4)


def test_controls_without_bounds_are_tried_far_away():
    own = problem("u**2*(u - 5)**2 - u**2/10", "u", bounds="guess: {controls: {u: 0}}")
    found = stationary(own)
    _, better = compared(found)
    assert better.gap.max() > 2.0 or found.objective < -2.0


def test_discretised_controls_are_no_gap():
    """Held controls are not stationary in H at an instant: what they miss is no other valley."""
    found = stationary(problem("u**2 + sin(4*u)**2/10 + 20*(x - 0.3)**2", final=", {name: far, final: 3*(x - 1)**2}"),
                       "multiple_shooting", {"intervals": 12})
    assert found.certificate.minimum_principle.value < 1e-3


def moved_by(hamiltonian, by):
    """The Hamiltonian along the same motion with other controls."""
    motion, own = hamiltonian.motion, hamiltonian.motion.control
    motion.control = lambda t: own(t) + by
    return hamiltonian


def test_what_lies_beside_the_own_control_is_no_other_valley():
    """H = u^2 + u^4 on [-1, 1]: a motion at 0.02 is 4e-4 above the least, all of it within a twentieth of the box."""
    hamiltonian, _ = compared(stationary(problem("u**2 + u**4")))
    assert np.max(better_controls(moved_by(hamiltonian, 0.02)).gap) == pytest.approx(0.0, abs=1e-7)
    assert np.max(better_controls(moved_by(hamiltonian, 0.5)).gap) > 0.1


def test_points_are_spread_over_the_box_and_close_to_the_own_control_where_there_is_none():
    own = problem("u**4 + (v - 1)**2", "u + v", "u: '', v: ''", "bounds: {u: [-1, 3], v: [0.5, null]}")
    hamiltonian, _ = compared(stationary(own))
    t, inputs = hamiltonian.t[:2], np.array([0, 1])
    search = minimum_principle._Search(hamiltonian, t, hamiltonian.p[:2], inputs)
    reach = MINIMUM_PRINCIPLE.max_tried * search.motion.scales.wide_control[1]
    assert reach > 1
    assert search.lower[0] == pytest.approx([-1, 0.5], abs=1e-6)
    assert search.upper[0] == pytest.approx([3, 1 + reach], abs=1e-6)
    places = {(0, 0): (-1, 0.5), (1, 1): (3, 1 + reach), (0.25, 0.75): (0, 1 + reach / 8), (0.5, 0.25): (1, 1 - 0.5 / 8)}
    for share, u in places.items():
        assert search._at(np.array(share))[0] == pytest.approx(u, abs=1e-6)


def test_gains_are_integrals_of_gaps():
    better = minimum_principle.Better(np.array([0.0, 1.0, 3.0]), np.zeros((3, 1)), np.array([0.0, 2.0, 4.0]))
    assert (better.gain, better.time) == (7.0, 3.0)


def test_other_branches_of_path_equations_are_found():
    """u on the unit circle, u = (cos a, sin a): H = p v is least at v = -1, the motion of the guess stays at v = 1."""
    own = problem("0*u", "v", "u: '', v: ''", "guess: {controls: {u: 0, v: 1}}", ", {name: far, final: x}",
                  "constraints: [{name: circle, expression: u**2 + v**2, equal: 1}]")
    found = stationary(own)
    if found.objective > 0:
        _, better = compared(found)
        assert better.u[:, 1] == pytest.approx(-np.ones(len(better.t)), abs=1e-2)
        assert np.hypot(*better.u.T) == pytest.approx(np.ones(len(better.t)), abs=1e-6)
        assert better.gap == pytest.approx(2 * np.ones(len(better.t)), rel=1e-2)
    final = solve(own, "collocation", {})
    assert final.objective == pytest.approx(-1.0, abs=1e-4)


TOLL = """
name: toll
system: {states: {x: m, v: m/s}, controls: {u: N}, dynamics: {x: v, v: u}}
phase:
  duration: 1
  start: {x: 0, v: 0}
  final: {x: 1, v: 0}
  costs: [{name: effort, running: "u**2 + if_else(v > 0, PRICE, 0)"}]
"""


@pytest.mark.parametrize("price", [100, 30])
def test_waiting_is_cheaper_where_moving_costs_more_than_haste(price):
    """J(T) = 12 / T^3 + price T of a motion in T seconds, the rest waited: dJ/dT at T = 1 is price - 36."""
    found = stationary(load_text(TOLL.replace("PRICE", str(price))).problem)
    hamiltonian, _ = compared(found)
    gain, time = waiting(hamiltonian)
    assert gain == pytest.approx(max(price - 36, 0), rel=1e-6)
    assert time in (0.0, 1.0)
    assert found.certificate.minimum_principle.holds == (price < 36)
    if price > 36:
        assert found.certificate.minimum_principle.cause is Kind.WAITING


def test_holding_a_place_has_its_own_price_and_gains_are_per_duration():
    """4 m in 2 s: dJ/dT = 107 - 36 * 16 / 2^4 = 71 at T = 2 with 7 a second also at rest: 64 a second for 2 s."""
    text = TOLL.replace("PRICE", "100")
    for old, new in (('"u**2 +', '"7 + u**2 +'), ("duration: 1", "duration: 2"), ("x: 1", "x: 4")):
        text = text.replace(old, new)
    hamiltonian, _ = compared(stationary(load_text(text).problem))
    assert waiting(hamiltonian)[0] == pytest.approx(128, rel=1e-6)
    phase = hamiltonian.motion.phase
    hamiltonian.motion.phase = replace(phase, duration=Duration(1.0, 3.0, 2.0))
    assert waiting(hamiltonian)[0] == 0.0  # a free duration has H = 0, and is as long as it should be


@pytest.mark.parametrize(("cost", "p", "objective"), [("-(p - 0.5)**4", 0.0, 1 - 0.5**4), ("(p - 0.5)**3", 0.0, 1 - 0.125)])
def test_parameters_that_only_costs_feel_take_their_best_value(cost, p, objective):
    text = f"""
name: parameter
parameters: {{p: {{value: 0.5, optimise: [0, 1]}}}}
system: {{states: {{x: m}}, controls: {{u: m/s}}, dynamics: {{x: u}}}}
phase:
  duration: 1
  start: {{x: 0}}
  final: {{x: 1}}
  costs: [{{name: effort, running: u**2}}, {{name: choice, final: "{cost}"}}]
"""
    own = load_text(text).problem
    assert stationary(own).certificate.minimum_principle.cause in (Kind.BETTER_PARAMETER, Kind.CONVEX_HAMILTONIAN)
    found = solve(own, "collocation", {})
    assert found.ok
    assert found.objective == pytest.approx(objective, abs=1e-7)
    assert found.extra["parameters"][0] == pytest.approx(p, abs=1e-7)


def test_every_method_of_one_phase_leaves_costates():
    assert {"collocation", "multiple_shooting", "ilqr"} <= set(METHODS)


INTEGRAL = "constraints: [{name: mean, at: integral, expression: QUANTITY, equal: VALUE}]"


@pytest.mark.parametrize("method", ["collocation", "multiple_shooting"])
def test_multipliers_of_integrals_belong_to_the_hamiltonian(method):
    """(u^2 - 1)^2 at a given mean c of u: u = c is a weak minimum for 3 c^2 > 1, with nu = -4 c (c^2 - 1), and no strong one."""
    c, u = 0.8, np.linspace(-1.5, 1.5, 30001)
    own = problem("(u**2 - 1)**2", bounds="bounds: {u: [-1.5, 1.5]}",
                  constraints=INTEGRAL.replace("QUANTITY", "u").replace("VALUE", str(c)) + "\n  guess: {controls: {u: 0.8}}")
    found = stationary(own, method, {"intervals": 10} if method != "collocation" else MESH)
    assert found.trajectory.u == pytest.approx(np.full_like(found.trajectory.u, c), abs=1e-6)
    hamiltonian, better = compared(found)
    nu = -4 * c * (c**2 - 1)
    assert hamiltonian.nu == pytest.approx([nu], rel=1e-6)
    gap = (c**2 - 1) ** 2 + nu * c - np.min((u**2 - 1) ** 2 + nu * u)
    assert np.max(better.gap) == pytest.approx(gap, rel=2e-2)  # less what the motion's own neighbourhood explains
    assert not found.certificate.minimum_principle.holds


def test_the_largest_area_below_a_rope_satisfies_the_minimum_principle():
    """An arc of a circle of radius R about an angle 2 w: of length 2 R w over the chord 2 R sin w = 1; nu = dA/dL = R (Gelfand and
    Fomin 1963, Calculus of variations, section 12)."""
    w = 1.0
    R = 0.5 / np.sin(w)
    rope = INTEGRAL.replace("QUANTITY", "sqrt(1 + u**2)").replace("VALUE", str(2 * R * w))
    found = solve(problem("-x", bounds="final: {x: 0}", constraints=rope + "\n  guess: {states: {x: [0, 0.3, 0]}}"))
    assert found.ok, found.certificate.failures
    assert abs(found.objective + R**2 * (w - np.sin(w) * np.cos(w))) <= max(found.certificate.error_bound, 1e-8)
    assert found.certificate.minimum_principle.value == 0.0
    assert compared(found)[0].nu == pytest.approx([R], rel=1e-5)


DEADBAND = """
name: dead band
system:
  states: {x: m, v: m/s}
  controls: {u: N}
  dynamics: {x: v, v: "if_else(abs(u) < 0.5, 0, u - 0.5*sign(u))"}
phase:
  duration: 2
  start: {x: 0, v: 0}
  final: {x: 1, v: 0}
  bounds: {u: [-5, 5]}
  costs: [{name: effort, running: "u**2"}]
"""


def test_a_valley_behind_a_low_ridge_is_another_valley():
    """Least effort through a dead band: with the costate c (1 - t) of v, u = c (1 - t)/2 beats u = 0 while c (1 - t) > 2, yet is a
    stationary control down to half of that, where only a ridge of 0.002 is left between both."""
    found = solve(load_text(DEADBAND).problem)
    c = brentq(lambda c: c / 6 - 1 / (3 * c**2) - 0.75, 3, 6)  # the way of v: twice the integral of s (c s/2 - 1/2) from 2/c to 1
    best = c**2 / 6 * (1 - (2 / c) ** 3)
    assert found.certificate.holds
    assert found.objective == pytest.approx(best, abs=found.certificate.error_bound)


def test_what_discretisation_explains_ends_at_the_ridge():
    """H = u^2 - p (|u| - 1/2) outside the dead band: along its outer valley u = p/2 the gap for 1 < p < 2 is that to u = 0, however
    low the ridge between both."""
    phase = load_text(DEADBAND).problem.phase
    t = np.linspace(0, 2, 201)

    def control(s):
        p = 3 - np.asarray(s)
        return np.where(p > 1.01, p / 2, 0.0)[..., None]

    rest = Trajectory(t, np.zeros((201, 2)), control(t), t, lambda s: np.zeros((*np.shape(s), 2)), control)
    better = better_controls(Hamiltonian(Motion(phase, rest), t, np.column_stack([0 * t, t - 3]), np.zeros(0)))
    p = 3 - better.t
    inside = (p > 1.05) & (p < 2)
    np.testing.assert_allclose(better.gap[inside], (p / 2 - p**2 / 4)[inside], atol=1e-9)
    assert np.max(better.gap[p > 2.01], initial=0.0) < 1e-9
