"""Objectives of the first files by an independent road: transcriptions of our own, IPOPT, and the rigid bodies of Pinocchio.

    python tests/references/own.py [--kernel rk4|midpoint] [--pieces N] [--meshes M] [--held]
        [--product] [--controls U ...] [--duration T] problem ...

From lieocp come only the words of the file: rates, costs and constraints of what is no robot, limits and costs of robots. Neither
its transcriptions, meshes, solvers, rigid bodies nor its certificate are used. Kernels:

rk4: multiple shooting, controls linear over an interval (--held: constant), two steps of the classical rule each
midpoint: the implicit midpoint rule, controls constant
spline (robots): configurations as cubic polynomials, torques by our own recursion of Newton and Euler at two Gauss points

Every problem is solved on M meshes of N, 2 N, ... intervals; each begins at the one before, the first at the guess of the file.
Prints all objectives, and the value that they tend to with its error: by Aitken where differences shrink regularly, else the last.
--product: begins at what ``ocp solve`` finds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
from scipy.integrate import solve_ivp

from ocp.app.files.load import LoadedProblem, load_problem
from ocp.app.files.robot.model import robot_path
from ocp.methods import solve
from ocp.problem import At

FILES = Path(__file__).resolve().parents[1] / "first_files"
GRAVITY = (0.0, 0.0, -9.81)
SMALL = 0.1
Expr = Any


@dataclass(frozen=True)
class Task:
    """A problem in plain functions of t, x and u. rows, end: bounded components over the path and at the end; start, final: values
    with NaN where free; guess(s) -> x, u at a fraction of the duration; spline: x = (q, v), u = acceleration of q."""

    rate: Callable[..., Expr]
    running: Callable[..., Expr]
    final_cost: Callable[..., Expr]
    x_bounds: np.ndarray
    u_bounds: np.ndarray
    start: np.ndarray
    final: np.ndarray
    duration: tuple[float, float, float]
    guess: Callable[[float], tuple[np.ndarray, np.ndarray]]
    rows: Callable[..., Expr] | None = None
    row_bounds: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    end: Callable[..., Expr] | None = None
    end_bounds: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    spline: bool = False


# ---- transcription ------------------------------------------------------------------------------------------------------
def kernel(task: Task, kind: str, held: bool) -> tuple[ca.Function, int]:
    """(x, x at the end, w, t, h) -> defect, cost, rows, x in the middle of an interval; and how many controls w holds."""
    nx, nu = len(task.x_bounds), len(task.u_bounds)
    count = 1 if kind == "midpoint" or held else 2
    x, y, w, t, h = ca.SX.sym("x", nx), ca.SX.sym("y", nx), ca.SX.sym("w", nu * count), ca.SX.sym("t"), ca.SX.sym("h")
    first, last = w[:nu], w[-nu:]
    rows: list[Expr] = []
    if task.spline:
        n = nu
        q, v = x[:n], x[n:]
        cost = 0
        slope = (last - first) / h
        states = lambda s: (q + s * v + s**2 * first / 2 + s**3 * slope / 6, v + s * first + s**2 * slope / 2)  # noqa: E731
        for c in (0.5 - np.sqrt(3) / 6, 0.5 + np.sqrt(3) / 6):
            point, u = ca.vertcat(*states(c * h)), first + c * (last - first)
            cost += h / 2 * task.running(t + c * h, point, u)
            rows.append(task.rows(t + c * h, point, u))
        ahead = ca.vertcat(*states(h))
        inner = ca.vertcat(*states(h / 2))
        return ca.Function("interval", [x, y, w, t, h], [y - ahead, ca.SX(cost), ca.vertcat(*rows), inner]), count
    if kind == "midpoint":
        middle, at = (x + y) / 2, t + h / 2
        inner = middle
        defect, cost = y - x - h * task.rate(at, middle, w), h * task.running(at, middle, w)
    else:
        whole, now, cost, steps = h, x, 0, 2
        h = h / steps
        rate = lambda s, state: (task.rate(t + s * whole, state, first + s * (last - first)),  # noqa: E731
                                 task.running(t + s * whole, state, first + s * (last - first)))
        for i in range(steps):
            s, half = i / steps, (i + 0.5) / steps
            k1, c1 = rate(s, now)
            k2, c2 = rate(half, now + h / 2 * k1)
            k3, c3 = rate(half, now + h / 2 * k2)
            k4, c4 = rate((i + 1) / steps, now + h * k3)
            inner = now
            now, cost = now + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), cost + h / 6 * (c1 + 2 * c2 + 2 * c3 + c4)
        h, defect = whole, y - now
    if task.rows is not None:
        rows = [task.rows(t, x, first), task.rows(t + h / 2, inner, (first + last) / 2), task.rows(t + h, y, last)]
    return ca.Function("interval", [x, y, w, t, h], [defect, ca.SX(cost), ca.vertcat(*rows), inner]), count


def transcribed(task: Task, pieces: int, kind: str, held: bool, guess: Callable[[float], tuple[np.ndarray, np.ndarray]],
                duration: float, size: float = 1.0) -> tuple[float, float, np.ndarray, np.ndarray, str]:
    """Objective, duration, states [N+1, nx], controls [N, count, nu] and IPOPT's last word on a mesh of equal intervals.

    size: what objectives are about, for IPOPT's tolerances are absolute.
    """
    each, count = kernel(task, kind, held)
    nx, nu, n = len(task.x_bounds), len(task.u_bounds), pieces
    x, w, T = ca.MX.sym("x", nx, n + 1), ca.MX.sym("w", nu * count, n), ca.MX.sym("T")
    h = T / n
    times = h * ca.DM(np.arange(n)).T
    defects, costs, rows, inner = each.map(n)(x[:, :-1], x[:, 1:], w, times, ca.repmat(h, 1, n))
    g, low, high = [ca.vec(defects)], [np.zeros(nx * n)], [np.zeros(nx * n)]
    bounded = np.flatnonzero(np.isfinite(task.x_bounds).any(axis=1)).tolist()
    for found, bounds in ((rows, task.row_bounds), (inner[bounded, :], task.x_bounds[bounded])):
        times_each = found.shape[0] // max(len(bounds), 1)
        if len(bounds):
            g.append(ca.vec(found))
            low.append(np.tile(bounds[:, 0], times_each * n))
            high.append(np.tile(bounds[:, 1], times_each * n))
    if task.end is not None:
        g.append(task.end(T, x[:, -1]))
        low.append(task.end_bounds[:, 0])
        high.append(task.end_bounds[:, 1])
    lower, upper = np.tile(task.x_bounds[:, 0], (n + 1, 1)), np.tile(task.x_bounds[:, 1], (n + 1, 1))
    for row, value in ((0, task.start), (-1, task.final)):
        fixed = ~np.isnan(value)
        lower[row, fixed] = upper[row, fixed] = value[fixed]
    begun = [guess(s) for s in np.linspace(0, 1, n + 1)]
    controls = [np.concatenate([guess((k + s) / n)[1] for s in ((0.5,) if count == 1 else (0.02, 0.98))]) for k in range(n)]
    variables = ca.vertcat(ca.vec(x), ca.vec(w), T)
    objective = ca.sum2(costs) + task.final_cost(T, x[:, -1])
    options = {"ipopt": {"print_level": 0, "tol": 1e-9, "constr_viol_tol": 1e-9, "max_iter": 3000, "sb": "yes",
                         "bound_relax_factor": 0.0, "mu_strategy": "adaptive"}, "print_time": False}
    program = ca.nlpsol("program", "ipopt", {"x": variables, "f": objective / size, "g": ca.vertcat(*g)}, options)
    found = program(x0=np.concatenate([np.ravel([b[0] for b in begun]), np.ravel(controls), [duration]]),
                    lbx=np.concatenate([lower.ravel(), np.tile(task.u_bounds[:, 0], count * n), [task.duration[0]]]),
                    ubx=np.concatenate([upper.ravel(), np.tile(task.u_bounds[:, 1], count * n), [task.duration[1]]]),
                    lbg=np.concatenate(low), ubg=np.concatenate(high))
    z = found["x"].full().ravel()
    states, inputs = z[:nx * (n + 1)].reshape(n + 1, nx), z[nx * (n + 1):-1].reshape(n, count, nu)
    return float(found["f"]) * size, float(z[-1]), states, inputs, program.stats()["return_status"]


def between(states: np.ndarray, inputs: np.ndarray) -> Callable[[float], tuple[np.ndarray, np.ndarray]]:
    """A guess from the answer on another mesh."""
    n, count, _ = inputs.shape

    def at(s: float) -> tuple[np.ndarray, np.ndarray]:
        k = min(int(s * n), n - 1)
        r = s * n - k
        return (1 - r) * states[k] + r * states[k + 1], (1 - r) * inputs[k, 0] + r * inputs[k, -1]

    return at


def tends_to(values: Sequence[float]) -> tuple[float, float]:
    """The limit of objectives on meshes that halve, and its error: at least what the last mesh changed."""
    if len(values) < 3:
        return values[-1], abs(values[-1] - values[-2]) if len(values) > 1 else float("nan")
    before, last = values[-2] - values[-3], values[-1] - values[-2]
    ratio = before / last if last else 0.0
    if 1.6 < ratio < 20:
        return values[-1] + last / (ratio - 1), max(abs(last), abs(last / (ratio - 1)))
    return values[-1], max(abs(last), abs(before) / 4)


# ---- problems that are no robots ----------------------------------------------------------------------------------------
def ends(boundary: Any, size: int) -> np.ndarray:
    return np.full(size, np.nan) if boundary is None else np.where(boundary.fixed, boundary.value, np.nan)


def costs_of(phase: Any, at: At, p: Any) -> Callable[..., Expr]:
    return lambda t, x, u: sum(c.expression(t, x, u, p) for c in phase.costs if c.at is at)


def stacked(phase: Any, at: At, p: Any, u: Any = None) -> tuple[Callable[..., Expr] | None, np.ndarray]:
    chosen = [c for c in phase.constraints if c.at is at]
    if not chosen:
        return None, np.zeros((0, 2))
    bounds = np.array([(low, high) for c in chosen for low, high in zip(c.lower, c.upper, strict=True)])
    return (lambda t, x, u=u: ca.vertcat(*(c.function(t, x, u, p) for c in chosen))), bounds


def straight(start: np.ndarray, final: np.ndarray, u_bounds: np.ndarray) -> Callable[[float], tuple[Any, Any]]:
    """A line from the start to the end, and controls in the middle of their bounds."""
    to = np.where(np.isnan(final), start, final)
    u = np.mean(np.clip(u_bounds, -1, 1), axis=1)
    u = np.clip(u, u_bounds[:, 0] + 1e-3 * np.minimum(1, np.ptp(u_bounds, axis=1)), u_bounds[:, 1])
    return lambda s: (start + s * (to - start), u)


def of_file(loaded: LoadedProblem) -> Task:
    phase = loaded.problem.phase
    system, p = phase.system, list(phase.system.parameter_values)
    start, final = ends(phase.start, system.nx), ends(phase.final, system.nx)
    zero = np.zeros(system.nu)
    rows, row_bounds = stacked(phase, At.PATH, p)
    end, end_bounds = stacked(phase, At.FINAL, p, zero)
    u_bounds = np.column_stack([phase.u_lower, phase.u_upper])
    guess = straight(start, final, u_bounds)
    return Task(lambda t, x, u: system.rate(t, x, u, p), costs_of(phase, At.PATH, p),
                lambda t, x: costs_of(phase, At.FINAL, p)(t, x, zero),
                np.column_stack([phase.x_lower, phase.x_upper]), u_bounds, start, final,
                (phase.duration.lower, phase.duration.upper, phase.duration.guess), guess, rows, row_bounds, end, end_bounds)


# ---- robots -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Link:
    """A joint of one degree of freedom, as Pinocchio read it, and what hangs on it."""

    parent: int
    slides: bool
    axis: np.ndarray
    R: np.ndarray
    p: np.ndarray
    mass: float = 0.0
    com: np.ndarray = field(default_factory=lambda: np.zeros(3))
    inertia: np.ndarray = field(default_factory=lambda: np.zeros((3, 3)))
    damping: float = 0.0


def turned(axis: np.ndarray, angle: Expr) -> Expr:
    """Rodrigues' formula."""
    k = ca.DM(ca.skew(ca.DM(axis)))
    return ca.DM.eye(3) + ca.sin(angle) * k + (1 - ca.cos(angle)) * (k @ k)


