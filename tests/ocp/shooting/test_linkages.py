"""Linkages in iLQR: ends that rows look back on are states which stages write; against closed forms and multiple shooting."""

import numpy as np
import pytest

from ocp.app.files.load import load_text
from ocp.errors import ProblemError, UnsupportedError
from ocp.methods import solve
from ocp.problem import At, Kind
from ocp.shooting import adjoint
from ocp.shooting.receding import Receding
from ocp.shooting.sensitivity import sensitivities

STEPS = {"intervals": 60}

WAVE = """\
name: Following a wave
constants: {w: 2*pi}
system:
  states: {x: m}
  controls: {u: m/s}
  dynamics: {x: u}
phases:
  - name: round
    duration: 1
    start: {others: free}
    costs: [{name: near, running: "(u**2 + (x - cos(w*t))**2)/2"}]
linkages:
  - {name: periodic, expression: 'final["x"] - start["x"]', equal: 0}
"""

LEAP = """\
name: Leap
parameters: {e: {value: 0.7, optimise: [0.4, 0.9]}}
system:
  states: {y: m, v: m/s}
  controls: {f: N}
  dynamics: {y: v, v: f - 3}
phases:
  - name: fall
    duration: {lower: 0.2, upper: 2, guess: 0.5}
    start: {y: 1, others: free}
    final: {y: 0}
    costs: [{name: effort, running: f**2}]
  - name: rise
    duration: 0.4
    reset: {v: -e*v}
    costs: [{name: effort, running: "f**2 + 0.1*v**2"}, {name: early, final: "0.2*t"}]
linkages:
  - {name: round again, expression: '0.8*start["fall.v"] + final["rise.v"]', equal: -0.2}
  - name: in the middle
    expression: ['final["fall.v"] + e + final["rise.y"]', 'start["rise.v"] - 2*duration["fall"] - final["rise.v"]']
    lower: [-0.9, null]
    upper: [null, 0.2]
"""

BALL = """\
name: A pendulum at a ball comes back turned
system:
  bodies:
    bob: {joint: {name: hang, kind: spherical}, mass: 1, com: [0, 0.1, -0.5], inertia: {xx: 0.02, yy: 0.03, zz: 0.04}}
phases:
  - name: swing
    duration: 1.2
    start: {joints: {hang: {rpy: [0.4, -0.2, 0.1]}}, others: free}
    costs: [{name: effort, running_residual: tau}, {name: beat, running: '(v["hang.wx"] - 1)**2'}]
linkages:
  - name: turned
    expression: ['final["q.hang.x"] - start["q.hang.x"]', 'final["q.hang.y"] + start["q.hang.y"]',
                 'final["v.hang.wx"] - start["v.hang.wx"]', 'final["v.hang.wy"] - start["v.hang.wy"]',
                 'final["v.hang.wz"] - start["v.hang.wz"]']
    equal: 0
"""


def test_a_periodic_motion_in_closed_form():
    """x'' = x - cos w t along the optimum, whose periodic solution is cos(w t) / (1 + w^2)."""
    w, found = 2 * np.pi, solve(load_text(WAVE).problem, "ilqr", {"intervals": 200, "integrator": "rk4"})
    assert found.ok
    t = found.trajectory.t
    np.testing.assert_allclose(found.trajectory.x[:, 0], np.cos(w * t) / (1 + w**2), atol=2e-5)
    assert found.objective == pytest.approx(w**2 / (1 + w**2) / 4, rel=2e-4)
    assert set(found.extra) >= {"multipliers_final"}
    # states that are remembered are no parameters that were chosen
    assert not any(one.kind in (Kind.DURATION_CHOSEN, Kind.PARAMETER_CHOSEN) for one in found.findings)


@pytest.mark.parametrize("text", [LEAP, BALL], ids=["leap", "ball"])
def test_the_same_steps_by_multiple_shooting_have_the_same_optimum(text):
    """Ends in the middle, resets, free durations and parameters, one-sided rows; and quaternions. Both hold controls along steps of
    RK4, so that the two discrete problems are one."""
    problem = load_text(text).problem
    found = solve(problem, "ilqr", {**STEPS, "integrator": "rk4"})
    other = solve(problem, "multiple_shooting", STEPS)
    assert found.ok
    assert found.objective == pytest.approx(other.objective, rel=1e-6)
    for a, b in zip(found.parts or (found.trajectory,), other.parts or (other.trajectory,), strict=True):
        np.testing.assert_allclose(a.x, b.x, atol=2e-5)
        np.testing.assert_allclose(a.t, b.t, atol=2e-6)
    assert max(v.at_knots for v in found.certificate.violations if v.name in ("round again", "in the middle", "turned")) < 1e-6


def test_without_its_linkages_the_optimum_is_another():
    plain = load_text(LEAP[:LEAP.index("linkages:")]).problem
    assert solve(plain, "ilqr", STEPS).objective < 0.99 * solve(load_text(LEAP).problem, "ilqr", STEPS).objective


def test_a_prescribed_start_is_looked_back_on():
    text = WAVE.replace("start: {others: free}", "start: {x: 0.5}").replace("cos(w*t)", "3")
    found = solve(load_text(text).problem, "ilqr", STEPS)
    assert found.ok
    assert found.trajectory.x[[0, -1], 0] == pytest.approx([0.5, 0.5], abs=1e-7)
    assert found.trajectory.x[30, 0] > 0.6  # towards 3 and back
    with pytest.raises(ProblemError, match="a linkage depends on the prescribed start"):
        sensitivities(found)


def test_what_cannot_be_linked_is_named():
    alone = load_text(WAVE.replace("final", "start").replace("equal: 0", "equal: 1").replace(' - start["x"]', "")).problem
    assert all(end == (0, At.START) for end in alone.linkages[0].ends)
    with pytest.raises(UnsupportedError, match="linkage 'periodic' of the start alone"):
        solve(alone, "ilqr")
    held = load_text(WAVE.replace("start: {others: free}", "start: {x: 0.5}")).problem
    with pytest.raises(ProblemError, match="and no linkages"):
        Receding(held)
    assert adjoint.unsupported(held) == ["linkage 'periodic' between ends of phases, at problem.yaml:13:5: linkages[0]"]
