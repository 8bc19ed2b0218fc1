"""Inverse dynamics inside other functions, found and differentiated in closed form.

Where accelerations are controls, x = (q, v) and u = (a, ...), efforts ``tau = ID(q, v, a)`` occur in costs and limits, as parts of
expressions of (x, u) that nobody marks. ``split`` finds them: it numbers the values of the graph, equal numbers for equal
operations on equal values, and puts symbols where a value of the effort stands. What is left, ``rho(t, x, u, p, tau)``, is the same
function for any graph; if no effort is found, nothing changes but the work. Its derivatives in z = (dx, u) are, with
T = d tau / dz,

    rho_z + rho_tau T        rho_zz + rho_ztau T + (rho_ztau T)' + T' rho_tautau T + rho_tau . tau''

T and the contracted ``rho_tau . tau''`` from ``dynamics.derivatives``: on six joints a third of the operations of differentiating.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import casadi as ca

from dynamics import algorithms as alg
from dynamics.derivatives.inverse_contracted import contracted_inverse_dynamics
from dynamics.derivatives.inverse_first import inverse_dynamics_partials
from dynamics.model.model import Model

Expr = Any
_COMMUTE = (ca.OP_ADD, ca.OP_MUL)


def recursion(model: Model) -> ca.Function:
    """(q, v, a) -> tau [nv], the graph that ``split`` looks for; made once where several functions are split."""
    q, v, a = (ca.SX.sym(name, size) for name, size in zip("qva", (model.nq, model.nv, model.nv), strict=True))
    return ca.Function("effort", [q, v, a], [ca.densify(alg.inverse_dynamics(model, q, v, a))])


def split(model: Model, function: ca.Function, sought: ca.Function | None = None, start: int = 0) -> ca.Function | None:
    """(t, x, u, p, tau [nv]) -> value, such that tau = inverse dynamics of (x, u) gives ``function``; None where no effort is
    found. sought: ``recursion(model)``, where that is known already; start: where in u the accelerations begin."""
    symbols = [ca.SX.sym(name, function.size1_in(i)) for i, name in enumerate("txup")]
    x, u = symbols[1:3]
    value = ca.SX(function(*symbols))
    if value.nnz() == 0:
        return None
    effort = (sought or recursion(model))(x[:model.nq], x[model.nq:], u[start:start + model.nv])
    nodes, (efforts, values) = _numbered(ca.Function("both", symbols, [effort, value]))
    tau = ca.SX.sym("tau", model.nv)
    built: dict[int, Expr] = {}
    for i, number in enumerate(efforts):
        if isinstance(nodes[number][0], int):  # neither an input nor a constant
            built.setdefault(number, tau[i])
    for number in values:
        _build(nodes, number, built, symbols)
    rest = ca.SX(value.sparsity(), ca.vertcat(*(built[number] for number in values)))
    return ca.Function(function.name(), [*symbols, tau], [rest]) if ca.depends_on(rest, tau) else None


def _numbered(function: ca.Function) -> tuple[list[tuple[Any, ...]], list[list[int]]]:
    """Nodes by number, each an operation with the numbers of its operands, ("in", input, entry) or ("value", number), and the
    numbers of the nonzeros of every output."""
    nodes: list[tuple[Any, ...]] = []
    known: dict[tuple[Any, ...], int] = {}
    work: dict[int, int] = {}
    outputs: list[list[int]] = [[-1] * function.nnz_out(i) for i in range(function.n_out())]

    def number(node: tuple[Any, ...]) -> int:
        if node not in known:
            known[node] = len(nodes)
            nodes.append(node)
        return known[node]

    for k in range(function.n_instructions()):
        what, takes, gives = function.instruction_id(k), function.instruction_input(k), function.instruction_output(k)
        if what == ca.OP_OUTPUT:
            outputs[gives[0]][gives[1]] = work[takes[0]]
        elif what == ca.OP_INPUT:
            work[gives[0]] = number(("in", *takes))
        elif what == ca.OP_CONST:
            work[gives[0]] = number(("value", function.instruction_constant(k)))
        else:
            operands = [work[i] for i in takes]
            work[gives[0]] = number((what, *(sorted(operands) if what in _COMMUTE else operands)))
    return nodes, outputs


def _build(nodes: Sequence[tuple[Any, ...]], number: int, built: dict[int, Expr], symbols: Sequence[Expr]) -> None:
    """Expressions of a node and of all it needs, into ``built``."""
    waiting = [number]
    while waiting:
        here = waiting[-1]
        what, *takes = nodes[here]
        missing = [i for i in takes if i not in built] if isinstance(what, int) and here not in built else []
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if here in built:
            continue
        if what == "in":
            built[here] = symbols[takes[0]][takes[1]]
        elif what == "value":
            built[here] = ca.SX(takes[0])
        elif len(takes) == 1:
            built[here] = ca.SX.unary(what, built[takes[0]])
        else:
            built[here] = ca.SX.binary(what, built[takes[0]], built[takes[1]])


def first(model: Model, x: Expr, u: Expr) -> tuple[Expr, Expr]:
    """tau [nv] and T [nv, 2 nv + nu]."""
    nq, n = model.nq, model.nv
    found = inverse_dynamics_partials(model, x[:nq], x[nq:], u[:n])
    return found.tau, ca.horzcat(found.dtau_dq, found.dtau_dv, found.M, ca.SX(n, u.shape[0] - n))


def second(model: Model, x: Expr, u: Expr, weights: Expr) -> Expr:
    """Hessian [2 nv + nu, 2 nv + nu] of ``weights . tau(x [+] dx, u)`` by z = (dx, u) at dx = 0."""
    nq, n = model.nq, model.nv
    found = contracted_inverse_dynamics(model, x[:nq], x[nq:], u[:n], weights)
    rows = [ca.horzcat((found.qq + found.qq.T) / 2, found.qv, found.qa),
            ca.horzcat(found.qv.T, found.vv, ca.SX(n, n)), ca.horzcat(found.qa.T, ca.SX(n, 2 * n))]
    return ca.diagcat(ca.vertcat(*rows), ca.SX(u.shape[0] - n, u.shape[0] - n))


def through(H: Expr, T: Expr) -> Expr:
    """The Hessian in z of rho(z, tau(z)) without the curvature of tau, from that of rho in (z, tau)."""
    size = T.shape[1]
    mixed = ca.mtimes(H[:size, size:], T)
    return H[:size, :size] + mixed + mixed.T + ca.mtimes(T.T, ca.mtimes(H[size:, size:], T))
