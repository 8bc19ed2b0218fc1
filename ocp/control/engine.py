"""The loops of inverse kinematics, as plain Python until compiling them pays.

A guess takes milliseconds either way, Numba's compiler seven seconds. A process that has spent ``PATIENCE`` seconds in plain loops
has many configurations to find, and goes on in compiled ones; so does one in which ``ocp.control.ik_search`` was imported.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from dynamics.kernels.plain import plain_twin

COMPILED, BELOW = "ocp.control.ik_search", ("ocp.control.box_qp",)
PATIENCE = 2.0


class Loops:
    """The functions of ``ocp.control.ik_search`` by name, by whichever execution is due."""

    def __init__(self) -> None:
        self.spent = 0.0
        self._plain: ModuleType | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if COMPILED in sys.modules or self.spent > PATIENCE:
            found: Callable[..., Any] = getattr(importlib.import_module(COMPILED), name)
            return found
        self._plain = self._plain or plain_twin(COMPILED, *BELOW)
        function = getattr(self._plain, name)

        def timed(*arguments: Any) -> Any:
            begin = time.perf_counter()
            with np.errstate(all="ignore"):  # as compiled code: what is not finite is looked at by the loops themselves
                result = function(*arguments)
            self.spent += time.perf_counter() - begin
            return result

        return timed


loops = Loops()
