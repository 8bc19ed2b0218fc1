"""Problem files made to win a certificate that they do not deserve, and twins of them that do deserve it.

Pure data: a ``Case`` holds the text of a file, the verdict it deserves and why. Nothing here asks the program: a verdict follows
from reasoning (no trajectory can be right, or the mesh cannot see what decides) and an optimum from a closed form, from the
smallest norm under linear conditions, or from scipy's boundary-value solver. Answers of files marked "refused" may be certified
only where their objective is the true one: a method that finds the event after all is not to be punished.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.integrate import quad, solve_bvp

HERMITE = {"scheme": "hermite_simpson", "refine": "none"}


@dataclass(frozen=True)
class Case:
    """verdict: "certified" or "refused"; true: the true objective where known, or a function that finds it; tolerance: relative."""

    name: str
    family: str
    text: str
    verdict: str
    reason: str
    true: float | Callable[[], float] | None = None
    tolerance: float = 1e-3

    @property
    def optimum(self) -> float | None:
        return self.true() if callable(self.true) else self.true

    def deserves(self, ok: bool, objective: float) -> bool:
        """Whether this verdict of the program on its own answer is the right one."""
        if not ok:
            return self.verdict == "refused"
        optimum = self.optimum
        right = optimum is not None and abs(objective - optimum) <= self.tolerance * abs(optimum)
        return right or (self.verdict == "certified" and optimum is None)


# ------------------------------------------------------------------------------------------------ files
def text(name: str, dynamics: dict[str, str], duration: float, start: dict, final: dict | None, running: str, *, control: str = "u",
         constraints: Sequence[dict] = (), bounds: dict | None = None, guess: dict | None = None, terminal: str | None = None,
         method: str = "collocation", **options: Any) -> str:
    """A problem file (JSON, which YAML contains)."""
    phase: dict[str, Any] = {"duration": duration, "start": start}
    phase |= {"final": final} if final else {}
    phase |= {"bounds": bounds} if bounds else {}
    phase["costs"] = [{"name": "running", "running": running}]
    phase["costs"] += [{"name": "terminal", "final": terminal}] if terminal else []
    phase |= {"constraints": list(constraints)} if constraints else {}
    phase |= {"guess": guess} if guess else {}
    return json.dumps({"name": name, "system": {"states": dict.fromkeys(dynamics, ""), "controls": {control: ""},
                                                "dynamics": dynamics},
                       "phase": phase, "solve": {"method": method, method: options}}, indent=1)


def block(name: str, force: str = "u", *, T: float = 1.0, d: float = 1.0, running: str = "u**2", constraints: Sequence[dict] = (),
          **options: Any) -> str:
    """A unit mass from rest to rest over a distance d in T."""
    straight = {"states": {"x": [0, d], "v": [0, 0]}}
    return text(name, {"x": "v", "v": force}, T, {"x": 0, "v": 0}, {"x": d, "v": 0}, running, constraints=constraints,
                guess=straight, **({} if "method" in options else HERMITE) | options)


def gauss(intervals: int) -> dict[str, Any]:
    return {"scheme": "gauss", "degree": 3, "intervals": intervals, "refine": "none"}


def n(x: float) -> str:
    """A number as text, all its digits."""
    return f"({x!r})"


# ------------------------------------------------------------------------------------------------ references
def least_effort(kernels: Sequence[Callable[[float], float]], wanted: Sequence[float], T: float,
                 breaks: Sequence[float] = ()) -> float:
    """The least int u^2 over [0, T] with int k_i u = wanted_i: wanted' G^-1 wanted with the Gramian of the kernels."""
    def inner(f, g):
        return quad(lambda s: f(s) * g(s), 0, T, points=list(breaks) or None, epsabs=1e-13, epsrel=1e-12, limit=200)[0]

    G = np.array([[inner(f, g) for g in kernels] for f in kernels])
    return float(np.asarray(wanted) @ np.linalg.solve(G, np.asarray(wanted)))


