"""Strict hierarchies: against every set of held rows, against the unreduced cascade, against certificates, and against leaks."""

import numpy as np
import pytest
import scipy.sparse as sp
from bounded import Bounded, solve_bounded
from cascade import solve_cascade
from level_stacks import enumerated, excess, random_stack
from scipy.optimize import nnls

from ocp.control.notation.prioritised import solve_levels
from ocp.errors import ProblemError
from ocp.solvers import hqp
from ocp.solvers.engines import ENGINES, Dense, Osqp
from ocp.solvers.hqp import Hierarchy, HQPOptions, HQPStatus, Level, merged, solve_hqp
from ocp.solvers.level_program import FAILED
from ocp.solvers.lexicographic import advance


@pytest.fixture(params=ENGINES)
def engine(request):
    if request.param == "daqp":
        pytest.importorskip("daqp", exc_type=ImportError)
    return request.param


def gap(outcomes, others):
    """Largest difference of residuals and slacks between levels."""
    pairs = [(np.r_[o.residual, o.slack], np.r_[p.residual, p.slack]) for o, p in zip(outcomes, others, strict=True)]
    return max(np.abs(a - b).max() for a, b in pairs)


def against_enumeration(seed, limits=2):
    levels = random_stack(seed, limits=limits)
    answer, (x, reached) = solve_hqp(levels), enumerated(levels)
    assert answer.ok
    for outcome, (residual, slack) in zip(answer.levels, reached, strict=True):
        np.testing.assert_allclose(outcome.residual, residual, atol=1e-8, err_msg=f"stack {seed}, {outcome.name}")
        np.testing.assert_allclose(outcome.slack, slack, atol=1e-8, err_msg=f"stack {seed}, {outcome.name}")
    np.testing.assert_allclose(answer.x, x, atol=1e-7, err_msg=f"stack {seed}")
    # no leak: without the levels below, the levels above come out the same
    for k in range(1, len(levels)):
        assert gap(solve_hqp(levels[:k]).levels, answer.levels[:k]) < 1e-9, f"stack {seed}, levels below {k - 1}"


@pytest.mark.row("001:C17", "001:C18")
@pytest.mark.parametrize("first", range(0, 100, 25))
@pytest.mark.sample(2)
def test_priorities_never_leak(first):
    """Against the exact optimum of conflicting, redundant and infeasible stacks whose inequalities switch: by enumeration."""
    for seed in range(first, first + 25):
        against_enumeration(seed)


@pytest.mark.slow
@pytest.mark.row("001:C18")
@pytest.mark.parametrize("first", range(100, 1100, 100))
def test_priorities_never_leak_in_a_thousand_stacks(first):
    for seed in range(first, first + 100):
        against_enumeration(seed, limits=2 if seed % 4 else 3)


@pytest.mark.row("001:C19")
def test_reduced_and_cascade_agree(engine):
    """Up to twenty unknowns and ten inequalities a level: null spaces against one constrained programme per level."""
    for seed in range(30):
        levels = random_stack(seed, unknowns=(8, 20), levels=(3, 7), limits=10)
        one, other = solve_hqp(levels, HQPOptions(engine=engine)), solve_cascade(levels)
        assert one.ok
        assert other.ok
        assert gap(one.levels, other.levels) < 1e-7, seed
        np.testing.assert_allclose(one.x, other.x, atol=1e-6, err_msg=f"stack {seed}")


def test_every_level_is_optimal_by_its_multipliers():
    """An independent proof on large stacks: the gradient of each level is a combination of the rows above (Lawson and Hanson's
    non-negative least squares finds it), and the rows above hold what they reached."""
    for seed in range(100, 130):
        levels = random_stack(seed, unknowns=(8, 20), levels=(3, 7), limits=10)
        answer = solve_hqp(levels)
        x, cone = answer.x, np.zeros((answer.x.size, 0))
        for level, outcome in zip(levels, answer.levels, strict=True):
            split, slack = level.b.size, excess(level.D, x, level.lower, level.f)
            np.testing.assert_allclose(outcome.slack, slack, atol=1e-9)
            gradient = level.A.T @ (level.weights[:split] * (level.A @ x - level.b)) + level.D.T @ (level.weights[split:] * slack)
            _, missing = nnls(cone, -gradient) if cone.size else (0, np.linalg.norm(gradient))
            assert missing < 1e-9 * (1 + np.abs(x).max()), (seed, level.name)
            w = level.D @ x
            up, down = w >= level.f - 1e-9, w <= level.lower + 1e-9
            cone = np.hstack([cone, level.A.T, -level.A.T, level.D[up].T, -level.D[down].T])


