"""Monte Carlo of whole-body control: random starts, friction and pushes, from the pair (seed, number of the trial) alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ocp.bridge import model_space
from ocp.mpc.trials import RandomTrials, random_pushes, random_start
from ocp.plants import Push
from ocp.wbc.setup import Setup
from ocp.wbc.start import close_contacts


def draw(setup: Setup, random: RandomTrials, friction: Mapping[str, float], seed: int, number: int
         ) -> tuple[Setup, tuple[Push, ...], dict[str, float]]:
    """(the setup from another start, with the contacts that are taken closed; pushes; friction of the plant by contact). friction:
    of the plant, where it is not what the controller thinks."""
    rng = np.random.default_rng([seed, number])
    start = random_start(model_space(setup.mechanism.model), setup.start, random, rng)
    if random.start:
        start, _ = close_contacts(setup.mechanism, setup.contacts, start, np.inf)
    axes = random_pushes(random, setup.duration, rng)
    force = tuple(float(value) for value in np.sum([push.scale * np.array(push.force) for push in axes], axis=0)) if axes else ()
    pushes = tuple(replace(push, force=force, scale=1.0) for push in axes[:1])
    known = {plan.name: plan.friction or 0.0 for plan in setup.contacts}
    drawn = {name: max(0.0, friction.get(name, known[name]) + width * rng.uniform(-1.0, 1.0)) for name, width in random.friction}
    return replace(setup, start=start), pushes, {**friction, **drawn}
