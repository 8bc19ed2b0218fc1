"""A motion to a prescribed state at its time, in a horizon that moves beyond."""

import numpy as np
import pytest

from ocp.app.files.load import load_text
from ocp.app.mpc.run import prepare_loaded

MOVE = """
name: move
system: {states: {q: m, v: m/s}, controls: {u: m/s^2}, dynamics: {q: v, v: u}}
phase:
  duration: 1
  start: {q: 0, v: 0}
  final: {q: 1, v: 0}
  costs: [{name: effort, running: "u**2/2"}]
mpc: {rate: 25, duration: 1.6}
solve: {method: ilqr, ilqr: {intervals: 25}}
"""


def run(**changes):
    return prepare_loaded(load_text(MOVE, ".", "move.yaml", changes)).run()


def test_the_motion_arrives_at_its_time_and_stays():
    """The optimum is known: q = 3 t^2 - 2 t^3, cost 6."""
    loop = run()
    assert loop.ok
    moving = loop.t <= 1.0
    t = loop.t[moving]
    assert loop.x[moving, 0] == pytest.approx(3 * t**2 - 2 * t**3, abs=0.02)
    assert np.abs(loop.x[loop.t >= 1.0] - [1.0, 0.0]).max() < 0.05
    assert loop.cost == pytest.approx(6.0, rel=0.05)


def test_with_a_length_the_end_recedes():
    assert not run().notes
    for changes in ({"mpc.horizon": "1"}, {"phase.final": "{q: 1}"}):
        loop = run(**changes)
        assert loop.x[np.searchsorted(loop.t, 1.0), 0] < 0.9
        assert "recedes" in loop.notes[0]


def test_a_push_on_the_way_does_not_delay_it():
    loop = run(**{"mpc.disturbances.kicks": "[{time: 0.4, state: {v: -0.5}}]"})
    assert np.abs(loop.x[loop.t >= 1.02, 0] - 1.0).max() < 0.05
