"""Generalised coordinates of floating robots with every chart of the base pose, and their maps to u and du/dt."""

import casadi as ca
import numpy as np
import pytest
from row_trees import coupled, frame_jacobian, moved, numbers, pose, regular_state, state, tree_of

from dynamics.algorithms import floating_base
from dynamics.errors import ModelError
from dynamics.lie import rotation as rotations
from dynamics.notation import base_coordinates
from dynamics.notation import textbook_robots as textbook
from dynamics.notation.base_coordinates import BaseChart

POSITIONS = ("cartesian", "cylindrical", "spherical")
ROTATIONS = ("zyx", "xyz", "zyz", "zxz", "quaternion", "angle_axis", "rotation_vector", "matrix")
CHARTS = [BaseChart(p, r) for p in POSITIONS for r in ROTATIONS]
COUNT = {"quaternion": 4, "angle_axis": 4, "matrix": 9}

MODELS = [
    pytest.param(textbook.quadruped(), id="quadruped", marks=pytest.mark.slow),
    pytest.param(tree_of("free_flyer", "universal", "planar", "spherical", "prismatic", seed=1, branching=0.4), id="mixed"),
    pytest.param(coupled(1), id="mimic"),
    pytest.param(tree_of("free_flyer", seed=2), id="base-only"),
]


def u_of(model, q, v):
    return numbers(floating_base.hybrid_from_body, model, q) @ v


# ---------------------------------------------------------------------------------------------- every base chart
@pytest.mark.row("001:K70")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("chart", CHARTS, ids=lambda c: f"{c.position}-{c.rotation}")
def test_base_coordinates(model, chart):
    """n_b = 3 + 3, 4 or 9; the coordinates name the same pose of every body; they go back to the same configuration."""
    q, _, _ = regular_state(model, model.bodies[0].name, 5)
    n = 3 + COUNT.get(chart.rotation, 3)
    assert chart.size == n
    names = base_coordinates.coordinate_names(model, chart)
    assert base_coordinates.coordinate_count(model, chart) == model.nq - 7 + n == len(names) == len(set(names))
    x = numbers(base_coordinates.coordinates, model, q, chart)
    back = numbers(base_coordinates.configuration_of, model, x, chart)
    np.testing.assert_allclose(back[:3], q[:3], atol=1e-13)
    np.testing.assert_allclose(back[3:7] * np.sign(back[3:7] @ q[3:7]), q[3:7], atol=1e-13)
    np.testing.assert_array_equal(back[7:], q[7:])
    # the coordinates are those of the WORLD pose, also where the base joint is placed elsewhere
    R, _ = pose(model, q, model.bodies[0].name)
    shape = rotations.parameterisation(chart.rotation).shape
    same = np.array(ca.DM(rotations.convert(x[3:n].reshape(shape, order="F"), chart.rotation, "matrix")))
    np.testing.assert_allclose(same, R, atol=1e-13)


@pytest.mark.row("001:K72")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("chart", CHARTS, ids=lambda c: f"{c.position}-{c.rotation}")
@pytest.mark.sample(6)
def test_base_rate_maps(model, chart):
    """dx/dt of a motion is E_fb^+ u and u = E_fb dx/dt, dx/dt by differences of the coordinates along the motion."""
    q, v, _ = regular_state(model, model.bodies[0].name, 6)
    u, h = u_of(model, q, v), 1e-6
    x = numbers(base_coordinates.coordinates, model, q, chart)
    rate = (numbers(base_coordinates.coordinates, model, moved(model, q, h * v), chart)
            - numbers(base_coordinates.coordinates, model, moved(model, q, -h * v), chart)) / (2 * h)
    E, back = numbers(base_coordinates.velocity_map, model, x, chart), numbers(base_coordinates.rate_map, model, x, chart)
    assert E.shape == back.T.shape == (model.nv, x.size)
    scale = 1 + np.abs(rate).max()
    np.testing.assert_allclose(E @ rate, u, atol=3e-8 * scale * np.abs(E).max())
    np.testing.assert_allclose(back @ u, rate, atol=3e-8 * scale)
    np.testing.assert_allclose(E @ back, np.eye(model.nv), atol=1e-11)
    if x.size == model.nv:
        np.testing.assert_allclose(back @ E, np.eye(model.nv), atol=1e-11)
    else:  # a projector onto the rates that keep the constraints: redundant coordinates are not free
        np.testing.assert_allclose(back @ E @ back @ E, back @ E, atol=1e-11)


@pytest.mark.row("001:K72")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("chart", CHARTS, ids=lambda c: f"{c.position}-{c.rotation}")
@pytest.mark.sample(6)
def test_base_second_order_maps(model, chart):
    """du/dt from d2x/dt2 and back, against second differences of the coordinates."""
    q, v, a = regular_state(model, model.bodies[0].name, 7)
    u_dot = numbers(floating_base.hybrid_acceleration, model, q, v, a)
    x = numbers(base_coordinates.coordinates, model, q, chart)
    h = 1e-4
    ahead, behind = (numbers(base_coordinates.coordinates, model, moved(model, q, t * v + t * t / 2 * a), chart)
                     for t in (h, -h))
    back = numbers(base_coordinates.rate_map, model, x, chart)
    rate = back @ u_of(model, q, v)
    second = numbers(base_coordinates.second_rate, model, x, rate, u_dot, chart)
    np.testing.assert_allclose(second, (ahead - 2 * x + behind) / h**2, atol=2e-6 * (1 + np.abs(second).max() ** 1.5))
    np.testing.assert_allclose(numbers(base_coordinates.acceleration, model, x, rate, second, chart), u_dot, atol=1e-10)


