"""Actuators, springs, tendons and flags of MJCF: the acceleration of the mechanism against MuJoCo's own."""

from types import SimpleNamespace

import casadi as ca
import numpy as np
import pytest

from dynamics import algorithms as alg
from dynamics.algorithms import tree
from dynamics.mechanism.mjcf import read_mjcf_mechanism
from dynamics.model.mjcf import _disable, read_mjcf

mujoco = pytest.importorskip("mujoco")

GEOM = '<geom type="box" size="0.1 0.2 0.3" pos="0.05 -0.1 0.2" euler="20 30 40" mass="1.5" contype="0" conaffinity="0"/>'
ARM = f"""<mujoco><compiler autolimits="true"/><option>{{flags}}</option><worldbody>
  <body name="a" pos="0.1 0.2 1" euler="10 20 30" gravcomp="0.5">{GEOM}
    <joint name="shoulder" axis="1 2 2" pos="0.3 -0.1 0.2" armature="0.2" damping="0.3" stiffness="3" springref="20" ref="5"/>
    <site name="root" pos="0.1 0 0.3"/>
    <body name="b" pos="0.4 0 0" euler="0 0 15">{GEOM}
      <joint name="slide" type="slide" axis="0 1 1" stiffness="20" springref="0.2" ref="0.1" actuatorfrcrange="-4 4"/>
      <joint name="turn" axis="0 0 1"/>
      <site name="mid" pos="0.2 0.1 0"/>
      <body name="c" pos="0 0.3 0">{GEOM}
        <joint name="ball" type="ball" pos="0.05 0.1 -0.2" stiffness="2" damping="0.1"/>
        <site name="tip" pos="0 0.1 0.4" euler="0 30 0"/>
        <body name="d" pos="0 0.3 0.1" gravcomp="1">{GEOM}<joint name="wrist" axis="1 0 0"/></body>
      </body>
    </body>
  </body>
</worldbody>
<tendon>
  <fixed name="pair" stiffness="4" damping="0.5" springlength="0.1">
    <joint joint="turn" coef="2"/><joint joint="wrist" coef="-0.5"/></fixed>
  <spatial name="band" stiffness="30" damping="2" springlength="0.4">
    <site site="root"/><site site="mid"/><site site="tip"/></spatial>
  <spatial name="rope" stiffness="50" springlength="0 0.3"><site site="root"/><site site="tip"/></spatial>
  <fixed name="both"><joint joint="shoulder" coef="1.5"/><joint joint="wrist" coef="0.7"/></fixed>
</tendon>
<actuator>
  <motor name="m1" joint="shoulder" gear="30" ctrlrange="-1 2"/>
  <general name="m2" joint="slide" gear="0.5" gainprm="4" ctrlrange="-1 1"/>
  <motor name="m3" joint="ball" gear="1 0 2 0 0 0" forcerange="-3 3"/>
  <motor name="m4" tendon="both" gear="2"/>
  <motor name="jet" site="tip" gear="0 0 2 0 0.1 0.4" ctrlrange="0 5"/>
</actuator></mujoco>"""
RANGES = {"m1": (-1, 2), "m2": (-4, 4), "m3": (-3, 3), "m4": (-np.inf, np.inf), "jet": (0, 10)}


def both(text, seed, sign=1.0):
    """(our acceleration, MuJoCo's) in a random state under random controls within their limits; limits of joints are off."""
    rng = np.random.default_rng(seed)
    m, mechanism = mujoco.MjModel.from_xml_string(text), read_mjcf_mechanism(text)
    d = mujoco.MjData(m)
    d.qpos[:] = rng.uniform(-1.2, 1.2, m.nq)
    mujoco.mj_normalizeQuat(m, d.qpos)
    d.qvel[:] = rng.standard_normal(m.nv)
    u = sign * rng.uniform(0.1, 0.9, m.nu)
    d.ctrl[:] = u / np.where(np.arange(m.nu) == [mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_ACTUATOR, i) for i in range(m.nu)].index(
        "m2") if m.nu > 1 else False, 4.0, 1.0)
    mujoco.mj_forward(m, d)
    scale = np.ones(mechanism.nu)
    if "jet" in mechanism.controls:
        scale[mechanism.controls.index("jet")] = 2.0  # its gear: ours is the thrust itself
    return np.array(mechanism.forward_dynamics(d.qpos.copy(), d.qvel.copy(), u * scale)).ravel(), d.qacc.copy(), mechanism


