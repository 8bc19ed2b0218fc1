"""Rotations in every parameterisation, through one table: `PARAMETERISATIONS`.

An element x of a parameterisation stands for the rotation A_R_B, which takes components in B to components in A,
or, read actively, turns vectors of A. The names are "matrix" (3 x 3), "quaternion" (w, x, y, z), "angle_axis"
(θ, n), "rotation_vector" (φ) and the twelve Euler sequences "zyx", "xyz", "zyz", "zxz", ... of `euler`.
Every function below works for every name, on numbers and on CasADi graphs alike; an unknown name is a `ValueError`
with near misses. Angular velocities ω are those of B relative to A, given in B (frame "body") or A ("world").

The box operators of the whole package are the right ones: x ⊞ d = x exp(d) with d in B. The left ones of Gehring et
al., "Kindr cheat sheet", x ⊞ v = exp(v) x with v in A, have "left" in their names. Minus takes end before start, as
they write it: end ⊟ start.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dynamics.errors import near
from dynamics.lie import angle_axis, euler, quaternion, rotation_matrix, rotation_vector, so3
from dynamics.lie.expression import Expression, ExpressionLike, column, matrix, scalar

Map = Callable[[ExpressionLike], Expression]
QuadraticMap = Callable[[ExpressionLike, ExpressionLike], Expression]

FRAMES = ("body", "world")
"""Where an angular velocity or acceleration is given: in B or in A."""


@dataclass(frozen=True)
class Parameterisation:
    """The interface of a parameterisation with elements of shape `shape`, n entries in all.

    Entries of matrices are stacked by columns, 9 x 1, wherever a rate is concerned.
    """

    name: str
    shape: tuple[int, int]
    components: tuple[str, ...]
    neutral: tuple[float, ...]
    to_matrix: Map
    from_matrix: Map
    to_quaternion: Map
    from_quaternion: Map
    canonical: Map
    """The one element that stands for the same rotation in the unique range."""
    velocity_body: Map
    """E (3 x n): ω = E ẋ."""
    velocity_world: Map
    rate_body: Map
    """E⁺ (n x 3): ẋ = E⁺ ω; `ChartSingularityError` for numbers where it does not exist."""
    rate_world: Map
    bias: QuadraticMap
    """x, ẋ -> Ė ẋ (3 x 1), world frame."""
    curvature: QuadraticMap
    """x, ẋ -> the part of ẍ (n x 1) that keeps x on its constraint."""


def _no_bias(x: ExpressionLike, rate: ExpressionLike) -> Expression:
    return ca.DM.zeros(3)


def _flat(x: ExpressionLike, rate: ExpressionLike) -> Expression:
    return ca.DM.zeros(3)


def _euler(kind: euler.Sequence) -> Parameterisation:
    return Parameterisation(
        kind.name, (3, 1), kind.components, (0.0, 0.0, 0.0),
        partial(euler.to_matrix, kind), partial(euler.from_matrix, kind),
        partial(euler.to_quaternion, kind), partial(euler.from_quaternion, kind), partial(euler.canonical, kind),
        partial(euler.angular_velocity_map, kind), partial(euler.angular_velocity_map_world, kind),
        partial(euler.rate_map, kind), partial(euler.rate_map_world, kind), partial(euler.bias, kind), _flat,
    )  # fmt: skip


def _same_matrix(x: ExpressionLike) -> Expression:
    return matrix(x, 3, 3, "rotation")


def _same_quaternion(x: ExpressionLike) -> Expression:
    return column(x, 4, "q")


_TABLE = (
    Parameterisation(
        "matrix", (3, 3), tuple(f"{r}{c}" for c in "xyz" for r in "xyz"), tuple(np.eye(3).ravel()),
        _same_matrix, _same_matrix, quaternion.from_matrix, quaternion.to_matrix, _same_matrix,
        rotation_matrix.rate_map_inverse, rotation_matrix.rate_map_world_inverse,
        rotation_matrix.rate_map, rotation_matrix.rate_map_world, _no_bias,
        lambda x, rate: ca.vec(rotation_matrix.curvature(x, rotation_matrix.from_vector(rate))),
    ),
    Parameterisation(
        "quaternion", (4, 1), ("w", "x", "y", "z"), (1.0, 0.0, 0.0, 0.0),
        quaternion.to_matrix, quaternion.from_matrix, _same_quaternion, _same_quaternion, quaternion.canonical,
        quaternion.rate_map_inverse, quaternion.rate_map_world_inverse,
        quaternion.rate_map, quaternion.rate_map_world, _no_bias, quaternion.curvature,
    ),
    Parameterisation(
        "angle_axis", (4, 1), ("angle", "x", "y", "z"), (0.0, 1.0, 0.0, 0.0),
        angle_axis.to_matrix, angle_axis.from_matrix, angle_axis.to_quaternion, angle_axis.from_quaternion,
        angle_axis.canonical, angle_axis.angular_velocity_map, angle_axis.angular_velocity_map_world,
        angle_axis.rate_map, angle_axis.rate_map_world, angle_axis.bias, angle_axis.curvature,
    ),
    Parameterisation(
        "rotation_vector", (3, 1), ("x", "y", "z"), (0.0, 0.0, 0.0),
        so3.exp, so3.log, quaternion.exp, quaternion.log, rotation_vector.canonical,
        rotation_vector.angular_velocity_map, rotation_vector.angular_velocity_map_world,
        rotation_vector.rate_map, rotation_vector.rate_map_world, rotation_vector.bias, _flat,
    ),
    *(_euler(kind) for kind in euler.SEQUENCES.values()),
)  # fmt: skip

PARAMETERISATIONS: Mapping[str, Parameterisation] = {entry.name: entry for entry in _TABLE}
"""Every parameterisation by name."""

DIRECT: Mapping[tuple[str, str], Map] = {
    ("angle_axis", "rotation_vector"): angle_axis.to_rotation_vector,
    ("rotation_vector", "angle_axis"): angle_axis.from_rotation_vector,
}
"""Conversions with a route of their own; they keep angles beyond π. All others pass the matrix or the quaternion."""


def parameterisation(kind: str) -> Parameterisation:
    """The entry of that name; `ValueError` with near misses for another one."""
    if kind not in PARAMETERISATIONS:
        raise ValueError(f"no rotation parameterisation named {kind!r}{near(kind, PARAMETERISATIONS, most=20)}")
    return PARAMETERISATIONS[kind]


def convert(x: ExpressionLike, source: str, target: str) -> Expression:
    """The element of `target` that stands for the same rotation as x of `source`.

    Not always in the unique range: a quaternion may come with w < 0 and angles beyond π stay; see `canonical`.
    """
    a, b = parameterisation(source), parameterisation(target)
    if source == target:
        return matrix(x, *a.shape, source)
    if (source, target) in DIRECT:
        return DIRECT[source, target](x)
    if target == "matrix":
        return a.to_matrix(x)
    if source == "matrix":
        return b.from_matrix(x)
    return b.from_quaternion(a.to_quaternion(x))


def canonical(kind: str, x: ExpressionLike) -> Expression:
    """The element of the unique range for the same rotation: quaternions with their first non-zero component
    positive, angles θ and lengths |φ| at most π, Euler angles as in `euler`."""
    return parameterisation(kind).canonical(x)


def neutral(kind: str) -> NDArray[np.float64]:
    """The identity, in the shape of the parameterisation ((n,) for columns)."""
    entry = parameterisation(kind)
    values = np.array(entry.neutral)
    return values.reshape(3, 3) if entry.shape == (3, 3) else values


def random(kind: str, rng: np.random.Generator) -> NDArray[np.float64]:
    """An element uniform over rotations, in the shape of the parameterisation ((n,) for columns)."""
    entry = parameterisation(kind)
    values = ca.DM(entry.from_quaternion(quaternion.random(rng))).full()
    return values if entry.shape == (3, 3) else values.ravel()


# ------------------------------------------------------------------------------------------------ group and action
def compose(kind: str, a: ExpressionLike, b: ExpressionLike) -> Expression:
    """a b: A_R_C from A_R_B and B_R_C; as active rotations, b first."""
    entry = parameterisation(kind)
    if kind == "matrix":
        return ca.mtimes(_same_matrix(a), _same_matrix(b))
    return entry.from_quaternion(quaternion.product(entry.to_quaternion(a), entry.to_quaternion(b)))


def inverse(kind: str, x: ExpressionLike) -> Expression:
    """x⁻¹: B_R_A from A_R_B."""
    entry = parameterisation(kind)
    if kind == "matrix":
        return _same_matrix(x).T
    return entry.from_quaternion(quaternion.conjugate(entry.to_quaternion(x)))


def rotate(kind: str, x: ExpressionLike, vector: ExpressionLike) -> Expression:
    """The vector (3 x 1) turned by x, all in A (active); equally, components in B taken to A."""
    entry = parameterisation(kind)
    if kind == "matrix":
        return ca.mtimes(_same_matrix(x), column(vector, 3, "vector"))
    return quaternion.rotate(entry.to_quaternion(x), vector)


def rotate_frame(kind: str, x: ExpressionLike, vector: ExpressionLike) -> Expression:
    """Components (3 x 1), in the frame turned by x, of a vector that stays where it is (passive): from A to B."""
    entry = parameterisation(kind)
    if kind == "matrix":
        return ca.mtimes(_same_matrix(x).T, column(vector, 3, "vector"))
    return quaternion.rotate(quaternion.conjugate(entry.to_quaternion(x)), vector)


def exp(kind: str, phi: ExpressionLike) -> Expression:
    """The element that turns by the rotation vector φ (3 x 1, rad)."""
    return convert(column(phi, 3, "phi"), "rotation_vector", kind)


def log(kind: str, x: ExpressionLike) -> Expression:
    """The rotation vector (3 x 1, rad, |φ| <= π) of an element."""
    entry = parameterisation(kind)
    return so3.log(x) if kind == "matrix" else quaternion.log(entry.to_quaternion(x))


# ------------------------------------------------------------------------------------------------ box operators
def box_plus(kind: str, x: ExpressionLike, d: ExpressionLike) -> Expression:
    """x exp(d) for the body-frame d (3 x 1, rad)."""
    return compose(kind, x, exp(kind, d))


def box_plus_left(kind: str, x: ExpressionLike, v: ExpressionLike) -> Expression:
    """exp(v) x for the world-frame v (3 x 1, rad)."""
    return compose(kind, exp(kind, v), x)


def box_minus(kind: str, end: ExpressionLike, start: ExpressionLike) -> Expression:
    """d = log(start⁻¹ end) (3 x 1, rad, body frame): `box_plus(kind, start, d)` is `end`."""
    q_start, q_end = _pair(kind, start, end)
    return quaternion.log(quaternion.product(quaternion.conjugate(q_start), q_end))


def box_minus_left(kind: str, end: ExpressionLike, start: ExpressionLike) -> Expression:
    """v = log(end start⁻¹) (3 x 1, rad, world frame): `box_plus_left(kind, start, v)` is `end`."""
    q_start, q_end = _pair(kind, start, end)
    return quaternion.log(quaternion.product(q_end, quaternion.conjugate(q_start)))


def interpolate(kind: str, start: ExpressionLike, end: ExpressionLike, t: ExpressionLike) -> Expression:
    """Spherical linear interpolation (end start⁻¹)^t start, the shorter way round at constant angular velocity."""
    return box_plus_left(kind, start, scalar(t, "t") * box_minus_left(kind, end, start))


def advance(kind: str, x: ExpressionLike, omega: ExpressionLike, step: ExpressionLike, frame: str = "body") -> Expression:
    """A_R_B after `step` (s) at constant ω (3 x 1, rad/s) of B relative to A."""
    turn = scalar(step, "step") * column(omega, 3, "omega")
    return box_plus(kind, x, turn) if _is_body(frame) else box_plus_left(kind, x, turn)


def advance_inverse(
    kind: str, x: ExpressionLike, omega: ExpressionLike, step: ExpressionLike, frame: str = "body"
) -> Expression:
    """As `advance` for x that stands for B_R_A; ω still of B relative to A: x ⊞ (-ω step) with ⊞ on the left."""
    turn = -scalar(step, "step") * column(omega, 3, "omega")
    return box_plus_left(kind, x, turn) if _is_body(frame) else box_plus(kind, x, turn)


def mean_velocity(
    kind: str, end: ExpressionLike, start: ExpressionLike, step: ExpressionLike, frame: str = "body"
) -> Expression:
    """The constant ω (3 x 1, rad/s) of B relative to A that takes A_R_B from start to end in `step` (s)."""
    minus = box_minus if _is_body(frame) else box_minus_left
    return minus(kind, end, start) / scalar(step, "step")


def mean_velocity_inverse(
    kind: str, end: ExpressionLike, start: ExpressionLike, step: ExpressionLike, frame: str = "body"
) -> Expression:
    """As `mean_velocity` for elements that stand for B_R_A; ω still of B relative to A."""
    minus = box_minus_left if _is_body(frame) else box_minus
    return -minus(kind, end, start) / scalar(step, "step")


# ------------------------------------------------------------------------------------------------ rates
def angular_velocity(kind: str, x: ExpressionLike, rate: ExpressionLike, frame: str = "body") -> Expression:
    """ω (3 x 1, rad/s) = E ẋ, for ẋ in the shape of x and tangent to its constraint."""
    entry = parameterisation(kind)
    linear = entry.velocity_body if _is_body(frame) else entry.velocity_world
    return ca.mtimes(linear(x), _stacked(entry, rate, "rate"))


def rate(kind: str, x: ExpressionLike, omega: ExpressionLike, frame: str = "body") -> Expression:
    """ẋ = E⁺ ω in the shape of x; `ChartSingularityError` for numbers at a singularity of the chart."""
    entry = parameterisation(kind)
    linear = entry.rate_body if _is_body(frame) else entry.rate_world
    return ca.reshape(ca.mtimes(linear(x), column(omega, 3, "omega")), *entry.shape)


def angular_acceleration(
    kind: str, x: ExpressionLike, rate: ExpressionLike, second: ExpressionLike, frame: str = "body"
) -> Expression:
    """ω̇ (3 x 1, rad/s²) = E ẍ + Ė ẋ; in the body frame its components are Rᵀ those in the world, as ω × ω = 0."""
    entry = parameterisation(kind)
    quadratic = entry.bias(x, _stacked(entry, rate, "rate"))
    linear = entry.velocity_body if _is_body(frame) else entry.velocity_world
    if _is_body(frame):
        quadratic = rotate_frame(kind, x, quadratic)
    return ca.mtimes(linear(x), _stacked(entry, second, "second")) + quadratic


def second_rate(
    kind: str, x: ExpressionLike, rate: ExpressionLike, acceleration: ExpressionLike, frame: str = "body"
) -> Expression:
    """ẍ in the shape of x from ẋ and ω̇ (3 x 1, rad/s²); `ChartSingularityError` as `rate`.

    ẍ = c + E⁺ (ω̇ - Ė ẋ - E c), with c the part that keeps x on its constraint.
    """
    entry = parameterisation(kind)
    flat = _stacked(entry, rate, "rate")
    world = column(acceleration, 3, "acceleration")
    if _is_body(frame):
        world = rotate(kind, x, world)
    kept = entry.curvature(x, flat)
    free = world - entry.bias(x, flat) - ca.mtimes(entry.velocity_world(x), kept)
    return ca.reshape(kept + ca.mtimes(entry.rate_world(x), free), *entry.shape)


def _is_body(frame: str) -> bool:
    if frame not in FRAMES:
        raise ValueError(f"no frame named {frame!r}{near(frame, FRAMES)}")
    return frame == "body"


def _pair(kind: str, start: ExpressionLike, end: ExpressionLike) -> tuple[Expression, Expression]:
    entry = parameterisation(kind)
    return entry.to_quaternion(start), entry.to_quaternion(end)


def _stacked(entry: Parameterisation, x: ExpressionLike, name: str) -> Expression:
    return ca.vec(matrix(x, *entry.shape, name))
