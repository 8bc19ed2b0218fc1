"""Mass-spring bodies of a problem file."""

from __future__ import annotations

import numpy as np

from dynamics import algorithms as alg
from dynamics.errors import near
from dynamics.forces import Place
from dynamics.mechanism import Mechanism
from dynamics.redmax.deformable import Edge, Vertex, with_mass_springs
from ocp.app.files.load_parts import Reader, Section
from ocp.app.files.schema_tree import MassSprings
from ocp.app.files.yaml_source import KeyPath


def with_deformable(numbers: Reader, given: MassSprings, robot: Mechanism, at: KeyPath) -> Mechanism | None:
    """The robot with the body written under the key ``at``; None after an error was recorded."""
    findings, before = numbers.findings, len(numbers.findings.found)
    vertices = {}
    for name, vertex in given.vertices.items():
        section = Section(numbers, vertex, (*at, "vertices", name))
        with section.collecting():
            place = Place(vertex.frame, section.vector("position"))
            robot.model.frame(vertex.frame)
            vertices[name] = Vertex(name, section.number("mass"), place)
    edges = []
    for section in Section(numbers, given, at).parts("edges"):
        edge = section.given
        for k, name in enumerate(edge.between):
            if name not in given.vertices:
                section.refuse(f"no vertex named {name!r}{near(name, list(given.vertices))}", "between", k)
        stiffness, damping = section.not_negative("stiffness"), section.not_negative("damping")
        if len(findings.found) == before:
            length = section.number("length", _apart(robot, [vertices[name].place for name in edge.between]))
            if not length > 0:
                section.refuse(f"must be positive, got {length:g} m", *(() if edge.length is None else ("length",)))
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
