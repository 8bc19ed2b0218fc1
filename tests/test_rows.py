"""Every numbered capability of the source documents is tested by a case that runs by default."""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
COLLECT = """
import json, sys, pytest

class Rows:
    def pytest_collection_finish(self, session):
        print(json.dumps([sorted(rows) for rows in session.config.collected_rows]))

sys.exit(pytest.main(["--collect-only", "-qqq", "-p", "no:cacheprovider", sys.argv[1]], plugins=[Rows()]))
"""


def listed():
    lines = [line.split() for line in (HERE / "rows.txt").read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    return [f"{document}:{row}" for document, *found in lines for row in found]


def collected(config):
    """(rows of cases that run by default, rows of slow ones): of this run if it has collected all tests, else of a run for this."""
    if hasattr(config, "collected_rows"):
        return config.collected_rows
    found = subprocess.run([sys.executable, "-c", COLLECT, str(HERE)], cwd=HERE.parent, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
    return [set(rows) for rows in json.loads(next(line for line in found.stdout.splitlines() if line.startswith("[[")))]


def test_every_row_has_a_case_that_runs_by_default(request):
    rows = listed()
    assert len(rows) == len(set(rows)) == 571
    chosen, left_out = collected(request.config)
    assert left_out - chosen == set()
    assert chosen == set(rows)
