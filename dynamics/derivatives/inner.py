"""Dynamics inside other functions, found and differentiated in closed form.

Where accelerations are controls, x = (q, v) and u = (a, ...), efforts ``tau = ID(q, v, a)`` occur in costs and limits; where
efforts are controls, accelerations and the forces of constraints (``forward dynamics under constraints``) do, in cones of friction
and costs of force. Expressions of (x, u) contain them as unmarked subexpressions k. ``split`` finds these by value numbering of the
graph (equal operations on equal values get equal numbers) and replaces them by symbols. The remaining function
``rho(t, x, u, p, k)`` equals the expression at k = k(x, u), whether subexpressions were found or not. Its derivatives in
z = (dx, u) are, with T = dk / dz,

    rho_z + rho_k T        rho_zz + rho_zk T + (rho_zk T)' + T' rho_kk T + rho_k . k''

T and the contracted ``rho_k . k''`` in closed form: on six joints a third of the operations of differentiating; the cones of four
feet of a quadruped have a twentieth.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca

from dynamics import algorithms as alg
from dynamics.derivatives.constrained import constrained_dynamics_partials, contracted_constrained_dynamics, dependent
from dynamics.derivatives.inverse_contracted import contracted_inverse_dynamics
from dynamics.derivatives.inverse_first import inverse_dynamics_partials
from dynamics.kernels.tape import replay
from dynamics.lie.expression import Expr
from dynamics.mechanism import ByFingerprint, Mechanism
from dynamics.mechanism.constrained import reduced
from dynamics.model.model import Model

_COMMUTE = (ca.OP_ADD, ca.OP_MUL)
Op = tuple[Any, ...]
Numbering = tuple[list[Op], dict[Op, int], list[list[int]]]


@dataclass(frozen=True)
class Inner:
    """Values k [n] of the dynamics that other functions of (t, x, u, p) may hold.

    sought: (t, x, u) -> k, the graph that ``split`` looks for. first(t, x, u) -> k, T [n, ndx + nu]; second(t, x, u, weights [n])
    -> Hessian [ndx + nu, ndx + nu] of ``weights . k(t, x [+] dx, u + du)`` at 0; expressions of SX or MX. forward: whether they are
    of forward dynamics, whose second derivatives Gauss-Newton Hessians leave out.
    """

    sought: ca.Function
    first: Callable[[Expr, Expr, Expr], tuple[Expr, Expr]]
    second: Callable[[Expr, Expr, Expr, Expr], Expr]
    forward: bool = False

    @property
    def count(self) -> int:
        """Number of values."""
        return int(self.sought.numel_out(0))

    def carried(self, nx: int, more: int) -> Inner:
        """The same where the state [nx] has so many constants behind it, of which k knows nothing."""
        def first(t: Expr, x: Expr, u: Expr) -> tuple[Expr, Expr]:
            k, T = self.first(t, x[:nx], u)
            n = T.shape[1] - u.shape[0]
            return k, ca.horzcat(T[:, :n], type(T)(T.shape[0], more), T[:, n:])

        def second(t: Expr, x: Expr, u: Expr, weights: Expr) -> Expr:
            H = self.second(t, x[:nx], u, weights)
            n = H.shape[0] - u.shape[0]
            kept = [*range(n), *range(n + more, n + more + u.shape[0])]
            wide = type(H)(H.shape[0] + more, H.shape[0] + more)
            wide[kept, kept] = H
            return wide

        t, x, u = (ca.SX.sym(n, size) for n, size in (("t", 1), ("x", nx + more), ("u", self.sought.size1_in(2))))
        return Inner(ca.Function("carried", [t, x, u], [self.sought(t, x[:nx], u)]), first, second, self.forward) if more else self


def efforts(model: Model, nu: int, start: int = 0) -> Inner:
    """Efforts [nv] of inverse dynamics, x = (q, v), accelerations from ``start`` on in u [nu]."""
    return _efforts(ByFingerprint(Mechanism(model)), nu, start)


@functools.lru_cache(maxsize=16)
def _efforts(key: ByFingerprint, nu: int, start: int) -> Inner:
    model = key.mechanism.model
    nq, n = model.nq, model.nv
    t, x, u, w = (ca.SX.sym(name, size) for name, size in (("t", 1), ("x", nq + n), ("u", nu), ("w", n)))
    q, v, a = x[:nq], x[nq:], u[start:start + n]

    def first() -> list[Expr]:
        found = inverse_dynamics_partials(model, q, v, a)
        return [found.tau, ca.horzcat(found.dtau_dq, found.dtau_dv, ca.SX(n, start), found.M, ca.SX(n, nu - start - n))]

    def second() -> Expr:
        found, H = contracted_inverse_dynamics(model, q, v, a, w), ca.SX(2 * n + nu, 2 * n + nu)
        by_q, by_v, by_a = slice(0, n), slice(n, 2 * n), slice(2 * n + start, 3 * n + start)
        H[by_q, by_q], H[by_v, by_v] = (found.qq + found.qq.T) / 2, found.vv
        H[by_q, by_v], H[by_v, by_q], H[by_q, by_a], H[by_a, by_q] = found.qv, found.qv.T, found.qa, found.qa.T
        return H

    return _inner((t, x, u, w), alg.inverse_dynamics(model, q, v, a), first, second)


def forces(mechanism: Mechanism) -> Inner | None:
    """Accelerations [nv] and multipliers of the reduced constraints [m] under the controls u of the drives, x = (q, v). None
    without constraints, and where no closed form is written: with thrusters, constraints that depend on time or on each other."""
    return _forces(ByFingerprint(mechanism))


@functools.lru_cache(maxsize=16)
def _forces(key: ByFingerprint) -> Inner | None:
    mechanism = key.mechanism
    model, held = mechanism.model, mechanism.constraints
    if not held or mechanism.thrusters or mechanism.timed or dependent(model, reduced(held)):
        return None
    nq, n, nu = model.nq, model.nv, mechanism.nu
    t, x, u = ca.SX.sym("t"), ca.SX.sym("x", nq + n), ca.SX.sym("u", nu)
    q, v = x[:nq], x[nq:]
    tau = mechanism.motor_effort(u) + mechanism.force(q, v)
    value = ca.vertcat(*mechanism.reduced_dynamics(q, v, u, t))
    w = ca.SX.sym("w", value.shape[0])
    one = ca.SX.eye(n)
    moves = ca.vertcat(ca.horzcat(one, ca.SX(n, n + nu)), ca.horzcat(ca.SX(n, n), one, ca.SX(n, nu)),  # d(q, v, tau) by (dq, v, u)
                       ca.horzcat(mechanism.stiffness(q, v), mechanism.damping(q, v), mechanism.selection))

    def first() -> list[Expr]:
        found = constrained_dynamics_partials(model, held, q, v, tau)
        return [ca.vertcat(found.a, found.force), ca.mtimes(found.Y[:, :3 * n], moves)]

    def second() -> Expr:
        gradient, H = contracted_constrained_dynamics(model, held, q, v, tau, (w[:n], w[n:]))
        H = ca.mtimes(moves.T, ca.mtimes(H[:3 * n, :3 * n], moves))
        if mechanism.forces:
            d, g = ca.SX.sym("d", 2 * n), ca.SX.sym("g", n)
            own = ca.hessian(ca.dot(g, mechanism.force(alg.jet(model, q, d[:n]), v + d[n:])), d)[0]
            H[:2 * n, :2 * n] += ca.substitute(own, ca.vertcat(d, g), ca.vertcat(ca.SX.zeros(2 * n), gradient[2 * n:3 * n]))
        return H

    return replace(_inner((t, x, u, w), value, first, second), forward=True)


def _inner(symbols: tuple[Expr, Expr, Expr, Expr], value: Expr, first: Callable[[], list[Expr]], second: Callable[[], Expr]
           ) -> Inner:
    """From symbols (t, x, u, weights) and what makes expressions of them, each made when it is asked for."""
    t, x, u, w = symbols

    @functools.cache
    def firsts() -> ca.Function:
        return ca.Function("firsts", [x, u], ca.cse([ca.SX(y) for y in first()]))

    @functools.cache
    def seconds() -> ca.Function:
        return ca.Function("seconds", [x, u, w], ca.cse([ca.SX(second())]))

    return Inner(ca.Function("sought", [t, x, u], [ca.cse(ca.densify(value))]), lambda t, x, u: firsts()(x, u),
                 lambda t, x, u, weights: seconds()(x, u, weights))


@functools.lru_cache(maxsize=64)
def split(function: ca.Function, sought: ca.Function) -> ca.Function | None:
    """(t, x, u, p, k) -> value, such that k = sought(t, x, u) gives ``function``; None where nothing of it is found."""
    symbols = [ca.SX.sym(name, function.size1_in(i)) for i, name in enumerate("txup")]
    if not function.is_a("SXFunction"):
        return None
    value = ca.cse(ca.SX(function(*symbols)))  # where equal parts are one node CasADi simplifies, in both graphs alike
    if value.nnz() == 0:
        return None
    first, known, (parts,) = _sought(sought)
    nodes, _, (values,) = _numbered(ca.Function("value", symbols, [value]), first, known)
    k = ca.SX.sym("k", sought.numel_out(0))
    built: dict[int, Expr] = {}
    for i, number in enumerate(parts):
        if isinstance(nodes[number][0], int):  # neither an input nor a constant
            built.setdefault(number, k[i])
            what, *takes = nodes[number]
            if what == ca.OP_NEG and isinstance(nodes[takes[0]][0], int):  # x - (-y) is written x + y
                built.setdefault(takes[0], -k[i])
    for number in values:
        _build(nodes, number, built, symbols)
    rest = ca.SX(value.sparsity(), ca.vertcat(*(built[number] for number in values)))
    return ca.Function(function.name(), [*symbols, k], [rest]) if ca.depends_on(rest, k) else None


@functools.lru_cache(maxsize=16)
def _sought(sought: ca.Function) -> Numbering:
    return _numbered(sought)


def _numbered(function: ca.Function, first: Sequence[Op] = (), numbers: Mapping[Op, int] | None = None
              ) -> Numbering:
    """Nodes by number, each an operation with the numbers of its operands, ("in", input, entry) or ("value", number), behind those
    of another function of the same inputs; their numbers; and the numbers of the nonzeros of every output."""
    nodes, known = [*first], dict(numbers or {})

    def number(node: Op) -> int:
        if node not in known:
            known[node] = len(nodes)
            nodes.append(node)
        return known[node]

    def apply(code: int, operands: list[int]) -> int:
        return number((code, *(sorted(operands) if code in _COMMUTE else operands)))

    return nodes, known, replay(function, lambda i, j: number(("in", i, j)), lambda value: number(("value", value)), apply)


def _build(nodes: Sequence[Op], number: int, built: dict[int, Expr], symbols: Sequence[Expr]) -> None:
    """Expressions of a node and of all it needs, into ``built``."""
    waiting = [number]
    while waiting:
        here = waiting[-1]
        what, *takes = nodes[here]
        missing = [i for i in takes if i not in built] if isinstance(what, int) and here not in built else []
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if here in built:
            continue
        if what == "in":
            built[here] = symbols[takes[0]][takes[1]]
        elif what == "value":
            built[here] = ca.SX(takes[0])
        elif len(takes) == 1:
            built[here] = ca.SX.unary(what, built[takes[0]])
        else:
            built[here] = ca.SX.binary(what, built[takes[0]], built[takes[1]])


def through(H: Expr, T: Expr) -> Expr:
    """The Hessian in z of rho(z, k(z)) without the curvature of k, from that of rho in (z, k)."""
    size = T.shape[1]
    mixed = ca.mtimes(H[:size, size:], T)
    return H[:size, :size] + mixed + mixed.T + ca.mtimes(T.T, ca.mtimes(H[size:, size:], T))
