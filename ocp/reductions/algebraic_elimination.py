"""Algebraic unknowns eliminated: z(t, x, u, p) by the implicit-function theorem, so that the system is explicit.
The equations must be of index 1 (``ocp.reductions.algebraic_index``) and already be path constraints, which makes the guess
consistent: Newton's method starts at it.

"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from dynamics.mechanism import ByFingerprint
from ocp.bridge import equations_of_motion
from ocp.errors import ProblemError
from ocp.implicit import implicit
from ocp.problem import At, Constraint, Cost, Form, Formulation, Phase, Problem, Solution, System, Trajectory
from ocp.reductions.algebraic_equations import states_equations
from ocp.reductions.chain import Reduction, in_given_phases

#: name of the path constraint that holds the bounds of eliminated unknowns
LIMITS = "limits of algebraic unknowns"
#: equations that are linear in so few unknowns are solved in a scalar graph
MAX_SCALAR_UNKNOWNS = 12


class AlgebraicElimination(Reduction):
    """Makes systems explicit, and bounds of the unknowns path constraints, for methods whose programs have no such unknowns.
    Inverse data: the phases with their equations, None for those without."""

    name = "algebraic_elimination"

    def needed(self, options: Any) -> bool:
        """Whether a method with these options needs explicit systems."""
        return not getattr(options, "keeps_algebraic_unknowns", False)

    def apply(self, problem: Problem) -> tuple[Problem, tuple[Phase | None, ...]]:
        """The problem with explicit systems, and the data for ``invert``."""
        found = tuple(None if phase.system.residual is None else phase for phase in problem.phases)
        if all(phase is None for phase in found):
            return problem, found
        return replace(problem, phases=tuple(_eliminated(phase) for phase in problem.phases)), found

    def invert(self, solution: Solution, data: tuple[Phase | None, ...]) -> Solution:
        """The solution with the algebraic unknowns."""
        return in_given_phases(solution, data, with_unknowns)


def require_explicit(problem: Problem) -> None:
    """Raise ProblemError for a problem with algebraic unknowns, which the method would ignore."""
    for phase in problem.phases:
        if phase.system.residual is not None:
            raise ProblemError("has algebraic unknowns, and this method solves explicit systems: solve it by ocp.methods.solve, or "
                               "reduce it first", where=f"phase {phase.name!r}")


def _eliminated(phase: Phase) -> Phase:
    system = phase.system
    if system.residual is None:
        return phase
    if not states_equations(phase):
        raise ProblemError("apply algebraic_equations before algebraic_elimination", where=f"phase {phase.name!r}")
    count, plain = len(system.controls), composer(phase)

    def active(item: Any) -> Any:
        return replace(item, function=plain(item.function))

    costs: tuple[Cost, ...] = tuple(active(cost) for cost in phase.costs)
    constraints = [active(c) for c in phase.constraints if c.function is not system.residual]
    return phase.with_bounds(controls=phase.control_bounds[:count], system=explicit_system(phase), costs=costs,
                             constraints=(*constraints, *_limits(phase)),
                             guess=replace(phase.guess, u=phase.guess.u[:, :count]))


def explicit_system(phase: Phase) -> System:
    """The system of a phase with its algebraic unknowns eliminated."""
    system, plain = phase.system, composer(phase)
    energy, power = (None if f is None else plain(f) for f in (system.energy, system.power))
    robot = system.implicit
    form = system.formulation if robot is None else Formulation(Form.EXPLICIT, robot, functools.cache(
        lambda: equations_of_motion(robot, system.np)))
    return replace(system, algebraic=(), residual=None, equations=(), constraints=(), rate=plain(system.rate), energy=energy,
                   power=power, u_limits=system.u_limits[:len(system.controls)], formulation=form)


def composer(phase: Phase) -> Callable[[ca.Function], ca.Function]:
    """A function that makes functions of (t, x, u, p) from those of (t, x, (u, z), p)."""
    system, z = phase.system, unknowns(phase)
    return lambda function: _composed(system, z, function)


def unknowns(phase: Phase) -> ca.Function:
    """(t, x, u, p) -> z [nz], u the controls alone: ``settled``, started from the guess."""
    system = phase.system
    z, count = settled(system), len(system.controls)
    sym = ca.SX.sym if z.is_a("SXFunction") else ca.MX.sym
    t, x, u, p = arguments = [sym(name, size) for name, size in zip("txup", (1, system.nx, count, system.np), strict=True)]
    value = z(t, x, ca.vertcat(u, ca.DM(phase.guess.u[0, count:])), p)
    return ca.Function("unknowns", arguments, [value], list("txup"), ["z"])


def settled(system: System) -> ca.Function:
    """(t, x, (u, start), p) -> z [nz] that solves the equations, by Newton's method from start; NaN if it does not converge. Exact
    to every derivative: of a robot its forward dynamics, a linear solve for equations linear in z, else the implicit-function
    theorem (``ocp.implicit``)."""
    F, n, count = system.residual, len(system.algebraic), len(system.controls)
    if (closed := forward_dynamics(system)) is not None:
        return closed
    kind, sizes = ca.SX if F.is_a("SXFunction") else ca.MX, (1, system.nx, count, system.np)
    arguments = [kind.sym(name, size) for name, size in zip("txup", sizes, strict=True)]
    z = kind.sym("z", n)
    value = ca.densify(F(*arguments[:2], ca.vertcat(arguments[2], z), arguments[3]))
    gradient = ca.jacobian(value, z)
    linear = not ca.depends_on(gradient, z)
    sym = ca.SX.sym if linear and kind is ca.SX and n <= MAX_SCALAR_UNKNOWNS else ca.MX.sym
    t, x, w, p = symbols = [sym(name, size) for name, size in zip("txup", (1, system.nx, count + n, system.np), strict=True)]
    here = [t, x, w[:count], p]
    if linear:
        parts = ca.Function("parts", arguments, ca.cse([ca.densify(gradient), ca.densify(ca.substitute(value, z, ca.DM.zeros(n)))]))
        A, b = parts(*here)
        found = ca.cse(ca.solve(A, -b)) if sym is ca.SX.sym else ca.solve(A, -b, "qr")
    else:
        right = -ca.horzcat(*(ca.jacobian(value, a) for a in arguments))
        solve = implicit("unknowns", [z, *arguments], value, ca.densify(gradient), ca.densify(right))
        found = solve(w[count:], here)
    return ca.Function("unknowns", symbols, [found], list("txup"), ["z"])


def forward_dynamics(system: System) -> ca.Function | None:
    """(t, x, (u, start), p) -> accelerations and multipliers of a robot in residual form; None for other systems."""
    return None if system.implicit is None else _forward_dynamics(ByFingerprint(system.implicit), system.nu, system.np)


@functools.lru_cache(maxsize=16)
def _forward_dynamics(key: ByFingerprint, nu: int, np: int) -> ca.Function:
    active, nq, nv = key.mechanism, key.mechanism.model.nq, key.mechanism.model.nv
    t, x, w, p = (ca.SX.sym(name, size) for name, size in zip("txup", (1, nq + nv, nu, np), strict=True))
    found = ca.vertcat(*active.reduced_dynamics(x[:nq], x[nq:], w[:active.nu], t))
    return ca.Function("unknowns", [t, x, w, p], [ca.cse(ca.densify(found))], list("txup"), ["z"])


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
    bounds = phase.control_bounds[count:]
    retained = np.flatnonzero(bounds.bounded).tolist()
    if not retained:
        return ()
    z = unknowns(phase)
    sym = ca.SX.sym if z.is_a("SXFunction") else ca.MX.sym
    arguments = [sym(name, z.numel_in(i)) for i, name in enumerate("txup")]
    function = ca.Function("limits", arguments, [ca.densify(z(*arguments)[retained])], list("txup"), ["value"])
    labels = tuple(phase.system.algebraic[i] for i in retained)
    return (Constraint.within(LIMITS, At.PATH, function, bounds[retained], labels=labels),)


def with_unknowns(original: Phase, phase: Phase, path: Trajectory) -> tuple[Phase, Trajectory]:
    """The phase with its equations, and the trajectory with the unknowns z that solve them at any time behind the controls."""
    known = replace(original, duration=phase.duration,
                    system=replace(original.system, parameter_values=phase.system.parameter_values))
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


# ---- at other points than those of a program ----------------------------------------------------------------------------
def solving(phase: Phase) -> Phase:
    """A phase whose rate solves the equations, from the given unknowns; without costs and constraints."""
    system = phase.system
    z, count = settled(system), len(system.controls)
    sym = ca.SX.sym if z.is_a("SXFunction") and system.rate.is_a("SXFunction") else ca.MX.sym
    t, x, w, p = arguments = [sym(name, size) for name, size in zip("txup", (1, system.nx, system.nu, system.np), strict=True)]
    rate = ca.Function("rate", arguments, [system.rate(t, x, ca.vertcat(w[:count], z(*arguments)), p)], list("txup"), ["xi"])
    explicit = replace(system, rate=rate, controls=system.inputs, algebraic=(), residual=None, equations=(),
                       constraints=())
    return replace(phase, system=explicit, costs=(), constraints=())


def followed(phase: Phase, path: Trajectory) -> Trajectory:
    """A trajectory whose unknowns are known only at the points of its controls, with those that solve the equations at any time."""
    system, p = phase.system, np.array(phase.system.parameter_values)
    z, count = settled(system), len(phase.system.controls)

    def control(t: Any) -> np.ndarray:
        flat = np.atleast_1d(np.asarray(t, dtype=float)).ravel()
        x, w = (np.asarray(part(flat)).reshape(len(flat), -1) for part in (path.state, path.control))
        found = np.asarray(z(flat[None, :], x.T, w.T, np.repeat(p[:, None], len(flat), axis=1))).T
        return np.column_stack([w[:, :count], found]).reshape(*np.shape(t), system.nu)

    return replace(path, control=control)
