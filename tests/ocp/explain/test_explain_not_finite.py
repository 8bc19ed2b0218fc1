"""Where NaN comes from: the operation in the user's symbols, and the line and column of the file."""

import math
from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from control_problems import block_move, function, problem
from repository import ROOT

from ocp.app.explain.records import locate
from ocp.app.files.load import load_text
from ocp.explain import find_not_finite, infinite_ends, points_of, program_of, trace
from ocp.problem import At, Constraint, Cost
from ocp.transcription.collocation import CollocationOptions

OPTIONS = CollocationOptions(scheme="trapezoid", intervals=10)


def walked(build, x, u=0.0):
    """The walk through an expression of two states and a control."""
    f = function(2, 1, lambda t, s, c, p: build(s[0], s[1], c[0]))
    value = float(f(0.5, x, u, []))
    found = trace(f, [np.array([0.5]), np.array(x), np.array([u]), np.zeros(0)], 0, [("t",), ("a", "b"), ("c",), ()])
    assert (found is None) == math.isfinite(value)
    return found


@pytest.mark.parametrize(("build", "text", "operand", "value"), [
    (lambda a, b, c: 3 * ca.sqrt(a - 0.5) + b, "sqrt(a - 0.5)", "a - 0.5", -0.3),
    (lambda a, b, c: b - ca.log(a - 0.2), "log(a - 0.2)", "a - 0.2", 0.0),
    (lambda a, b, c: b + 1 / (a - 0.2), "1 / (a - 0.2)", "a - 0.2", 0.0),
    (lambda a, b, c: ca.acos(a + 1), "acos(a + 1)", "a + 1", 1.2),
    (lambda a, b, c: (a - 1) ** (b - 0.5), "(a - 1)**(b - 0.5)", "a - 1", -0.8),
    (lambda a, b, c: ca.sin(b / (a * 5 - 1)), "b / (5 * a - 1)", "5 * a - 1", 0.0),
    (lambda a, b, c: ca.tan(1) * ca.exp(1e4 * b), "exp(10000 * b)", "10000 * b", 1e4),
])
def test_the_first_operation_that_leaves_the_numbers(build, text, operand, value):
    expression, operands, result = walked(build, [0.2, 1.0])
    assert expression == text
    assert not math.isfinite(result)
    assert {o.text: pytest.approx(o.value, abs=1e-12) for o in operands}[operand] == value


def test_a_branch_that_is_not_taken_is_not_to_blame():
    safe = lambda a, b, c: ca.if_else(a > 0, 0, ca.log(a - 5))  # noqa: E731
    assert walked(safe, [0.2, 1.0]) is None
    expression, _, _ = walked(lambda a, b, c: safe(a, b, c) + ca.sqrt(b - 2), [0.2, 1.0])
    assert expression == "sqrt(b - 2)"
    expression, _, _ = walked(safe, [-0.2, 1.0])
    assert expression == "log(a - 5)"


def test_texts_mean_what_they_say():
    """Random expressions: the text of the operand, evaluated as Python, gives its value."""
    rng = np.random.default_rng(3)
    scope = {"sqrt": math.sqrt, "sin": math.sin, "cos": math.cos, "exp": math.exp, "abs": abs, "atan": math.atan, "tanh": math.tanh}
    unary = [ca.sin, ca.cos, ca.fabs, ca.atan, ca.tanh, lambda v: -v, lambda v: v**2, lambda v: 2 * v, lambda v: v**3]
    binary = [lambda v, w: v + w, lambda v, w: v - w, lambda v, w: v * w, lambda v, w: v / (w**2 + 1), lambda v, w: v - (w - v)]

    def expression(leaves, depth):
        if depth == 0:
            return leaves[rng.integers(len(leaves))] if rng.random() < 0.8 else ca.SX(float(np.round(rng.uniform(-3, 3), 2)))
        if rng.random() < 0.4:
            return unary[rng.integers(len(unary))](expression(leaves, depth - 1))
        return binary[rng.integers(len(binary))](expression(leaves, depth - 1), expression(leaves, depth - 1))

    checked = 0
    for _ in range(200):
        x = rng.uniform(-2, 2, 2)
        found = walked(lambda a, b, c: ca.sqrt(-1 - expression([a, b, c], 3) ** 2), x, 0.7)
        assert found is not None
        _, operands, _ = found
        if not operands or "..." in operands[0].text:  # a constant, or cut short
            continue
        (operand,) = operands
        value = eval(operand.text, {"__builtins__": {}}, {**scope, "a": x[0], "b": x[1], "c": 0.7})
        assert value == pytest.approx(operand.value, rel=1e-4, abs=1e-6), operand.text  # constants are written with six digits
        checked += 1
    assert checked > 40


