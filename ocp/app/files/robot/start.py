"""What holds at the start for the parts of the state that a file does not name: said by ``start: {others: ..}``, never assumed.

Only the first phase has a start of its own; later ones go on from the phase before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import casadi as ca
import numpy as np

import dynamics
from dynamics.errors import near
from dynamics.model.model import Model
from ocp.app.files.robot import states as robot_state
from ocp.app.files.robot.tree_schema import Configuration, StartState
from ocp.app.files.syntax import reader as lp
from ocp.app.files.syntax.findings import Findings
from ocp.app.files.syntax.yaml_source import KeyPath
from ocp.control.tasks import position_rows

OTHERS = "others"
WORDS = ("free", "neutral")
ASSEMBLED = "assembled"  # of robots whose mechanism has constraints
CLOSED, STEPS, TRIES = 1e-9, 50, 20
SHOWN = 12  # names in a message
LATER = "a later phase goes on from the one before; only the first has others"


def _first(phase: KeyPath) -> bool:
    return phase in (("phase",), ("phases", 0))


# ---- systems of differential equations ------------------------------------------------------------------------------------
def read_others(reader: lp.Reader, given: Any, states: Sequence[str]) -> Any:
    """What the file gives as the start, with ``others`` turned into states; a state about which it says nothing is recorded."""
    if not isinstance(given, Mapping):
        return given  # one number for all, or a list with one for each
    path: KeyPath = (*reader.phase, "start")
    named = {name: value for name, value in given.items() if name != OTHERS}
    word, left = given.get(OTHERS), [name for name in states if name not in named]
    if not _first(reader.phase):
        if word is not None:
            reader.findings.add((*path, OTHERS), LATER, at_key=True)
        return named
    if word is None:
        if left and not named.keys() - set(states):  # a name of no state has an error of its own
            _refuse_left(reader.findings, path, left, "free (the solver chooses) or others: neutral (zero)")
    elif word not in WORDS:
        reader.findings.add((*path, OTHERS), f"expected free or neutral (zero), got {word!r}")
    return {**named, **dict.fromkeys(left, 0.0)} if word == "neutral" else named


# ---- robots ---------------------------------------------------------------------------------------------------------------
def read_start(names: robot_state.RobotNames, given: StartState | None, phase: KeyPath, guess: Configuration | None = None
               ) -> robot_state.PartialState | None:
    """The given part of the start of the phase at ``phase``; errors are recorded, among them parts about which a first phase says
    nothing. guess: the first state of the guess, near which a mechanism is assembled."""
    findings, path = names.reader.findings, (*phase, "start")
    before = len(findings.found)
    found = None if given is None else robot_state.read_state(names, given, path)
    word = None if given is None else given.others
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


def _left(model: Model, given: np.ndarray) -> list[str]:
    """What no part of the start names, in the words of the file. given [ndx]: which tangent components are named."""
    base, nv, places, speeds = robot_state.floating_base(model), model.nv, [], []
    for i, body in enumerate(model.bodies):
        vs = model.v_slice(i)
        if body.joint.mimic is not None or vs.start == vs.stop:
            continue
        if i == base:
            places += [f"base.{part}" for part, at in (("position", vs.start), ("rotation", vs.start + 3))
                       if not given[at : at + 3].all()]
            speeds += [f"base.{part}_velocity" for part, at in (("linear", vs.start), ("angular", vs.start + 3))
                       if not given[nv + at : nv + at + 3].all()]
            continue
        places += [] if given[vs].all() else [f"joint {body.joint.name!r}"]
        speeds += [] if given[nv + vs.start : nv + vs.stop].all() else [f"velocity of {body.joint.name!r}"]
    if speeds and not given[nv:].any():
        speeds = ["every velocity (rest: true makes them zero)"]
    return places + speeds


def _fill(names: robot_state.RobotNames, found: robot_state.PartialState, word: str, path: KeyPath) -> None:
    """Give what is not named the values of a configuration, at rest."""
    model, findings = names.model, names.reader.findings
    if word in WORDS and word in model.configurations:
        findings.add(path, f"the robot has a configuration named {word!r}, too; write configuration: {word} for that one")
        return
    if word not in WORDS and word not in model.configurations:
        findings.add(path, f"expected {_choices(model)}, got {word!r}{near(word, (*WORDS, *model.configurations))}")
        return
    values = np.array(names.space.neutral)
    if word not in WORDS:
        values[: model.nq] = model.configurations[word]
    left = np.flatnonzero(~found.coordinates)
    found.x[left] = values[left]
    found.coordinates[:] = found.tangent[:] = True
    robot_state.check_bounds(names, found, left, path)


def assemble(names: robot_state.RobotNames, found: robot_state.PartialState, path: KeyPath, guess: Configuration | None = None
             ) -> None:
    """Give what is not named the values that close the mechanism, and the least velocities that keep it closed. Gauss-Newton steps
    begin at the guess, at neutral values where it names none, then at random ones around them (mechanisms are often stretched out
    there); the first that close are taken, so that whoever wants another way to assemble it names one more joint."""
    model, space = names.model, names.space
    left, neutral = np.flatnonzero(~found.tangent[: model.nv]), np.array(space.neutral[: model.nq])
    if guess is not None:
        before = len(names.reader.findings.found)
        near = robot_state.read_configuration(names, guess, path)
        wrong = len(names.reader.findings.found) > before
        del names.reader.findings.found[before:]  # they are recorded where the guess is read
        neutral = np.where(near.coordinates[: model.nq] & (not wrong), near.x[: model.nq], neutral)
    q = np.where(found.coordinates[: model.nq], found.x[: model.nq], neutral)
    if not np.isfinite(q).all():  # an error was recorded
        found.coordinates[:] = found.tangent[:] = True
        return
    symbols = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
    g, G, J, pace = (ca.Function(key, [symbols[0]], [ca.densify(ca.SX(ca.vertcat(*parts)))]) for key, parts in (
        ("g", [c.value(model, symbols[0])[list(position_rows(model, c))] for c in names.constraints]),
        ("G", [c.jacobian(model, symbols[0])[list(position_rows(model, c)), :] for c in names.constraints]),
        ("J", [c.jacobian(model, symbols[0]) for c in names.constraints]),
        ("pace", [c.rate(model, symbols[0], ca.SX(model.nv, 1)) for c in names.constraints])))
    facing = ca.Function("facing", [symbols[0]], [ca.SX(ca.vertcat(*(c.facing(model, symbols[0]) for c in names.constraints)))])
    move, begin = dynamics.make(model, "integrate"), q

    def closing(q: np.ndarray) -> np.ndarray:
        for _ in range(STEPS):
            step, miss, slope = np.zeros(model.nv), np.array(g(q)).ravel(), np.array(G(q))[:, left]
            if np.abs(miss).max(initial=0.0) < CLOSED or not np.isfinite(slope).all():
                break
            step[left] = -np.linalg.lstsq(slope, miss, rcond=1e-9)[0]
            q = np.array(move(q, step * min(1.0, 0.5 / max(np.abs(step).max(), 1e-300)))).ravel()
        return q

    rng, away = np.random.default_rng(0), np.zeros(model.nv)
    for _ in range(TRIES):
        q = closing(np.array(move(begin, away)).ravel())
        if np.abs(np.array(g(q))).max(initial=0.0) < CLOSED and np.array(facing(q)).min(initial=1.0) > 0.0:
            break
        away[left] = rng.standard_normal(len(left))
    else:
        names.reader.findings.add(path, f"the mechanism cannot be assembled from what is named: {_open(names, q)} at the last of "
                                        f"{TRIES} trials")
        return
    fixed, rate = found.tangent[model.nv :], np.array(J(q))
    speed = np.where(fixed, found.x[model.nq :], 0.0)
    speed[~fixed] = -np.linalg.lstsq(rate[:, ~fixed], rate @ speed + np.array(pace(q)).ravel(), rcond=1e-9)[0]
    found.x[:] = np.concatenate([q, speed])
    found.coordinates[:] = found.tangent[:] = True
    robot_state.check_bounds(names, found, range(space.nx), path)


def _check_closed(names: robot_state.RobotNames, found: robot_state.PartialState, path: KeyPath) -> None:
    """Record a complete start that breaks the constraints of the mechanism."""
    model = names.model
    q, v = ca.DM(found.x[: model.nq]), ca.DM(found.x[model.nq :])
    worst = max(float(ca.norm_inf(ca.DM(x))) for c in names.constraints for x in (c.value(model, q), c.rate(model, q, v)))
    turned = next((c.name for c in names.constraints if np.array(ca.DM(c.facing(model, q))).min(initial=1.0) < 0.0), None)
    if turned is not None:
        names.reader.findings.add(path, f"breaks a constraint of the mechanism: the frames of {turned!r} are half a turn apart")
    elif worst > 1e-6:
        missed = _open(names, np.array(q).ravel())
        names.reader.findings.add(path, f"breaks a constraint of the mechanism: {missed}; name fewer joints and write others: "
                                        f"{ASSEMBLED}, or others: free")


def _open(names: robot_state.RobotNames, q: np.ndarray) -> str:
    """The constraint that is missed most, and by how much; of velocities where positions fit."""
    misses = {c.name: float(ca.norm_inf(ca.DM(c.value(names.model, ca.DM(q))))) for c in names.constraints}
    name = max(misses, key=lambda key: misses[key])
    return f"{name!r} by {misses[name]:.2g} (m, rad)" if misses[name] > 1e-6 else "velocities do not keep it"


def _refuse_left(findings: Findings, path: KeyPath, left: Sequence[str], choices: str) -> None:
    """Record that the file says nothing about parts of the start."""
    shown = ", ".join(left[:SHOWN]) + (f" and {len(left) - SHOWN} more" if len(left) > SHOWN else "")
    findings.add(path, f"{shown} {'is' if len(left) == 1 else 'are'} not named; give a value, or say what holds for the rest, "
                       f"others: {choices}")


def _choices(model: Model) -> str:
    named = f"one of {', '.join(model.configurations)}" if model.configurations else "a named configuration"
    return f"free (the solver chooses), neutral (zero, at rest) or {named} (at rest)"
