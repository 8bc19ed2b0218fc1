"""The table of integrators by name."""

from __future__ import annotations

import functools
from dataclasses import replace

import casadi as ca

from dynamics.tables import Names, Table
from ocp.errors import ProblemError
from ocp.integrators import lie_group, motion, tableaus
from ocp.integrators.integrator import Integrator
from ocp.integrators.multistep import MULTISTEP, refuse_history
from ocp.integrators.runge_kutta import runge_kutta
from ocp.integrators.tableaus import Tableau
from ocp.problem import Formulation, Sampled, System

#: most stages that loops over a robot have room for
STAGES = 4


def of_tableau(name: str, tableau: Tableau) -> Integrator:
    """The Runge-Kutta method of these coefficients."""
    return Integrator(name, tableau.order, runge_kutta(tableau), tableau=tableau,
                      loops=tableau.explicit and len(tableau.b) <= STAGES)


INTEGRATORS: Table[Integrator] = Table("an integrator", (
    Integrator("euler", 1, lie_group.euler, tableau=tableaus.EULER, loops=True, single=True),
    Integrator("semi_implicit_euler", 1, lie_group.semi_implicit_euler, lie_group.second_order, loops=True, single=True),
    of_tableau("midpoint", tableaus.MIDPOINT),
    of_tableau("heun", tableaus.HEUN),
    of_tableau("ralston", tableaus.RALSTON),
    of_tableau("rk3", tableaus.RK3),
    of_tableau("rk4", tableaus.RK4),
    Integrator("cf4", 4, lie_group.cf4),
    Integrator("rkmk4", 4, lie_group.rkmk4),
    of_tableau("implicit_euler", tableaus.IMPLICIT_EULER),
    Integrator("bdf1", 1, functools.partial(motion.moved, method="bdf1"), tableau=tableaus.IMPLICIT_EULER),
    Integrator("sdirk2", 2, functools.partial(motion.moved, method="sdirk2"), tableau=tableaus.SDIRK2),
    of_tableau("tr_bdf2", tableaus.TR_BDF2),
    of_tableau("gauss_legendre_1", tableaus.GAUSS_LEGENDRE_1),
    of_tableau("gauss_legendre_2", tableaus.GAUSS_LEGENDRE_2),
    of_tableau("gauss_legendre_3", tableaus.GAUSS_LEGENDRE_3),
    of_tableau("gauss_legendre_4", tableaus.GAUSS_LEGENDRE_4),
    of_tableau("radau_iia_2", tableaus.RADAU_IIA_2),
    of_tableau("radau_iia_3", tableaus.RADAU_IIA_3),
), ProblemError)
#: options of shooting methods: those, and methods that look back
STEPS = Names(INTEGRATORS, MULTISTEP)

#: the steps of a system in discrete time, which are given
DISCRETE_TIME = Integrator("given", 1, lie_group.euler, single=True)


def serving(system: System, name: str) -> Integrator:
    """The integrator of that name; the given steps of a system in discrete time, whatever the name."""
    return INTEGRATORS[name] if system.period is None else DISCRETE_TIME


def sampled(system: System, period: float, name: str = "rk4", steps: int = 1) -> System:
    """A system in continuous time under controls constant over a period [s], as the system in discrete time that so many steps of
    an integrator make of it: a published optimum of a method becomes that of a problem. Running costs count where steps begin (the
    left rectangle rule). Raises ProblemError for systems that the integrator is not for."""
    refuse_history(name, "sampled")
    scheme = INTEGRATORS[name]
    scheme.check(system)
    kind = ca.SX if system.rate.is_a("SXFunction") and system.derivatives == "ad" and not scheme.implicit else ca.MX
    t, x, u, p = (kind.sym(name, size) for name, size in (("t", 1), ("x", system.nx), ("u", system.nu), ("p", system.np)))
    after, h = x, period / steps
    for i in range(steps):
        after = scheme.step(system, t + i * h, after, u, p, h)
    rate = ca.Function("rate", [t, x, u, p], [ca.densify(system.space.minus(x, after) / period)], list("txup"), ["xi"])
    return replace(system, rate=rate, period=period, derivatives="ad", energy=None, power=None,
                   formulation=Formulation(sampled=Sampled(system, name, steps)))
