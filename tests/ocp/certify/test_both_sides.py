"""Every check looks at both sides of what it judges, and at every part: one wrong side alone is enough to be named."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import control_problems as known
import direct_problems as direct
import numpy as np
import pytest
import scipy.sparse as sp
from control_problems import function
from uncertified import by_collocation

from ocp.certify import certify, curvature, dynamics
from ocp.certify.motion import Motion
from ocp.methods import solve
from ocp.nlp.local import Local, Owners
from ocp.problem import INF, At, Boundary, Constraint, Cost, Guess, Kind, Sense, Trajectory
from ocp.transcription import collocation

MESH = {"scheme": "gauss", "intervals": 10, "degree": 3}


def certificate(solution, **changes):
    return certify(replace(solution, **changes)).certificate


def violated(solution, **changes):
    return {v.label for v in certificate(solution, **changes).violations if not v.holds}


@pytest.fixture(scope="module")
def block():
    return solve(known.block_move(), "collocation", MESH)


@pytest.fixture(scope="module")
def bounce():
    return solve(direct.bouncing_ball(), "collocation", MESH)


# ---- bounds, ends, durations, parameters ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("side", ["lower", "upper"])
@pytest.mark.parametrize(("kind", "name"), [("x", "bound v"), ("u", "bound u")])
def test_bounds_are_looked_at_from_either_side(block, side, kind, name):
    phase = block.problem.phase
    names = {"x": phase.system.space.names, "u": phase.system.controls}[kind]
    values, at = {"x": block.trajectory.x, "u": block.trajectory.u}[kind], names.index(name.removeprefix("bound "))
    inside = 0.5 * (values[:, at].min() + values[:, at].max())
    limits = [INF if side == "upper" else -INF] * len(names)
    limits[at] = inside
    assert violated(block, problem=known.problem(replace(phase, **{f"{kind}_{side}": tuple(limits)}))) == {name}


@pytest.mark.parametrize(("side", "factor"), [("lower", 1.01), ("upper", 0.99)])
def test_durations_are_looked_at_from_either_side(bounce, side, factor):
    assert bounce.ok
    phase = bounce.problem.phases[1]
    own = bounce.parts[1].t[-1] - bounce.parts[1].t[0]
    tight = direct.with_phase(bounce.problem, 1, duration=replace(phase.duration, **{side: factor * own, "guess": factor * own}))
    assert violated(bounce, problem=tight) == {f"{phase.name}: duration"}


@pytest.mark.parametrize(("low", "high"), [(0.6, 2.0), (0.0, 0.4)])
def test_parameters_are_looked_at_from_either_side(block, low, high):
    system = replace(block.problem.phase.system, parameters=("k",), parameter_values=(0.5,), rate=function(
        2, 1, lambda t, x, u, p: ca.vertcat(x[1], u[0]), 1))
    phase = replace(block.problem.phase, system=system)
    changed = replace(phase, costs=(Cost("effort", At.PATH, function(2, 1, lambda t, x, u, p: u[0] ** 2, 1)),))
    object.__setattr__(changed, "free_parameters", ((0, low, high),))  # a phase itself refuses such a value
    assert violated(block, problem=known.problem(changed), optimality=None) == {"bound k"}


@pytest.mark.parametrize(("values", "outside"), [([1.0, 0.6, 0.8], 0.0), ([0.9, 0.6, 0.8], 0.1), ([-2.0, 0.0, 0.0], 2.0),
                                                 ([2.0, -0.6, -0.8], 0.0)])
def test_cones_are_left_where_their_axis_is_too_short(values, outside):
    cone = Constraint("cone", At.PATH, function(2, 1, lambda t, x, u, p: ca.vertcat(1, 1, 1)), (), (), Sense.CONE)
    np.testing.assert_allclose(np.maximum(0.0, cone.excess(np.array([values]))), [[outside]], atol=1e-15)


# ---- numbers that are none ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("which", [0, 1])
def test_a_phase_without_numbers_is_not_hidden_by_the_other(bounce, which):
    parts = list(bounce.parts)
    parts[which] = replace(parts[which], x=np.full_like(parts[which].x, np.nan))
    found = certificate(bounce, parts=tuple(parts))
    assert np.isnan(found.gap_segment.value)
    assert np.isnan(found.gap_total.value)
    assert np.isnan(found.error_estimate.value)
    assert not found.holds


# ---- what kind of point -------------------------------------------------------------------------------------------------
def test_a_saddle_that_nobody_left_is_none_the_less_named():
    """x' = u, u^2 - 20 x^2 over [0, 1] from x = 0 to x = 0: the motion that stays is a saddle (conjugate point: pi / sqrt 20)."""
    system = known.flat_system("point", ("x",), ("u",), lambda t, x, u, p: u[0])
    phase = replace(known.block_move().phase, system=system, start=Boundary((0.0,), (True,)), final=Boundary((0.0,), (True,)),
                    x_lower=(-INF,), x_upper=(INF,), u_lower=(-INF,), u_upper=(INF,), constraints=(),
                    guess=Guess(np.array([0.0, 1.0]), np.zeros((2, 1)), np.zeros((2, 1))))
    for weight, kind in ((20.0, Kind.SADDLE), (5.0, Kind.STRICT_MINIMUM)):
        cost = Cost("c", At.PATH, function(1, 1, lambda t, x, u, p, weight=weight: u[0] ** 2 - weight * x[0] ** 2))
        found = certify(by_collocation(known.problem(replace(phase, costs=(cost,))), collocation.CollocationOptions(**MESH)))
        assert found.certificate.second_order.kind is kind
        assert found.certificate.second_order.holds is (kind is not Kind.SADDLE)
        assert found.certificate.holds is (kind is not Kind.SADDLE)
        assert (found.escape is None) is (kind is not Kind.SADDLE)


