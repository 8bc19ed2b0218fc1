"""The switch ``derivatives``: every source gives the same problem, reaches every solver, and is really used."""

from dataclasses import replace
from functools import cache

import casadi as ca
import numpy as np
import pytest
from row_trees import tree_of
from shooting_problems import cart_pole

from dynamics import algorithms as alg
from dynamics.derivatives import analytic
from dynamics.loops import batch
from dynamics.mechanism import Thruster
from dynamics.model.urdf import read_urdf
from ocp.app.files.load import load_problem
from ocp.bridge import robot_system
from ocp.derivatives import SOURCES as ALL
from ocp.derivatives import choose, differentiated
from ocp.errors import ProblemError
from ocp.methods import METHODS, solve
from ocp.shooting.options import ILQROptions
from ocp.shooting.stages.horizon import build
from ocp.transcription.blocks import differentiate
from ocp.transcription.collocation import CollocationOptions, transcribe, uniform_meshes
from ocp.transcription.evaluation import point_block
from ocp.transcription.part import located

SOURCES = tuple(s for s in ALL if s != "ad")
FIRST = {"analytic": 1e-11, "complex_step": 1e-12, "fd": 1e-7}
SECOND = {"analytic": 1e-10, "complex_step": 1e-7, "fd": 1e-4}


def floating(seed=0):
    model = tree_of("free_flyer", "revolute", "spherical", "prismatic", "universal", seed=seed, branching=0.5)
    frame = model.frames[-1].name
    return robot_system(model, thrusters=[Thruster("jet", frame, (0.0, 0.6, 0.8), 0.3), Thruster("lift", frame)])


def point(system, seed=0):
    rng, model = np.random.default_rng(seed), system.model
    x = np.r_[alg.random_configuration(model, rng), rng.standard_normal(model.nv)]
    return x, rng.standard_normal(system.nu), rng.standard_normal(2 * model.nv)


def derivatives(system, kind):
    """Jacobian of the rate and Hessian of a combination of its components, in the tangent space."""
    x, z, lam = kind.sym("x", system.nx), kind.sym("z", system.space.ndx + system.nu), kind.sym("lam", system.space.ndx)
    u = kind.sym("u", system.nu)
    rate = system.rate(0, system.space.jet(x, z[:system.space.ndx]), u + z[system.space.ndx:], kind(0, 1))
    H = ca.hessian(ca.dot(lam, rate), z)[0]
    f = ca.Function("d", [z, x, u, lam], [rate, ca.jacobian(rate, z), H])
    return lambda *values: [np.array(y) for y in f(0, *values)]


@pytest.mark.row("002:H18", "002:H21", "002:H23")
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_derivatives_of_the_rate(source):
    system = floating()
    x, u, lam = point(system)
    expected = derivatives(system, ca.SX)(x, u, lam)
    found = derivatives(differentiated(system, source), ca.MX)(x, u, lam)
    for a, b, tolerance in zip(found, expected, (1e-12, FIRST[source], SECOND[source]), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(b).max())


def called(function):
    return sorted(function.instruction_MX(k).which_function().name() for k in range(function.n_instructions())
                  if function.instruction_id(k) == ca.OP_CALL)


@pytest.mark.row("002:H21")
def test_each_analytic_derivative_enters_a_node_once():
    problem = load_problem("problems/acrobot.yaml").problem
    phase = replace(problem.phase, system=differentiated(problem.phase.system, "analytic"))
    problem = replace(problem, phases=(phase,))
    meshes = uniform_meshes(problem, CollocationOptions(intervals=3))
    block, _ = point_block(located(problem, meshes, "coordinates")[0], meshes[0])
    mu = ca.MX.sym("mu", block.size)
    hessian = ca.hessian(ca.dot(mu, block.rows), block.v)[0]
    names = called(ca.Function("h", [block.v, block.data, mu], [hessian]))
    assert [n for n in names if "dynamics" in n] == ["adj1_forward_dynamics", "forward_dynamics", "jac_adj1_forward_dynamics"]
    names = called(ca.Function("j", [block.v, block.data], [block.rows, ca.jacobian(block.rows, block.v)]))
    assert [n for n in names if "dynamics" in n] == ["forward_dynamics", "jac_forward_dynamics"]
    flat = differentiate(block).hessian  # written out: no calls are left for the interpreter, not even those scalar graphs know
    assert flat.is_a("SXFunction")
    assert ca.OP_CALL not in [flat.instruction_id(k) for k in range(flat.n_instructions())]


