"""Work left out of an answer because the time was up, as findings."""

from __future__ import annotations

from ocp.interrupts import Activity, Budget
from ocp.problem.finding import Finding, Kind
from ocp.problem.solution import Solution


def left_out(budget: Budget, solution: Solution | None = None) -> tuple[Finding, ...]:
    """One finding for each stage of which something was left out, checks of the solution's certificate first."""
    found: dict[Activity, list[str]] = {}
    if solution is not None and solution.certificate is not None and solution.certificate.left_out:
        found[Activity.CERTIFICATE] = list(solution.certificate.left_out)
    for stage, name in budget.left_out:
        found.setdefault(stage, []).extend([name] if name else [])
    return tuple(Finding(Kind.LEFT_OUT, name=str(stage), data={"parts": tuple(names), "by": by(budget)})
                 for stage, names in found.items())


def stopped_in(budget: Budget) -> Finding:
    """At what stage the time was up."""
    return Finding(Kind.STOPPED_IN, name=str(budget.stage or Activity.READING), data={"by": by(budget)})


def by(budget: Budget) -> str:
    """The cause of the end: "limit" or "interrupt"."""
    return "interrupt" if budget.asked else "limit"
