"""Reductions and their inverses: what comes back satisfies the equations of the problem that was given, evaluated apart; the chain
runs once for a solve; and a new reduction is one class and one row."""

from dataclasses import dataclass, field, fields, replace

import casadi as ca
import control_problems as known
import numpy as np
import pytest
from control_problems import cubic, end_of

from ocp.app.files.load import load_text
from ocp.certify import certify
from ocp.errors import ProblemError
from ocp.guesses.motion import from_motion
from ocp.methods import METHODS, make_options, method, solve, uncertified
from ocp.problem import At, Constraint, Cost, Duration, Phase, Problem, Solution, Status, Trajectory
from ocp.reductions import REDUCTIONS, ReducedProblem, Reduction, chain_of, fit_guess, invert, redundant, with_dropped_conditions
from ocp.reductions.control_norms import NEGATIVE_PART
from ocp.shooting.ilqr import prepare

#: two wheels geared 1 to 2, by text: of four conditions at the end, two repeat the others
GEARED = """
name: Geared wheels
system:
  bodies:
    small: {mass: 1, inertia: {xx: 0.1, yy: 0.1, zz: 0.1}, joint: {name: a, kind: revolute, axis: [0, 0, 1]}}
    large: {mass: 1, inertia: {xx: 0.4, yy: 0.4, zz: 0.4}, joint: {name: b, kind: revolute, axis: [0, 0, 1]}}
  actuated: [a]
  constraints:
    - {name: gear, coupling: {ratios: {a: 1, b: -2}}}
phase:
  duration: 1
  start: {joints: {a: 0, b: 0}, rest: true}
  final: {joints: {a: 1, b: 0.5}, rest: true}
  costs: [{name: effort, running: "a**2"}]
"""
#: inertia of both wheels about the axis of the first: 0.1 + 0.4 / 4
GEARED_INERTIA = 0.2


def block(cost, **changes):
    phase = known.block_move(3.0).phase
    return known.problem(replace(phase, costs=(Cost("cost", At.PATH, known.function(2, 1, cost)),), **changes))


def size_of_effort(t, x, u, p):
    return ca.fabs(u[0])


# ---- there and back -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "options"), [("collocation", {}), ("multiple_shooting", {"intervals": 60})])
def test_slack_reformulations_hand_back_the_control_that_moves_the_block(name, options):
    problem = block(size_of_effort, u_lower=(-1.0,), u_upper=(1.0,))
    reduced = method(name).reduce(problem, make_options(name, options))
    assert reduced.phase.system.controls == ("u", "u" + NEGATIVE_PART)
    found = solve(problem, name, options)
    assert type(found.problem) is Problem
    assert found.problem.phase.costs == problem.phase.costs
    assert end_of(found, lambda t, x, u: [x[1], u[0]]) == pytest.approx([1.0, 0.0], abs=2e-3)
    assert np.max(np.abs(found.trajectory.u)) <= 1 + 1e-9
    assert "bound u" in [one.name for one in found.certificate.violations]


def test_redundant_conditions_hold_though_no_method_asks_for_them():
    problem = load_text(GEARED).problem
    reduced = method("collocation").reduce(problem, make_options("collocation", {}))
    assert sum(reduced.phase.final.fixed) == 2
    assert sum(redundant(reduced).final[0]) == 2
    found = solve(problem)
    assert found.ok
    assert found.problem.phase.final == problem.phase.final
    assert found.trajectory.x[-1] == pytest.approx([1.0, 0.5, 0.0, 0.0], abs=1e-6)
    assert found.objective == pytest.approx(12 * GEARED_INERTIA**2, rel=1e-6)  # a unit turn in a second, by 6 - 12 t
    turned = [state for state in found.certificate.violations if state.name == "final state"]
    assert [state.holds for state in turned] == [True]


def test_bounds_as_constraints_come_back_as_bounds():
    problem = with_bounds = block(lambda t, x, u, p: u[0]**2, u_lower=(-0.5,), u_upper=(0.5,))
    options = {"control_bounds": "rows", "intervals": 40}
    reduced = method("ilqr").reduce(problem, make_options("ilqr", options))
    assert reduced.phase.u_upper == (np.inf,)
    assert with_dropped_conditions(reduced) is with_bounds
    found = solve(problem, "ilqr", options)
    assert (found.problem.phase.u_lower, found.problem.phase.u_upper) == ((-0.5,), (0.5,))
    assert found.problem.phase.constraints == ()
    assert np.max(np.abs(found.trajectory.u)) == pytest.approx(0.5, abs=1e-5)
    assert end_of(found, lambda t, x, u: [x[1], u[0]]) == pytest.approx([1.0, 0.0], abs=1e-4)


