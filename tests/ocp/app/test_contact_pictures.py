"""Data behind the pictures of contacts: centres of pressure by the balance of moments, gait bars by phases, cones by forces."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest

from dynamics import algorithms as alg
from dynamics.constraints import Contact
from ocp.app.files.load import load_problem, load_text
from ocp.app.pages.contact_scene import with_contacts
from ocp.app.pages.contacts import Support, Touch, contacts_of, gait, hull, plot_contacts, pressed, touches
from ocp.app.pages.legs import Leg
from ocp.app.pages.scene import scene_from_model
from ocp.app.pipeline import body_poses
from ocp.problem.solution import Trajectory

LEGS = ("lf", "rf", "lh", "rh")
STANDS = """
name: Stands
system:
  robot: models/quadruped.urdf
  root: free_flyer
  formulation: FORM
  constraints:
    - {name: lf, contact: {frame: lf_foot, friction: 0.6, height: 0.02}}
    - {name: rf, contact: {frame: rf_foot, friction: 0.6, height: 0.02}}
    - {name: lh, contact: {frame: lh_foot, friction: 0.6, height: 0.02}}
    - {name: rh, contact: {frame: rh_foot, friction: 0.6, height: 0.02}}
phases:
  - {name: four, contacts: [lf, rf, lh, rh], duration: 0.3, start: {rest: true, others: free}, costs: []}
  - {name: three, contacts: [lf, rf, lh], duration: 0.2, costs: []}
  - {name: again, contacts: [lf, rf, lh, rh], duration: 0.2, costs: []}
