"""Complex-step differentiation: every rule against complex arithmetic of Python and mpmath, whole algorithms against AD."""

import cmath

import casadi as ca
import complex_dynamics as cd
import mpmath
import numpy as np
import pytest

from dynamics import algorithms as alg
from dynamics import make
from dynamics.derivatives.complex_rules import RULES
from dynamics.derivatives.complex_step import complex_step_jacobian, complexified, operation_name
from dynamics.errors import ModelError
from dynamics.model.synthetic import random_tree

ANY, POSITIVE, INSIDE, ABOVE = (-2.0, 2.0), (0.1, 3.0), (-0.95, 0.95), (1.05, 3.0)

UNARY = [
    ("neg", lambda x: -x, lambda z: -z, ANY), ("twice", lambda x: 2 * x, lambda z: 2 * z, ANY),
    ("sq", lambda x: x**2, lambda z: z * z, ANY), ("inv", lambda x: 1 / x, lambda z: 1 / z, ANY),
    ("sqrt", ca.sqrt, cmath.sqrt, POSITIVE),
    ("exp", ca.exp, cmath.exp, ANY), ("log", ca.log, cmath.log, POSITIVE),
    ("expm1", ca.expm1, lambda z: complex(mpmath.expm1(z)), (-1e-3, 1e-3)),
    ("log1p", ca.log1p, lambda z: complex(mpmath.log1p(z)), (-0.9, 2.0)),
    ("log1p_small", ca.log1p, lambda z: complex(mpmath.log1p(z)), (-1e-9, 1e-9)),
    ("sin", ca.sin, cmath.sin, ANY), ("cos", ca.cos, cmath.cos, ANY), ("tan", ca.tan, cmath.tan, (-1.4, 1.4)),
    ("asin", ca.asin, cmath.asin, INSIDE), ("acos", ca.acos, cmath.acos, INSIDE), ("atan", ca.atan, cmath.atan, ANY),
    ("sinh", ca.sinh, cmath.sinh, ANY), ("cosh", ca.cosh, cmath.cosh, ANY), ("tanh", ca.tanh, cmath.tanh, (-8.0, 8.0)),
    ("asinh", ca.asinh, cmath.asinh, ANY), ("acosh", ca.acosh, cmath.acosh, ABOVE), ("atanh", ca.atanh, cmath.atanh, INSIDE),
    ("erf", ca.erf, lambda z: complex(mpmath.erf(z)), ANY),
    ("cube", lambda x: x**3, lambda z: z**3, ANY), ("inverse_square", lambda x: x**-2, lambda z: z**-2, ANY),
    ("seventeenth", lambda x: x**17, lambda z: z**17, ANY), ("root", lambda x: x**2.3, lambda z: z**2.3, POSITIVE),
    ("fabs", ca.fabs, lambda z: z if z.real > 0 else -z, ANY), ("sign", ca.sign, lambda z: complex(np.sign(z.real)), ANY),
    ("floor", ca.floor, lambda z: complex(np.floor(z.real)), ANY), ("ceil", ca.ceil, lambda z: complex(np.ceil(z.real)), ANY),
    ("not", lambda x: x * ca.logic_not(x > 0), lambda z: 0 * z if z.real > 0 else z, ANY),
]


def _atan2(y, x):
    """Continuation of the real angle."""
    angle = complex(np.arctan2(y.real, x.real))
    turn = cmath.exp(-1j * angle)
    return angle - 1j * cmath.log((x + 1j * y) * turn / cmath.sqrt(x * x + y * y))


