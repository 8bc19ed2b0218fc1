"""Terminal output at the end of commands: the outcome of a solve, its certificate and files."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from dynamics.constraints import Contact
from ocp.app.files.load import LoadedProblem
from ocp.app.pages.folders import CHECKPOINT
from ocp.app.pages.legs import chosen, legs
from ocp.app.pages.results import FROZEN, choice, with_bar
from ocp.app.pipeline import Outcome
from ocp.app.screen import grid, line, say_robot, say_where, wide_console
from ocp.app.sentences import ending, remarks, sentence, sentences, tried
from ocp.app.sentences.certificate import CHECKS
from ocp.explain import contact_findings, infinite_ends
from ocp.methods import METHODS
from ocp.problem import Kind, Phase, Problem

SHOWN = 8  # reasons why a method cannot serve


def print_outcome(outcome: Outcome, console: Console | None = None) -> None:
    """Status, objective, reference, certificate and where the run lies."""
    out = console or wide_console()
    solution, problem = outcome.solution, outcome.solution.problem
    certificate = solution.certificate
    verdict = "[bold green]certified[/]" if solution.ok else "[bold red]not certified[/]"
    out.print(f"\n[bold]{escape(problem.name)}[/]  {solution.method}: {verdict}", soft_wrap=True)
    line(out, f"  {ending(solution)}")
    for said in () if solution.ok else _infinite(problem):
        line(out, f"  cause       {said}")
    out.print(f"  objective   {with_bar(solution)}", markup=False)
    if problem.reference is not None:
        reference = problem.reference
        gap = abs(reference.off(solution.objective))
        word = "agrees with" if gap <= reference.tolerance else "differs from"
        line(out, f"              {word} the reference {reference.objective:.10g} (relative difference {gap:.2g}, "
                  f"tolerance {reference.tolerance:.2g})")
    found = legs(solution)
    durations, parameters = chosen(problem, found)
    for leg in found if len(found) > 1 else ():
        free = " (chosen)" if leg.phase.name in durations else ""
        line(out, f"  phase       {leg.phase.name}: {leg.span[0]:.6g} to {leg.span[1]:.6g} s, duration "
                  f"{leg.span[1] - leg.span[0]:.9g} s{free}")
    if len(found) == 1 and durations:
        line(out, f"  duration    {found[0].span[1] - found[0].span[0]:.9g} s (chosen)")
    for name, value in parameters.items():
        line(out, f"  parameter   {name} = {value:.9g} (chosen)")
    for note in remarks(solution, without=(Kind.DURATION_CHOSEN, Kind.PARAMETER_CHOSEN)):
        line(out, f"  note        {note}")
    for rule in tried(solution):
        line(out, f"  tried       {rule}")
    where = "" if outcome.folder is None or not solution.freeze else f"; to reproduce it: {outcome.folder / FROZEN}"
    line(out, f"  choice      {choice(solution)}{where}")
    if certificate is not None:
        table = grid("  certificate", ">value", ">tolerance", "", pad=2)
        for check in certificate.checks:
            table.add_row(f"  {CHECKS[check.kind]}", f"{check.value:.2e}", f"{check.tolerance:.1e}", _mark(check.holds))
        worst = max(certificate.violations, key=lambda v: v.share, default=None)
        if worst is not None:
            table.add_row(f"  largest violation ({worst.label})", f"{worst.at_knots:.2e}", f"{worst.tolerance:.1e}",
                          _mark(worst.holds))
            beside = max(certificate.violations, key=lambda v: v.between_knots)
            table.add_row(f"  between knots ({beside.label})", f"{beside.between_knots:.2e}", f"{beside.tolerance_between:.1e}",
                          _mark(beside.between_knots <= beside.tolerance_between))
        out.print(table)
        if certificate.second_order is not None:
            line(out, f"  optimum     {sentence(certificate.second_order.finding)}")
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
        line(out, f"  to go on    ocp resume {outcome.folder}")


def _infinite(problem: Problem) -> list[str]:
    """The ends at which no motion can begin or end, in words."""
    return [f"{o.label} is infinite at the {o.location}{f' of {problem.phases[o.phase].name}' if len(problem.phases) > 1 else ''}: "
            f"{o.sentence}" for o in infinite_ends(problem)]


def print_check(loaded: LoadedProblem, console: Console | None = None) -> bool:
    """Sizes of a valid problem and, for every method, whether it can enforce what is asked. Whether motions can begin and end."""
    out = console or wide_console()
    problem = loaded.problem
    contacts = contact_findings(problem)
    infinite = [*_infinite(problem), *sentences(one for one in contacts if one.kind is Kind.CONTACTS_OUT_OF_REACH)]
    out.print(f"{problem.name}: valid" + "".join(f", but {said}" for said in infinite), markup=False, soft_wrap=True)
    for said in sentences(one for one in contacts if one.kind is Kind.CONTACTS_REPEAT):
        line(out, f"  note: {said}")
    touches = any(_contacts(phase) for phase in problem.phases)
    for phase in problem.phases:
        label = f"phase {phase.name}: " if len(problem.phases) > 1 else ""
        unknown = f"{len(phase.system.algebraic)} algebraic unknowns, " if phase.system.algebraic else ""
        out.print(f"  {label}{phase.system.nx} states, {len(phase.system.controls)} controls, {unknown}{len(phase.costs)} costs, "
                  f"{len(phase.constraints)} constraints{_timing(phase) if touches else ''}", markup=False)
        for index, lower, upper in phase.free_parameters:
            out.print(f"  {label}chooses {phase.system.parameters[index]} within [{lower:g}, {upper:g}]", markup=False)
    if loaded.model is not None:
        say_robot(out, loaded.model)
    for method in METHODS.values() if not infinite else ():
        reasons = method.unsupported(problem)
        default = " (default)" if method.name == loaded.method else ""
        out.print(f"  {method.name}{default}: {'can solve it' if not reasons else 'cannot enforce'}", markup=False)
        for reason in reasons[:SHOWN]:
            line(out, f"    - {reason}")
        if len(reasons) > SHOWN:
            line(out, f"    - and {len(reasons) - SHOWN} more")
    return not infinite


def _contacts(phase: Phase) -> list[str]:
    return [] if phase.system.robot is None else [c.name for c in phase.system.robot.constraints if isinstance(c, Contact)]


def _timing(phase: Phase) -> str:
    """How long a phase takes, and on which contacts the robot stands in it."""
    low, high, names = phase.duration.lower, phase.duration.upper, _contacts(phase)
    return f"; {f'{low:g} s' if low == high else f'{low:g} to {high:g} s'}, {'on ' + ', '.join(names) if names else 'in flight'}"


def _mark(holds: bool) -> str:
    return "[green]holds[/]" if holds else "[red]fails[/]"
