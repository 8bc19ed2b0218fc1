"""A trot within hard friction cones: its optimum meets the first-order conditions of the discrete problem, by gradients that are
adjoints of steps, impacts and costs by CasADi's reverse mode, and multipliers of active cones by least squares."""

import casadi as ca
import numpy as np
import pytest
from crocoddyl_gaits import step
from repository import ROOT, shipped

from dynamics.errors import ModelError
from dynamics.model.robots import robot_paths
from ocp.methods import solve
from ocp.problem import At, Sense, Status
from ocp.shooting.stages.costs import terms

try:
    PATHS = robot_paths()
except ModelError:
    PATHS = {}
pytestmark = [pytest.mark.skipif(not PATHS, reason="the robots extra is not installed"), pytest.mark.slow]
ACTIVE = 1e-3  # N: cones with less left are active


def reverse(value, t, x, u):
    """(t, x, u, seed) -> seed' times the derivatives of a value by x and by u."""
    w = ca.SX.sym("w", value.shape[0])
    function = ca.Function("reverse", [t, x, u, w], [ca.jtimes(ca.densify(value), symbol, w, True) for symbol in (x, u)])
    return lambda *at: [np.array(ca.densify(part)).ravel() for part in function(*at)]


def tape(problem, parts):
    """What happens along a motion, in order: (kind, (t, x, u), derivatives, cones as (values, derivatives))."""
    found = []
    for phase, part in zip(problem.phases, parts, strict=True):
        t, x, u = ca.SX.sym("t"), ca.SX.sym("x", phase.system.nx), ca.SX.sym("u", phase.system.nu)
        of, still = (t, x, u, ca.SX(0, 1)), np.zeros(phase.system.nu)
        cost, after = step(phase)(t, x, u)
        values = [c.function(*of) for c in phase.constraints if c.sense is Sense.CONE]
        cones = [(ca.Function("cone", [t, x, u], [value]), reverse(value, t, x, u)) for value in values]
        end = sum((one.expression(*of) for one in terms(phase, At.FINAL)), start=ca.SX(0))
        moves = reverse(ca.vertcat(after, cost), t, x, u)
        if phase.reset is not None:
            jump = reverse(phase.reset(x, ca.SX(0, 1)), t, x, u)
            found.append(("jump", (0.0, found[-1][1][1], still), jump, ()))
        found += [("step", (part.t[k], part.x[k], part.u[k]), moves, cones) for k in range(len(part.u))]
        found.append(("end", (part.t[-1], part.x[-1], still), reverse(end, t, x, u), ()))
    return found


def gradient(found, cost, extra=()):
    """Derivative by all controls [N, nu] of the cost, or where ``cost`` is 0 of a value: extra, (place, derivatives by x, by u)."""
    costate, rows = 0.0, []
    for k in reversed(range(len(found))):
        kind, at, moves, _ = found[k]
        if kind == "end":
            costate = costate + cost * moves(*at, 1.0)[0]
            continue
        by_x, by_u = moves(*at, np.r_[costate, cost] if kind == "step" else costate)
        for place, more_x, more_u in extra:
            if place == k:
                by_x, by_u = by_x + more_x, by_u + more_u
        costate = by_x
        if kind == "step":
            rows.append(by_u)
    return np.concatenate(rows[::-1])


def test_the_optimum_within_cones_is_stationary():
    loaded = shipped(ROOT / "problems" / "anymal_trot_cones.yaml")
    solution = solve(loaded.problem, "ilqr", loaded.options_for("ilqr"))
    assert solution.ok, (solution.status, solution.certificate.failures)
    assert solution.status is Status.CONVERGED
    found = tape(loaded.problem, solution.parts)
    pull, active, inside = gradient(found, 1.0), [], 0
    for k, (_, at, _, cones) in enumerate(found):
        for value, by in cones:
            c = np.array(value(*at)).ravel()
            left = c[0] - np.hypot(*c[1:])
            assert left > -1e-4  # N, of feet that carry 75 N each
            inside += left > ACTIVE
            if left < ACTIVE:
                active.append(gradient(found, 0.0, [(k, *by(*at, np.r_[1.0, -c[1:] / np.hypot(*c[1:])]))]))
    assert len(active) > 3
    assert inside > 100
    weights, *_ = np.linalg.lstsq(np.array(active).T, pull, rcond=None)
    assert np.linalg.norm(pull) > 0.1  # without cones it would not be an optimum
    np.testing.assert_allclose(np.array(active).T @ weights, pull, atol=1e-5 * np.linalg.norm(pull))
    assert weights.min() > -1e-6 * weights.max()  # cones hold the motion back, and never push it