FLAGS = ("", '<flag gravity="disable"/>', '<flag spring="disable" damper="disable"/>', '<flag gravity="disable" spring="disable"/>')


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("flags", FLAGS)
def test_acceleration_is_that_of_mujoco(flags, seed):
    # joints at rest lengths of the rope on either side: both branches of the cable are met over the seeds
    ours, theirs, _ = both(ARM.format(flags=flags), seed, 0.9)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_limits_and_names_of_controls():
    mechanism = read_mjcf_mechanism(ARM.format(flags=""))
    assert dict(zip(mechanism.controls, map(tuple, mechanism.control_limits.tolist()), strict=True)) == RANGES
    # the slide's own limit of 4 N leaves room for 8 N before a gear of one half, so the control's range is the tighter one
    assert mechanism.driven == ("shoulder", "slide", "ball.wx", "ball.wz", "wrist")


def test_an_acrobot_has_one_motor_at_its_elbow():
    text = f"""<mujoco><compiler autolimits="true"/><worldbody><body>{GEOM}<joint name="shoulder" axis="0 1 0"/>
      <body pos="0 0 1">{GEOM}<joint name="elbow" axis="0 1 0" actuatorfrcrange="-30 30"/></body></body></worldbody>
      <actuator><motor name="elbow" joint="elbow" gear="20" ctrlrange="-2 2"/></actuator></mujoco>"""
    mechanism = read_mjcf_mechanism(text)
    assert mechanism.controls == ("elbow",)
    np.testing.assert_array_equal(np.array(mechanism.selection), [[0], [20]])
    # 30 N m at the joint allow 1.5 before the gear of 20, less than the control's own range of 2
    assert mechanism.control_limits.tolist() == [[-1.5, 1.5]]


def test_disabled_limits_and_actuators():
    text = f"""<mujoco><compiler autolimits="true"/><option>{{}}</option><worldbody><body>{GEOM}
      <joint name="elbow" axis="0 1 0" range="-90 90"/></body></worldbody>
      <actuator><motor name="elbow" joint="elbow" ctrlrange="-2 2"/></actuator></mujoco>"""
    on = read_mjcf_mechanism(text.format(""))
    off = read_mjcf_mechanism(text.format('<flag limit="disable" actuation="disable"/>'))
    assert np.isfinite(on.model.limit("upper")).all()
    assert np.isinf(off.model.limit("upper")).all()
    assert on.nu == 1
    assert off.nu == 0
    assert any("disable its actuators" in note for note in off.model.notes)
    unclamped = read_mjcf_mechanism(text.format('<flag clampctrl="disable"/>'))
    assert unclamped.control_limits.tolist() == [[-np.inf, np.inf]]


def test_what_is_not_carried_is_named():
    text = f"""<mujoco><worldbody><body><freejoint name="root"/>{GEOM}<site name="s"/>
      <body pos="0 0 1">{GEOM}<joint name="elbow" axis="0 1 0"/><site name="t"/></body></body></worldbody>
      <tendon><spatial name="line" limited="true" range="0 1"><site site="s"/><site site="t"/></spatial></tendon>
      <actuator><position name="servo" joint="elbow" kp="3" forcerange="-5 5"/><motor name="pull" tendon="line"/>
      <general name="lag" joint="elbow" dyntype="filter" dynprm="0.1"/></actuator></mujoco>"""
    mechanism = read_mjcf_mechanism(text)
    notes = "\n".join(mechanism.model.notes)
    for words in ("'servo': its gain and bias", "'pull' is not imported", "'lag': its activation", "tendon 'line': its limit"):
        assert words in notes
    assert mechanism.controls == ("servo", "lag")
    assert mechanism.control_limits[0].tolist() == [-5, 5]
    tree = "\n".join(read_mjcf(text).notes)
    assert "3 actuators are not imported by a tree" in tree


