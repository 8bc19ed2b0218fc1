"""Records how answers are found: of every problem each nonlinear program, each shooting search and what came of them.

    python tests/trace/record.py [--set gallery|first_files|hostile|gallery_defaults ...] [--only NAME ...] [--quick] [--out FOLDER]
        [--root CHECKOUT] [--resume] [--jobs N] [--times FILE]

gallery: problems/*.yaml; first_files: tests/first_files/*.yaml; hostile: the cases of tests/support/hostile.py; gallery_defaults:
those of the gallery as if they had no ``solve`` and no ``accept`` section; without --set all of them. --quick: only the problems
of ``quick.txt``. --root: the checkout whose code and problem files are traced; default: this one. Writes FOLDER/SET.txt (default:
results/trace) after every problem, with a paragraph for each, and machines.json; --resume goes on where an earlier
recording into the same folder ended, else the paragraphs of all problems asked for are written anew. --times: a table to which the
seconds of each are added.

Each problem is solved in a process of its own, from the file's own options, without a limit of time, on one thread, and from an
empty cache of kernels and without a C compiler: whether functions are compiled depends on what is in the cache, and rounding on
whether they are. After ``CAP_S`` seconds a solve is ended and its paragraph closes with "capped".
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from threading import Lock

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SETS = ("gallery", "hostile", "first_files", "gallery_defaults")
#: where the files of a set lie
FOLDERS = {"gallery": "problems", "first_files": "tests/first_files", "gallery_defaults": "problems"}
#: seconds after which a solve is ended
CAP_S = 600.0
#: not traced: their stages alone take that long without compiled code
LONG = ("anymal_trot", "anymal_trot_cones", "anymal_walk")
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
#: opens a paragraph
HEAD = "== "

Trace = tuple[str, ...]


def parse(text: str) -> dict[str, Trace]:
    """The lines of each problem, by its name."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith(HEAD):
            found[line.removeprefix(HEAD)] = lines = []
        elif line:
            lines.append(line)
    return {name: tuple(lines) for name, lines in found.items()}


def read(file: Path) -> dict[str, Trace]:
    return parse(file.read_text(encoding="utf-8")) if file.is_file() else {}


def write(file: Path, traces: Mapping[str, Trace], order: Sequence[str]) -> None:
    """In the order of the set; by way of another file, so that an interrupted recording leaves a whole one."""
    names = [name for name in order if name in traces]
    text = "\n".join("\n".join([HEAD + name, *traces[name], ""]) for name in names)
    part = file.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)


def machine() -> str:
    """What the last bits of sums, and so numbers of iterations, depend on: the processor and the libraries that do the sums."""
    info = Path("/proc/cpuinfo")
    told = dict(line.split("\t", 1) for line in info.read_text().split("\n\n", 1)[0].splitlines() if "\t" in line) \
        if info.is_file() else {}
    words = [told[key].strip("\t :") for key in ("vendor_id", "cpu family", "model") if key in told] or [platform.machine()]
    return " ".join([*words, *(f"{name} {metadata.version(name)}" for name in ("casadi", "numpy", "scipy"))])


def names_of(kind: str, root: Path) -> list[str]:
    """The problems of a set, in a checkout."""
    if kind == "hostile":
        code = "import hostile; print('\\n'.join(case.name for case in hostile.cases()))"
        own = os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{root / 'tests' / 'support'}"}
        told = subprocess.run([sys.executable, "-P", "-c", code], env=own, capture_output=True, text=True, check=True)
        return told.stdout.splitlines()
    return sorted(file.stem for file in (root / FOLDERS[kind]).glob("*.yaml") if file.stem not in LONG)


def quick(kind: str) -> list[str]:
    """The names of ``quick.txt``, whose paragraphs are sets."""
    return list(read(HERE / "quick.txt").get(kind, ()))


def traced(kind: str, name: str, root: Path, cap: float = CAP_S) -> tuple[Trace, str]:
    """The lines of a problem, and what its process complained about."""
    with tempfile.TemporaryDirectory(prefix="trace-") as folder:
        out, complaints = Path(folder) / "trace.txt", Path(folder) / "stderr.txt"
        own = os.environ | dict.fromkeys(ONE_THREAD, "1") | {
            "PYTHONPATH": str(root), "PYTHONHASHSEED": "0", "LIEOCP_CACHE_DIR": str(Path(folder) / "cache"), "CC": "no-compiler"}
        with complaints.open("w", encoding="utf-8") as stderr:
            command = [sys.executable, "-P", str(HERE / "solve_traced.py"), kind, name, str(out)]
            process = subprocess.Popen(command, cwd=root, env=own, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=stderr, start_new_session=True)
            try:
                code = process.wait(cap)
                ended = "" if code >= 0 else f"end killed by {signal.Signals(-code).name}"
            except subprocess.TimeoutExpired:
                ended = "end capped"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        lines = out.read_text(encoding="utf-8").splitlines() if out.is_file() else []
        if ended:
            lines.append(ended)
        elif not lines or not lines[-1].startswith("end "):
            lines.append("end lost")
        return tuple(lines), complaints.read_text(encoding="utf-8")


def record(kind: str, names: Sequence[str], root: Path, out: Path, *, resume: bool, jobs: int, times: Path | None) -> None:
    """The set's file in a folder, written after every problem."""
    out.mkdir(parents=True, exist_ok=True)
    machines = out / "machines.json"
    known = json.loads(machines.read_text(encoding="utf-8")) if machines.is_file() else {}
    machines.write_text(json.dumps({**known, kind: machine()}, indent=1) + "\n", encoding="utf-8")
    file, order = out / f"{kind}.txt", names_of(kind, root)
    if unknown := sorted(set(names) - set(order)):
        sys.exit(f"no such problem in {kind}: {', '.join(unknown)}")
    found = read(file)
    names = [name for name in names if not (resume and name in found)]
    lock = Lock()

    def one(name: str) -> None:
        began = time.perf_counter()
        lines, complaints = traced(kind, name, root)
        spent = time.perf_counter() - began
        with lock:
            found[name] = lines
            write(file, found, order)
            print(f"{spent:6.1f} s  {kind} {name}: {lines[-1]}", flush=True)
            if "raised" in lines[-1] or lines[-1].startswith(("end killed", "end lost")):
                print("\n".join(complaints.splitlines()[-3:]), flush=True)
            if times is not None:
                with times.open("a", encoding="utf-8") as text:
                    text.write(f'{kind},"{name}",{spent:.1f}\n')

    with ThreadPoolExecutor(jobs) as pool:
        try:
            list(pool.map(one, names))
        except BaseException:  # Ctrl-C: the solves that have begun end, no others begin
            pool.shutdown(cancel_futures=True)
            raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=SETS, nargs="*", default=SETS, dest="sets")
    parser.add_argument("--only", nargs="*", metavar="NAME")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "trace")
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--times", type=Path)
    given = parser.parse_args()
    root = given.root.resolve()
    for kind in given.sets:
        names = names_of(kind, root)
        if given.quick:
            names = quick(kind)
        if given.only is not None:
            names = [name for name in given.only if len(given.sets) == 1 or name in names]
        record(kind, names, root, given.out, resume=given.resume, jobs=given.jobs, times=given.times)


if __name__ == "__main__":
    main()
