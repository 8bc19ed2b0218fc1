"""What is random in the trials of a closed loop, from sections ``mpc.trials`` and ``trials``; numbers by names of states."""

from __future__ import annotations

from collections.abc import Sequence

from dynamics.model.model import Model
from ocp.app.files.robot.states import aliases
from ocp.app.files.syntax.reader import Section
from ocp.mpc.trials import RandomTrials
from ocp.spaces import Space


def read_trials(section: Section, space: Space, model: Model | None, contacts: Sequence[str] = ()) -> RandomTrials:
    """A section; contacts: those whose friction may be random."""
    spec = section.spec
    start, kick = (by_state(section, space, model, key) if getattr(spec, key, None) else () for key in ("start", "kick"))
    friction = tuple(section.known("friction", contacts, "contact")) if getattr(spec, "friction", None) else ()
    if spec.push is None:
        return RandomTrials(start, kick, friction=friction)
    push = section.part("push")
    if model is None:
        section.refuse("only a robot has frames; give 'kick' instead", "push")
    else:
        push.frame(model, "frame")
    return RandomTrials(start, kick, push.spec.frame, push.positive("force", 1.0), push.positive("duration", 1.0), friction)


def by_state(section: Section, space: Space, model: Model | None, key: str) -> tuple[float, ...]:
    """Numbers [ndx] from a mapping by name; ``q`` and ``v`` are all of a robot's, ``base.`` its floating base."""
    names = _state_names(space, model)
    found = [0.0] * space.ndx
    # groups first, so that a name beside its group wins
    for name, number in sorted(section.known(key, names, "state"), key=lambda item: item[0] not in ("q", "v")):
        for i in names[name]:
            found[i] = number
    return tuple(found)


def _state_names(space: Space, model: Model | None) -> dict[str, Sequence[int]]:
    """Tangent components by name."""
    names: dict[str, Sequence[int]] = {name: (i,) for i, name in enumerate(space.tangent_names)}
    if model is None:
        return names
    for prefix in ("q.", "v."):
        names |= {short: names[name] for short, name in aliases(model, list(names), prefix).items()}
    return {**names, "q": range(model.nv), "v": range(model.nv, 2 * model.nv)}
