"""Compiling the loops ahead of their first use, a process for each part, and telling which parts are not compiled yet.

Numba keeps what it compiled beside the sources, or where NUMBA_CACHE_DIR says, or in the user's cache where neither can be written.
It writes by atomic renames, so that processes may compile at the same time.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

from ocp.app.files.load import LoadedProblem
from ocp.derivatives import choose
from ocp.interrupts import Activity, attempt, check, seconds_left
from ocp.methods import make_options, method, solve
from ocp.problem import At, Boundary, Constraint, Cost, Duration, Guess, Phase, Problem, System
from ocp.spaces import euclidean


@dataclass(frozen=True)
class Part:
    """Loops that are compiled together. make: uses them once; entry: (file, function) of what is compiled last; record: among its
    arguments, where it is compiled for several."""

    name: str
    make: Callable[[], Any]
    entry: tuple[str, str]
    record: str = ""


def regulator(bounded: bool = False) -> Problem:
    """min 1/2 int (x^2 + u^2) + 1/2 x(1)^2, x' = u, x(0) = 1; bounded: with u^2 + x <= 3/2."""
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x"), ca.SX.sym("u"), ca.SX.sym("p", 0)
    arguments = [t, x, u, p]
    system = System("regulator", euclidean(("x",)), ("u",), ca.Function("rate", arguments, [u]))
    held = (Constraint("held", At.PATH, ca.Function("c", arguments, [u**2 + x]), (-np.inf,), (1.5,)),) if bounded else ()
    phase = Phase(
        "phase", system, Duration(1.0, 1.0, 1.0), Guess(np.array([0.0, 1.0]), np.ones((2, 1)), np.zeros((2, 1))),
        start=Boundary((1.0,), (True,)), constraints=held,
        costs=(Cost("running", At.PATH, ca.Function("l", arguments, [(x**2 + u**2) / 2])),
               Cost("final", At.FINAL, ca.Function("m", arguments, [x**2 / 2]))))
    return Problem("self-test", (phase,))


def _motion_of_robots(method: str, constrained: bool = False, **options: Any) -> None:
    """A motion of a robot in loops over its model, with full Hessians."""
    solve(_robot(constrained), method, {"intervals": 2, "derivatives": "analytic", "execution": "loops", **options})


def _robot(constrained: bool = False) -> Problem:
    """A robot at rest; constrained: its joints coupled."""
    from dynamics.constraints import Coupling
    from dynamics.mechanism import Mechanism, direct_motors
    from dynamics.model.synthetic import serial_chain
    from ocp.bridge import residual_dynamics_system, robot_system

    chain, belt = serial_chain(2), Coupling("belt", (("j0", 1.0), ("j1", -1.0)))
    system = residual_dynamics_system(Mechanism(chain, direct_motors(chain), constraints=(belt,))) if constrained else \
        robot_system(chain)
    symbols = [ca.SX.sym(n, size) for n, size in zip("txup", (1, system.nx, system.nu, system.np), strict=True)]
    rest = Guess(np.array([0.0, 1.0]), np.zeros((2, system.nx)), np.zeros((2, system.nu)))
    phase = Phase("phase", system, Duration(0.1, 0.1, 0.1), rest, start=Boundary((0.0,) * system.nx, (True,) * system.nx),
                  costs=(Cost("effort", At.PATH, ca.Function("l", symbols, [ca.sumsqr(symbols[2]) + ca.sumsqr(symbols[1])])),))
    return Problem("arm", (phase,))


def _receding_horizon(problem: Problem, **options: Any) -> None:
    """Every step of a horizon."""
    from ocp.shooting.options import ILQROptions
    from ocp.shooting.receding import Receding

    horizon = Receding(problem, ILQROptions(intervals=4, kernels="interpreted", **options))
    x, period = horizon.x[0].copy(), problem.phase.duration.guess / 4
    horizon.reset(x, 0.0, 1)
    horizon.iterate(x)
    horizon.shift(period)
    horizon.control(0.1 * period, x)
    horizon.prepare(period)
    horizon.react(x)


