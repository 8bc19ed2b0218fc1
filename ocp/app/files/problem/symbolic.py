"""A symbolic problem file turned into a Problem: differential equations, implicit equations, or matrices of a linear system."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

from ocp.app.files.problem.names import check_name, free_parameters, read_csv
from ocp.app.files.problem.schema import LinearSystem, SymbolicPhase, SymbolicSystem
from ocp.app.files.problem.sections import in_samples, named_error, read_constraint, read_costs, read_duration
from ocp.app.files.robot.start import OTHERS, read_others
from ocp.app.files.syntax import reader as lp
from ocp.app.files.syntax.findings import Findings
from ocp.app.files.syntax.reader import Reader, sound
from ocp.app.files.syntax.scope import FollowOnError, Scope
from ocp.app.files.syntax.yaml_source import KeyPath
from ocp.problem import INF, Boundary, Bounds, Constraint, Guess, Phase, System
from ocp.spaces import Space, euclidean

SX = Any


@dataclass(frozen=True)
class SymbolicNames:
    """States, controls and algebraic unknowns with their units, definitions, and for linear systems the matrices.

    rates: states whose derivatives are unknowns of the equations.
    """

    states: Mapping[str, str]
    controls: Mapping[str, str]
    define: Mapping[str, Any]
    linear: LinearParts | None = None
    algebraic: Mapping[str, str] = field(default_factory=dict)
    rates: tuple[str, ...] = ()

    @property
    def unknowns(self) -> tuple[str, ...]:
        """Names of derivatives and algebraic variables that the equations determine."""
        return (*(f"der({name})" for name in self.rates), *self.algebraic)


def symbolic_system(findings: Findings, constants: Scope, parameters: tuple[lp.FileParameter, ...],
                    spec: SymbolicSystem | LinearSystem, name: str, folder: Path, key_path: KeyPath = ("system",),
                    phase: KeyPath = ("phase",)) -> tuple[lp.Reader, System]:
    """The names of the system, and the system at the keys ``key_path``. Raises ProblemFileError where its names leave nothing to
    read."""
    if isinstance(spec, LinearSystem):
        linear = read_linear(lp.Section(lp.Reader(findings, constants), spec.linear, (*key_path, "linear")), folder)
        if linear is None:
            findings.raise_any()
        assert linear is not None  # its absence always leaves a finding
        names = SymbolicNames(linear.states, linear.controls, {}, linear)
    else:
        implicit = tuple(name for name in spec.states if name not in spec.dynamics) if spec.equations else ()
        names = SymbolicNames(spec.states, spec.controls, spec.define, algebraic=spec.algebraic, rates=implicit)
    _check_names(findings, names, constants, parameters, key_path)
    reader = read_definitions(_reader(findings, constants, parameters, names, key_path, phase), names.define)
    return _system(reader, names, spec, name)


def _check_names(findings: Findings, names: SymbolicNames, constants: Scope, parameters: tuple[lp.FileParameter, ...],
                 key_path: KeyPath) -> None:
    taken = {name: f"constants.{name}" for name in (*constants.names, *constants.broken)}
    taken |= {parameter.name: f"parameters.{parameter.name}" for parameter in parameters}
    inside: KeyPath = () if names.linear is None else ("linear",)
    before = len(findings.found)
    for group in ("states", "controls", "algebraic", "define"):
        for name in getattr(names, group):
            path: KeyPath = (*key_path, *inside, group, name)
            check_name(findings, name, path, taken)
            if group == "states" and name == OTHERS:
                findings.add(path, f"{name!r} is reserved for what 'start' says about states that it does not name", at_key=True)
            taken[name] = ".".join(map(str, path))
    if len(findings.found) > before:
        findings.raise_any()  # everything below goes by these names


def _reader(findings: Findings, constants: Scope, parameters: tuple[lp.FileParameter, ...], names: SymbolicNames, key_path: KeyPath,
            phase: KeyPath) -> lp.Reader:
    x = ca.vertcat(*(ca.SX.sym(name) for name in names.states))
    inputs = (*names.controls, *names.unknowns)
    u = ca.vertcat(ca.SX(0, 1), *(ca.SX.sym(name) for name in inputs))
    known = {**{name: x[i] for i, name in enumerate(names.states)}, **{name: u[i] for i, name in enumerate(inputs)}}
    rates = {name: known.pop(f"der({name})") for name in names.rates}
    fixed = "only numbers and constants can"
    unavailable = {**dict.fromkeys(names.states, f"it is a state; {fixed}"),
                   **dict.fromkeys(names.controls, f"it is a control; {fixed}"),
                   **dict.fromkeys(names.algebraic, f"it is an algebraic unknown; {fixed}"),
                   **dict.fromkeys((p.name for p in parameters), f"it is a parameter; {fixed}"),
                   **dict.fromkeys(names.define, f"it is defined from states; {fixed}"), "t": f"it is the time; {fixed}"}
    return lp.make_reader(findings, replace(constants, unavailable=unavailable), x, u, Scope(known, derivatives=rates), parameters,
                          key_path, phase)


def _system(reader: lp.Reader, names: SymbolicNames, spec: SymbolicSystem | LinearSystem, name: str
            ) -> tuple[lp.Reader, System]:
    """The reader of what follows, which knows the derivatives of all states where there are equations, and the system."""
    rate_units = {f"der({state})": f"{names.states[state] or '1'}/s" for state in names.rates}
    common: dict[str, Any] = {
        "name": name, "space": euclidean(tuple(names.states)), "controls": tuple(names.controls),
        "units": {**names.states, **names.controls, **names.algebraic, **rate_units},
        "parameters": tuple(p.name for p in reader.parameters), "parameter_values": tuple(p.value for p in reader.parameters)}
    if isinstance(spec, LinearSystem):
        assert names.linear is not None
        A, B = (ca.sparsify(ca.DM(matrix)) for matrix in (names.linear.A, names.linear.B))
        value, period = A @ reader.x + B @ reader.u + ca.DM(names.linear.c), names.linear.period
        rate = value if period is None else (value - reader.x) / period
        system = System(rate=reader.function("rate", rate), period=period, **common)
        return reader, in_samples(reader, spec.sampled, system)
    key, known = ("next", spec.next) if spec.next else ("dynamics", spec.dynamics)
    findings, path = reader.findings, (*reader.key_path, key)
    for state in known:
        if state not in names.states:
            lp.unknown(findings, state, list(names.states), (*path, state), "state")
    missing = [state for state in names.states if state not in known and state not in names.rates]
    if missing:
        what = "what becomes of" if spec.next else "the time derivative of"
        findings.add(path, f"{what} {' and '.join(map(repr, missing))} is missing")
    rates = {state: reader.expression(known[state], (*path, state)) if state in known else
             reader.scope.derivatives.get(state) for state in names.states}
    rate = ca.vertcat(*(ca.SX(0) if r is None else r for r in rates.values()))
    if spec.next:
        common["period"] = period = lp.Section(reader, spec, reader.key_path).positive("period", 1.0)
        rate = (rate - reader.x) / period
    if spec.equations or spec.algebraic:
        # what is wrong was reported at its own place: the state itself stands in, so that the name still has a meaning
        meant = {state: reader.x[i] if value is None else value for i, (state, value) in enumerate(rates.items())}
        reader = replace(reader, scope=replace(reader.scope, derivatives=meant))
        common |= read_equations(reader, spec.equations, names.unknowns)
    system = System(rate=reader.function("rate", rate), energy=_optional(reader, "energy", spec.energy),
                    power=_optional(reader, "power", spec.power), **common)
    return reader, in_samples(reader, spec.sampled, system)


def _optional(reader: lp.Reader, key: str, text: object) -> ca.Function | None:
    if text is None:
        return None
    value = reader.expression(text, (*reader.key_path, key))
    if value is None:
        return None
    if key == "energy" and reader.depends(value, reader.u):
        reader.findings.add((*reader.key_path, key), "depends on controls; the energy of a system is a function of its state")
    return reader.function(key, value)


def symbolic_phase(reader: lp.Reader, spec: SymbolicPhase, system: System, name: str) -> Phase:
    """The phase at the keys ``reader.phase``."""
    bounds = _bounds(reader, system, spec.bounds)
    start = _boundary(reader, system, read_others(reader, spec.start, system.space.names), "start", bounds)
    final = _boundary(reader, system, spec.final, "final", bounds)
    section = lp.Section(reader, spec, reader.phase)
    constraints = section.all("constraints", _constraint)
    every = Bounds.of(bounds.values())

    def error(cost: object, form: str, path: KeyPath) -> Any:
        names, values, what = (system.space.names, reader.x, "state") if form == "state_error" else \
            (system.controls, reader.u[:len(system.controls)], "control")
        return named_error(reader, getattr(cost, form), names, values, path, what)

    return Phase(
        name=name, system=system, duration=read_duration(reader, spec.duration, system.period),
        guess=_guess(reader, system, spec, start, final, bounds), start=start, final=final,
        costs=read_costs(section, error, system.period), constraints=constraints,
        free_parameters=free_parameters(reader),
    ).with_bounds(states=every[:system.nx], controls=every[system.nx:])


@sound
def _constraint(section: lp.Section) -> Constraint:
    return read_constraint(section, section.column("expression"))


def _bounds(reader: lp.Reader, system: System, spec: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    bounds = dict.fromkeys((*system.space.names, *system.inputs), (-INF, INF))
    what = "state, control or algebraic unknown" if system.algebraic else "state or control"
    own = lp.known(reader, spec, (*reader.phase, "bounds"), tuple(bounds), what)
    return bounds | {name: lp.read_bound(reader, value, path) for name, value, path in own}


def _boundary(reader: lp.Reader, system: System, spec: object, end: str, bounds: Mapping[str, tuple[float, float]]
              ) -> Boundary | None:
    names, key_path = system.space.names, (*reader.phase, end)
    if isinstance(spec, Mapping):
        numbers = {name: (reader.number(value, path), path)
                   for name, value, path in lp.known(reader, spec, key_path, names, "state")}
    else:
        values = reader.vector(spec, len(names), key_path, "states")
        places = [(*key_path, i) if isinstance(spec, tuple) else key_path for i in range(len(names))]
        numbers = {name: (value, path) for name, value, path in zip(names, values, places, strict=True)}
    for name, (number, path) in numbers.items():
        lp.check_inside(reader.findings, number, *bounds[name], path, f"the {end} value of {name!r}")
    fixed = tuple(name in numbers for name in names)
    return Boundary(tuple(numbers[name][0] if name in numbers else 0.0 for name in names), fixed) if any(fixed) else None


def _guess(reader: lp.Reader, system: System, spec: SymbolicPhase, start: Boundary | None, final: Boundary | None,
           bounds: Mapping[str, tuple[float, float]]) -> Guess:
    space: Space = system.space
    rows: dict[str, tuple[float, ...]] = {}
    for group, names in (("states", space.names), ("controls", system.controls), ("algebraic", system.algebraic)):
        what = {"algebraic": "algebraic unknown"}.get(group, group[:-1])
        for name, value, path in lp.known(reader, getattr(spec.guess, group), (*reader.phase, "guess", group), names, what):
            rows[name] = lp.series(reader, value, path)
    for i, name in enumerate(space.names):
        ends = [b.value[i] for b in (start, final) if b is not None and b.fixed[i]]
        rows.setdefault(name, tuple(ends) if ends else (lp.resting_value(*bounds[name]),))
    for name in system.inputs:
        rows.setdefault(name, (lp.resting_value(*bounds[name]),))
    s = lp.common_fractions([len(values) for values in rows.values()])
    x = [lp.sample(rows[name], s) for name in space.names]
    u = [lp.sample(rows[name], s) for name in system.inputs]
    return Guess(s, np.array(x).T, np.array(u).T if u else np.zeros((len(s), 0)))


# ---- definitions ------------------------------------------------------------------------------------------------------
def read_definitions(reader: Reader, define: Mapping[str, Any]) -> Reader:
    """The reader with the definitions in its scope; a wrong one is recorded, and what uses it stays silent."""
    order = list(define)
    for i, (name, text) in enumerate(define.items()):
        later = dict.fromkeys(order[i:], "it is defined later; a definition may only use those above it")
        inner = replace(reader, scope=replace(reader.scope, unavailable={**reader.scope.unavailable, **later}))
        value = inner.expression(text, (*reader.key_path, "define", name))
        scope = reader.scope
        if value is None:
            scope = replace(scope, broken=scope.broken | {name})
        else:
            scope = replace(scope, names={**scope.names, name: value})
        defined = reader.defined if value is None else {**reader.defined, name: value}
        reader = replace(reader, scope=scope, defined=defined)
    return reader


def read_robot_definitions(reader: Reader, define: Mapping[str, Any], reserved: Sequence[str]) -> Reader:
    """As :func:`read_definitions`, where names have not been checked yet: beside constants and plain controls, ``reserved`` are
    taken."""
    taken = dict.fromkeys(reader.scope.names, "the controls") | {name: f"constants.{name}" for name in reader.constants.names}
    before = len(reader.findings.found)
    for name in define:
        check_name(reader.findings, name, (*reader.key_path, "define", name), taken, reserved)
    if len(reader.findings.found) > before:
        return reader
    reasons = dict.fromkeys(define, "it is defined from states; only numbers and constants can")
    constants = replace(reader.constants, unavailable={**reader.constants.unavailable, **reasons})
    return read_definitions(replace(reader, constants=constants), define)


# ---- implicit equations -----------------------------------------------------------------------------------------------
#: an equals sign that is no part of a comparison
EQUALS = re.compile(r"(?<![=<>!:])=(?!=)")


def read_equations(reader: Reader, spec: Mapping[str, Any], unknowns: Sequence[str]) -> dict[str, Any]:
    """Equations ``left = right``, or expressions that are zero, as fields of a System. Errors are recorded; wrong equations are 0,
    so that names still have their meaning."""
    key_path: KeyPath = (*reader.key_path, "equations")
    if len(spec) != len(unknowns):
        what = f"({', '.join(unknowns)}); give as many" if unknowns else "; every state has its derivative in 'dynamics', and " \
            "'algebraic' names nothing"
        count = f"{len(spec) or 'no'} equation{'' if len(spec) == 1 else 's'}"
        reader.findings.add(key_path if spec else (*reader.key_path, "algebraic"), f"{count} for {len(unknowns) or 'no'} unknown"
                            f"{'' if len(unknowns) == 1 else 's'} {what}".replace(" ;", ";"), at_key=True)
    found = [_equation(reader, text, (*key_path, name)) for name, text in spec.items()]
    for name, row in zip(spec, found, strict=True):
        if row is not None and not (reader.depends(row, reader.u) or reader.depends(row, reader.x)):
            reader.findings.add((*key_path, name), "depends on no state, control or unknown")
    rows = [ca.SX(0) if row is None else row for row in found]
    rows += [ca.SX(0)] * (len(unknowns) - len(rows))
    residual = reader.function("residual", ca.vertcat(*rows[:len(unknowns)])) if unknowns else None
    names = tuple(spec) if len(spec) == len(unknowns) else ()
    return {"algebraic": tuple(unknowns), "equations": names, "residual": residual}


def _equation(reader: Reader, text: object, path: KeyPath) -> SX | None:
    """left - right; None after an error was recorded."""
    if not isinstance(text, str):
        return reader.expression(text, path)
    cuts = [match.start() for match in EQUALS.finditer(text)]
    if len(cuts) > 1:
        reader.findings.add(path, "has more than one '='; an equation is 'left = right'")
        return None
    if not cuts:
        return reader.expression(text, path)
    left = reader.expression(text[:cuts[0]], path)
    right = None if left is None else reader.expression(text[cuts[0] + 1:], path, cuts[0] + 1)
    return None if right is None else left - right


# ---- linear systems ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class LinearParts:
    """period [s] in discrete time, A [n, n], B [n, m], c [n], and names with units of states and controls."""

    period: float | None
    A: np.ndarray
    B: np.ndarray
    c: np.ndarray
    states: Mapping[str, str]
    controls: Mapping[str, str]


@sound
def read_linear(section: lp.Section, folder: Path) -> LinearParts:
    """The matrices, sizes checked; None after an error was recorded. CSV files are relative to ``folder``."""
    spec, names = section.spec, []
    A, B = _matrix(section, "A", folder), _matrix(section, "B", folder)
    n, m = len(A), B.shape[1]
    if A.shape != (n, n):
        section.refuse(f"a state matrix is square; this one is {n} x {A.shape[1]}", "A")
    if len(B) != n:
        section.refuse(f"needs {n} rows as A has, got {len(B)}", "B")
    for key, size, letter in (("states", n, "x"), ("controls", m, "u")):
        named = getattr(spec, key)
        if named is not None and len(named) != size:
            section.refuse(f"{len(named)} names for {size} {key}", key)
        names.append({f"{letter}{i}": "" for i in range(size)} if named is None else named)
    return LinearParts(section.value("period"), A, B, np.array(section.each("drift", n, "states")), *names)


def _matrix(section: lp.Section, key: str, folder: Path) -> np.ndarray:
    spec = getattr(section.spec, key)
    if isinstance(spec, str):
        found = read_csv(section.findings, spec, folder, section.at(key), "a list of rows or a .csv file")
    else:
        widths = [len(row) for row in spec]
        if len(set(widths)) > 1:
            other = next(i for i, width in enumerate(widths) if width != widths[0])
            section.refuse(f"{widths[other]} entries; the rows before have {widths[0]}", key, other)
            raise FollowOnError("recorded")
        found = np.array(section.value(key))
    if found is None or not np.all(np.isfinite(found)):
        raise FollowOnError("recorded")
    return found
