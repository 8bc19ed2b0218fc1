"""Which cases a sweep has: axes over paths of a file, combined as a grid or sampled, or the rows of a table.

    path=a:b:n          n values from a to b            path=log(a:b:n)     equal ratios
    path=a:b            a range, to be sampled          path=log(a:b)
    path=[v1, v2, ..]   these values, of any kind
"""

from __future__ import annotations

import csv
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynamics.errors import near
from ocp.app.files.syntax.yaml_source import parse_source
from ocp.errors import ProblemError

DESIGNS = ("grid", "random", "latin", "sobol")
MAX_CASES = 1_000_000
_RANGE = re.compile(r"^(log\()?\s*([^:\[\]()]+):([^:\[\]()]+)(?::\s*(\d+)\s*)?(\))?$")


@dataclass(frozen=True)
class Axis:
    """A path and its values, or its range: lower, upper, where logarithmic in equal ratios; count: of values on a grid, 0 for
    none."""

    path: str
    values: tuple[Any, ...] = ()
    lower: float = 0.0
    upper: float = 0.0
    count: int = 0
    log: bool = False

    def grid(self) -> tuple[Any, ...]:
        """The values of the axis; raises ProblemError where it has no count."""
        if self.values:
            return self.values
        if not self.count:
            raise ProblemError(f"a grid needs a number of values: {self.path}={self.lower:g}:{self.upper:g}:11; or sample the "
                               "range (--design latin --samples 100)", where=f"--over {self.path}")
        return tuple(self.at(np.linspace(0.0, 1.0, self.count)).tolist())

    def at(self, fractions: Any) -> np.ndarray:
        """Values at fractions of the range."""
        f = np.asarray(fractions, dtype=float)
        if self.log:
            return np.asarray(self.lower * (self.upper / self.lower) ** f)
        return np.asarray(self.lower + f * (self.upper - self.lower))

    def pick(self, fraction: float) -> Any:
        """The value at a fraction, of a list the one nearest to it."""
        return self.values[min(int(fraction * len(self.values)), len(self.values) - 1)] if self.values else float(self.at(fraction))


def read_axis(spec: str) -> Axis:
    """An axis as the command line gives it. Raises ProblemError."""
    path, equals, text = spec.partition("=")
    where = f"--over {spec}"
    if not equals or not path.strip():
        raise ProblemError("expected path=a:b:n, path=a:b or path=[v1, v2, ..]", where=where)
    match = _RANGE.match(text.strip())
    if match is None:
        values = parse_source(text, where).tree
        if not isinstance(values, list) or not values:
            raise ProblemError(f"expected a:b:n, a:b, log(a:b:n) or a list [v1, v2, ..]; got {text!r}", where=where)
        return Axis(path.strip(), tuple(values))
    log, low, high, count, closed = match.groups()
    if bool(log) != bool(closed):
        raise ProblemError("a bracket is missing in log(a:b:n)", where=where)
    return _range(path.strip(), _number(low, where), _number(high, where), int(count or 0), bool(log), where)


def axis_of(path: str, values: Any) -> Axis:
    """An axis as the section ``sweep`` gives it: a list, or text as on the command line."""
    if isinstance(values, (list, tuple)) and values:
        return Axis(path, tuple(values))
    if not isinstance(values, str):
        raise ProblemError(f"expected a list of values, or text such as 0:1:11; got {values!r}", where=f"sweep.over.{path}")
    return read_axis(f"{path}={values}")


def _number(text: Any, where: str) -> float:
    try:
        value = float(text)
    except (TypeError, ValueError):
        raise ProblemError(f"{text!r} is not a number", where=where) from None
    if not math.isfinite(value):
        raise ProblemError(f"{text!r} is not finite", where=where)
    return value


def _range(path: str, lower: float, upper: float, count: int, log: bool, where: str) -> Axis:
    if not lower < upper:
        raise ProblemError(f"the range goes from {lower:g} to {upper:g}; the ends must increase", where=where)
    if log and lower <= 0:
        raise ProblemError(f"a logarithmic range must be positive, got {lower:g}", where=where)
    if count == 1:
        raise ProblemError("a range of one value; write [value]", where=where)
    return Axis(path, (), lower, upper, count, log)


def cases(axes: Sequence[Axis], design: str = "grid", samples: int = 0, seed: int = 0) -> list[tuple[Any, ...]]:
    """The values of all cases, in order. Raises ProblemError for an unknown design, and for samples that are missing or idle."""
    if design not in DESIGNS:
        raise ProblemError(f"no design named {design!r}{near(design, DESIGNS)}", where="design")
    twice = [axis.path for i, axis in enumerate(axes) if axis.path in [other.path for other in axes[:i]]]
    if twice:
        raise ProblemError(f"{twice[0]} is varied twice", where="--over")
    if design == "grid":
        if samples:
            raise ProblemError("a grid has the cases of its axes; samples are for random, latin and sobol", where="samples")
        columns = [axis.grid() for axis in axes]
        if math.prod(map(len, columns)) > MAX_CASES:
            raise ProblemError(f"{math.prod(map(len, columns))} cases; the limit is {MAX_CASES}", where="--over")
        return list(itertools.product(*columns))
    if not 0 < samples <= MAX_CASES:
        raise ProblemError(f"a design {design} needs samples, between 1 and {MAX_CASES}", where="samples")
    return [tuple(axis.pick(f) for axis, f in zip(axes, row, strict=True)) for row in fractions(design, len(axes), samples, seed)]


def fractions(design: str, dimensions: int, samples: int, seed: int) -> list[list[float]]:
    """Points of the unit cube (McKay, Beckman, Conover 1979; Sobol 1967, scrambled)."""
    from scipy.stats import qmc

    rng = np.random.default_rng(seed)
    if design == "random":
        return [list(map(float, row)) for row in rng.random((samples, dimensions))]
    if design == "latin":
        return [list(map(float, row)) for row in qmc.LatinHypercube(dimensions, rng=rng).random(samples)]
    power = max(0, math.ceil(math.log2(samples)))
    return [list(map(float, row)) for row in qmc.Sobol(dimensions, rng=rng).random_base2(power)[:samples]]


def table_of(file: Path) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """(paths, values of cases) of a CSV file whose first line names paths; values are YAML. Raises ProblemError."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.reader(lines) if row]
    if len(rows) < 2:
        raise ProblemError("expected a line of paths, and a line for each case", where=str(file))
    paths = tuple(word.strip() for word in rows[0])
    found = []
    for number, row in enumerate(rows[1:], 2):
        where = f"{file}:{number}"
        if len(row) != len(paths):
            raise ProblemError(f"has {len(row)} values for {len(paths)} paths", where=where)
        found.append(tuple(parse_source(word, where).tree for word in row))
    return paths, found
