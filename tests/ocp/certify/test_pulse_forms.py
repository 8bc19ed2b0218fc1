"""Forces for an instant, written in a dozen ways: a certificate holds the true effort within its bar, or there is none.

A unit mass goes from rest to rest over 1 m in 1 s. Beside the control acts a pulse d(t) of seeded place, width and height. Truth:
the least effort under ``b = (1 - int (1 - t) d dt, -int d dt)``, which the controllability Gramian of the double integrator gives
as ``12 b_x^2 - 12 b_x b_v + 4 b_v^2``; the integrals are moments of the pulse by a trapezoidal sum over its width alone.
"""

import numpy as np
import pytest
from scipy.special import erf

from ocp.app.files.load import load_text
from ocp.methods import solve

FILE = """
name: pulse
system: {{states: {{x: m, v: m/s}}, controls: {{u: N}}, dynamics: {{x: v, v: "u + {height!r}*({pulse})"}}}}
phase:
  duration: 1
  start: {{x: 0, v: 0}}
  final: {{x: 1, v: 0}}
  costs: [{{name: effort, running: u**2}}]
"""
#: text of a pulse at a of width w, and the same with s = (t - a) / w in NumPy, to which it tends where w is small
FORMS = {
    "gauss": ("exp(-((t - {a!r})/{w!r})**2)", lambda s: np.exp(-(s**2))),
    "constant base": ("0.5**(((t - {a!r})/{w!r})**2)", lambda s: 0.5**(s**2)),
    "polynomial": ("(1 - (t - {a!r})**2)**{n!r}", lambda s: np.exp(-(s**2))),
    "cosine": ("cos(t - {a!r})**{m!r}", lambda s: np.exp(-(s**2))),
    "squares": ("1/(1 + ((t - {a!r})/{w!r})**2)**2", lambda s: 1 / (1 + s * s)**2),
    "sech": ("1/cosh((t - {a!r})/{w!r})", lambda s: 1 / np.cosh(np.clip(s, -300, 300))),
    "two steps": ("(tanh((t - {a!r})/{w!r} + 3) - tanh((t - {a!r})/{w!r} - 3))/2", lambda s: (np.tanh(s + 3) - np.tanh(s - 3)) / 2),
    "arcs": ("atan((t - {a!r})/{w!r} + 3) - atan((t - {a!r})/{w!r} - 3)", lambda s: np.arctan(s + 3) - np.arctan(s - 3)),
    "edges": ("sqrt(max(0, 1 - ((t - {a!r})/{w!r})**2))", lambda s: np.sqrt(np.maximum(0, 1 - s * s))),
}


def truth(of, a, w, height):
    """The least effort, from the moments of the pulse; tails beyond the phase are left out."""
    s = np.sinh(np.linspace(np.arcsinh(-a / w), np.arcsinh((1 - a) / w), 400_001))
    d, t = height * of(s), a + w * s
    bx, bv = 1 - np.trapezoid((1 - t) * d, t), -np.trapezoid(d, t)
    return 12 * bx * bx - 12 * bx * bv + 4 * bv * bv


def test_moments_are_those_of_closed_forms():
    """Of a Gaussian, by error functions."""
    a, w, h = 0.4, 0.05, 3.0
    area = h * w * np.sqrt(np.pi) / 2 * (erf((1 - a) / w) - erf(-a / w))
    b = 1 - area * (1 - a), -area
    assert truth(FORMS["gauss"][1], a, w, h) == pytest.approx(12 * b[0]**2 - 12 * b[0] * b[1] + 4 * b[1]**2, rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2])
@pytest.mark.parametrize("form", FORMS)
def test_no_certificate_without_the_pulse(form, seed):
    rng = np.random.default_rng([seed, *map(ord, form)])
    a, w = float(rng.uniform(0.1, 0.9)), float(10**rng.uniform(-6, -3))
    height = float(rng.uniform(0.1, 0.4) / w)
    text, of = FORMS[form]
    pulse = text.format(a=a, w=w, n=float(round(1 / w**2)), m=float(2 * round(1 / w**2)))
    found = solve(load_text(FILE.format(height=height, pulse=pulse)).problem)
    true = truth(of, a, w, height)
    assert abs(true - 12) > 0.01  # the pulse matters
    if found.ok:
        assert abs(found.objective - true) <= found.certificate.error_bound + 1e-5 * true
