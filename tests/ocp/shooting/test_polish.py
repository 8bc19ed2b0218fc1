"""Newton polishing: random linear-quadratic problems solved densely, cones in closed form, and the ALTRO set to its last digits."""

from dataclasses import replace
from functools import cache

import altro_set
import casadi as ca
import numpy as np
import pytest
import scipy.linalg
from discrete_problem import discrete
from shooting_problems import make, quadrotor

from ocp.problem import INF, At, Boundary, Constraint, Sense
from ocp.shooting import ilqr
from ocp.shooting.active_set import APEX, FREE, SURFACE, ActiveSet, cone_case, cone_derivative
from ocp.shooting.kkt import Knot, Multipliers, costates, project_cone, residuals
from ocp.shooting.options import ILQROptions
from ocp.shooting.polish import PolishOptions, PolishStatus, polish
from ocp.shooting.stages.rows import BELOW, CONE, EQUAL, IN_CONE
from ocp.solvers.qp import QP, solve_qp
from ocp.spaces import euclidean


# ---------------------------------------------------------------------------------------------- linear-quadratic problems
def add(xs, ds):
    return [x + d for x, d in zip(xs, ds, strict=True)]


class LinearQuadratic:
    """A random convex problem with sizes n, m that change from knot to knot, rows, and bounds on controls; start state x0."""

    def __init__(self, seed, n, m, rows, bound=INF, copies=1, start=1.0):
        self.rng = np.random.default_rng(seed)
        rng, self.n, self.m = self.rng, n, (*m, 0)
        self.x0 = start * rng.standard_normal(n[0])
        self.sizes = [a + b for a, b in zip(n, self.m, strict=True)]
        self.H = [(lambda G: G @ G.T + 0.1 * np.eye(len(G)))(rng.standard_normal((a, a))) for a in self.sizes]
        self.g = [rng.standard_normal(a) for a in self.sizes]
        self.F = [rng.standard_normal((n[k + 1], n[k] + m[k])) for k in range(len(m))]
        self.d = [rng.standard_normal(n[k + 1]) for k in range(len(m))]
        self.kind = [np.array(list(kind) * copies, dtype=np.int64) for kind in rows]
        self.C = [np.tile(rng.standard_normal((len(kind), a)), (copies, 1)) for kind, a in zip(rows, self.sizes, strict=True)]
        self.bound, self.c, x = bound, [], self.x0
        for k, kind in enumerate(rows):  # some motion within the bounds satisfies all rows
            z = np.concatenate([x, 0.5 * rng.uniform(-1, 1, self.m[k])])
            room = np.where(np.array(kind) == EQUAL, 0.0, 0.1 * rng.uniform(size=len(kind)))
            self.c.append(np.tile(-self.C[k][:len(kind)] @ z - room, copies))
            x = self.F[k] @ z + self.d[k] if k < len(m) else x

    def evaluate(self, x, u, multipliers):
        knots = []
        for k, n in enumerate(self.n):
            z = np.concatenate([x[k], u[k]]) if k < len(self.m) - 1 else np.asarray(x[k])
            more = {"c": self.c[k] + self.C[k] @ z, "C": self.C[k], "kind": self.kind[k]}
            more |= {"size": np.ones(len(self.kind[k]), dtype=np.int64)}
            if k < len(self.m) - 1:
                edge = np.full(self.m[k], self.bound)
                more |= {"F": self.F[k], "gap": self.F[k] @ z + self.d[k] - x[k + 1]}
                more |= {"u": np.asarray(u[k]), "lower": -edge, "upper": edge}
            knots.append(Knot(n, self.g[k] + self.H[k] @ z, self.H[k], **more))
        return knots

    def guess(self):
        x = [self.x0, *(self.rng.standard_normal(n) for n in self.n[1:])]
        zero = Multipliers(tuple(np.zeros(n) for n in self.n), tuple(np.zeros(len(c)) for c in self.c))
        return x, [np.zeros(m) for m in self.m[:-1]], zero

    def dense(self):
        """P, q, A, l, u over all states and controls, knot by knot."""
        P, offset = scipy.linalg.block_diag(*self.H), np.concatenate([[0], np.cumsum(self.sizes)])
        size, A, low, high = offset[-1], [], [], []

        def row(values, place, l, u):
            full = np.zeros((len(values), size))
            full[:, place:place + values.shape[1]] = values
            A.append(full)
            low.append(l)
            high.append(u)

        row(np.eye(self.n[0]), 0, self.x0, self.x0)
        for k in range(len(self.n)):
            if k < len(self.m) - 1:
                full = np.zeros((self.n[k + 1], size))
                full[:, offset[k]:offset[k + 1]] = self.F[k]
                full[:, offset[k + 1]:offset[k + 1] + self.n[k + 1]] -= np.eye(self.n[k + 1])
                A.append(full)
                low.append(-self.d[k])
                high.append(-self.d[k])
                row(np.eye(self.m[k]), offset[k] + self.n[k], np.full(self.m[k], -self.bound), np.full(self.m[k], self.bound))
            equal = self.kind[k] == EQUAL
            row(self.C[k][equal], offset[k], -self.c[k][equal], -self.c[k][equal])
            row(self.C[k][~equal], offset[k], np.full(np.sum(~equal), -np.inf), -self.c[k][~equal])
        return QP(P, np.concatenate(self.g), np.vstack(A), np.concatenate(low), np.concatenate(high)), offset


