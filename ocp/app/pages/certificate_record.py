"""The certificate as plain data of ``summary.json``, its sentences beside it, and back.

Runs of earlier versions kept words alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ocp.app.pages.folders import restore
from ocp.app.sentences import sentence, sentences
from ocp.app.sentences.certificate import CHECKS, where
from ocp.problem.finding import Kind
from ocp.problem.solution import Certificate, Residual, Statement, Violation

#: the checks, by their names in the record
RESIDUALS = tuple(str(kind) for kind in CHECKS)
#: how earlier versions began to speak of kinds of points, and what marks a special cause
EARLIER_POINTS = {"a strict minimum": Kind.STRICT_MINIMUM, "a minimum, flat": Kind.FLAT_MINIMUM, "a saddle": Kind.SADDLE,
                  "a maximum": Kind.MAXIMUM}
EARLIER_CAUSES = {"rates or costs jump where the state passes a place": Kind.STATE_DEPENDENT_JUMP,
                  "running costs turn": Kind.OSCILLATING_COST}


def certificate_record(certificate: Certificate) -> dict[str, Any]:
    """``failures``: in sentences; ``findings``: the same as data."""
    point = certificate.second_order
    return {
        "holds": certificate.holds,
        "failures": sentences(certificate.failures), "findings": [one.record() for one in certificate.failures],
        **{name: _residual(getattr(certificate, name)) for name in RESIDUALS},
        "second_order": None if point is None else {
            "kind": str(point.kind), "words": sentence(point.finding), "holds": point.holds, "below": point.below,
            "free": point.free, "discrete": [str(kind) for kind in point.discrete], "weak": point.weak},
        "objective_size": certificate.objective_size, "bar": certificate.error_bound, "resolution": certificate.resolution,
        "violations": [{"name": v.name, "phase": v.phase, "label": v.label, "at_knots": v.at_knots,
                        "between_knots": v.between_knots, "time": v.time, "component": v.component, "tolerance": v.tolerance,
                        "soft": v.soft, "tolerance_between": v.tolerance_between, "time_between": v.time_between,
                        "holds": v.holds}
                       for v in certificate.violations],
    }


def certificate_of(record: Mapping[str, Any]) -> Certificate:
    """The certificate behind its record, its numbers restored."""
    residuals = {name: None if record.get(name) is None else _read_residual(name, record[name])  # earlier versions lack some
                 for name in RESIDUALS}
    violations = tuple(Violation(v["name"], float(v["at_knots"]), float(v["between_knots"]), float(v["time"]), v["component"],
                                 float(v["tolerance"]), v["soft"], float(v["tolerance_between"]), v.get("time_between"),
                                 v.get("phase", ""))
                       for v in record["violations"])
    point = record.get("second_order")
    return Certificate(violations=violations, **residuals,  # type: ignore[arg-type]  # only the last four may be None
                       second_order=None if point is None else _read_point(point),
                       objective_size=float(record.get("objective_size", 1.0)), resolution=record.get("resolution"))


def _residual(residual: Residual | None) -> dict[str, Any] | None:
    if residual is None:
        return None
    own = residual.finding.record()
    return {**own, "name": CHECKS[residual.kind], "where": where(residual.finding), "holds": residual.holds}


def _read_residual(name: str, record: Mapping[str, Any]) -> Residual:
    value, tolerance = float(record["value"]), float(record["tolerance"])
    if "kind" not in record:
        words = record["where"]
        cause = next((kind for mark, kind in EARLIER_CAUSES.items() if mark in words), None)
        return Residual(Kind(name), value, tolerance, cause=cause, data={"where": words})
    data = {key: _restored(item) for key, item in record.get("data", {}).items()}
    span, cause = data.pop("span", None), data.pop("cause", None)
    return Residual(Kind(name), value, tolerance, record.get("phase", ""), None if span is None else (span[0], span[1]),
                    record.get("time"), None if cause is None else Kind(cause), data)


def _read_point(record: Mapping[str, Any]) -> Statement:
    if "kind" not in record:
        words = record["words"]
        return Statement(next((kind for begin, kind in EARLIER_POINTS.items() if words.startswith(begin)),
                              Kind.POINT_NOT_EXAMINED))
    return Statement(Kind(record["kind"]), record["below"], record["free"], tuple(Kind(kind) for kind in record["discrete"]),
                     record.get("weak", False))


def _restored(value: Any) -> Any:
    """Numbers that are not finite, which JSON keeps as text, and tuples, at any depth."""
    if isinstance(value, Mapping):
        return {key: _restored(item) for key, item in value.items()}
    return tuple(map(_restored, value)) if isinstance(value, list) else restore(value)
