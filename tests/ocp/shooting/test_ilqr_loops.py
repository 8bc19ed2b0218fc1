"""iLQR by loops over the robot against the same discrete problem differentiated by CasADi, interpreted: another road throughout."""

import dataclasses
import functools
import itertools

import casadi as ca
import numpy as np
import pytest
from engine_paths import blocks, on_path
from joint_examples import tree_of_kinds
from loop_references import coupled_tree
from shooting_problems import coupled, function, pendulum, towards

from dynamics import algorithms as alg
from dynamics.constraints import JointMotion
from dynamics.forces import Drag
from dynamics.mechanism import Mechanism, Motor, Thruster
from dynamics.model.synthetic import random_tree
from dynamics.model.urdf import read_urdf
from ocp.bridge import robot_system
from ocp.errors import ProblemError
from ocp.integrators import INTEGRATORS
from ocp.problem import At, Boundary, Cost, Guess, Kind, Phase, Problem, Status
from ocp.shooting.engine import records
from ocp.shooting.engine.expansion import expand
from ocp.shooting.engine.rollout import rollout
from ocp.shooting.ilqr import ILQROptions, prepare, solve
from ocp.shooting.robot import mechanics, sensitivities
from ocp.shooting.stages.horizon import build

LOOPS = ILQROptions(intervals=2, derivatives="analytic", execution="loops", kernels="interpreted", hessian="gauss_newton")
TREES = {
    "flat": lambda: random_tree(4, np.random.default_rng(1), kinds=("revolute", "prismatic", "universal"), damping=True),
    "free root": lambda: random_tree(3, np.random.default_rng(2), kinds=("revolute", "spherical"), root="free_flyer", damping=True),
    "curved": lambda: random_tree(4, np.random.default_rng(3), kinds=("planar", "spherical", "revolute"), root="planar"),
    "coupled": lambda: coupled_tree(6, 6),
    "moving": lambda: tree_of_kinds("composite", "revolute", "spline_curve"),  # S(q), and a ball inside a chain
}


def driven():
    """A floating tree with thrusters on its base, on a branch and between branches, a joint that follows a motion in time, and
    air."""
    model = random_tree(5, np.random.default_rng(3), kinds=("revolute", "prismatic"), root="free_flyer", branching=0.6)
    t = ca.SX.sym("t")
    return Mechanism(
        model, (Motor("left", (("j1", 2.0),)), Motor("rod", (("j2", 1.0),))),
        (Thruster("r1", "f0", (0.1, 0, 1), 0.05, (0.2, 0, 0)), Thruster("r2", "f3", (1, 0.3, 0)),
         Thruster("piston", "f4", (0, 1, 0.2), against="f1")),
        (Drag("air", "f2", (0.1, 0.2, 0.3, 0.01, 0.02, 0.03), (0.2,) * 6),),
        (JointMotion("guided", "j3", ca.Function("p", [t], [ca.sin(3 * t)])),))


def actuated(model):
    """Every other joint: fewer controls than velocities, and an order of their own."""
    names = [b.joint.name for b in model.bodies if b.joint.mimic is None and b.joint.kind not in ("fixed", "free_flyer")]
    return names[::-2] or names


@functools.cache
def problem(name, seed=5):
    """A robot at a random state with random controls; costs that couple everything, time and controls included."""
    robot = {**TREES, "driven": driven}[name]()
    system = robot_system(robot, actuated="all" if isinstance(robot, Mechanism) else actuated(robot))
    system = dataclasses.replace(system, constraints=())  # a random start keeps to nothing
    end = Cost("end", At.FINAL, function(system.nx, system.nu, lambda t, x, u: x), weights=(1.0,) * system.nx)
    return coupled(system, seed, 0.1, (end,), (0.25, 0.75))


