"""Where the derivatives of a system's dynamics come from, and how they run: one switch for every solver.

Sources: "ad", algorithmic differentiation of the rate; "analytic", closed-form first and second derivatives of a robot's forward
dynamics or, where accelerations are controls, of the efforts in costs and constraints; "complex_step" and "fd", from values alone.
Executions of analytic derivatives: "generated", code for this robot (interpreted or compiled); "loops", one binary over the model
for all robots. "auto" chooses both by size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.derivatives import analytic_constrained, analytic_function, unit_configuration
from dynamics.derivatives.inner import efforts, split
from dynamics.derivatives.numeric import NUMERIC_SOURCES, numeric_function
from dynamics.errors import near
from dynamics.kernels import operations
from dynamics.lie.expression import Expr
from dynamics.mechanism import Mechanism, Thruster, thrust_wrenches
from dynamics.model.model import Model
from ocp.bridge import accelerations, inner
from ocp.bridge.motion import linear_part
from ocp.errors import ProblemError
from ocp.problem import At, Constraint, Cost, Finding, Kind, Phase, System

Values = Callable[[Expr, Expr, Expr], Expr]
Item = TypeVar("Item", Cost, Constraint)
SOURCES = ("ad", "analytic", *NUMERIC_SOURCES)
DERIVATIVES = ("auto", *SOURCES)
EXECUTIONS = ("auto", "generated", "loops")
#: why loops over the model cannot serve a system
OBSTACLES = {
    Kind.NOT_FORWARD_DYNAMICS: "the system is not the forward dynamics of a robot, which they run",
    Kind.TIMED_CONSTRAINTS: "constraints of the robot depend on time, times are free, and they know no derivatives by time"}

LOOPS_FROM = 1000
"""Operations of one evaluation of the rate from which "auto" takes closed forms, in loops. Measured per knot of iLQR, Gauss-Newton,
RK4: two joints (69 operations) expand in 2.5 us of generated code and 7.8 us of loops, six (1260) in 20 and 10 us. From there on
generated code loses, and takes seconds to minutes to compile (results/benchmarks/solver_derivatives.md)."""

LOOPS_FROM_EXACT = 5000
"""The same for the direct methods. Measured over whole solves, machine code of small functions against loops: UR5 (1260
operations) 0.9 against 0.9 s, Panda (1971) 1.5 against 1.5, a quadruped of 18 degrees of freedom (3141) 5.6 against 6.9
(interpreted, 16 % more). The first solve on a machine: quadruped 6.5 s, against 25 s of Numba's compiler for the loops. Equations
of motion as residuals, with multipliers of contacts, take loops from ``LOOPS_FROM`` on: of a quadruped on four feet (5343
operations) Jacobian and Hessian at 41 nodes take 1.2 + 2.1 ms against 10 + 22 interpreted."""

CLOSED_FROM, CLOSED_FROM_INVERSE = 350, 200
"""Operations of one evaluation of forward dynamics, or of inverse dynamics where accelerations are controls, from which "auto"
takes closed forms in the direct methods. Measured over 50 intervals of Hermite-Simpson in machine code, seconds of set-up +
functions of 30 iterations, differentiation against closed forms (whose expressions are read from the cache; making them, once,
takes 0.03 to 0.2 s more): chain of 2 joints (82 operations) 0.012 + 0.012 against 0.016 + 0.013, of 3 (271) 0.021 + 0.018 against
0.024 + 0.015, of 4 (545) 0.041 + 0.032 against 0.030 + 0.020, planar tree of 5 links (401) 0.041 + 0.035 against 0.034 + 0.029, UR5
(1260) 0.116 + 0.086 against 0.061 + 0.043. Inverse dynamics: 3 joints (197) 0.029 + 0.019 against 0.039 + 0.018, the planar tree
(253) 0.046 + 0.038 against 0.052 + 0.025, 6 joints (584) 0.118 + 0.081 against 0.096 + 0.043. Interpreted, functions take up to six
times as long, and the limits are the same (results/benchmarks/collocation_derivatives.md)."""


class Choice(NamedTuple):
    """Source of the derivatives, whether the dynamics run as loops over the model, findings about the choice."""

    source: str
    loops: bool
    findings: tuple[Finding, ...]


def choose(system: System, source: str, execution: str, exact: bool = False, fixed: bool = True
           ) -> Choice:
    """(source of the derivatives, whether the dynamics run as loops over the model, findings about the choice).

    source: one of ``DERIVATIVES``; execution: one of ``EXECUTIONS``; exact: for graphs of exact Hessians, those of the direct
    methods; fixed: no time is an unknown. Where accelerations are controls, the rate needs no closed form and keeps "ad": shooting
    finds efforts in costs and constraints by itself, the graphs of the direct methods are those of ``differentiated_phase``, with
    source "analytic". Where loops do not serve a robot, generated code does, and a finding says so. Raises ProblemError for
    unknown names, for "analytic" where there is no closed form, and for "loops" without a robot or with another source.
    """
    for name, value, known in (("derivatives", source, DERIVATIVES), ("execution", execution, EXECUTIONS)):
        if value not in known:
            raise ProblemError(f"no {name} named {value!r}{near(value, known)}", where=name)
    inverse = _inverse(system) is not None
    size, obstacle, missing = operations_of(system), _obstacle(system, fixed, exact), without_closed_form(system)
    instead: tuple[Finding, ...] = ()
    if execution == "loops" and obstacle is not None and system.model is not None:
        execution, instead = "generated", (Finding(Kind.CODE_GENERATED, data={"obstacle": obstacle}),)
    served = not obstacle and execution != "generated"
    implicit = exact and by_residual(system)
    whole = operations(system.residual) if implicit else size
    large = whole >= (LOOPS_FROM_EXACT if exact and not implicit else LOOPS_FROM) and not obstacle and (served or not missing)
    pays = exact and size >= (CLOSED_FROM_INVERSE if inverse else CLOSED_FROM)
    closed = large or (pays and not missing)
    chosen = source if source != "auto" else "analytic" if closed else "ad"
    if execution == "loops" and (chosen != "analytic" or obstacle):
        reason = OBSTACLES[obstacle] if obstacle is not None else (
            f"loops hold closed-form derivatives only, and the source is {chosen!r}; set derivatives to 'analytic'")
        raise ProblemError(f"'loops' is not possible: {reason}", where="execution")
    if chosen != "analytic":
        return Choice(chosen, False, (Finding(Kind.DERIVATIVES_CHOSEN, data={"source": chosen}), *instead))
    if missing and not served:
        raise _refusal(system, missing)
    if inverse and not exact:
        return Choice("ad", False, (Finding(Kind.DERIVATIVES_CHOSEN, data={"source": "ad", "efforts": "analytic"}), *instead))
    if execution == "loops" or (execution == "auto" and (large or missing)):
        return Choice(chosen, True, (Finding(Kind.DERIVATIVES_CHOSEN, data={
            "source": chosen, "execution": "loops", "degrees_of_freedom": system.model.nv, "operations": size}),))
    return Choice(chosen, False, (Finding(Kind.DERIVATIVES_CHOSEN, data={
        "source": chosen, "execution": "generated", "function": "inverse dynamics" if inverse else "dynamics", "operations": size}),
        *instead))


def operations_of(system: System) -> int:
    """Operations of one evaluation of the dynamics."""
    # where accelerations are controls, the rate is none; the power holds efforts and little else
    if system.residual is not None and system.implicit is not None:
        return operations(efforts(system.implicit.model, system.nu, len(system.controls)).sought)
    inverse = accelerations(system) is not None and system.power is not None
    return operations(system.power if inverse else system.rate)


def _inverse(system: System) -> tuple[Mechanism, int] | None:
    """The mechanism whose inverse dynamics a system holds, and where the accelerations are among its inputs: controls, or unknowns
    of its residual. None for others."""
    if system.inverse is not None:
        return system.inverse, 0
    return (system.implicit, len(system.controls)) if system.implicit is not None and system.residual is not None else None


def without_closed_form(system: System) -> str:
    """Why the dynamics have no closed-form derivatives; empty where they have."""
    own = _inverse(system)
    if own is not None and own[0].thrusters:
        return "closed-form derivatives of efforts know no thrusters"
    if own is None and system.mechanism is None:
        return "closed-form derivatives exist for the dynamics of a robot only"
    return ""


def _refusal(system: System, reason: str) -> ProblemError:
    return ProblemError(f"{reason}; this system has 'ad', 'complex_step' and 'fd'", where=f"system {system.name!r}")


def _obstacle(system: System, fixed: bool, exact: bool) -> Kind | None:
    """Why loops cannot serve a system; None where they can. exact: in the direct methods."""
    robot = system.mechanism or (system.implicit if exact and by_residual(system) else None)
    if robot is None or system.model is None:
        return Kind.NOT_FORWARD_DYNAMICS
    if robot.timed and not fixed:
        return Kind.TIMED_CONSTRAINTS
    return None


def by_residual(system: System) -> bool:
    """Whether a system is the equations of motion of a robot as residuals, which loops over the robot serve, too."""
    return system.residual is not None and system.implicit is not None and not system.implicit.thrusters


def differentiated(system: System, source: str, values: Values | None = None) -> System:
    """The same system, whose rate brings derivatives from ``source`` into the graphs of every solver.

    source: one of ``SOURCES``. values: ``_analytic(system)``, where that is there already. Values on the manifold stay the same.
    Raises ProblemError for an unknown source and for "analytic" where there is no closed form.
    """
    if source not in SOURCES:
        raise ProblemError(f"no derivative source {source!r}{near(source, SOURCES)}", where="derivatives")
    if source == system.derivatives:
        return system
    if system.derivatives != "ad":
        raise ProblemError(f"the derivatives already come from {system.derivatives!r}", where=f"system {system.name!r}")
    names, symbols = [system.rate.name_in(i) for i in range(4)], _symbols(system)
    if source != "analytic":
        xi = numeric_function(system.rate, source)(*symbols)
    elif reason := without_closed_form(system):
        raise _refusal(system, reason)
    elif _inverse(system) is not None:
        return system
    else:
        xi = ca.vertcat(symbols[1][system.model.nq:], (values or _analytic(system))(*symbols[:3])[:system.model.nv])
    # spliced into the graph that calls it, so that the dynamics are evaluated once for values and derivatives together
    rate = ca.Function("rate", symbols, [ca.densify(xi)], names, ["xi"], {"always_inline": True})
    return replace(system, rate=rate, derivatives=source)


def differentiated_phase(phase: Phase, source: str, by_loops: bool = False) -> Phase:
    """The phase with a ``differentiated`` system, for graphs of exact Hessians. Where ``source`` is "analytic", the functions of
    its costs and constraints along the path bring closed-form derivatives of what they hold of the dynamics along: efforts where
    accelerations are controls or unknowns of a residual, which is among them, and else forces of constraints. by_loops: the rate
    is left to loops over the robot.

    Raises ProblemError as ``differentiated`` does.
    """
    if by_loops and phase.system.residual is not None:
        return _without_motion(phase)
    known = inner(phase.system) if source == "analytic" else None
    values = None if known is None or without_closed_form(phase.system) else _analytic(phase.system)
    system = phase.system if by_loops else differentiated(phase.system, source, values)
    if known is None or values is None:
        return phase if system is phase.system else replace(phase, system=system)
    own, symbols = _inverse(system), _symbols(system)
    constraints = tuple(_with_values(known.sought, values, one) for one in phase.constraints)
    if own is not None:
        model, start = own[0].model, own[1]
        rate = ca.Function("rate", symbols, [ca.vertcat(symbols[1][model.nq:], symbols[2][start:start + model.nv])], list("txup"),
                           ["xi"], {"always_inline": True})
        residual = next((new.function for new, old in zip(constraints, phase.constraints, strict=True)
                         if old.function is system.residual), system.residual)
        system = replace(system, rate=rate, derivatives=source, residual=residual)
    return replace(phase, system=system, costs=tuple(_with_values(known.sought, values, cost) for cost in phase.costs),
                   constraints=constraints)


def _without_motion(phase: Phase) -> Phase:
    """The phase whose equations of motion are only what loops over the robot leave of them."""
    system = phase.system
    assert system.implicit is not None
    symbols = [ca.SX.sym(name, system.residual.size1_in(i)) for i, name in enumerate("txup")]
    count, nv = len(system.controls), system.implicit.model.nv
    left = linear_part(system.implicit, symbols[2][:count], symbols[2][count + nv:])
    rest = ca.Function("residual", symbols, [ca.densify(left)], ["t", "x", "u", "p"], ["F"])
    constraints = tuple(replace(c, function=rest) if c.function is system.residual else c for c in phase.constraints)
    return replace(phase, system=replace(system, residual=rest, derivatives="analytic"), constraints=constraints)


def _with_values(sought: ca.Function, values: Values, item: Item) -> Item:
    """The cost or constraint, whose function of (t, x, u, p) calls ``values`` where it holds ``sought``, both of (t, x, u)."""
    function = item.function
    rest = split(function, sought) if item.at in (At.PATH, At.INTEGRAL) else None
    if rest is None:
        return item
    symbols = [ca.MX.sym(name, function.size1_in(i)) for i, name in enumerate("txup")]
    value = rest(*symbols, values(*symbols[:3]))
    # spliced, so that a point evaluates its dynamics once, whatever its costs and constraints make of them
    spliced = ca.Function(function.name(), symbols, [value], function.name_in(), function.name_out(), {"always_inline": True})
    return replace(item, function=spliced)


def _symbols(system: System) -> list[ca.MX]:
    return [ca.MX.sym(n, size) for n, size in zip("txup", (1, system.nx, system.nu, system.np), strict=True)]


def _analytic(system: System) -> Values:
    """Values of the dynamics with closed-form derivatives that functions of (t, x, u) call: efforts [nv], or accelerations [nv]
    with the multipliers of reduced constraints [m] behind them."""
    if (own := _inverse(system)) is not None:
        (mechanism, start), model = own, own[0].model
        effort = analytic_function(model, "inverse_dynamics")
        return lambda t, x, u: effort(x[:model.nq], x[model.nq:], u[start:start + model.nv])
    model, mechanism = system.model, system.mechanism
    held, n = mechanism.constraints, len(mechanism.motors)
    thrust = _thrust_force(model, mechanism.thrusters) if mechanism.thrusters else None
    forces = _forces(mechanism) if mechanism.forces else None
    dynamics = analytic_constrained(model, held) if held else analytic_function(model, "forward_dynamics")

    def values(t: Expr, x: Expr, u: Expr) -> Expr:
        q, v, tau = x[:model.nq], x[model.nq:], mechanism.motor_effort(u)
        if thrust is not None:
            tau += thrust(q, u[n:])
        if forces is not None:
            tau += forces(q, v)
        return dynamics(q, v, tau, t) if held else dynamics(q, v, tau)
    return values


def _forces(mechanism: Mechanism) -> ca.Function:
    """(q, v) -> generalised force [nv] of the mechanism's own forces, of unit quaternions."""
    q, v = ca.SX.sym("q", mechanism.model.nq), ca.SX.sym("v", mechanism.model.nv)
    unit, _ = unit_configuration(mechanism.model, q)
    return ca.Function("forces", [q, v], [ca.densify(ca.cse(mechanism.force(unit, v)))])


def _thrust_force(model: Model, thrusters: Sequence[Thruster]) -> ca.Function:
    """(q, thrusts) -> generalised force [nv]: ``sum J' w`` over the pushed bodies, wrenches carried from the leaves to the root.
    Where only the base is pushed, no coordinate is left in it."""
    q, f = ca.SX.sym("q", model.nq), ca.SX.sym("f", len(thrusters))
    unit, _ = unit_configuration(model, q)
    carried = tree.wrench_by_body(model, thrust_wrenches(model, thrusters, f, unit))
    total = ca.SX(model.nv, 1)
    for i in reversed(range(len(model.bodies))):
        if i not in carried:
            continue
        total[model.v_slice(i)] += tree.coupled_subspace(model, i, unit).T @ carried[i]
        if (parent := model.bodies[i].parent) >= 0:
            moved = spatial.force_to_parent(tree.parent_transform(model, i, unit), carried[i])
            carried[parent] = carried[parent] + moved if parent in carried else moved
    return ca.Function("thrust", [q, f], [ca.densify(ca.cse(total))])
