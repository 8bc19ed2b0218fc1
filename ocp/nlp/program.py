"""Nonlinear programs with named rows and columns, and the residuals of their first-order conditions.

    minimise f(x)   subject to   g_lower <= g(x) <= g_upper,   x_lower <= x <= x_upper

Lagrangian ``L = f(x) + lam_g' g(x) + lam_x' x``. A multiplier is positive where the upper bound is active, negative
where the lower bound is, and of either sign on equalities and fixed variables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.nlp.names import Names
from ocp.nlp.separable import Separable
from ocp.nlp.stages import Stages, Timeline
from ocp.nlp.values import Values
from ocp.nlp.whole import Whole
from ocp.problem import Finding, Kind

#: s_max of the scaling of KKT residuals; Waechter and Biegler 2006, Eq. 5 and below
S_MAX = 100.0


@dataclass(frozen=True)
class Functions:
    """The functions of a program, ready made, as ``NLP`` describes them."""

    f: ca.Function
    g: ca.Function
    grad: ca.Function
    jac: ca.Function
    hess: ca.Function
    gauss_newton: ca.Function | None = None


@dataclass(frozen=True)
class NLP:
    """A nonlinear program with exact sparse derivatives, each a CasADi Function of the variables x [n].

    functions: ready made, or those of a program given by its elements, each built when somebody asks for it:
        f(x) -> f;  g(x) -> g [m];  grad(x) -> (f, gradient [n]);  jac(x) -> (g, Jacobian [m, n], sparse)
        hess(x, sigma, lam_g) -> upper triangle [n, n] of the Hessian of ``sigma f + lam_g' g``, sparse
        gauss_newton(x, sigma) -> upper triangle [n, n] of sigma times a positive semidefinite approximation of the Hessian of f
    variables [n], constraints [m]: a name for each column and row, in the user's words
    diagnose(x): a finding for each user function that is not finite at x; None where nothing is known
    keep: what the functions call and must live as long as they do
    defects: constraints of the equations of motion, none where nothing is known of them; algebraic: variables that equations of the
        system determine, whose guess solves these: its rounding is no unit
    stages: the structure of optimal control where the program has it; timeline: where copies would give it, see ``ocp.nlp.stages``
    """

    functions: Functions | Whole
    x0: np.ndarray
    x_lower: np.ndarray
    x_upper: np.ndarray
    g_lower: np.ndarray
    g_upper: np.ndarray
    variables: tuple[str, ...] | Names
    constraints: tuple[str, ...] | Names
    diagnose: Callable[[np.ndarray], tuple[Finding, ...]] | None = None
    keep: Any = None
    defects: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))
    algebraic: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))
    stages: Stages | None = None
    timeline: Timeline | None = None

    def __post_init__(self) -> None:
        sizes = {"x0": self.n, "x_lower": self.n, "x_upper": self.n, "g_lower": self.m, "g_upper": self.m}
        for name, size in sizes.items():
            if np.shape(getattr(self, name)) != (size,):
                raise ProblemError(f"{name} needs {size} values, got shape {np.shape(getattr(self, name))}", where="nlp")
        self._check_order("xg")

    def _check_order(self, kinds: str) -> None:
        for kind in kinds:
            lower, upper, names = ((self.x_lower, self.x_upper, self.variables) if kind == "x" else
                                   (self.g_lower, self.g_upper, self.constraints))
            for i in () if (lower <= upper).all() else np.flatnonzero(~(lower <= upper)):
                raise ProblemError(f"lower bound {lower[i]:.6g} is not below upper bound {upper[i]:.6g}", where=names[i])

    def limited(self, **limits: np.ndarray) -> NLP:
        """With another guess, bounds or limits, of the same sizes; ``dataclasses.replace`` would ask for these once more."""
        found = object.__new__(NLP)
        vars(found).update(vars(self), **limits)
        found._check_order("xg" if "g_lower" in limits or "g_upper" in limits else "x")
        return found

    @property
    def f(self) -> ca.Function:
        """Objective (x) -> f."""
        return self.functions.f

    @property
    def g(self) -> ca.Function:
        """Constraint functions (x) -> g [m]."""
        return self.functions.g

    @property
    def grad(self) -> ca.Function:
        """Gradient of the objective (x) -> [n]."""
        return self.functions.grad

    @property
    def jac(self) -> ca.Function:
        """Jacobian of the constraints (x) -> [m, n], sparse."""
        return self.functions.jac

    @property
    def hess(self) -> ca.Function:
        """Upper triangle of the Lagrangian's Hessian (x, sigma, lam) -> [n, n], sparse."""
        return self.functions.hess

    @property
    def gauss_newton(self) -> ca.Function | None:
        """Gauss-Newton approximation of the Hessian, or None."""
        return self.functions.gauss_newton

    @property
    def separable(self) -> Separable | None:
        """The same program by its elements, where it is made of such."""
        return self.functions.separable if isinstance(self.functions, Whole) else None

    def built(self, *names: str) -> bool:
        """Whether these functions stand ready."""
        return not isinstance(self.functions, Whole) or all(name in vars(self.functions) for name in names)

    @property
    def n(self) -> int:
        """Number of variables."""
        return len(self.variables)

    @property
    def m(self) -> int:
        """Number of constraints."""
        return len(self.constraints)


