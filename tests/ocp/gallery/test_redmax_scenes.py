"""The reference scenes of RedMax as problem files: published energies, and the same mechanisms as written out in Python."""

import numpy as np
import pytest
from redmax_scenes import NUMBERS, scene
from repository import ROOT

from ocp.app.files.load import load_problem
from ocp.app.simulate.controls import choose
from ocp.app.simulate.findings import energies
from ocp.app.verify.run import verify
from ocp.simulation import simulate

FOLDER = ROOT / "problems" / "redmax"
FILES = {0: "chain", 1: "axes", 2: "branches", 3: "slider", 4: "planar", 5: "translation", 6: "thrown", 7: "balls", 8: "universal",
         9: "flying", 10: "loop", 11: "box_on_ground", 12: "springs", 13: "cable", 14: "stops"}
LEFT = {(9, "bdf2"): 3e-8, (7, "bdf2"): 2e-8}  # published with what Newton's tolerance left


def loaded(number):
    return load_problem(FOLDER / f"{FILES[number]}.yaml")


def test_every_file_is_a_scene():
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(FILES.values())
    assert set(NUMBERS) <= set(FILES)


@pytest.mark.row("003:I01", "003:I06")
@pytest.mark.parametrize("number", FILES)
@pytest.mark.sample(3)
def test_published_energies_to_a_part_in_a_hundred_million(number):
    found = loaded(number)
    for item in found.simulate.expect:
        assert item.tolerance == (tolerance := LEFT.get((number, item.integrator), 1e-8))
        motion = simulate(found.problem, item.integrator, choose(found, None, None, None)[1], dt=found.simulate.dt,
                          charts_by=found.simulate.charts, kernels="interpreted")
        assert motion.ok
        assert energies(motion).change == pytest.approx(item.energy, rel=tolerance)
        if number in NUMBERS:
            assert item.energy == getattr(scene(number), item.integrator)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.sample(3)
def test_files_say_what_python_says(number):
    written, given = loaded(number).problem.phase.system.mechanism, scene(number)
    n = given.mechanism.model.nv
    rng = np.random.default_rng(number)
    q, v = np.array(given.q) + 0.1 * rng.standard_normal(n), rng.standard_normal(n)
    # bodies of a file come level by level: joint k is called jk there and bk here
    at = [given.mechanism.model.velocity_names.index(f"j{name[1:]}") for name in written.model.velocity_names]
    ours, theirs = (np.array(m.forward_dynamics(*state, np.zeros(0))).ravel()
                    for m, state in ((written, (q[at], v[at])), (given.mechanism, (q, v))))
    np.testing.assert_allclose(ours, theirs[at], rtol=1e-9, atol=1e-7)
    start = loaded(number).problem.phase.start.value
    np.testing.assert_allclose(start, np.concatenate([np.array(given.q)[at], np.array(given.v)[at]]), atol=1e-15)


@pytest.mark.row("003:F08")
def test_a_box_at_rest_on_its_corners():
    """BDF1 brings it to rest: half of the weight on every corner of a side in closed form, whichever way friction went."""
    found = loaded(11)
    motion = simulate(found.problem, "bdf1", choose(found, None, None, None)[1], dt=found.simulate.dt, kernels="interpreted")
    depth = 3 * 980 / (4 * 1e5)
    x = motion.legs[0].x[-1]
    assert x[1] == pytest.approx(0.5 - depth, abs=1e-7)
    assert 3 * 980 * (0.5 - depth) + 4 * 0.5e5 * depth**2 - 5880 == pytest.approx(found.simulate.expect[0].energy, rel=1e-12)
    np.testing.assert_allclose(x[3:], 0.0, atol=1e-5)


@pytest.mark.row("003:J15")
def test_what_a_fall_loses():
    """A cube that flies freely: by BDF1 the speed after a step counts, ``m g^2 h T / 2`` too much of a fall; by BDF2 nothing."""
    found = loaded(6)
    kinetic = (50**2 + 200**2) / 2 + 20**2 / 12
    expected = {item.integrator: item.energy for item in found.simulate.expect}
    assert expected == {"bdf1": pytest.approx(kinetic - 980**2 * 5e-3 * 0.4 / 2), "bdf2": pytest.approx(kinetic)}


def test_verify_judges_them(tmp_path, capsys):
    text = (FOLDER / "slider.yaml").read_text(encoding="utf-8")
    (tmp_path / "slider.yaml").write_text(text.replace("-6.1132876082600706e2", "-6.2e2"), encoding="utf-8")
    assert verify([tmp_path], out=tmp_path / "board") == 1
    told = capsys.readouterr().out
    assert "slider.yaml bdf1: pass" in told
    assert "energy differs from the reference by 0.014 > 1e-08" in told
