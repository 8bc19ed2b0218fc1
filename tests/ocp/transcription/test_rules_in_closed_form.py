"""Points of Legendre in closed form are those of NumPy's companion matrices."""

import numpy as np
import pytest
from numpy.polynomial import legendre as numpys

from ocp.transcription.legendre import gauss, lobatto


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_gauss(m):
    x, w = numpys.leggauss(m)
    for found, expected in zip(gauss(m), ((1 + x) / 2, w / 2), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=3e-16)


@pytest.mark.parametrize("m", [2, 3, 4, 5, 6])
def test_lobatto(m):
    """Its inner points are the zeros of P'_{m-1}."""
    inner = numpys.legroots(numpys.legder(np.eye(m)[m - 1])) if m > 2 else np.zeros(0)
    np.testing.assert_allclose(2 * lobatto(m)[0] - 1, [-1, *inner, 1], rtol=0, atol=1e-15)
