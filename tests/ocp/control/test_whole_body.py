"""Whole-body control: rows of its levels, friction and limits in closed form, and closed loops against constrained dynamics."""

import gc
import tracemalloc
from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from cascade import solve_cascade
from row_trees import moved, pose
from standing import LEGS, biped, feet_accelerations, feet_positions, standing, tree

import dynamics
from dynamics import algorithms as alg
from dynamics.algorithms import contact_kinematics
from dynamics.errors import ModelError, UnknownNameError
from dynamics.model import BodyInertia, Builder, Joint, Limits
from dynamics.model.robots import find_robot
from dynamics.model.urdf import read_urdf
from dynamics.notation import textbook_robots
from ocp.control.stance import Stance
from ocp.control.tasks import com_task, joint_task, orientation_task, pose_task, position_task, posture_task
from ocp.control.whole_body import EffortTask, ForceTask, MomentumTask, WholeBody
from ocp.errors import ProblemError
from ocp.solvers import hqp
from ocp.solvers.engines import ENGINES
from ocp.solvers.hqp import HQPOptions, Level, merged

# every random tree has its own graphs
OTHERS_SLOW = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]


@pytest.fixture(params=ENGINES)
def engine(request):
    if request.param == "daqp":
        pytest.importorskip("daqp", exc_type=ImportError)
    return request.param


class Crouched:
    """The textbook quadruped in a symmetric crouch, with its controller: mass centre and trunk, then least efforts."""

    def __init__(self, *, shift=(0.0, 0.0, 0.0), gain=8.0, efforts=60.0, engine="osqp", **stance):
        self.model = textbook_robots.quadruped()
        self.q = np.array(alg.neutral(self.model)).ravel()
        for i, name in enumerate(self.model.coordinate_names):
            self.q[i] = {"HFE": 0.7, "KFE": -1.3}.get(name[-3:], self.q[i])
        self.stances = tuple(Stance(f"{leg}_FOOT", name=leg, **stance) for leg in LEGS)
        self.start = np.array(dynamics.make(self.model, "centre_of_mass")(self.q)).ravel()
        self.com = com_task(self.start + shift, gain=gain)
        self.trunk = orientation_task("trunk", pose(self.model, self.q, "trunk")[0], gain=gain)
        self.priorities = [[self.com, self.trunk], EffortTask()]
        self.whole = WholeBody(self.model, self.stances, [self.com, self.trunk], efforts=np.full(12, efforts),
                               options=HQPOptions(engine=engine))


def closed_loop(robot, steps, dt=2e-3):
    """(q, v, torque, a and force on the robot by constrained dynamics, control) at every step, feet fixed by their
    accelerations."""
    q, v = robot.q.copy(), np.zeros(robot.model.nv)
    M, h, plus = (dynamics.make(robot.model, name) for name in ("mass_matrix", "bias_force", "integrate"))
    x, w = ca.SX.sym("q", robot.model.nq), ca.SX.sym("v", robot.model.nv)
    where = [s.contact_point for s in robot.stances]
    feet = ca.Function("feet", [x, w], [contact_kinematics.contact_jacobian(robot.model, x, where),
                                        contact_kinematics.contact_jacobian_rate(robot.model, x, w, where) @ w])
    S, history = robot.whole.S, []
    for _ in range(steps):
        control = robot.whole.step(q, v, robot.priorities)
        assert control.ok
        J, drift = (np.array(part) for part in feet(q, v))
        K = np.block([[np.array(M(q)), -J.T], [J, np.zeros((12, 12))]])
        found = np.linalg.solve(K, np.r_[S.T @ control.torque - np.array(h(q, v)).ravel(), -drift.ravel()])
        a, force = found[:18], found[18:].reshape(4, 3)
        history.append((q, v, a, force, control))
        v = v + dt * a
        q = np.array(plus(q, dt * v)).ravel()
    return history


def inside(stance, force, slack=0.0):
    """The force lies in the exact cone, up to slack (N)."""
    n, f = np.array(stance.normal) / np.linalg.norm(stance.normal), np.asarray(force, float)
    return n @ f >= -slack and np.linalg.norm(f - n * (n @ f)) <= stance.friction * (n @ f) + slack


def judge(robot, history, limit):
    """No force of the plant leaves its cone, no torque its limit; what the controller predicts is what happens."""
    for _, _, a, force, control in history:
        for stance, f in zip(robot.stances, force, strict=True):
            assert inside(stance, f, 1e-8)
            assert f @ np.asarray(stance.normal) >= stance.least - 1e-8
            np.testing.assert_allclose(control.forces[stance.name], f, atol=1e-8)
        assert np.abs(control.torque).max() <= limit + 1e-9
        np.testing.assert_allclose(control.acceleration, a, atol=1e-8)
        assert control.solution["equations"].cost < 1e-9
        assert control.solution["stances"].cost < 1e-9
        assert control.solution["limits"].violated == {}


