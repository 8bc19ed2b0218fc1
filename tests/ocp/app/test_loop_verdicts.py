"""A few of the fifty closed loops of the benchmark, one of each end; the others are made by its script."""

import importlib.util
import sys

import pytest
from repository import ROOT


@pytest.fixture(scope="module")
def table():
    folder = ROOT / "tests" / "benchmarks"
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location("loop_verdicts", folder / "loop_verdicts.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules["loop_verdicts"] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


def test_there_are_fifty_of_five_ends(table):
    found = list(table.cases())
    assert len({case.name for case in found}) == len(found) == 50
    assert {case.end for case in found} == {"fallen", "leaning", "sliding", "violating", "fine"}


@pytest.mark.parametrize("name", ["pendulum fallen 1", "pendulum fine 1", "wall violating 2", *(
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("wall fine 2", "pressed down 3", "stands 1", "pushed over 1", "on ice 1"))])
def test_ends_that_are_known_are_reported(table, name):
    case = next(case for case in table.cases() if case.name == name)
    assert table.agrees(case, *table.judged(case))