def double_integrator(d: float, T: float, at: float | None = None, position: float | None = None, speed: float | None = None,
                      push: tuple[float, float] = (0.0, 0.0)) -> float:
    """Least effort of the block from rest to rest, through a position or a speed at a time if given; push: the distance and speed
    that a disturbance gives by the end."""
    kernels, wanted = [lambda s: T - s, lambda s: 1.0], [d - push[0], -push[1]]
    if position is not None:
        kernels.append(lambda s: max(at - s, 0.0))
        wanted.append(position)
    if speed is not None:
        kernels.append(lambda s: float(s < at))
        wanted.append(speed)
    return least_effort(kernels, wanted, T, [] if at is None else [at])


def pushed(force: Callable[[float], float], T: float, around: Sequence[float]) -> tuple[float, float]:
    """Distance and speed by T that a force of time gives a unit mass."""
    places = [x for x in around if 0 < x < T]
    return (quad(lambda s: (T - s) * force(s), 0, T, points=places, epsabs=1e-13, limit=400)[0],
            quad(force, 0, T, points=places, epsabs=1e-13, limit=400)[0])


def with_field(force: Callable[[Any], Any], slope: Callable[[Any], Any], d: float, T: float) -> float:
    """Least effort of the block in a force that depends on its place, by the boundary-value problem of its optimality conditions:
    u = -m/2, dl/dt = -m F'(x), dm/dt = -l."""
    def rate(t, y):
        x, v, l, m, _ = y
        u = -m / 2
        return np.vstack([v, u + force(x), -m * slope(x), -l, u**2])

    def ends(a, b):
        return np.array([a[0], a[1], b[0] - d, b[1], a[4]])

    t = np.linspace(0, T, 200)
    s = t / T
    y = np.vstack([d * (3 * s**2 - 2 * s**3), 6 * d / T * s * (1 - s), np.full_like(s, -24 * d / T**3),
                   -12 * d / T**2 * (1 - 2 * s), 0 * s])
    found = solve_bvp(rate, ends, t, y, tol=1e-9, max_nodes=100_000)
    assert found.success, found.message
    return float(found.y[4, -1])


@cache
def swing_up(weight: float, T: float, w2: float) -> float:
    """Least int u^2 + weight (1 + cos th(T)) of a pendulum th'' = u - w2 sin th from rest, the best of the extremals that several
    guesses lead to: u = -m/2, dl/dt = m w2 cos th, dm/dt = -l, l(T) = -weight sin th(T), m(T) = 0."""
    def rate(t, y):
        th, om, l, m, _ = y
        u = -m / 2
        return np.vstack([om, u - w2 * np.sin(th), m * w2 * np.cos(th), -l, u**2])

    def ends(a, b):
        return np.array([a[0], a[1], b[2] + weight * np.sin(b[0]), b[3], a[4]])

    t, found = np.linspace(0, T, 300), []
    for last in (0.5, 1.5, 2.5, 3.0):
        for bends in (0, 1, 2):
            th = last * (t / T) ** 2 * np.cos(math.pi * bends * (1 - t / T))
            om = np.gradient(th, t)
            u = np.gradient(om, t) + w2 * np.sin(th)
            y = np.vstack([th, om, 2 * np.gradient(u, t), -2 * u, np.cumsum(u**2) * (t[1] - t[0])])
            out = solve_bvp(rate, ends, t, y, tol=1e-8, max_nodes=20_000)
            if out.success and abs(out.y[0, -1]) > 1e-3:
                found.append(float(out.y[4, -1] + weight * (1 + math.cos(out.y[0, -1]))))
    return min(found)


# ------------------------------------------------------------------------------------------------ no minimum
def indefinite(k: float, T: float, x0: float, intervals: int = 40) -> Case:
    """x' = u, cost u^2 - k x^2, free end: a minimum only while sqrt(k) T < pi/2; then it is -x0^2 w tan(w T)."""
    w = math.sqrt(k)
    bounded = w * T < math.pi / 2
    file = text("Indefinite cost", {"x": "u"}, T, {"x": x0}, None, f"u**2 - {n(k)}*x**2", intervals=intervals, **HERMITE)
    return Case(f"x' = u, cost u^2 - {k:.4g} x^2 over {T:.4g} s from {x0:.4g}", "unbounded below", file,
                "certified" if bounded else "refused",
                f"sqrt(k) T = {w * T:.3f} {'<' if bounded else '>'} pi/2: "
                + ("the second variation is positive" if bounded else "a conjugate point inside; costs have no lower bound"),
                -x0**2 * w * math.tan(w * T) if bounded and x0 else None)


