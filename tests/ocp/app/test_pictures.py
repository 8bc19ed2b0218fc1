"""What a reader needs in a picture is there: numbers at the axes, bounds, joints of a limb together."""

import re

import numpy as np
import pytest

from ocp.app.pages import sheet
from ocp.app.pages.panels import bundle
from ocp.app.pages.plots import plot_run
from ocp.problem import Bounds


@pytest.fixture
def figures(monkeypatch):
    """The figures that were encoded."""
    kept = []
    encode = sheet.png
    monkeypatch.setattr(sheet, "png", lambda fig, *size: kept.append(fig) or encode(fig, *size))
    return kept


@pytest.fixture(scope="module")
def block_move():
    from ocp.app.files.load import load_problem
    from ocp.methods import solve

    return solve(load_problem("problems/block_move.yaml").problem, "collocation", {"intervals": 5})


def numbers(ax):
    texts = (text.get_text().replace("\N{MINUS SIGN}", "-") for text in ax.texts)
    return [float(text) for text in texts if re.fullmatch(r"-?\d+(\.\d+)?", text)]


def test_axes_have_numbers_that_span_the_data(figures, block_move):
    plot_run(block_move)
    states, controls = figures[:2]
    x, v = states.axes
    assert {0.0, 1.0} <= set(numbers(x))
    assert max(numbers(v)) >= 1.5
    assert max(numbers(controls.axes[0])) >= 5.0
    assert min(numbers(controls.axes[0])) <= -5.0


def test_bounds_outside_of_the_picture_are_reported(figures):
    fig = sheet.figure(2.0)
    ax = sheet.axes(fig, (0.5, 0.5, 5.0, 1.0))
    t = np.linspace(0.0, 1.0, 5)
    sheet.lines(ax, t, np.sin(t)[:, None], Bounds((-87.0,), (0.9,)))
    assert [text.get_text() for text in ax.texts] == ["≥ \N{MINUS SIGN}87"]


def test_joints_of_a_limb_share_a_panel():
    legs = [f"q.{leg}_{joint}" for leg in ("lf", "rf", "lh", "rh") for joint in ("abduction", "thigh", "knee")]
    names = ["q.root.px", "q.root.py", "q.root.pz", "q.root.w", "q.root.x", "q.root.y", "q.root.z", *legs]
    units = dict.fromkeys(names[:3], "m") | dict.fromkeys(legs, "rad")
    assert bundle(names, range(19), units, [3], 8) == [
        [0, 1, 2], [3, 4, 5, 6], [7, 8, 9], [10, 11, 12], [13, 14, 15], [16, 17, 18]]
    assert bundle(legs, range(12), units, [], 12) == [[i] for i in range(12)]


def test_names_without_limbs_fill_panels_in_order():
    names = [f"x{i}" for i in range(40)]
    found = bundle(names, range(40), {}, [], 8)
    assert sorted(sum(found, [])) == list(range(40))
    assert len(found) <= 8


def test_what_the_certificate_allows_is_not_red(figures):
    fig = sheet.figure(2.0)
    ax = sheet.axes(fig, (0.5, 0.5, 5.0, 1.0))
    t = np.linspace(0.0, 1.0, 11)
    both = np.stack([t, t], axis=1)
    sheet.lines(ax, t, both, Bounds.of([(-np.inf, 0.95)] * 2), ("a", "b"), tolerance=np.array([0.1, 0.01]))
    red = [line for line in ax.lines if line.get_color() == sheet.FAIL]
    assert len(red) == 1
    assert np.nanmin(red[0].get_ydata()) == 1.0
