"""Sections of a problem file turned into mathematics, the same for symbolic systems and robots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import casadi as ca

from ocp.app.files.problem import sections_schema as sections
from ocp.app.files.syntax.reader import Reader, Section, known, read_bound, sound, unknown
from ocp.app.files.syntax.scope import Scope, Table
from ocp.app.files.syntax.yaml_source import KeyPath
from ocp.app.pages.scene import Disc, Drawing, Polyline
from ocp.integrators import INTEGRATORS, sampled
from ocp.problem import INF, At, Constraint, Cost, Duration, Linkage, Problem, Sense, System, whole_steps
from ocp.simulation import check_integrator
from ocp.thresholds import ROUNDING

SX = Any


# ---- time -----------------------------------------------------------------------------------------------------------------
def in_samples(reader: Reader, given: sections.Sampled | None, system: System) -> System:
    """The system, or what steps of an integrator make of it where the file asks for these."""
    if given is None:
        return system
    section = Section(reader, given, (*reader.place, "sampled"))
    return _samples(section, system) or system


@sound
def _samples(section: Section, system: System) -> System:
    given, period = section.given, section.value("period")
    if given.integrator not in INTEGRATORS:
        unknown(section.findings, given.integrator, tuple(INTEGRATORS), section.at("integrator"), "integrator")
    section.findings.settle()
    return sampled(system, period, given.integrator, given.steps)


def read_duration(reader: Reader, value: Any, period: float | None = None) -> Duration:
    """The duration, positive, with its guess inside; in discrete time of whole periods [s]."""
    section = Section(reader, value, (*reader.phase, "duration"))
    if isinstance(value, sections.DurationRange):
        found = _free_duration(section)
    else:
        length = reader.number(value, section.path)
        found = Duration(length, length, length)
        if found.guess <= 0:
            section.refuse(f"a duration must be positive, got {found.guess:g} s")
    if period is not None:
        with section.collecting():
            whole_steps(found, period)
            return found
        length = max(1, round(found.guess / period)) * period if 0 < found.guess < INF else period  # stands in
        return Duration(length, length, length)
    return found


def _free_duration(section: Section) -> Duration:
    lower, upper = section.value("lower"), section.value("upper")
    if lower > upper:
        section.refuse(f"lower ({lower:g} s) is above upper ({upper:g} s)")
    if section.given.guess is None and upper == INF:
        section.refuse("needs 'guess' where there is no upper end")
    guess = section.value("guess", (lower + upper) / 2)
    if section.given.guess is not None and (guess < lower or guess > upper):
        section.refuse(f"{guess:g} s lies outside [{lower:g}, {upper:g}]", "guess")
    if section.given.guess is None and not guess > 0:
        section.refuse(f"a duration must be positive, got {guess:g} s", "guess")
    return Duration(lower or ROUNDING.resolution * guess, upper, guess, not lower)


# ---- constraints --------------------------------------------------------------------------------------------------------
def _limits(section: Section, size: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Lower and upper limits [size] of a constraint or of a linkage, equal ones under ``equal``."""
    ends = ("lower", "upper") if section.given.equal is None else ("equal", "equal")
    lower, upper = (section.each(key, size, "components") for key in ends)
    for i, (low, high) in enumerate(zip(lower, upper, strict=True)):
        if low > high:
            section.refuse(f"lower ({low:g}) is above upper ({high:g}){f' in component {i}' if size > 1 else ''}")
    return lower, upper


