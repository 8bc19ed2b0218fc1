"""What contradicts what, and how much to relax: problems whose smallest relaxations are known by construction."""

from dataclasses import replace

import numpy as np
import pytest
from control_problems import bang_bang, block_move, function, problem
from repository import ROOT

from ocp.app.files.load import load_problem
from ocp.explain import explain_infeasibility, program_of, relax, remedies, solve_elastic
from ocp.explain.groups import fraction, is_mechanics
from ocp.explain.remedies import OPTIONS, _rounded_up
from ocp.nlp import IpoptOptions, solve_nlp
from ocp.problem import INF, At, Boundary, Constraint, Duration, Problem, Sense, Status
from ocp.transcription.collocation import CollocationOptions

TRAPEZOID = CollocationOptions(scheme="trapezoid", intervals=100)
SHORT = CollocationOptions(intervals=20)


def row(name, at, expression, low, high, sense=Sense.BOX):
    return Constraint(name, at, function(2, 1, expression), (low,), (high,), sense)


def block(*constraints, **more):
    """The block that moves in one second, with other constraints; free at the end unless ``final`` says otherwise."""
    return problem(replace(block_move().phase, **{"final": None, "constraints": constraints, **more}))


def by_name(found):
    return {remedy.groups: remedy for remedy in found.remedies}


def amounts(remedy):
    return {(a.group, a.side): a.least for a in remedy.amounts}


def test_too_short_a_duration_has_six_ways_out():
    """|u| <= 1 over a metre needs 2 s; within 1.5 s each relaxation is known in closed form."""
    hurried = problem(replace(bang_bang().phase, duration=Duration(0.5, 1.5, 1.0)))
    program = program_of(hurried, TRAPEZOID)
    found = explain_infeasibility(program, program.nlp.x0)
    assert not found.feasible
    assert set(found.conflict) == {"duration", "start x", "start v", "final x", "final v", "bound of u"}
    ways = by_name(found)
    near = pytest.approx
    assert amounts(ways["duration",]) == {("duration", "upper"): near(0.5, rel=2e-3)}
    assert amounts(ways["final x",]) == {("final x", "lower"): near(1 - 0.75**2, rel=2e-3)}
    assert amounts(ways["start x",]) == {("start x", "upper"): near(1 - 0.75**2, rel=2e-3)}
    # full push, then a brake of tb seconds: 1.125 - tb^2 = 1
    fast = 1.5 - 2 * np.sqrt(0.125)
    assert amounts(ways["final v",]) == {("final v", "upper"): near(fast, rel=2e-3)}
    assert amounts(ways["start v",]) == {("start v", "upper"): near(fast, rel=2e-3)}
    force = 4 / 1.5**2 - 1
    assert amounts(ways["bound of u",]) == {("bound of u", "lower"): near(force, rel=1e-2),
                                           ("bound of u", "upper"): near(force, rel=1e-2)}
    assert all(remedy.verified for remedy in found.remedies)
    assert ways["duration",].cost == near(2.0, abs=3e-3)  # minimum time
    efforts = [remedy.effort for remedy in found.remedies]
    assert efforts == sorted(efforts)
    assert found.remedies[0].groups == ("duration",)


def test_a_given_duration_can_be_relaxed_too():
    hurried = problem(replace(block_move(1.5).phase, u_lower=(-1.0,), u_upper=(1.0,)))
    program = program_of(hurried, TRAPEZOID)
    assert program.group("duration").is_value
    found = explain_infeasibility(program, program.nlp.x0)
    way = by_name(found)["duration",]
    assert amounts(way) == {("duration", "upper"): pytest.approx(0.5, rel=2e-3)}
    assert way.amounts[0].relaxed == pytest.approx(2.0, abs=2e-3)
    assert way.verified