def flat(polished):
    return np.concatenate([np.concatenate([x, u]) for x, u in zip(polished.x, [*polished.u, np.zeros(0)], strict=True)])


SIZES = (3, 4, 2, 4, 3), (2, 3, 2, 3)


def test_an_equality_constrained_problem_is_solved_in_one_step_as_by_dense_algebra():
    made = LinearQuadratic(1, *SIZES, rows=[[], [EQUAL], [], [EQUAL, EQUAL], [EQUAL]])
    found = polish(made.evaluate, add, *made.guess())
    assert found.status is PolishStatus.SOLVED
    assert len(found.log) == 2
    qp, _ = made.dense()
    held = np.isfinite(qp.l)
    A, b = qp.A.toarray()[held], qp.l[held]
    K = np.block([[qp.P.toarray(), A.T], [A, np.zeros((len(A), len(A)))]])
    right = np.linalg.solve(K, np.concatenate([-qp.q, b]))
    np.testing.assert_allclose(flat(found), right[:qp.n], atol=1e-11)
    # the first multipliers are those of the start: the row there is x - x0, in the Lagrangian start - x
    np.testing.assert_allclose(found.multipliers.costate[0], -right[qp.n:qp.n + 3], atol=1e-10)


def test_a_free_start_is_a_knot_without_states():
    """n = 0 at first, its controls choose the state of the next knot."""
    made = LinearQuadratic(2, (0, 3, 3), (3, 2), rows=[[], [], [EQUAL]])
    found = polish(made.evaluate, add, *made.guess())
    qp, _ = made.dense()
    held = np.isfinite(qp.l)
    A, b = qp.A.toarray()[held], qp.l[held]
    K = np.block([[qp.P.toarray(), A.T], [A, np.zeros((len(A), len(A)))]])
    np.testing.assert_allclose(flat(found), np.linalg.solve(K, np.concatenate([-qp.q, b]))[:qp.n], atol=1e-11)
    assert found.residuals.worst() < 1e-11


@pytest.mark.parametrize("seed", range(8))
def test_inequalities_and_bounds_against_osqp(seed):
    made = LinearQuadratic(10 + seed, *SIZES, rows=[[BELOW], [BELOW], [], [BELOW, EQUAL], [BELOW]], bound=0.8)
    qp, _ = made.dense()
    right = solve_qp(qp)
    assert right.ok
    found = polish(made.evaluate, add, *made.guess())
    assert found.status is PolishStatus.SOLVED, found.ending
    assert len(found.log) == 2  # linear and quadratic functions: one step, whatever the active set
    np.testing.assert_allclose(flat(found), right.x, atol=1e-9)
    active = sum(int(np.sum(np.abs(u) == 0.8)) for u in found.u) + sum(int(np.sum(w > 1e-9)) for w in found.multipliers.rows)
    assert active > 0


def test_rows_given_three_times_change_nothing():
    rows = [[BELOW], [BELOW], [], [EQUAL], [BELOW, EQUAL]]
    once, thrice = LinearQuadratic(15, *SIZES, rows, bound=0.8), LinearQuadratic(15, *SIZES, rows, bound=0.8, copies=3)
    a, b = (polish(made.evaluate, add, *made.guess()) for made in (once, thrice))
    assert a.status is b.status is PolishStatus.SOLVED
    np.testing.assert_allclose(flat(b), flat(a), atol=1e-9)
    for single, triple, kind in zip(a.multipliers.rows, b.multipliers.rows, once.kind, strict=True):
        np.testing.assert_allclose(triple.reshape(3, -1).sum(axis=0), single, atol=1e-8)
        assert len(kind) == len(single)
    assert sum(np.sum(np.abs(w) > 1e-6) for w in a.multipliers.rows) >= 3


