"""``ocp export RUN``: the motion of a run for other programs.

    motion.csv   time, states, controls and what the drives give, one line a knot
    motion.npz   the same as arrays with names and units; of a robot also MuJoCo's ``qpos`` and ``qvel``, in its order
    motion.h, .c the same as tables of C99, and a function that interpolates them

Runs of ``ocp solve``, ``simulate``, ``mpc`` and ``wbc`` are read, those of earlier versions too. Phases with the same names are one
motion, of which the later phase has the instant between two; others are one motion each.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import casadi as ca
import numpy as np

from dynamics.errors import near
from dynamics.mechanism import Mechanism
from dynamics.model.model import Model
from dynamics.notation.adapters import coordinate_names, to_mujoco
from ocp.app.c_code import motion_code
from ocp.app.files.control.wbc import load_wbc_text
from ocp.app.files.load import load_text
from ocp.app.pages.folders import csv_text, write_arrays
from ocp.app.pages.results import read_summary
from ocp.bridge import drive_efforts, model_space
from ocp.bridge.motion import units_of
from ocp.errors import ProblemError
from ocp.problem import System

FORMATS = ("csv", "npz", "c")
VERSION = 1
#: kinds of runs, and how their controls go on between knots where that does not depend on the method
KINDS = {"lieocp run": None, "lieocp simulation": True, "lieocp closed loop": True, "lieocp whole-body control": True}
CONVENTIONS = (
    "SI units, angles in radians. x: configuration q, then velocity v; a floating base is position, then unit quaternion "
    "(w, x, y, z), its velocity [linear; angular] in body axes. qpos, qvel: MuJoCo's, joints depth first, the linear velocity of a "
    "free joint in world axes. tau: what the drives give; u: controls of the problem. 'held': u and tau act until the next time.")


@dataclass(frozen=True)
class Motion:
    """t [k] s; x [k, nx], u [k, nu], tau [k, n] with their names, and units in this order; zero_order_hold: whether u and tau stay
    from one time to the next; quaternions: where unit quaternions begin in x; model: of a robot."""

    name: str
    t: np.ndarray
    x: np.ndarray
    u: np.ndarray
    tau: np.ndarray
    states: tuple[str, ...]
    controls: tuple[str, ...]
    drives: tuple[str, ...]
    units: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    zero_order_hold: bool
    quaternions: tuple[int, ...] = ()
    model: Model | None = None

    @property
    def named(self) -> Iterable[tuple[str, tuple[str, ...], tuple[str, ...]]]:
        """x, u and tau: names and units of their columns."""
        return zip(("x", "u", "tau"), (self.states, self.controls, self.drives), self.units, strict=True)

    def at(self, t: np.ndarray) -> Motion:
        """At other times within, as the table of C does."""
        k = np.clip(np.searchsorted(self.t, t, side="right") - 1, 0, len(self.t) - 2)
        share = np.clip((t - self.t[k]) / np.diff(self.t)[k], 0.0, 1.0)
        a, b = self.x[k], self.x[k + 1]
        x = (1 - share[:, None]) * a + share[:, None] * b
        for i in self.quaternions:
            x[:, i:i + 4] = _between(a[:, i:i + 4], b[:, i:i + 4], share)
        later = share[:, None] == 1.0 if self.zero_order_hold else share[:, None]
        u, tau = ((1 - later) * own[k] + later * own[k + 1] for own in (self.u, self.tau))
        return replace(self, t=t, x=x, u=u, tau=tau)


def export(folder: Path, formats: Sequence[str] = FORMATS, *, rate: float | None = None, out: Path | None = None,
           overwrite: bool = False, models: Path | None = None) -> list[Path]:
    """Write the motion of a run; returns the files. rate: times a second, None: at the knots; out: default: ``export`` within the
    run, replaced where it is there; models: as of :func:`motions`. Raises ProblemError for what is no run, and for files that are
    there in ``out``."""
    for name in formats:
        if name not in FORMATS:
            raise ProblemError(f"no format named {name!r}{near(name, FORMATS)}", where="--formats")
    if rate is not None and not 0 < rate < np.inf:
        raise ProblemError(f"must be positive [Hz], got {rate:g}", where="--rate")
    found = motions(folder, models)
    made: dict[str, str | dict[str, np.ndarray]] = {}
    for motion in found:
        stem = f"motion_{_identifier(motion.name)}" if len(found) > 1 else "motion"
        own = motion if rate is None else motion.at(np.arange(motion.t[0], motion.t[-1] + 1e-9 / rate, 1.0 / rate))
        if "csv" in formats:
            made[f"{stem}.csv"] = _csv(own)
        if "npz" in formats:
            made[f"{stem}.npz"] = arrays(own)
        if "c" in formats:
            made |= motion_code(own, stem)
    place = Path(folder) / "export" if out is None else Path(out)
    there = [name for name in made if (place / name).exists()]
    if there and out is not None and not overwrite:
        raise ProblemError(f"already holds {', '.join(there)}; allow overwriting or name another folder", where=str(place))
    place.mkdir(parents=True, exist_ok=True)
    for name, content in made.items():
        if isinstance(content, str):
            (place / name).write_text(content, encoding="utf-8", newline="")
        else:
            write_arrays(place / name, content)
    return [place / name for name in made]


# ---- reading ------------------------------------------------------------------------------------------------------------
def motions(folder: Path, models: Path | None = None) -> tuple[Motion, ...]:
    """The motions of a run, from ``trajectory.csv`` and ``problem.yaml``. models: what its robot file is relative to; default: the
    run, which holds it. Raises ProblemError for what is no run."""
    folder, models = Path(folder), models or Path(folder)
    try:
        kind = read_summary(folder)["format"]
        text = (folder / "problem.yaml").read_text(encoding="utf-8")
        with (folder / "trajectory.csv").open(encoding="utf-8", newline="") as lines:
            header, *rows = csv.reader(lines)
    except (OSError, ValueError, KeyError, TypeError):
        kind = None
    if kind not in KINDS:
        raise ProblemError("is not the folder of a run (no summary.json written by lieocp)", where=str(folder))
    if kind == "lieocp whole-body control":
        mechanism = load_wbc_text(text, models, str(folder / "problem.yaml")).mechanism
        return (_robot_motion(header, rows, mechanism),)
    problem = load_text(text, models, str(folder / "problem.yaml")).problem
    several = header[0] == "phase"
    found = []
    for phase in problem.phases:
        own = [row for row in rows if not several or row[0] == phase.name]
        found.append(_motion(phase.name, header, own, phase.system, KINDS[kind] is not None or _zero_order_hold(folder, own)))
    if len({(one.states, one.controls, one.drives) for one in found}) == 1:
        return (_joined(found, problem.name),)
    return tuple(found)


def _zero_order_hold(folder: Path, rows: Sequence[Sequence[str]]) -> bool:
    """Whether controls are piecewise constant: one for each interval. Of several phases the archive has the arrays by name."""
    with np.load(folder / "trajectory.npz") as archive:
        lengths = [(len(archive[name]), len(archive[name[:-3] + "t"])) for name in archive.files if name.split(".")[-1] == "t_u"]
    return bool(lengths) and all(controls == knots - 1 for controls, knots in lengths)


def _columns(header: Sequence[str], rows: Sequence[Sequence[str]], names: Sequence[str], prefix: str) -> np.ndarray:
    """Columns [k, n] by name, which may have a prefix; what a constant control lacks at the end is what it was before."""
    at = [header.index(f"{prefix}{name}") if f"{prefix}{name}" in header else header.index(name) for name in names]
    found = np.array([[float(row[i]) if row[i] else np.nan for i in at] for row in rows]).reshape(len(rows), len(names))
    if len(rows) > 1 and np.isnan(found[-1]).all():
        found[-1] = found[-2]
    return found


def _between(a: np.ndarray, b: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Unit quaternions [k, 4] along the shorter arc (Shoemake 1985)."""
    dot = (a * b).sum(axis=1)
    angle = np.arccos(np.minimum(abs(dot), 1.0))
    turned = np.where(angle > 1e-7, np.sin(angle), 1.0)
    one, other = (np.where(angle > 1e-7, np.sin(s * angle) / turned, s) for s in (1 - share, share))
    return np.asarray(one[:, None] * a + (np.where(dot < 0, -1.0, 1.0) * other)[:, None] * b)


