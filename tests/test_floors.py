"""The house: imports only go down, and libraries stay in the rooms they belong to."""

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# floors of each package, lowest first; a module may import its own floor and everything below
FLOORS = {
    "dynamics": [
        "errors",
        "tables",
        "kernels",
        "steps",
        "lie",
        "spatial",
        "joints",
        "model",
        "algorithms",
        "functions",
        "forces",
        "constraints",
        "mechanism",
        "loops",
        "derivatives",
        "redmax",
        "robot",
        "notation",
    ],
    "ocp": [
        "errors",
        "thresholds",
        "interrupts",
        "observed",
        "pickles",
        "spaces",
        "implicit",
        "problem",
        "reach",
        "bridge",
        "robot_terms",
        "contacts",
        "derivatives",
        "integrators",
        "options",
        "guesses",
        "reductions",
        "simulation",
        "plants",
        "solvers",
        "control",
        "gaits",
        "nlp",
        "transcription",
        "shooting",
        "certify",
        "derivative_check",
        "strategy",
        "explain",
        "methods",
        "batch",
        "estimation",
        "mpc",
        "wbc",
        "app",
    ],
}
CONFINED = {
    "matplotlib": ("ocp/app/",), "pydantic": ("ocp/app/",), "rich": ("ocp/app/",), "jinja2": ("ocp/app/",),
    "ruamel": ("ocp/app/",), "cyclopts": ("ocp/app/",), "osqp": ("ocp/solvers/",),
    "mujoco": ("dynamics/model/mjcf.py", "ocp/plants/mujoco.py"),
    "pinocchio": (),  # of tests and benchmarks
    "numba": ("ocp/app/derivative_study/", "dynamics/kernels/", "dynamics/steps/", "dynamics/loops/", "dynamics/derivatives/",
              "ocp/shooting/", "ocp/nlp/interior_point/", "ocp/transcription/", "ocp/control/", "ocp/solvers/"),
}
# ---- control flow by prose: what code says to people it does not read itself
SPOKEN = {"words", "notes", "note", "message", "sentence", "said", "told", "where", "text"}  # attributes that hold messages
SPOKEN_NAMES = {"note", "notes", "message", "sentence", "said", "told"}  # and variables
MANY = {"notes"}  # of messages: whether one is among them is no question about its words
PARTS = {"startswith", "endswith", "partition", "rpartition", "split", "rsplit", "removeprefix", "removesuffix", "find", "rfind",
         "index", "count"}
LETTERS = {"lower", "upper", "strip", "lstrip", "rstrip", "casefold", "removeprefix", "removesuffix", "partition", "rpartition",
           "split", "splitlines", "replace"}
READERS = ("ocp/app/sentences/", "ocp/app/files/", "dynamics/model/")  # make sentences; read files
PROSE = {  # until their findings, and the names of rows and columns, are data
    "ocp/explain/groups.py": "names of rows and columns",
    "ocp/nlp/names.py": "names of rows and columns",
}
NOTATION = ("dynamics.notation", "ocp.control.notation")  # for readers and tests: no other room imports it ...
CONVERTS = {"ocp/app/export.py": "dynamics.notation.adapters"}  # ... but for what writes states of other tools
ENVIRONMENT = ("dynamics/kernels/",)  # the cache is the one place that looks at the environment


def imports(tree, here):
    """(module, line) of every import of a file, nested and relative ones included."""
    package = here.removesuffix(".py").split("/")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level]) if node.level else ""
            stem = ".".join(part for part in (base, node.module) if part)
            yield stem, node.lineno
            yield from ((f"{stem}.{alias.name}", node.lineno) for alias in node.names)


def faults(text, here):
    """What is wrong with a file of this text at this place, as sentences."""
    tree = ast.parse(text)
    package, room = here.removesuffix(".py").split("/")[:2]
    floors = FLOORS[package]
    if room != "__init__" and room not in floors:
        yield f"{here} stands on no floor"
        return
    for module, line in imports(tree, here):
        parts = module.split(".")
        if package == "dynamics" and parts[0] == "ocp":
            yield f"{here}:{line} imports {module}: dynamics knows nothing of control"
        target = parts[1] if parts[0] == package and len(parts) > 1 else ""
        if room != "__init__" and target in floors and floors.index(target) > floors.index(room):
            yield f"{here}:{line} imports {module}, which is upstairs"
        if module.startswith(NOTATION) and "/notation/" not in here and not module.startswith(CONVERTS.get(here, "-")):
            yield f"{here}:{line} imports {module}, which only readers and tests need"
        if parts[0] in CONFINED and not here.startswith(CONFINED[parts[0]] or ("nowhere",)):
            yield f"{here}:{line} imports {module}, allowed only in {CONFINED[parts[0]]}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name == "nlpsol" and not here.startswith("ocp/nlp/"):
                yield f"{here}:{node.lineno} calls nlpsol"
            if isinstance(node.func, ast.Name) and name == "print" and not here.startswith("ocp/app/"):
                yield f"{here}:{node.lineno} prints"
        if isinstance(node, ast.Attribute) and node.attr == "environ" and not here.startswith(ENVIRONMENT):
            yield f"{here}:{node.lineno} looks at the environment"


