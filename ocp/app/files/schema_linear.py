"""The linear form of the problem file: dx/dt = A x + B u + c, or a step of that form, with matrices in the file or beside it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, model_validator
from typing_extensions import TypeAliasType

from ocp.app.files.schema_parts import MAX_COMPONENTS, Number, Part, expected, refuse
from ocp.app.files.schema_time import Sampled


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
    period: Number | None = Field(
        None, description="[s] between steps in discrete time, the state after one being A x + B u + c; null: continuous time")
    drift: tuple[Number, ...] | None = Field(None, description="constant rate, or part of a step, c [n]; null: zero")
    states: dict[str, str] | None = Field(None, description="names and units of the states in order; null: x0, x1, ...")
    controls: dict[str, str] | None = Field(None, description="names and units of the controls in order; null: u0, u1, ...")


class LinearSystem(Part):
    """A system with linear equations: dx/dt = A x + B u + c, or x after a step = A x + B u + c."""

    linear: Linear = Field(description="matrices and names")
    sampled: Sampled | None = Field(None, description="in discrete time, by steps of an integrator; null: as it stands")

    @model_validator(mode="after")
    def _one_time(self) -> LinearSystem:
        if self.sampled is not None and self.linear.period is not None:
            raise refuse("'linear.period' says that A and B are those of a step; 'sampled' makes steps of rates. Give one of them")
        return self
