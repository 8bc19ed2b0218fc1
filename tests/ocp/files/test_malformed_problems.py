"""Malformed problem files: every mistake gets its place, what was expected and what is near. Never a traceback."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from ocp.app.files.load import load_problem, load_text
from ocp.app.files.syntax.findings import ProblemFileError
from ocp.app.files.syntax.yaml_source import parse_source
from ocp.errors import ProblemError

SYMBOLIC = """\
name: Pendulum
constants: {m: 1.0, l: 0.5, g: 9.81, zero: 0}
system:
  states: {theta: rad, omega: rad/s}
  controls: {torque: N m}
  dynamics:
    theta: omega
    omega: torque/(m*l**2) - g/l*sin(theta)
  define: {height: -l*cos(theta)}
  energy: m*l**2*omega**2/2 + m*g*height
  power: torque*omega
drawing:
  points: {pivot: [0, 0], bob: [l*sin(theta), height]}
  segments: [[pivot, bob]]
  circles: [{at: bob, radius: 0.05}]
  boxes: [{at: pivot, size: [0.1, 0.2]}]
  trace: [bob]
phase:
  duration: 2.0
  start: {theta: 0, omega: 0}
  final: {theta: pi, omega: 0}
  bounds: {theta: [-4, 4], torque: [-5, 5]}
  costs:
    - {name: effort, running: torque**2}
    - {name: rest, final_residual: [omega, theta - pi], weights: [1, 2]}
  constraints:
    - {name: ceiling, expression: height, upper: 0.6}
    - {name: arrive, at: final, expression: [height, omega], equal: [0.5, 0]}
  guess:
    states: {theta: [0, pi]}
    controls: {torque: 0}
solve:
  method: ilqr
  ilqr: {intervals: 50, integrator: rk4}
accept: {gap_segment: 1e-4}
"""

ROBOT = """\
name: Arm
constants: {reach: 0.4}
system:
  robot: arm.urdf
  root: fixed
phase:
  duration: {lower: 0.5, upper: 2, guess: 1}
  start: {joints: {shoulder: 0, elbow: 0.5, wrist: 0}, rest: true}
  final: {joints: {shoulder: 1}}
  bounds:
    joints: {elbow: [0, 2]}
    controls: {shoulder: [-5, 5]}
  costs:
    - {name: effort, running: 'dot(tau, tau)'}
  constraints:
    - {name: tip, at: final, expression: 'position("hand")[x]', equal: reach}
    - {name: aim, at: final, pose_error: {frame: hand, position: [0.4, 0, 0.2], rpy: [0, 0, 0]}, equal: 0}
  guess:
    states: [{joints: {elbow: 0.5}}, {joints: {elbow: 0.7}}]
