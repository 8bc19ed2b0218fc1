"""A program that was built once against problems that are solved from scratch, closed forms and finite differences."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from block_file import BLOCK

from ocp.app.files.load import load_problem, load_text
from ocp.batch.compiled import compiled
from ocp.errors import ProblemError
from ocp.methods import solve
from ocp.problem import SOLVED, Bounds
from ocp.problem.numbers import numbers_of, structure_of, with_numbers

CASE = BLOCK + """  constraints: [{name: speed, expression: v, upper: 10}]
"""


def block():
    return load_text(CASE).problem


def changed(problem, **ends):
    """The problem with other values of its start, its end, or its parameters."""
    phase = problem.phase
    for name in ("start", "final"):
        if name in ends:
            phase = replace(phase, **{name: replace(getattr(phase, name), value=tuple(ends[name]))})
    if "parameters" in ends:
        phase = replace(phase, system=replace(phase.system, parameter_values=tuple(ends["parameters"])))
    return replace(problem, phases=(phase,))


@pytest.mark.parametrize(("method", "options"), [("collocation", {}), ("multiple_shooting", {"intervals": 20})])
def test_cases_of_a_block_have_the_objective_in_closed_form(method, options):
    """From rest to rest over the distance d in one second, ``12 (m d)^2`` [N^2 s]: from any start, to any goal, of any mass."""
    made = compiled(block(), method, options, parameters=("mass",))
    for start, goal, mass in ((0.0, 1.0, 2.0), (0.5, 1.0, 2.0), (0.0, -2.0, 1.0), (-1.0, 3.0, 0.3)):
        case = changed(block(), start=(start, 0.0), final=(goal, 0.0), parameters=(mass,))
        found = made.solve(case)
        assert found.solution.ok
        gap = 2e-2 if method == "multiple_shooting" else 1e-7  # controls are held over an interval
        assert found.solution.objective == pytest.approx(12 * (mass * (goal - start)) ** 2, rel=gap)
        assert found.solution.problem.phase.system.parameter_values == (mass,)


def test_multipliers_of_fixed_parameters_are_sensitivities():
    """``d/dm 12 (m d)^2 = 24 m d^2``, and the same by two cases beside it."""
    made = compiled(block(), "collocation", {"scheme": "hermite_simpson", "intervals": 10}, parameters=("mass",))
    at = made.solve(changed(block(), parameters=(2.0,)))
    beside = [made.solve(changed(block(), parameters=(2.0 + h,))).solution.objective for h in (1e-3, -1e-3)]
    slope = -at.solution.extra["lam_x"][-1]
    assert slope == pytest.approx(48.0, rel=1e-5)
    assert slope == pytest.approx((beside[0] - beside[1]) / 2e-3, rel=1e-5)


def test_limits_are_numbers():
    """A limit of speed that bites makes the motion dearer, as the same problem solved from scratch says."""
    made = compiled(block(), "collocation")
    phase = block().phase
    slow = replace(block(), phases=(replace(phase, constraints=(replace(phase.constraints[0], upper=(1.2,)),)),))
    found, whole = made.solve(slow).solution, solve(slow)
    assert found.status in SOLVED
    assert found.objective == pytest.approx(whole.objective, rel=1e-3)
    assert found.objective > 1.01 * 48.0
    narrow = replace(block(), phases=(phase.with_bounds(controls=Bounds((-9.0,), (9.0,))),))
    assert made.solve(narrow).solution.objective > 48.5


@pytest.mark.parametrize("start", [0.4, -0.3])
def test_ilqr_takes_starts_and_parameters(start):
    """Against a solve from scratch: a pendulum from another angle."""
    loaded = load_problem("problems/pendulum_swingup.yaml")
    made = compiled(loaded.problem, "ilqr", {**loaded.options_for("ilqr"), "intervals": 50})
    case = changed(loaded.problem, start=(start, 0.0))
    assert made.solve(case).solution.objective == pytest.approx(
        solve(case, "ilqr", {**loaded.options_for("ilqr"), "intervals": 50}).objective, rel=1e-6)


def test_a_case_depends_on_nothing_that_was_solved_before():
    made = compiled(block(), "collocation", parameters=("mass",))
    case = changed(block(), start=(0.2, 0.0), parameters=(1.5,))
    first = made.solve(case).solution
    made.solve(changed(block(), final=(5.0, 0.0)))
    again = made.solve(case).solution
    assert first.objective == again.objective
    np.testing.assert_array_equal(first.trajectory.u, again.trajectory.u)


@pytest.mark.parametrize(("file", "options"), [
    ("cartpole_swingup", {}), ("quadrotor", {"states": "tangent", "intervals": 8, "scheme": "hermite_simpson"}),
    ("bryson_denham", {"intervals": 8, "scheme": "hermite_simpson"})])
def test_bounds_are_moved_as_by_a_transcription_from_scratch(file, options):
    """Of other starts, ends and bounds, on curved spaces too; of what is not moved, nothing."""
    from ocp.batch.compiled import DirectProgram, Varied
    from ocp.methods import make_options, method

    loaded = load_problem(f"problems/{file}.yaml")
    chosen = make_options("collocation", {**loaded.options_for("collocation"), **options})
    problem = method("collocation").reduce(loaded.problem, chosen)
    made = DirectProgram(problem, "collocation", chosen, Varied(), None)
    phase, rng = problem.phases[0], np.random.default_rng(0)
    space = phase.system.space
    flat = [i for i, k in enumerate(space.tangent_index) if k >= 0]
    value = np.array(phase.start.value)
    value[flat] += 0.01 * rng.random(len(flat))
    low, high = phase.control_bounds.arrays
    moved = []
    for one in (replace(phase, start=replace(phase.start, value=tuple(value.tolist()))),
                phase.with_bounds(controls=Bounds(tuple((low - 1).tolist()), tuple((high + 0.5).tolist())))):
        case = replace(problem, phases=(one, *problem.phases[1:]))
        quick, whole = made.program.limited(case), made.program.moved(case).nlp
        for name in ("x_lower", "x_upper", "g_lower", "g_upper"):
            np.testing.assert_array_equal(getattr(quick, name), getattr(whole, name))
        moved.append(not np.array_equal(quick.x_lower, made.program.nlp.x_lower))
    assert any(moved)


def test_neighbours_take_few_iterations_and_far_ones_begin_again(monkeypatch):
    """Of a least time: from a start beside that of the file in a handful of iterations, farther away
    from the same point once more; the optimum is that of the guess, and the log has the iterations of both."""
    from ocp.nlp.interior_point import prepare

    problem = load_problem("problems/particle_steering.yaml").problem
    made = compiled(problem, "collocation", {"scheme": "hermite_simpson", "intervals": 30, "refine": "none"})
    case = changed(problem, start=np.array(problem.phase.start.value) + 0.01)
    near, cold = (made.solve(case, guess=guess, certified=False) for guess in (False, True))
    assert len(near.solution.iterations) - 1 <= 5 < len(cold.solution.iterations) - 1
    assert near.objective == pytest.approx(cold.objective, rel=1e-8)
    monkeypatch.setattr(prepare, "CHUNK", 2)
    rows = made.solve(case, certified=False)
    barriers = [row["mu"] for row in rows.solution.iterations]
    assert rows.objective == pytest.approx(cold.objective, rel=1e-8)
    assert barriers[3] > 1e2 * barriers[0]
    assert [row["iteration"] for row in rows.solution.iterations] == list(range(len(barriers)))


def test_where_compiled_loops_fail_ipopt_solves():
    made = compiled(block(), "collocation", {"scheme": "hermite_simpson", "intervals": 10})
    assert made.base.solution.options["solver"] == "interior_point"
    case = changed(block(), start=(0.3, 0.0))
    wanted = made.solve(case).objective
    made.program.solver = made.program._prepared(replace(made.program.options, max_iterations=0))
    found = made.solve(case)
    assert found.solution.ok
    assert found.objective == pytest.approx(wanted, rel=1e-9)
    assert "second" in vars(made.program)


@pytest.mark.parametrize("method", ["collocation", "ilqr"])
def test_compiled_programs_travel(method):
    problem, options = (block(), {}) if method == "collocation" else (
        load_problem("problems/pendulum_swingup.yaml").problem, {"intervals": 30})
    made = compiled(problem, method, options)
    case = changed(problem, start=(0.2, 0.0))
    wanted = made.solve(case).solution
    for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        found = other.solve(case).solution
        assert found.ok == wanted.ok
        np.testing.assert_array_equal(found.trajectory.x, wanted.trajectory.x)
    whole, times = pickle.loads(pickle.dumps(wanted)), np.linspace(0.0, wanted.trajectory.t[-1], 17)
    np.testing.assert_array_equal(whole.trajectory.state(times), wanted.trajectory.state(times))


def test_what_is_no_number_of_the_program_is_refused():
    made = compiled(block(), "collocation")
    with pytest.raises(ProblemError, match="'mass' is fixed"):
        made.solve(changed(block(), parameters=(1.0,)))
    phase = block().phase
    with pytest.raises(ProblemError, match="duration"):
        made.solve(replace(block(), phases=(replace(phase, duration=replace(phase.duration, lower=2.0, upper=2.0, guess=2.0)),)))
    with pytest.raises(ProblemError, match="'weight' cannot be varied: no phase has it"):
        compiled(block(), parameters=("weight",))


@pytest.mark.parametrize("file", ["cartpole_swingup", "leg_leap", "quadrotor", "van_der_pol_periodic"])
def test_numbers_and_structure(file):
    """Numbers go round; problems that differ in them have one structure, others have another."""
    problem, again = (load_problem(f"problems/{file}.yaml").problem for _ in range(2))
    numbers = numbers_of(problem)
    assert structure_of(problem) == structure_of(again)
    moved = with_numbers(problem, numbers * 1.5)
    np.testing.assert_array_equal(numbers_of(moved), numbers * 1.5)
    phase = problem.phases[0]
    assert all(a.system.rate is b.system.rate for a, b in zip(moved.phases, problem.phases, strict=True))
    other = replace(problem, phases=(replace(phase, costs=phase.costs[:0]), *problem.phases[1:]))
    assert structure_of(other) != structure_of(problem)
    with pytest.raises(ValueError, match="1 more"):
        with_numbers(problem, np.append(numbers, 0.0))
