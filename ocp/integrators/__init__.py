"""One-step maps on state manifolds."""

from ocp.integrators.runge_kutta import INTEGRATORS, Advance, Integrator, Node, project

__all__ = ["INTEGRATORS", "Advance", "Integrator", "Node", "project"]
