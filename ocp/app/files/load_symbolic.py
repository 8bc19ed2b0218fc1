"""A symbolic problem file turned into a Problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from ocp.app.files import load_parts as lp
from ocp.app.files.drawing import read_drawing
from ocp.app.files.expressions import Scope
from ocp.app.files.findings import Findings
from ocp.app.files.schema import SymbolicProblem, SymbolicSystem
from ocp.app.files.yaml_source import KeyPath
from ocp.app.pages import scene
from ocp.problem import INF, Boundary, Guess, Phase, Problem, System
from ocp.spaces import Space, euclidean


def load_symbolic(file: SymbolicProblem, findings: Findings) -> tuple[Problem | None, scene.Drawing | None, lp.Reader]:
    """The problem and its drawing. Errors go to ``findings``; the problem is None where they leave none to build."""
    constants = lp.read_constants(findings, file.constants)
    _check_names(findings, file)
    reader = _definitions(_reader(findings, constants, file.system), file.system)
    system = _system(reader, file)
    drawing = read_drawing(reader, file.drawing) if file.drawing else None
    phase = _phase(reader, file, system)
    problem = None if findings.found else Problem(
        file.name, (phase,), file.description, file.source, lp.read_reference(reader, file.reference))
    if findings.found:
        lp.read_reference(reader, file.reference)
    return problem, drawing, reader


def _check_names(findings: Findings, file: SymbolicProblem) -> None:
    taken = {name: f"constants.{name}" for name in file.constants}
    for group in ("states", "controls", "define"):
        for name in getattr(file.system, group):
            path: KeyPath = ("system", group, name)
            lp.check_name(findings, name, path, taken)
            taken[name] = f"system.{group}.{name}"
    findings.raise_any()  # everything below goes by these names


def _reader(findings: Findings, constants: Scope, system: SymbolicSystem) -> lp.Reader:
    x = ca.vertcat(*(ca.SX.sym(name) for name in system.states))
    u = ca.vertcat(ca.SX(0, 1), *(ca.SX.sym(name) for name in system.controls))
    names = {**{name: x[i] for i, name in enumerate(system.states)},
             **{name: u[i] for i, name in enumerate(system.controls)}}
    fixed = "only numbers and constants can"
    unavailable = {**dict.fromkeys(system.states, f"it is a state; {fixed}"),
                   **dict.fromkeys(system.controls, f"it is a control; {fixed}"),
                   **dict.fromkeys(system.define, f"it is defined from states; {fixed}"), "t": f"it is the time; {fixed}"}
    return lp.make_reader(findings, replace(constants, unavailable=unavailable), x, u, Scope(names))


def _definitions(reader: lp.Reader, system: SymbolicSystem) -> lp.Reader:
    order = list(system.define)
    for i, (name, text) in enumerate(system.define.items()):
        later = dict.fromkeys(order[i:], "it is defined later; a definition may only use those above it")
        inner = replace(reader, scope=replace(reader.scope, unavailable=later))
        value = inner.expression(text, ("system", "define", name))
        scope = reader.scope
        if value is None:
            scope = replace(scope, broken=scope.broken | {name})
        else:
            scope = replace(scope, names={**scope.names, name: value})
        reader = replace(reader, scope=scope)
    return reader


def _system(reader: lp.Reader, file: SymbolicProblem) -> System:
    given, findings = file.system, reader.findings
    states = list(given.states)
    for name in given.dynamics:
        if name not in given.states:
            lp.unknown(findings, name, states, ("system", "dynamics", name), "state")
    missing = [name for name in states if name not in given.dynamics]
    if missing:
        findings.add(("system", "dynamics"), f"the time derivative of {' and '.join(map(repr, missing))} is missing")
    rates = [reader.expression(given.dynamics[name], ("system", "dynamics", name)) if name in given.dynamics else None
             for name in states]
    return System(
        name=file.name, space=euclidean(tuple(states)), controls=tuple(given.controls),
        rate=reader.function("rate", ca.vertcat(*(ca.SX(0) if r is None else r for r in rates))),
        energy=_optional(reader, "energy", given.energy), power=_optional(reader, "power", given.power),
        units={**given.states, **given.controls},
    )


def _optional(reader: lp.Reader, key: str, text: Any) -> ca.Function | None:
    if text is None:
        return None
    value = reader.expression(text, ("system", key))
    if value is None:
        return None
    if key == "energy" and reader.depends(value, reader.u):
        reader.findings.add(("system", key), "depends on controls; the energy of a system is a function of its state")
    return reader.function(key, value)


def _phase(reader: lp.Reader, file: SymbolicProblem, system: System) -> Phase:
    given = file.phase
    bounds = _bounds(reader, system, given.bounds)
    start = _boundary(reader, system, given.start, "start", bounds)
    final = _boundary(reader, system, given.final, "final", bounds)
    constraints = []
    for i, constraint in enumerate(given.constraints):
        path: KeyPath = ("phase", "constraints", i)
        value = reader.column(constraint.expression, (*path, "expression"))
        if value is not None:
            constraints.append(lp.read_constraint(reader, constraint, value, path, "expression"))
    lp.unique_names(reader.findings, [c.name for c in given.constraints], ("phase", "constraints"))
    nx = system.nx
    lower, upper = [b[0] for b in bounds.values()], [b[1] for b in bounds.values()]
    return Phase(
        name="phase", system=system, duration=lp.read_duration(reader, given.duration),
        guess=_guess(reader, system, file, start, final, bounds), start=start, final=final,
        x_lower=tuple(lower[:nx]), x_upper=tuple(upper[:nx]), u_lower=tuple(lower[nx:]), u_upper=tuple(upper[nx:]),
        costs=lp.read_costs(reader, given.costs), constraints=tuple(constraints),
    )


def _bounds(reader: lp.Reader, system: System, given: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    bounds = dict.fromkeys((*system.space.names, *system.controls), (-INF, INF))
    for name, value in given.items():
        path: KeyPath = ("phase", "bounds", name)
        if name not in bounds:
            lp.unknown(reader.findings, name, list(bounds), path, "state or control")
        else:
            bounds[name] = lp.read_bound(reader, value, path)
    return bounds


def _boundary(reader: lp.Reader, system: System, given: Mapping[str, Any], end: str,
              bounds: Mapping[str, tuple[float, float]]) -> Boundary | None:
    names = system.space.names
    value = [0.0] * len(names)
    for name, text in given.items():
        path: KeyPath = ("phase", end, name)
        if name not in names:
            lp.unknown(reader.findings, name, list(names), path, "state")
            continue
        number = reader.number(text, path)
        value[names.index(name)] = number
        lp.check_inside(reader.findings, number, *bounds[name], path, f"the {end} value of {name!r}")
    fixed = tuple(name in given for name in names)
    return Boundary(tuple(value), fixed) if any(fixed) else None


def _guess(reader: lp.Reader, system: System, file: SymbolicProblem, start: Boundary | None, final: Boundary | None,
           bounds: Mapping[str, tuple[float, float]]) -> Guess:
    space: Space = system.space
    rows: dict[str, tuple[float, ...]] = {}
    for group, names in (("states", space.names), ("controls", system.controls)):
        for name, value in getattr(file.phase.guess, group).items():
            path: KeyPath = ("phase", "guess", group, name)
            if name not in names:
                lp.unknown(reader.findings, name, list(names), path, group[:-1])
            else:
                rows[name] = lp.series(reader, value, path)
    for i, name in enumerate(space.names):
        ends = [b.value[i] for b in (start, final) if b is not None and b.fixed[i]]
        rows.setdefault(name, tuple(ends) if ends else (lp.resting_value(*bounds[name]),))
    for name in system.controls:
        rows.setdefault(name, (lp.resting_value(*bounds[name]),))
    s = lp.common_fractions([len(values) for values in rows.values()])
    x = [lp.sample(rows[name], s) for name in space.names]
    u = [lp.sample(rows[name], s) for name in system.controls]
    return Guess(s, np.array(x).T, np.array(u).T if u else np.zeros((len(s), 0)))


