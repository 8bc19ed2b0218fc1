"""Solves with other numbers by a program that stands ready, beside CasADi's Opti with parameters and rockit.

    pip install lieocp rockit-meco
    python tests/benchmarks/resolves.py [name ...]       # all of them: some ten minutes; rows that are not named stay

The same program on both sides: Hermite-Simpson in separated form on 50 intervals against Opti, RK4 multiple shooting on 50 against
rockit; the same functions of the problem, tolerance 1e-9, and no set-up in the times. Cases differ in their start states. *Cold*:
every case from the guess of the problem, on both sides the same; *warm*: from the solution of the problem as its file has it, ours
with its multipliers, Opti with its own (``lam_g``) and with IPOPT's options for a warm start. Opti is called as users do
(``opti.solve``) and as a function (``opti.to_function``); the faster one counts. Processor milliseconds, medians over the cases of
three rounds in which the tools take turns, one process; cases count where optima agree.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import direct_peers as peers  # noqa: E402  # the repository's own packages need the path above
from direct_against_peers import PROBLEMS as DIRECT  # noqa: E402
from result_tables import FOLDER, read_table, write_page, write_table  # noqa: E402

from ocp.app.files.load import load_problem, load_text  # noqa: E402
from ocp.batch.compiled import WARM_BARRIER, Compiled, compiled  # noqa: E402
from ocp.problem import Phase, Problem, with_parameters  # noqa: E402
from ocp.problem.numbers import with_guess  # noqa: E402

N, CASES, ROUNDS, SAME = 50, 7, 3, 1e-6
#: how far cases are from the start of the file, relative to the range of the state over the guess
AWAY = 0.02
#: intervals of the robots
ROBOTS = {"panda_reach": 20, "z1_payload": 20, "quadruped_squat": 20}
#: cases and rounds of what takes Opti long; its graph is not expanded to scalars there, which would take hours
SHORT = {"quadruped_squat": (3, 1)}
OURS = {"Hermite-Simpson": ("collocation", {"scheme": "hermite_simpson"}),
        "RK4 shooting": ("multiple_shooting", {"integrator": "rk4", "steps": 1})}
Solve = Callable[[Problem], float]

#: the Z1 of Unitree carries a point mass at its gripper from one posture to another
Z1 = """
name: Z1 with a payload
parameters: {payload: 1.0}
system:
  robot: robots:z1
  design: [{parameter: payload, inertia: {body: link06, component: mass}}]
phase:
  duration: 1.0
  start: {joints: {joint1: 0, joint2: 1.0, joint3: -1.0, joint4: 0, joint5: 0, joint6: 0, jointGripper: 0}, rest: true}
  final: {joints: {joint1: 1.0, joint2: 1.6, joint3: -1.6, joint4: 0.3, joint5: 0.2, joint6: 0.5, jointGripper: 0}, rest: true}
  costs: [{name: effort, control_error: 0}]
"""


#: a quadruped stands on four feet and lowers its trunk; three sliding and three turning joints carry it, so that states are numbers
#: for every tool
SQUAT = """
name: Quadruped squats
parameters: {depth: 0.28}
system:
  robot: ROBOT
  formulation: inverse_dynamics
  actuated: [LEGS]
  constraints: [CONTACTS]
phase:
  duration: 0.6
  start: {joints: {base_x: 0, base_y: 0, base_yaw: 0, base_pitch: 0, base_roll: 0, POSTURE}, rest: true, others: assembled}
  costs:
    - {name: effort, running: "1e-3*dot(tau, tau)"}
    - {name: calm, running: "1e-2*dot(v, v)"}
    - {name: depth, final: '100*(q["base_z"] - depth)**2'}
    - {name: level, at: final, weights: 100,
       state_error: {joints: {base_roll: 0, base_pitch: 0, base_x: 0, base_y: 0, base_yaw: 0}, rest: true}}
