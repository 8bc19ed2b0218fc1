"""Random pushes within one run, and whether the plant recovers from each before the next."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ocp.mpc.result import Recovery, Tracking
from ocp.plants import Push

Array = np.ndarray


def spread_pushes(count: int, frame: str, force: float, lasting: float, duration: float, seed: int) -> tuple[Push, ...]:
    """``count`` pushes of a frame by a force [N] in random directions, one in each equal part of a run of so many seconds, at a
    random time of its first half."""
    rng, part = np.random.default_rng(seed), duration / count
    directions = rng.standard_normal((count, 3))
    directions *= force / np.linalg.norm(directions, axis=1)[:, None]
    times = part * (np.arange(count) + rng.uniform(0.0, 0.5, count))
    return tuple(Push(float(t), lasting, frame=frame, force=tuple(one.tolist())) for t, one in zip(times, directions, strict=True))


def recoveries(pushes: Sequence[Push], tracking: Sequence[Tracking], t: Array) -> tuple[Recovery, ...]:
    """The recovery from pushes by forces, along the times t [k] of tracked quantities; none where no quantity has ``within``."""
    judged = [item for item in tracking if item.within]
    shares = np.max([item.error / float(item.within or 1.0) for item in judged], axis=0) if judged else np.zeros(0)
    forces: dict[float, Array] = {}
    for push in pushes:
        if push.force and push.time < t[-1]:
            forces[push.time] = forces.get(push.time, np.zeros(3)) + push.scale * np.array(push.force)
    if not judged or not forces:
        return ()
    found, times, lasting = [], sorted(forces), {push.time: push.duration for push in pushes}
    for begin, end in zip(times, [*times[1:], math.inf], strict=True):
        here = np.flatnonzero((t >= begin) & (t < end))
        outside = here[shares[here] > 1.0] if here.size else here
        kept = bool(here.size) and not (outside.size and outside[-1] == here[-1])
        last = float(t[outside[-1]]) if outside.size else begin
        after = max(0.0, last - begin - lasting[begin]) if kept else math.nan
        found.append(Recovery(begin, tuple(forces[begin].tolist()), kept, after, float(shares[here].max(initial=0.0))))
    return tuple(found)
