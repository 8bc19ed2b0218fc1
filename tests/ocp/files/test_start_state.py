"""Starts: everything is named, or the file says what holds for the rest."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from ocp.app.files.load import LoadedProblem, load_text
from ocp.errors import ProblemError

_INERTIA = '<inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>'


def _joint(name: str, parent: str, child: str, lower: float, inner: str = "") -> str:
    return (f'<link name="{child}">{_INERTIA}</link><joint name="{name}" type="revolute"><parent link="{parent}"/>'
            f'<child link="{child}"/><axis xyz="0 1 0"/><limit lower="{lower}" upper="2" velocity="3" effort="10"/>{inner}</joint>')


URDF = (f'<robot name="arm"><link name="root">{_INERTIA}</link>{_joint("shoulder", "root", "upper", -2)}'
        f'{_joint("elbow", "upper", "lower", -2)}{_joint("wrist", "lower", "hand", -2)}'
        f'{_joint("grip", "hand", "finger", -2, """<mimic joint="wrist"/>""")}</robot>')
SRDF = """<robot name="arm"><group_state name="home" group="all"><joint name="shoulder" value="0.25"/>
<joint name="elbow" value="0.75"/><joint name="wrist" value="0.5"/></group_state></robot>"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "arm.urdf").write_text(URDF)
    (tmp_path / "arm.srdf").write_text(SRDF)
    return tmp_path


def robot(folder: Path, start: str, root: str = "fixed") -> LoadedProblem:
    line = f"  start: {start}\n" if start else ""
    return load_text(f"name: Arm\nsystem: {{robot: arm.urdf, root: {root}}}\nphase:\n  duration: 1\n{line}  costs: []\n", folder)


def system(start: str) -> LoadedProblem:
    line = f"  start: {start}\n" if start else ""
    return load_text("name: Fall\nsystem: {states: {h: m, v: m/s, m: kg}, dynamics: {h: v, v: -9.81, m: -1}}\n"
                     f"phase:\n  duration: 1\n{line}  costs: []\n")


# ---- robots ---------------------------------------------------------------------------------------------------------------
REST = "every velocity (rest: true makes them zero)"


@pytest.mark.parametrize(("start", "where", "left"), [
    ("{joints: {shoulder: 1, wrist: 0}, rest: true}", "5:10", "joint 'elbow' is not named"),
    ("{joints: {shoulder: 1}, rest: true}", "5:10", "joint 'elbow', joint 'wrist' are not named"),
    ("{joints: {shoulder: 1, elbow: 0, wrist: 0}}", "5:10", f"{REST} is not named"),
    ("{joints: {shoulder: 1, elbow: 0, wrist: 0}, velocities: {elbow: 0, wrist: 1}}", "5:10",
     "velocity of 'shoulder' is not named"),
    ("{configuration: home}", "5:10", f"{REST} is not named"),
    ("{}", "5:10", f"joint 'shoulder', joint 'elbow', joint 'wrist', {REST} are not named"),
    ("", "4:3", "joint 'shoulder'"),
])
def test_joints_left_out_are_listed_with_possible_values(folder: Path, start: str, where: str, left: str) -> None:
    with pytest.raises(ProblemError) as caught:
        robot(folder, start)
    message = str(caught.value)
    assert message.startswith(f"problem.yaml:{where}: phase.start: {left}"), message
    assert "others: free (the solver chooses), neutral (zero, at rest) or " in message
    assert "grip" not in message  # it follows the wrist


