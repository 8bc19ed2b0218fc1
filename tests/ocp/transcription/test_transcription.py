"""Schemes, meshes and the program that collocation builds, against plain loops and a twin differentiated as a whole."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import control_problems as known
import numpy as np
import pytest
from nlp_programs import with_functions
from uncertified import by_collocation

from dynamics.kernels import find_compiler
from ocp.errors import ProblemError, UnsupportedError
from ocp.guesses.sampling import sample_guess
from ocp.nlp import IpoptOptions, solve_nlp
from ocp.nlp.whole import Whole
from ocp.problem import INF, At, Boundary, Constraint, Cost, Duration, Finding, Guess, Kind, Phase, Sense
from ocp.transcription import blocks, kernels
from ocp.transcription.collocation import CollocationOptions, transcribe, unsupported
from ocp.transcription.elements import separable
from ocp.transcription.mesh import Mesh, Table, uniform_mesh
from ocp.transcription.schemes import make_scheme

N = 4  # intervals of the small programs


# --- schemes and meshes -------------------------------------------------------------------------------------

def test_mesh_by_counting():
    mesh = Mesh(np.array([0.0, 0.1, 0.4, 1.0]), (make_scheme("hermite_simpson"),) * 3)
    np.testing.assert_allclose(mesh.fractions, [0, 0.05, 0.1, 0.25, 0.4, 0.7, 1.0])
    assert list(mesh.node_names)[:3] == ["knot 0", "midpoint 0", "knot 1"]
    np.testing.assert_array_equal(mesh.knots, [0, 2, 4, 6])
    np.testing.assert_allclose(mesh.weights * 6, [0.1, 0.4, 0.1 + 0.3, 1.2, 0.3 + 0.6, 2.4, 0.6])
    assert mesh.weights @ mesh.fractions**3 == pytest.approx(1 / 4, abs=1e-15)  # Simpson, on uneven intervals


# --- a twin: the same program written as loops, differentiated as a whole -----------------------------------

def rate(t, x, u, p):
    return ca.vertcat(x[1] * x[2] + p[0] * ca.sin(t), u[0] * ca.cos(x[0]) - t * x[1], u[1] * x[2] + p[1] * x[0] ** 2)


def running(t, x, u):
    return u[0] ** 2 * (1 + x[0] ** 2) + 0.1 * t * u[1] ** 2


def residual(x):
    return ca.vertcat(x[0] - 1, x[1] * x[2])


def tube(t, x, u, p):
    return ca.vertcat(x[0] * u[1] + t, p[1] * x[2] ** 3)


def cone(x, u):
    return ca.vertcat(2 + x[0], u[0], u[1] * x[1])


def soft(t, x):
    return x[1] - 0.2 * t


P = (0.7, -1.3)


def rich_problem(free):
    """Everything at once: time dependence, parameters, path and end constraints, a cone, soft and Mayer terms."""
    system = known.flat_system("rich", ("a", "b", "c"), ("u", "w"), rate, ("gain", "drift"), P)

    def fn(f):
        return known.function(3, 2, f, 2)

    duration = Duration(0.5, 3.0, 1.4) if free else Duration(1.4, 1.4, 1.4)
    return known.problem(Phase(
        "rich", system, duration, known.line([0.1, 0.2, 0.3], [1, -1, 2], 2),
        start=Boundary((0.1, 0.2, 0.0), (True, True, False)), final=Boundary((1.0, 0.0, 0.0), (True, False, False)),
        x_lower=(-5.0, -INF, -6.0), u_upper=(3.0, 4.0),
        costs=(Cost("running", At.PATH, fn(lambda t, x, u, p: running(t, x, u))),
               Cost("miss", At.FINAL, fn(lambda t, x, u, p: residual(x)), weights=(3.0, 5.0)),
               Cost("late", At.FINAL, fn(lambda t, x, u, p: t**2 * x[2]))),
        constraints=(Constraint("tube", At.PATH, fn(tube), (-1.0, -2.0), (1.0, INF)),
                     Constraint("friction", At.PATH, fn(lambda t, x, u, p: cone(x, u)), (-INF,) * 3, (INF,) * 3, Sense.CONE),
                     Constraint("wish", At.PATH, fn(lambda t, x, u, p: soft(t, x)), (-0.3,), (0.2,), soft=7.0),
                     Constraint("launch", At.START, fn(lambda t, x, u, p: x[2] ** 2 - t), (0.5,), (0.5,), Sense.EQUAL),
                     Constraint("land", At.FINAL, fn(lambda t, x, u, p: x[1] * x[2] - t), (-1.0,), (2.0,)),
                     Constraint("near", At.FINAL, fn(lambda t, x, u, p: x[1]), (0.0,), (0.0,), soft=2.0)),
    ))


def twin(scheme, free):
    """(variables, objective, rows) by Kelly 2017, Secs. 3 and 4, in plain loops."""
    middle = scheme == "hermite_simpson"
    M = (2 if middle else 1) * N + 1
    X, U = [ca.SX.sym(f"x{j}", 3) for j in range(M)], [ca.SX.sym(f"u{j}", 2) for j in range(M)]
    T = ca.SX.sym("T") if free else ca.SX(1.4)
    h = T / N
    t = [T * j / (M - 1) for j in range(M)]
    F = [rate(t[j], X[j], U[j], P) for j in range(M)]

    def path_cost(j):
        s = soft(t[j], X[j])
        return running(t[j], X[j], U[j]) + 7 / 2 * (ca.fmax(0, s - 0.2) ** 2 + ca.fmax(0, -0.3 - s) ** 2)

    rows, objective = [], ca.SX(0)
    for k in range(N):
        if middle:
            a, c, b = 2 * k, 2 * k + 1, 2 * k + 2
            rows.append(X[c] - (X[a] + X[b]) / 2 - h / 8 * (F[a] - F[b]))
            rows.append(X[b] - X[a] - h / 6 * (F[a] + 4 * F[c] + F[b]))
            objective += h / 6 * (path_cost(a) + 4 * path_cost(c) + path_cost(b))
        else:
            rows.append(X[k + 1] - X[k] - h / 2 * (F[k] + F[k + 1]))
            objective += h / 2 * (path_cost(k) + path_cost(k + 1))
    for j in range(M):
        c = cone(X[j], U[j])
        rows += [tube(t[j], X[j], U[j], P), c[0] ** 2 - c[1] ** 2 - c[2] ** 2, c[0]]
    rows += [X[0][2] ** 2, X[-1][1] * X[-1][2] - T]
    miss = residual(X[-1])
    objective += 3 / 2 * miss[0] ** 2 + 5 / 2 * miss[1] ** 2 + T**2 * X[-1][2] + X[-1][1] ** 2
    variables = ca.vertcat(*(ca.vertcat(x, u) for x, u in zip(X, U)), *([T] if free else []))
    return variables, objective, ca.vertcat(*rows)


@pytest.mark.parametrize("flat", [True, False], ids=["flat", "mapped"])
@pytest.mark.parametrize("free", [True, False], ids=["free", "fixed"])
@pytest.mark.parametrize("scheme", ["trapezoid", "hermite_simpson"])
def test_program_equals_twin_differentiated_as_a_whole(scheme, free, flat, monkeypatch):
    monkeypatch.setattr(blocks, "FLAT_BELOW", 10**9 if flat else 0)
    nlp = transcribe(rich_problem(free), CollocationOptions(scheme=scheme, intervals=N, kernels="interpreted")).nlp
    assert nlp.hess.is_a("SXFunction") == flat
    x, objective, rows = twin(scheme, free)
    assert (nlp.n, nlp.m) == (x.shape[0], rows.shape[0])
    lam, sigma = ca.SX.sym("lam", nlp.m), ca.SX.sym("sigma")
    hessian = ca.hessian(sigma * objective + ca.dot(lam, rows), x)[0]
    expected = ca.Function("twin", [x, sigma, lam], [objective, rows, ca.gradient(objective, x), ca.jacobian(rows, x), hessian])
    rng = np.random.default_rng(3)
    for _ in range(3):
        z, y, s = rng.normal(size=nlp.n), rng.normal(size=nlp.m), rng.normal()
        f, g, gradient, jacobian, full = (v.full() for v in expected(z, s, y))
        np.testing.assert_allclose(float(nlp.f(z)), f.item(), rtol=1e-13)
        np.testing.assert_allclose(nlp.g(z).full(), g, atol=1e-13)
        np.testing.assert_allclose(nlp.grad(z)[1].full(), gradient, atol=1e-12)
        np.testing.assert_allclose(float(nlp.grad(z)[0]), f.item(), rtol=1e-13)
        np.testing.assert_allclose(nlp.jac(z)[1].full(), jacobian, atol=1e-12)
        np.testing.assert_allclose(nlp.jac(z)[0].full(), g, atol=1e-13)
        np.testing.assert_allclose(nlp.hess(z, s, y).full(), np.triu(full), atol=1e-11)
    # no looser than the whole, apart from what the whole knows to vanish at the first node, where time is 0
    extra = nlp.jac.sparsity_out(1).nnz() - ca.jacobian(rows, x).nnz(), nlp.hess.sparsity_out(0).nnz() - ca.triu(hessian).nnz()
    assert extra == (int(free), 0)


def table(matrix):
    return Table(*np.nonzero(matrix), matrix[np.nonzero(matrix)], matrix.shape)


@pytest.mark.parametrize("flat", [True, False], ids=["flat", "mapped"])
def test_blocks_may_take_their_variables_in_any_order(flat, monkeypatch):
    """f = sum w_j a_j^2 b_j and rows 3 sin(a_j b_j) plus a linear part, with shared and unordered variables."""
    monkeypatch.setattr(blocks, "FLAT_BELOW", 10**9 if flat else 0)
    v, d = ca.SX.sym("v", 2), ca.SX.sym("d")
    index, data, weight = np.array([[3, 0], [1, 2], [2, 0]]), np.array([[0.5], [2.0], [1.0]]), np.array([1.0, -2.0, 0.3])
    linear = np.array([[0.0, 1, 0, 0], [0, 0, 0, 2]])
    mixing = np.array([[3.0, 0, -1], [0, 2, 1]])
    block = blocks.Block("pair", v, d, v[0] ** 2 * v[1] * d, ca.sin(v[0] * v[1]), index, data, weight, table(mixing))
    program = Whole(separable(table(linear), [block], [blocks.differentiate(block)]), blocks.FLAT_BELOW)
    x, sigma, lam = ca.SX.sym("x", 4), ca.SX.sym("s"), ca.SX.sym("l", 2)
    f = sum(w * x[int(i)] ** 2 * x[int(j)] * c for w, (i, j), (c,) in zip(weight, index, data, strict=True))
    g = ca.mtimes(ca.DM(mixing), ca.vertcat(*(ca.sin(x[int(i)] * x[int(j)]) for i, j in index))) + ca.DM(linear) @ x
    whole = ca.Function("whole", [x, sigma, lam], [f, g, ca.gradient(f, x), ca.jacobian(g, x),
                                                   ca.triu(ca.hessian(sigma * f + ca.dot(lam, g), x)[0])])
    z, y = np.array([0.3, -1.2, 0.7, 1.9]), np.array([0.4, -0.9])
    found = [program.f(z), program.g(z), program.grad(z)[1], program.jac(z)[1], program.hess(z, 1.7, y)]
    for a, b in zip(found, whole(z, 1.7, y), strict=True):
        np.testing.assert_allclose(a.full(), b.full(), atol=1e-14)


def test_bounds_and_names_of_rows_and_columns():
    nlp = transcribe(rich_problem(True), CollocationOptions(intervals=N)).nlp
    column, row = nlp.variables.index, nlp.constraints.index
    assert nlp.variables[:6] == ("x.a @ knot 0", "x.b @ knot 0", "x.c @ knot 0", "u.u @ knot 0", "u.w @ knot 0",
                                 "x.a @ midpoint 0")
    assert nlp.variables[-1] == "duration"
    for name, low, high in (("x.a @ knot 0", 0.1, 0.1), ("x.c @ knot 0", -6, INF), (f"x.a @ knot {N}", 1, 1),
                            ("x.b @ knot 2", -INF, INF), ("u.w @ midpoint 3", -INF, 4), ("duration", 0.5, 3.0)):
        assert (nlp.x_lower[column(name)], nlp.x_upper[column(name)]) == (low, high)
    assert nlp.constraints[:4] == ("inner defect a @ interval 0", "inner defect b @ interval 0",
                                   "inner defect c @ interval 0", "defect a @ interval 0")
    for name, low, high in (("defect c @ interval 3", 0, 0), ("tube[0] @ midpoint 2", -1, 1), ("tube[1] @ knot 4", -2, INF),
                            ("friction (cone) @ knot 1", 0, INF), ("friction (cone axis) @ knot 1", 0, INF),
                            ("launch @ start", 0.5, 0.5), ("land @ final", -1, 2)):
        assert (nlp.g_lower[row(name)], nlp.g_upper[row(name)]) == (low, high)
    assert len(set(nlp.variables)) == nlp.n
    assert len(set(nlp.constraints)) == nlp.m
    # a row called after an interval moves with the states of that interval only
    jacobian = nlp.jac(np.random.default_rng(0).normal(size=nlp.n))[1]
    touched = {nlp.variables[j] for j in np.flatnonzero(jacobian[row("defect b @ interval 2"), :].full())}
    assert {name.split(" @ ")[1] for name in touched - {"duration"}} == {"knot 2", "midpoint 2", "knot 3"}


def test_wrong_derivatives_change_the_path():
    """The solver uses the assembled Jacobian and Hessian and nothing else."""
    nlp = transcribe(known.cart_pole(), CollocationOptions(intervals=10)).nlp
    right = solve_nlp(nlp, IpoptOptions())
    x, sigma, lam = ca.MX.sym("x", nlp.n), ca.MX.sym("s"), ca.MX.sym("l", nlp.m)
    wrong_hess = with_functions(nlp, hess=ca.Function("wrong", [x, sigma, lam], [3 * nlp.hess(x, sigma, lam)]))
    wrong_jac = with_functions(nlp, jac=ca.Function("wrong", [x], [nlp.g(x), 1.1 * nlp.jac(x)[1]]))
    for wrong in (wrong_hess, wrong_jac):
        other = solve_nlp(wrong, IpoptOptions(max_iterations=60))
        assert [r["objective"] for r in other.iterations] != [r["objective"] for r in right.iterations]


# --- the way back -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("scheme", ["trapezoid", "hermite_simpson"])
def test_interpolants_collocate(scheme):
    """Through the nodes, with the system's rate there; the last knot is reached exactly because the defects vanish."""
    found = by_collocation(known.cart_pole(), CollocationOptions(scheme=scheme, intervals=12))
    path = found.trajectory
    np.testing.assert_allclose(path.control(path.t_u), path.u, atol=1e-12)
    np.testing.assert_allclose(path.state(path.t), path.x, atol=1e-12)
    eps = 1e-5
    for t in path.t_u[1::2] if scheme == "hermite_simpson" else path.t[:-1]:
        rate = (path.state(t + 2 * eps) - path.state(t + eps)) / eps  # forward, extrapolated to t: inside one interval
        slope = (path.state(t + 3 * eps) - path.state(t + 2 * eps)) / eps
        expected = known.cart_pole_rate(t, path.state(t), path.control(t), None)
        np.testing.assert_allclose(rate - 1.5 * (slope - rate), np.array(expected, dtype=float).ravel(), atol=2e-4)
    before, after = path.state(path.t[1:-1] - 1e-12), path.state(path.t[1:-1] + 1e-12)
    np.testing.assert_allclose(before, after, atol=1e-8)  # continuous, which only the defects make true
    assert path.state(0.3).shape == (4,)
    assert path.control([0.3, 0.4]).shape == (2, 1)
    with pytest.raises(ProblemError, match="outside the phase"):
        path.state(2.1)