def test_standing_and_shifting(engine):
    """0.6 s: the mass centre moves as the oscillator of its gain would, feet do not move, and everything stays within its
    limits."""
    robot = Crouched(shift=(0.03, 0.04, -0.05), engine=engine, least=1.0, efforts=25.0)
    history = closed_loop(robot, 300)
    judge(robot, history, 25.0)
    for k in (100, 200, 299):
        q, t = history[k][0], k * 2e-3
        com = np.array(dynamics.make(robot.model, "centre_of_mass")(q)).ravel()
        share = (1 + 8 * t) * np.exp(-8 * t)
        np.testing.assert_allclose(com - robot.start, (1 - share) * np.array([0.03, 0.04, -0.05]), atol=1e-3)
    for leg in LEGS:
        drift = pose(robot.model, history[-1][0], f"{leg}_FOOT")[1] - pose(robot.model, robot.q, f"{leg}_FOOT")[1]
        assert np.abs(drift).max() < 1e-3


@pytest.mark.parametrize(("friction", "efforts", "sides"), [(0.15, 60.0, 4), (0.6, 9.5, 8), (0.25, 10.0, 8)])
@pytest.mark.sample(3)
def test_limits_hold_while_tasks_give_way(friction, efforts, sides, engine):
    """On ice, with weak motors, with both: limits are active, the task degrades, mechanics and contacts stay exact."""
    robot = Crouched(shift=(0.08, 0.1, -0.05), engine=engine, least=1.0, friction=friction, efforts=efforts, sides=sides)
    history = closed_loop(robot, 120)
    judge(robot, history, efforts)
    kinds = [name for *_, control in history for name in control.solution["limits"].active]
    if friction < 0.5:
        assert any("friction" in name for name in kinds)
    if efforts < 20:
        assert any("effort" in name for name in kinds)
    costs = [control.solution["priority 1"].cost for *_, control in history]
    assert max(costs) > 0.1


@pytest.mark.parametrize("seed", OTHERS_SLOW)
def test_levels_of_a_step_by_the_unreduced_cascade(seed):
    """A step with active limits on a random floating tree, three priorities, motions beside forces: the literal programmes
    agree."""
    robot, rng = tree(3, seed), np.random.default_rng(seed)
    model = robot.model
    stances = [Stance(c.frame, tuple(rng.standard_normal(3) * 0.2 + [0, 0, 1]), 0.5, c.point, least=0.5, most=90.0)
               for c in robot.where]
    task = position_task("b8", rng.standard_normal(3), gain=3.0, weight=2.0)
    whole = WholeBody(model, stances, [task], efforts=25.0)
    terms = whole.terms(robot.q, robot.v, [task])
    priorities = [MomentumTask(rate=20 * rng.standard_normal(6)), [task, EffortTask(weight=0.1)],
                  ForceTask(stances[0].name, 10 * rng.standard_normal(3))]
    levels = whole.levels(terms, priorities)
    control, other = whole.solve(levels), solve_cascade(levels)
    assert control.ok
    assert other.ok
    assert control.solution["limits"].active
    for one, two in zip(control.solution.levels, other.levels, strict=True):
        np.testing.assert_allclose(one.residual, two.residual, atol=1e-6)
        np.testing.assert_allclose(one.slack, two.slack, atol=1e-6)
    np.testing.assert_allclose(control.solution.x, other.x, atol=1e-5)


@pytest.mark.parametrize("beyond", [-0.05, 0.1])
def test_joints_keep_their_limits_and_come_back(beyond):
    """A knee before or beyond its limit, and a mass centre that asks for more: it arrives without overshoot, or comes back; its
    speed keeps its limit too."""
    robot = Crouched(shift=(0.0, 0.0, -0.12))
    knee = robot.model.joint_index("RF_KFE")
    row, at = robot.model.v_slice(knee).start, robot.model.q_slice(knee).start
    least = robot.q[at] + beyond
    bodies = [replace(b, joint=replace(b.joint, limits=Limits(lower=(least,), velocity=(1.5,)))) if i == knee else b
              for i, b in enumerate(robot.model.bodies)]
    robot.model = replace(robot.model, bodies=tuple(bodies))
    robot.whole = WholeBody(robot.model, robot.stances, [robot.com, robot.trunk], efforts=60.0, horizon=0.04)
    history = closed_loop(robot, 200)
    angles, speeds = np.array([h[0][at] for h in history]), np.array([h[1][row] for h in history])
    assert np.abs(speeds).max() <= 1.5 + 1e-9
    assert history[-1][4].solution["joints"].violated == {}
    assert angles[-1] == pytest.approx(least, abs=6e-3)  # (1 + t / 2 T) exp(-t / 2 T) of the way is left
    if beyond < 0:
        assert angles.min() >= least - 1e-4
        assert any("RF_KFE" in h[4].solution["joints"].active for h in history)
    else:
        assert np.diff(angles).min() > -1e-5  # back at once, not further out
    with pytest.raises(ProblemError, match="horizon"):
        WholeBody(robot.model, robot.stances, horizon=0.0)


