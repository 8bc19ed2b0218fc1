"""Kernels: compiled, interpreted and symbolic evaluation agree, and the cache never loads what it should not."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import threading

import casadi as ca
import numpy as np
import pytest
from repository import ROOT

from dynamics import kernels
from dynamics.kernels import KernelError, compile_kernel, compile_many, compiler, workspace

MODES = ["compiled", "interpreted"]
compiler_needed = pytest.mark.skipif(kernels.find_compiler() is None, reason="no C compiler")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    directory = tmp_path / "cache"
    monkeypatch.setenv("LIEOCP_CACHE_DIR", str(directory))
    return directory


@pytest.fixture(params=[pytest.param("compiled", marks=compiler_needed), "interpreted", "jit"])
def mode(request):
    return request.param


def small(name="small", scale=1.0):
    x = ca.SX.sym("x", 3)
    return ca.Function(name, [x], [scale * ca.sin(x)], ["x"], ["y"])


def mixed():
    """Matrices, a sparse input, structurally sparse and empty outputs, empty inputs."""
    x, u, P = ca.SX.sym("x", 3), ca.SX.sym("u", 0), ca.SX.sym("P", 2, 3)
    D = ca.SX.sym("D", ca.Sparsity.diag(3))
    y = ca.vertcat(P @ x, ca.dot(x, x))
    outputs = [y, ca.jacobian(ca.sin(x), x), P @ D, ca.SX(0, 1), ca.dot(x, x), x.T, ca.SX(2, 4), ca.SX.zeros(2, 0)]
    return ca.Function("mixed", [x, u, P, D], outputs, ["x", "u", "P", "D"], [f"o{i}" for i in range(8)])


def graph():
    """The kinds of nodes that scalar graphs lack: a function call, a linear solve, a map."""
    inner = ca.Function("inner", [z := ca.SX.sym("z", 3)], [ca.sin(z) * z[0]])
    X = ca.MX.sym("X", 3)
    columns = inner.map(4)(ca.horzcat(X, 2 * X, 3 * X, X * X))
    A = ca.diag(X) + np.arange(9.0).reshape(3, 3) / 10 + 2 * np.eye(3)
    return ca.Function("graph", [X], [columns, ca.solve(A, X), ca.diag(inner(X))])


def test_mixed_against_numpy(mode):
    kernel = compile_kernel(mixed(), mode)
    assert kernel.mode == mode
    assert kernel.input_shapes == ((3, 1), (0, 1), (2, 3), (3, 3))
    assert kernel.output_shapes == ((3, 1), (3, 3), (2, 3), (0, 1), (1, 1), (1, 3), (2, 4), (2, 0))
    rng = np.random.default_rng(1)
    x, P, D = rng.normal(size=3), rng.normal(size=(2, 3)), rng.normal(size=(3, 3))
    y, J, PD, empty, square, row, zeros, flat = kernel(x, np.zeros(0), P, D)
    np.testing.assert_allclose(y, np.append(P @ x, x @ x), rtol=1e-15, atol=1e-15)
    np.testing.assert_array_equal(J, np.diag(np.cos(x)))
    # Only the diagonal of the sparse input exists: the rest of a dense argument is projected away, as in CasADi.
    np.testing.assert_allclose(PD, P * np.diag(D), rtol=1e-15)
    assert empty.shape == (0,)
    assert flat.shape == (2, 0)
    assert isinstance(square, float)
    assert square == pytest.approx(x @ x, rel=1e-15)
    np.testing.assert_array_equal(row, x[None, :])
    np.testing.assert_array_equal(zeros, np.zeros((2, 4)))


@compiler_needed
@pytest.mark.parametrize("function", [small(), mixed(), graph()], ids=lambda f: f.name())
def test_compiled_interpreted_and_symbolic_agree(function):
    rng = np.random.default_rng(2)
    arguments = [rng.normal(size=function.size_in(i)) for i in range(function.n_in())]
    expected = function.call([ca.DM(a) for a in arguments])
    for mode in MODES:
        kernel = compile_kernel(function, mode)
        assert kernel.notes == ()
        results = kernel(*arguments)
        results = results if isinstance(results, tuple) else (results,)
        assert len(results) == len(expected)
        for result, dm in zip(results, expected, strict=True):
            np.testing.assert_allclose(np.reshape(result, dm.shape), dm.full(), rtol=1e-14, atol=1e-15)


def random_function(seed):
    """A random tape of 200 operations from 5 inputs to a 3 x 2 output, with the same tape in NumPy."""
    rng = np.random.default_rng(seed)
    operations = [lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - 0.3 * b, lambda a, b: a / (1 + b * b)]
    tape = [(rng.integers(4), rng.integers(5 + k), rng.integers(5 + k)) for k in range(200)]

    def run(values, sine):
        for operation, i, j in tape:
            values.append(sine(operations[operation](values[i], values[j])))
        return values[-6:]

    x = ca.SX.sym("x", 5)
    symbolic = ca.Function("tape", [x], [ca.reshape(ca.vertcat(*run(ca.vertsplit(x), ca.sin)), 3, 2)])
    return symbolic, lambda v: np.array(run(list(v), np.sin)).reshape(2, 3).T


@pytest.mark.parametrize("seed", range(3))
def test_random_tapes_against_numpy(mode, seed):
    function, reference = random_function(seed)
    x = np.random.default_rng(seed + 100).normal(size=5)
    np.testing.assert_allclose(compile_kernel(function, mode)(x), reference(x), rtol=1e-12, atol=1e-14)


def test_no_inputs_and_no_outputs(mode):
    np.testing.assert_array_equal(compile_kernel(ca.Function("constant", [], [ca.SX([1.0, 2.5])]), mode)(), [1.0, 2.5])
    assert compile_kernel(ca.Function("nothing", [ca.SX.sym("x", 2)], []), mode)(np.ones(2)) == ()


def test_constants_keep_every_bit(mode):
    value = np.nextafter(0.1, 1.0) * 1e-300
    x = ca.SX.sym("x")
    assert compile_kernel(ca.Function("bits", [x], [x * value]), mode)(1.0) == value


def test_nan_and_infinity_pass_through(mode):
    x = np.array([np.nan, 0.0, 1.0])
    result = compile_kernel(small(), mode)(x)
    assert np.isnan(result[0])
    np.testing.assert_array_equal(result[1:], np.sin(x[1:]))
    y = ca.SX.sym("y")
    assert compile_kernel(ca.Function("limit", [y], [ca.if_else(y > 0, ca.inf, -ca.inf)]), mode)(1.0) == np.inf


def test_layouts_types_and_shapes_of_arguments(mode):
    P, x, d = ca.SX.sym("P", 2, 3), ca.SX.sym("x", 3), ca.SX.sym("d")
    kernel = compile_kernel(ca.Function("f", [P, x, d], [d * P @ x]), mode)
    A = np.random.default_rng(3).normal(size=(2, 3))
    expected = 2 * A @ [1.0, 2.0, 3.0]
    strided = np.zeros((4, 6))
    strided[::2, ::2] = A
    for matrix in (A, np.asfortranarray(A), strided[::2, ::2], A.tolist()):
        for vector in (np.arange(1.0, 4.0), np.arange(1, 4), [1, 2, 3], np.array([[1.0], [2.0], [3.0]], dtype=np.float32)):
            for scalar in (2, 2.0, np.float64(2), np.array([2.0]), np.array([[2.0]])):
                np.testing.assert_allclose(kernel(matrix, vector, scalar), expected, rtol=1e-14)


def test_results_are_fresh_arrays(mode):
    kernel = compile_kernel(small(), mode)
    first = kernel(np.ones(3))
    second = kernel(np.zeros(3))
    np.testing.assert_array_equal(first, np.sin(np.ones(3)))
    np.testing.assert_array_equal(second, np.zeros(3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(3),), r"kernel 'f' takes 2 arguments \(P, x\), got 1"),
        ((np.zeros((3, 2)), np.zeros(3)), r"input 0 \('P'\): expected shape \(2, 3\), got \(3, 2\)"),
        ((np.zeros(6), np.zeros(3)), r"input 0 \('P'\): expected shape \(2, 3\), got \(6,\)"),
        ((np.zeros((2, 3)), np.zeros((1, 3))), r"input 1 \('x'\): expected shape \(3,\) or \(3, 1\), got \(1, 3\)"),
        ((np.zeros((2, 3)), 1.0), r"input 1 \('x'\): expected shape .* got \(\)"),
        ((np.zeros((2, 3)), np.zeros(3, complex)), r"input 1 \('x'\): expected real numbers .* complex128"),
        ((np.zeros((2, 3)), ["1", "2", "3"]), r"input 1 \('x'\): expected real numbers"),
        ((np.zeros((2, 3)), np.array([1, None, 2])), r"input 1 \('x'\): expected real numbers .* object"),
        (([[1, 2, 3], [4]], np.zeros(3)), r"input 0 \('P'\): expected an array of shape \(2, 3\)"),
    ],
)
def test_wrong_arguments(arguments, message):
    P, x = ca.SX.sym("P", 2, 3), ca.SX.sym("x", 3)
    kernel = compile_kernel(ca.Function("f", [P, x], [P @ x], ["P", "x"], ["y"]), "interpreted")
    with pytest.raises(KernelError, match=message):
        kernel(*arguments)


def test_wrong_requests():
    x, p = ca.SX.sym("x"), ca.SX.sym("stray")
    with pytest.raises(KernelError, match=r"'f' has free variables .*stray"):
        compile_kernel(ca.Function("f", [x], [x * p], {"allow_free": True}))
    with pytest.raises(KernelError, match="mode must be .* got 'fast'"):
        compile_kernel(small(), "fast")
    with pytest.raises(KernelError, match="flags must be a sequence"):
        compile_kernel(small(), flags="-O1")
    with pytest.raises(KernelError, match="workers must be at least 1"):
        compile_many([small()], workers=0)


def test_threads_do_not_share_memory(mode):
    kernel = compile_kernel(graph(), mode)
    cases = np.random.default_rng(4).normal(size=(4, 3))
    expected = [kernel(x) for x in cases]
    wrong = []

    def work(x, truth):
        for _ in range(300):
            wrong.extend(not np.array_equal(a, b) for a, b in zip(kernel(x), truth, strict=True))

    threads = [threading.Thread(target=work, args=case) for case in zip(cases, expected, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 4 * 300 * 3
    assert not any(wrong)


def test_workspaces_have_their_own_memory():
    kernel = compile_kernel(graph(), "interpreted")
    first, second = workspace(kernel), workspace(kernel)
    assert len({first.handle, second.handle, kernel.handle}) == 3
    assert first.arg.size >= kernel.sz_arg
    assert first.w.size >= kernel.sz_w > 0
    taken = second.handle
    del second
    assert workspace(kernel).handle == taken


def test_embedding_in_a_graph(mode):
    kernel = compile_kernel(mixed(), mode)
    embedded = kernel.as_casadi()
    X, P = ca.MX.sym("X", 3, 5), ca.MX.sym("P", 2, 3)
    mapped = embedded.map(5)(X, ca.MX(0, 5), ca.repmat(P, 1, 5), ca.repmat(ca.DM.eye(3), 1, 5))
    total = ca.Function("total", [X, P], [mapped[0], mapped[1]])
    rng = np.random.default_rng(5)
    x, p = rng.normal(size=(3, 5)), rng.normal(size=(2, 3))
    y, J = (value.full() for value in total(x, p))
    np.testing.assert_allclose(y, np.vstack([p @ x, (x * x).sum(0)]), rtol=1e-14)
    np.testing.assert_array_equal(J, np.hstack([np.diag(np.cos(column)) for column in x.T]))


def test_numba_loop_by_address(mode):
    numba = pytest.importorskip("numba")
    from dynamics.kernels.calls import address_of, call, row_address

    @numba.njit
    def rollout(address, handle, arg, res, iw, w, x, u, p, J):
        arg[2] = address_of(p)
        for k in range(u.shape[0]):
            arg[0], arg[1] = row_address(x, k), row_address(u, k)
            res[0], res[1] = row_address(x, k + 1), row_address(J, k)
            status = call(address, handle, arg, res, iw, w)
            if status != 0:
                return status
        return 0

    x, u, p = ca.SX.sym("x", 2), ca.SX.sym("u", 1), ca.SX.sym("p")
    step = x + 0.1 * ca.vertcat(x[1], p * u - ca.sin(x[0]))
    kernel = compile_kernel(ca.Function("step", [x, u, p], [step, ca.jacobian(step, x)]), mode)
    work, rng = workspace(kernel), np.random.default_rng(6)
    xs, us, Js = np.zeros((51, 2)), rng.normal(size=(50, 1)), np.full((50, 2, 2), np.nan)
    xs[0] = [1.0, -0.5]
    arguments = (work.address, work.handle, work.arg, work.res, work.iw, work.w, xs, us, np.array([1.7]), Js)
    assert rollout(*arguments) == 0
    state = np.array([1.0, -0.5])
    for k in range(50):
        # column-major kernel output in a row-major block: the transpose
        np.testing.assert_allclose(Js[k].T, [[1, 0.1], [-0.1 * np.cos(state[0]), 1]], rtol=1e-13)
        state = state + 0.1 * np.array([state[1], 1.7 * us[k, 0] - np.sin(state[0])])
        np.testing.assert_allclose(xs[k + 1], state, rtol=1e-12)
    # An output that is not wanted, and an address that is zero for a zero input, as in CasADi's own convention.
    zero_input = numba.njit(lambda a, h, arg, res, iw, w: call(a, h, arg, res, iw, w))
    work.arg[:2], work.res[:2] = (xs[0:].ctypes.data, 0), (xs[1:].ctypes.data, 0)
    assert zero_input(work.address, work.handle, work.arg, work.res, work.iw, work.w) == 0
    np.testing.assert_allclose(xs[1], [1.0 - 0.05, -0.5 - 0.1 * np.sin(1.0)], rtol=1e-14)


def test_handle_carries_memory_and_status_comes_back():
    """What the called function receives, seen from inside it, by both conventions."""
    numba = pytest.importorskip("numba")
    from dynamics.kernels.calls import call

    run = numba.njit(lambda a, h, arg, res, iw, w: call(a, h, arg, res, iw, w))
    arrays = (np.zeros(2, np.intp), np.zeros(1, np.intp), np.zeros(1, np.int64), np.zeros(1))
    pointers = tuple(array.ctypes.data for array in arrays)
    seen = []
    pointer, integer = ctypes.c_void_p, ctypes.c_int

    def spy(*received):
        seen.append(received)
        return -7

    compiled = ctypes.CFUNCTYPE(integer, *[pointer] * 4, integer)(spy)
    interpreted = ctypes.CFUNCTYPE(integer, integer, *[pointer] * 4, integer)(spy)
    for function, handle in ((compiled, -1), (compiled, -4), (interpreted, 0), (interpreted, (5 << 32) | 9)):
        assert run(ctypes.cast(function, pointer).value, handle, *arrays) == -7
    assert seen == [(*pointers, 0), (*pointers, 3), (0, *pointers, 0), (5, *pointers, 9)]


def test_numba_refuses_wrong_arrays():
    numba = pytest.importorskip("numba")
    from dynamics.kernels.calls import address_of, row_address

    take, row = numba.njit(lambda a: address_of(a)), numba.njit(lambda a: row_address(a, 1))
    good = np.zeros((3, 4))
    assert take(good) == good.ctypes.data
    assert take(good.T) == good.ctypes.data
    assert row(good) == good[1:].ctypes.data
    for function, bad in ((take, good[:, ::2]), (take, good.astype(np.float32)), (row, good.T)):
        with pytest.raises(numba.TypingError, match="array must be a contiguous array of float64"):
            function(bad)


def run_python(code, **environment):
    """Run `code` in a new process, warnings as errors; returns its last line as JSON."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


