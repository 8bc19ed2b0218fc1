"""Questions of newcomers: the search of the website finds the page that answers them, and the heading is there.

The search is Sphinx's: every word of the query (stemmed) must occur in a page; a page scores by words in its headings and its text.
The default test scores the sources of the pages in this way; the slow one builds the website, and asks its search in a browser.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from browser import BROWSER, opened

ROOT = Path(__file__).resolve().parent.parent
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "ocp" / "docs").glob("*.md")}
QUESTIONS = (
    ("install", "install", "Install"),
    ("first problem", "install", "Write a file"),
    ("friction cone", "contacts", "Friction cone"),
    ("half sizes sole", "contacts", "Half sizes of a sole"),
    ("jerk limit", "own_robot", "Limits on acceleration and jerk"),
    ("own integrator", "extend", "Your own integrator"),
    ("own joint", "extend", "Your own joint"),
    ("own method", "extend", "Your own method"),
    ("warm start", "commands", "Warm start, time limit, interrupt"),
    ("many machines", "sweeps", "Many processors and machines"),
    ("ros node", "deploy", "A ROS node"),
    ("c code", "deploy", "C code"),
    ("mpc own loop", "mpc", "MPC in your own loop"),
    ("certificate line fails", "certificate", "What each line means, and what to do when it fails"),
    ("exit codes", "commands", "Exit codes"),
    ("error bound", "certificate", "The objective and its error bound"),
    ("gimbal lock", "simulation", "Gimbal lock"),
    ("gears transmissions", "robots", "Gears, transmissions and thrusters"),
    ("check derivatives", "derivatives", "Check derivatives"),
    ("discrete time", "files", "Discrete time"),
    ("run folder", "commands", "The run folder"),
    ("estimation sensors", "mpc", "Estimation"),
    ("phases gait", "contacts", "Phases of a gait"),
    ("trot pattern", "contacts", "Write a gait"),
    ("whole-body plants", "whole_body", "Plants"),
)
BEST = 3  # results that a reader looks at
TITLE, TEXT = 15, 5  # scores of a word in a heading and in the text, as in Sphinx's searchtools.js


def stems(text):
    """Words without their commonest endings."""
    return [re.sub(r"(ies|ing|es|s|ed)$", "", word) for word in re.findall(r"[a-z]+", text.lower())]


def headings(page):
    return re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page, flags=re.M | re.S), flags=re.M)


def found(query):
    """Pages in which every word of the query occurs, the best first."""
    scores = {}
    for name, page in PAGES.items():
        titles, text = [set(stems(one)) for one in headings(page)], set(stems(page))
        if set(stems(query)) <= text:
            best = max(len(set(stems(query)) & title) for title in titles)
            scores[name] = TITLE * best + TEXT * sum(word in text for word in stems(query))
    return sorted(scores, key=lambda name: -scores[name])


def asked(site, query, page):
    """(rank of a page among the results of the website's own search, how many there are, [s] with the start of the browser)."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        dom, complaints = opened(f"{(site / 'search.html').as_uri()}?q={quote_plus(query)}", Path(folder))
    seconds = time.perf_counter() - begin
    assert complaints == []
    results = re.findall(r'<li class="kind-[a-z]+"><a href="([^"#?]*)\.html', dom)
    names = [address.rpartition("/")[2] for address in results]
    return names.index(page) + 1 if page in names else len(names) + 1, len(names), seconds


@pytest.mark.parametrize(("query", "page", "heading"), QUESTIONS, ids=[query for query, *_ in QUESTIONS])
def test_a_question_is_answered_by_one_of_the_first_pages(query, page, heading):
    assert heading in headings(PAGES[page])
    assert page in found(query)[:BEST]


@pytest.mark.slow
def test_the_index_of_the_website_answers_them(tmp_path):
    """Needs the extra docs."""
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_nb")
    subprocess.run([sys.executable, "-m", "ocp.app.documentation", tmp_path], cwd=ROOT, check=True)
    index = json.loads((tmp_path / "searchindex.js").read_text(encoding="utf-8").removeprefix("Search.setIndex(").rstrip(");\n"))
    pages = [Path(name).name for name in index["docnames"]]
    titles = {title: {pages[at[0]] for at in places} for title, places in index["alltitles"].items()}
    assert [heading for _, page, heading in QUESTIONS if page not in titles.get(heading, ())] == []
    if BROWSER is not None:
        late = {query: place for query, page, _ in QUESTIONS if (place := asked(tmp_path, query, page)[0]) > BEST}
        assert late == {}
    mathematics = (tmp_path / "ocp" / "docs" / "mathematics.html").read_text(encoding="utf-8")
    assert "<math" in mathematics
    assert re.findall(r'<script[^>]*src="https?:', mathematics) == []  # equations need no network
