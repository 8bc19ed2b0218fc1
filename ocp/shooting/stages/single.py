"""Step and expansions as one scalar graph without calls, where that is not too large.

Where a step evaluates dynamics and costs once, inlining repeats nothing, and what dynamics, their derivatives and costs have in
common is computed once. The dynamics of a robot under symplectic Euler come in closed form (``ocp.shooting.stages.symplectic``),
all others are differentiated algorithmically. Explicit Runge-Kutta steps go by the chain rule (``ocp.shooting.stages.explicit``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import casadi as ca

from dynamics.derivatives.inner import split
from dynamics.kernels import operations
from dynamics.lie.expression import Expr
from ocp.bridge import inner
from ocp.derivatives import choose
from ocp.integrators import serving
from ocp.problem import At, Cost, Phase
from ocp.shooting.options import ILQROptions
from ocp.shooting.stages import explicit
from ocp.shooting.stages.costs import quadratic, terms, total
from ocp.shooting.stages.expressions import Symbol, symbol_for
from ocp.shooting.stages.stage import Term, first_order, term
from ocp.shooting.stages.stretch import ClosedStep, Stretch
from ocp.shooting.stages.symplectic import robot_curvature
from ocp.shooting.stages.written import Write, Written

LIMIT = 3000
"""Instructions of one Function up to which it is inlined here."""

ENTRIES = 5000
"""Entries of the derivative of a step and of its Hessian up to which they are written out. Generated code has a branch for each,
and the time of the C compiler grows with the square of them (24 000: minutes)."""

CLOSED_LIMIT = 5000
"""Operations of one evaluation of the dynamics of a robot up to which a step is written in closed form. Measured, one knot,
generated code and loops: six joints (1690 operations) expand in 2.3 and 5.5 us and step in 0.4 and 1.7 us; free-floating
quadrupeds (3100 to 4400) expand in 10 and 12 to 16 us and step in 0.9 and 2.7 us; their code compiles in 6 s."""

CONSTRAINED_LIMIT = 40_000
"""The same under constraints. Measured, one knot of a quadruped of 18 degrees of freedom on two and four feet (13 600 and 24 000
operations): derivatives of accelerations and forces take 16 and 26 us of generated code, which compiles in 2 and 4 s, and 39 and
82 us of loops."""

MAX_OPERATIONS = 2500
"""Operations of one evaluation of the dynamics of a robot up to which its full Hessian is written out too."""


def closed_hessian(phase: Phase) -> bool:
    """Whether the full Hessian of a step in closed form is written out as well: of robots with flat coordinates, driven at their
    joints and by nothing else, that are not too large. All others leave it to loops over the robot."""
    system = phase.system
    robot = system.mechanism
    return (robot is not None and not (robot.thrusters or robot.forces or robot.constraints) and system.space.is_vector_space
            and system.space.nx == system.space.ndx and operations(system.rate) <= MAX_OPERATIONS)


def constrained(phase: Phase) -> bool:
    """Whether a robot is under constraints, and no running cost holds their forces: loops then give all that steps need of them.
    Costs of forces need them in closed form, and share it with the step."""
    known, robot = inner(phase.system), phase.system.mechanism
    return robot is not None and bool(robot.constraints) and (
        known is None or not any(split(cost.function, known.sought) for cost in terms(phase, At.PATH)))


def closed_form(phase: Phase, options: ILQROptions) -> bool:
    """Whether the steps of a phase run in closed form as one scalar graph: symplectic Euler of the forward dynamics of a robot that
    is not too large, where neither other derivatives nor loops are asked for."""
    system, sampled = phase.system.continuous, phase.system.formulation.sampled
    step = options.integrator if sampled is None else sampled.integrator if sampled.steps == 1 else ""
    robot = system.mechanism
    if step != "semi_implicit_euler" or options.derivatives not in ("auto", "analytic") or options.execution == "loops" \
            or robot is None or (robot.constraints and inner(system) is None):
        return False
    limit = CONSTRAINED_LIMIT if robot.constraints else CLOSED_LIMIT
    return (not any(thruster.against for thruster in robot.thrusters) and operations(system.rate) <= limit and _inlined(phase, ()))


def single_graph(stretch: Stretch, options: ILQROptions, loops: bool) -> Write | None:
    """Step and expansions as one scalar graph, where nothing is too large for it, and loops do not take the step.

    stretch: with the dynamics as they were given, before derivatives of a certain source were put into them; loops: over the robot,
    for the step or, beside a closed form, its full Hessian.
    """
    if loops and constrained(stretch.phase):
        return None
    system, scheme = stretch.phase.system, serving(stretch.phase.system, options.integrator)
    if closed_form(stretch.phase, options):
        hessian = partial(robot_curvature, system) if closed_hessian(stretch.phase) and not stretch.constants.count else None
        return lambda t, x, u, p, h: _once(stretch, t, x, u, p, h, stretch.closed_step(x, u, h), hessian)
    if choose(system, options.derivatives, "auto")[0] != "ad":
        return None
    if scheme.single and _inlined(stretch.phase, (system.rate,)):
        return lambda t, x, u, p, h: _once(
            stretch, t, x, u, p, h, ClosedStep(stretch.advance(options.integrator, t, x, u, p, h)[0]), None, options.integrator)
    functions = [system.rate, *(cost.function for cost in terms(stretch.phase, At.PATH))]
    tableau = scheme.tableau
    if tableau is not None and tableau.explicit and not scheme.single and symbol_for(functions) is ca.SX.sym:
        rectangle = options.cost_quadrature == "rectangle"
        return lambda t, x, u, p, h: replace(explicit.write(stretch, tableau, rectangle, t, x, u, p, h),
                                             inner=_inside(stretch, t, x, u))
    return None


def _once(stretch: Stretch, t: Expr, x: Expr, u: Expr, p: Expr, h: Expr, step: ClosedStep,
          hessian: Callable[[Expr, Expr, Expr, Expr], Expr] | None = None, integrator: str | None = None) -> Written:
    """A step that evaluates everything at x. For the full Hessian, hessian(x, u, h, costate): that of the step; or integrator:
    differentiate it a second time."""
    space, system, costs = stretch.space, stretch.phase.system, stretch.costs(At.PATH)
    found = running_terms(stretch, costs, [(h, t, x)], ca.SX.sym)
    g, F, H = first_order(space, space, x, u, p, found, step.after, step.F)
    n, m, apart = space.ndx, system.nu, hessian is not None or stretch.inner is not None

    def differentiated(costate: Expr) -> Expr:
        z, y, there = ca.SX.sym("z", n + m), ca.SX.sym("y", n), ca.SX.sym("after", space.nx)
        near, control = space.jet(x, z[:n]), z[n:]
        value = ca.dot(y, space.minus(there, stretch.advance(str(integrator), t, near, control, p, h)[0]))
        if not apart:  # costs and dynamics may have much in common
            value += h * total(costs, t, near, control, p)
        function = ca.Function("hessian", [t, x, p, h, z, there, y], [ca.hessian(value, z)[0]])
        return function(t, x, p, h, ca.vertcat(ca.SX.zeros(n), u), step.after, costate)

    def full(costate: Expr) -> Expr:
        H = differentiated(costate) if hessian is None else hessian(x, u, h, costate)
        return H + h * quadratic(space, m, system.np, costs, ca.SX.sym, True, stretch.inner)(t, x, u, p)[1] if apart else H

    return Written(step.after, h * total(costs, t, x, u, p), g, F, H, None if hessian is None and integrator is None else full,
                   _inside(stretch, t, x, u, step.inner))


def _inside(stretch: Stretch, t: Expr, x: Expr, u: Expr, found: tuple[Expr, Expr] | None = None
            ) -> Callable[[], tuple[Expr, Expr]] | None:
    """Values of the dynamics in constraints, with their derivative; found: where they are at hand."""
    known = stretch.inner
    if found is not None:
        return lambda: found
    return None if known is None else lambda: known.first(t, x, u)


def _inlined(phase: Phase, dynamics: Sequence[ca.Function]) -> bool:
    """Whether dynamics and running costs fit into one scalar graph."""
    n, m, known = phase.system.space.ndx, phase.system.nu, inner(phase.system)
    costs = [cost.function for cost in terms(phase, At.PATH)]
    if known is not None:  # forces of constraints are part of the dynamics
        costs = [split(cost, known.sought) or cost for cost in costs]
    functions = [*dynamics, *costs]
    return (n + m) * (2 * n + m) <= ENTRIES and symbol_for(functions, LIMIT) is ca.SX.sym


def running_terms(stretch: Stretch, costs: Sequence[Cost], nodes: Sequence[tuple[Expr, Expr, Expr]], sym: Symbol) -> list[Term]:
    """Running costs at the nodes of a step."""
    system, inner = stretch.phase.system, stretch.inner if costs else None
    return [term(w, t, x, stretch.space, system.nu, system.np, costs, sym, True, inner) for w, t, x in nodes] if costs else []
