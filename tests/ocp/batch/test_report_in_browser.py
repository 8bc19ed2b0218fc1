"""The report of a sweep in a browser without a window: its table sorts, every picture loads, nothing is complained of."""

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from block_file import SOLVED_BLOCK
from commands import call
from pages import Page

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next((found for name in BROWSERS if (found := shutil.which(name))), None)
#: what a user does: look at the pictures, click on a heading, and again
ACTIONS = """
window.addEventListener("load", () => {
  const heads = Array.from(document.querySelectorAll("table.sortable th"));
  const column = name => heads.findIndex(head => head.textContent === name);
  const cells = at => Array.from(document.querySelectorAll("table.sortable tbody tr")).map(row => row.cells[at].textContent);
  const at = column("objective"), found = {before: cells(at)};
  heads[at].click(); found.up = cells(at);
  heads[at].click(); found.down = cells(at);
  heads[column("status")].dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"}));
  found.status = cells(column("status"));
  found.images = Array.from(document.images).map(image => [image.complete, image.naturalWidth, image.naturalHeight]);
  found.wide = document.documentElement.scrollWidth <= window.innerWidth;
  const out = document.createElement("output"); out.id = "found"; out.textContent = JSON.stringify(found);
  document.body.append(out);
});
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    (folder / "block.yaml").write_text(SOLVED_BLOCK)
    words = ("--over", "parameters.mass=[1, 3, 2]", "--over", "phase.bounds.force[1]=[1, 500]")
    assert call("sweep", folder / "block.yaml", *words, "--out", folder / "out", "-j", 0, "-q") == 1
    assert call("report", folder / "out", "--pareto", "parameters.mass,objective") == 0
    return folder / "out" / "report.html"


def test_every_picture_can_be_decoded(report):
    import io

    from matplotlib import image

    page = Page(report.read_text())
    pictures = page.all("img")
    assert len(pictures) == 4
    for one in pictures:
        kind, data = one["src"].split(",", 1)
        assert kind == "data:image/png;base64"
        pixels = image.imread(io.BytesIO(base64.b64decode(data)))
        assert min(pixels.shape[:2]) > 100
        assert np.ptp(pixels[..., :3]) > 0.5
    heads = [name for name, _ in page.elements if name == "th"]
    rows = report.read_text().count("<tr>") - 1
    assert rows == 6
    assert page.elements.count(("td", {})) == 0
    assert sum(name == "td" for name, _ in page.elements) == rows * len(heads)


def opened(place):
    """(the page as it is in the end, what was complained of)."""
    words = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1200,900",
             f"--user-data-dir={place.parent / 'browser'}", "--virtual-time-budget=5000", "--dump-dom")
    done = subprocess.run([BROWSER, *words, place.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.skipif(BROWSER is None, reason=f"no browser here ({', '.join(BROWSERS)})")
def test_the_table_sorts_and_pictures_load(report, tmp_path):
    assert opened(report)[1] == []
    text, place = report.read_text(), tmp_path / "report.html"
    own = base64.b64encode(hashlib.sha256(ACTIONS.encode()).digest()).decode()
    allowed = text.replace("script-src '", f"script-src 'sha256-{own}' '", 1)
    place.write_text(allowed.replace("</body>", f"<script>{ACTIONS}</script></body>"))
    dom, complaints = opened(place)
    assert complaints == []
    found = json.loads(html.unescape(re.search(r'<output id="found">(.*?)</output>', dom, re.S)[1]))
    assert len(found["images"]) == 4
    assert all(complete and width > 100 and height > 100 for complete, width, height in found["images"])
    values = [[float(cell) for cell in found[key] if cell != "—"] for key in ("before", "up", "down")]
    assert values[0] != sorted(values[0])
    assert values[1] == sorted(values[0])
    assert values[2] == sorted(values[0], reverse=True)
    assert found["status"] == sorted(found["status"])
    assert found["wide"]
    place.write_text(text.replace("</body>", "<script>throw 1</script></body>"))  # which the page itself forbids
    assert opened(place)[1]
