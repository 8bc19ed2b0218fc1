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


def energy_rate(system, x, u):
    """Rate of the energy along the motion, by a difference: that of ``system.power`` where nothing is forgotten."""
    X, D = ca.SX.sym("x", system.space.nx), ca.SX.sym("d", system.space.ndx)
    plus = ca.Function("p", [X, D], [system.space.plus(X, D)])
    xi, h = np.array(system.rate(0, x, u, [])).ravel(), 1e-6
    return float(system.energy(0, plus(x, h * xi), u, []) - system.energy(0, plus(x, -h * xi), u, [])) / (2 * h)


def tip(model):
    return model.frames[-1].name if model.frames else model.bodies[-1].name


def free_body(inertia, gravity=(0.0, 0.0, 0.0)):
    b = Builder("body", gravity=gravity)
    b.body("body", parent="world", joint=Joint("base", "free_flyer"), inertia=inertia)
    return b.build()
