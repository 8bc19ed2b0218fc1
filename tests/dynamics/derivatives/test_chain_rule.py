"""The chain rule over lists of nodes against CasADi's Hessian of the whole expression."""

import casadi as ca
import numpy as np
import pytest

from dynamics.derivatives.chain_rule import Node, backward, curvature, forward


def chain(linear):
    """v, the Lagrangian of two nodes as one expression, its value by the chain rule: gradient and Hessian."""
    v, s1, s2, z, lam = (ca.SX.sym(name, size) for name, size in (("v", 3), ("s1", 2), ("s2", 2), ("z", 2), ("lam", 2)))
    f = [ca.Function("f", [z], [ca.vertcat(ca.sin(z[0]) * z[1], z[0] ** 2)]),
         ca.Function("g", [z], [ca.vertcat(ca.exp(0.3 * z[0]) - z[1] ** 3, z[0] * z[1])])]
    X = [v[:2] + v[1:], s1 - 0.5 * v[:2] if linear else ca.vertcat(s1[0] * v[2], ca.cos(s1[1]) + v[0])]
    y = ca.vertcat(v, s1, s2)
    L = s2[0] + 2 * s1[1] + v[0] + (0 if linear else s2[1] ** 2 * v[2] + s1[0] * s2[0])
    first, second = f[0](X[0]), ca.substitute(f[1](X[1]), s1, f[0](X[0]))

    def node(k, before):
        J = ca.jacobian(f[k](z), z)
        bend = ca.hessian(ca.dot(lam, f[k](z)), z)[0]
        return Node(ca.jacobian(X[k], before), lambda weights: (ca.substitute(J, z, X[k]), lambda: ca.substitute(
            bend, ca.vertcat(z, lam), ca.vertcat(X[k], weights))), linear=linear or not k)

    nodes = [node(0, v), node(1, ca.vertcat(v, s1))]
    gradient, links = backward(nodes, ca.gradient(L, y))
    pulls = [ca.SX.sym(f"g{k}", 2) for k in range(2)]
    T_yy = ca.hessian(L + sum(ca.dot(g, x) for g, x in zip(pulls, X, strict=True)), y)[0]
    T_yy = None if linear else ca.substitute(T_yy, ca.vertcat(*pulls), ca.vertcat(*(link.g for link in links)))
    found = [gradient, curvature(nodes, links, *forward(nodes, links), T_yy)]
    whole, *found = (ca.substitute(ca.substitute(e, s2, second), s1, first) for e in (L, *found))
    hessian, slope = ca.hessian(whole, v)
    return ca.Function("both", [v], [*found, slope, hessian])


@pytest.mark.parametrize("linear", [True, False])
def test_gradients_and_curvature_are_those_of_the_whole(linear):
    gradient, hessian, slope, whole = map(np.array, chain(linear)(np.array([0.4, -0.7, 1.1])))
    np.testing.assert_allclose(gradient, slope, rtol=1e-13)
    np.testing.assert_allclose(hessian, whole, rtol=1e-12, atol=1e-13)
    assert np.abs(whole).min() > 1e-3
