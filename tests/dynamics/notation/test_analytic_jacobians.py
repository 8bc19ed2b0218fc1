"""Analytic Jacobians for every pair of position and rotation charts, against algorithmic differentiation and differences."""

import casadi as ca
import numpy as np
import pytest
from row_trees import coupled, frame_jacobian, moved, numbers, pose, regular_state, tree_of
from scipy.spatial.transform import Rotation

import dynamics
from dynamics import algorithms as alg
from dynamics.lie import rotation as rotations
from dynamics.model.synthetic import random_tree
from dynamics.notation import analytic_jacobians as analytic
from dynamics.notation import textbook_robots as textbook

POSITIONS = ("cartesian", "cylindrical", "spherical")
ROTATIONS = ("zyx", "xyz", "zyz", "zxz", "quaternion", "angle_axis", "rotation_vector", "matrix")
PAIRS = [(p, r) for p in POSITIONS for r in ROTATIONS]
COUNT = {"quaternion": 4, "angle_axis": 4, "matrix": 9}
pairs = pytest.mark.parametrize(("position", "rotation"), PAIRS)

MODELS = {
    "arm": random_tree(6, np.random.default_rng(1), kinds=["revolute", "prismatic"], branching=0.0),
    "floating": tree_of("free_flyer", "universal", "spherical", "planar", seed=3),
    "mimic": coupled(2),
}
model_names = pytest.mark.parametrize("name", MODELS)


def chosen(name):
    """Model, frame, q, v, a away from the singularities of every chart."""
    model = MODELS[name]
    return model, model.frames[-1].name, *regular_state(model, model.frames[-1].name, 7)


# ---------------------------------------------------------------------------------------------- coordinates
@pytest.mark.row("001:K40")
@pairs
def test_end_effector_coordinates(position, rotation):
    """m = 3 + 3, 4 or 9; chi names the pose, by closed forms of the position and SciPy for the rotation."""
    model, frame, q, _, _ = chosen("floating")
    m = 3 + COUNT.get(rotation, 3)
    chi = numbers(analytic.frame_coordinates, model, q, frame, position, rotation)
    assert analytic.coordinate_count(position, rotation) == m == chi.size == len(analytic.coordinate_names(position, rotation))
    R, p = pose(model, q, frame)
    c = chi[:3]
    cartesian = {"cartesian": c, "cylindrical": [c[0] * np.cos(c[1]), c[0] * np.sin(c[1]), c[2]],
                 "spherical": c[0] * np.array([np.cos(c[1]) * np.sin(c[2]), np.sin(c[1]) * np.sin(c[2]), np.cos(c[2])])}
    np.testing.assert_allclose(cartesian[position], p, atol=1e-13)
    x = chi[3:]
    if rotation == "matrix":
        other = x.reshape(3, 3, order="F")
    elif rotation == "quaternion":
        other = Rotation.from_quat([*x[1:], x[0]]).as_matrix()
    elif rotation == "angle_axis":
        other = Rotation.from_rotvec(x[0] * x[1:]).as_matrix()
    elif rotation == "rotation_vector":
        other = Rotation.from_rotvec(x).as_matrix()
    else:
        other = Rotation.from_euler(rotation.upper(), x).as_matrix()
    np.testing.assert_allclose(other, R, atol=1e-13)
    back = analytic.pose_of(chi, position, rotation)
    np.testing.assert_allclose(np.array(ca.DM(back.R)), R, atol=1e-13)
    np.testing.assert_allclose(np.array(ca.DM(back.p)).ravel(), p, atol=1e-13)


@pytest.mark.row("001:K40")
def test_numbers_of_parameters_of_the_examples():
    """Cartesian and Euler angles: 6; spherical and direction cosines: 12; SCARA: four operational coordinates."""
    assert analytic.coordinate_count("cartesian", "zyx") == 6
    assert analytic.coordinate_count("spherical", "matrix") == 12
    assert analytic.coordinate_names("spherical", "quaternion")[:4] == (
        "position.r", "position.azimuth", "position.polar", "rotation.w")
    scara = textbook.scara()
    q = np.array([0.3, 0.9, -0.4, 0.1])
    chi = numbers(analytic.frame_coordinates, scara, q, "end_effector", "cartesian", "zyx")
    np.testing.assert_allclose(chi[3:], [q[:3].sum(), 0, 0], atol=1e-14)  # x, y, z and one angle: m_0 = 4
    J = numbers(analytic.analytic_jacobian, scara, q, "end_effector", "cartesian", "zyx")
    assert np.linalg.matrix_rank(J) == 4 == np.linalg.matrix_rank(J[:4])
    with pytest.raises(ValueError, match="sphericl"):
        analytic.coordinate_count("sphericl", "zyx")
    with pytest.raises(ValueError, match="7 coordinates, got shape"):
        analytic.twist_map(np.zeros(6), "cartesian", "quaternion")


