"""Mechanisms that a start assembles: near the guess, and never with frames half a turn apart."""

import numpy as np
import pytest

from dynamics import algorithms as alg
from ocp.app.files.load import load_text
from ocp.errors import ProblemError
from ocp.methods import solve

ARM = "mass: 1, com: [0.2, 0, 0], inertia: {xx: 1e-3, yy: 0.02, zz: 0.02}, joint: {effort: 60, kind: revolute, axis: [0, 1, 0]"
TWO_ARMS = f"""
name: Two arms carry a bar
system:
  bodies:
    a1: {{{ARM}, position: [-0.5, 0, 0]}}}}
    a2: {{parent: a1, {ARM}, position: [0.4, 0, 0]}}}}
    a3: {{parent: a2, {ARM}, position: [0.4, 0, 0]}}}}
    bar: {{parent: a3, mass: 2, com: [0.2, 0, 0], inertia: {{xx: 1e-3, yy: 0.05, zz: 0.05}},
          joint: {{name: grip, kind: fixed, position: [0.1, 0, 0]}}}}
    b1: {{{ARM}, position: [0.5, 0, 0]}}}}
    b2: {{parent: b1, {ARM}, position: [0.4, 0, 0]}}}}
    b3: {{parent: b2, {ARM}, position: [0.4, 0, 0]}}}}
  frames:
    far: {{body: bar, position: [0.4, 0, 0], rpy: [0, pi, 0]}}
    right: {{body: b3, position: [0.1, 0, 0]}}
  constraints:
    - {{name: grasp, closure: {{first: far, second: right}}}}
phase:
  duration: 1.5
  start: {{joints: {{a1: -1.9, a2: 1.2, a3: 0.7}}, rest: true, others: assembled}}
  final: {{rest: true}}
  constraints:
    - {{name: place, at: final, expression: ['position("bar")[0] + 0.15', 'position("bar")[2] - 0.55'], equal: 0}}
  costs: [{{name: effort, running: "a1**2 + a2**2 + a3**2 + b1**2 + b2**2 + b3**2"}}]
  guess:
    states:
      - {{joints: {{b1: -1.3, b2: -1.2, b3: -0.7}}}}
      - {{joints: {{a1: -1.9, a2: 1.2, a3: 0.7, b1: -1.3, b2: -1.2, b3: -0.7}}}}
"""
GUESS = "{joints: {b1: -1.3, b2: -1.2, b3: -0.7}}"


def grasped(loaded):
    """Start [joint -> angle], and the cosine of the angle between the frames that are to coincide."""
    model, x = loaded.model, np.array(loaded.problem.phase.start.value)
    axes = [np.array(alg.frame_pose(model, x[:model.nq], frame).R)[:, 0] for frame in ("far", "right")]
    return dict(zip(model.coordinate_names, x, strict=False)), axes[0] @ axes[1]


def test_a_grasp_is_closed_near_the_guess_and_the_bar_is_carried():
    loaded = load_text(TWO_ARMS)
    start, cosine = grasped(loaded)
    assert cosine == pytest.approx(1.0)
    assert [start[name] for name in ("b1", "b2", "b3")] == pytest.approx([-1.3, -1.2, -0.7], abs=0.1)
    mirrored, cosine = grasped(load_text(TWO_ARMS.replace(GUESS, "{joints: {b1: -2.4, b2: 1.2, b3: -2}}")))
    assert cosine == pytest.approx(1.0)
    assert mirrored["b2"] == pytest.approx(-start["b2"])  # elbow on the other side
    assert solve(loaded.problem).ok


def test_neutral_values_half_a_turn_apart_are_no_grasp():
    """Where nobody guesses the arms, the neutral ones point the wrong way exactly, and all rows are zero there."""
    _, cosine = grasped(load_text(TWO_ARMS.replace(GUESS, "{}")))
    assert cosine == pytest.approx(1.0)


def test_a_start_half_a_turn_apart_is_refused_by_name():
    start, _ = grasped(load_text(TWO_ARMS))
    first, second = (-0.4 * np.array([np.cos(a), -np.sin(a)]) for a in (start["b1"], start["b1"] + start["b2"]))
    wrist = np.array([0.5, 0.0]) - first - second + 0.2 * np.array([-1.0, 0.0])  # with the hand turned round
    away = wrist - [0.5, 0.0]
    inner = float(np.arccos(np.linalg.norm(away) / 0.8))
    b1, b2 = float(np.arctan2(-away[1], away[0])) + inner, -2 * inner
    text = TWO_ARMS.replace("rest: true, others: assembled", "rest: true").replace(
        "a3: 0.7}, rest", f"a3: 0.7, b1: {b1!r}, b2: {b2!r}, b3: {-b1 - b2!r}}}, rest")
    with pytest.raises(ProblemError, match="frames of 'grasp' are half a turn apart"):
        load_text(text)
