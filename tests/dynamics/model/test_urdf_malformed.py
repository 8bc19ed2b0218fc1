"""Malformed robot files: each is refused with file, line, element, and what was expected or is near."""

from __future__ import annotations

import pytest

from dynamics.errors import ModelError
from dynamics.model.urdf import read_urdf

GOOD = """<robot name="arm">
  <link name="base"/>
  <joint name="shoulder" type="revolute">
    <parent link="base"/>
    <child link="upper"/>
    <origin xyz="0 0 1" rpy="0 0 0"/>
    <axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="10" velocity="2"/>
    <dynamics damping="0.1" friction="0"/>
  </joint>
  <link name="upper">
    <inertial>
      <origin xyz="0 0 0.5"/>
      <mass value="1"/>
      <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/>
    </inertial>
    <visual><geometry><sphere radius="0.1"/></geometry></visual>
  </link>
  <joint name="elbow" type="continuous">
    <parent link="upper"/>
    <child link="lower"/>
  </joint>
  <link name="lower"/>
</robot>
"""


def replaced(old: str, new: str, count: int = 1) -> str:
    assert GOOD.count(old) >= 1, old
    return GOOD.replace(old, new, count)


# id: (text, line, element or None, words that the message must contain)
CASES = {
    # XML
    "not XML": ("<robot name='r'>\n<link name='a'>\n</robot>", 3, None, ["mismatched tag", "<link> opened on line 2"]),
    "cut short": (GOOD[:GOOD.index("<axis")], 7, None, ["not well-formed", "<joint> opened on line 3"]),
    "attribute twice": (replaced('<mass value="1"/>', '<mass value="1" value="2"/>'), 14, None,
        ["duplicate attribute"]),
    "text after the end": (GOOD + "<robot/>", 25, None, ["junk after document element"]),
    "entity": ('<!DOCTYPE r [\n<!ENTITY lol "lol">\n]>\n' + GOOD, 2, None, ["entity 'lol'"]),
    "wrong root": ("<model><link name='a'/></model>", 1, None, ["must be <robot>", "<model>"]),
    "MJCF given": ("<mujoco/>", 1, None, ["MJCF", "read_mjcf"]),
    "SDF given": ("<sdf version='1.7'/>", 1, None, ["SDF"]),
    "xacro tag": (replaced("<link name=\"base\"/>", "<xacro:include filename='a.xacro'/>"), 2, None, ["run xacro"]),
    "xacro value": (replaced('value="1"', 'value="${m}"'), 14, "link 'upper'", ["'${m}'", "run xacro"]),
    # names and structure
    "no link": ("<robot name='r'>\n</robot>", 1, None, ["no <link>"]),
    "link without name": (replaced('<link name="upper">', "<link>"), 11, None, ["<link> lacks", "'name'"]),
    "empty name": (replaced('<link name="upper">', '<link name=" ">'), 11, None, ["'name'", "empty"]),
    "capital tag": (replaced('<link name="base"/>', '<Link name="base"/>'), 2, None, ["<Link>", "did you mean <link>"]),
    "duplicate link": (replaced('<link name="lower"/>', '<link name="upper"/>'), 23, "link 'upper'", ["line 11"]),
    "duplicate joint": (replaced('"elbow"', '"shoulder"'), 19, "joint 'shoulder'", ["line 3"]),
    "joint without name": (replaced('<joint name="elbow" type', "<joint type"), 19, None, ["<joint> lacks", "'name'"]),
    "joint without type": (replaced(' type="continuous"', ""), 19, "joint 'elbow'", ["lacks", "'type'"]),
    "unknown type": (replaced('"revolute"', '"revolut"'), 3, "joint 'shoulder'",
        ["'revolut'", "did you mean 'revolute'"]),
    "type in capitals": (replaced('"revolute"', '"Revolute"'), 3, "joint 'shoulder'", ["did you mean 'revolute'"]),
    "no parent": (replaced('    <parent link="upper"/>\n', ""), 19, "joint 'elbow'", ["lacks <parent link="]),
    "no child": (replaced('    <child link="lower"/>\n', ""), 19, "joint 'elbow'", ["lacks <child link="]),
    "two parents named": (replaced('<parent link="upper"/>', '<parent link="upper"/><parent link="base"/>'), 20,
                          "joint 'elbow'", ["<parent> appears 2 times"]),
    "parent without link": (replaced('<parent link="upper"/>', '<parent name="upper"/>'), 20, "joint 'elbow'",
                            ["lacks the attribute 'link'", "'name'"]),
    "unknown parent": (replaced('<parent link="upper"/>', '<parent link="uper"/>'), 20, "joint 'elbow'",
                       ["parent link 'uper'", "did you mean 'upper'"]),
    "unknown child": (replaced('<child link="lower"/>', '<child link="flower"/>'), 21, "joint 'elbow'",
                      ["child link 'flower'", "did you mean 'lower'"]),
    "closed loop": (replaced('<child link="lower"/>', '<child link="upper"/>'), 19, "joint 'elbow'",
                    ["'upper' is already the child of joint 'shoulder' (line 3)", "tree"]),
    "two roots": (replaced('<link name="lower"/>', '<link name="lower"/>\n<link name="stray"/>'), 24, "link 'stray'",
                  ["several root links", "'base', 'stray'"]),
    "own child": (replaced('<parent link="base"/>', '<parent link="upper"/>').replace('<link name="base"/>', ""), 3,
                  "joint 'shoulder'", ["cycle", "upper -> upper"]),
    "cycle, no root": (replaced('<parent link="base"/>', '<parent link="lower"/>').replace('<link name="base"/>', ""), 19,
                       "joint 'elbow'", ["cycle", "upper -> lower -> upper"]),
    "cycle beside a root": (replaced('<parent link="upper"/>', '<parent link="lower"/>'), 19, "joint 'elbow'",
                            ["cycle", "lower -> lower"]),
    # numbers
    "not a number": (replaced('xyz="0 0 1"', 'xyz="0 0 one"'), 6, "joint 'shoulder'", ["'xyz' of <origin>", "'one'"]),
    "number and rest": (replaced('value="1"', 'value="1.0 abc"'), 14, "link 'upper'", ["'value' of <mass>", "1.0 abc"]),
    "decimal comma": (replaced('value="1"', 'value="1,5"'), 14, "link 'upper'", ["decimal point"]),
    "underscore": (replaced('value="1"', 'value="1_5"'), 14, "link 'upper'", ["must be a number", "'1_5'"]),
    "two numbers in xyz": (replaced('xyz="0 0 1"', 'xyz="0 1"'), 6, "joint 'shoulder'", ["needs 3 numbers, got 2"]),
    "four numbers in rpy": (replaced('rpy="0 0 0"', 'rpy="1 0 0 0"'), 6, "joint 'shoulder'", ["'rpy'", "got 4"]),
    "one number in axis": (replaced('<axis xyz="0 1 0"/>', '<axis xyz="1"/>'), 7, "joint 'shoulder'", ["got 1"]),
    "axis without xyz": (replaced('<axis xyz="0 1 0"/>', "<axis/>"), 7, "joint 'shoulder'", ["<axis> lacks", "'xyz'"]),
    "NaN": (replaced('xyz="0 0 0.5"', 'xyz="0 nan 0"'), 13, "link 'upper'", ["finite", "'nan'"]),
    "infinite mass": (replaced('value="1"', 'value="inf"'), 14, "link 'upper'", ["finite", "'inf'"]),
    "NaN limit": (replaced('upper="1"', 'upper="nan"'), 8, "joint 'shoulder'", ["'upper' of <limit>", "nan"]),
    "zero axis": (replaced('xyz="0 1 0"', 'xyz="0 0 0"'), 7, "joint 'shoulder'", ["axis must not be zero"]),
    # spelling
    "misspelt attribute": (replaced('rpy="0 0 0"', 'rpv="0 0 0"'), 6, "joint 'shoulder'", ["'rpv'", "mean 'rpy'"]),
    "misspelt limit": (replaced('lower="-1"', 'lowr="-1"'), 8, "joint 'shoulder'", ["'lowr'", "mean 'lower'"]),
    "misspelt element": (replaced("<inertial>", "<intertial>").replace("</inertial>", "</intertial>"), 12, "link 'upper'",
                         ["<intertial>", "mean 'inertial'"]),
    # inertia
    "no mass": (replaced('<mass value="1"/>', ""), 12, "link 'upper'", ["lacks <mass"]),
    "mass without value": (replaced('<mass value="1"/>', "<mass/>"), 14, "link 'upper'", ["lacks", "'value'"]),
    "negative mass": (replaced('value="1"', 'value="-1"'), 14, "link 'upper'", ["not be negative", "-1 kg"]),
    "no inertia": (replaced('<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/>', ""), 12, "link 'upper'",
                   ["lacks <inertia", "zeros"]),
    "five of six moments": (replaced(' iyz="0"', ""), 15, "link 'upper'", ["lacks", "'iyz'"]),
    "negative moment": (replaced('iyy="0.1"', 'iyy="-0.1"'), 15, "link 'upper'", ["'iyy'", "negative", "-0.1"]),
    "two inertials": (replaced("</inertial>", "</inertial><inertial/>"), 16, "link 'upper'",
                      ["<inertial> appears 2 times", "line 12"]),
    # limits, dynamics
    "lower above upper": (replaced('lower="-1"', 'lower="3"'), 8, "joint 'shoulder'",
        ["lower limit 3", "upper limit 1"]),
    "negative effort": (replaced('effort="10"', 'effort="-10"'), 8, "joint 'shoulder'", ["effort", "-10"]),
    "negative damping": (replaced('damping="0.1"', 'damping="-0.1"'), 9, "joint 'shoulder'", ["damping", "-0.1"]),
    # mimic
    "mimics unknown": (replaced('<child link="lower"/>', '<child link="lower"/>\n<mimic joint="sholder"/>'), 22,
                       "joint 'elbow'", ["'sholder'", "did you mean 'shoulder'"]),
    "mimics itself": (replaced('<child link="lower"/>', '<child link="lower"/>\n<mimic joint="elbow"/>'), 22,
                      "joint 'elbow'", ["mimics itself"]),
    "mimic cycle": (replaced('<child link="lower"/>', '<child link="lower"/><mimic joint="shoulder"/>').replace(
        '<child link="upper"/>', '<child link="upper"/><mimic joint="elbow"/>'), 5, "joint 'shoulder'",
        ["cycle", "shoulder -> elbow -> shoulder"]),
    "mimics a fixed joint": (replaced('"revolute"', '"fixed"').replace(
        '<child link="lower"/>', '<child link="lower"/><mimic joint="shoulder"/>'), 21, "joint 'elbow'",
        ["'shoulder' of kind 'fixed'", "one degree of freedom"]),
    "planar mimic": (replaced('"continuous"', '"planar"').replace(
        '<child link="lower"/>', '<child link="lower"/><mimic joint="shoulder"/>'), 21, "joint 'elbow'",
        ["one degree of freedom"]),
    # shapes, transmissions
    "visual without geometry": (replaced("<geometry><sphere radius=\"0.1\"/></geometry>", ""), 17, "link 'upper'",
                                ["<visual> lacks <geometry>"]),
    "negative radius": (replaced('radius="0.1"', 'radius="-0.1"'), 17, "link 'upper'", ["<sphere>", "negative"]),
    "motor on unknown joint": (replaced("</robot>", """<transmission name="t"><joint name="elbw"/>
        <actuator name="m"><rotorInertia>1</rotorInertia></actuator></transmission></robot>"""), 24, "transmission 't'",
        ["'elbw'", "did you mean 'elbow'"]),
    "bad rotor inertia": (replaced("</robot>", """<transmission name="t"><joint name="elbow"/>
        <actuator name="m"><rotorInertia>big</rotorInertia></actuator></transmission></robot>"""), 25, "joint 'elbow'",
        ["<rotorInertia>", "'big'"]),
}


