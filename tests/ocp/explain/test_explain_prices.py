"""Shadow prices: closed forms, and differences of costs of neighbouring problems that are solved again."""

from dataclasses import replace

import numpy as np
import pytest
from control_problems import bang_bang, block_move, cart_pole, function, problem

from ocp.explain import prices, program_of, relax
from ocp.nlp import IpoptOptions, solve_nlp
from ocp.problem import INF, At, Constraint, Sense, Status
from ocp.transcription.collocation import CollocationOptions


def solved(given, **options):
    program = program_of(given, CollocationOptions(**options))
    found = solve_nlp(program.nlp, IpoptOptions())
    assert found.status is Status.CONVERGED
    return program, found, {(p.group, p.side): p for p in prices(program, found.x, found.lam_g)}


def test_prices_of_the_block_move_are_those_of_its_closed_form():
    """x: 0 -> d, v: w0 -> w in T with the effort 12 d^2 / T^3 - 12 d (w + w0) / T^2 + ...: derivatives at d = T = 1, w = w0 = 0."""
    program, _, found = solved(block_move(), intervals=20)
    expected = {"final x": 24, "start x": -24, "final v": -12, "start v": -12, "duration": -36}
    assert {name for name, _ in found} == set(expected)
    for name, price in expected.items():
        assert found[name, "value"].price == pytest.approx(price, rel=1e-6)
    assert found["final x", "value"].bound == 1.0
    assert found["final x", "value"].first == pytest.approx(1.0)
    assert found["duration", "value"].unit == "s"


def test_prices_of_the_bang_bang_move():
    """T = sqrt(2 d (1/a + 1/b)) for the pushes a and b: dT/dd = 1, dT/da = -1/2 and, as the lower bound is -b, +1/2."""
    _, _, found = solved(bang_bang(), scheme="trapezoid", intervals=101)
    assert found["final x", "value"].price == pytest.approx(1.0, rel=1e-3)
    assert found["bound of u", "upper"].price == pytest.approx(-0.5, rel=1e-3)
    assert found["bound of u", "lower"].price == pytest.approx(0.5, rel=1e-3)
    upper = found["bound of u", "upper"]
    assert upper.bound == 1.0
    assert upper.first == pytest.approx(0.0, abs=1e-9)
    assert upper.last == pytest.approx(1.0, abs=0.05)
    assert ("duration", "upper") not in found  # far from its bounds


def again(program, start, key, step):
    """The least cost with one side moved outwards by ``step``."""
    group, side = key
    moves = {(group, "upper"): step, (group, "lower"): -step} if side == "value" else {key: step if side == "upper" else -step}
    found = solve_nlp(replace(relax(program.nlp, program.groups, moves), x0=start), IpoptOptions(tolerance=1e-10))
    assert found.status is Status.CONVERGED
    return found.f


def limited_cart_pole():
    """The swing-up with a force, a place, a speed and a sum of both that all press."""
    phase = cart_pole().phase
    speed = Constraint("speed", At.PATH, function(4, 1, lambda t, x, u, p: x[3]), (-INF,), (7.0,))
    both = Constraint("meeting", At.FINAL, function(4, 1, lambda t, x, u, p: x[0] + x[2] ** 2), (0.8,), (0.8,), Sense.EQUAL)
    return problem(replace(phase, u_lower=(-13.0,), u_upper=(13.0,), x_lower=(-9.0, -INF, -INF, -INF),
                           x_upper=(0.7, INF, INF, INF), constraints=(speed, both),
                           final=replace(phase.final, fixed=(False, True, False, True))))


def test_prices_are_derivatives_of_the_least_cost():
    program, base, found = solved(limited_cart_pole(), intervals=30)
    wanted = {("speed", "upper"), ("meeting", "value"), ("final pole", "value"), ("start cart", "value"), ("start pole", "value"),
              ("final pole_rate", "value"), ("duration", "value"), ("bound of cart", "upper"), ("bound of force", "lower")}
    assert wanted <= set(found)
    for key in sorted(wanted):
        step = 1e-4 * program.group(key[0]).scale
        numeric = (again(program, base.x, key, step) - again(program, base.x, key, -step)) / (2 * step)
        assert found[key].price == pytest.approx(numeric, rel=2e-3, abs=1e-4), key


def test_signs_say_what_room_saves():
    _, _, found = solved(limited_cart_pole(), intervals=30)
    for (_, side), price in found.items():
        if side == "upper":
            assert price.price < 0  # a higher upper bound cannot cost more
        if side == "lower":
            assert price.price > 0
        assert price.relief == abs(price.price)
    assert not any(kind.startswith("bound") and side == "value" for kind, side in found)  # the value at an end takes the force
    effects = [price.effect for price in found.values()]
    assert effects == sorted(effects, reverse=True)


def test_what_does_not_press_has_no_price():
    idle = Constraint("idle", At.PATH, function(2, 1, lambda t, x, u, p: x[0]), (-5.0,), (5.0,))
    given = problem(replace(block_move().phase, constraints=(idle,), u_lower=(-50.0,), u_upper=(50.0,)))
    _, _, found = solved(given, intervals=20)
    assert {name for name, _ in found} == {"final x", "start x", "final v", "start v", "duration"}


def test_a_bound_of_a_state_is_priced_where_it_presses():
    """Bryson and Denham: x <= 1/9 between two throws; the cost 4 / (9 l) has the derivative -4 / (9 l^2) = -36."""
    phase = block_move().phase
    effort = replace(phase.costs[0], function=function(2, 1, lambda t, x, u, p: u[0] ** 2 / 2))
    throw = problem(replace(phase, start=replace(phase.start, value=(0.0, 1.0)), final=replace(phase.final, value=(0.0, -1.0)),
                            x_upper=(1 / 9, INF), costs=(effort,)))
    _, base, found = solved(throw, intervals=60)
    assert base.f == pytest.approx(4.0, rel=1e-3)
    price = found["bound of x", "upper"]
    assert price.price == pytest.approx(-36, rel=1e-2)
    assert 0.3 < price.first < price.last < 0.7
    assert np.isclose(price.bound, 1 / 9)
