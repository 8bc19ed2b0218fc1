"""Tables of what names stand for, to which rows may be added: a new kind of thing is a record of it and a row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Protocol, TypeVar


class Named(Protocol):
    """A record with a name."""

    @property
    def name(self) -> str:
        """By which it is asked for."""


Row = TypeVar("Row", bound=Named)


class Table(Mapping[str, Row]):
    """Entries by name, in order. `what`: their kind in messages; refuse: makes the error of a name that is already used."""

    def __init__(self, what: str, rows: Iterable[Row], refuse: Callable[[str], Exception]):
        self._what, self._rows, self._refuse = what, {row.name: row for row in rows}, refuse

    def register(self, row: Row) -> Row:
        """Add a row for this process, and hand it back. Raises the error of the table where its name is taken."""
        if row.name in self._rows:
            raise self._refuse(f"there is {self._what} {row.name!r} already")
        self._rows[row.name] = row
        return row

    def __getitem__(self, name: str) -> Row:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class Names(Collection[str]):
    """The names of several collections, as they are when they are asked for."""

    def __init__(self, *parts: Collection[str]):
        self._parts = parts

    def __contains__(self, name: object) -> bool:
        return any(name in part for part in self._parts)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for part in self._parts for name in part))

    def __len__(self) -> int:
        return sum(1 for _ in self)