def found_in(*costs, constraints=(), rate=None):
    phase = block_move().phase
    system = phase.system if rate is None else replace(phase.system, rate=function(2, 1, rate))
    program = program_of(problem(replace(phase, system=system, costs=tuple(costs), constraints=tuple(constraints))), OPTIONS)
    return find_not_finite(program.problem, points_of(program, program.nlp.x0))


def cost(expression, at=At.PATH, name="bad"):
    return Cost(name, at, function(2, 1, expression))


def test_the_first_place_on_the_trajectory_is_named():
    """x runs from 0 to 1 in ten steps; log(0.55 - x) ends between knots 5 and 6."""
    (origin,) = found_in(cost(lambda t, x, u, p: ca.log(0.55 - x[0])))
    assert (origin.kind, origin.name, origin.location, origin.order) == ("cost", "bad", "knot 6", "value")
    assert origin.t == pytest.approx(0.6)
    assert dict(origin.values)["x"] == pytest.approx(0.6)
    assert origin.sentence == "log(0.55 - x) is not a number where 0.55 - x = -0.05"


def test_rates_and_components_of_constraints_are_named():
    (origin,) = found_in(cost(lambda t, x, u, p: u[0] ** 2), rate=lambda t, x, u, p: ca.vertcat(x[1], u[0] / (x[0] - 1)))
    assert origin.label == "the rate of v"
    assert origin.location == "knot 10"
    pair = function(2, 1, lambda t, x, u, p: ca.vertcat(x[0], ca.acos(x[0] + 1)))
    bad = Constraint("pair", At.FINAL, pair, (0.0, 0.0), (9.0, 9.0))
    (origin,) = found_in(cost(lambda t, x, u, p: u[0] ** 2), constraints=[bad])
    assert (origin.kind, origin.name, origin.component) == ("constraint", "pair", 1)
    assert origin.location == "knot 10"


def test_derivatives_come_after_values():
    first = cost(lambda t, x, u, p: ca.sqrt(x[0]))
    (origin,) = found_in(first)
    assert (origin.order, origin.by, origin.location) == ("first derivative", ("x",), "knot 0")
    assert "sqrt(x)" in origin.expression
    (origin,) = found_in(first, cost(lambda t, x, u, p: ca.log(x[0] - 7), name="worse"))  # a value hides the derivative
    assert origin.name == "worse"
    (origin,) = found_in(cost(lambda t, x, u, p: ca.fabs(x[0]) ** 1.5))
    assert (origin.order, origin.by) == ("second derivative", ("x", "x"))
    assert found_in(cost(lambda t, x, u, p: u[0] ** 2)) == ()


# ---- places in files
FILE = """\
name: Not finite
constants: {a: 0.5}
system:
  states: {x: m, v: m/s}
  controls: {force: N}
  define:
    depth: "x - a"
    root: "2 * sqrt(depth)"
  dynamics: {x: v, v: "force + 0 * x"}
phase:
  duration: 1.5
  start: {x: 0, v: 0}
  final: {x: 1, v: 0}
  costs:
    - {name: effort, running: "force**2"}
    - name: rooted
      running: "3 * root + 0.1 * force**2"
    - {name: safe, running: "if_else(x > -1, x, log(x - 5))"}
  constraints:
    - name: swing
      expression: ["v", "cos(x) * acos(1.2 + x)"]
      upper: 10
    - {name: end, at: final, expression: "log(1 - x)", upper: 3}
solve:
  collocation: {scheme: trapezoid, intervals: 10}
"""


def spots(text, name="file.yaml"):
    loaded = load_text(text, name=name)
    program = program_of(loaded.problem, OPTIONS)
    found = find_not_finite(loaded.problem, points_of(program, program.nlp.x0))
    return {origin.name: (origin, locate(loaded, name, origin)) for origin in found}


def shown(spot):
    return spot.line[spot.begin:spot.end]


