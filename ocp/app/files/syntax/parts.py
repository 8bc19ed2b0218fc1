"""Building blocks of the problem file that both kinds of system share: numbers, bounds, costs, duration, drawing, solve."""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, StrictFloat, Tag, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from typing_extensions import TypeAliasType

from ocp.errors import ProblemError

MAX_COMPONENTS = 1000
MAX_NAME = 200


@dataclass(frozen=True)
class Row:
    """How what stands under a key is read, beside its type: ``Key`` declares it, a ``Section`` reads by it.

    least, above, most: what its numbers must keep, and the hint that a refusal adds; nonzero: a direction, not all zero; unit: of
    its numbers in messages; null: what null stands for. name: what the record that the mapping makes calls it; "": nothing, since
    something else reads it; several: the entries of a list. then: what the record takes in place of the value that was read.
    path: text that stands there names a file or a folder, relative to the file.
    """

    least: float | None = None
    above: float | None = None
    most: float | None = None
    hint: str = ""
    nonzero: bool = False
    unit: str = ""
    null: Any = None
    name: str | tuple[str, ...] | None = None
    then: Callable[[Any], Any] | None = None
    path: bool = False

    def limits(self) -> str:
        """The condition on its numbers, in words; "" where they may be any."""
        ends = {"above": self.above, "at least": self.least, "at most": self.most}
        must = " and ".join(f"{words} {end:g}" for words, end in ends.items() if end is not None)
        return {"": "", "above 0": "be positive", "at least 0": "not be negative"}.get(must, f"be {must}")

    def wrong(self, value: float) -> str:
        """What is wrong with a number, "" where nothing is or where it is NaN, which was reported already."""
        low = (self.above is not None and value <= self.above) or (self.least is not None and value < self.least)
        if not low and (self.most is None or not value > self.most):
            return ""
        return f"must {self.limits()}, got {value:g}{self.unit and ' '}{self.unit}{self.hint}"


class Part(BaseModel):
    """Base of every mapping in a problem file: unknown keys are errors, values never change after reading. makes: the record that
    its keys are the arguments of, where there is one."""

    makes: ClassVar[Callable[..., Any] | None] = None
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @model_validator(mode="after")
    def _checked(self) -> Self:
        self.check()
        return self

    @classmethod
    def below(cls) -> Mapping[str, Collection[str]]:
        """Keys of the mappings within whose keys are no fields, by the key of the mapping."""
        return {}

    def check(self) -> None:
        """Raise a validation error (see ``refuse``) for keys that do not go together."""

    def differs(self, keys: tuple[str, ...]) -> str | None:
        """The first of some keys that does not have its default."""
        fields = type(self).model_fields
        return next((key for key in keys if getattr(self, key) != fields[key].get_default(call_default_factory=True)), None)


_UNIT = re.compile(r"\[([^\[\],;]*)\]")  # in a text
_ROW = frozenset(Row.__dataclass_fields__)


def Key(text: str, default: Any = ..., **how: Any) -> Any:
    """A key of a mapping: ``text`` says what it means, with its unit in brackets; ``default`` is a value, or a type that is made
    without arguments. Without a default the key must be given. how: fields of ``Row``, and limits of ``pydantic.Field``."""
    row = {key: how.pop(key) for key in _ROW & how.keys()}
    unit = _UNIT.search(text)
    field = Field(description=text, **{"default_factory" if isinstance(default, type) else "default": default}, **how)
    field.metadata.append(Row(**{"unit": unit[1] if unit and " or " not in unit[1] else "", **row}))
    return field


@functools.cache
def row_of(kind: type[Part], key: str) -> Row:
    """The declaration of how a key of a mapping is read."""
    return next((found for found in kind.model_fields[key].metadata if isinstance(found, Row)), Row())


def unit_vector(value: tuple[float, ...]) -> tuple[float, ...]:
    """The vector divided by its length; zero stays zero."""
    length = math.hypot(*value)
    return tuple(x / length for x in value) if length else value


def listed(value: object) -> tuple[Any, ...]:
    """A list, or the list of a single value."""
    return value if isinstance(value, tuple) else (value,)


def refuse(message: str) -> PydanticCustomError:
    """An error of a whole mapping, in the words of the user."""
    return PydanticCustomError("problem", "{message}", {"message": message})


def one_of(part: Part, names: tuple[str, ...], optional: str = "") -> str:
    """The only one of the keys ``names`` that is given, "" for none where ``optional`` says what it is. Raises a validation error
    otherwise."""
    spec = [name for name in names if getattr(part, name) is not None]
    if len(spec) == 1 or (optional and not spec):
        return "".join(spec)
    found = " and ".join(spec) if spec else "none"
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

    @classmethod
    def register(cls, name: str, kind: type[Part], text: str) -> None:
        """One more form for files of this process: what it is (text), and the mapping that stands under its key. Raises
        ProblemError where the key is taken."""
        if name in cls.model_fields:
            raise ProblemError(f"there is a key {name!r} already", where=cls.__name__)
        field: FieldInfo = Key(text, None)
        field.annotation = kind | None  # type: ignore[assignment]
        cls.__pydantic_fields__[name] = field
        cls.forms = (*cls.forms, name) if cls.forms else ()
        make_anew()


def make_anew() -> None:
    """Make the readers of all mappings again: those that hold a mapping whose keys have changed know its old ones."""
    built = [one for one in _below(Part) if one.__pydantic_complete__]
    for one in built:
        del one.__pydantic_core_schema__
    for one in built:
        one.model_rebuild(force=True)


def _below(kind: type[Part]) -> list[type[Part]]:
    """The mappings made from one, and those from these."""
    return [one for own in kind.__subclasses__() for one in (own, *_below(own))]


class Degrees(Part):
    """An angle in degrees, ``{deg: 45}``."""

    deg: StrictFloat | str = Key("angle in degrees: a number or an expression over the constants", union_mode="left_to_right")


# ---- numbers, and what may stand in their place ---------------------------------------------------------------------------
def by_form(expected: str, mapping: str = "<Degrees>", *, degrees: bool = True) -> Discriminator:
    """Tells the members of a union, tagged <number>, <text>, <list>, <Degrees> and ``mapping``, from each other.

    expected: what an error says of other values. degrees: whether a mapping with the key ``deg`` is an angle.
    """
    def tag(value: object) -> str | None:
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


_NUMERIC = (Number, NumberOrList, LimitOrList, NamedNumbers, StateNumbers, Bound, Vector3)


@functools.cache
def holds_numbers(kind: type[Part], key: str) -> bool:
    """Whether what stands under a key is a number, or numbers in lists and mappings."""
    def numeric(annotation: object) -> bool:
        inner = (annotation.__value__,) if isinstance(annotation, TypeAliasType) else get_args(annotation)
        return annotation in _NUMERIC or any(map(numeric, inner))

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
        raise refuse(f"{name!r} cannot name a phase; use letters, digits, _, - and single spaces, starting with a letter")
    return name


Name = Annotated[str, Field(min_length=1), AfterValidator(_one_line)]
PhaseName = Annotated[str, Field(min_length=1), AfterValidator(_file_name)]
