"""The symbolic methods to every dynamics quantity: what ``dynamics.derivatives.candidates`` offers, written out.

``BUILDERS[source](robot, quantity)`` gives symbols and expressions of the quantity's inputs and outputs. Differentiating methods
take the algorithm once or twice (``ad_sx``, ``ad_mx``), or differentiate once what is known: the algorithm for first derivatives,
its closed-form first derivatives for second ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics import algorithms as alg
from dynamics.constraints import Constraint
from dynamics.derivatives import constrained
from dynamics.derivatives import forward_second as forward
from dynamics.derivatives.complex_step import complex_step_jacobian
from dynamics.derivatives.inverse_contracted import contracted_inverse_dynamics
from dynamics.derivatives.inverse_first import inverse_dynamics_partials
from dynamics.derivatives.inverse_second import inverse_dynamics_second_partials
from dynamics.derivatives.manifold import symmetrised, symmetrised_tensor
from dynamics.derivatives.numeric import difference_jacobian
from dynamics.lie.expression import Expr
from dynamics.mechanism import constrained as equations
from dynamics.model.model import Model


@dataclass(frozen=True)
class ConstrainedModel:
    """A tree and the constraints that hold, none of free dynamics."""

    model: Model
    constraints: tuple[Constraint, ...] = ()

    @cached_property
    def rows(self) -> int:
        """Number m of independent equations of the constraints."""
        q = ca.SX.sym("q", self.model.nq)
        return int(equations.stacked(self.model, equations.reduced(self.constraints), "jacobian", q).shape[0])

    @cached_property
    def dependent(self) -> bool:
        """Whether rows of the constraints depend on each other, so that their forces are not unique."""
        return bool(self.constraints) and constrained.dependent(self.model, equations.reduced(self.constraints))


@dataclass(frozen=True)
class Quantity:
    """inputs: names among q [nq], v, a, tau, lam, mu [nv], nu [m];
    order: how often the dynamics are differentiated; tensor: outputs are [nv, nv * nv] and not [nv, nv]."""

    name: str
    title: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    order: int
    tensor: bool = False

    @property
    def family(self) -> str:
        """What is differentiated: inverse or forward dynamics, and under constraints: dynamics, forces, impact."""
        return self.name.split("_")[0]

    @property
    def inverse(self) -> bool:
        """Of inverse dynamics, (q, v, a) -> tau."""
        return self.family == "inverse"

    @property
    def states(self) -> int:
        """How many inputs come before the weights."""
        return len(self.inputs) - (self.order == 2 and not self.tensor)

    def shape(self, robot: ConstrainedModel) -> tuple[int, ...]:
        """Of its outputs."""
        n, rows = robot.model.nv, robot.rows if self.family == "forces" else robot.model.nv
        return (rows,) if self.order == 0 else (rows, n) if self.order == 1 else (n, n * n) if self.tensor else (n, n)


QUANTITIES: Mapping[str, Quantity] = {x.name: x for x in (
    Quantity("inverse_dynamics", "inverse dynamics", ("q", "v", "a"), ("tau",), 0),
    Quantity("forward_dynamics", "forward dynamics", ("q", "v", "tau"), ("a",), 0),
    Quantity("inverse_first", "first derivatives of inverse dynamics", ("q", "v", "a"), ("dtau_dq", "dtau_dv", "M"), 1),
    Quantity("forward_first", "first derivatives of forward dynamics", ("q", "v", "tau"), ("da_dq", "da_dv", "da_dtau"), 1),
    Quantity("inverse_contracted", "second derivatives of inverse dynamics, contracted", ("q", "v", "a", "lam"),
             ("qq", "qv", "vv", "qa"), 2),
    Quantity("forward_contracted", "second derivatives of forward dynamics, contracted", ("q", "v", "tau", "mu"),
             ("qq", "qv", "vv", "qtau"), 2),
    Quantity("inverse_second", "second derivatives of inverse dynamics, in full", ("q", "v", "a"), ("qq", "vv", "qv", "Mq"), 2,
             True),
    Quantity("forward_second", "second derivatives of forward dynamics, in full", ("q", "v", "tau"), ("qq", "qv", "vv", "qtau"), 2,
             True),
)}
#: those of robots under constraints, such as contacts; impacts are plastic
CONSTRAINED: Mapping[str, Quantity] = {x.name: x for x in (
    Quantity("constrained_dynamics", "constrained dynamics", ("q", "v", "tau"), ("a",), 0),
    Quantity("forces", "forces of constraints", ("q", "v", "tau"), ("force",), 0),
    Quantity("constrained_first", "first derivatives of constrained dynamics", ("q", "v", "tau"), ("da_dq", "da_dv", "da_dtau"), 1),
    Quantity("forces_first", "first derivatives of forces of constraints", ("q", "v", "tau"), ("df_dq", "df_dv", "df_dtau"), 1),
    Quantity("impact_first", "first derivatives of velocities after an impact", ("q", "v"), ("dv_dq", "dv_dv"), 1),
    Quantity("constrained_contracted", "second derivatives of constrained dynamics, contracted", ("q", "v", "tau", "mu"),
             ("qq", "qv", "vv", "qtau"), 2),
    Quantity("forces_contracted", "second derivatives of forces of constraints, contracted", ("q", "v", "tau", "nu"),
             ("qq", "qv", "vv", "qtau"), 2),
    Quantity("impact_contracted", "second derivatives of velocities after an impact, contracted", ("q", "v", "mu"),
             ("qq", "qv", "vv"), 2),
)}


# ------------------------------------------------------------------------------------------------ differentiation of graphs
class _Family(NamedTuple):
    """One of the families: the value, its closed-form first derivatives, contracted and full second derivatives."""

    value: Callable[..., Expr]
    first: Callable[..., Any]
    contracted: Callable[..., Any]
    second: Callable[..., Any]


def _family(what: Quantity, robot: ConstrainedModel) -> _Family:
    if what.name in CONSTRAINED:
        return _constrained(what, robot)
    if what.inverse:
        return _Family(alg.inverse_dynamics, inverse_dynamics_partials, contracted_inverse_dynamics,
                       inverse_dynamics_second_partials)
    return _Family(alg.forward_dynamics, forward.forward_dynamics_partials, forward.contracted_forward_dynamics,
                   forward.forward_dynamics_second_partials)


_Method = Callable[..., Any]
_DYNAMICS: tuple[_Method, ...] = (equations.accelerations, constrained.constrained_dynamics_partials,
                                  constrained.contracted_constrained_dynamics)
_IMPACT: tuple[_Method, ...] = equations.impact, constrained.impact_partials, constrained.contracted_impact


def _constrained(what: Quantity, robot: ConstrainedModel) -> _Family:
    """Of y = (a, lambda) or (v+, Lambda) the part that is asked for; its derivatives come by x = (q, v, tau, t) or (q, v, t)."""
    n, count, c = robot.model.nv, what.states, robot.constraints
    own = slice(n, None) if what.family == "forces" else slice(n)
    value, first, second = _IMPACT if what.family == "impact" else _DYNAMICS

    def partials(model: Model, *x: Expr) -> list[Expr]:
        y, other, Y = first(model, c, *x)
        return [other if own.start else y, *(Y[own, k * n:(k + 1) * n] for k in range(count))]

    def contracted(model: Model, *x: Expr) -> list[Expr]:
        mu = (ca.DM(n, 1), x[count]) if own.start else (x[count], ca.DM(robot.rows, 1))
        gradient, H = second(model, c, *x[:count], mu)
        blocks = [H[i * n:(i + 1) * n, k * n:(k + 1) * n] for i, k in ((0, 0), (0, 1), (1, 1), (0, 2))[:count + 1]]
        return [*(gradient[k * n:(k + 1) * n] for k in range(count)), *blocks]

    return _Family(lambda model, *x: value(model, c, *x)[1 if own.start else 0], partials, contracted, contracted)


def _symbols(kind: Any, robot: ConstrainedModel, names: Sequence[str]) -> list[Expr]:
    sizes = {"q": robot.model.nq, "nu": robot.rows}
    return [kind.sym(name, sizes.get(name, robot.model.nv)) for name in names]


def _exchanged(tensor: Expr) -> Expr:
    """The last two indices exchanged."""
    n = tensor.shape[0]
    return tensor[:, np.arange(n * n).reshape(n, n).T.ravel().tolist()]


def _pages(J: Expr, x: Expr, chain: Expr | None = None) -> Expr:
    """Derivatives of a matrix J [n, m] by x (times ``chain``), page by page side by side: [n, m * k], sparse."""
    D = ca.jacobian(J.nz[:], x)
    return _spread(J.sparsity(), D if chain is None else D @ chain)


def _spread(pattern: ca.Sparsity, D: Expr) -> Expr:
    """The same from the derivatives D [nonzeros of J, k]."""
    n, m = pattern.shape
    entry, page = (np.array(y, int) for y in D.sparsity().get_triplet())
    row, column = (np.array(y, int) for y in pattern.get_triplet())
    wide = ca.Sparsity.triplet(n, m * D.shape[1], row[entry].tolist(), (column[entry] + m * page).tolist())
    return type(D)(wide, D.nz[:])  # column-major before and after, so the entries keep their order


def _ad(kind: Any, robot: ConstrainedModel, what: Quantity) -> tuple[list[Expr], Sequence[Expr]]:
    """The algorithm differentiated once or twice; along ``jet`` at second order in q."""
    model, inputs = robot.model, _symbols(kind, robot, what.inputs)
    (q, v, *more), weights = inputs[:what.states], inputs[what.states:]
    value = _family(what, robot).value
    if kind is ca.MX:  # one call of a function, as a user's graph holds it
        x = _symbols(ca.SX, robot, what.inputs[:what.states])
        value = ca.Function("dynamics", x, [value(model, *x)], {"never_inline": True})
        y = [*_symbols(ca.SX, robot, ["q"]), ca.SX.sym("d", model.nv)]
        jet = ca.Function("jet", y, [alg.jet(model, *y)], {"never_inline": True})
        x = _symbols(ca.SX, robot, ["q"])
        rate = ca.Function("rate", x, [alg.rate_matrix(model, *x)], {"never_inline": True})
    else:
        value, jet, rate = (partial(f, model) for f in (value, alg.jet, alg.rate_matrix))
    if what.order == 1:
        y = value(q, v, *more)
        return inputs, [ca.jacobian(y, q) @ rate(q), *(ca.jacobian(y, x) for x in (v, *more))]
    d = kind.sym("d", model.nv)
    y = value(jet(q, d), v, *more)
    if weights:
        weighted = ca.dot(weights[0], y)
        qv, *qw = (ca.jacobian(ca.gradient(weighted, x), d).T for x in (v, *more))
        results = [ca.hessian(weighted, d)[0], qv, ca.hessian(weighted, v)[0], *qw]
    else:
        by_q, by_v, by_w = (ca.jacobian(y, x) for x in (d, v, *more))
        results = [_pages(by_q, d), _exchanged(_pages(by_v, d)), _pages(by_v, v), _pages(by_w, d)]
        results = _ordered(what, *results)
    return inputs, ca.substitute(results, [d], [kind.zeros(model.nv)])


def _ordered(what: Quantity, qq: Expr, qv: Expr, vv: Expr, wq: Expr) -> list[Expr]:
    """The four tensors in the quantity's order; wq: entry (i; j, k) by component j of the last input and q_k."""
    return [qq, vv, qv, wq] if what.inverse else [qq, qv, vv, _exchanged(wq)]


