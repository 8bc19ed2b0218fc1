"""Rates and costs that jump where the state passes a place: what moving the instant would gain, against closed forms."""

from dataclasses import replace

import numpy as np
import pytest

from ocp.app.files.load import load_text
from ocp.app.sentences import message, sentence
from ocp.certify import jumps
from ocp.certify.motion import Motion
from ocp.explain import advice
from ocp.methods import METHODS, method, solve
from ocp.problem import Kind, Status

ONE = """
name: media
system: {states: STATES, controls: {u: m/s}, dynamics: {x: "RATE"}}
phase:
  duration: 1
  start: {x: 0}
  final: {x: 1}
  costs: [{name: effort, running: "COST"}]
"""

#: what would solve the problem in pieces that end on the surface (tests/ocp/reductions/test_modes.py)
MODES = ["order_of_modes"]


def problem(rate="u", cost="u**2", states="{x: m}"):
    return load_text(ONE.replace("RATE", rate).replace("COST", cost).replace("STATES", states)).problem


def gained(solution):
    return jumps.unseen(solution, [Motion(solution.problem.phase, solution.trajectory)])


@pytest.mark.parametrize(("scheme", "intervals", "near"), [("gauss", 20, 1e-6), ("radau", 20, 0.15), ("hermite_simpson", 60, 0.15)])
def test_what_an_instant_would_gain_is_the_gradient_of_the_closed_form(scheme, intervals, near):
    """x' = u, from x = 1/2 on 2 u: with the crossing at s the least int u^2 is 1/4 / s + 1/16 / (1 - s), whose slope is zero at
    s = 2/3 alone. A program finds x' as if nothing could be moved; where the crossing lies inside an interval, roughly."""
    found = solve(problem("if_else(x > 0.5, 2*u, u)"), "collocation", {"scheme": scheme, "intervals": intervals}, without=MODES)
    s = 0.5 / found.trajectory.u[0, 0]
    jump = gained(found)
    assert jump.size == pytest.approx(abs(-0.25 / s**2 + 0.0625 / (1 - s) ** 2), rel=near)
    assert jump.time == pytest.approx(s, abs=1e-6 if scheme == "gauss" else 0.05)
    assert not found.ok
    assert not found.certificate.stationarity.holds
    assert found.certificate.causes == {Kind.STATE_DEPENDENT_JUMP}
    assert found.certificate.stationarity.time == jump.time
    assert "end a phase there" in sentence(found.certificate.stationarity.finding)


def test_a_toll_is_seen_as_well():
    """A second beyond x = 1/2 costs 1: later is better, but faster is dearer: 1/4 / s + 1/4 / (1 - s) + (1 - s) has its slope zero
    where the crossing is no matter of the mesh."""
    found = solve(problem(cost="u**2 + if_else(x > 0.5, 1, 0)"), "collocation", {"scheme": "gauss", "intervals": 20},
                  without=MODES)
    assert gained(found).size == pytest.approx(1.0, rel=1e-6)  # at s = 1/2 the two efforts balance
    assert not found.ok


@pytest.mark.parametrize("rate", ["u + if_else(t > 0.3, 1, 0)", "u*max(1, 1 + (x - 0.5))", "u + abs(x - 0.5)"])
def test_instants_that_are_given_and_kinks_are_no_matter(rate):
    found = solve(problem(rate), "collocation", {"scheme": "gauss", "intervals": 10} if "t >" in rate else {})
    assert gained(found) == jumps.Jump()
    assert found.ok, found.certificate.failures


def test_a_jump_that_nobody_pays_for_is_none():
    """A counter that runs beyond x = 1/2 and stands in no cost."""
    text = ONE.replace('"RATE"', 'u, n: "if_else(x > 0.5, 1, 0)"').replace("COST", "u**2").replace("STATES", "{x: m, n: s}")
    found = solve(load_text(text.replace("start: {x: 0}", "start: {x: 0, n: 0}")).problem, "collocation",
                  {"scheme": "gauss", "intervals": 20})
    assert gained(found).size == pytest.approx(0.0, abs=1e-6)
    assert found.certificate.stationarity.holds


def test_methods_without_costates_say_that_they_do_not_know():
    found = solve(problem("if_else(x > 0.5, 2*u, u)"), "multiple_shooting", {"intervals": 8, "integrator": "bdf2"},
                  without=["order_of_modes"])
    assert np.isnan(gained(found).size)
    assert found.certificate.second_order.weak
    assert not found.ok


def test_phases_that_end_at_the_place_find_the_optimum():
    text = """
name: media by phases
system: {states: {x: m}, controls: {u: m/s, c: ""}, dynamics: {x: c*u}}
linkages: [{name: whole, expression: 'duration["one"] + duration["two"]', equal: 1}]
phases:
  - {name: one, duration: {lower: 0.01, upper: 1, guess: 0.5}, start: {x: 0}, final: {x: 0.5}, bounds: {c: [1, 1]},
     costs: [{name: effort, running: u**2}]}
  - {name: two, duration: {lower: 0.01, upper: 1, guess: 0.5}, final: {x: 1}, bounds: {c: [2, 2]},
     costs: [{name: effort, running: u**2}]}
"""
    found = solve(load_text(text).problem)
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(0.5625, rel=1e-6)


def test_no_finer_mesh_is_tried_for_a_jump():
    found = solve(problem("if_else(x > 0.5, 2*u, u)"), without=MODES)
    assert not found.ok
    assert found.ending.kind is Kind.JUMP_NOT_ON_MESH
    assert "no mesh determines" in message(found)
    (one, *_) = advice(found.certificate, "collocation", found.options)
    assert one.why is Kind.PHASE_MISSING
    assert not one.settings


