"""Systems with algebraic unknowns, in the two ways that methods understand.

    xi = rate(t, x, (u, z), p)        0 = residual(t, x, (u, z), p)

Stated: z are inputs like controls, and the equations a path constraint that holds wherever inputs are unknowns. A collocation
scheme then has F = 0 at its points, with the slope of its polynomial in the place of xi. Eliminated: z(t, x, u, p) by the
implicit-function theorem, and the system is explicit; so shooting sees it. Both ask for index 1: d residual / dz is regular.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.guess import sample_guess
from ocp.implicit import implicit
from ocp.problem import INF, At, Constraint, Cost, Guess, Phase, Problem, Sense, Solution, System, Trajectory, join
from ocp.spaces import Space

#: name of the path constraint that holds the equations, and of the bounds of eliminated unknowns
EQUATIONS, LIMITS = "equations", "limits of algebraic unknowns"
#: equations that are linear in so few unknowns are solved in a scalar graph
INLINE = 12
#: Newton steps at a guess, halvings of one, and what counts as solved relative to the terms' sizes
STEPS, HALVINGS, SOLVED = 50, 12, 1e-10
#: singular values below this part of the largest, rows and columns of one size, are none
SINGULAR = 1e-11
#: points of a guess at which equations are looked at
SAMPLES = 41


# ---- to say a system ----------------------------------------------------------------------------------------------------
def implicit_system(name: str, space: Space, controls: tuple[str, ...], equations: ca.Function, algebraic: tuple[str, ...] = (),
                    **fields: Any) -> System:
    """The system ``F(t, x, xi, u, z, p) = 0`` with F [ndx + nz] rows: its tangent rates xi are algebraic unknowns ``der(...)``
    before z. fields: the others of ``System``. Raises ProblemError for other numbers of rows or arguments."""
    ndx, nz, nu = space.ndx, len(algebraic), len(controls)
    sizes = (1, space.nx, ndx, nu, nz, len(fields.get("parameters", ())))
    found = tuple(equations.numel_in(i) for i in range(equations.n_in()))
    if found != sizes:
        raise ProblemError(f"F(t, x, xi, u, z, p) has arguments of sizes {found}, expected {sizes}", where=f"system {name!r}")
    sym = ca.SX.sym if equations.is_a("SXFunction") else ca.MX.sym
    t, x, w, p = sym("t"), sym("x", space.nx), sym("u", nu + ndx + nz), sym("p", sizes[-1])
    xi, z = w[nu:nu + ndx], w[nu + ndx:]
    arguments, names = [t, x, w, p], list("txup")
    residual = ca.Function("residual", arguments, [ca.densify(equations(t, x, xi, w[:nu], z, p))], names, ["F"])
    return System(name, space, controls, ca.Function("rate", arguments, [xi], names, ["xi"]), residual=residual,
                  algebraic=(*(f"der({n})" for n in space.tangent_names), *algebraic), **fields)


# ---- stated -------------------------------------------------------------------------------------------------------------
def stated(problem: Problem) -> Problem:
    """The problem with the equations of its systems as path constraints, and a guess that is consistent where Newton's method
    makes it so; itself where there are none. Raises ProblemError where equations do not determine the unknowns."""
    phases = tuple(_stated(phase) for phase in problem.phases)
    return problem if all(a is b for a, b in zip(phases, problem.phases, strict=True)) else replace(problem, phases=phases)


def _stated(phase: Phase) -> Phase:
    system = phase.system
    if system.residual is None or any(c.function is system.residual for c in phase.constraints):
        return phase
    guess = consistent(phase)
    check_index(replace(phase, guess=guess))
    none = (0.0,) * len(system.algebraic)
    held = Constraint(EQUATIONS, At.PATH, system.residual, none, none, Sense.EQUAL, labels=system.equations)
    return replace(phase, constraints=(*phase.constraints, held), guess=guess)


def consistent(phase: Phase) -> Guess:
    """The guess with unknowns that solve the equations, from those that it has; as it is where Newton's method does not end."""
    system, count = phase.system, len(phase.system.controls)
    s = np.union1d(np.linspace(0.0, 1.0, SAMPLES), phase.guess.s)
    x, u = sample_guess(phase.guess, system.space, s)
    p, F, u = np.array(system.parameter_values), _slopes(system), u.copy()
    for k, r in enumerate(s):
        t = r * phase.duration.guess
        tries = (u[k, count:], u[k - 1, count:]) if k else (u[k, count:],)
        for start in tries:
            found = _newton(F, t, x[k], u[k, :count], start, p)
            if found is not None:
                u[k, count:] = found
                break
    return Guess(s, x, u)