@pytest.mark.parametrize("speed", [0.7, -0.7, 1.6, -1.6])
def test_velocities_reach_their_limits_and_come_back_over_the_horizon(speed):
    """An arm alone that is asked for more: ``v + a T`` is the limit on the side that it is driven to, also from beyond it; in a
    step and in its levels, laid out anew."""
    b = Builder("arm")
    inertia = BodyInertia(1.0, (0.2, 0.0, 0.0), ((0.01, 0, 0), (0, 0.01, 0), (0, 0, 0.01)))
    for k, parent in enumerate(("world", "b0")):
        b.body(f"b{k}", parent=parent, inertia=inertia, joint=Joint(f"j{k}", "revolute", axes=((0.0, 1.0, 0.0),), limits=Limits(
            lower=(-3.0,), upper=(3.0,), velocity=(1.5,), effort=(500.0,))))
    far = joint_task("j0", [10.0 * np.sign(speed)], gain=20.0)
    whole = WholeBody(b.build(), (), [far], horizon=0.05)
    v = np.array([speed, 0.1])
    control = whole.step(np.array([0.1, 0.2]), v, [[far], EffortTask()])
    assert control.ok
    assert v[0] + 0.05 * control.acceleration[0] == pytest.approx(1.5 * np.sign(speed), abs=1e-6)
    levels = whole.levels(whole.terms(np.array([0.1, 0.2]), v, [far]), [[far], EffortTask()])
    joints, = (level for level in levels if level.name == "joints")
    np.testing.assert_allclose(np.stack([v + 0.05 * joints.lower, v + 0.05 * joints.f]), [[-1.5] * 2, [1.5] * 2], atol=1e-12)


@pytest.mark.parametrize("along", [(1.0, 0.0), (0.6, -0.8), (0.0, 0.5)])
@pytest.mark.parametrize("sides", [3, 4, 8])
def test_friction_of_a_sliding_point_opposes_its_slip(along, sides):
    """``f = N (n - mu s)`` for every N is all that the two rows leave of a force, s in the plane, whatever the plane."""
    n = np.array([0.2, -0.3, 0.9]) / np.linalg.norm([0.2, -0.3, 0.9])
    T = np.linalg.svd(n[None, :])[2][1:]
    slip = along @ T
    N, F = Stance("foot", tuple(n), 0.7, sides=sides, slip=tuple(slip)).equations()
    np.testing.assert_allclose(N, n[None, :])
    np.testing.assert_allclose(F @ (n - 0.7 * slip), 0, atol=1e-14)
    assert np.linalg.svd(F)[1][-1] > 0.5  # nothing else
    assert Stance("foot", tuple(n), 0.7).equations()[1].shape == (0, 3)


# ------------------------------------------------------------------------------------------------ rows of the levels
@pytest.mark.row("001:C20", "001:C21", "001:C23", "001:C24")
@pytest.mark.parametrize("seed", OTHERS_SLOW)
def test_rows_over_accelerations_forces_and_torques(seed):
    """x = (a, f, tau) with f on the robot: any x of the constrained motion satisfies equations and stances; force rows pick
    theirs."""
    robot = tree(3, seed)
    model, nv = robot.model, robot.model.nv
    stances = [Stance(c.frame, point=c.point) for c in robot.where]
    whole = WholeBody(model, stances)
    torque = 10 * np.random.default_rng(seed).standard_normal(nv - 6)
    a, pushed = robot.motion(torque)
    x = np.r_[a, -pushed, torque]
    terms = whole.terms(robot.q, robot.v)
    equations, rest, limits = whole.levels(terms, [])
    assert equations.n == nv + 9 + nv - 6 == len(x)
    np.testing.assert_allclose(equations.A @ x, equations.b, atol=1e-7)
    np.testing.assert_allclose(rest.A @ x, rest.b, atol=1e-7)
    moves = (rest.A @ x - rest.b).reshape(-1, 3).T
    np.testing.assert_allclose(moves, feet_accelerations(robot, a), atol=1e-5 * (1 + np.abs(a).max()))
    assert rest.A.shape == (9, len(x))
    assert limits.f.size == 15  # no motor has a limit: three pyramids of four sides, three normal forces
    (_, _, _, force) = whole.levels(terms, [ForceTask(stances[1].name, [1.0, 2.0, 3.0], (2, 0))])
    np.testing.assert_allclose(force.A @ x, -pushed[[5, 3]])
    np.testing.assert_allclose(force.b, [3.0, 1.0])


