"""``ocp derivatives``: what is measured, what is compared with what, what is recommended, what is written, and what is refused."""

import csv
import json
import re
import time

import casadi as ca
import numpy as np
import pytest
from pages import Page
from repository import ROOT
from rich.console import Console

from dynamics.derivatives.candidates import QUANTITIES, Candidate
from dynamics.kernels import find_compiler
from ocp.app.derivative_study import figures
from ocp.app.derivative_study import study as studies
from ocp.app.derivative_study.judge import EXACT, choose, duration, many, recommend
from ocp.app.derivative_study.measure import FUNCTIONS, SOURCES, Effort, Entry, microseconds
from ocp.app.derivative_study.run import COLUMNS, derivatives
from ocp.app.derivative_study.study import Pattern, Settings, chosen, run_study
from ocp.app.derivative_study.target import find_target
from ocp.errors import ProblemError

MODELS = ROOT / "problems" / "models"
PENDULUM, ACROBOT, UR5, QUADRUPED = (str(MODELS / f"{name}.urdf") for name in ("pendulum", "acrobot", "ur5", "quadruped"))
SYMBOLIC = ["ad_sx", "ad_mx", "ad_of_analytic", "analytic", "complex_step", "fd"]


def run(robot, out, **options):
    """Exit code and what was printed."""
    console = Console(record=True, width=100, highlight=False, force_terminal=False)
    where = {name: options.pop(name) for name in ("root", "mimic") if name in options}
    named = {name: chosen(options.pop(name)) for name in ("functions", "sources", "contacts") if name in options}
    code = derivatives(robot, Settings(**named, **options, quick=True), out=out, console=console, **where)
    return code, console.export_text()


@pytest.fixture(scope="module")
def acrobot(tmp_path_factory):
    """(folder, exit code, text): everything for a small robot, compiled where the limits allow."""
    out = tmp_path_factory.mktemp("derivatives") / "acrobot"
    code, text = run(ACROBOT, out, compiling="no")
    return out, code, text


@pytest.mark.row("002:H25")
def test_every_exact_source_agrees_and_everything_is_written(acrobot):
    out, code, text = acrobot
    assert code == 0
    assert {p.name for p in out.iterdir()} == {"derivatives.csv", "summary.json", "report.html", "times.png",
                                               "errors.png", "sparsity.png"}
    rows = list(csv.DictReader((out / "derivatives.csv").read_text().splitlines()))
    assert list(rows[0]) == ["robot", *COLUMNS, "recommended"]
    assert {(r["function"], r["source"]) for r in rows} == {(f, s) for f in QUANTITIES for s in SOURCES}
    for row in rows:
        if row["status"] == "measured":
            assert float(row["error"]) < (1e-3 if row["source"] == "fd" else 1e-12), row
            assert float(row["interpreted_us"] or row["compiled_us"]) > 0
        else:
            assert row["status"] == "skipped"
            assert row["reason"], row
    measured = {(r["function"], r["source"]) for r in rows if r["status"] == "measured"}
    assert {(f, s) for f in QUANTITIES for s in ("analytic", "loop")} <= measured
    assert {(f, s) for f, q in QUANTITIES.items() if q.order == 2 for s in SYMBOLIC} <= measured
    assert all((out / f"{n}.png").read_bytes().startswith(b"\x89PNG") for n in ("times", "errors", "sparsity"))
    for words in ("Recommended for this robot", "not compiled: --compile no", "report.html"):
        assert words in text


def test_the_records_say_who_is_compared_with_whom(acrobot):
    summary = json.loads((acrobot[0] / "summary.json").read_text())
    assert (summary["ok"], summary["complete"]) == (True, True)
    assert {f: r["source"] for f, r in summary["references"].items() if QUANTITIES[f].order} == {
        f: "complex_step" for f, q in QUANTITIES.items() if q.order}
    for function, reference in summary["references"].items():
        assert reference["confirmed_by"] not in ("", reference["source"], "fd"), function
        assert reference["distance"] < 1e-12
    assert {p["function"] for p in summary["recommended"]} == set(QUANTITIES)
    assert summary["provenance"]["seed"] == 0
    assert summary["provenance"]["model"]["sha256"]