def maximum(sign: int, guess: float, T: float, limit: float, method: dict | None = None) -> Case:
    """Cost -u^2 with |u| <= limit: u = 0 is its maximum, u = limit its minimum."""
    method = method or {"intervals": 20, **HERMITE}
    file = text("A maximum", {"x": "u"}, T, {"x": 0}, None, f"{n(float(sign))}*u**2", bounds={"u": [-limit, limit]},
                guess={"controls": {"u": guess}}, **method)
    stuck = sign < 0 and guess == 0
    how = method.get("method", method.get("scheme"))
    return Case(f"cost {sign:+d} u^2, |u| <= {limit:.3g}, guess {guess:.3g}, {how}", "maximum", file,
                "refused" if stuck else "certified",
                "u = 0 is stationary and the maximum" if stuck else "a genuine minimum, at a bound" if sign < 0 else "convex",
                -limit**2 * T if sign < 0 else None, 1e-6)


def hanging(weight: float, T: float, method: dict) -> Case:
    """A pendulum that is rewarded for standing and starts hanging, with nothing to tell it left from right. Hanging costs 2 K; the
    second variation is r int u^2 - K th(T)^2 / 2, with th(T) = int sin(w (T - s)) / w u: negative iff K G > 2 r."""
    w2, r = 9.81, 1.0
    w = math.sqrt(w2)
    gramian = quad(lambda s: (math.sin(w * s) / w) ** 2, 0, T)[0]
    saddle = weight * gramian > 2 * r
    file = text("Hanging still", {"th": "om", "om": f"u - {w2}*sin(th)"}, T, {"th": 0, "om": 0}, None, "u**2",
                terminal=f"{n(weight)}*(1 + cos(th))", **method)
    return Case(f"pendulum that hangs still, weight {weight:.4g} over {T:.3g} s, {method.get('method', method.get('scheme'))}",
                "saddle", file, "refused" if saddle else "certified",
                f"K G / 2 = {weight * gramian / 2:.3f}: hanging is a {'saddle' if saddle else 'minimum'}",
                (lambda: swing_up(weight, T, w2)) if saddle else 2 * weight, 5e-3 if saddle else 1e-6)


# ------------------------------------------------------------------------------------------------ small things
def small_move(d: float, T: float, options: dict, factor: float = 1.0) -> Case:
    """The block over a distance d, cost times a factor. Trapezoid of few intervals is wrong by 1/N^2 whatever the unit."""
    coarse = options["scheme"] == "trapezoid" and options["intervals"] < 10
    file = block("Small move", T=T, d=d, running=f"{n(factor)}*u**2", **options)
    return Case(f"{d:.3g} m in {T:.3g} s, cost times {factor:.3g}, {options['scheme']} {options['intervals']}", "small move", file,
                "refused" if coarse else "certified",
                "the end of its own controls is far off" if coarse else "resolved; the unit of length or cost says nothing",
                factor * 12 * d**2 / T**3, 1e-6 if options["scheme"] != "trapezoid" else 5e-3)


def oscillator(d: float, w: float, T: float, intervals: int, scheme: str) -> Case:
    """A mass on a spring moved over d; fewer than a few nodes in a period cannot hold it."""
    resolved = w * T / intervals < 0.35 and scheme != "trapezoid"
    effort = least_effort([lambda s: math.sin(w * (T - s)) / w, lambda s: math.cos(w * (T - s))], [d, 0.0], T)
    file = text("A spring", {"x": "v", "v": f"u - {n(w * w)}*x"}, T, {"x": 0, "v": 0}, {"x": d, "v": 0}, "u**2",
                guess={"states": {"x": [0, d], "v": [0, 0]}}, scheme=scheme, refine="none", intervals=intervals)
    return Case(f"spring of {w:.3g} rad/s moved {d:.3g} m in {T:.3g} s, {scheme} {intervals}", "oscillator", file,
                "certified" if resolved else "refused",
                f"{w * T / intervals:.2f} rad in an interval", effort, 1e-3)


