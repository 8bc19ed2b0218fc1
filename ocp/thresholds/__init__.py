"""The numbers that decide, by concern, each with its unit, its reason and a test of what it decides (``ocp show --thresholds``)."""

from ocp.thresholds.certificate import QUADRATURE, REINTEGRATION, SCALES, SEARCH, SECOND_ORDER, VERDICTS
from ocp.thresholds.closed_loop import CLOSED_LOOPS
from ocp.thresholds.explanation import EXPLANATION, REACH
from ocp.thresholds.formulation import FORMULATION, GUESSES, ROUNDING
from ocp.thresholds.minimum_principle import MINIMUM_PRINCIPLE
from ocp.thresholds.record import Threshold, listed
from ocp.thresholds.refinement import CRITERION, MESH_CHANGE, SMOOTHING, SWITCHES, TIGHTENING, WARM_START
from ocp.thresholds.strategy import ANSWERS, BUDGETS, DIAGNOSES

__all__ = ["ANSWERS", "BUDGETS", "CLOSED_LOOPS", "CRITERION", "DIAGNOSES", "EXPLANATION", "FORMULATION", "GUESSES", "MESH_CHANGE",
           "MINIMUM_PRINCIPLE", "QUADRATURE", "REACH", "RECORDS", "REINTEGRATION", "ROUNDING", "SCALES", "SEARCH", "SECOND_ORDER",
           "SMOOTHING", "SWITCHES", "TIGHTENING", "VERDICTS", "WARM_START", "Threshold", "thresholds"]

RECORDS = (ROUNDING, FORMULATION, GUESSES, BUDGETS, DIAGNOSES, ANSWERS, CRITERION, TIGHTENING, MESH_CHANGE, WARM_START, SMOOTHING,
           SWITCHES, SCALES, SEARCH, QUADRATURE, REINTEGRATION, SECOND_ORDER, MINIMUM_PRINCIPLE, VERDICTS, REACH,
           EXPLANATION, CLOSED_LOOPS)


def thresholds() -> tuple[Threshold, ...]:
    """All of them."""
    return listed(RECORDS)
