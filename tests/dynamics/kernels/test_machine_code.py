"""Machine code by LLVM (mode "jit"): every operation, and whole robots, against CasADi's own evaluation, to the last bit."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import casadi as ca
import numpy as np
import pytest
from repository import ROOT

import dynamics
from dynamics import kernels
from dynamics.kernels import KernelError, compile_kernel, compile_many, llvm, text, workspace
from dynamics.kernels.mapped import mapped
from dynamics.model.urdf import read_urdf

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 7.25, 1e-310, -1e-310, 1e308, -1e308, np.inf, -np.inf, np.nan]
ONE = {
    "neg": lambda x: -x, "exp": ca.exp, "log": ca.log, "sqrt": ca.sqrt, "sq": lambda x: x * x, "twice": lambda x: x + x,
    "sin": ca.sin, "cos": ca.cos, "tan": ca.tan, "asin": ca.asin, "acos": ca.acos, "atan": ca.atan, "sinh": ca.sinh,
    "cosh": ca.cosh, "tanh": ca.tanh, "asinh": ca.asinh, "acosh": ca.acosh, "atanh": ca.atanh, "floor": ca.floor, "ceil": ca.ceil,
    "fabs": ca.fabs, "sign": ca.sign, "not": ca.logic_not, "inv": lambda x: 1 / x, "erf": ca.erf, "log1p": ca.log1p,
    "expm1": ca.expm1, "cube": lambda x: x**3, "tenth": lambda x: x**0.1, "constant": lambda x: x * np.pi - 1e300,
}
TWO = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "pow": lambda x, y: x**y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y, "and": ca.logic_and, "or": ca.logic_or, "fmod": ca.fmod, "remainder": ca.remainder,
    "copysign": ca.copysign, "if_else_zero": lambda x, y: ca.SX.binary(ca.OP_IF_ELSE_ZERO, x, y), "fmin": ca.fmin,
    "fmax": ca.fmax, "atan2": ca.atan2, "hypot": ca.hypot,
    "lift": lambda x, y: ca.SX.binary(ca.OP_LIFT, x, y), "if_else": lambda x, y: ca.if_else(x > y, x + 1, y - 1),
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    directory = tmp_path / "cache"
    monkeypatch.setenv("LIEOCP_CACHE_DIR", str(directory))
    return directory


def make(function):
    kernel = compile_kernel(function, "jit")
    assert (kernel.mode, kernel.notes, kernel.library, kernel.handle < 0) == ("jit", (), None, True)
    return kernel


def same(result, expected):
    """Equal numbers, zeros with equal signs, NaN in the same places."""
    result, expected = np.asarray(result), np.asarray(expected)
    np.testing.assert_array_equal(result, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[number]), np.signbit(expected[number]))


def robot(name="ur5", **options):
    return read_urdf(ROOT / "problems" / "models" / f"{name}.urdf", **options)


def scalar_function(name, model):
    function = dynamics.make(model, name)
    return function if function.is_a("SXFunction") else function.expand()


def with_jacobian(function):
    inputs = [ca.SX.sym(function.name_in(i), *function.size_in(i)) for i in range(function.n_in())]
    output = function(*inputs)
    return ca.Function(f"jac_{function.name()}", inputs, [output, ca.jacobian(output, ca.vertcat(*inputs))])


def values(function, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=function.size_in(i)) for i in range(function.n_in())]


def agree(kernel, function, arguments):
    expected = function.call([ca.DM(a) for a in arguments])
    results = kernel(*arguments)
    for result, dm in zip(results if isinstance(results, tuple) else (results,), expected, strict=True):
        same(np.reshape(result, dm.shape, order="F" if np.ndim(result) == 2 else "C"), ca.densify(dm).full())


# ---- operations ----
@pytest.mark.parametrize("name", ONE)
def test_operations_of_one_argument(name):
    x = ca.SX.sym("x", len(SPECIAL) + 20)
    function = ca.Function("one", [x], [ONE[name](x)])
    numbers = np.concatenate([SPECIAL, 3 * np.random.default_rng(1).normal(size=20)])
    same(make(function)(numbers), function(numbers).full().ravel())


@pytest.mark.parametrize("name", TWO)
def test_operations_of_two_arguments(name):
    numbers = np.concatenate([SPECIAL, 3 * np.random.default_rng(2).normal(size=4)])
    first, second = (grid.ravel() for grid in np.meshgrid(numbers, numbers))
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    function = ca.Function("two", [x, y], [TWO[name](x, y)])
    kernel, expected = make(function), function.map(len(first))(first[None], second[None]).full().ravel()
    results = np.array([kernel(a, b) for a, b in zip(first, second, strict=True)])
    if name in ("fmin", "fmax"):  # which of two zeros is left open by C, and differs between versions of CasADi
        results, expected = results + 0.0, expected + 0.0
    same(results, expected)


def test_all_operations_are_covered_or_refused():
    """What the generator knows is what the tests above have made; nothing else that scalar graphs are made of is let through."""
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    functions = [ca.Function("f", [x], [op(x)]) for op in ONE.values()]
    functions += [ca.Function("f", [x, y], [op(x, y)]) for op in TWO.values()]
    made = {f.instruction_id(k) for f in functions for k in range(f.n_instructions())}
    assert made <= text.KNOWN <= made | {ca.OP_LIFT, ca.OP_ASSIGN, ca.OP_TWICE}  # CasADi writes x + x in more than one way
    kernel = compile_kernel(ca.Function("inverse", [x], [ca.erfinv(x)]), "jit")
    assert kernel.mode == "interpreted"
    assert kernel.notes == ("interpreted: function 'inverse' has operations without machine code: OP_ERFINV",)
    assert kernel(0.5) == pytest.approx(0.476936276204470, rel=1e-9)


def random_graph(seed, size):
    """Operations of every kind at random, values kept for long, so that many slots are in use at a time."""
    rng = np.random.default_rng(seed)
    x, M = ca.SX.sym("x", 7), ca.SX.sym("M", 3, 2)
    pool = [*ca.vertsplit(x), *ca.vertsplit(ca.vec(M)), ca.SX(0.3), ca.SX(-0.0)]
    one, two = list(ONE.values()), list(TWO.values())
    for _ in range(size):
        a, b = (pool[rng.integers(len(pool))] for _ in range(2))
        plain = two[rng.integers(4)](a, b)
        pool.append(plain if rng.random() < 0.7 else one[rng.integers(len(one))](a) if rng.random() < 0.5 else
                    two[rng.integers(len(two))](a, b))
    chosen = [pool[i] for i in rng.integers(len(pool), size=60)]
    return ca.Function("graph", [x, M], [ca.vertcat(*chosen[:30]), ca.reshape(ca.vertcat(*chosen[30:]), 6, 5), pool[-1]])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("size", [20, 200, 3000])
@pytest.mark.sample(4)
def test_random_graphs(seed, size):
    function = random_graph(seed, size)
    agree(make(function), function, values(function, seed + 50))


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics"])
@pytest.mark.parametrize("base", ["ur5", "quadruped"])
def test_robots(base, name):
    function = with_jacobian(scalar_function(name, robot(base, root="free_flyer") if base == "quadruped" else robot(base)))
    assert function.n_instructions() > 3000
    agree(make(function), function, values(function, 3))


# ---- convention ----
def test_addresses_that_are_not_given():
    """Inputs without an address are zero, results without one are not written; nothing is remembered from call to call."""
    x, y = ca.SX.sym("x", 3), ca.SX.sym("y", 2)
    function = ca.Function("f", [x, y], [ca.sin(x) + y[0], ca.vertcat(x, y, 1), ca.SX(2, 9)])
    kernel = make(function)
    work = workspace(kernel)
    work.w[:] = np.nan
    given = [np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0])]
    results = [np.full(n, np.nan) for n in (3, 6, 18)]
    numba = pytest.importorskip("numba")
    from dynamics.kernels.calls import call

    run = numba.njit(lambda a, h, arg, res, iw, w: call(a, h, arg, res, iw, w))
    for mask in range(32):
        absent = [bool(mask >> k & 1) for k in range(5)]
        for result in results:
            result[:] = np.nan
        work.arg[:2] = [0 if gone else array.ctypes.data for gone, array in zip(absent[:2], given, strict=True)]
        work.res[:3] = [0 if gone else array.ctypes.data for gone, array in zip(absent[2:], results, strict=True)]
        assert run(work.address, work.handle, work.arg, work.res, work.iw, work.w) == 0
        a, b = (np.zeros_like(array) if gone else array for gone, array in zip(absent[:2], given, strict=True))
        expected = [np.sin(a) + b[0], np.concatenate([a, b, [1.0]]), np.zeros(18)]
        for gone, result, number in zip(absent[2:], results, expected, strict=True):
            np.testing.assert_allclose(result, np.nan if gone else number, rtol=1e-15)


def test_work_arrays_are_long_enough():
    """Nothing is written beyond the lengths that the kernel asks for."""
    function = with_jacobian(scalar_function("forward_dynamics", robot()))
    kernel = make(function)
    guard = 64
    w = np.full(kernel.sz_w + guard, 12.5)
    arrays = [np.ascontiguousarray(a.ravel()) for a in values(function)]
    arg = np.array([a.ctypes.data for a in arrays] + [0] * (kernel.sz_arg - 3) + [77], dtype=np.intp)
    res = np.array([0, 0, 77], dtype=np.intp)
    buffers = kernels.kernel._KernelCall(kernel.address)
    assert buffers(arg.ctypes.data, res.ctypes.data, None, w.ctypes.data, 0) == 0
    assert (w[kernel.sz_w :] == 12.5).all()
    assert (arg[-1], res[-1]) == (77, 77)


@pytest.mark.parametrize("seed", range(3))
def test_zeros_among_results(seed):
    """Stretches of zeros of every length, within a result and across results: all are written, and nothing else."""
    rng = np.random.default_rng(seed)
    x = ca.SX.sym("x", 100)
    masks = [np.repeat(rng.random(12) < 0.5, rng.integers(1, 14, size=12))[:100] for _ in range(3)]
    outputs = [ca.vertcat(*(x[i] if kept else 0 for i, kept in enumerate(mask))) for mask in masks]
    kernel = make(ca.Function("f", [x], outputs))
    work, numbers = workspace(kernel), rng.normal(size=100)
    results = [np.full(len(mask) + 2, np.nan) for mask in masks]
    work.arg[0], work.res[:3] = numbers.ctypes.data, [result[1:].ctypes.data for result in results]
    run = kernels.kernel._KernelCall(work.address)
    assert run(work.arg.ctypes.data, work.res.ctypes.data, work.iw.ctypes.data, work.w.ctypes.data, 0) == 0
    for result, mask in zip(results, masks, strict=True):
        same(result, np.concatenate([[np.nan], np.where(mask, numbers[: len(mask)], 0.0), [np.nan]]))


def test_matrix_graphs_are_expanded():
    inner = ca.Function("inner", [z := ca.SX.sym("z", 3)], [ca.sin(z) * z[0]])
    X = ca.MX.sym("X", 3, 4)
    function = ca.Function("outer", [X], [inner.map(4)(X), ca.mtimes(X, X.T), ca.diag(X[:, 0])])
    agree(make(function), function, values(function))
    agree(make(inner.map(4)), inner.map(4), values(function))


def test_code_that_is_there_asks_for_no_expansion_and_is_that_of_the_same_function_only(cache, monkeypatch):
    """In memory and on disk; graphs of matrices that differ in one constant, of their own or of what they call, have each their
    own."""
    def outer(constant, factor):
        inner = ca.Function("inner", [z := ca.SX.sym("z", 3)], [ca.sin(z) * z[0] * factor])
        X = ca.MX.sym("X", 3, 60)
        return ca.Function("outer", [X], [inner.map(60)(X) + constant])

    cases, counted, expand = [(1.0, 2.0), (1.5, 2.0), (1.0, 2.5)], [], ca.Function.expand
    made = [make(outer(*case)) for case in cases]  # alive to the end
    monkeypatch.setattr(ca.Function, "expand", lambda self, *given: counted.append(self.name()) or expand(self, *given))
    for hit in (False, True):
        for case, first in zip(cases, made, strict=True):
            kernel = make(outer(*case))
            assert (kernel.cache_hit, kernel.address == first.address, counted) == (hit, not hit, [])
            agree(kernel, outer(*case), values(outer(*case)))
        monkeypatch.setattr(llvm, "_alive", weakref.WeakValueDictionary())
    make(outer(3.0, 3.0))
    assert counted == ["outer"]


def test_what_cannot_be_expanded_is_interpreted_and_says_why(monkeypatch):
    X = ca.MX.sym("X", 3)
    solve = ca.Function("solve", [X], [ca.solve(ca.diag(X) + 1, X)])
    plain = ca.Function("plain", [x := ca.SX.sym("x", 3)], [2 * x])
    first, second = compile_many([solve, plain], mode="jit")
    assert (first.mode, second.mode) == ("interpreted", "jit")
    assert len(first.notes) == 1
    assert "function 'solve' cannot be expanded into scalar operations" in first.notes[0]
    np.testing.assert_allclose(np.diag([1.0, 2, 3]) @ first([1.0, 2.0, 3.0]) + first([1.0, 2.0, 3.0]).sum(), [1, 2, 3], rtol=1e-14)
    monkeypatch.setattr(llvm, "MAX_OPERATIONS", 5)
    large = compile_kernel(ca.Function("large", [X], [ca.sin(X) * ca.cos(X)]), "jit")
    assert (large.mode, large.notes) == (
        "interpreted", ("interpreted: function 'large' has 9 operations: no machine code above 5",))


# ---- threads, lifetime ----
def test_threads():
    function = with_jacobian(scalar_function("inverse_dynamics", robot()))
    kernel, failures = make(function), []
    cases = [(values(function, seed), function(*values(function, seed))[0].full().ravel()) for seed in range(4)]

    def run(arguments, expected):
        for _ in range(200):
            if not np.array_equal(kernel(*arguments)[0], expected):
                failures.append(arguments)

    threads = [threading.Thread(target=run, args=case) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_code_lives_as_long_as_a_workspace():
    def numbers(work):
        x, y = np.array([1.5]), np.zeros(1)
        work.arg[0], work.res[0] = x.ctypes.data, y.ctypes.data
        status = kernels.kernel._KernelCall(work.address)(
            work.arg.ctypes.data, work.res.ctypes.data, work.iw.ctypes.data, work.w.ctypes.data, 0)
        return status, y[0]

    x = ca.SX.sym("x")
    one, other = compile_many([ca.Function("f", [x], [3 * x]), ca.Function("g", [x], [x - 4])], mode="jit")
    memory = weakref.ref(one._release.__defaults__[0].keep)
    works = workspace(one), workspace(other)
    del one, other
    gc.collect()
    assert memory() is not None
    assert [numbers(work) for work in works] == [(0, 4.5), (0, -2.5)]
    del works
    gc.collect()
    assert memory() is None


def test_the_same_function_is_made_once():
    def made():
        return compile_many([random_graph(seed, 50) for seed in (0, 1, 0)], mode="jit")

    first = made()
    second = made()
    assert first[0].address == first[2].address != first[1].address
    assert [kernel.address for kernel in second] == [kernel.address for kernel in first]
    keep = weakref.ref(first[0]._release.__defaults__[0])
    del first, second
    gc.collect()
    assert keep() is None
    agree(made()[1], random_graph(1, 50), values(random_graph(1, 50)))


# ---- many functions, cache ----
def test_the_same_request_gives_the_same_bytes():
    functions = {f"f{seed}": kernels.compiler.densified(random_graph(seed, 200)) for seed in range(3)}
    assert llvm.compiled(functions) == llvm.compiled(functions)


def test_code_that_is_alive_is_not_made_again(monkeypatch):
    """Of a request only what nobody holds goes to LLVM."""
    first = make(random_graph(0, 50))
    asked = []
    compiled = llvm.compiled
    monkeypatch.setattr(llvm, "compiled", lambda functions, tuned: asked.append(len(functions)) or compiled(functions, tuned))
    again, other = compile_many([random_graph(0, 50), random_graph(1, 50)], mode="jit")
    assert (asked, again.address == first.address, other.address == first.address) == ([1], True, False)
    agree(other, random_graph(1, 50), values(random_graph(1, 50)))


RUN = """
import casadi as ca, numpy as np
from dynamics.kernels import compile_kernel
x = ca.SX.sym("x", 50)
y = x
for k in range(20):
    y = ca.sin(y) * x + {number}
