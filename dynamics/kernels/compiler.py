"""Symbolic function -> C source -> shared library, with the system C compiler.

Finding the compiler (the environment variable CC, then cc, gcc, clang), preparing a CasADi function for export (dense,
column-major inputs and outputs) and running the compiler live here. Where libraries are kept is the business of `cache`.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import casadi as ca

from dynamics.kernels.size import operations
from dynamics.kernels.source import with_loops

DEFAULT_FLAGS = ("-O1",)
NATIVE = "-march=native"
NATIVE_FROM = 1000
"""Operations of a function from which it is compiled for this very processor. Measured: kernels of 10 000 operations and more,
which need many more registers than the lowest common x86-64 has, take 0.45 to 0.85 of the time, small ones the same. The numbers
are the same bits: nothing is contracted, reordered or vectorised."""
# gcc 12 at -O1: 4-11 s for 25k-43k statements, 5-9 s for 70k-77k (2-3 times faster code than -O0), but its register
# allocation is quadratic on functions with many live values (121 s for 80k); -O0 is linear, about 2.5 s per 75k statements.
MAX_OPTIMISED_STATEMENTS = 100_000
# No contraction into fused multiply-adds: compiled and interpreted kernels then round alike on every architecture.
_FIXED_FLAGS = ("-ffp-contract=off", "-fPIC", "-shared")
_CANDIDATES = ("cc", "gcc", "clang")


class KernelError(RuntimeError):
    """A function cannot be turned into a kernel, or a kernel was called or has failed in a way that its message explains."""


class CompilerTimeout(KernelError):
    """The C compiler was ended because its time was up."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler: `command` (path and fixed arguments) and `identity` (what it says about its version)."""

    command: tuple[str, ...]
    identity: str


def find_compiler() -> Path | None:
    """Path of the C compiler that would be used, or None.

    CC, if set and not empty, is the only candidate (it may carry arguments, "ccache gcc"); otherwise cc, gcc and clang on PATH.
    """
    command = _find_command()
    return Path(command[0]) if command else None


def searched() -> str:
    """Names that `find_compiler` tries, in words, for error messages."""
    named = os.environ.get("CC", "").strip()
    if named:
        return f"CC={named!r} (from the environment; unset it to search for {', '.join(_CANDIDATES)})"
    return f"{', '.join(_CANDIDATES)} on PATH={os.environ.get('PATH', '')!r} (CC is not set)"


def current_compiler() -> Compiler | None:
    """The compiler of `find_compiler` with its version, or None if there is none or it does not answer `--version`."""
    command = _find_command()
    if command is None:
        return None
    stat = os.stat(command[0])
    identity = _identity(command, stat.st_mtime_ns, stat.st_size)
    return None if identity is None else Compiler(command, identity)


def _find_command() -> tuple[str, ...] | None:
    named = os.environ.get("CC", "").strip()
    try:
        commands = [tuple(shlex.split(named))] if named else [(name,) for name in _CANDIDATES]
    except ValueError:  # an unclosed quotation mark in CC
        return None
    for command in commands:
        path = shutil.which(command[0])
        if path is not None:
            return (path, *command[1:])
    return None


@lru_cache(maxsize=8)
def _identity(command: tuple[str, ...], _mtime_ns: int, _size: int) -> str | None:
    # Keyed by modification time and size as well, so that an upgraded compiler is asked again.
    try:
        answer = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def automatic_flags(function: ca.Function) -> tuple[str, ...]:
    """Flags for a function by its size, where the caller gives none."""
    return (*DEFAULT_FLAGS, NATIVE) if operations(function) >= NATIVE_FROM else DEFAULT_FLAGS


@lru_cache(maxsize=1)
def cpu_identity() -> str:
    """Model and instruction sets of this processor; part of a cache key only when flags ask for native code."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = {"model name", "flags", "Features", "CPU part"}
    return "\n".join(sorted({line for line in lines if line.split("\t")[0].strip() in wanted}))


def densified(function: ca.Function) -> ca.Function:
    """`function` with dense inputs and outputs (structural zeros of an output become stored zeros).

    Raises KernelError if the function has free variables. Names of function, inputs and outputs are kept.
    """
    if function.is_null():
        raise KernelError("cannot make a kernel of a null casadi.Function")
    if function.has_free():
        raise KernelError(f"function {function.name()!r} has free variables {function.get_free()}: make them inputs")
    dense_in = all(function.sparsity_in(i).is_dense() for i in range(function.n_in()))
    dense_out = all(function.sparsity_out(i).is_dense() for i in range(function.n_out()))
    return function if dense_in and dense_out else _rebuilt(function, function.name())


def _rebuilt(function: ca.Function, name: str) -> ca.Function:
    """The same dense function under another name."""
    kind = ca.SX if function.is_a("SXFunction") else ca.MX
    inputs = [kind.sym(function.name_in(i), *function.size_in(i)) for i in range(function.n_in())]
    outputs = [ca.densify(kind(output)) for output in function.call(inputs)]
    return ca.Function(name, inputs, outputs, function.name_in(), function.name_out())


def generate_source(function: ca.Function, symbol: str) -> str:
    """C source that exports `function` (dense) as `symbol` with CasADi's calling convention (long long, double)."""
    try:
        generator = ca.CodeGenerator(f"{symbol}.c")
        generator.add(_rebuilt(function, symbol))
        return with_loops(str(generator.dump()))
    except RuntimeError as error:
        raise KernelError(f"CasADi cannot generate C code for function {function.name()!r}: {error}") from error


def effective_flags(source: str, flags: Sequence[str], limit: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Flags to compile `source` with, and notes: above `limit` statements every -O flag gives way to -O0."""
    statements = source.count(";\n")
    optimising = [flag for flag in flags if flag.startswith("-O") and flag != "-O0"]
    if statements <= limit or not optimising:
        return tuple(flags), ()
    kept = tuple(flag for flag in flags if flag not in optimising)
    note = f"compiled with -O0 instead of {' '.join(optimising)}: {statements} statements, optimised up to {limit}"
    return ("-O0", *kept), (note,)


def compile_source(
    source: str, name: str, flags: Sequence[str], compiler: Compiler, folder: Path, timeout: float | None = None,
) -> tuple[Path, float]:
    """Compile `source` in `folder`; returns the library and the seconds taken.

    Raises CompilerTimeout after `timeout` seconds, when the compiler is killed, and KernelError with the command and the
    compiler's last words if it fails.
    """
    # Fixed file names and a relative path: the same source gives the same bytes in every process.
    (folder / "kernel.c").write_text(source)
    command = [*compiler.command, *_FIXED_FLAGS, *flags, "-o", "kernel.so", "kernel.c", "-lm"]
    start = time.perf_counter()
    try:
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise CompilerTimeout(f"the C compiler had {timeout:.3g} s for function {name!r}, which did not suffice") from error
    except OSError as error:
        raise KernelError(f"cannot run the C compiler for function {name!r}: {shlex.join(command)}: {error}") from error
    seconds = time.perf_counter() - start
    if run.returncode != 0 or not (folder / "kernel.so").is_file():
        raise KernelError(
            f"the C compiler failed on function {name!r} (exit status {run.returncode}): {shlex.join(command)}\n"
            f"{run.stderr.strip()[-2000:]}"
        )
    return folder / "kernel.so", seconds
