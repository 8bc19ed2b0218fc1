"""What a solve chose by itself, as lines for a problem file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ocp.methods import in_discrete_time
from ocp.problem import Solution

#: text that YAML reads as text without quotation marks
_PLAIN = re.compile(r"^[A-Za-z][A-Za-z_]*( \d+)?$")
#: words that YAML reads as something else
_WORDS = frozenset({"yes", "no", "on", "off", "true", "false", "null", "y", "n"})


def frozen_lines(method: str, freeze: Mapping[str, Any]) -> str:
    """The section ``solve`` of a problem file with these options; it stands for the section that was there."""
    head = ["solve:", f"  method: {method}"]
    if not freeze:
        return "\n".join(head)
    return "\n".join([*head, f"  {method}:", *(f"    {name}: {_value(value)}" for name, value in freeze.items())])


def choice(solution: Solution) -> str:
    """What was solved with, in one line: method, scheme, mesh and passes. The mesh itself may be kilobytes of text."""
    options, rows = solution.options, solution.extra.get("refinement")
    words = [solution.method]
    if in_discrete_time(solution.problem):
        return f"{solution.method}, {sum(phase.steps or 0 for phase in solution.problem.phases)} given steps"
    if rows is not None and len(rows):
        last = dict(zip(solution.extra["refinement_columns"].tolist(), rows[-1].tolist(), strict=True))
        low, high = int(last["lowest degree"]), int(last["highest degree"])
        words.append(f"{options['scheme']} of degree {low}" + (f" to {high}" if high > low else ""))
        words.append(f"{int(last['intervals'])} intervals after {len(rows)} pass{'es' if len(rows) > 1 else ''}")
    else:
        words += [str(options[name]) for name in ("scheme", "integrator") if name in options]
        words += ["a mesh of the file"] if options.get("mesh", "uniform") != "uniform" else [
            f"{options['intervals']} intervals"] if "intervals" in options else []
    return ", ".join(words)


def _value(value: Any) -> str:
    if isinstance(value, str) and (not _PLAIN.match(value) or value.lower() in _WORDS):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if isinstance(value, (bool, int, float)) else str(value)
