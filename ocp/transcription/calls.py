"""Blocks whose functions bring derivatives of their own, written out as one scalar graph by the chain rule.

Such functions are nodes of a matrix graph. Differentiating that graph pushes one dense direction after another through every node;
on floating bases this takes three times as long as the sparse products of ``dynamics.derivatives.chain_rule``, in whose terms the
nodes are s_k = f_k(X_k(v, s_1 .. s_k-1)) for the calls in the order of evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import casadi as ca

from dynamics.derivatives.analytic import CONSTRAINED, INJECTED
from dynamics.derivatives.chain_rule import Node, backward, curvature, forward
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
    evaluation point."""
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
    weight, mu = ca.SX.sym("s"), ca.SX.sym("mu", rows.shape[0])
    L, pulls = weight * cost + ca.dot(mu, rows), [ca.SX.sym(f"g{k}", x.shape[0]) for k, x in enumerate(X)]
    nodes = []
    for k, (call, x) in enumerate(zip(calls, X, strict=True)):
        X_y = ca.jacobian(x, ca.vertcat(V, *S[:k]))
        nodes.append(Node(X_y, partial(_derivatives, call, x, S[k]), linear=not ca.depends_on(X_y, y)))
    _, links = backward(nodes, ca.gradient(L, y))
    Y, W = forward(nodes, links)
    T = L + sum((ca.dot(g, x) for g, x in zip(pulls, X, strict=True)), start=ca.SX(0))
    bend = ca.substitute(ca.hessian(T, y)[0], ca.vertcat(*pulls), ca.vertcat(*(link.g for link in links)))
    results = [cost, rows, ca.densify(ca.mtimes(Y.T, ca.gradient(cost, y))), ca.mtimes(ca.jacobian(rows, y), Y),
               ca.triu(curvature(nodes, links, Y, W, bend))]
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


def _derivatives(call: Call, x: ca.SX, s: ca.SX, lam: ca.SX) -> tuple[ca.SX, Callable[[], ca.SX]]:
    """Jacobian of f, and second derivatives of ``lam . f``, by all inputs: from one evaluation, for the two share their work."""
    reverse, k = call.function.reverse(1), len(call.inputs)
    parts = _parts(call, x)
    blocks = reverse.jacobian().call([*parts, s, lam, *parts])
    width = k + 2  # of each adjoint: by the inputs, the value and the seed
    return (ca.horzcat(*(blocks[i * width + k + 1].T for i in range(k))),
            lambda: ca.vertcat(*(ca.horzcat(*blocks[i * width:i * width + k]) for i in range(k))))