def test_contradicting_rows_leave_the_point_as_it_was():
    made = LinearQuadratic(3, *SIZES, rows=[[], [EQUAL], [], [], []], copies=2)
    made.c[1][1] += 1.0
    x, u, zero = made.guess()
    found = polish(made.evaluate, add, x, u, zero)
    assert found.status is not PolishStatus.SOLVED
    assert found.residuals.feasibility >= 0.499
    assert found.residuals.worst() <= residuals(made.evaluate(x, u, zero), zero).worst()


# ------------------------------------------------------------------------------------------------------------------ cones
def arrow(v):
    """Projection onto the cone by the spectral decomposition of [[v0, v1'], [v1, v0 I]]: negative eigenvalues become zero."""
    q = len(v)
    M = v[0] * np.eye(q)
    M[0, 1:], M[1:, 0] = v[1:], v[1:]
    values, vectors = np.linalg.eigh(M)
    return (vectors * np.maximum(values, 0)) @ vectors.T[:, 0]


@pytest.mark.parametrize("seed", range(6))
def test_projection_and_its_derivative(seed):
    v = np.random.default_rng(seed).standard_normal(4) * [1.5, 1, 1, 1]
    np.testing.assert_allclose(project_cone(v), arrow(v), atol=1e-12)
    case = cone_case(v)
    basis, d = cone_derivative(v, case)
    differences = np.column_stack([(arrow(v + 1e-6 * e) - arrow(v - 1e-6 * e)) / 2e-6 for e in np.eye(4)])
    np.testing.assert_allclose(basis @ basis.T, np.eye(4), atol=1e-12)
    np.testing.assert_allclose((basis * d) @ basis.T, differences, atol=1e-7)


@pytest.mark.parametrize(("target", "case"), [
    ((1.0, 3.0, -1.0, 0.5), SURFACE), ((3.0, 1.0, 1.0, -1.0), FREE), ((-4.0, 1.0, -2.0, 0.5), APEX)])
