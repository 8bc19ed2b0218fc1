"""Derivatives of the algorithms: by source (``inverse_dynamics_derivatives``, ``forward_dynamics_derivatives``), in closed form
to second order as Functions (``..._hessian``, ``..._second_derivatives``), as cached kernels (``derivative_kernel``), and inside MX
graphs (``analytic_function``, ``analytic_constrained``)."""

from dynamics.derivatives.analytic import analytic_constrained, analytic_function
from dynamics.derivatives.first_order import SOURCES, forward_dynamics_derivatives, inverse_dynamics_derivatives
from dynamics.derivatives.kernels import derivative_kernel
from dynamics.derivatives.manifold import (
    ambient_gradient,
    ambient_hessian,
    structure_constants,
    symmetrised,
    symmetrised_tensor,
    unit_configuration,
)
from dynamics.derivatives.second_order import (
    constrained_dynamics_derivatives,
    constrained_dynamics_hessian,
    forward_dynamics_hessian,
    forward_dynamics_second_derivatives,
    impact_derivatives,
    impact_hessian,
    inverse_dynamics_hessian,
    inverse_dynamics_second_derivatives,
)

__all__ = [
    "SOURCES", "ambient_gradient", "ambient_hessian", "analytic_constrained", "analytic_function",
    "constrained_dynamics_derivatives", "constrained_dynamics_hessian", "derivative_kernel", "forward_dynamics_derivatives",
    "forward_dynamics_hessian",
    "forward_dynamics_second_derivatives", "impact_derivatives", "impact_hessian", "inverse_dynamics_derivatives",
    "inverse_dynamics_hessian", "inverse_dynamics_second_derivatives", "structure_constants", "symmetrised",
    "symmetrised_tensor", "unit_configuration",
]
