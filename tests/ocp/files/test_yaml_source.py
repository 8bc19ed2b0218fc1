"""Strict YAML: what scalars mean, where nodes stand, what is refused, and that writing loses nothing."""

from __future__ import annotations

import random
import string
from pathlib import Path

import pytest

from ocp.app.files.syntax.yaml_source import MAX_CHARACTERS, MAX_DEPTH, format_path, parse_source, read_source
from ocp.app.files.syntax.yaml_text import dump
from ocp.errors import ProblemError


@pytest.mark.parametrize(("text", "value"), [
    ("1e-3", 0.001), ("1E+2", 100.0), ("-.5", -0.5), ("1.", 1.0), ("+3", 3), ("012", 12), ("0x1f", 31), ("0o17", 15),
    (".inf", float("inf")), ("-.inf", float("-inf")), ("true", True), ("False", False), ("null", None), ("~", None),
    ("", None),
    ("on", "on"), ("off", "off"), ("yes", "yes"), ("no", "no"), ("y", "y"), ("1_000", "1_000"), ("0b1", "0b1"),
    ("1:30", "1:30"),
    ("2001-01-01", "2001-01-01"), ("'1'", "1"), ('"true"', "true"), ("! 1", "1"), ("1e-3x", "1e-3x"), ("2*pi", "2*pi"),
    (".", "."),
])
def test_scalars_follow_the_core_schema(text: str, value: object) -> None:
    read = parse_source(f"key: {text}", "file.yaml").tree["key"]
    assert read == value
    assert type(read) is type(value)


def test_places_of_keys_values_and_list_entries() -> None:
    source = parse_source("a:\n  b: [x, {c: 1}]\nd: text\n", "file.yaml")
    assert source.where(("a", "b", 1, "c")) == "file.yaml:2:14: a.b[1].c"
    assert source.where(("a", "b", 1, "c"), at_key=True) == "file.yaml:2:11: a.b[1].c"
    assert source.where(("a", "b", 0)) == "file.yaml:2:7: a.b[0]"
    assert source.where(("d",), at_key=True) == "file.yaml:3:1: d"
    assert source.where(()) == "file.yaml:1:1"


def test_a_missing_node_stands_at_its_nearest_ancestor() -> None:
    source = parse_source("a:\n  b: 1\n", "file.yaml")
    assert source.where(("a", "x", "y")) == "file.yaml:2:3: a.x.y"


@pytest.mark.parametrize(("text", "column"), [
    ("k: a + b", 4 + 2), ("k: 'a + b'", 5 + 2), ('k: "a + b"', 5 + 2), ("{k: a + b}", 5 + 2),
    ('k: "a \\u002b b"', 4), ("k: 'it''s + b'", 4), ("k: >\n  a + b\n", 4), ("k: a\n  + b\n", 4),
])
def test_an_offset_is_a_column_where_the_text_stands_unchanged(text: str, column: int) -> None:
    # escapes, folds and block scalars do not map character by character; there the scalar itself is the place
    assert parse_source(text, "f").where(("k",), 2) == f"f:1:{column}: k"


def test_key_paths_quote_what_is_not_a_plain_word() -> None:
    assert format_path(("a", 0, "b-c", "base.px", "two words")) == 'a[0].b-c["base.px"]["two words"]'


