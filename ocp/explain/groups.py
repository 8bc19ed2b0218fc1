"""Constraints and variables of a transcribed problem, grouped by the constraints that the user wrote.
A constraint is called ``speed limit @ knot 5``, a variable ``x.theta @ knot 5``: the part before the @ names what the user wrote,
the part after it the location. A bound holds at all knots, so that one number relaxes or prices it everywhere.

"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ocp.nlp import NLP, worst_violations
from ocp.nlp.names import parts_of_name
from ocp.problem import INF, Duration, Problem, Trajectory
from ocp.reductions.control_norms import NEGATIVE_PART
from ocp.transcription.collocation import CollocationOptions, transcribe
from ocp.transcription.program import Transcription

LOWER, UPPER = "lower", "upper"

#: constraints of the formulation, which the user cannot relax: the equations of motion
_MECHANICS = re.compile(r"^(.*: )?((inner )?defect\b.* @ interval \d+|unit norm of .* @ start)$|.* @ passage$")


@dataclass(frozen=True)
class Limit:
    """One side of one constraint or variable; ``value`` is the bound. column: whether ``index`` counts variables; side: LOWER or
    UPPER"""

    index: int
    side: str
    value: float
    column: bool


@dataclass(frozen=True)
class Group:
    """A constraint in the user's terms with all its parts in the program.
    kind: "bound", "start", "final", "constraint", "duration" or "parameter"; limits of one side have one value unless the
    constraint varies along the path
    scale: a magnitude of the limited quantity, for comparisons of different units

    """

    name: str
    kind: str
    limits: tuple[Limit, ...]
    unit: str = ""
    scale: float = 1.0

    def side(self, side: str) -> tuple[Limit, ...]:
        """Its limits of one side."""
        return tuple(limit for limit in self.limits if limit.side == side)

    @property
    def is_value(self) -> bool:
        """Whether it prescribes a value instead of a range."""
        lower, upper = ({limit.value for limit in self.side(side)} for side in (LOWER, UPPER))
        return len(lower) == 1 and lower == upper


@dataclass(frozen=True)
class Program:
    """A transcribed problem and the meaning of its names. Durations are variables of ``nlp`` even if they are fixed, with equal
    bounds, so that they can be relaxed and priced."""

    problem: Problem
    transcription: Transcription
    nlp: NLP
    groups: tuple[Group, ...]

    def group(self, name: str) -> Group:
        """The group of this name."""
        return next(group for group in self.groups if group.name == name)

    def trajectories(self, x: np.ndarray) -> tuple[Trajectory, ...]:
        """The trajectory of each phase."""
        return self.transcription.parts(np.asarray(x, dtype=float))

    def time(self, name: str, x: np.ndarray) -> float | None:
        """The time [s] of a constraint or variable; None if it has none."""
        phases = self.problem.phases
        number = next((k for k, p in enumerate(phases) if len(phases) > 1 and name.startswith(f"{p.name}: ")), 0)
        durations = self.transcription.durations(np.asarray(x, dtype=float))
        share = fraction(name, self.transcription.meshes[number])
        return None if share is None else float(sum(durations[:number]) + share * durations[number])


def program_of(problem: Problem, options: Any = None, transcribe: Callable[..., Transcription] = transcribe) -> Program:
    """Transcribe a problem, reduced for the method (default: direct collocation), and group its constraints and variables. Raises
    as ``transcribe`` does."""
    options = options or CollocationOptions()
    given = [phase.duration for phase in problem.phases]
    # half the length to twice of it: any range that frees the column, which is closed again below; steps are given
    freed = replace(problem, phases=tuple(
        phase if phase.duration.free or phase.steps else replace(phase, duration=Duration(d.lower / 2, d.upper * 2, d.lower))
        for phase, d in zip(problem.phases, given, strict=True)))
    transcription = transcribe(freed, options)
    nlp = transcription.nlp
    columns = [i for i, name in enumerate(nlp.variables) if base(name).rpartition(": ")[2] == "duration"]
    lower, upper, x0 = nlp.x_lower.copy(), nlp.x_upper.copy(), nlp.x0.copy()
    for i, duration in zip(columns, (d for d, phase in zip(given, problem.phases, strict=True) if not phase.steps), strict=True):
        lower[i], upper[i], x0[i] = duration.lower, duration.upper, duration.guess
    nlp = replace(nlp, x_lower=lower, x_upper=upper, x0=x0, stages=None)  # a free duration has no stages
    return Program(problem, transcription, nlp, tuple(_groups(problem, nlp)))


# ---- names --------------------------------------------------------------------------------------------------------------
def base(name: str) -> str:
    """``x.theta`` of ``x.theta @ knot 5``."""
    return parts_of_name(name)[0]


def worst_rows(nlp: NLP, x: np.ndarray, most: int = 3) -> tuple[tuple[str, float], ...]:
    """(constraint, violation) of the most violated constraints at the point x [n], each once."""
    found: dict[str, float] = {}
    for name, size in worst_violations(nlp, x, 200):
        found.setdefault(base(name), size)
    return tuple(found.items())[:most]


def location_of_name(name: str) -> str:
    """The location, ``knot 5`` of ``x.theta @ knot 5``; empty without one."""
    return parts_of_name(name)[1]


def is_mechanics(name: str) -> bool:
    """Whether a constraint is an equation of motion, of a manifold or of a jump between phases, which cannot be relaxed."""
    return bool(_MECHANICS.match(name))


def fraction(name: str, mesh: Any) -> float | None:
    """The location of a named constraint or variable in its phase, from 0 to 1; None without one."""
    words = location_of_name(name).partition(" (")[0]
    if words in ("start", "final"):
        return 0.0 if words == "start" else 1.0
    if not words:
        end = re.match(r"(.*: )?(start|final) ", name)
        return None if end is None else 0.0 if end[2] == "start" else 1.0
    numbers = [int(k) for k in re.findall(r"\d+", words)]
    if re.fullmatch(r"control point \d+", words):
        return float(mesh.control_fractions[numbers[0]]) if numbers[0] < len(mesh.control_fractions) else None
    if re.fullmatch(r"interval \d+", words):
        return float(mesh.edges[numbers[0]]) if numbers[0] < len(mesh.edges) else None
    return next((float(f) for f, name in zip(mesh.fractions, mesh.node_names, strict=True) if name == words), None)


# ---- groups -------------------------------------------------------------------------------------------------------------
def _groups(problem: Problem, nlp: NLP) -> list[Group]:
    units: dict[str, str] = {}
    attitudes: set[str] = set()
    for phase in problem.phases:
        units |= phase.system.units
        space = phase.system.space
        attitudes |= {space.names[q + i] for q in space.quaternions for i in range(4)}
    found = _column_groups(nlp, units, attitudes)
    rows: dict[str, list[int]] = {}
    for i, name in enumerate(nlp.constraints):
        if not is_mechanics(name):
            rows.setdefault(base(name), []).append(i)
    values = np.abs(np.nan_to_num(nlp.g(nlp.x0).full().ravel(), nan=0.0, posinf=0.0, neginf=0.0))
    for name, indices in rows.items():
        limits = _limits(indices, nlp.g_lower, nlp.g_upper, column=False)
        ends = re.match(r"(.*: )?(start|final) value of (.*)", name)
        label = f"{ends[1] or ''}{ends[2]} {ends[3]}" if ends else name
        if limits:
            found.append(Group(label, ends[2] if ends else "constraint", limits, "",
                               _scale(limits, float(values[indices].max(initial=0.0)))))
    return found


def _column_groups(nlp: NLP, units: Mapping[str, str], attitudes: set[str]) -> list[Group]:
    """Groups of bounds and prescribed values. attitudes: components of quaternions, which cannot be relaxed one by one. Bounds of
    parts of controls at 0 come from a reformulation and are left out."""
    columns: dict[str, list[int]] = {}
    for i, name in enumerate(nlp.variables):
        columns.setdefault(base(name), []).append(i)
    parts = {name.removesuffix(NEGATIVE_PART) for name in columns if name.endswith(NEGATIVE_PART)}
    found = []
    for name, indices in columns.items():
        prefix, _, own = name.rpartition(": ")
        kind, _, component = own.partition(".")
        label, unit = component or own, units.get(component.removesuffix(NEGATIVE_PART), "")
        before = f"{prefix}: " if prefix else ""
        size = float(np.abs(nlp.x0[indices]).max(initial=0.0))
        if kind == "duration":
            limits = _limits(indices, nlp.x_lower, nlp.x_upper, column=True)
            found.append(Group(before + own, "duration", limits, "s", _scale(limits, size)))
            continue
        if kind == "p":
            limits = _limits(indices, nlp.x_lower, nlp.x_upper, column=True)
            found.append(Group(f"{before}parameter {label}", "parameter", limits, unit, _scale(limits, size)))
            continue
        fixed = nlp.x_lower[indices] == nlp.x_upper[indices]
        # a value prescribed at an end leaves the bound of the others in force there
        open_ = [i for i, f in zip(indices, fixed, strict=True) if not f]
        lower, upper = ((nlp.x_lower[open_[0]], nlp.x_upper[open_[0]]) if open_ else
                        (nlp.x_lower[indices[0]], nlp.x_upper[indices[0]]))
        ends: dict[int, str] = {}
        if open_:
            ends = {i: "start" if i == indices[0] else "final" for i, f in zip(indices, fixed, strict=True) if f}
        for i, end in ends.items() if component not in attitudes else ():
            value = (Limit(i, LOWER, float(nlp.x_lower[i]), True), Limit(i, UPPER, float(nlp.x_upper[i]), True))
            found.append(Group(f"{before}{end} {label}", end, value, unit, _scale((), size)))
        own_bounds = [(i, (lower, upper) if i in ends else (nlp.x_lower[i], nlp.x_upper[i])) for i in indices]
        bound = tuple(Limit(i, side, float(value), True) for i, both in own_bounds
                      for side, value in zip((LOWER, UPPER), both, strict=True)
                      if abs(value) < INF and (side == UPPER or name.removesuffix(NEGATIVE_PART) not in parts))
        if bound:
            found.append(Group(f"{before}bound of {label}", "bound", bound, unit, _scale(bound, 0.0)))
    return found


def _limits(indices: list[int], lower: np.ndarray, upper: np.ndarray, *, column: bool) -> tuple[Limit, ...]:
    return tuple(Limit(i, side, float(values[i]), column) for i in indices
                 for side, values in ((LOWER, lower), (UPPER, upper)) if abs(values[i]) < INF)


def _scale(limits: tuple[Limit, ...], size: float) -> float:
    """The largest magnitude of a limit, or ``size`` if all are zero or there is none."""
    return max((abs(limit.value) for limit in limits), default=0.0) or size or 1.0
