"""Symplectic Euler of a robot in closed form, as one scalar graph, against the same step differentiated algorithmically."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from engine_paths import blocks, on_path
from loop_references import coupled_tree
from shooting_problems import coupled, function, quadrotor

from dynamics import algorithms as alg
from dynamics.constraints import PointContact
from dynamics.mechanism import Mechanism, Thruster, direct_motors
from dynamics.model.synthetic import random_tree, serial_chain
from dynamics.model.urdf import read_urdf
from ocp.app.sentences import sentence
from ocp.bridge import inverse_dynamics_system, robot_system
from ocp.integrators import sampled
from ocp.problem import At, Boundary, Cost, Duration, Guess, Kind, Phase, Problem, Status
from ocp.shooting.ilqr import ILQROptions, prepare, solve
from ocp.shooting.options import Tuning
from ocp.shooting.stages import expressions, single, symplectic
from ocp.shooting.stages.horizon import build

CLOSED = ILQROptions(intervals=4, integrator="semi_implicit_euler", kernels="interpreted", hessian="gauss_newton")
AD = replace(CLOSED, derivatives="ad")


def tree(seed, *kinds, root=None, bodies=3, branching=0.7):
    return random_tree(bodies, np.random.default_rng(seed), kinds=kinds, root=root, branching=branching, damping=True)


def pushed(model, bodies):
    """Thrusters on some bodies, two of them on the last."""
    frames = [model.frames[i].name for i in bodies]
    return [Thruster(f"jet{k}", frame, (0.3, 0.6, 0.8 + k), 0.2 * k) for k, frame in enumerate([*frames, frames[-1]])]


def on_contacts(seed):
    """A floating tree on two of its points, with gains of either kind."""
    model = tree(seed, "revolute", "prismatic", root="free_flyer", branching=1.0)
    contacts = (PointContact(f"foot{i}", model.frames[i].name, ((0.1, 0.2 * i, -0.3),), gains=gains)
                for i, gains in ((-1, (0.0, 20.0)), (-3, (50.0, 5.0))))
    mechanism = Mechanism(model, direct_motors(model, every_other(model)), constraints=tuple(contacts))
    return replace(robot_system(mechanism), constraints=())  # from a start where nothing touches


def every_other(model):
    return [b.joint.name for b in model.bodies if b.joint.mimic is None and b.joint.kind not in ("fixed", "free_flyer")][::-2]


SYSTEMS = {
    "flat": lambda: robot_system(tree(1, "revolute", "prismatic", "universal", "continuous", "fixed")),
    "free root": lambda: robot_system(m := tree(2, "revolute", "spherical", root="free_flyer"), actuated=every_other(m)),
    "curved": lambda: robot_system(m := tree(3, "planar", "spherical", "revolute", "free_flyer", root="planar"),
                                   actuated=every_other(m)),
    "coupled": lambda: robot_system(m := coupled_tree(4, 6), actuated=every_other(m)),
    "thrusters": lambda: robot_system(m := tree(4, "revolute", "spherical", "prismatic", root="free_flyer"),
                                      thrusters=pushed(m, (-3, -1)), actuated=every_other(m)),
    "thrusters alone": lambda: robot_system(m := tree(5, "universal", root="free_flyer"), thrusters=pushed(m, (0, -1)),
                                            actuated=()),
    "no controls": lambda: robot_system(tree(6, "revolute", root="free_flyer"), actuated=()),
    "contacts": lambda: on_contacts(8),
    "samples": lambda: sampled(on_contacts(9), 0.1, "semi_implicit_euler"),
    "accelerations": lambda: inverse_dynamics_system(tree(7, "revolute", "spherical", root="planar")),
}


def values(given, options):
    """Step and expansion of a kind of stage at a state on the manifold, through CasADi's interpreter: x', cost, g, F, H."""
    horizon = build(given, options)
    stage, system, rng = horizon.kinds[horizon.which[-2]], given.phase.system, np.random.default_rng(11)
    x = np.r_[alg.random_configuration(system.model, rng), rng.normal(size=system.model.nv), horizon.constants.guess]
    arguments = (0.3, x, rng.normal(size=system.nu), [], 0.1)
    return [np.array(y) for y in (*stage.step(*arguments)[:2], *stage.expand(*arguments)[:3])], stage


def compare(given, one, two, tolerance=1e-10):
    (ours, stage), (theirs, general) = values(given, one), values(given, two)
    for name, a, b in zip(("x'", "cost", "g", "F", "H"), ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.abs(b).max()), err_msg=name)
        assert np.abs(b).max() > 1e-3, name
    return stage, general


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] * (name in ("free root", "thrusters"))) for name in SYSTEMS])
@pytest.mark.sample(2)
def test_step_and_expansion_are_those_of_algorithmic_differentiation(name, monkeypatch):
    given = coupled(SYSTEMS[name]())
    monkeypatch.setattr(single, "LIMIT", 3000 if name == "accelerations" else 1500)  # the other road is one of calls
    stage, general = compare(given, CLOSED, AD)
    assert stage.step.is_a("SXFunction")
    assert stage.expand.is_a("SXFunction")
    assert general.expand.is_a("SXFunction") == (name == "accelerations")


def test_dynamics_that_are_small_or_evaluated_once_are_written_out(monkeypatch):
    given = coupled(SYSTEMS["accelerations"]())
    inlined, _ = values(given, CLOSED)
    monkeypatch.setattr(single, "LIMIT", 0)
    monkeypatch.setattr(expressions, "INLINE_LIMIT", 0)
    called, stage = values(given, CLOSED)
    assert stage.expand.is_a("MXFunction")
    for a, b in zip(inlined, called, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


def test_both_quadratures_are_the_costs_at_the_knots():
    given = coupled(SYSTEMS["curved"]())
    for a, b in zip(values(given, CLOSED)[0], values(given, replace(CLOSED, cost_quadrature="rectangle"))[0], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["flat", *(pytest.param(name, marks=pytest.mark.slow) for name in ("curved", "thrusters"))])
def test_free_durations_are_carried(name):
    given = coupled(SYSTEMS[name](), duration=Duration(0.2, 0.6, 0.4))
    stage, _ = compare(given, CLOSED, AD)
    n = given.phase.system.space.ndx
    assert stage.space.ndx == n + 1
    F = values(given, CLOSED)[0][3].T
    assert np.abs(F[:n, n]).max() > 0.1  # the step is longer where the duration is
    np.testing.assert_array_equal(F[n, :], np.eye(F.shape[1])[n])


def test_later_phases_of_fixed_length_behind_a_free_one():
    system = SYSTEMS["flat"]()
    first, second = coupled(system, duration=Duration(0.2, 0.6, 0.4)).phase, coupled(system).phase
    given = Problem("two", (first, replace(second, name="later", start=None)))
    for kind in (1, 3):
        stages = [build(given, options).kinds[kind] for options in (CLOSED, AD)]
        rng = np.random.default_rng(2)
        arguments = (0.4, rng.normal(size=stages[0].space.nx), rng.normal(size=system.nu), [], 0.25)
        for a, b in zip(stages[0].expand(*arguments), stages[1].expand(*arguments), strict=True):
            np.testing.assert_allclose(np.array(a), np.array(b), rtol=0, atol=1e-9)


def ur5():
    return move(read_urdf("problems/models/ur5.urdf"), 0.5)


def move(model, duration):
    system = robot_system(model)
    nx, nu = system.nx, system.nu
    goal = ca.DM([*[0.3, -0.2, 0.4, 0.1, -0.3, 0.2][:nu], *[0.0] * nu])
    costs = (Cost("effort", At.PATH, function(nx, nu, lambda t, x, u: u), weights=(1e-2,) * nu),
             Cost("calm", At.PATH, function(nx, nu, lambda t, x, u: x[nu:]), weights=(0.1,) * nu),
             Cost("goal", At.FINAL, function(nx, nu, lambda t, x, u: x - goal), weights=(100.0,) * nu + (1.0,) * nu))
    guess = Guess(np.array([0.0, 1.0]), np.zeros((2, nx)), 0.1 * np.ones((2, nu)))
    return Problem("arm", (Phase("move", system, Duration(duration, duration, duration), guess,
                                 start=Boundary((0.0,) * nx, (True,) * nx), costs=costs),))


def test_the_closed_form_is_short():
    closed, general = (build(ur5(), options).kinds[0] for options in (CLOSED, AD))
    assert closed.expand.n_instructions() < 0.47 * general.expand.n_instructions()
    assert closed.step.n_instructions() < 1.05 * general.step.n_instructions()


@pytest.mark.parametrize("hessian", [pytest.param("gauss_newton", marks=pytest.mark.slow), "full"])
def test_all_methods_find_the_same_solution(hessian):
    given, options = ur5(), replace(CLOSED, intervals=15, hessian=hessian)
    closed, loops = solve(given, options), solve(given, replace(options, derivatives="analytic", execution="loops"))
    for other in (loops, *([solve(given, replace(options, derivatives="ad"))] if hessian == "gauss_newton" else [])):
        assert closed.status is other.status is Status.CONVERGED, other.ending
        assert closed.objective == pytest.approx(other.objective, rel=1e-10)
        np.testing.assert_allclose(closed.trajectory.u, other.trajectory.u, atol=1e-5 * np.abs(other.trajectory.u).max())
    assert closed.optimality.residuals()[0] < 2e-8  # by reverse differentiation of the integrator's own step
    assert max(np.abs(defect).max() for defect in closed.optimality.defects()) < 1e-12
    chosen = next(one for one in closed.findings if one.kind is Kind.DERIVATIVES_CHOSEN)
    assert (chosen.data["function"], chosen.data["hessians"]) == ("step", "")


@pytest.mark.parametrize("loops", [pytest.param(True, marks=pytest.mark.slow), False])
def test_full_hessians_behind_steps_in_closed_form(loops, monkeypatch):
    """By loops, and written out as well; against loops for everything."""
    if loops:
        monkeypatch.setattr(single, "MAX_OPERATIONS", 0)
    options = replace(CLOSED, intervals=2, hessian="full", tuning=Tuning(convexify="shift"))
    u, given = np.random.default_rng(3).normal(size=(2, 3)), move(serial_chain(3), 0.1)
    mixed, ours = on_path(given, options, u)
    assert (mixed.horizon.kinds[0].whole is None) == loops
    assert mixed.findings[0].data["hessians"] == ("loops" if loops else "")
    pure, theirs = on_path(given, replace(options, derivatives="analytic", execution="loops"), u)
    assert {"step", "first_order"} <= {kernel.name for kernel in mixed.compiled.bank.values()}
    assert len(mixed.compiled.bank) > len(pure.compiled.bank)
    for k in range(2):
        for a, b in zip(blocks(ours, k, 6, 3), blocks(theirs, k, 6, 3), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-10 * max(1.0, np.abs(b).max()))


POISON = {
    "acceleration by q": lambda x: x._replace(da_dq=-x.da_dq),
    "acceleration by v": lambda x: x._replace(da_dv=-x.da_dv),
    "acceleration by effort": lambda x: x._replace(da_dtau=0.5 * x.da_dtau),
}


@pytest.mark.parametrize("what", POISON)
def test_a_wrong_closed_form_is_noticed(what, monkeypatch):
    """The true gradient, from the integrator's own step, does not vanish where the search ends."""
    right = symplectic.forward_dynamics_partials
    monkeypatch.setattr(symplectic, "forward_dynamics_partials", lambda *arguments: POISON[what](right(*arguments)))
    found = solve(ur5(), replace(CLOSED, intervals=15, max_iterations=100, tuning=Tuning(polish="never")))
    assert found.optimality.residuals()[0] > 1e-4


