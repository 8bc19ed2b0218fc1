"""How pictures look: palette, fixed rectangles, lines with bounds and direct labels, PNG encoding.

Drawn with Matplotlib's object interface (no global state) and without its layout engine and axis objects, which would
cost three times as much as the drawing: rectangles are computed, ticks and grid are plain lines and texts. Logarithmic
scales are linear scales of log10. Nothing here knows what a solution is.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocp.problem import Bounds

DPI = 110
WIDTH = 11.0  # inches
MAX_COLUMNS, MAX_LINES, MAX_LABEL = 4, 6, 14
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MAX_POINTS = 4000  # of a line over time
STRIP, LETTERS_PER_INCH = 0.12, 17.0  # inches above curves for the names of phases, and how many letters fit in one of them
NAMED = 4  # of many lines, those nearest to their bounds
LIMITS = "limits"
MAX_DOTS = 20  # per inch; more knots would hide the line, then only the line is drawn
MAX_PLOTTED = 1e100  # beyond this Matplotlib's transforms overflow; such values are drawn as gaps

INK, SOFT, GRID, EDGE = "#27303f", "#6b7687", "#e6eaf0", "#c3cad4"
PALETTE = ("#2f6fb5", "#d9812c", "#2a9b8a", "#7b66bd", "#7d8b33", "#b6507c")
PASS, FAIL, FORBIDDEN = "#2a9b8a", "#cf3a34", "#c9a39b"

Axes = Any  # matplotlib.axes.Axes; Matplotlib is imported only when something is drawn
Figure = Any


@dataclass(frozen=True)
class Cell:
    """One small plot: title, unit, and what to draw on its axes. ``time`` cells share the time axis of the sheet;
    ``reserve`` is the length of the longest label at the right of its lines; ``bare`` cells have no scales."""

    title: str
    draw: Callable[[Axes], None]
    unit: str = ""
    time: bool = True
    reserve: int = 0
    bare: bool = False


@dataclass(frozen=True)
class Group:
    """A heading and its cells, at most ``columns`` side by side (0: as many as there are, up to MAX_COLUMNS), so many times as high
    as others."""

    heading: str
    cells: tuple[Cell, ...]
    columns: int = 0
    high: float = 1.0


@dataclass(frozen=True)
class Stretch:
    """A part of the time axis with bounds [n] of its own."""

    span: tuple[float, float]
    bounds: Bounds


Marks = Sequence[tuple[float, str]]
"""Times [s] at which something begins, and its name."""


# ------------------------------------------------------------------------------------------------ layout
def sheet(groups: Sequence[Group], span: tuple[float, float], marks: Marks = ()) -> bytes:
    """All groups one below the other, every time cell over the same ``span`` of time [s], with vertical lines at ``marks``: PNG
    bytes."""
    lines = [-(-len(g.cells) // _columns(g)) for g in groups]
    rows, high = sum(lines), sum(count * g.high for count, g in zip(lines, groups, strict=True))
    left, bottom, heading, gap, pause = 0.62, 0.48, 0.36, 0.50, 0.40
    usual = 1.55 if rows <= 2 else 1.2 if rows <= 4 else 0.95
    height = 0.1 + len(groups) * (heading - gap + pause) + high * usual + rows * gap - pause + bottom
    fig = figure(height)
    y = height - 0.1
    for group in groups:
        across, cell = _columns(group), usual * group.high
        reserve = 0.08 + 0.068 * min(MAX_LABEL, max((c.reserve for c in group.cells), default=0))
        right, between = max(0.22, reserve), 0.62 + reserve
        wide = (WIDTH - left - right - between * (across - 1)) / across
        caption(fig, left, y - 0.12, group.heading)
        y -= heading
        for k, item in enumerate(group.cells):
            column = k % across
            if column == 0:
                y -= cell + (gap if k else 0.0)
            ax = axes(fig, (left + column * (wide + between), y, wide, cell - 0.2))
            if item.time:
                pad = 0.012 * (span[1] - span[0]) or 0.5
                ax.set_xlim(span[0] - pad, span[1] + pad)
            item.draw(ax)
            taken = sum(len(text.get_text()) for text in ax.texts if text.get_gid() == LIMITS)
            words = clip_text(item.title, int(wide * 12) - taken) + (f"  [{item.unit}]" if item.unit else "")
            ax.text(0.0, _above(ax), plain(words), transform=ax.transAxes, fontsize=8.5, color=INK)
            if item.time:
                mark(ax, marks)
            # times only where no panel follows below: calmer
            if not item.bare:
                ticks(ax, x="linear" if item.time else "", x_labels=k + across >= len(group.cells))
        y -= pause
    fig.text((WIDTH - 0.22) / WIDTH, 0.13 / height, "time [s]", fontsize=8, color=SOFT, ha="right")
    return png(fig)


def _above(ax: Axes) -> float:
    """Where titles stand, as a part of the height of the axes."""
    return 1.0 + 0.06 / float(ax.get_position().height * ax.figure.get_size_inches()[1])


def mark(ax: Axes, marks: Marks) -> None:
    """A vertical line where each part of the motion begins, and its name in a strip above everything that is drawn."""
    if not marks:
        return
    (bottom, top), (left, right) = ax.get_ylim(), ax.get_xlim()
    wide, high = (float(v) for v in ax.get_position().size * ax.figure.get_size_inches())
    ax.set_ylim(bottom, top + (top - bottom) * STRIP / (high - STRIP))
    for (time, name), end in zip(marks, [*(time for time, _ in marks[1:]), right], strict=True):
        ax.axvline(time, color=EDGE, lw=1.0, zorder=1.5, ls=(0, (4, 2)))
        reserve = int((end - time) / (right - left) * wide * LETTERS_PER_INCH)
        if reserve > 1 or len(name) == reserve:
            ax.text(time, 1.0, f" {plain(clip_text(name, reserve))}", transform=ax.get_xaxis_transform(), fontsize=6.5, color=SOFT,
                    ha="left", va="top", zorder=2.5)


def _columns(group: Group) -> int:
    return group.columns or min(MAX_COLUMNS, len(group.cells)) or 1


def figure(height: float) -> Figure:
    """A white figure of the common width."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fig = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(fig)
    return fig