SWITCHING = """
name: switching
parameters: {ts: {value: 1, optimise: [0.5, 2.5]}}
system: {states: {x: m}, controls: {u: m/s}, dynamics: {x: "if_else(t < ts, 1, -1) + u"}}
phase:
  duration: 3
  start: {x: 0}
  costs: [{name: miss, final: (x - 1)**2}, {name: effort, running: u**2}]
"""
ENDING = """
name: burn
system: {states: {x: m}, controls: {u: m/s}, dynamics: {x: "if_else(t < 0.8, 2, 0) + u"}}
phase:
  duration: {lower: 1, upper: 4}
  start: {x: 0}
  final: {x: 3}
  costs: [{name: effort, running: u**2 + 0.5}]
"""


def test_an_instant_that_a_parameter_moves_is_refused_by_its_gradient(monkeypatch):
    """x(3) = 2 ts - 3 + 3 u: the least of (d + 3 u)^2 + 3 u^2 with d = 2 ts - 4 is d^2 / 4, whose slope by ts is d. The program
    holds that ts is no matter of its rates."""
    whole = replace(method("collocation"), reductions=())
    monkeypatch.setitem(METHODS, "collocation", whole)
    found = solve(load_text(SWITCHING).problem, "collocation", {"scheme": "gauss", "intervals": 12, "refine": "none"})
    ts = found.extra["parameters"][0]
    jump = gained(found)
    assert jump.cause is Kind.MOVING_JUMP
    assert jump.unknown == "ts"
    assert jump.size == pytest.approx(abs(2 * ts - 4) * 2.0, rel=0.1)  # its range is the scale of the parameter
    assert not found.ok
    assert "ts moves that instant" in sentence(found.certificate.stationarity.finding)


def test_a_given_time_that_a_free_duration_moves_past_the_nodes_ends_a_piece():
    """x = 1.6 + u T = 3: J = 1.4^2 / T + T / 2 has its minimum at T = 1.4 sqrt 2. A program in fractions of the duration moves the
    end of the burn with T."""
    found = solve(load_text(ENDING).problem, "collocation", {})
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(1.4 * np.sqrt(2), rel=1e-6)
    fixed = solve(load_text(ENDING.replace("{lower: 1, upper: 4}", "2")).problem, "collocation", {})
    assert gained(fixed) == jumps.Jump()
    optimum = 1.4**2 / 2 + 1
    assert abs(fixed.objective - optimum) < fixed.certificate.error_bound
    worth = fixed.extra["certificate_gap_cost"][0]  # a node on the jump: what its gap costs is the whole error, to first order
    assert fixed.objective + worth == pytest.approx(optimum, rel=1e-5)


FRICTION = """
name: block with dry friction
system: {states: {x: m, v: m/s}, controls: {u: N}, dynamics: {x: v, v: u - 2*sign(v)}}
phase:
  duration: 1
  start: {x: 0, v: 0}
  final: {x: 1, v: 0}
  costs: [{name: effort, running: u**2}]
"""


def test_a_jump_at_the_ends_of_a_phase_is_no_crossing_inside():
    """From rest to rest in one direction the friction is constant: 12 + 2^2, and sign(v) is zero at the two ends alone."""
    found = solve(load_text(FRICTION).problem, without=["gauss_nodes"])
    assert gained(found) == jumps.Jump()
    assert found.ok, found.certificate.failures
    assert abs(found.objective - 16.0) <= found.certificate.error_bound


def test_nodes_lie_inside_where_a_phase_ends_on_a_surface():
    """Gauss nodes see sign(v) = 1 alone, and states are cubic: the closed form to rounding, once the rule may fire."""
    found = solve(load_text(FRICTION).problem)
    assert found.objective == pytest.approx(16.0, abs=1e-8)
    assert found.certificate.error_bound < 1e-6
    assert "gauss_nodes" in [one.rule for one in found.strategy]
    smooth = solve(load_text(FRICTION.replace("sign(v)", "v")).problem)
    assert "gauss_nodes" not in [one.rule for one in smooth.strategy]


def test_waiting_at_rest_is_seen_where_friction_makes_motion_dear():
    """10 sign(v): moving for tau costs 12 / tau^3 + 100 tau, least at tau = 0.36^(1/4) and not at 1; at tau = 1 a second of rest
    gains 100 - 36."""
    found = solve(load_text(FRICTION.replace("2*sign", "10*sign")).problem, time_limit=30.0, without=MODES)
    assert found.status is not Status.TIME_LIMIT
    assert found.objective == pytest.approx(112.0, abs=1e-6)
    assert not found.ok
    assert found.certificate.causes == {Kind.WAITING}
    assert found.extra["certificate_hamiltonian_gap"][0] == pytest.approx(64.0, rel=1e-3)


def test_a_search_with_gauss_nodes_goes_on_with_them():
    kept = []

    def stop(row):
        if row["pass"] > 1:
            raise KeyboardInterrupt

    problem = load_text(FRICTION.replace("- 2*sign(v)", "- 2*sign(v) - v**3")).problem
    stopped = solve(problem, progress=stop, checkpoint=kept.append)
    assert stopped.status is Status.INTERRUPTED
    assert "gauss_nodes" in kept[-1]
    found, whole = solve(problem, resume=kept[-1]), solve(problem)
    assert found.ok
    assert found.options["scheme"] == whole.options["scheme"] == "gauss"
    assert found.objective == pytest.approx(whole.objective, rel=1e-6)
