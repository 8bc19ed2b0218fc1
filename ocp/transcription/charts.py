"""How states are unknowns: as coordinates, or as tangent variables about given states.

Tangent variables z put the state at ``x = centre [+] z``: free-flying bodies need neither angles that become singular nor a norm to
be kept. Within one interval all states are seen in one chart, that of its first centre c: ``y = c [-] x``, in which the
dynamics are ``ydot = d(c [-] x)/dx N(x) xi``. A scheme acts on y and ydot as it would in a flat space. On a flat space both
forms are the same, and the coordinates serve. Coordinates are the default: they keep unit norms by the rate itself, have the same
order, and their functions are two to four times cheaper than those of charts.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.spaces import Expr, Space

STATES = ("coordinates", "tangent")

#: unit quaternions obey qdot = N(q) omega + NORM_GAIN / duration * (1 - |q|^2) q: tangent motion is untouched, and a
#: deviation of the norm decays over about an eighth of the phase, so that drift does not add up
NORM_GAIN = 4.0


@dataclass(frozen=True)
class Form:
    """The form of the unknown states of a phase; ``tangent`` only where the space is not flat."""

    space: Space
    tangent: bool

    @property
    def size(self) -> int:
        """Unknowns of one state."""
        return self.space.ndx if self.tangent else self.space.nx

    @property
    def centre_size(self) -> int:
        """Data that one state needs."""
        return self.space.nx if self.tangent else 0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the unknowns of one state."""
        return self.space.tangent_names if self.tangent else self.space.names

    def state(self, z: Expr, centre: Expr) -> Expr:
        """The state x [nx] of unknowns z."""
        return self.space.plus(centre, z) if self.tangent else z

    def rate(self, x: Expr, xi: Expr, chart: Expr, T: Expr, share: Expr = 1.0) -> Expr:
        """The scaled rate ``T ydot`` [size] of what a scheme acts on, from the tangent rate xi [ndx]. share: T as a part of the
        duration of the phase."""
        along = ca.mtimes(self.space.rate(x), xi)
        if self.tangent:
            return T * _seen(self.space).call([chart, x, along], True, False)[0]  # inlined
        scaled = T * along
        for q in self.space.quaternions:
            part = x[q:q + 4]
            scaled[q:q + 4] += share * NORM_GAIN * (1 - ca.sumsqr(part)) * part
        return scaled

    def values(self, z: np.ndarray, centres: np.ndarray) -> np.ndarray:
        """States [k, nx] of unknowns [k, size] about centres [k, nx]."""
        return self.space.moved(centres, z) if self.tangent else np.asarray(z, dtype=float)


def _seen(space: Space) -> ca.Function:
    """(c, x, d) -> rate of ``c [-] x`` while the coordinates x move at d."""
    c, x, d = (ca.SX.sym(name, space.nx) for name in "cxd")
    return ca.Function("seen", [c, x, d], [ca.densify(ca.jtimes(space.minus(c, x), x, d))])


def form(space: Space, states: str) -> Form:
    """The form that ``states`` asks for, one of ``STATES``; on a flat space the two are one."""
    if states not in STATES:
        raise ProblemError(f"must be one of {', '.join(STATES)}, got {states!r}", where="states")
    return Form(space, states == "tangent" and not space.is_vector_space)
