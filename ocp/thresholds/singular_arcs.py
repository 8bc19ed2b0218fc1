"""Thresholds of controls along singular arcs, where the smoothest of all that the program hardly tells apart is chosen."""

from __future__ import annotations

from dataclasses import dataclass

from ocp.thresholds.record import threshold

_TESTS = "tests/ocp/transcription/test_refinement_singular.py::"


@dataclass(frozen=True)
class Smoothing:
    """Where controls are singular, and how they are smoothed."""

    guide_weight: float = threshold(
        1e-3, why="weight of the roughness beside the objective, in scales of the objective, for the guide of the search for "
        "switches",
        test=_TESTS + "test_singular_arcs_of_the_gallery")
    proximal_weight: float = threshold(
        1e-4, why="the same of proximal steps", test=_TESTS + "test_singular_arcs_of_the_gallery")
    guide_solves: int = threshold(
        3, why="solves for the guide; after each but the last, terms of the roughness that are still large lose their weight: "
        "kinks and jumps",
        test=_TESTS + "test_singular_arcs_of_the_gallery")
    max_steps: int = threshold(
        8, why="proximal steps", test=_TESTS + "test_chattering_ends_in_plain_words")
    min_control_change: float = threshold(
        1e-3, why="part of its range by which a control must be off its bounds to be singular, or off its guess to be worth a fit",
        test=_TESTS + "test_a_singular_arc_in_closed_form")
    min_arc: int = threshold(
        3, why="intervals in a row off the bounds that make an arc; fewer are a switch",
        test="tests/ocp/transcription/test_refinement_switches.py::test_block_in_the_least_time")


SMOOTHING = Smoothing()