def newton_euler(links: Sequence[Link], q: Expr, v: Expr, a: Expr) -> Expr:
    """Efforts of all joints, damping included: out along the tree with velocities and accelerations, back with forces."""
    zero = ca.DM.zeros(3)
    placed, motions, forces = [], [], []
    for i, link in enumerate(links):
        axis = ca.DM(link.axis)
        R = ca.DM(link.R) if link.slides else ca.DM(link.R) @ turned(link.axis, q[i])
        p = ca.DM(link.p) + (ca.DM(link.R) @ axis * q[i] if link.slides else 0)
        w, dw, at = motions[link.parent] if link.parent >= 0 else (zero, zero, -ca.DM(GRAVITY))
        at = R.T @ (at + ca.cross(dw, p) + ca.cross(w, ca.cross(w, p)))
        w, dw = R.T @ w, R.T @ dw
        if link.slides:
            at += axis * a[i] + 2 * ca.cross(w, axis * v[i])
        else:
            w, dw = w + axis * v[i], dw + axis * a[i] + ca.cross(w, axis * v[i])
        c, inertia = ca.DM(link.com), ca.DM(link.inertia)
        force = link.mass * (at + ca.cross(dw, c) + ca.cross(w, ca.cross(w, c)))
        moment = inertia @ dw + ca.cross(w, inertia @ w) + ca.cross(c, force)
        placed.append((R, p))
        motions.append((w, dw, at))
        forces.append((force, moment))
    efforts: list[Expr] = [0] * len(links)
    for i in reversed(range(len(links))):
        link, (force, moment), (R, p) = links[i], forces[i], placed[i]
        efforts[i] = ca.dot(ca.DM(link.axis), force if link.slides else moment) + link.damping * v[i]
        if link.parent >= 0:
            outer, turn = forces[link.parent]
            forces[link.parent] = (outer + R @ force, turn + R @ moment + ca.cross(p, R @ force))
    return ca.vertcat(*efforts)