# ------------------------------------------------------------------------------------------------ derivatives of Functions
def _base(robot: ConstrainedModel, what: Quantity) -> ca.Function:
    """What is differentiated once: the algorithm, its closed-form first derivatives, or gradients of the weighted sum."""
    x = _symbols(ca.SX, robot, what.inputs)
    family, model = _family(what, robot), robot.model
    if what.order == 1:
        outputs = [family.value(model, *x)]
    elif what.tensor:
        outputs = list(family.first(model, *x)[1:4])
    else:
        outputs = list(family.contracted(model, *x)[:what.states])
    return ca.Function("base", x, ca.cse([ca.sparsify(ca.SX(y)) for y in outputs]))


Derivative = Callable[[int, int], Expr]
"""(output, input of the base) -> its derivative, pages side by side: [n, m * nv]; by q: tangent."""


def _assembled(what: Quantity, D: Derivative) -> list[Expr]:
    if what.order == 1:
        return [D(0, k) for k in range(what.states)]
    if what.tensor:
        return _ordered(what, symmetrised_tensor(D(0, 0)), D(0, 1), D(1, 1), D(2, 0))
    return [symmetrised(D(0, 0)), D(0, 1), D(1, 1), *(D(k, 0).T for k in range(2, what.states))]


def _ad_of_analytic(robot: ConstrainedModel, what: Quantity) -> tuple[list[Expr], Sequence[Expr]]:
    inputs = _symbols(ca.SX, robot, what.inputs)
    values, rate = _base(robot, what).call(inputs), alg.rate_matrix(robot.model, inputs[0])
    return inputs, _assembled(what, lambda out, x: _pages(values[out], inputs[x], None if x else rate))


