"""What bounds, and the ends by themselves, tell about a problem before anything is transcribed or solved."""

from ocp.reach.findings import end_findings, first_findings

__all__ = ["end_findings", "first_findings"]
