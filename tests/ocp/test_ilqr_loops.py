"""iLQR by loops over the robot against the same discrete problem differentiated by CasADi, interpreted: another road throughout."""

import dataclasses
import functools

import casadi as ca
import numpy as np
import pytest
from loop_references import coupled_tree
from shooting_problems import function, pendulum

from dynamics import algorithms as alg
from dynamics.model.synthetic import random_tree
from dynamics.model.urdf import read_urdf
from ocp.bridge import robot_system
from ocp.errors import ProblemError
from ocp.integrators import INTEGRATORS
from ocp.problem import At, Boundary, Cost, Duration, Guess, Phase, Problem, Status
from ocp.shooting.engine import loops, records, riccati
from ocp.shooting.ilqr import ILQROptions, prepare, solve
from ocp.shooting.robot import mechanics, sensitivities
from ocp.shooting.stages import stage

FIRST, SECOND = ("A", "B", "lx", "lu"), ("lxx", "luu", "lux")
LOOPS = ILQROptions(intervals=2, derivatives="analytic", execution="loops", kernels="interpreted")
TREES = {
    "flat": lambda: random_tree(4, np.random.default_rng(1), kinds=("revolute", "prismatic", "universal"), damping=True),
    "free root": lambda: random_tree(3, np.random.default_rng(2), kinds=("revolute", "spherical"), root="free_flyer", damping=True),
    "curved": lambda: random_tree(4, np.random.default_rng(3), kinds=("planar", "spherical", "revolute"), root="planar"),
    "coupled": lambda: coupled_tree(6, 6),
}


def actuated(model):
    """Every other joint: fewer controls than velocities, and an order of their own."""
    names = [b.joint.name for b in model.bodies if b.joint.mimic is None and b.joint.kind not in ("fixed", "free_flyer")]
    return names[::-2] or names


@functools.cache
def problem(name, seed=5):
    """A robot at a random state with random controls; costs that couple everything, time and controls included."""
    model, rng = TREES[name](), np.random.default_rng(seed)
    system = robot_system(model, actuated=actuated(model))
    nx, nu, nv = system.nx, system.nu, model.nv
    x0 = np.r_[alg.random_configuration(model, rng), rng.normal(size=nv)]
    a, b = ca.DM(rng.normal(size=nx)), ca.DM(rng.normal(size=nu))
    costs = (
        Cost("coupled", At.PATH, function(nx, nu, lambda t, x, u: ca.sin(ca.dot(a, x) + t) * (1 + ca.dot(b, u)) + x[0]**2 * x[1])),
        Cost("residual", At.PATH, function(nx, nu, lambda t, x, u: ca.vertcat(u, ca.cos(x[nx - 1]) * x[0], x[1] * u[0])),
             weights=tuple(rng.uniform(0.5, 1, nu + 2))),
        Cost("end", At.FINAL, function(nx, nu, lambda t, x, u: x), weights=(1.0,) * nx))
    u = rng.normal(size=(2, nu))
    phase = Phase("move", system, Duration(0.1, 0.1, 0.1), Guess(np.array([0.25, 0.75]), np.tile(x0, (2, 1)), u),
                  start=Boundary(tuple(x0), (True,) * system.space.ndx), costs=costs)
    return Problem(name, (phase,))


def expanded(problem, options, calls=None):
    """(path, model, policy) of the guess by loops; with calls of its own if given."""
    program = prepare(problem, options)
    system, calls, N = program.phase.system, calls or program.calls, options.intervals
    u = np.ascontiguousarray(np.array(problem.phase.guess.u))
    path = loops.Path(np.tile(program.start, (N + 1, 1)), u, np.zeros(N + 1))
    model, policy = (make(N, system.space.ndx, system.nu) for make in (riccati.expansion, riccati.policy))
    assert loops.rollout(calls["step"], calls["final"], program.rows, program.horizon, path)[1] == -1
    full = options.hessian == "full"
    assert loops.expand(calls["expand"], calls["expand_final"], program.rows, program.horizon, path, model, policy,
                        not full)[0] == -1
    if full:
        assert loops.curve(calls["curvature"], program.horizon, path, model, policy) == -1
    return program, path, model, policy


def references(problem, options, derivatives, path, costates):
    """The same at every knot by the Functions of the generated road, through CasADi's interpreter."""
    options = dataclasses.replace(options, derivatives=derivatives, execution="generated")
    stages = stage.build(problem.phase, options)
    h = problem.phase.duration.guess / len(path.u)
    for k, u in enumerate(path.u):
        arguments = (k * h, path.x[k], u, [], h)
        after, cost = stages.step(*arguments)
        names = FIRST_OUT + (() if options.hessian == "full" else SECOND)
        found = dict(zip(names, stages.expand(*arguments), strict=True))
        if options.hessian == "full":
            found |= dict(zip(SECOND, stages.curvature(*arguments, costates[k + 1]), strict=True))
        yield np.array(after).ravel(), float(cost), {n: np.array(v).T.squeeze() if n in ("lx", "lu") else np.array(v).T
                                                     for n, v in found.items()}