@dataclass(frozen=True)
class KKT:
    """Residuals of the first-order conditions; violation [m] per row and bound_violation [n] per column, unscaled."""

    stationarity: float
    complementarity: float
    violation: np.ndarray
    bound_violation: np.ndarray

    @property
    def largest_violation(self) -> float:
        """Largest violation of constraints and bounds."""
        return float(max(np.max(self.violation, initial=0.0), np.max(self.bound_violation, initial=0.0)))


def kkt(nlp: NLP, x: np.ndarray, lam_x: np.ndarray, lam_g: np.ndarray) -> KKT:
    """Residuals of the first-order conditions at x, evaluated from the functions (signs: module docstring).

    stationarity: inf-norm of ``grad f + J' lam_g + lam_x`` over s_d, where a fixed variable is left out because its
    bound takes any force; complementarity: largest ``|multiplier| * distance to its bound`` over s_c, and the
    multiplier itself where that bound is infinite; s_d, s_c as in Waechter and Biegler 2006 below Eq. 5.
    """
    gradient, g, pulled = _firsts(nlp, x, lam_g)
    residual = gradient + pulled + lam_x
    free = nlp.x_lower < nlp.x_upper
    s_d = max(S_MAX, (np.abs(lam_x).sum() + np.abs(lam_g).sum()) / max(1, nlp.n + nlp.m)) / S_MAX
    products, forces = [0.0], [0.0]
    for value, lower, upper, lam in ((x, nlp.x_lower, nlp.x_upper, lam_x), (g, nlp.g_lower, nlp.g_upper, lam_g)):
        for bound, force in ((upper, np.maximum(lam, 0)), (lower, np.maximum(-lam, 0))):
            distance = np.where(np.isfinite(bound), np.abs(bound - value), 1.0)
            products += list((distance * force)[lower < upper])
            forces += list(force[lower < upper])
    s_c = max(S_MAX, float(np.mean(forces))) / S_MAX
    return KKT(
        stationarity=float(np.max(np.abs(residual[free]), initial=0.0)) / s_d,
        complementarity=float(np.max(products)) / s_c,
        violation=outside(g, nlp.g_lower, nlp.g_upper),
        bound_violation=outside(np.asarray(x), nlp.x_lower, nlp.x_upper),
    )


class FirstOrder(NamedTuple):
    """The gradient of f [n], g [m], and J' lam_g [n]."""

    gradient: np.ndarray
    g: np.ndarray
    pulled: np.ndarray