def by_clarabel(levels):
    """Residuals and slacks level by level by an interior-point method driven to 1e-12, one constrained programme over all unknowns
    for each: min |w|² + |s|², w = A x - b, D x - s within its ends, what is above as equations and ends."""
    clarabel = pytest.importorskip("clarabel", exc_type=ImportError)
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_iter = False, 400
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    n = levels[0].n
    E, right, C, lower, upper = np.zeros((0, n)), np.zeros(0), np.zeros((0, n)), np.zeros(0), np.zeros(0)
    out = []
    for level in levels:
        rows, limits = level.b.size, level.f.size
        size = n + rows + limits
        equal = np.block([[level.A, -np.eye(rows), np.zeros((rows, limits))], [E, np.zeros((len(E), rows + limits))]])
        within = np.block([[level.D, np.zeros((limits, rows)), -np.eye(limits)], [C, np.zeros((len(C), rows + limits))]])
        low, high = np.r_[level.lower, lower], np.r_[level.f, upper]
        up, down = np.isfinite(high), np.isfinite(low)
        A = np.vstack([equal, within[up], -within[down]])
        b = np.r_[level.b, right, high[up], -low[down]]
        cones = [clarabel.ZeroConeT(len(equal)), clarabel.NonnegativeConeT(int(up.sum() + down.sum()))]
        P = np.diag(np.r_[np.zeros(n), level.weights])
        answer = clarabel.DefaultSolver(sp.csc_matrix(P), np.zeros(size), sp.csc_matrix(A), b, cones, settings).solve()
        x = np.array(answer.x)[:n]
        w = level.D @ x
        slack = excess(level.D, x, level.lower, level.f)
        out.append((level.A @ x - level.b, slack))
        E, right = np.vstack([E, level.A]), np.r_[right, level.A @ x]
        C, lower, upper = np.vstack([C, level.D]), np.r_[lower, np.minimum(level.lower, w)], np.r_[upper, np.maximum(level.f, w)]
    return out


@pytest.mark.row("001:C18")
@pytest.mark.parametrize("seed", range(4))
def test_large_stacks_against_an_interior_point_method(seed):
    """Thirty unknowns, levels of up to 70 inequalities, upper levels that cannot be met. An interior-point method knows the optimal
    cost of a level to its tolerance and the point to the root of it, so costs are what is compared."""
    levels = random_stack(3000 + seed, unknowns=(24, 31), levels=(4, 6), limits=70)
    answer = solve_hqp(levels)
    assert answer.ok
    assert max(outcome.cost for outcome in answer.levels[:-1]) > 1e-2
    for level, outcome, (residual, slack) in zip(levels, answer.levels, by_clarabel(levels), strict=True):
        own, other = (w @ np.r_[r, s]**2 for w, r, s in ((level.weights, outcome.residual, outcome.slack),
                                                         (level.weights, residual, slack)))
        assert own == pytest.approx(other, abs=1e-7 * (1 + other)), level.name


