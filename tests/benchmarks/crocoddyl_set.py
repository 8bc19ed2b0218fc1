"""Crocoddyl's own problems, solved by Crocoddyl's FDDP and by our iLQR in one process, on one thread, from the same guesses.

    pip install crocoddyl==3.2.1 pin==4.0.0 libpinocchio==4.0.0 example-robot-data-loaders && pip install lieocp
    taskset -c 0 python tests/benchmarks/crocoddyl_set.py [problem ...]      # all of them: about a minute, with kernels compiled
    python tests/benchmarks/crocoddyl_set.py --agreement                     # what the tests compare our definitions with

Crocoddyl stops when the decrease that it expects falls below 1e-9; ours asks for that relative to max(1, cost), and for a
projected gradient below the same number, so "to 1e-9" counts the iterations and the milliseconds until the cost is within
1e-9 max(1, cost) of the cost where that solver ends when it runs on. Its wheel is built for SSE2, as anyone installs it. Times are
medians over repeats that take turns, of processor time, all that ``ilqr.run`` does included. Writes
results/benchmarks/crocoddyl_set.csv and .md.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from result_tables import FOLDER, write_table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import crocoddyl  # noqa: E402  # the repository's own packages need the path above
import crocoddyl_gaits as gaits  # noqa: E402
import crocoddyl_problems as ours  # noqa: E402
import example_robot_data  # noqa: E402
import pinocchio as pin  # noqa: E402
from crocoddyl.utils.quadruped import SimpleQuadrupedalGaitProblem  # noqa: E402

from dynamics.model.robots import find_robot  # noqa: E402
from dynamics.notation.adapters import to_pinocchio  # noqa: E402
from ocp.app.pipeline import processor  # noqa: E402
from ocp.methods import make_options  # noqa: E402
from ocp.problem import Guess  # noqa: E402
from ocp.shooting import ilqr  # noqa: E402

STOP, POLISHED, REPEATS, SAME = 1e-9, 1e-14, 9, 1e-6
# FDDP: the guess keeps its gaps, and a step is taken for a tenth of the decrease that the model promises, as theirs does
METHOD = {"shooting": "feasible", "armijo": 0.1, "tolerance": STOP, "kernels": "tuned"}
EYE = np.eye(3)


# ---- their problems, with their classes ------------------------------------------------------------------------------
def urdf(name: str, *root: Any) -> pin.Model:
    return pin.buildModelFromUrdf(str(find_robot(name)), *root)


def panda() -> pin.Model:
    whole = urdf("panda")
    return pin.buildReducedModel(whole, [whole.getJointId(f"panda_finger_joint{i}") for i in (1, 2)], pin.neutral(whole))


def residual(state: Any, kind: str, *arguments: Any) -> Any:
    return getattr(crocoddyl, f"ResidualModel{kind}")(state, *arguments)


def shooting(state: Any, actuation: Any, x0: np.ndarray, knots: int, dt: float, running: list, final: list,
             dynamics: str = "Fwd") -> Any:
    """Residuals with weights (a number, or weight and activation weights) -> a shooting problem, symplectic Euler."""
    def action(costs: list, length: float) -> Any:
        total = crocoddyl.CostModelSum(state, costs[0][0].nu)
        for i, (made, weight, *shape) in enumerate(costs):
            activation = crocoddyl.ActivationModelWeightedQuad(shape[0]) if shape else crocoddyl.ActivationModelQuad(made.nr)
            total.addCost(f"cost{i}", crocoddyl.CostModelResidual(state, activation, made), weight)
        model = getattr(crocoddyl, f"DifferentialActionModelFree{dynamics}Dynamics")(state, actuation, total)
        return crocoddyl.IntegratedActionModelEuler(model, length)

    return crocoddyl.ShootingProblem(x0, [action(running, dt)] * knots, action(final, 0.0))


def reach(model: pin.Model, q: np.ndarray, frame: str, target: tuple[float, ...], dynamics: str = "Fwd") -> Any:
    state = crocoddyl.StateMultibody(model)
    actuation, nu, x0 = crocoddyl.ActuationModelFull(state), model.nv, np.r_[q, np.zeros(model.nv)]
    pose = residual(state, "FramePlacement", model.getFrameId(frame), pin.SE3(EYE, np.array(target)), nu)
    effort = residual(state, "Control", nu) if dynamics == "Fwd" else residual(state, "JointEffort", actuation, nu)
    return shooting(state, actuation, x0, 100, 1e-2, [(pose, 1.0), (residual(state, "State", x0, nu), 0.1), (effort, 0.1)],
                    [(pose, 1e3)], dynamics)


def quadrotor() -> Any:
    model = urdf("quadrotor_base", pin.JointModelFreeFlyer())
    state, arm, drag = crocoddyl.StateMultibody(model), 0.1525, 1e-6 / 6.6e-5
    turns = (crocoddyl.ThrusterType.CCW, crocoddyl.ThrusterType.CW)
    actuation = crocoddyl.ActuationModelFloatingBaseThrusters(state, [
        crocoddyl.Thruster(pin.SE3(EYE, np.array(place)), drag, turns[i % 2])
        for i, place in enumerate(((arm, 0, 0), (0, arm, 0), (-arm, 0, 0), (0, -arm, 0)))])
    pose = residual(state, "FramePlacement", model.getFrameId("base_link"), pin.SE3(EYE, np.array((1.0, 0.0, 1.0))), 4)
    away = residual(state, "State", state.zero(), 4)
    return shooting(state, actuation, state.zero(), 33, 0.03,
                    [(pose, 0.01), (away, 1e-6, np.array([0.1] * 3 + [1000.0] * 9)), (residual(state, "Control", 4), 1e-6)],
                    [(pose, 3.0)])


def double_pendulum() -> Any:
    state = crocoddyl.StateMultibody(urdf("double_pendulum"))
    away, shape = residual(state, "State", state.zero(), 2), np.array((1.0, 1.0, 0.1, 0.1))
    return shooting(state, crocoddyl.ActuationModelFull(state), np.array((3.14, 0.0, 0.0, 0.0)), 100, 1e-2,
                    [(away, 1e-3, shape), (residual(state, "Control", 2), 0.01)], [(away, 100.0, shape)])


def gait_of(name: str) -> str:
    """The gait of Crocoddyl that a problem is, with its barriers or, in ours, with hard cones in their place."""
    return name.removesuffix("_cones")


def quadruped(name: str) -> Any:
    """A gait of Crocoddyl's examples: contacts of three rows, impulses, barriers for friction and limits."""
    model = example_robot_data.load("anymal").model
    method, *numbers = gaits.GAITS[gait_of(name)].call
    feet = SimpleQuadrupedalGaitProblem(model, "LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")
    return getattr(feet, method)(np.r_[model.referenceConfigurations["standing"], np.zeros(model.nv)], *numbers)


