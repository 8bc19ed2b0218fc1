"""What a table of sentences holds for a kind of finding."""

from __future__ import annotations

from collections.abc import Callable

from ocp.problem.finding import Finding

#: a template with the fields and data of a finding, or what makes a sentence of it
Wording = str | Callable[[Finding], str]