def test_guess_is_sampled_at_the_nodes():
    problem = known.block_move()
    guess = Guess(np.array([0.0, 0.25, 1.0]), np.array([[0, 1], [2, 0], [4, 3.0]]), np.array([[1], [2], [0.0]]))
    nlp = transcribe(known.problem(replace(problem.phase, guess=guess)), CollocationOptions(scheme="trapezoid", intervals=2)).nlp
    # the ends of the state are prescribed (0, 0), (1, 0); in the middle one third of the way from (2, 0) to (4, 3)
    np.testing.assert_allclose(nlp.x0, [0, 0, 1, 2 + 2 / 3, 1, 4 / 3, 1, 0, 0])
    held = Guess(np.array([0.5]), np.array([[7.0, 8.0]]), np.array([[9.0]]))
    np.testing.assert_array_equal(sample_guess(held, problem.phase.system.space, np.array([0.0, 1.0]))[0], [[7, 8], [7, 8]])
    for wrong in ({"s": np.array([0.0, 2.0, 1.0])}, {"x": guess.x[:2]}, {"u": np.full((3, 1), np.nan)},
                  {"u": np.zeros((3, 2))}):
        with pytest.raises(ProblemError, match=f"guess.{next(iter(wrong))}"):
            transcribe(known.problem(replace(problem.phase, guess=replace(guess, **wrong))), CollocationOptions(intervals=2))


