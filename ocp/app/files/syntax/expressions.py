"""Expressions of problem files: a whitelist over Python's expression grammar, turned into CasADi SX.

Nothing is ever evaluated by Python: the text becomes an ``ast`` and every node outside the whitelist is an error with its
location. Values are columns; a number is a column of one. ``+`` and ``-`` join columns of equal length, ``*`` takes one
scalar, ``/`` and ``**`` take scalars on the right.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import casadi as ca

from dynamics.errors import near
from dynamics.kernels.tape import codes
from ocp.app.files.syntax.grammar import Where, syntax_tree
from ocp.app.files.syntax.scope import BUILTINS, FUNCTION_NAMES, SPECIAL, FollowOnError, Scope, lines, spline
from ocp.errors import ProblemError

SX = Any

MAX_CHARACTERS = 20_000
MAX_DEPTH = 60
_COMPONENTS = {"x": 0, "y": 1, "z": 2}


_COMPARISONS: Mapping[type[ast.cmpop], Callable[[SX, SX], SX]] = MappingProxyType({
    ast.Lt: lambda a, b: a < b, ast.LtE: lambda a, b: a <= b, ast.Gt: lambda a, b: a > b, ast.GtE: lambda a, b: a >= b,
})
CONDITIONS = "a comparison, and what and, or, not make of it, may only be the first argument of if_else(condition, a, b)"
_REFUSED: tuple[tuple[tuple[type[ast.AST], ...], str], ...] = (
    ((ast.Tuple,), "a list is written in brackets, [a, b]"),
    ((ast.IfExp,), "'a if condition else b' is written if_else(condition, a, b)"),
    ((ast.BoolOp,), CONDITIONS),
    *((kinds, f"{words} is not allowed in an expression") for kinds, words in (
        ((ast.Lambda,), "lambda"),
        ((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), "a comprehension"),
        ((ast.Dict, ast.Set), "a mapping or set in braces"),
        ((ast.JoinedStr,), "an f-string"),
        ((ast.NamedExpr,), "an assignment (:=)"),
        ((ast.Starred,), "unpacking with *"),
        ((ast.Await, ast.Yield, ast.YieldFrom), "await or yield"),
        ((ast.Slice,), "a slice"))),
)
_HINTS: Mapping[type[ast.AST], str] = MappingProxyType({
    ast.BitXor: "; a power is written **",
    ast.FloorDiv: "; a division is written /",
    ast.MatMult: "; use dot([..], [..])",
})


def parse(text: str, scope: Scope, where: Where) -> SX:
    """The scalar expression ``text`` as SX [1, 1]. ``where(offset)`` names the location of a character of the text.

    Raises ProblemError for anything outside the grammar, unknown names and functions (with near misses), a division by
    zero and constants that are not finite; FollowOnError for names of the scope that are broken.
    """
    value = parse_vector(text, scope, where)
    if value.numel() != 1:
        raise ProblemError(f"has {value.numel()} components; a single number is expected here{_pick(value)}", where=where(0))
    return value


def parse_vector(text: str, scope: Scope, where: Where) -> SX:
    """As :func:`parse`, but a column [n, 1] of any length n >= 1 may come out."""
    if len(text) > MAX_CHARACTERS:
        raise ProblemError(f"an expression of {len(text)} characters; at most {MAX_CHARACTERS} are read. Name parts of it "
                           "under 'define'", where=where(0))
    flat = text.replace("\n", " ").replace("\r", " ").replace("\t", " ")
    shift = len(flat) - len(flat.lstrip())
    stripped = flat.strip()
    if not stripped:
        raise ProblemError("an empty expression", where=where(0))
    if "#" in stripped:
        raise ProblemError("'#' is not allowed in an expression", where=where(shift + stripped.index("#")))
    tree = syntax_tree(stripped, shift, where)
    return _Evaluator(stripped.encode(), shift, scope, where).value(tree.body, 0)


def _pick(value: SX) -> str:
    return "; pick one with [0], [1], ..., or use norm(..) or dot(.., ..)" if value.numel() > 1 else ""


#: operations that are not defined everywhere
_PARTIAL = frozenset({ca.OP_SQRT, ca.OP_LOG, ca.OP_DIV, ca.OP_INV, ca.OP_POW, ca.OP_CONSTPOW, ca.OP_ASIN, ca.OP_ACOS})


def _where_defined(value: SX, *operands: SX) -> SX:
    """A value that no longer depends on its operands, such as 0*sqrt(x), as a number where these are defined, and NaN elsewhere;
    its derivatives are zero. Any other value is as it is."""
    if not value.is_constant():
        return value
    for operand in operands:
        function = None if operand.is_constant() else ca.Function("operand", ca.symvar(operand), [operand])
        if function is not None and not codes(function).isdisjoint(_PARTIAL):
            value += ca.sum1(ca.if_else(ca.fabs(operand) < math.inf, 0, math.nan))
    return value


class _Evaluator:
    """Walks one syntax tree; holds the text only to turn positions into places."""

    def __init__(self, encoded: bytes, shift: int, scope: Scope, where: Where):
        self.encoded, self.shift, self.scope, self.where = encoded, shift, scope, where

    def error(self, node: ast.AST, message: str) -> ProblemError:
        # ast counts columns in bytes of UTF-8
        column = len(self.encoded[: getattr(node, "col_offset", 0)].decode(errors="ignore"))
        return ProblemError(message, where=self.where(self.shift + column))

    def source(self, node: ast.expr) -> str:
        words = self.encoded[node.col_offset : node.end_col_offset].decode(errors="ignore")
        return words if len(words) <= 40 else words[:37] + "..."

    def value(self, node: ast.expr, depth: int) -> SX:
        if depth > MAX_DEPTH:
            raise self.error(node, f"the expression is nested deeper than {MAX_DEPTH} levels")
        read = _READERS.get(type(node))
        if read is not None:
            return read(self, node, depth)
        for kinds, words in _REFUSED:
            if isinstance(node, kinds):
                raise self.error(node, words)
        raise self.error(node, f"{type(node).__name__} is not allowed in an expression")

    def unary(self, node: ast.UnaryOp, depth: int) -> SX:
        if not isinstance(node.op, (ast.UAdd, ast.USub)):
            raise self.error(node, CONDITIONS if isinstance(node.op, ast.Not) else "'~' is not allowed in an expression")
        value = self.value(node.operand, depth + 1)
        return -value if isinstance(node.op, ast.USub) else value

    def compare(self, node: ast.Compare, depth: int) -> SX:
        hint = "; in a constraint write 'equal', 'lower' or 'upper' beside the expression" if depth == 0 else ""
        raise self.error(node, f"{CONDITIONS}{hint}")

    def scalar(self, node: ast.expr, depth: int, what: str) -> SX:
        value = self.value(node, depth)
        if value.numel() != 1:
            raise self.error(node, f"{what} must be a single number, but {self.source(node)!r} has {value.numel()} "
                                   f"components{_pick(value)}")
        return value

    def finite(self, node: ast.expr, value: SX) -> SX:
        # a constant that overflowed or left a function's domain would poison every later number silently
        if value.is_constant() and not all(math.isfinite(x) for x in ca.DM(value).full().ravel()):
            raise self.error(node, f"{self.source(node)!r} has no finite value")
        return value

    # ---- leaves -------------------------------------------------------------------------------------------------
    def constant(self, node: ast.Constant, depth: int) -> SX:
        if isinstance(node.value, bool) or node.value is None or node.value is Ellipsis:
            raise self.error(node, f"{self.source(node)} is not a number")
        if isinstance(node.value, (str, bytes)):
            raise self.error(node, f"text ({self.source(node)}) is only allowed as in q[\"joint\"] and position(\"frame\")")
        if isinstance(node.value, complex):
            raise self.error(node, "complex numbers are not allowed")
        try:
            number = float(node.value)
        except OverflowError:
            number = math.inf
        return self.finite(node, ca.SX(number))

    def name(self, node: ast.Name, depth: int) -> SX:
        name, scope = node.id, self.scope
        if name in scope.broken:
            raise FollowOnError(f"{name!r} is not defined well", where=self.where(0))
        if name in scope.names:
            return scope.names[name]
        if name in scope.tables:
            return scope.tables[name].vector
        if name == "pi":
            return ca.SX(math.pi)
        if name in scope.unavailable:
            raise self.error(node, f"{name!r} cannot be used here: {scope.unavailable[name]}")
        if name in FUNCTION_NAMES or name in scope.functions or name in scope.curves:
            raise self.error(node, f"{name!r} is a function; call it, as in {name}(..)")
        raise self.error(node, f"unknown name {name!r}{near(name, [*scope.names, *scope.tables, 'pi'])}")

    # ---- operators ----------------------------------------------------------------------------------------------
    def binary(self, node: ast.BinOp, depth: int) -> SX:
        # long sums lean to the left: walk that chain in a loop, so that only true nesting costs depth
        chain: list[ast.BinOp] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):
            chain.append(left)
            left = left.left
        value = self.value(left, depth + 1)
        for link in reversed(chain):
            right = self.value(link.right, depth + 1)
            value = self.finite(link, _where_defined(self.apply(link, value, right), value, right))
        return value

    def apply(self, node: ast.BinOp, a: SX, b: SX) -> SX:
        match node.op:
            case ast.Add() | ast.Sub():
                if a.numel() != b.numel():
                    raise self.error(node, f"{self.source(node)!r} joins {a.numel()} and {b.numel()} components; both sides "
                                           "need the same number")
                return a + b if isinstance(node.op, ast.Add) else a - b
            case ast.Mult():
                if a.numel() != 1 and b.numel() != 1:
                    raise self.error(node, f"{self.source(node)!r} multiplies two vectors; use dot(a, b)")
                return a * b
            case ast.Div() | ast.Pow():
                word = "divisor" if isinstance(node.op, ast.Div) else "exponent"
                if b.numel() != 1:
                    raise self.error(node.right, f"the {word} must be a single number")
                if isinstance(node.op, ast.Pow):
                    if a.numel() != 1:
                        raise self.error(node.left, "the base of a power must be a single number; use dot(a, a)")
                    return a**b
                if b.is_constant() and float(b) == 0.0:
                    raise self.error(node.right, f"division by zero in {self.source(node)!r}")
                return a / b
        symbol = {ast.BitXor: "^", ast.FloorDiv: "//", ast.MatMult: "@", ast.Mod: "%", ast.BitAnd: "&", ast.BitOr: "|",
                  ast.LShift: "<<", ast.RShift: ">>"}.get(type(node.op), type(node.op).__name__)
        hint = _HINTS.get(type(node.op), "; known operators: + - * / **")
        raise self.error(node, f"the operator {symbol!r} is not allowed{hint}")

    # ---- calls, lists, subscripts -------------------------------------------------------------------------------
    def call(self, node: ast.Call, depth: int) -> SX:
        if not isinstance(node.func, ast.Name):
            raise self.error(node, f"only functions by name can be called, not {self.source(node.func)!r}{self.spelt(node.func)}")
        name = node.func.id
        if name in self.scope.broken:
            raise FollowOnError(f"{name!r} is not defined well", where=self.where(0))
        if name not in FUNCTION_NAMES and name not in self.scope.functions and name not in self.scope.curves:
            known = [*FUNCTION_NAMES, *self.scope.functions, *self.scope.curves]
            if name in self.scope.names:
                raise self.error(node, f"{name!r} is a value, not a function; a product is written {name}*(..)")
            raise self.error(node, f"unknown function {name!r}{near(name, known, most=len(known))}")
        if node.keywords:
            raise self.error(node, f"{name}: arguments with a name (key=value) are not allowed")
        if name in self.scope.functions:
            return self.system_function(node, name)
        if name in SPECIAL:
            return _SPECIAL[name](self, node, name, depth)
        if name in self.scope.curves:
            return self.curve(node, name, depth)
        builtin = BUILTINS[name]
        self.count(node, name, len(node.args), builtin.least, builtin.most)
        if builtin.vectors:
            values = [self.value(a, depth + 1) for a in node.args]
            if len({v.numel() for v in values}) > 1:
                raise self.error(node, f"{name}: lengths {' and '.join(str(v.numel()) for v in values)} differ")
        else:
            values = [self.scalar(a, depth + 1, f"the argument of {name}") for a in node.args]
        return self.finite(node, builtin.build(*values))

    def count(self, node: ast.Call, name: str, got: int, least: int, most: int | None) -> None:
        if got < least or (most is not None and got > most):
            wanted = f"{least}" if least == most else f"at least {least}"
            raise self.error(node, f"{name} takes {wanted} argument{'' if wanted == '1' else 's'}, got {got}")

    def if_else(self, node: ast.Call, name: str, depth: int) -> SX:
        self.count(node, name, len(node.args), 3, 3)
        condition = self.condition(node.args[0], depth + 1)
        one = self.scalar(node.args[1], depth + 1, "a branch of if_else")
        other = self.scalar(node.args[2], depth + 1, "a branch of if_else")
        return ca.if_else(condition, one, other)

    def condition(self, node: ast.expr, depth: int) -> SX:
        """A comparison, or several joined by ``and`` and ``or``."""
        if depth > MAX_DEPTH:
            raise self.error(node, f"the expression is nested deeper than {MAX_DEPTH} levels")
        if isinstance(node, ast.BoolOp):
            parts = [self.condition(part, depth + 1) for part in node.values]
            join = ca.logic_and if isinstance(node.op, ast.And) else ca.logic_or
            return functools.reduce(join, parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ca.logic_not(self.condition(node.operand, depth + 1))
        if not isinstance(node, ast.Compare) or any(type(op) not in _COMPARISONS for op in node.ops):
            raise self.error(node, "a condition is a comparison with <, <=, > or >=, or several joined by and, or, not")
        sides = [self.scalar(side, depth + 1, "a side of a comparison") for side in (node.left, *node.comparators)]
        found = [_COMPARISONS[type(op)](a, b) for op, a, b in zip(node.ops, sides[:-1], sides[1:], strict=True)]
        return functools.reduce(ca.logic_and, found)

    def interpolate(self, node: ast.Call, name: str, depth: int) -> SX:
        """Lines or a spline through points."""
        self.count(node, name, len(node.args), 3, 3)
        at = self.scalar(node.args[0], depth + 1, f"the argument of {name}")
        places, values = (self.value(argument, depth + 1) for argument in node.args[1:])
        if places.numel() != values.numel() or places.numel() < 2:
            raise self.error(node, f"{name}: needs as many points as values, at least 2; got {places.numel()} and {values.numel()}")
        if not places.is_constant():
            raise self.error(node.args[1], f"{name}: points must be numbers")
        points = ca.DM(places).full().ravel()
        if not all(points[1:] > points[:-1]):
            raise self.error(node.args[1], f"{name}: points must increase")
        return (lines if name == "interpolate" else spline)(at, points, values)

    def curve(self, node: ast.Call, name: str, depth: int) -> SX:
        """A table of the file."""
        curve = self.scope.curves[name]
        self.count(node, name, len(node.args), curve.count, curve.count)
        return curve(*(self.scalar(a, depth + 1, f"an argument of {name}") for a in node.args))

    def derivative(self, node: ast.Call, name: str, depth: int) -> SX:
        """The time derivative of a state."""
        self.count(node, name, len(node.args), 1, 1)
        known, argument = self.scope.derivatives, node.args[0]
        if not known:
            raise self.error(node, "der(..) is for systems with 'equations', below 'define'; others have their derivatives in "
                                   "'dynamics'")
        if not isinstance(argument, ast.Name) or argument.id not in known:
            raise self.error(argument, f"der takes the name of a state{near(self.source(argument), known)}")
        return known[argument.id]

    def system_function(self, node: ast.Call, name: str) -> SX:
        function = self.scope.functions[name]
        if not function.takes_name:
            if node.args:
                raise self.error(node, f"{name}() takes no argument")
            return function.call()
        texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if len(node.args) != function.count or len(texts) != function.count:
            words = f"one {function.what} name" if function.count == 1 else f"{function.count} {function.what} names"
            example = ", ".join([f'"{function.what}"'] * function.count)
            raise self.error(node, f"{name} takes {words} in quotes, as in {name}({example})")
        try:
            return function.call(*texts)
        except ValueError as error:
            raise self.error(node.args[0], f"{name}: {error}") from None

    def list(self, node: ast.List, depth: int) -> SX:
        if not node.elts:
            raise self.error(node, "an empty list")
        return ca.vertcat(*(self.scalar(e, depth + 1, "an entry of a list") for e in node.elts))

    def attribute(self, node: ast.expr, depth: int) -> SX:
        """Names joined by dots: refused, with what the names of the file make of them."""
        raise self.error(node, f"a dot after a name (attribute access) is not allowed in an expression{self.spelt(node)}")

    def spelt(self, node: ast.expr) -> str:
        """``; write ..`` with the table of which a chain like ``b.final["v"]`` or ``final.b.v`` names an entry, the component, or
        the function behind a module's name; empty where there is none."""
        pieces, last = list[str](), ""
        while isinstance(node, ast.Attribute | ast.Subscript):
            pieces.insert(0, node.attr if isinstance(node, ast.Attribute) else str(getattr(node.slice, "value", "")))
            last, node = pieces[-1], node.value
        pieces = [node.id, *pieces] if isinstance(node, ast.Name) else ["", *pieces]
        for word in pieces:
            entry = ".".join(piece for piece in pieces if piece != word)
            if word in self.scope.tables and entry in self.scope.tables[word].entries:
                return f'; write {word}["{entry}"]'
        if last in (*FUNCTION_NAMES, *self.scope.functions, *self.scope.names):
            return f"; write {last}"
        return f"; a component is written {self.source(node)}[{_COMPONENTS[last]}]" if last in _COMPONENTS else ""

    def subscript(self, node: ast.Subscript, depth: int) -> SX:
        if isinstance(node.value, ast.Attribute):
            return self.attribute(node, depth)
        if isinstance(node.value, ast.Name) and node.value.id in self.scope.tables:
            return self.entry(node, node.value.id)
        value = self.value(node.value, depth + 1)
        if value.numel() == 1:
            raise self.error(node, f"{self.source(node.value)!r} is a single number and has no components")
        index: Any = node.slice
        if isinstance(index, ast.Name) and index.id in _COMPONENTS and value.numel() == 3:
            return value[_COMPONENTS[index.id]]
        number = index.value if isinstance(index, ast.Constant) else None
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < value.numel():
            letters = ", or x, y, z" if value.numel() == 3 else ""
            raise self.error(node, f"the component of {self.source(node.value)!r} must be a whole number from 0 to "
                                   f"{value.numel() - 1}{letters}")
        return value[number]

    def entry(self, node: ast.Subscript, table: str) -> SX:
        entries = self.scope.tables[table].entries
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if not isinstance(key, str):
            raise self.error(node, f"{table}[..] takes a name in quotes{near('', entries)}")
        reasons = self.scope.tables[table].unavailable
        if key in reasons:
            raise self.error(node, f"{table}[\"{key}\"] cannot be used: {reasons[key]}")
        if key not in entries:
            parts = [e for e in entries if e.startswith(f"{key}.")]
            if parts:
                raise self.error(node, f"{table}[\"{key}\"] has several components; use one of {', '.join(parts)}")
            raise self.error(node, f"{table} has no entry {key!r}{near(key, entries)}")
        return entries[key]


_READERS: Mapping[type[ast.expr], Callable[[_Evaluator, Any, int], SX]] = MappingProxyType({
    ast.Constant: _Evaluator.constant, ast.Name: _Evaluator.name, ast.UnaryOp: _Evaluator.unary, ast.BinOp: _Evaluator.binary,
    ast.Call: _Evaluator.call, ast.Subscript: _Evaluator.subscript, ast.Attribute: _Evaluator.attribute,
    ast.List: _Evaluator.list, ast.Compare: _Evaluator.compare})
_SPECIAL: Mapping[str, Callable[[_Evaluator, ast.Call, str, int], SX]] = MappingProxyType({
    "if_else": _Evaluator.if_else, "interpolate": _Evaluator.interpolate, "spline": _Evaluator.interpolate,
    "der": _Evaluator.derivative})
