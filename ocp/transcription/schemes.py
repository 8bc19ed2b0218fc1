"""Collocation schemes as small records: one interval of length h, on [0, 1].

A scheme of degree K has K collocated nodes, those of a rule of quadrature (``SCHEMES`` takes further ones), and the nodes at 0 and
1, which are shared with the neighbours. In an interval the state is a polynomial of degree K whose rate equals the system's at the
collocated nodes. With the states X [s] and these rates F [K] of one component

    defects        defect_state @ X + h defect_rate @ F = 0     [s - 1]
    integral       h quadrature @ cost at the collocated nodes
    control(r)     control_basis(r) @ U                         U [K]: controls at the collocated nodes
    state(r)       X_0 + h state_basis(r) @ F

    scheme           nodes                 order at the ends     defects
    gauss            0, c_1 .. c_K, 1      2K                    K and the end state by quadrature
    radau            0, c_1 .. c_K = 1     2K - 1                K (Radau IIA)
    radau_left       0 = c_1 .. c_K, 1     2K - 1                K (integral form: K - 1 and the end state by quadrature)
    lobatto          0 = c_1 .. c_K = 1    2K - 2                K - 1 (Lobatto IIIA)
    trapezoid        lobatto with K = 2
    hermite_simpson  lobatto with K = 3; its midpoint defect is Hermite's interpolation

Sources: Hairer, Wanner, Solving Ordinary Differential Equations II, 2nd ed. 1996, Sec. IV.5 (the methods and their orders);
Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, 2nd ed. 1993, Sec. II.7 (collocation); Kelly 2017, An
Introduction to Trajectory Optimization, SIAM Review 59(4), Secs. 3 and 4; Garg, Patterson, Hager, Rao, Benson, Huntington
2010, A Unified Framework for the Numerical Solution of Optimal Control Problems Using Pseudospectral Methods, Automatica
46(11) (the differential and the integral form and when they agree).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from dynamics.errors import near
from dynamics.tables import Table
from ocp.errors import ProblemError
from ocp.transcription import legendre

#: largest degree offered; the points hold for more
MAX_DEGREE = 128
DEFAULT_DEGREE = 3
#: "integral": X_i - X_0 - h sum_j A_ij F_j; "differential": (D X)_i - h F_i at the collocated nodes. Same solutions.
FORMS = ("integral", "differential")
CONTROLS = ("polynomial", "held", "linear")


@dataclass(frozen=True, eq=False)
class Scheme:
    """A collocation scheme (symbols: module docstring). Checks itself when made; arrays are read-only.

    ``degree``: K, number of collocated nodes and degree of the state; ``order``: of the state at the ends of intervals;
    ``nodes`` [s]: positions of the states in [0, 1]; ``collocated`` [K]: which nodes carry rates, running costs and path
    constraints; ``defect_state`` [s-1, s]; ``defect_rate`` [s-1, K]; ``quadrature`` [K]: weights, sum 1.
    """

    name: str
    degree: int
    order: int
    nodes: np.ndarray
    collocated: np.ndarray
    defect_state: np.ndarray
    defect_rate: np.ndarray
    quadrature: np.ndarray
    form: str

    def __post_init__(self) -> None:
        for field in ("nodes", "collocated", "defect_state", "defect_rate", "quadrature"):
            value = np.array(getattr(self, field), dtype=int if field == "collocated" else float)
            value.setflags(write=False)
            object.__setattr__(self, field, value)
        s, c = len(self.nodes), len(self.collocated)
        shapes = (self.defect_state.shape, self.defect_rate.shape, self.quadrature.shape)
        if shapes != ((s - 1, s), (s - 1, c), (c,)) or c != self.degree:
            raise ValueError(f"scheme {self.name!r} of degree {self.degree} with {s} nodes, {c} of them collocated, has "
                             f"defect_state, defect_rate, quadrature of shapes {shapes}")
        for condition, error in self.conditions().items():
            if not error <= self.tolerance:
                raise ValueError(f"scheme {self.name!r} violates its condition {condition!r} by {error:.3g}")

    @property
    def size(self) -> int:
        """Nodes of one interval, both ends included."""
        return len(self.nodes)

    @property
    def collocation_points(self) -> np.ndarray:
        """Collocation points [K] in [0, 1]."""
        return self.nodes[self.collocated]

    @property
    def tolerance(self) -> float:
        """Largest error of ``conditions``: rounding of the evaluation points, times the derivative of the basis at the ends, about
        K^2."""
        return max(1e-14, 2e-16 * self.degree**2)

    def control_basis(self, r: Any) -> np.ndarray:
        """Of the controls, and of the rate of the state polynomial: Lagrange polynomials through the collocated nodes at the
        evaluation points r [...] of [0, 1]: [..., K]."""
        return legendre.value_matrix(self.collocation_points, r)

    def state_basis(self, r: Any) -> np.ndarray:
        """Integrals from 0 to the evaluation points r [...] of ``control_basis``: [..., K];
        ``x(r) = X_0 + h state_basis(r) @ F``."""
        return legendre.legendre_integrals(r, self.degree) @ self._transform

    @cached_property
    def _transform(self) -> np.ndarray:
        return legendre.legendre_transform(self.collocation_points, self.quadrature)

    def conditions(self) -> dict[str, float]:
        """Errors of the conditions that make this a collocation scheme of its order; all zero up to rounding.

        The quadrature fixes the order at the ends (Hairer, Norsett, Wanner, Sec. II.7); the defects must vanish for
        the polynomials of degree 0 .. K and for nothing else. Polynomials are tried as Legendre polynomials, and the
        integrals of the basis by a rule of Gauss. Errors of the defects count relative to their largest coefficient.
        """
        c, w, K = self.collocation_points, self.quadrature, self.degree
        D, W, size = self.defect_state, self.defect_rate, float(np.max(np.abs(self.defect_state)))
        moments = w @ legendre.legendre(c, self.order) - np.eye(self.order)[0]
        polynomials = D @ legendre.legendre_integrals(self.nodes, K) + W @ legendre.legendre(c, K)
        q, v = legendre.gauss((K + 1) // 2)
        r = np.concatenate([self.nodes, np.linspace(0.0, 1.0, 7)])
        integrals = r[:, None] * np.einsum("q,rqi->ri", v, self.control_basis(r[:, None] * q))
        return {
            "first node at 0, last at 1": float(abs(self.nodes[0]) + abs(self.nodes[-1] - 1)),
            "nodes increase": float(np.max(np.diff(self.nodes) <= 0)),
            "weights sum to 1": float(abs(w.sum() - 1)),
            "quadrature order": float(np.max(np.abs(moments))),
            "defects exact for constants": float(np.max(np.abs(D.sum(axis=1)))) / size,
            "defects exact for polynomials": float(np.max(np.abs(polynomials))) / size,
            "as many independent defects as new nodes": abs(float(np.linalg.matrix_rank(D[:, 1:])) - (self.size - 1)),
            "control through its nodes": float(np.max(np.abs(legendre.legendre(c, K) @ self._transform - np.eye(K)))),
            "state basis is the integral of the control basis": float(np.max(np.abs(self.state_basis(r) - integrals))),
        }


@dataclass(frozen=True, eq=False)
class ControlShape:
    """How a control runs within an interval: the polynomial through its values at ``points`` [m] of [0, 1].

    A value at 1 is shared with the next interval's value at 0 where the shape has both.
    """

    name: str
    points: np.ndarray

    def basis(self, r: Any) -> np.ndarray:
        """``u(r) = basis(r) @ U`` at the evaluation points r [...] of [0, 1], U [m] the values at ``points``: [..., m]."""
        return legendre.value_matrix(self.points, r)


@dataclass(frozen=True)
class PointFamily:
    """Schemes that collocate at the points of one family of quadrature rules.

    rule(K): points and weights [K] on [0, 1], exact for polynomials of degree ``order(K)`` - 1; order: of the states at the ends of
    intervals; lowest: degree; only: the one degree of this name; differential: whether the points, with the start of an interval
    where it is none of them, fix the polynomial of the state, so that there is a differential form.
    """

    name: str
    rule: Callable[[int], legendre.Rule]
    order: Callable[[int], int]
    lowest: int = 1
    only: int | None = None
    differential: bool = False


SCHEMES: Table[PointFamily] = Table("a scheme", (
    PointFamily("trapezoid", legendre.lobatto, lambda K: 2 * K - 2, 2, only=2),
    PointFamily("hermite_simpson", legendre.lobatto, lambda K: 2 * K - 2, 2, only=3),
    PointFamily("gauss", legendre.gauss, lambda K: 2 * K, differential=True),
    PointFamily("radau", legendre.radau, lambda K: 2 * K - 1, differential=True),
    PointFamily("lobatto", legendre.lobatto, lambda K: 2 * K - 2, 2),
    PointFamily("radau_left", legendre.radau_left, lambda K: 2 * K - 1, differential=True),
), ProblemError)


def make_scheme(name: str, degree: int | str | None = None, form: str = "integral") -> Scheme:
    """The scheme of this name with ``degree`` collocated nodes an interval; the same object for the same request.

    ``degree`` is 3 by default, and fixed for trapezoid (2) and hermite_simpson (3). Raises ProblemError as ``checked_degree``.
    """
    return _make(name, checked_degree(name, degree, form), form)


def checked_degree(name: str, degree: int | str | None = None, form: str = "integral") -> int:
    """The degree of what ``make_scheme`` would make. Raises ProblemError for an unknown name or form, a degree out of range or not
    the scheme's own, and a form that the scheme does not have."""
    if name not in SCHEMES:
        raise ProblemError(f"no scheme named {name!r}{near(str(name), SCHEMES)}", where="scheme")
    if form not in FORMS:
        raise ProblemError(f"no form named {form!r}{near(str(form), FORMS)}", where="form")
    family = SCHEMES[name]
    if degree is None:
        degree = family.only or DEFAULT_DEGREE
    if isinstance(degree, bool) or not isinstance(degree, int | np.integer):
        raise ProblemError(f"must be a whole number, got {degree!r}", where="degree")
    if family.only is not None and degree != family.only:
        raise ProblemError(f"{name} has degree {family.only} and no other, got {degree}; lobatto is its family with a degree to "
                           "choose", where="degree")
    if not family.lowest <= degree <= MAX_DEGREE:
        raise ProblemError(f"{name} has degrees from {family.lowest} to {MAX_DEGREE}, got {degree}", where="degree")
    if form == "differential" and not family.differential:
        able = ", ".join(one for one, other in SCHEMES.items() if other.differential)
        raise ProblemError(f"{name} has no differential form, which needs {degree + 1} states in an interval; use form "
                           f"'integral', or one of {able}", where="form")
    return int(degree)


