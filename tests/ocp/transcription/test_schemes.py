"""Collocation schemes and their points: published tableaus, higher precision, observed orders."""

from __future__ import annotations

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from numpy.polynomial import Chebyshev, Legendre

from ocp.errors import ProblemError
from ocp.transcription import legendre
from ocp.transcription.schemes import CONTROLS, FORMS, MAX_DEGREE, SCHEMES, control_shape, make_scheme

FAMILIES = ("gauss", "radau", "radau_left", "lobatto")
EXACT = {"gauss": 1, "radau": 2, "radau_left": 2, "lobatto": 3}  # the rule of m points integrates degree 2m - EXACT


def sizes(*numbers):
    """(family, number of points), without Lobatto's of one point: it has both ends."""
    return [(name, m) for name in FAMILIES for m in numbers if (name, m) != ("lobatto", 1)]


EVERY = [("trapezoid", 2), ("hermite_simpson", 3), *sizes(1, 2, 3, 4, 5)]
BOTH = [case for case in EVERY if case[0] in ("gauss", "radau", "radau_left")]  # schemes with both forms
LARGE = [*((n, 60, form) for n in FAMILIES for form in FORMS if (n, form) != ("lobatto", "differential")),
         ("gauss", MAX_DEGREE, "integral"), ("lobatto", MAX_DEGREE, "integral"), ("radau", MAX_DEGREE, "differential")]


# --- points and weights -------------------------------------------------------------------------------------

@pytest.mark.parametrize("m", [2, 3, 7, 20, 60, 101])
def test_points_are_the_zeros_that_numpy_finds(m):
    np.testing.assert_allclose(legendre.gauss(m), (np.polynomial.legendre.leggauss(m)[0] / 2 + 0.5,
                                                 np.polynomial.legendre.leggauss(m)[1] / 2), atol=2e-15)
    P, before = Legendre.basis(m, [0, 1]), Legendre.basis(m - 1, [0, 1])
    for rule, polynomial in ((legendre.radau, P - before), (legendre.radau_left, P + before)):
        np.testing.assert_allclose(rule(m)[0], np.sort(polynomial.roots().real), atol=1e-13)
    np.testing.assert_allclose(legendre.lobatto(m)[0][1:-1], np.sort(before.deriv().roots().real), atol=1e-13)


def exact_rule(name, m, near):
    """Points and weights on [0, 1] in 40 digits: secant steps from ``near``, weights of Abramowitz & Stegun 25.4.29-32."""
    def P(n, x):
        a, b = mp.mpf(1), x
        for j in range(1, n):
            a, b = b, ((2 * j + 1) * x * b - j * a) / (j + 1)
        return b if n else a

    zero = {"gauss": lambda x: P(m, x), "radau": lambda x: P(m, x) - P(m - 1, x), "radau_left": lambda x: P(m, x) + P(m - 1, x),
            "lobatto": lambda x: (m - 1) * (P(m - 2, x) - x * P(m - 1, x))}[name]  # (1 - x^2) P'_{m-1}
    weight = {"gauss": lambda x: (1 - x * x) / (m * P(m - 1, x))**2, "radau": lambda x: (1 + x) / (m * P(m - 1, x))**2 / 2,
              "radau_left": lambda x: (1 - x) / (m * P(m - 1, x))**2 / 2,
              "lobatto": lambda x: 1 / (m * (m - 1) * P(m - 1, x)**2)}[name]
    start = [2 * mp.mpf(c) - 1 for c in near]
    x = [mp.findroot(zero, (a, a + mp.mpf("1e-15")), tol=mp.mpf("1e-60"), verify=False) for a in start]
    return [(1 + a) / 2 for a in x], [weight(a) for a in x]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.sample(2)
def test_sixty_points_in_forty_digits(name):
    c, w = getattr(legendre, name)(60)
    with mp.workdps(40):
        exact_c, exact_w = exact_rule(name, 60, c)
        assert max(abs(a - b) for a, b in zip(c, exact_c, strict=True)) < 1e-14
        assert max(abs(a / b - 1) for a, b in zip(w, exact_w, strict=True)) < 1e-12
        assert min(b - a for a, b in zip(exact_c[:-1], exact_c[1:], strict=True)) > 1e-4  # sixty different zeros


