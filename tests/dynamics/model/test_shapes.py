"""Inertias of shapes against integrals over their slices, against each other as meshes, and as parts of one body."""

import numpy as np
import pytest

from dynamics import ModelError
from dynamics.model import BodyInertia, Placement
from dynamics.model.rigid import body_inertia, merged, moved, placement, rotation_axis_angle
from dynamics.model.shapes import box, capsule, cylinder, ellipsoid, principal_frame, solid_of
from dynamics.model.synthetic import random_inertia, random_rotation

CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
FACES = np.array([[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4],
                  [1, 5, 7], [1, 7, 3]])


def same(a, b, tolerance=1e-12):
    size = max(np.abs(np.array(b.inertia)).max(), 1e-30)
    assert a.mass == pytest.approx(b.mass, rel=tolerance)
    np.testing.assert_allclose(a.com, b.com, atol=max(tolerance, 1e-13))
    np.testing.assert_allclose(np.array(a.inertia) / size, np.array(b.inertia) / size, atol=tolerance)


def sliced(density, section, *edges):
    """Mass and inertia by Gauss's quadrature over slices across z: section(z) -> area, second moments along x and y."""
    x, w = np.polynomial.legendre.leggauss(30)
    total = np.zeros((4, 4))
    for a, b in zip(edges[:-1], edges[1:], strict=True):
        for z, weight in zip((a + b) / 2 + (b - a) / 2 * x, density * (b - a) / 2 * w, strict=True):
            area, xx, yy = section(z)
            total += weight * np.diag([xx, yy, area * z**2, area])
    mass, second = total[3, 3], total[:3, :3]
    return mass, np.trace(second) * np.eye(3) - second


def ellipse(a, b):
    return np.pi * a * b, np.pi * a**3 * b / 4, np.pi * a * b**3 / 4


def oval(z):
    share = np.sqrt(1 - (z / 0.9) ** 2)
    return ellipse(0.7 * share, 0.5 * share)


def pill(z):
    radius = np.sqrt(0.4**2 - max(abs(z) - 0.5, 0.0) ** 2)
    return ellipse(radius, radius)


@pytest.mark.row("003:M12")
@pytest.mark.parametrize(("made", "integral"), [
    (box(2.0, (1.0, 0.6, 0.4)), sliced(2.0, lambda z: (0.6, 0.6 / 12, 0.6**3 / 12), -0.2, 0.2)),
    (ellipsoid(2.0, (0.7, 0.5, 0.9)), sliced(2.0, oval, -0.9, 0.9)),
    (cylinder(2.0, 0.4, 1.2), sliced(2.0, lambda z: ellipse(0.4, 0.4), -0.6, 0.6)),
    (capsule(2.0, 0.4, 1.0), sliced(2.0, pill, -0.9, -0.5, 0.5, 0.9)),
], ids=["box", "ellipsoid", "cylinder", "capsule"])
def test_shapes_are_volume_integrals(made, integral):
    mass, tensor = integral
    assert made.mass == pytest.approx(mass, rel=1e-13)
    np.testing.assert_allclose(made.com, 0, atol=0)
    np.testing.assert_allclose(np.array(made.inertia), tensor, rtol=1e-12, atol=1e-14)


@pytest.mark.row("003:M12")
def test_known_moments_of_a_box():
    made = box(1.0, (10.0, 1.0, 1.0))
    assert made.mass == 10.0
    np.testing.assert_allclose(np.diag(made.inertia), [10 / 6, 10 / 12 * 101, 10 / 12 * 101])


@pytest.mark.row("003:M13")
def test_a_mesh_of_a_box_is_the_box_anywhere():
    rng = np.random.default_rng(0)
    sides, R, p = np.array([0.4, 1.1, 0.7]), random_rotation(rng), rng.standard_normal(3)
    made = solid_of(3.0, ((CORNERS - 0.5) * sides) @ R.T + p, FACES)
    same(made, moved(placement(R, p), box(3.0, sides)), 1e-11)


