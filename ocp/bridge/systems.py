"""A robot as a controlled system with x = (q, v) and its limits, in one of three forms.

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

from dynamics.derivatives import inner as inside
from dynamics.forces import Force
from dynamics.lie.expression import Expr
from dynamics.mechanism import Mechanism, Thruster
from dynamics.mechanism.constrained import reduced, stacked
from dynamics.model.model import Model
from dynamics.redmax.parameters import Parameter, check, lengthened, residual
from ocp.bridge import motion as eom
from ocp.bridge.constraints import effort_constraints, shared_effort_constraints, start_constraints
from ocp.errors import ProblemError
from ocp.problem import INF, Constraint, Form, Formulation, System
from ocp.spaces import Space


def robot_system(robot: Model | Mechanism, *, actuated: str | Sequence[str] = "all", thrusters: Sequence[Thruster] = (),
                 forces: Sequence[Force] = (), parameters: Mapping[str, float] | None = None) -> System:
    """The system ``d/dt (q, v) = (v, FD(q, v, S^T u + thrust + forces))`` with the limits of joints and drives, those that no
    bound expresses (``shared_effort_constraints``), and for constraints of the mechanism what they ask of a start
    (``start_constraints``).

    robot: a mechanism, or a model with ``actuated``, ``thrusters`` and ``forces`` as in ``mechanism_of``; a joint with several
    velocity components has one control for each. parameters: names and values that costs and constraints may use; the dynamics do
    not. Raises ProblemError for unknown joints, UnknownNameError for unknown frames.
    """
    mechanism = eom.mechanism_of(robot, actuated, thrusters, forces)
    model = mechanism.model
    space = eom.model_space(model)
    (t, x, u, p), q, v = eom.symbols(model, space, mechanism.nu, parameters)
    tau, thrusts = mechanism.motor_effort(u), u[len(mechanism.motors):]
    a = mechanism.forward_dynamics(q, v, u, t)
    power = mechanism.power(q, v, tau, thrusts)
    if mechanism.prescribed:
        power += mechanism.constraint_power(q, v, u, t)
    system = _system(mechanism, space, mechanism.controls, [t, x, u, p], a, power, parameters)
    motion = functools.cache(lambda: eom.equations_of_motion(mechanism, len(parameters or {})))
    return replace(system, formulation=Formulation(Form.EXPLICIT, mechanism, motion), units=eom.units_of(mechanism),
                   u_limits=eom.pairs(mechanism.control_limits), constraints=_own(mechanism, system))


def designed_system(mechanism: Mechanism, design: Mapping[str, Parameter], parameters: Mapping[str, float]) -> System:
    """The system of ``robot_system`` with numbers of the robot in the hands of the solver: parameters by name that stand for
    lengths, inertias and fields of forces (``dynamics.redmax.parameters``). It has no ``mechanism``, whose numbers are
    fixed, and no energy. Raises ModelError for what the robot does not have."""
    model = mechanism.model
    check(mechanism, list(design.values()))
    space, names = eom.model_space(model), list(parameters)
    arguments, q, v = eom.symbols(model, space, mechanism.nu, parameters)
    t, x, u, p = arguments
    a = ca.SX.sym("a", model.nv)
    own = ca.vertcat(ca.SX(0, 1), *(p[names.index(name)] for name in design))
    r = residual(mechanism, list(design.values()), (q, v, a, u, own))
    rest = ca.substitute(r, a, ca.DM.zeros(model.nv))
    system = _system(mechanism, space, mechanism.controls, arguments, -ca.solve(ca.jacobian(r, a), rest), ca.SX(0), parameters)
    F = ca.Function("motion", [t, x, a, u, p], [ca.densify(ca.cse(r))], ["t", "x", "w", "u", "p"], ["F"])
    return replace(system, energy=None, power=None, units=eom.units_of(mechanism), u_limits=eom.pairs(mechanism.control_limits),
                   formulation=Formulation(motion=functools.cache(lambda: F)),
                   drawn=lambda p: lengthened(model, {design[name]: float(p[names.index(name)]) for name in design}))


def inverse_dynamics_system(robot: Model | Mechanism, *, thrusters: Sequence[Thruster] = (), forces: Sequence[Force] = (),
                            parameters: Mapping[str, float] | None = None) -> System:
    """The system ``d/dt (q, v) = (v, a)``, whose controls are all accelerations a [nv] (rad/s^2 or m/s^2), named as velocities are,
    thrusts, and the multipliers of the reduced constraints of the mechanism, named as in ``residual_dynamics_system``.

    It brings ``effort_constraints`` along, without which components without a motor would get an effort. Its power
    is that of all efforts ``inverse_effort``. Raises as ``robot_system`` does.
    """
    mechanism = eom.mechanism_of(robot, "all", thrusters, forces)
    model = mechanism.model
    space = eom.model_space(model)
    names = (*model.velocity_names, *(thruster.name for thruster in mechanism.thrusters), *eom.row_names(mechanism))
    if len(set(names)) < len(names):
        raise ProblemError(f"control name {next(n for n in names if names.count(n) > 1)!r} is used twice", where="system.thrusters")
    (t, x, u, p), q, v = eom.symbols(model, space, len(names), parameters)
    a, thrusts = u[:model.nv], eom.thrusts_in(mechanism, u)
    power = mechanism.power(q, v, eom.inverse_effort(mechanism, x, u, t=t), thrusts)
    if mechanism.prescribed:
        power += ca.dot(stacked(model, reduced(mechanism.constraints), "jacobian", q, t) @ v, eom.multipliers_in(mechanism, u))
    system = _system(mechanism, space, names, [t, x, u, p], a, power, parameters)
    free = np.tile([-INF, INF], (len(names), 1))
    free[model.nv:model.nv + len(mechanism.thrusters)] = mechanism.control_limits[len(mechanism.motors):]
    own = effort_constraints(mechanism, parameters=system.np)
    return replace(system, formulation=Formulation(Form.INVERSE, mechanism), units=eom.units_of(mechanism, accelerations=True),
                   u_limits=eom.pairs(free),
                   constraints=(*own, *start_constraints(mechanism, system.np, unknowns=len(names) - mechanism.nu)))


def residual_dynamics_system(robot: Model | Mechanism, *, thrusters: Sequence[Thruster] = (), forces: Sequence[Force] = (),
                             parameters: Mapping[str, float] | None = None) -> System:
    """The system of ``robot_system`` in residual form: no mass matrix is inverted. Algebraic unknowns are the accelerations a [nv],
    named ``a.`` and their velocity, and the multipliers lambda [m] of the mechanism's reduced constraints, by constraint and row:

        0 = RNEA(q, v, a) - thrusts - forces - S u - J' lambda
        0 = J a + drift + 2 RATE rate + RATE^2 g + epsilon lambda

    epsilon is SOFT of the mean inverse inertia that the rows see at the neutral configuration; so rows may repeat each other, and
    lambda then is the smallest one, up to epsilon. Without redundant constraints epsilon is 0. Raises as ``robot_system`` does.
    """
    mechanism = eom.mechanism_of(robot, "all", thrusters, forces)
    model, count = mechanism.model, mechanism.nu
    space, constraints = eom.model_space(model), reduced(mechanism.constraints)
    rows = eom.row_names(mechanism)
    algebraic = (*(f"a.{name}" for name in model.velocity_names), *rows)
    arguments, q, v = eom.symbols(model, space, count + len(algebraic), parameters)
    u, a, multipliers = arguments[2][:count], arguments[2][count:count + model.nv], arguments[2][count + model.nv:]
    value = eom.motion(mechanism, (arguments[0], q, v, u), a, multipliers)
    power = mechanism.power(q, v, mechanism.motor_effort(u), u[len(mechanism.motors):])
    if mechanism.prescribed:
        power += ca.dot(stacked(model, constraints, "jacobian", q, arguments[0]) @ v, multipliers)
    system = _system(mechanism, space, mechanism.controls, arguments, a, power, parameters,
                     algebraic=algebraic, equations=(*(f"motion of {name}" for name in model.velocity_names), *rows),
                     residual=ca.Function("residual", arguments, [ca.densify(ca.cse(value))], ["t", "x", "u", "p"], ["F"]))
    free = np.tile([-INF, INF], (len(algebraic), 1))
    units = {f"a.{name}": unit for name, unit in eom.units_of(mechanism, accelerations=True).items() if f"a.{name}" in algebraic}
    return replace(system, formulation=Formulation(Form.IMPLICIT, mechanism), units=eom.units_of(mechanism) | units,
                   u_limits=eom.pairs(np.vstack([mechanism.control_limits, free])), constraints=_own(mechanism, system))


def _own(mechanism: Mechanism, system: System) -> tuple[Constraint, ...]:
    """Constraints of every phase and of the start."""
    counts = system.np, None, len(system.algebraic)
    return (*shared_effort_constraints(mechanism, *counts), *start_constraints(mechanism, *counts))


def accelerations(system: System) -> Model | None:
    """The model of a system whose first controls are its accelerations, else None."""
    return None if system.inverse is None else system.inverse.model


def inner(system: System) -> inside.Inner | None:
    """Values of the dynamics that costs and constraints of a robot may hold, with closed forms of their derivatives: efforts where
    accelerations are among the inputs; accelerations and forces of constraints where efforts alone are. None: there are none.
    Of steps they are those where these begin."""
    system = system.continuous
    if system.inverse is not None:
        return inside.efforts(system.inverse.model, system.nu)
    if system.implicit is not None and system.residual is not None:
        return inside.efforts(system.implicit.model, system.nu, len(system.controls))
    return None if system.mechanism is None else inside.forces(system.mechanism)


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
        x_limits=eom.pairs(eom.state_limits(model)), **more,
    )