@pytest.mark.parametrize(("name", "m"), sizes(1, 2, 3, 4, 9, 24))
def test_rules_integrate_what_they_should_and_no_more(name, m):
    c, w = getattr(legendre, name)(m)
    most = 2 * m - EXACT[name]
    errors = [w @ Legendre.basis(p, [0, 1])(c) - (p == 0) for p in range(most + 2)]
    assert np.max(np.abs(errors[:-1])) < 1e-14
    assert abs(errors[-1]) > 0.4 / np.sqrt(m)
    assert np.all(w > 0)
    assert np.all(np.diff(c) > 0)
    assert (c[0] == 0, c[-1] == 1) == (name in ("radau_left", "lobatto"), name in ("radau", "lobatto"))


def test_rules_are_mirror_images():
    for m in (1, 2, 5, 60):
        (c, w), (d, v) = legendre.radau(m), legendre.radau_left(m)
        np.testing.assert_allclose((c, w), (1 - d[::-1], v[::-1]), atol=2e-16)
    for rule in (legendre.gauss, legendre.lobatto):
        c, w = rule(61)
        np.testing.assert_array_equal(c + c[::-1], 1)
        assert c[30] == 0.5
        np.testing.assert_allclose(w, w[::-1], rtol=1e-12)


# --- polynomials through points -----------------------------------------------------------------------------

@pytest.mark.parametrize(("name", "m"), sizes(1, 2, 5, 30, 60, MAX_DEGREE))
def test_interpolation_differentiates_and_integrates_a_wave(name, m):
    c, w = getattr(legendre, name)(m)
    r = np.random.default_rng(1).uniform(size=(20, 3))
    basis, slope, area = legendre.value_matrix(c, r), legendre.derivative_matrix(c, r), legendre.integral_matrix(c, w, r)
    assert basis.shape == slope.shape == area.shape == (20, 3, m)
    np.testing.assert_allclose(basis.sum(-1), 1, atol=1e-14)
    np.testing.assert_allclose(slope.sum(-1), 0, atol=1e-15 * m**3)
    np.testing.assert_allclose(area.sum(-1), r, atol=1e-14)
    if m >= 30:
        np.testing.assert_allclose(basis @ np.sin(9 * c), np.sin(9 * r), atol=2e-14)
        np.testing.assert_allclose(slope @ np.sin(9 * c), 9 * np.cos(9 * r), atol=1e-15 * m**3)
        np.testing.assert_allclose(area @ np.sin(9 * c), (1 - np.cos(9 * r)) / 9, atol=1e-15)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.sample(2)
def test_basis_of_sixty_points_in_forty_digits(name):
    c, w = getattr(legendre, name)(60)
    basis, slope = legendre.value_matrix(c, 0.37), legendre.derivative_matrix(c, 0.37)
    area = legendre.integral_matrix(c, w, [0.004, 0.37, 1.0])
    with mp.workdps(40):
        x = [mp.mpf(float(a)) for a in c]
        for i in (0, 1, 22, 59):
            def lagrange(r, i=i):
                return mp.fprod((r - x[j]) / (x[i] - x[j]) for j in range(60) if j != i)
            r = mp.mpf(0.37)
            assert abs(basis[i] - lagrange(r)) < 1e-14
            assert abs(slope[i] - lagrange(r) * mp.fsum(1 / (r - x[j]) for j in range(60) if j != i)) < 1e-11
            q, v = exact_rule("gauss", 30, legendre.gauss(30)[0])
            for k, end in enumerate((0.004, 0.37, 1.0)):
                exact = mp.fsum(b * lagrange(mp.mpf(end) * a) for a, b in zip(q, v, strict=True)) * mp.mpf(end)
                assert abs(area[k, i] - exact) < 1e-15