def test_nearest_point_of_a_cone(target, case):
    """min 1/2 |u - a|^2 over a turned and moved cone: its projection of a, on the surface, inside, and at the apex."""
    rng = np.random.default_rng(4)
    Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    a = Q.T @ (np.array(target) - 0.1)

    def evaluate(x, u, multipliers):
        first = Knot(0, u[0] - a, np.eye(4), F=np.zeros((0, 4)), gap=np.zeros(0), u=u[0], lower=np.full(4, -INF),
                     upper=np.full(4, INF), c=Q @ u[0] + 0.1, C=Q, kind=np.array([CONE, IN_CONE, IN_CONE, IN_CONE]),
                     size=np.array([4, 1, 1, 1]))
        return [first, Knot(0, np.zeros(0), np.zeros((0, 0)))]

    nothing = Multipliers((np.zeros(0), np.zeros(0)), (np.zeros(4), np.zeros(0)))
    found = polish(evaluate, add, [np.zeros(0)] * 2, [a + 0.05 * rng.standard_normal(4)], nothing, PolishOptions(tolerance=1e-13))
    assert found.status is PolishStatus.SOLVED, found.ending
    np.testing.assert_allclose(Q @ found.u[0] + 0.1, arrow(np.array(target)), atol=1e-12)
    assert cone_case(-found.multipliers.rows[0] - (Q @ found.u[0] + 0.1)) == case
    # the multiplier is what the projection took away (Moreau)
    np.testing.assert_allclose(-found.multipliers.rows[0], arrow(np.array(target)) - np.array(target), atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_residual_of_held_rows_is_the_right_hand_side_of_their_step(seed):
    """Two forms of one thing: rows made for a step from a point, and the residuals of the rows at that point."""
    rng = np.random.default_rng(seed)
    kind, size = np.array([EQUAL, CONE, IN_CONE, IN_CONE, BELOW]), np.array([1, 3, 1, 1, 1])
    knot = Knot(3, rng.standard_normal(3), np.eye(3), c=rng.standard_normal(5), C=rng.standard_normal((5, 3)), kind=kind, size=size)
    w = rng.standard_normal(5)
    active = ActiveSet([knot], Multipliers((np.zeros(3),), (w,)))
    held = active.conditions[0]
    np.testing.assert_allclose(active.miss(0, knot, w), held.b + held.soft * (held.T.T @ w), atol=1e-12)
    assert held.b.size >= 1


def lander(bound=6.0):
    """A point mass with gravity and its thrust in a second-order cone; ends at rest."""
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", 6), ca.SX.sym("u", 3), ca.SX.sym("p", 0)
    inside = ca.Function("c", [t, x, u, p], [ca.vertcat(bound + 0 * u[0], u)])
    cone = Constraint("thrust", At.PATH, inside, (-INF,) * 4, (INF,) * 4, Sense.CONE)
    made = make("lander", euclidean(("x", "y", "z", "vx", "vy", "vz")), ("ux", "uy", "uz"),
                lambda t, x, u: ca.vertcat(x[3:], u - ca.DM([0, 0, 2.0]) - 0.2 * x[3:] * ca.sqrt(1 + ca.dot(x[3:], x[3:]))),
                (1.0, 1.0, 4.0, 0.5, 0.0, -1.5), 2.0, running=[("effort", lambda t, x, u: u, (0.1,) * 3)])
    return replace(made, phases=(replace(made.phase, final=Boundary((0.0,) * 6, (True,) * 6), constraints=(cone,)),))


def start_from(problem, tolerance, intervals, exact=True, **options):
    """Adapter, states, controls and multipliers of a loose solution."""
    loose = ilqr.solve(problem, ILQROptions(intervals=intervals, constraint_tolerance=tolerance, tolerance=tolerance, **options))
    made = discrete(problem, exact, intervals=intervals, **options)
    return made, *made.point(loose.optimality)


def test_a_binding_cone_in_a_motion_converges_quadratically():
    made, x, u, multipliers = start_from(lander(), 1e-3, 30, kernels="interpreted")
    found = polish(made.evaluate, made.retract, x, u, multipliers)
    assert found.status is PolishStatus.SOLVED, found.ending
    assert len(found.log) <= 6
    thrust = np.linalg.norm(found.u, axis=1)
    assert np.sum(np.abs(thrust - 6.0) < 1e-10) >= 3
    assert np.sum(thrust < 5.9) >= 3
    assert thrust.max() < 6.0 + 1e-10
    # independent of the cone algebra: the multiplier pushes along -u, with positive length, exactly where the cone binds
    for k, control in enumerate(found.u):
        w = found.multipliers.rows[k]
        np.testing.assert_allclose(w[1:] * 6.0, -w[0] * control, atol=1e-9)
        assert -w[0] >= -1e-12
        assert -w[0] > 1e-6 or thrust[k] < 6.0 - 1e-10 or abs(w[0]) < 1e-5


# --------------------------------------------------------------------------------------------------------- motions
@cache
def altro():
    return {case.problem.name.split(" (")[0]: case for case in altro_set.cases()}


# tolerance of the loose solution, and whether IPOPT's optimum from the same start is the same local one
@pytest.mark.parametrize(("name", "tolerance", "same"), [
    ("double integrator", 1e-3, True), ("pendulum", 1e-5, True), ("cart-pole", 1e-4, True), ("acrobot", 1e-4, True),
    ("parallel park", 1e-4, True), ("three obstacles", 1e-3, False)])
@pytest.mark.sample(2)
def test_the_altro_set_to_rounding_in_few_steps(name, tolerance, same):
    case = altro()[name]
    made, x, u, multipliers = start_from(case.problem, tolerance, case.intervals, cost_quadrature="rectangle")
    found = polish(made.evaluate, made.retract, x, u, multipliers)
    assert found.status is PolishStatus.SOLVED, (found.ending, found.log)
    assert found.residuals.worst() < 1e-10
    assert len(found.log) - 1 <= 4
    # the last step at least squares what the one before it left (times a constant of the problem)
    worst = [max(row[key] for key in ("stationarity", "feasibility", "gap", "complementarity")) for row in found.log]
    assert worst[-1] < 1e-10 or worst[-1] < 1e4 * worst[-2] ** 2
    # states follow the dynamics, so a rollout gives the same motion, and the cost is the one known
    rolled = made.rollout(x[0], found.u)
    assert max(np.abs(a - b).max() for a, b in zip(rolled, found.x, strict=True)) < 1e-6
    if same:
        assert made.cost(found.x, found.u) == pytest.approx(case.ipopt, rel=5e-8)  # IPOPT relaxes bounds by 1e-8


def spinning():
    """The quadrotor brought exactly to a pose, thrust bounded: states on a manifold, final rows in its tangent space."""
    made = quadrotor()
    goal = (0.5, -0.3, 1.0, float(np.cos(0.4)), 0.0, 0.0, float(np.sin(0.4)), *(0.0,) * 6)
    return replace(made, phases=(replace(made.phase, final=Boundary(goal, (True,) * 12), u_lower=(0.0, -5.0, -5.0, -5.0),
                                         u_upper=(9.0, 5.0, 5.0, 5.0)),))


def test_a_motion_on_a_manifold():
    made, x, u, multipliers = start_from(spinning(), 1e-3, 30, kernels="interpreted")
    found = polish(made.evaluate, made.retract, x, u, multipliers)
    assert found.status is PolishStatus.SOLVED, found.ending
    assert len(found.log) <= 6
    np.testing.assert_allclose([np.linalg.norm(q[3:7]) for q in found.x], 1.0, atol=1e-12)
    assert np.sum((np.array(found.u) == made.horizon.lower[:-1]) | (np.array(found.u) == made.horizon.upper[:-1])) > 0
    # another way to the same optimum: the engine itself, to a tight tolerance
    tight = ilqr.solve(spinning(), ILQROptions(intervals=30, kernels="interpreted", constraint_tolerance=1e-9, tolerance=1e-9))
    np.testing.assert_allclose(np.array(found.u), tight.trajectory.u, atol=1e-6)


def test_gauss_newton_is_linear_and_exact_is_quadratic():
    steps = {}
    for exact in (True, False):
        made, x, u, multipliers = start_from(spinning(), 1e-3, 20, exact, kernels="interpreted")
        found = polish(made.evaluate, made.retract, x, u, multipliers, PolishOptions(tolerance=1e-9, max_steps=60))
        assert found.status is PolishStatus.SOLVED, (exact, found.ending)
        steps[exact] = len(found.log) - 1
    assert steps[True] <= 5 < steps[False]


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 1))])
def test_a_bad_start_is_never_made_worse(seed):
    case = altro()["pendulum"]
    made = discrete(case.problem, intervals=30, cost_quadrature="rectangle")
    rng = np.random.default_rng(seed)
    u = [3 * rng.standard_normal(1) for _ in range(30)]
    x = made.rollout(np.zeros(2), u)
    multipliers = made.start(x, u, rng.standard_normal((31, 2)))
    before = residuals(made.evaluate(x, u, multipliers), multipliers).worst()
    found = polish(made.evaluate, made.retract, x, u, multipliers, PolishOptions(max_steps=4))
    again = residuals(made.evaluate(found.x, found.u, found.multipliers), found.multipliers)
    assert again == found.residuals
    assert again.worst() <= before
    assert found.status is not PolishStatus.NO_IMPROVEMENT or again.worst() == before


