"""``ocp doctor``: what is installed, whether kernels compile, and whether a small problem solves both ways."""

import platform
import time
from importlib import metadata

import casadi as ca
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dynamics import kernels
from ocp.app.pipeline import PACKAGES
from ocp.app.prepare import PARTS, USUAL, missing, prepare, regulator
from ocp.app.screen import line
from ocp.methods import solve

OPTIONAL = {"robots": "example-robot-data", "mujoco": "mujoco", "cluster": "distributed", "viz": "viser", "peers": "pin"}


def print_diagnosis() -> bool:
    """Print the diagnosis; True when the self-test passed."""
    out = Console(highlight=False)
    out.print(f"python      {platform.python_version()} on {platform.system()} {platform.machine()}", markup=False)
    for name in PACKAGES:
        out.print(f"{name:<11} {_version(name) or 'MISSING'}", markup=False)
    for extra, name in OPTIONAL.items():
        found = _version(name)
        out.print(f"{name:<11} {found or f'not installed (extra: pip install lieocp[{extra}])'}", markup=False)
    compiler = kernels.find_compiler()
    out.print(f"compiler    {compiler or 'none found: kernels run in the CasADi interpreter, slower but equal'}", markup=False)
    cache = kernels.cache_statistics()
    line(out, f"cache       {cache.entries} kernels, {cache.bytes / 1e6:.1f} MB in {cache.directory}")
    absent = missing()
    for name in absent:
        out.print(f"loops       {name}: not compiled yet; the first use takes about {USUAL[name]} s", markup=False)
    out.print("loops       all compiled" if not absent else "            ocp doctor --prepare compiles them now", markup=False)
    begin = time.perf_counter()
    passed = _kernel(out)
    for name in ("collocation", "ilqr"):
        solution = solve(regulator(), name, {"intervals": 40})
        # the Riccati equation -P' = 1 - P^2 with P(1) = 1 has the solution P = 1, so the optimum is P x(0)^2 / 2
        expected = abs(solution.objective - 0.5) < 5e-3
        passed = passed and solution.ok and expected
        out.print(f"self-test   {name}: {'certified' if solution.ok and expected else 'FAILED'}, "
                  f"objective {solution.objective:.8g}", markup=False)
    out.print(f"self-test   {'passed' if passed else 'FAILED'} in {time.perf_counter() - begin:.2f} s", markup=False)
    return passed


def print_preparation() -> bool:
    """Compile every loop that is not compiled yet, with a progress bar; True when that worked."""
    out = Console(highlight=False)
    absent = missing()
    if not absent:
        out.print(f"all loops are compiled ({', '.join(PARTS)})", markup=False)
        return True
    begin, seconds = time.perf_counter(), dict[str, float]()
    with Progress(TextColumn("compiling {task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
                  TimeElapsedColumn(), console=out, transient=True) as progress:
        bar = progress.add_task(", ".join(absent), total=len(absent))

        def done(name: str, took: float) -> None:
            seconds[name] = took
            progress.update(bar, advance=1, description=", ".join(n for n in absent if n not in seconds))

        wrong = prepare(absent, done)
    for name, took in seconds.items():
        out.print(f"  {name}: {took:.1f} s" if name not in wrong else f"  {name}: FAILED: {wrong[name]}", markup=False)
    out.print(f"compiled {len(seconds) - len(wrong)} of {len(PARTS)} parts in {time.perf_counter() - begin:.1f} s; "
              f"{len(PARTS) - len(absent)} were there", markup=False)
    return not wrong


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
