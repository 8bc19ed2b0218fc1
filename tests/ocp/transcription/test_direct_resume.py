"""Checkpoints of the direct methods: cut short and gone on, also where tangent unknowns are centred anew."""

from __future__ import annotations

import direct_problems as direct
import numpy as np
import pytest
from commands import stop_at
from control_problems import brachistochrone, cart_pole

import ocp.problem.checkpoint as checkpoint_module
from ocp.errors import ProblemError
from ocp.methods import solve
from ocp.problem import Boundary, Guess, Kind, Status


def tumble():
    """A body turned far from the guess, so that charts must be centred several times."""
    first, last = direct.pose(), direct.pose((0.5, -0.3, 0.2), (1.2, -0.8, 0.9))
    guess = Guess(np.array([0.0, 1.0]), np.array([first, first]), np.zeros((2, 6)))
    return direct.body_transfer(guess=guess, start=Boundary(first, (True,) * 12), final=Boundary(last, (True,) * 12))


CASES = {
    "shooting": (cart_pole(), "multiple_shooting", {"intervals": 25}, 6),
    "implicit": (cart_pole(), "multiple_shooting", {"intervals": 15, "integrator": "gauss_legendre_2", "controls": "linear"}, 5),
    "phases": (direct.bouncing_ball(), "multiple_shooting", {"intervals": 20}, 3),
    "gauss": (cart_pole(), "collocation", {"intervals": 12, "scheme": "gauss"}, 8),
    "compressed": (brachistochrone(), "collocation", {"intervals": 12, "form": "compressed"}, 5),
    "radau phases": (direct.bouncing_ball(), "collocation", {"intervals": 6, "scheme": "radau"}, 4),
    "first pass": (tumble(), "collocation", {"intervals": 5, "scheme": "radau", "states": "tangent"}, 3),
    "later pass": (tumble(), "collocation", {"intervals": 5, "scheme": "radau", "states": "tangent"}, 99),
    "tangent shooting": (tumble(), "multiple_shooting", {"intervals": 6, "integrator": "rkmk4", "states": "tangent"}, 3),
}


def passes(found):
    return sum(one.kind is Kind.TANGENT_UNKNOWNS_CENTRED for one in found.findings)


@pytest.mark.parametrize("name", [
    pytest.param(n, marks=[pytest.mark.slow] * (n in ("tangent shooting", "first pass", "later pass", "implicit"))) for n in CASES])
@pytest.mark.sample(2)
def test_interrupted_and_resumed_is_as_good_as_never_interrupted(name):
    problem, method, options, after = CASES[name]
    whole = solve(problem, method, options)
    assert whole.status is Status.CONVERGED, whole.ending
    last = len(whole.iterations) - 1
    after = last - 1 if name == "later pass" else after
    assert passes(whole) == int(options.get("states") == "tangent")
    kept, rows = [], []
    part = solve(problem, method, options, progress=stop_at(after), checkpoint=kept.append)
    assert part.status is Status.INTERRUPTED
    found = kept[-1]
    done = int(found["iterations"][0])
    assert after <= done < last + (name == "later pass")
    assert float(found["cost"][0]) == pytest.approx(part.objective, rel=1e-12)
    assert all(array.dtype.kind in "fiU" for array in found.values())

    rest = solve(problem, method, options, resume=found, progress=rows.append)
    assert rest.status is Status.CONVERGED, rest.ending
    assert rest.objective == pytest.approx(whole.objective, rel=1e-5 if passes(whole) else 1e-8)
    np.testing.assert_allclose(rest.trajectory.x, whole.trajectory.x, atol=1e-3 if passes(whole) else 1e-5)
    assert [row["iteration"] for row in rest.iterations] == list(range(len(rest.iterations)))
    assert [row["objective"] for row in rest.iterations[:done + 1]] == pytest.approx(
        [row["objective"] for row in whole.iterations[:done + 1]], rel=1e-6)
    shown = [int(row["iteration"]) for row in rows]
    assert shown == sorted(shown)
    assert shown[0] == done
    assert shown[-1] == len(rest.iterations) - 1
    for key in ("objective", "inf_pr", "inf_du"):  # it begins at the very point, seen in the very charts
        assert rows[0][key] == pytest.approx(whole.iterations[done][key], rel=1e-3, abs=1e-8)
    assert [one.data["iterations"] for one in rest.findings if one.kind is Kind.RESUMED] == [done]
    assert rest.ok == whole.ok, rest.certificate.failures


@pytest.mark.slow
def test_tangent_checkpoints_come_with_their_centres(monkeypatch):
    """Every checkpoint of a solve that centres anew is good for going on, whichever pass it is of."""
    monkeypatch.setattr(checkpoint_module, "SECONDS", 0.0)
    problem, method, options, _ = CASES["first pass"]
    kept = []
    whole = solve(problem, method, options, checkpoint=kept.append)
    counts = [int(found["iterations"][0]) for found in kept]
    assert counts == sorted(counts)
    assert counts[-1] <= len(whole.iterations) - 1
    centres = [found["centres_0"] for found in kept]
    assert centres[0].shape == (16, 13)
    assert np.abs(centres[0] - centres[-1]).max() > 0.1
    monkeypatch.setattr(checkpoint_module, "SECONDS", 10.0)
    for found in (kept[0], kept[len(kept) // 2], kept[-1]):
        assert solve(problem, method, options, resume=found).objective == pytest.approx(whole.objective, rel=1e-5)


def test_a_checkpoint_of_another_mesh_is_refused():
    problem, method, options, after = CASES["shooting"]
    kept = []
    solve(problem, method, options, progress=stop_at(after), checkpoint=kept.append)
    for words, other in (("variables", {"intervals": 24}), ("variables", {"intervals": 25, "controls": "linear"})):
        with pytest.raises(ProblemError, match=words):
            solve(problem, method, other, resume=kept[-1])
    with pytest.raises(ProblemError, match="multiple_shooting"):
        solve(problem, "collocation", {}, resume=kept[-1])
