"""Runge-Kutta steps by the chain rule against the steps differentiated as a whole, and expansions in one pass over the knots."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from engine_paths import on_path
from rich_horizon import RICH
from shooting_problems import cart_pole, coupled, quadrotor

from dynamics.model.synthetic import random_tree
from ocp.bridge import inverse_dynamics_system, robot_system
from ocp.integrators import INTEGRATORS
from ocp.shooting.engine import knots
from ocp.shooting.engine.expansion import differentiate_range, expand, finish, hessian_range
from ocp.shooting.ilqr import ILQROptions
from ocp.shooting.stages import explicit, expressions, horizon
from ocp.shooting.stages.horizon import build

EXPLICIT = [name for name, scheme in INTEGRATORS.items() if scheme.tableau and scheme.tableau.explicit and not scheme.single]


def tree(seed, *kinds, root=None):
    return random_tree(2, np.random.default_rng(seed), kinds=kinds, root=root, branching=1.0, damping=True)


def pair(base, **options):
    """The first step of a problem as it is written, and by differentiation of the whole step."""
    given = ILQROptions(intervals=5, hessian="full", kernels="interpreted", **options)
    written = build(base, given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(horizon, "single_graph", lambda stretch, options, loops: None)
        plain = build(base, given)
    return written.kinds[written.which[1]], plain.kinds[plain.which[1]]


ROBOTS = {
    "arm": lambda: coupled(robot_system(tree(1, "revolute", "prismatic"))),
    "body": quadrotor,
    "ball": lambda: coupled(inverse_dynamics_system(tree(2, "spherical", "revolute"))),
    "planar": lambda: coupled(inverse_dynamics_system(tree(3, "revolute", root="planar"))),
}


def point(stage, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=stage.space.nx)
    for i in stage.space.quaternions:
        x[i:i + 4] /= np.linalg.norm(x[i:i + 4])
    return x, rng.normal(size=stage.nu), rng.normal(size=stage.after.ndx)


def cases():
    """Robots, integrators and quadratures in all pairs; the other combinations of three are slow."""
    given = (ROBOTS, EXPLICIT, ("integrator", "rectangle"))
    for (i, name), (j, integrator), (k, quadrature) in itertools.product(*map(enumerate, given)):
        yield pytest.param(name, integrator, quadrature, marks=[pytest.mark.slow] * ((i + j + k) % 2))


@pytest.mark.parametrize(("name", "integrator", "quadrature"), list(cases()))
@pytest.mark.sample(4)
def test_every_function_is_that_of_the_step_differentiated_as_a_whole(name, integrator, quadrature, monkeypatch):
    monkeypatch.setattr(expressions, "INLINE_LIMIT", 2000)
    written, plain = pair(ROBOTS[name](), integrator=integrator, cost_quadrature=quadrature)
    assert written.whole is not None
    assert plain.whole is None
    x, u, costate = point(written, 3)
    given = (0.3, x, u, [], 0.15)
    for label, more in (("step", ()), ("expand", ()), ("first_order", ()), ("hessian", (costate,))):
        for a, b in zip(getattr(written, label).call([*given, *more]), getattr(plain, label).call([*given, *more]), strict=True):
            a, b = np.array(a), np.array(b)
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-11 * max(1.0, np.abs(b).max(initial=0.0)), err_msg=label)
            assert not b.size or np.abs(b).max() > 1e-3


def test_it_is_short(monkeypatch):
    monkeypatch.setattr(expressions, "INLINE_LIMIT", 2000)
    written, plain = pair(ROBOTS["arm"](), integrator="rk4")
    assert written.expand.n_instructions() < 0.8 * plain.expand.n_instructions()
    assert written.whole.n_instructions() < 0.5 * (plain.hessian.n_instructions() + plain.first_order.n_instructions())


@pytest.mark.parametrize("wrong", ["A", "B", "projection"])
def test_a_wrong_link_is_noticed(wrong, monkeypatch):
    """Poison: the derivative of one node is off by a thousandth."""
    base = quadrotor()
    nx = base.phase.system.nx

    def spoilt(X_y, derivatives):
        def links(lam):
            J, bend = derivatives(lam)
            if (J.shape == (nx, nx)) == (wrong == "projection") and J.shape[0] >= nx and J.shape[1] >= nx:
                begin, end = {"A": (0, nx), "B": (nx, None), "projection": (0, nx)}[wrong]
                J[:nx, begin:end] *= 1.001
            return J, bend

        return right(X_y, links)

    right = explicit.Node
    monkeypatch.setattr(explicit, "Node", spoilt)
    written, plain = pair(base, integrator="rk4")
    x, u, costate = point(written, 3)
    off = [np.abs(np.array(a) - np.array(b)).max() / np.abs(np.array(b)).max() for a, b in (
        (written.first_order(0.3, x, u, [], 0.15)[0], plain.first_order(0.3, x, u, [], 0.15)[0]),
        (written.hessian(0.3, x, u, [], 0.15, costate), plain.hessian(0.3, x, u, [], 0.15, costate)))]
    assert max(off) > 1e-6


# ---- everything in one pass from the end to the start -----------------------------------------------------------------------
def model_of(store):
    """All that an expansion writes, without padding."""
    n, m, found = store.model.n, store.model.m, [store.conset.c.copy(), store.state.copy()]
    for k in range(len(n)):
        size, model, policy = n[k] + m[k], store.model, store.policy
        found += [model.g[k, :size].copy(), np.tril(model.H[k, :size, :size]), policy.costate[k, :n[k]].copy()]
        if k + 1 < len(n):
            found += [model.F[k, :n[k + 1], :size].copy(), policy.gradient[k, :m[k]].copy()]
    return found


@pytest.mark.parametrize("how", ["one graph", "calls", "phases", pytest.param("loops", marks=pytest.mark.slow)])
def test_one_pass_gives_the_bits_of_two(how, monkeypatch):
    """Threads share the work of the two passes, so their numbers are those of one thread."""
    base, options = cart_pole(u_guess=[[3.0], [-4.0]]), ILQROptions(intervals=6, hessian="full")
    if how == "calls":
        monkeypatch.setattr(expressions, "INLINE_LIMIT", 0)
        options = replace(options, kernels="interpreted")
    elif how == "phases":  # curved spaces, free times, cones, passages
        base = RICH
    elif how == "loops":
        base = coupled(robot_system(tree(4, "revolute", "spherical", root="free_flyer")))
        options = replace(options, derivatives="analytic", execution="loops")
    program, store = on_path(base, options)
    kinds = program.horizon.kinds
    assert any(stage.whole for stage in kinds) == (how in ("one graph", "phases"))
    one, engine, stages = model_of(store), store, len(program.horizon.which)
    for array in (store.model.g, store.model.F, store.model.H, store.policy.costate, store.policy.gradient):
        array[:] = 7.0
    failed, violation = differentiate_range(engine, 0, stages)
    assert failed == -1
    assert finish(engine, violation)
    assert hessian_range(engine, 0, stages) == -1
    for a, b in zip(one, model_of(store), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_is_not_finite_is_found_from_the_start():
    """A cost without derivative at two knots: the earlier one is named, by its gradient, although the pass comes from the end."""
    base = cart_pole(u_guess=[[1.0], [1.0]])
    program, store = on_path(base, ILQROptions(intervals=6, hessian="full"))
    store.path.x[[2, 4], 1] = np.nan
    store.model.H[:] = 7.0
    assert expand(store) == 0
    assert not store.model.H.any()
    assert np.isnan(store.model.F[2]).any()
    assert np.isfinite(store.model.F[1]).all()


def test_slots_of_the_bank_have_the_names_of_records():
    from ocp.shooting.engine import records

    assert len(records._SLOT) == knots.SLOTS
    for name, slot in records._SLOT.items():
        assert getattr(knots, name.upper()) == slot
