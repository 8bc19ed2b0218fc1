"""Closed-form derivatives in the direct methods: efforts where accelerations are controls, and the chain rule around every call."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from row_trees import coupled, tree_of
from shooting_problems import function

import dynamics
from dynamics import algorithms as alg
from dynamics.constraints import Coupling
from dynamics.derivatives import analytic, unit_configuration
from dynamics.mechanism import Mechanism, Thruster, direct_motors
from dynamics.model.synthetic import branched_tree, random_tree, serial_chain
from ocp.app.files.load import load_problem
from ocp.bridge import effort_constraints, inverse_dynamics_system, residual_dynamics_system, robot_system
from ocp.derivatives import choose, differentiated_phase
from ocp.errors import ProblemError
from ocp.methods import method, solve
from ocp.problem import At, Constraint, Cost, Duration, Guess, Kind, Phase, Problem
from ocp.transcription import blocks, calls, collocation, multiple_shooting
from ocp.transcription.evaluation import point_block
from ocp.transcription.part import located

TREES = {
    "mixed": lambda: random_tree(4, np.random.default_rng(1), kinds=("revolute", "prismatic", "universal"), damping=True),
    "branching": lambda: branched_tree(5, 2),
    "coupled": coupled,
    "curved": lambda: random_tree(2, np.random.default_rng(3), kinds=("spherical",), root="planar", damping=True),
    "floating": lambda: tree_of("free_flyer", "revolute", "spherical", "prismatic", seed=2, branching=0.5),
}
JET = (Thruster("jet", "tip", (0.0, 0.6, 0.8), 0.3), Thruster("lift", "tip"))


def effort(model, x, u, unit=False):
    q = x[:model.nq]
    return alg.inverse_dynamics(model, unit_configuration(model, q)[0] if unit else q, x[model.nq:], u[:model.nv])


def motion(model, system, seed):
    """A guess along which every state lies on the manifold."""
    rng = np.random.default_rng(seed)
    s = np.linspace(0.0, 1.0, 9)
    x = np.array([np.r_[alg.random_configuration(model, rng), rng.normal(size=model.nv)] for _ in s])
    return Guess(s, x, rng.normal(size=(len(s), system.nu)))


def inverse_problem(model, unit=False, seed=5):
    """Efforts as residuals, in a scalar cost, in limits, in odd company, in an integral and in a soft constraint. unit: they are
    those of q / |q|, which nothing can find: the whole graph is then differentiated."""
    system = inverse_dynamics_system(model)
    nx, nu, nv = system.nx, system.nu, model.nv

    def of(build):
        return function(nx, nu, lambda t, x, u: build(t, x, u, effort(model, x, u, unit)))

    costs = (Cost("effort", At.PATH, of(lambda t, x, u, tau: tau), weights=(0.3,) * nv),
             Cost("odd", At.PATH, of(lambda t, x, u, tau: ca.vertcat(tau[0], tau[1] * x[0] + u[0])), weights=(0.5, 1.0)),
             Cost("scalar", At.PATH, of(lambda t, x, u, tau: ca.sin(tau[1] + x[0]) + t * u[0])))
    constraints = (
        Constraint("limits", At.PATH, of(lambda t, x, u, tau: tau), (-2.0,) * nv, (3.0,) * nv),
        Constraint("odd", At.PATH, of(lambda t, x, u, tau: ca.vertcat(tau[0] ** 2 * ca.cos(tau[1]), x[1] - t)), (-1, -1), (1, 1)),
        Constraint("work", At.INTEGRAL, of(lambda t, x, u, tau: ca.dot(tau, x[model.nq:])), (-9.0,), (9.0,)),
        Constraint("wish", At.PATH, of(lambda t, x, u, tau: tau[0] - t), (-0.1,), (0.1,), soft=4.0))
    phase = Phase("move", system, Duration(0.3, 0.9, 0.5), motion(model, system, seed), costs=costs, constraints=constraints)
    return Problem("robot", (phase,))


def forward_problem(model, unit=False, seed=5):
    thrusters = [replace(jet, frame=model.frames[-1].name) for jet in JET if model.frames]
    system = robot_system(model, thrusters=thrusters)
    if unit:
        symbols = [ca.SX.sym(n, k) for n, k in zip("txup", (1, system.nx, system.nu, 0), strict=True)]
        t, x, u, p = symbols
        on = ca.vertcat(unit_configuration(model, x[:model.nq])[0], x[model.nq:])
        rate = ca.vertcat(x[model.nq:], system.rate(t, on, u, p)[model.nv:])
        system = replace(system, rate=ca.Function("rate", symbols, [rate], list("txup"), ["xi"]))
    costs = (Cost("effort", At.PATH, function(system.nx, system.nu, lambda t, x, u: u * x[0]), weights=(0.3,) * system.nu),)
    phase = Phase("move", system, Duration(0.3, 0.9, 0.5), motion(model, system, seed), costs=costs)
    return Problem("robot", (phase,))


def collocated(problem, source, **more):
    options = collocation.CollocationOptions(intervals=2, derivatives=source, execution="generated", kernels="interpreted", **more)
    return collocation.transcribe(method("collocation").reduce(problem, options), options)


def shot(problem, source, **more):
    options = multiple_shooting.MultipleShootingOptions(intervals=2, derivatives=source, kernels="interpreted",
                                                        **{"integrator": "midpoint", **more})
    return multiple_shooting.transcribe(method("multiple_shooting").reduce(problem, options), options)


HOW = {"collocation": collocated, "shooting": shot}


def values(made, seed=2):
    """f, gradient, g, J, Lagrangian Hessian at a point beside the guess, off the manifold where coordinates allow it."""
    nlp, rng = made.nlp, np.random.default_rng(seed)
    x, lam = nlp.x0 + 0.05 * rng.standard_normal(nlp.n), rng.standard_normal(nlp.m)
    found = [*nlp.grad(x), *nlp.jac(x), nlp.hess(x, 0.7, lam)]
    return [np.array(y) for y in (found if nlp.gauss_newton is None else [*found, nlp.gauss_newton(x, 0.7)])]


def same(found, expected, tolerance=1e-10):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.abs(b).max()))
        assert np.abs(b).max() > 1e-3


def sources(found):
    """Where derivatives come from, of efforts or of all."""
    data = [one.data for one in found.findings if one.kind is Kind.DERIVATIVES_CHOSEN]
    return [own.get("efforts", own["source"]) for own in data]


# ---- the same derivatives as by differentiation of the whole graph --------------------------------------------------------
@pytest.mark.parametrize(("name", "method", "hessian"), [
    *(pytest.param(name, method, "exact", marks=[pytest.mark.slow] * (name in ("branching", "coupled") and method == "shooting"))
      for name in TREES for method in HOW), ("mixed", "collocation", "gauss_newton"), ("curved", "shooting", "gauss_newton"),
    pytest.param("floating", "collocation", "gauss_newton", marks=pytest.mark.slow)])
@pytest.mark.sample(3)
def test_efforts_have_the_derivatives_of_the_whole_graph(name, method, hessian):
    model = TREES[name]()
    found = HOW[method](inverse_problem(model), "analytic", hessian=hessian)
    assert "analytic" in sources(found)
    same(values(found), values(HOW[method](inverse_problem(model, unit=True), "ad", hessian=hessian)))


@pytest.mark.parametrize("method", HOW)
@pytest.mark.parametrize("build", [inverse_problem, forward_problem])
@pytest.mark.sample(2)
def test_tangent_unknowns_of_a_floating_base(build, method):
    problem = build(TREES["floating"]())
    same(values(HOW[method](problem, "analytic", states="tangent")), values(HOW[method](problem, "ad", states="tangent")), 1e-9)


@pytest.mark.parametrize("method", HOW)
@pytest.mark.parametrize("name", TREES)
@pytest.mark.sample(3)
def test_forward_dynamics_with_thrusters_in_the_same_way(name, method):
    model = TREES[name]()
    found, expected = HOW[method](forward_problem(model), "analytic"), HOW[method](forward_problem(model, unit=True), "ad")
    same(values(found), values(expected), 1e-9)


def test_steps_of_several_calls_agree_with_the_matrix_graph(monkeypatch):
    """Two steps of four stages are eight calls, one inside the other; the other road leaves them to CasADi."""
    problem = forward_problem(serial_chain(2))
    ours = values(HOW["shooting"](problem, "analytic", integrator="rk4", steps=2))
    monkeypatch.setattr(blocks, "written", lambda *arguments: None)
    same(ours, values(HOW["shooting"](problem, "analytic", integrator="rk4", steps=2)))


def test_a_call_without_derivatives_of_its_own_is_written_out_as_well():
    """A user's matrix graph may call the plain function of the same name."""
    model = serial_chain(3)
    v, s, mu = ca.MX.sym("v", 9), ca.MX.sym("s"), ca.MX.sym("mu", 2)
    tau = dynamics.make(model, "inverse_dynamics")(v[:3] * v[3:6], v[3:6], ca.sin(v[6:]))
    cost, rows = ca.sumsqr(tau), ca.vertcat(tau[0] * v[1], tau[2] ** 2)
    found = calls.written(v, ca.MX.sym("d", 0), cost, rows)
    assert found is not None
    hessian = ca.triu(ca.hessian(s * cost + ca.dot(mu, rows), v)[0])
    theirs = ca.Function("theirs", [v, s, mu], [cost, rows, ca.gradient(cost, v), ca.jacobian(rows, v), hessian])
    ours = ca.Function("ours", list(found[:4]), list(found[4:]))
    x, weights = np.random.default_rng(0).normal(size=9), np.array([0.3, -1.2])
    same([np.array(y) for y in ours(x, [], 0.7, weights)], [np.array(y) for y in theirs(x, 0.7, weights)], 1e-12)


