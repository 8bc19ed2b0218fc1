"""A file with a gait turned into the same file with phases, as a user would write them out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dynamics.constraints import Contact
from dynamics.mechanism import Mechanism
from dynamics.model.model import Model
from ocp.app.files.control.tasks import within
from ocp.app.files.problem.names import read_names, read_parameters
from ocp.app.files.robot import states as robot_state
from ocp.app.files.robot.forces_schema import Ground
from ocp.app.files.robot.gait_schema import Gait, RobotGait
from ocp.app.files.robot.loaded import guess_state, read_bounds
from ocp.app.files.robot.model import RESERVED, mechanism_of_file, read_mechanism, robot_numbers
from ocp.app.files.robot.schema import GuessState, RobotPhases, RobotSystem
from ocp.app.files.robot.start import read_start
from ocp.app.files.robot.system import names_configurations
from ocp.app.files.syntax import reader as lp
from ocp.app.files.syntax.findings import Findings
from ocp.app.files.syntax.yaml_source import KeyPath
from ocp.bridge import model_space
from ocp.gaits import PATTERNS, Schedule, Stretch, roles, swings_of
from ocp.gaits.postures import Course, pose_of, postures, stood

DIGITS = 6  # of configurations in the guess
INSTEAD = "ask for what shall become of it by costs: ocp init ROBOT --gait trot --mpc writes such a file"
Tree = dict[str, Any]
Copies = dict[KeyPath, KeyPath]


def expanded(file: RobotGait, findings: Findings, folder: Path) -> RobotPhases:
    """The file with phases in the place of its gait; ``findings`` goes on with its source. Raises ProblemError."""
    constants = read_names(findings, file, folder, RESERVED)
    numbers = robot_numbers(findings, constants, read_parameters(findings, constants, file.parameters, RESERVED))
    base = read_mechanism(lp.Section(numbers, file.system, ("system",)), folder, configurations=names_configurations([file.phase]))
    mechanism = None if base is None else mechanism_of_file(numbers, file.system, base)
    spec = file.gait if isinstance(file.gait, Gait) else Gait(pattern=file.gait)
    made = None if mechanism is None else _expansion(lp.Section(numbers, spec, ("gait",)), mechanism, file)
    if made is None or findings.found:
        findings.raised()
    tree, copies = made.tree(findings.source.tree)
    findings.source = replace(findings.source, tree=tree, copies=copies)
    return RobotPhases.model_validate(tree)


@lp.sound
def _expansion(section: lp.Section, robot: Mechanism, file: RobotGait) -> _Expansion:
    model, spec = robot.model, section.spec
    feet = {c.name: c for c in robot.constraints if isinstance(c, Contact)}
    if not feet:
        section.refuse("the robot has no contact in system.constraints to stand on")
    named = [*(("swings", name, name) for name in spec.swings), *(("landings", name, name) for name in spec.landings),
             *(("feet", role, name) for role, name in spec.feet.items())]
    for key, index, name in named:
        if name not in feet:
            lp.unknown(section.findings, name, list(feet), section.at(key, index), "contact in system.constraints")
    boxes = read_bounds(section.reader, robot, file.system.limits, file.phase.bounds)
    names = robot_state.RobotNames(section.reader, model, model_space(model), boxes.x, constraints=robot.constraints)
    start, posture = read_start(names, file.phase.start, ("phase",)), file.phase.guess.states
    likely = None if not isinstance(posture, GuessState) else guess_state(names, posture, start, ("phase", "guess", "states"))
    q0 = robot_state.complete(names, likely, start)[:model.nq]
    section.findings.settle()
    if file.mpc is not None:
        return _repeating(section, robot, file, feet, q0)
    schedule, landings = Schedule(*_times(section, model, feet, q0)), section.value("landings")
    levels = {name: [c.height] for name, c in feet.items()}
    for foot, own in levels.items():
        for k in range(len(schedule.swings[foot])):
            height = landings[foot][k].height if k < len(landings.get(foot, ())) else None
            own.append(own[-1] if height is None else height)
        if len(landings.get(foot, ())) >= len(own):
            section.refuse(f"{len(landings[foot])} landings, but the foot {foot!r} swings {len(own) - 1} times", "landings", foot)
    lift, stretches = section.value("height"), schedule.stretches(apex=section.value("height") > 0)
    course = Course(section.value("advance") or (0.0, 0.0), lift, landings, {foot: tuple(own) for foot, own in levels.items()},
                    spec.periodic)
    section.findings.settle()
    others = [c for c in robot.constraints if not isinstance(c, Contact)]
    path, speeds = postures(within(names), feet, schedule, stretches, course, q0, others)
    within_bounds = [np.clip(v, *names.bounds[model.nq:].T) for v in speeds]
    return _Expansion(model, file.system, section, feet, stretches, course, path, within_bounds)


def _repeating(section: lp.Section, robot: Mechanism, file: RobotGait, feet: Mapping[str, Contact], q0: np.ndarray) -> _Repeating:
    """The gait of a receding horizon. A table of swings repeats as a whole; a pattern from its first swing on, and after the last
    one all feet stand as long as between two."""
    spec = section.spec
    for key in filter(None, (spec.differs((name,)) for name in ("advance", "landings", "shares", "periodic", "touchdown"))):
        section.refuse(f"with a section 'mpc' the gait repeats, and feet touch down softly; {INSTEAD}", key, at_key=True)
    if file.phase.final is not None:
        section.findings.add(("phase", "final"), f"with a section 'mpc' the gait repeats and has no end; {INSTEAD}", at_key=True)
    times, duration = _times(section, robot.model, feet, q0)
    lift = section.value("height")
    section.findings.settle()
    begin, swings = 0.0, [swing for own in times.values() for swing in own]
    if swings and not spec.swings:
        stance = section.value("stance")
        begin = min(lift for lift, _ in swings)
        duration = max(land for _, land in swings) + max(0.0, PATTERNS[spec.pattern].stance if stance is None else stance)
    schedule = Schedule(times, duration)
    course = Course((0.0, 0.0), lift, {}, {name: (c.height,) * (len(times[name]) + 1) for name, c in feet.items()})
    return _Repeating(robot.model, file.system, section, feet, schedule.stretches(), course, [q0], [], schedule, begin)


@dataclass(frozen=True)
class _Expansion:
    """Parts of the phases. feet: contacts by name; path, speeds: configurations [nq] and velocities [nv] where the stretches begin
    and the last ends."""

    model: Model
    system: RobotSystem
    section: lp.Section
    feet: Mapping[str, Contact]
    stretches: tuple[Stretch, ...]
    course: Course
    path: list[np.ndarray]
    speeds: list[np.ndarray]

    def tree(self, whole: Tree) -> tuple[Tree, Copies]:
        """The file's tree with phases, and where their parts stand in the file."""
        copies: Copies = {}
        system, phase = {**whole["system"]}, whole["phase"]
        system["constraints"] = self._contacts(system["constraints"], copies)
        phases = []
        for i, (name, one) in enumerate(zip(self._names(), self.stretches, strict=True)):
            copies[("phases", i)] = ("gait",)
            phases.append({"name": name, "contacts": [self._contact(foot, one) for foot in one.standing],
                           "duration": self._duration(one), **self._reset(one), **self._shared(phase, i, copies),
                           **self._guess(i, one)})
        linkages = [*whole.get("linkages", ()), *self._linkages(phases[0]["name"], phases[-1]["name"])]
        kept = {key: value for key, value in whole.items() if key not in ("gait", "phase")}
        return {**kept, "system": system, "phases": phases, **({"linkages": linkages} if linkages else {})}, copies

    # ---- phases ---------------------------------------------------------------------------------------------------------
    def _names(self) -> list[str]:
        found: list[str] = []
        for one in self.stretches:
            feet = " ".join(re.sub(r"\W+", "_", foot).strip("_") for foot in one.swinging)
            name = "stand" if not one.swinging else f"swing {feet}" if one.standing else "flight"
            count = sum(known == name or known.startswith(f"{name} ") and known[len(name) + 1:].isdigit() for known in found)
            found.append(name if not count else f"{name} {count + 1}")
        return found

    def _duration(self, one: Stretch) -> Any:
        length = round(one.length, 12)
        if self.section.spec.shares is None:
            return length
        low, high = lp.read_bound(self.section.reader, self.section.spec.shares, self.section.at("shares"))
        return {"lower": low * length, "upper": high * length if np.isfinite(high) else None, "guess": length}

    def _reset(self, one: Stretch) -> Tree:
        strikes = [self._contact(foot, one) for foot in one.landing]
        return {"reset": {"impact": strikes}} if strikes and self.section.spec.touchdown == "impact" else {}

    def _shared(self, phase: Tree, i: int, copies: Copies) -> Tree:
        """The i-th phase: the file's fields that apply to it, and the conditions of its feet."""
        last, found = i == len(self.stretches) - 1, dict[str, Any]()
        for key in ("start", "final", "bounds"):
            if key in phase and (key == "bounds" or (key == "start" and not i) or (key == "final" and last)):
                found[key], copies[("phases", i, key)] = phase[key], ("phase", key)
        for key in ("costs", "constraints"):
            found[key] = []
            for k, item in enumerate(phase.get(key) or ()):
                at = item.get("at", "final" if any(str(word).startswith("final") for word in item) else "path")
                if at == "path" or (at == "start" and not i) or (at == "final" and last) or at == "integral":
                    copies[("phases", i, key, len(found[key]))] = ("phase", key, k)
                    found[key].append(item)
        one = self.stretches[i]
        found["constraints"] += [self._clears(foot, one) for foot in one.apex ]
        if not last:
            found["constraints"] += [row for foot in self.stretches[i + 1].landing for row in self._lands(foot, one)]
        return {key: value for key, value in found.items() if value or key == "costs"}

    def _height(self, foot: str, one: Stretch) -> tuple[str, float]:
        """Height of a foot along its normal as an expression, and what it is on the higher ground of its swing [m]."""
        contact, k = self.feet[foot], one.swings[foot]
        n = contact.axes.full()[2]
        terms = " + ".join(f'{x:.12g}*position("{contact.frame}")[{i}]' for i, x in enumerate(n) if x)
        sole = stood(self.model, self.path[0], contact)[1]
        return terms.removeprefix("1*"), max(self.course.levels[foot][k - 1:k + 1]) + float(n @ sole) - contact.height

    def _clears(self, foot: str, one: Stretch) -> Tree:
        height, ground = self._height(foot, one)
        return {"name": f"{foot} swings", "at": "final", "expression": height, "lower": round(ground + self.course.lift, 12)}

    def _lands(self, foot: str, one: Stretch) -> list[Tree]:
        landings = self.section.spec.landings.get(foot, ())
        if one.swings[foot] > len(landings):
            return []
        landing, frame = landings[one.swings[foot] - 1], self.feet[foot].frame
        row = {"name": f"{foot} lands", "at": "final", "expression": [f'position("{frame}")[{i}]' for i in (0, 1)]}
        if landing.place is not None:
            return [{**row, "equal": list(landing.place)}]
        if landing.region is not None:
            return [{**row, **{key: [bound[k] for bound in landing.region] for k, key in enumerate(("lower", "upper"))}}]
        return []

    def _guess(self, i: int, one: Stretch) -> Tree:
        if not one.standing and 0 < i < len(self.stretches) - 1:
            return {}  # it falls on the way
        ends = [robot_state.state_by_name(self.model, np.round(q, DIGITS) + 0.0, np.round(v, DIGITS) + 0.0)
                for q, v in zip(self.path[i:i + 2], self.speeds[i:i + 2], strict=True)]
        return {"guess": {"states": ends if ends[0] != ends[1] else ends[:1]}}

    # ---- contacts -------------------------------------------------------------------------------------------------------
    def _contact(self, foot: str, one: Stretch) -> str:
        level = self.course.levels[foot][one.swings[foot]]
        return foot if level == self.feet[foot].height else f"{foot} at {level:g} m"

    def _contacts(self, written: Sequence[Tree], copies: Copies) -> list[Tree]:
        """The constraints of the system, with a contact more for every other height at which a foot stands; what is to stay clear
        of the ground stays clear of the lowest."""
        found = list(written)
        named = {item.name or f"{item.form()} {i + 1}": i for i, item in enumerate(self.system.constraints)
                 if isinstance(getattr(item, item.form()), Ground)}
        for foot, i in named.items():
            form, own = self.system.constraints[i].form(), self.feet[foot].height
            for level in sorted({*self.course.levels[foot]} - {own}):
                copies[("system", "constraints", len(found))] = ("gait", "landings", foot)
                more = {key: value for key, value in written[i][form].items() if key != "clearance" or level < own}
                found.append({"name": f"{foot} at {level:g} m", form: {**more, "height": level}})
            if min(self.course.levels[foot]) < own:
                found[i] = {**written[i], form: {key: value for key, value in written[i][form].items() if key != "clearance"}}
        return found

    # ---- ends -----------------------------------------------------------------------------------------------------------
    def _linkages(self, first: str, last: str) -> list[Tree]:
        """Conditions between the ends of the motion. Of every quaternion three components suffice."""
        model, found, spec = self.model, list[Tree](), self.section.spec
        base = robot_state.floating_base(model)
        plane = () if base is None else model.coordinate_names[model.q_slice(base)][:2]
        scalars = {model.coordinate_names[qs][kind.quaternion][0] for kind, qs, _ in model.factors if kind.quaternion is not None}
        if spec.advance is not None and base is None:
            self.section.refuse("the robot has no floating base that advances; write linkages", "advance")
        for name, wanted, group, equal in (
                ("advances", spec.advance is not None and bool(plane), [f"q.{name}" for name in plane], spec.advance),
                ("repeats", spec.periodic, [*(f"q.{name}" for name in model.coordinate_names if name not in {*plane, *scalars}),
                                             *(f"v.{name}" for name in model.velocity_names)], None)):
            if wanted:
                found.append({"name": name, "expression": [f'final["{last}.{one}"] - start["{first}.{one}"]' for one in group],
                              "equal": 0 if equal is None else [*equal]})
        return found


