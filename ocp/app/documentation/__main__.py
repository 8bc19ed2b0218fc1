"""Build the website: stage the pages as they lie in the repository, add the generated ones, and call Sphinx.

The staged sources keep their paths, so that links work in the repository and on the website. The README is the index, `ocp/docs`
holds the pages, `problems` the gallery and `results/benchmarks` the tables. Generated pages: one per problem of the gallery, all
options and keys, the table from equations to functions, and the interface. Any warning of Sphinx is an error.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from ocp.app.documentation.keys import keys_page
from ocp.app.documentation.pages import equations_page, interface_page, options_page
from ocp.app.documentation.problem_pages import problem_pages

ROOT = Path(__file__).resolve().parents[3]
TOC = """
```{{toctree}}
:hidden:
:maxdepth: 1
:caption: {caption}

{pages}
```
"""
GROUPS = {
    "Start": ("ocp/docs/install", "ocp/docs/own_robot"),
    "Tutorials": ("ocp/docs/tutorials/*",),
    "Guides": ("ocp/docs/robots", "ocp/docs/contacts", "ocp/docs/mpc", "ocp/docs/whole_body", "ocp/docs/simulation",
               "ocp/docs/sweeps", "ocp/docs/derivatives", "ocp/docs/deploy", "ocp/docs/extend"),
    "Explanation": ("ocp/docs/certificate", "ocp/docs/methods", "ocp/docs/mathematics", "ocp/docs/strategy",
                    "ocp/docs/architecture"),
    "Reference": ("ocp/docs/files", "keys", "options", "ocp/docs/commands", "ocp/docs/python", "interface", "ocp/docs/reports",
                  "ocp/docs/conventions", "equations", "problems/README", "ocp/docs/gallery"),
    "Record": ("ocp/docs/benchmarks", "ocp/docs/changelog"),
}


def stage(folder: Path, run: bool) -> None:
    """Copy and generate the sources of the website into a folder, in the layout that Sphinx needs."""
    shutil.copytree(ROOT / "ocp" / "docs", folder / "ocp" / "docs")
    (folder / "ocp" / "docs" / "tutorials" / "problems").symlink_to(ROOT / "problems")  # tutorials speak from the repository's root
    for source in ("problems", "results/benchmarks", "tests/first_files"):
        shutil.copytree(ROOT / source, folder / source, ignore=shutil.ignore_patterns("models", "__pycache__"))
    for source in ("unit.txt", "rows.txt"):
        shutil.copy(ROOT / "tests" / source, folder / "tests")
    problem_pages(folder / "problems", ROOT / "problems", run)
    (folder / "equations.md").write_text(equations_page(ROOT), encoding="utf-8")
    (folder / "options.md").write_text(options_page(), encoding="utf-8")
    (folder / "keys.md").write_text(keys_page(ROOT / "problems"), encoding="utf-8")
    (folder / "interface.md").write_text(interface_page(), encoding="utf-8")
    for name in ("conf.py", "scorer.js", "narrow.css"):
        shutil.copy(Path(__file__).with_name(name), folder)
    front = (ROOT / "README.md").read_text(encoding="utf-8")
    for caption, patterns in GROUPS.items():
        found = [path for pattern in patterns for path in sorted(folder.glob(pattern + ".md"))]
        pages = "\n".join(str(path.relative_to(folder).with_suffix("")) for path in found)
        if pages:
            front += TOC.format(caption=caption, pages=pages)
    (folder / "index.md").write_text(front, encoding="utf-8")


def build(out: Path, *, run: Annotated[bool, Parameter(negative=())] = False) -> int:
    """Build the website.

    Parameters
    ----------
    out:
        The folder for the pages.
    run:
        Solve every problem of the gallery for its page (minutes).
    """
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "pages"
        folder.mkdir()
        stage(folder, run)
        return subprocess.run([sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", folder, out]).returncode


if __name__ == "__main__":
    App(default_command=build, help="The documentation as a website.")()
