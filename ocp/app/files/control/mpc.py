"""The section ``mpc`` of a problem file turned into options, a plant and tracked quantities."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.constraints import Contact
from dynamics.errors import near
from dynamics.joints import record
from dynamics.mechanism import Mechanism
from dynamics.model.model import Model
from dynamics.model.rigid import body_inertia
from ocp.app.files.control import mpc_schema as schema
from ocp.app.files.control.trials import by_state, read_trials
from ocp.app.files.load import read_options
from ocp.app.files.syntax.overrides import apply_overrides
from ocp.app.files.syntax.reader import Reader, Section, sound, unknown
from ocp.app.files.syntax.scope import FollowOnError
from ocp.app.files.syntax.yaml_source import Source
from ocp.bridge import robot_system
from ocp.errors import ProblemError
from ocp.estimation.model import EstimatedParameter, EstimateSpec, EstimationModel, Sensor
from ocp.methods import NOTHING_TO_SAY
from ocp.mpc.options import MPCOptions, Tracked, horizon_problem
from ocp.mpc.pushes import spread_pushes
from ocp.mpc.trials import RandomTrials
from ocp.plants import Disturbances, Kick, PlantSpec, Push
from ocp.plants.integrated import INTEGRATED
from ocp.problem import Problem, System
from ocp.shooting.stages.by_time import TimedProblem

PLANT_KEYS = ("system", "constants", "parameters")
"""First keys of a path under ``mpc.plant.set``: what makes a plant."""
Reload = Callable[[Source], Problem]


@dataclass(frozen=True)
class LoadedMPC:
    """A section ``mpc``, read. ilqr: given options of the solver that differ from those of ``solve.ilqr``. problem: the horizon
    across several phases, None where the file has one."""

    options: MPCOptions
    ilqr: Mapping[str, Any]
    plant: PlantSpec
    tracked: tuple[Tracked, ...]
    trials: RandomTrials = field(default_factory=RandomTrials)
    estimate: EstimateSpec | None = None
    problem: Problem | None = None


@sound
def read_mpc(reader: Reader, file: Any, problem: Problem | None, reload: Reload) -> LoadedMPC:
    """The section of a file; None where errors were recorded. problem: None where it has errors, then only parts of the section
    are read that need no problem.

    reload: turns a changed source into a problem; for plants that differ from the model.
    """
    given: schema.MPC = file.mpc
    section = Section(reader, given, ("mpc",))
    options = _options(section, None if problem is None else problem.phases[0].system.period)
    ilqr = read_options(reader, given.ilqr, "ilqr", ("mpc", "ilqr"))
    if problem is None or options is None:
        section.all("track", lambda item: _tracked(item, reader.u.numel()))
        raise FollowOnError("recorded")
    across: Problem | None = None
    original = problem
    if len(problem.phases) > 1:
        reread = reload
        with section.collecting():
            across = horizon_problem(problem, options)
        if across is None:
            raise FollowOnError("recorded")
        problem = across

        def reload(changed: Source) -> Problem:
            return horizon_problem(reread(changed), options)

    system = problem.phase.system
    if given.intervals is not None:
        if "intervals" in given.ilqr:
            section.refuse("is also given as mpc.ilqr.intervals; give one of them", "intervals")
        ilqr["intervals"] = given.intervals
    if system.period is not None and "intervals" in ilqr:
        section.refuse(f"intervals: {NOTHING_TO_SAY}")
    tracked = section.all("track", lambda item: _tracked(item, problem.phase.system.nu))
    if options.horizon is None and problem.phase.duration.free:
        section.refuse("the phase has a free duration, so the horizon needs a length; set 'horizon'")
    # a horizon that begins at a measurement leaves nothing of these to the solver
    if problem.phase.start is None or not problem.phase.start.complete:
        reader.findings.add(("phase", "start"), "a closed loop (section 'mpc') begins at a whole state; prescribe every part of it")
    if problem.phase.free_parameters:
        reader.findings.add(("parameters",), "a closed loop (section 'mpc') has no parameters to choose; give their values")
    disturbances = _disturbances(section.part("disturbances"), system, options.duration)
    trials = read_trials(section.part("trials"), system.space, system.model)
    plant = _plant_system(section.part("plant"), problem, original, reload)
    reader.findings.settle()
    assert plant is not None
    with section.collecting("plant"):
        plant_system, robot, words = plant
        contacts = [] if robot is None else [one for one in robot.constraints if isinstance(one, Contact)]
        kind = given.plant.kind if given.plant.kind != "auto" else "hybrid" if contacts and all(
            contact.friction is not None for contact in contacts) else INTEGRATED
        if kind == INTEGRATED and isinstance(problem, TimedProblem):
            raise ProblemError("contacts open and close: use plant hybrid or mujoco, and give every contact a friction")
        spec = PlantSpec(plant_system, given.plant.integrator, given.plant.substeps, disturbances, words, kind, robot)
    estimate: EstimateSpec | None = None
    if given.estimate is not None:
        with section.collecting("estimate"):
            estimate = _estimate(section.part("estimate"), problem, options)
    reader.findings.settle()
    return LoadedMPC(options, ilqr, spec, tracked, trials, estimate, across)


@sound
def _options(section: Section, period: float | None) -> MPCOptions:
    rate = 100.0 if period is None else 1 / period
    values: dict[str, Any] = {"rate": section.value("rate", rate)}
    values |= {name: section.value(name) for name in ("duration", "horizon", "barrier")}
    if period is not None and abs(values["rate"] * period - 1) > 1e-9:
        section.refuse(f"must be {rate:.9g}, one sample at each step of {period:g} s of the discrete-time system", "rate")
    section.findings.settle()
    values |= {name: getattr(section.spec, name) for name in ("iterations", "start_iterations", "feedback", "delay", "repeat")}
    try:
        return MPCOptions(**values)
    except ProblemError as error:
        section.refuse(error.message, "duration")
        raise FollowOnError("recorded") from None


@sound
def _tracked(section: Section, nu: int) -> Tracked:
    """nu: inputs of the horizon's system, fewer than those of the file's where unknowns of its equations are eliminated."""
    reader, item = section.reader, section.spec
    value = reader.column(item.quantity, section.at("quantity"))
    reference = reader.column(item.reference, section.at("reference"))
    if value is None or reference is None:
        raise FollowOnError("recorded")
    if reference.numel() == 1 and value.numel() > 1:
        reference = ca.repmat(reference, value.numel(), 1)
    if reference.numel() != value.numel():
        section.refuse(f"has {reference.numel()} components, the quantity {value.numel()}", "reference")
    if reader.depends(reference, reader.x) or reader.depends(reference, reader.u):
        section.refuse("depends on the state or the controls; a reference is a function of the time t", "reference")
    section.findings.settle()
    state = next((k for k in range(reader.x.numel()) if value.numel() == 1 and ca.is_equal(value, reader.x[k])), None)
    f, wanted = reader.function("tracked", value), reader.function("reference", reference)
    if nu < reader.u.numel():
        if reader.depends(value, reader.u[nu:]):
            section.refuse("depends on accelerations or forces, which have other components in a phase with other contacts",
                           "quantity")
            section.findings.settle()
        u, rest = ca.SX.sym("u", nu), ca.SX.zeros(reader.u.numel() - nu)
        at, whole = [reader.t, reader.x, u, reader.p], (reader.t, reader.x, ca.vertcat(u, rest), reader.p)
        f, wanted = ca.Function("tracked", at, [f(*whole)]), ca.Function("reference", at, [wanted(*whole)])
    return Tracked(item.name, f, wanted, item.unit, state, section.value("within"))


# ---- disturbances -------------------------------------------------------------------------------------------------------
def _disturbances(section: Section, system: System, duration: float) -> Disturbances:
    """duration: of the run [s]."""
    return Disturbances(
        seed=section.spec.seed, process=_noise(section, system, "process_noise"),
        measurement=_noise(section, system, "measurement_noise"),
        kicks=tuple(Kick(kick.value("time"), by_state(kick, system.space, system.model, "state"))
                    for kick in section.parts("kicks")),
        pushes=(*(_push(push, system) for push in section.parts("pushes")), *_random_pushes(section, system, duration)))


def _random_pushes(section: Section, system: System, duration: float) -> tuple[Push, ...]:
    if section.spec.random_pushes is None:
        return ()
    part = section.part("random_pushes")
    if system.model is None:
        part.refuse("only a robot has frames; give 'kicks' instead")
        return ()
    part.frame(system.model, "frame")
    return spread_pushes(part.spec.count, part.spec.frame, part.value("force"), part.value("duration"), duration, section.spec.seed)


def _estimate(section: Section, problem: Problem, options: MPCOptions) -> EstimateSpec:
    reader, given, phase = section.reader, section.spec, problem.phase
    sensors = []
    for part in section.parts("sensors"):
        value = reader.column(part.spec.quantity, part.at("quantity"))
        deviation = reader.column(part.spec.deviation, part.at("deviation"))
        if value is None or deviation is None:
            continue
        if not deviation.is_constant() or deviation.numel() not in (1, value.numel()):
            part.refuse(f"must be one number, or {value.numel()}", "deviation")
            continue
        known = np.asarray(ca.evalf(ca.DM(deviation)), float).ravel()
        every = tuple(np.broadcast_to(known, value.numel()).tolist())
        sensors.append(Sensor(part.spec.name, reader.function("sensor", value), every))
    parameters = []
    for name in given.parameters:
        if name not in phase.system.parameters:
            unknown(reader.findings, name, list(phase.system.parameters), section.at("parameters", name), "parameter")
            continue
        one = section.part("parameters", name)
        limits = one.value("lower", -np.inf), one.value("upper", np.inf)
        parameters.append(EstimatedParameter(name, one.value("deviation"), one.value("walk"), *limits))
    process, initial = (_noise(section, phase.system, key) or (0.0,) * phase.system.space.ndx for key in ("process", "initial"))
    reader.findings.settle()
    model = EstimationModel(phase.system, tuple(sensors), options.period, process, initial, tuple(parameters))
    return EstimateSpec(model, given.method, given.window, given.iterations)


def _noise(section: Section, system: System, key: str) -> tuple[float, ...]:
    """Standard deviations [ndx], or none where all are zero."""
    named = isinstance(getattr(section.spec, key), Mapping)
    found = by_state(section, system.space, system.model, key) if named else (section.value(key),) * system.space.ndx
    return found if any(found) else ()


def _push(section: Section, system: System) -> Push:
    push, duration = section.spec, section.value("duration")
    controls = [0.0] * system.nu
    for name, value in section.known("controls", system.controls, "control"):
        controls[system.controls.index(name)] = value
    frame, force = "", ()  # type: tuple[str, tuple[float, ...]]
    if push.force is not None:
        frame, force = push.force.frame, section.part("force").value("force")
        if system.model is None:
            section.refuse("only a robot has frames; push 'rate' instead, a force divided by its mass", "force")
        else:
            section.part("force").frame(system.model, "frame")
    return Push(section.value("time"), duration, by_state(section, system.space, system.model, "rate") if push.rate else (),
                tuple(controls) if push.controls else (), frame, force)


def _robot(problem: Problem) -> Mechanism | None:
    """The robot of all phases, with every contact that it has in one of them."""
    robots = [phase.system.robot for phase in problem.phases]
    if robots[0] is None:
        return None
    return replace(robots[0], constraints=tuple({one.name: one for robot in robots for one in robot.constraints}.values()))


class _PlantModel(NamedTuple):
    """System and robot of a plant, and how it differs from the model, in words."""

    system: System
    robot: Mechanism | None
    changed: tuple[str, ...]


# ---- a plant that differs -----------------------------------------------------------------------------------------------
@sound
def _plant_system(section: Section, problem: Problem, original: Problem, reload: Reload
                  ) -> _PlantModel:
    """The plant's system, its robot, and its changes in words; None after an error was recorded. original: the problem of the file,
    whose horizon is ``problem``."""
    given, findings, system = section.spec, section.findings, problem.phase.system
    words = [f"{key} = {value}" for key, value in given.set.items()]
    other = _changed_file(section, reload) if given.set else problem
    plant, robot = (None, None) if other is None else (
        other.phase.system, _robot(getattr(other, "parts", other) if given.set else original))
    changed = model = plant.model if plant is not None else None
    for kind, unit in (("masses", "kg"), ("damping", "")):
        for name, number in section.value(kind).items():
            words.append(f"{'mass' if kind == 'masses' else kind} of {name} = {number:g} {unit}".rstrip())
            if plant is not None and changed is None:
                section.refuse("only a robot has bodies and joints; change constants under 'set'", kind, name, at_key=True)
            elif changed is not None:
                changed = _changed_body(section, changed, kind, name, number)
    findings.settle()
    assert plant is not None
    if changed is not None and changed is not model:
        if robot is None:
            raise ProblemError("masses and damping need the dynamics of a robot")
        robot = replace(robot, model=changed)
        if not isinstance(problem, TimedProblem):
            plant = robot_system(robot, parameters=dict(zip(plant.parameters, plant.parameter_values, strict=True)))
    if (plant.space.names, plant.controls) != (system.space.names, system.controls):
        mine, theirs = (*system.space.names, *system.controls), (*plant.space.names, *plant.controls)
        lost = [name for name in mine if name not in theirs] + [name for name in theirs if name not in mine]
        section.refuse("the plant must have the states and controls of the model; "
                       f"different: {', '.join(map(repr, lost[:6])) or 'their order'}")
    return _PlantModel(plant, robot, tuple(words))


@sound
def _changed_file(section: Section, reload: Reload) -> Problem:
    findings = section.findings
    source = replace(findings.source, tree={key: value for key, value in findings.source.tree.items() if key != "mpc"})
    for key, value in section.spec.set.items():
        first = re.split(r"[.\[]", key)[0]
        if first not in PLANT_KEYS:
            section.refuse(f"does not belong to the plant{near(first, PLANT_KEYS)}", "set", key, at_key=True)
            continue
        try:
            source = apply_overrides(source, {key: json.dumps(value)})
        except ProblemError as error:
            section.refuse(error.message, "set", key, at_key=True)
    findings.settle()
    try:
        return reload(source)
    except ProblemError as error:
        section.refuse(f"with these changes the file is invalid: {error.message}", "set")
        raise FollowOnError("recorded") from None


def _changed_body(section: Section, model: Model, kind: str, name: str, number: float) -> Model:
    """The robot with another mass of one body, its inertia about the centre of mass scaled with it, or another viscous damping of
    one joint."""
    if kind == "masses":
        bodies, what = {body.name: body for body in model.bodies}, "body"
    else:
        bodies, what = {body.joint.name: body for body in model.bodies if record(body.joint).nv}, "joint that moves"
    if name not in bodies:
        unknown(section.findings, name, list(bodies), section.at(kind, name), what)
        return model
    body = bodies[name]
    if kind == "damping":
        made = replace(body, joint=replace(body.joint, damping=(number,) * record(body.joint).nv))
    elif body.inertia.mass > 0:
        scaled = number / body.inertia.mass * np.array(body.inertia.inertia)
        made = replace(body, inertia=body_inertia(number, body.inertia.com, scaled))
    else:
        section.refuse(f"the body {name!r} has no mass to scale", kind, name, at_key=True)
        return model
    return replace(model, bodies=tuple(made if other is body else other for other in model.bodies))