def references(problem, options, derivatives, store):
    """Step and model of every knot by the Functions of the generated road, through CasADi's interpreter."""
    options = dataclasses.replace(options, derivatives=derivatives, execution="generated")
    horizon = build(problem, options)
    for k, u in enumerate(store.path.u):
        stage = horizon.kind(k)
        arguments = (horizon.t[k], store.path.x[k], u[:stage.nu], [], horizon.h[k])
        size = stage.space.ndx + stage.nu
        after, cost, *_ = stage.step(*arguments)
        if options.hessian == "full":
            g, F = stage.first_order(*arguments)[:2]
            H = stage.hessian(*arguments, store.policy.costate[k + 1, :stage.after.ndx])
        else:
            g, F, H = stage.expand(*arguments)[:3]
        lower = np.asarray(H).T[:, :size]
        yield (np.asarray(after).ravel(), float(cost), np.asarray(g).ravel()[:size], np.asarray(F).T[:, :size],
               lower + np.tril(lower, -1).T)


def close(ours, theirs, what, tolerance):
    ours, theirs = np.atleast_1d(ours), np.atleast_1d(theirs)
    assert ours.shape == theirs.shape, what
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * max(1.0, np.abs(theirs).max(initial=0)), err_msg=what)


def check(problem, options, derivatives):
    program, store = on_path(problem, options, np.asarray(problem.phase.guess.u))
    assert program.compiled.by_loops == (0,)
    phase = problem.phase
    n, m, nx = phase.system.space.ndx, phase.system.nu, phase.system.nx
    for k, (after, cost, *found) in enumerate(references(problem, options, derivatives, store)):
        close(store.path.x[k + 1, :nx], after, "step", 1e-12)
        assert store.path.cost[k] == pytest.approx(cost, rel=1e-12, abs=1e-13)
        for name, ours, value in zip("gFH", blocks(store, k, n, m), found, strict=True):
            close(ours, value, f"{name} at knot {k}", 1e-10)
        if m:  # nothing is trivially zero
            g, F, H = found
            parts = (F[:, :n], F[:, n:], g[:n], g[n:], H[:n, :n], H[n:, n:], H[n:, :n])
            assert all(np.abs(part).max() > 1e-3 for part in parts)


QUICK = {("free root", "rk4"), ("free root", "semi_implicit_euler"), ("curved", "heun"), ("coupled", "midpoint"),
         ("moving", "euler"), ("flat", "rk3"), ("curved", "ralston")}


def combinations():
    """Full Hessians, of which those of Gauss and Newton are a part: every integrator and every tree; the rest is slow."""
    for name, integrator, hessian in itertools.product(TREES, [name for name, made in INTEGRATORS.items() if made.loops],
                                                       ("gauss_newton", "full")):
        quick = (name, integrator) in QUICK if hessian == "full" else (name, integrator) == ("flat", "rk4")
        yield pytest.param(name, integrator, hessian, id=f"{name}-{integrator}-{hessian}", marks=[] if quick else pytest.mark.slow)


@pytest.mark.parametrize(("name", "integrator", "hessian"), list(combinations()))
@pytest.mark.sample(3)
def test_expansion_is_that_of_algorithmic_differentiation(name, integrator, hessian):
    check(problem(name), dataclasses.replace(LOOPS, integrator=integrator, hessian=hessian), "ad")


@pytest.mark.parametrize(("integrator", "hessian"), [
    ("euler", "full"), ("heun", "gauss_newton"), pytest.param("rk4", "full", marks=pytest.mark.slow)])
def test_thrusters_and_motions_in_time(integrator, hessian):
    check(problem("driven"), dataclasses.replace(LOOPS, integrator=integrator, hessian=hessian), "ad")


@pytest.mark.parametrize(("name", "hessian"), [
    ("flat", "full"), pytest.param("free root", "gauss_newton", marks=pytest.mark.slow)])
def test_expansion_is_that_of_the_generated_closed_form(name, hessian):
    check(problem(name), dataclasses.replace(LOOPS, hessian=hessian), "analytic")


