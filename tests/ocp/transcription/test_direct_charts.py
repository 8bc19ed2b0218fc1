"""Programs in tangent unknowns about centres, by finite differences on the manifold."""

from __future__ import annotations

import casadi as ca
import direct_problems as direct
import numpy as np
import pytest
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from ocp.problem import INF, Boundary
from ocp.transcription.collocation import CollocationOptions
from ocp.transcription.collocation import transcribe as collocation
from ocp.transcription.mesh import Grid, Mesh
from ocp.transcription.multiple_shooting import MultipleShootingOptions
from ocp.transcription.multiple_shooting import transcribe as shooting
from ocp.transcription.schemes import make_scheme


def moved(x, d):
    """x [+] d of the free body by the exponential of a 4x4 matrix: its axes move with the twist d."""
    here, twist = np.eye(4), np.zeros((4, 4))
    here[:3, :3], here[:3, 3] = Rotation.from_quat(np.roll(x[3:7], -1)).as_matrix(), x[:3]
    twist[:3, :3], twist[:3, 3] = [[0, -d[5], d[4]], [d[5], 0, -d[3]], [-d[4], d[3], 0]], d[:3]
    there = here @ expm(twist)
    q = np.roll(Rotation.from_matrix(there[:3, :3]).as_quat(), 1)
    return np.r_[there[:3, 3], q * np.sign(q @ x[3:7]), x[7:] + d[6:]]


def random_states(rng, count):
    return np.array([np.r_[rng.normal(size=3), direct.attitude(rng.normal(size=3)), rng.normal(size=6)] for _ in range(count)])


def test_plus_and_minus_of_the_space_by_the_matrix_exponential():
    """The charts themselves, so that what follows stands on them."""
    rng, space = np.random.default_rng(2), direct.body_system().space
    x, d = random_states(rng, 1)[0], rng.normal(size=12)
    there = np.asarray(ca.DM(space.plus(ca.DM(x), ca.DM(d)))).ravel()
    np.testing.assert_allclose(there, moved(x, d), atol=1e-12)
    np.testing.assert_allclose(np.asarray(ca.DM(space.minus(ca.DM(x), ca.DM(there)))).ravel(), d, atol=1e-10)


@pytest.mark.parametrize("schemes", [("gauss", "radau"), ("lobatto", "hermite_simpson"), ("radau_left", "gauss")])
def test_defects_by_finite_differences_on_the_manifold(schemes):
    """y = c [-] x and its rate along the flow x [+] eps xi, in plain numbers, with centres and unknowns at random."""
    problem, system = direct.body_transfer(duration=1.3), direct.body_system()
    records = [make_scheme(name, 3) if name != "hermite_simpson" else make_scheme(name) for name in schemes]
    mesh = Mesh(np.array([0, 0.4, 1.0]), tuple(records), split=True)
    rng = np.random.default_rng(1)
    base = random_states(rng, 1)[0]
    centres = np.array([moved(base, 0.3 * rng.normal(size=12)) for _ in range(mesh.nodes)])
    free = direct.with_phase(problem, start=None, final=None)
    program = collocation(free, CollocationOptions(states="tangent", kernels="interpreted"), [mesh], [centres])
    nlp, columns = program.nlp, program.state_columns[0]
    z = 0.2 * rng.normal(size=nlp.n)
    x = np.array([moved(c, z[i]) for c, i in zip(centres, columns, strict=True)])
    np.testing.assert_allclose(program.centres(z)[0], x, atol=1e-12)
    points = np.array([i for i in range(nlp.n) if nlp.variables[i].startswith("u.")]).reshape(-1, 6)
    minus = ca.Function("minus", [a := ca.SX.sym("a", 13), b := ca.SX.sym("b", 13)], [system.space.minus(a, b)])
    g = dict(zip(nlp.constraints, nlp.g(z).full().ravel(), strict=True))
    for k, scheme in enumerate(records):
        own, h = np.arange(mesh.knots[k], mesh.knots[k + 1] + 1), 1.3 * mesh.widths[k]
        chart = centres[own[0]]
        Y = np.array([minus(chart, x[j]).full().ravel() for j in own])
        F = []
        for i in scheme.collocated:
            at = mesh.evaluation
            u = z[points[at.points[np.flatnonzero((at.node == own[i]) & (at.interval == k))[0], 0]]]
            xi, eps = system.rate(0, x[own[i]], u, []).full().ravel(), 1e-5
            ahead, back = (minus(chart, moved(x[own[i]], s * eps * xi)).full().ravel() for s in (1, -1))
            F.append((ahead - back) / (2 * eps))
        rows = scheme.defect_state @ Y + h * scheme.defect_rate @ np.array(F)
        for e, name in enumerate(system.space.tangent_names):
            assert g[f"defect {name} @ interval {k}"] == pytest.approx(rows[-1, e], abs=2e-8), name
    assert np.abs(list(g.values())).max() > 0.1


@pytest.mark.parametrize("kind", ["gauss", "compressed", "shooting", "implicit"])
@pytest.mark.sample(2)
def test_derivatives_by_finite_differences(kind):
    """With bounds on quaternion components, partly fixed ends and random centres: Jacobian and Hessian of everything."""
    rng = np.random.default_rng(3)
    bounds = (-INF,) * 3 + (-1.0, -0.9, -INF, -INF) + (-INF,) * 6
    first = Boundary(direct.pose(), (True,) * 4 + (False,) + (True,) * 7)
    last = Boundary(direct.pose((0.5, 0, 0), (0.6, 0.2, -0.4)), (False, True, True, False, True, True) + (True,) * 6)
    problem = direct.body_transfer(x_lower=bounds, start=first, final=last)
    def make(centres=None):
        if kind == "gauss":
            return collocation(problem, CollocationOptions(scheme="gauss", intervals=2, states="tangent"), centres=centres)
        if kind == "compressed":
            return collocation(problem, CollocationOptions(form="compressed", intervals=2, states="tangent"), centres=centres)
        grid = Grid(np.array([0, 0.4, 1.0]), "rkmk4" if kind == "shooting" else "gauss_legendre_1", 1, kind == "implicit")
        return shooting(problem, MultipleShootingOptions(states="tangent"), [grid], centres)

    count = len(make().state_columns[0])
    nlp = make([random_states(rng, count)]).nlp
    assert any("bound q." in name for name in nlp.constraints)
    assert any(name.startswith("start value of") for name in nlp.constraints)
    z, lam = 0.3 * rng.normal(size=nlp.n), rng.normal(size=nlp.m)

    def gradient(z):
        return nlp.grad(z)[1].full().ravel() * 0.7 + nlp.jac(z)[1].full().T @ lam

    J, H = np.empty((nlp.m, nlp.n)), np.empty((nlp.n, nlp.n))
    for i in range(nlp.n):
        d = np.eye(nlp.n)[i] * 1e-5
        J[:, i] = (nlp.g(z + d) - nlp.g(z - d)).full().ravel() / 2e-5
        H[:, i] = (gradient(z + d) - gradient(z - d)) / 2e-5
    np.testing.assert_allclose(nlp.jac(z)[1].full(), J, atol=1e-7 * max(1, np.abs(J).max()))
    np.testing.assert_allclose(nlp.hess(z, 0.7, lam).full(), np.triu(H), atol=2e-7 * max(1, np.abs(H).max()))