@pytest.mark.row("001:C24")
@pytest.mark.parametrize("seed", range(2))
def test_a_sole_feels_the_force_and_the_moment_that_are_asked_for(seed):
    """Forces at the four corners of one sole of a biped, by its torques alone: what constrained motion puts on the sole under these
    torques is their sum and their moment, whichever of the redundant points carry it."""
    robot = biped(seed)
    stances = [Stance(c.frame, point=c.point, name=f"{c.frame} {k}") for k, c in enumerate(robot.where)]
    asked = np.array([[5.0, -2.0, 40.0], [-3.0, 1.0, 60.0], [0.0, 2.0, 55.0], [4.0, 0.0, 30.0]])
    wanted = [ForceTask(stance.name, f) for stance, f in zip(stances, asked, strict=False)]
    control = WholeBody(robot.model, stances).step(robot.q, robot.v, [wanted, EffortTask()])
    assert control.solution["priority 1"].cost < 1e-9
    a, pushed = robot.motion(control.torque)
    np.testing.assert_allclose(control.acceleration, a, atol=1e-6 * (1 + np.abs(a).max()))
    corners, given = feet_positions(robot).T[:4], -pushed.reshape(-1, 3)[:4]
    size = 1e-6 * np.abs(pushed).max()
    np.testing.assert_allclose(given.sum(0), asked.sum(0), atol=size)
    np.testing.assert_allclose(np.cross(corners, given).sum(0), np.cross(corners, asked).sum(0), atol=size)


@pytest.mark.row("001:C22")
@pytest.mark.parametrize("seed", OTHERS_SLOW[:2])
def test_motion_rows_of_every_kind_of_task(seed):
    """A x is the second derivative of the error along the motion: by differences of the error's rate, on a branching tree; and the
    wanted one is that of the gain."""
    robot, rng = tree(2, seed), np.random.default_rng(seed)
    model, q, v, a = robot.model, robot.q, robot.v, rng.standard_normal(robot.model.nv)
    R, p = pose(model, q, "b7")
    turned = np.linalg.qr(R + 0.3 * rng.standard_normal((3, 3)))[0]
    turned *= np.sign(np.linalg.det(turned))
    joint = next(b.joint.name for b in model.bodies if b.joint.kind == "revolute")
    how = {"gain": 3.0, "damping_ratio": 0.7, "rate": 0.2, "acceleration": -0.4}
    tasks = [position_task("b7", p + 0.1, reference="b3", **how), orientation_task("b7", turned, **how),
             pose_task("b5", turned, p, components=(0, 2, 4), **how), com_task(p, **how), joint_task(joint, 0.4, **how),
             posture_task(alg.random_configuration(model, rng), **how)]
    whole = WholeBody(model, [], tasks)
    terms = whole.terms(q, v, tasks)
    right = dynamics.algorithms.integrate_partials
    rates, h = [], 1e-5
    for t in (h, -h):
        step = t * v + t * t / 2 * a
        speed = np.array(ca.DM(right(model, ca.DM(step))[1])) @ (v + t * a)
        rates.append(whole.terms(moved(model, q, step), speed, tasks).rates)
    second = (rates[0] - rates[1]) / (2 * h)
    shifted = [whole.terms(moved(model, q, s * h * v), v, tasks).e for s in (1, -1)]
    for task in tasks:
        rows = whole.task_rows(task)
        _, level = whole.levels(terms, [task])
        x = np.r_[a, np.zeros(level.n - model.nv)]
        size = 1 + np.abs(second[rows]).max()
        drift = terms.drift[rows]
        np.testing.assert_allclose(level.A @ x + drift, second[rows], atol=2e-6 * size, err_msg=task.name)
        rate = (shifted[0][rows] - shifted[1][rows]) / (2 * h)
        np.testing.assert_allclose(terms.rates[rows], rate, atol=1e-6 * (1 + np.abs(rate).max()), err_msg=task.name)
        wanted = -0.4 + 2 * 0.7 * 3.0 * (0.2 - terms.rates[rows]) - 9.0 * terms.e[rows]
        np.testing.assert_allclose(level.b + drift, wanted, atol=1e-12)


