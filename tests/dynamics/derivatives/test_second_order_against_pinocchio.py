"""Second derivatives of inverse dynamics, as expressions and as compiled loops, against Pinocchio's C++ tensors.

The first use compiles the C++ side, which takes half a minute; it is cached from then on.
"""

import re
import shutil

import casadi as ca
import numpy as np
import pinocchio_cpp as oracle
import pytest
from row_trees import tree_of
from states import state

from dynamics.algorithms import tree
from dynamics.derivatives import inverse_dynamics_second_derivatives
from dynamics.derivatives.inverse_second import dense
from dynamics.loops import LoopDynamics
from dynamics.model.synthetic import random_tree, serial_chain

CONSTANT = ("revolute", "continuous", "prismatic", "spherical", "planar", "free_flyer")
TREES = {
    **{kind: (lambda kind=kind: tree_of(kind, kind, kind, seed=41)) for kind in CONSTANT},
    "all, root moves freely": lambda: random_tree(7, np.random.default_rng(42), kinds=CONSTANT, root="free_flyer"),
    "all, free body inside": lambda: tree_of("revolute", "free_flyer", "spherical", "prismatic", "planar", "continuous", seed=43,
                                             branching=0.5),
    "order not depth first": lambda: random_tree(9, np.random.default_rng(44), kinds=("revolute", "spherical"), branching=0.8),
    "welded": lambda: tree_of("fixed", "revolute", "fixed", "spherical", "fixed", "prismatic", seed=45, branching=0.4),
    "universal as two hinges": lambda: tree_of("universal", "revolute", "universal", seed=46),
    "chain": lambda: serial_chain(12),
    "bush": lambda: random_tree(12, np.random.default_rng(47), kinds=("revolute",), branching=0.9),
}
FILES = {"ur5": "fixed", "panda": "fixed", "quadruped": "free_flyer"}
COLLECTED = {"hyq_no_sensors": "free_flyer", "talos_full_v2": "free_flyer"}


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    reason = oracle.available(quick=True)
    if reason:
        pytest.skip(f"Pinocchio's C++ cannot be compiled here: {reason}")


def pinocchio(model):
    return oracle.PinocchioCpp(model, quick=True)


def robot(name):
    from dynamics.model.urdf import read_urdf

    if name in FILES:
        return read_urdf(f"problems/models/{name}.urdf", root=FILES[name], mimic="independent")
    from dynamics.errors import ModelError
    from dynamics.model.robots import find_robot

    try:
        path = find_robot(name)
    except ModelError as error:
        pytest.skip(str(error))
    return read_urdf(path, root=COLLECTED[name], mimic="independent")


def gap(ours, theirs):
    """Largest difference over the largest entry."""
    assert ours.shape == theirs.shape
    return np.abs(ours - theirs).max(initial=0.0) / max(1.0, np.abs(theirs).max(initial=0.0))


def loops_in_their_layout(model, q, v, a):
    """qq, vv, qv, aq, each [nv, nv, nv], in raw order, from our loops, which keep vq."""
    t = LoopDynamics(model).second_order(q, v, a, symmetric=False)
    return np.stack([t[:, 0], t[:, 2], t[:, 1].swapaxes(1, 2), t[:, 3]])


def symbolic_in_their_layout(model, q, v, a):
    return np.stack([dense(x, model.nv) for x in inverse_dynamics_second_derivatives(model)(q, v, a)])


def compare(ours, theirs):
    for name, mine, ref in zip(("qq", "vv", "qv", "aq"), ours, theirs, strict=True):
        assert gap(mine, ref) < 1e-10, name


@pytest.fixture(params=TREES, scope="module")
def case(request):
    model = TREES[request.param]()
    q, v, a = state(model, 48)
    return model, (q, v, a), pinocchio(model).values("second_order", q, v, a)


@pytest.mark.row("002:H06", "002:H07", "002:H08", "002:H09", "002:H10", "002:H20")
@pytest.mark.sample(3)
def test_expressions_agree_with_pinocchio(case):
    model, x, theirs = case
    compare(symbolic_in_their_layout(model, *x), theirs)


