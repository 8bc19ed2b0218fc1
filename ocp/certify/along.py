"""The functions of one phase along one trajectory, at many times. Rows are times, columns components."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynamics.algorithms import forward_dynamics
from dynamics.kernels import Kernel, compile_kernel
from dynamics.kernels.mapped import mapped
from dynamics.mechanism.constrained import accelerations, reduced, stacked
from ocp.certify.consistent import Consistent, evaluated, in_pieces
from ocp.interrupts import Activity, check
from ocp.problem import Phase, Trajectory
from ocp.thresholds import QUADRATURE, ROUNDING

Array = np.ndarray

#: nodes of a panel where defects and costs are integrated (Gauss-Legendre, exact to degree 9)
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(5)
POINTS, WEIGHTS = (POINTS + 1) / 2, WEIGHTS / 2
#: piecewise-constant controls jump at knots: a segment must never see its successor's control
INSIDE = 1.0 - ROUNDING.beside


class TrajectoryEvaluator:
    """The functions of a phase, numerically, along a trajectory.

    p: values of the parameters; panels: in every segment, of whatever is integrated between knots; finite: no NaN at the knots;
    field(t, x, u, p) -> dx/dt; driven: the same for re-integration, of ``drive`` in the place of u: where accelerations are the
    controls, the efforts along the motion drive forward dynamics, so that a double integrator is not all that is seen; and the
    equations of a system with algebraic unknowns are solved anew (``again``);
    stepped: whether the system is in discrete time, with nothing between knots; minus, tangent: differences of states, and rates of
    states as tangent rates.
    """

    def __init__(self, phase: Phase, trajectory: Trajectory):
        self.phase, self.trajectory = phase, trajectory
        system = phase.system
        self.p = np.asarray(system.parameter_values, float)
        space = system.space
        kind = ca.MX if system.period is not None and not system.rate.is_a("SXFunction") else ca.SX
        t, x, u, p = kind.sym("t"), kind.sym("x", system.nx), kind.sym("u", system.nu), kind.sym("p", system.np)
        y = kind.sym("y", system.nx)
        self.field = ca.Function("field", [t, x, u, p], [space.rate(x) @ system.rate(t, x, u, p)])
        self.driven, self._efforts = self.field, None
        if (robot := system.inverse) is not None:
            model, rows = robot.model, reduced(robot.constraints)
            q, v, tau = x[:model.nq], x[model.nq:], ca.SX.sym("tau", model.nv)
            efforts, total = robot.inverse_dynamics(q, v, u[:model.nv]), tau + robot.force(q, v)
            if rows:
                efforts -= stacked(model, rows, "jacobian", q, t).T @ u[model.nv + len(robot.thrusters):]
            a = accelerations(model, rows, q, v, total, t)[0] if rows else forward_dynamics(model, q, v, total)
            self._efforts = ca.Function("efforts", [t, x, u, p], [efforts])
            rate = ca.vertcat(v, a)
            self.driven = ca.Function("driven", [t, x, tau, p], [space.rate(x) @ rate])
        self._consistent = Consistent(system, self.call) if system.residual is not None else None
        self._jacobian: ca.Function | None = None
        self._calls: dict[int, tuple[ca.Function, int, Kernel | None]] = {}  # by identity: function, times, machine code
        self.stepped = system.period is not None  # in discrete time: nothing lies between knots
        self.minus = ca.Function("minus", [x, y], [space.minus(x, y)])
        self.tangent = ca.Function("tangent", [x, y], [space.rate_inverse(x) @ y])
        active = trajectory.t_u if trajectory.t_path is None else trajectory.t_path
        increasing = bool(np.all(np.diff(trajectory.t) > 0))
        counts = np.histogram(active, trajectory.t)[0] if increasing else np.zeros(1)
        self.panels = max(1, -(-int(np.max(counts)) // QUADRATURE.nodes_per_panel))
        self.finite = bool(increasing and np.all(np.isfinite(trajectory.x)) and np.all(np.isfinite(trajectory.u)))

    @property
    def span(self) -> tuple[float, float]:
        """Start and end of the phase [s]."""
        return float(self.trajectory.t[0]), float(self.trajectory.t[-1])

    @property
    def duration(self) -> float:
        """Duration of the phase [s]."""
        return self.span[1] - self.span[0]

    def call(self, function: ca.Function, t: Array, x: Array, u: Array) -> Array:
        """A problem function at many times: [k] , [k, nx], [k, nu] -> [k, n]."""
        if not len(t):
            return np.zeros((0, function.numel_out(0)))
        check(Activity.EVALUATION)
        kernel = self._kernel(function, len(t))
        if kernel is not None:
            return mapped(kernel, t[None, :], x.T, u.T, self.p[:, None])[0].T
        found = []
        for here in in_pieces(function, len(t)):
            p = np.repeat(self.p[:, None], len(t[here]), axis=1)
            found.append(np.asarray(function(t[None, here], x[here].T, u[here].T, p)).T)
        return np.concatenate(found)

    def _kernel(self, function: ca.Function, times: int) -> Kernel | None:
        """Machine code of a function that is evaluated often; None while it does not pay, and where there is none."""
        _, before, kernel = self._calls.get(function.__hash__(), (function, 0, None))
        if kernel is None and before + times >= QUADRATURE.compiled_from:
            kernel = compile_kernel(function, "jit")
        self._calls[function.__hash__()] = function, before + times, kernel
        return kernel if kernel is not None and kernel.mode == "jit" else None

    def returned(self, t: Array) -> Array:
        """Inputs [k, nu] as the method interpolates them."""
        return np.asarray(self.trajectory.control(t)).reshape(len(t), self.phase.system.nu)

    def control(self, t: Array) -> Array:
        """Inputs [k, nu]; algebraic unknowns among them solve the equations, from the values of the method."""
        u = self.returned(t)
        if self._consistent is None or not len(t):
            return u
        return self._consistent.solved(t, self.state(t), u, np.repeat(self.p[:, None], len(t), axis=1))

    def drive(self, t: Array) -> Array:
        """Inputs of the re-integration at these times: controls, or efforts of a robot whose controls are its accelerations."""
        u = self.control(t)
        return u if self._efforts is None else self.call(self._efforts, t, self.state(t), u)

    def rates(self, t: Array, x: Array, u: Array) -> Array:
        """dx/dt [k, nx] at states x [k, nx] under inputs u [k, nu], whose algebraic unknowns are solved for."""
        if self._consistent is None:
            return self.call(self.field, t, x, u)
        return self._consistent.field(t, x, u, np.repeat(self.p[:, None], len(t), axis=1))

    def again(self, t: Array, x: Array) -> Array:
        """dx/dt [k, nx] at arbitrary states x [k, nx], under the inputs of ``drive``."""
        return self.call(self.driven, t, x, self.drive(t)) if self._consistent is None else self.rates(t, x, self.returned(t))

    def again_jacobian(self, t: Array, x: Array) -> Array:
        """d(dx/dt)/dx [k, nx, nx] of ``again``."""
        k, d = x.shape
        p = np.repeat(self.p[:, None], k, axis=1)
        if self._consistent is not None:
            return self._consistent.jacobian(t, x, self.returned(t), p)
        if self._jacobian is None:
            arguments = [ca.SX.sym(name, self.driven.size1_in(i)) for i, name in enumerate("txup")]
            self._jacobian = ca.Function("slope", arguments, [ca.densify(ca.jacobian(self.driven(*arguments), arguments[1]))])
        found = evaluated(self._jacobian, t, x, self.drive(t), p)[0]
        return found.reshape(d, k, d).transpose(1, 0, 2)

    def state(self, t: Array) -> Array:
        """States [k, nx] at times t [k]."""
        return np.asarray(self.trajectory.state(t)).reshape(len(t), self.phase.system.nx)

    def nodes(self, panels: int | None = None) -> tuple[Array, Array]:
        """Times and weights [s] of the quadrature over the phase, with so many panels in every segment."""
        t, panels = self.trajectory.t, panels or self.panels
        h = np.diff(t)
        places = ((np.arange(panels)[:, None] + POINTS) / panels).ravel()
        return (t[:-1, None] + h[:, None] * places).ravel(), (h[:, None] * np.tile(WEIGHTS / panels, panels)).ravel()