def _slopes(system: System) -> ca.Function:
    """(t, x, u, p) -> residual [nz], its derivative by z [nz, nz]."""
    sym = ca.SX.sym if system.residual.is_a("SXFunction") else ca.MX.sym
    t, x, p = sym("t"), sym("x", system.nx), sym("p", system.np)
    u, z = sym("u", len(system.controls)), sym("z", len(system.algebraic))
    value = system.residual(t, x, ca.vertcat(u, z), p)
    return ca.Function("slopes", [t, x, u, z, p], [ca.densify(value), ca.densify(ca.jacobian(value, z))])


def _newton(F: ca.Function, t: float, x: np.ndarray, u: np.ndarray, z: np.ndarray, p: np.ndarray) -> np.ndarray | None:
    """A zero z [nz], by damped steps; None where they do not end at one."""
    value, J = (np.asarray(part) for part in F(t, x, u, z, p))
    for _ in range(STEPS):
        value = value.ravel()
        if not (np.all(np.isfinite(value)) and np.all(np.isfinite(J))):
            return None
        if np.max(np.abs(value), initial=0.0) <= SOLVED * (1.0 + np.max(np.abs(J) @ np.abs(z), initial=0.0)):
            return np.asarray(z)
        step = np.linalg.lstsq(J, -value, rcond=None)[0]
        for halving in range(HALVINGS):
            trial = z + step / 2**halving
            after, slope = (np.asarray(part) for part in F(t, x, u, trial, p))
            if np.linalg.norm(after) < np.linalg.norm(value):
                break
        else:
            return None
        z, value, J = trial, after, slope
    return None


# ---- index --------------------------------------------------------------------------------------------------------------
def check_index(phase: Phase) -> None:
    """Raises ProblemError where the equations do not determine the algebraic unknowns: by structure, or at every point of the
    guess; named are the unknowns and equations that stand in the way."""
    system = phase.system
    count, z = len(system.controls), system.algebraic
    rows = system.equations or tuple(f"equation {i + 1}" for i in range(len(z)))
    pattern = np.asarray(ca.DM(system.residual.jac_sparsity(0, 2), 1))[:, count:] > 0
    loose, idle = _unmatched(pattern)
    if loose:
        told, over = "; ".join(_loose(z[j], rows, pattern[:, j]) for j in loose), _names([rows[i] for i in idle])
        raise ProblemError(f"{told}, and {over} is left without an unknown: the index is 2 or higher. Differentiate {over} by "
                           f"time until {_names([z[j] for j in loose])} appears, or take the unknown away",
                           where=f"system {system.name!r}")
    F, p = _slopes(system), np.array(system.parameter_values)
    worst: tuple[np.ndarray, np.ndarray] | None = None
    for s, x, u in zip(phase.guess.s, phase.guess.x, phase.guess.u, strict=True):
        J = np.asarray(F(s * phase.duration.guess, x, u[:count], u[count:], p)[1])
        if not np.all(np.isfinite(J)):
            continue
        for axis in (1, 0):
            size = np.max(np.abs(J), axis=axis, keepdims=True)
            J = J / np.where(size > 0, size, 1.0)
        left, values, right = np.linalg.svd(J)
        if values[-1] > SINGULAR * values[0]:
            return
        worst = (right[-1], left[:, -1])
    if worst is None:
        return
    unknowns, equations = ([n for n, v in zip(names, np.abs(vector), strict=True) if v > 0.1 * np.abs(vector).max()]
                           for names, vector in ((z, worst[0]), (rows, worst[1])))
    raise ProblemError(f"the equations do not determine {_names(unknowns)}: their derivative by the unknowns is singular along the "
                       f"guess, in {_names(equations)}; the index is 2 or higher, or equations repeat each other. Differentiate "
                       "constraints by time until the unknowns appear, or give the unknowns a guess where they do",
                       where=f"system {system.name!r}")


def _loose(name: str, rows: Sequence[str], appears: np.ndarray) -> str:
    where = [row for row, there in zip(rows, appears, strict=True) if there]
    return f"algebraic {name!r} appears only in {_names(where)}, which others need" if where else \
        f"algebraic {name!r} appears in no equation"


def _names(names: Sequence[str]) -> str:
    return " and ".join(repr(name) for name in names)


def _unmatched(pattern: np.ndarray) -> tuple[list[int], list[int]]:
    """Unknowns and equations that are left where every equation is given one of its unknowns, as many as can be."""
    owner = np.full(pattern.shape[1], -1)

    def given(row: int, seen: set[int]) -> bool:
        for j in np.flatnonzero(pattern[row]):
            if int(j) not in seen:
                seen.add(int(j))
                if owner[j] < 0 or given(int(owner[j]), seen):
                    owner[j] = row
                    return True
        return False

    idle = [row for row in range(pattern.shape[0]) if not given(row, set())]
    return np.flatnonzero(owner < 0).tolist(), idle