def repeated(model: Any, x0: np.ndarray, knots: int) -> Any:
    return crocoddyl.ShootingProblem(x0, [model] * knots, model)


KINOVA = np.array([np.cos(1.5707), np.sin(1.5707), 2.618, -1.5707, np.cos(3.1415), np.sin(3.1415), 2.618, 1.0, 0.0])
THEIRS: dict[str, Callable[[], Any]] = {
    "kinova": lambda: reach(urdf("kinova"), KINOVA, "j2s6s200_end_effector", (0.6, 0.2, 0.5)),
    "kinova_inv": lambda: reach(urdf("kinova"), KINOVA, "j2s6s200_end_effector", (0.6, 0.2, 0.5), "Inv"),
    "panda": lambda: reach(panda(), np.array((0, -0.785, 0, -2.356, 0, 1.571, 0.785)), "panda_hand", (0.4, 0.3, 0.5)),
    # the loader reads the rotor inertias of the SRDF file, which the URDF reader does not see
    "talos_arm": lambda: reach(example_robot_data.load("talos_arm").model, np.array((0.173046, 1, -0.52366, 0, 0, 0.1, -0.005)),
                               "gripper_left_joint", (0.0, 0.0, 0.4)),
    "quadrotor": quadrotor,
    "double_pendulum_cpp": double_pendulum,
    "unicycle": lambda: repeated(crocoddyl.ActionModelUnicycle(), np.array((1.0, 0.0, 0.0)), 200),
    "lqr80x40": lambda: repeated(crocoddyl.ActionModelLQR(80, 40, True), np.zeros(80), 100),
    **{name: functools.partial(quadruped, name) for name in (*gaits.GAITS, "anymal_trot_cones")},
}
NAMES = tuple(THEIRS)


def case_of(name: str, guess: str = "zero") -> ours.Case:
    """A problem of the set; gaits from their quasi-static guess."""
    if gait_of(name) not in gaits.GAITS:
        return ours.case(name, guess)
    known, hard = gaits.GAITS[gait_of(name)], {"constraint_tolerance": 1e-8} if name != gait_of(name) else {}
    return ours.Case(gaits.gait(name), 1, hard, known.cost, known.iterations, "hold", (known.cost,))


