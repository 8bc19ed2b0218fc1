"""What the compiled loops call: kernels interpreted and compiled, calls and inlined graphs, poisoned derivatives, memory."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import casadi as ca
import numpy as np
import pytest
from direct_problems import with_phase
from engine_paths import blocks, on_path
from shooting_problems import cart_pole, function, pendulum, quadrotor

from dynamics.kernels import find_compiler
from ocp.guesses.motion import from_motion
from ocp.problem import At, Cost, Status
from ocp.shooting import ilqr
from ocp.shooting.engine import iterate
from ocp.shooting.engine.expansion import expand
from ocp.shooting.engine.rollout import rollout, trial
from ocp.shooting.ilqr import ILQROptions, prepare, run, solve
from ocp.shooting.options import Tuning
from ocp.shooting.stages import explicit


@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
def test_interpreted_and_compiled_kernels_give_the_same_iterates():
    one, two = (solve(cart_pole(), ILQROptions(kernels=mode, max_iterations=15, tuning=Tuning(polish="never")))
                for mode in ("compiled", "interpreted"))
    assert one.findings != two.findings
    for a, b in zip(one.iterations, two.iterations, strict=True):
        for key in ("cost", "gradient", "step"):
            assert a[key] == pytest.approx(b[key], rel=1e-7)
    np.testing.assert_allclose(one.trajectory.x, two.trajectory.x, atol=1e-7)


def test_two_runs_are_equal_to_the_last_bit():
    program = prepare(pendulum(u_guess=[[1.0], [-1.0]]), ILQROptions(intervals=40, max_iterations=30))
    one, two, three = run(program), run(program), solve(program.problem, program.options)
    logs = [[{name: value for name, value in row.items() if name != "seconds"} for row in found.iterations]
            for found in (one, two, three)]
    assert logs[0] == logs[1] == logs[2]
    for other in (two, three):
        assert np.array_equal(one.trajectory.u, other.trajectory.u)
        assert np.array_equal(one.extra["K"], other.extra["K"])


def test_expansion_by_differences_is_the_exact_one():
    """Off the optimum, where the torsion of the tangent frames would show in a Hessian that is not symmetrised."""
    base = quadrotor()
    nx, nu = base.phase.system.nx, base.phase.system.nu
    costs = (Cost("bend", At.PATH, function(nx, nu, lambda t, x, u: ca.sin(x[0] + 2 * t) * x[nx - 1] + ca.cos(x[3]) * u[0])),
             Cost("end", At.FINAL, function(nx, nu, lambda t, x, u: ca.cos(x[0]) * x[3] ** 2 + x[3] * x[nx - 1])))
    problem = with_phase(base, costs=costs)
    u = problem.phase.guess.u[0] + 0.1 * np.random.default_rng(9).normal(size=(6, nu))
    options = ILQROptions(intervals=6, cost_quadrature="rectangle", hessian="gauss_newton")
    exact, got = (on_path(problem, dataclasses.replace(options, derivatives=d), u)[1] for d in ("ad", "fd"))
    for k in range(7):
        for one, two in zip(blocks(exact, k, 12, nu if k < 6 else 0), blocks(got, k, 12, nu if k < 6 else 0), strict=True):
            np.testing.assert_allclose(two, one, atol=1e-8)


@pytest.mark.parametrize("factor", [-1.0, 0.5])
def test_a_wrong_input_matrix_is_noticed(monkeypatch, factor):
    """Poison: B is scaled in the kernel. The true gradient, by the other road, must not vanish at what comes out."""
    right = explicit.write

    def wrong(stretch, *given):
        found, n = right(stretch, *given), stretch.space.ndx
        return dataclasses.replace(found, F=ca.horzcat(found.F[:, :n], factor * found.F[:, n:]))

    monkeypatch.setattr(explicit, "write", wrong)
    solution = solve(cart_pole(), ILQROptions(intervals=40, max_iterations=200, tuning=Tuning(polish="never")))
    assert solution.optimality.residuals()[0] > 1e-4


def test_a_wrong_curvature_slows_down_and_nothing_else(monkeypatch):
    """Poison: the full Hessian is that of the wrong costate. The optimum stays, the quadratic convergence goes."""
    options = ILQROptions(hessian="full", tuning=Tuning(convexify="gauss_newton", polish="never"))
    right = solve(cart_pole(), options)
    made = explicit.write

    def wrong(*given):
        written = made(*given)
        return dataclasses.replace(written, full=lambda costate: written.full(0.5 * costate))

    monkeypatch.setattr(explicit, "write", wrong)
    poisoned = solve(cart_pole(), options)
    assert poisoned.status is Status.CONVERGED
    assert poisoned.objective == pytest.approx(right.objective, rel=1e-9)
    assert len(poisoned.iterations) > len(right.iterations) + 5


@pytest.mark.parametrize("shooting", [pytest.param("single", marks=pytest.mark.slow), "multiple"])
def test_loops_allocate_nothing_per_knot(shooting):
    from numba.core.runtime import _nrt_python, rtsys

    _nrt_python.memsys_enable_stats()
    counts = []
    try:
        for N in (10, 300):
            program, store = on_path(cart_pole(), ILQROptions(intervals=N, shooting=shooting, hessian="full"))
            log, found = np.zeros((4, len(iterate.COLUMNS))), []
            for _ in range(2):  # the first round loads the code
                before = rtsys.get_allocation_stats().alloc
                rollout(store, False)
                expand(store)
                trial(store, 0.5, store.path.x)
                iterate.iterate(store, log, 1e-9, 0.0, 3)
                found.append(rtsys.get_allocation_stats().alloc - before)
            counts.append(found[1])
            del program  # it keeps the kernels alive
    finally:
        _nrt_python.memsys_disable_stats()
    assert counts[0] == counts[1]


def test_asking_what_is_supported_does_not_load_numba():
    code = ("import sys; import ocp.shooting.options, ocp.shooting.ilqr; "
            "print(sorted({m.split('.')[0] for m in sys.modules} & {'numba', 'llvmlite'}))")
    root = Path(ilqr.__file__).parents[2]
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert out.stdout.strip() == "[]"


def test_a_finer_grid_is_served_by_the_same_stages(monkeypatch):
    problem, options, made = cart_pole(), ILQROptions(intervals=30, max_iterations=60), []
    first = solve(problem, options)
    finer = from_motion(problem, (first.trajectory,))
    monkeypatch.setattr("ocp.shooting.stages.horizon.make_stage", lambda *given: made.append(given))
    again = run(ilqr.on_finer_grid(finer, options, first))
    assert not made
    monkeypatch.undo()
    fresh = solve(finer, dataclasses.replace(options, intervals=60, shooting="feasible"))
    assert again.objective == fresh.objective
    assert len(again.iterations) == len(fresh.iterations)
