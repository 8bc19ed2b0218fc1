"""How the mass centre moves so that feet can carry it: the linear inverted pendulum, whose centre of pressure stays near the middle
of the feet that stand.

    c - (h / g) c'' = p        on feet: c, p [3], horizontal, of the mass centre and of the centre of pressure; h: height over them
    c'' = 0                    in flight

Kajita, Kanehiro, Kaneko, Fujiwara, Harada, Yokoi, Hirukawa 2003, Biped walking pattern generation by using preview control of
zero-moment point, ICRA. Here by least squares over the whole motion, from rest to rest, or so that it repeats itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Array = np.ndarray
SAMPLES = 200  # intervals of the whole motion
FLYING = 10.0  # weight of the equation of flights, which no foot could mend, beside that of feet


class Sway(NamedTuple):
    """Times [k], displacements [k, 3] of the mass centre from where it is at the start, and its velocities [k, 3]."""

    t: Array
    moved: Array
    speed: Array


def sway(duration: float, middle: Callable[[float], Array | None], height: float, g: float, *, periodic: bool = False) -> Sway:
    """The motion of the mass centre. middle: of the feet that stand at a time, displaced from that of the start [m]; None in
    flight. height [m]; g [m/s^2]. periodic: it moves at the end as at the start, displaced as the feet are, and not from rest to
    rest."""
    t = np.linspace(0.0, duration, SAMPLES + 1)
    h = t[1]
    places = [middle(time) for time in t]
    ends = [np.zeros(3) if place is None else place for place in (places[0], places[-1])]
    known = np.zeros((SAMPLES + 1, 3))
    if periodic:  # sample -1 is the last but one of the period before
        free, known[-1] = np.vstack([np.eye(SAMPLES), np.eye(1, SAMPLES)]), ends[1] - ends[0]
        wrap, fixed, inner = np.vstack([free[-2:-1], free]), np.vstack([-known[-1:], known]), slice(0, -1)
    else:
        known[:2], known[-2:] = ends
        free = wrap = np.eye(SAMPLES + 1)[:, 2:-2]
        fixed, inner = known, slice(1, -1)
    flies = np.array([place is None for place in places[inner]])
    p = np.array([np.zeros(3) if place is None else place for place in places[inner]])

    def balanced(c: Array) -> Array:
        """c - (h / g) c'' at the samples but the ends, and the weighed c'' in flight."""
        bent = -height / (g * h**2) * (c[:-2] - 2 * c[1:-1] + c[2:])
        return np.where(flies[:, None], FLYING * bent, c[1:-1] + bent)

    c = known + free @ np.linalg.lstsq(balanced(wrap), p - balanced(fixed), rcond=None)[0]
    return Sway(t, c, np.asarray(np.gradient(c, h, axis=0)))
