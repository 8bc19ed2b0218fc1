"""What the interior-point method stands on: the factorisation along fronts against dense linear algebra and eigenvalues, and
values and derivatives by elements against the CasADi functions of the program."""

from __future__ import annotations

from dataclasses import dataclass, replace

import casadi as ca
import direct_problems as direct
import direct_twin
import numpy as np
import pytest
from control_problems import flat_system, function, line
from nlp_programs import program
from repository import ROOT

from ocp.app.files.load import load_problem
from ocp.nlp.interior_point.elements import firsts, load, second, values
from ocp.nlp.interior_point.fronts import THRESHOLD, factorise, substitute
from ocp.nlp.interior_point.order import plan, workspace
from ocp.nlp.interior_point.prepare import whole
from ocp.nlp.stages import Timeline
from ocp.problem import At, Cost, Phase, Problem
from ocp.transcription.collocation import CollocationOptions
from ocp.transcription.collocation import transcribe as collocation
from ocp.transcription.multiple_shooting import MultipleShootingOptions
from ocp.transcription.multiple_shooting import transcribe as shooting

FOLDER = ROOT / "problems"


# ---- fronts ----
@dataclass(frozen=True, eq=False)
class System:
    """A symmetric system by triplets of the upper H, of A and the diagonal, as the plan takes them; taken: not fixed."""

    n: int
    m: int
    fixed: np.ndarray
    hessian: tuple[np.ndarray, np.ndarray]
    jacobian: tuple[np.ndarray, np.ndarray]
    timeline: Timeline | None
    entries: np.ndarray

    @property
    def taken(self):
        return np.flatnonzero(np.concatenate([~self.fixed, np.ones(self.m, dtype=bool)]))

    def dense(self):
        """The matrix [n + m, n + m] of all, fixed ones as well."""
        (hr, hc), (ar, ac), size = self.hessian, self.jacobian, self.n + self.m
        K = np.zeros((size, size))
        for i, j, value in zip(np.r_[hr, ar + self.n, np.arange(size)], np.r_[hc, ac, np.arange(size)], self.entries, strict=True):
            K[i, j] += value
            if i != j:
                K[j, i] += value
        return K

    def plan(self):
        return plan(self.n, self.m, self.fixed, self.hessian, self.jacobian, self.timeline)


def pattern(blocks, width=None):
    """Triplets of all pairs (i, j) of the blocks, each once: the upper triangle where a block is a list of columns."""
    pairs = set()
    for block in blocks:
        rows, columns = (block, block) if width is None else block
        pairs |= {(i, j) for i in rows for j in columns if width is not None or i <= j}
    found = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def chained(seed, N=6, nx=3, nu=2, shared=0, path=1, linkage=0, start=False, linear=0.3, curvature=1.0, stated=True, shuffle=True):
    """A random system of optimal control: dynamics between knots, rows inside intervals, linkages between first and last knot.

    start: the first knot is fixed; linear: the share of unknowns without curvature; stated: whether the chain is told
    """
    rng = np.random.default_rng(seed)
    n, order = (N + 1) * nx + N * nu + shared, None
    order = rng.permutation(n) if shuffle else np.arange(n)
    knots = [order[k * nx:(k + 1) * nx] for k in range(N + 1)]
    inner = [order[(N + 1) * nx + k * nu:(N + 1) * nx + (k + 1) * nu] for k in range(N)]
    common = order[n - shared:] if shared else np.zeros(0, dtype=np.int64)
    rows = [np.concatenate([knots[k], inner[k], knots[k + 1], common]) for k in range(N) for _ in range(nx)]
    rows += [np.concatenate([knots[k], inner[k]]) for k in range(N) for _ in range(path)]
    rows += [np.concatenate([knots[0], knots[N], common]) for _ in range(linkage)]
    rows = [rows[i] for i in (rng.permutation(len(rows)) if shuffle else range(len(rows)))]
    m = len(rows)
    ar, ac = pattern([([i], row) for i, row in enumerate(rows)], n)
    hr, hc = pattern([np.concatenate([knots[k], inner[k], knots[k + 1], common]) for k in range(N)])
    flat = rng.random(n) < linear
    h = curvature * rng.normal(size=len(hr)) * ~(flat[hr] | flat[hc])
    diagonal = np.concatenate([np.where(flat, 0.0, rng.uniform(-1, 3, n)), -np.where(rng.random(m) < 0.2, rng.random(m), 0.0)])
    fixed = np.zeros(n, dtype=bool)
    if start:
        fixed[knots[0]] = True
    timeline = Timeline(tuple(knots), tuple(inner), common) if stated else None
    return System(n, m, fixed, (hr, hc), (ar, ac), timeline, np.concatenate([h, rng.normal(size=len(ar)), diagonal]))