def test_the_good_file_reads():
    model = read_urdf(GOOD)
    assert (model.nq, [b.name for b in model.bodies]) == (2, ["upper", "lower"])


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.replace(" ", "_"))
def test_malformed_file_is_refused_precisely(case, tmp_path):
    text, line, element, words = CASES[case]
    path = tmp_path / "arm.urdf"
    path.write_text(text)
    with pytest.raises(ModelError) as caught:
        read_urdf(path)
    error = caught.value
    assert (error.source, error.line, error.element) == (str(path), line, element)
    message = str(error)
    assert message.startswith(f"{path}:{line}: " + (f"{element}: " if element else ""))
    for word in words:
        assert word in message


@pytest.mark.parametrize("case", ["zero axis", "unknown child"])
def test_text_gives_the_line_without_a_file(case):
    text, line, element, _ = CASES[case]
    with pytest.raises(ModelError) as caught:
        read_urdf(text)
    assert (caught.value.source, caught.value.line, caught.value.element) == (None, line, element)


@pytest.mark.parametrize("empty", ["", "  \n"])
def test_empty_text_is_refused(empty):
    with pytest.raises(ModelError, match="empty string"):
        read_urdf(empty)


def test_a_folder_is_not_a_robot(tmp_path):
    with pytest.raises(ModelError, match="cannot read the URDF file"):
        read_urdf(tmp_path)


def test_latin_1_file_with_a_declared_encoding_reads(tmp_path):
    path = tmp_path / "robot.urdf"
    text = '<robot name="é"><link name="a"/></robot>'
    path.write_bytes(f'<?xml version="1.0" encoding="iso-8859-1"?>{text}'.encode("latin-1"))
    assert read_urdf(path).name == "é"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError, match="not well-formed"):
        read_urdf(path)
