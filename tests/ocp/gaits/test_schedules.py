"""Patterns and schedules of gaits: counted on a fine grid of times, independently of how stretches are cut."""

import numpy as np
import pytest

from ocp.errors import ProblemError
from ocp.gaits import PATTERNS, Schedule, roles, swings_of
from ocp.gaits.patterns import ALL

FEET = {2: {"L": "left", "R": "right"}, 4: {"LF": "a", "RF": "b", "LH": "c", "RH": "d"}}


def scheduled(name, count, **times):
    by_role = FEET.get(count, {})
    feet = list(by_role.values()) or [f"foot {i}" for i in range(count)]
    return Schedule(*swings_of(name, feet, by_role, **times))


def on_a_grid(schedule, count=20001):
    """Times and which feet stand then [k, feet], by the table alone."""
    t = (np.arange(count) + 0.5) * schedule.duration / count
    swings = np.array([[any(a < time < b for a, b in own) for own in schedule.swings.values()] for time in t])
    return t, ~swings


CASES = [(name, count) for name, pattern in PATTERNS.items()
         for count in (pattern.groups if isinstance(pattern.groups, dict) else (1, 2, 3, 4, 6))]


@pytest.mark.parametrize(("name", "count"), CASES)
@pytest.mark.parametrize("apex", [False, True])
def test_feet_stand_as_often_as_the_table_says(name, count, apex):
    """In every stretch the same feet stand; lengths add up to the whole; so do the times of all feet that stand."""
    schedule = scheduled(name, count, cycles=2)
    stretches = schedule.stretches(apex=apex)
    t, stands = on_a_grid(schedule)
    for one in stretches:
        inside = (t > one.start) & (t < one.end)
        for foot, column in zip(schedule.swings, stands.T, strict=True):
            assert (foot in one.standing) == column[inside].all() == (not (~column[inside]).any())
            assert (foot in one.swinging) != (foot in one.standing)
    assert sum(one.length for one in stretches) == pytest.approx(schedule.duration, rel=1e-12)
    feet_seconds = sum(len(one.standing) * one.length for one in stretches)
    assert feet_seconds == pytest.approx(stands.mean() * count * schedule.duration, rel=2e-3)
    assert feet_seconds == pytest.approx(sum(map(schedule.standing_time, schedule.swings)), rel=1e-12)
    lands = [foot for one in stretches for foot in one.landing]
    assert sorted(lands) == sorted(foot for foot, own in schedule.swings.items() for _ in own)


@pytest.mark.parametrize(("name", "at_once"), [("walk", 3), ("trot", 2), ("pace", 2), ("bound", 2), ("jump", 0), ("stand", 4)])
def test_how_many_feet_of_a_quadruped_carry_it(name, at_once):
    _, stands = on_a_grid(scheduled(name, 4))
    assert stands.sum(axis=1).min() == at_once


def test_trot_pace_and_bound_by_the_pairs_that_swing_together():
    pairs = {name: {one.swinging for one in scheduled(name, 4).stretches() if one.swinging} for name in ("trot", "pace", "bound")}
    assert pairs == {"trot": {("a", "d"), ("b", "c")}, "pace": {("a", "c"), ("b", "d")}, "bound": {("a", "b"), ("c", "d")}}


def test_a_negative_stance_is_a_flight():
    schedule = scheduled("trot", 4, swing=0.3, stance=-0.05, end=0.2)
    _, stands = on_a_grid(schedule)
    flown = (~stands).all(axis=1).mean() * schedule.duration
    assert flown == pytest.approx(0.05, abs=1e-3) == pytest.approx(sum(b - a for a, b in schedule.flights), abs=1e-3)
    assert schedule.duration == pytest.approx(0.2 + 0.3 - 0.05 + 0.3 + 0.2)


def test_swings_are_cut_in_their_middle_but_flights_are_not():
    jump, trot = scheduled("jump", 4).stretches(apex=True), scheduled("trot", 4).stretches(apex=True)
    assert [one.swinging for one in jump] == [(), ("a", "b", "c", "d"), ()]
    assert [one.apex for one in trot] == [(), ("a", "d"), (), (), ("b", "c"), (), ()]
    assert trot[1].length == pytest.approx(trot[2].length) == pytest.approx(PATTERNS["trot"].swing / 2)


def test_random_tables_keep_the_sum_rule():
    rng = np.random.default_rng(0)
    for _ in range(50):
        edges = {f"f{i}": np.sort(rng.uniform(0, 2, 2 * rng.integers(0, 4))) for i in range(rng.integers(1, 6))}
        schedule = Schedule({foot: tuple(map(tuple, own.reshape(-1, 2).tolist())) for foot, own in edges.items()}, 2.0)
        for apex in (False, True):
            stretches = schedule.stretches(apex=apex)
            for foot, own in edges.items():
                stood = sum(one.length for one in stretches if foot in one.standing)
                assert stood == pytest.approx(2.0 - np.diff(own.reshape(-1, 2)).sum(), abs=1e-9)
                assert sum(foot in one.apex for one in stretches) <= len(own) // 2


@pytest.mark.parametrize(("swings", "duration", "words"), [
    ({"a": ((0, 1),)}, 1, "the foot 'a' never stands"), ({"a": ((0.2, 0.1),)}, 1, "has zero duration"),
    ({"a": ((0.2, 0.5), (0.4, 0.6))}, 1, "begins before the one ahead of it ends"),
    ({"a": ((0.2, 1.5),)}, 1, "ends after the motion"),
    ({"a": ((-0.2, 0.5),)}, 1, "begins before the motion"), ({"a": ()}, 0, "must be positive")])
def test_times_that_cannot_be_are_named(swings, duration, words):
    with pytest.raises(ProblemError, match=words):
        Schedule(swings, duration)


def test_gaits_of_other_robots_are_refused():
    with pytest.raises(ProblemError, match="no gait named 'trott'; did you mean 'trot'"):
        scheduled("trott", 4)
    with pytest.raises(ProblemError, match="a trot is one of 4 feet; the robot has 2 contacts"):
        scheduled("trot", 2)
    with pytest.raises(ProblemError, match="do not decide which is RF"):
        swings_of("trot", list("abcd"), {"LF": "a", "RH": "d"})
    assert PATTERNS["jump"].groups == ALL


def test_feet_are_recognised_by_their_positions():
    places = {"w": (0.2, 0.1, 0), "x": (0.3, -0.1, 0), "y": (-0.2, 0.1, 0), "z": (-0.1, -0.2, 0)}
    assert roles(places) == {"LF": "w", "RF": "x", "LH": "y", "RH": "z"}
    assert roles({"w": (0, 0.1, 0), "x": (0, -0.1, 0)}) == {"L": "w", "R": "x"}
    assert roles({**places, "z": (0.25, -0.2, 0)}) == {}
    assert roles({"w": (0, 0.1, 0)}) == {}
