"""Explicit and Lie-group one-step maps: measured order against closed forms, on vector spaces and with a quaternion."""

import casadi as ca
import integrator_systems as systems
import numpy as np
import pytest
from integrator_systems import system

from dynamics import algorithms as alg
from dynamics.kernels import compile_many
from dynamics.model.synthetic import random_tree
from ocp.bridge import robot_system
from ocp.errors import ProblemError
from ocp.integrators import INTEGRATORS, lie_group, project, tableaus
from ocp.integrators.tableaus import Tableau
from ocp.shooting.options import ILQROptions
from ocp.spaces import euclidean

EXPLICIT = [name for name, integrator in INTEGRATORS.items() if not integrator.implicit]
LOOPS = [name for name, integrator in INTEGRATORS.items() if integrator.loops]
SMOOTH = [name for name in EXPLICIT if name != "semi_implicit_euler"]
COUNTS = np.array([32, 64, 128])
#: of implicit methods by their order: steps whose errors stand clear of rounding
STEPS = {1: (32, 64, 128), 2: (32, 64, 128), 3: (16, 32, 64), 4: (32, 64, 128), 5: (16, 32, 64), 6: (8, 16, 32), 8: (3, 6, 12)}


# ---- tableaus ----------------------------------------------------------------------------------------------------
def test_rooted_trees_are_counted_as_in_the_literature():
    assert [len(tableaus.trees(n)) for n in range(1, 8)] == [1, 1, 2, 4, 9, 20, 48]
    # the product of all gammas of order 4 is 4 * 8 * 12 * 24 (Hairer, Norsett, Wanner, Table II.2.1)
    assert sorted(tableaus.density(tree) for tree in tableaus.trees(4)) == [4, 8, 12, 24]


TABLEAUS = {name: i.tableau for name, i in INTEGRATORS.items() if i.tableau}


@pytest.mark.parametrize("name", list(TABLEAUS))
def test_a_tableau_has_its_order_and_no_more(name):
    t = TABLEAUS[name]
    assert INTEGRATORS[name].order == t.order
    with pytest.raises(ValueError, match=rf"order {t.order + 1}, tree"):
        Tableau(t.order + 1, t.a, t.b, t.c)


@pytest.mark.parametrize(("a", "b", "c", "words"), [
    (((0.0,),), (0.9,), (0.0,), "weights sum to 1"),
    (((0.5,),), (1.0,), (0.4,), "rows of a sum to the nodes c"),
    (((0.0, 0.0), (0.5,)), (0.0, 1.0), (0.0, 0.5), "rows of"),
    (((0.0, 0.0), (0.5, 0.0)), (0.0, 1.0), (0.0,), "1 nodes"),
    ((), (), (), "0 weights"),
])
def test_a_wrong_tableau_is_refused(a, b, c, words):
    with pytest.raises(ValueError, match=words):
        Tableau(1, a, b, c)


def test_blocks_separate_what_can_be_solved_stage_by_stage():
    assert tableaus.RK3.blocks() == ((0,), (1,), (2,))
    assert tableaus.TR_BDF2.blocks() == ((0,), (1,), (2,))
    assert tableaus.GAUSS_LEGENDRE_3.blocks() == ((0, 1, 2),)
    lobatto = Tableau(2, ((0.0, 0.0), (1 / 2, 1 / 2)), (1 / 2, 1 / 2), (0.0, 1.0))
    assert lobatto.blocks() == ((0,), (1,))
    assert lobatto.ends_on_stage
    assert not lobatto.explicit
    assert tableaus.RK4.explicit


# ---- order -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", SMOOTH)
def test_order_of_the_state_on_a_time_varying_system(name):
    errors = [systems.scalar_error(name, n) for n in COUNTS]
    assert systems.order(errors, COUNTS) == pytest.approx(INTEGRATORS[name].order, abs=0.12)


@pytest.mark.parametrize("name", SMOOTH)
def test_running_costs_are_integrated_to_the_same_order(name):
    errors = [systems.scalar_error(name, n, cost=True) for n in COUNTS]
    assert systems.order(errors, COUNTS) == pytest.approx(INTEGRATORS[name].order, abs=0.2)


