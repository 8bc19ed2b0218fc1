"""The table of integrators by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ocp.integrators import lie_group, motion, tableaus
from ocp.integrators.integrator import Integrator
from ocp.integrators.runge_kutta import runge_kutta
from ocp.integrators.tableaus import Tableau


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
    Integrator("bdf1", 1, motion.bdf1, tableau=tableaus.IMPLICIT_EULER),
    Integrator("sdirk2", 2, motion.sdirk2, tableau=tableaus.SDIRK2),
    _from("tr_bdf2", tableaus.TR_BDF2),
    _from("gauss_legendre_1", tableaus.GAUSS_LEGENDRE_1),
    _from("gauss_legendre_2", tableaus.GAUSS_LEGENDRE_2),
    _from("gauss_legendre_3", tableaus.GAUSS_LEGENDRE_3),
    _from("radau_iia_2", tableaus.RADAU_IIA_2),
    _from("radau_iia_3", tableaus.RADAU_IIA_3),
)})
