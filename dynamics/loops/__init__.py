"""Rigid-body dynamics and its derivatives as compiled loops over the Model: one binary for all robots, nothing to generate.

``LoopDynamics`` is the face for Python. For use inside other compiled loops take ``make_tables(model)`` and the functions of
``rnea``, ``first_order``, ``second_order``, ``tensors`` and ``forward``: they take the two table arrays, a workspace, the inputs
and preallocated results, and allocate nothing.
"""

from pathlib import Path

from dynamics import kernels
from dynamics.kernels.binaries import discard_stale

discard_stale(str(Path(__file__).parent), str(Path(kernels.__file__).parent))

from dynamics.loops.dynamics import LoopDynamics  # noqa: E402  # binaries of other sources must be gone before any is loaded
from dynamics.loops.tables import Tables, make_tables  # noqa: E402

__all__ = ["LoopDynamics", "Tables", "make_tables"]
