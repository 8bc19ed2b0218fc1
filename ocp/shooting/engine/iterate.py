"""The iterations in one compiled call: expansion, LQ sweep, line search, regularisation, stopping."""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from ocp.shooting.engine import record as r
from ocp.shooting.engine.augmented import moved
from ocp.shooting.engine.expansion import coarsen, convexify, expand, lagrangian
from ocp.shooting.engine.lq import backward, change, forward
from ocp.shooting.engine.record import Engine
from ocp.shooting.engine.rollout import accept, rollout, trial
from ocp.shooting.engine.scale import scale

Array = np.ndarray
RUNNING, CONVERGED, INDEFINITE, STUCK, LEVEL, BROKEN, REFUSED, SOFTEN = range(8)
"""Endings: more to do; tolerances met; no regularisation makes the sweep succeed; no step decreases the cost; the cost is at its
rounding level; a derivative is not finite; no step was accepted this time;
the sweep needs Hessians that are more convex."""
ITERATE, ROLLOUT, ROLLOUT_OF_GUESS, EXPAND, LAGRANGIAN, SWEEP, SOFTEN_ONCE, AIM, BEGIN = range(9)
TASKS = 9
"""Tasks of ``perform``: ``iterate``; ``rollout`` of the controls, or with the states of a guess that are kept; ``expand``;
``lagrangian``; ``sweep``; ``soften``; ``direct``, the ending of a minimisation where it stands; ``begin``."""
COLUMNS = ("cost", "expected", "gradient", "violation", "gap", "step", "regularisation", "trials")
_EPS = 2.220446049250313e-16
_FACTOR = 2.0  # regularisation changes by a factor that itself grows (Tassa, Erez, Todorov 2012, section II.F)
STEP_REDUCTION = 0.5  # factor between trial step lengths
MAX_BLENDS = 4.0  # halvings of the way to the Gauss-Newton Hessian before all of it is taken
MIN_STEPS_OF_FIRST = 5.0  # steps before the first of several minimisations may end by its promise alone
SHARE = 0.03  # of what the next update of the multipliers moves: a minimisation that promises less has done enough
FIRST = 5e-3  # the first minimisation is looser than this
CAREFUL = 2.0  # Gauss-Newton steps after a full Hessian was not convex where Hessians are automatic
EITHER = 2.0  # setting of the filter: what the filter refuses may pass by the merit function
SHORT = 0.03  # a step below this asks for more regularisation
NEAR_OPTIMUM = 1e-2  # share of the cost that a full step may promise where automatic Hessians become exact
_GAP_LIMIT = 1e2  # gaps may grow to this multiple of those at the start
_GAP_SHARE = 0.9  # a direction may count on this share of the gaps it closes


@linked
def _grow(e: Engine) -> None:
    s = e.state
    s[r.MU_FACTOR] = max(_FACTOR, s[r.MU_FACTOR] * _FACTOR)
    s[r.MU] = max(e.settings[r.MU_LEAST], s[r.MU] * s[r.MU_FACTOR])


@linked
def _shrink(e: Engine) -> None:
    s = e.state
    s[r.MU_FACTOR] = min(1.0 / _FACTOR, s[r.MU_FACTOR] / _FACTOR)
    mu = s[r.MU] * s[r.MU_FACTOR]
    s[r.MU] = mu if mu >= e.settings[r.MU_LEAST] else 0.0


@linked
def sweep(e: Engine) -> tuple[float, float, int]:
    """Backward sweep, regularised as much as it takes unless the Hessians may still be made more convex (``soften``). Returns
    (linear, quadratic, failed knot or -1)."""
    path, plan, s = e.path, e.plan, e.state
    while True:
        failed, linear, quadratic = backward(e.model, path.u, plan.lower, plan.upper, s[r.MU], e.policy, e.work)
        s[r.SWEPT] = 1.0 if failed < 0 else 0.0
        if failed < 0 or s[r.BLEND] < MAX_BLENDS:
            break
        _grow(e)
        if s[r.MU] > e.settings[r.MU_MOST]:
            break
    return linear, quadratic, failed


