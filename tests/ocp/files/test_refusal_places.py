"""Refusals that solvers and models would make have the place in the file that led to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from repository import ROOT

from ocp.app.files.load import load_text
from ocp.errors import ProblemError, UnsupportedError
from ocp.methods import solve

PROBLEMS = ROOT / "problems"
BLOCK = """\
name: Block
system: {states: {x: m, v: m/s}, controls: {force: N}, dynamics: {x: v, v: force}}
phase:
  duration: 1
  start: {x: 0, v: 0}
  final: {x: 1, v: 0}
  costs: [{name: effort, running: force**2}]
  constraints:
    - {name: fuel, at: integral, expression: force, upper: 2}
linkages:
  - {name: returns, expression: 'start["v"] - final["v"]', equal: 0}
solve: {method: collocation, collocation: {intervals: 20}}
"""
OPTIONS = "collocation: {intervals: 20}"


@pytest.mark.parametrize(("options", "place", "words"), [
    ("derivatives: analytic", "12:43: solve.derivatives", "closed-form derivatives exist for the dynamics of a robot only"),
    ("collocation: {derivatives: analytic}", "12:57: solve.collocation.derivatives", "closed-form derivatives exist for"),
    ("ilqr: {derivatives: analytic, execution: loops}", "12:71: solve.ilqr.execution", "'loops' is not possible: the system is"),
    ("collocation: {execution: loops}", "12:55: solve.collocation.execution", "'loops' is not possible: the system is"),
    ("collocation: {mesh: 0:3 x}", "12:50: solve.collocation.mesh", "'x': 'x' is not a number"),
    ("collocation: {mesh: '0:3 1; 0:3 1'}", "12:50: solve.collocation.mesh", "gives meshes of 2 phases"),
])
def test_options_that_do_not_fit_the_problem(options: str, place: str, words: str) -> None:
    with pytest.raises(ProblemError) as caught:
        load_text(BLOCK.replace(OPTIONS, options))
    assert str(caught.value).startswith(f"problem.yaml:{place}: {words}")


def test_what_a_method_cannot_enforce_has_its_place() -> None:
    problem = load_text(BLOCK).problem
    with pytest.raises(UnsupportedError) as caught:
        solve(problem, "ilqr")
    assert "- integral constraint 'fuel' (make the integral a state, with a bound at the end), at problem.yaml:9:7: phase" in \
        str(caught.value)
    with pytest.raises(UnsupportedError) as caught:
        solve(problem, "adjoint")
    assert "- linkage 'returns' between ends of phases, at problem.yaml:11:5: linkages[0]" in str(caught.value)


def test_a_closed_loop_needs_all_that_it_begins_with() -> None:
    text = BLOCK[: BLOCK.index("  constraints")] + "mpc: {rate: 10, duration: 1}\n"
    assert load_text(text).mpc is not None
    with pytest.raises(ProblemError, match=r"5:10: phase\.start: a closed loop .* begins at a whole state"):
        load_text(text.replace("{x: 0, v: 0}", "{x: 0, others: free}"))
    free = text.replace("v: force}}", "v: k*force}}").replace("phase:", "parameters: {k: {value: 1, optimise: [0.5, 2]}}\nphase:")
    with pytest.raises(ProblemError, match=r"3:13: parameters: a closed loop .* has no parameters to choose"):
        load_text(free)


ACROBOT = """\
name: acro
system: {robot: models/acrobot.urdf, srdf: SRDF, limits: {velocity: false, position: false}}
phase:
  duration: 1
  start: {others: neutral}
  final: {configuration: far}
  bounds: {joints: {shoulder: [-1, 1]}}
  costs: []