FIRST_OUT = ("lx", "lu", "A", "B")


def close(ours, theirs, what, tolerance):
    ours, theirs = np.atleast_1d(ours), np.atleast_1d(theirs)
    assert ours.shape == theirs.shape, what
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * max(1.0, np.abs(theirs).max(initial=0)), err_msg=what)


def check(problem, options, derivatives):
    _, path, model, policy = expanded(problem, options)
    for k, (after, cost, found) in enumerate(references(problem, options, derivatives, path, policy.costate)):
        close(path.x[k + 1], after, "step", 1e-12)
        assert path.cost[k] == pytest.approx(cost, rel=1e-12, abs=1e-13)
        for name, value in found.items():
            close(getattr(model, name)[k], value, f"{name} at knot {k}", 1e-10)
    if model.luu.shape[-1]:
        assert all(np.abs(getattr(model, name)).max() > 1e-3 for name in (*FIRST, *SECOND))  # nothing is trivially zero


@pytest.mark.parametrize("hessian", ["gauss_newton", "full"])
@pytest.mark.parametrize("integrator", list(INTEGRATORS))
@pytest.mark.parametrize("name", list(TREES))
def test_expansion_is_that_of_algorithmic_differentiation(name, integrator, hessian):
    check(problem(name), dataclasses.replace(LOOPS, integrator=integrator, hessian=hessian), "ad")


@pytest.mark.parametrize(("name", "hessian"), [("flat", "full"), ("free root", "gauss_newton")])
def test_expansion_is_that_of_the_generated_closed_form(name, hessian):
    check(problem(name), dataclasses.replace(LOOPS, hessian=hessian), "analytic")


# ---- quadrature, memory, poison ----------------------------------------------------------------------------------
def test_costs_at_the_knots_only():
    check(problem("free root"), dataclasses.replace(LOOPS, cost_quadrature="rectangle", hessian="full"), "ad")


def test_a_cost_without_curvature_and_a_robot_without_controls():
    phase = problem("free root").phase
    nx, nu = phase.system.nx, phase.system.nu
    linear = Cost("linear", At.PATH, function(nx, nu, lambda t, x, u: 3 * x[nx - 1] + u[0] * t))
    for costs in ((linear,), ()):
        _, path, model, policy = expanded(Problem("linear", (dataclasses.replace(phase, costs=costs),)), LOOPS)
        assert np.all(model.lxx == 0)
        assert np.abs(model.lx).max() == pytest.approx(3 * 0.05 if costs else 0, rel=0.5)
    model = TREES["curved"]()
    system = robot_system(model, actuated=[])
    x0 = tuple(phase_start(model))
    idle = Phase("idle", system, phase.duration, Guess(np.array([0.0, 1.0]), np.tile(x0, (2, 1)), np.zeros((2, 0))),
                 start=Boundary(x0, (True,) * system.space.ndx),
                 costs=(Cost("state", At.PATH, function(system.nx, 0, lambda t, x, u: x), weights=(1.0,) * system.nx),))
    check(Problem("idle", (idle,)), LOOPS, "ad")


def phase_start(model):
    rng = np.random.default_rng(8)
    return np.r_[alg.random_configuration(model, rng), rng.normal(size=model.nv)]


@pytest.mark.parametrize("hessian", ["gauss_newton", "full"])
def test_wrong_derivatives_of_the_loops_are_noticed(hessian):
    """Poison: the expansion gets a robot with one heavier body, the rollout keeps the right one."""
    given, options = problem("flat"), dataclasses.replace(LOOPS, hessian=hessian)
    program = prepare(given, options)
    model = program.phase.system.model
    body = model.bodies[-1]
    heavy = dataclasses.replace(body, inertia=dataclasses.replace(body.inertia, mass=1.01 * body.inertia.mass))
    system = dataclasses.replace(program.phase.system, model=dataclasses.replace(model, bodies=(*model.bodies[:-1], heavy)))
    wrong, kept = mechanics.make_mechanics(system, options.integrator, False, program.compiled.bank)
    record = sensitivities.make_sensitivities(wrong, system, options.integrator, program.stages.local.support)
    _, path, right, policy = expanded(given, options)
    poisoned = expanded(given, options, {**program.calls, "expand": record, "curvature": record})[2]
    assert kept
    for name in ("A", "B", "lx") + (SECOND if hessian == "full" else ()):
        assert np.abs(getattr(poisoned, name) - getattr(right, name)).max() > 1e-6, name
    _, _, found = next(references(given, options, "ad", path, policy.costate))
    with pytest.raises(AssertionError):
        close(poisoned.A[0], found["A"], "A", 1e-10)


