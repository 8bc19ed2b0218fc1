"""Closed-form derivatives inside MX graphs: right, used exactly once, and really used; and in the coordinates of q."""

import gc

import casadi as ca
import numpy as np
import pytest
from row_trees import coupled, tree_of

from dynamics import algorithms as alg
from dynamics import derivatives as der
from dynamics.derivatives import analytic as module
from dynamics.derivatives.inverse_contracted import contracted_inverse_dynamics
from dynamics.errors import ModelError

PLAIN = {"inverse_dynamics": alg.inverse_dynamics, "forward_dynamics": alg.forward_dynamics}


def model_and_point(seed=0):
    model = tree_of("free_flyer", "revolute", "spherical", "planar", "universal", seed=seed, branching=0.5)
    rng = np.random.default_rng(seed)
    q = 1.2 * alg.random_configuration(model, rng)  # off the unit sphere
    return model, q, *rng.standard_normal((3, model.nv))


def split(model, z):
    n = model.nv
    return z[:model.nq], z[model.nq:model.nq + n], z[model.nq + n:]


def normalised(model, name):
    """The same function as an SX graph without any analytic derivative."""
    return lambda q, *x: PLAIN[name](model, der.unit_configuration(model, q)[0], *x)


def derivatives(model, f, symbol):
    z, lam = symbol("z", model.nq + 2 * model.nv), symbol("lam", model.nv)
    y = f(*split(model, z))
    H, g = ca.hessian(ca.dot(lam, y), z)
    nonlinear = ca.hessian(ca.sin(ca.dot(lam, y)), z)[0]
    return ca.Function("d", [z, lam], [ca.jacobian(ca.sin(y), z), g, H, nonlinear])


def close(a, b, tolerance=1e-11):
    a, b = np.array(a), np.array(b)
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.abs(b).max()))


@pytest.mark.row("002:H13")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_tangent_derivatives_in_the_coordinates_of_q(seed):
    model, q, v, a, lam = model_and_point(seed)
    x = [ca.SX.sym("x", len(y)) for y in (q, v, a, lam)]
    unit, _ = der.unit_configuration(model, x[0])
    expected = ca.hessian(ca.dot(x[3], alg.inverse_dynamics(model, unit, *x[1:3])), x[0])
    c = contracted_inverse_dynamics(model, unit, *x[1:])
    ours = der.ambient_hessian(model, x[0], c.gq, der.symmetrised(c.qq)), der.ambient_gradient(model, x[0], c.gq)
    H, g, H0, g0 = (np.array(y) for y in ca.Function("f", x, [*ours, *expected])(q, v, a, lam))
    close(H, H0)
    close(g, g0)
    # the textbook form for one quaternion: 4 U H U^T - (g q^T + q g^T) at unit length
    i = next(i for i, b in enumerate(model.bodies) if b.joint.kind == "spherical")
    unit_q = np.array(der.unit_configuration(model, ca.DM(q))[0]).ravel()
    gq, _, _, H_tangent, *_ = der.inverse_dynamics_hessian(model)(unit_q, v, a, lam)
    w, x_, y_, z_ = unit_q[model.q_slice(i)]
    U = np.array([[-x_, -y_, -z_], [w, -z_, y_], [z_, w, -x_], [-y_, x_, w]])
    vs, S = model.v_slice(i), np.array(der.symmetrised(H_tangent))
    gradient = 2 * U @ np.array(gq).ravel()[vs]
    at_unit = ca.Function("f", x, [ours[0]])(unit_q, v, a, lam)
    block = 4 * U @ S[vs, vs] @ U.T - np.outer(gradient, unit_q[model.q_slice(i)]) - np.outer(unit_q[model.q_slice(i)], gradient)
    close(np.array(at_unit)[model.q_slice(i), model.q_slice(i)], block)


@pytest.mark.row("002:H21")
@pytest.mark.parametrize("name", PLAIN)
def test_derivatives_of_a_graph_with_an_injected_function(name):
    model, q, v, w, lam = model_and_point()
    f = der.analytic_function(model, name)
    gc.collect()  # the reverse derivative lives in the cache of f and nowhere else
    z = np.r_[q, v, w]
    for x, y in zip(derivatives(model, f, ca.MX.sym)(z, lam), derivatives(model, normalised(model, name), ca.SX.sym)(z, lam),
                    strict=True):
        close(x, y, 1e-9)


def calls(function):
    return [function.instruction_MX(k).which_function().name() for k in range(function.n_instructions())
            if function.instruction_id(k) == ca.OP_CALL]


