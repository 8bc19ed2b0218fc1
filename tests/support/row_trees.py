"""Trees with chosen joint kinds or with mimic joints on one chain, states, and numeric evaluation, for tests of kinematics."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
from joint_examples import example

import dynamics
from dynamics import algorithms
from dynamics.model import Builder, Joint, Mimic, Model, Placement
from dynamics.model.synthetic import random_inertia, random_tree


def tree_of(*kinds: str, seed: int = 0, branching: float = 0.0) -> Model:
    """Bodies with these joint kinds, in this order: a serial chain, or a branching tree."""
    model = random_tree(len(kinds), np.random.default_rng(seed), kinds=["universal"], branching=branching)
    bodies = []
    for body, kind in zip(model.bodies, kinds, strict=True):
        bodies.append(replace(body, joint=example(body.joint, kind)))
    return replace(model, bodies=tuple(bodies))


def coupled(seed: int = 0) -> Model:
    """Mimic joints that follow a drive on the same chain (one of them backwards, with offset) and on another branch."""
    b, rng = Builder("coupled"), np.random.default_rng(seed)
    z, x = ((0.0, 0.0, 1.0),), ((0.6, 0.0, 0.8),)

    def add(name: str, parent: str, kind: str, axes=(), mimic=None):
        at = Placement(position=tuple(rng.uniform(-0.3, 0.3, 3).tolist()))
        b.body(name, parent=parent, joint=Joint(name, kind, at, axes, mimic=mimic), inertia=random_inertia(rng))

    add("base", "world", "free_flyer")
    add("drive", "base", "revolute", z)
    add("slide", "drive", "prismatic", x, Mimic("drive", -0.5, 0.2))
    add("side", "base", "revolute", x, Mimic("drive", 2.0, 0.1))
    add("wrist", "slide", "universal", (x[0], (0.0, 1.0, 0.0)))
    add("last", "wrist", "revolute", x, Mimic("drive", 1.5))
    b.frame("tip", body="last", placement=Placement(position=(0.1, -0.2, 0.3)))
    return b.build()


def numbers(function, model: Model | None, *args):
    """``function(model, *args)`` evaluated through an SX graph: arrays become symbols, everything else is passed as it is.

    Dense; a column comes back with one dimension, a tuple of expressions as a tuple. No model: ``function(*args)``.
    """
    arrays = [x for x in args if isinstance(x, np.ndarray)]
    symbols = [ca.SX.sym("x", len(x)) for x in arrays]
    free = iter(symbols)
    given = [next(free) if isinstance(x, np.ndarray) else x for x in args]
    out = function(*given) if model is None else function(model, *given)
    parts = out if isinstance(out, tuple | list) else (out,)
    values = [np.array(x) for x in ca.Function("f", symbols, [ca.densify(ca.SX(x)) for x in parts]).call(arrays)]
    values = [x.ravel() if x.shape[1] == 1 else x for x in values]
    return tuple(values) if isinstance(out, tuple | list) else values[0]


def moved(model: Model, q, d) -> np.ndarray:
    """q [+] d, the configuration moved along the tangent d."""
    return np.array(dynamics.make(model, "integrate")(q, d)).ravel()


def pose(model: Model, q, frame: str) -> tuple[np.ndarray, np.ndarray]:
    """Rotation [3, 3] and origin [3] of a frame in the world."""
    R, p = dynamics.make_frame(model, "pose", frame)(q)
    return np.array(R), np.array(p).ravel()


def frame_jacobian(model: Model, q, frame: str, reference: str = "world_aligned") -> np.ndarray:
    return np.array(dynamics.make_frame(model, "jacobian", frame, reference)(q))


def state(model: Model, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A random configuration, velocity and acceleration."""
    rng = np.random.default_rng(seed)
    q = algorithms.random_configuration(model, rng)
    return q, rng.standard_normal(model.nv), rng.standard_normal(model.nv)


def regular_state(model: Model, frame: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A random state with the frame away from the singularities of every chart: off the vertical axis through the origin, no
    gimbal lock of any of the usual sequences, turned by an angle well between 0 and pi."""
    for shot in range(10_000):
        q, v, a = state(model, 10_000 * seed + shot)
        R, p = pose(model, q, frame)
        if np.hypot(p[0], p[1]) > 0.3 and max(abs(R[2, 0]), abs(R[2, 2]), abs(R[0, 2])) < 0.9 and abs(np.trace(R) - 1) < 1.5:
            return q, v, a
    raise AssertionError("no regular state found")
