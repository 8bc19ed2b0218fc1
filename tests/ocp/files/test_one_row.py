"""A key of the file language is one row: what is declared of it is validated, documented and read."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from ocp.app.documentation.keys import example, keys_page, mappings, types
from ocp.app.files.load import load_text
from ocp.app.files.problem.schema import KINDS, problem_json_schema
from ocp.app.files.problem.sections_schema import Common, Reference
from ocp.app.files.syntax.findings import ProblemFileError, paths
from ocp.app.files.syntax.parts import Key, Number, Row, row_of
from ocp.app.files.syntax.yaml_source import parse_source
from ocp.problem import Reference as Optimum

TEXT = """
name: Block
constants: {century: 1900}
reference: {objective: 1, YEAR}
system: {states: {x: m}, controls: {u: m/s}, dynamics: {x: u}}
phase: {duration: 1, start: {x: 0}, costs: [{name: c, running: u**2}]}
"""
MEANING = "when it was published [a]; null: not known"


@dataclass(frozen=True)
class Dated(Optimum):
    """A reference with the year of its publication."""

    year: float = 0.0


@pytest.fixture
def with_year(monkeypatch):
    """One row more in the mapping ``reference``, and the record that it makes with one field more."""
    row = FieldInfo.from_annotated_attribute(Number | None, Key(MEANING, None, above=0, hint="; of our era", null=-1.0))
    monkeypatch.setitem(Reference.__pydantic_fields__, "year", row)
    monkeypatch.setattr(Reference, "makes", Dated)
    for kind in (Reference, Common, *KINDS):
        kind.model_rebuild(force=True)
    yield
    monkeypatch.undo()
    row_of.cache_clear()
    for kind in (Reference, Common, *KINDS):
        kind.model_rebuild(force=True)


@pytest.mark.parametrize(("given", "year"), [("year: 1905", 1905.0), ("year: century + 5", 1905.0), ("year: null", -1.0),
                                             ("source: here", -1.0)])
def test_the_row_is_read_into_the_record(with_year, given, year):
    found = load_text(TEXT.replace("YEAR", given)).problem.reference
    assert isinstance(found, Dated)
    assert found.year == year
    assert found.objective == 1.0


@pytest.mark.parametrize(("given", "told"), [
    ("year: -4", "problem.yaml:4:33: reference.year: must be positive, got -4 a; of our era"),
    ("year: [1]", "problem.yaml:4:33: reference.year: expected a number"),
    ("yaer: 1905", "problem.yaml:4:27: reference.yaer: unknown key; did you mean 'year'?"),
    ("year: centuri", "reference.year: unknown name 'centuri'; did you mean 'century'?")])
def test_the_key_is_validated_and_reported_with_its_location(with_year, given, told):
    with pytest.raises(ProblemFileError) as caught:
        load_text(TEXT.replace("YEAR", given))
    assert told in str(caught.value)


def test_the_row_is_documented(with_year):
    described = problem_json_schema()["$defs"]["Reference"]["properties"]["year"]
    assert described["description"] == MEANING
    assert described["default"] is None
    assert f"| `year` | {MEANING}; must be positive | number, null | – | `null` |" in keys_page()


def test_without_the_row_there_is_no_such_key():
    with pytest.raises(ProblemFileError, match=r"reference\.year: unknown key"):
        load_text(TEXT.replace("YEAR", "year: 1905"))
    assert "`year`" not in keys_page()


def test_every_key_says_what_it_means():
    """In the page and in the schema; each mapping, too. Units of ranges are those of the text."""
    page, schema = keys_page(), json.dumps(problem_json_schema())
    for kind in mappings():
        assert kind.__doc__
        assert f"## {kind.__name__}\n" in page
        for key, field in kind.model_fields.items():
            assert field.description, f"{kind.__name__}.{key}"
            assert f"| `{key}` | {field.description.replace('|', chr(92) + '|')}" in page
            assert isinstance(row_of(kind, key), Row)
    assert all(json.dumps(one.__name__) in schema for one in KINDS)


@pytest.mark.slow
def test_every_key_has_an_example_of_its_type():
    gallery = Path(__file__).resolve().parents[3] / "problems"
    for kind in mappings():
        for key, field in kind.model_fields.items():
            text = example(kind, key, gallery)
            assert text or "](#" in types(field.annotation)[0] or "](#" in types(field.annotation)[-1], f"{kind.__name__}.{key}"
            if text:
                TypeAdapter(field.annotation).validate_python(parse_source(f"{key}: {text}", key).tree[key])


def test_paths_are_found_where_keys_declare_them():
    """In all forms: text, in mappings by name, in lists, and in one of two places that share a key."""
    shapes = [{"mesh": "box.stl"}, {"sphere": 1.0}]
    tree = {"name": "robot",
            "tables": {"drag": "drag.csv", "lift": {"file": "lift.csv"}, "flat": {"x": [0, 1], "values": [0, 0]}},
            "system": {"robot": "arm.urdf", "packages": {"arm": ".."}, "bodies": {"mesh": {"shapes": shapes}},
                       "scenery": [shapes[0]]},
            "phases": [{"name": "a", "system": {"linear": {"A": "A.csv", "B": [[1.0]]}}}]}
    found = [(declared, holder[key]) for holder, key, declared in paths(tree, KINDS)]
    assert found == [("tables", "drag.csv"), ("file", "lift.csv"), ("robot", "arm.urdf"), ("packages", ".."), ("mesh", "box.stl"),
                     ("mesh", "box.stl"), ("A", "A.csv")]
