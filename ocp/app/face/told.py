"""Explanations in Python: what ``ocp explain`` prints, as text."""

from __future__ import annotations

import html
import io
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, repr=False)
class Told:
    """What there is to say, printed as it stands. named: whether a cause, or the price of every constraint, is named."""

    text: str = field(repr=False)
    named: bool

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


def explained(target: Path) -> Told:
    """The explanation of a problem file, or of the folder of a run."""
    from rich.console import Console

    from ocp.app.explain.run import EXPLAINED, explain

    out = io.StringIO()
    code = explain(target, quiet=True, console=Console(file=out, width=140, highlight=False))
    return Told(out.getvalue().strip("\n"), code == EXPLAINED)
