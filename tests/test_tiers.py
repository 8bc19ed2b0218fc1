"""The list of unit tests names files that exist, and what such tests may not do is refused."""

import subprocess
from fnmatch import fnmatch
from pathlib import Path

import casadi as ca
import numba
import numpy as np
import pytest
from unit_guard import nothing_compiled_or_solved

from dynamics.kernels import compile_kernel
from ocp.solvers.qp import QP, solve_qp

HERE = Path(__file__).resolve().parent
x = ca.SX.sym("x")
SQUARE = ca.Function("square", [x], [x**2])


def test_every_line_of_the_list_fits_a_file():
    files = [path.relative_to(HERE).as_posix() for path in HERE.rglob("test_*.py")]
    lines = [line for line in (HERE / "unit.txt").read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    assert [line for line in lines if not any(fnmatch(file, line.removeprefix("!")) for file in files)] == []


@pytest.mark.parametrize("use", [
    lambda: compile_kernel(SQUARE), lambda: compile_kernel(SQUARE, "quick"), lambda: numba.njit(lambda y: y + 1)(1),
    lambda: ca.nlpsol("s", "ipopt", {"x": x, "f": x**2}), lambda: subprocess.run(["true"]),
    lambda: solve_qp(QP(np.eye(1), np.ones(1), np.eye(1), np.zeros(1), np.ones(1))),
])
def test_what_unit_tests_may_not_do(use):
    with nothing_compiled_or_solved(), pytest.raises(pytest.fail.Exception, match="a unit test"):
        use()


def test_interpreted_kernels_are_no_work():
    with nothing_compiled_or_solved():
        assert float(compile_kernel(SQUARE, "interpreted")(3.0)) == 9.0
