"""Least efforts: a kink that the motion lies on is named, and what the note says to write instead is solved to the closed form."""

import numpy as np
import pytest

import ocp
from ocp.app.sentences import sentence
from ocp.problem import Kind

#: a unit mass goes one metre in three seconds with pushes of at most 1 N, at rest at both ends: full push for s, nothing, full
#: brake for s, with s (3 - s) = 1; the effort is 2 s
EXACT = 3 - np.sqrt(5)


def move(split):
    p = ocp.Problem("Least effort", duration=3.0)
    x, v = p.state("x", "m"), p.state("v", "m/s")
    if split:
        push, brake = p.control("push", "N"), p.control("brake", "N")
        force, size = push - brake, push + brake
        p.bounds({push: (0, 1), brake: (0, 1)})
    else:
        force = p.control("force", "N")
        size = abs(3 * force) / 3
        p.bounds({force: (-1, 1)})
    p.dynamics({x: v, v: force})
    p.start(x=0, v=0)
    p.final(x=1, v=0)
    p.cost(size, name="effort")
    return p


def test_the_advice_of_the_note_gives_the_closed_form():
    refused, found = move(False).solve().solution, move(True).solve().solution
    assert not refused.ok
    (told,) = [one for one in refused.findings if one.kind is Kind.MOTION_ON_KINKS]
    (term,) = told.data["terms"]
    assert (term["term"], term["name"]) == ("cost", "effort")
    assert "Write |u| as a + b" in sentence(told)
    kinds = [one.kind for one in refused.findings]
    assert Kind.OSCILLATING_CONTROLS not in kinds  # alternating points of a failed search mean nothing
    assert found.ok
    assert Kind.MOTION_ON_KINKS not in [one.kind for one in found.findings]
    assert abs(found.objective - EXACT) <= found.certificate.objective_error.value * found.certificate.objective_size


@pytest.mark.parametrize("running", [lambda u: u**2, lambda u: u**2 + abs(u - 20)], ids=["smooth", "far"])
def test_kinks_that_the_motion_avoids_are_not_reported(running):
    p = ocp.Problem("Block move", duration=1.0)
    x, v, u = p.state("x"), p.state("v"), p.control("u")
    p.dynamics({x: v, v: u})
    p.start(x=0, v=0)
    p.final(x=1, v=0)
    p.bounds({u: (-10, 10)})
    p.cost(running(u))
    refused = p.solve("collocation", max_iterations=1, refine="none").solution
    assert not refused.ok
    assert Kind.MOTION_ON_KINKS not in [one.kind for one in refused.findings]
