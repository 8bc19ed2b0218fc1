"""Which of the user's functions is not finite, and where: for messages after a solver has met NaN."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import casadi as ca
import numpy as np

from ocp.problem import At, Finding, Kind, Phase, Problem
from ocp.transcription.mesh import Discretisation, Mesh

Unpack = Callable[[np.ndarray], list[tuple[np.ndarray, np.ndarray, float, float, np.ndarray]]]


def diagnosis(problem: Problem, meshes: Sequence[Discretisation], unpack: Unpack
              ) -> Callable[[np.ndarray], tuple[Finding, ...]]:
    """A function of the unknowns that returns one finding for each user function that is not finite there.

    unpack(values): by phase, states [M, nx], controls [P, nu], start [s], duration [s] and parameters. Values come first;
    derivatives by state and control are looked at only where all values are finite.
    """
    def diagnose(values: np.ndarray) -> tuple[Finding, ...]:
        found: list[Finding] = []
        points = unpack(values)
        for derivative in (False, True):
            for phase, mesh, (x, u, start, duration, p) in zip(problem.phases, meshes, points, strict=True):
                fractions, states, controls, names = _at(mesh, x, u)
                at = (start + duration * fractions, states, controls, p)
                for term, function, components, places in _functions(phase, len(fractions)):
                    one = _inspect(phase, names, term, _derived(function) if derivative else function, components, places, at,
                                   derivative)
                    found += [] if one is None else [replace(one, phase=phase.name if len(problem.phases) > 1 else "")]
            if found:
                break
        return tuple(found)

    return diagnose


class Evaluated(NamedTuple):
    """Fractions, states, controls and names of where functions are evaluated."""

    fractions: np.ndarray
    states: np.ndarray
    controls: np.ndarray
    names: list[str]


def _at(mesh: Discretisation, x: np.ndarray, u: np.ndarray) -> Evaluated:
    """Fractions, states, controls and names of where functions are evaluated, ends included."""
    if not isinstance(mesh, Mesh):
        at_knots = u[mesh.at_knots]
        controls = at_knots if len(at_knots) == len(x) else np.vstack([at_knots, at_knots[-1:]])
        return Evaluated(mesh.fractions, x, controls, list(mesh.node_names))
    at = mesh.evaluation
    own = np.einsum("ec,ecu->eu", at.weights, u[at.points])
    fractions, states, controls = at.fraction, x[at.node], own
    names = list(mesh.evaluation_names)
    if at.node[0] != 0:
        fractions, states, controls = np.r_[0.0, fractions], np.vstack([x[:1], states]), np.vstack([own[:1], controls])
        names = [mesh.node_names[0], *names]
    if at.node[-1] != len(x) - 1:
        fractions, states, controls = np.r_[fractions, 1.0], np.vstack([states, x[-1:]]), np.vstack([controls, own[-1:]])
        names = [*names, mesh.node_names[len(x) - 1]]
    return Evaluated(fractions, states, controls, names)


def _functions(phase: Phase, count: int) -> Iterator[tuple[tuple[str, str], ca.Function, tuple[str, ...], np.ndarray]]:
    everywhere = np.arange(count)
    where = {At.PATH: everywhere, At.INTEGRAL: everywhere, At.START: np.array([0]), At.FINAL: np.array([count - 1])}
    yield ("rate", ""), phase.system.rate, phase.system.space.tangent_names, everywhere
    for cost in phase.costs:
        yield ("cost", cost.name), cost.function, (), where[cost.at]
    for constraint in phase.constraints:
        yield ("constraint", constraint.name), constraint.function, constraint.components(), where[constraint.at]


def _derived(function: ca.Function) -> ca.Function:
    inputs = [ca.SX.sym(function.name_in(i), function.sparsity_in(i)) for i in range(4)]
    return ca.Function("derivative", inputs, [ca.densify(ca.jacobian(function(*inputs), ca.vertcat(inputs[1], inputs[2])))])


def _inspect(phase: Phase, names: list[str], term: tuple[str, str], function: ca.Function, components: tuple[str, ...],
             indices: np.ndarray, point: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], derivative: bool) -> Finding | None:
    t, x, u, p = point
    own = [*phase.system.space.names, *phase.system.inputs]
    for j in indices:
        value = function(t[j], x[j], u[j], p).full()
        broken = np.argwhere(~np.isfinite(value))
        if not len(broken):
            continue
        row, column = broken[0]
        data = {"term": term[0], "node": names[j], "values": dict(zip(own, [*x[j].tolist(), *u[j].tolist()], strict=True))}
        return Finding(Kind.FUNCTION_NOT_FINITE, name=term[1], component=components[row] if len(components) > 1 else "",
                       time=float(t[j]), value=float(value[row, column]), data=data | ({"by": own[column]} if derivative else {}))
    return None