"""

_INERTIA = '<inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>'
_LIMIT = '<limit lower="-2" upper="2" velocity="3" effort="10"/>'


def _link(name: str) -> str:
    return f'<link name="{name}">{_INERTIA}</link>'


def _joint(name: str, kind: str, parent: str, child: str, inner: str = "") -> str:
    return (f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
            f'<origin xyz="0 0 0.3"/><axis xyz="0 1 0"/>{inner}</joint>')


ARM_URDF = "".join([
    '<robot name="arm">', _link("base"), _link("upper"), _link("lower"), _link("hand"), _link("finger"),
    _joint("shoulder", "revolute", "base", "upper", _LIMIT), _joint("elbow", "revolute", "upper", "lower", _LIMIT),
    _joint("wrist", "revolute", "lower", "hand", _LIMIT),
    _joint("grip", "revolute", "hand", "finger", _LIMIT + '<mimic joint="elbow" multiplier="0.5"/>'), "</robot>"])

Case = tuple[str, str, str, str]  # what to replace, by what, the place and words of the message

CASES: dict[str, Case] = {
    # ---- YAML -------------------------------------------------------------------------------------------------
    "tab": ("  duration: 2.0", "\tduration: 2.0", "19:1", "tabs are not allowed"),
    "duplicate key": ("  duration: 2.0\n", "  duration: 2.0\n  duration: 3.0\n", "20:3",
        "this key was already given at line 19"),
    "merge key": ("  duration: 2.0", "  <<: {duration: 2.0}", "19:3", "merge keys (<<) are not supported"),
    "alias": ("duration: 2.0", "duration: *d", "19:13", "aliases (*d) are not supported"),
    "unclosed bracket": ("[-4, 4]", "[-4, 4", "22:42", "expected ',' or ']', but got '}'"),
    "wrong indentation": ("  start: {theta", "   start: {theta", "20:9", "check the indentation"),
    "not a number": ("duration: 2.0", "duration: .nan", "19:13", ".nan is not a number"),
    "number as key": ("start: {theta: 0,", "start: {1: 0,", "20:11", "put '1' in quotes"),
    "list at the top": (SYMBOLIC, "- a\n- b\n", "1:1", "expected a mapping such as 'name: ...'; got a list of 2"),
    "empty file": (SYMBOLIC, "", "", "the file is empty"),
    # ---- keys -------------------------------------------------------------------------------------------------
    "unknown key at the top": ("drawing:", "drawings:", "12:1: drawings",
        "unknown key; did you mean 'drawing' or 'linkages'? (known: accept, "),
    "unknown key of the phase": ("  guess:", "  gues:", "29:3: phase.gues", "unknown key; did you mean 'guess'?"),
    "unknown key of a cost": ("running: torque", "runing: torque", "24:22: phase.costs[0].runing",
        "unknown key; did you mean 'running' or 'running_residual'?"),
    "unknown key of a constraint": ("upper: 0.6", "uper: 0.6", "27:43: phase.constraints[0].uper",
        "unknown key; did you mean 'upper'? (known: at, equal, expression, lower, name, soft, upper)"),
    "unknown key of the drawing": ("radius: 0.05", "radios: 0.05", "15:23: drawing.circles[0].radios",
        "unknown key; did you mean 'radius'?"),
    "unknown key of the duration": ("duration: 2.0", "duration: {lower: 1, uper: 2}", "19:24: phase.duration.uper",
        "unknown key; did you mean 'upper'? (known: guess, lower, upper)"),
    "unknown key of an angle": ("theta: pi,", "theta: {degrees: 90},", "21:19: phase.final.theta.degrees",
        "unknown key; did you mean 'deg'? (known: deg)"),
    "missing name": ("name: Pendulum\n", "", "1:1: ", "the key 'name' is missing (name of the problem"),
    "missing costs": (
        "  costs:\n    - {name: effort, running: torque**2}\n    - {name: rest, final_residual: [omega, theta - "
        "pi], weights: [1, 2]}\n", "", "19:3: phase",
        "the key 'costs' is missing (terms of the objective; [] asks for any feasible motion)"),
    "missing dynamics": ("  dynamics:\n    theta: omega\n    omega: torque/(m*l**2) - g/l*sin(theta)\n", "",
        "4:3: system.dynamics", "the time derivative of 'theta' and 'omega' is missing"),
    # ---- types ------------------------------------------------------------------------------------------------
    "text for a mapping": ("  start: {theta: 0, omega: 0}", "  start: rest", "20:10: phase.start",
        "expected a mapping of states to numbers, one number for all, or a list with one for each; got the text 'rest'"),
    "empty section": (SYMBOLIC[SYMBOLIC.index("phase:"):], "phase:\n", "18:1: phase",
        "expected a mapping; got nothing (null)"),
    "mapping for a list": (
        "  costs:\n    - {name: effort, running: torque**2}\n    - {name: rest, final_residual: [omega, theta - "
        "pi], weights: [1, 2]}\n", "  costs: {effort: torque**2}\n", "23:10: phase.costs",
        "expected a list; got a mapping with the keys effort"),
    "boolean for a number": ("m: 1.0", "m: true", "2:16: constants.m",
        "expected a number, an expression in quotes, or {deg: angle}; got true"),
    "nothing for a number": ("m: 1.0", "m: ", "2:13: constants.m", "got nothing (null)"),
    "list for a number": ("start: {theta: 0,", "start: {theta: [0],", "20:18: phase.start.theta",
        "got a list of 1"),
    "number for text": ("name: Pendulum", "name: 3", "1:7: name", "expected text; got the number 3"),
    "number for a unit": ("omega: rad/s}", "omega: 3}", "4:31: system.states.omega",
        "expected text; got the number 3"),
    "infinity for a bound": ("theta: [-4, 4]", "theta: [-.inf, 4]", "22:20: phase.bounds.theta[0]",
        "expected a finite number (an absent bound is written null); got the number -inf"),
    "one bound": ("theta: [-4, 4]", "theta: [-4]", "22:19: phase.bounds.theta",
        "expected at least 2 entries, got 1"),
    "three bounds": ("theta: [-4, 4]", "theta: [-4, 4, 5]", "22:19: phase.bounds.theta",
        "expected at most 2 entries, got 3"),
    "unknown method": ("method: ilqr", "method: iqlr", "33:11: solve.method",
        "expected one of collocation, multiple_shooting, ilqr, adjoint; got the text 'iqlr'; did you mean 'ilqr'?"),
    "unknown place of a constraint": ("at: final", "at: end", "28:26: phase.constraints[1].at",
        "expected one of path, start, final"),
    "empty name": ("{name: effort", "{name: ''", "24:14: phase.costs[0].name", "expected text, got empty text"),
    # ---- names ------------------------------------------------------------------------------------------------
    "reserved state": ("omega: rad/s}", "omega: rad/s, t: s}", "4:38: system.states.t", "'t' is reserved for time"),
    "definition like a function": ("define: {", "define: {sin: 2, ", "9:12: system.define.sin",
        "'sin' is reserved for a function"),
    "keyword": ("zero: 0", "lambda: 0", "2:38: constants.lambda", "'lambda' is a Python keyword"),
    "name with a space": ("zero: 0", "my mass: 0", '2:38: constants["my mass"]', "cannot be a name in expressions"),
    "state and control": ("{torque: N m}", "{torque: N m, omega: N}", "5:27: system.controls.omega",
        "the name 'omega' is already used by system.states.omega"),
    "state and constant": ("zero: 0", "theta: 0", "4:12: system.states.theta",
        "the name 'theta' is already used by constants.theta"),
    "repeated cost": ("{name: rest", "{name: effort", "25:14: phase.costs[1].name",
        "the name 'effort' is already used by costs[0]"),
    # ---- dynamics and expressions -----------------------------------------------------------------------------
    "dynamics missing": ("    theta: omega\n", "", "7:5: system.dynamics",
        "the time derivative of 'theta' is missing"),
    "dynamics of no state": ("    theta: omega\n", "    theta: omega\n    thta: omega\n",
        "8:5: system.dynamics.thta", "no state named 'thta'; did you mean 'theta'? (known: omega, theta)"),
    "unknown name in dynamics": ("sin(theta)\n", "sin(thet)\n", "8:38: system.dynamics.omega",
        "unknown name 'thet'; did you mean 'theta' or"),
    "unknown name, quoted": ("height, upper", "'l - heigt', upper", "27:40: phase.constraints[0].expression",
        "unknown name 'heigt'; did you mean 'height' or"),
    "unknown function": ("g/l*sin(theta)", "g/l*sine(theta)", "8:34: system.dynamics.omega",
        "unknown function 'sine'; did you mean 'sin' or"),
    "power with a caret": ("torque**2}", "torque^2}", "24:31: phase.costs[0].running", "a power is written **"),
    "unquoted comma": ("running: torque**2", "running: max(torque, 0)", '24:43: phase.costs[0]["0)"]',
        "inside {..} an expression that contains a comma must be in quotes"),
    "constant from a state": ("zero: 0}", "zero: theta}", "2:44: constants.zero", "unknown name 'theta'"),
    "constant before its time": ("m: 1.0", "m: 2*g", "2:18: constants.m",
        "'g' cannot be used here: it is defined later; a constant may only use those above it"),
    "start from a state": ("start: {theta: 0", "start: {theta: omega", "20:18: phase.start.theta",
        "'omega' cannot be used here: it is a state; only numbers and constants can"),
    "start from a control": ("start: {theta: 0", "start: {theta: torque/2", "20:18: phase.start.theta",
        "'torque' cannot be used here: it is a control"),
    "division by zero": ("running: torque**2", "running: torque/zero", "24:38: phase.costs[0].running",
        "division by zero in 'torque/zero'"),
    "infinite constant": ("g: 9.81", "g: 9**9**9", "2:32: constants.g", "'9**9**9' has no finite value"),
    "energy without power": ("  power: torque*omega\n", "", "4:3: system",
        "'energy' without 'power'; the energy balance needs both"),
    "energy of a control": ("energy: m*l**2", "energy: torque*m*l**2", "10:11: system.energy",
        "depends on controls"),
    # ---- phase ------------------------------------------------------------------------------------------------
    "bound of no name": ("torque: [-5, 5]", "torqe: [-5, 5]", "22:28: phase.bounds.torqe",
        "no state or control named 'torqe'; did you mean 'torque'? (known: omega, theta, torque)"),
    "bounds crossed": ("torque: [-5, 5]", "torque: [5, -5]", "22:36: phase.bounds.torque",
        "lower (5) is above upper (-5)"),
    "start outside its bounds": ("start: {theta: 0", "start: {theta: 4.5", "20:18: phase.start.theta",
        "the start value of 'theta' is 4.5, outside its bounds [-4, 4]"),
    "final outside its bounds": ("final: {theta: pi", "final: {theta: {deg: 360}", "21:18: phase.final.theta",
        "the final value of 'theta' is 6.28319, outside its bounds [-4, 4]"),
    "start of no state": ("start: {theta: 0", "start: {thetta: 0", "20:11: phase.start.thetta",
        "no state named 'thetta'; did you mean 'theta'?"),
    "final of a control": ("final: {theta: pi,", "final: {torque: 0,", "21:11: phase.final.torque",
        "no state named 'torque'"),
    "no duration": ("duration: 2.0", "duration: 0", "19:13: phase.duration",
        "a duration must be positive, got 0 s"),
    "duration crossed": ("duration: 2.0", "duration: {lower: 3, upper: 2}", "19:13: phase.duration",
        "lower (3 s) is above upper (2 s)"),
    "negative duration": ("duration: 2.0", "duration: {lower: -1, upper: 2}", "19:21: phase.duration.lower",
        "must not be negative, got -1 s"),
    "duration without end": ("duration: 2.0", "duration: {lower: 1}", "19:13: phase.duration",
        "needs 'guess' where there is no upper end"),
    "guess outside the duration": ("duration: 2.0", "duration: {lower: 1, upper: 2, guess: 3}",
        "19:41: phase.duration.guess", "3 s lies outside [1, 2]"),
    "cost of two kinds": ("running: torque**2", "running: torque**2, final: omega", "24:7: phase.costs[0]",
        "needs exactly one of running, stage, final, running_residual, stage_residual, final_residual, control_error, state_error; "
        "found running and final"),
    "cost of no kind": (", running: torque**2", "", "24:7: phase.costs[0]", "found none"),
    "weights beside a running cost": ("running: torque**2", "running: torque**2, weights: 2",
        "24:7: phase.costs[0]", "'weights' belongs to residuals and errors, not to 'running'"),
    "weights of another length": ("weights: [1, 2]", "weights: [1, 2, 3]", "25:66: phase.costs[1].weights",
        "3 values for 2 residuals"),
    "negative weight": ("weights: [1, 2]", "weights: [1, -2]", "25:70: phase.costs[1].weights[1]",
        "must not be negative, got -2"),
    "final cost of a control": ("final_residual: [omega,", "final_residual: [torque,",
        "25:36: phase.costs[1].final_residual",
        "depends on control 'torque'; a cost at the end cannot depend on controls"),
    "constraint without bound": (", upper: 0.6", "", "27:7: phase.constraints[0]",
        "has no bound; give 'lower', 'upper' or both, or 'equal'"),
    "equal beside lower": ("upper: 0.6", "equal: 0.6, lower: 0", "27:7: phase.constraints[0]",
        "'equal' excludes 'lower' and 'upper'"),
    "constraint crossed": ("upper: 0.6", "upper: 0.6, lower: 0.7", "27:7: phase.constraints[0]",
        "lower (0.7) is above upper (0.6)"),
    "constraint on constants": ("expression: height,", "expression: m*l,", "27:35: phase.constraints[0].expression",
        "is always 0.5: it depends on no state, control or time"),
    "constraint on time at the start": ("at: final, expression: [height, omega]",
        "at: start, expression: [height, 2*t]", "28:54: phase.constraints[1].expression[1]",
        "is always 0: it depends on no state, control or time, and t is 0 at the start"),
    "constraint on a control at the end": ("expression: [height, omega]", "expression: [height, torque]",
        "28:45: phase.constraints[1].expression", "depends on control 'torque'; a constraint at the final"),
    "equal of another length": ("equal: [0.5, 0]", "equal: [0.5, 0, 1]", "28:69: phase.constraints[1].equal",
        "3 values for 2 components"),
    "soft without weight": ("upper: 0.6", "upper: 0.6, soft: 0", "27:61: phase.constraints[0].soft",
        "must be positive, got 0"),
    "component without bound": ("equal: [0.5, 0]", "upper: [0.5, null]", "28:7: phase.constraints[1]",
        "has no bound in component 1"),
    "guess of no state": ("states: {theta: [0, pi]}", "states: {theta: [0, pi], omga: 1}",
        "30:30: phase.guess.states.omga", "no state named 'omga'; did you mean 'omega'?"),
    "guess of a state as control": ("controls: {torque: 0}", "controls: {theta: 0}",
        "31:16: phase.guess.controls.theta", "no control named 'theta'"),
    "empty guess": ("states: {theta: [0, pi]}", "states: {theta: []}", "30:21: phase.guess.states.theta",
        "expected at least 1 entry, got 0"),
    # ---- drawing, solve, accept -------------------------------------------------------------------------------
    "segment to no point": ("[[pivot, bob]]", "[[pivot, bop]]", "14:22: drawing.segments[0][1]",
        "no point named 'bop'; did you mean 'bob'?"),
    "trace of no point": ("trace: [bob]", "trace: [bod]", "17:11: drawing.trace[0]",
        "no point named 'bod'; did you mean 'bob'?"),
    "circle without radius": ("radius: 0.05", "radius: 0", "15:31: drawing.circles[0].radius",
        "must be positive, got 0 m"),
    "point of three": ("pivot: [0, 0]", "pivot: [0, 0, 0]", "13:19: drawing.points.pivot",
        "expected at most 2 entries, got 3"),
    "unknown option": ("integrator: rk4", "integator: rk4", "34:25: solve.ilqr.integator",
        "unknown option of ilqr; did you mean 'integrator'"),
    "option of another type": ("intervals: 50", "intervals: 50.5", "34:21: solve.ilqr.intervals",
        "expected a whole number; got the number 50.5"),
    "option of text": ("integrator: rk4", "integrator: 4", "34:37: solve.ilqr.integrator",
        "expected text; got the number 4"),
    "option out of range": ("intervals: 50", "intervals: 0", "34:21: solve.ilqr.intervals",
        "intervals must be a whole number >= 1, got 0"),
    "option without meaning": ("integrator: rk4", "integrator: rk5", "34:37: solve.ilqr.integrator",
        "no integrator named 'rk5'; did you mean 'rk4'"),
    "list of options": ("intervals: 50", "intervals: [50]", "34:21: solve.ilqr.intervals",
        "expected a number, text, true or false; got a list of 1"),
    "unknown tolerance": ("gap_segment: 1e-4", "gap_segmet: 1e-4", "35:10: accept.gap_segmet",
        "unknown tolerance; did you mean 'gap_segment'"),
    "negative tolerance": ("gap_segment: 1e-4", "gap_segment: -1", "35:23: accept.gap_segment",
        "must be positive, got -1"),
    "reference without tolerance": ("system:\n", "reference: {objective: 1, tolerance: 0}\nsystem:\n",
        "3:38: reference.tolerance", "must be positive, got 0"),
}

ROBOT_CASES: dict[str, Case] = {
    "robot file absent": ("arm.urdf", "arn.urdf", "4:10: system.robot", "did you mean 'arm.urdf'?"),
    "robot folder absent": ("arm.urdf", "models/arm.urdf", "4:10: system.robot", "does not exist"),
    "robot of another format": ("arm.urdf", "arm.sdf", "4:10: system.robot",
        "expected a .urdf or .xml file, or robots:NAME; got 'arm.sdf'"),
    "dynamics of a robot": ("  root: fixed\n", "  root: fixed\n  dynamics: {x: 1}\n", "6:3: system.dynamics",
        "unknown key"),
    "unknown root": ("root: fixed", "root: floating", "5:9: system.root",
        "expected one of fixed, free_flyer, planar; got the text 'floating'"),
    "motor of no joint": ("root: fixed", "actuated: [shoulder, elbo]", "5:24: system.actuated[1]",
        "no joint named 'elbo' that can have a motor; did you mean 'elbow'?"),
    "motor on a follower": ("root: fixed", "actuated: [grip]", "5:14: system.actuated[0]",
        "no joint named 'grip' that can have a motor"),
    "thruster on no frame": ("root: fixed", "thrusters: [{name: f, frame: hnd}]", "5:32: system.thrusters[0].frame",
        "no frame named 'hnd'; did you mean 'hand'"),
    "thruster without axis": ("root: fixed", "thrusters: [{name: f, frame: hand, axis: [0, 0, 0]}]",
        "5:44: system.thrusters[0].axis", "axis and moment are both zero"),
    "derivatives in the wrong place": ("root: fixed", "derivatives: analytic", "5:3: system.derivatives", "unknown key"),
    "start of no joint": ("{shoulder: 0, elbow: 0.5,", "{shoulder: 0, elbo: 0.5,", "8:33: phase.start.joints.elbo",
        "no joint that moves named 'elbo'; did you mean 'elbow'? (known: elbow, shoulder, wrist)"),
    "start of a follower": ("{shoulder: 0, elbow: 0.5,", "{shoulder: 0, grip: 0.5,",
        "8:33: phase.start.joints.grip", "the joint 'grip' follows 'elbow'; give that one"),
    "start outside its limits": ("elbow: 0.5, wrist", "elbow: 2.5, wrist", "8:40: phase.start.joints.elbow",
        "'q.elbow' is 2.5, outside its bounds [0, 2]"),
    "start outside the robot's limits": ("final: {joints: {shoulder: 1}}", "final: {joints: {shoulder: 2.1}}",
        "9:30: phase.final.joints.shoulder", "'q.shoulder' is 2.1, outside its bounds [-2, 2]"),
    "base of a fixed robot": ("final: {joints", "final: {base: {position: [0, 0, 1]}, joints",
        "9:11: phase.final.base", "the robot has no floating base; it needs system.root: free_flyer"),
    "rotation of a hinge": ("elbow: 0.5, wrist", "elbow: {rpy: [0, 0, 0]}, wrist", "8:40: phase.start.joints.elbow",
        "its value is a number, not a rotation"),
    "velocity beside rest": ("rest: true", "rest: true, velocities: {elbow: 1}",
        "8:88: phase.start.velocities.elbow", "contradicts 'rest: true'"),
    "rest as text": ("rest: true", "rest: yes", "8:62: phase.start.rest",
        "expected true or false; got the text 'yes'"),
    "unknown configuration": ("final: {joints: {shoulder: 1}}", "final: {configuration: home}",
        "9:26: phase.final.configuration",
        "no configuration named 'home'; the robot file comes with none (set system.srdf)"),
    "bound of no joint": ("elbow: [0, 2]", "elbw: [0, 2]", "11:14: phase.bounds.joints.elbw",
        "no joint named 'elbw'; did you mean 'elbow'"),
    "bound of no control": ("shoulder: [-5, 5]", "shouder: [-5, 5]", "12:16: phase.bounds.controls.shouder",
        "no control named 'shouder'; did you mean 'shoulder'?"),
    "unknown frame": ('position("hand")', 'position("hnd")', "16:52: phase.constraints[0].expression",
        "position: no frame named 'hnd'; did you mean 'hand'"),
    "unknown frame of a pose": ("frame: hand, position", "frame: hnd, position",
        "17:50: phase.constraints[1].pose_error.frame", "no frame named 'hnd'; did you mean 'hand'"),
    "vector where a number is wanted": ("dot(tau, tau)", "tau", "14:32: phase.costs[0].running",
        "has 3 components; a single number is expected here"),
    "unknown joint in an expression": ("dot(tau, tau)", 'tau["elbo"]**2', "14:32: phase.costs[0].running",
        "tau has no entry 'elbo'; did you mean 'elbow'"),
    "name reserved for the robot": ("{reach: 0.4}", "{reach: 0.4, tau: 1}", "2:25: constants.tau",
        "'tau' is reserved for the robot"),
    "constant from the state": ("equal: reach", "equal: 'reach*t'", "16:79: phase.constraints[0].equal",
        "'t' cannot be used here: it is the time"),
    "hand that cannot get there": ("pose_error: {frame: hand, position: [0.4, 0, 0.2], rpy: [0, 0, 0]}",
        "position_error: {frame: hand, position: [0.4, 0.1, 0.2]}", "17:46: phase.constraints[1].position_error",
        "component 1 is always -0.1, outside its bounds [0, 0]"),
    "guess of no control": ("  guess:\n", "  guess:\n    controls: {elbo: 1}\n", "19:16: phase.guess.controls.elbo",
        "no control named 'elbo'; did you mean 'elbow'"),
    "guess of another kind": ("states: [{joints: {elbow: 0.5}}, {joints: {elbow: 0.7}}]", "states: {elbow: 0.5}",
        "19:14: phase.guess.states.elbow", "unknown key (known: base, configuration, ik, joints, rest, velocities)"),
}

FLYER = """\
name: Flyer
system: {robot: arm.urdf, root: free_flyer}
phase:
  duration: 1
  start: {base: {position: [0, 0, 1], rpy: [0, 0, 0], linear_velocity: [0, 0, 0]}, joints: {elbow: 0.1}, others: free}
  bounds: {joints: {base.pz: [0, 2]}}
  costs: []
