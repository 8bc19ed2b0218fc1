"""Mass centre of a gait: against closed solutions of the linear inverted pendulum, and what inputs carry the motion of a guess."""

import casadi as ca
import numpy as np
import pytest

from dynamics import algorithms as alg
from ocp.app.files.load import load_text
from ocp.gaits.sway import sway
from tests.ocp.files.test_gait_files import QUADRUPED
from tests.support.repository import ROOT


def test_a_step_of_the_feet_is_met_by_half_of_it_before():
    """The bounded solution: d/2 exp(w (t - t0)) before the step of the feet, d (1 - exp(-w (t - t0))/2) after it."""
    d, t0, w = np.array([0.2, -0.1, 0.0]), 2.0, 3.0
    t, c, v = sway(4.0, lambda time: d * (time > t0), 9.81 / w**2, 9.81)
    share = np.where(t < t0, np.exp(w * (t - t0)) / 2, 1 - np.exp(-w * (t - t0)) / 2)
    np.testing.assert_allclose(c, share[:, None] * d, atol=0.02 * 0.2)
    rate = w * np.exp(-w * np.abs(t - t0)) / 2
    np.testing.assert_allclose(v[3:-3], (rate[:, None] * d)[3:-3], atol=0.03 * w * 0.2)
    np.testing.assert_allclose([c[0], c[-1], c[1] - c[0], c[-1] - c[-2]], [0 * d, d, 0 * d, 0 * d], atol=1e-12)


def test_a_periodic_walk_sways_from_foot_to_foot():
    """Support on feet at d and -d in turn: c = d (1 - cosh(w (t - T/2)) / cosh(w T/2)) on the first, the mirror image
    on the other."""
    d, T, w = np.array([0.0, 0.1, 0.0]), 0.5, 4.0
    t, c, v = sway(2 * T, lambda time: d * (-1) ** (T <= time < 1.999 * T), 9.81 / w**2, 9.81, periodic=True)
    first = 1 - np.cosh(w * (t[:101] - T / 2)) / np.cosh(w * T / 2)
    np.testing.assert_allclose(c[:101], first[:, None] * d, atol=0.02 * 0.1)
    np.testing.assert_allclose(c[100:], -c[:101], atol=0.02 * 0.1)
    np.testing.assert_allclose(v[-2], v[1] * [1, -1, 1] * -1, atol=0.03 * w * 0.1)
    ahead = np.array([0.3, 0.0, 0.0])
    t, c, v = sway(2 * T, lambda time: ahead * (time > T), 9.81 / w**2, 9.81, periodic=True)
    np.testing.assert_allclose(c[-1] - c[0], ahead, atol=1e-12)
    np.testing.assert_allclose(v[-1], v[0], atol=0.02 * w * 0.3)


def test_it_stays_where_feet_stay_and_flies_straight():
    t, c, v = sway(1.0, lambda time: np.zeros(3), 0.4, 9.81)
    assert not c.any()
    assert not v.any()
    leap = np.array([0.3, 0.0, 0.0])
    t, c, _ = sway(1.2, lambda time: None if 0.4 < time < 0.8 else leap * (time > 0.5), 0.4, 9.81)
    flies = (t > 0.42) & (t < 0.78)
    line = np.polyfit(t[flies], c[flies, 0], 1)
    np.testing.assert_allclose(np.polyval(line, t[flies]), c[flies, 0], atol=0.01 * 0.3)
    assert line[0] > 0.3 / 1.2


@pytest.mark.slow
def test_inputs_of_the_guess_carry_its_motion():
    """Feet that stand do not move in the guess, and M a + h = S tau + J' lambda with the accelerations between its velocities."""
    problem = load_text(QUADRUPED.replace("GAIT", "{pattern: trot, advance: [0.2, 0.0]}"), ROOT / "problems" / "models").problem
    moved = 0.0
    for phase in problem.phases:
        robot, guess = phase.system.robot, phase.guess
        model = robot.model
        moved = max(moved, float(np.abs(guess.x[:, model.nq:]).max()))
        for x, u in zip(guess.x[[0, -1]], guess.u[[0, -1]], strict=True):
            q, v = x[:model.nq], x[model.nq:]
            J = [np.array(ca.DM(ca.densify(c.jacobian(model, ca.DM(q))))) for c in robot.constraints]
            np.testing.assert_allclose(np.vstack(J) @ v, 0, atol=2e-6 * np.abs(v).max() + 5e-6)
            a, forces = np.split(u[robot.nu:], [model.nv])
            needed = np.array(alg.inverse_dynamics(model, q, v, a)).ravel()
            given = np.array(ca.DM(robot.selection)) @ u[:robot.nu] + np.vstack(J).T @ forces
            np.testing.assert_allclose(given, needed, atol=1e-6 * np.abs(needed).max())
        faster = (guess.x[-1] - guess.x[0])[model.nq:model.nq + 3] / phase.duration.guess  # of the base
        np.testing.assert_allclose(guess.u[len(guess.u) // 2, robot.nu:robot.nu + 3], faster, atol=0.2)
    assert moved > 0.3
