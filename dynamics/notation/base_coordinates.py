"""Generalised coordinates of a floating robot with any chart for its base, and their maps to the hybrid velocity u.

``x = (chi_b, q_j)``: the base's seven house coordinates are replaced, in place, by position and rotation coordinates of its
world pose in charts of choice; the joints keep theirs. ``u = E_fb(x) dx/dt`` with ``u = [I_v_B; B_w_IB; joints]``: Hutter et
al., Robot Dynamics lecture notes (ETH Zurich, HS 2023), Eq. 2.262. As u holds the angular velocity in BASE axes, the rotation
block is the body map ``C_IB^T E_R``, not the E_R of Eqs. 2.86-2.107, which leads to world axes. dim x = dim u only for charts
of three rotation coordinates; otherwise ``E_fb E_fb^+ = 1`` and ``E_fb^+ E_fb`` is a projector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import configuration, floating_base, tree
from dynamics.lie import position as positions
from dynamics.lie import quaternion
from dynamics.lie import rotation as rotations
from dynamics.model.model import Model
from dynamics.notation import analytic_jacobians as analytic

Expr = Any


@dataclass(frozen=True)
class BaseChart:
    """Charts of the base pose: a key of ``position.CHARTS`` and one of ``rotation.PARAMETERISATIONS``."""

    position: str = "cartesian"
    rotation: str = "quaternion"

    @property
    def size(self) -> int:
        """n_b, the number of base coordinates: 6, 7 or 12. Raises ValueError for unknown charts."""
        return analytic.coordinate_count(self.position, self.rotation)


def coordinate_count(model: Model, chart: BaseChart) -> int:
    """Length of x: ``n_b`` and the coordinates of the joints."""
    floating_base.base_index(model)
    return model.nq - 7 + chart.size


def coordinate_names(model: Model, chart: BaseChart) -> tuple[str, ...]:
    """Names of the components of x."""
    i = floating_base.base_index(model)
    own = tuple(f"{model.bodies[i].joint.name}.{n}" for n in analytic.coordinate_names(chart.position, chart.rotation))
    qs = model.q_slice(i)
    return model.coordinate_names[:qs.start] + own + model.coordinate_names[qs.stop:]


# ------------------------------------------------------------------------------------------------ coordinates
def coordinates(model: Model, q: Expr, chart: BaseChart) -> Expr:
    """x from the house configuration q [nq]. The base pose is that in the world, wherever the base joint is placed."""
    q = tree.as_column(q)
    qs = model.q_slice(floating_base.base_index(model))
    pose = floating_base.base_pose(model, q)
    turn = quaternion.product(_placement_quaternion(model), q[qs][3:])
    chi_R = rotations.parameterisation(chart.rotation).from_quaternion(turn)
    return ca.vertcat(q[:qs.start], positions.from_cartesian(chart.position, pose.p), ca.vec(chi_R), q[qs.stop:])


def configuration_of(model: Model, x: Expr, chart: BaseChart) -> Expr:
    """The house configuration q [nq] of x: inverse of :func:`coordinates`."""
    head, chi_P, chi_R, tail = _parts(model, x, chart)
    at = tree.placement_transform(model.bodies[floating_base.base_index(model)].joint.placement)
    p = spatial.act_point(spatial.inverse(at), positions.to_cartesian(chart.position, chi_P))
    turn = rotations.parameterisation(chart.rotation).to_quaternion(chi_R)
    return ca.vertcat(head, p, quaternion.product(quaternion.conjugate(_placement_quaternion(model)), turn), tail)


def _placement_quaternion(model: Model) -> Expr:
    return quaternion.from_matrix(ca.DM(model.bodies[floating_base.base_index(model)].joint.placement.rotation))


# ------------------------------------------------------------------------------------------------ velocities
def velocity_map(model: Model, x: Expr, chart: BaseChart) -> Expr:
    """``E_fb(x)`` [nv, dim x]: ``u = E_fb dx/dt``."""
    _, chi_P, chi_R, _ = _parts(model, x, chart)
    own = ca.diagcat(positions.velocity_map(chart.position, chi_P),
                     rotations.parameterisation(chart.rotation).velocity_body(chi_R))
    before, after = _joint_maps(model, configuration_of(model, x, chart), inverse=True)
    return ca.diagcat(before, own, after)


def rate_map(model: Model, x: Expr, chart: BaseChart) -> Expr:
    """``E_fb^+(x)`` [dim x, nv]: ``dx/dt = E_fb^+ u``. Raises ChartSingularityError for numbers at a singularity."""
    _, chi_P, chi_R, _ = _parts(model, x, chart)
    own = ca.diagcat(positions.rate_map(chart.position, chi_P), rotations.parameterisation(chart.rotation).rate_body(chi_R))
    before, after = _joint_maps(model, configuration_of(model, x, chart), inverse=False)
    return ca.diagcat(before, own, after)


def acceleration(model: Model, x: Expr, rate: Expr, second: Expr, chart: BaseChart) -> Expr:
    """``du/dt`` [nv] ``= E_fb d2x/dt2 + dE_fb/dt dx/dt``."""
    (head, chi_P, chi_R, tail), r, s = (_parts(model, y, chart) for y in (x, rate, second))
    own = spatial.motion(positions.acceleration(chart.position, chi_P, r[1], s[1]),
                         rotations.angular_acceleration(chart.rotation, chi_R, r[2], s[2], "body"))
    return _with_joints(model, x, (r[0], r[3]), (s[0], s[3]), own, chart, inverse=True)


def second_rate(model: Model, x: Expr, rate: Expr, u_dot: Expr, chart: BaseChart) -> Expr:
    """``d2x/dt2`` from dx/dt and du/dt [nv]: inverse of :func:`acceleration` that keeps the constraints of the chart."""
    (_, chi_P, chi_R, _), r = (_parts(model, y, chart) for y in (x, rate))
    u_dot, vs = tree.as_column(u_dot), model.v_slice(floating_base.base_index(model))
    own_u = u_dot[vs]
    own = ca.vertcat(
        positions.second_rate(chart.position, chi_P, r[1], spatial.linear(own_u)),
        ca.vec(rotations.second_rate(chart.rotation, chi_R, r[2], spatial.angular(own_u), "body")))
    return _with_joints(model, x, (r[0], r[3]), (u_dot[:vs.start], u_dot[vs.stop:]), own, chart, inverse=False)


class BaseParts(NamedTuple):
    """Coordinates of joints before the base, its position, its rotation in the shape of its chart, joints after it."""

    before: Expr
    position: Expr
    rotation: Expr
    after: Expr


# ------------------------------------------------------------------------------------------------ pieces
def _parts(model: Model, x: Expr, chart: BaseChart) -> BaseParts:
    """Joints before the base, chi_P, chi_R in its shape, joints after the base. Raises ModelError for a wrong length."""
    x, start = tree.as_column(x), model.q_slice(floating_base.base_index(model)).start
    tree.check_sizes(model, x=(x, coordinate_count(model, chart)))
    stop = start + chart.size
    shape = rotations.parameterisation(chart.rotation).shape
    return BaseParts(x[:start], x[start:start + 3], ca.reshape(x[start + 3:stop], *shape), x[stop:])


def _joint_maps(model: Model, q: Expr, *, inverse: bool) -> tuple[Expr, Expr]:
    """The joints' blocks of ``v = N^+ dq/dt`` (inverse) or ``dq/dt = N v``, before and after the base."""
    i = floating_base.base_index(model)
    N = configuration.rate_matrix_inverse(model, q) if inverse else configuration.rate_matrix(model, q)
    rows, columns = (model.v_slice(i), model.q_slice(i)) if inverse else (model.q_slice(i), model.v_slice(i))
    return N[:rows.start, :columns.start], N[rows.stop:, columns.stop:]


