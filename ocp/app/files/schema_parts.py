"""Building blocks of the problem file that both kinds of system share: numbers, bounds, costs, duration, drawing, solve."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, StrictBool, StrictFloat, Tag, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypeAliasType

MAX_COMPONENTS = 1000
MAX_NAME = 200


class Part(BaseModel):
    """Base of every mapping in a problem file: unknown keys are errors, values never change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @model_validator(mode="after")
    def _checked(self) -> Self:
        self.check()
        return self

    def check(self) -> None:
        """Raise a validation error (see ``refuse``) for keys that do not go together."""


def Key(text: str, default: Any = ..., **limits: Any) -> Any:
    """A key of a mapping: ``text`` says what it means, with its unit; ``default`` is a value, or a type that is made without
    arguments. Without a default the key must be given."""
    return Field(description=text, **{"default_factory" if isinstance(default, type) else "default": default}, **limits)


def refuse(message: str) -> PydanticCustomError:
    """An error of a whole mapping, in the words of the user."""
    return PydanticCustomError("problem", "{message}", {"message": message})


def one_of(part: Part, names: tuple[str, ...], optional: str = "") -> str:
    """The only one of the keys ``names`` that is given, "" for none where ``optional`` says what it is. Raises a validation error
    otherwise."""
    given = [name for name in names if getattr(part, name) is not None]
    if len(given) == 1 or (optional and not given):
        return "".join(given)
    found = " and ".join(given) if given else "none"
    raise refuse(f"needs at most one {optional}; found {found}" if optional else
                 f"needs exactly one of {', '.join(names)}; found {found}")


class OneOf(Part):
    """A mapping in which exactly one of some keys is given.

    forms: those keys; empty: all but those ``beside`` them. optional: what at most one of them is, where none may be given.
    """

    forms: ClassVar[tuple[str, ...]] = ()
    beside: ClassVar[tuple[str, ...]] = ("name",)
    optional: ClassVar[str] = ""

    def check(self) -> None:
        self.form()

    def form(self) -> str:
        """The key that is given, "" for none where that is allowed. Raises a validation error otherwise."""
        return one_of(self, self.forms or tuple(name for name in type(self).model_fields if name not in self.beside), self.optional)


class Degrees(Part):
    """An angle in degrees, ``{deg: 45}``."""

    deg: StrictFloat | str = Key("angle in degrees: a number or an expression over the constants", union_mode="left_to_right")


# ---- numbers, and what may stand in their place ---------------------------------------------------------------------------
def by_form(expected: str, mapping: str = "<Degrees>", *, degrees: bool = True) -> Discriminator:
    """Tells the members of a union, tagged <number>, <text>, <list>, <Degrees> and ``mapping``, from each other.

    expected: what an error says of other values. degrees: whether a mapping with the key ``deg`` is an angle.
    """
    def tag(value: Any) -> str | None:
        if isinstance(value, Degrees) or (degrees and isinstance(value, Mapping) and "deg" in value):
            return "<Degrees>"
        if isinstance(value, bool):
            return None
        kinds = (((int, float), "<number>"), (str, "<text>"), ((list, tuple), "<list>"), ((Mapping, BaseModel), mapping))
        return next((found for kind, found in kinds if isinstance(value, kind)), None)

    return Discriminator(tag, custom_error_type="expected", custom_error_message=expected)


NUMBER_WORDS = "a number, an expression in quotes, or {deg: angle}"
Float = Annotated[StrictFloat, Tag("<number>")]
InDegrees = Annotated[Degrees, Tag("<Degrees>")]
Text = Annotated[str, Tag("<text>"), Field(min_length=1)]  # an expression, or a file

Number = TypeAliasType("Number", Annotated[
    Float | Text | InDegrees, by_form(NUMBER_WORDS),
    Field(description="a number, an expression over the constants, or {deg: angle}")])

