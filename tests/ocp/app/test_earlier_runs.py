"""Runs written by versions 0.4 to 0.16 (``earlier_runs``, without pictures) are read, compared, exported and gone on from."""

from pathlib import Path

import numpy as np
import pytest
from commands import call

from ocp.app.export import export, motions
from ocp.app.files.load import load_text
from ocp.app.files.syntax.findings import ProblemFileError
from ocp.app.pages.results import FORMAT_VERSION, read_run
from ocp.app.runs import difference, from_run, policy_of

RUNS = Path(__file__).parent / "earlier_runs"
NAMES = sorted(place.name for place in RUNS.iterdir())
VERSIONS = {"0.4", "0.8", "0.12", "0.16"}


def test_every_version_is_there():
    assert {name.split("-")[0] for name in NAMES} == VERSIONS
    assert {name.split("-")[1] for name in NAMES} == {"block", "acrobot"}


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_read(name):
    """A block of one kilogram moves one metre in one second at the least effort: ``12 N^2 s``, ``x = 3 t^2 - 2 t^3``."""
    run = read_run(RUNS / name)
    assert 1 <= run.summary["format_version"] <= FORMAT_VERSION
    certificate = run.certificate
    if name.endswith("block"):
        assert run.summary["objective"] == pytest.approx(12.0, rel=1e-6)
        assert certificate.holds
        t = run.arrays["t"]
        np.testing.assert_allclose(run.arrays["x"][:, 0], 3 * t**2 - 2 * t**3, atol=1e-6)
    else:
        assert not certificate.holds
        assert run.arrays["K"].shape[0] == 20


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_exported_and_a_guess(name, tmp_path):
    run = read_run(RUNS / name)
    motion, = motions(RUNS / name)
    np.testing.assert_array_equal(motion.t, run.arrays["t"])
    np.testing.assert_array_equal(motion.x, run.arrays["x"])
    assert len(export(RUNS / name, ["csv", "npz", "c"], out=tmp_path)) == 4
    problem = from_run(load_text(run.problem_yaml, RUNS / name).problem, RUNS / name)
    np.testing.assert_allclose(problem.phase.guess.x[0], run.arrays["x"][0], atol=1e-12)
    with np.load(tmp_path / "motion.npz") as found:
        assert ("qpos" in found) == (not name.endswith("block"))
    if motion.drives:
        np.testing.assert_allclose(motion.tau[:-1], run.arrays["u"], atol=1e-12)
        if not name.startswith("0.4"):  # whose fingerprints of robots are others
            assert policy_of(run).K.shape == run.arrays["K"].shape


def test_runs_of_two_versions_are_compared(capsys):
    lines = difference(RUNS / "0.4-block", RUNS / "0.16-block")
    assert any(line.startswith("+") for line in lines)
    assert call("diff", RUNS / "0.16-block", RUNS / "0.16-block") == 0
    assert "the same" in capsys.readouterr().out


def test_options_that_became_constants_are_read_at_their_value_alone():
    text = read_run(RUNS / "0.16-acrobot").problem_yaml
    assert "penalty_growth: 10.0" in text
    with pytest.raises(ProblemFileError, match=r"penalty_growth: is no option any more: it is always 10\.0"):
        load_text(text.replace("penalty_growth: 10.0", "penalty_growth: 5.0"), RUNS / "0.16-acrobot")
