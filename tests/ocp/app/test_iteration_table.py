"""The iteration table of iLQR: its columns, marks and last line, in a pipe, on a terminal and in the report."""

import io
from dataclasses import replace

import pytest
from made_solutions import cart
from repository import ROOT

from ocp.app.files.load import load_problem
from ocp.app.pages.iterations import certificate_line, columns, highlighted, iteration_table
from ocp.app.pages.report import render_report
from ocp.app.pages.results import summarise
from ocp.methods import solve
from ocp.problem import Kind, Residual

FOLDER = ROOT / "problems"
PLAIN = {"cost": 2.0, "expected": 0.5, "gradient": 1e-3, "step": 1.0, "regularisation": 0.0, "trials": 1.0, "seconds": 0.0125}
HARD = {**PLAIN, "violation": 1e-2, "penalty": 10.0, "outer": 0.0}
NEWTON = {"gradient": 1e-9, "violation": 1e-12, "gap": 0.0, "step": 1.0, "trials": 1.0, "newton": 1.0, "seconds": 0.02}


def written(rows, **options):
    out = io.StringIO()
    with iteration_table("ilqr", stream=out, **options) as show:
        for k, row in enumerate(rows):
            show({"iteration": k, **row})
    return out.getvalue().splitlines()


def solved(name, options, method="ilqr"):
    out = io.StringIO()
    with iteration_table(method, stream=out) as show:
        problem = load_problem(FOLDER / f"{name}.yaml").problem
        solution = solve(problem, method, {"kernels": "interpreted", **options}, progress=show)
        show.finish(solution)
    return solution, out.getvalue().splitlines()


def test_columns_in_the_order_of_the_field():
    def names(row):
        return [c.title for c in columns("ilqr", [{"iteration": 0, **row}])]

    assert names(PLAIN) == ["iter", "cost", "expected", "gradient", "step", "reg", "trials", "time [ms]"]
    assert names({**HARD, "gap": 0.1}) == [
        "iter", "cost", "expected", "gradient", "violation", "gap", "penalty", "step", "reg", "trials", "time [ms]"]


def test_what_a_row_lacks_is_blank_and_the_header_does_not_wait_for_it():
    first = {k: v for k, v in PLAIN.items() if k != "expected"}
    lines = written([first, PLAIN])
    assert len(lines) == 3  # one header: the first row has no promise, its column is there
    assert lines[0].split() == ["iter", "cost", "expected", "gradient", "step", "reg", "trials", "time", "[ms]"]
    assert lines[1].split() == ["0", "2.00000000e+00", "1.00e-03", "1", "0.0e+00", "1", "12.5"]
    assert "5.00e-01" in lines[2]
    begin = lines[0].index("expected")
    assert lines[1][begin:begin + 8].strip() == ""
    assert len({len(line) for line in lines}) == 1


def test_the_header_comes_again_every_twenty_rows():
    lines = written([PLAIN] * 45)
    assert [k for k, line in enumerate(lines) if "iter" in line] == [0, 21, 42]


def test_rows_of_newton_are_marked_and_bring_no_columns():
    lines = written([PLAIN, NEWTON, {**NEWTON, "cost": 1.5}])
    assert len(lines) == 4
    assert lines[1].split()[-1] == "12.5"
    assert [line.split()[-1] for line in lines[2:]] == ["newton", "newton"]
    assert "1.00e-12" not in "".join(lines)  # the problem has no constraints: nothing to violate
    assert lines[2].split() == ["1", "1.00e-09", "1", "1", "20.0", "newton"]
    assert "1.50000000e+00" in lines[3]
    assert "1.00e-12" in written([HARD, NEWTON])[2]


def test_updates_of_the_multipliers_are_marked_where_they_take_effect():
    rows = [HARD, HARD, {**HARD, "outer": 1.0, "penalty": 100.0}, {**HARD, "outer": 1.0}, {**HARD, "outer": 3.0}]
    words = [line.split()[-2:] for line in written(rows)[1:]]
    assert words[2] == ["outer", "1"]
    assert words[4] == ["outer", "3"]
    assert not any("outer" in word for word in (words[0], words[1], words[3]))
    # a table that begins in the middle, after a resume, has nothing to mark at its first row
    assert "outer" not in "".join(written([{**HARD, "outer": 4.0}]))


