"""From the functions of a problem to what the loops over knots take: kernels compiled, records with memory of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from dynamics.kernels import Kernel, Workspace, compile_many, workspace
from ocp.problem import Phase
from ocp.shooting.options import ILQROptions
from ocp.shooting.stages.stage import Stages

if TYPE_CHECKING:  # Numba costs half a second: it is imported by the functions that make something for it
    from ocp.shooting.engine import augmented, knots
    from ocp.shooting.stages import rows as constraints

Kept = list[Workspace]
"""Workspaces whose handles a record holds: they must outlive it."""


@dataclass(frozen=True)
class Compiled:
    """The kernels of a problem: by name, and by slot those that the loops over the robot call (none if code is generated)."""

    phase: Phase
    options: ILQROptions
    stages: Stages
    by_loops: bool
    named: Mapping[str, Kernel]
    bank: Mapping[int, Kernel]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return *self.named.values(), *self.bank.values()


def compile_stages(phase: Phase, options: ILQROptions, stages: Stages, by_loops: bool) -> Compiled:
    """Compile what is needed. Raises KernelError when compiled kernels are demanded and cannot be had."""
    full, mode = options.hessian == "full", cast(Literal["auto", "compiled", "interpreted"], options.kernels)
    wanted, functions = ["final", "expand_final", "difference"], {}
    if not by_loops:
        wanted += ["step", "expand"] + (["curvature"] if full else [])
    else:
        from ocp.shooting.robot import mechanics

        assert stages.local is not None
        functions = mechanics.bank_functions(phase.system, options.integrator, stages.local, full)
    kernels = compile_many([*(getattr(stages, name) for name in wanted), *functions.values()], mode=mode)
    return Compiled(phase, options, stages, by_loops, dict(zip(wanted, kernels, strict=False)),
                    dict(zip(functions, kernels[len(wanted):], strict=True)))


def call(kernel: Kernel) -> tuple[knots.Call, Kept]:
    """A kernel ready to be called from loops."""
    from ocp.shooting.engine import knots

    space = workspace(kernel)
    return knots.Call(space.address, space.handle, space.arg, space.res, space.iw, space.w), [space]


def stepper(compiled: Compiled) -> tuple[knots.Step, Kept]:
    """One step, for one thread."""
    if not compiled.by_loops:
        return call(compiled.named["step"])
    from ocp.shooting.robot import mechanics

    return mechanics.make_mechanics(compiled.phase.system, compiled.options.integrator,
                                    compiled.options.cost_quadrature == "rectangle", compiled.bank)


def records(compiled: Compiled) -> tuple[dict[str, Any], Kept]:
    """Everything that the loops over knots take, by name; for one thread."""
    made = {name: call(kernel) for name, kernel in compiled.named.items()}
    if compiled.by_loops:
        from ocp.shooting.robot import mechanics, sensitivities

        assert compiled.stages.local is not None
        made["step"] = stepper(compiled)
        m, kept = stepper(compiled)
        assert isinstance(m, mechanics.Mechanics)
        both = sensitivities.make_sensitivities(m, compiled.phase.system, compiled.options.integrator,
                                                compiled.stages.local.support)
        made["expand"] = both, kept
        if compiled.options.hessian == "full":
            made["curvature"] = both, []
    return {name: record for name, (record, _) in made.items()}, [space for _, kept in made.values() for space in kept]


def hold(made: constraints.Rows, count: int, start: int, n: int, m: int, mode: str) -> tuple[augmented.Held, Kept]:
    """The record of hard constraints for the loops: at ``count`` knots from number ``start`` on; n, m: sizes of dx and u."""
    from ocp.shooting.engine import augmented

    functions = [made.value, made.jacobian, made.curvature]
    kernels = compile_many(functions, mode=cast(Literal["auto", "compiled", "interpreted"], mode if made.count else "interpreted"))
    (value, a), (jacobian, b), (curvature, c) = (call(kernel) for kernel in kernels)
    r, z = made.count, np.zeros
    first = np.where(made.needs_control > 0, 0, 1).astype(np.int64)
    record = augmented.Held(
        value, jacobian, curvature, made.kind, made.size, first, start, z((count, r)), z(r), z((count, r)), z((count, r)),
        z((count, r, n)), z((count, r, m)), z((n, n)), z((m, m)), z((m, n)), z((r, r)))
    return record, [*a, *b, *c]
