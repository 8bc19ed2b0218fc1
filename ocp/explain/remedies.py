"""What contradicts what, and the fewest named constraints to relax.

The elastic program (``ocp.explain.elastic``) tells which constraints push against each other. The set that may yield is shrunk:
one constraint alone where that is enough, otherwise a deletion filter (Chinneck and Dravnieks 1991, ORSA Journal on Computing
3(2)) leaves a set of which none can be spared. Every remedy is tried on the problem itself. All solves are local: what cannot be
reached from one start might be from another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ocp.explain.elastic import OPTIONS, Elastic, excess, relax, solve_elastic, uninterrupted
from ocp.explain.groups import UPPER, Program
from ocp.nlp import SolverOptions, solve_nlp
from ocp.problem import Finding, Status
from ocp.thresholds import EXPLANATION

Progress = Callable[[str], Any]
Improved = Callable[["Infeasibility"], Any]


@dataclass(frozen=True)
class Amount:
    """How far one side of a constraint gives way.

    least: the smallest amount that will do; by: rounded up, what was tried; bound: where the side ends in the file
    where, time: the row or column that needs it all
    """

    group: str
    kind: str
    side: str
    least: float
    by: float
    bound: float
    unit: str
    where: str
    time: float | None

    @property
    def relaxed(self) -> float:
        """Where the side ends afterwards."""
        return self.bound + (self.by if self.side == UPPER else -self.by)


@dataclass(frozen=True)
class Remedy:
    """Amounts that make the problem solvable together. effort: their sum, each over the scale of its group.

    verified: the original problem with these amounts was solved, at this cost; otherwise ``status`` and ``ending`` of that solve
    say what became of it
    """

    amounts: tuple[Amount, ...]
    effort: float
    verified: bool = False
    cost: float = math.nan
    iterations: int = 0
    status: Status | None = None
    ending: Finding | None = None

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(amount.group for amount in self.amounts))


@dataclass(frozen=True)
class Infeasibility:
    """The finding. conflict: groups that push against each other; remedies: each a smallest set, the least effort first.

    feasible: all constraints can be met at once, at ``point``; then nothing needs to yield, and ``cost`` is that of the solve that
    went on from there (NaN where it did not converge); status, ending: of a solve that came to nothing, that one or, where
    nothing is known, the one with every constraint relaxed
    """

    feasible: bool
    conflict: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    point: np.ndarray = field(default_factory=lambda: np.zeros(0))
    cost: float = math.nan
    solves: int = 0
    status: Status | None = None
    ending: Finding | None = None
    notes: tuple[str, ...] = ()


def _rounded_up(value: float) -> float:
    """The next number of ``EXPLANATION.digits`` digits above."""
    if value <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - EXPLANATION.digits + 1)
    return float(f"{math.ceil(value * (1 + 1e-9) / step) * step:.12g}")


def _remedy(program: Program, found: Elastic) -> Remedy:
    """Amounts of an elastic solution."""
    nlp, x, g = program.nlp, found.x, program.nlp.g(found.x).full().ravel()
    amounts = []
    for (name, side), least in found.slack.items():
        if least <= 0:
            continue
        group = program.group(name)
        worst = max(group.side(side), key=lambda limit: excess(limit, x, g))
        label = (nlp.variables if worst.column else nlp.constraints)[worst.index]
        amounts.append(Amount(name, group.kind, side, least, _rounded_up(least), worst.value, group.unit, label,
                              program.time(label, x)))
    effort = sum(a.least / program.group(a.group).scale for a in amounts)
    return Remedy(tuple(amounts), effort)


def _verified(program: Program, remedy: Remedy, x: np.ndarray, options: SolverOptions) -> Remedy:
    """The remedy after a solve of the original problem with its amounts."""
    by = {(amount.group, amount.side): amount.by for amount in remedy.amounts}
    relaxed = replace(relax(program.nlp, program.groups, by), x0=x)
    found = uninterrupted(solve_nlp(relaxed, options))
    return replace(remedy, verified=found.status is Status.CONVERGED, cost=found.f, iterations=max(0, len(found.iterations) - 1),
                   status=found.status, ending=found.ending)


# ---- the finding --------------------------------------------------------------------------------------------------------
def explain_infeasibility(program: Program, x: np.ndarray, *, options: SolverOptions = OPTIONS,
                          solving: SolverOptions | None = None, progress: Progress | None = None,
                          improved: Improved | None = None) -> Infeasibility:
    """Which named constraints contradict each other, and the smallest sets to relax, found from the point x [n].

    options: of the elastic programs; solving: of the solves that verify; progress: told in words what is done; improved: given
        what is known so far, whenever that is more
    """
    say = progress or (lambda words: None)
    know = improved or (lambda found: None)
    nlp, groups = program.nlp, program.groups
    names = [group.name for group in groups]
    say("all constraints may yield")
    whole = solve_elastic(nlp, groups, names, x, options)
    solves = 1
    if not whole.feasible:
        x = nlp.x0
        say("again, from the guess")
        whole, solves = solve_elastic(nlp, groups, names, x, options), 2
    if not whole.feasible:
        return Infeasibility(False, solves=solves, status=whole.status, ending=whole.ending)
    if not whole.yielding:
        say("nothing contradicts: solving on from there")
        found = uninterrupted(solve_nlp(replace(nlp, x0=whole.x), solving or options))
        done = found.status is Status.CONVERGED
        return Infeasibility(True, point=found.x if done else whole.x, cost=found.f if done else math.nan, solves=solves + 1,
                             status=None if done else found.status, ending=None if done else found.ending)
    conflict = _conflict(whole)
    know(Infeasibility(False, conflict, point=whole.x, solves=solves))
    tried, remedies, notes = conflict[:EXPLANATION.max_alternatives], [], []
    if len(conflict) > len(tried):
        notes.append(f"{len(conflict)} constraints push; only the {len(tried)} that push most were tried one by one")
    for name in tried:
        say(f"only {name} may yield")
        alone = solve_elastic(nlp, groups, [name], whole.x, options)
        solves += 1
        if alone.feasible and alone.yielding:
            remedies.append((_remedy(program, alone), alone.x))
            know(Infeasibility(False, conflict, tuple(remedy for remedy, _ in remedies), whole.x, solves=solves))
    if not remedies:
        least, count = _filtered(program, whole, options, say)
        solves += count
        remedies = [(_remedy(program, least), least.x)]
    remedies.sort(key=lambda pair: pair[0].effort)
    checked = []
    for remedy, point in remedies:
        say(f"solving with {', '.join(remedy.groups)} relaxed")
        checked.append(_verified(program, remedy, point, solving or options))
        solves += 1
        know(Infeasibility(False, conflict, (*checked, *(rest for rest, _ in remedies[len(checked):])), whole.x, solves=solves))
    return Infeasibility(False, conflict, tuple(sorted(checked, key=lambda r: (not r.verified, r.effort))), whole.x,
                         solves=solves, notes=tuple(notes))


def _conflict(found: Elastic) -> tuple[str, ...]:
    """Groups that push, hardest first: those without a multiplier could go without changing the least total slack."""
    largest = max(found.push.values(), default=0.0)
    pushing = [name for name, value in found.push.items() if value > 1e-4 * largest and value > 1e-6]
    return tuple(sorted(pushing, key=lambda name: -found.push[name]))


def _filtered(program: Program, whole: Elastic, options: SolverOptions, say: Progress) -> tuple[Elastic, int]:
    """Deletion filter over the groups that gave way: those that give least are spared first. (solution, solves)"""
    kept, best, solves = list(whole.yielding), whole, 0
    for name in reversed(whole.yielding):
        rest = [other for other in kept if other != name]
        if not rest:
            break
        say(f"only {', '.join(rest) if len(rest) < 4 else f'{len(rest)} of them'} may yield")
        found = solve_elastic(program.nlp, program.groups, rest, whole.x, options)
        solves += 1
        if found.feasible:
            kept, best = rest, found
    return best, solves
