"""The table of integrators by name."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import casadi as ca

from ocp.integrators import lie_group, motion, tableaus
from ocp.integrators.integrator import Integrator
from ocp.integrators.multistep import refuse_history
from ocp.integrators.runge_kutta import runge_kutta
from ocp.integrators.tableaus import Tableau
from ocp.problem import System


def _from(name: str, tableau: Tableau) -> Integrator:
    return Integrator(name, tableau.order, runge_kutta(tableau), tableau=tableau, loops=tableau.explicit)


INTEGRATORS: Mapping[str, Integrator] = MappingProxyType({i.name: i for i in (
    Integrator("euler", 1, lie_group.euler, tableau=tableaus.EULER, loops=True, single=True),
    Integrator("semi_implicit_euler", 1, lie_group.semi_implicit_euler, lie_group.second_order, loops=True, single=True),
    _from("midpoint", tableaus.MIDPOINT),
    _from("heun", tableaus.HEUN),
    _from("ralston", tableaus.RALSTON),
    _from("rk3", tableaus.RK3),
    _from("rk4", tableaus.RK4),
    Integrator("cf4", 4, lie_group.cf4),
    Integrator("rkmk4", 4, lie_group.rkmk4),
    _from("implicit_euler", tableaus.IMPLICIT_EULER),
    Integrator("bdf1", 1, functools.partial(motion.moved, method="bdf1"), tableau=tableaus.IMPLICIT_EULER),
    Integrator("sdirk2", 2, functools.partial(motion.moved, method="sdirk2"), tableau=tableaus.SDIRK2),
    _from("tr_bdf2", tableaus.TR_BDF2),
    _from("gauss_legendre_1", tableaus.GAUSS_LEGENDRE_1),
    _from("gauss_legendre_2", tableaus.GAUSS_LEGENDRE_2),
    _from("gauss_legendre_3", tableaus.GAUSS_LEGENDRE_3),
    _from("gauss_legendre_4", tableaus.GAUSS_LEGENDRE_4),
    _from("radau_iia_2", tableaus.RADAU_IIA_2),
    _from("radau_iia_3", tableaus.RADAU_IIA_3),
)})

#: the steps of a system in discrete time, which are given
GIVEN = Integrator("given", 1, lie_group.euler, single=True)


def serving(system: System, name: str) -> Integrator:
    """The integrator of that name; the given steps of a system in discrete time, whatever the name."""
    return INTEGRATORS[name] if system.period is None else GIVEN


def sampled(system: System, period: float, name: str = "rk4", steps: int = 1) -> System:
    """A system in continuous time under controls held over a period [s], as the system in discrete time that so many steps of an
    integrator make of it: a published optimum of a method becomes that of a problem. Running costs count where steps begin (the
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
    return replace(system, rate=rate, period=period, derivatives="ad", energy=None, power=None, mechanism=None, inverse=None,
                   held=None, motion=None)
