"""A problem in other units is the same problem: the gallery's files, rewritten, get the same verdict, the same motion and the same
objective. Solver and certificate may not care whether a metre is 1, 1000 or 0.001. Robots keep their metres, and their costs and
rows are rewritten."""

from functools import lru_cache
from itertools import product

import numpy as np
import pytest
from repository import ROOT
from rescaled import Units, control_factors, rescaled, state_factors

from ocp.app.files.load import load_problem
from ocp.certify import Tolerances
from ocp.guesses.motion import from_motion
from ocp.methods import solve
from ocp.problem import Kind

FOLDER = ROOT / "problems"
#: solved within about a second each, in two of the units each; all others are slow
QUICK = ("block_move", "bryson_denham", "brachistochrone", "lqr_scalar", "van_der_pol", "zermelo",
         "cartpole_swingup", "moon_landing", "particle_steering", "nonholonomic_integrator", "rayleigh")
UNITS = {"mm, ms, MN": Units(length=1e3, time=1e3, force=1e-6, plain=10.0),
         "km, h": Units(length=1e-3, time=1 / 3600, force=1e-3, plain=0.1),
         "cost times 1e9": Units(cost=1e9), "cost times 1e-9": Units(cost=1e-9),
         "rows times 1e6": Units(rows=1e6), "rows times 1e-6": Units(rows=1e-6)}
# optima that are not unique: the objectives agree within the bars of the certificates, motions need not
SEVERAL = {"dynamic_soaring": "the mesh lets one orbit begin at places half an interval apart: two strict minima of the program",
           "satellite_reorientation": "the mirror image of a turn about x, y and z reversed, takes as long"}


# which of several optima is found from the guess depends on how a program is scaled: these go on from the motion that was found
LOCAL = ("mobile_manipulator",)


def files():
    """(name, whether states are written in the file, form a vector space and move by what is written) of the gallery's files."""
    for path in sorted(FOLDER.glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        yield path.stem, not any(word in text for word in ("robot:", "matrices:", "integrator: sdirk2"))


@lru_cache(maxsize=4)
def original(name):
    loaded = load_problem(FOLDER / f"{name}.yaml")
    tolerances = Tolerances(**loaded.accept)
    return loaded, tolerances, solve(loaded.problem, loaded.method, loaded.method_options, tolerances=tolerances)


def parts(solution):
    return solution.parts or (solution.trajectory,)


def compared(name, key):
    """What differs between a file and its twin in these units, in words."""
    loaded, tolerances, first = original(name)
    units = UNITS[key]
    twin = rescaled(from_motion(loaded.problem, parts(first)) if name in LOCAL else loaded.problem, units)
    second = solve(twin, loaded.method, loaded.method_options, tolerances=tolerances)
    found = []
    if first.ok != second.ok:
        failures = () if second.certificate is None else second.certificate.failures
        found.append(f"verdict {first.ok} becomes {second.ok} ({second.status.name}: {failures})")
    near = 1e-4 * max(abs(first.objective), 1e-9)
    if name in SEVERAL and first.certificate and second.certificate:
        near = min(near, first.certificate.error_bound + second.certificate.error_bound / units.cost)
    if not abs(second.objective / units.cost - first.objective) <= near:
        found.append(f"objective {first.objective:.9g} becomes {second.objective / units.cost:.9g}")
    flat = any(one.certificate.second_order.kind is Kind.FLAT_MINIMUM for one in (first, second) if one.certificate)
    for phase, a, b in zip(loaded.problem.phases, parts(first), parts(second), strict=True):
        s = np.linspace(0, 1, 101)
        x = a.state(a.t[0] + s * (a.t[-1] - a.t[0]))
        y = b.state(b.t[0] + s * (b.t[-1] - b.t[0])) / state_factors(phase, units)
        span = np.maximum(np.ptp(x, axis=0), 1e-3 * np.abs(x).max())
        far = np.abs(y - x).max(axis=0) / np.where(span > 0, span, 1.0)
        near = 5e-2 if flat else 1e-2  # flat: by the certificate the motion is not determined
        if name not in SEVERAL and not far.max() < near:
            found.append(f"{phase.system.space.names[int(np.argmax(far))]} moves by {far.max():.2g} of its range")
    return found


def cases():
    for (name, flat), (k, units) in product(files(), enumerate(UNITS)):
        if flat or not UNITS[units].of_motion:
            quick = name in QUICK and (QUICK.index(name) - k) % 3 == 0
            yield pytest.param(name, units, marks=[] if quick else [pytest.mark.slow])


@pytest.mark.parametrize(("name", "units"), list(cases()))
@pytest.mark.sample(4)
def test_other_units_change_nothing(name, units):
    assert not compared(name, units)


def test_the_rewriting_is_exact():
    """Back and forth gives the same functions: values at random points agree to rounding, and once do not with a wrong factor."""
    problem = load_problem(FOLDER / "cartpole_swingup.yaml").problem
    units = UNITS["mm, ms, MN"]
    back = Units(length=1e-3, time=1e-3, force=1e6, plain=0.1)
    again = rescaled(rescaled(problem, units), back)
    rng = np.random.default_rng(0)
    x, u = rng.standard_normal(4), rng.standard_normal(1)
    for a, b in ((problem, again), (problem, rescaled(problem, Units()))):
        np.testing.assert_allclose(*(np.array(y.phase.system.rate(0.3, x, u, [])) for y in (a, b)), rtol=1e-12)
    sx = state_factors(problem.phase, units)
    rate = np.array(rescaled(problem, units).phase.system.rate(300.0, sx * x, 1e-6 * u, [])).ravel()
    np.testing.assert_allclose(rate, sx / 1e3 * np.array(problem.phase.system.rate(0.3, x, u, [])).ravel(), rtol=1e-12)


def test_equations_of_algebraic_unknowns_are_rewritten():
    problem, units = load_problem(FOLDER / "valve.yaml").problem, UNITS["km, h"]
    x, u = np.array([0.3]), np.array([1.2, -0.7])
    twin = rescaled(problem, units).phase.system
    sx, su = state_factors(problem.phase, units), control_factors(problem.phase, units)
    assert su.tolist() == [1e-3, 3.6]
    for name, factor in (("residual", 1.0), ("rate", 3.6)):
        there, here = getattr(twin, name)(0.1 / 3600, sx * x, su * u, []), getattr(problem.phase.system, name)(0.1, x, u, [])
        np.testing.assert_allclose(np.array(there), factor * np.array(here), rtol=1e-12)
