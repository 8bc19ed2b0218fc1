"""How other libraries store joints: one record per library, one encoding per joint kind that they store differently.

    pinocchio  joints depth first, siblings by joint name (its URDF reader); quaternions (x, y, z, w); continuous joints and the
               angle of planar ones as (cos, sin); velocities as ours (base twist in the body frame)
    mujoco     joints depth first, siblings in the model's order; a free joint holds the WORLD pose, its velocity is [linear in
               world axes; angular in body axes], so its acceleration has a term omega x v; planar joints are slide, slide,
               hinge; followers of mimic joints have coordinates of their own
    drake      joints depth first, siblings in the model's order; floating base quaternion (w, x, y, z) BEFORE position, its
               velocity [angular; linear] in the parent's axes; ball joints as roll-pitch-yaw with their angular
               velocity in the parent's axes
    kindr      joints as ours; floating base as MuJoCo's

Source: the libraries' own documentation (Pinocchio 3, MuJoCo 3, Drake 1.5x MultibodyPlant; ANYbotics/kindr cheat sheet).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import casadi as ca

from dynamics import spatial
from dynamics.errors import ModelError, near
from dynamics.lie import quaternion, rpy
from dynamics.lie.expression import Expr
from dynamics.notation.representation import motion_map, motion_map_rate
from dynamics.spatial import Transform


@dataclass(frozen=True)
class Encoding:
    """How a library stores one joint. F is the constant pose of the joint frame in the library's reference for it.

    forward(F, q), backward(F, q'): the configuration [nq] -> [stored] and back; velocity(F, q): V with ``v' = V v``, an
    orthogonal matrix, None for the identity; velocity_rate(F, q, v): dV/dt. The q of the velocity maps is ours.
    """

    stored: int
    forward: Callable[[Transform, Expr], Expr]
    backward: Callable[[Transform, Expr], Expr]
    velocity: Callable[[Transform, Expr], Expr] | None = None
    velocity_rate: Callable[[Transform, Expr, Expr], Expr] | None = None


@dataclass(frozen=True)
class Library:
    """encodings: for the joint kinds that differ from ours; order: ``name``, ``model`` (siblings, depth first) or ``as_is``;
    followers: mimic joints own coordinates; inner_free: a free-flyer may hang from a moving body."""

    name: str
    encodings: Mapping[str, Encoding]
    order: str
    followers: bool = False
    inner_free: bool = True


# ------------------------------------------------------------------------------------------------ encodings
def _turned(F: Transform, q: Expr) -> Transform:
    """Pose of a free-flyer in the library's reference."""
    return spatial.compose(F, Transform(quaternion.to_matrix(q[3:7]), q[0:3]))


def _reference_position_quaternion(F: Transform, q: Expr) -> Expr:
    fixed = quaternion.from_matrix(F.R)
    return ca.vertcat(spatial.act_point(F, q[0:3]), quaternion.product(fixed, q[3:7]))


def _own_position_quaternion(F: Transform, x: Expr) -> Expr:
    back = spatial.inverse(F)
    unturned = quaternion.product(quaternion.conjugate(quaternion.from_matrix(F.R)), x[3:7])
    return ca.vertcat(spatial.act_point(back, x[0:3]), unturned)


def _free_map(representation: str, exchanged: bool) -> tuple[Callable[..., Expr], Callable[..., Expr]]:
    def velocity(F: Transform, q: Expr) -> Expr:
        T = motion_map(_turned(F, q), representation)
        return spatial.exchange(T) if exchanged else T

    def rate(F: Transform, q: Expr, v: Expr) -> Expr:
        T = motion_map_rate(_turned(F, q), v, representation)
        return spatial.exchange(T) if exchanged else T

    return velocity, rate


def _turn(angle: Expr) -> Expr:
    c, s = ca.cos(angle), ca.sin(angle)
    return ca.blockcat([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def _turn_rate(q: Expr, v: Expr) -> Expr:
    c, s = ca.cos(q[2]) * v[2], ca.sin(q[2]) * v[2]
    return ca.blockcat([[-s, -c, 0], [c, -s, 0], [0, 0, 0]])


_XYZW = Encoding(4, lambda F, q: ca.vertcat(q[1:4], q[0]), lambda F, x: ca.vertcat(x[3], x[0:3]))
_FREE_XYZW = Encoding(7, lambda F, q: ca.vertcat(q[0:3], q[4:7], q[3]), lambda F, x: ca.vertcat(x[0:3], x[6], x[3:6]))
_COS_SIN = Encoding(2, lambda F, q: ca.vertcat(ca.cos(q), ca.sin(q)), lambda F, x: ca.atan2(x[1], x[0]))
_PLANAR_COS_SIN = Encoding(4, lambda F, q: ca.vertcat(q[0:2], ca.cos(q[2]), ca.sin(q[2])),
                           lambda F, x: ca.vertcat(x[0:2], ca.atan2(x[3], x[2])))
_FREE_HYBRID = Encoding(7, _reference_position_quaternion, _own_position_quaternion, *_free_map("kindr", False))
_FREE_DRAKE = Encoding(7, lambda F, q: _rolled(_reference_position_quaternion(F, q)),
                       lambda F, x: _own_position_quaternion(F, ca.vertcat(x[4:7], x[0:4])), *_free_map("mixed", True))
_PLANAR_PARENT = Encoding(3, lambda F, q: q, lambda F, x: x, lambda F, q: _turn(q[2]), lambda F, q, v: _turn_rate(q, v))
_BALL_RPY = Encoding(3, lambda F, q: rpy.from_quaternion(q), lambda F, x: rpy.to_quaternion(x),
                     lambda F, q: quaternion.to_matrix(q), lambda F, q, v: quaternion.to_matrix(q) @ spatial.hat(v))


def _rolled(x: Expr) -> Expr:
    return ca.vertcat(x[3:7], x[0:3])


LIBRARIES: Mapping[str, Library] = MappingProxyType({lib.name: lib for lib in (
    Library("pinocchio", MappingProxyType({"continuous": _COS_SIN, "planar": _PLANAR_COS_SIN, "spherical": _XYZW,
                                           "free_flyer": _FREE_XYZW}), "name"),
    Library("mujoco", MappingProxyType({"free_flyer": _FREE_HYBRID, "planar": _PLANAR_PARENT}), "model", True, False),
    Library("drake", MappingProxyType({"free_flyer": _FREE_DRAKE, "planar": _PLANAR_PARENT, "spherical": _BALL_RPY}), "model"),
    Library("kindr", MappingProxyType({"free_flyer": _FREE_HYBRID}), "as_is"),
)})


def library(name: str) -> Library:
    """The adapter of this name. Raises ModelError with near spellings."""
    if name not in LIBRARIES:
        raise ModelError(f"no adapter named {name!r}{near(name, LIBRARIES)}")
    return LIBRARIES[name]
