"""The unknowns of one phase, ordered by time ``[x_0 u_0 x_1 u_1 ...]``: columns, bounds, guess and names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ocp.errors import ProblemError
from ocp.guesses.sampling import on_manifold, sample_guess
from ocp.nlp.names import Names
from ocp.problem import At, Boundary, Phase
from ocp.transcription import motion
from ocp.transcription.carried import later
from ocp.transcription.charts import Form
from ocp.transcription.mesh import Discretisation, Grid


@dataclass(frozen=True, eq=False)
class Layout:
    """Columns of a phase within the program: ``states`` [M, size] of the nodes, ``controls`` [P, nu] of the control points,
    ``stages`` [N, k] of the algebraic unknowns inside intervals (``ocp.transcription.carried``), ``inside`` [N] arrays of what
    steps by equations of motion have there (``ocp.transcription.motion``).

    centres [M, nx]: states about which tangent unknowns stand (the guess itself); lower, upper, guess [n]; names [n].
    """

    states: np.ndarray
    controls: np.ndarray
    stages: np.ndarray
    inside: tuple[np.ndarray, ...]
    centres: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    guess: np.ndarray
    names: Names

    @property
    def count(self) -> int:
        """Number of unknowns."""
        return len(self.names)


def phase_layout(phase: Phase, mesh: Discretisation, form: Form, first: int, prefix: str = "",
                 centres: np.ndarray | None = None, keep: bool = False) -> Layout:
    """The layout of a phase whose first column is ``first``. centres [M, nx]: states to centre tangent unknowns at, instead of the
    guess; keep: ends that are prescribed do not become centres.

    Prescribed components are fixed by their bounds where the space is flat, and everywhere at an end that is prescribed in full
    and stands in tangent unknowns, or at a start. Raises ProblemError for a prescribed value outside the bounds and for a malformed
    guess.
    """
    _check(phase)
    system, space, size, nu = phase.system, phase.system.space, form.size, phase.system.nu
    M, P = mesh.nodes, len(mesh.control_fractions)
    inside = later(system, mesh.integrator, mesh.steps) * len(system.algebraic) if isinstance(mesh, Grid) else 0
    N, own = mesh.intervals if inside else 0, motion.unknowns(phase, mesh)
    keys = np.concatenate([mesh.fractions, mesh.control_fractions, mesh.fractions[:N], mesh.edges[:len(own)]])
    order = np.lexsort((np.r_[np.zeros(M), np.ones(P), np.full(N + len(own), 2)], keys))
    widths = np.r_[np.full(M, size), np.full(P, nu), np.full(N, inside), np.array([len(one) for one in own], dtype=int)]
    starts = np.empty(len(keys), dtype=int)
    starts[order] = np.concatenate([[0], np.cumsum(widths[order])[:-1]])
    states, controls = starts[:M, None] + np.arange(size), starts[M:M + P, None] + np.arange(nu)
    stages = starts[M + P:M + P + N, None] + np.arange(inside) if inside else np.zeros((mesh.intervals, 0), dtype=int)
    moved = tuple(at + np.arange(len(one)) for at, one in zip(starts[M + P + N:], own, strict=True))

    x, _ = sample_guess(phase.guess, space, mesh.fractions)
    _, u = sample_guess(phase.guess, space, mesh.control_fractions)
    if u.shape[1] != nu:
        raise ProblemError(f"has {u.shape[1]} controls, the system has {nu}", where="guess.u")
    if form.tangent:
        wanted, x = on_manifold(space, x), on_manifold(space, x if centres is None else centres)
    n = int(widths.sum())
    guess = np.empty(n)
    guess[controls] = u
    if inside:
        guess[stages] = np.tile(u[:N, len(system.controls):], inside // len(system.algebraic))
    for k, columns in enumerate(moved):
        guess[columns] = motion.guess(phase, mesh, k, x)
    for j, boundary in ((0, phase.start), (M - 1, phase.final)):
        if boundary is not None and boundary.complete and not (keep and form.tangent):
            x[j] = boundary.value
    lower, upper = _limits(phase, form, n, states, controls, x)
    guess[states] = 0.0 if form.tangent else x
    if form.tangent and keep:
        guess[states] = form.space.apart(x, wanted)
    fixed = lower == upper
    guess[fixed] = lower[fixed]

    def names() -> list[str]:
        found = np.empty(n, dtype=object)
        found[states.ravel()] = [f"{prefix}x.{name} @ {where}" for where in mesh.node_names for name in form.names]
        found[controls.ravel()] = [f"{prefix}u.{name} @ {where}" for where in _point_names(mesh) for name in system.inputs]
        found[stages.ravel()] = [f"{prefix}u.{name} @ stage {i + 1} of interval {k}" for k in range(N)
                                 for i in range(inside // max(1, len(system.algebraic))) for name in system.algebraic]
        for k, columns in enumerate(moved):
            found[columns] = [f"{prefix}{name} @ interval {k}" for name in own[k]]
        return found.tolist()

    return Layout(states + first, controls + first, stages + first, tuple(columns + first for columns in moved), x, lower, upper,
                  guess, Names(n, names))


def limits(phase: Phase, form: Form, layout: Layout, first: int, before: Phase) -> tuple[np.ndarray, np.ndarray]:
    """Bounds [n] of the unknowns of a phase that differs in numbers alone from that of the layout, ``before``. Raises ProblemError
    for a prescribed value outside the bounds."""
    states = layout.states - first
    if (phase.x_lower, phase.x_upper) != (before.x_lower, before.x_upper):
        return _limits(phase, form, layout.count, states, layout.controls - first, layout.centres)
    lower, upper = layout.lower.copy(), layout.upper.copy()  # the same components are prescribed
    if (phase.u_lower, phase.u_upper) != (before.u_lower, before.u_upper):
        lower[layout.controls - first], upper[layout.controls - first] = phase.control_bounds.arrays
    for at, j, boundary, known in ((At.START, 0, phase.start, before.start), (At.FINAL, -1, phase.final, before.final)):
        if boundary is not None and boundary != known:
            low, high = lower[states[j]], upper[states[j]]
            _prescribe(phase, form, at, boundary, layout.centres[j], low, high)
            lower[states[j]], upper[states[j]] = low, high
    return lower, upper


def _limits(phase: Phase, form: Form, n: int, states: np.ndarray, controls: np.ndarray, x: np.ndarray
            ) -> tuple[np.ndarray, np.ndarray]:
    lower, upper = np.full(n, -np.inf), np.full(n, np.inf)
    lower[controls], upper[controls] = phase.control_bounds.arrays
    bounds = _state_bounds(phase, form, x)
    for at, j, boundary in ((At.START, 0, phase.start), (At.FINAL, -1, phase.final)):
        if boundary is not None:
            _prescribe(phase, form, at, boundary, x[j], bounds[0][j], bounds[1][j])
    lower[states], upper[states] = bounds
    return lower, upper


def _point_names(mesh: Discretisation) -> list[str]:
    """Names of all control points: those of the nodes where they lie, where they lie on one."""
    nodes, points, names = mesh.fractions, mesh.control_fractions, mesh.node_names
    after = np.clip(np.searchsorted(nodes, points), 1, len(nodes) - 1)
    near = after - (points - nodes[after - 1] <= nodes[after] - points)
    at_node = np.abs(nodes[near] - points) < 1e-12
    return [names[j] if same else mesh.between.format(point=i, interval=i // 2)
            for i, (j, same) in enumerate(zip(near.tolist(), at_node.tolist(), strict=True))]


def _state_bounds(phase: Phase, form: Form, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds [M, size] of the unknown states; those of coordinates that are no unknowns are constraints of the program instead."""
    low, high = phase.state_bounds.arrays
    if not form.tangent:
        return np.tile(low, (len(x), 1)), np.tile(high, (len(x), 1))
    by_tangent = phase.system.space.by_tangent
    return by_tangent(low, -np.inf) - by_tangent(x, 0.0), by_tangent(high, np.inf) - by_tangent(x, 0.0)


