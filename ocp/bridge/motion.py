"""The state of a robot: its manifold, limits, units, and the symbols that functions of it take; and the equations of motion of a
mechanism in accelerations, efforts and multipliers of its reduced constraints: no mass matrix is inverted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics.errors import ModelError, UnknownNameError
from dynamics.forces import Force
from dynamics.lie.expression import Expr
from dynamics.mechanism import Mechanism, Thruster, direct_motors
from dynamics.mechanism.constrained import demanded, reduced, stacked
from dynamics.model.model import Model
from ocp.errors import ProblemError
from ocp.spaces import Space


def model_space(model: Model) -> Space:
    """State manifold of x = (q, v): the configuration manifold times R^nv. Names carry ``q.`` and ``v.`` prefixes."""
    nq, nv = model.nq, model.nv
    flat: list[int] = []
    quaternions: list[int] = []
    for kind, qs, vs in model.factors:
        flat += list(range(vs.start, vs.stop)) if kind.is_vector_space else [-1] * kind.nq
        if kind.quaternion is not None:
            quaternions.append(qs.start + kind.quaternion.start)

    def split(function: Any) -> Any:
        return lambda x, d: ca.vertcat(function(model, x[:nq], d[:nv]), x[nq:] + d[nv:])

    return Space(
        names=tuple(f"q.{n}" for n in model.coordinate_names) + tuple(f"v.{n}" for n in model.velocity_names),
        tangent_names=tuple(f"q.{n}" for n in model.velocity_names) + tuple(f"v.{n}" for n in model.velocity_names),
        plus=split(alg.integrate), jet=split(alg.jet),
        minus=lambda x0, x1: ca.vertcat(alg.difference(model, x0[:nq], x1[:nq]), x1[nq:] - x0[nq:]),
        rate=lambda x: ca.diagcat(alg.rate_matrix(model, x[:nq]), ca.DM.eye(nv)),
        rate_inverse=lambda x: ca.diagcat(alg.rate_matrix_inverse(model, x[:nq]), ca.DM.eye(nv)),
        neutral=tuple(alg.neutral(model).tolist()) + (0.0,) * nv,
        tangent_index=tuple(flat) + tuple(range(nv, 2 * nv)),
        quaternions=tuple(quaternions),
    )


def state_limits(model: Model) -> np.ndarray:
    """Limits [nx, 2] of x = (q, v) as the robot's file gives them: positions and speeds of joints."""
    speed = model.limit("velocity")
    return np.column_stack([np.concatenate([model.limit("lower"), -speed]), np.concatenate([model.limit("upper"), speed])])


def pairs(limits: np.ndarray) -> tuple[tuple[float, float], ...]:
    """(lower, upper) of every row of limits [n, 2]."""
    return tuple((float(low), float(high)) for low, high in limits)


def units_of(mechanism: Mechanism, *, accelerations: bool = False) -> dict[str, str]:
    """Unit of every state and control by its name."""
    model = mechanism.model
    angular = dict(zip(model.velocity_names, alg.configuration.velocity_kinds(model), strict=True))
    coordinates = [unit for i, body in enumerate(model.bodies) if body.joint.mimic is None for unit in model.kind(i).q_units]
    units = {f"q.{name}": unit for name, unit in zip(model.coordinate_names, coordinates, strict=True)}
    units |= {f"v.{name}": "rad/s" if turns else "m/s" for name, turns in angular.items()}
    if accelerations:
        units |= {name: "rad/s^2" if turns else "m/s^2" for name, turns in angular.items()}
    else:
        units |= {motor.name: "N m" if angular[motor.gears[0][0]] else "N" for motor in mechanism.motors}
    return units | {thruster.name: "N" if any(thruster.axis) else "N m" for thruster in mechanism.thrusters}


class RobotSymbols(NamedTuple):
    """Symbols [t, x, u, p], and q and v in x."""

    arguments: list[Expr]
    q: Expr
    v: Expr


def symbols(model: Model, space: Space, nu: int, parameters: Mapping[str, float] | int | None) -> RobotSymbols:
    """Symbols [t, x, u, p], and q and v in x."""
    count = parameters if isinstance(parameters, int) else len(parameters or {})
    x = ca.SX.sym("x", space.nx)
    return RobotSymbols([ca.SX.sym("t"), x, ca.SX.sym("u", nu), ca.SX.sym("p", count)], x[:model.nq], x[model.nq:])


#: what keeps redundant rows of constraints apart in residual form, relative to the inverse inertia that rows see
SOFT = 1e-8


def mechanism_of(robot: Model | Mechanism, actuated: str | Sequence[str] = "all", thrusters: Sequence[Thruster] = (),
                 forces: Sequence[Force] = ()) -> Mechanism:
    """A model with a motor at each of the joints ``actuated`` ("all", or names), thrusters and forces; a mechanism as it is.

    Raises ProblemError for what the robot cannot have, and where a mechanism is given drives or forces a second time.
    """
    if isinstance(robot, Mechanism):
        if actuated != "all" or thrusters or forces:
            raise ProblemError("is a mechanism, which has its drives and forces; give them there", where="robot")
        return robot
    try:
        motors = direct_motors(robot, actuated)
    except ModelError as error:
        raise ProblemError(error.message, where="system.actuated") from error
    try:
        return Mechanism(robot, motors, tuple(thrusters), tuple(forces))
    except UnknownNameError:
        raise
    except ModelError as error:
        raise ProblemError(str(error), where="system") from error