@pytest.mark.parametrize(("start", "value", "fixed"), [
    ("{joints: {elbow: 1}, others: free}", (0, 1, 0, 0, 0, 0), (False, True, False, False, False, False)),
    ("{joints: {elbow: 1}, others: neutral}", (0, 1, 0, 0, 0, 0), (True,) * 6),
    ("{joints: {elbow: 1}, others: home}", (0.25, 1, 0.5, 0, 0, 0), (True,) * 6),
    ("{joints: {elbow: 1}, velocities: {wrist: 2}, others: home}", (0.25, 1, 0.5, 0, 0, 2), (True,) * 6),
    ("{joints: {elbow: 1}, rest: true, others: free}", (0, 1, 0, 0, 0, 0), (False, True, False, True, True, True)),
    ("{configuration: home, rest: true}", (0.25, 0.75, 0.5, 0, 0, 0), (True,) * 6),
    ("{joints: {shoulder: 1, elbow: 2, wrist: 0}, velocities: {shoulder: 1, elbow: 2, wrist: 3}}", (1, 2, 0, 1, 2, 3), (True,) * 6),
])
def test_others_are_what_the_file_says(folder: Path, start: str, value: tuple[float, ...], fixed: tuple[bool, ...]) -> None:
    found = robot(folder, start).problem.phase.start
    assert found is not None
    assert found.value == value
    assert found.fixed == fixed


def test_a_start_that_is_all_free_is_none(folder: Path) -> None:
    assert robot(folder, "{others: free}").problem.phase.start is None


@pytest.mark.parametrize(("start", "words"), [
    ("{others: hoem}", "expected free (the solver chooses), neutral (zero, at rest) or one of home (at rest), got 'hoem'"),
    ("{others: yes}", "got 'yes'"),
    ("{others: 0}", "start.others: expected text; got the number 0"),
])
def test_a_word_of_no_meaning_is_refused(folder: Path, start: str, words: str) -> None:
    with pytest.raises(ProblemError) as caught:
        robot(folder, start)
    assert words in str(caught.value)


def test_a_neutral_joint_outside_its_limits_is_refused(folder: Path) -> None:
    (folder / "arm.urdf").write_text(URDF.replace('lower="-2"', 'lower="0.1"', 1))
    with pytest.raises(ProblemError, match=r"5:51: phase\.start\.others: 'q\.shoulder' is 0, outside its bounds \[0\.1, 2\]"):
        robot(folder, "{joints: {elbow: 1}, rest: true, others: neutral}")
    assert robot(folder, "{joints: {elbow: 1}, rest: true, others: free}").problem.phase.start is not None


def test_a_configuration_that_bears_one_of_the_words_must_be_distinguished(folder: Path) -> None:
    (folder / "arm.srdf").write_text(SRDF.replace('"home"', '"neutral"'))
    with pytest.raises(ProblemError, match="write configuration: neutral for that one"):
        robot(folder, "{configuration: neutral, others: neutral}")


def test_the_parts_of_a_floating_base(folder: Path) -> None:
    with pytest.raises(ProblemError) as caught:
        robot(folder, "{base: {position: [0, 0, 1], linear_velocity: [0, 0, 0]}, configuration: home}", "free_flyer")
    message = str(caught.value)
    # a named configuration places the joints and, as ever, the base
    assert "base.angular_velocity, velocity of 'shoulder', velocity of 'elbow', velocity of 'wrist' are not named" in message
    with pytest.raises(ProblemError, match=r"start: base\.rotation is not named"):
        robot(folder, "{base: {position: [0, 0, 1]}, joints: {shoulder: 0, elbow: 0, wrist: 0}, rest: true}", "free_flyer")
    start = robot(folder, "{base: {position: [0, 0, 1]}, others: neutral}", "free_flyer").problem.phase.start
    assert start is not None
    np.testing.assert_array_equal(start.value, [0, 0, 1, 1, *np.zeros(15)])
    assert all(start.fixed)


PHASES = """name: Two
system: {robot: arm.urdf}
phases:
  - {name: a, duration: 1, start: {others: neutral}, costs: []}
  - {name: b, duration: 1, START costs: []}
"""


def test_later_phases_go_on_from_the_one_before(folder: Path) -> None:
    problem = load_text(PHASES.replace("START", "start: {joints: {elbow: 0}},"), folder).problem
    assert problem.phases[1].start is not None
    assert sum(problem.phases[1].start.fixed) == 1
    assert load_text(PHASES.replace("START", ""), folder).problem.phases[1].start is None
    with pytest.raises(ProblemError, match=r"5:36: phases\[1\]\.start\.others: only the first phase has"):
        load_text(PHASES.replace("START", "start: {others: neutral},"), folder)
    with pytest.raises(ProblemError, match=r"4:35: phases\[0\]\.start: joint 'elbow', joint 'wrist' are not named"):
        load_text(PHASES.replace("START", "").replace("others: neutral", "joints: {shoulder: 0}, rest: true"), folder)