def prose(text, here):
    """(line, what) wherever a file compares or takes apart messages; outside the pages for people also names of several words."""
    tree = ast.parse(text)
    spoken = set(SPOKEN_NAMES)
    for node in ast.walk(tree):  # messages one by one
        if isinstance(node, (ast.comprehension, ast.For)) and isinstance(node.target, ast.Name) and _spoken(node.iter, spoken):
            spoken.add(node.target.id)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PARTS and (
                _spoken(node.func.value, spoken) or (not here.startswith("ocp/app/") and any(map(_phrase, node.args)))):
            yield node.lineno, f"takes a message apart by {node.func.attr}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and \
                node.func.value.id == "re" and any(_spoken(one, spoken) for one in node.args):
            yield node.lineno, "searches a message"
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for op, left, right in zip(node.ops, sides[:-1], sides[1:], strict=True):
                if _compared(op, left, right, spoken) or (not here.startswith("ocp/app/") and _contains(op) and _phrase(left)):
                    yield node.lineno, "compares a message"


def _contains(op):
    return isinstance(op, (ast.In, ast.NotIn))


def _compared(op, left, right, spoken):
    """Whether a comparison asks what a message says: not whether there is one, nor whether it is among others."""
    if _contains(op):
        among = isinstance(right, (ast.Name, ast.Attribute)) and _called(right) in MANY and not isinstance(left, ast.Constant)
        return (_spoken(left, spoken) or _spoken(right, spoken)) and not among
    if not isinstance(op, (ast.Eq, ast.NotEq)):
        return False
    return any(_spoken(one, spoken) and (_said(other) or _called(other).isupper()) for one, other in ((left, right), (right, left)))


def _said(node):
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != "")


def _phrase(node):
    """A text with a space among other letters."""
    texts = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(isinstance(one, ast.Constant) and isinstance(one.value, str) and " " in one.value and one.value.strip()
               for one in texts)


def _called(node):
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _spoken(node, names):
    """Whether an expression is a message, or several."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Attribute):
        return node.attr in SPOKEN
    if isinstance(node, (ast.Subscript, ast.Starred)):
        return _spoken(node.value, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LETTERS:
        return _spoken(node.func.value, names)
    return False


@pytest.mark.parametrize("package", FLOORS)
def test_code_does_not_read_what_it_tells_people(package):
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        here = path.relative_to(ROOT).as_posix()
        if not here.startswith(READERS):
            for line, what in prose(path.read_text(encoding="utf-8"), here):
                found.setdefault(here, []).append(f"{here}:{line} {what}")
    assert [one for here, own in found.items() if here not in PROSE for one in own] == []
    assert [here for here in PROSE if here.startswith(f"{package}/") and here not in found] == []  # strike these from the list


@pytest.mark.parametrize(("text", "caught"), [
    ('if AT_A_JUMP in certificate.stationarity.where: pass', True),
    ('any(told in where for told, where in zip(A, words))', True),
    ('kind = second_order.words.partition(" of ")[0]', True),
    ('before = tuple(said for said in found.notes if said.startswith(("pass ", "chattered")))', True),
    ('passes = [one for one in found.notes if one.startswith("pass ")]', True),
    ('names = [name.partition("[")[0].removesuffix(" (cone)") for name in path_names]', True),
    ('rows = ["defect " in name for name in constraints]', True),
    ('if found.message == "no progress": pass', True),
    ('if found.message.lower() == DONE: pass', True),
    ('if "pass" in found.notes: pass', True),
    ('turns = re.search("[0-9]+", residual.where)', True),
    ('if found.message: pass', False),
    ('if found.message != "": pass', False),
    ('new = [note for note in mover.notes if note not in notes]', False),
    ('if Kind.STATE_DEPENDENT_JUMP in certificate.causes: pass', False),
    ('parts = text.split(";")', False),
    ('words = f"{note}, {found.message}"', False),
])
def test_prose_is_caught(text, caught):
    assert bool(list(prose(text, "ocp/certify/somewhere.py"))) is caught


@pytest.mark.parametrize("package", FLOORS)
def test_the_house_is_in_order(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert len(files) > 50
    assert [fault for path in files for fault in faults(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())] == []


@pytest.mark.parametrize(("text", "here", "words"), [
    ("import ocp.spaces", "dynamics/lie/so3.py", "knows nothing of control"),
    ("def f():\n    from dynamics.algorithms import tree", "dynamics/model/model.py", "upstairs"),
    ("from ..algorithms import tree", "dynamics/joints/kind.py", "upstairs"),
    ("import matplotlib.pyplot as plt", "ocp/certify.py", "allowed only in"),
    ("import pinocchio", "ocp/app/cli.py", "allowed only in"),
    ("from ocp.control.notation import prioritised", "ocp/app/cli.py", "only readers"),
    ("s = ca.nlpsol('s', 'ipopt', {})", "ocp/transcription/mesh.py", "calls nlpsol"),
    ("print(1)", "ocp/methods.py", "prints"),
    ("import os\nos.environ['A']", "ocp/app/pipeline.py", "environment"),
    ("x = 1", "ocp/attic.py", "no floor"),
])
def test_each_rule_can_be_broken(text, here, words):
    found = list(faults(text, here))
    assert len(found) >= 1
    assert words in found[0]


def test_top_level_is_as_the_map_says():
    allowed = {"pyproject.toml", "README.md", "LICENSE", "ocp", "dynamics", "problems", "tests", "results"}
    listed = subprocess.run(["git", "ls-tree", "--name-only", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:  # outside a checkout there is nothing to list
        assert {n for n in listed.stdout.split() if not n.startswith(".")} <= allowed
