"""Where NaN and infinities come from: the operation whose operands are finite and whose result is not, in the user's symbols.

Every function that the user wrote is looked at along a trajectory. A CasADi function is a list of scalar operations on numbered
slots. From an output that is not finite the walk goes back along operands that are not finite either, and ends at an operation
whose operands are all finite: the square root of -0.3, the logarithm of 0, a division by 0. Values that are not finite but never
reach the output, such as the branch of an ``if_else`` that is not taken, are passed by.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from dynamics.kernels.tape import codes, replay
from ocp.explain.groups import Program
from ocp.guesses.sampling import sample_guess
from ocp.nlp.names import parts_of_name
from ocp.problem import At, Phase, Problem
from ocp.thresholds import EXPLANATION


@dataclass(frozen=True)
class Operand:
    """An operand of an operation, in the user's symbols, and its value."""

    text: str
    value: float


_INFIX = {ca.OP_ADD: ("+", 1), ca.OP_SUB: ("-", 1), ca.OP_MUL: ("*", 2), ca.OP_DIV: ("/", 2), ca.OP_POW: ("**", 4),
          ca.OP_CONSTPOW: ("**", 4), ca.OP_LT: ("<", 0), ca.OP_LE: ("<=", 0), ca.OP_EQ: ("==", 0), ca.OP_NE: ("!=", 0),
          ca.OP_AND: ("and", 0), ca.OP_OR: ("or", 0)}
_CALLS = {getattr(ca, f"OP_{key}"): name for key, name in {
    "EXP": "exp", "LOG": "log", "SQRT": "sqrt", "SIN": "sin", "COS": "cos", "TAN": "tan", "ASIN": "asin", "ACOS": "acos",
    "ATAN": "atan", "SINH": "sinh", "COSH": "cosh", "TANH": "tanh", "ASINH": "asinh", "ACOSH": "acosh", "ATANH": "atanh",
    "FABS": "abs", "SIGN": "sign", "FMIN": "min", "FMAX": "max", "ATAN2": "atan2", "FLOOR": "floor", "CEIL": "ceil",
    "FMOD": "fmod", "ERF": "erf", "COPYSIGN": "copysign", "HYPOT": "hypot", "LOG1P": "log1p", "EXPM1": "expm1", "NOT": "not",
    "ERFINV": "erfinv", "REMAINDER": "remainder"}.items()}
_TIGHT = 9  # binds tighter than any operator


def expanded(function: ca.Function) -> ca.Function | None:
    """The function as scalar operations; None if it calls functions that have none, or that are never to be inlined."""
    try:
        flat = function if function.is_a("SXFunction") else function.expand()
    except RuntimeError:
        return None
    return None if ca.OP_CALL in codes(flat) else flat


def trace(function: ca.Function, arguments: Sequence[np.ndarray], entry: int, names: Sequence[Sequence[str]]
          ) -> tuple[str, tuple[Operand, ...], float] | None:
    """(operation, operands, result) at the origin of an output entry that is not finite; None if it is finite or the function
    cannot be expanded. entry: number of the nonzero of the first output, column by column; names: of the entries of every
    argument"""
    flat = expanded(function)
    if flat is None:
        return None
    nodes, outputs = _values(flat, arguments)
    at = outputs[entry]
    if math.isfinite(nodes[at].value):
        return None
    while True:
        broken = [i for i in nodes[at].inputs if not math.isfinite(nodes[i].value)]
        if not broken:
            break
        at = broken[0]
    node = nodes[at]
    texts = _Texts(nodes, names)
    operands = tuple(Operand(texts.text(i, 0)[:EXPLANATION.max_characters * 2], nodes[i].value) for i in node.inputs)
    return texts.text(at, 0), tuple(dict.fromkeys(operands)), node.value


@dataclass(frozen=True)
class _Node:
    """One scalar operation: its operands are numbers of nodes; data: (argument, entry) of an input."""

    op: int
    inputs: tuple[int, ...]
    value: float
    data: tuple[int, int] = (-1, -1)


