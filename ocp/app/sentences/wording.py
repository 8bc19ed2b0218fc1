"""What a table of sentences holds for a kind of finding."""

from collections.abc import Callable

from ocp.problem.finding import Finding

#: a template with the fields and data of a finding, or what makes a sentence of it
Wording = str | Callable[[Finding], str]


def status_word(name: str) -> str:
    """A status as sentences and tables name it."""
    return name.lower().replace("_", " ")


def of_phase(finding: Finding) -> str:
    """The phase before a sentence about it, where there are several."""
    return f"phase {finding.phase}: " if finding.phase else ""
