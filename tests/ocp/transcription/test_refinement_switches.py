"""Edges that move to where controls jump: switching times in closed form and by shooting, also over several phases."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import control_problems as known
import numpy as np
import pytest
from rescaled import Units, rescaled
from scipy.integrate import solve_ivp
from scipy.optimize import minimize_scalar, root
from uncertified import by_collocation

from ocp.certify import certify
from ocp.problem import At, Boundary, Constraint, Cost, Duration, Kind, Phase, Problem, Status
from ocp.transcription.collocation import CollocationOptions
from ocp.transcription.mesh import uniform_mesh
from ocp.transcription.refine.arcs import Jump, arcs_of, cut_into
from ocp.transcription.refine.plan import Plan, read_plans, uniform_plan
from ocp.transcription.refine.switches import switches, with_edges
from ocp.transcription.schemes import make_scheme


def jumps(found, names=("only",)):
    """Times of the edges that the final mesh marks, phase by phase."""
    parts = found.parts or (found.trajectory,)
    plans = read_plans(str(found.extra["refinement_mesh"][0]), names, "gauss", "mesh")
    return [part.t[0] + (part.t[-1] - part.t[0]) * plan.edges[k] for part, plan in zip(parts, plans, strict=True)
            for k in sorted(plan.jumps)]


def block(v0=0.0):
    """A unit mass with |u| <= 1 from (0, v0) to rest at 1 in the least time: switch at sqrt(1 + v0^2/2) - v0."""
    problem = known.bang_bang().phase
    return known.problem(replace(problem, start=known.fixed(0, v0)))


@pytest.mark.parametrize("options", [{"scheme": "gauss", "refine": "hp"}, {"scheme": "radau", "refine": "hp"},
                                     {"scheme": "lobatto", "refine": "hp"}, {"scheme": "hermite_simpson", "refine": "h"},
                                     {"scheme": "trapezoid", "refine": "h"}])
@pytest.mark.parametrize("v0", [0.0, 0.3])
@pytest.mark.sample(3)
def test_block_in_the_least_time(options, v0):
    found = by_collocation(block(v0), CollocationOptions(intervals=11, tolerance=1e-11, **options))
    assert found.status is Status.CONVERGED
    top = np.sqrt(1 + v0**2 / 2)
    assert found.objective == pytest.approx(2 * top - v0, abs=1e-9)
    assert jumps(found) == pytest.approx([top - v0], abs=1e-6)
    assert certify(found).certificate.holds
    assert len(found.extra["refinement"]) <= 3


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_a_switch_is_one_in_any_unit(size):
    """Metres and newtons of another size; the second is the same."""
    found = by_collocation(rescaled(block(0.3), Units(plain=size)), CollocationOptions(scheme="gauss", refine="hp", intervals=11))
    top = np.sqrt(1 + 0.3**2 / 2)
    assert found.objective == pytest.approx(2 * top - 0.3, abs=1e-8)
    assert jumps(found) == pytest.approx([top - 0.3], abs=1e-6)
    assert len(found.extra["refinement"]) <= 3


@pytest.mark.parametrize("options", [{"scheme": "gauss", "refine": "hp"}, {"scheme": "radau", "refine": "hp"},
                                     {"scheme": "hermite_simpson", "refine": "h"}])
@pytest.mark.parametrize("v0", [0.1, 0.3])
def test_held_controls_switch_at_a_knot_that_moves(options, v0):
    """Bang-bang motion is of degree 2: with the knot at the switch held controls give the optimum exactly, and nowhere else."""
    fixed = by_collocation(block(v0), CollocationOptions(intervals=11, tolerance=1e-11, controls="held", switches=False, **options))
    found = by_collocation(block(v0), CollocationOptions(intervals=11, tolerance=1e-11, controls="held", **options))
    top = np.sqrt(1 + v0**2 / 2)
    assert found.status is Status.CONVERGED
    assert jumps(found) == pytest.approx([top - v0], abs=1e-9)
    assert found.objective == pytest.approx(2 * top - v0, abs=1e-10)
    assert fixed.objective > 2 * top - v0 + 1e-4
    again = by_collocation(block(v0), CollocationOptions(**found.freeze))
    assert again.objective == pytest.approx(found.objective, abs=1e-10)


def test_linear_controls_say_where_they_would_jump():
    found = by_collocation(block(0.3), CollocationOptions(scheme="gauss", refine="hp", intervals=11, controls="linear"))
    told = [one for one in found.findings if one.kind is Kind.LINEAR_CONTROLS_WOULD_JUMP]
    assert len(told) == 1
    assert told[0].data["times"] == pytest.approx([np.sqrt(1.045) - 0.3], abs=0.1)
    options = {"scheme": "gauss", "refine": "hp", "intervals": 20, "controls": "linear", "max_passes": 2}
    smooth = by_collocation(known.cart_pole(), CollocationOptions(**options))
    assert all(one.kind is not Kind.LINEAR_CONTROLS_WOULD_JUMP for one in smooth.findings)


def test_without_switches_edges_only_close_in():
    found = by_collocation(block(0.3), CollocationOptions(scheme="gauss", intervals=11, refine="hp", switches=False, max_passes=4))
    assert found.objective == pytest.approx(2 * np.sqrt(1.045) - 0.3, abs=1e-4)
    assert not jumps(found)


def test_frozen_mesh_with_switches_gives_the_same_answer_in_one_pass():
    found = by_collocation(block(0.3), CollocationOptions(intervals=11, refine="h", tolerance=1e-11))
    again = by_collocation(block(0.3), CollocationOptions(mesh=str(found.extra["refinement_mesh"][0]), tolerance=1e-11))
    assert again.objective == pytest.approx(found.objective, abs=1e-10)
    np.testing.assert_allclose(again.trajectory.t_u, found.trajectory.t_u, rtol=1e-10)


def pendulum_by_shooting():
    """(T, switches) of the swing-up below: three arcs of torque -1/2, 1/2, -1/2, the first length chosen for the least time."""
    def end(lengths):
        x = np.zeros(2)
        for u, length in zip((-0.5, 0.5, -0.5), lengths, strict=True):
            run = solve_ivp(lambda s, y, u=u: [y[1], u - np.sin(y[0])], (0, length), x, method="DOP853", rtol=1e-11, atol=1e-12)
            x = run.y[:, -1]
        return x - [np.pi, 0]

    def total(a):
        rest = root(lambda rest: end((a, *rest)), (3.96, 1.26), tol=1e-11)
        assert rest.success
        return a + sum(rest.x), rest.x

    a = minimize_scalar(lambda a: total(a)[0], bounds=(2.36, 2.385), method="bounded", options={"xatol": 1e-5}).x
    T, rest = total(a)
    return T, [a, a + rest[0]]


def test_pendulum_in_the_least_time():
    system = known.flat_system("pendulum", ("a", "w"), ("u",), lambda t, x, u, p: ca.vertcat(x[1], u[0] - ca.sin(x[0])))
    problem = known.problem(Phase("swing-up", system, Duration(1.0, 20.0, 8.0), known.line([0, 0], [np.pi, 0], 1),
                                  known.fixed(0, 0), known.fixed(np.pi, 0), u_lower=(-0.5,), u_upper=(0.5,),
                                  costs=(known.minimum_time(2),)))
    found = by_collocation(problem, CollocationOptions(scheme="gauss", intervals=20, refine="hp"))
    T, places = pendulum_by_shooting()
    assert found.status is Status.CONVERGED
    assert found.objective == pytest.approx(T, abs=1e-6)
    assert jumps(found) == pytest.approx(places, abs=2e-3)  # the least time is flat in them


def test_several_phases_whose_lengths_add_up():
    """A block of two phases of a given total length: at rest half-way to 1/4, then on to 1; bang-bang in both, and the time saved
    is kept for the end: phase one lasts 1 s, phase two 2 sqrt(3/4) s."""
    system = known.bang_bang().phase.system
    one = Phase("one", system, Duration(0.1, 10.0, 1.5), known.line([0, 0], [0.25, 0], 1), known.fixed(0, 0), known.fixed(0.25, 0),
                u_lower=(-1.0,), u_upper=(1.0,))
    two = Phase("two", system, Duration(0.1, 10.0, 1.5), known.line([0.25, 0], [1, 0], 1), None, known.fixed(1, 0),
                u_lower=(-1.0,), u_upper=(1.0,), costs=(known.minimum_time(2),))
    both = Problem("both", (one, two))
    found = by_collocation(both, CollocationOptions(scheme="gauss", intervals=7, refine="hp", tolerance=1e-11))
    assert found.status is Status.CONVERGED
    later = 2 * np.sqrt(0.75)
    assert found.objective == pytest.approx(1 + later, abs=1e-8)
    assert jumps(found, ("one", "two")) == pytest.approx([0.5, 1 + later / 2], abs=1e-6)
    assert certify(found).certificate.holds


def test_a_fixed_duration_is_kept_and_fuel_is_least():
    """Least int |u| in two jets u1, u2 >= 0 with u1 + u2 <= 1 over unit distance in 3 s: push, coast, brake;
    arcs of length (3 - sqrt 5)/2."""
    system = known.flat_system("sled", ("x", "v"), ("u1", "u2"), lambda t, x, u, p: ca.vertcat(x[1], u[0] - u[1]))
    fuel = Cost("fuel", At.PATH, known.function(2, 2, lambda t, x, u, p: u[0] + u[1]))
    pair = Constraint("pair", At.PATH, known.function(2, 2, lambda t, x, u, p: u[0] + u[1]), (-np.inf,), (1.0,))
    problem = known.problem(Phase("sled", system, Duration(3.0, 3.0, 3.0), known.line([0, 0], [1, 0], 2), known.fixed(0, 0),
                                  known.fixed(1, 0), u_lower=(0.0, 0.0), costs=(fuel,), constraints=(pair,)))
    found = by_collocation(problem, CollocationOptions(scheme="gauss", intervals=15, refine="hp", tolerance=1e-11))
    arc = (3 - np.sqrt(5)) / 2
    assert found.status is Status.CONVERGED
    assert found.trajectory.t[-1] == 3.0
    assert found.objective == pytest.approx(2 * arc, abs=1e-8)
    assert jumps(found) == pytest.approx([arc, 3 - arc], abs=1e-5)


def test_smooth_controls_have_no_switches():
    problem = known.cart_pole()
    found = by_collocation(problem, CollocationOptions(scheme="gauss", intervals=20))
    mesh = uniform_mesh(make_scheme("gauss"), 20)
    assert switches(problem.phase, found.trajectory, mesh, uniform_plan(20, 3)) == []


def test_first_guess_of_a_switch_keeps_the_impulse():
    """Eleven intervals put the switch of the block inside one of them; its first guess is far better than half of that."""
    for v0 in (0.1, 0.2, 0.3):
        found = by_collocation(block(v0), CollocationOptions(scheme="gauss", intervals=11))
        seen = switches(block(v0).phase, found.trajectory, uniform_mesh(make_scheme("gauss"), 11), uniform_plan(11, 3))
        T = found.trajectory.t[-1]
        assert [jump.fraction * T for jump in seen] == pytest.approx([np.sqrt(1 + v0**2 / 2) - v0], abs=0.1 * T / 11)


def test_arcs_last_as_long_as_their_phase_may():
    """Cut at 0.5 and 0.8, a phase of 2 s: arcs of 1, 0.6 and 0.4 s whose sum is held at 2 s; the ends keep what holds there."""
    phase = replace(known.block_move(2.0).phase, costs=(*known.block_move().phase.costs, known.minimum_time(2)))
    problem = known.problem(phase)
    found = by_collocation(problem, CollocationOptions(intervals=4))
    plan = Plan((0.0, 0.5, 0.8, 1.0), (3, 3, 3), frozenset({1, 2}))
    cut = cut_into(problem, found, (found.trajectory,), [arcs_of(plan)], [[]])
    assert [arc.duration.guess for arc in cut.phases] == pytest.approx([1.0, 0.6, 0.4])
    total = cut.linkages[0]
    assert float(total.function(np.zeros(2), [1.0, 0.6, 0.3], [])) == pytest.approx(1.9)
    assert total.lower == total.upper == (2.0,)
    assert [(arc.start is None, arc.final is None, len(arc.costs)) for arc in cut.phases] == [
        (False, True, 1), (True, True, 1), (True, False, 2)]


def test_edges_within_a_jump_give_way():
    plan = Plan((0.0, 0.25, 0.5, 0.75, 1.0), (3, 4, 5, 6))
    cut = Plan((0.0, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75, 1.0), (3, 4, 4, 4, 5, 5, 6))
    new = with_edges(plan, cut, [Jump(0.35, 0.28, 0.45)])
    assert new.edges == (0.0, 0.25, 0.35, 0.5, 0.6, 0.75, 1.0)
    assert new.jumps == {2}
    near = with_edges(plan, plan, [Jump(0.51, 0.45, 0.55)])
    assert near.edges == (0.0, 0.25, 0.51, 0.75, 1.0)
    assert with_edges(replace(plan, jumps=frozenset({1})), plan, []).jumps == frozenset()


def test_full_push_to_a_free_speed_has_no_switch():
    """From (0, 1/2) to the place 1 at any speed: full push, t = sqrt(1/4 + 2) - 1/2."""
    phase = replace(known.bang_bang().phase, start=known.fixed(0, 0.5), final=Boundary((1.0, 0.0), (True, False)))
    found = by_collocation(known.problem(phase), CollocationOptions(scheme="gauss", intervals=6, refine="hp"))
    assert found.objective == pytest.approx(1.0, abs=1e-7)
    assert jumps(found) == []