def inertia(K):
    values = np.linalg.eigvalsh(K)
    return int(np.sum(values < 0)), float(np.min(np.abs(values)) / np.max(np.abs(values)))


def solved(system, order=None, threshold=THRESHOLD, spare=4.0, seed=0):
    """(negative, missing, relative residual and relative error against the dense solution) of one factorisation."""
    order = order or system.plan()
    own = workspace(order, system.n + system.m, spare)
    negative, missing = factorise(order, system.entries, own, threshold)
    b = np.random.default_rng(seed).normal(size=system.n + system.m)
    x, taken = b.copy(), system.taken
    substitute(own, x)
    K = system.dense()[np.ix_(taken, taken)]
    expected = np.linalg.solve(K, b[taken])
    left = np.setdiff1d(np.arange(system.n + system.m), taken)
    np.testing.assert_array_equal(x[left], b[left])  # fixed ones take no part
    error = np.abs(x[taken] - expected).max() / np.abs(expected).max()
    return negative, missing, error, own


CHAINS = {
    "plain": {}, "one interval": {"N": 1}, "long": {"N": 40, "nx": 2, "nu": 1}, "wide": {"N": 3, "nx": 11, "nu": 7, "path": 4},
    "wider than a panel": {"N": 2, "nx": 30, "nu": 20, "path": 5}, "no chain, wide": {"stated": False, "N": 3, "nx": 30, "nu": 9},
    "no inner unknowns": {"nu": 0, "path": 0, "linkage": 2}, "fixed start": {"start": True, "nx": 4, "nu": 1, "path": 0},
    "shared": {"shared": 3}, "linkage": {"linkage": 3, "nu": 3},
    "all": {"shared": 2, "linkage": 2, "start": True, "nu": 4, "N": 12},
    "no curvature at all": {"linear": 1.0, "nx": 4, "nu": 4, "path": 4, "N": 5, "linkage": 4},
    "no chain": {"stated": False}, "no chain, shared and linked": {"stated": False, "shared": 2, "linkage": 2, "N": 15},
    "no chain, fixed start": {"stated": False, "start": True, "nx": 4, "nu": 2},
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", CHAINS)
@pytest.mark.sample(6)
def test_solution_and_inertia(kind, seed):
    system = chained(100 + seed, **CHAINS[kind])
    K = system.dense()[np.ix_(system.taken, system.taken)]
    expected, condition = inertia(K)
    assert condition > 1e-9  # else the test says nothing
    negative, missing, error, _ = solved(system)
    assert (negative, missing) == (expected, 0)
    assert error < 1e-15 / condition / THRESHOLD  # refinement takes the rest
    careful = solved(system, threshold=0.1)
    assert careful[:2] == (expected, 0)
    assert careful[2] < 1e-13 / condition


def test_zero_diagonals_take_pivots_of_order_two():
    system = chained(1, linear=1.0, nx=4, nu=4, path=4, N=5, linkage=4)
    system.entries[-(system.n + system.m):] = 0.0
    negative, missing, error, own = solved(system)
    assert (negative, missing) == ((system.n + system.m) // 2, 0) == (system.n, 0)
    assert error < 1e-8
    pairs = own.pivots[:-1, 1] != 0.0
    assert pairs.sum() > 10
    assert not np.any(own.pivots[1:][pairs])  # the second of a pair says nothing


@pytest.mark.parametrize(("values", "negative"), [((0.2, 1.0, 10.0), 0), ((-0.2, 1.0, -10.0), 2), ((0.2, 1.0, -10.0), 1),
                                                  ((0.0, 1.0, 0.0), 1), ((0.2, 1.0, 0.1), 1)], ids=str)
@pytest.mark.parametrize("threshold", [1e-6, 0.9])
def test_signs_of_pairs(values, negative, threshold):
    """Definite pairs as well, where a careful threshold refuses both pivots of order one."""
    hessian, none = (np.array([0, 0, 1]), np.array([0, 1, 1])), np.zeros(0, dtype=np.int64)
    system = System(2, 0, np.zeros(2, dtype=bool), hessian, (none, none), None, np.r_[values, 0.0, 0.0])
    found, missing, error, own = solved(system, threshold=threshold)
    assert (found, missing) == (negative, 0)
    assert error < 1e-12
    assert np.any(own.pivots[:, 1] != 0) == (threshold == 0.9 or values[0] == 0)


def test_rows_that_nothing_eliminates_yet_are_handed_on():
    """From a fixed start, four rows meet one control: three of them must wait for the next knot."""
    system = chained(2, N=5, nx=4, nu=1, path=0, start=True, linear=1.0, shuffle=False)
    system.entries[-(system.n + system.m):] = np.r_[np.full(system.n, 1e-3), np.zeros(system.m)]
    order = system.plan()
    negative, missing, error, own = solved(system, order)
    assert (negative, missing) == (system.m, 0)
    assert error < 1e-8
    done, count = own.head[:, 0], np.diff(order.own_start)
    assert done.sum() == count.sum() == len(system.taken)
    assert done[0] < count[0]
    assert np.any(done > count)


@pytest.mark.parametrize("stated", [True, False])
def test_dependent_rows_are_noticed(stated):
    for seed in range(5):
        system = chained(10 + seed, N=4, nu=4, stated=stated, linear=0.0)
        (ar, ac), offset = system.jacobian, len(system.hessian[0])
        # the last row is the one before, where both have the same columns; no diagonal on rows
        system.entries[offset + len(ar) + system.n:] = 0.0
        columns = [tuple(ac[ar == i]) for i in range(system.m)]
        twins = [(i, j) for i in range(system.m) for j in range(i) if columns[i] == columns[j]]
        i, j = twins[seed]
        system.entries[offset:offset + len(ar)][ar == i] = -2.0 * system.entries[offset:offset + len(ar)][ar == j]
        order = system.plan()
        own = workspace(order, system.n + system.m, 4.0)
        expected = np.linalg.eigvalsh(system.dense())
        assert np.sum(np.abs(expected) < 1e-12) == 1
        negative, missing = factorise(order, system.entries, own, THRESHOLD)
        tiny = own.pivots[:, 0][np.abs(own.pivots[:, 0]) > 1e13]  # what rounding made of the zero: a pivot of 1e-16
        assert missing > 0 or len(tiny) > 0 or negative < np.sum(expected < 0)
        assert abs(negative - np.sum(expected < -1e-12)) <= 1


def test_an_exact_zero_is_missing():
    """A row that touches nothing but one fixed unknown, and an unknown that nothing touches."""
    system = chained(3, N=3)
    system.entries[:] = 0.0
    system.entries[-(system.n + system.m):] = 1.0
    system.entries[-1] = system.entries[-system.m - 2] = 0.0
    order = system.plan()
    own = workspace(order, system.n + system.m, 4.0)
    assert factorise(order, system.entries, own, THRESHOLD) == (0, 2)
    system.entries[-1] = -5.0
    assert factorise(order, system.entries, own, THRESHOLD) == (1, 1)


def test_too_small_a_workspace_is_reported():
    """Weak rows are handed on from front to front: what is needed grows beyond what the pattern says."""
    system = chained(4, N=30, nx=6, nu=1, path=0, start=True, linear=0.6, shuffle=False)
    order = system.plan()
    assert factorise(order, system.entries, workspace(order, system.n + system.m, 0.05), THRESHOLD)[0] == -1
    expected, _ = inertia(system.dense()[np.ix_(system.taken, system.taken)])
    for spare in 2.0 ** np.arange(8):
        negative, missing = factorise(order, system.entries, workspace(order, system.n + system.m, spare), THRESHOLD)
        if negative >= 0:
            break
    assert (negative, missing) == (expected, 0)


def test_a_safer_threshold_rounds_less():
    """Pivots of 1e-5 among entries of 1 pass the loose threshold and cost digits."""
    errors = {1e-6: [], 1e-2: [], 0.3: []}
    for seed in range(8):
        system = chained(30 + seed, N=10, nx=4, nu=3, linear=0.0, shuffle=False)
        offset = len(system.hessian[0]) + len(system.jacobian[0])
        on = system.hessian[0] == system.hessian[1]
        system.entries[:len(on)][on] = 0.0
        system.entries[offset:] = 1e-5 * np.sign(system.entries[offset:] + 1e-300)
        for threshold, found in errors.items():
            negative, missing, error, _ = solved(system, threshold=threshold)
            assert (negative, missing) == (inertia(system.dense())[0], 0)
            found.append(error)
    loose, careful, most = (np.median(found) for found in errors.values())
    assert careful < 0.1 * loose
    assert most < 1e-11


def test_bits_do_not_depend_on_what_the_room_held_before():
    one, other = chained(5, N=8, shared=1, linkage=1), chained(6, N=8, shared=1, linkage=1)
    order = one.plan()
    fresh, used = workspace(order, one.n + one.m, 4.0), workspace(order, one.n + one.m, 4.0)
    second_plan = other.plan()
    assert len(second_plan.own) == len(order.own)
    for array in used:
        array[...] = 7
    b = np.random.default_rng(0).normal(size=one.n + one.m)
    x, y = b.copy(), b.copy()
    assert factorise(order, one.entries, fresh, THRESHOLD) == factorise(order, one.entries, used, THRESHOLD)
    substitute(fresh, x)
    substitute(used, y)
    np.testing.assert_array_equal(x, y)


def test_the_plan_takes_every_entry_and_every_unknown_once():
    for kind, more in CHAINS.items():
        system = chained(7, **more)
        found = system.plan()
        assert sorted(found.own.tolist()) == system.taken.tolist(), kind
        sources = np.sort(found.entry_source)
        assert len(np.unique(sources)) == len(sources)
        (hr, hc), (ar, ac), size = system.hessian, system.jacobian, system.n + system.m
        i, j = np.r_[hr, ar + system.n, np.arange(size)], np.r_[hc, ac, np.arange(size)]
        taken = np.isin(i, system.taken) & np.isin(j, system.taken)
        np.testing.assert_array_equal(sources, np.flatnonzero(taken))
        own, bound = (np.split(all_of, start[1:-1]) for all_of, start in ((found.own, found.own_start),
                                                                          (found.bound, found.bound_start)))
        local = [np.r_[a, b] for a, b in zip(own, bound, strict=True)]
        for k, ids in enumerate(local):  # local numbers stand for what they should, own columns first
            here = slice(found.entry_start[k], found.entry_start[k + 1])
            row, column, source = found.entry_row[here], found.entry_column[here], found.entry_source[here]
            assert np.all(row <= column)
            assert np.all(row < len(own[k]))
            assert all({a, b} == {c, d} for a, b, c, d in zip(ids[row], ids[column], i[source], j[source], strict=True))
            if k + 1 < len(local):
                up = found.up[found.bound_start[k]:found.bound_start[k + 1]]
                np.testing.assert_array_equal(local[k + 1][up], ids[len(own[k]):])


@pytest.mark.parametrize("field", ["up", "entry_row", "entry_column", "entry_source"])
def test_a_wrong_plan_gives_a_wrong_solution(field):
    """What the comparisons above can see: one number of the plan exchanged with its neighbour."""
    system = chained(8, N=5)
    right = system.plan()
    wrong = getattr(right, field).copy()
    k = next(k for k in range(len(wrong) // 2, len(wrong) - 1) if wrong[k] != wrong[k + 1]
             and (field != "entry_row" or wrong[k + 1] <= right.entry_column[k]))
    wrong[[k, k + 1]] = wrong[[k + 1, k]]
    assert solved(system, right)[2] < 1e-9
    assert solved(system, right.replace(**{field: wrong}))[2] > 1e-6


# ---- elements ----
OPTIONS = CollocationOptions(kernels="interpreted", hessian="gauss_newton", intervals=3)
RICH = direct_twin.rich()


def point(nlp, seed):
    rng = np.random.default_rng(seed)
    return nlp.x0 + 0.2 * rng.normal(size=nlp.n), rng.normal(), rng.normal(size=nlp.m)


def same(one, other, what, close):
    np.testing.assert_allclose(one, other, rtol=close, atol=close * max(1.0, np.abs(other).max(initial=0.0)), err_msg=what)


def compare(nlp, seed=0, mode="interpreted", separable=None, close=1e-12):
    """Values and derivatives in compiled loops against the functions of the program, at two points one after another."""
    given = separable or nlp.separable
    for gauss_newton in (False, True):
        if gauss_newton and given.gauss_newton is None:
            continue
        loaded = load(given, gauss_newton, mode)
        p = loaded.program
        for k in range(2):
            x, sigma, lam = point(nlp, seed + k)
            g, gradient = np.full(nlp.m + 1, 7.0)[:nlp.m], np.full(nlp.n, 7.0)
            J, H = np.full(len(p.jacobian_rows) + 1, 7.0)[:-1], np.full(len(p.hessian_rows) + 1, 7.0)[:-1]
            failed, f = values(p, x, g)
            assert failed == 0
            same(f, float(nlp.f(x)), "f", close)
            same(g, nlp.g(x).full().ravel(), "g", close)
            g[:] = 7.0
            failed, f = firsts(p, x, g, gradient, J)
            assert failed == 0
            same(f, float(nlp.f(x)), "f of firsts", close)
            same(g, nlp.g(x).full().ravel(), "g of firsts", close)
            same(gradient, nlp.grad(x)[1].full().ravel(), "gradient", close)
            dense = np.zeros((nlp.m, nlp.n))
            np.add.at(dense, (p.jacobian_rows, p.jacobian_columns), J)
            same(dense, nlp.jac(x)[1].full(), "jacobian", close)
            assert second(p, x, sigma, lam, H) == 0
            dense = np.zeros((nlp.n, nlp.n))
            np.add.at(dense, (p.hessian_rows, p.hessian_columns), H)
            expected = nlp.gauss_newton(x, sigma) if gauss_newton else nlp.hess(x, sigma, lam)
            same(dense, expected.full(), "gauss_newton" if gauss_newton else "hessian", close)
            assert np.all(p.hessian_rows <= p.hessian_columns)
            assert np.abs(dense).max(initial=0.0) > 0 or gauss_newton or expected.nnz() == 0
    return loaded


@pytest.mark.parametrize("options", [{}, {"form": "compressed"}, {"scheme": "radau", "form": "differential"},
                                     {"scheme": "gauss", "degree": 2}, {"scheme": "trapezoid", "controls": "held"}], ids=str)
def test_phases_linkages_parameters_and_free_times_by_collocation(options):
    compare(collocation(RICH, replace(OPTIONS, **options)).nlp, 1)


def test_phases_by_shooting():
    compare(shooting(RICH, MultipleShootingOptions(intervals=3, kernels="interpreted")).nlp, 3)


def test_machine_code():
    compare(collocation(direct.bouncing_ball(), replace(OPTIONS, hessian="exact")).nlp, 5, "jit")


def test_tangent_unknowns():
    compare(collocation(direct.body_transfer(), replace(OPTIONS, states="tangent")).nlp, 7)


@pytest.mark.slow
def test_loops_that_leave_compiled_code():
    """Elements that take all places at once run through Python, by address like all others."""
    problem = load_problem(FOLDER / "acrobot.yaml").problem
    options = CollocationOptions(intervals=3, derivatives="analytic", execution="loops", kernels="interpreted")
    nlp = collocation(problem, options).nlp
    assert any(e.batched for e in nlp.separable.elements)
    compare(nlp, 8)


def test_programs_that_state_no_elements():
    nlp = program(3, None, lambda x: [x[0] * x[1], ca.sin(x[2]), x[0] + 2 * x[1]], [0.3, -0.2, 0.5],
                  residual=lambda x: ca.vertcat(x[0] ** 2, x[1] * x[2]))
    compare(nlp, 9, separable=whole(nlp))
    compare(nlp, 9, "jit", separable=whole(nlp))
    bare = program(2, lambda x: x[0] - 2 * x[1], lambda x: [], [1.0, 2.0])
    compare(bare, 10, separable=whole(bare))
    free = program(2, lambda x: ca.SX(3.0), lambda x: [x[0] - x[1]], [1.0, 2.0])
    compare(free, 11, separable=whole(free))


def test_a_cost_at_the_end_alone():
    system = flat_system("point", ("q",), ("u",), lambda t, x, u, p: u)
    goal = Cost("goal", At.FINAL, function(1, 1, lambda t, x, u, p: ca.sin(x[0])))
    problem = Problem("point", (Phase("point", system, direct.held(1.0), line([0.0], [1.0], 1), costs=(goal,)),))
    compare(collocation(problem, CollocationOptions(scheme="trapezoid", intervals=2)).nlp, 12)


