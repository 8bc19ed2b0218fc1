"""The certificate: evidence about a solution that does not come from the solver that made it.

Everything here is computed from the problem's own functions and the returned trajectory, and measured by sizes that the motion
itself gives, so that no unit matters: an independent high-order integrator (Dormand-Prince 8(5,3); Radau IIA of order 9 where that
would crawl) re-integrates the states under the returned controls, constraints are looked at more densely than any mesh and hunted
where functions break or turn sharply, first- and second-order optimality are evaluated at the returned point, the objective is
integrated again, and energy is balanced against power.

    scale         what states, controls, costs and constraints are measured by
    events        where to look: densely, and where graphs of functions hide what no sampling resolves
    motion        one phase along one trajectory: functions at many times, integrals
    dynamics      segments and the whole re-integrated, growth of errors, defects between knots, energy balance
    stiff         the implicit integrator
    constraints   violations of bounds, ends, constraints, passages and linkages
    curvature     minimum, saddle or maximum by the inertia of the reduced Hessian, and what a Newton step would gain
    hamiltonian   running costs and rates weighed by costates, as functions of the inputs
    minimum_principle  no admissible control has a smaller Hamiltonian, at many times
    jumps         jumps that programs do not represent: the time at which the state crosses a jump of rates or costs
    ringing       controls whose points alternate
    objective     the objective by quadrature, and whether multipliers and trajectory belong to one point
"""

from ocp.certify.certificate import Tolerances, certify

__all__ = ["Tolerances", "certify"]
