"""Bounds of states and controls, against loops over components and values chosen by hand."""

from dataclasses import replace

import numpy as np
import pytest
from shooting_problems import double_integrator

from ocp.errors import ProblemError
from ocp.problem import INF, Bounds

BOX = Bounds((-1.0, -INF, 2.0, -INF), (3.0, 0.5, 2.0, INF))


def test_clip_excess_and_violation_agree_with_loops():
    values = np.random.default_rng(0).normal(0.0, 3.0, (20, 4))
    for row in values:
        for i, (low, high) in enumerate(BOX.pairs()):
            nearest = min(max(row[i], low), high)
            assert BOX.clip(row)[i] == nearest
            assert BOX.violation(row)[i] == pytest.approx(abs(row[i] - nearest), abs=0)
            inside = min(row[i] - low, high - row[i])
            assert BOX.excess(row)[i] == -inside
    assert np.array_equal(BOX.clip(values), [BOX.clip(row) for row in values])


def test_which_components_are_bounded_and_how_widely():
    assert BOX.bounded.tolist() == [True, True, True, False]
    assert BOX.two_sided.tolist() == [True, False, True, False]
    assert BOX.width.tolist() == [4.0, INF, 0.0, INF]
    assert BOX.width_or(7.0).tolist() == [4.0, 7.0, 0.0, 7.0]
    assert BOX.magnitude.tolist() == [3.0, 0.5, 2.0, 0.0]


def test_active_values_lie_at_a_bound_or_beyond():
    assert BOX.active(np.array([2.95, 0.3, 2.0, 1e9]), 0.1).tolist() == [True, False, True, False]
    assert BOX.active(np.array([-1.2, 0.41, 5.0, -1e9]), 0.1).tolist() == [True, True, True, False]


def test_components_are_chosen_and_joined():
    assert BOX[1].pairs() == [(-INF, 0.5)]
    assert BOX[1:3] == BOX[[1, 2]] == BOX[np.array([False, True, True, False])]
    assert BOX[:2].joined(BOX[2:]) == BOX == Bounds.of(np.array(BOX.pairs()))
    assert len(BOX[[]]) == 0
    assert Bounds.of([]) == Bounds.free(0)


def test_other_bounds_are_new_records():
    values = np.array([[0.0, -4.0, 2.0, 1.0], [1.0, 0.0, 2.0, -6.0]])
    assert BOX.closed_by(values).pairs() == [(-1.0, 3.0), (-4.0, 0.5), (2.0, 2.0), (-6.0, 1.0)]
    assert BOX[[0]].fraction(np.array([[-1.0], [1.0], [3.0]])).ravel().tolist() == [0.0, 0.5, 1.0]


def test_bounds_are_fixed_where_most_values_meet_them():
    box, room = Bounds((0.0, 0.0), (1.0, 1.0)), np.full(2, 0.05)
    values = np.array([[0.99, 0.5], [1.0, 0.0], [0.98, 0.0], [0.2, 0.6]])
    assert box.fixed_where_active(values, room, 0.7).pairs() == [(1.0, 1.0), (0.0, 1.0)]
    assert box.fixed_where_active(values, room, 0.8) == box
    assert box.fixed_where_active(values, room, 0.7, {0: [0.3]}) == box
    assert box.fixed_where_active(values, 0.0 * room, 0.0) == box


def test_ends_of_different_lengths_are_refused():
    with pytest.raises(ProblemError, match="1 lower and 2 upper"):
        Bounds((0.0,), (1.0, 2.0))


def test_a_phase_has_the_bounds_of_its_keywords_and_changes_them():
    phase = double_integrator().phase
    phase = replace(phase, x_lower=(-1.0, -2.0), x_upper=(1.0, INF), u_lower=(-3.0,), u_upper=(4.0,))
    assert phase.state_bounds.pairs() == [(-1.0, 1.0), (-2.0, INF)]
    assert phase.control_bounds.pairs() == [(-3.0, 4.0)]
    other = phase.with_bounds(controls=Bounds.free(1), name="other")
    assert (other.u_lower, other.u_upper, other.x_lower, other.name) == ((-INF,), (INF,), (-1.0, -2.0), "other")
    assert phase.control_bounds.pairs() == [(-3.0, 4.0)]
    with pytest.raises(ProblemError, match="u_lower needs 1 values, got 2"):
        phase.with_bounds(controls=Bounds.free(2))
