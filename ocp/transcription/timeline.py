"""The timeline of unknowns of a program, for solvers that work stage by stage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ocp.nlp import Timeline
from ocp.transcription.mesh import Discretisation, Grid
from ocp.transcription.motion import by_motion
from ocp.transcription.part import Columns


def timeline(placed: Sequence[Columns], meshes: Sequence[Discretisation], defects: Sequence[int],
             passages: Sequence[int]) -> Timeline:
    """Knots and intervals of all phases one after another; between two phases lies an interval without unknowns of its own.

    defects: for each phase its first row, with which the defects begin; passages: the first row of each passage. Multiple shooting
    in coordinates has its dynamics explicit.
    """
    knots: list[np.ndarray] = []
    inner: list[np.ndarray] = []
    for place, mesh in zip(placed, meshes, strict=True):
        inner += [np.zeros(0, dtype=int)] if knots else []
        own = _phase(place, mesh)
        knots += own[::2]
        moved = place.layout.inside
        inner += [np.concatenate([a, b]) for a, b in zip(own[1::2], moved, strict=True)] if moved else own[1::2]
    first = placed[0].first
    static = np.arange(first, first + placed[0].static.count)
    return Timeline(tuple(knots), tuple(inner), static, _dynamics(placed, meshes, defects, passages))


def _phase(cols: Columns, mesh: Discretisation) -> list[np.ndarray]:
    """Columns of knot 0, inside interval 0, of knot 1, ...: states, then controls, then algebraic unknowns inside an interval.

    A control at a knot that both of its intervals use belongs to the knot.
    """
    layout, N = cols.layout, mesh.intervals
    first, last = mesh.spans
    both = np.concatenate([[0], np.maximum(0, last[:-1] + 1 - first[1:]), [0]])  # points of two intervals, by knots
    counts = np.zeros((3, 2 * N + 1), dtype=int)  # of nodes, points and stages in each group
    counts[0, ::2], counts[0, 1::2] = 1, np.diff(mesh.knots) - 1
    counts[1, ::2], counts[1, 1::2] = both, last + 1 - first - both[:-1] - both[1:]
    counts[2, 1::2] = 1
    groups, columns = np.arange(2 * N + 1), (layout.states, layout.controls, layout.stages)
    group = np.concatenate([np.repeat(groups, own * part.shape[1]) for own, part in zip(counts, columns, strict=True)])
    order = np.argsort(group, kind="stable")
    flat = np.concatenate([part.ravel() for part in columns])[order]
    ends = np.cumsum([part.shape[1] for part in columns] @ counts).tolist()
    return [flat[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def _dynamics(placed: Sequence[Columns], meshes: Sequence[Discretisation], defects: Sequence[int],
              passages: Sequence[int]) -> tuple[np.ndarray, ...]:
    flat = all(isinstance(mesh, Grid) and not mesh.linear and not by_motion(place.phase.system, mesh)
               for place, mesh in zip(placed, meshes, strict=True)) and (
        len(placed) == 1 or not any(place.form.tangent or place.form.space.quaternions for place in placed))
    if not flat:
        return ()
    found: list[np.ndarray] = []
    for number, (place, mesh) in enumerate(zip(placed, meshes, strict=True)):
        size = place.form.size
        if number:
            found.append(passages[number - 1] + np.arange(size))
        found += list(defects[number] + np.arange(mesh.intervals * size).reshape(-1, size))
    return tuple(found)
