"""The bar of the objective holds the true optimum, on closed forms and on references refined to many digits."""

from types import SimpleNamespace

import numpy as np
import pytest
from closed_forms import drawn
from repository import ROOT

from ocp.app.files.load import load_problem, load_text
from ocp.certify import Tolerances
from ocp.methods import solve
from ocp.problem import Finding, Kind
from ocp.strategy.answer import coverage
from ocp.strategy.records import Firing, State, Task

FOLDER = ROOT / "problems"
#: name -> the optimum: closed forms, and Gauss collocation refined until digits stand still
TRUE = {"block_move": 12.0, "bryson_denham": 4.0, "lqr_scalar": 1.6894983916, "cartpole_swingup": 58.80766746,
        "van_der_pol": 3.615181365, "double_integrator_min_time": 2.0, "brachistochrone": 0.8243386815, "rayleigh": 44.7209366}
COARSE = [("collocation", {"scheme": "hermite_simpson", "intervals": 12, "refine": "none"}),
          ("collocation", {"scheme": "trapezoid", "intervals": 30, "refine": "none"}),
          ("collocation", {"scheme": "gauss", "degree": 2, "intervals": 10, "refine": "none"}),
          ("collocation", {"scheme": "radau", "intervals": 8, "refine": "none"}),
          ("multiple_shooting", {"intervals": 25}), ("ilqr", {"intervals": 40})]


def barred(name, method, options):
    loaded = load_problem(FOLDER / f"{name}.yaml")
    return solve(loaded.problem, method, options, tolerances=Tolerances(objective_error=1.0))


@pytest.mark.parametrize(("method", "options"), COARSE, ids=str)
@pytest.mark.parametrize("name", ["block_move", "bryson_denham", "lqr_scalar", "van_der_pol"])
@pytest.mark.sample(4)
def test_the_error_bound_holds_the_true_optimum_on_coarse_meshes(name, method, options):
    found = barred(name, method, options)
    bar = found.certificate.error_bound
    assert np.isfinite(bar), found.certificate.objective_error
    assert abs(found.objective - TRUE[name]) <= bar + 1e-9 * (1 + abs(TRUE[name]))
    assert bar < 0.5 * abs(TRUE[name])  # a bar that is always wide says nothing


@pytest.mark.parametrize("name", sorted(TRUE))
@pytest.mark.sample(3)
def test_the_error_bound_holds_the_true_optimum_by_the_options_of_the_gallery(name):
    loaded = load_problem(FOLDER / f"{name}.yaml")
    found = solve(loaded.problem, loaded.method, loaded.options_for(loaded.method), tolerances=Tolerances(**loaded.accept))
    assert found.ok, found.certificate.failures
    assert abs(found.objective - TRUE[name]) <= found.certificate.error_bound + 3e-8 * abs(TRUE[name])
    assert found.certificate.error_bound < 1e-2 * abs(TRUE[name])


def test_the_error_bound_shrinks_with_the_mesh():
    bars = [barred("lqr_scalar", "collocation", {"scheme": "trapezoid", "intervals": n, "refine": "none"}).certificate.error_bound
            for n in (10, 20, 40)]
    assert bars[0] / bars[1] == pytest.approx(4, rel=0.2)  # order 2
    assert bars[1] / bars[2] == pytest.approx(4, rel=0.2)


def test_an_objective_whose_error_bound_is_too_wide_is_not_certified():
    loaded = load_problem(FOLDER / "van_der_pol.yaml")
    options = {"scheme": "trapezoid", "intervals": 6, "refine": "none"}
    found = solve(loaded.problem, "collocation", options, tolerances=Tolerances(
        violation_between=1, gap_segment=1, gap_total=1, error_estimate=1, objective=1, energy=1, objective_error=1e-3))
    assert not found.ok
    assert [c.kind for c in found.certificate.checks if not c.holds] == [Kind.OBJECTIVE_ERROR]


@pytest.mark.parametrize("name", ["bryson_denham", "cartpole_swingup"])
def test_a_mesh_of_our_choice_is_refined_until_the_error_bound_is_as_narrow_as_asked(name):
    loaded = load_problem(FOLDER / f"{name}.yaml")
    wide, narrow = (solve(loaded.problem, "collocation", tolerances=Tolerances(objective_error=error)) for error in (1e-2, 1e-6))
    assert wide.ok, wide.certificate.failures
    assert narrow.ok, narrow.certificate.failures
    assert narrow.certificate.error_bound < 0.1 * wide.certificate.error_bound
    for found in (wide, narrow):
        assert abs(found.objective - TRUE[name]) <= found.certificate.error_bound + 3e-8 * TRUE[name]
    assert [any(one.kind is Kind.REFINED_FURTHER for one in found.findings) for found in (wide, narrow)] == [False, True]
    assert [any(one.rule == "finer_mesh" and one.taken for one in found.strategy) for found in (wide, narrow)] == [False, True]
    again = solve(loaded.problem, "collocation", dict(narrow.freeze), tolerances=Tolerances(objective_error=1e-6))
    assert again.ok, again.certificate.failures
    assert again.objective == pytest.approx(narrow.objective, rel=1e-6)


def test_a_mesh_of_the_file_stays():
    loaded = load_problem(FOLDER / "rayleigh.yaml")
    found = solve(loaded.problem, "collocation", {"scheme": "radau", "intervals": 20}, tolerances=Tolerances(objective_error=1e-6))
    assert len(found.trajectory.t) == 21
    assert [c.kind for c in found.certificate.checks if not c.holds][-1] is Kind.OBJECTIVE_ERROR


@pytest.mark.parametrize("known", [*drawn(1), *drawn(3)], ids=lambda known: known.name)
@pytest.mark.sample(8)
def test_the_error_bound_holds_closed_forms(known):
    """Of problems that are certified on meshes of our choice."""
    found = solve(load_text(known.text).problem)
    assert found.ok, found.certificate.failures
    assert abs(found.objective - known.optimum) <= found.certificate.error_bound + 1e-8 * (1 + abs(known.optimum))


@pytest.mark.parametrize("known", [one for one in drawn(1) if not one.name.startswith(("fuel", "rope"))],
                         ids=lambda known: known.name)
@pytest.mark.parametrize(("method", "options"), COARSE[1::2], ids=str)
@pytest.mark.sample(4)
def test_the_error_bound_holds_closed_forms_on_coarse_meshes(known, method, options):
    found = solve(load_text(known.text).problem, method, options)
    assert not abs(found.objective - known.optimum) > found.certificate.error_bound + 1e-8 * (1 + abs(known.optimum))


def test_a_change_on_the_finer_mesh_covers_the_geometric_series_of_changes_to_come():
    """Of order one half changes fall by the root of two: what is left is the series, more than the usual order leaves."""
    def after(before, now):
        why = Finding(Kind.WIDE_ERROR_BOUND, data={"objective": before})
        return State(Task(None), firings=(Firing("finer_mesh", why, 1, True),), answer=SimpleNamespace(objective=now))

    ratio = np.sqrt(0.5)
    values = np.cumsum(ratio ** np.arange(200))
    covered = coverage(after(values[0], values[1]), values[2]) * abs(values[2] - values[1])
    assert covered == pytest.approx(values[-1] - values[1])
    assert coverage(after(1.0, 2.0), 2.1) == coverage(State(Task(None), answer=SimpleNamespace(objective=2.0)), 3.0) == 2.5
    assert coverage(after(1.0, 2.0), 3.5) == 2.5
