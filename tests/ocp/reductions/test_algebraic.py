"""Systems with algebraic unknowns: equations stated and unknowns eliminated against each other, closed forms, other roads to
derivatives, index."""

from dataclasses import replace
from functools import cache

import casadi as ca
import numpy as np
import pytest
from control_problems import cubic, end_of, inverse_cubic
from repository import ROOT
from uncertified import by_multiple_shooting

from ocp.app.files.load import load_problem
from ocp.certify.consistent import Consistent
from ocp.errors import ProblemError
from ocp.methods import METHODS, make_options, method, solve
from ocp.mpc import MPCOptions, run
from ocp.problem import At, Boundary, Constraint, Cost, Duration, Guess, Phase, Problem, Sense, System, implicit_system
from ocp.reductions import EXPLICIT, chain_of, invert
from ocp.reductions.algebraic_elimination import unknowns
from ocp.reductions.algebraic_equations import consistent, state_equations
from ocp.reductions.algebraic_index import check_index
from ocp.spaces import euclidean
from ocp.strategy.loop import searched
from ocp.transcription import multiple_shooting


def function(value, nx, nu, count=0):
    """value(t, x, u, p) as a Function."""
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", nx), ca.SX.sym("u", nu), ca.SX.sym("p", count)
    return ca.Function("f", [t, x, u, p], [ca.densify(ca.vertcat(*value(t, x, u, p)))], list("txup"), ["y"])


@cache
def solved(method="collocation", **options):
    return solve(cubic(), method, options)


@cache
def written_out():
    """The solution of the same problem with z written out by Cardano."""
    def z(x, u):
        y = x + u
        root = ca.sqrt(y**2 / 4 + 1 / 27)
        return (y / 2 + root) ** (1 / 3) - (root - y / 2) ** (1 / 3)

    phase = cubic().phase
    system = System("written out", phase.system.space, ("u",), function(lambda t, x, u, p: [-x + z(x, u)], 1, 1))
    explicit = replace(phase, system=system, u_lower=(), u_upper=(), guess=replace(phase.guess, u=phase.guess.u[:, :1]),
                       costs=(Cost("effort", At.PATH, function(lambda t, x, u, p: [z(x, u) ** 2 + u**2], 1, 1)),))
    return solve(Problem("explicit", (explicit,)), "collocation", {"scheme": "gauss", "degree": 5, "intervals": 20})


# ---- elimination ---------------------------------------------------------------------------------------------------------
def test_unknowns_and_their_derivatives_are_those_of_cardano():
    z = unknowns(state_equations(cubic()).phase)
    t, x, u, p = (ca.MX.sym(name, n) for name, n in zip("txup", (1, 1, 1, 0), strict=True))
    both = ca.vertcat(x, u)
    value = z(t, x, u, p)
    slope = ca.jacobian(value, both)
    found = ca.Function("found", [t, x, u, p], [value, slope, ca.jacobian(slope, both)])
    for y in ((0.3, -1.4), (2.0, 0.5), (-1.0, 1.0)):
        v, first, second = (np.asarray(part) for part in found(0.0, *y, []))
        exact = inverse_cubic(sum(y))
        d1 = 1 / (1 + 3 * exact**2)
        assert v == pytest.approx(exact, abs=1e-14)
        assert first == pytest.approx(np.full((1, 2), d1), abs=1e-13)
        assert second == pytest.approx(np.full((2, 2), -6 * exact * d1**3), abs=1e-12)


