"""Hermite-Simpson in compressed form: the states at midpoints follow from the ends and are no unknowns.

    y_m = (y_a + y_b) / 2 + h / 8 (f_a - f_b),      y_b - y_a = h / 6 (f_a + 4 f_m + f_b)

Half the states and half the defects of the separated form, with the same solutions; functions are nested and cost about twice as
much. Kelly 2017, SIAM Review 59(4), Sec. 4; Betts 2010, Practical Methods for Optimal Control, Sec. 4.5 (which form pays when).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from ocp.nlp.names import Names
from ocp.problem import At
from ocp.spaces import Expr
from ocp.transcription.blocks import Block, vector
from ocp.transcription.conditions import Rows, cost_value, gauss_newton, hard_rows
from ocp.transcription.evaluation import WHOLE, coordinate_bounds, integral_rows
from ocp.transcription.intervals import charged, picks
from ocp.transcription.mesh import Compressed
from ocp.transcription.part import Columns, Part, graph_kind, join, nothing
from ocp.transcription.static_unknowns import Clock, clock

SIMPSON = (1 / 6, 4 / 6, 1 / 6)


def compressed_part(cols: Columns, mesh: Compressed) -> Part:
    """Defects, running costs and path constraints at midpoints of one phase; those at knots: ``intervals.path_part``."""
    block, path = interval_block(cols, mesh)
    N, size, integrals = mesh.intervals, cols.form.size, integral_rows(cols.phase)
    inner, whole = len(path.names), len(integrals.names)
    total = N * (size + inner) + whole
    spans = ((0, size, False), (size, size + inner, False), (size + inner, block.size, True))
    matched = replace(block, matrix=picks(N, block.size, spans, total))

    def names() -> list[str]:
        found = [f"{cols.prefix}defect {name} @ interval {k}" for k in range(N) for name in cols.form.names]
        found += [f"{cols.prefix}{name} @ midpoint {k}" for k in range(N) for name in path.names]
        return found + [f"{cols.prefix}{name}{WHOLE}" for name in integrals.names]

    lower, upper = (np.concatenate([np.zeros(N * size), np.tile(inside, N), over])
                    for inside, over in ((path.lower, integrals.lower), (path.upper, integrals.upper)))
    return Part(nothing(total, cols.n), (matched,), lower, upper, Names(total, names), defects=N * size)


def interval_block(cols: Columns, mesh: Compressed) -> tuple[Block, Rows]:
    """The function of an interval: rows [defect; path constraints at the midpoint; integrals], cost = its running cost."""
    phase = cols.phase
    v, data, own, width, points, defect, _ = _interval(cols, mesh)
    pieces, smooth, integrals = charged(phase, type(v), [(weight * width, at) for weight, at in zip(SIMPSON, points, strict=True)])
    cost = sum((scale * cost_value(item, here) for item, here, scale in pieces), start=type(v)(0))
    path = join(type(v), [*(hard_rows(c, points[1]) for c in phase.constraints if c.at is At.PATH and c.soft is None),
                          *coordinate_bounds(cols, points[1][1])])
    N, layout = mesh.intervals, cols.layout
    index = cols.index(own, layout.states[:-1], layout.states[1:], layout.controls[mesh.points].reshape(N, -1))
    values = own.beside(mesh.edges[:-1], np.diff(mesh.edges), cols.centres(mesh.knots[:-1]), cols.centres(mesh.knots[1:]))
    block = Block(
        name=f"interval_{cols.number}", v=v, data=data, cost=cost + smooth,
        rows=vector(type(v), defect, path.expression, integrals), index=index, values=values, weight=np.ones(N),
        matrix=nothing(0, 0),
        gauss_newton=lambda: gauss_newton(pieces, smooth, v))
    return block, path


def middle(cols: Columns, mesh: Compressed) -> ca.Function:
    """(v, data) -> states at the midpoint [nx], and rates by time at start, midpoint and end [size, 3]."""
    v, data, _, width, points, _, rates = _interval(cols, mesh)
    return ca.Function("middle", [v, data], [points[1][1], ca.horzcat(*rates) / width])


def _interval(cols: Columns, mesh: Compressed) -> tuple[Expr, Expr, Clock, Expr, list[Any], Expr, list[Expr]]:
    """(unknowns, data, clock, length [s], arguments at start, midpoint and end, defect, scaled rates there)."""
    phase, form = cols.phase, cols.form
    kind = graph_kind(phase.system)
    z = [kind.sym(f"z_{i}", form.size) for i in "ab"]
    centres = [kind.sym(f"centre_{i}", form.centre_size) for i in "ab"]
    nu = phase.system.nu
    u = [kind.sym(f"u_{i}", nu) for i in "amb"]
    tau, width = kind.sym("tau"), kind.sym("width")
    own = clock(kind, cols.problem, cols.number, cols.static)
    a, b = (form.state(one, centre) for one, centre in zip(z, centres, strict=True))
    chart, h = centres[0], own.T * width
    t = [own.start + own.T * (tau + part * width) for part in (0.0, 0.5, 1.0)]

    def rate(i: int, x: Expr) -> Expr:
        return form.rate(x, phase.system.rate(t[i], x, u[i], own.p), chart, h, share=width)

    seen = [form.space.minus(chart, x) if form.tangent else x for x in (a, b)]
    f_a, f_b = rate(0, a), rate(2, b)
    y_m = (seen[0] + seen[1]) / 2 + (f_a - f_b) / 8
    m = form.space.plus(chart, y_m) if form.tangent else y_m
    f_m = rate(1, m)
    defect = seen[1] - seen[0] - (f_a + 4 * f_m + f_b) / 6
    points = [(t[i], x, u[i], own.p) for i, x in enumerate((a, m, b))]
    v = vector(kind, *z, *u, own.variable)
    return v, vector(kind, tau, width, *centres, own.data), own, h, points, defect, [f_a, f_m, f_b]