CART = {"x": "v", "th": "om",
        "v": "(0.5*0.3*sin(th)*om**2 + u + 0.3*9.81*cos(th)*sin(th)) / (1 + 0.3*(1 - cos(th)**2))",
        "om": "-(0.5*0.3*cos(th)*sin(th)*om**2 + u*cos(th) + 1.3*9.81*sin(th)) / (0.5 + 0.5*0.3*(1 - cos(th)**2))"}


def cartpole(factor: float, intervals: int = 100) -> Case:
    """The swing-up of Kelly (2017), its cost times a factor: below the tolerance of the solver, anything feasible is optimal."""
    tiny = factor < 1e-6
    file = text("Cart-pole", CART, 2.0, {"x": 0, "th": 0, "v": 0, "om": 0}, {"x": 1, "th": math.pi, "v": 0, "om": 0},
                f"{n(factor)}*u**2", bounds={"x": [-2, 2], "u": [-20, 20]},
                guess={"states": {"x": [0, 1], "th": [0, math.pi], "v": [0, 0], "om": [0, 0]}}, intervals=intervals, **HERMITE)
    return Case(f"cart-pole, cost times {factor:.3g}", "tiny cost", file, "refused" if tiny else "certified",
                "the solver stops at an absolute tolerance far above the cost" if tiny else "the published optimum in another unit",
                58.80766746 * factor, 1e-4)


def tiny_row(factor: float, limit: float, intervals: int = 20) -> Case:
    """factor (x - limit) <= 0 on a block that must end at x = 1."""
    inside = limit > 1
    file = block("A tiny row", constraints=[{"name": "wall", "expression": f"{n(factor)}*(x - {n(limit)})", "upper": 0}],
                 intervals=intervals)
    return Case(f"{factor:.3g}*(x - {limit:.4g}) <= 0 at x = 1", "tiny row", file, "certified" if inside else "refused",
                "never reached" if inside else "no trajectory to x = 1 keeps it", 12.0 if inside else None, 1e-6)


# ------------------------------------------------------------------------------------------------ short events
def switched_push(at: float, width: float, impulse: float, options: dict, seen: bool) -> Case:
    """A force of time, by if_else: impulse / width for a moment."""
    size = impulse / width
    force = f"u + if_else(t > {n(at)}, if_else(t < {n(at + width)}, {n(size)}, 0), 0)"
    T = 1.0
    push = (impulse * (T - at - width / 2), impulse)
    return Case(f"{size:.3g} N for {width:.3g} s at {at:.4g}, {options}", "push in time", block("A push", force, **options),
                "certified" if seen else "refused",
                "edges of the mesh at its edges" if seen else "no node of the mesh feels it",
                double_integrator(1.0, T, push=push), 1e-4)


def gaussian_push(at: float, width: float, impulse: float, options: dict, seen: bool) -> Case:
    """A smooth force of time of a given impulse."""
    size, T = impulse / (width * math.sqrt(math.pi)), 1.0
    force = f"u + {n(size)}*exp(-((t - {n(at)})/{n(width)})**2)"
    push = pushed(lambda s: size * math.exp(-((s - at) / width) ** 2), T, [at - 5 * width, at, at + 5 * width])
    return Case(f"pulse of {impulse:.3g} N s, {width:.3g} s wide at {at:.4g}, {options}", "pulse in time",
                block("A pulse", force, **options), "certified" if seen else "refused",
                "resolved by the mesh" if seen else "no node of the mesh feels it", double_integrator(1.0, T, push=push), 1e-4)


GATES = {"tanh": "tanh({})/2", "logistic": "1/(1 + exp(-2*({})))", "atan": "atan({})/pi"}


