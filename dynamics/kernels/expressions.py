"""Expressions in the cache: a CasADi Function built once per robot and version of this package, then loaded.

Building the expressions of a humanoid's second derivatives takes a second or more; reading them back a tenth of it. A file
``<key>-<digest>.casadi`` holds the serialised Function; the key stands for what is asked for, and for the text of every module
that could have a part in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import casadi as ca

from dynamics.kernels import cache, trust

_PACKAGE = Path(__file__).resolve().parents[1]


def remembered(
    parts: Sequence[str], build: Callable[[], ca.Function], cache_dir: str | os.PathLike[str] | None = None,
) -> ca.Function:
    """``build()``, or what it gave for the same ``parts`` before, in this process or another.

    parts: words that determine the Function together with the modules of ``dynamics`` and the version of CasADi, such as the
    fingerprint of a model. Damaged files count as absent; a cache that cannot be written is no error.
    """
    key = hashlib.sha256(json.dumps([*parts, _source(), ca.CasadiMeta.version()]).encode()).hexdigest()[:40]
    for directory in cache.lookup_directories(cache_dir):
        for file in sorted(directory.glob(f"{key}-*.casadi")):
            try:
                data = file.read_bytes()
                if trust.distrust(file) is None and hashlib.sha256(data).hexdigest()[:16] == file.stem[-16:]:
                    return ca.Function.deserialize(data.decode())
            except (OSError, UnicodeDecodeError, RuntimeError):  # unreadable, or not by this CasADi
                continue
    function = build()
    _store(cache.cache_directory(cache_dir), key, function.serialize().encode())
    return function


def _store(directory: Path, key: str, data: bytes) -> None:
    target = directory / f"{key}-{hashlib.sha256(data).hexdigest()[:16]}.casadi"
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".expressions-", delete=False) as file:
            file.write(data)
        os.replace(file.name, target)
    except OSError:  # full or read-only: the next process builds again
        return


@lru_cache(maxsize=1)
def _source() -> str:
    digest = hashlib.sha256()
    for file in sorted(_PACKAGE.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
