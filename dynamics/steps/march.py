"""Whole stretches of implicit steps of any system whose equations are kernels, and what a step that fails leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca
import numpy as np

from dynamics.kernels import Kernel, Workspace, workspace
from dynamics.steps.schemes import stages

Array = np.ndarray
#: a step longer than the one before by more than this factor begins anew: BDF2 is stable below 1 + sqrt 2
GROWS = 2.0
WHY = ("", "the residual is not finite", "the Newton matrix is singular", "Newton's method does not converge in {} iterations",
       "the state is no longer finite")
ASTRAY = 4


class Equations(NamedTuple):
    """Equations of a step as CasADi Functions; y [n] are points in the chart of the state x [nx] where the step begins, of which
    ``gamma y'`` is the last part (``dynamics.steps.schemes``).

    stage: (z [nz], t, x, y known, gamma, u, p) -> G [nz], dG/dz [nz, nz]; reached: (z, x, y known, gamma) -> the state there [nx],
    y' [n]; back: (x, before) -> coordinates [n] of the state before; running: (t, x, u, p) -> integrands [l].
    """

    stage: ca.Function
    reached: ca.Function
    back: ca.Function
    running: ca.Function


@dataclass(frozen=True)
class Newton:
    """tolerance: a step of Newton's method that is shorter, in the unit of z and relative to its largest part where that is above
    1, is the last one, which squares it; iterations: most steps from each of its starts; halvings: of a step, most, 0 for none;
    coast: whether stages start where velocities carry them, not with what the last one found."""

    tolerance: float = 1e-8
    iterations: int = 40
    halvings: int = 10
    coast: bool = False


class Failure(NamedTuple):
    """A stage without a solution: its step and its number in it from 0, its time and gamma h [s], the row of its equations that is
    left by most, and by how much: over its entry on the diagonal of the Newton matrix, in the unit of z, NaN where it is solved."""

    step: int
    stage: int
    time: float
    gamma: float
    row: int
    residual: float
    why: str


class Found(NamedTuple):
    """Outcome of a run until its end or its failure: x [k+1, nx] and rises of the integrals [k, l]; of every stage its state
    nodes [m, nx], z [m, nz] and iterations [m]."""

    x: Array
    rises: Array
    nodes: Array
    z: Array
    iterations: Array
    failure: Failure | None


class March:
    """Steps of one method by the kernels of :class:`Equations`. Past stages and starting values are kept from run to run."""

    def __init__(self, kernels: Sequence[Kernel], method: str, newton: Newton | None = None):
        self.kernels, self.newton, self.method = tuple(kernels), newton or Newton(), method
        self._spaces = [workspace(kernel) for kernel in self.kernels]
        self._where = np.array([(space.address, space.handle) for space in self._spaces], np.int64)
        self._work = [max((getattr(space, key) for space in self._spaces), key=len) for key in ("arg", "res", "iw", "w")]
        self._nz, self._nx = self.kernels[0].input_shapes[0][0], self.kernels[0].input_shapes[2][0]
        self._n, self._l = self.kernels[0].input_shapes[3][0], self.kernels[3].output_shapes[0][0]
        self.begin()

    def begin(self, before: Array | None = None, h: float = 0.0, rose: Array | None = None) -> None:
        """Start a new motion. before [nx]: the state h [s] earlier, which two-step methods use at once; rose [l]: the
        increase of integrals since then."""
        self._before, self._h = np.zeros(self._nx) if before is None else np.array(before, float), h
        self._z, self._rose = np.zeros(self._nz), np.zeros(self._l) if rose is None else np.array(rose, float)

    def run(self, x: Array, t: Array, u: Array, p: Array) -> Found:
        """From x [nx] over the edges t [N+1] of steps with controls u [N, nu]."""
        t, u, parts = np.asarray(t, float), np.asarray(u, float), list[Found]()
        if not self._h:
            self._before[:] = x
        done, steps = 0, len(t) - 1
        while done < steps:
            h = np.diff(t[done:])
            ratios = h / np.append(self._h or h[0], h[:-1])
            looks = (ratios <= GROWS) & (np.arange(len(h)) + (self._h > 0) > 0)
            anew = np.flatnonzero(looks != looks[0])
            count = int(anew[0]) if len(anew) else len(h)
            if not looks[0]:
                count = 1
            found = self._stretch(x, t[done:done + count + 1], u[done:done + count], p, ratios[:count] if looks[0] else None)
            parts.append(found)
            if found.failure is not None:
                parts[-1] = found._replace(failure=found.failure._replace(step=done + found.failure.step))
                break
            x, self._h, done = found.x[-1], float(h[count - 1]), done + count
        if len(parts) == 1:
            return parts[0]
        rises, nodes, z, iterations = (np.concatenate([part[k] for part in parts]) for k in range(1, 5))
        path = np.concatenate([parts[0].x[:1], *(part.x[1:] for part in parts)])
        return Found(path, rises, nodes, z, iterations, parts[-1].failure)

    def _scheme(self, steps: int, ratios: Array | None) -> Array:
        """The table of the loops, [N, s, 2 s + 4]."""
        same = ratios is None or bool(np.all(ratios == ratios[0]))
        own = stages(self.method, None if ratios is None else ratios[0] if same else ratios)
        table = np.zeros((steps, len(own), 2 * len(own) + 4))
        for s, stage in enumerate(own):
            table[:, s, 0], table[:, s, 1] = stage.gamma, stage.time
            for node, a, b in stage.terms:
                at = 2 if node == 0 else 3 if node == -1 else 2 + 2 * node
                table[:, s, at] = a
                if node > 0:
                    table[:, s, at + 1] = b
        return table

    def _stretch(self, x: Array, t: Array, u: Array, p: Array, ratios: Array | None) -> Found:
        """Steps that all look back, or none of which does."""
        from dynamics.steps.newton import Stretch, Work, march  # loads Numba

        table = self._scheme(len(u), ratios)
        steps, s, n, nz = *table.shape[:2], self._n, self._nz
        path, nodes, z = np.zeros((steps + 1, self._nx)), np.zeros((steps * s, self._nx)), np.zeros((steps * s, nz))
        path[0], rises, iterations = x, np.zeros((steps, self._l)), np.zeros(steps * s, np.int64)
        Y, K, L, G, weights = np.zeros((s + 2, n)), np.zeros((s + 2, n)), np.zeros((s + 2, 2 * self._l)), np.zeros(nz), np.zeros(nz)
        numbers = np.array([self.newton.tolerance, 0.0, 0.0])
        limits = np.array([self.newton.iterations, self.newton.halvings, self.newton.coast], np.int64)
        work = Work(self._where, *self._work, np.zeros(nz), G, np.zeros(nz * nz), np.zeros(nz), weights, np.zeros(nz, np.int64),
                    numbers, limits)
        done, stage, status = march(work, Stretch(table, np.ascontiguousarray(t), path, self._before, np.ascontiguousarray(u),
                                                  p, self._z, self._rose, nodes, z, rises, iterations, Y, K, L, np.zeros(n)))
        k, failure = done * s + stage, None
        if status:
            left = np.abs(np.where(np.isfinite(G), G, np.inf))
            left[np.isfinite(left)] *= weights[np.isfinite(left)]
            row = int(np.argmax(left)) if nz else 0
            residual = float("nan") if status == ASTRAY else float(left[row])
            why = WHY[status].format(self.newton.iterations)
            failure = Failure(done, stage, float(numbers[1]), float(numbers[2]), row, residual, why)
        return Found(path[:done + 1], rises[:done], nodes[:k], z[:k], iterations[:k], failure)


def repeated(kernel: Kernel, work: Workspace, x: Array, t: Array, u: Array, p: Array) -> tuple[Array, Array]:
    """States [N+1, nx] and rises of integrals [k, l] of steps (t, x, u, p, h) -> (x after, rises), from x [nx] over edges t [N+1]
    with controls u [N, nu]: k of them, all or those before the first whose state is not finite."""
    from dynamics.steps.newton import Plain, repeat  # loads Numba

    path, rises = np.zeros((len(u) + 1, len(x))), np.zeros((len(u), kernel.output_shapes[1][0]))
    path[0] = x
    done = repeat(Plain(work.address, work.handle, work.arg, work.res, work.iw, work.w, path, np.ascontiguousarray(t, float),
                        np.ascontiguousarray(u, float), p, np.diff(t), rises))
    return path, rises[:done]