BUILD = """
import json, casadi as ca, numpy as np
from dynamics.kernels import compile_kernel
x = ca.SX.sym("x", 3)
f = ca.Function("small", [x], [1.0 * ca.sin(x)], ["x"], ["y"])
k = compile_kernel(f, "compiled")
print(json.dumps([k.cache_hit, k.library.name, list(k(np.array([1.0, 2.0, 3.0])))]))
"""


@compiler_needed
def test_cache_across_processes(tmp_path):
    log, wrapper = tmp_path / "log", tmp_path / "compiler"
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {kernels.find_compiler()} "$@"\n')
    wrapper.chmod(0o755)

    def compilations():
        return sum("-shared" in line for line in log.read_text().splitlines())

    hit, name, values = run_python(BUILD, CC=str(wrapper))
    np.testing.assert_array_equal(values, np.sin([1.0, 2.0, 3.0]))
    assert not hit
    assert compilations() == 1
    assert run_python(BUILD, CC=str(wrapper)) == [True, name, values]
    assert compilations() == 1
    # What is in the cache is usable where there is no compiler at all.
    assert run_python(BUILD, CC="", PATH="") == [True, name, values]
    assert run_python(BUILD, CC=str(tmp_path / "gone")) == [True, name, values]
    # Another compiler does not vouch for the first one's work.
    assert run_python(BUILD, CC=str(kernels.find_compiler()))[0] is False
    assert kernels.cache_statistics().entries == 2


