"""Where this checkout lies, and its problem files, each read once."""

from functools import cache
from pathlib import Path

from ocp.app.files.load import LoadedProblem, load_problem

ROOT = Path(__file__).resolve().parents[2]


@cache
def shipped(path: Path) -> LoadedProblem:
    return load_problem(path)