# ---- they are really used -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("what", "changed"), [("first", (3, 4)), ("second", (4,)), ("none", ())])
@pytest.mark.parametrize("method", HOW)
@pytest.mark.sample(2)
def test_poison_reaches_what_it_should(method, what, changed, monkeypatch):
    """Closed forms that are wrong by a factor: first derivatives change Jacobian and Hessian, second ones the Hessian alone."""
    model = TREES["mixed"]()
    system = inverse_dynamics_system(model)
    limits = effort_constraints(model, limits=dict.fromkeys(model.velocity_names, (-2.0, 3.0)))
    problem = Problem("robot", (Phase("move", system, Duration(0.5, 0.5, 0.5), motion(model, system, 1), constraints=limits),))
    right = values(HOW[method](problem, "analytic"))[2:]
    first, second = analytic.inverse_dynamics_partials, analytic.contracted_inverse_dynamics
    monkeypatch.setattr(analytic, "remembered", lambda words, build: build())  # poison is for nobody's cache
    if what == "first":
        monkeypatch.setattr(analytic, "inverse_dynamics_partials", lambda *a: first(*a)._replace(M=3 * first(*a).M))
    elif what == "second":
        monkeypatch.setattr(analytic, "contracted_inverse_dynamics", lambda *a: type(second(*a))(
            *second(*a)[:3], *(1.001 * part for part in second(*a)[3:])))
    bad = values(HOW[method](problem, "analytic"))[2:]
    wrong = [k + 2 for k in range(3) if np.abs(bad[k] - right[k]).max() > 1e-5 * np.abs(right[k]).max()]
    assert wrong == [k for k in changed if k != 4 or what == "second"]


