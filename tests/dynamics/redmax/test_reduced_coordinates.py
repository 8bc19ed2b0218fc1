"""RedMax on branching trees of mixed joints: J and its derivatives, M, f, K and D against recursions, Lagrange, differences."""

from dataclasses import dataclass, replace

import casadi as ca
import numpy as np
import pytest
from arrays import column, number
from force_harness import check
from joint_examples import tree_of_kinds
from states import state

import dynamics
from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.algorithms.jacobian_rate import body_jacobian_rates
from dynamics.derivatives import forward_dynamics_derivatives, inverse_dynamics_derivatives, structure_constants
from dynamics.forces import Bushing, Force, JointDamper, JointSpring, Place, Spring
from dynamics.joints import KINDS
from dynamics.joints.kind import JointKind, Slices
from dynamics.loops import LoopDynamics
from dynamics.mechanism import Mechanism, Motor, Thruster
from dynamics.model import Mimic, Model
from dynamics.model.model import Model as ModelClass
from dynamics.redmax import equations as eq
from dynamics.redmax import maximal, redmax

RATES = tree_of_kinds("revolute", "exponential", "universal", "frame_spline", "free_2d", "euler", seed=3)
FLAT = tree_of_kinds("revolute", "exponential", "prismatic", "universal", "free_3d", "frame_spline", "euler", seed=1)
GROUPS = tree_of_kinds("free_flyer", "spherical", "revolute", "planar", "translation", "prismatic", seed=3)
_COUPLED = tree_of_kinds("revolute", "spline_curve", "exponential", "revolute", "fixed", seed=3)
COUPLED = replace(_COUPLED, bodies=tuple(replace(b, joint=replace(b.joint, armature=(), damping=(), mimic=Mimic("j0", 0.7, 0.1)))
                                         if i in (1, 3) else b for i, b in enumerate(_COUPLED.bodies)))
CHAINS = tree_of_kinds("composite", "revolute", "free_3d_reversed", "prismatic", "revolute", seed=3)
TREES = {"rates": RATES, "groups": GROUPS, "coupled": COUPLED, "chains": CHAINS}
JOINTS = {"rates": ("003:D06", "003:D11", "003:D12", "003:D13", "003:D14", "003:D15", "003:D17"),
          "groups": ("003:D06", "003:D07", "003:D08", "003:D09"), "chains": ("003:D06", "003:D07", "003:D17")}
every = pytest.mark.parametrize("model", TREES.values(), ids=TREES)


def along(model, f, q, v, h=2e-3):
    """Derivatives of f(q, v) by q along every right perturbation, and by v: [entries, nv], by differences of fourth order."""
    x, y = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
    value = ca.Function("f", [x, y], [ca.vec(ca.densify(ca.SX(f(x, y))))])
    move = dynamics.make(model, "integrate")

    def slope(at):
        far, near = (column(at(s) - at(-s)) / (2 * s) for s in (2 * h, h))
        return (4 * near - far) / 3

    units = np.eye(model.nv)
    return (np.column_stack([slope(lambda s, e=e: value(move(q, s * e), v)) for e in units]),
            np.column_stack([slope(lambda s, e=e: value(q, v + s * e)) for e in units]))


def same(ours, differences):
    size = 1 + np.abs(differences).max()
    np.testing.assert_allclose(number(ours) / size, differences / size, atol=2e-9)


def slabs(parts):
    return np.column_stack([number(x).ravel(order="F") for x in parts])


def mechanism(model):
    """Springs, dampers, motors and a thruster on a tree."""
    first, last = model.bodies[1].name, model.bodies[-1].name
    path = Place("world", (0.3, 0.1, 1.0)), Place(first, (0.1, 0.0, 0.2)), Place(last, (0.0, 0.1, 0.0))
    springs = (Spring("s", path, 30.0, 0.5, 2.0),
               Bushing("b", Place(first, (0.2, 0.0, 0.0)), Place(last, (0.0, 0.0, 0.1)), 5.0, 0.7),
               JointSpring("j", model.bodies[0].joint.name, 3.0), JointDamper("d", model.bodies[2].joint.name, 0.4, 0.2))
    return Mechanism(model, (Motor("m", ((model.velocity_names[0], 1.0), (model.velocity_names[-1], -0.5)), -9.0, 9.0),),
                     (Thruster("t", last, (0.0, 0.6, 0.8)),), springs)


