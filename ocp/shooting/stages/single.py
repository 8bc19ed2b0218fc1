"""Step and Gauss-Newton expansion as one scalar graph without calls, where a step evaluates the dynamics and the costs once.

Inlining repeats nothing then, and what dynamics, their derivatives and costs have in common is computed once. The dynamics of
a robot under symplectic Euler come in closed form (``ocp.shooting.stages.symplectic``), all others are differentiated
algorithmically.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca

from dynamics.kernels import operations
from ocp.derivatives import choose
from ocp.integrators import INTEGRATORS
from ocp.problem import At, Cost, Phase
from ocp.shooting.options import ILQROptions
from ocp.shooting.stages.costs import terms
from ocp.shooting.stages.expressions import Symbol, symbol_for
from ocp.shooting.stages.stage import Term, term
from ocp.shooting.stages.stretch import Stretch

Expr = Any
Single = Callable[[Expr, Expr, Expr, Expr, Expr], tuple[Expr, list[Term], Expr | None]]
"""(t, x, u, p, h) -> state after the step, cost terms, derivative of the step or None; all SX."""

LIMIT = 3000
"""Instructions of one Function up to which it is inlined here."""

ENTRIES = 5000
"""Entries of the derivative of a step and of its Hessian up to which they are written out. Generated code has a branch for each,
and the time of the C compiler grows with the square of them (24 000: minutes)."""

CLOSED_LIMIT = 5000
"""Operations of one evaluation of the dynamics of a robot up to which a step is written in closed form. Measured, one knot,
generated code and loops: six joints (1690 operations) expand in 2.3 and 5.5 us and step in 0.4 and 1.7 us; free-floating
quadrupeds (3100 to 4400) expand in 10 and 12 to 16 us and step in 0.9 and 2.7 us; their code compiles in 6 s."""


def closed_form(phase: Phase, options: ILQROptions) -> bool:
    """Whether the steps of a phase run in closed form as one scalar graph: symplectic Euler of the forward dynamics of a robot that
    is not too large, where neither other derivatives nor loops are asked for."""
    system = phase.system
    return (options.integrator == "semi_implicit_euler" and options.derivatives in ("auto", "analytic")
            and options.execution in ("auto", "generated") and system.actuation is not None
            and operations(system.rate) <= CLOSED_LIMIT and _inlined(phase, ()))


def single_graph(stretch: Stretch, options: ILQROptions) -> Single | None:
    """Step and expansion as one scalar graph, where the integrator evaluates everything once and nothing is too large for it.

    stretch: with the dynamics as they were given, before derivatives of a certain source were put into them.
    """
    system, running = stretch.phase.system, stretch.costs(At.PATH)
    closed = closed_form(stretch.phase, options)
    if not closed and not (INTEGRATORS[options.integrator].single and choose(system, options.derivatives, "auto")[0] == "ad"
                           and _inlined(stretch.phase, (system.rate,))):
        return None

    def single(t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> tuple[Expr, list[Term], Expr | None]:
        after, F = stretch.closed_step(x, u, h) if closed else (stretch.advance(options.integrator, t, x, u, p, h)[0], None)
        return after, running_terms(stretch, running, [(h, t, x)], ca.SX.sym), F

    return single


def _inlined(phase: Phase, dynamics: Sequence[ca.Function]) -> bool:
    """Whether dynamics and running costs fit into one scalar graph."""
    n, m = phase.system.space.ndx, phase.system.nu
    functions = [*dynamics, *(cost.function for cost in terms(phase, At.PATH))]
    return (n + m) * (2 * n + m) <= ENTRIES and symbol_for(functions, LIMIT) is ca.SX.sym


def running_terms(stretch: Stretch, costs: Sequence[Cost], nodes: Sequence[tuple[Expr, Expr, Expr]], sym: Symbol) -> list[Term]:
    """Running costs at the nodes of a step."""
    system = stretch.phase.system
    return [term(w, t, x, stretch.space, system.nu, system.np, costs, sym, True) for w, t, x in nodes] if costs else []