def caption(fig: Figure, left: float, y: float, text: str) -> None:
    """A bold heading at ``left``, ``y`` inches."""
    fig.text(left / WIDTH, y / fig.get_size_inches()[1], plain(text), fontsize=10, color=INK, weight="bold", va="center")


def axes(fig: Figure, box: tuple[float, float, float, float]) -> Axes:
    """Bare axes in the rectangle ``box`` (left, bottom, width, height in inches); :func:`ticks` gives them scales."""
    width, height = fig.get_size_inches()
    ax = fig.add_axes((box[0] / width, box[1] / height, box[2] / width, box[3] / height))
    ax.set_axis_off()
    return ax


def ticks(ax: Axes, x: str = "linear", y: str = "linear", *, x_labels: bool = True) -> None:
    """Draw grid, numbers and the two axis lines; call last. A scale: ``linear``, ``log`` (axes of log10) or empty."""
    from matplotlib.collections import LineCollection

    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    wide, high = (float(v) for v in ax.get_position().size * ax.figure.get_size_inches())
    # between texts and axes 3 points, whatever the size of the panel
    under, aside = y0 - 0.05 * (y1 - y0) / high, x0 - 0.05 * (x1 - x0) / wide
    grid = []
    for v in round_numbers(x0, x1, 6 if wide > 3 else 4, x):
        grid.append([(v, y0), (v, y1)])
        if x_labels:
            ax.text(v, under, _tick(v, x), fontsize=7.5, color=SOFT, ha="center", va="top")
    for v in round_numbers(y0, y1, 4 if high > 0.9 else 3, y):
        grid.append([(x0, v), (x1, v)])
        ax.text(aside, v, _tick(v, y), fontsize=7.5, color=SOFT, ha="right", va="center")
    ax.add_collection(LineCollection(grid, colors=GRID, linewidths=0.7, zorder=0.2), autolim=False)
    frame = [[(x0, y0), (x1, y0)], [(x0, y0), (x0, y1)]]
    ax.add_collection(LineCollection(frame, colors=EDGE, linewidths=0.9, zorder=2, clip_on=False), autolim=False)


def round_numbers(low: float, high: float, most: int, scale: str) -> list[float]:
    """Round numbers in [low, high], about ``most`` of them; whole decades on a logarithmic scale."""
    if not scale:
        return []
    wish = (high - low) / most
    power = 10.0 ** math.floor(math.log10(wish))
    steps = [power * m for m in (0.5, 1.0, 2.0, 2.5, 5.0, 10.0)]
    found: list[float] = []
    for step in steps[next(k for k, step in enumerate(steps) if step >= wish * 0.999)::-1]:
        if scale == "log":
            step = max(1.0, math.ceil(step - 1e-9))
        first, last = math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6)
        found = [k * step for k in range(first, last + 1)]
        if len(found) > 1:  # a scale needs two
            break
    return found


def _tick(value: float, scale: str) -> str:
    if scale == "log":
        return "10" + str(round(value)).translate(SUPERSCRIPT)
    return (f"{value:.5g}" if value else "0").replace("-", "\u2212")


