"""What is to be explained, what was found, and where in the problem file something that is not finite is written.

The text of the file is walked, not the program: a part of an expression is to blame when it is not finite and none of its own
parts is. Names that the file defines lead on to their definitions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from ocp.app.files.load import LoadedProblem
from ocp.app.files.problem.phases import load_robot, load_symbolic, stretches, system_of
from ocp.app.files.robot.schema import RobotPhases, RobotProblem
from ocp.app.files.syntax import reader as lp
from ocp.app.files.syntax.expressions import parse_vector
from ocp.app.files.syntax.findings import Findings
from ocp.app.files.syntax.yaml_source import KeyPath, Source, format_path, parse_source
from ocp.certify import Tolerances
from ocp.errors import ProblemError
from ocp.explain import Advice, Conditioning, Dependence, Infeasibility, Origin, Price, Program, advice
from ocp.explain.not_finite import SECOND, VALUE
from ocp.problem import SOLVED, Certificate, Status


@dataclass(frozen=True)
class Spot:
    """A part of an expression in the file.

    where: ``file.yaml:12:5``; key: its path; line: the text of the line; begin, end: the part within it, both 0 where it cannot be
    shown; part: the part itself; values: what the names in it are worth
    """

    where: str
    key: str
    line: str
    begin: int
    end: int
    part: str
    values: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class _Text:
    """An expression of the file, where it stands and how many outputs it gives."""

    text: str
    path: KeyPath


def locate(loaded: LoadedProblem, name: str, origin: Origin) -> Spot | None:
    """The location in the file ``name`` that ``origin`` comes from; None where the file does not say it as an expression."""
    source, file = parse_source(loaded.text, name), loaded.file
    findings = Findings(source)
    at, _, given = stretches(file)[origin.phase]
    place, system = system_of(findings, file.system, given, at)
    written = _written(origin, given, system, at, place)
    if written is None:
        return None
    readers = load_robot(file, findings, loaded.folder)[2] if isinstance(file, (RobotProblem, RobotPhases)) else \
        load_symbolic(file, findings, loaded.folder)[2]
    reader = readers[origin.phase]
    return _Blame(source, reader, getattr(system, "define", {}), place, origin).spot(_component(reader, written, origin.component))


# ---- which expression ---------------------------------------------------------------------------------------------------
def _written(origin: Origin, phase: Any, system: Any, at: KeyPath, path: KeyPath) -> list[_Text] | None:
    """The expressions behind a function, in order of its outputs."""
    if origin.kind == "rate":
        dynamics = getattr(system, "dynamics", {})
        text = dynamics.get(origin.component_name) if isinstance(dynamics, Mapping) else None
        return None if not isinstance(text, str) else [_Text(text, (*path, "dynamics", origin.component_name))]
    group = {"cost": "costs", "constraint": "constraints"}.get(origin.kind)
    if group is None:
        return None
    for i, item in enumerate(getattr(phase, group)):
        if item.name != origin.name:
            continue
        form = item.form()
        value, path = getattr(item, form), (*at, group, i, form)
        items = [(value, path)] if not isinstance(value, tuple) else [(v, (*path, k)) for k, v in enumerate(value)]
        texts = [_Text(v, p) for v, p in items if isinstance(v, str)]
        return texts if len(texts) == len(items) else None
    return None


def _component(reader: lp.Reader, written: list[_Text], component: int) -> _Text:
    """The expression that gives an output; each may have several components."""
    if len(written) == 1:
        return written[0]
    for text in written:
        component -= int(parse_vector(text.text, reader.scope, lambda offset: "").numel())
        if component < 0:
            return text
    return written[-1]


# ---- which part of it ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Blame:
    source: Source
    reader: lp.Reader
    define: Mapping[str, Any]
    path: KeyPath
    origin: Origin

    def spot(self, written: _Text) -> Spot | None:
        text = written.text
        shift = len(text) - len(text.lstrip())
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            return None
        node = self.blamed(tree, text.strip())
        if node is None:
            return None
        if isinstance(node, ast.Name) and isinstance(self.define.get(node.id), str):
            return self.spot(_Text(self.define[node.id], (*self.path, "define", node.id)))
        part = ast.get_source_segment(text.strip(), node) or ""
        column = len(text.strip().encode()[: node.col_offset].decode(errors="ignore"))
        return self._placed(written.path, shift + column, part, self.values(node, text.strip()))

    def _placed(self, path: KeyPath, offset: int, part: str, values: tuple[tuple[str, float], ...]) -> Spot:
        where = self.source.where(path, offset).removesuffix(f": {format_path(path)}")
        _, _, place = where.rpartition(self.source.name)
        numbers = [int(n) for n in place.split(":") if n.isdigit()]
        lines = self.source.text.splitlines()
        line = lines[numbers[0] - 1] if numbers and numbers[0] <= len(lines) else ""
        begin = numbers[1] - 1 if len(numbers) > 1 else 0
        shown = line[begin:begin + len(part)] == part and bool(part)
        return Spot(where, format_path(path), line, begin if shown else 0, begin + len(part) if shown else 0, part, values)

    def blamed(self, node: ast.expr, text: str) -> ast.expr | None:
        """The innermost part that is not finite and whose own parts all are."""
        if not self.bad(node, text):
            return None
        for part in _parts(node):
            if (found := self.blamed(part, text)) is not None:
                return found
        return node

    def bad(self, node: ast.expr, text: str) -> bool:
        value = self.evaluate(ast.get_source_segment(text, node) or "")
        return value is not None and not bool(np.all(np.isfinite(value)))

    def evaluate(self, text: str, order: str | None = None) -> np.ndarray | None:
        """Value or derivatives of a part at the location of the origin; None where it is no expression by itself."""
        try:
            value = ca.vec(parse_vector(text, self.reader.scope, lambda offset: ""))
        except ProblemError:
            return None
        reader, order = self.reader, order or self.origin.order
        z = ca.vertcat(reader.x, reader.u)
        if order != VALUE:
            value = ca.jacobian(value, z)
        if order == SECOND:
            value = ca.jacobian(ca.vec(value), z)
        function = ca.Function("part", [reader.t, reader.x, reader.u, reader.p], [ca.densify(value)])
        values = np.array([v for _, v in self.origin.values])
        nx = reader.x.numel()
        return np.asarray(function(self.origin.t, values[:nx], values[nx:], self.parameters()).full())

    def parameters(self) -> np.ndarray:
        return np.array([value for _, value in self.origin.parameters])

    def values(self, node: ast.expr, text: str) -> tuple[tuple[str, float], ...]:
        """Values of the parts of the blamed one, numbers left out."""
        found: dict[str, float] = {}
        for part in _parts(node):
            words = ast.get_source_segment(text, part) or ""
            value = None if isinstance(part, ast.Constant) else self.evaluate(words, VALUE)
            if value is not None and value.size == 1:
                found[words] = float(value[0, 0])
        return tuple(found.items())


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions that an expression is made of."""
    if isinstance(node, ast.Call):
        for argument in node.args:
            yield from _parts(argument) if isinstance(argument, ast.Compare) else (argument,)
    elif isinstance(node, ast.Subscript):
        return
    else:
        yield from (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))


