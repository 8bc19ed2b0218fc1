"""Outputs of the drives of a robot, whatever its system calls controls: efforts of motors and thrusts, with units and limits."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from ocp.bridge.motion import inverse_effort, model_space, motor_shares, symbols, thrusts_in, units_of
from ocp.problem import System


@dataclass(frozen=True)
class Efforts:
    """names, units, kinds ("effort" of a motor, "thrust") [n]; lower, upper [n]: limits of the drives; function(t, x, u) -> [n]:
    what they give under the inputs u of the system; None where these are the first of u."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    kinds: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    function: ca.Function | None

    def at_nodes(self, t: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """[k, n] at times [k], states [k, nx] and inputs [k, nu]."""
        if self.function is None:
            return u[:, : len(self.names)]
        return np.asarray(self.function(t[None, :], x.T, u.T), float).T.reshape(len(t), -1)


def drive_efforts(system: System) -> Efforts | None:
    """Of a system that is a robot; None for others. In inverse dynamics, whose controls are accelerations, they follow from the
    equations of motion (``inverse_effort``)."""
    mechanism = system.robot
    if mechanism is None:
        return None
    model, motors = mechanism.model, len(mechanism.motors)
    units = units_of(mechanism)
    kinds = ("effort",) * motors + ("thrust",) * len(mechanism.thrusters)
    function = None
    if system.inverse is not None:
        (t, x, u, _), _, _ = symbols(model, model_space(model), system.nu, 0)
        effort, shares = inverse_effort(mechanism, x, u, t=t), motor_shares(mechanism)
        places = {name: i for i, name in enumerate(model.velocity_names)}
        found = [effort[places[velocity]] / ratio for velocity, ratio in (shares[motor.name] for motor in mechanism.motors)]
        found += ca.vertsplit(thrusts_in(mechanism, u)) if mechanism.thrusters else []
        function = ca.Function("efforts", [t, x, u], [ca.cse(ca.densify(ca.vertcat(*found)))],
                               ["t", "x", "u"], ["efforts"])
    limits = np.asarray(mechanism.control_limits, float).reshape(-1, 2)
    names = mechanism.controls
    return Efforts(names, tuple(units[name] for name in names), kinds, limits[:, 0], limits[:, 1], function)
