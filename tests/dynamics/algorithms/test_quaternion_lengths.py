"""A quaternion of any length but zero stands for its rotation: expressions, generated code and loops say the same."""

import casadi as ca
import numpy as np
import pytest
from row_trees import tree_of

import dynamics
from dynamics import algorithms as alg
from dynamics.derivatives import inverse_dynamics_derivatives
from dynamics.functions import FUNCTIONS, sizes
from dynamics.kernels import compile_kernel
from dynamics.loops import LoopDynamics

MODEL = tree_of("free_flyer", "revolute", "spherical", "prismatic", seed=3, branching=0.5)


def stretched(q):
    """q with its two quaternions 1.7 and 0.4 times as long."""
    out = q.copy()
    found = [qs.start + kind.quaternion.start for kind, qs, _ in MODEL.factors if kind.quaternion is not None]
    for start, length in zip(found, (1.7, 0.4), strict=True):
        out[start:start + 4] *= length
    return out


def state(seed):
    rng = np.random.default_rng(seed)
    given = {name: rng.standard_normal(size) for name, size in sizes(MODEL).items()}
    return given | {name: alg.random_configuration(MODEL, rng) for name in ("q", "q0", "q1")}


def values(call, x, names):
    return [np.array(out) for out in call([x[name] for name in names])]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_expressions_take_quaternions_of_any_length(name):
    x, function = state(5), dynamics.make(MODEL, name)
    off = {key: stretched(value) if key.startswith("q") else value for key, value in x.items()}
    for here, there in zip(*(values(function.call, at, FUNCTIONS[name].inputs) for at in (x, off)), strict=True):
        np.testing.assert_allclose(there, here, rtol=0, atol=1e-11 * max(1.0, np.abs(here).max()))


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics", "mass_matrix"])
def test_kernels_and_loops_take_quaternions_of_any_length(name):
    x, inputs = state(6), FUNCTIONS[name].inputs
    rest = [x[key] for key in inputs[1:]]
    kernel, loop = compile_kernel(dynamics.make(MODEL, name)), getattr(LoopDynamics(MODEL), name)
    expected = loop(x["q"], *rest)
    for found in (kernel(stretched(x["q"]), *rest), loop(stretched(x["q"]), *rest)):
        np.testing.assert_allclose(np.squeeze(found), expected, rtol=0, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("source", ["ad", "analytic"])
def test_tangent_derivatives_do_not_depend_on_the_length(source):
    x, function = state(7), inverse_dynamics_derivatives(MODEL, source)
    for here, there in zip(function(x["q"], x["v"], x["a"]), function(stretched(x["q"]), x["v"], x["a"]), strict=True):
        np.testing.assert_allclose(np.array(there), np.array(here), rtol=0, atol=1e-10)
    loops = LoopDynamics(MODEL).inverse_dynamics_derivatives(stretched(x["q"]), x["v"], x["a"])
    np.testing.assert_allclose(loops[0], np.array(function(x["q"], x["v"], x["a"])[0]), rtol=0, atol=1e-9)


def test_the_length_has_no_derivative_and_rates_keep_it():
    q = ca.SX.sym("q", MODEL.nq)
    off = stretched(state(8)["q"])
    slope = ca.Function("slope", [q], [ca.jacobian(alg.gravity_force(MODEL, q), q)])(off)
    back = ca.Function("back", [q], [alg.rate_matrix_inverse(MODEL, q) @ alg.rate_matrix(MODEL, q)])(off)
    np.testing.assert_allclose(np.array(back), np.eye(MODEL.nv), atol=1e-12)
    for kind, qs, _ in MODEL.factors:
        if kind.quaternion is not None:
            at = slice(qs.start + kind.quaternion.start, qs.start + kind.quaternion.stop)
            np.testing.assert_allclose(np.array(slope[:, at]) @ off[at], 0, atol=1e-11)
            assert np.abs(np.array(alg.rate_matrix(MODEL, ca.DM(off)))[at].T @ off[at]).max() < 1e-12


def test_the_zero_quaternion_is_not_a_number():
    x = state(9)
    q = np.where(np.arange(MODEL.nq) < 3, x["q"], 0.0)
    assert np.isnan(np.array(dynamics.make(MODEL, "gravity_force")(q))).any()
    assert np.isnan(LoopDynamics(MODEL).inverse_dynamics(q, x["v"], x["a"])).any()
