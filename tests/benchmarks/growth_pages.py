"""Tables and figures of the growth benchmark, from its growth.csv."""

from __future__ import annotations

import textwrap
from pathlib import Path

import matplotlib
from result_tables import read_table, write_page

matplotlib.use("Agg")
import casadi as ca  # the backend is chosen before anything draws
import matplotlib.pyplot as plt
import numba
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ocp.app.pipeline import processor

SERIES = {"branching 1": "serial chain", "branching 2": "2 children per body", "branching 5": "5 children per body"}
TITLES = {"RNEA": "RNEA", "CRBA": "CRBA", "ABA": "forward dynamics", "inverse_first": "first derivatives",
          "inverse_contracted": "contracted second derivatives", "inverse_second": "second-derivative tensors"}
SOURCES = {"ad_sx": "AD of RNEA", "ad_of_analytic": "AD of closed-form first derivatives", "analytic": "closed form",
           "complex_step": "complex step", "loop": "closed form, compiled loops"}
# Okabe and Ito's palette, distinct for colour-blind readers; markers say the same
STYLE = {"ad_sx": ("#D55E00", "s"), "ad_of_analytic": ("#E69F00", "^"), "analytic": ("#0072B2", "o"),
         "complex_step": ("#CC79A7", "D"), "loop": ("#009E73", "v")}
ALGORITHMS = {"RNEA": ("#000000", "o"), "CRBA": ("#56B4E9", "s"), "ABA": ("#009E73", "^"), "inverse_first": ("#E69F00", "D"),
              "inverse_contracted": ("#0072B2", "v"), "inverse_second": ("#D55E00", "P")}
THEORY = {"RNEA": ("1", "0"), "CRBA": ("2", "1"), "ABA": ("1", "0"), "inverse_first": ("2", "1"),
          "inverse_contracted": ("2", "1"), "inverse_second": ("3", "2")}
FIT_FROM = 8  # joints; smaller robots show the constant parts

Rows = list[dict[str, str]]


def select(rows: Rows, **wanted: str) -> Rows:
    return [r for r in rows if all(r[k] == v for k, v in wanted.items())]


def points(rows: Rows, x: str, y: str) -> tuple[np.ndarray, np.ndarray]:
    pairs = sorted({float(r[x]): float(r[y]) for r in rows if r[y] not in ("", "0")}.items())
    return np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])


def exponent(rows: Rows, x: str, y: str, least: float) -> tuple[float, int]:
    """Slope in the log-log plane and the number of points, nan below three."""
    a, b = points(rows, x, y)
    keep = a >= least
    if keep.sum() < 3:
        return float("nan"), int(keep.sum())
    return float(np.polyfit(np.log(a[keep]), np.log(b[keep]), 1)[0]), int(keep.sum())


def ratios(rows: Rows, series: str, quantity: str, source: str, outputs: str, runtime: str) -> dict[int, float]:
    """source / closed form by the number of joints."""
    both = []
    for name in (source, "analytic"):
        found = select(rows, series=series, quantity=quantity, source=name, outputs=outputs, runtime=runtime)
        both.append({int(r["joints"]): float(r["us"]) for r in found})
    return {n: both[0][n] / both[1][n] for n in both[0] if n in both[1]}


# ------------------------------------------------------------------------------------------------ figures
def _axes(ax: Axes, xlabel: str, ylabel: str, title: str = "") -> None:
    ax.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel, title=title)
    ax.set_xticks([2, 3, 5, 8, 12, 20, 31, 50, 90], labels=["2", "3", "5", "8", "12", "20", "31", "50", "90"])
    ax.minorticks_off()
    ax.grid(True, which="major", color="0.88", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _curves(ax: Axes, rows: Rows, series: str, quantity: str, outputs: tuple[str, ...]) -> None:
    for source, (colour, marker) in STYLE.items():
        kinds = [("loop", "dense", "-")] if source == "loop" else [
            ("interpreter", x, "-" if x == "sparse" else "--") for x in outputs] + [("compiled", "sparse", ":")]
        for runtime, form, line in kinds:
            found = select(rows, series=series, quantity=quantity, source=source, outputs=form, runtime=runtime)
            x, y = points(found, "joints", "us")
            hollow = runtime == "compiled" or (form == "dense" and source != "loop")
            ax.plot(x, y, line, color=colour, marker=marker, markersize=4, linewidth=1.3,
                    markerfacecolor="white" if hollow else colour)


def _legend(fig: plt.Figure, dense: bool, columns: int) -> None:
    handles = [Line2D([], [], color=colour, marker=marker, markersize=5, label=SOURCES[s]) for s, (colour, marker) in STYLE.items()]
    lines = [("-", "interpreter, sparse outputs (loops: machine code)")]
    lines += [("--", "interpreter, dense outputs")] if dense else []
    lines += [(":", "compiled C, sparse outputs")]
    handles += [Line2D([], [], color="0.3", linestyle=line, label=label) for line, label in lines]
    fig.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)