def gated_push(at: float, width: float, impulse: float, law: str, options: dict, seen: bool) -> Case:
    """The same push between two smooth steps, each a hundred thousandth of it wide, or a quarter: no comparison, no extremum."""
    sharp, T = width / (4 if seen else 1e5), 1.0
    on, off = (GATES[law].format(f"(t - {n(place)})/{n(sharp)}") for place in (at, at + width))
    force = f"u + {n(impulse / width)}*({on} - {off})"

    def push(s):
        a, b = (s - at) / sharp, (s - at - width) / sharp
        return impulse / width * ((math.atan(a) - math.atan(b)) / math.pi if law == "atan" else (math.tanh(a) - math.tanh(b)) / 2)

    gained = pushed(push, T, [at, at + width]) if seen else (impulse * (T - at - width / 2), impulse)
    return Case(f"{impulse:.3g} N s between two steps by {law}, {width:.3g} s apart at {at:.4g}, {options}", "pulse in time",
                block("A gate", force, **options), "certified" if seen else "refused",
                "resolved by the mesh" if seen else "no node of the mesh feels it", double_integrator(1.0, T, push=gained), 1e-4)


def gaussian_place(at: float, width: float, energy: float, options: dict, seen: bool) -> Case:
    """A force of place that takes an energy from whatever passes (J)."""
    size = energy / (width * math.sqrt(math.pi))
    force = f"u - {n(size)}*exp(-((x - {n(at)})/{n(width)})**2)"

    def field(x):
        return -size * np.exp(-(((x - at) / width) ** 2))

    best = (lambda: with_field(field, lambda x: field(x) * -2 * (x - at) / width**2, 1.0, 1.0)) if seen else None
    return Case(f"barrier of {energy:.3g} J, {width:.3g} m wide at {at:.4g}, {options}", "pulse in a state",
                block("A barrier", force, **options), "certified" if seen else "refused",
                "resolved by the mesh" if seen else "passed between two nodes, without its price", best, 1e-4)


def stiff_wall(at: float, width: float, force: float, options: dict) -> Case:
    """A thin wall that pushes back with ``force`` over ``width``, by if_else in a state."""
    law = f"u - if_else(x > {n(at)}, if_else(x < {n(at + width)}, {n(force)}, 0), 0)"
    return Case(f"wall of {width:.3g} m pushing with {force:.3g} N at {at:.4g}, {options}", "pulse in a state",
                block("A thin wall", law, **options), "refused", "passed between two nodes, without its price")


def two_media(at: float, factor: float, options: dict, kink: bool = False) -> Case:
    """x' = u, beyond ``at`` times a factor at once, or growing to it: the least int u^2 over a second is the square of the least
    int dx / c. Which nodes lie in which medium does not change with small moves, so that a program finds another motion."""
    law = f"u*(1 + {n((factor - 1) / (1 - at))}*max(0, x - {n(at)}))" if kink else f"u*if_else(x > {n(at)}, {n(factor)}, 1)"
    length = at + (1 - at) * (math.log(factor) / (factor - 1) if kink else 1 / factor)
    file = text("Two media", {"x": law}, 1.0, {"x": 0}, {"x": 1}, "u**2", guess={"states": {"x": [0, 1]}}, **options)
    return Case(f"{factor:.3g} times as fast beyond {at:.4g}, {'by and by' if kink else 'at once'}, {options}", "jump in a state",
                file, "certified" if kink else "refused", "a kink" if kink else "the instant of the crossing is nobody's choice",
                length**2, 1e-3)


def undefined(at: float, width: float, where: str, options: dict, defined: bool) -> Case:
    """A logarithm that does not exist for 2 width around an instant or a place; its twin has the other sign and is smooth."""
    variable, sign = ("t", "x")[where == "place"], "+" if defined else "-"
    term = f"log(({variable} - {n(at)})**2 {sign} {n(width)}**2)"
    best: float | Callable[[], float] | None = None
    if where == "constraint":
        file = block("Undefined", constraints=[{"name": "law", "expression": term, "upper": 10}], **options)
        best = 12.0
    else:
        file = block("Undefined", f"u + 0.1*{term}", **options)
        if where == "time":
            best = double_integrator(1.0, 1.0, push=pushed(lambda s: 0.1 * math.log((s - at) ** 2 + width**2), 1.0, [at]))
        elif defined:
            def best():
                return with_field(lambda x: 0.1 * np.log((x - at) ** 2 + width**2),
                                  lambda x: 0.2 * (x - at) / ((x - at) ** 2 + width**2), 1.0, 1.0)
    return Case(f"log of {variable}, {'' if defined else 'un'}defined within {width:.3g} of {at:.4g} ({where})", "not a number",
                file, "certified" if defined else "refused",
                "smooth everywhere" if defined else "no number there: such a motion is none", best if defined else None, 1e-4)


