"""Durations that grow without bound are told from those whose guess is far too short; values by closed forms."""

import re
from dataclasses import replace

import control_problems as known
import pytest

from ocp.app.sentences import message
from ocp.methods import solve
from ocp.problem import INF, At, Cost, Duration, Kind, Status
from ocp.strategy.programs import Programs


def block(running=None, final=None, *, moved=True, guess=2.0):
    """A unit mass from rest, in any duration: to rest at 1 m, or anywhere with at most 1 N."""
    phase = known.block_move().phase
    costs = tuple(Cost("cost", at, known.function(2, 1, f)) for at, f in ((At.PATH, running), (At.FINAL, final)) if f is not None)
    most = 1e9 if moved else 1.0
    return known.problem(replace(phase, duration=Duration(guess / 10, INF, guess), costs=costs, u_lower=(-most,), u_upper=(most,),
                                 final=phase.final if moved else None))


@pytest.mark.parametrize(("problem", "cost"), [
    (block(final=lambda t, x, u, p: -x[0], moved=False), lambda T: -T**2 / 2),
    (block(lambda t, x, u, p: u[0]**2), lambda T: 12 / T**3),
    (block(lambda t, x, u, p: u[0]**2 - 1), lambda T: 12 / T**3 - T),
])
def test_an_unbounded_duration_is_named_with_what_longer_motions_cost(problem, cost):
    found = solve(problem)
    assert found.status is Status.UNBOUNDED
    assert not found.ok
    assert found.ending.kind is Kind.UNBOUNDED_DURATION
    costs, durations = found.ending.data["costs"], found.ending.data["durations"]
    assert len(costs) == len(durations) == 3
    assert costs == pytest.approx([cost(T) for T in durations], rel=2e-3)
    told = re.findall(r"(\S+) at (\S+) s", message(found))
    assert [(float(value.rstrip(",")), float(length)) for value, length in told] == [
        pytest.approx(pair, rel=1e-3) for pair in zip(costs, durations, strict=True)]
    assert len(found.iterations) < 100


def test_a_guess_a_thousand_times_too_short_is_no_unbounded_duration(monkeypatch):
    seen, once = [], Programs._unbounded
    monkeypatch.setattr(Programs, "_unbounded", lambda *given: seen.append(once(*given)) or seen[-1])
    best = 36 ** 0.25  # least of 12 / T^3 + T
    found = solve(block(lambda t, x, u, p: u[0]**2, lambda t, x, u, p: t, guess=best / 1000))
    assert seen == [None]
    assert found.ok
    assert found.trajectory.t[-1] == pytest.approx(best, rel=1e-4)


def test_an_upper_bound_is_left_to_the_solver(monkeypatch):
    monkeypatch.setattr(Programs, "_unbounded", lambda *given: pytest.fail("nothing grows without bound"))
    problem = block(lambda t, x, u, p: u[0]**2)
    held = known.problem(replace(problem.phase, duration=replace(problem.phase.duration, upper=500.0)))
    assert solve(held).trajectory.t[-1] == pytest.approx(500.0, rel=1e-3)