def state_of_theirs(case: ours.Case, x: np.ndarray) -> np.ndarray:
    """Our state in their coordinates."""
    model = case.problem.phases[0].system.model
    if model is None:
        return x
    converted = to_pinocchio(model, q=x[:model.nq], v=x[model.nq:])
    return np.r_[converted.q, converted.v]


def control_of_theirs(case: ours.Case, u: np.ndarray) -> np.ndarray:
    """Our controls in the order of theirs."""
    system = case.problem.phases[0].system
    return u if len(case.problem.phases) == 1 else np.array(to_pinocchio(system.model, tau=np.r_[np.zeros(6), u]).tau)[6:]


def of_gait(name: str) -> tuple[float, float, float, float]:
    """``agreement`` of a gait."""
    case, problem = case_of(name), THEIRS[name]()
    x, u = gaits.probe(case.problem)
    xs, us = [state_of_theirs(case, row) for row in x], [control_of_theirs(case, row) for row in u]
    models, datas = list(problem.runningModels), list(problem.runningDatas)
    inputs = [row[:model.nu] for model, row in zip(models, [*us, us[-1]], strict=True)]
    for model, data, *given in zip(models, datas, xs, inputs, strict=True):
        model.calc(data, *given)
    state, end = models[0].state, problem.terminalData
    problem.terminalModel.calc(end, datas[-1].xnext)
    moved = sum(float(np.sum(state.diff(a, data.xnext)**2)) for a, data in zip(xs[1:], datas[:-1], strict=True))
    cost, own = gaits.agreement(case.problem, x, u)
    return sum(data.cost for data in [*datas, end]), cost, moved, own


# ---- agreement of the definitions ------------------------------------------------------------------------------------
def agreement(name: str) -> tuple[float, float, float, float]:
    """Cost of ``probe`` by Crocoddyl and by us, and the sum of squares of where its steps lead, seen from their states, by both."""
    if name in gaits.GAITS:
        return of_gait(name)
    case, problem = ours.case(name), THEIRS[name]()
    x, u = ours.probe(case)
    cost, after = ours.total_cost(case, x, u)
    xs = [state_of_theirs(case, row) for row in x]
    theirs = problem.calc(xs, list(u))
    state = problem.runningModels[0].state
    moved = sum(float(np.sum(state.diff(a, data.xnext)**2)) for a, data in zip(xs, problem.runningDatas, strict=False))
    return theirs, cost, moved, ours.moves(case, x, after)


# ---- solving ---------------------------------------------------------------------------------------------------------
def guess_for_theirs(case: ours.Case, guess: str, problem: Any) -> tuple[list, list]:
    if len(case.problem.phases) > 1:
        return [problem.x0] * (problem.T + 1), list(problem.quasiStatic([problem.x0] * problem.T))
    if guess == "zero":  # their own default, which begins at the neutral state too: even the first knot has a gap
        return [], []
    phase = case.problem.phase
    x, u = np.array(phase.guess.x[0]), np.array(phase.guess.u[0])
    return [state_of_theirs(case, x)] * (case.intervals + 1), [u] * case.intervals


def within(costs: list[float], end: float) -> int:
    """The first iteration whose cost stays within STOP max(1, |cost|) of the end."""
    close = [abs(cost - end) <= STOP * max(1.0, abs(end)) for cost in costs]
    return len(close) - next((i for i, good in enumerate(reversed(close)) if not good), len(close))


def their_run(name: str, case: ours.Case, guess: str, stop: float) -> tuple[Any, Callable[[], float]]:
    """A solver and a function that solves from the guess and returns the seconds of processor time."""
    problem = THEIRS[name]()
    problem.nthreads = 1
    solver = crocoddyl.SolverFDDP(problem)
    solver.th_stop = stop
    xs, us = guess_for_theirs(case, guess, problem)

    def once() -> float:
        began = time.thread_time()
        solver.solve(xs, us, 1000, False)
        return time.thread_time() - began

    return solver, once


def logged(solver: Any, once: Callable[[], float]) -> list[float]:
    """Costs by iteration; the solver carries no logger in the runs that are timed."""
    log = crocoddyl.CallbackLogger()
    solver.setCallbacks([log])
    once()
    solver.setCallbacks([])
    return list(log.costs)


