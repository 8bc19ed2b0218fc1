"""From the text of an expression to its syntax tree, by Python's own parser; what that stumbles over in words of files."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable

from ocp.errors import ProblemError

Where = Callable[[int], str]


def syntax_tree(text: str, shift: int, where: Where) -> ast.Expression:
    """The tree of a text. Raises ProblemError at the character where it ends to be an expression."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return ast.parse(text, mode="eval")
    except SyntaxError as error:
        at = min(max((error.offset or 1) - 1, 0), len(text) - 1)
        raise ProblemError(_syntax_message(text, at, error.msg), where=where(shift + at)) from None
    except (MemoryError, RecursionError):
        raise ProblemError("the expression is nested too deeply or has too many terms; name parts of it under 'define'",
                           where=where(0)) from None
    except ValueError:
        raise ProblemError("the expression contains characters that cannot be read", where=where(0)) from None


def _syntax_message(text: str, at: int, message: str) -> str:
    if "nested parentheses" in message:
        return "the expression is nested too deeply"
    message, hint = message.split(";")[0], ""
    if "never closed" in message or "unmatched" in message or "does not match" in message:
        hint = "; inside [..] or {..} of YAML, an expression that contains a comma must be in quotes"
    elif text[at] == "=" or "==" in message or "'=" in message:
        hint = "; an expression has no '=', write 'equal', 'lower' or 'upper' beside it"
    elif text[at] in "&|!?$;\\":
        hint = f"; {text[at]!r} is not allowed in an expression"
    near_by = text[max(at - 8, 0) : at + 12]
    return f"not a valid expression near {near_by!r}: {message}{hint}"
