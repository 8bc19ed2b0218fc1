"""Mechanisms in residual form against their forward dynamics, Lagrange's multipliers and the Baumgarte terms by other roads."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from repository import ROOT

from dynamics import algorithms as alg
from dynamics.constraints import Closure, Coupling, Rod
from dynamics.forces import Place, Spring
from dynamics.mechanism import Mechanism, direct_motors
from dynamics.model.urdf import read_urdf
from ocp.app.files.load import load_problem, load_text
from ocp.bridge import residual_dynamics_system, robot_system
from ocp.errors import ProblemError
from ocp.problem import Duration, Guess, Phase, Problem
from ocp.reductions.algebraic_elimination import explicit_system
from ocp.reductions.algebraic_equations import state_equations

MODELS = ROOT / "problems" / "models"


def four_bar():
    model = read_urdf(MODELS / "four_bar.urdf")
    spring = Spring("band", (Place("world", (0.25, 0.0, 0.8)), Place("coupler", (0.25, 0.0, 0.0))), 20.0, 0.5, 0.3)
    return Mechanism(model, direct_motors(model, ["crank"]), forces=(spring,),
                     constraints=(Closure("pin", "end", "tip", "revolute", (0.0, 1.0, 0.0)),))


def quadruped():
    """A floating base with branches, a rod between two feet and two coupled joints."""
    model = read_urdf(MODELS / "quadruped.urdf", root="free_flyer")
    joints = [n for n in model.velocity_names if n in model.coordinate_names]
    feet = [body.name for i, body in enumerate(model.bodies) if not any(other.parent == i for other in model.bodies)]
    return Mechanism(model, direct_motors(model, joints), constraints=(
        Rod("rod", Place(feet[0]), Place(feet[1]), 0.5), Coupling("belt", ((joints[0], 1.0), (joints[4], -2.0)))))


def explicit(system, x, z):
    """The system with its unknowns eliminated, Newton beginning at z."""
    u = np.concatenate([np.zeros(len(system.controls)), z])
    phase = Phase("p", system, Duration(1, 1, 1), Guess(np.array([0.0, 1.0]), np.tile(x, (2, 1)), np.tile(u, (2, 1))))
    return explicit_system(state_equations(Problem("p", (phase,))).phase)


def states(mechanism, count):
    rng, model = np.random.default_rng(1), mechanism.model
    for _ in range(count):
        q = np.asarray(alg.integrate(model, ca.DM(alg.neutral(model)), ca.DM(0.5 * rng.normal(size=model.nv)))).ravel()
        yield np.concatenate([q, rng.normal(size=model.nv)]), rng.normal(size=mechanism.nu)


@pytest.mark.parametrize(("make", "off"), [(four_bar, 1e-6), (quadruped, 1e-9)], ids=["four-bar, redundant rows", "quadruped"])
def test_the_eliminated_residual_is_forward_dynamics(make, off):
    mechanism = make()
    system, forward = residual_dynamics_system(mechanism), robot_system(mechanism)
    model, count = mechanism.model, mechanism.nu
    points = list(states(mechanism, 3))
    same = explicit(system, points[0][0], np.zeros(len(system.algebraic)))
    for x, u in points:
        mine, theirs = (np.asarray(one.rate(0, x, u, [])).ravel() for one in (same, forward))
        assert mine == pytest.approx(theirs, rel=off, abs=off * np.abs(theirs).max())
        # a and lambda of the mechanism's own equations leave nothing of the residual
        a, multipliers = (np.asarray(ca.evalf(part)).ravel() for part in mechanism.constrained_dynamics(
            ca.DM(x[:model.nq]), ca.DM(x[model.nq:]), ca.DM(u)))
        left = np.asarray(system.residual(0, x, np.concatenate([u, a, multipliers]), [])).ravel()
        assert np.abs(left).max() < 30 * off * (1 + np.abs(multipliers).max())
    assert system.inputs[:count] == mechanism.controls
    assert system.algebraic[0] == f"a.{model.velocity_names[0]}"
    assert len(system.equations) == len(system.algebraic) == len(system.inputs) - count


def test_multipliers_of_redundant_rows_are_the_smallest():
    mechanism = four_bar()
    system, model = residual_dynamics_system(mechanism), mechanism.model
    slope = ca.Function("slope", system.residual.sx_in(), [ca.jacobian(system.residual(*system.residual.sx_in()),
                                                                       system.residual.sx_in()[2])])
    for x, u in states(mechanism, 3):
        w = np.concatenate([u, np.zeros(len(system.algebraic))])
        J = np.asarray(slope(0, x, w, []))[:, len(u):]
        z = np.linalg.solve(J, -np.asarray(system.residual(0, x, w, [])).ravel())
        rows = -J[:model.nv, model.nv:].T
        smallest = np.linalg.lstsq(rows.T, rows.T @ z[model.nv:], rcond=1e-9)[0]
        assert np.linalg.matrix_rank(rows, tol=1e-9) == 2
        assert z[model.nv:] == pytest.approx(smallest, abs=1e-6 * np.abs(smallest).max())


def test_energy_and_limits_are_those_of_the_forward_system():
    mechanism = quadruped()
    system, forward = residual_dynamics_system(mechanism, parameters={"k": 1.0}), robot_system(mechanism, parameters={"k": 1.0})
    assert system.x_limits == forward.x_limits
    assert system.u_limits[:mechanism.nu] == forward.u_limits
    assert set(system.u_limits[mechanism.nu:]) == {(-np.inf, np.inf)}
    x, u = next(states(mechanism, 1))
    w = np.concatenate([u, np.full(len(system.algebraic), 7.0)])
    for mine, theirs in ((system.energy, forward.energy), (system.power, forward.power)):
        assert float(mine(0, x, w, [1.0])) == pytest.approx(float(theirs(0, x, u, [1.0])))


def test_rows_that_never_move_are_no_system():
    """Two motors' worth of rows on one joint, contradicting each other for good: singular without softness, and soft with it."""
    mechanism = four_bar()
    hard = replace(mechanism, constraints=(Coupling("one", (("crank", 1.0),)), Coupling("two", (("crank", 2.0),))))
    system = residual_dynamics_system(hard)
    x, _ = next(states(hard, 1))
    assert np.all(np.isfinite(np.asarray(explicit(system, x, np.zeros(len(system.algebraic))).rate(0, x, [0.3], []))))


