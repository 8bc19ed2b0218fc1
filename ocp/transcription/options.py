"""What the direct methods have in common among their options: choices that are checked, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dynamics.errors import near
from ocp.derivatives import DERIVATIVES
from ocp.errors import ProblemError
from ocp.guesses.cascade import read_guess
from ocp.nlp import HESSIANS, SOLVERS, SolverOptions
from ocp.nlp.scaling_text import check_scaling, rule
from ocp.transcription.charts import STATES
from ocp.transcription.kernels import KERNELS
from ocp.transcription.program import How, kernels_for

CHOICES: Mapping[str, Sequence[str]] = {
    "states": STATES, "hessian": HESSIANS, "solver": SOLVERS, "derivatives": DERIVATIVES, "kernels": KERNELS}


def check_options(options: Any, method: str, own: Mapping[str, Sequence[str]]) -> None:
    """Raise ProblemError for what is none of the known choices, ``own`` and common ones, or cannot be read."""
    for name, known in {**own, **CHOICES}.items():
        value = getattr(options, name)
        if value not in known:
            raise ProblemError(f"must be one of {', '.join(known)}, got {value!r}{near(str(value), known)}",
                               where=f"{method}.{name}")
    read_guess(options.guess, f"{method}.guess")
    check_scaling(options.scaling, f"{method}.scaling")


def solver_options(options: Any) -> SolverOptions:
    """Of the nonlinear program."""
    return SolverOptions(max_iterations=options.max_iterations, tolerance=options.tolerance, hessian=options.hessian,
                         solver=options.solver, scaling=rule(options.scaling))


def how(options: Any, execution: str) -> How:
    """To build the program; execution: see ``ocp.derivatives``."""
    return How(options.states, options.derivatives, execution, kernels_for(options.solver, options.kernels),
               options.hessian == "gauss_newton")
