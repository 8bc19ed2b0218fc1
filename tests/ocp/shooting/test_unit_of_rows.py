"""The units of rows: constraints in other units make the same iterations, to the bit where the factor is a power of 1024."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from constrained_problems import planar_cone, start_guess, three_obstacles, with_guess
from rescaled import Units, rescaled

import ocp
from ocp.problem import At, Constraint, Kind, Sense, Status
from ocp.shooting.ilqr import ILQROptions, prepare, run, solve
from ocp.shooting.options import Tuning


def given(build, ratio=1.0):
    c = build()
    return rescaled(with_guess(c.problem, start_guess(c, 0, "still")), Units(rows=ratio)), ILQROptions(**c.options,
                                                                                                      kernels="interpreted")


@pytest.mark.parametrize("more", [{}, {"tuning": Tuning(polish="newton")}, {"shooting": "multiple"}],
                         ids=lambda o: "-".join(o) or "default")
@pytest.mark.parametrize("ratio", [2.0**20, 2.0**-20])
@pytest.mark.parametrize("build", [planar_cone, three_obstacles])
@pytest.mark.sample(3)
def test_iterations_are_those_of_the_same_rows_in_other_units(build, ratio, more):
    (problem, options), (twin, _) = given(build), given(build, ratio)
    options = replace(options, max_iterations=40, **more)
    first, second = solve(problem, options), solve(twin, options)
    assert first.status is second.status
    assert len(first.iterations) == len(second.iterations) > 5
    for a, b in zip(first.iterations, second.iterations, strict=True):
        assert {**a, "seconds": 0} == pytest.approx({**b, "seconds": 0}, rel=0, abs=0, nan_ok=True)
    np.testing.assert_array_equal(first.trajectory.u, second.trajectory.u)
    np.testing.assert_array_equal(first.extra["multipliers_path"], ratio * second.extra["multipliers_path"])
    np.testing.assert_array_equal(first.extra["multipliers_final"][-3:], second.extra["multipliers_final"][-3:])  # of the goal
    assert np.abs(first.extra["multipliers_path"]).max() > 1e-3


@pytest.mark.parametrize("ratio", [1e7, 1e-7])
def test_the_answer_is_the_same_by_any_factor(ratio):
    (problem, options), (twin, _) = given(planar_cone), given(planar_cone, ratio)
    first, second = solve(problem, options), solve(twin, options)
    assert first.status is second.status is Status.CONVERGED
    assert second.objective == pytest.approx(first.objective, rel=1e-6)
    np.testing.assert_allclose(second.trajectory.u, first.trajectory.u, atol=1e-4)


def test_messages_speak_in_the_units_of_the_file():
    """A thrust beyond its bounds: what is missed is said in the unit of the file, whatever the row is measured in."""
    missed = []
    for ratio in (1.0, 2.0**20):
        problem, options = given(planar_cone)
        t, x, u, p = (ca.SX.sym(name, size) for name, size in (("t", 1), ("x", 4), ("u", 2), ("p", 0)))
        held = Constraint("held", At.PATH, ca.Function("held", [t, x, u, p], [ratio * (u[0] - 5)]), (0.0,), (0.0,), Sense.EQUAL)
        impossible = replace(problem, phases=(replace(
            problem.phase, constraints=(held,), final=None, u_lower=(-2.0, -2.0), u_upper=(2.0, 2.0)),))
        found = solve(impossible, replace(options, tuning=Tuning(retry="never")))
        assert found.status is Status.INFEASIBLE, found.ending
        assert found.ending.kind is Kind.VIOLATION_STAYS
        assert "held" in found.ending.name
        missed.append(found.ending.value)
    assert missed == pytest.approx([3.0, 3 * 2.0**20], rel=1e-2)


def test_ordinary_rows_are_measured_as_they_are_written():
    problem, options = given(three_obstacles)
    assert all((stage.rows.unit == 1.0).all() for stage in prepare(problem, options).horizon.kinds)


def test_wide_bounds_on_speeds_loosen_no_end():
    """A block moved by 0.2 m, whose speed may reach 50 m/s and does reach 0.3: its end is held to the tolerance of rows as they are
    written. Least effort is 12 d^2 / T^3."""
    p = ocp.Problem("Block", duration=1.0)
    x, v, u = p.state("x", "m"), p.state("v", "m/s"), p.control("u", "N")
    p.dynamics({x: v, v: u})
    p.start(x=0, v=0)
    p.final(x=0.2, v=0)
    p.bounds({x: (-1, 1), v: (-50, 50)})
    p.cost(u**2)
    problem, options = p.load().problem, ILQROptions(kernels="interpreted")
    program = prepare(problem, options)
    assert all((stage.rows.unit == 1.0).all() for stage in program.horizon.kinds)
    found = run(program)
    assert found.objective == pytest.approx(12 * 0.2**2, rel=1e-3)
    assert np.abs(found.trajectory.x[-1] - [0.2, 0.0]).max() <= options.constraint_tolerance