def test_a_wrong_motion_of_a_curved_joint_is_noticed(monkeypatch):
    right = alg.integrate_partials
    monkeypatch.setattr(alg, "integrate_partials", lambda model, d: tuple(x.T for x in right(model, d)))
    with pytest.raises(AssertionError, match="F"):
        compare(coupled(SYSTEMS["curved"]()), CLOSED, AD)


def test_written_hessians_are_those_of_the_lagrangian(monkeypatch):
    """By differentiation of the whole graph, on prismatic and universal joints under costs that couple everything."""
    monkeypatch.setattr(single, "MAX_OPERATIONS", 5000)
    given, options = coupled(SYSTEMS["flat"]()), replace(CLOSED, hessian="full")
    ours, theirs = build(given, options).kinds[0], build(given, replace(options, derivatives="ad")).kinds[0]
    rng = np.random.default_rng(12)
    arguments = (0.3, rng.normal(size=ours.space.nx), rng.normal(size=ours.nu), [], 0.1)
    costate = rng.normal(size=ours.space.ndx)
    assert ours.whole is not None
    a, b = (np.array(stage.hessian(*arguments, costate)) for stage in (ours, theirs))
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-9 * np.abs(b).max())
    for a, b in zip(ours.whole.call([*arguments, costate])[1:], ours.first_order.call([*arguments]), strict=True):
        np.testing.assert_array_equal(np.array(a), np.array(b))


