"""Closed loops of the gallery judged by geometry written once more."""

import casadi as ca
import numpy as np
import pytest
from repository import ROOT

from dynamics import algorithms as alg
from ocp.app.files.load import load_problem
from ocp.app.mpc.run import prepare_loaded

PROBLEMS = ROOT / "problems" / "mpc"


def run(name, **changes):
    loaded = load_problem(PROBLEMS / f"{name}.yaml", {f"mpc.{key}": value for key, value in changes.items()})
    found = prepare_loaded(loaded).run()
    assert found.ok, [*found.notes, *map(str, found.findings)]
    assert not found.failures
    return loaded, found.fine_t, found.fine_x


def test_a_car_keeps_to_its_track():
    """Edges by the normals of the ellipse in its middle, from points of it around the car."""
    _, t, x = run("car_track", duration="8")
    angle = np.linspace(0, 2 * np.pi, 4001)
    middle = np.stack([40 * np.cos(angle), 20 * np.sin(angle)], axis=1)
    off = np.array([np.linalg.norm(middle - place, axis=1).min() for place in x[::10, :2]])
    assert off.max() < 2.5 + 0.05  # the bound of the file is that distance to first order
    assert np.abs(x[:, 3] ** 2 * np.tan(x[:, 4]) / 2.5).max() <= 6 + 1e-4 * 12
    turned = np.ptp(np.unwrap(np.arctan2(x[:, 1] / 20, x[:, 0] / 40)))
    assert turned > 2.5
    assert x[t > 3, 3].min() > 6


def test_a_drone_passes_its_gates():
    _, t, x = run("drone_gates")
    for time, gate in ((1.3, (2, 0.5, 1.5)), (2.7, (3, 3, 1))):
        assert x[np.argmin(np.abs(t - time)), :3] == pytest.approx(gate, abs=0.06)
    assert x[-1, :3] == pytest.approx([1, 4, 1], abs=0.1)  # heavier than its model
    assert np.linalg.norm(x[-1, 7:10]) < 0.1


def test_an_arm_catches_a_ball():
    """Palm and ball are at one place with one velocity when it is caught: kinematics of two links by hand."""
    _, t, x = run("arm_catch")
    first, second = np.cumsum(x[:, :2], axis=1).T
    turn, turn_both = np.cumsum(x[:, 2:], axis=1).T
    place = -0.4 * np.sin(first) - 0.47 * np.sin(second), -0.4 * np.cos(first) - 0.47 * np.cos(second)
    rates = (-0.4 * np.cos(first) * turn - 0.47 * np.cos(second) * turn_both,
             0.4 * np.sin(first) * turn + 0.47 * np.sin(second) * turn_both)
    k = int(np.argmin(np.abs(t - 0.8)))
    assert [row[k] for row in place] == pytest.approx([0.5, -0.1], abs=5e-3)
    assert [row[k] for row in rates] == pytest.approx([-1.2, -0.8], abs=0.1)
    assert [row[-1] for row in place] == pytest.approx([0.2, -0.65], abs=0.05)


def test_an_arm_leaves_its_path_for_a_ball_alone():
    loaded, t, x = run("arm_obstacle", duration="5")
    model, ball = loaded.model, np.array([0.45, 0.22, 0.48])

    def away(frame):
        places = [np.array(ca.DM(alg.frame_pose(model, ca.DM(state[:model.nq]), frame).p)).ravel() for state in x[::5]]
        return np.array(places), np.linalg.norm(np.array(places) - ball, axis=1)

    hand, clear = away("panda_hand_tcp")
    assert clear.min() == pytest.approx(0.18, abs=2e-3)
    assert clear.min() >= 0.18 - 1e-5
    assert away("panda_link7")[1].min() >= 0.18 - 1e-5
    t = t[::5]
    wanted = np.stack([0.45 + 0 * t, 0.25 * np.sin(1.2 * t), 0.5 + 0.12 * np.cos(1.2 * t)], axis=1)
    error = np.linalg.norm(hand - wanted, axis=1)
    free = (np.linalg.norm(wanted - ball, axis=1) > 0.35) & (t > 3)
    assert error[free].max() < 0.03
    assert error[t > 0.5].max() > 0.1
