"""Records of a comparison: methods with options, outcomes, the reference."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ocp.app.sentences.certificate import CHECKS
from ocp.errors import ProblemError
from ocp.methods import METHODS, method
from ocp.problem import SOLVED, Reference, Solution, Violation

#: costs of certified runs agree within this relative difference where the user does not say otherwise and the tolerance of the
#: file's reference, which is for one method on one mesh, is tighter
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Spec:
    """A method and the options (YAML text by name) that differ from the file's; asked: named by the user, not taken by default."""

    method: str
    options: Mapping[str, str] = field(default_factory=dict)
    asked: bool = True

    @property
    def label(self) -> str:
        """As on the command line."""
        return self.method + (":" + self.detail if self.options else "")

    @property
    def detail(self) -> str:
        """The options as ``key=value,...``."""
        return ",".join(f"{key}={value}" for key, value in self.options.items())

    @property
    def slug(self) -> str:
        """A name for its folder."""
        return re.sub(r"[^\w.]+", "-", self.label).strip("-.") or "run"


def parse_specs(specs: Sequence[str]) -> tuple[Spec, ...]:
    """``["ilqr", "collocation:scheme=trapezoid,intervals=100"]``; none: every method.

    Raises ProblemError for unknown methods (with near misses), options without a value, and what is listed twice.
    """
    if not specs:
        return tuple(Spec(name, asked=False) for name in METHODS)
    found: list[Spec] = []
    for word in specs:
        name, colon, rest = word.partition(":")
        where = f"--methods {word}"
        try:
            method(name.strip())
        except ProblemError as error:
            raise ProblemError(error.message, where=where) from None
        options: dict[str, str] = {}
        for item in rest.split(",") if colon else ():
            key, equals, value = (part.strip() for part in item.partition("="))
            if not equals or not key or not value:
                raise ProblemError(f"expected name:key=value,key=value; {item.strip()!r} is not key=value", where=where)
            if key in options:
                raise ProblemError(f"{key} is given twice", where=where)
            options[key] = value
        spec = Spec(name.strip(), options)
        if spec.slug in {other.slug for other in found}:
            raise ProblemError("is listed twice", where=where)
        found.append(spec)
    return tuple(found)


@dataclass(frozen=True)
class Entry:
    """Outcome of one method. solution None: it refused, for the ``reasons``.

    folder: of the run, relative to that of the comparison; again: seconds of each repeated solve
    """

    spec: Spec
    solution: Solution | None = None
    reasons: tuple[str, ...] = ()
    folder: str = ""
    again: tuple[float, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the method has a certified answer."""
        return self.solution is not None and self.solution.ok

    @property
    def cost(self) -> float:
        """The objective; NaN without a solution."""
        return float("nan") if self.solution is None else self.solution.objective

    @property
    def seconds(self) -> tuple[float, float, float]:
        """(transcription, solve, total) [s]; transcription is all that comes before the solve."""
        assert self.solution is not None
        took = self.solution.seconds
        total = took.get("method", took.get("total", 0.0))
        solve = min(took.get("solve", total), total)
        return total - solve, solve, total

    @property
    def median_again(self) -> float | None:
        """Median of the repeated solves [s]."""
        return statistics.median(self.again) if self.again else None

    def worst(self) -> tuple[Violation | None, Violation | None]:
        """The hard constraints violated most at the knots and between them."""
        certificate = None if self.solution is None else self.solution.certificate
        hard = [v for v in certificate.violations if not v.soft] if certificate is not None else []
        return (max(hard, key=lambda v: v.at_knots, default=None), max(hard, key=lambda v: v.between_knots, default=None))

    @property
    def iterations(self) -> int:
        """Iterations, where the log begins with the start."""
        rows = () if self.solution is None else self.solution.iterations
        return max(0, len(rows) - 1)

    @property
    def word(self) -> str:
        """The certificate in a word: holds, fails, none or refused."""
        if self.solution is None:
            return "refused"
        certificate = self.solution.certificate
        return "none" if certificate is None else "holds" if certificate.holds else "fails"

    @property
    def verdict(self) -> str:
        """The same, with what fails first."""
        certificate = None if self.solution is None else self.solution.certificate
        if certificate is None or certificate.holds:
            return self.word
        broken = [CHECKS[check.kind] for check in certificate.checks if not check.holds]
        broken += [v.label for v in certificate.violations if not v.holds]
        broken = broken or [str(one.kind).replace("_", " ") for one in certificate.failures]
        return f"{self.word}: {broken[0]}" + (f" and {len(broken) - 1} more" if len(broken) > 1 else "")


@dataclass(frozen=True)
class Comparison:
    """All entries of one problem. tolerance: relative difference of costs that counts as agreement; complete: False after
    Ctrl-C; repeat: further solves of each."""

    name: str
    entries: tuple[Entry, ...]
    reference: Reference | None
    tolerance: float
    complete: bool = True
    repeat: int = 0

    @property
    def solved(self) -> tuple[Entry, ...]:
        """Entries with a solution."""
        return tuple(entry for entry in self.entries if entry.solution is not None)

    @property
    def best(self) -> float:
        """The least cost that is certified; without a certified one, the least of those that converged; NaN without any."""
        costs = [e.cost for e in self.solved if e.ok] or [e.cost for e in self.solved if e.solution is not None
                                                          and e.solution.status in SOLVED]
        return min(costs, default=float("nan"))

    def off_best(self, entry: Entry) -> float:
        """(cost - best) / |best|."""
        return (entry.cost - self.best) / (abs(self.best) or 1.0)

    def off_reference(self, entry: Entry) -> float | None:
        """(cost - reference) / |reference|."""
        return None if self.reference is None else self.reference.off(entry.cost)

    def agrees(self, entry: Entry) -> bool:
        """Whether a cost is that of the reference, or of the best where there is none."""
        off = self.off_reference(entry)
        return abs(self.off_best(entry) if off is None else off) <= self.tolerance

    @property
    def certified(self) -> bool:
        """Whether everything that was asked for was solved and holds."""
        return self.complete and bool(self.solved) and all(
            e.ok or (e.solution is None and not e.spec.asked) for e in self.entries)

    @property
    def unanimous(self) -> bool:
        """Whether all costs agree within the tolerance."""
        return all(self.agrees(entry) for entry in self.solved)