def test_a_point_above_its_optimum_is_seen_where_the_gradient_is_small(block):
    """The cost is the distance from the optimal control and vanishes there; a motion 9e-5 of the way to another one has a slope
    below the tolerance and yet lies 2e-4 of the size of the objective above."""
    def with_cost(expression):
        return known.problem(replace(block.problem.phase, costs=(Cost("c", At.PATH, function(2, 1, expression)),)))

    options = collocation.CollocationOptions(**MESH)
    best = by_collocation(with_cost(lambda t, x, u, p: (u[0] - 6 + 12 * t) ** 2), options)
    other = by_collocation(with_cost(lambda t, x, u, p: u[0] ** 2 + 4000 * (x[0] - 0.3) ** 2), options)
    assert certify(best).certificate.holds
    seen, costs = [], []
    for part in (2e-5, 9e-5):
        x = best.optimality.x + part * (other.optimality.x - best.optimality.x)
        left = replace(best.optimality, x=x, lam_x=0 * best.optimality.lam_x, lam_g=0 * best.optimality.lam_g)
        (path,) = left.parts(x)
        costs.append(left.cost())
        seen.append(certificate(best, optimality=left, trajectory=path, objective=costs[-1]))
    assert seen[0].stationarity.holds
    assert not seen[1].stationarity.holds
    # all of it is what a Newton step gains: the cost is quadratic and ends at zero
    assert seen[1].stationarity.value == pytest.approx(costs[1] / seen[1].objective_size, rel=1e-3)


