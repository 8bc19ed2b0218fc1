"""Long sweeps: of a test marked ``sample(k)`` k cases, spread evenly, run by default; the others are slow, as those marked so."""

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
        rows = [{row for mark in case.iter_markers("row") for row in mark.args} for case in cases]
        kept = {(2 * i + 1) * len(cases) // (2 * count) for i in range(count)}
        for i, case in enumerate(cases):
            if i not in kept and rows[i] == set.intersection(*rows):  # no row that other cases do not have
                case.add_marker(pytest.mark.slow)
