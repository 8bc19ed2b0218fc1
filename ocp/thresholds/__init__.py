"""The numbers that decide, by concern, each with its unit, its reason and a test of what it decides (``ocp show --thresholds``)."""

from ocp.thresholds.certificate import QUADRATURE, REINTEGRATION, SCALES, SEARCH, SECOND_ORDER, VERDICTS
from ocp.thresholds.explanation import EXPLANATION
from ocp.thresholds.reach import REACH
from ocp.thresholds.record import Threshold, listed
from ocp.thresholds.rounding import ROUNDING

__all__ = ["EXPLANATION", "QUADRATURE", "REACH", "RECORDS", "REINTEGRATION", "ROUNDING", "SCALES", "SEARCH", "SECOND_ORDER",
           "VERDICTS", "Threshold", "thresholds"]

RECORDS = (ROUNDING, SCALES, SEARCH, QUADRATURE, REINTEGRATION, SECOND_ORDER, VERDICTS, REACH, EXPLANATION)


def thresholds() -> tuple[Threshold, ...]:
    """All of them."""
    return listed(RECORDS)
