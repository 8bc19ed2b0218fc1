"""Motions that lie on a kink: the argument of ``abs``, ``min``, ``max`` or a comparison stays about zero."""

from __future__ import annotations

import numpy as np

from ocp.certify.events import watch
from ocp.certify.motion import Motion
from ocp.problem import At, Finding, Kind, Solution
from ocp.thresholds import VERDICTS


def kinks(solution: Solution) -> tuple[Finding, ...]:
    """A finding on an uncertified solution whose motion lies on kinks of costs or constraints for a long time, where gradients are
    undefined; None otherwise."""
    found = []
    for phase, part in zip(solution.problem.phases, solution.parts or (solution.trajectory,), strict=True):
        terms = [("cost", c.name, c.function) for c in phase.costs if c.at is At.PATH]
        terms += [("constraint", c.name, c.function) for c in phase.constraints if c.at in (At.PATH, At.INTEGRAL)]
        sharp = [(term, name, switches) for term, name, function in terms if (switches := watch(function).switches) is not None]
        if not sharp or not (motion := Motion(phase, part)).finite:
            continue
        t = np.linspace(*motion.span, 1000)
        x, u = motion.state(t), motion.control(t)
        for term, name, switches in sharp:
            size = np.abs(motion.call(switches, t, x, u))
            lies = float(np.max(np.mean(size <= VERDICTS.kink_distance * np.max(size, axis=0), axis=0)))
            if lies > VERDICTS.kink_share:
                found.append({"phase": phase.name, "term": term, "name": name, "share": lies})
    return (Finding(Kind.MOTION_ON_KINKS, data={"terms": tuple(found)}),) if found else ()
