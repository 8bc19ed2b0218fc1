"""Tables of problem files: values as NumPy and SciPy give them, in files as written out, and mistakes with their place."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline, RectBivariateSpline

from ocp.app.files.load import load_problem, load_text
from ocp.errors import ProblemError

FILE = """
name: Falling through a table
tables:
  drag: {table}
system:
  states: {{h: m, v: m/s}}
  controls: {{u: N}}
  dynamics: {{h: v, v: "u - {call}"}}
phase:
  duration: 1
  start: {{h: 0, v: 0}}
  costs: [{{name: effort, running: u**2}}]
"""
X, VALUES = [0.0, 1.0, 2.5, 4.0], [1.0, 3.0, -2.0, 0.5]
Y = [-1.0, 0.0, 2.0]
GRID = [[1.0, 2.0, 0.0], [3.0, -1.0, 1.0], [0.5, 0.5, 4.0], [2.0, 1.0, 1.5]]


def rate(table, call, h, v, folder="."):
    system = load_text(FILE.format(table=table, call=call), folder).problem.phase.system
    return -float(np.asarray(system.rate(0, [h, v], [0], []))[1, 0])


@pytest.mark.parametrize("at", [-1.0, 0.0, 0.3, 1.0, 2.2, 3.9, 4.0, 6.0])
def test_one_dimension(at):
    assert rate(f"{{x: {X}, values: {VALUES}}}", "drag(h)", at, 0) == pytest.approx(np.interp(at, X, VALUES))
    smooth = CubicSpline(X, VALUES, bc_type="natural")
    inside = np.clip(at, X[0], X[-1])
    wanted = smooth(inside) + smooth(inside, 1) * (at - inside)  # straight on outside
    assert rate(f"{{x: {X}, values: {VALUES}, smooth: true}}", "drag(h)", at, 0) == pytest.approx(wanted)


@pytest.mark.parametrize("at", [(0.4, -0.5), (2.5, 2.0), (3.3, 1.1), (0.0, 0.0), (-1, 5)])
def test_two_dimensions(at):
    table = f"{{x: {X}, y: {Y}, values: {GRID}}}"
    linear = RectBivariateSpline(X, Y, GRID, kx=1, ky=1)  # clips its arguments to the grid
    assert rate(table, "drag(h, v)", *at) == pytest.approx(float(linear(np.clip(at[0], 0, 4), np.clip(at[1], -1, 2))[0, 0]))


def test_two_smooth_dimensions_are_splines_of_splines():
    table = f"{{x: {X}, y: {Y}, values: {GRID}, smooth: true}}"
    row = CubicSpline(X, np.array(GRID), bc_type="natural")(1.7)
    assert rate(table, "drag(h, v)", 1.7, 0.6) == pytest.approx(float(CubicSpline(Y, row, bc_type="natural")(0.6)))


def test_csv_files_are_the_same_and_move_with_the_problem(tmp_path):
    (tmp_path / "one.csv").write_text("speed, drag\n" + "\n".join(f"{x},{y}" for x, y in zip(X, VALUES, strict=True)))
    (tmp_path / "two.csv").write_text("x\\y," + ",".join(map(str, Y)) + "\n# a remark\n"
                                      + "\n".join(",".join(map(str, [x, *row])) for x, row in zip(X, GRID, strict=True)))
    assert rate("one.csv", "drag(h)", 1.7, 0, tmp_path) == pytest.approx(np.interp(1.7, X, VALUES))
    assert rate("{file: two.csv}", "drag(h, v)", 1.7, 0.6, tmp_path) == pytest.approx(
        rate(f"{{x: {X}, y: {Y}, values: {GRID}}}", "drag(h, v)", 1.7, 0.6))

    import ocp
    from ocp.app.files.problem.portable import portable

    (tmp_path / "p.yaml").write_text(FILE.format(table="one.csv", call="drag(h)"))
    (tmp_path / "in").mkdir()
    moved = ocp.load(tmp_path / "p.yaml").save(tmp_path / "in" / "p.yaml")
    assert "../one.csv" in moved.read_text()
    alone = portable(load_problem(moved))
    assert list(alone.files) == ["models/one.csv"]
    assert "models/one.csv" in alone.text


@pytest.mark.parametrize(("table", "call", "words"), [
    ("none.csv", "drag(h)", "tables.drag: no file none.csv"),
    ("some.txt", "drag(h)", r"expected a .csv file"),
    (f"{{x: {X}}}", "drag(h)", "needs a 'file', or 'x' and 'values'"),
    ("{x: [0, 1], values: [1, 2, 3]}", "drag(h)", "3 entries for 2 points x"),
    ("{x: [0, 1, 1], values: [1, 2, 3]}", "drag(h)", "x must increase; 1 follows 1"),
    ("{x: [0, 1], y: [0, 1], values: [[1, 2], 3]}", "drag(h, v)", r"values\[1\]: expected a row of 2 numbers"),
    ("{x: [0, 1], values: [1, 2]}", "drag(h, v)", "drag takes 1 argument, got 2"),
    ("{x: [0, 1], values: [1, 2]}", "darg(h)", "unknown function 'darg'.*did you mean 'drag'"),
    ("{x: [0, 1], values: [1, 2]}", "drag", "'drag' is a function; call it"),
])
def test_mistakes_have_a_place(table, call, words):
    with pytest.raises(ProblemError, match=words):
        load_text(FILE.format(table=table, call=call))


def test_a_table_of_numbers_says_which_line_is_wrong(tmp_path):
    (tmp_path / "one.csv").write_text("x,y\n0,1\n1,two\n")
    with pytest.raises(ProblemError, match="one.csv:3: entry 2 is 'two', not a finite number"):
        load_text(FILE.format(table="one.csv", call="drag(h)"), tmp_path)
