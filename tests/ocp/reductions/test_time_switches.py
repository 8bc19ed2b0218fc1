"""Jumps in explicit time that an unknown moves, against closed forms: the minimum over the unknown of what the rest costs."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, minimize

from ocp.app.files.load import load_text
from ocp.methods import make_options, method, solve, uncertified
from ocp.problem import Kind
from ocp.reductions import Redundant, origins, pieces
from ocp.reductions.instants import Finder, free_parameters, opened
from ocp.reductions.time_switches import TimeSwitches, neighbours


def text(rate, phase, parameters="", states="{x: m}", start="{x: 0}"):
    return (f"name: steps\n{parameters}\nsystem: {{states: {states}, controls: {{u: m/s}}, dynamics: {rate}}}\n"
            f"phase:\n  start: {start}\n  {phase}\n")


def parameter(name, low, high, guess):
    return f"{name}: {{value: {guess}, optimise: [{low}, {high}]}}"


def costs(running="u**2", final=None):
    at_end = f"{{name: end, final: \"{final}\"}}, " if final else ""
    return f"costs: [{at_end}{{name: effort, running: \"{running}\"}}]"


def least(J, *boxes):
    """The global minimum of a function over a box, from a grid."""
    grids = np.meshgrid(*(np.linspace(a, b, 4001 if len(boxes) == 1 else 161) for a, b in boxes), indexing="ij")
    values = np.vectorize(J)(*grids)
    k = np.unravel_index(np.argmin(values), values.shape)
    low, high = np.array(boxes).T
    found = minimize(lambda z: J(*np.clip(z, low, high)), [g[k] for g in grids], method="Nelder-Mead",
                     options={"xatol": 1e-12, "fatol": 1e-14, "maxiter": 4000})
    return min(found.fun, values[k])


def steered(a, b, T, c, r, w, low, high, guess, when="t < q", place=lambda q: q):
    """x' = a until the place, b behind it, + u: with the end d off its aim, (d + u T)^2 + r u^2 T is least at u = -d / (T + r)."""
    def J(q):
        s = min(max(place(q), 0.0), T)
        d = a * s + b * (T - s) - c
        return r * d * d / (T + r) + w * q

    return (text(f'{{x: "if_else({when}, {a}, {b}) + u"}}', f"duration: {T}\n  {costs(f'{r}*u**2', f'(x - {c})**2 + {w}*q')}",
                 f"parameters: {{{parameter('q', low, high, guess)}}}"), least(J, (low, high)))


def carried(a, c, X, rho, low, high):
    """x' = a until c, 0 behind it, + u, free duration T: u = (X - a min(c, T)) / T."""
    phase = f"duration: {{lower: {low}, upper: {high}}}\n  final: {{x: {X}}}\n  {costs(f'u**2 + {rho}')}"
    return (text(f'{{x: "if_else(t < {c}, {a}, 0) + u"}}', phase),
            least(lambda T: (X - a * min(c, T)) ** 2 / T + rho * T, (low, high)))


def priced(behind, before, c, low, high):
    """x' = u over a distance of 1, a second costs ``before`` until c and ``behind`` from then on."""
    running = f"u**2 + if_else(t > {c}, {behind}, {before})"
    return (text("{x: u}", f"duration: {{lower: {low}, upper: {high}}}\n  final: {{x: 1}}\n  {costs(running)}"),
            least(lambda T: 1 / T + before * min(c, T) + behind * max(0, T - c), (low, high)))


def window(a, T, c, w, one, two):
    """A rate a between two instants, that costs 0.3 t a second there; x' = ... + u (1 + t)."""
    inside = "t > q1 and t < q2"
    gain = ((1 + T) ** 3 - 1) / 3

    def J(q1, q2):
        d = c - a * max(0.0, q2 - q1)
        return (q1 - w) ** 2 + d * d / gain + (0.15 * (q2**2 - q1**2) if q2 > q1 else 0.0)

    phase = (f"duration: {T}\n  final: {{x: {c}}}\n  costs: [{{name: when, final: (q1 - {w})**2}}, "
             f"{{name: effort, running: u**2}}, {{name: use, running: \"if_else({inside}, 0.3*t, 0)\"}}]")
    return (text(f'{{x: "if_else({inside}, {a}, 0) + u*(1 + t)"}}', phase,
                 f"parameters: {{{parameter('q1', 0, T, one)}, {parameter('q2', 0, T, two)}}}"), least(J, (0, T), (0, T)))


