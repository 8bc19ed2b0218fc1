"""The pictures: times and errors by function and source, and which entries of the derivatives are not zero. PNG bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ocp.app.derivative_study.judge import APPROXIMATE, EXACT, duration
from ocp.app.derivative_study.measure import FAILED, FUNCTIONS, MEASURED, SOURCES, Entry
from ocp.app.derivative_study.study import Pattern, Study
from ocp.app.pages import sheet
from ocp.app.pages.sheet import Axes, Figure

COLOUR = dict(zip(SOURCES, (*sheet.PALETTE, "#8a94a3"), strict=True))
ROW, LEFT, HEAD, FOOT = 0.235, 1.32, 0.34, 0.36  # inches
NAMED = 24  # rows up to which the names of a pattern can be read
LIVE, ALLOWED = "#2f6fb5", "#c9d9ec"


def plot_study(study: Study) -> dict[str, bytes]:
    """``times``, ``errors``, ``sparsity``."""
    return {"times": plot_times(study), "errors": plot_errors(study), "sparsity": plot_patterns(study.patterns)}


# ------------------------------------------------------------------------------------------------ dots on a logarithmic axis
def plot_times(study: Study) -> bytes:
    """One panel a function, one row a source: filled dot compiled, ring interpreted, a star at what is recommended."""
    values = [t for e in study.entries for t in (e.interpreted_us, e.compiled_us) if t]
    if not values:
        return sheet.sentence("Nothing was timed.")
    # space at both ends for the figures beside the dots
    low, high = math.log10(min(values)) - 1.25, math.log10(max(values)) + 1.0
    best = {(p.function, p.source, p.microseconds) for p in study.picks}

    def draw(ax: Axes, e: Entry, y: float) -> None:
        known = [(t, style) for t, style in ((e.compiled_us, "dot"), (e.interpreted_us, "ring")) if t]
        if not known:
            return
        known.sort()
        places = [math.log10(t) for t, _ in known]
        colour = COLOUR[e.source]
        ax.plot([places[0], places[-1]], [y, y], color=colour, lw=1.6, alpha=0.45, zorder=3)
        for k, ((t, style), x) in enumerate(zip(known, places, strict=True)):
            star = (e.function, e.source, t) in best
            ax.plot([x], [y], ls="", marker="o", ms=6.5, mew=1.5, color=colour, zorder=4,
                    mfc="white" if style == "ring" else colour)
            right = k == 1 or style == "ring"
            ax.text(x + (0.13 if right else -0.13), y, ("★ " if star else "") + duration(t), fontsize=8, va="center", zorder=5,
                    ha="left" if right else "right", color=sheet.INK if star else sheet.SOFT, weight="bold" if star else "normal")

    return _panels(study, (low, high), "microseconds per evaluation", draw)


def plot_errors(study: Study) -> bytes:
    """The same rows with their errors; beyond EXACT a way counts as wrong, unless it is an approximation by nature."""
    if not any(e.error is not None for e in study.entries):
        return sheet.sentence("There is nothing to compare.")
    low, high = -17.0, max(1.2, *(math.log10(e.error) + 1.2 for e in study.entries if e.error and np.isfinite(e.error)))

    def draw(ax: Axes, e: Entry, y: float) -> None:
        if e.error is None:
            return
        right, own = not e.wrong, study.references[e.function].source == e.source
        x = min(max(math.log10(e.error) if e.error else low, low), high) if np.isfinite(e.error) else high
        colour = COLOUR[e.source] if right else sheet.FAIL
        ax.plot([low, x], [y, y], color=colour, lw=1.6, alpha=0.45, zorder=3)
        ax.plot([x], [y], ls="", marker="D" if own else "o", ms=6, mew=1.5, color=colour, mfc="white" if own else colour, zorder=4)
        words = f"{e.error:.0e}" if e.error else "0"
        ax.text(x + 0.35, y, words.replace("-", "\u2212") + (" reference" if own else ""), fontsize=8, va="center", zorder=5,
                color=sheet.SOFT if right else sheet.FAIL)

    def before(ax: Axes, function: str) -> None:
        limit = max([EXACT, *(e.limit for e in study.of(function) if e.source not in APPROXIMATE)])
        ax.axvspan(math.log10(limit), high, color=sheet.FORBIDDEN, alpha=0.22, lw=0, zorder=0.1)

    return _panels(study, (low, high), "error", draw, before)


def _panels(study: Study, span: tuple[float, float], axis: str, draw: Callable[[Axes, Entry, float], None],
            before: Callable[[Axes, str], None] | None = None) -> bytes:
    """Two panels abreast, one a function, with a row for each source that has something to show or to explain."""
    pairs = [study.functions[k:k + 2] for k in range(0, len(study.functions), 2)]
    shown = {f: [e for e in study.of(f) if not e.idle] for f in study.functions}
    heights = [max(1, *(len(shown[f]) for f in pair)) * ROW for pair in pairs]
    total = sum(heights) + len(pairs) * (HEAD + FOOT) + 0.15
    fig = sheet.figure(total)
    wide = (sheet.WIDTH - 2 * LEFT - 0.55) / 2
    y = total - 0.05
    for pair, high in zip(pairs, heights, strict=True):
        y -= HEAD
        for k, function in enumerate(pair):
            own = max(1, len(shown[function])) * ROW
            left = LEFT + k * (wide + LEFT + 0.35)
            sheet.caption(fig, left - LEFT + 0.1, y + 0.16, study_title(function))
            ax = sheet.axes(fig, (left, y - own, wide, own))
            ax.set_xlim(*span)
            ax.set_ylim(-0.6, len(shown[function]) - 0.4)
            if before is not None:
                before(ax, function)
            beside = ax.get_yaxis_transform()
            for row, e in enumerate(reversed(shown[function])):
                grey = e.status != MEASURED
                ax.text(-0.02, row, e.label, transform=beside, ha="right", va="center", fontsize=8.5,
                        color=sheet.FAIL if e.status == FAILED else sheet.SOFT if grey else sheet.INK)
                if grey:
                    ax.text(0.015, row, sheet.plain(sheet.clip_text(f"{e.status}: {e.reason}", 62)), transform=beside, va="center",
                            fontsize=7.5, color=sheet.FAIL if e.status == FAILED else sheet.SOFT, style="italic", zorder=5)
                else:
                    draw(ax, e, float(row))
            sheet.ticks(ax, "log", "")
        y -= high + FOOT
    fig.text((sheet.WIDTH - 0.22) / sheet.WIDTH, 0.05 / total, axis, fontsize=8, color=sheet.SOFT, ha="right")
    return sheet.png(fig)


def study_title(function: str) -> str:
    """The title of a function's figure."""
    title = FUNCTIONS[function]
    return title[:1].upper() + title[1:]


