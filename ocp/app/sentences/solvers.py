"""Sentences for findings of nonlinear programs, solvers, kernels and derivatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ocp.app.sentences.wording import Wording
from ocp.derivatives import OBSTACLES
from ocp.problem.finding import Finding, Kind

#: names of solvers
SOLVERS = {"ipopt": "IPOPT", "fatrop": "FATROP", "interior_point": "interior point"}


def _violations(found: Finding) -> str:
    listed = "; ".join(f"{name}: {value:.3g}" for name, value in found.data.get("violations", ()))
    return f"Most violated: {listed}." if listed else ""


def _solver(how: str | Callable[[Finding], str]) -> Wording:
    """How a solver ended, then the largest violations."""
    def worded(found: Finding) -> str:
        own = how if isinstance(how, str) else how(found)
        return f"{SOLVERS[found.data['solver']]}: {own}. {_violations(found)}".rstrip()

    return worded


def _span(ends: Sequence[float]) -> str:
    return f"{ends[0]:.3g} to {ends[1]:.3g}" if ends else "none"


def _scaled(found: Finding) -> str:
    data = found.data
    reasons = f" for its {' and '.join(data['reasons'])}" if data["reasons"] else ""
    return (f"scaling {found.name}{reasons}: columns {_span(data['columns'])}, constraints {_span(data['rows'])}, objective "
            f"{data['objective']:.3g}")


def _redundant(found: Finding) -> str:
    phase = f"phase {found.phase!r}: " if found.phase else ""
    repeats = " and ".join(map(repr, found.data["repeats"]))
    return (f"{phase}path equation {found.name!r} repeats {repeats} or contradicts it: their gradients are linearly dependent; "
            "remove it")


def _not_finite(found: Finding) -> str:
    from ocp.app.sentences import sentences

    return "; ".join(sentences(found.data["found"])) or "the functions are finite at the last iterate, but not at a trial point"


def _function(found: Finding) -> str:
    data = found.data
    label = f"the {data['term']}" if data["term"] == "rate" else f"{data['term']} {found.name!r}"
    part = f" of {found.component}" if found.component else ""
    by = f"the derivative with respect to {data['by']} of " if "by" in data else ""
    values = ", ".join(f"{name} = {value:.6g}" for name, value in data["values"].items())
    phase = f"phase {found.phase!r}: " if found.phase else ""
    return f"{phase}{by}{label}{part} is {found.value} at {data['node']} (t = {found.time:.6g} s; {values})"


def _derivatives(found: Finding) -> str:
    data = found.data
    if "efforts" in data:
        return f"derivatives: {data['efforts']} for efforts in costs and constraints, {data['source']} for all else"
    execution = data.get("execution", "")
    if execution == "loops":
        return (f"derivatives: {data['source']}, in compiled loops over the model ({data['degrees_of_freedom']} degrees of "
                f"freedom, {data['operations']} operations for one evaluation of the dynamics)")
    if execution == "generated" and data["function"] == "step":
        more = ", full Hessians in compiled loops over the model" if data["hessians"] == "loops" else ""
        return (f"derivatives: {data['source']}, a step in code generated for this robot ({data['degrees_of_freedom']} degrees of "
                f"freedom{more})")
    if execution == "generated":
        return (f"derivatives: {data['source']}, in code generated for this robot ({data['operations']} operations for one "
                f"evaluation of the {data['function']})")
    return f"derivatives: {data['source']}"


def _generated(found: Finding) -> str:
    data = found.data
    if "obstacle" in data:
        return f"execution: generated code instead of loops, because {OBSTACLES[data['obstacle']]}"
    what = f"integrator {data['integrator']!r}" if "integrator" in data else "free times, parameters, start states or linkages"
    return f"dynamics: code generated for this problem, because loops over the robot do not support {what}"


def _compiled(found: Finding) -> str:
    made = ", ".join(f"{name} ({count} operations)" for name, count in found.data["operations"].items())
    return f"kernels: compiled {made}; the rest interpreted"


SENTENCES: Mapping[Kind, Wording] = {
    Kind.SCALED: _scaled,
    Kind.UNSCALED_VIOLATION: "scaled constraints hold to {tolerance:.3g}; unscaled, {name} is violated by {value:.3g}",
    Kind.ROUNDING_REACHED: "the search ended at the rounding level",
    Kind.CYCLED: lambda found: (
        f"{SOLVERS[found.data['solver']]} cycled among points of nearly equal objective: gradient "
        f"{found.data['gradient']:.1e}, violation {found.data['violation']:.1e}"),
    Kind.OVERDETERMINED: (
        "{equations} equations for {unknowns} free unknowns: some are redundant or contradict each other"),
    Kind.REDUNDANT_EQUATION: _redundant,
    Kind.TANGENT_UNKNOWNS_CENTRED: "tangent unknowns centred {times} times; the last lie within {value:.2g} of their centres",
    Kind.RESUMED: "resumed after {iterations} iterations, from objective {value:.9g}",
    Kind.PARAMETER_CHOSEN: "parameter {name} = {value:.9g}",
    Kind.DURATION_CHOSEN: lambda found: f"duration{' of ' if found.phase else ''}{found.phase} = {found.value:.9g}",
    # how a solve ended
    Kind.SOLVER_STATUS: _solver(lambda found: str(found.data.get("status", "")).replace("_", " ")),
    Kind.LARGEST_VIOLATION: _violations,
    Kind.TOO_FEW_UNKNOWNS: _solver(lambda found: (
        f"cannot solve a program with more equations ({found.data['equations']}) than unknowns ({found.data['unknowns']}); remove "
        "constraints, add freedom (controls, intervals, degree), or use another solver")),
    Kind.NO_STEP: _solver("no step makes further progress"),
    Kind.ITERATION_LIMIT: _solver("iteration limit reached"),
    Kind.SINGULAR_SYSTEM: "the linear system is singular",
    Kind.NO_DESCENT_DIRECTION: _solver("no descent direction"),
    Kind.OUT_OF_MEMORY: _solver("not enough memory for the factorisation"),
    Kind.ITERATES_DIVERGED: _solver("the iterates grow without bound"),
    Kind.SUCCESS_REFUTED: _solver(lambda found: f"reports success, but {found.name} is {found.value:.3g}"),
    Kind.OBJECTIVE_UNBOUNDED: "At feasible points the objective decreased from {first:.3g} to {last:.3g} without limit.",
    Kind.CERTIFICATE_MISSING: "The method converged, but there is no certificate.",
    Kind.CERTIFICATE_INCOMPLETE: "The method converged, but the certificate is incomplete.",
    # values that are not finite
    Kind.NOT_FINITE: _not_finite,
    Kind.FUNCTION_NOT_FINITE: _function,
    Kind.CONSTRAINT_NOT_FINITE: "{name} is not finite",
    Kind.OBJECTIVE_NOT_FINITE: "the objective is not finite",
    Kind.GRADIENT_NOT_FINITE: "the derivative of the objective with respect to {name} is not finite",
    Kind.JACOBIAN_NOT_FINITE: "the derivative of {name} with respect to {variable} is not finite",
    # kernels and derivatives
    Kind.DERIVATIVES_CHOSEN: _derivatives,
    Kind.CODE_GENERATED: _generated,
    **OBSTACLES,
    Kind.KERNELS_COMPILED: _compiled,
    Kind.KERNELS_INTERPRETED: "kernels: interpreted",
    Kind.KERNELS_WORTH_COMPILING: lambda found: (
        f"kernels: {', '.join(found.data['functions'])} interpreted; with the option kernels=compiled the first solve waits for "
        "the compiler and later ones are faster"),
    Kind.KERNEL_MODES: lambda found: f"kernels: {', '.join(found.data['modes'])}",
    Kind.KERNEL_REMARK: lambda found: f"kernel {found.name}: {found.data['remark']}" if found.name else str(found.data["remark"]),
}
