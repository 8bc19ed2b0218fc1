"""The roads by which references of first files were found: right by themselves, and where two of them lead, equal."""

from importlib import metadata

import casadi as ca
import numpy as np
import pytest

from ocp.app.files.load import load_problem
from tests.references import closed, own


@pytest.mark.skipif(not list(metadata.distributions(name="example-robot-data")), reason="the robots extra is not installed")
def test_recursion_of_newton_and_euler_against_pinocchio():
    pin = pytest.importorskip("pinocchio")
    model = own.pinocchio_model(load_problem(own.FILES / "xarm_move.yaml"), False)
    rng = np.random.default_rng(3)
    q, v, a = rng.uniform(-2, 2, (3, model.nv))
    expected = pin.rnea(model, model.createData(), q, v, a) + model.damping * v
    found = ca.DM(own.newton_euler(own.links_of(model, False), ca.DM(q), ca.DM(v), ca.DM(a))).full().ravel()
    np.testing.assert_allclose(found, expected, atol=1e-11)
    assert np.abs(model.damping).max() > 1


@pytest.mark.parametrize(("kind", "pieces", "off"), [("rk4", 40, 1e-6), ("midpoint", 80, 1e-4)])
def test_transcriptions_tend_to_the_closed_form(kind, pieces, off):
    task = own.of_file(load_problem(own.FILES / "nagurka.yaml"))
    values = [own.transcribed(task, n, kind, False, task.guess, 1.0)[0] for n in (pieces // 2, pieces)]
    exact = closed.nagurka()
    assert values[1] == pytest.approx(exact, rel=off)
    order = np.log2((values[0] - exact) / (values[1] - exact))
    assert order == pytest.approx(4 if kind == "rk4" else 2, abs=0.3)


def test_limits_of_halved_meshes():
    value, error = own.tends_to([1 + 0.16, 1 + 0.04, 1 + 0.01])
    assert value == pytest.approx(1, abs=1e-12)
    assert error == pytest.approx(0.03)
    assert own.tends_to([1.0, 1.1, 1.05]) == (1.05, pytest.approx(0.05))  # no order: the last, and what it changed
