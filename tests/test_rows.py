"""Every numbered capability of the source documents is tested by a case that runs by default."""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
COLLECT = """
import json, sys, pytest

class Rows:
    def __init__(self):
        self.chosen, self.left_out = set(), set()

    def pytest_collection_finish(self, session):
        self.chosen |= {row for item in session.items for mark in item.iter_markers("row") for row in mark.args}

    def pytest_deselected(self, items):
        self.left_out |= {row for item in items for mark in item.iter_markers("row") for row in mark.args}

rows = Rows()
code = pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", sys.argv[1]], plugins=[rows])
print(json.dumps([int(code), sorted(rows.chosen), sorted(rows.left_out)]))
"""


def listed():
    lines = [line.split() for line in (HERE / "rows.txt").read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    return [f"{document}:{row}" for document, *found in lines for row in found]


def test_every_row_has_a_case_that_runs_by_default():
    rows = listed()
    assert len(rows) == len(set(rows)) == 571
    found = subprocess.run([sys.executable, "-c", COLLECT, str(HERE)], cwd=HERE.parent, capture_output=True, text=True)
    code, chosen, left_out = json.loads(found.stdout.splitlines()[-1])
    assert code == 0, found.stdout
    assert set(left_out) - set(chosen) == set()
    assert set(chosen) == set(rows)
