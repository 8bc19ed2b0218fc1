"""Derivatives of the dynamics of robots on their feet, in the loops over the model, beside Pinocchio's, and what a program costs.

    pip install "lieocp[robots,peers]" && python tests/benchmarks/contact_derivatives.py

Solo12 at a random state, one to four feet held as points, without cones: forward dynamics with the forces of the contacts, its
first derivatives and the contracted second ones, and the same of the equations of motion as residuals, with accelerations and
forces as unknowns. Beside them Pinocchio's ``constraintDynamics`` and ``computeConstraintDynamicsDerivatives`` from C++, called
from Python, whose overhead, that of ``computeJointJacobians`` of a model of one joint, is taken off. Pinocchio has no second
derivatives of constrained dynamics. Processor microseconds, medians; tools take turns. Accelerations and their derivatives are
compared; robots must have their joints in the same order on both sides.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
from result_tables import FOLDER, write_page, write_table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from numba import njit  # noqa: E402  # the repository's own packages need the path above
from timing import from_python, loop_runs, measure  # noqa: E402

from dynamics import algorithms as alg  # noqa: E402
from dynamics.constraints import PointContact  # noqa: E402
from dynamics.loops import LoopDynamics, residual  # noqa: E402
from dynamics.mechanism import Mechanism, direct_motors  # noqa: E402
from dynamics.model.robots import robot_paths  # noqa: E402
from dynamics.model.urdf import read_urdf  # noqa: E402

ROBOTS = {"solo12": ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")}
COLUMNS = ("robot", "feet", "quantity", "loops [us]", "Pinocchio [us]", "ratio", "differ")
FREE, CONSTRAINED = ("forward dynamics", "FD first order", "FD contracted second order"), (
    "forward dynamics", "first derivatives", "contracted second derivatives")


@njit
def _residual(count, integers, reals, work, q, v, a, lam, t, mu, to):
    for _ in range(count):
        residual.contracted(integers, reals, work, q, v, a, lam, t, mu, to)


@njit
def _residual_first(count, integers, reals, work, q, v, a, lam, t, to):
    for _ in range(count):
        residual.derivatives(integers, reals, work, q, v, a, lam, t, to)


def rows_of(name: str, feet: int) -> list[dict[str, Any]]:
    path = robot_paths()[name]
    model = read_urdf(path, root="free_flyer")
    joints = [n for n in model.velocity_names if n in model.coordinate_names]
    held = tuple(PointContact(frame, frame, gains=(0.0, 0.0)) for frame in ROBOTS[name][:feet])
    face = LoopDynamics(Mechanism(model, direct_motors(model, joints), (), (), held))
    rng, n, m = np.random.default_rng(0), model.nv, 3 * feet
    q, (v, a, tau, mu) = alg.random_configuration(model, rng), rng.normal(size=(4, model.nv))
    runs = loop_runs(face, q, v, a, tau, mu)
    ours = [runs[title] for title in FREE]
    start = face.tables.integers, face.tables.reals, face.tables.workspace()
    points = q[None], v[None], a[None], rng.normal(size=(1, m)), np.zeros((1, 1))
    to = residual.Results(*(np.zeros((1, *shape)) for shape in ((n + m,), (3, n, n), (3, m, n), (4, n, n), (m, n))))
    weights = rng.normal(size=(1, n + m))
    ours += [lambda count: _residual_first(count, *start, *points, to),
             lambda count: _residual(count, *start, *points, weights, to)]
    labels = [*CONSTRAINED, "residual, first derivatives", "residual, contracted second derivatives"]
    theirs, gaps = pinocchio(path, name, feet, (q, v, tau), face)
    times = np.median(measure(*ours, *theirs), axis=1)
    overhead = times[-1] if theirs else 0.0
    peers = [times[5] - overhead, times[5] + times[6] - 2 * overhead] if theirs else []
    found = []
    for k, (label, own) in enumerate(zip(labels, times, strict=False)):
        row: dict[str, Any] = {"robot": name, "feet": feet, "quantity": label, "loops [us]": float(own)}
        if k < len(peers):
            row |= {"Pinocchio [us]": float(peers[k]), "ratio": float(own / peers[k]), "differ": gaps[k]}
        found.append(row)
    return found


def pinocchio(path: Path, name: str, feet: int, at: tuple[np.ndarray, ...], face: LoopDynamics) -> tuple[list[Any], list[float]]:
    """Runs of its dynamics, of its derivatives after these, and of a call that does next to nothing; by how much values differ."""
    try:
        import pinocchio as pin
    except ImportError:
        return [], []
    model = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    data, q, v, tau = model.createData(), at[0].copy(), at[1], at[2]
    q[3:7] = q[[4, 5, 6, 3]]  # its quaternions have the scalar last
    contacts = pin.StdVec_RigidConstraintModel()
    for frame in ROBOTS[name][:feet]:
        own = model.frames[model.getFrameId(frame)]
        contact = pin.RigidConstraintModel(pin.ContactType.CONTACT_3D, model, own.parentJoint, own.placement,
                                           pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
        contacts.append(contact)
    datas = pin.StdVec_RigidConstraintData()
    for contact in contacts:
        datas.append(contact.createData())
    settings = pin.ProximalSettings(1e-12, 1e-12, 1)
    pin.initConstraintDynamics(model, data, contacts, datas)

    def dynamics() -> Any:
        return pin.constraintDynamics(model, data, q, v, tau, contacts, datas, settings)

    def derivatives() -> Any:
        return pin.computeConstraintDynamicsDerivatives(model, data, contacts, datas, settings)

    a = dynamics().copy()
    found = derivatives()
    ours, first = face.forward_dynamics_derivatives(*at)
    gaps = [float(np.abs(a - ours).max() / np.abs(ours).max()),
            max(float(np.abs(x - y).max() / np.abs(y).max()) for x, y in zip(found[:3], first, strict=True))]
    small = pin.Model()
    small.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "one")
    tiny, zero = small.createData(), np.zeros(1)
    return [from_python(dynamics), from_python(derivatives),
            from_python(lambda: pin.computeJointJacobians(small, tiny, zero))], gaps


def page(rows: list[dict[str, Any]]) -> list[str]:
    def cell(value: Any) -> str:
        return "-" if value in ("", None) else f"{value:.3g}" if isinstance(value, float) else str(value)

    compared = [row for row in rows if row.get("ratio")]
    lost = [row for row in compared if row["ratio"] > 1.0]
    lines = ["# Derivatives of the dynamics of robots on their feet", "", *(__doc__ or "").split("\n\n", 2)[2].splitlines(), "",
             f"Made by `tests/benchmarks/contact_derivatives.py`; {platform.processor() or platform.machine()}, {os.cpu_count()} "
             f"processors, casadi {ca.__version__}. Ratio: loops over Pinocchio; differ: relative to the largest entry.", "",
             f"Slower than Pinocchio in {len(lost)} of {len(compared)} rows{': ' if lost else '.'}"
             + "; ".join(f"{row['robot']}, {row['feet']} feet, {row['quantity']}" for row in lost), "",
             f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    return lines + [f"| {' | '.join(cell(row.get(column)) for column in COLUMNS)} |" for row in rows]


def main() -> None:
    rows: list[dict[str, Any]] = []
    for name in ROBOTS:
        for feet in (1, 2, 4):
            rows += rows_of(name, feet)
            for row in rows[-5:]:
                print({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
    path = FOLDER / "contact_derivatives.csv"
    write_table(path, [{column: row.get(column, "") for column in COLUMNS} for row in rows], COLUMNS, "4g")
    write_page(path.with_suffix(".md"), page(rows))


if __name__ == "__main__":
    main()
