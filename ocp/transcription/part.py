"""What every piece of a program is made of: blocks, linear rows, bounds and names; and how pieces are stacked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import casadi as ca
import numpy as np
import scipy.sparse as sp

from ocp.problem import Phase, Problem
from ocp.transcription.blocks import Block, BlockFunctions, vector
from ocp.transcription.charts import Form, form
from ocp.transcription.conditions import Rows
from ocp.transcription.layout import Layout, phase_layout
from ocp.transcription.mesh import Discretisation
from ocp.transcription.shared import Shared, shared_unknowns


@dataclass(frozen=True, eq=False)
class Part:
    """Rows ``lower <= linear x + sum of blocks <= upper`` with names, and costs; block matrices count rows from the part's first.

    external: functions of blocks that are not differentiated from expressions, by the name of the block.
    """

    linear: sp.csr_matrix
    blocks: tuple[Block, ...]
    lower: np.ndarray
    upper: np.ndarray
    names: tuple[str, ...]
    external: dict[str, BlockFunctions] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Place:
    """A phase on its way into a program: where its unknowns lie. ``first``: the first shared column; ``n``: all columns."""

    problem: Problem
    number: int
    form: Form
    layout: Layout
    shared: Shared
    first: int
    n: int

    @property
    def phase(self) -> Phase:
        return self.problem.phases[self.number]

    @property
    def prefix(self) -> str:
        """What names of the phase begin with, where there are several."""
        return f"{self.phase.name}: " if len(self.problem.phases) > 1 else ""


def located(problem: Problem, meshes: Sequence[Discretisation], states: str,
            centres: Sequence[np.ndarray] | None = None) -> tuple[Place, ...]:
    """Where the unknowns of all phases lie. states: their form, see ``charts.form``; centres: see ``phase_layout``."""
    shared = shared_unknowns(problem)
    forms = [form(phase.system.space, states) for phase in problem.phases]
    layouts: list[Layout] = []
    first = 0
    for i, (phase, mesh) in enumerate(zip(problem.phases, meshes, strict=True)):
        prefix = f"{phase.name}: " if len(problem.phases) > 1 else ""
        layouts.append(phase_layout(phase, mesh, forms[i], first, prefix, None if centres is None else centres[i]))
        first += layouts[-1].count
    return tuple(Place(problem, i, forms[i], layouts[i], shared, first, first + shared.count) for i in range(len(layouts)))


def stacked(parts: Sequence[Part], n: int) -> Part:
    """One part out of several, rows one after another."""
    total, above = sum(part.rows for part in parts), 0
    blocks: list[Block] = []
    external: dict[str, BlockFunctions] = {}
    for part in parts:
        for block in part.blocks:
            matrix = sp.csr_matrix(block.matrix)
            below = total - above - matrix.shape[0]
            starts = np.concatenate([np.zeros(above, dtype=int), matrix.indptr, np.full(below, matrix.nnz)])
            padded = sp.csr_matrix((matrix.data, matrix.indices, starts), shape=(total, matrix.shape[1]))
            blocks.append(replace(block, matrix=padded))
        external |= part.external
        above += part.rows
    linear = sp.vstack([sp.csr_matrix((0, n)), *(part.linear for part in parts)], format="csr")
    return Part(linear, tuple(blocks), np.concatenate([np.zeros(0), *(part.lower for part in parts)]),
                np.concatenate([np.zeros(0), *(part.upper for part in parts)]), sum((part.names for part in parts), ()), external)


def columns_of(index: np.ndarray, n: int) -> sp.csr_matrix:
    """The matrix [len(index), n] that picks these columns out of the unknowns."""
    index = np.asarray(index).ravel()
    return sp.csr_matrix((np.ones(len(index)), (np.arange(len(index)), index)), shape=(len(index), n))


def join(kind: Any, rows: Sequence[Rows]) -> Rows:
    """Rows one after another."""
    return Rows(vector(kind, *(r.expression for r in rows)), sum((r.lower for r in rows), ()), sum((r.upper for r in rows), ()),
                sum((r.names for r in rows), ()))


def graph_kind(system: Any) -> Any:
    """SX, or MX where functions bring derivatives along: a scalar graph would swallow those."""
    return ca.SX if system.derivatives == "ad" else ca.MX
