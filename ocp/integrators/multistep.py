"""Steps that look back: linear multistep methods on state manifolds.

BDF2 takes the parabola through the state before, the present and the next one, and asks it to have the rate of the system at the
last. States are seen in the chart of the present one, ``y = x_n [-] x``, where the equation is that of a flat space, so that the
order is kept on any manifold. With steps h_n = w h_{n-1}, y_n = 0:

    (1 + 2 w)/(1 + w) y_{n+1} + w^2/(1 + w) y_{n-1} = h_n y'(t_{n+1}, y_{n+1})

Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, section III.5, Eq. (5.10); A-stable with equal steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from dynamics.steps import schemes
from ocp.errors import ProblemError
from ocp.integrators import motion
from ocp.integrators.integrator import Expr, Node
from ocp.problem import System

Onward = Callable[[System, Expr, Expr, Expr, Expr, Expr, Expr, Expr], tuple[Expr, tuple[Node, ...]]]


@dataclass(frozen=True)
class Multistep:
    """A two-step map: ``advance(system, t, before, x, u, p, h, ratio) -> (x_next [nx], quadrature nodes)``; before: the state one
    step ago, ratio: h over the length of that step.

    order: global order of the state; first: the one-step integrator of the first step, of that order, too.
    weights(edges [N+1]) -> [N]: how often the integral over each step counts in the end, where integrals are one more state: what
    a step adds goes on into the next ones. With other weights an optimum would play integrals off against states.
    """

    name: str
    order: int
    advance: Onward
    first: str
    weights: Callable[[np.ndarray], np.ndarray]


def bdf2(system: System, t: Expr, before: Expr, x: Expr, u: Expr, p: Expr, h: Expr, ratio: Expr) -> tuple[Expr, tuple[Node, ...]]:
    """The step of the module's docstring; of robots by their equations of motion."""
    return motion.moved(system, t, x, u, p, h, "bdf2", (before, ratio))


def bdf2_weights(edges: np.ndarray) -> np.ndarray:
    """Weights [N]: the rise of an integral over step k is ``w^2/(1 + 2 w)`` of the one before and ``(1 + w)/(1 + 2 w) h l``."""
    h = np.diff(edges)
    (stage,) = schemes.backward(h[1:] / h[:-1])
    own, kept = np.append(1.0, stage.gamma), np.append(-stage.terms[1].a, 0.0)
    goes_on = np.ones(len(h))
    for k in range(len(h) - 2, -1, -1):
        goes_on[k] += kept[k] * goes_on[k + 1]
    return np.asarray(own * goes_on)


MULTISTEP: Mapping[str, Multistep] = MappingProxyType({m.name: m for m in (Multistep("bdf2", 2, bdf2, "sdirk2", bdf2_weights),)})


def looking_back(system: System, name: str) -> Multistep | None:
    """The two-step map of that name; None for one-step maps, and for systems in discrete time, whose steps are given."""
    return MULTISTEP.get(name) if system.period is None else None


def refuse_history(integrator: object, where: str) -> None:
    """Raise ProblemError where steps see one state alone and the integrator looks back."""
    if integrator in MULTISTEP:
        own = MULTISTEP[str(integrator)]
        raise ProblemError(f"integrator {own.name!r} is a multistep method, and steps here begin from one state; use "
                           f"{own.first!r}", where=where)
