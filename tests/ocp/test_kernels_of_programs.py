"""Which functions of a transcription become machine code, and that the program stays the same to the last bit."""

import control_problems as known
import numpy as np
import pytest

from dynamics.kernels import in_graphs
from ocp.transcription import kernels
from ocp.transcription.collocation import CollocationOptions, transcribe

pytestmark = pytest.mark.skipif(not in_graphs(), reason="graphs call machine code on Linux with x86-64 only")


def test_machine_code_where_it_pays(monkeypatch, tmp_path):
    monkeypatch.setenv("LIEOCP_CACHE_DIR", str(tmp_path))
    plain = transcribe(known.cart_pole(), CollocationOptions(intervals=40, kernels="interpreted"))
    monkeypatch.setattr(kernels, "LOADING", 0.0)
    made = transcribe(known.cart_pole(), CollocationOptions(intervals=40))
    assert plain.notes[-1] == "kernels: interpreted"
    assert made.notes[-1].startswith("kernels: machine code of node_cost (")
    assert made.seconds["compile"] > 0
    rng = np.random.default_rng(3)
    z, y = rng.normal(size=plain.nlp.n), rng.normal(size=plain.nlp.m)
    for name, arguments in (("f", (z,)), ("g", (z,)), ("grad", (z,)), ("jac", (z,)), ("hess", (z, 0.7, y))):
        for a, b in zip(getattr(made.nlp, name).call(arguments), getattr(plain.nlp, name).call(arguments), strict=True):
            assert a.sparsity() == b.sparsity()
            np.testing.assert_allclose(a.full(), b.full(), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("size", "nodes", "pays"), [(100, 10, False), (10**6, 10, False), (200, 50, False), (400, 50, True),
                                                     (200, 100, True), (50, 100, False)])
def test_the_estimate(size, nodes, pays):
    """Saved: 2 ns an operation, in thirty iterations at all nodes; spent: 0.6 ms and 1.1 us an operation."""
    assert kernels._pays(size, nodes) is pays
