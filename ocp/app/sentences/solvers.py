"""Findings of nonlinear programs and their solvers, in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from ocp.app.sentences.wording import Wording
from ocp.problem.finding import Finding, Kind  # noqa: F401

SENTENCES: Mapping[Kind, Wording] = {}
