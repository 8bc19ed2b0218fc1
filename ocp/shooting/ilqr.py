"""iLQR / DDP with hard constraints: repeat expansion, Riccati sweep and feedback line search until the gradient vanishes.

Li, Todorov 2004 (iLQR); Tassa, Erez, Todorov 2012 (regularisation schedule, line search, value update); Tassa, Mansard,
Todorov 2014 (control bounds); Mastalli et al. 2020 (FDDP: starts whose states do not follow the dynamics). Gauss-Newton by default;
``hessian="full"`` makes it DDP.

Convergence needs both an optimality residual and a predicted decrease below tolerance: the largest component of the projected
gradient of the discrete cost (from the costates, so regularisation does not touch it) and the decrease that the quadratic model
still expects, each relative to the cost, or to its unit (``ocp.shooting.engine.unit``) where that is larger. Where the decrease
falls below the rounding of the cost itself, steps are judged by the gradient instead: the iterations go on until the gradient
reaches its tolerance, or has found no new minimum for ``ocp.shooting.engine.records.PATIENCE`` steps.

Bounds on controls are part of every step; so are those of free durations, parameters and start states, which a stage of their own
chooses. All other hard constraints (bounds on states, prescribed states, path and final constraints, second-order cones) hold at
the knots by an augmented Lagrangian (``ocp.shooting.engine.augmented``; Howell, Jackson, Manchester 2019): multipliers and
penalties are updated until the largest violation is below ``constraint_tolerance``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ocp.derivatives import choose
from ocp.errors import ProblemError, UnsupportedError
from ocp.guesses.table import FAILURES, GAPPED, Start
from ocp.integrators import DISCRETE_TIME, INTEGRATORS
from ocp.interrupts import Progress
from ocp.observed import presenting
from ocp.problem import Finding, Guess, Kind, Phase, Problem, Solution, Status, with_parameters
from ocp.problem.checkpoint import NOBODY, Checkpoint, Keep, Outside
from ocp.reductions.algebraic_elimination import require_explicit
from ocp.reductions.control_bounds import require_rows
from ocp.shooting.engine import records
from ocp.shooting.optimality import ShootingOptimality
from ocp.shooting.options import ILQROptions, unsupported
from ocp.shooting.outcome import chosen_constants, constants, extras, trajectories
from ocp.shooting.row_units import in_own_units
from ocp.shooting.stages.by_time import TimedProblem, build_by_time
from ocp.shooting.stages.horizon import Horizon, build
from ocp.shooting.stages.single import closed_form, closed_hessian, constrained
from ocp.shooting.stages.stage import Stage
from ocp.shooting.written_guess import write_guess, write_path

if TYPE_CHECKING:  # Numba costs half a second: it is imported by the functions that run something
    from ocp.shooting.engine.record import Engine

__all__ = ["ILQROptions", "Program", "prepare", "run", "solve", "unsupported"]



@dataclass(frozen=True)
class Program:
    """A problem with its kernels loaded and its memory allocated, ready for several solves, one at a time."""

    problem: Problem
    options: ILQROptions
    horizon: Horizon
    compiled: records.Compiled
    store: Engine
    helpers: tuple[Engine, ...]
    workspaces: records.Workspaces  # alive as long as the records, which hold their handles
    findings: tuple[Finding, ...]  # about derivatives and kernels
    seconds: Mapping[str, float]
    named: Mapping[str, Any]  # the options by name

    @property
    def retries(self) -> bool:
        """Whether other starts may help: they are wanted, and constraints or gaps can be missed."""
        hard = self.options.shooting in GAPPED or any(kind.rows.count for kind in self.horizon.kinds)
        return hard and self.options.retries



def solve(problem: Problem, options: ILQROptions | None = None, progress: Progress | None = None, checkpoint: Keep | None = None,
          resume: Checkpoint | None = None) -> Solution:
    """Solve a problem by iLQR; see ``ILQROptions``. ``progress`` gets every row of the iteration log as it is written.

    Rows: iteration, cost, expected (decrease that the model promised for the step taken), gradient (projected, largest
    component), step (0 when refused), regularisation, trials, seconds since the start; with hard constraints violation, penalty
    and outer (updates of the multipliers so far), with states of their own gap; newton in rows of Newton's method. Ctrl-C hands
    back the best iterate.
    checkpoint: gets the state of the search every ten seconds, and at the end unless it converged; resume: such a state, from which
    the search goes on instead of from the guess.
    Raises UnsupportedError for what iLQR cannot enforce and ProblemError for a wrong problem or a checkpoint of another one.
    """
    return run(prepare(problem, options), Outside(progress, checkpoint, resume))


def prepare(problem: Problem, options: ILQROptions | None = None, kinds: tuple[Stage, ...] = ()) -> Program:
    """Build and compile the kernels of a problem, reduced (``ocp.methods.Method.reduce``); kinds: its stages, where they are there
    from another grid. Raises UnsupportedError and ProblemError as ``solve`` does, and KernelError when compiled kernels are
    demanded and cannot be had."""
    options = options or ILQROptions()
    reasons = unsupported(problem)
    if reasons:
        raise UnsupportedError("ilqr", reasons, ("collocation",))
    require_explicit(problem)
    require_rows(problem, options)
    began = time.perf_counter()
    from ocp.shooting.engine import search  # noqa: F401  # the first import of Numba, timed apart

    imported = time.perf_counter()
    by_loops, found = execution(problem, options)
    horizon = build_by_time(problem, options, by_loops) if isinstance(problem, TimedProblem) else build(
        problem, options, by_loops, kinds)
    horizon = horizon if kinds else in_own_units(horizon)
    built = time.perf_counter()
    compiled = records.compile_horizon(horizon, options)
    store, workspaces = records.make_store(compiled)
    helpers, more = records.helpers(compiled, store, options.threads - 1)
    found += (Finding(Kind.KERNEL_MODES, data={"modes": tuple(sorted({kernel.mode for kernel in compiled.kernels}))}),)
    found += tuple(Finding(Kind.KERNEL_REMARK, name=kernel.name, data={"remark": remark})
              for kernel in compiled.kernels for remark in kernel.notes)
    return Program(problem, options, horizon, compiled, store, tuple(helpers), [*workspaces, *more], found,
                   {"import": imported - began, "build": built - imported, "compile": time.perf_counter() - built},
                   asdict(options))


def execution(problem: Problem, options: ILQROptions) -> tuple[bool, tuple[Finding, ...]]:
    """Whether loops over the robot are needed (for its steps, or beside steps in closed form for full Hessians), and findings about
    the choice."""
    problem = problem.parts if isinstance(problem, TimedProblem) else problem
    phases = problem.phases
    phase, closed = phases[0], all(closed_form(phase, options) for phase in phases)
    _, by_loops, findings = choose(phase.system, options.derivatives, options.execution)
    plain = _plain(problem)
    if by_loops and not (plain and INTEGRATORS.get(options.integrator, DISCRETE_TIME).loops):
        findings = (Finding(Kind.CODE_GENERATED, data={"integrator": options.integrator} if plain else {"free": True}),)
        by_loops = False
    if closed and not (by_loops and all(constrained(phase) for phase in phases)):
        second = by_loops and options.hessian != "gauss_newton" and not closed_hessian(phase)
        findings = (Finding(Kind.DERIVATIVES_CHOSEN, data={
            "source": "analytic", "execution": "generated", "function": "step", "degrees_of_freedom": phase.system.model.nv,
            "hessians": "loops" if second else ""}),)
        by_loops = second
    return by_loops, findings


def _plain(problem: Problem) -> bool:
    """Whether nothing but controls is free, and states and controls are the same in all phases, as loops over a robot need it."""
    first, same = problem.phases[0].system, {(phase.system.nx, phase.system.nu) for phase in problem.phases}
    start = problem.phases[0].start
    return not problem.linkages and len(same) == 1 and start is not None and start.complete and all(
        phase.system.mechanism is not None and not phase.duration.free and not phase.free_parameters
        and (phase.system.period is None) == (first.period is None) for phase in problem.phases)


def moved(program: Program, problem: Problem) -> Program:
    """The program for a problem, reduced, that differs in numbers alone (``ocp.problem.numbers``); it shares kernels and memory
    with the one before, which must not be run any more. Raises ProblemError for numbers that stand in its functions."""
    from ocp.shooting.stages.horizon import moved as again

    refuse_limits(program.problem, problem)
    horizon, plan = again(program.horizon, problem), program.store.plan
    for name in ("t", "h", "p", "lower", "upper"):
        getattr(plan, name)[:] = getattr(horizon, name)
    return replace(program, problem=problem, horizon=horizon, compiled=replace(program.compiled, horizon=horizon))


def refuse_limits(one: Problem, other: Problem) -> None:
    """Raise ProblemError for other limits of rows: they stand in the functions of the stages."""
    for a, b in zip(one.phases, other.phases, strict=True):
        limits = [(phase.final, phase.state_bounds, [(c.lower, c.upper) for c in phase.constraints]) for phase in (a, b)]
        if limits[0] != limits[1] or (a.duration != b.duration and not a.duration.free):
            raise ProblemError("prescribed final states, bounds on states, limits of constraints and fixed durations are compiled "
                               "into iLQR; compile it again", where=f"phase {a.name!r}")
    if [(one.lower, one.upper) for one in one.linkages] != [(one.lower, one.upper) for one in other.linkages]:
        raise ProblemError("limits of linkages are compiled into iLQR; compile it again", where="linkages")


def run(program: Program, outside: Outside = NOBODY, guess: Guess | Sequence[Guess] | None = None) -> Solution:
    """Solve a prepared problem from the guess of its phases, from another (one for each phase), or from a checkpoint. Raises
    ProblemError for guesses that do not fit."""
    return shot(program, outside, guess)[0]


def shot(program: Program, outside: Outside = NOBODY, guess: Guess | Sequence[Guess] | None = None, start: Start | None = None,
         number: int = 1, patient: bool = True, before: tuple[Mapping[str, float], ...] = (),
         path: tuple[np.ndarray, np.ndarray] | None = None) -> tuple[Solution, tuple[float, float]]:
    """One search: its solution, and what it misses, then its cost, infinite where it cannot be evaluated. start: None for that of
    the options; number: of the search among those of a problem, whose rows so far are ``before``; patient: not to be given up while
    there are iterations left; path: states and controls of a path of the same stages, in the place of the guess."""
    from ocp.shooting.engine import checkpoint as saved
    from ocp.shooting.engine.search import Search

    began = time.perf_counter()
    options, horizon, store, problem = program.options, program.horizon, program.store, program.problem
    resume = outside.resume
    phases = tuple(leg.stretch.phase for leg in horizon.legs)
    if guess is not None:
        phases, problem = guessed(phases, guess), replace(problem, phases=guessed(problem.phases, guess))
    own = options if start is None else replace(
        options, shooting=start.shooting, max_iterations=start.patience * options.max_iterations,
        tuning=replace(options.tuning, penalty=start.softness * options.tuning.penalty))
    records.reset(store, own)
    findings: list[Finding]
    if path is not None:
        write_path(horizon, store.path, *path)
        given, findings = own.shooting in GAPPED, []
    elif resume is None:
        given, findings = write_guess(horizon, own, store.path, phases, "" if start is None else start.states)
    else:
        given = saved.restore(resume, horizon, own, store)
        findings = [Finding(Kind.RESUMED, value=float(resume["cost"][0]), data={"iterations": int(resume["iterations"][0])})]
    seen = outside if outside.progress is None else replace(outside, progress=_seeing(outside.progress, program))
    one = Search(horizon, own, store, program.helpers, given, seen, attempt=number, before=before, patient=patient)
    status, ending = one.run()
    missed, log = one.left_over(), one.whole_log
    if status is not Status.CONVERGED:
        one.save()  # before the last sweep, which may regularise
        if status in FAILURES and missed > 0.0:
            ending = replace(ending, data={**ending.data, "missed": missed})
    one.sweep_again()
    if resume is None and len(log) == 1 and status is Status.CONVERGED:
        findings.append(Finding(Kind.GUESS_STATIONARY))
    chosen = constants(horizon, store.path.x)
    findings += [*program.findings, *chosen_constants(horizon, chosen)]
    whole, parts = trajectories(program.compiled, store.path)
    seconds = {**program.seconds, "load": one.load_seconds, "solve": time.perf_counter() - began - one.load_seconds}
    seconds["total"] = sum(seconds.values())
    found = Solution(
        problem=with_parameters(problem, chosen) if chosen else problem, method="ilqr", options=dict(program.named), status=status,
        ending=ending, objective=one.objective + horizon.constant, trajectory=whole, parts=parts,
        iterations=log[len(before):], seconds=seconds, findings=tuple(findings), extra=extras(horizon, store, one.swept, chosen),
        optimality=ShootingOptimality(horizon, store.path.x.copy(), store.path.u.copy(), store.conset.gradient.copy()))
    return found, (missed, float(store.path.cost.sum()) if np.isfinite(missed) else np.inf)


def _seeing(progress: Progress, program: Program) -> Progress:
    """Progress that sees the motion on the path."""
    def seen(row: Mapping[str, float]) -> None:
        def motion() -> Any:
            whole, parts = trajectories(program.compiled, program.store.path)
            return parts or (whole,)

        with presenting(motion):
            progress(row)

    return seen


def guessed(phases: Sequence[Phase], guess: Guess | Sequence[Guess]) -> tuple[Phase, ...]:
    """The phases with these guesses."""
    guesses = (guess,) if isinstance(guess, Guess) else tuple(guess)
    if len(guesses) != len(phases):
        raise ProblemError(f"{len(guesses)} guesses for {len(phases)} phases", where="run")
    for phase, one in zip(phases, guesses, strict=True):
        wanted = {"s": (len(one.s),), "x": (len(one.s), phase.system.nx), "u": (len(one.s), phase.system.nu)}
        for name, shape in wanted.items():
            if np.shape(getattr(one, name)) != shape:
                raise ProblemError(f"the guess has {name} of shape {np.shape(getattr(one, name))}, expected {shape}",
                                   where=f"phase {phase.name!r}")
    return tuple(replace(phase, guess=one) for phase, one in zip(phases, guesses, strict=True))


def on_finer_grid(problem: Problem, options: ILQROptions, solution: Solution) -> Program:
    """The problem, whose guess is the solution, prepared on twice as many intervals; it starts from the states, for controls alone
    would leave an unstable motion."""
    fixed = not any(phase.duration.free or phase.free_parameters for phase in problem.phases)
    same = isinstance(solution.optimality, ShootingOptimality) and fixed and solution.options == asdict(options)
    kinds = solution.optimality.horizon.kinds if same else ()
    count = 2 * int(solution.freeze.get("intervals", options.intervals))
    return prepare(problem, replace(options, intervals=count, shooting="feasible"), kinds)
