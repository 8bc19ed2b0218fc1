"""The terms of a problem, the functions that differentiate them, and the points at which these are compared: on the guess, and
around it within bounds.

Every term f(t, x, u, p) becomes a function of the displacement z = (dx, du, dp, dt) of a point, dx in the tangent space of the
state manifold, and its derivatives are those by z at z = 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import casadi as ca
import numpy as np

from dynamics.derivatives.complex_step import complex_step_jacobian
from dynamics.errors import ModelError
from dynamics.kernels.tape import codes
from ocp.derivative_check.records import Method, Point
from ocp.guesses.sampling import on_manifold, sample_guess
from ocp.problem import At, Bounds, Phase, System

_SPREAD = 0.3  # standard deviation of a perturbation where no bounds give a scale
_SHARE = 0.2  # the same as a share of the distance between bounds


def path_points(phase: Phase, begin: float, count: int, rng: np.random.Generator) -> tuple[Point, ...]:
    """``count`` points on the guess at even fractions and one random neighbour of each. begin: time at the phase's start."""
    return tuple(p for s in np.linspace(0, 1, count) for p in (_guess_point(phase, begin, float(s)),
                                                              _neighbour(phase, begin, float(s), rng)))


def end_points(phase: Phase, begin: float, fraction: float, count: int, rng: np.random.Generator) -> tuple[Point, ...]:
    """The guess at one end (fraction 0 or 1) and ``count`` random neighbours."""
    around = (_neighbour(phase, begin, fraction, rng, moved_time=False) for _ in range(count))
    return (_guess_point(phase, begin, fraction), *around)


def _guess_point(phase: Phase, begin: float, s: float) -> Point:
    x, u = (a[0] for a in sample_guess(phase.guess, phase.system.space, np.array([s])))
    x, u = _inside(phase, x, u)
    return _point(phase, f"guess at {s:g} of the phase", True, begin + s * phase.duration.guess, x, u,
                  np.array(phase.system.parameter_values, float))


def _neighbour(phase: Phase, begin: float, s: float, rng: np.random.Generator, *, moved_time: bool = True) -> Point:
    system, space = phase.system, phase.system.space
    at = _guess_point(phase, begin, s)
    spread = space.by_tangent(_deviation(phase.state_bounds, at.x), _SPREAD)
    moved = space.plus(ca.DM(at.x), ca.DM(spread * rng.standard_normal(space.ndx)))
    x = on_manifold(space, np.array(ca.DM(moved)).ravel())
    u = at.u + _deviation(phase.control_bounds, at.u) * rng.standard_normal(system.nu)
    p = at.p * (1 + 0.1 * rng.uniform(-1, 1, system.np))
    t = begin + phase.duration.guess * rng.uniform() if moved_time else at.t
    return _point(phase, f"random neighbour of the guess at {s:g}", False, t, *_inside(phase, x, u), p)


def _deviation(bounds: Bounds, values: np.ndarray) -> np.ndarray:
    """Sizes of perturbations [n]."""
    return np.where(np.isfinite(bounds.width), _SHARE * bounds.width, _SPREAD * np.maximum(1.0, np.abs(values)))


