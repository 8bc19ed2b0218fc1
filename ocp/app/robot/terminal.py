"""What ``ocp robot`` prints and draws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape

from dynamics import algorithms as alg
from dynamics.mechanism import Mechanism
from dynamics.model.model import Model
from ocp.app.robot import facts
from ocp.app.screen import grid, wide_console

MANY = 12  # notes beyond which equals are counted


def print_robot(robot: Mechanism, what: str, console: Console | None = None) -> None:
    """Everything that problem files may name."""
    out, model = console or wide_console(), robot.model
    out.print(f"[bold]{escape(model.name)}[/]  ({escape(what)})", soft_wrap=True)
    out.print(f"  {len(model.bodies)} bodies, {model.mass:.6g} kg; nq = {model.nq}, nv = {model.nv}, nu = {robot.nu}; gravity "
              f"[{', '.join(f'{g:g}' for g in model.gravity)}] m/s^2", markup=False, soft_wrap=True)
    _print(out, "joints", ("name", "kind", ">lower", ">upper", ">velocity", ">effort"), facts.joint_rows(robot), "rad or m")
    drives = facts.drive_rows(robot)
    plain = all(row[1] == "motor" and row[0] == row[2] for row in drives)
    if plain and drives:
        out.print("\n[bold]actuators[/]  a motor at each of: " + escape(", ".join(row[0] for row in drives)), soft_wrap=True)
    else:
        _print(out, "actuators", ("name", "kind", "drives", ">lower", ">upper"), drives, "N m or N")
    if drives and (free := facts.undriven(robot)):
        out.print(f"  not driven: {', '.join(free)}", markup=False, soft_wrap=True)
    _print(out, "bodies", ("name", "parent", "joint", ">mass [kg]", "frames"), facts.body_rows(model), folded="frames")
    _print(out, "named configurations", ("name", "coordinates"), facts.configuration_rows(model), folded="coordinates")
    for kind, items in (("forces", robot.forces), ("constraints", robot.constraints)):
        if items:
            out.print(f"\n[bold]{kind}[/]  " + escape(", ".join(item.name for item in items)), soft_wrap=True)
    _print_notes(out, model.notes)


def _print(out: Console, title: str, headings: Sequence[str], rows: facts.Rows, unit: str = "", folded: str | None = None) -> None:
    if not rows:
        return
    table = grid(*(escape(heading) for heading in headings), pad=2, folded=folded)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    out.print(f"\n[bold]{title}[/]{f'  [dim]{unit}[/]' if unit else ''}")
    out.print(table)


def _print_notes(out: Console, notes: Sequence[str]) -> None:
    if notes:
        out.print(f"\n[bold]noted[/]  {len(notes)}: what was changed or left out")
    for note in notes[:MANY]:
        out.print(f"  {note}", markup=False, soft_wrap=True)
    if len(notes) > MANY:
        out.print(f"  ... and {len(notes) - MANY} more: --notes shows them all")


def resting(model: Model) -> np.ndarray:
    """A configuration [nq] inside all limits: the first named one, else the neutral one moved into them."""
    if model.configurations:
        return np.asarray(next(iter(model.configurations.values())), dtype=float)
    q, lower, upper = np.array(alg.neutral(model), dtype=float), model.limit("lower"), model.limit("upper")
    outside = (q < lower) | (q > upper)
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isfinite(lower) & np.isfinite(upper), (lower + upper) / 2, np.clip(0.0, lower, upper))
    q[outside] = middle[outside]
    return q


def draw_robot(robot: Mechanism, path: Path) -> Path:
    """A picture of the robot in its resting configuration, as PNG."""
    from ocp.app.pages.ik_picture import draw

    model, q = robot.model, resting(robot.model)
    words = next(iter(model.configurations), "") or "neutral, moved into its limits"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(draw(model, q, q, (), model.name, f"{len(model.bodies)} bodies, {model.mass:.4g} kg; configuration: {words}"))
    return path


__all__ = ["draw_robot", "print_robot", "resting"]