@pytest.mark.parametrize("size", [3, 14], ids=["scalar graph", "one solve"])
def test_linear_equations_take_one_solve(size):
    rng = np.random.default_rng(0)
    A, B, C = rng.normal(size=(size, size)) + 4 * np.eye(size), rng.normal(size=(size, 2)), rng.normal(size=(size, 1))
    D = rng.normal(size=(size, size))
    system = System("linear", euclidean(("x", "y")), ("u",), function(lambda t, x, w, p: [w[1] + x[1], w[2]], 2, size + 1),
                    algebraic=tuple(f"z{i}" for i in range(size)), residual=function(
                        lambda t, x, w, p: [ca.mtimes(ca.DM(A) + x[0] * ca.DM(D), w[1:]) - ca.DM(B) @ x - ca.DM(C) * w[0]],
                        2, size + 1))
    guess = Guess(np.array([0.0, 1.0]), np.zeros((2, 2)), np.zeros((2, size + 1)))
    z = unknowns(state_equations(Problem("p", (Phase("p", system, Duration(1, 1, 1), guess),))).phase)
    x, u = np.array([0.1, -0.4]), np.array([0.7])

    def exact(x, u):
        return np.linalg.solve(A + x[0] * D, B @ x + C @ u)

    assert np.asarray(z(0, x, u, [])).ravel() == pytest.approx(exact(x, u), abs=1e-12)
    J = np.asarray(z.jacobian()(0, x, u, [], np.zeros(size))[1])
    step = 1e-20  # complex steps: no cancellation
    for i, e in enumerate(np.eye(2)):
        assert J[:, i] == pytest.approx(exact(x + 1j * step * e, u).imag / step, rel=1e-10, abs=1e-12)
    assert not any("rootfinder" in str(z.instruction_MX(k)) for k in range(z.n_instructions())) if z.is_a("MXFunction") else True


@pytest.mark.parametrize(("method", "options", "off"), [
    ("collocation", {}, 1e-8), ("multiple_shooting", {}, 1e-3), ("ilqr", {}, 1e-4),
    pytest.param("collocation", {"scheme": "hermite_simpson", "intervals": 60}, 1e-6, marks=pytest.mark.slow),
    pytest.param("collocation", {"scheme": "gauss", "degree": 2, "intervals": 40, "controls": "linear"}, 1e-4,
                 marks=pytest.mark.slow)], ids=lambda v: str(v)[:24])
def test_every_method_finds_the_optimum_of_the_explicit_problem(method, options, off):
    """The same problem without unknowns, by another discretisation, is the reference."""
    exact = written_out()
    assert exact.ok
    found = solved(method, **options)
    assert found.ok, (found.ending, found.certificate.failures)
    assert found.objective == pytest.approx(exact.objective, rel=off)
    assert abs(found.objective - exact.objective) <= found.certificate.error_bound + exact.certificate.error_bound + 1e-9
    if method == "collocation" and "controls" not in options:  # z is an unknown at the points, and the equations are rows
        assert any("equations" in name for name in found.optimality.nlp.constraints)
    # the unknown is there by name, behind the control, and right
    system, path = found.problem.phase.system, found.trajectory
    assert system.inputs == ("u", "z")
    assert path.u[:, 1] == pytest.approx(inverse_cubic(path.state(path.t_u)[:, 0] + path.u[:, 0]), abs=1e-8)
    middle = np.linspace(0.01, 1.99, 7)
    x, u = path.state(middle), path.control(middle)
    assert u[:, 1] == pytest.approx(inverse_cubic(x[:, 0] + u[:, 0]), abs=1e-3)
    assert "equations" in [violation.name for violation in found.certificate.violations]


@pytest.mark.parametrize(("name", "options", "steps"), [
    ("collocation", {}, ["algebraic_equations"]), ("multiple_shooting", {}, ["algebraic_equations"]),
    ("collocation", {"controls": "held"}, ["algebraic_equations", "algebraic_elimination"]),
    ("ilqr", {}, ["algebraic_equations", "algebraic_elimination"])])
def test_unknowns_come_back_and_solve_their_equations(name, options, steps):
    reduced = method(name).reduce(cubic(), make_options(name, options))
    assert [step.reduction.name for step in reduced.steps] == steps
    found = solved(name, **options)
    assert found.problem.phase.constraints == ()
    assert found.problem.phase.system is not reduced.phase.system or len(steps) == 1
    t = np.linspace(0.05, 1.95, 9)
    u, x = found.trajectory.control(t), found.trajectory.state(t)
    assert u[:, 1] == pytest.approx(inverse_cubic(x[:, 0] + u[:, 0]), abs=1e-5)
    assert end_of(found, lambda t, x, u: -x + inverse_cubic(x + u[0])) == pytest.approx([0.2], abs=2e-3)
    equations, = (one for one in found.certificate.violations if one.name == "equations")
    assert equations.holds


