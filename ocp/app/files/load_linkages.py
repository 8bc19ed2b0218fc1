"""Constraints between the ends of phases, from a problem file.

Their expressions know ``start["state"]``, ``final["state"]`` and ``duration`` of a file with one phase; with several phases
the entries are ``start["phase.state"]``, ``final["phase.state"]`` and ``duration["phase"]``. What ``system.define`` names stands
beside the states where it depends on these alone. Constants and parameters go by their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import casadi as ca

from ocp.app.files import schema_parts as parts
from ocp.app.files.load_parts import Reader, unique_names
from ocp.app.files.scope import Scope, Table
from ocp.app.files.yaml_source import KeyPath
from ocp.problem import INF, At, Linkage, Problem

ENDS = (("start", At.START), ("final", At.FINAL))


def read_linkages(readers: Sequence[Reader], given: Sequence[parts.Linkage], problem: Problem) -> tuple[Linkage, ...]:
    """The linkages of a file; ``readers``: of its phases. Errors go to their findings."""
    reader = readers[0]
    unique_names(reader.findings, [linkage.name for linkage in given], ("linkages",))
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
    found = [_linkage(inside, linkage, ("linkages", i), symbols, T, free, p) for i, linkage in enumerate(given)]
    return tuple(linkage for linkage in found if linkage is not None)


def _linkage(reader: Reader, given: parts.Linkage, path: KeyPath, symbols: dict[tuple[int, At], ca.SX], T: ca.SX,
             free: Sequence[int], p: ca.SX) -> Linkage | None:
    value = reader.column(given.expression, (*path, "expression"))
    if value is None:
        return None
    used = [end for end, x in symbols.items() if ca.depends_on(value, x)]
    if not used and not any(ca.depends_on(value, T[i]) for i in free):
        reader.findings.add((*path, "expression"),
                            "depends on no end of a phase and on no free duration: use start[...], final[...] or duration")
        return None
    used = used or [next(iter(symbols))]  # durations alone: some state must be there all the same
    parameters = tuple(q.name for i, q in enumerate(reader.parameters) if ca.depends_on(value, p[i]))
    size = value.numel()
    if given.equal is not None:
        lower = upper = reader.vector(given.equal, size, (*path, "equal"), "components")
    else:
        lower = (-INF,) * size if given.lower is None else reader.vector(given.lower, size, (*path, "lower"), "components", -INF)
        upper = (INF,) * size if given.upper is None else reader.vector(given.upper, size, (*path, "upper"), "components", INF)
        for i, (low, high) in enumerate(zip(lower, upper, strict=True)):
            if low > high:
                reader.findings.add(path, f"lower ({low:g}) is above upper ({high:g}){f' in component {i}' if size > 1 else ''}")
    chosen = ca.vertcat(ca.SX(0, 1), *(p[i] for i, q in enumerate(reader.parameters) if q.name in parameters))
    function = ca.Function("linkage", [*(symbols[end] for end in used), T, chosen], [ca.densify(value)])
    return Linkage(given.name, tuple(used), function, tuple(lower), tuple(upper), parameters, reader.findings.source.where(path))
