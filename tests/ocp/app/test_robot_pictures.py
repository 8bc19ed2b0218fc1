"""Pictures of robots whose points lie on a line or in one place, far away or beyond all numbers: drawn, or told why not."""

import numpy as np
import pytest

from dynamics.model import BodyInertia, Builder, Joint, Placement
from ocp.app.pages import ik_picture, sheet


def chain(place, com=(0.0, 0.0, 0.0)):
    builder = Builder("chain")
    builder.body("a", parent="world", joint=Joint("hinge", "revolute", Placement(position=place), axes=((0.0, 1.0, 0.0),)),
                 inertia=BodyInertia(1.0, com))
    return builder.build()


@pytest.mark.parametrize(("place", "com"), [
    ((0, 0, 0), (0, 0, 0)), ((0, 0, 0), (0, 0, 0.4)), ((0, 0, 1), (0, 0, 0.4)), ((0, 0, 0), (0.3, 0, 0)), ((1e12, 0, 0), (0, 0, 0)),
    ((1e-200, 0, 0), (0, 0, 0))], ids=str)
def test_a_robot_of_any_extent_has_a_picture(place, com, monkeypatch):
    axes = []
    fit = ik_picture._fit
    monkeypatch.setattr(ik_picture, "_fit", lambda ax, points: (axes.append(ax), fit(ax, points)))
    model = chain(place, com)
    assert ik_picture.draw(model, np.zeros(1), np.zeros(1), (), "chain", "").startswith(b"\x89PNG")
    limits = np.array([getattr(axes[0], f"get_{a}lim")() for a in "xyz"])
    assert np.all(limits[:, 0] < limits[:, 1])
    tip = np.add(place, com)
    assert np.all((limits[:, 0] <= tip) & (tip <= limits[:, 1]))
    lines = [line.get_data_3d() for line in axes[0].lines]
    assert sum(np.ptp(x) > 0 and np.ptp(z) == 0 for x, _, z in lines) > 10  # a ground to stand on


def test_a_robot_beyond_all_numbers_is_reported(monkeypatch):
    said = []
    monkeypatch.setattr(sheet, "sentence", lambda text, source="": said.append(text) or b"")
    ik_picture.draw(chain((1e80, 0, 0)), np.zeros(1), np.zeros(1), (), "chain", "")
    assert "cannot be drawn" in said[0]
