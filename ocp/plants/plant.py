"""A plant as a controller sees it: something that can be put into a state, measured, and acted upon.

A robot of one's own is a plant as soon as it has these three methods; ``ocp.mpc.run`` and ``ocp.wbc.run`` take it as it is.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@runtime_checkable
class Plant(Protocol):
    """States x [nx] and controls u [nu] are those of the model that the controller knows; a robot's are x = (q, v)."""

    def reset(self, x: ArrayLike, t: float = 0.0) -> None:
        """Begins at the state x [nx] and the time t (s). Raises ProblemError where it cannot be there."""

    def measure(self) -> Array:
        """The state [nx] as sensors tell it now, noise included."""
        ...

    def step(self, u: ArrayLike, dt: float) -> Array:
        """Holds u [nu] for dt (s). The state [nx] afterwards, as true as the plant knows it: for records, not for controllers.
        Not finite where the motion diverged."""
        ...