TWO = f"""<mujoco><compiler autolimits="true"/><option>{{option}}</option><worldbody><body>{GEOM}
  <joint name="one" axis="0 1 0" {{one}}/><body pos="0 0 1">{GEOM}<joint name="two" axis="0 1 0" {{two}}/></body></body></worldbody>
  {{rest}}</mujoco>"""


def two(option="", one="", two="", rest=""):
    return TWO.format(option=option, one=one, two=two, rest=rest)


PAIR = '<tendon><fixed name="pair" {}><joint joint="one" coef="2"/><joint joint="two" coef="-0.5"/></fixed></tendon>'


@pytest.mark.parametrize(("text", "words"), [
    (two(one='frictionloss="0.5"'), "dry friction of 'one' is ignored"),
    (two(one='stiffness="1 2"'), "joint 'one': its nonlinear spring"),
    (two(rest=PAIR.format('stiffness="2 3"')), "tendon 'pair': its nonlinear spring"),
    (two(rest=PAIR.format('damping="2 3"')), "tendon 'pair': its nonlinear damper"),
    (two('<flag frictionloss="disable"/>', one='frictionloss="0.5"'), ""),
    (two(one='stiffness="1" damping="2"', rest=PAIR.format('stiffness="2" damping="3"')), "")])
def test_what_changes_the_acceleration_is_carried_or_named(text, words):
    """Each of these makes MuJoCo's acceleration another one than that of the mechanism, and is named; without, they agree."""
    ours, theirs, mechanism = both(text, 0)
    assert np.allclose(ours, theirs, rtol=1e-9, atol=1e-9) == (not words)
    assert any(words in note for note in mechanism.model.notes) if words else mechanism.model.notes == ()


@pytest.mark.parametrize(("one", "follower", "tendon", "motor", "ends"), [
    ('actuatorfrcrange="-3 6"', "", "", 'joint="one" gear="-3"', (-2, 1)),
    ("", 'actuatorfrcrange="-3 3"', "", 'joint="two" gear="4"', (-0.75, 0.75)),
    ("", "", 'actuatorfrcrange="-1 2"', 'tendon="pair" gear="5"', (-1, 2))],
    ids=["lopsided", "follower", "tendon"])
def test_ranges_of_what_transmits_limit_its_only_actuator(one, follower, tendon, motor, ends):
    """Beyond these ends MuJoCo's force no longer grows, at them ours is the same."""
    coupled = '<equality><joint joint1="two" joint2="one" polycoef="0 2 0 0 0"/></equality>' if follower else ""
    text = two(one=one, two=follower, rest=f'{PAIR.format(tendon)}{coupled}<actuator><motor name="m" {motor}/></actuator>')
    mechanism, m = read_mjcf_mechanism(text), mujoco.MjModel.from_xml_string(text)
    assert mechanism.control_limits[0] == pytest.approx(ends)
    d, ratio = mujoco.MjData(m), np.array([[1.0], [2.0]]) if follower else np.eye(2)
    for u, end in ((ends[0], ends[0]), (ends[1], ends[1]), (10 * ends[0], ends[0]), (10 * ends[1], ends[1])):
        d.ctrl[:] = u
        mujoco.mj_forward(m, d)
        assert np.array(mechanism.selection).ravel() * end == pytest.approx(ratio.T @ d.qfrc_actuator, rel=1e-12)


def test_a_range_that_several_actuators_share_is_named():
    drives = '<actuator><motor name="m" tendon="pair"/><motor name="n" tendon="pair"/></actuator>'
    mechanism = read_mjcf_mechanism(two(rest=PAIR.format('actuatorfrcrange="-1 2"') + drives))
    assert not np.isfinite(mechanism.control_limits).any()
    assert sum("shares with others is not imported" in note for note in mechanism.model.notes) == 2


