"""Equations of motion of robots in contact by loops, in the programs of collocation, against the expressions they stand for."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from repository import ROOT

from dynamics import algorithms as alg
from dynamics.constraints import Coupling, FlatContact, PointContact, Rod
from dynamics.forces import Place, Spring
from dynamics.loops import acting, ties
from dynamics.mechanism import Mechanism, Thruster, direct_motors
from dynamics.model.urdf import read_urdf
from ocp.bridge import residual_dynamics_system
from ocp.derivatives import choose
from ocp.methods import make_options, method
from ocp.nlp import SolverOptions, solve_nlp
from ocp.problem import At, Cost, Duration, Guess, Kind, Phase, Problem
from ocp.reductions.algebraic_equations import state_equations

MODEL = read_urdf(ROOT / "problems" / "models" / "quadruped.urdf", root="free_flyer")
JOINTS = [n for n in MODEL.velocity_names if n in MODEL.coordinate_names]
FEET = [body.name for i, body in enumerate(MODEL.bodies) if not any(other.parent == i for other in MODEL.bodies)]
CASES = {
    "three feet": (PointContact("a", FEET[0], friction=0.7), PointContact("b", FEET[1]), FlatContact("c", FEET[2])),
    "a rod, a belt and a foot": (Rod("rod", Place(FEET[0]), Place(FEET[1]), 0.5),
                                 Coupling("belt", ((JOINTS[0], 1.0), (JOINTS[4], -2.0))), PointContact("a", FEET[3])),
    "nothing": ()}


def problem(constraints, forces=(), thrusters=()):
    mechanism = Mechanism(MODEL, direct_motors(MODEL, JOINTS), thrusters, forces, constraints)
    system = residual_dynamics_system(mechanism)
    rng = np.random.default_rng(1)
    q = np.asarray(alg.integrate(MODEL, ca.DM(alg.neutral(MODEL)), ca.DM(0.3 * rng.normal(size=MODEL.nv)))).ravel()
    x, u = np.r_[q, rng.normal(size=MODEL.nv)], rng.normal(size=system.nu)
    guess = Guess(np.array([0.0, 1.0]), np.tile(x, (2, 1)), np.tile(u, (2, 1)))
    symbols = [ca.SX.sym(name, size) for name, size in (("t", 1), ("x", system.nx), ("u", system.nu), ("p", system.np))]
    cost = Cost("effort", At.PATH, ca.Function("effort", symbols, [ca.sumsqr(symbols[2])], list("txup"), ["l"]))
    return state_equations(Problem("p", (Phase("p", system, Duration(0.5, 1.0, 2.0), guess, costs=(cost,)),)))


def functions(given, states, execution, **more):
    """Rows, Jacobian and Hessian at a point by chance."""
    options = make_options("collocation", {"intervals": 2, "scheme": "hermite_simpson", "refine": "none", "states": states,
                                           "derivatives": "analytic", "execution": execution, **more})
    nlp = method("collocation").parts().transcribe(given, options).nlp
    rng = np.random.default_rng(0)
    x, lam = nlp.x0 + 0.1 * rng.normal(size=nlp.n), rng.normal(size=nlp.m)
    return nlp, [np.array(ca.DM(y)) for y in (nlp.g(x), nlp.jac(x)[1], nlp.hess(x, 1.0, lam))]


@pytest.mark.sample(2)
@pytest.mark.parametrize("states", ["coordinates", pytest.param("tangent", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_programs_are_the_same(name, states):
    spring = Spring("band", (Place("world", (0.25, 0.0, 0.8)), Place(FEET[0])), 20.0, 0.5, 0.3)
    given = problem(CASES[name], (spring,) if "rod" in name else ())
    (one, ours), (other, theirs) = (functions(given, states, execution) for execution in ("loops", "generated"))
    assert list(one.constraints) == list(other.constraints)
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-9 * max(1.0, np.abs(y).max()))


def test_a_solver_takes_derivatives_from_the_loops(monkeypatch):
    """Wrong functions of the relations change the matrices."""
    given = problem(CASES["three feet"])
    right = functions(given, "coordinates", "loops")[1]
    true = ties.functions
    monkeypatch.setattr(ties, "functions", lambda *a: ties.Parts(true(*a).values, *([2 * x for x in y] for y in true(*a)[1:])))
    acting._compiled.cache_clear()
    wrong = functions(given, "coordinates", "loops")[1]
    acting._compiled.cache_clear()
    np.testing.assert_array_equal(wrong[0], right[0])
    assert all(np.abs(x - y).max() > 1e-3 for x, y in zip(wrong[1:], right[1:], strict=True))


def test_what_loops_serve():
    system = problem(CASES["three feet"]).phase.system
    assert choose(system, "auto", "auto", exact=True).loops
    assert not choose(system, "auto", "auto").loops  # shooting has no loops for residuals
    pushed = problem(CASES["three feet"], thrusters=(Thruster("jet", MODEL.bodies[0].name, (0, 0, 1)),)).phase.system
    assert not choose(pushed, "auto", "auto", exact=True).loops
    found = choose(pushed, "auto", "loops", exact=True)
    assert not found.loops
    assert Kind.CODE_GENERATED in [finding.kind for finding in found.findings]


def test_the_interior_point_takes_scaled_programs_with_loops():
    """Functions of a scaled program that call loops have no machine code of their own."""
    nlp, _ = functions(problem(CASES["three feet"]), "coordinates", "loops")
    few = SolverOptions(max_iterations=2, solver="interior_point")
    found = [solve_nlp(nlp, replace(few, scaling=scaling)) for scaling in ("none", "jacobian")]
    assert all(np.isfinite(list(one.iterations[-1].values())).all() and len(one.iterations) > 1 for one in found)
