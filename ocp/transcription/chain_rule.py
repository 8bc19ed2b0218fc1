"""Blocks whose functions bring derivatives of their own, written out as one scalar graph by the chain rule.

Such functions are nodes of a matrix graph. Differentiating that graph pushes one dense direction after another through every node;
on floating bases this takes three times as long as the sparse products below. With s_k = f_k(X_k(v, s_1 .. s_k-1)) for the calls in
the order of evaluation, y = (v, s_1, s_2, ...), Y = dy/dv and a Lagrangian L(y),

    dL/dv = Y' L_y        d2L/dv2 = Y' (T_yy + sum_k X_k,y' f_k''(lam_k) X_k,y) Y,      T = L + sum_k g_k . X_k,

where lam_k is the derivative of L by s_k, later calls included, g_k = f_k,X' lam_k is held constant in T, and f_k''(lam_k) is the
contracted second derivative that f_k brings along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca

from dynamics.derivatives.analytic import CONSTRAINED, INJECTED
from dynamics.kernels import operations
from ocp.spaces import Expr

LARGEST = 100_000
"""Operations of the second derivatives of all calls up to which they are written out; larger graphs keep calls."""


@dataclass(frozen=True)
class Call:
    """One call: s = function(inputs), inputs as expressions of (v, d, earlier s)."""

    function: ca.Function
    s: ca.MX
    inputs: tuple[ca.MX, ...]


class Written(NamedTuple):
    """A block and its derivatives as expressions of the symbols v, d, s and mu [ny]: cost, rows, gradient of the cost, Jacobian of
    the rows, and the upper triangle of the Hessian of ``s cost + mu . rows``."""

    v: Expr
    d: Expr
    s: Expr
    mu: Expr
    cost: Expr
    rows: Expr
    gradient: Expr
    jacobian: Expr
    hessian: Expr


def written(v: Expr, d: Expr, cost: Expr, rows: Expr) -> Written | None:
    """Scalar expressions of ``cost`` and ``rows``, functions of v and d, and of their derivatives by v; None where no call brings
    closed-form derivatives, or where something has no scalar form or one beyond ``LARGEST``."""
    if not isinstance(v, ca.MX):
        return None
    calls, (cost, rows) = separated(v, d, [cost, rows])
    if not calls or sum(operations(call.function.reverse(1).jacobian()) for call in calls) > LARGEST:
        return None
    try:
        return _written(v, d, cost, rows, calls)
    except RuntimeError:  # external code has no scalar form
        return None


def separated(v: ca.MX, d: ca.MX, expressions: Sequence[ca.MX]) -> tuple[list[Call], list[ca.MX]]:
    """The calls of functions with derivatives of their own, in the order of evaluation, and the expressions with symbols in their
    place."""
    calls: list[Call] = []
    left = [ca.densify(e) for e in expressions]
    found = _called([v, d], left)
    if len(found) > 1:  # what costs and constraints share is called once
        left = ca.cse(left)
        found = _called([v, d], left)
    while found:
        node, function = found[0], found[0].which_function()
        s = ca.MX.sym(f"s{len(calls)}", function.size1_out(0))
        calls.append(Call(function, s, tuple(node.dep(i) for i in range(node.n_dep()))))
        left = ca.graph_substitute(left, [node.get_output(0)], [s])
        found = _called([v, d, *(call.s for call in calls)], left)
    return calls, left


def _called(symbols: Sequence[ca.MX], expressions: Sequence[ca.MX]) -> list[ca.MX]:
    """Nodes that call functions with closed-form derivatives, in the order of evaluation."""
    graph = ca.Function("graph", list(symbols), list(expressions))
    nodes = [graph.instruction_MX(k) for k in range(graph.n_instructions()) if graph.instruction_id(k) == ca.OP_CALL]
    return [node for node in nodes if node.which_function().name() in (*INJECTED, CONSTRAINED)]


def _written(v: ca.MX, d: ca.MX, cost: ca.MX, rows: ca.MX, calls: Sequence[Call]) -> Written:
    inputs = [ca.vertcat(*call.inputs) for call in calls]
    flat = ca.Function("flat", [v, d, *(call.s for call in calls)], [cost, rows, *inputs]).expand()
    V, D, *S = flat.sx_in()
    cost, rows, *X = flat.call([V, D, *S])
    y = ca.vertcat(V, *S)
    n, weight, mu = V.shape[0], ca.SX.sym("s"), ca.SX.sym("mu", rows.shape[0])
    ends = [n]
    for s in S:
        ends.append(ends[-1] + s.shape[0])
    L = weight * cost + ca.dot(mu, rows)
    X_y = [ca.jacobian(x, y) for x in X]
    total, pulls = ca.gradient(L, y), [ca.SX.sym(f"g{k}", x.shape[0]) for k, x in enumerate(X)]
    J: list[ca.SX] = []
    bends: list[ca.SX] = []
    pulled: list[ca.SX] = []
    for k in reversed(range(len(calls))):
        lam = total[ends[k]:ends[k + 1]]
        j, bent = _derivatives(calls[k], X[k], S[k], lam)
        g = ca.mtimes(j.T, lam)
        total = total + ca.mtimes(X_y[k].T, g)
        J, bends, pulled = [j, *J], [ca.mtimes(X_y[k].T, ca.mtimes(bent, X_y[k])), *bends], [g, *pulled]
    Y = ca.SX.eye(n)
    for x_y, j in zip(X_y, J, strict=True):
        Y = ca.vertcat(Y, ca.mtimes(j, ca.mtimes(x_y[:, :Y.shape[0]], Y)))
    T = L + sum((ca.dot(g, x) for g, x in zip(pulls, X, strict=True)), start=ca.SX(0))
    bend = sum(bends, start=ca.substitute(ca.hessian(T, y)[0], ca.vertcat(*pulls), ca.vertcat(*pulled)))
    results = [cost, rows, ca.densify(ca.mtimes(Y.T, ca.gradient(cost, y))), ca.mtimes(ca.jacobian(rows, y), Y),
               ca.triu(ca.mtimes(Y.T, ca.mtimes(bend, Y)))]
    for call, x, s in reversed(list(zip(calls, X, S, strict=True))):
        results = ca.substitute(results, [s], [call.function(*_parts(call, x))])
    # repetitions are not looked for: what is shared was written once, and the search would take longer than all of the above
    cost, rows, gradient, jacobian, hessian = results
    return Written(V, D, weight, mu, cost, rows, gradient, ca.sparsify(jacobian), ca.sparsify(hessian))


def _parts(call: Call, x: ca.SX) -> list[ca.SX]:
    ends = [0]
    for entry in call.inputs:
        ends.append(ends[-1] + entry.shape[0])
    return ca.vertsplit(x, ends)


def _derivatives(call: Call, x: ca.SX, s: ca.SX, lam: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Jacobian of f, and second derivatives of ``lam . f``, by all inputs: from one evaluation, for the two share their work."""
    reverse, k = call.function.reverse(1), len(call.inputs)
    parts = _parts(call, x)
    blocks = reverse.jacobian().call([*parts, s, lam, *parts])
    width = k + 2  # of each adjoint: by the inputs, the value and the seed
    return (ca.horzcat(*(blocks[i * width + k + 1].T for i in range(k))),
            ca.vertcat(*(ca.horzcat(*blocks[i * width:i * width + k]) for i in range(k))))
