"""Which components of a state share a plot, and what it is called, as units and names tell."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from ocp.app.pages.sheet import MAX_LINES


def bundle(names: Sequence[str], members: Sequence[int], units: Mapping[str, str], quaternions: Sequence[int],
           most: int) -> list[list[int]]:
    """Which components share a panel: those of a quaternion do; others only, with equals in unit, when there are more than
    ``most``, and then by limb, as their names tell it."""
    inside = {q + j for q in quaternions for j in range(4)}
    runs: list[list[int]] = []
    for k, i in enumerate(members):
        before = members[k - 1] if k else i
        apart = i in quaternions or (i in inside) != (before in inside) or units.get(names[i], "") != units.get(names[before], "")
        if not k or apart:
            runs.append([])
        runs[-1].append(i)
    scalars = [run for run in runs if run[0] not in inside]
    if sum(map(len, scalars)) <= most:
        shared = {id(run): [[i] for i in run] for run in scalars}
    else:
        shared = {id(run): _limbs(names, run) for run in scalars}
        if sum(map(len, shared.values())) > 2 * most:  # rather more panels than strangers in one
            per = min(MAX_LINES, -(-sum(map(len, scalars)) // most))
            shared = {id(run): [run[k:k + per] for k in range(0, len(run), per)] for run in scalars}
    return [panel for run in runs for panel in shared.get(id(run), [run])]


def _limbs(names: Sequence[str], run: list[int]) -> list[list[int]]:
    """A run of components cut where neighbouring names have fewest words in common, until all in a part have as many."""
    words = [re.findall(r"[^._\[\] /]+", names[i]) for i in run]
    common = [len(os.path.commonprefix([a, b])) for a, b in zip(words[:-1], words[1:], strict=True)]
    if not common or min(common) == max(common):
        parts = -(-len(run) // MAX_LINES)
        per = -(-len(run) // parts)
        return [run[k:k + per] for k in range(0, len(run), per)]
    cuts = [0, *(k + 1 for k, c in enumerate(common) if c == min(common)), len(run)]
    return [part for a, b in zip(cuts[:-1], cuts[1:], strict=True) for part in _limbs(names, run[a:b])]


def stem(names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """A title for names in one panel and what tells them apart: the common beginning, and the rests."""
    if len(names) == 1:
        return names[0], ("",)
    first, last = min(names), max(names)
    same = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    cut = max(first[:same].rfind(mark) for mark in "._[ /") + 1
    return first[:cut].rstrip("._[ /") or f"{names[0]} … {names[-1]}", tuple(n[cut:].rstrip("]") for n in names)