@pytest.mark.row("001:C18")
def test_equations_alone_are_the_projections_of_algorithm_two():
    """`solve_levels`, built for velocities, projects level by level: same residuals, and the same least x."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 12))
        parts = [(rng.standard_normal((int(rng.integers(1, n)), n)), None) for _ in range(4)]
        parts[2][0][0] = parts[0][0][0]  # what a level above has decided already
        stack = [(A, rng.standard_normal(A.shape[0])) for A, _ in parts]
        projected = solve_levels(stack)
        answer = solve_hqp([Level(f"{k}", A, b) for k, (A, b) in enumerate(stack)])
        np.testing.assert_allclose(answer.x, projected.v, atol=1e-9)
        assert tuple(o.rank for o in answer.levels) == projected.ranks
        assert answer.free == projected.free.shape[1]


@pytest.mark.row("001:C18")
def test_equations_with_unknowns_of_their_own():
    """As of a floating base: efforts alone in their columns, contacts that repeat and contradict each other, weights."""
    for seed in range(40):
        rng, size = np.random.default_rng(seed), 10.0 ** np.random.default_rng(seed).uniform(-2, 2)
        motion = np.hstack([rng.standard_normal((6, 7)) * size, -np.eye(6)[:, 2:]])
        contact = np.hstack([rng.standard_normal((3, 7)), np.zeros((3, 4))])
        contact = np.vstack([contact, 2 * contact[0], contact[1] - contact[2], 0 * contact[0]])
        stack = [(motion, rng.standard_normal(6)), (contact, rng.standard_normal(6)),
                 (np.vstack([rng.standard_normal((2, 11)), motion[3] + contact[1]]), rng.standard_normal(3))]
        weights = [rng.uniform(0.1, 9.0, b.size) for _, b in stack]
        projected = solve_levels([(np.sqrt(w)[:, None] * A, np.sqrt(w) * b) for (A, b), w in zip(stack, weights, strict=True)])
        answer = solve_hqp([Level(f"{k}", A, b, weights=w) for k, ((A, b), w) in enumerate(zip(stack, weights, strict=True))])
        assert tuple(o.rank for o in answer.levels) == projected.ranks == (6, 3, 2)
        np.testing.assert_allclose(answer.x, projected.v, atol=1e-9 * (1 + np.abs(projected.v).max()))


@pytest.mark.row("001:C19")
def test_what_upper_levels_cannot_reach_they_keep():
    """A = [1 0; 0 1; 1 1], b = (1, 1, 0) cannot be met although its columns are independent: its residual is (-2, -2, 2)/3."""
    level = Level("three", [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, 1.0, 0.0])
    for solve in (solve_hqp, solve_cascade):
        answer = solve([level, Level("below", np.eye(2), [5.0, 5.0])])
        np.testing.assert_allclose(answer.levels[0].residual, np.array([-2, -2, 2]) / 3, atol=1e-12)


@pytest.mark.row("001:C27")
def test_velocity_level_example():
    """Example 2.9.1: the arm with q = (30, 60, 60) degrees, hand at (1, 1) m/s above joints 1 and 2 at rest."""
    J = np.array([[0.0, -np.sqrt(3), -np.sqrt(3)], [-4.0, -3.0, -1.0]]) / 2
    levels = [Level("hand", J, [1.0, 1.0]), Level("joints", np.eye(3)[:2], [0.0, 0.0])]
    exact = np.array([(2 * np.sqrt(3) - 6) / 15, (np.sqrt(3) - 3) / 15, (3 - 11 * np.sqrt(3)) / 15])
    for solve in (solve_hqp, solve_cascade):
        np.testing.assert_allclose(solve(levels).x, exact, atol=1e-12)
    equal = [(2 * np.sqrt(3) - 6) / 19, (np.sqrt(3) - 3) / 19, (1 - 13 * np.sqrt(3)) / 19]
    np.testing.assert_allclose(solve_hqp([merged(levels, [1.0, 1.0])]).x, equal, atol=1e-12)
    np.testing.assert_allclose(solve_hqp([merged(levels, [1e10, 1.0])]).x, exact, atol=1e-8)


def test_inequalities_keep_their_slacks():
    """x <= -1 above x >= 1: the upper one gives way by nothing; two at one level share the gap by their weights."""
    up, down = Level("up", D=[[1.0, 0.0]], f=[-1.0]), Level("down", D=[[-1.0, 0.0]], f=[-1.0])
    answer = solve_hqp([up, down, Level("aim", np.eye(2), [5.0, 7.0])])
    np.testing.assert_allclose(answer.x, [-1.0, 7.0], atol=1e-13)
    assert answer["up"].violated == {}
    assert answer["down"].violated == {"row 0": pytest.approx(2.0)}
    both = Level("both", D=[[1.0], [-1.0]], f=[-1.0, -1.0], weights=[3.0, 1.0], limits=("above", "below"))
    shared = solve_hqp([both, Level("aim", [[1.0]], [9.0])])
    np.testing.assert_allclose(shared.x, [-0.5], atol=1e-13)
    assert shared["both"].violated == {"above": pytest.approx(0.5), "below": pytest.approx(1.5)}
    assert shared["both"].active == {"above": "upper", "below": "upper"}
    with pytest.raises(KeyError, match="neither"):
        shared["neither"]


def test_limits_are_named_on_both_sides():
    box = Level("box", D=np.eye(3), f=np.ones(3), lower=-np.ones(3), limits=("a", "b", "c"))
    answer = solve_hqp([box, Level("aim", np.eye(3), [3.0, -3.0, 0.5])])
    np.testing.assert_allclose(answer.x, [1.0, -1.0, 0.5], atol=1e-14)
    assert answer["box"].active == {"a": "upper", "b": "lower"}
    assert answer["aim"].cost == pytest.approx(np.sqrt(8.0))


def test_all_engines_find_the_same_active_set(engine, monkeypatch):
    """Held rows, engine, descent: with the first one, then the first two, made to fail."""
    levels = [random_stack(seed, unknowns=(6, 14), levels=(3, 6), limits=8) for seed in range(200, 225)]
    plain = [solve_hqp(stack, HQPOptions(engine=engine)) for stack in levels]

    def compare(name):
        used = 0
        for stack, answer in zip(levels, plain, strict=True):
            again = solve_hqp(stack, HQPOptions(engine=engine))
            assert again.ok
            np.testing.assert_allclose(again.x, answer.x, atol=1e-7)
            assert gap(again.levels, answer.levels) < 1e-8
            used += sum(o.engine == name for o in again.levels)
        return used

    monkeypatch.setattr(hqp, "_METHODS", 6)
    assert compare("osqp" if engine == "active_set" else engine) > 40
    monkeypatch.setattr(hqp, "_METHODS", 4)
    assert compare("descent") > 40


def test_rows_held_before_lead_on_where_costs_are_flat(monkeypatch):
    """Forty-eight limits on 24 unknowns, of which tasks weigh fewer, moved a little twelve times: most sets are found from the last
    one alone, and then the answer is that of a new solver."""
    lost = 0
    for seed in range(12):
        rng, solver = np.random.default_rng(seed), Hierarchy()
        C = rng.standard_normal((48, 24))
        C /= np.linalg.norm(C, axis=1)[:, None]
        tasks = rng.standard_normal((8, 24)), rng.standard_normal((6, 24))
        box = Level("box", D=C, f=np.full(48, 0.4), lower=np.full(48, -0.4))
        for k in range(12):
            aims = 4 * np.cos(0.05 * k + np.arange(8)), 3 * np.sin(0.07 * k + np.arange(6))
            levels = [box, *(Level(f"aim {i}", A, b) for i, (A, b) in enumerate(zip(tasks, aims, strict=True)))]
            new = solve_hqp(levels)
            if k:
                monkeypatch.setattr(hqp, "_METHODS", 1)
            answer = solver.solve(levels)
            monkeypatch.undo()
            if answer.ok:
                assert gap(answer.levels, new.levels) < 1e-8
            else:
                lost += 1
                assert solver.solve(levels).ok
    assert lost < 30


class Watched(Osqp):
    short = False

    def guess(self, programme, accuracy, short=False):
        Watched.short = short
        return super().guess(programme, accuracy, short)


def test_osqp_searches_for_long_only_where_descent_fails(monkeypatch):
    """Fifty inequalities a level: what a few iterations do not find a descent does. Where that fails, too, a second search is for
    as long as it takes, whether the step before had slacks or not."""
    for seed in range(4):
        stack = random_stack(3000 + seed, unknowns=(24, 31), levels=(4, 6), limits=50)
        plain = solve_hqp(stack)
        monkeypatch.setattr(hqp, "_METHODS", 6)  # the rows held last would do
        quick = solve_hqp(stack, HQPOptions(engine="osqp"))
        assert 0 < quick.iterations <= 25 * (len(stack) + 1)
        assert gap(quick.levels, plain.levels) < 1e-8
        with monkeypatch.context() as patched:
            patched.setattr(hqp, "engine", lambda _: Watched())
            patched.setattr(hqp, "advance", lambda *given: FAILED if given[5] and Watched.short else advance(*given))
            for careful in (False, True):
                counts = [(level.b.size, level.f.size) for level in stack]
                room = hqp.Space(stack[0].n, [level.name for level in stack], counts, (), HQPOptions(engine="osqp"))
                room.load(stack)
                room._careful = careful
                assert gap(room.solve().levels, plain.levels) < 1e-8
                assert not Watched.short
        monkeypatch.undo()


def test_programs_keep_their_answer_in_the_size_of_a_workspace():
    """OSQP to the optimum that the exact solver finds, in sizes on both sides of those that workspaces have, and as if the
    workspace were new."""
    kept, longest = Osqp(), 0
    for n, m in ((3, 23), (16, 24), (17, 25), (3, 24), (3, 23), (18, 48)):
        rng = np.random.default_rng(n * m)
        B, C = np.geomspace(1.0, 30.0, n)[:, None] * rng.standard_normal((n, n)), rng.standard_normal((m, n))
        C /= np.linalg.norm(C, axis=1)[:, None]
        e, most = 10.0 * rng.standard_normal(n), np.full(m, 0.3)
        exact = solve_bounded(Bounded(B, e, C, -most, most), np.zeros(n))
        programme = Dense(B.T @ B, -B.T @ e, C, -most, most, np.zeros(n), np.zeros(m))
        found, new = kept.guess(programme, 1e-9), Osqp().guess(programme, 1e-9)
        np.testing.assert_allclose(found.x, exact.x, atol=1e-6)
        np.testing.assert_allclose(found.y, exact.y, atol=1e-5 * (1 + np.abs(exact.y).max()))
        longest = max(longest, new.iterations)
        assert found.iterations == new.iterations
        np.testing.assert_allclose(found.x, new.x, atol=1e-12)
    assert len(kept._workspaces) == 2
    assert longest > 100  # so that its step size was adapted


def test_a_level_that_does_not_close_is_named_and_gives_no_answer(monkeypatch):
    monkeypatch.setattr(hqp, "_METHODS", 0)
    box = Level("box", D=np.eye(2), f=np.ones(2))
    solver = Hierarchy()
    assert solver.solve([box, Level("inside", np.eye(2), [0.0, 0.0])]).ok
    answer = solver.solve([box, Level("aim", np.eye(2), [3.0, 0.0])])
    assert answer.status is HQPStatus.FAILED
    assert not answer.ok
    assert answer.trouble == "aim"
    assert np.isnan(answer.x).all()


def test_a_solver_that_persists_gives_what_a_new_one_gives():
    """One hundred programmes of one shape through the same workspaces; then the same again, backwards; inputs are left alone."""
    rng, solver = np.random.default_rng(7), Hierarchy()
    base = random_stack(11, unknowns=(10, 11), levels=(5, 6), limits=6)
    stacks = []
    for _ in range(100):
        moved = [level.b + 0.1 * rng.standard_normal(level.b.size) for level in base]
        ends = 0.3 * rng.standard_normal()
        stacks.append([Level(level.name, level.A, b, level.D, level.f + ends, level.lower + ends)
                       for level, b in zip(base, moved, strict=True)])
    fresh = [solve_hqp(stack) for stack in stacks]
    for order in (range(100), reversed(range(100))):
        for k in order:
            warm = solver.solve(stacks[k], x0=rng.standard_normal(10))
            np.testing.assert_allclose(warm.x, fresh[k].x, atol=1e-9)
            assert gap(warm.levels, fresh[k].levels) < 1e-10
    again = solve_hqp(stacks[3])
    assert again.x.tobytes() == fresh[3].x.tobytes()


def test_equations_of_very_different_scales():
    """Newtons beside accelerations: rows of a level scaled by up to a million, weights that undo it."""
    for seed in range(20):
        levels, rng = random_stack(seed, unknowns=(6, 12), limits=5), np.random.default_rng(seed)
        scaled = []
        for level in levels:
            s = 10 ** rng.uniform(-3, 3, level.weights.size)
            a, d = s[: level.b.size], s[level.b.size:]
            scaled.append(Level(level.name, a[:, None] * level.A, a * level.b, d[:, None] * level.D, d * level.f, d * level.lower,
                                level.weights / s**2))
        one, other = solve_hqp(levels), solve_hqp(scaled)
        np.testing.assert_allclose(other.x, one.x, atol=1e-6)


def test_descent_passes_degenerate_corners():
    """Many rows through one corner, half of them repeated: no cycle, and the optimum is the projection onto the cone."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        n = int(rng.integers(2, 8))
        C = rng.standard_normal((3 * n, n))
        C = np.vstack([C, C[:n], 2 * C[:n]])
        aim, most = rng.standard_normal(n) * 3, np.zeros(len(C))
        found = solve_bounded(Bounded(np.eye(n), aim, C, np.full(len(C), -np.inf), most), np.zeros(n))
        assert found is not None
        assert (C @ found.x <= 1e-10).all()
        assert (found.y >= -1e-10).all()
        np.testing.assert_allclose(aim - found.x, C.T @ found.y, atol=1e-9)  # Moreau: aim = point + a part of the polar cone
        assert abs(found.x @ (aim - found.x)) < 1e-8