# --- what is refused ----------------------------------------------------------------------------------------

def test_options_are_checked_by_name():
    for wrong in ({"scheme": "simpson"}, {"hessian": "none"}, {"kernels": "jit"}, {"intervals": 0}, {"tolerance": -1.0},
                  {"max_iterations": -5}):
        with pytest.raises(ProblemError, match=next(iter(wrong))):
            CollocationOptions(**wrong)


def test_what_cannot_be_enforced_is_named():
    problem = rich_problem(True)
    assert unsupported(problem) == []
    friction = problem.phase.constraints[1]
    soft_cone = replace(problem.phase, constraints=(replace(friction, soft=1.0),))
    assert ["'friction'" in reason for reason in unsupported(known.problem(soft_cone))] == [True]
    with pytest.raises(UnsupportedError, match="friction"):
        by_collocation(known.problem(soft_cone), CollocationOptions())


def test_malformed_problems_are_refused_by_name():
    phase = known.block_move().phase
    depends = Constraint("gate", At.FINAL, known.function(2, 1, lambda t, x, u, p: x[0] + u[0]), (0.0,), (0.0,))
    sizes = Constraint("gate", At.PATH, known.function(2, 1, lambda t, x, u, p: x), (0.0,), (0.0,), where="file.yaml:7")
    vector = Cost("work", At.PATH, known.function(2, 1, lambda t, x, u, p: x))
    cases = (({"constraints": (depends,)}, "gate.*control"), ({"constraints": (sizes,)}, "file.yaml:7.*function 2, lower 1"),
             ({"costs": (vector,)}, "work.*scalar"), ({"x_upper": (0.5, INF)}, "final value 1 of x lies outside"),
             ({"duration": Duration(-1.0, 2.0, 1.0)}, "duration"),
             ({"start": Boundary((0.0,), (True,))}, "start: needs 2 values"))
    for change, match in cases:
        with pytest.raises(ProblemError, match=match):
            transcribe(known.problem(replace(phase, **change)), CollocationOptions(intervals=3))


