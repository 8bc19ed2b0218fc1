"""Implicit steps of a mechanism: the residual of positions alone, Newton with its exact matrix, no inverse of M anywhere.

With ``r = ID(q, v, a) - f`` the residual of a solve is ``g = (gamma h)^2 r(q, v, w / (gamma h)^2)`` and its Newton matrix
``H = M + gamma h r_v + (gamma h)^2 r_q``: M + dM w - gamma h D - (gamma h)^2 K in the words of the document. Source: Sueda,
section 3.4 and Algorithm 12; r and its derivatives come from the recursions, in O(n depth) operations. The steps are those of
``dynamics.steps``, with accelerations as unknowns: Newton's iterates are the same.

>>> from dynamics.model.synthetic import serial_chain
>>> run = simulate(system(Mechanism(serial_chain(1)), mode="interpreted"), "bdf2", ([0.0], [0.0]), 0.01, 10)
>>> run.t[-1].item(), run.q[-1].round(4), linearly_implicit(Mechanism(serial_chain(1)))(0, 0, [], 0.01)
(0.1, array([0.1467]), (DM(0.00293713), DM(0.293713)))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms import rate_matrix
from dynamics.derivatives.inverse_first import inverse_dynamics_partials
from dynamics.errors import ModelError, Picklable
from dynamics.kernels import Kernel, compile_many
from dynamics.lie.expression import Expr
from dynamics.mechanism import Mechanism
from dynamics.redmax import parameters as free
from dynamics.redmax.equations import redmax
from dynamics.steps.march import Equations, March, Newton
from dynamics.steps.schemes import Solve, plan

#: of Newton's method in flat coordinates
COAST = Newton(coast=True)


@dataclass(frozen=True)
class System:
    """A mechanism with free parameters as kernels: terms(q, v, a, u, p) -> r, r_q, r_v, M; vjp(..., z) -> ``r_u' z``, ``r_p' z``;
    steps: those of a march. nominal: the parameters [np] at which the mechanism is itself."""

    mechanism: Mechanism
    parameters: tuple[free.Parameter, ...]
    nominal: np.ndarray
    terms: Kernel
    vjp: Kernel
    steps: tuple[Kernel, ...]

    def linearised(self, node: np.ndarray, u: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, ...]:
        """r [n], and r_q, r_v, M [n, n], at a node (q, v, a)."""
        n = self.mechanism.model.nv
        r, *matrices = self.terms(*node, u, p)  # a kernel gives [1, 1] as a number
        return np.reshape(r, n), *(np.reshape(x, (n, n)) for x in matrices)


def system(mechanism: Mechanism, parameters: Sequence[free.Parameter] = (), mode: str = "auto") -> System:
    """Kernels of a mechanism; mode: as of ``compile_kernel``. Raises ModelError for joints without flat coordinates, for
    constraints, and for parameters that the mechanism does not have."""
    free.flat_coordinates(mechanism)
    free.check(mechanism, parameters)
    n = mechanism.model.nv
    at = [ca.SX.sym(name, size) for name, size in zip("qvaup", (n, n, n, mechanism.nu, len(parameters)), strict=True)]
    r = free.residual(mechanism, parameters, at)
    z = ca.SX.sym("z", n)
    slopes = [ca.jacobian(r, x) for x in at[:3]] if parameters else _closed_form(mechanism, at)
    names = list("qvaup")
    terms = ca.Function("terms", at, [ca.densify(x) for x in ca.cse([r, *slopes])], names, ["r", "r_q", "r_v", "M"])
    vjp = ca.Function("pull", [*at, z], [ca.densify(ca.jtimes(r, x, z, True)) for x in at[3:]], [*names, "z"], ["r_u_z", "r_p_z"])
    values, pulls, *steps = compile_many([terms, vjp, *_steps(terms)], mode=mode)  # type: ignore[arg-type]
    return System(mechanism, tuple(parameters), np.array(free.nominal(mechanism, parameters)), values, pulls, tuple(steps))


def _steps(terms: ca.Function) -> Equations:
    """Stages in flat coordinates: ``v = v_0 + y_v + s a``, ``q = q_0 + y_q + s v`` with s = gamma h, and H as the matrix."""
    n, nu, count = (terms.size1_in(i) for i in (0, 3, 4))
    sizes = {"a": n, "t": 1, "x": 2 * n, "y": 2 * n, "s": 1, "u": nu, "p": count}
    a, t, x, y, s, u, p = inputs = [ca.SX.sym(name, size) for name, size in sizes.items()]
    v = x[n:] + y[n:] + s * a
    q = x[:n] + y[:n] + s * v
    r, r_q, r_v, M = terms(q, v, a, u, p)
    return Equations(ca.Function("stage", inputs, [r, M + s * r_v + s**2 * r_q]),
                     ca.Function("reached", [a, x, y, s], [ca.vertcat(q, v), ca.vertcat(v, a)]),
                     ca.Function("back", [x, y], [y - x]), ca.Function("running", [t, x, u, p], [ca.DM(0, 1)]))


def _closed_form(mechanism: Mechanism, at: Sequence[Expr]) -> list[Expr]:
    q, v, a, u, _ = at
    model, thrusts = mechanism.model, u[len(mechanism.motors):]
    if any(thruster.against for thruster in mechanism.thrusters):  # wrenches that turn with another body
        found = inverse_dynamics_partials(model, q, v, a, {})
        pushed = ca.jacobian(mechanism.thrust_effort(q, thrusts), q) @ rate_matrix(model, q)
    else:
        found, pushed = inverse_dynamics_partials(model, q, v, a, mechanism.wrenches(thrusts)), 0
    by_q, by_v = found.dtau_dq - mechanism.stiffness(q, v) - pushed, found.dtau_dv - mechanism.damping(q, v)
    return [ca.SX(by_q), ca.SX(by_v), ca.SX(found.M)]


class Factors(NamedTuple):
    """Terms of one solve that an adjoint needs, at the node that it found, with s = gamma h: M, ``s r_v`` and SciPy's LU factors of
    the Newton matrix ``H = M + s r_v + s^2 r_q``, [n, n] each."""

    M: np.ndarray
    damping: np.ndarray
    lu: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, s: float, r_q: np.ndarray, r_v: np.ndarray, M: np.ndarray) -> Factors:
        """Factors of M + s r_v + s^2 r_q for a step of length s [s]."""
        from scipy.linalg import lu_factor  # only here: it takes a while

        return cls(M, s * r_v, lu_factor(M + s * r_v + s**2 * r_q))

    def adjoint(self, y: np.ndarray) -> np.ndarray:
        """The z [n] with ``H' z = y``."""
        from scipy.linalg import lu_solve

        return np.asarray(lu_solve(self.lu, y, trans=1))


