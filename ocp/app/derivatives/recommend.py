"""What to use for this robot, and why: one sentence from the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ocp.app.derivatives.records import APPROXIMATE, EXACT, MEASURED, SOURCES, Entry, Pick

NEARLY = 1.03  # shorter by less is no reason


@dataclass(frozen=True)
class Option:
    """One way to run one entry. setup_s: what has to be spent for this robot before the first evaluation."""

    entry: Entry
    execution: str
    microseconds: float
    setup_s: float

    @property
    def words(self) -> str:
        label = SOURCES[self.entry.source].label
        return label if self.execution == "loop" else f"{label}, {self.execution}"


def options(entries: Sequence[Entry]) -> list[Option]:
    """Every way of ours that is measured and exact, fastest first."""
    found = []
    for e in entries:
        exact = e.error is not None and e.error < EXACT and e.source not in APPROXIMATE
        if e.status != MEASURED or not exact or not SOURCES[e.source].ours:
            continue
        if e.compiled_us is not None:
            execution = "compiled" if SOURCES[e.source].symbolic else "loop"
            found.append(Option(e, execution, e.compiled_us, (e.build_s or 0.0) + (e.compile_s or 0.0)))
        if e.interpreted_us is not None:
            found.append(Option(e, "interpreted", e.interpreted_us, e.build_s or 0.0))
    return sorted(found, key=lambda o: o.microseconds)


def undecided(function: str, entries: Sequence[Entry]) -> str:
    """Why nothing is recommended for a function."""
    known = [e for e in entries if e.error is not None and e.source not in APPROXIMATE and SOURCES[e.source].ours]
    if not known:
        return "no exact way was measured"
    best = min(known, key=lambda e: e.error or 0.0)
    if best.against in APPROXIMATE:
        return f"no exact way is confirmed by another; {best.label} agrees with {SOURCES[best.against].label} to {best.error:.0e}"
    return f"no way is exact to {EXACT:.0e}; {best.label} comes closest with {best.error:.0e}"


def recommend(function: str, entries: Sequence[Entry]) -> Pick | None:
    """The fastest exact way; where two are level the one with less to set up. None where nothing exact was measured."""
    found = options(entries)
    if not found:
        return None
    level = [o for o in found if o.microseconds <= NEARLY * found[0].microseconds]
    best = min(level, key=lambda o: o.setup_s)
    others = [o for o in found if o.entry.source != best.entry.source]
    rank = "the shortest" if best is found[0] else "level with the shortest"
    why = f"{duration(best.microseconds)}, {rank} of {len(found)} exact ways" if len(found) > 1 else (
        f"{duration(best.microseconds)}, the only exact way measured")
    if others:
        next_one = others[0]
        ratio = next_one.microseconds / best.microseconds
        times = "as long" if ratio < NEARLY else f"{ratio:.{2 if ratio >= 2 else 3}g} times as long"
        why += f" ({next_one.words} takes {times})"
    even, until = break_even(best, found)
    if best.execution == "loop":
        why += "; nothing is compiled for this robot"
    elif until is not None and even is not None:
        seconds = best.setup_s - until.setup_s
        why += (f"; {f'setting it up takes {seconds:.2g} s longer and pays' if seconds >= 0.005 else 'it pays'} after "
                f"{many(even)} evaluations, before that use {until.words}")
    return Pick(function, best.entry.source, best.execution, best.microseconds, f"{why}.", even, _in_graph(best, found))


def break_even(best: Option, found: Sequence[Option]) -> tuple[float | None, Option | None]:
    """After how many evaluations ``best`` has paid for what it takes to set up, against the way that is ahead until then."""
    if best.execution != "compiled":
        return None, None
    rivals = []
    for o in found:
        gain, cost = (o.microseconds - best.microseconds) * 1e-6, best.setup_s - o.setup_s
        if o.execution != "compiled" and gain > 0.0 and cost > 0.0:
            rivals.append((cost / gain, o))
    return max(rivals, key=lambda r: r[0], default=(None, None))


def _in_graph(best: Option, found: Sequence[Option]) -> str:
    """Loops cannot stand in an expression graph, as solvers of nonlinear programs want it."""
    if SOURCES[best.entry.source].symbolic:
        return ""
    symbolic = [o for o in found if SOURCES[o.entry.source].symbolic]
    return "" if not symbolic else f"{symbolic[0].words}: {duration(symbolic[0].microseconds)}"


def duration(us: float) -> str:
    """Microseconds for reading: three digits and a unit."""
    if us >= 1e6:
        return f"{us / 1e6:.3g} s"
    if us >= 1e3:
        return f"{us / 1e3:.3g} ms"
    return f"{us:.3g} µs"


def many(value: float) -> str:
    """A count to two digits: 410 000."""
    if value < 100:
        return str(max(1, math.ceil(value)))
    step = 10 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / step) * step:,.0f}".replace(",", "\u202f")