_List = Annotated[tuple[Number, ...], Tag("<list>"), Field(min_length=1, max_length=MAX_COMPONENTS)]
_Names = Annotated[dict[str, Number], Tag("<names>")]
_Limits = Annotated[tuple[Number | None, ...], Tag("<list>"), Field(min_length=1, max_length=MAX_COMPONENTS)]

NumberOrList = TypeAliasType("NumberOrList", Annotated[
    Float | Text | InDegrees | _List, by_form(f"{NUMBER_WORDS}, or a list of these"),
    Field(description="a number or expression, or a list of these")])

LimitOrList = TypeAliasType("LimitOrList", Annotated[
    Float | Text | InDegrees | _Limits, by_form(f"{NUMBER_WORDS}, or a list of these (null: no limit)"),
    Field(description="one limit for every component, or a list with one for each (null: none)")])

NamedNumbers = TypeAliasType("NamedNumbers", Annotated[
    Float | Text | _List | _Names,
    by_form("a mapping of names to numbers, one number for all, or a list with one for each", "<names>", degrees=False),
    Field(description="numbers by name, one number for all, or a list with one for each in order")])

StateNumbers = TypeAliasType("StateNumbers", Annotated[
    Float | _List | _Names,
    by_form("a mapping of states to numbers, one number for all, or a list with one for each", "<names>", degrees=False),
    Field(description="states by name, one number for all, or a list with one for each in order")])

Bound = TypeAliasType("Bound", Annotated[
    tuple[Number | None, ...], Field(min_length=2, max_length=2, description="[lower, upper]; null: unbounded")])
Vector3 = TypeAliasType("Vector3", Annotated[tuple[Number, ...], Field(min_length=3, max_length=3, description="[x, y, z]")])
Pair = Annotated[tuple[Number, ...], Field(min_length=2, max_length=2)]
_Places = Annotated[tuple[Number, ...], Field(min_length=2, max_length=MAX_COMPONENTS)]


_NUMERIC = (Number, NumberOrList, LimitOrList, NamedNumbers, StateNumbers, Bound, Vector3)


@functools.cache
def holds_numbers(kind: type[Part], key: str) -> bool:
    """Whether what stands under a key is a number, or numbers in lists and mappings."""
    def numeric(annotation: Any) -> bool:
        return annotation in _NUMERIC or any(map(numeric, get_args(annotation)))

    return numeric(kind.model_fields[key].annotation)


