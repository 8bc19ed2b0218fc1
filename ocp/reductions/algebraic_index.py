"""Whether equations determine the algebraic unknowns: the index is 1."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.problem import Phase, System
from ocp.thresholds import FORMULATION


def check_index(phase: Phase) -> None:
    """Raises ProblemError where the equations do not determine the algebraic unknowns: by structure, or at every point of the
    guess; named are the unknowns and equations that stand in the way."""
    system = phase.system
    count, z = len(system.controls), system.algebraic
    rows = system.equations or tuple(f"equation {i + 1}" for i in range(len(z)))
    pattern = np.asarray(ca.DM(system.residual.jac_sparsity(0, 2), 1))[:, count:] > 0
    loose, idle = _unmatched(pattern)
    if loose:
        told, over = "; ".join(_unmatched_name(z[j], rows, pattern[:, j]) for j in loose), _names([rows[i] for i in idle])
        raise ProblemError(f"{told}, and {over} determines no unknown: the index is 2 or higher. Differentiate {over} in "
                           f"time until {_names([z[j] for j in loose])} appears, or remove the unknown",
                           where=f"system {system.name!r}")
    F, p = residual_and_jacobian(system), np.array(system.parameter_values)
    worst: tuple[np.ndarray, np.ndarray] | None = None
    for s, x, u in zip(phase.guess.s, phase.guess.x, phase.guess.u, strict=True):
        J = np.asarray(F(s * phase.duration.guess, x, u[:count], u[count:], p)[1])
        if not np.all(np.isfinite(J)):
            continue
        for axis in (1, 0):
            size = np.max(np.abs(J), axis=axis, keepdims=True)
            J = J / np.where(size > 0, size, 1.0)
        left, values, right = np.linalg.svd(J)
        if values[-1] > FORMULATION.min_singular_value * values[0]:
            return
        worst = (right[-1], left[:, -1])
    if worst is None:
        return
    unknowns, equations = ([n for n, v in zip(names, np.abs(vector), strict=True) if v > 0.1 * np.abs(vector).max()]
                           for names, vector in ((z, worst[0]), (rows, worst[1])))
    raise ProblemError(f"the equations do not determine {_names(unknowns)}: their Jacobian is singular along the guess, in "
                       f"{_names(equations)}: equations are redundant, or the index is 2 or higher. Differentiate constraints in "
                       "time until the unknowns appear, or give another guess",
                       where=f"system {system.name!r}")


def _unmatched_name(name: str, rows: Sequence[str], appears: np.ndarray) -> str:
    where = [row for row, there in zip(rows, appears, strict=True) if there]
    return f"algebraic {name!r} appears only in {_names(where)}, which others need" if where else \
        f"algebraic {name!r} appears in no equation"


def _names(names: Sequence[str]) -> str:
    return " and ".join(repr(name) for name in names)


def _unmatched(pattern: np.ndarray) -> tuple[list[int], list[int]]:
    """Unknowns and equations that are left where every equation is given one of its unknowns, as many as can be."""
    owner = np.full(pattern.shape[1], -1)

    def matched(row: int, seen: set[int]) -> bool:
        for j in np.flatnonzero(pattern[row]):
            if int(j) not in seen:
                seen.add(int(j))
                if owner[j] < 0 or matched(int(owner[j]), seen):
                    owner[j] = row
                    return True
        return False

    idle = [row for row in range(pattern.shape[0]) if not matched(row, set())]
    return np.flatnonzero(owner < 0).tolist(), idle


def residual_and_jacobian(system: System) -> ca.Function:
    """(t, x, u, z, p) -> residual [nz], its derivative by z [nz, nz]."""
    return _gradients(system.residual, len(system.algebraic))


@functools.lru_cache(maxsize=16)  # phases share the equations of a contact set
def _gradients(residual: ca.Function, count: int) -> ca.Function:
    sym = ca.SX.sym if residual.is_a("SXFunction") else ca.MX.sym
    (t, x, _, p), size = residual.sx_in() if sym is ca.SX.sym else residual.mx_in(), residual.size1_in(2) - count
    u, z = sym("u", size), sym("z", count)
    value = residual(t, x, ca.vertcat(u, z), p)
    return ca.Function("slopes", [t, x, u, z, p], [ca.densify(value), ca.densify(ca.jacobian(value, z))])