def test_values_at_and_beside_the_points():
    for name, m in (("gauss", 60), ("lobatto", 4), ("radau", 1), ("radau_left", MAX_DEGREE)):
        c = getattr(legendre, name)(m)[0]
        np.testing.assert_array_equal(legendre.value_matrix(c, c), np.eye(m))
        for beside in (np.nextafter(c, 2), np.nextafter(c, -1), c + 1e-310, c + 1e-150):
            np.testing.assert_allclose(legendre.value_matrix(c, beside), np.eye(m), atol=1e-11)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_derivative_at_the_points_is_that_of_the_polynomial(name):
    c = getattr(legendre, name)(6)[0]
    for p in range(6):
        polynomial = Chebyshev.basis(p, [0, 1])
        np.testing.assert_allclose(legendre.derivative_matrix(c) @ polynomial(c), polynomial.deriv()(c), atol=1e-12)
    assert np.max(np.abs(legendre.derivative_matrix(c) @ Chebyshev.basis(6, [0, 1])(c) - Chebyshev.basis(6, [0, 1]).deriv()(c))) > 1


# --- records ------------------------------------------------------------------------------------------------

R15, R6, R5, R3 = np.sqrt(15), np.sqrt(6), np.sqrt(5), np.sqrt(3)
TABLEAUS = {  # Hairer & Wanner 1996, Tables IV.5.1, 5.2, 5.5-5.8: c, A, b
    ("gauss", 2): ([1 / 2 - R3 / 6, 1 / 2 + R3 / 6], [[1 / 4, 1 / 4 - R3 / 6], [1 / 4 + R3 / 6, 1 / 4]], [1 / 2, 1 / 2]),
    ("gauss", 3): ([1 / 2 - R15 / 10, 1 / 2, 1 / 2 + R15 / 10],
                   [[5 / 36, 2 / 9 - R15 / 15, 5 / 36 - R15 / 30], [5 / 36 + R15 / 24, 2 / 9, 5 / 36 - R15 / 24],
                    [5 / 36 + R15 / 30, 2 / 9 + R15 / 15, 5 / 36]], [5 / 18, 4 / 9, 5 / 18]),
    ("radau", 2): ([1 / 3, 1], [[5 / 12, -1 / 12], [3 / 4, 1 / 4]], [3 / 4, 1 / 4]),
    ("radau", 3): ([(4 - R6) / 10, (4 + R6) / 10, 1],
                   [[(88 - 7 * R6) / 360, (296 - 169 * R6) / 1800, (-2 + 3 * R6) / 225],
                    [(296 + 169 * R6) / 1800, (88 + 7 * R6) / 360, (-2 - 3 * R6) / 225],
                    [(16 - R6) / 36, (16 + R6) / 36, 1 / 9]], [(16 - R6) / 36, (16 + R6) / 36, 1 / 9]),
    ("lobatto", 3): ([0, 1 / 2, 1], [[0, 0, 0], [5 / 24, 1 / 3, -1 / 24], [1 / 6, 2 / 3, 1 / 6]], [1 / 6, 2 / 3, 1 / 6]),
    ("lobatto", 4): ([0, (5 - R5) / 10, (5 + R5) / 10, 1],
                     [[0, 0, 0, 0], [(11 + R5) / 120, (25 - R5) / 120, (25 - 13 * R5) / 120, (-1 + R5) / 120],
                      [(11 - R5) / 120, (25 + 13 * R5) / 120, (25 + R5) / 120, (-1 - R5) / 120], [1 / 12, 5 / 12, 5 / 12, 1 / 12]],
                     [1 / 12, 5 / 12, 5 / 12, 1 / 12]),
}


@pytest.mark.parametrize(("name", "degree"), TABLEAUS)
def test_published_tableaus(name, degree):
    c, A, b = TABLEAUS[name, degree]
    scheme = make_scheme(name, degree)
    np.testing.assert_allclose(scheme.nodes[scheme.collocated], c, atol=1e-15)
    np.testing.assert_allclose(scheme.quadrature, b, atol=1e-15)
    rows = np.array(A + [b] if name == "gauss" else A[1:] if name == "lobatto" else A)
    np.testing.assert_allclose(scheme.defect_rate, -rows, atol=1e-15)
    np.testing.assert_array_equal(scheme.defect_state, np.hstack([-np.ones((len(rows), 1)), np.eye(len(rows))]))
    np.testing.assert_allclose(scheme.state_basis(c), A, atol=1e-15)


