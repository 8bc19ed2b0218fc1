"""A problem's system moved on from its start, phase by phase, under given controls: an initial-value problem, nothing optimised."""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ocp.errors import ProblemError, positive
from ocp.guesses.sampling import on_manifold, sample_guess
from ocp.interrupts import Activity, asked, holding_interrupts, time_is_up
from ocp.problem import At, Phase, Problem
from ocp.reductions import EXPLICIT, chain_of
from ocp.simulation import charts
from ocp.simulation.chart_switching import CHARTS, charted
from ocp.simulation.diagnosis import beyond_spline, singular_joint
from ocp.simulation.one_step import StepError, integrand
from ocp.simulation.stepper import Stepper, check_integrator

#: steps over the whole motion where nobody says how long one is
STEPS = 500
#: most steps of one phase
MAX_STEPS = 10_000_000
#: steps that run in one go where controls are known ahead; what is shown, and Ctrl-C, come between
STRETCH = 256
REPORT_EVERY = 0.1  # s of wall time
Progress = Callable[[Mapping[str, Any]], None]


class Ending(enum.Enum):
    """How a simulation ended; each value is a sentence."""

    FINISHED = "The motion reached its end."
    INTERRUPTED = "Interrupted by the user; what ran until then is kept."
    TIME_LIMIT = "The time limit was reached; what ran until then is kept."
    FAILED = "A step failed; what ran until then is kept."


