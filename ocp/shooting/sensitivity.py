"""How an optimum moves with the start state and the parameters of its system, and how its cost does.

At a solution of the conditions of optimality with strict complementarity the active constraints stay active nearby, and the
implicit function theorem gives the derivatives of states, controls and multipliers as solutions of one linear system, that of
Newton's method with the exact Hessian of the Lagrangian (Fiacco 1976, "Sensitivity analysis for nonlinear programming using penalty
methods"). The derivative of the optimal cost is that of the Lagrangian with everything active (envelope theorem).

Nothing of the engine is used: second derivatives, mixed derivatives with parameters and multipliers' curvature come from CasADi
on the steps and constraints of the horizon, whatever the solve used.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.problem import At, Solution, Status
from ocp.shooting.active_set import ActiveSet
from ocp.shooting.kkt import Array, Knot, Multipliers, System, costates
from ocp.shooting.optimality import ShootingOptimality
from ocp.shooting.stages.costs import total
from ocp.shooting.stages.horizon import Horizon
from ocp.shooting.stages.rows import BELOW
from ocp.shooting.stages.stage import Stage


@dataclass(frozen=True)
class PhaseSensitivities:
    """Derivatives along one phase of N steps: of the state at every knot, in the tangent space there, by the tangent of the start
    state, dx_dx0 [N+1, ndx, n0], and by the parameters, dx_dp [N+1, ndx, np]; of the piecewise-constant controls, du_dx0 [N, nu,
    n0] and du_dp [N, nu, np]. state_names [ndx], control_names [nu]: names of the rows of the matrices."""

    name: str
    state_names: tuple[str, ...]
    control_names: tuple[str, ...]
    dx_dx0: Array
    du_dx0: Array
    dx_dp: Array
    du_dp: Array


@dataclass(frozen=True)
class Sensitivities:
    """Derivatives of an optimum.

    start_names [n0]: tangent components of the start state, the columns of all ``d*_dx0``; the columns of components that the
    problem leaves free are zero. parameter_names [np]: the columns of all ``d*_dp``; zero for free parameters.
    dJ_dx0 [n0], dJ_dp [np]: of the optimal cost. constant_names [c]: free durations and parameters; dconstants_dx0 [c, n0],
    dconstants_dp [c, np]: how their optimum moves.
    active: number of active constraints and bounds. margin: the smallest multiplier of an active inequality or distance to another:
    where it is near zero, the derivatives are those of one side only.
    """

    phases: tuple[PhaseSensitivities, ...]
    start_names: tuple[str, ...]
    parameter_names: tuple[str, ...]
    dJ_dx0: Array
    dJ_dp: Array
    constant_names: tuple[str, ...]
    dconstants_dx0: Array
    dconstants_dp: Array
    active: int
    margin: float

    @property
    def phase(self) -> PhaseSensitivities:
        """The only phase. Raises ProblemError when there are several."""
        if len(self.phases) != 1:
            raise ProblemError(f"there are {len(self.phases)} phases; use one of ``phases``", where="sensitivities")
        return self.phases[0]


def sensitivities(solution: Solution) -> Sensitivities:
    """Derivatives of a solution by shooting with respect to its start state and parameters with a fixed active set.

    Raises ProblemError for a solution by another method, one that has not converged, a prescribed start that linkages look back on,
    and an optimum that is not isolated (the system is singular).
    """
    if not isinstance(solution.optimality, ShootingOptimality):
        raise ProblemError(f"need a solution by shooting (method ilqr), this one is by {solution.method!r}", where="sensitivities")
    if solution.status is not Status.CONVERGED:
        raise ProblemError(f"need a converged solution; this one is {solution.status}", where="sensitivities")
    horizon = solution.optimality.horizon
    if (0, At.START) in horizon.constants.memory and not len(horizon.chosen):
        raise ProblemError("a linkage depends on the prescribed start state, whose sensitivities are asked for; leave a component "
                           "of it free, and prescribe that by a constraint", where="sensitivities")
    point = _Point.of(horizon, solution.optimality)
    active = ActiveSet(point.knots, point.multipliers, proximal=0.0)
    system = System(point.knots, active.conditions)
    n0, count = horizon.legs[0].stretch.phase.system.space.ndx, horizon.legs[0].stretch.phase.system.np
    b = np.zeros((system.size, n0 + count))
    b[system.costates(0), :n0] = -np.eye(point.knots[0].n)[:, :n0]
    for k, (slope, step, rows) in enumerate(point.by_p):
        have = active.conditions[k]
        right = -slope
        right[point.knots[k].n + np.flatnonzero(have.side)] = 0.0
        b[system.states(k), n0:], b[system.controls(k), n0:] = right[:point.knots[k].n], right[point.knots[k].n:]
        if k < horizon.stages:
            b[system.costates(k + 1), n0:] = -step
        b[system.active(k), n0:] = -(have.T.T @ rows)
    moved, left = system.solve(b)
    if not left <= 1e-6:
        raise ProblemError("the optimum is not isolated: the conditions of optimality are singular there", where="sensitivities")
    return _collect(horizon, point, system, moved, n0, active)


@dataclass(frozen=True)
class _Point:
    """A solution as knots; by_p [S+1]: derivatives by the parameters of the gradient [n+m, np], of the step [n', np] and of the
    rows [r, np]; dJ_dx0, dJ_dp: of the cost."""

    knots: list[Knot]
    multipliers: Multipliers
    by_p: list[tuple[Array, Array, Array]]
    dJ_dx0: Array
    dJ_dp: Array

    @staticmethod
    def of(horizon: Horizon, found: ShootingOptimality) -> _Point:
        functions = [_functions(stage) for stage in horizon.kinds]
        holds, S = horizon.holds(), horizon.stages
        knots: list[Knot] = []
        by_p: list[tuple[Array, Array, Array]] = []
        count = horizon.legs[0].stretch.phase.system.np
        slope_p = np.zeros(count)
        weights, costate = [], np.zeros(0)
        for k in range(S, -1, -1):
            stage = horizon.kind(k)
            n, m, r = stage.space.ndx, stage.nu, stage.rows.count
            kept = holds[k, :r] == 1
            w = np.where(kept, found.weights[k, :r], 0.0)
            after = found.x[k + 1, :stage.after.nx] if k < S else np.zeros(0)
            at = horizon.at(k, found.x, found.u)
            values = functions[horizon.which[k]](*at, horizon.h[k], after, costate, w)
            g, gap, F, H, c, C, g_p, f_p, c_p, L_p = (np.asarray(value) for value in values)
            lower, upper = horizon.lower[k, :m], horizon.upper[k, :m]
            knots.append(Knot(n, g.ravel(), H, F, gap.ravel(), at[2], lower, upper, c.ravel()[kept], C[kept], stage.rows.kind[kept],
                              stage.rows.size[kept]))
            by_p.append((g_p[:, :count], f_p[:, :count], c_p[kept][:, :count]))
            weights.append(w[kept])
            slope_p = slope_p + L_p.ravel()[:count]
            costate = g.ravel()[:n] + F[:, :n].T @ costate + C[:, :n].T @ w
        knots.reverse()
        multipliers = costates(knots, weights[::-1])
        first, first_p = _start_costs(horizon)
        n0 = len(first)
        return _Point(knots, multipliers, by_p[::-1], multipliers.costate[0][:n0] + first, slope_p + first_p)


def _functions(stage: Stage) -> ca.Function:
    """Derivatives of a stage's Lagrangian ``L = cost + costate . (f (-) after) + w . c`` in z = (dx, u) and p.

    (t, x, u, p, h, after, costate, w) -> gradient of the cost, gap, F, Hessian of L, c, C, then by p: of the gradient of L, of the
    step, of c, of L.
    """
    n, m, r = stage.space.ndx, stage.nu, stage.rows.count
    t, h, x, u = ca.MX.sym("t"), ca.MX.sym("h"), ca.MX.sym("x", stage.space.nx), ca.MX.sym("u", m)
    p, after = ca.MX.sym("p", stage.step.size1_in(3)), ca.MX.sym("after", stage.after.nx)
    costate, w, z = ca.MX.sym("costate", stage.after.ndx), ca.MX.sym("w", r), ca.MX.sym("z", n + m)
    near, control = stage.space.jet(x, z[:n]), u + z[n:]
    there, cost, *_ = stage.step(t, near, control, p, h)
    gap = stage.after.minus(after, there) if stage.after.nx else ca.MX(0, 1)
    c = stage.rows.value(t, near, control, p)
    value = cost + ca.dot(costate, gap) + ca.dot(w, c)
    H, slope = ca.hessian(value, z)
    outputs = [ca.gradient(cost, z), gap, ca.jacobian(gap, z), H, c, ca.jacobian(c, z),
               ca.jacobian(slope, p), ca.jacobian(gap, p), ca.jacobian(c, p), ca.gradient(value, p)]
    at = ca.Function("at", [t, x, u, p, h, after, costate, w, z], [ca.densify(ca.MX(y)) for y in outputs])
    arguments = [t, x, u, p, h, after, costate, w]
    return ca.Function("sensitivity", arguments, at(*arguments, ca.DM.zeros(n + m)))


def _start_costs(horizon: Horizon) -> tuple[Array, Array]:
    """Derivatives by the start and by the parameters of costs at a prescribed start, which no stage holds."""
    stretch = horizon.legs[0].stretch
    system, costs = stretch.phase.system, stretch.costs(At.START)
    space = system.space
    if len(horizon.chosen) or not costs:
        return np.zeros(space.ndx), np.zeros(system.np)
    x, dx, p = ca.MX.sym("x", space.nx), ca.MX.sym("dx", space.ndx), ca.MX.sym("p", system.np)
    value = ca.MX(total(costs, 0.0, space.jet(x, dx), ca.DM.zeros(system.nu), p))
    slope = ca.Function("start", [x, dx, p], [ca.gradient(value, dx), ca.gradient(value, p)])
    return tuple(np.asarray(v).ravel()  # type: ignore[return-value]
                 for v in slope(horizon.start[:space.nx], ca.DM.zeros(space.ndx), system.parameter_values))


def _collect(horizon: Horizon, point: _Point, system: System, moved: Array, n0: int, active: ActiveSet) -> Sensitivities:
    phases = []
    for leg in horizon.legs:
        of = leg.stretch.phase.system
        x = np.array([moved[system.states(k)][:of.space.ndx] for k in range(leg.first, leg.last + 1)])
        u = np.array([moved[system.controls(k)][:of.nu] for k in range(leg.first, leg.last)])
        phases.append(PhaseSensitivities(leg.stretch.phase.name, of.space.tangent_names, of.controls,
                                         x[:, :, :n0], u[:, :, :n0], x[:, :, n0:], u[:, :, n0:]))
    leg = horizon.legs[0]
    of = leg.stretch.phase.system
    chosen = moved[system.states(leg.first)][of.space.ndx:of.space.ndx + horizon.constants.chosen]
    return Sensitivities(tuple(phases), of.space.tangent_names, of.parameters, point.dJ_dx0, point.dJ_dp,
                         horizon.constants.names[:horizon.constants.chosen],
                         chosen[:, :n0], chosen[:, n0:], active.count, _margin(point, active))


def _margin(point: _Point, active: ActiveSet) -> float:
    least = np.inf
    for k, knot in enumerate(point.knots):
        w, side = point.multipliers.rows[k], active.conditions[k].side
        below = knot.kind == BELOW
        on = active.on[k] == 1
        least = min([least, *np.abs(w[below & on]), *np.abs(knot.c[below & ~on])])
        for part in knot.cones():
            v = -w[part] - knot.c[part]
            least = min(least, abs(float(np.linalg.norm(v[1:])) - abs(float(v[0]))) / np.sqrt(2))
        if len(side):
            n = knot.n
            push = knot.g[n:] + knot.F[:, n:].T @ point.multipliers.costate[k + 1] + knot.C[:, n:].T @ w
            free = side == 0
            room = np.minimum(knot.u - knot.lower, knot.upper - knot.u)
            least = min([least, *np.abs(push[~free & (knot.lower < knot.upper)]), *room[free]])
    return float(least)