def test_momentum_rows_balance_the_forces():
    """Rate of momentum about the mass centre: gravity and contact forces with their arms, whatever the joints do."""
    robot = tree(3, 4, armature=False)  # rotors stand beside the bodies and carry no momentum of theirs
    stances = [Stance(c.frame, point=c.point) for c in robot.where]
    whole = WholeBody(robot.model, stances)
    a, pushed = robot.motion(5 * np.random.default_rng(0).standard_normal(robot.model.nv - 6))
    terms = whole.terms(robot.q, robot.v)
    *_, level = whole.levels(terms, [MomentumTask(rate=np.arange(6.0), target=np.ones(6), gain=2.0)])
    f = -pushed.reshape(-1, 3)
    com = np.array(dynamics.make(robot.model, "centre_of_mass")(robot.q)).ravel()
    moment = np.cross(feet_positions(robot).T - com, f).sum(0)
    x = np.r_[a, -pushed, np.zeros(robot.model.nv - 6)]
    np.testing.assert_allclose(level.A @ x + terms.drift_g,
                               np.r_[f.sum(0) + robot.model.mass * np.array(robot.model.gravity), moment], atol=1e-6)
    np.testing.assert_allclose(level.b + terms.drift_g, np.arange(6.0) + 2 * (1 - terms.momentum), atol=1e-12)


# ------------------------------------------------------------------------------------------------ friction
CORNERS = [(x, y, -0.02) for x in (-0.1, 0.1) for y in (-0.1, 0.1)]


def slope(angle, direction, **stance):
    """Stances of a block's four corners on ground that falls by ``angle`` towards ``direction`` (rad), and how its pyramid holds
    downhill: the friction where the ray meets the polygon's side."""
    down = np.array([np.cos(direction), np.sin(direction), 0.0])
    normal = np.sin(angle) * down + np.array([0, 0, np.cos(angle)])
    stances = [Stance("block", tuple(normal), point=c, name=str(k), **stance) for k, c in enumerate(CORNERS)]
    fall = normal * normal[2] - np.array([0, 0, 1.0])
    sides = stances[0].limits()[0][:-1]
    most = -(sides[0] @ normal)
    return stances, most / ((sides + most * normal) @ fall / np.linalg.norm(fall)).max()


@pytest.mark.parametrize("pyramid", ["inner", "outer"])
def test_a_block_holds_on_an_incline_as_its_pyramid_says(pyramid):
    """It holds iff tan α is at most the pyramid's friction downhill: between μ cos(π/k) and μ for the inner one, between μ and
    μ / cos(π/k) for the outer one."""
    b, friction = Builder("block"), 0.5
    b.body("block", parent="world", joint=Joint("base", "free_flyer"),
           inertia=BodyInertia(2.0, (0, 0, 0), ((0.02, 0, 0), (0, 0.02, 0), (0, 0, 0.02))))
    model = b.build()
    whole, q = WholeBody(model, slope(0.1, 0.0)[0], driven=[]), np.array(alg.neutral(model)).ravel()
    for sides, direction in ((4, 0.0), (4, np.pi / 4), (8, 0.3), (64, 1.0)):
        for share in (0.999, 1.001):
            angle, holds = np.arctan(friction), 0.0
            for _ in range(30):  # the pyramid turns a little with the slope
                stances, holds = slope(angle, direction, friction=friction, pyramid=pyramid, sides=sides)
                angle = np.arctan(share * holds)
            least = friction * (np.cos(np.pi / sides) if pyramid == "inner" else 1.0)
            assert least - 1e-12 <= holds <= least / np.cos(np.pi / sides) + 1e-12
            control = whole.step(q, np.zeros(6), [], stances)
            assert control.ok
            assert control.solution["limits"].violated == {}
            sliding = control.solution["stances"].cost
            assert (sliding < 1e-9) == (share < 1), (sides, direction, share, sliding)
            np.testing.assert_allclose(sum(control.forces.values()), 2.0 * (control.acceleration[:3] + [0, 0, 9.81]), atol=1e-9)


@pytest.mark.parametrize(("efforts", "friction", "speed", "knee"), [(4.0, 0.6, 4.0, 0.2), (25.0, 0.6, 4.0, 0.05),
                                                                    (10.0, 0.3, 10.0, 1.3)])
