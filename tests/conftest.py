"""Which cases run when.

Of a test marked ``sample(k)`` k cases, spread evenly, run by default, and one for every row that those leave out; the others are
slow, as those marked so. Tests of the files that ``unit.txt`` lists are marked ``unit``: they neither compile nor solve anything,
and fail where they do.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from fnmatch import fnmatch
from pathlib import Path

import pytest
from unit_guard import nothing_compiled_or_solved

from dynamics.kernels.threads import pinned

if "PYTEST_XDIST_WORKER" in os.environ:
    pinned()

HERE = Path(__file__).resolve().parent
UNIT = [line for line in (HERE / "unit.txt").read_text(encoding="utf-8").split("\n") if line and not line.startswith("#")]


@pytest.hookimpl(tryfirst=True)  # before the marker expression chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    sweeps: defaultdict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if (mark := item.get_closest_marker("sample")) and item.get_closest_marker("slow") is None:
            sweeps[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    for (_, count), cases in sweeps.items():
        kept = {(2 * i + 1) * len(cases) // (2 * count) for i in range(count)}
        covered = {row for i, case in enumerate(cases) if i in kept for row in rows(case)}
        for i, case in enumerate(cases):
            if i not in kept and rows(case) <= covered:
                case.add_marker(pytest.mark.slow)
            covered |= rows(case)
    for item in items:
        if item.get_closest_marker("slow") is None and is_unit(item.path):
            item.add_marker(pytest.mark.unit)
    if [(config.invocation_params.dir / place).resolve() for place in config.args] == [HERE]:
        slow = [item.get_closest_marker("slow") is not None for item in items]
        config.collected_rows = tuple(
            {row for item, late in zip(items, slow, strict=True) if late is which for row in rows(item)} for which in (False, True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if item.get_closest_marker("unit") is None:
        return (yield)
    with nothing_compiled_or_solved():
        return (yield)


def rows(item: pytest.Item) -> set[str]:
    return {row for mark in item.iter_markers("row") for row in mark.args}


def is_unit(path: Path) -> bool:
    """Whether a line of the list fits, and none that begins with ! does."""
    name = path.relative_to(HERE).as_posix() if path.is_relative_to(HERE) else path.name
    return any(fnmatch(name, line) for line in UNIT) and not any(fnmatch(name, line[1:]) for line in UNIT if line[0] == "!")