def pinocchio_model(loaded: LoadedProblem, floats: bool) -> Any:
    """The robot of the file, its locked joints made rigid by Pinocchio."""
    import pinocchio as pin

    system = loaded.file.system
    path = str(robot_path(system.robot, FILES))
    model = pin.buildModelFromUrdf(path, pin.JointModelFreeFlyer()) if floats else pin.buildModelFromUrdf(path)
    locked = [i for i, name in enumerate(model.names) if i > 1 - (not floats) and name not in loaded.problem.phase.system.controls]
    q = pin.neutral(model)
    for i in locked:
        if model.joints[i].nq == 1:
            q[model.joints[i].idx_q] = float(system.lock.get(model.names[i], 0.0))
    return pin.buildReducedModel(model, locked, q) if locked and not floats else model


def links_of(model: Any, floats: bool) -> list[Link]:
    """Links of a Pinocchio model; a floating base becomes three slides and then yaw, pitch and roll."""
    found = [Link(i - 1, i < 3, np.eye(3)[(0, 1, 2, 2, 1, 0)[i]], np.eye(3), np.zeros(3)) for i in range(6)] if floats else []
    shift = 4 if floats else -1  # joint i of Pinocchio is link i + shift
    for i in range(1, model.njoints):
        body = model.inertias[i]
        more = {"mass": body.mass, "com": np.array(body.lever), "inertia": np.array(body.inertia)}
        if floats and i == 1:
            found[5] = Link(4, False, found[5].axis, np.eye(3), np.zeros(3), **more)
            continue
        axis = np.eye(3)["XYZ".index(model.joints[i].shortname()[-1])]
        place = model.jointPlacements[i]
        found.append(Link(model.parents[i] + shift, False, axis, np.array(place.rotation), np.array(place.translation), **more,
                          damping=float(model.damping[model.joints[i].idx_v])))
    return found