def _prescribe(phase: Phase, form: Form, at: At, boundary: Boundary, x: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> None:
    """Fix, in place, the unknowns of an end that a boundary prescribes."""
    space, bounds = phase.system.space, phase.state_bounds.pairs()
    for i, k in enumerate(space.tangent_index):
        if k >= 0 and boundary.fixed[k]:
            value, (low, high) = boundary.value[i], bounds[i]
            if not low <= value <= high:
                raise ProblemError(f"{at.value} value {value:.6g} of {space.names[i]} lies outside its bounds "
                                   f"[{low:.6g}, {high:.6g}]", where=at.value)
            at_bound = k if form.tangent else i
            lower[at_bound] = upper[at_bound] = value - x[i] if form.tangent else value
        elif k < 0 and boundary.complete and at is At.START and not form.tangent:
            lower[i] = upper[i] = boundary.value[i]
    if form.tangent and boundary.complete:
        lower[:] = upper[:] = form.space.apart(x[None], np.array([boundary.value]))[0]


def held_by_rows(phase: Phase, form: Form, at: At) -> tuple[list[int], bool]:
    """Tangent components of an end that rows must prescribe, and whether the norms of quaternions must be held by rows there."""
    boundary, space = phase.start if at is At.START else phase.final, phase.system.space
    free_norm = not form.tangent and at is At.START  # the rate keeps the norm from there on
    if boundary is None:
        return [], free_norm
    if boundary.complete and (form.tangent or at is At.START):
        return [], False
    flat = set(space.tangent_index)
    return [i for i in range(space.ndx) if boundary.fixed[i] and i not in flat], free_norm


def _check(phase: Phase) -> None:
    duration, system = phase.duration, phase.system
    if not 0 <= duration.lower <= duration.upper or not duration.upper > 0 or not np.isfinite(duration.guess):
        raise ProblemError(f"needs 0 <= lower <= upper, upper > 0 and a finite guess, got {duration}", where="duration")
    for label, boundary in (("start", phase.start), ("final", phase.final)):
        if boundary is None:
            continue
        if len(boundary.value) != system.nx or len(boundary.fixed) != system.space.ndx:
            raise ProblemError(f"needs {system.nx} values and {system.space.ndx} flags", where=label)
        for q in system.space.quaternions:
            norm = float(np.linalg.norm(boundary.value[q:q + 4]))
            if not abs(norm - 1) <= 1e-6:
                names = ", ".join(system.space.names[q:q + 4])
                raise ProblemError(f"quaternion {names} has norm {norm:.9g}, not 1", where=label)