@dataclass(frozen=True)
class Subject:
    """The subject of an explanation.

    name: of the file, for locations in it; status, message: how the run ended, None where it has to be solved; method: that made
    it; arrays: of its trajectory, and of its checkpoint with the prefix "checkpoint."; certificate, options: of a run that ended
    """

    loaded: LoadedProblem
    name: str
    status: Status | None
    message: str
    method: str
    arrays: Mapping[str, np.ndarray]
    certificate: Certificate | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def advice(self) -> tuple[Advice, ...]:
        """About a certificate that fails though the method converged."""
        if self.certificate is None or self.status not in SOLVED:
            return ()
        return advice(self.certificate, self.method, self.options, Tolerances(**self.loaded.accept))


@dataclass(frozen=True)
class Explanation:
    """An explanation; parts that do not apply are empty.

    x: the point that was looked at; mesh: words about the program; solved: whether a solve led there; spots: locations in the file,
    beside ``origins``
    """

    subject: Subject
    program: Program
    status: Status
    message: str
    x: np.ndarray
    cost: float
    mesh: str
    solved: bool
    origins: tuple[Origin, ...] = ()
    spots: tuple[Spot | None, ...] = ()
    infeasibility: Infeasibility | None = None
    conditioning: Conditioning | None = None
    dependences: tuple[Dependence, ...] = ()
    hints: tuple[str, ...] = ()
    prices: tuple[Price, ...] = ()
    interrupted: bool = False

    @property
    def explained(self) -> bool:
        """Whether a cause was named."""
        remedies = self.infeasibility is not None and (self.infeasibility.feasible or any(
            r.verified for r in self.infeasibility.remedies))
        return bool(self.status is Status.CONVERGED or self.origins or remedies or self.dependences or self.hints)
