"""Pinocchio's C++ algorithms on a Model of ours, among them second derivatives of inverse dynamics, which Python does not see.

Header-only, compiled once with native instructions against the headers of the wheels

    pip install pin cmeel-eigen

and kept beside the kernels in the user's cache. The model goes over as arrays, so that nothing of Pinocchio's binaries is loaded.
Every algorithm repeats itself inside C++: timings hold no entry from Python.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import metadata
from pathlib import Path

import numpy as np

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

from dynamics.kernels.cache import cache_directory
from dynamics.kernels.compiler import cpu_identity
from dynamics.model import Model

SOURCE = Path(__file__).parent / "pinocchio_cpp" / "oracle.cpp"
# The definitions are those that Pinocchio's own build uses; NDEBUG, because Eigen's checks would be measured otherwise. Hidden
# symbols, so that Pinocchio's Python module may be loaded in the same process, and so that calls inside need no table.
FLAGS = ("-std=c++17", "-O3", "-march=native", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden",
         "-fno-semantic-interposition", "-w", "-DBOOST_MPL_LIMIT_LIST_SIZE=30", "-DBOOST_MPL_LIMIT_VECTOR_SIZE=30",
         "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS", "-DBOOST_FUSION_INVOKE_MAX_ARITY=12")
KINDS = {"fixed": 0, "revolute": 1, "continuous": 2, "prismatic": 3, "spherical": 4, "planar": 5, "free_flyer": 7}
QUICK = ("-O1", "-DORACLE_QUICK")  # instead of -O3 and native code: for comparing numbers
SIZES = {"rnea": 0, "aba": 0, "crba": 1, "rnea_derivatives": 2, "aba_derivatives": 2,
         "second_order": 3, "second_order_unzeroed": 3}
SLOW = ("aba", "crba", "aba_derivatives")  # what a quick library is without


class Unavailable(RuntimeError):
    """There is no compiler or a header is missing; the message says which and how to get it."""


def headers() -> list[Path]:
    """Include folders of Pinocchio, Boost and Eigen in this environment. Raises Unavailable."""
    for wheel in ("libpinocchio", "pin"):
        try:
            include = Path(str(metadata.distribution(wheel).locate_file("cmeel.prefix/include")))
        except metadata.PackageNotFoundError:
            continue
        if (include / "pinocchio" / "config.hpp").is_file():
            break
    else:
        raise Unavailable("no headers of Pinocchio 4 in this environment: pip install pin")
    needed = {"pinocchio/multibody.hpp": "pin>=4", "boost/variant.hpp": "cmeel-boost",
              "eigen3/unsupported/Eigen/CXX11/Tensor": "cmeel-eigen"}
    for header, wheel in needed.items():
        if not (include / header).is_file():
            raise Unavailable(f"no header {header}: pip install {wheel}")
    return [include, include / "eigen3"]


@lru_cache(maxsize=2)
def library(quick: bool = False) -> ctypes.CDLL:
    """The compiled oracle, from the cache or built now (a minute or two; quick: half a minute), by one process at a time.
    Raises Unavailable."""
    flags = tuple(f for f in FLAGS if f not in ("-O3", "-march=native")) + QUICK if quick else FLAGS
    include = headers()
    compiler = next((path for name in (os.environ.get("CXX", ""), "g++", "clang++") if name and (path := shutil.which(name))), None)
    if compiler is None:
        raise Unavailable("no C++ compiler: looked for CXX, g++, clang++")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    eigen = (include[1] / "Eigen/src/Core/util/Macros.h").read_text()
    content = [SOURCE.read_text(), (include[0] / "pinocchio/config.hpp").read_text(), re.findall(r"EIGEN_\w+_VERSION \d+", eigen),
               flags, compiler, version, *(() if quick else (cpu_identity(),))]
    folder = cache_directory() / "peers"
    folder.mkdir(exist_ok=True)
    file = folder / f"pinocchio_cpp-{hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]}.so"
    with _alone(file.with_suffix(".lock")):
        if not file.is_file():
            _build(file, [compiler, *flags, *(f"-I{path}" for path in include), str(SOURCE)], include[0])
    return _declared(ctypes.CDLL(str(file)), quick)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Other processes wait; a process that dies leaves no lock behind. Where the system has no such locks, nobody waits."""
    with lock.open("w") as held:
        if fcntl is not None:
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _build(file: Path, command: list[str], include: Path) -> None:
    with tempfile.TemporaryDirectory(dir=file.parent) as build:
        run = subprocess.run([*command, "-o", "oracle.so"], cwd=build, capture_output=True, text=True, check=False)
        if run.returncode:
            first = "\n".join([line for line in run.stderr.splitlines() if "error" in line][:5])
            raise RuntimeError(f"{SOURCE.name} does not compile against {include}:\n{first}")
        os.replace(Path(build) / "oracle.so", file)


def _declared(lib: ctypes.CDLL, quick: bool) -> ctypes.CDLL:
    pointer = ctypes.c_void_p
    lib.oracle_make.argtypes, lib.oracle_make.restype = [ctypes.c_int, *[pointer] * 7], pointer
    lib.oracle_fault.restype = lib.oracle_version.restype = ctypes.c_char_p
    lib.oracle_free.argtypes, lib.oracle_free.restype = [pointer], None
    lib.oracle_nq.argtypes = lib.oracle_nv.argtypes = [pointer]
    for name in SIZES:
        if quick and name in SLOW:
            continue
        function = getattr(lib, f"oracle_{name}")
        function.argtypes, function.restype = [pointer, ctypes.c_long, *[pointer] * 4], None
    return lib


