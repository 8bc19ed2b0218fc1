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
    """Everything that was found on the way to a solution, in words; not why there is none, which ``message`` tells."""
    proofs = reach.impossible(solution.findings)
    return (*solution.notes, *sentences(one for one in solution.findings if one not in proofs))


def message(solution: Solution) -> str:
    """How a solve ended, beside its status: what the method says, or why no motion exists."""
    if proofs := reach.impossible(solution.findings):
        return f"No motion exists, whatever the method: {'; '.join(sentences(proofs))}."
    return " ".join(part for part in (solution.message, "" if solution.ending is None else sentence(solution.ending)) if part)


def tried(solution: Solution) -> tuple[str, ...]:
    """The rules of the strategy that fired with a remedy: on what, what came of it, and what that cost."""
    return tuple(f"{one.rule}: {sentence(one.diagnosis)}{'' if one.taken else ' (no better answer)'}; {one.cost()}"
                 for one in solution.strategy if one.remedies)


def ending(solution: Solution) -> str:
    """How a solve ended: the sentence of its status, and ``message``."""
    return f"{solution.status.sentence} {message(solution)}".strip()
