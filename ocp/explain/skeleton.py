"""Whether a robot on contacts can be where its phases want it: the motion reduced to its skeleton, the states at the ends of phases
and in the middle of flights.

Between two of these an active contact does not move, and the mass centre of a robot in flight falls along its parabola. The end
conditions of the file, these conditions and the bounds of states must be met by some states and durations; they are searched
by least squares from the guess and from random starts. Torques are not asked, so that what is missed here is missed by every
motion; no proof, for a search can end in a local minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import casadi as ca
import numpy as np
from scipy.sparse import csc_array, diags_array
from scipy.sparse.linalg import spsolve

import dynamics.algorithms as alg
from dynamics.constraints import Contact, FlatContact
from dynamics.mechanism import Mechanism
from ocp.bridge import closed
from ocp.problem import At, Finding, Kind, Phase, Problem, Sense
from ocp.thresholds import REACH

Array = np.ndarray


def contact_findings(problem: Problem) -> tuple[Finding, ...]:
    """Conditions of contacts that no states were found to meet, with the amounts ``missed`` (m, rad, and per second), and redundant
    contacts."""
    robots = [phase.system.robot for phase in problem.phases]
    if not any(isinstance(c, Contact) for robot in robots if robot is not None for c in robot.constraints) or \
            any(robot is None or robot.prescribed for robot in robots) or len({p.system.space.names for p in problem.phases}) != 1:
        return ()
    return (*_missed(problem), *_repeated(problem))


# ---- the skeleton -----------------------------------------------------------------------------------------------------------
@dataclass
class _Rows:
    """Constraints ``lower <= value <= upper`` with the words of each group."""

    values: list[ca.MX] = field(default_factory=list)
    lower: list[Array] = field(default_factory=list)
    upper: list[Array] = field(default_factory=list)
    labels: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, value: ca.MX, labels: tuple[str, ...], lower: Sequence[float] | Array | None = None,
            upper: Sequence[float] | Array | None = None) -> None:
        size = value.shape[0]
        self.values.append(value)
        self.lower.append(np.zeros(size) if lower is None else np.asarray(lower, float))
        self.upper.append(np.zeros(size) if upper is None else np.asarray(upper, float))
        self.labels += [labels] * size


def _missed(problem: Problem) -> Iterator[Finding]:
    phases, space = problem.phases, problem.phases[0].system.space
    guesses, moves, rows = list[Array](), list[ca.MX](), _Rows()
    begin = np.asarray(phases[0].guess.x[0], float)

    def state(guess: Array, phase: Phase, name: str) -> ca.MX:
        d = ca.MX.sym("d", space.ndx)
        guess = phase.state_bounds.clip(guess)
        guesses.append(np.array([*ca.DM(space.minus(ca.DM(guess), ca.DM(begin))).full().T, np.zeros(space.ndx)]))
        moves.append(d)
        x = space.plus(ca.MX(ca.DM(guess)), d)
        flat = [i for i in np.flatnonzero(phase.state_bounds.bounded) if space.tangent_index[i] >= 0]
        low, high = np.array(phase.state_bounds.pairs())[flat].reshape(-1, 2).T
        rows.add(x[flat], ("bounds", phase.name, name), low.tolist(), high.tolist())
        return x

    before, places = None, _positions(phases)
    for phase in phases:
        T = ca.MX(phase.duration.guess)
        if phase.duration.free:
            T = ca.MX.sym("T")
            guesses.append(np.full((2, 1), phase.duration.guess))
            moves.append(T)
            rows.add(T, ("duration", phase.name, ""), [phase.duration.lower], [phase.duration.upper])
        first = before if before is not None and phase.reset is None else state(phase.guess.x[0], phase, "start")
        if before is not None and phase.reset is not None:
            rows.add(_jump(phase, phase.reset)(before, first), ("jump", phase.name, ""))
        last = state(phase.guess.x[-1], phase, "end")
        _asked(rows, phase, first, last, T)
        _contact_rows(rows, phase, first, last, places)
        _flown(rows, phase, first, last, T, state)
        before = last
    found = _searched(rows, guesses, moves)
    if found:
        yield Finding(Kind.CONTACTS_OUT_OF_REACH, data={"missed": found, "searches": REACH.points})


def _jump(phase: Phase, reset: ca.Function) -> ca.Function:
    """(x before, x after) -> by how much positions miss those of a reset [nv]; impulses may be any."""
    kind = ca.SX if reset.is_a("SXFunction") else ca.MX
    x, y = (kind.sym(name, phase.system.nx) for name in "xy")
    away = phase.system.space.minus(reset(x, ca.DM(phase.system.parameter_values)), y)
    return ca.Function("jump", [x, y], [away[:phase.system.space.ndx // 2]])


def _asked(rows: _Rows, phase: Phase, first: ca.MX, last: ca.MX, T: ca.MX) -> None:
    """Conditions of the file on both ends that depend on states alone."""
    for at, x, boundary, name in ((At.START, first, phase.start, "start"), (At.FINAL, last, phase.final, "end")):
        if boundary is not None:
            chosen = np.flatnonzero(boundary.fixed).tolist()
            rows.add(phase.system.space.minus(ca.DM(boundary.value), x)[chosen], ("given", phase.name, name))
        for c in phase.constraints:
            path = c.at is At.PATH and not c.met[at is At.FINAL]
            if (path or c.at is at) and c.soft is None and c.sense is not Sense.CONE and not c.function.jac_sparsity(0, 2).nnz():
                value = c.function(0, x, ca.DM.zeros(phase.system.nu), ca.DM(phase.system.parameter_values))
                rows.add(value, (c.name, phase.name, name), c.lower, c.bounds.upper)


def _contact_rows(rows: _Rows, phase: Phase, first: ca.MX, last: ca.MX, positions: dict[str, ca.Function]) -> None:
    """Contacts touch at both ends and stay in place between them."""
    robot = phase.system.robot
    assert robot is not None
    for c in robot.constraints:
        function = closed(robot, c, phase.system.np, phase.system.nu - robot.nu).function
        for x, name in ((first, "start"), (last, "end")):
            rows.add(function(0, x, ca.DM.zeros(phase.system.nu), ca.DM(phase.system.parameter_values)), (c.name, phase.name, name))
        if c.name in positions and not getattr(c, "slides", False):
            rows.add(positions[c.name](last) - positions[c.name](first), (c.name, phase.name, "stands"))


def _positions(phases: Sequence[Phase]) -> dict[str, ca.Function]:
    """Where along its plane each point or sole touches [2], of the state."""
    found = dict[str, ca.Function]()
    for phase in phases:
        robot = phase.system.robot
        assert robot is not None
        x = ca.SX.sym("x", phase.system.nx)
        for c in robot.constraints:
            if c.name not in found and isinstance(c, Contact) and (isinstance(c, FlatContact) or hasattr(c, "points")):
                pose = alg.frame_pose(robot.model, x[:robot.model.nq], c.frame)
                found[c.name] = ca.Function("place", [x], [ca.densify(ca.cse(c.axes[:2, :] @ pose.p))])
    return found


def _flown(rows: _Rows, phase: Phase, first: ca.MX, last: ca.MX, T: ca.MX, state: Callable[[Array, Phase, str], ca.MX]) -> None:
    """The parabola of the mass centre where nothing but gravity acts on it."""
    robot = phase.system.robot
    assert robot is not None
    if robot.constraints or robot.forces or robot.thrusters or not (free := _ways_to_fall(robot)).size:
        return
    model, x = robot.model, ca.SX.sym("x", phase.system.nx)
    q, v = x[:model.nq], x[model.nq:]
    com = ca.Function("com", [x], [ca.densify(ca.cse(ca.SX(y))) for y in (
        ca.DM(free) @ alg.centre_of_mass(model, q), ca.DM(free) @ (alg.centre_of_mass_jacobian(model, q) @ v))])
    g, (r, speed) = ca.DM(free @ np.array(model.gravity)), com(first)
    middle = state((np.asarray(phase.guess.x[0]) + phase.guess.x[-1]) / 2, phase, "middle")
    at, rate = com(last)
    rows.add(at - (r + speed * T + g * T**2 / 2), ("falls", phase.name, "end"))
    rows.add(rate - (speed + g * T), ("falls", phase.name, "speed"))
    rows.add(com(middle)[0] - (r + speed * T / 2 + g * T**2 / 8), ("falls", phase.name, "middle"))
    for c in phase.constraints:
        if c.at is At.PATH and c.soft is None and c.sense is not Sense.CONE and not c.function.jac_sparsity(0, 2).nnz():
            value = c.function(0, middle, ca.DM.zeros(phase.system.nu), ca.DM(phase.system.parameter_values))
            rows.add(value, (c.name, phase.name, "middle"), c.lower, c.bounds.upper)


def _ways_to_fall(robot: Mechanism) -> Array:
    """Directions [k, 3] of the world in which all that has mass moves freely, driven by no motor."""
    model, q = robot.model, ca.DM(alg.neutral(robot.model))
    heavy = [body.name for body in model.bodies if body.inertia.mass > 0]
    J = np.vstack([np.array(ca.DM(alg.frame_jacobian(model, q, name, "world_aligned"))) for name in heavy])
    S, found = np.array(ca.DM(robot.selection)), []
    for axis in np.eye(3):
        wanted = np.tile(np.r_[axis, np.zeros(3)], len(heavy))
        e = np.linalg.lstsq(J, wanted, rcond=None)[0]
        if np.allclose(J @ e, wanted, atol=1e-9) and np.allclose(S.T @ e, 0, atol=1e-9):
            found.append(axis)
    return np.array(found)


# ---- the search ---------------------------------------------------------------------------------------------------------------
def _searched(rows: _Rows, guesses: list[Array], moves: list[ca.MX]) -> dict[tuple[str, ...], float]:
    """By how much the best of all searches misses, by the words of rows; empty where every constraint is met. They begin at the
    first state everywhere, at the guess, and near that: a guess may have stretched legs, from which no way leads on."""
    z = ca.vertcat(*moves)
    value = ca.vertcat(*rows.values)
    lower, upper = np.concatenate(rows.lower), np.concatenate(rows.upper)
    evaluate = ca.Function("skeleton", [z], [value, ca.jacobian(value, z)])
    rng, starts = np.random.default_rng(0), np.hstack(guesses)
    best = np.full(len(lower), np.inf)
    for k in range(REACH.points):
        nudge = rng.uniform(-1, 1, starts.shape[1]) / 10 if k > 1 else 0.0
        outside = _descend(evaluate, starts[min(k, 1)] + nudge, lower, upper)
        if np.linalg.norm(outside) < np.linalg.norm(best):
            best = outside
        if np.max(np.abs(best), initial=0.0) <= REACH.missed:
            return {}
    worst: dict[tuple[str, ...], float] = {}
    for i in np.argsort(-np.abs(best)):
        if abs(best[i]) > REACH.missed:
            worst.setdefault(rows.labels[i], float(abs(best[i])))
    return worst


def _descend(evaluate: ca.Function, z: Array, lower: Array, upper: Array) -> Array:
    """What is left outside [m] after Levenberg-Marquardt steps (Nocedal and Wright 2006, section 10.3)."""
    pattern = evaluate.sparsity_out(1)
    row, column = np.array(pattern.row()), np.repeat(np.arange(len(z)), np.diff(pattern.colind()))

    def at(z: Array) -> tuple[Array, csc_array]:
        value, slopes = evaluate(z)
        value = np.asarray(value).ravel()
        outside = value - np.clip(value, lower, upper)
        active = (outside != 0) | (lower == upper)
        return outside, csc_array((np.array(slopes.nonzeros()) * active[row], (row, column)), shape=pattern.shape)

    damping, crawl, (r, J) = 1e-3, 0, at(z)
    for _ in range(REACH.max_evaluations):
        if not np.all(np.isfinite(r)) or np.max(np.abs(r), initial=0.0) <= REACH.missed / 10:
            break
        H = J.T @ J
        step = spsolve(H + damping * diags_array(H.diagonal() + damping, format="csc"), -J.T @ r)
        after, slopes = at(z + step)
        better = np.all(np.isfinite(after)) and after @ after < r @ r
        slow = better and after @ after > 0.9 * (r @ r)
        if better:
            z, r, J = z + step, after, slopes
        damping = max(damping / 10, 1e-12) if better else damping * 10
        crawl = crawl + int(slow) if slow or not better else 0
        if crawl > 5 or damping > 1e8:
            break
    return r


# ---- redundant contacts -------------------------------------------------------------------------------------------
def _repeated(problem: Problem) -> Iterator[Finding]:
    """Contact sets whose rows depend on each other along the guess: their forces are not unique."""
    known = set[tuple[str, ...]]()
    for phase in problem.phases:
        robot = phase.system.robot
        assert robot is not None
        contacts = tuple(c for c in robot.constraints if isinstance(c, Contact))
        names = tuple(c.name for c in contacts)
        if len(contacts) < 2 or names in known:
            continue
        known.add(names)
        q = ca.SX.sym("q", robot.model.nq)
        rows = ca.Function("rows", [q], [ca.densify(c.reduced.jacobian(robot.model, q)) for c in contacts])
        found = [np.asarray(J) for J in rows.call([ca.DM(np.asarray(phase.guess.x[0])[:robot.model.nq])])]
        found = [J[np.abs(J).max(axis=1) > 1e-9] for J in found]  # a planar robot does not move sideways
        pairs = [(a, b) for i, a in enumerate(names) for k, b in enumerate(names[:i]) if _rank(found[i], found[k]) <=
                 max(len(found[i]), len(found[k]))]
        lost = sum(map(len, found)) - _rank(*found)
        if lost:
            yield Finding(Kind.CONTACTS_REPEAT, phase=phase.name, value=float(lost), data={
                "contacts": names, "rows": sum(map(len, found)), "pairs": tuple(pairs)})


def _rank(*rows: Array) -> int:
    return int(np.linalg.matrix_rank(np.vstack(rows), tol=1e-7))
