"""Sentences for findings: the only package that makes them, for terminal, reports and ``explain``.

There is a table per concern. It maps a kind to a template with the fields and data of the finding, or to a function of the finding.
Every kind is in exactly one table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, replace

from ocp.app.sentences import certificate, closed_loops, reach, shooting, solvers, strategy
from ocp.app.sentences.wording import Wording
from ocp.problem.finding import Finding, Kind
from ocp.problem.solution import Solution, Status

TABLES = (certificate.SENTENCES, reach.SENTENCES, strategy.SENTENCES, solvers.SENTENCES, shooting.SENTENCES,
          closed_loops.SENTENCES)
SENTENCES: Mapping[Kind, Wording] = {kind: wording for table in TABLES for kind, wording in table.items()}

#: how a solve ended, and what to try next
STATUSES = {
    Status.CONVERGED: "The method reached its tolerances.",
    Status.MESH_TOLERANCE: "The program is solved, but some intervals of the mesh miss the tolerance that was asked of them.",
    Status.ITERATION_LIMIT: "The iteration limit was reached; raise it, improve the guess or coarsen the mesh.",
    Status.INFEASIBLE: "No point that satisfies all constraints was found; relax what is named first.",
    Status.STALLED: "No step makes progress; check scaling and derivatives, or start from another guess.",
    Status.DIVERGED: "The iterates or the rollout grew without bound; shorten the horizon or start from a better guess.",
    Status.UNBOUNDED: "The objective decreases without bound; a cost, a bound or an end condition is missing.",
    Status.NOT_A_NUMBER: "A function returned NaN or infinity; the message names it.",
    Status.INTERRUPTED: "Interrupted by the user; the best iterate so far is returned.",
    Status.TIME_LIMIT: "The time limit was reached; the best iterate so far is returned.",
    Status.FAILED: "The solver failed; its message follows.",
}


def sentence(finding: Finding) -> str:
    """The sentence for a finding."""
    wording = SENTENCES[finding.kind]
    if not isinstance(wording, str):
        return wording(finding)
    return wording.format(**{f.name: getattr(finding, f.name) for f in fields(finding)}, **finding.data)


def sentences(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The sentences for findings, in their order."""
    return tuple(map(sentence, findings))


def remarks(solution: Solution, without: Collection[Kind] = ()) -> tuple[str, ...]:
    """The sentences for the findings of a solution, without these kinds and without proofs of infeasibility, which are in
    ``message``."""
    proofs = reach.impossible(solution.findings)
    return sentences(one for one in solution.findings if one not in proofs and one.kind not in without)


def how_it_ended(ending: Finding | None) -> str:
    """The sentence for an ending, after that of its last program."""
    if ending is None:
        return ""
    return f"{how_it_ended(ending.data.get('program'))} {sentence(ending)}".strip()


def status_and_ending(status: Status, ending: Finding | None) -> str:
    """The sentence of a status and an ending."""
    return f"{STATUSES[status]} {how_it_ended(ending)}".strip()


def message(solution: Solution, violations: bool = True) -> str:
    """How a solve ended, in addition to its status: the ending of the method, or the proof that no motion exists. violations:
    whether to list the largest violations."""
    if proofs := reach.impossible(solution.findings):
        return f"No motion exists, whatever the method: {'; '.join(sentences(proofs))}."
    return how_it_ended(solution.ending if violations else _without_violations(solution.ending))


def _without_violations(ending: Finding | None) -> Finding | None:
    if ending is None:
        return None
    data = {key: value for key, value in ending.data.items() if key != "violations"}
    return replace(ending, data=data | ({"program": _without_violations(data["program"])} if "program" in data else {}))


def tried(solution: Solution) -> tuple[str, ...]:
    """One line for each rule that fired with a remedy: its diagnosis, outcome and cost."""
    return tuple(f"{one.rule}: {sentence(one.diagnosis)}{'' if one.taken else ' (no better answer)'}; {one.cost()}"
                 for one in solution.strategy if one.remedies)


def ending(solution: Solution) -> str:
    """How a solve ended: the sentence of its status, and ``message``."""
    return f"{STATUSES[solution.status]} {message(solution)}".strip()
