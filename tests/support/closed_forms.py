"""Small problems with closed forms, as files, their numbers drawn from a seed: where the optimum is known to rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import expm

Drawn = Callable[[float, float], float]


@dataclass(frozen=True)
class Known:
    """A problem file and its optimum."""

    name: str
    text: str
    optimum: float


def _file(dynamics: str, running: str, start: str, final: str, duration: object = 1, more: str = "", cost: str = "running") -> str:
    states = ", ".join(f"{pair.split(':')[0].strip()}: ''" for pair in start.split(","))
    return f"""
name: closed form
system: {{states: {{{states}}}, controls: {{u: ''}}, dynamics: {{{dynamics}}}}}
phase:
  duration: {duration}
  start: {{{start}}}
  final: {{{final}}}
  costs: [{{name: cost, {cost}: "{running}"}}]
  {more}
"""


BLOCK, REST, FREE = "x: v, v: u", "x: 0, v: 0", "{lower: 0.1, upper: 20, guess: 2}"


def linear_quadratic(d: Drawn) -> tuple[str, float]:
    """x' = a x + b u, int q x^2 + r u^2: Riccati's equation in one dimension."""
    a, b, q, r, x, T = d(-1, 1), d(0.5, 2), d(0.5, 3), d(0.2, 2), d(0.5, 2), d(0.5, 3)
    s = np.sqrt(a * a + b * b * q / r)
    P = q * np.tanh(s * T) / (s - a * np.tanh(s * T))
    return _file(f"x: {a}*x + {b}*u", f"{q}*x**2 + {r}*u**2", f"x: {x}", "", T), P * x * x


def gramian(d: Drawn) -> tuple[str, float]:
    """From one state to another with the least int u^2: the distance from where the motion drifts, by the inverse Gramian."""
    A, T, end = np.array([[d(-1, 1), d(-2, 2)], [d(-2, 2), d(-1, 1)]]), d(0.5, 2), np.array([d(-1, 1), d(-1, 1)])
    B = np.array([0.0, 1.0])
    E = expm(np.block([[A, np.outer(B, B)], [np.zeros((2, 2)), -A.T]]) * T)
    W, off = E[:2, 2:] @ E[:2, :2].T, end - E[:2, :2] @ [1.0, 0.0]
    (a, b), (c, e) = A.tolist()
    return _file(f"x: {a}*x + {b}*v, v: {c}*x + {e}*v + u", "u**2", "x: 1, v: 0", f"x: {end[0]}, v: {end[1]}", T), \
        float(off @ np.linalg.solve(W, off))


def minimum_time(d: Drawn) -> tuple[str, float]:
    """A block from rest to rest, pushed and braked by different forces."""
    push, brake, way = d(0.5, 3), d(0.5, 3), d(0.5, 2)
    return _file(BLOCK, "t", REST, f"x: {way}, v: 0", FREE, f"bounds: {{u: [{-brake}, {push}]}}", "final"), \
        float(np.sqrt(2 * way * (1 / push + 1 / brake)))


def zermelo(d: Drawn) -> tuple[str, float]:
    """A boat of speed one in an even current (c, e), to (a, 0): |a - (c, e) T| = T."""
    a, c, e = d(1, 3), d(-0.5, 0.5), d(-0.5, 0.5)
    k = 1 - c * c - e * e
    return _file(f"x: cos(u) + {c}, y: sin(u) + {e}", "t", "x: 0, y: 0", f"x: {a}, y: 0", FREE,
                 "bounds: {u: [-3, 3]}", "final"), float((-a * c + np.sqrt(a * a * c * c + k * a * a)) / k)


def brachistochrone(d: Drawn) -> tuple[str, float]:
    """As far as a, at any height: half a cycloid."""
    a, g = d(0.5, 3), d(1, 10)
    states = f"x: [0, {a}], y: [0, {a}], v: [0, {np.sqrt(2 * g * a)}]"
    more = f"bounds: {{u: [0, 3.14159]}}\n  guess: {{states: {{{states}}}, controls: {{u: 0.8}}}}"
    dynamics = f"x: v*sin(u), y: v*cos(u), v: {g}*cos(u)"
    return _file(dynamics, "t", "x: 0, y: 0, v: 0", f"x: {a}", FREE, more, "final"), float(np.sqrt(np.pi * a / g))


def rope(d: Drawn) -> tuple[str, float]:
    """The largest area between a chord of length one and a rope: an arc of a circle."""
    w = d(0.5, 1.2)
    R = 0.5 / np.sin(w)
    length = f"{{name: rope, at: integral, expression: sqrt(1 + u**2), equal: {2 * R * w}}}"
    more = f"constraints: [{length}]\n  guess: {{states: {{x: [0, 0.2, 0]}}}}"
    return _file("x: u", "-x", "x: 0", "x: 0", 1, more), float(-R * R * (w - np.sin(w) * np.cos(w)))


def pulse(d: Drawn) -> tuple[str, float]:
    """A push of height h from a to b beside the control: an impulse that no mesh is told of."""
    a, width, h, way, T = d(0.1, 0.5), d(0.01, 0.3), d(0.5, 3), d(1, 3), d(0.9, 1.5)
    return _file(f"x: 'u + if_else(t > {a}, {h}, 0) - if_else(t > {a + width}, {h}, 0)'", "u**2", "x: 0", f"x: {way}", T), \
        (way - h * width) ** 2 / T


def gust(d: Drawn) -> tuple[str, float]:
    """The same as a Gaussian."""
    c, w, h, way = d(0.3, 0.7), d(0.01, 0.06), d(1, 5), d(1, 3)
    return _file(f"x: 'u + {h}*exp(-((t - {c})/{w})**2)'", "u**2", "x: 0", f"x: {way}"), (way - h * w * np.sqrt(np.pi)) ** 2


def friction(d: Drawn) -> tuple[str, float]:
    """Dry friction from rest to rest, in one direction."""
    mu, way, T = d(0.2, 2), d(0.5, 2), d(0.7, 1.2)
    return _file(f"x: v, v: u - {mu}*sign(v)", "u**2", REST, f"x: {way}, v: 0", T), 12 * way**2 / T**3 + mu**2 * T


def speed_limit(d: Drawn) -> tuple[str, float]:
    """Least effort below a speed V: parabolas of speed about a stretch at V."""
    way, T, share = d(0.5, 2), d(0.8, 2), d(1.1, 1.4)
    V = share * way / T
    return _file(BLOCK, "u**2", REST, f"x: {way}, v: 0", T, f"bounds: {{v: [{-V}, {V}]}}"), 8 * V**2 / 4.5 / (T - way / V)


def bryson_denham(d: Drawn) -> tuple[str, float]:
    """From a speed to its opposite without getting farther than l < 1/6."""
    most = d(0.05, 0.16)
    return _file(BLOCK, "u**2", "x: 0, v: 1", "x: 0, v: -1", 1, f"bounds: {{x: [-1, {most}]}}"), 8 / (9 * most)


def fuel(d: Drawn) -> tuple[str, float]:
    """Least int |u| of a block: as fast as it must coast."""
    m, way, T = d(5, 10), d(0.5, 1), d(1, 2)
    return _file(BLOCK, "abs(u)", REST, f"x: {way}, v: 0", T, f"bounds: {{u: [{-m}, {m}]}}"), m * (T - np.sqrt(T * T - 4 * way / m))


def curved(d: Drawn) -> tuple[str, float]:
    """x' = u (1 + x^2): a straight line of atan x."""
    end, T = d(1, 5), d(0.5, 2)
    return _file("x: u*(1 + x**2)", "u**2", "x: 0", f"x: {end}", T), float(np.arctan(end) ** 2 / T)


