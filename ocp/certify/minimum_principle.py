"""Pontryagin's minimum principle, pointwise: no admissible control has a smaller Hamiltonian than that of the motion.

First- and second-order conditions compare with neighbours and overlook degenerate points (``-u^4`` at 0) and other valleys of the
Hamiltonian. Here it is compared, at many times, with what it has all over the admissible controls: where it is affine or convex in
them the first-order conditions are enough; else they are sampled (axes, corners, Sobol points; on path equations by Gauss-Newton
steps) and the best are polished. A control that is better on a set of times of positive length is better for the objective, however
short that set is (needle variations; Pontryagin et al. 1962, The mathematical theory of optimal processes, chapter 2).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca
import numpy as np

from ocp.certify.hamiltonian import Hamiltonian, depends, kinked
from ocp.certify.jumps import at_ends
from ocp.certify.motion import Motion
from ocp.interrupts import Activity, check
from ocp.problem import At, Constraint, Cost, Sense
from ocp.thresholds import MINIMUM_PRINCIPLE, ROUNDING

Array = np.ndarray


@dataclass(frozen=True)
class Better:
    """Where controls are better than those of the motion. t [k] s; u [k, nu]: the best control found; gap [k]: by how much its
    Hamiltonian is smaller, zero where none is; gain: the integral of the gap, in the unit of the objective."""

    t: Array
    u: Array
    gap: Array

    @property
    def gain(self) -> float:
        """The integral of the gap, in the unit of the objective."""
        return float(np.sum(np.diff(self.t) * (self.gap[1:] + self.gap[:-1]) / 2))

    @property
    def time(self) -> float:
        """The time of the largest gap [s]."""
        return float(self.t[np.argmax(self.gap)])


def better_controls(hamiltonian: Hamiltonian) -> Better | None:
    """The controls that minimise the Hamiltonian at many times; None if the first-order conditions exclude better ones."""
    motion = hamiltonian.motion
    inputs = np.array(hamiltonian.nonlinear_inputs(), dtype=int)
    if not len(inputs) or _convex(motion):
        return None
    every = np.flatnonzero((hamiltonian.t >= motion.span[0]) & (hamiltonian.t <= motion.span[1]))
    some = every[np.unique(np.linspace(0, len(every) - 1, MINIMUM_PRINCIPLE.times).astype(int))]
    if len(some) < 2:
        return None
    t, p = hamiltonian.t[some], hamiltonian.p[some]
    return _Search(hamiltonian, t, p, inputs).best()


class InputBox(NamedTuple):
    """Bounds [k, m] of inputs, wide where they have none; and which have none [m]."""

    low: Array
    high: Array
    free: Array


class _Search:
    """H at times t [k] with states x [k, nx] and costates p [k, n], over the inputs of these numbers."""

    def __init__(self, hamiltonian: Hamiltonian, t: Array, p: Array, inputs: Array):
        self.H, self.motion, self.t, self.p, self.inputs = hamiltonian, hamiltonian.motion, t, p, inputs
        self.x, self.u = self.motion.state(t), self.motion.control(t)
        phase = self.motion.phase
        self.constraints = [c for c in phase.constraints if c.at is At.PATH and c.soft is None and _of_inputs(c)]
        equal = [c for c in self.constraints if c.sense is Sense.EQUAL or np.array_equal(c.lower, c.upper)]
        self.equations = _equations(equal) if equal else None
        self.lower, self.upper, self.free = self._box()
        self.width = (self.upper - self.lower).max(axis=0)

    def _box(self) -> InputBox:
        """Bounds [k, m] of the inputs that are varied, wide where they have none; and which have none [m]."""
        lower, upper = self.motion.phase.control_bounds.arrays
        size = self.motion.scales.wide_control
        max_tried = MINIMUM_PRINCIPLE.max_tried * np.where(size > 0, size, 1.0)
        low = np.where(np.isfinite(lower), lower, np.minimum(self.u, np.where(np.isfinite(upper), upper, np.inf)) - max_tried)
        high = np.where(np.isfinite(upper), upper, np.maximum(self.u, np.where(np.isfinite(lower), lower, -np.inf)) + max_tried)
        return InputBox(low[:, self.inputs], high[:, self.inputs], ~np.isfinite(upper - lower)[self.inputs])

    def best(self) -> Better:
        own = self._fallen()
        H, best = np.full(len(self.t), np.inf), self.u.copy()
        for share in self._shares():
            check(Activity.CERTIFICATE)
            u = self._admissible(self._at(share))
            value = self._value(u)
            better = value < H
            H, best = np.where(better, value, H), np.where(better[:, None], u, best)
        if self.equations is None:
            best, H = self._polished(best, MINIMUM_PRINCIPLE.window)
        now = np.minimum(self._value(self.u, admissible=True), own)
        size = np.abs(now) + np.abs(H)
        gap = np.where(now - H > ROUNDING.resolution * size, now - H, 0.0)
        return Better(self.t, best, np.where(np.isfinite(gap), gap, 0.0))

    def _shares(self) -> Array:
        """Points [points, m] of the box as shares of its width; NaN stands for the motion's own."""
        m = len(self.inputs)
        line = np.linspace(0.0, 1.0, MINIMUM_PRINCIPLE.points_of_axis)
        found = [np.full((1, m), np.nan), np.full((1, m), 0.5)]
        for i in range(m):
            axis = np.full((len(line), m), np.nan)
            axis[:, i] = line
            found.append(axis)
        if 1 < m <= MINIMUM_PRINCIPLE.most_with_corners:
            found.append(np.array(list(itertools.product((0.0, 1.0), repeat=m))))
        if m > 1:
            from scipy.stats import qmc  # takes as long to import as all else of a command

            found.append(qmc.Sobol(m, seed=0).random_base2(MINIMUM_PRINCIPLE.sobol_exponent))
        return np.vstack(found)

    def _at(self, share: Array) -> Array:
        """Inputs [k, nu] at a point of the box; where there are no bounds, points lie closer to the motion's own control."""
        u, own = self.u.copy(), self.u[:, self.inputs]
        reached = 2 * share - 1
        near = own + np.where(reached < 0, own - self.lower, self.upper - own) * np.sign(reached) * np.abs(reached) ** 3
        chosen = np.where(self.free, near, self.lower + share * (self.upper - self.lower))
        u[:, self.inputs] = np.where(np.isnan(share), own, chosen)
        return u

    def _admissible(self, u: Array) -> Array:
        """Inputs on the path equations, by Gauss-Newton steps over those that are varied."""
        if self.equations is None:
            return u
        u = u.copy()
        for _ in range(MINIMUM_PRINCIPLE.newton_steps):
            value, gradient = (np.asarray(part) for part in self.equations(
                self.t[None, :], self.x.T, u.T, np.repeat(self.motion.p[:, None], len(self.t), axis=1)))
            rows = value.shape[0]
            J = gradient.reshape(rows, len(self.t), -1).transpose(1, 0, 2)[:, :, self.inputs]
            finite = np.isfinite(J).all(axis=(1, 2)) & np.isfinite(value).all(axis=0)
            step = np.zeros((len(self.t), len(self.inputs)))
            step[finite] = -np.einsum("kij,kj->ki", np.linalg.pinv(J[finite]), value.T[finite])
            u[:, self.inputs] = np.clip(u[:, self.inputs] + step, self.lower, self.upper)
        return u

    def _value(self, u: Array, admissible: bool = False) -> Array:
        """H [k], infinite where inputs break a path constraint by more than the motion itself does."""
        with np.errstate(invalid="ignore", over="ignore"):
            H = self.H(self.t, self.x, u, self.p)
            broken = np.zeros(len(self.t), dtype=bool)
            for c in () if admissible else self.constraints:
                values, own = (self.motion.call(c.function, self.t, self.x, one) for one in (u, self.u))
                size = np.maximum(1.0, np.abs(values).max(axis=1, keepdims=True))
                allowed = np.maximum(c.excess(own), 0.0) + MINIMUM_PRINCIPLE.violation * size
                broken |= np.any(c.excess(values) > allowed, axis=1)
        return np.where(broken | ~np.isfinite(H), np.inf, H)

    def _fallen(self) -> Array:
        """H [k] where one comes from the motion's own inputs downhill: what discretisation explains ends where H rises again, for
        the next valley is another control."""
        u, H = self.u.copy(), self._value(self.u)
        shares = 2.0 ** -np.arange(MINIMUM_PRINCIPLE.points_of_window)[::-1]
        for sweep in range(MINIMUM_PRINCIPLE.sweeps):
            half = MINIMUM_PRINCIPLE.neighbourhood * self.width / MINIMUM_PRINCIPLE.shrink ** sweep
            for j, i in enumerate(self.inputs):
                centre, tried, start = u[:, i].copy(), u.copy(), H
                for side in (1.0, -1.0):
                    falls, before = np.ones(len(H), dtype=bool), start
                    for share in side * shares:
                        tried[:, i] = np.clip(centre + share * half[j], self.lower[:, j], self.upper[:, j])
                        value = self._value(tried)
                        falls &= value <= before
                        better, before = falls & (value < H), value
                        H, u[:, i] = np.where(better, value, H), np.where(better, tried[:, i], u[:, i])
        return H

    def _polished(self, u: Array, window: float) -> tuple[Array, Array]:
        """Better inputs near these [k, nu], input by input in windows that shrink, of this part of the box at first; and H."""
        u, H = u.copy(), self._value(u)
        shares = np.linspace(-1.0, 1.0, MINIMUM_PRINCIPLE.points_of_window)
        for sweep in range(MINIMUM_PRINCIPLE.sweeps):
            half = window * self.width / MINIMUM_PRINCIPLE.shrink ** sweep
            for j, i in enumerate(self.inputs):
                centre, tried = u[:, i].copy(), u.copy()
                for share in shares:
                    tried[:, i] = np.clip(centre + share * half[j], self.lower[:, j], self.upper[:, j])
                    value = self._value(tried)
                    better = value < H
                    H, u[:, i] = np.where(better, value, H), np.where(better, tried[:, i], u[:, i])
        return u, H