def two_phases(a, c, weight=1.0, low=0.1, high=4.0, rho=0.7):
    """To x = 1 and on to x = 3 in free durations; x' = a until the time c, whichever phase that is in."""
    def J(one, two):
        first, second = a * min(c, one), a * min(max(c - one, 0), two)
        return (1 - first) ** 2 / one + weight * (2 - second) ** 2 / two + rho * (one + two)

    span = f"duration: {{lower: {low}, upper: {high}}}"
    return f"""
name: phases
system: {{states: {{x: m}}, controls: {{u: m/s}}, dynamics: {{x: "if_else(t < {c}, {a}, 0) + u"}}}}
phases:
  - {{name: one, {span}, start: {{x: 0}}, final: {{x: 1}}, costs: [{{name: e, running: u**2 + {rho}}}]}}
  - {{name: two, {span}, final: {{x: 3}}, costs: [{{name: e, running: {weight}*u**2 + {rho}}}]}}
""", least(J, (low, high), (low, high))


def gated(T, low, high, w, before, behind, X):
    """x' = u no faster than a gate that changes at q: as even as it lets."""
    def J(q):
        slow, fast = min(before, behind), max(before, behind)
        held = min(max(q, 0), T) if before < behind else T - min(max(q, 0), T)
        if slow >= X / T:
            return w * q + X * X / T
        rest = (X - slow * held) / (T - held) if held < T else np.inf
        return w * q + slow**2 * held + rest**2 * (T - held) if rest <= fast else 1e9

    gate = f"if_else(t < q, {before}, {behind})"
    phase = (f"duration: {T}\n  final: {{x: {X}}}\n  "
             f"constraints: [{{name: gate, at: path, expression: \"u - {gate}\", upper: 0}}]\n  {costs('u**2', f'{w}*q')}")
    return text("{x: u}", phase, f"parameters: {{{parameter('q', low, high, (low + high) / 2)}}}"), least(J, (low, high))


def burn(a, T, H, w, low, high, guess):
    """Height H under gravity: of all u that add D to it, int u^2 is least at 3 D^2 / T^3."""
    def J(q):
        s = min(q, T)
        D = H - (a * (s * T - s * s / 2) - 9.81 * T * T / 2)
        return w * q + 3 * D * D / T**3

    return (text(f'{{h: v, v: "if_else(t < q, {a}, 0) - 9.81 + u"}}',
                 f"duration: {T}\n  final: {{h: {H}}}\n  {costs('u**2', f'{w}*q')}",
                 f"parameters: {{{parameter('q', low, high, guess)}}}", "{h: m, v: m/s}", "{h: 0, v: 0}"), least(J, (low, high)))


def square_wave(w, k, low, high, X, rho, valley):
    """x' = u + k sign(sin w t): the minimum next to the start, for there are several."""
    period = 2 * np.pi / w

    def J(T):
        rest = T % period
        drift = min(rest, period / 2) - max(rest - period / 2, 0)
        return (X - k * drift) ** 2 / T + rho * T

    phase = f"duration: {{lower: {low}, upper: {high}}}\n  final: {{x: {X}}}\n  {costs(f'u**2 + {rho}')}"
    return text(f'{{x: "u + {k}*sign(sin({w}*t))"}}', phase), least(J, valley)


def blown(levels, ends, low, high, valley):
    """x'' = u + a wind that is constant from table entry to table entry: to x = 1 at rest. int u and int (T - t) u are given, so
    that the least int u^2 is their quadratic form with the inverse of their Gram matrix."""
    starts, wind = np.array([0.0, *ends]), "0"
    for level, end in list(zip(levels, ends, strict=True))[::-1]:
        wind = f"if_else(t < {end}, {level}, {wind})"

    def J(T):
        a, b = np.minimum(starts[:-1], T), np.minimum(starts[1:], T)
        wanted = np.array([-np.dot(levels, b - a), 1 - np.dot(levels, (T - a) ** 2 - (T - b) ** 2) / 2])
        return wanted @ np.linalg.solve([[T, T**2 / 2], [T**2 / 2, T**3 / 3]], wanted) + T

    phase = f"duration: {{lower: {low}, upper: {high}}}\n  final: {{x: 1, v: 0}}\n  {costs('u**2 + 1')}"
    return text(f'{{x: v, v: "u + {wind}"}}', phase, states="{x: m, v: m/s}", start="{x: 0, v: 0}"), least(J, valley)


def seeded(k):
    rng = np.random.default_rng([k, 7])
    a, b, T, c, r, w = np.round([*rng.uniform(-2, 2, 2), rng.uniform(1, 4), rng.uniform(-2, 3), rng.uniform(0.2, 3),
                                 rng.uniform(0.0, 0.4)], 3).tolist()
    low, high = np.round([rng.uniform(-0.3, 0.2) * T, rng.uniform(0.8, 1.4) * T], 3).tolist()
    return steered(a, b, T, c, r, w, low, high, round(T / 2, 3))


