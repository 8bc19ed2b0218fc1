"""What the plant of a receding horizon did, judged by its file: constraints at every substep, what the loop is for at its end."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from shooting_problems import function, make

from ocp.app.sentences import sentence
from ocp.mpc import MPCOptions, PlantSpec, Tracked, run
from ocp.mpc.evaluate import track, violations
from ocp.mpc.judge import judged
from ocp.plants import Disturbances, Push
from ocp.problem import INF, At, Boundary, Constraint, Kind
from ocp.shooting.options import ILQROptions
from ocp.spaces import euclidean

SOLVER = ILQROptions(intervals=20, cost_quadrature="rectangle")
Q = function(2, 1, lambda t, x, u: x[0], "value")


def inverted(start=(0.1, 0.0), u_max=INF, reference=lambda t: 0.0 * t, **more):
    """q'' = 9 q + u: without control q = q0 cosh(3 t)."""
    return make("inverted", euclidean(("q", "v")), ("a",), lambda t, x, u: ca.vertcat(x[1], 9.0 * x[0] + u), start, 1.0,
                running=[("state", lambda t, x, u: ca.vertcat(x[0] - reference(t), x[1]), (50.0, 1.0)),
                         ("effort", lambda t, x, u: u, (0.05,))], u_max=u_max, **more)


def wanted(reference=lambda t, x, u: 0.0 * t, **more):
    return Tracked("pole", Q, function(2, 1, reference, "reference"), **more)


def kinds(loop):
    return [one.kind for one in loop.findings]


def walled(wall, rows=lambda t, x, u: x[0]):
    phase = inverted().phase
    return replace(phase, constraints=(Constraint("wall", At.PATH, function(2, 1, rows), (-INF,), (wall,)),))


@pytest.mark.parametrize("unit", [1.0, 1e3, 1e-3])
def test_a_violation_is_measured_by_the_range_of_its_row(unit):
    """In any unit; the row moves from 0 to 1 + over, its tolerance is a share of that, and every substep is told."""
    t, x, u = np.linspace(0, 1, 5), np.zeros((5, 2)), np.zeros((5, 1))
    for over, broken in ((5e-4, False), (2e-3, True)):
        x[:, 0] = [0.0, 0.5, 1.0, 1.0 + over, 1.0]
        found = violations(walled(unit, lambda t, x, u: unit * x[0]), t, x, u, share=1e-3)[0]
        assert found.holds is not broken
        assert found.tolerance == pytest.approx(1e-3 * unit * (1.0 + over))
        assert found.excess == pytest.approx([0, 0, 0, over * unit, 0], abs=1e-12 * unit)
        assert found.first == (0.75 if broken else None)
        told = judged(walled(unit), (found,), (), (), (t, x, u), lambda: None)
        assert [(one.kind, one.name, one.time) for one in told] == ([(Kind.CONSTRAINT_BROKEN, "wall", 0.75)] if broken else [])


def test_a_wall_that_a_push_breaks_is_reported_with_its_numbers():
    """From rest at 0, pushed with 3 against |a| <= 1 for 1 s: at the best q = 3/2 - 1/2 = 1 there, and 1 + 2 s - s^2 later."""
    free = make("mass", euclidean(("q", "v")), ("a",), lambda t, x, u: ca.vertcat(x[1], u), (0.0, 0.0), 1.0,
                running=[("state", lambda t, x, u: x[0], (1.0,)), ("effort", lambda t, x, u: u, (0.01,))], u_max=1.0)
    wall = Constraint("wall", At.PATH, Q, (-INF,), (0.5,))
    problem = replace(free, phases=(replace(free.phase, constraints=(wall,)),))
    plant = PlantSpec(free.phase.system, disturbances=Disturbances(pushes=(Push(0.0, 1.0, controls=(3.0,)),)))
    loop = run(problem, MPCOptions(rate=20, duration=8.0), solver=SOLVER, plant=plant)
    assert not loop.ok
    assert kinds(loop) == [Kind.CONSTRAINT_BROKEN]
    told = loop.findings[0]
    assert told.value >= 1.0 + 2.0 - 1.0 - 0.5 - 1e-9  # no control stays below the best
    assert told.value == pytest.approx(loop.fine_x[:, 0].max() - 0.5)
    assert "wall is violated by" in sentence(told)
    assert run(problem, MPCOptions(rate=20, duration=8.0), solver=SOLVER, plant=plant, broken=1.0).ok


def test_a_pole_that_fell_is_lost_and_one_that_is_caught_is_not():
    """|u| <= 9 q0 is the line between the two: beyond it no control brings q'' = 9 q + u back."""
    options = MPCOptions(rate=20, duration=3.0)
    for u_max, fell in ((0.6, True), (1.5, False)):
        loop = run(inverted(u_max=u_max), options, solver=SOLVER, tracked=[wanted(unit="m")])
        assert kinds(loop) == ([Kind.TRACKING_LOST] if fell else [])
        assert loop.ok is not fell
        if fell:  # at the best q - u/9 = (q0 - u/9) cosh(3 t)
            told, gone = loop.findings[0], 0.6 / 9.0 + (0.1 - 0.6 / 9.0) * np.cosh(9.0)
            assert told.data["end"] == pytest.approx(gone, rel=1e-3)
            assert told.data["share"] == pytest.approx(gone / (0.1 * np.cosh(9.0)), rel=0.05)
            assert "is no longer tracked" in sentence(told)


@pytest.mark.parametrize("aim", ["final", "constraint", "costs"])
def test_what_a_file_aims_at_without_tracking_is_judged_too(aim):
    options = MPCOptions(rate=20, duration=3.0)
    for u_max, fell in ((0.6, True), (1.5, False)):
        problem = inverted(u_max=u_max)
        changes = {"final": {"final": Boundary((0.0, 0.0), (True, True))}, "costs": {}, "constraint": {
            "constraints": (Constraint("end", At.FINAL, Q, (-0.01,), (0.01,)),)}}[aim]
        loop = run(replace(problem, phases=(replace(problem.phase, **changes),)), options, solver=SOLVER)
        assert [(one.kind, one.name) for one in loop.findings] == ([(Kind.TRACKING_LOST, {
            "final": "final state", "constraint": "end", "costs": "running costs"}[aim])] if fell else [])


def along(phase, q, without, reference=lambda t, x, u: 0.0 * t, unit="rad", within=None):
    """Findings of a motion q(t) beside that without control."""
    t = np.linspace(0, 10, 401)
    motions = [(t, np.column_stack([motion(t), 0 * t]), np.zeros((len(t), 1))) for motion in (q, without)]
    item = wanted(reference, unit=unit, within=within)
    return judged(phase, (), track(phase.system, [item], *motions[0]), [item], motions[0], lambda: motions[1])


@pytest.mark.parametrize(("q", "without", "lost"), [
    (lambda t: np.where(t < 5, 0.1, np.pi), lambda t: 30 * t, True),  # hangs, where the plant alone whirls
    (lambda t: 0.1 * np.exp(-t) + 0.05 + 0 * t, lambda t: np.pi + 0 * t, False),  # an offset below the error at the start
    (lambda t: 0.05 * (1 - np.exp(-t)), lambda t: np.pi + 0 * t, False),  # an offset from a start at the reference
    (lambda t: np.where(t < 9.5, 0.0, 4 * np.exp(-8 * (t - 9.5))), lambda t: np.pi + 0 * t, False),  # caught just now
    (lambda t: np.maximum(0.0, t - 8.0), lambda t: np.pi + 0 * t, True),  # falling at the end
])
def test_an_angle_is_lost_by_quarter_turns(q, without, lost):
    found = along(inverted().phase, q, without)
    assert [one.kind for one in found] == ([Kind.TRACKING_LOST] if lost else [])


def test_lagging_behind_a_reference_that_moves_is_no_loss():
    found = along(inverted().phase, lambda t: np.sin(t - 0.3), lambda t: 0.0 * t, lambda t, x, u: ca.sin(t), "m")
    assert found == ()


def test_what_is_to_keep_within_a_size_is_judged_by_it_alone():
    phase = inverted().phase
    for within, missed in ((0.2, True), (0.4, False)):
        found = along(phase, lambda t: 0.3 + 0 * t, lambda t: 0.0 * t, within=within)
        assert [(one.kind, one.tolerance) for one in found] == ([(Kind.TRACKING_MISSED, within)] if missed else [])
    assert "must stay within 0.2 rad" in sentence(along(phase, lambda t: 0.3 + 0 * t, lambda t: 0 * t, within=0.2)[0])
