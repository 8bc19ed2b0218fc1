"""Motors behind gears in problem files: accelerations against MuJoCo's, limits, and what is refused."""

import numpy as np
import pytest

from ocp.app.files.load import load_text
from ocp.errors import ProblemError
from ocp.problem import At

LINK = ('<link name="{}"><inertial><origin xyz="0 0 -0.25"/><mass value="{}"/>'
        '<inertia ixx="0.02" iyy="0.03" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link>')
JOINT = ('<joint name="{}" type="revolute"><parent link="{}"/><child link="{}"/><origin xyz="0 0 -0.5"/><axis xyz="0 1 0"/>'
         '<limit lower="-3" upper="3" effort="{}" velocity="8"/></joint>')
URDF = ('<robot name="arm"><link name="base"/>' + JOINT.format("shoulder", "base", "a", 20) + LINK.format("a", 1)
        + JOINT.format("elbow", "a", "b", 10) + LINK.format("b", 0.8) + JOINT.format("wrist", "b", "c", 5) + LINK.format("c", 0.5)
        + "</robot>")
BODY = ('<body name="{}" pos="0 0 -0.5"><joint name="{}" axis="0 1 0"/>'
        '<inertial pos="0 0 -0.25" mass="{}" diaginertia="0.02 0.03 0.02"/>')
MJCF = ('<mujoco><option gravity="0 0 -9.81"/><worldbody>' + BODY.format("a", "shoulder", 1) + BODY.format("b", "elbow", 0.8)
        + BODY.format("c", "wrist", 0.5) + """</body></body></body></worldbody>
<tendon><fixed name="belt"><joint joint="shoulder" coef="-2"/><joint joint="elbow" coef="3"/></fixed></tendon>
<actuator><motor name="direct" joint="wrist"/><motor name="geared" joint="shoulder" gear="50" armature="2e-4"/>
<motor name="both" tendon="belt"/></actuator></mujoco>""")
FILE = """\
name: Arm
constants: {n: 50}
system:
  robot: arm.urdf
  motors:
    - {name: geared, gears: {shoulder: n}, rotor: 2.0e-4, lower: -0.3, upper: 9}
    - {name: both, gears: {shoulder: -2, elbow: 3}}
phase:
  duration: 1
  start: {joints: {shoulder: 0, elbow: 0, wrist: 0}, rest: true}
  costs: [{name: effort, running: "geared**2 + both**2"}]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "arm.urdf").write_text(URDF)
    return tmp_path


def test_gears_transmissions_and_rotors_act_as_in_mujoco(folder):
    mujoco = pytest.importorskip("mujoco")
    m = mujoco.MjModel.from_xml_string(MJCF)
    d, system = mujoco.MjData(m), load_text(FILE, folder).problem.phases[0].system
    assert system.controls == ("wrist", "geared", "both")  # the joints that motors drive have none of their own
    rng = np.random.default_rng(0)
    for _ in range(3):
        d.qpos[:], d.qvel[:], d.ctrl[:] = rng.uniform(-1, 1, (3, 3))
        mujoco.mj_forward(m, d)
        xi = np.array(system.rate(0, np.r_[d.qpos, d.qvel], d.ctrl, [])).ravel()
        np.testing.assert_allclose(xi[3:], d.qacc, rtol=1e-9, atol=1e-9)


def test_limits_are_those_of_the_drive_and_of_joints_behind_it(folder):
    phase = load_text(FILE, folder).problem.phases[0]
    # two motors act at the shoulder: what is left of its limit is a constraint
    assert list(zip(phase.u_lower, phase.u_upper, strict=True)) == [(-5, 5), (-0.3, 9), (-np.inf, np.inf)]
    (shared,) = (c for c in phase.constraints if c.at is At.PATH)
    assert (shared.labels, shared.upper) == (("shoulder", "elbow"), (20.0, 10.0))
    assert np.array(shared.function(0, np.zeros(6), [1, 2, 3], [])).ravel() == pytest.approx([50 * 2 - 2 * 3, 3 * 3])
    one = FILE.replace("    - {name: both, gears: {shoulder: -2, elbow: 3}}\n", "").replace(" + both**2", "")
    alone = load_text(one, folder).problem.phases[0]
    assert alone.system.controls == ("elbow", "wrist", "geared")
    assert (alone.u_lower[2], alone.u_upper[2]) == (-0.3, 0.4)  # 20 N m behind a gear of 50
    listed = load_text(FILE.replace("  motors:", "  actuated: [elbow]\n  motors:"), folder).problem.phases[0]
    assert listed.system.controls == ("elbow", "geared", "both")  # who names a joint gets its motor


@pytest.mark.parametrize(("old", "new", "place", "words"), [
    ("{shoulder: n}", "{shouder: n}", "6:30: system.motors[0].gears.shouder", "named 'shouder'; did you mean 'shoulder'"),
    ("{shoulder: n}", "{shoulder: 0}", "system", "the gear ratio to 'shoulder' must be finite and not zero"),
    ("{shoulder: n}", "{}", "system", "motor 'geared': has no gear ratios: it drives nothing"),
    ("lower: -0.3", "lower: 10", "system", "limits must be in order, got 10 to 9"),
    ("rotor: 2.0e-4", "rotor: -1", "6:51: system.motors[0].rotor", "must not be negative, got -1"),
    ("elbow: 3}", "elbow: 3}, rotor: 0.1", "7:60: system.motors[1].rotor", "only behind a single gear"),
    ("name: both", "name: wrist", "system", "control name 'wrist' is used twice")])
def test_drives_that_the_robot_cannot_have_are_refused_at_their_place(folder, old, new, place, words):
    with pytest.raises(ProblemError) as caught:
        load_text(FILE.replace(old, new, 1), folder)
    assert words in str(caught.value)
    assert place in str(caught.value)
