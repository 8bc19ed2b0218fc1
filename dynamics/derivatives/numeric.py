"""Any Function with first and second derivatives by the complex step or by finite differences, for use in MX graphs.

Both need nothing but values of the function, so they are methods independent of algorithmic differentiation. The complex step
differentiates once, exactly; its second derivatives are central differences of its first ones (Squire and Trapp 1998; Martins,
Sturdza and Alonso 2003). Derivatives are by the coordinates of the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca

from dynamics.derivatives.complex_step import complex_step_jacobian
from dynamics.derivatives.injection import with_derivatives
from dynamics.errors import ModelError, near

NUMERIC_SOURCES = ("complex_step", "fd")

# central differences lose least where truncation and rounding balance: h ~ eps^(1/3) for a first derivative of values (and for
# the derivative of an exact gradient), h ~ eps^(1/4) where a second derivative is taken of values
STEP = 6.0e-6
STEP_TWICE = 1.2e-4


def numeric_function(function: ca.Function, source: str) -> ca.Function:
    """The same values, with derivatives by ``source``: "complex_step" or "fd" (central differences).

    function: dense column inputs and one column output. Raises ModelError for an unknown source or an operation that has no
    complex form.
    """
    if source not in NUMERIC_SOURCES:
        raise ModelError(f"no numerical derivative source {source!r}{near(source, NUMERIC_SOURCES)}")
    sizes = [function.size1_in(i) for i in range(function.n_in())]
    n, ny = sum(sizes), function.size1_out(0)
    z, seed = ca.MX.sym("z", n), ca.MX.sym("seed", ny)
    flat = ca.Function("flat", [z], [function(*ca.vertsplit(z, _offsets(sizes)))], {"never_inline": True})
    jacobian = (complex_step_jacobian if source == "complex_step" else difference_jacobian)(flat)
    if source == "complex_step":
        gradient = ca.Function("gradient", [z, seed], [jacobian(z).T @ seed])
        columns = _differences(gradient, z, seed, STEP)
    else:
        scalar = ca.Function("scalar", [z, seed], [ca.dot(seed, function(*ca.vertsplit(z, _offsets(sizes))))])
        columns = _second_differences(scalar, z, seed, STEP_TWICE)
    hessian = ca.Function("hessian", [z, seed], [(columns + columns.T) / 2])
    inputs = {function.name_in(i): ca.MX.sym(function.name_in(i), size) for i, size in enumerate(sizes)}
    stacked = ca.vertcat(*inputs.values())
    J, H = jacobian(stacked), hessian(stacked, seed)
    return with_derivatives(
        function.name(), inputs, function.name_out(0), function(*inputs.values()), seed,
        jacobian=[J[:, a:b] for a, b in _ranges(sizes)], gradient=[ca.mtimes(J.T, seed)[a:b] for a, b in _ranges(sizes)],
        hessian=[[H[a:b, c:d] for c, d in _ranges(sizes)] for a, b in _ranges(sizes)])


def _offsets(sizes: Sequence[int]) -> list[int]:
    out = [0]
    for size in sizes:
        out.append(out[-1] + size)
    return out


def _ranges(sizes: Sequence[int]) -> list[tuple[int, int]]:
    offsets = _offsets(sizes)
    return list(zip(offsets[:-1], offsets[1:], strict=True))


def difference_jacobian(function: ca.Function, i_in: int = 0) -> ca.Function:
    """The Jacobian [ny, n] of the first output by one input, both columns, by central differences; with the function's inputs."""
    inputs, n = function.mx_in(), function.size1_in(i_in)
    if not n:
        return ca.Function("difference_jacobian", inputs, [ca.MX(function.size1_out(0), 0)])
    many = function.map("steps", "serial", n, [k for k in range(len(inputs)) if k != i_in], [])
    ahead, behind = (
        many.call([ca.repmat(x, 1, n) + step * ca.DM.eye(n) if k == i_in else x for k, x in enumerate(inputs)])[0]
        for step in (STEP, -STEP))
    return ca.Function("difference_jacobian", inputs, [(ahead - behind) / (2 * STEP)])


def _differences(gradient: ca.Function, z: ca.MX, seed: ca.MX, h: float) -> ca.MX:
    """Central differences of the gradient: [n, n]."""
    n = z.shape[0]
    moved, seeds = h * ca.DM.eye(n), ca.repmat(seed, 1, n)
    many = gradient.map(n)
    return (many(ca.repmat(z, 1, n) + moved, seeds) - many(ca.repmat(z, 1, n) - moved, seeds)) / (2 * h)


def _second_differences(scalar: ca.Function, z: ca.MX, seed: ca.MX, h: float) -> ca.MX:
    """[n, n] from values alone: (f(+j+k) - f(+j-k) - f(-j+k) + f(-j-k)) / 4 h^2."""
    n = z.shape[0]
    j, k = ca.DM([i // n for i in range(n * n)]), ca.DM([i % n for i in range(n * n)])
    eye = ca.DM.eye(n)
    first, second = eye[:, [int(x) for x in j.full().ravel()]], eye[:, [int(x) for x in k.full().ravel()]]
    many, at, seeds = scalar.map(n * n), ca.repmat(z, 1, n * n), ca.repmat(seed, 1, n * n)
    total = sum((a * b * many(at + h * (a * first + b * second), seeds) for a in (1, -1) for b in (1, -1)), start=ca.MX(0))
    return ca.reshape(total, n, n) / (4 * h * h)
