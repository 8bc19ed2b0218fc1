"""Names of constraints and variables, made on first use: a program has thousands, and most solves read none.

``one: speed limit @ knot 5``: the phase (of a program of several), the constraint and the point where it holds; names are parsed
in this module alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import SupportsIndex, overload

import numpy as np


class Names(Sequence[str]):
    """A sequence of ``count`` names that ``make()`` gives; equal to a tuple of the same."""

    def __init__(self, count: int, make: Callable[[], Iterable[str]]):
        self._count, self._make = count, make
        self._made: tuple[str, ...] | None = None

    @classmethod
    def of(cls, names: Sequence[str]) -> Names:
        """Names that are known already."""
        return cls(len(names), lambda: names)

    @classmethod
    def joined(cls, parts: Sequence[Sequence[str]]) -> Names:
        """One after another."""
        return cls(sum(len(part) for part in parts), lambda: [name for part in parts for name in part])

    @property
    def all(self) -> tuple[str, ...]:
        """All names, made on first use."""
        if self._made is None:
            self._made = tuple(self._make())
            assert len(self._made) == self._count, "names were miscounted"
        return self._made

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, i: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[str, ...]: ...
    def __getitem__(self, i: SupportsIndex | slice) -> str | tuple[str, ...]:
        return self.all[i]

    def __iter__(self) -> Iterator[str]:
        return iter(self.all)

    def __contains__(self, name: object) -> bool:
        return name in self.all

    def index(self, name: str, *span: int) -> int:
        """Index of a name, within a span where one is given."""
        return self.all.index(name, *span)

    def __eq__(self, other: object) -> bool:
        return self.all == (other.all if isinstance(other, Names) else other)

    def __hash__(self) -> int:
        return hash(self.all)

    def __repr__(self) -> str:
        return repr(self.all)


def parts_of_name(name: str) -> tuple[str, str]:
    """The named quantity and its point; "" of what holds nowhere in particular."""
    what, _, place = name.partition(" @ ")
    return what, place


#: ends the names of rows that stand in a unit of their own already: their entries are as small as what they hold at the guess
MEASURED = " (cone, by weight)"


def measured(name: str) -> bool:
    """Whether a row stands in a unit of its own already."""
    return name.endswith(MEASURED)


def phase_of(name: str) -> str:
    """The phase of what is named in a program of several, "" of what belongs to none or to a single one."""
    phase, several, _ = name.partition(": ")
    return phase if several else ""


def groups(names: Sequence[str]) -> dict[str, np.ndarray]:
    """The numbers of the names that are the same but for where they hold, in the order in which they first come: not to be written
    to."""
    return _groups(names.all if isinstance(names, Names) else tuple(names))


@lru_cache(maxsize=8)  # every step of a solve asks for those of the same program
def _groups(names: tuple[str, ...]) -> dict[str, np.ndarray]:
    found: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        found.setdefault(parts_of_name(name)[0], []).append(i)
    return {name: np.array(own) for name, own in found.items()}