def test_limits_of_the_system_are_bounds_like_others():
    phase = block(lambda t, x, u, p: u[0]**2).phase
    limited = replace(phase, system=replace(phase.system, u_limits=((-0.5, 0.5),)), u_lower=(), u_upper=())
    reduced = chain_of(["control_bounds"]).apply(known.problem(limited), make_options("ilqr", {"control_bounds": "rows"}))
    assert (reduced.phase.u_lower, reduced.phase.u_upper) == ((-np.inf,), (np.inf,))
    assert [(one.lower, one.upper) for one in reduced.phase.constraints] == [((-0.5,), (0.5,))]


def test_shooting_refuses_bounds_that_should_be_constraints():
    options = make_options("ilqr", {"control_bounds": "rows"})
    with pytest.raises(ProblemError, match="reduce it"):
        prepare(block(lambda t, x, u, p: u[0]**2, u_lower=(-0.5,), u_upper=(0.5,)), options)


# ---- the chain ------------------------------------------------------------------------------------------------------------
def test_nothing_to_do_leaves_the_problem_as_it_is():
    problem = known.block_move()
    for name in METHODS:
        assert method(name).reduce(problem, make_options(name, {})) is problem
    assert fit_guess(problem) is problem
    assert with_dropped_conditions(problem) is problem
    assert redundant(problem) is None


def test_a_reduced_problem_stays_so_when_its_guess_changes_and_is_reduced_once():
    problem, options = block(size_of_effort), make_options("collocation", {})
    problem = replace(problem, phases=(replace(problem.phase, u_lower=(-1.0,), u_upper=(1.0,)),))
    reduced = method("collocation").reduce(problem, options)
    changed = replace(reduced, phases=(replace(reduced.phase, duration=Duration(2, 2, 2)),))
    assert isinstance(changed, ReducedProblem)
    assert changed.steps is reduced.steps
    assert method("collocation").reduce(changed, options) is changed
    assert {one.name for one in fields(Phase)} & {step.reduction.name for step in reduced.steps} == set()


def test_elimination_asks_for_stated_equations():
    with pytest.raises(ProblemError, match="apply algebraic_equations before"):
        chain_of(["algebraic_elimination"]).apply(cubic())


def test_a_guess_that_was_changed_gets_slacks_no_smaller_than_the_norms():
    system = known.flat_system("puck", ("x", "y"), ("a", "b"), lambda t, x, u, p: u)
    phase = Phase("way", system, Duration(1, 1, 1), known.line([0, 0], [1, 1], 2), known.fixed(0, 0), known.fixed(1, 1),
                  u_lower=(-4.0, -5.0), u_upper=(4.0, 5.0),
                  costs=(Cost("fuel", At.PATH, known.function(2, 2, lambda t, x, u, p: ca.norm_2(u))),))
    reduced = chain_of(["control_norms"]).apply(known.problem(phase))
    assert reduced.phase.guess.u[:, 2] == pytest.approx(0.5)  # a tenth of what the bounds allow, away from the apex
    guess = replace(reduced.phase.guess, u=np.array([[3.0, 4.0, 1.0], [0.0, 1.0, 2.0]]))
    fitted = fit_guess(replace(reduced, phases=(replace(reduced.phase, guess=guess),)))
    assert fitted.phase.guess.u.tolist() == [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]]


# ---- a new one ------------------------------------------------------------------------------------------------------------
@dataclass
class ScaledControls(Reduction):
    """Controls in another unit, u = factor * w."""

    factor: float = 4.0
    applied: list[str] = field(default_factory=list)
    inverted: int = 0
    name = "scaled_controls"
    keeps_controls = False

    def _scaled(self, item):
        symbols = item.sx_in()
        t, x, w, p = symbols
        return ca.Function(item.name(), symbols, [item(t, x, self.factor * w, p)])

    def apply(self, problem):
        self.applied.append(problem.name)
        phases = tuple(replace(
            phase, system=replace(phase.system, rate=self._scaled(phase.system.rate)),
            costs=tuple(replace(one, function=self._scaled(one.function)) for one in phase.costs),
            constraints=tuple(replace(one, function=self._scaled(one.function)) for one in phase.constraints),
            u_lower=tuple(one / self.factor for one in phase.u_lower), u_upper=tuple(one / self.factor for one in phase.u_upper),
            guess=replace(phase.guess, u=phase.guess.u / self.factor)) for phase in problem.phases)
        return replace(problem, phases=phases), problem

    def invert(self, solution, data):
        self.inverted += 1
        path = solution.trajectory
        return replace(solution, problem=data, trajectory=replace(
            path, u=self.factor * path.u, control=lambda t: self.factor * np.asarray(path.control(t))))


@pytest.fixture
def scaled(monkeypatch):
    """A reduction in the table, and behind the others of every method: the slacks of a norm are scaled, too."""
    own = ScaledControls()
    monkeypatch.setitem(REDUCTIONS, own.name, own)
    for name, one in METHODS.items():
        monkeypatch.setitem(METHODS, name, replace(one, reductions=(*one.reductions, own.name)))
    return own


