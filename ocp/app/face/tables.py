"""What notebooks show of a robot, a problem and a result: small tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any


def _table(title: str, heading: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{escape(word)}</th>" for word in heading)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def robot_table(robot: Any) -> str:
    """Joints with their limits."""
    from ocp.app.robot.facts import joint_rows

    return _table(repr(robot), ("joint", "kind", "lower", "upper", "velocity", "effort"), joint_rows(robot.mechanism))


def problem_table(problem: Any) -> str:
    """Phase by phase: ends, costs and constraints, as text."""
    tree = problem.tree
    rows: list[tuple[str, str, str]] = []
    system = tree.get("system", {})
    for key in ("robot", "states", "controls", "dynamics", "next", "sampled"):
        if system.get(key):
            rows.append(("", key, _words(system[key])))
    for phase in tree.get("phases", [tree.get("phase", {})]):
        name = phase.get("name", "")
        for key in ("duration", "start", "final", "bounds"):
            if key in phase:
                rows.append((name, key, _words(phase[key])))
        for group in ("costs", "constraints"):
            rows += [(name, f"{group[:-1]} {entry.get('name', '')}", _words({k: v for k, v in entry.items() if k != "name"}))
                     for entry in phase.get(group, [])]
    return _table(repr(problem), ("phase", "what", "value"), rows)


def result_table(result: Any) -> str:
    """The verdict and every check of the certificate."""
    from ocp.app.pages.results import with_bar
    from ocp.app.sentences.certificate import CHECKS

    verdict = "✓ certified" if result.ok else "✗ not certified"
    rows = [("objective", with_bar(result.solution), "", ""), ("duration", f"{result.duration:.6g} s", "", "")]
    certificate = result.certificate
    if certificate is not None:
        mark = {True: "holds", False: "fails"}
        rows += [(CHECKS[c.kind], f"{c.value:.2e}", f"{c.tolerance:.1e}", mark[c.holds]) for c in certificate.checks]
        rows += [(v.label, f"{v.at_knots:.2e}", f"{v.tolerance:.1e}", mark[v.holds]) for v in certificate.violations]
    title = f"{result.solution.problem.name} · {result.solution.method}: {verdict}"
    return _table(title, ("", "value", "tolerance", ""), rows)


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_words(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_words, value))}]"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
