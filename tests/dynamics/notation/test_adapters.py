"""Other books' vectors and other libraries' states: against definitions, Pinocchio and MuJoCo on random robots."""

import casadi as ca
import numpy as np
import pytest
import se3_trajectories as ref
from arrays import num
from row_trees import coupled, tree_of
from states import mover

from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.errors import ModelError, UnknownNameError
from dynamics.lie import se3
from dynamics.model import read_urdf
from dynamics.model.synthetic import random_tree
from dynamics.notation import accelerations, adapters, books, libraries
from dynamics.notation.representation import as_pose

DRAKE_KINDS = ["revolute", "continuous", "prismatic", "universal", "planar", "spherical"]
MUJOCO_KINDS = ["revolute", "continuous", "prismatic", "universal", "planar", "spherical"]


def close(a, b, tol=1e-9):
    np.testing.assert_allclose(a, b, atol=tol, rtol=0)


def tree(seed, n=7, **options):
    return random_tree(n, np.random.default_rng(seed), **options)


def state(model, seed):
    rng = np.random.default_rng(seed)
    return (alg.random_configuration(model, rng), rng.standard_normal(model.nv), rng.standard_normal(model.nv),
            rng.standard_normal(model.nv))


# ------------------------------------------------------------------------------------------------ notations
@pytest.mark.row("004:T-180", "004:T-181", "004:T-182", "004:T-185", "004:T-186", "004:T-187", "004:T-188")
@pytest.mark.parametrize("seed", range(3))
def test_velocities_and_accelerations_of_other_notations(seed):
    """Each from its own definition on a random motion, written out in its own component order."""
    H, t = ref.motion(np.random.default_rng(seed)), 0.2
    R, o = H(t)[:3, :3], H(t)[:3, 3]
    rate = ref.derivative(H, t)
    Rdot, odot = rate[:3, :3], rate[:3, 3]
    A_w, B_w = ref.unskew(Rdot @ R.T), ref.unskew(R.T @ Rdot)
    velocities = {
        "featherstone_body": np.r_[B_w, R.T @ odot], "featherstone_ground": np.r_[A_w, odot + np.cross(o, A_w)],
        "siciliano": np.r_[odot, A_w], "spong": np.r_[odot, A_w],
        "murray_spatial": np.r_[-Rdot @ R.T @ o + odot, A_w], "murray_body": np.r_[R.T @ odot, B_w],
        "idyntree_MIXED": np.r_[odot, A_w], "idyntree_BODY_FIXED": np.r_[R.T @ odot, B_w],
        "idyntree_INERTIAL_FIXED": np.r_[odot - np.cross(A_w, o), A_w],
        "drake": np.r_[A_w, odot], "kindr": np.r_[odot, B_w], "redmax": np.r_[B_w, R.T @ odot],
    }
    left, left_dot = ref.left(H, t), ref.derivative(lambda s: ref.left(H, s), t, 1e-2)
    for name, expected in velocities.items():
        close(num(books.twist_as(name, H(t), left)), expected)
        close(num(books.twist_from(name, H(t), expected)), left)
    # Featherstone's dot is absolute: the derivative in A of the ground twist, carried to the frame it is written in
    ground_dot = ref.derivative(lambda s: num(books.twist_as("featherstone_ground", H(s), ref.left(H, s))), t, 1e-2)
    close(num(books.acceleration_as("featherstone_ground", H(t), left, left_dot)), ground_dot, 1e-6)
    carried = num(books.plucker_transform(R.T, o)) @ ground_dot
    close(num(books.acceleration_as("featherstone_body", H(t), left, left_dot)), carried, 1e-6)
    # his ring, the derivative in B, is the same vector when the frame is B itself
    ring = ref.derivative(lambda s: num(books.twist_as("featherstone_body", H(s), ref.left(H, s))), t, 1e-2)
    close(ring, carried, 1e-6)
    for name in ("siciliano", "spong", "drake", "kindr", "murray_spatial", "murray_body", "redmax"):
        expected = ref.derivative(lambda s, n=name: num(books.twist_as(n, H(s), ref.left(H, s))), t, 1e-2)
        a = num(books.acceleration_as(name, H(t), left, left_dot))
        close(a, expected, 1e-6)
        close(num(books.acceleration_from(name, H(t), left, a)), left_dot, 1e-9)
    with pytest.raises(ModelError, match="did you mean 'siciliano'"):
        books.twist_as("sicilano", H(t), left)