@dataclass(frozen=True)
class Simulation:
    """Outcome of implicit steps. t [N+1]; q, v [N+1, n]: at the ends of steps. nodes: (q, v, a) [n each] of every solve, after the
    initial state; solves: the plan that they follow; u [N, nu], p [np], h. iterations: of Newton for every solve; factors: of every
    solve, where they were to be kept."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    nodes: np.ndarray
    solves: tuple[Solve, ...]
    u: np.ndarray
    p: np.ndarray
    h: float
    iterations: tuple[int, ...]
    factors: tuple[Factors, ...] = ()


class NewtonError(Picklable, RuntimeError):
    """An implicit step has no solution that Newton finds. Attributes: step (from 0), time [s], joint (velocity with the largest
    part of the residual), residual (its size over the mass, rad or m), simulation (the steps before it)."""

    def __init__(self, step: int, time: float, joint: str, residual: float, simulation: Simulation, why: str):
        self.step, self.time, self.joint, self.residual, self.simulation = step, time, joint, residual, simulation
        super().__init__(f"step {step} (t = {time:.6g} s): {why}; the residual is {residual:.3g} at joint {joint!r}; "
                         "a shorter step may help")


def simulate(system: System, method: str, start: tuple[ArrayLike, ArrayLike], h: float, steps: int, u: ArrayLike | None = None,
             p: ArrayLike | None = None, options: Newton | None = None, keep: bool = False) -> Simulation:
    """Steps of length h [s] from start = (q, v). u: [N, nu], constant over each step, None: 0; p: [np], None: nominal; keep:
    factors of every solve, 3 n^2 numbers each, with which a gradient evaluates no matrix again; options: default: stages start
    where their velocities carry them.

    Raises ModelError for wrong sizes, NewtonError where a step fails.
    """
    n, nu = system.mechanism.model.nv, system.mechanism.nu
    controls = np.zeros((steps, nu)) if u is None else np.asarray(u, float)
    values = system.nominal if p is None else np.asarray(p, float)
    q, v = (np.asarray(x, float).ravel() for x in start)
    for name, found, wanted in (("q", q.shape, (n,)), ("v", v.shape, (n,)), ("u", controls.shape, (steps, nu)),
                                ("p", values.shape, system.nominal.shape)):
        if found != wanted:
            raise ModelError(f"{name} has shape {found}, expected {wanted}", element=f"model {system.mechanism.model.name!r}")
    if not (h > 0 and np.isfinite(h)):
        raise ModelError(f"the step must be positive, got {h}", element=f"model {system.mechanism.model.name!r}")
    solves = plan(method, steps)
    march = March(system.steps, method, options or COAST)
    found = march.run(np.concatenate([q, v]), h * np.arange(steps + 1), controls, values)
    count, failed = len(found.z), found.failure
    nodes = np.zeros((count + 1, 3, n))
    nodes[:, :2] = np.vstack([np.concatenate([q, v]), found.nodes]).reshape(-1, 2, n)
    nodes[1:, 2] = found.z
    factors = [Factors.of(solve.gamma * h, *system.linearised(node, controls[solve.step], values)[1:])
               for solve, node in zip(solves, nodes[1:], strict=False) if keep]
    ends = [0, *(k + 1 for k, solve in enumerate(solves[:count]) if solve.last)]
    run = Simulation(h * np.arange(len(ends)), nodes[ends, 0], nodes[ends, 1], nodes, solves[:count], controls, values, h,
                     tuple(found.iterations.tolist()), tuple(factors))
    if failed is not None:
        raise NewtonError(failed.step, failed.time, system.mechanism.model.velocity_names[failed.row],
                          failed.residual * failed.gamma**2, run, failed.why)
    return run


def linearly_implicit(mechanism: Mechanism, symmetric: bool = False) -> ca.Function:
    """(q, v, u, h) -> (q_next, v_next): one linear solve, ``(M - h D - h^2 K) v+ = M v + h (f - D v)`` and ``q+ = q + h v+``, with
    K and D of forces and wrenches on bodies; what J and dJ/dt add to them is left out. symmetric: with their symmetric parts
    instead (Baraff and Witkin 1998), with which conjugate gradients serve and the order stays; they are no derivatives any more.
    Source: Sueda, Eqs. 2.85 and 2.86, with the signs K = df/dq, D = df/dv. Raises ModelError as :func:`system`."""
    free.flat_coordinates(mechanism)
    n = mechanism.model.nv
    q, v, u, h = (ca.SX.sym(name, size) for name, size in (("q", n), ("v", n), ("u", mechanism.nu), ("h", 1)))
    at = redmax(mechanism, q, v, u)
    K, D = ((X + X.T) / 2 if symmetric else X for X in (at.K_forces, at.D_forces))
    new = ca.solve(ca.densify(ca.SX(at.M - h * D - h**2 * K)), ca.densify(at.M @ v + h * (at.f - D @ v)))
    return ca.Function("linearly_implicit", [q, v, u, h], [q + h * new, new], ["q", "v", "u", "h"], ["q_next", "v_next"])
