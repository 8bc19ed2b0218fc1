"""Trees with chosen joint kinds, and one with mimic joints on the same chain, for tests of kinematics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynamics.joints import KINDS
from dynamics.model import Builder, Joint, Mimic, Model, Placement
from dynamics.model.synthetic import random_inertia, random_tree


def tree_of(*kinds: str, seed: int = 0, branching: float = 0.0) -> Model:
    """Bodies with these joint kinds, in this order: a serial chain, or a branching tree."""
    model = random_tree(len(kinds), np.random.default_rng(seed), kinds=["universal"], branching=branching)
    bodies = []
    for body, kind in zip(model.bodies, kinds, strict=True):
        joint = replace(body.joint, kind=kind, axes=body.joint.axes[:KINDS[kind].n_axes], armature=())
        bodies.append(replace(body, joint=joint))
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
