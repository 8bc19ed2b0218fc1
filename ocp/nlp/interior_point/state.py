"""The iterate of the interior-point method and what it works in."""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.kernels.record import Record

Array = np.ndarray

#: values of ``status``
RUNNING, CONVERGED, STALLED, INFEASIBLE, LIMITED, NOT_A_NUMBER, FAILED, NO_ROOM, DIVERGED = range(9)
#: columns of the log
LOG = ("objective", "inf_pr", "inf_du", "mu", "d_norm", "alpha_pr", "alpha_du", "regularization", "complementarity")


class State(Record):
    """Everything scaled: ``f`` by scale_f, row i by scale[i].

    x [n], s [m] (slacks of inequalities), y [m], zl, zu [n], vl, vu [m]: multipliers of bounds of x and s; d*: their steps
    xl, xu [n], sl, su [m]: bounds; free [n], equation [m]: 0 or 1; g, c [m]: rows and their residuals; gradient [n], J, H
    entries, rhs, step, residual: the linear system; first_step: the step that is being corrected
    slope [n]: of the Lagrangian without bounds
    x_trial, s_trial, g_trial, c_trial; reference, weights: of restorations; kept: of the watchdog; filter [:, 2]; log
    mu, tau: barrier parameter and the part of the way to a bound that a step may go; theta, phi, descent: violation, merit and its
    slope where a search starts, kept_* where the watchdog does; error, error_mu: of the problem and of the barrier problem;
    delta, delta_c: added to the diagonal; alpha, alpha_z: lengths of steps; cycles, f_cycles: of the processor, in functions
    filtered, rows: of filter and log in use; shortened, trusted: steps in a row that a search cut, that the watchdog let pass
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
    f: float
    scale_f: float
    mu: float
    tau: float
    tolerance: float
    error: float
    error_mu: float
    violation: float
    dual: float
    complementarity: float
    theta: float
    phi: float
    descent: float
    theta_max: float
    theta_min: float
    delta: float
    delta_last: float
    delta_c: float
    threshold: float
    alpha: float
    alpha_z: float
    step_size: float
    kept_theta: float
    kept_phi: float
    kept_slope: float
    kept_alpha: float
    cycles: float
    f_cycles: float
    status: int
    iteration: int
    limit: int
    rows: int
    filtered: int
    evaluations: int
    tiny_steps: int
    shortened: int
    trusted: int
    dependent: int
    ready: int
    warm: int


def make_state(n: int, m: int, nonzeros: tuple[int, int], iterations: int) -> State:
    """Arrays of a program of n unknowns and m rows; nonzeros: of Jacobian and Hessian."""
    j, h = nonzeros

    def of(size: int) -> Array:
        return np.zeros(size + 1)[:size]  # an array of length zero need not have an address

    columns = ("x", "zl", "zu", "dx", "dzl", "dzu", "xl", "xu", "gradient", "slope", "x_trial", "reference", "weights")
    whole = ("rhs", "step", "residual", "first_step")
    sizes = {"J": j, "H": h, "entries": h + j + n + m, "kept": 3 * n + 4 * m} | dict.fromkeys(columns, n) | dict.fromkeys(
        whole, n + m)
    special: dict[str, Array] = {
        "free": np.zeros(n, dtype=np.int64), "equation": np.zeros(m, dtype=np.int64), "filter": np.zeros((iterations + 2, 2)),
        "log": np.zeros((iterations + 2, len(LOG)))}

    def made(name: str, kind: str) -> Array | float:
        if kind != "Array":
            return 0.0 if kind == "float" else 0
        return special[name] if name in special else of(sizes.get(name, m))

    return State(*(made(name, kind) for name, kind in State.__annotations__.items()))


@linked
def assign(to: Array, values: Array) -> None:
    """to[:] = values, of the same length; such a slice would ask for memory, in case they overlap."""
    for i in range(to.shape[0]):
        to[i] = values[i]
