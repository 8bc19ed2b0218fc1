"""Faster start of the command line's process; for the process as a whole, so only commands call it."""

from __future__ import annotations

import gc
import importlib.util
import sys

#: Objects made between two collections of garbage, and how many of these until older objects are looked at. Python's default looks
#: at all that imports and compilers have made again and again, a tenth of the time of a short run.
COLLECTIONS = (200_000, 20, 100)


def few_collections() -> None:
    """Look for garbage rarely. Arrays and graphs are not garbage: they go when the last reference does."""
    gc.set_threshold(*COLLECTIONS)


def without_numpys_tools() -> None:
    """Import NumPy, but its reader of Fortran and its tools for tests only when somebody uses them: SciPy copies all names of NumPy
    and so would import both, a tenth of a second."""
    import numpy

    for name in ("f2py", "testing"):
        full = f"numpy.{name}"
        spec = importlib.util.find_spec(full) if full not in sys.modules else None
        if spec is None or spec.loader is None:
            continue
        spec.loader = importlib.util.LazyLoader(spec.loader)
        module = sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        setattr(numpy, name, module)
