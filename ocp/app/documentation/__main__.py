"""Build the website: stage the pages as they lie in the repository, add those that are made, and call Sphinx.

Sources stay where they are, so that links work in the repository, too: the README is the index, `ocp/docs` holds the pages,
`problems` the gallery, `results/benchmarks` the tables. Made are a page per problem of the gallery, all options and keys, the
table from equations to functions and the interface. Any warning of Sphinx is an error.
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
    "Start": ("ocp/docs/own_robot", "ocp/docs/commands", "ocp/docs/reports", "ocp/docs/files", "ocp/docs/python",
              "ocp/docs/extending", "ocp/docs/sweeps"),
    "Tutorials": ("ocp/docs/tutorials/*",),
    "How it works": ("ocp/docs/methods", "ocp/docs/strategy", "options",
                     "ocp/docs/certificate", "ocp/docs/derivatives", "ocp/docs/robots"),
    "Simulate and control": ("ocp/docs/mpc", "ocp/docs/simulation", "ocp/docs/whole_body"),
    "Look up": ("keys", "problems/README", "ocp/docs/gallery", "ocp/docs/conventions", "equations", "interface",
                "ocp/docs/benchmarks"),
    "The project": ("ocp/docs/house", "ocp/docs/changelog"),
}


def stage(folder: Path, run: bool) -> None:
    """Lay the sources of the website into a folder as Sphinx wants them."""
    shutil.copytree(ROOT / "ocp" / "docs", folder / "ocp" / "docs")
    (folder / "ocp" / "docs" / "tutorials" / "problems").symlink_to(ROOT / "problems")  # tutorials speak from the repository's root
    for source in ("problems", "results/benchmarks", "tests/first_files"):
        shutil.copytree(ROOT / source, folder / source, ignore=shutil.ignore_patterns("models", "__pycache__"))
    problem_pages(folder / "problems", ROOT / "problems", run)
    (folder / "equations.md").write_text(equations_page(ROOT), encoding="utf-8")
    (folder / "options.md").write_text(options_page(), encoding="utf-8")
    (folder / "keys.md").write_text(keys_page(), encoding="utf-8")
    (folder / "interface.md").write_text(interface_page(), encoding="utf-8")
    shutil.copy(Path(__file__).with_name("conf.py"), folder)
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