"""

FLYER_CASES: dict[str, Case] = {
    "four numbers as rotation": ("rpy: [0, 0, 0]", "rotation: [1, 0, 0, 0]", "5:39: phase.start.base.rotation",
        "unknown key"),
    "quaternion as a list": ("rpy: [0, 0, 0]", "quaternion: [1, 0, 0, 0]", "5:51: phase.start.base.quaternion",
        "a bare list is never a rotation, because the order of its entries is ambiguous; write one of rpy: [roll, "
        "pitch, yaw], quaternion: {w: .., x: .., y: .., z: ..} or axis_angle:"),
    "quaternion without w": ("rpy: [0, 0, 0]", "quaternion: {x: 0, y: 0, z: 0}",
        "5:51: phase.start.base.quaternion", "the key 'w' is missing (scalar part)"),
    "quaternion not of unit length": ("rpy: [0, 0, 0]", "quaternion: {w: 1, x: 1, y: 0, z: 0}",
        "5:51: phase.start.base.quaternion", "a unit quaternion is expected; this one has length 1.41421"),
    "two rotations": ("rpy: [0, 0, 0]", "rpy: [0, 0, 0], axis_angle: {axis: [0, 0, 1], angle: 1}",
        "5:17: phase.start.base", "needs at most one rotation; found rpy and axis_angle"),
    "axis of no length": ("rpy: [0, 0, 0]", "axis_angle: {axis: [0, 0, 0], angle: 1}",
        "5:58: phase.start.base.axis_angle.axis", "the axis is zero"),
    "two angles": ("rpy: [0, 0, 0]", "rpy: [0, 0]", "5:44: phase.start.base.rpy",
        "expected at least 3 entries, got 2"),
    "free component": ("position: [0, 0, 1]", "position: [0, null, 1]", "5:32: phase.start.base.position[1]",
        "got nothing (null)"),
    "base outside its bounds": ("position: [0, 0, 1]", "position: [0, 0, 3]", "5:28: phase.start.base.position",
        "'q.root_joint.pz' is 3, outside its bounds [0, 2]"),
    "base as a joint": ("joints: {elbow: 0.1}", "joints: {root_joint: 0.1}", "5:93: phase.start.joints.root_joint",
        "'root_joint' is the floating base; give 'base' beside 'joints'"),
    "bound of a rotation": ("base.pz: [0, 2]", "base.w: [0, 1]", '6:21: phase.bounds.joints["base.w"]',
        "is a component of a quaternion and cannot be bounded; use a constraint"),
    "bound of no component": ("base.pz: [0, 2]", "base.z_: [0, 1]", '6:21: phase.bounds.joints["base.z_"]',
        "no joint named 'base.z_'"),
    "bound of the whole base": ("base.pz: [0, 2]", "root_joint: [0, 1]", "6:21: phase.bounds.joints.root_joint",
        "'root_joint' has several components; bound one of root_joint.px"),
    "motor on the base": ("root: free_flyer}", "root: free_flyer, actuated: [root_joint]}",
        "2:56: system.actuated[0]", "no joint named 'root_joint' that can have a motor"),
}

BALL = """\
name: Ball
system: {robot: ball.xml}
phase:
  duration: 1
  start: {joints: {ball: {rpy: [0, 0, 0]}}, velocities: {ball: [0, 0, 0]}}
  costs: []
