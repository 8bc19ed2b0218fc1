"""The same mechanisms simulated here and by MuJoCo: error at the end over processor time, for chains and a tendon-driven finger.

Writes results/benchmarks/simulation_against_mujoco.csv, .md and .png. One MJCF text is read by both. Both run all steps in
one call from Python, ours as ``ocp simulate`` does. The exact end is that of DOP853 at 1e-12 on our
equations of motion, whose accelerations are checked against MuJoCo's first. About three minutes.
"""

from __future__ import annotations

import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

import matplotlib
from result_tables import FOLDER, write_table

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import mujoco
import numpy as np
from scipy.integrate import solve_ivp
from threadpoolctl import threadpool_limits

from dynamics.mechanism.mjcf import read_mjcf_mechanism
from ocp.app.pipeline import processor
from ocp.bridge import robot_system
from ocp.problem import System
from ocp.simulation import stepper

OURS = ("rk4", "bdf1", "sdirk2", "bdf2")
THEIRS = ("Euler", "implicitfast", "RK4")
UNTIL, REPEATS, SECONDS = 1.0, 3, 0.3
STEPS = (10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240, 20480)
LOST = 0.3  # errors above are no answer


def chain(n: int, stiffness: float = 0.0) -> str:
    """n links of 0.3 m on hinges about y and, every third, about z; springs and dampers at the joints where stiffness is set."""
    body = ""
    for k in range(n):
        axis = "0 0 1" if k % 3 == 2 else "0 1 0"
        body += (f'<body pos="{0.3 if k else 0} 0 0"><joint type="hinge" axis="{axis}" stiffness="{stiffness}" '
                 f'damping="{stiffness * 1e-3}"/><inertial pos="0.15 0 0" mass="1" diaginertia="0.001 0.008 0.008"/>')
    return (f'<mujoco><option><flag contact="disable"/></option><worldbody>{body}{"</body>" * n}</worldbody></mujoco>')


def finger() -> str:
    """Three phalanges with springs at the joints and a stiff tendon over points of all of them, too short for its way at first."""
    body, sites, ends = "", '<site site="s"/>', ""
    for k, length in enumerate((0.045, 0.03, 0.02)):
        mass, across = 0.4 * length, 0.4 * length**3 / 12
        body += (f'<body pos="{(0, 0.045, 0.03)[k]} 0 0"><joint type="hinge" axis="0 1 0" stiffness="0.05" damping="0.0004"/>'
                 f'<inertial pos="{length / 2} 0 0" mass="{mass}" diaginertia="1e-7 {across} {across}"/>'
                 f'<site name="t{k}" pos="{0.7 * length} 0 -0.008"/>')
        sites += f'<site site="t{k}"/>'
        ends += "</body>"
    return ('<mujoco><option><flag contact="disable"/></option><worldbody><site name="s" pos="-0.02 0 -0.012"/>'
            f'{body}{ends}</worldbody><tendon><spatial springlength="0 0.09" stiffness="4000" damping="2">{sites}</spatial>'
            "</tendon></mujoco>")


CASES = {"chain of 5": chain(5), "chain of 20": chain(20), "stiff chain of 10": chain(10, 2000.0), "tendon finger": finger()}


class Case:
    """One mechanism on both sides, and the exact end of its fall from rest."""

    def __init__(self, text: str):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.xml"
            path.write_text(text)
            self.system: System = robot_system(read_mjcf_mechanism(path))
        self.model = mujoco.MjModel.from_xml_string(text)
        n, data = self.model.nv, mujoco.MjData(self.model)
        rng = np.random.default_rng(0)
        for _ in range(5):
            x = 0.2 * rng.standard_normal(2 * n)
            data.qpos[:], data.qvel[:] = x[:n], x[n:]
            mujoco.mj_forward(self.model, data)
            ours = np.array(self.system.rate(0, x, np.zeros(0), [])).ravel()[n:]
            np.testing.assert_allclose(ours, data.qacc, rtol=1e-6, atol=1e-6 * np.abs(ours).max())
        self.n = n
        self.exact = solve_ivp(lambda t, x: np.array(self.system.rate(t, x, np.zeros(0), [])).ravel(), (0, UNTIL), np.zeros(2 * n),
                               method="DOP853", rtol=1e-11, atol=1e-12).y[:n, -1]

    def error(self, q: np.ndarray) -> float:
        away = np.abs(q - self.exact).max()
        return float(away) if np.isfinite(away) else float("inf")

    def mujoco(self, integrator: str, steps: int) -> tuple[float, float]:
        """(error, processor seconds), the least of several repeats."""
        self.model.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
        self.model.opt.timestep = UNTIL / steps
        spent = []
        for _ in range(REPEATS):
            data = mujoco.MjData(self.model)
            begin = time.thread_time()
            mujoco.mj_step(self.model, data, nstep=steps)
            spent.append(time.thread_time() - begin)
        # a warning resets the state: no answer
        bad = any(data.warning[i].number for i in range(len(data.warning))) or abs(data.time - UNTIL) > 1e-6
        return float("inf") if bad else self.error(data.qpos), min(spent)

    def here(self, integrator: str, steps: int) -> tuple[float, float]:
        mover, u, t, spent = stepper(self.system, integrator), np.zeros((steps, 0)), np.linspace(0, UNTIL, steps + 1), []
        for repeat in range(REPEATS):
            mover.reset(np.zeros(2 * self.n))
            begin = time.thread_time()
            if mover.run(u, t)[2] is not None:
                return float("inf"), float("nan")
            spent.append(time.thread_time() - begin)
            if sum(spent) > SECONDS and repeat >= 1:
                break
        return self.error(mover.measure()[:self.n]), min(spent)


