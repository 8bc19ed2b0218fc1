"""Accelerations of frames: definitions differentiated on random motions, then robots against Pinocchio and MuJoCo sensors."""

import casadi as ca
import numpy as np
import pytest
import se3_trajectories as ref
from arrays import num

from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.model.synthetic import random_tree
from dynamics.notation import accelerations as acc
from dynamics.notation.representation import REPRESENTATIONS, convert_twist_rate

NAMES = list(REPRESENTATIONS)
SEEDS = range(4)
TOL = 2e-7  # derivatives of derivatives


def close(a, b, tol=TOL):
    np.testing.assert_allclose(a, b, atol=tol, rtol=0)


def rate(f, t):
    return ref.derivative(f, t, 1e-2)


class Scene:
    """Two moving frames B and C in A, with the apparent accelerations of B seen in B, A and C, from their definitions."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.t = t = 0.2
        self.B, self.C = ref.motion(rng), ref.motion(rng)
        self.A_H_B, self.A_H_C = self.B(t), self.C(t)
        self.C_H_B = np.linalg.inv(self.A_H_C) @ self.A_H_B
        self.B_v, self.A_v = ref.left(self.B, t), ref.right(self.B, t)
        self.B_vdot, self.A_vdot = rate(lambda s: ref.left(self.B, s), t), rate(lambda s: ref.right(self.B, s), t)
        in_C = lambda s: ref.adjoint(np.linalg.inv(self.C(s))) @ ref.right(self.B, s)  # noqa: E731
        self.C_v, self.C_vdot = in_C(t), rate(in_C, t)
        self.C_v_AC = ref.left(self.C, t)
        self.B_v_CB = ref.left(lambda s: np.linalg.inv(self.C(s)) @ self.B(s), t)
        self.mixed, self.mixed_dot = ref.mixed(self.B, t), rate(lambda s: ref.mixed(self.B, s), t)
        self.R = self.A_H_B[:3, :3]


@pytest.mark.row("004:T-060", "004:T-061", "004:T-062", "004:T-063", "004:T-064", "004:T-065", "004:T-066", "004:T-070")
@pytest.mark.parametrize("seed", SEEDS)
def test_apparent_and_intrinsic_accelerations_in_a_third_moving_frame(seed):
    s = Scene(seed)
    close(num(acc.apparent(s.C_H_B, s.B_v_CB, s.B_v, s.B_vdot)), s.C_vdot)
    # left and right: no cross product; the naive transform to C is wrong
    close(num(acc.intrinsic(s.A_H_B, s.B_vdot)), s.A_vdot)
    C_a = num(acc.intrinsic(s.C_H_B, s.B_vdot))
    assert np.abs(C_a - s.C_vdot).max() > 1e-2
    close(C_a, ref.adjoint(np.linalg.inv(s.A_H_C)) @ s.A_vdot)
    close(num(acc.intrinsic_from_apparent(s.C_vdot, s.C_v_AC, s.C_v)), C_a)
    close(num(acc.apparent_from_intrinsic(C_a, s.C_v_AC, s.C_v)), s.C_vdot)
    # by components
    w, u = s.C_v_AC[3:], s.C_v_AC[:3]
    close(C_a[:3], s.C_vdot[:3] + np.cross(w, s.C_v[:3]) + np.cross(u, s.C_v[3:]))
    close(C_a[3:], s.C_vdot[3:] + np.cross(w, s.C_v[3:]))
    close(num(spatial.linear(ca.DM(C_a))), C_a[:3])


@pytest.mark.row("004:T-067", "004:T-068", "004:T-069")
@pytest.mark.parametrize("seed", SEEDS)
def test_mixed_apparent_acceleration_is_the_classical_one(seed):
    s = Scene(seed)
    o_ddot = rate(lambda x: rate(lambda y: s.B(y)[:3, 3], x), s.t)
    close(s.mixed_dot[:3], o_ddot)
    turn = np.kron(np.eye(2), s.R)
    intrinsic = turn @ s.B_vdot
    close(num(acc.mixed_from_intrinsic(intrinsic, s.mixed)), s.mixed_dot)
    close(num(acc.intrinsic_from_mixed(s.mixed_dot, s.mixed)), intrinsic)
    close(num(acc.classical(s.B_v, s.B_vdot)), turn.T @ s.mixed_dot)
    close(s.mixed_dot[:3], intrinsic[:3] - np.cross(s.mixed[:3], s.mixed[3:]))
    close(s.mixed_dot[3:], intrinsic[3:])
    # the composite frame moves with [odot; 0]: the correction is that of any third frame
    carrier = np.r_[s.mixed[:3], np.zeros(3)]
    close(num(acc.apparent_from_intrinsic(intrinsic, carrier, s.mixed)), s.mixed_dot)


@pytest.mark.row("004:T-062", "004:T-067")
@pytest.mark.parametrize("source", NAMES)
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.sample(3)
def test_rates_of_twists_between_all_representations(source, target):
    for seed in SEEDS:
        H, t = ref.motion(np.random.default_rng(seed)), 0.1
        v = {n: ref.BY_DEFINITION[n](H, t) for n in NAMES}
        v_dot = {n: rate(lambda s, n=n, H=H: ref.BY_DEFINITION[n](H, s), t) for n in NAMES}
        close(num(convert_twist_rate(H(t), v[source], v_dot[source], source, target)), v_dot[target], 1e-6)


def test_proper_acceleration_and_accelerometer():
    """In free fall an accelerometer reads nothing, at rest it reads against gravity, on a turntable the centripetal pull."""
    rng = np.random.default_rng(3)
    g = np.array([0.0, 0.0, -9.81])
    H, t = ref.motion(rng), 0.3

    def falling(s):
        out = H(s).copy()
        out[:3, 3] = [1.0, 2.0, 3.0] + np.array([0.3, -0.2, 1.0]) * s + g * s * s / 2
        return out

    v, a = ref.left(falling, t), rate(lambda s: ref.left(falling, s), t)
    close(num(acc.specific_force(falling(t)[:3, :3], v, a, g)), np.zeros(3))
    R = falling(t)[:3, :3]
    close(num(acc.proper(R, np.zeros(6), g)), [*(-R.T @ g), 0, 0, 0], 1e-12)
    close(num(acc.specific_force(R, np.zeros(6), np.zeros(6), g)), -R.T @ g, 1e-12)
    # radius 0.5 m, 2 rad/s about z, sensor axes fixed to the table: 2 m/s^2 towards the centre
    close(num(acc.specific_force(np.eye(3), [0, 1.0, 0, 0, 0, 2.0], np.zeros(6), np.zeros(3))), [-2.0, 0, 0], 1e-12)


# ------------------------------------------------------------------------------------------------ robots
def moving_tree(seed, **options):
    rng = np.random.default_rng(seed)
    model = random_tree(7, rng, root="free_flyer", **options)
    return model, alg.random_configuration(model, rng), rng.standard_normal(model.nv), rng.standard_normal(model.nv)


@pytest.mark.row("004:T-060")
@pytest.mark.parametrize("name", NAMES)
def test_frame_accelerations_are_derivatives_of_frame_velocities(name):
    from dynamics.notation.representation import convert_twist

    for seed in range(3):
        model, q, v, a = moving_tree(seed)
        syms = [ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)]
        twist = convert_twist(alg.frame_pose(model, syms[0], "f4"), alg.frame_velocity(model, *syms, "f4"), "left", name)
        f = ca.Function("twist", syms, [twist])
        step = ca.Function("step", syms, [alg.integrate(model, *syms)])
        along = lambda s: num(f(step(q, s * v + s * s / 2 * a), v + s * a))  # noqa: B023, E731
        close(num(acc.frame_acceleration(model, q, v, a, "f4", name)), ref.derivative(along, 0.0, 2e-3), 1e-7)
    close(num(acc.frame_acceleration(model, q, v, a, "world", name)), np.zeros(6))


@pytest.mark.row("004:T-063", "004:T-067")
@pytest.mark.parametrize("seed", range(4))
def test_against_pinocchio_frame_accelerations(seed):
    pin = pytest.importorskip("pinocchio")
    import pinocchio_twin

    kinds = ["revolute", "prismatic", "spherical", "planar", "free_flyer"]
    model, q, v, a = moving_tree(seed, kinds=kinds, depth_first=True)
    twin = pinocchio_twin.build(model)
    data = twin.createData()
    pin.forwardKinematics(twin, data, pinocchio_twin.configuration(model, q), v, a)
    pin.updateFramePlacements(twin, data)
    at = twin.getFrameId("f5")
    for name, frame in (("left", pin.LOCAL), ("right", pin.WORLD), ("mixed", pin.LOCAL_WORLD_ALIGNED)):
        close(num(acc.frame_intrinsic_acceleration(model, q, v, a, "f5", name)),
              pin.getFrameAcceleration(twin, data, at, frame).vector, 1e-9)
    theirs = pin.getFrameClassicalAcceleration(twin, data, at, pin.LOCAL_WORLD_ALIGNED).vector
    close(num(acc.frame_acceleration(model, q, v, a, "f5", "mixed")), theirs, 1e-9)
    assert np.abs(theirs - num(acc.frame_intrinsic_acceleration(model, q, v, a, "f5", "mixed"))).max() > 1e-2
    twist, left = (alg.frame_velocity(model, q, v, "f5"), acc.frame_acceleration(model, q, v, a, "f5"))
    close(num(acc.classical(twist, left)), pin.getFrameClassicalAcceleration(twin, data, at, pin.LOCAL).vector, 1e-9)


SENSORS = """<mujoco><option gravity="0.3 -0.2 -9.5"/><worldbody>
  <body name="ship" pos="1 2 3"><freejoint/><geom type="box" size="0.1 0.2 0.3" pos="0.05 -0.1 0.2" mass="1.5"/>
    <body name="arm" pos="0 0.1 0.5" euler="10 20 30"><joint axis="0 1 0"/><geom type="box" size="0.1 0.1 0.3" mass="0.7"/>
      <body name="hand" pos="0.2 0 0.3"><joint axis="1 0 0" type="slide"/><geom type="sphere" size="0.1" mass="0.4"/>
        <site name="imu" pos="0.1 -0.2 0.05" euler="40 -20 70"/>
      </body></body></body></worldbody>
  <sensor><accelerometer site="imu"/><gyro site="imu"/></sensor></mujoco>"""


def test_against_mujoco_accelerometer_and_gyroscope():
    mujoco = pytest.importorskip("mujoco")
    from dynamics.model import read_mjcf
    from dynamics.notation import adapters

    m, model = mujoco.MjModel.from_xml_string(SENSORS), read_mjcf(SENSORS)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        q, v, tau = alg.random_configuration(model, rng), rng.standard_normal(model.nv), rng.standard_normal(model.nv)
        data = mujoco.MjData(m)
        theirs = adapters.to_mujoco(model, q=q, v=v, tau=tau)
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = theirs.q, theirs.v, theirs.tau
        mujoco.mj_forward(m, data)
        a = alg.forward_dynamics(model, q, v, tau)
        close(num(acc.accelerometer(model, q, v, a, "imu")), data.sensordata[:3], 1e-6)
        close(num(acc.gyroscope(model, q, v, "imu")), data.sensordata[3:], 1e-9)