def _values(function: ca.Function, arguments: Sequence[np.ndarray]) -> tuple[list[_Node], list[int]]:
    """Every operation with its value, and the node of each nonzero of the first output."""
    nodes: list[_Node] = []
    given = [np.asarray(a, dtype=float).ravel() for a in arguments]

    def add(op: int, value: float, operands: Sequence[int] = (), data: tuple[int, int] = (-1, -1)) -> int:
        nodes.append(_Node(op, tuple(operands), float(value), data))
        return len(nodes) - 1

    outputs = replay(function, lambda i, j: add(ca.OP_INPUT, given[i][j], data=(i, j)), lambda value: add(ca.OP_CONST, value),
                     lambda op, operands: add(op, _apply(op, [nodes[i].value for i in operands]), operands))
    return nodes, outputs[0]


def _apply(op: int, values: Sequence[float]) -> float:
    """The operation as CasADi's interpreter computes it; constants would be simplified first, 0 * inf to 0."""
    return float(_operation(op, len(values))(*values))


@functools.cache
def _operation(op: int, count: int) -> ca.Function:
    symbols = [ca.SX.sym(f"a{i}") for i in range(count)]
    return ca.Function("operation", symbols, [ca.SX.unary(op, *symbols) if count == 1 else ca.SX.binary(op, *symbols)])


class _Texts:
    """Operations written out, long operands cut short; remembers what it has written."""

    def __init__(self, nodes: Sequence[_Node], names: Sequence[Sequence[str]]):
        self.nodes, self.names = nodes, names
        self.known: dict[int, tuple[str, int]] = {}

    def text(self, at: int, binding: int, *, cut: bool = False) -> str:
        """The text of a node, in parentheses where an operator that binds so tightly surrounds it; cut short inside others."""
        words, own = self._written(at)
        if len(words) > EXPLANATION.max_characters and (cut or binding > 0):
            words, own = "..." if cut else "(...)", _TIGHT
        return f"({words})" if own < binding else words

    def _written(self, at: int) -> tuple[str, int]:
        if at not in self.known:
            # operands stand before what uses them: filled in order, without recursion as deep as the expression
            for i in self._below(at):
                self.known.setdefault(i, self._write(i))
        return self.known[at]

    def _below(self, at: int) -> list[int]:
        seen, todo = {at}, [at]
        while todo:
            for i in self.nodes[todo.pop()].inputs:
                if i not in seen and i not in self.known:
                    seen.add(i)
                    todo.append(i)
        return sorted(seen)

    def _write(self, at: int) -> tuple[str, int]:
        node = self.nodes[at]
        op, inputs = node.op, node.inputs
        if op == ca.OP_INPUT:
            argument, entry = node.data
            return str(self.names[argument][entry]), _TIGHT
        if op == ca.OP_CONST:
            return f"{node.value:.6g}", _TIGHT if node.value >= 0 else 3
        if op in _INFIX:
            word, level = _INFIX[op]
            a, b = self.text(inputs[0], level + (level == 4)), self.text(inputs[1], level + (word in ("-", "/", "**")))
            return (f"{a}{word}{b}" if level == 4 else f"{a} {word} {b}"), level
        if op in _CALLS:
            return f"{_CALLS[op]}({', '.join(self.text(i, 0, cut=True) for i in inputs)})", _TIGHT
        simple: dict[int, tuple[str, int]] = {ca.OP_NEG: ("-{}", 3), ca.OP_SQ: ("{}**2", 4), ca.OP_TWICE: ("2 * {}", 2),
                                              ca.OP_INV: ("1 / {}", 2), ca.OP_ASSIGN: ("{}", 0)}
        if op in simple:
            form, level = simple[op]
            return form.format(self.text(inputs[0], level + 1)), level
        if op == ca.OP_IF_ELSE_ZERO:
            return f"if_else({self.text(inputs[0], 0)}, {self.text(inputs[1], 0)}, 0)", _TIGHT
        return f"operation {op}({', '.join(self.text(i, 0) for i in inputs)})", _TIGHT


VALUE, FIRST, SECOND = "value", "first derivative", "second derivative"


@dataclass(frozen=True)
class Point:
    """One instant: state x [nx], control u [nu], parameters p [np]; phase: its number; first, last: whether it is an end."""

    location: str
    phase: int
    t: float
    x: np.ndarray
    u: np.ndarray
    p: np.ndarray
    first: bool = False
    last: bool = False


