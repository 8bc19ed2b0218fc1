"""Direct collocation: schemes of any degree on any mesh, several phases, one nonlinear program.

Sources: Betts 2010, Practical Methods for Optimal Control, Ch. 4; Kelly 2017, SIAM Review 59(4); Hairer and Wanner 1996, Solving
Ordinary Differential Equations II, Sec. IV.5.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from ocp.derivatives import EXECUTIONS
from ocp.errors import ProblemError, UnsupportedError, check_fractions
from ocp.nlp import SCALINGS
from ocp.options import AUTO
from ocp.problem import Finding, Kind, Problem, Solution, in_steps
from ocp.thresholds import MESH_CHANGE
from ocp.transcription import direct
from ocp.transcription.charts import form
from ocp.transcription.direct import Optimality
from ocp.transcription.mesh import Compressed, Mesh, uniform_mesh
from ocp.transcription.options import DirectOptions
from ocp.transcription.program import Transcription, build
from ocp.transcription.refine.plan import UNIFORM, Family, Plan, read_plans, uniform_plan
from ocp.transcription.refine.policy import POLICIES
from ocp.transcription.schemes import CONTROLS, FORMS, MAX_DEGREE, SCHEMES, Scheme, checked_degree, make_scheme

__all__ = ["METHOD", "CollocationOptions", "Optimality", "transcribe", "uniform_meshes", "unsupported"]

METHOD = "collocation"
#: of a phase, where the certificate decides
USUAL_INTERVALS = 20
#: degree from which Lobatto schemes with one control per knot are of lower order than their name promises
LOBATTO_SHORT = 4


def unsupported(problem: Problem) -> list[str]:
    """Sentences that name what collocation cannot enforce in this problem; empty where it can enforce everything."""
    return [*direct.unsupported(problem), *in_steps(problem)]


class SchemeChoice(NamedTuple):
    """Name, degree (None: the usual one) and form of a scheme."""

    name: str
    degree: int | str | None
    form: str


@dataclass(frozen=True)
class CollocationOptions(DirectOptions):
    """Options of direct collocation.

    scheme: "auto" (radau where the certificate decides, gauss for refine p and hp, else hermite_simpson), "hermite_simpson" (order
        4), "trapezoid" (2), "gauss" (2K), "radau" (2K - 1), "radau_left" (2K - 1) or "lobatto" (2K -
        2; with polynomial controls states at knots are of order 4 from K = 4 on, as one control at a knot serves two intervals).
    intervals: of a phase; "auto": 20 where the certificate decides, of more than three phases 60 in all; else 50.
    degree: K, collocated nodes of an interval; "auto": the scheme's own, 3 where it leaves a choice.
    form: of the defects, "integral", "differential", or for hermite_simpson "compressed" (no states at midpoints).
    controls: "polynomial" through the collocated nodes, "held" or "linear"; "auto": polynomial, and held where the certificate
        decides and polynomial ones chatter.
    execution: of analytic derivatives: "generated" code, "loops" over the model, or "auto"; see ``ocp.derivatives``.
    mesh: "uniform", or the edges and degrees of intervals, see ``ocp.transcription.refine.plan``; intervals and degree then do not
        count.
    refine: "certificate": meshes until it holds, finer where it measures errors; "none"; "h": shorter intervals; "p": higher
        degrees; "hp": what promises more; "auto": certificate, or none where scheme, intervals, degree, mesh or the compressed form
        are given.
    tolerance_mesh: largest relative error of an interval, see ``ocp.transcription.refine.error``; max_passes: solves;
        max_degree: of an interval; switches: whether edges move to where polynomial and piecewise-constant controls jump; of linear
        ones, which cannot, a note says where they would.
    """

    METHOD: ClassVar[str] = METHOD
    CHOICES: ClassVar[Mapping[str, Collection[str]]] = {
        **DirectOptions.CHOICES, "scheme": SCHEMES, "form": (*FORMS, "compressed"), "controls": (AUTO, *CONTROLS),
        "execution": EXECUTIONS, "refine": POLICIES}
    MIN_COUNTS: ClassVar[Mapping[str, int]] = {**DirectOptions.MIN_COUNTS, "degree": 1, "max_passes": 1}

    intervals: int | str = AUTO
    scheme: str = AUTO
    degree: int | str = AUTO
    form: str = "integral"
    controls: str = AUTO
    execution: str = AUTO
    mesh: str = UNIFORM
    refine: str = AUTO
    tolerance_mesh: float = 1e-6
    max_passes: int = 15
    max_degree: int = 10
    switches: bool = True

    def __post_init__(self) -> None:
        for name, value in _chosen(self).items():  # once and for all: ``replace`` keeps what was chosen
            object.__setattr__(self, name, value)
        super().__post_init__()
        if self.scaling not in SCALINGS and self.refine != "none":
            raise ProblemError("holds factors of one mesh, and refine changes the mesh; use scaling auto",
                               where=f"{METHOD}.scaling")
        self._check_refinement(checked_degree(*self._scheme()))

    def _check_refinement(self, degree: int) -> None:
        raises = self.refine in ("p", "hp")
        if raises and self.scheme in ("trapezoid", "hermite_simpson"):
            raise ProblemError(f"{self.refine} raises the degree of intervals, and {self.scheme} has only one; use scheme gauss, "
                               "radau or lobatto, or refine h", where=f"{METHOD}.refine")
        for name, value in (("refine", self.refine != "none"), ("mesh", self.mesh != UNIFORM)):
            if value and self.form == "compressed":
                raise ProblemError("needs states at midpoints, which form compressed does not have; use form integral",
                                   where=f"{METHOD}.{name}")
        check_fractions(self, ("tolerance_mesh",), METHOD)
        if not 1 <= self.max_degree <= MAX_DEGREE or (raises and self.max_degree < degree):
            raise ProblemError(f"must lie between the degree of the first mesh, {degree}, and {MAX_DEGREE}, got {self.max_degree}",
                               where=f"{METHOD}.max_degree")

    def record(self) -> Scheme:
        """The scheme that the options name."""
        return make_scheme(*self._scheme())

    def _scheme(self) -> SchemeChoice:
        """Its name, degree and form."""
        if self.form == "compressed" and (self.scheme != "hermite_simpson" or self.shape() != "polynomial"):
            raise ProblemError("is for scheme hermite_simpson with polynomial controls", where=f"{METHOD}.form 'compressed'")
        form = "integral" if self.form == "compressed" else self.form
        return SchemeChoice(self.scheme, None if self.degree == AUTO else self.degree, form)

    def shape(self) -> str:
        """Of the controls of the first mesh."""
        return "polynomial" if self.controls == AUTO else self.controls

    @property
    def keeps_algebraic_unknowns(self) -> bool:
        """Whether the program has algebraic unknowns, at the points of the scheme: where controls are unknowns at all of these."""
        return self.shape() == "polynomial" and self.form != "compressed"


def _chosen(options: CollocationOptions) -> dict[str, int | str]:
    """The choices of "auto" in refine, scheme and intervals."""
    any_mesh = ((options.scheme, options.intervals, options.degree, options.mesh) == (AUTO, AUTO, AUTO, UNIFORM)
                and options.form != "compressed")
    refine = ("certificate" if any_mesh else "none") if options.refine == AUTO else options.refine
    scheme = {"certificate": "radau", "p": "gauss", "hp": "gauss"}.get(refine, "hermite_simpson")
    intervals = USUAL_INTERVALS if refine == "certificate" else 50
    return {"refine": refine, "scheme": scheme if options.scheme == AUTO else options.scheme,
            "intervals": intervals if options.intervals == AUTO else options.intervals}


def uniform_meshes(problem: Problem, options: CollocationOptions) -> tuple[Mesh | Compressed, ...]:
    """The mesh of every phase that the options ask for."""
    scheme = options.record()
    if options.form == "compressed":
        return tuple(Compressed(np.linspace(0.0, 1.0, int(options.intervals) + 1)) for _ in problem.phases)
    if options.mesh != UNIFORM:
        return family_of(options).meshes(problem, plans_of(problem, options))
    return tuple(uniform_mesh(scheme, int(options.intervals), options.shape(), form(phase.system.space, options.states).tangent)
                 for phase in problem.phases)


def plans_of(problem: Problem, options: CollocationOptions) -> tuple[Plan, ...]:
    """The first mesh of every phase as numbers."""
    if options.mesh == UNIFORM:
        return (uniform_plan(_in_each(problem, options), options.record().degree),) * len(problem.phases)
    return read_plans(options.mesh, [phase.name for phase in problem.phases], options.scheme, f"{METHOD}.mesh")


def _in_each(problem: Problem, options: CollocationOptions) -> int:
    """Intervals of a phase; where none are asked for, all phases together begin with no more than a fine mesh has."""
    count = int(options.intervals)
    asked = options.refine != "certificate" or count != USUAL_INTERVALS or "intervals" in options.named
    return count if asked else max(1, min(count, MESH_CHANGE.many_intervals // len(problem.phases)))


def family_of(options: CollocationOptions) -> Family:
    """The family of collocation schemes that the options name."""
    return Family(options.scheme, options.form, options.shape(), options.states, options.tolerance)


def transcribe(problem: Problem, options: CollocationOptions, meshes: Sequence[Mesh | Compressed] | None = None,
               centres: Sequence[np.ndarray] | None = None) -> Transcription:
    """The problem, reduced, on these meshes (uniform ones as the options say) as a nonlinear program, with the map back. Raises as
    ``solve`` does. centres: see ``build``."""
    if reasons := unsupported(problem):
        raise UnsupportedError(METHOD, reasons, ())
    return build(problem, uniform_meshes(problem, options) if meshes is None else meshes, options.how(), centres)


def order_of_lobatto(found: Solution, options: CollocationOptions) -> tuple[Finding, ...]:
    """That the scheme's order is not that of its name."""
    if options.scheme != "lobatto" or options.shape() != "polynomial":
        return ()
    plans = plans_of(found.problem, replace(options, mesh=found.freeze.get("mesh", options.mesh)))
    short = max(degree for plan in plans for degree in plan.degrees) >= LOBATTO_SHORT
    return (Finding(Kind.LOBATTO_ORDER, value=LOBATTO_SHORT),) if short else ()