# ---- systems of differential equations ------------------------------------------------------------------------------------
@pytest.mark.parametrize(("start", "where", "left"), [
    ("{h: 1}", "5:10", "v, m are not named"), ("{h: 1, m: 2}", "5:10", "v is not named"), ("", "4:3", "h, v, m are not named"),
    ("{}", "5:10", "h, v, m are not named"),
])
def test_states_left_out_are_listed(start: str, where: str, left: str) -> None:
    with pytest.raises(ProblemError) as caught:
        system(start)
    assert str(caught.value) == (f"problem.yaml:{where}: phase.start: {left}; give a value, or say what holds for the rest, "
                                 "others: free (the solver chooses) or others: neutral (zero)")


@pytest.mark.parametrize(("start", "value", "fixed"), [
    ("{h: 1, others: free}", (1, 0, 0), (True, False, False)), ("{h: 1, others: neutral}", (1, 0, 0), (True,) * 3),
    ("{h: 1, v: 2, m: 3}", (1, 2, 3), (True,) * 3), ("[1, 2, 3]", (1, 2, 3), (True,) * 3), ("4", (4, 4, 4), (True,) * 3),
])
def test_other_states_are_what_the_file_says(start: str, value: tuple[float, ...], fixed: tuple[bool, ...]) -> None:
    found = system(start).problem.phase.start
    assert found is not None
    assert (found.value, found.fixed) == (value, fixed)


def test_the_expanded_file_says_the_same() -> None:
    loaded = system("{h: 1, others: free}")
    again = load_text(loaded.expanded())
    assert again.file.phase == loaded.file.phase
    assert again.problem.phase.start == loaded.problem.phase.start


@pytest.mark.parametrize("word", ["home", "0", "1"])
def test_other_words_about_states_are_refused(word: str) -> None:
    with pytest.raises(ProblemError, match=r"start\.others: expected free or neutral"):
        system(f"{{h: 1, others: {word}}}")


def test_no_state_may_bear_the_name_of_the_key() -> None:
    with pytest.raises(ProblemError, match="'others' is reserved"):
        load_text("name: a\nsystem: {states: {others: m}, dynamics: {others: 1}}\n"
                  "phase: {duration: 1, start: {others: 1}, costs: []}\n")


# ---- many joints ----------------------------------------------------------------------------------------------------------
def chain(count: int, folder: Path) -> float:
    """Seconds of the processor to load a file that names every joint of a chain."""
    links = "".join(_joint(f"j{i}", f"l{i}", f"l{i + 1}", -2) for i in range(count))
    (folder / "chain.urdf").write_text(f'<robot name="chain"><link name="l0"/>{links}</robot>')
    every = {key: ", ".join(f"j{i}: {key}" for i in range(count)) for key in ("0", "0.1", "[-1, 1]")}
    text = (f"name: Chain\nsystem: {{robot: chain.urdf}}\nphase:\n  duration: 1\n"
            f"  start: {{joints: {{{every['0']}}}, rest: true}}\n"
            f"  final: {{joints: {{{every['0.1']}}}, velocities: {{{every['0']}}}}}\n"
            f"  bounds: {{joints: {{{every['[-1, 1]']}}}}}\n  costs: []\n")
    begin = time.process_time()
    assert load_text(text, folder).problem.phase.system.nx == 2 * count
    return time.process_time() - begin


@pytest.mark.slow
def test_a_chain_of_a_thousand_joints_loads_in_seconds(tmp_path: Path) -> None:
    # 11 s on a core of an x86-64 of 2021; quadratic growth would be tenfold that
    assert chain(1000, tmp_path) < 40.0
