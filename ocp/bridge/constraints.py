"""Constraints of a robot beyond its equations of motion: limits of efforts, absent motors, consistent starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import casadi as ca
import numpy as np

from dynamics.constraints import Constraint as MechanismConstraint
from dynamics.lie.expression import Expr
from dynamics.mechanism import Mechanism, Thruster
from dynamics.model.model import Model
from ocp.bridge.motion import (
    constraint_residual,
    inverse_effort,
    mechanism_of,
    model_space,
    motor_shares,
    multipliers_in,
    row_names,
    symbols,
)
from ocp.problem import At, Constraint, Sense


def effort_constraints(robot: Model | Mechanism, actuated: str | Sequence[str] = "all", thrusters: Sequence[Thruster] = (), *,
                       limits: Mapping[str, tuple[float, float]] | None = None, parameters: int = 0, where: str | None = None
                       ) -> tuple[Constraint, ...]:
    """Path constraints that make ``inverse_dynamics_system`` the robot: "effort limits" of motors (left out where nothing is
    limited), "no motor", zero effort of all other components (left out where there are none), and "constraints", the accelerations
    that constraints of the mechanism ask for.

    limits: (lower, upper) [N m or N] of efforts by the name of their motor; None: those of the robot. parameters: how many the
    system has. Raises ProblemError for unknown joints, and as ``motor_shares`` does.
    """
    mechanism = mechanism_of(robot, actuated, thrusters)
    model, shares = mechanism.model, motor_shares(mechanism)
    rows = row_names(mechanism)
    arguments, q, v = symbols(model, model_space(model), model.nv + len(mechanism.thrusters) + len(rows), parameters)
    t, x, u, _ = arguments
    effort = inverse_effort(mechanism, x, u, t=t)
    if limits is None:
        limits = {n: (low, high) for n, (low, high) in zip(mechanism.controls, mechanism.control_limits.tolist(), strict=True)}
    limited = [name for name in shares if name in limits and any(np.isfinite(limits[name]))]
    free = [name for name in model.velocity_names if name not in mechanism.driven]
    at = model.velocity_names.index

    def constraint(name: str, labels: Sequence[str], values: Sequence[Expr], lower: Sequence[float], upper: Sequence[float],
                   sense: Sense) -> Constraint:
        function = ca.Function("effort", arguments, [ca.densify(ca.vertcat(*values))], ["t", "x", "u", "p"], ["value"])
        return Constraint(name, At.PATH, function, tuple(lower), tuple(upper), sense, where=where, labels=tuple(labels))

    found = []
    if limited:
        low, high = zip(*(limits[n] for n in limited), strict=True)
        # a ratio of one leaves the effort as it is: its recursion is looked for in the graph
        values = [effort[at(v)] if ratio == 1.0 else effort[at(v)] / ratio for v, ratio in (shares[n] for n in limited)]
        found.append(constraint("effort limits", limited, values, low, high, Sense.BOX))
    if free:
        none = (0.0,) * len(free)
        found.append(constraint("no motor", free, [effort[at(n)] for n in free], none, none, Sense.EQUAL))
    if rows:
        none = (0.0,) * len(rows)
        missed = constraint_residual(mechanism, (t, q, v), u[:model.nv], multipliers_in(mechanism, u))
        found.append(constraint("constraints", rows, [missed], none, none, Sense.EQUAL))
    return tuple(found)


def shared_effort_constraints(mechanism: Mechanism, parameters: int = 0, where: str | None = None, unknowns: int = 0
                              ) -> tuple[Constraint, ...]:
    """The path constraint "joint efforts" of ``robot_system``: limits of joints that no bound of a control expresses, because
    several motors act there or a transmission does. None where there are none. parameters, unknowns: how many parameters and
    algebraic unknowns the system has."""
    names = mechanism.shared_limits
    if not names:
        return ()
    model = mechanism.model
    arguments, _, _ = symbols(model, model_space(model), mechanism.nu + unknowns, parameters)
    at = [model.velocity_names.index(name) for name in names]
    most = tuple(float(x) for x in model.limit("effort")[at])
    effort = ca.densify(mechanism.motor_effort(arguments[2])[at])
    function = ca.Function("effort", arguments, [effort], ["t", "x", "u", "p"], ["value"])
    low = tuple(-x for x in most)
    return (Constraint("joint efforts", At.PATH, function, low, most, Sense.BOX, where=where, labels=names),)


def start_constraints(mechanism: Mechanism, parameters: int = 0, where: str | None = None, unknowns: int = 0
                      ) -> tuple[Constraint, ...]:
    """Conditions at the start for each constraint of a mechanism, from where the dynamics keep them: g = 0, and a rate of zero.
    Rows that hold velocities alone have no g; rows that hold whatever the state (a plane that the tree keeps anyway) are left out.
    parameters, unknowns: how many parameters and algebraic unknowns the system has."""
    found = (closed(mechanism, c, parameters, unknowns, where=where) for c in mechanism.constraints)
    return tuple(c for c in found if c.size)


def closed(mechanism: Mechanism, c: MechanismConstraint, parameters: int = 0, unknowns: int = 0, *, position: bool = True,
           speeds: bool = True, where: str | None = None) -> Constraint:
    """The condition at a start that a constraint holds: see ``start_constraints``. position: its value; speeds: its rate."""
    model = mechanism.model
    arguments, q, v = symbols(model, model_space(model), mechanism.nu + unknowns, parameters)
    g = c.value(model, q, arguments[0])
    positions = [g[i] for i in range(g.shape[0]) if position and i not in c.velocity_rows]
    rows = ca.vertcat(ca.SX(0, 1), *positions, *([c.reduced.rate(model, q, v, arguments[0])] if speeds else []))
    kept = [i for i in range(rows.shape[0]) if ca.depends_on(rows[i], arguments[1])]
    function = ca.Function("closed", arguments, [ca.densify(rows[kept])], ["t", "x", "u", "p"], ["value"])
    none = (0.0,) * len(kept)
    return Constraint(c.name, At.START, function, none, none, Sense.EQUAL, where=where)
