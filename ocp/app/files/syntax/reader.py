"""Parts of a problem file turned into mathematics, the same for symbolic systems and robots."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import casadi as ca
import numpy as np

from dynamics.errors import near
from dynamics.model.model import Model
from ocp.app.files.syntax import parts
from ocp.app.files.syntax.expressions import parse, parse_vector
from ocp.app.files.syntax.findings import Findings
from ocp.app.files.syntax.parts import Part, Row, holds_numbers, listed, row_of
from ocp.app.files.syntax.scope import FollowOnError, Scope
from ocp.app.files.syntax.yaml_source import Key, KeyPath
from ocp.errors import ProblemError
from ocp.problem import INF
from ocp.spaces import Space

SX = Any
T = TypeVar("T")
A = TypeVar("A", bound="At")
P = ParamSpec("P")


def nothing() -> SX:
    """No symbols, [0, 1]."""
    return ca.SX(0, 1)


@dataclass(frozen=True)
class FileParameter:
    """A parameter of the file; ``bounds`` where the solver chooses its value."""

    name: str
    value: float
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True)
class Reader:
    """What is needed to read any part: where errors go, what names mean, and the symbols t, x, u, p.

    ``constants`` is the scope of plain numbers, ``scope`` that of expressions over the system; ``key_path`` and ``phase`` are the
    keys under which the file describes the system and the phase that are read; ``defined``: what ``system.define`` names.
    """

    findings: Findings
    constants: Scope
    scope: Scope = field(default_factory=Scope)
    t: SX = field(default_factory=nothing)
    x: SX = field(default_factory=nothing)
    u: SX = field(default_factory=nothing)
    p: SX = field(default_factory=nothing)
    parameters: tuple[FileParameter, ...] = ()
    key_path: KeyPath = ("system",)
    phase: KeyPath = ("phase",)
    defined: Mapping[str, SX] = field(default_factory=dict)

    @property
    def path(self) -> KeyPath:
        """Keys of the system."""
        return self.key_path

    # ---- numbers and expressions ----------------------------------------------------------------------------------
    def number(self, value: Any, path: KeyPath) -> float:
        """The value of a number, an expression over the constants or degrees; NaN after an error was recorded."""
        if isinstance(value, parts.Degrees):
            return math.radians(self.number(value.deg, (*path, "deg")))
        if not isinstance(value, str):
            return float(value)
        result = self._parse(value, path, self.constants, vector=False)
        return math.nan if result is None else float(result)

    def expression(self, value: object, path: KeyPath, begin: int = 0) -> SX | None:
        """A scalar expression of t, x, u; None after an error was recorded. begin: where it begins in the text at ``path``."""
        if not isinstance(value, str):
            return ca.SX(self.number(value, path))
        return self._parse(value, path, self.scope, vector=False, begin=begin)

    def column(self, value: object, path: KeyPath) -> SX | None:
        """A column of expressions from one expression (of one or several components) or a list of them."""
        items = [(value, path)] if not isinstance(value, tuple) else [(v, (*path, i)) for i, v in enumerate(value)]
        found = [self._parse(v, at, self.scope, vector=True) if isinstance(v, str) else ca.SX(self.number(v, at))
                 for v, at in items]
        columns = [f for f in found if f is not None]
        return ca.vertcat(*columns) if len(columns) == len(found) else None

    def _parse(self, text: str, path: KeyPath, scope: Scope, *, vector: bool, begin: int = 0) -> SX | None:
        try:
            return (parse_vector if vector else parse)(text, scope, lambda offset: self.findings.source.where(path, begin + offset))
        except FollowOnError:
            return None
        except ProblemError as error:
            self.findings.add_error(error)
            return None

    def vector(self, value: object, size: int, path: KeyPath, what: str, absent: float = math.nan) -> tuple[float, ...]:
        """``size`` numbers from one number for all or a list with one for each (null: ``absent``)."""
        if not isinstance(value, tuple):
            return (self.number(value, path),) * size
        if len(value) != size:
            self.findings.add(path, f"{len(value)} values for {size} {what}")
            return (math.nan,) * size
        return tuple(absent if v is None else self.number(v, (*path, i)) for i, v in enumerate(value))

    def function(self, name: str, value: SX) -> ca.Function:
        """``value`` as a function of (t, x, u, p)."""
        fixed = ca.Function.fix_name(name) or "f"
        return ca.Function(fixed, [self.t, self.x, self.u, self.p], [ca.densify(value)], ["t", "x", "u", "p"], ["value"])

    def depends(self, value: SX, on: SX) -> bool:
        """Whether an expression depends on a symbol."""
        return bool(on.numel() and ca.depends_on(value, on))


@dataclass(frozen=True)
class Section:
    """A mapping of the file that is being read: what it says, and where."""

    reader: Reader
    spec: Any
    path: KeyPath

    @property
    def kind(self) -> type[Part]:
        """The record type of the mapping."""
        return type(self.spec)

    @property
    def findings(self) -> Findings:
        """Errors of the file."""
        return self.reader.findings

    def at(self, *keys: Key) -> KeyPath:
        """Keys below this mapping."""
        return (*self.path, *keys)

    def part(self, key: str, *inner: Key) -> Section:
        """The mapping under a key, or under keys inside it."""
        spec = functools.reduce(lambda node, inside: node[inside], inner, getattr(self.spec, key))
        return Section(self.reader, spec, self.at(key, *inner))

    def chosen(self) -> tuple[str, Section, str]:
        """Of an entry of a list that takes one of several forms: which one, what it says, and the name of the entry, or the form
        and a number."""
        form = self.spec.form()
        return form, self.part(form), self.spec.name or f"{form} {int(self.path[-1]) + 1}"

    @property
    def where(self) -> str:
        """The location of the mapping in the file, in words."""
        return self.findings.source.where(self.path)

    def column(self, key: str) -> SX:
        """The expressions under a key as a column; a ``sound`` reader is left after an error was recorded."""
        found = self.reader.column(getattr(self.spec, key), self.at(key))
        if found is None:
            raise FollowOnError("an error was recorded")
        return found

    def parts(self, key: str) -> list[Section]:
        """The mappings that a list under a key holds."""
        return [Section(self.reader, spec, self.at(key, i)) for i, spec in enumerate(getattr(self.spec, key))]

    def all(self, key: str, read: Callable[[Section], T | None]) -> tuple[T, ...]:
        """The results of ``read`` for the mappings in a list under a key, without those that fail; no two may go
        by the same name."""
        found, places = list[T](), dict[str, int]()
        for i, part in enumerate(self.parts(key)):
            made = read(part)
            name = getattr(part.spec, "name", None) or getattr(made, "name", None)
            if name is not None and (first := places.setdefault(name, i)) != i:
                reported = f"the name {name!r} is already used by {key}[{first}]; give one of them a name of its own"
                self.refuse(reported, key, i, "name")
            found += [] if made is None else [made]
        return tuple(found)

    def refuse(self, message: str, *keys: Key, at_key: bool = False) -> None:
        """Record an error at a key."""
        self.findings.add(self.at(*keys), message, at_key=at_key)

    def collecting(self, *keys: Key) -> AbstractContextManager[None]:
        """Record the error that the block raises at a key."""
        return self.findings.collecting(self.at(*keys))

    def value(self, key: str, absent: object = None) -> Any:
        """The value under a key, read as it is declared: numbers, in lists and mappings of any depth, and records of mappings
        inside make. ``absent``, else what the declaration says, in the place of null. Errors are recorded."""
        spec, row = getattr(self.spec, key), row_of(self.kind, key)
        if spec is None:
            return row.null if absent is None else absent
        found = self._read(spec, self.at(key), row, holds_numbers(self.kind, key))
        if row.nonzero and not any(found):
            self.refuse(f"the {key} is zero", key)
        return found if row.then is None else row.then(found)

    def positive(self, key: str, stand_in: float) -> float:
        """The number under a key, of which a record is made in any case; where it is wrong, or null, another."""
        found = self.value(key, stand_in)
        return float(found) if 0 < found < INF else stand_in

    def _read(self, spec: object, path: KeyPath, row: Row, numeric: bool) -> Any:
        if isinstance(spec, Mapping):
            return {name: self._read(item, (*path, name), row, numeric) for name, item in spec.items()}
        if isinstance(spec, tuple):
            return tuple(self._read(item, (*path, i), row, numeric) for i, item in enumerate(spec))
        if isinstance(spec, Part) and not isinstance(spec, parts.Degrees):
            return Section(self.reader, spec, path).made()
        if spec is None:
            return row.null
        found = self.reader.number(spec, path) if numeric else spec
        if isinstance(found, (int, float)) and (wrong := row.wrong(found)):
            self.findings.add(path, wrong)
        return found

    def each(self, key: str, size: int, what: str) -> tuple[float, ...]:
        """``size`` numbers under a key: one for all, or a list with one for each."""
        found = self.value(key)
        if isinstance(found, tuple) and len(found) != size:
            self.refuse(f"{len(found)} values for {size} {what}", key)
            return (math.nan,) * size
        return found if isinstance(found, tuple) else (found,) * size

    def made(self, *, leave: Collection[str] = (), **more: Any) -> Any:
        """The record of all values under its keys, and of ``more``; without a record type, these by name.
        leave: keys that something else reads."""
        kind, values = self.kind, dict[str, Any]()
        for key in kind.model_fields:
            name = row_of(kind, key).name
            if name == "" or key in leave:
                continue
            value = self.value(key)
            values |= zip(name, value, strict=True) if isinstance(name, tuple) else {name or key: value}
        if kind.makes is None:
            return values | more
        return kind.makes(**{name: value for name, value in values.items() if value is not None}, **more)

    def known(self, key: str, names: Collection[str], what: str) -> Iterator[tuple[str, float]]:
        """Numbers by name, of those that there are; other names are errors."""
        row = row_of(self.kind, key)
        for name, value, path in known(self.reader, getattr(self.spec, key), self.at(key), names, what):
            yield name, self._read(value, path, row, numeric=True)

    def frame(self, model: Model, key: str) -> None:
        """Record the error of a frame that the robot does not have."""
        with self.collecting(key):
            model.frame(getattr(self.spec, key))


class At(Protocol):
    """The context of a reader: where errors go, and the keys of the mapping."""

    @property
    def findings(self) -> Findings:
        """Errors of the file."""

    @property
    def path(self) -> KeyPath:
        """Keys of the mapping."""


def sound(read: Callable[Concatenate[A, P], T]) -> Callable[Concatenate[A, P], T | None]:
    """A reader that makes nothing, None, where it records an error or raises one, which is then recorded where it reads."""
    @functools.wraps(read)
    def reading(at: A, /, *spec: P.args, **more: P.kwargs) -> T | None:
        findings = at.findings
        findings.begun.append(len(findings.found))
        try:
            with findings.collecting(at.path):
                made = read(at, *spec, **more)
                findings.settle()
                return made
            return None
        finally:
            findings.begun.pop()

    return reading


def parameter_symbols(parameters: Sequence[FileParameter]) -> SX:
    """A column of symbols."""
    return ca.vertcat(nothing(), *(ca.SX.sym(parameter.name) for parameter in parameters))


def make_reader(findings: Findings, constants: Scope, x: SX, u: SX, scope: Scope, parameters: Sequence[FileParameter] = (),
                key_path: KeyPath = ("system",), phase: KeyPath = ("phase",), t: SX | None = None, p: SX | None = None) -> Reader:
    """A reader with parameters and time, fresh unless given; ``scope`` gains ``t``, the constants and the parameters."""
    t, p = ca.SX.sym("t") if t is None else t, parameter_symbols(parameters) if p is None else p
    named = {parameter.name: p[i] for i, parameter in enumerate(parameters)}
    names = {**constants.names, **named, **scope.names, "t": t}
    broken = scope.broken | constants.broken.difference(scope.names)
    scope = replace(scope, names=names, broken=broken, curves=constants.curves)
    return Reader(findings, constants, scope, t, x, u, p, tuple(parameters), key_path, phase)


# ---- names and constants ------------------------------------------------------------------------------------------------


# ---- bounds and guesses -------------------------------------------------------------------------------------------------
def read_ends(reader: Reader, value: Sequence[Any], path: KeyPath) -> tuple[float, float]:
    """[lower, upper] with null as unbounded."""
    lower, upper = (None if end is None else reader.number(end, (*path, i)) for i, end in enumerate(value))
    return -INF if lower is None else lower, INF if upper is None else upper


def read_bound(reader: Reader, value: Sequence[Any], path: KeyPath) -> tuple[float, float]:
    """[lower, upper] with null as unbounded; equal ends are allowed."""
    lower, upper = read_ends(reader, value, path)
    if lower > upper:
        reader.findings.add(path, f"lower ({lower:g}) is above upper ({upper:g})")
    return lower, upper


def check_inside(findings: Findings, value: float, lower: float, upper: float, path: KeyPath, what: str) -> None:
    """Record a prescribed value that its own bounds exclude."""
    slack = 1e-9 * max(1.0, abs(value))
    if value < lower - slack or value > upper + slack:
        findings.add(path, f"{what} is {value:g}, outside its bounds [{lower:g}, {upper:g}]")


def unknown(findings: Findings, name: str, known: Sequence[str], path: KeyPath, what: str) -> None:
    """Record an unknown name with near misses."""
    findings.add(path, f"no {what} named {name!r}{near(name, known)}", at_key=True)


def known(reader: Reader, spec: Mapping[str, Any], path: KeyPath, names: Collection[str], what: str
          ) -> Iterator[tuple[str, Any, KeyPath]]:
    """Names, values and keys of a mapping at ``path``, for names that there are; the others are recorded."""
    for name, value in spec.items():
        if name in names:
            yield name, value, (*path, name)
        else:
            unknown(reader.findings, name, list(names), (*path, name), what)


def resting_value(lower: float, upper: float, neutral: float = 0.0) -> float:
    """``neutral`` where the bounds allow it, else the middle of the bounds or their finite end."""
    if lower <= neutral <= upper:
        return neutral
    if math.isfinite(lower) and math.isfinite(upper):
        return (lower + upper) / 2
    return lower if math.isfinite(lower) else upper


def series(reader: Reader, value: object, path: KeyPath) -> tuple[float, ...]:
    """A guess: one value, or values at equally spaced times."""
    return reader.vector(value, len(listed(value)), path, "values")


def common_fractions(lengths: Sequence[int]) -> np.ndarray:
    """Phase fractions at which series of these lengths, each equally spaced over [0, 1], have their values [k], k >= 2."""
    found = {0.0, 1.0}
    for n in lengths:
        found |= {i / (n - 1) for i in range(n)} if n > 1 else set()
    return np.array(sorted(found))


def sample(values: Sequence[float], s: np.ndarray) -> np.ndarray:
    """A series of equally spaced values, interpolated linearly at fractions s."""
    if len(values) == 1:
        return np.full(len(s), values[0])
    return np.asarray(np.interp(s, np.linspace(0.0, 1.0, len(values)), values))


def on_geodesic(space: Space, nodes: np.ndarray, states: np.ndarray, s: np.ndarray) -> np.ndarray:
    """States [k, nx] at fractions s on the piecewise geodesic through ``states`` at the fractions ``nodes``."""
    x0, x1, r = ca.SX.sym("x0", space.nx), ca.SX.sym("x1", space.nx), ca.SX.sym("r")
    line = ca.Function("line", [x0, x1, r], [space.plus(x0, r * space.minus(x0, x1))])
    found = []
    for fraction in s:
        i = min(int(np.searchsorted(nodes, fraction, side="right")) - 1, len(nodes) - 2)
        found.append(np.asarray(line(states[i], states[i + 1], (fraction - nodes[i]) / (nodes[i + 1] - nodes[i]))).ravel())
    return np.array(found)
