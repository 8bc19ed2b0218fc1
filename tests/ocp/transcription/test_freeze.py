"""Every automatic choice as lines of a problem file: pasted, they give the same solve again."""

from __future__ import annotations

import re
from dataclasses import replace

import control_problems as known
import numpy as np
import pytest
from repository import ROOT
from uncertified import by_collocation

from ocp.app.files.load import load_text
from ocp.app.pages.results import frozen_lines
from ocp.errors import ProblemError
from ocp.methods import solve
from ocp.nlp import choose_scaling
from ocp.nlp.scaling_text import read_scaling, scaling_text
from ocp.problem import Kind, Status
from ocp.strategy import programs
from ocp.transcription import multiple_shooting
from ocp.transcription.collocation import CollocationOptions, transcribe
from ocp.transcription.refine.plan import Plan, plans_text, read_plans, uniform_plan

PROBLEMS = ROOT / "problems"
#: options that no frozen solve may hold
AUTOMATIC = ("guess", "degree", "derivatives", "execution", "kernels", "scaling")


def pasted(name, lines):
    """The problem file with these lines for its section ``solve``."""
    text = (PROBLEMS / f"{name}.yaml").read_text(encoding="utf-8")
    without = re.sub(r"^solve:.*?(?=^\S|\Z)", "", text, flags=re.S | re.M)
    assert without != text
    return load_text(f"{without}\n{lines}\n", PROBLEMS)


@pytest.mark.parametrize(("name", "method", "options"), [
    ("cartpole_swingup", "collocation", {"scaling": "auto", "intervals": 20}),
    ("brachistochrone", "collocation", {"scheme": "radau", "degree": 4, "intervals": 6, "scaling": "jacobian"}),
    ("pendulum_min_time", "collocation", {"guess": "multistart", "intervals": 15, "scheme": "gauss"}),
    ("planar_quadrotor", "collocation", {"guess": "coarse", "scaling": "auto", "intervals": 40}),
    ("bouncing_ball", "collocation", {"scaling": "auto"}),
    ("bouncing_ball", "multiple_shooting", {"scaling": "bounds", "intervals": 10}),
])
@pytest.mark.sample(2)
def test_pasted_lines_give_the_same_solve(name, method, options):
    problem = load_text((PROBLEMS / f"{name}.yaml").read_text(encoding="utf-8"), PROBLEMS).problem
    found = solve(problem, method, options)
    assert found.status is Status.CONVERGED
    loaded = pasted(name, frozen_lines(method, found.freeze))
    assert loaded.method == method
    chosen = loaded.options_for(method)
    assert "auto" not in [chosen.get(key) for key in AUTOMATIC if key in found.options]
    again = solve(loaded.problem, method, chosen)
    assert again.objective == found.objective
    assert len(again.iterations) == len(found.iterations)
    np.testing.assert_array_equal(again.trajectory.x, found.trajectory.x)
    assert again.freeze == {**found.freeze, **{k: v for k, v in again.freeze.items() if k not in found.freeze}}


def test_a_refined_solve_is_frozen_with_its_mesh_and_solved_in_one_pass():
    problem = load_text((PROBLEMS / "robot_arm_min_time.yaml").read_text(encoding="utf-8"), PROBLEMS).problem
    found = solve(problem, "collocation", {"scheme": "gauss", "refine": "hp", "intervals": 20})
    assert len(found.extra["refinement"]) > 1
    loaded = pasted("robot_arm_min_time", frozen_lines("collocation", found.freeze))
    again = solve(loaded.problem, "collocation", loaded.options_for("collocation"))
    assert again.objective == pytest.approx(found.objective, rel=1e-9)
    np.testing.assert_allclose(again.trajectory.t, found.trajectory.t, rtol=1e-7)
    assert "refinement" not in again.extra


def test_the_guess_that_served_is_the_only_one_tried(monkeypatch):
    """Where the first guesses fail, a seed serves; frozen, that seed is the first attempt."""
    tried, failing = [], 4  # as given, the coarse solve, from there, and the first seed
    own = programs.solve_program

    def program(problem, method, options, *rest):
        tried.append(options)
        answer = own(problem, method, options, *rest)
        return replace(answer, status=Status.STALLED) if len(tried) <= failing else answer

    monkeypatch.setattr(programs, "solve_program", program)
    found = by_collocation(known.bang_bang(), CollocationOptions(intervals=20))
    assert found.status is Status.CONVERGED
    assert len(tried) == 5
    assert found.freeze["guess"] == "multistart 1"
    failing, tried = 0, []
    again = by_collocation(known.bang_bang(), CollocationOptions(**found.freeze))
    assert len(tried) == 1
    assert again.objective == found.objective