def _inverse_kinematics() -> None:
    from dynamics.model.synthetic import serial_chain
    from ocp.control import ik_search  # noqa: F401  # where it is imported, compiled loops are what runs
    from ocp.control.ik import solve_ik
    from ocp.control.tasks import posture_task

    robot = serial_chain(2)
    solve_ik(robot, [posture_task(np.array([0.1, 0.2]))], q0=np.zeros(robot.nq))


def _whole_body() -> None:
    """A step of an arm by a hierarchy with limits."""
    from dynamics.model.synthetic import serial_chain
    from ocp.control.tasks import posture_task
    from ocp.control.whole_body import EffortTask, WholeBody

    robot, task = serial_chain(2), posture_task(np.array([0.1, 0.2]))
    WholeBody(robot, [], [task], efforts=1.0).step(np.zeros(2), np.zeros(2), [task, EffortTask()])


def _derivatives() -> None:
    """Every quantity of ``ocp derivatives`` by the loops, with the stopwatch."""
    from dynamics.derivatives.candidates import QUANTITIES, candidate
    from dynamics.model.synthetic import serial_chain
    from ocp.app.derivative_study.measure import QUICK, draw, measure

    robot = serial_chain(2)
    for name in QUANTITIES:
        measure(candidate(robot, name, "loop"), draw(robot, 1, 0), 0, QUICK)


PARTS: Mapping[str, Part] = {part.name: part for part in (
    Part("inverse kinematics", _inverse_kinematics, ("ocp/control/ik_search.py", "search")),
    Part("ilqr", lambda: solve(regulator(), "ilqr", {"intervals": 10}), ("ocp/shooting/engine/iterate.py", "perform")),
    Part("ilqr with constraints", lambda: solve(regulator(True), "ilqr", {"intervals": 10}),
         ("ocp/shooting/engine/outer.py", "perform")),
    Part("ilqr in loops over robots", lambda: _motion_of_robots("ilqr", max_iterations=3),
         ("ocp/shooting/robot/lagrangian.py", "_curve")),
    Part("receding horizons", lambda: _receding_horizon(regulator()), ("ocp/shooting/engine/pursue.py", "feedback")),
    Part("receding horizons in loops over robots",
         lambda: _receding_horizon(_robot(), derivatives="analytic", execution="loops"),
         ("ocp/shooting/engine/pursue.py", "feedback"), "Mechanics"),
    Part("collocation in loops over robots", lambda: _motion_of_robots("collocation"),
         ("dynamics/loops/batch.py", "forward_contracted_second_order")),
    Part("collocation in loops over constrained robots", lambda: _motion_of_robots("collocation", True),
         ("dynamics/loops/residual.py", "contracted")),
    Part("derivatives in loops", _derivatives, ("dynamics/loops/tensors.py", "second_order")),
    Part("whole-body control", _whole_body, ("ocp/solvers/lexicographic.py", "advance")),
    Part("interior point", lambda: solve(regulator(), "collocation", {"intervals": 4, "solver": "interior_point"}),
         ("ocp/nlp/interior_point/iterate.py", "advance")),
)}
#: seconds that a part took on one core of a two-core server, for whoever waits
USUAL = {"inverse kinematics": 7, "ilqr": 10, "ilqr with constraints": 10, "ilqr in loops over robots": 40,
         "receding horizons": 15, "receding horizons in loops over robots": 70, "collocation in loops over robots": 30,
         "collocation in loops over constrained robots": 25, "derivatives in loops": 35, "whole-body control": 30,
         "interior point": 13}


def needed(method: str, options: Any, problem: Problem) -> tuple[str, ...]:
    """The parts that a solve runs in."""
    if method != "ilqr":
        found = ("interior point",) if getattr(options, "solver", "") == "interior_point" else ()
        robots = [phase.system for phase in problem.phases if getattr(options, "execution", "generated") != "generated" and choose(
            phase.system, options.derivatives, options.execution, exact=True, fixed=not phase.duration.free)[1]]
        kinds = ("constrained robots" if system.residual is not None else "robots" for system in robots)
        return *found, *dict.fromkeys(f"collocation in loops over {kind}" for kind in kinds)
    phase = problem.phases[0]
    if choose(phase.system, options.derivatives, options.execution)[1]:
        return ("ilqr", "ilqr in loops over robots")
    hard = any(one.constraints or one.final is not None or one.state_bounds.bounded.any()
               for one in problem.phases)
    return ("ilqr", "ilqr with constraints") if hard or problem.linkages else ("ilqr",)


