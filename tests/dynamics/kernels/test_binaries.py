"""Machine code of changed sources is never used again, also when the change is in a helper of another file."""

import subprocess
import sys

import pytest

HELPER = "from numba import njit\n\n\n@njit(cache=True)\ndef gain(x):\n    return {factor} * x\n"
CALLER = ("from numba import njit\n\nfrom {package}.helper import gain\n\n\n"
          "@njit(cache=True)\ndef twice(x):\n    return gain(gain(x))\n")
INIT = ("from pathlib import Path\n\nfrom dynamics.kernels.binaries import discard_stale\n\n"
        "discard_stale(str(Path(__file__).parent))\n")


def run(folder, package):
    code = f"from {package}.caller import twice; print(twice(1.0), sum(twice.stats.cache_hits.values()))"
    out = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {code}"], capture_output=True,
                         text=True, check=True)
    value, hits = out.stdout.split()
    return float(value), int(hits)


@pytest.mark.parametrize("guarded", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_changed_helper_reaches_its_callers(tmp_path, guarded):
    package = tmp_path / f"loops_{guarded}".lower()
    package.mkdir()
    (package / "__init__.py").write_text(INIT if guarded else "")
    (package / "helper.py").write_text(HELPER.format(factor=3.0))
    (package / "caller.py").write_text(CALLER.format(package=package.name))
    assert run(tmp_path, package.name) == (9.0, 0)
    assert run(tmp_path, package.name) == (9.0, 1)  # from the disk
    (package / "helper.py").write_text(HELPER.format(factor=5.0))
    value, hits = run(tmp_path, package.name)
    assert (value, hits) == ((25.0, 0) if guarded else (9.0, 1))  # Numba alone uses what it has: that is why


def test_a_comment_elsewhere_costs_nothing(tmp_path):
    from dynamics.kernels.binaries import STAMP, discard_stale

    (tmp_path / "a.py").write_text("from numba import njit\n")
    cache = tmp_path / "__pycache__"
    cache.mkdir()
    (cache / "a.f-1.nbi").write_text("")
    (cache / "a.cpython-311.pyc").write_text("")
    assert discard_stale(str(tmp_path)) == 1
    (cache / "a.f-1.nbi").write_text("")
    (tmp_path / "b.py").write_text("# nothing compiled here\n")
    assert discard_stale(str(tmp_path)) == 0
    (tmp_path / "a.py").write_text("from numba import njit  # changed\n")
    assert discard_stale(str(tmp_path)) == 1
    assert sorted(p.name for p in cache.iterdir()) == ["a.cpython-311.pyc", STAMP]
    assert discard_stale(str(tmp_path / "nowhere" / "x")) == 0
