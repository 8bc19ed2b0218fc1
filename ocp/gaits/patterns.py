"""The gaits by name: groups of feet that swing together, in order, and the times that they usually take.

Feet of a quadruped are LF, RF, LH and RH (left and right, front and hind), those of a biped L and R. Hildebrand 1965, Symmetrical
gaits of horses, Science 150; the walk is the lateral sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dynamics.errors import near
from ocp.errors import ProblemError

Groups = tuple[tuple[str, ...], ...]
Times = dict[str, tuple[tuple[float, float], ...]]
ALL, EACH = "all", "each"  # groups of feet whatever their number: at once, or one after the other


@dataclass(frozen=True)
class Pattern:
    """groups: of feet by role for a number of feet, or ALL or EACH; swing: a foot is in the air so long [s]; stance: between two
    swings all feet stand so long [s], a negative time is one of flight; end: the same before the first swing and after the last."""

    groups: Mapping[int, Groups] | str | None
    swing: float = 0.3
    stance: float = 0.1
    end: float = 0.2


PATTERNS: Mapping[str, Pattern] = {
    "stand": Pattern(None),
    "step": Pattern(EACH, 0.4),
    "walk": Pattern({2: (("L",), ("R",)), 4: (("LH",), ("LF",), ("RH",), ("RF",))}, 0.4, 0.05),
    "trot": Pattern({4: (("LF", "RH"), ("RF", "LH"))}, 0.25, 0.05),
    "pace": Pattern({4: (("LF", "LH"), ("RF", "RH"))}, 0.25, 0.05),
    "bound": Pattern({4: (("LF", "RF"), ("LH", "RH"))}, 0.25, 0.05),
    "jump": Pattern(ALL, 0.25, 0.4, 0.4),
}


def roles(positions: Mapping[str, Sequence[float]]) -> dict[str, str]:
    """Which foot is which, by where they are in the axes of the base [m]: x ahead, y to the left; feet by role, {} if the positions
    do not decide."""
    names, at = list(positions), np.array([positions[name] for name in positions], dtype=float).reshape(-1, 3)
    middle = at.mean(axis=0) if len(at) else at
    words = {2: lambda p: "L" if p[1] > middle[1] else "R",
             4: lambda p: ("L" if p[1] > middle[1] else "R") + ("F" if p[0] > middle[0] else "H")}
    if len(at) not in words:
        return {}
    found = {words[len(at)](p): name for name, p in zip(names, at, strict=True)}
    return found if len(found) == len(at) else {}


def swings_of(name: str, feet: Sequence[str], by_role: Mapping[str, str], *, cycles: int = 1, swing: float | None = None,
              stance: float | None = None, end: float | None = None) -> tuple[Times, float]:
    """(lift-off, touch-down) [s] of every foot, and the whole time [s]; times that are None are those of the pattern. Raises
    ProblemError for a gait that nobody knows, and one of robots with other feet."""
    if name not in PATTERNS:
        raise ProblemError(f"no gait named {name!r}{near(name, PATTERNS)}", where="gait")
    pattern = PATTERNS[name]
    swing, stance = (given if given is not None else usual for given, usual in ((swing, pattern.swing), (stance, pattern.stance)))
    end = max(stance, 0.0) if end is None and stance != pattern.stance else pattern.end if end is None else end
    groups = _groups(name, pattern, feet, by_role) * cycles
    found: dict[str, list[tuple[float, float]]] = {foot: [] for foot in feet}
    time = end
    for k, group in enumerate(groups):
        time += stance if k else 0.0
        for foot in group:
            found[foot].append((time, time + swing))
        time += swing
    return {foot: tuple(own) for foot, own in found.items()}, time + end if groups else 2 * end


def _groups(name: str, pattern: Pattern, feet: Sequence[str], by_role: Mapping[str, str]) -> Groups:
    if pattern.groups is None:
        return ()
    if isinstance(pattern.groups, str):
        return (tuple(feet),) if pattern.groups == ALL else tuple((foot,) for foot in feet)
    if len(feet) not in pattern.groups:
        raise ProblemError(f"a {name} is one of {' or '.join(map(str, pattern.groups))} feet; the robot has {len(feet)} contacts",
                           where="gait")
    groups = pattern.groups[len(feet)]
    lacking = [role for group in groups for role in group if role not in by_role]
    if lacking:
        raise ProblemError(f"the positions of the feet do not decide which is {', '.join(lacking)}; name them: feet", where="gait")
    return tuple(tuple(by_role[role] for role in group) for group in groups)
