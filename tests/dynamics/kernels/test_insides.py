"""Numba's insides: used in one file, as the installed version has them, and done without where they differ."""

import re
import subprocess
import sys

import numba
import pytest
from repository import ROOT

from dynamics.kernels import insides

PLAIN = """
import numba, numpy as np
numba.__version__ = "9.9.9"
from dynamics.kernels import insides
from dynamics.kernels.linked import linked
from dynamics.kernels.record import Record
assert not insides.LINKS

class Pair(Record):
    a: np.ndarray
    gain: float

@linked
def inner(pair, i):
    return pair.gain * pair.a[i]

@linked(wraparound=False, error_model="numpy")
def total(pair, out):
    s = 0.0
    for i in range(len(out)):
        out[i] = inner(pair, i) + inner(pair, 0)
        s += out[i]
    return s

a, out = np.arange(1.0, 5.0), np.zeros(4)
print(total(Pair(a, 2.0), out) == (2 * a + 2).sum(), np.array_equal(out, 2 * a + 2), isinstance(total.entry, type(total.inner)))
"""


def test_the_installed_version_is_linked():
    assert insides.changed(numba.__version__) == ""
    assert insides.LINKS


@pytest.mark.parametrize("version", ["0.67.1", "0.69.0", "1.0"])
def test_other_versions_are_not(version):
    assert version in insides.changed(version)


def test_a_changed_internal_name_is_reported(monkeypatch):
    monkeypatch.setattr(insides.Compiler, "compile_extra", lambda self, func, more: None)
    assert "compile_extra" in insides.changed(numba.__version__)


def test_functions_are_compiled_without_linking(tmp_path):
    (tmp_path / "plain.py").write_text(PLAIN)
    found = subprocess.run([sys.executable, "-W", "error", str(tmp_path / "plain.py")], capture_output=True, text=True, check=False,
                           env={"PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path), "PATH": ""})
    assert found.stdout.split() == ["True"] * 3, found.stderr


def test_nothing_else_reaches_inside():
    """``numba``, ``numba.types`` and ``numba.extending`` are its face."""
    for path in (*(ROOT / "dynamics").rglob("*.py"), *(ROOT / "ocp").rglob("*.py")):
        if path.name == "insides.py":
            continue
        assert not re.search(r"^\s*(from|import) numba\.(core|np)", path.read_text(encoding="utf-8"), re.MULTILINE), path