# ---- eliminated ---------------------------------------------------------------------------------------------------------
def eliminated(problem: Problem) -> Problem:
    """The problem of explicit systems, their algebraic unknowns functions z(t, x, u, p) with exact derivatives, their bounds path
    constraints; itself where there are none. Raises ProblemError as ``stated`` does."""
    if all(phase.system.residual is None for phase in problem.phases):
        return problem
    return replace(problem, phases=tuple(_eliminated(phase) for phase in stated(problem).phases))


def _eliminated(phase: Phase) -> Phase:
    system = phase.system
    if system.residual is None:
        return phase
    count, plain = len(system.controls), composer(phase)

    def held(item: Any) -> Any:
        return replace(item, function=plain(item.function))

    costs: tuple[Cost, ...] = tuple(held(cost) for cost in phase.costs)
    constraints = [held(c) for c in phase.constraints if c.function is not system.residual]
    return replace(phase, system=explicit_system(phase), costs=costs, constraints=(*constraints, *_limits(phase)),
                   u_lower=phase.u_lower[:count], u_upper=phase.u_upper[:count],
                   guess=replace(phase.guess, u=phase.guess.u[:, :count]), stated=phase)


def explicit_system(phase: Phase) -> System:
    """The system of a stated phase with its unknowns eliminated."""
    system, plain = phase.system, composer(phase)
    energy, power = (None if f is None else plain(f) for f in (system.energy, system.power))
    return replace(system, algebraic=(), residual=None, equations=(), constraints=(), rate=plain(system.rate), energy=energy,
                   power=power, u_limits=system.u_limits[:len(system.controls)])


def composer(phase: Phase) -> Callable[[ca.Function], ca.Function]:
    """What makes functions of (t, x, u, p) of those of (t, x, (u, z), p) of a stated phase."""
    system, z = phase.system, unknowns(phase)
    return lambda function: _composed(system, z, function)


def unknowns(phase: Phase) -> ca.Function:
    """(t, x, u, p) -> z [nz], u the controls alone, of a stated phase: ``settled``, which begins where the guess does."""
    system = phase.system
    z, count = settled(system), len(system.controls)
    sym = ca.SX.sym if z.is_a("SXFunction") else ca.MX.sym
    t, x, u, p = arguments = [sym(name, size) for name, size in zip("txup", (1, system.nx, count, system.np), strict=True)]
    value = z(t, x, ca.vertcat(u, ca.DM(phase.guess.u[0, count:])), p)
    return ca.Function("unknowns", arguments, [value], list("txup"), ["z"])


def settled(system: System) -> ca.Function:
    """(t, x, (u, start), p) -> z [nz] that solves the equations; NaN where Newton's method does not converge, which begins at
    start. Exact to every derivative: a linear solve where the equations are linear in z, else the implicit-function theorem
    (``ocp.implicit``)."""
    F, n, count = system.residual, len(system.algebraic), len(system.controls)
    kind, sizes = ca.SX if F.is_a("SXFunction") else ca.MX, (1, system.nx, count, system.np)
    arguments = [kind.sym(name, size) for name, size in zip("txup", sizes, strict=True)]
    z = kind.sym("z", n)
    value = ca.densify(F(*arguments[:2], ca.vertcat(arguments[2], z), arguments[3]))
    slope = ca.jacobian(value, z)
    linear = not ca.depends_on(slope, z)
    sym = ca.SX.sym if linear and kind is ca.SX and n <= INLINE else ca.MX.sym
    t, x, w, p = symbols = [sym(name, size) for name, size in zip("txup", (1, system.nx, count + n, system.np), strict=True)]
    here = [t, x, w[:count], p]
    if linear:
        parts = ca.Function("parts", arguments, ca.cse([ca.densify(slope), ca.densify(ca.substitute(value, z, ca.DM.zeros(n)))]))
        A, b = parts(*here)
        found = ca.cse(ca.solve(A, -b)) if sym is ca.SX.sym else ca.solve(A, -b, "qr")
    else:
        right = -ca.horzcat(*(ca.jacobian(value, a) for a in arguments))
        solve = implicit("unknowns", [z, *arguments], value, ca.densify(slope), ca.densify(right))
        found = solve(w[count:], here)
    return ca.Function("unknowns", symbols, [found], list("txup"), ["z"])


