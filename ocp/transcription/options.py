"""Options common to the direct methods, and their consequences."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ocp.guesses.table import read_guess
from ocp.nlp import HESSIANS, SOLVERS, SolverOptions
from ocp.nlp.scaling_text import check_scaling, rule
from ocp.options import MethodOptions
from ocp.transcription.charts import STATES
from ocp.transcription.program import How, kernels_for


@dataclass(frozen=True)
class DirectOptions(MethodOptions):
    """Of methods that make a nonlinear program.

    states: "coordinates", or "tangent" unknowns about states that are centred anew between passes (floating bases).
    guess: what to start from, "given", "dynamics", "simulated", "coarse", "multistart", or "auto", one after another until one
        converges (``ocp.guesses.table``); "coarse 10", "multistart 3": one start alone.
    max_iterations, tolerance, hessian, solver, scaling: of the nonlinear program, see ``ocp.nlp.SolverOptions``; scaling may also
        hold the factors themselves, see ``ocp.nlp.scaling_text``.
    """

    CHOICES: ClassVar[Mapping[str, Collection[str]]] = {
        **MethodOptions.CHOICES, "states": STATES, "hessian": HESSIANS, "solver": SOLVERS}

    states: str = "coordinates"
    guess: str = "auto"
    hessian: str = "exact"
    solver: str = "ipopt"
    scaling: str = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        read_guess(self.guess, f"{self.METHOD}.guess")
        check_scaling(self.scaling, f"{self.METHOD}.scaling")
        self.nlp()

    def nlp(self) -> SolverOptions:
        """Of the nonlinear program."""
        return SolverOptions(max_iterations=self.max_iterations, tolerance=self.tolerance, hessian=self.hessian,
                             solver=self.solver, scaling=rule(self.scaling))

    def how(self) -> How:
        """To build the program."""
        return How(self.states, self.derivatives, getattr(self, "execution", "generated"), kernels_for(self.solver, self.kernels),
                   self.hessian == "gauss_newton")