def test_two_of_ten_constraints_contradict_each_other():
    """The final place must be below 0.8 and above 0.9; eight others are idle. The effort of a move by d metres is 12 d^2."""
    idle = [row(f"idle {i}", At.PATH, lambda t, x, u, p, i=i: x[0] + i * x[1], -50.0 - i, 50.0 + i) for i in range(8)]
    wall = row("wall", At.FINAL, lambda t, x, u, p: x[0], -INF, 0.8)
    gate = row("gate", At.FINAL, lambda t, x, u, p: x[0], 0.9, INF)
    program = program_of(block(*idle[:3], wall, *idle[3:], gate, final=Boundary((0.0, 0.0), (False, True))), SHORT)
    found = explain_infeasibility(program, program.nlp.x0)
    assert set(found.conflict) == {"wall", "gate"}
    ways = by_name(found)
    assert set(ways) == {("wall",), ("gate",)}
    assert amounts(ways["wall",]) == {("wall", "upper"): pytest.approx(0.1, abs=1e-6)}
    assert amounts(ways["gate",]) == {("gate", "lower"): pytest.approx(0.1, abs=1e-6)}
    assert ways["wall",].cost == pytest.approx(12 * 0.9**2, abs=1e-3)
    assert ways["gate",].cost == pytest.approx(12 * 0.8**2, abs=1e-3)
    assert ways["wall",].verified
    assert ways["gate",].verified
    assert ways["wall",].amounts[0].where == "wall @ final"
    assert ways["wall",].amounts[0].time == pytest.approx(1.0)


def two_conflicts():
    place = row("no farther", At.FINAL, lambda t, x, u, p: x[0], -INF, 0.8), row("far", At.FINAL, lambda t, x, u, p: x[0], 1, INF)
    speed = row("slow", At.FINAL, lambda t, x, u, p: x[1], -INF, 0.1), row("fast", At.FINAL, lambda t, x, u, p: x[1], 0.4, INF)
    return program_of(block(*place, *speed), SHORT)


def test_two_conflicts_need_a_set_of_which_none_can_be_spared():
    program = two_conflicts()
    found = explain_infeasibility(program, program.nlp.x0)
    assert set(found.conflict) == {"no farther", "far", "slow", "fast"}
    (remedy,) = found.remedies
    assert len(remedy.groups) == 2
    assert len({"no farther", "far"} & set(remedy.groups)) == 1
    assert len({"slow", "fast"} & set(remedy.groups)) == 1
    needed = {"no farther": 0.2, "far": 0.2, "slow": 0.3, "fast": 0.3}
    for (name, _), least in amounts(remedy).items():
        assert least == pytest.approx(needed[name], abs=1e-5)
    assert remedy.verified
    for name in remedy.groups:  # not one alone is enough
        assert not solve_elastic(program.nlp, program.groups, [name], program.nlp.x0).feasible
    # x: 0 -> d, v: 0 -> w costs 12 d^2 - 12 d w + 4 w^2
    d, w = (1.0 if "no farther" in remedy.groups else 0.8), (0.4 if "slow" in remedy.groups else 0.1)
    assert remedy.cost == pytest.approx(12 * d**2 - 12 * d * w + 4 * w**2, rel=1e-4)


def test_less_than_the_least_amount_is_not_enough():
    program = program_of(block(row("wall", At.FINAL, lambda t, x, u, p: x[0], -INF, 0.8), final=Boundary((1.0, 0.0), (True, True))),
                         SHORT)
    found = by_name(explain_infeasibility(program, program.nlp.x0))["wall",]
    (amount,) = found.amounts
    assert amount.by >= amount.least
    for share, status in ((0.9, Status.INFEASIBLE), (1.0, Status.CONVERGED)):
        relaxed = relax(program.nlp, program.groups, {("wall", "upper"): share * amount.by})
        assert solve_nlp(relaxed, IpoptOptions()).status is status


def test_a_prescribed_value_does_not_carry_its_bound_away():
    """The end may move only within the bound of the state: relaxing it alone cannot meet a constraint beyond that bound."""
    beyond = row("beyond", At.FINAL, lambda t, x, u, p: x[0], 1.2, INF)
    program = program_of(block(beyond, final=Boundary((1.0, 0.0), (True, True)), x_lower=(-1.0, -INF), x_upper=(1.1, INF)), SHORT)
    found = explain_infeasibility(program, program.nlp.x0)
    assert set(by_name(found)) == {("beyond",)}
    assert amounts(found.remedies[0]) == {("beyond", "lower"): pytest.approx(0.2, abs=1e-6)}


