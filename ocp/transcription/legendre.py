"""Legendre points on [0, 1] and polynomials through them.

The points are those of the quadrature rules of Gauss (no end), Radau (one end) and Lobatto (both ends) for the weight 1:
m of them integrate polynomials of degree 2m - 1, 2m - 2 and 2m - 3. Polynomials are never written in powers of r, whose
coefficients lose all digits near m = 30: values and derivatives use the barycentric formula (Berrut, Trefethen, Barycentric
Lagrange Interpolation, SIAM Review 46(3), 2004, Secs. 4 and 9.3), integrals the Legendre polynomials L_j(r) = P_j(2r - 1)
(Canuto, Hussaini, Quarteroni, Zang, Spectral Methods: Fundamentals in Single Domains, 2006, Sec. 2.3).
"""

from __future__ import annotations

from typing import Any

import numpy as np

Rule = tuple[np.ndarray, np.ndarray]

# Closer to a point than this counts as at the point: quotients by the distance must not overflow.
_AT = 1e-200


def gauss(m: int) -> Rule:
    """(points, weights) [m], m >= 1, on (0, 1): the zeros of P_m."""
    return _rule(_symmetric(_jacobi_roots(m, 0, 0)))


def radau(m: int) -> Rule:
    """(points, weights) [m], m >= 1, on (0, 1], the last at 1: the zeros of P_m - P_{m-1}, the points of Radau IIA."""
    return _rule(np.append(_jacobi_roots(m - 1, 1, 0), 1.0))


def radau_left(m: int) -> Rule:
    """(points, weights) [m], m >= 1, on [0, 1), the first at 0: the mirror image of ``radau``."""
    return _rule(np.append(-1.0, -_jacobi_roots(m - 1, 1, 0)[::-1]))


def lobatto(m: int) -> Rule:
    """(points, weights) [m], m >= 2, on [0, 1], both ends included: the zeros of (1 - x^2) P'_{m-1}."""
    return _rule(np.concatenate([[-1.0], _symmetric(_jacobi_roots(m - 2, 1, 1)), [1.0]]))


def legendre(r: Any, count: int) -> np.ndarray:
    """L_0 .. L_{count-1} [..., count] at the evaluation points r [...] of [0, 1]; orthogonal, the integral of L_j^2 is 1/(2j +
    1)."""
    x = 2 * np.asarray(r, dtype=float) - 1
    return np.polynomial.legendre.legvander(x, count - 1).reshape(*x.shape, count)  # NumPy makes a vector of a number


def legendre_integrals(r: Any, count: int) -> np.ndarray:
    """Integrals [..., count] of L_0 .. L_{count-1} from 0 to the evaluation points r [...]: (L_{j+1} - L_{j-1}) / (2 (2j + 1)) and
    r."""
    r = np.asarray(r, dtype=float)
    L = legendre(r, count + 1)
    later = (L[..., 2:] - L[..., :-2]) / (2 * (2 * np.arange(1, count) + 1))
    return np.concatenate([r[..., None], later], axis=-1)


def legendre_transform(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[m, m]: column i holds the coefficients in L_0 .. L_{m-1} of the Lagrange polynomial that is 1 at point i.

    Where ``weights`` integrate polynomials of degree 2m - 3 at these points, as all rules of this file do, the L_j are orthogonal
    in the discrete sum too, and no system of equations is solved.
    """
    V = legendre(points, len(points))
    found = V.T * weights / (weights @ V**2)[:, None]
    return found if np.allclose(V @ found, np.eye(len(points)), atol=1e-9) else np.linalg.inv(V)


def barycentric_weights(points: np.ndarray) -> np.ndarray:
    """[m] up to a common factor: 1 / prod_{j != i} (points_i - points_j); the largest has size 1."""
    apart = 4 * (points[:, None] - points)  # 1/4 is the capacity of [0, 1]: the products neither overflow nor vanish
    np.fill_diagonal(apart, 1.0)
    product = np.prod(apart, axis=1)
    return np.min(np.abs(product)) / product


def value_matrix(points: np.ndarray, r: Any) -> np.ndarray:
    """Lagrange polynomials through the points [m] at the evaluation points r [...]: [..., m]; exact unit vectors at the points."""
    away = np.asarray(r, dtype=float)[..., None] - points
    at = np.abs(away) < _AT
    terms = barycentric_weights(points) / np.where(at, 1.0, away)
    terms = np.where(np.any(at, axis=-1, keepdims=True), at, terms)
    return terms / np.sum(terms, axis=-1, keepdims=True)


def derivative_matrix(points: np.ndarray, r: Any = None) -> np.ndarray:
    """Derivatives of the Lagrange polynomials through the points [m] at the evaluation points r [...], by default at the points
    themselves: [..., m]. Rows of the matrix sum to 0."""
    w = barycentric_weights(points)
    away = points[:, None] - points
    np.fill_diagonal(away, 1.0)
    D = w / w[:, None] / away
    np.fill_diagonal(D, 0.0)
    np.fill_diagonal(D, -np.sum(D, axis=1))  # more accurate than its own formula: constants have derivative 0
    return D if r is None else value_matrix(points, r) @ D


def integral_matrix(points: np.ndarray, weights: np.ndarray, r: Any) -> np.ndarray:
    """Integrals from 0 to the evaluation points r [...] of the Lagrange polynomials through the points of a rule: [..., m]."""
    return legendre_integrals(r, len(points)) @ legendre_transform(points, weights)


def _jacobi_roots(n: int, a: int, b: int) -> np.ndarray:
    """Zeros [n] in (-1, 1), increasing, of the Jacobi polynomial P_n^(a,b). Up to three of a = b in closed form; else eigenvalues
    of a tridiagonal matrix (Golub, Welsch, Calculation of Gauss Quadrature Rules, Math. Comp. 23, 1969) and one Newton step, both
    by SciPy."""
    if n < 2 and a == b:
        return np.zeros(n)
    if n <= 3 and a == b:
        outer = np.sqrt((1 if n == 2 else 3) / (2 * a + 2 * n - 1))
        return np.array([-outer, *[0.0] * (n - 2), outer])
    from scipy.special import roots_jacobi  # some hundredths of a second that shooting and the usual rules need not wait for

    return np.asarray(roots_jacobi(n, a, b)[0], dtype=float) if n > 0 else np.zeros(0)


def _symmetric(x: np.ndarray) -> np.ndarray:
    return (x - x[::-1]) / 2


def _rule(x: np.ndarray) -> Rule:
    """Points of [-1, 1] moved to [0, 1], with their weights 1 / sum_j L_j^2 / g_j, a sum of positive terms.

    g_j is the discrete sum of w L_j^2: 1/(2j + 1) where the rule integrates L_j^2, so always but for Lobatto's last,
    where it is 1/(m - 1) (Canuto et al., Sec. 2.3: the discrete transform and its inverse are mutually inverse matrices).
    """
    m = len(x)
    inverse = 2.0 * np.arange(m) + 1
    if m > 1 and x[0] == -1 and x[-1] == 1:
        inverse[-1] = m - 1
    return (1 + x) / 2, 1 / (np.polynomial.legendre.legvander(x, m - 1) ** 2 @ inverse)
