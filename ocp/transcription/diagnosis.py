"""Which of the user's functions is not finite, and where: for messages after a solver has met NaN."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import casadi as ca
import numpy as np

from ocp.problem import At, Phase
from ocp.transcription.mesh import Mesh

Split = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, float, np.ndarray]]


def diagnosis(phase: Phase, mesh: Mesh, split: Split) -> Callable[[np.ndarray], tuple[str, ...]]:
    """A function of the variables that returns one sentence for each user function that is not finite there.

    Values come first; derivatives by state and control are looked at only where all values are finite.
    """
    def diagnose(values: np.ndarray) -> tuple[str, ...]:
        x, u, duration, p = split(values)
        found: list[str] = []
        for derivative in (False, True):
            for label, function, components, nodes in _functions(phase, mesh):
                sentence = _inspect(phase, mesh, label, _derived(function) if derivative else function, components, nodes,
                                    (duration, x, u, p), derivative)
                found += [sentence] if sentence else []
            if found:
                break
        return tuple(found)

    return diagnose


def _functions(phase: Phase, mesh: Mesh) -> Iterator[tuple[str, ca.Function, tuple[str, ...], np.ndarray]]:
    nodes = {At.PATH: np.arange(mesh.nodes), At.START: np.array([0]), At.FINAL: np.array([mesh.nodes - 1])}
    yield "the rate", phase.system.rate, phase.system.space.tangent_names, nodes[At.PATH]
    for cost in phase.costs:
        yield f"cost {cost.name!r}", cost.function, (), nodes[cost.at]
    for constraint in phase.constraints:
        yield f"constraint {constraint.name!r}", constraint.function, constraint.components(), nodes[constraint.at]


def _derived(function: ca.Function) -> ca.Function:
    inputs = [ca.SX.sym(function.name_in(i), function.sparsity_in(i)) for i in range(4)]
    return ca.Function("derivative", inputs, [ca.densify(ca.jacobian(function(*inputs), ca.vertcat(inputs[1], inputs[2])))])


def _inspect(phase: Phase, mesh: Mesh, label: str, function: ca.Function, components: tuple[str, ...], nodes: np.ndarray,
             point: tuple[float, np.ndarray, np.ndarray, np.ndarray], derivative: bool) -> str | None:
    duration, x, u, p = point
    own = [*phase.system.space.names, *phase.system.controls]
    for j in nodes:
        value = function(duration * mesh.fractions[j], x[j], u[j], p).full()
        broken = np.argwhere(~np.isfinite(value))
        if not len(broken):
            continue
        row, column = broken[0]
        part = f" of {components[row]}" if len(components) > 1 else ""
        by = f"the derivative by {own[column]} of " if derivative else ""
        at = ", ".join(f"{name} = {v:.6g}" for name, v in zip(own, [*x[j], *u[j]], strict=True))
        return (f"{by}{label}{part} is {value[row, column]} at {mesh.node_name(j)} "
                f"(t = {duration * mesh.fractions[j]:.6g} s; {at})")
    return None
