"""Gaits as data: which feet swing together, when each lifts off and touches down, where feet and base are on the way."""

from ocp.gaits.patterns import PATTERNS, Pattern, roles, swings_of
from ocp.gaits.schedule import Landing, Schedule, Stretch

__all__ = ["PATTERNS", "Landing", "Pattern", "Schedule", "Stretch", "roles", "swings_of"]
