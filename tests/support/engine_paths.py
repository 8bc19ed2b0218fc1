"""A prepared problem on a path of one's own: rolled out and expanded by the compiled loops, without a search."""

from __future__ import annotations

import numpy as np

from ocp.shooting.engine import records
from ocp.shooting.engine.expansion import expand
from ocp.shooting.engine.rollout import rollout
from ocp.shooting.ilqr import prepare
from ocp.shooting.written_guess import write_guess


def on_path(problem, options, u=None, x=None):
    """(program, store) with controls u [S, m], those of the guess if None, and, where gaps are wanted, states x [S+1, nx]; the
    path is evaluated and expanded."""
    program = prepare(problem, options)
    store = program.store
    records.reset(store, options)
    given, _ = write_guess(program.horizon, options, store.path)
    if u is not None:
        store.path.u[:, :np.shape(u)[1]] = u
    if x is not None:
        store.path.x[:, :np.shape(x)[1]] = x
    assert rollout(store, given or x is not None)[1] == -1
    assert expand(store) == -1
    return program, store


def symmetric(lower):
    """The symmetric matrices whose lower triangles are given, anything above."""
    lower = np.tril(lower)
    return lower + np.swapaxes(np.tril(lower, -1), -1, -2)


def blocks(store, k, n, m):
    """The model of knot k without padding: g [n+m], F [n', n+m], H [n+m, n+m]."""
    model = store.model
    size = n + m
    after = int(model.n[k + 1]) if k + 1 < len(model.n) else 0
    F = model.F[k, :after, :size].copy() if after else np.zeros((0, size))
    return model.g[k, :size].copy(), F, symmetric(model.H[k, :size, :size])
