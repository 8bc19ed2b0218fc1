"""Plain values as YAML, as people write it."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from ocp.errors import ProblemError

#: text that readers of YAML take for something else
YAML_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


class _Representer(RoundTripRepresenter):
    """The library's representer with ``null`` written out and floats in Python's shortest exact form."""


_Representer.add_representer(type(None), lambda r, _: r.represent_scalar("tag:yaml.org,2002:null", "null"))
_Representer.add_representer(float, lambda r, x: r.represent_scalar("tag:yaml.org,2002:float", _float_text(x)))


def dump(tree: Any) -> str:
    """YAML 1.2 text of plain values (None, bool, int, float, str, list, dict); reading it back gives an equal tree."""
    writer = YAML()
    writer.Representer = _Representer
    writer.width = 10**6
    writer.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    writer.dump(_styled(tree), stream)
    return stream.getvalue()


def _float_text(value: float) -> str:
    if value != value:
        raise ProblemError(".nan cannot be written to a problem file")
    if abs(value) == float("inf"):
        return "-.inf" if value < 0 else ".inf"
    return repr(value)


def _styled(tree: Any) -> Any:
    # short collections without inner collections of their own go on one line, as people write them
    if isinstance(tree, Mapping):
        made = CommentedMap((_text(key), _styled(value)) for key, value in tree.items())
        children = list(tree.values())
    elif isinstance(tree, (list, tuple)):
        made = CommentedSeq(_styled(value) for value in tree)
        children = list(tree)
    else:
        return _text(tree) if isinstance(tree, str) else tree
    inner = [x for c in children if isinstance(c, (list, tuple)) for x in c]  # a row of plain values counts as one
    leaves = not any(isinstance(c, Mapping) for c in children) and not any(isinstance(x, (Mapping, list, tuple)) for x in inner)
    if leaves and len(str(tree)) <= 90 and "\\n" not in repr(tree):
        made.fa.set_flow_style()
    else:
        made.fa.set_block_style()
    return made


def _text(value: str) -> str:
    if re.search(r"[^\S\n]|[^\x20-\x7e\n]", value.replace(" ", "")) or value != value.strip():
        return DoubleQuotedScalarString(value)
    if "\n" in value and all(line == line.rstrip() for line in value.split("\n")):
        return LiteralScalarString(value)
    # quoted also where YAML 1.1 tools, still the majority among editors, would read something else
    plain = re.fullmatch(r"[A-Za-z_][\w ./()*+-]*", value) and value.lower() not in YAML_WORDS
    return value if plain else DoubleQuotedScalarString(value)