def test_actuators_of_disabled_groups_are_left_out_by_name():
    drives = '<actuator><motor name="m" joint="one" group="3"/><motor name="n" joint="two" group="1"/></actuator>'
    text = two(rest=drives).replace("<option>", '<option actuatorgroupdisable="3 7">')
    m, mechanism = mujoco.MjModel.from_xml_string(text), read_mjcf_mechanism(text)
    d = mujoco.MjData(m)
    d.ctrl[:] = 2.0, 3.0
    mujoco.mj_forward(m, d)
    assert mechanism.controls == ("n",)
    assert d.qfrc_actuator == pytest.approx(np.array(mechanism.selection).ravel() * 3.0)
    assert any("'m' is not imported: the file disables its group 3" in note for note in mechanism.model.notes)


@pytest.mark.parametrize(("motor", "more"), [('joint="shoulder" gear="-30" armature="0.01"', {0: 9.0}),
                                             ('joint="ball" gear="2 0 -1" armature="0.3"', dict.fromkeys((3, 4, 5), 1.2))])
def test_rotors_add_to_the_armature_that_a_joint_has(motor, more):
    text = ARM.format(flags="").replace('joint="shoulder" gear="30" ctrlrange="-1 2"', motor)
    ours, theirs, mechanism = both(text, 0, 0.9)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    plain = read_mjcf_mechanism(ARM.format(flags="")).model
    gained = np.array(tree.diagonal(mechanism.model, "armature") - tree.diagonal(plain, "armature")).ravel()
    np.testing.assert_allclose(gained, [more.get(i, 0.0) for i in range(7)], atol=1e-14)


def test_flags_of_older_versions():
    """MuJoCo before 3.3.6 has one flag for all passive forces."""
    bits = {name: int(bit) for name, bit in vars(mujoco.mjtDisableBit).items() if name.startswith("mjDSBL_")
            and name not in ("mjDSBL_SPRING", "mjDSBL_DAMPER", "mjDSBL_PASSIVE")}
    older, text = SimpleNamespace(**bits, mjDSBL_PASSIVE=1 << 29), ARM.format(flags="")
    kept, gone = (mujoco.MjModel.from_xml_string(text) for _ in range(2))
    gone.opt.disableflags = 1 << 29
    for m in (kept, gone):
        _disable(m, older)
    for array in ("jnt_stiffness", "tendon_stiffness", "dof_damping", "tendon_damping", "body_gravcomp"):
        assert np.any(getattr(kept, array))
        assert not np.any(getattr(gone, array))
    assert np.any(gone.opt.gravity)


def test_springs_of_coupled_joints_act_on_their_leader():
    text = f"""<mujoco><worldbody><body>{GEOM}<joint name="one" axis="0 1 0" stiffness="2"/>
      <body pos="0 0 1">{GEOM}<joint name="two" axis="0 1 0" stiffness="5" springref="30"/></body></body></worldbody>
      <equality><joint joint1="two" joint2="one" polycoef="0.3 -2 0 0 0"/></equality></mujoco>"""
    mechanism = read_mjcf_mechanism(text)
    q = 0.7
    follower = -2 * q + 0.3
    expected = -2 * q - 2 * (-5 * (follower - np.pi / 6))
    assert float(mechanism.force(np.array([q]), np.zeros(1))) == pytest.approx(expected, rel=1e-12)


