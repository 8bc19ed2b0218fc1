"""From a robot model to a controlled system with x = (q, v), in one of two forms.

Forward dynamics: u = joint efforts and thrusts, rate = (v, FD(q, v, u)). Inverse dynamics: u = accelerations and thrusts, rate =
(v, a); efforts are then functions of (x, u), their limits and the absence of a motor are path constraints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.errors import near
from dynamics.joints import record
from dynamics.lie import se3, so3
from dynamics.model.model import Model
from ocp.errors import ProblemError
from ocp.problem import At, Constraint, Sense, System
from ocp.spaces import Space

Expr = Any


@dataclass(frozen=True)
class Thruster:
    """A control that pushes along a fixed axis of a frame: force ``u axis`` [N] and moment ``moment_ratio u axis`` [N m]
    (propeller drag), both in frame axes at the frame origin."""

    name: str
    frame: str
    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    moment_ratio: float = 0.0


@dataclass(frozen=True)
class Actuation:
    """How controls act on a robot: generalised forces ``selection @ u[:k]`` [nv], then one thruster for each further control."""

    selection: ca.DM
    thrusters: tuple[Thruster, ...] = ()


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


def actuated_joints(model: Model) -> tuple[str, ...]:
    """Joints that a robot drives unless told otherwise: all but free-flyers and mimic joints."""
    return tuple(b.joint.name for b in model.bodies
                 if b.joint.mimic is None and record(b.joint).nv and b.joint.kind != "free_flyer")


def robot_system(model: Model, *, actuated: str | Sequence[str] = "all", thrusters: Sequence[Thruster] = (),
                 parameters: Mapping[str, float] | None = None) -> System:
    """The system ``d/dt (q, v) = (v, FD(q, v, S^T u + thrust))``.

    actuated: "all" or joint names; a joint with several velocity components has one control for each.
    parameters: names and values that costs and constraints may use; the dynamics do not.
    Raises ProblemError for unknown joints, UnknownNameError for unknown frames.
    """
    space, nv = model_space(model), model.nv
    names, selection = _selection(model, actuated)
    controls = _control_names(names, thrusters)
    (t, x, u, p), q, v = _arguments(model, space, len(controls), parameters)
    tau = selection @ u[: len(names)] if names else ca.SX(nv, 1)
    wrenches = thrust_wrenches(model, thrusters, u[len(names):])
    a = alg.forward_dynamics(model, q, v, tau, wrenches)
    system = _system(model, space, controls, [t, x, u, p], a, _power(model, q, v, tau, wrenches), parameters)
    return replace(system, actuation=Actuation(selection, tuple(thrusters)), units=_units(model, names, thrusters))


def inverse_dynamics_system(model: Model, *, thrusters: Sequence[Thruster] = (), parameters: Mapping[str, float] | None = None
                            ) -> System:
    """The system ``d/dt (q, v) = (v, a)``, whose controls are all accelerations a [nv] (rad/s^2 or m/s^2), named as velocities are,
    and thrusts.

    It is the robot only together with ``effort_constraints``: components without a motor need an effort, and get none. Its power
    is that of all efforts ``inverse_effort``. Raises as ``robot_system`` does.
    """
    space = model_space(model)
    controls = _control_names(model.velocity_names, thrusters)
    (t, x, u, p), q, v = _arguments(model, space, len(controls), parameters)
    wrenches = thrust_wrenches(model, thrusters, u[model.nv:])
    a = u[:model.nv]
    power = _power(model, q, v, alg.inverse_dynamics(model, q, v, a, wrenches), wrenches)
    system = _system(model, space, controls, [t, x, u, p], a, power, parameters)
    return replace(system, units=_units(model, model.velocity_names, thrusters, accelerations=True))


def inverse_effort(model: Model, x: Expr, u: Expr, thrusters: Sequence[Thruster] = ()) -> Expr:
    """Generalised effort [nv] of the joints in the system of ``inverse_dynamics_system``: ``RNEA(q, v, a) - sum J^T thrust``."""
    wrenches = thrust_wrenches(model, thrusters, u[model.nv:])
    return alg.inverse_dynamics(model, x[:model.nq], x[model.nq:], u[:model.nv], wrenches)


def effort_constraints(model: Model, actuated: str | Sequence[str] = "all", thrusters: Sequence[Thruster] = (), *,
                       limits: Mapping[str, tuple[float, float]] | None = None, parameters: int = 0, where: str | None = None
                       ) -> tuple[Constraint, ...]:
    """Path constraints that make ``inverse_dynamics_system`` the robot: "effort limits" of components with a motor (left out where
    nothing is limited) and "no motor", zero effort of all others (left out where there are none).

    limits: (lower, upper) [N m or N] of efforts by name; None: those of the robot file. parameters: how many the system has.
    Raises ProblemError for unknown joints.
    """
    driven, _ = _selection(model, actuated)
    names, (arguments, _, _) = model.velocity_names, _arguments(model, model_space(model), model.nv + len(thrusters), parameters)
    effort = inverse_effort(model, arguments[1], arguments[2], thrusters)
    if limits is None:
        limits = {name: (-most, most) for name, most in zip(names, model.limit("effort"), strict=True)}
    limited = [n for n in driven if n in limits and any(np.isfinite(limits[n]))]
    free = [n for n in names if n not in driven]

    def constraint(name: str, chosen: Sequence[str], lower: Sequence[float], upper: Sequence[float], sense: Sense) -> Constraint:
        function = ca.Function("effort", arguments, [ca.densify(effort[[names.index(n) for n in chosen]])],
                               ["t", "x", "u", "p"], ["value"])
        return Constraint(name, At.PATH, function, tuple(lower), tuple(upper), sense, where=where, labels=tuple(chosen))

    found = []
    if limited:
        low, high = zip(*(limits[n] for n in limited), strict=True)
        found.append(constraint("effort limits", limited, low, high, Sense.BOX))
    if free:
        found.append(constraint("no motor", free, (0.0,) * len(free), (0.0,) * len(free), Sense.EQUAL))
    return tuple(found)


def accelerations(system: System) -> Model | None:
    """The model of a system whose first controls are its accelerations, else None."""
    model = system.model
    if model is None or system.actuation is not None or system.nu < model.nv or not system.rate.is_a("SXFunction"):
        return None
    t, x, u, p = (ca.SX.sym(name, size) for name, size in zip("txup", (1, system.nx, system.nu, system.np), strict=True))
    rate = ca.SX(system.rate(t, x, u, p))
    half = ca.vertcat(x[model.nq:], u[:model.nv])
    if rate.shape != half.shape or not all(ca.is_equal(rate[i], half[i]) for i in range(half.shape[0])):
        return None
    return model


def _control_names(names: Sequence[str], thrusters: Sequence[Thruster]) -> tuple[str, ...]:
    controls = tuple(names) + tuple(t.name for t in thrusters)
    repeated = {n for n in controls if controls.count(n) > 1}
    if repeated:
        raise ProblemError(f"control name {sorted(repeated)[0]!r} is used twice", where="system.thrusters")
    return controls


def _arguments(model: Model, space: Space, nu: int, parameters: Mapping[str, float] | int | None) -> tuple[list[Expr], Expr, Expr]:
    """Symbols [t, x, u, p], and q and v in x."""
    count = parameters if isinstance(parameters, int) else len(parameters or {})
    x = ca.SX.sym("x", space.nx)
    return [ca.SX.sym("t"), x, ca.SX.sym("u", nu), ca.SX.sym("p", count)], x[:model.nq], x[model.nq:]


def _power(model: Model, q: Expr, v: Expr, tau: Expr, wrenches: Mapping[str, Expr]) -> Expr:
    """Power [W] of efforts and thrusts, less what joints dissipate."""
    power = ca.dot(v, tau) - ca.dot(v, tree.diagonal(model, "damping") * v)
    twists = alg.body_velocities(model, q, v) if wrenches else []
    for name, wrench in wrenches.items():
        power += ca.dot(twists[model.body_index(name)], wrench)
    return power


def _system(model: Model, space: Space, controls: tuple[str, ...], arguments: list[Expr], a: Expr, power: Expr,
            parameters: Mapping[str, float] | None) -> System:
    q, v, names = arguments[1][:model.nq], arguments[1][model.nq:], ["t", "x", "u", "p"]
    return System(
        name=model.name, space=space, controls=controls, model=model,
        rate=ca.Function("rate", arguments, [ca.densify(ca.vertcat(v, a))], names, ["xi"]),
        energy=ca.Function("energy", arguments, [alg.total_energy(model, q, v)], names, ["E"]),
        power=ca.Function("power", arguments, [power], names, ["P"]),
        parameters=tuple(parameters or ()), parameter_values=tuple((parameters or {}).values()),
    )


def _units(model: Model, driven: Sequence[str], thrusters: Sequence[Thruster], *, accelerations: bool = False) -> dict[str, str]:
    """Unit of every state and control by its name."""
    angular = dict(zip(model.velocity_names, alg.configuration.velocity_kinds(model), strict=True))
    coordinates = [unit for i, body in enumerate(model.bodies) if body.joint.mimic is None for unit in model.kind(i).q_units]
    units = {f"q.{name}": unit for name, unit in zip(model.coordinate_names, coordinates, strict=True)}
    units |= {f"v.{name}": "rad/s" if turns else "m/s" for name, turns in angular.items()}
    turning, straight = ("rad/s^2", "m/s^2") if accelerations else ("N m", "N")
    return units | {name: turning if angular[name] else straight for name in driven} | {t.name: "N" for t in thrusters}


def _selection(model: Model, actuated: str | Sequence[str]) -> tuple[list[str], ca.DM]:
    """Control names and the matrix S^T [nv, n] that carries them into generalised forces."""
    known = actuated_joints(model)
    if isinstance(actuated, str):
        if actuated != "all":
            raise ProblemError(f"must be 'all' or a list of joint names, got {actuated!r}", where="system.actuated")
        chosen: Sequence[str] = known
    else:
        chosen = actuated
    names: list[str] = []
    rows: list[int] = []
    for joint in chosen:
        if joint not in known:
            raise ProblemError(f"cannot drive joint {joint!r}{near(joint, known)}", where="system.actuated")
        i = model.joint_index(joint)
        vs = model.v_slice(i)
        names += list(model.velocity_names[vs])
        rows += list(range(vs.start, vs.stop))
    S = ca.DM(model.nv, len(rows))
    for column, row in enumerate(rows):
        S[row, column] = 1.0
    return names, ca.sparsify(S)


def thrust_wrenches(model: Model, thrusters: Sequence[Thruster], u: Expr) -> dict[str, Expr]:
    """Wrench [6] on each pushed body by its name, body coordinates; u: one thrust [N] for each thruster."""
    total: dict[str, Expr] = {}
    for k, thruster in enumerate(thrusters):
        frame = model.frame(thruster.frame)
        if frame.body < 0:
            raise ProblemError(f"frame {thruster.frame!r} is fixed to the world and cannot be pushed",
                               where=f"system.thrusters[{k}].frame")
        local = unit_wrench(thruster) * u[k]
        wrench = spatial.force_to_parent(tree.placement_transform(frame.placement), local)
        body = model.bodies[frame.body].name
        total[body] = total[body] + wrench if body in total else wrench
    return total


def unit_wrench(thruster: Thruster) -> Expr:
    """Wrench [6] in frame axes per newton of thrust."""
    axis = spatial.constant(np.asarray(thruster.axis, float) / np.linalg.norm(thruster.axis))
    return spatial.force(axis, axis * thruster.moment_ratio)


@dataclass(frozen=True)
class RobotTerms:
    """Robot quantities for costs and constraints, as expressions of q [nq] and v [nv]."""

    model: Model

    def position(self, frame: str, q: Expr) -> Expr:
        """World position [3] (m) of a frame origin."""
        return alg.frame_pose(self.model, q, frame).p

    def velocity(self, frame: str, q: Expr, v: Expr) -> Expr:
        """Velocity [3] (m/s) of a frame origin, world axes."""
        return spatial.linear(alg.frame_velocity(self.model, q, v, frame, "world_aligned"))

    def com(self, q: Expr) -> Expr:
        """World position [3] (m) of the centre of mass."""
        return alg.centre_of_mass(self.model, q)

    def energy(self, q: Expr, v: Expr) -> Expr:
        """Total mechanical energy (J)."""
        return alg.total_energy(self.model, q, v)

    def angular_momentum(self, frame: str, about: str, q: Expr, v: Expr) -> Expr:
        """Angular momentum [3] (kg m^2/s), world axes, about the origin of the frame ``about``, of the body that ``frame`` belongs
        to and of all that this body carries; of the whole robot where the frame is fixed to the world."""
        point = alg.frame_pose(self.model, q, about).p
        return alg.subtree_angular_momentum(self.model, q, v, self.model.frame(frame).body, point)

    def pose_error(self, frame: str, q: Expr, rotation: np.ndarray, position: np.ndarray) -> Expr:
        """log(target^-1 actual) [6]: [linear; angular], target axes at the identity of the error; m and rad."""
        actual = alg.frame_pose(self.model, q, frame)
        target = spatial.Transform(spatial.constant(rotation), spatial.constant(position))
        relative = spatial.compose(spatial.inverse(target), actual)
        return se3.log(se3.Pose(relative.R, relative.p))

    def orientation_error(self, frame: str, q: Expr, rotation: np.ndarray) -> Expr:
        """Rotation vector [3] (rad) of target^-1 actual."""
        return so3.log(spatial.constant(rotation).T @ alg.frame_pose(self.model, q, frame).R)
