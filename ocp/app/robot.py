"""``ocp robot``: which robot a command names, what there is to know of it by name, and what is printed and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape

from dynamics import algorithms as alg
from dynamics.errors import ModelError, near
from dynamics.mechanism import Mechanism
from dynamics.model.model import Model
from ocp.app.files.robot.model import COLLECTION
from ocp.app.screen import grid, line, wide_console
from ocp.errors import ProblemError

Rows = list[tuple[str, ...]]
FREE = "free"


def joint_rows(robot: Mechanism) -> Rows:
    """Name, kind, limits of position, velocity and effort of every joint; followers of others say of which."""
    model = robot.model
    rows: Rows = []
    for i, body in enumerate(model.bodies):
        joint = body.joint
        if not model.kind(i).nv:
            continue
        if joint.mimic is not None:
            offset = f" {joint.mimic.offset:+.4g}" if joint.mimic.offset else ""
            follows = f"{joint.kind}, follows {joint.mimic.multiplier:+.4g}*{joint.mimic.leader}{offset}"
            rows.append((joint.name, follows, "", "", "", ""))
            continue
        limits = (_numbers(getattr(joint.limits, which)) for which in ("lower", "upper", "velocity", "effort"))
        rows.append((joint.name, joint.kind, *limits))
    return rows


def drive_rows(robot: Mechanism) -> Rows:
    """Name, what it drives, and limits of every motor and thruster."""
    rows: Rows = []
    for motor in robot.motors:
        where = " ".join(f"{name}" if ratio == 1 else f"{ratio:+.4g}*{name}" for name, ratio in motor.gears)
        kind = "motor" if len(motor.gears) == 1 else "transmission"
        rows.append((motor.name, kind, where, _number(motor.lower), _number(motor.upper)))
    for thruster in robot.thrusters:
        rows.append((thruster.name, "thruster", f"on {thruster.frame}", _number(thruster.lower), _number(thruster.upper)))
    return rows


def body_rows(model: Model) -> Rows:
    """Name, parent, the joint between, mass [kg] and the frames of every body."""
    frames = {i: [f.name for f in model.frames if f.body == i] for i in range(-1, len(model.bodies))}
    rows: Rows = [("world", "", "", "", ", ".join(frames[-1]))] if frames[-1] else []
    for i, body in enumerate(model.bodies):
        parent = "world" if body.parent < 0 else model.bodies[body.parent].name
        rows.append((body.name, parent, body.joint.name, f"{body.inertia.mass:.4g}", ", ".join(frames[i])))
    return rows


def single_joints(model: Model) -> dict[str, int]:
    """Joints of one degree of freedom that follow no other, and where each sits in q."""
    return {body.joint.name: model.q_slice(i).start for i, body in enumerate(model.bodies)
            if body.joint.mimic is None and model.kind(i).nv == model.kind(i).nq == 1}


def ends(model: Model) -> tuple[str, ...]:
    """Frames at the ends of the tree, the last of each branch: where a tool or a foot is."""
    found = []
    for i, body in enumerate(model.bodies):
        if not model.children(i):
            own = [f.name for f in model.frames if f.body == i]
            found.append(own[-1] if own else body.name)
    return tuple(found)


def _numbers(values: Sequence[float] | None) -> str:
    return FREE if values is None or not np.isfinite(values).any() else " ".join(map(_number, values))


def _number(value: float) -> str:
    return FREE if not np.isfinite(value) else f"{value:.4g}"


SUFFIXES = (".urdf", ".xml")
CHOICES = {"root": ("fixed", "free_flyer", "planar"), "mimic": ("couple", "independent")}  # of URDF files


@dataclass(frozen=True)
class NamedRobot:
    """mechanism: with its drives; file: as problem files name it; path: where it lies; stem: for names; what: in words."""

    mechanism: Mechanism
    file: str
    path: Path
    root: str

    @property
    def stem(self) -> str:
        """The file name without its ending, for outputs."""
        return self.file.removeprefix(COLLECTION).replace("/", "-") if self.file.startswith(COLLECTION) else self.path.stem

    @property
    def identity(self) -> str:
        """Identity among robots, of the same name too."""
        return f"{self.path.resolve()}, root {self.root}"

    @property
    def what(self) -> str:
        """The file and the root link, for headings."""
        return self.file + (f", root {self.root}" if self.path.suffix == ".urdf" else "")


def read_robot(name: str, **options: str | None) -> NamedRobot:
    """The robot of a name or path. options: those of CHOICES. Raises ProblemError and ModelError, with near misses."""
    from ocp.app.face.robot import Robot
    from ocp.app.files.robot.model import robot_path

    path = Path(name)
    if path.suffix not in SUFFIXES and not name.startswith(COLLECTION):
        if path.suffix in (".yaml", ".yml"):
            raise ProblemError("is a problem file; use ocp show or ocp check", where=name)
        if path.exists():
            raise ProblemError(f"expected a robot file ({', '.join(SUFFIXES)})", where=name)
        name = COLLECTION + name
    given = {key: value for key, value in options.items() if value is not None}
    for key, value in given.items():
        if value not in CHOICES[key]:
            raise ProblemError(f"no such choice{near(value, CHOICES[key])}", where=f"--{key} {value}")
    try:
        place = robot_path(name, Path())
    except ProblemError as error:
        raise ProblemError(error.message, where=name) from None
    except ModelError as error:
        if not name.startswith(COLLECTION) or path.suffix:
            raise
        raise ProblemError(f"no such file, and {error}", where=str(path)) from None
    return NamedRobot(Robot(name, _written=name, **given).mechanism, name, place, given.get("root", "fixed"))


MAX_NOTES_SHOWN = 12  # notes beyond which equals are counted


def print_robot(robot: Mechanism, what: str, console: Console | None = None) -> None:
    """Everything that problem files may name."""
    out, model = console or wide_console(), robot.model
    out.print(f"[bold]{escape(model.name)}[/]  ({escape(what)})", soft_wrap=True)
    line(out, f"  {len(model.bodies)} bodies, {model.mass:.6g} kg; nq = {model.nq}, nv = {model.nv}, nu = {robot.nu}; gravity "
              f"[{', '.join(f'{g:g}' for g in model.gravity)}] m/s^2")
    _print(out, "joints", ("name", "kind", ">lower", ">upper", ">velocity", ">effort"), joint_rows(robot), "rad or m")
    drives = drive_rows(robot)
    plain = all(row[1] == "motor" and row[0] == row[2] for row in drives)
    if plain and drives:
        out.print("\n[bold]actuators[/]  a motor at each of: " + escape(", ".join(row[0] for row in drives)), soft_wrap=True)
    else:
        _print(out, "actuators", ("name", "kind", "drives", ">lower", ">upper"), drives, "N m or N")
    driven = {name for motor in robot.motors for name, _ in motor.gears}
    if drives and (free := [name for name in model.velocity_names if name not in driven]):
        line(out, f"  not driven: {', '.join(free)}")
    _print(out, "bodies", ("name", "parent", "joint", ">mass [kg]", "frames"), body_rows(model), folded="frames")
    named: Rows = [(name, " ".join(f"{x:.4g}" for x in q)) for name, q in model.configurations.items()]
    _print(out, "named configurations", ("name", "coordinates"), named, folded="coordinates")
    for kind, items in (("forces", robot.forces), ("constraints", robot.constraints)):
        if items:
            out.print(f"\n[bold]{kind}[/]  " + escape(", ".join(item.name for item in items)), soft_wrap=True)
    if model.notes:
        out.print(f"\n[bold]noted[/]  {len(model.notes)}: what was changed or left out")
    for note in model.notes[:MAX_NOTES_SHOWN]:
        line(out, f"  {note}")
    if len(model.notes) > MAX_NOTES_SHOWN:
        out.print(f"  ... and {len(model.notes) - MAX_NOTES_SHOWN} more: --notes shows them all")


def _print(out: Console, title: str, headings: Sequence[str], rows: Rows, unit: str = "", folded: str | None = None) -> None:
    if not rows:
        return
    out.print(f"\n[bold]{title}[/]{f'  [dim]{unit}[/]' if unit else ''}")
    out.print(grid(*map(escape, headings), rows=[list(map(escape, row)) for row in rows], pad=2, folded=folded))


def resting_name(model: Model) -> str | None:
    """The named configuration that a robot rests in: what its file calls home, else the first that is not merely MuJoCo's zero."""
    return min(model.configurations, key=lambda name: 0 if name == "home" else 1 + (name == "qpos0"), default=None)


