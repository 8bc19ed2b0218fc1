"""Expressions of problem files: the same values as Python's own arithmetic, and nothing but arithmetic."""

from __future__ import annotations

import math
import random

import casadi as ca
import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from ocp.app.files.syntax.expressions import MAX_CHARACTERS, parse, parse_vector
from ocp.app.files.syntax.scope import BUILTINS, FUNCTION_NAMES, Scope, Table, VectorFunction
from ocp.errors import ProblemError

X, Y, OMEGA = ca.SX.sym("x"), ca.SX.sym("y"), ca.SX.sym("omega")
STATES = ca.vertcat(X, Y, OMEGA)


def _position(frame: str) -> ca.SX:
    if frame != "tool":
        raise ValueError(f"no frame named {frame!r}; did you mean 'tool'?")
    return ca.vertcat(X, 2 * Y, 3 * OMEGA)


SCOPE = Scope(
    names={"x": X, "y": Y, "omega": OMEGA, "zero": ca.SX(0), "m": ca.SX(2.5)},
    tables={"q": Table(STATES, {"knee": X, "hip": Y, "base.px": OMEGA, "base.py": X})},
    functions={"position": VectorFunction(_position),
               "com": VectorFunction(lambda: ca.vertcat(Y, Y, X), takes_name=False)},
    unavailable={"late": "it is defined later"},
)


def where(offset: int) -> str:
    return f"f:1:{offset + 1}"


def evaluate(text: str, x: float = 0.3, y: float = -0.7, omega: float = 1.9) -> np.ndarray:
    value = parse_vector(text, SCOPE, where)
    return np.asarray(ca.Function("f", [STATES], [value])([x, y, omega])).ravel()


def refusal(text: str) -> tuple[str, str]:
    with pytest.raises(ProblemError) as caught:
        parse(text, SCOPE, where)
    assert caught.value.where is not None
    return caught.value.where, caught.value.message


# ---- values -------------------------------------------------------------------------------------------------------------
# Python evaluates the same text with its own math module; ca and the whitelist play no part in that
PYTHON = {name: getattr(math, name) for name in FUNCTION_NAMES if hasattr(math, name)} | {
    "abs": abs, "min": min, "max": max, "sign": lambda a: math.copysign(1.0, a) if a else 0.0,
    "interpolate": lambda x, places, values: float(np.interp(x, places, values)),
    "spline": lambda x, places, values: float(CubicSpline(places, values, bc_type="natural")(x)), "sum": sum,
    "if_else": lambda c, a, b: a if c else b, "norm": lambda v: math.hypot(*v),
    "dot": lambda a, b: sum(i * j for i, j in zip(a, b, strict=True)),
    "pi": math.pi, "m": 2.5, "zero": 0.0,
}


@pytest.mark.parametrize("text", [
    "2 + 3*4 - 5/8", "-x**2", "2**-1", "2**3**2", "-(x + y)*omega", "+x - -y", "x/y/omega", "x - y - omega", "1e-3*x",
    "0x10 + 1_000",
    "sin(x) + cos(y)*tan(omega)", "asin(x) + acos(y) + atan(omega)", "atan2(y, x)",
    "sinh(x)*cosh(y) - tanh(omega)",
    "exp(x) + log(omega) + sqrt(omega)", "abs(y) + sign(y) + sign(x)", "min(x, y, omega, 3) * max(x, y)",
    "if_else(x < y, 1, 2)", "interpolate(x, [-1, 0, 0.25, 2], [y, 1, omega, -3])", "interpolate(x + 9, [0, 1], [1, y])",
    "if_else(x < y or omega > 1, 1, 2) + if_else(x > y and not omega > 1, 10, 20) + if_else(0 < x < 0.5, 100, 200)",
    "spline(x, [-1, 0, 0.25, 2], [y, 1, omega, -3])", "spline(y, [-1, 0], [1, 3])", "sum([x, y, omega]) + log10(omega)",
    "if_else(x >= y, x**2, y**3)", "if_else(x > 0.3, 1, 2) + if_else(x <= 0.3, 10, 20)", "norm([x, y, omega])",
    "dot([x, y], [omega, 2])", "omega**x", "omega**2.5", "2*pi*m", "  x\n + y ", "(((x)))", "zero*x",
])
def test_values_agree_with_python(text: str) -> None:
    point = {"x": 0.3, "y": -0.7, "omega": 1.9}
    expected = eval(text.replace("\n", " ").strip(), {"__builtins__": {}}, PYTHON | point)
    assert evaluate(text, **point)[0] == pytest.approx(expected, rel=1e-14, abs=1e-15)


