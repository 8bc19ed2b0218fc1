"""Fifty closed loops whose ends are known before they run, and what is said of them: fallen, leaning, sliding, violating, fine.

    pip install lieocp && python tests/benchmarks/loop_verdicts.py [--fresh]

Receding horizons: q'' = 9 q + u from rest at q0 is lost for any controller with |u| <= u_max < 9 |q0|, and kept by one with room
above; a mass pushed by more than its drive for a while passes a wall that lies before the best that it can do. Whole-body control:
a quadruped whose ground lies at any height stands, is pressed down by a force above what its legs carry, is pushed over by one that
makes a larger moment about its feet than its weight, or is pushed along on ice that its controller knows nothing of. Numbers of
every case come from one seed. Writes results/benchmarks/loop_verdicts.csv and .md after each; rows that
are there already are kept (--fresh forgets them).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from result_tables import FOLDER, read_table, write_page, write_table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from ocp.app.files.control.wbc import load_wbc_text  # noqa: E402
from ocp.app.files.load import load_text  # noqa: E402  # the repository's own packages need the path above
from ocp.app.mpc.run import run_loaded as run_mpc  # noqa: E402
from ocp.app.wbc.run import run_loaded as run_wbc  # noqa: E402
from ocp.problem import Finding, Kind  # noqa: E402

SEED = 20
HEAD = ("loop", "command", "known end", "said", "exit code", "findings", "right")
#: what a finding says of a loop; the first of a run that falls decides
ENDS = {
    Kind.TRACKING_LOST: "fallen", Kind.BODY_ON_GROUND: "fallen", Kind.BASE_SANK: "fallen", Kind.BASE_TILTED: "fallen",
    Kind.TIPPING: "leaning", Kind.LEANING: "leaning", Kind.CONTACT_SLID: "sliding", Kind.CONSTRAINT_BROKEN: "violating",
    Kind.JOINT_SPEED: "violating", Kind.JOINT_RANGE: "violating"}
PENDULUM = """
name: inverted pendulum
system: {{states: {{q: rad, w: rad/s}}, controls: {{u: rad/s^2}}, dynamics: {{q: w, w: 9*q + u}}}}
phase:
  duration: 1
  start: {{q: {q0}, w: 0}}
  bounds: {{u: [-{u_max}, {u_max}]}}
  costs: [{{name: upright, running: 50*q**2 + w**2 + 0.05*u**2}}]
mpc: {{rate: 20, duration: 3, track: [{{name: pole, quantity: q, unit: rad}}]}}
solve: {{method: ilqr, ilqr: {{intervals: 20}}}}
"""
WALL = """
name: wall
system: {{states: {{x: m, v: m/s}}, controls: {{u: N}}, dynamics: {{x: v, v: u}}}}
phase:
  duration: 1
  start: {{x: 0, v: 0}}
  bounds: {{u: [-1, 1]}}
  constraints: [{{name: wall, expression: x, upper: {wall}}}]
  costs: [{{name: rest, running: x**2 + 0.2*v**2 + 0.01*u**2}}]
mpc:
  rate: 20
  duration: 8
  track: [{{name: place, quantity: x, unit: m}}]
  disturbances: {{pushes: [{{time: 0, duration: {T}, controls: {{u: {push}}}}}]}}
