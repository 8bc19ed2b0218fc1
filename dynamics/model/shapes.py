"""Inertias of solid shapes of even density, of what a closed mesh of triangles encloses, and principal frames.

Shapes are centred at the origin of their frame; ``rigid.moved`` places them and ``rigid.merged`` joins them to one body.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dynamics.errors import ModelError
from dynamics.model.records import BodyInertia, Placement
from dynamics.model.rigid import body_inertia, placement

#: of shapes too large for numbers; what comes out is refused
OVERFLOWING = np.errstate(over="ignore", invalid="ignore")


@OVERFLOWING
def box(density: float, sides: Sequence[float]) -> BodyInertia:
    """A cuboid with these sides [3] (m); density in kg/m^3."""
    _positive(density=density, sides=sides)
    x, y, z = np.asarray(sides, float)**2
    mass = density * float(np.prod(sides))
    return body_inertia(mass, np.zeros(3), np.diag([y + z, x + z, x + y]) * mass / 12)


@OVERFLOWING
def ellipsoid(density: float, radii: Sequence[float]) -> BodyInertia:
    """An ellipsoid with these semi-axes [3] (m); three equal ones are a ball."""
    _positive(density=density, radii=radii)
    x, y, z = np.asarray(radii, float)**2
    mass = density * 4 / 3 * np.pi * float(np.prod(radii))
    return body_inertia(mass, np.zeros(3), np.diag([y + z, x + z, x + y]) * mass / 5)


@OVERFLOWING
def cylinder(density: float, radius: float, length: float) -> BodyInertia:
    """A cylinder along z; m."""
    _positive(density=density, radius=radius, length=length)
    radius, length = np.float64(radius), np.float64(length)
    mass = density * np.pi * radius**2 * length
    across = mass * (3 * radius**2 + length**2) / 12
    return body_inertia(mass, np.zeros(3), np.diag([across, across, mass * radius**2 / 2]))


@OVERFLOWING
def capsule(density: float, radius: float, length: float) -> BodyInertia:
    """A cylinder along z of this length between the centres of two half balls; m."""
    _positive(density=density, radius=radius, length=length)
    middle, ball = cylinder(density, radius, length), ellipsoid(density, (radius,) * 3)
    radius, length = np.float64(radius), np.float64(length)
    # a half ball has its centre of mass 3/8 radius from its flat side
    shift = length**2 / 4 + 3 * length * radius / 8
    tensor = np.asarray(middle.inertia) + np.asarray(ball.inertia) + ball.mass * shift * np.diag([1.0, 1.0, 0.0])
    return body_inertia(middle.mass + ball.mass, np.zeros(3), tensor)


@OVERFLOWING
def solid_of(density: float, vertices: ArrayLike, triangles: ArrayLike) -> BodyInertia:
    """The solid inside a closed surface of triangles; vertices [n, 3] (m), triangles [k, 3]: indices, anticlockwise from outside.

    Each triangle spans a tetrahedron with the origin; volumes, first and second moments add up with their signs (the moments of
    polynomial mass properties, Mirtich 1996). Raises ModelError for a surface that is not closed, or turned inside out.
    """
    _positive(density=density)
    points, faces = np.asarray(vertices, float), np.asarray(triangles)
    if points.ndim != 2 or points.shape[1:] != (3,) or not np.all(np.isfinite(points)):
        raise ModelError(f"vertices must be finite numbers [n, 3], got shape {points.shape}", element="mesh")
    if faces.ndim != 2 or faces.shape[1:] != (3,) or not np.issubdtype(faces.dtype, np.integer):
        raise ModelError(f"triangles must be indices [k, 3], got shape {faces.shape} of {faces.dtype}", element="mesh")
    if faces.size and not 0 <= faces.min() <= faces.max() < len(points):
        raise ModelError(f"triangles refer to vertices {faces.min()} to {faces.max()}, there are {len(points)}", element="mesh")
    edges = Counter((int(f[i]), int(f[(i + 1) % 3])) for f in faces for i in range(3))
    for (one, two), count in edges.items():
        if count != 1 or edges[two, one] != 1:
            raise ModelError(f"the surface is not closed or not consistently oriented at the edge {one}-{two}", element="mesh")
    origin = points.mean(axis=0)  # digits are lost far from the solid
    a, b, c = (points[faces[:, i]] - origin for i in range(3))
    sixfold = np.einsum("ij,ij->i", a, np.cross(b, c))
    volume = sixfold.sum() / 6
    if not volume > 0:
        raise ModelError(f"volume {volume:.3g} m^3 is not positive; are the triangles turned inside out?", element="mesh")
    s = a + b + c
    first = sixfold @ s / 24
    second = sum(np.einsum("i,ij,ik->jk", sixfold, x, x) for x in (s, a, b, c)) / 120
    com = first / volume
    second = second - volume * np.outer(com, com)
    return body_inertia(density * volume, origin + com, density * (np.trace(second) * np.eye(3) - second))


def principal_frame(inertia: BodyInertia) -> tuple[Placement, np.ndarray]:
    """The right-handed frame at the centre of mass along the principal axes, and the moments [3] (kg m^2) about them, ascending."""
    moments, axes = np.linalg.eigh(np.asarray(inertia.inertia))
    if np.linalg.det(axes) < 0:
        axes[:, 2] = -axes[:, 2]
    return placement(axes, inertia.com), moments


def _positive(**values: float | Sequence[float]) -> None:
    for name, value in values.items():
        numbers = np.atleast_1d(np.asarray(value, float))
        if not (np.all(numbers > 0) and np.all(np.isfinite(numbers))):
            raise ModelError(f"{name} must be positive and finite, got {value}", element="shape")
        if name in ("sides", "radii") and numbers.shape != (3,):
            raise ModelError(f"{name} must be three numbers, got {value}", element="shape")