@pytest.mark.row("004:T-180", "004:T-183", "004:T-184", "004:T-185")
def test_featherstone_operators():
    """Pluecker transforms and cross products typed as printed in his book, angular first, act as ours do."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        H = ref.motion(rng)(0.3)
        E, r = H[:3, :3].T, H[:3, 3]
        zero = np.zeros((3, 3))
        X = np.block([[E, zero], [-E @ ref.skew(r), E]])
        Xf = np.block([[E, -E @ ref.skew(r)], [zero, E]])
        close(num(books.plucker_transform(E, r)), X)
        close(num(books.plucker_force_transform(E, r)), Xf)
        close(Xf, np.linalg.inv(X).T)
        v, u, f = rng.standard_normal((3, 6))  # linear first
        P = np.block([[zero, np.eye(3)], [np.eye(3), zero]])
        close(num(spatial.exchange(ca.DM(v))), P @ v)
        close(X @ P @ v, P @ num(spatial.motion_to_child(as_pose(H), ca.DM(v))))
        close(Xf @ P @ f, P @ num(spatial.force_to_child(as_pose(H), ca.DM(f))))
        crm = np.block([[ref.skew(v[3:]), zero], [ref.skew(v[:3]), ref.skew(v[3:])]])
        crf = np.block([[ref.skew(v[3:]), ref.skew(v[:3])], [zero, ref.skew(v[3:])]])
        close(crm @ P @ u, P @ num(spatial.cross_motion(ca.DM(v), ca.DM(u))))
        close(crf @ P @ f, P @ num(spatial.cross_force(ca.DM(v), ca.DM(f))))
        close(num(spatial.exchange_operator(spatial.cross_motion_matrix(ca.DM(v)))), crm)
        close(num(spatial.exchange_operator(spatial.cross_force_matrix(ca.DM(v)))), crf)
        M = np.diag([2.0, 2, 2, 0.3, 0.4, 0.5]) + 0.1
        close(num(spatial.exchange_operator(ca.DM(M))), P @ M @ P)


@pytest.mark.row("004:T-180")
@pytest.mark.parametrize("name", books.NOTATIONS)
def test_wrenches_of_other_notations_keep_the_power(name):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        H, f, v = ref.motion(rng)(0.1), *rng.standard_normal((2, 6))
        theirs = num(books.wrench_as(name, H, f))
        assert theirs @ num(books.twist_as(name, H, v)) == pytest.approx(f @ v)
        close(num(books.wrench_from(name, H, theirs)), f)
        record = books.notation(name)
        force = theirs[3:] if record.angular_first else theirs[:3]
        axes = np.eye(3) if record.representation == "left" else H[:3, :3]
        close(force, axes @ f[:3])


# ------------------------------------------------------------------------------------------------ Pinocchio
def pinocchio_twin_with_everything(model, order):
    """Joint by joint in the given order; continuous joints unbounded (cos, sin), universal joints included."""
    import pinocchio as pin

    twin, ids = pin.Model(), {-1: 0}
    twin.gravity = pin.Motion(np.array(model.gravity), np.zeros(3))
    for i in order:
        body, joint = model.bodies[i], model.bodies[i].joint
        axes = [np.array(a) for a in joint.axes]
        record = {
            "revolute": lambda: pin.JointModelRevoluteUnaligned(axes[0]), "planar": pin.JointModelPlanar,  # noqa: B023
            "continuous": pin.JointModelRUBZ,
            "prismatic": lambda: pin.JointModelPrismaticUnaligned(axes[0]), "spherical": pin.JointModelSpherical,  # noqa: B023
            "universal": lambda: pin.JointModelUniversal(*axes), "free_flyer": pin.JointModelFreeFlyer,  # noqa: B023
        }[joint.kind]()
        placement = pin.SE3(np.array(joint.placement.rotation), np.array(joint.placement.position))
        ids[i] = twin.addJoint(ids[body.parent], record, placement, joint.name)
        inertia = pin.Inertia(body.inertia.mass, np.array(body.inertia.com), np.array(body.inertia.inertia))
        twin.appendBodyToJoint(ids[i], inertia, pin.SE3.Identity())
    return twin, ids


def with_axes_that_pinocchio_has(model):
    """Universal axes perpendicular, unbounded joints about z: all that its Python joints offer."""
    from dataclasses import replace

    axes = {"universal": ((1.0, 0.0, 0.0), (0.0, 0.6, 0.8)), "continuous": ((0.0, 0.0, 1.0),)}
    bodies = [replace(b, joint=replace(b.joint, axes=axes.get(b.joint.kind, b.joint.axes))) for b in model.bodies]
    return replace(model, bodies=tuple(bodies))


@pytest.mark.parametrize("seed", range(6))
def test_pinocchio_states_on_random_trees(seed):
    """Not depth first in our order, and re-ordered: poses, inverse dynamics and forces agree, and nothing is lost."""
    pin = pytest.importorskip("pinocchio")
    kinds = ["revolute", "continuous", "prismatic", "spherical", "planar", "universal", "free_flyer"]
    model = with_axes_that_pinocchio_has(
        tree(seed, 9, kinds=kinds, branching=0.7, armature=False, root="free_flyer" if seed % 2 else None))
    q, v, a, _ = state(model, seed)
    order = adapters.joint_order(model, "pinocchio")
    twin, ids = pinocchio_twin_with_everything(model, order)
    tau = num(alg.inverse_dynamics(model, q, v, a))
    x = adapters.to_pinocchio(model, q=q, v=v, a=a, tau=tau)
    assert adapters.sizes(model, "pinocchio") == (twin.nq, twin.nv)
    data = twin.createData()
    close(pin.rnea(twin, data, x.q, x.v, x.a), x.tau, 1e-9 * (1 + np.abs(tau).max()))
    pin.forwardKinematics(twin, data, x.q)
    for i, pose in enumerate(alg.body_poses(model, q)):
        close(data.oMi[ids[i]].translation, num(pose.p))
        close(data.oMi[ids[i]].rotation, num(pose.R))
    back = adapters.from_pinocchio(model, q=x.q, v=x.v, a=x.a, tau=x.tau, near_to=q)
    for mine, again in zip((q, v, a, tau), back, strict=True):
        close(again, mine, 1e-13)
    # the other way round: a random state of theirs survives, to the bit but for cosines and sines
    theirs = pin.randomConfiguration(twin, -np.ones(twin.nq), np.ones(twin.nq))
    close(adapters.to_pinocchio(model, q=adapters.from_pinocchio(model, q=theirs).q).q, theirs, 1e-15)


def test_pinocchio_order_of_its_urdf_reader():
    pin = pytest.importorskip("pinocchio")
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    links = "".join(f'<link name="{n}">{inertial}</link>' for n in ("base", "l3", "l1", "l2", "l0"))

    def joint(name, parent, child, kind):
        return (f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/><origin xyz="0.1 0.2 0.3" '
                'rpy="0.4 0.5 0.6"/><axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>')

    joints = (joint("j3", "base", "l3", "continuous"), joint("j1", "base", "l1", "revolute"), joint("j2", "l1", "l2", "continuous"),
              joint("j0", "l3", "l0", "prismatic"))
    text = f'<robot name="r">{links}{"".join(joints)}</robot>'
    twin = pin.buildModelFromXML(text, pin.JointModelFreeFlyer())
    model = read_urdf(text, root="free_flyer")
    assert [b.joint.name for b in model.bodies][1:] == ["j3", "j0", "j1", "j2"]  # the file's order
    names = [model.bodies[i].joint.name for i in adapters.joint_order(model, "pinocchio")]
    assert names[1:] == list(twin.names)[2:] == ["j1", "j2", "j3", "j0"]
    q, v, a, _ = state(model, 0)
    x = adapters.to_pinocchio(model, q=q, v=v, a=a)
    explicit = adapters.to_pinocchio(model, q=q, order=[names[0], *list(twin.names)[2:]])
    close(explicit.q, x.q, 0)
    close(pin.rnea(twin, twin.createData(), x.q, x.v, x.a),
          adapters.to_pinocchio(model, q=q, tau=num(alg.inverse_dynamics(model, q, v, a))).tau)
    with pytest.raises(UnknownNameError, match="did you mean 'j1'"):
        adapters.to_pinocchio(model, q=q, order=["j1x"])
    with pytest.raises(ModelError, match="missing \\['j0', 'j1'\\]"):
        adapters.to_pinocchio(model, q=q, order=[names[0], "j3", "j2"])


def test_turns_that_a_cosine_forgets_come_back_with_a_reference():
    model = tree_of("continuous", "planar")
    q = np.array([7.5, 0.3, -0.2, -11.0])
    x = adapters.to_pinocchio(model, q=q).q
    close(x, [np.cos(7.5), np.sin(7.5), 0.3, -0.2, np.cos(11.0), -np.sin(11.0)], 1e-15)
    close(adapters.from_pinocchio(model, q=x, near_to=q).q, q, 1e-13)
    close(adapters.from_pinocchio(model, q=x).q, [7.5 - 2 * np.pi, 0.3, -0.2, -11.0 + 4 * np.pi], 1e-13)
    bounded = adapters.to_pinocchio(model, q=q, bounded=True).q
    close(bounded[:1], [7.5], 0)
    assert adapters.sizes(model, "pinocchio", bounded=True) == (5, 4)


@pytest.mark.row("004:T-188")
def test_pinocchio_frame_velocities_by_name():
    pin = pytest.importorskip("pinocchio")
    import pinocchio_twin

    model = tree(3, kinds=["revolute", "spherical"], root="free_flyer", depth_first=True)
    q, v, a, _ = state(model, 1)
    twin = pinocchio_twin.build(model)
    data = twin.createData()
    pin.forwardKinematics(twin, data, pinocchio_twin.configuration(model, q), v, a)
    pin.updateFramePlacements(twin, data)
    H = alg.frame_pose(model, q, "f4")
    left, left_dot = alg.frame_velocity(model, q, v, "f4"), accelerations.frame_acceleration(model, q, v, a, "f4")
    for name in ("LOCAL", "WORLD", "LOCAL_WORLD_ALIGNED"):
        at = twin.getFrameId("f4"), getattr(pin, name)
        close(num(books.twist_as(f"pinocchio_{name}", H, left)), pin.getFrameVelocity(twin, data, *at).vector)
        close(num(books.acceleration_as(f"pinocchio_{name}", H, left, left_dot)),
              pin.getFrameAcceleration(twin, data, *at).vector)


# ------------------------------------------------------------------------------------------------ MuJoCo
@pytest.mark.row("000:K-161", "000:K-162", "000:K-163")
@pytest.mark.parametrize("seed", range(6))
def test_mujoco_states_on_random_trees(seed):
    mujoco = pytest.importorskip("mujoco")
    import mujoco_twin

    model = tree(seed, 8, kinds=MUJOCO_KINDS, branching=0.7, armature=False, root="free_flyer" if seed % 2 == 0 else None)
    m = mujoco.MjModel.from_xml_string(mujoco_twin.mjcf(model))
    q, v, a, _ = state(model, seed)
    tau = num(alg.inverse_dynamics(model, q, v, a))
    x = adapters.to_mujoco(model, q=q, v=v, a=a, tau=tau)
    assert adapters.sizes(model, "mujoco") == (m.nq, m.nv)
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:], data.qacc[:] = x.q, x.v, x.a
    mujoco.mj_inverse(m, data)
    close(data.qfrc_inverse, x.tau, 1e-8 * (1 + np.abs(tau).max()))
    for i, pose in enumerate(alg.body_poses(model, q)):
        at = mujoco.mj_name2id(m, mujoco.mjtObj.mjOBJ_BODY, model.bodies[i].name)
        close(data.xpos[at], num(pose.p))
        close(data.xmat[at].reshape(3, 3), num(pose.R))
        twist = np.zeros(6)
        for local, name in ((0, "mujoco_object"), (1, "mujoco_object_local")):
            mujoco.mj_objectVelocity(m, data, mujoco.mjtObj.mjOBJ_XBODY, at, twist, local)
            close(num(books.twist_as(name, pose, alg.body_velocities(model, q, v)[i])), twist)
    back = adapters.from_mujoco(model, q=x.q, v=x.v, a=x.a, tau=x.tau)
    for mine, again in zip((q, v, a, tau), back, strict=True):
        close(again, mine, 1e-12 * (1 + np.abs(mine).max()))
    if seed % 2 == 0:  # dropping omega x v is an error that the comparison sees
        vs = model.v_slice(0)
        naive = x.a.copy()
        naive[:3] = num(alg.body_poses(model, q)[0].R) @ a[vs][:3]
        assert np.abs(naive - x.a).max() > 1e-2


def test_mujoco_applied_wrench():
    mujoco = pytest.importorskip("mujoco")
    import mujoco_twin

    model = tree(2, 5, kinds=["revolute", "spherical"], armature=False, root="free_flyer")
    m = mujoco.MjModel.from_xml_string(mujoco_twin.mjcf(model))
    q, v, _, tau = state(model, 3)
    f = np.random.default_rng(4).standard_normal(6)
    data, x = mujoco.MjData(m), adapters.to_mujoco(model, q=q, v=v, tau=tau)
    data.qpos[:], data.qvel[:], data.qfrc_applied[:] = x.q, x.v, x.tau
    at = mujoco.mj_name2id(m, mujoco.mjtObj.mjOBJ_BODY, "b3")
    body = model.bodies[3]
    data.xfrc_applied[at] = num(adapters.to_mujoco_wrench(alg.body_poses(model, q)[3], f, np.array(body.inertia.com)))
    mujoco.mj_forward(m, data)
    a = num(alg.forward_dynamics(model, q, v, tau, {"b3": f}))
    close(adapters.from_mujoco(model, q=x.q, v=x.v, a=np.array(data.qacc)).a, a, 1e-7 * (1 + np.abs(a).max()))


def test_mujoco_coupled_joints_have_coordinates_of_their_own():
    model = coupled()
    q, v, a, tau = state(model, 5)
    x = adapters.to_mujoco(model, q=q, v=v, a=a, tau=tau)
    followers = [b.joint for b in model.bodies if b.joint.mimic]
    assert len(x.v) == model.nv + len(followers)
    names = [model.bodies[i].joint.name for i in adapters.joint_order(model, "mujoco")]
    width = {b.joint.name: model.kind(i).nq for i, b in enumerate(model.bodies)}
    place = dict(zip(names, np.cumsum([0] + [width[n] for n in names]), strict=False))
    for joint in followers:
        leader = q[model.q_slice(model.joint_index(joint.mimic.leader))][0]
        assert x.q[place[joint.name]] == pytest.approx(joint.mimic.multiplier * leader + joint.mimic.offset)
    assert x.tau @ x.v == pytest.approx(tau @ v)
    back = adapters.from_mujoco(model, q=x.q, v=x.v, a=x.a, tau=x.tau)
    for mine, again in zip((q, v, a, tau), back, strict=True):
        close(again, mine, 1e-12)
    # forces on followers reach the leader: same power
    rng = np.random.default_rng(0)
    theirs = rng.standard_normal(len(x.v))
    assert adapters.from_mujoco(model, q=x.q, tau=theirs).tau @ v == pytest.approx(theirs @ x.v)
    x.q[place[followers[0].name]] += 0.1
    with pytest.raises(ModelError, match="contradicts joint 'drive'"):
        adapters.from_mujoco(model, q=x.q)


# ------------------------------------------------------------------------------------------------ Drake, kindr
def drake_by_hand(model, q, v, a):
    """(q, v, a) as Drake documents them, v and a from the differentiated poses of each joint's frames."""
    step = mover(model)
    Q = ca.SX.sym("q", model.nq)
    values = [[], [], []]

    def child_in_parent(i):  # from the fixed frame on the parent (the world, at the root of a floating base) to the child
        body = model.bodies[i]
        poses = alg.body_poses(model, Q)
        H = poses[i] if body.parent < 0 else spatial.compose(spatial.inverse(poses[body.parent]), poses[i])
        if not (body.joint.kind == "free_flyer" and body.parent < 0):
            rotation, position = ca.DM(np.array(body.joint.placement.rotation)), ca.DM(body.joint.placement.position)
            H = spatial.compose(spatial.inverse(spatial.Transform(rotation, position)), H)
        f = ca.Function("H", [Q], [se3.to_matrix(se3.Pose(H.R, H.p))])
        return lambda s: num(f(step(q, s * v + s * s / 2 * a)))

    def depth_first(i=-1):
        return ([i] if i >= 0 else []) + [k for j in model.children(i) for k in depth_first(j)]

    from scipy.spatial.transform import Rotation

    for i in depth_first():
        kind, H = model.bodies[i].joint.kind, child_in_parent(i)
        now = H(0.0)
        mine = model.q_slice(i), model.v_slice(i)
        if kind == "free_flyer":
            quat = Rotation.from_matrix(now[:3, :3]).as_quat()[[3, 0, 1, 2]]
            w = lambda s: np.r_[ref.mixed(H, s)[3:], ref.mixed(H, s)[:3]]  # noqa: B023, E731
            new = np.r_[quat, now[:3, 3]], w(0.0), ref.derivative(w, 0.0, 1e-2)
        elif kind == "spherical":
            rpy = Rotation.from_matrix(now[:3, :3]).as_euler("xyz")  # fixed axes x, y, z
            w = lambda s: ref.mixed(H, s)[3:]  # noqa: B023, E731
            new = rpy, w(0.0), ref.derivative(w, 0.0, 1e-2)
        elif kind == "planar":
            w = lambda s: ref.mixed(H, s)[[0, 1, 5]]  # noqa: B023, E731
            new = q[mine[0]], w(0.0), ref.derivative(w, 0.0, 1e-2)
        else:
            new = q[mine[0]], v[mine[1]], a[mine[1]]
        for out, part in zip(values, new, strict=True):
            out.append(part)
    return [np.concatenate(x) for x in values]


