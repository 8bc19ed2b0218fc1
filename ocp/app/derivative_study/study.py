"""All functions by all sources, one after the other; an interrupt keeps what is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import casadi as ca
import numpy as np

import dynamics
from dynamics.derivatives.candidates import CONSTRAINED, KNOWN, QUANTITIES, ConstrainedModel, candidate
from dynamics.errors import near
from dynamics.kernels import find_compiler
from dynamics.mechanism.constrained import reduced, stacked
from dynamics.model.model import Model
from ocp.app.derivative_study.judge import EXACT, Pick, Reference, judge, recommend
from ocp.app.derivative_study.measure import FUNCTIONS, MEASURED, QUICK, SOURCES, Effort, Entry, Measured, Point, draw, measure
from ocp.app.derivative_study.target import Target
from ocp.app.prepare import beside
from ocp.errors import ProblemError
from ocp.interrupts import Activity, check

COMPILE = ("auto", "yes", "no")
AFFORDABLE, QUICKLY = 21_000, 10_000  # operations up to which code is compiled
LOOP = "loop"
Progress = Callable[[int, int, Entry, Callable[[], "Study"]], None]  # done, total, what was measured last, what is known by then


@dataclass(frozen=True)
class Settings:
    """Settings of a study. functions, sources: names, all of them if empty; compiling: ``auto``, ``yes``, ``no``; samples: random
    states at which errors are taken; quick: short timings, little compiled; contacts: names of what holds the robot, see
    ``Target.holding``. Raises ProblemError, with what is near."""

    functions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    compiling: str = "auto"
    seed: int = 0
    samples: int = 3
    quick: bool = False
    contacts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for option, given, known in (("--functions", self.functions, FUNCTIONS), ("--sources", self.sources, SOURCES)):
            for name in given:
                if name not in known:
                    raise ProblemError(f"no {option[2:-1]} named {name!r}{near(name, known)}", where=option)
        if not self.contacts and (constrained := [name for name in self.functions if name in CONSTRAINED]):
            raise ProblemError(f"{constrained[0]} is of robots under constraints; name them by --contacts", where="--functions")
        if self.compiling not in COMPILE:
            raise ProblemError(f"no such choice{near(self.compiling, COMPILE)}", where=f"--compile {self.compiling}")
        if self.compiling == "yes" and find_compiler() is None:
            raise ProblemError("no C compiler was found; see ocp doctor", where="--compile yes")
        if self.samples < 1:
            raise ProblemError(f"must be at least 1, got {self.samples}", where="--samples")
        if self.seed < 0:
            raise ProblemError(f"must be at least 0, got {self.seed}", where="--seed")

    @property
    def most(self) -> int | None:
        """Operations up to which code is compiled; None: any."""
        return {"yes": None, "no": 0}.get(self.compiling, QUICKLY if self.quick else AFFORDABLE)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """All pairs of a function and a source to measure."""
        return [(f, s) for f in self.functions or self.defaults for s in self.sources or SOURCES]

    @property
    def defaults(self) -> tuple[str, ...]:
        """Functions where none are named."""
        return tuple(CONSTRAINED if self.contacts else QUANTITIES)


@dataclass(frozen=True)
class Pattern:
    """Entries of one matrix [rows, columns]: 0 never, 1 allowed by the tree but zero at every sample, 2 not zero."""

    title: str
    marks: np.ndarray
    names: tuple[str, ...]


@dataclass(frozen=True)
class Study:
    """Everything measured. robot: facts by name; complete: False after an interrupt; missing: (function, source) not reached."""

    robot: Mapping[str, Any]
    settings: Settings
    entries: tuple[Entry, ...] = ()
    references: Mapping[str, Reference] = field(default_factory=dict)
    picks: tuple[Pick, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def of(self, function: str) -> tuple[Entry, ...]:
        """Entries of a function."""
        return tuple(e for e in self.entries if e.function == function)

    @property
    def functions(self) -> tuple[str, ...]:
        """Functions that were measured."""
        return tuple(dict.fromkeys(e.function for e in self.entries))

    @property
    def wrong(self) -> tuple[Entry, ...]:
        """Entries that disagree with the reference."""
        return tuple(e for e in self.entries if e.wrong)

    @property
    def ok(self) -> bool:
        """Whether every entry was measured and agrees with its reference."""
        return not self.missing and not self.wrong and any(e.status == MEASURED for e in self.entries)

    def execution(self, e: Entry) -> str:
        """How the way of this entry is to be run where it is recommended, else nothing."""
        return next((p.execution for p in self.picks if (p.function, p.source) == (e.function, e.source)), "")


def run_study(target: Target, settings: Settings, progress: Progress | None = None) -> Study:
    """Measure everything that ``settings`` ask for. An interrupt (KeyboardInterrupt) ends the work, not the study: what is
    measured is judged and returned, with the rest in ``missing``."""
    begin, target = time.perf_counter(), target.holding(settings.contacts)
    model, pairs, robot = target.model, settings.pairs, ConstrainedModel(target.model, target.constraints)
    measured: dict[tuple[str, str], Measured] = {}
    points: tuple[Point, ...] = ()

    def so_far() -> Study:
        return _judged(target, settings, {pair: measured[pair] for pair in pairs if pair in measured}, conditioning(robot, points),
                       time.perf_counter() - begin)

    # loops last, the largest first: another process compiles them meanwhile, the smallest first
    loops, effort = [pair for pair in pairs if pair[1] == LOOP], QUICK if settings.quick else Effort()
    with suppress(KeyboardInterrupt), beside("derivatives in loops") if loops else nullcontext():
        points = draw(model, settings.samples, settings.seed, robot.rows)
        for function, source in (*(pair for pair in pairs if pair[1] != LOOP), *loops[::-1]):
            check(Activity.MEASUREMENT)
            found = measure(candidate(model, function, source, target.constraints), points, settings.most, effort)
            measured[function, source] = found
            if progress is not None:
                progress(len(measured), len(pairs), found.entry, so_far)
    return so_far()


def _judged(target: Target, settings: Settings, measured: Mapping[tuple[str, str], Measured], condition: float, seconds: float
            ) -> Study:
    # M amplifies rounding: accelerations of light fingers have fewer digits than the numbers they are made of
    rounding = 10.0 * float(np.finfo(float).eps) * condition
    entries: list[Entry] = []
    references, picks, drawn = {}, [], []
    for function in dict.fromkeys(f for f, _ in measured):
        own = {s: m for (f, s), m in measured.items() if f == function}
        rough = not KNOWN[function].inverse and np.isfinite(rounding)
        judged, reference = judge(list(own.values()), max(EXACT, rounding) if rough else EXACT)
        entries += judged
        if reference is not None:
            references[function] = reference
        if (pick := recommend(function, judged)) is not None:
            picks.append(pick)
        drawn += patterns(target.model, function, own)
    return Study(describe(target) | {"condition": condition}, settings, tuple(entries), references, tuple(picks), tuple(drawn),
                 tuple(p for p in settings.pairs if p not in measured), target.model.notes, seconds)


def conditioning(robot: ConstrainedModel, points: Sequence[Point]) -> float:
    """Largest condition number of the mass matrix at the points, and of ``J M^-1 J'`` of constraints; 1 for a robot that cannot
    move."""
    if not robot.model.nv or not points:
        return 1.0
    q, mass = ca.SX.sym("q", robot.model.nq), dynamics.make(robot.model, "mass_matrix")
    jacobian = ca.Function("J", [q], [ca.densify(ca.SX(stacked(robot.model, reduced(robot.constraints), "jacobian", q)))])
    found = []
    for M, J in ((np.array(mass(p["q"])), np.array(jacobian(p["q"]))) for p in points):
        schur = J @ np.linalg.solve(M, J.T)
        found += [np.linalg.cond(M)] + ([np.linalg.cond(schur)] if len(J) and not robot.dependent else [])
    return float(max(found))


def describe(target: Target) -> dict[str, Any]:
    """The robot in numbers. depth: degrees of freedom on the longest way to the root."""
    model = target.model
    ways: list[int] = []
    for i, body in enumerate(model.bodies):
        own = 0 if body.joint.mimic is not None else model.kind(i).nv
        ways.append((ways[body.parent] if body.parent >= 0 else 0) + own)
    return {"name": target.name, "model": model.name, "from": target.what, "root": target.root, "nq": model.nq, "nv": model.nv,
            "bodies": len(model.bodies), "depth": max(ways, default=0), "mass": model.mass,
            "constraints": [c.name for c in target.constraints]}


def settings_record(settings: Settings) -> dict[str, Any]:
    """Settings with defaults filled in."""
    return asdict(replace(settings, functions=settings.functions or settings.defaults, sources=settings.sources or tuple(SOURCES)))


def chosen(options: Sequence[str] | None) -> tuple[str, ...]:
    """Names as the command line takes them: an option given several times, or one list with commas; each once."""
    return tuple(dict.fromkeys(name.strip() for word in options or () for name in word.split(",") if name.strip()))


# ------------------------------------------------------------------------------------------------ structure
ZERO = 1e-14  # of the largest entry: rounding, not motion
FIRST = {"inverse_first": ("∂τ/∂q", "∂τ/∂v", "∂τ/∂a = M"), "forward_first": ("∂a/∂q", "∂a/∂v", "∂a/∂τ = M⁻¹"),
         "constrained_first": ("∂a/∂q, constrained", "∂a/∂v, constrained", "∂a/∂τ, constrained"),
         "impact_first": ("∂v⁺/∂q", "∂v⁺/∂v")}
HESSIANS = {"inverse_contracted": ("Hessian of λᵀτ by (q, v, a)", "a"), "forward_contracted": ("Hessian of μᵀa by (q, v, τ)", "τ"),
            "constrained_contracted": ("Hessian of μᵀa, constrained, by (q, v, τ)", "τ")}


def patterns(model: Model, function: str, measured: Mapping[str, Measured]) -> list[Pattern]:
    """Which entries of one function can be other than zero: from the closed form, where it was built, else from any numbers."""
    m = measured.get("analytic")
    if m is None or not m.sparsity:
        m = next((x for x in measured.values() if x.values and x.entry.source != "fd"), None)
    if m is None or function not in (*FIRST, *HESSIANS) or not model.nv:
        return []
    marks, names = [_marks(m, k) for k in range(len(m.values[0]))], model.velocity_names
    if function in FIRST:
        return [Pattern(title, marks[k], names) for k, title in enumerate(FIRST[function])]
    title, last = HESSIANS[function]
    qq, qv, vv, qw = marks
    none = np.zeros_like(qq)
    return [Pattern(title, np.block([[qq, qv, qw], [qv.T, vv, none], [qw.T, none, none]]),
                    tuple(f"{letter}: {name}" for letter in ("q", "v", last) for name in names))]


def _marks(m: Measured, output: int) -> np.ndarray:
    """0, 1 or 2 by entry, as in ``Pattern``."""
    values = np.array([sample[output] for sample in m.values])
    live = (np.abs(values) > ZERO * max(1.0, float(np.abs(values).max(initial=0.0)))).any(axis=0)
    allowed = np.zeros(values.shape[1:], bool)
    if m.sparsity:
        rows, columns = m.sparsity[output].get_triplet()
        allowed[np.array(rows, int), np.array(columns, int)] = True
    return np.where(live, 2, np.where(allowed, 1, 0))
