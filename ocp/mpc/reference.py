"""Parameters along a receding horizon: values that change at run time, references as functions of absolute time.

Every knot of the horizon has its own values of the parameters, which hold until the next knot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.errors import near
from ocp.errors import ProblemError
from ocp.problem import Phase, Trajectory

Array = np.ndarray
Signal = Callable[[Array], Array]
Source = float | str | ArrayLike | tuple[ArrayLike, ArrayLike] | Callable[[Any], Any]
SUFFIX = "_ref"
WHERE = "controller"


class References:
    """Sources of the parameters of a phase; ``parameters`` [N+1, np] of the solver, None where it has none that may change; knots
    [N+1]: times after the first."""

    def __init__(self, phase: Phase, parameters: Array | None, knots: Array):
        self.phase, self.parameters, self._knots = phase, parameters, np.asarray(knots, float)
        self._sources: dict[int, Signal] = {}
        self.moving = False

    def put(self, name: str, source: Signal) -> None:
        """Raises ProblemError for a name that is no parameter, and where its values are not finite at the knots from zero on."""
        known = self.phase.system.parameters
        if name not in known:
            raise ProblemError(f"no parameter named {name!r}{near(name, known)}" if known else
                               f"no parameter named {name!r}; the problem has none", where=WHERE)
        if self.parameters is None:
            raise ProblemError("the solver takes no parameters at run time", where=WHERE)
        i = known.index(name)
        if isinstance(source, _Constant):
            self._sources.pop(i, None)
            self.parameters[:, i] = source.value
        else:
            self._sources[i] = source
        self.moving = bool(self._sources)

    def take(self, motion: Any, sources: Mapping[str, Source]) -> None:
        """As ``Controller.reference``."""
        given = dict(sources)
        if motion is not None:
            columns = _columns(motion, self.phase)
            known = self.phase.system.parameters
            own = {name: name.removesuffix(SUFFIX) for name in known if name.endswith(SUFFIX) and name not in given}
            follow = {name: of for name, of in own.items() if of in columns}
            follow |= {name: of for name, of in given.items() if isinstance(of, str)}
            for name, of in follow.items():
                if of not in columns:
                    raise ProblemError(f"the motion has no state or control {of!r}{near(of, list(columns))}", where=WHERE)
                given[name] = columns[of]
            if not follow:
                raise ProblemError("no parameter follows the motion: name them as its states with the ending _ref, or say which is "
                                   "which", where=WHERE)
        for name, source in given.items():
            self.put(name, source_of(name, source, len(self._knots), self._knots))

    def refresh(self, begins: float) -> bool:
        """Values at the knots of a horizon that begins at this time [s]. False where one is not finite; then they stay."""
        if not self._sources:
            return True
        times = self._knots + begins
        values = {i: source(times) for i, source in self._sources.items()}
        if not all(np.isfinite(value).all() for value in values.values()):
            return False
        for i, value in values.items():
            assert self.parameters is not None
            self.parameters[:, i] = value
        return True

    def outside(self) -> dict[str, float]:
        """By how much a reference NAME_ref lies outside the bounds of the state or control NAME, where it does."""
        found: dict[str, float] = {}
        if self.parameters is None:
            return found
        system = self.phase.system
        for i, name in enumerate(system.parameters):
            for names, bounds in ((system.space.names, self.phase.state_bounds), (system.controls, self.phase.control_bounds)):
                if name.endswith(SUFFIX) and (of := name.removesuffix(SUFFIX)) in names:
                    lower, upper = bounds.pairs()[names.index(of)]
                    values = self.parameters[:, i]
                    most = float(max((lower - values).max(), (values - upper).max()))
                    found |= {name: most} if most > 0.0 else {}
        return found


class _Constant:
    def __init__(self, value: float):
        self.value = value

    def __call__(self, times: Array) -> Array:
        return np.full(len(times), self.value)


def source_of(name: str, source: Source, count: int = 0, knots: Array | None = None) -> Signal:
    """A function of times [k] from what a user gives. Raises ProblemError for values that are not finite or do not fit."""
    if callable(source):
        return _function(source)
    if isinstance(source, tuple) and len(source) == 2:
        t, values = (np.atleast_1d(np.asarray(part, float)) for part in source)
        if t.ndim != 1 or t.shape != values.shape or not np.isfinite(t).all() or (np.diff(t) <= 0.0).any():
            raise ProblemError(f"times {t.shape} and values {values.shape} of {name!r} must be equally many, the times rising",
                               where=WHERE)
        found: Signal = lambda times: np.interp(times, t, values)  # noqa: E731
    else:
        values = np.asarray(source, float)
        if values.ndim and values.shape != (count,):
            raise ProblemError(f"{name!r} has values of shape {values.shape}, expected one for every knot, ({count},), or "
                               "a pair (times, values)", where=WHERE)
        found = _Constant(float(values)) if not values.ndim else lambda times: values
    if not np.isfinite(values).all():
        raise ProblemError(f"{name!r} has values that are not finite", where=WHERE)
    return found


def _function(source: Callable[[Any], Any]) -> Signal:
    def signal(times: Array) -> Array:
        try:
            values = np.asarray(source(times), float)
            if values.shape == times.shape:
                return values
        except (TypeError, ValueError):
            pass
        return np.array([float(source(float(t))) for t in times])

    return signal


def _columns(motion: Any, phase: Phase) -> dict[str, Signal]:
    """The states and controls of a solved motion by name, as its method reads them between knots; its ends hold beyond them."""
    path = getattr(getattr(motion, "solution", motion), "trajectory", motion)
    if not isinstance(path, Trajectory):
        raise ProblemError(f"a {type(path).__name__} is not a motion: give a result, a solution or a trajectory", where=WHERE)
    system = phase.system
    if path.x.shape[1] != system.nx or path.u.shape[1] != system.nu:
        raise ProblemError(f"the motion has {path.x.shape[1]} states and {path.u.shape[1]} controls; the problem has {system.nx} "
                           f"and {system.nu}", where=WHERE)

    def column(read: Callable[[Any], Array], i: int) -> Signal:
        return lambda times: read(np.clip(times, path.t[0], path.t[-1]))[:, i]

    return {name: column(read, i) for read, names in ((path.state, system.space.names), (path.control, system.controls))
            for i, name in enumerate(names)}