def dip(at: float, width: float, level: float, options: dict) -> Case:
    """x <= 2 - (2 - level) exp(...): for a moment the block must be at ``level`` or below; above 1 it is anyway."""
    there = 3 * at**2 - 2 * at**3
    violated = level < there
    expression = f"x - 2 + {n(2 - level)}*exp(-((t - {n(at)})/{n(width)})**2)"
    file = block("A dip", constraints=[{"name": "ceiling", "expression": expression, "upper": 0}], **options)
    best = double_integrator(1.0, 1.0, at, position=level) if violated else 12.0
    return Case(f"ceiling of {level:.3g} m for {width:.3g} s at {at:.4g}, {options}", "moment of a constraint", file,
                "refused" if violated else "certified",
                f"the answer without it is at {there:.3f} then" if violated else "the ceiling stays above the motion", best, 1e-3)


def fast_instant(at: float, width: float, speed: float, options: dict) -> Case:
    """v >= speed for an instant and hardly anything else."""
    natural = 6 * at * (1 - at)
    violated = speed > natural
    expression = f"v + 20 - {n(speed + 20)}*exp(-((t - {n(at)})/{n(width)})**2)"
    file = block("An instant", constraints=[{"name": "fast", "expression": expression, "lower": 0}], **options)
    best = double_integrator(1.0, 1.0, at, speed=speed) if violated else 12.0
    return Case(f"v >= {speed:.3g} at t = {at:.4g} for {width:.3g} s, {options}", "moment of a constraint", file,
                "refused" if violated else "certified",
                f"the answer without it has {natural:.3f} then" if violated else "fulfilled without effort", best, 1e-3)


def spike(at: float, width: float, weight: float, target: float | None, options: dict, seen: bool) -> Case:
    """An integrand that is large for a moment: of time alone, or times (x - target)^2. weight: its integral over time."""
    size = weight / (width * math.sqrt(math.pi))
    pulse = f"{n(size)}*exp(-((t - {n(at)})/{n(width)})**2)"
    if target is None:
        running = f"u**2 + {pulse}"
        best = 12.0 + weight * (math.erf((1 - at) / width) + math.erf(at / width)) / 2
    else:
        running = f"u**2 + {pulse}*(x - {n(target)})**2"
        # E(y) + weight (y - target)^2 over the position y at that instant, E a parabola
        y0, y = 3 * at**2 - 2 * at**3, 0.1
        bend = (double_integrator(1.0, 1.0, at, position=y) - 12.0) / (y - y0) ** 2
        best = 12.0 + bend * weight / (bend + weight) * (y0 - target) ** 2
    on = "" if target is None else f" on x - {target:.3g}"
    return Case(f"spike of {weight:.3g}, {width:.3g} s wide at {at:.4g}{on}, {options}", "spike in the cost",
                block("A spike", running=running, **options), "certified" if seen else "refused",
                "resolved by the mesh" if seen else "no node of the mesh feels it", best, 1e-3 if target is None else 1e-2)


def barrier(at: float, half: float, options: dict, law: str = "distance") -> Case:
    """|x - at| >= half along a line that starts at 0 and ends at 1: as a distance, or as the square of a multiple of ``half``. (A
    distance of 1e-4 m and a plain square of 1e-8 m^2 are within the tolerances that a certificate states: no wall for it.)"""
    inside = 0 < at < 1
    row = {"expression": f"abs(x - {n(at)})", "lower": half} if law == "distance" else {
        "expression": f"((x - {n(at)})/{n(half)})**2", "lower": 1}
    file = block("A barrier", constraints=[{"name": "out", **row}], **options)
    return Case(f"a wall of {2 * half:.3g} m at {at:.4g}, {law}, {options}", "wall", file, "refused" if inside else "certified",
                "continuity cannot cross it" if inside else "not on the way", None if inside else 12.0, 1e-6)


# ------------------------------------------------------------------------------------------------ the collection
WAYS = ({"intervals": 20, **HERMITE}, {"method": "ilqr", "intervals": 100, "integrator": "rk4"},
        {"method": "multiple_shooting", "intervals": 30}, gauss(8))


