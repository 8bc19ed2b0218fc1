"""Infima that no motion attains: impulses, and controls that would switch infinitely fast; and minima beside them."""

from types import SimpleNamespace

import casadi as ca
import numpy as np
import pytest

from ocp.app.files.load import load_text
from ocp.app.sentences import sentence
from ocp.certify.motion import Motion
from ocp.methods import solve
from ocp.problem import Kind, Trajectory
from ocp.strategy import attained, relaxation
from ocp.strategy.attained import _unlike_layers
from ocp.strategy.relaxation import relaxed_problem
from ocp.strategy.table import OPTIONAL

ONE = """
name: infimum
system: {states: {x: m}, controls: {u: m/s}, dynamics: {x: u}}
phase:
  duration: 1
  start: {x: START}
  REST
  costs: [{name: c, running: "COST"}]
"""
#: geodesic on a sphere to a point on the equator, more than half a turn on: over the pole, where the chart is singular
SPHERE = """
name: sphere
system: {states: {th: rad, ph: rad}, controls: {a: "", b: ""}, dynamics: {th: a, ph: b}}
phase:
  duration: 1
  start: {th: pi/2, ph: 0}
  final: {th: pi/2, ph: 4}
  costs: [{name: energy, running: a**2 + (sin(th)*b)**2}]
"""
FUEL = """
name: fuel
system: {states: {x: m, v: m/s}, controls: {u: N}, dynamics: {x: v, v: u}}
phase:
  duration: 1
  start: {x: 0, v: 0}
  final: {x: 1, v: 0}
  BOUNDS
  costs: [{name: fuel, running: abs(u)}]
"""
IMPULSES = {
    "cheap control": (ONE.replace("START", "1").replace("REST", "").replace("COST", "x**2"), 0.0, 0.01),
    "pole of a chart": (SPHERE, np.pi**2, 0.02),
    "fuel": (FUEL.replace("BOUNDS", ""), 2.0, 0.01),
}
BOLZA = "x**2 + (u**2 - 1)**2"
CHATTERING = {
    "Bolza": (ONE.replace("START", "0").replace("REST", "bounds: {u: [-1, 1]}").replace("COST", BOLZA), 0.0),
    "Bolza with an end": (ONE.replace("START", "0").replace("REST", "bounds: {u: [-2, 2]}\n  final: {x: 0.5}").replace(
        "COST", BOLZA), 1 / 24),
    "no rest": (ONE.replace("START", "0.2").replace(
        "REST", "bounds: {u: [-3, 3]}\n  constraints: [{name: c, at: path, expression: u**2, lower: 1}]").replace("COST", "x**2"),
        0.2**3 / 9),
}


def named(found):
    """The infimum that the certificate names."""
    assert not found.ok
    residual = found.certificate.objective_error
    assert residual.cause is Kind.NOT_ATTAINED
    assert "no minimum exists" in sentence(residual.finding)
    return residual.data["infimum"]


@pytest.mark.slow
@pytest.mark.parametrize("name", IMPULSES)
def test_impulses_are_no_minima(name):
    given, infimum, near = IMPULSES[name]
    assert named(solve(load_text(given).problem)) == pytest.approx(infimum, abs=near)


@pytest.mark.parametrize("name", ["Bolza", pytest.param("Bolza with an end", marks=pytest.mark.slow)])
def test_what_switches_ever_faster_tends_to_the_relaxed_objective(name):
    """Of the Bolza problem to 1/2: x = 0 by halves of 1 and -1, then |u| = 1: the integral of x^2 over the last half second."""
    given, infimum = CHATTERING[name]
    assert named(solve(load_text(given).problem)) == pytest.approx(infimum, abs=2e-3)


@pytest.mark.slow
def test_a_relaxed_objective_of_a_local_minimum_bounds_the_infimum():
    """Speeds of 1 at least: whoever cannot stop at x = 0 trembles there. Each of the two values may be of either sign, so that the
    relaxed problem has local minima of its own."""
    given, infimum = CHATTERING["no rest"]
    found = solve(load_text(given).problem)
    assert infimum - 1e-4 < named(found) < found.objective


@pytest.mark.parametrize(("cost", "end", "minimum"), [
    ("t**0.5*u**2", 1, 0.5),  # u = 1 / (2 sqrt t) is not bounded, and attains the minimum
    ("x**2 + (u**2 - 1)**2", 1, 1 / 3),  # at full speed, beside the chattering motions to nearer ends
])
def test_minima_that_are_attained_stay_certified(cost, end, minimum):
    given = ONE.replace("START", "0").replace("REST", f"final: {{x: {end}}}\n  bounds: {{u: [-1000, 1000]}}").replace("COST", cost)
    given = given.replace("\n  bounds: {u: [-1000, 1000]}", "") if "t**" in cost else given.replace("1000", "1")
    found = solve(load_text(given).problem)
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(minimum, abs=1e-3)


