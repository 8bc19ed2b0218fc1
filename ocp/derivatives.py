"""Where the derivatives of a system's dynamics come from, and how they run: one switch for every solver.

Sources: "ad", algorithmic differentiation of the rate; "analytic", closed-form first and second derivatives of a robot's forward
dynamics; "complex_step" and "fd", from values alone. Executions of analytic derivatives: "generated", code for this robot
(interpreted or compiled); "loops", one binary over the model for all robots. "auto" chooses both by size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import casadi as ca

from dynamics import algorithms as alg
from dynamics.derivatives import analytic_function, unit_configuration
from dynamics.derivatives.numeric import NUMERIC_SOURCES, numeric_function
from dynamics.errors import near
from dynamics.kernels import operations
from dynamics.model.model import Model
from ocp.bridge import Thruster, unit_wrench
from ocp.errors import ProblemError
from ocp.problem import System

SOURCES = ("ad", "analytic", *NUMERIC_SOURCES)
DERIVATIVES = ("auto", *SOURCES)
EXECUTIONS = ("auto", "generated", "loops")

LOOPS_FROM = 1000
"""Operations of one evaluation of the rate from which "auto" takes closed forms, in loops. Measured per knot of iLQR, Gauss-Newton,
RK4: two joints (69 operations) expand in 2.5 us of generated code and 7.8 us of loops, six (1260) in 20 and 10 us. From there on
generated code loses, and takes seconds to minutes to compile (results/benchmarks/solver_derivatives.md)."""


def choose(system: System, source: str, execution: str) -> tuple[str, bool, tuple[str, ...]]:
    """(source of the derivatives, whether the dynamics run as loops over the model, sentences about the choice).

    source: one of ``DERIVATIVES``; execution: one of ``EXECUTIONS``. Raises ProblemError for unknown names, for "analytic" where
    there is no closed form, and for "loops" where they do not serve.
    """
    for name, value, known in (("derivatives", source, DERIVATIVES), ("execution", execution, EXECUTIONS)):
        if value not in known:
            raise ProblemError(f"no {name} named {value!r}{near(value, known)}", where=name)
    size, obstacle = operations(system.rate), _obstacle(system)
    large = size >= LOOPS_FROM and not obstacle
    chosen = source if source != "auto" else "analytic" if large else "ad"
    if execution == "loops" and (chosen != "analytic" or obstacle):
        reason = obstacle or f"loops hold closed-form derivatives only, and the source is {chosen!r}; set derivatives to 'analytic'"
        raise ProblemError(f"'loops' is not possible: {reason}", where="execution")
    if chosen != "analytic":
        return chosen, False, (f"derivatives: {chosen}",)
    if execution == "loops" or (execution == "auto" and large):
        return chosen, True, (f"derivatives: analytic, in compiled loops over the model ({system.model.nv} degrees of freedom, "
                              f"{size} operations for one evaluation of the dynamics)",)
    return chosen, False, (f"derivatives: analytic, in code generated for this robot ({size} operations for one evaluation of the "
                           "dynamics)",)


def _obstacle(system: System) -> str:
    """Why loops cannot serve a system; empty where they can."""
    if system.actuation is None or system.model is None:
        return "the system is not the forward dynamics of a robot"
    if system.actuation.thrusters:
        names = ", ".join(repr(thruster.name) for thruster in system.actuation.thrusters)
        return f"loops know forces at joints only, and the robot has thrusters ({names})"
    return ""


def differentiated(system: System, source: str) -> System:
    """The same system, whose rate brings derivatives from ``source`` into the graphs of every solver.

    source: one of ``SOURCES``. Values on the manifold stay the same. Raises ProblemError for an unknown source and for "analytic"
    where there is no closed form.
    """
    if source not in SOURCES:
        raise ProblemError(f"no derivative source {source!r}{near(source, SOURCES)}", where="derivatives")
    if source == system.derivatives:
        return system
    if system.derivatives != "ad":
        raise ProblemError(f"the derivatives already come from {system.derivatives!r}", where=f"system {system.name!r}")
    names, symbols = [system.rate.name_in(i) for i in range(4)], [
        ca.MX.sym(n, size) for n, size in zip("txup", (1, system.nx, system.nu, system.np), strict=True)]
    if source != "analytic":
        xi = numeric_function(system.rate, source)(*symbols)
    elif system.actuation is None:
        raise ProblemError("closed-form derivatives exist for the forward dynamics of a robot only; this system has 'ad', "
                           "'complex_step' and 'fd'", where=f"system {system.name!r}")
    else:
        xi = _analytic_rate(system, *symbols[1:3])
    # spliced into the graph that calls it, so that the dynamics are evaluated once for values and derivatives together
    rate = ca.Function("rate", symbols, [ca.densify(xi)], names, ["xi"], {"always_inline": True})
    return replace(system, rate=rate, derivatives=source)


def _analytic_rate(system: System, x: ca.MX, u: ca.MX) -> ca.MX:
    model, actuation = system.model, system.actuation
    q, v, efforts = x[:model.nq], x[model.nq:], actuation.selection.shape[1]
    tau = ca.mtimes(ca.MX(actuation.selection), u[:efforts]) if efforts else ca.MX(model.nv, 1)
    if actuation.thrusters:
        tau += _thrust_force(model, actuation.thrusters)(q, u[efforts:])
    return ca.vertcat(v, analytic_function(model, "forward_dynamics")(q, v, tau))


def _thrust_force(model: Model, thrusters: Sequence[Thruster]) -> ca.Function:
    """(q, thrusts) -> generalised force [nv]: ``sum J' w`` over the pushed bodies."""
    q, f = ca.SX.sym("q", model.nq), ca.SX.sym("f", len(thrusters))
    unit, _ = unit_configuration(model, q)
    total = ca.SX(model.nv, 1)
    for thruster, thrust in zip(thrusters, ca.vertsplit(f), strict=True):
        total += alg.frame_jacobian(model, unit, thruster.frame, "body").T @ (unit_wrench(thruster) * thrust)
    return ca.Function("thrust", [q, f], [total], {"never_inline": True})