FLOATING = f"""<mujoco><compiler autolimits="true"/><option gravity="1 2 -9"/><worldbody>
  <body name="hull" pos="0.3 0.1 0.2" euler="10 20 30">{GEOM}
    <joint name="root" type="free" stiffness="3" armature="0.4" damping="0.2"/>
    <site name="deck" pos="0.1 0 0.2" euler="30 0 20"/>
    <body name="neck" pos="0 0.3 0.2">{GEOM}<joint name="pan" axis="0 1 1" armature="0.1"/>
      <body name="head" pos="0.2 0 0.3">{GEOM}<joint name="look" type="ball" stiffness="2" armature="0.3"/>
        <site name="eye" pos="0.1 0.2 0" euler="0 40 10"/></body></body>
    <body name="tail" pos="-0.4 0 0">{GEOM}<joint name="wag" axis="0 0 1"/><site name="tip" pos="0 0.1 0" euler="5 6 7"/></body>
  </body></worldbody>
  <actuator><motor name="gaze" site="eye" refsite="deck" gear="0 0 0 0.5 -1 2" ctrlrange="-3 3"/>
    <motor name="across" site="tip" refsite="eye" gear="0 0 0 1 2 0"/><motor name="pan" joint="pan" gear="3"/></actuator>
</mujoco>"""


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_springs_and_armature_of_free_joints_and_torques_between_bodies(seed):
    """MuJoCo's velocity of a free joint is that of the world, its rate ``R (dv/dt + w x v)``; torques act between any bodies."""
    rng = np.random.default_rng(seed)
    m, mechanism = mujoco.MjModel.from_xml_string(FLOATING), read_mjcf_mechanism(FLOATING)
    assert mechanism.controls == ("pan", "gaze", "across")
    assert not [note for note in mechanism.model.notes if "not imported" in note]
    d = mujoco.MjData(m)
    d.qpos[:] = rng.uniform(-1.2, 1.2, m.nq)
    mujoco.mj_normalizeQuat(m, d.qpos)
    d.qvel[:] = rng.standard_normal(m.nv)
    u = rng.uniform(-2, 2, 3)
    d.ctrl[:] = u[[1, 2, 0]]
    mujoco.mj_forward(m, d)
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, d.qpos[3:7])
    R = R.reshape(3, 3)
    v = d.qvel.copy()
    v[:3] = R.T @ v[:3]
    a = np.array(mechanism.forward_dynamics(d.qpos.copy(), v, u)).ravel()
    a[:3] = R @ (a[:3] + np.cross(v[3:6], v[:3]))
    np.testing.assert_allclose(a, d.qacc, rtol=1e-9, atol=1e-9)


def test_a_push_between_sites_is_named_and_not_carried():
    text = FLOATING.replace('gear="0 0 0 1 2 0"', 'gear="1 0 0 1 2 0"')
    mechanism = read_mjcf_mechanism(text)
    assert mechanism.controls == ("pan", "gaze")
    assert any("'across' is not imported" in note and "torque between sites" in note for note in mechanism.model.notes)


# ---- closed loops ----------------------------------------------------------------------------------------------------------
LINKED = f"""<mujoco><worldbody>
  <body name="tower" pos="0 0 1">{GEOM}<joint name="slew" axis="0 0 1"/>
    <body name="boom" pos="0.1 0 0.3">{GEOM}<joint name="luff" axis="0 1 0" pos="0.02 0 0" ref="10"/>
      <site name="eye" pos="0.3 0.1 0.2" euler="10 0 20"/>
      <body name="hook" pos="0.9 0 0">{GEOM}<joint name="wrist" type="ball"/></body></body>
    <body name="strut" pos="-0.2 0 0">{GEOM}<joint name="strut" axis="0 1 0"/>
      <body name="link" pos="0 0 0.5">{GEOM}<joint name="link" axis="0 1 0"/><site name="end" pos="0.6 0.1 0" euler="10 0 20"/>
      </body></body></body>
  <body name="load" pos="1 0 0.5">{GEOM}<freejoint name="free"/></body>
</worldbody><equality>EQUALITIES</equality></mujoco>"""
CONNECT = '<connect name="pin" body1="link" body2="boom" anchor="0.6 0.02 -0.1"/>'


@pytest.mark.parametrize("equalities", [
    CONNECT, '<weld name="pin" body1="link" body2="boom" anchor="0.1 0.2 0.3"/>',
    '<weld name="pin" body1="hook" body2="load" relpose="0.1 0.2 -0.3 0.8 0.6 0 0"/>',
    '<connect name="pin" body1="hook" anchor="0.1 0 0.2"/>', '<connect name="pin" site1="eye" site2="end"/>',
    '<weld name="pin" site1="end" site2="eye"/>'],
    ids=["connect", "weld", "weld with a pose", "connect to the world", "connect sites", "weld sites"])