# ---------------------------------------------------------------------------------------------- Jacobians
@pytest.mark.row("001:K43", "001:K48")
@pairs
@model_names
def test_analytic_jacobian(name, position, rotation):
    """J_A is the algorithmic derivative of chi_e(q) along the tangent, and the difference quotient of chi_e."""
    model, frame, q, v, _ = chosen(name)
    J_A = numbers(analytic.analytic_jacobian, model, q, frame, position, rotation)
    m = 3 + COUNT.get(rotation, 3)
    assert J_A.shape == (m, model.nv)
    x = ca.SX.sym("q", model.nq)
    chi = ca.densify(ca.SX(analytic.frame_coordinates(model, x, frame, position, rotation)))
    by_ad = np.array(ca.Function("J", [x], [ca.jacobian(chi, x) @ alg.rate_matrix(model, x)])(q))
    np.testing.assert_allclose(J_A, by_ad, atol=1e-10 * (1 + np.abs(by_ad).max()))
    h = 1e-6
    ahead, behind = (numbers(analytic.frame_coordinates, model, moved(model, q, s * h * v), frame, position, rotation)
                     for s in (1, -1))
    np.testing.assert_allclose(J_A @ v, (ahead - behind) / (2 * h), atol=1e-7 * (1 + np.abs(J_A).max()))


@pytest.mark.row("001:K48")
@pairs
def test_map_between_geometric_and_analytic(position, rotation):
    """J_0 = E_e J_A; E_e E_e^+ = 1; J_A from AD of chi, J_0 from the recursion: two independent sides of one equation."""
    model, frame, q, _, _ = chosen("floating")
    x = ca.SX.sym("q", model.nq)
    chi_x = ca.densify(ca.SX(analytic.frame_coordinates(model, x, frame, position, rotation)))
    J_A = np.array(ca.Function("J", [x], [ca.jacobian(chi_x, x) @ alg.rate_matrix(model, x)])(q))
    chi = np.array(ca.Function("c", [x], [chi_x])(q)).ravel()
    J_0 = frame_jacobian(model, q, frame)
    np.testing.assert_allclose(np.array(analytic.geometric_from_analytic(ca.DM(J_A), chi, position, rotation)), J_0, atol=1e-11)
    np.testing.assert_allclose(np.array(analytic.analytic_from_geometric(ca.DM(J_0), chi, position, rotation)), J_A,
                               atol=1e-10 * (1 + np.abs(J_A).max()))
    E, back = (np.array(ca.DM(f(chi, position, rotation))) for f in (analytic.twist_map, analytic.rate_map))
    assert E.shape == back.T.shape == (6, chi.size)
    assert not E[:3, 3:].any()
    assert not E[3:, :3].any()
    np.testing.assert_allclose(E @ back, np.eye(6), atol=1e-12)
    if chi.size == 6:
        np.testing.assert_allclose(back @ E, np.eye(6), atol=1e-12)
    else:
        assert np.linalg.matrix_rank(back @ E, tol=1e-9) == 6 < chi.size
        np.testing.assert_allclose(back @ E @ J_A, J_A, atol=1e-10 * (1 + np.abs(J_A).max()))


@pytest.mark.row("001:K48")
def test_planar_arm_has_equal_analytic_and_geometric_jacobians():
    """Planar systems: (x, z, q1 + q2 + q3) against rows v_x, v_z, w_y; no chart makes a difference."""
    arm, q = textbook.planar_arm((0.7, 0.5, 0.3), 0.4), np.array([0.2, 0.4, 0.3])
    J_0 = frame_jacobian(arm, q, "end_effector")
    J_A = numbers(analytic.analytic_jacobian, arm, q, "end_effector", "cartesian", "rotation_vector")
    np.testing.assert_allclose(J_A[[0, 2, 4]], J_0[[0, 2, 4]], atol=1e-14)
    np.testing.assert_allclose(J_A, J_0, atol=1e-14)
    J_zyx = numbers(analytic.analytic_jacobian, arm, q, "end_effector", "cartesian", "zyx")
    np.testing.assert_allclose(J_zyx[4], [1, 1, 1], atol=1e-14)  # Eq. 2.150: the pitch
    # away from the plane they differ
    model, frame, q, _, _ = chosen("arm")
    J_0 = frame_jacobian(model, q, frame)
    assert np.abs(numbers(analytic.analytic_jacobian, model, q, frame, "cartesian", "zyx") - J_0).max() > 0.1


