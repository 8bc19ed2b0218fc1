"""Kernels that are tuned while they run: another process makes better code, and calls go to it as soon as it is there.

Tuning takes ten times as long as making code that runs (see `dynamics.kernels.llvm`), too long for a solve of a few milliseconds
and well spent on one of minutes. Numbers are the same bit by bit, so it does not matter when code changes.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import IO, cast

from dynamics.kernels import llvm
from dynamics.kernels.kernel import Kernel

#: Seconds of use after which kernels are tuned.
PATIENCE = 1.0
_COMMAND = "from dynamics.kernels.tuning import serve; serve()"
_running: set[subprocess.Popen[str]] = set()


@contextmanager
def tuned_while(kernels: Iterable[Kernel], patience: float = PATIENCE) -> Iterator[None]:
    """Tune kernels of `compile_many` with mode "tunable" if the block takes longer than ``patience`` seconds. What is not ready
    when it ends is given up; what is ready lies in the cache for those who come later."""
    codes = dict.fromkeys(kernel.code for kernel in kernels if kernel.code is not None)
    waiting = [(code, code.tuning.serialised) for code in codes if code.tuning is not None]
    over = threading.Event()
    if waiting and sys.executable:
        threading.Thread(target=_wait, args=(waiting, over, patience), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _wait(waiting: list[tuple[llvm.Code, str]], over: threading.Event, patience: float) -> None:
    if over.wait(patience):
        return
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", _COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, env=environment) as worker:
        _running.add(worker)
        threading.Thread(target=_kill, args=(worker, over), daemon=True).start()
        to, back = cast(IO[str], worker.stdin), cast(IO[str], worker.stdout)
        try:
            to.write(json.dumps([serialised for _, serialised in waiting]))
            to.close()
            for (code, _), _ in zip(waiting, takewhile(lambda line: not over.is_set(), back), strict=False):
                llvm.replace(code)
        except OSError:  # it ended before it had read all
            pass
        _running.discard(worker)


def _kill(worker: subprocess.Popen[str], over: threading.Event) -> None:
    over.wait()
    worker.kill()


def serve() -> None:
    """The other process: tuned code of functions, each into the cache and told by a line."""
    import casadi as ca

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(10)
    for serialised in json.load(sys.stdin):
        llvm.machine_code([ca.Function.deserialize(serialised)], kind="tuned")
        sys.stdout.write("done\n")
        sys.stdout.flush()


@atexit.register
def _end() -> None:
    for worker in list(_running):
        worker.kill()
