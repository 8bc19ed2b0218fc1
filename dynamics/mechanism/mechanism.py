"""A robot with all that acts on it: the tree, its drives with their limits, its own forces, and constraints that close loops.

    M(q) a + h(q, v) = S u_motors + sum J' thrust + sum f(q, v) + J_c' lambda        J_c a + drift = 0

The tree's algorithms know gravity, damping and armature of joints; drives and forces enter here, once, for every equation. External
wrenches [6] go by the name of a body, in its coordinates, whether it moves or is welded to one that does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.algorithms.saddle import Saddle
from dynamics.constraints import Constraint
from dynamics.errors import ModelError, UnknownNameError, near
from dynamics.forces import Force
from dynamics.lie.expression import Expr
from dynamics.mechanism import constrained
from dynamics.mechanism.constrained import Impact, Restitution
from dynamics.mechanism.drives import INF, Motor, Thruster, check_drives
from dynamics.model.lock import lock_joints
from dynamics.model.model import Model

Wrenches = Mapping[str, Expr] | None


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
        """Number of controls."""
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

    def wrenches(self, thrusts: Expr, q: Expr = None) -> dict[str, Expr]:
        """Wrench [6] on each pushed body by its name, body coordinates; thrusts [N]: one for each thruster. They depend on q only
        where a thruster pushes against another body; ModelError where that is so and q is not given."""
        return thrust_wrenches(self.model, self.thrusters, thrusts, q)

    def thrust_effort(self, q: Expr, thrusts: Expr) -> Expr:
        """Generalised force [nv] of the thrusters, ``sum J' w``."""
        return sum((alg.frame_jacobian(self.model, q, body, "body").T @ wrench
                    for body, wrench in self.wrenches(thrusts, q).items()), ca.DM(self.model.nv, 1))

    def forward_dynamics(self, q: Expr, v: Expr, u: Expr, t: Expr = 0.0, f_ext: Wrenches = None) -> Expr:
        """Acceleration a [nv] under the controls u [nu] and external wrenches; t [s]: for constraints that depend on time."""
        return self.reduced_dynamics(q, v, u, t, f_ext)[0]

    def constrained_dynamics(self, q: Expr, v: Expr, u: Expr, t: Expr = 0.0, f_ext: Wrenches = None) -> tuple[Expr, Expr]:
        """(a [nv], lambda [m]): the solution of ``M a - J' lambda = tau - h``, ``J a = -drift - 2 RATE rate - RATE^2 g``.

        Rows may depend on each other: lambda is then the smallest one, a is unique. Off the constraint, g decays at ``RATE``
        (Baumgarte 1972), on it the terms vanish. q, v, u: expressions or numbers.
        """
        a, rows = self.reduced_dynamics(q, v, u, t, f_ext)
        return a, constrained.spread(self.model, self.constraints, q, rows)

    def reduced_dynamics(self, q: Expr, v: Expr, u: Expr, t: Expr = 0.0, f_ext: Wrenches = None) -> tuple[Expr, Expr]:
        """The same with the multipliers of the reduced constraints; none where there are no constraints."""
        q, v, u = tree.as_column(q), tree.as_column(v), tree.as_column(u)
        tau, pushed = self.motor_effort(u) + self.force(q, v), self._pushed(q, u, f_ext)
        if not self.constraints:
            return alg.forward_dynamics(self.model, q, v, tau, pushed), type(tau)(0, 1)
        return constrained.accelerations(self.model, self.constraints, q, v, tau, t, pushed)

    def constraint_forces(self, q: Expr, v: Expr, u: Expr, t: Expr = 0.0, f_ext: Wrenches = None) -> dict[str, Expr]:
        """The multipliers of each constraint by its name, one for each equation: forces and moments on the robot along its
        gradient."""
        return self.by_constraint(self.constrained_dynamics(q, v, u, t, f_ext)[1])

    def by_constraint(self, rows: Expr) -> dict[str, Expr]:
        """Entries of all rows [m] split by the names of the constraints."""
        found, start = dict[str, Expr](), 0
        for c in self.constraints:
            count = c.size(self.model)
            found[c.name] = rows[start:start + count]
            start += count
        return found

    def constraint_effort(self, q: Expr, forces: Mapping[str, Expr], t: Expr = 0.0) -> Expr:
        """Generalised force ``sum J' lambda`` [nv] of given multipliers by the names of constraints. Raises UnknownNameError."""
        known = {c.name: c for c in self.constraints}
        total: Expr = ca.DM(self.model.nv, 1)
        for name, force in forces.items():
            if name not in known:
                raise UnknownNameError("constraint", name, known)
            J = known[name].jacobian(self.model, q, t)
            if tree.as_column(force).shape != (J.shape[0], 1):
                raise ModelError(f"{tree.as_column(force).shape[0]} forces for {J.shape[0]} rows", element=f"constraint {name!r}")
            total = total + J.T @ tree.as_column(force)
        return total

    def constraint_power(self, q: Expr, v: Expr, u: Expr, t: Expr = 0.0) -> Expr:
        """Power of the constraints [W]: zero on the constraint unless they move by themselves."""
        J = constrained.stacked(self.model, self.constraints, "jacobian", q, t)
        return ca.dot(J @ v, self.constrained_dynamics(q, v, u, t)[1])

    @cached_property
    def prescribed(self) -> bool:
        """Whether a constraint moves by itself: its rate does not vanish at rest, so that its forces do work."""
        q, t, rest = ca.SX.sym("q", self.model.nq), ca.SX.sym("t"), ca.SX(self.model.nv, 1)
        return any(not ca.cse(ca.SX(c.rate(self.model, q, rest, t))).is_zero() for c in self.constraints)

    @cached_property
    def timed(self) -> bool:
        """Whether a constraint depends on time."""
        q, v, t = ca.SX.sym("q", self.model.nq), ca.SX.sym("v", self.model.nv), ca.SX.sym("t")
        return any(ca.depends_on(ca.SX(c.rate(self.model, q, v, t)), t) for c in self.constraints)

    def impact(self, q: Expr, v: Expr, restitution: Restitution = 0.0, t: Expr = 0.0, impulses: Wrenches = None) -> Impact:
        """Velocity after an impact on all constraints, impulses of all their rows, change of energy: see ``constrained.impact``."""
        found = constrained.impact(self.model, self.constraints, q, v, restitution, t, impulses)
        return found._replace(impulse=constrained.spread(self.model, self.constraints, q, found.impulse))

    def hybrid_dynamics(self, q: Expr, v: Expr, u: Expr, prescribed: Mapping[str, Expr], t: Expr = 0.0
                        ) -> tuple[Expr, dict[str, Expr]]:
        """(a [nv], efforts): accelerations of some joints in, the efforts [N m or N] that these take beyond the motors' out.

        prescribed: joint -> its accelerations. Constraints hold as well. Rows ``pG a = p``, effort = multiplier. Source: the RedMax
        notes, Eq. 2.113, with the sign of a force on the joint. Raises ModelError, UnknownNameError.
        """
        q, v, u = tree.as_column(q), tree.as_column(v), tree.as_column(u)
        model = self.model
        rows = [model.v_slice(model.joint_index(joint)) for joint in prescribed]
        for (joint, wanted), own in zip(prescribed.items(), rows, strict=True):
            if tree.as_column(wanted).shape[0] != own.stop - own.start:
                raise ModelError(f"{tree.as_column(wanted).shape[0]} accelerations for {own.stop - own.start} velocities",
                                 element=f"joint {joint!r}")
        selected = (ca.DM.eye(model.nv)[own, :] for own in rows)
        held = constrained.reduced(self.constraints)
        J = ca.vertcat(*(c.jacobian(model, q, t) for c in held), *selected)
        c = ca.vertcat(*([constrained.demanded(model, held, q, v, t)] if held else []),
                       *map(tree.as_column, prescribed.values()))
        h = alg.bias_force(model, q, v, self._pushed(q, u, None))
        a, multipliers = Saddle(alg.mass_matrix(model, q), J).solve(self.motor_effort(u) + self.force(q, v) - h, c)
        start, efforts = J.shape[0] - sum(own.stop - own.start for own in rows), {}
        for joint, own in zip(prescribed, rows, strict=True):
            efforts[joint] = multipliers[start:start + own.stop - own.start]
            start += own.stop - own.start
        return a, efforts

    def inverse_dynamics(self, q: Expr, v: Expr, a: Expr, thrusts: Expr | None = None, f_ext: Wrenches = None,
                         forces: Mapping[str, Expr] | None = None) -> Expr:
        """Generalised force [nv] that motors have to give for the acceleration a [nv]; thrusts [N]: of the thrusters, None: 0;
        forces: multipliers of constraints by name, those left out are zero."""
        q, v, a = tree.as_column(q), tree.as_column(v), tree.as_column(a)
        pushed = self._merged({} if thrusts is None else self.wrenches(tree.as_column(thrusts), q), f_ext)
        effort = alg.inverse_dynamics(self.model, q, v, a, pushed) - self.force(q, v)
        return effort - self.constraint_effort(q, forces) if forces else effort

    def _pushed(self, q: Expr, u: Expr, f_ext: Wrenches) -> dict[str, Expr]:
        return self._merged(self.wrenches(u[len(self.motors):], q), f_ext)

    @staticmethod
    def _merged(wrenches: dict[str, Expr], more: Wrenches) -> dict[str, Expr]:
        total = dict(wrenches)
        for name, wrench in (more or {}).items():
            total[name] = total[name] + tree.as_column(wrench) if name in total else tree.as_column(wrench)
        return total

    def energy(self, q: Expr, v: Expr) -> Expr:
        """Kinetic energy, and the potential energy of gravity and of the forces that have one [J]."""
        return alg.total_energy(self.model, q, v) + sum((force.energy(self.model, q) for force in self.forces), ca.DM(0))

    def power(self, q: Expr, v: Expr, tau: Expr, thrusts: Expr) -> Expr:
        """Rate of the energy [W] under motor efforts tau [nv] and thrusts: their power, less the dissipation of dampers."""
        power = ca.dot(v, tau) - ca.dot(v, tree.diagonal(self.model, "damping") * v)
        wrenches = self.wrenches(thrusts, q)
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


def thrust_wrenches(model: Model, thrusters: Sequence[Thruster], thrusts: Expr, q: Expr = None) -> dict[str, Expr]:
    """Wrench [6] on each pushed body by its name, body coordinates; thrusts [N]: one for each thruster."""
    total: dict[str, Expr] = {}

    def add(body: int, wrench: Expr) -> None:
        name = model.bodies[body].name
        total[name] = total[name] + wrench if name in total else wrench

    between = next((thruster for thruster in thrusters if thruster.against), None)
    if between is not None and q is None:
        raise ModelError("pushes against another body: its joint forces depend on the configuration q",
                         element=f"thruster {between.name!r}")
    poses = [] if between is None else alg.body_poses(model, q)
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


class ByFingerprint:
    """A mechanism that is equal to others of the same fingerprint: the key of what is made once of it."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByFingerprint) and other.mechanism.fingerprint == self.mechanism.fingerprint

    def __hash__(self) -> int:
        return hash(self.mechanism.fingerprint)
