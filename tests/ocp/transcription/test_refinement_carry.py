"""Multipliers carried from one mesh to the next: close to those of the solution there, and worth iterations."""

from __future__ import annotations

from collections import Counter

import control_problems as known
import numpy as np
import pytest
import scipy.sparse as sp
from repository import ROOT
from uncertified import by_collocation

from ocp.app.files.load import load_problem
from ocp.problem import Status
from ocp.strategy import programs
from ocp.transcription.collocation import CollocationOptions, transcribe, uniform_meshes
from ocp.transcription.refine.carry import _least_squares, carried
from ocp.transcription.refine.continued import continued

PROBLEMS = ROOT / "problems"


def test_least_squares_of_a_band_with_columns_of_the_whole_phase():
    rng, (m, n) = np.random.default_rng(0), (400, 600)
    A = sp.diags([rng.normal(size=m) for _ in range(5)], [0, 30, 60, 90, 199], shape=(m, n)).tolil()
    A[:, [0, n - 1]] = rng.normal(size=(m, 2))
    A, right = A.tocsc(), rng.normal(size=n)
    np.testing.assert_allclose(_least_squares(A, right, 0.3), np.linalg.lstsq(A.toarray().T, right, rcond=None)[0], atol=1e-5)


@pytest.mark.parametrize("name", ["van_der_pol_limited", "rayleigh_mixed"])  # a bound of a state, a row along the path
@pytest.mark.parametrize("scheme", ["gauss", "radau", "lobatto", "hermite_simpson", "trapezoid"])
def test_carried_multipliers_are_close_to_those_of_the_finer_solution(scheme, name):
    problem = load_problem(PROBLEMS / f"{name}.yaml").problem
    coarse, fine = (CollocationOptions(scheme=scheme, intervals=n, tolerance=1e-10) for n in (30, 40))
    first, second = by_collocation(problem, coarse), by_collocation(problem, fine)
    before, after = uniform_meshes(problem, coarse)[0], uniform_meshes(problem, fine)[0]
    nlp = transcribe(continued(problem, (first.trajectory,), first.problem, [after]), fine).nlp
    o = first.optimality
    found = carried(o.nlp, o.lam_x, o.lam_g, nlp, {"": (before, after)})
    wanted = second.optimality
    # the costate says it best: multipliers of defects by themselves depend on the form of the scheme
    program = transcribe(problem, fine)
    p, q = program.costate(found.lam_g)[0], program.costate(wanted.lam_g)[0]
    assert np.median(np.abs(p - q)) < 0.03 * np.max(np.abs(q))
    assert np.max(np.abs(found.x - wanted.x)) < 0.3 * np.max(np.abs(wanted.x))
    assert np.linalg.norm(found.lam_x - wanted.lam_x) < 0.7 * np.linalg.norm(wanted.lam_x)


def test_multipliers_of_several_phases_are_carried_phase_by_phase():
    problem = load_problem(PROBLEMS / "bouncing_ball.yaml").problem
    coarse, fine = (CollocationOptions(scheme="radau", intervals=n, tolerance=1e-10) for n in (10, 20))
    first, second = by_collocation(problem, coarse), by_collocation(problem, fine)
    pairs = zip(uniform_meshes(problem, coarse), uniform_meshes(problem, fine), strict=True)
    meshes = {phase.name: pair for phase, pair in zip(problem.phases, pairs, strict=True)}
    nlp = transcribe(continued(problem, first.parts, first.problem, [after for _, after in meshes.values()]), fine).nlp
    found = carried(first.optimality.nlp, first.optimality.lam_x, first.optimality.lam_g, nlp, meshes)
    program = transcribe(problem, fine)
    for p, q in zip(program.costate(found.lam_g), program.costate(second.optimality.lam_g), strict=True):
        assert np.median(np.abs(p - q)) < 0.03 * np.max(np.abs(q))


def test_passes_take_fewer_iterations(monkeypatch):
    def later(problem):
        found = by_collocation(problem, CollocationOptions(scheme="radau", refine="hp", intervals=10))
        assert found.status is Status.CONVERGED
        counts = Counter(row["pass"] for row in found.iterations)
        return sum(n for number, n in counts.items() if number > 1) / (len(counts) - 1), found.objective

    names = ("van_der_pol", "van_der_pol_limited")
    problems = [load_problem(PROBLEMS / f"{name}.yaml").problem for name in names] + [known.cart_pole()]
    carrying = [later(problem) for problem in problems]
    own = programs.solve_program
    monkeypatch.setattr(programs, "solve_program", lambda *arguments: own(*arguments[:9]))  # without ``begin``
    plain = [later(problem) for problem in problems]
    assert sum(n for n, _ in carrying) < 0.75 * sum(n for n, _ in plain)
    for (_, one), (_, other) in zip(carrying, plain, strict=True):
        assert one == pytest.approx(other, rel=1e-7)