@lru_cache(maxsize=256)
def _make(name: str, degree: int, form: str) -> Scheme:
    family = SCHEMES[name]
    c, w = family.rule(degree)
    nodes = np.concatenate([[0.0] if c[0] > 0 else [], c, [1.0] if c[-1] < 1 else []])
    collocated = np.arange(degree) + int(c[0] > 0)
    state, rate = (_differential if form == "differential" else _integral)(nodes, collocated, w)
    if name == "hermite_simpson":
        # Kelly 2017, Sec. 4: the first defect is Hermite's midpoint, the second Simpson's rule
        state = np.array(((-1 / 2, 1.0, -1 / 2), (-1.0, 0.0, 1.0)))
        rate = np.array(((-1 / 8, 0.0, 1 / 8), (-1 / 6, -2 / 3, -1 / 6)))
        w = np.array((1 / 6, 2 / 3, 1 / 6))
    return Scheme(name, degree, family.order(degree), nodes, collocated, state, rate, w, form)


def _integral(nodes: np.ndarray, collocated: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Defects X_i - X_0 - h sum_j A_ij F_j of all nodes but the first; the last row of A is the quadrature."""
    new = len(nodes) - 1
    A = legendre.integral_matrix(nodes[collocated], w, nodes[1:])
    A[-1] = w
    return np.hstack([-np.ones((new, 1)), np.eye(new)]), -A


def _differential(nodes: np.ndarray, collocated: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Defects (D X)_i - h F_i at the collocated nodes, D the derivative of the polynomial through the first K + 1 nodes; where
    there is one node more, at the end, it follows by quadrature."""
    K, new = len(collocated), len(nodes) - 1
    state, rate = np.zeros((new, new + 1)), np.zeros((new, K))
    state[:K, :K + 1] = legendre.derivative_matrix(nodes[:K + 1])[collocated]
    rate[:K] = -np.eye(K)
    if new > K:
        state[-1, 0], state[-1, -1], rate[-1] = -1.0, 1.0, -w
    return state, rate


def control_shape(name: str, scheme: Scheme) -> ControlShape:
    """The shape of this name in the intervals of ``scheme``: "polynomial" through the collocated nodes, "held" at its value at
    the start, or "linear" between the ends. Raises ProblemError for an unknown name."""
    if name not in CONTROLS:
        raise ProblemError(f"no control shape named {name!r}{near(str(name), CONTROLS)}", where="controls")
    where = {"polynomial": scheme.collocation_points, "held": np.zeros(1), "linear": np.array([0.0, 1.0])}[name]
    where.setflags(write=False)
    return ControlShape(name, where)