@pytest.fixture
def poisoned(monkeypatch):
    """Closed forms that are wrong by known factors."""
    first, second = analytic.forward_dynamics_partials, analytic.contracted_forward_dynamics

    def wrong_first(*arguments):
        x = first(*arguments)
        return x._replace(**{name: 3 * getattr(x, name) for name in ("da_dq", "da_dv", "da_dtau")})

    def wrong_second(*arguments):
        x = second(*arguments[:5])
        return type(x)(*x[:3], *(7 * part for part in x[3:]))

    monkeypatch.setattr(analytic, "remembered", lambda words, build: build())  # poison is for nobody's cache
    monkeypatch.setattr(analytic, "forward_dynamics_partials", wrong_first)
    monkeypatch.setattr(analytic, "contracted_forward_dynamics", wrong_second)


def node_derivatives(source):
    problem = load_problem("problems/acrobot.yaml").problem
    nlp = transcribe(problem, CollocationOptions(intervals=3, derivatives=source, kernels="interpreted")).nlp
    x = nlp.x0 + 0.1
    lam = np.random.default_rng(0).standard_normal(len(nlp.g_lower))
    return np.array(nlp.jac(x)[1]), np.array(nlp.hess(x, 1.0, lam))


@pytest.mark.row("002:H21")
def test_poison_reaches_collocation(poisoned):
    (J, H), (J_bad, H_bad) = node_derivatives("ad"), node_derivatives("analytic")
    assert np.abs(J - J_bad).max() > 0.1 * np.abs(J).max()
    assert np.abs(H - H_bad).max() > 0.1 * np.abs(H).max()


def test_without_poison_collocation_has_the_same_derivatives():
    for a, b in zip(node_derivatives("ad"), node_derivatives("analytic"), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10 * np.abs(a).max())


def stage_derivatives(source, hessian):
    problem = load_problem("problems/acrobot.yaml").problem
    stage = build(problem, ILQROptions(integrator="rk4", derivatives=source, hessian=hessian)).kinds[0]
    rng = np.random.default_rng(1)
    x, u, lam = rng.standard_normal(stage.space.nx), rng.standard_normal(stage.nu), rng.standard_normal(stage.after.ndx)
    F = np.array(stage.expand(0.0, x, u, [], 0.05)[1])
    return F if stage.hessian is None else np.array(stage.hessian(0.0, x, u, [], 0.05, lam))


@pytest.mark.row("002:H21")
@pytest.mark.parametrize("hessian", ["gauss_newton", "full"])
def test_poison_reaches_shooting(hessian, request):
    plain = stage_derivatives("ad", hessian)
    np.testing.assert_allclose(stage_derivatives("analytic", hessian), plain, rtol=0, atol=1e-10 * np.abs(plain).max())
    request.getfixturevalue("poisoned")
    assert np.abs(stage_derivatives("analytic", hessian) - plain).max() > 0.01 * np.abs(plain).max()


def nlp_derivatives(problem, **options):
    """f, g, gradient, Jacobian and Lagrangian Hessian of the transcription at a point off the manifold; and its notes."""
    made = transcribe(problem, CollocationOptions(intervals=3, kernels="interpreted", **options))
    nlp, rng = made.nlp, np.random.default_rng(2)
    x = nlp.x0 + 0.1 * rng.standard_normal(nlp.n)
    lam = rng.standard_normal(nlp.m)
    values = [*nlp.grad(x), *nlp.jac(x), nlp.hess(x, 0.7, lam)]
    return [np.array(v) for v in values], made


def free_duration(problem):
    phase = problem.phase
    return replace(problem, phases=(replace(phase, duration=replace(phase.duration, lower=0.3, upper=2.0, guess=0.8)),))


@pytest.mark.row("002:H26")
@pytest.mark.parametrize("change", [lambda p: p, free_duration])
@pytest.mark.parametrize("name", ["acrobot", "quadruped_righting", "hexacopter_arm"])
@pytest.mark.sample(2)
def test_loops_give_the_same_program(name, change):
    problem = change(load_problem(f"problems/{name}.yaml").problem)
    # off the unit sphere closed forms are those of q -> f(q / |q|), plain differentiation is that of f
    road = {"derivatives": "ad"} if name == "acrobot" else {"derivatives": "analytic", "execution": "generated"}
    expected, plain = nlp_derivatives(problem, **road)
    found, looped = nlp_derivatives(problem, derivatives="analytic", execution="loops")
    assert "loops" in [one.data.get("execution") for one in looped.findings]
    assert "loops" not in [one.data.get("execution") for one in plain.findings]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10 * max(1.0, np.abs(b).max()))
    x = plain.nlp.x0
    t = plain.invert(x).t
    np.testing.assert_allclose(looped.invert(x).state(t[:-1] + 0.01), plain.invert(x).state(t[:-1] + 0.01), atol=1e-10)


@pytest.mark.row("002:H26")
@pytest.mark.parametrize(("function", "place", "which"), [
    ("forward_dynamics_derivatives", -1, 3), ("forward_contracted_second_order", -1, 4)])