def test_mesh_is_uniform():
    assert uniform_mesh(make_scheme("trapezoid"), 4).edges.tolist() == [0, 0.25, 0.5, 0.75, 1]


# --- compiled functions ---------------------------------------------------------------------------------------

PLAIN = (Finding(Kind.DERIVATIVES_CHOSEN, data={"source": "ad"}), Finding(Kind.KERNELS_INTERPRETED))


@pytest.mark.parametrize("mode", ["compiled", "auto"])
def test_compiled_program_equals_interpreted(mode, monkeypatch, tmp_path):
    if find_compiler() is None:
        pytest.skip("no C compiler")
    monkeypatch.setenv("LIEOCP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "WORTH_COMPILING", 0 if mode == "auto" else 10**9)
    monkeypatch.setattr(kernels, "WORTH_WAITING", 0)
    plain = transcribe(rich_problem(True), CollocationOptions(intervals=N, kernels="interpreted"))
    made = transcribe(rich_problem(True), CollocationOptions(intervals=N, kernels=mode))
    assert plain.findings == PLAIN
    assert plain.seconds["compile"] == 0
    assert made.findings[1].kind is Kind.KERNELS_COMPILED
    assert {"node_cost", "node_hessian"} <= set(made.findings[1].data["operations"])
    assert made.seconds["compile"] > 0
    rng = np.random.default_rng(8)
    z, y = rng.normal(size=plain.nlp.n), rng.normal(size=plain.nlp.m)
    for name, arguments in (("f", (z,)), ("g", (z,)), ("grad", (z,)), ("jac", (z,)), ("hess", (z, 0.7, y))):
        for a, b in zip(getattr(made.nlp, name).call(arguments), getattr(plain.nlp, name).call(arguments), strict=True):
            np.testing.assert_allclose(a.full(), b.full(), atol=1e-12)
            assert a.sparsity() == b.sparsity()


def test_auto_does_not_make_a_single_solve_wait_but_takes_what_is_cached(monkeypatch, tmp_path):
    if find_compiler() is None:
        pytest.skip("no C compiler")
    monkeypatch.setenv("LIEOCP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "WORTH_COMPILING", 0)
    first = transcribe(known.cart_pole(), CollocationOptions(intervals=3))
    assert first.findings[1].kind is Kind.KERNELS_WORTH_COMPILING
    transcribe(known.cart_pole(), CollocationOptions(intervals=3, kernels="compiled"))
    again = transcribe(known.cart_pole(), CollocationOptions(intervals=3))
    assert again.findings[1].kind is Kind.KERNELS_COMPILED


def test_small_problems_stay_interpreted():
    program = transcribe(known.cart_pole(), CollocationOptions(intervals=3))
    assert program.findings == PLAIN
    assert program.seconds["compile"] == 0


def test_without_a_compiler_auto_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(kernels, "WORTH_COMPILING", 0)
    monkeypatch.setenv("LIEOCP_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv("PATH", "")
    found = by_collocation(known.block_move(), CollocationOptions(intervals=3))
    assert found.objective == pytest.approx(12, abs=1e-12)
    assert found.findings[1].kind is Kind.KERNEL_REMARK
    assert "no C compiler" in found.findings[1].data["remark"]
