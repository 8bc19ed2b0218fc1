"""Feedback policies of shooting solutions for use elsewhere: as data, and as arrays for an archive.

The policy of a solution with N steps is, for t in [t_k, t_{k+1}),

    u = clip(u_k + K_k (x (-) x_k), lower, upper)

with the constant control u_k, the gains K_k of the last Riccati sweep and the tangent vector from x_k to x, a right
perturbation. It is the policy of the solver, to be sampled at the knots and kept constant in between: within a step the
nominal state moves on while x_k does not. Where the controls u of the problem are not what drives take (accelerations, in
inverse dynamics), the policy ends with the efforts of the drives that these ask for at the state, clipped to the limits of the
drives. Before t_0 the first step acts; from t_N on the last one, about the last state: ``u_{N-1} + K_{N-1} (x (-) x_N)``. A time
within 1e-9 of the length before a knot counts as that knot, so that ``k h`` finds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from ocp.bridge import drive_efforts
from ocp.errors import ProblemError
from ocp.problem import Problem, Solution

Array = NDArray[np.float64]

FORMAT, VERSION = "lieocp policy", 2
SLACK = 1e-9
CONVENTIONS = (
    "Outputs of the drives are named by effort_names, effort_units and effort_kinds: "
    "clip(efforts(t, x, u), effort_lower, effort_upper), 'efforts' a serialised CasADi Function; where that is empty, u itself. "
    "u = clip(u[k] + K[k] @ difference(x[k], x), lower, upper) for t[k] <= t < t[k+1]; t < t[0]: k = 0; "
    "t >= t[N]: u[N-1] + K[N-1] @ difference(x[N], x). SI units, angles in radians. "
    "Unit quaternions (w, x, y, z), Hamilton, body to parent, start at the indices 'quaternions' of x. "
    "difference(a, b) is the d with a [+] d = b, a perturbation on the right (body axes), linear before angular; b - a where "
    "'tangent_index' of a coordinate is not -1. 'difference' holds it as a serialised CasADi Function."
)


@dataclass(frozen=True)
class Policy:
    """t [N+1] s, x [N+1, nx], u [N, nu], K [N, nu, ndx]; lower, upper [nu]; difference(a, b) -> [ndx], a CasADi Function.

    state_names [nx], tangent_names [ndx], control_names [nu]; tangent_index [nx], quaternions: as in ``ocp.spaces.Space``.
    effort_names, effort_units, effort_kinds ("effort", "thrust", or "control" where the system is no robot) [n], effort_lower,
    effort_upper [n]: of what is put out; efforts(t, x, u) -> [n], None where that is u.
    Calling a policy evaluates it: (t, x [nx]) -> efforts [n]; ``law`` gives u [nu].
    """

    name: str
    t: Array
    x: Array
    u: Array
    K: Array
    lower: Array
    upper: Array
    state_names: tuple[str, ...]
    tangent_names: tuple[str, ...]
    control_names: tuple[str, ...]
    tangent_index: tuple[int, ...]
    quaternions: tuple[int, ...]
    difference: ca.Function
    effort_names: tuple[str, ...]
    effort_units: tuple[str, ...]
    effort_kinds: tuple[str, ...]
    effort_lower: Array
    effort_upper: Array
    efforts: ca.Function | None = None

    @cached_property
    def slack(self) -> float:
        """How long before a knot its step already acts [s]."""
        return float(SLACK * (self.t[-1] - self.t[0]))

    def __call__(self, t: float, x: Array) -> Array:
        u = self.law(t, x)
        if self.efforts is None:
            return u
        asked = np.asarray(self.efforts(t, np.asarray(x, dtype=float), u)).ravel()
        return np.asarray(np.clip(asked, self.effort_lower, self.effort_upper))

    def law(self, t: float, x: Array) -> Array:
        """The controls u [nu] of the problem."""
        N = len(self.u)
        k = int(np.clip(np.searchsorted(self.t, t + self.slack, side="right") - 1, 0, N))
        away = np.asarray(self.difference(self.x[k], np.asarray(x, dtype=float))).ravel()
        k = min(k, N - 1)
        found: Array = np.clip(self.u[k] + self.K[k] @ away, self.lower, self.upper)
        return found


def policy(solution: Solution) -> Policy:
    """The policy of a solution by shooting. Raises ProblemError where there are no gains."""
    arrays = {"t": solution.trajectory.t, "x": solution.trajectory.x, "u": solution.trajectory.u, **solution.extra}
    return make_policy(solution.problem, arrays, solution.method)


def make_policy(problem: Problem, arrays: Mapping[str, Array], method: str) -> Policy:
    """A policy from the arrays t, x, u and K of a run of a problem. Raises ProblemError where the run has no gains, and for several
    phases."""
    where = f"problem {problem.name!r}"
    if len(problem.phases) != 1:
        raise ProblemError(f"has {len(problem.phases)} phases; a policy is that of a single one", where=where)
    if "K" not in arrays:
        why = "; solve it by shooting (method ilqr)" if method != "ilqr" else ": it ended before a sweep gave any"
        raise ProblemError(f"the run by {method!r} has no feedback gains K{why}", where=where)
    phase = problem.phase
    space, nu = phase.system.space, len(phase.system.controls)
    t, x, u = (np.asarray(arrays[name], dtype=float) for name in ("t", "x", "u"))
    u = u[:, :nu]  # algebraic unknowns stand behind the controls
    # free constants are states of the solver that nothing disturbs
    K = np.asarray(arrays["K"], dtype=float)[:, :, :space.ndx]
    N = len(u)
    for name, found, expected in (("t", t.shape, (N + 1,)), ("x", x.shape, (N + 1, space.nx)), ("u", u.shape, (N, nu)),
                                  ("K", K.shape, (N, nu, space.ndx))):
        if found != expected or not N:
            raise ProblemError(f"{name} has shape {found}, expected {expected}", where=where)
    for name, values in (("t", t), ("x", x), ("u", u), ("K", K)):
        if not np.all(np.isfinite(values)):
            raise ProblemError(f"{name} of the run has entries that are not finite", where=where)
    a, b = ca.SX.sym("a", space.nx), ca.SX.sym("b", space.nx)
    lower, upper = phase.control_bounds[:nu].arrays
    drives = drive_efforts(phase.system)
    if drives is not None and drives.function is not None:
        out = drives.names, drives.units, drives.kinds, drives.lower, drives.upper, drives.function
    else:
        names = phase.system.controls
        out = (names, tuple(phase.system.units.get(name, "") for name in names),
               ("control",) * nu if drives is None else drives.kinds, lower, upper, None)
    return Policy(
        problem.name, t, x, u, K, lower, upper, space.names, space.tangent_names, phase.system.controls,
        space.tangent_index, space.quaternions,
        ca.Function("difference", [a, b], [ca.cse(ca.densify(space.minus(a, b)))], ["a", "b"], ["d"]), *out)


# ------------------------------------------------------------------------------------------------------------ arrays
_TEXTS = ("state_names", "tangent_names", "control_names", "effort_names", "effort_units", "effort_kinds")
_NUMBERS = ("t", "x", "u", "K", "lower", "upper", "effort_lower", "effort_upper")


def policy_arrays(policy: Policy) -> dict[str, np.ndarray]:
    """Everything about a policy as arrays of numbers and text, for an ``.npz`` archive that explains itself."""
    numbers = {name: np.asarray(getattr(policy, name)) for name in _NUMBERS}
    texts = {name: np.array(getattr(policy, name), dtype=np.str_) for name in _TEXTS}
    indices = {name: np.array(getattr(policy, name), dtype=np.int64) for name in ("tangent_index", "quaternions")}
    return {"format": np.array(FORMAT), "version": np.array(VERSION), "name": np.array(policy.name), **numbers, **texts, **indices,
            "conventions": np.array(CONVENTIONS), "difference": np.array(policy.difference.serialize()),
            "efforts": np.array("" if policy.efforts is None else policy.efforts.serialize())}


def read_policy(arrays: Mapping[str, np.ndarray]) -> Policy:
    """The policy behind ``policy_arrays``. Raises ProblemError for other arrays."""
    if "format" not in arrays or str(arrays["format"]) != FORMAT or not 1 <= int(arrays["version"]) <= VERSION:
        raise ProblemError(f"is not an archive of format {FORMAT!r}, version 1 to {VERSION}", where="policy archive")
    if int(arrays["version"]) == 1:  # put out its controls, and knew nothing more of them
        names = arrays["control_names"]
        arrays = {**arrays, "effort_names": names, "effort_units": np.full(len(names), ""), "efforts": np.array(""),
                  "effort_kinds": np.full(len(names), "control"), **{f"effort_{end}": arrays[end] for end in ("lower", "upper")}}
    t, x, u, K, lower, upper, *limits = (np.asarray(arrays[name], dtype=float) for name in _NUMBERS)
    states, tangents, controls, *given = (tuple(str(word) for word in arrays[name]) for name in _TEXTS)
    efforts = str(arrays["efforts"])
    tangent_index, quaternions = (tuple(int(i) for i in arrays[name]) for name in ("tangent_index", "quaternions"))
    return Policy(str(arrays["name"]), t, x, u, K, lower, upper, states, tangents, controls, tangent_index, quaternions,
                  ca.Function.deserialize(str(arrays["difference"])), given[0], given[1], given[2], limits[0], limits[1],
                  ca.Function.deserialize(efforts) if efforts else None)
