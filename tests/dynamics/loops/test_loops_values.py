"""Compiled loops over the Model: inverse dynamics, mass matrix, forward dynamics against the symbolic algorithms."""


import casadi as ca
import numpy as np
import pytest
from loop_references import close, coupled_tree, mixed_tree, state

import dynamics
from dynamics import algorithms as alg
from dynamics.errors import ModelError, UnknownNameError
from dynamics.loops import LoopDynamics
from dynamics.model import Builder, Joint
from dynamics.model.model import BodyInertia
from dynamics.model.synthetic import random_tree, serial_chain

TREES = {
    "one": lambda: mixed_tree(1, 1, "revolute"), "mixed": lambda: mixed_tree(9, 2),
    "free root": lambda: mixed_tree(8, 3, "free_flyer"),
    "free inside": lambda: random_tree(6, np.random.default_rng(4), kinds=("free_flyer", "revolute"), damping=True),
    "long": lambda: serial_chain(25), "many": lambda: mixed_tree(30, 5), "coupled": lambda: coupled_tree(10, 6),
    "fixed root": lambda: mixed_tree(7, 7, "fixed"), "bushy": lambda: random_tree(20, np.random.default_rng(8), branching=0.9),
}


@pytest.fixture(params=TREES, scope="module")
def robot(request):
    return TREES[request.param]()


def reference(model, name, *arguments):
    return np.array(dynamics.make(model, name)(*arguments)).squeeze(axis=1) if name != "mass_matrix" else \
        np.array(dynamics.make(model, name)(*arguments))


@pytest.mark.row("002:H26")
def test_values_agree_with_the_symbolic_algorithms(robot):
    q, v, a, *_ = state(robot, 11)
    loops = LoopDynamics(robot)
    tau = loops.inverse_dynamics(q, v, a)
    close(tau, reference(robot, "inverse_dynamics", q, v, a))
    close(loops.mass_matrix(q), reference(robot, "mass_matrix", q))
    close(loops.mass_matrix(q) @ (loops.forward_dynamics(q, v, tau) - a), np.zeros(robot.nv), 1e-10)


@pytest.mark.row("002:H18")
@pytest.mark.parametrize("tree", ["mixed", "coupled", "free root", "fixed root"])
def test_external_wrenches_act_and_are_forgotten(tree):
    model = TREES[tree]()
    q, v, a, *_ = state(model, 12)
    rng = np.random.default_rng(13)
    wrenches = {body.name: rng.standard_normal(6) for body in model.bodies}
    loops = LoopDynamics(model)
    before = loops.inverse_dynamics(q, v, a)
    with_wrenches = loops.inverse_dynamics(q, v, a, wrenches)
    close(with_wrenches, np.array(alg.inverse_dynamics(model, q, v, a, {k: ca.DM(w) for k, w in wrenches.items()})).ravel())
    assert np.abs(with_wrenches - before).max() > 0.1
    np.testing.assert_array_equal(loops.inverse_dynamics(q, v, a), before)


@pytest.mark.parametrize("angle", [0.0, 1e-300, 1e-9, 0.1, np.pi / 4, np.pi / 2, 2.0, np.pi, 4.0, 5.5, 100.0, 12345.678, 9.9e5,
                                   1.1e6, 1e9, 1e15])
def test_angles_of_any_size(angle):
    """tau of a pendulum is m g l sin q: the loops' own sine and cosine against the C library's."""
    inertia = BodyInertia(1.0, (1.0, 0.0, 0.0), ((0.0,) * 3,) * 3)
    builder = Builder("pendulum")
    builder.body("bob", parent="world", joint=Joint("j", "revolute", axes=((0.0, 1.0, 0.0),)), inertia=inertia)
    loops = LoopDynamics(builder.build())
    for q in (angle, -angle):
        tau = loops.inverse_dynamics(np.array([q]), np.zeros(1), np.zeros(1))
        assert abs(tau[0] + 9.81 * np.cos(q)) < 4e-15 * 9.81


def test_the_world_position_of_a_free_base_costs_no_precision():
    model = mixed_tree(8, 3, "free_flyer")
    q, v, a, *_ = state(model, 15)
    loops, far = LoopDynamics(model), q.copy()
    far[:3] += 1e9
    np.testing.assert_array_equal(loops.inverse_dynamics_derivatives(far, v, a), loops.inverse_dynamics_derivatives(q, v, a))


def test_a_robot_without_degrees_of_freedom():
    loops, empty = LoopDynamics(mixed_tree(1, 1, "fixed")), np.zeros(0)
    assert loops.inverse_dynamics(empty, empty, empty).shape == (0,)
    assert loops.inverse_dynamics_derivatives(empty, empty, empty).shape == (3, 0, 0)
    assert loops.forward_contracted_second_order(empty, empty, empty, empty)[2].shape == (4, 0, 0)


def test_bad_arguments_are_named():
    model = mixed_tree(3, 20, "revolute")
    q, v, a, *_ = state(model, 21)
    loops = LoopDynamics(model)
    with pytest.raises(ModelError, match=r"v has shape \(1,\), expected"):
        loops.inverse_dynamics(q, v[:1], a) if model.nv > 1 else loops.inverse_dynamics(q, np.zeros(2), a)
    with pytest.raises(UnknownNameError, match="b0x.*b0"):
        loops.inverse_dynamics(q, v, a, {"b0x": np.zeros(6)})
    with pytest.raises(ModelError, match="wrench has 3 numbers"):
        loops.inverse_dynamics(q, v, a, {"b0": np.zeros(3)})
    with pytest.raises(ModelError, match="out must be a writeable C-contiguous"):
        loops.mass_matrix(q, np.zeros((model.nv, model.nv)).T[::1, :-1])
