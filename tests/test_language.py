"""The words of the packages and pages are the field's: counts of others only fall, and pages have short sentences."""

import ast

import pytest
from language import MAX_MEAN_WORDS, PAGES, ROOT, TERMS, ceilings, counts, in_names, in_text, mean_words, without_docstring


def test_no_room_has_more_of_other_words_than_its_ceiling():
    """Lower them by `python tests/language.py --write` where words were mended; a room that is not listed is done."""
    allowed = ceilings()
    assert {room: dict(own - allowed.get(room, type(own)())) for room, own in counts().items()
            if own - allowed.get(room, type(own)())} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_sentences_of_pages_are_short(page):
    assert mean_words(page.read_text(encoding="utf-8")) < MAX_MEAN_WORDS


@pytest.mark.parametrize(("text", "found"), [
    ("the slope of the cost", 1), ("the slope of the ground", 0), ("five-bar linkages", 0), ("the objective and its bar", 1),
    ("a row of the table", 0), ("rows hold at knots", 1), ("`told` is code", 0), ("What it makes is kept.", 1),
    ("What is a certificate?", 0), ("quadratic programmes", 1)])
def test_words_are_found_and_the_field_s_own_senses_are_left(text, found):
    assert len(list(in_text(text, "page.md", 1, "text"))) == found


def test_names_and_missing_docstrings_are_found():
    tree = ast.parse("MOST = 3\nMAX_STEPS = 3\ndef told(held, x_slope, y):\n    pass\ndef _own():\n    pass\n")
    assert {hit.found for hit in in_names(tree, "ocp/x.py")} == {"told", "held", "x_slope", "MOST"}
    assert [hit.found for hit in without_docstring(tree, "ocp/x.py")] == ["told"]


def test_a_sentence_ends_at_a_stop_a_heading_and_an_item():
    page = "# A heading here\n\nOne two three. Four five six\nseven.\n\n- eight nine ten\n- a b c d\n\n```text\nno prose\n```\n"
    assert mean_words(page) == (3 + 4 + 3 + 4) / 4


def test_every_exception_has_a_reason():
    assert all(term.better for term in TERMS)
    assert [term.pattern for term in TERMS if term.allowed and not term.reason] == []
    assert (ROOT / "tests" / "language.txt").is_file()
