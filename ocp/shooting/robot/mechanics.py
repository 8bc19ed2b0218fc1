"""One integrator step as a compiled loop over the robot: the record, and the walk through the nodes of a step.

The discrete maps are those of ``ocp.integrators``. A step has slots j = 0 ... s: the s nodes at which forward dynamics
are evaluated (slot 0 is x itself) and, last, the next state. With accelerations a_i at the nodes,

    v_j = v + h sum_i velocity_weights[j, i] a_i            q_j = q moved by the v_i with weights h position_weights[j, i]

where flat coordinates add and curved joints move as ``ocp.shooting.robot.joint_motion`` says. The symplectic Euler step moves q
with the velocity of its own last slot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dynamics.kernels import Kernel, Workspace
from dynamics.kernels.bank import Bank, evaluate, make_bank
from dynamics.kernels.calls import address_of, row_address
from dynamics.kernels.linked import linked
from dynamics.kernels.record import Record
from dynamics.loops import forward, make_tables
from dynamics.loops.acting import give
from dynamics.loops.held import multipliers
from ocp.errors import ProblemError
from ocp.integrators import INTEGRATORS, STAGES
from ocp.problem import System
from ocp.shooting.robot.joint_motion import curved_kinds, motion
from ocp.shooting.stages.costs import LocalCost

Array = np.ndarray
# slots of the bank: costs, then (value, Jacobian, Hessian) of each curved record for each number of sources
COST, COST_GRADIENT, COST_HESSIAN, COST_EXACT, MOTION = 0, 1, 2, 3, 4
VALUE, JACOBIAN, HESSIAN = 0, 1, 2


class Mechanics(Record):
    """A robot, an integrator and the memory of one step. One record serves one thread.

    table, reals, work, wrenches: of ``dynamics.loops`` (no wrenches act); tableau as in the module docstring, node times
    clock [s] and cost weights quadrature [s] in units of h; flat [k, 2]: (coordinate, velocity); curved [k, 4]: (record, first
    coordinate, first velocity, number of velocities); drive [k, 2]: (velocity, control) and gain [k] of the motors; thrusts [2]:
    the first control that is a thrust, and how many are; inner [n]: which of accelerations and multipliers at the beginning of a
    step rows hold; kinds: addresses of the records by kind of stage, 0 where code is generated; then the slots: x [s + 1, nx],
    a [s, nv], tau [nv], alpha [s + 1], time [1], cost [1].
    """

    table: Array
    reals: Array
    work: Array
    wrenches: Array
    velocity_weights: Array
    position_weights: Array
    clock: Array
    quadrature: Array
    flat: Array
    curved: Array
    drive: Array
    gain: Array
    thrusts: Array
    inner: Array
    kinds: Array
    bank: Bank
    x: Array
    a: Array
    tau: Array
    alpha: Array
    time: Array
    cost: Array


def tableau(integrator: str) -> tuple[Array, Array, Array, Array]:
    """(velocity weights [s + 1, s], position weights [s + 1, s + 1], clock [s], quadrature [s]) of an integrator.

    Raises ProblemError for one that loops over a robot cannot run (``Integrator.loops``).
    """
    if not INTEGRATORS[integrator].loops:
        able = ", ".join(name for name, other in INTEGRATORS.items() if other.loops)
        raise ProblemError(f"loops over a robot cannot run the integrator {integrator!r}; they run {able}. Generated code runs all "
                           "of them", where="execution")
    rows = INTEGRATORS[integrator].tableau or INTEGRATORS["euler"].tableau  # symplectic Euler: nodes and velocities of Euler
    assert rows is not None
    velocity = np.array([*rows.a, rows.b])
    position = np.hstack([velocity, np.zeros((len(velocity), 1))])
    if integrator == "semi_implicit_euler":
        position = np.array([[0.0, 0.0], [0.0, 1.0]])
    return velocity, position, np.array(rows.c), np.array(rows.b)


def motions(system: System, integrator: str, full: bool) -> dict[int, Any]:
    """CasADi functions of the curved joints of a robot by their slots of the bank."""
    exponential = integrator in ("euler", "semi_implicit_euler")
    sources = {int(count) for count in np.count_nonzero(tableau(integrator)[1], axis=1) if count}
    found: dict[int, Any] = {}
    for number, kind in enumerate(curved_kinds(system.model)):
        for count in sources:
            made = motion(kind, count, exponential)
            first = _motion_slot(number, count)
            found |= {first + VALUE: made.value, first + JACOBIAN: made.jacobian}
            found |= {first + HESSIAN: made.hessian} if full else {}
    return found


def bank_functions(system: System, integrator: str, cost: LocalCost, full: bool) -> dict[int, Any]:
    """Functions of costs and of curved joints by their slots; no dynamics are in them."""
    costs = {COST: cost.value, COST_GRADIENT: cost.gradient, COST_HESSIAN: cost.hessian}
    costs |= {COST_EXACT: cost.exact} if full else {}
    return costs | motions(system, integrator, full)


def make_mechanics(system: System, integrator: str, rectangle: bool, kernels: Mapping[int, Kernel], inner: Sequence[int],
                   kinds: Array) -> tuple[Mechanics, list[Workspace]]:
    """A record with memory of its own, and the workspaces that must outlive it. rectangle: costs at the knot only; inner, kinds:
    as in the record."""
    model = system.model
    joints = curved_kinds(model)
    tables, (loaded, spaces) = make_tables(system.mechanism), make_bank(kernels, MOTION + 3 * STAGES * len(joints))
    velocity, position, clock, quadrature = tableau(integrator)
    if rectangle:
        quadrature = np.eye(1, len(quadrature))[0]
    flat: list[tuple[int, int]] = []
    curved: list[tuple[int, int, int, int]] = []
    for kind, qs, vs in model.factors:
        if kind.is_vector_space:
            flat += [(qs.start + k, vs.start + k) for k in range(kind.nv)]
        else:
            curved.append((joints.index(kind), qs.start, vs.start, kind.nv))
    motors = len(system.mechanism.motors)
    selection = np.array(system.mechanism.selection.full()).reshape(model.nv, motors)
    drive = np.argwhere(selection)
    nodes = len(clock)
    return Mechanics(
        tables.integers, tables.reals, tables.workspace(), np.zeros((0, 6)), velocity, position, clock, quadrature,
        _table(flat, 2), _table(curved, 4), _table(drive, 2), selection[tuple(drive.T)].astype(float),
        np.array([motors, system.nu - motors]), np.array(inner, dtype=np.int64), kinds, loaded,
        np.zeros((nodes + 1, system.nx)), np.zeros((nodes, model.nv)), np.zeros(model.nv), np.zeros(nodes + 1), np.zeros(1),
        np.zeros(1)), spaces


def _table(rows: Sequence[Any] | Array, columns: int) -> Array:
    return np.ascontiguousarray(np.array(rows, dtype=np.int64).reshape(-1, columns))


@linked
def _motion_slot(kind: int, sources: int) -> int:
    """Slot of the bank that holds the value kernel of a curved joint kind moved by that many sources."""
    return MOTION + 3 * (STAGES * kind + sources - 1)


# ---- inside loops (arrays are taken out of the record first: nothing then stands between the compiler and the inner loops)
@linked
def start(m: Mechanics, x: Array, u: Array) -> None:
    """Slot 0 and the generalised forces of the controls."""
    slots, tau, drive, gain = m.x, m.tau, m.drive, m.gain
    for i in range(slots.shape[1]):
        slots[0, i] = x[i]
    for i in range(tau.shape[0]):
        tau[i] = 0.0
    for k in range(drive.shape[0]):
        tau[drive[k, 0]] += gain[k] * u[drive[k, 1]]


@linked
def bind_motion(m: Mechanics, j: int, joint: int, h: float) -> int:
    """Set the arguments of a curved joint's kernels for slot j; returns the slot of its value kernel in the bank."""
    x, weights, alpha, arg, curved = m.x, m.position_weights, m.alpha, m.bank.arg, m.curved
    nq = x.shape[1] - m.tau.shape[0]
    kind, q, v = curved[joint, 0], curved[joint, 1], curved[joint, 2]
    arg[0] = row_address(x, 0) + 8 * q
    arg[1] = address_of(alpha)
    n = 0
    for i in range(x.shape[0]):
        if weights[j, i] != 0.0:
            alpha[n] = h * weights[j, i]
            arg[2 + 2 * n] = row_address(x, i) + 8 * q
            arg[3 + 2 * n] = row_address(x, i) + 8 * (nq + v)
            n += 1
    return _motion_slot(kind, n)


