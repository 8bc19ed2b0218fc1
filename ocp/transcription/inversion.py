"""From the unknowns and multipliers of a program back to trajectories and costates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import casadi as ca
import numpy as np

from ocp.integrators import MULTISTEP
from ocp.nlp.separable import Element
from ocp.nlp.values import at_points, evaluated
from ocp.problem import Trajectory
from ocp.reductions.algebraic_elimination import followed, solving
from ocp.transcription.charts import Form
from ocp.transcription.compressed import middle
from ocp.transcription.interpolation import collocation_trajectory, cubic, parabola, shooting_trajectory
from ocp.transcription.intervals import integrate
from ocp.transcription.mesh import Compressed, Discretisation, Grid, Mesh
from ocp.transcription.motion import by_motion
from ocp.transcription.part import Columns
from ocp.transcription.static_unknowns import clock

Array = np.ndarray


def looks_back(mesh: Discretisation) -> bool:
    """Whether defects reach over two intervals, so that the program is no timeline of stages."""
    return isinstance(mesh, Grid) and mesh.integrator in MULTISTEP


def unpacking(placed: Sequence[Columns]) -> Callable[[Array], list[tuple[Array, Array, float, float, Array]]]:
    """A function of the unknowns: parts of every phase."""
    def unpack(values: Array) -> list[tuple[Array, Array, float, float, Array]]:
        """For every phase: states [M, nx], controls [P, nu], start [s], duration [s], parameters [np]."""
        found, begin = [], 0.0
        for cols in placed:
            values = np.asarray(values, dtype=float)
            static, system = cols.static, cols.phase.system
            at = static.durations[cols.number]
            duration = cols.phase.duration.lower if at is None else float(values[cols.first + at])
            p = np.array([values[cols.first + static.parameters[name]] if name in static.parameters else value
                          for name, value in zip(system.parameters, system.parameter_values, strict=True)])
            x = cols.form.values(values[cols.layout.states], cols.layout.centres)
            found.append((x, values[cols.layout.controls], begin, duration, p))
            begin += duration
        return found

    return unpack


@dataclass(frozen=True)
class Inverse:
    """The way from unknowns and multipliers back to the problem. elements: by name; defects: the constraint of each phase with
    which they begin; loops: which phases are by loops."""

    placed: tuple[Columns, ...]
    meshes: tuple[Discretisation, ...]
    elements: Mapping[str, Element]
    defects: Sequence[int]
    loops: Sequence[bool]

    @cached_property
    def unpack(self) -> Callable[[Array], list[tuple[Array, Array, float, float, Array]]]:
        """States, controls, start, duration and parameters of every phase."""
        return unpacking(self.placed)

    def parts(self, values: Array) -> tuple[Trajectory, ...]:
        """The trajectory of each phase."""
        found = []
        for cols, mesh, (x, u, start, duration, p) in zip(self.placed, self.meshes, self.unpack(values), strict=True):
            if isinstance(mesh, Mesh):
                rates = self._rates(cols, np.asarray(values)) / duration
                charts = cols.layout.centres[mesh.knots[:-1]]
                found.append(collocation_trajectory(mesh, cols.form, start, duration, x, u, rates, charts,
                                                    cols.phase.control_bounds))
            elif isinstance(mesh, Compressed):
                found.append(self._compressed(cols, mesh, np.asarray(values), (x, u, start, duration)))
            else:
                advance = _advance(cols, mesh, duration, start, p)
                if looks_back(mesh):
                    advance = parabola(mesh.edges, cols.form, x, advance)
                elif by_motion(cols.phase.system, mesh):
                    advance = cubic(mesh.edges, cols.form, duration, x)
                path = shooting_trajectory(mesh.edges, cols.form, start, duration, x, u, mesh.linear, advance)
                system = replace(cols.phase.system, parameter_values=tuple(p.tolist()))
                found.append(path if system.residual is None else followed(replace(cols.phase, system=system), path))
        return tuple(found)

    def _compressed(self, cols: Columns, mesh: Compressed, values: Array, at: tuple[Array, Array, float, float]) -> Trajectory:
        """The interpolant of the separated form, through midpoints that follow."""
        x, u, start, duration = at
        own = self.elements[f"interval_{cols.number}"]
        between, rates = evaluated(middle(cols, mesh).map(own.count), [values[own.index], own.values], own.count)
        rates = rates.reshape(mesh.intervals, 3, cols.form.size)
        nodes = np.empty((2 * mesh.intervals + 1, x.shape[1]))
        nodes[::2], nodes[1::2] = x, between
        full = Mesh(mesh.edges, mesh.separated().schemes, split=True)
        return collocation_trajectory(full, cols.form, start, duration, nodes, u, rates.reshape(-1, cols.form.size),
                                      cols.layout.centres[:-1], cols.phase.control_bounds)

    def _rates(self, cols: Columns, values: Array) -> Array:
        """Scaled rates [E, size] at the evaluation points of a phase."""
        number, size = cols.number or "", cols.form.size
        suffix = f"_{number}" if number else ""
        found = at_points(self.elements[f"node{suffix}"], "rows", values)[0]
        if not self.loops[cols.number] or cols.phase.system.residual is not None:  # whose accelerations are unknowns
            return found[:, :size]
        nv = cols.phase.system.model.nv
        return np.hstack([found[:, :size - nv], at_points(self.elements[f"dynamics{suffix}"], "rows", values)[0]])

    def costate(self, lam_g: Array) -> tuple[Array, ...]:
        """The Lagrangian holds w_e (cost + p_e' ydot) at evaluation point e, with w_e p_e = (W' lam)_e; of shooting, multipliers of
        the ends of intervals (none where steps are multi-step or in the efforts)."""
        found = []
        for cols, mesh, first in zip(self.placed, self.meshes, self.defects, strict=True):
            if not isinstance(mesh, Mesh):
                plain = isinstance(mesh, Grid) and not looks_back(mesh) and not by_motion(cols.phase.system, mesh)
                steps = mesh.intervals if plain else 0
                found.append(np.asarray(lam_g)[first:first + steps * cols.form.size].reshape(-1, cols.form.size))
                continue
            size, (_, W) = cols.form.size, mesh.tables(charts=cols.form.tangent)
            lam = np.asarray(lam_g)[first:first + W.shape[0] * size].reshape(-1, size)
            pulled = [np.bincount(W.columns, W.values * own, W.shape[1]) for own in lam[W.rows].T]
            found.append(np.column_stack(pulled) / mesh.weights[:, None])
        return tuple(found)

    def parameters(self, values: Array) -> dict[str, float]:
        """Values of free parameters by name."""
        cols = self.placed[0]
        return {name: float(values[cols.first + at]) for name, at in cols.static.parameters.items()}

    def durations(self, values: Array) -> tuple[float, ...]:
        """Durations of the phases [s]."""
        return tuple(duration for _, _, _, duration, _ in self.unpack(values))

    def centres(self, values: Array) -> tuple[Array, ...]:
        """States of all nodes of each phase."""
        return tuple(x for x, *_ in self.unpack(values))


def _advance(cols: Columns, grid: Grid, duration: float, start: float, p: Array) -> Callable[[Array, Array, Array, Array], Array]:
    """States after a share of an interval, by the integrator with shorter steps."""
    system, form_, kind = cols.phase.system, Form(cols.form.space, False), ca.MX
    own = clock(kind, cols.problem, cols.number, cols.static)
    x, u = kind.sym("x", system.nx), kind.sym("u", system.nu * (2 if grid.linear else 1))
    tau, width, share = kind.sym("tau"), kind.sym("width"), kind.sym("share")
    problem = cols.problem
    if system.residual is not None:  # at other points than those that have unknowns of their own
        phases = list(problem.phases)
        phases[cols.number] = solving(cols.phase)
        problem = replace(problem, phases=tuple(phases))
    plain = Columns(problem, cols.number, form_, cols.layout, cols.static, cols.first, cols.n)
    end, *_ = integrate(plain, grid, own, x, u, tau, width, share)
    step = ca.Function("advance", [x, u, tau, width, share, own.variable, own.data], [end])
    static = _static_values(cols, duration, start, p)
    widths = np.diff(grid.edges)

    def advance(k: Array, r: Array, x: Array, u: Array) -> Array:
        variable, data = (np.repeat(np.asarray(part, dtype=float)[:, None], len(k), axis=1) for part in static)
        return np.asarray(step(x.T, u.T, grid.edges[k][None, :], widths[k][None, :], r[None, :], variable, data)).T

    return advance


def _static_values(cols: Columns, duration: float, start: float, p: Array) -> tuple[list[float], list[float]]:
    """Values of the clock's variable and fixed entries (``static.clock``); earlier durations enter by their sum."""
    own = clock(ca.SX, cols.problem, cols.number, cols.static)
    names = [[str(s) for s in ca.vertsplit(part)] if part.numel() else [] for part in (own.variable, own.data)]
    values: dict[str, float] = {f"p_{name}": float(v) for name, v in zip(cols.phase.system.parameters, p, strict=True)}
    values |= {f"T{i}": 0.0 for i in range(cols.number)}
    if cols.number:
        values["T0"] = start
    values[f"T{cols.number}"] = duration
    return [values[name] for name in names[0]], [values[name] for name in names[1]]
