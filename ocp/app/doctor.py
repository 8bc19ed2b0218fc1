"""``ocp doctor``: what is installed, whether kernels compile, and whether a small problem solves both ways."""

from __future__ import annotations

import platform
import time
from importlib import metadata

import casadi as ca
import numpy as np
from rich.console import Console

from dynamics import kernels
from ocp.app.pipeline import PACKAGES
from ocp.methods import solve
from ocp.problem import At, Boundary, Cost, Duration, Guess, Phase, Problem, Solution, System
from ocp.spaces import euclidean

OPTIONAL = {"robots": "example-robot-data", "mujoco": "mujoco", "cluster": "distributed", "viz": "viser", "peers": "pin"}


def print_diagnosis(console: Console | None = None) -> bool:
    """Print the diagnosis; True when the self-test passed."""
    out = console or Console(highlight=False)
    out.print(f"python      {platform.python_version()} on {platform.system()} {platform.machine()}", markup=False)
    for name in PACKAGES:
        out.print(f"{name:<11} {_version(name) or 'MISSING'}", markup=False)
    for extra, name in OPTIONAL.items():
        found = _version(name)
        out.print(f"{name:<11} {found or f'not installed (extra: pip install lieocp[{extra}])'}", markup=False)
    compiler = kernels.find_compiler()
    out.print(f"compiler    {compiler or 'none found: kernels run in the CasADi interpreter, slower but equal'}", markup=False)
    cache = kernels.cache_statistics()
    out.print(f"cache       {cache.entries} kernels, {cache.bytes / 1e6:.1f} MB in {cache.directory}", markup=False, soft_wrap=True)
    begin = time.perf_counter()
    passed = _kernel(out)
    for name in ("collocation", "ilqr"):
        solution = _self_test(name)
        expected = abs(solution.objective - _optimum()) < 1e-2 * _optimum()
        passed = passed and solution.ok and expected
        out.print(f"self-test   {name}: {'certified' if solution.ok and expected else 'FAILED'}, "
                  f"objective {solution.objective:.8g}", markup=False)
    out.print(f"self-test   {'passed' if passed else 'FAILED'} in {time.perf_counter() - begin:.2f} s", markup=False)
    return passed


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _kernel(out: Console) -> bool:
    x = ca.SX.sym("x", 3)
    kernel = kernels.compile_kernel(ca.Function("self_test", [x], [ca.sin(x) * ca.sumsqr(x)]))
    value = np.array([0.1, 0.2, 0.3])
    good = bool(np.allclose(kernel(value), np.sin(value) * 0.14, rtol=1e-14))
    out.print(f"kernel      {kernel.mode}: {'right' if good else 'WRONG'}", markup=False)
    return good


def _self_test(name: str) -> Solution:
    """A regulator with a known optimum: min 1/2 int (x^2 + u^2) + 1/2 x(1)^2, x' = u, x(0) = 1."""
    t, x, u, p = ca.SX.sym("t"), ca.SX.sym("x"), ca.SX.sym("u"), ca.SX.sym("p", 0)
    arguments = [t, x, u, p]
    system = System("regulator", euclidean(("x",)), ("u",), ca.Function("rate", arguments, [u]))
    phase = Phase(
        "phase", system, Duration(1.0, 1.0, 1.0), Guess(np.array([0.0, 1.0]), np.ones((2, 1)), np.zeros((2, 1))),
        start=Boundary((1.0,), (True,)),
        costs=(Cost("running", At.PATH, ca.Function("l", arguments, [(x**2 + u**2) / 2])),
               Cost("final", At.FINAL, ca.Function("m", arguments, [x**2 / 2]))))
    return solve(Problem("self-test", (phase,)), name, {"intervals": 40})


def _optimum() -> float:
    # the Riccati equation -P' = 1 - P^2 with P(1) = 1 has the solution P = 1, so the optimum is P x(0)^2 / 2
    return 0.5
