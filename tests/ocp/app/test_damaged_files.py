"""Damaged and hostile files: a clear message and exit code 2, or a valid problem; never a fault of ours."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest
from mutations import mutate
from repository import ROOT

from ocp.app import cli

PROBLEMS = ROOT / "problems"
QUICK = ("block_move.yaml", "cartpole_swingup.yaml", "goddard_arcs.yaml", "slip_hopper.yaml", "acrobot.yaml",
         "monopod_hopping.yaml", "mpc/cartpole_balance.yaml", "ik/ur5_pose.yaml", "models/acrobot.urdf", "models/monopod.urdf",
         "models/quadrotor.urdf")
EACH, EACH_SLOW = 30, 100
ROBOT = "name: a\nsystem: {{robot: {robot}, root: {root}}}\nphase: {{duration: 1, start: {{others: free}}, costs: []}}\n"


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gallery")
    for inner in ("", "mpc", "ik", "wbc", "redmax"):
        shutil.copytree(PROBLEMS / "models", folder / inner / "models")
    return folder


def check(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = cli.guarded(lambda: cli.check(path))
    return code, capsys.readouterr().err


def damage(name: str, seeds: range, gallery: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, kind = (PROBLEMS / name).read_bytes(), "yaml" if name.endswith("yaml") else "xml"
    path = gallery / name
    problem = path
    if kind == "xml":
        problem = gallery / "robot.yaml"
        problem.write_text(ROBOT.format(robot=name, root="free_flyer" if "quadr" in name else "fixed"))
    valid = 0
    for seed in seeds:
        path.write_bytes(mutate(data, kind, random.Random(f"{name} {seed}")))
        code, error = check(problem, capsys)
        assert code in (0, 2), f"mutation {seed} of {name}:\n{error}"
        assert code == 0 or error.startswith("error: "), error
        valid += code == 0
    assert valid < len(seeds), "not one mutation did any harm"
    if kind == "xml":
        shutil.copy(PROBLEMS / name, path)
    else:
        path.unlink()


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.sample(3)
def test_damaged_files_are_refused_in_words(name: str, gallery: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(name, range(EACH), gallery, capsys)


EVERY = sorted(str(path.relative_to(PROBLEMS)) for pattern in ("**/*.yaml", "models/*.urdf") for path in PROBLEMS.glob(pattern))


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_any_damaged_file_of_the_gallery(name: str, gallery: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(name, range(1000, 1000 + EACH_SLOW), gallery, capsys)


# ---- one by one -----------------------------------------------------------------------------------------------------------
BLOCK = (PROBLEMS / "block_move.yaml").read_text(encoding="utf-8")
START = "start: {x: 0, v: 0}"
FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "a mark of byte order alone": (b"\xef\xbb\xbf", "the file is empty"),
    "binary": (bytes(range(256)), "not UTF-8 text"),
    "a zero byte": (b"name: a\0b", "the character '\\x00' is not allowed in YAML"),
    "two byte orders": (BLOCK.encode("utf-16"), "not UTF-8 text"),
    "a list as key": (BLOCK.replace(START, "? [a, b]\n  : 1").encode(), "a key must be text, not a list or mapping"),
    "a mapping as key": (BLOCK.replace(START, "? {a: b}\n  : 1").encode(), "a key must be text, not a list or mapping"),
    "a key like a tag": (BLOCK.replace(START, "<b>: 1").encode(), 'phase["<b>"]: unknown key'),
    "a key like a tag in a union": (BLOCK.replace("name: effort", "<list>: 1, name: effort").encode(),
                                    'phase.costs[0]["<list>"]: unknown key'),
    "a tag as the only key": (b"<b>: 1", '["<b>"]: unknown key'),
    "null as key": (BLOCK.replace(START, "null: 1").encode(), "a key must be text; put 'null' in quotes"),
    "no key": (BLOCK.replace(START, ": 1").encode(), "a key must be text; put the empty key in quotes"),
    "a long key": (BLOCK.replace(START, "k" * 100_000 + ": 1").encode(), "not valid YAML"),
    "a number of many digits": (BLOCK.replace("duration: 1.0", "duration: " + "9" * 301).encode(), "of 301 digits is too large"),
    "digits in an expression": (BLOCK.replace("force**2", "force*" + "9" * 5000).encode(), "not a valid expression"),
    "a count that is none": (BLOCK.replace("intervals: ", "intervals: nan").encode(), "intervals: unknown name 'nan"),
    "infinity": (BLOCK.replace("duration: 1.0", "duration: .inf").encode(), "expected a finite number"),
    "not a number": (BLOCK.replace("duration: 1.0", "duration: .nan").encode(), ".nan is not a number"),
    "depth": (b"{a: " * 5000, "nested deeper than 64 levels"),
    "an expression of depth": (BLOCK.replace("force**2", "(" * 3000 + "1" + ")" * 3000).encode(), "nested too deeply"),
    "a tower of powers": (BLOCK.replace("force**2", "force*9**9**9**9").encode(), "'9**9**9' has no finite value"),
    "many characters": (b"name: a\n" + b"# x\n" * 250_000, "at most 1000000 are read"),
    "many values": (b"- 1\n" * 60_000, "more than 50000 values; large matrices go into CSV files"),
    "an object of Python": (BLOCK.replace("duration: 1.0", "duration: !!python/object/apply:os.getcwd []").encode(),
                            "are not supported"),
    "half a character": (BLOCK.replace("name: Block move", 'name: "a\\ud800"').encode(), "name: "),
}


@pytest.mark.parametrize("what", FILES)
def test_odd_problem_files(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, words = FILES[what]
    (tmp_path / "p.yaml").write_bytes(data)
    code, error = check(tmp_path / "p.yaml", capsys)
    assert code == 2
    assert words in error


def test_marks_of_byte_order_and_line_ends_of_windows_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.yaml").write_bytes(b"\xef\xbb\xbf" + BLOCK.replace("\n", "\r\n").encode())
    assert check(tmp_path / "p.yaml", capsys) == (0, "")


def test_folders_are_not_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "robot.urdf").mkdir()
    assert "cannot read the file: Is a directory" in check(tmp_path, capsys)[1]
    (tmp_path / "p.yaml").write_text(ROBOT.format(robot="robot.urdf", root="fixed"))
    code, error = check(tmp_path / "p.yaml", capsys)
    assert code == 2
    assert "p.yaml:2:17: system.robot" in error
    assert "robot.urdf is a folder, not a file" in error


LINK = '<link name="a"><inertial><mass value="{}"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
ROBOTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not well-formed XML"),
    "binary": (bytes(range(1, 256)), "not well-formed XML"),
    "an encoding that nobody knows": (b'<?xml version="1.0" encoding="klingon"?><robot name="a"/>', "save the file as UTF-8"),
    "an encoding of several bytes": (b'<?xml version="1.0" encoding="utf-7"?><robot name="a"/>', "save the file as UTF-8"),
    "a thousand million laughs": (b'<!DOCTYPE r [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><robot name="&b;"/>',
                                  "declares the XML entity 'a'; entities are not read"),
    "another file": (b'<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]><robot name="&a;"/>', "entities are not read"),
    "depth": (b"<a>" * 100_000, "not well-formed XML"),
    "a mass beyond all numbers": (f'<robot name="r">{LINK.format("1e999")}</robot>'.encode(), "must be a finite number"),
    "a mass of many digits": (f'<robot name="r">{LINK.format("9" * 400)}</robot>'.encode(), "must be a finite number"),
    "no robot": (b"<sdf/>", "this is SDF"),
}


@pytest.mark.parametrize("what", ROBOTS)
def test_odd_robot_files(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, words = ROBOTS[what]
    (tmp_path / "r.urdf").write_bytes(data)
    (tmp_path / "p.yaml").write_text(ROBOT.format(robot="r.urdf", root="fixed"))
    code, error = check(tmp_path / "p.yaml", capsys)
    assert code == 2
    assert words in error
    assert f"system.robot: {tmp_path / 'r.urdf'}:1: " in error, "file and line of the robot, too"


# ---- numbers that mechanics cannot multiply, tables that are not text -----------------------------------------------------
SOLID = """name: a
system:
  bodies: {{b: {{joint: {{kind: revolute, axis: [0, 1, 0], position: [{position}, 0, 0]}}, {inertia}}}}}
