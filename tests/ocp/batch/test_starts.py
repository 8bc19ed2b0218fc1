"""Starts of a multi-start, and when there were enough of them, against shares that are known."""

import numpy as np
import pytest
from block_file import BLOCK

from ocp.app.files.load import load_problem, load_text
from ocp.batch.starts import centres, optima, round_size, searched, started, unseen


def test_objectives_that_agree_are_one_optimum():
    found = optima([2.0, None, 1.0, 2.00001, 1.00002, 3.0])
    assert [one.objective for one in found] == [1.0, 2.0, 3.0]
    assert [one.starts for one in found] == [(2, 4), (0, 3), (5,)]
    assert unseen([2.0, None, 1.0, 2.00001, 1.00002, 3.0]) == pytest.approx(1 / 5)
    assert unseen([None, None]) == 1.0


def test_the_estimate_of_what_has_not_been_seen_is_right_in_the_mean():
    """Over many samples of optima with known shares, the mean of the estimate is the mean share of those not in the sample, up
    to one over its size (Good 1953)."""
    rng, shares, size = np.random.default_rng(0), np.array([0.5, 0.2, 0.1, 0.1, 0.05, 0.03, 0.02]), 20
    estimates, truths = [], []
    for _ in range(2000):
        seen = rng.choice(len(shares), size, p=shares)
        estimates.append(unseen([float(k + 1) for k in seen]))
        truths.append(1.0 - shares[np.unique(seen)].sum())
    assert np.mean(truths) > 0.05
    assert np.mean(estimates) == pytest.approx(np.mean(truths), abs=1 / size * np.mean(truths) + 5e-3)


def test_a_search_goes_on_around_the_best_until_nothing_is_better():
    """On a staircase, where only starts around a step reach the next one: rounds of 1/missing starts, one for each step, and one
    that finds nothing; what cannot be solved ends at the most."""
    size = round_size(0.05)
    assert size == 20
    one = searched(lambda number, centre: 1.0, 0.05, 100)
    assert len(one) == 2 * size
    heights: list[float] = []

    def step(number, centre):
        heights.append(10.0 if centre < 0 else max(7.0, heights[centre] - 1.0) if number % size == 3 else 10.0 + number)
        return heights[-1]

    found = searched(step, 0.05, 200)
    assert min(found) == 7.0
    assert len(found) == 5 * size
    assert centres(found, 0.05, 200) == [-1, 0, 23, 43, 63]
    assert len(searched(lambda number, centre: None, 0.05, 60)) == 60
    assert len(searched(lambda number, centre: -float(number), 0.05, 60)) == 60


def test_a_search_finds_what_starts_around_the_guess_do_not():
    """The least of a sum of a bowl and waves, which descent from random starts around a far point seldom reaches."""
    from scipy.optimize import minimize

    def wavy(x):
        return float((x[0] / 4) ** 2 + 2 * (1 - np.cos(3 * x[0])))

    def solve(number, centre):
        rng = np.random.default_rng(number)
        at = (places[centre] if centre >= 0 else 12.0) + 2.0 * rng.normal()
        found = minimize(lambda x: wavy(x), [at], method="BFGS")
        places.append(float(found.x[0]))
        return float(found.fun)

    places: list[float] = []
    found = searched(solve, 0.05, 400)
    assert min(found) == pytest.approx(0.0, abs=1e-8)
    assert min(found[:20]) > 1.0


def test_starts_are_the_guess_and_points_of_a_sequence():
    """Number 0 is the guess; others differ by number and seed, keep prescribed ends and bounds, and are the same again."""
    problem = load_problem("problems/cartpole_free_time.yaml").problem
    assert started(problem, 0, 3) is problem
    made = {(number, seed): started(problem, number, seed).phase for number in (1, 2) for seed in (0, 1)}
    for (number, seed), phase in made.items():
        again = started(problem, number, seed).phase
        np.testing.assert_array_equal(phase.guess.x, again.guess.x)
        np.testing.assert_array_equal(phase.guess.x[0], made[1, 0].guess.x[0])
        low, high = phase.control_bounds.arrays
        assert np.all((phase.guess.u >= low) & (phase.guess.u <= high))
        assert phase.duration.lower <= phase.duration.guess <= phase.duration.upper
    assert len({float(phase.guess.x[7, 1]) for phase in made.values()}) == 4


def test_sixteen_starts_spread_evenly():
    """Each component of the first 2^k points of a scrambled Sobol sequence has one value in each of 2^k slices, so that half of the
    free ends of 16 starts lie on either side of the guess."""
    problem = load_text(BLOCK.replace("final: {x: 1, v: 0}", "final: {x: 1}")).problem
    free = next(i for i, fixed in enumerate(problem.phase.final.fixed) if not fixed)
    for seed in range(3):
        ends = np.array([started(problem, number, seed).phase.guess.x[-1, free] for number in range(1, 17)])
        assert len(set(ends.tolist())) == 16
        assert np.sum(ends > problem.phase.guess.x[-1, free]) == 8
