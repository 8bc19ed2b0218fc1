"""The wrench cone of a rectangular sole by its faces, against what four corners with friction can give: linear programmes."""

import casadi as ca
import numpy as np
import pytest
from scipy.optimize import linprog

from dynamics.constraints import FlatContact
from dynamics.constraints.friction_cone import wrench_cone

SIZES, MU = (0.11, 0.05), 0.6


def grasp(sizes):
    """[6, 12]: the wrench at the centre of forces at the corners."""
    corners = [(x * sizes[0], y * sizes[1], 0.0) for x in (1, -1) for y in (1, -1)]
    return np.hstack([np.vstack([np.eye(3), np.cross(np.eye(3), c).T @ -np.eye(3)]) for c in corners])


def programme(cost, wrench, rows, sizes, mu):
    """min cost'(forces) over forces of the corners within their pyramids, the given rows of the wrench held."""
    side = np.array([[1, 0, -mu], [-1, 0, -mu], [0, 1, -mu], [0, -1, -mu]])
    return linprog(cost, A_ub=np.kron(np.eye(4), side), b_ub=np.zeros(16), A_eq=grasp(sizes)[rows], b_eq=np.asarray(wrench)[rows],
                   bounds=[(None, None), (None, None), (0, None)] * 4)


def test_the_grasp_is_force_and_moment():
    f = np.arange(12.0)
    corners = np.array([(x * SIZES[0], y * SIZES[1], 0.0) for x in (1, -1) for y in (1, -1)])
    wrench = np.r_[f.reshape(4, 3).sum(0), np.cross(corners, f.reshape(4, 3)).sum(0)]
    np.testing.assert_allclose(grasp(SIZES) @ f, wrench, atol=1e-12)


def test_faces_hold_what_corners_can_give_and_nothing_else():
    """Random wrenches around the cone: inside by the faces means that forces of the corners exist, and the other way round."""
    rng, inside = np.random.default_rng(3), 0
    for k in range(300):
        sizes, mu = tuple(rng.uniform(0.03, 0.2, 2)), float(rng.uniform(0.2, 1.2))
        fz = rng.uniform(-0.1, 1.0)
        share = rng.uniform(-1.0, 1.0, 5) * (0.6 if k % 2 else 1.05)
        wrench = fz * np.array([share[0] * mu, share[1] * mu, 1.0, share[2] * sizes[1], share[3] * sizes[0],
                                share[4] * mu * sum(sizes) * 0.7])
        worst = (wrench_cone(sizes, mu) @ wrench).max()
        if abs(worst) > 1e-9:
            found = programme(np.zeros(12), wrench, slice(0, 6), sizes, mu)
            assert (found.status == 0) == (worst < 0.0), (k, worst)
            inside += worst < 0.0
    assert 60 < inside < 240


def test_ends_of_the_moment_about_the_normal():
    """The largest and the smallest moment that corners give, with the rest of the wrench held, lie on a face."""
    rng, U = np.random.default_rng(5), wrench_cone(SIZES, MU)
    for _ in range(60):
        share = rng.uniform(-0.9, 0.9, 4)
        wrench = np.array([share[0] * MU, share[1] * MU, 1.0, share[2] * SIZES[1], share[3] * SIZES[0], 0.0])
        for sign in (1.0, -1.0):
            found = programme(sign * grasp(SIZES)[5], wrench, slice(0, 5), SIZES, MU)
            wrench[5] = sign * found.fun
            assert (U @ wrench).max() == pytest.approx(0.0, abs=1e-9)
            assert (U[8:] @ wrench).max() == pytest.approx(0.0, abs=1e-9)


def test_a_flat_sole_turns_no_more_than_its_corners():
    sole, force = FlatContact("sole", "foot", friction=MU, half_sizes=SIZES), ca.SX.sym("w", 6)
    rows = ca.Function("rows", [force], [sole.pushes(force)])
    for turn in (0.9, 1.1):
        wrench = [0.0, 0.0, 10.0, 0.0, 0.0, turn * 10.0 * MU * sum(SIZES)]
        assert (np.array(rows(wrench)).min() >= 0.0) == (turn < 1.0)
    assert FlatContact("sole", "foot", half_sizes=SIZES).pushes(force).shape == (5, 1)