@pytest.mark.parametrize(("cost", "rate", "impulse"), [
    ("x**2", "u", True), ("x**2 + 1e-8*u**2", "u", False),  # a boundary layer of 1e-4 s
    ("x**2 + 0.01*u", "tanh(u)", False),  # whatever the control, it does no more
])
def test_a_boundary_layer_that_meshes_do_not_resolve_is_no_impulse(cost, rate, impulse):
    """Of two meshes on which the first control doubles."""
    text = ONE.replace("START", "1").replace("REST", "").replace("COST", cost).replace("{x: u}", f'{{x: "{rate}"}}')
    (phase,) = load_text(text).problem.phases
    motions = []
    for n in (10, 20):
        t = np.linspace(0.0, 1.0, n + 1)
        u = np.where(np.arange(n) == 0, -float(n), 0.0)[:, None]
        x = np.clip(1 - n * t, 0.0, 1.0)[:, None]
        motions.append(Motion(phase, Trajectory(
            t=t, x=x, t_u=t[:-1], u=u, state=lambda s, t=t, x=x: np.interp(s, t, x[:, 0])[..., None],
            control=lambda s, n=n, u=u: u[np.clip((np.asarray(s) * n).astype(int), 0, n - 1)])))
    assert _unlike_layers(motions, 0) is impulse


@pytest.mark.slow
def test_with_a_bound_the_impulse_is_a_bang():
    """Of 8 N at most: w seconds at both ends, 8 w (1 - w) = 1, cost 16 w."""
    found = solve(load_text(FUEL.replace("BOUNDS", "bounds: {u: [-8, 8]}")).problem)
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(16 * (1 - np.sqrt(0.5)) / 2, rel=1e-4)


def test_the_relaxed_problem_has_means_of_rates_and_costs():
    problem = load_text(CHATTERING["Bolza with an end"][0]).problem
    options = {"scheme": "gauss", "intervals": 10, "refine": "none"}
    guess = solve(problem, "collocation", options, without=["escape", "better_controls", "other_starts"])
    (phase,) = relaxed_problem(problem, (guess.trajectory,)).phases
    w = ca.DM([2.0, -1.0, 0.25])
    assert float(phase.system.rate(0, 0.3, w, [])) == 0.25 * 2 - 0.75
    (cost,) = phase.costs
    assert float(cost.function(0, 0.3, w, [])) == pytest.approx(0.3**2 + 0.25 * 9)
    assert phase.control_bounds.pairs() == [(-2, 2), (-2, 2), (0, 1)]


# ---- what tells an impulse, and switching ----------------------------------------------------------------------------------
def coasting(peak, *, bounds="", constraints=""):
    """A push and a pull of 1 / h N in the first and the last of 1 / h intervals of h seconds, as half of these would have; peak:
    over that."""
    def part(h):
        edges = np.linspace(0, 1, round(1 / h) + 1)
        t = (edges[1:] + edges[:-1]) / 2
        u = np.zeros((len(t), 1))
        u[[0, -1], 0] = peak(h), -peak(h)
        return Trajectory(edges, np.zeros((len(edges), 2)), u, t, lambda s: np.zeros((*np.shape(s), 2)),
                          lambda s: np.interp(np.atleast_1d(s), t, u[:, 0])[:, None] if np.ndim(s) else np.zeros(1))

    given = load_text(FUEL.replace("BOUNDS", bounds).rstrip() + f"\n  {constraints}\n").problem
    found, finer = (SimpleNamespace(problem=given, trajectory=part(h), parts=(), ending=None, objective=2.0) for h in (0.1, 0.05))
    return attained.no_minimum(None, SimpleNamespace(answer=found, finer=finer))


def test_only_what_doubles_without_bounds_is_an_impulse():
    assert coasting(lambda h: 1 / h).kind is Kind.NOT_ATTAINED
    assert coasting(lambda h: h**-0.5) is None  # integrable squares grow by the root of two
    assert coasting(lambda h: 1.0) is None
    assert coasting(lambda h: 1e-12 / h) is None  # rounding
    assert coasting(lambda h: 1 / h, bounds="bounds: {u: [-100, 100]}") is None
    assert coasting(lambda h: 1 / h, constraints="constraints: [{name: most, expression: u**2, upper: 1e4}]") is None


def test_a_peak_whose_integral_is_small_beside_the_rest_is_none():
    t = np.linspace(0.005, 0.995, 100)
    part = SimpleNamespace(t=np.linspace(0, 1, 101), t_u=t, u=np.ones((100, 1)))
    part.u[50] = 2.0
    assert not attained._impulsive(part, 0)
    part.u[50] = 1000.0
    assert attained._impulsive(part, 0)


def test_jumps_over_the_middle_are_turns():
    def turns(*u):
        return relaxation._reversals(SimpleNamespace(u=np.array(u, dtype=float)[:, None]))

    assert turns(1, -1, 1, -1) == 3
    assert turns(1, 1, -1, -1) == 1
    assert turns(3, 1, 3, 1) == 3  # about their own middle
    assert turns(1, 0.1, -0.1, -1) == 0  # in small steps


def test_the_relaxed_problem_ends_where_its_first_controls_do_and_holds_both():
    rest = "bounds: {u: [-2, 2]}\n  constraints: [{name: c, expression: u**2, lower: 1}]"
    given = ONE.replace("START", "0").replace("REST", rest)
    problem = load_text(given.replace("COST", "u**4")).problem
    found = solve(problem, "collocation", {"scheme": "gauss", "intervals": 5, "refine": "none"}, without=OPTIONAL)
    (phase,) = relaxed_problem(problem, (found.trajectory,)).phases
    first, other = phase.constraints
    w = [1.5, -0.5, 0.3]
    assert (float(first.function(0, 0, w, [])), float(other.function(0, 0, w, []))) == (2.25, 0.25)
