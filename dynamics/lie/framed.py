"""Vectors and rotations that know their frames: sums and products of what does not fit are errors.

For code at the edge (tests, notebooks, set-up of a problem) where a mixed-up frame would otherwise stay unseen; the
algorithms of the package use bare expressions. Names of Hutter et al. 2023, "Robot dynamics lecture notes", section
2.1: `A_r_PQ` points from P to Q and has its components in A; `ω_AB`, of B relative to A, adds in the same way.
"""

from dataclasses import dataclass

import casadi as ca

from dynamics.errors import FrameMismatchError
from dynamics.lie.expression import Expression, ExpressionLike, column, matrix


@dataclass(frozen=True)
class FramedVector:
    """`components` (3 x 1) in `frame` of a vector from `start` to `end` (points, or frames for an angular velocity)."""

    components: Expression
    frame: str
    start: str
    end: str

    def __str__(self) -> str:
        return f"{self.frame}_r_{self.start}{self.end}"


@dataclass(frozen=True)
class FramedRotation:
    """`matrix` (3 x 3), `outer`_R_`inner`: takes components in `inner` to components in `outer`."""

    matrix: Expression
    outer: str
    inner: str

    def __str__(self) -> str:
        return f"{self.outer}_R_{self.inner}"


def vector(components: ExpressionLike, frame: str, start: str, end: str) -> FramedVector:
    """`frame`_r_`start``end`."""
    return FramedVector(column(components, 3, "components"), frame, start, end)


def rotation(entries: ExpressionLike, outer: str, inner: str) -> FramedRotation:
    """`outer`_R_`inner`."""
    return FramedRotation(matrix(entries, 3, 3, "entries"), outer, inner)


def add(first: FramedVector, second: FramedVector) -> FramedVector:
    """A_r_PQ + A_r_QS = A_r_PS; `FrameMismatchError` for other frames or points that do not meet."""
    if first.frame != second.frame:
        raise FrameMismatchError(f"{first} + {second}: components in {first.frame} and in {second.frame}; express one first")
    if first.end != second.start:
        raise FrameMismatchError(f"{first} + {second}: the first ends at {first.end}, the second starts at {second.start}")
    return FramedVector(first.components + second.components, first.frame, first.start, second.end)


def reverse(r: FramedVector) -> FramedVector:
    """A_r_QP = -A_r_PQ."""
    return FramedVector(-r.components, r.frame, r.end, r.start)


def express(turn: FramedRotation, r: FramedVector) -> FramedVector:
    """A_r = A_R_B B_r; `FrameMismatchError` when r is not in the inner frame of the rotation."""
    if turn.inner != r.frame:
        raise FrameMismatchError(f"{turn} {r}: expected components in {turn.inner}, got {r.frame}")
    return FramedVector(ca.mtimes(turn.matrix, r.components), turn.outer, r.start, r.end)


def chain(first: FramedRotation, second: FramedRotation) -> FramedRotation:
    """A_R_C = A_R_B B_R_C; `FrameMismatchError` when the inner frames do not meet."""
    if first.inner != second.outer:
        raise FrameMismatchError(f"{first} {second}: {first.inner} and {second.outer} are not the same frame")
    return FramedRotation(ca.mtimes(first.matrix, second.matrix), first.outer, second.inner)


def invert(turn: FramedRotation) -> FramedRotation:
    """B_R_A = A_R_Bᵀ."""
    return FramedRotation(turn.matrix.T, turn.inner, turn.outer)


def differentiate(r: FramedVector, time: Expression, rate: Expression | None = None) -> FramedVector:
    """Entrywise time derivative of the components, in their frame: ṙ for a graph in `time`.

    `rate`: derivative of `time`, 1 unless given. That it is the velocity only in an inertial frame is the caller's care.
    """
    flow = ca.DM(1.0) if rate is None else rate
    return FramedVector(ca.mtimes(ca.jacobian(r.components, time), flow), r.frame, r.start, r.end)
