"""Why a step of a robot may have failed: joints whose coordinates come to a point where they no longer move it every way, or leave
their splines."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import casadi as ca
import numpy as np

from dynamics.model.model import Model

#: smallest singular value of S over its largest below which a joint counts as singular
SINGULAR = 0.03


def singular_joint(model: Model, q: np.ndarray, but: Collection[str] = ()) -> tuple[str, int, float] | None:
    """(joint, step, smallest singular value of its S over its largest) of the joint that comes nearest to such a point along
    configurations q [k, nq]; None where none comes near. but: joints that are left out."""
    worst: tuple[str, int, float] | None = None
    for i, body in enumerate(model.bodies):
        kind: Any = model.kind(i)
        if body.joint.mimic is not None or kind.nv < 2 or body.joint.name in but:
            continue
        x = ca.SX.sym("q", kind.nq)
        S = ca.Function("S", [x], [ca.densify(ca.SX(kind.subspace(x)))])
        own = q[:, model.q_slice(i)]
        columns = np.asarray(S(own.T)).reshape(6, len(q), kind.nv).transpose(1, 0, 2)
        good = np.flatnonzero(np.isfinite(columns).all(axis=(1, 2)) & (np.abs(own) < 1e6).all(axis=1))
        if not len(good):
            continue
        sizes = np.linalg.svd(columns[good], compute_uv=False)
        share = sizes[:, -1] / np.maximum(sizes[:, 0], 1e-300)
        k = int(np.argmin(share))
        if share[k] < SINGULAR and (worst is None or share[k] < worst[2]):
            worst = (body.joint.name, int(good[k]), float(share[k]))
    return worst


def beyond_spline(model: Model, q: np.ndarray) -> tuple[str, int, float] | None:
    """(joint, step, end of its range) of the joint that first leaves the frames, or the grid, of its spline along configurations
    q [k, nq]; None where none does. Beyond, S shrinks to zero."""
    first: tuple[str, int, float] | None = None
    for i, body in enumerate(model.bodies):
        joint = body.joint
        ends = [len(joint.frames) - 3] if joint.frames else [len(joint.grid) - 3, len(joint.grid[0]) - 3] if joint.grid else []
        if joint.mimic is None:
            for own, end in zip(q[:, model.q_slice(i)].T, ends, strict=False):
                out = np.flatnonzero((own < 0) | (own > end))
                if len(out) and (first is None or out[0] < first[1]):
                    first = joint.name, int(out[0]), float(end)
    return first