@pytest.mark.row("003:M13")
def test_a_mesh_of_a_tetrahedron_is_the_closed_form():
    """Corner at the origin, legs a, b, c along the axes: ``I_xx = m (3/80) (b^2 + c^2)``, ``I_xy = +m a b / 80``."""
    a, b, c, density = 0.5, 0.8, 1.3, 7.0
    made = solid_of(density, [[0, 0, 0], [a, 0, 0], [0, b, 0], [0, 0, c]], [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    m = density * a * b * c / 6
    expected = m / 80 * np.array([[3 * (b * b + c * c), a * b, a * c], [a * b, 3 * (a * a + c * c), b * c],
                                  [a * c, b * c, 3 * (a * a + b * b)]])
    same(made, body_inertia(m, [a / 4, b / 4, c / 4], expected))


@pytest.mark.row("003:M13")
def test_a_fine_mesh_approaches_the_cylinder():
    made = []
    for n in (40, 80):
        turn = np.linspace(0, 2 * np.pi, n, endpoint=False)
        ring = 0.3 * np.c_[np.cos(turn), np.sin(turn)]
        points = np.vstack([np.c_[ring, np.full(n, -0.5)], np.c_[ring, np.full(n, 0.5)], [[0, 0, -0.5], [0, 0, 0.5]]])
        k, nxt = np.arange(n), (np.arange(n) + 1) % n
        faces = np.vstack([np.c_[k, nxt, n + nxt], np.c_[k, n + nxt, n + k], np.c_[nxt, k, np.full(n, 2 * n)],
                           np.c_[n + k, n + nxt, np.full(n, 2 * n + 1)]])
        made.append(solid_of(2.0, points, faces))
    exact = cylinder(2.0, 0.3, 1.0)
    errors = [abs(np.array(m.inertia) - np.array(exact.inertia)).max() for m in made]
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.02)  # the polygon's area is second order in its angle


@pytest.mark.row("003:M14")
def test_two_cubes_side_by_side_are_one_cuboid():
    cube = box(1.0, (1.0, 1.0, 1.0))
    pair = merged([moved(Placement(position=(x, 0.0, 0.0)), cube) for x in (-0.5, 0.5)])
    same(pair, box(1.0, (2.0, 1.0, 1.0)))
    np.testing.assert_allclose(np.diag(pair.inertia), [1 / 3, 5 / 6, 5 / 6], rtol=1e-15)


@pytest.mark.row("003:M14")
def test_a_composite_is_its_adjoint_sum():
    """``M_c = sum A' M A`` about the common centre of mass: the lower-left block of the sum vanishes there."""
    from dynamics import spatial

    rng = np.random.default_rng(1)
    parts = [moved(placement(random_rotation(rng), rng.standard_normal(3)), random_inertia(rng)) for _ in range(3)]
    whole = merged(parts)
    to_com = spatial.Transform(spatial.constant(np.eye(3)), spatial.constant(-np.array(whole.com)))
    total = sum(np.array(spatial.inertia_matrix(spatial.transform_inertia(to_com, spatial.inertia_from_com(
        part.mass, part.com, part.inertia)))) for part in parts)
    expected = np.zeros((6, 6))
    expected[:3, :3], expected[3:, 3:] = whole.mass * np.eye(3), whole.inertia
    np.testing.assert_allclose(total, expected, atol=1e-12)


@pytest.mark.row("003:M15")
@pytest.mark.parametrize("seed", range(6))
def test_principal_frames_are_right_handed_and_diagonalise(seed):
    rng = np.random.default_rng(seed)
    inertia = moved(placement(random_rotation(rng), rng.standard_normal(3)), random_inertia(rng))
    frame, moments = principal_frame(inertia)
    R = np.array(frame.rotation)
    assert np.linalg.det(R) == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(R @ np.diag(moments) @ R.T, inertia.inertia, atol=1e-13)
    back = moved(frame, body_inertia(inertia.mass, np.zeros(3), np.diag(moments)))
    same(back, inertia, 1e-11)
    # each moment is the one about that axis: sum of m |axis x r|^2, here of a turned box
    sides, turn = np.array([0.3, 0.5, 0.8]), rotation_axis_angle(np.array([0.6, 0.0, 0.8]), 0.3 + seed)
    turned, expected = moved(placement(turn), box(1.0, sides)), np.sort(np.diag(box(1.0, sides).inertia))
    np.testing.assert_allclose(principal_frame(turned)[1], expected, rtol=1e-12)


@pytest.mark.parametrize(("make", "words"), [
    (lambda: box(1.0, (1.0, 0.0, 1.0)), r"shape.*sides must be positive"),
    (lambda: box(1.0, (1.0, 1.0)), r"sides must be three numbers"),
    (lambda: cylinder(-1.0, 1.0, 1.0), r"density must be positive"),
    (lambda: solid_of(1.0, CORNERS, FACES[:-1]), r"mesh.*not closed.*edge"),
    (lambda: solid_of(1.0, CORNERS, FACES[:, ::-1]), r"volume -1 m\^3.*inside out"),
    (lambda: solid_of(1.0, CORNERS, np.vstack([FACES[1:], FACES[:1, ::-1]])), r"not consistently oriented"),
    (lambda: solid_of(1.0, CORNERS, FACES + 1), r"vertices 1 to 8, there are 8"),
    (lambda: solid_of(1.0, CORNERS[:, :2], FACES), r"vertices must be finite numbers \[n, 3\]"),
    (lambda: solid_of(1.0, CORNERS, FACES + 0.5), r"triangles must be indices"),
])
def test_wrong_shapes_are_named(make, words):
    with pytest.raises(ModelError, match=words):
        make()


def test_a_solid_without_mass_is_nothing():
    assert merged([BodyInertia(), BodyInertia()]) == BodyInertia()
