"""Building blocks of the problem file that both kinds of system share: numbers, bounds, costs, duration, drawing, solve."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypeAliasType

MAX_COMPONENTS = 1000


class Part(BaseModel):
    """Base of every mapping in a problem file: unknown keys are errors, values never change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


def refuse(message: str) -> PydanticCustomError:
    """An error of a whole mapping, in the words of the user."""
    return PydanticCustomError("problem", "{message}", {"message": message})


def exactly_one(part: BaseModel, names: tuple[str, ...]) -> str:
    """The only one of the fields ``names`` that is given. Raises a validation error otherwise."""
    given = [name for name in names if getattr(part, name) is not None]
    if len(given) != 1:
        found = " and ".join(given) if given else "none"
        raise refuse(f"needs exactly one of {', '.join(names)}; found {found}")
    return given[0]


class Degrees(Part):
    """An angle in degrees, ``{deg: 45}``."""

    deg: StrictFloat | str = Field(description="angle in degrees: a number or an expression over the constants",
                                   union_mode="left_to_right")


NUMBER_WORDS = "a number, an expression in quotes, or {deg: angle}"


def number_tag(value: Any) -> str | None:
    """Which form of a number this is; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return "<number>"
    if isinstance(value, str):
        return "<expression>"
    return "<Degrees>" if isinstance(value, (Mapping, Degrees)) else None


def _number_or_list_tag(value: Any) -> str | None:
    return "<list>" if isinstance(value, (list, tuple)) else number_tag(value)


def _duration_tag(value: Any) -> str | None:
    return "<DurationRange>" if isinstance(value, (Mapping, DurationRange)) else number_tag(value)


def expected(words: str) -> dict[str, Any]:
    """Arguments of a Discriminator whose error says what was expected."""
    return {"custom_error_type": "expected", "custom_error_message": words}


_Float = Annotated[StrictFloat, Tag("<number>")]
_Expression = Annotated[str, Tag("<expression>"), Field(min_length=1)]

Number = TypeAliasType("Number", Annotated[
    _Float | _Expression | Annotated[Degrees, Tag("<Degrees>")],
    Discriminator(number_tag, **expected(NUMBER_WORDS)),
    Field(description="a number, an expression over the constants, or {deg: angle}")])

NumberOrList = TypeAliasType("NumberOrList", Annotated[
    _Float | _Expression | Annotated[Degrees, Tag("<Degrees>")]
    | Annotated[tuple[Number, ...], Tag("<list>"), Field(min_length=1, max_length=MAX_COMPONENTS)],
    Discriminator(_number_or_list_tag, **expected(f"{NUMBER_WORDS}, or a list of these")),
    Field(description="a number or expression, or a list of these")])

LimitOrList = TypeAliasType("LimitOrList", Annotated[
    _Float | _Expression | Annotated[Degrees, Tag("<Degrees>")]
    | Annotated[tuple[Number | None, ...], Tag("<list>"), Field(min_length=1, max_length=MAX_COMPONENTS)],
    Discriminator(_number_or_list_tag, **expected(f"{NUMBER_WORDS}, or a list of these (null: no limit)")),
    Field(description="one limit for every component, or a list with one for each (null: none)")])

Bound = TypeAliasType("Bound", Annotated[
    tuple[Number | None, ...], Field(min_length=2, max_length=2, description="[lower, upper]; null: unbounded")])
Vector3 = TypeAliasType("Vector3", Annotated[tuple[Number, ...], Field(min_length=3, max_length=3, description="[x, y, z]")])
MAX_NAME = 200


def _one_line(name: str) -> str:
    strange = next((c for c in name if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")), None)
    if strange is not None:
        raise refuse(f"a name is one line of text; this one contains the character {strange!r}")
    if len(name) > MAX_NAME:
        raise refuse(f"a name of {len(name)} characters; at most {MAX_NAME} are read")
    return name


def _file_name(name: str) -> str:
    if not _PHASE.fullmatch(_one_line(name)):
        raise refuse(f"{name!r} cannot be the name of a phase, which names columns and parts of archives; use letters, digits, _, "
                     "- and single spaces, starting with a letter")
    return name


_PHASE = re.compile(r"[^\W\d_]\w*([ -]\w+)*")
Name = Annotated[str, Field(min_length=1), AfterValidator(_one_line)]
PhaseName = Annotated[str, Field(min_length=1), AfterValidator(_file_name)]


def _named_tag(value: Any) -> str | None:
    return "<names>" if isinstance(value, Mapping) else _number_or_list_tag(value)


NamedNumbers = TypeAliasType("NamedNumbers", Annotated[
    _Float | _Expression | Annotated[tuple[Number, ...], Tag("<list>"), Field(min_length=1, max_length=MAX_COMPONENTS)]
    | Annotated[dict[str, Number], Tag("<names>")],
    Discriminator(_named_tag, **expected("a mapping of names to numbers, one number for all, or a list with one for each")),
    Field(description="numbers by name, one number for all, or a list with one for each in order")])


def _state_tag(value: Any) -> str | None:
    return None if isinstance(value, str) else _named_tag(value)


StateNumbers = TypeAliasType("StateNumbers", Annotated[
    _Float | Annotated[tuple[Number, ...], Tag("<list>"), Field(min_length=1, max_length=MAX_COMPONENTS)]
    | Annotated[dict[str, Number], Tag("<names>")],
    Discriminator(_state_tag, **expected("a mapping of states to numbers, one number for all, or a list with one for each")),
    Field(description="states by name, one number for all, or a list with one for each in order")])


class Parameter(Part):
    """A parameter, and the range in which the solver may choose it."""

    value: Number = Field(description="value, or first guess where the solver chooses")
    optimise: Bound | None = Field(None, description="[lower, upper] within which the solver chooses; null: it is given")


def _parameter_tag(value: Any) -> str | None:
    return "<Parameter>" if isinstance(value, (Mapping, Parameter)) and "deg" not in value else number_tag(value)


ParameterValue = TypeAliasType("ParameterValue", Annotated[
    _Float | _Expression | Annotated[Degrees, Tag("<Degrees>")] | Annotated[Parameter, Tag("<Parameter>")],
    Discriminator(_parameter_tag, **expected(f"{NUMBER_WORDS}, or {{value: .., optimise: [lower, upper]}}")),
    Field(description="a number, or {value: .., optimise: [lower, upper]}")])


class TablePart(Part):
    """A function given by points, which expressions call by its name: ``drag(v)``, ``lift(v, angle)``."""

    file: Name | None = Field(
        None, description="CSV file relative to this one: two columns, x and value; or x in the first column, y in the first row")
    x: Annotated[tuple[Number, ...], Field(min_length=2, max_length=MAX_COMPONENTS)] | None = Field(None, description="places")
    y: Annotated[tuple[Number, ...], Field(min_length=2, max_length=MAX_COMPONENTS)] | None = Field(
        None, description="places of the second argument; null: there is one argument")
    values: Annotated[tuple[NumberOrList, ...], Field(min_length=2, max_length=MAX_COMPONENTS)] | None = Field(
        None, description="value at each x, or a row of values, one for each y")
    smooth: StrictBool = Field(
        False, description="true: natural cubic splines, straight on outside; false: straight lines, level outside")

    @model_validator(mode="after")
    def _one_source(self) -> TablePart:
        if (self.file is None) == (self.x is None) or (self.x is None) != (self.values is None):
            raise refuse("needs a 'file', or 'x' and 'values'")
        if self.file is not None and self.y is not None:
            raise refuse("'y' belongs to 'x' and 'values'; in a file it is the first row")
        return self


def _table_tag(value: Any) -> str | None:
    return "<file>" if isinstance(value, str) else "<TablePart>" if isinstance(value, (Mapping, TablePart)) else None


AnyTable = TypeAliasType("AnyTable", Annotated[
    Annotated[str, Tag("<file>"), Field(min_length=1)] | Annotated[TablePart, Tag("<TablePart>")],
    Discriminator(_table_tag, **expected("a .csv file, or {x: [..], values: [..]}")),
    Field(description="a .csv file, or a mapping")])


class Reference(Part):
    """A published or closed-form optimum to compare with."""

    objective: Number = Field(description="objective value at the optimum")
    tolerance: Number = Field(1e-6, description="relative tolerance of the comparison")
    error: Number = Field(0.0, description="how far the value itself may be from the optimum, in its own unit")
    source: str = Field("", description="where the value is from")


class DurationRange(Part):
    """A free duration."""

    lower: Number = Field(description="shortest duration [s], > 0")
    upper: Number | None = Field(None, description="longest duration [s]; null: unbounded")
    guess: Number | None = Field(None, description="initial guess [s]; null: midway between lower and upper")


Duration = TypeAliasType("Duration", Annotated[
    _Float | _Expression | Annotated[DurationRange, Tag("<DurationRange>")],
    Discriminator(_duration_tag, **expected("a number of seconds, or {lower: .., upper: .., guess: ..}")),
    Field(description="length of the phase [s]: a number, or {lower, upper, guess} when it is free")])


class Cost(Part):
    """One term of the objective: an expression, integrated (running), added up over the steps of a system in discrete time (stage)
    or added at the end (final), or a weighted square."""

    name: Name = Field(description="name in reports")
    running: Number | None = Field(None, description="scalar expression, integrated over time (in discrete time: the sum over all "
                                                     "steps, times the period)")
    stage: Number | None = Field(None, description="scalar expression, summed over the steps of a system in discrete time")
    final: Number | None = Field(None, description="scalar expression at the end; no controls")
    running_residual: NumberOrList | None = Field(None, description="residuals r; costs 1/2 sum w r^2, integrated over time")
    stage_residual: NumberOrList | None = Field(None, description="residuals r; costs 1/2 sum w r^2, summed over steps")
    final_residual: NumberOrList | None = Field(None, description="residuals r at the end; costs 1/2 sum w r^2")
    control_error: NamedNumbers | None = Field(
        None, description="controls less these values, as residuals along the path; a control that is not named does not count")
    at: Literal["path", "final"] | None = Field(
        None, description="where an .._error counts: all along the path (the default) or at the end")
    weights: NumberOrList | None = Field(
        None, description="weights w of the residuals, one or one for each (errors: in the order of their components); default 1")
    between: Bound | None = Field(
        None, description="[from, to] in seconds: outside, a running cost counts nothing. A window shorter than a few steps of "
                          "the mesh may fall between its knots; phases end exactly where they should")

    @model_validator(mode="after")
    def _one_form(self) -> Cost:
        form = self.form()
        if self.weights is not None and form in ("running", "stage", "final"):
            raise refuse(f"'weights' belongs to residuals and errors, not to '{form}'; multiply there instead")
        if self.at is not None and not form.endswith("error"):
            raise refuse(f"'at' belongs to an error; '{form}' itself says where it counts")
        if self.between is not None and self.is_final():
            raise refuse("'between' belongs to running costs; this one counts at the end only")
        return self

    def forms(self) -> tuple[str, ...]:
        """The fields of which exactly one says what costs."""
        return ("running", "stage", "final", "running_residual", "stage_residual", "final_residual", "control_error")

    def form(self) -> str:
        """The field that says what costs."""
        return exactly_one(self, self.forms())

    def is_final(self) -> bool:
        return self.form().startswith("final") or self.at == "final"


def check_limits(lower: Any, upper: Any, equal: Any, soft: Any) -> None:
    """``equal`` alone, or at least one of ``lower`` and ``upper``. Raises a validation error otherwise."""
    if equal is not None and (lower is not None or upper is not None):
        raise refuse("'equal' cannot stand beside 'lower' or 'upper'")
    if equal is None and lower is None and upper is None:
        raise refuse("has no bound; give 'lower', 'upper' or both, or 'equal'")


class Constraint(Part):
    """``lower <= expression <= upper`` or ``expression = equal``."""

    name: Name = Field(description="name in reports and in certificates")
    at: Literal["path", "start", "final", "integral"] = Field(
        "path", description="where it holds: all along the path, at the start, at the end, or of the integral over the phase")
    expression: NumberOrList | None = Field(None, description="one expression, or a list of them")
    lower: LimitOrList | None = Field(None, description="smallest allowed value, one or one for each component")
    upper: LimitOrList | None = Field(None, description="largest allowed value, one or one for each component")
    equal: NumberOrList | None = Field(None, description="prescribed value, one or one for each component")
    soft: Number | None = Field(None, description="weight of the penalty 1/2 soft |violation|^2; null: a hard constraint")

    @model_validator(mode="after")
    def _complete(self) -> Constraint:
        self.one_quantity()
        check_limits(self.lower, self.upper, self.equal, self.soft)
        if self.at == "integral" and self.soft is not None:
            raise refuse("an integral constraint cannot be soft")
        return self

    def one_quantity(self) -> str:
        """The field that says what is constrained."""
        return exactly_one(self, ("expression",))


class Linkage(Part):
    """``lower <= expression <= upper`` or ``expression = equal`` between ends of phases, such as a periodic motion."""

    name: Name = Field(description="name in reports and in certificates")
    expression: NumberOrList = Field(description="one expression or a list of them, of start[...], final[...] and duration")
    lower: LimitOrList | None = Field(None, description="smallest allowed value, one or one for each component")
    upper: LimitOrList | None = Field(None, description="largest allowed value, one or one for each component")
    equal: NumberOrList | None = Field(None, description="prescribed value, one or one for each component")

    @model_validator(mode="after")
    def _complete(self) -> Linkage:
        check_limits(self.lower, self.upper, self.equal, None)
        return self


class Circle(Part):
    """A filled circle of the drawing."""

    at: Name = Field(description="point at its centre")
    radius: Number = Field(description="radius [m]")


class Box(Part):
    """A filled upright rectangle of the drawing."""

    at: Name = Field(description="point at its centre")
    size: Annotated[tuple[Number, ...], Field(min_length=2, max_length=2)] = Field(description="[width, height] [m]")


class Drawing(Part):
    """What an animation shows, in the plane: x to the right, y up."""

    points: dict[str, Annotated[tuple[Number, ...], Field(min_length=2, max_length=2)]] = Field(
        description="points by name: [x, y], expressions of states, controls and constants [m]")
    segments: tuple[Annotated[tuple[str, ...], Field(min_length=2, max_length=2)], ...] = Field(
        (), description="lines between two points")
    circles: tuple[Circle, ...] = Field((), description="filled circles")
    boxes: tuple[Box, ...] = Field((), description="filled rectangles")
    trace: tuple[str, ...] = Field((), description="points whose path is drawn")


def _plain_option(value: Any) -> Any:
    if not isinstance(value, (bool, int, float, str)):
        raise PydanticCustomError("expected", "{words}", {"words": "a number, text, true or false"})
    return value


Option = Annotated[Any, AfterValidator(_plain_option)]


class StrategyPart(Part):
    """What is tried for an answer, in the order of the table of rules (``ocp show --strategy``)."""

    without: list[Name] = Field(default_factory=list, description="names of rules that are switched off")


class Solve(Part):
    """How to solve the problem unless the command line says otherwise."""

    method: Literal["collocation", "multiple_shooting", "ilqr", "adjoint"] = Field("collocation", description="method of solution")
    derivatives: Literal["auto", "ad", "analytic", "complex_step", "fd"] | None = Field(
        None, description="source of the derivatives of the dynamics, whatever the method; null: the default of the method")
    time_limit: Number | None = Field(
        None, description="[s] after which the best of what was found is returned, whatever the method; null: none")
    strategy: StrategyPart = Field(default_factory=StrategyPart, description="what is tried for an answer")
    collocation: dict[str, Option] = Field(default_factory=dict, description="options of the collocation method")
    multiple_shooting: dict[str, Option] = Field(default_factory=dict, description="options of direct multiple shooting")
    ilqr: dict[str, Option] = Field(default_factory=dict, description="options of iLQR")
    adjoint: dict[str, Option] = Field(default_factory=dict, description="options of single shooting by adjoint gradients")


class Expectation(Part):
    """A known result of a simulation by one integrator, which ``ocp verify`` compares."""

    integrator: Name = Field(description="by which integrator")
    energy: Number = Field(description="total energy at the end less the potential energy at the start [J]")
    tolerance: Number = Field(1e-8, description="relative difference that counts as agreement")


class Simulate(Part):
    """How the system is simulated unless the command line says otherwise."""

    integrator: Name = Field("rk4", description="any integrator of shooting methods, bdf1, sdirk2, bdf2, or dop853")
    dt: Number | None = Field(None, description="longest step [s]; null: a 500th of the whole")
    until: Number | None = Field(None, description="when to stop [s]; null: at the end of the last phase")
    controls: dict[str, Number] | None = Field(
        None, description="constant controls by name, zero for the rest ({}: all zero); null: those of the guess")
    expect: tuple[Expectation, ...] = Field((), description="known results")


class Common(Part):
    """Keys that every problem file has."""

    name: Name = Field(description="name of the problem, a few words")
    description: str = Field("", description="what the problem is about, in prose")
    theme: str = Field("", description="group of the problem in lists of a gallery")
    source: str = Field("", description="where the problem is from: paper or book, with the section")
    reference: Reference | None = Field(None, description="known optimum")
    constants: dict[str, Number] = Field(default_factory=dict, description="named numbers; each may use earlier ones and pi")
    tables: dict[str, AnyTable] = Field(
        default_factory=dict, description="functions given by points, which expressions call by name")
    parameters: dict[str, ParameterValue] = Field(
        default_factory=dict, description="named numbers that stay symbols in the problem; the solver may choose them")
    linkages: tuple[Linkage, ...] = Field((), description="constraints between the ends of phases; a periodic motion is one")
    simulate: Simulate | None = Field(None, description="how ocp simulate moves the system, and what must come of it")
    solve: Solve = Field(default_factory=lambda: Solve.model_validate({}), description="default method and its options")
    accept: dict[str, Number] = Field(
        default_factory=dict, description="tolerances of the certificate that differ from the default")