@pytest.mark.parametrize(("method", "options"), [
    ("collocation", {}), ("ilqr", {}),
    pytest.param("multiple_shooting", {"controls": "linear", "intervals": 100}, marks=pytest.mark.slow)])
def test_bounds_of_unknowns_hold_in_every_method(method, options):
    free = solved()
    low = float(np.min(free.trajectory.u[:, 1])) + 0.03
    found = solve(cubic(u_lower=(-np.inf, low), u_upper=(np.inf, np.inf)), method, options)
    assert found.status.name == "CONVERGED", found.ending
    assert found.objective > free.objective + 1e-4
    assert np.min(found.trajectory.u[:, 1]) == pytest.approx(low, abs=1e-5)
    bound = {violation.name: violation for violation in found.certificate.violations}["bound z"]
    assert bound.at_knots <= bound.tolerance
    if method != "ilqr":  # z moves on while a control is held, and the certificate says so
        assert found.ok, found.certificate.failures


def test_constraints_on_unknowns_pass_through_the_elimination():
    def bounded(where):
        return Constraint("flow", where, function(lambda t, x, w, p: [w[1]], 1, 2), (0.5,), (0.5,), Sense.EQUAL)

    found = [solve(cubic(constraints=(bounded(At.INTEGRAL),)), method) for method in ("collocation", "multiple_shooting")]
    assert all(one.ok for one in found)
    assert found[0].objective == pytest.approx(found[1].objective, rel=2e-3)
    t = np.linspace(0, 2, 2001)
    assert np.trapezoid(found[0].trajectory.control(t)[:, 1], t) == pytest.approx(0.5, abs=1e-4)


def test_implicit_rates_are_unknowns_of_a_fully_implicit_system():
    """x'' = -x + u as two implicit rows, mixed: the optimum is that of the explicit oscillator."""
    t, x, xi, u, z, p = (ca.SX.sym(name, n) for name, n in (("t", 1), ("x", 2), ("xi", 2), ("u", 1), ("z", 0), ("p", 0)))
    F = ca.vertcat(xi[0] + xi[1] - x[1] + x[0] - u, 2 * xi[0] - xi[1] - 2 * x[1] - x[0] + u)
    system = implicit_system("mixed", euclidean(("a", "b")), ("u",), ca.Function("F", [t, x, xi, u, z, p], [F]))
    assert system.algebraic == ("der(a)", "der(b)")
    plain = System("plain", euclidean(("a", "b")), ("u",), function(lambda t, x, u, p: [x[1], u - x[0]], 2, 1))
    found = []
    for one in (system, plain):
        guess = Guess(np.array([0.0, 1.0]), np.array([[0.0, 0.0], [1.0, 0.0]]), np.zeros((2, one.nu)))
        cost = Cost("effort", At.PATH, function(lambda t, x, w, p: [w[0] ** 2], 2, one.nu))
        phase = Phase("way", one, Duration(2, 2, 2), guess, start=Boundary((0.0, 0.0), (True, True)),
                      final=Boundary((1.0, 0.0), (True, True)), costs=(cost,))
        found += [solve(Problem("p", (phase,)), method) for method in ("collocation", "multiple_shooting")]
    assert all(one.ok for one in found)
    assert found[0].objective == pytest.approx(found[2].objective, rel=1e-8)
    assert found[1].objective == pytest.approx(found[3].objective, rel=1e-8)
    with pytest.raises(ProblemError, match="sizes"):
        implicit_system("mixed", euclidean(("a", "b")), ("u", "v"), ca.Function("F", [t, x, xi, u, z, p], [F]))


# ---- guesses -------------------------------------------------------------------------------------------------------------
def test_the_guess_is_made_consistent():
    given = Guess(np.array([0.0, 1.0]), np.array([[3.0], [-2.0]]), np.array([[5.0, 0.0], [5.0, 9.0]]))
    guess = consistent(cubic(guess=given).phase)
    assert guess.u[:, 1] == pytest.approx(inverse_cubic(guess.x[:, 0] + guess.u[:, 0]), abs=1e-8)
    assert np.all(guess.u[:, 0] == 5.0)


