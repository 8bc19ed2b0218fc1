"""Robots on their feet at one state, and their constrained motion by one linear system: the judge of controllers."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np
from row_trees import moved, numbers

import dynamics
from dynamics import algorithms as alg
from dynamics.algorithms import contact_kinematics as contacts
from dynamics.algorithms.contact_kinematics import Contact
from dynamics.model import Model
from dynamics.model.synthetic import random_tree
from dynamics.notation import textbook_robots

LEGS = ("LF", "RF", "LH", "RH")


@dataclass(frozen=True, eq=False)
class Standing:
    """A floating robot with contacts: what the equations of motion need, S: which velocities are driven."""

    model: Model
    where: tuple[Contact, ...]
    q: np.ndarray
    v: np.ndarray
    M: np.ndarray
    h: np.ndarray
    J: np.ndarray
    drift: np.ndarray
    S: np.ndarray

    def motion(self, torque):
        """(a, force of the robot on its supports): Gauss's principle as one system; the smallest forces where they repeat."""
        c = len(self.drift)
        K = np.block([[self.M, self.J.T], [self.J, np.zeros((c, c))]])
        x = np.linalg.lstsq(K, np.r_[self.S.T @ torque - self.h, -self.drift], rcond=1e-11)[0]
        return x[: len(self.h)], x[len(self.h):]


def standing(model: Model, where, q, v) -> Standing:
    """v is projected onto motions that leave the contacts at rest."""
    J, drift = np.zeros((0, model.nv)), np.zeros(0)
    if where:
        J = numbers(lambda m, x: contacts.contact_jacobian(m, x, where), model, q)
        v = v - np.linalg.pinv(J, rcond=1e-9) @ (J @ v)
        drift = numbers(lambda m, x, y: contacts.contact_drift(m, x, y, where), model, q, v)
    S = np.eye(model.nv)[6:]
    return Standing(model, tuple(where), q, v, np.array(dynamics.make(model, "mass_matrix")(q)),
                    np.array(dynamics.make(model, "bias_force")(q, v)).ravel(), J, drift, S)


def quadruped(feet: int, seed: int = 0) -> Standing:
    """The textbook quadruped, crouched with a tilted trunk, on its first feet."""
    model, rng = textbook_robots.quadruped(), np.random.default_rng(seed)
    q = np.array(alg.random_configuration(model, rng)).ravel()
    for i, name in enumerate(model.coordinate_names):
        if "HFE" in name or "KFE" in name:
            q[i] = (0.7 if "HFE" in name else -1.3) + 0.3 * rng.standard_normal()
        elif "HAA" in name:
            q[i] = 0.2 * rng.standard_normal()
    return standing(model, [Contact(f"{leg}_FOOT") for leg in LEGS[:feet]], q, rng.standard_normal(18))


def biped(seed: int = 0) -> Standing:
    """The textbook biped on four points of each sole: 24 rows of rank 12."""
    model, rng = textbook_robots.biped(), np.random.default_rng(seed)
    corners = ((0.11, 0.05, 0.0), (0.11, -0.05, 0.0), (-0.11, 0.05, 0.0), (-0.11, -0.05, 0.0))
    where = contacts.patch("L_SOLE", corners) + contacts.patch("R_SOLE", corners)
    return standing(model, where, alg.random_configuration(model, rng), rng.standard_normal(18))


def tree(feet: int, seed: int = 0, armature: bool = True) -> Standing:
    """A random floating tree of mixed joints on points of its leaves."""
    rng = np.random.default_rng(80 + seed)
    model = random_tree(9, rng, root="free_flyer", branching=0.9, armature=armature,
                        kinds=["revolute", "spherical", "prismatic", "universal"])
    parents = {b.parent for b in model.bodies}
    leaves = [b.name for i, b in enumerate(model.bodies) if i not in parents]
    where = [Contact(name, tuple(rng.uniform(-0.5, 0.5, 3))) for name in leaves[:feet]]
    return standing(model, where, alg.random_configuration(model, rng), rng.standard_normal(model.nv))


def feet_positions(robot: Standing) -> np.ndarray:
    """[3, feet] in the world."""
    return np.array(ca.DM(contacts.contact_positions(robot.model, ca.DM(robot.q), robot.where)))


def feet_accelerations(robot: Standing, a) -> np.ndarray:
    """[3, feet] by second differences of their places along the motion: no drift of any Jacobian is used."""
    h = 1e-4
    ahead, now, behind = (np.array(ca.DM(contacts.contact_positions(
        robot.model, ca.DM(moved(robot.model, robot.q, t * robot.v + t * t / 2 * a)), robot.where))) for t in (h, 0.0, -h))
    return (ahead - 2 * now + behind) / h**2
