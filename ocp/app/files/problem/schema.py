"""The problem file as typed, frozen records: what a file may contain, its JSON Schema, and the way back to YAML.

A file describes a symbolic system (``SymbolicProblem``) or a robot (``RobotProblem``), in one phase or several
(``SymbolicPhases``, ``RobotPhases``); the keys ``system.robot`` (or ``system.bodies``) and ``phases`` decide.
The records hold what the file says (expressions stay text); ``ocp.app.files.load`` turns them into mathematics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, Discriminator, Field, Tag
from pydantic.json_schema import models_json_schema
from typing_extensions import TypeAliasType

from ocp.app.files.control.mpc_schema import MPC
from ocp.app.files.problem import sections_schema as sections
from ocp.app.files.robot.gait_schema import RobotGait
from ocp.app.files.robot.schema import RobotPhases, RobotProblem
from ocp.app.files.syntax import parts
from ocp.app.files.syntax.parts import Key, Number, NumberOrList, Part, refuse
from ocp.app.files.syntax.yaml_text import dump

JSON_SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class SymbolicSystem(Part):
    """A system given by its differential equations, or by its steps in discrete time."""

    states: dict[str, str] = Key("state names and their units ('' for none)", min_length=1)
    controls: dict[str, str] = Key("control names and their units", dict)
    algebraic: dict[str, str] = Key("names of unknowns that 'equations' determine at every time, and their units", dict)
    dynamics: dict[str, Number] = Key("time derivative of every state; those left out are unknowns of 'equations'", dict)
    next: dict[str, Number] = Key("of a system in discrete time, in the place of dynamics: every state after a step, from states "
                                  "and controls before it", dict)
    period: Number | None = Key("sampling period of 'next' [s]; null: 1, and t counts steps", None, above=0)
    sampled: sections.Sampled | None = Key("discrete time: steps of an integrator over 'dynamics', with constant controls; null: "
                                        "continuous time", None)
    equations: dict[str, Number] = Key("implicit equations by name, 'left = right' or an expression that is 0; der(x) is the time "
                                       "derivative of a state; as many as algebraic unknowns and states without dynamics", dict)
    define: dict[str, Number] = Key("named expressions, usable in all later ones", dict)
    energy: Number | None = Key("total mechanical energy [J]; needs 'power'", None)
    power: Number | None = Key("power supplied to the system [W]: actuators minus losses; needs 'energy'", None)

    def check(self) -> None:
        if (self.energy is None) != (self.power is None):
            spec, missing = ("power", "energy") if self.energy is None else ("energy", "power")
            raise refuse(f"'{spec}' without '{missing}'; the energy balance needs both")
        if self.period is not None and not self.next:
            raise refuse("'period' applies to 'next'; with dynamics use sampled: {period: ..}")
        others = [key for key in ("dynamics", "equations", "algebraic", "energy", "sampled") if getattr(self, key)]
        if self.next and others:
            raise refuse(f"'next' gives the steps of a system in discrete time; '{others[0]}' cannot stand beside it")
        if self.sampled is not None and self.equations:
            raise refuse("'sampled' discretises explicit dynamics; it excludes 'equations'")


_Row = Annotated[tuple[Number, ...], Field(min_length=1, max_length=parts.MAX_COMPONENTS)]
Matrix = TypeAliasType("Matrix", Annotated[
    parts.Text | Annotated[tuple[_Row, ...], Tag("<list>"), Field(min_length=1, max_length=parts.MAX_COMPONENTS)],
    parts.by_form("a list of rows, or the path of a .csv file"),
    Field(description="a list of rows, or the path of a .csv file relative to this file: numbers, comma-separated, a row a line")])


class Linear(Part):
    """Matrices of a linear system with n states and m controls."""

    A: Matrix = Key("state matrix [n, n]", path=True)
    B: Matrix = Key("control matrix [n, m]", path=True)
    period: Number | None = Key("sampling period of x_next = A x + B u + c [s]; null: continuous time", None, above=0)
    drift: tuple[Number, ...] | None = Key("constant rate, or part of a step, c [n]; null: zero", None, null=0.0)
    states: dict[str, str] | None = Key("names and units of states in order; null: x0, x1, ...", None, examples=["{angle: rad}"])
    controls: dict[str, str] | None = Key("names and units of controls in order; null: u0, u1, ...", None, examples=["{force: N}"])


class LinearSystem(Part):
    """A system with linear equations: dx/dt = A x + B u + c, or x after a step = A x + B u + c."""

    linear: Linear = Key("matrices and names")
    sampled: sections.Sampled | None = Key("in discrete time, by steps of an integrator; null: as it stands", None)

    def check(self) -> None:
        if self.sampled is not None and self.linear.period is not None:
            raise refuse("'linear.period' and 'sampled' both make the system discrete-time; give one of them")


def _system_tag(value: Any) -> str | None:
    if isinstance(value, LinearSystem) or (isinstance(value, Mapping) and "linear" in value):
        return "<LinearSystem>"
    return "<SymbolicSystem>" if isinstance(value, (Mapping, SymbolicSystem)) else None


AnySystem = Annotated[
    Annotated[SymbolicSystem, Tag("<SymbolicSystem>")] | Annotated[LinearSystem, Tag("<LinearSystem>")],
    Discriminator(_system_tag, custom_error_type="expected",
                  custom_error_message="a mapping with states and dynamics, with linear, or with robot")]


class SymbolicGuess(Part):
    """Initial guess: a value, or values at equally spaced times, by name."""

    states: dict[str, NumberOrList] = Key("states; default: a line from start to final", dict)
    controls: dict[str, NumberOrList] = Key("controls; default: 0, or the middle of the bounds", dict)
    algebraic: dict[str, NumberOrList] = Key("algebraic unknowns, from which the equations are solved along the guess", dict)


class SymbolicCost(sections.Cost):
    """A term of the objective; errors are residuals of states and controls."""

    forms = (*sections.Cost.forms, "state_error")

    state_error: parts.NamedNumbers | None = Key("states less these values, as residuals; a state that is not named does not "
                                                 "count", None)


class SymbolicPhase(Part):
    """One stretch of time."""

    duration: sections.Duration = Key("length of the phase [s], or the range in which it is free")
    start: parts.StateNumbers = Key("states at the start: all of them, or others: free | neutral (zero) for the rest", dict)
    final: parts.StateNumbers = Key("states at the end; free where left out", dict)
    bounds: dict[str, parts.Bound] = Key("[lower, upper] of states, controls and algebraic unknowns; null: unbounded", dict)
    costs: tuple[SymbolicCost, ...] = Key("terms of the objective; [] asks for any feasible motion")
    constraints: tuple[sections.Constraint, ...] = Key("constraints beyond bounds", ())
    guess: SymbolicGuess = Key("initial guess", SymbolicGuess)


class SymbolicProblem(sections.Common):
    """A problem file about a system given by its differential equations."""

    system: AnySystem = Key("states, controls and dynamics")
    drawing: sections.Drawing | None = Key("what an animation shows", None)
    phase: SymbolicPhase = Key("duration, boundary states, bounds, costs and constraints")
    mpc: MPC | None = Key("receding horizon in closed loop, for ocp mpc", None)


class SymbolicPhaseInOrder(SymbolicPhase):
    """One of several phases."""

    name: parts.PhaseName = Key("name of the phase")
    system: AnySystem | None = Key("states, controls and dynamics of this phase; null: those of the file", None)
    reset: dict[str, Number] | None = Key("states at the start of this phase, expressions of the state before; the rest goes on; "
                                          "null: all does", None)


class SymbolicPhases(sections.Common):
    """A problem file of several phases about systems given by their differential equations."""

    system: AnySystem | None = Key("states, controls and dynamics of all phases without their own", None)
    drawing: sections.Drawing | None = Key("what an animation shows; for one system in all phases", None)
    phases: tuple[SymbolicPhaseInOrder, ...] = Key("phases in order of time", min_length=1)
    mpc: MPC | None = Key("receding horizon across the phases in closed loop, for ocp mpc", None)


ProblemFile = SymbolicProblem | RobotProblem | SymbolicPhases | RobotPhases
AnyFile = ProblemFile | RobotGait  # a gait is turned into phases before anything else is read
KINDS: tuple[type[AnyFile], ...] = (SymbolicProblem, RobotProblem, RobotGait, SymbolicPhases, RobotPhases)


def problem_class(tree: Any) -> type[AnyFile]:
    """The record that a file's tree is meant to be: the keys ``phases`` and ``gait`` and the first system decide."""
    if not isinstance(tree, Mapping):
        return SymbolicProblem
    system, several = tree.get("system"), tree.get("phases")
    if "phases" in tree and not isinstance(system, Mapping):
        listed = several if isinstance(several, (list, tuple)) else []
        system = next((p["system"] for p in listed if isinstance(p, Mapping) and isinstance(p.get("system"), Mapping)), None)
    if isinstance(system, Mapping) and ("robot" in system or "bodies" in system):
        return RobotPhases if "phases" in tree else RobotGait if "gait" in tree else RobotProblem
    return SymbolicPhases if "phases" in tree else SymbolicProblem


