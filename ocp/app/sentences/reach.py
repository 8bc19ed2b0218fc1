"""Sentences for infeasibility that follows from bounds alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ocp.app.sentences.wording import Wording, of_phase
from ocp.problem.finding import Finding, Kind

#: findings that may prove that no motion exists
IMPOSSIBLE = (Kind.DISTANCE_TOO_LONG, Kind.STATE_OUT_OF_REACH, Kind.CONSTRAINT_OUT_OF_REACH)
#: the common premise
BY = "by the bounds of states and controls alone"
LOCATIONS = {"start": "at the start", "final": "at the end", "path": "somewhere on the way"}


def impossible(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those that prove that no motion exists."""
    return tuple(one for one in findings if one.kind in IMPOSSIBLE and one.data["sure"])


def _of_phase(tell: Callable[[Finding], str]) -> Callable[[Finding], str]:
    """With the phase before it where there are several."""
    return lambda finding: of_phase(finding) + tell(finding)


def _between(ends: tuple[float, float]) -> str:
    low, high = ends
    if low == high:
        return f"{low:.4g}"
    if low == -float("inf"):
        return f"at most {high:.4g}"
    return f"at least {low:.4g}" if high == float("inf") else f"between {low:.4g} and {high:.4g}"


@_of_phase
def _distance(finding: Finding) -> str:
    data, way = finding.data, finding.value
    assert way is not None
    along = "from its start to its end" if data["sure"] else "along the guess"
    least = f"it needs {way / data['fastest']:.4g} s" if data["fastest"] > 0 else "it cannot move"
    return (f"{finding.name} has to move by {way:.4g} {along}, but {data['rate']} is at most {data['fastest']:.4g} in that "
            f"direction: at most {finding.tolerance:.4g} in {data['longest']:.4g} s; {least}")


@_of_phase
def _state(finding: Finding) -> str:
    data = finding.data
    share, T, free = data["share"], data["duration"], data["free"]
    when = f"after {100 * share:.3g} % of the time" if free else f"after {share * T:.4g} s"
    asked = "the conditions at the end require"
    if share == 1:
        when = f"at the end, {'at most ' if free else ''}{T:.4g} s after the start"
        asked = "required is"
    return f"{finding.name} can only be {_between(data['within'])} {when}, {BY}; {asked} {_between(data['asked'])}"


@_of_phase
def _constraint(finding: Finding) -> str:
    data = finding.data
    return (f"{finding.component} can only be {_between(data['within'])} {LOCATIONS[data['at']]}, {BY}; required is "
            f"{_between(data['asked'])}")


@_of_phase
def _end(finding: Finding) -> str:
    listed = ", ".join(f"{name} by {by:.3g}" for name, by in finding.data["missed"].items())
    return (f"no configuration within the bounds was found that meets the conditions at the {finding.name}: the best of "
            f"{finding.data['searches']} searches misses {listed}")


#: of constraints of the skeleton: what is missed, by whether it is a position, a motion or an end
ASKED = {"given": "the state that is given at the {end} of {phase}", "bounds": "bounds at the {end} of {phase}",
         "duration": "the duration of {phase}", "jump": "the jump at the start of {phase}",
         "falls": "the parabola of the mass centre in {phase}", "stands": "that the contact {what!r} does not move in {phase}",
         "": "{what!r} at the {end} of {phase}"}


def _contacts(finding: Finding) -> str:
    rows = list(finding.data["missed"].items())[:4]
    listed = ", ".join(f"{ASKED.get(what, ASKED.get(place, ASKED[''])).format(what=what, phase=phase, end=place)} by {by:.2g}"
                       for (what, phase, place), by in rows)
    return (f"no states satisfy the contacts of all phases, for any torques: the best of {finding.data['searches']} searches "
            f"misses {listed} (m, rad, and per second). A foot moves only in phases without its contact; a flight lasts as long "
            "as gravity allows")


def _repeat(finding: Finding) -> str:
    pairs = ", ".join(f"{a!r} and {b!r}" for a, b in finding.data["pairs"])
    which = f"{pairs} are the same" if pairs else f"those of {', '.join(finding.data['contacts'])}"
    return (f"in {finding.phase} {finding.value:.0f} of {finding.data['rows']} contact equations are redundant: {which}; "
            "the minimum-norm contact forces are reported; leave out points that the others determine")


SENTENCES: Mapping[Kind, Wording] = {
    Kind.DISTANCE_TOO_LONG: _distance,
    Kind.STATE_OUT_OF_REACH: _state,
    Kind.CONSTRAINT_OUT_OF_REACH: _constraint,
    Kind.END_OUT_OF_REACH: _end,
    Kind.CONTACTS_OUT_OF_REACH: _contacts,
    Kind.CONTACTS_REPEAT: _repeat,
    Kind.NOTHING_SOLVED: "no program was solved: the bounds alone exclude a solution; the trajectory is the guess",
}