def test_limits_hold_where_stances_cannot(efforts, friction, speed, knee):
    """Weak motors and fast joints near stretched legs, as in a fall: torques and forces stay within their limits, mechanics holds,
    and feet slip as little as that allows, which a program of these three alone says, too."""
    robot, rng = Crouched(efforts=efforts, friction=friction, least=1.0), np.random.default_rng(1)
    for i, name in enumerate(robot.model.coordinate_names):
        robot.q[i] = {"HFE": knee / 2, "KFE": -knee}.get(name[-3:], robot.q[i])
    v = speed * rng.standard_normal(18)
    for state in (v, 0.95 * v):
        control = robot.whole.step(robot.q, state, robot.priorities)
        assert control.ok
        assert np.abs(control.torque).max() <= efforts + 1e-9
        assert all(inside(s, f, 1e-8) and f[2] >= 1.0 - 1e-8 for s, f in zip(robot.stances, control.forces.values(), strict=True))
        assert control.solution["equations"].cost < 1e-8
        assert control.solution["stances"].cost > 1e-3
        terms = robot.whole.terms(robot.q, state, [robot.com, robot.trunk])
        equations, stances, limits = robot.whole.levels(terms, [], robot.stances)
        least = solve_cascade([equations, limits, stances])
        assert control.solution["stances"].cost == pytest.approx(least["stances"].cost, rel=1e-5)
    robot.whole.step(robot.q, np.zeros(18), robot.priorities)  # the way back: the quick order knows nothing of the other
    again = robot.whole.step(robot.q, v, robot.priorities)
    other = Crouched(efforts=efforts, friction=friction, least=1.0)
    np.testing.assert_allclose(again.torque, other.whole.step(robot.q, v, other.priorities).torque, atol=1e-7)


def test_stances_that_can_hold_come_out_the_same_in_either_order():
    robot = Crouched(shift=(0.05, 0.04, 0.0), friction=0.2, efforts=12.0)
    terms = robot.whole.terms(robot.q, np.zeros(18), [robot.com, robot.trunk])
    answers = [robot.whole.solve(robot.whole.levels(terms, robot.priorities, stances_yield=k)) for k in (False, True)]
    assert answers[0].solution["limits"].active
    for name in ("torque", "acceleration"):
        np.testing.assert_allclose(getattr(answers[1], name), getattr(answers[0], name), atol=1e-7)


def test_pyramids_inside_and_outside_the_cone():
    """Directions of the force on a ring: what the inner pyramid allows is in the cone, what is in the cone the outer one allows."""
    rng = np.random.default_rng(0)
    normal = (0.3, -0.4, 1.0)
    inner, outer = (Stance("foot", normal, 0.7, pyramid=kind, sides=5, heading=0.4) for kind in ("inner", "outer"))
    n = np.array(normal) / np.linalg.norm(normal)
    t = inner.limits()[0][:-1] + 0.7 * np.cos(np.pi / 5) * n
    np.testing.assert_allclose(t @ n, 0, atol=1e-15)
    np.testing.assert_allclose(np.linalg.norm(t, axis=1), 1)
    seen = set()
    for f in rng.standard_normal((3000, 3)) + 1.5 * n:
        within = [bool((low <= D @ f).all() and (D @ f <= high).all()) for D, low, high in (inner.limits(), outer.limits())]
        cone = bool(inside(inner, f))
        assert not within[0] or cone
        assert not cone or within[1]
        seen.add((within[0], within[1]))
    assert seen == {(False, False), (False, True), (True, True)}
    assert not inside(inner, [0, 0, -1.0])


def test_a_stance_that_is_taken_up_gets_force_as_its_bound_allows():
    """Normal forces ramp with ``most``; a foot without force carries nothing, and the others hold the robot."""
    robot = Crouched()
    for most in (0.0, 5.0, 20.0):
        stances = [replace(robot.stances[0], most=most), *robot.stances[1:]]
        terms = robot.whole.terms(robot.q, np.zeros(18), [robot.com, robot.trunk])
        control = robot.whole.solve(robot.whole.levels(terms, robot.priorities, stances), stances)
        assert control.ok
        assert control.forces["LF"][2] <= most + 1e-9
        assert control.solution["limits"].violated == {}
    assert control.forces["LF"][2] == pytest.approx(20.0)
    three = robot.stances[1:]
    control = robot.whole.step(robot.q, np.zeros(18), robot.priorities, three)
    assert set(control.forces) == {"RF", "LH", "RH"}
    lift = robot.whole.step(robot.q, np.zeros(18), robot.priorities)
    assert set(lift.forces) == set(LEGS)


