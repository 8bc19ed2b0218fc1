"""Pictures of a run of whole-body control: levels, tasks, contacts and torques as PNG bytes, and forces of contacts for its
animation."""

from __future__ import annotations

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dynamics.algorithms import contact_kinematics
from dynamics.model.model import Model
from ocp.app.pages import sheet
from ocp.app.pages.contact_scene import Pressed
from ocp.app.pages.panels import bundle, stem
from ocp.app.pages.sheet import Group, line_cell
from ocp.control.stance import stances_of
from ocp.problem import INF, Bounds
from ocp.wbc import WholeBodyRun

CAPTIONS = {
    "levels": ("Levels", "Residuals and slacks of every level over time, on a logarithmic axis: zero to rounding as long as "
               "the levels above leave room for it."),
    "tasks": ("Tasks", "Length of the error of every task while it is on."),
    "contacts": ("Contacts", "Normal force of every contact, commanded and in the plant, and the share of its friction that the "
                 "worst point uses: beyond 1 it would slip."),
    "torques": ("Torques", "As commanded. Shaded: beyond their limits."),
}
MIN_LOG10 = -16.0
#: excess over a bound that is drawn red
VISIBLE = 1e-6
MAX_PANELS = 24


def plot_run(run: WholeBodyRun) -> dict[str, bytes]:
    """All pictures of a run, by the names in CAPTIONS."""
    return {"levels": _levels(run), "tasks": _tasks(run), "contacts": _contacts(run), "torques": _torques(run)}


def _span(run: WholeBodyRun) -> tuple[float, float]:
    return float(run.t[0]), float(run.t[-1])


def _levels(run: WholeBodyRun) -> bytes:
    pick = sheet.thinned(len(run.solved))
    t = run.t[:-1][pick]
    with np.errstate(divide="ignore"):
        cells = [line_cell(f"log10 |{name}|", "", t, np.maximum(np.log10(values[pick]), MIN_LOG10)[:, None])
                 for name, values in run.levels.items()]
    return sheet.sheet([Group("levels", tuple(cells))], _span(run)) if cells else sheet.sentence("No level was solved.")


def _tasks(run: WholeBodyRun) -> bytes:
    pick = sheet.thinned(len(run.solved))
    cells = [line_cell(name, "", run.t[:-1][pick], values[pick][:, None]) for name, values in run.errors.items()
             if np.isfinite(values).any()]
    return sheet.sheet([Group("errors", tuple(cells))], _span(run)) if cells else sheet.sentence("No task has an error to draw.")


def _contacts(run: WholeBodyRun) -> bytes:
    if not run.contacts:
        return sheet.sentence("There are no contacts.")
    pick, forces, shares = sheet.thinned(len(run.solved)), [], []
    t = run.t[:-1][pick]
    for plan, c in zip(run.setup.contacts, run.contacts, strict=True):
        told = bool(np.isfinite(c.actual).any())
        both = [force @ plan.plane[2] for force in ((c.actual, c.commanded) if told else (c.commanded,))]
        labels = ("plant", "commanded") if told else ("",)
        forces.append(line_cell(c.name, "N", t, np.column_stack(both)[pick], labels))
        share = c.share[pick][:, ::-1] if told else c.share[pick][:, :1]
        shares.append(line_cell(c.name, "", t, np.where(np.isfinite(share), share, np.nan), labels,
                                Bounds.of([(-INF, 1.0)] * len(labels)), VISIBLE))
    columns = min(4, len(forces))
    return sheet.sheet([Group("normal force", tuple(forces), columns=columns),
                        Group("share of friction", tuple(shares), columns=columns)], _span(run))


def _torques(run: WholeBodyRun) -> bytes:
    if not run.driven:
        return sheet.sentence("There are no motors.")
    pick = sheet.thinned(len(run.solved))
    cells = []
    for columns in bundle(run.driven, range(len(run.driven)), {}, (), MAX_PANELS):
        title, labels = stem([run.driven[i] for i in columns])
        most = float(run.efforts[columns].max())
        cells.append(line_cell(title, "N m", run.t[:-1][pick], run.torque[pick][:, columns], labels,
                               Bounds.of([(-most, most)] * len(columns)), VISIBLE))
    return sheet.sheet([Group("torques", tuple(cells))], _span(run))


Array = NDArray[np.float64]


def pressed(run: WholeBodyRun, model: Model, pick: NDArray[np.int64]) -> list[Pressed]:
    """Contacts at some states (their numbers, ``pick`` [frames]). Forces are those of the plant, where it tells them; they act at
    the mean of the contact's points."""
    if not run.contacts or not len(run.solved):
        return []
    told = [np.nan_to_num(c.actual if np.isfinite(c.actual).any() else c.commanded) for c in run.contacts]
    at = np.clip(pick - 1, 0, len(run.solved) - 1)  # those that led to the state
    return [Pressed(plan, place, force[at]) for plan, place, force in zip(
        run.setup.contacts, _mean_points(run, model, pick), told, strict=True)]


def _mean_points(run: WholeBodyRun, model: Model, pick: NDArray[np.int64]) -> list[Array]:
    """By contact the mean [frames, 3] of its points."""
    stances = [[s.contact_point for s in stances_of(plan)] for plan in run.setup.contacts]
    q = ca.SX.sym("q", model.nq)
    means = [ca.sum2(contact_kinematics.contact_positions(model, q, own)) / len(own) for own in stances]
    found = ca.Function("places", [q], [ca.densify(ca.horzcat(*means))])(run.x[pick, :model.nq].T).full()
    both = found.reshape(3, len(pick), len(stances))  # CasADi lays the evaluations side by side
    return [both[:, :, k].T for k in range(len(stances))]
