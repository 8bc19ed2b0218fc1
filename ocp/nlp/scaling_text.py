"""A scaling as one line of text that a problem file can hold, exact: factors are powers of two, and their exponents are written.

    auto: columns 2, 3 4*50; rows 0*100, -1; objective -3

The word before the colon is the rule that chose it. Columns and rows come in groups, separated by commas: all variables
(constraints) of one name, in the order in which the names first appear. ``e*n`` stands for n times the exponent e, one after
another; one number alone for the whole group.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from ocp.errors import ProblemError
from ocp.nlp.names import groups, parts_of_name
from ocp.nlp.options import SCALINGS
from ocp.nlp.program import NLP
from ocp.nlp.scaling import Scaling

_LAYOUT = re.compile(r"^\s*(?P<rule>[a-z]+):\s*columns(?P<columns>[^;]*);\s*rows(?P<rows>[^;]*);"
                     r"\s*objective\s+(?P<objective>-?\d+)\s*$")
_RUN = re.compile(r"^(?P<exponent>-?\d+)(?:\*(?P<count>\d+))?$")
#: no exponent of a factor that ``choose_scaling`` makes is larger
MAX_EXPONENT = 60


def rule(scaling: str) -> str:
    """The rule of an option ``scaling``, which names one or holds what one has chosen."""
    return scaling.partition(":")[0].strip()


def check_scaling(scaling: str, where: str) -> None:
    """Raise ProblemError for what neither names a rule nor holds what one has chosen."""
    if scaling in SCALINGS:
        return
    match = _LAYOUT.match(scaling)
    if match is None or match["rule"] not in SCALINGS:
        raise ProblemError(f"must be one of {', '.join(SCALINGS)}, or factors such as 'auto: columns ...; rows ...; objective "
                           f"...', got {scaling[:60]!r}", where=where)


def scaling_text(nlp: NLP, scaling: Scaling) -> str:
    """The text of a scaling of this program; ``read_scaling`` gives it back, bit for bit."""
    told = [", ".join(_run_lengths(_exponents(values)[own]) for own in groups(names).values())
            for values, names in ((scaling.columns, nlp.variables), (scaling.rows, nlp.constraints))]
    return f"{scaling.how}: columns {told[0]}; rows {told[1]}; objective {int(_exponents(np.array([scaling.objective]))[0])}"


def read_scaling(nlp: NLP, text: str) -> Scaling:
    """The scaling that a text gives. Raises ProblemError where it is malformed or does not fit the program, as after a change of
    the mesh."""
    match = _LAYOUT.match(text)
    if match is None:
        raise ProblemError(f"{text[:60]!r} should be 'auto: columns ...; rows ...; objective ...'", where="scaling")
    columns = _read(match["columns"], nlp.variables, "columns")
    rows = _read(match["rows"], nlp.constraints, "rows")
    return Scaling(match["rule"], columns, rows, 2.0 ** _bounded(int(match["objective"]), match["objective"]))


def _exponents(values: np.ndarray) -> np.ndarray:
    return np.round(np.log2(values)).astype(int)


def _run_lengths(exponents: np.ndarray) -> str:
    if np.all(exponents == exponents[0]):
        return str(int(exponents[0]))
    runs = [(e, len(list(same))) for e, same in groupby(exponents.tolist())]
    return " ".join(f"{e}*{count}" if count > 1 else str(e) for e, count in runs)


def _read(text: str, names: Sequence[str], what: str) -> np.ndarray:
    known, parts = list(groups(names).values()), [part for part in text.split(",") if part.strip()]
    if len(parts) != len(known):
        raise ProblemError(f"gives {len(parts)} groups of {what}, and the program has {len(known)}; it belongs to another "
                           "program: use scaling auto", where="scaling")
    factors = np.ones(len(names))
    for part, own in zip(parts, known, strict=True):
        exponents: list[int] = []
        words = part.split()
        for word in words:
            match = _RUN.match(word)
            if match is None:
                raise ProblemError(f"{word!r} should be an exponent of two, such as '3' or '3*50'", where="scaling")
            exponents += [_bounded(int(match["exponent"]), word)] * int(match["count"] or 1)
        if len(words) == 1 and "*" not in words[0]:
            exponents *= len(own)
        if len(exponents) != len(own):
            name, _ = parts_of_name(names[own[0]])
            raise ProblemError(f"gives {len(exponents)} factors of {what} {name!r}, and the program has {len(own)}; it belongs "
                               "to another mesh: use scaling auto", where="scaling")
        factors[own] = 2.0 ** np.array(exponents)
    return factors


def _bounded(exponent: int, word: str) -> int:
    if abs(exponent) > MAX_EXPONENT:
        raise ProblemError(f"{word!r}: exponents lie within {-MAX_EXPONENT} and {MAX_EXPONENT}", where="scaling")
    return exponent
