"""The algorithms as CasADi Functions with named arguments: one table, so that kernels, benchmarks and tests share it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import casadi as ca

from dynamics import algorithms as alg
from dynamics.errors import ModelError, near
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


@dataclass(frozen=True)
class Entry:
    """inputs: names among q [nq], v, a, tau, d [nv], q0, q1 [nq]; outputs: names; build(model, *inputs) -> outputs."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    build: Callable[..., tuple[Expr, ...]]


def _one(function: Callable[..., Expr]) -> Callable[..., tuple[Expr, ...]]:
    return lambda model, *inputs: (function(model, *inputs),)


FUNCTIONS: dict[str, Entry] = {
    "inverse_dynamics": Entry(("q", "v", "a"), ("tau",), _one(alg.inverse_dynamics)),
    "forward_dynamics": Entry(("q", "v", "tau"), ("a",), _one(alg.forward_dynamics)),
    "mass_matrix": Entry(("q",), ("M",), _one(alg.mass_matrix)),
    "bias_force": Entry(("q", "v"), ("h",), _one(alg.bias_force)),
    "gravity_force": Entry(("q",), ("g",), _one(alg.gravity_force)),
    "centre_of_mass": Entry(("q",), ("c",), _one(alg.centre_of_mass)),
    "centre_of_mass_jacobian": Entry(("q",), ("J",), _one(alg.centre_of_mass_jacobian)),
    "momentum": Entry(("q", "v"), ("hg",), _one(alg.momentum)),
    "kinetic_energy": Entry(("q", "v"), ("T",), _one(alg.kinetic_energy)),
    "potential_energy": Entry(("q",), ("V",), _one(alg.potential_energy)),
    "integrate": Entry(("q", "d"), ("q_next",), _one(alg.integrate)),
    "difference": Entry(("q0", "q1"), ("d",), _one(alg.difference)),
    "body_poses": Entry(("q",), ("poses",), lambda model, q: (_stack_poses(model, q),)),
}


def _stack_poses(model: Model, q: Expr) -> Expr:
    """[3, 4 n]: ``[R | p]`` of every body side by side."""
    return ca.horzcat(*(ca.horzcat(pose.R, pose.p) for pose in alg.body_poses(model, q)))


def sizes(model: Model) -> dict[str, int]:
    """Length of each named argument."""
    return {"q": model.nq, "q0": model.nq, "q1": model.nq, "v": model.nv, "a": model.nv, "tau": model.nv, "d": model.nv}


class Modelled(Protocol):
    """An object with a model: a mechanism, a loaded robot."""

    @property
    def model(self) -> Model:
        """The robot."""


def model_of(robot: Model | Modelled) -> Model:
    """The tree of bodies and joints of whatever stands for a robot."""
    return robot if isinstance(robot, Model) else robot.model


def make(robot: Model | Modelled, name: str) -> ca.Function:
    """The named algorithm of this robot as an SX Function. Raises ModelError with near misses for an unknown name."""
    model = model_of(robot)
    if name not in FUNCTIONS:
        raise ModelError(f"no function named {name!r}{near(name, FUNCTIONS)}")
    entry, length = FUNCTIONS[name], sizes(model)
    inputs = [ca.SX.sym(arg, length[arg]) for arg in entry.inputs]
    outputs = [ca.densify(out) for out in map(ca.SX, entry.build(model, *inputs))]
    return ca.Function(name, inputs, outputs, list(entry.inputs), list(entry.outputs))


def make_frame(robot: Model | Modelled, name: str, frame: str, reference: str = "world_aligned") -> ca.Function:
    """Frame quantities as Functions: name is ``pose`` (q -> R, p), ``jacobian`` (q -> J), ``velocity`` (q, v -> twist)
    or ``drift`` (q, v -> dJ/dt v). Raises ModelError, UnknownNameError."""
    model = model_of(robot)
    q, v = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
    if name == "pose":
        pose = alg.frame_pose(model, q, frame)
        return ca.Function("frame_pose", [q], [ca.densify(ca.SX(pose.R)), ca.densify(ca.SX(pose.p))], ["q"], ["R", "p"])
    if name == "jacobian":
        return ca.Function("frame_jacobian", [q], [ca.densify(alg.frame_jacobian(model, q, frame, reference))], ["q"], ["J"])
    build = {"velocity": alg.frame_velocity, "drift": alg.frame_jacobian_drift}
    if name not in build:
        raise ModelError(f"no frame function named {name!r}{near(name, ('pose', 'jacobian', *build))}")
    value = ca.densify(ca.SX(build[name](model, q, v, frame, reference)))
    return ca.Function(f"frame_{name}", [q, v], [value], ["q", "v"], [name])
