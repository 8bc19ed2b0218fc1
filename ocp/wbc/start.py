"""The start of a closed loop: contacts closed, and what its tasks and contacts cannot do together, reported beforehand."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dynamics import algorithms as alg
from dynamics.algorithms import contact_kinematics
from dynamics.constraints import Contact
from dynamics.mechanism import Mechanism
from dynamics.mechanism.assembly import onto
from ocp.control.stance import stances_of
from ocp.wbc.setup import Setup

Array = NDArray[np.float64]


def close_contacts(mechanism: Mechanism, contacts: Sequence[Contact], start: Array, most: float
                   ) -> tuple[Array, dict[str, float]]:
    """The start [nq + nv] with every contact that is taken on its plane, by the least motion (mass metric), and by name the gap (m,
    of the point farthest from the plane) that there was. Contacts farther than ``most`` are reported and not closed."""
    model, taken = mechanism.model, [plan for plan in contacts if plan.taken]
    stances = [s for plan in taken for s in stances_of(plan)]
    if not stances:
        return start, {}
    q = ca.SX.sym("q", model.nq)
    where = [s.contact_point for s in stances]
    points = contact_kinematics.contact_positions(model, q, where)
    n = np.array([s.plane[2] for s in stances])
    heights = np.array([s.height for s in stances])
    gap = ca.vertcat(*(ca.dot(ca.DM(n[k]), points[:, k]) for k in range(len(stances)))) - heights
    J = contact_kinematics.contact_jacobian(model, q, where)
    rows = ca.vertcat(*(ca.DM(n[k]).T @ J[3 * k:3 * k + 3, :] for k in range(len(stances))))
    function = ca.Function("gaps", [q], [ca.densify(ca.SX(gap)), ca.densify(ca.SX(rows)), alg.mass_matrix(model, q)])

    def misses(at: Array) -> tuple[Array, ...]:
        off, N, M = (np.asarray(y.full()) for y in function(at))
        return off.ravel(), N, M

    def move(at: Array, step: Array) -> Array:
        return np.asarray(ca.DM(alg.integrate(model, at, step)).full()).ravel()

    off, at, found = misses(start[: model.nq])[0], 0, dict[str, float]()
    for plan in taken:
        own = off[at:at + len(stances_of(plan))]
        found[plan.name] = float(own[int(np.abs(own).argmax())])
        at += own.size
    if max(map(abs, found.values())) > most:
        return start, found
    q_closed, _ = onto(misses, move, start[: model.nq], near=1e-12, steps=20)
    return np.concatenate([q_closed, start[model.nq:]]), found


def unsupported(setup: Setup) -> tuple[str, ...]:
    """Advice on what the contacts at the start leave undecided: a floating base that they do not hold in all six directions,
    equations that repeat each other."""
    model = setup.mechanism.model
    where = [s.contact_point for plan in setup.contacts if plan.taken for s in stances_of(plan)] if setup.tasks else []
    if not where or not any(body.joint.kind == "free_flyer" for body in model.bodies):
        return ()
    ranks = contact_kinematics.contact_ranks(model, setup.start[: model.nq], where)
    words = []
    if not ranks.base_controllable:
        words.append(f"the contacts hold the base in {ranks.base_rank} of 6 directions; in the other {ranks.uncontrolled} no "
                     "torque acts on it directly: leave them out of tasks of first priority, or take another contact")
    return tuple(words)