# ------------------------------------------------------------------------------------------------ kinematics
@pytest.mark.row("003:R01", "003:R02", "003:R04", "003:R05", "003:R06")
@every
def test_jacobian_and_its_rate(model):
    """Twists by the recursion and by differences of poses, accelerations, and the other rooms' Jacobians column by column."""
    q, v, a = state(model)
    at = maximal(model, q, v)
    J, J_dot = number(at.J), number(at.J_dot)
    assert all(b.parent < i for i, b in enumerate(model.bodies))
    assert len({b.parent for b in model.bodies}) < len(model.bodies) - 1  # they branch
    np.testing.assert_allclose(J @ v, np.concatenate([column(x) for x in alg.body_velocities(model, q, v)]), atol=1e-12)
    own = np.vstack([number(alg.frame_jacobian(model, q, b.name, "body")) for b in model.bodies])
    np.testing.assert_allclose(J, own, atol=1e-12)
    np.testing.assert_allclose(J_dot, np.vstack([number(x) for x in body_jacobian_rates(model, q, v)]), atol=1e-11)
    h = 1e-5
    ends = [alg.body_poses(model, alg.integrate(model, q, s * h * v)) for s in (1, -1)]
    for i, (pose, one, two) in enumerate(zip(alg.body_poses(model, q), *ends, strict=True)):
        R, slope = number(pose.R), (number(one.R) - number(two.R)) / (2 * h)
        spin = R.T @ slope
        twist = np.r_[R.T @ column(one.p - two.p) / (2 * h), spin[2, 1], spin[0, 2], spin[1, 0]]
        np.testing.assert_allclose(J[6 * i:6 * i + 6] @ v, twist, atol=1e-7)
    from dynamics.algorithms.kinematics import body_accelerations

    np.testing.assert_allclose(J @ a + J_dot @ v, np.concatenate([column(x) for x in body_accelerations(model, q, v, a)]),
                               atol=1e-11)


@pytest.mark.row("003:R03")
@pytest.mark.parametrize("model", [RATES, FLAT, GROUPS], ids=["rates", "flat", "groups"])
def test_poses_are_products_along_the_branches(model):
    """Constant placements and joint motions as matrices 4 x 4, multiplied in NumPy from the world to every body."""
    q, _, _ = state(model, 2)
    found, world = alg.body_poses(model, q), []

    def homogeneous(R, p):
        return np.block([[number(R), column(p)[:, None]], [np.zeros((1, 3)), 1.0]])

    for i, body in enumerate(model.bodies):
        joint, moved = body.joint, model.kind(i).transform(ca.DM(q[model.q_slice(i)]))
        own = homogeneous(joint.placement.rotation, joint.placement.position) @ homogeneous(moved.R, moved.p)
        world.append(own if body.parent < 0 else world[body.parent] @ own)
        np.testing.assert_allclose(homogeneous(found[i].R, found[i].p), world[i], atol=1e-13)


@pytest.mark.row("003:D01", "003:D02", "003:D03", "003:D04", "003:D05", "003:D23")
@pytest.mark.parametrize("model", [pytest.param(model, id=name, marks=[pytest.mark.row(row) for row in JOINTS.get(name, ())])
                                   for name, model in TREES.items()])
