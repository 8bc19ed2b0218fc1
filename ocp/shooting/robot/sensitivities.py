"""Quadratic model of one step by propagating sensitivities through its slots, beside the walk of ``ocp.shooting.robot.mechanics``.

With X_j = d x_j / d z, z = (dx, u), in the tangent space of slot j (Hairer, Norsett, Wanner, Solving Ordinary Differential
Equations I, section I.14, applied to the tableau),

    da_j = FD_q X_j,q + FD_v X_j,v + FD_tau (S, B(q)) dU        X_j,v = X_0,v + h sum_i velocity_weights[j, i] da_i

and X_j,q likewise; curved joints bring their Jacobians. X_0 is the identity; the last slot holds (A, B).
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.calls import address_of, row_address
from dynamics.kernels.linked import linked
from dynamics.kernels.record import Record
from dynamics.loops import forward, make_tables
from dynamics.loops.acting import directions, give
from dynamics.loops.dense import Block, add, add_congruence, clear, copy, flat, padded, product
from dynamics.loops.frames import lanes_of
from dynamics.loops.held import multiplier_derivatives
from dynamics.loops.lanes import WIDTH
from ocp.problem import System
from ocp.shooting.robot import mechanics as mech

Array = np.ndarray


class Sensitivities(Record):
    """A step with the memory of its derivatives: s nodes, n = 2 nv, columns of z padded to ``width``.

    X [s + 1, n, width], da [s, nv, width], first [s, 3, nv, nv] (of forward dynamics), motion [s + 1, joints, 6 * 6 * (1 + 2
    sources)] (Jacobians of curved joints); cost derivatives cost_gradient [n + m], lxx [r, r], lux [m, r], luu [m, m], support [r];
    H [n + m, width] and gradient [1, width] of the step; scratch Z, T [max(n, rows of a curve), width], R [m, width].

    kinds: addresses of the records by kind of stage. For the full Hessian: workspaces [s, ...] of ``dynamics.loops``, one for each
    node, in which the walk leaves what second derivatives need; adjoints x_bar [s + 1, n], a_bar [s, nv]; lam [nv], inverse and
    second [4, nv, nv], K [n, n], controls [m, n], curve_hessian [rows of a curve, the same].
    """

    mechanics: mech.Mechanics
    kinds: Array
    X: Array
    da: Array
    first: Array
    motion: Array
    cost_gradient: Array
    lxx: Array
    lux: Array
    luu: Array
    support: Array
    H: Array
    gradient: Array
    Z: Array
    T: Array
    R: Array
    workspaces: Array
    x_bar: Array
    a_bar: Array
    lam: Array
    inverse: Array
    second: Array
    K: Array
    controls: Array
    curve_hessian: Array


def make_sensitivities(mechanics: mech.Mechanics, system: System, integrator: str, support: tuple[int, ...], kinds: Array
                       ) -> Sensitivities:
    """Memory for a step; the mechanics become part of the record and must not be used elsewhere."""
    position = mech.tableau(integrator)[1]
    nodes, nv, m, r = len(position) - 1, system.model.nv, system.nu, len(support)
    n, joints = 2 * nv, sum(not kind.is_vector_space for kind, _, _ in system.model.factors)
    z, width = n + m, padded(n + m)
    X = np.zeros((nodes + 1, n, width))
    X[0, :, :n] = np.eye(n)
    rows = 6 * (1 + 2 * int(np.count_nonzero(position[-1])))
    tall = max(n, rows)
    return Sensitivities(
        mechanics, kinds, X, np.zeros((nodes, nv, width)), np.zeros((nodes, 3, nv, nv)), np.zeros((nodes + 1, joints, 6 * rows)),
        np.zeros(z), np.zeros((r, r)), np.zeros((m, r)), np.zeros((m, m)), np.array(support, dtype=np.int64),
        np.zeros((z, width)), np.zeros((1, width)), np.zeros((tall, width)), np.zeros((tall, width)), np.zeros((m, width)),
        _workspaces(system, nodes), np.zeros((nodes + 1, n)), np.zeros((nodes, nv)), np.zeros(nv),
        np.zeros((4, nv, nv)), np.zeros((4, nv, nv)), np.zeros((n, n)), np.zeros((m, n)), np.zeros((rows, rows)))


def _workspaces(system: System, count: int) -> Array:
    """Workspaces of ``dynamics.loops`` [count, size], each on a cache-line boundary."""
    size = padded(make_tables(system.mechanism).work)
    raw = np.zeros(count * size + WIDTH)
    skip = (-raw.ctypes.data // raw.itemsize) % WIDTH
    return raw[skip:skip + count * size].reshape(count, size)


@linked
def walk(s: Sensitivities, t: float, x: Array, u: Array, h: float) -> int:
    """Fill states, accelerations and sensitivities of every slot. Returns 0 or the status of the kernel that failed."""
    m, first, spaces = s.mechanics, s.first, s.workspaces
    slots, a, tau, table, reals, wrenches = m.x, m.a, m.tau, m.table, m.reals, m.wrenches
    nodes = a.shape[0]
    nq = slots.shape[1] - tau.shape[0]
    mech.start(m, x, u)
    for j in range(nodes + 1):
        if j > 0:
            status = mech.stage_state(m, j, h)
            if status == 0:
                status = _carry(s, j, h)
            if status != 0:
                return status
        if j < nodes:
            give(table, spaces[j], t + m.clock[j] * h, u, m.thrusts[0], m.thrusts[1])
            forward.forward_dynamics_derivatives(table, reals, spaces[j], slots[j][:nq], slots[j][nq:], tau, wrenches, a[j],
                                                 first[j])
            _acceleration(s, j)
    return 0


@linked
def _acceleration(s: Sensitivities, j: int) -> None:
    """da_j from X_j."""
    X, da, first, drive, gain = s.X, s.da, s.first, s.mechanics.drive, s.mechanics.gain
    nv, width = da.shape[1], da.shape[2]
    n, size = 2 * nv, nv * width
    clear(da, j * size, size)
    if j == 0:  # X_0 is the identity
        for i in range(nv):
            for k in range(nv):
                da[0, i, k] = first[0, 0, i, k]
                da[0, i, nv + k] = first[0, 1, i, k]
    else:
        out, one = Block(flat(da), j * size, width), 0 * j + 1
        for k in range(2):
            by, at = Block(flat(first), (3 * j + k) * nv * nv, nv), Block(flat(X), (2 * j + k) * size, width)
            product(out, by, one, at, out, nv, nv, width, j < 0)
    for k in range(drive.shape[0]):
        row, column = drive[k, 0], n + drive[k, 1]
        for i in range(nv):
            da[j, i, column] += first[j, 2, i, row] * gain[k]
    thrusts, B = s.mechanics.thrusts, directions(s.mechanics.table)
    for k in range(thrusts[1]):
        for i in range(nv):
            for row in range(nv):
                da[j, i, n + thrusts[0] + k] += first[j, 2, i, row] * s.workspaces[j, B + row * thrusts[1] + k]


@linked
def _carry(s: Sensitivities, j: int, h: float) -> int:
    """X_j from the slots before, velocities first."""
    m, X, da, motion, Z = s.mechanics, s.X, s.da, s.motion, s.Z
    curved, bank, velocity_weights, position_weights = m.curved, m.bank, m.velocity_weights, m.position_weights
    nv, width = da.shape[1], da.shape[2]
    size = nv * width
    copy(X, 0, X, 2 * j * size, 2 * size)
    for i in range(da.shape[0]):
        if velocity_weights[j, i] != 0.0:
            add(h * velocity_weights[j, i], da, i * size, X, (2 * j + 1) * size, size)
    for i in range(X.shape[0]):
        if position_weights[j, i] != 0.0:
            for f in range(m.flat.shape[0]):
                v = m.flat[f, 1] * width
                add(h * position_weights[j, i], X, (2 * i + 1) * size + v, X, 2 * j * size + v, width)
    for joint in range(curved.shape[0]):
        slot = mech.bind_motion(m, j, joint, h)
        bank.res[0] = row_address(motion[j], joint)
        status = mech.evaluate(bank, slot + mech.JACOBIAN)
        if status != 0:
            return status
        v, count = curved[joint, 2], curved[joint, 3]
        rows = gather(s, j, joint)
        at = 2 * j * size + v * width
        clear(X, at, count * width)
        by, out = Block(flat(motion), (j * curved.shape[0] + joint) * motion.shape[2], rows), Block(flat(X), at, width)
        product(out, by, 0 * j + 1, Block(flat(Z), 0 * j, width), out, count, rows, width, j < 0)
    return 0


@linked
def gather(s: Sensitivities, j: int, joint: int) -> int:
    """Copy the sensitivities of the inputs of a curved joint into Z: base, then (q_i, v_i) of each source. Returns the count."""
    m, X, Z = s.mechanics, s.X, s.Z
    curved, weights = m.curved, m.position_weights
    n, width = X.shape[1], X.shape[2]
    v, count = curved[joint, 2], curved[joint, 3]
    copy(X, v * width, Z, 0, count * width)
    at = count
    for i in range(X.shape[0]):
        if weights[j, i] != 0.0:
            for half in range(2):
                copy(X, (i * n + half * n // 2 + v) * width, Z, at * width, count * width)
                at += count
    return at


@linked
def cost_derivatives(s: Sensitivities, j: int, t: float, u: Array, p: Array, h: float, slot: int) -> tuple[int, float]:
    """Gradient of the running cost at node j and, unless the slot is COST_GRADIENT, its Hessian. Returns (status, weight of the
    node)."""
    m = s.mechanics
    res = m.bank.res
    weight = mech.bind_cost(m, j, t, u, p, h)
    res[0] = address_of(s.cost_gradient)
    if slot != mech.COST_GRADIENT:
        res[1] = address_of(s.lxx)
        res[2] = address_of(s.lux)
        res[3] = address_of(s.luu)
    return mech.evaluate(m.bank, slot), weight


def expand(record, plan, path, k, model, T, H, hessian):  # type: ignore[no-untyped-def]
    """``ocp.shooting.engine.knots.differentiate`` by loops (compiled where it is used): g [w] and F [n, w] of the model,
    H [n + m, w] and T, row k."""
    t, h, p, u = plan.t[k], plan.h[k], plan.p[k], path.u[k]
    status = walk(record, t, path.x[k], u, h)
    gather_inner(record, path.inner, T, k)
    return status if status != 0 else gather_model(record, t, h, p, u, k, model.g, model.F, H, hessian)


@linked
def gather_inner(s: Sensitivities, inner: Array, T: Array, k: int) -> None:
    """Row k of what rows hold [S+1, n], and of its derivative T [S+1, n, w]: accelerations and multipliers at the beginning of the
    step that was walked through."""
    m, da, work = s.mechanics, s.da, s.workspaces[0]
    mech.keep_inner(m, work, inner, k)
    which, drive, gain, nv, width = m.inner, m.drive, m.gain, da.shape[1], da.shape[2]
    for i in range(which.shape[0]):
        n, to = which[i] - nv, (k * T.shape[1] + i) * width
        if n < 0:
            copy(da, which[i] * width, T, to, width)
            continue
        clear(T, to, width)
        one = lanes_of(nv)
        by = multiplier_derivatives(m.table) + 3 * one * n
        for j in range(nv):
            T[k, i, j] = work[by + j]
            T[k, i, nv + j] = work[by + one + j]
        for d in range(drive.shape[0]):
            T[k, i, 2 * nv + drive[d, 1]] += work[by + 2 * one + drive[d, 0]] * gain[d]


@linked
def gather_model(s: Sensitivities, t: float, h: float, p: Array, u: Array, k: int, g: Array, F: Array, H: Array, hessian: bool
                 ) -> int:
    """Entries k of g, F and, if wanted, H of the step that was evaluated."""
    X, by_z, gradient, own, quadrature = s.X, s.cost_gradient, s.gradient, s.H, s.mechanics.quadrature
    nodes, n, z, width = X.shape[0] - 1, X.shape[1], by_z.shape[0], X.shape[2]
    clear(gradient, 0, width)
    if hessian:
        clear(own, 0, z * width)
    for j in range(nodes):
        if quadrature[j] != 0.0:
            status, weight = cost_derivatives(s, j, t, u, p, h, mech.COST_HESSIAN if hessian else mech.COST_GRADIENT)
            if status != 0:
                return status
            for i in range(n):
                if by_z[i] != 0.0:  # most costs look at a few coordinates; NaN is not zero
                    add(weight * by_z[i], X, (j * n + i) * width, gradient, 0, width)
            for i in range(n, z):
                gradient[0, i] += weight * by_z[i]
            if hessian:
                add_cost_hessian(s, j, weight)
    copy(gradient, 0, g, k * width, width)
    copy(X, nodes * n * width, F, k * n * width, n * width)
    if hessian:
        copy(own, 0, H, k * z * width, z * width)
    return 0


@linked
def add_cost_hessian(s: Sensitivities, j: int, weight: float) -> None:
    """H += weight [X_j; U]' (lxx, lux, luu) [X_j; U] on and below the diagonal; scales lxx and lux."""
    X, H, Z, lxx, lux, luu, support = s.X, s.H, s.Z, s.lxx, s.lux, s.luu, s.support
    width, n, r, controls = H.shape[1], X.shape[1], support.shape[0], luu.shape[0]
    for i in range(controls):
        for k in range(i + 1):
            H[n + i, n + k] += weight * luu[i, k]
        for k in range(r):
            lux[i, k] *= weight
    for i in range(r):
        for k in range(r):
            lxx[i, k] *= weight
    if j == 0:  # X_0 is the identity
        for i in range(r):
            for k in range(r):
                H[support[i], support[k]] += lxx[i, k]
            for k in range(controls):
                H[n + k, support[i]] += lux[k, i]
    elif r > 0:
        for i in range(r):
            copy(X, (j * n + support[i]) * width, Z, i * width, width)
        add_congruence(lxx, r, Z, width, s.T, H, H.shape[0])
        add_control_rows(lux, r, Z, 0, s.R, H, n)


@linked
def add_control_rows(lux: Array, r: int, Z: Array, at: int, R: Array, H: Array, n: int) -> None:
    """``H += U' lux Z`` and its transpose, on and below the diagonal; lux [m, r], Z [r, z] from a flat index; R: scratch."""
    controls, width = R.shape
    clear(R, 0, controls * width)
    zero, out = 0 * r, Block(flat(R), 0 * r, width)
    product(out, Block(flat(lux), zero, r), zero + 1, Block(flat(Z), at, width), out, controls, r, width, r < 0)
    for i in range(controls):
        for k in range(n):
            H[n + i, k] += R[i, k]
        for k in range(i + 1):
            H[n + i, n + k] += R[i, n + k] + R[k, n + i]