kernel = compile_kernel(ca.Function("f", [x], [y]), "jit")
print(kernel.cache_hit, kernel.mode, kernel(np.linspace(0, 1, 50)).sum().hex())
"""


def test_object_files_are_kept(cache):
    def run(number):
        done = subprocess.run([sys.executable, "-W", "error", "-c", RUN.format(number=number)], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
        return done.stdout.split()

    first, again = run(0.5), run(0.5)
    assert (first[:2], again[:2], again[2]) == (["False", "jit"], ["True", "jit"], first[2])
    assert len(list(cache.glob("*.o"))) == 1
    assert run(0.25)[0] == "False"
    for file in cache.glob("*.o"):
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert run(0.5) == first
    assert kernels.clear_cache() == 0  # manifests of libraries, of which there are none
    assert not list(cache.glob("*.o"))


def test_many_points_at_once():
    """Inputs of every point and one for all, empty ones, matrices among the outputs: bit by bit what one call a point gives."""
    kernel = make(scalar_function("forward_dynamics", robot()))
    x, q, none = ca.SX.sym("x", 3), ca.SX.sym("q", 2, 2), ca.SX.sym("none", 0)
    shapes = make(ca.Function("shapes", [x, none, q], [q @ x[:2], ca.horzcat(x, x * q[0, 1])]))
    rng = np.random.default_rng(1)
    for made, given in ((kernel, [rng.standard_normal((6, 9)) for _ in range(3)]),
                        (shapes, [rng.standard_normal((3, 9)), np.zeros((0, 1)), rng.standard_normal((4, 1))])):
        points = [np.broadcast_to(g, (len(g), 9)) for g in given]
        for k, found in enumerate(mapped(made, *given)):
            for i in range(9):
                one = made(*(p[:, i].reshape(shape, order="F") for p, shape in zip(points, made.input_shapes, strict=True)))
                np.testing.assert_array_equal(found[:, i], np.ravel(one[k] if isinstance(one, tuple) else one, order="F"))
    with pytest.raises(KernelError, match=r"\[3, 0, 4\] entries at n points or one"):
        mapped(shapes, given[0], given[1], given[0])
    with pytest.raises(KernelError, match="expected machine code"):
        mapped(compile_kernel(kernel.function, "interpreted"), given[0])


def test_functions_are_written_down_once_and_never_mistaken_for_one_that_is_gone(monkeypatch):
    """A function of the next number takes the memory of the last one."""
    x, written, places = ca.SX.sym("x"), [], set()
    serialize = ca.Function.serialize
    monkeypatch.setattr(ca.Function, "serialize", lambda self: written.append(self.name()) or serialize(self))
    for k in range(50):
        function = ca.Function("f", [x], [x + k])
        places.add(hash(function))
        first, second = (llvm.machine_code([function])[0] for _ in range(2))
        assert first is second
        kernel = compile_kernel(function, mode="jit")
        assert float(kernel(0.5)) == 0.5 + k
        assert len(written) == k + 1
        del function, first, second, kernel
    assert len(places) < 50