class Controls(Protocol):
    """A source of controls: the control [nu], constant over the step from t to t + h [s] of a phase (from 0), at the state x
    [nx] where it begins. ``begin`` is called at the start of each simulation. label: what they are, for tables. Those that do not
    look at the state have ``ahead(phase, t [N+1]) -> u [N, nu]`` as well, and are asked that alone."""

    @property
    def label(self) -> str:
        """The policy in words."""

    def begin(self) -> None:
        """Return to the start."""

    def __call__(self, phase: int, t: float, h: float, x: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Leg:
    """The motion in one phase, whose system has no algebraic unknowns any more: t [n+1] s, x [n+1, nx], u [n, nu] constant over
    each step; integrals [n+1, k] of the running costs in their order and, where the system has one, its power, from 0; switches: of
    charts of rotations on the way. The states are in the charts of the system all the same, and go on as the ones before, see
    ``dynamics.joints.charts.continued``, also for singular points; rates next to one are as large as they come out."""

    phase: Phase
    t: np.ndarray
    x: np.ndarray
    u: np.ndarray
    integrals: np.ndarray
    switches: tuple[charts.Switch, ...] = ()

    def costs(self, *, ended: bool) -> dict[str, float]:
        """Every cost by name: running ones until here, and, where the phase ended, final ones."""
        found = {cost.name: float(self.integrals[-1, i]) for i, cost in enumerate(running(self.phase))}
        if ended:
            p, u = np.array(self.phase.system.parameter_values), np.zeros(self.phase.system.nu)
            found |= {cost.name: float(cost.expression(self.t[-1], self.x[-1], u, p))
                      for cost in self.phase.costs if cost.at is At.FINAL}
        return found


@dataclass(frozen=True)
class Motion:
    """Result of a simulation. problem: as it was given; legs: phases that were reached, the last one possibly in part; dt: length
    of the steps of the first phase [s]; until: the time that was asked for; message: what there is to say about the ending;
    seconds: to prepare and to run."""

    problem: Problem
    integrator: str
    controls: str
    legs: tuple[Leg, ...]
    dt: float
    until: float
    ending: Ending
    message: str = ""
    seconds: Mapping[str, float] | None = None
    notes: tuple[str, ...] = ()
    charts: str = CHARTS[0]

    @property
    def ok(self) -> bool:
        """Whether the simulation reached its end."""
        return self.ending is Ending.FINISHED

    @property
    def t(self) -> np.ndarray:
        """Times [k] of all states, both sides of a jump among them."""
        return np.concatenate([leg.t for leg in self.legs])

    @property
    def steps(self) -> int:
        """Number of steps taken."""
        return sum(len(leg.u) for leg in self.legs)


def running(phase: Phase) -> list[Any]:
    """The costs of a phase that are integrated over time."""
    return [cost for cost in phase.costs if cost.at is At.PATH]


def simulate(problem: Problem, integrator: str, controls: Controls, *, dt: float | None = None, until: float | None = None,
             finer: int = 1, charts_by: str = CHARTS[0], progress: Progress | None = None, kernels: str = "auto") -> Motion:
    """Move a problem's system on from the start of its first phase (the guess where that leaves it free) for the durations of its
    phases, resets between them included.

    dt: longest step [s], default a 500th of the whole; each phase has equal steps, and those of a system in discrete time are
    given. until: when to stop [s]; beyond the end of the last phase its system goes on. finer: every step as so many. progress:
    gets {time, until, step} ten times a second; charts_by: where charts of rotations get singular, on in a "quaternion", or
    "switch" to other charts. A step that fails, and Ctrl-C, end the motion and keep what there is. Raises
    ProblemError for what cannot be simulated.
    """
    check_integrator(integrator)
    began = time.perf_counter()
    plain = chain_of(EXPLICIT).apply(problem)
    spans = _spans(plain, until)
    end = spans[-1][1] if spans else 0.0
    step = _length(dt, end)
    made: dict[int, Stepper] = {}
    legs: list[Leg] = []
    ending, message, notes = Ending.FINISHED, "", []
    x = start(plain.phases[0])
    controls.begin()
    prepared = 0.0
    try:
        with holding_interrupts(False, _seldom(progress, end), Activity.SIMULATION) as hold:
            for k, (a, b) in enumerate(spans):
                phase, before = plain.phases[k], time.perf_counter()
                made[k] = mover = charted(phase.system, integrator, _integrands(phase), kernels, charts_by)
                notes += [note for note in mover.notes if note not in notes]
                prepared += time.perf_counter() - before
                if k and phase.reset is not None:
                    x = np.asarray(phase.reset(x, np.array(phase.system.parameter_values))).ravel()
                N = _steps(phase.system.period, b - a, dt) or max(1, math.ceil((b - a) / step - 1e-9)) * finer
                if N > MAX_STEPS:
                    raise ProblemError(f"{N} steps of {step:g} s in phase {phase.name!r} are too many", where="dt")
                record = _Record(phase, np.linspace(a, b, N + 1), x)
                legs.append(record.leg(0))
                mover.reset(x, a)
                try:
                    while record.done < N:
                        record.take(mover, controls, k)
                        hold.progress({"time": record.t[record.done], "until": end, "step": record.done})
                finally:
                    legs[-1] = record.leg(record.done, getattr(mover, "switches", ()))
                x = record.x[N]
    except KeyboardInterrupt:
        if not legs or not len(legs[0].u):
            raise
        ending = Ending.TIME_LIMIT if time_is_up() and not asked() else Ending.INTERRUPTED
        message = f"At t = {legs[-1].t[-1]:.6g} of {end:g} s."
    except StepError as error:
        ending, message = Ending.FAILED, _failure(legs[-1], step, error)
    notes += [note for leg in legs for note in charts.event_lines(leg.switches)]
    if ending is not Ending.FAILED:
        notes += [note for leg in legs for note in _astray(leg)]
    total = time.perf_counter() - began
    return Motion(problem, integrator, controls.label, tuple(legs), step, end, ending, message,
                  {"prepare": prepared, "run": total - prepared}, tuple(notes), charts_by)


def _failure(leg: Leg, step: float, error: StepError) -> str:
    """The sentence about the step of ``step`` seconds that failed at the end of a leg."""
    why = [*(_astray(leg) or ["a shorter step may help"]), *charts.event_lines([s for s in leg.switches if s.event == "stays"])]
    return (f"Step {len(leg.u)} of phase {leg.phase.name!r} (from t = {leg.t[-1]:.6g} s, of {step:.3g} s): {error}; "
            f"{'; '.join(why)}.")


def _astray(leg: Leg) -> list[str]:
    """Findings about coordinates that come next to a singular configuration, or leave the spline of their joint."""
    model = leg.phase.system.model
    said: list[str] = []
    if model is None:
        return said
    q = leg.x[:, :model.nq]
    if (found := singular_joint(model, q, {switch.joint for switch in leg.switches if switch.event in charts.GONE})) is not None:
        joint, k, share = found
        said.append(f"the coordinates of joint {joint!r} are nearly singular at t = {leg.t[k]:.6g} s (smallest singular value of "
                    f"its S {share:.1e} of the largest): another chart, or a kind in quaternions, goes through")
    if (left := beyond_spline(model, q)) is not None:
        joint, k, end = left
        said.append(f"joint {joint!r} leaves its spline, from 0 to {end:g}, at t = {leg.t[k]:.6g} s, and stops "
                    "moving beyond; add frames, or a stop (joint_stop)")
    return said


class _Record:
    """Arrays of one phase that are filled as it goes."""

    def __init__(self, phase: Phase, t: np.ndarray, x: np.ndarray):
        self.phase, self.t, self.done = phase, t, 0
        self.x, self.u = np.zeros((len(t), phase.system.nx)), np.zeros((len(t) - 1, phase.system.nu))
        self.integrals = np.zeros((len(t), len(_integrands(phase))))
        self.x[0] = x

    def take(self, mover: Stepper, controls: Controls, phase: int) -> None:
        """A stretch of steps whose controls are known ahead, or one step. Raises StepError where one fails."""
        i = self.done
        t = self.t[i:i + STRETCH + 1] if (ahead := getattr(controls, "ahead", None)) else self.t[i:i + 2]
        u = ahead(phase, t) if ahead else np.reshape(controls(phase, t[0], t[1] - t[0], self.x[i]), (1, -1))
        x, rises, error = mover.run(u, t)
        self.done = end = i + len(rises)
        if end > i:
            self.u[i:end], self.x[i + 1:end + 1] = u[:end - i], x
            self.integrals[i + 1:end + 1] = self.integrals[i] + np.cumsum(rises, axis=0)
        if error is not None:
            raise error

    def leg(self, n: int, switches: tuple[charts.Switch, ...] = ()) -> Leg:
        return Leg(self.phase, self.t[:n + 1], self.x[:n + 1], self.u[:n], self.integrals[:n + 1], switches)


def start(phase: Phase) -> np.ndarray:
    """The state [nx] where a phase begins: what is prescribed, and for the rest the guess."""
    space = phase.system.space
    x = sample_guess(phase.guess, space, np.zeros(1))[0][0]
    if phase.start is not None:
        if phase.start.complete:
            return np.array(phase.start.value, float)
        fixed = np.array(phase.start.fixed)
        away = np.asarray(space.minus(x, np.array(phase.start.value))).ravel()
        x = np.asarray(space.plus(x, np.where(fixed, away, 0.0))).ravel()
    return on_manifold(space, x)


def _integrands(phase: Phase) -> list[Any]:
    """What is integrated along: running costs, then the power."""
    power = phase.system.power
    return [*(integrand(cost) for cost in running(phase)), *([] if power is None else [power])]


def _spans(problem: Problem, until: float | None) -> list[tuple[float, float]]:
    """(begin, end) [s] of each phase that is reached; the last one is stretched to ``until``."""
    positive(until, "until")
    edges = np.concatenate([[0.0], np.cumsum([phase.duration.guess for phase in problem.phases])])
    spans = [(float(a), float(b)) for a, b in zip(edges, edges[1:], strict=False)]
    if until is None:
        return spans
    kept = [(a, min(b, until)) for a, b in spans if a < until - 1e-12 * until]
    if until > edges[-1]:
        kept[-1] = (kept[-1][0], until)
    return kept


def _length(dt: float | None, end: float) -> float:
    if dt is None:
        return end / STEPS
    positive(dt, "dt")
    return dt


def _steps(period: float | None, length: float, dt: float | None) -> int:
    """Steps of a system in discrete time that fill a length [s]; 0 in continuous time."""
    if period is None:
        return 0
    steps = round(length / period)
    if not steps or abs(steps * period - length) > 1e-9 * length:
        raise ProblemError(f"{length:g} s are no whole steps of {period:g} s, which a system in discrete time makes", where="until")
    if dt is not None and abs(dt - period) > 1e-9 * period:
        raise ProblemError(f"{dt:g} s; a system in discrete time makes steps of {period:g} s", where="dt")
    return steps


def _seldom(progress: Progress | None, end: float) -> Progress | None:
    if progress is None:
        return None
    last = [0.0]

    def report(row: Mapping[str, Any]) -> None:
        now = time.perf_counter()
        if now - last[0] > REPORT_EVERY:
            last[0] = now
            progress(row)

    return report


# ---- open-loop controls -------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Constant:
    """The same control by name in all phases, zero for what is not named."""

    values: Mapping[str, float]
    problem: Problem
    label: str = "zero"

    def begin(self) -> None:
        """Return to the start."""
        return None

    def __call__(self, phase: int, t: float, h: float, x: np.ndarray) -> np.ndarray:
        return self.ahead(phase, np.array([t, t + h]))[0]

    def ahead(self, phase: int, t: np.ndarray) -> np.ndarray:
        """Controls [k, nu] of the steps between times t [k + 1] s of a phase."""
        own = [self.values.get(name, 0.0) for name in self.problem.phases[phase].system.controls]
        return np.tile(np.array(own, float), (len(t) - 1, 1))


class Guessed:
    """The controls of the problem's guess at the middle of each step; after its end the last ones. stairs: for each phase whether
    they are constant from one point of the guess to the next, else they are read linearly between points."""

    def __init__(self, problem: Problem, label: str = "the guess", stairs: Sequence[bool] = ()):
        self.label, self._phases, self._begins = label, chain_of(EXPLICIT).apply(problem).phases, [0.0]
        self._stairs = list(stairs) or [False] * len(self._phases)
        for phase in self._phases:
            self._begins.append(self._begins[-1] + phase.duration.guess)

    def begin(self) -> None:
        """Return to the start."""
        return None

    def __call__(self, phase: int, t: float, h: float, x: np.ndarray) -> np.ndarray:
        return self.ahead(phase, np.array([t, t + h]))[0]

    def ahead(self, phase: int, t: np.ndarray) -> np.ndarray:
        """Controls [k, nu] of the steps between times t [k + 1] s of a phase."""
        given = self._phases[phase]
        s, u = np.asarray(given.guess.s), np.asarray(given.guess.u)[:, :len(given.system.controls)]
        share = np.minimum(1.0, ((t[:-1] + t[1:]) / 2 - self._begins[phase]) / given.duration.guess)
        if self._stairs[phase]:
            return np.asarray(u[np.maximum(0, np.searchsorted(s, share, side="right") - 1)])
        return np.reshape([np.interp(share, s, column) for column in u.T], (u.shape[1], len(share))).T


def with_steps_halved(motion: Motion, controls: Controls, **how: Any) -> tuple[float, str, float] | None:
    """(largest difference, of which state, when [s]) of a motion to the one with steps half as long; None where that one ends early
    or is interrupted, and in discrete time."""
    if any(leg.phase.steps is not None for leg in motion.legs):
        return None
    other = simulate(motion.problem, motion.integrator, controls, dt=motion.dt, until=motion.until, finer=2,
                     charts_by=motion.charts, **how)
    if not other.ok:
        return None
    worst = (0.0, "", 0.0)
    for one, two in zip(motion.legs, other.legs, strict=True):
        space, xs, left = one.phase.system.space, (one.x, two.x[::2]), {s.joint for s in one.switches + two.switches
                                                                        if s.event in charts.GONE}
        if left:  # poses and twists tell how accurate it is; angles next to gimbal lock do not
            twin = charts.Twin(one.phase.system, frozenset(left))
            space, xs = twin.system.space, (twin.states(one.x), twin.states(two.x[::2]))
        away = np.abs(space.apart(*xs))
        k, i = divmod(int(np.argmax(away)), away.shape[1])
        if away[k, i] >= worst[0]:
            worst = (float(away[k, i]), space.tangent_names[i], float(one.t[k]))
    return worst
