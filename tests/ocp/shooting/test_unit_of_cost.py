"""The unit of the cost: in other units the search makes the same iterations, to the bit where the factor is a power of two."""

from dataclasses import replace

import numpy as np
import pytest
from control_problems import block_move, cart_pole
from direct_problems import with_phase
from rescaled import Units, rescaled
from shooting_problems import options as made_options

from ocp.certify import certify
from ocp.problem import Status
from ocp.shooting.ilqr import ILQROptions, solve

SMALL, RATIO = 2.0**-70, 2.0**30  # both far below one, where tolerances are looser


def twins(problem):
    """The problem with tiny and with small costs: graphs of one form, which round alike."""
    return rescaled(problem, Units(cost=SMALL)), rescaled(problem, Units(cost=SMALL * RATIO))


@pytest.mark.parametrize("options", [{}, {"shooting": "feasible", "globalisation": "filter"}, {"polish": "newton"},
                                     {"hessian": "full", "shooting": "multiple"}], ids=lambda o: "-".join(o) or "default")
@pytest.mark.parametrize("build", [block_move, cart_pole])
def test_iterations_are_those_of_the_same_cost_in_other_units(build, options):
    chosen = made_options(intervals=30, max_iterations=15, **options)  # before limits of penalties count
    first, second = (solve(p, chosen) for p in twins(build()))
    assert first.status is second.status
    assert len(first.iterations) == len(second.iterations) > 5
    for a, b in zip(first.iterations, second.iterations, strict=True):
        for name in ("cost", "expected", "gradient", "penalty"):
            if name in a and not np.isnan(a[name]):
                assert b[name] == RATIO * a[name], (a["iteration"], name)
        assert (a["step"], a["trials"]) == (b["step"], b["trials"])
    np.testing.assert_array_equal(first.trajectory.u, second.trajectory.u)
    assert second.objective == RATIO * first.objective
    for name in ("costate", "multipliers_path", "multipliers_final", "Vxx"):
        if name in first.extra:
            np.testing.assert_array_equal(second.extra[name], RATIO * first.extra[name])


def test_the_certificate_says_the_same():
    chosen = ILQROptions(intervals=30, kernels="interpreted")
    found = [solve(p, chosen) for p in (cart_pole(), *twins(cart_pole()))]
    assert all(one.status is Status.CONVERGED for one in found)
    first, *others = (certify(one).certificate for one in found)
    for other in others:
        assert [one.kind for one in other.failures] == [one.kind for one in first.failures]
        assert other.second_order == first.second_order
        assert other.stationarity.value < 1e-6 > first.stationarity.value
        assert other.objective_size == pytest.approx(first.objective_size * found[1].objective / found[0].objective
                                                     * (RATIO if other is others[1] else 1.0), rel=1e-4)


def test_a_problem_without_a_cost_has_the_unit_one():
    problem = block_move()
    found = solve(with_phase(problem, costs=()), ILQROptions(intervals=10, kernels="interpreted"))
    assert found.status is Status.CONVERGED, found.ending
    assert found.objective == 0.0


def test_a_search_that_goes_on_keeps_its_unit():
    problem, kept = rescaled(cart_pole(), Units(cost=2.0**-40)), []
    chosen = ILQROptions(intervals=30, kernels="interpreted")
    whole = solve(problem, chosen)
    solve(problem, replace(chosen, max_iterations=len(whole.iterations) // 2), checkpoint=kept.append)
    again = solve(problem, chosen, resume=kept[-1])
    assert kept[-1]["unit"][0] < 1e-8
    assert again.status is Status.CONVERGED
    assert again.objective == pytest.approx(whole.objective, rel=1e-6)


@pytest.mark.parametrize("upper", [9.0, np.inf])
def test_the_same_bounds_press_in_any_unit_of_the_cost(upper):
    """Multipliers of bounds are those of the same controls, and what is left of a gradient inside is not taken for one."""
    problem = with_phase(cart_pole(), u_lower=(-9.0,), u_upper=(upper,))
    chosen = ILQROptions(intervals=30, kernels="interpreted", tolerance=1e-4)
    first, other = (solve(rescaled(problem, Units(cost=f)), chosen).optimality.local() for f in (1.0, RATIO))
    pressed = first.lam_x != 0
    assert 2 <= pressed.sum() < 25
    np.testing.assert_allclose(np.abs(first.x[pressed]), 9.0)
    np.testing.assert_allclose(other.lam_x, RATIO * first.lam_x, rtol=1e-6)