"""
BALL_XML = """<mujoco><worldbody><body name="bob"><joint name="ball" type="ball"/>
<geom type="sphere" size="0.1" pos="0 0 -0.5" mass="1"/></body></worldbody></mujoco>"""

BALL_CASES: dict[str, Case] = {
    "four numbers as rotation": ("ball: {rpy: [0, 0, 0]}", "ball: [1, 0, 0, 0]", "5:26: phase.start.joints.ball",
        "the joint 'ball' is spherical; its value is a rotation, one of rpy: [roll, pitch, yaw], "),
    "number as rotation": ("ball: {rpy: [0, 0, 0]}", "ball: 0.3", "5:26: phase.start.joints.ball",
        "its value is a rotation"),
    "three velocities from one": ("velocities: {ball: [0, 0, 0]}", "velocities: {ball: 0}",
        "5:64: phase.start.velocities.ball", "needs a list of 3 velocities (ball.wx, ball.wy, ball.wz)"),
    "unknown rotation": ("{rpy: [0, 0, 0]}", "{rpz: [0, 0, 0]}", "5:27: phase.start.joints.ball.rpz",
        "unknown key; did you mean 'rpy'?"),
    "root of an MJCF file": ("ball.xml}", "ball.xml, root: free_flyer}", "2:17: system.robot",
        "system.root applies to URDF"),
    "configuration of no name": ("start: {", "start: {configuration: hom, ", "5:26: phase.start.configuration",
        "no configuration named 'hom'"),
}


def _message(path: Path) -> str:
    with pytest.raises(ProblemError) as caught:
        load_problem(path)
    return str(caught.value)


def _mutate(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, "the template must contain the passage exactly once"
    return text.replace(old, new)


def test_the_templates_are_well_formed(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(ARM_URDF)
    assert load_text(SYMBOLIC).problem.name == "Pendulum"
    assert load_text(ROBOT, tmp_path).problem.name == "Arm"
    assert load_text(FLYER, tmp_path).problem.name == "Flyer"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.sample(6)
def test_one_mistake_one_message(case: Case, tmp_path: Path) -> None:
    _check(SYMBOLIC, case, tmp_path)


def _check(template: str, case: Case, folder: Path) -> None:
    old, new, place, words = case
    path = folder / "p.yaml"
    path.write_text(_mutate(template, old, new))
    message = _message(path)
    assert message.startswith(f"{path}:{place}" if place else f"{path}: ")
    assert words in message
    assert "errors in the problem" not in message


@pytest.mark.parametrize("case", ROBOT_CASES.values(), ids=ROBOT_CASES.keys())
@pytest.mark.sample(4)
def test_one_mistake_about_a_robot_one_message(case: Case, tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(ARM_URDF)
    _check(ROBOT, case, tmp_path)


@pytest.mark.parametrize("case", FLYER_CASES.values(), ids=FLYER_CASES.keys())
def test_one_mistake_about_a_floating_base_one_message(case: Case, tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(ARM_URDF)
    _check(FLYER, case, tmp_path)


@pytest.mark.parametrize("case", BALL_CASES.values(), ids=BALL_CASES.keys())
def test_one_mistake_about_a_ball_joint_one_message(case: Case, tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    (tmp_path / "ball.xml").write_text(BALL_XML)
    assert load_text(BALL, tmp_path).problem.phase.start is not None
    _check(BALL, case, tmp_path)


def test_all_mistakes_are_reported_in_the_order_of_the_file() -> None:
    text = SYMBOLIC.replace("torque: [-5, 5]", "torqe: [5, -5]").replace("sin(theta)\n", "sin(thet)\n")
    text = text.replace("upper: 0.6", "upper: hight")
    with pytest.raises(ProblemFileError) as caught:
        load_text(text, name="p.yaml")
    lines = [line.split(": ")[0] for line in caught.value.findings]
    assert lines == ["p.yaml:8:38", "p.yaml:22:28", "p.yaml:27:50"]
    assert str(caught.value).startswith(
        "3 errors in the problem:\np.yaml:8:38: system.dynamics.omega: unknown name 'thet'")


def test_all_mistakes_of_form_are_reported_together() -> None:
    text = SYMBOLIC.replace("duration: 2.0", "duration: true").replace("upper: 0.6", "uper: 0.6").replace("m: 1.0", "m: []")
    with pytest.raises(ProblemFileError) as caught:
        load_text(text, name="p.yaml")
    keys = [line.split(": ")[1] for line in caught.value.findings]
    assert keys == ["constants.m", "phase.duration", "phase.constraints[0].uper"]


def test_a_limit_of_zero_in_the_robot_file_is_not_taken_silently(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(ARM_URDF.replace('effort="10"', 'effort="0"'))
    with pytest.raises(ProblemError) as caught:
        load_text(ROBOT, tmp_path)
    assert ("limits the effort of 'elbow', 'wrist' to 0; give phase.bounds.controls, or set system.limits.effort: false"
            in str(caught.value))
    changed = ROBOT.replace("root: fixed", "limits: {effort: false}")
    assert load_text(changed, tmp_path).problem.phase.u_upper[1] == float("inf")


def test_damaged_files_never_end_in_anything_but_a_problem_error() -> None:
    rng = random.Random(11)
    pieces = [*"[]{}:,-#*&!|>'\"%@`?\n\t 0x.", "null", "- ", "**", "1e999", ": "]
    messages: list[str] = []
    for _ in range(300):
        text = list(SYMBOLIC)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text))
            text[at : at + rng.randrange(0, 3)] = rng.choice(pieces)
        try:
            load_text("".join(text), name="p.yaml")
        except ProblemError as error:
            messages.append(str(error))
    assert len(messages) > 100
    assert all("p.yaml" in message and "Input should" not in message for message in messages)


# ---- everything at once ---------------------------------------------------------------------------------------------------
MANY = """name: Many errors
constants: {m: 2, k: 1/}
tables: {drag: nosuch.csv}
system:
  states: {x: m, v: m/s}
  controls: {u: N}
  dynamics: {x: vv, v: "(u - drag(v))/m + k"}