@pytest.mark.parametrize("name", INTEGRATORS)
def test_order_on_a_tumbling_body(name):
    method = INTEGRATORS[name]
    method.check(systems.TOP)
    counts = np.array(STEPS[method.order] if method.implicit else (50, 100, 200))
    errors, lengths = zip(*(systems.top_error(name, n) for n in counts), strict=True)
    assert max(lengths) < 1e-14
    assert systems.order(errors, counts) == pytest.approx(method.order, abs=0.2 if method.implicit else 0.15)


def floating_tree():
    """A branching tree with a floating base and a spherical joint, every other joint driven."""
    model = random_tree(4, np.random.default_rng(12), kinds=("revolute", "spherical", "planar"), root="free_flyer", damping=True)
    names = [b.joint.name for b in model.bodies if b.joint.kind != "free_flyer"]
    return model, robot_system(model, actuated=names[::2])


def tree_start(model, system, seed=4):
    rng = np.random.default_rng(seed)
    return np.r_[alg.random_configuration(model, rng), 0.6 * rng.normal(size=model.nv)], rng.normal(size=system.nu)


def distance(space, a, b):
    return np.linalg.norm(np.asarray(space.minus(ca.DM(a), ca.DM(b))))


@pytest.mark.parametrize("name", ["rk3", "cf4", "rkmk4"])
def test_order_on_a_floating_base_with_limbs(name):
    model, sys = floating_tree()
    x, u = tree_start(model, sys)
    fine, _ = systems.integrate(systems.stepper(sys, "rk4"), x, u, 0.3, 400)
    counts = np.array([8, 16, 32])
    step = systems.stepper(sys, name)
    errors = [distance(sys.space, fine, systems.integrate(step, x, u, 0.3, n)[0]) for n in counts]
    assert systems.order(errors, counts) == pytest.approx(INTEGRATORS[name].order, abs=0.3)


# ---- particular steps --------------------------------------------------------------------------------------------
def test_lie_group_methods_are_classical_on_flat_spaces_and_exact_for_a_steady_turn():
    state = [0.4, -0.8], [0.3]
    classical = systems.stepper(systems.PENDULUM, "rk4")(0.0, *state, 0.1)[0]
    x = systems.top_start()
    x[4:] = 0.0, 0.0, 3.0  # about a principal axis: the body turns with a constant rate
    attitude, velocity = systems.symmetric_top(x[:4], x[4:], 0.5)
    for name in ("cf4", "rkmk4"):
        np.testing.assert_allclose(systems.stepper(systems.PENDULUM, name)(0.0, *state, 0.1)[0], classical, rtol=1e-14)
        turned = systems.stepper(systems.TOP, name)(0.0, x, np.zeros(3), 0.5)[0]
        np.testing.assert_allclose(turned, np.r_[attitude, velocity], atol=1e-14)
    ambient = systems.stepper(systems.TOP, "rk4")(0.0, x, np.zeros(3), 0.5)[0]
    assert np.abs(ambient[:4] - attitude).max() > 1e-5


def test_bracket_of_rigid_motions():
    """[(v, w), (v', w')] = (w x v' - w' x v, w x w') in body axes; velocities and turning joints commute with everything."""
    model = random_tree(2, np.random.default_rng(5), kinds=("revolute",), root="free_flyer")
    space = robot_system(model).space
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(2, space.ndx))
    x = np.r_[alg.random_configuration(model, rng), rng.normal(size=model.nv)]
    found = np.array(lie_group._bracket(space)(x, a, b)).ravel()
    expected = np.r_[np.cross(a[3:6], b[:3]) - np.cross(b[3:6], a[:3]), np.cross(a[3:6], b[3:6]), np.zeros(space.ndx - 6)]
    np.testing.assert_allclose(found, expected, atol=1e-14)


def test_semi_implicit_euler_has_order_one_and_keeps_its_invariant():
    step, counts = systems.stepper(systems.OSCILLATOR, "semi_implicit_euler"), np.array([64, 128, 256])
    # about the equilibrium u/4: q = u/4 + (q0 - u/4) cos 2t
    exact = 0.05 + (1 - 0.05) * np.cos(2 * 1.7)
    errors = [abs(systems.integrate(step, [1.0, 0.0], [0.2], 1.7, n)[0][0] - exact) for n in counts]
    assert systems.order(errors, counts) == pytest.approx(1, abs=0.15)
    # the modified energy v^2 + w^2 q^2 - h w^2 q v of the symplectic Euler oscillator is an exact invariant
    x, h = np.array([1.0, 0.3]), 0.05

    def invariant(s):
        return s[1] ** 2 + 4 * s[0] ** 2 - h * 4 * s[0] * s[1]

    start = invariant(x)
    for k in range(500):
        x, _ = step(k * h, x, [0.0], h)
    assert invariant(x) == pytest.approx(start, rel=1e-12)