def test_the_page_needs_nothing_else(acrobot):
    text = (acrobot[0] / "report.html").read_text()
    page = Page(text)
    assert page.links
    assert all(link.startswith("data:") for link in page.links)
    assert not page.all("script")
    assert len(page.all("img")) == 3
    for words in ("All agree", "Recommended for this robot", "confirmed by", "Sparsity"):
        assert words in text
    assert not re.search(r"\bNone\b|\bnan\b", re.sub(r'base64,[^"]*', "", text))  # pictures as text may hold any word


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
def test_compiled_code_is_timed_and_its_price_is_reported(tmp_path):
    code, _ = run(UR5, tmp_path / "x", functions=["inverse_first"], sources=["ad_sx,analytic,loop"], compiling="yes")
    assert code == 0
    rows = {r["source"]: r for r in csv.DictReader((tmp_path / "x" / "derivatives.csv").read_text().splitlines())}
    assert set(rows) == {"ad_sx", "analytic", "loop"}
    for source in ("ad_sx", "analytic"):
        row = rows[source]
        # in a loop and by address: tens of times below what a call from Python would cost
        assert float(row["compiled_us"]) < float(row["interpreted_us"]) / 3
        assert float(row["compile_s"]) > 0.02
    assert int(rows["analytic"]["operations"]) < int(rows["ad_sx"]["operations"])
    assert int(rows["ad_sx"]["nonzeros"]) < 3 * 6 * 6
    assert float(rows["loop"]["compile_s"]) == 0.0


# ---- a wrong source
@pytest.mark.parametrize("source", ["analytic", "complex_step", "ad_sx"])
def test_a_wrong_source_is_shown_and_never_recommended(source, tmp_path, monkeypatch):
    """One sign of one output flipped: also of the source that would be the reference."""
    honest = Candidate.build

    def flipped(self, dense=False):
        f = honest(self, dense)
        if f is None or self.source != source:
            return f
        x = f.mx_in()
        first, *rest = f.call(x)
        return ca.Function(f.name(), x, [-first, *rest], f.name_in(), f.name_out())

    monkeypatch.setattr(Candidate, "build", flipped)
    code, text = run(ACROBOT, tmp_path / "x", functions=["inverse_first"], compiling="no")
    assert code == 1
    record = json.loads((tmp_path / "x" / "summary.json").read_text())
    rows = csv.DictReader((tmp_path / "x" / "derivatives.csv").read_text().splitlines())
    errors = {e["source"]: float(e["error"]) for e in rows if e["error"]}
    assert errors[source] > 0.1
    assert all(errors[s] < EXACT for s in errors if s != source)
    assert record["references"]["inverse_first"]["source"] == ("ad_sx" if source == "complex_step" else "complex_step")
    assert [p["source"] for p in record["recommended"]] != [source]
    assert len(record["recommended"]) == 1
    assert f"wrong  {FUNCTIONS['inverse_first']}, {SOURCES[source][0]}" in text
    assert "Not all agree" in (tmp_path / "x" / "report.html").read_text()


def test_a_source_that_breaks_is_named_and_the_rest_goes_on(tmp_path, monkeypatch):
    honest = Candidate.build

    def broken(self, dense=False):
        if self.source == "analytic":
            raise RuntimeError("out of paper")
        return honest(self, dense)

    monkeypatch.setattr(Candidate, "build", broken)
    code, text = run(PENDULUM, tmp_path / "x", functions=["inverse_first"], compiling="no")
    assert code == 1
    assert "out of paper" in text
    assert text.count("wrong  ") == 1
    rows = csv.DictReader((tmp_path / "x" / "derivatives.csv").read_text().splitlines())
    assert {e["source"]: e["status"] for e in rows}["analytic"] == "failed"
    record = json.loads((tmp_path / "x" / "summary.json").read_text())
    assert record["recommended"][0]["source"] != "analytic"


def test_a_reference_that_nobody_confirms_says_so():
    one, other, third = ((np.array([1.0]),),), ((np.array([2.0]),),), ((np.array([3.0]),),)
    lonely = choose({"analytic": one})
    assert (lonely.source, lonely.distance) == ("analytic", None)
    assert "nothing else" in lonely.sentence
    divided = choose({"complex_step": one, "ad_sx": other, "loop": third})
    assert divided.source == "complex_step"
    assert divided.distance == pytest.approx(1.0)
    assert choose({"complex_step": one, "ad_sx": other, "loop": other}).source == "ad_sx"
    infinite = ((np.array([np.nan]),),)
    assert choose({"complex_step": infinite, "ad_sx": other, "loop": other}).source == "ad_sx"