def arm(loaded: LoadedProblem) -> Task:
    """A robot on a fixed base: its torques are rows, its accelerations the controls."""
    phase, n = loaded.problem.phase, loaded.problem.phase.system.nu
    links = links_of(pinocchio_model(loaded, False), False)
    start, final = ends(phase.start, 2 * n), ends(phase.final, 2 * n)
    end, end_bounds = stacked(phase, At.FINAL, [], np.zeros(n))
    torque = lambda t, x, a: newton_euler(links, x[:n], x[n:], a)  # noqa: E731
    return Task(lambda t, x, a: ca.vertcat(x[n:], a), lambda t, x, a: costs_of(phase, At.PATH, [])(t, x, torque(t, x, a)),
                lambda t, x: costs_of(phase, At.FINAL, [])(t, x, np.zeros(n)),
                np.column_stack([phase.x_lower, phase.x_upper]), np.tile([-np.inf, np.inf], (n, 1)), start, final,
                (phase.duration.lower, phase.duration.upper, phase.duration.guess), straight(start, final, np.zeros((n, 2))),
                torque, np.column_stack([phase.u_lower, phase.u_upper]), end, end_bounds, spline=True)


def righting(loaded: LoadedProblem) -> Task:
    """Solo in the air: three slides, yaw, pitch, roll and twelve joints; nothing drives the first six."""
    phase, n = loaded.problem.phase, 18
    links = links_of(pinocchio_model(loaded, True), True)
    given = np.array(phase.start.value)[7:19]
    start = np.concatenate([[0, 0, 1.5, 0, 0.2, 0.3], given, np.zeros(n)])
    final = np.full(2 * n, np.nan)
    final[3:6], final[n + 6:] = 0, 0
    torque = lambda t, x, a: newton_euler(links, x[:n], x[n:], a)  # noqa: E731

    def running(t: Expr, x: Expr, a: Expr) -> Expr:
        return ca.sumsqr(torque(t, x, a)[6:]) / 2 + 1e-4 * ca.sumsqr(x[n + 6:]) / 2

    free = np.tile([-np.inf, np.inf], (2 * n, 1))
    guess = lambda s: (np.concatenate([start[:3] - [0, 0, 4.9 * (0.5 * s)**2], start[3:6] * (1 - s), given, np.zeros(n)]),  # noqa: E731
                       np.zeros(n))
    return Task(lambda t, x, a: ca.vertcat(x[n:], a), running, lambda t, x: 0, free, np.tile([-np.inf, np.inf], (n, 1)),
                start, final, (0.5, 0.5, 0.5), guess, torque,
                np.array([[0.0, 0.0]] * 6 + [[-1e3, 1e3]] * 12), spline=True)


