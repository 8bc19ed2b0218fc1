"""What ddp_convergence.py writes: a table of every run, a page, and the residuals over the iterations as a picture."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import casadi as ca
import numba
import numpy as np
from result_tables import write_page

from ocp.app.pipeline import processor

LOOKS = {"gauss_newton": ("#D55E00", "-", 1.8, "Gauss-Newton"), "full": ("#0072B2", "-", 2.4, "full"),
         "auto": ("#000000", "--", 1.4, "auto")}
AIM = 1.5
REACHED = 1e-9
Rows = list[dict[str, Any]]
Falling = Callable[[np.ndarray, float], np.ndarray]


def write(rows: Rows, sources: Rows, folder: Path, falling: Falling) -> None:
    """ddp_convergence.csv, .md and .png."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = [k for k in rows[0] if k not in ("residuals", "steps")]
    with (folder / "ddp_convergence.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*plain, "residuals"])
        for row in rows:
            writer.writerow([*(f"{row[k]:.12g}" if isinstance(row[k], float) else row[k] for k in plain),
                             " ".join(f"{r:.3g}" for r in falling(row["residuals"], row["rounding"]))])
    write_page(folder / "ddp_convergence.md", page(rows, sources))
    draw(rows, folder / "ddp_convergence.png", falling)


def by_problem(rows: Rows) -> dict[str, dict[str, dict[str, Any]]]:
    """problem -> Hessian -> row."""
    return {name: {r["hessian"]: r for r in rows if r["problem"] == name} for name in dict.fromkeys(r["problem"] for r in rows)}


def page(rows: Rows, sources: Rows) -> list[str]:
    """Lines of the page."""
    table = by_problem(rows)
    lines = [
        "# Convergence near the solution: Gauss-Newton, full and automatic Hessians", "",
        f"{processor()}; casadi {ca.__version__}, numba {numba.__version__}.",
        "Written by tests/benchmarks/ddp_convergence.py.", "",
        "Every problem from the guess of its file with the options of its file, one start for all Hessians. The UR5 has no file",
        "here: it moves from rest to a nearby state by cost. Residual: largest component of the projected gradient over",
        "max(1, |cost|). Rounding: largest residual of a search that starts at the solution. Curves end there.", "",
        "![residual over iterations](ddp_convergence.png)", "", *findings(table), "", "## Convergence", "",
        f"To {REACHED:g}: iterations until the residual is at most that. Digits: the p of log r[k+1] = p log r[k] over the last",
        "three pairs above rounding, what an iteration multiplies the number of digits by. Order: slope of log(residual after)",
        "over log(residual before) of one iteration from several iterates of the Gauss-Newton run below 2e-5, whole steps only.",
        "Rate: factor per iteration by which the residual falls from 1e-4 to rounding.", "",
        f"| problem | Hessian | to {REACHED:g} | digits | order | rate | smallest residual | rounding | cost |",
        "|---|---|---|---|---|---|---|---|---|"]
    for name, found in table.items():
        for hessian, r in found.items():
            reached = f"not in {r['iterations']}" if r["to_reached"] is None else str(r["to_reached"])
            rate = _number(r["rate"], 3) if hessian == "gauss_newton" else ""
            orders = f"{_number(r['order'], 2)} | {_number(r['local_order'], 2)}"
            lines.append(f"| {name} | {LOOKS[hessian][3]} | {reached} | {orders} | {rate} | {r['smallest']:.1e} | "
                         f"{r['rounding']:.1e} | {r['cost']:.10g} |")
    lines += [
        "", "## Time per iteration", "",
        "Processor milliseconds per iteration of a whole search, median (best) of five, the Hessians in turns, less a run without",
        "iterations; trials of the line search per iteration in brackets. Searches take different ways: far from the solution a",
        "full Hessian must be made convex, for which the Gauss-Newton one is computed besides, and more trials are refused. At the",
        f"solution: searches that start there. The aim for full over Gauss-Newton is {AIM}, judged at the solution and over whole",
        f"searches. To {REACHED:g}: milliseconds times iterations.", "",
        "| problem | Gauss-Newton | full | auto | full / G-N | auto / G-N | full / G-N at the solution | aim: there, whole | "
        f"ms to {REACHED:g}: G-N, full, auto |",
        "|---|---|---|---|---|---|---|---|---|"]
    for name, found in table.items():
        cells = [f"{r['ms']:.3f} ({r['ms_best']:.3f}) [{r['trials']:.1f}]" for r in found.values()]
        whole = ", ".join("-" if r["to_reached"] is None else f"{r['ms'] * r['to_reached']:.1f}" for r in found.values())
        full = found["full"]
        judged = ", ".join("met" if full[key] <= AIM else "**not met**" for key in ("ratio_near", "ratio"))
        ratios = f"{full['ratio']:.2f} | {found['auto']['ratio']:.2f} | {full['ratio_near']:.2f}"
        lines.append(f"| {name} | {' | '.join(cells)} | {ratios} | {judged} | {whole} |")
    lines += ["", "## By source of derivatives", "",
              "Median processor milliseconds per iteration of the first ten iterations from the guess, line search included.", "",
              "| problem | derivatives | execution | operations | Gauss-Newton | full | full / G-N | note |",
              "|---|---|---|---|---|---|---|---|"]
    for r in sources:
        numbers = [_number(r.get(k), n) for k, n in (("gauss_newton", 3), ("full", 3), ("ratio", 2))]
        what = (r["problem"], r["derivatives"], r["execution"], str(r["operations"] or ""))
        lines.append(f"| {' | '.join((*what, *numbers, r.get('note', '')))} |")
    return lines


def findings(table: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    """What the tables say, in sentences made of their numbers."""
    full, coarse = [t["full"] for t in table.values()], [t["gauss_newton"] for t in table.values()]
    orders, linear, rates = ([r[key] for r in which if r[key] == r[key]] for which, key in
                             ((full, "local_order"), (coarse, "local_order"), (coarse, "rate")))
    fewer = [g["to_reached"] / f["to_reached"] for g, f in zip(coarse, full, strict=True) if g["to_reached"] and f["to_reached"]]
    near, whole = [r["ratio_near"] for r in full], [r["ratio"] for r in full]
    best = 0
    for t in table.values():
        spent = {h: r["ms"] * r["to_reached"] for h, r in t.items() if r["to_reached"] is not None}
        best += "auto" in spent and spent["auto"] <= min(spent.values())
    return [
        f"- Order of one step with full Hessians: {min(orders):.2f} to {max(orders):.2f}, median {np.median(orders):.2f}; with "
        f"Gauss-Newton {min(linear):.2f} to {max(linear):.2f}, median {np.median(linear):.2f}.",
        f"- Gauss-Newton's residual falls by factors of {min(rates):.3f} to {max(rates):.3f} per iteration. It needs "
        f"{min(fewer):.1f} to {max(fewer):.1f} times the iterations of full Hessians to {REACHED:g}, "
        f"median {np.median(fewer):.1f}.",
        f"- An iteration with full Hessians costs {min(near):.2f} to {max(near):.2f} times one of Gauss-Newton at the solution, "
        f"median {np.median(near):.2f}, at most {AIM} in {sum(x <= AIM for x in near)} of {len(near)} problems; over whole "
        f"searches {min(whole):.2f} to {max(whole):.2f}, median {np.median(whole):.2f}, at most {AIM} in "
        f"{sum(x <= AIM for x in whole)}.",
        f"- Auto takes the least time to {REACHED:g} in {best} of {len(table)} problems.",
        "- Where Gauss-Newton's whole step overshoots (quadrotors, double pendulum), its steps are halved and its",
        "  iterates come from changing directions; there the order of one step scatters."]


def _number(value: float | None, digits: int) -> str:
    return "" if value is None or value != value else f"{value:.{digits}f}"


def draw(rows: Rows, file: Path, falling: Falling) -> None:
    """One panel a problem, residual over iterations; each Hessian named in its colour, with its iterations to REACHED."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    table = by_problem(rows)
    columns = 4
    figure, panels = plt.subplots(-(-len(table) // columns), columns, figsize=(16, 8), sharey=True, layout="constrained",
                                  squeeze=False)
    for panel, (name, found) in zip(panels.flat, table.items(), strict=False):
        panel.axhline(REACHED, color="#999999", linewidth=0.8, zorder=1)
        last = 1
        for line, (hessian, row) in enumerate(found.items()):
            colour, dashes, width, label = LOOKS[hessian]
            r = falling(row["residuals"], max(row["rounding"], 3.0 * row["smallest"]))
            panel.plot(r, dashes, color=colour, linewidth=width, zorder=2 + line)
            last = max(last, len(r))
            if row["to_reached"] is not None:
                panel.plot(row["to_reached"], row["residuals"][row["to_reached"]], "o", color=colour, markersize=5, zorder=5)
            count = "not reached" if row["to_reached"] is None else f"{row['to_reached']}"
            panel.text(0.97, 0.96 - 0.085 * line, f"{label}: {count}", color=colour, transform=panel.transAxes, ha="right",
                       va="top", fontsize=13, bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1})
        panel.set_yscale("log")
        panel.set_ylim(1e-16, 1e4)
        panel.set_xlim(0, 1.03 * last)
        panel.set_title(name, fontsize=14)
        panel.tick_params(labelsize=12)
        panel.grid(True, color="#e5e5e5")
        panel.set_axisbelow(True)
    for panel in panels.flat[len(table):]:
        panel.set_visible(False)
    for panel in panels[-1]:
        panel.set_xlabel("iteration", fontsize=13)
    for panel in panels[:, 0]:
        panel.set_ylabel("relative projected gradient", fontsize=13)
    figure.suptitle(f"Residual over iterations, to rounding; numbers: iterations to {REACHED:g} (grey line)", fontsize=15)
    figure.savefig(file, dpi=110)
    plt.close(figure)
