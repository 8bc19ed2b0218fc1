"""What the README and the pages of the documentation say is run: Python blocks, problem files, the two commands and the map."""

import functools
import importlib
import re
from contextlib import contextmanager
from pathlib import Path

import pytest

from dynamics.joints import KINDS
from ocp.app.files.robot.forces_schema import MechanismConstraint, RobotForce
from ocp.app.files.syntax.parts import make_anew
from ocp.integrators import INTEGRATORS
from ocp.plants.table import PLANTS
from ocp.transcription.schemes import SCHEMES

ROOT = Path(__file__).resolve().parent.parent
FILES = (ROOT / "README.md", *sorted((ROOT / "ocp" / "docs").glob("*.md")))
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in FILES}


@contextmanager
def kept(kind):
    """The keys of a mapping afterwards are those of before."""
    before = dict(kind.__pydantic_fields__)
    yield
    for name in kind.__pydantic_fields__.keys() - before.keys():
        del kind.__pydantic_fields__[name]
        make_anew()


def blocks(language, text):
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.M | re.S)


def every_block(language):
    return [
        pytest.param(block, id=f"{page}-{number}")
        for page, text in PAGES.items()
        for number, block in enumerate(blocks(language, text))
    ]


@pytest.mark.parametrize("block", every_block("python"))
def test_python_blocks_run(block, monkeypatch):
    monkeypatch.chdir(ROOT)
    for table in (KINDS, INTEGRATORS, SCHEMES, PLANTS):  # what a block registers goes with it
        monkeypatch.setattr(table, "_rows", dict(table._rows))
    with kept(RobotForce), kept(MechanismConstraint):
        exec(compile(block, "a block of the documentation", "exec"), {"__name__": "documentation"})


@pytest.mark.parametrize("block", every_block("yaml"))
@pytest.mark.sample(3)
def test_problem_file_blocks_solve(block):
    from ocp.app.files.load import load_text
    from ocp.methods import solve

    loaded = load_text(block)
    solution = solve(loaded.problem, loaded.method, loaded.options_for(loaded.method))
    assert solution.ok


@pytest.mark.slow
@pytest.mark.parametrize("tutorial", sorted((ROOT / "ocp" / "docs" / "tutorials").glob("*.md")), ids=lambda path: path.stem)
def test_tutorials_run_from_top_to_bottom(tutorial, monkeypatch):
    monkeypatch.chdir(ROOT)
    names = {"__name__": "tutorial"}
    cells = blocks(r"\{code-cell\} ipython3", tutorial.read_text(encoding="utf-8"))
    assert cells
    for cell in cells:
        exec(compile(cell, tutorial.name, "exec"), names)
    assert all(value.ok for value in names.values() if hasattr(value, "ok") and hasattr(value, "objective"))


@pytest.mark.parametrize("page", ["README", *sorted(set(PAGES) - {"README"})])
def test_links_lead_somewhere(page):
    folder = ROOT if page == "README" else ROOT / "ocp" / "docs"
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"```.*?```", "", PAGES[page], flags=re.S)):
        assert target.startswith("http") or (folder / target).exists(), f"{page}: {target} does not exist"


def anchors(page):
    """The addresses of the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", PAGES[page], flags=re.S), flags=re.M)
    return {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", sorted(PAGES))
def test_links_to_headings_lead_to_headings(page):
    links = re.findall(r"\]\(([a-z_]*)(?:\.md)?#([^)]+)\)", PAGES[page])
    assert [(to, heading) for to, heading in links if heading not in anchors(to or page)] == []


@pytest.mark.parametrize("page", sorted(set(PAGES) - {"changelog"}))
def test_names_of_the_packages_exist(page):
    """Every dotted name of `ocp` and `dynamics` in the text of a page is a module, or an attribute of one."""
    text = re.sub(r"```.*?```", "", PAGES[page], flags=re.S)
    names = re.findall(r"`((?:ocp|dynamics)(?:\.[A-Za-z_][A-Za-z_0-9]*)+)`", text)
    assert [name for name in names if not resolves(name)] == []


def resolves(name):
    """Whether a dotted name is a module, or an attribute of a module or class."""
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        return functools.reduce(lambda one, part: getattr(one, part, None), parts[k:], found) is not None
    return False


def test_the_front_page_is_short_and_leads_to_every_page():
    front = PAGES["README"]
    assert len(front.splitlines()) <= 150
    for page in set(PAGES) - {"README"}:
        assert f"ocp/docs/{page}.md" in front, f"the front page does not lead to {page}.md"


def test_the_two_commands_are_one_liners_that_install_and_run():
    solve, tests = (b.strip() for b in blocks("sh", PAGES["README"])[:2])
    assert "\n" not in solve + tests
    assert "pip install" in solve
    assert solve.endswith("ocp solve problems/cartpole_swingup.yaml")
    assert 'pip install -e ".[test]"' in tests
    assert "pytest" in tests.split(" && ")[-1]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for heading in ("### Solve a problem", "### Run the tests"):
        assert heading in PAGES["README"]
        assert heading in script


def robot_paths_known():
    """Whether the robots extra, with the robots of some files, is installed."""
    from dynamics.errors import ModelError
    from dynamics.model.robots import robot_paths

    try:
        return bool(robot_paths())
    except ModelError:
        return False


@pytest.mark.slow
def test_the_page_of_the_gallery_is_what_its_files_say():
    from ocp.app.verify.gallery import gallery_page
    from ocp.errors import ProblemError

    page = (ROOT / "problems" / "README.md").read_text(encoding="utf-8")
    if robot_paths_known():
        assert page == gallery_page(ROOT / "problems"), "run: ocp verify --index"
    else:
        with pytest.raises(ProblemError, match="needs the robots extra"):
            gallery_page(ROOT / "problems")


def test_the_gallery_is_listed():
    page = (ROOT / "problems" / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"\(([a-z0-9_]+\.yaml)\)", page))
    assert listed == {p.name for p in (ROOT / "problems").glob("*.yaml")}
    assert "## Others" not in page, "every problem has a theme"


def test_the_map_is_true():
    """Every place that the map names exists, and every package and module of the upper two floors is on it."""
    drawn = next(b for b in blocks("text", PAGES["architecture"]) if b.startswith("dynamics/"))
    places, stack = set(), []
    for line in drawn.splitlines():
        name = line.strip().split()[0]
        depth = (len(line) - len(line.lstrip())) // 2
        stack = stack[:depth] + [name.rstrip("/")]
        places.add("/".join(stack))
    for place in places:
        assert (ROOT / place).exists(), f"the map shows {place}, which does not exist"
    for package in ("dynamics", "ocp"):
        for path in (ROOT / package).iterdir():
            if path.name not in ("__init__.py", "__pycache__", "py.typed", "errors.py"):
                assert f"{package}/{path.name}" in places, f"{package}/{path.name} is missing on the map"


def test_every_name_in_the_table_of_symbols_exists():
    """Dotted names of the table's right column resolve to something in the packages."""
    table = PAGES["conventions"].split("| symbol in the literature | name in code |", 1)[1].split("\n\n", 1)[0]
    cells = " ".join(row.split("|")[2] for row in table.splitlines() if row.count("|") == 3)
    names = re.findall(r"`((?:[a-z_0-9]+\.)+[A-Za-z_0-9]+)", cells)
    assert len(names) >= 20

    prefixes = ("", "dynamics.", "dynamics.lie.", "dynamics.algorithms.", "dynamics.notation.")
    assert [name for name in names if not any(resolves(prefix + name) for prefix in prefixes)] == []