@linked
def _search(e: Engine, linear: float, quadratic: float, rounding: float) -> tuple[float, float, float, int]:
    """Shorten the step until the merit falls enough. Returns (step, 0 if refused; cost; gaps; trials)."""
    s, settings, spare = e.state, e.settings, e.spare
    cost, gap = s[r.COST], s[r.GAP]
    first, second = 0.0, 0.0
    if gap > 0.0 or settings[r.SHOOTING] == r.OPEN or settings[r.SHOOTING] == r.MULTIPLE:
        forward(e.model, e.policy, 1.0, spare.dx, spare.du)
        first, second = change(e.model, spare.dx, spare.du)
        if gap > 0.0:
            # the price of a gap at which the direction descends (Nocedal, Wright 2006, Eq. 18.36)
            s[r.GAP_PRICE] = max(s[r.GAP_PRICE], (first + max(0.0, second)) / ((1.0 - _GAP_SHARE) * gap))
        if settings[r.SHOOTING] == r.MULTIPLE:
            # new gaps must not pay: an exact penalty is larger than every costate
            costate = e.policy.costate
            for k in range(costate.shape[0]):
                for i in range(costate.shape[1]):
                    s[r.GAP_PRICE] = max(s[r.GAP_PRICE], 1.1 * abs(costate[k, i]))
    price = s[r.GAP_PRICE]
    if gap > 0.0 and settings[r.SHOOTING] == r.MULTIPLE:
        # where the model predicts what closing all gaps by feedback costs, they are closed, and stay so: left to the linear model
        # every step would open others, which an exact penalty only allows to short steps
        settings[r.SHOOTING] = r.SINGLE
        total, _, failed = trial(e, 1.0, e.path.x)
        if failed < 0 and total - cost <= first + second + (1.0 - settings[r.ARMIJO]) * abs(first + second) + rounding:
            return 1.0, total, 0.0, 1
        settings[r.SHOOTING] = r.MULTIPLE
    # at the rounding level of the cost every length passes; where whole steps do not bring the gradient down they overshoot
    a, trials = STEP_REDUCTION if s[r.WAITED] > 0.0 else 1.0, 0
    found = (0.0, cost, gap)
    while a >= settings[r.SHORTEST]:
        trials += 1
        total, gaps, failed = trial(e, a, e.path.x)
        s[r.LOST] = failed
        accepted = False
        if failed < 0:
            filtered = settings[r.FILTER] != 0.0 and gap > 0.0
            accepted = filtered and _filtered(e, total, gaps, -a * first)
            if accepted or (filtered and settings[r.FILTER] != EITHER):
                pass
            elif gap > 0.0 or settings[r.SHOOTING] == r.MULTIPLE:
                accepted = total + price * gaps <= cost + price * gap + settings[r.ARMIJO] * a * (first - price * gap) + rounding
            else:
                accepted = cost - total >= -settings[r.ARMIJO] * (a * linear + a * a * quadratic) - rounding
        if accepted:
            found = (a, total, gaps)
            break
        a *= STEP_REDUCTION
    return found[0], found[1], found[2], trials


@linked
def _filtered(e: Engine, cost: float, gap: float, promise: float) -> bool:
    """Whether a point improves on every entry of the filter in cost or in gaps (Fletcher, Leyffer 2002; Waechter, Biegler 2006,
    section
    2.3); if so the iterate enters it. promise: how much the model lowers the cost; where that outweighs the gaps the cost must
    fall."""
    s, entries, unit = e.state, e.spare.filter, e.settings[r.UNIT]
    count = int(s[r.FILTERED])
    if gap > _GAP_LIMIT * max(1.0, s[r.FIRST_GAP]):
        return False
    if promise > unit * s[r.GAP] and s[r.GAP] <= 1e-4 * max(1.0, s[r.FIRST_GAP]):
        return bool(cost <= s[r.COST] - e.settings[r.ARMIJO] * promise)
    if not (cost < s[r.COST] - 1e-5 * unit * gap or gap < (1.0 - 1e-5) * s[r.GAP]):
        return False
    for i in range(min(count, entries.shape[0])):
        if not (cost < entries[i, 0] - 1e-5 * unit * gap or gap < (1.0 - 1e-5) * entries[i, 1]):
            return False
    entries[count % entries.shape[0], 0] = s[r.COST]
    entries[count % entries.shape[0], 1] = s[r.GAP]
    s[r.FILTERED] += 1.0
    return True