def repeated(rows: Rows) -> dict[tuple[str, str, str], dict[int, np.ndarray]]:
    """(series, source, outputs) -> joints -> times of all repeats in their order."""
    out: dict[tuple[str, str, str], dict[int, dict[int, float]]] = {}
    for r in rows:
        at = out.setdefault((r["series"], r["source"], r["outputs"]), {}).setdefault(int(r["joints"]), {})
        at[int(r["repeat"])] = float(r["us"])
    return {key: {n: np.array([x[k] for k in sorted(x)]) for n, x in sorted(found.items())} for key, found in out.items()}


def repeated_ratios(times: dict, series: str, source: str, outputs: str) -> dict[int, np.ndarray]:
    """source / closed form by the number of joints, repeat by repeat."""
    theirs, ours = times.get((series, source, outputs), {}), times.get((series, "analytic", outputs), {})
    return {n: theirs[n] / ours[n] for n in theirs if n in ours}


def _band(ax: Axes, found: dict[int, np.ndarray], colour: str, marker: str, line: str, full: bool) -> None:
    """Medians as a line, least and largest as a band."""
    n = list(found)
    ax.plot(n, [np.median(x) for x in found.values()], line, color=colour, marker=marker, markersize=4, linewidth=1.3,
            markerfacecolor=colour if full else "white")
    ax.fill_between(n, [x.min() for x in found.values()], [x.max() for x in found.values()], color=colour, alpha=0.22, linewidth=0)


def figure_tensors(rows: Rows, again: Rows, path: Path) -> None:
    fig, axes = plt.subplots(2, 3, figsize=(12.5, 8.0), sharex=True, sharey="row", layout="constrained")
    times = repeated(again)
    for k, (series, title) in enumerate(SERIES.items()):
        _axes(axes[0, k], "", "time per call in µs" if k == 0 else "", title)
        _axes(axes[1, k], "number of joints N", "time / time of the closed form" if k == 0 else "")
        for source, (colour, marker) in STYLE.items():
            for outputs, line in (("sparse", "-"), ("dense", "--")):
                full = outputs == "sparse"
                _band(axes[0, k], times.get((series, source, outputs), {}), colour, marker, line, full)
                if source != "analytic":
                    _band(axes[1, k], repeated_ratios(times, series, source, outputs), colour, marker, line, full)
        _curves(axes[0, k], [r for r in rows if r["runtime"] in ("loop", "compiled")], series, "inverse_second", ())
        axes[1, k].axhline(1.0, color="0.2", linewidth=1.0)
        axes[1, k].set_yticks([0.5, 1, 2, 5, 10, 20, 50], labels=["0.5", "1", "2", "5", "10", "20", "50"])
        axes[1, k].set_ylim(0.5, 60)
    axes[1, 0].annotate("closed form slower", (0.03, 0.03), xycoords="axes fraction", fontsize=8, color="0.35")
    fig.suptitle("All second derivatives of inverse dynamics (tensors): differentiation against closed form. Lines: medians of "
                 f"{len({r['repeat'] for r in again})} repeats; bands: least to largest", fontsize=11)
    _legend(fig, True, 4)
    fig.savefig(path, dpi=150)
    plt.close(fig)


def figure_quantities(rows: Rows, path: Path) -> None:
    fig, axes = plt.subplots(2, 3, figsize=(12.5, 7.6), sharex=True, sharey="row", layout="constrained")
    for j, quantity in enumerate(("inverse_first", "inverse_contracted")):
        for k, (series, title) in enumerate(SERIES.items()):
            _axes(axes[j, k], "number of joints N" if j else "", f"{TITLES[quantity]}\ntime per call in µs" if k == 0 else "",
                  "" if j else title)
            _curves(axes[j, k], rows, series, quantity, ("sparse",))
    fig.suptitle("First derivatives and contracted second derivatives of inverse dynamics")
    _legend(fig, False, 4)
    fig.savefig(path, dpi=150)
    plt.close(fig)