def test_third_order_kinematics(model):
    """D_k J and D_k dJ/dt by differences of J and dJ/dt; ``dJ/dt = sum D_k J v_k``; ``d(dJ/dt)/dv_k = D_k J``; d(J v)/dq."""
    q, v, _ = state(model, 1)
    at = maximal(model, q, v)
    same(slabs(at.dJ), along(model, lambda x, y: maximal(model, x, y).J, q, v)[0])
    by_q, by_v = along(model, lambda x, y: maximal(model, x, y).J_dot, q, v)
    same(slabs(at.dJ_dot), by_q)
    same(slabs(at.dJ), by_v)
    np.testing.assert_allclose(sum(number(x) * y for x, y in zip(at.dJ, v, strict=True)), number(at.J_dot), atol=1e-11)
    twists = along(model, lambda x, y: ca.vertcat(*alg.body_velocities(model, x, y)), q, v)[0]
    same(eq.twist_derivatives(at, v), twists)


@pytest.mark.row("003:D02")
@every
def test_structure_of_the_slices(model):
    """Maurer-Cartan on every body, and zeros where a joint does not move a body."""
    q, v, _ = state(model, 2)
    at = maximal(model, q, v)
    J, dJ, bracket = number(at.J), [number(x) for x in at.dJ], np.asarray(structure_constants(model))
    for i in range(len(model.bodies)):
        rows = slice(6 * i, 6 * i + 6)
        for a in range(model.nv):
            if not J[rows, a].any():
                assert not any(D[rows, a].any() for D in dJ)
                assert not dJ[a][rows].any()
            for b in range(a):
                left = dJ[b][rows, a] - dJ[a][rows, b]
                right = column(spatial.cross_motion(ca.DM(J[rows, a]), ca.DM(J[rows, b]))) - J[rows] @ bracket[:, a, b]
                np.testing.assert_allclose(left, right, atol=1e-10)


# ------------------------------------------------------------------------------------------------ dynamics
MANY = tree_of_kinds("revolute", "spherical", "prismatic", "universal", "free_flyer", "composite", "spline_surface", "frame_spline",
                     "spline_curve", "euler", "free_2d", seed=7)


def lagrange_nearby(model, q, v, a):
    """Generalised force by Euler and Lagrange in the coordinates d of ``q [+] d`` about the present place, from poses
    alone. There ``v = B(d) d'`` with B(0) = 1, so that efforts are those of d and ``d'' = a - B' d'``."""
    d, w, b = (ca.SX.sym(n, model.nv) for n in "dwb")
    x = alg.integrate(model, ca.DM(q), d)
    T, V = 0, 0
    for body, pose in zip(model.bodies, alg.body_poses(model, x), strict=True):
        com = spatial.act_point(pose, spatial.constant(body.inertia.com))
        turn = pose.R.T @ ca.reshape(ca.jtimes(ca.vec(ca.densify(ca.SX(pose.R))), d, w), 3, 3)
        omega, speed = ca.vertcat(turn[2, 1], turn[0, 2], turn[1, 0]), ca.jtimes(com, d, w)
        T = T + body.inertia.mass * ca.dot(speed, speed) / 2 + omega.T @ ca.DM(np.array(body.inertia.inertia)) @ omega / 2
        V = V - body.inertia.mass * ca.dot(ca.DM(model.gravity), com)
    p = ca.gradient(T, w)
    force = ca.jtimes(p, d, w) + ca.jtimes(p, w, b) - ca.gradient(T - V, d)
    velocity = alg.rate_matrix_inverse(model, x) @ ca.jtimes(x, d, w)
    bent = ca.Function("bent", [d, w], [velocity, ca.jtimes(velocity, d, w)])(np.zeros(model.nv), v)
    np.testing.assert_allclose(column(bent[0]), v, atol=1e-12)
    return column(ca.Function("f", [d, w, b], [force])(np.zeros(model.nv), v, a - column(bent[1])))