def named() -> Iterator[Case]:
    """Every certificate that is on record for having held and should not have."""
    fifty, twenty = {"intervals": 50}, {"intervals": 20}
    yield indefinite(20.0, 1.0, 0.0)
    yield maximum(-1, 0.0, 1.0, 1.0)
    for way in WAYS:
        yield hanging(200.0, 2.0, way)
    yield small_move(1e-4, 1.0, {"scheme": "trapezoid", "intervals": 4})
    yield small_move(1e-3, 1.0, {"scheme": "trapezoid", "intervals": 3})
    yield oscillator(1e-3, 40.0, 1.0, 10, "trapezoid")
    yield cartpole(1e-9)
    yield cartpole(1e-12)
    yield tiny_row(1e-9, 0.5)
    yield switched_push(0.5123, 1e-5, 1.0, fifty, False)
    yield gaussian_push(0.5123, 1e-4, 1.0, fifty, False)
    yield gaussian_place(0.4321, 1e-5, 1.0, fifty, False)
    yield stiff_wall(0.4321, 1e-5, 5e4, fifty)
    for where in ("time", "constraint", "place"):
        yield undefined(0.4321, 1e-4, where, fifty, False)
    yield dip(0.5123, 1.5e-4, 0.1, fifty)
    yield spike(0.5123, 1.5e-4, 5.0, None, fifty, False)
    yield spike(0.5123, 1.5e-4, 50.0, 0.1, fifty, False)
    yield barrier(0.4321, 3e-4, fifty)
    yield barrier(0.4321, 1e-4, fifty, "square")
    yield fast_instant(0.5123, 0.01, 3.0, {"scheme": "gauss", "degree": 3, "intervals": 20, "refine": "hp"})
    yield fast_instant(0.5123, 1e-3, 3.0, twenty)


