"""Findings about how a problem was formulated for a method, in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from ocp.app.sentences.wording import Wording
from ocp.problem.finding import Kind

SENTENCES: Mapping[Kind, Wording] = {
    Kind.ABSOLUTE_VALUE_AS_SUM: "{name}: solved as the difference of two nonnegative controls, whose sum is its absolute value in "
                                "the cost",
    Kind.NORM_AS_SLACK: "{name}: solved as a slack control that is at least the norm, and stands for it in the cost",
}
