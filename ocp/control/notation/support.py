"""Support-consistent inverse kinematics: motions of a floating-base robot that leave its contacts where they are.

    J_c u = 0   =>   u = N_c u_0,   u = N_c (J_t N_c)+ w_t

Hutter et al., Robot Dynamics lecture notes (ETH Zurich, HS 2023), Eqs. 2.273-2.276. It is the task hierarchy with the contacts
on top. Contacts may be redundant (several points of one foot): the rank decides, not the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics import algorithms as alg
from dynamics.model.model import Model
from ocp.control.ik import IKResult, solve_ik
from ocp.control.notation.prioritised import TOLERANCE, solve_levels
from ocp.control.task_kernel import compile_tasks
from ocp.control.tasks import Task, pose_task, position_task
from ocp.errors import ProblemError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SupportMotion:
    """u [nv]; residual: w_t - J_t u; projector: N_c [nv, nv]; contact_rank, task_rank: directions that the contacts take and
    the task uses."""

    u: Array
    residual: Array
    projector: Array
    contact_rank: int
    task_rank: int

    @property
    def feasible(self) -> bool:
        """The task is met without moving a contact."""
        return bool(np.abs(self.residual).max(initial=0.0) <= 1e-9)


def support_motion(J_c: ArrayLike, J_t: ArrayLike, w_t: ArrayLike, tolerance: float = TOLERANCE) -> SupportMotion:
    """u = N_c (J_t N_c)+ w_t for contact rows J_c [c, nv], task rows J_t [t, nv], task velocity w_t [t].

    Least squares where the supports do not allow w_t. Raises ProblemError for Jacobians of different widths.
    """
    contacts = np.atleast_2d(np.asarray(J_c, float))
    answer = solve_levels([(contacts, np.zeros(contacts.shape[0])), (J_t, w_t)], tolerance=tolerance)
    return SupportMotion(answer.v, answer.residuals[1], answer.projectors[1], answer.ranks[0], answer.ranks[1])


def contact_tasks(model: Model, q: ArrayLike, points: Sequence[str] = (), surfaces: Sequence[str] = ()) -> tuple[Task, ...]:
    """Tasks that keep frames where they are at q: ``points`` their origins, ``surfaces`` their poses. Raises
    UnknownNameError."""
    if not points and not surfaces:
        raise ProblemError("needs at least one contact", where="contact_tasks")
    symbol = ca.SX.sym("q", model.nq)
    names = [*points, *surfaces]
    poses = [alg.frame_pose(model, symbol, name) for name in names]
    values = ca.Function("poses", [symbol], [ca.densify(ca.SX(part)) for pose in poses for part in (pose.R, pose.p)])(
        np.asarray(q, float)
    )
    out = []
    for k, name in enumerate(names):
        R, p = np.array(values[2 * k]), np.array(values[2 * k + 1]).ravel()
        out.append(
            position_task(name, p, name=f"contact {name}") if k < len(points) else pose_task(name, R, p, name=f"contact {name}")
        )
    return tuple(out)


def support_velocity(
    model: Model, q: ArrayLike, contacts: Sequence[Task], tasks: Sequence[Task], tolerance: float = TOLERANCE
) -> SupportMotion:
    """Velocity u [nv] at q: contacts at rest, then the tasks at rate - gain e, as far as the supports allow."""
    J_c = compile_tasks(model, contacts)(q, compile_tasks(model, contacts).targets(contacts))[1]
    kernel = compile_tasks(model, tasks)
    e, J_t = kernel(q, kernel.targets(tasks))
    gain = kernel.spread(tasks, [task.gain for task in tasks], "gain")
    return support_motion(J_c, J_t, kernel.spread(tasks, [task.rate for task in tasks], "rate") - gain * e, tolerance)


def solve_supported_ik(
    model: Model,
    contacts: Sequence[Task],
    tasks: Sequence[Task | Sequence[Task]],
    *,
    q0: ArrayLike,
    limits: bool = True,
    restarts: int = 0,
    max_iterations: int = 100,
) -> IKResult:
    """Configuration with the contacts closed and the tasks met as well as they allow: `solve_ik` with the contacts as first
    priority."""
    return solve_ik(model, [list(contacts), *tasks], q0=q0, limits=limits, restarts=restarts, max_iterations=max_iterations)
