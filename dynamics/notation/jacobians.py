"""Geometric Jacobians ``D_J_AE/C``: of any frame, relative to any frame, with any output and base coordinates, and their rates.

The output representation says in which coordinates the twist of the frame E comes out, the base representation in which
coordinates the twist of the moving base goes in (robots without a moving base: ``left``, which changes nothing). Source:
Traversaro and Saccon, Multibody dynamics notation, section 8, Eqs. 70-76; contact Jacobians section 9, Eqs. 81 and 82.
"""

from __future__ import annotations

from collections.abc import Iterable

import casadi as ca

from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.algorithms import jacobian_rate as rates
from dynamics.algorithms.jacobians import relative_jacobian as relative_jacobian_mixed
from dynamics.algorithms.tree import as_column
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from dynamics.notation import moving_base
from dynamics.notation.representation import PoseLike, as_pose, motion_map, motion_map_inverse, motion_map_rate
from dynamics.notation.twists import relative_twist
from dynamics.spatial import Transform


def jacobian(model: Model, q: Expr, frame: str, output: str = "left", base: str = "left") -> Expr:
    """J [6, nv] of a frame E with respect to the world A: ``twist = J nu``.

    ``left``/``left``: doubly left-trivialised ``E_J_AE/B`` (Eq. 74); ``mixed``/``mixed``: doubly mixed, for humanoid tasks.
    q: [nq]. Raises UnknownNameError for the frame, ModelError for a representation or a base that is not there.
    """
    J = motion_map(alg.frame_pose(model, q, frame), output) @ alg.frame_jacobian(model, q, frame, "body")
    return J if base == "left" else J @ moving_base.velocity_map(model, q, base)


def jacobian_in(model: Model, q: Expr, frame: str, A_H_D: PoseLike, base: str = "left") -> Expr:
    """``D_J_AE/C`` [6, nv]: the twist of E in the coordinates of any frame D given by its world pose; Eq. 75."""
    D_H_E = spatial.compose(spatial.inverse(as_pose(A_H_D)), alg.frame_pose(model, q, frame))
    return spatial.motion_to_parent(D_H_E, jacobian(model, q, frame, "left", base))


def jacobian_rate(model: Model, q: Expr, v: Expr, frame: str, output: str = "left", base: str = "left") -> Expr:
    """dJ/dt [6, nv] along the model velocity v [nv]: ``d(twist)/dt = J dnu/dt + dJ/dt nu``."""
    q, v = as_column(q), as_column(v)
    pose, T = alg.frame_pose(model, q, frame), motion_map(alg.frame_pose(model, q, frame), output)
    J = alg.frame_jacobian(model, q, frame, "body")
    rate = motion_map_rate(pose, J @ v, output) @ J + T @ rates.frame_jacobian_rate(model, q, v, frame, "body")
    if base == "left":
        return rate
    return rate @ moving_base.velocity_map(model, q, base) + T @ J @ moving_base.velocity_map_rate(model, q, v, base)


# ------------------------------------------------------------------------------------------------ between two frames
def relative_pose(model: Model, q: Expr, A: str, E: str) -> Transform:
    """``A_H_E`` of two frames of the robot."""
    return spatial.compose(spatial.inverse(alg.frame_pose(model, q, A)), alg.frame_pose(model, q, E))


def relative_jacobian(model: Model, q: Expr, A: str, E: str, output: str = "left") -> Expr:
    """J [6, nv] with the velocity of frame E relative to frame A, both moving: left ``E_J_AE``, right ``A_J_AE``, mixed
    ``E[A]_J_AE``. Columns of joints that carry both frames are zero: only the motion between them counts."""
    A_H_E = relative_pose(model, q, A, E)
    return motion_map(A_H_E, output) @ motion_map_inverse(A_H_E, "mixed") @ relative_jacobian_mixed(model, q, A, E)


def relative_jacobian_rate(model: Model, q: Expr, v: Expr, A: str, E: str, output: str = "left") -> Expr:
    """dJ/dt [6, nv] of :func:`relative_jacobian` along the model velocity v."""
    q, v = as_column(q), as_column(v)
    A_H_E = relative_pose(model, q, A, E)
    J_E, J_A = alg.frame_jacobian(model, q, E, "body"), alg.frame_jacobian(model, q, A, "body")
    R_E, R_A = (rates.frame_jacobian_rate(model, q, v, f, "body") for f in (E, A))
    E_v_AE = relative_twist(A_H_E, J_E @ v, J_A @ v)
    seen = spatial.motion_to_child(A_H_E, J_A)
    # d/dt E_X_A = -(E_v_AE x) E_X_A
    left = R_E - spatial.motion_to_child(A_H_E, R_A) + spatial.cross_motion(E_v_AE, seen)
    return motion_map(A_H_E, output) @ left + motion_map_rate(A_H_E, E_v_AE, output) @ (J_E - seen)


# ------------------------------------------------------------------------------------------------ contacts
def contact_jacobian(model: Model, q: Expr, link: str, A_o_C: Expr, base: str = "left") -> Expr:
    """``C[A]_J_AL/..`` [6, nv]: velocity of the LINK frame L seen at the contact point, world axes; Eq. 81.

    Power of a contact wrench ``C[A]_f`` on the link is ``f^T J nu`` (Eq. 82). The contact frame may travel over the link, as
    in rolling: its own velocity must not enter, so this is not the Jacobian of the contact frame.
    """
    return jacobian_in(model, q, link, Transform(ca.DM.eye(3), as_column(A_o_C)), base)


def contact_force(model: Model, q: Expr, contacts: Iterable[tuple[str, Expr, Expr]], base: str = "left") -> Expr:
    """``sum J_k^T f_k`` [nv] over (link name, contact point A_o_C [3], wrench on the link at it, world axes [6]); Eq. 80.

    A link may appear several times.
    """
    total = ca.DM(model.nv, 1)
    for link, A_o_C, f in contacts:
        total = total + contact_jacobian(model, q, link, A_o_C, base).T @ as_column(f)
    return total
