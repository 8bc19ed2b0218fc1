"""Conflicting constraints, and the fewest named constraints to relax.

The elastic program of a nonlinear program shows which constraints exclude each other. Every named constraint
(``ocp.explain.groups``) gets one slack for each of its sides, the equations of motion get none:

    minimise  sum_k s_k / scale_k     subject to     lower - s <= c(x) <= upper + s,     s >= 0,     mechanics(x) = 0

Positive slacks are the necessary relaxations (elastic programming; Chinneck 2008, Feasibility and Infeasibility in Optimization).
One slack serves all knots of a bound, which is one number in the file. The set to relax is minimised: a single constraint if that
is enough, otherwise a deletion filter (Chinneck and Dravnieks 1991, ORSA Journal on Computing 3(2)) leaves a minimal set. Every
remedy is verified on the problem itself. All solves are local: another initial guess may be feasible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import casadi as ca
import numpy as np
import scipy.sparse as sp

from ocp.explain.groups import LOWER, UPPER, Group, Limit, Program
from ocp.nlp import NLP, Functions, NLPResult, SolverOptions, solve_nlp
from ocp.problem import Finding, Status
from ocp.thresholds import EXPLANATION, ROUNDING

OPTIONS = SolverOptions(max_iterations=EXPLANATION.elastic_iterations, tolerance=EXPLANATION.elastic_tolerance)


@dataclass(frozen=True)
class Elastic:
    """Solution of an elastic program: x [n] of the original variables, and by (group, side) slacks and multipliers.
    slack: the necessary relaxation of a side; push: largest multiplier of the constraints of a group, in scaled cost per scale: the
    share of the group in the conflict; feasible: whether the constraints that may not be relaxed hold

    """

    x: np.ndarray
    slack: Mapping[tuple[str, str], float]
    push: Mapping[str, float]
    feasible: bool
    status: Status
    ending: Finding | None
    iterations: int

    @property
    def yielding(self) -> tuple[str, ...]:
        """Names of relaxed groups, the largest slack first."""
        total: dict[str, float] = {}
        for (name, _), value in self.slack.items():
            total[name] = total.get(name, 0.0) + value
        return tuple(sorted((n for n, v in total.items() if v > 0), key=lambda n: -total[n]))


# ---- the elastic program ------------------------------------------------------------------------------------------------
def solve_elastic(nlp: NLP, groups: Sequence[Group], elastic: Iterable[str], x: np.ndarray,
                  options: SolverOptions = OPTIONS) -> Elastic:
    """Minimise the slacks of the groups named in ``elastic`` from the point x [n]; all others must hold."""
    chosen = [group for name in dict.fromkeys(elastic) for group in groups if group.name == name]
    sides = [(group, side) for group in chosen for side in (LOWER, UPPER) if group.side(side)]
    limits = [(k, limit) for k, (group, side) in enumerate(sides) for limit in group.side(side)]
    program = _program(nlp, groups, sides, limits, x)
    found = uninterrupted(solve_nlp(program, options))
    n, s = nlp.n, found.x[nlp.n:]
    slack = {(group.name, side): (float(value) if value > ROUNDING.resolution * group.scale else 0.0)
             for (group, side), value in zip(sides, s, strict=True)}
    # both sides of a prescribed value are rows of their own: only the difference of their forces pushes
    net: dict[tuple[str, bool, int], float] = {}
    for (k, limit), value in zip(limits, found.lam_g[nlp.m:], strict=True):
        key = (sides[k][0].name, limit.column, limit.index)
        net[key] = net.get(key, 0.0) + float(value)
    push = {group.name: max(abs(v) for (name, _, _), v in net.items() if name == group.name) * group.scale for group in chosen}
    for name in {group.name for group in groups} - set(push):
        push[name] = _push(nlp, next(g for g in groups if g.name == name), found.lam_x[:n], found.lam_g[:nlp.m])
    # judged by what must hold, not by the solver's word: a flat minimum often ends "at an acceptable level"
    held = _largest_violation(program, found.x)
    feasible = bool(np.all(np.isfinite(found.x)) and held <= 1e-6 and found.status in (Status.CONVERGED, Status.STALLED))
    return Elastic(found.x[:n], slack, push, feasible, found.status, found.ending, max(0, len(found.iterations) - 1))


def uninterrupted(found: NLPResult) -> NLPResult:
    """The result; raises KeyboardInterrupt if Ctrl-C ended the solve, which would otherwise look like a failure."""
    if found.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return found


def _program(nlp: NLP, groups: Sequence[Group], sides: Sequence[tuple[Group, str]], limits: Sequence[tuple[int, Limit]],
             x: np.ndarray) -> NLP:
    """The program without the sides that may be relaxed, with ``c - s <= upper`` or ``c + s >= lower`` for each of these."""
    n, m, k = nlp.n, nlp.m, len(sides)
    stiff = [group for group in groups if group.name not in {own.name for own, _ in sides}]
    (x_lower, g_lower), (x_upper, g_upper) = _ends(nlp, groups, stiff, {})
    values = np.array([limit.value for _, limit in limits])
    signs = np.array([1.0 if limit.side == LOWER else -1.0 for _, limit in limits])
    rows = np.arange(len(limits))
    columns = np.array([limit.column for _, limit in limits], dtype=bool)
    index = np.array([limit.index for _, limit in limits], dtype=int)
    # pick: the yielding rows out of g, the yielding columns out of x; spread: their slacks
    pick = sp.csr_matrix((np.ones(int((~columns).sum())), (rows[~columns], index[~columns])), shape=(len(limits), m))
    direct = sp.csr_matrix((np.ones(int(columns.sum())), (rows[columns], index[columns])), shape=(len(limits), n))
    spread = sp.csr_matrix((signs, (rows, [which for which, _ in limits])), shape=(len(limits), k))
    below = signs > 0
    weight = np.array([1.0 / group.scale for group, _ in sides])
    start = np.asarray(x, dtype=float)
    size = EXPLANATION.proximal_weight / np.maximum(1.0, np.abs(start)) ** 2

    P, B, C = (ca.MX(ca.DM(sp.csc_matrix(matrix))) for matrix in (pick, direct, spread))
    z, sigma, lam = ca.MX.sym("z", n + k), ca.MX.sym("sigma"), ca.MX.sym("lam", m + len(limits))
    v, s = z[:n], z[n:]
    f = ca.dot(ca.DM(weight), s) + ca.dot(ca.DM(size), (v - ca.DM(start)) ** 2) / 2
    gradient = ca.vertcat(ca.DM(size) * (v - ca.DM(start)), ca.MX(ca.DM(weight)))
    g = nlp.g(v)
    g_jac, J = nlp.jac(v)
    rest = ca.mtimes(B, v) + ca.mtimes(C, s)
    jacobian = ca.vertcat(ca.horzcat(J, ca.MX(m, k)), ca.horzcat(ca.mtimes(P, J) + B, C))
    hessian = nlp.hess(v, 0.0, lam[:m] + ca.mtimes(P.T, lam[m:])) + sigma * ca.diag(ca.DM(size))
    rows_of = [ca.densify(ca.vertcat(value, ca.mtimes(P, value) + rest)) for value in (g, g_jac)]
    slack = _needed(nlp, sides, start, nlp.g(start).full().ravel())
    functions = Functions(
        f=ca.Function("f", [z], [f], ["x"], ["f"]), g=ca.Function("g", [z], [rows_of[0]], ["x"], ["g"]),
        grad=ca.Function("gradient", [z], [f, ca.densify(gradient)], ["x"], ["f", "gradient"]),
        jac=ca.Function("jacobian", [z], [rows_of[1], jacobian], ["x"], ["g", "jacobian"]),
        hess=ca.Function("hessian", [z, sigma, lam], [ca.triu(ca.diagcat(hessian, ca.MX(k, k)))], ["x", "sigma", "lam_g"],
                         ["hessian"]))
    return NLP(
        functions, x0=np.concatenate([start, slack]),
        x_lower=np.concatenate([x_lower, np.zeros(k)]), x_upper=np.concatenate([x_upper, np.full(k, np.inf)]),
        g_lower=np.concatenate([g_lower, np.where(below, values, -np.inf)]),
        g_upper=np.concatenate([g_upper, np.where(below, np.inf, values)]),
        variables=(*nlp.variables, *(f"slack of {group.name} ({side})" for group, side in sides)),
        constraints=(*nlp.constraints, *(f"elastic {(nlp.variables if limit.column else nlp.constraints)[limit.index]}"
                                         for _, limit in limits)),
        keep=nlp,
    )


def _needed(nlp: NLP, sides: Sequence[tuple[Group, str]], x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Slacks that a point needs, slightly enlarged so that an interior point is strictly feasible."""
    found = []
    for group, side in sides:
        worst = max((excess(limit, x, g) for limit in group.side(side)), default=0.0)
        found.append(worst + 1e-2 * group.scale)
    return np.nan_to_num(np.array(found), nan=1.0, posinf=1.0)