BINARY = [
    ("add", lambda x, y: x + y, lambda a, b: a + b, ANY, ANY), ("sub", lambda x, y: x - y, lambda a, b: a - b, ANY, ANY),
    ("mul", lambda x, y: x * y, lambda a, b: a * b, ANY, ANY), ("div", lambda x, y: x / y, lambda a, b: a / b, ANY, ANY),
    ("pow", lambda x, y: x**y, lambda a, b: a**b, POSITIVE, ANY),
    ("atan2", ca.atan2, _atan2, ANY, ANY), ("hypot", ca.hypot, lambda a, b: cmath.sqrt(a * a + b * b), ANY, ANY),
    ("fmin", ca.fmin, lambda a, b: a if a.real < b.real else b, ANY, ANY),
    ("fmax", ca.fmax, lambda a, b: a if a.real > b.real else b, ANY, ANY),
    ("copysign", ca.copysign, lambda a, b: a if a.real * b.real > 0 else -a, ANY, ANY),
    ("fmod", ca.fmod, lambda a, b: a - b * np.trunc(a.real / b.real), ANY, (0.3, 0.7)),
    ("remainder", ca.remainder, lambda a, b: a - b * np.round(a.real / b.real), ANY, (0.3, 0.7)),
    ("lt", lambda x, y: ca.if_else(x < y, ca.sin(x), y), lambda a, b: cmath.sin(a) if a.real < b.real else b, ANY, ANY),
    ("le", lambda x, y: ca.if_else(x <= y, x, y * y), lambda a, b: a if a.real <= b.real else b * b, ANY, ANY),
    ("eq", lambda x, y: x * (x == y) + y, lambda a, b: b, ANY, ANY), ("ne", lambda x, y: x * (x != y), lambda a, b: a, ANY, ANY),
    ("and", lambda x, y: x * y * ca.logic_and(x > 0, y > 0), lambda a, b: a * b * (a.real > 0 and b.real > 0), ANY, ANY),
    ("or", lambda x, y: x * y * ca.logic_or(x > 0, y > 0), lambda a, b: a * b * (a.real > 0 or b.real > 0), ANY, ANY),
]


def operations(function):
    return {function.instruction_id(k) for k in range(function.n_instructions())}


def check(value, wanted, tolerance=2e-14):
    np.testing.assert_allclose(value, wanted, rtol=0, atol=tolerance * max(1.0, abs(wanted)))


def function_of(name, build, count):
    x = [ca.SX.sym(f"x{k}") for k in range(count)]
    return ca.Function(name, x, [build(*x)])


CASES = [(n, f, g, (d,)) for n, f, g, d in UNARY] + [(n, f, g, (d, e)) for n, f, g, d, e in BINARY]


@pytest.mark.row("002:H23")
@pytest.mark.parametrize(("name", "build", "wanted", "domains"), CASES, ids=[c[0] for c in CASES])
def test_operation_against_complex_arithmetic(name, build, wanted, domains):
    """At moderate imaginary parts, and at small ones, which no rule may lose."""
    rng = np.random.default_rng(3)
    f = complexified(function_of(name, build, len(domains)))
    for size in (0.3, 1e-5):
        for _ in range(20):
            re, im = [rng.uniform(*d) for d in domains], rng.uniform(-size, size, len(domains))
            value, reference = complex(*map(float, f(*re, *im))), complex(wanted(*map(complex, re, im)))
            check(value, reference)
            np.testing.assert_allclose(value.imag / size, reference.imag / size, rtol=0, atol=1e-10 * max(1, abs(reference)))


def test_square_root_left_of_the_origin():
    f = complexified(function_of("sqrt", ca.sqrt, 1))
    for z in (-2 + 0.1j, -2 - 0.1j, -3 + 1e-12j, -0.5 - 1e-12j):
        check(complex(*map(float, f(z.real, z.imag))), cmath.sqrt(z))


PRECISE = [
    ("sqrt", ca.sqrt, lambda x: mpmath.sqrt(x), (1e-12, 1e12)), ("log", ca.log, mpmath.log, (1e-8, 1e8)),
    ("log1p", ca.log1p, mpmath.log1p, (-0.999999, 5.0)), ("expm1", ca.expm1, mpmath.expm1, ANY),
    ("inv", lambda x: 1 / x, lambda x: 1 / x, (1e-6, 10.0)), ("tan", ca.tan, mpmath.tan, (-1.57, 1.57)),
    ("tanh", ca.tanh, mpmath.tanh, (-30.0, 30.0)), ("asin", ca.asin, mpmath.asin, (-0.999999, 0.999999)),
    ("acos", ca.acos, mpmath.acos, (-0.999999, 0.999999)), ("atan", ca.atan, mpmath.atan, (-1e5, 1e5)),
    ("asinh", ca.asinh, mpmath.asinh, (-1e5, 1e5)), ("acosh", ca.acosh, mpmath.acosh, (1.0001, 1e4)),
    ("atanh", ca.atanh, mpmath.atanh, (-0.9999, 0.9999)), ("erf", ca.erf, mpmath.erf, ANY),
    ("cube", lambda x: x**3, lambda x: x**3, ANY), ("power", lambda x: x**2.3, lambda x: x ** mpmath.mpf(2.3), POSITIVE),
]


