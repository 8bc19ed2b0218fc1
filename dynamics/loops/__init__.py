"""Rigid-body dynamics and its derivatives as compiled loops over the Model: one binary for all robots, nothing to generate.

``LoopDynamics`` is the face for Python. For use inside other compiled loops take ``make_tables(model)`` and the functions of
``rnea``, ``first_order``, ``second_order``, ``tensors`` and ``forward``: they take the two table arrays, a workspace, the inputs
and preallocated results, and allocate nothing.
"""

from dynamics.loops.dynamics import LoopDynamics
from dynamics.loops.tables import Tables, make_tables

__all__ = ["LoopDynamics", "Tables", "make_tables"]
