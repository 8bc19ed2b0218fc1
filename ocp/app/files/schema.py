"""The problem file as typed, frozen records: what a file may contain, its JSON Schema, and the way back to YAML.

A file describes a symbolic system (``SymbolicProblem``) or a robot (``RobotProblem``), in one phase or several
(``SymbolicPhases``, ``RobotPhases``); the keys ``system.robot`` (or ``system.bodies``) and ``phases`` decide.
The records hold what the file says (expressions stay text); ``ocp.app.files.load`` turns them into mathematics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, Discriminator, Field, Tag, model_validator
from pydantic.json_schema import models_json_schema

from ocp.app.files import yaml_source
from ocp.app.files.schema_linear import LinearSystem
from ocp.app.files.schema_mpc import MPC
from ocp.app.files.schema_parts import (
    Bound,
    Common,
    Constraint,
    Cost,
    Drawing,
    Duration,
    NamedNumbers,
    Number,
    NumberOrList,
    Part,
    PhaseName,
    StateNumbers,
    expected,
    refuse,
)
from ocp.app.files.schema_robot import RobotPhases, RobotProblem
from ocp.app.files.schema_time import Sampled

JSON_SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class SymbolicSystem(Part):
    """A system given by its differential equations, or by its steps in discrete time."""

    states: dict[str, str] = Field(min_length=1, description="state names and their units ('' for none)")
    controls: dict[str, str] = Field(default_factory=dict, description="control names and their units")
    algebraic: dict[str, str] = Field(
        default_factory=dict, description="names of unknowns that 'equations' determine at every time, and their units")
    dynamics: dict[str, Number] = Field(
        default_factory=dict, description="time derivative of every state; those left out are unknowns of 'equations'")
    next: dict[str, Number] = Field(
        default_factory=dict, description="of a system in discrete time, in the place of dynamics: every state after a step, from "
                                          "states and controls before it")
    period: Number | None = Field(None, description="[s] between the steps of 'next'; null: 1, and t counts steps")
    sampled: Sampled | None = Field(
        None, description="discrete time: steps of an integrator over 'dynamics', with held controls; null: continuous time")
    equations: dict[str, Number] = Field(
        default_factory=dict, description="implicit equations by name, 'left = right' or an expression that is 0; der(x) is the "
                                          "time derivative of a state; as many as algebraic unknowns and states without dynamics")
    define: dict[str, Number] = Field(default_factory=dict, description="named expressions, usable in all later ones")
    energy: Number | None = Field(None, description="total mechanical energy [J]; needs 'power'")
    power: Number | None = Field(
        None, description="power supplied to the system [W]: actuators minus losses; needs 'energy'")

    @model_validator(mode="after")
    def _pair(self) -> SymbolicSystem:
        if (self.energy is None) != (self.power is None):
            given, missing = ("power", "energy") if self.energy is None else ("energy", "power")
            raise refuse(f"'{given}' without '{missing}'; the energy balance needs both")
        if self.period is not None and not self.next:
            raise refuse("'period' is that of 'next'; with dynamics, sampled: {period: ..} makes steps")
        others = [key for key in ("dynamics", "equations", "algebraic", "energy", "sampled") if getattr(self, key)]
        if self.next and others:
            raise refuse(f"'next' gives the steps of a system in discrete time; '{others[0]}' cannot stand beside it")
        if self.sampled is not None and self.equations:
            raise refuse("'sampled' takes steps of dynamics; 'equations' cannot stand beside it")
        return self


def _system_tag(value: Any) -> str | None:
    if isinstance(value, LinearSystem) or (isinstance(value, Mapping) and "linear" in value):
        return "<LinearSystem>"
    return "<SymbolicSystem>" if isinstance(value, (Mapping, SymbolicSystem)) else None


AnySystem = Annotated[
    Annotated[SymbolicSystem, Tag("<SymbolicSystem>")] | Annotated[LinearSystem, Tag("<LinearSystem>")],
    Discriminator(_system_tag, **expected("a mapping with states and dynamics, with linear, or with robot"))]


class SymbolicGuess(Part):
    """Initial guess: a value, or values at equally spaced times, by name."""

    states: dict[str, NumberOrList] = Field(default_factory=dict, description="states; default: a line from start to final")
    controls: dict[str, NumberOrList] = Field(
        default_factory=dict, description="controls; default: 0, or the middle of the bounds")
    algebraic: dict[str, NumberOrList] = Field(
        default_factory=dict, description="algebraic unknowns, from which the equations are solved along the guess")


class SymbolicCost(Cost):
    """A term of the objective; errors are residuals of states and controls."""

    state_error: NamedNumbers | None = Field(
        None, description="states less these values, as residuals; a state that is not named does not count")

    def forms(self) -> tuple[str, ...]:
        return (*super().forms(), "state_error")


class SymbolicPhase(Part):
    """One stretch of time."""

    duration: Duration
    start: StateNumbers = Field(
        default_factory=dict, description="states at the start: all of them, or others: free | neutral (zero) for the rest")
    final: StateNumbers = Field(default_factory=dict, description="states at the end; free where left out")
    bounds: dict[str, Bound] = Field(
        default_factory=dict, description="[lower, upper] of states, controls and algebraic unknowns; null: unbounded")
    costs: tuple[SymbolicCost, ...] = Field(description="terms of the objective; [] asks for any feasible motion")
    constraints: tuple[Constraint, ...] = Field((), description="constraints beyond bounds")
    guess: SymbolicGuess = Field(default_factory=lambda: SymbolicGuess.model_validate({}), description="initial guess")


class SymbolicProblem(Common):
    """A problem file about a system given by its differential equations."""

    system: AnySystem = Field(description="states, controls and dynamics")
    drawing: Drawing | None = Field(None, description="what an animation shows")
    phase: SymbolicPhase = Field(description="duration, boundary states, bounds, costs and constraints")
    mpc: MPC | None = Field(None, description="receding horizon in closed loop, for ocp mpc")


class SymbolicPhaseInOrder(SymbolicPhase):
    """One of several phases."""

    name: PhaseName = Field(description="name of the phase")
    system: AnySystem | None = Field(None, description="states, controls and dynamics of this phase; null: those of the file")
    reset: dict[str, Number] | None = Field(
        None, description="states at the start of this phase, expressions of the state before; the rest goes on; null: all does")


class SymbolicPhases(Common):
    """A problem file of several phases about systems given by their differential equations."""

    system: AnySystem | None = Field(None, description="states, controls and dynamics of every phase that does not say otherwise")
    drawing: Drawing | None = Field(None, description="what an animation shows; for one system in all phases")
    phases: tuple[SymbolicPhaseInOrder, ...] = Field(min_length=1, description="phases in order of time")


ProblemFile = SymbolicProblem | RobotProblem | SymbolicPhases | RobotPhases


def problem_class(tree: Any) -> type[ProblemFile]:
    """The record that a file's tree is meant to be: the key ``phases`` and the first system decide."""
    if not isinstance(tree, Mapping):
        return SymbolicProblem
    system, several = tree.get("system"), tree.get("phases")
    if "phases" in tree and not isinstance(system, Mapping):
        listed = several if isinstance(several, (list, tuple)) else []
        system = next((p["system"] for p in listed if isinstance(p, Mapping) and isinstance(p.get("system"), Mapping)), None)
    if isinstance(system, Mapping) and ("robot" in system or "bodies" in system):
        return RobotPhases if "phases" in tree else RobotProblem
    return SymbolicPhases if "phases" in tree else SymbolicProblem