@dataclass(frozen=True)
class Origin:
    """The origin of a value that is not finite.
    kind, name: "rate", "cost", "constraint", "energy" or "power" and its name; component: number and name of the output entry
    order: VALUE, FIRST or SECOND; by: the variables of a derivative
    expression: the operation; operands: its operands; result: its result. Empty if the function cannot be expanded
    location, t, values: the point of the trajectory, with its states and controls; parameters: their values

    """

    kind: str
    name: str
    phase: int
    component: int
    component_name: str
    order: str
    by: tuple[str, ...]
    expression: str
    operands: tuple[Operand, ...]
    result: float
    location: str
    t: float
    values: tuple[tuple[str, float], ...]
    parameters: tuple[tuple[str, float], ...] = ()

    @property
    def label(self) -> str:
        """The name of the value that is not finite."""
        what = {"rate": f"the rate of {self.component_name}"}.get(self.kind, f"{self.kind} {self.name!r}")
        part = f"[{self.component_name}]" if self.kind == "constraint" and self.component_name else ""
        by = {VALUE: "", FIRST: "the derivative of ", SECOND: "the second derivative of "}[self.order]
        return f"{by}{what}{part}" + (f" by {' and '.join(self.by)}" if self.by else "")

    @property
    def sentence(self) -> str:
        """The operation and its operands as text."""
        if not self.expression:
            return f"{self.label} is {self.result:g}"
        given = ", ".join(f"{o.text} = {o.value:.6g}" for o in self.operands if not _is_number(o.text))
        return f"{self.expression} is {_word(self.result)}" + (f" where {given}" if given else "")


def is_finite(program: Program, x: np.ndarray) -> bool:
    """Whether all functions of the program and their derivatives are finite at its variables x [n]."""
    nlp = program.nlp
    values = [nlp.f(x), *nlp.grad(x), *nlp.jac(x), nlp.hess(x, 1.0, np.ones(nlp.m))]
    return all(bool(np.all(np.isfinite(value.nonzeros()))) for value in values)


# ---- points -------------------------------------------------------------------------------------------------------------
def points_of(program: Program, x: np.ndarray) -> tuple[Point, ...]:
    """All instants of a transcribed problem at which it has states, at its variables x [n]; unknowns must be coordinates."""
    x = np.asarray(x, dtype=float)
    values = dict(zip(program.nlp.variables, x, strict=True))
    chosen = program.transcription.parameters(x)
    found: list[Point] = []
    for k, (phase, path) in enumerate(zip(program.problem.phases, program.trajectories(x), strict=True)):
        system, before = phase.system, f"{phase.name}: " if len(program.problem.phases) > 1 else ""
        p = np.array([chosen.get(name, value) for name, value in
                      zip(system.parameters, system.parameter_values, strict=True)], dtype=float)
        names = [f"{before}x.{name}" for name in system.space.names]
        places = dict.fromkeys(place for what, place in map(parts_of_name, program.nlp.variables) if what == names[0])
        own = []
        for place in places:
            t = program.time(f"{names[0]} @ {place}", x)
            assert t is not None  # a state belongs to an instant
            # states straight from the variables: the interpolant between them takes rates, which may be what is not finite
            here = np.array([values[f"{name} @ {place}"] for name in names])
            u = np.asarray(path.control(min(max(t, path.t[0]), path.t[-1])), dtype=float).reshape(system.nu)
            own.append(Point(place, k, t, here, u, p))
        found += [replace(q, first=i == 0, last=i == len(own) - 1) for i, q in enumerate(own)]
    return tuple(found)


# ---- which function -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Term:
    """A function of (t, x, u, p) of the problem, the names of its outputs, and the points at which it applies."""

    kind: str
    name: str
    function: ca.Function
    components: tuple[str, ...]
    at: At


def find_not_finite(problem: Problem, points: Sequence[Point], most: int = 6) -> tuple[Origin, ...]:
    """Every function of the problem that is not finite at these points, with the first such point. First derivatives are examined
    only if all values are finite, and second ones only if the first are."""
    for order in (VALUE, FIRST, SECOND):
        found = []
        for k, phase in enumerate(problem.phases):
            own = [point for point in points if point.phase == k]
            for term in _terms(phase):
                if (origin := _inspect(phase, term, own, order)) is not None:
                    found.append(origin)
        if found:
            return tuple(found[:most])
    return ()


