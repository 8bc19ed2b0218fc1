"""What second_order.py writes: a table, which aims are met, and a picture after Fig. 4 of the paper."""

from __future__ import annotations

import csv
import textwrap
from pathlib import Path

import casadi as ca
import numba
from result_tables import write_page, write_table

from ocp.app.pipeline import processor

OURS = ("loop", "C", "C native")
GENERATED = ("C", "C native")
ARMS, QUADRUPEDS, HUMANOIDS = ("UR3", "UR5", "Panda", "Baxter"), ("HyQ",), ("G1", "Talos")
# what is aimed at, our function, their function, the largest ratio, robots, with which of our executions
AIMS = (
    ("contracted second order of ID beside the tensors", "ID contracted second order", "ID second-order tensors", 0.2,
     ("HyQ", "Talos"), OURS),
    ("contracted second order of ID beside the first order", "ID contracted second order", "ID first order", 1.0, ("HyQ",), OURS),
    ("tensors", "ID second-order tensors", "ID second-order tensors", 1.0, ("UR3", "UR5", *QUADRUPEDS, *HUMANOIDS), OURS),
    ("tensors, generated code", "ID second-order tensors", "ID second-order tensors", 0.6,
     ("UR3", "UR5", *QUADRUPEDS, *HUMANOIDS), GENERATED),
    ("RNEA", "RNEA", "RNEA", 0.3, (*ARMS, *QUADRUPEDS, *HUMANOIDS), OURS),
    ("first order of ID", "ID first order", "ID first order", 0.5, (*ARMS, *QUADRUPEDS, *HUMANOIDS), OURS),
    ("first order of FD", "FD first order", "FD first order", 0.6, (*ARMS, *QUADRUPEDS, *HUMANOIDS), OURS),
)
LOOKS = {"Pinocchio": ("#000000", "s", "Pinocchio C++"), "loop": ("#0072B2", "o", "our loops (one binary for all robots)"),
         "C": ("#E69F00", "^", "our generated C, as shipped"), "C native": ("#D55E00", "v", "our generated C, -O2, fused"),
         "AD C": ("#999999", "x", "CasADi's AD, generated C")}
# what stands in the panels of functions that Pinocchio has not
NEAREST = {"ID contracted second order": "ID second-order tensors", "FD contracted second order": "FD first order"}


def write(rows: list[dict], folder: Path, limits: dict[str, int]) -> None:
    """second_order.csv, second_order.md, second_order_fig4.png."""
    write_table(folder / "second_order.csv", rows, digits=".4g")
    write_page(folder / "second_order.md", page(rows, limits))
    draw(rows, folder / "second_order_fig4.png")


def read(folder: Path) -> list[dict]:
    """The rows of second_order.csv."""
    with (folder / "second_order.csv").open(newline="", encoding="utf-8") as file:
        return [{**row, "nv": int(row["nv"]), "us": float(row["us"]), "spread": float(row["spread"]), "ratio": float(row["ratio"]),
                 "compile_s": float(row["compile_s"]) if row["compile_s"] else ""} for row in csv.DictReader(file)]


def times(rows: list[dict]) -> dict[tuple[str, str, str], float]:
    """(robot, function, execution) -> microseconds, of what was measured."""
    return {(r["robot"], r["function"], r["execution"]): r["us"] for r in rows if r["us"] == r["us"]}


def aims(rows: list[dict]) -> list[tuple[str, str, float, float | None, str]]:
    """(aim, robot, largest ratio aimed at, ratio reached by the best execution or None, which execution)."""
    measured, out = times(rows), []
    for text, ours, theirs, limit, robots, executions in AIMS:
        for robot in robots:
            best = min(((measured[robot, ours, e], e) for e in executions if (robot, ours, e) in measured), default=None)
            ratio = None if best is None else best[0] / measured[robot, theirs, "Pinocchio"]
            out.append((text, robot, limit, ratio, "" if best is None else best[1]))
    return out


