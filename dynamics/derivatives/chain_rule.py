"""The chain rule over a list of nodes: adjoints backward, tangents forward, and of every node a small Hessian of its own.

Node k is a function f_k whose inputs may depend on all before, ``s_k = f_k(X_k(v, s_1 .. s_k-1))``. With y = (v, s_1, s_2, ...),
Y = dy/dv, W_k = X_k,y Y and a Lagrangian L(y),

    lam_k = L_s_k + sum_(l > k) X_l,s_k' g_l        g_l = f_l,X' lam_l
    d2L/dv2 = sum_k W_k' f_k''(lam_k) W_k + Y' T_yy Y        T = L + sum_k g_k . X_k with g_k held constant

with the contracted second derivative f_k''(lam_k). T_yy is zero where L and all X_k are linear. Differentiating the whole graph
instead, one direction after the other, takes 1.2 to 3 times the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import casadi as ca

Expr = Any


@dataclass(frozen=True)
class Node:
    """One function. X_y [inputs, ny]: of its inputs by v and all s before, which its own s follows in y;
    derivatives(lam) -> J [outputs, inputs], and what gives ``f''(lam)`` [inputs, inputs] when called; linear: X_y is the same at
    all y."""

    X_y: Expr
    derivatives: Callable[[Expr], tuple[Expr, Callable[[], Expr]]]
    linear: bool = True


class Link(NamedTuple):
    """A node as the pass backward leaves it: J, g = J' lam, and what gives ``f''(lam)``."""

    J: Expr
    g: Expr
    second: Callable[[], Expr]


def backward(nodes: Sequence[Node], gradient: Expr) -> tuple[Expr, list[Link]]:
    """From the partial derivatives L_y [ny] the whole ``dL/dv`` [n], and the link of every node."""
    links = []
    for node in reversed(nodes):
        begin = node.X_y.shape[1]
        lam = gradient[begin:]
        J, second = node.derivatives(lam)
        links.append(Link(J, ca.mtimes(J.T, lam), second))
        gradient = gradient[:begin] + ca.mtimes(node.X_y.T, links[-1].g)
    return gradient, links[::-1]


def forward(nodes: Sequence[Node], links: Sequence[Link]) -> tuple[Expr, list[Expr]]:
    """Y [ny, n], and W [inputs, n] of every node."""
    Y, inputs = ca.SX.eye(nodes[0].X_y.shape[1]), []
    for node, link in zip(nodes, links, strict=True):
        inputs.append(ca.mtimes(node.X_y, Y))
        Y = ca.vertcat(Y, ca.mtimes(link.J, inputs[-1]))
    return Y, inputs


def congruence(K: Expr, X: Expr) -> Expr:
    """``X' K X``."""
    return ca.mtimes(X.T, ca.mtimes(K, X))


def curvature(nodes: Sequence[Node], links: Sequence[Link], Y: Expr, inputs: Sequence[Expr], T_yy: Expr | None = None
              ) -> Expr:
    """``d2L/dv2`` [n, n]. Nodes with curved inputs add terms that T_yy meets in y, where both have their entries."""
    total, T_yy = ca.SX(Y.shape[1], Y.shape[1]), ca.SX(Y.shape[0], Y.shape[0]) if T_yy is None else T_yy
    for node, link, W in zip(nodes, links, inputs, strict=True):
        if node.linear:
            total += congruence(link.second(), W)
        else:
            T_yy = T_yy + congruence(link.second(), ca.horzcat(node.X_y, ca.SX(W.shape[0], Y.shape[0] - node.X_y.shape[1])))
    return total + congruence(T_yy, Y)