# ---- writing ----------------------------------------------------------------------------------------------------------
FIRST = ("name", "theme", "description", "source", "reference", "constants", "tables", "parameters", "system", "drawing", "phase",
         "phases", "linkages", "mpc", "simulate", "solve", "accept")


def to_tree(file: ProblemFile) -> dict[str, Any]:
    """Plain values of the whole file, every default written out."""
    tree = file.model_dump(mode="json")
    return {key: tree[key] for key in FIRST if key in tree and not (key in ("mpc", "simulate") and tree[key] is None)}


def to_yaml(file: ProblemFile) -> str:
    """The file as YAML with every default written out; reading it gives an equal record."""
    return yaml_source.dump(to_tree(file))


# ---- JSON Schema ------------------------------------------------------------------------------------------------------
def problem_json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of problem files, for editors, with the options of every method and the tolerances."""
    from ocp.certify import Tolerances
    from ocp.methods import METHODS

    options = {name: method.options_type() for name, method in METHODS.items()} | {"accept": Tolerances}
    kinds = (SymbolicProblem, RobotProblem, SymbolicPhases, RobotPhases)
    models: list[tuple[type[BaseModel], Any]] = [(kind, "validation") for kind in kinds]
    _, schema = models_json_schema(models)
    definitions = schema["$defs"]
    for key, record in options.items():
        holders = tuple(kind.__name__ for kind in kinds) if key == "accept" else ("Solve",)
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
            "then": {"$ref": "#/$defs/RobotProblem"},
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
        words = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", "")
        kinds = [kind for word in words.replace(" ", "").split("|") for kind in _JSON_TYPES.get(word, [])]
        schemas[field.name] = {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else {}
        if field.default is not dataclasses.MISSING:
            schemas[field.name]["default"] = field.default
    return schemas