def page(rows: list[dict], limits: dict[str, int]) -> list[str]:
    """Lines of the page."""
    measured, largest = times(rows), max(rows, key=lambda r: r["spread"] if r["spread"] == r["spread"] else 0.0)
    spreads = sorted(r["spread"] for r in rows if r["spread"] == r["spread"])
    files = {r["robot"]: (r["file"], r["nv"]) for r in rows}
    lines = [
        "# Inverse dynamics to second order beside Pinocchio's C++", "",
        f"{processor()}; casadi {ca.__version__}, numba {numba.__version__}, Pinocchio 4 header-only, g++ -O3 -march=native; one",
        "thread, one process. Median processor microseconds per call at one random state, each execution repeated inside compiled",
        "code, all executions of a robot in turns. Quartile distance over median of the batches: "
        f"{spreads[len(spreads) // 2]:.0%} in the median,",
        f"at most {largest['spread']:.0%} ({largest['robot']}, {largest['function']}, {largest['execution']}). Written by "
        "tests/benchmarks/second_order.py, after Fig. 4 of Singh,",
        "Russell and Wensing (2022); their UR3, Baxter, HyQ, ATLAS and Talos, with G1 (29 joints, floating) in the place of ATLAS",
        "(30 joints), and UR5 and Panda besides. Robot files (degrees of freedom):",
        ", ".join(f"{name} {file} ({nv})" for name, (file, nv) in files.items()) + ".", "",
        "![times by robot and function](second_order_fig4.png)", "",
        *textwrap.wrap(seen(rows), 126, break_long_words=False, break_on_hyphens=False), "",
        "Loop: our Numba loops over the Model, compiled once for all robots. C: generated from our closed forms, by address,",
        "flags as shipped (-O1, from 1000 operations on with -march=native, nothing fused); C native: -O2 -march=native",
        "-ffp-contract=fast (gcc fuses multiplications and additions in C++ anyhow). AD C: CasADi's differentiation of our RNEA",
        "or ABA, flags as shipped. Compile seconds are by the clock, on a machine in use. Bold: the default, which solvers take",
        "for a robot of this size (`execution: auto`); **lost**: slower than Pinocchio's C++.",
        _limits(limits),
        "Tensors: ComputeRNEASecondOrderDerivatives into tensors zeroed once (zeroing: each time); our generated code stores their",
        "nonzeros only. Pinocchio has no contracted second order: the ratio for ID is to its tensors, for FD to its first order.",
        "", "## Aims", "", "Ratio of our best execution to Pinocchio's C++, which is to be at most the aim.", "",
        "| function | robot | aim | ratio | by | met |", "|---|---|---|---|---|---|",
    ]
    for text, robot, limit, ratio, execution in aims(rows):
        cells = ("not compiled", "", "not measured") if ratio is None else (f"{ratio:.2f}", execution, "yes" if ratio <= limit
                                                                          else "**no**")
        lines.append(f"| {text} | {robot} | {limit} | {' | '.join(cells)} |")
    lines += ["", "## Times", "", "| robot (nv) | function | Pinocchio | loop | C | C native | AD C | default / Pinocchio | "
              "best / Pinocchio | instructions C, AD | compile s C, native, AD |", "|---" * 11 + "|"]
    for robot, function in dict.fromkeys((r["robot"], r["function"]) for r in rows):
        mine = {r["execution"]: r for r in rows if (r["robot"], r["function"]) == (robot, function)}
        theirs = _us(measured.get((robot, function, "Pinocchio")))
        if "Pinocchio zeroing" in mine:
            theirs += f" (zeroing {_us(mine['Pinocchio zeroing']['us'])})"
        usual = next(iter(mine.values()))["default"]
        ours = [f"**{cell}**" if e == usual and cell else cell
                for e in (*OURS, "AD C") for cell in (_us(measured.get((robot, function, e))),)]
        default = "" if usual not in mine else _ratio(mine[usual]["ratio"])
        best = min(mine[e]["ratio"] for e in OURS if e in mine and mine[e]["ratio"] == mine[e]["ratio"])
        sizes = ", ".join(str(mine[e]["instructions"]) for e in ("C", "AD C") if e in mine)
        seconds = ", ".join(f"{mine[e]['compile_s']:.1f}" if e in mine and mine[e]["compile_s"] != "" else "-"
                            for e in ("C", "C native", "AD C"))
        lines.append(f"| {robot} ({files[robot][1]}) | {function} | {theirs} | {' | '.join(ours)} | {default} | {_ratio(best)} | "
                     f"{sizes} | {seconds} |")
    capped = [r for r in rows if r["us"] != r["us"]]
    lines += ["", "## Not compiled", "", "Instructions at least:", ""]
    lines += [f"- {robot}, {execution}: " + ", ".join(f"{r['function']} {r['instructions']}" for r in capped
              if (r["robot"], r["execution"]) == (robot, execution))
              for robot, execution in dict.fromkeys((r["robot"], r["execution"]) for r in capped)]
    return lines