def test_forces_between_the_feet_move_nothing():
    """Least efforts or a squeeze below the motion: another torque, the same accelerations."""
    robot = Crouched(shift=(0.02, 0.0, 0.0))
    least = robot.whole.step(robot.q, np.zeros(18), robot.priorities)
    squeeze = robot.whole.step(robot.q, np.zeros(18), [robot.priorities[0], ForceTask("LF", [0.0, -12.0, 0.0], (1,))])
    np.testing.assert_allclose(squeeze.acceleration, least.acceleration, atol=1e-9)
    assert squeeze.forces["LF"][1] == pytest.approx(-12.0)
    assert np.abs(squeeze.torque - least.torque).max() > 0.5


def test_one_weighted_level_trades_what_the_hierarchy_does_not():
    """The same motions and efforts in one level: near the strict answer for large weights, never equal, and never below its
    cost."""
    robot = Crouched(shift=(0.03, 0.02, -0.02), friction=0.3)
    terms = robot.whole.terms(robot.q, np.zeros(18), [robot.com, robot.trunk])
    levels = robot.whole.levels(terms, robot.priorities)
    strict = robot.whole.solve(levels)
    gaps = []
    for weight in (1e2, 1e4, 1e6):
        control = robot.whole.solve([*levels[:3], merged(levels[3:], [weight, 1.0])])
        motion = levels[3].A @ control.solution.x - levels[3].b
        assert np.linalg.norm(motion) >= strict.solution["priority 1"].cost - 1e-9
        gaps.append(np.abs(control.torque - strict.torque).max())
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]


def test_flat_feet_on_redundant_points():
    """A biped on four points of each sole (24 rows of rank 12): the load goes where the pyramids allow, no row is taken twice."""
    model = textbook_robots.biped()
    q = np.array(alg.neutral(model)).ravel()
    for i, name in enumerate(model.coordinate_names):
        q[i] = {"HIP_Y": -0.4, "KNEE": 0.8, "ANKLE_Y": -0.4}.get(name[2:], q[i])
    corners = ((0.11, 0.05, 0.0), (0.11, -0.05, 0.0), (-0.11, 0.05, 0.0), (-0.11, -0.05, 0.0))
    stances = [Stance(f"{side}_SOLE", point=c, name=f"{side}{k}", least=2.0) for side in "LR" for k, c in enumerate(corners)]
    com = com_task(np.array(dynamics.make(model, "centre_of_mass")(q)).ravel() + [0.05, 0.03, -0.03], gain=5.0)
    trunk = orientation_task("pelvis", pose(model, q, "pelvis")[0], gain=5.0)
    whole = WholeBody(model, stances, [com, trunk], efforts=200.0)
    control = whole.step(q, np.zeros(18), [[com, trunk], EffortTask()])
    assert control.ok
    assert control.solution["stances"].rank == 12
    assert control.solution["priority 1"].cost < 1e-8
    judged = standing(model, [s.contact_point for s in stances], q, np.zeros(18))
    a, _ = judged.motion(control.torque)
    np.testing.assert_allclose(control.acceleration, a, atol=1e-6)
    for stance in stances:
        assert inside(stance, control.forces[stance.name], 1e-8)
        assert control.forces[stance.name][2] >= 2.0 - 1e-9


def test_a_thousand_steps_leave_nothing_behind():
    """Arrays in, arrays out: steps with new targets every time keep no memory."""
    robot, rest = Crouched(engine="active_set"), np.zeros(18)

    def steps(count):
        for k in range(count):
            target = robot.start + 0.01 * np.sin(0.01 * k)
            control = robot.whole.step(robot.q, rest, [[com_task(target, gain=8.0), robot.trunk], EffortTask()])
        assert control.ok
        assert all(isinstance(x, np.ndarray) for x in (control.torque, control.acceleration, *control.forces.values()))

    def held():
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    steps(50)
    tracemalloc.start()
    try:
        rises = []
        for _ in range(6):
            before = held()
            steps(250)
            rises.append(held() - before)
        assert min(rises) < 2000, rises  # eight bytes a step: less than any object; Python's own free lists fill up at first
    finally:
        tracemalloc.stop()


# ------------------------------------------------------------------------------------------------ failures and bad input
def test_a_step_that_fails_gives_no_numbers(monkeypatch):
    robot = Crouched(friction=0.1, shift=(0.1, 0.1, 0.0), efforts=5.0)
    assert robot.whole.step(robot.q, np.zeros(18), robot.priorities).ok
    monkeypatch.setattr(hqp, "_METHODS", 0)
    control = robot.whole.step(robot.q, np.zeros(18), robot.priorities)
    assert not control.ok
    assert control.solution.trouble
    assert np.isnan(control.torque).all()
    assert all(np.isnan(f).all() for f in control.forces.values())


