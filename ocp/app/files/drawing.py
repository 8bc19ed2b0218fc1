"""The drawing that a problem file declares, as the primitives of ``ocp.app.pages.scene``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import casadi as ca

from ocp.app.files.load_parts import Reader, Section, unknown
from ocp.app.files.schema_parts import Drawing as DrawingPart
from ocp.app.files.yaml_source import KeyPath
from ocp.app.pages.scene import Disc, Drawing, Polyline

SX = Any


def read_drawing(reader: Reader, drawing: DrawingPart) -> Drawing:
    """Boxes lie at the back, then segments, circles, and the points whose path is drawn."""
    section, points = Section(reader, drawing, ("drawing",)), _points(reader, drawing)
    primitives: list[Polyline | Disc] = []
    for box in section.parts("boxes"):
        width, height = (_positive(reader, value, box.at("size", k)) for k, value in enumerate(box.given.size))
        centre = _point(reader, points, box.given.at, box.at("at"))
        corners = [centre + ca.vertcat(a * width / 2, b * height / 2) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
        primitives.append(Polyline(reader.function("box", ca.horzcat(*corners)), closed=True, role="body"))
    for i, pair in enumerate(drawing.segments):
        ends = [_point(reader, points, name, section.at("segments", i, k)) for k, name in enumerate(pair)]
        primitives.append(Polyline(reader.function("segment", ca.horzcat(*ends))))
    traced = {name: section.at("trace", i) for i, name in enumerate(drawing.trace)}
    for circle in section.parts("circles"):
        at = circle.given.at
        centre, radius = _point(reader, points, at, circle.at("at")), circle.positive("radius", "m")
        primitives.append(Disc(reader.function("circle", centre), radius, trace=traced.pop(at, None) is not None))
    for name, where in traced.items():
        primitives.append(Disc(reader.function("point", _point(reader, points, name, where)), 0.0, role="link", trace=True))
    return Drawing(tuple(primitives))


def _points(reader: Reader, drawing: DrawingPart) -> dict[str, SX]:
    points = {}
    for name, pair in drawing.points.items():
        values = [reader.expression(value, ("drawing", "points", name, k)) for k, value in enumerate(pair)]
        points[name] = ca.vertcat(*(ca.SX(0) if value is None else value for value in values))
    return points


def _point(reader: Reader, points: Mapping[str, SX], name: str, path: KeyPath) -> SX:
    if name in points:
        return points[name]
    unknown(reader.findings, name, list(points), path, "point")
    return ca.SX(2, 1)


def _positive(reader: Reader, value: Any, path: KeyPath) -> float:
    number = reader.number(value, path)
    if number <= 0:
        reader.findings.add(path, f"must be positive, got {number:g} m")
    return number