@pytest.mark.row("001:K72")
def test_world_axes_map_in_place_of_the_body_map_is_wrong():
    """The rotation block has to be C_IB^T E_R: with E_R itself, u would hold world axes and the wrong velocity."""
    model, chart = textbook.quadruped(), BaseChart("cartesian", "zyx")
    q, v, _ = regular_state(model, model.bodies[0].name, 8)
    x = numbers(base_coordinates.coordinates, model, q, chart)
    E = numbers(base_coordinates.velocity_map, model, x, chart)
    rate = numbers(base_coordinates.rate_map, model, x, chart) @ u_of(model, q, v)
    z, y, roll = x[3:6]
    body = np.array([[-np.sin(y), 0, 1], [np.cos(y) * np.sin(roll), np.cos(roll), 0],
                     [np.cos(roll) * np.cos(y), -np.sin(roll), 0]])
    world = np.array([[0, -np.sin(z), np.cos(y) * np.cos(z)], [0, np.cos(z), np.cos(y) * np.sin(z)], [1, 0, -np.sin(y)]])
    np.testing.assert_allclose(E[3:6, 3:6], body, atol=1e-14)
    assert np.abs(world @ rate[3:6] - v[3:6]).max() > 0.1
    with pytest.raises(ValueError, match="zyx"):
        base_coordinates.velocity_map(model, x, BaseChart("cartesian", "zyxx"))
    with pytest.raises(ModelError, match="x has shape"):
        base_coordinates.velocity_map(model, x[1:], chart)


def test_base_need_not_be_the_first_body():
    """A planar cart of its own before the base in the order: slices, charts and Jacobian keep their places."""
    two = tree_of("planar", "free_flyer", "universal", seed=5)
    from dataclasses import replace

    model = replace(two, bodies=(two.bodies[0], replace(two.bodies[1], parent=-1), two.bodies[2]))
    q, v, a = state(model, 13)
    frame = model.frames[-1].name
    back = numbers(floating_base.body_from_hybrid, model, q)
    J = numbers(floating_base.spatial_jacobian, model, q, frame)
    np.testing.assert_allclose(J, frame_jacobian(model, q, frame) @ back, atol=1e-12)
    chart, h = BaseChart("cartesian", "rotation_vector"), 1e-6
    x = numbers(base_coordinates.coordinates, model, q, chart)
    rate = (numbers(base_coordinates.coordinates, model, moved(model, q, h * v), chart)
            - numbers(base_coordinates.coordinates, model, moved(model, q, -h * v), chart)) / (2 * h)
    u = u_of(model, q, v)
    np.testing.assert_allclose(numbers(base_coordinates.velocity_map, model, x, chart) @ rate, u, atol=1e-7)
    u_dot = numbers(floating_base.hybrid_acceleration, model, q, v, a)
    second = numbers(base_coordinates.second_rate, model, x, rate, u_dot, chart)
    np.testing.assert_allclose(numbers(base_coordinates.acceleration, model, x, rate, second, chart), u_dot, atol=1e-10)
    h = 1e-4
    ahead, behind = (numbers(base_coordinates.coordinates, model, moved(model, q, t * v + t * t / 2 * a), chart)
                     for t in (h, -h))
    np.testing.assert_allclose(second, (ahead - 2 * x + behind) / h**2, atol=1e-5 * (1 + np.abs(second).max()))
    assert np.abs(second[:2] - a[:2]).max() > 0.1  # the planar joint's coordinates turn too


@pytest.mark.row("001:K70")
def test_symbolic_types_agree():
    model, chart = MODELS[1].values[0], BaseChart("spherical", "zyx")
    q, v, a = regular_state(model, model.bodies[0].name, 16)
    x = numbers(base_coordinates.coordinates, model, q, chart)
    s = ca.MX.sym("x", x.size)
    graph = ca.Function("g", [s], [base_coordinates.velocity_map(model, s, chart)])
    np.testing.assert_allclose(np.array(graph(x)), numbers(base_coordinates.velocity_map, model, x, chart), atol=1e-13)
    np.testing.assert_allclose(np.array(ca.DM(base_coordinates.velocity_map(model, x, chart))), np.array(graph(x)), atol=1e-13)
    frame = model.frames[-1].name
    number = floating_base.spatial_jacobian(model, ca.DM(q), frame)
    np.testing.assert_allclose(np.array(number), numbers(floating_base.spatial_jacobian, model, q, frame), atol=1e-13)
    y, w = ca.MX.sym("q", model.nq), ca.MX.sym("u", model.nv)
    graph = ca.Function("g", [y, w], [floating_base.spatial_jacobian_rate(model, y, w, frame)])
    want = numbers(floating_base.spatial_jacobian_rate, model, q, v, frame)
    np.testing.assert_allclose(np.array(graph(q, v)), want, atol=1e-13)