def available(quick: bool = False) -> str | None:
    """Why the oracle cannot be had here, or None."""
    try:
        library(quick)
    except Unavailable as error:
        return str(error)
    return None


class PinocchioCpp:
    """A robot of ours in Pinocchio's C++. Arguments and results are in our coordinates and order.

    Bodies go over depth first, as Pinocchio needs them; fixed joints are welded; universal joints become two revolute ones with a
    massless link between (Pinocchio's own has a motion subspace that is not constant, for which its second derivatives are wrong).
    Armature is carried over; damping is left out, as Pinocchio does. quick: by the library that holds inverse dynamics and its
    derivatives only. Raises ValueError for mimic joints.
    """

    def __init__(self, model: Model, quick: bool = False) -> None:
        if model.has_coupling:
            raise ValueError("mimic joints do not go over")
        self.model, self.lib = model, library(quick)
        kinds, parents, places, axes, inertias, columns, self.visited = [], [], [], [], [], [], []
        carrier: dict[int, int] = {-1: -1}
        stack = [i for i in reversed(range(len(model.bodies))) if model.bodies[i].parent < 0]
        while stack:
            i = stack.pop()
            stack += reversed(model.children(i))
            self.visited.append(i)
            joint, y = model.bodies[i].joint, model.bodies[i].inertia
            at = np.r_[np.array(joint.placement.rotation).ravel(), joint.placement.position]
            I = np.array(y.inertia)
            body = np.r_[y.mass, y.com, I[0, 0], I[0, 1], I[1, 1], I[0, 2], I[1, 2], I[2, 2]]
            columns += range(model.v_slice(i).start, model.v_slice(i).stop) if model.kind(i).nv else []
            parts = [(KINDS.get(joint.kind, -1), joint.axes[0] if joint.axes else (0.0,) * 3, body)]
            if joint.kind == "universal":
                parts = [(KINDS["revolute"], joint.axes[0], np.zeros(10)), (KINDS["revolute"], joint.axes[1], body)]
            above = carrier[model.bodies[i].parent]
            for kind, axis, mass in parts:
                kinds.append(kind)
                parents.append(above)
                places.append(at)
                axes.append(axis)
                inertias.append(mass)
                above, at = len(kinds) - 1, np.r_[np.eye(3).ravel(), np.zeros(3)]
            carrier[i] = above
        self.order = np.array(columns, int)  # their velocity component -> ours
        rotors = [x for i, b in enumerate(model.bodies) for x in (b.joint.armature or (0.0,) * model.kind(i).nv)]
        numbers = [np.array(x, float).reshape(len(kinds), -1) for x in (places, axes, inertias)]
        numbers += [np.array(model.gravity, float), np.array(rotors, float)[self.order]]
        whole = [np.array(x, np.intc) for x in (kinds, parents)]
        self.handle = self.lib.oracle_make(len(kinds), *(x.ctypes.data for x in (*whole, *map(np.ascontiguousarray, numbers))))
        if not self.handle:
            raise ValueError(self.lib.oracle_fault().decode())
        assert self.lib.oracle_nv(self.handle) == model.nv

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.lib.oracle_free(self.handle)

    def configuration(self, q: np.ndarray) -> np.ndarray:
        """Our q in Pinocchio's coordinates: quaternions x y z w, unbounded angles as cosine and sine."""
        parts = []
        for i in self.visited:
            kind = self.model.bodies[i].joint.kind
            x = np.asarray(q, float)[self.model.q_slice(i)] if self.model.kind(i).nq else np.zeros(0)
            if kind in ("spherical", "free_flyer"):
                x = np.r_[x[:-4], x[-3:], x[-4]]
            elif kind in ("planar", "continuous"):
                x = np.r_[x[:-1], np.cos(x[-1]), np.sin(x[-1])]
            parts.append(x)
        return np.concatenate(parts) if parts else np.zeros(0)

    def runner(self, name: str, q: np.ndarray, v: np.ndarray, x: np.ndarray, out: np.ndarray | None = None):
        """``run(count)``: the algorithm ``name`` so many times at this state, in C++. x: acceleration or torque."""
        function = getattr(self.lib, f"oracle_{name}")
        state = self.configuration(q), np.asarray(v, float)[self.order], np.asarray(x, float)[self.order]
        assert len(state[0]) == self.lib.oracle_nq(self.handle)
        handle, pointers = self.handle, [array.ctypes.data for array in state]
        to = None if out is None else out.ctypes.data

        def run(count: int, _alive=(state, out, self)) -> None:
            function(handle, count, *pointers, to)
        return run

    def values(self, name: str, q: np.ndarray, v: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The result of one call: tau or a [nv]; M [nv, nv]; [3, nv, nv] by q, v and a or tau; tensors [4, nv, nv, nv]: entry
        i, j, k of qq, vv, qv, aq is the derivative of tau_i along the first letter's j, then the second letter's k."""
        n, size = self.model.nv, SIZES[name]
        out = np.zeros({0: n, 1: n * n, 2: 3 * n * n, 3: 4 * n ** 3}[size])
        self.runner(name, q, v, x, out)(1)
        back = np.argsort(self.order)
        if size == 0:
            return out[back]
        if size < 3:
            return out.reshape((n, n) if size == 1 else (3, n, n))[..., back[:, None], back[None, :]]
        tensors = np.stack([part.reshape((n, n, n), order="F") for part in out.reshape(4, -1)])
        return tensors[:, back[:, None, None], back[None, :, None], back[None, None, :]]
