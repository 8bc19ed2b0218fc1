"""The table from the equations of the literature to functions, read from the docstrings that cite them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

NUMBER = r"\(?[0-9]+(?:\.[0-9]+)*[a-z]?\)?"
CITED = re.compile(rf"Eqs?\.\s*({NUMBER}(?:\s*(?:-|to|,|and)\s*{NUMBER})*)")
SOURCES = {  # a word of the docstring (or of its module's) -> the document
    "Kindr": "Kindr cheat sheet",
    "Hutter": "Robot Dynamics, lecture notes (ETH)",
    "lecture notes": "Robot Dynamics, lecture notes (ETH)",
    "Singh": "Singh, Russell and Wensing, second-order derivatives of inverse dynamics",
    "Traversaro": "Traversaro and Saccon, Multibody dynamics notation",
    "RedMax": "RedMax: analytically differentiable articulated rigid body dynamics",
    "Solà": "Solà and others",
    "Sola": "Solà and others",
    "Featherstone": "Featherstone, Rigid Body Dynamics Algorithms",
    "Carpentier": "Carpentier and Mansard, analytical derivatives",
}


def cited(root: Path) -> Iterator[tuple[str, str, str]]:
    """(document, equations, dotted name) for every docstring in the packages that cites an equation."""
    for package in ("dynamics", "ocp"):
        for path in sorted((root / package).rglob("*.py")):
            module = str(path.relative_to(root).with_suffix("")).replace("/", ".")
            tree = ast.parse(path.read_text(encoding="utf-8"))
            home = ast.get_docstring(tree) or ""
            nodes = [(module, home)] + [
                (f"{module}.{n.name}", ast.get_docstring(n) or "")
                for n in tree.body
                if isinstance(n, ast.FunctionDef | ast.ClassDef) and not n.name.startswith("_")
            ]
            for name, text in nodes:
                for found in CITED.finditer(text):
                    document = _document(text[: found.start()]) or _document(home) or "Others"
                    yield document, " ".join(re.sub(r"[()]", "", found[1]).split()), name


def equations_page(root: Path) -> str:
    """The page, one table per document."""
    tables: dict[str, list[tuple[str, str]]] = {}
    for document, equations, name in cited(root):
        tables.setdefault(document, []).append((equations, name))
    parts = ["# From equations to functions\n", "What docstrings cite. A name of a module stands for all that it holds.\n"]
    for document in sorted(tables, key=lambda d: (d == "Others", d)):
        rows = sorted(tables[document], key=lambda r: [int(n) for n in re.findall(r"\d+", r[0])])
        parts += [f"## {document}\n", "| equation | function |", "|---|---|", *(f"| {e} | `{n}` |" for e, n in rows), ""]
    return "\n".join(parts)


def _document(text: str) -> str | None:
    """The source named last in a text."""
    named = [(text.rfind(word), document) for word, document in SOURCES.items() if word in text]
    return max(named)[1] if named else None