@linked
def stage_state(m: Mechanics, j: int, h: float) -> int:
    """Fill x[j] from the slots before. Returns 0 or the status of the kernel that failed."""
    x, a, flat, curved, bank = m.x, m.a, m.flat, m.curved, m.bank
    velocity_weights, position_weights = m.velocity_weights, m.position_weights
    nv = a.shape[1]
    nq = x.shape[1] - nv
    for r in range(nv):
        x[j, nq + r] = x[0, nq + r]
    for i in range(a.shape[0]):
        if velocity_weights[j, i] != 0.0:
            weight = h * velocity_weights[j, i]
            for r in range(nv):
                x[j, nq + r] += weight * a[i, r]
    for n in range(flat.shape[0]):
        x[j, flat[n, 0]] = x[0, flat[n, 0]]
    for i in range(x.shape[0]):
        if position_weights[j, i] != 0.0:
            weight = h * position_weights[j, i]
            for n in range(flat.shape[0]):
                x[j, flat[n, 0]] += weight * x[i, nq + flat[n, 1]]
    for joint in range(curved.shape[0]):
        slot = bind_motion(m, j, joint, h)
        bank.res[0] = row_address(x, j) + 8 * curved[joint, 1]
        status = evaluate(bank, slot + VALUE)
        if status != 0:
            return status
    return 0