def _composed(system: System, z: ca.Function, function: ca.Function) -> ca.Function:
    """A function of (t, x, (u, z), p) as one of (t, x, u, p)."""
    count = len(system.controls)
    uses = any(column >= count for column in function.jac_sparsity(0, 2).get_col())
    scalar = function.is_a("SXFunction") and (not uses or z.is_a("SXFunction"))
    sym = ca.SX.sym if scalar else ca.MX.sym
    t, x, u, p = arguments = [sym(n, size) for n, size in zip("txup", (1, system.nx, count, system.np), strict=True)]
    whole = ca.vertcat(u, z(t, x, u, p) if uses else ca.DM.zeros(len(system.algebraic)))
    value = function(t, x, whole, p)
    return ca.Function(function.name(), arguments, [ca.cse(value) if scalar else value], list("txup"), function.name_out())


def _limits(phase: Phase) -> tuple[Constraint, ...]:
    """Bounds of the unknowns as a path constraint."""
    count = len(phase.system.controls)
    low, high = phase.u_lower[count:], phase.u_upper[count:]
    kept = [i for i in range(len(low)) if (low[i], high[i]) != (-INF, INF)]
    if not kept:
        return ()
    z = unknowns(phase)
    sym = ca.SX.sym if z.is_a("SXFunction") else ca.MX.sym
    arguments = [sym(name, z.numel_in(i)) for i, name in enumerate("txup")]
    function = ca.Function("limits", arguments, [ca.densify(z(*arguments)[kept])], list("txup"), ["value"])
    return (Constraint(LIMITS, At.PATH, function, tuple(low[i] for i in kept), tuple(high[i] for i in kept),
                       labels=tuple(phase.system.algebraic[i] for i in kept)),)


# ---- back ---------------------------------------------------------------------------------------------------------------
def solving(phase: Phase) -> Phase:
    """A stated phase whose rate solves the equations, from the unknowns that it is given; without costs and constraints."""
    system = phase.system
    z, count = settled(system), len(system.controls)
    sym = ca.SX.sym if z.is_a("SXFunction") and system.rate.is_a("SXFunction") else ca.MX.sym
    t, x, w, p = arguments = [sym(name, size) for name, size in zip("txup", (1, system.nx, system.nu, system.np), strict=True)]
    rate = ca.Function("rate", arguments, [system.rate(t, x, ca.vertcat(w[:count], z(*arguments)), p)], list("txup"), ["xi"])
    explicit = replace(system, rate=rate, controls=system.inputs, algebraic=(), residual=None, equations=(),
                       constraints=())
    return replace(phase, system=explicit, costs=(), constraints=())


def followed(phase: Phase, path: Trajectory) -> Trajectory:
    """A trajectory of a stated phase, whose unknowns are known at the points of its controls alone, with those that solve the
    equations at any time."""
    system, p = phase.system, np.array(phase.system.parameter_values)
    z, count = settled(system), len(phase.system.controls)

    def control(t: Any) -> np.ndarray:
        flat = np.atleast_1d(np.asarray(t, dtype=float)).ravel()
        x, w = (np.asarray(part(flat)).reshape(len(flat), -1) for part in (path.state, path.control))
        found = np.asarray(z(flat[None, :], x.T, w.T, np.repeat(p[:, None], len(flat), axis=1))).T
        return np.column_stack([w[:, :count], found]).reshape(*np.shape(t), system.nu)

    return replace(path, control=control)


def seen(phase: Phase, path: Trajectory) -> tuple[Phase, Trajectory]:
    """An eliminated phase and its trajectory with the unknowns z behind the controls, solved for at any time; another as it is."""
    if phase.stated is None:
        return phase, path
    known = replace(phase.stated, duration=phase.duration,
                    system=replace(phase.stated.system, parameter_values=phase.system.parameter_values))
    system, z, p = known.system, unknowns(known), np.array(phase.system.parameter_values)

    def both(t: Any, u: np.ndarray) -> np.ndarray:
        flat = np.atleast_1d(np.asarray(t, dtype=float))
        x, rows = np.asarray(path.state(flat)).reshape(len(flat), system.nx), u.reshape(len(flat), len(system.controls))
        found = np.asarray(z(flat[None, :], x.T, rows.T, np.repeat(p[:, None], len(flat), axis=1))).T
        return np.column_stack([rows, found])

    def control(t: Any) -> np.ndarray:
        found = both(t, np.asarray(path.control(t)))
        return found if np.ndim(t) else found[0]

    return known, replace(path, u=both(path.t_u, path.u), control=control)


def restored(solution: Solution) -> Solution:
    """The solution of an eliminated problem as one of the problem with its algebraic unknowns; others as they are."""
    problem = solution.problem
    if all(phase.stated is None for phase in problem.phases):
        return solution
    pairs = [seen(*pair) for pair in zip(problem.phases, solution.parts or (solution.trajectory,), strict=True)]
    parts = tuple(path for _, path in pairs)
    return replace(solution, problem=replace(problem, phases=tuple(phase for phase, _ in pairs)), trajectory=join(parts),
                   parts=parts if solution.parts else ())