def figure_exponents(rows: Rows, path: Path) -> None:
    fig, axes = plt.subplots(1, 3, figsize=(13.5, 4.8), layout="constrained")
    panels = [("branching 1", "count", "joints", "instructions", "number of joints N", "instructions of generated code",
               "serial chains, generated code"),
              ("star", "count", "depth", "instructions", "depth d", "", "25 joints in arms, generated code"),
              ("branching 1", "loop", "joints", "us", "number of joints N", "time per call in µs", "serial chains, compiled loops")]
    for ax, (series, kind, x, y, xlabel, ylabel, title) in zip(axes, panels, strict=True):
        _axes(ax, xlabel, ylabel, title)
        for name, (colour, marker) in ALGORITHMS.items():
            found = algorithm(rows, series, name, kind)
            a, b = points(found, x, y)
            slope, _ = exponent(found, x, y, FIT_FROM if x == "joints" else 0)
            ax.plot(a, b, color=colour, marker=marker, markersize=4, linewidth=1.3, label=f"{TITLES[name]}: {slope:.2f}")
        ax.legend(fontsize=8, title="fitted exponent", title_fontsize=8, loc="upper left", framealpha=0.9)
        low, high = ax.get_ylim()
        ax.set_ylim(low, high * 30)  # room for the legend
    fig.savefig(path, dpi=150)
    plt.close(fig)


def algorithm(rows: Rows, series: str, name: str, kind: str) -> Rows:
    if kind == "loop":
        return select(rows, series=series, quantity=name, runtime="loop")
    found = select(rows, series=series, quantity=name, source="analytic")
    return [r for r in found if r["outputs"] in ("", "sparse") and r["runtime"] in ("count", "interpreter")]


# ------------------------------------------------------------------------------------------------ tables
def number(x: float) -> str:
    if np.isnan(x):
        return "–"
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def exponent_table(rows: Rows) -> list[str]:
    heads = [f"{tree}, {kind}" for kind in ("code", "loops") for tree in ("serial", "2 children", "5 children", "25 joints over d")]
    lines = ["| algorithm | theory: N, d | " + " | ".join(heads) + " |", "|---" * (2 + len(heads)) + "|"]
    for name in TITLES:
        cells = [TITLES[name], f"{THEORY[name][0]}, {THEORY[name][1]}"]
        for kind, y in (("count", "instructions"), ("loop", "us")):
            for series in (*SERIES, "star"):
                x, least = ("depth", 0) if series == "star" else ("joints", FIT_FROM)
                cells.append(number(exponent(algorithm(rows, series, name, kind), x, y, least)[0]))
        lines.append("| " + " | ".join(cells) + " |")
    for name in ("inverse_first", "inverse_contracted", "inverse_second"):
        cells = [f"{TITLES[name]}, AD of RNEA", ""]
        for series in SERIES:
            found = select(rows, series=series, quantity=name, source="ad_sx", outputs="sparse")
            cells.append(number(exponent(found, "joints", "instructions", FIT_FROM)[0]))
        lines.append("| " + " | ".join([*cells, *["–"] * 5]) + " |")
    return lines


def ratio_table(rows: Rows, quantity: str, runtime: str) -> list[str]:
    forms = ("sparse", "dense") if quantity == "inverse_second" else ("sparse",)
    sources = [s for s in ("ad_sx", "ad_of_analytic", "complex_step") if quantity != "inverse_first" or s != "ad_of_analytic"]
    sizes = sorted({int(r["joints"]) for r in rows if r["series"] in SERIES})
    if runtime == "compiled":
        forms, sizes = ("sparse",), [n for n in sizes if n <= 20]
    lines = ["| tree | source | outputs | " + " | ".join(f"N={n}" for n in sizes) + " |", "|---" * (3 + len(sizes)) + "|"]
    for series, title in SERIES.items():
        for source in sources:
            for outputs in forms:
                found = ratios(rows, series, quantity, source, outputs, runtime)
                if found:
                    lines.append(f"| {title} | {SOURCES[source]} | {outputs} | "
                                 + " | ".join(number(found.get(n, float("nan"))) for n in sizes) + " |")
    return lines


