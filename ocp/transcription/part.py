"""Parts of a program: blocks, linear constraints, bounds and names; and how parts are stacked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import casadi as ca
import numpy as np

from ocp.nlp.names import Names
from ocp.problem import Phase, Problem
from ocp.transcription.blocks import Block, BlockFunctions, vector
from ocp.transcription.charts import Form, form
from ocp.transcription.conditions import Rows
from ocp.transcription.layout import Layout, phase_layout
from ocp.transcription.mesh import Discretisation, Table
from ocp.transcription.static_unknowns import Clock, StaticUnknowns, static_unknowns


@dataclass(frozen=True, eq=False)
class Part:
    """Rows ``lower <= linear x + sum of blocks <= upper`` with names, and costs; block matrices count rows from the part's first.

    defects: how many of the first rows are defects of the motion
    external: functions of blocks that are not differentiated from expressions, by the name of the block.
    """

    linear: Table
    blocks: tuple[Block, ...]
    lower: np.ndarray
    upper: np.ndarray
    names: Names
    external: dict[str, BlockFunctions] = field(default_factory=dict)
    defects: int = 0

    @property
    def rows(self) -> int:
        """Number of constraint components."""
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Columns:
    """A phase on its way into a program: where its unknowns lie. ``first``: the first static column; ``n``: all columns; reference:
    the phase whose numbers stand in the functions of the program, where these were made for another problem."""

    problem: Problem
    number: int
    form: Form
    layout: Layout
    static: StaticUnknowns
    first: int
    n: int
    reference: Phase | None = None

    @property
    def phase(self) -> Phase:
        """The phase of the part."""
        return self.problem.phases[self.number]

    @property
    def prefix(self) -> str:
        """Prefix of the names of the phase, where there are several."""
        return f"{self.phase.name}: " if len(self.problem.phases) > 1 else ""

    def index(self, own: Clock, *columns: np.ndarray) -> np.ndarray:
        """Columns [k, ..] of what a function stands at k times for, and behind them those of its static part."""
        static = self.first + np.array(own.columns, dtype=int)
        return np.column_stack([*columns, np.tile(static, (len(columns[0]), 1))]).astype(int)

    def centres(self, nodes: Any) -> np.ndarray:
        """Centres [k, ..] of the charts of nodes, of no width where unknowns are coordinates."""
        return self.layout.centres[nodes] if self.form.tangent else np.zeros((len(nodes), 0))


def located(problem: Problem, meshes: Sequence[Discretisation], states: str,
            centres: Sequence[np.ndarray] | None = None, before: Sequence[Columns] | None = None) -> tuple[Columns, ...]:
    """Where the unknowns of all phases lie. states: their form, see ``charts.form``; centres: see ``phase_layout``; before: the
    evaluation points of the problem whose functions serve this one, about whose centres tangent unknowns stand."""
    static = static_unknowns(problem)
    forms = [form(phase.system.space, states) for phase in problem.phases]
    layouts: list[Layout] = []
    first = 0
    for i, (phase, mesh) in enumerate(zip(problem.phases, meshes, strict=True)):
        prefix = f"{phase.name}: " if len(problem.phases) > 1 else ""
        layouts.append(phase_layout(phase, mesh, forms[i], first, prefix, None if centres is None else centres[i],
                                    before is not None))
        first += layouts[-1].count
    references = [None] * len(layouts) if before is None else [cols.phase for cols in before]
    return tuple(Columns(problem, i, forms[i], layouts[i], static, first, first + static.count, references[i])
                 for i in range(len(layouts)))


def stacked(parts: Sequence[Part], n: int) -> Part:
    """One part out of several, constraints one after another."""
    total = sum(part.rows for part in parts)
    blocks: list[Block] = []
    external: dict[str, BlockFunctions] = {}
    linear: list[Table] = []
    above = 0
    for part in parts:
        blocks += [replace(block, matrix=block.matrix.below(above, total)) for block in part.blocks]
        linear.append(part.linear.below(above, total))
        external |= part.external
        above += part.rows
    none = np.zeros(0, dtype=int)
    whole = Table(np.concatenate([none, *(one.rows for one in linear)]), np.concatenate([none, *(one.columns for one in linear)]),
                  np.concatenate([np.zeros(0), *(one.values for one in linear)]), (total, n))
    lower, upper = (np.concatenate([np.zeros(0), *bounds]) for bounds in ([p.lower for p in parts], [p.upper for p in parts]))
    return Part(whole, tuple(blocks), lower, upper, Names.joined([part.names for part in parts]), external)


def nothing(rows: int, columns: int) -> Table:
    """A matrix without entries."""
    none = np.zeros(0, dtype=int)
    return Table(none, none, np.zeros(0), (rows, columns))


def identity(size: int) -> Table:
    """The sparse identity matrix."""
    every = np.arange(size)
    return Table(every, every, np.ones(size), (size, size))


def join(kind: Any, rows: Sequence[Rows]) -> Rows:
    """Constraints one after another."""
    return Rows(vector(kind, *(r.expression for r in rows)), sum((r.lower for r in rows), ()), sum((r.upper for r in rows), ()),
                sum((r.names for r in rows), ()))


def graph_kind(system: Any) -> Any:
    """SX, or MX where functions bring derivatives along, which a scalar graph would swallow, or solve equations."""
    return ca.SX if system.derivatives == "ad" and system.rate.is_a("SXFunction") else ca.MX
