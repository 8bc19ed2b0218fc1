"""Algebraic unknowns and implicit equations in problem files: what they mean, and what is said about wrong ones."""

import numpy as np
import pytest
from repository import ROOT

from ocp.app.files.load import load_problem, load_text
from ocp.errors import ProblemError
from ocp.methods import solve

FILE = """
name: circuit
constants: {R: 2}
system:
  states: {q: C, i: A}
  controls: {v: V}
  algebraic: {w: V}
  dynamics: {q: i}
  equations:
    diode: "w + w**3 = i"
    loop: der(i) + R*i + q + w - v
phase:
  duration: 1.0
  start: {q: 0, i: 0}
  final: {q: 0.3}
  bounds: {v: [-20, 20], w: [-3, 3], der(i): [null, 50]}
  costs: [{name: heat, running: "R*i**2 + i*w + 0.001*der(i)**2 + 0.01*der(q)**2"}]
  guess: {algebraic: {w: [0, 1], der(i): 0.5}}
"""


def test_names_mean_what_they_say():
    phase = load_text(FILE).problem.phase
    system = phase.system
    assert (system.controls, system.algebraic, system.equations) == (("v",), ("der(i)", "w"), ("diode", "loop"))
    assert system.units == {"q": "C", "i": "A", "v": "V", "w": "V", "der(i)": "A/s"}
    x, u = np.array([0.3, 0.7]), np.array([4.0, 1.5, 0.2])  # v, der(i), w
    assert np.asarray(system.rate(0, x, u, [])).ravel() == pytest.approx([0.7, 1.5])
    assert np.asarray(system.residual(0, x, u, [])).ravel() == pytest.approx([0.2 + 0.008 - 0.7, 1.5 + 1.4 + 0.3 + 0.2 - 4.0])
    cost = float(phase.costs[0].function(0, x, u, []))
    assert cost == pytest.approx(2 * 0.49 + 0.7 * 0.2 + 0.001 * 2.25 + 0.01 * 0.49)
    assert phase.u_lower == (-20, -np.inf, -3)
    assert phase.u_upper == (20, 50, 3)
    left = [np.asarray(system.residual(0, a, b, [])).ravel() for a, b in zip(phase.guess.x, phase.guess.u, strict=True)]
    assert np.abs(left).max() < 1e-8  # the guess is consistent


def test_a_file_written_out_is_the_same_problem():
    loaded = load_text(FILE)
    again = load_text(loaded.expanded()).problem.phase
    x, u = np.array([0.3, 0.7]), np.array([4.0, 1.5, 0.2])
    for mine, theirs in ((loaded.problem.phase.system.residual, again.system.residual),
                         (loaded.problem.phase.costs[0].function, again.costs[0].function)):
        assert np.asarray(mine(0, x, u, [])) == pytest.approx(np.asarray(theirs(0, x, u, [])))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ilqr", "multiple_shooting"])
def test_the_circuit_is_certified_by_every_method(method):
    loaded = load_text(FILE)
    first, other = (solve(loaded.problem, name) for name in ("collocation", method))
    assert first.ok, first.certificate.failures
    assert other.ok, other.certificate.failures
    assert abs(other.objective - first.objective) <= other.certificate.error_bound + first.certificate.error_bound


@pytest.mark.parametrize(("old", "new", "words"), [
    ('    diode: "w + w**3 = i"\n', "", ["1 equation for 2 unknowns", "der(i), w",  "problem.yaml:9"]),
    ("  algebraic: {w: V}\n", "", ["unknown name 'w'"]),
    ("w + w**3 = i", "w + W**3 = i", ["unknown name 'W'", ":10:17"]),
    ("w + w**3 = i", "w + w**3 = j", ["unknown name 'j'", ":10:24"]),
    ("w + w**3 = i", "w = i = q", ["more than one '='"]),
    ("w + w**3 = i", "w == i", ["comparison"]),
    ("w + w**3 = i", "1 = 2", ["depends on no state"]),
    ("w + w**3 = i", "i = q", ["algebraic 'w' appears only in 'loop', which others need", "'diode'", "index is 2"]),
    ("der(i) + R", "der(k) + R", ["der takes the name of a state"]),
    ("der(i) + R", "der(2*i) + R", ["der takes the name of a state"]),
    ("  algebraic: {w: V}", "  algebraic: {i: V}", ["'i' is already used by system.states.i"]),
    ("  algebraic: {w: V}", "  algebraic: {der: V}", ["'der' is reserved"]),
    ("w: [-3, 3]", "W: [-3, 3]", ["no state, control or algebraic unknown named 'W'"]),
    ("algebraic: {w: [0, 1]", "algebraic: {y: [0, 1]", ["no algebraic unknown named 'y'"]),
    ("final: {q: 0.3}", "final: {w: 0.3}", ["no state named 'w'"]),
    ("  equations:\n", "  define: {a: der(q)}\n  equations:\n", ["der"]),
], ids=str)
def test_errors_are_reported_at_their_key(old, new, words):
    assert old in FILE
    with pytest.raises(ProblemError) as caught:
        load_text(FILE.replace(old, new))
    for word in words:
        assert word in str(caught.value), str(caught.value)
    if "w: V" not in old or new:  # without the unknown much is wrong
        assert str(caught.value).count("problem.yaml:") <= 3  # no error that only follows from another


def test_a_wrong_derivative_is_reported_once():
    """Equations that use it are not wrong for that."""
    wrong = FILE.replace("dynamics: {q: i}", "dynamics: {q: j}").replace("+ w - v", "+ w - v + 0*der(q)")
    with pytest.raises(ProblemError) as caught:
        load_text(wrong)
    assert "unknown name 'j'" in str(caught.value)
    assert str(caught.value).count("problem.yaml:") == 1


def test_der_is_for_systems_with_equations():
    with pytest.raises(ProblemError, match="systems with 'equations'"):
        load_text("name: a\nsystem: {states: {x: m}, controls: {u: N}, dynamics: {x: u}}\n"
                  "phase: {duration: 1, start: {x: 0}, costs: [{name: c, running: der(x)**2}]}\n")


@pytest.mark.parametrize("name", ["valve", "pendulum_rod", "four_bar_residual"])
def test_the_gallery_needs_no_options(name):
    """As which it is certified at its references."""
    assert "solve" not in load_problem(ROOT / "problems" / f"{name}.yaml").file.model_fields_set
