"""Named configurations from SRDF group states."""

from __future__ import annotations

import numpy as np
import pytest

from dynamics.errors import ModelError
from dynamics.model.srdf import apply_srdf
from dynamics.model.urdf import read_urdf

MASS = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
URDF = f"""<robot name="arm">
  <link name="base">{MASS}</link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="a"/></joint><link name="a">{MASS}</link>
  <joint name="elbow" type="continuous"><parent link="a"/><child link="b"/></joint><link name="b">{MASS}</link>
  <joint name="finger" type="continuous"><parent link="b"/><child link="c"/>
    <mimic joint="elbow" multiplier="2" offset="0.5"/></joint><link name="c">{MASS}</link>
  <joint name="mount" type="fixed"><parent link="c"/><child link="d"/></joint><link name="d"/>
</robot>"""


def srdf(*states: str) -> str:
    return "<robot name='arm'>\n" + "\n".join(states) + "\n</robot>"


def state(name: str, inside: str, group: str = "all") -> str:
    return f"<group_state name='{name}' group='{group}'>{inside}</group_state>"


def test_joints_go_to_their_places_and_the_others_stay_neutral():
    model = read_urdf(URDF, srdf=srdf(state("up", '<joint name="elbow" value="0.7"/>'),
                                      state("home", '<joint name="shoulder" value=" -1 "/>')))
    assert model.coordinate_names == ("shoulder", "elbow")
    assert model.configurations == {"up": (0.0, 0.7), "home": (-1.0, 0.0)}


def test_floating_base_is_reordered_and_normalised():
    half = np.sqrt(0.5)
    text = srdf(state("stand", f'<joint name="root_joint" value="1 2 3 0 0 {half * 1.0001} {half * 1.0001}"/>'))
    model = read_urdf(URDF, root="free_flyer", srdf=text)
    assert model.configurations["stand"] == pytest.approx((1, 2, 3, half, 0, 0, half, 0, 0), abs=1e-15)
    # a state that says nothing of the base leaves it at the identity
    rest = read_urdf(URDF, root="free_flyer", srdf=srdf(state("rest", "")))
    assert rest.configurations["rest"] == (0, 0, 0, 1, 0, 0, 0, 0, 0)


def test_base_may_be_called_after_the_virtual_joint():
    virtual = "<virtual_joint name='odom' type='floating' parent_frame='w' child_link='base'/>"
    text = srdf(virtual, state("s", '<joint name="odom" value="1 2 3 0 0 0 1"/>'))
    assert read_urdf(URDF, root="free_flyer", srdf=text).configurations["s"][:3] == (1.0, 2.0, 3.0)
    fixed = read_urdf(URDF, srdf=text)
    assert fixed.configurations["s"] == (0.0, 0.0)
    assert any("'odom' is fixed" in note for note in fixed.notes)


def test_value_of_a_merged_fixed_joint_is_noted():
    model = read_urdf(URDF, srdf=srdf(state("s", '<joint name="mount" value="0.1"/>')))
    assert model.configurations["s"] == (0.0, 0.0)
    assert any("'mount' is fixed" in note for note in model.notes)


def test_mimic_joint_sets_or_contradicts_its_leader():
    alone = read_urdf(URDF, srdf=srdf(state("s", '<joint name="finger" value="1.5"/>')))
    assert alone.configurations["s"] == (0.0, 0.5)
    agreed = read_urdf(URDF, srdf=srdf(state("s", '<joint name="finger" value="1.5"/><joint name="elbow" value="0.5"/>')))
    assert agreed.configurations["s"] == (0.0, 0.5)
    assert not any("mimics" in note for note in agreed.notes)
    against = read_urdf(URDF, srdf=srdf(state("s", '<joint name="finger" value="0"/><joint name="elbow" value="1"/>')))
    assert against.configurations["s"] == (0.0, 1.0)
    assert any("'finger' is set to 0" in note and "2.5" in note for note in against.notes)


def test_states_of_one_name_are_distinguished_by_group():
    text = srdf(state("open", '<joint name="elbow" value="1"/>', "left"),
                state("open", '<joint name="elbow" value="2"/>', "right"))
    assert set(read_urdf(URDF, srdf=text).configurations) == {"left/open", "right/open"}


@pytest.mark.parametrize(("inside", "words"), [
    ('<joint name="elbw" value="1"/>', ["'elbw' does not exist", "did you mean 'elbow'"]),
    ('<joint name="elbow" value="one"/>', ["'elbow'", "'one'"]),
    ('<joint name="elbow" value="1 2"/>', ["'elbow'", "needs 1 number", "got 2"]),
    ('<joint name="elbow" value=""/>', ["'value'", "empty"]),
    ('<joint name="elbow"/>', ["lacks", "'value'"]),
    ('<joint name="elbow" value="1"/><joint name="elbow" value="1"/>', ["'elbow' is set twice"]),
    ('<joint name="root_joint" value="0 0 0 0 0 0"/>', ["x y z qx qy qz qw", "got 6"]),
    ('<joint name="root_joint" value="0 0 0 0 0 0 2"/>', ["length 2"]),
], ids=["unknown", "no number", "two numbers", "empty", "no value", "twice", "six for base", "long quaternion"])
def test_wrong_states_are_refused(inside, words, tmp_path):
    path = tmp_path / "arm.srdf"
    path.write_text(srdf(state("s", inside)))
    with pytest.raises(ModelError) as caught:
        read_urdf(URDF, root="free_flyer", srdf=path)
    assert (caught.value.source, caught.value.line, caught.value.element) == (str(path), 2, "group_state 's'")
    for word in words:
        assert word in str(caught.value)


def test_two_states_of_one_name_and_group_are_refused():
    with pytest.raises(ModelError, match="defined twice"):
        read_urdf(URDF, srdf=srdf(state("s", ""), state("s", "")))


def test_a_urdf_handed_in_as_srdf_has_no_states_and_other_xml_is_refused():
    with pytest.raises(ModelError, match="must be <robot>"):
        apply_srdf("<sdf/>", read_urdf(URDF))


@pytest.mark.parametrize("where", ["arm.srdf", "../srdf/arm.srdf", "../srdf/file.srdf"])
def test_auto_finds_the_file_beside_or_in_srdf(where, tmp_path):
    (tmp_path / "urdf").mkdir()
    (tmp_path / "srdf").mkdir()
    urdf = tmp_path / "urdf" / "file.urdf"
    urdf.write_text(URDF)
    (urdf.parent / where).write_text(srdf(state("s", '<joint name="elbow" value="1"/><joint name="gone" value="1"/>')))
    model = read_urdf(urdf, srdf="auto")
    assert model.configurations["s"] == (0.0, 1.0)
    assert any("'gone' does not exist" in note for note in model.notes)  # lenient only because nobody named the file


def test_auto_without_a_file_leaves_the_model_as_it_is(tmp_path):
    urdf = tmp_path / "file.urdf"
    urdf.write_text(URDF)
    assert read_urdf(urdf, srdf="auto") == read_urdf(urdf)
    with pytest.raises(ModelError, match="its text was given"):
        read_urdf(URDF, srdf="auto")
