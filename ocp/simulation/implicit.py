"""Steps of BDF1, SDIRK2 and BDF2 (``dynamics.redmax.schemes``), as residuals of positions where the system is a mechanism in flat
coordinates, else of whole states in the chart of the state where the step begins.

A past state X_j with its rate is seen there as y_j = x [-] X_j with y_j' = D(x [-] X_j) N(X_j) xi_j; with the scheme's weights the
next node solves ``y - sum a_j y_j - h sum b_j y_j' = gamma h y'``, the equations of a flat space.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from dynamics.errors import ModelError
from dynamics.kernels import compile_kernel, compile_many
from dynamics.redmax import implicit as positions
from dynamics.redmax.parameters import flat_coordinates
from dynamics.redmax.schemes import Part, parts
from ocp.problem import System
from ocp.simulation.stepper import INLINE, StepError

#: most iterations of Newton, most halvings of one, and what counts as solved: a move this small beside the state, or so small and
#: not shrinking any more
ITERATIONS, HALVINGS, SOLVED, ROUNDED = 50, 20, 1e-12, 1e-8

Node = Any


class Task(NamedTuple):
    """One solve: its part of the step and past nodes, the newest node and how far ahead of it the new one is [s], its time [s], the
    control, and the length of the step [s]."""

    part: Part
    past: Sequence[Node]
    newest: Node
    ahead: float
    t: float
    u: np.ndarray
    h: float


class Equations(Protocol):
    """What a scheme solves, in a form of its own."""

    notes: tuple[str, ...]

    def begin(self, x: np.ndarray) -> Node:
        """The node of a state [nx]."""

    def state(self, node: Node) -> np.ndarray:
        """The state [nx] of a node."""

    def solve(self, task: Task) -> Node:
        """Raises StepError."""


class ImplicitSteps:
    """Steps of an implicit scheme; one that looks back begins anew where the state is set or the step changes its length."""

    def __init__(self, system: System, method: str, integrands: Sequence[ca.Function] = (), mode: str = "auto"):
        self._method, self._p = method, np.array(system.parameter_values, float)
        self._equations: Equations = Mechanical(system, mode) if mechanical(system) else Whole(system, mode)
        self._integrand = None if not integrands else compile_kernel(_stacked(integrands), mode)  # type: ignore[arg-type]
        self._count = len(integrands)
        self.notes = (self._equations.notes if self._integrand is None else (*self._equations.notes, *self._integrand.notes))
        self.reset(system.space.neutral)

    def reset(self, x: ArrayLike, t: float = 0.0) -> None:
        self._t, self._here, self._before = t, self._equations.begin(np.array(x, float)), None
        self._h, self.risen = 0.0, np.zeros(self._count)

    def measure(self) -> np.ndarray:
        return self._equations.state(self._here)

    def step(self, u: ArrayLike, dt: float) -> np.ndarray:
        u = np.asarray(u, float)
        first = self._before is None or abs(dt - self._h) > 1e-9 * dt
        nodes, own = {0: self._here, -1: self._before}, parts(self._method, first)
        # integrals are states of the scheme, too: 0 where the step begins
        values, rates = {0: np.zeros(self._count), -1: -self.risen}, {0: np.zeros(self._count), -1: np.zeros(self._count)}
        ahead = np.diff([0.0, *(part.time for part in own)]) * dt
        for k, part in enumerate(own, 1):
            t = self._t + part.time * dt
            task = Task(part, [nodes[j] for j in part.past], nodes[k - 1], float(ahead[k - 1]), t, u, dt)
            nodes[k] = self._equations.solve(task)
            rates[k] = self._rates(t, self._equations.state(nodes[k]), u)
            values[k] = part.stage.gamma * dt * rates[k] + sum(
                w.a * values[j] + dt * w.b * rates[j] for w, j in zip(part.stage.weights, part.past, strict=True))
        self._before, self._here, self._h, self._t = self._here, nodes[len(own)], dt, self._t + dt
        self.risen = values[len(own)]
        return self.measure()

    def _rates(self, t: float, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return np.zeros(0) if self._integrand is None else np.atleast_1d(self._integrand(t, x, u, self._p))


def _stacked(functions: Sequence[ca.Function]) -> ca.Function:
    kind = ca.SX if all(f.is_a("SXFunction") for f in functions) else ca.MX
    arguments = [kind.sym(name, functions[0].numel_in(i)) for i, name in enumerate("txup")]
    return ca.Function("integrands", arguments, [ca.densify(ca.vertcat(*(f(*arguments) for f in functions)))])


def mechanical(system: System) -> bool:
    """Whether the positions of a mechanism alone are the unknowns: no constraints, no joints in quaternions."""
    if system.mechanism is None or system.mechanism.constraints:
        return False
    try:
        flat_coordinates(system.mechanism)
    except ModelError:
        return False
    return True


class Mechanical:
    """Nodes (q, v, a) of a mechanism; no mass matrix is inverted."""

    notes: tuple[str, ...] = ()

    def __init__(self, system: System, mode: str):
        self._system = positions.system(system.mechanism, mode=mode)
        self._n, self._options = system.mechanism.model.nv, positions.Options(tolerance=1e-13)

    def begin(self, x: np.ndarray) -> np.ndarray:
        return np.array([x[:self._n], x[self._n:], np.zeros(self._n)])

    def state(self, node: np.ndarray) -> np.ndarray:
        return node[:2].ravel()

    def solve(self, task: Task) -> np.ndarray:
        step = positions.Step(self._system, task.part.stage, task.past, task.h, (task.u, self._system.nominal))
        try:
            return step.newton(task.newest[0] + task.ahead * task.newest[1], self._options)[0]
        except positions.StepFailed as failed:
            worst = int(np.argmax(np.abs(failed.residual)))
            raise StepError(self._system.mechanism.model.velocity_names[worst], float(np.abs(failed.residual[worst])), failed.why
                            ) from None


class Whole:
    """Nodes (x, xi) of any explicit system, xi [ndx] its tangent rate there, None where it is not known."""

    def __init__(self, system: System, mode: str):
        self._names, self._p = system.space.tangent_names, np.array(system.parameter_values, float)
        self._equation, self._seen, self._plus = compile_many(_equation(system), mode=mode)  # type: ignore[arg-type]
        self.notes = self._equation.notes
        self._n = system.space.ndx

    def begin(self, x: np.ndarray) -> Node:
        return x, None

    def state(self, node: Node) -> np.ndarray:
        return np.array(node[0])

    def solve(self, task: Task) -> Node:
        base, stage, h = task.past[0][0], task.part.stage, task.h
        known = np.zeros(self._n)
        for weight, (x, xi) in zip(stage.weights, task.past, strict=True):
            y, slope = self._seen(base, x, np.zeros(self._n) if xi is None else xi)
            known += weight.a * np.atleast_1d(y) + h * weight.b * np.atleast_1d(slope)
        x, xi = task.newest
        guess = np.atleast_1d(self._seen(base, self._plus(x, task.ahead * (np.zeros(self._n) if xi is None else xi)), known)[0])
        arguments = (known, base, task.t, task.u, self._p, stage.gamma * h)
        if xi is None and not np.all(np.isfinite(self._at(guess, arguments)[1])):
            guess = guess - self._at(guess, arguments)[0]  # an explicit step: a start from rest may have no derivatives
        y, xi = self._newton(guess if np.all(np.isfinite(guess)) else known, arguments, 1.0 + np.abs(base).max(initial=0.0))
        return np.atleast_1d(self._plus(base, y)), xi

    def _newton(self, y: np.ndarray, arguments: tuple[Any, ...], size: float) -> tuple[np.ndarray, np.ndarray]:
        """y [n] and the rate there. A move counts as solved where it is small, or where rounding lets it shrink no further."""
        before = np.inf
        F, J, xi = self._at(y, arguments)
        for _ in range(ITERATIONS):
            if not (np.all(np.isfinite(F)) and np.all(np.isfinite(J))):
                raise StepError(self._names[int(np.argmin(np.isfinite(F) & np.isfinite(J).all(axis=1)))], float("nan"),
                                "the equations of the step are not finite")
            try:
                inverse = np.linalg.inv(J)
            except np.linalg.LinAlgError:
                raise self._failed(F, F, "the Newton matrix is singular") from None
            move = -inverse @ F
            length = np.abs(move).max(initial=0.0)
            if length <= SOLVED * size or (length <= ROUNDED * size and length > before / 2):
                return y + move, self._at(y + move, arguments)[2]
            share = 1.0
            for _ in range(HALVINGS):
                F, J, xi = self._at(y + share * move, arguments)
                if np.abs(inverse @ F).max(initial=0.0) < length:  # False for NaN
                    break
                share /= 2
            else:
                share = 1.0
                F, J, xi = self._at(y + move, arguments)
            y, before = y + share * move, length
        raise self._failed(F, move, f"no convergence in {ITERATIONS} iterations of Newton")

    def _at(self, y: np.ndarray, arguments: tuple[Any, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        F, J, xi = self._equation(y, *arguments)
        return np.reshape(F, self._n), np.reshape(J, (self._n, self._n)), np.reshape(xi, self._n)

    def _failed(self, F: np.ndarray, move: np.ndarray, why: str) -> StepError:
        worst = int(np.argmax(np.abs(move)))
        return StepError(self._names[worst], float(np.abs(F[worst])), why)


def _equation(system: System) -> list[ca.Function]:
    """(y, known, base, t, u, p, s) -> F, dF/dy, xi; (base, x, xi) -> x seen from there, and its rate; (x, dx) -> x [+] dx."""
    space, n = system.space, system.space.ndx
    c, X, d = ca.SX.sym("c", space.nx), ca.SX.sym("X", space.nx), ca.SX.sym("d", n)
    apart = ca.densify(ca.SX(space.minus(c, X)))
    turned = ca.densify(ca.SX(ca.jtimes(apart, X, ca.mtimes(space.rate(X), d))))
    seen = ca.Function("seen", [c, X, d], [apart, turned])
    plus = ca.Function("plus", [c, d], [ca.densify(ca.SX(space.plus(c, d)))])
    scalar = system.rate.is_a("SXFunction") and system.rate.n_instructions() <= INLINE
    sym = ca.SX.sym if scalar else ca.MX.sym
    inputs = [sym(name, size) for name, size in (
        ("y", n), ("known", n), ("base", space.nx), ("t", 1), ("u", system.nu), ("p", system.np), ("s", 1))]
    y, known, base, t, u, p, s = inputs
    x = plus(base, y)
    xi = system.rate(t, x, u, p)
    F = y - known - s * seen(base, x, xi)[1]
    return [ca.Function("equation", inputs, [ca.densify(F), ca.densify(ca.jacobian(F, y)), ca.densify(xi)]), seen, plus]