# ---- recommendations
def entry(source, error=1e-15, **numbers):
    return Entry("inverse_first", source, error=error, **numbers)


def test_the_break_even_is_the_arithmetic_of_the_table():
    """Compiling costs 2 s and saves 8 us against the loop: 250 000 evaluations."""
    found = recommend("inverse_first", [
        entry("analytic", build_s=0.5, compile_s=1.5, interpreted_us=50.0, compiled_us=2.0),
        entry("loop", build_s=0.0, compile_s=0.0, compiled_us=10.0),
        entry("fd", error=1e-12, build_s=0.0, compile_s=0.0, compiled_us=0.1),
        entry("ad_sx", error=1e-8, build_s=0.0, compiled_us=0.3, compile_s=0.0)])
    assert (found.source, found.execution, found.microseconds) == ("analytic", "compiled", 2.0)
    assert found.break_even == pytest.approx(2.0 / 8e-6)
    assert "250" in found.why
    assert "before that use loop" in found.why
    assert "graph" not in found.why


def test_a_loop_is_recommended_with_what_can_stand_in_a_graph():
    found = recommend("inverse_first", [entry("analytic", build_s=0.5, interpreted_us=50.0),
                                        entry("loop", build_s=0.0, compile_s=0.0, compiled_us=10.0)])
    assert (found.source, found.execution, found.break_even) == ("loop", "loop", None)
    assert "in an expression graph: analytic, interpreted, 50 µs" in found.why
    assert "5 times as long" in found.why
    assert recommend("inverse_first", [entry("analytic", error=1e-8, interpreted_us=1.0)]) is None


def test_numbers_are_written_for_reading():
    assert [duration(x) for x in (0.0123, 12.345, 1234.5, 2.5e6)] == ["0.0123 µs", "12.3 µs", "1.23 ms", "2.5 s"]
    assert [many(x).replace("\u202f", " ") for x in (0.2, 99.0, 101.0, 249_999.0)] == ["1", "99", "110", "250 000"]


# ---- interrupts
def test_an_interrupt_keeps_what_is_there(tmp_path, monkeypatch):
    honest, calls = studies.measure, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return honest(*arguments)

    monkeypatch.setattr(studies, "measure", interrupted)
    code, text = run(PENDULUM, tmp_path / "x", sources=["analytic", "loop"], compiling="no")
    assert code == 1
    assert "interrupted" in text
    rows = list(csv.DictReader((tmp_path / "x" / "derivatives.csv").read_text().splitlines()))
    assert len(rows) == 2 * len(QUANTITIES)
    assert [r["status"] for r in rows].count("measured") == 6
    assert [r["reason"] for r in rows if r["status"] == "interrupted"] == ["not reached"] * (len(rows) - 6)
    summary = json.loads((tmp_path / "x" / "summary.json").read_text())
    assert (summary["complete"], summary["ok"]) == (False, False)
    assert "Incomplete" in (tmp_path / "x" / "report.html").read_text()