def test_wrong_input_is_named():
    eye = np.eye(2)
    for arguments, words in (
        ({}, "neither A nor D"), ({"A": eye}, "A without b"), ({"b": [1.0], "D": eye, "f": [1.0, 1.0]}, "b without A"),
        ({"A": eye, "b": [1.0]}, r"A has shape \(2, 2\)"), ({"A": eye * np.nan, "b": [0, 0]}, "not numbers"),
        ({"A": eye, "b": [np.inf, 0]}, "b has entries"), ({"A": np.zeros((0, 2)), "b": []}, "no rows"),
        ({"D": eye, "f": [0.0, 0.0], "lower": [1.0, 0.0]}, "lower ends"), ({"D": eye, "f": [0, 0], "limits": ("a",)}, "1 names"),
        ({"A": eye, "b": [0, 0], "weights": -1.0}, "positive"),
        ({"A": eye, "b": [0, 0], "weights": [1.0] * 3}, r"weights .* \(2,\)"),
        ({"D": eye, "f": [0, np.nan]}, "not numbers"), ({"D": eye, "f": [0, 0], "lower": [0.0]}, "expected 2 lower"),
    ):
        with pytest.raises(ProblemError, match=words) as caught:
            Level("hand", **arguments)
        assert "level 'hand'" in str(caught.value)
    good = Level("hand", eye, [0, 0])
    with pytest.raises(ProblemError, match="at least one"):
        solve_hqp([])
    with pytest.raises(ProblemError, match="number 1 is not a Level but a ndarray"):
        solve_hqp([good, eye])
    with pytest.raises(ProblemError, match=r"accuracy.*between 0 and 1"):
        HQPOptions(accuracy=0.0)
    with pytest.raises(ProblemError, match="used twice"):
        solve_hqp([good, good])
    with pytest.raises(ProblemError, match="3 unknowns"):
        solve_hqp([good, Level("foot", np.eye(3), np.zeros(3))])
    with pytest.raises(ProblemError, match="positive weights"):
        merged([good], [0.0])
    with pytest.raises(ProblemError, match="2 finite numbers"):
        Hierarchy().solve([good], x0=np.zeros(3))
    with pytest.raises(ProblemError, match="no engine named 'gurobi'"):
        HQPOptions(engine="gurobi")


