"""Which entries of the derivatives can be other than zero: the tree's structure, checked at the samples."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dynamics.model.model import Model
from ocp.app.derivatives.measure import Measured
from ocp.app.derivatives.records import Pattern

Array = np.ndarray
ZERO = 1e-14  # of the largest entry: rounding, not motion
FIRST = {"inverse_first": (("dtau_dq", "∂τ/∂q"), ("dtau_dv", "∂τ/∂v"), ("M", "∂τ/∂a = M")),
         "forward_first": (("da_dq", "∂a/∂q"), ("da_dv", "∂a/∂v"), ("da_dtau", "∂a/∂τ = M⁻¹"))}
HESSIANS = {"inverse_contracted": ("Hessian of λᵀτ by (q, v, a)", "a"), "forward_contracted": ("Hessian of μᵀa by (q, v, τ)", "τ")}


def patterns(model: Model, function: str, measured: Mapping[str, Measured]) -> list[Pattern]:
    """The patterns of one function from the closed form, where it was built, else from the numbers of any way alone."""
    m = measured.get("analytic")
    if m is None or not m.sparsity:
        m = next((x for x in measured.values() if x.values and x.entry.source != "fd"), None)
    if m is None or function not in (*FIRST, *HESSIANS) or not model.nv:
        return []
    marks = [_marks(m, k) for k in range(len(m.values[0]))]
    names = model.velocity_names
    note = "" if m.sparsity else "from the numbers at the samples alone"
    if function in FIRST:
        return [Pattern(title, marks[k], names, names, note) for k, (_, title) in enumerate(FIRST[function])]
    title, last = HESSIANS[function]
    qq, qv, vv, qw = marks
    none = np.zeros_like(qq)
    whole = np.block([[qq, qv, qw], [qv.T, vv, none], [qw.T, none, none]])
    labels = tuple(f"{letter}: {name}" for letter in ("q", "v", last) for name in names)
    return [Pattern(title, whole, labels, labels, note)]


def _marks(m: Measured, output: int) -> Array:
    """0, 1 or 2 by entry, as in ``Pattern``."""
    values = np.array([sample[output] for sample in m.values])
    live = (np.abs(values) > ZERO * max(1.0, float(np.abs(values).max(initial=0.0)))).any(axis=0)
    if not m.sparsity:
        return np.where(live, 2, 0)
    rows, columns = m.sparsity[output].get_triplet()
    allowed = np.zeros(values.shape[1:], bool)
    allowed[np.array(rows, int), np.array(columns, int)] = True
    return np.where(live, 2, np.where(allowed, 1, 0))