def their_parts(solver: Any) -> dict[str, float]:
    """Milliseconds of the parts of one iteration, at the solution."""
    problem, xs, us = solver.problem, solver.xs, solver.us
    parts: dict[str, Callable[[], Any]] = {
        "calc": lambda: problem.calc(xs, us), "calcDiff": lambda: problem.calcDiff(xs, us),
        "backward": solver.backwardPass, "forward": lambda: solver.forwardPass(1.0)}
    found: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(REPEATS):
        for name, part in parts.items():
            began = time.thread_time()
            for _ in range(5):
                part()
            found[name].append((time.thread_time() - began) / 5)
    return {name: 1e3 * statistics.median(values) for name, values in found.items()}


def started(case: ours.Case, u: np.ndarray) -> Any:
    """The problem of a case from given controls."""
    phase = case.problem.phase
    s = (np.arange(len(u)) + 0.5) / len(u)
    guess = Guess(s, np.tile(np.array(phase.guess.x[0]), (len(u), 1)), u)  # for single shooting, which asks for no states
    return dataclasses.replace(case.problem, phases=(dataclasses.replace(phase, guess=guess),))


def prepared(case: ours.Case, problem: Any = None, **options: Any) -> Any:
    chosen = {**METHOD, **case.options, **options, "intervals": case.intervals}
    return ilqr.prepare(problem or case.problem, make_options("ilqr", chosen))


def timed(program: Any) -> tuple[Any, float]:
    began = time.thread_time()
    solution = ilqr.run(program)
    return solution, time.thread_time() - began


def measured(name: str, guess: str, hessian: str) -> dict[str, Any]:
    case = case_of(name, guess)
    program = prepared(case, hessian=hessian)
    content = {**METHOD, **case.options, "hessian": hessian, "intervals": case.intervals, "tolerance": 1e12, "gap_tolerance": 1e12}
    idle = dataclasses.replace(program, options=make_options("ilqr", content))
    solver, once = their_run(name, case, guess, STOP)
    solution, _ = timed(program)  # loads everything
    theirs, seconds, set_up = [], [], []
    for _ in range(REPEATS):
        theirs.append(once())
        solution, spent = timed(program)
        seconds.append(spent)
        set_up.append(timed(idle)[1])
    iterations, stopped, parts = int(solver.iter), float(solver.cost), their_parts(solver)
    their_end, polish = their_run(name, case, guess, POLISHED)
    costs, end = logged(their_end, polish), float(their_end.cost)
    # from their optimum, which is one of ours too: the cost there is the same number by two packages
    stays = np.nan  # of gaits, whose definitions are compared at a probe
    if gait_of(name) not in gaits.GAITS:
        stays = ilqr.run(prepared(case, started(case, np.array(list(their_end.us))), shooting="single",
                                  hessian="gauss_newton")).objective
    own = [row["cost"] for row in solution.iterations]
    mine, ms, their_ms = max(0, len(own) - 1), 1e3 * statistics.median(seconds), 1e3 * statistics.median(theirs)
    good = bool(np.isfinite(solution.objective) and mine > 0)  # not where the first trajectory already diverged
    # the log of theirs begins after one iteration
    their_close, own_close = 1 + within(costs, end), within(own, solution.objective) if good else 0
    first = 1e3 * statistics.median(set_up)
    each, their_each = ((ms - first) / mine if good else np.nan), their_ms / max(1, iterations)
    return {
        "problem": name, "guess": guess, "hessian": hessian, "cost": solution.objective, "their_cost": end,
        "their_cost_stopped": stopped, "same_optimum": abs(solution.objective - end) <= SAME * abs(end),
        "relative_difference": (solution.objective - end) / abs(end), "difference_from_their_optimum": (stays - end) / abs(end),
        "published": case.published, "iterations": mine, "their_iterations": iterations,
        "published_iterations": case.published_iterations, "to_1e-9": own_close, "their_to_1e-9": their_close, "ms": ms,
        "set_up_ms": first, "their_ms": their_ms, "ms_per_iteration": each, "their_ms_per_iteration": their_each,
        "ratio_per_iteration": each / their_each, "ratio_total": ms / their_ms if good else np.nan,
        "ratio_to_1e-9": (first + each * own_close) / (their_each * their_close) if good else np.nan,
        **{f"their_{part}_ms": value for part, value in parts.items()}, **own_parts(solution),
        "status": solution.status.name.lower(),
    }


def own_parts(solution: Any) -> dict[str, float]:
    """Milliseconds an iteration of the parts that the solver times itself."""
    count = max(1, len(solution.iterations) - 1)
    return {f"{part}_ms": 1e3 * solution.seconds[part] / count if part in solution.seconds else np.nan
            for part in ("expand", "backward", "forward")}


def number(value: float, digits: str = ".3g") -> str:
    return "-" if not np.isfinite(value) else format(value, digits)


