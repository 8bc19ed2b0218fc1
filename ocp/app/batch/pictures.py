"""Pictures of a sweep: parallel coordinates, response surface, success map, Pareto front. Certified cases are filled dots, others
crosses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ocp.app.pages.sheet import (
    EDGE,
    FAIL,
    INK,
    PALETTE,
    PASS,
    SOFT,
    WIDTH,
    axes,
    clip_text,
    drawable,
    figure,
    plain,
    png,
    ticks,
)

Row = Mapping[str, Any]
#: of a trial: whether it succeeded, t [k], value [k]
Curve = tuple[bool, np.ndarray, np.ndarray]
CAPTIONS = {
    "trials": ("Trials", "The error of the first tracked quantity or task, or the first state, over time [s], a line for each "
               "trial; red: failed."),
    "parallel": ("Parallel coordinates",
                 "A line for each case, from axis to axis; coloured by the objective, grey where it is not certified."),
    "response": ("Response surface",
                 "The objective over the first two axes with numbers. Filled dots are certified; red crosses are not, and have no "
                 "part in the surface."),
    "success": ("Success map", "Cases over the first two axes, several at one point side by side: certified green, others red."),
    "pareto": ("Pareto front", "Two quantities of certified cases; on the line none is better in both."),
}


def pictures(rows: Sequence[Row], paths: Sequence[str], pair: tuple[str, str], units: Mapping[str, str] = MappingProxyType({})
             ) -> dict[str, bytes]:
    """PNG by name; those that have nothing to show are left out. pair: columns of the Pareto front; units: of columns."""
    labels = {name: f"{name} [{unit}]" for name, unit in ({"duration": "s"} | dict(units)).items()}
    rows = [{labels.get(name, name): value for name, value in row.items()} for row in rows]
    paths, pair = [labels.get(path, path) for path in paths], (labels.get(pair[0], pair[0]), labels.get(pair[1], pair[1]))
    numeric = [path for path in paths if _varies(rows, path)]
    found = {}
    if rows and paths:
        found["parallel"] = parallel(rows, paths)
    if len(numeric) >= 1:
        found["response"] = response(rows, numeric[:2])
        found["success"] = success(rows, numeric[:2])
    good = [row for row in rows if row["ok"]]
    if all(_varies(good, name) for name in pair):
        found["pareto"] = pareto(np.array([[row[name] for name in pair] for row in good], dtype=float), pair)
    return found


def _varies(rows: Sequence[Row], name: str) -> bool:
    """Whether a column has different numbers, and nothing else."""
    values = [row.get(name) for row in rows]
    return all(_number(value) is not None for value in values) and len(set(values)) > 1


def front(points: np.ndarray) -> np.ndarray:
    """Numbers of the points [n, 2] that no other is better than in both components, sorted by the first (Pareto 1906)."""
    order = np.lexsort((points[:, 1], points[:, 0]))
    best, found = np.inf, []
    for i in order:
        if points[i, 1] < best:
            best = points[i, 1]
            found.append(int(i))
    return np.array(found, dtype=int)


def parallel(rows: Sequence[Row], paths: Sequence[str]) -> bytes:
    """Parallel coordinates of the varied values and the objective, as PNG."""
    names = [*paths, "objective"]
    columns = []
    for name in names:
        values = [row[name] for row in rows]
        numbers = [_number(value) for value in values]
        if any(number is None for number, value in zip(numbers, values, strict=True) if value is not None):
            kinds = sorted({str(value) for value in values})
            numbers = [float(kinds.index(str(value))) for value in values]
            labels = kinds
        else:
            known = [number for number in numbers if number is not None]
            labels = [f"{min(known, default=0):.4g}", f"{max(known, default=1):.4g}"]
        own = np.array([np.nan if number is None else number for number in numbers])
        finite = own[np.isfinite(own)] if np.isfinite(own).any() else np.zeros(1)
        columns.append(((own - finite.min()) / (np.ptp(finite) or 1.0), labels))
    fig = figure(3.6)
    ax = axes(fig, (0.6, 0.5, WIDTH - 1.2, 2.7))
    at = np.arange(len(names))
    heights = np.array([column for column, _ in columns])
    shade = columns[-1][0]
    from matplotlib import colormaps

    for k, row in enumerate(rows):
        colour = colormaps["viridis"](float(shade[k])) if row["ok"] and np.isfinite(shade[k]) else EDGE
        ax.plot(at, heights[:, k], color=colour, lw=0.9, alpha=0.8, zorder=3 if row["ok"] else 2)
    for k, (name, (_, labels)) in enumerate(zip(names, columns, strict=True)):
        ax.plot([k, k], [0.0, 1.0], color=INK, lw=0.8, zorder=4)
        ax.text(k, 1.06, plain(clip_text(name, 26)), ha="center", fontsize=8, color=INK)
        for height, label in zip(np.linspace(0, 1, len(labels)), labels, strict=True):
            ax.annotate(plain(clip_text(label, 18)), (k, height), (5, 0), textcoords="offset points", fontsize=7, color=INK,
                        va="center", zorder=6, bbox={"boxstyle": "square,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.85})
    ax.set_xlim(-0.2, len(names) - 0.5)
    ax.set_ylim(-0.06, 1.16)
    return png(fig)


def over_time(curves: Sequence[Curve]) -> bytes:
    """Curves of all cases over time, as PNG."""
    fig = figure(3.4)
    ax = axes(fig, (0.8, 0.5, WIDTH - 1.1, 2.6))
    values = drawable(np.concatenate([value for _, _, value in curves]))
    least, most = min(0.0, float(np.nanmin(values))), float(np.nanmax(values))
    ax.set_xlim(0.0, max(float(t[-1]) for _, t, _ in curves))
    ax.set_ylim(least, max(most, least + 1e-12) * 1.05)
    for ok, t, value in curves:
        ax.plot(t, drawable(value), lw=0.7, color=PALETTE[0] if ok else FAIL, zorder=3 if ok else 4)
    ticks(ax)
    return png(fig)


def response(rows: Sequence[Row], paths: Sequence[str]) -> bytes:
    """The objective over one or two varied values, as PNG."""
    good, bad = _split(rows, paths)
    fig = figure(4.2)
    ax = axes(fig, (0.8, 0.6, WIDTH - 2.2, 3.3))
    values = np.array([row["objective"] for row in rows if row["ok"]], dtype=float)
    if len(paths) == 1:
        order = np.argsort(good[:, 0], kind="stable")
        ax.plot(good[order, 0], values[order], "-o", color=PASS, lw=1.2, ms=4)
        floor = float(values.min()) if len(values) else 0.0
        ax.plot(bad[:, 0], np.full(len(bad), floor), "x", color=FAIL, ms=6)
        _labelled(ax, paths[0], "objective")
        return png(fig)
    if len(values):
        if (surface := _surface(good, values, bad)) is not None:
            ax.tricontourf(*surface, levels=14, cmap="viridis", alpha=0.75)
        drawn = ax.scatter(good[:, 0], good[:, 1], c=values, cmap="viridis", s=26, edgecolors="white", linewidths=0.7, zorder=4)
        bar = fig.colorbar(drawn, cax=axes(fig, (WIDTH - 1.2, 0.6, 0.18, 3.3)))
        for share in np.linspace(0.0, 1.0, 5 if np.ptp(values) else 1):
            bar.ax.text(1.25, share, f"{values.min() + share * np.ptp(values):.4g}", transform=bar.ax.transAxes, fontsize=7,
                        color=SOFT, va="center")
        bar.ax.text(0.0, 1.03, "objective", transform=bar.ax.transAxes, fontsize=8, color=SOFT)
    ax.plot(bad[:, 0], bad[:, 1], "x", color=FAIL, ms=7, mew=1.6, zorder=5)
    for own, limit in ((0, ax.set_xlim), (1, ax.set_ylim)):
        low, high = (edge([float(row[paths[own]]) for row in rows]) for edge in (min, max))
        limit(low - 0.04 * (high - low), high + 0.04 * (high - low))
    _labelled(ax, *paths)
    return png(fig)


def _surface(good: np.ndarray, values: np.ndarray, bad: np.ndarray) -> tuple[Any, np.ndarray] | None:
    """(triangles between all points, without those at a point that is not certified; the best value of each point); None where
    there is no surface."""
    from matplotlib.tri import Triangulation

    best = {tuple(p): float(np.min(values[(good == p).all(axis=1)])) for p in good.tolist()}
    known = best | {tuple(p): np.nan for p in bad.tolist() if tuple(p) not in best}
    places, found = np.array(list(known), dtype=float), np.array(list(known.values()))
    if len(best) < 4 or np.linalg.matrix_rank(good - good.mean(axis=0), tol=1e-12) < 2 or not np.ptp(values):
        return None
    triangles = Triangulation(places[:, 0], places[:, 1])
    out = np.isnan(found)[triangles.triangles].any(axis=1)
    triangles.set_mask(out)
    return None if out.all() else (triangles, np.where(np.isnan(found), np.nanmin(found), found))


def success(rows: Sequence[Row], paths: Sequence[str]) -> bytes:
    """Shares of certified cases over one or two varied values, as PNG."""
    high = 2.9 if len(paths) > 1 else 0.9
    fig = figure(high + 0.9)
    ax = axes(fig, (0.8, 0.6, WIDTH - 1.4, high))
    at: dict[tuple[float, ...], int] = {}
    points, colours = [], []
    span = np.ptp([row[paths[0]] for row in rows]) or 1.0
    for row in rows:
        place = tuple(float(row[path]) for path in paths)
        again = at[place] = at.get(place, -1) + 1
        points.append((place[0] + 0.006 * span * again, place[1] if len(place) > 1 else 0.0))
        colours.append(PASS if row["ok"] else FAIL)
    x, y = np.array(points).T
    ax.scatter(x, y, c=colours, marker="s", s=46, edgecolors="white", linewidths=0.6, zorder=3)
    _labelled(ax, paths[0], paths[1] if len(paths) > 1 else "")
    return png(fig)


def pareto(points: np.ndarray, names: tuple[str, str]) -> bytes:
    """All points and their non-dominated front, as PNG."""
    fig = figure(3.8)
    ax = axes(fig, (0.8, 0.6, WIDTH - 1.4, 2.9))
    chosen = points[front(points)]
    ax.plot(points[:, 0], points[:, 1], "o", color=SOFT, ms=4, alpha=0.7)
    ax.plot(chosen[:, 0], chosen[:, 1], "-o", color=PASS, ms=6, lw=1.4, drawstyle="steps-post")
    _labelled(ax, *names)
    return png(fig)


def _split(rows: Sequence[Row], paths: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Positions [k, 2] of certified cases and of others."""
    found = [np.array([[float(row[path]) for path in paths] for row in rows if bool(row["ok"]) == ok]).reshape(-1, len(paths))
             for ok in (True, False)]
    return found[0], found[1]


def _labelled(ax: Any, x: str, y: str) -> None:
    ticks(ax, "linear", "linear" if y else "")
    ax.annotate(plain(x), (1.0, 0.0), (0, -27), xycoords="axes fraction", textcoords="offset points", ha="right", fontsize=8,
                color=SOFT)
    ax.text(0.0, 1.03, plain(y), transform=ax.transAxes, fontsize=8, color=SOFT)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
