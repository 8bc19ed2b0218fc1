"""The certificate: evidence about a solution that does not come from the solver that made it.

Everything here is computed from the problem's own functions and the returned trajectory: an independent high-order
integrator (Dormand-Prince 8(5,3); Radau IIA of order 9 where that would crawl) re-integrates the states under the returned
controls, constraints are sampled at and between knots, first-order optimality is re-evaluated at the returned point, the
objective is integrated again, and energy is balanced against power. Distances between states are in the tangent space, each
component divided by its scale: 1 + its largest magnitude along the trajectory.

    motion        one phase along one trajectory: functions at many times, integrals
    dynamics      segments and the whole re-integrated, defects between knots, energy balance
    stiff         the implicit integrator
    constraints   violations of bounds, ends, constraints, passages and linkages
    objective     the objective by quadrature, and whether multipliers and trajectory belong to one point
"""

from ocp.certify.certificate import Tolerances, certify
from ocp.certify.constraints import excess

__all__ = ["Tolerances", "certify", "excess"]
