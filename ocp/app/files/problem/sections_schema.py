"""Sections that problem files of both kinds of system share: costs, constraints, duration, drawing, solve."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, StrictBool, Tag
from pydantic_core import PydanticCustomError
from typing_extensions import TypeAliasType

from ocp.app.files.syntax import parts
from ocp.app.files.syntax.parts import Bound, Key, LimitOrList, Name, Number, NumberOrList, OneOf, Part, refuse
from ocp.methods import METHODS
from ocp.problem import INF
from ocp.problem import Reference as Optimum


class Parameter(Part):
    """A parameter, and the range in which the solver may choose it."""

    value: Number = Key("value, or initial guess where the solver chooses it")
    optimise: Bound | None = Key("bounds within which the solver chooses it; null: fixed", None)


ParameterValue = TypeAliasType("ParameterValue", Annotated[
    parts.Float | parts.Text | parts.InDegrees | Annotated[Parameter, Tag("<Parameter>")],
    parts.by_form(f"{parts.NUMBER_WORDS}, or {{value: .., optimise: [lower, upper]}}", "<Parameter>"),
    Field(description="a number, or {value: .., optimise: [lower, upper]}")])


_Abscissas = Annotated[tuple[Number, ...], Field(min_length=2, max_length=parts.MAX_COMPONENTS)]


class TablePart(Part):
    """A function given by points, which expressions call by its name: ``drag(v)``, ``lift(v, angle)``."""

    file: Name | None = Key("CSV file relative to this one: two columns, x and value; or x in the first column, y in the first "
                            "row", None, path=True, examples=["drag.csv"])
    x: _Abscissas | None = Key("points of the argument", None)
    y: _Abscissas | None = Key("points of the second argument; null: there is one argument", None)
    values: Annotated[tuple[NumberOrList, ...], Field(min_length=2, max_length=parts.MAX_COMPONENTS)] | None = Key(
        "value at each x, or a row of values, one for each y", None, examples=["[0, 1, 4]"])
    smooth: StrictBool = Key("true: natural cubic splines, straight on outside; false: straight lines, level outside", False)

    def check(self) -> None:
        if (self.file is None) == (self.x is None) or (self.x is None) != (self.values is None):
            raise refuse("needs a 'file', or 'x' and 'values'")
        if self.file is not None and self.y is not None:
            raise refuse("'y' belongs to 'x' and 'values'; in a file it is the first row")


AnyTable = TypeAliasType("AnyTable", Annotated[
    parts.Text | Annotated[TablePart, Tag("<TablePart>")],
    parts.by_form("a .csv file, or {x: [..], values: [..]}", "<TablePart>", degrees=False),
    Field(description="a .csv file, or a mapping")])


@dataclass(frozen=True)
class Expected:
    """A known energy [J] by an integrator, and the relative difference that counts as agreement."""

    integrator: str
    energy: float
    tolerance: float


@dataclass(frozen=True)
class LoadedSimulation:
    """A section ``simulate``, read. controls: constants by name; None: those of the guess."""

    integrator: str = "rk4"
    dt: float | None = None
    until: float | None = None
    controls: Mapping[str, float] | None = None
    expect: tuple[Expected, ...] = ()
    charts: str = "quaternion"


class Sampled(Part):
    """A system in discrete time: what steps of an integrator make of rates while controls are constant."""

    period: Number = Key("sampling period with constant controls [s]; running costs count at the start of steps", above=0)
    integrator: Name = Key("any integrator of shooting methods", "rk4")
    steps: int = Key("integrator steps in a period", 1, ge=1)


class Reference(Part):
    """A published or closed-form optimum to compare with."""

    makes = Optimum
    objective: Number = Key("objective value at the optimum")
    tolerance: Number = Key("relative tolerance of the comparison", 1e-6, above=0)
    error: Number = Key("error bound of the value itself, in its unit", 0.0, least=0)
    source: str = Key("source of the value", "")


class DurationRange(Part):
    """A free duration."""

    lower: Number = Key("shortest duration [s]; 0: the phase may vanish", least=0)
    upper: Number | None = Key("longest duration [s]; null: unbounded", None, null=INF)
    guess: Number | None = Key("initial guess [s]; null: midway between lower and upper", None, above=0)


Duration = TypeAliasType("Duration", Annotated[
    parts.Float | parts.Text | Annotated[DurationRange, Tag("<DurationRange>")],
    parts.by_form("a number of seconds, or {lower: .., upper: .., guess: ..}", "<DurationRange>", degrees=False),
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
    control_error: parts.NamedNumbers | None = Key(
        "controls less these values, as residuals along the path; a control that is not named does not count", None)
    at: Literal["path", "final"] | None = Key("where an .._error counts: all along the path (the default) or at the end", None)
    weights: NumberOrList | None = Key("weights w of the residuals, one or one for each (errors: in the order of their "
                                       "components); default 1", None, least=0, null=1.0)
    between: Bound | None = Key("times [s] between which a running cost counts. A window shorter than a few steps "
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
        """Whether the cost applies at the end."""
        return self.form().startswith("final") or self.at == "final"


class Limits(Part):
    """``lower <= expression <= upper`` or ``expression = equal``."""

    name: Name = Key("name in reports and in certificates")
    lower: LimitOrList | None = Key("smallest allowed value, one or one for each component", None, null=-INF)
    upper: LimitOrList | None = Key("largest allowed value, one or one for each component", None, null=INF)
    equal: NumberOrList | None = Key("prescribed value, one or one for each component", None)

    def check(self) -> None:
        super().check()
        if self.equal is not None and (self.lower is not None or self.upper is not None):
            raise refuse("'equal' excludes 'lower' and 'upper'")
        if self.equal is None and self.lower is None and self.upper is None:
            raise refuse("has no bound; give 'lower', 'upper' or both, or 'equal'")


class Constraint(Limits, OneOf):
    """``lower <= expression <= upper`` or ``expression = equal``."""

    forms: ClassVar[tuple[str, ...]] = ("expression",)

    at: Literal["path", "start", "final", "integral"] = Key("where it holds: all along the path, at the start, at the end, or of "
                                                            "the integral over the phase", "path")
    expression: NumberOrList | None = Key("one expression, or a list of them", None)
    soft: Number | None = Key("weight of the penalty 1/2 soft |violation|^2; null: a hard constraint", None, above=0)

    def check(self) -> None:
        super().check()
        if self.at == "integral" and self.soft is not None:
            raise refuse("an integral constraint cannot be soft")


class Linkage(Limits):
    """``lower <= expression <= upper`` or ``expression = equal`` between ends of phases, such as a periodic motion."""

    expression: NumberOrList = Key("one expression or a list of them, of start[...], final[...] and duration")


class Circle(Part):
    """A filled circle of the drawing."""

    at: Name = Key("point at its centre")
    radius: Number = Key("radius [m]", above=0)


class Box(Part):
    """A filled upright rectangle of the drawing."""

    at: Name = Key("point at its centre")
    size: parts.Pair = Key("[width, height] [m]", above=0)


class Drawing(Part):
    """An animation in the plane: x to the right, y up."""

    points: dict[str, parts.Pair] = Key("points by name: [x, y], expressions of states, controls and constants [m]")
    segments: tuple[Annotated[tuple[str, ...], Field(min_length=2, max_length=2)], ...] = Key("lines between two points", ())
    circles: tuple[Circle, ...] = Key("filled circles", ())
    boxes: tuple[Box, ...] = Key("filled rectangles", ())
    trace: tuple[str, ...] = Key("points whose path is drawn", ())


def _plain_option(value: Any) -> Any:
    if isinstance(value, Mapping):  # a section, whose reader tells what it does not know
        return {name: _plain_option(own) for name, own in value.items()}
    if not isinstance(value, (bool, int, float, str)):
        raise PydanticCustomError("expected", "{words}", {"words": "a number, text, true or false"})
    return value


Option = Annotated[Any, AfterValidator(_plain_option)]


class StrategyPart(Part):
    """What is tried for an answer, in the order of the table of rules (``ocp show --strategy``)."""

    without: list[Name] = Key("names of rules that are switched off", list, examples=["[finer_mesh]"])


class Solve(Part):
    """How to solve the problem unless the command line says otherwise."""

    method: Literal["collocation", "multiple_shooting", "ilqr", "adjoint"] = Key("method of solution", "collocation")
    derivatives: Literal["auto", "ad", "analytic", "complex_step", "fd"] | None = Key(
        "source of the derivatives of the dynamics, whatever the method; null: the default of the method", None, examples=["ad"])
    time_limit: Number | None = Key("time limit, after which the best solution so far is returned [s]; null: none", None,
                                    above=0)
    strategy: StrategyPart = Key("rules of the search for a certified solution", StrategyPart)
    collocation: dict[str, Option] = Key("options of the collocation method", dict)
    multiple_shooting: dict[str, Option] = Key("options of direct multiple shooting", dict)
    ilqr: dict[str, Option] = Key("options of iLQR", dict)
    adjoint: dict[str, Option] = Key("options of single shooting by adjoint gradients", dict)

    @classmethod
    def below(cls) -> Mapping[str, Collection[str]]:
        """The options of each method."""
        return {name: [own.name for own in dataclasses.fields(method.options_type())] for name, method in METHODS.items()}


class Expectation(Part):
    """A known result of a simulation by one integrator, which ``ocp verify`` compares."""

    makes = Expected
    integrator: Name = Key("by which integrator")
    energy: Number = Key("total energy at the end less the potential energy at the start [J]")
    tolerance: Number = Key("relative difference that counts as agreement", 1e-8, above=0)


class Simulate(Part):
    """How the system is simulated unless the command line says otherwise."""

    makes = LoadedSimulation
    integrator: Name = Key("any integrator of shooting methods, bdf1, sdirk2, bdf2, linearly_implicit, or dop853", "rk4")
    dt: Number | None = Key("longest step [s]; null: 1/500 of the duration", None, above=0)
    until: Number | None = Key("end time [s]; null: that of the last phase", None, above=0)
    charts: Literal["quaternion", "switch"] = Key("at singular charts of rotations: switch to a quaternion, or to another chart",
                                                  "quaternion")
    controls: dict[str, Number] | None = Key("constant controls by name, zero for the rest ({}: all zero); null: those of the "
                                             "guess", None, name="")
    expect: tuple[Expectation, ...] = Key("known results", ())


Values = Annotated[Any, Field(description="a list of values, or text: a:b:n for n values from a to b, a:b for a range to be "
                                          "sampled, log(..) of these for equal ratios")]


class Sweep(Part):
    """Cases that ``ocp sweep`` solves unless the command line says otherwise."""

    over: dict[str, Values] = Key("values by path of what is varied", dict, examples=['{phase.duration: "1:3:11"}'])
    table: str | None = Key("CSV file with the cases instead of 'over', its first line paths", None, examples=["cases.csv"])
    design: Literal["grid", "random", "latin", "sobol"] = Key("how values are combined", "grid")
    samples: int = Key("cases of a random, latin or sobol design", 0, ge=0)
    seed: int = Key("of these designs", 0, ge=0)
    starts: Annotated[int, Field(ge=1)] | Literal["auto"] = Key(
        "number of initial guesses of every case, perturbed but the first; auto: until a stopping rule", 1)
    keep: Literal["none", "all", "failed", "best"] = Key("cases whose run is kept as a folder", "none")


class Common(Part):
    """Keys that every problem file has."""

    name: Name = Key("name of the problem, a few words")
    description: str = Key("description of the problem", "")
    theme: str = Key("group of the problem in lists of a gallery", "")
    source: str = Key("source of the problem: paper or book, with the section", "")
    reference: Reference | None = Key("known optimum", None)
    constants: dict[str, Number] = Key("named numbers; each may use earlier ones and pi", dict)
    tables: dict[str, AnyTable] = Key("functions given by points, which expressions call by name", dict, path=True)
    parameters: dict[str, ParameterValue] = Key("named numbers that stay symbols in the problem; the solver may choose them", dict)
    linkages: tuple[Linkage, ...] = Key("constraints between the ends of phases; a periodic motion is one", ())
    simulate: Simulate | None = Key("options of ocp simulate, and expected energies", None)
    sweep: Sweep | None = Key("cases of ocp sweep", None)
    solve: Solve = Key("default method and its options", Solve)
    accept: dict[str, Number] = Key("tolerances of the certificate that differ from the default", dict)