def test_a_coarse_guess_beside_a_given_mesh_has_a_mesh_of_its_own(monkeypatch):
    sizes = []
    own = programs.solve_program

    def program(*arguments):
        answer = own(*arguments)
        sizes.append(len(answer.trajectory.t) - 1)
        return answer

    monkeypatch.setattr(programs, "solve_program", program)
    mesh = "0:3*5 0.5:4*7 1"
    by_collocation(known.bang_bang(), CollocationOptions(guess="coarse 9", scheme="gauss", mesh=mesh, scaling="auto"))
    assert sizes == [9, 12]


@pytest.mark.parametrize("options", [CollocationOptions(intervals=7), CollocationOptions(scheme="radau", intervals=3)])
@pytest.mark.parametrize("how", ["auto", "bounds", "jacobian"])
def test_scaling_as_text_and_back(options, how):
    nlp = transcribe(known.cart_pole(), options).nlp
    chosen = choose_scaling(nlp, how)
    back = read_scaling(nlp, scaling_text(nlp, chosen))
    np.testing.assert_array_equal(back.columns, chosen.columns)
    np.testing.assert_array_equal(back.rows, chosen.rows)
    assert (back.objective, back.how) == (chosen.objective, how)
    assert len(np.unique(chosen.columns)) + len(np.unique(chosen.rows)) > 2  # not all ones


def test_scaling_of_another_mesh_is_refused():
    text = scaling_text(nlp := transcribe(known.cart_pole(), CollocationOptions(intervals=7)).nlp, choose_scaling(nlp, "auto"))
    other = transcribe(known.cart_pole(), CollocationOptions(intervals=8)).nlp
    with pytest.raises(ProblemError, match="another mesh"):
        read_scaling(other, text)
    with pytest.raises(ProblemError, match="another program"):
        read_scaling(transcribe(known.block_move(), CollocationOptions(intervals=7)).nlp, text)


@pytest.mark.parametrize("kind", [CollocationOptions, multiple_shooting.MultipleShootingOptions])
@pytest.mark.parametrize(("options", "said"), [
    ({"scaling": "automatic"}, "scaling"), ({"scaling": "auto: columns 1"}, "factors such as"),
    ({"guess": "given 3"}, "is no initial guess"),
    ({"guess": "multistart 99"}, "seed from 0"), ({"guess": "coarse x"}, "is no initial guess"), ({"guess": "coars 3"}, "coarse")])
def test_malformed_choices(kind, options, said):
    with pytest.raises(ProblemError, match=said):
        kind(**options)


def test_factors_and_refinement_exclude_each_other():
    with pytest.raises(ProblemError, match="one mesh"):
        CollocationOptions(scheme="gauss", refine="hp", scaling="auto: columns 1; rows 1; objective 0")


def test_after_a_slow_quasi_newton_solve_no_other_guess_is_tried(monkeypatch):
    tried = []
    own = programs.solve_program
    monkeypatch.setattr(programs, "solve_program", lambda *arguments: tried.append(1) or own(*arguments))
    found = by_collocation(known.cart_pole(), CollocationOptions(hessian="limited_memory", intervals=30, max_iterations=30))
    assert found.status is not Status.CONVERGED
    assert len(tried) == 1
    assert found.ending.kind is Kind.QUASI_NEWTON_STALLED


@pytest.mark.parametrize(("options", "told"), [
    ({"scheme": "lobatto", "degree": 4}, True), ({"scheme": "lobatto", "degree": 3}, False),
    ({"scheme": "radau", "degree": 5}, False),
    ({"scheme": "lobatto", "degree": 5, "controls": "held"}, False), ({"scheme": "lobatto", "mesh": "0:3 0.5:4 1"}, True)])
def test_lobatto_schemes_of_lower_order_say_so(options, told):
    found = by_collocation(known.block_move(), CollocationOptions(intervals=3, **options))
    assert any(one.kind is Kind.LOBATTO_ORDER for one in found.findings) is told


@pytest.mark.parametrize(("plan", "said"), [
    (uniform_plan(20, 3), "0:3*20 1"),
    (Plan((0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0), (3,) * 6, frozenset()), "0:3*4 0.5:3*2 1"),
    (Plan((0.0, 0.25, 0.5, 0.75, 1.0), (3, 3, 4, 4), frozenset({1})), "0:3 0.25!:3 0.5:4*2 1")],
    ids=["even", "two stretches", "jump"])
def test_meshes_cut_evenly_are_written_short_and_read_back(plan, said):
    assert plans_text([plan]) == said
    assert read_plans(said, ["phase"], "radau", "mesh") == (plan,)
