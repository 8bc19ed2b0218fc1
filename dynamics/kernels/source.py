"""Generated C source made shorter where the compiler's time depends on it.

CasADi writes every stored number of an output with a branch of its own, ``if (res[2]!=0) res[2][7]=a0;``. A matrix of a few
thousand stored zeros is as many branches, and the time of C compilers grows with their square (9600: minutes). Stretches of one
output that receive one value become loops.
"""

from __future__ import annotations

import re

MIN_STORES = 12
"""Neighbouring stores of one value from which they become a loop; a handful is left to the compiler."""

_STORE = re.compile(r"  if \(res\[(\d+)\]!=0\) res\[(\d+)\]\[(\d+)\]=(a\d+);$")


def with_loops(source: str) -> str:
    """The same source, with a loop for every run of MIN_STORES or more stores of one variable into neighbours of one output."""
    lines: list[str] = []
    run: list[str] = []
    last: tuple[str, str, int] | None = None
    for line in source.split("\n"):
        found = _STORE.match(line)
        here = (found[1], found[4], int(found[3])) if found and found[1] == found[2] else None
        if here is not None and last is not None and here[:2] == last[:2] and here[2] == last[2] + 1:
            run.append(line)
        else:
            lines += _closed(run, last)
            run = [line]
        last = here
    return "\n".join([*lines, *_closed(run, last)])


def _closed(run: list[str], last: tuple[str, str, int] | None) -> list[str]:
    """A run of stores, the last of which is given: as it is, or as a loop."""
    if last is None or len(run) < MIN_STORES:
        return run
    output, value, end = last
    return [f"  if (res[{output}]!=0) {{casadi_int k; for (k={end + 1 - len(run)}; k<={end}; ++k) res[{output}][k]={value};}}"]
