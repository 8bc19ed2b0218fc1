"""From the parts of a problem to one nonlinear program, and from its unknowns back to trajectories.

Unknowns: ``[phase 0] [phase 1] ... [free durations and parameters]``, each phase ordered by time. Everything nonlinear is a small
function repeated many times (``ocp.transcription.blocks``); defects are linear in what these functions return.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ocp.derivatives import choose, differentiated_phase
from ocp.errors import ProblemError
from ocp.interrupts import Activity, check
from ocp.nlp import NLP
from ocp.nlp.local import CONTROL, COORDINATE, DURATION, PARAMETER, TANGENT, Owners, cells
from ocp.nlp.names import Names
from ocp.nlp.whole import Whole
from ocp.problem import At, Finding, Kind, Problem, Trajectory, distinct, join
from ocp.problem.numbers import numbers_of, with_guess, with_numbers
from ocp.reductions.algebraic_equations import require_equations
from ocp.transcription import blocks, evaluation
from ocp.transcription.charts import Form
from ocp.transcription.compressed import compressed_part
from ocp.transcription.diagnosis import diagnosis
from ocp.transcription.elements import separable
from ocp.transcription.ends import ends_part, linkage_part, passage_part
from ocp.transcription.intervals import motion_part, path_part, shooting_part
from ocp.transcription.inversion import Inverse, looks_back, unpacking
from ocp.transcription.kernels import BY_SOLVER, Prepared, prepared
from ocp.transcription.layout import held_by_rows, limits
from ocp.transcription.mesh import Compressed, Discretisation, Mesh
from ocp.transcription.motion import by_motion
from ocp.transcription.part import Columns, Part, located, stacked
from ocp.transcription.static_unknowns import static_unknowns
from ocp.transcription.timeline import timeline

Array = np.ndarray


@dataclass(frozen=True)
class How:
    """Options of both transcriptions: ``states`` as unknowns (``ocp.transcription.charts``), ``derivatives`` and ``execution``
    (``ocp.derivatives``), ``kernels`` (``ocp.transcription.kernels``, or ``BY_SOLVER``), and whether the Gauss-Newton Hessian is
    wanted."""

    states: str = "coordinates"
    derivatives: str = "auto"
    execution: str = "auto"
    kernels: str = "auto"
    gauss_newton: bool = False


def kernels_for(solver: str, kernels: str) -> str:
    """The choice of kernels for a solver: the interior-point method makes machine code of the elements by itself."""
    return BY_SOLVER if solver == "interior_point" and kernels == "auto" else kernels


@dataclass(frozen=True, eq=False)
class Transcription:
    """A problem as a nonlinear program, and the way back.

    parts(x) -> the trajectory of each phase; invert(x) -> all of them in one; costate(lam_g) -> by phase, [E, size]: estimates at
    the evaluation points of the adjoint of what the schemes act on, with ``H = running cost + p' ydot`` (of shooting at ends of
    intervals); parameters(x): values of free parameters by name; meshes: of the phases; state_columns: by phase, the columns
    [M, size] of all nodes; integrals: by phase, the rows of its integral constraints; centres(x): by phase, the states of all
    nodes, about which tangent unknowns may be centred anew; owners(): what the unknowns stand for; findings: about derivatives and
    kernels; seconds: of which "compile" was spent on kernels; moved(problem): the same program, its functions the same objects, for
    a problem that differs in numbers alone (``ocp.problem.numbers``) and whose parameters that do are free, each between equal
    ends; limited(problem): the nonlinear program of that, with the guess of this one but for durations and parameters
    """

    nlp: NLP
    parts: Callable[[Array], tuple[Trajectory, ...]]
    costate: Callable[[Array], tuple[Array, ...]]
    parameters: Callable[[Array], dict[str, float]]
    durations: Callable[[Array], tuple[float, ...]]
    centres: Callable[[Array], tuple[Array, ...]]
    meshes: tuple[Discretisation, ...]
    forms: tuple[Form, ...]
    state_columns: tuple[Array, ...]
    integrals: tuple[Array, ...]
    owners: Callable[[], Owners]
    findings: tuple[Finding, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    moved: Callable[[Problem], Transcription] | None = None
    limited: Callable[[Problem], NLP] | None = None

    def invert(self, x: Array) -> Trajectory:
        """The trajectory of a point x [n]."""
        return join(self.parts(x))


def build(problem: Problem, meshes: Sequence[Discretisation], how: How, centres: Sequence[Array] | None = None) -> Transcription:
    """The program of a problem on these meshes, one for each phase.

    centres: states of all nodes about which tangent unknowns stand, default the guess. Raises ProblemError for a malformed problem.
    """
    require_equations(problem)
    given, (problem, loops, findings) = problem, _differentiated(problem, meshes, how)
    placed = located(problem, meshes, how.states, centres)
    layouts, static, n = [p.layout for p in placed], placed[0].static, placed[0].n
    pieces, defects = _pieces(placed, meshes, loops)
    passages = len(pieces) - len(problem.linkages) - len(placed) + 1 + np.arange(len(placed) - 1)
    whole = stacked(pieces, n)
    above = np.cumsum([0, *(part.rows for part in pieces)])
    ready = [Prepared(whole.external[block.name], (), 0.0) if block.name in whole.external else
             prepared(block, how.kernels, how.gauss_newton) for block in whole.blocks]
    functions = [own for own, _, _ in ready]
    elements = separable(whole.linear, whole.blocks, functions, how.gauss_newton)
    nlp = NLP(
        functions=Whole(elements, blocks.FLAT_BELOW), **_unknowns(placed),
        g_lower=whole.lower, g_upper=whole.upper, constraints=whole.names,
        variables=Names.joined([*(layout.names for layout in layouts), static.names]),
        diagnose=diagnosis(given, meshes, unpacking(placed)), keep=[own.keep for own in functions],
        defects=np.concatenate([above[i] + np.arange(pieces[i].defects) for i in defects]),
        algebraic=np.concatenate([cols.layout.controls[:, len(cols.phase.system.controls):].ravel() for cols in placed]),
        timeline=None if any(looks_back(mesh) for mesh in meshes) else
        timeline(placed, meshes, above[defects].tolist(), above[passages].tolist()))
    back = Inverse(placed, tuple(meshes), {element.name: element for element in elements.elements}, above[defects].tolist(), loops)
    findings += [one for _, own, _ in ready for one in own] or \
        ([] if how.kernels == BY_SOLVER else [Finding(Kind.KERNELS_INTERPRETED)])
    made = Transcription(nlp, back.parts, back.costate, back.parameters, back.durations, back.centres, tuple(meshes),
                         tuple(p.form for p in placed), tuple(layout.states for layout in layouts),
                         _integrals(problem, whole.names), lambda: _owners(placed, meshes), distinct(findings),
                         {"compile": sum(seconds for _, _, seconds in ready)})
    return _movable(made, problem, placed, how, whole, back)


def _movable(made: Transcription, problem: Problem, placed: Sequence[Columns], how: How, whole: Part, back: Inverse
             ) -> Transcription:
    """The program, which takes other numbers and limits. whole: its constraints."""
    nlp, meshes, loops = made.nlp, made.meshes, back.loops
    layouts, static, n = [p.layout for p in placed], placed[0].static, placed[0].n
    in_rows = _held_in_rows(problem, placed)
    known, firsts = _limits_of_rows(problem, in_rows), np.cumsum([0, *(layout.count for layout in layouts)]).tolist()

    def moved(other: Problem) -> Transcription:
        own = with_guess(with_numbers(problem, numbers_of(other)), other)
        _refuse_constants(problem, own, static.parameters)
        there = located(own, meshes, how.states, [p.layout.centres for p in placed], placed)
        rows = whole if _limits_of_rows(own, in_rows) == known else stacked(_pieces(there, meshes, loops)[0], n)
        if rows.rows != whole.rows:
            raise ProblemError("these limits change the program's constraints; compile it again", where=f"problem {own.name!r}")
        changed = replace(nlp, **_unknowns(there), g_lower=rows.lower, g_upper=rows.upper,
                          diagnose=diagnosis(own, meshes, unpacking(there)))
        way = replace(back, placed=there)
        return replace(made, nlp=changed, parts=way.parts, costate=way.costate, parameters=way.parameters, durations=way.durations,
                       centres=way.centres, owners=lambda: _owners(there, meshes), moved=moved, limited=limited)

    def limited(other: Problem) -> NLP:
        _refuse_constants(problem, other, static.parameters)
        if _limits_of_rows(other, in_rows) != known:
            own = moved(other).nlp
            return own.limited(x0=np.concatenate([nlp.x0[:firsts[-1]], own.x0[firsts[-1]:]]))
        ranges = [limits(phase, cols.form, cols.layout, first, cols.phase)
                  for phase, cols, first in zip(other.phases, placed, firsts, strict=False)]
        bounds = static_unknowns(other).bounds if static.count else static.bounds
        lower, upper = ranges[0] if len(ranges) == 1 and not static.count else (
            np.concatenate([*(pair[i] for pair in ranges), bounds[:, i]]) for i in (0, 1))
        x0 = np.concatenate([nlp.x0[:firsts[-1]], bounds[:, 2]]) if static.count else nlp.x0
        return nlp.limited(x0=x0, x_lower=lower, x_upper=upper)

    return replace(made, moved=moved, limited=limited)


def _pieces(placed: Sequence[Columns], meshes: Sequence[Discretisation], loops: Sequence[bool]) -> tuple[list[Part], list[int]]:
    """The pieces of the program: of phases, of passages, of linkages; and with which of them the constraints of each phase
    begin."""
    pieces: list[Part] = []
    defects = []
    for cols, mesh, by_loops in zip(placed, meshes, loops, strict=True):
        check(Activity.FUNCTIONS)
        defects.append(len(pieces))
        if isinstance(mesh, Mesh):
            pieces += [evaluation.phase_part(cols, mesh, by_loops), evaluation.bare_part(cols, mesh)]
        elif isinstance(mesh, Compressed):
            pieces += [compressed_part(cols, mesh), path_part(cols, mesh)]
        else:
            part = motion_part if by_motion(cols.phase.system, mesh) else shooting_part
            pieces += [part(cols, mesh), path_part(cols, mesh)]
        pieces.append(ends_part(cols))
    pieces += [passage_part(a, b) for a, b in zip(placed[:-1], placed[1:], strict=True)]
    pieces += [linkage_part(linkage, tuple(placed), i) for i, linkage in enumerate(placed[0].problem.linkages)]
    return pieces, defects


def _unknowns(placed: Sequence[Columns]) -> dict[str, Any]:
    """Guess and bounds of all unknowns, as fields of the program."""
    bounds, layouts = placed[0].static.bounds.T, [cols.layout for cols in placed]
    return {field: np.concatenate([*(getattr(layout, name) for layout in layouts), bounds[at]])
            for field, name, at in (("x0", "guess", 2), ("x_lower", "lower", 0), ("x_upper", "upper", 1))}


def _refuse_constants(one: Problem, other: Problem, free: Mapping[str, int]) -> None:
    """Raise ProblemError for another value of what stands in the functions of the program as a constant."""
    for a, b in zip(one.phases, other.phases, strict=True):
        if a.duration is b.duration and a.system is b.system:
            continue
        if not a.duration.free and a.duration != b.duration:
            raise ProblemError(f"the duration of {a.duration.lower:g} s is fixed in the program; compile it again",
                               where=f"phase {a.name!r}")
        values = zip(a.system.parameters, a.system.parameter_values, b.system.parameter_values, strict=True)
        for name, before, now in values:
            if before != now and name not in free:
                raise ProblemError(f"parameter {name!r} is fixed in the program; compile it again",
                                   where=f"phase {a.name!r}")


def _held_in_rows(problem: Problem, placed: Sequence[Columns]) -> list[tuple[int, str]]:
    """(number of a phase, name of its field) of ends and bounds that constraints of the program hold."""
    pairs = list(enumerate(zip(problem.phases, (cols.form for cols in placed), strict=True)))
    return [*((k, at.value) for k, (phase, form) in pairs for at in (At.START, At.FINAL) if held_by_rows(phase, form, at)[0]),
            *((k, "state_bounds") for k, (_, form) in pairs if form.tangent)]


def _limits_of_rows(problem: Problem, in_rows: Sequence[tuple[int, str]]) -> list[Any]:
    """The limits of the constraints of a problem; those of unknowns are not among them."""
    phases = problem.phases
    return [[getattr(phases[k], name) for k, name in in_rows], [(c.lower, c.upper) for phase in phases for c in phase.constraints],
            [(linkage.lower, linkage.upper) for linkage in problem.linkages]]


class Differentiated(NamedTuple):
    """A problem with the derivatives that are chosen for its phases; which of them run as loops; findings."""

    problem: Problem
    loops: list[bool]
    findings: list[Finding]


def _differentiated(problem: Problem, meshes: Sequence[Discretisation], how: How) -> Differentiated:
    """The problem with the derivatives that are chosen for its phases; which of them run as loops; findings about the choice."""
    phases, loops, fixed = [], [], True
    findings: list[Finding] = []
    for phase, mesh in zip(problem.phases, meshes, strict=True):
        check(Activity.FUNCTIONS)
        fixed = fixed and not phase.duration.free
        execution = how.execution if isinstance(mesh, Mesh) else "generated"
        source, by_loops, own = choose(phase.system, how.derivatives, execution, exact=True, fixed=fixed)
        phases.append(differentiated_phase(phase, source, by_loops))
        loops.append(by_loops)
        findings += own
    return Differentiated(replace(problem, phases=tuple(phases)), loops, findings)


def _integrals(problem: Problem, names: Sequence[str]) -> tuple[Array, ...]:
    """Components of the integral constraints of each phase."""
    counts = [sum(c.size for c in phase.constraints if c.at is At.INTEGRAL) for phase in problem.phases]
    rows = [i for i, name in enumerate(names) if name.endswith(evaluation.WHOLE)] if any(counts) else []
    return tuple(np.split(np.array(rows, dtype=int), np.cumsum(counts)[:-1]))


def _owners(placed: Sequence[Columns], meshes: Sequence[Discretisation]) -> Owners:
    """Owners of the unknowns of the program."""
    found = Owners.empty(placed[0].n)
    for cols, mesh in zip(placed, meshes, strict=True):
        for columns, kind, at in ((cols.layout.states, TANGENT if cols.form.tangent else COORDINATE, mesh.fractions),
                                  (cols.layout.controls, CONTROL, mesh.control_fractions)):
            found.put(columns, kind, cols.number, np.arange(columns.shape[1]), cells(np.asarray(at))[:, None])
        inside, z = cols.layout.stages, cols.phase.system
        if inside.size:
            found.put(inside, CONTROL, cols.number, len(z.controls) + np.arange(inside.shape[1]) % len(z.algebraic),
                      np.diff(mesh.fractions)[:, None] * len(z.algebraic) / inside.shape[1])
        for columns, width in zip(cols.layout.inside, np.diff(mesh.edges), strict=False):
            found.put(columns, PARAMETER, cols.number, -1, width)
        static, names = cols.static, cols.phase.system.parameters
        if (number := static.durations[cols.number]) is not None:
            found.put(np.array([cols.first + number]), DURATION, cols.number, 0)
        for name, number in static.parameters.items():
            if name in names:
                found.put(np.array([cols.first + number]), PARAMETER, cols.number, names.index(name))
    return found