def test_where_nothing_can_be_evaluated_the_point_stays():
    made, x, u, multipliers = start_from(spinning(), 1e-3, 10, kernels="interpreted")
    first = [True]

    def once(*arguments):
        if not first:
            raise ArithmeticError("outside")
        first.clear()
        return made.evaluate(*arguments)

    found = polish(once, made.retract, x, u, multipliers)
    assert found.status is PolishStatus.NO_IMPROVEMENT
    for a, b in zip(found.u, u, strict=True):
        np.testing.assert_array_equal(a, b)


def test_costates_are_the_gradient_of_the_cost():
    """Without constraints, costate 0 is the derivative of the rolled-out cost by the start."""
    made = discrete(quadrotor(), intervals=10)
    u = [np.array([5.0, 0.1, -0.2, 0.3])] * 10
    x0 = made.horizon.start
    x = made.rollout(x0, u)
    zero = Multipliers(tuple(np.zeros(12) for _ in x), (np.zeros(0),) * 11)
    found = costates(made.evaluate(x, u, zero), zero.rows).costate[0]

    def cost(dx):
        start = np.asarray(made.horizon.kinds[0].plus(x0, dx)).ravel()
        return made.cost(made.rollout(start, u), u)

    differences = [(cost(1e-6 * e) - cost(-1e-6 * e)) / 2e-6 for e in np.eye(12)]
    np.testing.assert_allclose(found, differences, rtol=1e-6, atol=1e-6)


def test_options_are_checked():
    with pytest.raises(ValueError, match="tolerance"):
        PolishOptions(tolerance=0.0)
    with pytest.raises(ValueError, match="max_steps"):
        PolishOptions(max_steps=-1)
