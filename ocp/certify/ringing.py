"""Controls whose points alternate: fast modes with little cost that a coarse mesh cannot represent."""

from __future__ import annotations

import numpy as np

from ocp.problem import Finding, Kind, Solution
from ocp.thresholds import ROUNDING, VERDICTS


def ringing(solution: Solution) -> tuple[Finding, ...]:
    """A finding where polynomial controls of a collocation solution ring, with the option that may help; none otherwise.

    What turns back at every point is measured by second differences over 4, in the median over the points; controls at their bounds
    are left out.
    """
    if solution.method != "collocation" or solution.options.get("controls", "auto") not in ("auto", "polynomial"):
        return ()
    found = []
    for phase, part in zip(solution.problem.phases, solution.parts or (solution.trajectory,), strict=True):
        for j, name in enumerate(phase.system.inputs):
            u = part.u[:, j]
            room = ROUNDING.resolution * np.ptp(u)
            u = u[~phase.control_bounds[j].active(u, room)]
            if len(u) < VERDICTS.ringing_points or not np.ptp(u) > ROUNDING.resolution * np.max(np.abs(u)):
                continue
            steps = np.diff(u)
            rotations, saw = float(np.mean(steps[1:] * steps[:-1] < 0)), float(np.median(np.abs(np.diff(steps)))) / 4 / np.ptp(u)
            if rotations > VERDICTS.ringing_share and saw > VERDICTS.ringing_amplitude:
                found.append({"phase": phase.name, "name": name, "turning": rotations, "amplitude": saw})
    option = {"controls": "linear"} if solution.options.get("scheme") == "gauss" else {"scheme": "gauss"}
    return (Finding(Kind.OSCILLATING_CONTROLS, data={"controls": tuple(found), "option": option}),) if found else ()
