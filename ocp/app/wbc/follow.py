"""A run of ``ocp solve`` as the motion that whole-body control follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np
from scipy.interpolate import BarycentricInterpolator

from dynamics.constraints import Contact
from dynamics.model.model import Model
from ocp.app.files.control.wbc import LoadedWbc
from ocp.app.files.load import load_problem
from ocp.app.pages.results import Run, read_run
from ocp.app.runs import problem_of
from ocp.contacts import constraint_forces
from ocp.errors import ProblemError
from ocp.mpc.controller import controller
from ocp.mpc.options import solver_options
from ocp.problem import Phase, Problem
from ocp.wbc.follow import Motion, Stretch, follow
from ocp.wbc.planned import PlannedMotion, follow_plan

STEP_S = 5e-3
"""Longest step between samples [s]."""


def followed(loaded: LoadedWbc) -> LoadedWbc:
    """The file with tasks and a schedule that follow what its section ``follow`` names; as it was without one. The robot begins
    where a solved motion does unless the file says where. Raises ProblemError for what is no run and for another robot's."""
    if loaded.following is None:
        return loaded
    setup, file = loaded.setup, loaded.file
    if loaded.following.mpc:
        return replace(loaded, setup=follow_plan(setup, _planned(loaded), loaded.following))
    run = read_run(loaded.folder / loaded.following.run)
    motion = motion_of(run, setup.mechanism.model)
    first, own = motion.stretches[0], file.start != type(file.start)()
    if "duration" not in file.wbc.model_fields_set:
        lasts = motion.ends - motion.begins
        setup = replace(setup, duration=lasts)
        file = file.model_copy(update={"wbc": file.wbc.model_copy(update={"duration": lasts})})
    setup = replace(setup, start=setup.start if own else np.r_[first.q[0], first.v[0]])
    return replace(loaded, file=file, setup=follow(setup, motion, loaded.following))


def _planned(loaded: LoadedWbc) -> PlannedMotion:
    """The receding horizon of a file, ready to begin. Raises ProblemError for a file without one."""
    assert loaded.following is not None
    file = loaded.folder / loaded.following.mpc
    given = load_problem(file)
    if given.mpc is None:
        raise ProblemError("has no section 'mpc'", where=f"follow: {file}")
    solver = solver_options(given.problem, given.mpc.options, {**given.options_for("ilqr"), **given.mpc.ilqr})
    problem = given.problem if given.mpc.problem is None else given.mpc.problem
    return PlannedMotion(controller(problem, given.mpc.options, solver), loaded.setup.mechanism.model, loaded.setup.rate)


def motion_of(run: Run, model: Model) -> Motion:
    """The motion of a run as one of a robot. Raises ProblemError where its coordinates are others."""
    return motion_from(problem_of(run), run.arrays, model, f"follow: {run.folder}")


def motion_from(problem: Problem, arrays: Mapping[str, np.ndarray], model: Model, where: str) -> Motion:
    """The same from the arrays of a solution; where: it comes from, for messages."""
    found = []
    free = dict.fromkeys(phase.system.parameters[i] for phase in problem.phases for i, _, _ in phase.free_parameters)
    chosen = dict(zip(free, arrays.get("parameters", np.zeros(0)).tolist(), strict=False))
    for phase in problem.phases:
        robot = phase.system.robot
        names = None if robot is None else (robot.model.coordinate_names, robot.model.velocity_names)
        if names != (model.coordinate_names, model.velocity_names):
            other = "is no robot" if names is None else f"has the coordinates {', '.join(names[0])}"
            raise ProblemError(f"phase {phase.name!r} of the run {other}; the robot of this file has "
                               f"{', '.join(model.coordinate_names)}", where=where)
        found.append(_stretch(arrays, phase, f"{phase.name}." if "phase_names" in arrays else "", chosen))
    return Motion(model, found)


