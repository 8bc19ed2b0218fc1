"""Charts of rotations about a point, three coordinates whose rates are velocities: how far from singular, and from one to another.

A chart is a name: three letters of Euler angles as in ``dynamics.lie.euler``, or ``rotation_vector``. S [3, 3] takes rates to the
body's angular velocity; all charts see the same rotation, angular velocity and acceleration.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from dynamics import spatial
from dynamics.errors import ChartSingularityError
from dynamics.joints.derivatives import joint_derivatives
from dynamics.joints.euler import EULER
from dynamics.joints.exponential import EXPONENTIAL
from dynamics.joints.kind import JointKind
from dynamics.lie import euler, quaternion, series, so3
from dynamics.lie.expression import Expr

VECTOR = "rotation_vector"
SINGULAR = 1e-6  # |det S| below which rates are not taken to another chart


class ChartState(NamedTuple):
    """Coordinates, rates and second rates in a chart [3 each]; rad, rad/s, rad/s^2."""

    chart: str
    q: np.ndarray
    v: np.ndarray
    a: np.ndarray


def joint_of(chart: str) -> JointKind:
    """The joint with these coordinates. Raises ValueError for an unknown chart."""
    return (EXPONENTIAL if chart == VECTOR else EULER).make(SimpleNamespace(chart=chart))


def measure(chart: str, q: Expr) -> Expr:
    """det S: of Euler angles ``+-cos`` or ``-sin`` of the middle one, of a rotation vector ``2 (1 - cos |q|) / |q|^2``."""
    if chart == VECTOR:
        return 2 * series.stumpff(ca.dot(q, q), 2)[2]
    sequence = euler.sequence(chart)
    return -ca.sin(q[1]) if sequence.proper else sequence.sign * ca.cos(q[1])


def coordinates(chart: str, rotation: ArrayLike) -> np.ndarray:
    """The coordinates [3] of a rotation matrix in a chart."""
    found = so3.log(rotation) if chart == VECTOR else euler.from_matrix_numeric(chart, rotation)
    return np.asarray(found).ravel()


def switch(state: ChartState, chart: str) -> ChartState:
    """The same motion in another chart: ``v_n = S_n^-1 S_o v_o``, ``a_n = S_n^-1 (S_o a_o + dS_o/dt v_o - dS_n/dt v_n)``.

    Raises ChartSingularityError where the other chart is singular.
    """
    old, new = joint_of(state.chart), joint_of(chart)
    q = coordinates(chart, np.asarray(old.transform(ca.DM(state.q)).R))
    size = float(measure(chart, ca.DM(q)))
    if abs(size) < SINGULAR:
        raise ChartSingularityError(chart, "det S", size,
                                    "the chart is singular there, and its rates cannot give the motion; choose another chart")
    before = joint_derivatives(old, ca.DM(state.q), ca.DM(state.v))
    S = spatial.angular(new.subspace(ca.DM(q)))
    v = ca.solve(S, spatial.angular(before.S @ state.v))
    after = joint_derivatives(new, ca.DM(q), v)
    a = ca.solve(S, spatial.angular(before.S @ state.a + before.S_dot @ state.v - after.S_dot @ v))
    return ChartState(chart, q, np.asarray(v).ravel(), np.asarray(a).ravel())


def to_quaternion(chart: str, q: Expr) -> Expr:
    """The unit quaternion (w, x, y, z) of coordinates [3], continuous in them."""
    return quaternion.exp(q) if chart == VECTOR else euler.to_quaternion(chart, q)


def continued(chart: str, turn: ArrayLike, spin: ArrayLike, before: tuple[ArrayLike, ArrayLike]) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates and rates [3 each] of a rotation that go on from those before: of all triples for it the nearest one.

    turn: its quaternion [4]; spin: angular velocity [3], body axes, rad/s. So angles wind up, a middle angle goes on through its
    singularity, and a rotation vector grows beyond a turn. At a singularity (det S below SINGULAR) angles and rates before
    stay in the direction that does not move the body, and of the spin that no rates give (singular values of S below SINGULAR of
    the largest) nothing is seen: these are the limits where a motion goes straight through, else rates have no limit.
    """
    q0, v0 = (np.asarray(x, float) for x in before)
    found, rates = _numbers(chart)
    q = np.asarray(found(turn)).ravel()
    if chart == VECTOR:
        q = _longer(q, q0)
    else:
        sign = -1.0 if euler.sequence(chart).proper else 1.0  # of the middle angle's mirror: -b, or pi - b
        mirrored = q * (1.0, -1.0, 1.0) + np.pi * np.array([1.0, (1.0 + sign) / 2, 1.0])
        q = min((x + _whole_turns(q0 - x) for x in (q, mirrored)), key=lambda x: float(np.linalg.norm(x - q0)))
    det, S = map(np.asarray, rates(q))
    if abs(det) >= SINGULAR:
        return q, np.linalg.solve(S, np.asarray(spin, float))
    if chart != VECTOR:  # the outer angles turn about one axis: they share its angle as before
        still = np.linalg.svd(S)[2][-1]
        q = q + still * (still @ (q0 - q))
        S = np.asarray(rates(q)[1])
    return q, v0 + np.linalg.pinv(S, SINGULAR) @ (np.asarray(spin, float) - S @ v0)


