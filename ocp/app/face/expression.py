"""Expressions written with Python's operators, kept as the text of the file language, so that a problem in Python is a file.

Nothing is computed here: names get their meaning, and sizes their check, when the problem is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dynamics.errors import near
from ocp.errors import ProblemError

SUM, PRODUCT, UNARY, POWER, ATOM = range(1, 6)  # how tightly the text of an expression holds together


class SingleNumberError(ProblemError, TypeError):
    """A number was taken for a sequence; a TypeError, as Python and NumPy expect it of what has no length."""


def _after(sign: str) -> Callable[[Any, Any], Expr]:
    """The operator method with the expression at the left of its sign."""
    return lambda self, other: joined(self, sign, other)


def _before(sign: str) -> Callable[[Any, Any], Expr]:
    """The same with the expression at the right."""
    return lambda self, other: joined(other, sign, self)


def _component(index: int) -> property:
    return property(lambda self: self[index])


def compared(sign: str) -> Callable[[Any, Any], Relation]:
    """The method of an operator that compares two expressions."""
    return lambda self, other: Relation(self, sign, other)


class Expr:
    """An expression in names of the problem; ``str`` is its text.

    size: its number of components, or None where it is not known before the problem is compiled. entries: names that ``e["name"]``
    may pick. Components are ``e[0]``, and ``e.x``, ``e.y``, ``e.z`` of those with three.
    """

    __slots__ = ("_level", "entries", "size", "text")
    __array_priority__ = 1000

    def __init__(self, text: str, *, level: int = ATOM, size: int | None = 1, entries: Sequence[str] | None = None):
        self.text, self.size, self._level = text, size, level
        self.entries = None if entries is None else tuple(entries)

    # ---- looks ------------------------------------------------------------------------------------------------------
    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text if len(self.text) <= 200 else f"{self.text[:197]}..."

    def __hash__(self) -> int:
        return hash(self.text)

    def __bool__(self) -> bool:
        raise ProblemError(f"the expression {self!r} has no truth value before the solve; for cases use if_else(a < b, ..)")

    def __float__(self) -> float:
        raise ProblemError(f"the expression {self!r} is not a number: use it in costs and constraints, or result.value(..)")

    # ---- components -------------------------------------------------------------------------------------------------
    def __getitem__(self, key: Any) -> Expr:
        if isinstance(key, str):
            if self.entries is None:
                raise ProblemError(f"{self!r} has no entries by name; pick a component with [0], [1], ...")
            if key not in self.entries:
                parts = [e for e in self.entries if e.startswith(f"{key}.")]
                hint = f"; it has several components: {', '.join(parts)}" if parts else near(key, self.entries)
                raise ProblemError(f"{self.text} has no entry {key!r}{hint}")
            return Expr(f'{self.text}["{key}"]')
        if isinstance(key, slice):
            return vector([self[i] for i in range(*key.indices(len(self)))])
        number = int(key)
        count = self.size if self.entries is None else len(self.entries)
        if count is not None and not -count <= number < count:
            raise IndexError(f"{self!r} has {count} components; there is no [{number}]")
        number = number + (count or 0) if number < 0 else number
        if self.entries is not None:
            return self[self.entries[number]]
        if self.size == 1:
            raise SingleNumberError(f"{self!r} is a single number and has no components")
        return Expr(f"{_parenthesised(self, ATOM)}[{number}]")

    def __len__(self) -> int:
        if self.size is None:
            raise TypeError(f"the number of components of {self!r} is not known before the problem is compiled")
        if self.size == 1 and self.entries is None:  # so that NumPy's arrays hold it as it is
            raise SingleNumberError(f"{self!r} is a single number and has no components")
        return self.size if self.entries is None else len(self.entries)

    def __iter__(self) -> Iterator[Expr]:
        return (self[i] for i in range(len(self)))

    def __SX__(self) -> Any:  # CasADi takes what it does not know for an empty matrix
        raise ProblemError(f"CasADi functions do not accept the expression {self!r}; use ocp.sin, ocp.dot, .., NumPy's or SX "
                           "symbols of the same names")

    __MX__ = __DM__ = __SX__

    x, y, z = map(_component, range(3))

    # ---- operators --------------------------------------------------------------------------------------------------
    __add__, __sub__, __mul__, __truediv__ = map(_after, "+-*/")
    __rsub__, __rmul__, __rtruediv__ = map(_before, "-*/")

    def __radd__(self, other: object) -> Expr:
        return self if isinstance(other, int) and other == 0 else joined(other, "+", self)  # sum() begins with 0

    def __pow__(self, other: object) -> Expr:
        return power(self, expr(other))

    def __rpow__(self, other: object) -> Expr:
        return power(expr(other), self)

    def __neg__(self) -> Expr:
        return Expr(f"-{_parenthesised(self, UNARY)}", level=UNARY, size=self.size)

    def __pos__(self) -> Expr:
        return self

    def __abs__(self) -> Expr:
        return call("abs", self)

    def __matmul__(self, other: object) -> Expr:
        return product(self, other)

    def __rmatmul__(self, other: object) -> Expr:
        return product(other, self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's functions of expressions: ``np.sin(x)``, ``np.float64(2)*x``."""
        from ocp.app.face.functions import UFUNCS

        if method == "__call__" and not options and ufunc.__name__ in UFUNCS:
            return UFUNCS[ufunc.__name__](*inputs)
        raise ProblemError(f"numpy.{ufunc.__name__} of the expression {self!r} is not supported{near(ufunc.__name__, UFUNCS)}")

    # ---- comparisons ------------------------------------------------------------------------------------------------
    __le__, __lt__, __ge__, __gt__ = map(compared, ("<=", "<", ">=", ">"))
    __eq__ = compared("==")  # type: ignore[assignment]

    def __ne__(self, other: object) -> Any:
        raise ProblemError(f"'!=' of the expression {self!r} is not a constraint; write <=, >= or ==")


