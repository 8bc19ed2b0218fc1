"""The pictures: times and errors by function and source, and which entries of the derivatives are not zero. PNG bytes."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from ocp.app.derivatives.recommend import duration
from ocp.app.derivatives.records import APPROXIMATE, EXACT, FAILED, FUNCTIONS, MEASURED, SOURCES, Entry, Pattern, Study
from ocp.app.pages import sheet
from ocp.app.pages.sheet import Axes, Figure

COLOUR = dict(zip(SOURCES, (*sheet.PALETTE, "#8a94a3", "#b52f2a"), strict=True))
ROW, LEFT, HEAD, FOOT = 0.235, 1.32, 0.34, 0.36  # inches
MANY, WIDE = 14, 40  # rows beyond which patterns stand two abreast, and one
FINE, SMALLEST = 170, 3.5  # rows up to which cells are told apart; points below which names are left out
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
    # room at both ends for the figures beside the dots
    low, high = math.log10(min(values)) - 1.25, math.log10(max(values)) + 1.0
    picked = {(p.function, p.source): p for p in study.picks}

    def draw(ax: Axes, e: Entry, y: float) -> None:
        known = [(t, style) for t, style in ((e.compiled_us, "dot"), (e.interpreted_us, "ring")) if t]
        if not known:
            return
        known.sort()
        places = [math.log10(t) for t, _ in known]
        colour, pick = COLOUR[e.source], picked.get((e.function, e.source))
        ax.plot([places[0], places[-1]], [y, y], color=colour, lw=1.6, alpha=0.45, zorder=3)
        for k, ((t, style), x) in enumerate(zip(known, places, strict=True)):
            best = pick is not None and t == pick.microseconds
            ax.plot([x], [y], ls="", marker="o", ms=6.5, mew=1.5, color=colour, zorder=4,
                    mfc="white" if style == "ring" else colour)
            right = k == 1 or style == "ring"
            ax.text(x + (0.13 if right else -0.13), y, ("★ " if best else "") + duration(t), fontsize=8, va="center", zorder=5,
                    ha="left" if right else "right", color=sheet.INK if best else sheet.SOFT, weight="bold" if best else "normal")

    return _panels(study, (low, high), "microseconds per evaluation", draw)


def plot_errors(study: Study) -> bytes:
    """The same rows with their errors; beyond EXACT a way counts as wrong, unless it is an approximation by nature."""
    if not any(e.error is not None for e in study.entries):
        return sheet.sentence("There is nothing to compare.")
    low, high = -17.0, max(1.2, *(math.log10(e.error) + 1.2 for e in study.entries if e.error and np.isfinite(e.error)))

    def draw(ax: Axes, e: Entry, y: float) -> None:
        if e.error is None:
            return
        right, own = e.right, study.references[e.function].source == e.source
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
    shown = {f: [e for e in study.of(f) if _worth(e)] for f in study.functions}
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
                ax.text(-0.02, row, SOURCES[e.source].label, transform=beside, ha="right", va="center", fontsize=8.5,
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


def _worth(e: Entry) -> bool:
    """Not what makes no sense for any robot: differentiating no derivative, second derivatives of a library without them."""
    return e.status == MEASURED or not trivial(e)


def trivial(e: Entry) -> bool:
    return e.status != FAILED and any(x in e.reason for x in ("nothing to differentiate", "no second derivatives", "not installed"))


def study_title(function: str) -> str:
    title = FUNCTIONS[function]
    return title[:1].upper() + title[1:]


# ------------------------------------------------------------------------------------------------ patterns
def plot_patterns(patterns: Sequence[Pattern]) -> bytes:
    """Squares where entries can be other than zero, joint names along the axes."""
    if not patterns:
        return sheet.sentence("First and contracted second derivatives were not measured, so there are no patterns to draw.")
    firsts = [p for p in patterns if not _letters(p)]
    hessians = [p for p in patterns if _letters(p)]
    rows = _abreast(firsts, 3 if firsts and len(firsts[0].rows) <= MANY else 2)
    rows += _abreast(hessians, 2 if hessians and len(hessians[0].rows) <= WIDE else 1)
    places = [(row, *_sizes(row[0], columns)) for row, columns in rows]
    total = sum(size + label + 0.44 for _, size, label in places) + 0.05
    fig, y = sheet.figure(total), total
    for row, size, label in places:
        y -= 0.38
        for k, pattern in enumerate(row):
            left = 0.1 + label + k * (size + label + 0.2)
            sheet.caption(fig, left, y + 0.15, pattern.title)
            fig.text((left + size) / sheet.WIDTH, (y + 0.15) / total, f"{float((pattern.marks > 0).mean()):.0%} filled", fontsize=8,
                     color=sheet.SOFT, ha="right", va="center")
            _spy(fig, (left, y - size, size, size), pattern)
        y -= size + label + 0.06
    return _sharp(fig) if len(patterns[0].rows) > MANY else sheet.png(fig)


def _sharp(fig: Figure) -> bytes:
    """PNG with twice the dots, for names that are read by zooming in."""
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)  # names are the user's
        fig.savefig(out, format="png", dpi=2 * sheet.DPI)
    return out.getvalue()


def _abreast(patterns: Sequence[Pattern], columns: int) -> list[tuple[list[Pattern], int]]:
    return [(list(patterns[k:k + columns]), columns) for k in range(0, len(patterns), columns)]


def _letters(pattern: Pattern) -> tuple[str, ...]:
    """The letters of a Hessian's blocks; nothing for other matrices."""
    return tuple(dict.fromkeys(name.split(": ")[0] for name in pattern.rows)) if ": " in pattern.rows[0] else ()


