"""Derivatives of the algorithms, by source."""

from dynamics.derivatives.first_order import SOURCES, forward_dynamics_derivatives, inverse_dynamics_derivatives

__all__ = ["SOURCES", "forward_dynamics_derivatives", "inverse_dynamics_derivatives"]
