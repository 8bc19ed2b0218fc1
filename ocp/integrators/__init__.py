"""One-step maps on state manifolds, as CasADi expressions.

Every record integrates ``xi = rate(t, x, u, p)`` over one step h with the control held. Besides the next state it hands back the
nodes ``(weight, t, x)`` of the quadrature that the same method applies to an integral over the step, so that a running cost is
integrated exactly as if it were one more state (``int l dt = h sum_i w_i l(t_i, x_i, u)``).

    Lie group    euler, semi_implicit_euler, cf4, rkmk4: points move by [+]
    explicit     midpoint, heun, ralston, rk3, rk4: ambient coordinates, projected
    motion       bdf1, sdirk2 (L-stable): of robots by their equations of motion, no mass matrix is inverted
    implicit     implicit_euler, tr_bdf2, radau_iia_2, radau_iia_3 (L-stable); gauss_legendre_1, 2, 3, 4 (symplectic)

Systems in discrete time have steps of their own (``serving``), and ``sampled`` makes such a system of steps of these maps.

Two-step maps, which see the state before as well, have a record and a table of their own: bdf2 (``MULTISTEP``). Of shooting
methods the stages carry that state, of multiple shooting the defects look back over two intervals.
"""

from ocp.integrators.family import DISCRETE_TIME, INTEGRATORS, STAGES, STEPS, of_tableau, sampled, serving
from ocp.integrators.integrator import Advance, Integrator, Node, project
from ocp.integrators.multistep import MULTISTEP, Multistep, looking_back, refuse_history

__all__ = ["DISCRETE_TIME", "INTEGRATORS", "MULTISTEP", "STAGES", "STEPS", "Advance", "Integrator", "Multistep", "Node",
           "looking_back", "of_tableau", "project", "refuse_history", "sampled", "serving"]