def png(fig: Figure, source: str = "") -> bytes:
    """The figure as PNG; source: of what it is, kept in the file. A glyph missing from the font becomes a box, not a warning: names
    are the user's."""
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        fig.savefig(out, format="png", dpi=DPI, pil_kwargs={"compress_level": 3},
                    metadata={"Source": source} if source else None)
    return out.getvalue()


def sentence(text: str, source: str = "") -> bytes:
    """A picture that only says why there is nothing to draw."""
    fig = figure(0.8)
    fig.text(0.5, 0.5, plain(text), ha="center", va="center", fontsize=10, color=SOFT)
    return png(fig, source)


def plain(text: str) -> str:
    """Text that Matplotlib does not take for mathematics."""
    return text.replace("$", r"\$")


def clip_text(text: str, most: int) -> str:
    """Text cut to a number of characters, with an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


# ------------------------------------------------------------------------------------------------ lines
def lines(ax: Axes, t: np.ndarray, values: np.ndarray, bounds: Bounds | None = None, labels: Sequence[str] = (),
          knots: tuple[np.ndarray, np.ndarray] | None = None, tolerance: float | np.ndarray | None = None) -> None:
    """Lines over time, values [k, n], with bounds [n], None: none, as forbidden stripes (or dashes where they differ).

    knots: (times [m], values [m, n]) drawn as dots; tolerance, also [n]: stretches beyond a bound by more are drawn red.
    """
    stretched(ax, t, values, [Stretch((-math.inf, math.inf), bounds or Bounds.free(values.shape[1]))], labels, knots, tolerance)


def line_cell(title: str, unit: str, t: np.ndarray, values: np.ndarray, labels: tuple[str, ...] = ("",),
              bounds: Bounds | None = None, tolerance: float | None = None) -> Cell:
    """A plot of :func:`lines`."""
    def draw(ax: Axes) -> None:
        lines(ax, t, values, bounds, labels, tolerance=tolerance)

    return Cell(title, draw, unit, reserve=max(map(len, labels)))


def thinned(count: int) -> slice:
    """So many of ``count`` points over time as a picture can show."""
    return slice(None, None, max(1, count // MAX_POINTS))


def stretched(ax: Axes, t: np.ndarray, values: np.ndarray, stretches: Sequence[Stretch], labels: Sequence[str] = (),
              knots: tuple[np.ndarray, np.ndarray] | None = None, tolerance: float | np.ndarray | None = None) -> None:
    """As :func:`lines`, with bounds that differ from one stretch of time to the next; between the rows of two stretches stands one
    whose time is NaN."""
    data, n = drawable(values), values.shape[1]
    rows = _pieces(t, len(stretches))
    drawn = [_edges(s, tolerance) for s in stretches]
    bottom, top = limits(data, np.concatenate([low for low, _ in drawn]), np.concatenate([high for _, high in drawn]))
    ax.set_ylim(bottom, top)
    over = np.full_like(data, -np.inf)
    for stretch, these in zip(stretches, rows, strict=True):
        over[these] = stretch.bounds.excess(data[these])
    named = np.arange(n) if n <= MAX_LINES else _nearest(data, over)
    colours = dict(zip(named.tolist(), PALETTE, strict=False))
    left, right = ax.get_xlim()
    for stretch, ends in zip(stretches, drawn, strict=True):
        begin, end = max(stretch.span[0], left), min(stretch.span[1], right)
        for bounds, edge in zip(ends, (bottom, top), strict=True):
            for k, value in enumerate(bounds):
                if not bottom < value < top:
                    continue
                if _common(stretch):
                    ax.fill_between([begin, end], [value] * 2, [edge] * 2, color=FORBIDDEN, alpha=0.25, lw=0, zorder=0.5)
                    ax.hlines(value, begin, end, color=SOFT, lw=0.8, zorder=1)
                elif k in colours:
                    ax.hlines(value, begin, end, color=colours[k], lw=0.8, zorder=1, ls=(0, (3, 2)))
    for k in range(n):
        colour = colours.get(k, EDGE)
        ax.plot(t, data[:, k], color=colour, lw=1.5 if k in colours else 0.9, zorder=3 if k in colours else 2.6)
        if knots is not None and len(knots[0]) <= MAX_DOTS * WIDTH * ax.get_position().width:
            ax.plot(knots[0], drawable(knots[1][:, k]), ls="", marker="o", ms=2.8, mew=0, color=colour, zorder=4)
        if tolerance is not None:
            bad = over[:, k] > np.broadcast_to(tolerance, n)[k]
            if bad.any():
                ax.plot(t, np.where(bad, data[:, k], np.nan), color=FAIL, lw=2.4, zorder=5, marker="o", ms=1.8, mew=0)
    _tell_unseen(ax, drawn, (bottom, top))
    if n > 1 and labels:
        direct_labels(ax, (data[:, named] - bottom) / (top - bottom), [labels[k] for k in named.tolist()])


def _edges(stretch: Stretch, tolerance: float | np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of a stretch, once where all components have the same; those of an equation are as far apart as is tolerated."""
    low, high = stretch.bounds.arrays
    reserve = np.where(low == high, 0.0 if tolerance is None else tolerance, 0.0)
    few = slice(0, 1) if _common(stretch) else slice(None)
    return (low - reserve)[few], (high + reserve)[few]