def waiting(hamiltonian: Hamiltonian) -> tuple[float, float]:
    """(gain, time [s]) of resting at an end of a phase and moving faster instead, per second of rest, times the duration.

    In an autonomous phase of given duration, ``dJ/dT = H``: a rest at the cost L(x, u) of holding the state x at an end gains
    ``H - L`` per second. Where L is continuous the minimum principle has it already, and errors of the mesh would count twice;
    where the state leaves a state at which rates or running costs jump, such as rest, only this comparison sees it.
    """
    motion = hamiltonian.motion
    if motion.phase.duration.free or not _autonomous(motion) or not len(hamiltonian.t):
        return 0.0, float(motion.span[0])
    H = hamiltonian(hamiltonian.t, motion.state(hamiltonian.t), motion.control(hamiltonian.t), hamiltonian.p)
    found, jumps = [(0.0, float(motion.span[0]))], list(at_ends(motion))
    for end, h in ((0, H[0]), (-1, H[-1])):
        if motion.span[end] not in jumps:
            continue
        t, x = motion.trajectory.t[[end]], motion.trajectory.x[[end]]
        u = _holding(motion, t, x)
        if u is not None:
            found.append((float(h - hamiltonian.charged(t, x, u)[0]) * motion.duration, float(t[0])))
    return max(found)