@pytest.mark.row("002:H21")
@pytest.mark.parametrize("name", PLAIN)
def test_each_derivative_is_called_exactly_once(name):
    model, *_ = model_and_point()
    f = der.analytic_function(model, name)
    z, lam = ca.MX.sym("z", model.nq + 2 * model.nv), ca.MX.sym("lam", model.nv)
    y = f(*split(model, z))
    H, g = ca.hessian(ca.dot(lam, y), z)
    assert calls(ca.Function("J", [z], [ca.jacobian(y, z)])) == [name, f"jac_{name}"]
    assert calls(ca.Function("g", [z, lam], [g])) == [name, f"adj1_{name}"]
    assert calls(ca.Function("H", [z, lam], [H])) == [name, f"adj1_{name}", f"jac_adj1_{name}"]


@pytest.mark.row("002:H21")
@pytest.mark.parametrize("name", PLAIN)
def test_poisoned_derivatives_reach_every_derivative(name, monkeypatch):
    """Wrong factors, one for each of the three given functions, must appear where that function is due."""
    model, q, v, w, lam = model_and_point()
    partials, contracted = ("inverse_dynamics_partials", "contracted_inverse_dynamics") if name == "inverse_dynamics" else (
        "forward_dynamics_partials", "contracted_forward_dynamics")
    right_first, right_second = getattr(module, partials), getattr(module, contracted)

    def first(*args):
        x = right_first(*args)
        return x._replace(**{field: 3 * getattr(x, field) for field in x._fields[1:4]})

    def second(*args):
        x = right_second(*args[:5])  # with first derivatives of its own
        return type(x)(*(5 * part for part in x[:3]), *(7 * part for part in x[3:]))

    z = np.r_[q, v, w]
    _, g, H, _ = derivatives(model, der.analytic_function(model, name), ca.MX.sym)(z, lam)
    lin = ca.MX.sym("z", len(z))
    J = ca.Function("J", [lin], [ca.jacobian(der.analytic_function(model, name)(*split(model, lin)), lin)])(z)
    monkeypatch.setattr(module, "remembered", lambda words, build: build())  # poison is for nobody's cache
    monkeypatch.setattr(module, partials, first)
    monkeypatch.setattr(module, contracted, second)
    f = der.analytic_function(model, name)
    _, bad_g, bad_H, _ = derivatives(model, f, ca.MX.sym)(z, lam)
    bad_J = ca.Function("J", [lin], [ca.jacobian(f(*split(model, lin)), lin)])(z)
    close(bad_J, 3 * np.array(J))
    close(bad_g, 5 * np.array(g))
    velocities = slice(model.nq, None)
    close(np.array(bad_H)[velocities, velocities], 7 * np.array(H)[velocities, velocities])


@pytest.mark.row("002:H21")
def test_through_maps_and_with_coupled_joints():
    model, rng = coupled(), np.random.default_rng(2)
    n, knots = model.nv, 3
    f, plain = der.analytic_function(model, "inverse_dynamics"), normalised(model, "inverse_dynamics")
    x = [rng.standard_normal((rows, knots)) for rows in (model.nq, n, n)]
    lam = rng.standard_normal((n, knots))

    def hessian(symbol, values):
        z = symbol("z", (model.nq + 2 * n) * knots)
        Z = ca.reshape(z, model.nq + 2 * n, knots)
        return ca.Function("H", [z], [ca.hessian(ca.dot(lam, values(Z)), z)[0]])

    mapped = hessian(ca.MX.sym, lambda Z: f.map(knots)(*(ca.vertsplit(Z, [0, model.nq, model.nq + n, model.nq + 2 * n]))))
    direct = hessian(ca.SX.sym, lambda Z: ca.horzcat(*(plain(*split(model, Z[:, k])) for k in range(knots))))
    point = np.vstack(x).ravel(order="F")
    close(mapped(point), direct(point), 1e-10)


def test_compiled_functions_give_the_same():
    from dynamics import kernels

    if kernels.find_compiler() is None:
        pytest.skip("no C compiler")
    model = tree_of("spherical", "revolute")
    rng = np.random.default_rng(0)
    q, (v, w, lam) = alg.random_configuration(model, rng), rng.standard_normal((3, model.nv))
    z = np.r_[q, v, w]
    for x, y in zip(*(derivatives(model, der.analytic_function(model, "inverse_dynamics", compiled), ca.MX.sym)(z, lam)
                      for compiled in (True, False)), strict=True):
        close(x, y, 1e-13)


def test_unknown_name():
    with pytest.raises(ModelError, match=r"no analytic function named 'mass_matrix'.*inverse_dynamics"):
        der.analytic_function(tree_of("revolute"), "mass_matrix")
