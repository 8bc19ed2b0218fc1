"""All functions by all sources, one after the other; an interrupt keeps what is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import dynamics
from dynamics.derivatives.candidates import QUANTITIES, candidates
from dynamics.errors import near
from dynamics.kernels import find_compiler
from dynamics.model.model import Model
from ocp.app.derivatives.builder import Builder, Limits
from ocp.app.derivatives.measure import Measured, measure, measure_peer
from ocp.app.derivatives.patterns import patterns
from ocp.app.derivatives.peer import find_peer
from ocp.app.derivatives.points import Point, draw
from ocp.app.derivatives.recommend import recommend
from ocp.app.derivatives.records import EXACT, FUNCTIONS, SOURCES, Entry, Study
from ocp.app.derivatives.reference import judge
from ocp.app.derivatives.stopwatch import QUICK, Effort
from ocp.app.derivatives.target import Target
from ocp.errors import ProblemError

COMPILE = ("auto", "yes", "no")
Progress = Callable[[int, int, str, str, Entry | None], None]  # done, total, function, source, its entry once it is measured


@dataclass(frozen=True)
class Settings:
    """What to measure. functions, sources: names, all of them if empty; compiling: ``auto``, ``yes``, ``no``; samples: random
    states at which errors are taken; quick: short timings and low limits. Raises ProblemError, with what is near."""

    functions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    compiling: str = "auto"
    seed: int = 0
    samples: int = 3
    quick: bool = False

    def __post_init__(self) -> None:
        for option, given, known in (("--functions", self.functions, FUNCTIONS), ("--sources", self.sources, SOURCES)):
            for name in given:
                if name not in known:
                    raise ProblemError(f"no {option[2:-1]} named {name!r}{near(name, known)}", where=option)
        if self.compiling not in COMPILE:
            raise ProblemError(f"no such choice{near(self.compiling, COMPILE)}", where=f"--compile {self.compiling}")
        if self.compiling == "yes" and find_compiler() is None:
            raise ProblemError("there is no C compiler; ocp doctor says what was looked for", where="--compile yes")
        if self.samples < 1:
            raise ProblemError(f"must be at least 1, got {self.samples}", where="--samples")
        if self.seed < 0:
            raise ProblemError(f"must be at least 0, got {self.seed}", where="--seed")

    @property
    def limits(self) -> Limits:
        if self.compiling == "yes":
            return Limits(None, None, None)
        return Limits(10.0, 300_000, 10_000) if self.quick else Limits()

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [(f, s) for f in FUNCTIONS if not self.functions or f in self.functions
                for s in SOURCES if not self.sources or s in self.sources]


def run_study(target: Target, settings: Settings, progress: Progress | None = None) -> Study:
    """Measure everything that ``settings`` ask for. An interrupt (KeyboardInterrupt) ends the work, not the study: what is
    measured is judged and returned, with ``complete`` False and the rest in ``missing``."""
    begin, effort = time.perf_counter(), QUICK if settings.quick else Effort()
    show: Progress = progress or (lambda *_: None)
    model, pairs = target.model, settings.pairs
    measured: dict[tuple[str, str], Measured] = {}
    builder, complete = Builder(settings.limits), True
    points: tuple[Point, ...] = ()
    try:
        points = draw(model, settings.samples, settings.seed)
        peer, why_not = find_peer(target) if any(s == "pinocchio" for _, s in pairs) else (None, "")
        for k, (function, source) in enumerate(pairs):
            show(k, len(pairs), function, source, None)
            if source == "pinocchio":
                found = measure_peer(peer, why_not, function, points, effort)
            else:
                way = next(c for c in candidates(model, function) if c.source == source)
                found = measure(way, points, builder, settings.compiling, effort)
            measured[function, source] = found
            show(k + 1, len(pairs), function, source, found.entry)
    except KeyboardInterrupt:
        complete = False
    finally:
        builder.close()
    # M amplifies rounding: accelerations of light fingers have fewer digits than the numbers they are made of
    condition = conditioning(model, points)
    robot = {**describe(target), "condition": condition}
    study = Study(robot, describe_settings(settings), (), complete=complete,
                  missing=tuple(p for p in pairs if p not in measured), notes=model.notes)
    return replace(_judged(study, model, measured, condition), seconds=time.perf_counter() - begin)


def conditioning(model: Model, points: Sequence[Point]) -> float:
    """Largest condition number of the mass matrix at the points; 1 for a robot that cannot move."""
    if not model.nv:
        return 1.0
    mass = dynamics.make(model, "mass_matrix")
    return max((float(np.linalg.cond(np.array(mass(p.q)))) for p in points), default=1.0)


def _judged(study: Study, model: Model, measured: dict[tuple[str, str], Measured], condition: float) -> Study:
    entries: list[Entry] = []
    rounding = 10.0 * float(np.finfo(float).eps) * condition
    references, picks, drawn = {}, [], []
    for function in dict.fromkeys(f for f, _ in measured):
        own = {s: m for (f, s), m in measured.items() if f == function}
        inverse = QUANTITIES[function].inverse
        judged, reference = judge(list(own.values()), EXACT if inverse or not np.isfinite(rounding) else max(EXACT, rounding))
        entries += judged
        if reference is not None:
            references[function] = reference
        pick = recommend(function, judged)
        if pick is not None:
            picks.append(pick)
        drawn += patterns(model, function, own)
    return replace(study, entries=tuple(entries), references=references, picks=tuple(picks), patterns=tuple(drawn))


def describe(target: Target) -> dict[str, Any]:
    """The robot in numbers. depth: degrees of freedom on the longest way to the root."""
    model = target.model
    ways: list[int] = []
    for i, body in enumerate(model.bodies):
        own = 0 if body.joint.mimic is not None else model.kind(i).nv
        ways.append((ways[body.parent] if body.parent >= 0 else 0) + own)
    return {"name": target.name, "model": model.name, "from": target.what, "root": target.root, "nq": model.nq, "nv": model.nv,
            "bodies": len(model.bodies), "depth": max(ways, default=0), "mass": model.mass}


def describe_settings(settings: Settings) -> dict[str, Any]:
    return {"functions": list(settings.functions or FUNCTIONS), "sources": list(settings.sources or SOURCES),
            "compile": settings.compiling, "seed": settings.seed, "samples": settings.samples, "quick": settings.quick,
            "limits": settings.limits.sentence}


def chosen(words: Sequence[str] | None) -> tuple[str, ...]:
    """Names as the command line takes them: an option given several times, or one list with commas; each once."""
    return tuple(dict.fromkeys(name.strip() for word in words or () for name in word.split(",") if name.strip()))