def test_the_terminal_shows_the_same_and_ends_with_the_certificate(monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    out = io.StringIO()
    with iteration_table("ilqr", stream=out, live=True) as show:
        for k in range(30):
            show({"iteration": k, **HARD, "outer": float(k // 25)})
        for k in range(30, 50):
            show({"iteration": k, **NEWTON})
        show.finish(cart())
    text = out.getvalue()
    last = text[text.rindex("iter"):]
    assert "violation" in last  # although the rows with it have scrolled away
    assert "penalty" in last
    assert last.count("newton") == 16
    assert certificate_line(cart()) in last
    for title in ("expected", "reg", "trials", "time [ms]"):
        assert title in last


def test_a_narrow_terminal_loses_columns_and_no_digits(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = io.StringIO()
    with iteration_table("ilqr", stream=out, live=True) as show:
        for k in range(30):
            show({"iteration": k, **HARD, "gap": 0.1, "outer": float(k // 25)})
    last = out.getvalue()[out.getvalue().rindex("iter "):]
    assert "\N{HORIZONTAL ELLIPSIS}" not in last
    assert {"cost", "gradient", "violation", "gap", "step"} <= set(last.splitlines()[0].split())
    assert "trials" not in last
    assert "outer 1" in last


def test_nothing_is_shown_where_nothing_is_asked_for():
    out = io.StringIO()
    with iteration_table("ilqr", stream=out, quiet=True) as show:
        show({"iteration": 0, **PLAIN})
        show.finish(cart())
    assert out.getvalue() == ""


def test_the_last_line_is_the_certificate():
    line = certificate_line(cart())
    assert line == ("certificate holds: gradient 3.0e-09, violation 2.0e-09, compl. 0.0e+00, gap 2.0e-06, "
                    "error 1.0e-05, energy 1.0e-06")
    broken = replace(cart().certificate, stationarity=Residual(Kind.STATIONARITY, 1.0, 1e-6), energy=None)
    assert certificate_line(cart(certificate=broken)).startswith("certificate fails: gradient 1.0e+00")
    assert "energy" not in certificate_line(cart(certificate=broken))
    assert certificate_line(cart(certificate=None)) == "certificate: none"


def test_a_solve_with_constraints_as_it_is_written():
    solution, lines = solved("block_move", {"intervals": 20, "polish": "never"})
    rows = [line for line in lines if line.split()[0].isdigit()]
    assert len(rows) == len(solution.iterations)
    outer = [int(line.split()[-1]) for line in rows if "outer" in line]
    assert outer == sorted(set(outer))
    assert outer[-1] == solution.iterations[-1]["outer"] >= 1
    times = [row["seconds"] for row in solution.iterations]
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] <= solution.seconds["solve"]
    assert lines[-1] == certificate_line(solution)


def test_a_solve_that_newton_finishes():
    solution, lines = solved("block_move", {"intervals": 20, "polish": "newton"})
    newton = [row for row in solution.iterations if row.get("newton")]
    assert newton
    assert sum(line.endswith("newton") for line in lines) == len(newton)
    assert "cost" in solution.iterations[-1]
    assert [row["iteration"] for row in solution.iterations] == list(range(len(solution.iterations)))


def test_gaps_are_shown_where_states_are_guessed():
    _, single = solved("pendulum_swingup", {"shooting": "single", "intervals": 30, "max_iterations": 3})
    _, feasible = solved("pendulum_swingup", {"shooting": "feasible", "intervals": 30, "max_iterations": 3})
    assert "gap" not in single[0]
    assert "gap" in feasible[0].split()


@pytest.mark.parametrize("rows", [[PLAIN, PLAIN], [HARD, {**HARD, "outer": 1.0}, NEWTON]], ids=["plain", "marked"])
def test_the_report_has_the_same_table(rows):
    log = [{"iteration": k, **row} for k, row in enumerate(rows)]
    summary = summarise(replace(cart(), method="ilqr", iterations=tuple(log)), {})
    page = render_report(summary, log, problem_yaml="", images={})
    assert "time [ms]" in page
    assert "<td class=\"n\">12.5</td>" in page
    words = [row.get("mark", "") for row in highlighted(log)]
    assert words == (["", ""] if len(rows) == 2 else ["", "outer 1", "newton"])
    for word in filter(None, words):
        assert f">{word}</td>" in page
    assert ("outer" in page) is (len(rows) == 3)
