"""Pages that are made: from equations to functions, the interface (what `import ocp` and `import dynamics` offer, by Sphinx's
autodoc), and all options (what the records of options say of themselves, and their defaults)."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

from ocp.methods import METHODS
from ocp.mpc.options import MPCOptions

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
            nodes = [(module, home), *((f"{module}.{n.name}", ast.get_docstring(n) or "") for n in tree.body
                                       if isinstance(n, ast.FunctionDef | ast.ClassDef) and not n.name.startswith("_"))]
            for name, text in nodes:
                for found in CITED.finditer(text):
                    document = _document(text[: found.start()]) or _document(home) or "Others"
                    yield document, " ".join(re.sub(r"[()]", "", found[1]).split()), name


def equations_page(root: Path) -> str:
    """The page, one table per document."""
    tables: dict[str, list[tuple[str, str]]] = {}
    for document, equations, name in cited(root):
        tables.setdefault(document, []).append((equations, name))
    parts = ["# From equations to functions\n", "Equations that docstrings cite. A module stands for all its functions.\n"]
    for document in sorted(tables, key=lambda d: (d == "Others", d)):
        rows = sorted(tables[document], key=lambda r: [int(n) for n in re.findall(r"\d+", r[0])])
        parts += [f"## {document}\n", "| equation | function |", "|---|---|", *(f"| {e} | `{n}` |" for e, n in rows), ""]
    return "\n".join(parts)


def _document(text: str) -> str | None:
    """The source named last in a text."""
    named = [(text.rfind(word), document) for word, document in SOURCES.items() if word in text]
    return max(named)[1] if named else None


MODULES = ("ocp", "ocp.problem.problem", "ocp.problem.solution", "ocp.bridge", "ocp.methods", "ocp.solvers.hqp",
           "ocp.control.whole_body", "dynamics", "dynamics.functions", "dynamics.mechanism",
           "dynamics.mechanism.assembly", "dynamics.forces", "dynamics.constraints", "dynamics.steps.march",
           "dynamics.steps.schemes", "dynamics.kernels", "dynamics.loops",
           *(f"dynamics.redmax{room}" for room in ("", ".equations", ".implicit", ".adjoint", ".parameters", ".recursive",
                                                   ".free_bodies", ".programs", ".friction", ".deformable")))


def interface_page() -> str:
    """The page as MyST; modules that a release does not have are left out."""
    parts = ["# Interface\n"]
    for name in MODULES:
        members = getattr(importlib.import_module(name), "__all__", None)
        listed = f"   :members: {', '.join(members)}\n" if members else "   :members:\n"
        parts.append(f"## `{name}`\n\n```{{eval-rst}}\n.. automodule:: {name}\n{listed}   :no-index:\n```\n")
    return "\n".join(parts)


def options_page() -> str:
    """The page: a part for each method and for closed loops."""
    parts = ["# Options\n", "In a file under `solve:` (`solve: {method: ilqr, ilqr: {intervals: 200}}`) or `mpc:`, on the command\n"
             "line as `--set solve.ilqr.intervals=200`. Where nothing is given, defaults hold.\n"]
    for name, method in METHODS.items():
        parts += [f"## `{name}`\n", f"{method.summary[0].upper()}{method.summary[1:]}.\n", *_record(method.options_type())]
    return "\n".join([*parts, "## `mpc`\n", *_record(MPCOptions)])


def _record(kind: type) -> list[str]:
    """A record's fields with their defaults, and the entries of its docstring, those of the records it extends before its own; then
    its sections."""
    fields = {f.name: f.default for f in dataclasses.fields(kind)}
    within = {name: type(value) for name, value in fields.items() if dataclasses.is_dataclass(value)}
    table = ["| option | default |", "|---|---|"]
    table += [f"| `{name}` | {'' if name in within or value is dataclasses.MISSING else f'`{value}`'} |"
              for name, value in fields.items()]
    entries = "\n".join(cleandoc(one.__doc__ or "").partition("\n\n")[2] for one in reversed(kind.__mro__[:-1]))
    name = r"(?<![\w.`\"])(" + "|".join(fields) + r")"
    told = []
    for entry in re.split(r"\n(?=\S)", entries.strip()):
        head, colon, rest = " ".join(entry.replace("``", "`").split()).partition(":")
        told.append("- " + re.sub(name + r"\b", r"**\1**", head) + colon + re.sub(name + ":", r"**\1**:", rest))
    parts = [*table, "", *told, ""]
    for section, record in within.items():
        parts += [f"### `{section}`\n", *_record(record)]
    return parts
