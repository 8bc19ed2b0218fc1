"""Where the numbers of iLQR come from: code generated for the problem, or compiled loops over the robot. Imports no Numba."""

from __future__ import annotations

from typing import Literal

from dynamics.kernels.size import operations
from ocp.errors import ProblemError
from ocp.problem import Phase, System
from ocp.shooting.options import ILQROptions

Execution = Literal["generated", "loops"]

LOOPS_FROM = 1000
"""Instructions of one evaluation of the forward dynamics from which "auto" takes loops. Measured per knot, Gauss-Newton, RK4: two
joints (69 instructions) expand in 2.5 us of generated code and 7.8 us of loops, six (1260) in 20 and 10 us; under symplectic
Euler six joints break even. From there on generated code loses, and takes seconds to minutes to compile."""


def choose(phase: Phase, options: ILQROptions) -> tuple[Execution, str]:
    """How a problem is run, and that in words. Raises ProblemError where loops are demanded and cannot serve it."""
    system = phase.system
    reason = _obstacle(system, options)
    if options.execution == "loops" and reason:
        raise ProblemError(f"execution: 'loops' is not possible: {reason}", where=f"system {system.name!r}")
    size = operations(system.rate)
    loops = options.execution == "loops" or (options.execution == "auto" and not reason and size >= LOOPS_FROM)
    if not loops:
        return "generated", f"dynamics: generated code ({size} operations for one evaluation)"
    freedom = f"{system.model.nv} degree{'s' if system.model.nv != 1 else ''} of freedom"
    return "loops", (f"dynamics: compiled loops over the model ({freedom}; generated code would be "
                     f"{size} operations for one evaluation)")


def _obstacle(system: System, options: ILQROptions) -> str | None:
    """Why loops cannot serve a system, or None."""
    if options.derivatives != "analytic":
        return f"loops hold closed-form derivatives only, and derivatives is {options.derivatives!r}; set it to 'analytic'"
    if system.actuation is None or system.model is None:
        return "the system is not the forward dynamics of a robot"
    if system.actuation.thrusters:
        names = ", ".join(repr(thruster.name) for thruster in system.actuation.thrusters)
        return f"loops know joint efforts only, and the robot has thrusters ({names})"
    return None