def _longer(q: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The rotation vector [3] with whole turns added that is next to the one before."""
    size, reach = float(np.linalg.norm(q)), float(np.linalg.norm(before))
    axis = q / size if size > SINGULAR else before / (reach or 1.0)
    return np.asarray(q + _whole_turns(axis @ (before - q)) * axis)


def _whole_turns(x: Any) -> Any:
    """The whole turns next to angles [rad]."""
    return 2 * np.pi * np.round(x / (2 * np.pi))


@lru_cache(maxsize=32)
def _numbers(chart: str) -> tuple[ca.Function, ca.Function]:
    """Functions of a chart: quaternion [4] -> coordinates [3], coordinates -> det S, S [3, 3]."""
    turn, q = ca.SX.sym("turn", 4), ca.SX.sym("q", 3)
    found = quaternion.log(turn) if chart == VECTOR else euler.from_quaternion(chart, turn)
    return (ca.Function("coordinates", [turn], [found]),
            ca.Function("rates", [q], [measure(chart, q), ca.densify(spatial.angular(joint_of(chart).subspace(q)))]))


def best(rotations: Iterable[ArrayLike], charts: Iterable[str] = tuple(euler.SEQUENCES)) -> str:
    """The chart that is farthest from singular at the worst of the rotation matrices; the first among equals."""
    worst = dict.fromkeys(charts, np.inf)
    for rotation in rotations:
        for chart in worst:
            worst[chart] = min(worst[chart], abs(float(measure(chart, ca.DM(coordinates(chart, rotation))))))
    return max(worst, key=lambda chart: worst[chart])


def formulas(chart: str) -> ca.Function:
    """Generator of a chart's formulas: (q, v) -> R, det S, S, dS/dt [3, 3], and [9, 3] each, a column for every coordinate:
    dR/dq, dS/dq, d(dR/dt)/dq, d(dS/dt)/dq; then dR/dt. Its ``generate`` writes them as C."""
    kind = joint_of(chart)
    q, v = ca.SX.sym("q", 3), ca.SX.sym("v", 3)
    d = joint_derivatives(kind, q, v)
    R, S, S_dot = ca.SX(kind.transform(q).R), spatial.angular(d.S), spatial.angular(d.S_dot)
    spin = spatial.hat(S @ v)
    dR = [R @ spatial.hat(S[:, k]) for k in range(3)]
    dR_dot = [R @ (spatial.hat(S[:, k]) @ spin + spatial.hat(spatial.angular(d.dS[k]) @ v)) for k in range(3)]

    def columns(parts: list[Expr]) -> Expr:
        return ca.horzcat(*(ca.vec(ca.densify(x)) for x in parts))

    values = {"R": R, "det_S": measure(chart, q), "S": S, "S_dot": S_dot, "dR": columns(dR),
              "dS": columns([spatial.angular(x) for x in d.dS]), "dR_dot": columns(dR_dot),
              "dS_dot": columns([spatial.angular(x) for x in d.dS_dot]), "R_dot": R @ spin}
    return ca.Function(f"chart_{chart}", [q, v], [ca.densify(ca.SX(x)) for x in ca.cse(list(map(ca.SX, values.values())))],
                       ["q", "v"], list(values))
