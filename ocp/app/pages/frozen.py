"""What a solve chose by itself, as lines for a problem file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

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


def _value(value: Any) -> str:
    if isinstance(value, str) and (not _PLAIN.match(value) or value.lower() in _WORDS):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if isinstance(value, (bool, int, float)) else str(value)