@pytest.mark.parametrize(("bend", "force", "minimum"), [(-1.0, 0.0, False), (1.0, 0.0, True), (-1.0, 1.0, True), (1.0, 1.0, True)])
def test_a_bound_that_is_met_holds_only_where_it_pushes(bend, force, minimum):
    """force (a - 1) + bend (a - 1)^2 / 2 + (b - 1)^2 / 2 at a = b = 1, a >= 1: without a force a descends where it bends down."""
    none = np.zeros(0)
    local = Local(np.ones(2), np.array([1.0, 0.0]), np.full(2, 9.0), np.array([-force, 0.0]), none, none, none, none,
                  np.array([force, 0.0]), sp.csr_matrix((0, 2)), sp.csr_matrix(np.diag([bend, 1.0])), Owners.empty(2))
    found = curvature.judge(local, [], 1.0, 1.0)
    assert found.minimum is minimum
    assert found.pushing == (1 if force else 0)
    if not minimum:
        assert found.direction[0] > 0.1
        assert found.direction[1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(("lam", "distance"), [(0.5, 3.0), (-0.5, 1.0)])
def test_complementarity_is_the_distance_to_the_bound_that_the_sign_names(lam, distance):
    """x = 1 in [0, 4]: a positive multiplier stands for the upper bound, a negative one for the lower; of rows just so."""
    for at in ("x", "g"):
        x = np.array([1.0]) if at == "x" else np.zeros(0)
        g = np.zeros(0) if at == "x" else np.array([1.0])
        low, high, force = (np.array([v]) for v in (0.0, 4.0, lam))
        none, local = np.zeros(0), None
        of_x, of_g = ((low, high, force), (none, none, none)) if at == "x" else ((none, none, none), (low, high, force))
        local = Local(x, *of_x, g, *of_g, np.zeros(len(x)), sp.csr_matrix((len(g), len(x))), sp.csr_matrix((len(x), len(x))),
                      Owners.empty(len(x)))
        assert curvature.complementarity(local, 2.0) == pytest.approx(0.5 * distance / 2.0)


def test_a_maximum_is_no_saddle():
    system = known.flat_system("point", ("x",), ("u",), lambda t, x, u, p: u[0])
    phase = replace(known.block_move().phase, system=system, start=Boundary((0.0,), (True,)), final=None, x_lower=(-INF,),
                    x_upper=(INF,), u_lower=(-1.0,), u_upper=(1.0,), constraints=(),
                    guess=Guess(np.array([0.0, 1.0]), np.zeros((2, 1)), np.zeros((2, 1))),
                    costs=(Cost("c", At.PATH, function(1, 1, lambda t, x, u, p: -u[0] ** 2)),))
    found = certify(by_collocation(known.problem(phase), collocation.CollocationOptions(**MESH))).certificate
    assert found.second_order.kind is Kind.MAXIMUM
    assert not found.holds


# ---- the dynamics -------------------------------------------------------------------------------------------------------
def bumped(path, x=0.0, u=0.0):
    return Trajectory(path.t, path.x + x * np.eye(2)[1], path.u + u, path.t_u,
                      lambda t: path.state(t), lambda t: path.control(t) + u, path.t_path)


def test_the_defect_is_that_of_the_worst_state(block):
    """Controls that are 0.3 too large: the velocity misses 0.3 over its range of 1.5, the position nothing."""
    found = certify(replace(block, trajectory=bumped(block.trajectory, u=0.3)))
    assert found.extra["certificate_segment_defect"].sum() == pytest.approx(0.3 / 1.5, rel=1e-6)


@pytest.mark.parametrize("impulse", [1.0, -0.25])
def test_a_push_of_ten_microseconds_is_integrated(block, impulse):
    def pushed(t, x, u, p):
        return ca.vertcat(x[1], u[0] + ca.if_else(ca.fabs(t - 0.5123) < 5e-6, impulse * 1e5, 0))

    phase = replace(block.problem.phase, system=replace(block.problem.phase.system, rate=function(2, 1, pushed)))
    found = certificate(block, problem=known.problem(phase))
    assert found.gap_segment.value == pytest.approx(abs(impulse) / 1.5, rel=1e-3)


def test_open_loop_gaps_are_judged_by_the_mean_growth():
    """x' = 3 x + u: all knots but the first are off by a multiple of e^(3 t), which obeys the dynamics; only the first segment has
    a gap, and it grows. Beside the mean growth from all knots before it is what a drift of the same size would leave."""
    a, off = 3.0, 1e-3
    system = known.flat_system("point", ("x",), ("u",), lambda t, x, u, p: a * x[0] + u[0])
    phase = replace(known.block_move().phase, system=system, start=None, final=None, x_lower=(-INF,), x_upper=(INF,),
                    u_lower=(-INF,), u_upper=(INF,), constraints=(), costs=(),
                    guess=Guess(np.array([0.0, 1.0]), np.zeros((2, 1)), np.zeros((2, 1))))
    t = np.linspace(0, 1, 11)
    x = np.sin(6 * t)[:, None] + off * np.exp(a * t)[:, None] * (t > 0)[:, None]

    def control(s):
        return (6 * np.cos(6 * np.asarray(s)) - a * np.sin(6 * np.asarray(s)))[..., None]

    motion = Motion(phase, Trajectory(t, x, control(t), t, lambda s: np.sin(6 * np.asarray(s))[..., None], control))
    found, size = dynamics.gaps(motion), float(motion.scale[0])
    growth = np.exp(a * t)
    expected = max(off * growth[k] / size / max(1.0, np.mean(growth[k] / growth[:k + 1])) for k in range(1, 11))
    assert found.total == pytest.approx(expected, rel=2e-2)
    assert found.open_loop == pytest.approx(off * growth[-1] / size, rel=1e-3)
    assert found.growth == pytest.approx(growth[-1], rel=1e-2)


def test_controls_have_kinks_where_their_bounds_cut_them_off():
    phase = replace(known.block_move().phase, u_lower=(-1.0,), u_upper=(1.0,), start=None, final=None)
    t = np.linspace(0, 1, 8)

    def control(s):
        return np.clip(2 * np.sin(2 * np.pi * np.asarray(s)), -1, 1)[..., None]

    motion = Motion(phase, Trajectory(t, np.zeros((8, 2)), control(t), t, lambda s: np.zeros((*np.shape(s), 2)), control))
    np.testing.assert_allclose(motion.look.breaks, np.array([1, 5, 7, 11]) / 12, atol=1e-8)
