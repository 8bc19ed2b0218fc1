"""Direct collocation: problem -> nonlinear program -> trajectory.

Variables: ``[x_0 u_0 x_1 u_1 ... x_M-1 u_M-1 (duration) (free parameters)]`` at the nodes of the mesh, states in coordinates.
Two blocks (``ocp.transcription.blocks``) hold everything nonlinear: one at each node (scaled rate, running cost, path
constraints) and one for the ends of the phase. Defects are linear in states and scaled rates. Betts 2010, Practical Methods for
Optimal Control, Ch. 4; Kelly 2017, SIAM Review 59(4).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import casadi as ca
import numpy as np
import scipy.sparse as sp

from ocp.derivatives import DERIVATIVES, EXECUTIONS, choose, differentiated
from ocp.errors import ProblemError, UnsupportedError
from ocp.nlp import HESSIANS, NLP, IpoptOptions, Warm, kkt, solve_nlp
from ocp.problem import At, Boundary, Phase, Problem, Sense, Solution, Status, Trajectory, with_parameters
from ocp.problem.checkpoint import Checkpoint, Keep, Pace, check_layout, joined, layout, log_arrays, log_rows, text
from ocp.spaces import Expr
from ocp.transcription.blocks import Block, assemble, differentiate, vector
from ocp.transcription.conditions import Rows, cost_value, hard_rows, independent_of_control, penalty
from ocp.transcription.diagnosis import diagnosis
from ocp.transcription.kernels import KERNELS, with_kernels
from ocp.transcription.layout import defect_names, shared_count, splitter, variable_names, variables
from ocp.transcription.mesh import Mesh, trajectory, uniform_mesh
from ocp.transcription.schemes import SCHEMES

METHOD = "collocation"
Log = Sequence[Mapping[str, float]]

#: unit quaternions obey qdot = N(q) omega + NORM_GAIN / duration * (1 - |q|^2) q: tangent motion is untouched, and a
#: deviation of the norm decays over about an eighth of the phase, so that drift does not add up
NORM_GAIN = 4.0


@dataclass(frozen=True)
class CollocationOptions:
    """Options of direct collocation.

    scheme: "hermite_simpson" (order 4) or "trapezoid" (order 2); intervals: of equal length
    max_iterations, tolerance: of IPOPT; hessian: "exact" or "limited_memory"
    derivatives: of the dynamics: "ad", "analytic", "complex_step", "fd", or "auto"; execution: of analytic ones: "generated" code,
        "loops" over the model, or "auto"; see ``ocp.derivatives``
    kernels: "compiled", "interpreted", or "auto", which compiles functions so large that it pays
    """

    scheme: str = "hermite_simpson"
    intervals: int = 50
    max_iterations: int = 1000
    tolerance: float = 1e-9
    hessian: str = "exact"
    derivatives: str = "auto"
    execution: str = "auto"
    kernels: str = "auto"

    def __post_init__(self) -> None:
        for name, value, known in (("scheme", self.scheme, tuple(SCHEMES)), ("hessian", self.hessian, HESSIANS),
                                   ("derivatives", self.derivatives, DERIVATIVES),
                                   ("execution", self.execution, EXECUTIONS), ("kernels", self.kernels, KERNELS)):
            if value not in known:
                raise ProblemError(f"must be one of {', '.join(known)}, got {value!r}", where=f"{METHOD}.{name}")
        if self.intervals < 1:
            raise ProblemError(f"must be at least 1, got {self.intervals}", where=f"{METHOD}.intervals")
        self.ipopt()

    def ipopt(self) -> IpoptOptions:
        return IpoptOptions(max_iterations=self.max_iterations, tolerance=self.tolerance, hessian=self.hessian)


@dataclass(frozen=True)
class Transcription:
    """A problem as a nonlinear program, and the way back.

    invert(x) -> Trajectory of the variables x [n]; costate(lam_g) -> [M, nx]: estimates at the nodes of the adjoint p
    of the coordinates, with ``H = running cost + p' xdot``; parameters(x): values of free parameters by name; mesh: where the
    nodes lie; notes: sentences for the report; seconds: of which "compile" was spent on kernels
    """

    nlp: NLP
    invert: Callable[[np.ndarray], Trajectory]
    costate: Callable[[np.ndarray], np.ndarray]
    parameters: Callable[[np.ndarray], dict[str, float]]
    mesh: Mesh
    notes: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Optimality:
    """What collocation leaves for the certificate: the program and a primal-dual point of it (signs: ``ocp.nlp``)."""

    nlp: NLP
    x: np.ndarray
    lam_x: np.ndarray
    lam_g: np.ndarray

    def residuals(self) -> tuple[float, float]:
        """(stationarity, complementarity), re-evaluated and scaled as ``ocp.nlp.kkt`` says."""
        found = kkt(self.nlp, self.x, self.lam_x, self.lam_g)
        return found.stationarity, found.complementarity


def unsupported(problem: Problem) -> list[str]:
    """Sentences that name what collocation cannot enforce in this problem; empty where it can enforce everything."""
    reasons = []
    if len(problem.phases) != 1:
        reasons.append(f"problem {problem.name!r} has {len(problem.phases)} phases; one phase is supported")
    for phase in problem.phases:
        for c in phase.constraints:
            if c.soft is not None and c.sense is Sense.CONE:
                reasons.append(f"constraint {c.name!r} is a soft cone: its penalty is not smooth; make it hard")
    return reasons


def solve(problem: Problem, options: CollocationOptions, progress: Callable[[dict[str, float]], Any] | None = None,
          checkpoint: Keep | None = None, resume: Checkpoint | None = None) -> Solution:
    """Transcribe the problem and solve it with IPOPT. ``progress`` gets each row of the iteration log.

    checkpoint: gets the iterate every ten seconds, and at the end unless it converged; resume: such a checkpoint, the
    primal-dual point of a warm start.

    The solution's problem has the values of free parameters that were found; ``extra["parameters"]`` has them in order.

    Raises UnsupportedError naming each thing that collocation cannot enforce, ProblemError for a malformed problem or a
    checkpoint of another one.
    """
    started = time.perf_counter()
    program = transcribe(problem, options)
    transcribed = time.perf_counter()
    names = {**layout(METHOD, problem), "variables": text(program.nlp.variables), "constraints": text(program.nlp.constraints)}
    warm, before, first = _warm(resume, names)

    def numbered(row: dict[str, float]) -> None:
        assert progress is not None
        progress({**row, "iteration": row["iteration"] + first})

    def take(point: Warm, rows: Log) -> None:
        assert checkpoint is not None
        log = joined(before, [{**row, "iteration": row["iteration"] + first} for row in rows])
        if all(np.all(np.isfinite(values)) for values in (point.x, point.lam_x, point.lam_g)):
            checkpoint({**names, "iterations": np.array([first + max(0, len(rows) - 1)]),
                        "cost": np.array([float(program.nlp.f(point.x))]), "x": point.x, "lam_x": point.lam_x, "lam_g": point.lam_g,
                        "mu": np.array([point.mu]), **log_arrays(log)})

    result = solve_nlp(program.nlp, options.ipopt(), progress if progress is None or not first else numbered,
                       None if checkpoint is None else (Pace().due, take), warm)
    if checkpoint is not None and result.status is not Status.CONVERGED:
        take(Warm(result.x, result.lam_x, result.lam_g, result.mu), result.iterations)
    path = program.invert(result.x)
    compiling = program.seconds["compile"]
    chosen, notes = program.parameters(result.x), program.notes
    extra = {"lam_x": result.lam_x, "lam_g": result.lam_g, "costate": program.costate(result.lam_g)}
    if resume is not None:
        notes = (*notes, f"resumed after {first} iterations, from objective {float(resume['cost'][0]):.9g}")
    if chosen:
        extra["parameters"] = np.array(list(chosen.values()))
        notes = (*notes, *(f"parameter {name} = {value:.9g}" for name, value in chosen.items()))
    return Solution(
        problem=with_parameters(problem, chosen), method=METHOD, options=asdict(options), status=result.status,
        message=result.message, objective=result.f, trajectory=path,
        iterations=joined(before, [{**row, "iteration": row["iteration"] + first} for row in result.iterations]),
        seconds={"transcription": transcribed - started - compiling, "compile": compiling, "solve": result.seconds["solver"],
                 "functions": result.seconds["functions"], "total": time.perf_counter() - started},
        optimality=Optimality(program.nlp, result.x, result.lam_x, result.lam_g), notes=notes, extra=extra,
    )


def _warm(resume: Checkpoint | None, names: Mapping[str, np.ndarray]) -> tuple[Warm | None, Log, int]:
    """The point to start from, the log so far and its iterations."""
    if resume is None:
        return None, (), 0
    check_layout(resume, names)
    point = Warm(resume["x"], resume["lam_x"], resume["lam_g"], float(resume["mu"][0]))
    return point, log_rows(resume), int(resume["iterations"][0])


def transcribe(problem: Problem, options: CollocationOptions) -> Transcription:
    """The problem on a uniform mesh as a nonlinear program, with the map back. Raises as ``solve`` does."""
    if reasons := unsupported(problem):
        raise UnsupportedError(METHOD, reasons, ())
    phase = problem.phase
    _check(phase)
    source, by_loops, told = choose(phase.system, options.derivatives, options.execution)
    if not by_loops:
        phase = replace(phase, system=differentiated(phase.system, source))
    mesh = uniform_mesh(SCHEMES[options.scheme], options.intervals)
    nx, nu, M = phase.system.nx, phase.system.nu, mesh.nodes
    n = M * (nx + nu) + shared_count(phase)

    node, path = _node_block(phase, mesh, with_dynamics=not by_loops)
    ends, end_rows = _end_block(phase, mesh)
    states = sp.kron(sp.identity(M), sp.eye(nx, nx + nu))  # picks vec(X) out of the variables
    D, W = mesh.defects(nx)
    ny, here = node.size, node.size - len(path.names)
    rates = sp.kron(sp.identity(M), sp.eye(nx, here) @ sp.eye(here, ny))  # picks scaled rates out of the node rows ...
    paths = sp.kron(sp.identity(M), sp.eye(ny - here, ny, k=here))  # ... and the path constraints
    linear = sp.vstack([sp.hstack([D @ states, sp.csr_matrix((D.shape[0], shared_count(phase)))]),
                        sp.csr_matrix((paths.shape[0] + ends.size, n))], format="csr")
    above = D.shape[0] + paths.shape[0]
    node_matrix = sp.vstack([W @ rates, paths, sp.csr_matrix((ends.size, M * ny))], format="csr")
    ends_matrix = sp.vstack([sp.csr_matrix((above, ends.size)), sp.identity(ends.size)], format="csr")
    blocks = [_with_matrix(node, node_matrix), _with_matrix(ends, ends_matrix)]
    prepared = [with_kernels(differentiate(block), options.kernels, block.count) for block in blocks]
    if by_loops:
        from ocp.transcription.loops import dynamics_functions  # only here: Numba costs half a second

        rows = nx - here
        rates = sp.kron(sp.identity(M), sp.eye(nx, rows, k=-here))
        blocks.append(_dynamics_block(phase, mesh, sp.vstack([W @ rates, sp.csr_matrix((linear.shape[0] - D.shape[0], M * rows))])))
        prepared.append((dynamics_functions(blocks[-1], phase.system), (), 0.0))
    functions = [own for own, _, _ in prepared]
    x_lower, x_upper, x0 = variables(phase, mesh)
    zeros = np.zeros(D.shape[0])
    program = assemble(n, linear, blocks, functions)
    split = splitter(phase, mesh)
    nlp = NLP(
        f=program.f, g=program.g, grad=program.grad, jac=program.jac, hess=program.hess,
        x0=x0, x_lower=x_lower, x_upper=x_upper,
        g_lower=np.concatenate([zeros, np.tile(path.lower, M), end_rows.lower]),
        g_upper=np.concatenate([zeros, np.tile(path.upper, M), end_rows.upper]),
        variables=variable_names(phase, mesh),
        constraints=(*defect_names(phase, mesh),
                     *(f"{name} @ {mesh.node_name(j)}" for j in range(M) for name in path.names), *end_rows.names),
        diagnose=diagnosis(phase, mesh, split), keep=[own.keep for own in functions],
    )

    def invert(values: np.ndarray) -> Trajectory:
        x, u, duration, _ = split(values)
        columns = np.asarray(values)[node.index].T
        rate = functions[0].rows(columns, node.values.T).full()[:here]
        if by_loops:
            rate = np.vstack([rate, functions[-1].rows(columns, node.values.T).full()])
        rate = rate.T / duration
        return trajectory(mesh, phase.system.space, duration, x, u, rate)

    def costate(lam_g: np.ndarray) -> np.ndarray:
        # the Lagrangian holds w_j (cost + p_j' xdot) at node j, with w_j p_j = (W' lam)_j
        return (W.T @ np.asarray(lam_g)[: W.shape[0]]).reshape(M, nx) / mesh.weights()[:, None]

    def parameters(values: np.ndarray) -> dict[str, float]:
        p = split(values)[3]
        return {phase.system.parameters[i]: float(p[i]) for i, _, _ in phase.free_parameters}

    notes = (*told, *(tuple(note for _, own, _ in prepared for note in own) or ("kernels: interpreted",)))
    return Transcription(nlp, invert, costate, parameters, mesh, notes, {"compile": sum(seconds for _, _, seconds in prepared)})


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


def _symbols(kind: Any, phase: Phase, label: str) -> tuple[Expr, Expr]:
    """State and control symbols of one place."""
    return kind.sym(f"x_{label}", phase.system.nx), kind.sym(f"u_{label}", phase.system.nu)


def _shared(kind: Any, phase: Phase) -> tuple[Expr, Expr, Expr, Expr, tuple[float, ...]]:
    """Symbols of the duration and of all parameters, those of both that are variables, those that are data, and their values."""
    system, chosen = phase.system, [i for i, _, _ in phase.free_parameters]
    T = kind.sym("T")
    given = [i for i in range(system.np) if i not in chosen]
    free, fixed = kind.sym("p_free", len(chosen)), kind.sym("p_fixed", len(given))
    p = ca.vertcat(free, fixed)[[(chosen + given).index(i) for i in range(system.np)]]
    values = tuple(system.parameter_values[i] for i in given)
    if phase.duration.free:
        return T, p, ca.vertcat(T, free), fixed, values
    return T, p, free, ca.vertcat(T, fixed), (phase.duration.lower, *values)


def _node_block(phase: Phase, mesh: Mesh, with_dynamics: bool = True) -> tuple[Block, Rows]:
    """The function of every node: rows [duration * xdot (nx); path constraints], cost = duration * running cost.

    Without dynamics, xdot is the part qdot that is kinematics.
    """
    system = phase.system
    kind = ca.SX if system.derivatives == "ad" else ca.MX  # a scalar graph would swallow derivatives that functions bring along
    x, u = _symbols(kind, phase, "node")
    tau = kind.sym("tau")
    T, p, variable, data, values = _shared(kind, phase)
    here = (T * tau, x, u, p)
    if with_dynamics:
        scaled_rate = T * ca.mtimes(system.space.rate(x), system.rate(*here))
    else:
        nq = system.model.nq
        scaled_rate = T * ca.mtimes(system.space.rate(x)[:nq, :], ca.vertcat(x[nq:], kind(system.model.nv, 1)))
    for q in system.space.quaternions:
        part = x[q:q + 4]
        scaled_rate[q:q + 4] += NORM_GAIN * (1 - ca.sumsqr(part)) * part
    cost = kind(0)
    for item in phase.costs:
        if item.at is At.PATH:
            cost += cost_value(item, here)
    for c in phase.constraints:
        if c.at is At.PATH and c.soft is not None:
            cost += penalty(c, here)
    rows = _join(kind, [hard_rows(c, here) for c in phase.constraints if c.at is At.PATH and c.soft is None])
    M = mesh.nodes
    block = Block(
        name="node", v=vector(kind, x, u, variable), data=vector(kind, tau, data), cost=T * cost,
        rows=vector(kind, scaled_rate, rows.expression),
        index=_node_index(phase, mesh), values=np.column_stack([mesh.fractions, np.tile(values, (M, 1))]), weight=mesh.weights(),
        matrix=sp.csr_matrix((0, 0)),
    )
    return block, rows


def _dynamics_block(phase: Phase, mesh: Mesh, matrix: sp.spmatrix) -> Block:
    """The scaled accelerations [duration * a (nv)] of every node, whose functions come from elsewhere."""
    system = phase.system
    x, u = _symbols(ca.SX, phase, "node")
    phase = replace(phase, free_parameters=())  # forward dynamics know no parameters
    T, _, variable, data, values = _shared(ca.SX, phase)
    M = mesh.nodes
    return Block(
        name="dynamics", v=vector(ca.SX, x, u, variable), data=vector(ca.SX, ca.SX.sym("tau"), data), cost=ca.SX(0),
        rows=ca.SX.zeros(system.model.nv), index=_node_index(phase, mesh),
        values=np.column_stack([mesh.fractions, np.tile(values, (M, 1))]), weight=mesh.weights(), matrix=sp.csr_matrix(matrix))


def _node_index(phase: Phase, mesh: Mesh) -> np.ndarray:
    """Variables [M, nx + nu (+ shared)] of every node: state, control and what belongs to no node."""
    M, nz = mesh.nodes, phase.system.nx + phase.system.nu
    return np.column_stack([np.arange(M * nz).reshape(M, nz), np.tile(M * nz + np.arange(shared_count(phase)), (M, 1))])


def _end_block(phase: Phase, mesh: Mesh) -> tuple[Block, Rows]:
    """Costs and constraints at the start and the end of the phase, as one function of (x_0, x_N, duration)."""
    system = phase.system
    (x_start, u), (x_final, _) = _symbols(ca.SX, phase, "start"), _symbols(ca.SX, phase, "final")
    T, p, variable, data, values = _shared(ca.SX, phase)
    cost, rows = ca.SX(0), []
    start, final = (ca.SX(0), x_start, u, p), (T, x_final, u, p)
    for at, here, boundary in ((At.START, start, phase.start), (At.FINAL, final, phase.final)):
        for item in phase.costs:
            if item.at is at:
                value = cost_value(item, here)
                independent_of_control(f"cost {item.name!r}", value, u)
                cost += value
        for c in phase.constraints:
            if c.at is not at:
                continue
            expression = penalty(c, here) if c.soft is not None else hard_rows(c, here)
            independent_of_control(c.where or f"constraint {c.name!r}",
                                   expression.expression if isinstance(expression, Rows) else expression, u)
            if isinstance(expression, Rows):
                rows.append(Rows(expression.expression, expression.lower, expression.upper,
                                 tuple(f"{name} @ {at.value}" for name in expression.names)))
            else:
                cost += expression
        rows += _boundary_rows(phase, at, boundary, here[1])
    joined = _join(ca.SX, rows)
    M, nx, nz = mesh.nodes, system.nx, system.nx + system.nu
    index = np.concatenate([np.arange(nx), (M - 1) * nz + np.arange(nx), M * nz + np.arange(shared_count(phase))])
    block = Block(
        name="ends", v=vector(ca.SX, x_start, x_final, variable), data=vector(ca.SX, data), cost=cost,
        rows=vector(ca.SX, joined.expression),
        index=index[None, :], values=np.array([values]).reshape(1, -1), weight=np.ones(1), matrix=sp.csr_matrix((0, 0)),
    )
    return block, joined


def _boundary_rows(phase: Phase, at: At, boundary: Boundary | None, x: ca.SX) -> list[Rows]:
    """Prescribed tangent components that cannot be variable bounds, and unit norms at a start that leaves them open."""
    space, rows = phase.system.space, []
    if at is At.START and boundary is not None and boundary.complete:
        return []  # all coordinates are fixed by bounds
    flat = set(space.tangent_index)
    held = [i for i in range(space.ndx) if boundary is not None and boundary.fixed[i] and i not in flat]
    if boundary is not None and held:
        away = space.minus(ca.DM(boundary.value), x)
        names = tuple(f"{at.value} value of {space.tangent_names[i]}" for i in held)
        rows.append(Rows(ca.vertcat(*(away[i] for i in held)), (0.0,) * len(held), (0.0,) * len(held), names))
    if at is At.START:  # the rate keeps the norm from there on
        for q in space.quaternions:
            rows.append(Rows(ca.sumsqr(x[q:q + 4]), (1.0,), (1.0,), (f"unit norm of {space.names[q]} ... @ start",)))
    return rows


def _join(kind: Any, rows: list[Rows]) -> Rows:
    return Rows(vector(kind, *(r.expression for r in rows)), sum((r.lower for r in rows), ()), sum((r.upper for r in rows), ()),
                sum((r.names for r in rows), ()))


def _with_matrix(block: Block, matrix: sp.csr_matrix) -> Block:
    return Block(**{**block.__dict__, "matrix": matrix})
