"""Arguments of the loops of inverse kinematics: an evaluator, weights, limits and work arrays; and the result of a descent."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

CONVERGED, STATIONARY, EXHAUSTED, FAILED = 0, 1, 2, 3


class Evaluator(NamedTuple):
    """The kernel (q, d, p) -> (q_next, e, J) of a task list, with pointers and work arrays of one thread, and its targets p."""

    address: int
    handle: int
    arg: np.ndarray
    res: np.ndarray
    iw: np.ndarray
    w: np.ndarray
    p: np.ndarray


class Weights(NamedTuple):
    """root [m]: square roots of the row weights. starts [tasks + 1]: first row of each task. tolerance [tasks]: norm of the raw
    error."""

    root: np.ndarray
    starts: np.ndarray
    tolerance: np.ndarray


class Trace(NamedTuple):
    """A descent: q [nq] where it ended, the accepted configurations path [steps + 1, nq], and their costs, -1 where unused."""

    q: np.ndarray
    path: np.ndarray
    costs: np.ndarray


class Box(NamedTuple):
    """Limits lower, upper [nv] of flat coordinates and where each sits in q (at [nv], -1: not flat, no limits)."""

    lower: np.ndarray
    upper: np.ndarray
    at: np.ndarray


class Work(NamedTuple):
    """Work arrays of a quadratic program over a box of at most m unknowns: L [m, m] a Cholesky factor; gradient, step,
    move [m]; free [m]: unknowns that no bound holds, ascending."""

    L: np.ndarray
    gradient: np.ndarray
    step: np.ndarray
    move: np.ndarray
    free: np.ndarray


def work_for(m: int) -> Work:
    """Zeros of the right sizes."""
    return Work(np.zeros((m, m)), np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(m, dtype=np.int64))


class Scratch(NamedTuple):
    """Work arrays of one thread for one robot and task list."""

    q: np.ndarray
    q_next: np.ndarray
    e: np.ndarray
    e_next: np.ndarray
    Jt: np.ndarray
    Jt_next: np.ndarray
    H: np.ndarray
    damped: np.ndarray
    g: np.ndarray
    d: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    qp: Work


def scratch(nq: int, nv: int, m: int) -> Scratch:
    """Fresh work arrays."""
    z = np.zeros
    return Scratch(z(nq), z(nq), z(m), z(m), z((nv, m)), z((nv, m)), z((nv, nv)), z(nv * nv), z(nv), z(nv), z(nv), z(nv),
                   work_for(nv))
