"""Closed-form derivatives of a robot as kernels; expressions and compiled code are both kept in the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import casadi as ca

from dynamics.derivatives import first_order, second_order
from dynamics.errors import UnknownNameError
from dynamics.kernels import Kernel, compile_kernel, remembered
from dynamics.kernels.build import Mode
from dynamics.model.model import Model

KERNELS: Mapping[str, Callable[[Model], ca.Function]] = {
    "inverse_dynamics_derivatives": partial(first_order.inverse_dynamics_derivatives, source="analytic"),
    "forward_dynamics_derivatives": partial(first_order.forward_dynamics_derivatives, source="analytic"),
    "inverse_dynamics_hessian": second_order.inverse_dynamics_hessian,
    "forward_dynamics_hessian": second_order.forward_dynamics_hessian,
    "inverse_dynamics_second_derivatives": second_order.inverse_dynamics_second_derivatives,
    "forward_dynamics_second_derivatives": second_order.forward_dynamics_second_derivatives,
}
"""Functions available as kernels, under the same names, analytic where there is a choice."""


def derivative_kernel(model: Model, name: str, mode: Mode = "auto") -> Kernel:
    """Kernel of one of ``KERNELS`` for a robot: NumPy in, NumPy out, callable by address. The second time, in any process, neither
    expressions are built nor code compiled. mode: see ``compile_kernel``.

    Raises UnknownNameError, ModelError for joint kinds without closed form, KernelError as ``compile_kernel`` does.
    """
    if name not in KERNELS:
        raise UnknownNameError("derivative kernel", name, list(KERNELS))
    return compile_kernel(remembered([name, model.fingerprint], lambda: KERNELS[name](model)), mode=mode)
