"""The filter of a line search: Fletcher and Leyffer 2002; Waechter and Biegler 2006, Sec. 2.3."""

from __future__ import annotations

#: margin around pairs
GAMMA = 1e-5
#: violation that no iterate may exceed, relative to that of the start: far linearisations lead astray (measured on swing-ups)
MOST = 10.0


class Filter:
    """Pairs of violation and objective that no iterate may be worse than in both."""

    def __init__(self, theta: float):
        self.pairs: list[tuple[float, float]] = []
        self.most, self.least = MOST * max(1.0, theta), 1e-4 * max(1.0, theta)

    def takes(self, theta: float, f: float) -> bool:
        return theta < self.most and all(theta < t or f < p for t, p in self.pairs)

    def add(self, theta: float, f: float) -> None:
        t, p = (1 - GAMMA) * theta, f - GAMMA * theta
        self.pairs = [(a, b) for a, b in self.pairs if a < t or b < p] + [(t, p)]
