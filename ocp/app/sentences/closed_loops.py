"""Sentences for findings of closed loops."""

from __future__ import annotations

import math
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
    return (f"{finding.name} deviates from its reference by {_in(finding, finding.value)} at t = {finding.time:.4g} s; from "
            f"{finding.data['from']:.4g} s on it must stay within {_in(finding, finding.tolerance)}")


def _lost(finding: Finding) -> str:
    data = finding.data
    return (f"{finding.name} is no longer tracked: from {data['from']:.4g} s on its error exceeds "
            f"{_in(finding, finding.value)} and ends at {_in(finding, data['end'])}, {100 * data['share']:.3g} % of that "
            "without control")


def _on_ground(finding: Finding) -> str:
    base = f"; its base is {finding.value:.3g} m above the ground" if finding.value is not None else ""
    return f"{finding.name} touches the ground at t = {finding.time:.4g} s, but is not a contact of the file{base}"


def _degrees(finding: Finding) -> str:
    return f"{math.degrees(finding.value or 0.0):.3g} > {math.degrees(finding.tolerance or 0.0):.3g} degrees"


SENTENCES: Mapping[Kind, Wording] = {
    Kind.CONSTRAINT_BROKEN: _broken,
    Kind.TRACKING_MISSED: _missed,
    Kind.TRACKING_LOST: _lost,
    Kind.BODY_ON_GROUND: _on_ground,
    Kind.BASE_SANK: "{name} is {value:.3g} m above its ground at t = {time:.4g} s, below {tolerance:.3g} m",
    Kind.BASE_TILTED: lambda finding: f"{finding.name} lies at t = {finding.time:.4g} s: it has tilted by {_degrees(finding)}",
    Kind.NOTHING_HOLDS: "nothing supports {name} at the end: no contact touches, and its centre of mass is {value:.3g} m above the "
                        "ground",
    Kind.TIPPING: "{name} is tipping over at the end: its extrapolated centre of mass lies {value:.3g} m outside the support "
                  "polygon",
    Kind.LEANING: lambda finding: f"{finding.name} leans at the end, by {_degrees(finding)}, and no task asks for it",
    Kind.CONTACT_SLID: "contact {name} slid by {value:.3g} m, more than {tolerance:.2g} m",
    Kind.JOINT_SPEED: "joint {name} moves {percent:.3g} % faster than its limit of {tolerance:.4g}, at t = {time:.4g} s",
    Kind.JOINT_RANGE: "joint {name} is {value:.3g} beyond its range at t = {time:.4g} s",
}