def cost_table(rows: Rows) -> list[str]:
    heads = ["tree", "N", "d", "function", "source", "instructions", "build s", "interpreter µs", "dense outputs µs", "C µs",
             "compiler s", "loops µs"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for series, title in SERIES.items():
        for n in ("5", "12", "31", "90"):
            for quantity in ("inverse_first", "inverse_contracted", "inverse_second"):
                for source in ("analytic", "ad_sx", "ad_of_analytic", "complex_step"):
                    found = select(rows, series=series, joints=n, quantity=quantity, source=source)
                    if not found:
                        continue
                    if found[0]["note"]:
                        lines.append(f"| {title} | {n} | {found[0]['depth']} | {TITLES[quantity]} | {SOURCES[source]} | "
                                     f"{found[0]['note']} | | | | | | |")
                        continue
                    at = {(r["runtime"], r["outputs"]): r for r in found}
                    first, compiled = at["interpreter", "sparse"], at.get(("compiled", "sparse"), {})
                    loop = select(rows, series=series, joints=n, quantity=quantity, source="loop")[0]["us"]
                    cells = [first["instructions"] if first["instructions"] != "0" else "–", first["build_s"], first["us"],
                             at.get(("interpreter", "dense"), {}).get("us", "–"), compiled.get("us", "–"),
                             compiled.get("compile_s", "–"), loop if source == "analytic" else ""]
                    lines.append(f"| {title} | {n} | {first['depth']} | {TITLES[quantity]} | {SOURCES[source]} | "
                                 + " | ".join(cells) + " |")
    return lines


# ------------------------------------------------------------------------------------------------ what it says
def paragraph(*sentences: str) -> list[str]:
    return [*textwrap.wrap(" ".join(sentences), 130, break_long_words=False, break_on_hyphens=False), ""]


def lead(rows: Rows, runtime: str) -> tuple[str, str]:
    """Where a differentiated graph (sparse outputs) is faster than the closed form, and the five closest calls, in words."""
    found = []
    for quantity in ("inverse_first", "inverse_contracted", "inverse_second"):
        for series, title in SERIES.items():
            for source in ("ad_sx", "ad_of_analytic"):
                for n, ratio in ratios(rows, series, quantity, source, "sparse", runtime).items():
                    found.append((ratio, f"{TITLES[quantity]} by {SOURCES[source]}, {title}, N = {n}: {ratio:.2f}"))
    found.sort()
    return "; ".join(text for ratio, text in found if ratio < 1.0) or "nowhere", "; ".join(text for _, text in found[:5])


def noise(rows: Rows) -> str:
    """Largest over least time of the same function at N = 2 in the three series: median and worst."""
    times: dict[tuple[str, ...], list[float]] = {}
    for r in rows:
        if r["joints"] == "2" and r["us"]:
            times.setdefault(tuple(r[k] for k in ("quantity", "source", "outputs", "runtime")), []).append(float(r["us"]))
    spread = np.array([max(x) / min(x) - 1 for x in times.values()]) * 100
    return f"{np.median(spread):.0f} per cent in the median and {spread.max():.0f} at worst"


def verdict(rows: Rows, again: Rows) -> list[str]:
    wins, closest = lead(rows, "interpreter")
    lines = paragraph(
        f"Where differentiation wins. In the interpreter, sparse outputs: {wins}; the closest calls: {closest}. Compiled:",
        f"{lead(rows, 'compiled')[0]} (small robots only, see the limit above).",
        "What remains is small robots, N = 2 or 3, and shallow bushy trees, where there is little depth for a closed form to",
        "use and the two are nearly level; the lead of the closed form grows with the depth. The complex step is four times",
        "slower than the closed form at its best. At N = 2 the three trees are one robot, and the times of one function",
        f"differ by {noise(rows)} there: ratios nearer to 1 than that decide nothing.")
    times = repeated(again)
    sparse, filled = ({n: float(np.median(x)) for n, x in repeated_ratios(times, "branching 2", "ad_of_analytic", outputs).items()}
                      for outputs in ("sparse", "dense"))
    pairs = [f"{n}: {sparse[n]:.2f} sparse, {filled[n]:.2f} dense" for n in sorted(filled) if n >= 20]
    crossing = [n for n in sorted(filled) if filled[n] < 1.0]
    at = {outputs: {n: float(np.median(x)) for n, x in times["branching 2", "analytic", outputs].items()}
          for outputs in ("sparse", "dense")}
    n = max(at["dense"])
    lines += paragraph(
        "The crossover that the paper reports at N = 70 for two children per body, with AD of the closed-form first derivatives as",
        "the rival. With sparse outputs the lead of the closed form grows with N. With dense outputs both programs spend",
        "their time on writing the same 4 N^3 numbers, nearly all of them zero",
        f"(closed form at N = {n}: {at['sparse'][n]:.0f} us sparse, {at['dense'][n]:.0f} us dense), and the ratio",
        f"falls below 1 from N = {crossing[0]} on" if crossing else "sinks towards 1, though here it does not go below",
        f"(N = {'; '.join(pairs)}). Whatever is left of a crossover is a matter of outputs and not of algorithms.")
    return lines


def noise_of_figure(again: Rows) -> list[str]:
    """What the bands of Fig. 3 say."""
    times, lines, doubtful = repeated(again), [], []
    spread = np.concatenate([[x.max() / x.min() - 1 for x in found.values()] for found in times.values()]) * 100
    for (series, source, outputs) in times:
        if source == "analytic":
            continue
        for n, ratio in repeated_ratios(times, series, source, outputs).items():
            if ratio.min() < 1.0:
                doubtful.append(f"{SOURCES[source]}, {SERIES[series]}, {outputs}, N = {n}: {ratio.min():.2f} to {ratio.max():.2f}")
    crossing = repeated_ratios(times, "branching 2", "ad_of_analytic", "dense")
    large = "; ".join(f"{n}: {np.median(x):.2f} ({x.min():.2f} to {x.max():.2f})" for n, x in crossing.items() if n >= 20)
    lines += paragraph(
        f"The noise of the first figure, {len({r['repeat'] for r in again})} repeats in three processes, medians of batches, all",
        f"functions of a tree in turns. Largest over least time of a point: {np.median(spread):.0f} per cent in the median,",
        f"{np.percentile(spread, 90):.0f} at the 90th percentile, {spread.max():.0f} at worst. Points whose band of ratios",
        f"reaches below 1, so that differentiation may be the faster one: {'; '.join(doubtful) or 'none'}. The ratio in",
        f"question at the paper's crossover (2 children per body, dense outputs), median and band: {large}.")
    return lines


def write(folder: Path, limits: tuple[int, int, int, int]) -> None:
    """growth.md and the figures, from growth.csv and growth_fig3.csv. limits: instructions made, compiled; joints for the complex
    step; instructions of long chains that are compiled."""
    rows = read_table(folder / "growth.csv")
    again = read_table(folder / "growth_fig3.csv")
    figure_tensors(rows, again, folder / "growth_fig3.png")
    figure_quantities(rows, folder / "growth_quantities.png")
    figure_exponents(rows, folder / "growth_exponents.png")
    lines = [
        "# How dynamics and its derivatives grow", "",
        *paragraph(
            f"{processor()}; casadi {ca.__version__}, numba {numba.__version__}, one thread, other programs at work beside it.",
            "Processor time per call, the least of eight batches; the interpreter is called on fixed memory, compiled code and",
            "loops from a compiled loop. Trees of revolute joints, neighbouring axes 60 degrees apart: serial, with 2 or 5",
            "children per body, and 25 joints as a root with equal arms.",
            f"Graphs above {limits[0] / 1e6:.1f} million instructions are not made, those above {limits[1]} not compiled",
            f"(at -O1; first and contracted derivatives of the chains of 12 and 16 up to {limits[3]}); complex steps are taken",
            f"up to N = {limits[2]}, and compiled up to 8. Written by",
            "tests/benchmarks/growth.py; all rows are in growth.csv."),
        "![tensors](growth_fig3.png)", "", "## What it says", "", *verdict(rows, again), *noise_of_figure(again),
        "## Exponents", "",
        *paragraph(
            f"Slopes in the log-log plane: over N from {FIT_FROM} joints on, over d for 25 joints. Theory: exponent of N",
            "on a chain, and of d at fixed N. Counts are polynomials with lower-order parts, so that slopes approach the",
            "theory from below; bushy trees have d of the order log N. Code: instructions; loops: processor time, eight joints",
            "to a vector register. Forward dynamics: the articulated-body algorithm in code, a factorised mass matrix in loops",
            "(theory for loops: N d^2)."),
        *exponent_table(rows), "", "![exponents](growth_exponents.png)", ""]
    for quantity in ("inverse_second", "inverse_contracted", "inverse_first"):
        lines += [f"## Time of other sources / time of the closed form: {TITLES[quantity]}", "", "Interpreter:", "",
                  *ratio_table(rows, quantity, "interpreter"), "", "Compiled C:", "", *ratio_table(rows, quantity, "compiled"), ""]
    lines += ["![first and contracted](growth_quantities.png)", "", "## Instructions, times to build, to compile and to run", "",
              *cost_table(rows)]
    write_page(folder / "growth.md", lines)
