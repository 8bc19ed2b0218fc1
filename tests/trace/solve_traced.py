"""Solves one problem in this process and writes a line for each nonlinear program and each shooting search on the way.

    python -P solve_traced.py SET NAME OUT

Only the lowest level is watched, so that the same file traces any version whose ``ocp.nlp.Solver``, shooting engine and
``Solution`` have kept their names. A line is written as soon as its solve ends: what came before a crash is kept.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: digits of objectives and of the points of a mesh
DIGITS = 9
#: resolved options that say which way the answer was found; those of kernels and derivatives do not decide it
RESOLVED = ("scheme", "degree", "controls", "guess", "form", "refine")
#: options that shape the mesh, by method, where there is no refined one
MESHES = ("intervals", "degree")

Say = Callable[[str], None]


def number(value: Any) -> str:
    return f"{float(value) + 0.0:.{DIGITS}g}"  # no negative zero


def rounded(text: str) -> str:
    """The text with its decimal fractions to ``DIGITS`` digits."""
    return re.sub(r"\d+\.\d+(?:[eE][-+]?\d+)?", lambda found: number(found.group()), text)


def watch_programs(say: Say) -> None:
    from ocp.nlp import Solver

    kind: Any = Solver
    plain = Solver.solve

    def solve(self: Any, *given: Any, **named: Any) -> Any:
        head = f"nlp {self.nlp.n} unknowns {self.nlp.m} constraints {self.options.solver}"
        try:
            found = plain(self, *given, **named)
        except BaseException as error:
            say(f"{head} raised {type(error).__name__}")
            raise
        say(f"{head} {found.status.name} {len(found.iterations)} iterations objective {number(found.f)}")
        return found

    kind.solve = solve


def watch_searches(say: Say) -> None:
    """Of iLQR."""
    from ocp.shooting.engine.search import Search

    kind: Any = Search
    plain = Search.run

    def run(self: Any) -> Any:
        try:
            found = plain(self)
        except BaseException as error:
            say(f"search {self.horizon.stages} stages raised {type(error).__name__}")
            raise
        status = found[0] if isinstance(found, tuple) else found.status
        say(f"search {self.horizon.stages} stages {status.name} {len(self.log)} iterations cost {number(self.objective)}")
        return found

    kind.run = run


def watch_minimisers(say: Say) -> None:
    """Of the method with adjoint gradients, in the units of its unknowns and objective."""
    import scipy.optimize

    plain: Any = scipy.optimize.minimize

    def minimize(fun: Any, x0: Any, *given: Any, **named: Any) -> Any:
        found = plain(fun, x0, *given, **named)
        say(f"minimize {len(x0)} unknowns ending {found.status} {found.nit} iterations {found.nfev} evaluations "
            f"objective {number(found.fun)}")
        return found

    scipy.optimize.minimize = minimize


def load(kind: str, name: str) -> Any:
    """The loaded problem of this name, from the checkout that ``ocp`` is imported from."""
    import ocp
    from ocp.app.files.load import load_problem, load_text

    root = Path(ocp.__file__).resolve().parents[1]
    if root != Path.cwd():
        raise RuntimeError(f"the code is that of {root}, not of {Path.cwd()}")
    if kind == "hostile":
        sys.path.append(str(root / "tests" / "support"))
        import hostile

        return load_text(next(case.text for case in hostile.cases() if case.name == name))
    return load_problem(root / ("tests/first_files" if kind == "first_files" else "problems") / f"{name}.yaml")


def asked(kind: str, loaded: Any) -> tuple[str, dict[str, Any], dict[str, float]]:
    """Method, its options and tolerances of the certificate: those of the file, or what is chosen where it has none."""
    if kind != "gallery_defaults":
        return loaded.method, loaded.options_for(loaded.method), loaded.accept
    in_steps = all(phase.steps is not None for phase in loaded.problem.phases)
    return "multiple_shooting" if in_steps else "collocation", {}, {}


def mesh(solution: Any) -> str:
    """The refined mesh, or what the equal one was made by."""
    if "mesh" in solution.freeze:
        return rounded(str(solution.freeze["mesh"]))
    values = {**solution.options, **solution.freeze}
    return " ".join(f"{name} {values[name]}" for name in MESHES if name in values)


def failed(solution: Any) -> list[str]:
    """Names of the checks of the certificate that fail."""
    certificate = solution.certificate
    if certificate is None:
        return []
    second = certificate.second_order is not None and not certificate.second_order.holds
    return [*(["second order"] if second else []), *(name_of(check) for check in certificate.checks if not check.holds),
            *(f"constraint {getattr(one, 'label', one.name)}" for one in certificate.violations if not one.holds)]


def name_of(check: Any) -> str:
    """Of a check of the certificate; up to version 0.16 it had one of its own."""
    if hasattr(check, "name"):
        return str(check.name)
    from ocp.app.sentences.certificate import CHECKS

    return CHECKS[check.kind]


def rules(solution: Any) -> list[str]:
    """Rules of the strategy that fired: on what diagnosis, whether their remedy was taken, what it cost."""
    return [f"rule {one.rule} on {one.diagnosis.kind}{'' if one.taken else ' in vain'} {one.programs} programs {one.iterations} "
            "iterations" for one in getattr(solution, "strategy", ())]


def conclusion(solution: Any) -> list[str]:
    judged = "no certificate" if solution.certificate is None else "certified" if solution.ok else "refused"
    chosen = [f"{name} {solution.freeze[name]}" for name in RESOLVED if name in solution.freeze]
    return [*rules(solution), f"fails {'; '.join(failed(solution)) or 'nothing'}",
            f"resolved {rounded(', '.join(chosen)) or 'nothing'}",
            f"mesh {len(solution.trajectory.t)} knots {mesh(solution)}",
            f"end {solution.status.name} {judged} {len(solution.iterations)} iterations objective {number(solution.objective)}"]


def main(kind: str, name: str, out: str) -> None:
    with Path(out).open("a", encoding="utf-8", buffering=1) as file:
        def say(line: str) -> None:
            file.write(" ".join(line.split()) + "\n")

        try:
            from ocp.certify import Tolerances
            from ocp.methods import solve

            loaded = load(kind, name)
            watch_programs(say)
            watch_minimisers(say)
            method, options, tolerances = asked(kind, loaded)
            if method == "ilqr":  # Numba takes half a second to load
                watch_searches(say)
            # somebody looks on, as at the command line: else iLQR counts iterations in batches as long as a clock says
            found = solve(loaded.problem, method, options, tolerances=Tolerances(**tolerances), progress=lambda row: None)
        except Exception as error:
            say(f"end raised {type(error).__name__}")
            raise
        for line in conclusion(found):
            say(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
