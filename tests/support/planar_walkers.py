"""Planar walkers by an independent road: absolute angles, Lagrange's equations of the floating chain, impacts by its mass matrix,
and Gauss collocation in a few lines. Nothing here uses the package."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np


def along(angle):
    """Unit vector of a link that leans backwards by ``angle``."""
    return ca.vertcat(-ca.sin(angle), ca.cos(angle))


@dataclass(frozen=True)
class Walker:
    """masses, inertias: of the links; places(foot [2], angles [n]) -> centres of mass; landing(foot, angles) -> the other foot;
    torques(u) -> generalised forces on the angles; order: the angles after the legs have changed."""

    masses: Sequence[float]
    inertias: Sequence[float]
    places: Callable
    landing: Callable
    torques: Callable
    order: Sequence[int]
    g: float = 9.81

    @property
    def n(self) -> int:
        return len(self.order)

    def _inertia(self, Q):
        foot, angles = Q[:2], Q[2:]
        M = ca.SX(self.n + 2, self.n + 2)
        for m, p in zip(self.masses, self.places(foot, angles), strict=True):
            J = ca.jacobian(p, Q)
            M += m * J.T @ J
        for i, inertia in enumerate(self.inertias):
            M[2 + i, 2 + i] += inertia
        return M

    def rate(self) -> ca.Function:
        """(angles and their rates, u) -> their time derivative, the standing foot fixed."""
        Q, w, u = ca.SX.sym("Q", self.n + 2), ca.SX.sym("w", self.n), ca.SX.sym("u", self.torques(None))
        angles = Q[2:]
        M = self._inertia(Q)[2:, 2:]
        height = sum(m * p[1] for m, p in zip(self.masses, self.places(Q[:2], angles), strict=True))
        L = ca.dot(w, M @ w) / 2 - self.g * height
        momentum = ca.gradient(L, w)
        force = ca.gradient(L, angles) - ca.jacobian(momentum, angles) @ w + self.torques(u)
        rate = ca.substitute(ca.vertcat(w, ca.solve(M, force)), Q[:2], ca.DM.zeros(2))
        return ca.Function("rate", [ca.vertcat(angles, w), u], [rate])

    def impact(self) -> ca.Function:
        """State before -> state after the other foot has come to rest and the legs have changed their names."""
        Q, x = ca.SX.sym("Q", self.n + 2), ca.SX.sym("x", 2 * self.n)
        M, J = self._inertia(Q), ca.jacobian(self.landing(Q[:2], Q[2:]), Q)
        before = ca.vertcat(ca.DM.zeros(2), x[self.n:])
        push = ca.solve(M, J.T)
        after = before - push @ ca.solve(J @ push, J @ before)
        after = ca.substitute(after, Q, ca.vertcat(ca.DM.zeros(2), x[: self.n]))
        order = list(self.order)
        return ca.Function("impact", [x], [ca.vertcat(x[: self.n][order], after[2:][order])])

    def foot(self) -> ca.Function:
        """State -> the other foot [2], the standing one at the origin."""
        x = ca.SX.sym("x", 2 * self.n)
        return ca.Function("foot", [x], [self.landing(ca.DM.zeros(2), x[: self.n])])


def rabbit() -> Walker:
    """Masses, lengths and centres as in Kelly 2017, SIAM Review 59(4), Sec. 9; angles are absolute, the ankle has no torque."""
    def joints(foot, q):
        knee = foot + 0.4 * along(q[0])
        hip = knee + 0.4 * along(q[1])
        other = hip - 0.4 * along(q[3])
        return knee, hip, hip + 0.625 * along(q[2]), other, other - 0.4 * along(q[4])

    def places(foot, q):
        knee, hip, head, other, _ = joints(foot, q)
        return (knee - 0.128 * along(q[0]), hip - 0.163 * along(q[1]), head - 0.2 * along(q[2]), hip - 0.163 * along(q[3]),
                other - 0.128 * along(q[4]))

    def torques(u):  # knee, hip, hip, knee: each turns one link forwards and its neighbour back
        return 4 if u is None else ca.vertcat(-u[0], u[0] - u[1], u[1] - u[2], u[2] - u[3], u[3])

    return Walker((3.2, 6.8, 20, 6.8, 3.2), (0.93, 1.08, 2.22, 1.08, 0.93), places, lambda f, q: joints(f, q)[4], torques,
                  (4, 3, 2, 1, 0))


def compass() -> Walker:
    """Goswami, Espiau and Keramane 1996: legs of 5 kg in their middles, 10 kg at the hip, one metre long."""
    def places(foot, q):
        hip = foot + along(q[0])
        return foot + 0.5 * along(q[0]), hip, hip - 0.5 * along(q[1])

    def torques(u):
        return 1 if u is None else ca.vertcat(-u[0], u[0])

    return Walker((5, 10, 5), (0, 0), places, lambda f, q: f + along(q[0]) - along(q[1]), torques, (1, 0))


def collocate(opti, rate: Callable, nx: int, nu: int, T, intervals: int, degree: int):
    """Gauss collocation of x' = rate(x, u) over [0, T]: states at the ends of intervals, and states, controls and weights of
    quadrature (shares of T) at all collocation points."""
    nodes = ca.collocation_points(degree, "legendre")
    C, D, B = (np.array(part) for part in ca.collocation_coeff(nodes)[:3])
    h = T / intervals
    ends, inner, controls = opti.variable(nx, intervals + 1), [], []
    for k in range(intervals):
        x, u = opti.variable(nx, degree), opti.variable(nu, degree)
        whole = ca.horzcat(ends[:, k], x)
        for j in range(degree):
            opti.subject_to(whole @ C[:, j] == h * rate(x[:, j], u[:, j]))
        opti.subject_to(ends[:, k + 1] == whole @ D)
        inner.append(x)
        controls.append(u)
    return ends, ca.horzcat(*inner), ca.horzcat(*controls), np.tile(B.ravel() / intervals, intervals)


def solved(opti):
    """The solution of the program."""
    opti.solver("ipopt", {"print_time": False}, {"print_level": 0, "sb": "yes", "tol": 1e-9, "max_iter": 500})
    return opti.solve()


def least_effort(walker: Walker, step: float, duration, guess, intervals: int, degree: int, limit: float,
                 knees: Sequence[tuple[int, int]] = ()) -> tuple[float, np.ndarray]:
    """Least integral of squared torques of one periodic step, and the state at its start.

    duration: a number, or (lower, upper); guess: angles at both ends [2, n]; knees: pairs (a, b) with angle a >= angle b.
    """
    n, rate = walker.n, walker.rate()
    opti = ca.Opti()
    free = not np.isscalar(duration)
    T = opti.variable() if free else duration
    ends, x, u, weights = collocate(opti, rate, 2 * n, rate.size1_in(1), T, intervals, degree)
    for states in (ends, x):
        ramp = np.linspace(0, 1, states.shape[1])
        opti.set_initial(states[:n, :], guess[0][:, None] * (1 - ramp) + guess[1][:, None] * ramp)
    opti.subject_to(opti.bounded(-limit, ca.vec(u), limit))
    for a, b in knees:
        opti.subject_to(ca.vec(x[a, :] - x[b, :]) >= 0)
    opti.subject_to(ends[:, 0] == walker.impact()(ends[:, -1]))
    opti.subject_to(walker.foot()(ends[:, -1]) == ca.vertcat(step, 0))
    if free:
        opti.subject_to(opti.bounded(duration[0], T, duration[1]))
        opti.set_initial(T, sum(duration) / 2)
    cost = T * ca.dot(ca.DM(weights), ca.sum1(u**2).T)
    opti.minimize(cost)
    found = solved(opti)
    return float(found.value(cost)), np.asarray(found.value(ends[:, 0])).ravel()