def test_records_of_two_threads_share_nothing():
    compiled = prepare(problem("free root"), LOOPS).compiled
    (one, kept), (two, also_kept) = records.stepper(compiled), records.stepper(compiled)
    assert one is not two
    assert {space.handle for space in kept}.isdisjoint(space.handle for space in also_kept)


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
            given = Problem("long", (dataclasses.replace(phase, guess=guess),))
            program, path, model, policy = expanded(given, options)
            before = rtsys.get_allocation_stats().alloc
            loops.rollout(program.calls["step"], program.calls["final"], program.rows, program.horizon, path)
            loops.expand(program.calls["expand"], program.calls["expand_final"], program.rows, program.horizon, path, model, policy,
                         False)
            loops.curve(program.calls["curvature"], program.horizon, path, model, policy)
            counts.append(rtsys.get_allocation_stats().alloc - before)
    finally:
        _nrt_python.memsys_disable_stats()
    assert counts[0] == counts[1]


# ---- solutions ---------------------------------------------------------------------------------------------------
def reach(path, root, duration, seed, weight=10.0, **more):
    """A robot from its neutral configuration at rest towards one nearby, by cost."""
    model = read_urdf(path, root=root)
    system = robot_system(model, **more)
    nx, nu, nv = system.nx, system.nu, model.nv
    x0 = np.r_[alg.neutral(model), np.zeros(nv)]
    goal = np.array(alg.integrate(model, x0[:model.nq], np.random.default_rng(seed).uniform(-0.2, 0.2, nv))).ravel()
    costs = (Cost("effort", At.PATH, function(nx, nu, lambda t, x, u: u), weights=(1e-1,) * nu),
             Cost("calm", At.PATH, function(nx, nu, lambda t, x, u: x[nx - nv:]), weights=(0.1,) * nv),
             Cost("goal", At.FINAL, function(nx, nu, lambda t, x, u: system.space.minus(ca.DM(np.r_[goal, np.zeros(nv)]), x)),
                  weights=(weight,) * nv + (1.0,) * nv))
    guess = Guess(np.array([0.0, 1.0]), np.tile(x0, (2, 1)), 0.1 * np.ones((2, nu)))
    return Problem(model.name, (Phase("move", system, Duration(duration, duration, duration), guess,
                                      start=Boundary(tuple(x0), (True,) * (2 * nv)), costs=costs),))


SOLVED = {
    "acrobot": (lambda: reach("problems/models/acrobot.urdf", "fixed", 1.0, 4, actuated=["elbow"]), "rk4", "full"),
    "ur5": (lambda: reach("problems/models/ur5.urdf", "fixed", 0.5, 1), "rk4", "gauss_newton"),
    "quadruped": (lambda: reach("problems/models/quadruped.urdf", "free_flyer", 0.3, 3), "semi_implicit_euler", "gauss_newton"),
}


@pytest.mark.parametrize("name", list(SOLVED))
def test_both_executions_find_the_same_solution(name):
    build, integrator, hessian = SOLVED[name]
    given = build()
    options = ILQROptions(intervals=15, integrator=integrator, hessian=hessian, derivatives="analytic", kernels="interpreted")
    one, two = (solve(given, dataclasses.replace(options, execution=how)) for how in ("generated", "loops"))
    assert one.status is two.status is Status.CONVERGED, two.message
    assert len(one.iterations) == len(two.iterations) > 3
    assert two.objective == pytest.approx(one.objective, rel=1e-9)
    np.testing.assert_allclose(two.trajectory.u, one.trajectory.u, atol=1e-5 * np.abs(one.trajectory.u).max())
    assert two.optimality.residuals()[0] < 2e-8  # by reverse differentiation of the step, which the loops never saw
    assert np.abs(two.optimality.defects()).max() < 1e-11
    middle = 0.5 * (one.trajectory.t[3] + one.trajectory.t[4])
    np.testing.assert_allclose(two.trajectory.state(middle), one.trajectory.state(middle), atol=1e-5)
    again = solve(given, dataclasses.replace(options, execution="loops"))
    assert np.array_equal(again.trajectory.u, two.trajectory.u)
    assert any("in code generated for this robot" in note for note in one.notes)
    assert any("in compiled loops over the model" in note for note in two.notes)


# ---- what cannot be done -----------------------------------------------------------------------------------------
def test_loops_that_cannot_serve_are_refused():
    with pytest.raises(ProblemError, match="no execution named 'loop'.*did you mean 'loops'"):
        ILQROptions(execution="loop")
    with pytest.raises(ProblemError, match="'loops' is not possible"):
        solve(pendulum(), ILQROptions(execution="loops", derivatives="analytic"))
