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
    """Everything scaled: ``f`` by scale_f, constraint i by scale[i].

    w = (x [n], s [m]): unknowns and slacks of inequalities; y [m]; zl, zu [n + m]: multipliers of the bounds of w; d*: their steps
    lower, upper [n + m]: bounds; free [n + m]: 0 where an unknown is fixed and where a row is an equation, whose slack is none
    g, c [m]: rows and their residuals; gradient [n], J, H; lagrangian_gradient [n]: of the Lagrangian without bounds
    entries, rhs, step, residual: the linear system; first_step: the step that is being corrected
    w_trial = (x_trial, s_trial), g_trial, c_trial; reference, weights: of restorations; saved: of the watchdog; filter [:, 2]; log
    mu, tau: barrier parameter and the part of the way to a bound that a step may go; theta, phi, descent: violation, merit and its
    gradient where a search starts, kept_* where the watchdog does; error, error_mu: of the problem and of the barrier problem;
    delta, delta_c: added to the diagonal; alpha, alpha_z: lengths of steps; cycles, f_cycles: of the processor, in functions
    filtered, rows: of filter and log in use; shortened, trusted: steps in a row that a search cut, that the watchdog let pass
    """

    w: Array
    x: Array
    s: Array
    y: Array
    zl: Array
    zu: Array
    dw: Array
    dy: Array
    dzl: Array
    dzu: Array
    lower: Array
    upper: Array
    free: Array
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
    lagrangian_gradient: Array
    w_trial: Array
    x_trial: Array
    s_trial: Array
    g_trial: Array
    c_trial: Array
    reference: Array
    weights: Array
    saved: Array
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
    saved_descent: float
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

    w, w_trial = of(n + m), of(n + m)
    whole = ("zl", "zu", "dw", "dzl", "dzu", "lower", "upper", "rhs", "step", "residual", "first_step")
    sizes = {"J": j, "H": h, "entries": h + j + n + m, "saved": 3 * n + 4 * m} | dict.fromkeys(whole, n + m) | dict.fromkeys(
        ("gradient", "lagrangian_gradient", "reference", "weights"), n)
    special: dict[str, Array] = {
        "w": w, "x": w[:n], "s": w[n:], "w_trial": w_trial, "x_trial": w_trial[:n], "s_trial": w_trial[n:],
        "free": np.zeros(n + m, dtype=np.int64), "filter": np.zeros((iterations + 2, 2)),
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