def _autonomous(motion: Motion) -> bool:
    phase = motion.phase
    items: tuple[Cost | Constraint, ...] = (*phase.costs, *phase.constraints)
    functions = [item.function for item in items if item.at in (At.PATH, At.INTEGRAL)]
    return not any(function.jac_sparsity(0, 0).nnz() for function in (phase.system.rate, *functions))


def _holding(motion: Motion, t: Array, x: Array) -> Array | None:
    """Admissible inputs [1, nu] under which a state is constant, by Gauss-Newton steps from rest; None if none are found."""
    phase, bounds = motion.phase, motion.phase.control_bounds
    nu, scale = phase.system.nu, motion.scales.wide_coordinates / motion.duration
    u = bounds.clip(np.zeros((1, nu)))
    nudge = ROUNDING.resolution * np.where(motion.scales.wide_control > 0, motion.scales.wide_control, 1.0)
    for _ in range(MINIMUM_PRINCIPLE.newton_steps):
        rate = motion.call(motion.field, t, x, u)
        if not np.isfinite(rate).all():
            return None
        J = np.column_stack([(motion.call(motion.field, t, x, u + nudge[i] * np.eye(nu)[[i]]) - rate)[0] / nudge[i]
                             for i in range(nu)]) if nu else np.zeros((rate.shape[1], 0))
        if not np.isfinite(J).all():
            return None
        u = bounds.clip(u - np.linalg.lstsq(J, rate[0], rcond=None)[0])
    still = np.all(np.abs(motion.call(motion.field, t, x, u)) <= ROUNDING.resolution * scale)
    active = [c for c in phase.constraints if c.at is At.PATH and c.soft is None]
    values = [(c, motion.call(c.function, t, x, u)) for c in active]
    allowed = all(np.all(c.excess(own) <= MINIMUM_PRINCIPLE.violation * (1 + np.abs(own).max())) for c, own in values)
    return u if still and allowed else None


