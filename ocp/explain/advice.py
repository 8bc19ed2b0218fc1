"""What of a certificate fails, and which options help: for runs that converged and are not certified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ocp.problem import Certificate

DIRECT = ("collocation", "multiple_shooting")
#: schemes whose degree refinement may raise
HIGH = ("gauss", "radau", "radau_left", "lobatto")
#: checks that a finer mesh mends
OF_MESH = ("gap_segment", "error_estimate", "energy", "objective")


@dataclass(frozen=True)
class Advice:
    """One thing that fails: in words, why it does, and by key of the file (``solve.collocation.intervals``) what to try, the best
    first."""

    failure: str
    why: str
    settings: tuple[tuple[str, Any], ...] = ()


def advice(certificate: Certificate, method: str, options: Mapping[str, Any]) -> tuple[Advice, ...]:
    """Advice on everything that fails; options: that the method ran with."""
    found = list(_residuals(certificate, method, options))
    for violation in certificate.violations:
        if violation.holds:
            continue
        if violation.at_knots <= violation.tolerance:
            found.append(Advice(violation.sentence.removesuffix("; refine the mesh"),
                                "It holds where the method looks, at its knots, and not between them: a finer mesh looks closer.",
                                (*_finer(method, options), ("accept.violation_between", _above(violation.between_knots)))))
        else:
            found.append(Advice(violation.sentence, "It does not hold even where the method imposes it: the solve ended too early.",
                                _tighter(method, options)))
    return tuple(found)


def _residuals(certificate: Certificate, method: str, options: Mapping[str, Any]) -> Iterator[Advice]:
    for name in ("stationarity", "complementarity"):
        if not (check := getattr(certificate, name)).holds:
            yield Advice(check.sentence,
                         "The point is no minimum to this accuracy: scales differ widely, or the solve ended early.",
                         _tighter(method, options))
    meshed = [getattr(certificate, name) for name in OF_MESH]
    for check in (check for check in meshed if check is not None and not check.holds):
        yield Advice(check.sentence, "The mesh is too coarse for this motion: between its knots the answer is another one.",
                     _finer(method, options))
    if not certificate.gap_total.holds:
        if certificate.gap_segment.holds:
            yield Advice(certificate.gap_total.sentence,
                         "Every segment is accurate; the motion is unstable, so that small errors grow from start to end.",
                         (*_finer(method, options), ("accept.gap_total", _above(certificate.gap_total.value))))
        else:
            yield Advice(certificate.gap_total.sentence, "It adds up what the segments miss.", _finer(method, options))
    if certificate.point is not None and not certificate.point.holds:
        yield Advice(certificate.point.sentence, "Trajectory and multipliers are of different points: solve again.")


def _finer(method: str, options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Settings that make the mesh finer, as far as the method has them."""
    key, found = f"solve.{method}", list[tuple[str, Any]]()
    refined = options.get("refine", "none") != "none"
    if refined:
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


def _above(value: float) -> float:
    """A round number above."""
    return float(f"{1.2 * value:.1e}")
