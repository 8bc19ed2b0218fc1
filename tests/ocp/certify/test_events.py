"""Where functions break or turn sharply: found from graphs, far below the width of any sample."""

from dataclasses import replace

import casadi as ca
import control_problems as known
import numpy as np
import pytest

from ocp.certify import constraints, events
from ocp.certify.events import switched, watch, zoom
from ocp.certify.motion import Motion
from ocp.problem import INF, At, Constraint, Cost, Trajectory
from ocp.thresholds import SEARCH


def watched(expression_of):
    """The switches of a function of time and of a state that runs along sin 2t, as functions of times."""
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x"), ca.SX.sym("u"), ca.SX.sym("p", 0)
    found = watch(ca.Function("f", [t, x, u, p], [expression_of(t, x)])).switches
    return None if found is None else lambda s: np.asarray(
        found(s[None, :], np.sin(2 * s)[None, :], 0 * s[None, :], np.zeros((0, len(s))))).T


SAMPLES = np.linspace(0.0, 1.0, 201)


@pytest.mark.parametrize("width", [1e-3, 1e-6, 1e-10])
def test_a_switch_that_turns_back_between_samples_is_found(width):
    """A force for a time far below the spacing of samples: both of its edges."""
    switches = watched(lambda t, x: ca.if_else(ca.fabs(t - 0.41234567) < width, 1e5, 0))
    found = np.unique(switched(switches, SAMPLES, switches(SAMPLES)))
    for edge in (0.41234567 - width, 0.41234567 + width):
        assert np.min(np.abs(found - edge)) < 1e-12


def test_a_switch_of_the_state_is_found_along_the_motion():
    switches = watched(lambda t, x: ca.fmax(0, x - 0.3))
    found = switched(switches, SAMPLES, switches(SAMPLES))
    np.testing.assert_allclose(found, [np.arcsin(0.3) / 2], atol=1e-12)


def test_switches_beside_equations_that_are_solved_inside_are_found():
    """z + z^3 = x has no expression of its root: a switch of z is not known, one of t beside it is."""
    y, z = ca.SX.sym("y"), ca.SX.sym("z")
    root = ca.rootfinder("root", "newton", ca.Function("g", [z, y], [z + z**3 - y]))
    switches = watched(lambda t, x: ca.fmax(root(0, x), 0.3) + ca.if_else(t < 0.41234567, root(0, x), 0))
    np.testing.assert_allclose(switched(switches, SAMPLES, switches(SAMPLES)), [0.41234567], atol=1e-12)


def test_smooth_functions_have_nothing_to_watch():
    assert watched(lambda t, x: ca.sin(t) * x**2 + ca.cos(3 * x)) is None


def test_zoom_finds_the_largest_value_of_every_window():
    at, best = zoom(lambda t, k: -np.abs(t - 0.3 - 0.4 * k) * (1 + k), np.array([0.0, 0.5]), np.array([0.5, 1.0]))
    np.testing.assert_allclose(at, [0.3, 0.7], atol=1e-11)
    np.testing.assert_allclose(best, 0, atol=1e-11)


def test_a_violation_is_measured_at_its_peak_and_not_at_the_next_sample(monkeypatch):
    """x = sin 5t below 0.999 with forty samples, none of them at the peak."""
    monkeypatch.setattr(events, "SEARCH", replace(SEARCH, min_samples=40, max_samples=40))

    def state(t):
        return np.stack([np.sin(5 * np.asarray(t)), 5 * np.cos(5 * np.asarray(t))], axis=-1)

    def control(t):
        return -25 * np.sin(5 * np.asarray(t))[..., None]

    knots = np.array([0.0, 0.5, 1.0])
    row = Constraint("ceiling", At.PATH, known.function(2, 1, lambda t, x, u, p: x[0]), (-INF,), (0.999,))
    motion = Motion(replace(known.block_move().phase, constraints=(row,)),
                    Trajectory(knots, state(knots), control(knots[:-1]), knots[:-1], state, control))
    assert np.max(np.sin(5 * motion.look.t)) < 1 - 1e-5
    found = next(v for v in constraints.violations(motion, 1e-6, 1e-4, 2e-3) if v.name == "ceiling")
    assert found.between_knots == pytest.approx(1e-3, abs=1e-10)
    assert found.time_between == pytest.approx(np.pi / 10, abs=1e-5)


@pytest.mark.parametrize("width", [1e-3, 1e-5])
def test_integrals_resolve_pulses(width):
    """The unit pulse of a running cost, narrower than any panel."""
    def state(t):
        return np.stack([np.asarray(t), np.ones_like(t)], axis=-1)

    def control(t):
        return np.zeros((*np.shape(t), 1))

    pulse = known.function(2, 1, lambda t, x, u, p: ca.exp(-((x[0] - 0.4321) / width) ** 2) / (width * np.sqrt(np.pi)))
    knots = np.linspace(0, 1, 6)
    motion = Motion(replace(known.block_move().phase, costs=(Cost("pulse", At.PATH, pulse),)),
                    Trajectory(knots, state(knots), control(knots[:-1]), knots[:-1], state, control))
    assert motion.integral(lambda *at: motion.call(pulse, *at)) == pytest.approx(1.0, abs=1e-6)