def read_constraint(section: Section, value: SX) -> Constraint:
    """A constraint on ``value``, what it says that is constrained."""
    reader, constraint, at, size = section.reader, section.given, At(section.given.at), value.numel()
    if at in (At.START, At.FINAL) and reader.depends(value, reader.u):
        section.refuse(f"depends on {controls_in(reader, value)}; a constraint at the {constraint.at} cannot depend on controls",
                       constraint.form())
    lower, upper = _limits(section, size)
    sense = Sense.BOX if constraint.equal is None else Sense.EQUAL
    _check_depends(section, value, lower, upper)
    for i, ends in enumerate(zip(lower, upper, strict=True)):
        if ends == (-INF, INF):
            section.refuse(f"has no bound{f' in component {i}' if size > 1 else ''}")
    return Constraint(constraint.name, at, reader.function(constraint.name, value), lower, upper, sense, section.value("soft"),
                      section.where)


def _check_depends(section: Section, value: SX, lower: Sequence[float], upper: Sequence[float]) -> None:
    """Record components that nothing can change: all that stand by themselves in the file, and those of a vector (such as
    the height of a planar arm's hand) that break their bounds."""
    reader, form = section.reader, section.given.form()
    given = getattr(section.given, form)
    alone = value.numel() == (len(given) if isinstance(given, tuple) else 1)
    constant = [_constant(reader, value[i], section.given.at == "start") for i in range(value.numel())]
    for i, number in enumerate(constant):
        spot = (form, i) if isinstance(given, tuple) and alone else (form,)
        if number is None:
            continue
        if alone or all(c is not None for c in constant):
            time = ", and t is 0 at the start" if reader.depends(value[i], reader.t) else ""
            section.refuse(f"is always {number:g}: it depends on no state, control or time{time}", *spot)
        elif number < lower[i] - 1e-9 or number > upper[i] + 1e-9:
            section.refuse(f"component {i} is always {number:g}, outside its bounds [{lower[i]:g}, {upper[i]:g}]", *spot)


def _constant(reader: Reader, value: SX, at_start: bool) -> float | None:
    if any(reader.depends(value, on) for on in (reader.x, reader.u, reader.p)):
        return None
    if reader.depends(value, reader.t) and not at_start:
        return None
    return float(ca.evalf(ca.substitute(value, reader.t, ca.DM(0))))


def controls_in(reader: Reader, value: SX) -> str:
    """The controls that an expression depends on, in words."""
    names = {str(reader.u[i]): reader.u[i] for i in range(reader.u.numel())}
    return ", ".join(f"control {name!r}" for name, symbol in names.items() if ca.depends_on(value, symbol))


# ---- costs ------------------------------------------------------------------------------------------------------------
ReadError = Callable[[Any, str, KeyPath], SX | None]


def read_costs(phase: Section, error: ReadError, period: float | None = None) -> tuple[Cost, ...]:
    """The costs of a phase. error(cost, form, path): residuals of the .._error that the key ``form`` at ``path`` describes; period
    [s]: of a system in discrete time, else None."""
    return phase.all("costs", lambda section: _cost(section, error, period))


def _cost(section: Section, error: ReadError, period: float | None) -> Cost | None:
    reader, cost, form = section.reader, section.given, section.given.form()
    at = At.FINAL if cost.is_final() else At.PATH
    place, given = section.at(form), getattr(cost, form)
    if form.endswith("error"):
        value = error(cost, form, place)
    else:
        value = reader.column(given, place) if form.endswith("residual") else reader.expression(given, place)
    if value is None:
        return None
    if at is At.FINAL and reader.depends(value, reader.u):
        section.refuse(f"depends on {controls_in(reader, value)}; a cost at the end cannot depend on controls", form)
    weights = None if form in ("running", "stage", "final") else section.each("weights", value.numel(), "residuals")
    if form.startswith("stage"):  # costs along the path are sums over steps, times the period
        if period is None:
            instead = form.replace("stage", "running")
            section.refuse(f"is summed over steps, and time is continuous here; write {instead}", form, at_key=True)
            return None
        weights = None if weights is None else tuple(weight / period for weight in weights)
        value = value / period if weights is None else value
    if cost.between is not None:
        value = _window(reader, cost.between, section.at("between")) * value
    return Cost(cost.name, at, reader.function(cost.name, value), weights)