"""


def test_named_configurations_keep_the_bounds(tmp_path: Path) -> None:
    (tmp_path / "far.srdf").write_text('<robot name="acrobot"><group_state name="far" group="all">'
                                       '<joint name="shoulder" value="2"/>'
                                       '<joint name="elbow" value="0"/></group_state></robot>')
    text = ACROBOT.replace("SRDF", str(tmp_path / "far.srdf"))
    with pytest.raises(ProblemError, match=r"6:26: phase\.final\.configuration: 'q\.shoulder' is 2, outside its bounds \[-1, 1\]"):
        load_text(text, PROBLEMS)
    load_text(text.replace("{configuration: far}", "{configuration: far, joints: {shoulder: 0.5}}"), PROBLEMS)
    with pytest.raises(ProblemError, match=r"5:19: phase\.start\.others: 'q\.shoulder' is 2, outside its bounds"):
        load_text(text.replace("neutral", "far").replace("{configuration: far}", "{rest: true}"), PROBLEMS)


def test_an_error_of_a_robot_file_has_both_places(tmp_path: Path) -> None:
    (tmp_path / "r.urdf").write_text('<robot name="m">\n<link name="a"/>\n<link name="b"/>\n<joint name="j" type="revolute">'
                                     '<parent link="a"/><child link="b"/>\n<limit lower="3" upper="1"/></joint></robot>')
    with pytest.raises(ProblemError) as caught:
        load_text("name: a\nsystem: {robot: r.urdf}\nphase: {duration: 1, start: {others: free}, costs: []}\n", tmp_path)
    assert str(caught.value) == (f"problem.yaml:2:17: system.robot: {tmp_path / 'r.urdf'}:5: joint 'j': lower limit 3 exceeds "
                                 "upper limit 1")


def test_an_unknown_root_is_reported_with_known_ones() -> None:
    with pytest.raises(ProblemError, match=r"2:\d+: system\.root: expected one of fixed, free_flyer, planar; got the text 'plane'"):
        load_text(ACROBOT.replace("srdf: SRDF", "root: plane"), PROBLEMS)


# ---- expressions that YAML takes apart ------------------------------------------------------------------------------------
QUOTE = "in quotes"


@pytest.mark.parametrize(("old", "new", "place", "words"), [
    ("expression: force", "expression: force: 2", "9:51", "contains a comma, a colon, a quote or a bracket in quotes"),
    ("expression: force", "expression: force + {x}", "9:54", "contains a comma, a colon, a quote or a bracket in quotes"),
    ("expression: force", "expression: q[x]", "9:47", "contains a comma, a colon, a quote or a bracket in quotes"),
    ("expression: force", 'expression: "force" + x', "9:54", "contains a comma, a colon, a quote or a bracket in quotes"),
    ("expression: force", "expression: max(force, x)", "9:57: phase.constraints[0][\"x)\"]", "an expression that contains a comma"),
    ("{x: 1, v: 0}", "{x: 1, v: a, b}", "6:23: phase.final.b", "has no value; inside {..} an expression that contains a comma"),
    ("{name: effort, running", "{name: effort, b, running", "7:26: phase.costs[0].b", "unknown key; inside {..} an expression"),
    ("expression: force", "expression: '%'", "9:47: phase.constraints[0].expression", ""),
    ("expression: force", "expression: %force", "9:46", "put the whole expression in quotes"),
    ("expression: force", "expression: *force", "9:46", "put an expression that starts with * in quotes"),
    ("duration: 1", "duration: [1] + 2", "4:17", "put an expression that starts with a bracket or a quote in quotes as a whole"),
    ("duration: 1", "duration: a: 1", "4:14", "put text that contains ': ' in quotes"),
])
def test_expressions_without_quotes(old: str, new: str, place: str, words: str) -> None:
    assert BLOCK.count(old) >= 1
    with pytest.raises(ProblemError) as caught:
        load_text(BLOCK.replace(old, new, 1))
    assert any(line.startswith(f"problem.yaml:{place}: ") for line in str(caught.value).splitlines()), caught.value
    assert words in str(caught.value)


def test_an_absent_value_alone_is_no_cut_expression() -> None:
    with pytest.raises(ProblemError) as caught:
        load_text(BLOCK.replace("duration: 1", "duration:"))
    assert "comma" not in str(caught.value)


def test_a_robot_that_cannot_be_accelerated_names_its_joint(tmp_path: Path) -> None:
    """A massless leaf on a moving joint: the place is the system, the words name joint and body."""
    ball = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    (tmp_path / "arm.urdf").write_text(f"""<robot name="arm"><link name="base"/><link name="upper">{ball}</link><link name="hand"/>
<joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/></joint>
<joint name="wrist" type="continuous"><parent link="upper"/><child link="hand"/><axis xyz="0 1 0"/></joint></robot>""")
    text = """name: Arm
system: {robot: arm.urdf}
phase: {duration: 1, start: {rest: true, others: neutral}, costs: [{name: effort, running: shoulder**2}]}
"""
    with pytest.raises(ProblemError) as error:
        load_text(text, tmp_path)
    assert "2:9: system: model 'arm': nothing resists the motion of 'wrist' (body 'hand')" in str(error.value)