def test_an_interrupt_before_anything_leaves_no_folder(tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(studies, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(PENDULUM, tmp_path / "x", sources=["analytic"])
    assert list(tmp_path.iterdir()) == []


# ---- what is refused
@pytest.mark.parametrize(("options", "words"), [
    ({"functions": ["inverse_frist"]}, r"--functions: no function named 'inverse_frist'; did you mean 'inverse_first'"),
    ({"sources": ["loop,analytical"]}, r"--sources: no source named 'analytical'; did you mean 'analytic'"),
    ({"compiling": "oui"}, "--compile oui"), ({"samples": 0}, "--samples"), ({"seed": -1}, "--seed"),
    ({"root": "free_flier"}, "did you mean 'free_flyer'"), ({"mimic": "cuople"}, "did you mean 'couple'"),
])
def test_unknown_names_are_answered_with_what_is_near(options, words, tmp_path):
    with pytest.raises(ProblemError, match=words):
        run(PENDULUM, tmp_path / "x", **options)
    assert list(tmp_path.iterdir()) == []


# ---- contacts
def test_a_robot_that_is_held_is_measured_under_its_constraints(tmp_path):
    """A point of an arm held: every exact source of the derivatives of accelerations and forces agrees."""
    code, text = run(UR5, tmp_path / "x", contacts=["tool0"], compiling="no", samples=1,
                     functions=["constrained_first,forces,forces_first"], sources=["analytic", "loop", "complex_step"])
    assert code == 0
    assert "constraints: tool0" in text
    rows = list(csv.DictReader((tmp_path / "x" / "derivatives.csv").read_text().splitlines()))
    measured = {(r["function"], r["source"]): r for r in rows if r["status"] == "measured"}
    assert {("forces", "loop"), ("constrained_first", "loop"), ("forces_first", "complex_step")} <= set(measured)
    assert all(float(r["error"]) < EXACT for r in measured.values())
    assert int(measured["forces", "analytic"]["nonzeros"]) == 3
    assert json.loads((tmp_path / "x" / "summary.json").read_text())["robot"]["constraints"] == ["tool0"]


def test_contacts_of_a_file_are_known_by_their_names():
    target = find_target(str(MODELS.parent / "leg_leap.yaml"))
    name = target.constraints[0].name
    assert target.holding([name]).constraints == target.constraints[:1]
    with pytest.raises(ProblemError, match=rf"--contacts: no constraint or frame named '{name}x'; did you mean '{name}'"):
        target.holding([f"{name}x"])
    with pytest.raises(ProblemError, match="forces_first is of robots under constraints; name them by --contacts"):
        Settings(functions=("forces_first",))


def test_robots_that_do_not_exist(tmp_path):
    with pytest.raises(ProblemError, match=r"no file.*'pendulum.urdf'"):
        find_target(str(MODELS / "pendulm.urdf"))
    with pytest.raises(ProblemError, match="no robot, so .* ocp check-derivatives"):
        find_target(str(MODELS.parent / "block_move.yaml"))
    with pytest.raises(ProblemError, match="--root applies to URDF"):
        find_target(str(MODELS.parent / "ur5_reach.yaml"), root="free_flyer")
    with pytest.raises(ProblemError, match="no such file, and"):  # not in the collection, or no collection
        find_target("panda_hands_free")
    (tmp_path / "notes.txt").write_text("?")
    with pytest.raises(ProblemError, match="expected a robot"):
        find_target(str(tmp_path / "notes.txt"))


def test_the_robot_of_a_problem_or_of_an_ik_file():
    problem, ik = find_target(str(MODELS.parent / "quadrotor.yaml")), find_target(str(MODELS.parent / "ik" / "ur5_pose.yaml"))
    assert (problem.model.nv, problem.root) == (6, "free_flyer")
    assert (ik.model.nv, ik.name) == (6, "ur5_pose")


def test_a_folder_of_something_else_is_not_touched(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(ProblemError, match="holds no earlier run"):
        run(PENDULUM, tmp_path, sources=["loop"])
    assert (tmp_path / "mine.txt").read_text() == "keep"


# ---- parts
def test_the_stopwatch_measures_what_a_call_takes():
    def run_for(times):
        end = time.thread_time() + 200e-6 * times
        while time.thread_time() < end:
            pass

    assert microseconds(run_for, Effort(5, 0.004)) == pytest.approx(200.0, rel=0.1)


def test_patterns_show_the_tree():
    """Legs of a quadruped do not see each other in the inverse dynamics, and do through the base in the forward dynamics."""
    target = find_target(QUADRUPED, root="free_flyer")
    found = run_study(target, Settings(("inverse_first", "forward_first", "inverse_contracted"), ("analytic",), "no", quick=True))
    patterns = {p.title: p.marks for p in found.patterns}
    assert len(patterns) == 7
    assert found.patterns[0].names == target.model.velocity_names
    hessian = patterns["Hessian of λᵀτ by (q, v, a)"]
    assert np.array_equal(hessian, hessian.T)
    assert hessian[:36].any()
    assert not hessian[36:, 18:].any()  # tau is affine in a, and no mass depends on v
    M = patterns["∂τ/∂a = M"]
    assert np.array_equal(M, M.T)
    assert not M[6:9, 9:].any()
    assert (patterns["∂a/∂τ = M⁻¹"][6:9, 9:] == 2).all()
    assert not patterns["∂τ/∂q"][:, :3].any()  # nothing depends on where the robot stands


def test_patterns_show_the_names_of_joints(monkeypatch):
    drawn = []
    monkeypatch.setattr(figures.sheet, "png", drawn.append)
    figures.plot_patterns([Pattern("∂τ/∂q", np.array([[2, 0], [1, 2]]), ("shoulder_joint", "elbow_joint"))])
    panel, = drawn[0].axes
    assert panel.axison
    assert [text.get_text() for text in panel.get_yticklabels()] == ["shoulder", "elbow"]