phase:
  duraton: 1
  start: {x: 0, v: 0, y: 3}
  costs:
    - {name: effort, running: u**2, wieght: 2}
    - {name: bad}
    - {name: third, running: uu**2}
  constraints:
    - {name: c1, expresion: x, upper: 1}
    - {name: c2, expression: x + q, upper: 1}
linkages:
  - {name: l, expression: 'final["z"]', equal: 0}
solve: {method: colocation, collocation: {intervalls: 3}, ilqr: {intervals: -3}, strategy: {without: [nothing]}}
accept: {violations: 3}
simulate: {integrator: rk5, dt: 0.01}
"""


def test_independent_errors_come_at_once() -> None:
    """Of the schema, of names, of expressions, options and linkages; each at its own line though others before it are left out."""
    with pytest.raises(ProblemFileError) as caught:
        load_text(MANY)
    found = {re.match(r"problem.yaml:(\d+)", line)[1]: line for line in caught.value.findings}
    expected = {2: "1/", 3: "nosuch.csv", 7: "'vv'", 9: "duraton", 10: "'y'", 12: "wieght", 13: "exactly one of", 14: "'uu'",
                16: "expresion", 17: "'q'", 19: "'z'", 21: "violations", 22: "rk5"}
    for line, words in expected.items():
        assert words in found[str(line)], line
    at_20 = [line for line in caught.value.findings if ".yaml:20:" in line]
    assert len(at_20) == 4
    assert len(caught.value.findings) == len(expected) + 4  # and nothing that follows from another
    assert "costs[2].running" in found["14"]
    assert "constraints[1].expression" in found["17"]


def lines_of(text: str, **more: dict[str, str]) -> list[str]:
    """Which keys the errors of a file name."""
    with pytest.raises(ProblemFileError) as caught:
        load_text(text, **more)
    return [re.sub(r"^\S*:\d+:\d+: ", "", one).partition(": ")[0] for one in caught.value.findings]


def test_every_option_sweep_and_closed_loop_is_judged_though_others_are_wrong() -> None:
    options = "{intervals: 0, integrator: rk9, tolerance: -1, bogus: 2}"
    wrong = SYMBOLIC.replace("{intervals: 50, integrator: rk4}", options).replace("theta: omega\n", "theta: omga\n") + (
        "sweep: {over: {phase.duratin: '1:2:3', constants.m: '2:1:3', phase.duration: '1:2:3'}}\n"
        "mpc: {horizon: -1, track: [{name: angle, quantity: theta, reference: thta}], ilqr: {intervals: -3}}\n")
    assert lines_of(wrong) == [
        "system.dynamics.theta", *(f"solve.ilqr.{key}" for key in ("intervals", "integrator", "tolerance", "bogus")),
        'sweep.over["phase.duratin"]', 'sweep.over["constants.m"]', "mpc.horizon", "mpc.track[0].reference", "mpc.ilqr.intervals"]


def test_all_changes_that_cannot_be_made_are_named() -> None:
    with pytest.raises(ProblemFileError) as caught:
        load_text(SYMBOLIC, overrides={"phase.costs[7].weights": "1", "phase.duration": "3", "constants.q.w": "1"})
    assert [one.partition("=")[0] for one in caught.value.findings] == ["--set phase.costs[7].weights", "--set constants.q.w"]


def test_what_a_malformed_part_would_name_is_not_missed() -> None:
    text = MANY.replace("{x: m, v: m/s}", "{x: m, v: [1]}")
    with pytest.raises(ProblemFileError) as caught:
        load_text(text)
    assert any("system.states.v: expected text" in line for line in caught.value.findings)
    assert not any("no state named 'v'" in line or "unknown name 'v'" in line for line in caught.value.findings)


@pytest.mark.parametrize("seed", range(40))
def test_parts_that_are_left_out_keep_the_places_of_others(seed: int) -> None:
    rng = random.Random(seed)
    text = "a:\n" + "".join(f"  - {{k{i}: [{i}, {i + 1}, {i + 2}], name: n{i}}}\n" for i in range(6))
    source = parse_source(text, "f")
    for _ in range(4):
        i = rng.randrange(len(source.tree["a"]))
        j = next(iter(source.tree["a"][i]))
        source.left_out(rng.choice([("a", i), ("a", i, j, 0), ("a", i, "name")]))
    for i, row in enumerate(source.tree["a"]):
        for key, values in row.items():
            for k, value in enumerate(values if isinstance(values, list) else []):
                number = int(key[1:])
                assert source.written(("a", i, key, k)) == ("a", number, key, value - number)
                assert source.where(("a", i, key, k)).startswith(f"f:{number + 2}:")