solve: {{method: ilqr, ilqr: {{intervals: 20}}}}
"""
QUADRUPED = (ROOT / "problems" / "wbc" / "quadruped_push.yaml").read_text(encoding="utf-8").split("schedule:")[0]


@dataclass(frozen=True)
class Case:
    """kind: "mpc" or "wbc"; end: what is known; text: the file."""

    name: str
    kind: str
    end: str
    text: str


def cases() -> Iterator[Case]:
    """All fifty."""
    rng = np.random.default_rng(SEED)
    for k in range(10):
        q0 = rng.uniform(0.05, 0.2) * rng.choice((-1, 1))
        for end, low, high in (("fallen", 0.4, 0.9), ("fine", 1.5, 4.0)):
            yield Case(f"pendulum {end} {k + 1}", "mpc", end, PENDULUM.format(q0=q0, u_max=9 * abs(q0) * rng.uniform(low, high)))
    for k in range(5):
        push, T = rng.uniform(2.0, 4.0), rng.uniform(0.5, 1.0)
        v, best = (push - 1) * T, (push - 1) * T**2 / 2 + ((push - 1) * T) ** 2 / 2  # drives fully against it, then alone
        yield Case(f"wall violating {k + 1}", "mpc", "violating", WALL.format(push=push, T=T, wall=best * rng.uniform(0.3, 0.9)))
        yield Case(f"wall fine {k + 1}", "mpc", "fine", WALL.format(push=push, T=T, wall=3 * (best + v) + 3))
    for k in range(5):
        yield _standing(f"stands {k + 1}", "fine", rng.uniform(-2, 2), (0, rng.uniform(-15, 15), rng.uniform(-30, 10)))
        yield _standing(f"pressed down {k + 1}", "fallen", rng.uniform(-2, 2), (0, 0, -rng.uniform(900, 1400)))
        side = (0, rng.choice((-1, 1)) * rng.uniform(90, 105), 0)
        yield _standing(f"pushed over {k + 1}", "leaning", rng.uniform(-2, 2), side, 1.0)
        yield _standing(f"on ice {k + 1}", "sliding", rng.uniform(-2, 2), (rng.uniform(6, 10), 0, 0), 0.01)


def _standing(name: str, end: str, height: float, force: tuple[float, float, float], friction: float = 0.6) -> Case:
    feet = ", ".join(f"{leg}: {friction}" for leg in ("lf", "rf", "lh", "rh"))
    known = max(friction, 0.6)  # by the controller
    text = QUADRUPED.replace("0.36]", f"{0.36 + height}]").replace("friction: 0.6", f"friction: {known}, height: {height}")
    text += (f"schedule:\n  - {{time: 0.02, over: 1, push: {{frame: trunk, force: [{force[0]}, {force[1]}, {force[2]}]}}}}\n"
             f"plant: {{friction: {{{feet}}}}}\nwbc: {{rate: 250, duration: 0.4}}\n")
    return Case(name, "wbc", end, text)


def judged(case: Case) -> tuple[str, bool, tuple[Finding, ...]]:
    """(what is said of it, whether it is good, why)."""
    if case.kind == "mpc":
        loop = run_mpc(load_text(case.text, ROOT)).loop
        found, good = loop.findings, loop.ok
    else:
        outcome = run_wbc(load_wbc_text(case.text, ROOT / "problems" / "wbc"))
        found, good = outcome.run.findings, outcome.ok
    return next((ENDS[one.kind] for one in found), "fine" if good else "not solved"), good, found


def agrees(case: Case, said: str, good: bool, found: tuple[Finding, ...]) -> bool:
    """Whether the known end is among those told, and the exit code is that of fine loops alone; who leans may lie already."""
    ends = {ENDS[one.kind] for one in found} or {said}
    known = {"leaning", "fallen"} if case.end == "leaning" else {case.end}
    return good is (case.end == "fine") and bool(ends & known)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fresh", action="store_true")
    table = FOLDER / "loop_verdicts.csv"
    rows = {} if parser.parse_args().fresh else {row["loop"]: row for row in read_table(table)}
    for case in cases():
        if case.name in rows:
            continue
        said, good, found = judged(case)
        rows[case.name] = dict(zip(HEAD, (
            case.name, case.kind, case.end, said, "0" if good else "1", ", ".join(dict.fromkeys(str(one.kind) for one in found)),
            "yes" if agrees(case, said, good, found) else "NO"), strict=True))
        print(*rows[case.name].values(), sep=" | ", flush=True)
        made = [rows[one.name] for one in cases() if one.name in rows]
        write_table(table, made)
        right = sum(row["right"] == "yes" for row in made)
        write_page(FOLDER / "loop_verdicts.md", [
            "# Verdicts of closed loops", "", f"{right} of {len(made)} loops whose ends are known are judged right. Made by "
            "`tests/benchmarks/loop_verdicts.py`, which says how the ends are known.", "",
            f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|", *(f"| {' | '.join(row.values())} |" for row in made)])


if __name__ == "__main__":
    main()
