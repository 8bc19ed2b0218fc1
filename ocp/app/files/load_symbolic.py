"""A symbolic problem file turned into a Problem: differential equations, or the matrices of a linear system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

from ocp.app.files import load_parts as lp
from ocp.app.files.findings import Findings
from ocp.app.files.load_costs import named_error, read_costs
from ocp.app.files.load_definitions import read_definitions
from ocp.app.files.load_equations import read_equations
from ocp.app.files.load_linear import LinearParts, read_linear
from ocp.app.files.schema import LinearSystem, SymbolicPhase, SymbolicSystem
from ocp.app.files.scope import Scope
from ocp.app.files.start_state import OTHERS, read_others
from ocp.app.files.yaml_source import KeyPath
from ocp.problem import INF, Boundary, Guess, Phase, System
from ocp.spaces import Space, euclidean


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
        return (*(f"der({name})" for name in self.rates), *self.algebraic)


def symbolic_system(findings: Findings, constants: Scope, parameters: tuple[lp.FileParameter, ...],
                    given: SymbolicSystem | LinearSystem, name: str, folder: Path, place: KeyPath = ("system",),
                    phase: KeyPath = ("phase",)) -> tuple[lp.Reader, System]:
    """What names mean, and the system at the keys ``place``. Raises ProblemFileError where its names leave nothing to read."""
    if isinstance(given, LinearSystem):
        none = ca.SX(0, 1)
        linear = read_linear(lp.Reader(findings, constants, Scope(), none, none, none, none, place=place), given.linear, folder)
        if linear is None:
            findings.raise_any()
        assert linear is not None  # its absence always leaves a finding
        names = SymbolicNames(linear.states, linear.controls, {}, linear)
    else:
        implicit = tuple(name for name in given.states if name not in given.dynamics) if given.equations else ()
        names = SymbolicNames(given.states, given.controls, given.define, algebraic=given.algebraic, rates=implicit)
    _check_names(findings, names, constants, parameters, place)
    reader = read_definitions(_reader(findings, constants, parameters, names, place, phase), names.define)
    return _system(reader, names, given, name)


def _check_names(findings: Findings, names: SymbolicNames, constants: Scope, parameters: tuple[lp.FileParameter, ...],
                 place: KeyPath) -> None:
    taken = {name: f"constants.{name}" for name in (*constants.names, *constants.broken)}
    taken |= {parameter.name: f"parameters.{parameter.name}" for parameter in parameters}
    inside: KeyPath = () if names.linear is None else ("linear",)
    for group in ("states", "controls", "algebraic", "define"):
        for name in getattr(names, group):
            path: KeyPath = (*place, *inside, group, name)
            lp.check_name(findings, name, path, taken)
            if group == "states" and name == OTHERS:
                findings.add(path, f"{name!r} is reserved for what 'start' says about states that it does not name", at_key=True)
            taken[name] = ".".join(map(str, path))
    findings.raise_any()  # everything below goes by these names


def _reader(findings: Findings, constants: Scope, parameters: tuple[lp.FileParameter, ...], names: SymbolicNames, place: KeyPath,
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
                          place, phase)


def _system(reader: lp.Reader, names: SymbolicNames, given: SymbolicSystem | LinearSystem, name: str
            ) -> tuple[lp.Reader, System]:
    """The reader of what follows, which knows the derivatives of all states where there are equations, and the system."""
    rate_units = {f"der({state})": f"{names.states[state] or '1'}/s" for state in names.rates}
    common: dict[str, Any] = {
        "name": name, "space": euclidean(tuple(names.states)), "controls": tuple(names.controls),
        "units": {**names.states, **names.controls, **names.algebraic, **rate_units}, **lp.parameter_fields(reader)}
    if isinstance(given, LinearSystem):
        assert names.linear is not None
        A, B = (ca.sparsify(ca.DM(matrix)) for matrix in (names.linear.A, names.linear.B))
        value, period = A @ reader.x + B @ reader.u + ca.DM(names.linear.c), names.linear.period
        rate = value if period is None else (value - reader.x) / period
        system = System(rate=reader.function("rate", rate), period=_period(reader, period, ("linear", "period")), **common)
        return reader, lp.in_samples(reader, given.sampled, system)
    key, known = ("next", given.next) if given.next else ("dynamics", given.dynamics)
    findings, path = reader.findings, (*reader.place, key)
    for state in known:
        if state not in names.states:
            lp.unknown(findings, state, list(names.states), (*path, state), "state")
    missing = [state for state in names.states if state not in known and state not in names.rates]
    if missing:
        what = "what becomes of" if given.next else "the time derivative of"
        findings.add(path, f"{what} {' and '.join(map(repr, missing))} is missing")
    rates = {state: reader.expression(known[state], (*path, state)) if state in known else
             reader.scope.derivatives.get(state) for state in names.states}
    rate = ca.vertcat(*(ca.SX(0) if r is None else r for r in rates.values()))
    if given.next:
        period = 1.0 if given.period is None else reader.number(given.period, (*reader.place, "period"))
        common["period"] = _period(reader, period, ("period",))
        rate = (rate - reader.x) / period
    if given.equations or given.algebraic:
        # what is wrong was told at its own place: the state itself stands in, so that the name still has a meaning
        meant = {state: reader.x[i] if value is None else value for i, (state, value) in enumerate(rates.items())}
        reader = replace(reader, scope=replace(reader.scope, derivatives=meant))
        common |= read_equations(reader, given.equations, names.unknowns)
    system = System(rate=reader.function("rate", rate), energy=_optional(reader, "energy", given.energy),
                    power=_optional(reader, "power", given.power), **common)
    return reader, lp.in_samples(reader, given.sampled, system)


def _period(reader: lp.Reader, value: float | None, key: KeyPath) -> float | None:
    """A period that a System takes; None, and a finding, for others."""
    if value is None or 0 < value < INF:
        return value
    if value == value:
        reader.findings.add((*reader.place, *key), f"a period is positive, got {value:g} s")
    return None


def _optional(reader: lp.Reader, key: str, text: Any) -> ca.Function | None:
    if text is None:
        return None
    value = reader.expression(text, (*reader.place, key))
    if value is None:
        return None
    if key == "energy" and reader.depends(value, reader.u):
        reader.findings.add((*reader.place, key), "depends on controls; the energy of a system is a function of its state")
    return reader.function(key, value)


def symbolic_phase(reader: lp.Reader, given: SymbolicPhase, system: System, name: str) -> Phase:
    """The phase at the keys ``reader.phase``."""
    bounds = _bounds(reader, system, given.bounds)
    start = _boundary(reader, system, read_others(reader, given.start, system.space.names), "start", bounds)
    final = _boundary(reader, system, given.final, "final", bounds)
    constraints = []
    for i, constraint in enumerate(given.constraints):
        path: KeyPath = (*reader.phase, "constraints", i)
        value = reader.column(constraint.expression, (*path, "expression"))
        if value is not None:
            constraints.append(lp.read_constraint(reader, constraint, value, path, "expression"))
    lp.unique_names(reader.findings, [c.name for c in given.constraints], (*reader.phase, "constraints"))
    nx = system.nx
    lower, upper = [b[0] for b in bounds.values()], [b[1] for b in bounds.values()]

    def error(cost: Any, form: str, path: KeyPath) -> Any:
        names, values, what = (system.space.names, reader.x, "state") if form == "state_error" else \
            (system.controls, reader.u[:len(system.controls)], "control")
        return named_error(reader, getattr(cost, form), names, values, path, what)

    return Phase(
        name=name, system=system, duration=lp.read_duration(reader, given.duration, system.period),
        guess=_guess(reader, system, given, start, final, bounds), start=start, final=final,
        x_lower=tuple(lower[:nx]), x_upper=tuple(upper[:nx]), u_lower=tuple(lower[nx:]), u_upper=tuple(upper[nx:]),
        costs=read_costs(reader, given.costs, error, system.period), constraints=tuple(constraints),
        free_parameters=lp.free_parameters(reader),
    )


def _bounds(reader: lp.Reader, system: System, given: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    bounds = dict.fromkeys((*system.space.names, *system.inputs), (-INF, INF))
    for name, value in given.items():
        path: KeyPath = (*reader.phase, "bounds", name)
        if name not in bounds:
            lp.unknown(reader.findings, name, list(bounds), path, "state, control or algebraic unknown" if system.algebraic else
                       "state or control")
        else:
            bounds[name] = lp.read_bound(reader, value, path)
    return bounds


def _boundary(reader: lp.Reader, system: System, given: Any, end: str, bounds: Mapping[str, tuple[float, float]]
              ) -> Boundary | None:
    names, place = system.space.names, (*reader.phase, end)
    if isinstance(given, Mapping):
        numbers = {}
        for name, text in given.items():
            if name not in names:
                lp.unknown(reader.findings, name, list(names), (*place, name), "state")
            else:
                numbers[name] = reader.number(text, (*place, name)), (*place, name)
    else:
        values = reader.vector(given, len(names), place, "states")
        places = [(*place, i) if isinstance(given, tuple) else place for i in range(len(names))]
        numbers = {name: (value, path) for name, value, path in zip(names, values, places, strict=True)}
    for name, (number, path) in numbers.items():
        lp.check_inside(reader.findings, number, *bounds[name], path, f"the {end} value of {name!r}")
    fixed = tuple(name in numbers for name in names)
    return Boundary(tuple(numbers[name][0] if name in numbers else 0.0 for name in names), fixed) if any(fixed) else None


def _guess(reader: lp.Reader, system: System, given: SymbolicPhase, start: Boundary | None, final: Boundary | None,
           bounds: Mapping[str, tuple[float, float]]) -> Guess:
    space: Space = system.space
    rows: dict[str, tuple[float, ...]] = {}
    for group, names in (("states", space.names), ("controls", system.controls), ("algebraic", system.algebraic)):
        for name, value in getattr(given.guess, group).items():
            path: KeyPath = (*reader.phase, "guess", group, name)
            if name not in names:
                lp.unknown(reader.findings, name, list(names), path, {"algebraic": "algebraic unknown"}.get(group, group[:-1]))
            else:
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
