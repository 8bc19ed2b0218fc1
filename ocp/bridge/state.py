"""The state of a robot: its manifold, limits, units, and the symbols that functions of it take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics.mechanism import Mechanism
from dynamics.model.model import Model
from ocp.spaces import Space

Expr = Any


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


def symbols(model: Model, space: Space, nu: int, parameters: Mapping[str, float] | int | None) -> tuple[list[Expr], Expr, Expr]:
    """Symbols [t, x, u, p], and q and v in x."""
    count = parameters if isinstance(parameters, int) else len(parameters or {})
    x = ca.SX.sym("x", space.nx)
    return [ca.SX.sym("t"), x, ca.SX.sym("u", nu), ca.SX.sym("p", count)], x[:model.nq], x[model.nq:]
