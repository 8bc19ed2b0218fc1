"""Whether files that will be executed may have been written by somebody else.

Loading a library runs it, and so does unpickling. A file of the cache is used only if it, its folder and every folder above belong
to this user or the administrator, and nobody else may write there; a folder with the sticky bit, such as /tmp, may be written by
all, because there only owners rename and remove. Without user identities (Windows) the access control of the user's profile is
relied on.
"""

from __future__ import annotations

import os
import stat
import warnings
from functools import lru_cache
from pathlib import Path

PRIVATE = 0o700
"""Permissions of new folders."""
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class UntrustedCacheWarning(UserWarning):
    """A cache is not used because somebody other than its user could have put code there."""


def distrust(path: Path) -> str | None:
    """Why nothing in ``path``, a file or folder, may be executed, in words with the remedy; None where it may.

    Symbolic links are followed, so that what is judged is what would be read. Raises nothing: what cannot be read is not trusted.
    """
    if not hasattr(os, "getuid"):
        return None
    try:
        real = path.resolve(strict=True)
        for place in (real, *real.parents):
            reason = _weak(place, place.stat(), folder_above=place != real)
            if reason is not None:
                return reason
    except (OSError, RuntimeError) as error:  # gone, not to be read, or a loop of links
        return f"{path} cannot be examined: {error}"
    return None


def _weak(path: Path, status: os.stat_result, *, folder_above: bool) -> str | None:
    if status.st_uid not in (0, os.getuid()):
        return f"{path} belongs to another user ({_user(status.st_uid)})"
    writers = status.st_mode & _OTHERS_WRITE
    if writers == stat.S_IWGRP and _private_group(status.st_gid, status.st_uid):
        return None
    if writers and not (folder_above and status.st_mode & stat.S_ISVTX):
        return f"others may write to {path}; to trust it again: chmod go-w {path}, after inspecting it"
    return None


def trusted_folder(folder: Path) -> bool:
    """Whether files of an existing folder may be executed; a warning says once why not."""
    reason = distrust(folder)
    if reason is not None:
        _warn(str(folder), reason)
    return reason is None


@lru_cache(maxsize=64)
def _warn(folder: str, reason: str) -> None:
    warnings.warn(f"the kernel cache {folder} is not used, because code in it would be executed: {reason}", UntrustedCacheWarning,
                  stacklevel=2)


def make_private(folder: Path) -> None:
    """Create a folder and those above it that are missing, for this user only. Raises OSError."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(mode=PRIVATE, exist_ok=True)


def withhold(file: Path) -> None:
    """Take from others the right to write to a file that is about to be stored. Raises OSError."""
    file.chmod(stat.S_IMODE(file.stat().st_mode) & ~_OTHERS_WRITE)


def _private_group(group: int, user: int) -> bool:
    """Whether a group is the user's own, with no other member, as many systems make one for every user."""
    try:
        import grp
        import pwd

        owner, found = pwd.getpwuid(user), grp.getgrgid(group)
    except (ImportError, KeyError):
        return False
    return owner.pw_gid == group and found.gr_name == owner.pw_name and not set(found.gr_mem) - {owner.pw_name}


def _user(number: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return f"number {number}"