@pytest.mark.row("002:H23")
@pytest.mark.parametrize(("name", "build", "wanted", "domain"), PRECISE, ids=[c[0] for c in PRECISE])
def test_step_keeps_every_digit(name, build, wanted, domain):
    """Derivatives against mpmath at 40 digits, relative, close to the ends of the domain too."""
    J = complex_step_jacobian(function_of(name, build, 1))
    rng = np.random.default_rng(4)
    points = [*rng.uniform(*domain, 10), domain[0], domain[1]]
    for x in points:
        with mpmath.workdps(60):
            slope = mpmath.diff(wanted, mpmath.mpf(float(x)), h=mpmath.mpf(10) ** -25)
        np.testing.assert_allclose(float(J(x)), float(slope), rtol=1e-14 if name != "tan" else 1e-13)


def test_every_rule_is_covered_by_a_case():
    seen = set()
    for name, build, _, domains in CASES:
        seen |= operations(function_of(name, build, len(domains)))
    x = ca.SX.sym("x")
    seen |= operations(ca.Function("f", [x], [x**1.5]))
    trivial = {ca.OP_ASSIGN, ca.OP_LIFT, ca.OP_CONSTPOW, ca.OP_IF_ELSE_ZERO}
    assert {operation_name(op) for op in set(RULES) - seen - trivial} == set()


def test_powers_of_negative_numbers_keep_the_step():
    x, n = ca.SX.sym("x"), ca.SX.sym("n")
    J = complex_step_jacobian(ca.Function("f", [x, n], [x**n]))
    for exponent in (1, 2, 3, 8, -1, -3, 0):
        np.testing.assert_allclose(float(J(-1.7, exponent)), exponent * (-1.7) ** (exponent - 1), rtol=1e-14)


def test_atan2_has_no_branch_cut():
    y, x = ca.SX.sym("y"), ca.SX.sym("x")
    f = ca.Function("f", [y, x], [ca.atan2(y, x)])
    for yx in ((0.0, -2.0), (0.0, 2.0), (3.0, 0.0), (-3.0, 0.0), (-1e-30, -1.0)):
        square = yx[0] ** 2 + yx[1] ** 2
        np.testing.assert_allclose(float(complex_step_jacobian(f)(*yx)), yx[1] / square, atol=1e-15)
        np.testing.assert_allclose(float(complex_step_jacobian(f, 1)(*yx)), -yx[0] / square, atol=1e-15)
        assert float(complexified(f)(*yx, 0.0, 1e-30)[0]) == np.arctan2(*yx)


@pytest.mark.row("002:H23")
def test_the_oracle_against_a_power_series():
    """The published example exp(x)/sqrt(sin^3 x + cos^3 x), and its Taylor series in the imaginary step."""
    x = ca.SX.sym("x")
    f = ca.Function("f", [x], [ca.exp(x) / ca.sqrt(ca.sin(x) ** 3 + ca.cos(x) ** 3)])
    with mpmath.workdps(40):
        c = mpmath.taylor(lambda s: mpmath.exp(s) / mpmath.sqrt(mpmath.sin(s) ** 3 + mpmath.cos(s) ** 3), 1.5, 9)
    np.testing.assert_allclose(float(complex_step_jacobian(f)(1.5)), float(c[1]), rtol=1e-14)
    h = 0.01
    series = sum(complex(c[k]) * (1j * h) ** k for k in range(10))
    np.testing.assert_allclose([float(y) for y in complexified(f)(1.5, h)], [series.real, series.imag], rtol=1e-12)


def residual(value, wanted, tolerance=1e-13):
    value, wanted = np.array(value), np.array(wanted)
    assert value.shape == wanted.shape
    np.testing.assert_allclose(value, wanted, rtol=0, atol=tolerance * max(1.0, np.abs(wanted).max()))


