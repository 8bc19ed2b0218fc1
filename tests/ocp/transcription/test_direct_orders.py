"""Schemes in whole problems: orders of the optimum, exact cases and costates, against closed forms."""

from __future__ import annotations

import control_problems as known
import direct_problems as direct
import numpy as np
import pytest
from free_problems import held_effort
from scipy.optimize import brentq
from uncertified import by_collocation

from ocp.nlp import SolverOptions, solve_nlp
from ocp.problem import Status
from ocp.transcription.collocation import CollocationOptions, transcribe, uniform_meshes
from ocp.transcription.mesh import Mesh
from ocp.transcription.schemes import make_scheme

#: scheme, degree, order of the objective, order of the states at knots, order of the costates at the places
CASES = [("trapezoid", 2, 2, 2, 1), ("hermite_simpson", 3, 4, 4, 2), ("gauss", 1, 2, 2, 2), ("gauss", 2, 4, 4, 3),
         ("gauss", 3, 6, 6, 4), ("radau", 1, 1, 1, 1), ("radau", 2, 3, 3, 2), ("radau", 3, 5, 5, 3),
         ("radau_left", 1, 1, 1, 1), ("radau_left", 2, 3, 3, 2), ("radau_left", 3, 5, 5, 3),
         ("lobatto", 2, 2, 2, 1), ("lobatto", 3, 4, 4, 2), ("lobatto", 4, 6, 4, 3)]
DIFFERENTIAL = [case for case in CASES if case[0] in ("gauss", "radau", "radau_left")]


def solved(problem, **options):
    """The solution, and the options it was found with."""
    own = CollocationOptions(**{"tolerance": 1e-11, **options})
    found = by_collocation(problem, own)
    assert found.status is Status.CONVERGED, found.ending
    return found, own


def times(problem, options):
    return problem.phase.duration.lower * uniform_meshes(problem, options)[0].evaluation.fraction


def errors(scheme, degree, intervals, **more):
    """Of the objective, of the states at knots and of the costates at places, for the regulator."""
    problem = direct.regulator()
    found, options = solved(problem, scheme=scheme, degree=degree, intervals=intervals, **more)
    x, _, least = direct.regulated(found.trajectory.t)
    at = times(problem, options)
    _, costate, _ = direct.regulated(at)
    return np.array([abs(found.objective - least), np.abs(found.trajectory.x - x).max(),
                     np.abs(found.extra["costate"] - costate).max()])


def observed(coarse, fine):
    return np.log2(np.asarray(coarse) / np.asarray(fine))


@pytest.mark.parametrize(("scheme", "degree", "objective", "state", "costate"), CASES)
@pytest.mark.sample(3)
def test_orders_on_a_regulator(scheme, degree, objective, state, costate):
    """Riccati's solution through the Hamiltonian matrix. Costates stand at the places, where they are less accurate than knots."""
    n = 5 if degree >= 3 else 12
    found = observed(errors(scheme, degree, n), errors(scheme, degree, 2 * n))
    np.testing.assert_allclose(found, [objective, state, costate], atol=0.34)


@pytest.mark.parametrize(("scheme", "degree"), [("gauss", 3), ("lobatto", 4)])
def test_controls_of_less_freedom_bound_the_order(scheme, degree):
    """Held controls are of order 1 and linear ones of order 2; the objective feels their squares."""
    for shape, order in (("held", 2), ("linear", 4)):
        found = observed(errors(scheme, degree, 6, controls=shape)[:2], errors(scheme, degree, 12, controls=shape)[:2])
        np.testing.assert_allclose(found, order, atol=0.25)


@pytest.mark.parametrize(("scheme", "degree", "form"), [
    *((scheme, degree, "integral") for scheme, degree, *_ in CASES), *((scheme, degree, "differential") for scheme, degree, *_ in
                                                                       DIFFERENTIAL)])
def test_costates_minimise_the_hamiltonian_at_every_place(scheme, degree, form):
    """H = cost + p' rate: R u + B' p = 0 holds in the discrete problem too, place by place, whatever the scheme and its order."""
    problem = direct.regulator()
    found, options = solved(problem, scheme=scheme, degree=degree, intervals=5, form=form)
    places = uniform_meshes(problem, options)[0].evaluation
    assert places.points.shape[1] == 1
    u = found.trajectory.u[places.points[:, 0]]
    np.testing.assert_allclose(u @ direct.R, -found.extra["costate"] @ direct.B, atol=1e-8)
    assert np.abs(u).max() > 0.3


@pytest.mark.parametrize(("problem", "scheme", "degree"), [
    *((direct.regulator(), *case[:2]) for case in DIFFERENTIAL if case[1] != 2), (known.cart_pole(), "gauss", 3),
    (known.cart_pole(), "radau", 3),
    (known.cart_pole(), "radau_left", 3)])
def test_both_forms_give_the_same_states_and_costates(problem, scheme, degree):
    found = [solved(problem, scheme=scheme, degree=degree, intervals=8, form=form)[0] for form in ("integral", "differential")]
    assert found[0].objective == pytest.approx(found[1].objective, rel=1e-9)
    for one, other in ((found[0].trajectory.x, found[1].trajectory.x), (found[0].trajectory.u, found[1].trajectory.u),
                       (found[0].extra["costate"], found[1].extra["costate"])):
        np.testing.assert_allclose(one, other, atol=1e-6 * np.abs(other).max())
    t = np.linspace(0, found[0].trajectory.t[-1], 37)
    np.testing.assert_allclose(found[0].trajectory.state(t), found[1].trajectory.state(t), atol=1e-7)