def test_the_certificate_solves_the_equations_by_itself():
    """Its Newton method follows the branch of the motion, and its Jacobian is that of differences."""
    system = System("branches", euclidean(("x", "y")), (), function(lambda t, x, w, p: [w[0], x[0] * w[0]], 2, 1),
                    algebraic=("z",), residual=function(lambda t, x, w, p: [w[0] ** 2 - 1 - x[0] ** 2 - x[1]], 2, 1))
    own, x, t = Consistent(system), np.array([[0.3, 0.1], [0.5, 0.7]]), np.zeros(2)
    none = np.zeros((0, 2))
    for sign in (1.0, -1.0):
        exact = sign * np.sqrt(1 + x[:, 0] ** 2 + x[:, 1])
        assert own.field(t, x, np.full((2, 1), 2 * sign), none)[:, 0] == pytest.approx(exact, abs=1e-14)
        J = own.jacobian(t, x, np.full((2, 1), 2 * sign), none)
        for j, e in enumerate(np.eye(2)):
            there, here = (own.field(t, x + s * 1e-6 * e, np.full((2, 1), 2 * sign), none) for s in (1, -1))
            assert J[:, :, j] == pytest.approx((there - here) / 2e-6, abs=1e-8)
    # where there is no root, 1 + x^2 + y < 0, there is no rate
    found = own.field(t, np.array([[0.1, -3.0], [0.1, 3.0]]), np.ones((2, 1)), none)
    np.testing.assert_array_equal(np.isnan(found[:, 0]), [True, False])


def test_a_wrong_unknown_is_not_certified():
    found = solved()
    path = found.trajectory
    wrong = replace(path, u=path.u + [0, 0.01], control=lambda t: path.control(t) + [0, 0.01])
    from ocp.certify import certify

    judged = certify(replace(found, trajectory=wrong)).certificate
    broken = {violation.name: violation for violation in judged.violations}["equations"]
    assert not broken.holds
    assert broken.at_knots > 0.009


# ---- index and hostile input ----------------------------------------------------------------------------------------------
def two(residual, equations=("first", "second"), z0=(0.0, 0.0)):
    system = System("two", euclidean(("x", "y")), ("u",), function(lambda t, x, w, p: [x[1], w[1]], 2, 3), algebraic=("T", "S"),
                    residual=function(residual, 2, 3), equations=equations)
    return Phase("p", system, Duration(1, 1, 1), Guess(np.array([0.0, 1.0]), np.full((2, 2), 0.5), np.tile([0.0, *z0], (2, 1))))


@pytest.mark.parametrize(("residual", "words"), [
    (lambda t, x, w, p: [x[0] ** 2 - 1, w[2] - x[1]],
     ["algebraic 'T' appears in no equation", "'first'", "index is 2", "Differentiate"]),
    (lambda t, x, w, p: [w[1] - x[0], w[1] ** 2 - x[1]], ["algebraic 'S' appears in no equation", "'second'"]),
    (lambda t, x, w, p: [w[1] + w[2] - x[0], 2 * w[1] + 2 * w[2] - x[1]],
     ["do not determine 'T' and 'S'", "'first' and 'second'"]),
], ids=["index 2", "overdetermined", "numerically singular"])
def test_what_equations_leave_open_is_named(residual, words):
    for reduce in (state_equations, chain_of(EXPLICIT).apply):
        with pytest.raises(ProblemError) as caught:
            reduce(Problem("p", (two(residual),)))
        for word in words:
            assert word in caught.value.message


def test_an_index_that_is_one_only_off_the_guess_is_let_pass():
    check_index(two(lambda t, x, w, p: [w[1] ** 3 - x[0], w[2] - x[1]], z0=(0.8, 0.0)))


@pytest.mark.parametrize(("changes", "words"), [
    ({"algebraic": ()}, "1 equations for 0 algebraic unknowns"), ({"algebraic": ("u",)}, "'u' is used twice"),
    ({"equations": ("a", "b")}, "2 names for 1 equations")], ids=["count", "name", "names of rows"])
def test_malformed_systems_are_refused(changes, words):
    with pytest.raises(ProblemError, match=words):
        replace(cubic().phase.system, **changes)


