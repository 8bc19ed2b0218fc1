"""Findings about kernels and derivatives, in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from ocp.app.sentences.wording import Wording
from ocp.derivatives import OBSTACLES
from ocp.problem.finding import Finding, Kind


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
        return f"execution: generated code in place of loops, for {OBSTACLES[data['obstacle']]}"
    what = f"integrator {data['integrator']!r}" if "integrator" in data else "free times, parameters, start states or linkages"
    return f"dynamics: code generated for this problem, for loops over the robot know no {what}"


def _compiled(found: Finding) -> str:
    made = ", ".join(f"{name} ({count} operations)" for name, count in found.data["operations"].items())
    return f"kernels: compiled {made}; the rest interpreted"


SENTENCES: Mapping[Kind, Wording] = {
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
