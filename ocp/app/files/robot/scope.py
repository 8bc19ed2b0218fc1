"""Names in expressions of a robot's state x = (q, v)."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import casadi as ca

from dynamics.model.model import Model
from ocp.app.files.robot.states import entries
from ocp.app.files.syntax import reader as lp
from ocp.app.files.syntax.scope import Scope, Table, VectorFunction
from ocp.bridge import model_space
from ocp.robot_terms import RobotTerms

SX = Any


def state_reader(numbers: lp.Reader, model: Model) -> lp.Reader:
    """A reader of expressions of the state x = (q, v): by joint, and of points of the robot."""
    x = ca.vertcat(*(ca.SX.sym(name) for name in model_space(model).names))
    return replace(numbers, x=x, scope=state_scope(numbers, model, x))


def state_scope(numbers: lp.Reader, model: Model, x: SX) -> Scope:
    """Names in expressions of x = (q, v)."""
    q, v, terms = x[: model.nq], x[model.nq :], RobotTerms(model)
    position = functools.cache(lambda frame: terms.position(frame, q))
    velocity = functools.cache(lambda frame: terms.velocity(frame, q, v))
    return replace(
        numbers.scope,
        tables={"q": Table(q, entries(model, q, velocities=False)),
                "v": Table(v, entries(model, v, velocities=True))},
        functions={"position": VectorFunction(position), "velocity": VectorFunction(velocity),
                   "com": VectorFunction(lambda: terms.com(q), takes_name=False),
                   "angular_momentum": VectorFunction(lambda frame, about: terms.angular_momentum(frame, about, q, v), count=2)})
