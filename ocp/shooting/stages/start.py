"""The first stage of a horizon: the choice of what is free at the start, and the state that it starts from."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynamics.lie.expression import Expr
from ocp.errors import ProblemError
from ocp.problem import At
from ocp.shooting.stages.expressions import Symbol, symbol_for
from ocp.shooting.stages.rows import start_rows
from ocp.shooting.stages.stage import Draft, Term, term
from ocp.shooting.stages.stretch import Stretch


def end_costs(stretch: Stretch, at: At, sym: Symbol, t: Expr, x: Expr) -> list[Term]:
    """Costs at the start or at the end of a phase."""
    costs, system = stretch.costs(at), stretch.phase.system
    return [term(1.0, t, x, stretch.space, system.nu, system.np, costs, sym, False)] if costs else []


def free_at_start(stretch: Stretch) -> list[int]:
    """Tangent components of the carried state that are chosen at the start."""
    phase = stretch.phase
    ndx = phase.system.space.ndx
    fixed = (False,) * ndx if phase.start is None else phase.start.fixed
    return [i for i, held in enumerate(fixed) if not held] + list(range(ndx, ndx + stretch.constants.chosen))


def free_start(stretch: Stretch) -> Draft | None:
    """The choice of what is free at the start; None where nothing is."""
    phase, space = stretch.phase, stretch.space
    system, free = phase.system, free_at_start(stretch)
    if not free:
        return None
    sym = symbol_for([c.function for c in stretch.costs(At.START)])
    coordinate = {i: c for c, i in enumerate(space.tangent_index) if i >= 0}

    def chosen(x: Expr, u: Expr) -> Expr:
        """Flat components take the value of their control; curved ones turn by it from where the guess stands."""
        dx = type(x)(space.ndx, 1)
        for j, i in enumerate(free):
            if i not in coordinate:
                dx[i] = u[j]
        found = space.plus(x, dx) if any(i not in coordinate for i in free) else type(x)(x)
        for j, i in enumerate(free):
            if i in coordinate:
                found[coordinate[i]] = u[j]
        state, theta = stretch.split(found)
        return ca.vertcat(state, stretch.constants.remembered(theta, (0, At.START), state))

    def advance(t: Expr, x: Expr, u: Expr, p: Expr, h: Expr) -> tuple[Expr, list[Term]]:
        there = chosen(x, u)
        return there, end_costs(stretch, At.START, sym, t, there)

    names = tuple(f"start {space.tangent_names[i]}" if i < system.space.ndx else space.tangent_names[i] for i in free)
    return Draft("start", space, names, system.np, space, advance,
                 lambda t, x, u, p: start_rows(stretch, t, chosen(x, u), p, prescribed=False), sym)


def start_state(stretch: Stretch, choice: bool) -> tuple[np.ndarray, np.ndarray]:
    """State of the first knot, and the guess of what is free there. Raises ProblemError for a quaternion that is not of unit
    length."""
    phase, space = stretch.phase, stretch.phase.system.space
    guess = np.asarray(phase.guess.x[0], dtype=float)
    x = guess if phase.start is None else np.array(phase.start.value, dtype=float)
    for i in space.quaternions:
        length = float(np.linalg.norm(x[i:i + 4]))
        if not abs(length - 1) <= 1e-6:
            raise ProblemError(f"the start quaternion ({', '.join(space.names[i:i + 4])}) has length {length:.9g}, not 1",
                               where=f"phase {phase.name!r}")
    if phase.start is not None:
        for c, i in enumerate(space.tangent_index):
            if i >= 0 and not phase.start.fixed[i]:
                x[c] = guess[c]
    if stretch.constants.count:
        x = np.array(ca.vertcat(x, stretch.constants.remembered(ca.DM(stretch.constants.guess), (0, At.START), ca.DM(x)))).ravel()
    if not choice:
        return x, np.zeros(0)
    coordinate = {i: c for c, i in enumerate(stretch.space.tangent_index) if i >= 0}
    return x, np.array([x[coordinate[i]] if i in coordinate else 0.0 for i in free_at_start(stretch)])