# ---- everything that walks over a rate --------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_receding_horizon_runs_on_the_eliminated_system():
    cost = Cost("x", At.PATH, function(lambda t, x, w, p: [x**2 + 0.1 * w[1] ** 2 + 0.1 * w[0] ** 2], 1, 2))
    problem = cubic(final=None, costs=(cost,))
    loop = run(problem, MPCOptions(rate=20.0, duration=1.0, horizon=1.0))
    x = loop.x[:, 0]
    assert abs(x[-1]) < 0.5 * abs(x[0])
    # the plant obeys the model: one of its steps again, by Cardano and small steps
    y, h = loop.fine_x[3, 0], (loop.fine_t[4] - loop.fine_t[3]) / 2000
    for _ in range(2000):
        y += h * (-y + inverse_cubic(y + loop.fine_u[3, 0]))
    assert loop.fine_x[4, 0] == pytest.approx(y, abs=1e-5)
    assert abs(loop.fine_x[4, 0] - loop.fine_x[3, 0]) > 1e-3


def test_stating_and_eliminating_twice_changes_nothing():
    once, less = state_equations(cubic()), chain_of(EXPLICIT).apply(cubic())
    assert state_equations(once) is once
    assert chain_of(EXPLICIT).apply(less) is less
    found = solve(once, "collocation", {"intervals": 5, "refine": "none"})
    assert found.problem.phase.constraints == once.phase.constraints
    assert found.trajectory.u.shape[1] == 2
    assert invert(found) is found


def test_a_method_refuses_equations_that_are_not_stated():
    for name in ("multiple_shooting", "ilqr", "adjoint"):
        problem = cubic(final=None) if name == "adjoint" else cubic()
        with pytest.raises(ProblemError, match="reduce it first"):
            searched(*METHODS[name].parts().searching(problem, make_options(name, {})))


def test_the_gallery_s_pendulum_is_the_one_in_the_angle():
    from ocp.app.files.load import load_problem, load_text

    loaded = load_problem(ROOT / "problems" / "pendulum_rod.yaml")
    angle = load_text("""
name: pendulum in the angle
system: {states: {th: rad, w: rad/s}, controls: {push: N}, dynamics: {th: w, w: -9.81*sin(th) + push*cos(th)}}
phase:
  duration: 2.0
  start: {th: 0, w: 0}
  final: {th: pi, w: 0}
  bounds: {push: [-20, 20]}
  costs: [{name: effort, running: "push**2"}]
""")
    exact = solve(angle.problem, "collocation", {"scheme": "radau", "degree": 5, "intervals": 40})
    assert exact.ok
    assert exact.objective == pytest.approx(loaded.problem.reference.objective, rel=1e-7)
    for name in ("collocation", "multiple_shooting", "ilqr"):
        found = solve(loaded.problem, name)
        assert found.ok, (name, found.ending, found.certificate.failures)
        assert abs(found.objective - exact.objective) <= found.certificate.error_bound + exact.certificate.error_bound
        # the force of the rod is that of the angle: th'^2 + g cos th + push sin th, on the rod of length 1
        t = np.linspace(0.1, 1.9, 5)
        x, u = found.trajectory.state(t), found.trajectory.control(t)
        known = x[:, 2] ** 2 + x[:, 3] ** 2 - 9.81 * x[:, 1] + u[:, 0] * x[:, 0]
        assert u[:, 1] == pytest.approx(known, abs=0.02 * np.abs(known).max())


def test_an_interrupted_solve_goes_on():
    kept = []
    options = {"scheme": "radau", "intervals": 15, "guess": "given"}
    broken = solve(cubic(), "collocation", {**options, "max_iterations": 2}, checkpoint=kept.append)
    assert broken.status.name == "ITERATION_LIMIT"
    found = solve(cubic(), "collocation", options, resume=kept[-1])
    assert found.ok
    assert found.objective == pytest.approx(solved().objective, rel=1e-6)
    other = cubic(system=replace(cubic().phase.system, algebraic=("y",)))
    with pytest.raises(ProblemError, match="other controls"):
        solve(other, "collocation", options, resume=kept[-1])


