"""Cones of friction: pyramids by their corners; the wrench cone of a rectangular sole by its faces, against what four corners with
friction can give (linear programmes); one contact, read by constraints, controllers, simulators and programmes alike."""

import casadi as ca
import numpy as np
import pytest
from scipy.optimize import linprog

from dynamics import algorithms as alg
from dynamics.constraints import Cone, FlatContact, PointContact
from dynamics.constraints.friction_cone import wrench_cone
from dynamics.errors import ModelError
from dynamics.mechanism import Mechanism
from dynamics.model.builder import Builder
from dynamics.model.model import BodyInertia, Joint
from dynamics.redmax.programs import touch_rows

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


@pytest.mark.parametrize("pyramid", ["inner", "outer"])
@pytest.mark.parametrize(("sides", "heading"), [(3, 0.0), (4, 0.0), (5, 0.3), (8, -1.0)])
def test_the_corners_of_a_pyramid_lie_on_two_of_its_sides(sides, heading, pyramid):
    """Corners by trigonometry alone: on the exact cone for the inner pyramid, beyond it by 1 / cos(pi / k) for the outer one."""
    rows = Cone(sides, pyramid, heading).rows(MU)
    radius = MU if pyramid == "inner" else MU / np.cos(np.pi / sides)
    angle = heading + (2 * np.arange(sides) + 1) * np.pi / sides
    values = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), np.ones(sides)]) @ rows.T
    assert ((np.abs(values) < 1e-12).sum(axis=1) == 2).all()
    assert values.max() < 1e-12


def one_body():
    b = Builder("body")
    b.body("body", parent="world", joint=Joint("base", "free_flyer"),
           inertia=BodyInertia(2.0, (0, 0, 0), ((0.1, 0, 0), (0, 0.2, 0), (0, 0, 0.3))))
    return b.build()


def test_every_reader_of_a_contact_sees_the_same_force_and_the_same_motion():
    """A sole on a slope: its corners by the geometry; limits and the exact cone of each corner against the definition;
    rows of programmes against how fast gaps open."""
    sole = FlatContact("sole", "body", (0.1, 0.0, -0.2), normal=(0.3, -0.4, 1.2), height=-0.5, friction=MU, half_sizes=SIZES,
                       cone=Cone(6), least=1.0, most=9.0)
    n, corners = np.array([0.3, -0.4, 1.2]) / 1.3, sole.apart()
    assert [c.name for c in corners] == [f"sole {k}" for k in range(4)]
    assert {tuple(np.round(np.subtract(c.points[0], (0.1, 0.0, -0.2)), 12)) for c in corners} == {
        (x * SIZES[0], y * SIZES[1], 0.0) for x in (1, -1) for y in (1, -1)}
    rng, allowed = np.random.default_rng(0), 0
    for f in rng.standard_normal((400, 3)) + 3.0 * n:
        along, across = n @ f, np.linalg.norm(f - n * (n @ f))
        D, low, high = corners[0].limits()
        if inside := bool((low <= D @ f).all() and (D @ f <= high).all()):
            assert 1.0 <= along <= 9.0
            assert across <= MU * along
        allowed += inside
        assert corners[0].used(f) == pytest.approx(across / (MU * along) if along > 0 else np.inf)
        mu_f, *f_t = np.array(corners[0].cones(ca.DM(sole.plane @ f))[0]).ravel()
        assert (mu_f, np.hypot(*f_t)) == pytest.approx((MU * along, across))
    assert 20 < allowed < 380
    model, q, v = one_body(), np.r_[0.1, 0.2, 0.3, 0.8, 0.6, 0.0, 0.0], rng.standard_normal(6)
    N, T = (np.array(ca.DM(x)) for x in touch_rows(model, ca.DM(q), corners))
    gaps = [np.array([float(c.gap(model, ca.DM(alg.integrate(model, q, s * 1e-6 * v)))) for c in corners]) for s in (1, -1)]
    np.testing.assert_allclose(N @ v, (gaps[0] - gaps[1]) / 2e-6, atol=1e-8)
    np.testing.assert_allclose((T @ v)[[0, 2]], -(T @ v)[[1, 3]], atol=1e-14)


def test_a_point_that_slides_with_friction_is_no_constraint():
    sliding = PointContact("foot", "body", friction=MU, slip=(0.0, 0.0, 0.0))
    with pytest.raises(ModelError, match="sliding friction"):
        Mechanism(one_body(), constraints=(sliding,))
    Mechanism(one_body(), constraints=(sliding.but(slip=None),))
    for change, words in (({"restitution": 2.0}, "restitution"), ({"least": 2.0, "most": 1.0}, "least <= most"),
                          ({"within": ((0.0, -1.0),) * 3}, "not a box")):
        with pytest.raises(ModelError, match=words):
            Mechanism(one_body(), constraints=(PointContact("foot", "body", **change),))
