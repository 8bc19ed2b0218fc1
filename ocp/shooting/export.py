"""Feedback policies of shooting solutions for use elsewhere: as data, as arrays for an archive, and as portable C99 source.

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

import math
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


# ----------------------------------------------------------------------------------------------------------- C source
def c_header(policy: Policy) -> str:
    """Text of ``policy.h``."""
    N, _, ndx = policy.K.shape
    components = [f" *   x[{i}]  {name}" for i, name in enumerate(policy.state_names)]
    rows = zip(policy.effort_names, policy.effort_kinds, policy.effort_units, policy.effort_lower, policy.effort_upper, strict=True)
    controls = [f" *   u[{i}]  {name}: {kind}{f' [{unit}]' if unit else ''}, {_bounds(low, high)}"
                for i, (name, kind, unit, low, high) in enumerate(rows)]
    asked = [] if policy.efforts is None else [
        " *   The law gives accelerations; u are the efforts of the drives that these ask for at x, clipped to their limits."]
    return "\n".join([
        f"/* Feedback policy of {comment(policy.name)!r}: {N} steps from t = {policy.t[0]:.9g} s to {policy.t[-1]:.9g} s.",
        " *",
        " *   u = clip(u_k + K_k (x (-) x_k)) for t_k <= t < t_{k+1}; sample it at the knots t_k and hold u in between.",
        *asked,
        " *   t < t_0: as at t_0.  t >= t_N: u_{N-1} + K_{N-1} (x (-) x_N).  x (-) x_k is a right perturbation of x_k.",
        " *   A time up to 1e-9 of the horizon before a knot counts as that knot. NaN in x gives NaN in u.",
        " *",
        " * SI units, angles in radians; unit quaternions (w, x, y, z), Hamilton, body to parent.",
        *map(comment, components), *map(comment, controls),
        " */",
        "#ifndef POLICY_H", "#define POLICY_H", "",
        f"#define POLICY_NX {len(policy.state_names)}", f"#define POLICY_NU {len(controls)}", f"#define POLICY_NDX {ndx}",
        f"#define POLICY_STEPS {N}", "",
        "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
        "/* x [POLICY_NX] is read, u [POLICY_NU] is written. No memory is allocated, no state is kept. */",
        "void policy(double t, const double *x, double *u);", "",
        "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])


def c_source(policy: Policy) -> str:
    """Text of ``policy.c``: C99, no dependencies but the mathematics library. Raises ProblemError where the difference of the
    manifold uses an operation that has no C equivalent here."""
    N, nu, ndx = policy.K.shape
    return "\n".join([
        f"/* Feedback policy of {comment(policy.name)!r}; see policy.h. */",
        '#include "policy.h"', "", "#include <math.h>", "",
        f"static const double T[{N + 1}] = {{{numbers(policy.t)}}};",
        table("X", policy.x), table("U", policy.u), table("K", policy.K.reshape(N, nu * ndx)),
        f"static const double LOWER[{nu}] = {{{numbers(policy.lower)}}};",
        f"static const double UPPER[{nu}] = {{{numbers(policy.upper)}}};",
        *([] if policy.efforts is None else [
            f"static const double {name}[{len(values)}] = {{{numbers(values)}}};"
            for name, values in (("LEAST", policy.effort_lower), ("MOST", policy.effort_upper))]), "",
        function_source(policy.difference), "", *([] if policy.efforts is None else [function_source(policy.efforts), ""]),
        "void policy(double t, const double *x, double *u)", "{",
        f"    double d[{ndx}]{'' if policy.efforts is None else f', a[{nu}]'};",
        f"    int low = 0, high = {N}, k, i, j;", *([] if policy.efforts is None else ["    const double t0 = t;"]), "",
        f"    t += {policy.slack!r};",
        "    while (low < high) { /* the last knot that is not after t */",
        "        k = (low + high + 1) / 2;",
        "        if (T[k] <= t) low = k; else high = k - 1;",
        "    }",
        "    difference(X[low], x, d);",
        f"    k = low < {N} ? low : {N - 1};",
        f"    for (i = 0; i < {nu}; i++) {{",
        "        double value = U[k][i];",
        f"        for (j = 0; j < {ndx}; j++) value += K[k][{ndx} * i + j] * d[j];",
        f"        {'u' if policy.efforts is None else 'a'}[i] = value < LOWER[i] ? LOWER[i] : value > UPPER[i] ? UPPER[i] : value;",
        "    }",
        *([] if policy.efforts is None else [
            f"    efforts(&t0, x, a, u);\n    for (i = 0; i < {len(policy.effort_names)}; i++)",
            "        u[i] = u[i] < LEAST[i] ? LEAST[i] : u[i] > MOST[i] ? MOST[i] : u[i];"]),
        "}", ""])


def comment(text: str) -> str:
    """Text that cannot end a comment."""
    return text.replace("*/", "* /").replace("\n", " ")


def _bounds(low: float, high: float) -> str:
    return "free" if math.isinf(low) and math.isinf(high) else f"between {low:.9g} and {high:.9g}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "HUGE_VAL" if value > 0 else "-HUGE_VAL"
    return repr(float(value))


def numbers(values: Array) -> str:
    """Values as a list in C."""
    return ", ".join(map(_number, values))


def table(name: str, rows: Array) -> str:
    """A matrix as a constant array in C."""
    lines = ",\n".join(f"    {{{numbers(row)}}}" for row in rows)
    return f"static const double {name}[{rows.shape[0]}][{rows.shape[1]}] = {{\n{lines}\n}};"


_OPERATIONS = {
    ca.OP_ASSIGN: "{0}", ca.OP_ADD: "{0} + {1}", ca.OP_SUB: "{0} - {1}", ca.OP_MUL: "{0} * {1}", ca.OP_DIV: "{0} / {1}",
    ca.OP_NEG: "-{0}", ca.OP_INV: "1.0 / {0}", ca.OP_SQ: "{0} * {0}", ca.OP_TWICE: "2.0 * {0}", ca.OP_SQRT: "sqrt({0})",
    ca.OP_POW: "pow({0}, {1})", ca.OP_CONSTPOW: "pow({0}, {1})", ca.OP_EXP: "exp({0})", ca.OP_LOG: "log({0})",
    ca.OP_SIN: "sin({0})", ca.OP_COS: "cos({0})", ca.OP_TAN: "tan({0})", ca.OP_ASIN: "asin({0})", ca.OP_ACOS: "acos({0})",
    ca.OP_ATAN: "atan({0})", ca.OP_ATAN2: "atan2({0}, {1})", ca.OP_FABS: "fabs({0})", ca.OP_FMIN: "fmin({0}, {1})",
    ca.OP_FMAX: "fmax({0}, {1})", ca.OP_FLOOR: "floor({0})", ca.OP_CEIL: "ceil({0})", ca.OP_FMOD: "fmod({0}, {1})",
    ca.OP_HYPOT: "hypot({0}, {1})", ca.OP_COPYSIGN: "copysign({0}, {1})", ca.OP_SIGN: "({0} > 0) - ({0} < 0)",
    ca.OP_LT: "{0} < {1}", ca.OP_LE: "{0} <= {1}", ca.OP_EQ: "{0} == {1}", ca.OP_NE: "{0} != {1}", ca.OP_NOT: "{0} == 0",
    ca.OP_AND: "{0} != 0 && {1} != 0", ca.OP_OR: "{0} != 0 || {1} != 0", ca.OP_IF_ELSE_ZERO: "{0} != 0 ? {1} : 0.0",
}


def function_source(function: ca.Function) -> str:
    """A scalar CasADi Function of vectors to one vector as a static C function, one statement an instruction."""
    given_names, out_name = function.name_in(), function.name_out(0)
    taken = ", ".join(f"const double *{name}" for name in given_names)
    lines = [f"static void {function.name()}({taken}, double *{out_name})", "{",
             f"    double w[{max(1, function.sz_w())}];", "",
             *(f"    (void){name};" for name in given_names)]
    for k in range(function.n_instructions()):
        operation, given, out = function.instruction_id(k), function.instruction_input(k), function.instruction_output(k)
        if operation == ca.OP_CONST:
            lines.append(f"    w[{out[0]}] = {_number(function.instruction_constant(k))};")
        elif operation == ca.OP_INPUT:
            lines.append(f"    w[{out[0]}] = {given_names[given[0]]}[{given[1]}];")
        elif operation == ca.OP_OUTPUT:
            lines.append(f"    {out_name}[{out[1]}] = w[{given[0]}];")
        elif operation in _OPERATIONS:
            lines.append(f"    w[{out[0]}] = {_OPERATIONS[operation].format(*(f'w[{i}]' for i in given))};")
        else:
            raise ProblemError(f"{function.name()!r} uses operation {operation}, which cannot be written in C", where="policy")
    return "\n".join([*lines, "}"])