def test_trapezoid_and_hermite_simpson_to_the_last_digit():
    trapezoid, simpson = make_scheme("trapezoid"), make_scheme("hermite_simpson")
    for found, known in ((trapezoid.nodes, (0, 1)), (trapezoid.defect_state, ((-1, 1),)), (trapezoid.defect_rate, ((-0.5, -0.5),)),
                         (trapezoid.quadrature, (0.5, 0.5)), (simpson.nodes, (0, 0.5, 1)),
                         (simpson.defect_state, ((-1 / 2, 1, -1 / 2), (-1, 0, 1))),
                         (simpson.defect_rate, ((-1 / 8, 0, 1 / 8), (-1 / 6, -2 / 3, -1 / 6))),
                         (simpson.quadrature, (1 / 6, 2 / 3, 1 / 6))):
        np.testing.assert_array_equal(found, known)
    # the basis in powers of r: Kelly 2017, Secs. 3 and 4
    r = np.linspace(0, 1, 11)[:, None]
    for scheme, control in ((trapezoid, [[1, -1], [0, 1]]), (simpson, [[1, -3, 2], [0, 4, -4], [0, -1, 2]])):
        power, table = np.arange(len(control)), np.array(control)
        np.testing.assert_allclose(scheme.control_basis(r[:, 0]), r**power @ table.T, atol=1e-15)
        np.testing.assert_allclose(scheme.state_basis(r[:, 0]), r**(power + 1) @ (table / (power + 1)).T, atol=1e-15)


def test_hermite_simpson_is_lobatto_of_degree_3():
    simpson, lobatto = make_scheme("hermite_simpson"), make_scheme("lobatto", 3)
    for field in ("defect_state", "defect_rate"):
        np.testing.assert_allclose(np.array([[1, -1 / 2], [0, 1]]) @ getattr(lobatto, field), getattr(simpson, field), atol=1e-15)
    for field in ("nodes", "defect_state", "defect_rate", "quadrature"):
        np.testing.assert_allclose(getattr(make_scheme("lobatto", 2), field), getattr(make_scheme("trapezoid"), field), atol=1e-16)


@pytest.mark.parametrize(("name", "degree", "form"), [
    *((n, K, "integral") for n, K in EVERY), *((n, K, "differential") for n, K in BOTH), *LARGE])
def test_records(name, degree, form):
    scheme = make_scheme(name, degree, form)
    ends = {"gauss": 2, "radau": 1, "radau_left": 1}.get(name, 0)
    assert (scheme.name, scheme.degree, scheme.form, scheme.size) == (name, degree, form, degree + ends)
    first = int(name in ("gauss", "radau"))
    np.testing.assert_array_equal(scheme.collocated, np.arange(first, first + degree))
    assert scheme.order == 2 * degree - {"gauss": 0, "radau": 1, "radau_left": 1}.get(name, 2)
    assert scheme.nodes[0] == 0
    assert scheme.nodes[-1] == 1
    if form == "differential":
        np.testing.assert_array_equal(scheme.defect_rate[:degree], -np.eye(degree))
    else:
        np.testing.assert_array_equal(scheme.defect_rate[-1], -scheme.quadrature)


@pytest.mark.parametrize(("name", "degree"), [*EVERY, *((n, 60) for n in FAMILIES)])
def test_bases_of_a_scheme(name, degree):
    scheme = make_scheme(name, degree)
    r = np.random.default_rng(2).uniform(size=(4, 5))
    control, state = scheme.control_basis(r), scheme.state_basis(r)
    assert control.shape == state.shape == (4, 5, degree)
    np.testing.assert_array_equal(scheme.control_basis(scheme.nodes[scheme.collocated]), np.eye(degree))
    np.testing.assert_array_equal(scheme.state_basis(0.0), np.zeros(degree))
    np.testing.assert_allclose(scheme.state_basis(1.0), scheme.quadrature, atol=1e-15)
    for i in range(degree):  # the polynomial of degree K through its values at Chebyshev points, differentiated by NumPy
        slope = Chebyshev.interpolate(lambda s, i=i: scheme.state_basis(s)[..., i], degree, domain=[0, 1]).deriv()
        np.testing.assert_allclose(slope(r), control[..., i], atol=3e-16 * (degree + 3)**2)