def iris(loaded: LoadedProblem) -> Task:
    """A rigid body with four rotors: x = centre of mass, roll, pitch, yaw, its velocity in the world, turning rate in the body."""
    phase, model = loaded.problem.phase, pinocchio_model(loaded, True)
    import pinocchio as pin

    body, data = model.inertias[1], model.createData()
    pin.framesForwardKinematics(model, data, pin.neutral(model))
    places = [data.oMf[model.getFrameId(rotor.frame)] for rotor in loaded.file.system.thrusters]
    ratios = [float(rotor.moment_ratio) for rotor in loaded.file.system.thrusters]
    com, inertia = np.array(body.lever), ca.DM(np.array(body.inertia))

    def rate(t: Expr, x: Expr, u: Expr) -> Expr:
        roll, pitch, yaw, w = x[3], x[4], x[5], x[9:]
        R = turned(np.eye(3)[2], yaw) @ turned(np.eye(3)[1], pitch) @ turned(np.eye(3)[0], roll)
        force, moment = ca.SX.zeros(3), ca.SX.zeros(3)
        for k, place in enumerate(places):
            push = ca.DM(np.array(place.rotation)[:, 2]) * u[k]
            force += push
            moment += ca.cross(ca.DM(np.array(place.translation) - com), push) + ratios[k] * push
        turning = ca.vertcat(w[0] + ca.tan(pitch) * (ca.sin(roll) * w[1] + ca.cos(roll) * w[2]),
                             ca.cos(roll) * w[1] - ca.sin(roll) * w[2],
                             (ca.sin(roll) * w[1] + ca.cos(roll) * w[2]) / ca.cos(pitch))
        return ca.vertcat(x[6:9], turning, R @ force / body.mass + ca.DM(GRAVITY),
                          ca.solve(inertia, moment - ca.cross(w, inertia @ w)))

    weight = phase.costs[-1].weights[0]
    timed = any(cost.at is At.FINAL for cost in phase.costs)
    start, final = (np.concatenate([end.value[:3], np.zeros(9)]) for end in (phase.start, phase.final))
    return Task(rate, lambda t, x, u: weight * ca.sumsqr(u - 3.76) / 2, lambda t, x: t if timed else 0 * t,
                np.tile([-np.inf, np.inf], (12, 1)), np.tile([0.0, 10.0], (4, 1)), start, final,
                (phase.duration.lower, phase.duration.upper, 2.0), lambda s: (start + s * (final - start), np.full(4, 3.76)))