@pytest.mark.parametrize("shape", ["polynomial", "linear", "held"])
@pytest.mark.parametrize(("scheme", "degree"), [("gauss", 2), ("gauss", 4), ("radau", 2), ("radau", 3), ("radau_left", 2),
                                                ("lobatto", 3), ("lobatto", 5), ("hermite_simpson", 3)])
def test_block_move_is_exact(scheme, degree, shape):
    """Cubic states and a linear control: exact with every scheme of order 3; held controls have a least-norm solution."""
    found, _ = solved(known.block_move(), scheme=scheme, degree=degree, intervals=4, controls=shape)
    t = np.linspace(0, 1, 23)
    if shape == "held":
        assert found.objective == pytest.approx(2 * held_effort(4), abs=1e-9)
        assert found.trajectory.u.shape == (4, 1)
        np.testing.assert_array_equal(found.trajectory.control(found.trajectory.t[:-1]), found.trajectory.u)
        return
    assert found.objective == pytest.approx(12, abs=1e-9)
    np.testing.assert_allclose(found.trajectory.control(t)[:, 0], 6 - 12 * t, atol=1e-8)
    s = found.trajectory.t
    np.testing.assert_allclose(found.trajectory.x, np.column_stack([3 * s**2 - 2 * s**3, 6 * s - 6 * s**2]), atol=1e-9)
    if shape == "polynomial":
        np.testing.assert_allclose(found.extra["costate"][:, 0], -24, atol=1e-7)


def slide(across=2.0, down=2.0, g=9.81):
    """Least time of the brachistochrone: a cycloid."""
    angle = brentq(lambda a: (a - np.sin(a)) / (1 - np.cos(a)) - across / down, 0.1, 6.0, xtol=1e-14)
    return angle * np.sqrt(down / (1 - np.cos(angle)) / g)


@pytest.mark.parametrize(("scheme", "degree", "order", "n"), [
    ("trapezoid", 2, 2, 10), ("hermite_simpson", 3, 4, 10), ("gauss", 2, 4, 8), ("gauss", 3, 6, 4), ("radau", 2, 3, 8),
    ("radau", 3, 5, 4),
    ("radau_left", 3, 5, 4), ("lobatto", 4, 6, 4)])
def test_orders_with_a_free_duration(scheme, degree, order, n):
    """The fastest slide: nonlinear, with bounds that are not active."""
    assert slide() == pytest.approx(0.82433867, abs=1e-8)
    found = [solved(known.brachistochrone(), scheme=scheme, degree=degree, intervals=k)[0].objective for k in (n, 2 * n)]
    assert observed(*np.abs(np.array(found) - slide())) == pytest.approx(order, abs=0.5), found


def test_a_mesh_may_mix_schemes_and_widths():
    """Regulator on six uneven intervals with six different schemes: as accurate as the weakest of them."""
    schemes = (make_scheme("gauss", 4), make_scheme("radau", 4), make_scheme("lobatto", 5),
               make_scheme("radau_left", 5, "differential"), make_scheme("radau", 5), make_scheme("gauss", 5, "differential"))
    mesh = Mesh(np.array([0, 0.1, 0.3, 0.45, 0.6, 0.9, 1.0]), schemes)
    problem = direct.regulator()
    program = transcribe(problem, CollocationOptions(), [mesh])
    found = solve_nlp(program.nlp, SolverOptions(tolerance=1e-12))
    x, _, least = direct.regulated(direct.HORIZON * mesh.edges)
    assert found.f == pytest.approx(least, abs=1e-7)
    path = program.invert(found.x)
    np.testing.assert_allclose(path.x, x, atol=1e-6)
    t = np.linspace(0, direct.HORIZON, 41)
    np.testing.assert_allclose(path.state(t), direct.regulated(t)[0], atol=1e-5)
    _, costate, _ = direct.regulated(direct.HORIZON * mesh.evaluation.fraction)
    np.testing.assert_allclose(program.costate(found.lam_g)[0], costate, atol=3e-3)


@pytest.mark.parametrize(("scheme", "degree"), [("gauss", 20), ("radau", 20), ("lobatto", 21), ("radau_left", 20)])
def test_high_degrees_on_one_interval(scheme, degree):
    for form in ("integral",) if scheme == "lobatto" else ("integral", "differential"):
        error = errors(scheme, degree, 1, form=form)
        assert error[0] < 1e-11
        assert error[1] < 1e-9


@pytest.mark.parametrize("name", ["gauss", "radau", "lobatto", "radau_left"])
def test_controls_at_collocated_places_are_unknowns_themselves(name):
    """However high the degree and narrow the interval, no place mixes control points for rounding's sake."""
    mesh = Mesh(np.linspace(0, 1, 101), (make_scheme(name, 20),) * 100)
    assert mesh.evaluation.points.shape[1] == 1
    np.testing.assert_allclose(mesh.control_fractions[mesh.evaluation.points[:, 0]], mesh.evaluation.fraction, atol=1e-15)