def _stepped(jacobian: Callable[[ca.Function, int], ca.Function], robot: ConstrainedModel, what: Quantity
             ) -> tuple[list[Expr], Sequence[Expr]]:
    """By complex steps or differences along coordinates, which ``rate_matrix`` turns into those along the manifold."""
    inputs, symbols = _symbols(ca.MX, robot, what.inputs), _symbols(ca.SX, robot, what.inputs)
    values, rate = _base(robot, what).call(symbols), alg.rate_matrix(robot.model, inputs[0])
    D: dict[tuple[int, int], Expr] = {}
    # outputs that are wanted by the same input are stepped together
    once = [(x, (0,)) for x in range(what.states)]
    for x, outputs in once if what.order == 1 else ((0, (0, 2)[:what.states - 1]), (1, (0, 1))):
        stacked = ca.Function("stacked", symbols, [ca.vertcat(*(values[out].nz[:] for out in outputs))])
        J = jacobian(stacked, x)(*inputs)
        start = 0
        for out in outputs:
            pattern = values[out].sparsity()
            rows = J[start:start + pattern.nnz(), :]
            D[out, x] = _spread(pattern, rows if x else rows @ rate)
            start += pattern.nnz()
    return inputs, _assembled(what, lambda out, x: D[out, x])


# ------------------------------------------------------------------------------------------------ closed form
def _analytic(robot: ConstrainedModel, what: Quantity) -> tuple[list[Expr], Sequence[Expr]]:
    inputs, family, model = _symbols(ca.SX, robot, what.inputs), _family(what, robot), robot.model
    if what.order == 0:
        return inputs, [family.value(model, *inputs)]
    if what.order == 1:
        return inputs, list(family.first(model, *inputs)[1:what.states + 1])
    if what.tensor:
        qq, *rest = family.second(model, *inputs)
        return inputs, [symmetrised_tensor(qq), *rest]
    qq, *rest = family.contracted(model, *inputs)[what.states:]
    return inputs, [symmetrised(qq), *rest]


BUILDERS: Mapping[str, Callable[[ConstrainedModel, Quantity], tuple[list[Expr], Sequence[Expr]]]] = {
    "ad_sx": partial(_ad, ca.SX), "ad_mx": partial(_ad, ca.MX), "ad_of_analytic": _ad_of_analytic, "analytic": _analytic,
    "complex_step": partial(_stepped, complex_step_jacobian), "fd": partial(_stepped, difference_jacobian),
}
