"""The Python face of the loops: one record for a robot, NumPy in and out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.mass_matrix import check_inertia
from dynamics.errors import ModelError, UnknownNameError
from dynamics.loops import acting, first_order, forward, rnea, second_order, tensors
from dynamics.loops import layout as at
from dynamics.loops.tables import Tables, make_tables
from dynamics.mechanism import Mechanism
from dynamics.model.model import Model

Array = np.ndarray
Wrenches = Mapping[str, ArrayLike] | None


class SecondOrder(NamedTuple):
    """Accelerations a [nv], their first derivatives [3, nv, nv], and the second ones of mu^T a [4, nv, nv]."""

    a: Array
    first: Array
    second: Array


class Arguments(NamedTuple):
    """Arguments of every loop: integers and numbers of the tables, the workspace, and q [nq]."""

    integers: Array
    reals: Array
    work: Array
    q: Array


@dataclass(frozen=True)
class LoopDynamics:
    """Rigid-body dynamics and its derivatives by compiled loops over a Model: no code is generated for the robot.

    Of a Mechanism, forces and thrusters act in all of them and constraints hold in forward dynamics; only for these small functions
    are compiled at construction. Its motors give ``S u``, a part of tau.

    Vectors are float64 arrays q [nq] and v, a, tau, lam, mu [nv]; f_ext maps body names to wrenches [6] on that body in its
    own frame, (N, N m); thrusts: [thrusters] N, None: zero; t: time [s] for constraints that depend on it. Derivatives with respect
    to q are right-tangent. Matrices come back new; or give ``out``, an array of the result's shape that began as zeros and has
    since stored results of the same method only (entries that are zero by the structure of the tree are never written), and nothing
    is allocated.

    NaN and infinity in the input appear in the output. Wrong shapes raise ModelError, unknown bodies UnknownNameError. Every joint
    kind is served; for those known by pose and S(q) alone, small functions are compiled at construction. One record serves one
    thread: its workspace is reused. Compiled on first use (seconds), then loaded from Numba's cache on disk, whatever the robot.
    """

    robot: Model | Mechanism
    tables: Tables = field(init=False, repr=False, compare=False)
    work: Array = field(init=False, repr=False, compare=False)
    _none: Array = field(init=False, repr=False, compare=False)

    @property
    def model(self) -> Model:
        """The tree."""
        return self.robot.model if isinstance(self.robot, Mechanism) else self.robot

    def __post_init__(self) -> None:
        flat = make_tables(self.robot)
        for name, value in (("tables", flat), ("work", flat.workspace()), ("_none", np.zeros((0, 6)))):
            object.__setattr__(self, name, value)

    # ---- values
    def inverse_dynamics(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, f_ext: Wrenches = None, out: Array | None = None, *,
                         thrusts: ArrayLike | None = None) -> Array:
        """tau [nv] that produces the acceleration a: M a + h - J^T f_ext, with armature and damping."""
        tau = self._out("out", out, (self.tables.nv,))
        rnea.inverse_dynamics(*self._start(q, thrusts), self._v("v", v), self._v("a", a), self._wrenches(f_ext), tau)
        return tau

    def mass_matrix(self, q: ArrayLike, out: Array | None = None) -> Array:
        """M [nv, nv] with armature."""
        M = self._out("out", out, (self.tables.nv, self.tables.nv))
        first_order.mass_matrix(*self._start(q), M)
        return M

    def forward_dynamics(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, f_ext: Wrenches = None, out: Array | None = None, *,
                         t: float = 0.0, thrusts: ArrayLike | None = None) -> Array:
        """Acceleration a [nv] under tau. Raises ModelError that names the joints without inertia where M is singular."""
        a = self._out("out", out, (self.tables.nv,))
        forward.forward_dynamics(*self._start(q, thrusts, t), self._v("v", v), self._v("tau", tau), self._wrenches(f_ext), a)
        self._check(q, a)
        return a

    def constrained_dynamics(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, f_ext: Wrenches = None, *, t: float = 0.0,
                             thrusts: ArrayLike | None = None) -> tuple[Array, Array]:
        """(a [nv], multipliers [rows] of reduced constraints) of a mechanism: ``M a + h = tau + f + J^T multipliers``."""
        a = self.forward_dynamics(q, v, tau, f_ext, t=t, thrusts=thrusts)
        rows = int(self.tables.integers[at.N_ROWS])
        first = int(self.tables.integers[self.tables.integers[at.AT_ACTING] + at.ACT_INPUTS + acting.LAM]) if rows else 0
        return a, self.work[first:first + rows].copy()

    # ---- first order
    def inverse_dynamics_derivatives(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, f_ext: Wrenches = None,
                                     out: Array | None = None, *, thrusts: ArrayLike | None = None) -> Array:
        """[3, nv, nv]: dtau/dq, dtau/dv and dtau/da = M."""
        d = self._out("out", out, (3, self.tables.nv, self.tables.nv))
        first_order.inverse_dynamics_derivatives(
            *self._start(q, thrusts), self._v("v", v), self._v("a", a), self._wrenches(f_ext), d)
        return d

    def forward_dynamics_derivatives(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, f_ext: Wrenches = None,
                                     out: Array | None = None, *, t: float = 0.0,
                                     thrusts: ArrayLike | None = None) -> tuple[Array, Array]:
        """(a [nv], [3, nv, nv]): the acceleration and da/dq, da/dv, da/dtau = M^-1."""
        a, d = np.empty(self.tables.nv), self._out("out", out, (3, self.tables.nv, self.tables.nv))
        forward.forward_dynamics_derivatives(
            *self._start(q, thrusts, t), self._v("v", v), self._v("tau", tau), self._wrenches(f_ext), a, d)
        self._check(q, a)
        return a, d

    # ---- second order
    def contracted_second_order(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, lam: ArrayLike, f_ext: Wrenches = None,
                                out: Array | None = None, *, symmetric: bool = True, thrusts: ArrayLike | None = None) -> Array:
        """[4, nv, nv]: second derivatives of lam^T tau, named (row, column): qq, vq, vv, aq (av and aa are zero).

        symmetric: qq is the Hessian of lam^T tau(q [+] d) at d = 0. Otherwise qq[j, k] is the derivative along j
        differentiated along k, both left-invariant; the two differ inside joints whose motions do not commute.
        """
        h = self._out("out", out, (4, self.tables.nv, self.tables.nv))
        second_order.contracted_second_order(*self._start(q, thrusts), self._v("v", v), self._v("a", a), self._v("lam", lam),
                                             self._wrenches(f_ext), h, symmetric)
        return h

    def second_order(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, f_ext: Wrenches = None, out: Array | None = None, *,
                     symmetric: bool = True, thrusts: ArrayLike | None = None) -> Array:
        """[nv, 4, nv, nv]: for each tau_i what ``contracted_second_order`` gives for the i-th unit vector."""
        n = self.tables.nv
        t = self._out("out", out, (n, 4, n, n))
        tensors.second_order(*self._start(q, thrusts), self._v("v", v), self._v("a", a), self._wrenches(f_ext), np.zeros(n), t,
                             symmetric)
        return t

    def forward_contracted_second_order(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, mu: ArrayLike, f_ext: Wrenches = None, *,
                                        t: float = 0.0, thrusts: ArrayLike | None = None) -> SecondOrder:
        """(a [nv], first [3, nv, nv], [4, nv, nv]): forward dynamics, its first derivatives, and the second derivatives of
        mu^T a, named (row, column): qq (symmetric), vq, vv, tq, the last by tau and q."""
        n = self.tables.nv
        to = forward.Results(np.empty(n), np.zeros((3, n, n)), np.zeros((4, n, n)), np.empty(n), np.zeros((4, n, n)))
        forward.forward_contracted_second_order(
            *self._start(q, thrusts, t), self._v("v", v), self._v("tau", tau), self._v("mu", mu), self._wrenches(f_ext), to)
        self._check(q, to.a)
        return SecondOrder(to.a, to.first, to.second)

    def _check(self, q: ArrayLike, a: Array) -> None:
        """An acceleration without end, or next to it, may be the sign of a singular mass matrix."""
        if not np.abs(a).max(initial=0.0) < 1e12:
            check_inertia(self.model, np.asarray(q, dtype=float))

    # ---- arguments
    def _start(self, q: ArrayLike, thrusts: ArrayLike | None = None, t: float = 0.0) -> Arguments:
        if isinstance(self.robot, Mechanism):
            count = len(self.robot.thrusters)
            given = np.zeros(count) if thrusts is None else self._vector("thrusts", thrusts, count)
            acting.give(self.tables.integers, self.work, float(t), given, 0, count)
        return Arguments(self.tables.integers, self.tables.reals, self.work, self._vector("q", q, self.tables.nq))

    def _v(self, name: str, x: ArrayLike) -> Array:
        return self._vector(name, x, self.tables.nv)

    def _vector(self, name: str, x: ArrayLike, n: int) -> Array:
        # one array type only, else Numba would compile again
        if not (type(x) is np.ndarray and x.dtype == np.float64 and x.flags.carray):
            x = np.require(x, np.float64, ["C", "A", "W"])
        if x.shape != (n,):
            raise ModelError(f"{name} has shape {x.shape}, expected ({n},)", element=f"model {self.model.name!r}")
        return x

    def _out(self, name: str, x: Array | None, shape: tuple[int, ...]) -> Array:
        if x is None:
            return np.zeros(shape)
        if not (type(x) is np.ndarray and x.dtype == np.float64 and x.flags.carray and x.shape == shape):
            raise ModelError(f"{name} must be a writeable C-contiguous float64 array of shape {shape}",
                             element=f"model {self.model.name!r}")
        return x

    def _wrenches(self, f_ext: Wrenches) -> Array:
        if not f_ext:
            return self._none
        names = {body.name: i for i, body in enumerate(self.model.bodies)}
        out = np.zeros((len(self.tables.first_columns), 6))
        for name, wrench in f_ext.items():
            if name not in names:
                raise UnknownNameError("body", name, names)
            f = np.asarray(wrench, float).ravel()
            if f.shape != (6,):
                raise ModelError(f"wrench has {f.size} numbers, expected 6", element=f"body {name!r}")
            carrier, at = self.tables.carriers[names[name]]
            if carrier >= 0:  # what is fixed to the world bears any wrench
                R, p = np.asarray(at.rotation), np.asarray(at.position)
                out[carrier, :3] += R @ f[:3]
                out[carrier, 3:] += R @ f[3:] + np.cross(p, R @ f[:3])
        return out