@pytest.mark.parametrize(("name", "degree", "form"), [
    ("trapezoid", 2, "integral"), ("hermite_simpson", 3, "integral"), ("gauss", 3, "integral"), ("gauss", 4, "differential"),
    ("lobatto", 60, "integral"), ("radau", 60, "differential"), ("radau_left", 2, "differential")])
@pytest.mark.parametrize("field", ["nodes", "defect_state", "defect_rate", "quadrature"])
def test_schemes_check_themselves(name, degree, form, field):
    scheme = make_scheme(name, degree, form)
    for k in (1, -1):  # the second number and the last
        table = np.array(getattr(scheme, field))
        table.flat[k] += 1e-6
        with pytest.raises(ValueError, match="violates its condition"):
            replace(scheme, **{field: table})


@pytest.mark.parametrize(("name", "degree"), EVERY)
def test_a_higher_claim_is_refused(name, degree):
    scheme = make_scheme(name, degree)
    with pytest.raises(ValueError, match="quadrature order"):
        replace(scheme, order=scheme.order + 1)


@pytest.mark.parametrize("changes", [{"degree": 2}, {"quadrature": [1.0]}, {"collocated": [1, 2]}])
def test_shapes_are_checked(changes):
    with pytest.raises(ValueError, match="of shapes"):
        replace(make_scheme("gauss", 3), **changes)


