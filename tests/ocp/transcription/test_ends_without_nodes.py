"""Path constraints on controls at the ends of a phase where a scheme has no node: controls are extrapolated there."""

import control_problems as known
import numpy as np
import pytest
from uncertified import by_collocation

from ocp.problem import At, Constraint, Cost, Duration, Phase, Sense, Status
from ocp.transcription.collocation import CollocationOptions
from ocp.transcription.mesh import uniform_mesh
from ocp.transcription.refine.carry import _moved
from ocp.transcription.schemes import make_scheme

LIMIT = 0.9


def steered(sense):
    """x' = u of free ends; u is to be 1 - 2 t, and is to stay in [-0.9, 0.9], as a range or as a cone."""
    value = {Sense.BOX: lambda t, x, u, p: u[0], Sense.CONE: lambda t, x, u, p: known.ca.vertcat(LIMIT, u[0])}[sense]
    size = 1 if sense is Sense.BOX else 2
    bounds = ((-LIMIT,), (LIMIT,)) if sense is Sense.BOX else ((0.0,) * size, (np.inf,) * size)
    return known.problem(Phase(
        "phase", known.flat_system("line", ("x",), ("u",), lambda t, x, u, p: u), Duration(1.0, 1.0, 1.0),
        known.line([0], [0], 1), start=known.fixed(0),
        costs=(Cost("aim", At.PATH, known.function(1, 1, lambda t, x, u, p: (u - 1 + 2 * t)**2)),),
        constraints=(Constraint("range", At.PATH, known.function(1, 1, value), *bounds, sense),)))


@pytest.mark.parametrize("sense", [Sense.BOX, Sense.CONE])
@pytest.mark.parametrize(("scheme", "degree", "ends"), [
    ("radau", 2, [0]), ("radau", 3, [0]), ("radau_left", 3, [1]), ("gauss", 2, [0, 1]), ("gauss", 3, [0, 1]), ("lobatto", 3, [])])
def test_extrapolated_controls_keep_to_their_range(scheme, degree, ends, sense):
    """On one interval a quadratic programme in the values of the control at the nodes: the nearest point of a polyhedron."""
    found = by_collocation(steered(sense), CollocationOptions(scheme=scheme, degree=degree, intervals=1, tolerance=1e-11))
    assert found.status is Status.CONVERGED, found.ending
    s, w = make_scheme(scheme, degree).collocation_points, make_scheme(scheme, degree).quadrature
    basis = np.vander([*s, *ends], degree, increasing=True) @ np.linalg.inv(np.vander(s, degree, increasing=True))
    wanted = 1 - 2 * s
    rows = np.array([row if row @ wanted > 0 else -row for row in basis if row @ wanted > LIMIT or -(row @ wanted) > LIMIT])
    push = np.linalg.solve(rows / w @ rows.T, rows @ wanted - LIMIT)
    assert (push > 0).all()
    u = wanted - rows.T @ push / w
    assert np.abs(basis @ u).max() <= LIMIT + 1e-12
    np.testing.assert_allclose(found.trajectory.u[:, 0], u, atol=1e-7)
    assert found.objective == pytest.approx(w @ (u - wanted)**2, rel=1e-6)


def test_densities_of_rows_are_carried_whatever_their_order():
    """A multiplier of 1 per second, with the row at the start behind the others, is one of 1 per second on the next mesh."""
    meshes = [uniform_mesh(make_scheme("radau", 3), n) for n in (4, 7)]
    names = [tuple(f"limit @ {name}" for name in (*mesh.node_names[1:], mesh.node_names[0])) for mesh in meshes]
    cells = [np.diff(np.concatenate([s[:1], (s[1:] + s[:-1]) / 2, s[-1:]])) for s in (mesh.fractions for mesh in meshes)]
    old, new = (np.roll(own, -1) for own in cells)
    np.testing.assert_allclose(_moved(names[0], names[1], old, {"": tuple(meshes)}), new, rtol=1e-12)