class _Joinable:
    """A condition made by ``&`` or ``|``."""

    __slots__ = ()

    def __and__(self, other: Relation | Condition) -> Condition:
        return Condition(f"({self}) and ({other})")

    def __or__(self, other: Relation | Condition) -> Condition:
        return Condition(f"({self}) or ({other})")


class Relation(_Joinable):
    """Two sides compared: a constraint, or the condition of ``if_else``."""

    __slots__ = ("left", "right", "sign")

    def __init__(self, left: object, sign: str, right: object):
        self.left, self.sign, self.right = left, sign, right

    def __str__(self) -> str:
        return f"{_text(self.left)} {self.sign} {_text(self.right)}"

    __repr__ = __str__

    def __bool__(self) -> bool:
        if self.sign == "==":  # what dictionaries ask of keys
            return _text(self.left) == _text(self.right)
        raise ProblemError(f"the comparison {self} has no truth value; write constraint(x, lower=.., upper=..) for "
                           "lower <= x <= upper, and (a < b) & (c < d) for two conditions")

    def limits(self) -> dict[str, Any]:
        """As keys of a constraint: expression, and lower, upper or equal."""
        left, sign, right = self.left, self.sign, self.right
        if isinstance(left, (int, float, np.ndarray, list, tuple)):
            left, right, sign = right, left, {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(sign, sign)
        key = {"<": "upper", "<=": "upper", ">": "lower", ">=": "lower", "==": "equal"}[sign]
        if isinstance(right, (Expr, str)) or (isinstance(right, (list, tuple)) and any(isinstance(r, Expr) for r in right)):
            return {"expression": left - expr(right), key: 0}
        return {"expression": left, key: right}


class Condition(_Joinable):
    """Comparisons joined by ``&`` and ``|``: the condition of ``if_else``."""

    __slots__ = ("text",)

    def __init__(self, text: str):
        self.text = text

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def __bool__(self) -> bool:
        raise ProblemError(f"the condition {self} has no truth value before the problem is solved")


# ---- making --------------------------------------------------------------------------------------------------------------
def expr(value: object) -> Expr:
    """Anything that may stand in an expression: numbers, text in the language of files, lists, arrays, CasADi's SX.

    Raises ProblemError in words for what may not.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, str):
        return Expr(value, level=0, size=None)
    if isinstance(value, (bool, np.bool_)):
        raise ProblemError(f"expected an expression, got {value}: a comparison of plain numbers was evaluated by Python")
    if isinstance(value, (int, float, np.integer, np.floating)):
        return _number(float(value) if isinstance(value, (float, np.floating)) else int(value))
    if isinstance(value, np.ndarray):
        return expr(value.item()) if value.size == 1 else vector(list(value.ravel() if 1 in value.shape else value))
    if isinstance(value, (list, tuple)):
        return vector(value)
    if type(value).__module__.startswith("casadi"):
        from ocp.app.face.from_casadi import from_casadi

        return from_casadi(value)
    raise ProblemError(f"expected an expression, got {described(value)}")


def vector(items: Sequence[Any]) -> Expr:
    """A column of scalars."""
    if not len(items):
        raise ProblemError("an empty list is not an expression")
    parts = [expr(item) for item in items]
    for part in parts:
        if part.size not in (1, None):
            raise ProblemError(f"an entry of a list must be a single number, but {part!r} has {part.size} components")
    return Expr(f"[{', '.join(map(str, parts))}]", size=len(parts))


def call(name: str, *arguments: object, size: int | None = 1) -> Expr:
    """A function of the language, by name."""
    return Expr(f"{name}({', '.join(_text(a) for a in arguments)})", size=size)


def described(value: object) -> str:
    """A short description of a value for messages."""
    if isinstance(value, Relation):
        return f"the comparison {value}; where a value is needed write if_else({value}, 1, 0)"
    if callable(value):
        return f"the function {getattr(value, '__name__', value)!r}; write what it returns, in the symbols of the problem"
    if value is None:
        return "nothing (None)"
    return f"{type(value).__name__} {value!r}"[:160]


def _number(value: float) -> Expr:
    if not math.isfinite(value):
        raise ProblemError(f"{value} is not a finite number")
    return Expr(repr(value), level=UNARY if value < 0 else ATOM)


def _text(value: object) -> str:
    return str(value) if isinstance(value, (Relation, Condition)) else str(expr(value))


def _parenthesised(value: Expr, least: int) -> str:
    """The text, in parentheses where it holds together less tightly than ``least``."""
    return value.text if value._level >= least else f"({value.text})"


def joined(a: object, sign: str, b: object) -> Expr:
    """The expression of an operator between two values."""
    left, right = expr(a), expr(b)
    level = SUM if sign in "+-" else PRODUCT
    sizes = {s for s in (left.size, right.size) if s is not None}
    if sign in "+-" and len(sizes) == 2:
        raise ProblemError(f"{left!r} {sign} {right!r} joins {left.size} and {right.size} components; both sides need the same "
                           "number")
    if sign == "*" and len(sizes - {1}) and left.size not in (1, None) and right.size not in (1, None):
        raise ProblemError(f"{left!r} * {right!r} multiplies two vectors; use dot(a, b) or a @ b")
    if sign == "/" and right.size not in (1, None):
        raise ProblemError(f"the divisor {right!r} has {right.size} components; it must be a single number")
    size = None if None in (left.size, right.size) else max(left.size or 1, right.size or 1)
    after = level + 1 if sign in "-/*" else level
    return Expr(f"{_parenthesised(left, level)} {sign} {_parenthesised(right, after)}" if level == SUM else
                f"{_parenthesised(left, level)}{sign}{_parenthesised(right, after)}", level=level, size=size)


def power(a: Expr, b: Expr) -> Expr:
    """The expression of a power."""
    for what, part in (("base", a), ("exponent", b)):
        if part.size not in (1, None):
            raise ProblemError(f"the {what} {part!r} of a power has {part.size} components; it must be a single number, and a sum "
                               "of squares is dot(a, a)")
    return Expr(f"{_parenthesised(a, ATOM)}**{_parenthesised(b, UNARY if b._level == UNARY else ATOM)}", level=POWER)


def dot(a: object, b: object) -> Expr:
    """The inner product of two vectors; ``dot(a, a)`` is a sum of squares."""
    left, right = expr(a), expr(b)
    if None not in (left.size, right.size) and left.size != right.size:
        raise ProblemError(f"dot({left!r}, {right!r}): lengths {left.size} and {right.size} differ")
    return call("dot", left, right)


def product(a: object, b: object) -> Expr:
    """Matrix times vector, and the product of two vectors: ``a @ b``."""
    if isinstance(a, np.ndarray) and a.ndim == 2:
        return vector([dot(row, b) for row in a])
    if isinstance(b, np.ndarray) and b.ndim == 2:
        return vector([dot(a, column) for column in b.T])
    return dot(a, b)
