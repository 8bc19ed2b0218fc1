"""One thread for BLAS, OpenMP and Numba: work that is spread over processes has one processor each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: read by the libraries when they are loaded
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@contextmanager
def inherited() -> Iterator[None]:
    """Within, processes that are started have one thread for each library."""
    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(dict.fromkeys(VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def limits() -> Any:
    """One thread for the libraries that are loaded, until ``restore_original_limits()`` of what is returned."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


def pinned() -> None:
    """From now on this process has one thread for each library, loaded or not."""
    os.environ.update(dict.fromkeys(VARIABLES, "1"))
    limits()
