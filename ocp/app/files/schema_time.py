"""Discrete time in problem files."""

from __future__ import annotations

from pydantic import Field

from ocp.app.files.schema_parts import Name, Number, Part


class Sampled(Part):
    """A system in discrete time: what steps of an integrator make of rates while controls are held."""

    period: Number = Field(description="[s] between samples, in which controls are held; running costs count where steps begin")
    integrator: Name = Field("rk4", description="any integrator of shooting methods")
    steps: int = Field(1, ge=1, description="steps of it in a period")
