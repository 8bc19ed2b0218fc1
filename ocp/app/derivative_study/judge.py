"""Which way the others are compared with, how far they are from it, and what to use for this robot, in one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ocp.app.derivative_study.measure import MEASURED, SOURCES, Entry, Measured, Values, distance

EXACT, DIFFERENCES = 1e-9, 1e-3  # largest error of a way that counts as exact, and of one that is an approximation by nature
APPROXIMATE = ("fd",)
NEARLY = 1.03  # shorter by less is no reason
# those that share least with the closed form before those that are it; differences last
ORDER = ("complex_step", "ad_sx", "ad_mx", "ad_of_analytic", "analytic", "loop", "fd")


# ------------------------------------------------------------------------------------------------ errors
@dataclass(frozen=True)
class Reference:
    """Reference of the errors of a function; distance: to the nearest other source, ``confirmed_by``; None: no other."""

    source: str
    confirmed_by: str = ""
    distance: float | None = None

    @property
    def sentence(self) -> str:
        """The reference and the source that confirms it."""
        label = SOURCES[self.source][0]
        if self.distance is None:
            return f"{label}, confirmed by nothing else"
        return f"{label}, confirmed by {SOURCES[self.confirmed_by][0]} to {self.distance:.1e}"


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
        nearest[s] = min([g for g in gaps if g[1] not in APPROXIMATE] or gaps, default=(float("nan"), ""))
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


# ------------------------------------------------------------------------------------------------ recommendation
@dataclass(frozen=True)
class Pick:
    """A recommendation. execution: ``loop``, ``compiled`` or ``interpreted``; break_even: evaluations after which compiling has
    paid, None when nothing is compiled."""

    function: str
    source: str
    execution: str
    microseconds: float
    why: str
    break_even: float | None = None


@dataclass(frozen=True)
class Option:
    """One way to run one entry. setup_s: what has to be spent for this robot before the first evaluation."""

    entry: Entry
    execution: str
    microseconds: float
    setup_s: float

    @property
    def label(self) -> str:
        """Name of the source and of its execution."""
        return self.entry.label if self.execution == "loop" else f"{self.entry.label}, {self.execution}"


def options(entries: Sequence[Entry]) -> list[Option]:
    """Every way that is measured and exact, fastest first."""
    found = []
    for e in entries:
        if e.status != MEASURED or e.error is None or not e.error < EXACT or e.source in APPROXIMATE:
            continue
        if e.compiled_us is not None:
            execution = "loop" if e.source == "loop" else "compiled"
            found.append(Option(e, execution, e.compiled_us, (e.build_s or 0.0) + (e.compile_s or 0.0)))
        if e.interpreted_us is not None:
            found.append(Option(e, "interpreted", e.interpreted_us, e.build_s or 0.0))
    return sorted(found, key=lambda o: o.microseconds)


def undecided(entries: Sequence[Entry]) -> str:
    """Why nothing is recommended for a function."""
    known = [e for e in entries if e.error is not None and e.source not in APPROXIMATE]
    if not known:
        return "no exact method was measured"
    best = min(known, key=lambda e: e.error or 0.0)
    if best.against in APPROXIMATE:
        return f"no exact method is confirmed by another; {best.label} agrees with {SOURCES[best.against][0]} to {best.error:.0e}"
    return f"no method is exact to {EXACT:.0e}; {best.label} comes closest with {best.error:.0e}"


def recommend(function: str, entries: Sequence[Entry]) -> Pick | None:
    """The fastest exact way; where two are level the one with less to set up. None where nothing exact was measured."""
    found = options(entries)
    if not found:
        return None
    best = min((o for o in found if o.microseconds <= NEARLY * found[0].microseconds), key=lambda o: o.setup_s)
    rank = f"{'' if best is found[0] else 'level with '}the shortest of {len(found)} exact methods"
    why = f"{duration(best.microseconds)}, {rank if len(found) > 1 else 'the only exact method measured'}"
    others = [o for o in found if o.entry.source != best.entry.source]
    if others:
        ratio = others[0].microseconds / best.microseconds
        why += f" ({others[0].label} takes {'as long' if ratio < NEARLY else f'{ratio:.3g} times as long'})"
    even, until = break_even(best, found)
    if until is not None and even is not None:
        why += (f"; setting it up takes {best.setup_s - until.setup_s:.2g} s longer and pays after {many(even)} evaluations, "
                f"before that use {until.label}")
    graph = next((o for o in found if o.execution != "loop"), None)
    if best.execution == "loop":
        why += "; nothing is compiled for this robot"
        if graph is not None:  # loops cannot stand in an expression graph, as solvers of nonlinear programs want it
            why += f"; in an expression graph: {graph.label}, {duration(graph.microseconds)}"
    return Pick(function, best.entry.source, best.execution, best.microseconds, f"{why}.", even)


def break_even(best: Option, found: Sequence[Option]) -> tuple[float | None, Option | None]:
    """After how many evaluations ``best`` has paid for what it takes to set up, against the way that is ahead until then."""
    rivals = []
    for o in found if best.execution == "compiled" else ():
        gain, cost = (o.microseconds - best.microseconds) * 1e-6, best.setup_s - o.setup_s
        if o.execution != "compiled" and gain > 0.0 and cost > 0.0:
            rivals.append((cost / gain, o))
    return max(rivals, key=lambda r: r[0], default=(None, None))


def duration(us: float) -> str:
    """Microseconds for reading: three digits and a unit."""
    return f"{us / 1e6:.3g} s" if us >= 1e6 else f"{us / 1e3:.3g} ms" if us >= 1e3 else f"{us:.3g} µs"


def many(value: float) -> str:
    """A count to two digits: 410 000."""
    if value < 100:
        return str(max(1, math.ceil(value)))
    step = 10 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / step) * step:,.0f}".replace(",", "\u202f")
