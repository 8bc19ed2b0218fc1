"""The pictures of a run of whole-body control, each as PNG bytes: levels, tasks, contacts, torques."""

from __future__ import annotations

from functools import partial

import numpy as np

from ocp.app.pages import sheet
from ocp.app.pages.sheet import Group, bundle, stem
from ocp.wbc import WholeBodyRun

CAPTIONS = {
    "levels": ("Levels", "Residuals and slacks of every level over time, on a logarithmic axis: zero to rounding as long as "
               "the levels above leave room for it."),
    "tasks": ("Tasks", "Length of the error of every task while it is on."),
    "contacts": ("Contacts", "Normal force of every contact, commanded and in the plant, and the share of its friction that the "
                 "worst point uses: beyond 1 it would slip."),
    "torques": ("Torques", "As commanded. Shaded: beyond their limits."),
}
FLOOR = -16.0
MOST_PANELS = 24
_cell = partial(sheet.line_cell, tolerance=1e-6)


def plot_run(run: WholeBodyRun) -> dict[str, bytes]:
    """All pictures of a run, by the names in CAPTIONS."""
    return {"levels": _levels(run), "tasks": _tasks(run), "contacts": _contacts(run), "torques": _torques(run)}


def _span(run: WholeBodyRun) -> tuple[float, float]:
    return float(run.t[0]), float(run.t[-1])


def _levels(run: WholeBodyRun) -> bytes:
    pick = sheet.thinned(len(run.solved))
    t = run.t[:-1][pick]
    with np.errstate(divide="ignore"):
        cells = [_cell(f"log10 |{name}|", "", t, np.maximum(np.log10(values[pick]), FLOOR)[:, None])
                 for name, values in run.levels.items()]
    return sheet.sheet([Group("levels", tuple(cells))], _span(run)) if cells else sheet.sentence("No level was solved.")


def _tasks(run: WholeBodyRun) -> bytes:
    pick = sheet.thinned(len(run.solved))
    cells = [_cell(name, "", run.t[:-1][pick], values[pick][:, None]) for name, values in run.errors.items()
             if np.isfinite(values).any()]
    return sheet.sheet([Group("errors", tuple(cells))], _span(run)) if cells else sheet.sentence("No task has an error to draw.")


def _contacts(run: WholeBodyRun) -> bytes:
    if not run.contacts:
        return sheet.sentence("There are no contacts.")
    pick, forces, shares = sheet.thinned(len(run.solved)), [], []
    t = run.t[:-1][pick]
    for plan, c in zip(run.setup.contacts, run.contacts, strict=True):
        n = np.asarray(plan.record.normal, float) / np.linalg.norm(plan.record.normal)
        told = bool(np.isfinite(c.actual).any())
        both = [c.actual @ n, c.commanded @ n] if told else [c.commanded @ n]
        forces.append(_cell(c.name, "N", t, np.column_stack(both)[pick], ("plant", "commanded") if told else ("",)))
        share = c.share[pick][:, ::-1] if told else c.share[pick][:, :1]
        shares.append(_cell(c.name, "", t, np.where(np.isfinite(share), share, np.nan), ("plant", "commanded") if told else ("",),
                            (-np.inf, 1.0)))
    columns = min(4, len(forces))
    return sheet.sheet([Group("normal force", tuple(forces), columns=columns),
                        Group("share of friction", tuple(shares), columns=columns)], _span(run))


def _torques(run: WholeBodyRun) -> bytes:
    if not run.driven:
        return sheet.sentence("There are no motors.")
    pick = sheet.thinned(len(run.solved))
    cells = []
    for columns in bundle(run.driven, range(len(run.driven)), {}, (), MOST_PANELS):
        title, labels = stem([run.driven[i] for i in columns])
        most = float(run.efforts[columns].max())
        cells.append(_cell(title, "N m", run.t[:-1][pick], run.torque[pick][:, columns], labels, (-most, most)))
    return sheet.sheet([Group("torques", tuple(cells))], _span(run))