QUICK = {
    "burn time": lambda: burn(30, 2.5, 20, 1, 0.1, 3, 0.5),
    "free duration": lambda: carried(2, 0.8, 3, 0.5, 1, 4),
    "later phase": lambda: two_phases(-0.5, 1.0),
}
SLOW = {
    **{f"seed {k}": lambda k=k: seeded(k) for k in range(6)},
    "duration at the instant": lambda: carried(2, 0.8, 3, 8, 0.1, 4),
    "drift against the way": lambda: carried(-1, 1.5, 2, 0.3, 0.5, 9),
    "duration before the instant": lambda: carried(1, 2.0, 2.5, 3.0, 0.2, 5),
    "costs rise": lambda: priced(1.0, 0.1, 0.6, 0.2, 5), "costs fall": lambda: priced(0.2, 1.2, 0.5, 0.2, 5),
    "just before costs rise": lambda: priced(3.0, 0.2, 1.5, 0.2, 5),
    "window": lambda: window(3, 2, 2, 0.4, 0.5, 1.5), "window that closes": lambda: window(2, 1.5, 0.1, 0.9, 0.3, 1.2),
    "phases, first": lambda: two_phases(1.0, 0.3, 2.0),
    "square": lambda: steered(1, -1, 3, 1, 1.0, 0.05, 0.1, 8, 2, "t**2 < q", np.sqrt),
    "exponential": lambda: steered(2, 0, 2, 1.5, 1.0, 0.1, 0.1, 4, 1, "exp(t) < 1 + 2*q", lambda q: np.log(1 + 2 * q)),
    "quotient": lambda: steered(1, -1, 3, 1, 1.0, 0.05, 0.2, 3, 0.8, "q*t < 1", lambda q: 1 / q),
    "wave in time": lambda: steered(1, -1, 3, 1, 1.0, 0.05, 0.1, 2.8, 1.0, "t + 0.3*sin(2*t) < q",
                                    lambda q: brentq(lambda t: t + 0.3 * np.sin(2 * t) - q, -9, 9)),
    "gate opens": lambda: gated(2, 0.2, 1.8, -1.5, 0.3, 3, 1.5), "gate closes": lambda: gated(2, 0.2, 1.8, 1.0, 2.0, 0.4, 1.6),
    "square wave": lambda: square_wave(4, 1.0, 0.5, 3, 2.0, 1.2, (2.0, 3.0)),
    "wind by a table": lambda: blown([1, -1, 0.5], [0.5, 1.3, 2.0], 0.5, 5, (2.0, 3.0)),
    "high burn": lambda: burn(20, 3, 60, 2, 0.1, 4, 1.0), "burn from behind the end": lambda: burn(40, 1.5, 5, 1.0, 0.1, 2, 1.9),
}


def check(case):
    given, optimum = case()
    problem = load_text(given).problem
    found = solve(problem)
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(optimum, rel=1e-6, abs=1e-7 + 2 * found.certificate.error_bound)
    assert len(found.problem.phases) == len(problem.phases)
    assert found.problem.linkages == problem.linkages