def infinite_ends(problem: Problem) -> tuple[Origin, ...]:
    """The first rate of each start and final state that is infinite for every motion: the states it depends on are fixed there, and
    no control changes it. place: "start" or "end"."""
    found = []
    for k, phase in enumerate(problem.phases):
        system, rate = phase.system, next(_terms(phase))
        for boundary, place in ((phase.start, "start"), (phase.final, "end")):
            if boundary is None or not any(boundary.fixed):
                continue
            x, u = (part[0] for part in sample_guess(phase.guess, system.space, np.array([float(place == "end")])))
            held = np.asarray(boundary.fixed) if system.space.is_vector_space else np.full(system.nx, boundary.complete)
            x, p = np.where(held, boundary.value, x), np.asarray(system.parameter_values, float)
            t = phase.duration.guess if place == "end" else 0.0
            origins = [_inspect(phase, rate, [Point(place, k, t, x, tried, p)], VALUE) for tried in (u, u + 1.0)]
            if origins[0] is not None and all(o is not None and math.isinf(o.result) for o in origins):
                depends = system.rate.jac_sparsity(0, 1)
                columns = [c for r, c in zip(depends.row(), depends.get_col(), strict=True) if r == origins[0].component]
                found += [origins[0]] if held[columns].all() else []
    return tuple(found)


def _terms(phase: Phase) -> Iterator[_Term]:
    system = phase.system
    yield _Term("rate", system.name, system.rate, system.space.tangent_names, At.PATH)
    for cost in phase.costs:
        yield _Term("cost", cost.name, cost.function, (), cost.at)
    for c in phase.constraints:
        yield _Term("constraint", c.name, c.function, tuple(n[len(c.name):].strip("[]") for n in c.components()), c.at)


def _inspect(phase: Phase, term: _Term, points: Sequence[Point], order: str) -> Origin | None:
    ends = {At.START: lambda q: q.first, At.FINAL: lambda q: q.last}
    here = [q for q in points if term.at not in ends or ends[term.at](q)]
    own = (*phase.system.space.names, *phase.system.inputs)
    function, by = term.function, list[tuple[str, ...]]()
    size = function.numel_out(0)
    if order != VALUE:
        derived = _derivative(function, own, order)
        if derived is None:
            return None
        function, by = derived
    for q in here:
        values = function(q.t, q.x, q.u, q.p).full()
        broken = np.argwhere(~np.isfinite(values))
        if not len(broken):
            continue
        row, column = (int(i) for i in broken[0])
        names = [("t",), own[: phase.system.nx], own[phase.system.nx:], phase.system.parameters]
        walked = trace(function, [np.array([q.t]), q.x, q.u, q.p], row + column * values.shape[0], names)
        component = row % size
        expression, operands, result = walked or ("", (), float(values[row, column]))
        return Origin(
            kind=term.kind, name=term.name, phase=q.phase, component=component,
            component_name=term.components[component] if component < len(term.components) else "", order=order,
            by=by[column] if by else (), expression=expression, operands=operands, result=result, location=q.location, t=q.t,
            values=tuple((name, float(v)) for name, v in zip(own, [*q.x, *q.u], strict=True)),
            parameters=tuple((name, float(v)) for name, v in zip(phase.system.parameters, q.p, strict=True)))
    return None


def _derivative(function: ca.Function, own: Sequence[str], order: str
                ) -> tuple[ca.Function, list[tuple[str, ...]]] | None:
    """The dense Jacobian with respect to (x, u), or the second derivatives [size, pairs], and the variables of each column."""
    flat = expanded(function)
    if flat is None:
        return None
    t, x, u, p = flat.sx_in()
    z, y = ca.vertcat(x, u), ca.vec(flat(t, x, u, p))
    first = ca.jacobian(y, z)
    if order == FIRST:
        return ca.Function("first", [t, x, u, p], [ca.densify(first)]), [(name,) for name in own]
    if flat.n_instructions() > EXPLANATION.max_operations:
        return None
    pairs = [(i, j) for i in range(len(own)) for j in range(i, len(own))]
    second = ca.jacobian(ca.vec(first), z)  # entry (row + size * i, j)
    size = y.numel()
    columns = [second[[row + size * i for row in range(size)], j] for i, j in pairs]
    return (ca.Function("second", [t, x, u, p], [ca.densify(ca.horzcat(*columns))]), [(own[i], own[j]) for i, j in pairs])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _word(value: float) -> str:
    return "not a number" if math.isnan(value) else ("infinite" if value > 0 else "minus infinite")
