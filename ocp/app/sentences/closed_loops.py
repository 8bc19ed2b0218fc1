"""Findings about closed loops, in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from ocp.app.sentences.wording import Wording
from ocp.problem.finding import Finding, Kind


def _in(finding: Finding, value: float | None) -> str:
    return f"{value:.4g} {finding.data['unit']}".rstrip()


def _broken(finding: Finding) -> str:
    name = f"{finding.name} ({finding.component})" if finding.component else finding.name
    return (f"{name} is violated by {_in(finding, finding.value)} > {finding.tolerance:.2g} at t = {finding.time:.4g} s; first at "
            f"{finding.data['first']:.4g} s, {100 * finding.data['share']:.3g} % of the time")


def _missed(finding: Finding) -> str:
    return (f"{finding.name} is off its reference by {_in(finding, finding.value)} at t = {finding.time:.4g} s; from "
            f"{finding.data['from']:.4g} s on it has to keep within {_in(finding, finding.tolerance)}")


def _lost(finding: Finding) -> str:
    data = finding.data
    return (f"{finding.name} is lost: from {data['from']:.4g} s on its error stays above {_in(finding, finding.value)} and ends at "
            f"{_in(finding, data['end'])}, {100 * data['share']:.3g} % of what it is without control")


SENTENCES: Mapping[Kind, Wording] = {
    Kind.CONSTRAINT_BROKEN: _broken,
    Kind.TRACKING_MISSED: _missed,
    Kind.TRACKING_LOST: _lost,
}
