"""How the mass centre moves so that feet can carry it: the linear inverted pendulum, whose centre of pressure stays near the middle
of the feet that stand.

    c - (h / g) c'' = p        on feet: c, p [3], horizontal, of the mass centre and of the centre of pressure; h: height over them
    c'' = 0                    in flight

Kajita, Kanehiro, Kaneko, Fujiwara, Harada, Yokoi, Hirukawa 2003, Biped walking pattern generation by using preview control of
zero-moment point, ICRA. Here by least squares over the whole motion, from rest to rest.
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


def sway(duration: float, middle: Callable[[float], Array | None], height: float, g: float) -> Sway:
    """The motion of the mass centre. middle: of the feet that stand at a time, displaced from that of the start [m]; None in
    flight. height [m]; g [m/s^2]."""
    t = np.linspace(0.0, duration, SAMPLES + 1)
    h = t[1]
    places = [middle(time) for time in t]
    ends = [np.zeros(3) if place is None else place for place in (places[0], places[-1])]
    bend = (np.eye(SAMPLES - 1, SAMPLES + 1) - 2 * np.eye(SAMPLES - 1, SAMPLES + 1, 1) + np.eye(SAMPLES - 1, SAMPLES + 1, 2)) / h**2
    flies = np.array([place is None for place in places[1:-1]])
    p = np.array([np.zeros(3) if place is None else place for place in places[1:-1]])
    A = -height / g * bend
    A[flies] *= FLYING
    A[~flies, np.flatnonzero(~flies) + 1] += 1.0
    known = np.zeros((SAMPLES + 1, 3))
    known[:2], known[-2:] = ends  # at rest
    inner = slice(2, SAMPLES - 1)
    c = known.copy()
    c[inner] = np.linalg.lstsq(A[:, inner], p - A @ known, rcond=None)[0]
    return Sway(t, c, np.asarray(np.gradient(c, h, axis=0)))