def measured() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name, text in CASES.items():
        case = Case(text)
        for who, names, run in (("MuJoCo", THEIRS, case.mujoco), ("here", OURS, case.here)):
            for integrator in names:
                for steps in STEPS:
                    error, seconds = run(integrator, steps)
                    rows.append({"case": name, "who": who, "integrator": integrator, "steps": steps, "error": error,
                                 "milliseconds": seconds * 1e3})
                    if seconds > SECONDS or error < 1e-9:
                        break
        print(name, len(rows), flush=True)
    return rows


def reached(rows: list[dict[str, Any]], case: str, who: str, integrator: str, error: float) -> tuple[float, int] | None:
    """(milliseconds, steps) of the cheapest run that is as exact as that."""
    good = [(float(r["milliseconds"]), int(r["steps"])) for r in rows
            if (r["case"], r["who"], r["integrator"]) == (case, who, integrator) and float(r["error"]) <= error]
    return min(good) if good else None


def page(rows: list[dict[str, Any]]) -> str:
    text = (f"{processor()}, one thread, others at work beside it; MuJoCo {mujoco.__version__}. Mechanisms fall from rest for "
            f"{UNTIL:g} s, MuJoCo's contacts switched off. Error: the largest of the coordinates at the end [rad], against "
            "DOP853 at 1e-11. Times are processor time, the least of up to three repeats. Both run all steps in one call from "
            "Python, MuJoCo in C, ours in compiled loops over kernels. Written by "
            "tests/benchmarks/simulation_against_mujoco.py; all rows are in simulation_against_mujoco.csv.")
    lines = ["# Simulations beside MuJoCo", "", textwrap.fill(text, 130), "", "![errors over time](simulation_against_mujoco.png)",
             ""]
    columns = [("MuJoCo", name) for name in THEIRS] + [("here", name) for name in OURS]
    for error in (1e-2, 1e-3, 1e-5):
        lines += [f"## Milliseconds (and steps) to an error of {error:g}", "",
                  "| mechanism | " + " | ".join(f"{who}: {name}" for who, name in columns) + " |", "|---|" + "---:|" * len(columns)]
        for case in CASES:
            found = [reached(rows, case, *column, error) for column in columns]
            lines.append(f"| {case} | " + " | ".join("—" if f is None else f"{f[0]:.2g} ({f[1]})" for f in found) + " |")
        lines.append("")
    return "\n".join([*lines, "## What it says", "", textwrap.fill(said(rows), 130), ""])


def said(rows: list[dict[str, Any]]) -> str:
    """Sentences with the figures of these rows."""
    def best(case: str, who: str, names: tuple[str, ...], error: float) -> tuple[float, str, int] | None:
        found = [(r[0], name, r[1]) for name in names if (r := reached(rows, case, who, name, error)) is not None]
        return min(found) if found else None

    words = ["—: not reached with the steps that were tried."]
    for case in CASES:
        parts = []
        for error in (1e-2, 1e-3, 1e-5):
            mine, their = best(case, "here", OURS, error), best(case, "MuJoCo", THEIRS, error)
            own = best(case, "MuJoCo", ("Euler", "implicitfast"), error)
            if mine is None:
                parts.append(f"{error:g} is out of our reach")
            elif their is None:
                parts.append(f"at {error:g} only we have an answer ({mine[1]})")
            else:
                beside = "" if own is None else f", {mine[0] / own[0]:.2g} times that of {own[1]}"
                parts.append(f"at {error:g} our best ({mine[1]}) takes {mine[0] / their[0]:.2g} times as long as MuJoCo's "
                             f"({their[1]}){beside}")
        words.append(f"{case[0].upper()}{case[1:]}: {'; '.join(parts)}.")
    return " ".join(words)


def figure(rows: list[dict[str, Any]], place: Path) -> None:
    fig, axes = plt.subplots(1, len(CASES), figsize=(4 * len(CASES), 4.2), layout="constrained")
    styles = {"MuJoCo": ":", "here": "-"}
    for ax, case in zip(axes, CASES, strict=True):
        for k, (who, name) in enumerate([("MuJoCo", n) for n in THEIRS] + [("here", n) for n in OURS]):
            picked = sorted((int(r["steps"]), float(r["milliseconds"]), float(r["error"])) for r in rows
                            if (r["case"], r["who"], r["integrator"]) == (case, who, name) and float(r["error"]) < LOST)
            if picked:
                _, x, y = np.array(picked).T
                ax.loglog(x, y, styles[who], marker="osv^Dx+"[k], ms=4, lw=1.3, color=f"C{k}", label=f"{who}: {name}")
        ax.set(title=case, xlabel="processor time [ms]")
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("error at the end [rad]")
    axes[0].legend(fontsize=7.5)
    fig.savefig(place, dpi=100)


def main() -> None:
    mujoco.set_mju_user_warning(lambda message: None)  # of steps that are too long; they would go to a file
    with threadpool_limits(1):
        rows = measured()
    write_table(FOLDER / "simulation_against_mujoco.csv", rows)
    (FOLDER / "simulation_against_mujoco.md").write_text(page(rows), encoding="utf-8")
    figure(rows, FOLDER / "simulation_against_mujoco.png")


if __name__ == "__main__":
    main()