@compiler_needed
def test_concurrent_builders(cache):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", BUILD]
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    for output in outputs:
        np.testing.assert_array_equal(json.loads(output)[2], np.sin([1.0, 2.0, 3.0]))
    assert kernels.cache_statistics().entries == 1
    assert sorted(file.suffix for file in cache.iterdir()) == [".json", ".so"], "builds left something behind"


def the(cache, pattern):
    (file,) = cache.glob(pattern)
    return file


def truncate(cache):
    file = the(cache, "*.so")
    file.write_bytes(file.read_bytes()[:-500])


def scramble(cache):
    file = the(cache, "*.so")
    file.write_bytes(np.random.default_rng(7).bytes(file.stat().st_size))


def replace_library_by_foreign(cache):
    compile_kernel(small("small", 2.0), "compiled", cache_dir=cache / "other")
    shutil.copy(the(cache / "other", "*.so"), the(cache, "*.so"))


def replace_entry_by_foreign(cache):
    replace_library_by_foreign(cache)
    shutil.copy(the(cache / "other", "*.json"), the(cache, "*.json"))


def dress_up_foreign_entry(cache):
    """A consistent pair of library and manifest under this key's names; only the manifest's own key tells."""
    compile_kernel(small("small", 2.0), "compiled", cache_dir=cache / "other")
    ours, theirs = the(cache, "*.so"), the(cache / "other", "*.so")
    shutil.copy(theirs, cache / (ours.name[:40] + theirs.name[40:]))
    shutil.copy(the(cache / "other", "*.json"), the(cache, "*.json"))