def _us(value: float | None) -> str:
    return "" if value is None or value != value else f"{value:.2f}"


def _ratio(value: float) -> str:
    return "" if value != value else f"{value:.2f}{' **lost**' if value > 1 else ''}"


def seen(rows: list[dict]) -> str:
    """The figure in words: how the default and the best execution stand beside Pinocchio's C++, panel by panel."""
    said = ["What is seen, left is faster."]
    for title in dict.fromkeys(r["function"] for r in rows):
        mine = [r for r in rows if r["function"] == title and r["execution"] in OURS and r["ratio"] == r["ratio"]]
        usual = [(r["ratio"], r["robot"]) for r in mine if r["execution"] == r["default"]]
        best = [min((r["ratio"], r["execution"], robot) for r in mine if r["robot"] == robot)
                for robot in dict.fromkeys(r["robot"] for r in mine)]
        lost = [robot for ratio, robot in usual if ratio > 1]
        by = {name: [robot for _, execution, robot in best if execution == name] for name in OURS}
        first = "; ".join(f"{_NAMES[name]} first on {', '.join(robots)}" for name, robots in by.items() if robots)
        against = f" (against {NEAREST[title]}, the nearest it has)" if title in NEAREST else ""
        (low, least), (high, most) = min(usual), max(usual)
        slower = f", slower on {', '.join(lost)}" if lost else ""
        said.append(f"{title}{against}: the default takes {low:.2f} ({least}) to {high:.2f} ({most}) of Pinocchio's time{slower}; "
                    f"{first}.")
    return " ".join(said)


_NAMES = {"loop": "loops", "C": "code as shipped", "C native": "fused code"}


def _limits(limits: dict[str, int]) -> str:
    return "Compiled up to " + ", ".join(f"{n // 1000}k ({name})" for name, n in limits.items()) + " instructions."


def draw(rows: list[dict], file: Path) -> None:
    """One panel a function, one line a robot, one mark an execution, times on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    measured = times(rows)
    robots, titles = list(dict.fromkeys(r["robot"] for r in rows)), list(dict.fromkeys(r["function"] for r in rows))
    figure, panels = plt.subplots(2, 3, figsize=(13, 7.2), sharey=True, layout="constrained")
    for panel, title in zip(panels.flat, titles, strict=True):
        for execution, (colour, mark, label) in LOOKS.items():
            points = [(measured[robot, title, execution], y) for y, robot in enumerate(robots)
                      if (robot, title, execution) in measured]
            panel.plot([x for x, _ in points], [y for _, y in points], mark, color=colour, label=label, markersize=7,
                       fillstyle="none" if execution == "AD C" else "full", linestyle="none")
        if title in NEAREST:
            points = [(measured[robot, NEAREST[title], "Pinocchio"], y) for y, robot in enumerate(robots)]
            panel.plot([x for x, _ in points], [y for _, y in points], "s", color="#000000", fillstyle="none", markersize=7,
                       label="Pinocchio C++, the nearest it has", linestyle="none")
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.xaxis.set_major_formatter("{x:g}")
        panel.xaxis.set_minor_formatter("")
        panel.set_title(title, fontsize=11)
        panel.grid(True, which="major", axis="both", color="#dddddd")
        panel.set_axisbelow(True)
    nv = {r["robot"]: r["nv"] for r in rows}
    panels[0, 0].set_yticks(range(len(robots)), [f"{robot} ({nv[robot]})" for robot in robots])
    panels[0, 0].invert_yaxis()
    for panel in panels[-1]:
        panel.set_xlabel("microseconds per call")
    entries = {label: handle for panel in panels.flat for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(entries.values(), entries, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(file, dpi=130)
    plt.close(figure)