def same_up_to_quaternion_sign(ours, theirs):
    """Which of q and -q is stored is arbitrary: compare the first four components up to sign."""
    ours, theirs = ours.copy(), theirs.copy()
    sign = np.sign(ours[:4] @ theirs[:4])
    theirs[:4] *= sign
    return ours, theirs


@pytest.mark.parametrize("seed", range(4))
def test_drake_states_by_its_documented_convention(seed):
    model = tree(seed, 7, kinds=DRAKE_KINDS, branching=0.6, root="free_flyer")
    q, v, a, tau = state(model, seed)
    x = adapters.to_drake(model, q=q, v=v, a=a, tau=tau)
    expected = drake_by_hand(model, q, v, a)
    close(*same_up_to_quaternion_sign(x.q, expected[0]))
    close(x.v, expected[1], 1e-8)
    close(x.a, expected[2], 1e-5)
    assert x.tau @ x.v == pytest.approx(tau @ v)
    back = adapters.from_drake(model, q=x.q, v=x.v, a=x.a, tau=x.tau)
    for mine, again in zip((v, a, tau), back[1:], strict=True):
        close(again, mine, 1e-12)
    difference = num(alg.difference(model, q, back.q))
    close(difference, np.zeros(model.nv), 1e-12)


@pytest.mark.row("000:K-161", "000:K-162", "000:K-163")
def test_kindr_states():
    model = tree(1, 6, kinds=DRAKE_KINDS, root="free_flyer")
    q, v, a, tau = state(model, 1)
    x = adapters.to_kindr(model, q=q, v=v, a=a, tau=tau)
    Q, step = ca.SX.sym("q", model.nq), mover(model)
    pose = alg.body_poses(model, Q)[0]
    f = ca.Function("H", [Q], [se3.to_matrix(se3.Pose(pose.R, pose.p))])
    H = lambda s: num(f(step(q, s * v + s * s / 2 * a)))  # noqa: E731
    close(x.q[:3], H(0)[:3, 3])
    w, i, j, k = x.q[3:7]
    close(np.array([[1 - 2 * (j * j + k * k), 2 * (i * j - w * k), 2 * (i * k + w * j)],
                    [2 * (i * j + w * k), 1 - 2 * (i * i + k * k), 2 * (j * k - w * i)],
                    [2 * (i * k - w * j), 2 * (j * k + w * i), 1 - 2 * (i * i + j * j)]]), H(0)[:3, :3])
    close(x.v[:6], ref.kindr(H, 0.0), 1e-8)
    close(x.a[:6], ref.derivative(lambda s: ref.kindr(H, s), 0.0, 1e-2), 1e-6)
    close(x.v[6:], v[6:])
    assert x.tau @ x.v == pytest.approx(tau @ v)
    back = adapters.from_kindr(model, q=x.q, v=x.v, a=x.a, tau=x.tau)
    for mine, again in zip((q, v, a, tau), back, strict=True):
        close(again, mine, 1e-12)