@pytest.mark.row("001:K43")
@pytest.mark.parametrize(("rotation", "rows"), [("zyx", 3), ("quaternion", 4), ("matrix", 9)])
def test_rotation_rows(rotation, rows):
    """3, 4 or 9 rotation rows; rows of the matrix are dC/dt = [w] C column by column."""
    model, frame, q, v, _ = chosen("arm")
    J = numbers(analytic.analytic_jacobian, model, q, frame, "cartesian", rotation)[3:]
    assert J.shape[0] == rows
    if rotation == "matrix":
        R, _ = pose(model, q, frame)
        omega = frame_jacobian(model, q, frame)[3:] @ v
        np.testing.assert_allclose((J @ v).reshape(3, 3, order="F"), np.cross(omega, R.T).T, atol=1e-12)


# ---------------------------------------------------------------------------------------------- second order
@pytest.mark.row("001:K48")
@pairs
def test_second_order(position, rotation):
    """d2chi/dt2 = J_A a + dJ_A/dt v against second differences; E_e d2chi + dE_e dchi is the classical acceleration."""
    model, frame, q, v, a = chosen("floating")
    h = 1e-4
    at = [numbers(analytic.frame_coordinates, model, moved(model, q, t * v + t * t / 2 * a), frame, position, rotation)
          for t in (h, 0.0, -h)]
    J_A = numbers(analytic.analytic_jacobian, model, q, frame, position, rotation)
    rate = numbers(analytic.analytic_jacobian_rate, model, q, v, frame, position, rotation)
    second, chi = J_A @ a + rate @ v, at[1]
    size = 1 + np.abs(second).max()
    np.testing.assert_allclose(second, (at[0] - 2 * at[1] + at[2]) / h**2, atol=1e-5 * size**1.5)
    J_0 = frame_jacobian(model, q, frame)
    drift = np.array(dynamics.make_frame(model, "drift", frame, "world_aligned")(q, v)).ravel()
    classical = numbers(analytic.twist_rate, None, chi, J_A @ v, second, position, rotation)
    np.testing.assert_allclose(classical, J_0 @ a + drift, atol=1e-11 * size)
    back = numbers(analytic.second_rate, None, chi, J_A @ v, J_0 @ a + drift, position, rotation)
    np.testing.assert_allclose(back, second, atol=1e-10 * size)


@pytest.mark.row("001:K48")
def test_singularities_are_refused_for_numbers():
    """On the vertical axis the azimuth has no rate, at gimbal lock two Euler axes coincide: said, not returned as inf."""
    wrist = textbook.wrist_zyx()
    q = ca.DM([0.1, np.pi / 2, 0.2])
    with pytest.raises(ValueError, match="cos"):
        analytic.analytic_jacobian(wrist, q, "end_effector", "cartesian", "zyx")
    assert np.isfinite(np.array(analytic.analytic_jacobian(wrist, q, "end_effector", "cartesian", "quaternion"))).all()
    arm = textbook.planar_arm()
    with pytest.raises(ValueError, match="azimuth"):
        analytic.analytic_jacobian(arm, ca.DM([0, 0, 0]), "end_effector", "cylindrical", "matrix")


def test_symbolic_types_agree():
    model, frame, q, v, _ = chosen("mimic")
    x, y = ca.MX.sym("q", model.nq), ca.MX.sym("v", model.nv)
    graph = ca.Function("g", [x, y], [analytic.analytic_jacobian_rate(model, x, y, frame, "spherical", "zyz")])
    want = numbers(analytic.analytic_jacobian_rate, model, q, v, frame, "spherical", "zyz")
    np.testing.assert_allclose(np.array(graph(q, v)), want, atol=1e-12 * (1 + np.abs(want).max()))
    assert rotations.parameterisation("zyz").components == ("z1", "y", "z2")
