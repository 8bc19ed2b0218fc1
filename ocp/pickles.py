"""Records that travel to other processes: functions within functions go as their code and what they hold.

Interpolants, charts and the like are closures, which ``pickle`` refuses. Reading needs the version of Python that wrote, as between
the processes of a pool.
"""

from __future__ import annotations

import importlib
import io
import marshal
import pickle
from collections.abc import Mapping, Sequence
from functools import _lru_cache_wrapper, cache
from types import CellType, FunctionType, MappingProxyType
from typing import Any

import casadi as ca


class Portable:
    """A record that pickles with whatever closures and symbols are within it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _read, (_written(self),)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Portable):
            return _new, (type(value),), dict(vars(value)), None, None, _fill
        if isinstance(value, FunctionType) and "<locals>" in value.__qualname__:
            held = value.__closure__ or ()
            return (_function, (marshal.dumps(value.__code__), value.__module__, len(held)),
                    ({k: getattr(value, k) for k in ATTRIBUTES}, [cell.cell_contents for cell in held]), None, None, _fill_function)
        if isinstance(value, _lru_cache_wrapper) and "<locals>" in value.__qualname__:
            return cache, (value.__wrapped__,)
        if isinstance(value, MappingProxyType):
            return MappingProxyType, (dict(value),)
        return NotImplemented


#: attributes of a function besides its code
ATTRIBUTES = ("__defaults__", "__kwdefaults__", "__name__", "__qualname__", "__doc__")


def _written(value: Any) -> bytes:
    stream = io.BytesIO()
    with ca.global_pickle_context():
        _Pickler(stream).dump(value)
    return stream.getvalue()


def _read(data: bytes) -> Any:
    with ca.global_unpickle_context():
        return pickle.loads(data)


def _new(kind: type) -> Any:
    return object.__new__(kind)


def _fill(made: Any, attributes: Mapping[str, Any]) -> None:
    vars(made).update(attributes)  # past the locks of frozen records


def _function(code: bytes, module: str, cells: int) -> FunctionType:
    """A function of this code; what it holds comes later, for it may hold itself."""
    empty = tuple(CellType() for _ in range(cells))
    return FunctionType(marshal.loads(code), vars(importlib.import_module(module)), None, None, empty)


def _fill_function(made: FunctionType, content: tuple[Mapping[str, Any], Sequence[Any]]) -> None:
    for name, value in content[0].items():
        setattr(made, name, value)
    for cell, value in zip(made.__closure__ or (), content[1], strict=True):
        cell.cell_contents = value
