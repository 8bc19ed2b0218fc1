"""Generalised inertia: point masses, moving frames, and the Newton-Euler law against the rate of inertial momentum."""

import casadi as ca
import numpy as np
import pytest
import se3_trajectories as ref
from arrays import num
from scipy.integrate import solve_ivp

from dynamics import spatial
from dynamics.model.synthetic import random_rotation
from dynamics.notation import inertia, wrenches
from dynamics.notation.representation import REPRESENTATIONS

NAMES = list(REPRESENTATIONS)


def close(a, b, tol=1e-10):
    np.testing.assert_allclose(a, b, atol=tol, rtol=0)


class Cloud:
    """Point masses fixed to a body: inertias by summation, no theorem involved."""

    def __init__(self, seed, count=7):
        rng = np.random.default_rng(seed)
        self.m, self.p = rng.uniform(0.1, 0.5, count), rng.uniform(-0.4, 0.4, (count, 3))  # in body axes B
        self.mass, self.com = self.m.sum(), self.m @ self.p / self.m.sum()
        self.C_R = random_rotation(rng)  # B_R_C: axes of the frame at the centre of mass

    def tensor(self, points):
        return sum(m * (p @ p * np.eye(3) - np.outer(p, p)) for m, p in zip(self.m, points, strict=True))

    def matrix(self, points):
        """6x6 inertia from the velocity of every point: sum m J^T J, J = [1, -p^]."""
        return sum(m * np.hstack([np.eye(3), -ref.skew(p)]).T @ np.hstack([np.eye(3), -ref.skew(p)])
                   for m, p in zip(self.m, points, strict=True))

    @property
    def M(self):
        return self.matrix(self.p)


@pytest.mark.row("004:T-090", "004:T-091", "004:T-092")
@pytest.mark.parametrize("seed", range(4))
def test_inertia_at_the_centre_of_mass_and_anywhere_else(seed):
    cloud = Cloud(seed)
    at_com = (cloud.p - cloud.com) @ cloud.C_R  # points in C, whose axes are turned against B
    C_I = cloud.tensor(at_com)
    C_M = num(inertia.inertia_at_com(cloud.mass, C_I))
    close(C_M, cloud.matrix(at_com))
    B_H_C = (cloud.C_R, cloud.com)
    B_M = num(inertia.inertia_in(B_H_C, C_M))
    close(B_M, cloud.M)
    close(B_M, B_M.T)
    assert np.linalg.eigvalsh(B_M).min() > 0
    c = ref.skew(cloud.com)
    close(B_M[:3, 3:], -cloud.mass * c)
    B_I = num(inertia.parallel_axis(cloud.mass, cloud.com, cloud.C_R, C_I))
    close(B_I, cloud.tensor(cloud.p))
    close(B_I, B_M[3:, 3:])
    # the correction is m ((o.o) 1 - o o^T), with this sign
    o = cloud.com
    close(B_I - cloud.C_R @ C_I @ cloud.C_R.T, cloud.mass * (o @ o * np.eye(3) - np.outer(o, o)))
    moments = np.linalg.eigvalsh(B_I)
    assert moments[2] <= moments[0] + moments[1] + 1e-12  # triangle inequality of a real body
    # the record of this package and its own transform say the same
    house = spatial.inertia_from_com(cloud.mass, cloud.com, cloud.C_R @ C_I @ cloud.C_R.T)
    close(num(spatial.inertia_matrix(house)), B_M)


@pytest.mark.row("004:T-091")
def test_inertia_matrix_is_that_of_pinocchio():
    pin = pytest.importorskip("pinocchio")
    cloud = Cloud(5)
    C_I = cloud.tensor(cloud.p - cloud.com)
    close(num(inertia.inertia_in((np.eye(3), cloud.com), inertia.inertia_at_com(cloud.mass, C_I))),
          pin.Inertia(cloud.mass, cloud.com, C_I).matrix())


