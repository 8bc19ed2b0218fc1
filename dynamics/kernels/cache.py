"""Content-addressed user cache of compiled kernels.

An entry is a manifest `<key>-<compiler>.json` and the library it names, `<key>-<digest>.so`. The key is a hash of everything that
decides what the library computes (function, flags, CasADi version, platform, processor for native code); the compiler is hashed
apart, so that a machine without a compiler can still use what another one built. A library is loaded only if its SHA-256 is the
one in a manifest that belongs to the key, and only where nobody else could have put it (`trust`). Writers use unique temporary
names and atomic renames, so that processes need no locks.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import casadi as ca

from dynamics.kernels import trust
from dynamics.kernels.compiler import Compiler, cpu_identity

SCHEMA = 1
_ENTRY_NAME = re.compile(r"[0-9a-f]{40}-[0-9a-f]{16}\.(json|so|casadi|o)")
_BUILD_PREFIX = ".build-"
_STALE_BUILD_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class Entry:
    """A verified cache entry. `notes` and `compile_seconds` are those of the build."""

    key: str
    library: Path
    flags: tuple[str, ...]
    compiler: str
    compile_seconds: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class CacheStatistics:
    """`entries` manifests and `bytes` of libraries, manifests and expressions in `directory`."""

    directory: Path
    entries: int
    bytes: int


def cache_directory(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Directory where new entries go; created if needed.

    `cache_dir` if given, else $LIEOCP_CACHE_DIR, else $XDG_CACHE_HOME/lieocp, else ~/.cache/lieocp. If that cannot be written,
    or others may write to it (which a warning says), a private directory under the system's temporary one.
    """
    wanted = _wanted(cache_dir)
    if wanted is not None and _writable(wanted) and trust.trusted_folder(wanted):
        return wanted
    return _private_temporary(tempfile.gettempdir())


def lookup_directories(cache_dir: str | os.PathLike[str] | None = None) -> tuple[Path, ...]:
    """Directories whose entries are used: the wanted one, even if read-only, and the one that is written; both trusted."""
    wanted, written = _wanted(cache_dir), cache_directory(cache_dir)
    if wanted is None or wanted == written or not wanted.is_dir() or not trust.trusted_folder(wanted):
        return (written,)
    return wanted, written


def cache_statistics(cache_dir: str | os.PathLike[str] | None = None) -> CacheStatistics:
    """Size of the cache in `cache_directory(cache_dir)`."""
    directory = cache_directory(cache_dir)
    files = _entry_files(directory)
    return CacheStatistics(directory, sum(f.suffix == ".json" for f in files), sum(f.stat().st_size for f in files))


def clear_cache(cache_dir: str | os.PathLike[str] | None = None) -> int:
    """Remove all entries of `cache_directory(cache_dir)` and abandoned build folders; returns the number of entries removed.

    Only files that bear an entry's name are touched. Kernels already loaded keep working.
    """
    directory = cache_directory(cache_dir)
    files = _entry_files(directory)
    for file in files:
        file.unlink(missing_ok=True)
    for folder in directory.glob(f"{_BUILD_PREFIX}*"):
        # A younger folder may belong to a build that is under way in another process.
        if time.time() - folder.stat().st_mtime > _STALE_BUILD_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
    return sum(f.suffix == ".json" for f in files)


def entry_key(function: ca.Function, flags: Sequence[str], limit: int) -> str:
    """40 hexadecimal digits. CasADi's serialisation is the same in every process, so it stands for the function."""
    native = any(flag.startswith("-m") and flag.endswith("=native") for flag in flags)
    parts = [
        SCHEMA,
        _written(function),
        list(flags),
        limit,
        ca.CasadiMeta.version(),
        sys.platform,
        platform.machine(),
        ctypes.sizeof(ctypes.c_void_p),
        cpu_identity() if native else "",
    ]
    return _digest(json.dumps(parts).encode())[:40]


@lru_cache(maxsize=64)
def _written(function: ca.Function) -> str:
    """Digest of a function; the same object is written out once."""
    return hashlib.sha256(function.serialize().encode()).hexdigest()


def entry_symbol(key: str) -> str:
    """Name of the exported C function: unique per key, so that no other library can be mistaken for this one."""
    return f"lieocp_{key}"