def _window(reader: Reader, between: Any, path: KeyPath) -> SX:
    """1 in the window, 0 outside."""
    begin, end = read_bound(reader, between, path)
    if begin == end:
        reader.findings.add(path, f"a window without length, at {begin:g} s; give it one, or end a phase there")
    return ca.if_else(reader.t >= begin, 1, 0) * ca.if_else(reader.t <= end, 1, 0)


def named_error(reader: Reader, given: Any, names: Sequence[str], values: SX, path: KeyPath, what: str) -> SX | None:
    """``values`` less the given ones: a number for all, a list in order, or numbers by name for those that count."""
    if isinstance(given, Mapping):
        chosen = [(names.index(name), reader.number(value, at)) for name, value, at in known(reader, given, path, names, what)]
        if not given:
            reader.findings.add(path, f"names no {what}")
        if len(chosen) < len(given) or not given:
            return None
        chosen.sort()
        return ca.vertcat(*(values[i] - number for i, number in chosen))
    if not names:
        reader.findings.add(path, f"the system has no {what}")
        return None
    return values - ca.DM(reader.vector(given, len(names), path, f"{what}s"))


# ---- linkages ---------------------------------------------------------------------------------------------------------
# Their expressions know ``start["state"]``, ``final["state"]`` and ``duration`` of a file with one phase; with several phases
# the entries are ``start["phase.state"]``, ``final["phase.state"]`` and ``duration["phase"]``. Names of ``system.define`` stand
# beside the states where they depend on these alone. Constants and parameters go by their names.
ENDS = (("start", At.START), ("final", At.FINAL))


def read_linkages(readers: Sequence[Reader], file: Any, problem: Problem) -> tuple[Linkage, ...]:
    """The linkages of a file; ``readers``: of its phases. Errors go to their findings."""
    reader = readers[0]
    several = len(problem.phases) > 1
    symbols = {(i, at): ca.SX.sym(f"x_{i}_{word}", phase.system.nx) for i, phase in enumerate(problem.phases) for word, at in ENDS}
    T = ca.SX.sym("T", len(problem.phases))
    p = ca.SX.sym("p", len(reader.parameters))
    tables = {}
    for word, at in ENDS:
        entries = {f"{phase.name}.{name}" if several else name: symbols[i, at][k]
                   for i, phase in enumerate(problem.phases) for k, name in enumerate(phase.system.space.names)}
        whole, reasons = ca.vertcat(*entries.values()), {}
        for i, (phase, own) in enumerate(zip(problem.phases, readers, strict=True)):
            for name, value in own.defined.items():
                entry = f"{phase.name}.{name}" if several else name
                if ca.depends_on(value, ca.vertcat(own.t, own.u)):
                    reasons[entry] = f"{name!r} depends on time or on controls, and an end of a phase has a state alone"
                else:
                    entries.setdefault(entry, ca.substitute(value, ca.vertcat(own.x, own.p), ca.vertcat(symbols[i, at], p)))
        tables[word] = Table(whole, entries, reasons)
    names = dict(reader.constants.names)
    if several:
        tables["duration"] = Table(T, {phase.name: T[i] for i, phase in enumerate(problem.phases)})
    else:
        names["duration"] = T[0]
    names |= {parameter.name: p[i] for i, parameter in enumerate(reader.parameters)}
    constants = reader.constants
    inside = replace(reader, scope=Scope(names=names, tables=tables, broken=constants.broken, curves=constants.curves))
    free = [i for i, phase in enumerate(problem.phases) if phase.duration.free]
    return Section(inside, file, ()).all("linkages", lambda section: _linkage(section, symbols, T, free, p))


