"""Which of the user's functions is not finite, and where: for messages after a solver has met NaN."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import casadi as ca
import numpy as np

from ocp.problem import At, Phase, Problem
from ocp.transcription.mesh import Compressed, Discretisation, Grid

Unpack = Callable[[np.ndarray], list[tuple[np.ndarray, np.ndarray, float, float, np.ndarray]]]


def diagnosis(problem: Problem, meshes: Sequence[Discretisation], unpack: Unpack) -> Callable[[np.ndarray], tuple[str, ...]]:
    """A function of the unknowns that returns one sentence for each user function that is not finite there.

    unpack(values): by phase, states [M, nx], controls [P, nu], start [s], duration [s] and parameters. Values come first;
    derivatives by state and control are looked at only where all values are finite.
    """
    def diagnose(values: np.ndarray) -> tuple[str, ...]:
        found: list[str] = []
        points = unpack(values)
        for derivative in (False, True):
            for phase, mesh, (x, u, start, duration, p) in zip(problem.phases, meshes, points, strict=True):
                fractions, states, controls, names = _at(mesh, x, u)
                at = (start + duration * fractions, states, controls, p)
                for label, function, components, places in _functions(phase, len(fractions)):
                    sentence = _inspect(phase, names, label, _derived(function) if derivative else function, components, places, at,
                                        derivative)
                    prefix = f"phase {phase.name!r}: " if len(problem.phases) > 1 else ""
                    found += [prefix + sentence] if sentence else []
            if found:
                break
        return tuple(found)

    return diagnose


def _at(mesh: Discretisation, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Fractions, states, controls and names of where functions are evaluated, ends included."""
    if isinstance(mesh, Grid):
        controls = u if len(u) == len(x) else np.vstack([u, u[-1:]])
        return mesh.fractions, x, controls, [mesh.node_name(j) for j in range(len(x))]
    if isinstance(mesh, Compressed):
        return mesh.fractions, x, u[::2], [mesh.node_name(j) for j in range(len(x))]
    places = mesh.places
    own = np.einsum("ec,ecu->eu", places.weights, u[places.points])
    fractions, states, controls = places.fraction, x[places.node], own
    names = [mesh.place_name(e) for e in range(len(fractions))]
    if places.node[0] != 0:
        fractions, states, controls = np.r_[0.0, fractions], np.vstack([x[:1], states]), np.vstack([own[:1], controls])
        names = [mesh.node_name(0), *names]
    if places.node[-1] != len(x) - 1:
        fractions, states, controls = np.r_[fractions, 1.0], np.vstack([states, x[-1:]]), np.vstack([controls, own[-1:]])
        names = [*names, mesh.node_name(len(x) - 1)]
    return fractions, states, controls, names


def _functions(phase: Phase, count: int) -> Iterator[tuple[str, ca.Function, tuple[str, ...], np.ndarray]]:
    everywhere = np.arange(count)
    where = {At.PATH: everywhere, At.INTEGRAL: everywhere, At.START: np.array([0]), At.FINAL: np.array([count - 1])}
    yield "the rate", phase.system.rate, phase.system.space.tangent_names, everywhere
    for cost in phase.costs:
        yield f"cost {cost.name!r}", cost.function, (), where[cost.at]
    for constraint in phase.constraints:
        yield f"constraint {constraint.name!r}", constraint.function, constraint.components(), where[constraint.at]


def _derived(function: ca.Function) -> ca.Function:
    inputs = [ca.SX.sym(function.name_in(i), function.sparsity_in(i)) for i in range(4)]
    return ca.Function("derivative", inputs, [ca.densify(ca.jacobian(function(*inputs), ca.vertcat(inputs[1], inputs[2])))])


def _inspect(phase: Phase, names: list[str], label: str, function: ca.Function, components: tuple[str, ...], places: np.ndarray,
             point: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], derivative: bool) -> str | None:
    t, x, u, p = point
    own = [*phase.system.space.names, *phase.system.inputs]
    for j in places:
        value = function(t[j], x[j], u[j], p).full()
        broken = np.argwhere(~np.isfinite(value))
        if not len(broken):
            continue
        row, column = broken[0]
        part = f" of {components[row]}" if len(components) > 1 else ""
        by = f"the derivative by {own[column]} of " if derivative else ""
        at = ", ".join(f"{name} = {v:.6g}" for name, v in zip(own, [*x[j], *u[j]], strict=True))
        return f"{by}{label}{part} is {value[row, column]} at {names[j]} (t = {t[j]:.6g} s; {at})"
    return None
