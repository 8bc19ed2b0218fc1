"""Closed loops assembled: a four-bar linkage against the law of cosines, velocities against differences, what cannot be closed."""

from dataclasses import replace

import numpy as np
import pytest
from linkages import assembled, four_bar

from dynamics.mechanism.assembly import Assembly, least_step, onto

CRANK = np.array([False, True, True])


@pytest.mark.parametrize("angle", [0.3, 0.9, 2.4])
def test_a_four_bar_closes_where_the_law_of_cosines_says(angle):
    """From the sense of the open assembly, the crank given; nothing moves that is closed."""
    loops = Assembly((robot := four_bar()).model, robot.constraints)
    coupler, rocker = assembled(angle)
    found, closed = loops.close(np.array([angle, coupler - 0.3, rocker + 0.2]), CRANK)
    assert closed
    np.testing.assert_allclose(found, [angle, coupler, rocker], atol=1e-8)
    np.testing.assert_array_equal(loops.close(found).q, found)


def test_velocities_follow_the_crank():
    loops = Assembly((robot := four_bar()).model, robot.constraints)
    at = [np.array([angle, *assembled(angle)]) for angle in (0.7, 0.7 - 1e-5, 0.7 + 1e-5)]
    v = loops.velocities(at[0], np.array([1.5, 0.0, 0.0]), ~CRANK)
    np.testing.assert_allclose(v, 1.5 * (at[2] - at[1]) / 2e-5, atol=1e-8)
    gaps, rates, turned = loops.misses(at[0], v)
    assert max(gaps["pin"], rates["pin"]) < 1e-12
    assert not turned
    assert loops.misses(at[0], 2 * v * CRANK)[1]["pin"] > 0.1


def test_what_is_out_of_reach_stays_open():
    """The crank's pin and the rocker's base are 0.7 m apart, coupler and a rocker of 0.1 m reach 0.6."""
    robot = four_bar()
    frames = tuple(replace(f, placement=replace(f.placement, position=(0.1, 0, 0))) if f.name == "tip" else f
                   for f in robot.model.frames)
    loops = Assembly(replace(robot.model, frames=frames), robot.constraints)
    q, closed = loops.close(np.array([np.pi, 0.0, 0.0]), CRANK)
    assert not closed
    assert loops.misses(q)[0]["pin"] > 0.09


def test_least_steps_onto_rows():
    """The point of a line that is nearest to where it starts, the rows given twice; rows that are not finite end it."""
    def rows(x):
        value = np.array([x[0] + 2 * x[1] - 5.0])
        return np.repeat(value, 2), np.array([[1.0, 2.0], [1.0, 2.0]])

    found, miss = onto(rows, np.add, np.zeros(2))
    np.testing.assert_allclose(found, [1.0, 2.0], atol=1e-12)
    assert miss < 1e-9
    assert not onto(lambda x: (np.array([np.nan]), np.ones((1, 2))), np.add, np.zeros(2))[1] <= 1e9


def test_steps_are_the_least_ones_of_their_metric():
    """Against the conditions of optimality of min 1/2 s' M s with J s = -miss, as one linear system; a row is given twice."""
    rng = np.random.default_rng(0)
    J, miss, root = rng.standard_normal((2, 5)), rng.standard_normal(2), rng.standard_normal((5, 5))
    M = root @ root.T + np.eye(5)
    kkt = np.block([[M, J.T], [J, np.zeros((2, 2))]])
    expected = np.linalg.solve(kkt, np.concatenate([np.zeros(5), -miss]))[:5]
    np.testing.assert_allclose(least_step(J[[0, 1, 0]], miss[[0, 1, 0]], M), expected, atol=1e-12)
    found, left = onto(lambda x: (J @ x + miss, J, M), np.add, np.zeros(5))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert left < 1e-12
