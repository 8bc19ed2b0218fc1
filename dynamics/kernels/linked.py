"""Compiled functions whose callers take their code in: typed and lowered once, optimised and translated once, where Python enters.

Numba translates every function to machine code, and all that it calls once more with each of its callers; loops that are made of
many small functions pay for that at every level. Of a function with the decorator ``linked`` compiled callers get the code as it
was lowered, and what Python calls is optimised and translated as a whole. Any of them may be called from Python: then it is
compiled for that, and kept on disk.

Without ``wraparound`` no index may be negative, but for constants. Numba counts negative indices from the end, and where it cannot
tell that there are none (loops that begin at a variable) the processor gathers numbers one by one instead of loading eight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from llvmlite.ir import Constant  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import register_model

from dynamics.kernels.insides import LINKS, Builder, Compiler, Context, Flags, JITCodeLibrary, OpaqueModel, Value, arrayobj

_NEEDLESS = {"WithLifting", "InlineClosureLikes", "RewriteDynamicRaises", "MakeFunctionToJitFunction", "InlineInlinables",
             "FindLiterallyCalls", "LiteralUnroll", "LiteralPropagationSubPipelinePass", "InlineOverloads", "NopythonRewrites",
             "DumpParforDiagnostics"}
"""Passes for closures, array expressions and other things that these functions do without."""


class _Library(JITCodeLibrary):
    """Code that is linked into that of others: neither optimised nor translated, so it has no addresses."""

    _linking_libraries: list[JITCodeLibrary]
    _whole: Any = None

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing to set: without a wrapper for Python nobody asks for the environment."""

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        for library in self._linking_libraries:
            self._reload_init.update(library._reload_init)
        self._finalize_dynamic_globals()
        self._finalized = True

    def alone(self) -> Any:
        """The code of this function, which declares what it calls."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        """The code with that of all it calls, for callers of other kinds."""
        if self._whole is None:
            self._whole = self.alone().clone()
            _link(self._whole, self)
        return self._whole


class _Whole(JITCodeLibrary):
    """The code of an entry with all that it calls, optimised in one go: Numba's first go serves the counting of references."""

    _linking_libraries: list[JITCodeLibrary]

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)

    def finalize(self) -> None:
        for library in self._linking_libraries:
            self._reload_init.update(library._reload_init)
        _link(self._final_module, self)
        self._linking_libraries.clear()
        super().finalize()


def _link(module: Any, library: JITCodeLibrary) -> None:
    """Link into a module what a library calls, at any depth, each once."""
    waiting, found = list(library._linking_libraries), {library}
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            module.link_in(one.alone() if isinstance(one, _Library) else one._get_module_for_linking(), preserve=True)
            waiting += one._linking_libraries if isinstance(one, _Library) else ()


class _Flags(Flags):
    """The options of a compilation, which Numba compares a hundred thousand times: without filling in what is not set."""

    __hash__ = Flags.__hash__

    def values(self) -> dict[str, Any]:
        return self._values

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, _Flags) else super().__eq__(other)


class _Typing:
    """Numba's typing context that remembers what operators and functions of Numba's own make of their arguments."""

    known: ClassVar[dict[Any, Any]] = {}

    def __init__(self, context: Context, flags: Flags):
        self._context, self._flags = context, (flags.nrt, str(flags.error_model))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, arguments: Any, named: Any) -> Any:
        if type(function) is not types.Function or named:
            return self._context.resolve_function_type(function, arguments, named)
        key = function, arguments, self._flags
        if (found := self.known.get(key)) is None:
            found = self.known[key] = self._context.resolve_function_type(function, arguments, named)
        return found


_WRAPPED = arrayobj.fix_integer_index


def _as_it_is(context: Context, builder: Builder, kind: Any, index: Value, size: Value) -> Value:
    """The index of an array without the question whether it is negative; of constants that is known."""
    if isinstance(index, Constant):
        return _WRAPPED(context, builder, kind, index, size)
    return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)


class _Linked(Compiler):
    library: type[JITCodeLibrary] = _Library
    indices: Callable[..., Any] = staticmethod(_WRAPPED)

    def define_pipelines(self) -> Any:
        (passes,) = super().define_pipelines()
        passes.passes = [one for one in passes.passes if one[0].__name__ not in _NEEDLESS]
        passes._finalized = False
        passes.finalize()
        return [passes]

    def compile_extra(self, func: Any) -> Any:
        self.state.flags = _Flags(self.state.flags)
        self.state.typingctx = _Typing(self.state.typingctx, self.state.flags)
        self.state.library = self.library(self.state.targetctx.codegen(), func.__qualname__)
        if self.library is _Whole:
            self.state.library.enable_object_caching()
        before, arrayobj.fix_integer_index = arrayobj.fix_integer_index, self.indices  # one compilation at a time: Numba's lock
        try:
            return super().compile_extra(func)
        finally:
            arrayobj.fix_integer_index = before


class _Entry(_Linked):
    library = _Whole


class _LinkedAsItIs(_Linked):
    indices = staticmethod(_as_it_is)


class _EntryAsItIs(_Entry):
    indices = staticmethod(_as_it_is)


PLAIN: dict[str, Any] = {"_nrt": False} if LINKS else {}
"""No reference is counted: such functions allocate nothing, and whoever calls from Python keeps what they are given."""
INNER: dict[str, Any] = {"pipeline_class": _Linked, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, **PLAIN}
"""Options of ``numba.njit`` for what no Python ever calls."""


class _Type(types.Dispatcher):
    """A constant as an argument is a number as any other: nothing is compiled once more for it."""

    def get_call_type(self, context: Context, args: Any, kws: Any) -> Any:
        plain = {name: types.unliteral(kind) for name, kind in kws.items()}
        return super().get_call_type(context, tuple(types.unliteral(kind) for kind in args), plain)


register_model(_Type)(OpaqueModel)


class Linked:
    """A function for Python and for compiled callers: ``entry`` and ``inner``."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], wraparound: bool):
        if LINKS:
            entry, inner = (_Entry, _Linked) if wraparound else (_EntryAsItIs, _LinkedAsItIs)
            self.entry = njit(**{"cache": True, "pipeline_class": entry, **PLAIN, **options})(function)
            within = {key: value for key, value in options.items() if key not in ("cache", "nogil")}
            self.inner = njit(**{**INNER, "pipeline_class": inner, **within})(function)
        else:
            self.entry = self.inner = njit(**{"cache": True, **options})(function)
        self.__doc__, self.__name__, self.__module__ = function.__doc__, function.__name__, function.__module__
        self.py_func, self.__wrapped__ = function, function
        self._type = (_Type if LINKS else types.Dispatcher)(self.inner)

    def __call__(self, *arguments: Any) -> Any:
        return self.entry(*arguments)

    @property
    def _numba_type_(self) -> Any:
        return self._type


def linked(function: Callable[..., Any] | None = None, *, wraparound: bool = True, **options: Any) -> Any:
    """``numba.njit`` with these options and a cache on disk, for loops made of many functions. wraparound: whether indices may be
    negative."""
    if function is None:
        return lambda function: Linked(function, options, wraparound)
    return Linked(function, options, wraparound)
