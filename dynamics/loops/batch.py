"""Forward dynamics and its derivatives at many points, one call for all of them: what a transcription evaluates at its nodes.

Points are rows: q [m, nq]; v, tau, mu, a [m, nv]; drive [m, 1 + thrusters]: time (s) and thrusts (N). Arrays of results must have
come zeroed the first time, see ``LoopDynamics``.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.loops import forward
from dynamics.loops.acting import give
from dynamics.loops.vectors import OPTIONS

Array = np.ndarray


@linked(**OPTIONS)
def forward_dynamics(table: Array, reals: Array, work: Array, q: Array, v: Array, tau: Array, drive: Array, f_ext: Array, a: Array
                     ) -> None:
    """Write a [m, nv]."""
    for k in range(q.shape[0]):
        give(table, work, drive[k, 0], drive[k], 1, drive.shape[1] - 1)
        forward.forward_dynamics(table, reals, work, q[k], v[k], tau[k], f_ext, a[k])


@linked(**OPTIONS)
def forward_dynamics_derivatives(table: Array, reals: Array, work: Array, q: Array, v: Array, tau: Array, drive: Array,
                                 f_ext: Array, a: Array, first: Array) -> None:
    """Write a and first [m, 3, nv, nv]: da/dq (tangent), da/dv, da/dtau."""
    for k in range(q.shape[0]):
        give(table, work, drive[k, 0], drive[k], 1, drive.shape[1] - 1)
        forward.forward_dynamics_derivatives(table, reals, work, q[k], v[k], tau[k], f_ext, a[k], first[k])


@linked(**OPTIONS)
def forward_contracted_second_order(table: Array, reals: Array, work: Array, q: Array, v: Array, tau: Array, drive: Array,
                                    mu: Array, f_ext: Array, to: forward.Results) -> None:
    """Write the results for weights mu [m, nv]."""
    for k in range(q.shape[0]):
        give(table, work, drive[k, 0], drive[k], 1, drive.shape[1] - 1)
        forward.forward_dynamics_derivatives(table, reals, work, q[k], v[k], tau[k], f_ext, to.a[k], to.first[k])
        forward.contract(table, reals, work, mu[k], to.first[k], to.lam, to.inverse, to.second[k])
