"""First derivatives: algorithmic differentiation against differences on the manifold, another road, and a poison test."""

import numpy as np
import pytest

import dynamics
from dynamics import algorithms as alg
from dynamics.derivatives import SOURCES, forward_dynamics_derivatives, inverse_dynamics_derivatives
from dynamics.errors import ModelError
from dynamics.model.synthetic import random_tree

CASES = [(3, 0), (6, 1), (8, 2)]


def case(n, seed):
    rng = np.random.default_rng(seed)
    model = random_tree(n, rng, damping=True)
    return model, alg.random_configuration(model, rng), rng.standard_normal(model.nv), rng.standard_normal(model.nv)


@pytest.mark.parametrize(("n", "seed"), CASES)
@pytest.mark.parametrize("make", [inverse_dynamics_derivatives, forward_dynamics_derivatives])
@pytest.mark.sample(2)
def test_sources_agree(n, seed, make):
    model, q, v, w = case(n, seed)
    exact, closed, differences = (make(model, source)(q, v, w) for source in SOURCES)
    for a, b, c in zip(exact, closed, differences, strict=True):
        a, b, c = np.array(a), np.array(b), np.array(c)
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11 * (1 + np.abs(a).max()))
        np.testing.assert_allclose(a, c, rtol=0, atol=1e-7 * (1 + np.abs(a).max()))


def test_unknown_source_is_named():
    model, *_ = case(2, 0)
    with pytest.raises(ModelError, match="no derivative source 'analytical'.*did you mean 'analytic'"):
        inverse_dynamics_derivatives(model, "analytical")
    assert SOURCES == ("ad", "analytic", "fd")


def test_unknown_function_is_named():
    model, *_ = case(2, 0)
    with pytest.raises(ModelError, match="did you mean 'mass_matrix'"):
        dynamics.make(model, "mass_matri")


def test_derivative_kernels_are_remembered(tmp_path, monkeypatch):
    from dynamics.derivatives import derivative_kernel, inverse_dynamics_hessian
    from dynamics.derivatives import kernels as module
    from dynamics.errors import UnknownNameError
    from dynamics.model.synthetic import random_tree

    monkeypatch.setenv("LIEOCP_CACHE_DIR", str(tmp_path))
    model = random_tree(4, np.random.default_rng(0), root="free_flyer")
    x = [np.random.default_rng(k).standard_normal(n) for k, n in enumerate((model.nq, model.nv, model.nv, model.nv))]
    x[0] = alg.random_configuration(model, np.random.default_rng(1))
    expected = inverse_dynamics_hessian(model)(*x)
    for _ in range(2):
        found = derivative_kernel(model, "inverse_dynamics_hessian", mode="interpreted")(*x)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.array(a).reshape(b.shape), np.array(b.full()), atol=1e-12)
        monkeypatch.setattr(module, "KERNELS", {"inverse_dynamics_hessian": None})  # the second time nothing is built
    with pytest.raises(UnknownNameError, match="inverse_dynamics_hesian.*did you mean 'inverse_dynamics_hessian'"):
        derivative_kernel(model, "inverse_dynamics_hesian")
