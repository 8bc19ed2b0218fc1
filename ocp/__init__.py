"""Optimal control of any system: a problem in a file or in Python in, a certified motion out.

    import ocp

    p = ocp.Problem("Block move", duration=1.0)
    x, v = p.state("x", "m"), p.state("v", "m/s")
    force = p.control("force", "N")
    p.dynamics({x: v, v: force})
    p.start(x=0, v=0)
    p.final(x=1, v=0)
    p.cost(force**2)
    result = p.solve()

A robot takes the place of states and dynamics: ``robot = ocp.Robot("ur5.urdf")``, ``ocp.Problem("Reach", robot, duration=2)``.
Everything is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ocp.app.face.expression import Expr, dot, vector
    from ocp.app.face.functions import (
        acos,
        asin,
        atan,
        atan2,
        cos,
        cosh,
        der,
        exp,
        if_else,
        interpolate,
        log,
        log10,
        maximum,
        minimum,
        norm,
        sign,
        sin,
        sinh,
        sqrt,
        sumsqr,
        t,
        tan,
        tanh,
        total,
    )
    from ocp.app.face.phase import Phase
    from ocp.app.face.problem import Problem, load, solve
    from ocp.app.face.result import Result
    from ocp.app.face.robot import Robot
    from ocp.app.face.runs import WholeBody
    from ocp.errors import ProblemError, UnsupportedError

    __version__: str

_HOMES = {
    "phase": ("Phase",), "problem": ("Problem", "load", "solve"), "result": ("Result",), "robot": ("Robot",),
    "runs": ("WholeBody",), "expression": ("Expr", "dot", "vector"),
    "functions": ("acos", "asin", "atan", "atan2", "cos", "cosh", "der", "exp", "if_else", "interpolate", "log", "log10", "maximum",
                  "minimum", "norm", "sign", "sin", "sinh", "sqrt", "sumsqr", "t", "tan", "tanh", "total"),
}
_MODULES = {name: f"ocp.app.face.{home}" for home, names in _HOMES.items() for name in names}
_MODULES |= {"ProblemError": "ocp.errors", "UnsupportedError": "ocp.errors"}

__all__ = ["Expr", "Phase", "Problem", "ProblemError", "Result", "Robot", "UnsupportedError", "WholeBody", "__version__", "acos",
           "asin", "atan", "atan2", "cos", "cosh", "der", "dot", "exp", "if_else", "interpolate", "load", "log",
           "log10", "maximum", "minimum", "norm", "sign", "sin", "sinh", "solve", "sqrt", "sumsqr", "t", "tan", "tanh",
           "total", "vector"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("lieocp")
    if name not in _MODULES:
        from dynamics.errors import near

        raise AttributeError(f"module 'ocp' has no attribute {name!r}{near(name, __all__)}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
