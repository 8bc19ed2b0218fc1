"""Pseudo-inverses with an explicit rank, null spaces, and what they say about singular configurations. NumPy only.

Throughout, ``tolerance`` is relative to the largest singular value: singular values below ``tolerance * largest`` count as
zero. The default, ``max(m, n) * 2.2e-16``, only absorbs rounding of A itself. Products such as J2 N1 carry the rounding of what
made them, and need more (1e-6 there is usual); with a tolerance too small the pseudo-inverse amplifies noise into motion.

Sources: Golub and Van Loan, Matrix Computations, 5.5 (SVD, rank); Nakamura and Hanafusa 1986 and Wampler 1986 (damping);
Chiaverini, Siciliano, Egeland 1994 (damping that depends on the smallest singular value); Yoshikawa 1985 (manipulability).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ocp.errors import ProblemError

Array = NDArray[np.float64]


def rank(A: ArrayLike, tolerance: float | None = None) -> int:
    """Number of singular values of A [m, n] that count."""
    return _svd(A, tolerance)[3]


def pseudo_inverse(A: ArrayLike, tolerance: float | None = None) -> Array:
    """Moore-Penrose inverse A+ [n, m] of any A [m, n]: V S+ U' from the singular value decomposition.

    It is the only matrix with A A+ A = A, A+ A A+ = A+, and both products symmetric.
    """
    U, s, Vt, r = _svd(A, tolerance)
    return np.asarray((Vt[:r].T / s[:r]) @ U[:, :r].T)


def left_inverse(A: ArrayLike, tolerance: float | None = None) -> Array:
    """(A'A)^-1 A' [n, m] of a matrix of full column rank: A+ A = I. Raises ProblemError when the rank is less."""
    A = _matrix(A)
    _require(A, A.shape[1], "column", tolerance)
    return np.asarray(np.linalg.solve(A.T @ A, A.T))


def right_inverse(A: ArrayLike, tolerance: float | None = None) -> Array:
    """A'(A A')^-1 [n, m] of a matrix of full row rank: A A+ = I. Raises ProblemError when the rank is less."""
    A = _matrix(A)
    _require(A, A.shape[0], "row", tolerance)
    return np.asarray(np.linalg.solve(A @ A.T, A).T)


def weighted_inverse(A: ArrayLike, W: ArrayLike, tolerance: float | None = None) -> Array:
    """(A'WA)^-1 A'W [n, m]: x = A+W b minimises |W^1/2 (A x - b)|. W: [m] positive weights or [m, m] positive definite.

    A of less than full column rank: of all minimisers the one of least |x|.
    """
    A = _matrix(A)
    root = _root(W, A.shape[0], "W")
    return np.asarray(pseudo_inverse(root @ A, tolerance) @ root)


def metric_inverse(A: ArrayLike, M: ArrayLike, tolerance: float | None = None) -> Array:
    """M^-1 A'(A M^-1 A')^-1 [n, m]: of all least-squares solutions x = A+M b has the least x' M x. M: [n] or [n, n]
    positive."""
    A = _matrix(A)
    root = _root(M, A.shape[1], "M")
    inverse_root = np.linalg.inv(root)
    return np.asarray(inverse_root @ pseudo_inverse(A @ inverse_root, tolerance))


def damped_inverse(A: ArrayLike, damping: float) -> Array:
    """A'(A A' + λ² I)^-1 = (A'A + λ² I)^-1 A' [n, m], λ = damping: minimises |A x - b|² + λ² |x|².

    The gain of any direction is s/(s² + λ²), at most 1/(2λ). damping = 0 gives the Moore-Penrose inverse. Raises ProblemError
    for negative damping.
    """
    if not damping >= 0.0:
        raise ProblemError(f"must not be negative, got {damping!r}", where="damped_inverse.damping")
    if damping == 0.0:
        return pseudo_inverse(A)
    U, s, Vt, _ = _svd(A, 0.0)
    k = s.size
    # from the singular values, because squaring A would lose the digits that damping is there to protect
    return np.asarray((Vt[:k].T * (s / (s * s + damping * damping))) @ U[:, :k].T)


def adaptive_damping(smallest: float, threshold: float, largest_damping: float) -> float:
    """λ with λ² = (1 - (s/threshold)²) λmax² for a smallest singular value s below the threshold, 0 above.

    Undamped away from singularities, smooth across the threshold (Chiaverini, Siciliano, Egeland 1994, Eq. 11).
    """
    if not threshold > 0.0 or largest_damping < 0.0:
        raise ProblemError(
            f"expected threshold > 0 and largest_damping >= 0, got {threshold!r}, {largest_damping!r}", where="adaptive_damping"
        )
    return 0.0 if smallest >= threshold else float(np.sqrt(1.0 - (smallest / threshold) ** 2)) * largest_damping


def adaptively_damped_inverse(A: ArrayLike, threshold: float, largest_damping: float) -> Array:
    """Damped inverse [n, m] with `adaptive_damping` of the smallest of the min(m, n) singular values."""
    U, s, Vt, r = _svd(A, None)
    lam = adaptive_damping(float(s.min(initial=np.inf)), threshold, largest_damping)
    if lam == 0.0:
        return np.asarray((Vt[:r].T / s[:r]) @ U[:, :r].T)
    return np.asarray((Vt[: s.size].T * (s / (s * s + lam * lam))) @ U[:, : s.size].T)


def null_space_projector(A: ArrayLike, tolerance: float | None = None) -> Array:
    """N = I - A+ A [n, n]: symmetric, N N = N, A N = 0."""
    _, _, Vt, r = _svd(A, tolerance)
    return np.asarray(np.eye(Vt.shape[1]) - Vt[:r].T @ Vt[:r])


def null_space_basis(A: ArrayLike, tolerance: float | None = None) -> Array:
    """Z [n, n - rank] with orthonormal columns that span the null space of A; N = Z Z'."""
    _, _, Vt, r = _svd(A, tolerance)
    return np.asarray(Vt[r:].T.copy())


def solve(A: ArrayLike, b: ArrayLike, x0: ArrayLike | None = None, tolerance: float | None = None) -> Array:
    """x = A+ b + (I - A+ A) x0 [n]: the least-squares solution nearest to x0 (of least norm without x0).

    With A a task Jacobian, b a task velocity and x0 a velocity for the redundancy, x is the generalised velocity.
    """
    U, s, Vt, r = _svd(A, tolerance)
    b = np.asarray(b, float)
    if b.shape != (U.shape[0],):
        raise ProblemError(f"b has shape {b.shape}, expected ({U.shape[0]},)", where="pseudo_inverse.solve")
    x = Vt[:r].T @ ((U[:, :r].T @ b) / s[:r])
    if x0 is not None:
        x0 = np.asarray(x0, float)
        if x0.shape != x.shape:
            raise ProblemError(f"x0 has shape {x0.shape}, expected {x.shape}", where="pseudo_inverse.solve")
        x = x + x0 - Vt[:r].T @ (Vt[:r] @ x0)
    return np.asarray(x)


@dataclass(frozen=True, eq=False)
class Singularity:
    """Analysis of a Jacobian [m, n] whose task has ``expected`` controllable directions.

    rank; singular_values, descending [min(m, n)]; condition: largest over the expected-th one (inf when that is zero);
    manipulability: product of the first expected ones, sqrt(det J J') for full row rank (Yoshikawa 1985); lost [m, k]: unit
    task velocities, out of the expected ones, that no motion produces; redundancy: n - rank motions that do not move the task.
    """

    rank: int
    expected: int
    singular_values: Array
    condition: float
    manipulability: float
    lost: Array
    redundancy: int

    @property
    def singular(self) -> bool:
        """True when the task has lost a direction: rank < expected."""
        return self.rank < self.expected


def singularity(J: ArrayLike, expected: int | None = None, tolerance: float = 1e-9) -> Singularity:
    """Rank analysis of J [m, n]. expected: operational dimension m0 of the mechanism's task (default: min(m, n)).

    Raises ProblemError for an expected rank that the shape does not allow.
    """
    A = _matrix(J)
    most = min(A.shape)
    expected = most if expected is None else expected
    if not 0 <= expected <= most:
        raise ProblemError(f"expected rank {expected} of a matrix {A.shape}", where="singularity.expected")
    U, s, _, r = _svd(A, tolerance)
    last = s[expected - 1] if expected else 1.0
    condition = float(s[0] / last) if expected and last > 0.0 else (1.0 if not expected else np.inf)
    return Singularity(r, expected, s, condition, float(np.prod(s[:expected])), U[:, r : max(expected, r)].copy(), A.shape[1] - r)


class Svd(NamedTuple):
    """U, singular values, V' and the rank."""

    U: Array
    s: Array
    Vt: Array
    rank: int


def _svd(A: ArrayLike, tolerance: float | None) -> Svd:
    A = _matrix(A)
    if not np.isfinite(A).all():
        raise ProblemError("the matrix has entries that are not finite", where="pseudo_inverse")
    U, s, Vt = np.linalg.svd(A, full_matrices=True)
    relative = max(A.shape, default=0) * np.finfo(float).eps if tolerance is None else tolerance
    if not 0.0 <= relative < 1.0:
        raise ProblemError(f"the rank tolerance is relative, expected in [0, 1), got {tolerance!r}", where="pseudo_inverse")
    r = int(np.count_nonzero(s > relative * s[0])) if s.size and s[0] > 0.0 else 0
    return Svd(U, s, Vt, r)


def _matrix(A: ArrayLike) -> Array:
    A = np.asarray(A, float)
    if A.ndim != 2:
        raise ProblemError(f"expected a matrix, got an array of shape {A.shape}", where="pseudo_inverse")
    return A


def _require(A: Array, needed: int, which: str, tolerance: float | None) -> None:
    got = rank(A, tolerance)
    if got < needed:
        raise ProblemError(
            f"matrix {A.shape} has rank {got}, not full {which} rank {needed}; use pseudo_inverse", where="pseudo_inverse"
        )


def _root(W: ArrayLike, size: int, name: str) -> Array:
    """Upper triangular (or diagonal) R with R'R = W."""
    W = np.asarray(W, float)
    if W.shape == (size,):
        if not (W > 0.0).all():
            raise ProblemError(f"weights must be positive, got {W.tolist()}", where=f"pseudo_inverse.{name}")
        return np.diag(np.sqrt(W))
    if W.shape != (size, size) or not np.allclose(W, W.T, rtol=1e-9, atol=0.0):
        raise ProblemError(f"{name} has shape {W.shape}, expected ({size},) or symmetric ({size}, {size})", where="pseudo_inverse")
    try:
        return np.asarray(np.linalg.cholesky(W).T)
    except np.linalg.LinAlgError as error:
        raise ProblemError(f"{name} is not positive definite", where="pseudo_inverse") from error
