"""The stages of a multiple-shooting program, for solvers that use them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ocp.nlp import Stages
from ocp.transcription.mesh import Grid, Mesh
from ocp.transcription.part import Place


def stages(located: Sequence[Place], meshes: Sequence[Mesh | Grid], variables: Sequence[str], rows: Sequence[str]) -> Stages | None:
    """States, controls and rows of the stages of a program with one shooting phase and nothing shared; None of any other."""
    if len(located) != 1 or located[0].shared.count or not isinstance(meshes[0], Grid) or meshes[0].linear:
        return None
    place, N = located[0], meshes[0].intervals
    if place.problem.linkages:
        return None
    size = place.form.size
    path: list[list[int]] = [[] for _ in range(N + 1)]
    for i, name in enumerate(rows[N * size:], start=N * size):
        at = name.rsplit(" @ ", 1)[-1] if " @ " in name else ("start" if name.startswith("start value") else "final")
        if at == "whole phase":
            return None
        path[0 if at == "start" else N if at == "final" else int(at.removeprefix("knot "))].append(i)
    return Stages(states=tuple(place.layout.states), controls=(*place.layout.controls, np.zeros(0, dtype=int)),
                  dynamics=tuple(np.arange(N * size).reshape(N, size)), path=tuple(np.array(p, dtype=int) for p in path))