@linked
def note(e: Engine, log: Array, row: int, expected: float, step: float, trials: int) -> None:
    """One row of the log, see ``COLUMNS``."""
    s, path = e.state, e.path
    s[r.PLAIN] = 0.0
    for k in range(path.cost.shape[0]):
        s[r.PLAIN] += path.cost[k]
    log[row, 0] = s[r.PLAIN]
    log[row, 1] = expected
    log[row, 2] = s[r.GRADIENT]
    log[row, 3] = s[r.VIOLATION]
    log[row, 4] = s[r.GAP]
    log[row, 5] = step
    log[row, 6] = s[r.MU]
    log[row, 7] = trials


@linked
def direct(e: Engine, tolerance: float, inexact: float) -> int:
    """Direction and its promise from an expanded path. Returns RUNNING, CONVERGED, SOFTEN or INDEFINITE."""
    s = e.state
    linear, quadratic, knot = sweep(e)
    ending = RUNNING
    if knot >= 0:
        s[r.FAILED] = knot
        ending = SOFTEN if s[r.BLEND] < MAX_BLENDS else INDEFINITE
    else:
        size = scale(e.settings[r.UNIT], s[r.COST])
        s[r.LINEAR], s[r.QUADRATIC] = linear, quadratic
        expected = -(linear + quadratic)
        small = s[r.GRADIENT] <= tolerance * size and expected <= tolerance * size
        enough = -1.0
        # far from feasible a promise says little: it is small beside terms that only grow with the penalty
        if inexact > 0.0 and (s[r.STEPS] >= MIN_STEPS_OF_FIRST or inexact < FIRST):
            enough = inexact * abs(s[r.PLAIN])
        # without a step updates would follow each other, and the penalties grow for nothing
        if inexact >= 0.0 and s[r.STEPS] >= 1.0:
            enough = max(enough, SHARE * moved(e.conset, e.plan.which))
        if s[r.GAP] <= e.settings[r.GAP_TOLERANCE] and (small or expected <= enough):
            ending = CONVERGED
    return ending


@linked
def soften(e: Engine) -> int:
    """One step towards convex Hessians, after SOFTEN. Returns the failed knot or -1."""
    s = e.state
    if e.settings[r.CONVEXIFY] == r.GAUSS_NEWTON:
        if s[r.BLEND] == 0.0:
            failed = coarsen(e)
            if failed >= 0:
                return failed
        s[r.BLEND] = MAX_BLENDS if e.settings[r.AUTO] != 0.0 else s[r.BLEND] + 1.0
        s[r.CAUTION] = CAREFUL
        convexify(e, 1.0 if s[r.BLEND] >= MAX_BLENDS else 0.5)
    else:
        s[r.BLEND] = MAX_BLENDS
        convexify(e, 1.0)
    return -1


@linked
def step(e: Engine, log: Array, row: int) -> int:
    """Line search along the direction. Returns RUNNING where a step was accepted (the path is not expanded yet), REFUSED, or
    STUCK; a refused step has its row in the log."""
    s, path = e.state, e.path
    total = 0.0
    for k in range(path.cost.shape[0]):
        total += abs(path.cost[k])
    rounding = 8.0 * _EPS * max(total, abs(s[r.COST]))
    linear, quadratic = s[r.LINEAR], s[r.QUADRATIC]
    a, cost, gaps, trials = _search(e, linear, quadratic, rounding)
    s[r.PROMISE] = -(linear + quadratic) - rounding
    if a == 0.0:
        s[r.FAILED] = s[r.MU]
        _grow(e)
        note(e, log, row, -(linear + quadratic), 0.0, trials)
        return STUCK if s[r.MU] > e.settings[r.MU_MOST] else REFUSED
    accept(e)
    s[r.STEPS] += 1.0
    if e.settings[r.AUTO] != 0.0:
        # exact near the solution, and where the other kind only makes short steps
        exact = e.settings[r.FULL] != 0.0
        near = a == 1.0 and -(linear + quadratic) <= NEAR_OPTIMUM * abs(s[r.PLAIN])
        change_over = a < SHORT
        exact = not exact if change_over else near or (exact and a < 1.0)
        if s[r.CAUTION] > 0.0:
            s[r.CAUTION] -= 1.0
            exact = change_over and exact
        e.settings[r.FULL] = 1.0 if exact else 0.0
        e.settings[r.FIRST_BLEND] = 0.0 if exact else MAX_BLENDS
    s[r.COST], s[r.GAP], s[r.SWEPT], s[r.BLEND] = cost, gaps, 0.0, e.settings[r.FIRST_BLEND]
    if a >= SHORT:
        _shrink(e)
    else:
        _grow(e)
    note(e, log, row, -(a * linear + a * a * quadratic), a, trials)
    return RUNNING


