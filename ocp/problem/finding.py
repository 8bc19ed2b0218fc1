"""What is found about an answer, and on the way to it, as data.

A finding says what it is (``Kind``) and where: phase, constraint or state, component, time, value beside its tolerance. Code
compares kinds and numbers; sentences are made of them at the face alone (``ocp.app.sentences``).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np


class Kind(enum.StrEnum):
    """What a finding is about. Names are stable: they stand in ``summary.json`` and in Python."""

    # the certificate

    # the problem by itself: bounds that rule a solution out

    # the strategy: what was tried, why, and what came of it
    STOPPED_IN = "stopped_in"
    LEFT_OUT = "left_out"

    # nonlinear programs and their solvers

    # shooting

    # kernels and derivatives


@dataclass(frozen=True)
class Finding:
    """One finding. name: of the constraint, state, control, parameter, kernel or check it is about; time [s]; data: what else its
    kind has, numbers, names and tuples of these."""

    kind: Kind
    phase: str = ""
    name: str = ""
    component: str = ""
    time: float | None = None
    value: float | None = None
    tolerance: float | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """For JSON: the kind by its name, and what is given of the rest."""
        given = {f.name: getattr(self, f.name) for f in fields(self)[1:]}
        return {"kind": str(self.kind), **{name: _plain(value) for name, value in given.items() if value not in ("", None, {})}}


def _plain(value: Any) -> Any:
    """The value in JSON's own types."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (tuple, list, np.ndarray)):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        return value.item()
    return value
