"""Every joint record by one harness: pose, S and its rates, manifold; then dynamics with it, its laws and its peers."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from arrays import column, number
from joint_examples import ALL, GENERAL, POINTS, TEST_KINDS, example, teach, tree_of_kinds

import dynamics
from dynamics import algorithms as alg
from dynamics import joints
from dynamics.algorithms import tree
from dynamics.derivatives.complex_step import complex_step_jacobian
from dynamics.errors import ModelError
from dynamics.joints import Family, JointKind, record
from dynamics.joints.derivatives import slices
from dynamics.joints.kind import vector_space
from dynamics.joints.moving import first_derivatives, from_pose
from dynamics.joints.one_dof import rotation_about
from dynamics.lie import euler
from dynamics.loops import LoopDynamics
from dynamics.model import BodyInertia, Builder, Joint, Limits, Mimic, Placement
from dynamics.model.lock import lock_joints
from dynamics.model.rigid import compose
from dynamics.spatial import Transform

CHARTS = [f"euler-{name}" for name in euler.SEQUENCES]
KINDS = [k for k in ALL if k not in ("fixed", "euler")] + CHARTS
QUICK = [pytest.param(k, marks=pytest.mark.slow) if k == "spline_surface" else k for k in KINDS]  # its graphs are large


@pytest.fixture(autouse=True)
def _kinds(monkeypatch):
    teach(monkeypatch)


def made(kind):
    name, _, chart = kind.partition("-")
    joint = example(Joint("j", "revolute"), name)
    return record(replace(joint, chart=chart) if chart else joint)


def point(kind, seed=9):
    joint, rng = made(kind), np.random.default_rng(seed)
    q = joint.random(rng, np.full(joint.nq, -np.inf), np.full(joint.nq, np.inf))
    return joint, q, *rng.uniform(-1, 1, (3, joint.nv))


def along(joint, q, v, f, h=1e-5):
    """Derivative of f along q [+] s v at s = 0."""
    ends = [f(joint.plus(ca.DM(q), ca.DM(s * h * v))) for s in (1, -1)]
    return (ends[0] - ends[1]) / (2 * h)


@pytest.mark.parametrize("kind", KINDS)
def test_manifold(kind):
    """plus and minus invert each other, N is the derivative of plus, jet its second order, transport, right Jacobian its slopes."""
    joint, q0, d, v, _ = point(kind)
    q1 = column(joint.plus(ca.DM(q0), ca.DM(d)))
    assert len(q0) == len(q1) == joint.nq == len(joint.neutral) == len(joint.q_names) == len(joint.q_units)
    assert joint.nv == len(joint.v_names) == len(joint.angular)
    np.testing.assert_allclose(column(joint.minus(ca.DM(q0), ca.DM(q1))), d, atol=1e-12)
    h, N = 1e-5, number(joint.rate(ca.DM(q0)))
    np.testing.assert_allclose(along(joint, q0, v, column), N @ v, atol=1e-9)
    np.testing.assert_allclose(number(joint.rate_inverse(ca.DM(q0))) @ N, np.eye(joint.nv), atol=1e-12)
    gaps = [np.abs(column(joint.jet(ca.DM(q0), ca.DM(s * v)) - joint.plus(ca.DM(q0), ca.DM(s * v)))).max() for s in (1e-2, 5e-3)]
    assert gaps[0] < 1e-5
    assert gaps[0] < 1e-12 or gaps[0] / gaps[1] > 7.0  # third order
    moved = [[column(joint.minus(ca.DM(q1), joint.plus(base, ca.DM(step)))) for base, step in (
        (joint.plus(ca.DM(q0), ca.DM(s * h * v)), d), (ca.DM(q0), d + s * h * v))] for s in (1, -1)]
    for i, slope in enumerate((joint.transport, joint.right_jacobian)):
        np.testing.assert_allclose((moved[0][i] - moved[1][i]) / (2 * h), number(slope(ca.DM(d))) @ v, atol=1e-8)


@pytest.mark.row("003:J00", "003:J02", "003:J03", "003:J04", "003:J05", "003:J06", "003:J07", "003:J11")
@pytest.mark.parametrize("kind", KINDS)
def test_subspace_and_bias_follow_from_the_pose(kind):
    joint, q, v, _, _ = point(kind)
    R = number(joint.transform(ca.DM(q)).R)
    spin = R.T @ along(joint, q, v, lambda x: number(joint.transform(x).R))
    np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-14)
    twist = np.r_[R.T @ along(joint, q, v, lambda x: column(joint.transform(x).p)), spin[2, 1], spin[0, 2], spin[1, 0]]
    S = number(joint.subspace(ca.DM(q)))
    np.testing.assert_allclose(S @ v, twist, atol=1e-8)
    bias = np.zeros(6) if joint.bias is None else column(joint.bias(ca.DM(q), ca.DM(v)))
    np.testing.assert_allclose(along(joint, q, v, lambda x: number(joint.subspace(x)) @ v), bias, atol=1e-8)
    start = joint.transform(ca.DM(joint.neutral))
    if kind in ("revolute", "spherical", "free_flyer", *CHARTS):
        np.testing.assert_allclose(np.c_[number(start.R), number(start.p)], np.eye(3, 4), atol=0)


@pytest.mark.row("002:H20")
@pytest.mark.parametrize("kind", QUICK)
def test_rates_of_the_subspace(kind):
    """dS/dq and dSdot/dq by complex steps of S and of the bias alone, through the rate map; linear and quadratic in v."""
    joint, q, v, a, _ = point(kind)
    G, drift, Du, Ddu, du_dv = (number(x) for x in first_derivatives(joint)(q, v, a))
    x, w, y = ca.SX.sym("q", joint.nq), ca.SX.sym("v", joint.nv), ca.SX.sym("a", joint.nv)
    bias = ca.SX(6, 1) if joint.bias is None else ca.SX(joint.bias(x, w))
    terms = [ca.densify(joint.subspace(x) @ w), ca.densify(joint.subspace(x) @ y + bias), ca.densify(bias)]
    functions = [ca.Function("f", [x, w, y], [ca.densify(ca.SX(term))]) for term in terms]
    N = number(joint.rate(ca.DM(q)))
    for ours, f, by in ((Du, functions[0], 0), (Ddu, functions[1], 0), (du_dv, functions[2], 1)):
        theirs = number(complex_step_jacobian(f, by)(q, v, a)) @ (N if by == 0 else np.eye(joint.nv))
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    np.testing.assert_allclose(G, number(joint.subspace(ca.DM(q))), atol=0)
    np.testing.assert_allclose(Du @ v, drift.ravel(), atol=1e-12)
    np.testing.assert_allclose(du_dv @ v, 2 * drift.ravel(), atol=1e-12)


# ------------------------------------------------------------------------------------------------ parameters
def test_euler_charts_are_those_of_the_library():
    for name in euler.SEQUENCES:
        joint, q, *_ = point(f"euler-{name}")
        np.testing.assert_allclose(number(joint.transform(ca.DM(q)).R), number(ca.DM(euler.to_matrix(name, q))), atol=1e-15)
        assert joint.q_names == euler.SEQUENCES[name].components


def test_a_curve_goes_through_its_points_smoothly_and_on_straight():
    joint, points = made("spline_curve"), np.array(POINTS)
    chords = np.r_[0, np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))]

    def at(s):
        return column(joint.transform(ca.DM(s)).p)

    for s, p in zip(chords, points, strict=True):
        np.testing.assert_allclose(at(s), p, atol=1e-13)
        # first and second derivatives from both sides agree to the order of the step
        h = 1e-3
        left, right = at(s) - 2 * at(s - h) + at(s - 2 * h), at(s + 2 * h) - 2 * at(s + h) + at(s)
        np.testing.assert_allclose(left / h**2, right / h**2, atol=0.2)
    for s in (-0.7, chords[-1] + 0.4):
        np.testing.assert_allclose(at(s + 0.1) - 2 * at(s) + at(s - 0.1), 0, atol=1e-13)


@pytest.mark.parametrize(("change", "words"), [
    ({"kind": "euler", "chart": "xxz"}, r"joint 'j'.*no Euler sequence named 'xxz'"),
    ({"kind": "euler"}, r"joint 'j'.*'euler' needs chart"),
    ({"kind": "revolute", "axes": ((1.0, 0.0, 0.0),), "points": POINTS}, r"'revolute' takes no points"),
    ({"kind": "spline_curve", "points": POINTS[:1]}, r"joint 'j'.*at least two points"),
    ({"kind": "spline_curve", "points": (POINTS[0], POINTS[0])}, r"neighbouring points of a curve must differ"),
    ({"kind": "spline_curve", "points": (POINTS[0], (1e308, 0.0, 0.0))}, r"lengths whose cube is finite"),
    ({"kind": "composite"}, r"'composite' needs parts"),
    ({"kind": "composite", "parts": (Joint("a", "revolute"),)}, r"joint 'a'.*'revolute' needs 1 axes, got 0"),
    ({"kind": "composite", "parts": (Joint("a", "spherical"), Joint("a", "planar"))}, r"distinct names, got a, a"),
    ({"kind": "composite", "parts": (Joint("a", "spherical", damping=(1.0,) * 3),)}, r"part 'a' gives damping"),
    ({"kind": "composite", "parts": (Joint("a", "planar", limits=Limits(effort=(1.0,) * 3)),)}, r"part 'a' gives limits"),
    ({"kind": "sphericl"}, r"joint 'j'.*unknown joint kind 'sphericl'.*did you mean 'spherical'"),
])
def test_wrong_parameters_are_named(change, words):
    builder = Builder("one")
    builder.body("b", parent="world", joint=replace(Joint("j", "fixed"), **change))
    with pytest.raises(ModelError, match=words):
        builder.build()


def test_an_axis_has_any_length_that_a_float_holds():
    for length in (1e-300, 1.0, 1e300):
        made = dynamics.model.builder.joint("j", "revolute", axes=[(0.0, 3 * length, -4 * length)])
        assert made.axes[0] == pytest.approx((0.0, 0.6, -0.8))


def test_fingerprint_and_sizes_see_the_parameters():
    model = tree_of_kinds("euler", "spline_curve", "composite", damping=False)
    assert (model.nq, model.nv) == (3 + 1 + 7, 3 + 1 + 6)
    assert model.coordinate_names[4:9] == ("j2.ball.w", "j2.ball.x", "j2.ball.y", "j2.ball.z", "j2.arm.q1")

    def changed(i, **fields):
        bodies = list(model.bodies)
        bodies[i] = replace(bodies[i], joint=replace(bodies[i].joint, **fields))
        return replace(model, bodies=tuple(bodies))

    others = [changed(0, chart="xyz"), changed(1, points=POINTS[:3]), changed(2, parts=model.bodies[2].joint.parts[:2])]
    assert len({m.fingerprint for m in (model, *others)}) == 4
    assert record(model.bodies[0].joint) is record(replace(model.bodies[0].joint, name="other"))  # equal parameters, one record


def test_a_locked_composite_is_the_fixed_pose():
    model = tree_of_kinds("revolute", "composite", "revolute")
    q = alg.random_configuration(model, np.random.default_rng(2))
    own = q[model.q_slice(1)]
    held = lock_joints(model, {"j1": (*(2 * own[:4]), *own[4:])})  # the quaternion is scaled
    poses = [dynamics.make_frame(m, "pose", "f2")(x) for m, x in ((model, q), (held, q[[0, -1]]))]
    for x, y in zip(*poses, strict=True):
        np.testing.assert_allclose(number(x), number(y), atol=1e-14)


# ------------------------------------------------------------------------------------------------ peers
def _spread(model):
    """The same robot, composite joints as bodies without mass."""
    b = Builder("spread")
    for body in model.bodies:
        parent = model.bodies[body.parent].name if body.parent >= 0 else "world"
        joints = [replace(p, name=f"{body.joint.name}.{p.name}") for p in body.joint.parts] or [body.joint]
        joints[0] = replace(joints[0], placement=compose(body.joint.placement, joints[0].placement) if body.joint.parts
                            else joints[0].placement)
        for k, joint in enumerate(joints):
            last = k == len(joints) - 1
            name = body.name if last else f"{body.name}.{k}"
            b.body(name, parent=parent, joint=joint, inertia=body.inertia if last else BodyInertia())
            parent = name
    return b.build()


@pytest.mark.row("003:J14")
def test_a_composite_is_its_parts_in_a_row():
    model = tree_of_kinds("revolute", "composite", "composite", damping=False)
    spread = _spread(model)
    rng = np.random.default_rng(4)
    q, (v, a) = alg.random_configuration(model, rng), rng.standard_normal((2, model.nv))
    np.testing.assert_allclose(column(dynamics.make(model, "inverse_dynamics")(q, v, a)),
                               column(dynamics.make(spread, "inverse_dynamics")(q, v, a)), rtol=1e-12)


@pytest.mark.row("003:J14")
def test_composites_are_associative():
    """``(Q1 Q2) Q3 = Q1 (Q2 Q3)``: poses, S, the bias and the closed slices, with a ball and placements between the parts."""
    one, two, three = (replace(example(Joint("j", "revolute"), kind), name=name, placement=Placement(position=(0.1, k, -0.2)))
                       for k, (name, kind) in enumerate((("a", "spherical"), ("b", "universal"), ("c", "spline_curve"))))
    inner = [replace(Joint("x", "composite"), parts=pair) for pair in ((one, two), (replace(two, placement=Placement()), three))]
    left = record(Joint("j", "composite", parts=(inner[0], three)))
    right = record(Joint("j", "composite", parts=(one, replace(inner[1], placement=two.placement))))
    rng = np.random.default_rng(3)
    q, v = left.random(rng, np.full(left.nq, -np.inf), np.full(left.nq, np.inf)), rng.uniform(-1, 1, left.nv)
    for f in (lambda k: k.transform(ca.DM(q)).R, lambda k: k.transform(ca.DM(q)).p, lambda k: k.subspace(ca.DM(q)),
              lambda k: k.bias(ca.DM(q), ca.DM(v)), lambda k: ca.horzcat(*slices(k, ca.DM(q)).first)):
        np.testing.assert_allclose(number(f(left)), number(f(right)), atol=1e-13)
    assert left.nv == 6


ELLIPSOID = (0.3, 0.2, 0.5)


def _pinocchio_joint(kind, axes):
    import pinocchio as pin

    first, second = (np.array(x) for x in axes)
    composite = pin.JointModelComposite()
    composite.addJoint(pin.JointModelSphericalZYX(), pin.SE3.Identity())
    composite.addJoint(pin.JointModelPrismaticUnaligned(first), pin.SE3(np.eye(3), np.array([0.1, -0.2, 0.3])))
    composite.addJoint(pin.JointModelRevoluteUnaligned(second), pin.SE3(np.diag([1.0, -1.0, -1.0]), np.array([0.0, 0.2, 0.1])))
    return {"universal": pin.JointModelUniversal(first, second), "euler": pin.JointModelSphericalZYX(), "composite": composite,
            "translation": pin.JointModelTranslation(), "screw": pin.JointModelHelicalUnaligned(first, 0.2),
            "ellipsoid": pin.JointModelEllipsoid(*ELLIPSOID)}[kind]


@pytest.mark.row("002:H20")
@pytest.mark.parametrize("kind", ["universal", "euler", "composite", "translation", "screw", "ellipsoid"])
def test_against_pinocchio(kind, monkeypatch):
    """Two links, the second on the joint of Pinocchio with the same name; an ellipsoid joint has S(q) and three velocities."""
    import pinocchio as pin
    from joint_examples import _flat
    from pinocchio_twin import build

    from dynamics.joints.one_dof import rotation_about
    from dynamics.spatial import Transform

    def ellipsoid(q):
        R = rotation_about((1, 0, 0), q[0]) @ rotation_about((0, 1, 0), q[1]) @ rotation_about((0, 0, 1), q[2])
        return Transform(R, R[:, 2] * ca.DM(ELLIPSOID))

    monkeypatch.setattr(dynamics.joints, "KINDS", {**ALL, "ellipsoid": _flat("ellipsoid", 3, ellipsoid)})
    axes = ((0.0, 0.6, 0.8), (1.0, 0.0, 0.0))
    flip = Placement(((1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, -1.0)), (0.0, 0.2, 0.1))
    parts = (Joint("turn", "euler", chart="zyx"), Joint("slide", "prismatic", Placement(position=(0.1, -0.2, 0.3)), axes[:1]),
             Joint("last", "revolute", flip, axes[1:]))
    extra = {"universal": {"axes": axes}, "euler": {"chart": "zyx"}, "composite": {"parts": parts}, "screw": {"axes": axes[:1]}}
    model = tree_of_kinds("revolute", "revolute", seed=5, damping=False, branching=0.0)
    alone, own = replace(model, bodies=model.bodies[:1], frames=()), model.bodies[1].joint
    joint = replace(own, **({"kind": kind, "axes": ()} | extra.get(kind, {})))
    model = replace(model, bodies=(model.bodies[0], replace(model.bodies[1], joint=joint)), frames=())
    twin, body = build(alone), model.bodies[1]
    place = pin.SE3(np.array(joint.placement.rotation), np.array(joint.placement.position))
    index = twin.addJoint(1, _pinocchio_joint(kind, axes), place, "j1")
    twin.appendBodyToJoint(index, pin.Inertia(body.inertia.mass, np.array(body.inertia.com), np.array(body.inertia.inertia)),
                           pin.SE3.Identity())
    data, rng = twin.createData(), np.random.default_rng(6)
    q, v, a = rng.uniform(-1, 1, (3, model.nv))
    tau = column(dynamics.make(model, "inverse_dynamics")(q, v, a))
    np.testing.assert_allclose(tau, pin.rnea(twin, data, q, v, a), atol=1e-12)
    M = pin.crba(twin, data, q)
    np.testing.assert_allclose(number(dynamics.make(model, "mass_matrix")(q)), np.triu(M) + np.triu(M, 1).T, atol=1e-12)
    np.testing.assert_allclose(column(dynamics.make(model, "forward_dynamics")(q, v, tau)), pin.aba(twin, data, q, v, tau),
                               atol=1e-10)


# ------------------------------------------------------------------------------------------------ small robots
FUNCTIONS = sorted(dynamics.functions.FUNCTIONS)


@pytest.mark.parametrize("order", ["before", "after"])
def test_one_degree_of_freedom_and_a_kept_fixed_joint(order):
    """Columns of one row must not be read as rows, whatever welded bodies there are."""
    b, inertia = Builder("small"), BodyInertia(1.0, (0.3, 0.0, 0.1), ((0.02, 0.0, 0.0), (0.0, 0.03, 0.0), (0.0, 0.0, 0.04)))
    joints = [Joint("weld", "fixed", Placement(position=(0.0, 0.1, 0.0))), Joint("turn", "revolute", axes=((0.0, 1.0, 0.0),))]
    parent = "world"
    for joint in joints if order == "before" else reversed(joints):
        b.body(joint.name, parent=parent, joint=joint, inertia=inertia)
        parent = joint.name
    b.frame("tip", body=parent, placement=Placement(position=(0.5, 0.0, 0.0)))
    model = b.build()
    for name in FUNCTIONS:
        f = dynamics.make(model, name)
        assert all(np.isfinite(number(x)).all() for x in f.call([0.3] * f.n_in()))
    for name in ("velocity", "jacobian", "drift"):
        f = dynamics.make_frame(model, name, "tip")
        assert np.isfinite(number(f.call([0.3] * f.n_in())[0])).all()
    q, v, a = (ca.DM([x]) for x in (0.3, -0.4, 0.7))
    tau = alg.inverse_dynamics(model, q, v, a)
    assert float(alg.forward_dynamics(model, q, v, tau)) == pytest.approx(0.7)
    J, rate = alg.frame_jacobian(model, q, "tip"), alg.frame_jacobian_rate(model, q, v, "tip", "world_aligned")
    np.testing.assert_allclose(number(rate @ v), number(alg.frame_jacobian_drift(model, q, v, "tip", "world_aligned")), atol=1e-14)
    assert J.shape == (6, 1)
    assert len(alg.frame_hessian(model, q, "tip")) == 1
    carried = float(dynamics.make(model, "mass_matrix")(q))
    expected = (2 if order == "after" else 1) * (1.0 * (0.3**2 + 0.1**2) + 0.03)
    assert carried == pytest.approx(expected)


def test_a_follower_of_any_kind_of_one_degree_of_freedom():
    """A curve that follows a revolute joint is the uncoupled robot projected."""
    model = tree_of_kinds("revolute", "cam", "spherical", "spline_curve", branching=0.0)
    follow = {1: Mimic("j0", 0.7, 0.1), 3: Mimic("j0", -0.4, 0.9)}
    coupled = replace(model, bodies=tuple(replace(b, joint=replace(b.joint, mimic=follow.get(i), armature=(), damping=()))
                                          for i, b in enumerate(model.bodies)))
    free = replace(coupled, bodies=tuple(replace(b, joint=replace(b.joint, mimic=None)) for b in coupled.bodies))
    rng = np.random.default_rng(7)
    q, (v, a) = alg.random_configuration(coupled, rng), rng.standard_normal((2, coupled.nv))
    G = np.zeros((free.nv, coupled.nv))
    G[0, 0], G[1, 0], G[5, 0], G[2:5, 1:] = 1, 0.7, -0.4, np.eye(3)
    x = np.r_[q[0], 0.7 * q[0] + 0.1, q[1:], -0.4 * q[0] + 0.9]
    theirs = G.T @ column(dynamics.make(free, "inverse_dynamics")(x, G @ v, G @ a))
    np.testing.assert_allclose(column(dynamics.make(coupled, "inverse_dynamics")(q, v, a)), theirs, atol=1e-12)
    assert tree.diagonal(coupled, "armature").nnz() == 0


def test_a_kind_of_ones_own_is_served_by_everything(monkeypatch):
    """A helix with the pitch of a chain of a turn and a slide that are geared together: the same robot twice."""
    monkeypatch.undo()
    pitch, axis = 0.3, (0.0, 0.6, 0.8)

    def pose(q):
        return Transform(rotation_about(axis, q), ca.DM(axis) * pitch * q)

    def make(joint):
        return JointKind(name="helix", nq=1, nv=1, q_names=("q",), v_names=("v",), neutral=(0.0,), angular=(True,),
                         random=lambda rng, lower, upper: rng.uniform(-1, 1, 1), **from_pose(pose, 1, 1), **vector_space(1))

    try:
        joints.register(Family("helix", 0, make))
        inertia = BodyInertia(0.7, (0.05, -0.1, 0.15), ((0.03, 0, 0), (0, 0.04, 0), (0, 0, 0.05)))
        helix, geared = Builder("helix"), Builder("geared")
        helix.body("a", parent="world", joint=Joint("a", "helix"), inertia=inertia)
        geared.body("turn", parent="world", joint=Joint("a", "revolute", axes=(axis,)))
        geared.body("a", parent="turn", joint=Joint("slide", "prismatic", axes=(axis,), mimic=Mimic("a", pitch)), inertia=inertia)
        q, v, a = np.random.default_rng(0).standard_normal((3, 2))
        torques = []
        for made_of in (helix, geared):
            made_of.body("b", parent="a", joint=Joint("b", "revolute", Placement(position=(0.1, 0, 0.3)), ((1.0, 0.0, 0.0),)),
                         inertia=inertia)
            model = made_of.build()
            torques += [column(dynamics.make(model, "inverse_dynamics")(q, v, a)), LoopDynamics(model).inverse_dynamics(q, v, a)]
        np.testing.assert_allclose(torques[1:], torques[:1] * 3, rtol=1e-12)
        with pytest.raises(ModelError, match="there is a joint kind 'helix' already"):
            joints.register(Family("helix", 0, make))
        with pytest.raises(ModelError, match="joint kind 'coil': no joint field 'point'; did you mean 'points'"):
            joints.register(Family("coil", 0, make, ("point",)))
    finally:
        joints.KINDS._rows.pop("helix", None)
    assert set(joints.KINDS) == set(ALL) - set(TEST_KINDS)


def test_general_kinds_are_general():
    for kind in GENERAL:
        assert not made(kind).group
        assert not made(kind).steps
        assert made(kind).bias is not None