def test_one_object_for_one_request_and_nobody_writes_in_it():
    scheme = make_scheme("radau", 5)
    assert scheme is make_scheme("radau", np.int64(5), "integral")
    assert make_scheme("gauss") is make_scheme("gauss", 3)
    assert make_scheme("hermite_simpson") is make_scheme("hermite_simpson", 3)
    for field in ("nodes", "collocated", "defect_state", "defect_rate", "quadrature"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(scheme, field)[0] = 0
    assert {make_scheme(name).name for name in SCHEMES} == set(SCHEMES)


@pytest.mark.parametrize(("request_", "where", "words"), [
    (("gaus",), "scheme", ["'gaus'", "did you mean 'gauss'", "radau_left"]),
    ((3,), "scheme", ["no scheme named 3"]),
    (("gauss", 3, "diferential"), "form", ["did you mean 'differential'"]),
    (("gauss", 0), "degree", ["gauss has degrees from 1 to 128, got 0"]),
    (("lobatto", 1), "degree", ["lobatto has degrees from 2 to 128, got 1"]),
    (("radau", 129), "degree", ["radau has degrees from 1 to 128, got 129"]),
    (("radau_left", 2.0), "degree", ["whole number, got 2.0"]),
    (("gauss", True), "degree", ["whole number, got True"]),
    (("trapezoid", 3), "degree", ["trapezoid has degree 2 and no other, got 3", "lobatto"]),
    (("hermite_simpson", 2), "degree", ["hermite_simpson has degree 3 and no other, got 2"]),
    (("lobatto", 4, "differential"), "form",
     ["lobatto has no differential form", "5 states", "'integral'", "gauss, radau, radau_left"]),
    (("trapezoid", None, "differential"), "form", ["trapezoid has no differential form"]),
    (("hermite_simpson", None, "differential"), "form", ["hermite_simpson has no differential form"]),
])
def test_wrong_requests(request_, where, words):
    with pytest.raises(ProblemError) as error:
        make_scheme(*request_)
    assert error.value.where == where
    for word in words:
        assert word in str(error.value)


# --- what the schemes compute -------------------------------------------------------------------------------

HORIZON = 2.0


def rate(t, x):
    return x * (1 - x) * (2 + np.cos(2 * t) / 4)


def slope(t, x):
    return (1 - 2 * x) * (2 + np.cos(2 * t) / 4)


def solution(t):
    return 1 / (1 + 9 * np.exp(-2 * t - np.sin(2 * t) / 8))


def integrate(scheme, intervals):
    """States [N, s] at all nodes: the defects of one interval after the other solved by Newton's method."""
    h, c = HORIZON / intervals, scheme.collocated
    X, states = np.full(scheme.size, solution(0.0)), []
    for k in range(intervals):
        t = (k + scheme.nodes[c]) * h
        X = np.full(scheme.size, X[-1])
        for _ in range(20):
            J = scheme.defect_state.copy()
            J[:, c] += h * scheme.defect_rate * slope(t, X[c])
            step = np.linalg.solve(J[:, 1:], scheme.defect_state @ X + h * scheme.defect_rate @ rate(t, X[c]))
            X[1:] -= step
            if np.max(np.abs(step)) < 1e-14:
                break
        else:
            raise AssertionError("Newton's method did not converge")
        states.append(X)
    return np.array(states)


def observed(errors, floor=1e-14):
    """Order from the finest two of the errors at 4, 8, 16, 32 intervals that stand above rounding."""
    above = [k for k in range(1, 4) if errors[k] > floor]
    return np.log2(errors[above[-1] - 1] / errors[above[-1]])


@pytest.mark.parametrize(("name", "degree"), EVERY)
def test_observed_orders(name, degree):
    """At the ends of intervals the order of the scheme, within them at least that of its polynomial, of degree K."""
    scheme = make_scheme(name, degree)
    r = np.linspace(0, 1, 9)
    ends, inner = [], []
    for N in (4, 8, 16, 32):
        X, h = integrate(scheme, N), HORIZON / N
        t = np.arange(N) * h
        ends.append(np.linalg.norm((X[:, -1] - solution(t + h))[N // 4 - 1::N // 4]))
        F = rate(t[:, None] + h * scheme.nodes[scheme.collocated], X[:, scheme.collocated])
        inner.append(np.max(np.abs(X[:, :1] + h * F @ scheme.state_basis(r).T - solution(t[:, None] + h * r))))
    assert abs(observed(ends) - scheme.order) < 0.2
    assert observed(inner) > min(degree + 1, scheme.order) - 0.2


@pytest.mark.parametrize(("name", "degree"), BOTH)
def test_both_forms_give_the_same_states(name, degree):
    for N in (4, 32):
        a, b = (integrate(make_scheme(name, degree, form), N) for form in FORMS)
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "degree", "form"), LARGE)
def test_one_interval_of_many_points(name, degree, form):
    """A global polynomial: rounding accuracy at all nodes and between, at any degree offered."""
    scheme = make_scheme(name, degree, form)
    X = integrate(scheme, 1)[0]
    np.testing.assert_allclose(X, solution(HORIZON * scheme.nodes), rtol=0, atol=1e-12)
    r, c = np.linspace(0, 1, 301), scheme.collocated
    x = X[0] + HORIZON * scheme.state_basis(r) @ rate(HORIZON * scheme.nodes[c], X[c])
    np.testing.assert_allclose(x, solution(HORIZON * r), rtol=0, atol=1e-12)


# --- controls -----------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("name", "degree"), EVERY)
def test_control_shapes(name, degree):
    scheme = make_scheme(name, degree)
    r = np.random.default_rng(3).uniform(size=(4, 2))
    polynomial, held, linear = (control_shape(shape, scheme) for shape in CONTROLS)
    np.testing.assert_array_equal(polynomial.points, scheme.nodes[scheme.collocated])
    np.testing.assert_array_equal(polynomial.basis(r), scheme.control_basis(r))
    np.testing.assert_array_equal(held.points, [0.0])
    np.testing.assert_array_equal(held.basis(r), np.ones((4, 2, 1)))
    np.testing.assert_array_equal(held.basis(np.array([0.0, 1.0])), np.ones((2, 1)))
    np.testing.assert_array_equal(linear.points, [0.0, 1.0])
    np.testing.assert_allclose(linear.basis(r), np.stack([1 - r, r], axis=-1), atol=1e-15)
    np.testing.assert_array_equal(linear.basis(np.array([0.0, 1.0])), np.eye(2))
    assert [shape.name for shape in (polynomial, held, linear)] == list(CONTROLS)
    with pytest.raises(ValueError, match="read-only"):
        held.points[0] = 1


def test_an_unknown_control_shape():
    with pytest.raises(ProblemError, match=r"^controls: no control shape named 'lineer'; did you mean 'linear'"):
        control_shape("lineer", make_scheme("gauss"))