@pytest.mark.parametrize("off", [2e-8, -2e-8, 0.0])
def test_rows_that_oppose_each_other_up_to_rounding_hold_one_direction(off):
    """What rounding leaves of two opposite rows is no third wall: their corner would be an optimum with multipliers of 1e8."""
    C, far = np.array([[1.0, off], [-1.0, off]]), np.full(2, -np.inf)
    found = solve_bounded(Bounded(np.eye(2), np.array([0.3, 5.0]), C, far, np.zeros(2)), np.zeros(2))
    np.testing.assert_allclose(found.x, [0.0, 5.0], atol=2e-7)
    assert np.max(np.abs(found.y)) < 1.0
    levels = [Level("walls", D=C, f=np.zeros(2)), Level("aim", A=np.eye(2), b=[0.3, 5.0])]
    hierarchy = Hierarchy()
    for _ in range(2):  # from nothing, and with the rows held before
        np.testing.assert_allclose(hierarchy.solve(levels).x, [0.0, 5.0], atol=2e-7)


HELD, LITTLE = [[1.0, 0.0]], [[1.0, 1e-8]]


@pytest.mark.row("001:C18")
@pytest.mark.parametrize(("second", "exact"), [
    (Level("repeated", LITTLE, [0.0]), [0.0]),
    (Level("contradicted", LITTLE, [1.0]), [-1.0]),
    (Level("met", D=LITTLE, f=[0.0]), [0.0]),
    (Level("unmet", D=LITTLE, f=[-2.0]), [2.0]),
    (Level("all", LITTLE, [1.0], D=HELD + LITTLE, f=[-1.0, -2.0]), [-1.0, 1.0, 2.0]),
])
@pytest.mark.parametrize("far", [1e3, -1e3])
def test_a_hundred_millionth_of_a_row_is_no_way_for_those_below(second, exact, far):
    """x = 0 along one direction is held; a second level feels another one by 1e-8 of its rows' lengths, and a third pulls x there
    by 1e3. What the second reaches at x = 0 stays. In five unknowns, at random angles."""
    for seed in range(6):
        plane, hierarchy = np.linalg.qr(np.random.default_rng(seed).standard_normal((5, 5)))[0][:2], Hierarchy()
        middle = Level(second.name, second.A @ plane, second.b, second.D @ plane, second.f, second.lower)
        for pull in (far, far, -far):  # from nothing, and with the rows held before
            x = hierarchy.solve([Level("held", HELD @ plane, [0.0]), middle, Level("far", plane[1:], [pull])]).x
            reached = np.r_[middle.A @ x - middle.b, excess(middle.D, x, middle.lower, middle.f)]
            np.testing.assert_allclose(reached, exact, atol=1e-9, rtol=0)


