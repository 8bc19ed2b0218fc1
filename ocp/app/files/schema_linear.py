"""The linear form of the problem file: dx/dt = A x + B u + c with matrices in the file or beside it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag
from typing_extensions import TypeAliasType

from ocp.app.files.schema_parts import MAX_COMPONENTS, Number, Part, expected


def _matrix_tag(value: Any) -> str | None:
    return "<file>" if isinstance(value, str) else "<rows>" if isinstance(value, (list, tuple)) else None


_Row = Annotated[tuple[Number, ...], Field(min_length=1, max_length=MAX_COMPONENTS)]
Matrix = TypeAliasType("Matrix", Annotated[
    Annotated[str, Tag("<file>"), Field(min_length=1)]
    | Annotated[tuple[_Row, ...], Tag("<rows>"), Field(min_length=1, max_length=MAX_COMPONENTS)],
    Discriminator(_matrix_tag, **expected("a list of rows, or the path of a .csv file")),
    Field(description="a list of rows, or the path of a .csv file relative to this file: numbers, comma-separated, a row a line")])


class Linear(Part):
    """Matrices of a linear system with n states and m controls."""

    A: Matrix = Field(description="state matrix [n, n]")
    B: Matrix = Field(description="control matrix [n, m]")
    drift: tuple[Number, ...] | None = Field(None, description="constant rate c [n]; null: zero")
    states: dict[str, str] | None = Field(None, description="names and units of the states in order; null: x0, x1, ...")
    controls: dict[str, str] | None = Field(None, description="names and units of the controls in order; null: u0, u1, ...")


class LinearSystem(Part):
    """A system with linear differential equations: dx/dt = A x + B u + c."""

    linear: Linear = Field(description="matrices and names")
