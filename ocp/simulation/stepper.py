"""Steppers: one state after another, each step under a constant control, by any one-step method.

A stepper is a plant (``ocp.plants``) without noise: ``reset(x, t)``, ``measure()``, ``step(u, dt)``. Integrals of given functions
come along as if each were one more state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from dynamics.errors import near
from ocp.errors import ProblemError
from ocp.integrators import INTEGRATORS, MULTISTEP
from ocp.problem import System
from ocp.simulation import adaptive, linearly_implicit
from ocp.simulation.implicit import ImplicitSteps
from ocp.simulation.one_step import OneStep, Stretch


class Stepper(Protocol):
    """A system that moves. ``notes``: what is worth knowing about how it does; ``risen`` [k]: the rise of each integral over the
    last step."""

    notes: tuple[str, ...]
    risen: np.ndarray

    def reset(self, x: ArrayLike, t: float = 0.0) -> None:
        """Begin at a state x [nx] and a time [s]."""

    def measure(self) -> np.ndarray:
        """The state [nx] now."""

    def run(self, u: np.ndarray, t: np.ndarray) -> Stretch:
        """Steps over the edges t [N+1] under controls u [N, nu], all of them or until one fails, which raises nothing."""

    def look_back(self, before: np.ndarray, h: float, rose: np.ndarray) -> None:
        """After ``reset``: the state h [s] before, and what integrals rose by since, for methods that look back."""

    def step(self, u: ArrayLike, dt: float) -> np.ndarray:
        """The state [nx] after dt [s] under a held control u [nu]. Raises StepError where that fails, and stays where it was."""


def check_integrator(name: str) -> None:
    """Raises ProblemError for an integrator that a simulation does not know."""
    known = tuple(dict.fromkeys((*INTEGRATORS, *MULTISTEP, adaptive.NAME, linearly_implicit.NAME)))
    if name not in known:
        raise ProblemError(f"no integrator named {name!r}{near(name, known, most=30)}", where="integrator")


def stepper(system: System, integrator: str, integrands: Sequence[ca.Function] = (), mode: str = "auto") -> Stepper:
    """A stepper of an explicit system (algebraic unknowns eliminated) by a method of ``ocp.integrators``; bdf1, sdirk2 and bdf2 go
    on from what the step before found; dop853 chooses the lengths of inner steps; linearly_implicit solves one linear system.

    integrands: scalar Functions of (t, x, u, p). Raises ProblemError for an unknown integrator, or a system that it is not for.
    """
    check_integrator(integrator)
    if integrator in ("bdf1", "sdirk2", *MULTISTEP) and system.period is None:
        return ImplicitSteps(system, integrator, integrands, mode)
    if integrator == adaptive.NAME and system.period is None:
        return adaptive.AdaptiveSteps(system, integrands, mode)
    return OneStep(system, integrator, integrands, mode)
