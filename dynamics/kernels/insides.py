"""All uses of Numba's internals, and the check that this version has them as tested.

Types, intrinsics and records stand on ``numba.core``, which Numba's own documentation of extensions uses and which has kept still
for years. Linking (``dynamics.kernels.linked``) goes deeper: it takes the place of parts of the compiler. It is used with versions
that it was tested with, and where every name that it takes the place of is there; with others functions are compiled by
``numba.njit`` alone, each with all that it calls: the same numbers, more seconds of compilation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils
from numba.core.base import BaseContext as Context
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.datamodel import PrimitiveModel
from numba.core.datamodel.models import OpaqueModel
from numba.core.errors import TypingError
from numba.core.imputils import lower_setattr_generic
from numba.core.typing.context import BaseContext as TypingContext
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, Signature, infer_global, signature
from numba.np import arrayobj
from numba.np.arrayobj import populate_array

__all__ = ["AbstractTemplate", "AttributeTemplate", "Builder", "Compiler", "Context", "Flags", "JITCodeLibrary", "LINKS",
           "OpaqueModel", "PrimitiveModel", "Signature", "Type", "Typed", "TypingContext", "TypingError", "Value", "arrayobj",
           "cgutils", "changed", "infer_global", "lower_setattr_generic", "populate_array", "signature"]

#: Numba's type of an argument; what makes LLVM's code, and a value there
Type: TypeAlias = numba.types.Type
Builder: TypeAlias = ir.IRBuilder
Value: TypeAlias = ir.Value
#: what an intrinsic gives: its signature, and what writes its code
Typed: TypeAlias = tuple[Signature, Callable[[Context, Builder, Signature, Sequence[Value]], Value]]

#: versions that linking was tested with
TESTED = ("0.68",)
#: what linking takes the place of, or calls, and the parameters by which it knows it
NEEDED: tuple[tuple[Any, str, tuple[str, ...]], ...] = (
    (JITCodeLibrary, "_optimize_functions", ("self", "ll_module")), (JITCodeLibrary, "_optimize_final_module", ("self",)),
    (JITCodeLibrary, "_get_module_for_linking", ("self",)), (JITCodeLibrary, "_finalize_dynamic_globals", ("self",)),
    (JITCodeLibrary, "_ensure_finalized", ("self",)), (JITCodeLibrary, "finalize", ("self",)),
    (JITCodeLibrary, "enable_object_caching", ("self",)), (JITCodeLibrary, "get_pointer_to_function", ("self", "name")),
    (Compiler, "compile_extra", ("self", "func")), (Compiler, "define_pipelines", ("self",)), (Flags, "values", ("self",)),
    (arrayobj, "fix_integer_index", ("context", "builder", "idxty", "idx", "size")),
    (numba.types.Dispatcher, "get_call_type", ("self", "context", "args", "kws")))


def changed(version: str) -> str:
    """Why a version of Numba is not linked; empty where it is."""
    if ".".join(version.split(".")[:2]) not in TESTED:
        return f"Numba {version} is not among those tested ({', '.join(TESTED)})"
    for owner, name, parameters in NEEDED:
        found = getattr(owner, name, None)
        if found is None or tuple(inspect.signature(found).parameters) != parameters:
            return f"{owner.__name__}.{name} is not as it was"
    return ""


#: whether callers take the code of linked functions in
LINKS = not changed(numba.__version__)
