"""Names that users invent reach files: columns, archives, reports, screens. None of them may do anything there."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console

from ocp.app import cli
from ocp.app.files.load import load_problem, load_text
from ocp.app.pages.derivative_check import print_derivative_check
from ocp.app.pages.folders import csv_text
from ocp.derivative_check import check_derivatives
from ocp.errors import ProblemError

TEXT = """\
name: "[/red] <script>alert(1)</script> =1+1"
system: {states: {x: m, v: m/s}, controls: {force: N}, dynamics: {x: v, v: force}}
phase:
  duration: 1
  start: {x: 0, v: 0}
  final: {x: 1, v: 0}
  costs: [{name: "=2+5 [/b] <script>alert(2)</script>", running: force**2}]
  constraints: [{name: "@SUM(1) [/b] <script>alert(3)</script>", expression: v, upper: 3}]
solve: {method: collocation, collocation: {intervals: 10}}
"""
PHASES = """\
name: Two
system: {states: {x: m}, controls: {u: m/s}, dynamics: {x: u}}
phases:
  - {name: NAME, duration: 1, start: {x: 0}, costs: []}
"""


@pytest.mark.parametrize("name", ["stance", "second burn", "to the first gate", "a_1-b", "Käfig"])
def test_names_of_phases(name: str) -> None:
    assert load_text(PHASES.replace("NAME", name)).problem.phases[0].name == name


@pytest.mark.parametrize("name", ["../../evil", "=1+1", "a/b", "a.b", "-a", "1a", "a  b", "' a'", "'a '", '"a\\nb"', "'@a'", "'+a'",
                                  "a\\b"])
def test_names_of_phases_that_would_be_paths_or_formulas(name: str) -> None:
    with pytest.raises(ProblemError, match=r"4:12: phases\[0\]\.name: .*(cannot name a phase|is one line of text)"):
        load_text(PHASES.replace("NAME", name))


@pytest.mark.parametrize("name", ['"a\\nb"', '"a\\x1b[31m"', '"a\\u202eb"', "x" * 201])
def test_names_are_one_short_line(name: str) -> None:
    with pytest.raises(ProblemError, match=r"1:7: name: (a name is one line|a name of 201 characters)"):
        load_text(PHASES.replace("Two", name).replace("NAME", "a"))


def test_cells_that_look_like_formulas_are_text() -> None:
    rows = [["t", "=cmd|' /C calc'!A0", "+1+1", "-x", "@SUM(1)", "\tx"], [1.5, "-1.5", "-inf", "+1e3", "nan", -2]]
    read = list(csv.reader(io.StringIO(csv_text(rows))))
    assert read[0] == ["t", "'=cmd|' /C calc'!A0", "'+1+1", "'-x", "'@SUM(1)", "'\tx"]
    assert read[1] == ["1.5", "-1.5", "-inf", "+1e3", "nan", "-2"]


URDF = """<robot name="=r"><link name="base"/><link name="arm"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0"
ixz="0" iyz="0"/></inertial></link><joint name="=1+1" type="continuous"><parent link="base"/><child link="arm"/></joint></robot>"""


def test_a_run_with_such_names(tmp_path: Path) -> None:
    (tmp_path / "r.urdf").write_text(URDF)
    (tmp_path / "p.yaml").write_text("name: '<b>'\nsystem: {robot: r.urdf}\nphase:\n  duration: 1\n  start: {others: neutral}\n"
                                     "  final: {joints: {'=1+1': 1}, rest: true}\n  costs: [{name: effort, control_error: 0}]\n"
                                     "solve: {method: collocation, collocation: {intervals: 10}}\n")
    assert cli.guarded(lambda: cli.solve(tmp_path / "p.yaml", out=tmp_path / "run", quiet=True)) == 0
    header = (tmp_path / "run" / "trajectory.csv").read_text().splitlines()[0]
    assert header == "t,q.=1+1,v.=1+1,'=1+1"
    (tmp_path / "s.yaml").write_text(TEXT.replace("[/red] ", ""))
    assert cli.guarded(lambda: cli.solve(tmp_path / "s.yaml", out=tmp_path / "srun", quiet=True)) == 0
    page = (tmp_path / "srun" / "report.html").read_text()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert(" not in page


def test_brackets_in_names_are_no_markup(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(TEXT)
    out = io.StringIO()
    print_derivative_check(check_derivatives(load_problem(tmp_path / "p.yaml").problem, points=1), Console(file=out, width=300))
    assert "[/red] <script>" in out.getvalue()
    assert "=2+5 [/b]" in out.getvalue()