def test_lines_and_columns_point_at_the_part_to_blame():
    found = spots(FILE)
    assert set(found) == {"rooted", "swing", "end"}
    spot = found["rooted"][1]  # leads on to the definition
    assert spot.where == "file.yaml:8:16"
    assert (spot.key, shown(spot), spot.values) == ("system.define.root", "sqrt(depth)", (("depth", -0.5),))
    spot = found["swing"][1]
    assert spot.where == "file.yaml:21:35"
    assert (spot.key, shown(spot)) == ("phase.constraints[0].expression[1]", "acos(1.2 + x)")
    assert spot.values == (("1.2 + x", 1.2),)
    spot = found["end"][1]
    assert (spot.where, shown(spot)) == ("file.yaml:23:43", "log(1 - x)")
    assert spot.values == (("1 - x", 0.0),)


def test_a_rate_is_found_on_its_line():
    text = FILE.replace('v: "force + 0 * x"', 'v: "force + sqrt(0.25 - x)"')
    origin, spot = spots(text)["Not finite"]
    assert origin.label == "the rate of v"
    assert spot.where == "file.yaml:9:32"
    assert shown(spot) == "sqrt(0.25 - x)"


def test_a_derivative_is_found_on_its_line():
    gone = ("rooted", "3 * root", "swing", "acos", "upper", "constraints:")
    text = "\n".join(line for line in FILE.splitlines() if not any(word in line for word in gone)) + "\n"
    text = text.replace('"force**2"', '"force**2 + v * sqrt(x)"')
    origin, spot = spots(text)["effort"]
    assert origin.order == "first derivative"
    assert shown(spot) == "sqrt(x)"


def test_several_phases_and_robots_have_places_too():
    robot = """\
name: Robot
system: {robot: models/pendulum.urdf}
phase:
  duration: 1.0
  start: {joints: {hinge: 0.1}, rest: true}
  costs:
    - {name: effort, running: 'tau["hinge"]**2 + log(q["hinge"] - 5)'}
solve:
  collocation: {scheme: trapezoid, intervals: 10}
"""
    folder = ROOT / "problems"
    loaded = load_text(robot, folder, "robot.yaml")
    program = program_of(loaded.problem, OPTIONS)
    (origin,) = find_not_finite(loaded.problem, points_of(program, program.nlp.x0))
    spot = locate(loaded, "robot.yaml", origin)
    assert shown(spot) == 'log(q["hinge"] - 5)'
    assert spot.values == (('q["hinge"] - 5', pytest.approx(-4.9)),)


@pytest.mark.parametrize(("gam", "v", "start", "others", "expected"), [
    ("turn - 9.81*cos(gam)/v", "10", "v: 0, gam: 1.4", "", ["start"]),
    ("turn/v", "10", "v: 0, gam: 1.4", "", []),  # the control may be zero
    ("turn - 9.81*cos(gam)/v", "10", "gam: 1.4, others: free", "", []),  # the motion may begin at another speed
    ("turn - 9.81*cos(gam)/v", "10", "v: 3, gam: 1.4", "", []),
    ("turn - 1/(v - 3)", "10", "v: 2, others: free", "  final: {v: 3}\n", ["end"]),
])
def test_rates_that_no_motion_takes_away_at_an_end(gam, v, start, others, expected):
    text = (f"name: a\nsystem:\n  states: {{v: m/s, gam: rad}}\n  controls: {{turn: rad/s}}\n"
            f"  dynamics: {{v: '{v}', gam: '{gam}'}}\nphase:\n  duration: 1\n"
            f"  start: {{{start}}}\n{others}  costs: [{{name: c, running: turn**2}}]\n")
    found = infinite_ends(load_text(text).problem)
    assert [(o.location, o.component_name) for o in found] == [(place, "gam") for place in expected]
    for origin in found:  # what the formula says at those values
        assert origin.result == math.inf
        assert dict(origin.values)["v"] == {"start": 0.0, "end": 3.0}[origin.location]


def test_functions_that_are_never_inlined_are_left_unexplained():
    x = ca.SX.sym("x", 3)
    kept = ca.Function("kept", [x], [ca.log(x)], {"never_inline": True})
    assert trace(ca.Function("rate", [x], [kept(x)]), [np.array([1.0, 0.0, 2.0])], 1, [["a", "b", "c"]]) is None
