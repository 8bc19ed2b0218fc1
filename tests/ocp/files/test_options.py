"""Options of methods: what the methods share is declared once, and sections hold what once stood outside them."""

import itertools
from dataclasses import fields

import pytest

from ocp.app.documentation.pages import options_page
from ocp.app.files.load import load_text
from ocp.app.files.problem.schema import problem_json_schema
from ocp.app.files.syntax.findings import ProblemFileError
from ocp.app.pipeline import run_loaded
from ocp.app.sentences import sentence
from ocp.errors import ProblemError
from ocp.methods import METHODS, make_options, solve
from ocp.options import section_of, sections
from ocp.problem import Kind
from ocp.shooting.options import ILQROptions, Tuning

FILE = """\
name: Block
system: {states: {x: m, v: m/s}, controls: {force: N}, dynamics: {x: v, v: force}}
phase:
  duration: 1
  start: {x: 0, v: 0}
  final: {x: 1, v: 0}
  costs: [{name: effort, running: "force**2"}]
solve: {method: ilqr, ilqr: OPTIONS}
"""
SECTION = "{intervals: 20, kernels: interpreted, tuning: {polish: never, penalty: 2*10}}"
FLAT = "{intervals: 20, kernels: interpreted, polish: never, penalty: 2*10}"
EXPECTED = ILQROptions(intervals=20, kernels="interpreted", tuning=Tuning(polish="never", penalty=20.0))


def loaded(options, overrides=None):
    return load_text(FILE.replace("OPTIONS", options), overrides=overrides)


def declared(kind):
    """The class that first declares each field of a record, by name."""
    return {f.name: next(c for c in reversed(kind.__mro__) if f.name in vars(c).get("__annotations__", {})) for f in fields(kind)}


def test_fields_that_methods_share_are_declared_once():
    records = {name: declared(method.options_type()) for name, method in METHODS.items()}
    apart = {"controls", "execution", "hessian", "integrator"}  # of other choices and meanings in each family of methods
    for one, other in itertools.combinations(records.values(), 2):
        assert {name for name in {*one} & {*other} if one[name] is not other[name]} <= apart
    assert [len(own) for own in records.values()] == [21, 13, 14, 7]


def test_names_are_unique_across_sections():
    for method in METHODS.values():
        kind = method.options_type()
        inner = [f.name for record in sections(kind).values() for f in fields(record)]
        assert sorted(set(inner) - {f.name for f in fields(kind)}) == sorted(inner)
    assert set(section_of(ILQROptions)) == {f.name for f in fields(Tuning)}


@pytest.mark.parametrize("options", [SECTION, FLAT, FLAT.replace("}", ", tuning: {penalty: 20}}").replace("penalty: 2*10, ", "")])
def test_a_section_is_read_as_what_once_stood_outside(options):
    file = loaded(options)
    assert make_options("ilqr", file.options_for("ilqr")) == EXPECTED
    again = load_text(file.expanded())
    assert make_options("ilqr", again.options_for("ilqr")) == EXPECTED
    assert "tuning:" in file.expanded()
    moved = loaded(options, {"solve.ilqr.tuning.armijo": "0.25"})
    assert make_options("ilqr", moved.options_for("ilqr")).tuning == Tuning(polish="never", penalty=20.0, armijo=0.25)


@pytest.mark.parametrize(("given", "says"), [(SECTION, ""), (FLAT, "tuning: {polish: ..., penalty: ...}")])
def test_the_new_spelling_is_reported(given, says):
    found = run_loaded(loaded(given), "block", write=False).solution
    told = [sentence(one) for one in found.findings if one.kind is Kind.OPTIONS_IN_SECTION]
    assert found.ok
    assert says in told[0] if says else not told


def test_the_new_spelling_of_mappings_in_python_is_reported():
    problem, plain = loaded(SECTION).problem, {"intervals": 20, "kernels": "interpreted"}
    old = solve(problem, "ilqr", {**plain, "polish": "never"})
    new = solve(problem, "ilqr", {**plain, "tuning": {"polish": "never"}})
    assert [one for one in old.findings if one not in new.findings][0].data == {"sections": {"polish": "tuning"}}
    assert (old.objective, old.options) == (new.objective, new.options)


@pytest.mark.parametrize(("options", "where", "said"), [
    ("{tuning: {polis: never}}", "ilqr.tuning.polis", "unknown option of ilqr; did you mean 'polish'"),
    ("{tuning: {intervals: 3}}", "ilqr.tuning.intervals", "unknown option of ilqr"),
    ("{tuning: {armijo: 2}}", "ilqr.tuning.armijo", "armijo must lie strictly between 0 and 1"),
    ("{tuning: {polish: newtn}}", "ilqr.tuning.polish", "no polish named 'newtn'; did you mean 'newton'"),
    ("{polish: newtn}", "ilqr.polish", "no polish named 'newtn'; did you mean 'newton'"),
    ("{polish: never, tuning: {polish: never}}", "ilqr.tuning.polish", "polish is given twice"),
    ("{tuning: 3}", "ilqr.tuning", "expected a mapping; got the number 3"),
    ("{intervals: {a: 1}}", "ilqr.intervals", "expected a whole number"),
])
def test_mistakes_in_sections_have_their_place(options, where, said):
    with pytest.raises(ProblemFileError) as error:
        loaded(options)
    assert f"solve.{where}: {said}" in str(error.value)


def test_bad_values_in_python():
    for bad in ({"tuning": {"polish": "x"}}, {"polish": "x"}, {"tuning": {"nothing": 1}}, {"nothing": 1}):
        with pytest.raises(ProblemError, match="known: "):
            make_options("ilqr", bad)


def test_the_page_and_the_schema_have_the_section():
    page = options_page()
    assert all(text in page for text in ("### `tuning`", "| `armijo` | `0.1` |", "**penalty**"))
    for method in METHODS.values():
        for name in (f.name for f in fields(method.options_type())):
            assert f"**{name}**" in page, name
    schema = problem_json_schema()["$defs"]["Solve"]["properties"]["ilqr"]["properties"]["tuning"]
    assert schema["properties"]["penalty"]["default"] == 10.0