def test_a_wrong_jacobian_bends_the_hessian_of_squares(monkeypatch):
    problem = inverse_problem(TREES["mixed"]())
    right = values(HOW["collocation"](problem, "analytic"))
    first = analytic.inverse_dynamics_partials
    monkeypatch.setattr(analytic, "remembered", lambda words, build: build())
    monkeypatch.setattr(analytic, "inverse_dynamics_partials", lambda *a: first(*a)._replace(M=1.01 * first(*a).M))
    bad = values(HOW["collocation"](problem, "analytic"))
    assert [k for k in range(5) if np.abs(bad[k] - right[k]).max() > 1e-4 * np.abs(right[k]).max()] == [1, 3, 4]


def test_a_place_evaluates_its_efforts_once():
    model = TREES["mixed"]()
    problem = inverse_problem(model)
    problem = replace(problem, phases=(differentiated_phase(problem.phase, "analytic"),))
    meshes = collocation.uniform_meshes(problem, collocation.CollocationOptions(intervals=2))
    block, _ = point_block(located(problem, meshes, "coordinates")[0], meshes[0])
    made, left = calls.separated(block.v, block.data, [block.cost, block.rows])
    assert [call.function.name() for call in made] == ["inverse_dynamics"]
    assert all(ca.depends_on(part, made[0].s) for part in left)
    plain = point_block(located(inverse_problem(model), meshes, "coordinates")[0], meshes[0])[0]
    ours, theirs = blocks.differentiate(block), blocks.differentiate(plain)
    assert ours.hessian.n_instructions() < 0.3 * theirs.hessian.n_instructions()
    kept = [ours.hessian.instruction_id(k) for k in range(ours.hessian.n_instructions())]
    assert ca.OP_CALL not in kept  # nothing is left that would be computed apart


