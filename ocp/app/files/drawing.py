"""The drawing that a problem file declares, as the primitives of ``ocp.app.pages.scene``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import casadi as ca

from ocp.app.files.load_parts import Reader, unknown
from ocp.app.files.schema_parts import Drawing as DrawingPart
from ocp.app.files.yaml_source import KeyPath
from ocp.app.pages.scene import Disc, Drawing, Polyline

SX = Any


def read_drawing(reader: Reader, drawing: DrawingPart) -> Drawing:
    """Boxes lie at the back, then segments, circles, and the points whose path is drawn."""
    points = _points(reader, drawing)
    primitives: list[Polyline | Disc] = []
    for i, box in enumerate(drawing.boxes):
        path: KeyPath = ("drawing", "boxes", i)
        width, height = (_positive(reader, value, (*path, "size", k)) for k, value in enumerate(box.size))
        centre = _point(reader, points, box.at, (*path, "at"))
        corners = [centre + ca.vertcat(a * width / 2, b * height / 2) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
        primitives.append(Polyline(reader.function("box", ca.horzcat(*corners)), closed=True, role="body"))
    for i, pair in enumerate(drawing.segments):
        ends = [_point(reader, points, name, ("drawing", "segments", i, k)) for k, name in enumerate(pair)]
        primitives.append(Polyline(reader.function("segment", ca.horzcat(*ends))))
    traced = {name: ("drawing", "trace", i) for i, name in enumerate(drawing.trace)}
    for i, circle in enumerate(drawing.circles):
        path = ("drawing", "circles", i)
        centre = _point(reader, points, circle.at, (*path, "at"))
        radius = _positive(reader, circle.radius, (*path, "radius"))
        primitives.append(Disc(reader.function("circle", centre), radius, trace=traced.pop(circle.at, None) is not None))
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
