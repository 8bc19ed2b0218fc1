"""A process that ends another at its limit of time, for a single call of compiled code is not left before it returns.

``ocp .. --time-limit S`` works in a child process. The child ends by itself at the points of ``ocp.interrupts``; where it is still
inside one when limit and grace are over, its parent kills it and puts the last answer so far, which the child has written
beside, in place of the run. Signals reach the child through the parent.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ocp.app.commands.common import CERTIFIED, NOT_SOLVED
from ocp.interrupts import GRACE_S

FLAG = "--time-limit"
#: seconds before the end of the grace at which the child is killed: what follows takes time, too
MARGIN_S = 0.2
#: seconds more for a command that holds results which it has not written yet
HOLDING_S = 4.0
#: what goes through to the child
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
#: where a supervised process tells what it has; None in others
_PIPE: list[int] = []


def limit_of(arguments: Sequence[str]) -> float | None:
    """The limit that a command line gives [s]; None without one that is a positive number."""
    for i, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name == FLAG:
            given = value if equals else next(iter(arguments[i + 1:]), "")
            with contextlib.suppress(ValueError):
                return seconds if (seconds := float(given)) > 0 else None
            return None
    return None


def is_supervised() -> bool:
    """Whether this process may be killed when its time is up."""
    return bool(_PIPE)


def report(**record: Any) -> None:
    """Tell the parent, where there is one. so_far: (folder with the last answer so far, where it belongs); what: it is,
    in words; code: the exit code of
    an answer that is in its place; holding: whether there are results that are not written yet."""
    if _PIPE:
        os.write(_PIPE[0], (json.dumps(record) + "\n").encode())


def supervise(arguments: Sequence[str], begin: float) -> None:
    """Go on in a child process where the arguments give a limit; the parent never returns. begin: of the command, by
    ``time.perf_counter``."""
    limit = limit_of(arguments)
    if limit is None or not hasattr(os, "fork"):
        return
    reading, writing = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until there is what passes them on
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.setpgid(0, 0)
        os.close(reading)
        _PIPE.append(writing)
        return
    os.close(writing)
    with contextlib.suppress(OSError):  # the child may have done it already, or have ended
        os.setpgid(child, child)
    for number in SIGNALS:
        signal.signal(number, lambda given, frame: _passed_on(child, given))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os._exit(_watched(child, reading, begin + limit + GRACE_S - MARGIN_S))


def _passed_on(child: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)


def _watched(child: int, reading: int, end: float) -> int:
    """The exit code of the child, or of what it leaves where it has to be killed."""
    text = b""
    while (left := end + (HOLDING_S if b'"holding"' in text else 0.0) - time.perf_counter()) > 0:
        if select.select([reading], [], [], left)[0]:
            part = os.read(reading, 65536)
            if not part:
                return _code(os.waitpid(child, 0)[1])
            text += part
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    while part := os.read(reading, 65536):
        text += part
    os.waitpid(child, 0)
    record: dict[str, Any] = {}
    for line in text.splitlines():
        record |= json.loads(line)
    return _ended(record)


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _ended(record: dict[str, Any]) -> int:
    """Report a process that was killed, and put its last answer in the place of the run."""
    if "code" in record:
        print("the time limit was reached: pictures and report are left out", file=sys.stderr)
        return int(record["code"])
    told = "the time limit was reached inside one long operation, which was ended"
    if "so_far" not in record:
        print(f"{told}; nothing more is written", file=sys.stderr)
        return NOT_SOLVED
    folder, target = map(Path, record["so_far"])
    if not folder.is_dir():  # the final answer is in its place already
        print(f"the time limit was reached: the run is in {target}, without pictures and report", file=sys.stderr)
        return CERTIFIED if json.loads((target / "summary.json").read_text(encoding="utf-8")).get("ok") else NOT_SOLVED
    _put(folder, target)
    print(f"{told}; {record.get('what', 'the best answer so far, not certified,')} is in {target}", file=sys.stderr)
    return NOT_SOLVED


def _put(folder: Path, target: Path) -> None:
    """The folder under its name, with the checkpoint of that which it replaces."""
    if not target.exists():
        os.rename(folder, target)
        return
    checkpoint, aside = target / "checkpoint.npz", target.with_name(f".{target.name}.replaced-{uuid.uuid4().hex[:8]}")
    if checkpoint.is_file() and (target / "unfinished.json").is_file():
        shutil.copy(checkpoint, folder)
    os.rename(target, aside)
    os.rename(folder, target)
    shutil.rmtree(aside, ignore_errors=True)