@pytest.mark.slow
def test_phases_with_and_without_unknowns_follow_each_other():
    plain = System("free", euclidean(("x",)), ("u",), function(lambda t, x, u, p: [u], 1, 1))
    guess = Guess(np.array([0.0, 1.0]), np.array([[0.5], [0.2]]), np.zeros((2, 1)))
    second = Phase("free", plain, Duration(1, 1, 1), guess, final=Boundary((0.2,), (True,)),
                   costs=(Cost("rest", At.PATH, function(lambda t, x, u, p: [u**2], 1, 1)),))
    problem = Problem("both", (cubic(final=None, duration=Duration(1, 1, 1)).phase, second))
    direct, shot = solve(problem, "collocation"), solve(problem, "ilqr")
    assert direct.ok, direct.certificate.failures
    assert shot.ok, shot.certificate.failures
    assert abs(direct.objective - shot.objective) <= direct.certificate.error_bound + shot.certificate.error_bound
    assert [part.u.shape[1] for part in shot.parts] == [2, 1]
    x = shot.parts[0].state(shot.parts[0].t_u)[:, 0]
    assert shot.parts[0].u[:, 1] == pytest.approx(inverse_cubic(x + shot.parts[0].u[:, 0]), abs=1e-9)


# ---- multiple shooting: unknowns at the points of the steps ---------------------------------------------------------------
@pytest.mark.parametrize(("name", "options"), [
    ("valve", {}), ("pendulum_rod", {"controls": "linear"}), ("valve", {"integrator": "cf4", "steps": 2}),
    ("valve", {"solver": "fatrop"}), ("four_bar_residual", {})], ids=lambda v: str(v)[:30])
def test_carried_unknowns_give_the_program_of_eliminated_ones(name, options):
    """Objective, matching conditions' multipliers and unknowns at knots: of programs that share no row of the equations."""
    problem = load_problem(ROOT / "problems" / f"{name}.yaml").problem
    options = multiple_shooting.MultipleShootingOptions(**{"intervals": 20, **options})
    chain = chain_of(("algebraic_equations", "algebraic_elimination"))
    carried, plain = (invert(by_multiple_shooting(chain.apply(problem, one), options)) for one in (options, None))
    assert carried.objective == pytest.approx(plain.objective, rel=1e-8)
    found = [dict(zip(one.optimality.nlp.constraints, one.optimality.lam_g, strict=True)) for one in (carried, plain)]
    defects = [row for row in found[1] if row.startswith("defect")]
    mine, theirs = (np.array([rows[row] for row in defects]) for rows in found)
    assert mine == pytest.approx(theirs, abs=1e-6 * np.abs(theirs).max())
    assert any(row.startswith("equations") and "stage 1 of interval 3" in row for row in found[0])
    assert not any(row.startswith("equations") for row in found[1])
    assert carried.trajectory.u == pytest.approx(plain.trajectory.u, rel=1e-5, abs=1e-5)
    t = np.linspace(0.0, carried.trajectory.t[-1], 33)
    for part in ("state", "control"):  # between the points, too
        mine, theirs = (getattr(one.trajectory, part)(t) for one in (carried, plain))
        assert mine == pytest.approx(theirs, rel=1e-5, abs=1e-5)


def test_implicit_steps_eliminate_what_they_solve_anyway():
    options = multiple_shooting.MultipleShootingOptions(integrator="radau_iia_2", intervals=10)
    found = by_multiple_shooting(cubic(), options)
    assert found.problem.phase.system.inputs == ("u",)
    assert not any("equations" in row for row in found.optimality.nlp.constraints)


def test_a_wrong_equation_changes_the_answer():
    """Poison: the rows of the stages count, not only those of the knots."""
    from ocp.transcription import carried as room

    options = multiple_shooting.MultipleShootingOptions(intervals=10)
    right = by_multiple_shooting(cubic(), options).objective

    class Wrong(room.Points):
        def _rate(self, *at):
            xi = super()._rate(*at)
            self.rows = [row + 0.05 for row in self.rows]
            return xi

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ocp.transcription.intervals.Points", Wrong)
        assert abs(by_multiple_shooting(cubic(), options).objective - right) > 1e-3