def test_the_elastic_program_brings_its_own_derivatives():
    """Jacobian and Hessian beside differences of rows and gradients, with rows and columns that bend."""
    rng = np.random.default_rng(5)
    bent = row("bent", At.PATH, lambda t, x, u, p: x[0] ** 3 + u[0] * x[1], -1.0, 2.0)
    base = program_of(block(bent, final=Boundary((1.0, 0.0), (True, False)), u_lower=(-5.0,), u_upper=(6.0,)),
                      CollocationOptions(scheme="trapezoid", intervals=3))
    chosen = [group for group in base.groups if group.name in ("bent", "bound of u", "final x", "duration")]
    sides = [(group, side) for group in chosen for side in ("lower", "upper") if group.side(side)]
    limits = [(k, limit) for k, (group, side) in enumerate(sides) for limit in group.side(side)]
    made = remedies._program(base.nlp, base.groups, sides, limits, base.nlp.x0)
    assert made.n == base.nlp.n + len(sides)
    assert made.m == base.nlp.m + len(limits)
    z, lam, h = rng.uniform(0.5, 1.5, made.n), rng.standard_normal(made.m), 1e-6

    def rows(v):
        return made.g(v).full().ravel()

    def slope(v):
        return made.grad(v)[1].full().ravel() * 0.7 + made.jac(v)[1].full().T @ lam

    J, H = (np.column_stack([(f(z + h * e) - f(z - h * e)) / (2 * h) for e in np.eye(made.n)]) for f in (rows, slope))
    np.testing.assert_allclose(made.jac(z)[1].full(), J, atol=1e-7)
    np.testing.assert_allclose(made.jac(z)[0].full().ravel(), rows(z), atol=1e-12)
    upper = made.hess(z, 0.7, lam).full()
    np.testing.assert_allclose(upper + upper.T - np.diag(np.diag(upper)), H, atol=1e-6)
    gradient = np.array([(float(made.f(z + h * e)) - float(made.f(z - h * e))) / (2 * h) for e in np.eye(made.n)])
    np.testing.assert_allclose(made.grad(z)[1].full().ravel(), gradient, atol=1e-7)


def test_the_filter_takes_out_what_can_be_spared():
    """From a start where all four gave way, two of each conflict, only one of each is left."""
    program = two_conflicts()
    whole = solve_elastic(program.nlp, program.groups, [group.name for group in program.groups], program.nlp.x0)
    generous = replace(whole, slack={**whole.slack, ("no farther", "upper"): 0.1, ("far", "lower"): 0.1, ("slow", "upper"): 0.1,
                                     ("fast", "lower"): 0.2})
    least, _ = remedies._filtered(program, generous, OPTIONS, lambda words: None)
    assert least.feasible
    assert len(least.yielding) == 2
    assert len({"no farther", "far"} & set(least.yielding)) == 1


def test_several_phases_are_named_by_phase():
    """A move in two phases of at most 0.7 s each: durations are named by phase, jumps between phases never yield."""
    first = replace(bang_bang().phase, name="push", duration=Duration(0.1, 0.7, 0.5), final=None)
    second = replace(first, name="brake", start=None, final=Boundary((1.0, 0.0), (True, True)))
    guess = replace(first.guess, x=np.array([[0.0, 0.0], [0.5, 1.0]]))
    both = Problem("two", (replace(first, guess=guess), second))
    program = program_of(both, CollocationOptions(scheme="trapezoid", intervals=20))
    found = explain_infeasibility(program, program.nlp.x0)
    assert {"push: duration", "brake: duration"} <= set(found.conflict)
    assert not any("passage" in name or " to " in name for name in found.conflict)
    way = by_name(found)["push: duration",]
    # two seconds are needed in all, in whichever phase
    (amount,) = way.amounts
    assert amount.bound == 0.7
    assert amount.least == pytest.approx(2 - 2 * 0.7, abs=1e-2)


def test_equations_of_motion_never_yield():
    program = two_conflicts()
    names = [group.name for group in program.groups]
    assert not any("defect" in name for name in names)
    found = solve_elastic(program.nlp, program.groups, names, program.nlp.x0)
    g = program.nlp.g(found.x).full().ravel()
    defects = [i for i, name in enumerate(program.nlp.constraints) if "defect" in name]
    assert len(defects) == 2 * 2 * 20
    np.testing.assert_allclose(g[defects], 0, atol=1e-8)


