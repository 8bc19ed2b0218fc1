"""Inverse dynamics: recursive Newton-Euler in the root body's frame (Featherstone 2008, Table 5.1)."""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.loops import layout as at
from dynamics.loops.acting import push, whole
from dynamics.loops.bodies import external, forces, subtree_sums
from dynamics.loops.general import project_general
from dynamics.loops.kinematics import constants_at, fill_poses, move
from dynamics.loops.lanes import WIDTH, get, put, store
from dynamics.loops.vectors import INLINE, OPTIONS, dot6, load6

Array = np.ndarray


@linked(**INLINE)
def project(table: Array, reals: Array, work: Array, v: Array, a: Array, tau: Array) -> None:
    """tau [nv] from the subtree wrenches F, with armature and damping, through the coupling G."""
    for b in range(get(table, at.N_BLOCKS)):
        w = b * at.ROWS
        store(work, w + at.TAU, dot6(load6(work, w + at.S), load6(work, w + at.F)))
    nv, first, base = get(table, at.N_V), get(table, at.AT_COLUMNS), constants_at(table)
    for i in range(nv):
        put(tau, i, get(reals, at.AT_ARMATURE + i) * get(a, i) + get(reals, at.AT_ARMATURE + nv + i) * get(v, i))
    coupled = get(table, at.COUPLED) != 0
    for s in range(get(table, at.N_COLUMNS)):
        i, value = get(table, first + 3 * s + 2), get(work, get(table, first + 3 * s) + at.TAU)
        if coupled and get(table, first + 3 * s + 1) >= 0:
            value *= get(reals, base + s // WIDTH * at.CONSTANTS + s % WIDTH + at.K_MULTIPLIER)
        put(tau, i, get(tau, i) + value)
    if get(table, at.N_GENERAL) > 0:
        project_general(table, work, at.TAU, tau, 0)


@linked(**OPTIONS)
def inverse_dynamics(table: Array, reals: Array, work: Array, q: Array, v: Array, a: Array, f_ext: Array, tau: Array) -> None:
    """Write tau [nv]. q: [nq]; v, a: [nv]; f_ext: [bodies, 6] wrenches in body frames of the tables, or no rows."""
    fill_poses(table, reals, work, q)
    move(table, reals, work, v, a)
    external(table, reals, work, f_ext)
    forces(table, reals, work, False)
    subtree_sums(table, work, at.F, 6)
    project(table, reals, work, v, a, tau)
    if whole(table):
        push(table, work, q, v, -1.0, tau)