# ---- quadrature, memory, poison ----------------------------------------------------------------------------------
def test_costs_at_the_knots_only():
    check(problem("flat"), dataclasses.replace(LOOPS, cost_quadrature="rectangle", hessian="full"), "ad")


@pytest.mark.slow
def test_a_cost_without_curvature_and_a_robot_without_controls():
    phase = problem("free root").phase
    nx, nu = phase.system.nx, phase.system.nu
    linear = Cost("linear", At.PATH, function(nx, nu, lambda t, x, u: 3 * x[nx - 1] + u[0] * t))
    for costs in ((linear,), ()):
        _, store = on_path(Problem("linear", (dataclasses.replace(phase, costs=costs),)), LOOPS)
        assert np.all(np.tril(store.model.H) == 0)
        assert np.abs(store.model.g[:, :phase.system.space.ndx]).max() == pytest.approx(3 * 0.05 if costs else 0, rel=0.5)
    model = TREES["flat"]()
    system = robot_system(model, actuated=[])
    rng = np.random.default_rng(8)
    x0 = tuple(np.r_[alg.random_configuration(model, rng), rng.normal(size=model.nv)])
    idle = Phase("idle", system, phase.duration, Guess(np.array([0.0, 1.0]), np.tile(x0, (2, 1)), np.zeros((2, 0))),
                 start=Boundary(x0, (True,) * system.space.ndx),
                 costs=(Cost("state", At.PATH, function(system.nx, 0, lambda t, x, u: x), weights=(1.0,) * system.nx),))
    check(Problem("idle", (idle,)), LOOPS, "ad")


@pytest.mark.parametrize("hessian", ["gauss_newton", "full"])
def test_wrong_derivatives_of_the_loops_are_noticed(hessian, monkeypatch):
    """Poison: the expansion gets a robot with one heavier body, the rollout keeps the right one."""
    given, options = problem("flat"), dataclasses.replace(LOOPS, hessian=hessian)
    _, right = on_path(given, options)
    original = records._records

    def wrong(compiled):
        step, own, _, kept = original(compiled)
        system = given.phase.system
        body = system.model.bodies[-1]
        heavy = dataclasses.replace(body, inertia=dataclasses.replace(body.inertia, mass=1.01 * body.inertia.mass))
        model = dataclasses.replace(system.model, bodies=(*system.model.bodies[:-1], heavy))
        other = dataclasses.replace(system, model=model, formulation=dataclasses.replace(
            system.formulation, mechanism=dataclasses.replace(system.mechanism, model=model)))
        (i,), kinds = compiled.by_loops, np.zeros(len(compiled.horizon.kinds), dtype=np.int64)
        kernels = {slot: kernel for (_, slot), kernel in compiled.robot.items()}
        made, more = mechanics.make_mechanics(other, options.integrator, False, kernels, (), kinds)
        found = sensitivities.make_sensitivities(made, other, options.integrator, compiled.horizon.kinds[i].local.support, kinds)
        kinds[i] = found.pointer
        return step, own, found, [*kept, *more, found]

    monkeypatch.setattr(records, "_records", wrong)
    _, poisoned = on_path(given, options)
    n, m = given.phase.system.space.ndx, given.phase.system.nu
    np.testing.assert_array_equal(poisoned.path.x, right.path.x)
    for k in (0, 1):
        (g, F, H), (bad_g, bad_F, bad_H) = blocks(right, k, n, m), blocks(poisoned, k, n, m)
        pairs = [(F[:, :n], bad_F[:, :n]), (F[:, n:], bad_F[:, n:]), (g, bad_g)]
        for good, bad in [*pairs, (H, bad_H)] if hessian == "full" else pairs:
            assert np.abs(bad - good).max() > 1e-6
    *_, F, _ = next(references(given, options, "ad", right))
    with pytest.raises(AssertionError):
        close(blocks(poisoned, 0, n, m)[1], F, "F", 1e-10)