def test_free_durations_have_full_hessians_too():
    given, options = coupled(SYSTEMS["flat"](), duration=Duration(0.2, 0.6, 0.4)), replace(CLOSED, hessian="full")
    stages = [build(given, chosen) for chosen in (options, replace(options, derivatives="ad"))]
    ours, theirs = (horizon.kinds[horizon.which[-2]] for horizon in stages)
    rng = np.random.default_rng(12)
    x = np.r_[rng.normal(size=ours.space.nx - 1), 0.4]
    arguments = (0.3, x, rng.normal(size=ours.nu), [], 0.1, rng.normal(size=ours.space.ndx))
    a, b = np.array(ours.hessian(*arguments)), np.array(theirs.hessian(*arguments))
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-9 * np.abs(b).max())


# ---- choice --------------------------------------------------------------------------------------------------------
def told(given, **options):
    program = prepare(given, replace(CLOSED, intervals=2, **options))
    return program.horizon.kinds[0], sentence(program.findings[0])


def test_what_runs_in_closed_form():
    small, large = coupled(SYSTEMS["flat"]()), coupled(robot_system(serial_chain(24)))
    assert "a step in code generated for this robot" in told(small)[1]
    assert told(small, derivatives="ad")[1] == "derivatives: ad"
    assert "compiled loops" in told(small, derivatives="analytic", execution="loops")[1]
    stage, note = told(large)
    assert stage.expand is None
    assert "in compiled loops over the model" in note
    assert "a step in code" not in told(small, integrator="rk4")[1]


def test_costs_too_large_for_one_graph_leave_it(monkeypatch):
    given = coupled(SYSTEMS["flat"]())
    assert single.closed_form(given.phase, CLOSED)
    monkeypatch.setattr(single, "LIMIT", 3)
    assert not single.closed_form(given.phase, CLOSED)
    assert "a step in code" not in told(given)[1]


def test_many_states_are_not_written_out(monkeypatch):
    given = quadrotor()
    options = replace(CLOSED, integrator="euler")
    assert build(given, options).kinds[0].expand.is_a("SXFunction")
    monkeypatch.setattr(expressions, "INLINE_LIMIT", 0)
    assert build(given, options).kinds[0].expand.is_a("SXFunction")
    monkeypatch.setattr(single, "ENTRIES", 100)
    assert build(given, options).kinds[0].expand.is_a("MXFunction")
