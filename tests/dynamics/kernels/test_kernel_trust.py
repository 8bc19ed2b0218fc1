"""A cache that others own or may write to is never executed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

from dynamics import kernels
from dynamics.kernels import cache as kernel_cache
from dynamics.kernels import compile_kernel, trust
from dynamics.kernels.expressions import remembered

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="no user identities here")
compiler_needed = pytest.mark.skipif(kernels.find_compiler() is None, reason="no C compiler")
root_needed = pytest.mark.skipif(hasattr(os, "getuid") and os.getuid() != 0, reason="only root can give files away")
NOBODY = 65534


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder; the temporary folder that stands in for it lies beside."""
    (tmp_path / "temporary").mkdir(mode=0o700)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    trust._warn.cache_clear()
    return tmp_path / "cache"


def small() -> ca.Function:
    x = ca.SX.sym("x", 3)
    return ca.Function("small", [x], [ca.sin(x)])


def plant(library: Path, witness: Path) -> None:
    """Replace a library by one whose constructor leaves a witness; its digest is made right in name and manifest."""
    source = library.parent / "planted.c"
    source.write_text(f'#include <stdio.h>\n__attribute__((constructor)) void f(void) {{ fclose(fopen("{witness}", "w")); }}\n')
    built = library.parent / "planted.so"
    subprocess.run([str(kernels.find_compiler()), "-shared", "-fPIC", str(source), "-o", str(built)], check=True)
    source.unlink()
    digest, manifest = hashlib.sha256(built.read_bytes()).hexdigest(), next(library.parent.glob("*.json"))
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"sha256": digest}))
    built.rename(library.with_name(f"{library.name[:41]}{digest[:16]}.so"))


@compiler_needed
def test_new_folders_are_private_and_files_nobody_elses(place: Path) -> None:
    mask = os.umask(0)
    try:
        kernel = compile_kernel(small(), "compiled", cache_dir=place / "deep" / "down")
    finally:
        os.umask(mask)
    assert kernel.library is not None
    assert [p.stat().st_mode & 0o777 for p in (place, place / "deep", place / "deep" / "down")] == [0o700] * 3
    assert all(file.stat().st_mode & 0o022 == 0 for file in kernel.library.parent.iterdir())
    assert compile_kernel(small(), "compiled", cache_dir=place / "deep" / "down").cache_hit


@compiler_needed
@pytest.mark.parametrize("weak", ["folder", "above", "owner"])
def test_a_planted_library_does_not_run(place: Path, tmp_path: Path, weak: str) -> None:
    if weak == "owner" and os.getuid() != 0:
        pytest.skip("only root can give files away")
    inner = place / "inner"
    kernel = compile_kernel(small(), "compiled", cache_dir=inner)
    assert kernel.library is not None
    plant(kernel.library, tmp_path / "witness")
    if weak == "owner":
        os.chown(inner, NOBODY, NOBODY)
    else:
        (inner if weak == "folder" else place).chmod(0o777)
    words = "belongs to another user" if weak == "owner" else "others may write to"
    with pytest.warns(trust.UntrustedCacheWarning, match=f"the kernel cache .* is not used.*{words}"):
        again = compile_kernel(small(), "compiled", cache_dir=inner)
    assert not (tmp_path / "witness").exists()
    assert again.library is not None
    assert again.library.is_relative_to(tmp_path / "temporary")
    np.testing.assert_array_equal(again(np.ones(3)), np.sin(np.ones(3)))
    compile_kernel(small(), "compiled", cache_dir=inner)  # warned once


@compiler_needed
@pytest.mark.parametrize("weak", ["mode", "owner"])
def test_a_library_that_others_may_write_counts_as_absent(place: Path, weak: str) -> None:
    if weak == "owner" and os.getuid() != 0:
        pytest.skip("only root can give files away")
    kernel = compile_kernel(small(), "compiled", cache_dir=place)
    assert kernel.library is not None
    assert compile_kernel(small(), "compiled", cache_dir=place).cache_hit
    if weak == "mode":
        kernel.library.chmod(0o666)
    else:
        os.chown(kernel.library, NOBODY, NOBODY)
    assert not compile_kernel(small(), "compiled", cache_dir=place).cache_hit
    assert compile_kernel(small(), "compiled", cache_dir=place).cache_hit, "the build that followed is trusted"


def test_machine_code_and_expressions_of_others_count_as_absent(place: Path) -> None:
    folder = kernels.cache_directory(place)
    kernel_cache.store_object(folder, "0" * 40, b"code")
    assert kernel_cache.find_object([folder], "0" * 40) == b"code"
    next(folder.glob("*.o")).chmod(0o622)
    assert kernel_cache.find_object([folder], "0" * 40) is None
    built = []

    def build() -> ca.Function:
        built.append(1)
        return small()

    remembered(["a"], build, place)
    remembered(["a"], build, place)
    assert len(built) == 1
    next(folder.glob("*.casadi")).chmod(0o622)
    remembered(["a"], build, place)
    assert len(built) == 2


def test_what_is_trusted(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert trust.distrust(file) is None
    assert "cannot be examined" in str(trust.distrust(tmp_path / "absent"))
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "mine").mkdir()
    shared.chmod(0o1777)  # as /tmp: others cannot replace what is mine
    assert trust.distrust(shared / "mine") is None
    assert "others may write" in str(trust.distrust(shared))
    (tmp_path / "link").symlink_to(shared)
    assert "others may write" in str(trust.distrust(tmp_path / "link"))


@root_needed
def test_a_group_of_ones_own_may_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)  # root's group is root, with no other member
    assert trust.distrust(tmp_path) is None
    os.chown(tmp_path, 0, NOBODY)
    assert "others may write" in str(trust.distrust(tmp_path))


@root_needed
def test_a_folder_of_the_administrator_is_trusted_by_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: NOBODY)
    assert trust.distrust(tmp_path) is None
    os.chown(tmp_path, NOBODY - 1, 0)
    assert f"belongs to another user (number {NOBODY - 1})" in str(trust.distrust(tmp_path))