def waiting(loaded: LoadedProblem, method_name: str) -> str:
    """Advice for a solve that will wait for the compiler; empty where it will not."""
    if method(method_name).unsupported(loaded.problem):
        return ""
    options = make_options(method_name, loaded.options_for(method_name))
    return waiting_for(needed(method_name, options, loaded.problem))


def compile_ahead(loaded: LoadedProblem, method_name: str) -> None:
    """Compile what a solve needs, see ``compile_in_time``."""
    if seconds_left() < float("inf"):
        compile_in_time(needed(method_name, make_options(method_name, loaded.options_for(method_name)), loaded.problem))


def compile_in_time(parts: Sequence[str]) -> None:
    """Where there is a limit of time, compile these parts in processes that can be ended; left out where the time is up."""
    absent = missing(parts) if parts and seconds_left() < float("inf") else ()
    if absent:
        nothing: dict[str, str] = {}
        attempt(lambda: prepare(absent), nothing, Activity.COMPILATION, ", ".join(absent))


def waiting_for(parts: Sequence[str]) -> str:
    """The same of parts by name."""
    absent = missing(parts) if parts else ()
    return "" if not absent else (f"compiling {', '.join(absent)}, once on this machine, about {sum(USUAL[n] for n in absent)} s "
                                  "(ocp doctor --prepare compiles everything)")


def tell(text: str) -> None:
    """Say that there will be a wait, beside whatever the program prints."""
    if text:
        print(text, file=sys.stderr, flush=True)


def missing(names: Iterable[str] = PARTS) -> tuple[str, ...]:
    """Which of the parts are not compiled yet, or of older sources. Costs an import of Numba."""
    return tuple(name for name in names if not _compiled(*PARTS[name].entry, PARTS[name].record))


def _compiled(file: str, function: str, record: str) -> bool:
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    compiled = getattr(module, function)  # by itself, or linked with what it calls
    source, place = Path(str(module.__file__)), Path(getattr(compiled, "entry", compiled).stats.cache_path)
    changed = max(path.stat().st_mtime for path in source.parent.glob("*.py"))
    return any(index.stat().st_mtime > changed and record.encode() in index.read_bytes()
               for index in place.glob(f"{source.stem}.{function}-*.nbi"))


@contextmanager
def beside(name: str) -> Iterator[None]:
    """Compile a part in a process of its own while the caller does something else, where it is not compiled yet."""
    process = _compiling(name, subprocess.DEVNULL) if missing((name,)) else None
    try:
        yield
    finally:
        if process is not None:
            process.kill()
            process.wait()


def _compiling(name: str, errors: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    code = "import sys; from ocp.app.prepare import PARTS; PARTS[sys.argv[1]].make()"
    return subprocess.Popen([sys.executable, "-c", code, name], stdout=subprocess.DEVNULL, stderr=errors, stdin=subprocess.DEVNULL)


def prepare(names: Sequence[str], done: Callable[[str, float], Any] = lambda name, seconds: None) -> dict[str, str]:
    """Compile these parts, each in a process of its own, as many at once as there are processors.

    done: called with the name and the seconds of each part that is ready. Returns what went wrong, by part. Ctrl-C, and a limit of
    time, end them all: Stopped.
    """
    waiting, wrong = list(names), dict[str, str]()
    running: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < (os.cpu_count() or 1):
                name = waiting.pop(0)
                running[name] = _compiling(name), time.perf_counter()
            time.sleep(0.05)
            check(Activity.COMPILATION)
            for name, (process, begin) in list(running.items()):
                if process.poll() is None:
                    continue
                said = (process.communicate()[1] or b"").decode(errors="replace").strip().splitlines()
                if process.returncode:
                    wrong[name] = said[-1] if said else f"ended with code {process.returncode}"
                done(name, time.perf_counter() - begin)
                del running[name]
    finally:
        for process, _ in running.values():
            process.kill()
            process.communicate()
    return wrong
