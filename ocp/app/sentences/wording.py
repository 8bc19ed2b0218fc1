"""The entry of a table of sentences, and words that several tables use."""

from __future__ import annotations

from collections.abc import Callable

from ocp.problem.finding import Finding

#: a template with the fields and data of a finding, or a function that makes its sentence
Wording = str | Callable[[Finding], str]


def status_word(name: str) -> str:
    """The name of a status in sentences and tables."""
    return name.lower().replace("_", " ")


def of_phase(finding: Finding) -> str:
    """The prefix that names the phase, if there are several."""
    return f"phase {finding.phase}: " if finding.phase else ""