# ---- writing ----------------------------------------------------------------------------------------------------------
FIRST = ("name", "theme", "description", "source", "reference", "constants", "tables", "parameters", "system", "drawing", "phase",
         "phases", "linkages", "mpc", "simulate", "sweep", "solve", "accept")


def to_tree(file: ProblemFile) -> dict[str, Any]:
    """Plain values of the whole file, every default written out."""
    tree = file.model_dump(mode="json")
    return {key: tree[key] for key in FIRST if key in tree and not (key in ("mpc", "simulate", "sweep") and tree[key] is None)}


def to_yaml(file: ProblemFile) -> str:
    """The file as YAML with every default written out; reading it gives an equal record."""
    return dump(to_tree(file))


# ---- JSON Schema ------------------------------------------------------------------------------------------------------
def problem_json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of problem files, for editors, with the options of every method and the tolerances."""
    from ocp.certify import Tolerances
    from ocp.methods import METHODS

    options = {name: method.options_type() for name, method in METHODS.items()} | {"accept": Tolerances}
    models: list[tuple[type[BaseModel], Any]] = [(kind, "validation") for kind in KINDS]
    _, schema = models_json_schema(models)
    definitions = schema["$defs"]
    for key, record in options.items():
        holders = tuple(kind.__name__ for kind in KINDS) if key == "accept" else ("Solve",)
        for holder in holders:
            definitions[holder]["properties"][key] |= {"properties": _field_schemas(record), "additionalProperties": False}
    return {
        "$schema": JSON_SCHEMA_DIALECT,
        "title": "Optimal-control problem",
        "type": "object",
        "if": {"required": ["phases"]},
        "then": {"anyOf": [{"$ref": "#/$defs/SymbolicPhases"}, {"$ref": "#/$defs/RobotPhases"}]},
        "else": {
            "if": {"properties": {"system": {"type": "object", "anyOf": [{"required": ["robot"]}, {"required": ["bodies"]}]}},
                   "required": ["system"]},
            "then": {"if": {"required": ["gait"]}, "then": {"$ref": "#/$defs/RobotGait"}, "else": {"$ref": "#/$defs/RobotProblem"}},
            "else": {"$ref": "#/$defs/SymbolicProblem"},
        },
        "$defs": definitions,
    }


_JSON_TYPES = {"bool": ["boolean"], "int": ["integer", "string"], "float": ["number", "string"], "str": ["string"]}


def _field_schemas(record: type) -> dict[str, Any]:
    # numbers may also be expressions, hence text
    fields = dataclasses.fields(record)
    schemas: dict[str, Any] = {}
    for field in fields:
        if dataclasses.is_dataclass(field.default):
            schemas[field.name] = {"type": "object", "properties": _field_schemas(type(field.default)),
                                   "additionalProperties": False}
            continue
        words = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", "")
        kinds = [kind for word in words.replace(" ", "").split("|") for kind in _JSON_TYPES.get(word, [])]
        schemas[field.name] = {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else {}
        if field.default is not dataclasses.MISSING:
            schemas[field.name]["default"] = field.default
    return schemas
