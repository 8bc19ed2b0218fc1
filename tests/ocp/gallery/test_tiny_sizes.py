"""Problems of micrometres and milliseconds, without options: certified like their twins of ordinary size, with the same answer."""

import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from ocp.app.files.load import load_text
from ocp.methods import solve
from ocp.nlp import SolverOptions, solve_nlp
from ocp.problem import Kind, Status
from ocp.transcription.collocation import CollocationOptions, transcribe

AROUND_A_DISC = """
name: Around a disc
system:
  states: {{x: m, y: m, vx: m/s, vy: m/s}}
  controls: {{ax: m/s**2, ay: m/s**2}}
  dynamics: {{x: vx, y: vy, vx: ax, vy: ay}}
phase:
  duration: {T}
  start: {{x: 0, y: 0, vx: 0, vy: 0}}
  final: {{x: {L}, y: 0.001*{L}, vx: 0, vy: 0}}
  costs: [{{name: effort, running: "ax**2 + ay**2"}}]
  constraints: [{{name: disc, expression: "(x - 0.5*{L})**2 + y**2", lower: {square}}}]
"""
FULLER = """
name: Fuller's problem
system:
  states: {{x: m, v: m/s}}
  controls: {{u: m/s**2}}
  dynamics: {{x: v, v: u}}
phase:
  duration: {T}
  start: {{x: {x}, v: 0}}
  bounds: {{u: [-1, 1]}}
  costs: [{{name: off, running: "{weight}*x**2"}}]
"""


def certified(text):
    loaded = load_text(text)
    found = solve(loaded.problem, loaded.method, loaded.method_options)
    assert found.ok, (found.status, found.ending, found.certificate and found.certificate.failures)
    return found


def test_a_micrometre_in_a_millisecond():
    large = certified(AROUND_A_DISC.format(T=1, L=1, square=0.04).replace("0.001*1", "0.001"))
    tiny = certified(AROUND_A_DISC.format(T=1e-3, L=1e-6, square=4e-14).replace("0.001*1e-06", "1e-9"))
    # accelerations L / T^2 are those of the twin; the effort lasts T
    assert tiny.objective == pytest.approx(1e-3 * large.objective, rel=1e-4)
    assert Kind.SCALED in [one.kind for one in tiny.findings]
    assert Kind.SCALED not in [one.kind for one in large.findings]


def test_fullers_problem_a_ten_millionth_of_a_metre_from_rest():
    """The value of Fuller's problem from rest is c x^(5/2), by its self-similar chattering: switches at x = -z v |v|."""
    # control -1 from (x, 0) to the curve x = z v^2, then +1 to rest at (-x', 0): z solves the self-similarity of the switches,
    # z = sqrt((sqrt(33) - 1) / 24); the cost of one leg follows by quadrature, all others by the ratio
    z = ((33**0.5 - 1) / 24)**0.5
    v = -brentq(lambda w: 1 - w**2 / 2 - z * w**2, 0.1, 2.0)
    leg = quad(lambda t: (1 - t**2 / 2)**2, 0, -v)[0]
    x1 = z * v**2
    after = quad(lambda t: (x1 + v * t + t**2 / 2)**2, 0, -v)[0]
    ratio = abs(x1 - v**2 / 2)  # of |x| at rest, two legs on; v^2 / 2 > z v^2: it swings through
    constant = (leg + after) / (1 - ratio**2.5)
    assert 0.5 < constant < 1.0
    found = certified(FULLER.format(T=0.004, x=1e-7, weight="1e9"))
    assert found.objective == pytest.approx(constant * 1e9 * 1e-7**2.5, rel=3e-3)


PULL = """
name: A pull
system: {states: {x: m, v: m/s}, controls: {u: m/s**2}, dynamics: {x: v, v: u}}
phase:
  duration: 1.0e+5
  start: {x: 0, v: 0}
  costs: [{name: effort, running: "u**2"}, {name: goal, final: "1e-9*(x - 1.0e+9)**2"}]
"""


def test_a_million_kilometres_that_no_guess_foretells():
    """Rounding of the constraints exceeds absolute tolerances. The least effort to a place L is k L^2, k = 3 / T^3."""
    found = certified(PULL)
    w, k = 1e-9, 3e-15
    assert found.objective == pytest.approx(w * k / (w + k) * 1e18, rel=1e-9)
    assert Kind.ROUNDING_REACHED in [one.kind for one in found.findings]


MOVE = """
name: A move
system: {states: {x: m, v: m/s}, controls: {u: m/s**2}, dynamics: {x: v, v: u}}
phase:
  duration: 1.0e+5
  start: {x: 0, v: 0}
  final: {x: 1.0e+9, v: 0}
  costs: [{name: effort, running: "1.0e+9*u**2"}]
"""


def test_a_million_kilometres_in_a_day():
    """Rounding of the constraints exceeds absolute tolerances. The least effort of a move from rest to rest is 12 L^2 / T^3."""
    found = certified(MOVE)
    assert found.objective == pytest.approx(1e9 * 12 * 1e18 / 1e15, rel=1e-9)
    assert next(one for one in found.findings if one.kind is Kind.SCALED).data["reasons"][0] == "unknowns"
    plain = solve_nlp(transcribe(load_text(MOVE).problem, CollocationOptions()).nlp, SolverOptions())
    assert plain.status is Status.CONVERGED
    assert Kind.ROUNDING_REACHED in [one.kind for one in plain.findings]
    assert plain.f == pytest.approx(found.objective, rel=1e-9)


@pytest.mark.parametrize(("way", "time"), [(1e-9, 1e-9), (1e-9, 1.0), (1e-6, 1e-3)])
def test_a_block_moves_a_tiny_way(way, time):
    """From rest to rest, ``12 way^2 / time^3``: the guess has no size for speed and force, and the force may be huge."""
    found = solve(load_text(f"""
name: tiny
system: {{states: {{x: m, v: m/s}}, controls: {{u: N}}, dynamics: {{x: v, v: u}}}}
phase: {{duration: {time}, start: {{x: 0, v: 0}}, final: {{x: {way}, v: 0}}, costs: [{{name: effort, running: u**2}}]}}
""").problem)
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(12 * way**2 / time**3, rel=1e-6)
