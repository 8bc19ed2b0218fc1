"""Numba's binaries on disk, kept in step with all the sources that went into them.

Numba keeps the machine code of a function as long as the file that defines it is unchanged; it does not look at the files of the
functions that were compiled into it. A changed helper would leave old machine code in use. So every package of compiled loops
compares a digest of its sources, and of those it builds on, with the one that its binaries were made from.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

STAMP = "numba-sources.sha256"


def discard_stale(package: str, *below: str) -> int:
    """Remove the binaries beside the modules of a package if any of its Numba sources, or of those of the packages ``below``
    that it calls, has changed since they were made. Returns how many files were removed.

    package, below: folders. To be called before any of the package's functions, so from its ``__init__``; costs a millisecond.
    Where the folder cannot be written Numba does not write there either, and nothing is done.
    """
    folder = Path(package) / "__pycache__"
    digest = _digest([Path(package), *(Path(other) for other in below)])
    stamp = folder / STAMP
    try:
        if stamp.is_file() and stamp.read_text(encoding="ascii") == digest:
            return 0
        old = list(folder.glob("*.nb[ic]"))
        for file in old:
            file.unlink(missing_ok=True)
        folder.mkdir(exist_ok=True)
        stamp.write_text(digest, encoding="ascii")
    except OSError:
        return 0
    return len(old)


def _digest(folders: list[Path]) -> str:
    total = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.glob("*.py")):
            source = file.read_bytes()
            if b"njit" in source or b"linked" in source:
                total.update(file.name.encode() + b"\0" + source)
    return total.hexdigest()