def task_of(name: str, loaded: LoadedProblem) -> Task:
    if loaded.model is None:
        return of_file(loaded)
    return iris(loaded) if name.startswith("iris") else righting(loaded) if name.startswith("solo") else arm(loaded)


def from_product(name: str, loaded: LoadedProblem) -> tuple[Callable[[float], tuple[np.ndarray, np.ndarray]], float]:
    """What ``ocp solve`` finds, as a guess; of arms with accelerations for controls."""
    found = solve(loaded.problem)
    bound = found.certificate.error_bound
    print(f"{name}: the product finds {found.objective:.10g} +- {bound:.2g}, certified: {found.ok}", flush=True)
    last = float(found.trajectory.t[-1])
    system = loaded.problem.phase.system

    def at(s: float) -> tuple[np.ndarray, np.ndarray]:
        t = s * last
        x, u = found.trajectory.state(t), found.trajectory.control(t)
        return x, u if loaded.model is None else np.array(system.rate(t, x, u, [])).ravel()[loaded.model.nv:]

    return at, last


def simulated(task: Task, controls: Sequence[float], duration: float) -> Callable[[float], tuple[np.ndarray, np.ndarray]]:
    """The motion of constant controls from the start, as a guess."""
    u = np.array(controls, dtype=float)
    x, t = ca.SX.sym("x", len(task.start)), ca.SX.sym("t")
    rate = ca.Function("rate", [t, x], [task.rate(t, x, u)])
    found = solve_ivp(lambda t, x: np.array(rate(t, x)).ravel(), (0, duration), task.start, "LSODA", dense_output=True, rtol=1e-8)
    return lambda s: (found.sol(s * duration), u)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="+")
    parser.add_argument("--kernel", choices=("rk4", "midpoint"), default="rk4")
    parser.add_argument("--pieces", type=int, default=50)
    parser.add_argument("--meshes", type=int, default=3)
    parser.add_argument("--held", action="store_true")
    parser.add_argument("--product", action="store_true")
    parser.add_argument("--duration", type=float, help="guess of a free duration")
    parser.add_argument("--controls", type=float, nargs="*", help="begin at the motion that these constant controls make")
    arguments = parser.parse_args()
    for name in arguments.problems:
        loaded = load_problem(FILES / f"{name}.yaml")
        task = task_of(name, loaded)
        guess, duration = from_product(name, loaded) if arguments.product else (task.guess, arguments.duration or task.duration[2])
        if arguments.controls:
            guess = simulated(task, arguments.controls, duration)
        values: list[float] = []
        size = 1.0
        while len(values) < arguments.meshes:
            pieces = arguments.pieces * 2**len(values)
            value, duration, states, inputs, word = transcribed(
                task, pieces, arguments.kernel, arguments.held, guess, duration, size)
            guess = between(states, inputs)
            if size == 1.0 and abs(value) < SMALL:
                size = abs(value)  # once more, with tolerances that mean something
                continue
            values.append(value)
            print(f"{name}: {pieces} intervals, {value:.12g}, {word}", flush=True)
        limit, error = tends_to(values)
        print(f"{name}: {limit:.12g} +- {error:.1e}", flush=True)


if __name__ == "__main__":
    main()
