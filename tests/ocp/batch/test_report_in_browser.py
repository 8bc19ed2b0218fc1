"""Reports in a browser without a window: tables sort and fit, every picture loads, nothing is complained of."""

import base64

import numpy as np
import pytest
from block_file import SOLVED_BLOCK
from browser import needs_browser, opened, probed
from commands import call
from made_solutions import cart
from pages import Page

from ocp.app.pages.report import render_report
from ocp.app.pages.results import summarise

#: what a user does: look at the pictures, click on a heading, and again
ACTIONS = """
  const heads = Array.from(document.querySelectorAll("table.sortable th"));
  const column = name => heads.findIndex(head => head.textContent === name);
  const cells = at => Array.from(document.querySelectorAll("table.sortable tbody tr")).map(row => row.cells[at].textContent);
  const at = column("objective"), found = {before: cells(at)};
  heads[at].click(); found.up = cells(at);
  heads[at].click(); found.down = cells(at);
  heads[column("status")].dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"}));
  found.status = cells(column("status"));
  found.images = Array.from(document.images).map(image => [image.complete, image.naturalWidth, image.naturalHeight]);
  found.heights = Array.from(document.querySelectorAll("table.sortable tbody tr")).map(row => row.offsetHeight);
  found.notes = Array.from(document.querySelectorAll("table.sortable details")).map(one => one.textContent);
  found.wide = document.documentElement.scrollWidth <= window.innerWidth;
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


@needs_browser
def test_the_table_sorts_and_pictures_load(report, tmp_path):
    assert opened(report, tmp_path)[1] == []
    text, place = report.read_text(), tmp_path / "report.html"
    found, complaints = probed(text, ACTIONS, tmp_path)
    assert complaints == []
    assert len(found["images"]) == 4
    assert all(complete and width > 100 and height > 100 for complete, width, height in found["images"])
    values = [[float(cell) for cell in found[key] if cell != "—"] for key in ("before", "up", "down")]
    assert values[0] != sorted(values[0])
    assert values[1] == sorted(values[0])
    assert values[2] == sorted(values[0], reverse=True)
    assert found["status"] == sorted(found["status"])
    assert found["wide"]
    assert max(found["heights"]) < 90  # pixels: long messages are folded, and whole inside
    assert len(found["notes"]) == 3
    assert all("the bounds alone exclude a solution" in note for note in found["notes"])
    place.write_text(text.replace("</body>", "<script>throw 1</script></body>"))  # which the page itself forbids
    assert opened(place, tmp_path)[1]


@needs_browser
@pytest.mark.parametrize("width", [390, 1200])
def test_the_certificate_is_read_without_scrolling_sideways(width, tmp_path) -> None:
    """Every cell of its table lies within a telephone and a desktop; nothing makes the page wider than the window."""
    page = render_report(summarise(cart(), {"command": "ocp solve"}), [], problem_yaml="name: cart\n", images={}, scene=None)
    script = """
      const cells = Array.from(document.querySelectorAll("table.checks tbody td")), wide = document.documentElement.clientWidth;
      const found = {wide, page: document.documentElement.scrollWidth, cells: cells.length,
                     out: cells.filter(one => one.getBoundingClientRect().right > wide).map(one => one.textContent)};
    """
    found, complaints = probed(page, script, tmp_path, width)
    assert complaints == []
    assert width - 20 <= found["wide"] <= width  # a scroll bar
    assert (found["page"] <= found["wide"], found["out"]) == (True, [])
    assert found["cells"] >= 20
