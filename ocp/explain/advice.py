"""Failed checks of a certificate and the options that help, for runs that converged and are not certified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ocp.certify import Tolerances
from ocp.problem import Certificate, Finding, Kind
from ocp.problem.solution import share
from ocp.thresholds import EXPLANATION

DIRECT = ("collocation", "multiple_shooting")
#: schemes whose degree refinement may raise
HIGH = ("gauss", "radau", "radau_left", "lobatto")
#: checks that a finer mesh mends
OF_MESH = ("gap_segment", "error_estimate", "energy", "objective")


@dataclass(frozen=True)
class Advice:
    """A failed check, its cause, and settings to try by key of the file (``solve.collocation.intervals``), the best first."""

    failure: Finding
    why: Kind
    settings: tuple[tuple[str, Any], ...] = ()


def advice(certificate: Certificate, method: str, options: Mapping[str, Any], tolerances: Tolerances | None = None
           ) -> tuple[Advice, ...]:
    """Advice on every failed check; options: those of the run; tolerances: of the certificate."""
    allowed = (tolerances or Tolerances()).violation_between
    found = list(_residuals(certificate, method, options))
    for violation in certificate.violations:
        if violation.holds:
            continue
        if violation.at_knots <= violation.tolerance:
            found.append(Advice(violation.finding, Kind.VIOLATED_BETWEEN_KNOTS,
                                (*_finer(method, options), *_accepted("violation_between", allowed * share(
                                    violation.between_knots, violation.tolerance_between)))))
        else:
            found.append(Advice(violation.finding, Kind.VIOLATED_AT_KNOTS, _tighter(method, options)))
    return tuple(found)


def _residuals(certificate: Certificate, method: str, options: Mapping[str, Any]) -> Iterator[Advice]:
    if certificate.second_order is not None and not certificate.second_order.holds:
        yield Advice(certificate.second_order.finding, Kind.DESCENT_FAILED,
                     ((f"solve.{method}.guess", "multistart"),) if method in DIRECT else ())
    for check in (certificate.stationarity, certificate.complementarity):
        if not check.holds and check.cause in (Kind.STATE_DEPENDENT_JUMP, Kind.MOVING_JUMP):
            yield Advice(check.finding, Kind.PHASE_MISSING)
        elif not check.holds:
            yield Advice(check.finding, Kind.POINT_INACCURATE, _tighter(method, options))
    meshed = [getattr(certificate, name) for name in OF_MESH]
    for check in (check for check in meshed if check is not None and not check.holds):
        yield Advice(check.finding, Kind.MESH_TOO_COARSE, _finer(method, options))
    if not certificate.gap_total.holds:
        failure = certificate.gap_total.finding
        if certificate.gap_segment.holds:
            yield Advice(failure, Kind.UNSTABLE_MOTION,
                         (*_finer(method, options), *_accepted("gap_total", certificate.gap_total.value)))
        else:
            yield Advice(failure, Kind.INACCURATE_SEGMENTS, _finer(method, options))
    if (bar := certificate.objective_error) is not None and not bar.holds:
        yield Advice(bar.finding, Kind.OBJECTIVE_NOT_CONVERGED,
                     (*_finer(method, options), *_accepted("objective_error", bar.value)))
    if certificate.point is not None and not certificate.point.holds:
        yield Advice(certificate.point.finding, Kind.DIFFERENT_POINTS)


def _finer(method: str, options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Settings for a finer mesh, as far as the method has them."""
    key, found = f"solve.{method}", list[tuple[str, Any]]()
    refined = options.get("refine", "none") != "none"
    if options.get("refine") == "certificate":  # has ended where it could; tolerance_mesh is none of its options
        found += [(f"{key}.refine", "hp"), (f"{key}.intervals", EXPLANATION.mesh_factor * int(options["intervals"]))]
    elif refined:
        found.append((f"{key}.tolerance_mesh", float(options["tolerance_mesh"]) / 10))
    elif options.get("mesh", "uniform") == "uniform" and "intervals" in options:
        found.append((f"{key}.intervals", 2 * int(options["intervals"])))
    if "refine" in options and not refined:
        found.append((f"{key}.refine", "hp" if options.get("scheme") in HIGH else "h"))
    if "steps" in options:
        found.append((f"{key}.steps", 2 * int(options["steps"])))
    return tuple(found)


def _tighter(method: str, options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    key, found = f"solve.{method}", list[tuple[str, Any]]()
    if options.get("scaling") == "none":
        found.append((f"{key}.scaling", "auto"))
    if "constraint_tolerance" in options:
        found.append((f"{key}.constraint_tolerance", float(options["constraint_tolerance"]) / 10))
    if "tolerance" in options:
        found.append((f"{key}.tolerance", float(options["tolerance"]) / 10))
    return tuple(found)


def _accepted(name: str, value: float) -> tuple[tuple[str, float], ...]:
    """A rounded tolerance that accepts the value; empty if the value exceeds the largest default tolerance of all checks, since
    such an answer could not be trusted."""
    return ((f"accept.{name}", float(f"{1.2 * value:.1e}")),) if value <= max(vars(Tolerances()).values()) else ()