def generated(seed: int = 0) -> Iterator[Case]:
    """More of their kinds, by chance: place, width, size, unit, method and mesh; about half of them twins in order."""
    rng = np.random.default_rng(seed)

    def log_uniform(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    def place() -> float:
        """An instant or a place that no usual mesh has."""
        return float(round(rng.uniform(0.25, 0.75), 3) + 0.000321)

    def coarse() -> dict[str, Any]:
        return [{"intervals": int(rng.integers(15, 51))}, gauss(int(rng.integers(6, 16))),
                {"scheme": "radau", "degree": 3, "intervals": int(rng.integers(6, 16)), "refine": "none"}][rng.integers(3)]

    for _ in range(4):
        T = log_uniform(0.1, 10.0)
        for share in (rng.uniform(0.4, 0.8), rng.uniform(1.2, 3.0)):
            yield indefinite(float((share * math.pi / 2 / T) ** 2), T, float(rng.choice([0.0, 1.0, 1e-3]) if share > 1 else 1.0))
    for _ in range(2):
        T, limit = log_uniform(0.3, 3.0), log_uniform(0.1, 10.0)
        yield maximum(-1, 0.0, T, limit)
        yield maximum(-1, 0.5 * limit, T, limit)
    for share in (0.5, 0.8, 2.0, 10.0):
        T, w = float(rng.uniform(0.5, 2.0)), math.sqrt(9.81)
        gramian = (T - math.sin(2 * w * T) / (2 * w)) / (2 * w * w)
        yield hanging(share * 2 / gramian, T, WAYS[rng.integers(2) * 3])
    for _ in range(5):
        d, T = log_uniform(1e-6, 1e4), log_uniform(1e-2, 1e2)
        yield small_move(d, T, {"scheme": "trapezoid", "intervals": int(rng.integers(3, 6))})
        yield small_move(d, T, {"intervals": int(rng.integers(5, 30)), **HERMITE})
    for d in (1e-4, 1e2):
        yield small_move(d, 1.0, {"scheme": "trapezoid", "intervals": 200})
    for factor in (1e-12, 1e-9, 1e-6, 1e6, 1e9):
        yield small_move(1.0, 1.0, {"intervals": 20, **HERMITE}, factor)
    for d in (1e-6, 1e-3, 1.0):
        w = float(rng.uniform(20, 40))
        yield oscillator(d, w, 1.0, 10, "trapezoid")
        yield oscillator(d, w, 1.0, 150, "hermite_simpson")
    for factor in (1e-10, 1e-3, 1e3):
        yield cartpole(factor)
    for _ in range(3):
        yield tiny_row(log_uniform(1e-10, 1e-8), float(rng.uniform(0.2, 0.9)))
        yield tiny_row(log_uniform(1e-10, 1e-8), float(rng.uniform(1.2, 2.0)))
    yield from _events(rng, log_uniform, place, coarse)


def _events(rng, log_uniform, place, coarse) -> Iterator[Case]:
    """What happens for a moment, and the same of a width that the mesh resolves."""
    for _ in range(3):
        yield switched_push(place(), log_uniform(1e-6, 1e-4), float(rng.uniform(0.3, 1.0)), coarse(), False)
        left = int(rng.integers(2, 6))
        yield switched_push(left / 16, 0.25, float(rng.uniform(0.3, 1.0)), gauss(16), True)
    for _ in range(4):
        yield gaussian_push(place(), log_uniform(1e-5, 3e-4), float(rng.uniform(0.3, 1.0)), coarse(), False)
        yield gaussian_push(place(), float(rng.uniform(0.05, 0.1)), float(rng.uniform(0.3, 1.0)), {"intervals": 100}, True)
    for _ in range(3):
        yield gaussian_place(place(), log_uniform(1e-6, 1e-4), float(rng.uniform(0.3, 1.0)), coarse(), False)
        yield gaussian_place(place(), float(rng.uniform(0.15, 0.3)), float(rng.uniform(0.1, 0.4)), {"intervals": 100}, True)
    for _ in range(2):
        width = log_uniform(1e-6, 1e-4)
        yield stiff_wall(place(), width, float(rng.uniform(0.3, 1.0)) / width, coarse())
    for where in ("time", "constraint", "place"):
        at = place()
        yield undefined(at, log_uniform(1e-6, 2e-4), where, coarse(), False)
        yield undefined(at, float(rng.uniform(0.2, 0.4)), where, {"intervals": 80}, True)
    for _ in range(4):
        yield dip(place(), log_uniform(1e-5, 3e-4), float(rng.uniform(0.0, 0.1)), coarse())
        yield dip(place(), float(rng.uniform(0.01, 0.1)), float(rng.uniform(1.2, 1.8)), coarse())
    for _ in range(3):
        yield fast_instant(place(), log_uniform(1e-5, 3e-4), float(rng.uniform(2.0, 5.0)), coarse())
        yield fast_instant(place(), float(rng.uniform(0.01, 0.1)), float(rng.uniform(-5.0, -1.0)), coarse())
    for target in (None, None, None, 0.0, 0.1):
        yield spike(place(), log_uniform(1e-5, 3e-4), float(rng.uniform(10.0, 50.0)), target, coarse(), False)
        yield spike(place(), float(rng.uniform(0.06, 0.12)), float(rng.uniform(1.0, 5.0)), None, {"intervals": 100}, True)
    for _ in range(4):
        law = str(rng.choice(["distance", "square"]))
        yield barrier(place(), log_uniform(3e-4, 1e-3) if law == "distance" else log_uniform(1e-5, 3e-4), coarse(), law)
        yield barrier(float(rng.choice([-0.5, 1.5])), float(rng.uniform(1e-4, 0.2)), coarse(), law)
    for law in GATES:
        yield gated_push(place(), log_uniform(1e-7, 5e-6), float(rng.uniform(0.3, 1.0)), law, coarse(), False)
        yield gated_push(place(), float(rng.uniform(0.15, 0.25)), float(rng.uniform(0.3, 1.0)), law, {"intervals": 100}, True)
    for _ in range(3):
        yield two_media(place(), float(rng.uniform(1.5, 4.0)), coarse())
        yield two_media(place(), float(rng.uniform(1.5, 4.0)), {"intervals": 100}, True)


def cases() -> list[Case]:
    """All of them, names unique."""
    seen: dict[str, int] = {}
    unique = []
    for case in (*named(), *generated()):
        count = seen[case.name] = seen.get(case.name, 0) + 1
        unique.append(case if count == 1 else replace(case, name=f"{case.name} #{count}"))
    return unique
