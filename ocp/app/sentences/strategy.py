"""Findings about what was tried for an answer, in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from ocp.app.sentences.wording import Wording
from ocp.problem.finding import Finding, Kind

#: what ended the work, as findings name it
CAUSES = {"limit": "the time limit", "interrupt": "the interrupt"}


def _left_out(found: Finding) -> str:
    parts = ", ".join(found.data["parts"])
    return f"left out because of {CAUSES[found.data['by']]}: {found.name}{f' ({parts})' if parts else ''}"


def _stopped_in(found: Finding) -> str:
    return f"{CAUSES[found.data['by']]} came during this stage: {found.name}"


SENTENCES: Mapping[Kind, Wording] = {Kind.LEFT_OUT: _left_out, Kind.STOPPED_IN: _stopped_in}
