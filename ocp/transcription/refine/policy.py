"""From errors of intervals to the next mesh: shorter intervals, higher degrees, or what promises more.

The error of an interval of degree K falls as h^(K+1) where the solution is smooth, so that a cut into B pieces gains B^(K+1)
(Betts 2010, Practical Methods for Optimal Control, Sec. 4.7), and as 10^(-d) with one degree more, where d is the decay of its
Legendre coefficients (Liu, Hager, Rao 2018, IEEE Transactions on Control Systems Technology 26(4)). Where coefficients decay
slowly, or a constraint is broken between nodes, no degree helps: the interval is cut, and the piece that holds the kink again.

A policy is a row of ``POLICIES``: add one there, and ``refine`` knows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np

from ocp.thresholds import MESH_CHANGE, ROUNDING
from ocp.transcription.refine.error import PhaseErrors
from ocp.transcription.refine.plan import Plan, rounded


@dataclass(frozen=True)
class Policy:
    """How a mesh is refined.

    refines: whether it is; by_certificate: whether the certificate says where and until when, else an error estimate by interval;
    raises: which intervals get a higher degree instead of a cut: "none", "smooth" ones or "all"; lowers: whether degrees fall where
    the error is far below the tolerance; merges: whether neighbours that are far too fine are joined; keeps_degree: whether pieces
    of a cut interval keep its degree at a kink; spares_jumps: whether kinks beside an edge where controls jump are left alone up to
    some tolerances; failures: passes that may fail before other guesses are tried; stall: passes without progress before it ends.
    """

    refines: bool = True
    by_certificate: bool = False
    raises: str = "none"
    lowers: bool = False
    merges: bool = False
    keeps_degree: bool = False
    spares_jumps: bool = True
    failures: int = 2
    stall: int = 2


POLICIES: Mapping[str, Policy] = {
    "none": Policy(refines=False, failures=0),
    "h": Policy(keeps_degree=True),
    "p": Policy(raises="all", lowers=True),
    "hp": Policy(raises="smooth", lowers=True, merges=True),
    # its first mesh is coarse, and what is left to mend may be in one interval alone
    "certificate": Policy(by_certificate=True, raises="smooth", spares_jumps=False, failures=1, stall=4),
}


@dataclass(frozen=True)
class Rules:
    """policy; tolerance: of every interval; lowest, highest: degrees to choose from."""

    policy: Policy
    tolerance: float
    lowest: int
    highest: int


def next_plan(plan: Plan, errors: PhaseErrors, rules: Rules) -> Plan:
    """The mesh of the next pass; the same one where no rule allows a change."""
    pieces: list[tuple[int, int]] = []  # (pieces, degree) of each interval
    worst = set(np.argsort(-errors.total, kind="stable")[:max(MESH_CHANGE.many_intervals, plan.intervals // 2)])
    for k, degree in enumerate(plan.degrees):
        if errors.total[k] > rules.tolerance and k not in worst:
            pieces.append((1, degree))
            continue
        width = plan.edges[k + 1] - plan.edges[k]
        if errors.total[k] <= rules.tolerance:
            pieces.append((1, _lowered(degree, float(errors.total[k]), float(errors.decay[k]), rules)))
            continue
        gain = min(float(errors.total[k]) / (MESH_CHANGE.aim * rules.tolerance), 1e12)
        decays = errors.decay[k] >= MESH_CHANGE.smooth and not errors.clipped[k]
        smooth = decays and errors.path[k] < errors.total[k]
        beside = k in plan.jumps or k + 1 in plan.jumps
        if rules.policy.spares_jumps and beside and not smooth and errors.total[k] <= MESH_CHANGE.beside_jump * rules.tolerance:
            pieces.append((1, degree))
            continue
        add = min(MESH_CHANGE.max_change, max(1, ceil(log10(gain) / max(float(errors.decay[k]), 0.25))))
        if rules.policy.raises == "all" or (rules.policy.raises == "smooth" and smooth and degree < rules.highest):
            pieces.append((1, min(degree + add, rules.highest)))
            continue
        order, most = (degree + 1, MESH_CHANGE.max_pieces) if smooth else (2, MESH_CHANGE.max_change)
        count = int(np.clip(ceil(gain ** (1 / order)), 2, most))
        count = max(1, min(count, int(width / ROUNDING.beside)))
        # pieces of a smooth interval keep its degree; at a kink low degrees do as well
        pieces.append((count, degree if decays or rules.policy.keeps_degree else max(rules.lowest, min(degree, rules.lowest + 1))))
    merged = _merges(plan, errors, rules) if rules.policy.merges else [False] * plan.intervals
    return _built(plan, pieces, merged)


def halved(plan: Plan) -> Plan:
    """Every interval cut in two."""
    return cut(plan, [2] * plan.intervals)


def cut(plan: Plan, pieces: Sequence[int]) -> Plan:
    """Every interval cut into so many equal pieces."""
    return _built(plan, list(zip(pieces, plan.degrees, strict=True)), [False] * plan.intervals)


def _lowered(degree: int, error: float, decay: float, rules: Rules) -> int:
    if not rules.policy.lowers or error > MESH_CHANGE.fine * rules.tolerance or decay < MESH_CHANGE.smooth:
        return degree
    spare = log10(MESH_CHANGE.aim * rules.tolerance / max(error, 1e-16))
    return max(min(degree, rules.lowest), degree - max(0, floor(spare / decay) - 1))


def _merges(plan: Plan, errors: PhaseErrors, rules: Rules) -> list[bool]:
    """Which intervals are joined with the one before: both far too fine, and the union still fine by the order of its degree."""
    found = [False] * plan.intervals
    for k in range(1, plan.intervals):
        if k in plan.jumps or found[k - 1]:
            continue
        both = [k - 1, k]
        widths = [plan.edges[i + 1] - plan.edges[i] for i in both]
        degree = max(plan.degrees[i] for i in both)
        if np.any(errors.decay[both] < MESH_CHANGE.smooth) or np.any(errors.clipped[both]):
            continue
        grown = [float(errors.total[i]) * (sum(widths) / w) ** (plan.degrees[i] + 1) for i, w in zip(both, widths, strict=True)]
        found[k] = max(grown) <= 0.1 * MESH_CHANGE.aim * rules.tolerance and degree < rules.highest
    return found


def _built(plan: Plan, pieces: Sequence[tuple[int, int]], merged: Sequence[bool]) -> Plan:
    edges: list[float] = [0.0]
    degrees: list[int] = []
    jumps: set[int] = set()
    for k, (count, degree) in enumerate(pieces):
        if k in plan.jumps:
            jumps.add(len(degrees))
        if merged[k]:
            edges[-1] = plan.edges[k + 1]
            degrees[-1] = max(degrees[-1], plan.degrees[k - 1], plan.degrees[k])
            continue
        inner = np.linspace(plan.edges[k], plan.edges[k + 1], count + 1)[1:-1]
        edges += [*rounded(inner), plan.edges[k + 1]]
        degrees += [degree] * count
    return Plan(tuple(edges), tuple(degrees), frozenset(jumps))
