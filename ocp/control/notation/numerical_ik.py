"""Textbook iterations of inverse kinematics, each step logged: for study, and for following a path to the target.

Hutter et al., Robot Dynamics lecture notes (ETH Zurich, HS 2023), section 2.9.3, Algorithm 1 and Eqs. 2.243, 2.244, 2.255; Buss
2004, "Introduction to inverse kinematics with Jacobian transpose, pseudoinverse and damped least squares methods". `solve_ik`
is the solver for use.

    rule                    step d, with e = actual minus target
    newton                  -k J+ e
    damped                  -k J'(J J' + λ² I)^-1 e
    adaptive                damped with λ by the smallest singular value (zero away from singularities)
    levenberg_marquardt     -(J'J + μ I)^-1 J'e, μ falling and rising with the decrease of |e|², steps that do not decrease it
                            refused
    transpose               -α J'e
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.errors import near
from dynamics.kernels import Kernel, compile_kernel
from dynamics.lie import rotation as rotations
from dynamics.lie import so3
from dynamics.model.model import Model
from ocp.control.pseudo_inverse import adaptively_damped_inverse, damped_inverse, pseudo_inverse
from ocp.control.task_kernel import RobotKey, compile_tasks
from ocp.control.tasks import Task
from ocp.errors import ProblemError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Equations:
    """Something to solve: evaluate(q) -> (e [m], J [m, nv]) with de/dt = J v near the solution, plus(q, d) -> q [+] d."""

    evaluate: Callable[[Array], tuple[Array, Array]]
    plus: Callable[[Array, Array], Array]


@dataclass(frozen=True)
class IterationRule:
    """One line of the table above. step: k; alpha: of the transpose; damping: λ, the largest λ of `adaptive`, or the first
    sqrt(μ); threshold: singular value below which `adaptive` damps."""

    rule: str = "newton"
    step: float = 1.0
    damping: float = 0.1
    alpha: float = 0.1
    threshold: float = 0.1

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ProblemError(f"no rule named {self.rule!r}{near(self.rule, RULES)}", where="IterationRule.rule")
        if not (self.step > 0.0 and self.alpha > 0.0 and self.damping >= 0.0 and self.threshold > 0.0):
            raise ProblemError("step, alpha and threshold must be positive, damping not negative", where="IterationRule")


RULES = ("newton", "damped", "adaptive", "levenberg_marquardt", "transpose")


@dataclass(frozen=True, eq=False)
class IterationLog:
    """q: where it stopped; converged: |e| < tolerance was seen; iterations: evaluations of e and J up to and including the
    last; errors [iterations]: |e| at each; path [iterations, nq]: the configuration of each; steps [iterations]: |d| of each
    (0: refused or last)."""

    q: Array
    converged: bool
    iterations: int
    errors: Array
    path: Array
    steps: Array


def iterate(
    equations: Equations, q0: ArrayLike, rule: IterationRule | None = None, *, tolerance: float = 1e-8, max_iterations: int = 100
) -> IterationLog:
    """Repeat the rule from q0 until |e| < tolerance. Raises ProblemError when e or J is not finite (a chart at its
    singularity)."""
    rule = rule or IterationRule()
    q = np.array(q0, float)
    errors: list[float] = []
    path: list[Array] = []
    steps: list[float] = []
    mu, best = rule.damping**2, np.inf
    kept: tuple[Array, Array, Array] | None = None
    for count in range(1, max_iterations + 1):
        e, J = equations.evaluate(q)
        size = float(np.linalg.norm(e))
        if not (np.isfinite(size) and np.isfinite(J).all()):
            raise ProblemError(
                f"errors are not finite at iteration {count}, q = {q.tolist()}", where=f"iterate, rule {rule.rule!r}"
            )
        if rule.rule == "levenberg_marquardt":
            if kept is not None and not size < best:
                mu *= 4.0
                q, e, J = kept
                size = best
            else:
                mu, best, kept = mu / 4.0, size, (q, e, J)
        errors.append(size)
        path.append(q)
        if size < tolerance:
            return _log(q, True, count, errors, path, [*steps, 0.0])
        d = _step(rule, e, J, mu)
        steps.append(float(np.linalg.norm(d)))
        q = equations.plus(q, d)
    return _log(q if kept is None else kept[0], False, max_iterations, errors, path, steps)


def _log(q: Array, converged: bool, count: int, errors: list[float], path: list[Array], steps: list[float]) -> IterationLog:
    return IterationLog(q, converged, count, np.array(errors), np.array(path), np.array(steps))


def _step(rule: IterationRule, e: Array, J: Array, mu: float) -> Array:
    if rule.rule == "newton":
        return -rule.step * pseudo_inverse(J) @ e
    if rule.rule == "damped":
        return -rule.step * damped_inverse(J, rule.damping) @ e
    if rule.rule == "adaptive":
        return -rule.step * adaptively_damped_inverse(J, rule.threshold, rule.damping) @ e
    if rule.rule == "transpose":
        return -rule.alpha * J.T @ e
    return -damped_inverse(J, float(np.sqrt(mu))) @ e


def transpose_gain_limit(J: ArrayLike) -> float:
    """2 / (largest singular value of J)²: the transpose rule shrinks the linearised error for every alpha below (Buss 2004,
    section 4)."""
    return 2.0 / float(np.linalg.norm(np.asarray(J, float), 2)) ** 2


# ------------------------------------------------------------------------------------------------ equations to solve
def task_equations(model: Model, tasks: Sequence[Task]) -> Equations:
    """Errors of tasks on the configuration manifold (weighted by square roots)."""
    kernel = compile_tasks(model, tasks)
    p = kernel.targets(tasks)
    root = np.sqrt(kernel.spread(tasks, [task.weight for task in tasks], "weight"))

    def evaluate(q: Array) -> tuple[Array, Array]:
        e, J = kernel(q, p)
        return root * e, root[:, None] * J

    return Equations(evaluate, lambda q, d: kernel.plus(q, d, p))


def chart_equations(model: Model, frame: str, rotation: ArrayLike, chart: str) -> Equations:
    """Orientation of a frame by difference of coordinates: e = chi(C(q)) - chi(C*), J the analytical Jacobian (section 2.9.3).

    chart: a key of ``dynamics.lie.rotation.PARAMETERISATIONS`` ("zyx", "xyz", "rotation_vector", "quaternion", ...). Two
    coordinates of one orientation can lie far apart, so the way to the target depends on the chart, and may pass its
    singularity.
    """
    kernel = _chart_kernel(RobotKey(model), frame, chart)
    goal = ca.vec(rotations.parameterisation(chart).from_matrix(ca.DM(np.asarray(rotation, float)))).full().ravel()
    zero = np.zeros(model.nv)

    def evaluate(q: Array) -> tuple[Array, Array]:
        _, chi, J = kernel(q, zero)
        return np.asarray(chi) - goal, np.asarray(J)

    return Equations(evaluate, lambda q, d: np.asarray(kernel(q, d)[0]).reshape(-1))


def rotation_equations(model: Model, frame: str, rotation: ArrayLike) -> Equations:
    """Orientation by the rotation that remains: e = -rotVec(C* C') in world axes, J the geometric Jacobian (Eqs. 2.251, 2.255).

    Small steps of the Newton rule turn the frame about a fixed axis, the shortest way there is.
    """
    kernel, goal, zero = _geometric_kernel(RobotKey(model), frame), np.asarray(rotation, float), np.zeros(model.nv)

    def evaluate(q: Array) -> tuple[Array, Array]:
        _, e, J = kernel(q, zero, goal)
        return np.asarray(e), np.asarray(J)

    return Equations(evaluate, lambda q, d: np.asarray(kernel(q, d, goal)[0]).reshape(-1))


@lru_cache(maxsize=64)
def _chart_kernel(robot: Any, frame: str, chart: str) -> Kernel:
    model = robot.model
    q, d = ca.SX.sym("q", model.nq), ca.SX.sym("d", model.nv)
    at = ca.SX(alg.integrate(model, q, d))
    entry = rotations.parameterisation(chart)
    chi = ca.vec(entry.from_matrix(alg.frame_pose(model, at, frame).R))
    J0 = spatial.angular(alg.frame_jacobian(model, at, frame, "world_aligned"))
    back = entry.rate_world(ca.reshape(chi, *entry.shape))
    return compile_kernel(ca.Function("chart", [q, d], ca.cse([ca.densify(at), ca.densify(chi), ca.densify(back @ J0)])))


@lru_cache(maxsize=64)
def _geometric_kernel(robot: Any, frame: str) -> Kernel:
    model = robot.model
    q, d, goal = ca.SX.sym("q", model.nq), ca.SX.sym("d", model.nv), ca.SX.sym("R", 3, 3)
    at = ca.SX(alg.integrate(model, q, d))
    e = rotation_error(alg.frame_pose(model, at, frame).R, goal)
    J0 = spatial.angular(alg.frame_jacobian(model, at, frame, "world_aligned"))
    return compile_kernel(ca.Function("geometric", [q, d, goal], ca.cse([ca.densify(at), ca.densify(-e), ca.densify(J0)])))


def rotation_error(actual: Any, target: Any, frame: str = "world") -> Any:
    """Rotation vector [3] (rad) from ``actual`` to ``target`` [3, 3]: rotVec(C* C') in world axes, or rotVec(C' C*) in those of
    the body.

    The two are one rotation in two frames: world = C body (Eqs. 2.250-2.254). Generic over CasADi; numbers give DM.
    """
    if frame not in ("world", "body"):
        raise ProblemError(f"unknown frame {frame!r}{near(frame, ('world', 'body'))}", where="rotation_error.frame")
    C, goal = _casadi(actual), _casadi(target)
    return so3.log(goal @ C.T) if frame == "world" else so3.log(C.T @ goal)


def _casadi(value: Any) -> Any:
    return value if isinstance(value, ca.SX | ca.MX | ca.DM) else ca.DM(np.asarray(value, float))


def rotation_path_length(rotations_along: ArrayLike) -> float:
    """Sum of the angles (rad) between consecutive rotations [k, 3, 3]: the length of the path in SO(3)."""
    R = np.asarray(rotations_along, float)
    relative = np.einsum("kji,kjl->kil", R[:-1], R[1:])
    axial = 0.5 * np.stack(
        [relative[:, 2, 1] - relative[:, 1, 2], relative[:, 0, 2] - relative[:, 2, 0], relative[:, 1, 0] - relative[:, 0, 1]],
        axis=1,
    )
    # the arc tangent keeps all digits of small and large angles, which the arc cosine loses
    return float(np.arctan2(np.linalg.norm(axial, axis=1), 0.5 * (np.trace(relative, axis1=1, axis2=2) - 1.0)).sum())


__all__ = [
    "Equations",
    "IterationLog",
    "IterationRule",
    "RULES",
    "chart_equations",
    "iterate",
    "rotation_equations",
    "rotation_error",
    "rotation_path_length",
    "task_equations",
    "transpose_gain_limit",
]
