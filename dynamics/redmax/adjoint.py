"""Gradients of an objective of implicit steps by one sweep backwards: the same cost for any number of parameters.

A solve finds (q_k, v_k) from past nodes by ``g_k = 0``. With q', v' the objective's derivatives by what a node holds, later nodes
included, the sweep solves ``H' z = q' + v' / (gamma h)`` and hands on

    q'_j += c_j M' z + a_j (gamma h r_v' z - v' / (gamma h))      to every past node j, with the weights of the scheme,
    v'_j += h d_j M' z + h b_j (gamma h r_v' z - v' / (gamma h))

so that start-up steps and initial states need no case of their own. Gradients by u and p are ``-(gamma h)^2 r_u' z`` and
``-(gamma h)^2 r_p' z``. Source: Sueda, section 3.5; Cao, Li, Petzold and Serban 2003 for the method.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from dynamics.errors import ModelError
from dynamics.redmax.implicit import Factors, Simulation, System


@dataclass(frozen=True)
class Objective:
    """``sum over steps of running(t, q, v, u, p) + final(q, v, p)``, scalar CasADi Functions; either may be None. ``running`` is
    taken at the end of every step, with the control of that step."""

    running: ca.Function | None = None
    final: ca.Function | None = None


@dataclass(frozen=True)
class Gradient:
    """The objective's value, and its gradient by the initial state q, v [n], the controls u [N, nu] and the parameters p [np].
    multipliers: z [n] of every solve."""

    value: float
    q: np.ndarray
    v: np.ndarray
    u: np.ndarray
    p: np.ndarray
    multipliers: np.ndarray


def value(objective: Objective, run: Simulation) -> float:
    """The objective along a simulation."""
    total = 0.0
    if objective.running is not None:
        total += sum(float(objective.running(t, q, v, u, run.p)) for t, q, v, u in zip(
            run.t[1:], run.q[1:], run.v[1:], run.u, strict=False))
    return total if objective.final is None else total + float(objective.final(run.q[-1], run.v[-1], run.p))


def gradient(system: System, objective: Objective, run: Simulation) -> Gradient:
    """Of a whole simulation by :func:`dynamics.redmax.implicit.simulate`, with its factors where it keeps them. Raises ModelError
    for one that ended early, or for functions of other shapes."""
    if not run.solves or len(run.t) != len(run.u) + 1:
        raise ModelError("an adjoint needs a whole simulation of at least one step",
                         element=f"simulation of {len(run.t) - 1} of {len(run.u)} steps")
    n, size = system.mechanism.model.nv, len(run.nodes)
    q_bar, v_bar = np.zeros((size, n)), np.zeros((size, n))
    u_bar, p_bar = np.zeros(run.u.shape), np.zeros(run.p.shape)
    _seed(objective, run, (q_bar, v_bar, u_bar, p_bar))
    multipliers = np.zeros((len(run.solves), n))
    for k in reversed(range(len(run.solves))):
        solve, node = run.solves[k], k + 1
        s, u = solve.gamma * run.h, run.u[solve.step]
        at = run.factors[k] if run.factors else Factors.of(s, *system.linearised(run.nodes[node], u, run.p)[1:])
        z = at.adjoint(q_bar[node] + v_bar[node] / s)
        by_w, by_v = at.M.T @ z, at.damping.T @ z - v_bar[node] / s
        for weight, j in zip(solve.weights, solve.past, strict=True):
            q_bar[j] += weight.c * by_w + weight.a * by_v
            v_bar[j] += run.h * (weight.d * by_w + weight.b * by_v)
        by_u, by_p = system.vjp(*run.nodes[node], u, run.p, z)
        u_bar[solve.step] -= s**2 * np.ravel(by_u)
        p_bar -= s**2 * np.ravel(by_p)
        multipliers[k] = z
    return Gradient(value(objective, run), q_bar[0], v_bar[0], u_bar, p_bar, multipliers)


def _seed(objective: Objective, run: Simulation, adjoints: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]) -> None:
    """The objective's own derivatives by nodes, controls and parameters."""
    q_bar, v_bar, u_bar, p_bar = adjoints
    ends = [k + 1 for k, solve in enumerate(run.solves) if solve.last]
    if objective.running is not None:
        gradients = _gradients(objective.running, 5)
        for k, node in enumerate(ends):
            found = gradients(run.t[k + 1], *run.nodes[node, :2], run.u[k], run.p)
            for bar, slope in zip((q_bar[node], v_bar[node], u_bar[k], p_bar), found[1:], strict=True):
                bar += np.asarray(slope).ravel()
    if objective.final is not None:
        found = _gradients(objective.final, 3)(*run.nodes[ends[-1], :2], run.p)
        for bar, slope in zip((q_bar[ends[-1]], v_bar[ends[-1]], p_bar), found, strict=True):
            bar += np.asarray(slope).ravel()


def _gradients(function: ca.Function, inputs: int) -> ca.Function:
    """The gradient by every input."""
    if function.n_in() != inputs or function.size_out(0) != (1, 1):
        raise ModelError(f"an objective needs {inputs} inputs and a scalar, {function.name()!r} has {function.n_in()} and "
                         f"{function.size_out(0)}")
    x = [ca.SX.sym("x", *function.size_in(i)) for i in range(inputs)]
    scalar = function(*x)
    return ca.Function("slopes", x, [ca.densify(ca.gradient(scalar, y)) for y in x])