@pytest.mark.row("003:R07", "003:J14", "003:J20", "003:D20")
def test_redmax_is_the_recursion_is_lagrange_for_every_kind_of_joint():
    """A branching tree with balls, a free body, splines of all kinds and a composite joint that holds a ball."""
    bare = replace(MANY, bodies=tuple(replace(b, joint=replace(b.joint, armature=(), damping=())) for b in MANY.bodies))
    assert len({b.parent for b in bare.bodies}) < len(bare.bodies)
    q, v, a = state(bare, 5)
    found = redmax(Mechanism(bare), q, v)
    tau = number(found.M) @ a - column(found.f)
    np.testing.assert_allclose(tau, column(dynamics.make(bare, "inverse_dynamics")(q, v, a)), atol=1e-9)
    np.testing.assert_allclose(tau, lagrange_nearby(bare, q, v, a), rtol=1e-9, atol=1e-8)
    at = maximal(bare, q, v)
    np.testing.assert_allclose(number(found.f_qvv), -number(at.J.T @ eq.body_inertias(bare) @ at.J_dot @ v), atol=1e-11)
    np.testing.assert_allclose(a, column(dynamics.make(bare, "forward_dynamics")(q, v, tau)), atol=1e-7)


@pytest.mark.row("003:R07", "003:D18", "003:D19")
@every
def test_mass_matrix_and_its_slices(model):
    q, v, _ = state(model, 4)
    found = redmax(Mechanism(model), q, v)
    M, dM = number(found.M), [number(x) for x in found.dM]
    np.testing.assert_allclose(M, number(dynamics.make(model, "mass_matrix")(q)), atol=1e-12)
    same(slabs(dM), along(model, lambda x, y: alg.mass_matrix(model, x), q, v)[0])
    h = 1e-5
    ends = [np.linalg.inv(number(dynamics.make(model, "mass_matrix")(alg.integrate(model, q, s * h * v)))) for s in (1, -1)]
    slope = sum(number(x) * y for x, y in zip(eq.inverse_mass_slices(found.M, found.dM), v, strict=True))
    size = np.abs(ends[0]).max()
    np.testing.assert_allclose(slope / size, (ends[0] - ends[1]) / (2 * h) / size, atol=1e-6)
    # dM/dt - 2 C is skew: v' (dM/dt v - 2 h_velocity) = 0, with h_velocity the part of the bias without gravity, damping
    weightless = replace(model, gravity=(0.0, 0.0, 0.0),
                         bodies=tuple(replace(b, joint=replace(b.joint, damping=())) for b in model.bodies))
    bias = column(dynamics.make(weightless, "bias_force")(q, v))
    assert v @ sum(x * y for x, y in zip(dM, v, strict=True)) @ v == pytest.approx(2 * v @ bias, rel=1e-9)


@pytest.mark.row("003:D21", "003:D22")
@every
def test_derivatives_of_the_quadratic_velocity_vector(model):
    q, v, _ = state(model, 5)
    M_m = eq.body_inertias(model)

    def f(x, y):
        at = maximal(model, x, y)
        return -at.J.T @ M_m @ at.J_dot @ y

    by_q, by_v = along(model, f, q, v)
    _, K, D = eq.quadratic_velocity(maximal(model, q, v), M_m, v)
    same(K, by_q)
    same(D, by_v)


@pytest.mark.row("003:D24")
@every
def test_total_stiffness_and_damping(model):
    """With springs, dampers, motors and thrusts, against differences of the recursion's forces; M a = f by another algorithm."""
    robot = mechanism(model)
    q, v, _ = state(model, 6)
    u = np.array([1.3, 2.4])
    found = redmax(robot, q, v, u)

    def f(x, y):
        return -alg.bias_force(model, x, y, robot.wrenches(ca.DM(u[1:]), x)) + robot.motor_effort(ca.DM(u)) + robot.force(x, y)

    by_q, by_v = along(model, f, q, v)
    size = 1 + np.abs(by_q).max()
    np.testing.assert_allclose(column(found.f), column(f(ca.DM(q), ca.DM(v))), atol=1e-11 * size)
    same(found.K, by_q)
    same(found.D, by_v)
    a = column(robot.forward_dynamics(ca.DM(q), ca.DM(v), ca.DM(u)))
    np.testing.assert_allclose(number(found.M) @ a, column(found.f), atol=1e-9 * size)


