"""Controls along singular arcs: of all that the program hardly tells apart, the smoothest.

Where dynamics and cost are linear in a control and no bound holds it, only its integrals over an interval or two move the
objective: collocation leaves it to chatter between the points, and no mesh helps (Betts 2010, Practical Methods for Optimal
Control, Sec. 4.14; Pager and Rao 2022, Computational Optimization and Applications 81, who add a regularisation to the objective
there). Here the roughness

    r(u) = sum over controls and intervals h (last Legendre coefficient / range)^2
         + sum over edges where nothing jumps h (jump / range)^2 + h (change of the derivative times h / range)^2

is what a smooth control hardly has on the mesh. The program is solved with ``weight r(u)`` beside its objective a few times; rows
that stay large are kinks and jumps, and lose their weight. That point guides the search for switches. From there
``weight r(u - u_k)`` about the last controls is added, the proximal point method (Rockafellar 1976, SIAM Journal on Control and
Optimization 14(5)), until the gradient of what is added is next to nothing: the point then solves the program itself, to that
gradient. On some meshes, and mostly with schemes whose control at an edge is one unknown for both intervals, chattering lowers what
the program sums: there is no such point then, and the solution stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import casadi as ca
import numpy as np
import scipy.sparse as sp

from dynamics.kernels.tape import codes
from ocp.nlp import NLP, Functions, NLPResult, Warm, kkt, lifted
from ocp.problem import INF, At, Finding, Kind, Phase, Problem, Status
from ocp.thresholds import SMOOTHING, SWITCHES, WARM_START
from ocp.transcription import legendre
from ocp.transcription.mesh import Mesh
from ocp.transcription.part import graph_kind
from ocp.transcription.refine.plan import Plan

Array = np.ndarray
#: (program, point) -> its solution from there
Solve = Callable[[NLP, Warm], NLPResult]


def linear_controls(phase: Phase, *, together: bool = False) -> Array:
    """Which inputs [nu] enter the rates, running costs and path constraints of a phase at most linearly while all others stay, as
    each factor of a product does: between bounds they jump; together: also while these change. Never algebraic unknowns, which
    nobody chooses."""
    system = phase.system
    found = np.arange(system.nu) < len(system.controls)
    if not system.nu:
        return found
    sizes = (("t", 1), ("x", system.nx), ("u", system.nu), ("p", system.np))
    t, x, u, p = (graph_kind(system).sym(name, size) for name, size in sizes)
    values = [c.expression(t, x, u, p) for c in phase.costs if c.at is At.PATH]
    values += [c.function(t, x, u, p) for c in phase.constraints if c.at in (At.PATH, At.INTEGRAL)]
    if system.mechanism is None:  # forward dynamics of robots are linear in efforts and thrusts
        values.append(system.rate(t, x, u, p))
    for value in values:
        slope = ca.jacobian(value, u)
        depends = np.array(ca.DM(ca.Function("slope", [t, x, u, p], [ca.vec(slope)]).jac_sparsity(0, 2), 1)).any(axis=0)
        for i in np.flatnonzero(found & depends):
            found[i] = not together and isinstance(value, ca.SX) and _stays(phase, slope[:, i], (t, x, u, p), int(i))
    return found


def _stays(phase: Phase, gradient: ca.SX, arguments: Sequence[ca.SX], i: int) -> bool:
    """Whether a gradient by a control with two bounds does not depend on it, which its form need not tell."""
    lower, upper = phase.control_bounds.pairs()[i]
    if not 0 < upper - lower < INF or phase.system.residual is not None:
        return False
    function = ca.Function("gradient", arguments, [gradient])
    jumps = codes(function) & {ca.OP_SIGN, ca.OP_LT, ca.OP_LE}
    return not jumps and bool(ca.simplify(ca.jacobian(gradient, arguments[2][i])).is_zero())


def singular_controls(phase: Phase, linear: Array, mesh: Mesh, u: Array, x: Array) -> Array:
    """Which of the linear controls [nu] lie off their bounds in every interval of an arc where no bound of a state gives them
    either. u [P, nu]; x [M, nx] at the nodes, or [M, 0] where they are no coordinates."""
    box = phase.control_bounds.closed_by(u)
    off = (box.excess(u) < -SMOOTHING.min_control_change * box.width) & (box.width > 1e-9 * np.sum(np.abs(box.arrays), axis=0))
    close = np.zeros(mesh.intervals, dtype=bool)
    for i in range(x.shape[1]):
        for bound in phase.state_bounds.pairs()[i]:
            if abs(bound) < INF:
                at = np.abs(x[:, i] - bound) <= SMOOTHING.min_control_change * np.ptp(x[:, i])
                close |= [bool(np.all(at[mesh.node(k)])) for k in range(mesh.intervals)]
    found = np.zeros_like(linear)
    for j in np.flatnonzero(linear):
        run = 0
        for k in range(mesh.intervals):
            run = run + 1 if np.any(off[mesh.point(k), j]) and not close[k] else 0
            found[j] |= run >= SMOOTHING.min_arc
    return found


def roughness(mesh: Mesh, jumps: frozenset[int], scale: Array) -> tuple[sp.csr_matrix, Array]:
    """(B, h) of one phase with ``r(u) = sum_j h_j (B vec(u))_j^2``, columns [P * nu] by control points. scale [nu]: 1 / range, 0
    for controls that are left alone."""
    rows: list[tuple[Array, Array, float]] = []  # control points, what they are multiplied with, and h
    r, v = legendre.gauss(max(scheme.degree for scheme in mesh.schemes) + 1)
    for k, shape in enumerate(mesh.shapes):
        count = len(shape.points)
        if count > 1:
            top = legendre.legendre_transform(r, v)[count - 1] @ shape.basis(r)
            rows.append((mesh.point(k), top, float(mesh.widths[k])))
    for k in range(1, mesh.intervals):
        if k in jumps:
            continue
        h, own = mesh.widths[k - 1:k + 1], [mesh.shapes[k - 1], mesh.shapes[k]]
        where = np.concatenate([mesh.point(k - 1), mesh.point(k)])
        values = [own[0].basis(1.0), -own[1].basis(0.0)]
        slopes = [legendre.derivative_matrix(own[0].points, 1.0) / h[0], -legendre.derivative_matrix(own[1].points, 0.0) / h[1]]
        for parts, factor in ((values, 1.0), (slopes, float(np.mean(h)))):
            rows.append((where, np.concatenate([np.ravel(part) for part in parts]) * factor, float(np.min(h))))
    nu, chosen = len(scale), np.flatnonzero(scale)
    entries = [(len(chosen) * j + a, point * nu + i, weight * scale[i]) for j, (where, weights, _) in enumerate(rows)
               for point, weight in zip(where, weights, strict=True) for a, i in enumerate(chosen)]
    at, columns, values_ = (np.array(part) for part in zip(*entries, strict=True)) if entries else (np.zeros(0),) * 3
    shape_ = (len(rows) * len(chosen), len(mesh.control_fractions) * nu)
    matrix = sp.csr_matrix((values_, (at.astype(int), columns.astype(int))), shape_)
    return matrix, np.repeat([h for *_, h in rows], len(chosen))


@dataclass(frozen=True, eq=False)
class Smoothed:
    """result: of the program, with smooth controls where ``solved``, else as given; guide: a smooth point close to it, None where
    no control is singular; finding: on the singular ones, if there are any."""

    result: NLPResult
    guide: Array | None = None
    solved: bool = False
    finding: Finding | None = None


def smoothed(problem: Problem, nlp: NLP, meshes: Sequence[Mesh], plans: Sequence[Plan], linear: Sequence[Array], result: NLPResult,
             tolerance: float, solve: Solve, near: bool = False) -> Smoothed:
    """The solution of the program with the smoothest controls along singular arcs; the one given where there is nothing to smooth.
    near: whether the program's own guess is smooth, so that controls shall stay close to it from the beginning."""
    found_rows = _rows(problem, nlp, meshes, plans, linear, result.x)
    if found_rows is None:
        return Smoothed(result)
    B, h, controls = found_rows
    if near:
        result = replace(result, x=nlp.x0)
    unit = 1 / lifted(nlp)
    tolerance, scale = unit * max(tolerance, WARM_START.barrier), unit + abs(result.f)
    weights = (SMOOTHING.guide_weight * scale, SMOOTHING.proximal_weight * scale)
    found, guide, solved = _approached(nlp, B, h, weights, result, tolerance, solve, near)
    if solved:
        before, after = (float(h @ (B @ x) ** 2) for x in (result.x, found.x))
        stationarity = kkt(nlp, found.x, found.lam_x, found.lam_g).stationarity
        told = Finding(Kind.SINGULAR_SMOOTHED, data={"controls": controls, "before": before, "after": after,
                                                     "stationarity": stationarity})
        return Smoothed(replace(found, f=float(nlp.f(found.x))), guide, True, told)
    if near and found.status is Status.CONVERGED:
        return Smoothed(replace(found, f=float(nlp.f(found.x))), guide, False,
                        Finding(Kind.SINGULAR_NEARLY_SMOOTH, data={"controls": controls}))
    kept = replace(result, iterations=found.iterations, seconds=found.seconds)
    return Smoothed(kept, guide, False, Finding(Kind.SINGULAR_CHATTERS, data={"controls": controls}))


