"""Some full steps on trust where the line search has shortened many in a row (Chamberlain, Powell, Lemarechal, Pedersen 1982).

A point counts by what it gains over the one where trust began; where none gains within TRUST steps the iterate goes back there.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from ocp.nlp.interior_point.barrier import longest
from ocp.nlp.interior_point.elements import Program
from ocp.nlp.interior_point.search import acceptable, add_to_filter, descent, trial
from ocp.nlp.interior_point.state import State, assign

#: shortened steps in a row after which full ones are trusted, and how many of these; as in IPOPT
PATIENCE, TRUST = 10, 3


@linked(error_model="numpy")
def begin(q: State) -> None:
    """Remember the iterate and what a step from it has to gain. The step must be there."""
    at = 0
    for part in (q.w, q.zl, q.zu, q.y):
        assign(q.saved[at:at + len(part)], part)
        at += len(part)
    q.kept_theta, q.kept_phi, q.saved_descent = q.theta, q.phi, descent(q)
    q.kept_alpha, _ = longest(q, q.tau)
    q.trusted = 1


@linked(error_model="numpy")
def back(q: State) -> None:
    """The remembered iterate."""
    at = 0
    for part in (q.w, q.zl, q.zu, q.y):
        assign(part, q.saved[at:at + len(part)])
        at += len(part)
    forget(q)


@linked(error_model="numpy")
def forget(q: State) -> None:
    """Restart the counters of the watchdog."""
    q.trusted = q.shortened = 0


@linked(error_model="numpy")
def trusted(p: Program, q: State) -> bool:
    """A full step; whether it is taken. The trial arrays hold the point."""
    full, _ = longest(q, q.tau)
    theta, phi = trial(p, q, full)
    here = q.theta, q.phi, q.descent
    q.theta, q.phi, q.descent = q.kept_theta, q.kept_phi, q.saved_descent
    good, objective = acceptable(q, theta, phi, q.kept_alpha)
    if good and not objective:
        add_to_filter(q, q.theta, q.phi)
    q.theta, q.phi, q.descent = here
    q.alpha = full
    if good:
        forget(q)
        return True
    q.trusted += 1
    return q.trusted <= TRUST and np.isfinite(theta) and np.isfinite(phi)
