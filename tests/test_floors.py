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
        "kernels",
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
        "interrupts",
        "spaces",
        "implicit",
        "problem",
        "reach",
        "bridge",
        "robot_terms",
        "contacts",
        "derivatives",
        "integrators",
        "guess",
        "fitted_guess",
        "reductions",
        "simulation",
        "plants",
        "solvers",
        "control",
        "nlp",
        "transcription",
        "shooting",
        "certify",
        "derivative_check",
        "explain",
        "conclusion",
        "methods",
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
    "numba": ("ocp/app/derivative_study/", "dynamics/kernels/", "dynamics/loops/", "dynamics/derivatives/", "ocp/shooting/",
              "ocp/nlp/interior_point/", "ocp/transcription/", "ocp/control/", "ocp/solvers/"),
}
NOTATION = ("dynamics.notation", "ocp.control.notation")  # for readers and tests: no other room imports it
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
        if module.startswith(NOTATION) and "/notation/" not in here:
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
