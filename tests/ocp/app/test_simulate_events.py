"""Fields that steps run across: events are found, and what they cost is told against closed forms."""

import json

import numpy as np
import pytest
from commands import call

BLOCK = """
name: block
system:
  states: {{x: m, v: m/s}}
  controls: {{u: N}}
  dynamics: {{x: v, v: "u + {field}"}}
phase: {{duration: 1, start: {{x: 0, v: 1}}, costs: []}}
simulate: {{dt: {dt}}}
"""


def simulated(tmp_path, field, dt=0.01, *options):
    (tmp_path / "block.yaml").write_text(BLOCK.format(field=field, dt=dt))
    assert call("simulate", tmp_path / "block.yaml", "--out", tmp_path / "run", "--overwrite", *options) == 0
    return json.loads((tmp_path / "run" / "summary.json").read_text())


@pytest.mark.parametrize("work", [1.0, -0.3])
def test_a_field_that_steps_run_across_is_found(tmp_path, capsys, work):
    """It gives ``work`` over a tenth of a millimetre, so v = sqrt(1 + 2 work) behind it; no step sees it."""
    found = simulated(tmp_path, f"if_else(x > 0.51 and x < 0.5101, {work}*1e4, 0)")
    behind = np.sqrt(1.0 + 2.0 * work)
    assert found["final"]["v"] == pytest.approx(1.0)
    times = found["events"]["times"]
    assert times == pytest.approx([0.51, 0.51 + 2e-4 / (1.0 + behind)], abs=1e-8)
    away = found["events"]["located"]
    share = abs(behind - 1.0)
    assert away["difference"] == pytest.approx(share, rel=1e-5)
    assert away["component"] in ("x", "v")
    assert found["halved"] is None
    printed = capsys.readouterr().out
    assert "rates break at 2 instants inside steps" in printed
    assert "accuracy    not measured" in printed


def test_rates_that_break_nowhere_have_no_events(tmp_path):
    found = simulated(tmp_path, "-x")
    assert found["events"] is None
    assert found["halved"] is not None


def test_a_kink_costs_what_halved_steps_show(tmp_path):
    """v' = -|x - 0.505|, twice continuously integrable: events are told, and halved steps stay the measure where they show more."""
    found = simulated(tmp_path, "-abs(x - 0.505)")
    assert len(found["events"]["times"]) == 1
    assert found["events"]["located"]["difference"] < 1e-5


def test_a_motion_with_too_many_steps_says_that_it_does_not_know(tmp_path, capsys):
    found = simulated(tmp_path, "if_else(x > 0.01, 1, 0)", 1e-4)
    assert found["events"]["located"] is None
    assert found["halved"] is None
    assert "is not known" in capsys.readouterr().out
    assert simulated(tmp_path, "if_else(x > 0.01, 1, 0)", 1e-4, "--quick")["events"] is None