def _motion(name: str, header: Sequence[str], rows: Sequence[Sequence[str]], system: System, zero_order_hold: bool) -> Motion:
    t, x = _columns(header, rows, ["t"], "")[:, 0], _columns(header, rows, system.space.names, "x.")
    u, drives = _columns(header, rows, system.inputs, "u."), drive_efforts(system)
    tau, names, units = (np.zeros((len(t), 0)), (), ()) if drives is None else (
        drives.at_nodes(t, x, u), drives.names, drives.units)
    return Motion(name, t, x, u, tau, system.space.names, system.inputs, names,
                  (_units(system.units, system.space.names), _units(system.units, system.inputs), units), zero_order_hold,
                  system.space.quaternions, system.model)


def _units(known: Mapping[str, str], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(known.get(name, "") for name in names)


def _robot_motion(header: Sequence[str], rows: Sequence[Sequence[str]], mechanism: Mechanism) -> Motion:
    """Of whole-body control, which has torques and no other controls."""
    model = mechanism.model
    space, drives = model_space(model), tuple(name[4:] for name in header if name.startswith("tau."))
    t, x, tau = (_columns(header, rows, names, prefix) for names, prefix in (
        (["t"], ""), (space.names, "x."), (drives, "tau.")))
    units = units_of(mechanism)
    return Motion("motion", t[:, 0], x, np.zeros((len(t), 0)), tau, space.names, (), drives,
                  (_units(units, space.names), (), _units(units, drives)), True, space.quaternions, model)


def _joined(found: Sequence[Motion], name: str) -> Motion:
    """One after another; the instant between two belongs to the later."""
    last = len(found) - 1
    t, x, u, tau = (np.concatenate([values if i == last else values[:-1] for i, values in enumerate(own)])
                    for own in zip(*((one.t, one.x, one.u, one.tau) for one in found), strict=True))
    return replace(found[0], name=name, zero_order_hold=all(one.zero_order_hold for one in found), t=t, x=x, u=u, tau=tau)


# ---- writing ------------------------------------------------------------------------------------------------------------
def _csv(motion: Motion) -> str:
    header = ["t", *(f"{key}.{name}" for key, names, _ in motion.named for name in names)]
    return csv_text([header, *np.column_stack([motion.t, motion.x, motion.u, motion.tau]).tolist()])


def arrays(motion: Motion) -> dict[str, np.ndarray]:
    """Everything about a motion as arrays of numbers and text."""
    def texts(names: Sequence[str]) -> np.ndarray:
        return np.array(list(names), dtype=np.str_)

    found = {"version": np.array(VERSION), "conventions": np.array(CONVENTIONS), "t": motion.t, "x": motion.x, "u": motion.u,
             "tau": motion.tau, "held": np.array(motion.zero_order_hold)}
    for key, names, units in motion.named:
        found |= {f"{key}_names": texts(names), f"{key}_units": texts(units)}
    if motion.model is not None:
        qpos_names, qvel_names = coordinate_names(motion.model, "mujoco")
        found |= dict(zip(("qpos", "qvel"), mujoco_states(motion.model, motion.x), strict=True))
        found |= {"qpos_names": texts(qpos_names), "qvel_names": texts(qvel_names)}
    return found


def mujoco_states(model: Model, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(qpos, qvel) [k, ..] of MuJoCo, of a model whose bodies, joints and equalities of mimic joints are those of ``model``."""
    q, v = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
    found = to_mujoco(model, q=q, v=v)
    function = ca.Function("mujoco", [q, v], [ca.densify(ca.SX(found.q)), ca.densify(ca.SX(found.v))])
    qpos, qvel = function(x[:, :model.nq].T, x[:, model.nq:model.nq + model.nv].T)
    return np.asarray(qpos, float).T, np.asarray(qvel, float).T


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


__all__ = ["FORMATS", "Motion", "arrays", "export", "motions", "mujoco_states"]
