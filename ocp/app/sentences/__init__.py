"""Findings in sentences: the one place where they are worded, for terminal, reports and ``explain``.

A table per concern, from a kind to a template with the fields and data of the finding, or to a function of the finding. Every kind
stands in exactly one table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields

from ocp.app.sentences import certificate, kernels, reach, reductions, shooting, solvers, strategy
from ocp.app.sentences.wording import Wording
from ocp.problem.finding import Finding, Kind
from ocp.problem.solution import Solution

TABLES = (certificate.SENTENCES, reach.SENTENCES, strategy.SENTENCES, solvers.SENTENCES, shooting.SENTENCES, kernels.SENTENCES,
          reductions.SENTENCES)
SENTENCES: Mapping[Kind, Wording] = {kind: wording for table in TABLES for kind, wording in table.items()}


def sentence(finding: Finding) -> str:
    """The finding in words."""
    wording = SENTENCES[finding.kind]
    if not isinstance(wording, str):
        return wording(finding)
    return wording.format(**{f.name: getattr(finding, f.name) for f in fields(finding)}, **finding.data)


def sentences(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Findings in words, in their order."""
    return tuple(map(sentence, findings))


def remarks(solution: Solution) -> tuple[str, ...]:
    """Everything that was found on the way to a solution, in words."""
    return (*solution.notes, *sentences(solution.findings))
