"""Implicit steps of robots as defects: the equations of motion themselves, without Newton's method and without an inverse of M.

In multiple shooting with ``bdf1``, ``sdirk2`` or ``bdf2`` the states of the next knot are those of the last stage, and constraints
say

    q_{k+1} = q_k [+] (d + gamma v_{k+1})        gamma F(t, q_s, v_s, (v_s - v) / gamma, lambda_s, u) = 0

with v and d from earlier states (``ocp.integrators.motion``). Velocities of the inner stage of SDIRK2 and the multipliers of
constraints are unknowns of the interval. With one step in an interval and piecewise-constant controls; all else integrates inside.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.steps import schemes
from ocp.integrators.integrator import Expr, Node
from ocp.integrators.motion import known, known_places, moves, reached, shares, split
from ocp.problem import Phase, System
from ocp.transcription.mesh import Discretisation, Grid


def by_motion(system: System, mesh: Discretisation) -> bool:
    """Whether defects are the equations of motion."""
    return isinstance(mesh, Grid) and mesh.integrator in schemes.METHODS and mesh.steps == 1 and not mesh.linear and moves(system)


def stages(mesh: Grid, k: int) -> int:
    """Stages of interval k."""
    return len(schemes.stages(mesh.integrator, 1.0 if k else None))


def unknowns(phase: Phase, mesh: Discretisation) -> tuple[tuple[str, ...], ...]:
    """Names of the unknowns inside every interval [N]: of each stage its velocities, where it is not the last, and multipliers.
    Empty where defects are others."""
    if not by_motion(phase.system, mesh):
        return ()
    assert isinstance(mesh, Grid)
    nv, held = phase.system.space.ndx // 2, phase.system.motion().size1_in(2)
    speeds = phase.system.space.names[-nv:]

    def inside(k: int) -> tuple[str, ...]:
        found: list[str] = []
        for stage in range(count := stages(mesh, k)):
            found += [f"{name} inside" for name in speeds] if stage < count - 1 else []
            found += [f"multiplier {i}{' inside' if stage < count - 1 else ''}" for i in range(held - nv)]
        return tuple(found)

    return tuple(inside(k) for k in range(mesh.intervals))


def guess(phase: Phase, mesh: Discretisation, k: int, x: np.ndarray) -> np.ndarray:
    """A guess of these unknowns from the states [N + 1, nx] of the knots: velocities between them, no forces."""
    names = unknowns(phase, mesh)[k]
    found = np.zeros(len(names))
    nv = phase.system.space.ndx // 2
    if isinstance(mesh, Grid) and names and stages(mesh, k) > 1:
        found[:nv] = x[k, -nv:] + schemes.ALPHA * (x[k + 1, -nv:] - x[k, -nv:])
    return found


class IntervalEquations(NamedTuple):
    """The state that the next one has to be, constraints of motion, and quadrature nodes of an interval."""

    end: Expr
    rows: Expr
    nodes: tuple[Node, ...]


def equations(system: System, method: str, t: Expr, x: Expr, after: Expr, inside: Expr, u: Expr, p: Expr, h: Expr,
              before: tuple[Expr, Expr] | None) -> IntervalEquations:
    """(state that the next one has to be, constraints of motion, quadrature nodes) of one interval; before: of steps that look
    back."""
    F, space = system.motion(), system.space
    nv = space.ndx // 2
    held, at = F.size1_in(2) - nv, 0
    v, none = split(space, x)[1], type(x)(0, 1)  # of one unknown x[1:] would be a row
    places, slopes, rows, nodes = known_places(space, x, before), dict[int, Expr](), list[Expr](), list[Node]()
    own = schemes.stages(method, None if before is None else before[1])
    for number, (one, share) in enumerate(zip(own, shares(own), strict=True), 1):
        inner, gamma, y = number < len(own), one.gamma * h, known(one, h, places, slopes)
        speed = inside[at:at + nv] if inner else split(space, after)[1]
        at += nv * inner
        end, slopes[number] = reached(space, x, y, gamma, speed), ca.vertcat(speed, (speed - v - y[nv:]) / gamma)
        places[number] = y + gamma * slopes[number]
        nodes.append((share, t + one.time * h, end if inner else after))
        rows.append(gamma * F(*nodes[-1][1:], ca.vertcat(slopes[number][nv:], inside[at:at + held] if held else none), u, p))
        at += held
    return IntervalEquations(end, ca.vertcat(*rows), tuple(nodes))


def names_of_rows(phase: Phase, mesh: Grid, form_names: tuple[str, ...], k: int) -> list[str]:
    """Names of the equations of interval k: positions, then motion stage by stage."""
    nv, held = phase.system.space.ndx // 2, phase.system.motion().size1_in(2)
    motion = [*(f"motion of {name.removeprefix('v.')}" for name in phase.system.space.tangent_names[nv:]),
              *(f"constraint {i}" for i in range(held - nv))]
    count = stages(mesh, k)
    told = [f"{name}{' inside' if stage < count - 1 else ''}" for stage in range(count) for name in motion]
    return [f"defect {name}" for name in (*form_names[:len(form_names) - nv], *told)]


def graph_kind(phase: Phase) -> Any:
    """SX where all functions of an interval are scalar graphs."""
    functions = (phase.system.motion(), *(c.function for c in phase.costs), *(c.function for c in phase.constraints))
    return ca.SX if all(f.is_a("SXFunction") for f in functions) else ca.MX