# ---- names ----------------------------------------------------------------------------------------------------------------
def _one_line(name: str) -> str:
    strange = next((c for c in name if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")), None)
    if strange is not None:
        raise refuse(f"a name is one line of text; this one contains the character {strange!r}")
    if len(name) > MAX_NAME:
        raise refuse(f"a name of {len(name)} characters; at most {MAX_NAME} are read")
    return name


def _file_name(name: str) -> str:
    if not re.fullmatch(r"[^\W\d_]\w*([ -]\w+)*", _one_line(name)):
        raise refuse(f"{name!r} cannot be the name of a phase, which names columns and parts of archives; use letters, digits, _, "
                     "- and single spaces, starting with a letter")
    return name


Name = Annotated[str, Field(min_length=1), AfterValidator(_one_line)]
PhaseName = Annotated[str, Field(min_length=1), AfterValidator(_file_name)]


# ---- sections -------------------------------------------------------------------------------------------------------------
class Parameter(Part):
    """A parameter, and the range in which the solver may choose it."""

    value: Number = Key("value, or first guess where the solver chooses")
    optimise: Bound | None = Key("[lower, upper] within which the solver chooses; null: it is given", None)


ParameterValue = TypeAliasType("ParameterValue", Annotated[
    Float | Text | InDegrees | Annotated[Parameter, Tag("<Parameter>")],
    by_form(f"{NUMBER_WORDS}, or {{value: .., optimise: [lower, upper]}}", "<Parameter>"),
    Field(description="a number, or {value: .., optimise: [lower, upper]}")])


class TablePart(Part):
    """A function given by points, which expressions call by its name: ``drag(v)``, ``lift(v, angle)``."""

    file: Name | None = Key("CSV file relative to this one: two columns, x and value; or x in the first column, y in the first "
                            "row", None)
    x: _Places | None = Key("places", None)
    y: _Places | None = Key("places of the second argument; null: there is one argument", None)
    values: Annotated[tuple[NumberOrList, ...], Field(min_length=2, max_length=MAX_COMPONENTS)] | None = Key(
        "value at each x, or a row of values, one for each y", None)
    smooth: StrictBool = Key("true: natural cubic splines, straight on outside; false: straight lines, level outside", False)

    def check(self) -> None:
        if (self.file is None) == (self.x is None) or (self.x is None) != (self.values is None):
            raise refuse("needs a 'file', or 'x' and 'values'")
        if self.file is not None and self.y is not None:
            raise refuse("'y' belongs to 'x' and 'values'; in a file it is the first row")


AnyTable = TypeAliasType("AnyTable", Annotated[
    Text | Annotated[TablePart, Tag("<TablePart>")],
    by_form("a .csv file, or {x: [..], values: [..]}", "<TablePart>", degrees=False),
    Field(description="a .csv file, or a mapping")])


class Sampled(Part):
    """A system in discrete time: what steps of an integrator make of rates while controls are held."""

    period: Number = Key("[s] between samples, in which controls are held; running costs count where steps begin")
    integrator: Name = Key("any integrator of shooting methods", "rk4")
    steps: int = Key("steps of it in a period", 1, ge=1)


class Reference(Part):
    """A published or closed-form optimum to compare with."""

    objective: Number = Key("objective value at the optimum")
    tolerance: Number = Key("relative tolerance of the comparison", 1e-6)
    error: Number = Key("how far the value itself may be from the optimum, in its own unit", 0.0)
    source: str = Key("where the value is from", "")


class DurationRange(Part):
    """A free duration."""

    lower: Number = Key("shortest duration [s]; 0: the phase may vanish")
    upper: Number | None = Key("longest duration [s]; null: unbounded", None)
    guess: Number | None = Key("initial guess [s]; null: midway between lower and upper", None)


Duration = TypeAliasType("Duration", Annotated[
    Float | Text | Annotated[DurationRange, Tag("<DurationRange>")],
    by_form("a number of seconds, or {lower: .., upper: .., guess: ..}", "<DurationRange>", degrees=False),
    Field(description="length of the phase [s]: a number, or {lower, upper, guess} when it is free")])


class Cost(OneOf):
    """One term of the objective: an expression, integrated (running), added up over the steps of a system in discrete time (stage)
    or added at the end (final), or a weighted square."""

    forms: ClassVar[tuple[str, ...]] = (
        "running", "stage", "final", "running_residual", "stage_residual", "final_residual", "control_error")

    name: Name = Key("name in reports")
    running: Number | None = Key("scalar expression, integrated over time (in discrete time: the sum over all steps, times the "
                                 "period)", None)
    stage: Number | None = Key("scalar expression, summed over the steps of a system in discrete time", None)
    final: Number | None = Key("scalar expression at the end; no controls", None)
    running_residual: NumberOrList | None = Key("residuals r; costs 1/2 sum w r^2, integrated over time", None)
    stage_residual: NumberOrList | None = Key("residuals r; costs 1/2 sum w r^2, summed over steps", None)
    final_residual: NumberOrList | None = Key("residuals r at the end; costs 1/2 sum w r^2", None)
    control_error: NamedNumbers | None = Key("controls less these values, as residuals along the path; a control that is not named "
                                             "does not count", None)
    at: Literal["path", "final"] | None = Key("where an .._error counts: all along the path (the default) or at the end", None)
    weights: NumberOrList | None = Key("weights w of the residuals, one or one for each (errors: in the order of their "
                                       "components); default 1", None)
    between: Bound | None = Key("[from, to] in seconds: outside, a running cost counts nothing. A window shorter than a few steps "
                                "of the mesh may fall between its knots; phases end exactly where they should", None)

    def check(self) -> None:
        form = self.form()
        if self.weights is not None and form in ("running", "stage", "final"):
            raise refuse(f"'weights' belongs to residuals and errors, not to '{form}'; multiply there instead")
        if self.at is not None and not form.endswith("error"):
            raise refuse(f"'at' belongs to an error; '{form}' itself says where it counts")
        if self.between is not None and self.is_final():
            raise refuse("'between' belongs to running costs; this one counts at the end only")

    def is_final(self) -> bool:
        return self.form().startswith("final") or self.at == "final"


def check_limits(part: Constraint | Linkage) -> None:
    """``equal`` alone, or at least one of ``lower`` and ``upper``. Raises a validation error otherwise."""
    if part.equal is not None and (part.lower is not None or part.upper is not None):
        raise refuse("'equal' cannot stand beside 'lower' or 'upper'")
    if part.equal is None and part.lower is None and part.upper is None:
        raise refuse("has no bound; give 'lower', 'upper' or both, or 'equal'")


class Constraint(OneOf):
    """``lower <= expression <= upper`` or ``expression = equal``."""

    forms: ClassVar[tuple[str, ...]] = ("expression",)

    name: Name = Key("name in reports and in certificates")
    at: Literal["path", "start", "final", "integral"] = Key("where it holds: all along the path, at the start, at the end, or of "
                                                            "the integral over the phase", "path")
    expression: NumberOrList | None = Key("one expression, or a list of them", None)
    lower: LimitOrList | None = Key("smallest allowed value, one or one for each component", None)
    upper: LimitOrList | None = Key("largest allowed value, one or one for each component", None)
    equal: NumberOrList | None = Key("prescribed value, one or one for each component", None)
    soft: Number | None = Key("weight of the penalty 1/2 soft |violation|^2; null: a hard constraint", None)

    def check(self) -> None:
        super().check()
        check_limits(self)
        if self.at == "integral" and self.soft is not None:
            raise refuse("an integral constraint cannot be soft")


class Linkage(Part):
    """``lower <= expression <= upper`` or ``expression = equal`` between ends of phases, such as a periodic motion."""

    name: Name = Key("name in reports and in certificates")
    expression: NumberOrList = Key("one expression or a list of them, of start[...], final[...] and duration")
    lower: LimitOrList | None = Key("smallest allowed value, one or one for each component", None)
    upper: LimitOrList | None = Key("largest allowed value, one or one for each component", None)
    equal: NumberOrList | None = Key("prescribed value, one or one for each component", None)

    check = check_limits


class Circle(Part):
    """A filled circle of the drawing."""

    at: Name = Key("point at its centre")
    radius: Number = Key("radius [m]")


class Box(Part):
    """A filled upright rectangle of the drawing."""

    at: Name = Key("point at its centre")
    size: Pair = Key("[width, height] [m]")


class Drawing(Part):
    """What an animation shows, in the plane: x to the right, y up."""

    points: dict[str, Pair] = Key("points by name: [x, y], expressions of states, controls and constants [m]")
    segments: tuple[Annotated[tuple[str, ...], Field(min_length=2, max_length=2)], ...] = Key("lines between two points", ())
    circles: tuple[Circle, ...] = Key("filled circles", ())
    boxes: tuple[Box, ...] = Key("filled rectangles", ())
    trace: tuple[str, ...] = Key("points whose path is drawn", ())


def _plain_option(value: Any) -> Any:
    if not isinstance(value, (bool, int, float, str)):
        raise PydanticCustomError("expected", "{words}", {"words": "a number, text, true or false"})
    return value


Option = Annotated[Any, AfterValidator(_plain_option)]


class StrategyPart(Part):
    """What is tried for an answer, in the order of the table of rules (``ocp show --strategy``)."""

    without: list[Name] = Key("names of rules that are switched off", list)


class Solve(Part):
    """How to solve the problem unless the command line says otherwise."""

    method: Literal["collocation", "multiple_shooting", "ilqr", "adjoint"] = Key("method of solution", "collocation")
    derivatives: Literal["auto", "ad", "analytic", "complex_step", "fd"] | None = Key(
        "source of the derivatives of the dynamics, whatever the method; null: the default of the method", None)
    time_limit: Number | None = Key("[s] after which the best of what was found is returned, whatever the method; null: none", None)
    strategy: StrategyPart = Key("what is tried for an answer", StrategyPart)
    collocation: dict[str, Option] = Key("options of the collocation method", dict)
    multiple_shooting: dict[str, Option] = Key("options of direct multiple shooting", dict)
    ilqr: dict[str, Option] = Key("options of iLQR", dict)
    adjoint: dict[str, Option] = Key("options of single shooting by adjoint gradients", dict)


class Expectation(Part):
    """A known result of a simulation by one integrator, which ``ocp verify`` compares."""

    integrator: Name = Key("by which integrator")
    energy: Number = Key("total energy at the end less the potential energy at the start [J]")
    tolerance: Number = Key("relative difference that counts as agreement", 1e-8)


class Simulate(Part):
    """How the system is simulated unless the command line says otherwise."""

    integrator: Name = Key("any integrator of shooting methods, bdf1, sdirk2, bdf2, linearly_implicit, or dop853", "rk4")
    dt: Number | None = Key("longest step [s]; null: a 500th of the whole", None)
    until: Number | None = Key("when to stop [s]; null: at the end of the last phase", None)
    charts: Literal["quaternion", "switch"] = Key("where charts of rotations get singular: on in a quaternion, or in another chart",
                                                  "quaternion")
    controls: dict[str, Number] | None = Key("constant controls by name, zero for the rest ({}: all zero); null: those of the "
                                             "guess", None)
    expect: tuple[Expectation, ...] = Key("known results", ())


Values = Annotated[Any, Field(description="a list of values, or text: a:b:n for n values from a to b, a:b for a range to be "
                                          "sampled, log(..) of these for equal ratios")]


class Sweep(Part):
    """Cases that ``ocp sweep`` solves unless the command line says otherwise."""

    over: dict[str, Values] = Key("values by path of what is varied", dict)
    table: str | None = Key("CSV file with the cases in the place of 'over', its first line paths", None)
    design: Literal["grid", "random", "latin", "sobol"] = Key("how values are combined", "grid")
    samples: int = Key("cases of a random, latin or sobol design", 0, ge=0)
    seed: int = Key("of these designs", 0, ge=0)
    starts: int = Key("starts of every case: the guess and perturbed ones", 1, ge=1)
    keep: Literal["none", "all", "failed", "best"] = Key("cases of which the run is kept as a folder", "none")


class Common(Part):
    """Keys that every problem file has."""

    name: Name = Key("name of the problem, a few words")
    description: str = Key("what the problem is about, in prose", "")
    theme: str = Key("group of the problem in lists of a gallery", "")
    source: str = Key("where the problem is from: paper or book, with the section", "")
    reference: Reference | None = Key("known optimum", None)
    constants: dict[str, Number] = Key("named numbers; each may use earlier ones and pi", dict)
    tables: dict[str, AnyTable] = Key("functions given by points, which expressions call by name", dict)
    parameters: dict[str, ParameterValue] = Key("named numbers that stay symbols in the problem; the solver may choose them", dict)
    linkages: tuple[Linkage, ...] = Key("constraints between the ends of phases; a periodic motion is one", ())
    simulate: Simulate | None = Key("how ocp simulate moves the system, and what must come of it", None)
    sweep: Sweep | None = Key("cases of ocp sweep", None)
    solve: Solve = Key("default method and its options", Solve)
    accept: dict[str, Number] = Key("tolerances of the certificate that differ from the default", dict)
