"""From a horizon to the record that the compiled loops take: kernels compiled, arrays allocated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

import casadi as ca
import numpy as np

from dynamics.kernels import Kernel, Workspace, compile_many
from ocp.interrupts import Activity, check, seconds_left
from ocp.shooting.options import ILQROptions, Tuning
from ocp.shooting.stages.horizon import Horizon

if TYPE_CHECKING:  # Numba costs half a second: it is imported by the functions that make something for it
    from dynamics.kernels.bank import Bank
    from ocp.shooting.engine.record import Engine

Workspaces = list[Any]
"""Workspaces whose handles a record holds, and records whose addresses it holds: they must outlive it."""
_SLOT = {name: i for i, name in enumerate(("step", "expand", "first_order", "hessian", "difference", "plus", "value", "jacobian",
                                           "row_hessian", "whole"))}
"""Slots of a kind, in the order of ``ocp.shooting.engine.knots``."""


@dataclass(frozen=True)
class Compiled:
    """The kernels of a horizon: by slot of the bank, and those that loops over the robot call by kind of stage and slot (none if
    code is generated)."""

    horizon: Horizon
    options: ILQROptions
    bank: dict[int, Kernel]
    robot: dict[tuple[int, int], Kernel]

    def __reduce__(self) -> tuple[Any, ...]:
        """Kernels are made anew where it is read."""
        return compile_horizon, (self.horizon, self.options)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """All compiled functions of the engine."""
        return *self.bank.values(), *self.robot.values()

    @property
    def by_loops(self) -> tuple[int, ...]:
        """The kinds of stages that run as loops over the robot."""
        return tuple(i for i, stage in enumerate(self.horizon.kinds) if stage.local is not None)


def compile_horizon(horizon: Horizon, options: ILQROptions) -> Compiled:
    """Compile what is needed. Raises KernelError when compiled kernels are demanded and cannot be had."""
    full = options.hessian != "gauss_newton"
    wanted: dict[int, ca.Function] = {}
    for i, stage in enumerate(horizon.kinds):
        curved = flat_size(stage.space) == 0
        found: dict[str, ca.Function | None] = {"difference": stage.difference, "plus": stage.plus} if curved else {}
        if stage.local is None or stage.expand is not None:
            found |= {"step": stage.step}
            hessian = stage.whole or stage.hessian  # one kernel serves both: a null pointer says what is not wanted
            second = {"first_order": stage.first_order, "hessian": hessian, "whole": stage.whole}
            found |= second if full else {"expand": stage.expand}
            if options.hessian == "auto" or options.tuning.convexify == "gauss_newton":
                found["expand"] = stage.expand
        if stage.rows.count:
            found |= {"value": stage.rows.outer, "jacobian": stage.rows.jacobian}
            if stage.rows.curvature.jac_sparsity(0, 6).nnz():  # else all rows are linear
                found["row_hessian"] = stage.rows.curvature
        wanted |= {len(_SLOT) * i + _SLOT[name]: function for name, function in found.items() if function is not None}
    robot: dict[tuple[int, int], ca.Function] = {}
    for i, stage in enumerate(horizon.kinds):
        if stage.local is not None:
            from ocp.shooting.robot import mechanics

            robot |= {(i, slot): one for slot, one in mechanics.bank_functions(
                stage.local.system, options.integrator, stage.local, full).items()}
    check(Activity.KERNELS)
    mode = "quick" if options.kernels == "auto" else cast(Literal["tuned", "compiled", "interpreted"], options.kernels)
    kernels = compile_many([*wanted.values(), *robot.values()], mode=mode, seconds_left=seconds_left)
    return Compiled(horizon, options, dict(zip(wanted, kernels, strict=False)), dict(zip(robot, kernels[len(wanted):],
                                                                                         strict=True)))


def flat_size(space: Any) -> int:
    """Number of coordinates of a flat space, 0 for a curved one."""
    return space.nx if space.is_vector_space and space.nx == space.ndx else 0


def bank(compiled: Compiled) -> tuple[Bank, Workspaces]:
    """The kernels of all stages with pointers and work arrays of their own, for one thread."""
    from dynamics.kernels.bank import make_bank

    return make_bank(compiled.bank, len(_SLOT) * len(compiled.horizon.kinds))


def stepper(compiled: Compiled) -> tuple[Any, Any, Workspaces]:
    """(step, bank, what must outlive them) for one thread: the step is the bank itself where code is generated."""
    own, workspaces = bank(compiled)
    if not compiled.by_loops:
        return own, own, workspaces
    made, more = _mechanics(compiled)
    return next(iter(made.values())), own, [*workspaces, *more, *made.values()]


def _mechanics(compiled: Compiled) -> tuple[dict[int, Any], Workspaces]:
    """Records of the steps by loops, by kind of stage, and their workspaces."""
    from ocp.shooting.robot import mechanics

    horizon, options, found, spaces = compiled.horizon, compiled.options, dict[int, Any](), list[Workspace]()
    kinds = np.zeros(len(horizon.kinds), dtype=np.int64)
    for i in compiled.by_loops:
        stage, kernels = horizon.kinds[i], {slot: kernel for (kind, slot), kernel in compiled.robot.items() if kind == i}
        assert stage.local is not None
        used = stage.rows.value_indices if stage.expand is None else ()  # else generated code gives them
        found[i], more = mechanics.make_mechanics(stage.local.system, options.integrator, options.cost_quadrature == "rectangle",
                                                  kernels, used, kinds)
        kinds[i], spaces = found[i].pointer, [*spaces, *more]
    return found, spaces


def make_store(compiled: Compiled) -> tuple[Engine, Workspaces]:
    """The record of all memory of a solve, for the loops, and what must live as long."""
    from ocp.shooting.engine import lq, record

    horizon, options = compiled.horizon, compiled.options
    S, kinds = horizon.stages, horizon.kinds
    n = [horizon.kind(k).space.ndx for k in range(S + 1)]
    m = [horizon.kind(k).nu for k in range(S)] + [0]
    N, M, w, nx = max(n), max(m), horizon.width, max(stage.space.nx for stage in kinds)
    step, own, derivatives, workspaces = _records(compiled)
    plan = record.Plan(horizon.which, np.array([flat_size(s.space) for s in kinds]), np.array([s.space.nx for s in kinds]),
                       horizon.t.copy(), horizon.h.copy(), horizon.p.copy(), horizon.lower.copy(), horizon.upper.copy())
    model, z = lq.model(n, m), np.zeros
    nw = model.gap.shape[1]
    r, inner = max(1, *(stage.rows.count for stage in kinds)), horizon.inner
    paths = [record.Path(np.full((S + 1, nx), np.nan), z((S, M)), np.full(S + 1, np.nan), z((S, nw)), z((S + 1, inner)))
             for _ in range(2)]
    rows = np.zeros((2, len(kinds), r), dtype=np.int64)
    for i, stage in enumerate(kinds):
        rows[0, i, :stage.rows.count], rows[1, i, :stage.rows.count] = stage.rows.kind, stage.rows.size
    any_rows = any(stage.rows.count for stage in kinds)
    holds = np.zeros((S + 1, r), dtype=np.int64)
    holds[:, :horizon.holds().shape[1]] = horizon.holds()
    conset = record.ConstraintSet(
        np.array([s.rows.count for s in kinds]), np.array([len(s.rows.value_indices) for s in kinds]), rows[0].copy(),
        rows[1].copy(), holds, z((S + 1, r)), np.ones((S + 1, r)), z((S + 1, r)), z((S + 1, r)),
        z((S + 1 if any_rows else 1, r, w)), z((S + 1, inner, w)), z(r * inner), z((1, r)), z((1, r)), z((2, N + M, w)), z((r, r)),
        z((r, w)), z((r, w)), 0.0, 1.0)
    coarse = options.hessian != "gauss_newton" and options.tuning.convexify == "gauss_newton"
    spare = record.Spare(z((S + 1, nw)), z((S, M)), z((1, nw)), z((1, nx)), z((64, 2)), z((S + 1 if coarse else 1, N + M, w)),
                         z((N + M, N + M)))
    policy, work, settings, state = lq.policy(n, m), lq.scratch(n, m), z(record.SETTINGS), z(record.STATE)
    store = record.Engine(own, step, derivatives, plan, paths[0], paths[1], model, policy, work, conset, spare, settings, state)
    reset(store, options)
    return store, workspaces


def helpers(compiled: Compiled, store: Engine, count: int) -> tuple[list[Engine], Workspaces]:
    """Records for further threads: they share all arrays but those that the work at one knot writes to."""
    from ocp.shooting.engine import lq, record

    found: list[Engine] = []
    workspaces: Workspaces = []
    work = lq.scratch(store.model.n.tolist(), store.model.m.tolist())
    for _ in range(count):
        step, own, derivatives, more = _records(compiled)
        workspaces += more
        shared = store.conset
        scratch = ("B", "c_try", "gradient_try", "hessian", "cone", "acting", "weighted")
        conset = shared.replace(**{name: getattr(shared, name).copy() for name in scratch})
        found.append(record.Engine(own, step, derivatives, store.plan, store.path, store.trial, store.model, store.policy, work,
                                   conset, store.spare, store.settings, store.state))
    return found, workspaces


def _records(compiled: Compiled) -> tuple[Any, Any, Any, Workspaces]:
    """(step, bank, derivatives, workspaces)."""
    step, own, workspaces = stepper(compiled)
    if not compiled.by_loops:
        return own, own, own, workspaces
    from ocp.shooting.robot import sensitivities

    made, more = _mechanics(compiled)  # the walk with sensitivities has memory of its own
    kinds, found = np.zeros(len(compiled.horizon.kinds), dtype=np.int64), []
    for i, one in made.items():
        local = compiled.horizon.kinds[i].local
        assert local is not None
        found.append(sensitivities.make_sensitivities(one, local.system, compiled.options.integrator, local.support, kinds))
        kinds[i] = found[-1].pointer
    return step, own, found[0], [*workspaces, *more, *found]


@lru_cache(maxsize=16)
def _settings(options: ILQROptions) -> np.ndarray:
    from ocp.shooting.engine import record as r
    from ocp.shooting.engine.iterate import MAX_BLENDS

    found, tuning = np.zeros(r.SETTINGS), options.tuning
    found[[r.ARMIJO, r.SHORTEST, r.GAP_TOLERANCE]] = tuning.armijo, tuning.step_min, tuning.gap_tolerance
    found[[r.MU_LEAST, r.MU_MOST]] = MIN_REGULARISATION, tuning.regularisation_max
    found[r.FULL] = options.hessian == "full"
    found[r.CONVEXIFY] = Tuning.CHOICES["convexify"].index(tuning.convexify)
    found[r.SHOOTING] = tuple(options.CHOICES["shooting"]).index(options.shooting)
    found[r.FILTER] = tuning.globalisation == "filter" or (tuning.globalisation == "auto" and options.shooting == "multiple")
    found[r.PATIENCE] = PATIENCE
    found[r.UNIT] = 1.0
    found[r.AUTO] = options.hessian == "auto"
    found[r.FIRST_BLEND] = 0.0 if options.hessian == "full" and tuning.convexify != "shift" else MAX_BLENDS
    return found


MIN_REGULARISATION = 1e-8
"""Smallest regularisation that is not zero."""
PATIENCE = 20
"""Steps at the rounding level of the cost that may pass without a new smallest gradient."""


def reset(store: Engine, options: ILQROptions) -> None:
    """Multipliers, penalties and regularisation as at the start of a solve."""
    from ocp.shooting.engine import record as r

    store.conset.lam[:] = 0.0
    store.conset.barrier = 0.0
    store.conset.mu[:] = options.tuning.penalty
    store.state[:] = 0.0
    store.settings[:] = _settings(options)
    store.state[r.BLEND] = store.settings[r.FIRST_BLEND]
    start = options.tuning.regularisation, 1.0, np.inf, np.inf, -1, -1
    store.state[[r.MU, r.MU_FACTOR, r.SMALLEST, r.COST, r.FAILED, r.LOST]] = start