@pytest.mark.sample(2)
def test_connections_and_welds_close_loops(equalities):
    """Where both hold, the rows span the same directions as MuJoCo's Jacobian; elsewhere a connection misses by as much."""
    text = LINKED.replace("EQUALITIES", equalities)
    mechanism = read_mjcf_mechanism(text)
    (pin,), model = mechanism.constraints, mechanism.model
    m = mujoco.MjModel.from_xml_string(text)
    m.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    d, rng = mujoco.MjData(m), np.random.default_rng(0)
    order = np.concatenate([np.arange(m.jnt_dofadr[j], m.jnt_dofadr[j] + (s.stop - s.start)) for name, j in sorted(
        ((m.joint(j).name, j) for j in range(m.njnt)), key=lambda pair: model.joint_index(pair[0]))
        for s in (model.v_slice(model.joint_index(name)),)])
    q0 = np.array(model.configurations["qpos0"])
    for k in range(4):
        q = np.asarray(alg.integrate(model, ca.DM(q0), ca.DM(min(k, 1) * 0.3 * rng.normal(size=model.nv)))).ravel()
        if k == 3 and "weld" not in equalities:  # somewhere else where it holds: Gauss-Newton's method
            for _ in range(30):
                g, J = (np.asarray(ca.evalf(ca.MX(part))) for part in (pin.value(model, ca.DM(q)), pin.jacobian(model, ca.DM(q))))
                q = np.asarray(alg.integrate(model, ca.DM(q), ca.DM(-np.linalg.pinv(J) @ g))).ravel()
        for j in range(m.njnt):
            at = model.q_slice(model.joint_index(m.joint(j).name))
            d.qpos[m.jnt_qposadr[j]:m.jnt_qposadr[j] + at.stop - at.start] = q[at]
        mujoco.mj_forward(m, d)
        g, J = (np.asarray(ca.evalf(ca.MX(part))) for part in (pin.value(model, ca.DM(q)), pin.jacobian(model, ca.DM(q))))
        assert np.linalg.norm(g[:3]) == pytest.approx(np.linalg.norm(d.efc_pos[:3]), abs=1e-12)
        if np.abs(d.efc_pos[:m.neq * 6]).max() < 1e-9:
            theirs = d.efc_J.reshape(-1, m.nv)[:len(g)][:, order]
            assert np.linalg.pinv(J) @ J == pytest.approx(np.linalg.pinv(theirs) @ theirs, abs=1e-9)
            assert np.abs(g).max() < 1e-9
        elif k:
            assert np.abs(g).max() > 1e-4


def test_loop_closures_of_a_tree_are_reported_and_ends_of_one_body_are_left_out():
    text = LINKED.replace("EQUALITIES", CONNECT)
    assert any("'pin' closes a loop" in note for note in read_mjcf(text).notes)
    assert any("soft connect" in note for note in read_mjcf_mechanism(text).model.notes)
    fixed = LINKED.replace("EQUALITIES", '<weld name="w" body1="world" body2="bar"/>').replace(
        "</worldbody>", '<body name="bar" pos="1 1 1"><geom size="0.1"/></body></worldbody>')
    mechanism = read_mjcf_mechanism(fixed)
    assert mechanism.constraints == ()
    assert any("'w' connects a body to itself" in note for note in mechanism.model.notes)


def test_dynamics_without_constraints_have_no_multipliers():
    mechanism = read_mjcf_mechanism(LINKED.replace("EQUALITIES", ""))
    n = mechanism.model.nv
    q, v = ca.DM(mechanism.model.configurations["qpos0"]), ca.DM(np.linspace(-1, 1, n))
    a, forces = mechanism.constrained_dynamics(q, v, ca.DM(0, 1))
    assert forces.shape == (0, 1)
    assert np.array(ca.evalf(ca.MX(a))).ravel() == pytest.approx(
        np.array(ca.evalf(ca.MX(mechanism.forward_dynamics(q, v, ca.DM(0, 1))))).ravel(), rel=1e-12)
