"""Algorithms that a model needs over and over, at other symbols each time: built once, then called."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TypeVar

import casadi as ca

from dynamics.algorithms import tree
from dynamics.lie.expression import Expr
from dynamics.model.model import Model

Build = TypeVar("Build", bound=Callable[..., object])
Word = str | Mapping[str, Expr] | None


def built_once(build: Build) -> Build:
    """``build(model, *vectors, *words)`` as a Function of each model, which later calls take in place of what walks along the tree:
    the same operations on the same numbers. Vectors are known by their sparsity: what is zero stays so. Arguments of type MX, and
    words that are mappings, build anew."""

    @functools.wraps(build)
    def called(model: Model, *given: Expr | Word, **more: Word) -> object:
        count = next((i for i, x in enumerate(given) if x is None or isinstance(x, str | Mapping)), len(given))
        vectors = [tree.as_column(x) for x in given[:count]]
        words = tuple(x or None for x in given[count:])
        if any(isinstance(x, ca.MX) for x in vectors) or any(isinstance(x, Mapping) for x in (*words, *more.values())):
            return build(model, *given, **more)
        key = (build.__name__, words, *more.items(), *((x.shape, tuple(x.sparsity().row())) for x in vectors))
        if key not in model.built:
            symbols = [ca.SX.sym(f"x{i}", x.sparsity()) for i, x in enumerate(vectors)]
            model.built[key] = _as_function(symbols, build(model, *symbols, *words, **more))
        return model.built[key](vectors)

    return called  # type: ignore[return-value]  # of the same signature


def _as_function(symbols: list[ca.SX], result: object) -> Callable[[list[Expr]], object]:
    """The result, an expression or a named tuple of them, as a function of the values of symbols."""
    parts = result if isinstance(result, tuple) else (result,)
    if not any(isinstance(x, ca.SX) for x in parts):
        return lambda values: result
    function = ca.Function("built", symbols, [ca.SX(x) for x in parts])
    return lambda values: type(result)(*function.call(values)) if isinstance(result, tuple) else function.call(values)[0]
