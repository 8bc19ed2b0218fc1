"""Why a step of a robot may have failed: joints whose coordinates come to a place where they no longer move it every way."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import casadi as ca
import numpy as np

from dynamics.model.model import Model

#: smallest singular value of S over its largest below which a joint counts as singular
SINGULAR = 0.03


def singular_joint(model: Model, q: np.ndarray, but: Collection[str] = ()) -> tuple[str, int, float] | None:
    """(joint, step, smallest singular value of its S over its largest) of the joint that comes nearest to such a place along
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
