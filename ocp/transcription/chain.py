"""The chain of unknowns of a program, for solvers that work stage by stage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ocp.nlp import Chain
from ocp.transcription.mesh import Discretisation, Grid
from ocp.transcription.part import Place


def chain(placed: Sequence[Place], meshes: Sequence[Discretisation], rows: Sequence[str]) -> Chain:
    """Knots and intervals of all phases one after another; between two phases lies an interval without unknowns of its own.

    rows: names of the rows of the program. Multiple shooting in coordinates has its dynamics explicit.
    """
    knots: list[np.ndarray] = []
    inner: list[np.ndarray] = []
    for place, mesh in zip(placed, meshes, strict=True):
        inner += [np.zeros(0, dtype=int)] if knots else []
        own = _phase(place, mesh)
        knots += own[0]
        inner += own[1]
    first = placed[0].first
    return Chain(tuple(knots), tuple(inner), np.arange(first, first + placed[0].shared.count), _dynamics(placed, meshes, rows))


def _phase(place: Place, mesh: Discretisation) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Columns of each knot and inside each interval. A control at a knot that both of its intervals use belongs to the knot."""
    layout, N = place.layout, mesh.intervals
    states, controls = layout.states, layout.controls
    ends = [(k, k + int(mesh.linear)) if isinstance(mesh, Grid) else (int(mesh.point(k)[0]), int(mesh.point(k)[-1]))
            for k in range(N)]
    shared = [0, *(max(0, before[1] + 1 - after[0]) for before, after in zip(ends[:-1], ends[1:], strict=True)), 0]  # points
    knots, inner = [], []
    for k, j in enumerate(mesh.knots.tolist()):
        first = ends[k][0] if k < N else 0
        knots.append(np.concatenate([states[j], controls[first:first + shared[k]].ravel()]))
        if k < N:
            own = controls[first + shared[k]:ends[k][1] + 1 - shared[k + 1]]
            inner.append(np.concatenate([states[j + 1:mesh.knots[k + 1]].ravel(), own.ravel()]))
    return knots, inner


def _dynamics(placed: Sequence[Place], meshes: Sequence[Discretisation], rows: Sequence[str]) -> tuple[np.ndarray, ...]:
    flat = all(isinstance(mesh, Grid) and not mesh.linear for mesh in meshes) and (
        len(placed) == 1 or not any(place.form.tangent or place.form.space.quaternions for place in placed))
    if not flat:
        return ()
    places = {name: i for i, name in enumerate(rows)}
    found: list[np.ndarray] = []
    for number, (place, mesh) in enumerate(zip(placed, meshes, strict=True)):
        if number:
            before = placed[number - 1].phase.name
            found.append(np.array([places[f"{before} to {place.phase.name} {name} @ passage"] for name in place.form.names]))
        found += [np.array([places[f"{place.prefix}defect {name} @ interval {k}"] for name in place.form.names])
                  for k in range(mesh.intervals)]
    return tuple(found)
