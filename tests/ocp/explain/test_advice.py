"""Advice on certificates that fail: everything that fails is spoken of, and what is offered changes what it is offered for."""

from dataclasses import replace

import pytest

from ocp.app.files.load import load_text
from ocp.explain import advice
from ocp.methods import make_options, solve
from ocp.problem import Kind, Statement, Violation

MOVE = """
name: move
system: {states: {x: m, v: m/s}, controls: {u: N}, dynamics: {x: v, v: u}}
phase: {duration: 1, start: {x: 0, v: 0}, final: {x: 1, v: 0}, costs: [{name: effort, running: u**2}]}
"""
RESIDUALS = ("stationarity", "complementarity", "gap_segment", "gap_total", "error_estimate", "objective", "point",
             "objective_error")


@pytest.fixture(scope="module")
def solved():
    found = solve(load_text(MOVE).problem)
    assert found.ok, found.certificate.failures
    return found


def failing(certificate, name, value):
    return replace(certificate, **{name: replace(getattr(certificate, name), value=value)})


@pytest.mark.parametrize("value", [1e6, float("nan")])
@pytest.mark.parametrize("name", RESIDUALS)
def test_every_check_that_fails_is_spoken_of(solved, name, value):
    broken = failing(solved.certificate, name, value)
    (one,) = advice(broken, solved.method, solved.options)
    assert [one.failure] == list(broken.failures)
    assert one.settings or name == "point"
    for key, setting in one.settings:
        assert setting == setting, key


def test_a_certificate_that_holds_needs_none(solved):
    assert advice(solved.certificate, solved.method, solved.options) == ()


@pytest.mark.parametrize(("method", "settings"), [("collocation", (("solve.collocation.guess", "multistart"),)), ("ilqr", ())])
def test_a_saddle_is_spoken_of(solved, method, settings):
    saddle = Statement(Kind.SADDLE, below=1, free=20)
    (one,) = advice(replace(solved.certificate, second_order=saddle), method, solved.options)
    assert (one.failure, one.why) == (saddle.finding, Kind.DESCENT_FAILED)
    assert one.settings == settings


@pytest.mark.parametrize("given", [{}, {"intervals": 8}, {"scheme": "gauss", "intervals": 8, "refine": "hp"}])
def test_what_makes_a_mesh_finer_is_an_option_that_the_solve_heeds(solved, given):
    """Of a mesh that the certificate refines, a mesh tolerance would change nothing."""
    options = make_options("collocation", given)
    (one, *_) = advice(failing(solved.certificate, "objective_error", 0.03), "collocation", vars(options))
    assert one.settings[-1] == ("accept.objective_error", 0.036)
    for key, value in one.settings[:-1]:
        name = key.removeprefix("solve.collocation.")
        changed = make_options("collocation", {**given, name: value})
        if name == "tolerance_mesh":
            assert changed.refine in ("h", "p", "hp")
        else:
            assert changed.refine != "certificate"
        assert changed != options


@pytest.mark.parametrize(("between", "accepted"), [(5e-3 * 320, 6e-3), (1800.0, None), (float("nan"), None)])
def test_only_small_parts_of_the_size_of_a_bound_are_offered_to_be_accepted(solved, between, accepted):
    """A motor of 320 N m; what is accepted is a part of that, and an answer that asks six times as much is none."""
    motor = Violation("bound joint", 0.0, between, 0.0, "joint", 1e-6 * 320, tolerance_between=1e-4 * 320, time_between=0.5)
    broken = replace(solved.certificate, violations=(motor,))
    (one,) = advice(broken, solved.method, solved.options)
    assert dict(one.settings).get("accept.violation_between") == accepted
    assert one.settings  # a finer mesh is offered in any case