@pytest.mark.row("002:H10", "002:H12", "002:H26")
def test_loops_agree_with_pinocchio(case):
    model, x, theirs = case
    compare(loops_in_their_layout(model, *x), theirs)


@pytest.mark.row("002:H10", "002:H26")
@pytest.mark.parametrize("name", [*FILES, *COLLECTED])
def test_loops_agree_with_pinocchio_on_robots(name):
    model = robot(name)
    q, v, a = state(model, 49)
    theirs = pinocchio(model).values("second_order", q, v, a)
    compare(loops_in_their_layout(model, q, v, a), theirs)
    assert np.abs(theirs[0]).max() > 1.0


@pytest.mark.row("002:H10")
@pytest.mark.parametrize("name", ["ur5", "panda", "hyq_no_sensors", "talos_full_v2"])
def test_expressions_agree_with_pinocchio_on_robots(name):
    model = robot(name)
    q, v, a = state(model, 50)
    compare(symbolic_in_their_layout(model, q, v, a), pinocchio(model).values("second_order", q, v, a))


def test_the_mixed_tensor_has_positions_before_velocities():
    """Pinocchio's text says two things about it; only one agrees with differences of its own first derivatives."""
    model = tree_of("revolute", "spherical", "prismatic", "revolute", seed=51)
    (q, v, a), twin = state(model, 52), pinocchio(model)
    mixed, step = twin.values("second_order", q, v, a)[2], 1e-5
    for k, e in enumerate(np.eye(model.nv)):
        up, down = (twin.values("rnea_derivatives", q, v + s * step * e, a)[0] for s in (1, -1))
        assert gap(mixed[:, :, k], (up - down) / (2 * step)) < 1e-8
    assert gap(mixed, mixed.swapaxes(1, 2)) > 1e-2


def test_zeroing_is_needed_only_once():
    model = tree_of("free_flyer", "revolute", "revolute", "revolute", seed=53, branching=1.0)
    (q, v, a), twin = state(model, 54), pinocchio(model)
    first = twin.values("second_order", q, v, a)
    twin.values("second_order", *state(model, 55))
    np.testing.assert_array_equal(twin.values("second_order_unzeroed", q, v, a), first)
    assert np.abs(first).max() > 1.0


def test_the_oracle_stands_for_the_same_robot(case):
    """Values and first derivatives, so that timings beside it compare like with like."""
    model, (q, v, a), _ = case
    same_robot(model, q, v, a, pinocchio(model))


def same_robot(model, q, v, a, twin):
    loops = LoopDynamics(model)
    tau, first = loops.inverse_dynamics(q, v, a), loops.inverse_dynamics_derivatives(q, v, a)
    assert not np.array(ca.densify(tree.diagonal(model, "damping"))).any()
    assert gap(tau, twin.values("rnea", q, v, a)) < 1e-11
    assert gap(first, twin.values("rnea_derivatives", q, v, a)) < 1e-11
    return loops, tau


@pytest.mark.slow
@pytest.mark.parametrize("name", TREES)
def test_the_whole_oracle_stands_for_the_same_robot(name):
    """What the benchmarks time: native code with special joint types, forward dynamics as well."""
    model = TREES[name]()
    (q, v, a), twin = state(model, 48), oracle.PinocchioCpp(model)
    loops, tau = same_robot(model, q, v, a, twin)
    assert gap(loops.mass_matrix(q), twin.values("crba", q, v, a)) < 1e-11
    assert gap(a, twin.values("aba", q, v, tau)) < 1e-9
    acceleration, forward = loops.forward_dynamics_derivatives(q, v, tau)
    assert gap(acceleration, a) < 1e-9
    assert gap(forward, twin.values("aba_derivatives", q, v, tau)) < 1e-9


def test_mimic_joints_and_missing_headers_are_reported(monkeypatch):
    from row_trees import coupled

    with pytest.raises(ValueError, match="mimic"):
        oracle.PinocchioCpp(coupled())
    monkeypatch.setattr(oracle.Path, "is_file", lambda self: self.name != "Tensor" and shutil.os.path.isfile(self))
    with pytest.raises(oracle.Unavailable, match=re.escape("pip install cmeel-eigen")):
        oracle.headers()
