"""A page for every problem of the gallery: what it is, its file, and what a run of it found."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.progress import track

PICTURES = ("states", "controls", "constraints")
SOLVE = "from ocp.app.cli import main; main()"


def problem_pages(folder: Path, originals: Path, run: bool) -> None:
    """Write `<problem>.md` beside every problem file, and lead the gallery's table there.

    Parameters
    ----------
    folder:
        The gallery's folder among the sources of the website; pages are written into it.
    originals:
        The gallery with the models of its robots.
    run:
        Whether to solve each problem with its own options for result and pictures.
    """
    for path in track(sorted(folder.glob("*.yaml")), "problems", disable=not run):
        text = path.read_text(encoding="utf-8")
        title = re.search(r"^name:\s*(.+)$", text, flags=re.M)
        parts = [f"# {title[1].strip(chr(34)) if title else path.stem}\n"]
        if run:
            parts += _result(originals / path.name, folder)
        parts += [f"```sh\nocp solve problems/{path.name}\n```\n", f"```yaml\n{text.rstrip()}\n```\n"]
        path.with_suffix(".md").write_text("\n".join(parts), encoding="utf-8")
    index = folder / "README.md"
    index.write_text(re.sub(r"\(([a-z0-9_]+)\.yaml\)", r"(\1.md)", index.read_text(encoding="utf-8")), encoding="utf-8")


def _result(path: Path, folder: Path) -> list[str]:
    """What a run of the problem found, as parts of its page; its pictures go into the folder. Raises RuntimeError without a run."""
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([sys.executable, "-c", SOLVE, "solve", path, "--out", out], capture_output=True, text=True)
        summary_file = Path(out, "summary.json")
        if not summary_file.exists():
            raise RuntimeError(f"{path}: no run to show\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        summary = json.loads(summary_file.read_text(encoding="utf-8"))
        parts = [summary["problem"]["description"].strip() + "\n"]
        if summary["problem"].get("source"):
            parts.append(f"Source: {summary['problem']['source'].strip()}\n")
        failures = ", ".join(summary["certificate"]["failures"])
        verdict = f"not certified: {failures}" if failures else "certified"
        rows = [("method", summary["method"]), ("verdict", verdict), ("objective", summary["objective_text"])]
        reference = summary.get("reference")
        if reference:
            rows.append(("reference", f"{reference['objective']:.10g} ({reference['source']})"))
        rows.append(("kind of optimum", summary["certificate"]["second_order"]["words"]))
        parts += ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows), ""]
        for picture in PICTURES:
            source = Path(out, f"{picture}.png")
            if source.exists():
                name = f"{path.stem}_{picture}.png"
                shutil.copy(source, folder / name)
                parts.append(f"![{picture}]({name})\n")
    return parts