@pytest.mark.row("002:H23")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_inverse_dynamics_of_a_mixed_tree_against_complex_numpy(seed):
    rng = np.random.default_rng(seed)
    model = random_tree(6, rng, kinds=["revolute", "prismatic", "spherical", "planar", "free_flyer"], damping=True)
    q, v, a = alg.random_configuration(model, rng), *rng.standard_normal((2, model.nv))
    d, s = ca.SX.sym("d", model.nv), [ca.SX.sym(n, k) for n, k in (("q", model.nq), ("v", model.nv), ("a", model.nv))]
    f = ca.Function("tangent", [d, *s], [alg.inverse_dynamics(model, alg.jet(model, s[0], d), *s[1:])])
    tree = cd.read(model, q)
    residual(complex_step_jacobian(f)(np.zeros(model.nv), q, v, a), cd.derivative_q(lambda t: cd.rnea(t, v, a), tree), 1e-12)
    residual(complex_step_jacobian(f, 2)(np.zeros(model.nv), q, v, a), cd.derivative_x(lambda x: cd.rnea(tree, x, a), v), 1e-12)


@pytest.mark.row("002:H23")
@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics", "mass_matrix", "difference", "integrate"])
def test_whole_algorithms_against_ad(name):
    rng = np.random.default_rng(5)
    model = random_tree(6, rng)
    f = make(model, name)
    values = {"q": alg.random_configuration(model, rng), "q0": alg.random_configuration(model, rng),
              "q1": alg.random_configuration(model, rng)}
    point = [values.get(n, rng.standard_normal(f.numel_in(k))) for k, n in enumerate(f.name_in())]
    for i in range(f.n_in()):
        x = [ca.SX.sym(n, f.sparsity_in(k)) for k, n in enumerate(f.name_in())]
        ad = ca.Function("J", x, [ca.jacobian(f(*x), x[i])])(*point)
        ours = complex_step_jacobian(f, i)(*point)
        residual(ours, ad.full(), 1e-12 if name == "forward_dynamics" else 1e-13)


def test_second_derivatives_by_a_step_through_the_gradient():
    x = ca.SX.sym("x", 3)
    gradient = ca.Function("g", [x], [ca.gradient(ca.sin(x[0] * x[1]) * ca.exp(x[2]) / (2 + ca.cos(x[1])), x)])
    H = np.array(complex_step_jacobian(gradient)([0.3, -0.7, 0.2]))
    residual(H, np.array(ca.Function("J", [x], [ca.jacobian(gradient(x), x)])([0.3, -0.7, 0.2])))
    residual(H, H.T)


def test_sparse_inputs_and_outputs():
    """Rows and columns of structural zeros are zero; the numbering runs over all entries, column by column."""
    x = ca.SX.sym("x", ca.Sparsity.lower(2))
    y = ca.SX(3, 2)
    y[0, 1], y[2, 0] = x[0, 0] * x[1, 1], ca.sin(x[1, 0])
    J = np.array(complex_step_jacobian(ca.Function("f", [x], [y]))(ca.DM([[2, 0], [3, 5]])))
    wanted = np.zeros((6, 4))
    wanted[3, 0], wanted[3, 3], wanted[2, 1] = 5, 2, np.cos(3)
    residual(J, wanted)
    f = complexified(ca.Function("f", [x], [y]))
    assert f.sparsity_out(1).nnz() == 2
    assert f.sparsity_in(1) == f.sparsity_in(0)


def test_nothing_depends_on_an_empty_input():
    x, p = ca.SX.sym("x", 2), ca.SX.sym("p", 0)
    f = ca.Function("f", [x, p], [x[0] * 2, ca.SX(4)])
    assert complex_step_jacobian(f, 1)([1, 2], []).shape == (1, 0)
    residual(complex_step_jacobian(f, 0, 1)([1, 2], []), [[0, 0]])
    residual(complex_step_jacobian(f)([1, 2], []), [[2, 0]])


def test_what_is_real_stays_structurally_real():
    """An output that no active input reaches has no imaginary entries, and half the tape costs no complex arithmetic."""
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    f = ca.Function("f", [x, y], [ca.vertcat(ca.sign(x), ca.floor(y), x * y)])
    assert complexified(f).sparsity_out(1).nnz() == 1


