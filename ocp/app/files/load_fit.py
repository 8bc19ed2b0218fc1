"""Whether options that a file gives fit its problem: refusals that a solver would raise later, with their place in the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ocp.app.files.findings import Findings
from ocp.app.files.schema import ProblemFile
from ocp.app.files.yaml_source import KeyPath
from ocp.derivatives import choose
from ocp.errors import ProblemError
from ocp.methods import METHODS, NOTHING_TO_SAY, idle
from ocp.problem import Problem


def check_fit(findings: Findings, file: ProblemFile, problem: Problem, options: Mapping[str, Mapping[str, Any]]) -> None:
    """Record options of methods that the problem's dynamics or phases exclude. options: what the file gives, by method."""
    for name, given in options.items():
        path: KeyPath = ("solve", name)
        shared = "derivatives" not in given and file.solve.derivatives is not None and name == file.solve.method
        if not given and not shared:
            continue  # nothing that could not fit; and the method is not loaded for it
        fields = METHODS[name].options_type()(**given)
        for key in idle(problem, fields):
            findings.add((*path, key), NOTHING_TO_SAY, at_key=True)
        source, execution = fields.derivatives, getattr(fields, "execution", "auto")
        if shared:
            source = file.solve.derivatives
        if (source, execution) != ("auto", "auto"):
            try:
                for phase in problem.phases:
                    choose(phase.system, source, execution, exact=name != "ilqr")
            except ProblemError as error:
                key = "execution" if error.where == "execution" else "derivatives"
                findings.add(("solve", key) if shared and key == "derivatives" else (*path, key), error.message)
        if "mesh" in given:
            from ocp.transcription.refine.plan import UNIFORM, read_plans  # only here: it loads the transcription

            if fields.mesh != UNIFORM:
                with findings.collecting((*path, "mesh")):
                    read_plans(fields.mesh, [phase.name for phase in problem.phases], fields.scheme, "mesh")
