"""What the others are compared with: the way that is most independent of the rest, if another one confirms it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ocp.app.derivatives.measure import Measured, Values
from ocp.app.derivatives.records import APPROXIMATE, DIFFERENCES, EXACT, Entry, Reference

# exact ways first, those that share least with the closed form before those that are it; differences last
ORDER = ("complex_step", "ad_sx", "ad_mx", "pinocchio", "ad_of_analytic", "analytic", "loop", "fd")


def distance(a: Values, b: Values) -> float:
    """Largest ``|a - b| / max(1, |b|)`` in the maximum norm, over samples and outputs; infinite where one is not finite."""
    worst = 0.0
    for xs, ys in zip(a, b, strict=True):
        for x, y in zip(xs, ys, strict=True):
            if np.shape(x) != np.shape(y) or not (np.isfinite(x).all() and np.isfinite(y).all()):
                return float("inf")
            worst = max(worst, float(np.abs(x - y).max(initial=0.0) / max(1.0, np.abs(y).max(initial=0.0))))
    return worst


def choose(found: Mapping[str, Values]) -> Reference | None:
    """The reference among the sources that have values: the first of ORDER with which another one agrees as well as it should.

    Where no two agree it is the first of ORDER, and ``distance`` says so.
    """
    known = [s for s in ORDER if s in found]
    if not known:
        return None
    nearest: dict[str, tuple[float, str]] = {}
    for s in known:
        gaps = [(distance(found[t], found[s]), t) for t in known if t != s]
        exact = [g for g in gaps if g[1] not in APPROXIMATE]
        nearest[s] = min(exact or gaps, default=(float("nan"), ""))
    for limit in (EXACT, DIFFERENCES):
        for s in known:
            gap, other = nearest[s]
            if s not in APPROXIMATE and gap <= limit:
                return Reference(s, other, gap)
    gap, other = nearest[known[0]]
    return Reference(known[0], other, gap if other else None)


def judge(measured: Sequence[Measured], exact: float = EXACT) -> tuple[list[Entry], Reference | None]:
    """The entries of one function with their errors, and what they are compared with. exact: largest error of an exact way."""
    found = {m.entry.source: m.values for m in measured if m.values}
    reference = choose(found)
    entries = []
    for m in measured:
        entry = m.entry
        if reference is not None and m.values:
            own = entry.source == reference.source
            error = reference.distance if own else distance(m.values, found[reference.source])
            against = reference.confirmed_by if own else reference.source
            rough = entry.source in APPROXIMATE or against in APPROXIMATE
            entry = replace(entry, error=error, against=against, limit=DIFFERENCES if rough else exact)
        entries.append(entry)
    return entries, reference