def excess(limit: Limit, x: np.ndarray, g: np.ndarray) -> float:
    """Violation of a limit by a point; negative inside."""
    value = float((x if limit.column else g)[limit.index])
    return limit.value - value if limit.side == LOWER else value - limit.value


def _push(nlp: NLP, group: Group, lam_x: np.ndarray, lam_g: np.ndarray) -> float:
    """Largest multiplier of a group that is not relaxed."""
    found = [abs(float((lam_x if limit.column else lam_g)[limit.index])) for limit in group.limits]
    return max(found, default=0.0) * group.scale


def _largest_violation(nlp: NLP, x: np.ndarray) -> float:
    g = nlp.g(x).full().ravel()
    found = [np.maximum(lower - v, v - upper).max(initial=0.0)
             for v, lower, upper in ((x, nlp.x_lower, nlp.x_upper), (g, nlp.g_lower, nlp.g_upper))]
    return float(np.max(found))


# ---- relaxing -----------------------------------------------------------------------------------------------------------
def relax(nlp: NLP, groups: Sequence[Group], by: Mapping[tuple[str, str], float]) -> NLP:
    """The program with sides of groups relaxed: ``by`` maps (group, side) to an amount."""
    (x_lower, g_lower), (x_upper, g_upper) = _ends(nlp, groups, groups, by)
    return replace(nlp, x_lower=x_lower, x_upper=x_upper, g_lower=g_lower, g_upper=g_upper)


