"""Mass-spring bodies of a problem file."""

from __future__ import annotations

import numpy as np

from dynamics import algorithms as alg
from dynamics.errors import near
from dynamics.forces import Place
from dynamics.mechanism import Mechanism
from dynamics.redmax.deformable import Edge, Vertex, with_mass_springs
from ocp.app.files.load_parts import Reader
from ocp.app.files.schema_tree import MassSprings
from ocp.app.files.yaml_source import KeyPath


def with_deformable(numbers: Reader, given: MassSprings, robot: Mechanism, at: KeyPath) -> Mechanism | None:
    """The robot with the body written under the key ``at``; None after an error was recorded."""
    findings, before = numbers.findings, len(numbers.findings.found)
    vertices = {}
    for name, vertex in given.vertices.items():
        path: KeyPath = (*at, "vertices", name)
        x, y, z = numbers.vector(vertex.position, 3, (*path, "position"), "components")
        place = Place(vertex.frame, (x, y, z))
        with findings.collecting(path):
            robot.model.frame(vertex.frame)
            vertices[name] = Vertex(name, numbers.number(vertex.mass, (*path, "mass")), place)
    edges = []
    for i, edge in enumerate(given.edges):
        path = (*at, "edges", i)
        for k, name in enumerate(edge.between):
            if name not in given.vertices:
                findings.add((*path, "between", k), f"no vertex named {name!r}{near(name, list(given.vertices))}")
        stiffness, damping = (numbers.number(getattr(edge, key), (*path, key)) for key in ("stiffness", "damping"))
        for key, value in (("stiffness", stiffness), ("damping", damping)):
            if value < 0:
                findings.add((*path, key), f"must not be negative, got {value:g}")
        if len(findings.found) == before:
            length = _apart(robot, [vertices[name].place for name in edge.between]) if edge.length is None else numbers.number(
                edge.length, (*path, "length"))
            if not length > 0:
                findings.add((*path, "length") if edge.length is not None else path, f"must be positive, got {length:g} m")
            edges.append(Edge(*edge.between, stiffness, length, damping))
    if len(findings.found) > before:
        return None
    with findings.collecting(at):
        return with_mass_springs(robot, list(vertices.values()), edges)
    return None


def _apart(robot: Mechanism, places: list[Place]) -> float:
    """The distance of two places in the neutral configuration."""
    q = alg.neutral(robot.model)
    first, second = (np.asarray(place.at(robot.model, q)).ravel() for place in places)
    return float(np.linalg.norm(second - first))
