"""From blocks to a partially separable program: where the numbers of every element go, by index arithmetic alone.

Everything here is counting: no CasADi expression is made, and no function of the whole program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import casadi as ca
import numpy as np

from ocp.nlp.ordered import ordered, starts
from ocp.nlp.separable import Element, Gather, Matrix, Separable
from ocp.transcription.blocks import Block, BlockFunctions, has_cost
from ocp.transcription.mesh import Table

Array = np.ndarray


def separable(linear: Table, blocks: Sequence[Block], functions: Sequence[BlockFunctions], gauss_newton: bool = False) -> Separable:
    """The program with the linear part [m, n] and these blocks, by its elements.

    gauss_newton: whether that Hessian is wanted.
    """
    m, n = linear.shape
    elements = tuple(Element(
        block.name, np.ascontiguousarray(block.index, dtype=np.int64), np.ascontiguousarray(block.values, dtype=float),
        np.asarray(block.weight, dtype=float), block.size, own.cost, own.rows, own.gradient, own.jacobian, own.hessian,
        own.gauss_newton, own.batched, has_cost(block), own.keep) for block, own in zip(blocks, functions, strict=True))
    patterns = [own.gauss_newton_pattern for own in functions]
    keys, order = ordered(linear.rows)
    by_rows = starts(keys, m), linear.columns[order].astype(np.int64), linear.values[order]
    return Separable(
        n, m, elements, by_rows, _rows(m, blocks), _jacobian(linear, blocks, functions),
        _upper(n, blocks, [own.hessian_pattern for own in functions]), _upper(n, blocks, patterns) if gauss_newton else None)


def _rows(m: int, blocks: Sequence[Block]) -> Gather:
    rows, sources, weights, first = [], [], [], 0
    for block in blocks:
        rows.append(block.matrix.rows)
        sources.append(first + block.matrix.columns)
        weights.append(block.matrix.values)
        first += block.count * block.size
    keys, order = ordered(_joined(rows))
    return Gather(starts(keys, m), _joined(sources)[order], _joined(weights, float)[order], np.zeros(m))


def _jacobian(linear: Table, blocks: Sequence[Block], functions: Sequence[BlockFunctions]) -> Matrix:
    """Entry (y, c) of dy/dv at point j adds to every constraint that row y of point j enters, at the column index[j, c]."""
    rows, columns, sources, weights, first = [], [], [], [], 0
    for block, own in zip(blocks, functions, strict=True):
        r, c = triplet(own.jacobian_pattern)
        entries = block.matrix
        if len(r) and len(entries.rows):
            by_row = ordered(r)[1]
            start = starts(r[by_row], block.size)
            place, y = np.divmod(entries.columns, block.size)
            many = np.diff(start)[y]
            # the nonzeros of row y, for each entry of the matrix that takes this row
            within = np.arange(int(many.sum())) + np.repeat(start[y] - np.cumsum(many) + many, many)
            entry, place = by_row[within], np.repeat(place, many)
            rows.append(np.repeat(entries.rows, many))
            columns.append(block.index[place, c[entry]])
            sources.append(first + place * len(r) + entry)
            weights.append(np.repeat(entries.values, many))
        first += block.count * len(r)
    return matrix(linear.shape, _joined(rows), _joined(columns), _joined(sources), _joined(weights, float), linear)


def _upper(n: int, blocks: Sequence[Block], patterns: Sequence[ca.Sparsity | None]) -> Matrix:
    """Entries of the upper triangles of the elements' Hessians in the upper triangle of the whole."""
    rows, columns, weights = [], [], []
    for block, pattern in zip(blocks, patterns, strict=True):
        if pattern is None:
            continue
        r, c = triplet(pattern)
        one, other = block.index[:, r], block.index[:, c]
        rows.append(np.minimum(one, other).ravel())
        columns.append(np.maximum(one, other).ravel())
        # two unknowns of an element that are one of the program: what is off the diagonal here stands on it there, twice
        weights.append(np.where((one == other) & (r != c), 2.0, 1.0).ravel())
    total = _joined(rows)
    none = np.zeros(0, dtype=np.int64)
    return matrix((n, n), total, _joined(columns), np.arange(len(total)), _joined(weights, float),
                  Table(none, none, np.zeros(0), (n, n)))


def matrix(shape: tuple[int, int], rows: Array, columns: Array, sources: Array, weights: Array, constant: Table) -> Matrix:
    """The sparse matrix of ``constant`` entries and of ``weights * entries[sources]`` at (rows, columns).

    Several at one position are added up, in their order. Entries lie column by column, as CasADi stores them.
    """
    height, fixed = max(shape[0], 1), len(constant.rows)
    keys, order = ordered(_joined([constant.columns * height + constant.rows, columns * height + rows]))
    new = np.ones(len(keys), dtype=bool)
    new[1:] = keys[1:] != keys[:-1]
    column, row = np.divmod(keys[new], height)
    place, given = np.cumsum(new) - 1, order >= fixed
    known = ~given
    base = np.bincount(place[known], constant.values[order[known]], len(row)).astype(float)
    place, order = place[given], order[given]
    chosen = order - fixed
    return Matrix(starts(column, shape[1]), row, Gather(starts(place, len(row)), sources[chosen], weights[chosen], base))


def triplet(pattern: ca.Sparsity) -> tuple[Array, Array]:
    """Rows and columns of the nonzeros of a pattern."""
    rows, columns = pattern.get_triplet()
    return np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64)


def _joined(parts: Sequence[Array], kind: Any = np.int64) -> Array:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=kind)