@pytest.mark.parametrize("name", QUICK)
def test_an_instant_that_moves_is_where_it_costs_least(name):
    check(QUICK[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_instants_of_every_kind_are_where_they_cost_least(name):
    check(SLOW[name])


@pytest.mark.slow
def test_multiple_shooting_has_the_same_pieces():
    given, optimum = burn(30, 2.5, 20, 1, 0.1, 3, 0.5)
    found = solve(load_text(given).problem, "multiple_shooting", {"intervals": 40})
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(optimum, abs=2 * found.certificate.error_bound)


def test_what_comes_back_is_one_motion_of_the_problem_as_stated():
    """Integrated by SciPy with the rate as the file writes it, from the start; costates stand at the times of the controls."""
    found = solve(load_text(burn(30, 2.5, 20, 1, 0.1, 3, 0.5)[0]).problem)
    path, (q,) = found.trajectory, found.problem.phase.system.parameter_values
    assert np.all(np.diff(path.t) > 0)
    assert len(found.extra["costate"]) == len(path.t_u)
    ran = [solve_ivp(lambda t, x: [x[1], (30 if t < q else 0) - 9.81 + path.control(t)[0]], span, x, rtol=1e-9, atol=1e-9).y[:, -1]
           for span, x in (((0, q), path.x[0]), ((q + 1e-12, 2.5), path.state(q)))]
    assert ran[0] == pytest.approx(path.state(q), abs=1e-6)
    assert ran[1] == pytest.approx(path.x[-1], abs=1e-6)
    assert [one.value for one in found.findings if one.kind is Kind.PIECES_AT_JUMPS] == [2]
    assert {"instant 0 of phase"} <= {one.name for one in found.certificate.violations}


def test_a_tie_that_is_broken_is_named(monkeypatch):
    """An end of a piece that is no longer where the rate steps fails by its name, and by the motion as stated."""
    whole = TimeSwitches.apply

    def late(self, problem):
        reduced, data = whole(self, problem)
        if reduced is problem:
            return reduced, data
        ties = [replace(tie, lower=(0.1,), upper=(0.1,)) if "instant" in tie.name else tie for tie in reduced.linkages]
        return replace(reduced, linkages=tuple(ties)), data

    monkeypatch.setattr(TimeSwitches, "apply", late)
    options = {"scheme": "gauss", "intervals": 10, "refine": "none"}
    found = solve(load_text(burn(30, 2.5, 20, 1, 0.1, 3, 0.5)[0]).problem, "collocation", options)
    assert not found.ok
    assert not found.certificate.gap_segment.holds


# ---- the reduction by itself --------------------------------------------------------------------------------------------
def reduced(given):
    problem = load_text(given).problem
    return problem, method("collocation").reduce(problem, make_options("collocation", {}))


@pytest.mark.parametrize("phase", ["duration: 2", "duration: {lower: 1, upper: 3}"])
def test_where_nothing_moves_nothing_changes(phase):
    """Kinks do not count as jumps, nor do jumps of the state; fixed times of fixed phases stay as they are."""
    rate = "if_else(t < 0.8, 1, 0) + u" if phase == "duration: 2" else "u + abs(t - 0.8) + if_else(x > 1, 1, 0)"
    problem, same = reduced(text(f'{{x: "{rate}"}}', f"{phase}\n  {costs()}"))
    assert same is problem


def test_pieces_hold_their_branch_at_any_time():
    problem, pieces = reduced(text('{x: "if_else(t < 0.8, 2*t, -x) + if_else(t < q, u, 0)"}', f"duration: 3\n  {costs()}",
                                   f"parameters: {{{parameter('q', 1, 2.5, 1.5)}}}"))
    rates = [phase.system.rate for phase in pieces.phases]
    assert [float(rate(9.0, 3.0, 5.0, 1.5)) for rate in rates] == [23.0, 2.0, -3.0]
    assert float(problem.phase.system.rate(9.0, 3.0, 5.0, 1.5)) == -3.0
    assert origins(pieces) == (0, 0, 0)
    assert not pieces.phases[0].duration.free
    assert [linkage.name for linkage in pieces.linkages] == ["instant 1 of phase", "length of phase"]


@pytest.mark.parametrize(("when", "place"), [("t < q", lambda q: q), ("exp(t) < q", np.log), ("q*t < 3 - t", lambda q: 3 / (q + 1)),
                                             ("t**3 + t < q", lambda q: brentq(lambda t: t**3 + t - q, 0, 9))])
def test_positions_and_their_gradients_by_parameters(when, place):
    problem = load_text(steered(1, 0, 3, 1, 1.0, 0.0, 1.2, 4.0, 2.0, when, place)[0]).problem
    free = free_parameters(problem)
    function = opened(problem.phase.system.rate)
    (step,) = function.steps
    (one,) = Finder(problem.phase, free, (0.0, 3.0)).instants(function, step)
    of = ca.Function("place", [free.symbols], [one.expression, ca.jacobian(one.expression, free.symbols)])
    for q in (1.3, 2.1, 3.7):
        value, slope = map(float, of(q))
        assert value == pytest.approx(place(q), abs=1e-12)
        assert slope == pytest.approx((place(q + 1e-6) - place(q - 1e-6)) / 2e-6, rel=1e-6)


@pytest.mark.slow
def test_the_other_order_is_the_same_problem_from_the_other_side():
    """A duration that is best where the instant is: the neighbour has no piece behind it, and costs less by what its
    least length costs."""
    problem = load_text(carried(2, 0.8, 3, 8, 0.1, 4)[0]).problem
    above = solve(problem, without=["order_of_instants"])
    below = solve(problem)
    assert above.trajectory.t[-1] > 0.8
    assert below.trajectory.t[-1] == pytest.approx(0.8, abs=1e-8)
    assert below.objective == pytest.approx((3 - 1.6) ** 2 / 0.8 + 8 * 0.8, abs=1e-7)
    assert 0 < above.objective - below.objective < 1e-3
    assert "order_of_instants" in [one.rule for one in below.strategy]


def test_crossing_orders_are_listed_in_every_permutation():
    """Both instants and the ends of the phase stand in the order of the guess."""
    for one, two in itertools.permutations([0.5, 1.5]):
        _, pieces = reduced(window(3, 2, 2, 0.4, one, two)[0])
        assert [float(phase.duration.guess) for phase in pieces.phases] == pytest.approx([0.5, 1.0, 0.5], abs=1e-3)


@pytest.mark.parametrize(("c", "ties"), [
    (0.3, {"instant 0 before of two"}),  # the piece before it has a given length
    (3.0, {"instant 0 behind of one", "instant 0 of two", "length of two"})])
def test_ties_hold_at_the_guess_and_keep_instants_on_their_side(c, ties):
    """Steps at c in the first of two phases of 0.1 to 4 s each, or the second: inequalities for the other one."""
    _, pieces = reduced(two_phases(2, c)[0])
    assert {tie.name for tie in pieces.linkages if "instant" in tie.name or "length" in tie.name} == ties
    lengths = np.array([phase.duration.guess for phase in pieces.phases])
    for tie in pieces.linkages:
        if "instant" not in tie.name:
            continue

        def at(times, tie=tie):
            return float(tie.function(*[[0.0]] * len(tie.ends), times * lengths, [])[0])

        if "before" in tie.name or "behind" in tie.name:
            assert (tie.lower, tie.upper) == ((0.0,), (np.inf,))
            assert at(1.0) > 0
            assert at(0.01 if "before" in tie.name else 100.0) < 0
        else:
            assert at(1.0) == pytest.approx(0.0, abs=1e-9)


def test_the_last_piece_takes_what_a_given_instant_leaves_of_a_free_duration():
    _, pieces = reduced(text('{x: "if_else(t < 0.8, 1, 0) + u"}', f"duration: {{lower: 1.1, upper: 3}}\n  {costs()}"))
    assert [(phase.duration.lower, phase.duration.upper) for phase in pieces.phases] == [(0.8, 0.8), (pytest.approx(0.3), 2.2)]


def test_what_is_redundant_at_an_end_is_that_of_the_first_and_of_the_last_piece():
    data = SimpleNamespace(numbers=((0, 1), (2,)), before=SimpleNamespace(linkages=("one",)))
    found = TimeSwitches().redundant_before(Redundant(((True,), (False,), ()), ((), (True,), (False,)), ((True,), (False,))), data)
    assert found == Redundant(((True,), ()), ((True,), (False,)), ((True,),))


def test_arrays_of_segments_come_back_without_the_instants_between_pieces():
    names = ("p.0", "p.1", "q")
    problem = SimpleNamespace(phases=[SimpleNamespace(name=name) for name in names])
    parts = [SimpleNamespace(t=np.zeros(count)) for count in (3, 4, 2)]
    gaps = np.array([1.0, 2.0, np.nan, 3.0, 4.0, 5.0, 9.0, 6.0])
    extra = {"certificate_segment_gap": gaps, "p.0.costate": np.ones((3, 1)), "p.1.costate": 2 * np.ones((4, 1)),
             "q.costate": 3 * np.ones((2, 1))}
    before = SimpleNamespace(phases=[SimpleNamespace(name=name) for name in "pq"])
    found = pieces._extra(SimpleNamespace(extra=extra, problem=problem, parts=parts),
                           SimpleNamespace(before=before, numbers=((0, 1), (2,))))
    assert found["certificate_segment_gap"].tolist() == [1, 2, 3, 4, 5, 9, 6]
    assert found["p.costate"].ravel().tolist() == [1] * 3 + [2] * 4
    assert found["q.costate"].ravel().tolist() == [3] * 2


def test_neighbours_have_the_two_that_meet_in_the_other_order():
    problem = load_text(carried(2, 0.8, 3, 8, 0.1, 4)[0]).problem
    found = uncertified(problem, "collocation", make_options("collocation", {"refine": "none", "intervals": 8}))
    order = found.problem.steps[0].data.order
    (other, when), = neighbours(found)
    swapped = [i for i, (a, b) in enumerate(zip(order, other.steps[0].data.order, strict=True)) if a != b]
    assert when == pytest.approx(0.8, abs=1e-3)
    assert len(swapped) == 2
    assert [other.steps[0].data.order[i] for i in swapped] == [order[i] for i in reversed(swapped)]
