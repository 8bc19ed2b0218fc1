"""The house: imports only go down, and libraries stay in the rooms they belong to."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# floors of each package, lowest first; a module may import its own floor and everything below
DYNAMICS = ["errors", "lie", "spatial", "joints", "model", "algorithms", "functions", "frames", "derivatives", "kernels"]
OCP = ["errors", "spaces", "problem", "bridge", "qp", "control", "nlp", "transcription", "shooting", "certify", "methods", "app"]
CONFINED = {"matplotlib": "ocp/app/", "osqp": "ocp/qp.py", "pydantic": "ocp/app/", "rich": "ocp/app/", "jinja2": "ocp/app/",
            "ruamel": "ocp/app/", "cyclopts": "ocp/app/", "mujoco": "dynamics/model/mjcf.py",
            "pinocchio": "tests/", "numba": ("dynamics/kernels", "ocp/shooting/", "ocp/control/")}
FILES = sorted(p for package in ("dynamics", "ocp") for p in (ROOT / package).rglob("*.py"))


def imports(path):
    """(module, line) of every import in a file, relative ones resolved; nested imports included."""
    package = list(path.relative_to(ROOT).with_suffix("").parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level]) if node.level else ""
            stem = ".".join(part for part in (base, node.module) if part)
            yield stem, node.lineno
            yield from ((f"{stem}.{alias.name}", node.lineno) for alias in node.names)


def floor(module, package, floors):
    parts = module.split(".")
    return floors.index(parts[1]) if parts[0] == package and len(parts) > 1 and parts[1] in floors else None


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    package, floors = parts[0], DYNAMICS if parts[0] == "dynamics" else OCP
    if parts[1] == "__init__":
        return
    assert parts[1] in floors, f"{path} stands on no floor"
    for module, line in imports(path):
        if package == "dynamics":
            assert module.split(".")[0] != "ocp", f"{path}:{line} imports {module}: dynamics knows nothing of control"
        target = floor(module, package, floors)
        assert target is None or target <= floors.index(parts[1]), f"{path}:{line} imports {module}, which is upstairs"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_libraries_stay_in_their_rooms(path):
    here = path.relative_to(ROOT).as_posix()
    for module, line in imports(path):
        rooms = CONFINED.get(module.split(".")[0])
        assert rooms is None or here.startswith(rooms), f"{path}:{line} imports {module}, allowed only in {rooms}"
    if here != "ocp/nlp.py":
        assert "nlpsol(" not in path.read_text(encoding="utf-8"), f"{here} calls nlpsol"


@pytest.mark.parametrize("path", [p for p in FILES if "app" not in p.parts], ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_below_the_app_prints_or_reads_the_environment(path):
    here = path.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print", f"{path}:{node.lineno} prints"
        if isinstance(node, ast.Attribute) and node.attr == "environ":
            assert here.startswith("dynamics/kernels"), f"{path}:{node.lineno} looks at the environment"


def test_the_checks_can_fail(tmp_path):
    """An upward import and a confined library are really seen."""
    bad = ROOT / "dynamics" / "lie" / "zz.py"
    found = {m for m, _ in [("ocp.app.cli", 1)]}
    assert floor("dynamics.kernels", "dynamics", DYNAMICS) > floor("dynamics.lie.so3", "dynamics", DYNAMICS)
    assert found
    assert not bad.exists()
    sample = tmp_path / "x.py"
    sample.write_text("def f():\n    from matplotlib import pyplot\n    import a.b\n")
    tree = ast.parse(sample.read_text())
    assert sum(isinstance(n, ast.Import | ast.ImportFrom) for n in ast.walk(tree)) == 2


def test_top_level_is_as_the_map_says():
    allowed = {"pyproject.toml", "README.md", "LICENSE", "ocp", "dynamics", "problems", "tests", "results"}
    import subprocess

    listed = subprocess.run(["git", "ls-tree", "--name-only", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        names = {n for n in listed.stdout.split() if not n.startswith(".")}
        assert names <= allowed, names - allowed
