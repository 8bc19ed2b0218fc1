"""Implicit steps of robots as defects: the equations of motion themselves, without Newton's method and without an inverse of M.

In multiple shooting with ``bdf1``, ``sdirk2`` or ``bdf2`` the states of the next knot are those of the last stage, and rows say

    q_{k+1} = q_k [+] (d + gamma v_{k+1})        gamma F(t, q_s, v_s, (v_s - v) / gamma, lambda_s, u) = 0

with v and d from earlier states (``ocp.integrators.motion``). Velocities of the inner stage of SDIRK2 and the multipliers of
constraints are unknowns of the interval. With one step in an interval and held controls; all else integrates inside.
"""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

from ocp.integrators.integrator import Expr, Node
from ocp.integrators.motion import ALPHA, looked_back, moves, reached, split
from ocp.problem import Phase, System
from ocp.transcription.mesh import Discretisation, Grid

METHODS = ("bdf1", "sdirk2", "bdf2")


def by_motion(system: System, mesh: Discretisation) -> bool:
    """Whether defects are the equations of motion."""
    return isinstance(mesh, Grid) and mesh.integrator in METHODS and mesh.steps == 1 and not mesh.linear and moves(system)


def stages(mesh: Grid, k: int) -> int:
    """Stages of interval k."""
    return 2 if mesh.integrator == "sdirk2" or (mesh.integrator == "bdf2" and not k) else 1


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
        found[:nv] = x[k, -nv:] + ALPHA * (x[k + 1, -nv:] - x[k, -nv:])
    return found


def equations(system: System, method: str, t: Expr, x: Expr, after: Expr, inside: Expr, u: Expr, p: Expr, h: Expr,
              before: tuple[Expr, Expr] | None) -> tuple[Expr, Expr, tuple[Node, ...]]:
    """(state that the next one has to be, rows of motion, quadrature nodes) of one interval; before: of steps that look back."""
    F, space = system.motion(), system.space
    nv = space.ndx // 2
    held = F.size1_in(2) - nv
    q, v = split(system, x)
    last = split(system, after)[1]
    rows: list[Expr] = []
    none = type(x)(0, 1)  # of one unknown x[1:] would be a row

    def moved(at: Expr, state: Expr, a: Expr, multipliers: Expr, gamma: Expr) -> None:
        rows.append(gamma * F(at, state, ca.vertcat(a, multipliers), u, p))

    def stage(speed: Expr, known: Expr, d: Expr, gamma: Expr) -> tuple[Expr, Expr]:
        a = (speed - known) / gamma
        return ca.vertcat(reached(space, q, known, d, gamma, a)[:q.shape[0]], speed), a

    still = type(x).zeros(nv, 1)
    nodes: tuple[Node, ...] = ()
    if before is not None:
        known, d, gamma = looked_back(system, before[0], x, h, before[1])
    elif method == "bdf1":
        known, d, gamma = v, still, h
    else:
        between, a = stage(inside[:nv], v, still, ALPHA * h)
        moved(t + ALPHA * h, between, a, inside[nv:nv + held] if held else none, ALPHA * h)
        nodes = ((1 - ALPHA, t + ALPHA * h, between),)
        known, d, gamma = v + (1 - ALPHA) * h * a, (1 - ALPHA) * h * inside[:nv], ALPHA * h
    end, a = stage(last, known, d, gamma)
    moved(t + h, after, a, inside[inside.shape[0] - held:] if held else none, gamma)
    weight = ALPHA if nodes else 1.0
    return end, ca.vertcat(*rows), (*nodes, (weight, t + h, after))


def names_of_rows(phase: Phase, mesh: Grid, form_names: tuple[str, ...], k: int) -> list[str]:
    """What the rows of interval k are called: positions, then motion stage by stage."""
    nv, held = phase.system.space.ndx // 2, phase.system.motion().size1_in(2)
    motion = [*(f"motion of {name.removeprefix('v.')}" for name in phase.system.space.tangent_names[nv:]),
              *(f"constraint row {i}" for i in range(held - nv))]
    count = stages(mesh, k)
    told = [f"{name}{' inside' if stage < count - 1 else ''}" for stage in range(count) for name in motion]
    return [f"defect {name}" for name in (*form_names[:len(form_names) - nv], *told)]


def graph_kind(phase: Phase) -> Any:
    """SX where all functions of an interval are scalar graphs."""
    functions = (phase.system.motion(), *(c.function for c in phase.costs), *(c.function for c in phase.constraints))
    return ca.SX if all(f.is_a("SXFunction") for f in functions) else ca.MX
