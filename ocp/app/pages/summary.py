"""What the commands print at their end: the outcome of a solve and the verdict on a file."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from ocp.app.files.load import LoadedProblem, unlimited_soles
from ocp.app.pages.folders import CHECKPOINT
from ocp.app.pages.legs import chosen, legs
from ocp.app.pages.results import FROZEN, choice, with_bar
from ocp.app.pipeline import Outcome
from ocp.app.screen import grid, say_robot, say_where, wide_console
from ocp.app.sentences import ending, remarks, sentence, sentences, tried
from ocp.app.sentences.certificate import CHECKS
from ocp.methods import METHODS
from ocp.problem import Kind


def print_outcome(outcome: Outcome, console: Console | None = None) -> None:
    """Status, objective, reference, certificate and where the run lies."""
    out = console or wide_console()
    solution, problem = outcome.solution, outcome.solution.problem
    certificate = solution.certificate
    verdict = "[bold green]certified[/]" if solution.ok else "[bold red]not certified[/]"
    out.print(f"\n[bold]{escape(problem.name)}[/]  {solution.method}: {verdict}", soft_wrap=True)
    out.print(f"  {ending(solution)}", soft_wrap=True, markup=False)
    out.print(f"  objective   {with_bar(solution)}", markup=False)
    if problem.reference is not None:
        reference = problem.reference
        gap = abs(solution.objective - reference.objective) / (abs(reference.objective) or 1.0)
        word = "agrees with" if gap <= reference.tolerance else "differs from"
        out.print(f"              {word} the reference {reference.objective:.10g} (relative difference {gap:.2g}, "
                  f"tolerance {reference.tolerance:.2g})", soft_wrap=True, markup=False)
    found = legs(solution)
    durations, parameters = chosen(problem, found)
    for leg in found if len(found) > 1 else ():
        free = " (chosen)" if leg.phase.name in durations else ""
        out.print(f"  phase       {leg.phase.name}: {leg.span[0]:.6g} to {leg.span[1]:.6g} s, duration "
                  f"{leg.span[1] - leg.span[0]:.9g} s{free}", soft_wrap=True, markup=False)
    if len(found) == 1 and durations:
        out.print(f"  duration    {found[0].span[1] - found[0].span[0]:.9g} s (chosen)", soft_wrap=True, markup=False)
    for name, value in parameters.items():
        out.print(f"  parameter   {name} = {value:.9g} (chosen)", soft_wrap=True, markup=False)
    for note in remarks(solution, without=(Kind.DURATION_CHOSEN, Kind.PARAMETER_CHOSEN)):
        out.print(f"  note        {note}", soft_wrap=True, markup=False)
    for rule in tried(solution):
        out.print(f"  tried       {rule}", soft_wrap=True, markup=False)
    where = "" if outcome.folder is None or not solution.freeze else f"; the lines that freeze it: {outcome.folder / FROZEN}"
    out.print(f"  choice      {choice(solution)}{where}", soft_wrap=True, markup=False)
    if certificate is not None:
        table = grid("  certificate", ">value", ">tolerance", "", pad=2)
        for check in certificate.checks:
            table.add_row(f"  {CHECKS[check.kind]}", f"{check.value:.2e}", f"{check.tolerance:.1e}", _mark(check.holds))
        worst = max(certificate.violations, key=lambda v: v.at_knots / v.tolerance, default=None)
        if worst is not None:
            table.add_row(f"  largest violation ({worst.label})", f"{worst.at_knots:.2e}", f"{worst.tolerance:.1e}",
                          _mark(worst.holds))
            beside = max(certificate.violations, key=lambda v: v.between_knots)
            table.add_row(f"  between knots ({beside.label})", f"{beside.between_knots:.2e}", f"{beside.tolerance_between:.1e}",
                          _mark(beside.between_knots <= beside.tolerance_between))
        out.print(table)
        if certificate.second_order is not None:
            out.print(f"  optimum     {sentence(certificate.second_order.finding)}", soft_wrap=True, markup=False)
        if certificate.resolution is not None:
            out.print(f"  searched    every {certificate.resolution:.1e} s, and where functions break or turn sharply",
                      soft_wrap=True)
        for failure in sentences(certificate.failures):
            out.print(f"  [red]fails[/]       {escape(failure)}", soft_wrap=True)
    seconds = outcome.seconds
    out.print(f"  time        read {seconds['read']:.2f} s, solve and certify {seconds['solve']:.2f} s, "
              f"write {seconds['write']:.2f} s; {len(solution.iterations)} iterations", soft_wrap=True)
    say_where(out, outcome.folder)
    if outcome.folder is not None and (outcome.folder / CHECKPOINT).is_file():
        out.print(f"  to go on    ocp resume {outcome.folder}", soft_wrap=True, markup=False)


def print_check(loaded: LoadedProblem, console: Console | None = None) -> None:
    """Sizes of a valid problem and, for every method, whether it can enforce all that is asked."""
    out = console or wide_console()
    problem = loaded.problem
    out.print(f"{problem.name}: valid", markup=False)
    for phase in problem.phases:
        label = f"phase {phase.name}: " if len(problem.phases) > 1 else ""
        unknown = f"{len(phase.system.algebraic)} algebraic unknowns, " if phase.system.algebraic else ""
        out.print(f"  {label}{phase.system.nx} states, {len(phase.system.controls)} controls, {unknown}{len(phase.costs)} costs, "
                  f"{len(phase.constraints)} constraints", markup=False)
        for index, lower, upper in phase.free_parameters:
            out.print(f"  {label}chooses {phase.system.parameters[index]} within [{lower:g}, {upper:g}]", markup=False)
    if loaded.model is not None:
        say_robot(out, loaded.model)
    for found in unlimited_soles(loaded.file):
        out.print(f"  {sentence(found)}", markup=False)
    for method in METHODS.values():
        reasons = method.unsupported(problem)
        default = " (default)" if method.name == loaded.method else ""
        out.print(f"  {method.name}{default}: {'can solve it' if not reasons else 'cannot enforce'}", markup=False)
        for reason in reasons:
            out.print(f"    - {reason}", markup=False, soft_wrap=True)


def _mark(holds: bool) -> str:
    return "[green]holds[/]" if holds else "[red]fails[/]"