class Approached(NamedTuple):
    """The last point with the iterations of all, the guide, and whether the point solves the program."""

    result: NLPResult
    guide: Array | None
    solves: bool


def _approached(nlp: NLP, B: sp.csr_matrix, h: Array, weights: tuple[float, float], result: NLPResult, tolerance: float,
                solve: Solve, near: bool) -> Approached:
    """(the last point with the iterations of all, the guide, whether the point solves the program)."""
    found, guide, share, centre = result, None, np.ones(len(h)), np.zeros(nlp.n)
    rows, seconds = list(result.iterations), dict(result.seconds)
    guided = SMOOTHING.guide_solves
    for step in range(guided + SMOOTHING.max_steps):
        if near or 0 < step <= guided:
            share = 1 / (1 + ((B @ found.x) / SWITCHES.small) ** 2)
        P = (B.T @ sp.diags(weights[step >= guided] * h * share) @ B).tocsc()
        P.sort_indices()
        centre = found.x if near or step >= guided else centre
        new = solve(_with_quadratic(nlp, P, centre), Warm(found.x, found.lam_x, found.lam_g, WARM_START.barrier))
        rows += new.iterations[1:]
        seconds = {key: value + new.seconds.get(key, 0.0) for key, value in seconds.items()}
        found = replace(new, iterations=tuple(rows), seconds=seconds)
        if new.status is not Status.CONVERGED:
            break
        if step == guided - 1:
            guide = new.x
        added = float(np.max(np.abs(P @ (new.x - centre)), initial=0.0))
        if step >= guided and added <= tolerance and kkt(nlp, new.x, new.lam_x, new.lam_g).stationarity <= tolerance:
            return Approached(found, guide, True)
    return Approached(found, guide, False)


