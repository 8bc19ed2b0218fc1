"""Guesses between their points: along the shortest rotation at a constant rate, and held where they do not reach."""

import numpy as np
import pytest
from direct_problems import body_transfer

from ocp.guesses.sampling import controls_at, sample_guess, states_at
from ocp.problem import Guess
from ocp.spaces import euclidean


def about_z(angle):
    """A free body at rest, turned."""
    return np.r_[np.zeros(3), np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2), np.zeros(6)]


@pytest.mark.parametrize("fractions", [np.linspace(0, 1, 7), np.array([0.3, 0.5, 0.9])])
def test_rotations_turn_at_a_constant_rate(fractions):
    guess = Guess(np.array([0.2, 0.7]), np.array([about_z(0.4), about_z(1.9)]), np.zeros((2, 0)))
    share = np.clip((fractions - 0.2) / 0.5, 0.0, 1.0)
    expected = [about_z(0.4 + 1.5 * r) for r in share]
    np.testing.assert_allclose(states_at(guess, body_transfer().phase.system.space, fractions), expected, atol=1e-14)


def test_flat_states_and_controls_are_straight_and_held_where_the_guess_does_not_reach():
    guess = Guess(np.array([0.25, 0.75]), np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([[2.0], [0.0]]))
    fractions = np.array([0.0, 0.25, 0.5, 1.0])
    x, u = sample_guess(guess, euclidean(("x", "y")), fractions)
    np.testing.assert_array_equal(x, [[1, 5], [1, 5], [2, 5], [3, 5]])
    np.testing.assert_array_equal(u, controls_at(guess, fractions))
    np.testing.assert_array_equal(u.ravel(), [2, 2, 1, 0])