def row_names(mechanism: Mechanism) -> tuple[str, ...]:
    """Names of the multipliers of the reduced constraints, by constraint and equation."""
    counts = ((c.name, c.size(mechanism.model)) for c in reduced(mechanism.constraints))
    return tuple(f"{name}[{i}]" for name, count in counts for i in range(count))


def equations_of_motion(mechanism: Mechanism, parameters: int = 0) -> ca.Function:
    """(t, x, w, u, p) -> F [nv + m], the rows of ``residual_dynamics_system`` with w = (a, lambda); p: so many, without effect."""
    model, count = mechanism.model, sum(c.size(mechanism.model) for c in reduced(mechanism.constraints))
    (t, x, u, p), q, v = symbols(model, model_space(model), mechanism.nu, parameters)
    w = ca.SX.sym("w", model.nv + count)
    value = motion(mechanism, (t, q, v, u), w[:model.nv], w[model.nv:])
    return ca.Function("motion", [t, x, w, u, p], [ca.densify(ca.cse(value))], ["t", "x", "w", "u", "p"], ["F"])


def motion(mechanism: Mechanism, at: tuple[Expr, Expr, Expr, Expr], a: Expr, multipliers: Expr) -> Expr:
    """Equations of motion [nv + m] at (t, q, v, u)."""
    t, q, v, u = at
    model, constraints = mechanism.model, reduced(mechanism.constraints)
    value = mechanism.inverse_dynamics(q, v, a, u[len(mechanism.motors):]) - mechanism.motor_effort(u)
    if not constraints:
        return value
    J = stacked(model, constraints, "jacobian", q, t)
    return ca.vertcat(value - J.T @ multipliers, constraint_residual(mechanism, (t, q, v), a, multipliers))


def linear_part(mechanism: Mechanism, u: Expr, multipliers: Expr) -> Expr:
    """The part of ``motion`` [nv + m] that loops leave out: efforts of motors, and the softness of redundant rows."""
    q, t = ca.SX.sym("q", mechanism.model.nq), ca.SX.sym("t")
    J = stacked(mechanism.model, reduced(mechanism.constraints), "jacobian", q, t)
    return ca.vertcat(-mechanism.motor_effort(u), (_softness(mechanism, [q, t], J) if J.shape[0] else 0.0) * multipliers)


def constraint_residual(mechanism: Mechanism, at: tuple[Expr, Expr, Expr], a: Expr, multipliers: Expr) -> Expr:
    """Residual of the accelerations a [nv] in the reduced constraints [m] at (t, q, v)."""
    t, q, v = at
    model, constraints = mechanism.model, reduced(mechanism.constraints)
    J = stacked(model, constraints, "jacobian", q, t)
    return J @ a - demanded(model, constraints, q, v, t) + _softness(mechanism, [q, t], J) * multipliers


def _softness(mechanism: Mechanism, arguments: list[Expr], J: Expr) -> float:
    """epsilon of ``residual_dynamics_system``: 0 where constraints are independent at random configurations."""
    model = mechanism.model
    at, rng = ca.Function("rows", arguments, [ca.densify(J), alg.mass_matrix(model, arguments[0])]), np.random.default_rng(0)
    spots = [ca.DM(alg.integrate(model, ca.DM(alg.neutral(model)), ca.DM(step))) for step in rng.normal(size=(3, model.nv))]
    if all(np.linalg.matrix_rank(np.asarray(at(spot, 0)[0])) == J.shape[0] for spot in spots):
        return 0.0
    rows, M = (np.asarray(part) for part in at(alg.neutral(model), 0))
    return float(SOFT * np.trace(rows @ np.linalg.solve(M, rows.T)) / len(rows))


def thrusts_in(mechanism: Mechanism, u: Expr) -> Expr:
    """Thrusts among the controls (accelerations, thrusts, multipliers)."""
    first = mechanism.model.nv
    return u[first:first + len(mechanism.thrusters)]


def multipliers_in(mechanism: Mechanism, u: Expr) -> Expr:
    """Multipliers among the controls (accelerations, thrusts, multipliers)."""
    return u[mechanism.model.nv + len(mechanism.thrusters):]


def inverse_effort(robot: Model | Mechanism, x: Expr, u: Expr, thrusters: Sequence[Thruster] = (), t: Expr = 0.0) -> Expr:
    """Generalised effort [nv] of motors in the system of ``inverse_dynamics_system``: ``RNEA(q, v, a) - thrusts - forces - J'
    lambda``."""
    mechanism = mechanism_of(robot, "all", thrusters)
    nq, nv = mechanism.model.nq, mechanism.model.nv
    effort = mechanism.inverse_dynamics(x[:nq], x[nq:], u[:nv], thrusts_in(mechanism, u))
    if not mechanism.constraints:
        return effort
    J = stacked(mechanism.model, reduced(mechanism.constraints), "jacobian", x[:nq], t)
    return effort - J.T @ multipliers_in(mechanism, u)


def motor_shares(mechanism: Mechanism) -> dict[str, tuple[str, float]]:
    """(velocity, ratio) of each motor by its name, where the effort at that velocity is its work alone.

    Raises ProblemError where a motor drives several joints or shares one: accelerations as controls then leave its share open.
    """
    users = [velocity for motor in mechanism.motors for velocity, _ in motor.gears]
    shares = {}
    for motor in mechanism.motors:
        if len(motor.gears) > 1 or users.count(motor.gears[0][0]) > 1:
            raise ProblemError(f"the motor {motor.name!r} drives several joints or shares one with another motor; inverse dynamics "
                               "leave its share open: use forward dynamics", where="system.formulation")
        shares[motor.name] = motor.gears[0]
    return shares