def _rows(problem: Problem, nlp: NLP, meshes: Sequence[Mesh], plans: Sequence[Plan], linear: Sequence[Array], x: Array
          ) -> tuple[sp.csr_matrix, Array, tuple[str, ...]] | None:
    """(B, h) of the roughness of all phases over the columns of the program, and names of the controls; None where there is no
    singular arc."""
    pieces, widths, names, several = [], [], [], len(problem.phases) > 1
    for phase, mesh, plan, own in zip(problem.phases, meshes, plans, linear, strict=True):
        prefix = f"{phase.name}: " if several else ""
        columns = columns_of(nlp, f"{prefix}u.", phase.system.nu)
        u, states = x[columns], x[columns_of(nlp, f"{prefix}x.", phase.system.nx)]
        if not np.any(own) or len(u) != len(mesh.control_fractions):
            continue
        chosen = singular_controls(phase, own, mesh, u, states if len(states) == mesh.nodes else states[:, :0])
        if not np.any(chosen):
            continue
        ranges = np.ptp(u, axis=0)
        own_rows, h = roughness(mesh, plan.jumps, np.where(chosen, 1 / np.where(ranges > 0, ranges, 1.0), 0.0))
        small = own_rows.tocoo()
        widths.append(h)
        names += [name for name, there in zip(phase.system.inputs, chosen, strict=True) if there and name not in names]
        pieces.append(sp.csr_matrix((small.data, (small.row, columns.ravel()[small.col])), shape=(small.shape[0], nlp.n)))
    return (sp.vstack(pieces).tocsr(), np.concatenate(widths), tuple(names)) if pieces else None


def columns_of(nlp: NLP, prefix: str, width: int) -> Array:
    """The columns [n, width] of the unknowns whose names begin so; [0, width] where they do not come in groups of width."""
    own = [i for i, name in enumerate(nlp.variables) if name.startswith(prefix)]
    return np.array(own if width and len(own) % width == 0 else [], dtype=int).reshape(-1, width)


def _with_quadratic(nlp: NLP, P: sp.csc_matrix, centre: Array) -> NLP:
    """The program with ``(x - centre)' P (x - centre) / 2`` beside its objective."""
    x, sigma, lam = ca.MX.sym("x", nlp.n), ca.MX.sym("sigma"), ca.MX.sym("lam_g", nlp.m)
    matrix = ca.DM(P)
    upper = ca.triu(matrix)
    away = x - ca.DM(centre)
    pull = ca.mtimes(matrix, away)
    (f, gradient), more = nlp.grad(x), ca.dot(away, pull) / 2
    functions = Functions(
        f=ca.Function("f", [x], [nlp.f(x) + more], ["x"], ["f"]), g=nlp.g, jac=nlp.jac,
        grad=ca.Function("gradient", [x], [f + more, gradient + pull], ["x"], ["f", "gradient"]),
        hess=ca.Function("hessian", [x, sigma, lam], [nlp.hess(x, sigma, lam) + sigma * upper], ["x", "sigma", "lam_g"],
                         ["hessian"]),
        gauss_newton=None if nlp.gauss_newton is None else ca.Function(
            "gauss_newton", [x, sigma], [nlp.gauss_newton(x, sigma) + sigma * upper], ["x", "sigma"], ["hessian"]))
    return replace(nlp, functions=functions, keep=(nlp.keep, nlp))
