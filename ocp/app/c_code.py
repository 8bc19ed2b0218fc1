"""Policies and motions as portable C99 source, which needs the mathematics library alone; templates hold the text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np

from ocp.app.pages.report import environment
from ocp.errors import ProblemError
from ocp.shooting.export import Policy

if TYPE_CHECKING:
    from ocp.app.export import Motion


def policy_code(policy: Policy) -> dict[str, str]:
    """``policy.h`` and ``policy.c``. Raises ProblemError where the difference of the manifold uses an operation that has no C
    equivalent here."""
    return {f"policy.{end}": _rendered(f"policy.{end}.j2", p=policy) for end in "hc"}


def motion_code(motion: Motion, stem: str) -> dict[str, str]:
    """``STEM.h`` and ``STEM.c``."""
    tables = (("x", motion.x), ("u", motion.u), ("tau", motion.tau))
    return {f"{stem}.{end}": _rendered(f"motion.{end}.j2", m=motion, stem=stem, tables=tables) for end in "hc"}


def _rendered(template: str, **values: object) -> str:
    made = environment(markup=False, comment=_comment, short="{:.9g}".format, bounds=_bounds, array=_array,
                       function=function_source)
    return str(made.get_template(template).render(**values)).rstrip() + "\n"


def _comment(text: str) -> str:
    """Text that cannot end a comment."""
    return text.replace("*/", "* /").replace("\n", " ")


def _bounds(pair: tuple[float, float]) -> str:
    return "free" if all(map(math.isinf, pair)) else "between {:.9g} and {:.9g}".format(*pair)


def _number(value: float) -> str:
    return repr(float(value)) if math.isfinite(value) else "HUGE_VAL" if value > 0 else "-HUGE_VAL"


def _array(values: np.ndarray, name: str) -> str:
    """A vector or a matrix as a constant array."""
    size = "".join(f"[{n}]" for n in values.shape)
    listed = ", ".join(map(_number, values)) if values.ndim == 1 else \
        "\n" + ",\n".join(f"    {{{', '.join(map(_number, row))}}}" for row in values) + "\n"
    return f"static const double {name}{size} = {{{listed}}};"


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
