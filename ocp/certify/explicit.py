"""An explicit integrator of order 8 with errors by embedded methods of order 5 and 3: Dormand and Prince's 8(5,3).

Hairer, Norsett and Wanner, Solving Ordinary Differential Equations I, section II.5 (method, code DOP853) and II.4 (steps).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ocp.interrupts import Activity, check
from ocp.thresholds import REINTEGRATION

Array = np.ndarray

#: weights of the stages before it in every stage but the first; the last entry holds those of the step
_ROWS: tuple[dict[int, float], ...] = (
    {0: 0.05260015195876773},
    {0: 0.0197250569845379, 1: 0.0591751709536137},
    {0: 0.02958758547680685, 2: 0.08876275643042054},
    {0: 0.2413651341592667, 2: -0.8845494793282861, 3: 0.924834003261792},
    {0: 0.037037037037037035, 3: 0.17082860872947386, 4: 0.12546768756682242},
    {0: 0.037109375, 3: 0.17025221101954405, 4: 0.06021653898045596, 5: -0.017578125},
    {0: 0.03709200011850479, 3: 0.17038392571223998, 4: 0.10726203044637328, 5: -0.015319437748624402, 6: 0.008273789163814023},
    {0: 0.6241109587160757, 3: -3.3608926294469414, 4: -0.868219346841726, 5: 27.59209969944671, 6: 20.154067550477894,
     7: -43.48988418106996},
    {0: 0.47766253643826434, 3: -2.4881146199716677, 4: -0.590290826836843, 5: 21.230051448181193, 6: 15.279233632882423,
     7: -33.28821096898486, 8: -0.020331201708508627},
    {0: -0.9371424300859873, 3: 5.186372428844064, 4: 1.0914373489967295, 5: -8.149787010746927, 6: -18.52006565999696,
     7: 22.739487099350505, 8: 2.4936055526796523, 9: -3.0467644718982196},
    {0: 2.273310147516538, 3: -10.53449546673725, 4: -2.0008720582248625, 5: -17.9589318631188, 6: 27.94888452941996,
     7: -2.8589982771350235, 8: -8.87285693353063, 9: 12.360567175794303, 10: 0.6433927460157636},
    {0: 0.054293734116568765, 5: 4.450312892752409, 6: 1.8915178993145003, 7: -5.801203960010585, 8: 0.3111643669578199,
     9: -0.1521609496625161, 10: 0.20136540080403034, 11: 0.04471061572777259},
)
STAGES = len(_ROWS)
A = [np.array([row.get(j, 0.0) for j in range(i + 1)]) for i, row in enumerate(_ROWS)]
#: nodes of the stages: row sums of the matrix
C = np.array([row.sum() for row in A])
#: errors of the embedded methods, as weights of the stages
FIFTH = np.zeros(STAGES)
FIFTH[[0, 5, 6, 7, 8, 9, 10, 11]] = (
    0.01312004499419488, -1.2251564463762044, -0.4957589496572502, 1.6643771824549864, -0.35032884874997366, 0.3341791187130175,
    0.08192320648511571, -0.022355307863886294)
THIRD = A[-1].copy()
THIRD[[0, 8, 11]] -= (0.2440944881889764, 0.7338466882816118, 0.022058823529411766)


def integrate(field: Callable[[float, Array], Array], y: Array, rtol: float, atol: float | Array) -> Array | None:
    """The value [n] at s = 1 of ``dy/ds = field(s, y)`` from y [n] at s = 0; None where no step is small enough. Errors of a step:
    in the mean within ``atol + rtol |y|``."""
    if not y.size:
        return y
    s, f = 0.0, field(0.0, y)
    h = _first(field, y, f, atol + rtol * np.abs(y))
    safe, least = REINTEGRATION.step_safety, REINTEGRATION.min_step_factor
    K = np.empty((STAGES, len(y)))
    while s < 1.0:
        h, grow = min(h, 1.0 - s), REINTEGRATION.max_step_factor
        while True:
            check(Activity.INTEGRATION)
            K[0] = f
            for i in range(1, STAGES):
                K[i] = field(s + C[i - 1] * h, y + h * (A[i - 1] @ K[:i]))
            new = y + h * (A[-1] @ K)
            error = h * _size(K, atol + rtol * np.maximum(np.abs(y), np.abs(new)))
            if error < 1.0:
                break
            h *= max(least, safe * error ** -0.125) if np.isfinite(error) else least
            grow = 1.0  # no growth right after a step that was refused
            if h <= REINTEGRATION.min_explicit_step * max(s, 1e-3):
                return None
        s = 1.0 if h >= 1.0 - s else s + h
        y, f = new, field(s, new) if s < 1.0 else f
        h *= min(grow, max(least, safe * error ** -0.125)) if error > 0 else grow
    return y


def _size(K: Array, scale: Array) -> float:
    """The error of a step of length one: that of order 5, damped where that of order 3 is much larger."""
    fifth, third = (float(np.sum((weights @ K / scale) ** 2)) for weights in (FIFTH, THIRD))
    return fifth / np.sqrt((fifth + 0.01 * third) * len(scale)) if fifth or third else 0.0


def _first(field: Callable[[float, Array], Array], y: Array, f: Array, scale: Array) -> float:
    """A first step: small against the sizes of y, its gradient and its curvature."""
    d0, d1 = (float(np.sqrt(np.mean((v / scale) ** 2))) for v in (y, f))
    h = min(1.0, 1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1)
    d2 = float(np.sqrt(np.mean(((field(h, y + h * f) - f) / scale) ** 2))) / h
    after = max(1e-6, h * 1e-3) if max(d1, d2) <= 1e-15 else (0.01 / max(d1, d2)) ** 0.125
    return min(100 * h, after, 1.0) if np.isfinite(after) else 1e-6