def free_time(d: Drawn) -> tuple[str, float]:
    """u^2 and c a second over a way: 2 way sqrt(c)."""
    c, way = d(0.2, 3), d(0.5, 3)
    return _file("x: u", f"u**2 + {c}", "x: 0", f"x: {way}", "{lower: 0, upper: 50, guess: 1}"), 2 * way * np.sqrt(c)


def unstable(d: Drawn) -> tuple[str, float]:
    """x' = a x + u against a strong growth, from 1 to 0: 2 a / (1 - exp(-2 a T))."""
    a = d(4, 9)
    return _file(f"x: {a}*x + u", "u**2", "x: 1", "x: 0"), 2 * a / (1 - np.exp(-2 * a))


FAMILIES = (linear_quadratic, gramian, minimum_time, zermelo, brachistochrone, rope, pulse, gust, friction, speed_limit,
            bryson_denham, fuel, curved, free_time, unstable)


def drawn(seed: int) -> Iterator[Known]:
    """One problem of each family."""
    for family in FAMILIES:
        rng = np.random.default_rng([seed, *family.__name__.encode()])
        text, optimum = family(lambda low, high, rng=rng: round(float(rng.uniform(low, high)), 4))
        yield Known(f"{family.__name__}-{seed}", text, float(optimum))
