"""Moving-horizon estimation on the compiled iterations of receding horizons.

Over a window of N periods the state where it begins and the noise w of every period are chosen to minimise

    |x_0 [-] x_prior|^2 / P  +  sum |y_k - h(x_k)|^2 / R  +  sum |w_k|^2 / Q,       x_{k+1} = F(x_k, u_k) [+] w_k

within bounds (Rao, Rawlings, Mayne 2003, "Constrained state estimation for nonlinear discrete-time systems"). That is a problem of
optimal control whose start is free and whose controls are the noise; controls, measurements and the prior are parameters of its
knots, so that one compiled program serves every sample. Measurements that leave the window are kept in the prior by a step of the
extended Kalman filter about the smoothed states: exact for linear systems, where the estimate is the Kalman filter's.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.estimation.kalman import corrected, predicted
from ocp.estimation.model import EstimationModel
from ocp.problem import INF, At, Boundary, Cost, Duration, Guess, Phase, Problem, System
from ocp.shooting.options import ILQROptions

Array = np.ndarray
OPTIONS = ILQROptions(cost_quadrature="rectangle", hessian="gauss_newton", shooting="single")


class MovingHorizon:
    """x [nx]: estimate of the state, then of parameters. As a :class:`KalmanFilter`: ``reset(x)``, ``step(y)``, ``step(y, u)``.

    window: periods; iterations: of Gauss and Newton a sample; state_bounds: (lower, upper) [nx] of the state, None: none.
    Parameters keep their own. barrier: weight of the bounds in units of the cost.
    """

    def __init__(self, model: EstimationModel, window: int = 10, iterations: int = 2,
                 state_bounds: tuple[Sequence[float], Sequence[float]] | None = None, barrier: float = 1e-3):
        from ocp.shooting.ilqr import prepare  # loads Numba

        if window < 1 or iterations < 1:
            raise ProblemError("window and iterations must be whole numbers >= 1", where="estimate")
        self.model, self.window, self.iterations, self.barrier = model, window, iterations, barrier
        self.noisy = np.flatnonzero(model.noise > 0.0)
        self.program = prepare(_problem(model, window, self.noisy, state_bounds), OPTIONS)
        self._store = self.program.store
        nu, m = model.system.nu, model.outputs
        self._u, self._y, self._seen = slice(0, nu), slice(nu, nu + m), nu + m
        self._prior = slice(nu + m + 1, nu + m + 1 + model.space.nx)
        self._root = slice(nu + m + 1 + model.space.nx, None)
        self._log = np.zeros((max(64, iterations), 16))
        flat = [coordinate for coordinate, i in enumerate(model.space.tangent_index) if i >= 0]
        self._flat = np.array([(model.space.tangent_index[c], c) for c in flat], dtype=int).reshape(-1, 2)
        self.reset(np.array(model.system.space.neutral, float))

    def reset(self, x: Sequence[float] | Array, t: float = 0.0) -> None:
        """Begin at what is known of the state [nx] before the first measurement."""
        from ocp.shooting.engine import records

        self.prior, self.P, self.t = self.model.start(x), np.diag(self.model.first_deviation**2), t
        self.x, self.begins = self.prior.copy(), t
        self.count = 0  # measurements in the window
        records.reset(self._store, self.program.options)
        self._store.conset.barrier, self._store.conset.margin = self.barrier, min(1e-4, self.barrier)
        plan, path = self._store.plan, self._store.path
        plan.p[:], path.u[:] = 0.0, 0.0
        path.x[0] = self.prior
        path.u[0, self._flat[:, 0]] = self.prior[self._flat[:, 1]]

    def step(self, y: Array, u: Array | None = None) -> Array:
        """The estimate with one measurement [m] more; u [nu]: the control that acted since the last one."""
        plan, model = self._store.plan, self.model
        if (u is None) != (self.count == 0):
            raise ProblemError("the first measurement comes without a control, every later one with that since the last",
                               where="estimate")
        if u is not None:
            plan.p[self.count, self._u] = u
            self.t += model.period
            if self.count == self.window + 1:
                self._forget(np.asarray(u, float))
        plan.p[1 + self.count, self._y], plan.p[1 + self.count, self._seen] = y, 1.0
        self.count += 1
        plan.p[0, self._prior] = self.prior
        plan.p[0, self._root] = np.linalg.inv(np.linalg.cholesky(self.P)).ravel(order="F")
        plan.t[:] = self.begins + self.program.horizon.t
        self._solve()
        self.x = self._store.path.x[self.count, :model.space.nx].copy()
        return self.x

    @property
    def states(self) -> Array:
        """Smoothed states [k, nx] of the window, the present one last."""
        return self._store.path.x[1:1 + self.count, :self.model.space.nx].copy()

    def _forget(self, u: Array) -> None:
        """Move the window on by one period; its first measurement becomes part of the prior."""
        model, plan, path = self.model, self._store.plan, self._store.path
        first, acting, began = path.x[1, :model.space.nx].copy(), plan.p[1, self._u].copy(), self.begins
        there, P = corrected(model, began, self.prior, self.P, acting, plan.p[1, self._y].copy(), first)
        self.prior, self.P = predicted(model, began, there, P, acting, first)
        self.begins += model.period
        plan.p[1:-1] = plan.p[2:].copy()
        plan.p[-1] = 0.0
        plan.p[-2, self._u] = u
        start = path.x[2, :model.space.nx].copy()
        path.u[1:-1] = path.u[2:].copy()
        path.u[-1] = 0.0
        path.x[0], path.u[0] = start, 0.0
        path.u[0, self._flat[:, 0]] = start[self._flat[:, 1]]
        self.count -= 1

    def _solve(self) -> None:
        from ocp.shooting.engine import iterate as it

        store = self._store
        for task, most in ((it.ROLLOUT, 0), (it.EXPAND, 0), (it.BEGIN, 0)):
            _, failed = it.perform(store, task, self._log, 0.0, 0.0, most)
            if failed >= 0:
                raise ProblemError("the window cannot be simulated from its prior", where="estimate")
        it.perform(store, it.ITERATE, self._log, 1e-14, -1.0, self.iterations)


def _problem(model: EstimationModel, window: int, noisy: Array, bounds: tuple[Sequence[float], Sequence[float]] | None) -> Problem:
    """The window as a problem in discrete time: parameters of its knots are controls, measurement, whether there is one, the prior
    and the inverse of the Cholesky factor of its covariance."""
    space, nu, m, h = model.space, model.system.nu, model.outputs, model.period
    nx, ndx = space.nx, space.ndx
    sizes = (nu, m, 1, nx, ndx * ndx)
    t, x = ca.SX.sym("t"), ca.SX.sym("x", nx)
    w, p = ca.SX.sym("w", len(noisy)), ca.SX.sym("p", sum(sizes))
    u, y, seen, prior, root = ca.vertsplit(p, np.cumsum([0, *sizes]).tolist())
    d = ca.SX(ndx, 1)
    for j, i in enumerate(noisy):
        d[int(i)] = float(model.noise[i]) * w[j]
    rate = ca.Function("rate", [t, x, w, p], [ca.densify(space.minus(x, space.plus(model.moved(t, x, u), d)) / h)])
    missed = seen * (y - model.seen(t, x, u)) / ca.DM(model.blur)

    def cost(name: str, at: At, residual: ca.SX, weight: float) -> Cost:
        return Cost(name, at, ca.Function("residual", [t, x, w, p], [ca.densify(residual)]), (weight,) * residual.shape[0])

    costs = (cost("prior", At.START, ca.mtimes(ca.reshape(root, ndx, ndx), space.minus(prior, x)), 1.0),
             cost("measurements", At.PATH, ca.vertcat(missed, w), 1.0 / h), cost("last", At.FINAL, missed, 1.0))
    names = tuple(f"w.{space.tangent_names[i]}" for i in noisy)
    system = System(f"estimation of {model.system.name}", space, names, rate, tuple(f"p{i}" for i in range(sum(sizes))),
                    (0.0,) * sum(sizes), period=h)
    start = np.array([*model.system.space.neutral, *model.values], float)
    guess = Guess(np.array([0.0, 1.0]), np.tile(start, (2, 1)), np.zeros((2, len(noisy))))
    lower, upper = ((-INF,) * model.system.nx, (INF,) * model.system.nx) if bounds is None else bounds
    limits = [tuple(float(v) for v in side) for side in (
        (*lower, *(one.lower for one in model.parameters)), (*upper, *(one.upper for one in model.parameters)))]
    length = window * h
    return Problem(system.name, (Phase(
        "window", system, Duration(length, length, length), guess, start=Boundary(tuple(start), (False,) * ndx), costs=costs,
        x_lower=limits[0], x_upper=limits[1]),))