def test_poison_reaches_the_loops_of_collocation(function, place, which, monkeypatch):
    problem = load_problem("problems/acrobot.yaml").problem
    right, _ = nlp_derivatives(problem, derivatives="analytic", execution="loops")
    original = getattr(batch, function)

    def wrong(*arguments):
        original(*arguments)
        out = arguments[place]
        out = out if isinstance(out, np.ndarray) else out.second
        out[:] *= 3

    monkeypatch.setattr(batch, function, wrong)
    bad, _ = nlp_derivatives(problem, derivatives="analytic", execution="loops")
    for k in range(5):
        assert (np.abs(bad[k] - right[k]).max() > 0.1) == (k == which)


def test_source_and_execution_are_chosen_by_size_and_can_be_forced():
    small, large, rotors = (load_problem(f"problems/{n}.yaml").problem.phase.system
                            for n in ("acrobot", "quadruped_righting", "quadrotor"))
    wanted = [("auto", "auto"), ("analytic", "auto"), ("analytic", "loops"), ("analytic", "generated"), ("ad", "auto"),
              ("fd", "auto")]
    chosen = {"small": [choose(small, *w)[:2] for w in wanted], "large": [choose(large, *w)[:2] for w in wanted],
              "rotors": [choose(rotors, *w)[:2] for w in wanted[:3]]}
    assert chosen["small"] == [("ad", False), ("analytic", False), ("analytic", True), ("analytic", False), ("ad", False),
                               ("fd", False)]
    assert chosen["large"] == [("analytic", True), ("analytic", True), ("analytic", True), ("analytic", False), ("ad", False),
                               ("fd", False)]
    assert chosen["rotors"] == [("ad", False), ("analytic", False), ("analytic", True)]
    assert choose(large, "auto", "auto")[2][0].data["degrees_of_freedom"] == 18
    for system, source, execution, message in (
            (large, "ad", "loops", "closed-form derivatives only"),
            (cart_pole().phase.system, "analytic", "loops", "not the forward dynamics of a robot"),
            (large, "analytic", "loop", "did you mean 'loops'"), (large, "analytical", "loops", "did you mean 'analytic'")):
        with pytest.raises(ProblemError, match=message):
            choose(system, source, execution)


@cache
def pendulum_by(method, **more):
    return solve(load_problem("problems/pendulum_swingup.yaml").problem, method, {"kernels": "interpreted", **more})


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("method", "intervals"), [("collocation", 20), ("ilqr", 40)])
@pytest.mark.sample(2)
def test_every_solver_finds_the_same_solution_by_every_source(method, intervals, source):
    reference, found = pendulum_by(method, intervals=intervals), pendulum_by(method, intervals=intervals, derivatives=source)
    assert found.status == reference.status
    assert found.objective == pytest.approx(reference.objective, rel=1e-9)
    assert found.options["derivatives"] == source


def test_the_file_names_the_source_for_every_method():
    loaded = load_problem("problems/acrobot.yaml", {"solve.derivatives": "analytic"})
    assert all(loaded.options_for(name)["derivatives"] == "analytic" for name in METHODS)
    loaded = load_problem("problems/acrobot.yaml", {"solve.derivatives": "analytic", "solve.ilqr.derivatives": "fd"})
    assert [loaded.options_for(name)["derivatives"] for name in ("collocation", "ilqr")] == ["analytic", "fd"]


def test_what_has_no_closed_form_is_refused_by_name():
    with pytest.raises(ProblemError, match="dynamics of a robot only.*'ad'"):
        solve(cart_pole(), "ilqr", {"derivatives": "analytic"})
    with pytest.raises(ProblemError, match="analytical.*did you mean 'analytic'"):
        differentiated(cart_pole().phase.system, "analytical")
    with pytest.raises(ProblemError, match="already come from 'fd'"):
        differentiated(differentiated(cart_pole().phase.system, "fd"), "analytic")


def test_an_ordinary_system_may_have_numerical_derivatives():
    expected, *found = (solve(cart_pole(), "ilqr", {"derivatives": source, "kernels": "interpreted", "intervals": 50}).objective
                        for source in ("auto", "complex_step", "fd"))
    assert found == pytest.approx([expected] * 2, rel=1e-9)


def test_a_shipped_robot_with_rotors():
    system = robot_system(read_urdf("problems/models/quadrotor.urdf", root="free_flyer"), actuated=[],
                          thrusters=[Thruster("t", "body", moment_ratio=0.02)])
    x, u, lam = point(system, 3)
    for a, b in zip(derivatives(differentiated(system, "analytic"), ca.MX)(x, u, lam), derivatives(system, ca.SX)(x, u, lam),
                    strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11 * max(1.0, np.abs(b).max()))
