"""The options of a solution with what was chosen in the place of every "auto": another solve with them is the same solve.

A refined mesh stands in ``mesh``, the start that served in ``guess``, factors of a scaling in ``scaling``; derivatives, execution
and kernels are what they were for this problem on this machine. Where phases chose differently, "auto" stays: it follows from
their sizes.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from typing import Any

from ocp.derivatives import choose
from ocp.problem import Kind, Solution

AUTO = "auto"
#: options that no longer count where the mesh is given
OF_REFINEMENT = ("tolerance_mesh", "max_passes", "max_degree", "switches")


def frozen(found: Solution, options: Any) -> Solution:
    """The solution with ``freeze``: every option that differs from its default, or was chosen."""
    given = {f.name: getattr(options, f.name) for f in fields(options) if getattr(options, f.name) != _default(f)}
    chosen = {**_derivatives(found, options), **dict(found.freeze)}
    if options.kernels == AUTO:
        chosen["kernels"] = "compiled" if any(one.kind is Kind.KERNELS_COMPILED for one in found.findings) else "interpreted"
    meshed = "mesh" in chosen or "mesh" in given
    if getattr(options, "degree", None) == AUTO and not meshed:
        chosen["degree"] = options.record().degree
    values = given | chosen
    if "mesh" in chosen:
        values = {name: value for name, value in values.items() if name not in (*OF_REFINEMENT, "degree", "intervals")}
    order = [f.name for f in fields(options)]
    return replace(found, freeze={name: values[name] for name in order if name in values})


def _default(field: Any) -> Any:
    return None if field.default is MISSING else field.default


def _derivatives(found: Solution, options: Any) -> dict[str, Any]:
    """The choice of "auto" for derivatives and their execution, where all phases chose alike."""
    execution = getattr(options, "execution", "generated")
    phases = found.problem.phases
    fixed = not any(phase.duration.free for phase in phases)
    picks = {choose(phase.system, options.derivatives, execution, exact=True, fixed=fixed)[:2] for phase in phases}
    if len(picks) > 1:
        return {}
    source, loops = picks.pop()
    named = {"derivatives": source} if options.derivatives == AUTO else {}
    return named | ({"execution": "loops" if loops else "generated"} if execution == AUTO else {})
