"""Some full steps on trust where the line search has shortened many in a row (Chamberlain, Powell, Lemarechal, Pedersen 1982).

A point counts by what it gains over the one where trust began; where none gains within TRUST steps the iterate goes back there.
"""

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
    n, m = len(q.x), len(q.y)
    at = 0
    for part in (q.x, q.zl, q.zu):
        assign(q.kept[at:at + n], part)
        at += n
    for part in (q.s, q.y, q.vl, q.vu):
        assign(q.kept[at:at + m], part)
        at += m
    q.kept_theta, q.kept_phi, q.kept_slope = q.theta, q.phi, descent(q)
    q.kept_alpha, _ = longest(q, q.tau)
    q.trusted = 1


@linked(error_model="numpy")
def back(q: State) -> None:
    """The remembered iterate."""
    n, m, at = len(q.x), len(q.y), 0
    for part in (q.x, q.zl, q.zu):
        assign(part, q.kept[at:at + n])
        at += n
    for part in (q.s, q.y, q.vl, q.vu):
        assign(part, q.kept[at:at + m])
        at += m
    forget(q)


@linked(error_model="numpy")
def forget(q: State) -> None:
    q.trusted = q.shortened = 0


@linked(error_model="numpy")
def trusted(p: Program, q: State) -> bool:
    """A full step; whether it is taken. The trial arrays hold the point."""
    full, _ = longest(q, q.tau)
    theta, phi = trial(p, q, full)
    here = q.theta, q.phi, q.descent
    q.theta, q.phi, q.descent = q.kept_theta, q.kept_phi, q.kept_slope
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
