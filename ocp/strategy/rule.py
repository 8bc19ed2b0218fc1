"""A rule: a diagnosis, its remedy, and how often that may be tried."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from ocp.problem import Finding
from ocp.strategy.records import State
from ocp.strategy.search import Search

Diagnosis = Callable[[Search, State], Finding | None]
Remedy = Callable[[Search, State, Finding], State | None]


class Stage(enum.StrEnum):
    """The stages of a search in which a rule may be evaluated."""

    UNSOLVED = "a program was not solved"
    SOLVED = "a program was solved"
    ENDED = "the search ended"
    ANSWER = "the answer is certified"


@dataclass(frozen=True)
class Rule:
    """One row of the table.
    name: by which a file switches it off; stages: in which it is evaluated; diagnose(search, state): the finding, None if the rule
    does not apply; remedy(search, state, diagnosis): the state with another task, an ending or a better answer, None if it failed,
    so that the next rule is evaluated and this one not again; at_most: firings in one search, None for any number; refines: whether
    it concerns refined meshes; optional: whether a file may switch it off. when, does, improves: diagnosis, remedy and the quantity
    that must improve, for readers.

    """

    name: str
    stages: tuple[Stage, ...]
    diagnose: Diagnosis
    remedy: Remedy
    when: str
    does: str
    improves: str = ""
    at_most: int | None = None
    refines: bool = False
    optional: bool = False

    def serves(self, search: Search) -> bool:
        """Whether the rule applies to such a search."""
        return search.refinement is not None or not self.refines