def test_records_of_two_threads_share_nothing():
    compiled = prepare(problem("free root"), LOOPS).compiled
    (one, own, kept), (two, own_too, also_kept) = records.stepper(compiled), records.stepper(compiled)
    assert one is not two
    assert not np.shares_memory(own.arg, own_too.arg)
    handles = [{space.handle for space in spaces if hasattr(space, "handle")} for spaces in (kept, also_kept)]
    assert handles[0].isdisjoint(handles[1])
    assert all(handles)


def test_loops_allocate_nothing_per_knot():
    from numba.core.runtime import _nrt_python, rtsys

    _nrt_python.memsys_enable_stats()
    counts = []
    try:
        for N in (2, 40):
            options = dataclasses.replace(LOOPS, intervals=N, hessian="full")
            phase = problem("free root").phase
            guess = dataclasses.replace(phase.guess, u=np.zeros((N, phase.system.nu)), s=np.linspace(0, 1, N),
                                        x=np.tile(phase.start.value, (N, 1)))
            _, store = on_path(Problem("long", (dataclasses.replace(phase, guess=guess),)), options)
            before = rtsys.get_allocation_stats().alloc
            rollout(store, False)
            expand(store)
            counts.append(rtsys.get_allocation_stats().alloc - before)
    finally:
        _nrt_python.memsys_disable_stats()
    assert counts[0] == counts[1]


# ---- solutions ---------------------------------------------------------------------------------------------------
def reach(path, root, *more, **others):
    return towards(read_urdf(path, root=root), *more, **others)


SOLVED = {
    "acrobot": (lambda: reach("problems/models/acrobot.urdf", "fixed", 1.0, 4, actuated=["elbow"]), "rk4", "full"),
    "ur5": (lambda: reach("problems/models/ur5.urdf", "fixed", 0.5, 1), "rk4", "gauss_newton"),
    "quadruped": (lambda: reach("problems/models/quadruped.urdf", "free_flyer", 0.3, 3), "semi_implicit_euler", "gauss_newton"),
}


@pytest.mark.parametrize("name", list(SOLVED))
@pytest.mark.sample(2)
def test_both_executions_find_the_same_solution(name):
    build, integrator, hessian = SOLVED[name]
    given = build()
    options = ILQROptions(intervals=15, integrator=integrator, hessian=hessian, derivatives="analytic", kernels="interpreted")
    one, two = (solve(given, dataclasses.replace(options, execution=how)) for how in ("generated", "loops"))
    assert one.status is two.status is Status.CONVERGED, two.ending
    assert len(one.iterations) == len(two.iterations) > 3
    assert two.objective == pytest.approx(one.objective, rel=1e-9)
    np.testing.assert_allclose(two.trajectory.u, one.trajectory.u, atol=1e-5 * np.abs(one.trajectory.u).max())
    assert two.optimality.residuals()[0] < 2e-8  # by reverse differentiation of the step, which the loops never saw
    assert max(np.abs(defect).max() for defect in two.optimality.defects()) < 1e-11
    middle = 0.5 * (one.trajectory.t[3] + one.trajectory.t[4])
    np.testing.assert_allclose(two.trajectory.state(middle), one.trajectory.state(middle), atol=1e-5)
    again = solve(given, dataclasses.replace(options, execution="loops"))
    assert np.array_equal(again.trajectory.u, two.trajectory.u)
    for found, execution in ((one, "generated"), (two, "loops")):
        assert execution in [own.data.get("execution") for own in found.findings if own.kind is Kind.DERIVATIVES_CHOSEN]


# ---- what cannot be done -----------------------------------------------------------------------------------------
def test_loops_that_cannot_serve_are_refused():
    with pytest.raises(ProblemError, match="no execution named 'loop'.*did you mean 'loops'"):
        ILQROptions(execution="loop")
    with pytest.raises(ProblemError, match="'loops' is not possible"):
        solve(pendulum(), ILQROptions(execution="loops", derivatives="analytic"))