def _nearest(data: np.ndarray, over: np.ndarray) -> np.ndarray:
    """Which of many lines get names: those that come nearest to their bounds, or that move most where none has any."""
    reach = np.where(np.isfinite(data), over, -np.inf).max(axis=0, initial=-np.inf)
    if not np.isfinite(reach).any():
        reach = np.nanmax(data, axis=0, initial=-np.inf) - np.nanmin(data, axis=0, initial=np.inf)
    return np.sort(np.argsort(-reach, kind="stable")[:NAMED])


def _tell_unseen(ax: Axes, drawn: Sequence[tuple[np.ndarray, np.ndarray]], seen: tuple[float, float]) -> None:
    """Bounds that all lines have all the time and that lie outside of the picture, in words above it."""
    low, high = drawn[0]
    if len(low) != 1 or not all(np.array_equal(ends, drawn[0]) for ends in drawn[1:]):
        return
    unseen = [f"{sign} {v:.4g}".replace("-", "\u2212") for sign, v in (("≥", low[0]), ("≤", high[0]))
              if np.isfinite(v) and not seen[0] < v < seen[1]]
    if unseen:
        ax.text(1.0, _above(ax), ", ".join(unseen), transform=ax.transAxes, fontsize=7, color=SOFT, ha="right", gid=LIMITS)


def _common(stretch: Stretch) -> bool:
    """Whether all components have the same bounds."""
    return len(set(stretch.bounds.pairs())) == 1


def _pieces(t: np.ndarray, count: int) -> list[slice]:
    """The rows of each stretch: between the times that are NaN."""
    if count == 1:
        return [slice(0, len(t))]
    cuts = [-1, *np.flatnonzero(np.isnan(t)).tolist(), len(t)]
    return [slice(a + 1, b) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]


def direct_labels(ax: Axes, heights: np.ndarray, labels: Sequence[str]) -> None:
    """Names at the right end of lines, pushed apart where they would overlap; heights [k, n] are fractions of the axes."""
    n = heights.shape[1]
    ends = np.array([h[np.isfinite(h)][-1] if np.isfinite(h).any() else 0.5 for h in heights.T])
    order, gap = np.argsort(ends, kind="stable"), min(0.17, 1.0 / max(1, n - 1))
    place = np.clip(ends[order], 0.0, 1.0)
    for k in range(1, n):
        place[k] = max(place[k], place[k - 1] + gap)
    place[-1] = min(place[-1], 1.0)
    for k in range(n - 2, -1, -1):
        place[k] = min(place[k], place[k + 1] - gap)
    for y, k in zip(place, order, strict=True):
        name = labels[k] if len(labels[k]) <= MAX_LABEL else f"…{labels[k][1 - MAX_LABEL:]}"  # ends tell more than beginnings
        ax.text(1.0, y, f" {plain(name)}", transform=ax.transAxes, fontsize=7.5, va="center",
                color=PALETTE[k % len(PALETTE)])


def limits(data: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[float, float]:
    """Vertical range for the data, widened to a bound that is near; never so narrow that rounding looks like motion."""
    finite = data[np.isfinite(data)]
    if not finite.size:
        return -1.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    least = max(1e-3 * max(abs(low), abs(high)), 1e-6)
    if high - low < least:
        low, high = (low + high - least) / 2, (low + high + least) / 2
    span = high - low
    bounds = np.concatenate([lower, upper])
    near = bounds[np.isfinite(bounds) & (bounds >= low - 0.7 * span) & (bounds <= high + 0.7 * span)].tolist()
    low, high = min([low, *near]), max([high, *near])
    return low - 0.08 * (high - low), high + 0.08 * (high - low)


def drawable(values: np.ndarray) -> np.ndarray:
    """The values with everything that cannot be drawn (NaN, infinities, overflow) turned into gaps."""
    data = np.asarray(values, float)
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(data) < MAX_PLOTTED, data, np.nan)