@pytest.mark.row("003:D25")
def test_the_reference_loops():
    """The loops over slices that the reference implementation writes out, on dense arrays of numbers."""
    model = GROUPS
    robot = mechanism(model)
    q, v, _ = state(model, 7)
    at, found = maximal(model, q, v), redmax(robot, q, v)
    from dynamics.redmax.equations import body_wrenches

    w = body_wrenches(robot, ca.DM(q), at.J @ v, ca.DM.zeros(2))
    J, Jdot, Mm, fm, Km, Dm = map(number, (at.J, at.J_dot, eq.body_inertias(model), w.f, w.K, w.D))
    n = model.nv
    dJ, dJdot = (np.stack([number(x) for x in part], -1) for part in (at.dJ, at.dJ_dot))
    damping = number(ca.diag(alg.tree.diagonal(model, "damping")))
    K = number(robot.stiffness(ca.DM(q), ca.DM(v))) + J.T @ Km @ J
    D = number(robot.damping(ca.DM(q), ca.DM(v))) - damping + J.T @ Dm @ J
    D -= J.T @ Mm @ Jdot
    for i in range(n):
        dMi = J.T @ Mm @ dJ[:, :, i] + (J.T @ Mm @ dJ[:, :, i]).T
        np.testing.assert_allclose(number(found.dM[i]), dMi, atol=1e-11)
        K[:, i] += dJ[:, :, i].T @ fm[:, 0] + J.T @ Dm @ dJ[:, :, i] @ v
        K[:, i] -= dJ[:, :, i].T @ Mm @ Jdot @ v + J.T @ Mm @ dJdot[:, :, i] @ v
        D[:, i] -= J.T @ Mm @ dJ[:, :, i] @ v
    np.testing.assert_allclose(number(found.K), K, atol=1e-10)
    np.testing.assert_allclose(number(found.D), D, atol=1e-10)


@pytest.mark.row("003:D27")
@every
def test_derivatives_of_the_acceleration(model):
    q, v, _ = state(model, 8)
    found = redmax(Mechanism(model), q, v)
    a = ca.solve(found.M, ca.densify(found.f))
    by_q, by_v, by_tau = (number(x) for x in forward_dynamics_derivatives(model, "ad")(q, v, np.zeros(model.nv)))
    ours = eq.acceleration_derivatives(found.M, found.K, found.D, found.dM, a)
    size = np.abs(by_q).max()
    np.testing.assert_allclose(number(ours[0]) / size, by_q / size, atol=1e-9)
    np.testing.assert_allclose(number(ours[1]) / size, by_v / size, atol=1e-9)
    np.testing.assert_allclose(np.linalg.inv(number(found.M)), by_tau, atol=1e-9 * np.abs(by_tau).max())


# ------------------------------------------------------------------------------------------------ it is analytic
def test_nothing_is_differentiated(monkeypatch):
    """The slices are written out: RedMax is built while every door to algorithmic differentiation is shut."""
    model = tree_of_kinds("revolute", "exponential", "prismatic", "universal", "frame_spline", "composite", "spherical", seed=2)
    robot, q, v, _ = mechanism(model), *state(model)

    def refuse(*args, **kwargs):
        raise AssertionError("differentiated")

    for name in ("jacobian", "jtimes", "gradient", "hessian", "linearize"):
        monkeypatch.setattr(ca, name, refuse)
    for name in ("jacobian", "forward", "reverse", "factory"):
        monkeypatch.setattr(ca.Function, name, refuse)
    found = redmax(robot, ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv))
    assert found.K.shape == (model.nv, model.nv)
    with pytest.raises(AssertionError, match="differentiated"):
        ca.jacobian(q, v)