FILE = (ROOT / "problems" / "four_bar_residual.yaml").read_text(encoding="utf-8")


def test_files_choose_the_form_and_name_what_it_has():
    text = FILE.replace('costs: [{name: effort, running: "crank**2"}]',
                        'costs: [{name: effort, running: "crank**2 + 1e-3*a[\'rocker\']**2"}]\n'
                        '  constraints: [{name: pin force, expression: "multiplier[\'pin[0]\']", lower: -40, upper: 40}]\n'
                        '  bounds: {accelerations: {crank: [-60, 60]}}')
    phase = load_text(text, ROOT / "problems").problem.phase
    system, rng = phase.system, np.random.default_rng(0)
    x, w = rng.normal(size=system.nx), rng.normal(size=system.nu)
    assert float(phase.costs[0].function(0, x, w, [])) == pytest.approx(w[0] ** 2 + 1e-3 * w[system.inputs.index("a.rocker")] ** 2)
    limit = next(c for c in phase.constraints if c.name == "pin force")
    assert float(limit.function(0, x, w, [])) == pytest.approx(w[system.inputs.index("pin[0]")])
    at = system.inputs.index("a.crank")
    assert (phase.u_lower[at], phase.u_upper[at]) == (-60, 60)
    assert system.units["a.crank"] == "rad/s^2"


def test_limits_of_the_form_are_reported():
    with pytest.raises(ProblemError, match="multiplier has no entry"):
        load_text(FILE.replace('"crank**2"', '"multiplier[\'pim[0]\']**2"'), ROOT / "problems")
    plain = (ROOT / "problems" / "four_bar.yaml").read_text(encoding="utf-8")
    with pytest.raises(ProblemError, match="multiplier"):
        load_text(plain.replace('"crank**2"', '"multiplier[\'pin[0]\']**2"'), ROOT / "problems")


@pytest.mark.slow
def test_both_forms_of_the_linkage_have_one_optimum():
    from ocp.methods import solve

    residual, forward = (load_problem(ROOT / "problems" / f"{name}.yaml").problem for name in ("four_bar_residual", "four_bar"))
    options = {"scheme": "radau", "degree": 3, "intervals": 40}
    mine, theirs = (solve(problem, "collocation", options) for problem in (residual, forward))
    assert mine.objective == pytest.approx(theirs.objective, rel=1e-6)
    t = np.linspace(0.05, 0.95, 10)
    assert mine.trajectory.state(t) == pytest.approx(theirs.trajectory.state(t), abs=1e-4)
    # the unknowns that were solved for are the pin's forces
    mechanism = forward.phase.system.mechanism
    k = 55
    x, u = mine.trajectory.state(mine.trajectory.t_u[k]), mine.trajectory.u[k]
    nq = mechanism.model.nq
    a, multipliers = mechanism.constrained_dynamics(ca.DM(x[:nq]), ca.DM(x[nq:]), ca.DM(u[:1]))
    assert u[1:4] == pytest.approx(np.asarray(ca.evalf(a)).ravel(), rel=1e-6, abs=1e-6)
    assert u[4:] == pytest.approx(np.asarray(ca.evalf(multipliers)).ravel(), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("states", ["coordinates", pytest.param("tangent", marks=pytest.mark.slow)])
def test_a_floating_base_is_solved_and_judged_as_in_forward_form(states):
    from ocp.methods import solve

    found = []
    for form in ("forward_dynamics", "residual"):
        loaded = load_problem(ROOT / "problems" / "quadrotor.yaml", {"system.formulation": form})
        found.append(solve(loaded.problem, "collocation", {"scheme": "radau", "degree": 3, "intervals": 20, "states": states}))
    forward, residual = found
    assert residual.ok, residual.certificate.failures
    assert residual.objective == pytest.approx(forward.objective, rel=1e-8)
    # states that stand still are measured by what they do, though accelerations are unknowns
    assert residual.certificate.gap_total.value == pytest.approx(forward.certificate.gap_total.value, rel=1e-2)
    assert residual.certificate.objective_size == pytest.approx(forward.certificate.objective_size, rel=1e-3)
