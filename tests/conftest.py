"""Long sweeps: of a test marked ``sample(k)`` k cases, spread evenly, run by default, and one for every row that those
leave out; the others are slow, as those marked so."""

from __future__ import annotations

from collections import defaultdict

import pytest


@pytest.hookimpl(tryfirst=True)  # before the marker expression chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
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


def rows(item: pytest.Item) -> set[str]:
    return {row for mark in item.iter_markers("row") for row in mark.args}
