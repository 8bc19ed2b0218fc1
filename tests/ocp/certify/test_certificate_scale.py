"""What things are measured by: ranges of the motion, and not ones."""

from dataclasses import replace

import direct_problems as direct
import numpy as np
import pytest

from ocp.app.files.load import load_text
from ocp.certify.motion import Motion
from ocp.certify.sizes import constraint_sizes
from ocp.methods import solve
from ocp.problem import Boundary


def moved(row="x - 2", size=1.0, extra=""):
    return load_text(f"""
name: move
system: {{states: {{x: m, v: m/s{extra}}}, controls: {{u: N}}, dynamics: {{x: v, v: u{extra.replace('m', '0*u')}}}}}
phase:
  duration: 1
  start: {{x: 0, v: 0{extra.replace('m', '0')}}}
  final: {{x: {size}, v: 0}}
  costs: [{{name: effort, running: "u**2"}}]
  constraints: [{{name: row, expression: "{row}", upper: 0}}]
""").problem


@pytest.mark.parametrize("factor", [1e-9, 1.0, 1e9])
def test_a_row_times_a_constant_is_the_same_row(factor):
    """x reaches 1: never below 0.5, whatever the row is multiplied by; always below 2."""
    broken = solve(moved(f"{factor}*(x - 0.5)"), "collocation", {"intervals": 20})
    assert not broken.ok
    assert solve(moved(f"{factor}*(x - 2)"), "collocation", {"intervals": 20}).ok


@pytest.mark.parametrize("half", [1e-5, 4e-5, 1e-4])
def test_a_wall_is_refused_by_its_own_row(half):
    """((x - a)/h)^2 >= 1 with h down to 1e-5 of the way: the row ranges through 1e9 of its bound, and has no gradient at its
    middle, where the motion breaks it by all of the bound."""
    found = solve(moved(f"1 - ((x - 0.4321)/{half})**2"), "collocation", {"intervals": 20, "refine": "none"})
    row = next(v for v in found.certificate.violations if v.name == "row")
    assert row.between_knots > 0.9
    assert row.tolerance_between < 0.05
    assert "row" in [one.name for one in found.certificate.failures]


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_scales_of_constraints_follow_their_factors(factor):
    found = solve(moved(), "collocation", {"intervals": 20})
    motion = Motion(found.problem.phase, found.trajectory)
    sizes = []
    for scale in (1.0, factor):
        function = moved(f"{scale}*(x - 0.5)").phase.constraints[0].function
        values = motion.call(function, found.trajectory.t, found.trajectory.x, found.trajectory.u[::2][:len(found.trajectory.t)])
        sizes.append(constraint_sizes(motion, function, found.trajectory.t, values)[0])
    assert sizes[0] == pytest.approx(1.0, rel=1e-6)  # x runs through one metre
    assert sizes[1] == pytest.approx(factor * sizes[0], rel=1e-9)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_states_are_measured_by_their_range(size):
    found = solve(moved("x - 1e9", size), "collocation", {"intervals": 20, "scaling": "auto"})
    scales = Motion(found.problem.phase, found.trajectory).scales
    np.testing.assert_allclose(scales.tangent, size * np.array([1.0, 1.5]), rtol=1e-3)
    np.testing.assert_allclose(scales.control, [6 * size], rtol=1e-3)


def test_the_noise_of_constant_states_is_no_motion():
    """y, w stand still but for the rounding of a solver. A deviation of w by ten would move y by ten within the second, and that of
    y by ten would move x by a tenth of its range: noise of y is nothing that w is measured by."""
    text = """
name: three
system: {states: {x: m, y: m, w: m/s}, controls: {u: N, f: N}, dynamics: {x: "u + 0.1*y", y: w, w: f}}
phase:
  duration: 1
  start: {x: 0, y: 0, w: 0}
  final: {x: 1, y: 0, w: 0}
  costs: [{name: effort, running: "u**2 + f**2"}]
"""
    found = solve(load_text(text).problem, "collocation", {"intervals": 4})
    path = found.trajectory
    noise = np.array([0.0, 1e-7, 1e-7])

    def state(t):
        return path.state(t) + noise * np.sin(40 * np.asarray(t))[..., None]

    noisy = replace(path, x=state(path.t), state=state)
    clean, tangent = (Motion(found.problem.phase, one).scales.tangent for one in (path, noisy))
    np.testing.assert_allclose(tangent, clean, rtol=1e-3)
    np.testing.assert_allclose(tangent, [1.0, 0.1, 0.1], rtol=1e-3)


def test_the_scale_of_a_constant_state_is_its_effect():
    """y never moves; a deviation by one would move x by a tenth of its range within the second: so ten is its size."""
    text = """
name: two
system: {states: {x: m, y: m}, controls: {u: N, w: N}, dynamics: {x: "u + 0.1*y", y: w}}
phase:
  duration: 1
  start: {x: 0, y: 0}
  final: {x: 1, y: 0}
  costs: [{name: effort, running: "u**2 + w**2 + 100*y**2"}]
"""
    found = solve(load_text(text.replace("0.1*y", "0*y")).problem, "collocation", {"intervals": 10})
    other = load_text(text).problem.phase
    scales = Motion(other, found.trajectory).scales
    assert scales.wide_tangent[1] == pytest.approx(10.0, rel=1e-3)
    assert scales.tangent[1] == pytest.approx(0.1, rel=1e-3)


def test_rounding_is_no_effect_of_constant_states():
    """A free body turns half a radian about one axis: what stands still, and moves the rest by rounding alone, has the size of what
    moves, and is not measured by how much of it rounding would need."""
    problem = direct.body_transfer(final=Boundary(direct.pose((0, 0, 0), (0.5, 0, 0)), (True,) * 12))
    found = solve(problem, "collocation", {"states": "tangent", "scheme": "radau", "intervals": 8})
    scales = Motion(found.problem.phase, found.trajectory).scales
    assert found.ok
    assert scales.wide_tangent.max() < 100
    assert scales.tangent.max() < 2
