"""Solutions made by hand, without any solver: a cart-pole-like system and a seven-joint arm.

Their motions are polynomials or sines in closed form, so that interpolants, constraint values and pictures have known
answers. They satisfy no dynamics; nothing in a results folder depends on that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from dynamics.model import BodyInertia, Builder, Geometry, Joint, Model, Placement
from ocp import problem as op
from ocp.app.pages.scene import Disc, Drawing, Polyline
from ocp.spaces import euclidean

DURATION, INTERVALS = 2.0, 20


def cart_state(t: Any) -> np.ndarray:
    """Position ``t``, angle ``t^2``, and their rates: [k, 4] (also for a scalar time: [4])."""
    t = np.asarray(t, float)
    return np.stack([t, t**2, np.ones_like(t), 2 * t], axis=-1)


def held(times: np.ndarray, values: np.ndarray) -> Any:
    def control(t: Any) -> np.ndarray:
        at = np.clip(np.searchsorted(times, np.asarray(t, float), side="right") - 1, 0, len(times) - 1)
        return np.asarray(values[at])

    return control


def certificate(**changes: Any) -> op.Certificate:
    made = op.Certificate(
        stationarity=op.Residual(op.Kind.STATIONARITY, 3e-9, 1e-6), complementarity=op.Residual(op.Kind.COMPLEMENTARITY, 0.0, 1e-6),
        violations=(op.Violation("rail", 2e-9, 3e-4, 0.8, "rail", 1e-6), op.Violation("goal", 0.0, 0.0, 2.0, "goal[1]", 1e-6)),
        gap_segment=op.Residual(op.Kind.GAP_SEGMENT, 2e-6, 1e-4, span=(0.8, 0.9)),
        gap_total=op.Residual(op.Kind.GAP_TOTAL, 7e-5, 1e-3),
        error_estimate=op.Residual(op.Kind.ERROR_ESTIMATE, 1e-5, 1e-3), energy=op.Residual(op.Kind.ENERGY, 1e-6, 1e-3))
    return replace(made, **changes)


def cart(**changes: Any) -> op.Solution:
    """Four states, one held control; a path box, a cone, a two-component constraint at the end, bounds."""
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", 4), ca.SX.sym("u", 1), ca.SX.sym("p", 1)

    def function(expression: Any) -> ca.Function:
        return ca.Function("f", [t, x, u, p], [expression])

    system = op.System(
        "cart", euclidean(("position", "angle", "velocity", "spin")), ("force",), function(x), ("length",), (0.5,),
        units={"position": "m", "angle": "rad", "velocity": "m/s", "spin": "rad/s", "force": "N"})
    knots = np.linspace(0.0, DURATION, INTERVALS + 1)
    forces = np.linspace(-3.0, 3.0, INTERVALS)[:, None]
    states = cart_state(knots)
    phase = op.Phase(
        "swing", system, op.Duration(DURATION, DURATION, DURATION),
        op.Guess(np.array([0.0, 1.0]), states[[0, -1]], forces[[0, -1]]),
        x_lower=(-1.0,) + (-np.inf,) * 3, x_upper=(2.5,) + (np.inf,) * 3, u_lower=(-3.0,), u_upper=(3.0,),
        constraints=(
            op.Constraint("rail", op.At.PATH, function(x[0]), (-np.inf,), (1.5,)),
            op.Constraint("cone", op.At.PATH, function(ca.vertcat(5, x[0], p)), (0.0,) * 3, (0.0,) * 3, sense=op.Sense.CONE),
            op.Constraint("goal", op.At.FINAL, function(x[:2]), (2.0, 4.0), (2.0, 4.0)),
        ))
    made = op.Solution(
        op.Problem("cart swing", (phase,), "A made-up swing.", "nowhere", op.Reference(60.0, 1e-2, "by hand")), "collocation",
        {"scheme": "trapezoid", "intervals": INTERVALS}, op.Status.CONVERGED, 60.3,
        op.Trajectory(knots, states, forces, knots[:-1], cart_state, held(knots[:-1], forces)),
        tuple({"iteration": k, "objective": 60.3 + 2.0**-k, "inf_pr": 10.0**-k, "inf_du": 0.0} for k in range(9)),
        {"solve": 0.4, "total": 0.5}, certificate=certificate(), findings=(op.Finding(op.Kind.GUESS_STATIONARY),),
        extra={"K": np.arange(INTERVALS * 4.0).reshape(INTERVALS, 1, 4), "certificate_segment_gap": np.full(INTERVALS, 1e-6)})
    return replace(made, **changes)


def cart_drawing() -> Drawing:
    """A rod from the cart to a bob below it."""
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", 4), ca.SX.sym("u", 1), ca.SX.sym("p", 1)
    bob = ca.vertcat(x[0] + p * ca.sin(x[1]), -p * ca.cos(x[1]))
    rod = ca.Function("rod", [t, x, u, p], [ca.horzcat(ca.vertcat(x[0], 0), bob)])
    return Drawing((Polyline(rod), Disc(ca.Function("bob", [t, x, u, p], [bob]), 0.05, trace=True, label="bob")))


def arm() -> Model:
    """Seven hinges, z and y in turn, with a cylinder on each link, a box below and a ball at the tool."""
    arm = Builder("arm")
    parent = "world"
    for i in range(7):
        axis = (0.0, 0.0, 1.0) if i % 2 == 0 else (0.0, 1.0, 0.0)
        shapes = [Geometry("cylinder", (0.04, 0.16), Placement(position=(0.0, 0.0, 0.1)))]
        shapes += [Geometry("box", (0.2, 0.2, 0.04))] if i == 0 else []
        shapes += [Geometry("sphere", (0.03,), Placement(position=(0.0, 0.0, 0.1)))] if i == 6 else []
        arm.body(f"link{i}", parent=parent, inertia=BodyInertia(1.0, (0.0, 0.0, 0.1)), geometry=shapes,
                 joint=Joint(f"joint{i}", "revolute", Placement(position=(0.0, 0.0, 0.2 if i else 0.0)), axes=(axis,)))
        parent = f"link{i}"
    arm.frame("tool", body="link6", placement=Placement(position=(0.0, 0.0, 0.15)))
    return arm.build()


def turn(axis: tuple[float, ...], angle: float) -> np.ndarray:
    """Rotation about a unit axis (Rodrigues)."""
    x, y, z = axis
    hat = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.asarray(np.eye(3) + np.sin(angle) * hat + (1 - np.cos(angle)) * hat @ hat)


def arm_poses(model: Model, q: np.ndarray) -> np.ndarray:
    """Poses [frames, bodies, 4, 4] of a chain of hinges by multiplying out its transforms."""
    poses = np.zeros((len(q), len(model.bodies), 4, 4))
    for k, angles in enumerate(q):
        pose = np.eye(4)
        for i, body in enumerate(model.bodies):
            step = np.eye(4)
            step[:3, 3] = body.joint.placement.position
            step[:3, :3] = turn(body.joint.axes[0], angles[i])
            pose = pose @ step
            poses[k, i] = pose
    return poses
