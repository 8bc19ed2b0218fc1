"""Linear systems of problem files: matrices, names, quadratic costs on whole states and controls, and the Riccati optimum."""


import numpy as np
import pytest
from repository import ROOT
from scipy.integrate import solve_ivp

from ocp.app.files.load import load_problem, load_text
from ocp.app.files.problem.schema import to_yaml
from ocp.errors import ProblemError
from ocp.methods import solve

FOLDER = ROOT / "problems"

TEXT = """\
name: Oscillator
constants: {k: 4.0}
system:
  linear: {A: [[0, 1], [-k, -0.1]], B: [[0, 0], [1, "2*k"]], drift: [0, 0.5]}
phase:
  duration: 2
  start: [1, 0]
  final: 0
  bounds: {u1: [-3, 3]}
  costs:
    - {name: state, state_error: 0.5, weights: [1, 2]}
    - {name: effort, control_error: {u1: 1}, weights: 3}
    - {name: end, at: final, state_error: [0, 1], weights: 10}
"""


def value(function, x, u):
    return np.asarray(function(0, x, u, [])).ravel()


def price(cost, x, u):
    return float(cost.expression(0, x, u, []))


def test_matrices_and_generated_names():
    phase = load_text(TEXT).problem.phase
    system = phase.system
    assert (system.space.names, system.controls) == (("x0", "x1"), ("u0", "u1"))
    np.testing.assert_allclose(value(system.rate, [0.3, -0.7], [1.1, 0.2]), [-0.7, -1.2 + 0.07 + 1.1 + 8 * 0.2 + 0.5])
    assert phase.start.value == (1, 0)
    assert phase.final.value == (0, 0)
    assert phase.final.complete
    assert (phase.u_lower, phase.u_upper) == ((-np.inf, -3), (np.inf, 3))


def test_errors_of_states_and_controls_are_quadratic_costs():
    state, effort, end = load_text(TEXT).problem.phase.costs
    x, u = [0.3, -0.7], [1.1, 0.2]
    assert price(state, x, u) == pytest.approx(0.5 * (0.2**2 + 2 * 1.2**2))
    assert price(effort, x, u) == pytest.approx(0.5 * 3 * 0.8**2)
    assert price(end, x, u) == pytest.approx(0.5 * 10 * (0.3**2 + 1.7**2))
    # weights follow the order of the state, whatever the order of the names
    (named,) = load_text(TEXT[:TEXT.index("    - {name: effort")].replace("state_error: 0.5", "state_error: {x1: 1, x0: 2}")
                         ).problem.phase.costs
    assert price(named, x, u) == pytest.approx(0.5 * (1.7**2 + 2 * 1.7**2))
    assert price(named, [2.5, -0.7], u) == pytest.approx(0.5 * (0.5**2 + 2 * 1.7**2))


def test_names_can_be_given_and_files_round_trip():
    text = TEXT.replace("drift: [0, 0.5]}", "states: {x: m, v: m/s}, controls: {u0: N, u1: N}}")
    loaded = load_text(text)
    assert loaded.problem.phase.system.space.names == ("x", "v")
    assert loaded.problem.phase.system.units["v"] == "m/s"
    again = load_text(to_yaml(loaded.file))
    assert again.file == loaded.file


def test_csv_files_lie_beside_the_problem(tmp_path):
    (tmp_path / "A.csv").write_text("# a comment\n0, 1\n-4, -1e-1\n")
    text = TEXT.replace("[[0, 1], [-k, -0.1]]", "A.csv")
    (tmp_path / "p.yaml").write_text(text)
    rate = load_problem(tmp_path / "p.yaml").problem.phase.system.rate
    np.testing.assert_allclose(value(rate, [0.3, -0.7], [0, 0]), [-0.7, -1.2 + 0.07 + 0.5])


@pytest.mark.parametrize(("old", "new", "words"), [
    ("[[0, 1], [-k, -0.1]]", "[[0, 1], [-k]]", "1 entries; the rows before have 2"),
    ("[[0, 1], [-k, -0.1]]", "[[0, 1, 2], [-k, 1, 1]]", "a state matrix is square; this one is 2 x 3"),
    ("[[0, 0], [1, \"2*k\"]]", "[[0, 0]]", "needs 2 rows as A has, got 1"),
    ("drift: [0, 0.5]", "drift: [0]", "1 values for 2 states"),
    ("drift: [0, 0.5]", "states: {x: m}", "1 names for 2 states"),
    ("[[0, 1], [-k, -0.1]]", "none.csv", "no file"),
    ("[[0, 1], [-k, -0.1]]", "k", "expected a list of rows or a .csv file; got 'k'"),
    ("[[0, 1], [-k, -0.1]]", "bad.csv", "bad.csv:2: entry 1 is 'x', not a finite number"),
    ("start: [1, 0]", "start: [1]", "1 values for 2 states"),
    ("control_error: {u1: 1}", "control_error: {u2: 1}", "no control named 'u2'"),
    ("control_error: {u1: 1}", "control_error: {}", "names no control"),
    ("weights: 3}", "weights: 3, at: final}", "a cost at the end cannot depend on controls"),
    ("weights: [1, 2]}", "weights: [1, 2, 3]}", "3 values for 2 residuals"),
    ("state_error: 0.5, weights: [1, 2]", "running: x0, at: path", "'at' belongs to an error"),
])
def test_mistakes_are_named(tmp_path, old, new, words):
    (tmp_path / "bad.csv").write_text("1, 2\nx, 3\n")
    assert old in TEXT
    with pytest.raises(ProblemError) as caught:
        load_text(TEXT.replace(old, new), tmp_path)
    assert words in str(caught.value)


def riccati_cost(A, B, Q, R, Qf, x0, duration):
    """Half x0' P(0) x0 with P from the Riccati differential equation, integrated backwards."""
    n, S = len(A), B @ np.linalg.solve(R, B.T)

    def field(_, flat):
        P = flat.reshape(n, n)
        return (A.T @ P + P @ A - P @ S @ P + Q).ravel()

    P = solve_ivp(field, (0, duration), Qf.ravel(), method="DOP853", rtol=1e-10, atol=1e-11).y[:, -1].reshape(n, n)
    return 0.5 * x0 @ P @ x0


@pytest.mark.slow
def test_eighty_states_reach_the_riccati_optimum():
    """The reference of the shipped file, and collocation at it."""
    loaded = load_problem(FOLDER / "lqr80.yaml")
    A, B = (np.loadtxt(FOLDER / "models" / f"chain_{name}.csv", delimiter=",") for name in "AB")
    x0 = np.array(loaded.problem.phase.start.value)
    expected = riccati_cost(A, B, np.eye(80), 0.1 * np.eye(40), 10 * np.eye(80), x0, 4.0)
    assert loaded.problem.reference.objective == pytest.approx(expected, rel=1e-8)
    found = solve(loaded.problem, "collocation", loaded.options_for("collocation"))
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(expected, rel=1e-5)
