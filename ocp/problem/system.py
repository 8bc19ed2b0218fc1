"""The system of a problem: states on their space, controls, and what their rates and equations are."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import casadi as ca

from ocp.errors import ProblemError
from ocp.problem.terms import Constraint
from ocp.spaces import Space


class Form(enum.Enum):
    """How the equations of motion of a robot, ``M a + h = S u + J' lambda``, stand in a system."""

    EXPLICIT = "efforts are inputs, through the drives; accelerations and lambda are functions (forward dynamics)"
    INVERSE = "accelerations and lambda are inputs; efforts are functions (inverse dynamics), which constraints bound"
    IMPLICIT = "efforts are inputs, accelerations and lambda algebraic unknowns; the equations are rows of the residual"


@dataclass(frozen=True)
class Sampled:
    """The base of a system in discrete time: so many steps of an integrator in a period, of a system in continuous time."""

    system: System
    integrator: str
    steps: int


@dataclass(frozen=True)
class Formulation:
    """A robot's dynamics as a system has them.

    mechanism: the robot with its drives and forces (``dynamics.mechanism.Mechanism``), or None where none stands for the system.
    motion(): its equations of motion F(t, x, w, u, p) = 0 [nv + m] where rate is forward dynamics, w = (accelerations, multipliers
    of constraints), affine in w and without an inverse of the mass matrix; or None. Implicit steps take them.
    sampled: where the rate is that of steps of an integrator; or None.
    """

    form: Form = Form.EXPLICIT
    mechanism: Any = None
    motion: Callable[[], ca.Function] | None = None
    sampled: Sampled | None = None


@dataclass(frozen=True)
class System:
    """A controlled system ``xi = rate(t, x, u, p)`` with the tangent rate xi [ndx] of the state, or one with equations

        xi = rate(t, x, u, p)        0 = residual(t, x, u, p)        u = (controls, z)

    that determine its algebraic unknowns z [nz] at every time, by name ``algebraic``: index 1, ``d residual / dz`` is regular. A
    component of xi that the equations leave implicit is an algebraic unknown, too, and rate picks it (``implicit_system``).
    Without algebraic unknowns residual is None and the system explicit. Reductions state the equations as constraints, or
    eliminate z.

    equations [nz]: names of the rows of the residual; numbers where there are none.
    energy(t, x, u, p): total mechanical energy [J]; power(t, x, u, p): power supplied to it [W], actuators minus
    losses. Both or neither; they feed the energy balance of the certificate.
    model: the robot (``dynamics.model.Model``), or None; x starts with its configuration q.
    formulation: how that robot's dynamics are formulated.
    drawn(p): the model as parameters [np] make it, where these change it; or None.
    x_limits, u_limits: (lower, upper) of each coordinate and input as the system itself has them; a phase without bounds takes
    them. Empty: none.
    constraints: what holds in every phase of the system (PATH) and where its motion begins (START), beyond these limits. The phase
    that is built of it, or the problem that it begins, takes over those that it has not by name.
    derivatives: where derivatives of ``rate`` come from, see ``ocp.derivatives``.
    period [s]: between the steps of a system in discrete time, ``x_{k+1} = x_k [+] period rate(t_k, x_k, u_k, p)``, with nothing
    in between (the delta operator: Middleton and Goodwin 1990, Digital Control and Estimation). Running costs and integrals are
    sums over its steps, times the period. None: continuous time.
    """

    name: str
    space: Space
    controls: tuple[str, ...]
    rate: ca.Function
    parameters: tuple[str, ...] = ()
    parameter_values: tuple[float, ...] = ()
    energy: ca.Function | None = None
    power: ca.Function | None = None
    model: Any = None
    formulation: Formulation = Formulation()
    drawn: Any = None
    derivatives: str = "ad"
    period: float | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    x_limits: tuple[tuple[float, float], ...] = ()
    u_limits: tuple[tuple[float, float], ...] = ()
    algebraic: tuple[str, ...] = ()
    residual: Any = None
    equations: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        rows = 0 if self.residual is None else self.residual.numel_out(0)
        where = f"system {self.name!r}"
        if rows != len(self.algebraic):
            raise ProblemError(f"{rows} equations for {len(self.algebraic)} algebraic unknowns ({', '.join(self.algebraic)}); "
                               "their numbers must agree", where=where)
        if self.equations and len(self.equations) != rows:
            raise ProblemError(f"{len(self.equations)} names for {rows} equations", where=where)
        if self.period is not None and not 0 < self.period < float("inf"):
            raise ProblemError(f"a period is positive and finite, got {self.period:g} s", where=where)
        if self.period is not None and self.algebraic:
            raise ProblemError("has algebraic unknowns, which a discrete-time system cannot have", where=where)
        for name in self.algebraic:
            if name in self.controls or self.algebraic.count(name) > 1:
                raise ProblemError(f"the name {name!r} is used twice among controls and algebraic unknowns", where=where)

    @property
    def robot(self) -> Any:
        """The mechanism, in every formulation of its dynamics, or None."""
        return self.formulation.mechanism

    def formulated_as(self, form: Form) -> Any:
        """The mechanism whose dynamics have this form, or None."""
        return self.formulation.mechanism if self.formulation.form is form else None

    @property
    def mechanism(self) -> Any:
        """The mechanism whose forward dynamics the rate is, u the controls of its drives; or None."""
        return self.formulated_as(Form.EXPLICIT)

    @property
    def inverse(self) -> Any:
        """The mechanism whose accelerations are the first controls; or None."""
        return self.formulated_as(Form.INVERSE)

    @property
    def implicit(self) -> Any:
        """The mechanism whose equations of motion are those of the residual; or None."""
        return self.formulated_as(Form.IMPLICIT)

    @property
    def motion(self) -> Any:
        """See ``Formulation``."""
        return self.formulation.motion

    @property
    def continuous(self) -> System:
        """The system in continuous time that its steps are made of; itself where these are given, or where time is continuous."""
        return self if self.formulation.sampled is None else self.formulation.sampled.system

    @property
    def nx(self) -> int:
        """Number of state coordinates."""
        return self.space.nx

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of what every function calls u: controls, then algebraic unknowns."""
        return self.controls + self.algebraic

    @property
    def nu(self) -> int:
        """Number of inputs: controls and algebraic unknowns."""
        return len(self.inputs)

    @property
    def np(self) -> int:
        """Number of parameters."""
        return len(self.parameters)

    def with_controls(self, controls: tuple[str, ...], rate: ca.Function, **changes: Any) -> System:
        """The system with other controls and another rate, and without what it has of its own controls: their limits, energy and
        power, and the mechanism that they drive (that of a residual has its own unknowns); unless changes bring some."""
        own = {"energy": None, "power": None, "u_limits": (),
               "formulation": self.formulation if self.formulation.form is Form.IMPLICIT else Formulation()}
        return replace(self, controls=controls, rate=rate, **own | changes)