def test_a_path_constraint_yields_by_its_worst_knot():
    """v <= 1.2 along a move that must average 2 m/s; controls are free, so that all but the first interval runs at 2 and a bit."""
    limit = row("speed", At.PATH, lambda t, x, u, p: x[1], -INF, 1.2)
    program = program_of(block(limit, final=Boundary((2.0, 0.0), (True, False))), SHORT)
    found = explain_infeasibility(program, program.nlp.x0)
    (amount,) = by_name(found)["speed",].amounts
    assert amount.least == pytest.approx(0.8, abs=0.08)
    assert amount.where.startswith("speed @ ")
    assert 0 <= amount.time <= 1


def test_feasible_problems_are_reported_as_such():
    program = program_of(block_move(), SHORT)
    found = explain_infeasibility(program, program.nlp.x0)
    assert found.feasible
    assert found.cost == pytest.approx(12, rel=1e-8)
    assert found.remedies == ()


def test_amounts_are_rounded_up():
    for value in (0.1, 0.0999999, 0.50125, 3.0001, 1234.5, 1e-7, 0.7942130):
        up = _rounded_up(value)
        assert value <= up <= value * 1.02
        assert float(f"{up:.3g}") == pytest.approx(up, rel=1e-12)
    assert _rounded_up(0.0) == 0.0


def test_places_have_times():
    program = program_of(block_move(2.0), SHORT)
    x = program.nlp.x0
    assert program.time("x.x @ knot 0", x) == 0.0
    assert program.time("x.x @ knot 5", x) == pytest.approx(0.5)
    assert program.time("u.u @ midpoint 5", x) == pytest.approx(0.55)
    assert program.time("defect x @ interval 5", x) == pytest.approx(0.5)
    assert program.time("wall @ final", x) == pytest.approx(2.0)
    assert program.time("wall @ start", x) == pytest.approx(0.0)
    assert program.time("wall @ knot 5 (end of interval 4)", x) == pytest.approx(0.5)
    assert program.time("final value of rx", x) == pytest.approx(2.0)
    for name in ("duration", "x.x @ knot 500", "work @ whole phase", "u.u @ control point 500"):
        assert fraction(name, program.transcription.meshes[0]) is None
    radau = program_of(block_move(2.0), CollocationOptions(scheme="radau", intervals=4))
    known = dict(zip(radau.nlp.variables, radau.nlp.x0, strict=True))
    for name, value in known.items():  # the guess is a line: x = t / 2
        if name.startswith("x.x @ "):
            assert radau.time(name, radau.nlp.x0) == pytest.approx(2 * value)


def test_mechanics_are_distinguished_from_wishes():
    for name in ("defect x @ interval 3", "inner defect 2 x @ interval 3", "drop: defect x @ interval 0", "a to b height @ passage",
                 "unit norm of q.w ... @ start", "drop: unit norm of q.w ... @ start"):
        assert is_mechanics(name)
    for name in ("speed @ knot 3", "defective @ knot 1", "defect rate @ knot 2", "gate @ linkage", "work @ whole phase",
                 "final value of rx"):
        assert not is_mechanics(name)


def test_ctrl_c_is_not_taken_for_an_answer(monkeypatch):
    whole = remedies.solve_nlp
    monkeypatch.setattr(remedies, "solve_nlp", lambda *arguments: replace(whole(*arguments), status=Status.INTERRUPTED))
    program = program_of(block_move(), SHORT)
    with pytest.raises(KeyboardInterrupt):
        explain_infeasibility(program, program.nlp.x0)


def test_components_of_quaternions_are_no_constraints_by_themselves():
    loaded = load_problem(ROOT / "problems" / "quadrotor.yaml")
    program = program_of(loaded.problem, CollocationOptions(intervals=3))
    names = {group.name for group in program.groups}
    assert {"start q.root_joint.px", "start v.root_joint.wz", "bound of front"} <= names
    assert not any(f"start q.root_joint.{c}" in names for c in "wxyz")
