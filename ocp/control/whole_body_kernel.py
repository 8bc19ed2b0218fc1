"""The terms of whole-body control at a state, by one compiled function for a robot, its stances and its tasks.

Rows of motion, one block below the other: 3 of each stance, those of closures, of tasks, 6 of the momentum about the mass centre.
For each its Jacobian G, its acceleration ``drift`` without a, and its error e (0 where there is none).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dynamics import algorithms as alg
from dynamics.algorithms import contact_kinematics
from dynamics.kernels import Kernel, compile_kernel
from dynamics.mechanism import Mechanism, constrained
from ocp.control.task_kernel import RobotKey, parameter_starts, task_rates
from ocp.control.tasks import Shape

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms at a state: M [nv, nv], h [nv] (the robot's own forces within), S [nu, nv]; J_c [3 c, nv] and drift_c [3 c] of all
    known stances; J_l [l, nv] and drift_l [l] of closures (J_l a = -drift_l closes them); e, J, drift of all known tasks, rates [m]
    = J v; momentum [6] about the centre of mass, its Jacobian A_g [6, nv] and drift_g [6]; q [nq], v [nv]."""

    M: Array
    h: Array
    S: Array
    J_c: Array
    drift_c: Array
    J_l: Array
    drift_l: Array
    e: Array
    J: Array
    drift: Array
    momentum: Array
    A_g: Array
    drift_g: Array
    q: Array
    v: Array

    @property
    def rates(self) -> Array:
        """Rates J v [m] of the tasks."""
        return self.J @ self.v


@dataclass(frozen=True, eq=False)
class StateKernel:
    """kernel: (q, v, targets) -> (M, h, G, drift, e, and S where thrusters make it depend on q). rows [tasks + 1], targets
    [tasks + 1]: first row in J, first target of each task. starts: first rows in G of stances, closures, tasks, momentum, and their
    number."""

    kernel: Kernel
    rows: tuple[int, ...]
    targets: tuple[int, ...]
    starts: tuple[int, int, int, int, int]
    thrusts: bool

    def terms(self, q: Array, v: Array, p: Array, S: Array) -> Terms:
        """The kernel's numbers by name; S [nu, nv]: where it does not depend on q."""
        values = [np.asarray(x, float) for x in self.kernel(q, v, p)]
        nv, (_, held, tasks, momentum, _) = v.size, self.starts
        M, G = values[0].reshape(nv, nv), values[2].reshape(-1, nv)
        h, drift, e = values[1].ravel(), values[3].ravel(), values[4].ravel()
        S = values[5].reshape(-1, nv) if self.thrusts else S
        return Terms(M, h, S, G[:held], drift[:held], G[held:tasks], drift[held:tasks], e[tasks:momentum], G[tasks:momentum],
                     drift[tasks:momentum], G[momentum:] @ v, G[momentum:], drift[momentum:], q, v)


@lru_cache(maxsize=64)
def state_kernel(robot: RobotKey, contacts: tuple[contact_kinematics.Contact, ...], shapes: tuple[Shape, ...],
                 mode: str) -> StateKernel:
    """robot: the key of a Mechanism."""
    mechanism: Mechanism = robot.model  # type: ignore[assignment]
    model = mechanism.model
    targets = parameter_starts(model, shapes)
    q, v, p = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("p", targets[-1])
    e, J, drift, rows = task_rates(model, shapes, q, v, p)
    momentum = alg.momentum(model, q, v)
    momentum = ca.vertcat(momentum[:3], momentum[3:] - ca.cross(alg.centre_of_mass(model, q), momentum[:3]))
    closures = constrained.reduced(mechanism.constraints)
    J_l, closes = ca.SX(0, model.nv), ca.SX(0, 1)
    if closures:
        J_l, closes = constrained.stacked(model, closures, "jacobian", q, 0.0), constrained.demanded(model, closures, q, v, 0.0)
    J_c, drift_c = contact_kinematics.contact_jacobian(model, q, contacts), contact_kinematics.contact_drift(model, q, v, contacts)
    starts = (0, J_c.shape[0], J_c.shape[0] + J_l.shape[0], J_c.shape[0] + J_l.shape[0] + rows[-1])
    G = ca.vertcat(J_c, J_l, J, ca.jacobian(momentum, v))
    drifts = ca.vertcat(drift_c, -closes, drift, ca.jtimes(momentum, q, alg.rate_matrix(model, q) @ v))
    errors = ca.vertcat(ca.SX(starts[2], 1), e, ca.SX(6, 1))
    outputs = [alg.mass_matrix(model, q), alg.bias_force(model, q, v) - mechanism.force(q, v), G, drifts, errors]
    names = ["M", "h", "G", "drift", "e"]
    if mechanism.thrusters:
        u = ca.SX.sym("u", len(mechanism.thrusters))
        pushed = ca.jacobian(mechanism.thrust_effort(q, u), u)
        outputs.append(ca.horzcat(mechanism.selection, pushed).T)
        names.append("S")
    function = ca.Function("whole_body", [q, v, p], ca.cse([ca.densify(ca.SX(x)) for x in outputs]), ["q", "v", "p"], names)
    kernel = compile_kernel(function, mode)  # type: ignore[arg-type]
    return StateKernel(kernel, rows, targets, (*starts, G.shape[0]), bool(mechanism.thrusters))
