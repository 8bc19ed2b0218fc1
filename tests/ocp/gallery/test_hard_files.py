"""Files that first- and second-order conditions on a mesh judge wrongly: jumps that move, degenerate points, infima that no motion
attains, pulses between nodes, dry friction. Truth by closed form, Gramians or quadrature; no certificate may be outside of it."""

from pathlib import Path

import numpy as np
import pytest

from ocp.app.files.load import load_problem
from ocp.methods import solve
from ocp.problem import Kind

FOLDER = Path(__file__).parents[2] / "hard_files"

#: files with a minimum, and that; the last column: relative tolerance where the truth has fewer digits than the bar
MINIMA = {
    "burn_time": (0.8045287, 1e-6),  # as two phases, whose boundary is the end of the burn
    "switch_parameter": (0.0, 1e-9),  # the switch at 2 s leaves nothing to pay for
    "time_jump_free_duration": (-19.568757, 1e-6),  # coasting alone: -19.448
    "friction_from_rest": (14.165312, 1e-6),
    "coulomb_ok": (16.0, 1e-6),  # 12 + 4: moving all the time
    "propeller": (-0.5, 1e-6), "u_quartic": (-1.0, 1e-6), "par_quartic": (0.9375, 1e-6),  # full thrust; ends of the range
    "touch": (38.147, 3e-3),  # dense quadratic programme
    "time_ns": (1.2e10, 1e-6),  # 12 d^2 / T^3
    "state_clock": (15.67052, 2e-3), "cos_power": (12.27721, 1e-4), "sin_power": (12.159155, 1e-4),  # Gramians with the pulse
    "nonlip": (-0.25000002, 1e-5),  # least x' is the root of x, not Lipschitz at 0
    "circle": (287.250366, 2e-6),  # index 3: in the angle, by a boundary value problem
    "maxrange": (-1.712315, 1e-6),  # Bryson and Ho 1975; the guess leads to -0.2523
    "markers": (4.5537e-5, 1e-3),  # a dense programme from a constant guess; the elbow flipped: 0.066
    "iiwa_pick": (1.31898, 5e-4),  # Hermite-Simpson on 150 intervals; on 20 of Radau: 0.698
    "twin_saddle": (-39195.959, 3e-4),  # held controls; -40000 + 800*100*(1 - sqrt(0.98))
    "slack_time": (2.0, 1e-6),  # an end whose gradient vanishes
    "xlogx": (0.747209, 1e-5),  # quadrature of the extremal
    "toll": (41.985808871, 1e-9), "toll_wait": (103.279555899, 1e-9), "coulomb_wait": (103.279555899, 1e-9),  # tests/ocp/reductions
}
#: files without one, and what is said of them
REFUSED = {
    "bolza": Kind.NOT_ATTAINED, "bolza_fixed": Kind.NOT_ATTAINED,  # infimum of the relaxed problem: 0, 1/24
    "fuel_impulse": Kind.NOT_ATTAINED,  # two impulses: 2
    "sphere": Kind.NOT_ATTAINED,  # over the pole of the chart: pi^2
    "singular_start": None, "nan_between": None,  # rates that are not finite
}
#: right problems that are refused, with their truth: a certificate would have to be within it
OPEN: dict[str, float] = {}
QUICK = {"burn_time", "friction_from_rest", "u_quartic", "fuel_impulse", "nan_between"}


def named(names):
    return [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in names]


def solved(name):
    loaded = load_problem(FOLDER / f"{name}.yaml")
    return solve(loaded.problem, loaded.method, loaded.method_options)


@pytest.mark.parametrize("name", named(MINIMA))
def test_the_minimum_is_certified(name):
    found, (true, tolerance) = solved(name), MINIMA[name]
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(true, rel=tolerance, abs=1e-9)
    bar = found.certificate.objective_error.value * found.certificate.objective_size
    assert abs(found.objective - true) <= bar + tolerance * abs(true)


@pytest.mark.parametrize("name", named(REFUSED))
def test_what_has_no_minimum_is_not_certified(name):
    found = solved(name)
    assert not found.ok
    causes = {residual.cause for residual in vars(found.certificate).values() if hasattr(residual, "cause")}
    assert REFUSED[name] is None or REFUSED[name] in causes


@pytest.mark.parametrize("name", named(OPEN))
def test_no_certificate_is_outside_of_the_truth(name):
    found = solved(name)
    assert not found.ok or found.objective == pytest.approx(OPEN[name], rel=1e-2)


def test_every_file_has_its_truth():
    assert {path.stem for path in FOLDER.glob("*.yaml")} == {*MINIMA, *REFUSED, *OPEN}
    assert np.all(np.isfinite([*(true for true, _ in MINIMA.values()), *OPEN.values()]))
