"""States of robots, and robots of one free body."""

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics.model import Builder, Joint


def state(model, seed=0):
    """Random q, v, a."""
    rng = np.random.default_rng(seed)
    return alg.random_configuration(model, rng), *rng.uniform(-1, 1, (2, model.nv))


def mover(model):
    """(q, d) -> q moved by d, for numbers."""
    Q, D = ca.SX.sym("q", model.nq), ca.SX.sym("d", model.nv)
    return ca.Function("step", [Q, D], [alg.integrate(model, Q, D)])


def tip(model):
    return model.frames[-1].name if model.frames else model.bodies[-1].name


def free_body(inertia, gravity=(0.0, 0.0, 0.0)):
    b = Builder("body", gravity=gravity)
    b.body("body", parent="world", joint=Joint("base", "free_flyer"), inertia=inertia)
    return b.build()