@pytest.mark.parametrize("which", ["first", "second"])
def test_a_wrong_slice_changes_the_answer(which, monkeypatch):
    """Poison: a joint that lies about its slices spoils K (and D, dM where the first ones are wrong), and nothing else."""
    model = FLAT
    q, v, _ = state(model)
    right = redmax(Mechanism(model), q, v)
    honest = ModelClass.kind

    def poisoned(self: Model, i: int) -> JointKind:
        kind = honest(self, i)
        if i != 1:
            return kind

        def lie(x):
            known = kind.slices(x)
            if which == "first":
                return Slices([1.01 * D for D in known.first], known.second)
            return Slices(known.first, lambda k, l: 1.01 * known.second(k, l))

        return replace(kind, slices=lie)

    monkeypatch.setattr(ModelClass, "kind", poisoned)
    wrong = redmax(Mechanism(model), q, v)
    changed = {name for name in ("M", "K", "D") if np.abs(number(getattr(wrong, name) - getattr(right, name))).max() > 1e-9}
    moved = any(np.abs(number(x - y)).max() > 1e-9 for x, y in zip(wrong.dM, right.dM, strict=True))
    assert (changed, moved) == (({"K", "D"}, True) if which == "first" else ({"K"}, False))


# ------------------------------------------------------------------------------------------------ a force of one's own
@dataclass(frozen=True)
class Magnet(Force):
    """``f = c sin(q_i) / (1 + v_i^2)`` at one velocity: a new record, as a user writes it."""

    name: str
    i: int
    c: float

    def check(self, model):
        pass

    def _at(self, model, value, square=False):
        out = type(value)(model.nv, model.nv if square else 1)
        out[self.i, self.i if square else 0] = value
        return out

    def effort(self, model, q, v):
        return self._at(model, self.c * ca.sin(q[self.i]) / (1 + v[self.i] ** 2))

    def stiffness(self, model, q, v):
        return self._at(model, self.c * ca.cos(q[self.i]) / (1 + v[self.i] ** 2), True)

    def damping(self, model, q, v):
        return self._at(model, -2 * self.c * ca.sin(q[self.i]) * v[self.i] / (1 + v[self.i] ** 2) ** 2, True)


@pytest.mark.row("003:D26")
def test_a_new_force_passes_the_harness_and_enters_by_itself():
    force, (q, v, _) = Magnet("m", 2, 3.0), state(FLAT)
    check(FLAT, force, q, v)
    plain, pulled = redmax(Mechanism(FLAT), q, v), redmax(Mechanism(FLAT, forces=(force,)), q, v)
    for name, value in (("f", force.effort), ("K", force.stiffness), ("D", force.damping)):
        np.testing.assert_allclose(number(getattr(pulled, name) - getattr(plain, name)), number(value(FLAT, ca.DM(q), ca.DM(v))),
                                   atol=1e-10)
    ad = inverse_dynamics_derivatives(FLAT, "ad")(q, v, np.zeros(FLAT.nv))
    np.testing.assert_allclose(number(plain.K), -number(ad[0]), atol=1e-9)


@pytest.mark.row("003:D27")
@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.slow), 2])
def test_compiled_loops_serve_every_kind_of_joint(part):
    """Accelerations and their slopes by the loops over reduced trees, against RedMax, which knows joints by S and slices alone."""
    model = tree_of_kinds(*sorted(KINDS)[part::3], seed=4)
    q, v, tau = state(model, 10)
    a, slopes = LoopDynamics(Mechanism(model)).forward_dynamics_derivatives(q, v, tau)
    found = redmax(Mechanism(model), q, v)
    M = number(found.M)
    np.testing.assert_allclose(a, np.linalg.solve(M, column(found.f) + tau), rtol=1e-9, atol=1e-9 * np.abs(a).max())
    ours = (*eq.acceleration_derivatives(found.M, found.K, found.D, found.dM, ca.DM(a)), np.linalg.inv(M))
    for one, two in zip(ours, slopes, strict=True):
        np.testing.assert_allclose(number(one), two, atol=1e-9 * np.abs(two).max())