@pytest.mark.parametrize(("name", "options", "off"), [
    ("collocation", {}, 1e-8), ("multiple_shooting", {"controls": "linear"}, 1e-8), ("ilqr", {"intervals": 200}, 1e-3)])
def test_a_new_reduction_is_one_class_and_one_row(scaled, name, options, off):
    found = solve(known.block_move(), name, options)
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(12.0, rel=off)
    t = np.linspace(0.0, 0.99, 12)
    assert found.trajectory.control(t)[:, 0] == pytest.approx(6 - 12 * t, abs=1e-6 if off < 1e-3 else 0.07)
    assert type(found.problem) is Problem


def test_new_reductions_compose_with_others(scaled):
    found = solve(block(size_of_effort, u_lower=(-1.0,), u_upper=(1.0,)))
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(3 - np.sqrt(5), rel=1e-6)  # pushes of s at both ends with s (3 - s) = 1
    assert np.max(np.abs(found.trajectory.u)) == pytest.approx(1.0, abs=1e-6)
    bounds = [one.name for one in found.certificate.violations if one.name.startswith("bound")]
    assert bounds == ["bound u", f"bound u{NEGATIVE_PART}"]


@pytest.mark.parametrize("name", ["collocation", "multiple_shooting", "ilqr"])
def test_the_chain_runs_once_for_a_solve(scaled, name):
    """Whatever is solved on the way: refined meshes, starts from a solution, and the finer mesh of the error bound."""
    cost = size_of_effort if name == "collocation" else lambda t, x, u, p: u[0]**2
    found = solve(block(cost, u_lower=(-1.0,), u_upper=(1.0,)), name)
    assert found.certificate.objective_error is not None  # so a finer mesh was solved, too
    assert len(scaled.applied) == 1
    assert scaled.inverted >= 1


def test_infeasible_bounds_are_reported_of_the_given_problem(scaled):
    short = known.problem(replace(known.block_move(1.0).phase, x_lower=(-1.0, -0.5), x_upper=(2.0, 0.5)))
    found = solve(short)
    assert found.status is Status.INFEASIBLE
    assert found.problem is short
    assert len(scaled.applied) == 1


# ---- the certificate ------------------------------------------------------------------------------------------------------
def test_a_solution_of_a_reduced_problem_is_judged_by_the_conditions_of_the_original():
    """A motion that meets what the reduced problem asks for, and misses what was left out of it."""
    problem = load_text(GEARED).problem
    reduced = method("collocation").reduce(problem, make_options("collocation", {}))
    asked = np.array(reduced.phase.final.fixed)
    goal, t = np.array(problem.phase.final.value), np.linspace(0.0, 1.0, 21)
    missed = goal + 0.3 * ~asked
    path = known_path(t, t[:, None] * missed)
    certificate = certify(Solution(reduced, "collocation", {}, Status.CONVERGED, 0.0, path, (), {})).certificate
    final, = (one for one in certificate.violations if one.name == "final state")
    assert final.at_knots == pytest.approx(0.3)
    assert not final.holds


def known_path(t, x):
    def state(at):
        return np.stack([np.interp(at, t, column) for column in x.T], axis=-1)

    def control(at):
        return np.zeros((*np.shape(at), 1))

    return Trajectory(t, x, control(t), t, state, control)


def test_from_a_solution_of_the_reduced_problem_back_and_there():
    """A motion of the given problem is no guess for the reduced one, whose controls are others; that of the reduced one is."""
    problem = block(size_of_effort, u_lower=(-1.0,), u_upper=(1.0,))
    options = make_options("multiple_shooting", {"intervals": 20})
    reduced = method("multiple_shooting").reduce(problem, options)
    found = uncertified(reduced, "multiple_shooting", options)
    assert found.problem.steps is reduced.steps
    again = from_motion(found.problem, (found.trajectory,))
    assert again.steps is reduced.steps
    back = invert(found)
    t = np.linspace(0.0, 2.9, 7)
    both = found.trajectory.control(t)
    assert back.trajectory.control(t)[:, 0] == pytest.approx(both[:, 0] - both[:, 1], abs=1e-12)
    with pytest.raises(ProblemError, match="2 controls|1 controls"):
        from_motion(reduced, (back.trajectory,))


def test_constraints_are_checked_as_they_were_written():
    """The absolute value in a constraint, and the dynamics, in terms of the control that was given."""
    limit = Constraint("soft push", At.PATH, known.function(2, 1, size_of_effort), (-np.inf,), (0.8,))
    found = solve(block(size_of_effort, u_lower=(-1.0,), u_upper=(1.0,), constraints=(limit,)))
    assert np.max(np.abs(found.trajectory.u)) == pytest.approx(0.8, abs=1e-6)
    assert found.problem.phase.constraints == (limit,)
    assert next(one for one in found.certificate.violations if one.name == "soft push").holds
