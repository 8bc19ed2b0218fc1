"""The one door from a robot to a controlled system with x = (q, v) and its limits, in one of three forms.

Forward dynamics: u = efforts of motors and thrusts, rate = (v, FD(q, v, u)). Inverse dynamics: u = accelerations and thrusts, rate
= (v, a); efforts are then functions of (x, u), their limits and the absence of a motor are path constraints. Residual: u = efforts
and thrusts; accelerations and the multipliers of constraints are algebraic unknowns of the equations of inverse dynamics.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics.constraints import Constraint as MechanismConstraint
from dynamics.errors import ModelError, UnknownNameError
from dynamics.forces import Force
from dynamics.mechanism import Mechanism, Thruster, direct_motors
from dynamics.mechanism.constrained import demanded, reduced, stacked
from dynamics.model.model import Model
from dynamics.redmax.parameters import Parameter, check, lengthened, residual
from ocp.errors import ProblemError
from ocp.problem import INF, At, Constraint, Sense, System
from ocp.spaces import Space

Expr = Any

#: what keeps redundant rows of constraints apart in residual form, relative to the inverse inertia that rows see
SOFT = 1e-8


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


def robot_system(robot: Model | Mechanism, *, actuated: str | Sequence[str] = "all", thrusters: Sequence[Thruster] = (),
                 forces: Sequence[Force] = (), parameters: Mapping[str, float] | None = None) -> System:
    """The system ``d/dt (q, v) = (v, FD(q, v, S^T u + thrust + forces))`` with the limits of joints and drives, those that no
    bound expresses (``shared_effort_constraints``), and for constraints of the mechanism what they ask of a start
    (``start_constraints``).

    robot: a mechanism, or a model with ``actuated``, ``thrusters`` and ``forces`` as in ``mechanism_of``; a joint with several
    velocity components has one control for each. parameters: names and values that costs and constraints may use; the dynamics do
    not. Raises ProblemError for unknown joints, UnknownNameError for unknown frames.
    """
    mechanism = mechanism_of(robot, actuated, thrusters, forces)
    model = mechanism.model
    space = model_space(model)
    (t, x, u, p), q, v = _arguments(model, space, mechanism.nu, parameters)
    tau, thrusts = mechanism.motor_effort(u), u[len(mechanism.motors):]
    a = mechanism.forward_dynamics(q, v, u, t)
    power = mechanism.power(q, v, tau, thrusts)
    if mechanism.prescribed:
        power += mechanism.constraint_power(q, v, u, t)
    system = _system(mechanism, space, mechanism.controls, [t, x, u, p], a, power, parameters)
    return replace(system, mechanism=mechanism, units=_units(mechanism), u_limits=_pairs(mechanism.control_limits),
                   constraints=_own(mechanism, system),
                   motion=functools.cache(lambda: equations_of_motion(mechanism, len(parameters or {}))))


def designed_system(mechanism: Mechanism, design: Mapping[str, Parameter], parameters: Mapping[str, float]) -> System:
    """The system of ``robot_system`` with numbers of the robot in the hands of the solver: parameters by name that stand for
    lengths, inertias and fields of forces (``dynamics.redmax.parameters``). It has no ``mechanism``, whose numbers are
    fixed, and no energy. Raises ModelError for what the robot does not have."""
    model = mechanism.model
    check(mechanism, list(design.values()))
    space, names = model_space(model), list(parameters)
    arguments, q, v = _arguments(model, space, mechanism.nu, parameters)
    t, x, u, p = arguments
    a = ca.SX.sym("a", model.nv)
    own = ca.vertcat(ca.SX(0, 1), *(p[names.index(name)] for name in design))
    r = residual(mechanism, list(design.values()), (q, v, a, u, own))
    rest = ca.substitute(r, a, ca.DM.zeros(model.nv))
    system = _system(mechanism, space, mechanism.controls, arguments, -ca.solve(ca.jacobian(r, a), rest), ca.SX(0), parameters)
    F = ca.Function("motion", [t, x, a, u, p], [ca.densify(ca.cse(r))], ["t", "x", "w", "u", "p"], ["F"])
    return replace(system, energy=None, power=None, units=_units(mechanism), u_limits=_pairs(mechanism.control_limits),
                   motion=functools.cache(lambda: F),
                   drawn=lambda p: lengthened(model, {design[name]: float(p[names.index(name)]) for name in design}))


def equations_of_motion(mechanism: Mechanism, parameters: int = 0) -> ca.Function:
    """(t, x, w, u, p) -> F [nv + m], the rows of ``residual_dynamics_system`` with w = (a, lambda); p: so many, without effect."""
    model, count = mechanism.model, sum(c.jacobian(mechanism.model, ca.DM(alg.neutral(mechanism.model))).shape[0]
                                        for c in reduced(mechanism.constraints))
    (t, x, u, p), q, v = _arguments(model, model_space(model), mechanism.nu, parameters)
    w = ca.SX.sym("w", model.nv + count)
    value = _motion(mechanism, (t, q, v, u), w[:model.nv], w[model.nv:])
    return ca.Function("motion", [t, x, w, u, p], [ca.densify(ca.cse(value))], ["t", "x", "w", "u", "p"], ["F"])


def _motion(mechanism: Mechanism, at: tuple[Expr, Expr, Expr, Expr], a: Expr, multipliers: Expr) -> Expr:
    """Equations of motion [nv + m] at (t, q, v, u)."""
    t, q, v, u = at
    model, constraints = mechanism.model, reduced(mechanism.constraints)
    value = mechanism.inverse_dynamics(q, v, a, u[len(mechanism.motors):]) - mechanism.motor_effort(u)
    if not constraints:
        return value
    J = stacked(model, constraints, "jacobian", q, t)
    return ca.vertcat(value - J.T @ multipliers, _held(mechanism, (t, q, v), a, multipliers))


def _held(mechanism: Mechanism, at: tuple[Expr, Expr, Expr], a: Expr, multipliers: Expr) -> Expr:
    """What the accelerations a [nv] leave of those that the reduced constraints ask for [m] at (t, q, v)."""
    t, q, v = at
    model, constraints = mechanism.model, reduced(mechanism.constraints)
    J = stacked(model, constraints, "jacobian", q, t)
    return J @ a - demanded(model, constraints, q, v, t) + _softness(mechanism, [q, t], J) * multipliers


def inverse_dynamics_system(robot: Model | Mechanism, *, thrusters: Sequence[Thruster] = (), forces: Sequence[Force] = (),
                            parameters: Mapping[str, float] | None = None) -> System:
    """The system ``d/dt (q, v) = (v, a)``, whose controls are all accelerations a [nv] (rad/s^2 or m/s^2), named as velocities are,
    thrusts, and the multipliers of the reduced constraints of the mechanism, named as in ``residual_dynamics_system``.

    It brings ``effort_constraints`` along, without which components without a motor would get an effort. Its power
    is that of all efforts ``inverse_effort``. Raises as ``robot_system`` does.
    """
    mechanism = mechanism_of(robot, "all", thrusters, forces)
    model = mechanism.model
    space = model_space(model)
    names = (*model.velocity_names, *(thruster.name for thruster in mechanism.thrusters), *row_names(mechanism))
    if len(set(names)) < len(names):
        raise ProblemError(f"control name {next(n for n in names if names.count(n) > 1)!r} is used twice", where="system.thrusters")
    (t, x, u, p), q, v = _arguments(model, space, len(names), parameters)
    a, thrusts = u[:model.nv], _thrusts(mechanism, u)
    power = mechanism.power(q, v, inverse_effort(mechanism, x, u, t=t), thrusts)
    if mechanism.prescribed:
        power += ca.dot(stacked(model, reduced(mechanism.constraints), "jacobian", q, t) @ v, _multipliers(mechanism, u))
    system = _system(mechanism, space, names, [t, x, u, p], a, power, parameters)
    free = np.tile([-INF, INF], (len(names), 1))
    free[model.nv:model.nv + len(mechanism.thrusters)] = mechanism.control_limits[len(mechanism.motors):]
    own = effort_constraints(mechanism, parameters=system.np)
    return replace(system, inverse=mechanism, units=_units(mechanism, accelerations=True), u_limits=_pairs(free),
                   constraints=(*own, *start_constraints(mechanism, system.np, unknowns=len(names) - mechanism.nu)))


def row_names(mechanism: Mechanism) -> tuple[str, ...]:
    """Names of the multipliers of the reduced constraints, by constraint and row."""
    model = mechanism.model
    counts = ((c.name, c.jacobian(model, ca.DM(alg.neutral(model))).shape[0]) for c in reduced(mechanism.constraints))
    return tuple(f"{name}[{i}]" for name, count in counts for i in range(count))


def _thrusts(mechanism: Mechanism, u: Expr) -> Expr:
    """Thrusts among the controls (accelerations, thrusts, multipliers)."""
    first = mechanism.model.nv
    return u[first:first + len(mechanism.thrusters)]


def _multipliers(mechanism: Mechanism, u: Expr) -> Expr:
    """Multipliers among the controls (accelerations, thrusts, multipliers)."""
    return u[mechanism.model.nv + len(mechanism.thrusters):]


def residual_dynamics_system(robot: Model | Mechanism, *, thrusters: Sequence[Thruster] = (), forces: Sequence[Force] = (),
                             parameters: Mapping[str, float] | None = None) -> System:
    """The system of ``robot_system`` in residual form: no mass matrix is inverted. Algebraic unknowns are the accelerations a [nv],
    named ``a.`` and their velocity, and the multipliers lambda [m] of the mechanism's reduced constraints, by constraint and row:

        0 = RNEA(q, v, a) - thrusts - forces - S u - J' lambda
        0 = J a + drift + 2 RATE rate + RATE^2 g + epsilon lambda

    epsilon is SOFT of the mean inverse inertia that the rows see at the neutral configuration; so rows may repeat each other, and
    lambda then is the smallest one, up to epsilon. Without redundant rows epsilon is 0. Raises as ``robot_system`` does.
    """
    mechanism = mechanism_of(robot, "all", thrusters, forces)
    model, count = mechanism.model, mechanism.nu
    space, constraints = model_space(model), reduced(mechanism.constraints)
    rows = row_names(mechanism)
    algebraic = (*(f"a.{name}" for name in model.velocity_names), *rows)
    arguments, q, v = _arguments(model, space, count + len(algebraic), parameters)
    u, a, multipliers = arguments[2][:count], arguments[2][count:count + model.nv], arguments[2][count + model.nv:]
    value = _motion(mechanism, (arguments[0], q, v, u), a, multipliers)
    power = mechanism.power(q, v, mechanism.motor_effort(u), u[len(mechanism.motors):])
    if mechanism.prescribed:
        power += ca.dot(stacked(model, constraints, "jacobian", q, arguments[0]) @ v, multipliers)
    system = _system(mechanism, space, mechanism.controls, arguments, a, power, parameters,
                     algebraic=algebraic, equations=(*(f"motion of {name}" for name in model.velocity_names), *rows),
                     residual=ca.Function("residual", arguments, [ca.densify(ca.cse(value))], ["t", "x", "u", "p"], ["F"]))
    free = np.tile([-INF, INF], (len(algebraic), 1))
    units = {f"a.{name}": unit for name, unit in _units(mechanism, accelerations=True).items() if f"a.{name}" in algebraic}
    return replace(system, held=mechanism, units=_units(mechanism) | units,
                   u_limits=_pairs(np.vstack([mechanism.control_limits, free])), constraints=_own(mechanism, system))


def _own(mechanism: Mechanism, system: System) -> tuple[Constraint, ...]:
    """What holds in every phase, and where a motion begins."""
    counts = system.np, None, len(system.algebraic)
    return (*shared_effort_constraints(mechanism, *counts), *start_constraints(mechanism, *counts))


def _softness(mechanism: Mechanism, arguments: list[Expr], J: Expr) -> float:
    """epsilon of ``residual_dynamics_system``: 0 where rows are independent at random configurations."""
    model = mechanism.model
    at, rng = ca.Function("rows", arguments, [ca.densify(J), alg.mass_matrix(model, arguments[0])]), np.random.default_rng(0)
    spots = [ca.DM(alg.integrate(model, ca.DM(alg.neutral(model)), ca.DM(step))) for step in rng.normal(size=(3, model.nv))]
    if all(np.linalg.matrix_rank(np.asarray(at(spot, 0)[0])) == J.shape[0] for spot in spots):
        return 0.0
    rows, M = (np.asarray(part) for part in at(alg.neutral(model), 0))
    return float(SOFT * np.trace(rows @ np.linalg.solve(M, rows.T)) / len(rows))


def inverse_effort(robot: Model | Mechanism, x: Expr, u: Expr, thrusters: Sequence[Thruster] = (), t: Expr = 0.0) -> Expr:
    """Generalised effort [nv] of motors in the system of ``inverse_dynamics_system``: ``RNEA(q, v, a) - thrusts - forces - J'
    lambda``."""
    mechanism = mechanism_of(robot, "all", thrusters)
    nq, nv = mechanism.model.nq, mechanism.model.nv
    effort = mechanism.inverse_dynamics(x[:nq], x[nq:], u[:nv], _thrusts(mechanism, u))
    if not mechanism.constraints:
        return effort
    J = stacked(mechanism.model, reduced(mechanism.constraints), "jacobian", x[:nq], t)
    return effort - J.T @ _multipliers(mechanism, u)


def motor_shares(mechanism: Mechanism) -> dict[str, tuple[str, float]]:
    """(velocity, ratio) of each motor by its name, where the effort at that velocity is its work alone.

    Raises ProblemError where a motor drives several joints or shares one: accelerations as controls then leave its share open.
    """
    users = [velocity for motor in mechanism.motors for velocity, _ in motor.gears]
    shares = {}
    for motor in mechanism.motors:
        if len(motor.gears) > 1 or users.count(motor.gears[0][0]) > 1:
            raise ProblemError(f"the motor {motor.name!r} drives several joints or shares one with another motor; inverse dynamics "
                               "leave its share open: take forward dynamics", where="system.formulation")
        shares[motor.name] = motor.gears[0]
    return shares


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
    arguments, q, v = _arguments(model, model_space(model), model.nv + len(mechanism.thrusters) + len(rows), parameters)
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
        held = _held(mechanism, (t, q, v), u[:model.nv], _multipliers(mechanism, u))
        found.append(constraint("constraints", rows, [held], none, none, Sense.EQUAL))
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
    arguments, _, _ = _arguments(model, model_space(model), mechanism.nu + unknowns, parameters)
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


def closed(mechanism: Mechanism, c: MechanismConstraint, parameters: int = 0, unknowns: int = 0, *, speeds: bool = True,
           where: str | None = None) -> Constraint:
    """The condition at a start that a constraint holds: see ``start_constraints``. speeds: also its rate."""
    model = mechanism.model
    arguments, q, v = _arguments(model, model_space(model), mechanism.nu + unknowns, parameters)
    g = c.value(model, q, arguments[0])
    positions = [g[i] for i in range(g.shape[0]) if i not in c.velocity_rows]
    rows = ca.vertcat(ca.SX(0, 1), *positions, *([c.reduced.rate(model, q, v, arguments[0])] if speeds else []))
    kept = [i for i in range(rows.shape[0]) if ca.depends_on(rows[i], arguments[1])]
    function = ca.Function("closed", arguments, [ca.densify(rows[kept])], ["t", "x", "u", "p"], ["value"])
    none = (0.0,) * len(kept)
    return Constraint(c.name, At.START, function, none, none, Sense.EQUAL, where=where)


def accelerations(system: System) -> Model | None:
    """The model of a system whose first controls are its accelerations, else None."""
    return None if system.inverse is None else system.inverse.model


def _arguments(model: Model, space: Space, nu: int, parameters: Mapping[str, float] | int | None) -> tuple[list[Expr], Expr, Expr]:
    """Symbols [t, x, u, p], and q and v in x."""
    count = parameters if isinstance(parameters, int) else len(parameters or {})
    x = ca.SX.sym("x", space.nx)
    return [ca.SX.sym("t"), x, ca.SX.sym("u", nu), ca.SX.sym("p", count)], x[:model.nq], x[model.nq:]


def _system(mechanism: Mechanism, space: Space, controls: tuple[str, ...], arguments: list[Expr], a: Expr, power: Expr,
            parameters: Mapping[str, float] | None, **more: Any) -> System:
    model, names = mechanism.model, ["t", "x", "u", "p"]
    q, v = arguments[1][:model.nq], arguments[1][model.nq:]
    return System(
        name=model.name, space=space, controls=controls, model=model,
        rate=ca.Function("rate", arguments, [ca.densify(ca.vertcat(v, a))], names, ["xi"]),
        energy=ca.Function("energy", arguments, [mechanism.energy(q, v)], names, ["E"]),
        power=ca.Function("power", arguments, [power], names, ["P"]),
        parameters=tuple(parameters or ()), parameter_values=tuple((parameters or {}).values()),
        x_limits=_pairs(state_limits(model)), **more,
    )


def _pairs(limits: np.ndarray) -> tuple[tuple[float, float], ...]:
    return tuple((float(low), float(high)) for low, high in limits)


def _units(mechanism: Mechanism, *, accelerations: bool = False) -> dict[str, str]:
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