# ------------------------------------------------------------------------------------------------ patterns
def plot_patterns(patterns: Sequence[Pattern]) -> bytes:
    """Squares where entries can be other than zero, joint names along the axes where they can be read."""
    if not patterns:
        return sheet.sentence("First and contracted second derivatives were not measured, so there are no patterns to draw.")
    hessians = [p for p in patterns if ": " in p.names[0]]
    firsts = [p for p in patterns if p not in hessians]
    rows = [(firsts[k:k + 3], 3) for k in range(0, len(firsts), 3)] + [(hessians[k:k + 2], 2) for k in range(0, len(hessians), 2)]
    sides = [(sheet.WIDTH - 0.3) / columns - 1.2 for _, columns in rows]
    total = sum(side + 1.3 for side in sides) + 0.05
    fig, y = sheet.figure(total), total
    for (row, columns), side in zip(rows, sides, strict=True):
        y -= 0.4
        for k, pattern in enumerate(row):
            left = 1.1 + k * (sheet.WIDTH - 0.3) / columns
            sheet.caption(fig, left, y + 0.15, f"{pattern.title}, {float((pattern.marks > 0).mean()):.0%} filled")
            _squares(fig, (left, y - side, side, side), pattern)
        y -= side + 0.9
    return sheet.png(fig)


def _squares(fig: Figure, box: tuple[float, float, float, float], pattern: Pattern) -> None:
    from matplotlib.colors import ListedColormap

    n = len(pattern.names)
    ax = sheet.axes(fig, box)
    ax.set_axis_on()  # for the names
    ax.set_frame_on(False)
    ax.imshow(pattern.marks, cmap=ListedColormap(["#ffffff", ALLOWED, LIVE]), vmin=0, vmax=2, aspect="auto",
              interpolation="nearest")
    blocks = len({name.split(": ")[0] for name in pattern.names}) if ": " in pattern.names[0] else 1
    for k in range(n + 1):
        if k % (n // blocks) == 0 or n <= NAMED:
            for line in (ax.axhline, ax.axvline):
                line(k - 0.5, color=sheet.INK if k % (n // blocks) == 0 else "#ffffff", lw=0.7)
    names = [sheet.plain(_short(name)) for name in pattern.names] if n <= NAMED else []
    ax.set_xticks(range(len(names)), names, rotation=90, fontsize=7, color=sheet.SOFT)
    ax.set_yticks(range(len(names)), names, fontsize=7, color=sheet.SOFT)
    ax.tick_params(length=0)


def _short(name: str) -> str:
    """A joint's name without what every name ends in."""
    for ending in ("_joint", "-joint", "_Joint"):
        name = name.replace(ending, "")
    return name if len(name) <= 18 else f"{name[:9]}…{name[-8:]}"  # both ends tell joints apart