def _sizes(pattern: Pattern, columns: int) -> tuple[float, float]:
    """(side of the square, room for names beside and under it), in inches."""
    each = (sheet.WIDTH - 0.2) / columns - 0.2
    longest = max(len(_short(n)) for n in pattern.rows)
    label = 0.0
    for _ in range(3):  # the names' size depends on the square that they leave
        label = 0.0092 * longest * _font(each - label, len(pattern.rows)) + (0.34 if _letters(pattern) else 0.14)
    return each - label, label


def _font(size: float, n: int) -> float:
    """Points that fit a row; 0 where they could not be read."""
    points = min(8.0, 0.85 * 72.0 * size / n)
    return points if points >= SMALLEST else 0.0


def _spy(fig: Figure, box: tuple[float, float, float, float], pattern: Pattern) -> None:
    from matplotlib.colors import ListedColormap

    n, m = pattern.marks.shape
    ax = sheet.axes(fig, box)
    ax.set_xlim(-0.5, m - 0.5)
    ax.set_ylim(n - 0.5, -0.5)
    ax.imshow(pattern.marks, cmap=ListedColormap(["#ffffff", ALLOWED, LIVE]), vmin=0, vmax=2, aspect="auto", zorder=1,
              interpolation="nearest")
    letters = _letters(pattern)
    size = n // max(1, len(letters))
    for k in range(1, n):
        edge = bool(letters) and k % size == 0
        if n <= FINE or edge:
            width = 0.9 if edge else 0.7 if n <= 25 else 0.3
            style = {"color": sheet.INK if edge else "#ffffff", "lw": width, "zorder": 3 if edge else 2}
            ax.axhline(k - 0.5, **style)
            ax.axvline(k - 0.5, **style)
    for x in (-0.5, m - 0.5):
        ax.axvline(x, color=sheet.EDGE, lw=1.2, zorder=4)
        ax.axhline(x, color=sheet.EDGE, lw=1.2, zorder=4)
    inch, font = n / box[2], _font(box[2], n)  # rows per inch
    for b, letter in enumerate(letters):
        middle = b * size + (size - 1) / 2
        far = (0.0092 * max(len(_short(name)) for name in pattern.rows) * font + 0.1) * inch
        ax.text(-0.5 - far, middle, letter, ha="right", va="center", fontsize=11, color=sheet.INK, style="italic")
        ax.text(middle, n - 0.5 + far, letter, ha="center", va="top", fontsize=11, color=sheet.INK, style="italic")
    for k in range(n) if font else ():
        ax.text(-0.5 - 0.05 * inch, k, sheet.plain(_short(pattern.rows[k])), ha="right", va="center", fontsize=font,
                color=sheet.SOFT)
        ax.text(k, n - 0.5 + 0.05 * inch, sheet.plain(_short(pattern.columns[k])), ha="center", va="top", fontsize=font,
                color=sheet.SOFT, rotation=90)


def _short(name: str) -> str:
    """A joint's name without what every name ends in."""
    bare = name.split(": ")[-1]
    for ending in ("_joint", "-joint", "_Joint"):
        bare = bare.replace(ending, "")
    return bare if len(bare) <= 18 else f"{bare[:9]}…{bare[-8:]}"  # both ends tell joints apart
