"""What makes code hard to read is counted, and may only get less: lower a ceiling with every step down."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
#: of ``ocp`` and ``dynamics`` together
CEILINGS = {"functions of more than ten positional arguments": 0, "returns of more than two bare values": 55,
            "uses of Any": 1196, "functions of more than sixty lines": 0}


def found(tree):
    """(what, name) of all that counts in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "Any":
            yield "uses of Any", f"line {node.lineno}"
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if len(node.args.posonlyargs) + len(node.args.args) > 10:
            yield "functions of more than ten positional arguments", node.name
        if node.end_lineno - node.lineno + 1 > 60:
            yield "functions of more than sixty lines", node.name
        given = node.returns
        if isinstance(given, ast.Subscript) and isinstance(given.value, ast.Name) and given.value.id == "tuple" and \
                isinstance(given.slice, ast.Tuple) and len(given.slice.elts) > 2:
            yield "returns of more than two bare values", node.name


def counted():
    places = {what: [] for what in CEILINGS}
    for package in ("ocp", "dynamics"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for what, name in found(ast.parse(path.read_text(encoding="utf-8"))):
                places[what].append(f"{path.relative_to(ROOT)}: {name}")
    return places


def test_counts_only_fall():
    places = counted()
    above = {what: (len(own), own) for what, own in places.items() if len(own) > CEILINGS[what]}
    assert not above


@pytest.mark.parametrize(("text", "what"), [
    ("def f(a, b, c, d, e, g, h, i, j, k, l): pass", "functions of more than ten positional arguments"),
    ("def f() -> tuple[int, int, int]: pass", "returns of more than two bare values"),
    ("x: Any = 1", "uses of Any"),
    ("def f():\n" + "    x = 1\n" * 60, "functions of more than sixty lines"),
])
def test_each_is_counted(text, what):
    assert [kind for kind, _ in found(ast.parse(text))] == [what]


@pytest.mark.parametrize("text", ["def f(a, b, c, d, e, g, h, i, j, k, *, l): pass", "def f() -> tuple[int, ...]: pass",
                                  "def f() -> tuple[int, int]: pass", "from typing import Any"])
def test_what_is_not_counted(text):
    assert list(found(ast.parse(text))) == []
