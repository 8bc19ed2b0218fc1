"""Algorithms that are built once for a model: the same numbers and zeros as those that are built anew, and no second build."""

import pickle

import casadi as ca
import numpy as np
import pytest

from dynamics import algorithms as alg
from dynamics.notation.textbook_robots import quadruped

ALGORITHMS = {
    "frame_jacobian": (("q",), ("LF_FOOT",), {"reference": "world_aligned"}),
    "frame_jacobian_drift": (("q", "v"), ("RH_FOOT",), {}),
    "frame_pose": (("q",), ("RF_FOOT",), {}),
    "inverse_dynamics": (("q", "v", "v"), (), {}),
    "mass_matrix": (("q",), (), {}),
    "integrate": (("q", "v"), (), {}),
    "difference": (("q", "q"), (), {}),
}


def parts(result):
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_was_built_is_what_is_built(name):
    vectors, words, more = ALGORITHMS[name]
    model, rng, function = quadruped(), np.random.default_rng(0), getattr(alg, name)
    numbers = [alg.random_configuration(model, rng) if x == "q" else rng.normal(size=model.nv) for x in vectors]
    symbols = [ca.SX.sym(x, len(value)) for x, value in zip(vectors, numbers, strict=True)]
    for call in range(2):
        anew = function.__wrapped__(model, *symbols, *words, **more)
        for kept, fresh in zip(parts(function(model, *symbols, *words, **more)), parts(anew), strict=True):
            assert kept.sparsity() == fresh.sparsity()
            both = ca.Function("both", symbols, [kept, fresh])(*numbers)
            np.testing.assert_array_equal(*(np.array(ca.densify(x)) for x in both))
        assert len([key for key in model.built if key[0] == name]) == 1, call
    at = [np.array(ca.DM(ca.densify(x))) for x in parts(function(model, *numbers, *words, **more))]
    # expressions of type MX are built anew
    mx = [ca.MX(ca.DM(x)) for x in numbers]
    for ours, theirs in zip(at, parts(function(model, *mx, *words, **more)), strict=True):
        np.testing.assert_allclose(ours, np.array(ca.evalf(ca.densify(theirs))), atol=1e-12)


def test_zeros_wrenches_and_copies():
    """Structural zeros stay: gravity alone has no Coriolis terms. Wrenches build anew. Copies of a model build on their own."""
    model, q = quadruped(), ca.SX.sym("q", quadruped().nq)
    assert ca.Function("g", [q], [alg.gravity_force(model, q)]).n_instructions() < \
        0.7 * ca.Function("h", [q], [alg.bias_force(model, q, ca.SX.ones(model.nv))]).n_instructions()
    known, zero = len(model.built), ca.DM.zeros(model.nv)
    pushed = alg.inverse_dynamics(model, q, zero, zero, {"trunk": ca.DM([0, 0, 1, 0, 0, 0])})
    assert len(model.built) == known
    still = alg.inverse_dynamics(model, q, zero, zero, {})
    at = alg.neutral(model)
    lift = ca.Function("lift", [q], [still - pushed])(at)
    np.testing.assert_allclose(np.array(lift).ravel()[:6], [0, 0, 1, 0, 0, 0], atol=1e-12)
    assert pickle.loads(pickle.dumps(model)) == model
    assert not pickle.loads(pickle.dumps(model)).built