@dataclass(frozen=True)
class _Repeating(_Expansion):
    """The same where the stretches from ``begin`` [s] on repeat in a receding horizon: conditions of feet are costs."""

    schedule: Schedule
    begin: float

    def tree(self, whole: Tree) -> tuple[Tree, Copies]:
        tree, copies = super().tree(whole)
        begin = self.begin + self.schedule.near
        first = next(phase["name"] for phase, one in zip(tree["phases"], self.stretches, strict=True) if one.end > begin)
        again = {"repeat": first} if len(self.stretches) > 1 else {}
        return {**tree, "mpc": {**again, **whole["mpc"]}}, copies

    def _reset(self, one: Stretch) -> Tree:
        return {"reset": {"consistent": False}} if one.start > 0 else {}

    def _shared(self, phase: Tree, i: int, copies: Copies) -> Tree:
        keys = (*(("start",) if not i else ()), "bounds", "costs", "constraints")
        found: Tree = {key: phase[key] for key in keys if key in phase}
        copies |= {("phases", i, key): ("phase", key) for key in found}
        rows = [self._lifted(foot, self.stretches[i]) for foot in self.stretches[i].swinging]
        swing = [{"name": "swing", "running_residual": rows, "weights": self.section.spec.weight}] if rows else []
        return {**found, "costs": [*found.get("costs", ()), *swing]}

    def _guess(self, i: int, one: Stretch) -> Tree:
        return {}

    def _lifted(self, foot: str, one: Stretch) -> str:
        """How much higher a swinging foot is than lift cos^2(pi s / T), at time s from the middle of its swing of length T, in any
        cycle."""
        height, ground = self._height(foot, one)
        lift, land = self.schedule.swings[foot][one.swings[foot] - 1]
        cycle = self.schedule.duration - self.begin
        angle = f"{2 / cycle:.12g}*pi*(t - {(lift + land) / 2:.12g})"
        share = f"atan2(sin({angle}), cos({angle}))*{cycle / (2 * (land - lift)):.12g}"
        return f"{height} - {ground:.12g} - {self.course.lift:.12g}*cos({share})**2"


# ---- times and positions -----------------------------------------------------------------------------------------------------
def _times(section: lp.Section, model: Model, feet: Mapping[str, Contact], q0: np.ndarray
           ) -> tuple[dict[str, tuple[tuple[float, float], ...]], float]:
    spec = section.spec
    if spec.swings:
        table = section.value("swings")
        section.findings.settle()
        return {name: tuple((a, b) for a, b in table.get(name, ())) for name in feet}, section.value("duration")
    R, p = pose_of(model, q0, model.bodies[0].name)
    by_place = {role: name for role, name in roles({name: R.T @ (pose_of(model, q0, c.frame)[1] - p)
                                                    for name, c in feet.items()}).items() if name not in spec.feet.values()}
    times = {key: section.value(key) for key in ("swing", "stance", "end")}
    section.findings.settle()
    return swings_of(spec.pattern, list(feet), {**by_place, **spec.feet}, cycles=spec.cycles, **times)