"""
BASE = {"x": ("prismatic", "1 0 0"), "y": ("prismatic", "0 1 0"), "z": ("prismatic", "0 0 1"), "yaw": ("revolute", "0 0 1"),
        "pitch": ("revolute", "0 1 0"), "roll": ("revolute", "1 0 0")}
LEG = {"abduction": 0.0, "thigh": 0.6, "knee": -1.2}
#: of parameters, over the cases
RANGES = {"payload": (0.5, 1.5), "depth": (0.24, 0.31)}


def squat(folder: Path) -> Problem:
    """The quadruped of the gallery on six joints; its file is written into a folder."""
    chain, last = ['<link name="world"/>'], "world"
    for name, (kind, axis) in BASE.items():
        child = "trunk" if name == "roll" else f"base_{name}"
        chain += [f'<link name="{child}"/>'] if name != "roll" else []
        chain.append(f'<joint name="base_{name}" type="{kind}"><parent link="{last}"/><child link="{child}"/><axis xyz="{axis}"/>'
                     '<limit lower="-3" upper="3" velocity="20" effort="0"/></joint>')
        last = child
    robot = (ROOT / "problems" / "models" / "quadruped.urdf").read_text(encoding="utf-8")
    (folder / "quadruped.urdf").write_text(robot.replace('<link name="trunk">', "".join(chain) + '<link name="trunk">', 1))
    feet = ("lf", "rf", "lh", "rh")
    posture = {f"{foot}_{joint}": value for foot in feet for joint, value in LEG.items()}
    words = {"ROBOT": str(folder / "quadruped.urdf"), "LEGS": ", ".join(posture),
             "POSTURE": ", ".join(f"{name}: {value}" for name, value in posture.items()),
             "CONTACTS": ", ".join(f"{{name: {foot}, contact: {{frame: {foot}_foot, friction: 0.6}}}}" for foot in feet)}
    text = SQUAT
    for word, value in words.items():
        text = text.replace(word, value)
    return load_text(text).problem


def problem_of(name: str) -> Problem:
    if name == "quadruped_squat":
        with tempfile.TemporaryDirectory() as folder:
            return squat(Path(folder))
    return load_text(Z1).problem if name == "z1_payload" else load_problem(ROOT / "problems" / f"{name}.yaml").problem


def cases_of(problem: Problem) -> list[Problem]:
    """The problem from other starts, unless it stands on the ground, and with other values of its parameters; inside its bounds."""
    phase, rng = problem.phase, np.random.default_rng(0)
    found = []
    for _ in range(CASES):
        case = problem
        if phase.start is not None and phase.system.inverse is None:
            width = np.ptp(phase.guess.x, axis=0)
            moved = np.array(phase.start.value) + AWAY * np.where(width > 0, width, 1.0) * rng.uniform(-1, 1, len(width))
            case = replace(problem, phases=(replace(phase, start=replace(
                phase.start, value=tuple(phase.state_bounds.clip(moved).tolist()))),))
        named = [name for name in phase.system.parameters if name in RANGES]
        case = with_parameters(case, {name: float(rng.uniform(*RANGES[name])) for name in named})
        found.append(case)
    return found


# ---- ours -------------------------------------------------------------------------------------------------------------
def ours(problem: Problem, program: str, intervals: int) -> Compiled:
    method, options = OURS[program]
    return compiled(problem, method, {**options, "intervals": intervals, "refine": "none"} if method == "collocation" else {
        **options, "intervals": intervals}, parameters=tuple(p for p in problem.phase.system.parameters if p in RANGES))


# ---- theirs -----------------------------------------------------------------------------------------------------------
class Parametric:
    """Opti's Hermite-Simpson program with start state and parameters of the system as parameters of the program."""

    def __init__(self, problem: Problem, intervals: int, warm: bool, expand: bool = True):
        self.opti = ca.Opti()
        phase, system = problem.phase, problem.phase.system
        self.start = self.opti.parameter(system.nx) if phase.start is not None else None
        self.p = self.opti.parameter(system.np) if system.np else None
        opti, M = self.opti, 2 * intervals + 1
        T = peers._duration(opti, phase)
        X, U = opti.variable(system.nx, M), opti.variable(system.nu, M)
        s = np.linspace(0.0, 1.0, M)
        x0, u0 = peers.sample_guess(phase.guess, system.space, s)
        x0[-1] = np.where(phase.final.fixed, phase.final.value, x0[-1]) if phase.final is not None else x0[-1]
        opti.set_initial(X, x0.T)
        opti.set_initial(U, u0.T)
        p = self.p if self.p is not None else ca.DM(0, 1)
        f = rates(phase)
        values, h = [f(T * s[i], X[:, i], U[:, i], p) for i in range(M)], T / intervals
        cost = ends_cost(phase, T, X, p)
        for a in range(0, M - 1, 2):
            (f_a, l_a), (f_m, l_m), (f_b, l_b) = values[a:a + 3]
            opti.subject_to(X[:, a + 1] == (X[:, a] + X[:, a + 2]) / 2 + h / 8 * (f_a - f_b))
            opti.subject_to(X[:, a + 2] == X[:, a] + h / 6 * (f_a + 4 * f_m + f_b))
            cost += h / 6 * (l_a + 4 * l_m + l_b)
        bare = replace(phase, start=None)
        peers._opti_limits(opti, bare, T, X, U, s, p)
        if phase.start is not None:
            for i, fixed in enumerate(phase.start.fixed):
                if fixed:
                    opti.subject_to(X[i, 0] == self.start[i])
        peers._opti_linkages(opti, replace(problem, phases=(bare,)), T, X)
        opti.minimize(cost)
        quiet = {"expand": expand, "print_time": False, "detect_simple_bounds": True}
        pushes = ("bound_push", "bound_frac", "slack_bound_push", "slack_bound_frac", "mult_bound_push")
        near = {"warm_start_init_point": "yes", "mu_init": WARM_BARRIER} | {f"warm_start_{kind}": 1e-9 for kind in pushes}
        opti.solver("ipopt", quiet, {**peers.QUIET["ipopt"], **(near if warm else {})})
        self.first = opti.debug.value(opti.x, opti.initial())
        self.set(problem)
        given = [q for q in (self.start, self.p) if q is not None]
        self.function = opti.to_function("again", [*given, opti.x, opti.lam_g], [opti.f, opti.x, opti.lam_g])
        self.point: tuple[Any, Any] = (self.first, np.zeros(opti.ng))

    def set(self, problem: Problem) -> list[Any]:
        values = []
        if self.start is not None:
            values.append(problem.phase.start.value)
            self.opti.set_value(self.start, values[-1])
        if self.p is not None:
            values.append(problem.phase.system.parameter_values)
            self.opti.set_value(self.p, values[-1])
        return values

    def keep(self, problem: Problem) -> None:
        """The point that warm solves start from."""
        self.set(problem)
        self.opti.set_initial(self.opti.x, self.first)
        found = self.opti.solve()
        self.point = found.value(self.opti.x), found.value(self.opti.lam_g)

    def solve(self, problem: Problem, warm: bool) -> float:
        self.set(problem)
        x, lam = self.point if warm else (self.first, 0 * self.point[1])
        self.opti.set_initial(self.opti.x, x)
        self.opti.set_initial(self.opti.lam_g, lam)
        return float(self.opti.solve().value(self.opti.f))

    def call(self, problem: Problem, warm: bool) -> float:
        x, lam = self.point if warm else (self.first, 0 * self.point[1])
        return float(self.function(*self.set(problem), x, lam)[0])


