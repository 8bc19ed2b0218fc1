"""A robot with all that acts on it: the tree, its drives with their limits, its own forces, and constraints that close loops.

    M(q) a + h(q, v) = S u_motors + sum J' thrust + sum f(q, v) + J_c' lambda        J_c a + dJ_c/dt v = 0

The tree's algorithms know gravity, damping and armature of joints; drives and forces enter here, once, for every equation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.algorithms.forward_dynamics import solve_mass
from dynamics.constraints import Constraint
from dynamics.errors import ModelError, UnknownNameError, near
from dynamics.forces import Force
from dynamics.mechanism.drives import INF, Motor, Thruster, check_drives
from dynamics.model.lock import lock_joints
from dynamics.model.model import Model

Expr = Any


#: rate [1/s] at which violations of constraints decay; what is added to the diagonal, relative to its mean
RATE, EPSILON = 10.0, 1e-9


@dataclass(frozen=True)
class Mechanism:
    """A model, its motors and thrusters (in the order of the controls u), its forces and its constraints. Frozen data.

    Raises ModelError or UnknownNameError where a record does not fit the model, naming it.
    """

    model: Model
    motors: tuple[Motor, ...] = ()
    thrusters: tuple[Thruster, ...] = ()
    forces: tuple[Force, ...] = ()
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        check_drives(self.model, self.motors, self.thrusters)
        for what, items in (("force", self.forces), ("constraint", self.constraints)):
            names = [item.name for item in items]
            for item in items:
                if names.count(item.name) > 1:
                    raise ModelError(f"{what} name {item.name!r} is used twice", element=f"model {self.model.name!r}")
                try:
                    item.check(self.model)
                except UnknownNameError as error:
                    raise ModelError(str(error), element=f"{what} {item.name!r}") from error

    # ---- controls ---------------------------------------------------------------------------------------------------
    @property
    def controls(self) -> tuple[str, ...]:
        """Names of u: motors, then thrusters."""
        return (*(motor.name for motor in self.motors), *(thruster.name for thruster in self.thrusters))

    @property
    def nu(self) -> int:
        return len(self.motors) + len(self.thrusters)

    @cached_property
    def selection(self) -> ca.DM:
        """S [nv, motors]: generalised force of each motor per unit of its control."""
        S = ca.DM(self.model.nv, len(self.motors))
        for column, motor in enumerate(self.motors):
            for velocity, ratio in motor.gears:
                S[self.model.velocity_names.index(velocity), column] += ratio
        return ca.sparsify(S)

    @cached_property
    def driven(self) -> tuple[str, ...]:
        """Names of the velocities that a motor acts on."""
        geared = {velocity for motor in self.motors for velocity, _ in motor.gears}
        return tuple(name for name in self.model.velocity_names if name in geared)

    @cached_property
    def control_limits(self) -> np.ndarray:
        """Lower and upper limits of u [nu, 2]: those of each drive, and of the joint that a motor drives alone."""
        effort = dict(zip(self.model.velocity_names, self.model.limit("effort"), strict=True))
        users = [velocity for motor in self.motors for velocity, _ in motor.gears]
        rows = []
        for motor in self.motors:
            low, high = motor.lower, motor.upper
            if len(motor.gears) == 1 and users.count(motor.gears[0][0]) == 1:
                (velocity, ratio), = motor.gears
                most = effort[velocity] / abs(ratio)
                low, high = max(low, -most), min(high, most)
            rows.append((low, high))
        rows += [(thruster.lower, thruster.upper) for thruster in self.thrusters]
        return np.array(rows, dtype=float).reshape(-1, 2)

    @cached_property
    def shared_limits(self) -> tuple[str, ...]:
        """Velocities whose limit of effort no bound of a control expresses: several motors act there, or a transmission does."""
        effort = self.model.limit("effort")
        users = [(velocity, len(motor.gears)) for motor in self.motors for velocity, _ in motor.gears]
        names = [velocity for velocity, _ in users]
        return tuple(name for name, most in zip(self.model.velocity_names, effort, strict=True) if np.isfinite(most)
                     and name in names and (names.count(name) > 1 or dict(users)[name] > 1))

    # ---- equations --------------------------------------------------------------------------------------------------
    def motor_effort(self, u: Expr) -> Expr:
        """S u_motors [nv]; u: [nu]."""
        count = len(self.motors)
        return self.selection @ u[:count] if count else type(u)(self.model.nv, 1)

    def force(self, q: Expr, v: Expr) -> Expr:
        """Sum of the mechanism's own forces [nv]."""
        return sum((force.effort(self.model, q, v) for force in self.forces), ca.DM(self.model.nv, 1))

    def stiffness(self, q: Expr, v: Expr) -> Expr:
        """K = df/dq [nv, nv] of the sum, along right perturbations."""
        return sum((force.stiffness(self.model, q, v) for force in self.forces), ca.DM(self.model.nv, self.model.nv))

    def damping(self, q: Expr, v: Expr) -> Expr:
        """D = df/dv [nv, nv] of the sum."""
        return sum((force.damping(self.model, q, v) for force in self.forces), ca.DM(self.model.nv, self.model.nv))

    def wrenches(self, q: Expr, thrusts: Expr) -> dict[str, Expr]:
        """Wrench [6] on each pushed body by its name, body coordinates; thrusts [N]: one for each thruster. They depend on q only
        where a thruster pushes against another body."""
        return thrust_wrenches(self.model, self.thrusters, q, thrusts)

    def thrust_effort(self, q: Expr, thrusts: Expr) -> Expr:
        """Generalised force [nv] of the thrusters, ``sum J' w``."""
        return sum((alg.frame_jacobian(self.model, q, body, "body").T @ wrench
                    for body, wrench in self.wrenches(q, thrusts).items()), ca.DM(self.model.nv, 1))

    def forward_dynamics(self, q: Expr, v: Expr, u: Expr) -> Expr:
        """Acceleration a [nv] under the controls u [nu]."""
        if self.constraints:
            return self.constrained_dynamics(q, v, u)[0]
        q, v, u = tree.as_column(q), tree.as_column(v), tree.as_column(u)
        tau = self.motor_effort(u) + self.force(q, v)
        return alg.forward_dynamics(self.model, q, v, tau, self.wrenches(q, u[len(self.motors):]))

    def constrained_dynamics(self, q: Expr, v: Expr, u: Expr) -> tuple[Expr, Expr]:
        """(a [nv], lambda [m]): the solution of ``M a - J' lambda = tau - h``, ``J a = -dJ/dt v - 2 RATE J v - RATE^2 g``.

        Rows may depend on each other: ``(J M^-1 J' + eps) lambda = b`` is refined twice, so that eps leaves nothing behind where
        rows are independent, and lambda is the smallest one where they are not; a is unique. Off the constraint, g decays at
        ``RATE`` (Baumgarte 1972), on it the terms vanish. q, v, u: expressions or numbers.
        """
        q, v, u = tree.as_column(q), tree.as_column(v), tree.as_column(u)
        h = alg.bias_force(self.model, q, v, self.wrenches(q, u[len(self.motors):]))
        M = alg.mass_matrix(self.model, q)
        J = ca.vertcat(*(c.jacobian(self.model, q) for c in self.constraints))
        g = ca.vertcat(*(c.value(self.model, q) for c in self.constraints))
        drift = ca.vertcat(*(c.drift(self.model, q, v) for c in self.constraints))
        found = solve_mass(M, ca.densify(ca.horzcat(self.motor_effort(u) + self.force(q, v) - h, J.T)))
        free, across = found[:, 0], found[:, 1:]
        A = ca.densify(J @ across)
        b = ca.densify(-drift - 2 * RATE * (J @ v) - RATE**2 * g - J @ free)
        count = A.shape[0]
        small = EPSILON * ca.trace(A) / count * ca.DM.eye(count)
        multipliers: Expr = ca.DM(count, 1)
        for _ in range(3):
            multipliers = multipliers + _solve(A + small, b - A @ multipliers)
        return free + across @ multipliers, multipliers

    def inverse_dynamics(self, q: Expr, v: Expr, a: Expr, thrusts: Expr | None = None) -> Expr:
        """Generalised force [nv] that motors have to give for the acceleration a [nv]; thrusts [N]: of the thrusters, None: 0."""
        q, v, a = tree.as_column(q), tree.as_column(v), tree.as_column(a)
        pushed = {} if thrusts is None else self.wrenches(q, tree.as_column(thrusts))
        return alg.inverse_dynamics(self.model, q, v, a, pushed) - self.force(q, v)

    def energy(self, q: Expr, v: Expr) -> Expr:
        """Kinetic energy, and the potential energy of gravity and of the forces that have one [J]."""
        return alg.total_energy(self.model, q, v) + sum((force.energy(self.model, q) for force in self.forces), ca.DM(0))

    def power(self, q: Expr, v: Expr, tau: Expr, thrusts: Expr) -> Expr:
        """What the energy changes by [W] under motor efforts tau [nv] and thrusts: their power, less what dampers take."""
        power = ca.dot(v, tau) - ca.dot(v, tree.diagonal(self.model, "damping") * v)
        wrenches = self.wrenches(q, thrusts)
        twists = alg.body_velocities(self.model, q, v) if wrenches else []
        for name, wrench in wrenches.items():
            power += ca.dot(twists[self.model.body_index(name)], wrench)
        for force in self.forces:
            at_rest = force.effort(self.model, q, type(v).zeros(*v.shape))
            potential = not isinstance(force.energy(self.model, q), ca.DM)
            power += ca.dot(v, force.effort(self.model, q, v) - (at_rest if potential else 0))
        return power

    # ---- as a whole -------------------------------------------------------------------------------------------------
    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything that the dynamics depend on."""
        return hashlib.sha256("\n".join([self.model.fingerprint,
                                         *map(repr, (self.motors, self.thrusters, self.forces, self.constraints))]).encode()
                              ).hexdigest()

    def locked(self, values: Mapping[str, float | Sequence[float]]) -> Mechanism:
        """The same with joints held at values [rad or m]; drives and forces that acted on them alone are gone."""
        model = lock_joints(self.model, values)
        left = set(model.velocity_names)
        motors = (replace(motor, gears=tuple(gear for gear in motor.gears if gear[0] in left)) for motor in self.motors)
        return Mechanism(model, tuple(motor for motor in motors if motor.gears),
                         tuple(t for t in self.thrusters if model.frame(t.frame).body >= 0),
                         tuple(kept for force in self.forces if (kept := force.remaining(model)) is not None),
                         tuple(left_over for c in self.constraints if (left_over := c.remaining(model)) is not None))


def _solve(A: Expr, b: Expr) -> Expr:
    """``A^-1 b`` of a symmetric positive definite matrix."""
    if isinstance(A, ca.MX) or isinstance(b, ca.MX):
        return ca.solve(A, b)
    D, LT, p = ca.ldl(A)
    return ca.ldl_solve(b, D, LT, p)


def thrust_wrenches(model: Model, thrusters: Sequence[Thruster], q: Expr, thrusts: Expr) -> dict[str, Expr]:
    """Wrench [6] on each pushed body by its name, body coordinates; thrusts [N]: one for each thruster."""
    total: dict[str, Expr] = {}

    def add(body: int, wrench: Expr) -> None:
        name = model.bodies[body].name
        total[name] = total[name] + wrench if name in total else wrench

    poses = alg.body_poses(model, q) if any(thruster.against for thruster in thrusters) else []
    for k, thruster in enumerate(thrusters):
        frame = model.frame(thruster.frame)
        wrench = spatial.force_to_parent(tree.placement_transform(frame.placement), thruster.unit_wrench() * thrusts[k])
        add(frame.body, wrench)
        other = model.frame(thruster.against).body if thruster.against else -1
        if other >= 0:
            add(other, -spatial.force_to_parent(spatial.compose(spatial.inverse(poses[other]), poses[frame.body]), wrench))
    return total


def drivable_joints(model: Model) -> tuple[str, ...]:
    """Joints that can have a motor: all that move but free-flyers and mimic joints."""
    return tuple(body.joint.name for i, body in enumerate(model.bodies)
                 if body.joint.mimic is None and model.kind(i).nv and body.joint.kind != "free_flyer")


def direct_motors(model: Model, joints: str | Sequence[str] = "all") -> tuple[Motor, ...]:
    """A motor of ratio 1 at every velocity of the joints, named as it; "all": those of ``drivable_joints``.

    Raises ModelError for joints that cannot be driven, with what is near.
    """
    known = drivable_joints(model)
    if isinstance(joints, str) and joints != "all":
        raise ModelError(f"must be 'all' or a list of joint names, got {joints!r}")
    motors: list[Motor] = []
    for joint in known if isinstance(joints, str) else joints:
        if joint not in known:
            raise ModelError(f"cannot drive joint {joint!r}{near(joint, known)}")
        motors += [Motor(name, ((name, 1.0),), -INF, INF) for name in model.velocity_names[model.v_slice(model.joint_index(joint))]]
    return tuple(motors)
