"""Instants at which rates or running costs jump, and which the program on its mesh does not see move.

A program evaluates functions at its nodes, and which side of a jump a node lies on does not change with small moves. So it misses
what the objective J changes by when the instant moves beside its nodes, ``dJ/d(instant) = H_before - H_after``:

    the jump lies where the state crosses a surface: the instant is a choice of the motion. At an optimum the Hamiltonian goes on
    through it, by a jump of the costate along the gradient of the surface (Bryson and Ho 1975, Applied Optimal Control, section
    3.7); costates of the program do not jump, so its Hamiltonian does;
    the jump is at a time that depends on free parameters: its share of their gradient is missing;
    the jump lies at a given time, and free durations move the nodes past it: what the program thinks that moves it is spurious.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from ocp.certify.events import watch
from ocp.certify.hamiltonian import Hamiltonian, hamiltonians
from ocp.certify.motion import Motion
from ocp.certify.objective import running
from ocp.problem import At, Kind, Solution
from ocp.thresholds import ROUNDING, VERDICTS

Array = np.ndarray


@dataclass(frozen=True)
class Jump:
    """A jump whose effect the program misses.
    size: the missing part of the derivative of the objective with respect to an unknown, times the scale of that unknown, in the
    unit of the objective; NaN if rates or costs jump and the method left no costates; time [s]: of the instant; phase: "" of a
    single one; cause: ``STATE_DEPENDENT_JUMP`` or ``MOVING_JUMP``; unknown: that moves the instant, "" for the state.

    """

    size: float = 0.0
    time: float | None = None
    phase: str = ""
    cause: Kind = Kind.STATE_DEPENDENT_JUMP
    unknown: str = ""


def unseen(solution: Solution, motions: Sequence[Motion]) -> Jump:
    """The jump with the largest derivative that the program misses."""
    found = [Jump()]
    for number, (motion, hamiltonian) in enumerate(zip(motions, hamiltonians(solution, motions), strict=True)):
        if motion.stepped or motion.phase.system.residual is not None or not len(motion.look.breaks):
            continue
        phase = "" if len(motions) == 1 else motion.phase.name
        found += _across_surfaces(motion, hamiltonian, phase)
        found += _in_time(motions, number, hamiltonian, phase)
    return max(found, key=lambda one: np.inf if np.isnan(one.size) else one.size)


def at_ends(motion: Motion) -> Iterator[float]:
    """The ends [s] of a phase at which rates or costs differ from nearby values, because the state lies on a surface: the
    difference does not shrink with the distance from the end."""
    for end, inside in zip(motion.span, (1, -1), strict=True):
        t = np.array([end])
        u, aside = motion.control(t), inside * VERDICTS.jump_distance * motion.duration
        here, near, far = (_both(motion, t, motion.state(t + step), u) for step in (0.0, aside, 1e3 * aside))
        jumps = 2 * np.abs(near - here) > np.abs(far - here)
        if _differ(np.where(jumps, here, 0.0), np.where(jumps, near, 0.0))[0]:
            yield end


def _across_surfaces(motion: Motion, hamiltonian: Hamiltonian | None, phase: str) -> Iterator[Jump]:
    """Jumps where the state crosses a surface."""
    aside = VERDICTS.jump_distance * motion.duration
    b = motion.look.breaks
    b = b[(b - aside > motion.span[0]) & (b + aside < motion.span[1])]  # at the ends of the phase it has one side only
    if not len(b):
        return
    before, after = motion.state(b - aside), motion.state(b + aside)
    u = motion.control(b - aside), motion.control(b + aside)
    jumps = np.zeros(len(b), dtype=bool)
    for active in u:  # of the same control: else it is the control that jumps
        jumps |= _differ(_both(motion, b, before, active), _both(motion, b, after, active))
    if not jumps.any():
        return
    if hamiltonian is None:
        yield Jump(float("nan"), float(b[np.argmax(jumps)]), phase)
        return
    H = [hamiltonian(b, x, own) for x, own in zip((before, after), u, strict=True)]
    jump = np.where(jumps, np.abs(H[1] - H[0]), 0.0)
    worst = int(np.argmax(jump))
    yield Jump(float(jump[worst]) * motion.duration, float(b[worst]), phase)


def _in_time(motions: Sequence[Motion], number: int, hamiltonian: Hamiltonian | None, phase: str) -> Iterator[Jump]:
    """Jumps in explicit time that free parameters or durations move beside the nodes."""
    motion = motions[number]
    durations = [(i, one.phase.duration) for i, one in enumerate(motions[:number + 1]) if one.phase.duration.free]
    parameters = motion.phase.free_parameters
    if not durations and not parameters:
        return
    b, aside = motion.look.breaks, VERDICTS.jump_distance * motion.duration
    x, u = motion.state(b), (motion.control(b - aside), motion.control(b + aside))
    jumps = np.zeros(len(b), dtype=bool)
    for active in u:
        jumps |= _differ(_both(motion, b - aside, x, active), _both(motion, b + aside, x, active))
    if not jumps.any():
        return
    if hamiltonian is None:
        yield Jump(float("nan"), float(b[np.argmax(jumps)]), phase, Kind.MOVING_JUMP)
        return
    later = hamiltonian(b - aside, x, u[0]) - hamiltonian(b + aside, x, u[1])  # by moving the instant later
    for i in np.flatnonzero(jumps).tolist():
        speeds = _speeds(motion, float(b[i]), x[i], u[0][i])
        for index, low, high in parameters:
            missing = later[i] * speeds[index]
            yield Jump(_gain(missing, motion.p[index], low, high) * float(motion.scales.parameters[index]), float(b[i]), phase,
                       Kind.MOVING_JUMP, motion.phase.system.parameters[index])
        for j, duration in durations:
            share = (b[i] - motion.span[0]) / motion.duration if j == number else 1.0
            missing = -later[i] * share
            gain = _gain(missing, motions[j].duration, duration.lower, duration.upper)
            yield Jump(gain * motions[j].duration, float(b[i]), phase, Kind.MOVING_JUMP,
                       "the duration" if len(motions) == 1 else f"the duration of {motions[j].phase.name}")


def _gain(gradient: float, value: float, lower: float, upper: float) -> float:
    """The rate of decrease of the objective by moving an unknown within its bounds."""
    room = ROUNDING.resolution * max(1.0, abs(value))
    blocked = (gradient > 0 and value - lower <= room) or (gradient < 0 and upper - value <= room)
    return 0.0 if blocked else abs(gradient)


def _both(motion: Motion, t: Array, x: Array, u: Array) -> Array:
    """Rates and running costs [k, nx + 1]."""
    return np.column_stack([motion.call(motion.field, t, x, u), running(motion, t, x, u)])


def _differ(one: Array, other: Array) -> Array:
    largest = np.max(np.abs(np.vstack([one, other])), axis=0)
    return np.any(np.abs(other - one) > ROUNDING.resolution * largest, axis=1)


def _speeds(motion: Motion, t: float, x: Array, u: Array) -> Array:
    """Derivative of the time of a jump at t with respect to each parameter [np], in s per unit: ``-w_p / w_t`` of the switching
    functions w that vanish there, largest in magnitude."""
    phase, found = motion.phase, np.zeros(len(motion.p))
    functions = [phase.system.rate, *(c.function for c in phase.costs if c.at is At.PATH)]
    functions += [c.function for c in phase.constraints if c.at in (At.PATH, At.INTEGRAL)]
    for function in functions:
        switches = watch(function).switches
        if switches is None:
            continue
        arguments = [ca.SX.sym(name, switches.size1_in(i)) for i, name in enumerate("txup")]
        w = switches(*arguments)
        both = ca.Function("slopes", arguments, [w, ca.jacobian(w, arguments[0]), ca.densify(ca.jacobian(w, arguments[3]))])
        value, by_t, by_p = (np.asarray(part) for part in both(t, x, u, motion.p))
        near = (np.abs(value) <= VERDICTS.jump_distance * motion.duration * np.abs(by_t)) & (by_t != 0)
        for row in np.flatnonzero(near).tolist():
            speed = -by_p[row] / by_t[row]
            found = np.where(np.abs(speed) > np.abs(found), speed, found)
    return found
