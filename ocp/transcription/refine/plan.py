"""A mesh as numbers and as one line of text that a problem file can hold.

    mesh: "0:3 0.125:3 0.25:5*4 1"

Edges are fractions of the phase's duration, from 0 to 1. After an edge comes the degree of the interval that begins there, and
``*n`` where that stretch is cut into n equal intervals. An exclamation mark after an edge, ``0.25!:5``, says that controls jump
there: the two intervals that meet are of Gauss, whatever the scheme. Schemes with a node at the edge would hold a control there,
on the very switch, which no optimum determines. Several phases are separated by semicolons.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ocp.errors import ProblemError
from ocp.problem import Problem
from ocp.thresholds import ROUNDING
from ocp.transcription.charts import form
from ocp.transcription.mesh import Mesh
from ocp.transcription.schemes import make_scheme

#: stands for equal intervals
UNIFORM = "uniform"
#: edges are kept to this many decimals, so that their text is short and exact
DECIMALS = 13

_ENTRY = re.compile(r"^(?P<edge>[^:*!]+)(?P<jump>!?)(?::(?P<degree>[^:*!]+)(?:\*(?P<count>[^:*!]+))?)?$")


@dataclass(frozen=True)
class Plan:
    """Intervals of one phase: edges [N+1] from 0 to 1, degrees [N], and the inner edges (by number) where controls jump."""

    edges: tuple[float, ...]
    degrees: tuple[int, ...]
    jumps: frozenset[int] = frozenset()

    @property
    def intervals(self) -> int:
        """Number of intervals."""
        return len(self.degrees)


#: of the phases of a problem
Plans = tuple[Plan, ...]


def uniform_plan(intervals: int, degree: int) -> Plan:
    """Equal intervals of one degree."""
    return Plan(_even(0.0, 1.0, intervals), (degree,) * intervals)


def plan_mesh(plan: Plan, scheme: str, form: str, controls: str, split: bool) -> Mesh:
    """The mesh of a plan, all of one family of schemes."""
    beside = {k for jump in plan.jumps for k in (jump - 1, jump)}
    schemes = tuple(make_scheme("gauss" if k in beside else scheme, degree, form) for k, degree in enumerate(plan.degrees))
    return Mesh(np.array(plan.edges), schemes, controls, split)


@dataclass(frozen=True)
class Family:
    """Settings common to all intervals: the names of scheme, form of defects, shape of controls and form of states; tolerance: of
    programs."""

    scheme: str
    form: str
    controls: str
    states: str
    tolerance: float = 1e-9

    def meshes(self, problem: Problem, plans: Plans) -> tuple[Mesh, ...]:
        """The meshes of all phases."""
        return tuple(plan_mesh(plan, self.scheme, self.form, self.controls, form(phase.system.space, self.states).tangent)
                     for phase, plan in zip(problem.phases, plans, strict=True))


def rounded(edges: Iterable[float]) -> tuple[float, ...]:
    """Fractions rounded, so that equal meshes compare equal."""
    return tuple(round(float(e), DECIMALS) for e in edges)


def plans_text(plans: Sequence[Plan]) -> str:
    """The text of plans, phase by phase; ``read_plans`` gives the same plans back, bit for bit."""
    return "; ".join(_text(plan) for plan in plans)


def _text(plan: Plan) -> str:
    edges, degrees = np.array(plan.edges), np.array(plan.degrees)
    new = (np.diff(degrees) != 0) | (np.abs(np.diff(edges, 2)) > 10.0**-DECIMALS)
    starts = [0, *sorted({*(np.flatnonzero(new) + 1).tolist(), *plan.jumps}), plan.intervals]
    words = [f"{plan.edges[k]!r}{'!' if k in plan.jumps else ''}:{plan.degrees[k]}{f'*{count}' if count > 1 else ''}"
             for first, last in zip(starts[:-1], starts[1:], strict=True) for k, count in _even_stretches(edges, first, last)]
    return " ".join(w.replace("0.0:", "0:", 1) if w.startswith("0.0:") else w for w in words) + " 1"


def _even_stretches(edges: np.ndarray, first: int, last: int) -> Iterator[tuple[int, int]]:
    """(first interval, number of intervals) of stretches that reading cuts evenly into the same edges, bit for bit: the intervals
    from the first up to the last, whose widths are equal but for rounding, or each half of them."""
    count = last - first
    if count == 1 or np.array_equal(edges[first:last + 1], np.linspace(edges[first], edges[last], count + 1)):
        yield first, count
    else:
        yield from _even_stretches(edges, first, first + count // 2)
        yield from _even_stretches(edges, first + count // 2, last)


def _even(a: float, b: float, count: int) -> tuple[float, ...]:
    return (a, *(float(e) for e in np.linspace(a, b, count + 1)[1:-1]), b)


def read_plans(text: str, phases: Sequence[str], scheme: str, where: str) -> tuple[Plan, ...]:
    """The plans that a text gives, one for each of the named phases.

    Raises ProblemError for a malformed word, edges that do not increase from 0 to 1, a degree that the scheme does not have, and a
    number of phases that is not the problem's.
    """
    parts = text.split(";")
    if len(parts) != len(phases):
        raise ProblemError(f"gives meshes of {len(parts)} phases, separated by semicolons; the problem has {len(phases)}: "
                           f"{', '.join(phases)}", where=where)
    return tuple(_read(part.split(), scheme, where if len(phases) == 1 else f"{where}, phase {name!r}")
                 for part, name in zip(parts, phases, strict=True))


def _read(entries: Sequence[str], scheme: str, where: str) -> Plan:
    if len(entries) < 2:
        raise ProblemError("needs at least one interval, such as '0:3 1'", where=where)
    edges: list[float] = []
    degrees: list[int] = []
    jumps: set[int] = set()
    found = [_ENTRY.match(word) for word in entries]
    for i, (word, match) in enumerate(zip(entries, found, strict=True)):
        last = i == len(entries) - 1
        if match is None or (match["degree"] is None) != last:
            wanted = "an edge alone, '1'" if last else "an edge and a degree, such as '0.25:3', '0.25:3*4' or '0.25!:3'"
            raise ProblemError(f"{word!r} should be {wanted}", where=where)
        edge = _number(match["edge"], word, where)
        if not edges and edge != 0.0 or last and edge != 1.0:
            raise ProblemError(f"edges are fractions of the phase from 0 to 1; {word!r} stands {'last' if last else 'first'}",
                               where=where)
        if edges and not edge - edges[-1] >= ROUNDING.beside:
            raise ProblemError(f"edges must increase; {word!r} comes after {edges[-1]:.12g}", where=where)
        if match["jump"]:
            if i == 0 or last:
                raise ProblemError(f"{word!r}: controls jump at inner edges only", where=where)
            jumps.add(len(edges))
        edges.append(edge)
        if last:
            break
        degree, count = _whole(match["degree"], word, where), _whole(match["count"] or "1", word, where)
        try:
            make_scheme(scheme, degree)
        except ProblemError as error:
            raise ProblemError(f"{word!r}: {error.message}", where=where) from None
        after = found[i + 1]
        if count > 1 and after is not None:
            edges += _even(edge, _number(after["edge"], entries[i + 1], where), count)[1:-1]
        degrees += [degree] * count
    return Plan(tuple(edges), tuple(degrees), frozenset(jumps))


def _number(text: str, word: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ProblemError(f"{word!r}: {text!r} is not a number", where=where) from None


def _whole(text: str, word: str, where: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ProblemError(f"{word!r}: {text!r} is not a positive integer", where=where)
    return int(text)