@pytest.mark.row("000:X-094")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_inertia_in_moving_coordinates_and_its_rate(name, seed):
    H, t, cloud = ref.motion(np.random.default_rng(seed)), 0.2, Cloud(seed)
    M = lambda s: num(inertia.inertia_represented(H(s), cloud.M, name))  # noqa: E731
    v = ref.BY_DEFINITION[name](H, t)
    left = ref.left(H, t)
    assert v @ M(t) @ v == pytest.approx(left @ cloud.M @ left)  # kinetic energy
    close(num(inertia.inertia_rate(H(t), left, cloud.M, name)), ref.derivative(M, t), 1e-8)
    if name == "right":
        points = np.array([(H(t) @ [*p, 1])[:3] for p in cloud.p])
        close(M(t), cloud.matrix(points))
        crf, crm = (num(f(ca.DM(v))) for f in (spatial.cross_force_matrix, spatial.cross_motion_matrix))
        close(num(inertia.inertia_rate(H(t), left, cloud.M, name)), crf @ M(t) - M(t) @ crm)


@pytest.mark.row("000:X-093")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_newton_euler_is_the_rate_of_inertial_momentum(name, seed):
    """Momentum summed over point masses about the inertial origin, differentiated; its rate is the wrench, in A."""
    H, t, cloud = ref.motion(np.random.default_rng(seed)), 0.2, Cloud(seed)

    def h(s):
        rate = ref.derivative(H, s, 1e-2)
        out = np.zeros(6)
        for m, p in zip(cloud.m, cloud.p, strict=True):
            x, xdot = (H(s) @ [*p, 1])[:3], (rate @ [*p, 1])[:3]
            out += m * np.r_[xdot, np.cross(x, xdot)]
        return out

    A_f = ref.derivative(h, t, 1e-2)
    v, v_dot = ref.BY_DEFINITION[name](H, t), ref.derivative(lambda s: ref.BY_DEFINITION[name](H, s), t, 1e-2)
    close(num(inertia.momentum(H(t), ref.right(H, t), cloud.M, "right")), h(t), 1e-8)
    f = num(inertia.newton_euler(H(t), v, v_dot, cloud.M, name))
    from dynamics.notation.representation import convert_wrench

    close(num(convert_wrench(H(t), f, name, "right")), A_f, 1e-6)
    close(num(inertia.free_body_acceleration(H(t), v, f, cloud.M, name)), v_dot, 1e-9)
    if name == "left":
        close(f, cloud.M @ v_dot + num(spatial.cross_force(ca.DM(v), ca.DM(cloud.M @ v))))
        close(num(wrenches.express(H(t), f)), A_f, 1e-6)


@pytest.mark.row("000:X-093")
@pytest.mark.parametrize("name", ["left", "mixed", "right", "kindr"])
def test_free_spinning_body_conserves_energy_and_inertial_momentum(name):
    from dynamics.notation.representation import convert_twist
    from dynamics.notation.twists import homogeneous_rate

    cloud = Cloud(1)
    H, v = ca.SX.sym("H", 4, 4), ca.SX.sym("v", 6)
    f = ca.Function("f", [H, v], [homogeneous_rate(H, v, name),
                                  inertia.free_body_acceleration(H, v, ca.DM(6, 1), cloud.M, name)])

    def rhs(_, x):
        Hdot, vdot = f(x[:16].reshape(4, 4), x[16:])
        return np.r_[np.array(Hdot).ravel(), np.array(vdot).ravel()]

    start = np.eye(4)
    start[:3, 3] = [0.5, -0.3, 0.2]
    v0 = num(convert_twist(start, [0.3, -0.2, 0.5, 1.0, 2.0, -1.5], "left", name))
    end = solve_ivp(rhs, (0, 1.0), np.r_[start.ravel(), v0], rtol=1e-11, atol=1e-12).y[:, -1]
    H1, v1 = end[:16].reshape(4, 4), end[16:]
    h0, h1 = (num(convert_momentum(H, v, cloud.M, name)) for H, v in ((start, v0), (H1, v1)))
    close(h1, h0, 1e-8)
    assert v1 @ num(inertia.inertia_represented(H1, cloud.M, name)) @ v1 == pytest.approx(
        v0 @ num(inertia.inertia_represented(start, cloud.M, name)) @ v0, rel=1e-8)
    assert np.abs(H1[:3, :3] - np.eye(3)).max() > 0.5  # it did turn


def convert_momentum(H, v, M, name):
    from dynamics.notation.representation import convert_wrench

    return convert_wrench(H, inertia.momentum(H, v, M, name), name, "right")