"""


def made(phase, begin, samples=5):
    """A motion from a stand with random velocities through random states: pictures show what the equations of motion say of any."""
    system, rng = phase.system, np.random.default_rng(7)
    t = np.linspace(begin, begin + phase.duration.guess, samples)
    x = 0.2 * rng.standard_normal((samples, system.space.nx))
    x[:, 3:7] += [2.0, 0.0, 0.0, 0.0]
    x[:, 3:7] /= np.linalg.norm(x[:, 3:7], axis=1)[:, None]
    x[0] = np.r_[0.3, -0.2, 0.0, np.cos(0.4), 0.0, 0.0, np.sin(0.4), np.tile([0.0, 0.6, -1.2], 4), 0.05 * rng.standard_normal(18)]
    x[0, 2] = 0.02 - float(alg.frame_pose(system.model, ca.DM(x[0, :19]), "lf_foot").p[2])
    u = rng.standard_normal((samples, system.nu))

    def along(values):
        return lambda at: np.array([[np.interp(s, t, column) for column in values.T] for s in np.atleast_1d(at)])

    return Leg(phase, Trajectory(t, x, u, t, along(x), along(u)))


@pytest.fixture(scope="module", params=["forward_dynamics", "residual"])
def motion(request):
    problem = load_text(STANDS.replace("FORM", request.param), "problems").problem
    begins = np.cumsum([0.0, *(phase.duration.guess for phase in problem.phases)])
    return [made(phase, begin) for phase, begin in zip(problem.phases, begins, strict=False)]


def test_centres_of_pressure_keep_the_balance_of_moments(motion):
    """Inverse dynamics under the accelerations of the system give the wrench of the ground at the base; its axis meets the plane
    there."""
    for one in motion[:2]:
        path, system = one.trajectory, one.phase.system
        model = system.model
        t, x, u = path.t, path.x, path.u
        if system.algebraic:  # accelerations and forces of the equations of motion, instead of random ones
            z = ca.SX.sym("z", system.nu)
            rows = system.residual(0.0, ca.DM(x[0]), z, [])
            controls = len(system.controls)
            J = np.array(ca.Function("J", [z], [ca.jacobian(rows, z)])(u[0]))
            r = np.array(system.residual(0.0, x[0], np.r_[u[0, :controls], np.zeros(system.nu - controls)], [])).ravel()
            u[0, controls:] = np.linalg.lstsq(J[:, controls:], -r, rcond=None)[0]
        own, com = touches(one, contacts_of(motion), t[:1], x[:1], u[:1])
        q, v = x[0, :model.nq], x[0, model.nq:]
        a = np.array(system.rate(0.0, x[0], u[0], [])).ravel()[model.nv:]
        effort = np.array(alg.inverse_dynamics(model, q, v, a)).ravel()
        R = np.array(alg.frame_pose(model, ca.DM(q), "trunk").R)
        force, moment = R @ effort[:3], np.cross(q[:3], R @ effort[:3]) + R @ effort[3:6]
        held = tuple(touch for touch in own if touch.active)
        support = Support(one.phase.name, held, com)
        np.testing.assert_allclose(sum(touch.force for touch in held)[0], force, atol=1e-8 * np.abs(force).max())
        place = support.in_world(support.pressure)[0]
        left = moment - np.cross(place, force)  # about the centre of pressure: none along the ground
        assert all(touch.normal[0] > 0 for touch in held)
        np.testing.assert_allclose(left[:2], 0.0, atol=1e-7 * np.abs(moment).max())
        mass = np.array(alg.centre_of_mass(model, ca.DM(q))).ravel()
        np.testing.assert_allclose(com[0], mass, atol=1e-12)
    idle = next(touch for touch in own if not touch.active)
    assert idle.contact.name == "rh"
    assert not idle.force.any()
    assert np.isnan(idle.pressure).all()


def test_bars_of_a_gait_are_the_phases_that_hold_a_foot(motion):
    bars = gait(motion)
    assert list(bars) == list(LEGS)
    for name in LEGS[:3]:  # held in all three, without a break
        np.testing.assert_allclose(bars[name], [(0.0, 0.7)])
    np.testing.assert_allclose(bars["rh"], [(0.0, 0.3), (0.5, 0.7)])


def test_heights_are_those_of_the_frames_over_their_plane(motion):
    one = motion[0]
    own, _ = touches(one, contacts_of(motion), one.trajectory.t, one.trajectory.x, one.trajectory.u)
    for touch in own:
        for x, height in zip(one.trajectory.x, touch.height, strict=True):
            pose = alg.frame_pose(one.phase.system.model, ca.DM(x[:19]), touch.contact.frame)
            assert height == pytest.approx(float(pose.p[2]) - 0.02)


def test_arrows_are_as_long_as_forces_and_rims_as_wide_as_cones(motion):
    times = [one.trajectory.t for one in motion]
    found, supported = pressed(motion, times)
    t = np.concatenate(times)
    q = np.vstack([one.trajectory.x[:, :19] for one in motion])
    model = motion[0].phase.system.model
    scene, words = with_contacts(scene_from_model(model, t, q, body_poses(model, q)), found, supported)
    assert "support" in words
    stems = [edge.points for edge in scene.edges if edge.role == "force" and len(edge.points) == 2]
    rims = [edge.points[:-1] for edge in scene.edges if edge.role == "target" and len(edge.points) > 4]
    long = np.array([np.linalg.norm(scene.points[:, b] - scene.points[:, a], axis=1) for a, b in stems])
    newtons = np.array([np.linalg.norm(one.force, axis=1) for one in found])
    scale = long.sum() / newtons.sum()
    np.testing.assert_allclose(long, scale * newtons, rtol=1e-9, atol=1e-9)
    for one, rim in zip(found, rims, strict=True):
        wide = np.ptp(scene.points[:, rim, 0], axis=1) / 2
        np.testing.assert_allclose(wide, 0.6 * scale * np.maximum(one.force[:, 2], 0.0), rtol=1e-9, atol=1e-12)
    flat = [edge.points for edge in scene.edges if edge.role == "ground" and len(edge.points) == 5]
    np.testing.assert_allclose(scene.points[:, flat[0], 2], 0.02, atol=1e-9)  # of four feet, of three in the second phase
    assert plot_contacts(motion, []).startswith(b"\x89PNG")


def test_a_margin_is_the_distance_to_the_edge_and_negative_outside():
    rng = np.random.default_rng(3)
    feet = rng.uniform(-1, 1, (6, 2))
    corners = hull(feet)
    area = np.array([turn(b - a, feet - a) for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True)])
    assert (area >= -1e-9).all()  # all feet are inside, corners counter-clockwise
    assert {tuple(np.round(c, 9)) for c in corners} <= {tuple(np.round(f, 9)) for f in feet}
    problem = load_text(STANDS.replace("FORM", "residual"), "problems").problem
    contact = next(c for c in problem.phases[0].system.robot.constraints if isinstance(c, Contact))
    for weights in (np.full(6, 1 / 6), np.array([1.6, -0.6, 0, 0, 0, 0])):
        at = weights @ feet
        points = np.pad(feet, ((0, 0), (0, 1)))[None]
        touch = Touch(contact, np.zeros(1), points, True, np.array([[0.0, 0.0, 5.0]]), np.append(at, 0.0)[None])
        found = Support("", (touch,), np.zeros((1, 3))).margin[0]
        edge = np.concatenate([a + np.linspace(0, 1, 20001)[:, None] * (b - a)
                               for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True)])
        if weights.min() >= 0:
            assert found == pytest.approx(np.linalg.norm(edge - at, axis=1).min(), rel=1e-6)
        else:
            assert (found < 0) == ((at - feet[0]) @ (feet[0] - feet[1]) > 0 and not _within(corners, at))


def turn(a, b):
    return a[0] * b[..., 1] - a[1] * b[..., 0]


def _within(corners, at):
    return all(turn(b - a, at - a) >= 0 for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True))


def test_a_sole_presses_where_its_moments_say():
    """A sole with force f and moments m presses at (-m_2, m_1) / f_n from its origin."""
    from ocp.app.pages.contacts import _pressed
    from ocp.contacts import FlatContact

    sole = FlatContact("sole", "foot", half_sizes=(0.1, 0.05), friction=0.5)
    points = np.array([[(1.1, 2.05, 0), (1.1, 1.95, 0), (0.9, 2.05, 0), (0.9, 1.95, 0)]], float)
    force, at = _pressed(sole, np.array([[3.0, 0.0, 10.0, 0.2, -0.5, 0.1]]), points)
    np.testing.assert_allclose(at[0], [1.0 + 0.05, 2.0 + 0.02, 0.0], atol=1e-12)
    # moment of the force there is what the multipliers say, about the origin of the sole
    np.testing.assert_allclose(np.cross(at[0] - [1, 2, 0], force[0])[:2], [0.2, -0.5], atol=1e-12)


def test_robots_without_contacts_have_no_such_picture():
    problem = load_problem("problems/cartpole_swingup.yaml").problem
    phase = problem.phase
    zeros = Trajectory(np.array([0.0, 1.0]), np.zeros((2, phase.system.nx)), np.zeros((2, phase.system.nu)), np.array([0.0, 1.0]),
                       lambda t: np.zeros((np.size(t), phase.system.nx)), lambda t: np.zeros((np.size(t), phase.system.nu)))
    assert plot_contacts([Leg(replace(phase), zeros)], []) == b""


def test_rounding_takes_no_corner_of_a_support():
    """Corners of two soles side by side lie on lines but for rounding: the hull is the rectangle around them."""
    soles = np.array([(x, y) for x in (-0.06, 0.12) for y in (-0.13, -0.05, 0.05, 0.13)])
    rng = np.random.default_rng(0)
    for _ in range(200):
        x, y = hull(soles + 2e-9 * rng.standard_normal(soles.shape)).T
        assert (x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2 == pytest.approx(0.18 * 0.26, rel=1e-6)