def _of_inputs(constraint: Constraint) -> bool:
    function = constraint.function
    return bool(function.jac_sparsity(0, 2).nnz())


def _equations(equal: list[Constraint]) -> ca.Function:
    """(values [m], Jacobian [m, nu]) of path equations at (t, x, u, p)."""
    first = equal[0].function
    t, x, u, p = (ca.MX.sym(name, first.size1_in(i)) for i, name in enumerate("txup"))
    value = ca.vertcat(*(c.function(t, x, u, p) - ca.DM(c.lower) for c in equal))
    return ca.Function("equations", [t, x, u, p], [value, ca.densify(ca.jacobian(value, u))])


def _convex(motion: Motion) -> bool:
    """Whether rates, integrands and path constraints are affine in the inputs, and running costs convex."""
    phase = motion.phase
    affine = [phase.system.rate, *(c.function for c in phase.constraints if c.at in (At.PATH, At.INTEGRAL) and c.soft is None)]
    if any(_more_than_affine(function) for function in affine):
        return False
    if any(c.at is At.PATH and c.soft is not None and _more_than_affine(c.function) for c in phase.constraints):
        return False
    return all(_convex_cost(motion, cost) for cost in phase.costs if cost.at is At.PATH)


def _more_than_affine(function: ca.Function) -> bool:
    return bool(depends(function).any())


def _convex_cost(motion: Motion, cost: Cost) -> bool:
    """Whether a running cost is convex in the inputs along the motion, and its Hessian does not depend on them."""
    if not _more_than_affine(cost.function):
        return cost.weights is None or min(cost.weights, default=0.0) >= 0
    function = cost.function
    if not function.is_a("SXFunction"):
        return False
    t, x, u, p = (ca.SX.sym(name, function.size1_in(i)) for i, name in enumerate("txup"))
    value = cost.expression(t, x, u, p)
    hessian = ca.hessian(value, u)[0]
    if np.any(ca.which_depends(ca.vec(hessian), u, 1, False)) or kinked(function):
        return False
    look, m = motion.look, u.numel()
    some = np.unique(np.linspace(0, len(look.t) - 1, MINIMUM_PRINCIPLE.times).astype(int))
    own = ca.Function("hessian", [t, x, u, p], [ca.densify(hessian)])
    H = np.asarray(own(look.t[None, some], look.x[some].T, look.u[some].T, np.repeat(motion.p[:, None], len(some), axis=1)))
    values = np.linalg.eigvalsh(H.reshape(m, len(some), m).transpose(1, 0, 2))
    return bool(np.all(values >= -ROUNDING.resolution * np.abs(values).max(initial=0.0)))