def _stretch(arrays: Mapping[str, np.ndarray], phase: Phase, prefix: str, parameters: Mapping[str, float]) -> Stretch:
    system, robot = phase.system, phase.system.robot
    nq, nv = robot.model.nq, robot.model.nv
    at, states, at_u, inputs = (arrays[f"{prefix}{name}"] for name in ("t", "x", "t_u", "u"))
    p = [parameters.get(name, value) for name, value in zip(system.parameters, system.parameter_values, strict=True)]
    t, x, u, rates, ends = _between_knots(phase, at, states, at_u, inputs, np.array(p))
    contacts = tuple(c for c in robot.constraints if isinstance(c, Contact))
    return Stretch(t, x[:, :nq], x[:, nq:nq + nv], rates[:, nv:2 * nv], contacts, _forces(robot, contacts, t, x, u),
                   ends[:, nv:2 * nv])


def _between_knots(phase: Phase, t: np.ndarray, x: np.ndarray, t_u: np.ndarray, u: np.ndarray, p: np.ndarray
                   ) -> tuple[np.ndarray, ...]:
    """(times, states, inputs, rates of the states, rates as the next time comes) within and at the ends of the intervals: the
    dynamics are integrated on from the knots (classical Runge-Kutta), under the polynomials through the inputs of each interval."""
    system, h = phase.system, np.diff(t)
    parts = max(4, int(np.ceil(h.max() / STEP_S)))
    s = np.linspace(0.0, 1.0, 2 * parts + 1)
    first, last = t_u[0] <= t[0], t_u[-1] >= t[-1]  # whether inputs belong to the ends of the intervals
    inputs = np.zeros((len(h), len(s), u.shape[1]))
    for k in range(len(h)):
        own = (t_u >= t[k] if first else t_u > t[k]) & (t_u <= t[k + 1] if last else t_u < t[k + 1])
        inputs[k] = BarycentricInterpolator(t_u[own], u[own])(t[k] + s * h[k])
    rate = system.rate.map(len(h))
    times, states, rates = t[:-1] + np.outer(s[::2], h), [x[:-1]], []
    for j in range(parts + 1):
        now = states[j]

        def rate_at(i: int, move: np.ndarray, now: np.ndarray = now) -> np.ndarray:
            there = system.space.moved(now, move).T
            found = rate(t[:-1] + s[i] * h, there, inputs[:, i].T, np.tile(p[:, None], len(h)))
            return np.asarray(found.full()).T

        step = (h / parts)[:, None]
        k1 = rate_at(2 * j, np.zeros((len(h), system.space.ndx)))
        rates.append(k1)
        if j < parts:
            k2 = rate_at(2 * j + 1, step / 2 * k1)
            k3 = rate_at(2 * j + 1, step / 2 * k2)
            k4 = rate_at(2 * j + 2, step * k3)
            states.append(system.space.moved(now, step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)))

    def joined(values: np.ndarray) -> np.ndarray:  # [parts + 1, intervals, n]: the last of each interval is the next one's first
        return np.concatenate([values[:-1].swapaxes(0, 1).reshape(-1, values.shape[2]), values[-1:, -1]])

    found = np.array(rates)
    return (joined(times[:, :, None]).ravel(), joined(np.array(states)), joined(inputs[:, ::2].swapaxes(0, 1)), joined(found),
            found[1:].swapaxes(0, 1).reshape(-1, found.shape[2]))


def _forces(robot: Any, contacts: tuple[Contact, ...], t: np.ndarray, x: np.ndarray, u: np.ndarray) -> dict[str, np.ndarray]:
    """World forces [n, 3] of the contacts of one point; none where parameters of the problem are parts of the forces."""
    single = [c for c in contacts if len(getattr(c, "points", ())) == 1]
    if not single:
        return {}
    arguments = [ca.SX.sym(name, size) for name, size in (("t", 1), ("x", x.shape[1]), ("u", u.shape[1]))]
    by = constraint_forces(robot, (*arguments, None), u.shape[1] - robot.nu)
    world = ca.Function("forces", arguments, [ca.densify(ca.SX(c.axes.T @ by[c.name])) for c in single])
    found = world.call([ca.DM(t).T, ca.DM(x.T), ca.DM(u.T)])
    return {c.name: np.asarray(force.full()).T for c, force in zip(single, found, strict=True)}