def _random_text(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(["x", "y", "omega", "m", "pi", "2", "0.5", "1e-2", "3"])

    def inner() -> str:
        return _random_text(rng, depth - 1)

    match rng.randrange(8):
        case 0 | 1:
            return f"{inner()} {rng.choice('+-*')} {inner()}"
        case 2:
            return f"({inner()}) / (2 + ({inner()})**2)"
        case 3:
            return f"-{rng.choice(['sin', 'cos', 'atan', 'tanh'])}({inner()})"
        case 4:
            return f"({inner()})**{rng.choice(['2', '3'])}"
        case 5:
            return f"if_else({inner()} {rng.choice(['<', '<=', '>', '>='])} {inner()}, {inner()}, {inner()})"
        case 6:
            return f"{rng.choice(['min', 'max'])}({inner()}, {inner()}, {inner()})"
    return f"norm([{inner()}, {inner()}])"


def test_random_expressions_agree_with_python() -> None:
    rng = random.Random(3)
    for _ in range(150):
        text = _random_text(rng, 4)
        point = {name: rng.uniform(-2, 2) for name in ("x", "y", "omega")}
        expected = eval(text, {"__builtins__": {}}, PYTHON | point)
        assert evaluate(text, **point)[0] == pytest.approx(expected, rel=1e-9, abs=1e-9), text


def test_every_function_is_covered_by_pythons_table() -> None:
    plain = set(FUNCTION_NAMES) - {"der"}  # a derivative is no function of numbers
    assert plain <= set(PYTHON)
    assert set(BUILTINS) | {"if_else", "interpolate", "spline"} == plain


def test_vectors_tables_and_system_functions() -> None:
    assert evaluate("q['knee'] + 10*q[\"base.px\"]", 1, 2, 3).tolist() == [31]
    assert evaluate("position('tool')[0] + position('tool')[y] + position('tool')[2]", 1, 2, 3).tolist() == [14]
    assert evaluate("position('tool') - [1, 1, 1]", 1, 2, 3).tolist() == [0, 3, 8]
    assert evaluate("2*q/4 + com()", 1, 2, 3).tolist() == [2.5, 3, 2.5]
    assert evaluate("norm(position('tool') - com())", 1, 2, 3)[0] == pytest.approx(math.sqrt(1 + 4 + 64))


def test_if_else_ignores_the_branch_that_is_not_a_number() -> None:
    assert evaluate("if_else(x > 0, sqrt(x), 5)", x=-1.0)[0] == 5.0


def test_long_sums_need_no_nesting() -> None:
    assert evaluate("+".join(["x"] * 500), x=1.0)[0] == 500.0


# ---- refusals -----------------------------------------------------------------------------------------------------------
INJECTIONS = {
    "import": "__import__('os').system('true')",
    "attribute": "x.__class__",
    "attribute of a call": "sin(x).real",
    "builtins": "().__class__.__bases__[0].__subclasses__()",
    "open": "open('/etc/passwd')",
    "exec": "exec('x = 1')",
    "lambda": "(lambda: 1)()",
    "f-string": "f'{x}'",
    "nested f-string": "q[f'{x}']",
    "walrus": "(a := 3)",
    "list comprehension": "[i for i in [1, 2]]",
    "generator": "max(i for i in [1, 2])",
    "dictionary": "{'a': x}",
    "set": "{x}",
    "string": "'text'",
    "bytes": "b'text'",
    "string in a sum": "x + 'a'",
    "starred": "max(*[1, 2])",
    "keyword argument": "sin(a=x)",
    "unpacked arguments": "sin(**{})",
    "call of a call": "sin(x)(y)",
    "call of a subscript": "q['knee'](x)",
    "conditional": "x if y else 1",
    "boolean": "x and y",
    "not": "not x",
    "invert": "~x",
    "true": "True",
    "none": "None + x",
    "ellipsis": "...",
    "complex": "1j*x",
    "tuple": "(x, y)",
    "slice": "q[0:1]",
    "statement": "x; y",
    "assignment": "x = 1",
    "yield": "(yield x)",
    "await": "await x",
    "comment": "x # y",
    "null byte": "x\x00",
    "surrogate": "\ud800",
    "line continuation": "x \\\n + y",
    "comparison": "x < y",
    "equality": "x == y",
    "and outside of a condition": "x and y",
    "membership": "if_else(x in [1], 1, 2)",
    "modulo": "x % 2",
    "floor division": "x // 2",
    "matrix product": "q @ q",
    "shift": "1 << 3",
    "empty": "",
    "blank": " \n ",
}


@pytest.mark.parametrize("text", INJECTIONS.values(), ids=INJECTIONS.keys())
def test_anything_but_arithmetic_is_refused(text: str) -> None:
    place, message = refusal(text)
    assert place.startswith("f:1:")
    assert message


HOSTILE = {
    "exponent tower": "9**9**9", "deep exponent tower": "9**9**9**9**9**9", "power of a power": "(1e300)**9",
    "huge float": "1e999",
    "huge integer": "9" * 400, "huge literal": "9" * 5000,
    "ten megabytes": "(" * 5_000_000 + ")" * 5_000_000,
    "parentheses": "(" * 9_000 + "x" + ")" * 9_000, "brackets": "[" * 500 + "x" + "]" * 500, "signs": "-" * 19_000 + "x",
    "long sum": "x+" * 9_999 + "x", "right nesting": "2**" * 5_000 + "x", "nested calls": "sin(" * 150 + "x" + ")" * 150,
    "nested lists": "norm([" * 90 + "x" + "])" * 90,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_sizes_end_in_an_error_not_in_a_crash(text: str) -> None:
    _, message = refusal(text)
    assert len(message) < 400


def test_length_limit_is_named() -> None:
    assert f"at most {MAX_CHARACTERS} are read" in refusal("x" * (MAX_CHARACTERS + 1))[1]


@pytest.mark.parametrize(("text", "column", "words"), [
    ("x + thta", 5, "unknown name 'thta'"),
    ("x + omga", 5, "unknown name 'omga'; did you mean 'omega'? (known: m, omega, pi, q, x, y, zero)"),
    ("2*sinn(x)", 3, "unknown function 'sinn'; did you mean 'sin'"),
    ("1 + sin", 5, "'sin' is a function; call it, as in sin(..)"),
    ("x(y)", 1, "'x' is a value, not a function; a product is written x*(..)"),
    ("2 + late", 5, "'late' cannot be used here: it is defined later"),
    ("x^2", 1, "the operator '^' is not allowed; a power is written **"),
    ("2 x", 3, "not a valid expression near '2 x'"),
    ("max(x, y", 4, "an expression that contains a comma must be in quotes"),
    ("y)", 2, "an expression that contains a comma must be in quotes"),
    ("x = y", 3, "an expression has no '='"),
    ("x == 1", 1, "in a constraint write 'equal', 'lower' or 'upper' beside the expression"),
    ("1 + x/0", 7, "division by zero in 'x/0'"),
    ("x/(1 - 1)", 4, "division by zero"),
    ("x/zero", 3, "division by zero in 'x/zero'"),
    ("x + log(0)", 5, "'log(0)' has no finite value"),
    ("x*sqrt(-1)", 3, "'sqrt(-1)' has no finite value"),
    ("x + 9**9**9", 5, "'9**9**9' has no finite value"),
    ("sin(x, y)", 1, "sin takes 1 argument, got 2"),
    ("sin(x, a=y)", 1, "sin: arguments with a name (key=value) are not allowed"),
    ("atan2(x)", 1, "atan2 takes 2 arguments, got 1"),
    ("min(x)", 1, "min takes at least 2 arguments, got 1"),
    ("dot([x, y], [x])", 1, "dot: lengths 2 and 1 differ"),
    ("q['kne']", 1, "q has no entry 'kne'; did you mean 'knee'? (known: base.px, base.py, hip, knee)"),
    ("x + q['base']", 5, 'q["base"] has several components; use one of base.px, base.py'),
    ("q[knee]", 1, "q[..] takes a name in quotes"),
    ("position('tol')[0]", 10, "position: no frame named 'tol'; did you mean 'tool'?"),
    ("position(tool)[0]", 1, "position takes one frame name in quotes"),
    ("position('tool')[3]", 1, "must be a whole number from 0 to 2, or x, y, z"),
    ("position('tool')[-1]", 1, "must be a whole number from 0 to 2, or x, y, z"),
    ("position('tool')[True]", 1, "must be a whole number from 0 to 2, or x, y, z"),
    ("com('tool')[0]", 1, "com() takes no argument"),
    ("x[0]", 1, "'x' is a single number and has no components"),
    ("position('tool')", 1, "has 3 components; a single number is expected here; pick one with [0]"),
    ("sin(q)", 5, "the argument of sin must be a single number, but 'q' has 3 components"),
    ("q*q", 1, "multiplies two vectors; use dot(a, b)"),
    ("q + [1, 2]", 1, "joins 3 and 2 components"),
    ("2**q", 4, "the exponent must be a single number"),
    ("q**2", 1, "the base of a power must be a single number; use dot(a, a)"),
    ("x/q", 3, "the divisor must be a single number"),
    ("norm([])", 6, "an empty list"),
    ("norm([q, x])", 7, "an entry of a list must be a single number, but 'q' has 3 components"),
    ("  x + θ", 7, "unknown name 'θ'"),
    ("sin(x) + ü*omga", 10, "unknown name 'ü'"),
    ("x +\n omga", 6, "unknown name 'omga'"),
])
def test_refusals_point_at_the_place_and_say_what_would_do(text: str, column: int, words: str) -> None:
    place, message = refusal(text)
    assert place == f"f:1:{column}"
    assert words in message


def test_columns_count_characters_not_bytes() -> None:
    scope = Scope({"θ": X})
    with pytest.raises(ProblemError) as caught:
        parse("θ + θ + nope", scope, where)
    assert caught.value.where == "f:1:9"


@pytest.mark.parametrize(("text", "meant"), [
    ("knee.q", 'q["knee"]'), ("q.knee", 'q["knee"]'), ('base.q["px"]', 'q["base.px"]'), ("q['base'].px", 'q["base.px"]'),
    ("np.sin(x)", "sin"), ("a.x", "x"), ("position('tool').z", "position('tool')[2]")])
def test_a_dot_is_answered_by_the_spelling_that_means_it(text: str, meant: str) -> None:
    said = refusal(text)[1]
    assert said.endswith(f"write {meant}") or said.endswith(f"written {meant}")
    if meant != "sin":
        evaluate(meant)  # which is understood


def test_a_dot_that_means_nothing_gets_no_spelling() -> None:
    assert refusal("knee.p")[1].endswith("in an expression")


@pytest.mark.parametrize("text", ["0*sqrt(x)", "sqrt(x)*0", "zero*sqrt(x)", "0/sqrt(x)", "sqrt(x)**0 - 1", "sqrt(x) - sqrt(x)",
                                  "0*(1 + log(x))", "0*x**0.5", "0*q*sqrt(x)"])
def test_a_factor_that_is_folded_away_keeps_its_domain(text):
    """What stands beside a zero has no value where it is not defined, and no derivative but zero where it is."""
    value = parse_vector(text, SCOPE, where)
    slope = ca.Function("slope", [STATES], [ca.jacobian(value, STATES)])
    assert np.all(evaluate(text, x=2.0) == 0)
    assert np.all(np.asarray(slope([2.0, 0.0, 0.0])) == 0)
    assert np.all(np.isnan(evaluate(text, x=-1.0)))


@pytest.mark.parametrize("text", ["0*x", "x - x", "0*sin(x)*exp(x)"])
def test_what_is_defined_everywhere_is_folded_away(text):
    assert parse(text, SCOPE, where).is_constant()