def rates(phase: Phase) -> ca.Function:
    """(t, x, u, p) -> rate and running cost."""
    system = phase.system
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x", system.nx), ca.SX.sym("u", system.nu), ca.SX.sym("p", system.np)
    cost = sum((c.expression(t, x, u, p) for c in phase.costs if c.at is peers.At.PATH), start=ca.SX(0))
    return ca.Function("f", [t, x, u, p], [system.rate(t, x, u, p), cost])


def ends_cost(phase: Phase, T: Any, X: Any, p: Any) -> Any:
    return sum((c.expression(T, X[:, -1], ca.DM.zeros(phase.system.nu), p) for c in phase.costs if c.at is peers.At.FINAL),
               start=ca.MX(0))


def rockit_of(problem: Problem, intervals: int) -> Solve:
    """rockit's MultipleShooting with the start state as a parameter."""
    return peers.rockit_shooting(problem, intervals, parametric=True)


# ---- measuring --------------------------------------------------------------------------------------------------------
def clocked(call: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    found = call()
    return found, 1e3 * (time.process_time() - began)


def compare(name: str, program: str, warm: bool, mine: Compiled, theirs: dict[str, Callable[[Problem], float]],
            cases: list[Problem], rounds: int = ROUNDS) -> dict[str, Any]:
    """All cases by one tool after another, as a study solves them, in several rounds; the first round does not count."""
    guess = mine.problem if warm else None

    def own(case: Problem) -> float:
        found = mine.solve(case if guess is None else case, guess=not warm, certified=False)
        return found.objective if found.point is not None else float("nan")

    tools: dict[str, Callable[[Problem], float]] = {"ours": own, **theirs}
    times: dict[str, list[list[float]]] = {tool: [] for tool in tools}
    answers: dict[str, list[float]] = {tool: [] for tool in tools}
    for turn in range(rounds + 1):
        for tool, solve in tools.items():
            own_round = []
            for case in cases if turn else cases[:1]:
                try:
                    own_round.append(clocked(lambda solve=solve, case=case: solve(case)))
                except RuntimeError:  # Opti's word for no solution
                    own_round.append((float("nan"), float("nan")))
            if turn:
                times[tool].append([spent for _, spent in own_round])
                answers[tool] = [value for value, _ in own_round]
    row: dict[str, Any] = {"problem": name, "program": program, "start": "warm" if warm else "cold"}
    agree = np.ones(len(cases), dtype=bool)
    for tool in theirs:
        a, b = np.array(answers["ours"]), np.array(answers[tool])
        agree &= ~(np.abs(a - b) > SAME * np.maximum(1e-3, np.abs(b)))
    solved = agree & np.all([np.isfinite(answers[tool]) for tool in tools], axis=0)
    median = {tool: float(np.median(np.array(own)[:, solved])) if solved.any() else float("nan") for tool, own in times.items()}
    best = min((value for tool, value in median.items() if tool != "ours"), default=float("nan"))
    return row | {f"{tool} [ms]": value for tool, value in median.items()} | {
        "ratio": median["ours"] / best, "agree": f"{int(solved.sum())}/{len(cases)}"}


def rows_of(name: str, shooting: bool) -> list[dict[str, Any]]:
    """shooting: whether beside rockit, too."""
    problem = problem_of(name)
    intervals = ROBOTS.get(name, N)
    count, rounds = SHORT.get(name, (CASES, ROUNDS))
    cases = [with_guess(case, problem) for case in cases_of(problem)[:count]]
    found = []
    mine = ours(problem, "Hermite-Simpson", intervals)
    for warm in (False, True):
        opti = Parametric(problem, intervals, warm, name not in SHORT)
        opti.keep(problem)
        theirs = {"Opti": partial(opti.solve, warm=warm), "function": partial(opti.call, warm=warm)}
        found.append(compare(name, "Hermite-Simpson", warm, mine, theirs, cases, rounds))
    if shooting and name not in ROBOTS and not problem.linkages and problem.phase.start is not None:
        try:
            again = rockit_of(problem, intervals)
            found.append(compare(name, "RK4 shooting", False, ours(problem, "RK4 shooting", intervals), {"rockit": again}, cases))
        except Exception as error:  # a peer's failure is a result
            print(f"{name}: rockit: {type(error).__name__}: {str(error)[:120]}", flush=True)
    return found


COLUMNS = ("problem", "program", "start", "ours [ms]", "Opti [ms]", "function [ms]", "rockit [ms]", "ratio", "agree")


def page(rows: list[dict[str, Any]]) -> list[str]:
    def cell(value: Any) -> str:
        return "-" if value in ("", None) else f"{float(value):.3g}" if isinstance(value, float) else str(value)

    lines = ["# Solves with other numbers beside other tools", "", *(__doc__ or "").split("\n\n", 2)[2].splitlines(), "",
             f"Made by `tests/benchmarks/resolves.py`; {os.cpu_count()} processors, casadi {ca.__version__}. Ratio: ours over the "
             "best of the others. The robots have 20 intervals. Of the squat there are three cases in one round, and Opti calls "
             "its functions there: expanded to scalars, its program is not ready in half an hour.", ""]
    for start in ("cold", "warm"):
        own = [float(row["ratio"]) for row in rows if row["start"] == start and np.isfinite(float(row["ratio"]))]
        if own:
            lines += [f"{start.capitalize()}: ratio at most {max(own):.2f}, median {statistics.median(own):.2f}; at most 0.3 in "
                      f"{sum(r <= 0.3 for r in own)} of {len(own)}.", ""]
    lines += [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|",
              *(f"| {' | '.join(cell(row.get(column)) for column in COLUMNS)} |" for row in rows), ""]
    lines += [
        "acados has no wheel and is not in the table. Its published figures are of other machines and of other work: a real-time",
        "iteration is one quadratic program from a shifted point (73 us for a cart-pole on 20 intervals, 176 us for a quadrotor",
        "of 12 states), no solve to a tolerance; only its SQP to convergence from a cold start (0.97 and 18.4 ms) is like *cold*."]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=[*DIRECT, *ROBOTS])
    parser.add_argument("--without-rockit", action="store_true", help="its rows stay as they are")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    path = FOLDER / "resolves.csv"
    words = ("problem", "program", "start", "agree")
    kept: list[dict[str, Any]] = [
        {key: value if key in words or value == "" else float(value) for key, value in row.items()}
        for row in read_table(path) if row["problem"] not in given.names or given.without_rockit and "RK4" in row["program"]]
    order = [*DIRECT, *ROBOTS]
    for name in given.names:
        new = rows_of(name, not given.without_rockit)
        for row in new:
            print({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
        kept = sorted(kept + new, key=lambda row: (order.index(row["problem"]), row["program"], row["start"]))
        write_table(path, [{column: row.get(column, "") for column in COLUMNS} for row in kept], COLUMNS, "4g")
        write_page(path.with_suffix(".md"), page(kept))


if __name__ == "__main__":
    main()
