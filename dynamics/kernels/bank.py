"""Many kernels for one loop: they share the pointers to arguments and results and the work arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dynamics.kernels.calls import call
from dynamics.kernels.kernel import Kernel, Workspace, workspace
from dynamics.kernels.linked import linked
from dynamics.kernels.record import Record


class Bank(Record):
    """Kernels by slot: address and handle of each (address 0: the slot is empty), pointers, work arrays. For one thread."""

    address: np.ndarray
    handle: np.ndarray
    arg: np.ndarray
    res: np.ndarray
    iw: np.ndarray
    w: np.ndarray


def make_bank(kernels: Mapping[int, Kernel], slots: int) -> tuple[Bank, list[Workspace]]:
    """A bank, and the workspaces whose handles it holds: they must outlive it."""
    spaces = {slot: workspace(kernel) for slot, kernel in kernels.items()}
    address, handle = np.zeros(slots, dtype=np.int64), np.zeros(slots, dtype=np.int64)
    for slot, space in spaces.items():
        address[slot], handle[slot] = space.address, space.handle
    arg, res, iw, w = (np.zeros(max((len(getattr(s, name)) for s in spaces.values()), default=1), dtype=kind) for name, kind in
                       (("arg", np.intp), ("res", np.intp), ("iw", np.int64), ("w", np.float64)))
    return Bank(address, handle, arg, res, iw, w), list(spaces.values())


@linked(forceinline=True)
def evaluate(bank: Bank, slot: int) -> int:
    """Run a kernel of the bank, whose pointers must have been set; 0 is success."""
    return call(bank.address[slot], bank.handle[slot], bank.arg, bank.res, bank.iw, bank.w)