@sound
def _linkage(section: Section, symbols: dict[tuple[int, At], ca.SX], T: ca.SX, free: Sequence[int], p: ca.SX) -> Linkage:
    reader, given, value = section.reader, section.given, section.column("expression")
    used = [end for end, x in symbols.items() if ca.depends_on(value, x)]
    if not used and not any(ca.depends_on(value, T[i]) for i in free):
        section.refuse("depends on no end of a phase and on no free duration: use start[...], final[...] or duration", "expression")
    used = used or [next(iter(symbols))]  # durations alone: some state must be there all the same
    parameters = tuple(q.name for i, q in enumerate(reader.parameters) if ca.depends_on(value, p[i]))
    lower, upper = _limits(section, value.numel())
    chosen = ca.vertcat(ca.SX(0, 1), *(p[i] for i, q in enumerate(reader.parameters) if q.name in parameters))
    function = ca.Function("linkage", [*(symbols[end] for end in used), T, chosen], [ca.densify(value)])
    return Linkage(given.name, tuple(used), function, lower, upper, parameters, section.where)


# ---- the drawing ------------------------------------------------------------------------------------------------------


def read_drawing(reader: Reader, drawing: sections.Drawing) -> Drawing:
    """Boxes lie at the back, then segments, circles, and the points whose path is drawn."""
    section, points = Section(reader, drawing, ("drawing",)), _points(reader, drawing)
    primitives: list[Polyline | Disc] = []
    for box in section.parts("boxes"):
        width, height = box.value("size")
        centre = _point(reader, points, box.given.at, box.at("at"))
        corners = [centre + ca.vertcat(a * width / 2, b * height / 2) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
        primitives.append(Polyline(reader.function("box", ca.horzcat(*corners)), closed=True, role="body"))
    for i, pair in enumerate(drawing.segments):
        ends = [_point(reader, points, name, section.at("segments", i, k)) for k, name in enumerate(pair)]
        primitives.append(Polyline(reader.function("segment", ca.horzcat(*ends))))
    traced = {name: section.at("trace", i) for i, name in enumerate(drawing.trace)}
    for circle in section.parts("circles"):
        at = circle.given.at
        centre, radius = _point(reader, points, at, circle.at("at")), circle.value("radius")
        primitives.append(Disc(reader.function("circle", centre), radius, trace=traced.pop(at, None) is not None))
    for name, where in traced.items():
        primitives.append(Disc(reader.function("point", _point(reader, points, name, where)), 0.0, role="link", trace=True))
    return Drawing(tuple(primitives))


def _points(reader: Reader, drawing: sections.Drawing) -> dict[str, SX]:
    points = {}
    for name, pair in drawing.points.items():
        values = [reader.expression(value, ("drawing", "points", name, k)) for k, value in enumerate(pair)]
        points[name] = ca.vertcat(*(ca.SX(0) if value is None else value for value in values))
    return points


def _point(reader: Reader, points: Mapping[str, SX], name: str, path: KeyPath) -> SX:
    if name in points:
        return points[name]
    unknown(reader.findings, name, list(points), path, "point")
    return ca.SX(2, 1)


# ---- simulation -------------------------------------------------------------------------------------------------------
def read_simulate(reader: Reader, given: sections.Simulate, problem: Problem) -> sections.LoadedSimulation:
    """The section of a file whose problem has been read; errors are recorded."""
    section = Section(reader, given, ("simulate",))
    names = list(dict.fromkeys(name for phase in problem.phases for name in phase.system.controls))
    controls = None if given.controls is None else dict(section.known("controls", names, "control"))
    parts = section.parts("expect")
    for i, part in enumerate((section, *parts)):
        with part.collecting("integrator"):
            check_integrator(part.given.integrator)
        if i and part.given.integrator in [other.given.integrator for other in parts[:i - 1]]:
            part.refuse(f"there is an energy by {part.given.integrator!r} already", "integrator")
    if parts and any(phase.system.energy is None for phase in problem.phases):
        section.refuse("an energy is expected, and the system has none; add 'energy' and 'power' to it", "expect")
    made: sections.LoadedSimulation = section.made(controls=controls)
    return made