def _inside(phase: Phase, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The point moved to the nearest one within the bounds; bounds on curved coordinates are left alone."""
    flat = np.array(phase.system.space.tangent_index, int) >= 0
    return np.where(flat, phase.state_bounds.clip(x), x), phase.control_bounds.clip(u)


def _point(phase: Phase, label: str, guess: bool, t: float, x: np.ndarray, u: np.ndarray, p: np.ndarray) -> Point:
    system = phase.system
    names = (*system.space.names, *system.inputs, *system.parameters, "t")
    return Point(label, guess, float(t), x, u, p, dict(zip(names, np.r_[x, u, p, t].tolist(), strict=True)))


_ENDS = {At.START: "start", At.PATH: "running", At.FINAL: "final", At.INTEGRAL: "integral"}
_ROUGH = {ca.OP_FABS: "abs", ca.OP_SIGN: "sign", ca.OP_FMIN: "min", ca.OP_FMAX: "max", ca.OP_FLOOR: "floor",
          ca.OP_CEIL: "ceil", ca.OP_FMOD: "modulo", ca.OP_REMAINDER: "remainder", ca.OP_COPYSIGN: "copysign"}


@dataclass(frozen=True)
class Term:
    """A function of the problem, what its outputs are called, and where it is compared. closed: of the same values, with
    derivatives in closed form."""

    phase: Phase
    kind: str
    name: str
    location: str | None
    function: ca.Function
    components: tuple[str, ...]
    points: tuple[Point, ...]
    at: At = At.PATH
    closed: ca.Function | None = None

    @property
    def size(self) -> int:
        """Number of components."""
        return len(self.components)

    @property
    def cost(self) -> bool:
        """Whether the term belongs to the objective."""
        return self.kind.endswith(("cost", "residual"))


def terms_of(phase: Phase, begin: float, count: int, rng: np.random.Generator, closed: Phase | None = None) -> Iterator[Term]:
    """All terms of a phase that begins at time ``begin`` [s]. closed: the phase with derivatives in closed form
    (``ocp.derivatives.differentiated_phase``), None where there are none."""
    system, twin = phase.system, phase if closed is None else closed
    path = path_points(phase, begin, count, rng)
    points = {At.PATH: path, At.INTEGRAL: path, At.START: end_points(phase, begin, 0.0, count, rng),
              At.FINAL: end_points(phase, begin, 1.0, count, rng)}
    rates = tuple(f"rate of {name}" for name in system.space.tangent_names)
    yield Term(phase, "rate", system.name, None, system.rate, rates, points[At.PATH],
               closed=None if closed is None else closed.system.rate)
    for kind, function in (("energy", system.energy), ("power", system.power)):
        if function is not None:
            yield Term(phase, kind, system.name, None, function, (kind,), points[At.PATH])
    for cost, other in zip(phase.costs, twin.costs, strict=True):
        size, what = cost.function.numel_out(0), "cost" if cost.weights is None else "residual"
        yield Term(phase, f"{_ENDS[cost.at]} {what}", cost.name, None, cost.function, _numbered(cost.name, size), points[cost.at],
                   cost.at, None if other is cost else other.function)
    for c, same in zip(phase.constraints, twin.constraints, strict=True):
        word = "path" if c.at is At.PATH else _ENDS[c.at]
        yield Term(phase, f"{word} constraint", c.name, c.where, c.function, c.components(), points[c.at], c.at,
                   None if same is c else same.function)


def _numbered(name: str, size: int) -> tuple[str, ...]:
    return (name,) if size == 1 else tuple(f"{name}[{i}]" for i in range(size))


def variables(system: System) -> tuple[str, ...]:
    """Name of every component of z."""
    return (*system.space.tangent_names, *system.inputs, *system.parameters, "t")


@dataclass(frozen=True)
class Moves:
    """x [+] dx as Functions (x, dx) -> x: exact, and the polynomial that has its derivatives up to the second."""

    plus: ca.Function
    jet: ca.Function


def moves(system: System) -> Moves:
    """Displacements of the state by a tangent vector, exact and to first order."""
    space = system.space
    x, d = ca.SX.sym("x", space.nx), ca.SX.sym("d", space.ndx)
    plus, jet = (ca.Function(name, [x, d], [ca.densify(move(x, d))]) for name, move in (("plus", space.plus), ("jet", space.jet)))
    return Moves(plus, jet)


@dataclass(frozen=True)
class Derivatives:
    """Functions of (z, t, x, u, p); those of second order end in lam [m].

    value: y [m], moved by [+]; gradient: of ``lam' y``; jacobians, hessians: [m, n] and [n, n] by each method that there is, but
    differences; methods: for first and second derivatives, with the reasons of those that there are not
    """

    value: ca.Function
    gradient: ca.Function
    jacobians: Mapping[str, ca.Function]
    hessians: Mapping[str, ca.Function]
    methods: tuple[tuple[Method, ...], tuple[Method, ...]]


def derivatives(term: Term, moved: Moves, without: str, *, second: bool) -> Derivatives:
    """By all methods. without: why the rate has no closed form."""
    value, jacobian, gradient, hessian = _graphs(term, term.function, moved)
    jacobians, hessians = {"ad": jacobian}, {"ad": hessian} if second else {}
    notes: list[str] = []
    for found, function in ((jacobians, value), (hessians, gradient)) if second else ((jacobians, value),):
        try:
            found["complex step"] = complex_step_jacobian(function)
            notes.append("")
        except ModelError as error:
            notes.append(str(error))
    if term.closed is not None:
        _, jacobians["closed form"], _, closed = _graphs(term, term.closed, moved)
        hessians |= {"closed form": closed} if second else {}
    extra = (Method("closed form", term.closed is not None, without),) if term.kind == "rate" or term.closed is not None else ()
    methods = tuple((Method("ad", True), Method("complex step", not note, note), Method("differences", True),
                     *extra) for note in notes)
    return Derivatives(value, gradient, jacobians, hessians, (methods[0], methods[1] if second else ()))


def _graphs(term: Term, function: ca.Function, moved: Moves) -> tuple[ca.Function, ...]:
    """Values, Jacobian, gradient and Hessian in an MX graph, as a solver builds it, so that derivatives which a function brings
    along are the ones that are checked."""
    system = term.phase.system
    space = system.space
    sizes = (space.ndx, system.nu, system.np, 1)
    z, t, x, u, p, lam = (ca.MX.sym(name, size) for name, size in zip(
        ("z", "t", "x", "u", "p", "lam"), (sum(sizes), 1, space.nx, system.nu, system.np, term.size), strict=True))
    dx, du, dp, dt = ca.vertsplit(z, np.cumsum((0, *sizes)).tolist())
    arguments, names = [z, t, x, u, p], ["z", "t", "x", "u", "p"]

    def composed(move: ca.Function) -> ca.MX:
        return ca.densify(ca.vec(function(t + dt, move(x, dx), u + du, p + dp)))

    value = ca.Function("value", arguments, [composed(moved.plus)], names, ["y"])
    y = composed(moved.jet)
    gradient = ca.gradient(ca.dot(lam, y), z)
    with_lam = [*arguments, lam], [*names, "lam"]
    return (value, ca.Function("jacobian", arguments, [ca.densify(ca.jacobian(y, z))], names, ["J"]),
            ca.Function("gradient", with_lam[0], [ca.densify(gradient)], with_lam[1], ["g"]),
            ca.Function("hessian", with_lam[0], [ca.densify(ca.jacobian(gradient, z))], with_lam[1], ["H"]))


def dependence(value: ca.Function) -> np.ndarray:
    """Which components [m, n] depend on which variables, by propagation through the values."""
    return np.array(ca.DM(value.jac_sparsity(0, 0), 1.0)) != 0


def rough_operations(function: ca.Function) -> tuple[str, ...]:
    """Operations with kinks or jumps, as a user writes them, that the function contains."""
    try:
        expanded = function.expand()
    except RuntimeError:
        return ()
    found = codes(expanded)
    return tuple(name for op, name in _ROUGH.items() if op in found)
