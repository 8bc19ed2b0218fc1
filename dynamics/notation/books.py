"""The 6-vectors of other books and libraries, and the way from ours to theirs and back.

One table: which representation (left, mixed, right, kindr), which component order, and what they call acceleration
(``intrinsic``: spatial acceleration, no cross term; ``apparent``: the derivative of the velocity components). Source:
Traversaro and Saccon, Multibody dynamics notation, appendix A, Eqs. 85-94, and the documentation of the libraries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dynamics import spatial
from dynamics.algorithms.tree import as_column
from dynamics.errors import ModelError, near
from dynamics.lie.expression import Expr
from dynamics.notation.representation import (
    PoseLike,
    as_pose,
    force_map,
    force_map_inverse,
    motion_map,
    motion_map_inverse,
    motion_map_rate,
)


@dataclass(frozen=True)
class Notation:
    """symbol: what the velocity of B is called there."""

    name: str
    representation: str
    angular_first: bool
    acceleration: str
    symbol: str


NOTATIONS: Mapping[str, Notation] = MappingProxyType({n.name: n for n in (
    Notation("featherstone_body", "left", True, "intrinsic", "Bv_B, angular first"),
    Notation("featherstone_ground", "right", True, "intrinsic", "0v_B, angular first"),
    Notation("siciliano", "mixed", False, "apparent", "v_B = [pdot_B; omega_B]"),
    Notation("spong", "mixed", False, "apparent", "xi_B^A = [odot; omega]"),
    Notation("murray_body", "left", False, "apparent", "V^b_ab"),
    Notation("murray_spatial", "right", False, "apparent", "V^s_ab"),
    Notation("pinocchio_LOCAL", "left", False, "intrinsic", "getFrameVelocity(LOCAL)"),
    Notation("pinocchio_WORLD", "right", False, "intrinsic", "getFrameVelocity(WORLD)"),
    Notation("pinocchio_LOCAL_WORLD_ALIGNED", "mixed", False, "intrinsic", "getFrameVelocity(LOCAL_WORLD_ALIGNED)"),
    Notation("idyntree_BODY_FIXED", "left", False, "apparent", "BODY_FIXED_REPRESENTATION"),
    Notation("idyntree_INERTIAL_FIXED", "right", False, "apparent", "INERTIAL_FIXED_REPRESENTATION"),
    Notation("idyntree_MIXED", "mixed", False, "apparent", "MIXED_REPRESENTATION"),
    Notation("drake", "mixed", True, "apparent", "V_WB, angular first"),
    Notation("mujoco_object", "mixed", True, "apparent", "mj_objectVelocity(flg_local=0), angular first"),
    Notation("mujoco_object_local", "left", True, "intrinsic", "mj_objectVelocity(flg_local=1), angular first"),
    Notation("kindr", "kindr", False, "apparent", "[I_v_B; B_w_IB]; MuJoCo's qvel of a free joint"),
    Notation("redmax", "left", True, "apparent", "phi, angular first"),
)})


def notation(name: str) -> Notation:
    """The record of a notation. Raises ModelError with near misses."""
    if name not in NOTATIONS:
        raise ModelError(f"no notation named {name!r}{near(name, NOTATIONS)}")
    return NOTATIONS[name]


def _order(record: Notation, vector: Expr) -> Expr:
    return spatial.exchange(vector) if record.angular_first else vector


def twist_as(name: str, A_H_B: PoseLike, B_v_AB: Expr) -> Expr:
    """The velocity of B [6] as that notation writes it, from our left-trivialised twist."""
    record = notation(name)
    return _order(record, motion_map(A_H_B, record.representation) @ as_column(B_v_AB))


def twist_from(name: str, A_H_B: PoseLike, v: Expr) -> Expr:
    """The inverse of :func:`twist_as`."""
    record = notation(name)
    return motion_map_inverse(A_H_B, record.representation) @ _order(record, as_column(v))


def wrench_as(name: str, A_H_B: PoseLike, B_f: Expr) -> Expr:
    """A wrench [6] as that notation writes it, dual to its twists: same power."""
    record = notation(name)
    return _order(record, force_map(A_H_B, record.representation) @ as_column(B_f))


def wrench_from(name: str, A_H_B: PoseLike, f: Expr) -> Expr:
    """The inverse of :func:`wrench_as`."""
    record = notation(name)
    return force_map_inverse(A_H_B, record.representation) @ _order(record, as_column(f))


def acceleration_as(name: str, A_H_B: PoseLike, B_v_AB: Expr, B_vdot_AB: Expr) -> Expr:
    """The acceleration of B [6] in that notation, from our twist and its derivative."""
    record = notation(name)
    out = motion_map(A_H_B, record.representation) @ as_column(B_vdot_AB)
    if record.acceleration == "apparent":
        out = out + motion_map_rate(A_H_B, B_v_AB, record.representation) @ as_column(B_v_AB)
    return _order(record, out)


def acceleration_from(name: str, A_H_B: PoseLike, B_v_AB: Expr, a: Expr) -> Expr:
    """The inverse of :func:`acceleration_as`; B_v_AB is ours."""
    record = notation(name)
    out = _order(record, as_column(a))
    if record.acceleration == "apparent":
        out = out - motion_map_rate(A_H_B, B_v_AB, record.representation) @ as_column(B_v_AB)
    return motion_map_inverse(A_H_B, record.representation) @ out


def plucker_transform(B_E_A: Expr, A_r_B: Expr) -> Expr:
    """Featherstone's ``B_X_A`` [6, 6], angular first, from his E (A to B coordinates) and r (origin of B in A): RBDA (2.24).

    ``[[E, 0], [-E r^, E]]``, from our transform by an exchange of the two halves.
    """
    E = as_column(B_E_A)
    A_H_B = as_pose((E.T, A_r_B))
    return spatial.exchange_operator(spatial.motion_matrix(spatial.inverse(A_H_B)))


def plucker_force_transform(B_E_A: Expr, A_r_B: Expr) -> Expr:
    """Featherstone's ``B_X_A*`` [6, 6], angular first: our ``B_X^A``, exchanged."""
    E = as_column(B_E_A)
    A_H_B = as_pose((E.T, A_r_B))
    return spatial.exchange_operator(spatial.force_matrix(spatial.inverse(A_H_B)))
