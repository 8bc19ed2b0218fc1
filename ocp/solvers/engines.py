"""Engines that look for the active set of a small dense program: OSQP and DAQP. Their answers are guesses only.

    minimise  1/2 x' P x + q' x   subject to   l <= A x <= u

Their status is not used: callers finish on the constraints that they found active, and check the result.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import osqp
import scipy.sparse as sp
from numpy.typing import NDArray

from ocp.errors import ProblemError

Array = NDArray[np.float64]

ENGINES = ("active_set", "osqp", "daqp")
_ENDLESS = 1e30  # what engines take for no end
_ADAPTS = 50  # iterations of OSQP between changes of its step size


@dataclass(frozen=True, eq=False)
class Dense:
    """Data of one program: P [n, n] positive semidefinite, q [n], A [m, n], l and u [m]; and where to start: x [n], y [m]."""

    P: Array
    q: Array
    A: Array
    l: Array
    u: Array
    x: Array
    y: Array


@dataclass(frozen=True, eq=False)
class Guess:
    """A point x [n] and multipliers y [m] (P x + q + A' y = 0, y > 0 at u), near the optimum; iterations of the engine."""

    x: Array
    y: Array
    iterations: int


class Engine(Protocol):
    """``guess`` is None where the engine returns nothing that is finite. short: soon, because a descent follows where it fails."""

    def guess(self, program: Dense, accuracy: float, short: bool = False) -> Guess | None:
        """An approximate solution and its active set, or None where the engine fails."""


@dataclass(eq=False)
class Osqp:
    """Workspaces that persist: every entry of P and A is stored, so that the pattern never changes, and sizes are rounded up
    (unknowns and rows that say nothing), because setting up a workspace takes longer than what it is for.

    The step size starts from the same value every time and changes at fixed iterations, so answers do not depend on what was
    solved before, nor on time. A claim that there is no solution is asked again without scaling (OSQP 1.1.3 makes it falsely).
    Where costs are flat and limits many, active sets are found ``soon`` or after thousands of iterations.
    """

    iterations: int = 4000
    soon: int = 25
    rho: float = 0.1
    _workspaces: dict[tuple[int, int, int], Any] = field(default_factory=dict)

    def guess(self, program: Dense, accuracy: float, short: bool = False) -> Guess | None:
        """An approximate solution and its active set, or None where the engine fails."""
        n, m, spent = program.q.size, program.l.size, 0
        padded = _padded(program)
        for scaling in (10, 0):
            solver = self._loaded(padded, scaling, accuracy, self.soon if short else self.iterations)
            solver.warm_start(x=padded.x, y=padded.y)
            answer = solver.solve(raise_error=False)
            spent += int(answer.info.iter)
            if answer.info.iter >= _ADAPTS:  # the next program begins as this one did
                solver.update_settings(rho=self.rho)
            named = answer.info.status_val in (osqp.SolverStatus.OSQP_SOLVED, osqp.SolverStatus.OSQP_SOLVED_INACCURATE,
                                               osqp.SolverStatus.OSQP_MAX_ITER_REACHED)
            if named and answer.x is not None and np.isfinite(answer.x).all() and np.isfinite(answer.y).all():
                return Guess(np.array(answer.x[:n], float), np.array(answer.y[:m], float), spent)
        return None

    def _loaded(self, program: Dense, scaling: int, accuracy: float, iterations: int) -> Any:
        n, m = program.q.size, program.l.size
        P, A = program.P[np.tril_indices(n)], program.A.ravel(order="F")  # P' by rows: the upper triangle by columns
        known = self._workspaces.get((n, m, scaling))
        if known is not None:
            known.update(q=program.q, l=program.l, u=program.u)
            known.update(Px=P, Ax=A)  # last: it scales everything anew, q included
            known.update_settings(eps_abs=accuracy, eps_rel=accuracy, max_iter=iterations)
            return known
        solver = self._workspaces[n, m, scaling] = osqp.OSQP()
        ends = np.arange(n + 1)
        solver.setup(sp.csc_matrix((P, np.tril_indices(n)[1], ends * (ends + 1) // 2), shape=(n, n)), program.q,
                     sp.csc_matrix((A, np.tile(np.arange(m), n), m * ends), shape=(m, n)), program.l,
                     program.u, verbose=False, polishing=False, warm_starting=True, rho=self.rho, scaling=scaling,
                     adaptive_rho=1, adaptive_rho_interval=_ADAPTS, check_termination=25, max_iter=iterations,
                     eps_abs=accuracy, eps_rel=accuracy, eps_prim_inf=1e-9, eps_dual_inf=1e-9)
        return solver


def _padded(one: Dense) -> Dense:
    """The program in the next of few sizes: unknowns without a cost, rows of zeros without ends."""
    (m, n), (N, M) = one.A.shape, (-(-one.q.size // 16) * 16, -(-one.l.size // 24) * 24)
    P, A, ends = np.zeros((N, N)), np.zeros((M, N)), np.full(M - m, np.inf)
    P[:n, :n], A[:m, :n] = one.P, one.A
    q, x = (np.r_[v, np.zeros(N - n)] for v in (one.q, one.x))
    l, u = np.clip(np.r_[one.l, -ends], -_ENDLESS, _ENDLESS), np.clip(np.r_[one.u, ends], -_ENDLESS, _ENDLESS)
    return Dense(P, q, A, l, u, x, np.r_[one.y, np.zeros(M - m)])


class Daqp:
    """The dual active-set solver DAQP (the extra ``daqp``), for single programs; nothing persists between them."""

    def __init__(self) -> None:
        try:
            self._daqp: Any = importlib.import_module("daqp")
        except ImportError as error:
            raise ProblemError("DAQP is not installed; pip install 'lieocp[daqp]'", where="engine 'daqp'") from error

    def guess(self, program: Dense, accuracy: float, short: bool = False) -> Guess | None:
        """An approximate solution and its active set, or None where the engine fails."""
        sense = np.where(program.l == program.u, 5, 0).astype(np.int32)
        u, l = np.minimum(program.u, _ENDLESS), np.maximum(program.l, -_ENDLESS)
        x, _, flag, info = self._daqp.solve(np.ascontiguousarray(program.P), program.q.copy(),
                                            np.ascontiguousarray(program.A), u, l, sense, primal_tol=min(accuracy, 1e-9))
        y = np.array(info["lam"], float)
        if flag < 1 or not (np.isfinite(x).all() and np.isfinite(y).all()):
            return None
        return Guess(np.array(x, float), y, int(info["iterations"]))


def known_engine(name: str) -> str:
    """The name, if there is such an engine. Raises ProblemError."""
    if name not in ENGINES:
        raise ProblemError(f"no engine named {name!r}; known: {', '.join(ENGINES)}", where="engine")
    return name


def engine(name: str) -> Engine:
    """A new engine (OSQP beside "active_set"). Raises ProblemError for other names, and where DAQP is not installed."""
    return Daqp() if known_engine(name) == "daqp" else Osqp()