@pytest.mark.parametrize(("text", "place", "words"), [
    ("a:\n\tb: 1\n", "f:2:1", "tabs are not allowed"),
    ("a: 1\nb: 2\na: 3\n", "f:3:1", "a: this key was already given at line 1"),
    ("x: {y: 1, y: 2}", "f:1:11", "x.y: this key was already given at line 1"),
    ("a: [1, 2\nb: 3\n", "f:2:2", "while parsing a flow sequence that starts at line 1"),
    ("a: b: c", "f:1:5", "put text that contains ': ' in quotes"),
    ("a: 'x", "f:1:6", "unexpected end of stream"),
    ("a: &here 1", "f:1:4", "anchors (&here) are not supported"),
    ("a: *theta", "f:1:4", "put an expression that starts with * in quotes"),
    ("a: 1\n<<: {b: 2}", "f:2:1", "merge keys (<<) are not supported"),
    ("a: !!float 1", "f:1:4", "tags (tag:yaml.org,2002:float) are not supported"),
    ("a: !mine [1]", "f:1:4", "tags (!mine) are not supported"),
    ("1: a", "f:1:1", "put '1' in quotes"),
    ("true: a", "f:1:1", "put 'true' in quotes"),
    ("? [a]\n: 1", "f:1:3", "a key must be text, not a list or mapping"),
    (": 1", "f:1:1", "put the empty key in quotes"),
    ("a: .nan", "f:1:4", ".nan is not a number"),
    ("a: 1e999", "f:1:4", "too large for a double-precision number"),
    ("a: " + "9" * 5000, "f:1:4", "a whole number of 5000 digits is too large"),
    ("a: 1\n---\nb: 2", "f:2:1", "a second document starts here"),
    ("%YAML 1.1\n---\na: on\n", "f:2:1", "YAML 1.1 was asked for"),
    ("a: 1\nb: \x07", "f:2", "the character '\\x07' is not allowed"),
    ("", "f", "the file is empty"),
    ("# only a comment\n", "f", "the file is empty"),
])
def test_refusals_name_the_place(text: str, place: str, words: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_source(text, "f")
    assert caught.value.where == place
    assert words in caught.value.message


def test_hostile_sizes_are_refused_quickly() -> None:
    with pytest.raises(ProblemError, match=f"nested deeper than {MAX_DEPTH} levels"):
        parse_source("[" * 100_000, "f")
    with pytest.raises(ProblemError, match="at most 1000000 are read"):
        parse_source("a" * (MAX_CHARACTERS + 1), "f")


def test_files_are_utf8(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: caf\xc3\xa9\r\nb: 2\r\n")
    source = read_source(path)
    assert source.tree == {"name": "café", "b": 2}
    assert source.where(("b",)) == f"{path}:2:4: b"
    path.write_bytes(b"a: 1\nname: caf\xe9\n")
    with pytest.raises(ProblemError, match="not UTF-8 text") as caught:
        read_source(path)
    assert caught.value.where == f"{path}:2"
    with pytest.raises(ProblemError, match="cannot read the file: No such file"):
        read_source(tmp_path / "absent.yaml")


# ---- writing ----------------------------------------------------------------------------------------------------------
_CHARACTERS = "".join(c for c in string.printable if c not in "\x0b\x0c") + "äθ\u2028\x85\ufeff\U0001f600"


def _tree(rng: random.Random, depth: int) -> object:
    def text() -> str:
        return "".join(rng.choice(_CHARACTERS) for _ in range(rng.randrange(12)))

    match rng.randrange(7 if depth else 5):
        case 0:
            return rng.choice([None, True, False])
        case 1:
            return rng.randrange(-10**6, 10**6)
        case 2:
            return rng.choice([1e-3, 1e300, 5e-324, 0.1, 1 / 3, -0.0, 1e22, 1e16, 2.0, float("inf"), -float("inf")])
        case 3:
            return rng.choice(["on", "yes", "null", "~", "1e-3", "0x1f", ".inf", "<<", "=", "- a", "a: b", "a #b", "N",
                               "012", "", " "])
        case 4:
            return text()
        case 5:
            return [_tree(rng, depth - 1) for _ in range(rng.randrange(5))]
    return {text(): _tree(rng, depth - 1) for _ in range(rng.randrange(5))}


def test_reading_what_was_written_gives_the_same_values_and_types() -> None:
    rng = random.Random(7)
    for _ in range(400):
        tree = {"root": _tree(rng, 4)}
        assert repr(parse_source(dump(tree), "f").tree) == repr(tree)


def test_written_text_is_quoted_where_older_yaml_would_read_something_else() -> None:
    assert dump({"on": "yes", "n": "No"}) == '{"on": "yes", "n": "No"}\n'


def test_not_a_number_is_not_written() -> None:
    with pytest.raises(ProblemError, match=r"\.nan"):
        dump({"a": float("nan")})
