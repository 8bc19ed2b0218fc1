"""Mass-spring bodies that hang on a robot, as parts of the mechanism: free vertices are point masses, the others ride on bodies.

A free vertex is a body on a ``translation`` joint from the world; the mass of an attached one joins that of its body; an edge is a
Spring. Source: Sueda, section 2.8, whose energy of an edge is ``K/2 ((l - L)/L)^2``: a spring of stiffness ``K / L^2`` [N/m].

>>> from dynamics.model.synthetic import serial_chain
>>> vertices = Vertex("fixed", 0.1, Place("b0", (0.5, 0.0, 0.0))), Vertex("free", 0.1, Place("world", (0.7, 0.0, 0.0)))
>>> with_mass_springs(Mechanism(serial_chain(1)), vertices, [Edge("fixed", "free", 5.0, 0.2)]).model.coordinate_names
('j0', 'free.x', 'free.y', 'free.z')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynamics.errors import ModelError, near
from dynamics.forces import Place, Spring
from dynamics.mechanism import Mechanism
from dynamics.model.model import Body, BodyInertia, Joint, Placement
from dynamics.model.rigid import merged, moved


@dataclass(frozen=True)
class Vertex:
    """A mass [kg] at a place: in the world, from where it moves freely, or in a frame of the robot, where it stays."""

    name: str
    mass: float
    place: Place


@dataclass(frozen=True)
class Edge:
    """Between two vertices: energy K [J] per unit of half the strain squared, damping c [N s/m], length L [m] without force."""

    first: str
    second: str
    K: float
    length: float
    c: float = 0.0


def with_mass_springs(mechanism: Mechanism, vertices: Sequence[Vertex], edges: Sequence[Edge]) -> Mechanism:
    """The mechanism with a mass-spring body; the coordinates of its free vertices are displacements from where they are placed.

    Raises ModelError for a name that is taken or unknown, a mass or a length that is not positive; as ``Mechanism`` otherwise.
    """
    model, places = mechanism.model, {}
    bodies = list(model.bodies)
    for vertex in vertices:
        where = f"vertex {vertex.name!r}"
        if vertex.name in places or vertex.name in [body.name for body in bodies]:
            raise ModelError("name is already used", element=where)
        if not 0.0 < vertex.mass < float("inf"):
            raise ModelError(f"mass must be positive, got {vertex.mass:g}", element=where)
        frame = model.frame(vertex.place.frame)
        if frame.body < 0:
            at = Placement(position=tuple(frame.placement.position + np.array(frame.placement.rotation) @ vertex.place.position))
            bodies.append(Body(vertex.name, -1, Joint(vertex.name, "translation", at), BodyInertia(vertex.mass)))
            places[vertex.name] = Place(vertex.name)
        else:
            load = moved(frame.placement, BodyInertia(vertex.mass, tuple(vertex.place.position)))
            bodies[frame.body] = replace(bodies[frame.body], inertia=merged([bodies[frame.body].inertia, load]))
            places[vertex.name] = vertex.place
    springs = []
    for k, edge in enumerate(edges):
        for name in (edge.first, edge.second):
            if name not in places:
                raise ModelError(f"no vertex named {name!r}{near(name, places)}", element=f"edge {k}")
        if not 0.0 < edge.length < float("inf"):
            raise ModelError(f"length must be positive, got {edge.length:g}", element=f"edge {k}")
        springs.append(Spring(f"edge {k} {edge.first}-{edge.second}", (places[edge.first], places[edge.second]),
                              edge.K / edge.length**2, edge.length, edge.c))
    longer = replace(model, bodies=tuple(bodies), configurations={})
    return replace(mechanism, model=longer, forces=(*mechanism.forces, *springs))