def find_entry(directories: Sequence[Path], key: str, compiler: Compiler | None) -> Entry | None:
    """The verified entry for `key` built by `compiler` (None: by any compiler), or None.

    A damaged or foreign entry counts as absent; the build that follows replaces it.
    """
    pattern = f"{key}-{'*' if compiler is None else _compiler_tag(compiler)}.json"
    for directory in directories:
        for manifest in sorted(directory.glob(pattern)):
            entry = _verified(manifest, key)
            if entry is not None:
                return entry
    return None


def _verified(manifest: Path, key: str) -> Entry | None:
    try:
        record: Any = json.loads(manifest.read_bytes())
        if record["schema"] != SCHEMA or record["key"] != key:
            return None
        library = manifest.parent / _library_name(key, record["sha256"])
        if trust.distrust(library) is not None:
            return None
        if _digest(library.read_bytes()) != record["sha256"]:
            return None
        seconds, flags, notes = float(record["compile_seconds"]), tuple(record["flags"]), tuple(record["notes"])
        return Entry(key, library, flags, str(record["compiler"]), seconds, notes)
    except (OSError, ValueError, KeyError, TypeError):  # unreadable, not JSON, or not one of our records
        return None


def build_folder(directory: Path) -> tempfile.TemporaryDirectory[str]:
    """A fresh folder inside the cache, on the same file system as the entries, which renames need."""
    return tempfile.TemporaryDirectory(prefix=_BUILD_PREFIX, dir=directory)


def store_entry(
    built: Path,
    directory: Path,
    key: str,
    compiler: Compiler,
    flags: Sequence[str],
    compile_seconds: float,
    notes: Sequence[str],
) -> Entry:
    """Move the library `built` (in a `build_folder`) and its manifest into the cache; readers see all or nothing."""
    sha256 = _digest(built.read_bytes())
    library = directory / _library_name(key, sha256)
    entry = Entry(key, library, tuple(flags), compiler.identity, compile_seconds, tuple(notes))
    record = asdict(entry) | {"schema": SCHEMA, "sha256": sha256, "casadi": ca.CasadiMeta.version(), "library": library.name}
    manifest = built.parent / "manifest.json"
    manifest.write_text(json.dumps(record, indent=1))
    # Library first: a manifest never names a library that is not there yet.
    for source, target in ((built, library), (manifest, directory / f"{key}-{_compiler_tag(compiler)}.json")):
        trust.withhold(source)
        _sync(source)
        os.replace(source, target)
    return entry


def find_object(directories: Sequence[Path], key: str) -> bytes | None:
    """The machine code stored for ``key``, or None; damaged files count as absent."""
    for directory in directories:
        for file in sorted(directory.glob(f"{key}-*.o")):
            try:
                data = file.read_bytes()
            except OSError:
                continue
            if trust.distrust(file) is None and _digest(data)[:16] == file.stem[-16:]:
                return data
    return None


def store_object(directory: Path, key: str, data: bytes) -> None:
    """Keep the machine code of ``key``; a cache that cannot be written is no error, the next process makes it again."""
    target = directory / f"{key}-{_digest(data)[:16]}.o"
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".object-", delete=False) as file:
            file.write(data)
        os.replace(file.name, target)
    except OSError:
        return


def _sync(path: Path) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _library_name(key: str, sha256: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ValueError(f"not a SHA-256: {sha256!r}")
    return f"{key}-{sha256[:16]}.so"


def _compiler_tag(compiler: Compiler) -> str:
    return _digest(json.dumps([compiler.command, compiler.identity]).encode())[:16]


def _entry_files(directory: Path) -> list[Path]:
    return [file for file in directory.iterdir() if _ENTRY_NAME.fullmatch(file.name)]


def _wanted(cache_dir: str | os.PathLike[str] | None) -> Path | None:
    if cache_dir is not None:
        return Path(cache_dir).absolute()
    own, xdg = os.environ.get("LIEOCP_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    if own:
        return Path(own).absolute()
    if xdg:
        return Path(xdg).absolute() / "lieocp"
    try:
        return Path.home() / ".cache" / "lieocp"
    except RuntimeError:  # an account without a home
        return None


def _writable(directory: Path) -> bool:
    try:
        trust.make_private(directory)
    except OSError:
        return False
    return os.access(directory, os.W_OK | os.X_OK)


@lru_cache(maxsize=4)
def _private_temporary(parent: str) -> Path:
    shared = Path(parent) / f"lieocp-cache-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    usable = not shared.is_symlink() and _writable(shared) and trust.distrust(shared) is None
    return shared if usable else Path(tempfile.mkdtemp(prefix="lieocp-cache-", dir=parent))
