"""The examples of the interface page give what they say."""

import doctest
import importlib

import pytest

from ocp.app.documentation.pages import MODULES, interface_page

EXAMPLES = [name for name in MODULES if any(test.examples for test in doctest.DocTestFinder().find(importlib.import_module(name)))]


def test_rooms_of_redmax_have_examples():
    """Each that no command reaches."""
    rooms = ("equations", "recursive", "free_bodies", "programs", "friction", "deformable", "implicit")
    reached = {f"dynamics.redmax.{room}" for room in rooms}
    assert reached <= set(EXAMPLES)
    assert all(f"automodule:: {name}\n" in interface_page() for name in reached)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0
