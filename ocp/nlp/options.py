"""User's options of the solution of a nonlinear program."""

from __future__ import annotations

from dataclasses import dataclass

from ocp.errors import ProblemError, check_choices, check_counts, check_fractions

HESSIANS = ("exact", "gauss_newton", "limited_memory")
SOLVERS = ("ipopt", "interior_point", "fatrop")
SCALINGS = ("none", "bounds", "jacobian", "auto", "guess")

#: what a solver cannot do, and why
REFUSED = {
    ("fatrop", "limited_memory"): "FATROP has no quasi-Newton update; use hessian exact or gauss_newton, or solver ipopt",
    ("interior_point", "limited_memory"): "our interior-point method has no quasi-Newton update; use hessian exact or "
                                          "gauss_newton, or solver ipopt",
}


@dataclass(frozen=True)
class SolverOptions:
    """max_iterations; tolerance: scaled KKT error and unscaled constraint violation.

    hessian: "exact"; "gauss_newton", where the program brings one; "limited_memory" (BFGS from gradients, IPOPT only)
    solver: "ipopt" (interior point, sparse), "interior_point" (the same method in compiled loops along the intervals, ours),
        "fatrop" (interior point on stages)
    scaling: "none", "bounds", "jacobian" or "auto", see ``ocp.nlp.scaling``; IPOPT scales by gradients on its own besides
    """

    max_iterations: int = 1000
    tolerance: float = 1e-9
    hessian: str = "exact"
    solver: str = "ipopt"
    scaling: str = "none"

    def __post_init__(self) -> None:
        check_counts(self, {"max_iterations": 0}, "")
        check_fractions(self, ("tolerance",), "")
        check_choices(self, {"hessian": HESSIANS, "solver": SOLVERS, "scaling": SCALINGS}, "")
        if (self.solver, self.hessian) in REFUSED:
            raise ProblemError(f"solver {self.solver} with hessian {self.hessian}: {REFUSED[self.solver, self.hessian]}")


#: the name that options had when IPOPT was the only solver
IpoptOptions = SolverOptions
