"""Infeasibility that bounds and end conditions prove before anything is transcribed or solved."""

from ocp.reach.findings import end_findings, first_findings

__all__ = ["end_findings", "first_findings"]