def _ends(nlp: NLP, groups: Sequence[Group], stiff: Sequence[Group], by: Mapping[tuple[str, str], float]
          ) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(lower, upper) bounds of variables and of constraints, with only the ``stiff`` groups, relaxed by ``by``."""
    lower, upper = (nlp.x_lower.copy(), nlp.g_lower.copy()), (nlp.x_upper.copy(), nlp.g_upper.copy())
    for limit in (limit for group in groups for limit in group.limits):
        (lower if limit.side == LOWER else upper)[not limit.column][limit.index] = -np.inf if limit.side == LOWER else np.inf
    for name, limit in ((group.name, limit) for group in stiff for limit in group.limits):
        values = (lower if limit.side == LOWER else upper)[not limit.column]
        away = by.get((name, limit.side), 0.0)
        # of a prescribed value and a bound of one column the tighter holds
        values[limit.index] = max(values[limit.index], limit.value - away) if limit.side == LOWER else \
            min(values[limit.index], limit.value + away)
    return lower, upper


Progress = Callable[[str], Any]
Improved = Callable[["Infeasibility"], Any]


@dataclass(frozen=True)
class Amount:
    """The relaxation of one side of a constraint. least: the smallest sufficient amount; by: rounded up, as tried; bound: the limit
    in the file
    where, time: the constraint or variable that needs the whole amount

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
        """Names of the constraints to relax."""
        return tuple(dict.fromkeys(amount.group for amount in self.amounts))


@dataclass(frozen=True)
class Infeasibility:
    """The conflict and its remedies.
    conflict: groups that exclude each other; remedies: each a smallest set, the least effort first. feasible: all constraints can
    be met at once, at ``point``; then nothing needs relaxation, and ``cost`` is that of the solve from there (NaN if it did not
    converge); status, ending: of a failed solve, that one or, if nothing is known, the one with every constraint relaxed

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
    """The named constraints that contradict each other, and the smallest sets to relax, found from the point x [n]. options: of the
    elastic programs; solving: of the solves that verify; progress: receives messages; improved: receives each improved result"""
    say = progress or (lambda words: None)
    know = improved or (lambda found: None)
    nlp, groups = program.nlp, program.groups
    names = [group.name for group in groups]
    say("relaxing all constraints")
    whole = solve_elastic(nlp, groups, names, x, options)
    solves = 1
    if not whole.feasible:
        x = nlp.x0
        say("again, from the guess")
        whole, solves = solve_elastic(nlp, groups, names, x, options), 2
    if not whole.feasible:
        return Infeasibility(False, solves=solves, status=whole.status, ending=whole.ending)
    if not whole.yielding:
        say("constraints are consistent: solving from there")
        found = uninterrupted(solve_nlp(replace(nlp, x0=whole.x), solving or options))
        done = found.status is Status.CONVERGED
        return Infeasibility(True, point=found.x if done else whole.x, cost=found.f if done else math.nan, solves=solves + 1,
                             status=None if done else found.status, ending=None if done else found.ending)
    conflict = _conflict(whole)
    know(Infeasibility(False, conflict, point=whole.x, solves=solves))
    tried, remedies, notes = conflict[:EXPLANATION.max_alternatives], [], []
    if len(conflict) > len(tried):
        notes.append(f"{len(conflict)} constraints are in conflict; only the {len(tried)} largest were relaxed one by one")
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
    """Groups with multipliers, largest first: those without one could be removed without changing the least total slack."""
    largest = max(found.push.values(), default=0.0)
    pushing = [name for name, value in found.push.items() if value > 1e-4 * largest and value > 1e-6]
    return tuple(sorted(pushing, key=lambda name: -found.push[name]))


def _filtered(program: Program, whole: Elastic, options: SolverOptions, say: Progress) -> tuple[Elastic, int]:
    """Deletion filter over the relaxed groups, those of least slack first. (solution, solves)"""
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