# ------------------------------------------------------------------------------------------------ any library
@pytest.mark.parametrize("library", libraries.LIBRARIES)
def test_symbols_go_through_as_numbers_do(library):
    model = tree(4, 6, kinds=DRAKE_KINDS, root="free_flyer")
    q, v, a, tau = state(model, 2)
    expected = adapters.to_library(model, library, q=q, v=v, a=a, tau=tau)
    assert all(isinstance(x, np.ndarray) for x in expected)
    for kind in (ca.SX, ca.MX):
        symbols = [kind.sym(n, size) for n, size in (("q", model.nq), ("v", model.nv), ("a", model.nv), ("tau", model.nv))]
        there = adapters.to_library(model, library, **dict(zip(("q", "v", "a", "tau"), symbols, strict=True)))
        f = ca.Function("there", symbols, list(there))
        for got, one in zip(f(q, v, a, tau), expected, strict=True):
            close(num(got), one, 1e-13)


def test_missing_or_malformed_inputs_are_reported():
    model = tree(5, 4, root="free_flyer")
    q, v, a, _ = state(model, 0)
    with pytest.raises(ModelError, match="q is needed"):
        adapters.to_mujoco(model, v=v)
    with pytest.raises(ModelError, match="v is needed"):
        adapters.to_mujoco(model, q=q, a=a)
    with pytest.raises(ModelError, match="expected"):
        adapters.to_mujoco(model, q=q[:-1])
    with pytest.raises(ModelError, match="q in mujoco has shape"):
        adapters.from_mujoco(model, q=q[:-1])
    with pytest.raises(ModelError, match="did you mean 'mujoco'"):
        adapters.to_library(model, "mujocco", q=q)
    close(adapters.to_pinocchio(model, v=v).v, adapters.to_pinocchio(model, q=q, v=v).v)  # velocities are ours: no q needed
    inner = tree_of("revolute", "free_flyer")
    with pytest.raises(ModelError, match="free joints at the world only"):
        adapters.to_mujoco(inner, q=np.r_[0.1, 0, 0, 0, 1, 0, 0, 0])