def edit_manifest(**changes):
    def edit(cache):
        file = the(cache, "*.json")
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return edit


DAMAGE = {
    "truncated": truncate,
    "scrambled": scramble,
    "empty library": lambda cache: the(cache, "*.so").write_bytes(b""),
    "missing library": lambda cache: the(cache, "*.so").unlink(),
    "foreign library": replace_library_by_foreign,
    "foreign entry": replace_entry_by_foreign,
    "dressed-up foreign entry": dress_up_foreign_entry,
    "empty manifest": lambda cache: the(cache, "*.json").write_bytes(b""),
    "no JSON": lambda cache: the(cache, "*.json").write_bytes(b"\xff{"),
    "not a record": lambda cache: the(cache, "*.json").write_text("[1]"),
    "other schema": edit_manifest(schema=-1),
    "path as hash": edit_manifest(sha256="../../x"),
    "number as hash": edit_manifest(sha256=3),
}


@pytest.fixture(scope="module")
def sound_cache(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sound")
    assert run_python(BUILD, LIEOCP_CACHE_DIR=str(directory))[0] is False
    return directory


@compiler_needed
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
@pytest.mark.sample(3)
def test_damaged_entries_are_rebuilt_not_loaded(cache, sound_cache, damage):
    """The damaged file is met by a new process: it must not be loaded, and the rebuilt one must be found."""
    shutil.copytree(sound_cache, cache)
    damage(cache)
    names = "[k.cache_hit, k.library.name, compile_kernel(f, 'compiled').cache_hit, list"
    hit, name, again, values = run_python(BUILD.replace("[k.cache_hit, k.library.name, list", names))
    assert (hit, name, again) == (False, the(sound_cache, "*.so").name, True)
    np.testing.assert_array_equal(values, np.sin([1.0, 2.0, 3.0]))


@compiler_needed
def test_key_separates_what_differs(cache):
    variants = [
        compile_kernel(small()),
        compile_kernel(small("renamed")),
        compile_kernel(small(scale=2.0)),
        compile_kernel(small(), flags=("-O0",)),
        compile_kernel(small(), flags=("-O1", "-march=native")),
    ]
    assert not any(kernel.cache_hit for kernel in variants)
    assert len({kernel.library for kernel in variants}) == len({kernel.address for kernel in variants}) == 5
    assert compile_kernel(small()).cache_hit
    x = np.array([0.1, 0.2, 0.3])
    for kernel, scale in zip(variants, (1, 1, 2, 1, 1), strict=True):
        np.testing.assert_allclose(kernel(x), scale * np.sin(x), rtol=1e-15)


@compiler_needed
def test_large_functions_are_compiled_without_optimisation_and_say_so():
    kernel = compile_kernel(random_function(0)[0], "compiled", max_optimised_statements=100)
    assert "compiled with -O0 instead of -O1" in kernel.notes[0]
    again = compile_kernel(random_function(0)[0], "compiled", max_optimised_statements=100)
    assert again.cache_hit
    assert again.notes == kernel.notes
    assert compile_kernel(random_function(0)[0], "compiled").notes == ()


def large(name="large"):
    """More operations than from which code is compiled for this processor."""
    x = ca.SX.sym("x", 40)
    y = x
    for k in range(40):
        y = ca.sin(y) + 0.1 * (k + 1) * ca.vertcat(y[1:], y[0]) * x
    return ca.Function(name, [x], [y])


@compiler_needed
def test_large_functions_are_compiled_for_this_processor_to_the_same_bits(cache, monkeypatch):
    assert kernels.operations(large()) > compiler.NATIVE_FROM
    x = np.random.default_rng(3).normal(size=40)
    native, plain = compile_kernel(large(), "compiled"), compile_kernel(large(), "compiled", flags=("-O1",))
    assert native.notes == plain.notes == ()
    assert len(list(cache.glob("*.so"))) == 2
    flags = {tuple(json.loads(file.read_text())["flags"]) for file in cache.glob("*.json")}
    assert flags == {("-O1",), ("-O1", "-march=native")}
    np.testing.assert_array_equal(native(x), plain(x))
    # another processor finds nothing that was made for this one, and anything else that it can run
    monkeypatch.setattr("dynamics.kernels.cache.cpu_identity", lambda: "another processor")
    assert not kernels.is_cached(large())
    assert kernels.is_cached(large(), flags=("-O1",))
    compile_kernel(small())
    assert kernels.is_cached(small())


@compiler_needed
def test_a_compiler_that_knows_no_native_code_gets_none(tmp_path, monkeypatch):
    script = tmp_path / "simple-cc"
    script.write_text('#!/bin/sh\ncase "$*" in *native*) echo "unknown -march" >&2; exit 1;; esac\n'
                      f'exec {kernels.find_compiler()} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    kernel, x = compile_kernel(large(), "compiled"), np.random.default_rng(3).normal(size=40)
    assert kernel.notes == ("the compiler rejects -march=native",)
    np.testing.assert_allclose(kernel(x), np.array(large()(x)).ravel(), rtol=1e-12)
    with pytest.raises(KernelError, match="unknown -march"):  # asked for by name it is an error
        compile_kernel(small(), "compiled", flags=("-O1", "-march=native"))


def test_runs_of_one_value_become_loops(mode):
    """Zeros in rows and columns, other constants, a value that comes twice, outputs that end in a run or are nothing but one."""
    x = ca.SX.sym("x", 3)
    A = ca.SX.zeros(30, 30)
    A[0, 0], A[3, 3], A[29, 7], A[:, 11] = x[0], x[1] * x[2], 2.0, x[1]
    f = ca.Function("f", [x], [A, ca.SX.ones(40) * x[0]**2, ca.SX.zeros(50), ca.vertcat(ca.SX.zeros(11), x, 3 * ca.SX.ones(20))])
    values = compile_kernel(f, mode)(np.array([0.3, -0.7, 1.1]))
    for value, expected in zip(values, f(ca.DM([0.3, -0.7, 1.1])), strict=True):
        np.testing.assert_array_equal(np.asarray(value).reshape(expected.shape, order="F"), np.array(expected))
    text = compiler.generate_source(f, "f")
    assert text.count("res[0]!=0") < 70
    assert [text.count(f"res[{i}]!=0") for i in (1, 2, 3)] == [1, 1, 11 + 3 + 1]


@compiler_needed
def test_many_zeros_compile_in_no_time():
    x = ca.SX.sym("x", 80)
    kernel = compile_kernel(ca.Function("f", [x], [ca.SX(ca.densify(ca.horzcat(ca.diag(x), ca.SX(80, 120))))]), "compiled")
    assert kernel.compile_seconds < 10.0  # a branch for each of the 16 000 takes minutes


@compiler_needed
def test_compile_many_in_order_and_without_repetition(cache):
    functions = [small("f", float(k)) for k in (1, 2, 3, 2, 1)]
    made = compile_many(functions, workers=2, mode="compiled")
    x = np.array([0.3, 0.2, 0.1])
    for kernel, scale in zip(made, (1, 2, 3, 2, 1), strict=True):
        np.testing.assert_allclose(kernel(x), scale * np.sin(x), rtol=1e-15)
    assert kernels.cache_statistics().entries == 3
    assert compile_many([]) == ()


@pytest.mark.parametrize("variables", [{"CC": "no-such-compiler"}, {"CC": "'unclosed"}, {"CC": "", "PATH": ""}])
def test_without_a_compiler(monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert kernels.find_compiler() is None
    kernel = compile_kernel(small())
    assert (kernel.mode, kernel.library, kernel.cache_hit) == ("interpreted", None, False)
    assert "no C compiler" in kernel.notes[0]
    np.testing.assert_array_equal(kernel(np.ones(3)), np.sin(np.ones(3)))
    with pytest.raises(KernelError, match="no C compiler for function 'small': looked for (CC=.*|cc, gcc, clang on PATH=)"):
        compile_kernel(small(), "compiled")


@compiler_needed
def test_a_failing_compilation(cache):
    bad = ("-O1", "-no-such-flag")
    with pytest.raises(KernelError, match=r"(?s)C compiler failed on function 'small' .*-no-such-flag"):
        compile_kernel(small(), "compiled", flags=bad)
    kernel = compile_kernel(small(), "auto", flags=bad)
    assert kernel.mode == "interpreted"
    assert "-no-such-flag" in kernel.notes[0]
    assert list(cache.iterdir()) == []


@compiler_needed
def test_a_directory_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    directory = kernels.cache_directory(tmp_path / "file" / "cache")
    assert directory.parent == tmp_path / "temporary"
    assert directory.stat().st_mode & 0o077 == 0
    kernel = compile_kernel(small(), "compiled", cache_dir=tmp_path / "file" / "cache")
    assert kernel.library.parent == directory


def test_where_the_cache_lies(tmp_path, monkeypatch):
    assert kernels.cache_directory() == tmp_path / "cache"
    assert kernels.cache_directory(tmp_path / "named") == tmp_path / "named"
    monkeypatch.delenv("LIEOCP_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert kernels.cache_directory() == tmp_path / "xdg" / "lieocp"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kernels.cache_directory() == tmp_path / ".cache" / "lieocp"


@compiler_needed
def test_statistics_and_clearing(cache):
    kernel = compile_kernel(small(), "compiled")
    (cache / "letter.txt").write_text("mine")
    statistics = kernels.cache_statistics()
    assert (statistics.directory, statistics.entries) == (cache, 1)
    assert statistics.bytes > kernel.library.stat().st_size
    assert kernels.clear_cache() == 1
    assert [file.name for file in cache.iterdir()] == ["letter.txt"]
    assert kernels.cache_statistics().entries == 0
    np.testing.assert_array_equal(kernel(np.ones(3)), np.sin(np.ones(3)))


def test_importing_kernels_does_not_import_numba():
    assert run_python("import sys, dynamics.kernels, json; print(json.dumps('numba' in sys.modules))") is False


def test_loops_are_cached_on_disk_for_all_kernels(tmp_path):
    """One machine code serves every address: a second process with another kernel compiles nothing."""
    pytest.importorskip("numba")
    (tmp_path / "loops.py").write_text(
        "from numba import njit\n"
        "from dynamics.kernels.calls import call, row_address\n"
        "@njit(cache=True)\n"
        "def once(address, handle, arg, res, iw, w, x):\n"
        "    arg[0], res[0] = row_address(x, 0), row_address(x, 1)\n"
        "    return call(address, handle, arg, res, iw, w)\n"
    )
    code = """
import json, sys, casadi as ca, numpy as np
from dynamics.kernels import compile_kernel, workspace
sys.path.insert(0, {path!r})
import loops
z, rows = ca.SX.sym("z", 3), np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
k = workspace(compile_kernel(ca.Function("f", [z], [{scale} * z]), {mode!r}))
status = loops.once(k.address, k.handle, k.arg, k.res, k.iw, k.w, rows)
print(json.dumps([status, list(rows[1]), sum(loops.once.stats.cache_hits.values())]))
"""
    assert run_python(code.format(path=str(tmp_path), scale=2.0, mode="auto")) == [0, [2.0, 4.0, 6.0], 0]
    assert run_python(code.format(path=str(tmp_path), scale=3.0, mode="interpreted")) == [0, [3.0, 6.0, 9.0], 1]


def test_operations_are_counted_through_calls_and_maps():
    x = ca.SX.sym("x", 3)
    inner = ca.Function("inner", [x], [ca.sin(x) * x[0]], {"never_inline": True})
    X = ca.MX.sym("X", 3, 5)
    mapped = ca.Function("mapped", [X], [inner.map(5)(X)])
    twice = ca.Function("twice", [X], [ca.mtimes(inner(X[:, 0]).T, inner(X[:, 1]))])
    count = inner.n_instructions()
    assert kernels.operations(inner) == count
    assert 5 * count <= kernels.operations(mapped) < 5 * count + 10
    assert 2 * count + 3 <= kernels.operations(twice) < 2 * count + 40


def counted(calls, function):
    def build():
        calls.append(function.name())
        return function
    return build


def test_expressions_are_built_once(cache):
    x = ca.SX.sym("x", 2)
    f = ca.Function("f", [x], [ca.sin(x) * x[0]], ["x"], ["y"])
    calls = []
    first = kernels.remembered(["f", "robot"], counted(calls, f))
    again = kernels.remembered(["f", "robot"], counted(calls, f))
    kernels.remembered(["f", "another robot"], counted(calls, f))
    assert calls == ["f", "f"]
    assert first.serialize() == again.serialize() == f.serialize()
    assert again.name_in() == ["x"]
    for file in cache.glob("*.casadi"):
        file.write_text("damaged")
    kernels.remembered(["f", "robot"], counted(calls, f))
    assert len(calls) == 3
    assert kernels.cache_statistics().bytes > 0
    kernels.clear_cache()
    assert not list(cache.glob("*.casadi"))


def test_expressions_that_cannot_be_stored_are_built_again(monkeypatch):
    from dynamics.kernels import expressions

    def full(*arguments, **named):
        raise OSError("no space left on device")

    monkeypatch.setattr(expressions.tempfile, "NamedTemporaryFile", full)
    x = ca.SX.sym("x")
    f = ca.Function("f", [x], [x * x])
    calls = []
    for _ in range(2):
        assert kernels.remembered(["g"], counted(calls, f))(3) == 9
    assert len(calls) == 2


def test_a_kernel_may_be_collected_while_another_is_loaded(monkeypatch):
    """The collector runs wherever it likes, also between the steps of loading a function."""
    from dynamics.kernels import interpreter

    x = ca.SX.sym("x")
    doomed = [workspace(compile_kernel(ca.Function("doomed", [x], [ca.sin(x)]), mode="interpreted"))]
    original, released = interpreter.tempfile.TemporaryDirectory, []

    def collecting(*arguments, **named):
        doomed.clear()  # its finaliser gives the memory back
        released.append(True)
        return original(*arguments, **named)

    monkeypatch.setattr(interpreter.tempfile, "TemporaryDirectory", collecting)
    done = []
    thread = threading.Thread(target=lambda: done.append(compile_kernel(ca.Function("next", [x], [x + 17.25]), mode="interpreted")),
                              daemon=True)
    thread.start()
    thread.join(20)
    assert released
    assert done, "deadlock"
    assert done[0](1.0) == 18.25


@compiler_needed
@pytest.mark.parametrize("mode", ["auto", "compiled"])
def test_a_compiler_whose_time_is_up_is_ended(mode, monkeypatch, tmp_path):
    x = ca.SX.sym("x", 2)
    function = ca.Function("slowly", [x], [ca.sin(x[0]) * x[1]])
    script = tmp_path / "slow-cc"
    script.write_text('#!/bin/sh\ncase "$*" in *kernel.c*) exec sleep 600;; esac\nexec cc "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    for seconds, words in ((0.2, "which did not suffice"), (0.0, "no time was left")):
        kernel, = compile_many([function], mode=mode, cache_dir=tmp_path / "cache", seconds_left=lambda seconds=seconds: seconds)
        assert kernel.mode == "interpreted"
        assert words in kernel.notes[0]
        assert kernel.as_casadi()([0.5, 2.0]) == pytest.approx(2 * np.sin(0.5))
