"""RedMax: dynamics of the tree as maximal coordinates (a twist for each body) seen through J, with all derivatives in closed form.

Source: Sueda, "Analytically differentiable articulated rigid body dynamics"; its twists are angular first.
"""

from dynamics.redmax.equations import RedMax, redmax
from dynamics.redmax.kinematics import Maximal, maximal

__all__ = ["Maximal", "RedMax", "maximal", "redmax"]