@linked
def settle(e: Engine, log: Array, row: int) -> int:
    """After the expansion of an accepted step: complete the row of the log. Returns LEVEL where the cost stays at its rounding
    level and the gradient finds no new minimum, else RUNNING."""
    s = e.state
    log[row, 2], log[row, 3] = s[r.GRADIENT], s[r.VIOLATION]
    if s[r.PROMISE] > 0.0 or s[r.GRADIENT] < s[r.SMALLEST] or s[r.GAP] > e.settings[r.GAP_TOLERANCE]:
        s[r.SMALLEST] = min(s[r.SMALLEST], s[r.GRADIENT])
        s[r.WAITED] = 0.0
        return RUNNING
    s[r.WAITED] += 1.0
    return LEVEL if s[r.WAITED] >= e.settings[r.PATIENCE] else RUNNING


@linked
def iterate(e: Engine, log: Array, tolerance: float, inexact: float, most: int) -> tuple[int, int]:
    """At most ``most`` iterations from an expanded path, which stays expanded. Returns (rows written to the log, ending)."""
    for row in range(most):
        ending = direct(e, tolerance, inexact)
        if ending != RUNNING:
            return row, ending
        ending = step(e, log, row)
        if ending == STUCK:
            return row + 1, ending
        if ending == RUNNING:
            failed = expand(e)
            if failed >= 0:
                e.state[r.FAILED] = failed
                return row + 1, BROKEN
            ending = settle(e, log, row)
            if ending != RUNNING:
                return row + 1, ending
    return most, RUNNING


@linked
def chase(e: Engine, log: Array, most: int) -> int:
    """Exactly ``most`` iterations from a path that is not expanded, without a test of convergence; the path is not expanded at the
    end.
    Returns RUNNING or the ending that stopped them."""
    for row in range(most):
        failed = expand(e)
        if failed >= 0:
            e.state[r.FAILED] = failed
            return BROKEN
        e.state[r.BLEND] = MAX_BLENDS
        ending = direct(e, -1.0, -1.0)
        if ending != RUNNING:
            return ending
        if step(e, log, row) == STUCK:
            return STUCK
    return RUNNING


@linked
def begin(e: Engine) -> None:
    """The initial state of a minimisation."""
    s = e.state
    s[r.SMALLEST], s[r.WAITED], s[r.FILTERED], s[r.STEPS], s[r.FIRST_GAP] = s[r.GRADIENT], 0.0, 0.0, 0.0, s[r.GAP]


@linked(nogil=True)
def perform(e: Engine, task: int, log: Array, tolerance: float, inexact: float, most: int) -> tuple[int, int]:
    """The interface of a search to Python, by one function: one to compile and to load. Returns (lines written to the log, ending
    or failed knot or -1)."""
    if task == ITERATE:
        return iterate(e, log, tolerance, inexact, most)
    found = -1
    if task == ROLLOUT:
        _, found = rollout(e, False)
    elif task == ROLLOUT_OF_GUESS:
        _, found = rollout(e, True)
    elif task == EXPAND:
        found = expand(e)
    elif task == LAGRANGIAN:
        found = lagrangian(e)
    elif task == SWEEP:
        _, _, found = sweep(e)
    elif task == SOFTEN_ONCE:
        found = soften(e)
    elif task == AIM:
        found = direct(e, tolerance, inexact)
    else:
        begin(e)
    return 0, found
