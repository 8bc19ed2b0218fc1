"""The ways that are compiled loops over the Model: how long they take where solvers call them, inside compiled code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dynamics.loops.tables import make_tables
from dynamics.model.model import Model
from ocp.app.derivatives import stopwatch
from ocp.app.derivatives.points import Point
from ocp.app.derivatives.stopwatch import Run

Array = np.ndarray


def loop_run(model: Model, function: str, point: Point) -> tuple[Run, int, int]:
    """(evaluations in a compiled loop, bytes of tables and work arrays, bytes of the result)."""
    tables, n = make_tables(model), model.nv
    start = tables.integers, tables.reals, tables.workspace()
    q, v, a, tau, lam, mu = (np.ascontiguousarray(x, float) for x in (point.q, point.v, point.a, point.tau, point.lam, point.mu))
    none = np.zeros((0, 6))

    def zeros(*shape: int) -> Array:
        return np.zeros(shape)

    known: dict[str, tuple[Callable[..., None], tuple[Array, ...], int]] = {
        "inverse_dynamics": (stopwatch.inverse_dynamics, (q, v, a, none, zeros(n)), 1),
        "forward_dynamics": (stopwatch.forward_dynamics, (q, v, tau, none, zeros(n)), 1),
        "inverse_first": (stopwatch.inverse_first, (q, v, a, none, zeros(3, n, n)), 1),
        "forward_first": (stopwatch.forward_first, (q, v, tau, none, zeros(n), zeros(3, n, n)), 2),
        "inverse_contracted": (stopwatch.inverse_contracted, (q, v, a, lam, none, zeros(4, n, n)), 1),
        "forward_contracted": (stopwatch.forward_contracted, (q, v, tau, mu, none, zeros(n), zeros(3, n, n), zeros(n),
                                                              zeros(4, n, n), zeros(4, n, n)), 1),
    }
    if function == "inverse_second":  # the tensor is large: made only when asked for
        known[function] = (stopwatch.inverse_second, (q, v, a, none, zeros(n), zeros(n, 4, n, n)), 1)
    if function == "forward_second":
        known[function] = (stopwatch.forward_second, (q, v, tau, np.eye(n), none, zeros(n), zeros(3, n, n), zeros(n),
                                                      zeros(4, n, n), zeros(n, 4, n, n)), 1)
    loop, arrays, results = known[function]
    result = sum(x.nbytes for x in arrays[-results:])
    given = sum(x.nbytes for x in (q, v, tau))
    work = sum(x.nbytes for x in (*start, *arrays)) - result - given
    return (lambda count: loop(count, *start, *arrays)), work, result
