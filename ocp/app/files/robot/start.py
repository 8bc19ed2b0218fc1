"""Start values of the parts of the state that a file does not name: given by ``start: {others: ..}``, never assumed.

Only the first phase has a start of its own; later ones go on from the phase before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dynamics.errors import near
from dynamics.mechanism.assembly import TRIES, Assembly
from dynamics.model.model import Model
from ocp.app.files.robot import states as robot_state
from ocp.app.files.robot.tree_schema import Configuration, StartState
from ocp.app.files.syntax import reader as lp
from ocp.app.files.syntax.findings import Findings
from ocp.app.files.syntax.yaml_source import KeyPath

OTHERS = "others"
START_WORDS = ("free", "neutral")
ASSEMBLED = "assembled"  # of robots whose mechanism has constraints
OPEN = 1e-6  # of a loop or its rate: below it, it is closed [m, rad, and per second]
SHOWN = 12  # names in a message
LATER = "only the first phase has 'others'; later ones continue from the one before"


def _first(phase: KeyPath) -> bool:
    return phase in (("phase",), ("phases", 0))


# ---- systems of differential equations ------------------------------------------------------------------------------------
def read_others(reader: lp.Reader, spec: Any, states: Sequence[str]) -> Any:
    """The start of the file, with ``others`` turned into states; a state about which it says nothing is recorded."""
    if not isinstance(spec, Mapping):
        return spec  # one number for all, or a list with one for each
    path: KeyPath = (*reader.phase, "start")
    named = {name: value for name, value in spec.items() if name != OTHERS}
    word, left = spec.get(OTHERS), [name for name in states if name not in named]
    if not _first(reader.phase):
        if word is not None:
            reader.findings.add((*path, OTHERS), LATER, at_key=True)
        return named
    if word is None:
        if left and not named.keys() - set(states):  # a name of no state has an error of its own
            _refuse_left(reader.findings, path, left, "free (the solver chooses) or others: neutral (zero)")
    elif word not in START_WORDS:
        reader.findings.add((*path, OTHERS), f"expected free or neutral (zero), got {word!r}")
    return {**named, **dict.fromkeys(left, 0.0)} if word == "neutral" else named


# ---- robots ---------------------------------------------------------------------------------------------------------------
def read_start(names: robot_state.RobotNames, spec: StartState | None, phase: KeyPath, guess: Configuration | None = None
               ) -> robot_state.PartialState | None:
    """The given part of the start of the phase at ``phase``; errors are recorded, among them parts about which a first phase says
    nothing. guess: the first state of the guess, near which a mechanism is assembled."""
    findings, path = names.reader.findings, (*phase, "start")
    before = len(findings.found)
    found = None if spec is None else robot_state.read_state(names, spec, path)
    word = None if spec is None else spec.others
    if not _first(phase):
        if word is not None:
            findings.add((*path, OTHERS), LATER, at_key=True)
    elif word is None:
        left = _left(names.model, np.zeros(names.space.ndx, bool) if found is None else found.tangent)
        if left and len(findings.found) == before:
            _refuse_left(findings, path, left, _choices(names.model))
    elif found is not None and word == ASSEMBLED and names.constraints:
        assemble(names, found, (*path, OTHERS), guess)
    elif found is not None and word != "free":
        _fill(names, found, word, (*path, OTHERS))
    if found is not None and found.coordinates.all() and names.constraints and len(findings.found) == before:
        _check_closed(names, found, path)
    return found


def _left(model: Model, spec: np.ndarray) -> list[str]:
    """Parts of the state that the start does not name, in the words of the file. spec [ndx]: which tangent components are
    named."""
    base, nv, places, speeds = robot_state.floating_base(model), model.nv, [], []
    for i, body in enumerate(model.bodies):
        vs = model.v_slice(i)
        if body.joint.mimic is not None or vs.start == vs.stop:
            continue
        if i == base:
            places += [f"base.{part}" for part, at in (("position", vs.start), ("rotation", vs.start + 3))
                       if not spec[at : at + 3].all()]
            speeds += [f"base.{part}_velocity" for part, at in (("linear", vs.start), ("angular", vs.start + 3))
                       if not spec[nv + at : nv + at + 3].all()]
            continue
        places += [] if spec[vs].all() else [f"joint {body.joint.name!r}"]
        speeds += [] if spec[nv + vs.start : nv + vs.stop].all() else [f"velocity of {body.joint.name!r}"]
    if speeds and not spec[nv:].any():
        speeds = ["every velocity (rest: true makes them zero)"]
    return places + speeds


def _fill(names: robot_state.RobotNames, found: robot_state.PartialState, word: str, path: KeyPath) -> None:
    """Give what is not named the values of a configuration, at rest."""
    model, findings = names.model, names.reader.findings
    if word in START_WORDS and word in model.configurations:
        findings.add(path, f"the robot has a configuration named {word!r}, too; write configuration: {word} for that one")
        return
    if word not in START_WORDS and word not in model.configurations:
        findings.add(path, f"expected {_choices(model)}, got {word!r}{near(word, (*START_WORDS, *model.configurations))}")
        return
    values = np.array(names.space.neutral)
    if word not in START_WORDS:
        values[: model.nq] = model.configurations[word]
    left = np.flatnonzero(~found.coordinates)
    found.x[left] = values[left]
    found.coordinates[:] = found.tangent[:] = True
    robot_state.check_bounds(names, found, left, path)


def assemble(names: robot_state.RobotNames, found: robot_state.PartialState, path: KeyPath, guess: Configuration | None = None
             ) -> None:
    """Give what is not named the values that close the mechanism, and the least velocities that keep it closed, near the guess,
    near neutral values where it names none; whoever wants another way to assemble it names one more joint."""
    model, space = names.model, names.space
    neutral, nq, nv = np.array(space.neutral[: model.nq]), model.nq, model.nv
    if guess is not None:
        before = len(names.reader.findings.found)
        near = robot_state.read_configuration(names, guess, path)
        wrong = len(names.reader.findings.found) > before
        del names.reader.findings.found[before:]  # they are recorded where the guess is read
        neutral = np.where(near.coordinates[:nq] & (not wrong), near.x[:nq], neutral)
    q = np.where(found.coordinates[:nq], found.x[:nq], neutral)
    if not np.isfinite(q).all():  # an error was recorded
        found.coordinates[:] = found.tangent[:] = True
        return
    loops = Assembly(model, names.constraints)
    q, closed = loops.close(q, ~found.tangent[:nv])
    if not closed:
        names.reader.findings.add(path, f"the mechanism cannot be assembled from these joints: {_open(loops, q)} at the last of "
                                        f"{TRIES} trials")
        return
    found.x[:] = np.concatenate([q, loops.velocities(q, found.x[nq:], found.tangent[nv:])])
    found.coordinates[:] = found.tangent[:] = True
    robot_state.check_bounds(names, found, range(space.nx), path)


def _check_closed(names: robot_state.RobotNames, found: robot_state.PartialState, path: KeyPath) -> None:
    """Record a complete start that breaks the constraints of the mechanism."""
    loops, (q, v) = Assembly(names.model, names.constraints), np.split(found.x, [names.model.nq])
    gaps, rates, turned = loops.misses(q, v)
    broken = "breaks a constraint of the mechanism"
    if turned:
        names.reader.findings.add(path, f"{broken}: the frames of {turned[0]!r} are half a turn apart")
    elif max(*gaps.values(), *rates.values()) > OPEN:
        names.reader.findings.add(path, f"{broken}: {_open(loops, q)}; name fewer joints and write others: {ASSEMBLED}, or others: "
                                        "free")


def _open(loops: Assembly, q: np.ndarray) -> str:
    """The constraint that is missed most, and by how much; of velocities where positions fit."""
    misses = loops.misses(q)[0]
    name = max(misses, key=lambda key: misses[key])
    return f"{name!r} by {misses[name]:.2g} (m, rad)" if misses[name] > OPEN else "velocities do not keep it"


def _refuse_left(findings: Findings, path: KeyPath, left: Sequence[str], choices: str) -> None:
    """Record that the file says nothing about parts of the start."""
    shown = ", ".join(left[:SHOWN]) + (f" and {len(left) - SHOWN} more" if len(left) > SHOWN else "")
    findings.add(path, f"{shown} {'is' if len(left) == 1 else 'are'} not named; give a value, or say what holds for the rest, "
                       f"others: {choices}")


def _choices(model: Model) -> str:
    named = f"one of {', '.join(model.configurations)}" if model.configurations else "a named configuration"
    return f"free (the solver chooses), neutral (zero, at rest) or {named} (at rest)"
