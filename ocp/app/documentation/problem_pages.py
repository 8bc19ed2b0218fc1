"""A page for every file of the gallery: its description, the file itself, and the result of a run."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.progress import track

OCP = (sys.executable, "-c", "from ocp.app.cli import main; main()")
COMMANDS = {"": "solve", "ik": "ik", "mpc": "mpc", "wbc": "wbc", "redmax": "simulate", "sweeps": "sweep"}  # by folder
SOLVED = ("states", "controls", "constraints")  # pictures of a solve; of other commands all


def problem_pages(folder: Path, originals: Path, run: bool) -> None:
    """Write `<problem>.md` beside every problem file, and lead the gallery's table there.

    Parameters
    ----------
    folder:
        The gallery's folder among the sources of the website; pages are written into it.
    originals:
        The gallery with the models of its robots.
    run:
        Whether to run each file with its own options for result and pictures. Raises RuntimeError for one that leaves none.
    """
    files = [path for below in COMMANDS for path in sorted((folder / below).glob("*.yaml"))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pages = pool.map(lambda path: _page(path, originals / path.relative_to(folder), run), files)
        for path, page in track(zip(files, pages, strict=True), "problems", total=len(files), disable=not run):
            path.with_suffix(".md").write_text(page, encoding="utf-8")
    index = folder / "README.md"
    index.write_text(re.sub(r"\(((?:[a-z]+/)?[a-z0-9_]+)\.yaml\)", r"(\1.md)", index.read_text(encoding="utf-8")), encoding="utf-8")


def _page(path: Path, original: Path, run: bool) -> str:
    text, command = path.read_text(encoding="utf-8"), COMMANDS[path.parent.name if path.parent.name in COMMANDS else ""]
    title = re.search(r"^name:\s*(.+)$", text, flags=re.M)
    parts = [f"# {title[1].strip(chr(34)) if title else path.stem}\n"]
    if run:
        parts += _result(original, path.parent, command)
    name = path.name if command == "solve" else f"{path.parent.name}/{path.name}"
    return "\n".join([*parts, f"```sh\nocp {command} problems/{name}\n```\n", f"```yaml\n{text.rstrip()}\n```\n"])


def _result(path: Path, folder: Path, command: str) -> list[str]:
    """The result of a run of the file, as parts of its page; its pictures go into the folder."""
    with tempfile.TemporaryDirectory() as work:
        out = Path(work, "run")
        done = subprocess.run([*OCP, command, path, "--out", out, "--quiet"], capture_output=True, text=True)
        record = out / ("sweep.json" if command == "sweep" else "summary.json")
        if not record.exists():
            raise RuntimeError(f"{path}: no run to show\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        summary = json.loads(record.read_text(encoding="utf-8"))
        told = [line.rstrip() for line in done.stdout.strip().splitlines() if not line.startswith("  written to")]
        parts = _verdict(summary) if command == "solve" else ["```text\n" + "\n".join(told) + "\n```\n"]
        for picture in [out / f"{name}.png" for name in SOLVED] if command == "solve" else sorted(out.glob("*.png")):
            if picture.exists():
                name = f"{path.stem}_{picture.name}"
                shutil.copy(picture, folder / name)
                parts.append(f"![{picture.stem}]({name})\n")
    return parts


def _verdict(summary: dict[str, Any]) -> list[str]:
    """Description, source and a table of how a solve ended."""
    parts = [summary["problem"]["description"].strip() + "\n"]
    if summary["problem"].get("source"):
        parts.append(f"Source: {summary['problem']['source'].strip()}\n")
    failures = ", ".join(summary["certificate"]["failures"])
    verdict = f"not certified: {failures}" if failures else "certified"
    rows = [("method", summary["method"]), ("verdict", verdict), ("objective", summary["objective_text"])]
    if reference := summary.get("reference"):
        rows.append(("reference", f"{reference['objective']:.10g} ({reference['source']})"))
    rows.append(("kind of optimum", summary["certificate"]["second_order"]["words"]))
    return [*parts, "| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows), ""]