def _firsts(nlp: NLP, x: np.ndarray, lam_g: np.ndarray) -> FirstOrder:
    """(gradient of f [n], g [m], J' lam_g [n]) at x."""
    if nlp.separable is not None and not nlp.built("grad", "jac"):  # once over the elements is faster than building functions
        matrix, values = nlp.separable.jacobian, Values(nlp.separable, x)
        g, slopes = values.g_and_jacobian()
        column = np.repeat(np.arange(nlp.n), np.diff(matrix.indptr))
        return FirstOrder(values.gradient(), g, np.bincount(column, slopes * np.asarray(lam_g)[matrix.rows], nlp.n))
    at = np.asarray(x, dtype=float).tolist()  # CasADi takes lists several times faster than arrays
    g, jacobian = nlp.jac(at)
    pulled = ca.mtimes(jacobian.T, ca.DM(np.asarray(lam_g, dtype=float).tolist()))
    return FirstOrder(nlp.grad(at)[1].full().ravel(), g.full().ravel(), pulled.full().ravel())


def _rows(nlp: NLP, x: np.ndarray) -> np.ndarray:
    """g [m] at x."""
    if nlp.separable is not None and not nlp.built("g"):
        return Values(nlp.separable, x).g()
    return np.asarray(nlp.g(np.asarray(x, dtype=float).tolist()).full().ravel())


def violation(nlp: NLP, x: np.ndarray) -> float:
    """The sum of all violations at x, of constraints and bounds: what a search for a feasible point minimises."""
    return float(np.sum(outside(_rows(nlp, x), nlp.g_lower, nlp.g_upper)) + np.sum(outside(x, nlp.x_lower, nlp.x_upper)))


def worst_violations(nlp: NLP, x: np.ndarray, count: int = 3) -> tuple[tuple[str, float], ...]:
    """Names and sizes of the ``count`` largest violations among the constraints and the bounds, largest first."""
    rows = outside(_rows(nlp, x), nlp.g_lower, nlp.g_upper)
    columns = outside(np.asarray(x), nlp.x_lower, nlp.x_upper)
    values = np.nan_to_num(np.concatenate([rows, columns]), nan=np.inf)
    worst = [int(i) for i in np.argsort(-values, kind="stable")[:count] if values[i] != 0]
    return tuple((nlp.constraints[i] if i < nlp.m else f"bound of {nlp.variables[i - nlp.m]}", float(values[i])) for i in worst)


def not_finite(nlp: NLP, x: np.ndarray, limit: int = 3) -> tuple[Finding, ...]:
    """What is NaN or infinite at x: user functions, else rows and columns of the program."""
    if nlp.diagnose is not None and (found := nlp.diagnose(x)):
        return found[:limit]
    rows = [Finding(Kind.CONSTRAINT_NOT_FINITE, name=name) for name, value in zip(nlp.constraints, _rows(nlp, x), strict=True)
            if not np.isfinite(value)]
    if not np.isfinite(float(nlp.f(x))):
        rows.insert(0, Finding(Kind.OBJECTIVE_NOT_FINITE))
    if not rows:
        gradient, jacobian = nlp.grad(x)[1].full().ravel(), nlp.jac(x)[1]
        rows = [Finding(Kind.GRADIENT_NOT_FINITE, name=name)
                for name, value in zip(nlp.variables, gradient, strict=True) if not np.isfinite(value)]
        rows += [Finding(Kind.JACOBIAN_NOT_FINITE, name=nlp.constraints[i], data={"variable": nlp.variables[j]})
                 for i, j, value in zip(*jacobian.sparsity().get_triplet(), jacobian.nonzeros(), strict=True)
                 if not np.isfinite(value)]
    return tuple(rows[:limit])


def outside(value: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """How far each value lies outside its interval."""
    return np.maximum(0.0, np.maximum(lower - value, value - upper))