def test_an_expandable_mx_function():
    rng = np.random.default_rng(6)
    model = random_tree(3, rng)
    f = make(model, "inverse_dynamics")
    q, v, a = ca.MX.sym("q", model.nq), ca.MX.sym("v", model.nv), ca.MX.sym("a", model.nv)
    wrapped = ca.Function("wrapped", [q, v, a], [2 * f(q, v, a)])
    point = alg.random_configuration(model, rng), *rng.standard_normal((2, model.nv))
    residual(complex_step_jacobian(wrapped, 1)(*point), 2 * np.array(complex_step_jacobian(f, 1)(*point)))


def test_a_wrong_custom_jacobian_does_not_reach_the_step():
    x, y = ca.MX.sym("x"), ca.SX.sym("y")
    wrong = ca.Function("jac_f", [x, ca.MX(1, 1)], [ca.MX(7)])
    f = ca.Function("f", [y], [y**2], {"custom_jacobian": wrong, "enable_forward": False, "enable_reverse": False})
    outer = ca.Function("outer", [x], [f(x)])
    assert float(ca.Function("J", [x], [ca.jacobian(outer(x), x)])(3)) == 7
    assert float(complex_step_jacobian(outer)(3)) == 6


def test_an_mx_function_that_is_never_inlined():
    """Outputs in pieces, sparse ones, an input that is an output, and one that is empty."""
    x, y = ca.MX.sym("x", ca.Sparsity.lower(2)), ca.MX.sym("y", 2)
    inner = ca.Function("inner", [x, y], [x @ x, ca.horzcat(y, ca.sin(y)), ca.diagcat(y[0] * x, y[1]), ca.vertcat(y, y**2), y,
                                          ca.MX(2, 1), 2.5 * ca.MX.ones(2)], {"never_inline": True})
    a, b = ca.MX.sym("a", ca.Sparsity.lower(2)), ca.MX.sym("b", 2)
    value, point = ca.DM(ca.Sparsity.lower(2), [0.2, -0.4, 0.5]), [0.3, 0.9]
    for o in range(inner.n_out()):
        for i in (0, 1):
            wanted = ca.Function("J", [a, b], [ca.densify(ca.jacobian(inner(a, b)[o], (a, b)[i]))])(value, point)
            residual(complex_step_jacobian(inner, i, o)(value, point), wanted)
        np.testing.assert_array_equal(complexified(inner)(value, point, 0, 0)[o], inner(value, point)[o])


def test_an_operation_without_rule_is_named():
    x = ca.SX.sym("x")
    with pytest.raises(ModelError, match="function 'f': operation OP_ERFINV has no complex rule"):
        complexified(ca.Function("f", [x], [ca.erfinv(x)]))


def test_calls_that_are_never_inlined():
    """Two levels of them, with an output that nobody uses and a sparse input."""
    x, y = ca.SX.sym("x", ca.Sparsity.lower(2)), ca.SX.sym("y")
    inner = ca.Function("inner", [x, y], [ca.sin(x[1, 0]) * y, ca.sum1(x).T, y * x], {"never_inline": True})
    outer = ca.Function("outer", [x, y], [inner(x, y)[0] * y + ca.dot(*(2 * [inner(x, y**2)[1]]))], {"never_inline": True})
    X, Y = ca.MX.sym("X", ca.Sparsity.lower(2)), ca.MX.sym("Y")
    f = ca.Function("f", [X, Y], [outer(X + 1, 3 * Y)])
    value = ca.DM(ca.Sparsity.lower(2), [0.2, -0.4, 0.5])
    for i in (0, 1):
        wanted = ca.Function("J", [X, Y], [ca.densify(ca.jacobian(f(X, Y), (X, Y)[i]))])(value, 0.7)
        residual(complex_step_jacobian(f, i)(value, 0.7), wanted)


def test_a_function_that_cannot_be_expanded_says_so():
    x = ca.MX.sym("x", 2)
    table = ca.interpolant("table", "bspline", [[0.0, 1.0, 2.0, 3.0, 4.0]], [0.0, 1.0, 4.0, 9.0, 16.0])
    with pytest.raises(ModelError, match="function 'table': cannot be expanded to scalar operations"):
        complexified(ca.Function("f", [x], [table(x[0])]))
    s, free = ca.SX.sym("s"), ca.SX.sym("free")
    with pytest.raises(ModelError, match="free variables free"):
        complexified(ca.Function("g", [s], [s * free], {"allow_free": True}))
