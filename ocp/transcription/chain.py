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
    points = [np.arange(k, k + 1 + int(mesh.linear)) if isinstance(mesh, Grid) else np.asarray(mesh.point(k)) for k in range(N)]
    shared = [np.intersect1d(points[k - 1], points[k]) for k in range(1, N)]
    at_knot = [np.zeros(0, dtype=int), *shared, np.zeros(0, dtype=int)]
    knots = [np.r_[layout.states[j], layout.controls[p].ravel()].astype(int) for j, p in zip(mesh.knots, at_knot, strict=True)]
    inner = []
    for k in range(N):
        nodes = np.arange(mesh.knots[k] + 1, mesh.knots[k + 1])
        own = np.setdiff1d(points[k], np.r_[at_knot[k], at_knot[k + 1]])
        inner.append(np.r_[layout.states[nodes].ravel(), layout.controls[own].ravel()].astype(int))
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
