"""The expansion of all stages by several threads, each with a record of its own."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ocp.shooting.engine.expansion import differentiate_range, finish, hessian_range
from ocp.shooting.engine.record import Engine


def expand(team: Sequence[Engine]) -> int:
    """As ``ocp.shooting.engine.expansion.expand``, the stages shared among the team: the failed knot or -1. Every knot is a
    computation of its own, so the numbers do not depend on how many share them."""
    stages, count = len(team[0].plan.which), len(team)
    cuts = [stages * i // count for i in range(count + 1)]
    with ThreadPoolExecutor(count) as pool:
        found = list(pool.map(differentiate_range, team, cuts[:-1], cuts[1:]))
        failed = max(k for k, _ in found)
        if failed >= 0:
            return int(failed)
        if not finish(team[0], max(v for _, v in found)):
            return 0
        return int(max(pool.map(hessian_range, team, cuts[:-1], cuts[1:])))