def test_wrong_input_is_named():
    robot = Crouched()
    model, whole, rest = robot.model, robot.whole, np.zeros(18)
    for arguments, words in (({"friction": 0.0}, "friction: must be positive"), ({"friction": -1.0}, "friction"),
                             ({"least": 2.0, "most": 1.0}, "least <= most"), ({"sides": 2}, "3 sides"),
                             ({"pyramid": "round"}, "round"), ({"normal": (0.0, 0.0, 0.0)}, "not all zero")):
        with pytest.raises((ProblemError, ModelError), match=words):
            Stance("LF_FOOT", **arguments)
    with pytest.raises(UnknownNameError, match="LF_FOOT"):
        WholeBody(model, [Stance("LF_FOT")])
    with pytest.raises(ProblemError, match="share a name"):
        WholeBody(model, [Stance("LF_FOOT"), Stance("LF_FOOT", point=(0.0, 0.0, 0.1))])
    with pytest.raises(ProblemError, match="LF_HAA"):
        WholeBody(model, [], driven=["LF_HA"])
    with pytest.raises(ProblemError, match="negative"):
        WholeBody(model, [], efforts=-1.0)
    with pytest.raises(ProblemError, match="was not among the tasks"):
        whole.step(robot.q, rest, [position_task("trunk", [0, 0, 1])])
    with pytest.raises(ProblemError, match="is taken"):
        whole.step(robot.q, rest, [ForceTask("LF", [0, 0, 1])], robot.stances[1:])
    with pytest.raises(ProblemError, match="no stance named 'XX'"):
        whole.step(robot.q, rest, [], [Stance("LF_FOOT", name="XX")])
    with pytest.raises(ProblemError, match="has no task"):
        whole.step(robot.q, rest, [[]])
    with pytest.raises(ProblemError, match="rate has shape"):
        whole.step(robot.q, rest, [replace(robot.com, rate=np.zeros(2))])
    with pytest.raises(ProblemError, match=r"effort has shape \(3,\)"):
        whole.step(robot.q, rest, [EffortTask(np.zeros(3))])
    with pytest.raises(ProblemError, match=r"force has shape \(2,\)"):
        whole.step(robot.q, rest, [ForceTask("LF", [0, 1])])
    assert whole.step(robot.q, rest, robot.priorities).ok
    with pytest.raises(ProblemError, match=r"effort has shape \(3,\)"):
        whole.step(robot.q, rest, [robot.priorities[0], EffortTask(np.zeros(3))])
    for q, v, words in ((robot.q[1:], rest, r"q has shape \(18,\), expected \(19,\)"), (robot.q, 0.0, r"v has shape \(\)")):
        with pytest.raises(ProblemError, match=words):
            whole.step(q, v, robot.priorities)
    with pytest.raises(ProblemError, match="not finite"):
        whole.step(robot.q, rest * np.nan, robot.priorities)
    with pytest.raises(ProblemError, match="unknowns"):
        whole.step(robot.q, rest, [Level("own", np.eye(3), np.zeros(3))])


def test_a_real_quadruped_stands():
    """Solo12 of the robots extra, crouched, asked to shift at once: its forces, and its torques of at most 2.7 N m, stay in
    limits."""
    try:
        path = find_robot("solo12")
    except ModelError:
        pytest.skip("the robots extra is not installed")
    robot = object.__new__(Crouched)
    robot.model = model = read_urdf(path, root="free_flyer")
    robot.q = np.array(alg.neutral(model)).ravel()
    for i, name in enumerate(model.coordinate_names):
        robot.q[i] = {"HFE": 0.8, "KFE": -1.6}.get(name[-3:], robot.q[i])
    robot.stances = tuple(Stance(f"{leg}_FOOT", name=leg, least=0.2) for leg in ("FL", "FR", "HL", "HR"))
    com = com_task(np.array(dynamics.make(model, "centre_of_mass")(robot.q)).ravel() + [0.02, 0.02, -0.03], gain=10.0)
    trunk = orientation_task("base_link", pose(model, robot.q, "base_link")[0], gain=10.0)
    robot.priorities = [[com, trunk], EffortTask()]
    robot.whole = WholeBody(model, robot.stances, [com, trunk], efforts=1.5)
    judge(robot, closed_loop(robot, 100), 1.5)