# ---- who may ask for them -------------------------------------------------------------------------------------------------
def test_the_choice_for_accelerations_as_controls():
    floating = TREES["floating"]()
    small, large = inverse_dynamics_system(serial_chain(2)), inverse_dynamics_system(serial_chain(6))
    pushed = inverse_dynamics_system(floating, thrusters=[replace(JET[0], frame=floating.frames[-1].name)])
    assert [choose(s, "auto", "auto", exact=True)[:2] for s in (small, large, pushed)] == [
        ("ad", False), ("analytic", False), ("ad", False)]
    assert choose(large, "auto", "auto", exact=True)[2][0].data["function"] == "inverse dynamics"
    # exact Hessians pay earlier than the expansions of shooting
    biped = load_problem("problems/biped_walking.yaml").problem.phase.system
    assert [choose(biped, "auto", "auto", exact=exact)[:2] for exact in (True, False)] == [("analytic", False), ("ad", False)]
    # shooting finds efforts by itself, whatever the source
    assert choose(large, "auto", "auto")[0] == "ad"
    assert choose(large, "analytic", "auto")[:2] == ("ad", False)
    with pytest.raises(ProblemError, match="know no thrusters; this system has 'ad'"):
        choose(pushed, "analytic", "auto", exact=True)
    source, by_loops, told = choose(large, "analytic", "loops", exact=True)
    assert (source, by_loops) == ("analytic", False)
    assert told[-1].data["obstacle"] is Kind.NOT_FORWARD_DYNAMICS
    phase = inverse_problem(serial_chain(3)).phase
    assert differentiated_phase(phase, "ad") is phase


@pytest.mark.parametrize("method", ["collocation", pytest.param("ilqr", marks=pytest.mark.slow)])
def test_a_file_solved_either_way(method):
    more = {"intervals": 15}
    loaded = load_problem("problems/arm_inverse_dynamics.yaml")
    ad, closed = (solve(loaded.problem, method, {**more, "derivatives": source, "kernels": "interpreted"})
                  for source in ("ad", "analytic"))
    assert ad.status == closed.status
    assert closed.objective == pytest.approx(ad.objective, rel=1e-7)
    assert "analytic" in sources(closed)


# ---- equations of motion as rows ------------------------------------------------------------------------------------------
def residual_problem(model, held=()):
    system = residual_dynamics_system(Mechanism(model, direct_motors(model), constraints=held))
    cost = Cost("effort", At.PATH, function(system.nx, system.nu, lambda t, x, u: ca.sumsqr(u) + ca.sin(x[0]) * u[1]))
    guess = motion(model, system, 3)
    return Problem("robot", (Phase("move", system, Duration(0.3, 0.9, 0.5), guess, costs=(cost,)),))


def held_by(model):
    joints = [n for n in model.velocity_names if n in model.coordinate_names]
    return (Coupling("belt", ((joints[0], 1.0), (joints[-1], -2.0))),)


@pytest.mark.parametrize("method", HOW)
@pytest.mark.parametrize(("name", "states"), [("mixed", "coordinates"), ("branching", "coordinates"), ("floating", "tangent")])
@pytest.mark.sample(2)
def test_residuals_of_mechanisms_have_the_derivatives_of_the_whole_graph(name, states, method):
    model = TREES[name]()
    problem = residual_problem(model, held_by(model))
    found = HOW[method](problem, "analytic", states=states)
    assert "analytic" in sources(found)
    same(values(found), values(HOW[method](problem, "ad", states=states)), 1e-9)


@pytest.mark.parametrize("method", HOW)
def test_poison_reaches_residuals(method, monkeypatch):
    problem = residual_problem(TREES["mixed"]())
    right = values(HOW[method](problem, "analytic"))
    first, second = analytic.inverse_dynamics_partials, analytic.contracted_inverse_dynamics
    monkeypatch.setattr(analytic, "remembered", lambda words, build: build())
    monkeypatch.setattr(analytic, "inverse_dynamics_partials", lambda *a: first(*a)._replace(M=3 * first(*a).M))
    bad = values(HOW[method](problem, "analytic"))
    assert np.abs(bad[3] - right[3]).max() > 1e-2 * np.abs(right[3]).max()  # the Jacobian
    monkeypatch.setattr(analytic, "inverse_dynamics_partials", first)
    monkeypatch.setattr(analytic, "contracted_inverse_dynamics", lambda *a: type(second(*a))(
        *second(*a)[:3], *(1.01 * part for part in second(*a)[3:])))
    bad = values(HOW[method](problem, "analytic"))
    assert np.abs(bad[3] - right[3]).max() <= 1e-12 * np.abs(right[3]).max()
    assert np.abs(bad[4] - right[4]).max() > 1e-5 * np.abs(right[4]).max()  # the Hessian alone


def test_closed_forms_of_residuals_are_chosen_by_the_size_of_the_recursion():
    small, large = (residual_dynamics_system(serial_chain(count)) for count in (2, 6))
    assert [choose(system, "auto", "auto", exact=True)[:2] for system in (small, large)] == [("ad", False), ("analytic", False)]
    tree = TREES["floating"]()
    pushed = residual_dynamics_system(tree, thrusters=[replace(JET[0], frame=tree.frames[-1].name)])
    assert choose(pushed, "auto", "auto", exact=True)[0] == "ad"
    with pytest.raises(ProblemError, match="know no thrusters"):
        choose(pushed, "analytic", "auto", exact=True)
