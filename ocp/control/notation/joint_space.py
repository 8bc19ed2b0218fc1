"""Control in joint space: impedance, gravity compensation, computed torque, on any robot and any joint.

Errors are velocities that lead from q to the target, q* [-] q, so quaternions and free-flyers are served like angles. Hutter et
al., Robot Dynamics lecture notes (ETH Zurich, HS 2023), section 3.8.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics import algorithms as alg
from dynamics.kernels import Kernel, compile_kernel
from dynamics.model.model import Model
from ocp.control.notation.task_space import Gains
from ocp.control.task_kernel import RobotKey

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class JointSpace:
    """Controllers of one robot. kernel: (q, v, q*) -> q* [-] q [nv], M [nv, nv], h [nv] (Coriolis, gravity, damping), g [nv]."""

    model: Model
    kernel: Kernel

    def impedance(self, gains: Gains, q: ArrayLike, v: ArrayLike, target: ArrayLike, speed: ArrayLike = 0.0) -> Array:
        """``k_p (q* - q) + k_d (v* - v)`` [nv]: at rest it gives way until g(q) = k_p (q* - q) (Eqs. 3.73, 3.74)."""
        error = self.kernel(q, v, target)[0]
        return gains.acceleration(error, np.asarray(speed, float) - np.asarray(v, float))

    def compensated(self, gains: Gains, q: ArrayLike, v: ArrayLike, target: ArrayLike, speed: ArrayLike = 0.0) -> Array:
        """The impedance plus gravity of this model [nv] (Eq. 3.75): at rest at the target if the model is right."""
        return self.impedance(gains, q, v, target, speed) + self.kernel(q, v, target)[3]

    def computed_torque(self, gains: Gains, q: ArrayLike, v: ArrayLike, target: ArrayLike, speed: ArrayLike = 0.0,
                        acceleration: ArrayLike = 0.0) -> Array:
        """``M a* + h`` [nv] with ``a* = acceleration + k_p (q* - q) + k_d (v* - v)`` (Eqs. 3.76 to 3.80): every coordinate of a
        vector space swings by itself, with the frequency and damping of the gains."""
        error, M, h, _ = self.kernel(q, v, target)
        wanted = gains.acceleration(error, np.asarray(speed, float) - np.asarray(v, float), acceleration)
        return M @ wanted + h


def joint_space(model: Model) -> JointSpace:
    """Compiled once for a robot."""
    return JointSpace(model, _kernel(RobotKey(model)))


@lru_cache(maxsize=64)
def _kernel(robot: RobotKey) -> Kernel:
    model = robot.model
    q, v, goal = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("goal", model.nq)
    outputs = [alg.difference(model, q, goal), alg.mass_matrix(model, q), alg.bias_force(model, q, v), alg.gravity_force(model, q)]
    return compile_kernel(ca.Function("joint_space", [q, v, goal], ca.cse([ca.densify(ca.SX(x)) for x in outputs]),
                                      ["q", "v", "goal"], ["error", "M", "h", "g"]))
