"""The iterate of the interior-point method and what it works in."""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.kernels.record import Record

Array = np.ndarray

#: entries of ``reals``
(MU, TAU, F, ERROR, ERROR_MU, VIOLATION, DUAL, COMPLEMENTARITY, THETA_MAX, THETA_MIN, DELTA_LAST, DELTA, DELTA_C, ALPHA, ALPHA_Z,
 STEP, F_TRIAL, TOLERANCE, SCALE_F, THETA, PHI, THRESHOLD, SLOPE, F_CYCLES, CYCLES, KEPT_THETA, KEPT_PHI,
 KEPT_SLOPE, KEPT_ALPHA, SIZE_R) = range(30)
#: entries of ``ints``
(ITERATION, FILTERED, STATUS, EVALUATIONS, FACTORISATIONS, TINY_STEPS, LIMIT, ROWS, RESTORATIONS, DEPENDENT, READY, WARM, SHORTENED,
 TRUSTED, SIZE_I) = range(15)
#: values of ``ints[STATUS]``
RUNNING, CONVERGED, STALLED, INFEASIBLE, LIMITED, NOT_A_NUMBER, FAILED, NO_ROOM, DIVERGED = range(9)
#: columns of the log
LOG = ("objective", "inf_pr", "inf_du", "mu", "d_norm", "alpha_pr", "alpha_du", "regularization", "complementarity")


class State(Record):
    """Everything scaled: ``f`` by reals[SCALE_F], row i by scale[i].

    x [n], s [m] (slacks of inequalities), y [m], zl, zu [n], vl, vu [m]: multipliers of bounds of x and s; d*: their steps
    xl, xu [n], sl, su [m]: bounds; free [n], equation [m]: 0 or 1; g, c [m]: rows and their residuals; gradient [n], J, H
    entries, rhs, step, residual: the linear system; first_step: the step that is being corrected
    slope [n]: of the Lagrangian without bounds
    x_trial, s_trial, g_trial, c_trial; reference, weights: of restorations; kept: of the watchdog; filter [:, 2]; log
    """

    x: Array
    s: Array
    y: Array
    zl: Array
    zu: Array
    vl: Array
    vu: Array
    dx: Array
    ds: Array
    dy: Array
    dzl: Array
    dzu: Array
    dvl: Array
    dvu: Array
    xl: Array
    xu: Array
    sl: Array
    su: Array
    free: Array
    equation: Array
    scale: Array
    g: Array
    c: Array
    gradient: Array
    J: Array
    H: Array
    entries: Array
    rhs: Array
    step: Array
    residual: Array
    first_step: Array
    slope: Array
    x_trial: Array
    s_trial: Array
    g_trial: Array
    c_trial: Array
    reference: Array
    weights: Array
    kept: Array
    filter: Array
    log: Array
    reals: Array
    ints: Array


def make_state(n: int, m: int, nonzeros: tuple[int, int], iterations: int) -> State:
    """Arrays of a program of n unknowns and m rows; nonzeros: of Jacobian and Hessian."""
    j, h = nonzeros

    def of(size: int) -> Array:
        return np.zeros(size + 1)[:size]  # an array of length zero need not have an address

    columns = ("x", "zl", "zu", "dx", "dzl", "dzu", "xl", "xu", "gradient", "slope", "x_trial", "reference", "weights")
    whole = ("rhs", "step", "residual", "first_step")
    sizes = {"J": j, "H": h, "entries": h + j + n + m, "kept": 3 * n + 4 * m} | dict.fromkeys(columns, n) | dict.fromkeys(
        whole, n + m)
    special = {"free": np.zeros(n, dtype=np.int64), "equation": np.zeros(m, dtype=np.int64), "filter": np.zeros((iterations + 2,
                                                                                                                 2)),
               "log": np.zeros((iterations + 2, len(LOG))), "reals": np.zeros(SIZE_R), "ints": np.zeros(SIZE_I, dtype=np.int64)}
    return State(*(special[name] if name in special else of(sizes.get(name, m)) for name in State.__annotations__))


@linked
def assign(to: Array, values: Array) -> None:
    """to[:] = values, of the same length; such a slice would ask for memory, in case they overlap."""
    for i in range(to.shape[0]):
        to[i] = values[i]