def test_semi_implicit_euler_refuses_states_that_are_not_q_v():
    with pytest.raises(ProblemError, match="second-order state"):
        INTEGRATORS["semi_implicit_euler"].check(systems.SCALAR)
    swapped = system(euclidean(("v", "q")), 1, lambda t, x, u: ca.vertcat(u, x[0]), name="swapped")
    with pytest.raises(ProblemError, match=r"'swapped'.*rate of 'v' to be 'q'"):
        INTEGRATORS["semi_implicit_euler"].check(swapped)
    INTEGRATORS["semi_implicit_euler"].check(systems.OSCILLATOR)


# ---- graphs and names --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", EXPLICIT)
def test_scalar_and_matrix_graphs_agree(name):
    sx, mx = (systems.stepper(systems.TOP, name, lambda t, x, u: t * x[5] + u[0], kind) for kind in (ca.SX, ca.MX))
    arguments = 0.2, systems.top_start(), np.array([0.3, -0.2, 0.1]), 0.05
    for one, other in zip(sx(*arguments), mx(*arguments), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-15)


def test_project_scales_quaternions_only():
    x = np.r_[2.0, 0, 0, 0, 5.0, 6.0, 7.0]
    assert np.asarray(project(systems.attitude_space(), ca.DM(x))).ravel() == pytest.approx([1, 0, 0, 0, 5, 6, 7])


def test_unknown_names_are_refused_with_what_is_near():
    with pytest.raises(ProblemError, match="no integrator named 'gauss_legendre'.*did you mean 'gauss_legendre_[1234]'"):
        ILQROptions(integrator="gauss_legendre")


# ---- loops over a robot ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.sample(3)
def test_loops_over_a_robot_take_the_same_step(name):
    """State and tangent derivatives by the slots of the loops against the CasADi step, differentiated by AD."""
    from numba import njit

    from ocp.shooting.robot import mechanics, sensitivities

    @njit
    def last_slot(s):
        return s.mechanics.x[-1], s.X[-1]

    model, sys = floating_tree()
    functions = mechanics.motions(sys, name, full=False)
    kernels = dict(zip(functions, compile_many(list(functions.values()), mode="interpreted"), strict=True))
    record, kept = mechanics.make_mechanics(sys, name, False, kernels, (), np.zeros(1, dtype=np.int64))
    walked = sensitivities.make_sensitivities(record, sys, name, (), np.zeros(1, dtype=np.int64))
    x, u = tree_start(model, sys)
    h = 0.02
    assert sensitivities.walk(walked, 0.0, x, u, h) == 0
    assert kept
    t, xs, us, p = (ca.SX.sym(n, size) for n, size in zip("txup", (1, sys.nx, sys.nu, 0), strict=True))
    after = INTEGRATORS[name].step(sys, t, xs, us, p, h)
    moved = ca.horzcat(ca.jacobian(after, xs) @ sys.space.rate(xs), ca.jacobian(after, us))
    step = ca.Function("step", [xs, us], [after, sys.space.rate_inverse(after) @ moved])
    expected, slope = (np.asarray(out) for out in step(x, u))
    state, found = last_slot(walked)
    np.testing.assert_allclose(state, expected.ravel(), atol=1e-13)
    np.testing.assert_allclose(found[:, :slope.shape[1]], slope, atol=1e-11 * np.abs(slope).max())
    assert np.abs(slope[:, -sys.nu:]).max() > 1e-5


@pytest.mark.parametrize("name", ["cf4", "gauss_legendre_2"])
def test_loops_refuse_what_they_cannot_run(name):
    from ocp.shooting.robot import mechanics

    with pytest.raises(ProblemError, match=f"cannot run the integrator '{name}'; they run euler, semi_implicit_euler"):
        mechanics.tableau(name)