@linked
def bind_cost(m: Mechanics, j: int, t: float, u: Array, p: Array, h: float) -> float:
    """Set the arguments of the cost kernels at node j; returns the weight of the node."""
    time, arg = m.time, m.bank.arg
    time[0] = t + m.clock[j] * h
    arg[0] = address_of(time)
    arg[1] = row_address(m.x, j)
    arg[2] = address_of(u)
    arg[3] = address_of(p)
    return float(h * m.quadrature[j])


@linked
def keep_inner(m: Mechanics, work: Array, to: Array, k: int) -> None:
    """Row k of what rows hold, from accelerations and multipliers at the beginning of a step."""
    nv, inner, a = m.tau.shape[0], m.inner, m.a
    for i in range(inner.shape[0]):
        n = inner[i]
        to[k, i] = a[0, n] if n < nv else work[multipliers(m.table) + n - nv]


def take_step(record, plan, path, k, after):  # type: ignore[no-untyped-def]
    """``ocp.shooting.engine.knots.take`` by loops (compiled where it is used): row k of plan and path; after [nx]."""
    slots, a, tau, value, quadrature, bank = record.x, record.a, record.tau, record.cost, record.quadrature, record.bank
    table, reals, work, wrenches, thrusts = record.table, record.reals, record.work, record.wrenches, record.thrusts
    nodes = a.shape[0]
    nq = slots.shape[1] - tau.shape[0]
    t, h, u = plan.t[k], plan.h[k], path.u[k]
    start(record, path.x[k], u)
    total = 0.0
    for n in range(nodes + 1):
        if n > 0:
            status = stage_state(record, n, h)
            if status != 0:
                return status
        if n < nodes:
            give(table, work, t + record.clock[n] * h, u, thrusts[0], thrusts[1])
            forward.forward_dynamics(table, reals, work, slots[n][:nq], slots[n][nq:], tau, wrenches, a[n])
            if n == 0:
                keep_inner(record, work, path.inner, k)
            if quadrature[n] != 0.0:
                weight = bind_cost(record, n, t, u, plan.p[k], h)
                bank.res[0] = address_of(value)
                status = evaluate(bank, COST)
                if status != 0:
                    return status
                total += weight * value[0]
    for c in range(slots.shape[1]):
        after[c] = slots[nodes, c]
    path.cost[k] = total
    return 0
