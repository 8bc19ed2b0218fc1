"""The record that the compiled loops take: one pointer to all data of a solve, preallocated."""

from __future__ import annotations

import numpy as np

from dynamics.kernels.bank import Bank
from dynamics.kernels.record import Record
from ocp.shooting.engine.lq import Model, Policy, Scratch
from ocp.shooting.robot.mechanics import Mechanics
from ocp.shooting.robot.sensitivities import Sensitivities

Array = np.ndarray

# settings
(ARMIJO, SHORTEST, MU_LEAST, MU_MOST, GAP_TOLERANCE, FULL, CONVEXIFY, SHOOTING, FILTER, PATIENCE, FIRST_BLEND, AUTO,
 UNIT) = range(13)
SETTINGS = 13
MAX_STATE = 1e8
"""A rollout with a coordinate larger than this has diverged."""
SINGLE, OPEN, FEASIBLE, MULTIPLE = range(4)
SHIFT, GAUSS_NEWTON, PROJECT = range(3)
# numbers that change from iteration to iteration
(COST, MU, MU_FACTOR, GRADIENT, GAP, GAP_PRICE, SMALLEST, WAITED, BLEND, VIOLATION, FAILED, LINEAR, QUADRATIC, PROMISE, SWEPT,
 FILTERED, LOST, PLAIN, STEPS, FIRST_GAP, CAUTION) = range(21)
STATE = 21


class Plan(Record):
    """Constant data: kind of every stage which [S+1]; flat [kinds]: coordinates of the state where it is flat, else 0; nx [kinds];
    t, h [S+1] time argument and length; p [S+1, np] parameters; control bounds lower, upper [S+1, M]."""

    which: Array
    flat: Array
    nx: Array
    t: Array
    h: Array
    p: Array
    lower: Array
    upper: Array


class Path(Record):
    """States x [S+1, nx], controls u [S, M], costs [S+1], gaps [S, nw] (step [-] next state), and values of the dynamics in
    constraints, inner [S+1, n], as steps leave them."""

    x: Array
    u: Array
    cost: Array
    gap: Array
    inner: Array


class ConstraintSet(Record):
    """Hard constraints. By kind: number [kinds] of rows; kind, size [kinds, r] as in ``ocp.shooting.stages.rows``; value_counts
    [kinds] of values of the dynamics. By knot: holds [S+1, r]; multipliers lam and penalties mu [S+1, r]; the expansion
    leaves c, gradient [S+1, r] (of the augmented terms by c), C [S+1, r, w] and T [S+1, n, w], the derivative of these values.
    Scratch: B [r n]; c_try, gradient_try [1, r]; hessian [2, N + M, w]; cone [r, r]; acting, weighted [r, w]. barrier: weight of
    the logarithmic barrier that constraints of inequalities and cones have instead of multipliers, 0: none; margin: distance to a
    row below which it is quadratic."""

    number: Array
    value_counts: Array
    kind: Array
    size: Array
    holds: Array
    lam: Array
    mu: Array
    c: Array
    gradient: Array
    C: Array
    T: Array
    B: Array
    c_try: Array
    gradient_try: Array
    hessian: Array
    cone: Array
    acting: Array
    weighted: Array
    barrier: float
    margin: float


class Spare(Record):
    """Scratch of the search: dx [S+1, nw], du [S, M] of the linear model, dx_one [1, nw], after [1, nx], filter [entries, 2];
    Gauss-Newton Hessians coarse [S+1, N + M, w] (only for the full Hessian), vectors [N + M, N + M] of an eigenvalue problem."""

    dx: Array
    du: Array
    dx_one: Array
    after: Array
    filter: Array
    coarse: Array
    vectors: Array


class Engine(Record):
    """All data of a solve, for one thread: bank, step, derivatives as in ``ocp.shooting.engine.knots``; plan, path (the iterate)
    and trial; model, policy, work of ``ocp.shooting.engine.lq``; `held`, spare; settings [SETTINGS] and state [STATE] numbers."""

    bank: Bank
    step: Bank | Mechanics
    derivatives: Bank | Sensitivities
    plan: Plan
    path: Path
    trial: Path
    model: Model
    policy: Policy
    work: Scratch
    conset: ConstraintSet
    spare: Spare
    settings: Array
    state: Array


class Sampler(Record):
    """Inputs of steps from any points, a part of ``Engine``."""

    bank: Bank
    step: Bank | Mechanics
    plan: Plan
