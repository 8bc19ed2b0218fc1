"""What a unit test may not do: compile kernels or loops, call a solver, run a command."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from unittest.mock import patch

import casadi
import pytest

with suppress(ImportError):
    import mujoco  # noqa: F401  its first import asks a process for the version of GLFW


def refused(what: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        pytest.fail(f"a unit test {what}: name its file with ! in tests/unit.txt, or interpret its kernels")

    return refuse


def no_commands(real: Callable[..., None]) -> Callable[..., None]:
    def run(self: Any, arguments: Any, *args: Any, **kwargs: Any) -> None:
        first = arguments if isinstance(arguments, str) else str(arguments[0])
        if first.split("/")[-1] != "git":
            refused(f"runs {first!r}")()
        real(self, arguments, *args, **kwargs)

    return run


@contextmanager
def nothing_compiled_or_solved() -> Iterator[None]:
    import osqp
    from numba.core.dispatcher import Dispatcher

    from dynamics.kernels import build, llvm

    with ExitStack() as stack:
        for owner, name, what in ((build, "_key", "compiles a kernel"), (llvm, "_made", "compiles a kernel"),
                                  (Dispatcher, "compile", "calls a compiled loop"), (casadi, "nlpsol", "solves a programme"),
                                  (osqp.OSQP, "setup", "solves a programme")):
            stack.enter_context(patch.object(owner, name, refused(what)))
        stack.enter_context(patch.object(subprocess.Popen, "__init__", no_commands(subprocess.Popen.__init__)))
        yield