def resting(model: Model) -> np.ndarray:
    """A configuration [nq]: the named one, else the neutral one moved into all limits."""
    if (name := resting_name(model)) is not None:
        return np.asarray(model.configurations[name], dtype=float)
    q, lower, upper = np.array(alg.neutral(model), dtype=float), model.limit("lower"), model.limit("upper")
    outside = (q < lower) | (q > upper)
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isfinite(lower) & np.isfinite(upper), (lower + upper) / 2, np.clip(0.0, lower, upper))
    q[outside] = middle[outside]
    return q


def picture_place(robot: NamedRobot, folder: Path) -> Path:
    """A file in the folder that is not there, or that holds an earlier picture of the same robot."""
    from itertools import count

    return next(place for k in count(1) if not (place := folder / f"{robot.stem}-robot{'' if k == 1 else f'-{k}'}.png").exists()
                or _drawn(place) == robot.identity)


def _drawn(path: Path) -> str | None:
    """Of which robot a picture is."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            return getattr(picture, "text", {}).get("Source")
    except (OSError, UnidentifiedImageError, ValueError):
        return None


def draw_robot(named: NamedRobot, path: Path) -> Path:
    """A picture of the robot in its resting configuration, as PNG."""
    from ocp.app.pages.ik_picture import draw

    model, q = named.mechanism.model, resting(named.mechanism.model)
    words = resting_name(model) or "neutral, moved into its limits"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(draw(model, q, q, (), model.name, f"{len(model.bodies)} bodies, {model.mass:.4g} kg; configuration: {words}",
                          source=named.identity))
    return path