def page(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# Crocoddyl's own problems", "",
        f"{processor()}; Crocoddyl {crocoddyl.__version__}, Pinocchio {pin.__version__}, from their wheels; one thread,",
        f"one process. Median of {REPEATS} solves that take turns, processor time. Both start from the same guess, ours",
        "with the method of theirs (`shooting: feasible`, `armijo: 0.1`): *zero* is what Crocoddyl takes when it is given",
        "none (neutral states at all knots, gaps, zero controls: its published runs but that of the double pendulum),",
        "*hold* the start state and the controls that hold it. Hessian: theirs is that of Gauss and Newton; ours the same",
        "or, with *auto*, the full one near the optimum. Costs are those where each solver ends when it runs on (theirs",
        "to an expected decrease of 1e-14, ours to a gradient of 1e-9); the problems have several local optima, and the",
        "difference is given where both found the same one. *At theirs*: our cost when we start from their solution,",
        "relative to it. *Iterations* until each stops by its own test at 1e-9, and, in brackets, until the cost is",
        "within 1e-9 of where it ends. Set-up is a run that is content with its guess, the first expansion and the record of the",
        "solution included; ms/iteration leaves it out. *Ratio*: ours / theirs, of the time of one iteration, of the",
        "whole, and of the time to 1e-9. *anymal_trot_cones* has hard friction cones, theirs barriers.",
        "Gaits start from quasi-static controls; of *iterations*, Crocoddyl counts its first as",
        "number 0. Written by tests/benchmarks/crocoddyl_set.py.", "",
        "| problem | guess | Hessian | cost | theirs | difference | at theirs | iterations | theirs | ms | set-up | theirs | "
        "ms/iteration | theirs | ratio | of total | to 1e-9 | status |",
        "|" + "---|" * 18,
    ]
    lines += [
        f"| {r['problem']} | {r['guess']} | {r['hessian'].replace('_', '-')} | {number(r['cost'], '.10g')} | "
        f"{number(r['their_cost'], '.10g')} | "
        f"{number(r['relative_difference'], '.1e') if r['same_optimum'] else 'another optimum'} | "
        f"{number(r['difference_from_their_optimum'], '.1e')} | {r['iterations']} ({r['to_1e-9']}) | "
        f"{r['their_iterations']} ({r['their_to_1e-9']}) | {number(r['ms'])} | {number(r['set_up_ms'])} | "
        f"{number(r['their_ms'])} | {number(r['ms_per_iteration'])} | {number(r['their_ms_per_iteration'])} | "
        f"{number(r['ratio_per_iteration'], '.2f')} | {number(r['ratio_total'], '.2f')} | {number(r['ratio_to_1e-9'], '.2f')} | "
        f"{r['status']} |" for r in rows]
    lines += ["", "Parts of one iteration in milliseconds, theirs at the solution; ours where the solver reports them:", "",
              "| problem | their calc | calcDiff | backward | forward | our expand | backward | forward |", "|" + "---|" * 8]
    keys = ("their_calc_ms", "their_calcDiff_ms", "their_backward_ms", "their_forward_ms", "expand_ms", "backward_ms", "forward_ms")
    lines += [f"| {r['problem']} | " + " | ".join(number(r[key]) for key in keys) + " |"
              for r in rows if (r["guess"], r["hessian"]) == ("hold", "gauss_newton")]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", metavar="problem", help=", ".join(NAMES))
    parser.add_argument("--agreement", action="store_true", help="only compare the definitions")
    chosen = parser.parse_args()
    names = chosen.problems or list(NAMES)
    if unknown := set(names) - set(NAMES):
        parser.error(f"no problem {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    if chosen.agreement:
        for name in (name for name in names if name == gait_of(name)):
            theirs, cost, moved, own = agreement(name)
            errors = f"{abs(cost / theirs - 1):.1e}, {abs(own / moved - 1):.1e}"
            print(f'    "{name}": ({theirs!r}, {moved!r}),  # ours differ by {errors}')
        return
    rows = []
    for name in names:
        # the others are linear-quadratic where they start: one iteration
        robot = name not in ours.ROBOT_FREE and gait_of(name) not in gaits.GAITS
        for guess in ours.GUESSES if robot else ("hold",):
            for hessian in ("gauss_newton", "auto") if robot else ("gauss_newton",):
                rows.append(measured(name, guess, hessian))
                print({k: number(v, ".6g") if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True)
    if chosen.problems:
        print(page(rows))
        return
    write_table(FOLDER / "crocoddyl_set.csv", rows, digits=".12g")
    (FOLDER / "crocoddyl_set.md").write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
