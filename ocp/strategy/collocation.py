"""Direct collocation in the search for an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ocp.certify import Tolerances
from ocp.certify.consistent import Consistent
from ocp.errors import ProblemError
from ocp.guesses.table import guesses
from ocp.nlp.scaling_text import rule
from ocp.problem import At, Problem, Solution, Status
from ocp.strategy.direct import Direct, from_multipliers
from ocp.strategy.programs import Programs
from ocp.strategy.records import State, Task
from ocp.strategy.search import DEFAULTS, NOBODY, Judge, Outside, Refinement, Refining, Search
from ocp.thresholds import BUDGETS, MESH_CHANGE
from ocp.transcription.charts import form
from ocp.transcription.collocation import (
    METHOD,
    CollocationOptions,
    family_of,
    order_of_lobatto,
    plans_of,
    transcribe,
    uniform_meshes,
)
from ocp.transcription.mesh import Compressed, Mesh
from ocp.transcription.refine.criteria import ByCertificate, ByMesh, first_margins
from ocp.transcription.refine.error import Estimator
from ocp.transcription.refine.plan import UNIFORM, plans_text, read_plans
from ocp.transcription.refine.policy import POLICIES, Rules, halved
from ocp.transcription.refine.smooth import linear_controls

#: mark checkpoints of searches with zero-order hold, and with Gauss nodes, that took the place of others
HELD, GAUSS = "held_controls", "gauss_nodes"


class Collocation(Direct, Refining):
    """Direct collocation with the meshes of these options."""

    def __init__(self, options: CollocationOptions):
        error = None if options.form == "compressed" else _error_of(options)
        super().__init__(METHOD, Programs(METHOD, options, transcribe, error), lambda problem: uniform_meshes(problem, options))

    def frozen(self, search: Search, found: Solution) -> Solution:
        """The solution with the chosen value of every automatic option."""
        found = replace(found, findings=(*order_of_lobatto(found, search.options), *found.findings))
        return super().frozen(search, found)

    def restarted(self, search: Search, problem: Problem, **changes: Any) -> tuple[Search, State]:
        """A search within this one by the same method."""
        return searching(problem, replace(search.options, **{"guess": "given", **changes}), judge=search.judge,
                         without=search.without, tolerances=search.tolerances)

    def gauss_nodes(self, search: Search, problem: Problem, outside: Outside) -> tuple[Search, State]:
        """A search with nodes that lie inside the intervals."""
        own, state = self.restarted(search, problem, scheme="gauss")
        return replace(own, outside=with_name(outside, GAUSS)), state

    def zero_order_hold(self, search: Search, problem: Problem, outside: Outside, *, early: bool, cascade: bool
                        ) -> tuple[Search, State]:
        """A search with piecewise-constant controls, which cannot chatter within an interval. early: with few passes, before the
        search has ended; cascade: whether it starts with the cascade of guesses."""
        options = search.options
        count = int(options.intervals) if early else max(int(options.intervals), MESH_CHANGE.many_intervals)
        held = replace(options, controls="held", mesh=UNIFORM, intervals=count)
        return searching(problem, held, with_name(outside, HELD), search.judge, search.without, search.tolerances,
                         alternative=False, brief=early, cascade=cascade,
                         max_passes=min(BUDGETS.max_early_passes, options.max_passes) if early else None)

    def on_finer_mesh(self, search: Search, problem: Problem, found: Solution) -> Solution:
        """The solution on the mesh with every interval halved, warm-started with multipliers, so that it converges to the same
        optimum."""
        options = search.options
        once = replace(options, refine="none", guess="given", scaling=rule(str(found.freeze.get("scaling", options.scaling))),
                       **{name: str(found.freeze.get(name, getattr(options, name))) for name in ("scheme", "controls")})
        if options.form == "compressed":
            once = replace(once, intervals=2 * int(options.intervals))
            return Collocation(once).programs.solve(problem, uniform_meshes(problem, once))
        family, plans = family_of(once), plans_of(problem, replace(once, mesh=str(found.freeze.get("mesh", options.mesh))))
        changed = tuple(halved(plan) for plan in plans)
        meshes, left, programs = family.meshes(problem, changed), found.optimality, Collocation(once).programs
        again: Solution | None = None

        def limited(iterations: int) -> CollocationOptions:
            return replace(once, max_iterations=min(iterations, once.max_iterations))

        if left is not None:
            again = programs.solve(problem, meshes, options=limited(BUDGETS.max_iterations_from_optimum),
                                   begin=from_multipliers(left, problem, family.meshes(problem, plans), meshes))
        if again is None or again.status is not Status.CONVERGED:
            again = programs.solve(problem, meshes, options=limited(BUDGETS.max_iterations))
        return replace(again, freeze={**again.freeze, "mesh": plans_text(changed)})


def searching(problem: Problem, options: CollocationOptions, outside: Outside = NOBODY, judge: Judge | None = None,
              without: frozenset[str] = frozenset(), tolerances: Tolerances = DEFAULTS, *, alternative: bool = True,
              brief: bool = False, cascade: bool = False, max_passes: int | None = None) -> tuple[Search, State]:
    """The search for the solution of a problem by collocation, and its first state. judge: makes certificates, for ``refine:
    certificate``; alternative: whether zero-order hold may replace other controls; brief, max_passes: see ``Search`` and
    ``Refinement``; cascade: whether it starts with the cascade of guesses."""
    resume = outside.resume
    options = options if resume is None or GAUSS not in resume else replace(options, scheme="gauss")
    method = Collocation(options)
    if resume is not None and HELD in resume and options.controls != "held":
        bare = Search(problem, method, options, judge=judge, without=without, tolerances=tolerances)
        return method.zero_order_hold(bare, problem, outside, early=False, cascade=False)
    names = guesses(options.guess, problem, int(options.intervals))
    first = names[0] if resume is None else "given"
    names = names if resume is None or options.refine != "none" else ("given",)
    search = Search(problem, method, options, names, outside, brief=brief, judge=judge, without=without, tolerances=tolerances)
    if options.refine == "none":
        task = Task(problem, guess=first, left=search.guesses[1:], begun=0 if resume is None else None, resume=resume)
        return search, State(first_task(search, task))
    if resume is not None and HELD in resume and alternative:
        return method.zero_order_hold(search, problem, outside, early=False, cascade=False)
    family, policy = family_of(options), POLICIES[options.refine]
    if policy.by_certificate and judge is None:
        raise ProblemError(f"{options.refine} needs certificates; solve by ocp.methods.solve", where=f"{METHOD}.refine")
    plans = plans_of(problem, options)
    if resume is not None and "mesh" in resume:
        plans = read_plans(str(resume["mesh"][0]), [phase.name for phase in problem.phases], family.scheme, "checkpoint")
    certified = judge is not None and policy.by_certificate
    estimator = Estimator(problem, [form(phase.system.space, family.states) for phase in problem.phases], [
        Consistent(phase.system).solved if certified and phase.system.residual is not None else None for phase in problem.phases])
    rules = Rules(policy, 1.0 if policy.by_certificate else options.tolerance_mesh, options.record().degree, options.max_degree)
    criterion = ByMesh(rules.tolerance) if judge is None or not certified else ByCertificate(
        judge, estimator, (tolerances.gap_segment, tolerances.error_estimate))
    refinement = Refinement(
        family, rules, criterion, estimator, options.max_passes if max_passes is None else max_passes, options.switches,
        tuple(linear_controls(phase) for phase in problem.phases) if policy.by_certificate else (), options.solver == "ipopt")
    may = alternative and policy.by_certificate and options.controls == "auto" and "zero_order_hold" not in without and not any(
        phase.system.algebraic for phase in problem.phases)  # constant values would be their algebraic unknowns, too
    begun = 0 if (cascade or options.guess != "auto") and resume is None else None
    task = Task(problem, plans, first_margins(problem, plans, estimator), guess=first, left=names[1:] if begun == 0 else (),
                begun=begun, resume=resume)
    search = replace(search, refinement=refinement, alternative=may)
    return search, State(first_task(search, task))


def with_name(outside: Outside, name: str) -> Outside:
    """The same with checkpoints that hold this name."""
    keep = outside.checkpoint
    return outside if keep is None else replace(outside, checkpoint=lambda arrays: keep({**arrays, name: np.ones(1)}))


def first_task(search: Search, task: Task) -> Task:
    """The task with the first guess of the cascade that exists for this problem, else with the guess of the problem."""
    if task.begun is None:
        return task
    for k, name in enumerate(search.guesses):
        problem = search.method.started(search, task, name)
        if problem is not None:
            return replace(task, problem=problem, guess=name, left=search.guesses[k + 1:])
    return replace(task, guess="given", left=())


def cornered(search: Search) -> bool:
    """Whether path constraints other than bounds depend on controls: these may be violated between nodes at jumps of the controls.
    (Not of robots, whose efforts jump in many joints.)"""
    return any(c.at is At.PATH and c.soft is None and c.function.jac_sparsity(0, 2).nnz() > 0
               for phase in search.problem.phases if phase.system.mechanism is None for c in phase.constraints)


def _error_of(options: CollocationOptions) -> Any:
    """The relative error of motions on their meshes: (solution, options, meshes) -> error."""
    def error(found: Solution, chosen: CollocationOptions, meshes: Sequence[Mesh | Compressed] | None) -> float:
        """The relative error of a motion on its meshes."""
        own = Estimator(found.problem, [form(phase.system.space, options.states) for phase in found.problem.phases])
        given = uniform_meshes(found.problem, chosen) if meshes is None else meshes
        return own.estimate(found, [mesh for mesh in given if isinstance(mesh, Mesh)]).motion

    return error