phase: {{duration: 1, start: {{joints: {{b: 0}}, rest: true}}, costs: []}}
"""


@pytest.mark.parametrize(("position", "inertia", "at"), [
    ("0", "density: 1e308, shapes: [{box: [1, 1, 1]}]", "density"), ("0", "density: 1, shapes: [{box: [1e308, 1, 1]}]", "density"),
    ("0", "density: 1, shapes: [{sphere: 1e200}]", "density"),
    ("0", "density: 1, shapes: [{cylinder: {radius: 1e200, length: 1}}]", "density"),
    ("0", "mass: 1e308", "body 'b'"), ("0", "mass: 1, com: [1e150, 0, 0]", "body 'b'"), ("1e200", "mass: 1", "joint 'b'")])
def test_bodies_beyond_all_numbers(position: str, inertia: str, at: str, tmp_path: Path,
                                   capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.yaml").write_text(SOLID.format(position=position, inertia=inertia))
    code, error = check(tmp_path / "p.yaml", capsys)
    assert code == 2
    assert at in error
    assert "1e+100" in error


def test_links_beyond_all_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    robot = (PROBLEMS / "models" / "pendulum.urdf").read_text()
    (tmp_path / "r.urdf").write_text(re.sub(r'<mass value="[^"]*"', '<mass value="1e308"', robot, count=1))
    (tmp_path / "p.yaml").write_text(ROBOT.format(robot="r.urdf", root="fixed"))
    code, error = check(tmp_path / "p.yaml", capsys)
    assert code == 2
    assert "1e+100" in error


def test_a_table_that_is_not_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.yaml").write_text(BLOCK + "tables: {drag: drag.csv}\n")
    (tmp_path / "drag.csv").write_bytes(b"v,drag\n0,0\n\xac5,1\n")
    code, error = check(tmp_path / "p.yaml", capsys)
    assert code == 2
    assert "drag.csv:3: the file is not UTF-8 text" in error