def near_repeat(seed, off, shift=0.0):
    """Fourteen unknowns: an equation and a limit of the second level are those of the first, but for ``off``."""
    rng, n = np.random.default_rng(seed), 14
    A, b, D, f = (rng.standard_normal(size) for size in ((4, n), 4, (8, n), 8))
    again, b_again = np.vstack([A[:1] + off * rng.standard_normal((1, n)), rng.standard_normal((5, n))]), rng.standard_normal(5)
    limits, ends = np.vstack([D[:1] + off * rng.standard_normal((1, n)), rng.standard_normal((6, n))]), rng.standard_normal(6)
    return [Level("first", A, b + shift, D, f),
            Level("again", again, np.r_[0.3, b_again] + shift, limits, np.r_[f[0] - 0.2, ends - 1]),
            Level("last", rng.standard_normal((9, n)), rng.standard_normal(9) + shift)]


@pytest.mark.parametrize("off", [1e-6, 2e-7, 1e-7, 2e-8])
def test_what_nearly_repeats_does_not_depend_on_history(off):
    for seed in range(40):
        solver, levels = Hierarchy(), near_repeat(seed, off)
        solver.solve(near_repeat(seed, off, 0.3))
        new = solve_hqp(levels)
        np.testing.assert_allclose(solver.solve(levels).x, new.x, atol=1e-6 * (1 + np.abs(new.x).max()), err_msg=f"stack {seed}")
