"""Compares two recordings: python tests/trace/compare.py OLD NEW [--ignore WORD ...] [--digits N]

OLD and NEW: two files, or two folders of which all files with the same name are compared. Only problems that both have are
compared; what NEW lacks is counted. Solves that were ended for their time ("capped") are not compared. --ignore: leaves out lines
that begin with one of these words (resolved, mesh, ..). --digits: of numbers with a fraction; default: all that were recorded.
Ends with 1 where anything differs.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from pathlib import Path

from record import Trace, read  # beside this file

FRACTION = re.compile(r"-?\d+(?:\.\d+(?:[eE][-+]?\d+)?|[eE][-+]?\d+)")
CAPPED = "end capped"
ENDED = re.compile(r"end (?P<status>\w+) (?P<verdict>\w+) \d+ iterations objective (?P<objective>\S+)")


def simplified(lines: Sequence[str], ignore: Sequence[str], digits: int | None) -> list[str]:
    kept = [line for line in lines if line.split(" ", 1)[0] not in ignore]
    return kept if digits is None else [FRACTION.sub(lambda found: f"{float(found.group()):.{digits}g}", line) for line in kept]


def answer(lines: Sequence[str]) -> list[str]:
    """Of a trace what other processors find, too: the verdict and, where that is "certified", status and objective."""
    found = ENDED.fullmatch(lines[-1])
    if found is None:
        return list(lines[-1:])
    return [f"end {found['status']} {found['objective']}"] if found["verdict"] == "certified" else [f"end {found['verdict']}"]


def differences(old: Mapping[str, Trace], new: Mapping[str, Trace], ignore: Sequence[str] = (), digits: int | None = None
                ) -> dict[str, list[str]]:
    """Of each problem that both have and that went another way: the lines that differ, with those around them."""
    found = {}
    for name in old.keys() & new.keys():
        if CAPPED in (old[name][-1], new[name][-1]):
            continue
        lines = list(unified_diff(simplified(old[name], ignore, digits), simplified(new[name], ignore, digits), "old", "new",
                                  lineterm="", n=1))[2:]
        if lines:
            found[name] = lines
    return {name: found[name] for name in old if name in found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--ignore", nargs="*", default=())
    parser.add_argument("--digits", type=int)
    given = parser.parse_args()
    differ = False
    pairs = [(given.old, given.new)] if given.old.is_file() else \
        [(file, given.new / file.name) for file in sorted(given.old.glob("*.txt")) if (given.new / file.name).is_file()]
    for before, after in pairs:
        old, new = read(before), read(after)
        found = differences(old, new, given.ignore, given.digits)
        for name, lines in found.items():
            print("\n".join([f"== {before.stem} {name}", *lines, ""]))
        both = old.keys() & new.keys()
        capped = sum(CAPPED in (old[name][-1], new[name][-1]) for name in both)
        print(f"{before.stem}: {len(both) - capped - len(found)} of {len(both)} alike, {len(found)} differ, {capped} capped, "
              f"{len(old.keys() - new.keys())} not in {after}, {len(new.keys() - old.keys())} not in {before}")
        differ |= bool(found)
    sys.exit(1 if differ or not pairs else 0)


if __name__ == "__main__":
    main()
