"""The iterations of iLQR: Python between a few Numba calls, so that Ctrl-C and progress reports get their turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ocp.problem import Status
from ocp.shooting.engine import loops, riccati
from ocp.shooting.engine.multipliers import Multipliers
from ocp.shooting.options import ILQROptions
from ocp.spaces import Space

Progress = Callable[[Mapping[str, float]], None]
Ending = tuple[Status, str]

PATIENCE = 20
"""Steps at the rounding level of the cost that may pass without a new smallest gradient."""
LOOSE = 1e-4
"""A minimisation whose multipliers are still to change ends when its model promises less than this share of the cost."""
_EPS = float(np.finfo(float).eps)
_FACTOR = 2.0  # regularisation changes by a factor that itself grows (Tassa, Erez, Todorov 2012, section II.F)


@dataclass
class Search:
    """One run: constant data, preallocated arrays and the current iterate (``path``, ``cost``), always the best so far.

    ``swept``: the policy belongs to the current path.
    """

    options: ILQROptions
    space: Space
    controls: tuple[str, ...]
    calls: Mapping[str, Any]  # of ``ocp.shooting.engine.records``
    horizon: loops.Horizon
    path: loops.Path
    rows: loops.Rows
    row_names: tuple[tuple[str, ...], tuple[str, ...]]
    progress: Progress | None = None
    log: list[dict[str, float]] = field(default_factory=list)
    load_seconds: float = 0.0
    cost: float = np.inf
    swept: bool = False

    def __post_init__(self) -> None:
        N, m = self.path.u.shape
        n = self.space.ndx
        self.trial = loops.Path(self.path.x.copy(), self.path.u.copy(), self.path.cost.copy())
        self.model = riccati.expansion(N, n, m)
        self.policy = riccati.policy(N, n, m)
        self.work = riccati.scratch(n, m)
        self.dx = np.zeros(n)
        self.multipliers = Multipliers(self.rows, self.row_names, self.options)
        self.mu, self.mu_factor = self.options.regularisation, 1.0

    @property
    def objective(self) -> float:
        """The cost of the current path alone, without the terms of constraints."""
        return float(self.path.cost.sum()) if self.multipliers.any_rows else self.cost

    def run(self) -> Ending:
        """Iterate from the controls in ``path``. Returns the status and what there is to say about it."""
        began = time.perf_counter()
        try:
            self._load()
            failed = self._evaluate()
            if failed >= 0:
                return self._lost(failed)
            gradient, bad = self._expand()
            self.load_seconds = time.perf_counter() - began
            self._report(expected=None, gradient=gradient, step=0.0, trials=0)
            if bad:
                return Status.NOT_A_NUMBER, self._not_a_number()
            if self.multipliers.any_rows:
                return self._constrained(gradient)
            return self._iterate(gradient, self.options.tolerance)
        except KeyboardInterrupt:
            return Status.INTERRUPTED, f"after {max(0, len(self.log) - 1)} iterations, cost {self.cost:.9g}"

    def _evaluate(self) -> int:
        """Cost and augmented terms of the current controls; the failed knot or -1."""
        cost, failed = loops.rollout(self.calls["step"], self.calls["final"], self.rows, self.horizon, self.path)
        if failed < 0:
            self.cost = cost
        return int(failed)

    def _constrained(self, gradient: float) -> Ending:
        """Outer iterations: minimise the augmented Lagrangian, take over multipliers, raise penalties where that was too little."""
        options, held = self.options, self.multipliers
        # relative to where the search begins, so that costs of 1e-2 and 1e4 start equally loosely
        tolerance = max(options.tolerance, options.inner_tolerance * gradient / max(1.0, abs(self.cost)))
        for _ in range(options.max_outer):
            before = len(self.log)
            status, message = self._iterate(gradient, tolerance, LOOSE if tolerance > options.tolerance else 0.0)
            violation, name = held.worst()
            if status in (Status.NOT_A_NUMBER, Status.DIVERGED, Status.ITERATION_LIMIT):
                return status, f"{message}; largest violation {violation:.3g} ({name})"
            if violation <= options.constraint_tolerance and tolerance == options.tolerance:
                if status is Status.CONVERGED:
                    return status, f"{message}, largest violation {violation:.3g} ({name})"
                if len(self.log) == before:  # neither the minimisation nor the multipliers move any more
                    return status, f"{message}; largest violation {violation:.3g} ({name})"
            held.update()
            if held.exhausted:
                return Status.INFEASIBLE, f"the largest violation stays at {violation:.3g} ({name}) whatever the penalty"
            tolerance = max(options.tolerance, 0.1 * tolerance if violation > options.constraint_tolerance else options.tolerance)
            self.mu, self.mu_factor = options.regularisation, 1.0
            if (failed := self._evaluate()) >= 0:
                return self._lost(failed)
            gradient, bad = self._expand()
            if bad:
                return Status.NOT_A_NUMBER, self._not_a_number()
        return Status.ITERATION_LIMIT, (f"largest violation {violation:.3g} ({name}) after {options.max_outer} updates of the "
                                        "multipliers")

    def _load(self) -> None:
        """Load (or compile) the binaries of the loops, so that ``solve`` times iterations only."""
        self._line_search(0.0, 0.0, shortest=2.0)  # no trial fits
        riccati.backward(self.model, self.path.u, self.horizon.lower, self.horizon.upper, 1.0, 0.0, self.policy,
                         self.work)

    def _iterate(self, gradient: float, tolerance: float, loose: float = 0.0) -> Ending:
        options = self.options
        smallest, waited = gradient, 0
        for _ in range(options.max_iterations + 1):
            linear, quadratic, knot = self._sweep()
            scale = max(1.0, abs(self.cost))
            expected = -(linear + quadratic)
            if knot >= 0:
                return Status.STALLED, (f"Quu is not positive definite at t = {self.horizon.t[knot]:.6g} s even with "
                                        f"regularisation {options.regularisation_max:.3g}")
            if (gradient <= tolerance * scale and expected <= tolerance * scale) or expected <= loose * abs(self.cost):
                return Status.CONVERGED, (f"projected gradient {gradient:.3g}, expected decrease {expected:.3g}, "
                                          f"cost {self.cost:.9g}")
            if len(self.log) > options.max_iterations:
                break
            rounding = 8 * _EPS * max(float(np.abs(self.path.cost).sum()), abs(self.cost))
            a, cost, trials, failed = self._line_search(linear, quadratic, options.step_min, rounding)
            if a == 0.0:
                mu = self.mu
                self._grow()
                self._report(expected, gradient, 0.0, trials)
                if self.mu > options.regularisation_max:
                    lost = "; the last trial rollout diverged" if failed >= 0 else ""
                    return Status.STALLED, (f"no step decreases the cost with regularisation {mu:.3g}; projected "
                                            f"gradient {gradient:.3g}, tolerance {tolerance * scale:.3g}{lost}")
                continue
            self.path, self.trial, self.cost, self.swept = self.trial, self.path, cost, False
            self._shrink()
            gradient, bad = self._expand()
            self._report(-(a * linear + a * a * quadratic), gradient, a, trials)
            if bad:
                return Status.NOT_A_NUMBER, self._not_a_number()
            if expected > rounding or gradient < smallest:
                smallest, waited = min(smallest, gradient), 0
            else:
                waited += 1
                if waited >= PATIENCE:
                    return Status.STALLED, (f"the cost is at its rounding level and the projected gradient stays at "
                                            f"{smallest:.3g}, above its tolerance {tolerance * scale:.3g}")
        return Status.ITERATION_LIMIT, f"projected gradient {gradient:.3g} after {options.max_iterations} iterations"

    def _expand(self) -> tuple[float, bool]:
        """Quadratic model, costates and gradient of the current path: (gradient norm, anything not finite?)."""
        calls = self.calls
        failed, norm = loops.expand(calls["expand"], calls["expand_final"], self.rows, self.horizon, self.path, self.model,
                                    self.policy, self.options.hessian == "gauss_newton")
        if failed < 0 and np.isfinite(norm) and "curvature" in calls:
            failed = loops.curve(calls["curvature"], self.horizon, self.path, self.model, self.policy)
        if failed < 0:
            failed = loops.stiffen(self.rows, self.horizon, self.path, self.model, self.options.hessian == "full")
        self.multipliers.measure()
        return float(norm), failed >= 0 or not np.isfinite(norm)

    def _sweep(self) -> tuple[float, float, int]:
        """Backward sweep, regularised as much as it takes: (linear, quadratic, failed knot or -1)."""
        while True:
            control, state = (self.mu, 0.0) if self.options.regularise == "control" else (0.0, self.mu)
            failed, linear, quadratic = riccati.backward(self.model, self.path.u, self.horizon.lower,
                                                         self.horizon.upper, control, state, self.policy, self.work)
            self.swept = failed < 0
            if failed < 0:
                return linear, quadratic, -1
            self._grow()
            if self.mu > self.options.regularisation_max:
                return linear, quadratic, failed

    def _line_search(self, linear: float, quadratic: float, shortest: float,
                     rounding: float = 0.0) -> tuple[float, float, int, int]:
        return loops.line_search(
            self.calls["step"], self.calls["final"], self.rows, self.calls["difference"], self.horizon, self.path, self.policy,
            self.trial, self.dx, self.cost, linear, quadratic, self.options.armijo, self.options.step_reduction,
            shortest, rounding)

    def _grow(self) -> None:
        self.mu_factor = max(_FACTOR, self.mu_factor * _FACTOR)
        self.mu = max(self.options.regularisation_min, self.mu * self.mu_factor)

    def _shrink(self) -> None:
        self.mu_factor = min(1 / _FACTOR, self.mu_factor / _FACTOR)
        mu = self.mu * self.mu_factor
        self.mu = mu if mu >= self.options.regularisation_min else 0.0

    def _report(self, expected: float | None, gradient: float, step: float, trials: int) -> None:
        constrained = self.multipliers.any_rows
        row: dict[str, float] = {"iteration": len(self.log), "cost": float(self.path.cost.sum()) if constrained else self.cost}
        row |= {} if expected is None else {"expected": expected}
        row |= {"gradient": gradient}
        row |= {"violation": self.multipliers.worst()[0], "penalty": self.multipliers.largest_penalty} if constrained else {}
        row |= {"step": step, "regularisation": self.mu, "trials": trials}
        self.log.append(row)
        if self.progress is not None:
            self.progress(self.log[-1])

    def _lost(self, k: int) -> Ending:
        """Why the rollout of the guess ended at knot k, and a path cut down to what is finite."""
        x, cost, t = self.path.x, self.path.cost, self.horizon.t
        N = len(t) - 1
        if np.isfinite(cost[k]) and np.all(np.isfinite(x[min(k + 1, N)])) and (name := self.multipliers.not_finite(k, N)):
            return Status.NOT_A_NUMBER, f"the constraint {name} is not finite at t = {t[k]:.6g} s (rollout of the guess)"
        if k == N:
            return Status.NOT_A_NUMBER, f"the final cost is {cost[N]} at t = {t[N]:.6g} s (rollout of the guess)"
        after = x[k + 1]
        bad = [i for i in range(self.space.nx) if not np.isfinite(after[i])]
        large = [i for i in range(self.space.nx) if abs(after[i]) > self.options.state_limit]
        growing = bool(np.max(np.abs(x[k])) > np.sqrt(self.options.state_limit))
        place = f"in the step from t = {t[k]:.6g} s (rollout of the initial guess)"
        if large and (not bad or growing):
            i = large[0]
            return Status.DIVERGED, f"state {self.space.names[i]!r} exceeds {self.options.state_limit:.3g} {place}"
        if bad:
            state = ", ".join(f"{name} = {value:.6g}" for name, value in zip(self.space.names, x[k], strict=True))
            names = ", ".join(repr(self.space.names[i]) for i in bad)
            status = Status.DIVERGED if growing else Status.NOT_A_NUMBER
            return status, f"state {names} becomes {after[bad[0]]} {place}, from {state}"
        return Status.NOT_A_NUMBER, f"the running cost is {cost[k]} {place}"

    def _not_a_number(self) -> str:
        """The first derivative that is not finite, in words."""
        rows = {"lx": self.space.tangent_names, "lxx": self.space.tangent_names, "A": self.space.tangent_names,
                "B": self.space.tangent_names, "lu": self.controls, "luu": self.controls, "lux": self.controls}
        for name in ("A", "B", "lx", "lu", "lxx", "luu", "lux"):
            found = np.argwhere(~np.isfinite(getattr(self.model, name)))
            if len(found):
                knot, row = found[0][0], found[0][1]
                what = "the dynamics" if name in "AB" else "the cost"
                return (f"the derivative {name} of {what} is {getattr(self.model, name)[tuple(found[0])]} at "
                        f"t = {self.horizon.t[knot]:.6g} s, component {rows[name][row]!r}")
        return "the costates overflow: the rollout is too sensitive; shorten the horizon"