def _with_joints(model: Model, x: Expr, rates: tuple[Expr, Expr], seconds: tuple[Expr, Expr], own: Expr, chart: BaseChart,
                 *, inverse: bool) -> Expr:
    """Second-order map of the joints around the base's ``own`` part: ``N^+ q'' + dN^+/dt q'`` or ``N a + dN/dt v``."""
    q, i = configuration_of(model, x, chart), floating_base.base_index(model)
    qs, vs = model.q_slice(i), model.v_slice(i)
    q_rate = ca.vertcat(rates[0], ca.DM(7, 1), rates[1])
    along = q_rate if inverse else configuration.rate_matrix_inverse(model, q) @ q_rate
    at, other = ca.SX.sym("q", model.nq), ca.SX.sym("rate", along.shape[0])
    N = configuration.rate_matrix_inverse(model, at) if inverse else configuration.rate_matrix(model, at)
    q_dot = other if inverse else N @ other
    bias = ca.Function("bias", [at, other], [ca.jtimes(ca.mtimes(ca.SX(N), other), at, q_dot)])(q, along)
    before, after = _joint_maps(model, q, inverse=inverse)
    slots = vs if inverse else qs
    return ca.vertcat(before @ seconds[0] + bias[:slots.start], own, after @ seconds[1] + bias[slots.stop:])
