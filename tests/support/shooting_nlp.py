"""Direct multiple shooting written down once more, for other solvers: the discrete problem of iLQR as one NLP in stages.

Same one-step maps, held controls and quadrature of the cost; every state is an unknown and every step a constraint. Unknowns and
constraints follow the stages, ``x0, u0, x1, u1, ... xN`` and ``gap 0, rows 0, gap 1, rows 1, ...``, the order that interior-point
methods with a Riccati recursion need. Second-order cones ``|c[1:]| <= c[0]`` become ``c[0]^2 - |c[1:]|^2 >= 0`` and ``c[0] >= 0``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from ocp.integrators import INTEGRATORS
from ocp.problem import INF, At, Constraint, Phase, Sense

Expr = Any
INLINE_LIMIT = 400


@dataclass(frozen=True)
class StagedNLP:
    """min f(w), g_lower <= g(w) <= g_upper, w_lower <= w <= w_upper, with its stages.

    nlp: CasADi's dictionary x, f, g. nx, nu, ng [N+1]: states, controls and rows (without gaps) of every stage.
    step(t, x, u) -> x of the next knot; path(t, x, u), end(t, x) -> rows as named violations measure them.
    """

    phase: Phase
    intervals: int
    nlp: dict[str, Expr]
    w_lower: np.ndarray
    w_upper: np.ndarray
    g_lower: np.ndarray
    g_upper: np.ndarray
    nx: list[int]
    nu: list[int]
    ng: list[int]
    step: ca.Function

    @property
    def times(self) -> np.ndarray:
        return np.linspace(0.0, self.phase.duration.guess, self.intervals + 1)

    @property
    def structure(self) -> dict[str, Any]:
        """The stages in the words of CasADi's interface to FATROP."""
        return {"structure_detection": "manual", "N": self.intervals, "nx": self.nx, "nu": self.nu, "ng": self.ng,
                "equality": (self.g_lower == self.g_upper).tolist()}

    def join(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Unknowns from states [N+1, nx] and controls [N, nu]."""
        return np.concatenate([np.hstack([x[:-1], u]).ravel(), x[-1]])

    def split(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n, m = self.nx[0], self.nu[0]
        stages = w[:self.intervals * (n + m)].reshape(self.intervals, n + m)
        return np.vstack([stages[:, :n], w[-n:]]), stages[:, n:].copy()

    def rollout(self, u: np.ndarray) -> np.ndarray:
        """States [N+1, nx] of controls [N, nu] from the start state."""
        x = [np.array(self.phase.start.value, float)]
        for t, ui in zip(self.times, u, strict=False):
            x.append(np.array(self.step(t, x[-1], ui)).ravel())
        return np.array(x)

    def defect(self, x: np.ndarray, u: np.ndarray) -> float:
        """Largest gap of the steps and of the start."""
        after = np.array(self.step.map(self.intervals)(self.times[:-1], x[:-1].T, u.T)).T
        return float(max(np.abs(after - x[1:]).max(), np.abs(x[0] - self.phase.start.value).max()))

    def violations(self, x: np.ndarray, u: np.ndarray) -> dict[str, float]:
        """Largest violation of every hard constraint of the problem at the knots where it holds, by name."""
        phase, t = self.phase, self.times
        found: dict[str, float] = {}

        def note(name: str, value: float) -> None:
            found[name] = max(found.get(name, 0.0), float(value))

        for names, values, lower, upper in ((phase.system.space.names, x[1:], phase.x_lower, phase.x_upper),
                                            (phase.system.controls, u, phase.u_lower, phase.u_upper)):
            for name, column, low, high in zip(names, values.T, lower, upper, strict=True):
                if np.isfinite([low, high]).any():
                    note(f"bound {name}", max((column - high).max(), (low - column).max()))
        if phase.final is not None:
            away = np.array(ca.DM(phase.system.space.minus(ca.DM(phase.final.value), ca.DM(x[-1])))).ravel()
            note("final state", np.abs(away[list(phase.final.fixed)]).max(initial=0.0))
        for c in _hard(phase):
            for k in _knots(c, self.intervals):
                value = np.array(c.function(t[k], x[k], u[min(k, len(u) - 1)], phase.system.parameter_values)).ravel()
                if c.sense is Sense.CONE:
                    note(c.name, np.linalg.norm(value[1:]) - value[0])
                else:
                    note(c.name, max((value - c.upper).max(), (np.array(c.lower) - value).max()))
        return found

    def cost(self, x: np.ndarray, u: np.ndarray) -> float:
        return float(ca.Function("cost", [self.nlp["x"]], [self.nlp["f"]])(self.join(x, u)))

    def stationarity(self) -> ca.Function:
        """(w, multipliers of g, multipliers of the bounds) -> largest component of the gradient of the Lagrangian, divided by
        ``max(1, |f|)``."""
        w, f, g = self.nlp["x"], self.nlp["f"], self.nlp["g"]
        lam, bounds = ca.MX.sym("lam", g.shape[0]), ca.MX.sym("bounds", w.shape[0])
        slope = ca.gradient(f, w) + ca.jtimes(g, w, lam, True) + bounds
        free = np.flatnonzero(self.w_lower != self.w_upper).tolist()
        return ca.Function("stationarity", [w, lam, bounds], [ca.norm_inf(slope[free]) / ca.fmax(1, ca.fabs(f))])


def _symbol(*functions: ca.Function) -> Any:
    """Scalar graphs where every function is small, so that shared terms are computed once; calls of functions otherwise."""
    return ca.SX.sym if all(f.n_instructions() <= INLINE_LIMIT for f in functions) else ca.MX.sym


def _hard(phase: Phase) -> list[Constraint]:
    return [c for c in phase.constraints if c.soft is None and c.at is not At.START]


def _knots(c: Constraint, N: int) -> range:
    """Where a constraint holds: the start is given, so that rows without control begin at knot 1 and end at knot N."""
    if c.at is At.FINAL:
        return range(N, N + 1)
    return range(N) if c.function.jac_sparsity(0, 2).nnz() else range(1, N + 1)


def _rows(c: Constraint, t: Expr, x: Expr, u: Expr, p: Expr) -> tuple[Expr, list[float], list[float]]:
    value = c.function(t, x, u, p)
    if c.sense is not Sense.CONE:
        return value, list(c.lower), list(c.upper)
    squared = value[0] ** 2 - ca.sumsqr(value[1:])
    rows = [squared, value[0]] if ca.depends_on(value[0], ca.vertcat(x, u)) else [squared]
    return ca.vertcat(*rows), [0.0] * len(rows), [INF] * len(rows)


def staged_nlp(phase: Phase, intervals: int, integrator: str, cost_quadrature: str) -> StagedNLP:
    """The NLP of one phase of fixed duration and complete fixed start."""
    system, N = phase.system, intervals
    n, m, h = system.nx, system.nu, phase.duration.guess / intervals
    sym = _symbol(system.rate, *(c.function for c in (*phase.costs, *phase.constraints)))
    t, x, u, y = sym("t"), sym("x", n), sym("u", m), sym("y", n)
    p = ca.DM(system.parameter_values)
    after, nodes = INTEGRATORS[integrator].advance(system, t, x, u, p, h)
    if cost_quadrature == "rectangle":
        nodes = ((1.0, t, x),)
    running = [c for c in phase.costs if c.at is At.PATH]
    cost = h * sum((weight * c.expression(ti, xi, u, p) for weight, ti, xi in nodes for c in running), start=ca.DM(0))
    ends = sum((c.expression(t, x, ca.DM.zeros(m), p) for c in phase.costs if c.at is At.FINAL), start=ca.DM(0))
    kinds = {"first": [], "middle": [], "last": []}
    for c in _hard(phase):
        where = _knots(c, N)
        for kind, k in (("first", 0), ("middle", 1), ("last", N)):
            if k in where:
                kinds[kind].append(_rows(c, t, x, u if k < N else ca.DM.zeros(m), p))
    if phase.final is not None:
        away = phase.system.space.minus(ca.DM(phase.final.value), x)
        fixed = [away[i] for i in range(system.space.ndx) if phase.final.fixed[i]]
        kinds["last"].append((ca.vertcat(*fixed), [0.0] * len(fixed), [0.0] * len(fixed)))
    rows = {kind: ca.vertcat(ca.DM(0, 1), *(r[0] for r in found)) for kind, found in kinds.items()}
    lower = {kind: np.array(sum((list(r[1]) for r in found), [])) for kind, found in kinds.items()}
    upper = {kind: np.array(sum((list(r[2]) for r in found), [])) for kind, found in kinds.items()}

    def function(name: str, arguments: list[Expr], value: Expr) -> ca.Function:
        return ca.Function(name, arguments, [ca.cse(ca.densify(type(x)(value)))])

    gap = y - after
    first = function("first", [t, x, u, y], ca.vertcat(gap, rows["first"]))
    middle = function("middle", [t, x, u, y], ca.vertcat(gap, rows["middle"]))
    last, stage_cost = function("last", [t, x], rows["last"]), function("stage_cost", [t, x, u], cost)
    end_cost = function("end_cost", [t, x], ends)

    w = ca.MX.sym("w", N * (n + m) + n)
    stages = ca.reshape(w[:N * (n + m)], n + m, N)
    xs, us, end = stages[:n, :], stages[n:, :], w[N * (n + m):]
    following = ca.horzcat(xs[:, 1:], end)
    times = np.linspace(0.0, phase.duration.guess, N + 1)
    g = [first(times[0], xs[:, 0], us[:, 0], following[:, 0])]
    if N > 1:
        g.append(ca.vec(middle.map(N - 1)(times[1:-1], xs[:, 1:], us[:, 1:], following[:, 1:])))
    g.append(last(times[-1], end))
    f = ca.sum2(stage_cost.map(N)(times[:-1], xs, us)) + end_cost(times[-1], end)
    start = np.array(phase.start.value, float)
    box = [np.concatenate([np.tile(np.r_[side_x, side_u], N), side_x]).astype(float)
           for side_x, side_u in ((phase.x_lower, phase.u_lower), (phase.x_upper, phase.u_upper))]
    for side in box:
        side[:n] = start
    zero = np.zeros(n)
    bounds = [np.concatenate([zero, side["first"], np.tile(np.r_[zero, side["middle"]], N - 1), side["last"]])
              for side in (lower, upper)]
    counts = [len(lower["first"]), *[len(lower["middle"])] * (N - 1), len(lower["last"])]
    return StagedNLP(phase, N, {"x": w, "f": f, "g": ca.vertcat(*g)}, *box, *bounds, nx=[n] * (N + 1), nu=[m] * N + [0], ng=counts,
                     step=ca.Function("step", [t, x, u], [after]))
