"""Random pushes within one run, and verdicts on each of them."""

import numpy as np
import pytest
from repository import ROOT

from ocp.app.files.load import load_text
from ocp.mpc.pushes import recoveries, spread_pushes
from ocp.mpc.result import Tracking
from ocp.plants import Push


def tracked(error, within=1.0):
    value = np.asarray(error, float)[:, None]
    return Tracking("height", "m", value, np.zeros_like(value), 0.0, 0.0, 0.0, None, within)


def test_there_is_one_push_in_each_part_of_the_run():
    pushes = spread_pushes(50, "trunk", 12.0, 0.1, 10.0, seed=3)
    times, forces = np.array([push.time for push in pushes]), np.array([push.force for push in pushes])
    assert (times // 0.2).astype(int).tolist() == list(range(50))
    assert ((times % 0.2) <= 0.1).all()
    assert np.linalg.norm(forces, axis=1) == pytest.approx(12.0)
    assert np.linalg.norm(forces.mean(axis=0)) < 4.0  # in all directions
    assert pushes == spread_pushes(50, "trunk", 12.0, 0.1, 10.0, seed=3)
    assert pushes != spread_pushes(50, "trunk", 12.0, 0.1, 10.0, seed=4)


def test_a_push_is_recovered_from_when_errors_are_small_again_before_the_next():
    t = np.arange(0.0, 3.0, 0.1)
    error = np.zeros(30)
    error[2:7], error[12:], error[25:] = 2.0, 3.0, 0.5  # the second push is over its limit until the third
    pushes = [Push(0.15, 0.1, frame="a", force=(1.0, 0.0, 0.0)), Push(1.05, 0.1, frame="a", force=(0.0, 2.0, 0.0)),
              Push(2.05, 0.1, frame="a", force=(0.0, 0.0, 3.0)), Push(9.0, 0.1, frame="a", force=(0.0, 0.0, 3.0))]
    first, second, third = recoveries(pushes, [tracked(error), tracked(0.1 * error)], t)
    assert first.recovered
    assert first.after == pytest.approx(0.6 - 0.25)
    assert (first.largest, second.largest) == (2.0, 3.0)
    assert not second.recovered
    assert np.isnan(second.after)
    assert third.recovered
    assert third.after == pytest.approx(2.4 - 2.15)


def test_pushes_along_axes_at_one_time_are_one():
    pushes = [Push(0.1, 0.1, frame="a", force=tuple(5.0 * axis), scale=scale) for axis, scale in zip(np.eye(3), (0.6, -0.8, 0.0),
                                                                                                      strict=True)]
    found, = recoveries(pushes, [tracked(np.zeros(10))], np.arange(10) / 10)
    assert found.force == pytest.approx((3.0, -4.0, 0.0))


def test_nothing_is_said_where_no_quantity_has_a_limit():
    assert recoveries([Push(0.1, 0.1, frame="a", force=(1.0, 0.0, 0.0))], [tracked(np.zeros(9), None)], np.arange(9.0)) == ()


def test_a_file_asks_for_them():
    text = """
name: arm
system: {robot: models/ur5.urdf}
phase:
  duration: 0.4
  start: {rest: true, joints: {shoulder_pan_joint: 0, shoulder_lift_joint: 0, elbow_joint: 0, wrist_1_joint: 0, wrist_2_joint: 0,
          wrist_3_joint: 0}}
  costs: [{name: effort, running: "dot(tau, tau)"}]
mpc: {duration: 5, disturbances: {seed: 7, random_pushes: {count: 10, frame: tool0, force: 4}}}
"""
    spec = load_text(text, ROOT / "problems", "arm.yaml").mpc.plant
    assert spec.disturbances.pushes == spread_pushes(10, "tool0", 4.0, 0.1, 5.0, 7)
